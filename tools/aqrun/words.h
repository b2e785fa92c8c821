/* The words of a command: a list that grows. */
#ifndef AQRUN_WORDS_H
#define AQRUN_WORDS_H

#include "base/base.h"

/* Initialize to zero. */
struct words {
    char **argv; /* NULL-terminated; NULL if there are none */
    size_t used, room;
    bool failed; /* out of memory */
};

void words_add(struct words *to, const char *fmt, ...) AQI_PRINTF(2, 3);
/* Add a text after a prefix, and free it; NULL: out of memory. */
void words_add_text(struct words *to, const char *prefix, char *text);
/* Add the words of a text, by the rules of the shell. The end of the text closes quotes. */
void words_split(struct words *to, const char *text);

/* Returns the list, or NULL if out of memory. */
char **words_finish(struct words *words);
void words_free(char **argv);

#endif
