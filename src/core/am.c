/* Active messages: registering handlers, sending requests and replies, running handlers. */
#include "core/impl.h"

#include <stdio.h>
#include <string.h>

static_assert(AQ_AM_MAX_ARGS == AQI_AM_MAX_ARGS, "one limit for arguments");
static_assert(AQ_AM_SHORT == 1u << (AQI_AM_SHORT - 1) &&
                  AQ_AM_MEDIUM == 1u << (AQI_AM_MEDIUM - 1) &&
                  AQ_AM_LONG == 1u << (AQI_AM_LONG - 1),
              "a category is the bit of its kind");

enum { ACCEPT_ALL = AQ_AM_SHORT | AQ_AM_MEDIUM | AQ_AM_LONG | AQ_AM_REQUEST | AQ_AM_REPLY };

/* --- registration ---------------------------------------------------------------------------- */

static void set_handler(aq_ep *ep, aq_handler index, const aq_handler_entry *row, uint8_t accepts)
{
    struct core_handler *h = &ep->handlers[index];
    h->context = row->context;
    h->name = row->name;
    h->accepts = accepts;
    h->nargs = row->nargs;
    atomic_store_explicit(&h->fn, row->fn, memory_order_release);
}

void core_register_system(aq_handler index, aq_am_fn *fn, const char *name)
{
    const aq_handler_entry row = {.fn = fn, .name = name, .nargs = AQ_AM_ANY_ARGS};
    set_handler(&core.ep, index, &row, ACCEPT_ALL);
}

static aq_status check_row(const aq_handler_entry *row, size_t i)
{
    if (row->fn == NULL)
        return aqi_fail(AQ_EINVAL, "core", "aq_am_register: row %zu has no function", i);
    if (row->nargs > AQ_AM_MAX_ARGS && row->nargs != AQ_AM_ANY_ARGS)
        return aqi_fail(AQ_EINVAL, "core",
                        "aq_am_register: row %zu wants %u arguments, the most is %u", i, row->nargs,
                        AQ_AM_MAX_ARGS);
    if ((row->accepts & ~(unsigned)ACCEPT_ALL) != 0)
        return aqi_fail(AQ_EINVAL, "core", "aq_am_register: row %zu accepts unknown bits %#x", i,
                        row->accepts);
    return AQ_OK;
}

/* Choose the indices without touching the table that is in force. */
static aq_status choose_indices(const aq_ep *ep, const aq_handler_entry *table, size_t count,
                                aq_handler chosen[CORE_HANDLERS])
{
    bool taken[CORE_HANDLERS];
    for (unsigned i = 0; i < CORE_HANDLERS; i++)
        taken[i] = ep->handlers[i].fn != NULL;
    for (size_t i = 0; i < count; i++) {
        aq_handler index = table[i].index;
        if (index == AQ_HANDLER_AUTO) continue;
        if (index < AQ_HANDLER_BASE || taken[index])
            return aqi_fail(AQ_EHANDLER, "core",
                            "aq_am_register: index %u of row %zu is %s: use %u to 255, or "
                            "AQ_HANDLER_AUTO",
                            index, i, index < AQ_HANDLER_BASE ? "reserved" : "taken",
                            AQ_HANDLER_BASE);
        taken[index] = true;
        chosen[i] = index;
    }
    unsigned next = CORE_HANDLERS - 1;
    for (size_t i = 0; i < count; i++) {
        if (table[i].index != AQ_HANDLER_AUTO) continue;
        while (next >= AQ_HANDLER_BASE && taken[next])
            next--;
        if (next < AQ_HANDLER_BASE)
            return aqi_fail(AQ_EHANDLER, "core", "aq_am_register: all %u indices are taken",
                            CORE_HANDLERS - AQ_HANDLER_BASE);
        taken[next] = true;
        chosen[i] = (aq_handler)next;
    }
    return AQ_OK;
}

/* A mask without a category accepts every category, and likewise for request and reply. */
static uint8_t accepts_of(unsigned bits)
{
    unsigned categories = AQ_AM_SHORT | AQ_AM_MEDIUM | AQ_AM_LONG;
    if ((bits & categories) == 0) bits |= categories;
    if ((bits & (AQ_AM_REQUEST | AQ_AM_REPLY)) == 0) bits |= AQ_AM_REQUEST | AQ_AM_REPLY;
    return (uint8_t)bits;
}

aq_status aq_am_register(aq_ep *ep, aq_handler_entry *table, size_t count)
{
    aq_handler chosen[CORE_HANDLERS];
    aq_status st = core_callable(core_self(), "aq_am_register");
    if (st != AQ_OK) return st;
    if (!core_is_ep(ep) || (table == NULL && count != 0))
        return aqi_fail(AQ_EINVAL, "core", "aq_am_register: no endpoint or no table");
    if ((ep->capabilities & AQ_EP_AM) == 0)
        return aqi_fail(AQ_ENOTSUP, "core",
                        "aq_am_register: endpoint %u was created without AQ_EP_AM", ep->index);
    if (count > CORE_HANDLERS - AQ_HANDLER_BASE)
        return aqi_fail(AQ_EHANDLER, "core", "aq_am_register: %zu handlers, the most is %u", count,
                        CORE_HANDLERS - AQ_HANDLER_BASE);
    for (size_t i = 0; i < count && st == AQ_OK; i++)
        st = check_row(&table[i], i);
    if (st != AQ_OK) return st;
    aqi_spin_lock(&core.lock);
    st = choose_indices(ep, table, count, chosen);
    for (size_t i = 0; i < count && st == AQ_OK; i++) {
        table[i].index = chosen[i];
        set_handler(ep, chosen[i], &table[i], accepts_of(table[i].accepts));
    }
    aqi_spin_unlock(&core.lock);
    return st;
}

size_t aq_am_max_medium(const aq_team *team)
{
    return team != NULL ? team->routes[0].max_medium : core.max_medium;
}

size_t aq_am_max_long(const aq_team *team)
{
    (void)team;
    return core.max_long;
}

/* --- receiving ------------------------------------------------------------------------------- */

static AQI_COLD void refused(char *why, size_t room, const struct core_handler *h, unsigned index,
                             uint32_t source, const struct aqi_am *am)
{
    static const char *const kinds[] = {
        [AQI_AM_SHORT] = "Short", [AQI_AM_MEDIUM] = "Medium", [AQI_AM_LONG] = "Long"};
    char takes[32] = "any number of";
    if (h->nargs != AQ_AM_ANY_ARGS) snprintf(takes, sizeof(takes), "%u", h->nargs);
    snprintf(why, room,
             "rank %u sent a %s %s with %u arguments to handler %u (%s) of endpoint %u, which is "
             "registered for%s%s%s%s%s with %s arguments",
             source, kinds[am->kind], am->flags & AQI_AM_IS_REPLY ? "reply" : "request", am->nargs,
             am->handler, h->name ? h->name : "no name", index,
             h->accepts & AQ_AM_SHORT ? " Short" : "", h->accepts & AQ_AM_MEDIUM ? " Medium" : "",
             h->accepts & AQ_AM_LONG ? " Long" : "", h->accepts & AQ_AM_REQUEST ? " requests" : "",
             h->accepts & AQ_AM_REPLY ? " replies" : "", takes);
}

/*
 * The program's peers disagree about endpoints or handlers, and only the receiver knows. Dropping
 * the message would be a silent hang.
 */
static AQI_COLD void unwanted(const aq_ep *ep, uint32_t source, const struct aqi_am *am)
{
    unsigned index = aqi_am_to_ep(am->flags);
    const struct core_handler *h = ep != NULL ? &ep->handlers[am->handler] : NULL;
    char why[300];
    if (ep == NULL || (ep->capabilities & AQ_EP_AM) == 0)
        snprintf(why, sizeof(why),
                 "rank %u sent a message to endpoint %u, which %s: call aq_ep_create with AQ_EP_AM "
                 "in every process, then aq_barrier, before sending",
                 source, index, ep == NULL ? "does not exist here" : "has no messages here");
    else if (h->fn == NULL)
        snprintf(
            why, sizeof(why),
            "rank %u sent a message for handler %u, which is not registered here with endpoint "
            "%u: call aq_am_register in every process, then aq_barrier, before sending",
            source, am->handler, index);
    else
        refused(why, sizeof(why), h, index, source, am);
    core.boot.fatal(core.boot.arg, why);
}

static AQI_COLD void run_traced(aq_am_fn *fn, aq_am *am, const char *name)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_AM);
    fn(am);
    aqi_trace_end(AQI_TRACE_AM, name != NULL ? name : "handler", begun, am->source, am->nbytes);
}

/*
 * Run the handler of `ep`, which a message has come to by `route` from endpoint `source_ep` of
 * `source`. False: it is for no handler that would take it.
 */
static inline bool run(aq_ep *ep, struct core_route *route, uint32_t source, unsigned source_ep,
                       const struct aqi_am *am)
{
    const struct core_handler *h = &ep->handlers[am->handler];
    aq_am_fn *fn = atomic_load_explicit(&h->fn, memory_order_acquire);
    bool is_reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    uint8_t category = (uint8_t)(1u << (am->kind - 1));
    unsigned needs = category | (is_reply ? AQ_AM_REPLY : AQ_AM_REQUEST);
    if (AQI_UNLIKELY(fn == NULL || (needs & ~h->accepts) != 0 ||
                     (h->nargs != AQ_AM_ANY_ARGS && h->nargs != am->nargs)))
        return false;
    struct core_thread *me = core_self();
    struct core_message *outer = me->handling; /* a request that waits for room in its reply */
    struct core_message message = {.am = {.args = am->args,
                                          .payload = (void *)(uintptr_t)am->payload,
                                          .nbytes = am->nbytes,
                                          .context = h->context,
                                          .ep = ep,
                                          .source = source,
                                          .nargs = am->nargs,
                                          .handler = am->handler,
                                          .category = category,
                                          .is_reply = is_reply,
                                          .source_ep = (uint8_t)source_ep},
                                   .route = route,
                                   .reply_flags = AQI_AM_IS_REPLY | aqi_am_to(source_ep) |
                                                  aqi_am_from(ep->index)};
    me->handling = &message;
    if (AQI_LIKELY(!aqi_tracing(AQI_TRACE_AM)))
        fn(&message.am);
    else
        run_traced(fn, &message.am, h->name);
    me->handling = outer;
    aqi_count(AQI_CTR_AM_RECEIVED, 1);
    return true;
}

/* A message to or from an endpoint after the first. */
static AQI_COLD void run_further(uint32_t source, const struct aqi_am *am)
{
    unsigned source_ep = aqi_am_from_ep(am->flags);
    aq_ep *ep = atomic_load_explicit(&core.eps[aqi_am_to_ep(am->flags)], memory_order_acquire);
    if (ep == NULL || (ep->capabilities & AQ_EP_AM) == 0) {
        unwanted(ep, source, am);
        return;
    }
    core_ep_reach(source_ep);
    struct core_route *route = &core.routes[source_ep * (size_t)core.params.size + source];
    if (!run(ep, route, source, source_ep, am)) unwanted(ep, source, am);
}

void core_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    (void)arg; /* and `source` is below the size of the job: it is what we gave to connect */
    if (AQI_UNLIKELY((am->flags & AQI_AM_EPS) != 0))
        run_further(source, am);
    else if (AQI_UNLIKELY(!run(&core.ep, &core.routes[source], source, 0, am)))
        unwanted(&core.ep, source, am);
}

bool core_deliver_from(struct core_route *route, uint32_t source, const struct aqi_am *am)
{
    bool ours = am->handler >= CORE_HANDLER_VIS_PUT && am->handler <= CORE_HANDLER_VIS_DATA;
    if ((am->flags & AQI_AM_EPS) != 0 || (am->handler < AQ_HANDLER_BASE && !ours)) return false;
    return run(&core.ep, route, source, 0, am);
}

/* --- sending --------------------------------------------------------------------------------- */

static AQI_COLD aq_status bad_message(const char *call, aq_handler handler, const aq_arg *args,
                                      unsigned nargs, unsigned flags)
{
    if (handler < AQ_HANDLER_BASE)
        return aqi_fail(AQ_EHANDLER, "core", "%s: handler %u is reserved: programs own %u to 255",
                        call, handler, AQ_HANDLER_BASE);
    if (nargs > AQ_AM_MAX_ARGS)
        return aqi_fail(AQ_EINVAL, "core", "%s: %u arguments, the most is %u", call, nargs,
                        AQ_AM_MAX_ARGS);
    if (args == NULL && nargs != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: %u arguments at NULL", call, nargs);
    return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", call, flags & ~AQ_IMMEDIATE);
}

aq_status core_check_message(const char *call, aq_handler handler, const aq_arg *args,
                             unsigned nargs, unsigned flags)
{
    if (AQI_LIKELY(handler >= AQ_HANDLER_BASE && nargs <= AQ_AM_MAX_ARGS &&
                   (args != NULL || nargs == 0) && (flags & ~AQ_IMMEDIATE) == 0))
        return AQ_OK;
    return bad_message(call, handler, args, nargs, flags);
}

static AQI_COLD aq_status send_slow(struct core_route *route, const struct aqi_am *am,
                                    struct aqi_comp *comp, unsigned flags, const char *call,
                                    aq_status st)
{
    struct core_wait wait = {0};
    bool reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    aqi_count(AQI_CTR_AM_AGAIN, 1);
    while (st == AQ_AGAIN && (st = core_wait_for_room(&wait, route, reply, flags)) == AQ_OK)
        st = route->tp->ops.am_send(route->tp, route->peer, am, comp);
    if (st == AQ_OK) aqi_count(AQI_CTR_AM_SENT, 1);
    return st == AQ_EPEER ? core_lost(route, call) : st;
}

static inline aq_status send_now(struct core_route *route, const struct aqi_am *am,
                                 struct aqi_comp *comp, unsigned flags, const char *call)
{
    aq_status st = route->tp->ops.am_send(route->tp, route->peer, am, comp);
    if (AQI_UNLIKELY(st != AQ_OK)) return send_slow(route, am, comp, flags, call, st);
    aqi_count(AQI_CTR_AM_SENT, 1);
    return AQ_OK;
}

static AQI_COLD aq_status send_traced(struct core_route *route, const struct aqi_am *am,
                                      struct aqi_comp *comp, unsigned flags, const char *call)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_AM);
    aq_status st = send_now(route, am, comp, flags, call);
    aqi_trace_end(AQI_TRACE_AM, call, begun, (uint32_t)route->rank, am->nbytes);
    return st;
}

static inline aq_status send(struct core_route *route, const struct aqi_am *am,
                             struct aqi_comp *comp, unsigned flags, const char *call)
{
    if (aqi_tracing(AQI_TRACE_AM)) return send_traced(route, am, comp, flags, call);
    return send_now(route, am, comp, flags, call);
}

aq_status core_try_send(struct core_route *route, aq_handler handler, const aq_arg *args,
                        unsigned nargs)
{
    struct aqi_am am = {
        .kind = AQI_AM_SHORT, .handler = handler, .nargs = (uint8_t)nargs, .args = args};
    return route->tp->ops.am_send(route->tp, route->peer, &am, NULL);
}

static aq_status check_payload(const char *call, const void *src, size_t nbytes, size_t most)
{
    if (AQI_UNLIKELY(nbytes > most))
        return aqi_fail(AQ_ESIZE, "core", "%s: %zu bytes, the most is %zu", call, nbytes, most);
    if (AQI_UNLIKELY(src == NULL && nbytes != 0))
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu bytes at NULL", call, nbytes);
    return AQ_OK;
}

/*
 * A Long to memory that is mapped here: copy, then the header, whose publication releases the copy.
 * With AQ_IMMEDIATE the room is found first, so that a refusal leaves the destination alone; that
 * needs a transport that reserves room, and over others the Long travels as to unmapped memory.
 */
static inline bool may_map_long(const struct core_route *route, unsigned flags)
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
        return send(route, am, NULL, flags, call);
    }
    struct aqi_slot slot;
    bool reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    aq_status st = tp->ops.am_reserve(tp, route->peer, reply, am->nargs, 0, &slot);
    if (st != AQ_OK) return st == AQ_EPEER ? core_lost(route, call) : st;
    memcpy(at, src, am->nbytes);
    st = tp->ops.am_commit(tp, route->peer, &slot, am);
    if (st == AQ_AGAIN) (void)tp->ops.am_commit(tp, route->peer, &slot, NULL);
    if (st == AQ_OK) aqi_count(AQI_CTR_AM_SENT, 1);
    return st == AQ_EPEER ? core_lost(route, call) : st;
}

/* The source of a message that has been copied already. */
static inline void complete_locally(aq_event *local)
{
    if (local != NULL && local != AQ_EVENT_GROUP) *local = AQ_EVENT_DONE;
}

/*
 * A Long the transport carries. Its source is in use until `local` says; who gives no event waits
 * here. A reply is never waited for, nor is a call that may not block: the transport takes a copy
 * (comp NULL).
 */
static aq_status send_long_carried(struct core_route *route, struct aqi_am *am, unsigned flags,
                                   aq_event *local, const char *call)
{
    struct aqi_comp here = {.local = 1, .shared = core.multi};
    struct core_thread *me = core_self();
    struct aqi_op *op = NULL;
    bool copied = (am->flags & AQI_AM_IS_REPLY) || (flags & AQ_IMMEDIATE);
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
    aq_status st = send(route, am, comp, flags, call);
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
    return here.status == AQ_OK ? AQ_OK : core_lost(route, call);
}

static aq_status send_long(struct core_route *route, struct aqi_am *am, unsigned flags,
                           aq_event *local, const char *call)
{
    if (am->nbytes != 0 && !core_in_segment(route, am->addr, am->nbytes))
        return core_out_of_segment(route, am->addr, am->nbytes, call);
    aqi_count(AQI_CTR_AM_BYTES, am->nbytes);
    if (am->nbytes != 0 && !may_map_long(route, flags))
        return send_long_carried(route, am, flags, local, call);
    aq_status st;
    if (am->nbytes == 0) {
        aqi_am_set_kind(am, AQI_AM_LONG_HEADER);
        st = send(route, am, NULL, flags, call);
    } else {
        st = send_long_mapped(route, am, flags, call);
    }
    if (st == AQ_OK) complete_locally(local);
    return st;
}

aq_status core_send_long(struct core_route *route, struct aqi_am *am, unsigned flags,
                         const char *call)
{
    return send_long(route, am, flags, NULL, call);
}

aq_status core_send_medium(struct core_route *route, struct aqi_am *am, unsigned flags,
                           const char *call)
{
    aqi_count(AQI_CTR_AM_BYTES, am->nbytes);
    return send(route, am, NULL, flags, call);
}

aq_status core_send(struct core_route *route, const struct aqi_am *am, unsigned flags,
                    const char *call)
{
    return send(route, am, NULL, flags, call);
}

static inline struct aqi_am message_of(uint8_t kind, aq_handler handler, const void *src,
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
    *st =
        aqi_fail(AQ_ENOTSUP, "core",
                 "%s: endpoint %u of this process, which is to send, was created without AQ_EP_AM",
                 call, team->ep->index);
    return NULL;
}

/* What all three kinds of request check first. NULL: `*st` says why. */
static inline struct core_route *begin_request(const char *call, aq_team *team, aq_rank rank,
                                               aq_handler handler, const aq_arg *args,
                                               unsigned nargs, unsigned flags, uint8_t *eps,
                                               aq_status *st)
{
    *st = core_callable(core_self(), call);
    if (AQI_LIKELY(*st == AQ_OK)) *st = core_check_message(call, handler, args, nargs, flags);
    if (AQI_UNLIKELY(*st != AQ_OK)) return NULL;
    struct core_route *route = core_route_to(team, rank, call, st);
    if (AQI_UNLIKELY(route == NULL)) return NULL;
    return core_message_route(team, route, call, eps, st);
}

aq_status aq_am_short(aq_team *team, aq_rank rank, aq_handler handler, const aq_arg *args,
                      unsigned nargs, unsigned flags)
{
    aq_status st;
    uint8_t eps;
    struct core_route *route =
        begin_request("aq_am_short", team, rank, handler, args, nargs, flags, &eps, &st);
    if (AQI_UNLIKELY(route == NULL)) return st;
    struct aqi_am am = message_of(AQI_AM_SHORT, handler, NULL, 0, NULL, args, nargs, eps);
    return send(route, &am, NULL, flags, "aq_am_short");
}

aq_status aq_am_medium(aq_team *team, aq_rank rank, aq_handler handler, const void *src,
                       size_t nbytes, const aq_arg *args, unsigned nargs, unsigned flags,
                       aq_event *local)
{
    aq_status st;
    uint8_t eps;
    struct core_route *route =
        begin_request("aq_am_medium", team, rank, handler, args, nargs, flags, &eps, &st);
    if (AQI_UNLIKELY(route == NULL)) return st;
    st = check_payload("aq_am_medium", src, nbytes, route->max_medium);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    struct aqi_am am = message_of(AQI_AM_MEDIUM, handler, src, nbytes, NULL, args, nargs, eps);
    aqi_count(AQI_CTR_AM_BYTES, nbytes);
    st = send(route, &am, NULL, flags, "aq_am_medium");
    /* Every transport copies what fits a Medium. */
    if (st == AQ_OK) complete_locally(local);
    return st;
}

aq_status aq_am_long(aq_team *team, aq_rank rank, aq_handler handler, const void *src,
                     size_t nbytes, void *dst, const aq_arg *args, unsigned nargs, unsigned flags,
                     aq_event *local)
{
    aq_status st;
    uint8_t eps;
    struct core_route *route =
        begin_request("aq_am_long", team, rank, handler, args, nargs, flags, &eps, &st);
    if (AQI_UNLIKELY(route == NULL)) return st;
    st = check_payload("aq_am_long", src, nbytes, core.max_long);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    struct aqi_am am = message_of(AQI_AM_LONG, handler, src, nbytes, dst, args, nargs, eps);
    return send_long(route, &am, flags, local, "aq_am_long");
}

static aq_status medium_after(const char *call, aq_team *team, aq_rank rank, aq_handler handler,
                              const void *src, size_t nbytes, const aq_arg *args, unsigned nargs,
                              bool implicit, aq_event *event)
{
    aq_status st;
    uint8_t eps;
    struct core_route *route = begin_request(call, team, rank, handler, args, nargs, 0, &eps, &st);
    if (route == NULL) return st;
    st = check_payload(call, src, nbytes, route->max_medium);
    if (st != AQ_OK) return st;
    if (event == NULL) return aqi_fail(AQ_EINVAL, "core", "%s: the event is NULL", call);
    struct aqi_am am = message_of(AQI_AM_MEDIUM, handler, src, nbytes, NULL, args, nargs, eps);
    aqi_count(AQI_CTR_AM_BYTES, nbytes);
    if (*event == AQ_EVENT_DONE) return send(route, &am, NULL, 0, call);
    return core_send_after(call, route, &am, implicit, event);
}

aq_status aq_am_medium_after_nb(aq_team *team, aq_rank rank, aq_handler handler, const void *src,
                                size_t nbytes, const aq_arg *args, unsigned nargs, aq_event *ev)
{
    return medium_after("aq_am_medium_after_nb", team, rank, handler, src, nbytes, args, nargs,
                        false, ev);
}

aq_status aq_am_medium_after_nbi(aq_team *team, aq_rank rank, aq_handler handler, const void *src,
                                 size_t nbytes, const aq_arg *args, unsigned nargs, aq_event *ev)
{
    return medium_after("aq_am_medium_after_nbi", team, rank, handler, src, nbytes, args, nargs,
                        true, ev);
}

/* --- replying -------------------------------------------------------------------------------- */

/* The request that is being replied to; NULL: `*st` says why it may not be. */
struct core_message *core_begin_reply(const char *call, aq_am *am, aq_status *st)
{
    struct core_thread *me = atomic_load(&core.open) ? core_thread_mine : NULL;
    struct core_message *message = (struct core_message *)am;
    *st = AQ_ECONTEXT;
    if (am == NULL || me == NULL || me->handling != message)
        aqi_fail(*st, "core", "%s: not inside the handler of this message", call);
    else if (am->is_reply)
        aqi_fail(*st, "core", "%s: a reply cannot be replied to", call);
    else if (message->replied)
        aqi_fail(*st, "core", "%s: this request has been replied to already", call);
    else
        *st = AQ_OK;
    return *st == AQ_OK ? message : NULL;
}

static aq_status reply(const char *call, aq_am *to, struct aqi_am *am, unsigned flags)
{
    aq_status st;
    struct core_message *message = core_begin_reply(call, to, &st);
    if (message == NULL) return st;
    st = core_check_message(call, am->handler, am->args, am->nargs, flags);
    size_t most = am->kind == AQI_AM_MEDIUM ? message->route->max_medium : core.max_long;
    if (st == AQ_OK) st = check_payload(call, am->payload, am->nbytes, most);
    if (st != AQ_OK) return st;
    message->replied = true;
    am->head |= aqi_am_head(0, 0, 0, message->reply_flags); /* there were none */
    if (am->kind == AQI_AM_LONG)
        st = send_long(message->route, am, flags, NULL, call);
    else
        st = send(message->route, am, NULL, flags, call);
    if (st != AQ_OK) message->replied = false;
    return st;
}

/* An argument count or size that the message's fields cannot hold is refused before they cut it. */
static aq_status fits(const char *call, unsigned nargs, size_t nbytes)
{
    if (AQI_UNLIKELY(nargs > AQ_AM_MAX_ARGS)) return bad_message(call, 255, NULL, nargs, 0);
    return check_payload(call, call, nbytes, core.max_long);
}

aq_status aq_am_reply_short(aq_am *am, aq_handler handler, const aq_arg *args, unsigned nargs,
                            unsigned flags)
{
    aq_status st = fits("aq_am_reply_short", nargs, 0);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    struct aqi_am out = message_of(AQI_AM_SHORT, handler, NULL, 0, NULL, args, nargs, 0);
    return reply("aq_am_reply_short", am, &out, flags);
}

aq_status aq_am_reply_medium(aq_am *am, aq_handler handler, const void *src, size_t nbytes,
                             const aq_arg *args, unsigned nargs, unsigned flags)
{
    aq_status st = fits("aq_am_reply_medium", nargs, nbytes);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    struct aqi_am out = message_of(AQI_AM_MEDIUM, handler, src, nbytes, NULL, args, nargs, 0);
    return reply("aq_am_reply_medium", am, &out, flags);
}

aq_status aq_am_reply_long(aq_am *am, aq_handler handler, const void *src, size_t nbytes, void *dst,
                           const aq_arg *args, unsigned nargs, unsigned flags)
{
    aq_status st = fits("aq_am_reply_long", nargs, nbytes);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    struct aqi_am out = message_of(AQI_AM_LONG, handler, src, nbytes, dst, args, nargs, 0);
    return reply("aq_am_reply_long", am, &out, flags);
}
