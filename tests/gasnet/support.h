/*
 * Shared by the tests of the GASNet interface: checks that end the job, and joining with a segment.
 * Written in the common subset of C and C++, as each program is built as both.
 */
#ifndef AQT_GASNET_SUPPORT_H
#define AQT_GASNET_SUPPORT_H

#include "../common/check.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 3, 4), noreturn, unused)) static void check_failed(const char *file,
                                                                                 int line,
                                                                                 const char *fmt,
                                                                                 ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%s:%d: rank %u: ", file, line, (unsigned)gex_System_QueryJobRank());
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    gasnet_exit(1);
}

/*
 * Count in a handler. Handlers may run concurrently on the progress thread and on threads of the
 * program.
 */
__attribute__((unused)) static void one_more(unsigned *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
}

/* This process and its segment; all ranks have segments of the same size. */
static struct job {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;
    gex_Rank_t rank, size, next, previous;
    char *base;
    uintptr_t len;
} job;

__attribute__((unused)) static void job_barrier(void)
{
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    CHECK_EQUAL(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS), GASNET_OK);
}

__attribute__((unused)) static void job_learn(void)
{
    job.rank = gex_TM_QueryRank(job.tm);
    job.size = gex_TM_QuerySize(job.tm);
    job.next = (job.rank + 1) % job.size;
    job.previous = (job.rank + job.size - 1) % job.size;
}

/* Returns the address, as valid there, of an offset in the segment of a rank. */
__attribute__((unused)) static char *job_at(gex_Rank_t rank, size_t offset)
{
    void *base = NULL;
    CHECK_EQUAL(gex_Segment_QueryBound(job.tm, rank, &base, NULL, NULL), 0);
    return (char *)base + offset;
}

/* Join with a segment. */
__attribute__((unused)) static void job_open(int *argc, char ***argv, uintptr_t len)
{
    CHECK_EQUAL(gex_Client_Init(&job.client, &job.ep, &job.tm, "TEST", argc, argv, 0), GASNET_OK);
    job_learn();
    CHECK_EQUAL(gex_Segment_Attach(&job.segment, job.tm, len), GASNET_OK);
    job.base = (char *)gex_Segment_QueryAddr(job.segment);
    job.len = gex_Segment_QuerySize(job.segment);
    CHECK(job.len >= len);
}

/* Bytes that identify their origin. */
__attribute__((unused)) static void fill(void *at, size_t len, unsigned seed)
{
    unsigned char *p = (unsigned char *)at;
    size_t i;
    for (i = 0; i < len; i++)
        p[i] = (unsigned char)(seed * 131 + i * 7 + (i >> 8));
}

__attribute__((unused)) static int filled(const void *at, size_t len, unsigned seed)
{
    const unsigned char *p = (const unsigned char *)at;
    size_t i;
    for (i = 0; i < len; i++)
        if (p[i] != (unsigned char)(seed * 131 + i * 7 + (i >> 8))) return 0;
    return 1;
}

#endif
