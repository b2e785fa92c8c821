/* Shared by the two files of scattered transfers: the transfer, and its way by messages. */
#ifndef AQI_CORE_VIS_IMPL_H
#define AQI_CORE_VIS_IMPL_H

#include "core/am/am.h"
#include "core/mem/mem.h"
#include "core/rma/rma.h"
#include "core/vis/runs.h"

/* A transfer of both sides, checked. */
struct vis_transfer {
    struct core_route *route;
    struct vis_side remote, local;
    bool get;
    unsigned flags;
    const char *call;
    bool begun; /* something of it is under way */
};

/*
 * Start it (a struct vis_transfer) with puts or gets for the large pieces and packed messages for
 * the small ones, waiting for room unless it is the first and AQ_IMMEDIATE is set; counts in
 * `comp`. Parts that have begun go on after an error, which is reported to the caller that waits.
 */
aq_status vis_carry(void *transfer, struct aqi_comp *comp);

#endif
