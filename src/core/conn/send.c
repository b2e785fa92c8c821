/* Messages on connections, with options that aq_am_medium lacks: pieces, events, timeouts. */
#include "core/conn/alive.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

struct send_call {
    const char *call;
    aq_connection *conn;
    struct core_route *route;
    aq_send_params params;
    struct aqi_am am;
    uint64_t deadline; /* UINT64_MAX: none */
};

/* --- parameters ------------------------------------------------------------------------------ */

static aq_status send_check_pieces(struct send_call *c)
{
    const aq_send_params *params = &c->params;
    size_t most = c->route->max_medium, all = 0;
    if (params->pieces == NULL && params->count != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu pieces, but the array is NULL", c->call,
                        params->count);
    for (size_t i = 0; i < params->count; i++) {
        const aq_vec *piece = &params->pieces[i];
        if (piece->addr == NULL && piece->len != 0)
            return aqi_fail(AQ_EINVAL, "core",
                            "%s: piece %zu has %zu bytes, but its address is NULL", c->call, i,
                            piece->len);
        if (piece->len > most - all)
            return aqi_fail(AQ_ESIZE, "core", "%s: the pieces have more than %zu bytes together",
                            c->call, most);
        all += piece->len;
    }
    c->am.nbytes = (uint32_t)all;
    return AQ_OK;
}

static aq_status send_check_params(struct send_call *c, const aq_send_params *given,
                                   const aq_event *ev)
{
    const unsigned known = AQ_IMMEDIATE | AQ_FENCE | AQ_SEND_HANDLED;
    aq_send_params *params = &c->params;
    *params = (aq_send_params){.struct_size = sizeof(*params)};
    aq_status st = conn_copy_params(c->call, given, params, sizeof(*params), "aq_send_params");
    if (st != AQ_OK) return st;
    if ((params->flags & ~known) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", c->call,
                        params->flags & ~known);
    if ((params->flags & AQ_SEND_HANDLED) != 0 && ev == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: AQ_SEND_HANDLED needs an event", c->call);
    return AQ_OK;
}

static aq_status send_check(struct send_call *c, aq_handler handler, const aq_send_params *given,
                            const aq_event *ev)
{
    aq_status st = aqi_core_callable(c->call);
    if (st == AQ_OK) st = send_check_params(c, given, ev);
    if (st == AQ_OK) st = core_check_message(c->call, handler, c->params.args, c->params.nargs, 0);
    if (st != AQ_OK) return st;
    if (c->conn == NULL) return aqi_fail(AQ_EINVAL, "core", "%s: the connection is NULL", c->call);
    if (aq_connection_team(c->conn) == NULL)
        return aqi_fail(AQ_ESTATE, "core", "%s: the connection is not open", c->call);
    c->route = &c->conn->routes[1];
    c->am = (struct aqi_am){.kind = AQI_AM_MEDIUM,
                            .handler = handler,
                            .nargs = (uint8_t)c->params.nargs,
                            .args = c->params.args};
    return send_check_pieces(c);
}

/* Gather the payload into one piece, for the transport to copy. */
static aq_status send_gather(struct send_call *c)
{
    const aq_send_params *params = &c->params;
    if (params->count == 1) c->am.payload = params->pieces->addr;
    if (params->count <= 1 || c->am.nbytes == 0) return AQ_OK;
    unsigned char *at = core_own_payload(core_self(), false, c->call);
    if (at == NULL) return AQ_ENOMEM;
    c->am.payload = at;
    for (size_t i = 0; i < params->count; i++) {
        if (params->pieces[i].len != 0) memcpy(at, params->pieces[i].addr, params->pieces[i].len);
        at += params->pieces[i].len;
    }
    return AQ_OK;
}

/* --- sending --------------------------------------------------------------------------------- */

/* Wait for room, and with a fence until nothing is in flight, but only until the deadline. */
static aq_status send_wait(const struct send_call *c, struct core_wait *wait)
{
    if ((c->params.flags & AQ_IMMEDIATE) != 0) return AQ_AGAIN;
    if (c->deadline != UINT64_MAX && aqi_now_ns() >= c->deadline)
        return aqi_fail(AQ_ETIMEOUT, "core", "%s: the peer made no room in time", c->call);
    return core_wait_for_room(wait, c->route, false, 0);
}

static bool send_may_begin(const struct send_call *c)
{
    struct aqi_tp *tp = c->route->tp;
    return (c->params.flags & AQ_FENCE) == 0 || tp->ops.quiet(tp, c->route->peer) != AQ_AGAIN;
}

static aq_status send_now(struct send_call *c, struct aqi_comp *comp)
{
    struct core_wait wait = {0};
    struct aqi_tp *tp = c->route->tp;
    for (;;) {
        aq_status st =
            send_may_begin(c) ? tp->ops.am_send(tp, c->route->peer, &c->am, comp) : AQ_AGAIN;
        if (st == AQ_OK) core_count_sent(c->am.nbytes);
        if (st != AQ_AGAIN) return st == AQ_EPEER ? core_lost(c->route, c->call) : st;
        /* A handler may use the buffer in which the pieces were gathered. */
        st = send_wait(c, &wait);
        if (st == AQ_OK) st = send_gather(c);
        if (st != AQ_OK) return st == AQ_EPEER ? core_lost(c->route, c->call) : st;
    }
}

/* With an event that completes on delivery. */
static aq_status send_acked(struct send_call *c, aq_event *ev)
{
    struct aqi_op *op = core_op_get(core_self());
    if (op == NULL) return AQ_ENOMEM;
    struct aqi_comp *comp = &op->set.message;
    struct conn_send *timed = c->deadline != UINT64_MAX ? conn_send_new(c->deadline) : NULL;
    aq_status st = timed == NULL && c->deadline != UINT64_MAX ? AQ_ENOMEM : AQ_OK;
    comp->local = 1;
    comp->shared |= AQI_COMP_ACKED;
    if (st == AQ_OK) st = send_now(c, timed != NULL ? conn_send_comp(timed) : comp);
    if (st != AQ_OK) {
        free(timed);
        core_op_put(op);
        return st;
    }
    if (timed != NULL) conn_send_begun(timed, op);
    *ev = op;
    return AQ_OK;
}

/* With an event that completes after its handler has run. */
static aq_status send_asked(struct send_call *c, aq_event *ev)
{
    struct core_wait wait = {0};
    uint64_t token;
    struct conn_send *timed = c->deadline != UINT64_MAX ? conn_send_new(c->deadline) : NULL;
    aq_status st = timed == NULL && c->deadline != UINT64_MAX ? AQ_ENOMEM : AQ_OK;
    while (st == AQ_OK) {
        struct aqi_am am = c->am; /* core_asked_send changes it */
        st = send_may_begin(c) ? core_asked_send(c->route, &am, AQ_IMMEDIATE, ev, &token, c->call)
                               : AQ_AGAIN;
        if (st != AQ_AGAIN) break;
        st = send_wait(c, &wait);
        if (st == AQ_OK) st = send_gather(c);
    }
    if (timed == NULL) return st;
    if (st == AQ_OK)
        conn_send_asked(timed, token, c->route->rank);
    else
        free(timed);
    return st;
}

aq_status aq_connection_send(aq_connection *conn, aq_handler handler, const aq_send_params *params,
                             aq_event *ev)
{
    struct send_call c = {.call = __func__, .conn = conn, .deadline = UINT64_MAX};
    aq_status st = send_check(&c, handler, params, ev);
    if (st == AQ_OK) st = send_gather(&c);
    if (st != AQ_OK) return st;
    uint64_t timeout = c.params.timeout_ns != 0 ? c.params.timeout_ns : conn->send_timeout_ns;
    if (timeout != 0) c.deadline = aqi_now_ns() + aqi_min(timeout, UINT64_MAX / 2);
    if (ev == NULL) return send_now(&c, NULL);
    return (c.params.flags & AQ_SEND_HANDLED) != 0 ? send_asked(&c, ev) : send_acked(&c, ev);
}

aq_status aq_connection_send_timeout(aq_connection *conn, uint64_t ns)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK) return st;
    if (conn == NULL)
        return aqi_fail(AQ_EINVAL, "core", "aq_connection_send_timeout: the connection is NULL");
    conn->send_timeout_ns = ns;
    return AQ_OK;
}
