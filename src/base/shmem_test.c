/* Shared memory is sealed and shared, or fails with a hint on what to do. */
#include "base/shmem.h"

#include "base/capture_test.h"
#include "base/descriptors_test.h"
#include "base/fail.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define SIZE 10000 /* not a multiple of the page size */

static struct capture capture;

static int make_object(void)
{
    int fd = -1;
    assert_int_equal(aqi_shmem_create("test", SIZE, &fd), AQ_OK);
    assert_true(fd >= 0);
    return fd;
}

static void two_mappings_are_the_same_memory(void **state)
{
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

static void size_and_seals_are_fixed(void **state)
{
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

/* Descriptors from peers are not trusted. */
static void only_sealed_memory_is_mapped(void **state)
{
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

/* Growing a file beyond `ulimit -f` raises a signal that kills the process. */
static void file_size_limit_is_explained(void **state)
{
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

/* More than any address space: the object can be created, but not mapped. */
static void nothing_is_left_of_memory_that_cannot_be_mapped(void **state)
{
    int fd = -5;
    void *at = &fd;
    unsigned before = descriptors();
    capture_start(&capture);
    aq_status status = aqi_shmem_new("test", (size_t)1 << 60, &fd, &at);
    capture_end(&capture);
    assert_int_equal(status, AQ_ENOMEM);
    assert_int_equal(fd, -5);
    assert_ptr_equal(at, &fd);
    assert_int_equal(descriptors(), before);
}

static void page_size(void **state)
{
    assert_true(aqi_page_size() >= 4096 && aqi_is_power_of_two(aqi_page_size()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_mappings_are_the_same_memory),
        cmocka_unit_test(size_and_seals_are_fixed),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(only_sealed_memory_is_mapped),
        cmocka_unit_test(no_free_descriptor_is_explained),
        cmocka_unit_test(file_size_limit_is_explained),
        cmocka_unit_test(nothing_is_left_of_memory_that_cannot_be_mapped),
        cmocka_unit_test(page_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
