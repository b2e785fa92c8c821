/*
 * The target of scattered transfers is lost while their messages wait for answers: every wait ends,
 * with AQ_EPEER if something was under way, and later calls are refused, each with a message.
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { OPS = 64, SIZE = 40000 };

static unsigned char memory[SIZE];
static aq_event events[OPS];

static aq_status start(bool put, void *there, aq_event *ev)
{
    const ptrdiff_t step = 16;
    const size_t count = SIZE / 16;
    return put ? aq_put_strided_nb(job.team, 0, there, &step, memory, &step, 8, &count, 1, 0, ev)
               : aq_get_strided_nb(job.team, 0, memory, &step, there, &step, 8, &count, 1, 0, ev);
}

static int never(void *arg)
{
    (void)arg;
    return 0;
}

/* Transfer until the loss is reported, by a call or by the wait for what is under way. */
static void work(bool put, void *there)
{
    aq_status status = AQ_OK;
    size_t begun = 0;
    for (int round = 0; round < 1000 && status == AQ_OK; round++) {
        for (begun = 0; begun < OPS && status == AQ_OK; begun++) {
            events[begun] = AQ_EVENT_DONE;
            status = start(put, there, &events[begun]);
        }
        aq_status waited = aq_event_wait_all(events, begun, AQ_FOREVER);
        CHECK(waited == AQ_OK || waited == AQ_EPEER);
        if (status == AQ_OK) status = waited;
    }
    CHECK_STATUS(status, AQ_EPEER);
    for (size_t i = 0; i < begun; i++)
        CHECK(events[i] == AQ_EVENT_DONE);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("AQ_RANK");
    bool put = argc > 1 && strcmp(argv[1], "put") == 0;
    if (rank != NULL && strcmp(rank, "1") == 0)
        setenv("AQ_FAULT", "hide=map+put+get+reserve,die=0@400", 1);
    job_open(AQ_THREAD_SINGLE, SIZE);
    if (job.self == 0) CHECK_OK(aq_poll_until(never, NULL, AQ_FOREVER)); /* until the job ends */
    void *there = job_at(0, 0);
    work(put, there);
    aq_event event = AQ_EVENT_DONE;
    while (start(put, there, &event) == AQ_OK)
        /* It was started before the loss was reported. */
        CHECK_STATUS(aq_event_wait(&event, AQ_FOREVER), AQ_EPEER);
    CHECK_REFUSED(aq_put_strided(job.team, 0, there, (ptrdiff_t[]){16}, memory, (ptrdiff_t[]){16},
                                 8, (size_t[]){9}, 1, 0),
                  AQ_EPEER);
    aq_am_buffer buffer;
    CHECK_OK(aq_am_reserve(job.team, 0, AQ_AM_MEDIUM, NULL, 8, 8, 0, 0, &buffer));
    CHECK_STATUS(aq_am_commit(&buffer, AQ_HANDLER_BASE, 8, NULL, NULL, 0, 0), AQ_EPEER);
    CHECK(strstr(aq_error_message(), "aq_am_commit") != NULL);
    aq_exit(0);
}
