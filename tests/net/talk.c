/*
 * Sends bulk data and messages around the ring until the standard input of rank 0 ends. A line
 * there is answered at the end of the first whole round that began after it, which shows its writer
 * that the job continues. Everything that arrives is checked and counted exactly.
 */
#include "../core/support.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { MESSAGE = 100, MESSAGES = 24, LARGEST = 9000, BULK = 200000 };

static _Atomic uint32_t got;
static unsigned char out[BULK], in[BULK];

static uint64_t seed_of(aq_rank rank, uint32_t round)
{
    return mix(job.seed + ((uint64_t)round << 32) + rank);
}

static void on_message(aq_am *am)
{
    uint64_t round_seed = seed_of(am->source, (uint32_t)am->args[0]);
    CHECK(am->source == job_previous());
    CHECK(filled(am->payload, am->nbytes, round_seed + (uint32_t)am->args[1]));
    got++;
}

static void say(uint32_t round)
{
    unsigned char payload[LARGEST];
    size_t most = aq_am_max_medium(job.team), largest = most < LARGEST ? most : LARGEST;
    for (aq_arg i = 0; i < MESSAGES; i++) {
        aq_arg args[] = {(aq_arg)round, i};
        size_t len = job_random() % (i % 8 == 0 ? largest : 200);
        fill(payload, len, seed_of(job.self, round) + (uint32_t)i);
        CHECK_OK(aq_am_medium(job.team, job_next(), MESSAGE, payload, len, args, COUNT_OF(args), 0,
                              NULL));
    }
}

static void talk(uint32_t round)
{
    aq_event event;
    uint64_t seed = seed_of(job.self, round);
    fill(out, BULK, seed);
    CHECK_OK(aq_put_nb(job.team, job_next(), job_at(job_next(), 0), out, BULK, 0, &event));
    say(round);
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK_OK(aq_get(job.team, job_next(), in, job_at(job_next(), 0), BULK, 0));
    CHECK(filled(in, BULK, seed));
    job_barrier();
    CHECK(filled(job.base, BULK, seed_of(job_previous(), round)));
    job_await(&got, MESSAGES * (round + 1));
    CHECK_EQUAL(got, MESSAGES * (round + 1)); /* duplicates show here, or in the next round */
}

/* 1: a line was written, 0: the input has ended, -1: neither. */
static int asked(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char line;
    if (job.self != 0 || poll(&input, 1, 0) <= 0) return -1;
    return read(STDIN_FILENO, &line, 1) == 1;
}

int main(void)
{
    aq_handler_entry table[] = {
        {MESSAGE, 2, AQ_AM_REQUEST | AQ_AM_MEDIUM, on_message, NULL, "message"}};
    uint64_t over = 0;
    job_open(AQ_THREAD_SINGLE, BULK);
    job_handlers(table, COUNT_OF(table));
    for (uint32_t round = 0; over == 0; round++) {
        int line = asked();
        uint64_t mine = line == 0;
        talk(round);
        if (line == 1) printf("round %u\n", round);
        fflush(stdout);
        CHECK_OK(aq_coll_allreduce(job.team, &over, &mine, 1, AQ_TYPE_U64, AQ_OP_MAX, 0));
    }
    job_close();
    return 0;
}
