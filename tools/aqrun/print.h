/* Words of commands for people and shells to read, as -t prints them. */
#ifndef AQRUN_PRINT_H
#define AQRUN_PRINT_H

/* NAME=VALUE and a blank. */
void print_variable(const char *name, const char *value);
/* All words of a command. */
void print_words(char *const *words);

#endif
