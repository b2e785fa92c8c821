/* Active messages: what the rooms above use. */
#ifndef AQI_CORE_AM_H
#define AQI_CORE_AM_H

#include "core/event/event.h"

/* am/dispatch.c */
void core_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am);
/*
 * A message of this process to itself: runs its handler. The payload of a Medium is copied to where
 * core_own_payload says (NULL: no memory; which has said so), unless it lies there already.
 */
aq_status core_run_own(const struct core_route *route, struct aqi_am *am, unsigned flags,
                       const char *call);
/* The same for a Short request between first endpoints. */
aq_status core_run_own_short(struct core_route *route, aq_handler handler, const aq_arg *args,
                             unsigned nargs, unsigned flags, const char *call);
void *core_own_payload(struct core_thread *me, bool reply, const char *call);
/* A message of a program that may be a stranger. False: it must not be delivered. */
bool core_deliver_from(struct core_route *route, uint32_t source, const struct aqi_am *am);
/* System handlers, below AQ_HANDLER_BASE: may send nothing. */
enum {
    CORE_HANDLER_COLL_BYTES = 1,
    CORE_HANDLER_COLL_READY = 2,
    CORE_HANDLER_WAKE = 3,
    CORE_HANDLER_ASKED = 4
};
void core_register_system(aq_handler index, aq_am_fn *fn, const char *name);
/* Send without waiting, for the core's own messages. */
aq_status core_try_send(struct core_route *route, aq_handler handler, const aq_arg *args,
                        unsigned nargs);

/* For am/reserve.c: check what every message needs; the request that may be replied to now (NULL:
 * `*st` says why not). */
aq_status core_check_message(const char *call, aq_handler handler, const aq_arg *args,
                             unsigned nargs, unsigned flags);
struct core_message *core_begin_reply(const char *call, aq_am *am, aq_status *st);
/* Our endpoint of this team may have no messages: then NULL, and the error in `*st`; else `route`.
 */
AQI_COLD struct core_route *core_may_message(const aq_team *team, struct core_route *route,
                                             const char *call, aq_status *st);
/* The same, and which endpoints a message by this route goes between, as bits of its flags. The
 * first of a process always has messages. */
static inline struct core_route *core_message_route(const aq_team *team, struct core_route *route,
                                                    const char *call, uint8_t *eps, aq_status *st)
{
    *eps = team->from | route->to;
    return AQI_LIKELY(*eps == 0) ? route : core_may_message(team, route, call, st);
}
/* A message has left, or its handler runs here; what is refused is not counted. */
static inline void core_count_sent(size_t nbytes)
{
    struct aqi_counters *mine = aqi_counting();
    aqi_count_in(mine, AQI_CTR_AM_SENT, 1);
    if (nbytes != 0) aqi_count_in(mine, AQI_CTR_AM_BYTES, nbytes);
}
/* Send a message that is checked, request or reply, with waiting as the flags allow. */
aq_status core_send(struct core_route *route, struct aqi_am *am, unsigned flags, const char *call);

/* am/deferred.c: send `am` when `*event`, which is not complete, is; it becomes the event of both,
 * or AQ_EVENT_DONE if they count as an implicit put. Progress pushes what waits, while there is
 * any.
 */
aq_status core_send_after(const char *call, struct core_route *route, const struct aqi_am *am,
                          bool implicit, aq_event *event);
aq_status core_after_open(void);
bool core_after_waits(const struct core_route *route); /* for a message to go this way */
void core_after_drop(const struct core_route *route);  /* it is closed: they fail */
void core_after_close(void);

/* am/asked.c: requests whose sender waits for the reply. While the handler of one runs: */
struct core_asked {
    uint64_t token;
    bool replied;
    aq_arg args[AQI_AM_MAX_ARGS]; /* of a Long reply, with ours */
};
typedef bool core_run_fn(aq_ep *ep, struct core_route *route, uint32_t source, unsigned source_ep,
                         const struct aqi_am *am);
bool core_asked_run(core_run_fn *run, aq_ep *ep, struct core_route *route, uint32_t source,
                    unsigned source_ep, const struct aqi_am *am);
/* Make `am` the reply that the sender waits for. */
aq_status core_asked_reply(struct core_asked *ask, struct aqi_am *am, const char *call);
/* Send a Short or Medium so; `*event` is complete when the handler of its reply has run. `token`
 * may be NULL. */
aq_status core_asked_send(struct core_route *route, struct aqi_am *am, unsigned flags,
                          aq_event *event, uint64_t *token, const char *call);
/* Whether the answer to a token of core_asked_send has not come yet; and not to wait for it. */
bool core_asked_waits(uint64_t token, uint32_t rank);
void core_asked_fail(uint64_t token, uint32_t rank, aq_status status);
aq_status core_asked_open(void);
void core_asked_close(void);
void core_asked_peer_down(uint32_t rank); /* also of a connection */

#endif
