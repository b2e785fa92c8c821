/*
 * Many collectives under way at once, more than run at a time: ranks that sleep meanwhile are woken
 * by the ranks that they wait for, not by their timeout. The test counts sleeps, because times mean
 * little under load.
 *
 * usage: coll_many single|multiple|threads
 *   threads  in mode multiple, while a second thread uses barriers of another team
 */
#include "../support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Each of OPS operations may be waited for in a sleep; a lost wake-up is a sleep that ends by its
 * timeout. Other work on the machine also causes timeouts, but few. */
enum { OPS = 1000, COUNT = 64, MOST_OVERSLEPT = OPS / 10 };

static int64_t from[OPS][COUNT], to[OPS][COUNT];

static void *barriers(void *team)
{
    for (int i = 0; i < OPS / 2; i++)
        CHECK_OK(aq_barrier(team));
    return NULL;
}

static void reductions(aq_event *events)
{
    for (int i = 0; i < OPS; i++) {
        for (int k = 0; k < COUNT; k++)
            from[i][k] = (int64_t)job.self + i * k;
        CHECK_OK(aq_coll_allreduce_nb(job.team, to[i], from[i], COUNT, AQ_TYPE_I64, AQ_OP_ADD, 0,
                                      &events[i]));
    }
}

static void check_sums(void)
{
    int64_t n = job.size;
    for (int i = 0; i < OPS; i++)
        for (int k = 0; k < COUNT; k++)
            CHECK_EQUAL(to[i][k], n * (n - 1) / 2 + n * i * k);
}

static void one_by_one(aq_event *events)
{
    for (int i = 0; i < OPS; i++)
        CHECK_OK(aq_event_wait(&events[i], AQ_FOREVER));
}

static void all_at_once(aq_event *events)
{
    CHECK_OK(aq_event_wait_all(events, OPS, AQ_FOREVER));
}

static void run(const char *what, void (*wait)(aq_event *), aq_team *other)
{
    static aq_event events[OPS];
    pthread_t thread;
    job_barrier();
    uint64_t sleeps = job_counter("sleep"), overslept = job_counter("overslept");
    if (other != NULL) CHECK_EQUAL(pthread_create(&thread, NULL, barriers, other), 0);
    reductions(events);
    wait(events);
    if (other != NULL) CHECK_EQUAL(pthread_join(thread, NULL), 0);
    sleeps = job_counter("sleep") - sleeps;
    overslept = job_counter("overslept") - overslept;
    printf("rank %u, %s: %llu sleeps, %llu by timeout\n", job.self, what,
           (unsigned long long)sleeps, (unsigned long long)overslept);
    CHECK(overslept <= MOST_OVERSLEPT);
    check_sums();
    memset(to, 0, sizeof(to));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "single";
    bool single = strcmp(mode, "single") == 0;
    aq_team *other = NULL;
    job_open(single ? AQ_THREAD_SINGLE : AQ_THREAD_MULTIPLE, 4096);
    if (strcmp(mode, "threads") == 0) CHECK_OK(aq_team_split(job.team, 0, 0, 0, &other));
    run("one by one", one_by_one, other);
    run("all at once", all_at_once, other);
    if (other != NULL) CHECK_OK(aq_team_destroy(other));
    job_close();
    return 0;
}
