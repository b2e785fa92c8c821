/* The command line of aqrun, as one table: parsing and --help come from its rows. */
#include "options.h"

#include "base/settings.h"
#include "job.h"
#include "job/boot.h"
#include "names.h"

#include <aqueduct/version.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct option_row {
    const char *name;
    const char *arg; /* NULL: takes none */
    const char *doc;
    void (*take)(struct options *options, const char *value);
    char letter; /* 0: only the long name */
};

static _Noreturn void options_wrong(const char *fmt, ...) AQI_PRINTF(1, 2);

static _Noreturn void options_wrong(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("aqrun: ", stderr);
    vfprintf(stderr, fmt, args);
    fputs(" (aqrun --help shows the options)\n", stderr);
    va_end(args);
    exit(EXIT_USAGE);
}

static void option_ranks(struct options *options, const char *value)
{
    static const struct aqi_setting row = {
        .name = "-n", .type = AQI_SET_COUNT, .min = 1, .max = AQI_MAX_RANKS};
    uint64_t ranks;
    if (!aqi_setting_read(&row, value, &ranks))
        options_wrong("-n %.40s is not legal: give the number of processes, 1 to %u", value,
                      AQI_MAX_RANKS);
    options->ranks = (uint32_t)ranks;
}

static bool option_is_name(const char *text, size_t len)
{
    if (len == 0 || (text[0] >= '0' && text[0] <= '9')) return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!letter && !(c >= '0' && c <= '9') && c != '_') return false;
    }
    return true;
}

static void option_assign(const char *value, size_t name_len)
{
    char *name = strndup(value, name_len);
    if (name == NULL || setenv(name, value + name_len + 1, 1) != 0)
        die("-E %s: %s", value, strerror(errno));
    free(name);
}

/* The processes inherit the whole environment: a name only has to be there. */
static void option_require(const char *value, size_t len)
{
    char *name = strndup(value, len);
    if (name == NULL) die("-E %s: %s", value, strerror(errno));
    if (getenv(name) == NULL)
        options_wrong("-E %s: this variable is not set; set it, or write -E %s=VALUE", name, name);
    free(name);
}

static void option_environment(struct options *options, const char *value)
{
    (void)options;
    size_t name_len = strcspn(value, "=,");
    if (value[name_len] == '=' && option_is_name(value, name_len)) {
        option_assign(value, name_len);
        return;
    }
    for (const char *at = value;; at++) {
        size_t len = strcspn(at, ",");
        if (!option_is_name(at, len))
            options_wrong("-E %.80s: \"%.*s\" is no name of a variable; write -E NAME,NAME or -E "
                          "NAME=VALUE",
                          value, (int)aqi_min(len, 40), at);
        option_require(at, len);
        at += len;
        if (*at == '\0') return;
    }
}

static void option_transports(struct options *options, const char *value)
{
    (void)options;
    if (setenv("AQ_TRANSPORTS", value, 1) != 0) die("-T %s: %s", value, strerror(errno));
}

static void option_survive(struct options *options, const char *value)
{
    (void)options;
    (void)value;
    if (setenv("AQ_SURVIVE", "yes", 1) != 0) die("--survive: %s", strerror(errno));
}

static void option_timeout(struct options *options, const char *value)
{
    static const struct aqi_setting row = {.name = "--timeout",
                                           .type = AQI_SET_TIME,
                                           .unit = "s",
                                           .min = 1000000,
                                           .max = 10000000ull * 1000000000};
    if (!aqi_setting_read(&row, value, &options->timeout_ns)) {
        char complaint[256];
        aqi_setting_complain(&row, row.name, value, complaint, sizeof(complaint));
        options_wrong("%s", complaint);
    }
}

static void option_prefix(struct options *options, const char *value)
{
    (void)value;
    options->prefix = true;
}

static void option_verbose(struct options *options, const char *value)
{
    (void)value;
    options->verbose = true;
}

static void option_test_only(struct options *options, const char *value)
{
    (void)value;
    options->test_only = true;
}

static _Noreturn void options_finish_output(void)
{
    exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILED);
}

static void option_version(struct options *options, const char *value)
{
    (void)options;
    (void)value;
    printf("aqrun %s\n", aq_version());
    options_finish_output();
}

static void option_help(struct options *options, const char *value);

static const struct option_row option_rows[] = {
    {.letter = 'n',
     .name = "ranks",
     .arg = "N",
     .doc = "start N processes, 1 to 65536 (default 1)",
     .take = option_ranks},
    {.letter = 'E',
     .name = "env",
     .arg = "VAR[,VAR...]",
     .doc = "these variables must be set here and reach the processes; with VAR=VALUE: set one",
     .take = option_environment},
    {.letter = 'T',
     .name = "transport",
     .arg = "LIST",
     .doc = "the transports to choose from (sets AQ_TRANSPORTS; aqinfo shows them)",
     .take = option_transports},
    {.letter = 'p',
     .name = "prefix",
     .doc = "begin each line of output with the number of its process: [3] text",
     .take = option_prefix},
    {.letter = 'v',
     .name = "verbose",
     .doc = "say on standard error what is happening",
     .take = option_verbose},
    {.letter = 't',
     .name = "test",
     .doc = "test only: print what would be run, one line per process, and run nothing",
     .take = option_test_only},
    {.name = "survive",
     .doc = "go on when a process dies, and tell the others (sets AQ_SURVIVE=yes)",
     .take = option_survive},
    {.name = "timeout",
     .arg = "TIME",
     .doc = "end the job when it runs longer, such as 90s or 10m; the exit code is then 124",
     .take = option_timeout},
    {.letter = 'h', .name = "help", .doc = "print this text", .take = option_help},
    {.name = "version", .doc = "print the version", .take = option_version},
};

static const char options_head[] =
    "usage: aqrun [OPTION...] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Start the processes of a job on this machine, and end them together.\n"
    "\n";

static const char options_tail[] =
    "\n"
    "The processes inherit the environment, the folder, and standard output and error. The first\n"
    "one has the standard input of aqrun, the others have /dev/null. Each finds its number in\n"
    "AQ_RANK and AQ_LOCAL_RANK, the number of all in AQ_SIZE and AQ_LOCAL_SIZE and a name for the\n"
    "job in AQ_JOB_ID, so that a shell can tell them apart:\n"
    "\n"
    "    aqrun -n 2 sh -c 'taskset -c $AQ_RANK ./program'\n"
    "\n"
    "A process that is killed, or ends without aq_finalize after it called aq_init, or ends with\n"
    "another code than 0 without ever calling it, ends the job: the others are told, get SIGTERM\n"
    "after a quarter of AQ_EXIT_TIMEOUT (default 2s) and SIGKILL after three quarters. SIGINT,\n"
    "SIGTERM and SIGHUP to aqrun do the same; a second one kills at once. Nothing that the\n"
    "processes started survives the job.\n"
    "\n"
    "With --survive a death after all processes have left aq_init does not end the job: the "
    "others\n"
    "are told (aq_on_peer_lost) and go on; only aq_exit, the end of the last of them, and the\n"
    "signals above end it. What died is said at once and again at the end.\n"
    "\n"
    "Environment:\n"
    "  AQ_START_TIMEOUT  how long processes wait for one another in aq_init (default 60s)\n"
    "  AQ_EXIT_TIMEOUT   how long the end of the job may take (default 2s)\n"
    "  AQ_SURVIVE        yes: as --survive (default no)\n"
    "\n"
    "Exit code: the first of the processes' codes that is not 0, or what was given to aq_exit;\n"
    "128 plus its number for a signal; 127 when the program is not there, 126 when it cannot be\n"
    "run; 124 after --timeout; 2 for a bad command line; 1 for other failures; else 0.\n";

static void option_help(struct options *options, const char *value)
{
    (void)options;
    (void)value;
    fputs(options_head, stdout);
    for (size_t i = 0; i < AQI_COUNT_OF(option_rows); i++) {
        const struct option_row *row = &option_rows[i];
        char letter[] = {'-', row->letter, ',', ' ', '\0'};
        char left[64];
        snprintf(left, sizeof(left), "%s--%s%s%s", row->letter != 0 ? letter : "", row->name,
                 row->arg != NULL ? " " : "", row->arg != NULL ? row->arg : "");
        printf("  %-23s  %s\n", left, row->doc);
    }
    fputs(options_tail, stdout);
    options_finish_output();
}

static const struct option_row *options_by_letter(int letter)
{
    for (size_t i = 0; i < AQI_COUNT_OF(option_rows); i++)
        if (option_rows[i].letter == letter) return &option_rows[i];
    return NULL;
}

/* getopt found no such option, or no argument where one must be. */
static _Noreturn void options_unknown(int result, char **argv)
{
    const char *given = argv[optind - 1];
    if (result == ':') options_wrong("%s needs an argument", given);
    if (optopt != 0 && options_by_letter(optopt) == NULL && strncmp(given, "--", 2) != 0)
        options_wrong("there is no option -%c", optopt);
    struct nearest nearest;
    nearest_begin(&nearest, given + 2);
    for (size_t i = 0; i < AQI_COUNT_OF(option_rows); i++)
        nearest_offer(&nearest, option_rows[i].name);
    if (nearest.best != NULL) options_wrong("%s is no option; maybe --%s?", given, nearest.best);
    options_wrong("%s is no option, or one with too many or too few arguments", given);
}

void options_read(int argc, char **argv, struct options *options)
{
    struct option names[AQI_COUNT_OF(option_rows) + 1] = {0};
    char letters[2 + 2 * AQI_COUNT_OF(option_rows) + 1] = "+:"; /* stop at PROGRAM; be quiet */
    size_t used = 2;
    for (size_t i = 0; i < AQI_COUNT_OF(option_rows); i++) {
        const struct option_row *row = &option_rows[i];
        names[i].name = row->name;
        names[i].has_arg = row->arg != NULL ? required_argument : no_argument;
        if (row->letter == 0) continue;
        letters[used++] = row->letter;
        if (row->arg != NULL) letters[used++] = ':';
    }
    int index = -1;
    int result;
    while ((result = getopt_long(argc, argv, letters, names, &index)) != -1) {
        if (result == '?' || result == ':') options_unknown(result, argv);
        const struct option_row *row =
            result == 0 ? &option_rows[index] : options_by_letter(result);
        row->take(options, optarg);
        index = -1;
    }
    if (optind >= argc) options_wrong("no program is given");
    options->command = argv + optind;
}
