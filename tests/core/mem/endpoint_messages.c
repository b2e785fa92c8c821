/*
 * Messages between all endpoints of all ranks: each endpoint has its own table of handlers;
 * requests and replies are of every kind. Also the data passed to handlers, and the calls that are
 * refused.
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

/* Index 0 is the first endpoint. FULL has a segment, BARE only messages, DEAF only memory. */
enum { FULL = 1, BARE = 2, TALKERS = 3, DEAF = 3, EPS = 4 };
enum { ASK = 90, ANSWER, OWN, SLICE = 40000 };

static aq_ep *eps[EPS];
static unsigned char *memory; /* the segment of FULL: a slice for requests, one for answers */
static _Atomic uint32_t asked, answered;

static aq_team *pair(unsigned from, unsigned to)
{
    aq_team *team = aq_team_pair(eps[from], to);
    CHECK(team != NULL && aq_team_ep(team) == eps[from]);
    return team;
}

/* A slice of the segment of endpoint `index` of `rank`, or NULL if it has none. */
static void *place(unsigned index, aq_rank rank, size_t slice)
{
    aq_segment_info info;
    CHECK_OK(aq_segment_query(pair(0, index), rank, &info));
    return info.size == 0 ? NULL : (char *)info.addr + slice * SLICE;
}

/* args: the source endpoint, the target endpoint, and the kind of the message. */
static void check_ends(const aq_am *am, int is_reply)
{
    CHECK(am->nargs == 3 && am->is_reply == is_reply);
    CHECK_EQUAL(am->source_ep, am->args[is_reply]);
    CHECK_EQUAL(aq_ep_index(am->ep), am->args[!is_reply]);
    CHECK(am->ep == eps[am->args[!is_reply]]);
    CHECK(am->context == eps + aq_ep_index(am->ep)); /* the handler of this very endpoint */
    CHECK_EQUAL(am->category, am->args[2]);
    if (am->category == AQ_AM_SHORT) CHECK_EQUAL(am->nbytes, 0);
    if (am->nbytes != 0) CHECK(filled(am->payload, am->nbytes, (uint64_t)am->nbytes));
}

/* Answer in the same kind and size, fixed and prepared in turn. */
static void on_ask(aq_am *am)
{
    static unsigned turn;
    aq_arg args[] = {am->args[0], am->args[1], am->args[2]};
    aq_am_buffer buffer;
    check_ends(am, 0);
    void *dst = place(am->source_ep, am->source, 1);
    if (am->category == AQ_AM_LONG && dst == NULL) args[2] = AQ_AM_MEDIUM;
    if (am->nbytes > aq_am_max_medium(job.team) && args[2] == AQ_AM_MEDIUM) args[2] = AQ_AM_SHORT;
    unsigned category = (unsigned)args[2];
    if (category == AQ_AM_SHORT) {
        CHECK_OK(aq_am_reply_short(am, ANSWER, args, 3, 0));
    } else if (turn++ % 2 != 0) {
        CHECK_OK(aq_am_reserve_reply(am, category, NULL, am->nbytes, am->nbytes, 3, 0, &buffer));
        if (am->nbytes != 0) memcpy(buffer.addr, am->payload, am->nbytes);
        CHECK_OK(aq_am_commit(&buffer, ANSWER, am->nbytes, dst, args, 3, 0));
    } else if (category == AQ_AM_MEDIUM) {
        CHECK_OK(aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, args, 3, 0));
    } else {
        CHECK_OK(aq_am_reply_long(am, ANSWER, am->payload, am->nbytes, dst, args, 3, 0));
    }
    asked++;
}

static void on_answer(aq_am *am)
{
    check_ends(am, 1);
    answered++;
}

static void on_nothing(aq_am *am)
{
    (void)am;
}

/* --- registering ------------------------------------------------------------------------- */

static void make_endpoints(void)
{
    static const unsigned capabilities[EPS] = {
        [FULL] = AQ_EP_ALL, [BARE] = AQ_EP_AM, [DEAF] = AQ_EP_RMA | AQ_EP_ATOMIC};
    aq_segment *segment;
    eps[0] = job.ep;
    for (unsigned i = 1; i < EPS; i++) {
        CHECK_OK(aq_ep_create(capabilities[i], &eps[i]));
        CHECK_EQUAL(aq_ep_capabilities(eps[i]), capabilities[i]);
    }
    memory = malloc(2 * SLICE);
    CHECK(memory != NULL);
    CHECK_OK(aq_segment_create(memory, 2 * SLICE, 0, &segment));
    CHECK_OK(aq_ep_bind(eps[FULL], segment));
    CHECK_OK(aq_ep_publish(job.team, &eps[FULL], 1, 0));
}

static void test_tables(void)
{
    for (unsigned i = 0; i < EPS; i++) {
        aq_handler_entry table[] = {{ASK, 3, AQ_AM_REQUEST, on_ask, eps + i, "ask"},
                                    {ANSWER, 3, AQ_AM_REPLY, on_answer, eps + i, "answer"},
                                    {AQ_HANDLER_AUTO, 0, 0, on_nothing, NULL, "any"}};
        aq_handler_entry again = {ASK, 0, 0, on_nothing, NULL, NULL};
        if (i == DEAF) {
            CHECK_REFUSED(aq_am_register(eps[i], table, COUNT_OF(table)), AQ_ENOTSUP);
            continue;
        }
        CHECK_OK(aq_am_register(eps[i], table, COUNT_OF(table)));
        CHECK_EQUAL(table[2].index, 255); /* each table has free indices of its own */
        CHECK_REFUSED(aq_am_register(eps[i], &again, 1), AQ_EHANDLER);
    }
    aq_handler_entry row = {OWN, 0, 0, on_nothing, NULL, NULL};
    CHECK_REFUSED(aq_am_register(NULL, &row, 1), AQ_EINVAL);
    CHECK_REFUSED(aq_am_register((aq_ep *)(void *)memory, &row, 1), AQ_EINVAL);
    job_barrier();
}

static void test_refused(void)
{
    aq_am_buffer buffer = {0};
    aq_event event = AQ_EVENT_DONE;
    char byte = 1;
    for (unsigned to = 0; to < EPS; to++) {
        aq_team *team = pair(DEAF, to);
        CHECK_REFUSED(aq_am_short(team, job_next(), ASK, AQ_ARGS(0, 0, 0), 0), AQ_ENOTSUP);
        CHECK_REFUSED(aq_am_medium(team, job_next(), ASK, &byte, 1, AQ_ARGS(0, 0, 0), 0, &event),
                      AQ_ENOTSUP);
        CHECK_REFUSED(aq_am_long(team, job_next(), ASK, &byte, 0, NULL, AQ_ARGS(0, 0, 0), 0, NULL),
                      AQ_ENOTSUP);
        CHECK_REFUSED(aq_am_reserve(team, job_next(), AQ_AM_MEDIUM, NULL, 1, 1, 0, 0, &buffer),
                      AQ_ENOTSUP);
    }
    CHECK(event == AQ_EVENT_DONE && buffer.addr == NULL);
    /* The endpoint has no segment to which a Long could be written. */
    CHECK_REFUSED(aq_am_long(pair(0, BARE), job_next(), ASK, &byte, 1, memory,
                             AQ_ARGS(0, BARE, AQ_AM_LONG), 0, NULL),
                  AQ_ERANGE);
    CHECK_REFUSED(aq_am_short(pair(FULL, BARE), job.size, ASK, AQ_NO_ARGS, 0), AQ_ERANK);
    CHECK_REFUSED(aq_am_short(pair(FULL, BARE), 0, 3, AQ_NO_ARGS, 0), AQ_EHANDLER);
}

/* --- sending ----------------------------------------------------------------------------- */

/* Send one request by each of the calls that can send it; returns when all have been answered. */
static void ask(unsigned from, unsigned to, aq_rank rank, unsigned category, size_t nbytes,
                bool prepared)
{
    static unsigned char out[SLICE];
    aq_team *team = pair(from, to);
    const aq_arg args[] = {(aq_arg)from, (aq_arg)to, (aq_arg)category};
    uint32_t before = answered;
    void *dst = category == AQ_AM_LONG ? place(to, rank, 0) : NULL;
    aq_am_buffer buffer;
    fill(out, nbytes, (uint64_t)nbytes);
    if (prepared) {
        CHECK_OK(aq_am_reserve(team, rank, category, NULL, nbytes, nbytes, 3, 0, &buffer));
        memcpy(buffer.addr, out, nbytes);
        CHECK_OK(aq_am_commit(&buffer, ASK, nbytes, dst, args, 3, 0));
    } else if (category == AQ_AM_SHORT) {
        CHECK_OK(aq_am_short(team, rank, ASK, args, 3, 0));
    } else if (category == AQ_AM_MEDIUM) {
        CHECK_OK(aq_am_medium(team, rank, ASK, out, nbytes, args, 3, 0, NULL));
    } else {
        CHECK_OK(aq_am_long(team, rank, ASK, out, nbytes, dst, args, 3, 0, NULL));
    }
    job_await(&answered, before + 1);
}

/* The ranks take turns, because all senders use the same places for Longs. */
static void test_messages(void)
{
    for (aq_rank turn = 0; turn < job.size; turn++) {
        for (unsigned i = 0; turn == job.self && i < TALKERS * TALKERS * job.size; i++) {
            unsigned from = i % TALKERS, to = i / TALKERS % TALKERS;
            aq_rank rank = i / (TALKERS * TALKERS);
            ask(from, to, rank, AQ_AM_SHORT, 0, false);
            for (int prepared = 0; prepared < 2; prepared++) {
                ask(from, to, rank, AQ_AM_MEDIUM, 0, prepared);
                ask(from, to, rank, AQ_AM_MEDIUM, 500, prepared);
                ask(from, to, rank, AQ_AM_LONG, 0, prepared);
                if (to == BARE) continue;
                ask(from, to, rank, AQ_AM_LONG, 300, prepared);
                ask(from, to, rank, AQ_AM_LONG, SLICE, prepared);
            }
        }
        job_barrier();
    }
    uint32_t each = TALKERS * (2 * 11 + 7); /* to an endpoint with a segment, and to BARE */
    CHECK_EQUAL(answered, each * job.size);
    CHECK_EQUAL(asked, each * job.size);
    job_barrier(); /* before any rank asks again */
}

/* From every endpoint at once, more requests than there is room for. */
static void test_flood(void)
{
    enum { EACH = 400 };
    uint32_t before = answered;
    for (unsigned i = 0; i < EACH; i++)
        for (unsigned from = 0; from < TALKERS; from++) {
            const aq_arg args[] = {(aq_arg)from, (aq_arg)((from + i) % TALKERS), AQ_AM_SHORT};
            CHECK_OK(aq_am_short(pair(from, (from + i) % TALKERS), job_next(), ASK, args, 3, 0));
        }
    job_await(&answered, before + EACH * TALKERS);
    job_barrier();
}

int main(void)
{
    job_open(AQ_THREAD_SINGLE, 2 * SLICE);
    make_endpoints();
    test_tables();
    test_refused();
    test_messages();
    test_flood();
    job_close();
    free(memory);
    return 0;
}
