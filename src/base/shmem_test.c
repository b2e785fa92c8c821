/* Shared memory is sealed and shared; descriptors pass, or fail with a word on what to do. */
#include "base/shmem.h"

#include "base/capture_test.h"
#include "base/fail.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SIZE 10000 /* not a multiple of the page */

static struct capture capture;

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static int make_object(void)
{
    int fd = -1;
    assert_int_equal(aqi_shmem_create("test", SIZE, &fd), AQ_OK);
    assert_true(fd >= 0);
    return fd;
}

static void two_mappings_are_the_same_memory(void **state)
{
    (void)state;
    int fd = make_object();
    void *a, *b;
    assert_int_equal(aqi_shmem_map(fd, SIZE, &a), AQ_OK);
    assert_int_equal(aqi_shmem_map(fd, SIZE, &b), AQ_OK);
    assert_ptr_not_equal(a, b);
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(((unsigned char *)a)[i], 0);
    memset(a, 'q', SIZE);
    assert_memory_equal(a, b, SIZE);
    aqi_shmem_unmap(a, SIZE);
    aqi_shmem_unmap(b, SIZE);
    aqi_shmem_unmap(NULL, SIZE);
    close(fd);
}

static void nobody_can_resize_or_unseal(void **state)
{
    (void)state;
    int fd = make_object();
    assert_int_equal(ftruncate(fd, SIZE - 1), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, SIZE + 1), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, SIZE);
    close(fd);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, SIZE_MAX};
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        int fd = -5;
        capture_start(&capture);
        aq_status status = aqi_shmem_create("test", sizes[i], &fd);
        capture_end(&capture);
        assert_int_equal(status, AQ_EINVAL);
        assert_int_equal(fd, -5);
    }
}

static void check_not_mapped(int fd, size_t size)
{
    void *addr = &capture;
    capture_start(&capture);
    aq_status status = aqi_shmem_map(fd, size, &addr);
    capture_end(&capture);
    assert_int_equal(status, AQ_EPROTO);
    assert_ptr_equal(addr, &capture);
    assert_true(strlen(aq_error_message()) > 0);
}

/* What a peer sends is not trusted. */
static void only_sealed_memory_is_mapped(void **state)
{
    (void)state;
    int fd = make_object(), pipes[2];
    check_not_mapped(fd, SIZE + 1);
    check_not_mapped(fd, 0);
    close(fd);

    fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    check_not_mapped(fd, SIZE);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    check_not_mapped(fd, SIZE);
    close(fd);

    assert_int_equal(pipe(pipes), 0);
    check_not_mapped(pipes[0], SIZE);
    close(pipes[0]);
    close(pipes[1]);
    fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    check_not_mapped(fd, SIZE);
    close(fd);
    check_not_mapped(-1, SIZE);
}

static void no_free_descriptor_is_explained(void **state)
{
    (void)state;
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    capture_start(&capture);
    int next = dup(0);
    close(next);
    low = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int fd = -5;
    aq_status status = aqi_shmem_create("test", SIZE, &fd);
    setrlimit(RLIMIT_NOFILE, &old);
    capture_end(&capture);
    assert_int_equal(status, AQ_ELIMIT);
    assert_int_equal(fd, -5);
    assert_non_null(strstr(aq_error_message(), "ulimit -n"));
    assert_non_null(strstr(aq_error_message(), "\"test\""));
}

/* The kernel answers growth beyond `ulimit -f` with a signal that kills. */
static void file_size_limit_is_explained(void **state)
{
    (void)state;
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = (struct rlimit){.rlim_cur = SIZE - 1, .rlim_max = old.rlim_max};
    int fd = -5;
    capture_start(&capture);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    aq_status status = aqi_shmem_create("test", SIZE, &fd);
    setrlimit(RLIMIT_FSIZE, &old);
    capture_end(&capture);
    assert_int_equal(status, AQ_ELIMIT);
    assert_non_null(strstr(aq_error_message(), "ulimit -f"));
}

static void make_pair(int type, int *pair)
{
    assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair), 0);
}

static void close_pair(const int *pair)
{
    close(pair[0]);
    close(pair[1]);
}

static void descriptors_pass(void **state)
{
    (void)state;
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
    for (size_t t = 0; t < AQI_COUNT_OF(types); t++) {
        unsigned before = open_descriptors();
        int pair[2], fds[2] = {-1, -1}, object = make_object();
        make_pair(types[t], pair);
        assert_int_equal(aqi_fd_send(pair[0], "hello", 5, (int[]){object, pair[0]}, 2), AQ_OK);
        char text[16];
        size_t len = sizeof(text), nfds = 2;
        assert_int_equal(aqi_fd_receive(pair[1], text, &len, fds, &nfds), AQ_OK);
        assert_int_equal(len, 5);
        assert_memory_equal(text, "hello", 5);
        assert_int_equal(nfds, 2);
        assert_int_equal(fcntl(fds[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);

        void *a, *b;
        assert_int_equal(aqi_shmem_map(object, SIZE, &a), AQ_OK);
        assert_int_equal(aqi_shmem_map(fds[0], SIZE, &b), AQ_OK);
        memset(a, 'z', SIZE);
        assert_memory_equal(a, b, SIZE);
        aqi_shmem_unmap(a, SIZE);
        aqi_shmem_unmap(b, SIZE);
        close(fds[0]);
        close(fds[1]);
        close(object);
        close_pair(pair);
        assert_int_equal(open_descriptors(), before);
    }
}

static void message_without_descriptors(void **state)
{
    (void)state;
    int pair[2];
    make_pair(SOCK_SEQPACKET, pair);
    assert_int_equal(aqi_fd_send(pair[0], "x", 1, NULL, 0), AQ_OK);
    char text[4];
    size_t len = sizeof(text), nfds = 0;
    assert_int_equal(aqi_fd_receive(pair[1], text, &len, NULL, &nfds), AQ_OK);
    assert_int_equal(len, 1);
    assert_int_equal(nfds, 0);
    close_pair(pair);
}

static void as_many_as_the_kernel_takes(void **state)
{
    (void)state;
    int pair[2], fds[254], received[253];
    unsigned before = open_descriptors();
    make_pair(SOCK_STREAM, pair);
    for (size_t i = 0; i < AQI_COUNT_OF(fds); i++)
        fds[i] = pair[0];
    char byte;
    size_t len = 1, nfds = AQI_COUNT_OF(received);
    assert_int_equal(aqi_fd_send(pair[0], "x", 1, fds, 253), AQ_OK);
    assert_int_equal(aqi_fd_receive(pair[1], &byte, &len, received, &nfds), AQ_OK);
    assert_int_equal(nfds, 253);
    for (size_t i = 0; i < nfds; i++)
        assert_int_equal(close(received[i]), 0);
    capture_start(&capture);
    aq_status status = aqi_fd_send(pair[0], "x", 1, fds, 254);
    aq_status empty = aqi_fd_send(pair[0], "", 0, fds, 1);
    capture_end(&capture);
    assert_int_equal(status, AQ_EINVAL);
    assert_int_equal(empty, AQ_EINVAL);
    close_pair(pair);
    assert_int_equal(open_descriptors(), before);
}

/* More than there is room for: refused, and no descriptor stays behind. */
static void surplus_is_closed(void **state)
{
    (void)state;
    unsigned before = open_descriptors();
    int pair[2], fd;
    char text[4];
    make_pair(SOCK_SEQPACKET, pair);
    size_t len = sizeof(text), nfds = 1;
    assert_int_equal(aqi_fd_send(pair[0], "x", 1, (int[]){pair[0], pair[1]}, 2), AQ_OK);
    capture_start(&capture);
    aq_status status = aqi_fd_receive(pair[1], text, &len, &fd, &nfds);
    capture_end(&capture);
    assert_int_equal(status, AQ_EPROTO);
    assert_int_equal(nfds, 1);

    assert_int_equal(aqi_fd_send(pair[0], "longer", 6, pair, 1), AQ_OK);
    capture_start(&capture);
    status = aqi_fd_receive(pair[1], text, &len, &fd, &nfds);
    capture_end(&capture);
    assert_int_equal(status, AQ_EPROTO);
    close_pair(pair);
    assert_int_equal(open_descriptors(), before);
}

static void no_room_for_what_arrives_is_explained(void **state)
{
    (void)state;
    unsigned before = open_descriptors();
    int pair[2], fds[4];
    struct rlimit old, low;
    char byte;
    size_t len = 1, nfds = 4;
    make_pair(SOCK_STREAM, pair);
    for (size_t i = 0; i < 4; i++)
        fds[i] = pair[0];
    assert_int_equal(aqi_fd_send(pair[0], "x", 1, fds, 4), AQ_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    capture_start(&capture);
    int next = dup(0);
    close(next);
    /* Two of the four still fit: they must not stay. */
    low = (struct rlimit){.rlim_cur = (rlim_t)next + 2, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    aq_status status = aqi_fd_receive(pair[1], &byte, &len, fds, &nfds);
    setrlimit(RLIMIT_NOFILE, &old);
    capture_end(&capture);
    assert_int_equal(status, AQ_ELIMIT);
    assert_non_null(strstr(aq_error_message(), "ulimit -n"));
    close_pair(pair);
    assert_int_equal(open_descriptors(), before);
}

static void end_of_the_other_side(void **state)
{
    (void)state;
    int pair[2];
    char byte;
    size_t len = 1, nfds = 0;
    make_pair(SOCK_STREAM, pair);
    close(pair[0]);
    assert_int_equal(aqi_fd_receive(pair[1], &byte, &len, NULL, &nfds), AQ_EPEER);
    capture_start(&capture);
    aq_status status = aqi_fd_send(pair[1], "x", 1, NULL, 0);
    capture_end(&capture);
    assert_int_equal(status, AQ_EPEER);
    close(pair[1]);
}

static void non_blocking_sockets_say_again(void **state)
{
    (void)state;
    int pair[2];
    char block[4096] = {0};
    size_t len = 1, nfds = 0;
    make_pair(SOCK_SEQPACKET | SOCK_NONBLOCK, pair);
    assert_int_equal(aqi_fd_receive(pair[1], block, &len, NULL, &nfds), AQ_AGAIN);
    aq_status status = AQ_OK;
    for (unsigned i = 0; i < 100000 && status == AQ_OK; i++)
        status = aqi_fd_send(pair[0], block, sizeof(block), NULL, 0);
    assert_int_equal(status, AQ_AGAIN);
    close_pair(pair);
}

/* A message longer than the socket's buffer, to a slow reader, on a socket that does not block. */
static void long_message_over_a_stream(void **state)
{
    (void)state;
    enum { LONG = 4 << 20 };
    static unsigned char sent[LONG];
    int pair[2];
    make_pair(SOCK_STREAM | SOCK_NONBLOCK, pair);
    for (size_t i = 0; i < LONG; i++)
        sent[i] = (unsigned char)(i * 7 >> 3);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(aqi_fd_send(pair[0], sent, LONG, &pair[0], 1) != AQ_OK);
    close(pair[0]);

    size_t got = 0;
    unsigned fds_seen = 0;
    while (got < LONG) {
        static unsigned char block[65536];
        size_t len = sizeof(block), nfds = 1;
        int fd;
        aq_status status = aqi_fd_receive(pair[1], block, &len, &fd, &nfds);
        if (status == AQ_AGAIN) continue;
        assert_int_equal(status, AQ_OK);
        assert_memory_equal(block, sent + got, len);
        got += len;
        if (nfds == 1) close(fd);
        fds_seen += (unsigned)nfds;
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_int_equal(exit_status, 0);
    assert_int_equal(fds_seen, 1);
    close(pair[1]);
}

static void page_size(void **state)
{
    (void)state;
    assert_true(aqi_page_size() >= 4096 && aqi_is_power_of_two(aqi_page_size()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_mappings_are_the_same_memory),
        cmocka_unit_test(nobody_can_resize_or_unseal),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(only_sealed_memory_is_mapped),
        cmocka_unit_test(no_free_descriptor_is_explained),
        cmocka_unit_test(file_size_limit_is_explained),
        cmocka_unit_test(descriptors_pass),
        cmocka_unit_test(message_without_descriptors),
        cmocka_unit_test(as_many_as_the_kernel_takes),
        cmocka_unit_test(surplus_is_closed),
        cmocka_unit_test(no_room_for_what_arrives_is_explained),
        cmocka_unit_test(end_of_the_other_side),
        cmocka_unit_test(non_blocking_sockets_say_again),
        cmocka_unit_test(long_message_over_a_stream),
        cmocka_unit_test(page_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
