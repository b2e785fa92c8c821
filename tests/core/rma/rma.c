/* One-sided operations: every call, all sizes and alignments, to every rank. */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

#define SLICE ((size_t)20480) /* of every rank in every rank's segment */
#define GUARD ((size_t)64)

static const size_t sizes[] = {0,    1,    2,    3,    4,    5,    7,    8,    9,
                               15,   16,   17,   31,   33,   63,   64,   65,   100,
                               127,  255,  256,  511,  512,  1000, 1023, 2048, 4031,
                               4032, 4033, 4095, 4096, 4097, 8191, 16384};

static size_t mine(size_t offset)
{
    return job.self * SLICE + offset;
}

/* --- segments ---------------------------------------------------------------------------- */

static void test_segments(void)
{
    CHECK_EQUAL((uintptr_t)job.base % 4096, 0);
    CHECK(all_bytes(job.base, job.len, 0));
    CHECK(aq_segment_max() >= job.len);
    job_barrier();
    for (aq_rank rank = 0; rank < job.size; rank++) {
        aq_segment_info info;
        CHECK_OK(aq_segment_query(job.team, rank, &info));
        CHECK(info.size >= job.len);
        if (rank == job.self) CHECK(info.addr == job.base);
        if (info.local == NULL) continue;
        ((unsigned char *)info.local)[mine(7)] = (unsigned char)(job.self + 1);
    }
    job_barrier();
    for (aq_rank rank = 0; rank < job.size; rank++) {
        aq_segment_info info;
        CHECK_OK(aq_segment_query(job.team, rank, &info));
        /* A peer that has mapped this segment has marked it by a plain store. */
        if (info.local != NULL) CHECK_EQUAL(job.base[rank * SLICE + 7], rank + 1);
    }
    job_barrier();
}

/* --- put and get ------------------------------------------------------------------------- */

/* The kinds of calls for a transfer, which is complete when the function below returns. */
enum form { BLOCKING, EXPLICIT, IMPLICIT, REGION, FORMS };

static void do_put(enum form form, aq_rank rank, void *dst, const void *src, size_t len)
{
    aq_event event;
    switch (form) {
    case BLOCKING:
        CHECK_OK(aq_put(job.team, rank, dst, src, len, 0));
        return;
    case EXPLICIT:
        CHECK_OK(aq_put_nb(job.team, rank, dst, src, len, 0, &event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        return;
    case IMPLICIT:
        CHECK_OK(aq_put_nbi(job.team, rank, dst, src, len, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
        return;
    default:
        CHECK_OK(aq_nbi_begin());
        CHECK_OK(aq_put_nbi(job.team, rank, dst, src, len, 0));
        CHECK_OK(aq_nbi_end(&event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    }
}

static void do_get(enum form form, void *dst, aq_rank rank, const void *src, size_t len)
{
    aq_event event;
    switch (form) {
    case BLOCKING:
        CHECK_OK(aq_get(job.team, rank, dst, src, len, 0));
        return;
    case EXPLICIT:
        CHECK_OK(aq_get_nb(job.team, rank, dst, src, len, 0, &event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        return;
    case IMPLICIT:
        CHECK_OK(aq_get_nbi(job.team, rank, dst, src, len, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
        return;
    default:
        CHECK_OK(aq_nbi_begin());
        CHECK_OK(aq_get_nbi(job.team, rank, dst, src, len, 0));
        CHECK_OK(aq_nbi_end(&event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    }
}

/*
 * Put data and get it back, with guard bytes around it. `from` and `to` are offsets from an aligned
 * address.
 */
static void round_trip(enum form form, aq_rank rank, size_t len, size_t from, size_t to)
{
    static unsigned char buffer[SLICE];
    size_t at = mine(GUARD + to);
    uint64_t seed = mix(len * 64 + from) + to + (unsigned)form;
    memset(buffer, 0xa5, len + 3 * GUARD);
    CHECK_OK(aq_put(job.team, rank, job_at(rank, mine(0)), buffer, len + 3 * GUARD, 0));
    fill(buffer + from, len, seed);
    do_put(form, rank, job_at(rank, at), buffer + from, len);
    memset(buffer, 0, len + 3 * GUARD);
    do_get(form, buffer + from, rank, job_at(rank, mine(0)), len + 2 * GUARD);
    CHECK(all_bytes(buffer, from, 0));
    CHECK(all_bytes(buffer + from, GUARD + to, 0xa5));
    CHECK(filled(buffer + from + GUARD + to, len, seed));
    CHECK(all_bytes(buffer + from + GUARD + to + len, GUARD - to, 0xa5));
}

static void test_round_trips(void)
{
    static const size_t skew[][2] = {{0, 0}, {1, 0}, {0, 1}, {3, 5}, {8, 4}};
    /* With many ranks, each tries some of the combinations; together they try all. */
    unsigned stride = job.size > 4 ? job.size : 1, turn = job.self;
    for (aq_rank rank = 0; rank < job.size; rank++)
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            for (size_t s = 0; s < COUNT_OF(skew); s++)
                for (int form = 0; form < FORMS; form++)
                    if (turn++ % stride == 0)
                        round_trip((enum form)form, rank, sizes[i], skew[s][0], skew[s][1]);
    job_barrier();
}

/* The owner sees what was put, and gets return what the owner wrote. */
static void test_seen_by_owner(void)
{
    aq_rank next = job_next(), previous = job_previous();
    static unsigned char buffer[SLICE];
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        fill(buffer, sizes[i], job.self + i);
        do_put((enum form)(i % FORMS), next, job_at(next, mine(1)), buffer, sizes[i]);
        job_barrier();
        CHECK(filled(job.base + previous * SLICE + 1, sizes[i], previous + i));
        fill(job.base + previous * SLICE, sizes[i], previous + i + 99);
        job_barrier();
        do_get((enum form)(i % FORMS), buffer, next, job_at(next, mine(0)), sizes[i]);
        CHECK(filled(buffer, sizes[i], job.self + i + 99));
        job_barrier();
    }
}

/* --- large ------------------------------------------------------------------------------- */

static void test_large(void)
{
    size_t len = job.len - 1;
    unsigned char *buffer = malloc(len);
    CHECK(buffer != NULL);
    for (aq_rank turn = 0; turn < job.size && turn < 4; turn++) {
        job_barrier();
        if (turn == job.self) {
            fill(buffer, len, turn);
            do_put((enum form)(turn % FORMS), job_next(), job_at(job_next(), 1), buffer, len);
            memset(buffer, 0, len);
            do_get((enum form)(turn % FORMS), buffer, job_next(), job_at(job_next(), 1), len);
            CHECK(filled(buffer, len, turn));
        }
        job_barrier();
        if (turn == job_previous()) CHECK(filled(job.base + 1, len, turn));
    }
    free(buffer);
    job_barrier();
}

/* --- values ------------------------------------------------------------------------------ */

static void test_values(void)
{
    for (aq_rank rank = 0; rank < job.size; rank++) {
        for (size_t len = 1; len <= 8; len++) {
            for (size_t skew = 0; skew < 3; skew++) {
                uint64_t value = job_random(), got = 0;
                uint64_t mask = len == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * len) - 1;
                unsigned char around[32];
                aq_event event;
                void *at = job_at(rank, mine(8 + skew));
                CHECK_OK(aq_memset(job.team, rank, job_at(rank, mine(0)), 0xa5, 32, 0));
                if (skew == 0) CHECK_OK(aq_put_value(job.team, rank, at, value, len, 0));
                if (skew == 1) {
                    CHECK_OK(aq_put_value_nb(job.team, rank, at, value, len, 0, &event));
                    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
                }
                if (skew == 2) {
                    CHECK_OK(aq_put_value_nbi(job.team, rank, at, value, len, 0));
                    CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
                }
                CHECK_OK(aq_get_value(job.team, rank, at, len, 0, &got));
                CHECK(got == (value & mask));
                CHECK_OK(aq_get(job.team, rank, around, job_at(rank, mine(0)), 32, 0));
                CHECK(all_bytes(around, 8 + skew, 0xa5));
                CHECK(memcmp(around + 8 + skew, &value, len) == 0);
                CHECK(all_bytes(around + 8 + skew + len, 32 - 8 - skew - len, 0xa5));
            }
        }
    }
    job_barrier();
}

/* --- memset ------------------------------------------------------------------------------ */

static void test_memset(void)
{
    static unsigned char buffer[SLICE];
    for (aq_rank rank = 0; rank < job.size; rank++) {
        for (size_t i = rank % 3; i<COUNT_OF(sizes); i += job.size> 4 ? 5 : 1) {
            size_t len = sizes[i], whole = len + 2 * GUARD;
            aq_event event;
            void *at = job_at(rank, mine(GUARD + 1));
            CHECK_OK(aq_memset(job.team, rank, job_at(rank, mine(0)), 0xa5, whole, 0));
            /* As with memset in C, the low byte counts. */
            if (i % 3 == 0) CHECK_OK(aq_memset(job.team, rank, at, 0x1234, len, 0));
            if (i % 3 == 1) {
                CHECK_OK(aq_memset_nb(job.team, rank, at, 0x34, len, 0, &event));
                CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
            }
            if (i % 3 == 2) {
                CHECK_OK(aq_memset_nbi(job.team, rank, at, 0x34, len, 0));
                CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
            }
            CHECK_OK(aq_get(job.team, rank, buffer, job_at(rank, mine(0)), whole, 0));
            CHECK(all_bytes(buffer, GUARD + 1, 0xa5));
            CHECK(all_bytes(buffer + GUARD + 1, len, 0x34));
            CHECK(all_bytes(buffer + GUARD + 1 + len, GUARD - 1, 0xa5));
        }
    }
    job_barrier();
}

/* --- many at once ------------------------------------------------------------------------ */

static void test_many(void)
{
    enum { COUNT = 300, SIZE = 48 };
    static unsigned char out[COUNT * SIZE], in[COUNT * SIZE];
    aq_rank rank = job_next();
    for (uint32_t i = 0; i < COUNT; i++) {
        fill(out + i * SIZE, SIZE, i);
        CHECK_OK(aq_put_nbi(job.team, rank, job_at(rank, mine(i * SIZE)), out + i * SIZE, SIZE, 0));
    }
    CHECK_OK(aq_nbi_wait(AQ_NBI_LOCAL, AQ_FOREVER));
    memset(out, 0, sizeof(out)); /* sources may be reused now */
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_OK(aq_get_nbi(job.team, rank, in + i * SIZE, job_at(rank, mine(i * SIZE)), SIZE, 0));
    while (aq_nbi_test(AQ_NBI_GET) == AQ_AGAIN)
        (void)aq_poll();
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK(filled(in + i * SIZE, SIZE, i));
    job_barrier();
}

/*
 * AQ_AGAIN means that nothing was started: each operation is retried until it is accepted, and then
 * every byte is there.
 */
static void test_immediate(void)
{
    enum { COUNT = 200, SIZE = 64 };
    static unsigned char out[COUNT * SIZE], in[COUNT * SIZE];
    aq_rank rank = job_next();
    aq_event event[COUNT];
    fill(out, sizeof(out), job.self);
    for (uint32_t i = 0; i < COUNT; i++) {
        aq_status status;
        while ((status = aq_put_nb(job.team, rank, job_at(rank, mine(i * SIZE)), out + i * SIZE,
                                   SIZE, AQ_IMMEDIATE, &event[i])) == AQ_AGAIN)
            (void)aq_poll();
        CHECK_EQUAL(status, AQ_OK);
    }
    CHECK_OK(aq_event_wait_all(event, COUNT, AQ_FOREVER));
    CHECK_OK(aq_get(job.team, rank, in, job_at(rank, mine(0)), sizeof(in), 0));
    CHECK(memcmp(in, out, sizeof(in)) == 0);
    job_barrier();
}

/* --- regions ----------------------------------------------------------------------------- */

/* A region has its own operations: waiting for others does not complete it, nor vice versa. */
static void test_regions(void)
{
    static unsigned char in[3][256];
    aq_rank rank = job_next();
    aq_event event = AQ_EVENT_DONE;
    fill(job.base + job_previous() * SLICE, 3 * 256, 7);
    job_barrier();
    CHECK_STATUS(aq_nbi_end(&event), AQ_ESTATE);
    CHECK_OK(aq_get_nbi(job.team, rank, in[0], job_at(rank, mine(0)), 256, 0));
    CHECK_OK(aq_nbi_begin());
    CHECK_STATUS(aq_nbi_begin(), AQ_ESTATE);
    CHECK_STATUS(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER), AQ_ESTATE);
    CHECK_OK(aq_get_nbi(job.team, rank, in[1], job_at(rank, mine(256)), 256, 0));
    CHECK_OK(aq_get_nbi(job.team, rank, in[2], job_at(rank, mine(512)), 256, 0));
    CHECK_OK(aq_nbi_end(&event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK(event == AQ_EVENT_DONE);
    CHECK(filled(in[1], 256, 7 + 256) && filled(in[2], 256, 7 + 512));
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
    CHECK(filled(in[0], 256, 7));
    /* An empty one is complete. */
    CHECK_OK(aq_nbi_begin());
    CHECK_OK(aq_nbi_end(&event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    job_barrier();
}

int main(void)
{
    size_t least = (size_t)3 << 20;
    size_t want = SLICE * 32;
    job_open(AQ_THREAD_SINGLE, 0);
    want = want > SLICE * job.size ? want : SLICE * job.size;
    job.len = job.size <= 8 && want < least ? least : want;
    job_attach(job.len);
    test_segments();
    test_round_trips();
    test_seen_by_owner();
    test_large();
    test_values();
    test_memset();
    test_many();
    test_immediate();
    test_regions();
    job_close();
    return 0;
}
