/* Between the files of victim: what each row of a table is, and what they share. */
#ifndef CORE_VICTIM_H
#define CORE_VICTIM_H

#include "../support.h"

enum { FLOOD = 100, EXIT, STARTED, ASK, ANSWER, STAY };

struct choice {
    const char *name;
    void (*run)(void);
    /* In all ranks: before aq_init, in which some get no further; and before the ends. */
    void (*before)(void);
    void (*prepare)(void);
    int value; /* what main returns */
    bool threads;
};

/* How the last rank ends, and where the others are. */
const struct choice *victim_end(const char *name);
const struct choice *victim_place(const char *name);
/* The row of this name; ends the program when there is none. */
const struct choice *victim_find(const struct choice *choices, size_t count, const char *name);

extern aq_team *divided; /* all ranks again */
extern _Atomic uint32_t received;

/* Is this process the one that ends? Also before aq_init. */
bool victim_is_last(void);
/* For who looks from outside (AQT_MARKS=1): "#WORD" on standard error, at once. */
void victim_mark(const char *word);
/* Long enough for the others to get to where they are to be; they need not be there. */
void victim_pass_time(void);

#endif
