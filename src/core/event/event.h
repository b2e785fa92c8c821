/* The completion of operations. */
#ifndef AQI_CORE_EVENT_H
#define AQI_CORE_EVENT_H

#include "core/wait/wait.h"

/* How an operation completes. */
enum core_mode { BLOCKING, EXPLICIT, IMPLICIT };
/*
 * event.c: start what a transport carries, counted in the kind at `kind` (an offset in a core_set)
 * of the thread, of an event or of this call, which then waits.
 */
aq_status core_carry(enum core_mode mode, size_t kind, const struct core_route *route,
                     aq_status (*start)(void *arg, struct aqi_comp *comp), void *arg,
                     aq_event *event, const char *call);
/* An operation is started with its counters already added. */
struct aqi_op *core_op_get(struct core_thread *me);
void core_op_put(struct aqi_op *op);
static inline struct core_set *core_implicit(struct core_thread *me)
{
    return me->region != NULL ? &me->region->set : &me->nbi;
}

/* Looks for members in other collectives when a wait for events has been long: set by coll, else
 * `busy` is NULL. */
struct core_stuck_check {
    const _Atomic uint32_t *busy; /* 0: there are no collectives */
    bool (*due)(const struct core_wait *wait);
    void (*waits)(const struct aqi_op *op); /* for each event without which the wait cannot end */
    void (*over)(void);                     /* once after such a wait */
};
extern struct core_stuck_check core_stuck_check;

#endif
