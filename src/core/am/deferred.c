/*
 * Messages deferred until an operation is complete, then sent by any thread that makes progress. A
 * list has the operation's event and a copy of the message; the caller has an event, or an implicit
 * operation, that represents both.
 */
#include "core/am/am.h"

#include <stdlib.h>

struct after {
    struct after *next;
    aq_event first; /* must complete first */
    struct aqi_comp *comp;
    bool reported;            /* local completion has been reported */
    struct core_route *route; /* NULL: closed meanwhile */
    struct aqi_am am;
    aq_arg args[AQ_AM_MAX_ARGS];
    unsigned char payload[];
};

static _Atomic uint32_t core_after_busy;
static struct {
    struct aqi_spin lock;       /* never held while handlers run */
    struct after *first, **end; /* `end` is valid unless the list is empty */
} list;

static void am_deferred_finish(struct after *after, aq_status st)
{
    if (st != AQ_OK) aqi_comp_fail(after->comp, st);
    if (!after->reported) aqi_comp_local(after->comp);
    aqi_comp_remote(after->comp);
    free(after);
    core_source_count(&core_after_busy, UINT32_MAX);
}

/* Advance as far as possible. Returns true if it has ended, with the result in `*st`. */
static bool am_deferred_push(struct after *after, aq_status *st)
{
    if (!after->reported && aq_event_leaf(after->first, AQ_NBI_LOCAL) == AQ_EVENT_DONE) {
        after->reported = true;
        aqi_comp_local(after->comp);
    }
    *st = aq_event_test(&after->first);
    struct core_route *route = after->route;
    if (*st == AQ_OK)
        *st = route == NULL ? AQ_EPEER
                            : route->tp->ops.am_send(route->tp, route->peer, &after->am, NULL);
    if (*st == AQ_OK) core_count_sent(after->am.nbytes);
    return *st != AQ_AGAIN;
}

static unsigned deferred_poll(enum aqi_progress_mode mode, uint64_t now)
{
    (void)now;
    unsigned n = 0;
    aq_status st;
    if (mode != AQI_PROGRESS_ALL || !core_try_lock(&list.lock)) return 0;
    struct after **at = &list.first;
    while (*at != NULL) {
        struct after *after = *at;
        if (!am_deferred_push(after, &st)) {
            at = &after->next;
            continue;
        }
        *at = after->next;
        am_deferred_finish(after, st);
        n++;
    }
    list.end = at;
    core_unlock(&list.lock);
    return n;
}

/* A message may be waiting for room, which no arrival announces. */
static bool deferred_before_sleep(struct core_sleep_plan *plan)
{
    if (atomic_load_explicit(&core_after_busy, memory_order_relaxed) != 0) plan->ms = 1;
    return true;
}

aq_status core_after_open(void)
{
    static const struct core_source source = {
        .busy = &core_after_busy, .poll = deferred_poll, .before_sleep = deferred_before_sleep};
    core_source_add(&source);
    return AQ_OK;
}

bool core_after_waits(const struct core_route *route)
{
    bool found = false;
    core_lock(&list.lock);
    for (const struct after *after = list.first; after != NULL && !found; after = after->next)
        found = after->route == route;
    core_unlock(&list.lock);
    return found;
}

void core_after_drop(const struct core_route *route)
{
    core_lock(&list.lock);
    for (struct after *after = list.first; after != NULL; after = after->next)
        if (after->route == route) after->route = NULL;
    core_unlock(&list.lock);
}

void core_after_close(void)
{
    while (list.first != NULL) {
        struct after *after = list.first;
        list.first = after->next;
        free(after);
    }
    atomic_store(&core_after_busy, 0);
}

static aq_status am_deferred_append(const char *call, struct core_route *route,
                                    const struct aqi_am *am, aq_event first, struct aqi_comp *comp)
{
    struct after *after = malloc(sizeof(*after) + am->nbytes);
    if (after == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: no memory for the message", call);
    *after = (struct after){.first = first, .comp = comp, .route = route};
    aqi_am_keep(&after->am, am, after->args, after->payload);
    aqi_comp_add(comp, &comp->local, 1);
    aqi_comp_add(comp, &comp->remote, 1);
    core_source_count(&core_after_busy, 1);
    core_lock(&list.lock);
    if (list.first == NULL) list.end = &list.first;
    *list.end = after;
    list.end = &after->next;
    core_unlock(&list.lock);
    return AQ_OK;
}

aq_status core_send_after(const char *call, struct core_route *route, const struct aqi_am *am,
                          bool implicit, aq_event *event)
{
    struct core_thread *me = core_self();
    if (implicit) {
        aq_status st = am_deferred_append(call, route, am, *event, &core_implicit(me)->put);
        if (st == AQ_OK) *event = AQ_EVENT_DONE;
        return st;
    }
    struct aqi_op *op = core_op_get(me);
    if (op == NULL) return AQ_ENOMEM;
    aq_status st = am_deferred_append(call, route, am, *event, &op->set.put);
    if (st == AQ_OK)
        *event = op;
    else
        core_op_put(op);
    return st;
}
