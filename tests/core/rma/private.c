/*
 * Memory that its owner has allocated itself, so that no other process maps it. Transfers are
 * correct whether the owner polls or computes, and even if the system forbids access to the memory
 * of other processes.
 *
 * usage: private [alone | direct | forbidden]
 *   alone      the owners make no calls meanwhile
 *   direct     as alone, and accesses to unmapped addresses are reported
 *   forbidden  a seccomp filter refuses process_vm_readv and process_vm_writev
 */
#include "../support.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LEN     ((size_t)6 << 20)
#define WINDOW  ((size_t)16 << 20)
#define WINDOWS ((size_t)144) /* 2.25 GiB in all, more than one system call transfers */

enum { OWN = 1, WIDE, HOLED, ENDPOINTS };

static aq_ep *eps[ENDPOINTS];
static unsigned char *own, *wide, *holed;
static const size_t sizes[] = {1, 8, 100, 4096, 5000, 32768, 65536, 300001, LEN - 64};

static aq_team *pair(unsigned index)
{
    return aq_team_pair(job.ep, index);
}

static unsigned char *there(unsigned index)
{
    aq_segment_info info;
    CHECK_OK(aq_segment_query(pair(index), job_next(), &info));
    CHECK(job.size == 1 || info.local == NULL);
    return info.addr;
}

static unsigned char *map(size_t len, int flags, int fd)
{
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* A large range of addresses with little memory behind it: the same window again and again. */
static unsigned char *map_wide(void)
{
    int fd = memfd_create("aq-test-window", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)WINDOW) == 0);
    unsigned char *at = map(WINDOW * WINDOWS, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    for (size_t i = 0; i < WINDOWS; i++)
        CHECK(mmap(at + i * WINDOW, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                   0) != MAP_FAILED);
    CHECK(close(fd) == 0);
    return at;
}

static void publish(unsigned char *memory, size_t len, unsigned index)
{
    aq_segment *segment;
    CHECK_OK(aq_ep_create(AQ_EP_RMA | AQ_EP_ATOMIC, &eps[index]));
    CHECK_EQUAL(aq_ep_index(eps[index]), index);
    CHECK_OK(aq_segment_create(memory, len, 0, &segment));
    CHECK_OK(aq_ep_bind(eps[index], segment));
}

/* --- the owner polls ------------------------------------------------------------------------- */

static void test_round(size_t len, size_t offset)
{
    unsigned char *at = there(OWN) + offset, *out = malloc(len), *in = malloc(len);
    CHECK(out != NULL && in != NULL);
    fill(out, len, job.self + len);
    CHECK_OK(aq_put(pair(OWN), job_next(), at, out, len, 0));
    CHECK_OK(aq_get(pair(OWN), job_next(), in, at, len, 0));
    CHECK(memcmp(in, out, len) == 0);
    CHECK_OK(aq_memset(pair(OWN), job_next(), at, 0x5a, len / 2, 0));
    memset(out, 0x5a, len / 2);
    memset(in, 0, len);
    CHECK_OK(aq_get_nbi(pair(OWN), job_next(), in, at, len, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
    CHECK(memcmp(in, out, len) == 0);
    free(out);
    free(in);
}

static void test_many(void)
{
    enum { COUNT = 64 };
    const size_t piece = LEN / COUNT;
    unsigned char *out = malloc(LEN), *in = malloc(LEN);
    CHECK(out != NULL && in != NULL);
    fill(out, LEN, job.self);
    for (size_t i = 0; i < COUNT; i++)
        CHECK_OK(
            aq_put_nbi(pair(OWN), job_next(), there(OWN) + i * piece, out + i * piece, piece, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
    for (size_t i = 0; i < COUNT; i++)
        CHECK_OK(
            aq_get_nbi(pair(OWN), job_next(), in + i * piece, there(OWN) + i * piece, piece, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
    CHECK(memcmp(in, out, COUNT * piece) == 0);
    free(out);
    free(in);
    job_barrier();
    CHECK(filled(own, COUNT * piece, job_previous()));
    job_barrier();
}

/* More than 2 GiB. The contents are those of the window that arrives last. */
static void test_wide(void)
{
    const size_t len = WINDOW * WINDOWS - 4096 - 3;
    unsigned char *from = map_wide(), *at = there(WIDE);
    fill(from, WINDOW, job.self + 5);
    CHECK_OK(aq_put(pair(WIDE), job_next(), at + 3, from + 3, len, 0));
    memset(from, 0, WINDOW);
    CHECK_OK(aq_get(pair(WIDE), job_next(), from + 3, at + 3, len, 0));
    CHECK(filled(from, WINDOW, job.self + 5));
    CHECK(munmap(from, WINDOW * WINDOWS) == 0);
}

/* --- the owner does not ---------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/*
 * Wait without a call until the next rank does so as well, which its mapped segment shows.
 */
static void await_absence(void)
{
    aq_segment_info info;
    CHECK_OK(aq_segment_query(job.team, job_next(), &info));
    CHECK(info.local != NULL);
    double limit = now_s() + 60;
    while (job.size > 1 && job.size % 2 == 0 && atomic_load((_Atomic uint64_t *)info.local) == 0)
        CHECK(now_s() < limit);
}

/* Even ranks wait, without a call, for the data that the next rank puts into their memory. */
static void test_alone(void)
{
    const size_t len = 3 << 20;
    _Atomic uint64_t *flag = (_Atomic uint64_t *)(void *)(own + LEN - 64);
    memset(own, 0, LEN);
    job_barrier();
    if (job.self % 2 == 0) atomic_store((_Atomic uint64_t *)(void *)job.base, 1);
    if (job.self % 2 != 0 || job.size == 1) {
        await_absence();
        unsigned char *out = malloc(len);
        CHECK(out != NULL);
        for (uint64_t round = 1; round <= 3; round++) {
            fill(out, len, round);
            CHECK_OK(aq_put(pair(OWN), job_next(), there(OWN), out, len, 0));
            CHECK_OK(aq_memset(pair(OWN), job_next(), there(OWN) + len, 7, 100000, 0));
            memset(out, 0, len);
            CHECK_OK(aq_get(pair(OWN), job_next(), out, there(OWN), len, 0));
            CHECK(filled(out, len, round));
        }
        CHECK_OK(aq_put_value(pair(OWN), job_next(), there(OWN) + LEN - 64, 1, 8, 0));
        free(out);
    }
    /* The previous rank is odd, and has put into this rank's memory. */
    if (job.size == 1 || (job.self % 2 == 0 && job.size % 2 == 0)) {
        double limit = now_s() + 60;
        while (atomic_load(flag) == 0)
            CHECK(now_s() < limit);
        CHECK(filled(own, len, 3));
        CHECK(all_bytes(own + len, 100000, 7));
        CHECK_EQUAL(own[len + 100000], 0);
    }
    job_barrier();
}

/* The call that accesses unmapped memory fails, and nothing else is affected. */
static void test_holes(void)
{
    unsigned char *at = there(HOLED), buffer[12000];
    memset(buffer, 9, sizeof(buffer));
    if (job.size > 1) {
        CHECK_REFUSED(aq_put(pair(HOLED), job_next(), at + 4096, buffer, 100, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_put(pair(HOLED), job_next(), at, buffer, 12000, 0), AQ_ERANGE);
        CHECK(strstr(aq_error_message(), "no memory is mapped there") != NULL);
        CHECK_REFUSED(aq_get(pair(HOLED), job_next(), buffer, at + 4000, 200, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_memset(pair(HOLED), job_next(), at + 8192, 1, 10, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_get(pair(HOLED), job_next(), NULL, at, 1, 0), AQ_EINVAL);
    }
    CHECK_OK(aq_get(pair(HOLED), job_next(), buffer, at + 8192, 100, 0)); /* the read-only page */
    CHECK(all_bytes(buffer, 100, 3));
    CHECK_OK(aq_put(pair(HOLED), job_next(), at, buffer, 100, 0));
    job_barrier();
}

/* A page, a hole, and a read-only page. */
static unsigned char *map_holed(void)
{
    unsigned char *at = map(12288, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memset(at, 3, 12288);
    CHECK(munmap(at + 4096, 4096) == 0);
    CHECK(mprotect(at + 8192, 4096, PROT_READ) == 0);
    return at;
}

/* --- ------------------------------------------------------------------------------------------ */

#define DENY(call)                                                                                 \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1),                                             \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static void forbid(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        DENY(SYS_process_vm_readv),
        DENY(SYS_process_vm_writev),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = COUNT_OF(filter), .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
        return;
    printf("no seccomp here: %s\n", strerror(errno));
    exit(77);
}

int main(int argc, char **argv)
{
    bool direct = argc > 1 && strcmp(argv[1], "direct") == 0;
    bool alone = direct || (argc > 1 && strcmp(argv[1], "alone") == 0);
    if (argc > 1 && strcmp(argv[1], "forbidden") == 0) forbid();
    job_open(AQ_THREAD_SINGLE, 4096);
    own = map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    wide = map_wide();
    holed = map_holed();
    publish(own, LEN, OWN);
    publish(wide, WINDOW * WINDOWS, WIDE);
    publish(holed, 12288, HOLED);
    CHECK_OK(aq_ep_publish(job.team, eps + 1, ENDPOINTS - 1, 0));
    if (alone) test_alone();
    if (direct) {
        test_holes();
        if (job.size == 2 && job.self == 0) test_wide();
        job_barrier();
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        test_round(sizes[i], i % 3 * 7);
    job_barrier();
    test_many();
    job_close();
    return 0;
}
