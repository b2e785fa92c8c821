/* Shared by the files of victim: the rows of the tables, and common functions. */
#ifndef CORE_VICTIM_H
#define CORE_VICTIM_H

#include "../support.h"

enum { FLOOD = 100, EXIT, STARTED, ASK, ANSWER, STAY };

struct choice {
    const char *name;
    void (*run)(void);
    /* Called in all ranks: before aq_init, from which some do not return, and before the ends. */
    void (*before)(void);
    void (*prepare)(void);
    int value; /* the value that main returns */
    bool threads;
};

/* How the last rank ends, and where the others are. */
const struct choice *victim_end(const char *name);
const struct choice *victim_place(const char *name);
/* The row of this name; exits if there is none. */
const struct choice *victim_find(const struct choice *choices, size_t count, const char *name);

extern aq_team *divided; /* all ranks again */
extern _Atomic uint32_t received;

/* Whether this process is the one that ends. May be called before aq_init. */
bool victim_is_last(void);
/* For observers outside the job (AQT_MARKS=1): print "#WORD" to standard error at once. */
void victim_mark(const char *word);
/* Usually long enough for the others to reach their state, but the tests do not depend on that. */
void victim_pass_time(void);

#endif
