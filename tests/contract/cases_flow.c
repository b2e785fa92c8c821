/* Flow control: floods until there is no room, replies that never wait behind requests, quiet,
 * sleeping. */
#include "harness.h"

#include "base/clock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { REQUEST = 100, ANSWER = 101, HOLD = 102 };

/* A transport that has taken this many messages is assumed never to return AQ_AGAIN. */
#define FLOW_LIMIT (1u << 20)

struct flow_state {
    uint8_t *seen; /* per number: how many times it has arrived */
    uint32_t room; /* of `seen` */
    _Atomic uint32_t received;
    _Atomic uint32_t answers;
    uint32_t requests_inside; /* delivered while a handler was in progress(REPLIES) */
    atomic_bool holding;
    atomic_bool held;
};

static void flow_state_init(struct ct_ep *ep, struct flow_state *state, uint32_t room)
{
    memset(state, 0, sizeof(*state));
    state->room = room;
    CT_CHECK((state->seen = calloc(room, 1)) != NULL);
    ep->user = state;
}

static void flow_mark(struct flow_state *state, uint32_t number)
{
    CT_CHECK(number < state->room);
    CT_EQUAL(state->seen[number], 0);
    state->seen[number] = 1;
    state->received++;
}

static void flow_on_request(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    (void)source;
    CT_CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    flow_mark(ep->user, (uint32_t)am->args[0]);
}

/* Requests of one sender, numbered from 0. */
static void flow_on_flood(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    const struct flow_state *state = ep->user;
    if ((ep->tp->ops.caps & AQI_CAP_ORDER) != 0)
        CT_EQUAL((uint32_t)am->args[0], atomic_load(&state->received));
    flow_on_request(ep, source, am);
}

static aq_status flow_try(struct ct_ep *ep, uint32_t to, uint32_t number, uint32_t nbytes,
                          void *buffer)
{
    fill(buffer, nbytes, number);
    struct aqi_am am = {.kind = nbytes == 0 ? AQI_AM_SHORT : AQI_AM_MEDIUM,
                        .handler = REQUEST,
                        .nargs = 1,
                        .nbytes = nbytes,
                        .args = (int32_t[]){(int32_t)number},
                        .payload = buffer};
    return ct_try_send(ep, to, &am, NULL);
}

/* Send without progress until there is no room. Returns the number of messages sent. */
static uint32_t flow_fill_up(struct ct_ep *ep, uint32_t to, uint32_t nbytes, void *buffer)
{
    uint32_t sent = 0;
    aq_status status;
    while ((status = flow_try(ep, to, sent, nbytes, buffer)) == AQ_OK) {
        sent++;
        CT_CHECK(sent < FLOW_LIMIT);
    }
    CT_EQUAL(status, AQ_AGAIN);
    return sent;
}

static void flow_flood(struct ct_ep *ep, uint32_t nbytes)
{
    struct flow_state state;
    flow_state_init(ep, &state, FLOW_LIMIT + 4096);
    ep->handlers[REQUEST] = flow_on_flood;
    ct_meet(ep);
    unsigned char *buffer = malloc(nbytes + 1);
    CT_CHECK(buffer != NULL);
    uint32_t to = ct_next(ep);
    uint32_t sent = flow_fill_up(ep, to, nbytes, buffer);
    ct_meet(ep);
    for (uint32_t more = 0; more < (CT_SANITIZED ? 500 : 3000); more++, sent++) {
        aq_status status;
        while ((status = flow_try(ep, to, sent, nbytes, buffer)) == AQ_AGAIN)
            ct_poll(ep);
        CT_EQUAL(status, AQ_OK);
    }
    /* Pass the number to the receiver without using the transport. */
    atomic_store(&ep->world->flag[to], sent + 1);
    while (atomic_load(&ep->world->flag[ep->self]) == 0)
        ct_poll(ep);
    uint32_t expected = atomic_load(&ep->world->flag[ep->self]) - 1;
    while (atomic_load(&state.received) < expected)
        ct_poll(ep);
    ct_barrier(ep);
    for (int i = 0; i < 100; i++)
        ct_progress(ep, AQI_PROGRESS_ALL);
    CT_EQUAL(state.received, expected);
    for (uint32_t number = 0; number < expected; number++)
        CT_EQUAL(state.seen[number], 1);
    free(buffer);
    free(state.seen);
}

static void flow_flood_short(struct ct_ep *ep)
{
    flow_flood(ep, 0);
}

static void flow_flood_small(struct ct_ep *ep)
{
    flow_flood(ep, 40);
}

static void flow_flood_large(struct ct_ep *ep)
{
    flow_flood(ep, (uint32_t)ct_max_medium(ep));
}

/* --- Longs ------------------------------------------------------------------------------- */

static void flow_on_long(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    (void)source;
    CT_EQUAL(am->kind, AQI_AM_LONG);
    CT_CHECK(filled(am->payload, am->nbytes, am->nbytes));
    flow_mark(ep->user, (uint32_t)am->args[0]);
}

/* Queued sends are bounded too: copies of payloads must not pile up. */
static void flow_flood_long(struct ct_ep *ep)
{
    enum { SIZE = 50000, LIMIT = 20000 };
    struct flow_state state;
    flow_state_init(ep, &state, LIMIT + 4096);
    ep->handlers[REQUEST] = flow_on_long;
    ct_mem_open(ep, SIZE);
    unsigned char *buffer = malloc(SIZE);
    CT_CHECK(buffer != NULL);
    fill(buffer, SIZE, SIZE);
    uint32_t to = ct_next(ep), sent = 0;
    struct aqi_am am = {.kind = AQI_AM_LONG,
                        .handler = REQUEST,
                        .nargs = 1,
                        .nbytes = SIZE,
                        .addr = ep->world->addr[to],
                        .payload = buffer};
    aq_status status;
    do {
        am.args = (int32_t[]){(int32_t)sent};
        status = ct_try_send(ep, to, &am, NULL);
        sent += status == AQ_OK;
        CT_CHECK(sent < LIMIT);
    } while (status == AQ_OK);
    CT_EQUAL(status, AQ_AGAIN);
    memset(buffer, 0, SIZE);
    ct_meet(ep);
    fill(buffer, SIZE, SIZE);
    for (uint32_t more = 0; more < 100; more++, sent++) {
        am.args = (int32_t[]){(int32_t)sent};
        ct_send(ep, to, &am, NULL);
    }
    atomic_store(&ep->world->flag[to], sent);
    while (atomic_load(&ep->world->flag[ep->self]) == 0 ||
           atomic_load(&state.received) < atomic_load(&ep->world->flag[ep->self]))
        ct_poll(ep);
    ct_mem_close(ep);
    free(buffer);
    free(state.seen);
}

/* --- connections that break -------------------------------------------------------------- */

/* Shut down every connection of this process, with the data in flight and in the kernel. */
static void flow_cut(void)
{
    enum { MOST_FDS = 1024 };
    for (int fd = 3; fd < MOST_FDS; fd++) {
        struct sockaddr_storage to;
        socklen_t len = sizeof(to), type_len = sizeof(int);
        int type = 0;
        if (getpeername(fd, (struct sockaddr *)&to, &len) != 0) continue;
        if (to.ss_family != AF_INET && to.ss_family != AF_INET6) continue;
        (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len);
        if (type == SOCK_STREAM) (void)shutdown(fd, SHUT_RDWR);
    }
}

static void flow_connections_break(struct ct_ep *ep)
{
    enum { COUNT = 400, EVERY = 80, SIZE = 40 };
    struct flow_state state;
    unsigned char buffer[SIZE];
    flow_state_init(ep, &state, COUNT);
    ep->handlers[REQUEST] = flow_on_request;
    ct_meet(ep);
    for (uint32_t sent = 0; sent < COUNT; sent++) {
        aq_status status;
        while ((status = flow_try(ep, ct_next(ep), sent, SIZE, buffer)) == AQ_AGAIN)
            ct_poll(ep);
        CT_EQUAL(status, AQ_OK);
        if (sent % EVERY == EVERY / 2 + ep->self) flow_cut();
    }
    while (atomic_load(&state.received) < COUNT)
        ct_poll(ep);
    ct_barrier(ep);
    free(state.seen);
}

/* --- replies against requests ------------------------------------------------------------ */

static void flow_on_answering_request(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct aqi_am answer = *am;
    answer.handler = ANSWER;
    flow_mark(ep->user, (uint32_t)am->args[0]);
    ct_reply(ep, source, &answer);
}

static void flow_on_answer(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct flow_state *state = ep->user;
    (void)source;
    CT_CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    state->answers++;
}

/* The room for requests is full at every rank before any rank polls; replies get through
 * nevertheless. */
static void flow_full_both_ways(struct ct_ep *ep)
{
    struct flow_state state;
    flow_state_init(ep, &state, FLOW_LIMIT);
    ep->handlers[REQUEST] = flow_on_answering_request;
    ep->handlers[ANSWER] = flow_on_answer;
    ct_meet(ep);
    size_t max = ct_max_medium(ep);
    unsigned char *buffer = malloc(max);
    CT_CHECK(buffer != NULL);
    uint32_t to = ct_next(ep);
    for (uint32_t round = 0; round < 4; round++) {
        uint32_t sent = flow_fill_up(ep, to, round % 2 ? (uint32_t)max : 0, buffer);
        ct_meet(ep);
        while (atomic_load(&state.answers) < sent)
            ct_poll(ep);
        CT_EQUAL(state.answers, sent);
        ct_barrier(ep);
        state.answers = 0;
        state.received = 0;
        memset(state.seen, 0, state.room);
        ct_meet(ep);
    }
    free(buffer);
    free(state.seen);
}

/* The handler of the first request waits for an answer, calling only progress(REPLIES). */
static void flow_on_hold(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct flow_state *state = ep->user;
    (void)source;
    (void)am;
    if (state->held) return;
    state->holding = true;
    state->held = true;
    while (atomic_load(&state->answers) == 0)
        if (ct_progress(ep, AQI_PROGRESS_REPLIES) == 0) ct_relax();
    /* Further calls must not deliver requests either, even if some are queued. */
    for (int i = 0; i < 100; i++)
        ct_progress(ep, AQI_PROGRESS_REPLIES);
    state->holding = false;
}

static void flow_on_counted_request(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct flow_state *state = ep->user;
    struct aqi_am answer = *am;
    answer.handler = ANSWER;
    state->requests_inside += state->holding;
    state->received++;
    ct_reply(ep, source, &answer);
}

/*
 * With two ranks, rank 0 waits in the handler of a request of rank 1 while rank 1 answers that of
 * rank 0. With one rank, the answer is queued behind the waiting handler. Requests queued meanwhile
 * stay queued.
 */
static void flow_progress_replies(struct ct_ep *ep)
{
    struct flow_state state;
    flow_state_init(ep, &state, 64);
    ep->handlers[REQUEST] = flow_on_counted_request;
    ep->handlers[ANSWER] = flow_on_answer;
    ep->handlers[HOLD] = flow_on_hold;
    ct_meet(ep);
    uint32_t to = ct_next(ep);
    int32_t number = 0;
    struct aqi_am request = {.kind = AQI_AM_SHORT, .handler = REQUEST, .nargs = 1, .args = &number};
    struct aqi_am hold = request;
    hold.handler = HOLD;
    if (ep->size == 1) {
        ct_send(ep, to, &request, NULL); /* its answer is under way when the waiting begins */
        ct_send(ep, to, &hold, NULL);
        for (number = 1; number < 20; number++)
            ct_send(ep, to, &request, NULL);
    } else {
        _Atomic uint32_t *asked = &ep->world->flag[0];
        if (ep->self == 0) ct_send(ep, to, &request, NULL);
        if (ep->self == 0) atomic_store(asked, 1);
        /* Do not send the hold earlier: the answer that its handler waits for must be under way. */
        while (atomic_load(asked) == 0)
            ct_poll(ep);
        if (ep->self == 1) ct_send(ep, 0, &hold, NULL);
        if (ep->self == ep->size - 1)
            for (number = 1; number < 20; number++)
                ct_send(ep, 0, &request, NULL);
    }
    uint32_t answers = ep->size == 1 ? 20 : 0;
    if (ep->size > 1) answers = (ep->self == 0 ? 1u : 0u) + (ep->self == ep->size - 1 ? 19u : 0u);
    /* The message whose handler waits gets no answer, and may be the last to arrive. */
    while (atomic_load(&state.answers) < answers || (ep->self == 0 && !atomic_load(&state.held)))
        ct_poll(ep);
    ct_barrier(ep);
    CT_EQUAL(state.requests_inside, 0);
    CT_EQUAL(state.answers, answers);
    free(state.seen);
}

/* --- a slow handler ---------------------------------------------------------------------- */

enum { SLOW_INSIDE = 2, SLOW_SENT, SLOW_BYTES = 200, SLOW_SECONDS = 60 };

/* The number of requests that must find room at a receiver that does not poll. */
static uint32_t flow_depth(const struct ct_ep *ep)
{
    if ((ep->tp->ops.caps & AQI_CAP_CREDITS) == 0) return AQI_LEAST_ROOM;
    return ep->tp->limits.depth != 0 ? ep->tp->limits.depth : 32;
}

static void flow_send_number(struct ct_ep *ep, uint32_t to, uint32_t number)
{
    unsigned char none[1];
    while (flow_try(ep, to, number, 0, none) == AQ_AGAIN)
        ct_poll(ep);
}

/* Runs until the other ranks have sent all that they may; its message must still be intact then. */
static void flow_on_slow(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    uint64_t start = 0;
    struct aqi_am answer = *am;
    answer.handler = ANSWER;
    atomic_store(&ep->world->flag[SLOW_INSIDE], 1);
    while (atomic_load(&ep->world->flag[SLOW_SENT]) < ep->size - 1) {
        if (ct_progress(ep, AQI_PROGRESS_REPLIES) == 0) ct_relax();
        CT_CHECK(!ct_overdue(&start, SLOW_SECONDS));
    }
    CT_EQUAL(am->args[0], 1000);
    CT_CHECK(filled(am->payload, am->nbytes, 1000));
    ct_reply(ep, source, &answer);
}

static void flow_slow_handler(struct ct_ep *ep)
{
    struct flow_state state;
    unsigned char buffer[SLOW_BYTES];
    uint32_t depth = flow_depth(ep), refused = 0;
    const char *fault = ep->world->config.fault;
    bool storm = fault != NULL && strstr(fault, "again") != NULL;
    flow_state_init(ep, &state, (depth + 1) * CT_MAX_RANKS);
    ep->handlers[REQUEST] = flow_on_answering_request;
    ep->handlers[ANSWER] = flow_on_answer;
    ep->handlers[HOLD] = flow_on_slow;
    ct_meet(ep);
    /* Connect first, since messages may be refused while a connection is being set up. (The answer
     * returns the credit of the request.) */
    uint32_t before = ep->size - (ep->size > 1 ? 2 : 1);
    if (ep->self > 1) flow_send_number(ep, 0, depth * CT_MAX_RANKS + ep->self);
    while (ep->self == 0 ? atomic_load(&state.received) < before
                         : ep->self > 1 && atomic_load(&state.answers) == 0)
        ct_poll(ep);
    ct_barrier(ep);
    ep->handlers[REQUEST] = flow_on_request;
    ct_barrier(ep);
    atomic_store(&state.answers, 0);
    if (ep->self == 1) {
        fill(buffer, SLOW_BYTES, 1000);
        struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                            .handler = HOLD,
                            .nargs = 1,
                            .nbytes = SLOW_BYTES,
                            .args = (int32_t[]){1000},
                            .payload = buffer};
        ct_send(ep, 0, &am, NULL);
    }
    while (atomic_load(&ep->world->flag[SLOW_INSIDE]) == 0)
        ct_poll(ep);
    uint32_t mine = ep->self == 0 ? 0 : ep->self == 1 ? depth - 1 : depth;
    for (uint32_t i = 0; i < mine; i++)
        while (flow_try(ep, 0, ep->self * depth + i, i * 13 % SLOW_BYTES, buffer) == AQ_AGAIN) {
            refused++;
            ct_poll(ep);
        }
    if (!storm) CT_EQUAL(refused, 0);
    if (ep->self != 0) atomic_fetch_add(&ep->world->flag[SLOW_SENT], 1);
    while (ep->self == 0 && atomic_load(&state.received) < before + depth * (ep->size - 1) - 1)
        ct_poll(ep);
    while (ep->self == 1 && atomic_load(&state.answers) == 0)
        ct_poll(ep);
    ct_barrier(ep);
    free(state.seen);
}

/* --- all to one -------------------------------------------------------------------------- */

static void flow_all_to_one(struct ct_ep *ep)
{
    struct flow_state state;
    flow_state_init(ep, &state, 1u << 16);
    ep->handlers[REQUEST] = flow_on_answering_request;
    ep->handlers[ANSWER] = flow_on_answer;
    ct_meet(ep);
    unsigned char buffer[64];
    const uint32_t each = 5000;
    bool sends = ep->self != 0 || ep->size == 1;
    for (uint32_t i = 0; sends && i < each; i++) {
        uint32_t number = (ep->size == 1 ? 0 : ep->self - 1) * each + i;
        aq_status status;
        while ((status = flow_try(ep, 0, number, i % 65, buffer)) == AQ_AGAIN)
            ct_poll(ep);
        CT_EQUAL(status, AQ_OK);
    }
    while (sends && atomic_load(&state.answers) < each)
        ct_poll(ep);
    ct_barrier(ep);
    if (ep->self == 0) CT_EQUAL(state.received, each * (ep->size == 1 ? 1 : ep->size - 1));
    free(state.seen);
}

/* --- quiet ------------------------------------------------------------------------------- */

static void flow_quiet(struct ct_ep *ep)
{
    struct flow_state state;
    flow_state_init(ep, &state, 1u << 16);
    ep->handlers[REQUEST] = flow_on_request;
    enum { COUNT = 64, SIZE = 20000 };
    ct_mem_open(ep, (size_t)COUNT * SIZE);
    uint32_t to = ct_next(ep);
    unsigned char *buffer = malloc(SIZE);
    CT_CHECK(buffer != NULL);
    struct aqi_comp comp;
    ct_comp_init(ep, &comp);
    fill(buffer, SIZE, ep->self);
    for (uint32_t i = 0; i < COUNT; i++) {
        ct_put(ep, to, (size_t)i * SIZE, buffer, SIZE, &comp);
        unsigned char small[16];
        while (flow_try(ep, to, i, sizeof(small), small) == AQ_AGAIN)
            ct_poll(ep);
    }
    aq_status status;
    while ((status = ep->tp->ops.quiet(ep->tp, ep->peers[to])) == AQ_AGAIN)
        ct_poll(ep);
    CT_EQUAL(status, AQ_OK);
    CT_EQUAL(ct_comp_remote(&comp), 0);
    CT_EQUAL(ct_comp_local(&comp), 0);
    while ((status = ep->tp->ops.quiet(ep->tp, NULL)) == AQ_AGAIN)
        ct_poll(ep);
    CT_EQUAL(status, AQ_OK);
    ct_barrier(ep);
    uint32_t from = (ep->self + ep->size - 1) % ep->size;
    for (uint32_t i = 0; i < COUNT; i++)
        CT_CHECK(filled(ep->mem.addr + (size_t)i * SIZE, SIZE, from));
    while (atomic_load(&state.received) < COUNT)
        ct_poll(ep);
    ct_mem_close(ep);
    free(buffer);
    free(state.seen);
}

/* --- sleeping ---------------------------------------------------------------------------- */

enum { WAKE_ROUNDS = 200 };

/* Sleep until there is something to do. */
static void flow_sleep(struct ct_ep *ep)
{
    struct flow_state *state = ep->user;
    const struct aqi_transport *ops = &ep->tp->ops;
    aq_status status = ops->arm(ep->tp, true);
    CT_CHECK(status == AQ_OK || status == AQ_AGAIN);
    if (status == AQ_OK) {
        /* Announce to the sender that there is now a sleep to interrupt. */
        atomic_store(&ep->world->flag[1], atomic_load(&state->received) + 1);
        ct_sleep(ep);
    }
    CT_OK(ops->arm(ep->tp, false));
}

/* Rank 0 sleeps between messages; the others send, sometimes only when it certainly sleeps. */
static void flow_wake(struct ct_ep *ep)
{
    struct flow_state state;
    if (ep->tp->ops.wait_fd(ep->tp) < 0) {
        ct_skip(ep, "no descriptor to wait on");
        return;
    }
    flow_state_init(ep, &state, WAKE_ROUNDS * CT_MAX_RANKS);
    ep->handlers[REQUEST] = flow_on_request;
    ct_meet(ep);
    _Atomic uint32_t *done = &ep->world->flag[0], *asleep = &ep->world->flag[1];
    uint32_t senders = ep->size - 1;
    if (ep->self == 0) {
        while (atomic_load(&state.received) < WAKE_ROUNDS * senders) {
            flow_sleep(ep);
            while (ct_progress(ep, AQI_PROGRESS_ALL) != 0) {
            }
            atomic_store(done, atomic_load(&state.received));
        }
    } else {
        for (uint32_t round = 0; round < WAKE_ROUNDS; round++) {
            /* Wait until the receiver announces its sleep, except every third time. */
            while (round % 3 != 0 && senders == 1 && atomic_load(asleep) <= round)
                ct_relax();
            for (uint64_t spin = ct_random(ep) % 2000; spin > 0; spin--)
                aqi_pause();
            flow_send_number(ep, 0, (ep->self - 1) * WAKE_ROUNDS + round);
            while (senders == 1 && atomic_load(done) <= round)
                ct_poll(ep);
        }
    }
    ct_barrier(ep);
    free(state.seen);
}

/* Connect each rank to the next one, by message 0. */
static void flow_connect(struct ct_ep *ep)
{
    struct flow_state *state = ep->user;
    ct_meet(ep);
    flow_send_number(ep, ct_next(ep), 0);
    while (atomic_load(&state->received) == 0)
        ct_poll(ep);
    ct_barrier(ep);
}

/*
 * arm() fails if something has already arrived, but what has been handled does not keep the rank
 * awake.
 */
static void flow_arm(struct ct_ep *ep)
{
    struct flow_state state;
    if (ep->tp->ops.wait_fd(ep->tp) < 0) {
        ct_skip(ep, "no descriptor to wait on");
        return;
    }
    flow_state_init(ep, &state, 100);
    ep->handlers[REQUEST] = flow_on_request;
    const struct aqi_transport *ops = &ep->tp->ops;
    flow_connect(ep);
    for (uint32_t round = 1; round < 50; round++) {
        /* No rank sends now: a few wake-ups may be left over, but not an endless number. */
        struct pollfd wait = {.fd = ops->wait_fd(ep->tp), .events = POLLIN};
        int stale = 0;
        CT_CHECK(wait.fd >= 0);
        for (;; stale++) {
            while (ct_progress(ep, AQI_PROGRESS_ALL) != 0) {
            }
            aq_status status = ops->arm(ep->tp, true);
            if (status == AQ_OK && poll(&wait, 1, 0) == 0) break;
            CT_CHECK(status >= 0 && stale < 1000); /* acknowledgements are late on a busy machine */
            CT_OK(ops->arm(ep->tp, false));
        }
        CT_OK(ops->arm(ep->tp, false));
        ct_meet(ep);
        flow_send_number(ep, ct_next(ep), round);
        ct_meet(ep);
        /* Over a network the message may still be under way. */
        if ((ops->caps & (AQI_CAP_TIMERS | AQI_CAP_FAR)) == 0)
            CT_EQUAL(ops->arm(ep->tp, true), AQ_AGAIN);
        CT_OK(ops->arm(ep->tp, false));
        while (atomic_load(&state.received) <= round)
            ct_progress(ep, AQI_PROGRESS_ALL);
        ct_barrier(ep);
    }
    free(state.seen);
}

/* A message that arrives after arm() makes the descriptor readable, even if the rank is its own
 * peer. */
static void flow_wake_self(struct ct_ep *ep)
{
    struct flow_state state;
    if (ep->tp->ops.wait_fd(ep->tp) < 0) {
        ct_skip(ep, "no descriptor to wait on");
        return;
    }
    flow_state_init(ep, &state, 100);
    ep->handlers[REQUEST] = flow_on_request;
    const struct aqi_transport *ops = &ep->tp->ops;
    flow_connect(ep);
    for (uint32_t round = 1; round < 50; round++) {
        ct_barrier(ep);
        while (ct_progress(ep, AQI_PROGRESS_ALL) != 0) {
        }
        while (ops->arm(ep->tp, true) == AQ_AGAIN) { /* for example an acknowledgement */
            CT_OK(ops->arm(ep->tp, false));
            ct_poll(ep);
        }
        ct_meet(ep);
        unsigned char none[1];
        while (flow_try(ep, ct_next(ep), round, 0, none) == AQ_AGAIN) {
        }
        ct_meet(ep);
        ct_sleep(ep);
        CT_OK(ops->arm(ep->tp, false));
        while (atomic_load(&state.received) <= round)
            ct_progress(ep, AQI_PROGRESS_ALL);
        ct_barrier(ep);
    }
    free(state.seen);
}

/* Whether nothing has arrived according to the words to watch, without a call of progress. */
static bool flow_idle(const struct ct_ep *ep)
{
    return atomic_load(&aqi_tp_pending) == 0 &&
           aqi_watch_moved(ep->tp->watch, atomic_load(&ep->tp->watches)) ==
               atomic_load(&ep->tp->watches);
}

/*
 * An operation that was started leaves, and is retransmitted, even if its sender computes and makes
 * no calls.
 */
static void flow_computing(struct ct_ep *ep)
{
    enum { COUNT = 5, SECONDS = 60 };
    struct flow_state state;
    uint64_t start = 0;
    flow_state_init(ep, &state, COUNT);
    ep->handlers[REQUEST] = flow_on_request;
    flow_connect(ep);
    for (uint32_t i = 1; ep->self == 0 && i < COUNT; i++)
        flow_send_number(ep, 1, i);
    while (ep->self == 0 && atomic_load(&ep->world->flag[0]) == 0) {
        CT_CHECK(!ct_overdue(&start, SECONDS));
        ct_relax();
    }
    while (ep->self == 1 && atomic_load(&state.received) < COUNT)
        ct_poll(ep);
    if (ep->self == 1) atomic_store(&ep->world->flag[0], 1);
    ct_barrier(ep);
    free(state.seen);
}

/* Meet, with progress over a network, where lost packets may have to be retransmitted. */
static void flow_meet(struct ct_ep *ep)
{
    if ((ep->tp->ops.caps & AQI_CAP_TIMERS) != 0)
        ct_barrier(ep);
    else
        ct_meet(ep);
}

/* Each message, including the first and those after a lap of the rings, changes a word. The word
 * is idle again after a message has been handled. */
static void flow_watch(struct ct_ep *ep)
{
    enum { ROUNDS = 300 };
    struct flow_state state;
    unsigned char payload[600];
    if (!ep->tp->watched) {
        ct_skip(ep, "this transport has no words to watch");
        return;
    }
    flow_state_init(ep, &state, ROUNDS);
    ep->handlers[REQUEST] = flow_on_request;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        flow_meet(ep);
        while (!flow_idle(ep))
            ct_progress(ep, AQI_PROGRESS_ALL);
        unsigned more = ct_progress(ep, AQI_PROGRESS_ALL);
        if ((ep->tp->ops.caps & AQI_CAP_TIMERS) == 0) CT_EQUAL(more, 0);
        flow_meet(ep);
        while (flow_try(ep, ct_next(ep), round, round % 3 * 250, payload) == AQ_AGAIN) {
        }
        while (flow_idle(ep))
            ct_relax();
        while (state.received <= round)
            ct_progress(ep, AQI_PROGRESS_ALL);
    }
    flow_meet(ep);
    free(state.seen);
}

/* Once quiet() reports success, everything has arrived without further calls of either side. */
static void flow_quiet_is_there(struct ct_ep *ep)
{
    enum { COUNT = 20 };
    struct flow_state state;
    flow_state_init(ep, &state, COUNT);
    ep->handlers[REQUEST] = flow_on_request;
    ct_meet(ep);
    for (uint32_t i = 0; i < COUNT; i++)
        while (flow_try(ep, ct_next(ep), i, 0, NULL) == AQ_AGAIN)
            ct_poll(ep);
    while (ep->tp->ops.quiet(ep->tp, NULL) == AQ_AGAIN)
        ct_poll(ep);
    ct_barrier(ep);
    for (unsigned empty = 0; empty < 2;)
        empty = ct_progress(ep, AQI_PROGRESS_ALL) != 0 ? 0 : empty + 1;
    CT_EQUAL(state.received, COUNT);
    ct_barrier(ep);
    free(state.seen);
}

/*
 * If a transport learns of completions outside of calls, quiet() reports success only after they
 * have been delivered.
 */
static void flow_quiet_is_reported(struct ct_ep *ep)
{
    enum { SIZE = 20000, COMPUTES = 50000000 /* ns */ };
    uint32_t to = ct_next(ep);
    ct_mem_open(ep, SIZE);
    unsigned char *buffer = malloc(SIZE);
    CT_CHECK(buffer != NULL);
    fill(buffer, SIZE, ep->self);
    for (uint32_t turn = 0; turn < ep->size; turn++) {
        struct aqi_comp comp;
        ct_comp_init(ep, &comp);
        if (turn == ep->self) {
            ct_put(ep, to, 0, buffer, SIZE, &comp);
            ct_progress(ep, AQI_PROGRESS_ALL);
            for (uint64_t until = aqi_now_ns() + COMPUTES; aqi_now_ns() < until;)
                ct_relax();
            while (ep->tp->ops.quiet(ep->tp, ep->peers[to]) == AQ_AGAIN)
                ct_poll(ep);
            CT_EQUAL(ct_comp_remote(&comp), 0);
            CT_EQUAL(ct_comp_local(&comp), 0);
        }
        ct_barrier(ep);
    }
    ct_mem_close(ep);
    free(buffer);
}

const struct ct_case ct_cases_flow[] = {
    {"flood of shorts: each arrives once", flow_flood_short, 0},
    {"flood of small mediums: each arrives once", flow_flood_small, 0},
    {"flood of the largest mediums: each arrives once", flow_flood_large, 0},
    {"flood of longs: bounded, each arrives once", flow_flood_long, 0},
    {"replies pass while requests are full both ways", flow_full_both_ways, 0},
    {"progress(REPLIES) delivers no request", flow_progress_replies, 0},
    {"connections that break lose nothing", flow_connections_break, CT_PEERS | CT_PROCESSES},
    {"a slow handler stalls no peer", flow_slow_handler, CT_PEERS},
    {"all to one", flow_all_to_one, 0},
    {"quiet", flow_quiet, 0},
    {"quiet: what was sent has arrived", flow_quiet_is_there, CT_CLEAN},
    {"quiet: not before completions are reported", flow_quiet_is_reported, 0},
    {"a sleeper is woken", flow_wake, CT_PEERS},
    {"arm: notices what has arrived, and only that", flow_arm, CT_CLEAN},
    {"armed: an arrival wakes the sleeper", flow_wake_self, CT_CLEAN},
    {"an operation leaves while its sender computes", flow_computing,
     CT_PEERS | CT_PROCESSES | CT_CLEAN},
    {"words announce every message", flow_watch, CT_PROCESSES | CT_CLEAN},
    {NULL, NULL, 0},
};
