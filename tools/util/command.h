/* The command line of a tool as a table: parsing, complaints and --help come from its rows. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* An option. --help and --version are in every table. */
struct command_row {
    char letter; /* 0: only the long name */
    const char *name;
    const char *arg; /* its argument; NULL: none */
    const char *doc;
    /* Actions of the option, in this order, if not NULL. */
    void (*take)(const char *value);
    void (*each)(const char *item); /* called for each item of a comma-separated list */
    const char **text;              /* set to the argument */
    bool *flag;                     /* set to true */
    unsigned *number;               /* set to `value` */
    unsigned *bits;                 /* the bits of `value` are set in it */
    unsigned value;
    const char *variable; /* environment variable to be set to the argument, or to "yes" */
};

struct command_line {
    const char *tool, *version;
    const char *head, *tail; /* of --help, before and after the options */
    const struct command_row *rows;
    size_t count;
    bool stops;  /* at the first word that is not an option */
    bool dash;   /* long names may also have a single dash; with `stops` only */
    bool silent; /* another process of the job prints messages */
};

/*
 * The index of the first word that is not an option. Ends the program after --help and --version,
 * and with code 2 after an error.
 */
int command_read(const struct command_line *line, int argc, char **argv);

/*
 * Print the error and a pointer to --help, and exit with code 2. Only after command_read has begun.
 */
__attribute__((format(printf, 1, 2), noreturn)) void command_wrong(const char *format, ...);
/* Print the requested text, unless silent, and exit. */
__attribute__((noreturn)) void command_tell(void (*text)(void));
/* Print a text after a line has reached `indent`, in lines of `width` with that indent. */
void command_wrap(const char *text, int indent, int width);
/* Whether all of standard output could be written; prints an error if not. A tool calls it last. */
bool command_written(void);

#endif
