/*
 * Several segments and endpoints: memory of the library and of the program is bound, published,
 * accessed by address and by offset through pairs, and refused where necessary; and all memory as a
 * segment.
 *
 * usage: endpoints [everything | first]
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 5000, LARGE = 300000, TAKE = 100 };

static unsigned char *own; /* of the program, at an odd address */
static aq_ep *eps[8];
static aq_segment *segments[8];

static aq_team *pair(unsigned index)
{
    aq_team *team = aq_team_pair(job.ep, index);
    CHECK(team != NULL && team == aq_team_pair(job.ep, index) && team != job.team);
    CHECK_EQUAL(aq_team_size(team), job.size);
    CHECK_EQUAL(aq_team_rank(team), job.self);
    CHECK(aq_team_ep(team) == job.ep);
    return team;
}

/* --- making them ------------------------------------------------------------------------- */

static void test_create(void)
{
    aq_ep *none = NULL;
    aq_segment *segment = NULL;
    CHECK_EQUAL(aq_ep_index(job.ep), 0);
    CHECK_EQUAL(aq_ep_capabilities(job.ep), AQ_EP_ALL);
    CHECK_REFUSED(aq_ep_create(0, &none), AQ_EINVAL);
    CHECK_REFUSED(aq_ep_create(0x100, &none), AQ_EINVAL);
    CHECK_REFUSED(aq_ep_create(AQ_EP_RMA, NULL), AQ_EINVAL);
    for (unsigned i = 1; i < aq_ep_max(); i++) {
        CHECK_OK(aq_ep_create(AQ_EP_RMA | AQ_EP_ATOMIC, &eps[i]));
        CHECK_EQUAL(aq_ep_index(eps[i]), i);
        CHECK(aq_ep_segment(eps[i]) == NULL);
    }
    CHECK_REFUSED(aq_ep_create(AQ_EP_RMA, &none), AQ_ELIMIT);
    CHECK(none == NULL);
    CHECK_REFUSED(aq_segment_create(NULL, 0, 0, &segment), AQ_EINVAL);
    CHECK_REFUSED(aq_segment_create(own, SIZE_MAX, 0, &segment), AQ_EINVAL);
    CHECK_REFUSED(aq_segment_create(NULL, SIZE_MAX - 10, 0, &segment), AQ_ESIZE);
    CHECK_REFUSED(aq_segment_create(NULL, 10, 0, NULL), AQ_EINVAL);
    CHECK(segment == NULL);
    CHECK_OK(aq_segment_create(own, SMALL, 0, &segments[1]));
    CHECK(aq_segment_addr(segments[1]) == own && aq_segment_size(segments[1]) == SMALL);
    CHECK_OK(aq_segment_create(NULL, LARGE, 0, &segments[2]));
    CHECK(aq_segment_size(segments[2]) >= LARGE);
    CHECK(all_bytes(aq_segment_addr(segments[2]), LARGE, 0));
}

static void test_bind(void)
{
    CHECK_REFUSED(aq_ep_bind(NULL, segments[1]), AQ_EINVAL);
    CHECK_REFUSED(aq_ep_bind(eps[1], NULL), AQ_EINVAL);
    CHECK_OK(aq_ep_bind(eps[1], segments[1]));
    CHECK_OK(aq_ep_bind(eps[2], segments[2]));
    CHECK_OK(aq_ep_bind(eps[3], segments[2])); /* one segment at two endpoints */
    CHECK_REFUSED(aq_ep_bind(eps[1], segments[2]), AQ_EINVAL);
    CHECK(aq_ep_segment(eps[1]) == segments[1]);
    /* This rank's own segment is known at once, those of others not yet. */
    aq_segment_info info;
    CHECK_OK(aq_segment_query(pair(1), job.self, &info));
    CHECK(info.addr == own && info.size == SMALL);
    CHECK_OK(aq_put(pair(1), job.self, own + 1, "x", 1, 0));
    CHECK_EQUAL(own[1], 'x');
    CHECK_OK(aq_segment_query(pair(4), job.self, &info));
    CHECK_EQUAL(info.size, 0);
    if (job.size > 1) {
        CHECK_OK(aq_segment_query(pair(1), job_next(), &info));
        CHECK_EQUAL(info.size, 0);
        CHECK_REFUSED(aq_put(pair(1), job_next(), own, "x", 1, 0), AQ_ERANGE);
    }
}

/* Publish over a team of every other rank: only its members learn of the segments. */
static void publish_in_halves(void)
{
    aq_team *half;
    aq_segment_info info;
    CHECK_OK(aq_team_split(job.team, (int)(job.self % 2), -(int)job.self, 0, &half));
    CHECK_OK(aq_ep_publish(half, eps + 1, 1, 0));
    for (aq_rank rank = 0; rank < job.size; rank++) {
        CHECK_OK(aq_segment_query(pair(1), rank, &info));
        CHECK_EQUAL(info.size, rank % 2 == job.self % 2 ? SMALL : 0);
        if (info.size != 0)
            CHECK_OK(aq_put(pair(1), rank, (char *)info.addr + 7 + job.self, "h", 1, 0));
    }
    job_barrier();
    for (aq_rank rank = job.self % 2; rank < job.size; rank += 2)
        CHECK_EQUAL(own[7 + rank], 'h');
    CHECK_OK(aq_team_destroy(half));
    job_barrier();
}

static void test_publish(void)
{
    aq_ep *strange = (aq_ep *)(void *)own;
    CHECK_STATUS(aq_ep_publish(NULL, eps + 1, 3, 0), AQ_EINVAL);
    /* A mistake of one rank fails on all of them, and nothing is published. */
    CHECK_STATUS(aq_ep_publish(job.team, job.self == 0 ? &strange : eps + 1, 1, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_ep_publish(pair(1), eps + 1, 1, 0), AQ_EINVAL);
    CHECK_OK(aq_ep_publish(job.team, NULL, 0, 0));
    publish_in_halves();
    CHECK_OK(aq_ep_publish(job.team, eps + 1, 4, 0)); /* the fourth endpoint has no segment */
}

/* --- using them -------------------------------------------------------------------------- */

/* The blocking calls with offsets; `out` mirrors the contents of the segment. */
static void test_offsets(aq_team *team, unsigned char *out, size_t size)
{
    const aq_rank to = job_next();
    unsigned char *in = malloc(size);
    uint64_t value = 0;
    CHECK(in != NULL);
    fill(out + 2000, 1000, job.self);
    CHECK_OK(aq_put(team, to, aq_remote_offset(2000), out + 2000, 1000, AQ_REMOTE_OFFSET));
    CHECK_OK(aq_put_value(team, to, aq_remote_offset(3001), 0x1122, 2, AQ_REMOTE_OFFSET));
    memcpy(out + 3001, (unsigned char[]){0x22, 0x11}, 2);
    CHECK_OK(aq_get_value(team, to, aq_remote_offset(3001), 2, AQ_REMOTE_OFFSET, &value));
    CHECK_EQUAL(value, 0x1122);
    CHECK_OK(aq_memset(team, to, aq_remote_offset(3100), 0x33, 50, AQ_REMOTE_OFFSET));
    memset(out + 3100, 0x33, 50);
    CHECK_OK(aq_put_strided(team, to, aq_remote_offset(3200), (ptrdiff_t[]){2}, out,
                            (ptrdiff_t[]){1}, 1, (size_t[]){40}, 1, AQ_REMOTE_OFFSET));
    for (size_t i = 0; i < 40; i++)
        out[3200 + 2 * i] = out[i];
    CHECK_OK(aq_put_vector(team, to, 1, &(aq_vec){aq_remote_offset(3300), 20}, 1,
                           &(aq_vec){out, 20}, AQ_REMOTE_OFFSET));
    CHECK_OK(aq_put_indexed(team, to, 1, (void *[]){aq_remote_offset(3320)}, 20, 2,
                            (void *[]){out + 20, out + 30}, 10, AQ_REMOTE_OFFSET));
    memcpy(out + 3300, out, 40);
    CHECK_OK(aq_get(team, to, in, NULL, size, AQ_REMOTE_OFFSET));
    CHECK(memcmp(in, out, size) == 0);
    CHECK_OK(aq_get_strided(team, to, in, (ptrdiff_t[]){1}, aq_remote_offset(3200),
                            (ptrdiff_t[]){2}, 1, (size_t[]){40}, 1, AQ_REMOTE_OFFSET));
    CHECK_OK(aq_get_vector(team, to, 1, &(aq_vec){in + 40, 20}, 1,
                           &(aq_vec){aq_remote_offset(3300), 20}, AQ_REMOTE_OFFSET));
    CHECK_OK(aq_get_indexed(team, to, 1, (void *[]){in + 60}, 20, 1,
                            (void *[]){aq_remote_offset(3320)}, 20, AQ_REMOTE_OFFSET));
    CHECK(memcmp(in, out, 40) == 0 && memcmp(in + 40, out, 40) == 0);
    free(in);
}

/* Flags and offsets that the blocking calls refuse. */
static void test_bad_flags(aq_team *team, size_t size)
{
    const aq_rank to = job_next();
    unsigned char byte = 1;
    uint64_t value;
    for (int i = 0; i < 2; i++) {
        unsigned flags = i == 0 ? 0x8000 : AQ_REMOTE_OFFSET;
        aq_status want = i == 0 ? AQ_EINVAL : AQ_ERANGE;
        void *at = aq_remote_offset(size);
        CHECK_REFUSED(aq_put(team, to, at, &byte, 1, flags), want);
        CHECK_REFUSED(aq_get(team, to, &byte, at, 1, flags), want);
        CHECK_REFUSED(aq_put_value(team, to, at, 1, 1, flags), want);
        CHECK_REFUSED(aq_get_value(team, to, at, 1, flags, &value), want);
        CHECK_REFUSED(aq_memset(team, to, at, 1, 1, flags), want);
        CHECK_REFUSED(aq_put_vector(team, to, 1, &(aq_vec){at, 1}, 1, &(aq_vec){&byte, 1}, flags),
                      want);
        CHECK_REFUSED(aq_get_vector(team, to, 1, &(aq_vec){&byte, 1}, 1, &(aq_vec){at, 1}, flags),
                      want);
        CHECK_REFUSED(aq_put_indexed(team, to, 1, &at, 1, 1, (void *[]){&byte}, 1, flags), want);
        CHECK_REFUSED(aq_get_indexed(team, to, 1, (void *[]){&byte}, 1, 1, &at, 1, flags), want);
        CHECK_REFUSED(aq_put_strided(team, to, at, NULL, &byte, NULL, 1, NULL, 0, flags), want);
        CHECK_REFUSED(aq_get_strided(team, to, &byte, NULL, at, NULL, 1, NULL, 0, flags), want);
    }
}

/* Every call that takes an address, with the segment of an endpoint of the next rank. */
static void test_access(unsigned index, size_t size)
{
    aq_team *team = pair(index);
    aq_segment_info info;
    unsigned char *out = malloc(size), *in = malloc(size);
    aq_event event;
    CHECK(out != NULL && in != NULL);
    CHECK_OK(aq_segment_query(team, job_next(), &info));
    CHECK(info.size >= size);
    unsigned char *there = info.addr;
    fill(out, size, job.self + index);
    CHECK_OK(aq_put(team, job_next(), there, out, size, 0));
    CHECK_OK(aq_get(team, job_next(), in, there, size, 0));
    CHECK(memcmp(in, out, size) == 0);
    CHECK_OK(aq_memset(team, job_next(), there + 3, 7, 100, 0));
    memset(out + 3, 7, 100);
    CHECK_OK(aq_put_strided(team, job_next(), there + 200, (ptrdiff_t[]){3}, out, (ptrdiff_t[]){1},
                            1, (size_t[]){90}, 1, 0));
    for (size_t i = 0; i < 90; i++)
        out[200 + 3 * i] = out[i];
    test_offsets(team, out, size);
    CHECK_OK(aq_put_value_nb(team, job_next(), aq_remote_offset(1001), 0x5a, 1, AQ_REMOTE_OFFSET,
                             &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    out[1001] = 0x5a;
    memset(in, 0, size);
    CHECK_OK(aq_get_nb(team, job_next(), in, NULL, size, AQ_REMOTE_OFFSET, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK(memcmp(in, out, size) == 0);
    test_bad_flags(team, info.size);
    CHECK_REFUSED(aq_put(team, job_next(), there + info.size - 3, out, 4, 0), AQ_ERANGE);
    CHECK_REFUSED(aq_put_nbi(team, job_next(), (void *)(info.size - 3), out, 4, AQ_REMOTE_OFFSET),
                  AQ_ERANGE);
    free(out);
    free(in);
    job_barrier();
}

/* All ranks add to one place, through two endpoints with the same segment. */
static void test_atomics(void)
{
    uint64_t one = 1, sum;
    aq_atomic_domain *domains[2];
    for (unsigned i = 0; i < 2; i++)
        CHECK_OK(aq_atomic_domain_create(pair(2 + i), AQ_TYPE_U64, AQ_OPS_ALL, 0, &domains[i]));
    if (job.self == 0) memset(aq_segment_addr(segments[2]), 0, 8);
    job_barrier();
    for (int i = 0; i < 500; i++) /* by offset, as the address is not known */
        CHECK_OK(aq_atomic_nbi(domains[i % 2], 0, NULL, AQ_OP_ADD, &one, NULL, NULL,
                               AQ_REMOTE_OFFSET | AQ_ATOMIC_RELEASE));
    CHECK_OK(aq_nbi_wait(AQ_NBI_ATOMIC, AQ_FOREVER));
    job_barrier();
    CHECK_OK(aq_atomic_nbi(domains[0], 0, NULL, AQ_OP_GET, NULL, NULL, &sum,
                           AQ_REMOTE_OFFSET | AQ_ATOMIC_ACQUIRE));
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
    CHECK_EQUAL(sum, 500 * (uint64_t)job.size);
    sum = 0;
    CHECK_OK(aq_atomic(domains[1], 0, NULL, AQ_OP_GET, NULL, NULL, &sum, AQ_REMOTE_OFFSET));
    CHECK_EQUAL(sum, 500 * (uint64_t)job.size);
    CHECK_REFUSED(
        aq_atomic(domains[1], 0, NULL, AQ_OP_GET, NULL, NULL, &sum, AQ_REMOTE_OFFSET | 0x8000),
        AQ_EINVAL);
    CHECK_REFUSED(aq_atomic(domains[1], 0, aq_remote_offset(1u << 30), AQ_OP_GET, NULL, NULL, &sum,
                            AQ_REMOTE_OFFSET),
                  AQ_ERANGE);
    for (unsigned i = 0; i < 2; i++)
        aq_atomic_domain_destroy(domains[i]);
    job_barrier();
}

static void test_destroy(void)
{
    aq_segment_info info;
    CHECK_OK(aq_segment_query(pair(1), job_next(), &info));
    job_barrier();
    CHECK_REFUSED(aq_segment_destroy(job.segment), AQ_EINVAL);
    CHECK_OK(aq_segment_destroy(NULL));
    CHECK_OK(aq_segment_destroy(segments[1]));
    CHECK_REFUSED(aq_segment_destroy(segments[1]), AQ_EINVAL);
    CHECK(aq_ep_segment(eps[1]) == NULL);
    job_barrier();
    CHECK_REFUSED(aq_put(pair(1), job_next(), info.addr, "x", 1, 0), AQ_ERANGE);
    /* The same with other memory. */
    CHECK_OK(aq_segment_create(NULL, SMALL, 0, &segments[1]));
    CHECK_OK(aq_ep_bind(eps[1], segments[1]));
    CHECK_OK(aq_ep_publish(job.team, &eps[1], 1, 0));
    test_access(1, SMALL);
}

static void on_long(aq_am *am)
{
    (void)am;
    CHECK(0); /* its memory no longer exists */
}

/* Memory that its owner has revoked is inaccessible to Longs and puts, and both report that. */
static void test_stale(aq_segment *segment, const void *src)
{
    aq_segment_info info;
    CHECK_OK(aq_segment_query(job.team, job_next(), &info));
    aq_handler_entry table[] = {{200, 0, AQ_AM_LONG | AQ_AM_REQUEST, on_long, NULL, "long"}};
    job_handlers(table, COUNT_OF(table));
    CHECK_OK(aq_segment_destroy(segment));
    memset(own, 0x6b, LARGE);
    job_barrier();
    CHECK_REFUSED(aq_put(job.team, job_next(), info.addr, src, LARGE, 0), AQ_ERANGE);
    CHECK_REFUSED(aq_am_long(job.team, job_next(), 200, src, LARGE, info.addr, NULL, 0, 0, NULL),
                  AQ_ERANGE);
    CHECK(strstr(aq_error_message(), "dead") == NULL);
    job_barrier();
    CHECK(all_bytes(own, LARGE, 0x6b));
    job_barrier();
}

/* The first endpoint with a segment of its own instead of an attached one. */
static void run_first(void)
{
    aq_segment *segment;
    CHECK_OK(aq_segment_create(own, LARGE, 0, &segment));
    CHECK_OK(aq_ep_bind(job.ep, segment));
    CHECK_OK(aq_ep_publish(job.team, &job.ep, 1, 0));
    CHECK_REFUSED(aq_segment_attach(job.team, 4096, &job.segment), AQ_ESTATE);
    unsigned char *copy = malloc(LARGE);
    CHECK(copy != NULL && aq_ep_segment(job.ep) == segment);
    fill(copy, LARGE, job.self);
    CHECK_OK(aq_put(job.team, job_next(), job_at(job_next(), 0), copy, LARGE, 0));
    job_barrier();
    CHECK(filled(own, LARGE, job_previous()));
    test_stale(segment, copy);
    free(copy);
}

/* All memory of a process: a variable, and memory from malloc, without a segment. */
static struct places {
    uint64_t *word;
    unsigned char *own;
} next;
static uint64_t word;
static _Atomic uint32_t notified;

static void on_take(aq_am *am)
{
    CHECK_EQUAL(am->nbytes, sizeof(next));
    memcpy(&next, am->payload, sizeof(next));
    notified++;
}

static void run_everything(void)
{
    aq_handler_entry table[] = {{TAKE, 0, 0, on_take, NULL, "take"}};
    struct places mine = {&word, own};
    unsigned char *copy = malloc(LARGE);
    aq_segment_info info;
    CHECK(copy != NULL && aq_segment_mode_get() == AQ_SEGMENT_EVERYTHING);
    CHECK(aq_segment_max() == SIZE_MAX);
    CHECK_OK(aq_segment_attach(job.team, 77, &job.segment));
    CHECK_OK(aq_segment_query(job.team, job_next(), &info));
    CHECK(info.addr == NULL && info.size == SIZE_MAX);
    job_handlers(table, 1);
    CHECK_OK(
        aq_am_medium(job.team, job_previous(), TAKE, &mine, sizeof(mine), AQ_NO_ARGS, 0, NULL));
    job_await(&notified, 1);
    CHECK_OK(aq_put_value(job.team, job_next(), next.word, job.self + 77, 8, 0));
    fill(copy, LARGE, job.self);
    CHECK_OK(aq_put(job.team, job_next(), next.own, copy, LARGE, 0));
    CHECK_OK(aq_put_strided(job.team, job_next(), next.own, (ptrdiff_t[]){2}, copy,
                            (ptrdiff_t[]){2}, 1, (size_t[]){1000}, 1, 0));
    job_barrier();
    CHECK_EQUAL(word, job_previous() + 77);
    CHECK(filled(own, LARGE, job_previous()));
    CHECK_OK(aq_get(job.team, job_next(), copy, next.own, LARGE, 0));
    CHECK(filled(copy, LARGE, job.self));
    job_barrier();
    free(copy);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool everything = strcmp(what, "everything") == 0;
    if (everything) job.segment_modes = AQ_SEGMENT_BIT(AQ_SEGMENT_EVERYTHING);
    job_open(AQ_THREAD_SINGLE, 0);
    unsigned char *memory = malloc(LARGE + 1);
    CHECK(memory != NULL);
    own = memory + 1;
    if (everything) {
        run_everything();
    } else if (strcmp(what, "first") == 0) {
        run_first();
    } else {
        CHECK_OK(aq_segment_attach(job.team, 4096, &job.segment));
        CHECK(aq_ep_segment(job.ep) == job.segment);
        test_create();
        test_bind();
        test_publish();
        test_access(1, SMALL);
        test_access(2, LARGE);
        test_access(3, LARGE);
        test_access(0, 4096);
        test_atomics();
        test_destroy();
    }
    job_close();
    free(memory);
    return 0;
}
