/* Descriptors of front ends: what makes them readable. */
#include "base/cmocka_test.h"
#include "base/kick.h"
#include "lib/alone.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>

static bool is_readable(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    return poll(&wanted, 1, 0) == 1;
}

static void kicks_make_it_readable(void **state)
{
    struct lib_alone_handle handle;
    assert_int_equal(lib_alone_handle_open(&handle), 0);
    assert_false(is_readable(handle.fd));
    aqi_kick(handle.kick);
    assert_true(is_readable(handle.fd));
    assert_true(aqi_kick_take(handle.kick));
    assert_false(is_readable(handle.fd));
    lib_alone_handle_close(&handle);
    assert_int_equal(handle.fd, -1);
    lib_alone_handle_close(&handle);
}

static void a_watched_descriptor_makes_it_readable(void **state)
{
    struct lib_alone_handle handle;
    int other = aqi_kick_new();
    assert_true(other >= 0);
    assert_int_equal(lib_alone_handle_open(&handle), 0);
    aqi_kick(other);
    assert_false(is_readable(handle.fd));
    for (int i = 0; i < 2; i++)
        assert_true(lib_alone_handle_watch(&handle, other, true));
    assert_true(is_readable(handle.fd));
    for (int i = 0; i < 2; i++)
        assert_true(lib_alone_handle_watch(&handle, other, false));
    assert_false(is_readable(handle.fd));
    close(other);
    assert_false(lib_alone_handle_watch(&handle, other, true));
    lib_alone_handle_close(&handle);
}

/* With one free descriptor, the second cannot be opened, and the first is closed. */
static void descriptors_may_run_out(void **state)
{
    struct lib_alone_handle handle;
    struct rlimit limit, least;
    int next = aqi_kick_new();
    assert_true(next >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    least = limit;
    least.rlim_cur = (rlim_t)next + 1;
    close(next);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &least), 0);
    int err = lib_alone_handle_open(&handle);
    int again = aqi_kick_new();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(err, EMFILE);
    assert_int_equal(handle.fd, -1);
    assert_int_equal(again, next);
    close(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kicks_make_it_readable),
        cmocka_unit_test(a_watched_descriptor_makes_it_readable),
        cmocka_unit_test(descriptors_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
