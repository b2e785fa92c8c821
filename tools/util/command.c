/* The command line of a tool, defined by a table from which parsing, error messages and --help are
 * derived. */
#include "command.h"
#include "base/nearest.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* LONG: values of long options without a letter are above those of letters. */
enum { OPTIONS = 40, INDENT = 27, WIDTH = 98, LEAST_WIDTH = 60, LONG = 256 };

static struct command_line command; /* a copy, as it is used until the program ends */
static char option[40];             /* the current one: -n or --ranks, as it was given */

void command_error(const char *format, ...)
{
    va_list args;
    if (command.silent) {
        sleep(1); /* another rank prints the error, and the end of this one ends the job */
        exit(2);
    }
    va_start(args, format);
    fprintf(stderr, "%s: ", command.tool);
    vfprintf(stderr, format, args);
    fprintf(stderr, " (%s --help shows the options)\n", command.tool);
    va_end(args);
    exit(2);
}

void command_print(void (*text)(void))
{
    if (!command.silent) text();
    exit(command_written() ? 0 : 1);
}

bool command_written(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    fprintf(stderr, "%s: cannot write standard output: %s\n", command.tool,
            errno != 0 ? strerror(errno) : "an earlier write failed");
    return false;
}

static void version(void)
{
    printf("%s %s\n", command.tool, command.version);
}

/* The columns to fill: those of the terminal that is standard output, within limits. */
static int columns(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_col > WIDTH)
        return WIDTH;
    return size.ws_col < LEAST_WIDTH ? LEAST_WIDTH : size.ws_col;
}

void command_wrap(const char *text, int indent)
{
    int column = 0, width = columns();
    while (*(text += strspn(text, " \n")) != '\0') {
        int word = (int)strcspn(text, " \n");
        bool fits = column + 1 + word <= width;
        if (column > 0) printf(fits ? " " : "\n%*s", indent, "");
        column = (column > 0 && fits ? column + 1 : indent) + word;
        printf("%.*s", word, text);
        text += word;
    }
    putchar('\n');
}

/* Print an option and its other effects. */
static void describe(const struct command_row *row)
{
    char letter[] = {'-', row->letter, ',', ' ', '\0'}, left[64];
    snprintf(left, sizeof left, "%s--%s%s%s", row->letter != 0 ? letter : "", row->name,
             row->arg != NULL ? " " : "", row->arg != NULL ? row->arg : "");
    printf("  %-*s  ", INDENT - 4, left);
    command_wrap(row->doc, INDENT);
}

/* Print paragraphs, each filled unless one of its lines is indented. */
static void paragraphs(const char *text)
{
    while (*text != '\0') {
        const char *gap = strstr(text, "\n\n");
        size_t len = gap != NULL ? (size_t)(gap - text) + 1 : strlen(text);
        char *paragraph = *text != '\n' && *text != ' ' ? strndup(text, len) : NULL;
        if (*text == '\n') len = 1;
        if (paragraph != NULL && strstr(paragraph, "\n ") == NULL)
            command_wrap(paragraph, 0);
        else
            fwrite(text, 1, len, stdout);
        free(paragraph);
        text += len;
    }
}

static const struct command_row help_row = {'h', "help", NULL, "print this text", .take = NULL};
static const struct command_row version_row = {'V', "version", NULL, "print the version",
                                               .take = NULL};

static void help(void)
{
    paragraphs(command.head);
    for (size_t i = 0; i < command.count; i++)
        describe(&command.rows[i]);
    describe(&help_row);
    describe(&version_row);
    paragraphs(command.tail);
}

static const struct command_row *row_at(size_t i)
{
    if (i < command.count) return &command.rows[i];
    return i == command.count ? &help_row : &version_row;
}

/* List the options that begin with `given`, --NAME or --NAME=VALUE; `*count` is set to their
 * number. */
static void beginning(const char *given, char *text, size_t room, size_t *count)
{
    size_t length = strcspn(given, "="), at = 0;
    *count = 0;
    for (size_t i = 0; i < command.count + 2; i++) {
        const char *name = row_at(i)->name;
        if (length <= 2 || strncmp(name, given + 2, length - 2) != 0) continue;
        int len = snprintf(text + at, room - at, "%s--%s", *count != 0 ? ", " : "", name);
        if (len > 0 && (size_t)len < room - at) at += (size_t)len;
        ++*count;
    }
}

/* Report that there is no such option, or that its argument is missing or not allowed. */
__attribute__((noreturn)) static void unknown(int result, const char *given)
{
    struct aqi_nearest nearest;
    char names[256];
    size_t count;
    bool is_letter = optopt > 0 && optopt < LONG;
    if (result == ':' && is_letter) command_error("-%c needs an argument", optopt);
    if (result == ':') command_error("--%s needs an argument", row_at((size_t)optopt - LONG)->name);
    if (is_letter) command_error("unknown option -%c", optopt);
    beginning(given, names, sizeof(names), &count);
    if (count > 1) command_error("%s is ambiguous: give one of %s", given, names);
    aqi_nearest_begin(&nearest, given + 2);
    for (size_t i = 0; i < command.count + 2; i++)
        aqi_nearest_offer(&nearest, row_at(i)->name);
    if (nearest.best != NULL && nearest.distance > 0)
        command_error("unknown option %s: did you mean --%s?", given, nearest.best);
    command_error("unknown option %s, or it takes no argument", given);
}

/* Call `item` for each part of a comma-separated list. */
static void each(const struct command_row *row, const char *list)
{
    char part[64];
    for (;;) {
        size_t length = strcspn(list, ",");
        if (length == 0 || length >= sizeof part)
            command_error("%s %s: an item is empty or too long", option, list);
        memcpy(part, list, length);
        part[length] = '\0';
        row->each(part);
        if (list[length] == '\0') return;
        list += length + 1;
    }
}

static unsigned number(const struct command_row *row, const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < row->min || value > row->max)
        command_error("%s %s: give a number from %u to %u", option, text, row->min, row->max);
    return (unsigned)value;
}

static void take(const struct command_row *row, const char *value)
{
    if (row == &help_row) command_print(help);
    if (row == &version_row) command_print(version);
    if (row->take != NULL) row->take(value);
    if (row->each != NULL) each(row, value);
    if (row->text != NULL) *row->text = value;
    if (row->flag != NULL) *row->flag = true;
    if (row->number != NULL) *row->number = number(row, value);
    if (row->bits != NULL) *row->bits |= row->value;
    if (row->variable != NULL && setenv(row->variable, value != NULL ? value : "yes", 1) != 0)
        command_error("%s: %s", option, strerror(errno));
}

/* Convert -name or -name=VALUE to --name, for getopt. */
static void lengthen(char **word)
{
    const char *name = *word + 1;
    size_t length = strcspn(name, "=");
    if (**word != '-' || *name == '-' || length < 2) return;
    for (size_t i = 0; i < command.count + 2; i++) {
        const char *known = row_at(i)->name;
        if (strlen(known) != length || memcmp(name, known, length) != 0) continue;
        char *longer;
        if (asprintf(&longer, "-%s", *word) < 0) command_error("%s: %s", *word, strerror(errno));
        *word = longer; /* never freed, like argv */
        return;
    }
}

int command_read(const struct command_line *line, int argc, char **argv)
{
    struct option names[OPTIONS + 1] = {{0}};
    char letters[2 * OPTIONS + 3] = "+:";
    size_t used = 2;
    command = *line;
    for (size_t i = 0; i < command.count + 2 && i < OPTIONS; i++) {
        const struct command_row *row = row_at(i);
        names[i] = (struct option){row->name, row->arg != NULL, NULL, LONG + (int)i};
        if (row->letter == 0) continue;
        letters[used++] = row->letter;
        if (row->arg != NULL) letters[used++] = ':';
    }
    const char *known = command.stops ? letters : letters + 1;
    for (;;) {
        if (command.dash && optind < argc) lengthen(&argv[optind]);
        int found = getopt_long(argc, argv, known, names, NULL);
        if (found == -1) break;
        if (found == '?' || found == ':') unknown(found, argv[optind - 1]);
        size_t i = found >= LONG ? (size_t)found - LONG : 0;
        while (found < LONG && row_at(i)->letter != found)
            i++;
        if (found < LONG)
            snprintf(option, sizeof option, "-%c", found);
        else
            snprintf(option, sizeof option, "--%s", row_at(i)->name);
        take(row_at(i), optarg);
    }
    return optind;
}
