/* The table of exits: what its rows say, and who runs them. */
#ifndef JOB_EXITS_H
#define JOB_EXITS_H

#include "harness.h"

/* Whose line "rank N was here", still in its buffer at the end, is printed. */
enum exit_prints { PRINT_ALL, PRINT_OTHERS, PRINT_LAST, PRINT_ANY };

#define CODE_OF_FIRST (-1)  /* ranks exit with 10 and their number: that of who is heard first */
#define ANYTHING      "*"   /* on standard error */
#define OVER_SHM      "shm" /* only */
#define OVER_UDP      "udp"

/* A row is called HOW/WHERE or HOW/WHERE/NOTE. */
struct exit_case {
    const char *how, *where, *note;
    int code;
    const char *said; /* on standard error, with @ for the last rank; NULL: nothing at all */
    enum exit_prints prints;
    bool deaf;         /* some do not look: signals end them, after parts of AQ_EXIT_TIMEOUT */
    bool killed;       /* aqrun is: what is left ends soon after it */
    bool alone;        /* without aqrun */
    bool direct;       /* only where ranks have the output of aqrun itself: on its host */
    bool verbose;      /* aqrun -v */
    bool relayed;      /* aqrun -p: through it, in whole lines */
    const char *set;   /* a setting, or several with " -E " between */
    const char *shell; /* redirections */
    const char *over;  /* one transport only */
    double limit;      /* s; 0: as all */
    unsigned ranks;    /* not as given */
    unsigned repeats;  /* 0: once */
    bool quits;        /* all but one hear of SIGQUIT */
    const char *each;  /* printed by each rank, */
    unsigned times;    /* so often */
    /* What is done from outside once all are where they are to be; time counts from here. */
    void (*drive)(struct run *run, unsigned ranks);
};

extern const struct exit_case exit_cases[];
extern const size_t exit_cases_count;

#endif
