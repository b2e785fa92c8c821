/* The progress thread of front ends: when it makes progress, and when it sleeps. */
#include "base/cmocka_test.h"
#include "base/kick.h"
#include "lib/alone.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

static struct aqi_big_lock lock;
static _Atomic unsigned turns;
static atomic_int answer; /* of the turns */

static int turn(void)
{
    turns++;
    return answer;
}

static struct lib_alone_thread thread = {.lock = &lock, .turn = turn};

/* Wait until it has taken another turn. */
static void await_turn(void)
{
    for (unsigned before = turns; turns == before;)
        sched_yield();
}

static void await_sleep(void)
{
    while (!thread.asleep)
        sched_yield();
}

static void call(void)
{
    aqi_big_lock(&lock);
    (void)lib_alone_thread_called(&thread);
    aqi_big_unlock(&lock);
}

static void start(int next_answer)
{
    answer = next_answer;
    thread.fd = aqi_kick_new();
    assert_true(thread.fd >= 0);
    aqi_big_lock(&lock);
    assert_int_equal(lib_alone_thread_start(&thread), 0);
    assert_int_equal(lib_alone_thread_start(&thread), 0); /* it runs already */
    aqi_big_unlock(&lock);
}

static void stop(void)
{
    aqi_big_lock(&lock);
    lib_alone_thread_stop(&thread);
    lib_alone_thread_stop(&thread);
    aqi_big_unlock(&lock);
    close(thread.fd);
}

static void it_takes_turns_while_there_is_work(void **state)
{
    start(0);
    for (unsigned i = 0; i < 200; i++)
        await_turn();
    stop();
}

static void arrivals_and_calls_wake_it(void **state)
{
    start(-1);
    for (unsigned i = 0; i < 20; i++) {
        await_sleep();
        unsigned before = turns;
        if (i % 2 == 0)
            call();
        else
            aqi_kick(thread.fd);
        while (turns == before)
            sched_yield();
        (void)aqi_kick_take(thread.fd);
    }
    stop();
}

static void a_limited_sleep_ends(void **state)
{
    start(1);
    for (unsigned i = 0; i < 5; i++) {
        await_turn();
        await_sleep();
    }
    stop();
}

/* As those of fi, which are counted in progress: they would postpone the next turn. */
static int turn_with_a_call(void)
{
    (void)lib_alone_thread_called(&thread);
    turns++;
    return -1;
}

static void calls_of_the_turn_do_not_count(void **state)
{
    thread.turn = turn_with_a_call;
    start(-1);
    await_sleep();
    aqi_big_lock(&lock);
    uint32_t seen = thread.seen, calls = thread.calls;
    aqi_big_unlock(&lock);
    assert_int_equal(seen, calls);
    stop();
    thread.turn = turn;
}

static _Atomic unsigned naps;

/* Replaces the C library's, to count the naps: only these are on a single descriptor. */
int poll(struct pollfd *fds, nfds_t count, int ms)
{
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000};
    naps += count == 1;
    return ppoll(fds, count, ms < 0 ? NULL : &limit, NULL);
}

static void rare_calls_do_not_delay_it(void **state)
{
    static const struct timespec rarely = {.tv_nsec = 1000000};
    start(-1);
    await_sleep();
    naps = 0;
    for (unsigned i = 0; i < 20; i++) {
        (void)nanosleep(&rarely, NULL);
        unsigned before = turns;
        call();
        while (turns == before)
            sched_yield();
        await_sleep();
    }
    assert_int_equal(naps, 0);
    stop();
}

static void *call_often(void *stops)
{
    while (!*(atomic_bool *)stops)
        call();
    return NULL;
}

static void it_ends_while_there_are_calls(void **state)
{
    static atomic_bool stops;
    pthread_t caller;
    start(-1);
    uint32_t before = thread.calls;
    assert_int_equal(pthread_create(&caller, NULL, call_often, &stops), 0);
    while (thread.calls == before)
        sched_yield();
    stop();
    stops = true;
    assert_int_equal(pthread_join(caller, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_takes_turns_while_there_is_work),
        cmocka_unit_test(arrivals_and_calls_wake_it),
        cmocka_unit_test(a_limited_sleep_ends),
        cmocka_unit_test(calls_of_the_turn_do_not_count),
        cmocka_unit_test(rare_calls_do_not_delay_it),
        cmocka_unit_test(it_ends_while_there_are_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
