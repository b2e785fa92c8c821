/*
 * The path that puts, small fills, gets and messages take over ofi if the provider requires
 * registered local memory: injected, through a buffer, or directly from and to memory that is
 * registered for the transfer. Determined from the counters of rank 0, the only rank that acts.
 *
 * usage: core_paths INJECT BOUNCE GET-BOUNCE
 *   the longest puts and gets of each path
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TAKE = 100, LEN = 1 << 16, TIMES = 50, MESSAGE = 1024, FILL_BY_PUT = 4096 };

enum way { INJECTED, BOUNCED, REGISTERED, SENT, WAYS };

static unsigned char *outside; /* of the segment */

static void on_message(aq_am *am)
{
    (void)am;
}

static void put(size_t len)
{
    CHECK_OK(aq_put(job.team, 1, job_at(1, 0), outside, len, 0));
}

static void set(size_t len)
{
    CHECK_OK(aq_memset(job.team, 1, job_at(1, 0), 7, len, 0));
}

static void get(size_t len)
{
    CHECK_OK(aq_get(job.team, 1, outside, job_at(1, 0), len, 0));
}

static void message(size_t len)
{
    if (len == 0)
        CHECK_OK(aq_am_short(job.team, 1, TAKE, AQ_NO_ARGS, 0));
    else
        CHECK_OK(aq_am_medium(job.team, 1, TAKE, outside, len, AQ_NO_ARGS, 0, NULL));
}

static uint64_t count(enum way way)
{
    switch (way) {
    case INJECTED:
        return job_counter("posts_injected");
    case BOUNCED:
        return job_counter("posts_bounced");
    case REGISTERED:
        return job_counter("reg_hit") + job_counter("reg_miss");
    default: /* completions other than those of puts and gets */
        return job_counter("posts_signaled") - job_counter("put") - job_counter("get");
    }
}

/* On a busy machine the transport may check for messages after each act, so messages are counted
 * only if they are the expected path. */
static void check_way(void (*act)(size_t len), size_t len, enum way way)
{
    uint64_t before[WAYS];
    for (enum way i = 0; i < WAYS; i++)
        before[i] = count(i);
    for (unsigned i = 0; i < TIMES; i++)
        act(len);
    for (enum way i = 0; i < WAYS; i++) {
        uint64_t more = count(i) - before[i];
        if ((more >= TIMES) == (i == way) || (i == SENT && way != SENT)) continue;
        check_failed(__FILE__, __LINE__, "%zu bytes: path %d instead of %d: %llu times", len, i,
                     way, (unsigned long long)more);
    }
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {{TAKE, 0, AQ_AM_REQUEST, on_message, NULL, "take"}};
    CHECK_EQUAL(argc, 4);
    size_t inject = strtoull(argv[1], NULL, 10), bounce = strtoull(argv[2], NULL, 10),
           get_bounce = strtoull(argv[3], NULL, 10);
    job_open(AQ_THREAD_SINGLE, LEN);
    job_handlers(table, COUNT_OF(table));
    if (job.self == 0) {
        outside = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(outside != MAP_FAILED);
        if (inject != 0) check_way(put, inject, INJECTED);
        check_way(put, inject + 1, BOUNCED);
        check_way(put, bounce, BOUNCED);
        check_way(put, bounce + 1, REGISTERED);
        if (inject != 0) check_way(set, inject, INJECTED);
        check_way(set, bounce, BOUNCED);
        check_way(set, FILL_BY_PUT, REGISTERED);
        uint64_t registered = count(REGISTERED);
        set(FILL_BY_PUT + 1);
        CHECK_EQUAL(count(REGISTERED), registered);
        check_way(get, get_bounce, BOUNCED);
        check_way(get, get_bounce + 1, REGISTERED);
        check_way(message, 0, INJECTED);
        check_way(message, MESSAGE, SENT);
    }
    job_barrier();
    job_close();
    return 0;
}
