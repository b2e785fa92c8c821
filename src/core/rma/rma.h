/* Put and get: the interface to other folders. */
#ifndef AQI_CORE_RMA_H
#define AQI_CORE_RMA_H

#include "base/copy.h"
#include "core/event/event.h"

/* rma.c: start a put or get of the transport, counted in `comp`. */
#define CORE_RMA_FLAGS (AQ_IMMEDIATE | AQ_REMOTE_OFFSET)
#define CORE_PUT_FLAGS (CORE_RMA_FLAGS | AQ_LOCAL_NOW)
aq_status core_start_run(struct core_route *route, bool get, uint64_t remote, void *local,
                         size_t len, unsigned flags, struct aqi_comp *comp, const char *call);

/*
 * The route of a call in the common case: no flags, no trace, a thread with counters, and valid
 * arguments. NULL: take the general path. Makes no call, so that its caller need not save
 * registers.
 */
static AQI_INLINE struct core_route *core_usual_route(const aq_team *team, aq_rank rank,
                                                      uint64_t remote, const void *local,
                                                      size_t len, unsigned flags)
{
    if (AQI_UNLIKELY(flags != 0 || aqi_tracing(AQI_TRACE_RMA) || !core_may_call(core_thread_mine) ||
                     aqi_counters_mine == NULL || team == NULL || rank >= team->size ||
                     local == NULL))
        return NULL;
    struct core_route *route = core_team_route(team, rank);
    const uint64_t offset = remote - route->seg_addr;
    return AQI_LIKELY(len - 1 < route->seg_size && offset <= route->seg_size - len) ? route : NULL;
}

static AQI_INLINE void core_count_run(struct aqi_counters *counters, bool get, size_t len)
{
    aqi_count_in(counters, get ? AQI_CTR_GET : AQI_CTR_PUT, 1);
    aqi_count_in(counters, get ? AQI_CTR_GET_BYTES : AQI_CTR_PUT_BYTES, len);
}

/* Copy up to AQI_COPY_FEW bytes to or from mapped memory. */
static AQI_INLINE void core_copy_few(const struct core_route *route, bool get, uint64_t remote,
                                     void *local, size_t len)
{
    unsigned char *at = route->local + (remote - route->seg_addr);
    if (get) atomic_thread_fence(memory_order_acquire);
    aqi_copy_few(get ? local : at, get ? at : local, len);
    /* A thread that learns of the put (message, barrier, flag) sees its bytes. */
    if (!get) atomic_thread_fence(memory_order_release);
}

void core_domains_close(void);

/*
 * Define aq_NAME, aq_NAME_nb and aq_NAME_nbi: PARAMS without the last ones, followed by the
 * arguments that WAY gets after the mode, the event, the name and the flags.
 */
#define CORE_FORMS(NAME, WAY, PARAMS, ...)                                                         \
    aq_status aq_##NAME(PARAMS, unsigned flags)                                                    \
    {                                                                                              \
        return WAY(BLOCKING, NULL, __func__, flags, __VA_ARGS__);                                  \
    }                                                                                              \
    aq_status aq_##NAME##_nb(PARAMS, unsigned flags, aq_event *ev)                                 \
    {                                                                                              \
        return WAY(EXPLICIT, ev, __func__, flags, __VA_ARGS__);                                    \
    }                                                                                              \
    aq_status aq_##NAME##_nbi(PARAMS, unsigned flags)                                              \
    {                                                                                              \
        return WAY(IMPLICIT, NULL, __func__, flags, __VA_ARGS__);                                  \
    }
#define CORE_PARAMS(...) __VA_ARGS__

/* Likewise, each by FORM(NAME, mode, event, (parameters), (their names), ...). */
#define CORE_FORMS_BY(FORM, NAME, PARAMS, VALUES, ...)                                             \
    FORM(NAME, BLOCKING, NULL, (CORE_PARAMS PARAMS, unsigned flags), (CORE_PARAMS VALUES, flags),  \
         __VA_ARGS__)                                                                              \
    FORM(NAME##_nb, EXPLICIT, ev, (CORE_PARAMS PARAMS, unsigned flags, aq_event *ev),              \
         (CORE_PARAMS VALUES, flags, ev), __VA_ARGS__)                                             \
    FORM(NAME##_nbi, IMPLICIT, NULL, (CORE_PARAMS PARAMS, unsigned flags),                         \
         (CORE_PARAMS VALUES, flags), __VA_ARGS__)

#endif
