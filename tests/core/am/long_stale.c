/*
 * Longs to a segment that its owner has destroyed: no handler runs, nothing is written, a warning
 * reports the Longs whose sender already has its source back, and later messages arrive.
 *
 * usage: long_stale WHERE BYTES: a Long of that many bytes, whose warning is in the log of its
 *        `target` or of its `sender`
 */
#include "../../common/capture.h"
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { LONG = 200, SHORT, SIZE = 1 << 17 };

static _Atomic uint32_t arrived;

static void on_long(aq_am *am)
{
    (void)am;
    CHECK(0);
}

static void on_short(aq_am *am)
{
    (void)am;
    arrived++;
}

static int dropped_one(void *arg)
{
    const uint64_t *before = arg;
    return job_counter("am_dropped") > *before;
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {{LONG, 0, AQ_AM_LONG | AQ_AM_REQUEST, on_long, NULL, "long"},
                                {SHORT, 0, AQ_AM_SHORT | AQ_AM_REQUEST, on_short, NULL, "short"}};
    aq_segment *segment;
    aq_segment_info info;
    struct capture capture;
    job_open(AQ_THREAD_SINGLE, 0);
    CHECK(argc == 3 && job.size == 2);
    bool at_target = strcmp(argv[1], "target") == 0;
    size_t len = strtoul(argv[2], NULL, 10);
    unsigned char *memory = malloc(SIZE), *src = malloc(SIZE);
    CHECK(memory != NULL && src != NULL && len <= SIZE);
    memset(memory, 1, SIZE);
    memset(src, 2, SIZE);
    job_handlers(table, 2);
    CHECK_OK(aq_segment_create(memory, SIZE, 0, &segment));
    CHECK_OK(aq_ep_bind(job.ep, segment));
    CHECK_OK(aq_ep_publish(job.team, &job.ep, 1, 0));
    CHECK_OK(aq_segment_query(job.team, job_next(), &info));
    job_barrier();
    uint64_t before = job_counter("am_dropped");
    CHECK_OK(aq_segment_destroy(segment));
    capture_begin(&capture);
    job_barrier();
    if (job.self == 0) {
        CHECK_OK(aq_am_long(job.team, 1, LONG, src, len, info.addr, NULL, 0, 0, NULL));
        CHECK_OK(aq_am_short(job.team, 1, SHORT, NULL, 0, 0));
    } else {
        CHECK_OK(aq_poll_until(dropped_one, &before, AQ_FOREVER));
        job_await(&arrived, 1);
        CHECK(all_bytes(memory, SIZE, 1));
    }
    job_barrier();
    bool warned = strstr(capture_end(&capture), "destroy a segment once no peer uses it") != NULL;
    CHECK(warned == (job.self == (at_target ? 1 : 0)));
    job_close();
    free(memory);
    free(src);
    return 0;
}
