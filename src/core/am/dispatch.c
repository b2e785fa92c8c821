/* Handlers: the tables of endpoints, and dispatching messages to them. */
#include "core/am/am.h"
#include "core/mem/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(AQ_AM_SHORT == 1u << (AQI_AM_SHORT - 1) &&
                  AQ_AM_MEDIUM == 1u << (AQI_AM_MEDIUM - 1) &&
                  AQ_AM_LONG == 1u << (AQI_AM_LONG - 1),
              "a category is the bit of its kind");

enum { ACCEPT_ALL = AQ_AM_SHORT | AQ_AM_MEDIUM | AQ_AM_LONG | AQ_AM_REQUEST | AQ_AM_REPLY };

/* --- registration ---------------------------------------------------------------------------- */

static void am_dispatch_set_handler(aq_ep *ep, aq_handler index, const aq_handler_entry *row,
                                    uint8_t accepts)
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
    am_dispatch_set_handler(&core.ep, index, &row, ACCEPT_ALL);
}

static aq_status am_dispatch_check_row(const aq_handler_entry *row, size_t i)
{
    if (row->fn == NULL)
        return aqi_fail(AQ_EINVAL, "core", "aq_am_register: the function of row %zu is NULL", i);
    if (row->nargs > AQ_AM_MAX_ARGS && row->nargs != AQ_AM_ANY_ARGS)
        return aqi_fail(AQ_EINVAL, "core",
                        "aq_am_register: row %zu has %u arguments; the maximum is %u", i,
                        row->nargs, AQ_AM_MAX_ARGS);
    if ((row->accepts & ~(unsigned)ACCEPT_ALL) != 0)
        return aqi_fail(AQ_EINVAL, "core",
                        "aq_am_register: row %zu has unknown bits %#x in accepts", i, row->accepts);
    return AQ_OK;
}

/* Choose the indices without changing the active table. */
static aq_status am_dispatch_choose_indices(const aq_ep *ep, const aq_handler_entry *table,
                                            size_t count, aq_handler chosen[CORE_HANDLERS])
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
            return aqi_fail(AQ_EHANDLER, "core", "aq_am_register: all %u handler indices are taken",
                            CORE_HANDLERS - AQ_HANDLER_BASE);
        taken[next] = true;
        chosen[i] = (aq_handler)next;
    }
    return AQ_OK;
}

/* A mask without a category accepts every category, and likewise for request and reply. */
static uint8_t am_dispatch_accepts_of(unsigned bits)
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
        return aqi_fail(AQ_EINVAL, "core", "aq_am_register: the endpoint or the table is NULL");
    if ((ep->capabilities & AQ_EP_AM) == 0)
        return aqi_fail(AQ_ENOTSUP, "core",
                        "aq_am_register: endpoint %u was created without AQ_EP_AM", ep->index);
    if (count > CORE_HANDLERS - AQ_HANDLER_BASE)
        return aqi_fail(AQ_EHANDLER, "core", "aq_am_register: %zu handlers; the maximum is %u",
                        count, CORE_HANDLERS - AQ_HANDLER_BASE);
    for (size_t i = 0; i < count && st == AQ_OK; i++)
        st = am_dispatch_check_row(&table[i], i);
    if (st != AQ_OK) return st;
    aqi_spin_lock(&core.lock);
    st = am_dispatch_choose_indices(ep, table, count, chosen);
    for (size_t i = 0; i < count && st == AQ_OK; i++) {
        table[i].index = chosen[i];
        am_dispatch_set_handler(ep, chosen[i], &table[i], am_dispatch_accepts_of(table[i].accepts));
    }
    aqi_spin_unlock(&core.lock);
    return st;
}

/* --- receiving ------------------------------------------------------------------------------- */

static AQI_COLD void am_dispatch_refused(char *why, size_t room, const struct core_handler *h,
                                         unsigned index, uint32_t source, const struct aqi_am *am)
{
    static const char *const kinds[] = {
        [AQI_AM_SHORT] = "Short", [AQI_AM_MEDIUM] = "Medium", [AQI_AM_LONG] = "Long"};
    char takes[32] = "any number of";
    if (h->nargs != AQ_AM_ANY_ARGS) snprintf(takes, sizeof(takes), "%u", h->nargs);
    snprintf(why, room,
             "rank %u sent a %s %s with %u argument%s to handler %u (%s) of endpoint %u, which is "
             "registered for%s%s%s%s%s with %s argument%s",
             source, kinds[am->kind], am->flags & AQI_AM_IS_REPLY ? "reply" : "request", am->nargs,
             am->nargs == 1 ? "" : "s", am->handler, h->name ? h->name : "no name", index,
             h->accepts & AQ_AM_SHORT ? " Short" : "", h->accepts & AQ_AM_MEDIUM ? " Medium" : "",
             h->accepts & AQ_AM_LONG ? " Long" : "", h->accepts & AQ_AM_REQUEST ? " requests" : "",
             h->accepts & AQ_AM_REPLY ? " replies" : "", takes, h->nargs == 1 ? "" : "s");
}

/*
 * The handler for a message to `ep`: that of the first endpoint if `ep` shares those and has none.
 */
static const struct core_handler *am_dispatch_shared(const aq_ep *ep, aq_handler index)
{
    const struct core_handler *own = &ep->handlers[index];
    bool shared = (ep->capabilities & AQ_EP_AM_SHARED) != 0 && index >= AQ_HANDLER_BASE;
    bool none = atomic_load_explicit(&own->fn, memory_order_acquire) == NULL;
    return shared && none ? &core.ep.handlers[index] : own;
}

/*
 * The ranks disagree about endpoints or handlers, which only the receiver can detect. Dropping the
 * message would cause a silent hang.
 */
static AQI_COLD void am_dispatch_unwanted(const aq_ep *ep, uint32_t source, const struct aqi_am *am)
{
    unsigned index = aqi_am_to_ep(am->flags);
    const struct core_handler *h = ep != NULL ? am_dispatch_shared(ep, am->handler) : NULL;
    char why[300];
    if (ep == NULL || (ep->capabilities & AQ_EP_AM) == 0)
        snprintf(
            why, sizeof(why),
            "rank %u sent a message to endpoint %u, which %s: call %s in every process, then a "
            "barrier, before sending",
            source, index, ep == NULL ? "does not exist here" : "was created without AQ_EP_AM here",
            core.params.create_call);
    else if (h->fn == NULL)
        snprintf(why, sizeof(why),
                 "rank %u sent a message for handler %u, which is not registered with endpoint %u "
                 "here: call %s in every process, then a barrier, before sending",
                 source, am->handler, index, core.params.register_call);
    else
        am_dispatch_refused(why, sizeof(why), h, index, source, am);
    core.boot.fatal(core.boot.arg, why);
}

static AQI_COLD void am_dispatch_run_traced(aq_am_fn *fn, aq_am *am, const char *name)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_AM);
    fn(am);
    aqi_trace_end(AQI_TRACE_AM, name != NULL ? name : "handler", begun, am->source, am->nbytes);
}

/*
 * Run the handler `h` of `ep` for a message from endpoint `source_ep` of `source`, to which `route`
 * leads. Returns false if no handler accepts the message. (`am` is passed by value, so that its
 * fields stay in registers.)
 */
static inline bool am_dispatch_copy(aq_ep *ep, const struct core_handler *h,
                                    struct core_route *route, uint32_t source, unsigned source_ep,
                                    struct aqi_am am)
{
    aq_am_fn *fn = atomic_load_explicit(&h->fn, memory_order_acquire);
    bool is_reply = (am.flags & AQI_AM_IS_REPLY) != 0;
    uint8_t category = (uint8_t)(1u << (am.kind - 1));
    unsigned needs = category | (is_reply ? AQ_AM_REPLY : AQ_AM_REQUEST);
    if (AQI_UNLIKELY(fn == NULL || (needs & ~h->accepts) != 0 ||
                     (h->nargs != AQ_AM_ANY_ARGS && h->nargs != am.nargs)))
        return false;
    struct core_thread *me = core_self();
    struct core_message *outer = me->handling; /* a request whose reply waits for room */
    struct core_message message = {.am = {.args = am.args,
                                          .payload = (void *)(uintptr_t)am.payload,
                                          .nbytes = am.nbytes,
                                          .context = h->context,
                                          .ep = ep,
                                          .source = source,
                                          .nargs = am.nargs,
                                          .handler = am.handler,
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
        am_dispatch_run_traced(fn, &message.am, h->name);
    me->handling = outer;
    aqi_count(AQI_CTR_AM_RECEIVED, 1);
    if (am.nbytes != 0) aqi_count(AQI_CTR_AM_BYTES_IN, am.nbytes);
    return true;
}

static inline bool am_dispatch_run(aq_ep *ep, struct core_route *route, uint32_t source,
                                   unsigned source_ep, const struct aqi_am *am)
{
    return am_dispatch_copy(ep, &ep->handlers[am->handler], route, source, source_ep, *am);
}

/* Run a handler of the core, not one of the program. Returns false if there is none. */
static AQI_COLD bool am_dispatch_run_other(core_run_fn *run, aq_ep *ep, struct core_route *route,
                                           uint32_t source, unsigned source_ep,
                                           const struct aqi_am *am)
{
    return am->handler == CORE_HANDLER_ASKED &&
           core_asked_run(run, ep, route, source, source_ep, am);
}

static bool am_dispatch_run_shared(aq_ep *ep, struct core_route *route, uint32_t source,
                                   unsigned source_ep, const struct aqi_am *am)
{
    const struct core_handler *h = am_dispatch_shared(ep, am->handler);
    return am_dispatch_copy(ep, h, route, source, source_ep, *am);
}

/* A message to or from an endpoint after the first. */
static AQI_COLD void am_dispatch_run_further(uint32_t source, const struct aqi_am *am)
{
    unsigned source_ep = aqi_am_from_ep(am->flags);
    aq_ep *ep = atomic_load_explicit(&core.eps[aqi_am_to_ep(am->flags)], memory_order_acquire);
    if (ep == NULL || (ep->capabilities & AQ_EP_AM) == 0) {
        am_dispatch_unwanted(ep, source, am);
        return;
    }
    core_ep_reach(source_ep);
    struct core_route *route = core_ep_route(source_ep, source);
    if (!am_dispatch_run_shared(ep, route, source, source_ep, am) &&
        !am_dispatch_run_other(am_dispatch_run_shared, ep, route, source, source_ep, am))
        am_dispatch_unwanted(ep, source, am);
}

static inline void am_dispatch(uint32_t source, const struct aqi_am *am)
{
    if (AQI_UNLIKELY((am->flags & AQI_AM_EPS) != 0))
        am_dispatch_run_further(source, am);
    else if (AQI_UNLIKELY(!am_dispatch_run(&core.ep, &core.routes[source], source, 0, am)) &&
             !am_dispatch_run_other(am_dispatch_run, &core.ep, &core.routes[source], source, 0, am))
        am_dispatch_unwanted(&core.ep, source, am);
}

void core_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    (void)arg; /* `source` is below the size of the job: it is the rank passed to connect */
    am_dispatch(source, am);
}

bool core_deliver_conn(struct core_route *route, const struct aqi_am *am)
{
    if ((am->flags & AQI_AM_EPS) != 0) return false;
    if (am->handler < AQ_HANDLER_BASE)
        return am_dispatch_run_other(am_dispatch_run, &core.ep, route, 1, 0, am);
    return am_dispatch_run(&core.ep, route, 1, 0, am);
}

/* --- messages to this process ---------------------------------------------------------------- */

void *core_own_payload(struct core_thread *me, bool reply, const char *call)
{
    void **own = &me->own[reply];
    size_t most = core.routes[core.params.rank].max_medium; /* other routes may allow less */
    if (AQI_UNLIKELY(*own == NULL))
        *own = aligned_alloc(AQI_CACHE_LINE, aqi_round_up(most, AQI_CACHE_LINE));
    if (AQI_UNLIKELY(*own == NULL))
        aqi_fail(AQ_ENOMEM, "core", "%s: no memory for a payload of %zu bytes", call, most);
    return *own;
}

/* `am` is changed in place: copying a struct that was just written by fields is slow. */
aq_status core_run_own(const struct core_route *route, struct aqi_am *am, unsigned flags,
                       const char *call)
{
    struct core_thread *me = core_self();
    bool reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    if (am->kind == AQI_AM_MEDIUM) {
        void *copy = core_own_payload(me, reply, call);
        if (copy == NULL) return AQ_ENOMEM;
        if (am->payload != copy && am->nbytes != 0) memcpy(copy, am->payload, am->nbytes);
        am->payload = copy;
    } else if (am->kind == AQI_AM_LONG) {
        void *dst = (void *)(uintptr_t)am->addr;
        if (am->nbytes != 0) memmove(dst, am->payload, am->nbytes);
        am->payload = dst;
    }
    uint64_t begun = aqi_trace_begin(AQI_TRACE_AM);
    core_count_sent(am->nbytes);
    am_dispatch(route->rank, am);
    aqi_trace_end(AQI_TRACE_AM, call, begun, route->rank, am->nbytes);
    if (!reply && (flags & AQ_IMMEDIATE) == 0) core_done_directly(me);
    return AQ_OK;
}

static AQI_COLD aq_status am_run_own_short_slow(const struct core_route *route, aq_handler handler,
                                                const aq_arg *args, unsigned nargs, unsigned flags,
                                                const char *call)
{
    struct aqi_am am = {
        .kind = AQI_AM_SHORT, .handler = handler, .nargs = (uint8_t)nargs, .args = args};
    return core_run_own(route, &am, flags, call);
}

aq_status core_run_own_short(struct core_route *route, aq_handler handler, const aq_arg *args,
                             unsigned nargs, unsigned flags, const char *call)
{
    const struct aqi_am am = {
        .kind = AQI_AM_SHORT, .handler = handler, .nargs = (uint8_t)nargs, .args = args};
    if (AQI_UNLIKELY(aqi_tracing(AQI_TRACE_AM)) ||
        AQI_UNLIKELY(
            !am_dispatch_copy(&core.ep, &core.ep.handlers[handler], route, route->rank, 0, am)))
        return am_run_own_short_slow(route, handler, args, nargs, flags, call);
    aqi_count(AQI_CTR_AM_SENT, 1);
    if ((flags & AQ_IMMEDIATE) == 0) core_done_directly(core_thread_mine);
    return AQ_OK;
}
