/* Shared by vis.c and carry.c: a transfer, and carrying it by the transport. */
#ifndef AQI_CORE_VIS_IMPL_H
#define AQI_CORE_VIS_IMPL_H

#include "core/am/am.h"
#include "core/mem/mem.h"
#include "core/rma/rma.h"
#include "core/vis/runs.h"

/* A checked transfer, with both sides. */
struct vis_transfer {
    struct core_route *route;
    struct vis_side remote, local;
    bool get;
    unsigned flags;
    const char *call;
    bool begun; /* some part is in flight */
};

/*
 * Start `transfer` (a struct vis_transfer) with puts or gets for large pieces and packed messages
 * for small ones, waiting for room, except for the first one if AQ_IMMEDIATE is set; counts in
 * `comp`. After an error, parts that have begun continue, and the error is reported in `comp`.
 */
aq_status vis_carry(void *transfer, struct aqi_comp *comp);

#endif
