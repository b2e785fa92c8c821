/* Segments of different sizes, and none; requesting too much fails on all ranks, after which a
 * smaller request succeeds. */
#include "../support.h"

#include <string.h>

/* The last rank has no segment, and those of the others differ in size. A single rank has one. */
static size_t size_of(aq_rank rank)
{
    if (rank == job.size - 1 && job.size > 1) return 0;
    return 10000 * (size_t)(rank + 1);
}

/* Whether all ranks request too much or only one, all get the error, and nothing is attached. */
static void test_too_much(void)
{
    aq_segment *segment = NULL;
    size_t most = aq_segment_max();
    CHECK(most >= 65536);
    CHECK_STATUS(aq_segment_attach(job.team, SIZE_MAX, &segment), AQ_ESIZE);
    CHECK_STATUS(aq_segment_attach(job.team, most + 1, &segment), AQ_ESIZE);
    CHECK_STATUS(aq_segment_attach(job.team, job.self == 0 ? most + 1 : 4096, &segment), AQ_ESIZE);
    CHECK(segment == NULL);
    CHECK_REFUSED(aq_segment_attach(job.team, 4096, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_segment_attach(NULL, 4096, &segment), AQ_EINVAL);
}

static void test_before(void)
{
    for (aq_rank rank = 0; rank < job.size; rank++) {
        aq_segment_info info = {.size = 1};
        char byte = 0;
        CHECK_OK(aq_segment_query(job.team, rank, &info));
        CHECK_EQUAL(info.size, 0);
        CHECK_REFUSED(aq_put(job.team, rank, &byte, &byte, 1, 0), AQ_ERANGE);
    }
}

static void test_sizes(void)
{
    aq_segment *segment = NULL;
    CHECK_OK(aq_segment_attach(job.team, size_of(job.self), &segment));
    CHECK(segment != NULL && aq_segment_size(segment) >= size_of(job.self));
    CHECK(all_bytes(aq_segment_addr(segment), size_of(job.self), 0));
    job_barrier();
    for (aq_rank rank = 0; rank < job.size; rank++) {
        aq_segment_info info;
        size_t want = (size_of(rank) + 4095) / 4096 * 4096;
        CHECK_OK(aq_segment_query(job.team, rank, &info));
        CHECK_EQUAL(info.size, want);
        if (rank == job.self && want != 0) CHECK(info.addr == aq_segment_addr(segment));
        char byte = (char)job.self;
        unsigned char *first = info.addr;
        if (want == 0) {
            CHECK_REFUSED(aq_put(job.team, rank, &byte, &byte, 1, 0), AQ_ERANGE);
            continue;
        }
        CHECK_OK(aq_put(job.team, rank, first + want - 1 - job.self, &byte, 1, 0));
        CHECK_OK(aq_get(job.team, rank, &byte, first + want - 1 - job.self, 1, 0));
        CHECK_EQUAL(byte, (char)job.self);
        CHECK_REFUSED(aq_put(job.team, rank, first + want, &byte, 1, 0), AQ_ERANGE);
    }
    CHECK_REFUSED(aq_segment_attach(job.team, 4096, &segment), AQ_ESTATE);
}

int main(void)
{
    job_open(AQ_THREAD_SINGLE, 0);
    test_before();
    test_too_much();
    test_before();
    test_sizes();
    job_close();
    return 0;
}
