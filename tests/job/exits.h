/* The table of exits: its rows, and the interface to the program that runs them. */
#ifndef JOB_EXITS_H
#define JOB_EXITS_H

#include "harness.h"

/*
 * Ranks whose line "rank N was here" must be printed, although it is still in their buffers at the
 * end.
 */
enum exit_prints { PRINT_ALL, PRINT_OTHERS, PRINT_LAST, PRINT_ANY };

#define CODE_OF_FIRST (-1)  /* 10 plus the number of the rank whose exit is noticed first */
#define ANYTHING      "*"   /* on standard error */
#define OVER_SHM      "shm" /* only */
#define OVER_UDP      "udp"

/* A row is called HOW/WHERE or HOW/WHERE/NOTE. */
struct exit_case {
    const char *how, *where, *note;
    int code;
    const char *said; /* on standard error, with @ for the last rank; NULL: nothing at all */
    enum exit_prints prints;
    bool deaf;    /* some do not notice the end: signals end them, after parts of AQ_EXIT_TIMEOUT */
    bool killed;  /* aqrun is killed: other processes end soon after it */
    bool alone;   /* without aqrun */
    bool direct;  /* only where ranks share the output of aqrun, that is, on its host */
    bool verbose; /* aqrun -v */
    bool relayed; /* aqrun -p: relayed, in whole lines */
    const char *set;   /* a setting, or several separated by " -E " */
    const char *shell; /* redirections */
    const char *over;  /* one transport only */
    double limit;      /* s; 0: the default */
    unsigned ranks;    /* 0: that of --ranks */
    unsigned repeats;  /* 0: once */
    bool quits;        /* all but one handle SIGQUIT */
    const char *each;  /* printed by each rank, */
    unsigned times;    /* this many times */
    /* The action from outside once all ranks are in their state; time is measured from here. */
    void (*drive)(struct run *run, unsigned ranks);
};

extern const struct exit_case exit_cases[];
extern const size_t exit_cases_count;

#endif
