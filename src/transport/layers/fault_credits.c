/*
 * Part of the fault decorator: simulates a transport with posted receive buffers. Independently of
 * the gate, it counts the requests in flight, the credits that are to be returned and the buffers
 * posted for replies, and aborts the process if a message exceeds them.
 */
#include "transport/layers/fault_credits.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/spin.h"
#include "transport/layers/credit_gate.h"

#include <stdlib.h>

struct fault_account {
    struct aqi_credit_note out;        /* requests to the peer whose credits it has not returned */
    struct aqi_credit_note unanswered; /* requests from it whose credits we have not returned */
    uint32_t reply_buffers;            /* posted for its replies */
    bool dead;
};

struct fault_credits {
    struct aqi_tp_params params; /* of the transport's opener */
    struct aqi_credit_limits limits;
    struct aqi_spin lock;
    struct fault_account peer[];
};

static AQI_COLD void fault_credits_overrun(const struct fault_credits *c, uint32_t id,
                                           const char *what)
{
    const struct fault_account *a = &c->peer[id];
    aqi_log(AQI_LOG_ERROR, "fault",
            "peer %u: %s: %u requests with %llu bytes to it, %u with %llu from it, %u buffers for "
            "its replies; the limits are %u requests and %llu bytes",
            id, what, a->out.count, (unsigned long long)a->out.bytes, a->unanswered.count,
            (unsigned long long)a->unanswered.bytes, a->reply_buffers, c->limits.depth,
            (unsigned long long)c->limits.bytes);
    abort();
}

/* Subtract from an account, which must contain at least as much. */
static void fault_credits_take(const struct fault_credits *c, uint32_t id,
                               struct aqi_credit_note *from, struct aqi_credit_note note)
{
    if (note.count > from->count || (c->limits.bytes != 0 && note.bytes > from->bytes))
        fault_credits_overrun(c, id, "more was returned than was taken");
    aqi_credit_note_subtract(from, note.count, note.bytes);
}

static uint64_t fault_credits_bytes_of(const struct fault_credits *c, const struct aqi_am *am)
{
    return c->limits.bytes != 0 ? aqi_credit_bytes(am) : 0;
}

static void fault_credits_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    struct fault_credits *c = arg;
    struct fault_account *a = &c->peer[source];
    aqi_spin_lock(&c->lock);
    if (a->dead) goto out;
    fault_credits_take(c, source, &a->out, aqi_credit_of(am));
    if ((am->flags & AQI_AM_IS_REPLY) == 0)
        aqi_credit_note_add(&a->unanswered, 1, fault_credits_bytes_of(c, am));
    else if (a->reply_buffers-- == 0)
        fault_credits_overrun(c, source, "a reply for which no request posted a buffer");
out:
    aqi_spin_unlock(&c->lock);
    c->params.hooks.deliver(c->params.hooks.arg, source, am);
}

static void fault_credits_count_request(struct fault_credits *c, uint32_t to,
                                        const struct aqi_am *am)
{
    struct fault_account *a = &c->peer[to];
    aqi_credit_note_add(&a->out, 1, fault_credits_bytes_of(c, am));
    a->reply_buffers++;
    if (a->out.count > c->limits.depth) fault_credits_overrun(c, to, "too many requests");
    if (c->limits.bytes != 0 && a->out.count > 1 && a->out.bytes > c->limits.bytes)
        fault_credits_overrun(c, to, "too many bytes of requests");
    uint64_t all = 0;
    for (uint32_t id = 0; c->limits.total != 0 && id < c->params.size; id++)
        if (!c->peer[id].dead) all += c->peer[id].out.count;
    if (all > c->limits.total)
        fault_credits_overrun(c, to, "too many requests to all peers together");
}

void fault_credits_sent(struct fault_credits *c, uint32_t to, const struct aqi_am *am, bool sent)
{
    if (c == NULL) return;
    struct fault_account *a = &c->peer[to];
    struct aqi_credit_note note = aqi_credit_of(am);
    bool is_request = (am->flags & AQI_AM_IS_REPLY) == 0;
    aqi_spin_lock(&c->lock);
    if (a->dead) {
        /* It will not arrive. */
    } else if (sent) {
        fault_credits_take(c, to, &a->unanswered, note);
        if (is_request) fault_credits_count_request(c, to, am);
    } else {
        aqi_credit_note_add(&a->unanswered, note.count, note.bytes);
        if (is_request) {
            fault_credits_take(c, to, &a->out,
                               (struct aqi_credit_note){1, fault_credits_bytes_of(c, am)});
            a->reply_buffers--;
        }
    }
    aqi_spin_unlock(&c->lock);
}

void fault_credits_forget(struct fault_credits *c, uint32_t id)
{
    if (c == NULL) return;
    aqi_spin_lock(&c->lock);
    c->peer[id].dead = true;
    aqi_spin_unlock(&c->lock);
}

static void fault_credits_hook_peer_lost(void *arg, uint32_t id, const char *why)
{
    struct fault_credits *c = arg;
    c->params.hooks.peer_lost(c->params.hooks.arg, id, why);
}

aq_status fault_credits_new(const struct aqi_tp_params *params, struct aqi_tp_params *inner,
                            struct fault_credits **credits)
{
    struct fault_credits *c = calloc(1, sizeof(*c) + params->size * sizeof(c->peer[0]));
    if (c == NULL)
        return aqi_fail(AQ_ENOMEM, "fault", "no memory to check the credits of %u peers",
                        params->size);
    c->params = *params;
    inner->hooks.deliver = fault_credits_hook_deliver;
    inner->hooks.peer_lost = fault_credits_hook_peer_lost;
    inner->hooks.arg = c;
    *credits = c;
    return AQ_OK;
}

void fault_credits_limit(struct fault_credits *c, const struct aqi_tp_limits *limits)
{
    c->limits = aqi_credit_gate_limits(&c->params, limits);
}
