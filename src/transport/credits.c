/* Request credits of one endpoint, as bookkeeping without messages; the laws are in the header. */
#include "transport/credits.h"

static void credits_add(struct aqi_credit_note *to, uint32_t count, uint64_t bytes)
{
    to->count += count;
    to->bytes += bytes;
}

static void credits_subtract(struct aqi_credit_note *from, uint32_t count, uint64_t bytes)
{
    from->count -= count;
    from->bytes -= bytes;
}

void aqi_credits_init(struct aqi_credits *c, const struct aqi_credit_limits *limits,
                      struct aqi_credit_peer *peer, uint32_t peers)
{
    *c = (struct aqi_credits){.limits = *limits, .peers = peers, .peer = peer};
    for (uint32_t i = 0; i < peers; i++)
        peer[i] = (struct aqi_credit_peer){0};
    struct aqi_credit_limits *in_force = &c->limits;
    if (in_force->depth == 0) in_force->depth = 1;
    uint64_t all = (uint64_t)in_force->depth * (peers > 0 ? peers : 1);
    if (in_force->total == 0 || in_force->total > all)
        in_force->total = (uint32_t)aqi_min(all, UINT32_MAX);
    uint32_t spare = (in_force->total - 1) / (peers > 0 ? peers : 1);
    if (in_force->slack > in_force->depth - 1) in_force->slack = in_force->depth - 1;
    if (in_force->slack > spare) in_force->slack = spare;
    c->bank_bytes = UINT64_MAX;
    if (in_force->bytes != 0)
        c->bank_bytes =
            in_force->largest < in_force->bytes ? in_force->bytes - in_force->largest : 0;
}

bool aqi_credits_take(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (AQI_UNLIKELY(p->dead)) return true;
    if (p->out.count >= c->limits.depth || c->out >= c->limits.total) return false;
    if (c->limits.bytes != 0 && p->out.count != 0 && p->out.bytes + bytes > c->limits.bytes)
        return false;
    credits_add(&p->out, 1, bytes);
    c->out++;
    return true;
}

void aqi_credits_undo(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return;
    credits_subtract(&p->out, 1, bytes);
    c->out--;
}

void aqi_credits_shrink(struct aqi_credits *c, uint32_t peer, uint64_t bytes, uint64_t kept)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (!p->dead) p->out.bytes -= bytes - kept;
}

bool aqi_credits_returned(struct aqi_credits *c, uint32_t peer, struct aqi_credit_note note)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return true;
    if (note.count > p->out.count || note.bytes > p->out.bytes) return false;
    credits_subtract(&p->out, note.count, note.bytes);
    c->out -= note.count;
    return true;
}

void aqi_credits_arrived(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    if (!c->peer[peer].dead) credits_add(&c->peer[peer].held, 1, bytes);
}

void aqi_credits_answered(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return;
    credits_subtract(&p->held, 1, bytes);
    credits_add(&p->banked, 1, bytes);
}

void aqi_credits_unanswered(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return;
    credits_subtract(&p->banked, 1, bytes);
    credits_add(&p->held, 1, bytes);
}

struct aqi_credit_note aqi_credits_ride(struct aqi_credits *c, uint32_t peer)
{
    struct aqi_credit_note note = c->peer[peer].banked;
    c->peer[peer].banked = (struct aqi_credit_note){0};
    return note;
}

void aqi_credits_unride(struct aqi_credits *c, uint32_t peer, struct aqi_credit_note note)
{
    if (!c->peer[peer].dead) credits_add(&c->peer[peer].banked, note.count, note.bytes);
}

bool aqi_credits_overdue(const struct aqi_credits *c, uint32_t peer)
{
    const struct aqi_credit_note *banked = &c->peer[peer].banked;
    return banked->count > c->limits.slack || banked->bytes > c->bank_bytes;
}

void aqi_credits_forget(struct aqi_credits *c, uint32_t peer)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return;
    c->out -= p->out.count;
    *p = (struct aqi_credit_peer){.dead = true};
}
