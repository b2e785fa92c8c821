/* Put and get: what the rooms above use. */
#ifndef AQI_CORE_RMA_H
#define AQI_CORE_RMA_H

#include "core/event/event.h"

/* rma.c: start a put or get that the transport carries; counts in `comp`. */
#define CORE_RMA_FLAGS (AQ_IMMEDIATE | AQ_REMOTE_OFFSET)
#define CORE_PUT_FLAGS (CORE_RMA_FLAGS | AQ_LOCAL_NOW)
aq_status core_start_run(struct core_route *route, bool get, uint64_t remote, void *local,
                         size_t len, unsigned flags, struct aqi_comp *comp, const char *call);

void core_domains_close(void);

/* aq_NAME, aq_NAME_nb and aq_NAME_nbi: its parameters without the last ones, and what WAY gets
 * after the mode, the place for the event, the name and the flags. */
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

#endif
