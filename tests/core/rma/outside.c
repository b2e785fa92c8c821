/*
 * Large transfers from and to memory outside the segments, which a network may pin and keep
 * registered: each transfers the current contents, even if the memory has been mapped again in
 * between.
 *
 * usage: core_outside [kept | once | some]
 *   how the network treats such memory
 */
#include "../support.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { LEN = 1 << 20, THREADS = 4, SLICE = LEN / THREADS, ROUNDS = 15 };

static unsigned char *map(void *at)
{
    void *got = mmap(at, LEN, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0), -1, 0);
    CHECK(got != MAP_FAILED);
    return got;
}

static unsigned char byte_of(aq_rank rank, unsigned round)
{
    return (unsigned char)(16 * round + rank + 1);
}

/* Put to the next rank and get back. */
static void round_trip(unsigned char *memory, unsigned round)
{
    memset(memory, byte_of(job.self, round), LEN);
    CHECK_OK(aq_put(job.team, job_next(), job_at(job_next(), 0), memory, LEN, 0));
    job_barrier();
    CHECK(all_bytes(job.base, LEN, byte_of(job_previous(), round)));
    memset(memory, 0, LEN);
    CHECK_OK(aq_get(job.team, job_next(), memory, job_at(job_next(), 0), LEN, 0));
    CHECK(all_bytes(memory, LEN, byte_of(job.self, round)));
    job_barrier();
}

/* Threads get memory at addresses that others have just unmapped. */
static void *map_and_unmap(void *arg)
{
    size_t offset = *(unsigned char *)arg * (size_t)SLICE;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned char byte = (unsigned char)(i * THREADS + offset / SLICE + job.self + 1);
        unsigned char *memory = map(NULL);
        memset(memory, byte, SLICE);
        CHECK_OK(aq_put(job.team, job_next(), job_at(job_next(), offset), memory, SLICE, 0));
        CHECK(munmap(memory, LEN) == 0);
        memory = map(NULL);
        CHECK_OK(aq_get(job.team, job_next(), memory, job_at(job_next(), offset), SLICE, 0));
        CHECK(all_bytes(memory, SLICE, byte));
        CHECK(munmap(memory, LEN) == 0);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t thread[THREADS];
    unsigned char number[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        number[i] = (unsigned char)i;
        CHECK(pthread_create(&thread[i], NULL, map_and_unmap, &number[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

static int nothing_pinned(void *unused)
{
    (void)unused;
    return job_counter("reg_pinned") == job_counter("reg_unpinned");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    job_open(AQ_THREAD_MULTIPLE, LEN);
    unsigned char *memory = map(NULL);
    round_trip(memory, 0);
    uint64_t misses = job_counter("reg_miss"), hits = job_counter("reg_hit");
    CHECK((misses != 0) == (*what != '\0'));
    round_trip(memory, 1);
    if (strcmp(what, "kept") == 0) CHECK_EQUAL(job_counter("reg_miss"), misses);
    if (strcmp(what, "some") != 0)
        CHECK((job_counter("reg_hit") > hits) == (strcmp(what, "kept") == 0));
    misses = job_counter("reg_miss");
    CHECK(munmap(memory, LEN) == 0);
    CHECK(map(memory) == memory);
    round_trip(memory, 2);
    CHECK((job_counter("reg_miss") > misses) == (*what != '\0'));
    CHECK(munmap(memory, LEN) == 0);
    test_threads();
    CHECK_OK(aq_poll_until(nothing_pinned, NULL, AQ_FOREVER));
    job_close();
    return 0;
}
