/* Joining, checking, data and random numbers for the programs of this folder. */
#include "support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job job;

_Noreturn void check_failed(const char *file, int line, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(stderr, "rank %u of %u: %s:%d: %s (seed %llu)\n", job.self, job.size, file, line, text,
            (unsigned long long)job.seed);
    aq_exit(1);
}

/* Allocate memory of the program in every rank, and exchange its addresses. */
static void attach_everything(size_t size)
{
    size = (size + 4095) / 4096 * 4096;
    job.base = aligned_alloc(4096, size);
    job.bases = calloc(job.size, sizeof(*job.bases));
    CHECK(job.base != NULL && job.bases != NULL);
    memset(job.base, 0, size);
    CHECK_OK(aq_coll_allgather(job.team, job.bases, &job.base, sizeof(job.base), 0));
}

void job_attach(size_t size)
{
    CHECK_OK(aq_segment_attach(job.team, size, &job.segment));
    CHECK(aq_segment_size(job.segment) >= size);
    if (aq_segment_mode_get() == AQ_SEGMENT_EVERYTHING)
        attach_everything(size);
    else
        job.base = aq_segment_addr(job.segment);
    CHECK(job.base != NULL);
}

void job_open(aq_thread_mode mode, size_t segment)
{
    aq_init_params params = {
        .struct_size = sizeof(params), .thread_mode = mode, .segment_modes = job.segment_modes};
    const char *seed = getenv("TEST_SEED");
    job.seed = seed != NULL ? strtoull(seed, NULL, 0) : 20240611;
    CHECK_OK(aq_init(&params, &job.team));
    job.self = aq_team_rank(job.team);
    job.size = aq_team_size(job.team);
    job.ep = aq_team_ep(job.team);
    job.random = mix(job.seed + job.self);
    CHECK(job.ep != NULL);
    CHECK_EQUAL(aq_job_rank(), job.self);
    CHECK_EQUAL(aq_job_size(), job.size);
    CHECK(aq_job_thread_mode() == mode);
    if (segment > 0) {
        job_attach(segment);
        job.len = segment;
    }
    if (job.self == 0) printf("%u ranks, seed %llu\n", job.size, (unsigned long long)job.seed);
}

void job_close(void)
{
    job_barrier();
    CHECK_OK(aq_finalize());
}

void job_handlers(aq_handler_entry *table, size_t count)
{
    CHECK_OK(aq_am_register(job.ep, table, count));
    job_barrier();
}

void job_barrier(void)
{
    CHECK_OK(aq_barrier(job.team));
}

void *job_at(aq_rank rank, size_t offset)
{
    aq_segment_info info;
    if (job.bases != NULL) return job.bases[rank] + offset;
    CHECK_OK(aq_segment_query(job.team, rank, &info));
    CHECK(offset <= info.size);
    return (unsigned char *)info.addr + offset;
}

aq_rank job_next(void)
{
    return (job.self + 1) % job.size;
}

aq_rank job_previous(void)
{
    return (job.self + job.size - 1) % job.size;
}

uint64_t job_counter(const char *name)
{
    aq_counter_info info;
    for (size_t i = 0; aq_info_counter(i, &info) == AQ_OK; i++)
        if (strcmp(info.name, name) == 0) return info.value;
    check_failed(__FILE__, __LINE__, "no counter is named %s", name);
}

struct await {
    const _Atomic uint32_t *counter;
    uint32_t value;
};

static int await_over(void *arg)
{
    const struct await *await = arg;
    return *await->counter >= await->value;
}

void job_await(const _Atomic uint32_t *counter, uint32_t value)
{
    struct await await = {.counter = counter, .value = value};
    CHECK_OK(aq_poll_until(await_over, &await, AQ_FOREVER));
}

uint64_t job_random(void)
{
    job.random += 0x9e3779b97f4a7c15u;
    return mix(job.random);
}

bool all_bytes(const void *buf, size_t len, unsigned char byte)
{
    const unsigned char *bytes = buf;
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != byte) return false;
    return true;
}

static aq_arg arg_of(uint64_t seed, unsigned i)
{
    static const aq_arg special[] = {0, 1, -1, INT32_MAX, INT32_MIN, 0x01020304};
    uint64_t mixed = mix(seed * 17 + i);
    return mixed % 3 == 0 ? special[mixed / 3 % COUNT_OF(special)] : (aq_arg)(uint32_t)mixed;
}

void fill_args(aq_arg *args, unsigned nargs, uint64_t seed)
{
    for (unsigned i = 0; i < nargs; i++)
        args[i] = arg_of(seed, i);
}

bool filled_args(const aq_arg *args, unsigned nargs, uint64_t seed)
{
    for (unsigned i = 0; i < nargs; i++)
        if (args[i] != arg_of(seed, i)) return false;
    return true;
}
