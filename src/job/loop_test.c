/* The event loop: callbacks that close the sources of others, and bounded waits. */
#include "job/loop.h"

#include "base/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

enum { MANY = 8 };

struct thing {
    int value;
    struct aqi_source source;
};

static struct thing *things[MANY];
static unsigned calls;
static const char *complaint;

static void complain(const char *why)
{
    complaint = strdup(why);
}

static int set_up(void **state)
{
    int epoll;
    assert_int_equal(aqi_loop_open(complain, &epoll), AQ_OK);
    assert_true(epoll >= 0);
    calls = 0;
    return 0;
}

static int tear_down(void **state)
{
    aqi_loop_close();
    free((void *)(uintptr_t)complaint);
    complaint = NULL;
    return 0;
}

static void make(int i, void (*ready)(struct aqi_source *))
{
    things[i] = malloc(sizeof(*things[i]));
    assert_non_null(things[i]);
    things[i]->value = i;
    aqi_source_open(&things[i]->source, eventfd(1, EFD_CLOEXEC), ready);
    aqi_source_watch(&things[i]->source, EPOLLIN);
}

static void drop(int i)
{
    aqi_source_close(&things[i]->source);
    free(things[i]);
    things[i] = NULL;
}

static void drop_all(struct aqi_source *source)
{
    struct thing *thing = AQI_OF(source, struct thing, source);
    assert_true(things[thing->value] == thing);
    assert_int_equal(source->events, EPOLLIN);
    calls++;
    for (int i = 0; i < MANY; i++)
        drop(i);
}

/* All are ready together; the first callback frees all of them, so no other may be touched. */
static void test_callback_frees_others(void **state)
{
    for (int i = 0; i < MANY; i++)
        make(i, drop_all);
    aqi_loop_once(UINT64_MAX);
    assert_int_equal(calls, 1);
    aqi_loop_once(0);
    assert_int_equal(calls, 1);
}

static void silence_all(struct aqi_source *source)
{
    calls++;
    for (int i = 0; i < MANY; i++)
        aqi_source_watch(&things[i]->source, 0);
}

static void test_callback_silences_others(void **state)
{
    for (int i = 0; i < MANY; i++)
        make(i, silence_all);
    aqi_loop_once(UINT64_MAX);
    aqi_loop_once(0);
    assert_int_equal(calls, 1);
    aqi_source_watch(&things[3]->source, EPOLLIN);
    aqi_loop_once(UINT64_MAX);
    assert_int_equal(calls, 2);
    for (int i = 0; i < MANY; i++)
        drop(i);
}

static void test_deadline(void **state)
{
    uint64_t deadline = aqi_now_ns() + 20000000;
    aqi_loop_once(deadline);
    assert_true(aqi_now_ns() >= deadline);
    aqi_loop_once(0);
}

static void test_errors_are_reported(void **state)
{
    struct aqi_source source;
    aqi_source_open(&source, eventfd(0, EFD_CLOEXEC), silence_all);
    int fd = source.fd;
    source.fd = 1 << 30;
    assert_int_equal(aqi_source_try_watch(&source, EPOLLIN), EBADF);
    assert_null(complaint);
    aqi_source_watch(&source, EPOLLIN);
    assert_non_null(strstr(complaint, "epoll_ctl of descriptor 1073741824"));
    source.fd = fd;
    aqi_source_close(&source);
    assert_int_equal(source.fd, -1);
    aqi_source_close(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_callback_frees_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_callback_silences_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deadline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors_are_reported, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
