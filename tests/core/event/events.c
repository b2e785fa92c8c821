/* Events: thousands outstanding, tested and waited for one by one, in parts, and all together. */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 4000, SIZE = 16, PLAIN = 100, AFTER = 101 };

static unsigned char *out, *in;
static aq_event events[COUNT];
static _Atomic uint32_t received;

static void on_plain(aq_am *am)
{
    (void)am;
    received++;
}

static void *slot(aq_rank rank, size_t i)
{
    return job_at(rank, (size_t)job.self * COUNT * SIZE + i * SIZE);
}

static aq_rank target(size_t i)
{
    return (aq_rank)((job.self + i) % job.size);
}

static void start_puts(uint64_t seed)
{
    for (size_t i = 0; i < COUNT; i++) {
        fill(out + i * SIZE, SIZE, seed + i);
        CHECK_OK(aq_put_nb(job.team, target(i), slot(target(i), i), out + i * SIZE, SIZE, 0,
                           &events[i]));
    }
}

static void start_gets(void)
{
    memset(in, 0, (size_t)COUNT * SIZE);
    for (size_t i = 0; i < COUNT; i++)
        CHECK_OK(
            aq_get_nb(job.team, target(i), in + i * SIZE, slot(target(i), i), SIZE, 0, &events[i]));
}

static void check_gets(uint64_t seed)
{
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(events[i] == AQ_EVENT_DONE);
        CHECK(filled(in + i * SIZE, SIZE, seed + i));
    }
}

/* --- all --------------------------------------------------------------------------------- */

static void test_wait_all(void)
{
    start_puts(1);
    CHECK_OK(aq_event_wait_all(events, COUNT, AQ_FOREVER));
    start_gets();
    CHECK_OK(aq_event_wait_all(events, COUNT, AQ_FOREVER));
    check_gets(1);
    /* All are complete, so there is nothing to wait for. */
    CHECK_OK(aq_event_wait_all(events, COUNT, AQ_FOREVER));
    CHECK_OK(aq_event_wait_all(NULL, 0, AQ_FOREVER));
    CHECK_OK(aq_event_test_all(NULL, 0));
}

static void test_test_all(void)
{
    start_puts(2);
    while (aq_event_test_all(events, COUNT) == AQ_AGAIN)
        (void)aq_poll();
    start_gets();
    while (aq_event_test_all(events, COUNT) == AQ_AGAIN)
        (void)aq_poll();
    check_gets(2);
}

/* --- some -------------------------------------------------------------------------------- */

static size_t count_done(void)
{
    size_t done = 0;
    for (size_t i = 0; i < COUNT; i++)
        done += events[i] == AQ_EVENT_DONE;
    return done;
}

/* Each call completes at least one, and completed gets have their data. */
static void test_some(bool wait)
{
    start_puts(3);
    CHECK_OK(aq_event_wait_all(events, COUNT, AQ_FOREVER));
    start_gets();
    for (size_t done = count_done(); done < COUNT;) {
        aq_status status = wait ? aq_event_wait_some(events, COUNT, AQ_FOREVER)
                                : aq_event_test_some(events, COUNT);
        CHECK(status == AQ_OK || (status == AQ_AGAIN && !wait));
        size_t now = count_done();
        if (status == AQ_OK)
            CHECK(now > done);
        else
            CHECK_EQUAL(now, done);
        done = now;
        for (size_t i = 0; i < COUNT; i += 97)
            if (events[i] == AQ_EVENT_DONE) CHECK(filled(in + i * SIZE, SIZE, 3 + i));
        if (status == AQ_AGAIN) (void)aq_poll();
    }
    check_gets(3);
    /* None is outstanding. */
    CHECK_OK(aq_event_wait_some(events, COUNT, AQ_FOREVER));
    CHECK_OK(aq_event_test_some(events, COUNT));
    CHECK_OK(aq_event_wait_some(NULL, 0, AQ_FOREVER));
    CHECK_OK(aq_event_test_some(NULL, 0));
}

/* --- one by one -------------------------------------------------------------------------- */

static void test_reverse(void)
{
    start_puts(4);
    for (size_t i = COUNT; i-- > 0;)
        CHECK_OK(aq_event_wait(&events[i], AQ_FOREVER));
    start_gets();
    for (size_t i = 0; i < COUNT; i++) {
        size_t shuffled = i * 1607 % COUNT; /* a prime that does not divide COUNT */
        while (aq_event_test(&events[shuffled]) == AQ_AGAIN)
            (void)aq_poll();
        CHECK(filled(in + shuffled * SIZE, SIZE, 4 + shuffled));
    }
    check_gets(4);
    aq_event none = AQ_EVENT_DONE;
    CHECK_OK(aq_event_wait(&none, AQ_FOREVER));
    CHECK_OK(aq_event_test(&none));
}

/* A leaf is optional, may be requested more than once, and completes before its root. */
static void test_leaves(void)
{
    start_puts(5);
    for (size_t i = 0; i < COUNT; i += 2) {
        aq_event leaf = aq_event_local(events[i]);
        if (i % 4 == 0) {
            CHECK_OK(aq_event_wait(&leaf, AQ_FOREVER));
        } else {
            while (aq_event_test(&leaf) == AQ_AGAIN)
                (void)aq_poll();
        }
        CHECK(leaf == AQ_EVENT_DONE);
        memset(out + i * SIZE, 0xee, SIZE);
        aq_event again = aq_event_local(events[i]);
        CHECK_OK(aq_event_test(&again));
    }
    CHECK_OK(aq_event_wait_all(events, COUNT, AQ_FOREVER));
    start_gets();
    CHECK_OK(aq_event_wait_all(events, COUNT, AQ_FOREVER));
    check_gets(5);
    CHECK(aq_event_local(AQ_EVENT_DONE) == AQ_EVENT_DONE);
}

/* Leaves and roots of different kinds in one array. */
static void test_mixed(void)
{
    unsigned char payload[200] = {0};
    aq_event mixed[4];
    received = 0;
    job_barrier();
    CHECK_OK(aq_put_nb(job.team, job_next(), slot(job_next(), 0), payload, SIZE, 0, &mixed[0]));
    CHECK_OK(aq_am_medium(job.team, job_next(), PLAIN, payload, sizeof(payload), AQ_NO_ARGS, 0,
                          &mixed[1]));
    CHECK_OK(aq_memset_nb(job.team, job_next(), slot(job_next(), 1), 7, SIZE, 0, &mixed[2]));
    mixed[3] = AQ_EVENT_DONE;
    CHECK_OK(aq_event_wait_all(mixed, COUNT_OF(mixed), AQ_FOREVER));
    job_await(&received, 1);
    job_barrier();
}

/* --- implicit ---------------------------------------------------------------------------- */

/* Thousands of implicit operations, of kinds that are waited for separately. */
static void test_implicit(void)
{
    for (size_t i = 0; i < COUNT; i++) {
        fill(out + i * SIZE, SIZE, 6 + i);
        CHECK_OK(aq_put_nbi(job.team, target(i), slot(target(i), i), out + i * SIZE, SIZE, 0));
    }
    CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
    memset(in, 0, (size_t)COUNT * SIZE);
    for (size_t i = 0; i < COUNT; i++)
        CHECK_OK(aq_get_nbi(job.team, target(i), in + i * SIZE, slot(target(i), i), SIZE, 0));
    while (aq_nbi_test(AQ_NBI_GET) == AQ_AGAIN)
        (void)aq_poll();
    for (size_t i = 0; i < COUNT; i++)
        CHECK(filled(in + i * SIZE, SIZE, 6 + i));
    CHECK_OK(aq_nbi_test(AQ_NBI_ALL));
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    job_barrier();
}

/* --- messages after puts ------------------------------------------------------------------ */

static _Atomic uint32_t followed;

/* The data of the put that this message follows has arrived. */
static void on_after(aq_am *am)
{
    size_t at = 0, len = (size_t)am->args[0];
    CHECK_EQUAL(am->nbytes, sizeof(at));
    memcpy(&at, am->payload, sizeof(at));
    CHECK(filled((char *)job_at(job.self, (size_t)am->source * COUNT * SIZE + at), len, at + len));
    followed++;
}

/*
 * Messages after explicit and implicit puts, in regions and outside, small and large. Sources are
 * overwritten as soon as that is allowed.
 */
static void test_after(void)
{
    enum { EACH = 50, AREA = COUNT * SIZE };
    static const size_t lens[] = {1, 16, 500, 2000, 3000};
    size_t len, at = 0;
    followed = 0;
    job_barrier();
    for (size_t i = 0; i < EACH; i++, at += len) { /* one after the other, without overlap */
        len = lens[i % COUNT_OF(lens)];
        aq_rank to = target(i);
        aq_arg arg = (aq_arg)len;
        aq_event ev;
        CHECK(at + len <= AREA);
        fill(out, len, at + len);
        CHECK_OK(
            aq_put_nb(job.team, to, job_at(to, (size_t)job.self * AREA + at), out, len, 0, &ev));
        if (i % 3 == 0) {
            CHECK_OK(aq_am_medium_after_nb(job.team, to, AFTER, &at, sizeof(at), &arg, 1, 0, &ev));
            aq_event leaf = aq_event_local(ev);
            CHECK_OK(aq_event_wait(&leaf, AQ_FOREVER));
            memset(out, 0, len);
            CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
            continue;
        }
        if (i % 3 == 1) CHECK_OK(aq_nbi_begin());
        CHECK_OK(aq_am_medium_after_nbi(job.team, to, AFTER, &at, sizeof(at), &arg, 1, 0, &ev));
        CHECK(ev == AQ_EVENT_DONE);
        if (i % 3 == 1) {
            CHECK_OK(aq_nbi_end(&ev));
            CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
        } else {
            CHECK_OK(aq_nbi_wait(AQ_NBI_LOCAL, AQ_FOREVER));
            memset(out, 0, len);
            CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
        }
    }
    while (followed < EACH)
        (void)aq_poll();
    aq_event done = AQ_EVENT_DONE;
    CHECK_REFUSED(aq_am_medium_after_nb(job.team, 0, 1, NULL, 0, NULL, 0, 0, &done), AQ_EHANDLER);
    CHECK_REFUSED(aq_am_medium_after_nb(job.team, 0, AFTER, NULL, 0, NULL, 0, 0, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_am_medium_after_nbi(job.team, 0, AFTER, NULL, 8, NULL, 0, 0, &done),
                  AQ_EINVAL);
    job_barrier();
    CHECK_EQUAL(followed, EACH);
}

int main(void)
{
    aq_handler_entry table[] = {{PLAIN, 0, 0, on_plain, NULL, "plain"},
                                {AFTER, 1, 0, on_after, NULL, "after"}};
    job.segment_modes = ALL_SEGMENT_MODES;
    job_open(AQ_THREAD_SINGLE, 0);
    job_attach((size_t)COUNT * SIZE * job.size);
    job_handlers(table, COUNT_OF(table));
    out = malloc((size_t)COUNT * SIZE);
    in = malloc((size_t)COUNT * SIZE);
    CHECK(out != NULL && in != NULL);
    test_wait_all();
    test_test_all();
    test_some(true);
    test_some(false);
    test_reverse();
    test_leaves();
    test_mixed();
    test_implicit();
    test_after();
    job_barrier();
    free(out);
    free(in);
    job_close();
    return 0;
}
