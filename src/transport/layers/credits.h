/*
 * Request credits of one endpoint: how many requests, and how many bytes of them, may be in flight
 * to each peer and to all together, so that a receiver never gets more than its posted buffers
 * hold. Pure bookkeeping: no messages, no clock, no locks. credit_gate.c puts it between messages
 * and a transport; credits_test.c runs it over a simulated network.
 *
 * A request takes (1, bytes) of its peer's budget. The peer returns this credit once the handler
 * has replied or returned: the reply carries it; without a reply it is *banked* and rides on the
 * next message to the requester, of any kind. When more than the slack is banked, a hidden reply
 * carries it all.
 *
 * Every message states how much it returns; a reply returns nothing implicitly. Every hidden reply
 * returns the credit of at least one request that got no reply, so a requester that posts a buffer
 * for a reply before each request has one for every reply, hidden or not.
 *
 * Why no peer waits forever. Let D be the depth, T the total, B the byte budget, m the largest
 * message, p the number of peers, S the slack, and b(q) our credit that peer q has banked. Consider
 * the moment at which everything sent has arrived and every handler has ended (handlers end, since
 * a reply never waits for a request's credit). Then all our credit that is still out is banked, and
 * for each q: count(b(q)) <= S and bytes(b(q)) <= B - m, since beyond that a hidden reply goes out,
 * which needs no credit. So a request of n bytes to q can be sent if
 *     S <= D - 1         one more fits the depth,
 *     S * p <= T - 1     one more fits the total, even if every peer keeps S of it,
 *     n <= m             its bytes fit beside the banked ones: B - m + n <= B.
 * The slack is lowered until the first two hold. This also covers two peers that keep each other's
 * credits: each has at least one left, and the request sent with it returns the other's. If m >= B
 * nothing may be banked at all, and a message larger than B goes alone, when nothing else is out to
 * that peer, which eventually happens, since all credit is returned. All endpoints of a job must
 * have the same limits: the slack of one is computed from what the others may have out.
 */
#ifndef AQI_CREDITS_H
#define AQI_CREDITS_H

#include "transport/transport.h"

/* The credit that a message returns. */
struct aqi_credit_note {
    uint32_t count;
    uint64_t bytes;
};

struct aqi_credit_peer {
    struct aqi_credit_note out;    /* our requests in flight to it */
    struct aqi_credit_note held;   /* its requests here that are not yet answered */
    struct aqi_credit_note banked; /* its requests that are answered; to be returned */
    bool dead;
    uint64_t unused; /* pads to a power of two, which makes indexing cheaper */
};
static_assert(sizeof(struct aqi_credit_peer) == 64, "a power of two");

struct aqi_credits {
    struct aqi_credit_limits limits; /* in effect: total computed, slack lowered */
    uint64_t bank_bytes;             /* maximum number of bytes to bank for one peer */
    uint32_t out;                    /* our requests to all peers */
    uint32_t peers;
    struct aqi_credit_peer *peer; /* by number */
};

static inline void aqi_credit_note_add(struct aqi_credit_note *to, uint32_t count, uint64_t bytes)
{
    to->count += count;
    to->bytes += bytes;
}

static inline void aqi_credit_note_subtract(struct aqi_credit_note *from, uint32_t count,
                                            uint64_t bytes)
{
    from->count -= count;
    from->bytes -= bytes;
}

/* `peer` is memory for `peers` accounts, which stays the caller's. */
void aqi_credits_init(struct aqi_credits *c, const struct aqi_credit_limits *limits,
                      struct aqi_credit_peer *peer, uint32_t peers);

/* --- the requester --- */

/* Take the credit of a request before sending it. Returns false if it may not be sent now. */
static inline bool aqi_credits_take(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (AQI_UNLIKELY(p->dead)) return true;
    if (p->out.count >= c->limits.depth || c->out >= c->limits.total) return false;
    if (c->limits.bytes != 0 && p->out.count != 0 && p->out.bytes + bytes > c->limits.bytes)
        return false;
    aqi_credit_note_add(&p->out, 1, bytes);
    c->out++;
    return true;
}
/*
 * Undo a take: the request was not sent after all, or (shrink) only `kept` of its bytes were, so it
 * stays counted.
 */
void aqi_credits_undo(struct aqi_credits *c, uint32_t peer, uint64_t bytes);
void aqi_credits_shrink(struct aqi_credits *c, uint32_t peer, uint64_t bytes, uint64_t kept);
/* Accept returned credits. Returns false, without effect, if they are more than were taken. */
static inline bool aqi_credits_returned(struct aqi_credits *c, uint32_t peer,
                                        struct aqi_credit_note note)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return true;
    if (note.count > p->out.count || note.bytes > p->out.bytes) return false;
    aqi_credit_note_subtract(&p->out, note.count, note.bytes);
    c->out -= note.count;
    return true;
}

/* --- the responder --- */

/* A request has arrived; its handler will run. */
static inline void aqi_credits_arrived(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    if (!c->peer[peer].dead) aqi_credit_note_add(&c->peer[peer].held, 1, bytes);
}
/* The handler of a request replies or has returned: bank its credit. unanswered undoes this. */
static inline void aqi_credits_answered(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return;
    aqi_credit_note_subtract(&p->held, 1, bytes);
    aqi_credit_note_add(&p->banked, 1, bytes);
}
void aqi_credits_unanswered(struct aqi_credits *c, uint32_t peer, uint64_t bytes);
/* Get the credits to send with a message to `peer`. unride puts them back if it was not sent. */
static inline struct aqi_credit_note aqi_credits_ride(struct aqi_credits *c, uint32_t peer)
{
    struct aqi_credit_note note = c->peer[peer].banked;
    c->peer[peer].banked = (struct aqi_credit_note){0};
    return note;
}
void aqi_credits_unride(struct aqi_credits *c, uint32_t peer, struct aqi_credit_note note);
/* Whether more is banked than the slack allows, so that a hidden reply must be sent. */
static inline bool aqi_credits_overdue(const struct aqi_credits *c, uint32_t peer)
{
    const struct aqi_credit_note *banked = &c->peer[peer].banked;
    return banked->count > c->limits.slack || banked->bytes > c->bank_bytes;
}

/* --- both --- */

/* The peer is dead: all credit taken for it is returned, and from now on everything is allowed. */
void aqi_credits_forget(struct aqi_credits *c, uint32_t peer);

#endif
