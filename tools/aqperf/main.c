/* aqperf: measures communication patterns, each together with the limit of the machine. */
#include "command.h"
#include "perf.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Determine the cores, and bind rank r to the r-th if there are enough. Called after joining the
 * job, as the library chooses its wait mode by the CPUs that it may use while joining.
 */
static void pin(struct perf *perf)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        perf->cores = 1;
        perf->oversubscribed = perf->ranks > 1;
        return;
    }
    const char *bound = getenv("AQ_LOCAL_CORES"); /* set by aqrun --bind */
    perf->cores = bound != NULL ? atoi(bound) : CPU_COUNT(&allowed);
    perf->oversubscribed = perf->ranks > (unsigned)perf->cores;
    perf->pinned = bound != NULL && !perf->oversubscribed;
    if (perf->pinned || perf->oversubscribed || perf->options.unpinned) return;
    unsigned seen = 0;
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || seen++ != perf->rank) continue;
        cpu_set_t mine;
        CPU_ZERO(&mine);
        CPU_SET(core, &mine);
        perf->pinned = sched_setaffinity(0, sizeof mine, &mine) == 0;
    }
}

static const size_t *sizes_of(const struct perf *perf, const struct pattern *pattern, size_t *count)
{
    const struct options *options = &perf->options;
    const struct sizes *own = pattern->sizes;
    bool given = options->size_count > 0 && own->count > 1;
    *count = given ? options->size_count : own->count;
    return given ? options->sizes : own->sizes;
}

/* Visit the rows of a pattern; if a rank computes, there is one for each interval. */
static void visit_rows(struct perf *perf, const struct pattern *pattern,
                       void (*visit)(struct perf *perf, const struct row *row))
{
    size_t count;
    const size_t *sizes = sizes_of(perf, pattern, &count);
    bool computing = pattern->kind->computing != COMPUTING_NEVER;
    for (size_t i = 0; i < (computing ? perf->options.interval_count : 1); i++)
        for (size_t k = 0; k < count; k++)
            visit(perf,
                  &(struct row){pattern, sizes[k], computing ? perf->options.intervals_ns[i] : 0});
}

static void visit_all(struct perf *perf, void (*visit)(struct perf *perf, const struct row *row))
{
    for (size_t i = 0; i < perf->options.pattern_count; i++)
        visit_rows(perf, perf->options.patterns[i], visit);
}

/* Determine the maximum size and the number of rows. */
static void survey(struct perf *perf, const struct row *row)
{
    char unused[100];
    if (measure_skips(perf, row, unused, sizeof unused)) return;
    size_t places = row->pattern->kind->places, room = row->size * (places > 2 ? places / 2 : 1);
    if (room > perf->max_size) perf->max_size = room;
    perf->row_count++;
}

void *perf_memory(struct perf *perf, size_t count, size_t size)
{
    void *memory = aligned_alloc(4096, (count * size + 4095) & ~(size_t)4095);
    if (memory != NULL) {
        memset(memory, 1, count * size); /* fault it in now, not during the measurement */
        return memory;
    }
    fprintf(stderr, "aqperf: rank %u: no memory for %zu bytes\n", perf->rank, count * size);
    perf->api->quit(1);
    return NULL;
}

/*
 * Count the rows to measure and allocate memory for them; 0: none. All ranks get the same result;
 * a listening rank gets it from its peer in `attach`.
 */
static size_t plan(struct perf *perf)
{
    perf->max_size = 8;
    visit_all(perf, survey);
    /* Even with the smallest size, every rank has a block of a collective. */
    if (perf->max_size < perf->ranks) perf->max_size = perf->ranks;
    perf->segment_size = sizeof(struct shared) + 2 * perf->max_size;
    if (perf->row_count > 0 && perf->rank <= 1) perf->target = perf_memory(perf, 1, perf->max_size);
    return perf->row_count;
}

static void set_up(struct perf *perf, size_t rows)
{
    perf->api->attach(perf);
    talk_exchange_addresses(perf);
    perf->api->barrier();
    if (perf->rank > 1) return;
    memset(perf->mine->data, 1, 2 * perf->max_size);
    if (perf->rank > 0) return;
    perf->source = perf_memory(perf, 1, perf->max_size);
    perf->results = perf_memory(perf, rows, sizeof(struct result));
    limits_probe_cma(perf);
}

static void measure(struct perf *perf, const struct row *row)
{
    char why[100];
    bool skip = measure_skips(perf, row, why, sizeof why);
    if (skip && perf->rank == 0) report_skip(row, why);
    if (skip) return;
    if (perf->rank == 0) report_progress(row);
    measure_row(perf, row);
    if (perf->rank == 0) report_row(&perf->results[perf->result_count - 1]);
}

int main(int argc, char **argv)
{
    static struct perf perf;
    options_parse(&perf.options, argc, argv);
    perf.api = perf.options.api;
    perf.api->start(&perf);
    pin(&perf);
    struct outputs *outputs = NULL;
    if (perf.rank == 0 && (outputs = outputs_open(&perf.options)) == NULL) perf.api->quit(2);

    bool answers = perf.options.listen != NULL;
    size_t rows = answers ? 0 : plan(&perf);
    if (answers || rows > 0) set_up(&perf, rows);
    if (answers) measure_answer(&perf);
    if (perf.rank == 0) report_begin(&perf);
    if (!answers) visit_all(&perf, measure);
    int result = 0;
    if (perf.rank == 0) {
        report_end(&perf);
        if (rows == 0)
            fprintf(stderr, "aqperf: nothing was measured: none of the sizes fits its pattern\n");
        if (outputs_write(outputs, &perf) != 0 || rows == 0 || !command_written()) result = 1;
    }
    limits_close_fabric();
    perf.api->finish();
    return result;
}
