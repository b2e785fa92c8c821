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

#endif
