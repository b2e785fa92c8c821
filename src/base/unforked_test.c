/* A forked child does not hold the descriptors that its parent has added, only their numbers. */
#include "base/unforked.h"

#include "base/cmocka_test.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int wait_for(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* In a child: whether the number is taken, but not by a socket. */
static bool is_reserved(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISCHR(about.st_mode);
}

static bool is_socket(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode);
}

static void test_child_holds_none(void **state)
{
    int pair[2], other[2];
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
    aqi_unforked_add(pair[0]);
    aqi_unforked_add(-1);
    aqi_unforked_add(1 << 20);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* lives until the parent has seen the end of its own socket */
        if (!is_reserved(pair[0]) || !is_socket(pair[1]) || !is_socket(other[1])) _exit(1);
        close(other[0]);
        _exit(read(other[1], &byte, 1) == 1 ? 0 : 2);
    }
    aqi_unforked_close(pair[0]);
    assert_int_equal(read(pair[1], &byte, 1), 0);
    assert_int_equal(write(other[0], "x", 1), 1);
    assert_int_equal(wait_for(child), 0);
    close(pair[1]);
    close(other[0]);
    close(other[1]);
}

static void test_closed_number_is_free(void **state)
{
    int pair[2], again;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    aqi_unforked_add(pair[0]);
    aqi_unforked_close(pair[0]);
    again = dup2(pair[1], pair[0]);
    assert_int_equal(again, pair[0]);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(is_socket(again) ? 0 : 1);
    assert_int_equal(wait_for(child), 0);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_holds_none),
        cmocka_unit_test(test_closed_number_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
