/*
 * Over udp, if the source of a transfer cannot be read, the sources of all transfers under way are
 * touched. Meanwhile another thread completes a transfer and unmaps its source, as programs may:
 * this source must be touched before, or not at all.
 *
 * Of three ranks, a thread of rank 0 puts to rank 1 from memory that it protects, another thread to
 * rank 2. The first thread waits in its signal handler until the other one has unmapped its source,
 * or has had time to.
 */
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 4 << 20, LARGE = 32 << 20, ROUNDS = 3, TIME_NS = 200000000 };

static size_t page;
static unsigned char *guarded, *unmapped; /* the sources of the two puts */
static _Atomic bool begun, in_handler, other_is_done;
static _Atomic pid_t other_thread;

static unsigned char *map(size_t len)
{
    unsigned char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static unsigned char *last_page(void)
{
    return guarded + SIZE - page;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    unsigned char *at = info->si_addr;
    (void)context;
    if (at < last_page() || at >= last_page() + page) {
        static const char text[] = "memory was touched that the program has unmapped\n";
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        (void)signal(number, SIG_DFL);
        return;
    }
    static const struct timespec pause = {.tv_nsec = 1000000};
    in_handler = true;
    while (gettid() != other_thread && !other_is_done)
        nanosleep(&pause, NULL);
    if (mprotect(last_page(), page, PROT_READ) != 0) (void)signal(number, SIG_DFL);
}

static void *other(void *arg)
{
    aq_event event;
    (void)arg;
    other_thread = gettid();
    CHECK_OK(aq_put_nb(job.team, 2, job_at(2, 0), unmapped, LARGE, 0, &event));
    begun = true;
    while (!in_handler)
        usleep(1000);
    aq_status st = aq_event_wait(&event, TIME_NS);
    CHECK(st == AQ_OK || st == AQ_AGAIN);
    if (st == AQ_OK) CHECK(munmap(unmapped, LARGE) == 0);
    other_is_done = true;
    if (st == AQ_OK) return NULL;
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK(munmap(unmapped, LARGE) == 0);
    return NULL;
}

static void put_both(unsigned round)
{
    pthread_t thread;
    aq_event event;
    begun = in_handler = other_is_done = false;
    guarded = map(SIZE);
    unmapped = map(LARGE);
    fill(guarded, SIZE, round);
    fill(unmapped, LARGE, round + 100);
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    while (!begun)
        usleep(100);
    CHECK_OK(aq_put_nb(job.team, 1, job_at(1, 0), guarded, SIZE, 0, &event));
    CHECK(mprotect(last_page(), page, PROT_NONE) == 0);
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(munmap(guarded, SIZE) == 0);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    page = (size_t)sysconf(_SC_PAGESIZE);
    job_open(AQ_THREAD_MULTIPLE, LARGE);
    CHECK_EQUAL(job.size, 3);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        job_barrier();
        if (job.self == 0) put_both(round);
        job_barrier();
        if (job.self == 1) CHECK(filled(job.base, SIZE, round));
        if (job.self == 2) CHECK(filled(job.base, LARGE, round + 100));
    }
    job_close();
    return 0;
}
