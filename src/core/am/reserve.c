/* Active messages with a negotiated payload: reserve, write the payload in place, commit. */
#include "core/am/am.h"

#include <stdlib.h>

/* The private part of a buffer. */
struct __attribute__((may_alias)) am_reserved {
    struct core_route *route; /* NULL: not reserved, or used up */
    struct core_message *to;  /* the request to be replied to; NULL: the buffer is a request */
    struct aqi_slot *slot;
    uint32_t flags, nargs;
};
static_assert(sizeof(struct am_reserved) <= sizeof(((aq_am_buffer *)0)->aqi_opaque),
              "the public struct has room");

static struct am_reserved *am_reserved_of(aq_am_buffer *buffer)
{
    return (struct am_reserved *)buffer->aqi_opaque;
}

/* The owner of the bytes, in `flags` between the category and the flags of the message. */
enum {
    MESSAGE_FLAGS = 16, /* from this bit */
    OWNED_BY_CLIENT = 0x100,
    OWNED_BY_TRANSPORT = 0x200, /* a slot of the transport: the payload is written once */
    OWNED_BY_HEAP = 0x400       /* a Long: its destination is known only at commit */
};

/* The library's buffer for a Long is a temporary copy, no larger unless the caller needs more. */
static const size_t long_scratch = 65536;

static aq_status am_reserve_find_room(struct core_route *route, bool is_reply, unsigned nargs,
                                      size_t nbytes, unsigned flags, struct aqi_slot *slot)
{
    struct aqi_tp *tp = route->tp;
    struct core_wait wait = {0};
    aq_status st;
    do
        st = tp->ops.am_reserve(tp, route->peer, is_reply, nargs, nbytes, slot);
    while (core_retry(&st, &wait, route, is_reply, flags));
    return st;
}

static aq_status am_reserve_check(const char *call, unsigned category, size_t least, size_t most,
                                  unsigned nargs, unsigned flags, aq_am_buffer *buffer)
{
    if (buffer == NULL) return aqi_fail(AQ_EINVAL, "core", "%s: buffer is NULL", call);
    if (category != AQ_AM_MEDIUM && category != AQ_AM_LONG)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: category %#x is neither AQ_AM_MEDIUM nor AQ_AM_LONG", call, category);
    if (most < least)
        return aqi_fail(AQ_EINVAL, "core", "%s: least (%zu) is greater than most (%zu)", call,
                        least, most);
    if (nargs > AQ_AM_MAX_ARGS || (flags & ~AQ_IMMEDIATE) != 0)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: %u arguments (the maximum is %u), or unknown flags %#x", call, nargs,
                        AQ_AM_MAX_ARGS, flags & ~AQ_IMMEDIATE);
    return AQ_OK;
}

/*
 * Inlined, and each field of `*out` is written once: while the slot of an earlier message is
 * fetched from a distant core, messages wait in the store buffer, which holds only a few.
 */
static AQI_INLINE aq_status reserve(const char *call, struct core_route *route,
                                    struct core_message *to, unsigned category,
                                    const void *client_buf, size_t least, size_t most,
                                    unsigned nargs, unsigned flags, uint8_t message_flags,
                                    aq_am_buffer *out)
{
    struct core_thread *me = core_self();
    size_t limit = category == AQ_AM_LONG ? core.max_long : route->max_medium;
    if (least > limit)
        return aqi_fail(AQ_ESIZE, "core", "%s: at least %zu bytes requested; the maximum is %zu",
                        call, least, limit);
    void *addr = (void *)(uintptr_t)client_buf;
    size_t size = aqi_min(most, limit);
    struct aqi_slot *slot = NULL;
    uint32_t owner = 0;
    aq_status st = AQ_OK;
    if (client_buf != NULL) {
        owner = OWNED_BY_CLIENT;
    } else if (category == AQ_AM_MEDIUM && route->self) { /* of the thread: nothing to release */
        addr = core_own_payload(me, to != NULL, call);
        if (addr == NULL) st = AQ_ENOMEM;
    } else if (category == AQ_AM_MEDIUM) {
        slot = &me->slot[to != NULL];
        st = am_reserve_find_room(route, to != NULL, nargs, size, flags, slot);
        addr = slot->payload;
        owner = OWNED_BY_TRANSPORT;
    } else {
        size = aqi_max(least, aqi_min(size, long_scratch));
        addr = aligned_alloc(16, aqi_round_up(size + 1, 16));
        owner = OWNED_BY_HEAP;
        if (addr == NULL)
            st = aqi_fail(AQ_ENOMEM, "core", "%s: no memory for %zu bytes", call, size);
    }
    if (AQI_UNLIKELY(st != AQ_OK)) return st == AQ_EPEER ? core_lost(route, call) : st;
    out->addr = addr;
    out->size = size;
    *am_reserved_of(out) =
        (struct am_reserved){.route = route,
                             .to = to,
                             .slot = slot,
                             .flags = category | owner | (uint32_t)message_flags << MESSAGE_FLAGS,
                             .nargs = nargs};
    return AQ_OK;
}

aq_status aq_am_reserve(aq_team *team, aq_rank rank, unsigned category, const void *client_buf,
                        size_t least, size_t most, unsigned nargs, unsigned flags,
                        aq_am_buffer *buffer)
{
    aq_status st = core_callable(core_self(), __func__);
    if (st == AQ_OK) st = am_reserve_check(__func__, category, least, most, nargs, flags, buffer);
    if (st != AQ_OK) return st;
    struct core_route *route = core_route_to(team, rank, __func__, &st);
    uint8_t eps;
    if (route != NULL) route = core_message_route(team, route, __func__, &eps, &st);
    if (route == NULL) return st;
    return reserve(__func__, route, NULL, category, client_buf, least, most, nargs, flags, eps,
                   buffer);
}

aq_status aq_am_reserve_reply(aq_am *am, unsigned category, const void *client_buf, size_t least,
                              size_t most, unsigned nargs, unsigned flags, aq_am_buffer *buffer)
{
    aq_status st = am_reserve_check(__func__, category, least, most, nargs, flags, buffer);
    if (st != AQ_OK) return st;
    struct core_message *to = core_begin_reply(__func__, am, &st);
    if (to == NULL) return st;
    st = reserve(__func__, to->route, to, category, client_buf, least, most, nargs, flags,
                 to->reply_flags, buffer);
    if (st == AQ_OK) to->replied = true;
    return st;
}

/* Send from a slot of the transport; one built by the fallback layer may have to wait for room. */
static aq_status am_reserve_commit_slot(const struct am_reserved *reserved, struct aqi_am *am,
                                        unsigned flags)
{
    struct core_route *route = reserved->route;
    struct core_wait wait = {0};
    struct aqi_tp *tp = route->tp;
    aq_status st;
    while ((st = tp->ops.am_commit(tp, route->peer, reserved->slot, am)) == AQ_AGAIN) {
        st = core_wait_for_room(&wait, route, reserved->to != NULL, flags);
        if (st == AQ_OK) continue;
        if (st != AQ_AGAIN) (void)tp->ops.am_commit(tp, route->peer, reserved->slot, NULL);
        return st;
    }
    if (st == AQ_OK) core_count_sent(am->nbytes);
    return st;
}

aq_status aq_am_commit(aq_am_buffer *buffer, aq_handler handler, size_t nbytes, void *dst,
                       const aq_arg *args, unsigned nargs, unsigned flags)
{
    struct am_reserved *reserved = buffer != NULL ? am_reserved_of(buffer) : NULL;
    struct core_route *route = reserved != NULL ? reserved->route : NULL;
    if (route == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: the buffer is not reserved, or has been used",
                        __func__);
    if (nbytes > buffer->size)
        return aqi_fail(AQ_ESIZE, "core", "%s: %zu bytes; the buffer has %zu", __func__, nbytes,
                        buffer->size);
    if (nargs != reserved->nargs)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: %u arguments; %u were announced when the buffer was reserved",
                        __func__, nargs, reserved->nargs);
    aq_status st = core_check_message(__func__, handler, args, nargs, flags);
    if (st != AQ_OK) return st;
    bool is_long = (reserved->flags & AQ_AM_LONG) != 0;
    struct aqi_am am = {.kind = is_long ? AQI_AM_LONG : AQI_AM_MEDIUM,
                        .handler = handler,
                        .nargs = (uint8_t)nargs,
                        .flags = (uint8_t)(reserved->flags >> MESSAGE_FLAGS),
                        .nbytes = (uint32_t)nbytes,
                        .addr = (uint64_t)(uintptr_t)dst,
                        .args = args,
                        .payload = buffer->addr};
    struct core_asked *ask = reserved->to != NULL ? core_thread_mine->asked : NULL;
    if (ask != NULL) st = core_asked_reply(ask, &am, __func__);
    if (st != AQ_OK) return st;
    if (reserved->flags & OWNED_BY_TRANSPORT) {
        uint64_t begun = aqi_trace_begin(AQI_TRACE_AM);
        st = am_reserve_commit_slot(reserved, &am, flags);
        aqi_trace_end(AQI_TRACE_AM, __func__, begun, (uint32_t)route->rank, nbytes);
        if (st == AQ_EPEER) st = core_lost(route, __func__);
    } else
        st = core_send(route, &am, flags, __func__);
    if (st == AQ_ERANGE || st == AQ_AGAIN) return st; /* still usable */
    if (ask != NULL) ask->replied = st == AQ_OK;
    if (reserved->flags & OWNED_BY_HEAP) free(buffer->addr);
    reserved->route = NULL;
    return st;
}

void aq_am_cancel(aq_am_buffer *buffer)
{
    struct am_reserved *reserved = buffer != NULL ? am_reserved_of(buffer) : NULL;
    struct core_route *route = reserved != NULL ? reserved->route : NULL;
    if (route == NULL) return;
    if (reserved->flags & OWNED_BY_TRANSPORT)
        (void)route->tp->ops.am_commit(route->tp, route->peer, reserved->slot, NULL);
    if (reserved->flags & OWNED_BY_HEAP) free(buffer->addr);
    if (reserved->to != NULL) reserved->to->replied = false;
    reserved->route = NULL;
}
