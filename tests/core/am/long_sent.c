/*
 * A Long that is sent as a message, with and without an event: the call returns although the peer
 * is stopped and acknowledges nothing, and the source may be overwritten at once. Over udp.
 */
#include "../support.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { LANDED = 100, LARGEST = 65536 };

static const size_t sizes[] = {1, 300, 1400, 4096, 8192, 16384, LARGEST};

static _Atomic uint32_t landed;

static size_t place_of(uint32_t number)
{
    return (size_t)number * LARGEST;
}

static void on_landed(aq_am *am)
{
    uint32_t number = (uint32_t)am->args[0];
    CHECK_EQUAL(am->nbytes, sizes[number / 2]);
    CHECK(am->payload == job.base + place_of(number));
    CHECK(filled(am->payload, am->nbytes, number));
    landed++;
}

static void send_all(void)
{
    static unsigned char source[LARGEST];
    for (uint32_t i = 0; i < 2 * COUNT_OF(sizes); i++) {
        aq_event event = AQ_EVENT_DONE;
        fill(source, sizes[i / 2], i);
        CHECK_OK(aq_am_long(job.team, 1, LANDED, source, sizes[i / 2], job_at(1, place_of(i)),
                            AQ_ARGS((aq_arg)i), 0, i % 2 ? &event : NULL));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        memset(source, 0xee, sizeof(source));
    }
}

int main(void)
{
    aq_handler_entry table[] = {{LANDED, 1, AQ_AM_LONG | AQ_AM_REQUEST, on_landed, NULL, "landed"}};
    pid_t pids[2], own = getpid();
    job_open(AQ_THREAD_SINGLE, place_of(2 * COUNT_OF(sizes)));
    job_handlers(table, COUNT_OF(table));
    CHECK_EQUAL(job.size, 2);
    CHECK_OK(aq_coll_allgather(job.team, pids, &own, sizeof(own), 0));
    job_barrier();
    if (job.self == 0) {
        CHECK(kill(pids[1], SIGSTOP) == 0);
        send_all();
        CHECK(kill(pids[1], SIGCONT) == 0);
    } else {
        job_await(&landed, 2 * COUNT_OF(sizes));
    }
    job_barrier();
    job_close();
    return 0;
}
