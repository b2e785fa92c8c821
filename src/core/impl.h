/* What the files of the core share: the context, routes, threads, operations, waiting. */
#ifndef AQI_CORE_IMPL_H
#define AQI_CORE_IMPL_H

#include "base/fail.h"
#include "base/pool.h"
#include "base/spin.h"
#include "base/stats.h"
#include "core/core.h"
#include "transport/transport.h"

#include <aqueduct/aqueduct.h>

#define CORE_MAX_TRANSPORTS 8
#define CORE_HANDLERS       256
#define CORE_EPS            8 /* endpoints of a process */

/* How a peer is reached, decided once; the hot half of everything. One cache line. */
struct core_route {
    struct aqi_tp *tp;
    struct aqi_peer *peer;
    unsigned char *local; /* its segment in our address space, or NULL */
    uint64_t seg_addr;    /* its segment in its own */
    size_t seg_size;
    struct aqi_rmem *rmem;
    uint32_t rank; /* job rank */
    atomic_bool lost;
    uint8_t ep; /* index of the endpoint there */
};
static_assert(sizeof(struct core_route) <= AQI_CACHE_LINE, "a route is one cache line");

/* The job ranks of a team; `map` NULL: the same as the team's. */
struct aq_team {
    aq_rank rank, size;
    const aq_rank *map;
    size_t first_route; /* of the members' endpoints in core.routes */
    aq_ep *ep;          /* ours; NULL: the first */
    bool pair;          /* names job ranks only: no collectives, no barrier */
    struct core_barrier *barrier;
    struct core_coll *coll;
    uint32_t id[2];    /* what messages call it: a job rank, and a number of that process */
    uint64_t block[2]; /* its scratch memory: offset and size in that of its rank 0 */
    aq_team *next;     /* in a bucket of team.c */
};

struct core_handler {
    _Atomic(aq_am_fn *) fn; /* published last: release in set_handler, acquire in deliver */
    void *context;
    const char *name;
    uint8_t accepts; /* AQ_AM_ bits */
    uint8_t nargs;
};

struct aq_ep {
    struct core_handler handlers[CORE_HANDLERS];
    unsigned index, capabilities;
    aq_segment *segment;
};

struct aq_segment {
    void *addr;
    size_t size;
    void *mapped; /* by aq_segment_create; NULL: the memory is not ours */
    bool registered;
    bool bound; /* messages of peers may touch it; under the lock */
    unsigned char keys[CORE_MAX_TRANSPORTS][AQI_KEY_MAX];
    aq_segment *next;
};

/* The counters of a set of operations, by kind: of a thread, of a region, or of one operation. */
struct core_set {
    struct aqi_comp put, get, atomic;
    struct aqi_comp message; /* only its local counter: the sources of messages */
};

/* An event. A single operation counts in the member of its kind only. */
struct aqi_op {
    struct core_set set;
    struct core_thread *owner; /* whose pool it came from */
};

/* A message while its handler runs: the public part first. */
struct core_message {
    aq_am am;
    struct core_route *route; /* to its source */
    bool replied;
};

struct core_thread {
    struct core_set nbi;
    struct aqi_op *region; /* inside an access region: where implicit operations count */
    struct core_message *handling;
    unsigned unpolled; /* blocking calls that needed no progress, since the last that made some */
    /* Of the request and of the reply being prepared: a commit may run a handler that prepares one.
     */
    struct aqi_slot slot[2];
    struct aqi_pool ops;
    struct core_thread *next;
    bool taken;
};

struct core {
    atomic_bool open;
    aq_thread_mode thread_mode;
    bool multi; /* several threads call at once: AQ_THREAD_MULTIPLE, or the progress thread */
    bool progress_thread;
    _Atomic uint64_t polls; /* rounds of progress by the program's threads, with that thread */
    struct aqi_core_params params;
    struct aqi_core_boot boot;
    struct core_route *routes; /* by endpoint index, then job rank; see core_ep_reach */
    struct aqi_rmem *rmems;
    struct aqi_tp *tps[CORE_MAX_TRANSPORTS];
    bool carries[CORE_MAX_TRANSPORTS]; /* routes to others */
    unsigned tp_count;
    size_t max_medium, max_long;
    struct aq_team world;
    struct aq_ep ep;
    struct aq_segment segment;
    aq_segment *segments; /* made by aq_segment_create; under the lock */
    bool attached;
    struct aq_ep *more_eps[CORE_EPS]; /* all but the first */
    atomic_uint reached_eps;          /* bit i: the routes to endpoints i are there */
    struct aq_team pairs[CORE_EPS][CORE_EPS];
    atomic_bool any_lost;
    unsigned spin_rounds; /* of a wait, before it yields */
    struct aqi_spin lock; /* threads list, registration */
    struct core_thread *threads;
};
extern struct core core;

/* thread.c: the calling thread's state, created on first use. */
extern _Thread_local struct core_thread *core_thread_mine;
struct core_thread *core_thread_attach(void);
void core_threads_open(void);
void core_threads_close(void);

static inline struct core_thread *core_self(void)
{
    struct core_thread *me = core_thread_mine;
    return AQI_LIKELY(me != NULL) ? me : core_thread_attach();
}

/* May this thread make a call that communicates? Inside a handler it may not. */
AQI_COLD aq_status core_not_callable(const char *call);
static inline aq_status core_callable(struct core_thread *me, const char *call)
{
    if (AQI_LIKELY(atomic_load_explicit(&core.open, memory_order_relaxed) && me != NULL &&
                   me->handling == NULL))
        return AQ_OK;
    return core_not_callable(call);
}

/* The route to a member of a team; NULL, with the error recorded, if there is none. */
AQI_COLD struct core_route *core_no_route(const aq_team *team, aq_rank rank, const char *call,
                                          aq_status *st);
static inline struct core_route *core_route_to(const aq_team *team, aq_rank rank, const char *call,
                                               aq_status *st)
{
    if (AQI_UNLIKELY(team == NULL || rank >= team->size))
        return core_no_route(team, rank, call, st);
    return &core.routes[team->first_route + (team->map != NULL ? team->map[rank] : rank)];
}

/* Is [addr, addr + len) in the segment at the end of the route? */
AQI_COLD aq_status core_out_of_segment(const struct core_route *route, uint64_t addr, size_t len,
                                       const char *call);
static inline bool core_in_segment(const struct core_route *route, uint64_t addr, size_t len)
{
    uint64_t offset = addr - route->seg_addr;
    return len <= route->seg_size && offset <= route->seg_size - len;
}

/* progress.c */
struct core_wait {
    unsigned rounds;
    uint64_t yield_since; /* ns */
};
/* One round over all transports; how many things happened. */
unsigned core_progress(void);
unsigned core_progress_round(void); /* the same, by the progress thread */
/* Sleep until something arrives, on the control channel too, or on `extra` (-1: none). */
void core_sleep(int sleep_ms, int extra);
/*
 * A blocking call that was done by loads and stores. A program may wait with nothing else (for a
 * lock in a segment, say), so now and then it must hear of messages and of the job's end.
 */
static inline void core_done_directly(struct core_thread *me)
{
    if (AQI_UNLIKELY((++me->unpolled & 255) == 0)) core_progress();
}
/* After a round that brought nothing: spin, yield or sleep at most `sleep_ms`. */
void core_wait_round(struct core_wait *wait, int sleep_ms);
/* Make progress until the counter is 0. */
void core_wait_zero(_Atomic uint32_t *counter);
/* A round of a wait for room in a reply, which must not run request handlers. */
void core_reply_round(unsigned round);
void core_hook_relax(void *arg, unsigned round);
void core_progress_open(void);

enum { CORE_SLEEP_MS = 100, CORE_CONDITION_MS = 10 };

/* progress_thread.c: started last and stopped first, if core.progress_thread. */
aq_status core_progress_thread_start(void);
void core_progress_thread_stop(void);
/* The transports were disarmed; should it sleep, it arms them again or stands back. */
void core_progress_thread_disarmed(void);

/* am.c */
void core_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am);
/* System handlers, below AQ_HANDLER_BASE: may send nothing. */
enum {
    CORE_HANDLER_COLL_BYTES = 1,
    CORE_HANDLER_COLL_READY = 2,
    CORE_HANDLER_WAKE = 3,
    CORE_HANDLER_VIS_PUT = 16, /* and these two reply */
    CORE_HANDLER_VIS_GET = 17,
    CORE_HANDLER_VIS_DONE = 18,
    CORE_HANDLER_VIS_DATA = 19
};
void core_register_system(aq_handler index, aq_am_fn *fn, const char *name);
/* Send without waiting, for the core's own messages. */
aq_status core_try_send(struct core_route *route, aq_handler handler, const aq_arg *args,
                        unsigned nargs);

/* For am_reserve.c: check what every message needs; the request that may be replied to now (NULL:
 * `*st` says why not); send with waiting. */
aq_status core_check_message(const char *call, aq_handler handler, const aq_arg *args,
                             unsigned nargs, unsigned flags);
struct core_message *core_begin_reply(const char *call, aq_am *am, aq_status *st);
aq_status core_send_long(struct core_route *route, struct aqi_am *am, const char *call);
aq_status core_send_medium(struct core_route *route, struct aqi_am *am, const char *call);
/* The endpoint at the end of this route takes none: NULL, and the error in `*st`. */
AQI_COLD struct core_route *core_no_messages(const struct core_route *route, const char *call,
                                             aq_status *st);
/* Send a Short or Medium of the core's own, request or reply, with waiting as the flags allow. */
aq_status core_send(struct core_route *route, const struct aqi_am *am, unsigned flags,
                    const char *call);

/* event.c: an operation is started with its counters already added. */
struct aqi_op *core_op_get(struct core_thread *me);
void core_op_put(struct aqi_op *op);
static inline struct core_set *core_implicit(struct core_thread *me)
{
    return me->region != NULL ? &me->region->set : &me->nbi;
}
void core_set_init(struct core_set *set);

/* team.c: the teams of the library. */
aq_status core_teams_open(void);
void core_teams_close(void);
/* May a collective be started on it now? */
aq_status core_team_usable(const char *call, const aq_team *team);

/* scratch.c */
aq_status core_scratch_open(void);
void core_scratch_close(void);

/* barrier.c */
aq_status core_barrier_open(aq_team *team);
void core_barrier_close(aq_team *team);
bool core_barrier_pending(const aq_team *team);

/* coll.c: operations under way that progress pushes. */
extern _Atomic uint32_t core_coll_busy;
void core_coll_push(void);
/* About to sleep: tell those we wait for in shared memory, and shorten the sleep where no arrival
 * will end it. False: something is complete. core_coll_wake undoes it either way. */
bool core_coll_doze(int *sleep_ms);
void core_coll_wake(void);
/* coll_msg.c */
void core_coll_handlers(void);

/* rma.c: start a put or get that the transport carries; counts in `comp`. */
#define CORE_RMA_FLAGS (AQ_IMMEDIATE | AQ_REMOTE_OFFSET)
aq_status core_start_run(struct core_route *route, bool get, uint64_t remote, void *local,
                         size_t len, unsigned flags, struct aqi_comp *comp, const char *call);

/* vis_message.c */
void core_vis_open(void);
void core_vis_close(void);
void core_vis_peer_down(uint32_t rank);

/* segment.c */
struct core_segment_card { /* what a rank tells the others: a key for each of its transports */
    uint64_t addr, size;
    unsigned char keys[CORE_MAX_TRANSPORTS][AQI_KEY_MAX];
};
aq_status core_segment_register(aq_segment *segment, struct core_segment_card *card);
aq_status core_segment_learn(struct core_route *route, const struct core_segment_card *card);
void core_segments_close(void);

/* endpoint.c: make the routes to the endpoints with this index. */
void core_ep_reach(unsigned index);
void core_eps_close(void);
void core_eps_unbind(const aq_segment *segment);

bool core_hook_range_ok(void *arg, uint64_t addr, size_t len);

#endif
