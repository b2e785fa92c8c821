/*
 * `left private|segment`: a member that is notified of a death leaves an operation and reuses its
 * buffers, while another member, which does not depend on the dead one in that round, still reads
 * them. Of four ranks, 1 dies as soon as it has its data, 2 and 3 overwrite theirs, and 0 is slow,
 * because its memory is new. It must get the right data, or the error.
 */
#include "../support.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { RANKS = 4, VICTIM = 1, BLOCK = 4 << 20, ALL = RANKS * BLOCK };

static unsigned char *new_memory(void)
{
    void *at = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* A byte of the block that `from` sends to `to`. */
static unsigned char block_byte(aq_rank from, aq_rank to)
{
    return (unsigned char)(1 + from * RANKS + to);
}

static void check_data(const unsigned char *dst)
{
    for (aq_rank i = 0; i < RANKS; i++)
        CHECK(all_bytes(dst + i * (size_t)BLOCK, BLOCK, block_byte(i, job.self)));
}

static void die_with_data(unsigned char *dst, const unsigned char *src)
{
    aq_event done;
    CHECK_OK(aq_coll_alltoall_nb(job.team, dst, src, BLOCK, 0, &done));
    while (dst[ALL - 1] == 0 ||
           dst[0] == 0) /* the blocks of 2 and 3 arrive before that of 0, the own block last */
        (void)aq_poll();
    raise(SIGKILL);
}

int main(int argc, char **argv)
{
    bool private = argc == 2 && strcmp(argv[1], "private") == 0;
    if (!private && (argc != 2 || strcmp(argv[1], "segment") != 0)) return 2;
    job_open(AQ_THREAD_SINGLE, ALL);
    CHECK_EQUAL(job.size, RANKS);
    unsigned char *dst = new_memory(), *src = private ? new_memory() : job.base;
    for (aq_rank i = 0; i < RANKS; i++)
        memset(src + i * (size_t)BLOCK, block_byte(job.self, i), BLOCK);
    if (job.self != 0) memset(dst, 0, ALL);
    aq_status met = aq_barrier(job.team);
    CHECK(met == AQ_OK || met == AQ_EPEER);
    if (job.self == VICTIM) die_with_data(dst, src);
    aq_status status = aq_coll_alltoall(job.team, dst, src, BLOCK, 0);
    if (status == AQ_OK)
        check_data(dst);
    else
        CHECK_EQUAL(status, AQ_EPEER);
    if (private)
        CHECK_EQUAL(munmap(src, ALL), 0);
    else
        memset(src, 0, ALL);
    while (!aq_peer_lost(job.team, VICTIM))
        (void)aq_poll();
    printf("rank %u leaves\n", job.self);
    CHECK_OK(aq_finalize());
    return 0;
}
