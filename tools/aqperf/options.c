/* The command line of aqperf. */
#include "names.h"
#include "perf.h"
#include <aqueduct/info.h>
#include <aqueduct/version.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIN_REPEATS 5u
#define MAX_REPEATS 1000u
#define MIN_TIME_NS 1e3
#define MAX_TIME_NS 60e9

const struct api *const apis[] = {&api_aq, &api_gasnet, NULL};

bool options_is_first_rank(void)
{
    const char *rank = getenv("AQ_RANK"); /* from aqrun; absent in a job of one */
    return rank == NULL || strcmp(rank, "0") == 0;
}

/* Wrong usage: one rank says why and ends, and with it the job; the others leave it the time. */
__attribute__((format(printf, 1, 2), noreturn)) static void wrong(const char *format, ...)
{
    if (options_is_first_rank()) {
        va_list args;
        va_start(args, format);
        fprintf(stderr, "aqperf: ");
        vfprintf(stderr, format, args);
        fprintf(stderr, "\n");
        va_end(args);
    } else {
        sleep(1);
    }
    exit(2);
}

static void help(void)
{
    printf(
        "usage: aqrun -n N aqperf [OPTION]…\n"
        "       aqperf --listen URI; aqperf --connect URI [OPTION]…\n"
        "\n"
        "Measures Aqueduct between rank 0 and rank 1 (barriers: of all ranks), and beside each\n"
        "figure what the machine itself can do between the same two cores in the same run. Or\n"
        "measures the patterns of two over a connection between two programs.\n"
        "\n"
        "  --pattern P,…      what to measure, also with wildcards: 'am-*' (default: all)\n"
        "  --sizes S,…        bytes, with K, M or G for powers of 1024, up to 1G\n"
        "                     (default: fitting for each pattern)\n"
        "  --transport T,…    only over these transports (sets AQ_TRANSPORTS)\n"
        "  --threads T        threads of a rank that flood, 1 to 64 (1); several: mode multiple\n"
        "  --repeats R        samples of which the median is shown, 5 to 1000 (7)\n"
        "  --min-time T       length of a sample, with ns, us, ms or s, 1us to 60s (10ms)\n"
        "  --json FILE        also write the results as JSON; - for standard output, then\n"
        "                     without the table\n"
        "  --csv FILE         also write the results as comma separated values; - likewise\n"
        "  --plot FILE.svg    also draw them\n"
        "  --all-pairs        every rank has sent to every other before anything is measured\n"
        "  --no-pin           do not bind rank r to the r-th core (done when there are enough)\n"
        "  --api A            the programming interface to measure: aq, gasnet\n"
        "  --listen URI       wait for one aqperf that connects, such as at shm:///perf, and "
        "answer\n"
        "                     it; of the options only --transport and --no-pin go with it\n"
        "  --connect URI      measure over a connection with the aqperf that listens there\n"
        "  --list             the patterns and the limits they are compared with\n"
        "  --version          the version of the library\n"
        "  --help             this text\n"
        "\n"
        "Exit code: 0; 1 when something failed; 2 for wrong usage.\n");
}

static void add_pattern(struct options *options, enum pattern_id pattern)
{
    for (size_t i = 0; i < options->pattern_count; i++)
        if (options->patterns[i] == pattern) return;
    options->patterns[options->pattern_count++] = pattern;
}

static void add_patterns(struct options *options, const char *name)
{
    struct nearest nearest;
    nearest_begin(&nearest, name);
    size_t before = options->pattern_count;
    bool found = false;
    for (unsigned i = 0; i < PATTERN_COUNT; i++) {
        nearest_offer(&nearest, patterns[i].name);
        if (fnmatch(name, patterns[i].name, 0) != 0) continue;
        add_pattern(options, (enum pattern_id)i);
        found = true;
    }
    if (found || options->pattern_count > before) return;
    wrong("--pattern %s: no such pattern%s%s%s; aqperf --list shows them", name,
          nearest.best != NULL ? ", maybe " : "", nearest.best != NULL ? nearest.best : "",
          nearest.best != NULL ? "?" : "");
}

/* A decimal number, its unit left in `*unit`; false if it is none. */
static bool number(const char *text, double *value, const char **unit)
{
    char *end;
    size_t length = strspn(text, "0123456789.");
    *value = strtod(text, &end); /* would take hexadecimal and exponents too */
    *unit = end;
    return length > 0 && end == text + length;
}

static void add_size(struct options *options, const char *text)
{
    static const char units[] = "KMG";
    double value;
    const char *unit;
    bool legal = number(text, &value, &unit);
    if (legal && *unit != '\0') {
        const char *found = strchr(units, *unit >= 'a' ? *unit - 'a' + 'A' : *unit);
        legal = found != NULL && (unit[1] == '\0' || strcmp(unit + 1, "B") == 0);
        for (const char *u = units; legal && u <= found; u++)
            value *= 1024;
    }
    if (!legal || value > (double)MAX_SIZE || value < 0 || value != (double)(size_t)value)
        wrong("--sizes %s: not a size from 0 to 1G, such as 8 or 4K", text);
    if (options->size_count == sizeof options->sizes / sizeof options->sizes[0])
        wrong("--sizes: more than %zu sizes", options->size_count);
    options->sizes[options->size_count++] = (size_t)value;
}

static void set_repeats(struct options *options, const char *text)
{
    double value;
    const char *unit;
    if (!number(text, &value, &unit) || *unit != '\0' || value < MIN_REPEATS ||
        value > MAX_REPEATS || value != (double)(uint64_t)value)
        wrong("--repeats %s: not a number from %u to %u", text, MIN_REPEATS, MAX_REPEATS);
    options->repeats = (uint64_t)value;
}

static void set_min_time(struct options *options, const char *text)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1e6}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double value, ns = 0;
    const char *unit;
    if (number(text, &value, &unit))
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
            if (strcmp(unit, units[i].name) == 0) ns = value * units[i].ns;
    if (!(ns >= MIN_TIME_NS && ns <= MAX_TIME_NS))
        wrong("--min-time %s: not a time from 1us to 60s, such as 500us or 10ms", text);
    options->min_time_ns = ns;
}

static void set_threads(struct options *options, const char *text)
{
    double value;
    const char *unit;
    if (!number(text, &value, &unit) || *unit != '\0' || value < 1 || value > MAX_THREADS ||
        value != (double)(unsigned)value)
        wrong("--threads %s: not a number from 1 to %u", text, MAX_THREADS);
    options->threads = (unsigned)value;
}

static void check_transport(struct options *options, const char *name)
{
    (void)options;
    char known[200] = "";
    aq_transport_info info;
    for (size_t i = 0; aq_info_transport(i, &info) == AQ_OK; i++) {
        if (strcmp(info.name, name) == 0) {
            if (info.usable) return;
            wrong("--transport %s: does not work here: %s", name, info.reason);
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", info.name);
    }
    wrong("--transport %s: no such transport; there are %s", name, known);
}

static void set_api(struct options *options, const char *name)
{
    char known[200] = "";
    for (size_t i = 0; apis[i] != NULL; i++) {
        if (strcmp(apis[i]->name, name) == 0) {
            options->api = apis[i];
            return;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", apis[i]->name);
    }
    wrong("--api %s: no such interface; there is %s", name, known);
}

/* Call `item` for each part of a comma separated list. */
static void each(struct options *options, const char *option, const char *list,
                 void (*item)(struct options *options, const char *text))
{
    char part[64];
    for (;;) {
        size_t length = strcspn(list, ",");
        if (length == 0 || length >= sizeof part)
            wrong("%s %s: an item is empty or too long", option, list);
        memcpy(part, list, length);
        part[length] = '\0';
        item(options, part);
        if (list[length] == '\0') return;
        list += length + 1;
    }
}

/* Print what was asked for, once, and end. */
__attribute__((noreturn)) static void tell(void (*text)(void))
{
    if (options_is_first_rank()) text();
    exit(0);
}

static void version(void)
{
    printf("aqperf %s\n", aq_version());
}

enum option_id {
    OPT_PATTERN = 1,
    OPT_SIZES,
    OPT_TRANSPORT,
    OPT_THREADS,
    OPT_REPEATS,
    OPT_MIN_TIME,
    OPT_JSON,
    OPT_CSV,
    OPT_PLOT,
    OPT_NO_PIN,
    OPT_ALL_PAIRS,
    OPT_API,
    OPT_LISTEN,
    OPT_CONNECT,
    OPT_LIST,
    OPT_VERSION,
    OPT_HELP
};

static void take(struct options *options, int id, const char *value, const char *name)
{
    switch (id) {
    case OPT_PATTERN:
        each(options, "--pattern", value, add_patterns);
        break;
    case OPT_SIZES:
        each(options, "--sizes", value, add_size);
        break;
    case OPT_TRANSPORT:
        each(options, "--transport", value, check_transport);
        options->transport = value;
        break;
    case OPT_THREADS:
        set_threads(options, value);
        break;
    case OPT_REPEATS:
        set_repeats(options, value);
        break;
    case OPT_MIN_TIME:
        set_min_time(options, value);
        break;
    case OPT_JSON:
        options->json = value;
        break;
    case OPT_CSV:
        options->csv = value;
        break;
    case OPT_PLOT:
        options->plot = value;
        break;
    case OPT_NO_PIN:
        options->pin = false;
        break;
    case OPT_ALL_PAIRS:
        options->all_pairs = true;
        break;
    case OPT_API:
        set_api(options, value);
        break;
    case OPT_LISTEN:
        options->listen = value;
        break;
    case OPT_CONNECT:
        options->connect = value;
        break;
    case OPT_LIST:
        tell(report_list);
    case OPT_VERSION:
        tell(version);
    case OPT_HELP:
        tell(help);
    case ':':
        wrong("%s needs a value; see aqperf --help", name);
    default:
        wrong("%s: no such option; see aqperf --help", name);
    }
}

/* Over a connection there are two single processes, and the one that connects leads. */
static void check_connection(struct options *options)
{
    const char *size = getenv("AQ_SIZE"); /* from aqrun */
    const char *name = options->listen != NULL ? "--listen" : "--connect";
    if (options->listen == NULL && options->connect == NULL) return;
    if (options->listen != NULL && options->connect != NULL)
        wrong("--listen and --connect: only one of them; the other is for another aqperf");
    if (size != NULL && strcmp(size, "1") != 0)
        wrong("%s: not in a job of %s; start aqperf without aqrun", name, size);
    if (options->api != apis[0]) wrong("%s: only with --api %s", name, apis[0]->name);
    if (options->listen != NULL &&
        (options->pattern_count > 0 || options->size_count > 0 || options->json != NULL ||
         options->csv != NULL || options->plot != NULL))
        wrong("--listen: what is measured and where it goes is said to the aqperf that connects");
    options->api = &api_connection;
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct option known[] = {{"pattern", required_argument, NULL, OPT_PATTERN},
                                          {"sizes", required_argument, NULL, OPT_SIZES},
                                          {"transport", required_argument, NULL, OPT_TRANSPORT},
                                          {"threads", required_argument, NULL, OPT_THREADS},
                                          {"repeats", required_argument, NULL, OPT_REPEATS},
                                          {"min-time", required_argument, NULL, OPT_MIN_TIME},
                                          {"json", required_argument, NULL, OPT_JSON},
                                          {"csv", required_argument, NULL, OPT_CSV},
                                          {"plot", required_argument, NULL, OPT_PLOT},
                                          {"no-pin", no_argument, NULL, OPT_NO_PIN},
                                          {"all-pairs", no_argument, NULL, OPT_ALL_PAIRS},
                                          {"api", required_argument, NULL, OPT_API},
                                          {"listen", required_argument, NULL, OPT_LISTEN},
                                          {"connect", required_argument, NULL, OPT_CONNECT},
                                          {"list", no_argument, NULL, OPT_LIST},
                                          {"version", no_argument, NULL, OPT_VERSION},
                                          {"help", no_argument, NULL, OPT_HELP},
                                          {0}};
    *options = (struct options){
        .api = apis[0], .repeats = 7, .threads = 1, .min_time_ns = 10e6, .pin = true};
    for (int id; (id = getopt_long(argc, argv, ":", known, NULL)) != -1;)
        take(options, id, optarg, argv[optind - 1]);
    if (optind < argc) wrong("%s: only options are taken; see aqperf --help", argv[optind]);
    check_connection(options);
    bool chosen = options->pattern_count > 0;
    for (unsigned i = 0; !chosen && i < PATTERN_COUNT; i++)
        if (options->api != &api_connection || measure_connects(patterns[i].kind))
            add_pattern(options, (enum pattern_id)i);
    if (options->threads > 1) options->pin = false; /* its threads would share the core */
    if (options->json != NULL && options->csv != NULL && strcmp(options->json, "-") == 0 &&
        strcmp(options->csv, "-") == 0)
        wrong("--json - and --csv -: only one of them can have the standard output");
}
