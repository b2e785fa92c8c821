/* Active messages: the interface to the rest of the core. */
#ifndef AQI_CORE_AM_H
#define AQI_CORE_AM_H

#include "core/event/event.h"

/* am/dispatch.c */
void core_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am);
/*
 * Run the handler of a message from this process to itself. The payload of a Medium is copied to
 * the buffer of core_own_payload (NULL, with the error recorded, if out of memory), unless it is
 * already there.
 */
aq_status core_run_own(const struct core_route *route, struct aqi_am *am, unsigned flags,
                       const char *call);
/* Likewise for a Short request between first endpoints. */
aq_status core_run_own_short(struct core_route *route, aq_handler handler, const aq_arg *args,
                             unsigned nargs, unsigned flags, const char *call);
void *core_own_payload(struct core_thread *me, bool reply, const char *call);
/* Deliver a message of the peer of a connection, which is not trusted. Returns false if it must not
 * be delivered. */
bool core_deliver_conn(struct core_route *route, const struct aqi_am *am);
/* System handlers, below AQ_HANDLER_BASE. They must not send. */
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

/*
 * For am/reserve.c: check the arguments of a message; and return the request that may be replied to
 * (NULL if none, with the error in `*st`).
 */
aq_status core_check_message(const char *call, aq_handler handler, const aq_arg *args,
                             unsigned nargs, unsigned flags);
struct core_message *core_begin_reply(const char *call, aq_am *am, aq_status *st);
/* Returns `route`, or NULL with the error in `*st` if our endpoint of this team has no messages. */
AQI_COLD struct core_route *core_may_message(const aq_team *team, struct core_route *route,
                                             const char *call, aq_status *st);
/*
 * Likewise; also set `*eps` to the endpoints of a message on this route, as bits of its flags. The
 * first endpoint of a process always has messages.
 */
static inline struct core_route *core_message_route(const aq_team *team, struct core_route *route,
                                                    const char *call, uint8_t *eps, aq_status *st)
{
    *eps = team->from | route->to;
    return AQI_LIKELY(*eps == 0) ? route : core_may_message(team, route, call, st);
}
/* Count a message that was sent, or whose handler runs here; rejected messages are not counted. */
static inline void core_count_sent(size_t nbytes)
{
    struct aqi_counters *mine = aqi_counting();
    aqi_count_in(mine, AQI_CTR_AM_SENT, 1);
    if (nbytes != 0) aqi_count_in(mine, AQI_CTR_AM_BYTES, nbytes);
}
/* Send a checked request or reply; waits for room as the flags allow. */
aq_status core_send(struct core_route *route, struct aqi_am *am, unsigned flags, const char *call);

/*
 * am/deferred.c: send `am` when the pending `*event` completes. `*event` becomes the event of both,
 * or AQ_EVENT_DONE if they count as an implicit put. Progress sends deferred messages.
 */
aq_status core_send_after(const char *call, struct core_route *route, const struct aqi_am *am,
                          bool implicit, aq_event *event);
aq_status core_after_open(void);
bool core_after_waits(const struct core_route *route); /* whether this route has any */
void core_after_drop(const struct core_route *route);  /* the route is closed: its messages fail */
void core_after_close(void);

/* am/asked.c: requests whose sender waits for the reply. State while the handler of one runs: */
struct core_asked {
    uint64_t token;
    bool replied;
    aq_arg args[AQI_AM_MAX_ARGS]; /* of a Long reply, followed by the token */
};
typedef bool core_run_fn(aq_ep *ep, struct core_route *route, uint32_t source, unsigned source_ep,
                         const struct aqi_am *am);
bool core_asked_run(core_run_fn *run, aq_ep *ep, struct core_route *route, uint32_t source,
                    unsigned source_ep, const struct aqi_am *am);
/* Turn `am` into the reply that the sender waits for. */
aq_status core_asked_reply(struct core_asked *ask, struct aqi_am *am, const char *call);
/*
 * Send a Short or Medium as such a request. `*event` completes after the handler of its reply has
 * run. `token` may be NULL.
 */
aq_status core_asked_send(struct core_route *route, struct aqi_am *am, unsigned flags,
                          aq_event *event, uint64_t *token, const char *call);
/* Whether the reply to a token of core_asked_send is outstanding; and fail it with `status`. */
bool core_asked_waits(uint64_t token, uint32_t rank);
void core_asked_fail(uint64_t token, uint32_t rank, aq_status status);
aq_status core_asked_open(void);
void core_asked_close(void);
void core_asked_peer_down(uint32_t rank); /* also of a connection */

#endif
