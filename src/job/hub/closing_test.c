/*
 * Tests closing.c: when each process of a job that ends is notified and signaled, and when all have
 * ended. One hub, with the test's clock: it is called exactly when it requested.
 */
#include "job/hooks_test.h"
#include "job/hub/impl.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, LAST = RANKS - 1, ACTS_MAX = 800, NOTIFIED = 0 };
#define EXIT_NS  1000000000ull /* AQ_EXIT_TIMEOUT */
#define QUARTER  (EXIT_NS / 4)
#define BEGUN    5000000000ull
#define LATER_NS 7000000ull
#define FOREVER  (1000 * EXIT_NS)

/* The signal that ends a process; the last two survive SIGKILL. */
enum behavior { OBEYS, NEEDS_TERM, NEEDS_KILL, ASLEEP, SLOW };

struct act { /* `what` is a signal, or NOTIFIED */
    uint64_t at;
    uint32_t rank;
    int what, code;
};

static struct {
    struct aqi_hub *hub;
    uint64_t now, over_at;
    struct act acts[ACTS_MAX];
    unsigned count, abandoned; /* messages about processes that do not end */
    enum behavior behaviors[RANKS];
    int pending[RANKS]; /* the wait status of a process that ends now */
    bool ended[RANKS], over;
    int code;
} one;

/* --- actions of the hub ---------------------------------------------------------------------- */

static void closing_act(uint32_t rank, int what, int code)
{
    assert_true(one.count < ACTS_MAX);
    assert_false(one.ended[rank]);
    one.acts[one.count++] = (struct act){one.now, rank, what, code};
}

static void on_rank(void *arg, uint32_t rank, const struct aqi_control *message,
                    struct aqi_parcel *parcel)
{
    if (message->type != AQI_CONTROL_EVENT || message->event != AQI_BOOT_EXIT) return;
    closing_act(rank, NOTIFIED, message->code);
    if (one.behaviors[rank] == OBEYS) one.pending[rank] = (message->code & 0xff) << 8;
}

static void on_kill(void *arg, uint32_t rank, int number)
{
    closing_act(rank, number, 0);
    enum behavior behavior = one.behaviors[rank];
    if ((number == SIGTERM && behavior <= NEEDS_TERM) ||
        (number == SIGKILL && behavior <= NEEDS_KILL))
        one.pending[rank] = number;
}

static bool on_asleep(void *arg, uint32_t rank)
{
    return one.behaviors[rank] == ASLEEP;
}

static void on_say(void *arg, bool always, const char *text)
{
    if (!always || strstr(text, "does not end after SIGKILL: leaving it behind") == NULL) return;
    one.abandoned++;
}

static void on_over(void *arg, int code)
{
    assert_false(one.over);
    one.over = true;
    one.over_at = one.now;
    one.code = code;
}

/* --- time ------------------------------------------------------------------------------------ */

static bool closing_reap_one(void)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        if (one.pending[i] == -1 || one.ended[i]) continue;
        one.ended[i] = true;
        aqi_hub_ended(one.hub, i, one.pending[i]);
        return true;
    }
    return false;
}

/* Processes end, and are reaped, immediately. */
static void closing_reap(void)
{
    while (closing_reap_one())
        continue;
}

static void closing_pass(uint64_t ns)
{
    uint64_t until = one.now + ns, next;
    closing_reap();
    while ((next = aqi_hub_tick(one.hub)) <= until && !one.over) {
        one.now = aqi_max(one.now, next);
        aqi_hub_now(one.hub, one.now);
        (void)aqi_hub_tick(one.hub);
        closing_reap();
    }
    one.now = aqi_max(one.now, until);
    aqi_hub_now(one.hub, one.now);
}

/* All have started; all but `absent` have joined. The end begins at BEGUN. */
static void closing_open(const enum behavior *behaviors, uint32_t absent)
{
    memset(&one, 0, sizeof(one));
    one.now = 1;
    for (uint32_t i = 0; i < RANKS; i++) {
        one.behaviors[i] = behaviors[i];
        one.pending[i] = -1;
    }
    struct aqi_hub_params params = hooks_params(RANKS, EXIT_NS);
    params.start_timeout_ns = FOREVER;
    params.hooks.to_rank = on_rank;
    params.hooks.kill = on_kill;
    params.hooks.asleep = on_asleep;
    params.hooks.say = on_say;
    params.hooks.over = on_over;
    assert_int_equal(aqi_hub_open(&params, &one.hub), AQ_OK);
    hooks_join(one.hub, RANKS, absent);
    closing_pass(BEGUN - one.now);
    assert_int_equal(one.count, 0);
}

static void closing_say(uint32_t rank, int code, const char *why)
{
    const struct aqi_control message = {
        .type = AQI_CONTROL_EXIT, .code = code, .data = why, .len = strlen(why)};
    assert_int_equal(aqi_hub_from_rank(one.hub, rank, &message), AQ_OK);
}

/* --- expectations ---------------------------------------------------------------------------- */

/* How many times it got this signal; the first time was `at`. */
static unsigned closing_times(uint32_t rank, int what, uint64_t at)
{
    unsigned times = 0;
    for (unsigned i = 0; i < one.count; i++) {
        const struct act *act = &one.acts[i];
        if (act->rank != rank || act->what != what) continue;
        if (times == 0) assert_int_equal(act->at, at);
        times++;
    }
    return times;
}

/* A signal is sent once, when it is due, and also to a stopped process. */
static void closing_expect_signal(uint32_t rank, int number, uint64_t at, bool wanted)
{
    assert_int_equal(closing_times(rank, number, at), wanted);
    for (unsigned i = 0; i < one.count; i++) {
        if (one.acts[i].rank != rank || one.acts[i].what != number) continue;
        assert_true(i + 1 < one.count);
        assert_int_equal(one.acts[i + 1].rank, rank);
        assert_int_equal(one.acts[i + 1].what, SIGCONT);
        assert_int_equal(one.acts[i + 1].at, one.acts[i].at);
    }
}

/* Surviving processes get the signals that they need, and no others. */
static void closing_expect(uint32_t first, uint32_t end, int code)
{
    for (uint32_t i = first; i < end; i++) {
        enum behavior behavior = one.behaviors[i];
        assert_int_equal(closing_times(i, NOTIFIED, BEGUN), 1);
        closing_expect_signal(i, SIGTERM, BEGUN + QUARTER, behavior >= NEEDS_TERM);
        closing_expect_signal(i, SIGKILL, BEGUN + 3 * QUARTER, behavior >= NEEDS_KILL);
    }
    for (unsigned i = 0; i < one.count; i++)
        if (one.acts[i].what == NOTIFIED) assert_int_equal(one.acts[i].code, code);
    assert_true(one.over);
    assert_int_equal(one.code, code);
}

/* --- causes of the end ----------------------------------------------------------------------- */

enum cause { EXIT, RETURN, DEATH, QUICK_EXIT, SIGNAL, CAUSES };
static const struct {
    const char *why; /* reported by the last rank; NULL: nothing is */
    int status;      /* how it ends; SIGNAL: the launcher gets SIGINT instead */
    int code;
    uint32_t notified; /* ranks: without the one that caused it, or has died */
} causes[CAUSES] = {
    [EXIT] = {"", 7 << 8, 7, LAST},
    [RETURN] = {"exit(5) or a return from main before aq_finalize ends the job", 5 << 8, 5, LAST},
    [DEATH] = {NULL, SIGKILL, 137, LAST},
    [QUICK_EXIT] = {NULL, 4 << 8, 4, LAST},
    [SIGNAL] = {NULL, 0, 130, RANKS},
};

static void closing_cause(enum cause cause)
{
    if (causes[cause].why != NULL) closing_say(LAST, causes[cause].code, causes[cause].why);
    if (cause == SIGNAL)
        aqi_hub_signal(one.hub, SIGINT);
    else
        one.pending[LAST] = causes[cause].status;
}

/*
 * Whatever ended the job, a rank that exits when asked gets no signal, and the job ends with its
 * last rank.
 */
static void signals_follow_the_schedule(void **state)
{
    static const uint64_t ends[] = {
        [OBEYS] = 0, [NEEDS_TERM] = QUARTER, [NEEDS_KILL] = 3 * QUARTER};
    for (enum cause cause = 0; cause < CAUSES; cause++)
        for (unsigned draw = 0; draw < 27; draw++) {
            const enum behavior behaviors[] = {(enum behavior)(draw % 3),
                                               (enum behavior)(draw / 3 % 3),
                                               (enum behavior)(draw / 9), OBEYS};
            uint64_t end = 0;
            for (uint32_t i = 0; i < LAST; i++)
                end = aqi_max(end, ends[behaviors[i]]);
            closing_open(behaviors, RANKS);
            closing_cause(cause);
            closing_pass(FOREVER);
            closing_expect(0, causes[cause].notified, causes[cause].code);
            assert_int_equal(one.over_at, BEGUN + end);
            assert_int_equal(one.abandoned, 0);
            aqi_hub_close(one.hub);
        }
}

/* It may, for example, write its last output for as long as others may run before SIGKILL. */
static void the_rank_that_ended_the_job_has_the_same_time(void **state)
{
    static const enum behavior behaviors[] = {OBEYS, OBEYS, OBEYS, NEEDS_KILL};
    closing_open(behaviors, RANKS);
    closing_say(LAST, 7, "");
    closing_pass(FOREVER);
    assert_int_equal(closing_times(LAST, NOTIFIED, BEGUN), 0);
    closing_expect_signal(LAST, SIGTERM, BEGUN + QUARTER, true);
    closing_expect_signal(LAST, SIGKILL, BEGUN + 3 * QUARTER, true);
    assert_int_equal(one.over_at, BEGUN + 3 * QUARTER);
    assert_int_equal(one.code, 7);
    aqi_hub_close(one.hub);
}

/* It cannot be notified, so there is nothing to wait for. */
static void a_rank_that_has_not_joined_gets_sigterm_at_once(void **state)
{
    static const enum behavior behaviors[] = {NEEDS_TERM, OBEYS, OBEYS, OBEYS};
    static const enum behavior deaf[] = {NEEDS_KILL, OBEYS, OBEYS, OBEYS};
    closing_open(behaviors, 0);
    closing_say(LAST, 7, "");
    one.pending[LAST] = 7 << 8;
    closing_pass(FOREVER);
    assert_int_equal(closing_times(0, NOTIFIED, BEGUN), 0);
    closing_expect_signal(0, SIGTERM, BEGUN, true);
    assert_int_equal(one.over_at, BEGUN);
    aqi_hub_close(one.hub);

    closing_open(deaf, 0);
    closing_say(LAST, 7, "");
    one.pending[LAST] = 7 << 8;
    closing_pass(FOREVER);
    assert_int_equal(closing_times(0, SIGTERM, BEGUN), 2);
    closing_expect_signal(0, SIGKILL, BEGUN + 3 * QUARTER, true);
    assert_int_equal(one.over_at, BEGUN + 3 * QUARTER);
    aqi_hub_close(one.hub);
}

/* Time during which the job is stopped, before or after SIGTERM, postpones all that follows. */
static void time_while_stopped_does_not_count(void **state)
{
    static const enum behavior behaviors[] = {NEEDS_TERM, NEEDS_KILL, NEEDS_KILL, OBEYS};
    for (uint64_t before = LATER_NS; before < EXIT_NS / 2; before += EXIT_NS / 2 - 2 * LATER_NS) {
        const uint64_t stop = 10 * EXIT_NS, late = before < QUARTER ? stop : 0;
        closing_open(behaviors, RANKS);
        closing_cause(EXIT);
        closing_pass(before);
        one.now += stop;
        aqi_hub_now(one.hub, one.now);
        aqi_hub_stopped(one.hub, stop);
        closing_pass(FOREVER);
        closing_expect_signal(0, SIGTERM, BEGUN + late + QUARTER, true);
        closing_expect_signal(1, SIGTERM, BEGUN + late + QUARTER, true);
        closing_expect_signal(1, SIGKILL, BEGUN + stop + 3 * QUARTER, true);
        assert_int_equal(one.over_at, BEGUN + stop + 3 * QUARTER);
        aqi_hub_close(one.hub);
    }
}

/* On a second request, SIGKILL is sent at once to those still alive. */
static void a_second_signal_kills_at_once(void **state)
{
    static const enum behavior behaviors[] = {OBEYS, NEEDS_TERM, NEEDS_KILL, NEEDS_KILL};
    closing_open(behaviors, RANKS);
    closing_cause(SIGNAL);
    closing_pass(LATER_NS);
    aqi_hub_signal(one.hub, SIGINT);
    closing_pass(FOREVER);
    for (uint32_t i = 0; i < RANKS; i++) {
        closing_expect_signal(i, SIGTERM, 0, false);
        closing_expect_signal(i, SIGKILL, BEGUN + LATER_NS, i != 0);
    }
    assert_int_equal(one.over_at, BEGUN + LATER_NS);
    assert_int_equal(one.code, 130);
    aqi_hub_close(one.hub);
}

/*
 * A process in uninterruptible sleep is left behind after two checks; one that merely takes long to
 * end, after sixty.
 */
static void the_end_is_bounded(void **state)
{
    static const enum behavior asleep[] = {OBEYS, ASLEEP, NEEDS_TERM, OBEYS};
    closing_open(asleep, RANKS);
    closing_cause(EXIT);
    closing_pass(FOREVER);
    assert_int_equal(one.over_at, BEGUN + 5 * QUARTER);
    assert_int_equal(one.abandoned, 1);
    assert_int_equal(one.code, 7);
    aqi_hub_close(one.hub);

    static const enum behavior busy[] = {OBEYS, SLOW, NEEDS_TERM, OBEYS};
    closing_open(busy, RANKS);
    closing_cause(EXIT);
    closing_pass(FOREVER);
    assert_int_equal(one.over_at, BEGUN + (4 + 60) * QUARTER);
    assert_int_equal(one.abandoned, 1);
    aqi_hub_close(one.hub);
}

/*
 * The first code is kept, except that any replaces 0; codes caused by our own signals do not count.
 */
static void the_first_code_is_kept(void **state)
{
    static const struct {
        int said, then, code; /* `then`: how rank 0 ends, LATER_NS after the request */
    } rows[] = {
        {7, SIGSEGV, 7}, {7, 3 << 8, 7}, {0, SIGSEGV, 139}, {0, 3 << 8, 3}, {0, 0, 0}, {0, -1, 0},
    };
    static const enum behavior behaviors[] = {NEEDS_KILL, NEEDS_TERM, NEEDS_KILL, OBEYS};
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        closing_open(behaviors, RANKS);
        closing_say(LAST, rows[i].said, "");
        one.pending[LAST] = rows[i].said << 8;
        closing_pass(LATER_NS);
        one.pending[0] = rows[i].then;
        closing_pass(FOREVER);
        assert_true(one.over);
        assert_int_equal(one.code, rows[i].code);
        aqi_hub_close(one.hub);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_follow_the_schedule),
        cmocka_unit_test(the_rank_that_ended_the_job_has_the_same_time),
        cmocka_unit_test(a_rank_that_has_not_joined_gets_sigterm_at_once),
        cmocka_unit_test(time_while_stopped_does_not_count),
        cmocka_unit_test(a_second_signal_kills_at_once),
        cmocka_unit_test(the_end_is_bounded),
        cmocka_unit_test(the_first_code_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
