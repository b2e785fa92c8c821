/* The command line of a tool, defined by a table from which parsing, error messages and --help are
 * derived. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* An option. --help and --version are added to every table. */
struct command_row {
    char letter; /* 0: long name only */
    const char *name;
    const char *arg; /* name of its argument; NULL: none */
    const char *doc;
    /* Actions of the option, performed in this order unless NULL. */
    void (*take)(const char *value);
    void (*each)(const char *item); /* called for each item of a comma-separated list */
    const char **text;              /* set to the argument */
    bool *flag;                     /* set to true */
    unsigned *number;               /* set to the argument, a number from `min` to `max` */
    unsigned min, max;
    unsigned *bits; /* the bits of `value` are set in it */
    unsigned value;
    const char *variable; /* environment variable, set to the argument or to "yes" */
};

struct command_line {
    const char *tool, *version;
    const char *head, *tail; /* paragraphs of --help before and after the options */
    const struct command_row *rows;
    size_t count;
    bool stops;  /* parsing stops at the first word that is not an option */
    bool dash;   /* long names may also begin with a single dash; only with `stops` */
    bool silent; /* messages are printed by another process of the job */
};

/*
 * Returns the index of the first word that is not an option. Exits after --help and --version, and
 * with code 2 after an error.
 */
int command_read(const struct command_line *line, int argc, char **argv);

/*
 * Print the error and a pointer to --help, and exit with code 2. May be called only once
 * command_read has been called.
 */
__attribute__((format(printf, 1, 2), noreturn)) void command_error(const char *format, ...);
/* Print the requested text, unless silent, and exit. */
__attribute__((noreturn)) void command_print(void (*text)(void));
/* Print a text in lines that fit the terminal, if standard output is one, indented by `indent`. The
 * caller has printed the indentation of the first line. */
void command_wrap(const char *text, int indent);
/* Flush standard output. Returns false after printing an error if not all has been written. */
bool command_written(void);

#endif
