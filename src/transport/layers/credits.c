/* Request credits of one endpoint, as bookkeeping without messages; the laws are in the header. */
#include "transport/layers/credits.h"

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

void aqi_credits_undo(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return;
    aqi_credit_note_subtract(&p->out, 1, bytes);
    c->out--;
}

void aqi_credits_shrink(struct aqi_credits *c, uint32_t peer, uint64_t bytes, uint64_t kept)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (!p->dead) p->out.bytes -= bytes - kept;
}

void aqi_credits_unanswered(struct aqi_credits *c, uint32_t peer, uint64_t bytes)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return;
    aqi_credit_note_subtract(&p->banked, 1, bytes);
    aqi_credit_note_add(&p->held, 1, bytes);
}

void aqi_credits_unride(struct aqi_credits *c, uint32_t peer, struct aqi_credit_note note)
{
    if (!c->peer[peer].dead) aqi_credit_note_add(&c->peer[peer].banked, note.count, note.bytes);
}

void aqi_credits_forget(struct aqi_credits *c, uint32_t peer)
{
    struct aqi_credit_peer *p = &c->peer[peer];
    if (p->dead) return;
    c->out -= p->out.count;
    *p = (struct aqi_credit_peer){.dead = true};
}
