/* GASNET_SEGMENT_EVERYTHING: all memory of each process can be put to, got from and sent to. */
#include <gasnet.h>

#include "support.h"

enum { LANDED = 200 };

static long words[2]; /* of this program; the heap and the stack are tried, too */
static int landed;

static void on_landed(gasnet_token_t token, void *buf, size_t nbytes)
{
    (void)token;
    CHECK(buf == &words[1] && nbytes == sizeof(long));
    landed++;
}

/* Put to, and get from, the memory at `mine` of the next process. */
static void try_memory(long *mine)
{
    long **all = (long **)malloc(job.size * sizeof(*all));
    long value = 1000 + (long)job.rank, back = 0;
    gasnet_coll_gather_all(GASNET_TEAM_ALL, all, &mine, sizeof(mine),
                           GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC);
    gasnet_put(job.next, all[job.next], &value, sizeof(value));
    job_barrier();
    CHECK_EQUAL(*mine, 1000 + job.previous);
    gasnet_wait_syncnb(gasnet_get_nb_bulk(&back, job.next, all[job.next], sizeof(back)));
    CHECK_EQUAL(back, value);
    job_barrier(); /* all have looked */
    gasnet_put_val(job.next, all[job.next], 77, sizeof(long));
    CHECK_EQUAL(gasnet_get_val(job.next, all[job.next], sizeof(long)), 77);
    job_barrier();
    free(all);
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = {{LANDED, (gex_AM_Fn_t)on_landed}};
    gasnet_seginfo_t info;
    long **all, *mine = &words[1], local = 0;
    long *heap = (long *)malloc(sizeof(*heap));
    CHECK_EQUAL(gasnet_init(&argc, &argv), GASNET_OK);
    CHECK(gasnet_getMaxLocalSegmentSize() == (uintptr_t)-1);
    CHECK(gasnet_getMaxGlobalSegmentSize() == (uintptr_t)-1);
    CHECK_EQUAL(gasnet_attach(table, 1, 123, 0), GASNET_OK); /* the size does not matter */
    gasnet_QueryGexObjects(&job.client, &job.ep, &job.tm, &job.segment);
    CHECK(job.segment == GEX_SEGMENT_INVALID);
    job_learn();
    CHECK_EQUAL(gasnet_getSegmentInfo(&info, 1), GASNET_OK);
    CHECK(info.addr == NULL && info.size == (uintptr_t)-1);
    try_memory(&words[0]);
    try_memory(heap);
    try_memory(&local);
    all = (long **)malloc(job.size * sizeof(*all));
    gasnet_coll_gather_all(GASNET_TEAM_ALL, all, &mine, sizeof(mine),
                           GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC);
    gasnet_AMRequestLong0(job.next, LANDED, heap, sizeof(long), all[job.next]);
    GASNET_BLOCKUNTIL(landed == 1);
    CHECK_EQUAL(words[1], 77); /* what try_memory left on the heap of the previous one */
    job_barrier();
    free(all);
    free(heap);
    gasnet_exit(0);
}
