/* Words of commands, quoted for users and shells, as printed by -t. */
#ifndef AQRUN_PRINT_H
#define AQRUN_PRINT_H

/* Print NAME=VALUE and a blank. */
void print_variable(const char *name, const char *value);
/* Print all words of a command. */
void print_words(char *const *words);

#endif
