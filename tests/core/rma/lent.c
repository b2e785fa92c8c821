/*
 * Mode everything: puts and gets of memory that the next rank maps, and maps again, also beside
 * memory that is being transferred. A network may have registered the memory on demand. Every
 * transfer sees the current contents.
 *
 * usage: core_lent [kept | once | followed]
 *   how the network treats such memory; followed: it keeps registrations, since they reach whatever
 *   is mapped there
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LEN = 512 << 10, HALF = 32 << 10, ROUNDS = 6, SMALL = 100, MOST = 6000 };

static unsigned char *memory, *there; /* of the next rank */
static unsigned char local[LEN], back[LEN];

static void map(void *at, size_t len)
{
    int fixed = at != NULL ? MAP_FIXED : 0;
    void *got = mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    CHECK(got != MAP_FAILED && (at == NULL || got == at));
    if (at == NULL) memory = got;
}

static void find_next(void)
{
    unsigned char **all = calloc(job.size, sizeof(*all));
    CHECK(all != NULL);
    CHECK_OK(aq_coll_allgather(job.team, all, &memory, sizeof(memory), 0));
    there = all[job_next()];
    free(all);
}

static unsigned char byte_of(aq_rank rank, unsigned round)
{
    return (unsigned char)(16 * round + rank + 1);
}

static void round_trip(unsigned round)
{
    memset(local, byte_of(job.self, round), LEN);
    CHECK_OK(aq_put(job.team, job_next(), there, local, LEN, 0));
    job_barrier();
    CHECK(all_bytes(memory, LEN, byte_of(job_previous(), round)));
    CHECK_OK(aq_get(job.team, job_next(), back, there, LEN, 0));
    CHECK(all_bytes(back, LEN, byte_of(job.self, round)));
    job_barrier();
}

/* Puts and gets of all small sizes. The first put may be sent along with the request for a key. */
static void small_ones(void)
{
    map(memory, LEN);
    memset(local, 0, LEN);
    job_barrier();
    CHECK_OK(aq_put(job.team, job_next(), there, local, 1, 0));
    for (unsigned i = 0; i < SMALL; i++) {
        size_t len = 1 + job_random() % MOST, at = job_random() % (LEN - len);
        for (size_t k = 0; k < len; k++)
            local[at + k] = (unsigned char)(i + k);
        CHECK_OK(aq_put(job.team, job_next(), there + at, local + at, len, 0));
        len = 1 + job_random() % MOST, at = job_random() % (LEN - len);
        CHECK_OK(aq_get(job.team, job_next(), back, there + at, len, 0));
        CHECK(memcmp(back, local + at, len) == 0);
    }
    job_barrier();
}

/* Each rank maps a part of its memory again while other parts of it are written and read. */
static void beside(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        aq_event put;
        memset(local, byte_of(job.self, i), HALF);
        CHECK_OK(aq_put(job.team, job_next(), there, back, HALF / 2, 0));
        job_barrier();
        CHECK_OK(aq_put_nb(job.team, job_next(), there + HALF, local, HALF, 0, &put));
        map(memory, HALF);
        CHECK_OK(aq_event_wait(&put, AQ_FOREVER));
        CHECK_OK(aq_get(job.team, job_next(), back, there + HALF, HALF, 0));
        CHECK(all_bytes(back, HALF, byte_of(job.self, i)));
        job_barrier();
        CHECK(all_bytes(memory, HALF, 0));
        job_barrier();
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool lent = *what != '\0', kept = lent && strcmp(what, "once") != 0;
    bool followed = strcmp(what, "followed") == 0;
    job.segment_modes = AQ_SEGMENT_BIT(AQ_SEGMENT_EVERYTHING);
    job_open(AQ_THREAD_SINGLE, 0);
    CHECK_OK(aq_segment_attach(job.team, 0, &job.segment));
    map(NULL, LEN);
    find_next();
    round_trip(0);
    uint64_t misses = job_counter("reg_far_miss"), hits = job_counter("reg_far_hit");
    CHECK((misses != 0) == lent);
    CHECK_EQUAL(job_counter("reg_far_refused"), 0);
    round_trip(1);
    CHECK((job_counter("reg_far_miss") == misses) == (kept || !lent));
    CHECK((job_counter("reg_far_hit") > hits) == kept);
    for (unsigned round = 2; round < ROUNDS; round++) {
        misses = job_counter("reg_far_miss");
        map(memory, LEN);
        job_barrier(); /* no rank leaves the barrier before the keys of the old memory are gone */
        round_trip(round);
        CHECK((job_counter("reg_far_miss") > misses) == (lent && !followed));
    }
    small_ones();
    CHECK((job_counter("reg_rides") != 0) == (lent && !followed));
    beside();
    job_close();
    return 0;
}
