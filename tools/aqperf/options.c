/* The command line of aqperf. */
#include "base/nearest.h"
#include "command.h"
#include "perf.h"
#include <aqueduct/info.h>
#include <aqueduct/version.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_TIME_NS     1e3
#define MAX_TIME_NS     60e9
#define MAX_INTERVAL_NS 10e9

const struct api *const apis[] = {&api_aq, &api_gasnet, &api_fi, &api_cci, NULL};

/* Whether this process may print messages before it has joined the job. */
static bool is_first_rank(void)
{
    const char *rank = getenv("AQ_RANK"); /* set by aqrun; unset in a job of one */
    return rank == NULL || strcmp(rank, "0") == 0;
}

static struct options given = {
    .api = &api_aq, .repeats = 7, .connections = 1, .threads = 1, .min_time_ns = 10e6};

static void add_pattern(const struct pattern *pattern)
{
    for (size_t i = 0; i < given.pattern_count; i++)
        if (given.patterns[i] == pattern) return;
    given.patterns[given.pattern_count++] = pattern;
}

static void add_patterns(const char *name)
{
    struct aqi_nearest nearest;
    aqi_nearest_begin(&nearest, name);
    bool found = false;
    for (unsigned i = 0; i < PATTERN_COUNT; i++) {
        aqi_nearest_offer(&nearest, patterns[i].name);
        if (fnmatch(name, patterns[i].name, 0) != 0) continue;
        add_pattern(&patterns[i]);
        found = true;
    }
    if (found) return;
    command_error("--pattern %s: there is no such pattern%s%s%s; aqperf --list shows them", name,
                  nearest.best != NULL ? " (did you mean " : "",
                  nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "?)" : "");
}

/* Parse a decimal number; `*unit` is set to the text after it. Returns false if malformed. */
static bool number(const char *text, double *value, const char **unit)
{
    char *end;
    size_t length = strspn(text, "0123456789.");
    *value = strtod(text, &end); /* strtod also accepts hexadecimal numbers and exponents */
    *unit = end;
    return length > 0 && end == text + length;
}

static void add_size(const char *text)
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
        command_error("--sizes %s: give sizes from 0 to 1G, such as 8 or 4K", text);
    if (given.size_count == sizeof given.sizes / sizeof given.sizes[0])
        command_error("--sizes: more than %zu sizes", given.size_count);
    given.sizes[given.size_count++] = (size_t)value;
}

/* Parse a time, from MIN_TIME_NS to `max`; returns ns, or 0 if malformed. */
static double time_of(const char *text, double max)
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
    return ns >= MIN_TIME_NS && ns <= max ? ns : 0;
}

static void set_min_time(const char *text)
{
    given.min_time_ns = time_of(text, MAX_TIME_NS);
    if (given.min_time_ns == 0)
        command_error("--min-time %s: give a time from 1us to 60s, such as 500us or 10ms", text);
}

static void add_interval(const char *text)
{
    double ns = time_of(text, MAX_INTERVAL_NS);
    if (ns == 0)
        command_error("--interval %s: give times from 1us to 10s, such as 500us or 10ms", text);
    if (given.interval_count == MAX_INTERVALS)
        command_error("--interval: more than %u times", MAX_INTERVALS);
    given.intervals_ns[given.interval_count++] = ns;
}

static void check_progress_thread(const char *text)
{
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
        command_error("--progress-thread %s: give yes or no", text);
}

static void list_name(char known[static 200], const char *name)
{
    size_t used = strlen(known);
    snprintf(known + used, 200 - used, "%s%s", used > 0 ? ", " : "", name);
}

static void check_transport(const char *name)
{
    char known[200] = "";
    aq_transport_info info;
    for (size_t i = 0; aq_info_transport(i, &info) == AQ_OK; i++) {
        list_name(known, info.name);
        if (strcmp(info.name, name) != 0) continue;
        if (info.usable || info.on_request) return;
        command_error("--transport %s: it does not work here: %s", name, info.reason);
    }
    command_error("--transport %s: there is no such transport; the transports are %s", name, known);
}

static void set_api(const char *name)
{
    char known[200] = "";
    for (size_t i = 0; apis[i] != NULL; i++) {
        list_name(known, apis[i]->name);
        if (strcmp(apis[i]->name, name) != 0) continue;
        given.api = apis[i];
        return;
    }
    command_error("--api %s: there is no such interface; the interfaces are %s", name, known);
}

static void list(const char *unused)
{
    (void)unused;
    command_print(report_list);
}

static const struct command_row rows[] = {
    {0, "pattern", "P,...",
     "patterns to measure; wildcards are allowed: 'am-*' (default: all in which no rank computes)",
     .each = add_patterns},
    {0, "sizes", "S,...",
     "sizes in bytes, up to 1G; K, M and G are powers of 1024 (default: depends on the pattern)",
     .each = add_size},
    {0, "transport", "T,...", "use only these transports (sets AQ_TRANSPORTS)",
     .each = check_transport, .variable = "AQ_TRANSPORTS"},
    {0, "threads", "T",
     "number of threads per rank in floods, 1 to 64 (default 1); several threads use mode multiple",
     .number = &given.threads, .min = 1, .max = MAX_THREADS},
    {0, "repeats", "R", "number of samples, 5 to 1000 (default 7); the median is shown",
     .number = &given.repeats, .min = 5, .max = 1000},
    {0, "min-time", "T",
     "duration of a sample, 1us to 60s (default 10ms), in ns, us, ms (if no unit is given) or s",
     .take = set_min_time},
    {0, "interval", "T,...",
     "how long ranks compute in 'attentive-*', 'first-after-*', 'halo' and 'steal', 1us to 10s "
     "(default 100us,1ms,5ms), in ns, us, ms (if no unit is given) or s; samples last at least 16 "
     "times as long",
     .each = add_interval},
    {0, "progress-thread", "yes|no", "whether a progress thread runs (sets AQ_PROGRESS_THREAD)",
     .take = check_progress_thread, .variable = "AQ_PROGRESS_THREAD"},
    {0, "json", "FILE",
     "also write the results as JSON; if FILE is -, to standard output instead of the table",
     .text = &given.json},
    {0, "csv", "FILE",
     "also write the results as comma-separated values; if FILE is -, to standard output instead "
     "of the table",
     .text = &given.csv},
    {0, "plot", "FILE.svg", "also plot the results", .text = &given.plot},
    {0, "all-pairs", NULL, "before measuring, let every rank send to every other",
     .flag = &given.all_pairs},
    {0, "no-pin", NULL,
     "do not bind rank r to the r-th core (by default it is bound if there are enough cores)",
     .flag = &given.unpinned},
    {0, "api", "A", "programming interface to measure: aq, gasnet, fi (libfabric), cci",
     .take = set_api},
    {0, "listen", "URI",
     "wait for another aqperf to connect at URI, such as shm:///perf, and serve it; can be "
     "combined only with --transport and --no-pin",
     .text = &given.listen},
    {0, "connect", "URI", "measure over a connection to the aqperf that listens at URI",
     .text = &given.connect},
    {0, "connections", "N",
     "with --connect: open N connections at once and report what they cost; patterns use the first "
     "one, am-turns-rtt uses all (default 1)",
     .number = &given.connections, .min = 1, .max = 8000},
    {0, "list", NULL, "list the patterns and the limits they are compared with", .take = list},
};

static const char head[] =
    "usage: aqrun -n N aqperf [OPTION...]\n"
    "       aqperf --listen URI; aqperf --connect URI [OPTION...]\n"
    "\n"
    "Measures Aqueduct between rank 0 and rank 1 (barriers: between all ranks) and, in the same\n"
    "run and between the same two cores, the limit of the machine for each figure. With --listen\n"
    "and --connect, it measures the patterns for two processes over a connection between two\n"
    "programs.\n"
    "\n";

static const char tail[] = "\n"
                           "Exit code: 0; 1 if something failed; 2 for incorrect usage.\n";

/* With a connection there are two separate processes, and the one that connects leads. */
static void check_connection(void)
{
    const char *size = getenv("AQ_SIZE"); /* set by aqrun */
    const char *name = given.listen != NULL ? "--listen" : "--connect";
    if (given.connect == NULL && given.connections > 1)
        command_error("--connections can be used only with --connect");
    if (given.listen == NULL && given.connect == NULL) return;
    if (given.listen != NULL && given.connect != NULL)
        command_error(
            "--listen and --connect: give only one of them; the other one is for another aqperf");
    if (size != NULL && strcmp(size, "1") != 0)
        command_error("%s cannot be used in a job of %s; start aqperf without aqrun", name, size);
    if (given.api != apis[0])
        command_error("%s can be used only with --api %s", name, apis[0]->name);
    if (given.listen != NULL && (given.pattern_count > 0 || given.size_count > 0 ||
                                 given.json != NULL || given.csv != NULL || given.plot != NULL))
        command_error(
            "--listen: give the options for patterns and output to the aqperf that connects");
    given.api = &api_connection;
}

void options_parse(struct options *options, int argc, char **argv)
{
    const struct command_line line = {.tool = "aqperf",
                                      .version = aq_version(),
                                      .head = head,
                                      .tail = tail,
                                      .rows = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .silent = !is_first_rank()};
    static const char *const usual[] = {"100us", "1ms", "5ms"};
    int first = command_read(&line, argc, argv);
    if (first < argc) command_error("%s: only options are accepted", argv[first]);
    check_connection();
    char unused[100];
    bool chosen = given.pattern_count > 0;
    for (unsigned i = 0; !chosen && i < PATTERN_COUNT; i++)
        if (patterns[i].kind->computing == COMPUTING_NEVER &&
            measure_supports(given.api, patterns[i].kind, unused, sizeof unused))
            add_pattern(&patterns[i]);
    bool timed = given.interval_count > 0;
    for (size_t i = 0; !timed && i < sizeof usual / sizeof usual[0]; i++)
        add_interval(usual[i]);
    if (given.threads > 1) given.unpinned = true; /* threads would share the core */
    if (given.json != NULL && given.csv != NULL && strcmp(given.json, "-") == 0 &&
        strcmp(given.csv, "-") == 0)
        command_error("--json - and --csv -: only one of them can use standard output");
    *options = given;
}
