/* Events: operations with local and remote completion, implicit sets, access regions. */
#include "core/event/event.h"

#include <stdio.h>
#include <string.h>

struct core_stuck_check core_stuck_check;

/* A leaf is its root's pointer, with the kinds that it covers in the lowest bits. */
#define LEAF_BITS ((uintptr_t)AQ_NBI_ALL)

struct aqi_op *core_op_none(void)
{
    aqi_fail(AQ_ENOMEM, "core", "no memory for another event");
    return NULL;
}

aq_status core_carry_and_wait(const struct core_route *route,
                              aq_status (*start)(void *arg, struct aqi_comp *comp), void *arg,
                              const char *call)
{
    struct aqi_comp comp = {.shared = core.multi};
    aq_status st = start(arg, &comp);
    /* Even after a failure: a part may be in flight. */
    core_wait_comp(&comp);
    if (st != AQ_OK || comp.status == AQ_OK) return st;
    return core_failed(route, (aq_status)comp.status, call);
}

/* --- failures ----------------------------------------------------------------------------------
 */

enum { EVENT_NOTES = 16, EVENT_NOTE = 200 };

static struct {
    struct aqi_spin lock;
    unsigned next;
    struct {
        const struct aqi_comp *comp; /* NULL: unused */
        aq_status status;
        char why[EVENT_NOTE];
    } all[EVENT_NOTES];
} notes;

void core_event_note(const struct aqi_comp *comp, aq_status status, const char *why)
{
    aqi_spin_lock(&notes.lock);
    unsigned i = notes.next++ % EVENT_NOTES;
    notes.all[i].comp = comp;
    notes.all[i].status = status;
    snprintf(notes.all[i].why, sizeof(notes.all[i].why), "%s", why);
    aqi_spin_unlock(&notes.lock);
}

static AQI_COLD aq_status event_failed(const struct aqi_comp *comp, aq_status status)
{
    char why[EVENT_NOTE];
    snprintf(why, sizeof(why), "%s", aq_status_text(status));
    aqi_spin_lock(&notes.lock);
    for (unsigned i = 0; i < EVENT_NOTES; i++) {
        if (notes.all[i].comp != comp) continue;
        notes.all[i].comp = NULL;
        if (notes.all[i].status == status) memcpy(why, notes.all[i].why, sizeof(why));
    }
    aqi_spin_unlock(&notes.lock);
    return aqi_fail(status, "core", "an operation in progress failed: %s", why);
}

/* --- completion ------------------------------------------------------------------------------ */

static inline uint32_t event_left(const _Atomic uint32_t *counter)
{
    return atomic_load_explicit(counter, memory_order_acquire);
}

static inline bool event_is_leaf(aq_event event)
{
    return ((uintptr_t)event & LEAF_BITS) != 0;
}

static inline struct aqi_op *event_op_of(aq_event event)
{
    return (struct aqi_op *)((uintptr_t)event & ~LEAF_BITS);
}

/* Whether the kinds in `mask` are complete. Remote completion of a put includes the local one. */
static bool event_set_complete(struct core_set *set, unsigned mask)
{
    if ((mask & (AQ_NBI_PUT | AQ_NBI_LOCAL)) && event_left(&set->put.local) != 0) return false;
    if ((mask & AQ_NBI_LOCAL) && event_left(&set->message.local) != 0) return false;
    if ((mask & AQ_NBI_PUT) && event_left(&set->put.remote) != 0) return false;
    if ((mask & AQ_NBI_GET) && event_left(&set->get.remote) != 0) return false;
    if ((mask & AQ_NBI_ATOMIC) && event_left(&set->atomic.remote) != 0) return false;
    return true;
}

/* Whether all kinds are complete, in one check. */
static inline bool event_set_is_over(const struct core_set *set)
{
    return (event_left(&set->put.local) | event_left(&set->put.remote) |
            event_left(&set->get.remote) | event_left(&set->atomic.remote) |
            event_left(&set->message.local)) == 0;
}

static inline int32_t event_status_of(const struct aqi_comp *comp)
{
    return atomic_load_explicit(&comp->status, memory_order_relaxed);
}

/* Returns the first failure of the kinds in `mask`, and clears it. */
static AQI_COLD aq_status event_set_failure(struct core_set *set, unsigned mask)
{
    struct {
        unsigned bit;
        struct aqi_comp *comp;
    } kinds[] = {{AQ_NBI_PUT, &set->put},
                 {AQ_NBI_GET, &set->get},
                 {AQ_NBI_ATOMIC, &set->atomic},
                 {AQ_NBI_LOCAL, &set->message}};
    for (unsigned i = 0; i < AQI_COUNT_OF(kinds); i++) {
        if ((mask & kinds[i].bit) == 0 || event_status_of(kinds[i].comp) == AQ_OK) continue;
        aq_status st = (aq_status)atomic_exchange(&kinds[i].comp->status, AQ_OK);
        return event_failed(kinds[i].comp, st);
    }
    return AQ_OK;
}

static inline int32_t event_set_any_status(const struct core_set *set)
{
    return event_status_of(&set->put) | event_status_of(&set->get) | event_status_of(&set->atomic) |
           event_status_of(&set->message);
}

static inline aq_status event_set_status(struct core_set *set, unsigned mask)
{
    return AQI_LIKELY(event_set_any_status(set) == AQ_OK) ? AQ_OK : event_set_failure(set, mask);
}

static inline bool event_complete(aq_event event)
{
    unsigned mask = (unsigned)((uintptr_t)event & LEAF_BITS);
    if (AQI_LIKELY(mask == 0)) return event_set_is_over(&event->set);
    return event_set_complete(&event_op_of(event)->set, mask);
}

/* Release a complete event, and return its status. */
static inline aq_status event_consume(aq_event *event)
{
    aq_event done = *event;
    *event = AQ_EVENT_DONE;
    if (event_is_leaf(done)) return AQ_OK;
    aq_status st = event_set_status(&done->set, AQ_NBI_ALL);
    core_op_put(done);
    return st;
}

/* --- single events --------------------------------------------------------------------------- */

aq_event aq_event_leaf(aq_event root, unsigned mask)
{
    mask &= AQ_NBI_ALL;
    if (root == AQ_EVENT_DONE || event_is_leaf(root)) return root;
    if (mask == 0 || event_set_complete(&root->set, mask)) return AQ_EVENT_DONE;
    return (aq_event)((uintptr_t)root | mask);
}

aq_event aq_event_local(aq_event root)
{
    return aq_event_leaf(root, AQ_NBI_LOCAL);
}

aq_status aq_event_test(aq_event *event)
{
    if (event == NULL) return aqi_fail(AQ_EINVAL, "core", "aq_event_test: the event is NULL");
    if (*event == AQ_EVENT_DONE) return AQ_OK;
    return event_complete(*event) ? event_consume(event) : AQ_AGAIN;
}

/* --- several events -------------------------------------------------------------------------- */

/* `root` is complete, and so are its leaves, even those that were not yet complete when checked. */
static AQI_COLD void event_end_leaves(aq_event *events, size_t count, aq_event root, size_t *done,
                                      size_t *left)
{
    for (size_t i = 0; i < count; i++) {
        if (!event_is_leaf(events[i]) || event_op_of(events[i]) != root) continue;
        events[i] = AQ_EVENT_DONE;
        ++*done;
        --*left;
    }
}

/*
 * Check each event once. `*done` counts those found complete, `*left` those still pending. Leaves
 * before roots: consuming a root ends its leaves, which may be in the same array.
 */
static aq_status event_look(aq_event *events, size_t count, size_t *done, size_t *left)
{
    aq_status st = AQ_OK;
    *done = *left = 0;
    for (int roots = 0; roots < 2; roots++) {
        for (size_t i = 0; i < count; i++) {
            if (events[i] == AQ_EVENT_DONE || event_is_leaf(events[i]) == (roots == 1)) continue;
            if (!event_complete(events[i])) {
                ++*left;
                continue;
            }
            ++*done;
            if (roots && AQI_UNLIKELY(*left != 0))
                event_end_leaves(events, count, events[i], done, left);
            aq_status one = event_consume(&events[i]);
            if (st == AQ_OK) st = one;
        }
    }
    return st;
}

static AQI_COLD aq_status event_no_events(const char *call)
{
    return aqi_fail(AQ_EINVAL, "core", "%s: events is NULL", call);
}

/* Report pending events to the stuck check: some may be of collectives. Always returns true. */
static AQI_COLD bool event_look_for_causes(const aq_event *events, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (events[i] != AQ_EVENT_DONE) core_stuck_check.waits(event_op_of(events[i]));
    return true;
}

static aq_status event_wait_for(aq_event *events, size_t count, bool some, uint64_t timeout_ns,
                                const char *call)
{
    struct core_wait wait = {0};
    struct core_thread *me = core_self();
    size_t done, left;
    bool asked = false, over = false;
    aq_status st = core_callable(me, call);
    if (st != AQ_OK) return st;
    if (events == NULL && count != 0) return event_no_events(call);
    struct core_waiting waiting = core_wait_begin(AQI_TRACE_WAIT, AQI_DOING_EVENT);
    core_wait_limit(me, timeout_ns);
    for (;;) {
        aq_status one = event_look(events, count, &done, &left);
        if (st == AQ_OK) st = one;
        if (left == 0 || (some && done != 0)) break;
        if (over) break;
        over = core_wait_is_over(me); /* check once more */
        core_wait_step(&wait, CORE_SLEEP_MS);
        const _Atomic uint32_t *busy = core_stuck_check.busy;
        if (AQI_LIKELY(busy == NULL || atomic_load_explicit(busy, memory_order_relaxed) == 0))
            continue;
        if ((!some || count == 1) && core_stuck_check.due(&wait))
            asked = event_look_for_causes(events, count);
    }
    core_wait_limit(me, UINT64_MAX);
    if (AQI_UNLIKELY(asked)) core_stuck_check.over();
    core_wait_end(AQI_TRACE_WAIT, call, waiting, 0);
    return st != AQ_OK || left == 0 || (some && done != 0) ? st : AQ_AGAIN;
}

/* Operations by load and store were complete on return: the usual case on one host. */
static inline bool event_all_done(const aq_event *events, size_t count)
{
    size_t i = 0;
    if (AQI_UNLIKELY(events == NULL || aqi_tracing(AQI_TRACE_WAIT))) return false;
    while (i < count && events[i] == AQ_EVENT_DONE)
        i++;
    return i == count;
}

aq_status aq_event_wait(aq_event *event, uint64_t timeout_ns)
{
    if (AQI_LIKELY(event != NULL && *event == AQ_EVENT_DONE))
        return core_callable(core_self(), __func__);
    return event_wait_for(event, 1, false, timeout_ns, __func__);
}

aq_status aq_event_wait_all(aq_event *events, size_t count, uint64_t timeout_ns)
{
    if (AQI_LIKELY(event_all_done(events, count))) return core_callable(core_self(), __func__);
    return event_wait_for(events, count, false, timeout_ns, __func__);
}

aq_status aq_event_wait_some(aq_event *events, size_t count, uint64_t timeout_ns)
{
    return event_wait_for(events, count, true, timeout_ns, __func__);
}

aq_status aq_event_test_all(aq_event *events, size_t count)
{
    size_t done, left;
    if (AQI_LIKELY(event_all_done(events, count))) return AQ_OK;
    if (AQI_UNLIKELY(events == NULL && count != 0)) return event_no_events(__func__);
    aq_status st = event_look(events, count, &done, &left);
    return st != AQ_OK ? st : left == 0 ? AQ_OK : AQ_AGAIN;
}

aq_status aq_event_test_some(aq_event *events, size_t count)
{
    size_t done, left;
    if (AQI_UNLIKELY(events == NULL && count != 0)) return event_no_events(__func__);
    aq_status st = event_look(events, count, &done, &left);
    return st != AQ_OK ? st : done != 0 || left == 0 ? AQ_OK : AQ_AGAIN;
}

/* --- implicit operations --------------------------------------------------------------------- */

static aq_status event_implicit_set(const char *call, unsigned mask, struct core_thread **me)
{
    *me = atomic_load(&core.open) ? core_self() : NULL;
    aq_status st = core_callable(*me, call);
    if (st != AQ_OK) return st;
    if (mask == 0 || (mask & ~AQ_NBI_ALL) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: mask %#x contains bits that are not AQ_NBI_ bits",
                        call, mask);
    if ((*me)->region != NULL)
        return aqi_fail(AQ_ESTATE, "core",
                        "%s: called inside an access region: call aq_nbi_end first", call);
    return AQ_OK;
}

aq_status aq_nbi_test(unsigned mask)
{
    struct core_thread *me;
    aq_status st = event_implicit_set("aq_nbi_test", mask, &me);
    if (st != AQ_OK) return st;
    return event_set_complete(&me->nbi, mask) ? event_set_status(&me->nbi, mask) : AQ_AGAIN;
}

static AQI_NOINLINE aq_status event_nbi_wait(unsigned mask, uint64_t timeout_ns)
{
    struct core_wait wait = {0};
    struct core_thread *me;
    bool over = false;
    aq_status st = event_implicit_set("aq_nbi_wait", mask, &me);
    if (st != AQ_OK) return st;
    struct core_waiting waiting = core_wait_begin(AQI_TRACE_WAIT, AQI_DOING_EVENT);
    core_wait_limit(me, timeout_ns);
    while (!event_set_complete(&me->nbi, mask) && !over) {
        over = core_wait_is_over(me);
        core_wait_step(&wait, CORE_SLEEP_MS);
    }
    core_wait_limit(me, UINT64_MAX);
    core_wait_end(AQI_TRACE_WAIT, "aq_nbi_wait", waiting, 0);
    return event_set_complete(&me->nbi, mask) ? event_set_status(&me->nbi, mask) : AQ_AGAIN;
}

/* The fast path: usually nothing is in flight, and nothing has failed. */
aq_status aq_nbi_wait(unsigned mask, uint64_t timeout_ns)
{
    struct core_thread *me = core_thread_mine;
    if (AQI_UNLIKELY(!core_may_call(me) || me->region != NULL || aqi_tracing(AQI_TRACE_WAIT) ||
                     mask - 1 >= AQ_NBI_ALL || !event_set_is_over(&me->nbi) ||
                     event_set_any_status(&me->nbi) != AQ_OK))
        return event_nbi_wait(mask, timeout_ns);
    return AQ_OK;
}

aq_status aq_nbi_begin(void)
{
    struct core_thread *me;
    aq_status st = event_implicit_set("aq_nbi_begin", AQ_NBI_ALL, &me);
    if (st != AQ_OK) return st;
    me->region = core_op_get(me);
    return me->region != NULL ? AQ_OK : AQ_ENOMEM;
}

aq_status aq_nbi_end(aq_event *event)
{
    struct core_thread *me = atomic_load(&core.open) ? core_self() : NULL;
    aq_status st = core_callable(me, "aq_nbi_end");
    if (st != AQ_OK) return st;
    if (event == NULL) return aqi_fail(AQ_EINVAL, "core", "aq_nbi_end: the event is NULL");
    if (me->region == NULL)
        return aqi_fail(AQ_ESTATE, "core", "aq_nbi_end: called outside an access region");
    aq_event root = me->region;
    me->region = NULL;
    *event = root;
    /* A region whose operations are all complete needs no event. */
    if (event_set_is_over(&root->set) && event_set_any_status(&root->set) == AQ_OK) {
        *event = AQ_EVENT_DONE;
        core_op_put(root);
    }
    return AQ_OK;
}
