/* aqperf's human-readable output. */
#include "perf.h"
#include <aqueduct/version.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    bool quiet; /* standard output is used for JSON or CSV */
    bool live;  /* it is a terminal: show progress */
    bool has_second;
    bool has_interval;
    int name_width;
} state;

const char *report_size(size_t size, char text[static 16])
{
    static const char units[] = "\0KMG";
    size_t unit = 0;
    while (unit < 3 && size >= 1024 && size % 1024 == 0) {
        size /= 1024;
        unit++;
    }
    snprintf(text, 16, "%zu%.1s", size, &units[unit]);
    return text;
}

const char *report_time(double ns, char text[static 16])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;
    while (unit < 3 && ns >= 1000) {
        ns /= 1000;
        unit++;
    }
    snprintf(text, 16, "%.4g%s", ns, units[unit]);
    return text;
}

/* The columns that identify a row. Patterns without a payload have no size. */
static void print_row(FILE *out, const struct row *row)
{
    char size[16], interval[16];
    bool none = row->size == 0 && row->pattern->sizes->count == 1;
    fprintf(out, "%-*s %6s", state.name_width, row->pattern->name,
            none ? "-" : report_size(row->size, size));
    if (state.has_interval)
        fprintf(out, " %8s", row->interval_ns > 0 ? report_time(row->interval_ns, interval) : "-");
}

/* Format with four significant digits, within reason: 0.01234, 12.34, 12340. */
static const char *figure(double value, char text[static 16])
{
    int decimals = 0;
    for (double v = value; v < 1000 && decimals < 4 && v > 0; v *= 10)
        decimals++;
    snprintf(text, 16, "%.*f", decimals, value);
    return text;
}

static bool wants(const char *file)
{
    return file != NULL && strcmp(file, "-") == 0;
}

/* Determine the widths of the columns that differ between tables. */
static void fit_columns(const struct options *options)
{
    state.name_width = 15;
    state.has_interval = false;
    for (size_t i = 0; i < options->pattern_count; i++) {
        int length = (int)strlen(options->patterns[i]->name);
        if (length > state.name_width) state.name_width = length;
        state.has_interval |= options->patterns[i]->kind->computing != COMPUTING_NEVER;
    }
}

void report_begin(const struct perf *perf)
{
    fit_columns(&perf->options);
    state.quiet = wants(perf->options.json) || wants(perf->options.csv);
    state.live = !state.quiet && isatty(STDOUT_FILENO);
    state.has_second = false;
    if (state.quiet) return;
    printf("aqperf %s, interface %s: %u rank%s; rank 0 reaches rank %u over %s\n", aq_version(),
           perf->api->name, perf->ranks, perf->ranks == 1 ? "" : "s", perf->peer, perf->transport);
    printf("%d core%s, %s%s; %u samples of %g ms each\n", perf->cores, perf->cores == 1 ? "" : "s",
           perf->pinned           ? "rank r bound to the r-th"
           : perf->oversubscribed ? "fewer than there are ranks, which take turns"
                                  : "ranks not bound to them",
           perf->progress_thread ? ", with a progress thread" : "", perf->options.repeats,
           perf->options.min_time_ns / 1e6);
    if (perf->no_cma != NULL)
        printf("CMA cannot be used here and was not measured: %s\n", perf->no_cma);
    printf("\n%-*s %6s%s %9s %9s %9s  %-4s %9s %-11s  %s\n", state.name_width, "pattern", "size",
           state.has_interval ? " interval" : "", "median", "min", "max", "unit", "limit", "",
           "median/limit");
    fflush(stdout);
}

void report_progress(const struct row *row)
{
    if (!state.live) return;
    print_row(stdout, row);
    printf("  measuring...\r");
    fflush(stdout);
}

void report_row(const struct result *result)
{
    if (state.quiet) return;
    const struct pattern *pattern = result->row.pattern;
    char median[16], min[16], max[16], limit[16], second[16];
    print_row(stdout, &result->row);
    printf(" %9s %9s %9s  %-4s", figure(result->median, median), figure(result->min, min),
           figure(result->max, max), unit_names[pattern->kind->unit]);
    if (result->limit_name == NULL) {
        printf(" %9s", "none");
    } else if (pattern->kind->unit == UNIT_NS) {
        printf(" %9s %-11s  %.2f times", figure(result->limit, limit), result->limit_name,
               result_ratio(result));
    } else {
        printf(" %9s %-11s  %.0f %%", figure(result->limit, limit), result->limit_name,
               100 * result_ratio(result));
    }
    if (result->second_name != NULL)
        printf("  (%s %s)", result->second_name, figure(result->second, second));
    printf("\n");
    state.has_second |= result->second_name != NULL;
    fflush(stdout);
}

void report_skip(const struct row *row, const char *why)
{
    FILE *out = state.quiet ? stderr : stdout;
    print_row(out, row);
    fprintf(out, "  skipped: %s\n", why);
}

void report_end(const struct perf *perf)
{
    if (state.quiet || perf->result_count == 0) return;
    printf("\nns: per operation or round trip, less is better; \"2 times\" is twice the limit.\n"
           "GB/s (10^9 bytes), M/s (10^6 messages): more is better; 100 %% is the limit.\n"
           "%s%s.\n",
           perf->api->foreign != FOREIGN_NONE
               ? "The limit is the same pattern through Aqueduct's own interface, in the same run"
               : "The limit is what the machine did between the same cores, in the same run, "
                 "without\nthe library; aqperf --list describes it",
           state.has_second ? ". In parentheses: the same size moved by CMA" : "");
}

void report_list(void)
{
    printf("Patterns\n");
    for (size_t i = 0; i < PATTERN_COUNT; i++) {
        const struct pattern *pattern = &patterns[i];
        printf("  %-15s %s;\n%18s%s, limit ", pattern->name, pattern->doc, "",
               unit_names[pattern->kind->unit]);
        const struct kind *kind = pattern->kind;
        if (kind->word != LIMIT_NONE) printf("%s up to 8 bytes, then ", limits[kind->word].name);
        printf("%s", kind->limit != LIMIT_NONE ? limits[kind->limit].name : "none");
        if (kind->computing != COMPUTING_NEVER) printf("; only if named; each interval");
        for (size_t k = 0; pattern->sizes->count > 1 && k < pattern->sizes->count; k++) {
            char text[16];
            printf("%s%s", k == 0 ? "; sizes " : ",", report_size(pattern->sizes->sizes[k], text));
        }
        printf("\n");
    }
    printf("\nLimits: measured between the same cores in the same run, without the library\n");
    for (size_t i = LIMIT_NONE + 1; i < LIMIT_COUNT; i++)
        if (limits[i].doc != NULL && limits[i].doc[0] != '\0')
            printf("  %-15s %s\n", limits[i].name, limits[i].doc);
    printf("\nInterfaces (--api)\n");
    for (size_t i = 0; apis[i] != NULL; i++)
        printf("  %-15s %s\n", apis[i]->name, apis[i]->doc);
}
