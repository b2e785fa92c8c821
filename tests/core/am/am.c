/* Active messages of all categories to every rank: arguments, payloads, replies, local events. */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { PLAIN = 100, LONG, ECHO, ANSWER, FEW, PRIVATE };

static _Atomic uint32_t received, answered;
static _Atomic uint64_t received_sum;
static int context_marks[2];

/*
 * The number of a message is a function of its shape, so that messages can be checked in any order.
 */
static uint64_t shape(aq_rank source, size_t nbytes, unsigned nargs)
{
    return ((uint64_t)source << 40) + (uint64_t)nbytes * 32 + nargs;
}

static void check_header(const aq_am *am, unsigned category, int is_reply)
{
    CHECK(am->source < job.size);
    CHECK_EQUAL(am->category, category);
    CHECK_EQUAL(am->is_reply, is_reply);
    CHECK(am->nargs <= AQ_AM_MAX_ARGS);
}

static void on_plain(aq_am *am)
{
    uint64_t number = shape(am->source, am->nbytes, am->nargs);
    check_header(am, am->category, 0);
    CHECK(am->handler == PLAIN && am->context == &context_marks[0]);
    CHECK(filled_args(am->args, am->nargs, number));
    if (am->category == AQ_AM_SHORT) {
        CHECK_EQUAL(am->nbytes, 0);
    } else {
        CHECK_EQUAL(am->category, AQ_AM_MEDIUM);
        CHECK_EQUAL((uintptr_t)am->payload % 16, 0);
        CHECK(filled(am->payload, am->nbytes, number));
        memset(am->payload, 0xee, am->nbytes); /* the handler may write to it */
    }
    received_sum += mix(number);
    received++;
}

/* --- Short and Medium -------------------------------------------------------------------- */

static void test_short(void)
{
    received = 0;
    received_sum = 0;
    job_barrier();
    for (aq_rank rank = 0; rank < job.size; rank++) {
        for (unsigned nargs = 0; nargs <= AQ_AM_MAX_ARGS; nargs++) {
            aq_arg args[AQ_AM_MAX_ARGS];
            fill_args(args, nargs, shape(job.self, 0, nargs));
            CHECK_OK(aq_am_short(job.team, rank, PLAIN, nargs ? args : NULL, nargs, 0));
            memset(args, 0x55, sizeof(args));
        }
    }
    job_await(&received, job.size * (AQ_AM_MAX_ARGS + 1));
    job_barrier();
    CHECK_EQUAL(received, job.size * (AQ_AM_MAX_ARGS + 1));
    uint64_t sum = 0;
    for (aq_rank rank = 0; rank < job.size; rank++)
        for (unsigned nargs = 0; nargs <= AQ_AM_MAX_ARGS; nargs++)
            sum += mix(shape(rank, 0, nargs));
    CHECK(received_sum == sum);
}

static void on_few(aq_am *am)
{
    CHECK(am->nargs == 3 && am->args[0] == 1 && am->args[1] == -2 && am->args[2] == INT32_MIN);
    CHECK(am->context == NULL);
    received++;
}

/* The macro for arguments, and a handler that takes exactly that many. */
static void test_args_macro(void)
{
    received = 0;
    job_barrier();
    CHECK_OK(aq_am_short(job.team, job_next(), FEW, AQ_ARGS(1, -2, INT32_MIN), 0));
    job_await(&received, 1);
    job_barrier();
}

static size_t sizes_to_try(size_t max, size_t *sizes)
{
    static const size_t small[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100};
    size_t count = 0;
    for (size_t i = 0; i < COUNT_OF(small); i++)
        sizes[count++] = small[i];
    for (size_t power = 128; power < max; power *= 4)
        for (size_t size = power - 1; size <= power + 1; size++)
            sizes[count++] = size;
    sizes[count++] = max - 1;
    sizes[count++] = max;
    return count;
}

static void test_medium(void)
{
    size_t sizes[64], max = aq_am_max_medium(job.team);
    CHECK(max >= 512 && max % 64 == 0);
    size_t count = sizes_to_try(max, sizes);
    unsigned char *buffer = malloc(max + 1);
    CHECK(buffer != NULL);
    received = 0;
    received_sum = 0;
    job_barrier();
    uint32_t each = 0;
    for (size_t i = 0; i < count; i++) {
        for (unsigned nargs = (unsigned)i % 3; nargs <= AQ_AM_MAX_ARGS; nargs += 5, each++) {
            for (aq_rank rank = 0; rank < job.size; rank++) {
                aq_arg args[AQ_AM_MAX_ARGS];
                uint64_t number = shape(job.self, sizes[i], nargs);
                fill_args(args, nargs, number);
                fill(buffer + 1, sizes[i], number);
                CHECK_OK(aq_am_medium(job.team, rank, PLAIN, buffer + 1, sizes[i], args, nargs, 0,
                                      NULL));
                memset(buffer, 0, sizes[i] + 1); /* the source may be reused on return */
            }
        }
    }
    job_await(&received, job.size * each);
    job_barrier();
    CHECK_EQUAL(received, job.size * each);
    free(buffer);
}

/* Several Mediums, each with an event for its source, which is overwritten only after the event. */
static void test_medium_event(void)
{
    enum { COUNT = 40 };
    size_t max = aq_am_max_medium(job.team);
    unsigned char *buffer = malloc(max * COUNT);
    aq_event event[COUNT];
    CHECK(buffer != NULL);
    received = 0;
    job_barrier();
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t number = shape(job.self, max, 0);
        fill(buffer + max * i, max, number);
        CHECK_OK(aq_am_medium(job.team, (job.self + i) % job.size, PLAIN, buffer + max * i, max,
                              AQ_NO_ARGS, 0, &event[i]));
        if (i % 2 == 0) {
            CHECK_OK(aq_event_wait(&event[i], AQ_FOREVER));
            CHECK(event[i] == AQ_EVENT_DONE);
            memset(buffer + max * i, 0, max);
        }
    }
    CHECK_OK(aq_event_wait_all(event, COUNT, AQ_FOREVER));
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK(event[i] == AQ_EVENT_DONE);
    memset(buffer, 0, max * COUNT);
    uint32_t expected = 0;
    for (aq_rank rank = 0; rank < job.size; rank++)
        for (uint32_t i = 0; i < COUNT; i++)
            expected += (rank + i) % job.size == job.self;
    job_await(&received, expected);
    job_barrier();
    CHECK_EQUAL(received, expected);
    free(buffer);
}

/* --- Long -------------------------------------------------------------------------------- */

#define LONG_SLICE ((size_t)1 << 17)

static void on_long(aq_am *am)
{
    check_header(am, AQ_AM_LONG, 0);
    size_t offset = (size_t)am->args[1];
    CHECK(am->payload == job.base + offset);
    CHECK(filled(am->payload, am->nbytes, shape(am->source, am->nbytes, (unsigned)am->args[0])));
    CHECK(am->nbytes == 0 || offset / LONG_SLICE == am->source);
    received++;
}

/* Every rank owns a slice of every rank's segment; each Long has its own place in it. */
static void test_long(void)
{
    static const size_t sizes[] = {1, 8, 15, 64, 100, 511, 4032, 4096, 4097, 20000, 65537};
    unsigned char *buffer = malloc(LONG_SLICE);
    CHECK(buffer != NULL);
    CHECK(aq_am_max_long(job.team) >= 65537);
    received = 0;
    job_barrier();
    for (aq_rank rank = 0; rank < job.size; rank++) {
        size_t place = 0;
        for (size_t i = 0; i < COUNT_OF(sizes); place += sizes[i++]) {
            size_t offset = job.self * LONG_SLICE + place;
            aq_event event = AQ_EVENT_DONE;
            bool async = (i + rank) % 2 == 0;
            fill(buffer, sizes[i], shape(job.self, sizes[i], 7));
            CHECK_OK(aq_am_long(job.team, rank, LONG, buffer, sizes[i], job_at(rank, offset),
                                AQ_ARGS(7, (aq_arg)offset), 0, async ? &event : NULL));
            if (async) CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
            memset(buffer, 0, sizes[i]);
        }
    }
    job_await(&received, job.size * (uint32_t)COUNT_OF(sizes));
    job_barrier();
    CHECK_EQUAL(received, job.size * COUNT_OF(sizes));
    free(buffer);
}

static void on_empty_long(aq_am *am)
{
    CHECK(am->category == AQ_AM_LONG && am->nbytes == 0 && am->context == &context_marks[1]);
    received++;
}

/* Nothing is written, so the address may be anything. */
static void test_long_empty(void)
{
    received = 0;
    job_barrier();
    CHECK_OK(aq_am_long(job.team, job_next(), PRIVATE, NULL, 0, NULL, AQ_NO_ARGS, 0, NULL));
    CHECK_OK(aq_am_long(job.team, job_next(), PRIVATE, &received, 0, (void *)(uintptr_t)12345,
                        AQ_NO_ARGS, 0, NULL));
    job_await(&received, 2);
    job_barrier();
}

/* --- replies ----------------------------------------------------------------------------- */

/* Reply in the category named by argument 0, with the payload of the request. */
static void on_echo(aq_am *am)
{
    aq_arg *args = (aq_arg[AQ_AM_MAX_ARGS]){0};
    memcpy(args, am->args, am->nargs * sizeof(*args));
    switch ((unsigned)am->args[0]) {
    case AQ_AM_SHORT:
        CHECK_OK(aq_am_reply_short(am, ANSWER, args, am->nargs, 0));
        break;
    case AQ_AM_MEDIUM:
        CHECK_OK(aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, args, am->nargs, 0));
        break;
    default:
        CHECK_OK(aq_am_reply_long(am, ANSWER, am->payload, am->nbytes,
                                  job_at(am->source, (size_t)am->args[2]), args, am->nargs, 0));
    }
    received++;
}

static void on_answer(aq_am *am)
{
    check_header(am, (unsigned)am->args[0], 1);
    uint64_t number = (uint64_t)am->args[1];
    CHECK(filled_args(am->args + 3, am->nargs - 3u, number));
    if (am->category == AQ_AM_SHORT) CHECK_EQUAL(am->nbytes, 0);
    if (am->category == AQ_AM_LONG) CHECK(am->payload == job.base + am->args[2]);
    CHECK(filled(am->payload, am->nbytes, number));
    CHECK_EQUAL(am->source, (aq_rank)number % job.size);
    answered++;
}

/* All kinds of requests with all kinds of replies, with many under way. */
static void test_replies(void)
{
    enum { COUNT = 180, ROOM = 1024 };
    unsigned char buffer[ROOM];
    uint32_t expected = 0;
    answered = received = 0;
    CHECK(LONG_SLICE * job.size <= job.len);
    job_barrier();
    for (uint32_t number = 0; number < COUNT; number++) {
        aq_rank rank = number % job.size;
        unsigned category = AQ_AM_SHORT << number / job.size % 3;
        unsigned answer = AQ_AM_SHORT << job_random() % 3;
        unsigned nargs = 3 + (unsigned)(job_random() % 14);
        size_t nbytes = category == AQ_AM_SHORT ? 0 : job_random() % 513;
        /* Requests go to the first half of this rank's slice at the target, replies to the second
         * half of its slice here. */
        size_t place = number * 600 % (LONG_SLICE / 2 - ROOM);
        aq_arg args[AQ_AM_MAX_ARGS] = {
            (aq_arg)answer, (aq_arg)number,
            (aq_arg)(job.self * LONG_SLICE + LONG_SLICE / 2 + number % 100 * 600)};
        fill_args(args + 3, nargs - 3, number);
        fill(buffer, nbytes, number);
        if (category == AQ_AM_SHORT)
            CHECK_OK(aq_am_short(job.team, rank, ECHO, args, nargs, 0));
        else if (category == AQ_AM_MEDIUM)
            CHECK_OK(aq_am_medium(job.team, rank, ECHO, buffer, nbytes, args, nargs, 0, NULL));
        else
            CHECK_OK(aq_am_long(job.team, rank, ECHO, buffer, nbytes,
                                job_at(rank, job.self * LONG_SLICE + place), args, nargs, 0, NULL));
        expected++;
        /* Places are reused, so wait now and then until they are free. */
        if (number % 50 == 49) job_await(&answered, expected);
    }
    job_await(&answered, expected);
    job_barrier();
    CHECK_EQUAL(answered, COUNT);
}

/* Packets are counted as they leave, so that the counters are correct whenever a process ends. */
static void test_packets(void)
{
    const char *route;
    CHECK_OK(aq_info_route(job.team, job_next(), &route));
    uint64_t before = job_counter("packets");
    received = 0;
    job_barrier();
    for (uint32_t round = 1; round <= 4; round++) {
        uint64_t left = job_counter("packets");
        CHECK_OK(aq_am_short(job.team, job_next(), FEW, AQ_ARGS(1, -2, INT32_MIN), 0));
        job_await(&received, round);
        job_barrier(); /* no rank leaves the barrier before all have sent */
        CHECK(job_counter("packets") > left || strcmp(route, "udp") != 0);
    }
    /* Between hosts, the barriers also take packets. */
    bool any = false;
    for (aq_rank rank = 0; rank < job.size; rank++) {
        CHECK_OK(aq_info_route(job.team, rank, &route));
        any = any || strcmp(route, "udp") == 0;
    }
    CHECK((job_counter("packets") > before) == any);
}

/* The limit of the transport that leads to `rank`. */
static size_t limit_towards(aq_rank rank)
{
    const char *route;
    aq_transport_info info;
    size_t i = 0;
    CHECK_OK(aq_info_route(job.team, rank, &route));
    do
        CHECK_OK(aq_info_transport(i++, &info));
    while (strcmp(info.name, route) != 0);
    return info.max_medium;
}

static void test_limit(void)
{
    size_t least = job.size > 16 ? 8192 : 65536;
    for (aq_rank rank = 0; rank < job.size; rank++) {
        size_t limit = limit_towards(rank);
        if (limit < least) least = limit;
    }
    CHECK_EQUAL(aq_am_max_medium(job.team), least);
}

int main(void)
{
    aq_handler_entry table[] = {
        {PLAIN, AQ_AM_ANY_ARGS, AQ_AM_SHORT | AQ_AM_MEDIUM | AQ_AM_REQUEST, on_plain,
         &context_marks[0], "plain"},
        {LONG, 2, AQ_AM_LONG | AQ_AM_REQUEST, on_long, NULL, "long"},
        {ECHO, AQ_AM_ANY_ARGS, AQ_AM_REQUEST | AQ_AM_SHORT | AQ_AM_MEDIUM | AQ_AM_LONG, on_echo,
         NULL, NULL},
        {ANSWER, AQ_AM_ANY_ARGS, 0, on_answer, NULL, "answer"},
        {FEW, 3, AQ_AM_SHORT | AQ_AM_REQUEST, on_few, NULL, "few"},
        {PRIVATE, 0, 0, on_empty_long, &context_marks[1], "empty long"},
    };
    job.segment_modes = ALL_SEGMENT_MODES;
    job_open(AQ_THREAD_SINGLE, 0);
    if (getenv("AQ_AM_MAX_MEDIUM") == NULL) test_limit();
    job_attach(LONG_SLICE * job.size);
    job.len = LONG_SLICE * job.size;
    job_handlers(table, COUNT_OF(table));
    test_short();
    test_args_macro();
    test_medium();
    test_medium_event();
    test_long();
    test_long_empty();
    test_replies();
    test_packets();
    job_close();
    return 0;
}
