/*
 * Measures one row of the table: warms up, determines how many operations take the requested time,
 * and repeats them, interleaved with those of the machine's limit, because the speed of a shared
 * machine changes within seconds.
 */
#include "perf.h"
#include <aqueduct/info.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_OPERATIONS ((uint64_t)1 << 30)

double measure_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

const char *measure_setting(const char *name)
{
    aq_setting_info info;
    for (size_t i = 0; aq_info_setting(i, &info) == AQ_OK; i++)
        if (strcmp(info.name, name) == 0) return info.value;
    return "";
}

/* A loop run by several threads of this rank. */
struct threads_work {
    struct perf *perf;
    loop_fn *loop;
    size_t size;
    uint64_t n; /* operations of each thread but the first */
    pthread_barrier_t start;
};

static void *run_share(void *arg)
{
    struct threads_work *common = arg;
    pthread_barrier_wait(&common->start);
    common->loop(common->perf, common->size, common->n);
    return NULL;
}

/* The threads start together; the time ends when the last one does. */
static double run_threads(struct perf *perf, loop_fn *loop, size_t size, uint64_t n,
                          unsigned threads)
{
    pthread_t ids[MAX_THREADS];
    struct threads_work common = {perf, loop, size, .n = n / threads};
    pthread_barrier_init(&common.start, NULL, threads);
    for (unsigned i = 1; i < threads; i++)
        if (pthread_create(&ids[i], NULL, run_share, &common) != 0) {
            fprintf(stderr, "aqperf: cannot start %u threads\n", threads);
            perf->api->quit(1);
        }
    pthread_barrier_wait(&common.start);
    double begun = measure_now_ns();
    loop(perf, size, n - common.n * (threads - 1));
    for (unsigned i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    double ns = measure_now_ns() - begun;
    pthread_barrier_destroy(&common.start);
    return ns;
}

/* Time of `n` operations in ns. Before each, this rank computes for `computes_ns`. */
static double perform(struct perf *perf, const struct work *work, size_t size, uint64_t n,
                      double computes_ns)
{
    if (perf->api->check_peer != NULL)
        perf->api->check_peer(); /* mapped memory outlives the peer */
    if (work->bare) size = 0;
    if (work->before != NULL) work->before(perf, size, n);
    if (computes_ns > 0) compute_for(computes_ns);
    double ns = run_threads(perf, work->loop, size, n, work->threads ? perf->options.threads : 1);
    double begun = measure_now_ns();
    if (work->after != NULL) {
        work->after(perf, size, n);
        ns += measure_now_ns() - begun;
    }
    return work->parts != NULL ? ns / work->parts(perf) : ns;
}

/* A pattern of the API or a limit, and its measurement. */
struct subject {
    struct work work; /* without a loop: not measured */
    size_t size;
    enum limit_id limit; /* LIMIT_NONE: the pattern */
    double computes_ns;  /* before each operation */
    uint64_t operations; /* operations per sample */
    double *samples;     /* in the unit of the row */
};

/* Rank 0: perform `n` operations, together with the other ranks that take part. */
static double run_all(struct perf *perf, const struct subject *subject, uint64_t n)
{
    if (!subject->work.all_ranks) {
        limits_ask(perf, subject->limit, subject->size, n);
        double ns = perform(perf, &subject->work, subject->size, n, subject->computes_ns);
        limits_settle(perf, subject->limit);
        return ns;
    }
    if (perf->ranks > 1) perf->api->ask(perf, COMMAND_NEXT, 0);
    talk_set_count(perf, n, subject->limit);
    perf->api->barrier();
    double ns = perform(perf, &subject->work, subject->size, n, 0);
    perf->api->barrier(); /* all ranks have read the count, so it may change */
    return ns;
}

static double run(struct perf *perf, const struct subject *subject, uint64_t n)
{
    if (subject->computes_ns == 0) return run_all(perf, subject, n);
    double ns = 0;
    for (uint64_t i = 0; i < n; i++)
        ns += run_all(perf, subject, 1);
    return ns;
}

/* The duration of a sample: many intervals if a rank computes. */
static double sample_ns(const struct perf *perf, double interval_ns)
{
    enum { INTERVALS = 16 };
    double min = perf->options.min_time_ns;
    return INTERVALS * interval_ns > min ? INTERVALS * interval_ns : min;
}

/*
 * Determine how many operations take about the requested time, which is also the warmup. The first
 * one is not timed, since it may set up a connection.
 */
static void calibrate(struct perf *perf, struct subject *subject, double wanted)
{
    double factor = 0;
    uint64_t n = 1;
    (void)run(perf, subject, n);
    if (subject->computes_ns > 0) { /* computing takes most of the time */
        subject->operations = (uint64_t)(wanted / subject->computes_ns);
        return;
    }
    for (;;) {
        double ns = run(perf, subject, n);
        if (ns < 1) ns = 1;
        factor = wanted / ns;
        if (factor <= 2 || n >= MAX_OPERATIONS) break;
        n = (uint64_t)((double)n * (factor < 10 ? factor : 10)) + 1;
    }
    n = (uint64_t)((double)n * factor) + 1;
    subject->operations = n < MAX_OPERATIONS ? n : MAX_OPERATIONS;
}

static void sample(struct perf *perf, struct subject *subject, enum unit unit, unsigned repeat)
{
    if (subject->work.loop == NULL) return;
    uint64_t n = subject->operations;
    (void)run(perf, subject, n / 16 + 1); /* refill the caches, which other subjects have used */
    subject->samples[repeat] = unit_from_ns(unit, run(perf, subject, n), subject->size, n);
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Sort the samples and return the median; 0 for a subject that was not measured. */
static double median(struct subject *subject, unsigned count, double *min, double *max)
{
    if (subject->work.loop == NULL) return 0;
    qsort(subject->samples, count, sizeof(double), by_value);
    *min = subject->samples[0];
    *max = subject->samples[count - 1];
    return (subject->samples[(count - 1) / 2] + subject->samples[count / 2]) / 2;
}

static struct work work_of(const struct perf *perf, const struct pattern *pattern)
{
    struct work work = pattern->kind->work;
    work.loop = perf->api == &api_gasnet ? pattern->gasnet : pattern->aq;
    return work;
}

/* Rank 0: make rank 1 compute for this long between polls. */
static void set_target(struct perf *perf, double ns)
{
    if (perf->target_computes_ns == ns) return;
    perf->target_computes_ns = ns;
    perf->api->ask(perf, COMMAND_COMPUTE, (size_t)ns);
}

/* Rank 0: measure the row and add it to the results. */
static void lead(struct perf *perf, const struct row *row)
{
    const struct pattern *pattern = row->pattern;
    const struct kind *kind = pattern->kind;
    const size_t size = row->size;
    const bool foreign = perf->api->foreign != FOREIGN_NONE; /* compared with Aqueduct's own API */
    enum limit_id limit = limits_for(perf, pattern, size);
    enum limit_id second = !foreign && perf->no_cma == NULL && size > 0 ? kind->second : LIMIT_NONE;
    /* Sockets and fabrics transfer as many bytes as the operation does. */
    bool moves = limit >= LIMIT_SOCKET && kind->moved > 0;
    struct subject subjects[] = {
        {.work = limits[limit].work, .limit = limit, .size = moves ? kind->moved : size},
        {.work = limits[second].work, .size = size},
        {.work = work_of(perf, pattern), .size = size},
    };
    if (foreign) {
        enum limit_id loop = kind->foreign[perf->api->foreign];
        subjects[0] = subjects[2];
        subjects[2] = (struct subject){.work = limits[loop].work, .limit = loop, .size = size};
    }
    set_target(perf, kind->computing == COMPUTING_TARGET ? row->interval_ns : 0);
    const unsigned repeats = perf->options.repeats;
    if (pattern->sizes->piece != 0) scatter_begin(perf, pattern->sizes->piece, size);
    for (size_t i = 0; i < 3; i++) {
        subjects[i].samples = perf_memory(perf, repeats, sizeof(double));
        if (kind->computing == COMPUTING_BEFORE) subjects[i].computes_ns = row->interval_ns;
        if (subjects[i].work.loop != NULL)
            calibrate(perf, &subjects[i], sample_ns(perf, row->interval_ns));
    }
    for (unsigned repeat = 0; repeat < repeats; repeat++)
        for (size_t i = 0; i < 3; i++)
            sample(perf, &subjects[i], kind->unit, repeat);

    struct result *result = &perf->results[perf->result_count++];
    *result = (struct result){.row = *row,
                              .limit_name = foreign ? "aq" : limits[limit].name,
                              .second_name = limits[second].name};
    result->median = median(&subjects[2], repeats, &result->min, &result->max);
    result->limit = median(&subjects[0], repeats, &result->limit_min, &result->limit_max);
    double second_min = 0, second_max = 0;
    result->second = median(&subjects[1], repeats, &second_min, &second_max);
    if (kind->either && result->second > result->limit) {
        result->limit = result->second;
        result->limit_min = second_min;
        result->limit_max = second_max;
        result->limit_name = result->second_name;
    }
    for (size_t i = 0; i < 3; i++)
        free(subjects[i].samples);

    set_target(perf, 0);
    if (perf->ranks > 1) perf->api->ask(perf, COMMAND_NEXT, 0);
    if (!kind->work.all_ranks) return;
    talk_set_count(perf, 0, LIMIT_NONE);
    perf->api->barrier();
}

/*
 * Rank 1: serve limits, and by polling the messages of the pattern, until rank 0 continues with
 * the next row. Returns false after the last command.
 */
static bool serve(struct perf *perf)
{
    size_t size;
    enum command command;
    while ((command = talk_await(perf, &size)) > COMMAND_NEXT)
        limits_serve(perf, (unsigned)command - COMMAND_LIMIT, size);
    return command == COMMAND_NEXT;
}

static void follow(struct perf *perf, const struct pattern *pattern, size_t size)
{
    const struct work own = work_of(perf, pattern);
    if (!own.all_ranks) {
        if (perf->rank == 1) (void)serve(perf);
        return;
    }
    for (;;) {
        if (perf->rank == 1) (void)serve(perf);
        perf->api->barrier();
        uint64_t n = perf->mine->count; /* stored by rank 0 before the barrier */
        if (n == 0) break;
        uint64_t limit = perf->mine->limit;
        (void)perform(perf, limit != LIMIT_NONE ? &limits[limit].work : &own, size, n, 0);
        perf->api->barrier();
    }
}

void measure_row(struct perf *perf, const struct row *row)
{
    perf->interval_ns = row->interval_ns;
    if (perf->rank == 0) {
        lead(perf, row);
    } else {
        follow(perf, row->pattern, row->size);
    }
    perf->api->barrier();
}

void measure_answer(struct perf *perf)
{
    while (serve(perf))
        perf->api->barrier();
}

bool measure_supports(const struct api *api, const struct kind *kind, char *text, size_t len)
{
    if (api == &api_connection && (kind->work.all_ranks || kind->endpoints))
        snprintf(text, len, "not possible over a connection");
    else if (api != &api_connection && kind->turns)
        snprintf(text, len, "possible only over connections");
    else if (api->foreign != FOREIGN_NONE && kind->foreign[api->foreign] == LIMIT_NONE)
        snprintf(text, len, "not possible through %s", api->name);
    else
        return true;
    return false;
}

bool measure_skips(struct perf *perf, const struct row *row, char *text, size_t len)
{
    static const char *const carriers[] = {[CARRIER_MEDIUM] = "Medium", [CARRIER_LONG] = "Long"};
    const struct pattern *pattern = row->pattern;
    const struct kind *kind = pattern->kind;
    const size_t size = row->size;
    size_t min = pattern->sizes->piece != 0 ? pattern->sizes->piece : kind->min_size;
    size_t max = kind->carrier == CARRIER_ANY ? SIZE_MAX : perf->api->max_size(kind->carrier);
    if (!measure_supports(perf->api, kind, text, len)) return true;
    if (kind->computing != COMPUTING_NEVER && perf->ranks < 2)
        snprintf(text, len, "needs another rank");
    else if (size > max)
        snprintf(text, len, "exceeds the maximum size of a %s, %zu bytes", carriers[kind->carrier],
                 max);
    else if (size < min)
        snprintf(text, len, "needs at least %zu byte%s", min, min == 1 ? "" : "s");
    else if (pattern->sizes->piece != 0 && size % pattern->sizes->piece != 0)
        snprintf(text, len, "not a multiple of %zu bytes", pattern->sizes->piece);
    else
        return false;
    return true;
}

double result_ratio(const struct result *result)
{
    return result->limit > 0 ? result->median / result->limit : 0;
}
