/*
 * Events by kind: the leaves of an access region, the sources of messages as a group, and thousands
 * of outstanding operations without a malloc for each.
 */
#include "../support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAKE = 100, LONG = 50000, PIECE = 3000, OPS = 10000, SLICE = 200000 };

static unsigned char *out, *in, *check;
static _Atomic uint32_t taken;
static aq_atomic_domain *domain;
static aq_event events[OPS];

/* --- counting mallocs -------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS_MALLOC 0
#elif defined(__has_feature)
#define COUNTS_MALLOC (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define COUNTS_MALLOC 1
#endif

static _Thread_local uint64_t
    mallocs; /* of this thread, not of a helper thread, which may park packets */

#if COUNTS_MALLOC
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
    mallocs++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    mallocs++;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    mallocs++;
    return __libc_realloc(old, size);
}
#endif

/* --- regions and their leaves ------------------------------------------------------------ */

static char *there(size_t offset)
{
    return job_at(job_next(), (size_t)job.self * SLICE + offset);
}

static void on_take(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    taken++;
}

/* Puts, gets, atomics and messages in one region. */
static aq_event start_region(uint64_t seed, uint64_t *sums)
{
    uint64_t one = 1;
    aq_event region;
    CHECK_OK(aq_nbi_begin());
    CHECK_OK(aq_put_nbi(job.team, job_next(), there(0), out, PIECE, 0));
    CHECK_OK(aq_get_nbi(job.team, job_next(), in, there(PIECE), PIECE, 0));
    for (int i = 0; i < 5; i++)
        CHECK_OK(aq_atomic_nbi(domain, job_next(), there(2 * PIECE), AQ_OP_ADD, &one, NULL,
                               &sums[i], AQ_ATOMIC_ACQUIRE | AQ_ATOMIC_RELEASE));
    CHECK_OK(aq_am_medium(job.team, job_next(), TAKE, out + PIECE, 400, AQ_ARGS((aq_arg)seed), 0,
                          AQ_EVENT_GROUP));
    CHECK_OK(aq_am_long(job.team, job_next(), TAKE, out + 2 * PIECE, LONG, there(4 * PIECE),
                        AQ_ARGS((aq_arg)seed), 0, AQ_EVENT_GROUP));
    CHECK_OK(aq_nbi_end(&region));
    return region;
}

static void check_kind(unsigned kind, uint64_t seed, const uint64_t *sums)
{
    if (kind == AQ_NBI_GET) CHECK(filled(in, PIECE, seed + 1));
    for (uint64_t i = 0; kind == AQ_NBI_ATOMIC && i < 5; i++) {
        bool found = false;
        for (int k = 0; k < 5; k++)
            found = found || sums[k] == i;
        CHECK(found);
    }
    if (kind == AQ_NBI_LOCAL) memset(out, 0xee, SLICE);
    if (kind != AQ_NBI_PUT) return;
    /* Do not get into `in`, to which the region's own get may still be writing. */
    CHECK_OK(aq_get(job.team, job_next(), check, there(0), PIECE, 0));
    CHECK(filled(check, PIECE, seed));
}

static void prepare(uint64_t seed)
{
    uint64_t zero = 0;
    job_barrier();
    taken = 0;
    fill(out, PIECE, seed);
    fill(out + PIECE, PIECE, seed);
    fill(out + 2 * PIECE, LONG, seed);
    memset(in, 0, PIECE);
    fill(in, PIECE, seed + 1);
    CHECK_OK(aq_put(job.team, job_next(), there(PIECE), in, PIECE, 0));
    CHECK_OK(aq_put(job.team, job_next(), there(2 * PIECE), &zero, 8, 0));
    memset(in, 0, PIECE);
    job_barrier();
}

/* In each order of the kinds: the operations of a leaf are complete when it is, and remain so. */
static void test_leaves(void)
{
    static const unsigned kinds[] = {AQ_NBI_PUT, AQ_NBI_GET, AQ_NBI_ATOMIC, AQ_NBI_LOCAL};
    for (unsigned first = 0; first < COUNT_OF(kinds); first++) {
        uint64_t seed = 100 + first, sums[5] = {0};
        prepare(seed);
        aq_event root = start_region(seed, sums), leaves[COUNT_OF(kinds)];
        for (unsigned k = 0; k < COUNT_OF(kinds); k++)
            leaves[k] = aq_event_leaf(root, kinds[k]);
        for (unsigned i = 0; i < COUNT_OF(kinds); i++) {
            unsigned k = (first + i) % COUNT_OF(kinds);
            for (int times = 0; times < 3; times++) {
                aq_event copy = leaves[k];
                CHECK_OK(aq_event_wait(&copy, AQ_FOREVER));
                CHECK(copy == AQ_EVENT_DONE);
                copy = leaves[k];
                CHECK_OK(aq_event_test(&copy));
                CHECK(aq_event_leaf(root, kinds[k]) == AQ_EVENT_DONE);
            }
            check_kind(kinds[k], seed, sums);
        }
        CHECK_OK(aq_event_wait(&root, AQ_FOREVER));
        job_await(&taken, 2);
    }
    CHECK(aq_event_leaf(AQ_EVENT_DONE, AQ_NBI_PUT) == AQ_EVENT_DONE);
}

/* Root and leaves of one operation in one array, in any order. */
static void test_array(void)
{
    prepare(7);
    for (int i = 0; i < 20; i++) {
        aq_event array[4];
        CHECK_OK(aq_put_nb(job.team, job_next(), there(0), out, PIECE, 0, &array[i % 4]));
        aq_event root = array[i % 4];
        array[(i + 1) % 4] = aq_event_leaf(root, AQ_NBI_LOCAL);
        array[(i + 2) % 4] = aq_event_leaf(root, AQ_NBI_PUT);
        array[(i + 3) % 4] = aq_event_leaf(root, AQ_NBI_GET);
        CHECK(array[(i + 3) % 4] == AQ_EVENT_DONE);
        CHECK_OK(aq_event_wait_all(array, 4, AQ_FOREVER));
        for (int k = 0; k < 4; k++)
            CHECK(array[k] == AQ_EVENT_DONE);
    }
}

/* --- the sources of messages as a group -------------------------------------------------- */

static void test_group(void)
{
    for (uint64_t round = 0; round < 10; round++) {
        prepare(round);
        for (int i = 0; i < 3; i++)
            CHECK_OK(aq_am_long(job.team, job_next(), TAKE, out + 2 * PIECE, LONG,
                                there(2 * PIECE + (size_t)i * LONG), AQ_ARGS((aq_arg)round), 0,
                                AQ_EVENT_GROUP));
        CHECK_OK(aq_am_medium(job.team, job_next(), TAKE, out, 300, AQ_ARGS((aq_arg)round), 0,
                              AQ_EVENT_GROUP));
        if (round % 2) {
            CHECK_OK(aq_nbi_wait(AQ_NBI_LOCAL, AQ_FOREVER));
        } else {
            while (aq_nbi_test(AQ_NBI_LOCAL) == AQ_AGAIN)
                (void)aq_poll();
        }
        memset(out, 0xee, SLICE);
        CHECK_OK(aq_nbi_test(AQ_NBI_ALL));
        job_await(&taken, 4);
    }
}

/* --- thousands --------------------------------------------------------------------------- */

static void start_thousands(void)
{
    for (size_t i = 0; i < OPS; i++)
        CHECK_OK(aq_put_nb(job.team, job_next(), there(i * 16), out + i * 16, 16, 0, &events[i]));
    CHECK_OK(aq_event_wait_all(events, OPS, AQ_FOREVER));
    for (size_t i = 0; i < OPS / 10; i++)
        CHECK_OK(aq_put_strided_nb(job.team, job_next(), there(i * 160), (ptrdiff_t[]){32},
                                   out + i * 160, (ptrdiff_t[]){32}, 8, (size_t[]){4}, 1, 0,
                                   &events[i]));
    CHECK_OK(aq_event_wait_all(events, OPS / 10, AQ_FOREVER));
}

/* The second round reuses what the first has allocated. */
static void test_thousands(void)
{
    job_barrier();
    fill(out, SLICE, 9);
    start_thousands();
    job_barrier();
    uint64_t before = mallocs;
    start_thousands();
    uint64_t during = mallocs - before;
    job_barrier();
    const char *fault = getenv("AQ_FAULT");
    if (COUNTS_MALLOC &&
        (fault == NULL || strstr(fault, "late") == NULL)) { /* late ones allocate */
        CHECK(before > 0);
        CHECK(during < 20);
    }
    CHECK_OK(aq_get(job.team, job_next(), in, there(0), OPS * (size_t)16, 0));
    CHECK(memcmp(in, out, OPS * (size_t)16) == 0);
    if (job.self == 0) printf("%llu mallocs in %d operations\n", (unsigned long long)during, OPS);
}

int main(void)
{
    aq_handler_entry table[] = {{TAKE, 1, AQ_AM_REQUEST, on_take, NULL, "take"}};
    job.segment_modes = ALL_SEGMENT_MODES;
    job_open(AQ_THREAD_SINGLE, 0);
    job_attach(job.size * (size_t)SLICE);
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U64, AQ_OP_BIT(AQ_OP_ADD), 0, &domain));
    aq_atomic_domain_info info;
    CHECK_OK(aq_atomic_domain_query(domain, &info));
    CHECK(info.team == job.team && info.type == AQ_TYPE_U64 && info.ops == AQ_OP_BIT(AQ_OP_ADD) &&
          info.size == 8);
    CHECK_REFUSED(aq_atomic_domain_query(NULL, &info), AQ_EINVAL);
    job_handlers(table, COUNT_OF(table));
    out = malloc(SLICE);
    in = malloc(SLICE);
    check = malloc(PIECE);
    CHECK(out != NULL && in != NULL && check != NULL);
    test_leaves();
    test_array();
    test_group();
    test_thousands();
    job_barrier();
    aq_atomic_domain_destroy(domain);
    free(out);
    free(in);
    free(check);
    job_close();
    return 0;
}
