/* The command line of a tool as a table: parsing, complaints and --help come from its rows. */
#include "command.h"
#include "names.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* LONG: the numbers of long options are beyond those of letters. */
enum { OPTIONS = 32, INDENT = 27, WIDTH = 98, LONG = 256 };

static const struct command_line *command;
static const char *tool; /* its name; the table may be gone by the end of the program */

void command_wrong(const char *format, ...)
{
    va_list args;
    if (command->silent) {
        sleep(1); /* who says it needs the time, since our end is that of the job */
        exit(2);
    }
    va_start(args, format);
    fprintf(stderr, "%s: ", command->tool);
    vfprintf(stderr, format, args);
    fprintf(stderr, " (%s --help shows the options)\n", command->tool);
    va_end(args);
    exit(2);
}

void command_tell(void (*text)(void))
{
    if (!command->silent) text();
    exit(command_written() ? 0 : 1);
}

bool command_written(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    fprintf(stderr, "%s: cannot write standard output: %s\n", tool,
            errno != 0 ? strerror(errno) : "an earlier write failed");
    return false;
}

static void version(void)
{
    printf("%s %s\n", command->tool, command->version);
}

/* The option, and what it does beside it, in lines of WIDTH. */
static void describe(const struct command_row *row)
{
    char letter[] = {'-', row->letter, ',', ' ', '\0'}, left[64];
    snprintf(left, sizeof left, "%s--%s%s%s", row->letter != 0 ? letter : "", row->name,
             row->arg != NULL ? " " : "", row->arg != NULL ? row->arg : "");
    printf("  %-*s", INDENT - 4, left);
    size_t column = WIDTH;
    for (const char *word = row->doc; *word != '\0';) {
        size_t length = strcspn(word, " ");
        bool first = word == row->doc, fits = column + 1 + length <= WIDTH;
        if (first)
            printf("  ");
        else
            printf(fits ? " " : "\n%*s", INDENT, "");
        column = (first || !fits ? (size_t)INDENT : column + 1) + length;
        printf("%.*s", (int)length, word);
        word += length + strspn(word + length, " ");
    }
    printf("\n");
}

static const struct command_row help_row = {'h', "help", NULL, "print this text", {.take = NULL}};
static const struct command_row version_row = {
    'V', "version", NULL, "print the version", {.take = NULL}};

static void help(void)
{
    fputs(command->head, stdout);
    for (size_t i = 0; i < command->count; i++)
        describe(&command->rows[i]);
    describe(&help_row);
    describe(&version_row);
    fputs(command->tail, stdout);
}

static const struct command_row *row_at(size_t i)
{
    if (i < command->count) return &command->rows[i];
    return i == command->count ? &help_row : &version_row;
}

/* getopt found no such option, or no argument where one must be, or one too many. */
__attribute__((noreturn)) static void unknown(int result, const char *given)
{
    struct nearest nearest;
    bool is_letter = optopt > 0 && optopt < LONG;
    if (result == ':' && is_letter) command_wrong("-%c needs an argument", optopt);
    if (result == ':') command_wrong("--%s needs an argument", row_at((size_t)optopt - LONG)->name);
    if (is_letter) command_wrong("there is no option -%c", optopt);
    nearest_begin(&nearest, given + 2);
    for (size_t i = 0; i < command->count + 2; i++)
        nearest_offer(&nearest, row_at(i)->name);
    if (nearest.best != NULL && nearest.distance > 0)
        command_wrong("%s is no option; maybe --%s?", given, nearest.best);
    command_wrong("%s is no option, or takes no argument", given);
}

static void take(const struct command_row *row, const char *value)
{
    if (row == &help_row) command_tell(help);
    if (row == &version_row) command_tell(version);
    if (row->does.take != NULL) row->does.take(value);
    if (row->does.text != NULL) *row->does.text = value;
    if (row->does.flag != NULL) *row->does.flag = true;
    if (row->does.bits != NULL) *row->does.bits |= row->does.value;
}

int command_read(const struct command_line *line, int argc, char **argv)
{
    struct option names[OPTIONS + 1] = {{0}};
    char letters[2 * OPTIONS + 3] = "+:";
    size_t used = 2;
    command = line;
    tool = line->tool;
    for (size_t i = 0; i < command->count + 2 && i < OPTIONS; i++) {
        const struct command_row *row = row_at(i);
        names[i] = (struct option){row->name, row->arg != NULL, NULL, LONG + (int)i};
        if (row->letter == 0) continue;
        letters[used++] = row->letter;
        if (row->arg != NULL) letters[used++] = ':';
    }
    const char *known = command->stops ? letters : letters + 1;
    for (int found; (found = getopt_long(argc, argv, known, names, NULL)) != -1;) {
        if (found == '?' || found == ':') unknown(found, argv[optind - 1]);
        size_t i = found >= LONG ? (size_t)found - LONG : 0;
        while (found < LONG && row_at(i)->letter != found)
            i++;
        take(row_at(i), optarg);
    }
    return optind;
}
