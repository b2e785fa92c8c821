/*
 * Requests whose sender waits until their handler, or that of their reply, has run. They are sent
 * to CORE_HANDLER_ASKED, which no program can register, so that other messages have no overhead.
 * The program's handler and a token (an index in the sender's table, and how many times that
 * entry was used) are in the address, which a Short and a Medium do not use, or in the last two
 * arguments of a Long reply. If a handler does not reply, a reply without a handler is sent.
 */
#include "core/am/am.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum { HANDLER_BITS = 8, PLACE_BITS = 32, LONG_ARGS = 2 };

/* A request in flight; `op` NULL: the entry is free, and `rank` is the next free one. */
struct ask {
    struct aqi_op *op;
    uint32_t rank, used;
};

static struct {
    struct aqi_spin lock;
    struct ask *table;
    size_t size;
    uint32_t free; /* an index + 1; 0: none */
} asked;

static bool asked_grow(void)
{
    uint32_t had = (uint32_t)asked.size;
    if (!aqi_array_grow(&asked.table, &asked.size, had + 1, sizeof(*asked.table))) return false;
    for (uint32_t i = had; i < asked.size; i++)
        asked.table[i] = (struct ask){.rank = i + 1 < asked.size ? i + 2 : 0};
    asked.free = had + 1;
    return true;
}

/* Returns the token of a request; 0 if out of memory. */
static uint64_t asked_add(struct aqi_op *op, uint32_t rank)
{
    uint64_t token = 0;
    core_lock(&asked.lock);
    if (asked.free != 0 || asked_grow()) {
        struct ask *ask = &asked.table[asked.free - 1];
        token = (uint64_t)(++ask->used & 0xffffff) << PLACE_BITS | asked.free;
        asked.free = ask->rank;
        ask->op = op;
        ask->rank = rank;
    }
    core_unlock(&asked.lock);
    return token;
}

/* With the lock held: the request in flight; NULL: none. The token may be from a peer: not trusted.
 */
static struct ask *asked_find(uint64_t token, uint32_t rank)
{
    uint32_t place = (uint32_t)token;
    if (place == 0 || place > asked.size) return NULL;
    struct ask *ask = &asked.table[place - 1];
    bool same = ask->rank == rank && (ask->used & 0xffffff) == token >> PLACE_BITS;
    return ask->op != NULL && same ? ask : NULL;
}

/* Called with the lock held. */
static struct aqi_op *asked_free(struct ask *ask)
{
    struct aqi_op *op = ask->op;
    ask->op = NULL;
    ask->rank = asked.free;
    asked.free = (uint32_t)(ask - asked.table) + 1;
    return op;
}

static struct aqi_op *asked_take(uint64_t token, uint32_t rank)
{
    core_lock(&asked.lock);
    struct ask *ask = asked_find(token, rank);
    struct aqi_op *op = ask != NULL ? asked_free(ask) : NULL;
    core_unlock(&asked.lock);
    return op;
}

bool core_asked_waits(uint64_t token, uint32_t rank)
{
    core_lock(&asked.lock);
    bool waits = asked_find(token, rank) != NULL;
    core_unlock(&asked.lock);
    return waits;
}

static void asked_fail(struct aqi_op *op, aq_status status)
{
    aqi_comp_fail(&op->set.get, status);
    aqi_comp_remote(&op->set.get);
}

void core_asked_fail(uint64_t token, uint32_t rank, aq_status status)
{
    struct aqi_op *op = asked_take(token, rank);
    if (op != NULL) asked_fail(op, status);
}

void core_asked_peer_down(uint32_t rank)
{
    core_lock(&asked.lock);
    for (uint32_t i = 0; i < asked.size; i++) {
        struct ask *ask = &asked.table[i];
        if (ask->op != NULL && ask->rank == rank) asked_fail(asked_free(ask), AQ_EPEER);
    }
    core_unlock(&asked.lock);
}

aq_status core_asked_open(void)
{
    core_on_loss(core_asked_peer_down);
    return AQ_OK;
}

void core_asked_close(void)
{
    free(asked.table);
    asked.table = NULL;
    asked.size = asked.free = 0;
}

/* --- at the target --------------------------------------------------------------------------- */

static uint64_t asked_word(uint64_t token, aq_handler handler)
{
    return token << HANDLER_BITS | handler;
}

aq_status core_asked_reply(struct core_asked *ask, struct aqi_am *am, const char *call)
{
    uint64_t word = asked_word(ask->token, am->handler);
    am->handler = CORE_HANDLER_ASKED;
    if (am->kind != AQI_AM_LONG) {
        am->addr = word;
        return AQ_OK;
    }
    if (am->nargs > AQI_AM_MAX_ARGS - LONG_ARGS)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: %u arguments; a Long reply to this request, whose sender waits for "
                        "it, may have at most %d",
                        call, am->nargs, AQI_AM_MAX_ARGS - LONG_ARGS);
    memcpy(ask->args, am->args, am->nargs * sizeof(*ask->args));
    memcpy(ask->args + am->nargs, &word, sizeof(word));
    am->args = ask->args;
    am->nargs += LONG_ARGS;
    return AQ_OK;
}

/* Notify the waiting sender that the handler has run without a reply. */
static void asked_answer(struct core_route *route, uint64_t token, uint8_t flags)
{
    struct aqi_am am = {.head = aqi_am_head(AQI_AM_SHORT, CORE_HANDLER_ASKED, 0, flags),
                        .addr = asked_word(token, 0)};
    /* This fails for good only if the sender is dead. */
    (void)!core_send(route, &am, 0, "an answer");
}

bool core_asked_run(core_run_fn *run, aq_ep *ep, struct core_route *route, uint32_t source,
                    unsigned source_ep, const struct aqi_am *am)
{
    struct core_thread *me = core_self();
    struct aqi_am inner = *am;
    uint64_t word = am->addr;
    if (am->kind == AQI_AM_LONG) {
        if (am->nargs < LONG_ARGS) return false;
        inner.nargs -= LONG_ARGS;
        memcpy(&word, am->args + inner.nargs, sizeof(word));
    }
    inner.handler = (uint8_t)word;
    bool is_reply = (am->flags & AQI_AM_IS_REPLY) != 0, none = is_reply && inner.handler == 0;
    if (inner.handler < AQ_HANDLER_BASE && !none) return false;
    struct core_asked ask = {.token = word >> HANDLER_BITS}, *outer = me->asked;
    if (!is_reply) me->asked = &ask;
    bool ran = none || run(ep, route, source, source_ep, &inner);
    me->asked = outer;
    if (!ran) return false;
    if (!is_reply && !ask.replied)
        asked_answer(route, ask.token,
                     (uint8_t)(AQI_AM_IS_REPLY | aqi_am_to(source_ep) | aqi_am_from(ep->index)));
    if (!is_reply) return true;
    struct aqi_op *op = asked_take(ask.token, route->rank);
    if (op != NULL)
        aqi_comp_remote(&op->set.get);
    else
        aqi_count(AQI_CTR_AM_DROPPED, 1);
    return true;
}

/* --- at the sender --------------------------------------------------------------------------- */

aq_status core_asked_send(struct core_route *route, struct aqi_am *am, unsigned flags,
                          aq_event *event, uint64_t *asked_by, const char *call)
{
    aq_status st = core_may_answer(route, call);
    if (st != AQ_OK) return st;
    struct aqi_op *op = core_op_get(core_self());
    if (op == NULL) return AQ_ENOMEM;
    atomic_store_explicit(&op->set.get.remote, 1, memory_order_relaxed);
    uint64_t token = asked_add(op, route->rank);
    st = AQ_ENOMEM;
    if (token == 0) {
        aqi_fail(st, "core", "%s: no memory for another request", call);
    } else {
        am->addr = asked_word(token, am->handler);
        am->handler = CORE_HANDLER_ASKED;
        st = core_send(route, am, flags, call);
    }
    if (st == AQ_OK) {
        *event = op;
        if (asked_by != NULL) *asked_by = token;
        return AQ_OK;
    }
    (void)asked_take(token, route->rank); /* unless the loss of the peer has freed it */
    core_op_put(op);
    return st;
}
