/* The completion of operations. */
#ifndef AQI_CORE_EVENT_H
#define AQI_CORE_EVENT_H

#include "core/wait/wait.h"

/*
 * Why the operation with this counter is going to fail with this status, for the message of its
 * failure. Only the last few are kept.
 */
AQI_COLD void core_event_note(const struct aqi_comp *comp, aq_status status, const char *why);

/* How an operation completes. */
enum core_mode { BLOCKING, EXPLICIT, IMPLICIT };
/* The counters of an operation are incremented before it is started. */
AQI_COLD struct aqi_op *core_op_none(void);
static inline struct aqi_op *core_op_get(struct core_thread *me)
{
    struct aqi_op *op = aqi_pool_get(&me->ops);
    if (AQI_UNLIKELY(op == NULL)) return core_op_none();
    core_set_init(&op->set);
    op->owner = me;
    return op;
}
static inline void core_op_put(struct aqi_op *op)
{
    aqi_pool_put(&op->owner->ops, op);
}
static inline struct core_set *core_implicit(struct core_thread *me)
{
    return me->region != NULL ? &me->region->set : &me->nbi;
}

aq_status core_carry_and_wait(const struct core_route *route,
                              aq_status (*start)(void *arg, struct aqi_comp *comp), void *arg,
                              const char *call);
static inline struct aqi_comp *core_kind_at(struct core_set *set, size_t kind)
{
    return (struct aqi_comp *)(void *)((char *)set + kind);
}

/*
 * Start an operation of the transport. It is counted under `kind` (an offset in a core_set) of the
 * thread, of an event, or of this call, which then waits.
 */
static inline aq_status core_carry(enum core_mode mode, size_t kind, const struct core_route *route,
                                   aq_status (*start)(void *arg, struct aqi_comp *comp), void *arg,
                                   aq_event *event, const char *call)
{
    struct core_thread *me = core_self();
    if (mode == IMPLICIT) return start(arg, core_kind_at(core_implicit(me), kind));
    if (mode == BLOCKING) return core_carry_and_wait(route, start, arg, call);
    struct aqi_op *op = core_op_get(me);
    if (AQI_UNLIKELY(op == NULL)) return AQ_ENOMEM;
    aq_status st = start(arg, core_kind_at(&op->set, kind));
    if (AQI_LIKELY(st == AQ_OK))
        *event = op;
    else
        core_op_put(op);
    return st;
}

/* Checks, after a long wait, for members in other collectives; set by coll, else `busy` is NULL. */
struct core_stuck_check {
    const _Atomic uint32_t *busy; /* 0: there are no collectives */
    bool (*due)(const struct core_wait *wait);
    void (*waits)(const struct aqi_op *op); /* called for each event that the wait needs */
    void (*over)(void);                     /* called once after such a wait */
};
extern struct core_stuck_check core_stuck_check;

#endif
