/*
 * Scattered transfers to memory that is not mapped: rows of small pieces are passed to the
 * transport together, large pieces become separate puts and gets.
 */
#include "core/vis/vis.h"

#include <string.h>

/* Rows are collected, so that messages are filled even if each row is small. */
enum { CARRY_ROWS = 256 };
struct carry {
    struct vis_transfer *t;
    struct aqi_comp *comp;
    struct aqi_row rows[CARRY_ROWS];
    unsigned count;
};

static unsigned carry_flags(const struct vis_transfer *t)
{
    return t->begun ? t->flags & ~AQ_IMMEDIATE : t->flags;
}

static aq_status carry_some(struct carry *c)
{
    struct vis_transfer *t = c->t;
    struct core_route *route = t->route;
    struct aqi_tp *tp = route->tp;
    struct core_wait wait = {0};
    unsigned taken = 0;
    aq_status st;
    if (!t->get) aqi_comp_add(c->comp, &c->comp->local, 1);
    aqi_comp_add(c->comp, &c->comp->remote, 1);
    do
        st = (t->get ? tp->ops.get_rows : tp->ops.put_rows)(tp, route->peer, route->rmem, c->rows,
                                                            c->count, &taken, c->comp);
    while (core_retry(&st, &wait, route, false, carry_flags(t)));
    if (st != AQ_OK) {
        if (!t->get) aqi_comp_local(c->comp);
        aqi_comp_remote(c->comp);
        return st == AQ_EPEER ? core_lost(route, t->call) : st;
    }
    t->begun = true;
    c->count -= taken;
    memmove(c->rows, c->rows + taken, c->count * sizeof(c->rows[0]));
    return AQ_OK;
}

/* Move each piece of a row by a separate operation. */
static aq_status carry_pieces(struct carry *c, const struct vis_row *row)
{
    struct vis_transfer *t = c->t;
    aq_status st = AQ_OK;
    for (size_t i = 0; i < row->count && st == AQ_OK; i++) {
        uint64_t remote = row->a + (uint64_t)row->a_step * i;
        void *local = (void *)(uintptr_t)(row->b + (uint64_t)row->b_step * i);
        st = core_start_run(t->route, t->get, remote, local, row->len, carry_flags(t), c->comp,
                            t->call);
        t->begun = t->begun || st == AQ_OK;
    }
    return st;
}

static aq_status carry_all(struct carry *c)
{
    struct vis_transfer *t = c->t;
    struct vis_row row;
    aq_status st = AQ_OK;
    bool pack_all = (t->route->tp->ops.caps & AQI_CAP_ROWS) != 0;
    while (st == AQ_OK && vis_peek(&t->remote, &t->local, &row)) {
        if (!pack_all && row.len >= aqi_core_config.vis_pack)
            st = carry_pieces(c, &row);
        else
            c->rows[c->count++] = (struct aqi_row){.remote = row.a,
                                                   .remote_step = row.a_step,
                                                   .local = (unsigned char *)(uintptr_t)row.b,
                                                   .local_step = row.b_step,
                                                   .len = row.len,
                                                   .count = row.count};
        vis_take(&t->remote, &t->local, &row);
        if (c->count == CARRY_ROWS) st = carry_some(c);
    }
    while (st == AQ_OK && c->count != 0)
        st = carry_some(c);
    return st;
}

aq_status vis_carry(void *transfer, struct aqi_comp *comp)
{
    struct vis_transfer *t = transfer;
    struct carry c;
    c.t = t;
    c.comp = comp;
    c.count = 0;
    if (!t->get) aqi_comp_add(comp, &comp->local, 1); /* completes after all parts have begun */
    aqi_comp_add(comp, &comp->remote, 1);
    aq_status st = carry_all(&c);
    if (st != AQ_OK && t->begun) {
        aqi_comp_fail(comp, st);
        st = AQ_OK;
    }
    if (!t->get) aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return st;
}
