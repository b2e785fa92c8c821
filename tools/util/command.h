/* The command line of a tool as a table: parsing, complaints and --help come from its rows. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* An option. --help and --version are in every table. */
struct command_row {
    char letter; /* 0: only the long name */
    const char *name;
    const char *arg; /* what it takes; NULL: nothing */
    const char *doc;
    /* Actions of the option, in this order, where not NULL. */
    void (*take)(const char *value);
    void (*each)(const char *item); /* is called for the items of a comma separated list */
    const char **text;              /* is set to what is given */
    bool *flag;                     /* is set to true */
    unsigned *number;               /* is set to `value` */
    unsigned *bits;                 /* gets those of `value`, too */
    unsigned value;
    const char *variable; /* of the environment, is set to what is given, or to "yes" */
};

struct command_line {
    const char *tool, *version;
    const char *head, *tail; /* of --help, around the options */
    const struct command_row *rows;
    size_t count;
    bool stops;  /* at the first word that is no option */
    bool dash;   /* long names may have a single dash, too; with `stops` only */
    bool silent; /* another process of the job says it */
};

/* The index of the first word that is no option. Ends the program after --help and --version, and
 * with code 2 when something is wrong. */
int command_read(const struct command_line *line, int argc, char **argv);

/* Say what is wrong and where help is, and end with code 2; once command_read has begun. */
__attribute__((format(printf, 1, 2), noreturn)) void command_wrong(const char *format, ...);
/* Print what was asked for, unless silent, and end. */
__attribute__((noreturn)) void command_tell(void (*text)(void));
/* Print a text to where a line has come to `indent`, in lines of `width` with that indent. */
void command_wrap(const char *text, int indent, int width);
/* Whether all of standard output could be written; says so if not. The last thing a tool does. */
bool command_written(void);

#endif
