/*
 * Waits with a time limit: they end when the time has expired and not before, even while asleep, do
 * not affect what they wait for, and end early when it happens.
 *
 * usage: timed [multiple]
 */
#include "../support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GO = 200, DONE, ENDLESS_S = 100 };
static const uint64_t short_ns = 5000000, endless_ns = ENDLESS_S * 1000000000ull;

static _Atomic uint32_t received;

static void on_go(aq_am *am)
{
    (void)am;
    CHECK_REFUSED(aq_poll_for(0), AQ_ECONTEXT);
    received++;
}

static void on_done(aq_am *am)
{
    (void)am;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The call returns AQ_AGAIN, not before its time has expired. */
#define CHECK_LATE(call)                                                                           \
    do {                                                                                           \
        uint64_t check_begun = now_ns();                                                           \
        CHECK_STATUS(call, AQ_AGAIN);                                                              \
        CHECK(now_ns() - check_begun >= short_ns);                                                 \
    } while (0)

/* It returns long before its time expires. */
#define CHECK_SOON(call)                                                                           \
    do {                                                                                           \
        uint64_t check_begun = now_ns();                                                           \
        CHECK_OK(call);                                                                            \
        CHECK(now_ns() - check_begun < endless_ns / 2);                                            \
    } while (0)

static void go(aq_rank rank)
{
    CHECK_OK(aq_am_short(job.team, rank, GO, AQ_NO_ARGS, 0));
}

static int has_received(void *wanted)
{
    return received >= *(const uint32_t *)wanted;
}

/*
 * Poll until nothing has happened for a while, because earlier actions of other ranks may be
 * reported late.
 */
static void nothing(uint64_t for_ns)
{
    uint64_t begun;
    do
        begun = now_ns();
    while (aq_poll_for(for_ns) == AQ_OK);
    CHECK(now_ns() - begun >= for_ns);
}

static void waits(void)
{
    aq_event events[3] = {AQ_EVENT_DONE}, *event = &events[1];
    uint32_t wanted = 1;
    nothing(0);
    nothing(50000);
    nothing(short_ns);
    CHECK_LATE(aq_poll_until(has_received, &wanted, short_ns));
    CHECK_STATUS(aq_poll_until(has_received, &wanted, 0), AQ_AGAIN);
    go(1);
    CHECK_SOON(aq_poll_until(has_received, &wanted, endless_ns));
    go(1);
    uint64_t begun = now_ns();
    while (received < 2)
        CHECK_OK(aq_poll_for(endless_ns));
    CHECK(now_ns() - begun < endless_ns / 2);

    CHECK_OK(aq_barrier_nb(job.team, 0, event));
    CHECK_LATE(aq_event_wait(event, short_ns));
    CHECK_LATE(aq_event_wait_some(event, 1, short_ns));
    CHECK(*event != AQ_EVENT_DONE);
    CHECK_OK(aq_barrier_nb(job.team, 0, &events[2]));
    CHECK_LATE(aq_event_wait_all(events, COUNT_OF(events), short_ns));
    CHECK_STATUS(aq_event_wait_all(events, COUNT_OF(events), 0), AQ_AGAIN);
    go(1);
    CHECK_SOON(aq_event_wait_some(events, COUNT_OF(events), endless_ns));
    CHECK_SOON(aq_event_wait_all(events, COUNT_OF(events), endless_ns));
    CHECK(events[1] == AQ_EVENT_DONE && events[2] == AQ_EVENT_DONE);
    CHECK_OK(aq_event_wait(event, short_ns));
    CHECK_REFUSED(aq_event_wait(NULL, short_ns), AQ_EINVAL);

    /* A message that follows a barrier is an implicit operation that stays outstanding. */
    CHECK_OK(aq_barrier_nb(job.team, 0, event));
    CHECK_OK(aq_am_medium_after_nbi(job.team, job.self, DONE, NULL, 0, AQ_NO_ARGS, 0, event));
    CHECK_LATE(aq_nbi_wait(AQ_NBI_ALL, short_ns));
    CHECK_STATUS(aq_nbi_wait(AQ_NBI_PUT, 0), AQ_AGAIN);
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, short_ns));
    go(1);
    CHECK_SOON(aq_nbi_wait(AQ_NBI_PUT, endless_ns));
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, 0));

    CHECK_OK(aq_barrier_notify(job.team, 7, 0));
    CHECK_STATUS(aq_barrier_wait(job.team, 7, 0, 0), AQ_AGAIN);
    CHECK_LATE(aq_barrier_wait(job.team, 7, 0, short_ns));
    CHECK_LATE(aq_barrier_wait(job.team, 7, 0, short_ns));
    CHECK_REFUSED(aq_barrier_notify(job.team, 7, 0), AQ_ESTATE);
    go(1);
    CHECK_SOON(aq_barrier_wait(job.team, 7, 0, endless_ns));
    CHECK_REFUSED(aq_barrier_wait(job.team, 7, 0, short_ns), AQ_ESTATE);
}

/* Wait for this rank's turn, and pass the turn to the next rank. */
static void pass_on(void)
{
    static uint32_t wanted;
    wanted++;
    CHECK_OK(aq_poll_until(has_received, &wanted, AQ_FOREVER));
    if (job.self + 1 < job.size) go(job.self + 1);
}

static void helps(void)
{
    aq_event events[2];
    for (int i = 0; i < 2; i++) {
        pass_on();
        if (job.self == 1) go(0);
    }
    pass_on();
    for (int i = 0; i < 2; i++)
        CHECK_OK(aq_barrier_nb(job.team, 0, &events[i]));
    CHECK_OK(aq_event_wait_all(events, 2, AQ_FOREVER));
    pass_on();
    CHECK_OK(aq_barrier_nb(job.team, 0, &events[0]));
    CHECK_OK(aq_event_wait(&events[0], AQ_FOREVER));
    pass_on();
    CHECK_OK(aq_barrier_notify(job.team, 7, 0));
    CHECK_OK(aq_barrier_wait(job.team, 7, 0, AQ_FOREVER));
}

/* A wait with a limit sleeps, if the mode permits. */
static void sleeps(void)
{
    uint64_t before = job_counter("sleep"), begun = now_ns();
    for (int i = 0; i < 10; i++)
        CHECK(aq_poll_for(100000000) >= 0);
    double ms = (double)(now_ns() - begun) / 1e6;
    uint64_t times = job_counter("sleep") - before;
    CHECK(times > 0 && (double)times < 100 + ms);
}

/* Progress by one thread ends the wait of another. */
static void *second_thread(void *arg)
{
    uint32_t wanted = 3;
    (void)arg;
    CHECK_OK(aq_poll_until(has_received, &wanted, AQ_FOREVER));
    return NULL;
}

static void threads(void)
{
    pthread_t thread;
    if (job.self > 1) return;
    if (job.self == 1) {
        go(0);
        return;
    }
    CHECK_EQUAL(pthread_create(&thread, NULL, second_thread, NULL), 0);
    uint64_t begun = now_ns();
    while (received < 3)
        CHECK_OK(aq_poll_for(endless_ns));
    CHECK(now_ns() - begun < endless_ns / 2);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {{GO, 0, 0, on_go, NULL, "go"}, {DONE, 0, 0, on_done, NULL, "done"}};
    bool multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
    const char *mode = getenv("AQ_WAIT");
    job_open(multiple ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE, 4096);
    job_handlers(table, COUNT_OF(table));
    if (job.self == 0)
        waits();
    else
        helps();
    job_barrier();
    if (multiple) threads();
    job_barrier();
    if (job.self == 0 && mode != NULL && strcmp(mode, "block") == 0) sleeps();
    job_barrier();
    job_close();
    return 0;
}
