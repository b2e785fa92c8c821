/* Active messages: sending requests and replies. */
#include "core/am/am.h"
#include "core/mem/mem.h"

#include <string.h>

static_assert(AQ_AM_MAX_ARGS == AQI_AM_MAX_ARGS, "one limit for arguments");

size_t aq_am_max_medium(const aq_team *team)
{
    if (team == NULL || team->size == 0) return 0;
    return aqi_min(core.max_medium, team->routes[0].max_medium); /* for any of its members */
}

size_t aq_am_max_long(const aq_team *team)
{
    return team != NULL && team->size != 0 ? core.max_long : 0;
}

/* --- sending --------------------------------------------------------------------------------- */

static AQI_COLD aq_status am_bad_message(const char *call, aq_handler handler, const aq_arg *args,
                                         unsigned nargs, unsigned flags)
{
    if (handler < AQ_HANDLER_BASE)
        return aqi_fail(AQ_EHANDLER, "core",
                        "%s: handler %u is reserved: programs may use %u to 255", call, handler,
                        AQ_HANDLER_BASE);
    if (nargs > AQ_AM_MAX_ARGS)
        return aqi_fail(AQ_EINVAL, "core", "%s: %u arguments; the maximum is %u", call, nargs,
                        AQ_AM_MAX_ARGS);
    if (args == NULL && nargs != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: %u arguments, but the array is NULL", call, nargs);
    return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", call, flags & ~AQ_IMMEDIATE);
}

aq_status core_check_message(const char *call, aq_handler handler, const aq_arg *args,
                             unsigned nargs, unsigned flags)
{
    if (AQI_LIKELY(handler >= AQ_HANDLER_BASE && nargs <= AQ_AM_MAX_ARGS &&
                   (args != NULL || nargs == 0) && (flags & ~AQ_IMMEDIATE) == 0))
        return AQ_OK;
    return am_bad_message(call, handler, args, nargs, flags);
}

static aq_status am_pass_on(struct core_route *route, const struct aqi_am *am,
                            struct aqi_comp *comp)
{
    struct aqi_tp *tp = route->tp;
    if (am->kind != AQI_AM_LONG) return tp->ops.am_send(tp, route->peer, am, comp);
    return tp->ops.am_long(tp, route->peer, am, route->rmem,
                           core_local_mem(tp, am->payload, am->nbytes), comp);
}

static AQI_COLD aq_status send_slow(struct core_route *route, const struct aqi_am *am,
                                    struct aqi_comp *comp, unsigned flags, const char *call,
                                    aq_status st)
{
    struct core_wait wait = {0};
    bool reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    if (st == AQ_AGAIN) aqi_count(AQI_CTR_AM_AGAIN, 1);
    while (core_retry(&st, &wait, route, reply, flags))
        st = am_pass_on(route, am, comp);
    if (st == AQ_OK) core_count_sent(am->nbytes);
    return st == AQ_EPEER ? core_lost(route, call) : st;
}

static inline aq_status send_now(struct core_route *route, const struct aqi_am *am, unsigned flags,
                                 const char *call)
{
    aq_status st = route->tp->ops.am_send(route->tp, route->peer, am, NULL);
    if (AQI_UNLIKELY(st != AQ_OK)) return send_slow(route, am, NULL, flags, call, st);
    core_count_sent(am->nbytes);
    return AQ_OK;
}

static AQI_COLD aq_status send_traced(struct core_route *route, const struct aqi_am *am,
                                      unsigned flags, const char *call)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_AM);
    aq_status st = send_now(route, am, flags, call);
    aqi_trace_end(AQI_TRACE_AM, call, begun, (uint32_t)route->rank, am->nbytes);
    return st;
}

static inline aq_status send_out(struct core_route *route, const struct aqi_am *am, unsigned flags,
                                 const char *call)
{
    if (aqi_tracing(AQI_TRACE_AM)) return send_traced(route, am, flags, call);
    return send_now(route, am, flags, call);
}

static inline aq_status send(struct core_route *route, struct aqi_am *am, unsigned flags,
                             const char *call)
{
    if (route->self) return core_run_own(route, am, flags, call);
    return send_out(route, am, flags, call);
}

aq_status core_try_send(struct core_route *route, aq_handler handler, const aq_arg *args,
                        unsigned nargs)
{
    struct aqi_am am = {
        .kind = AQI_AM_SHORT, .handler = handler, .nargs = (uint8_t)nargs, .args = args};
    return route->tp->ops.am_send(route->tp, route->peer, &am, NULL);
}

static aq_status am_check_payload(const char *call, const void *src, size_t nbytes, size_t most)
{
    if (AQI_UNLIKELY(nbytes > most))
        return aqi_fail(AQ_ESIZE, "core",
                        "%s: %zu bytes; the maximum is %zu (aq_am_max_medium, aq_am_max_long)",
                        call, nbytes, most);
    if (AQI_UNLIKELY(src == NULL && nbytes != 0))
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu bytes, but the address is NULL", call, nbytes);
    return AQ_OK;
}

/*
 * A Long to mapped memory: copy, then send the header, whose publication releases the copy. With
 * AQ_IMMEDIATE, room is reserved first, so that AQ_AGAIN leaves the destination unchanged; over
 * transports that cannot reserve room, the Long is sent as if the memory were not mapped.
 */
static inline bool am_may_map_long(const struct core_route *route, unsigned flags)
{
    return route->local != NULL &&
           ((flags & AQ_IMMEDIATE) == 0 || (route->tp->ops.caps & AQI_CAP_RESERVE) != 0);
}

static aq_status send_long_mapped(struct core_route *route, struct aqi_am *am, unsigned flags,
                                  const char *call)
{
    unsigned char *at = route->local + (am->addr - route->seg_addr);
    const void *src = am->payload;
    struct aqi_tp *tp = route->tp;
    aqi_am_set_kind(am, AQI_AM_LONG_HEADER);
    if ((flags & AQ_IMMEDIATE) == 0) {
        memcpy(at, src, am->nbytes);
        return send_out(route, am, flags, call);
    }
    struct aqi_slot slot;
    bool reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    aq_status st = tp->ops.am_reserve(tp, route->peer, reply, am->nargs, 0, &slot);
    if (st != AQ_OK) return st == AQ_EPEER ? core_lost(route, call) : st;
    memcpy(at, src, am->nbytes);
    st = tp->ops.am_commit(tp, route->peer, &slot, am);
    if (st == AQ_AGAIN) (void)tp->ops.am_commit(tp, route->peer, &slot, NULL);
    if (st == AQ_OK) core_count_sent(am->nbytes);
    return st == AQ_EPEER ? core_lost(route, call) : st;
}

/* Local completion of a message whose source has been copied. */
static inline void am_complete_locally(aq_event *local)
{
    if (local != NULL && local != AQ_EVENT_GROUP) *local = AQ_EVENT_DONE;
}

/*
 * A Long carried by the transport. Its source is in use until `local` completes; without an event,
 * the call waits for that. The transport takes a copy instead (comp NULL) for replies, for calls
 * that may not block, and if copying is faster than waiting.
 */
static aq_status send_long_carried(struct core_route *route, struct aqi_am *am, unsigned flags,
                                   aq_event *local, const char *call)
{
    struct aqi_comp here = {.local = 1, .shared = core.multi};
    struct core_thread *me = core_self();
    struct aqi_op *op = NULL;
    bool copied = (am->flags & AQI_AM_IS_REPLY) || (flags & AQ_IMMEDIATE) ||
                  (local == NULL && am->nbytes <= route->tp->limits.copied);
    struct aqi_comp *comp = copied ? NULL : &here;
    bool group = local == AQ_EVENT_GROUP;
    if (group) {
        comp = &core_implicit(me)->message;
        aqi_comp_add(comp, &comp->local, 1);
    } else if (local != NULL) {
        op = core_op_get(me);
        if (op == NULL) return AQ_ENOMEM;
        op->set.message.local = 1;
        comp = &op->set.message;
    }
    uint64_t begun = aqi_trace_begin(AQI_TRACE_AM);
    aq_status st = am_pass_on(route, am, comp);
    if (st == AQ_OK)
        core_count_sent(am->nbytes);
    else
        st = send_slow(route, am, comp, flags, call, st);
    aqi_trace_end(AQI_TRACE_AM, call, begun, (uint32_t)route->rank, am->nbytes);
    if (st != AQ_OK) {
        if (op != NULL) core_op_put(op);
        if (group) aqi_comp_local(comp);
        return st;
    }
    if (group) return AQ_OK;
    if (local != NULL) {
        *local = op;
        return AQ_OK;
    }
    if (comp != NULL) core_wait_zero(&comp->local);
    return here.status == AQ_OK ? AQ_OK : core_failed(route, (aq_status)here.status, call);
}

static aq_status send_long(struct core_route *route, struct aqi_am *am, unsigned flags,
                           aq_event *local, const char *call)
{
    if (am->nbytes != 0 && !core_in_segment(route, am->addr, am->nbytes))
        return core_out_of_segment(route, am->addr, am->nbytes, call);
    if (am->nbytes != 0 && !route->self && !am_may_map_long(route, flags))
        return send_long_carried(route, am, flags, local, call);
    aq_status st;
    if (route->self) {
        st = core_run_own(route, am, flags, call);
    } else if (am->nbytes == 0) {
        aqi_am_set_kind(am, AQI_AM_LONG_HEADER);
        st = send_out(route, am, flags, call);
    } else {
        st = send_long_mapped(route, am, flags, call);
    }
    if (st == AQ_OK) am_complete_locally(local);
    return st;
}

aq_status core_send(struct core_route *route, struct aqi_am *am, unsigned flags, const char *call)
{
    if (am->kind == AQI_AM_LONG) return send_long(route, am, flags, NULL, call);
    return send(route, am, flags, call);
}

static inline struct aqi_am am_message_of(uint8_t kind, aq_handler handler, const void *src,
                                          size_t nbytes, const void *dst, const aq_arg *args,
                                          unsigned nargs, uint8_t flags)
{
    return (struct aqi_am){.head = aqi_am_head(kind, handler, nargs, flags),
                           .nbytes = (uint32_t)nbytes,
                           .addr = (uint64_t)(uintptr_t)dst,
                           .args = args,
                           .payload = src};
}

AQI_COLD struct core_route *core_may_message(const aq_team *team, struct core_route *route,
                                             const char *call, aq_status *st)
{
    if (team->ep == NULL || (team->ep->capabilities & AQ_EP_AM) != 0) return route;
    *st = aqi_fail(AQ_ENOTSUP, "core",
                   "%s: the sending endpoint, %u of this process, was created without AQ_EP_AM",
                   call, team->ep->index);
    return NULL;
}

/*
 * The ways to send a checked request: at once, with `event` for the source of a Long; with `event`
 * also for its reply; or after the operation of `event`, which then represents both.
 */
enum am_way { AM_SEND, AM_ASK, AM_AFTER, AM_AFTER_IMPLICIT };

static inline aq_status am_request(const char *call, enum am_way way, aq_team *team, aq_rank rank,
                                   uint8_t kind, aq_handler handler, const void *src, size_t nbytes,
                                   const void *dst, const aq_arg *args, unsigned nargs,
                                   unsigned flags, aq_event *event)
{
    uint8_t eps;
    aq_status st = core_callable(core_self(), call);
    if (AQI_LIKELY(st == AQ_OK)) st = core_check_message(call, handler, args, nargs, flags);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    struct core_route *route = core_route_to(team, rank, call, &st);
    if (AQI_LIKELY(route != NULL)) route = core_message_route(team, route, call, &eps, &st);
    if (AQI_UNLIKELY(route == NULL)) return st;
    if (kind == AQI_AM_SHORT && way == AM_SEND && route->self && eps == 0)
        return core_run_own_short(route, handler, args, nargs, flags, call);
    if (kind != AQI_AM_SHORT) {
        size_t most = kind == AQI_AM_LONG ? core.max_long : route->max_medium;
        st = am_check_payload(call, src, nbytes, most);
        if (AQI_UNLIKELY(st != AQ_OK)) return st;
    }
    if (way != AM_SEND && event == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: the event is NULL", call);
    struct aqi_am am = am_message_of(kind, handler, src, nbytes, dst, args, nargs, eps);
    if (way == AM_ASK) return core_asked_send(route, &am, flags, event, NULL, call);
    if (kind == AQI_AM_LONG) return send_long(route, &am, flags, event, call);
    if (way != AM_SEND && *event != AQ_EVENT_DONE)
        return core_send_after(call, route, &am, way == AM_AFTER_IMPLICIT, event);
    st = send(route, &am, flags, call);
    /* Every transport copies the payload of a Medium. */
    if (kind == AQI_AM_MEDIUM && st == AQ_OK) am_complete_locally(event);
    return st;
}

static AQI_NOINLINE aq_status am_short_any(aq_team *team, aq_rank rank, aq_handler handler,
                                           const aq_arg *args, unsigned nargs, unsigned flags)
{
    return am_request("aq_am_short", AM_SEND, team, rank, AQI_AM_SHORT, handler, NULL, 0, NULL,
                      args, nargs, flags, NULL);
}

/*
 * The route of a valid message without flags between first endpoints; NULL: take the general path.
 * Makes no call, so that its caller need not save registers.
 */
static AQI_INLINE struct core_route *am_usual_route(const aq_team *team, aq_rank rank,
                                                    aq_handler handler, const aq_arg *args,
                                                    unsigned nargs, unsigned flags)
{
    if (AQI_UNLIKELY(flags != 0 || aqi_tracing(AQI_TRACE_AM) || !core_may_call(core_thread_mine) ||
                     handler < AQ_HANDLER_BASE || nargs > AQ_AM_MAX_ARGS ||
                     (args == NULL && nargs != 0) || team == NULL || rank >= team->size))
        return NULL;
    struct core_route *route = core_team_route(team, rank);
    return AQI_LIKELY((team->from | route->to) == 0) ? route : NULL;
}

aq_status aq_am_short(aq_team *team, aq_rank rank, aq_handler handler, const aq_arg *args,
                      unsigned nargs, unsigned flags)
{
    struct core_route *route = am_usual_route(team, rank, handler, args, nargs, flags);
    if (AQI_UNLIKELY(route == NULL)) return am_short_any(team, rank, handler, args, nargs, flags);
    if (route->self) return core_run_own_short(route, handler, args, nargs, 0, __func__);
    const struct {
        struct aqi_am am;
        struct core_route *route;
    } sent = {am_message_of(AQI_AM_SHORT, handler, NULL, 0, NULL, args, nargs, 0), route};
    AQI_KEEP_IN_MEMORY(sent);
    aq_status st = route->tp->ops.am_send(route->tp, route->peer, &sent.am, NULL);
    if (AQI_UNLIKELY(st != AQ_OK)) return send_slow(sent.route, &sent.am, NULL, 0, __func__, st);
    aqi_count(AQI_CTR_AM_SENT, 1);
    return AQ_OK;
}

static AQI_NOINLINE aq_status am_medium_any(aq_team *team, aq_rank rank, aq_handler handler,
                                            const void *src, size_t nbytes, const aq_arg *args,
                                            unsigned nargs, unsigned flags, aq_event *local)
{
    return am_request("aq_am_medium", AM_SEND, team, rank, AQI_AM_MEDIUM, handler, src, nbytes,
                      NULL, args, nargs, flags, local);
}

aq_status aq_am_medium(aq_team *team, aq_rank rank, aq_handler handler, const void *src,
                       size_t nbytes, const aq_arg *args, unsigned nargs, unsigned flags,
                       aq_event *local)
{
    struct core_route *route =
        am_usual_route(team, rank, handler, args, nargs, flags & ~AQ_IMMEDIATE);
    if (AQI_UNLIKELY(route == NULL || route->self || nbytes > route->max_medium ||
                     (src == NULL && nbytes != 0)))
        return am_medium_any(team, rank, handler, src, nbytes, args, nargs, flags, local);
    const struct aqi_am am =
        am_message_of(AQI_AM_MEDIUM, handler, src, nbytes, NULL, args, nargs, 0);
    aq_status st = send_now(route, &am, flags, __func__);
    if (AQI_LIKELY(st == AQ_OK)) am_complete_locally(local); /* it has been copied */
    return st;
}

aq_status aq_am_long(aq_team *team, aq_rank rank, aq_handler handler, const void *src,
                     size_t nbytes, void *dst, const aq_arg *args, unsigned nargs, unsigned flags,
                     aq_event *local)
{
    return am_request(__func__, AM_SEND, team, rank, AQI_AM_LONG, handler, src, nbytes, dst, args,
                      nargs, flags, local);
}

aq_status aq_am_short_nb(aq_team *team, aq_rank rank, aq_handler handler, const aq_arg *args,
                         unsigned nargs, unsigned flags, aq_event *ev)
{
    return am_request(__func__, AM_ASK, team, rank, AQI_AM_SHORT, handler, NULL, 0, NULL, args,
                      nargs, flags, ev);
}

aq_status aq_am_medium_nb(aq_team *team, aq_rank rank, aq_handler handler, const void *src,
                          size_t nbytes, const aq_arg *args, unsigned nargs, unsigned flags,
                          aq_event *ev)
{
    return am_request(__func__, AM_ASK, team, rank, AQI_AM_MEDIUM, handler, src, nbytes, NULL, args,
                      nargs, flags, ev);
}

aq_status aq_am_medium_after_nb(aq_team *team, aq_rank rank, aq_handler handler, const void *src,
                                size_t nbytes, const aq_arg *args, unsigned nargs, unsigned flags,
                                aq_event *ev)
{
    return am_request(__func__, AM_AFTER, team, rank, AQI_AM_MEDIUM, handler, src, nbytes, NULL,
                      args, nargs, flags, ev);
}

aq_status aq_am_medium_after_nbi(aq_team *team, aq_rank rank, aq_handler handler, const void *src,
                                 size_t nbytes, const aq_arg *args, unsigned nargs, unsigned flags,
                                 aq_event *ev)
{
    return am_request(__func__, AM_AFTER_IMPLICIT, team, rank, AQI_AM_MEDIUM, handler, src, nbytes,
                      NULL, args, nargs, flags, ev);
}

/* --- replying -------------------------------------------------------------------------------- */

/* The request to reply to; NULL, with the error in `*st`, if no reply is allowed. */
struct core_message *core_begin_reply(const char *call, aq_am *am, aq_status *st)
{
    struct core_thread *me = atomic_load(&core.open) ? core_thread_mine : NULL;
    struct core_message *message = (struct core_message *)am;
    *st = AQ_ECONTEXT;
    if (am == NULL || me == NULL || me->handling != message)
        aqi_fail(*st, "core", "%s: not called inside the handler of this message", call);
    else if (am->is_reply)
        aqi_fail(*st, "core", "%s: a reply cannot be answered by a reply", call);
    else if (message->replied)
        aqi_fail(*st, "core", "%s: this request already has a reply", call);
    else
        *st = AQ_OK;
    return *st == AQ_OK ? message : NULL;
}

static inline aq_status am_reply(const char *call, aq_am *to, uint8_t kind, aq_handler handler,
                                 const void *src, size_t nbytes, const void *dst,
                                 const aq_arg *args, unsigned nargs, unsigned flags)
{
    aq_status st;
    struct core_message *message = core_begin_reply(call, to, &st);
    if (message == NULL) return st;
    st = core_check_message(call, handler, args, nargs, flags);
    size_t most = kind == AQI_AM_MEDIUM ? message->route->max_medium : core.max_long;
    if (st == AQ_OK && kind != AQI_AM_SHORT) st = am_check_payload(call, src, nbytes, most);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    struct aqi_am am =
        am_message_of(kind, handler, src, nbytes, dst, args, nargs, message->reply_flags);
    struct core_asked *ask = core_thread_mine->asked;
    if (AQI_UNLIKELY(ask != NULL)) st = core_asked_reply(ask, &am, call);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    message->replied = true;
    st = core_send(message->route, &am, flags, call);
    if (st != AQ_OK) message->replied = false;
    if (AQI_UNLIKELY(ask != NULL)) ask->replied = st == AQ_OK;
    return st;
}

aq_status aq_am_reply_short(aq_am *am, aq_handler handler, const aq_arg *args, unsigned nargs,
                            unsigned flags)
{
    return am_reply(__func__, am, AQI_AM_SHORT, handler, NULL, 0, NULL, args, nargs, flags);
}

aq_status aq_am_reply_medium(aq_am *am, aq_handler handler, const void *src, size_t nbytes,
                             const aq_arg *args, unsigned nargs, unsigned flags)
{
    return am_reply(__func__, am, AQI_AM_MEDIUM, handler, src, nbytes, NULL, args, nargs, flags);
}

aq_status aq_am_reply_long(aq_am *am, aq_handler handler, const void *src, size_t nbytes, void *dst,
                           const aq_arg *args, unsigned nargs, unsigned flags)
{
    return am_reply(__func__, am, AQI_AM_LONG, handler, src, nbytes, dst, args, nargs, flags);
}
