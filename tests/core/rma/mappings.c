/*
 * Transfers leave the program's mappings alone: each mapping remains a single one, so that mremap
 * can move it, and none are added, however many pages are accessed. This matters where a network
 * may pin memory outside segments, in mode everything also that of peers.
 */
#include "../support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SIZE = 4 << 20,
    MIDDLE = 1 << 20,
    LEN = 61440,
    PAGES = 300,
    PAGE = 4096,
    FEW = 40 /* mappings that the library may make for itself meanwhile */
};

static unsigned char back[LEN];

/* Count the mappings that overlap [from, from + len). */
static unsigned mappings(const unsigned char *from, size_t len)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        char *behind;
        uintptr_t first = strtoul(line, &behind, 16), end = strtoul(behind + 1, NULL, 16);
        count += first < (uintptr_t)from + len && end > (uintptr_t)from;
    }
    fclose(maps);
    return count;
}

/* Map memory without an adjacent mapping. */
static unsigned char *map_apart(size_t len)
{
    unsigned char *at =
        mmap(NULL, len + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED && munmap(at, len + 2 * PAGE) == 0);
    CHECK(mmap(at + PAGE, len, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at + PAGE);
    return at + PAGE;
}

static unsigned char *of_next(unsigned char *mine)
{
    unsigned char **all = calloc(job.size, sizeof(*all)), *next;
    CHECK(all != NULL);
    CHECK_OK(aq_coll_allgather(job.team, all, &mine, sizeof(mine), 0));
    next = all[job_next()];
    free(all);
    return next;
}

static unsigned char *moved(unsigned char *at, size_t len)
{
    CHECK_EQUAL(mappings(at, len), 1);
    void *got = mremap(at, len, 2 * len, MREMAP_MAYMOVE);
    if (got == MAP_FAILED) check_failed(__FILE__, __LINE__, "mremap: %m");
    return got;
}

/* Put from the middle of a mapping to memory of the next rank. */
static void of_ours(void)
{
    unsigned char *at = map_apart(SIZE), *there = job_at(job_next(), 0);
    fill(at, SIZE, job.self);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_OK(aq_put(job.team, job_next(), there, at + MIDDLE, LEN, 0));
        job_barrier();
        CHECK(filled(job.base, LEN, job_previous() + MIDDLE));
        CHECK_OK(aq_get(job.team, job_next(), at + 2 * MIDDLE, there, LEN, 0));
        CHECK(filled(at + 2 * MIDDLE, LEN, job.self + MIDDLE));
        if (i == 0) at = moved(at, SIZE);
        job_barrier();
        memset(job.base, 0, LEN);
        job_barrier();
    }
    CHECK(munmap(at, 2 * SIZE) == 0);
}

/* Put into the middle of a mapping of the next rank, which then moves the mapping. */
static void of_peers(void)
{
    unsigned char *at = map_apart(SIZE), *there = of_next(at), *from = malloc(LEN);
    CHECK(from != NULL);
    fill(from, LEN, job.self);
    CHECK_OK(aq_put(job.team, job_next(), there + MIDDLE, from, LEN, 0));
    job_barrier();
    unsigned char *now = moved(at, SIZE);
    CHECK(filled(now + MIDDLE, LEN, job_previous()));
    there = of_next(now);
    CHECK_OK(aq_get(job.team, job_next(), back, there + MIDDLE, LEN, 0));
    CHECK(memcmp(back, from, LEN) == 0);
    job_barrier();
    CHECK(munmap(now, 2 * SIZE) == 0);
    free(from);
}

/* Access a few bytes of every other page. */
static void scattered(void)
{
    unsigned char *at = map_apart(PAGES * 2 * PAGE), *there = of_next(at);
    unsigned before = mappings(NULL, SIZE_MAX);
    for (uint64_t i = 0; i < PAGES; i++)
        CHECK_OK(aq_put(job.team, job_next(), there + i * 2 * PAGE, &i, sizeof(i), 0));
    job_barrier();
    CHECK(mappings(NULL, SIZE_MAX) < before + FEW);
    for (uint64_t i = 0; i < PAGES; i++)
        CHECK(memcmp(at + i * 2 * PAGE, &i, sizeof(i)) == 0);
    CHECK(munmap(moved(at, PAGES * 2 * PAGE), PAGES * 4 * PAGE) == 0);
}

int main(void)
{
    job.segment_modes = AQ_SEGMENT_BIT(AQ_SEGMENT_FAST) | AQ_SEGMENT_BIT(AQ_SEGMENT_EVERYTHING);
    job_open(AQ_THREAD_SINGLE, 0);
    bool everything = aq_segment_mode_get() == AQ_SEGMENT_EVERYTHING;
    CHECK_OK(aq_segment_attach(job.team, everything ? 0 : LEN, &job.segment));
    job.base = aq_segment_addr(job.segment);
    if (!everything) of_ours();
    if (everything) of_peers();
    if (everything) scattered();
    job_close();
    return 0;
}
