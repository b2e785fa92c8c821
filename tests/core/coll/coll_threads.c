/*
 * Collectives from several threads at once, each on a team of its own; and with the argument "dies"
 * (AQ_FAULT=die=…): a collective with a dead member fails with AQ_EPEER.
 */
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 150 };

static const unsigned flags[] = {0, AQ_COLL_IN_ALL, AQ_COLL_OUT_ALL,
                                 AQ_COLL_IN_ALL | AQ_COLL_OUT_ALL};

static void *work(void *arg)
{
    aq_team *team = arg;
    aq_rank size = aq_team_size(team), self = aq_team_rank(team);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t mine = self + i, sum, parts[64];
        aq_event events[3];
        CHECK_OK(aq_coll_allreduce(team, &sum, &mine, 1, AQ_TYPE_U64, AQ_OP_ADD, 0));
        CHECK_EQUAL(sum, (uint64_t)size * (size - 1) / 2 + i * size);
        CHECK_OK(aq_barrier_nb(team, 0, &events[0]));
        CHECK_OK(aq_coll_allgather_nb(team, parts, &mine, 8, 0, &events[1]));
        CHECK_OK(aq_coll_broadcast_nb(team, (aq_rank)i % size, &sum, &mine, 8,
                                      flags[i % COUNT_OF(flags)], &events[2]));
        CHECK_OK(aq_event_wait_all(events, COUNT_OF(events), AQ_FOREVER));
        CHECK_EQUAL(sum, i % size + i);
        for (aq_rank rank = 0; rank < size; rank++)
            CHECK_EQUAL(parts[rank], rank + i);
        CHECK_OK(aq_barrier(team));
    }
    return NULL;
}

static void test_threads(void)
{
    aq_team *teams[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_OK(aq_team_split(job.team, 0, i % 2 ? (int)job.self : -(int)job.self, 0, &teams[i]));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, teams[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_OK(aq_team_destroy(teams[i]));
}

/* The collective ends, whether it blocks or has an event. A rank that gets the error ends the job
 * cleanly, also for ranks that do not get it. */
static _Noreturn void test_death(void)
{
    uint64_t mine, sum;
    aq_event ev;
    aq_status status = AQ_OK;
    for (uint64_t i = 0; status == AQ_OK; i++) {
        mine = i;
        sum = UINT64_MAX;
        if (i % 2) {
            status = aq_coll_allreduce(job.team, &sum, &mine, 1, AQ_TYPE_U64, AQ_OP_ADD, 0);
        } else {
            status = aq_coll_allreduce_nb(job.team, &sum, &mine, 1, AQ_TYPE_U64, AQ_OP_ADD,
                                          flags[i / 2 % COUNT_OF(flags)], &ev);
            if (status == AQ_OK) status = aq_event_wait(&ev, AQ_FOREVER);
        }
        if (status == AQ_OK) CHECK_EQUAL(sum, i * job.size);
    }
    CHECK_EQUAL(status, AQ_EPEER);
    /* No later one completes either. */
    status = aq_barrier_nb(job.team, 0, &ev);
    CHECK_EQUAL(status == AQ_OK ? aq_event_wait(&ev, AQ_FOREVER) : status, AQ_EPEER);
    /* Give the others time to read the rest of this rank's data, which is part of their result. */
    for (int i = 0; i < 500; i++) {
        sched_yield();
        (void)aq_poll();
    }
    aq_exit(0);
}

int main(int argc, char **argv)
{
    job_open(AQ_THREAD_MULTIPLE, 0);
    if (argc > 1 && strcmp(argv[1], "dies") == 0) test_death();
    test_threads();
    job_close();
    return 0;
}
