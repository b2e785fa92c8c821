/* What the files of the core share: the context, routes, threads, operations, waiting. */
#ifndef AQI_CORE_IMPL_H
#define AQI_CORE_IMPL_H

#include "base/fail.h"
#include "base/pool.h"
#include "base/spin.h"
#include "base/stats.h"
#include "base/trace.h"
#include "core/core.h"
#include "transport/transport.h"

#include <aqueduct/aqueduct.h>

#define CORE_MAX_TRANSPORTS 8
#define CORE_HANDLERS       256
#define CORE_EPS            AQI_AM_MAX_EPS /* endpoints of a process */

/* How a peer is reached, decided once; the hot half of everything. One cache line. */
struct core_route {
    alignas(AQI_CACHE_LINE) struct aqi_tp *tp;
    struct aqi_peer *peer;
    unsigned char *local; /* its segment in our address space, or NULL */
    uint64_t seg_addr;    /* its segment in its own */
    size_t seg_size;
    struct aqi_rmem *rmem;
    uint32_t rank; /* job rank; of connections a number from the size of the job on */
    atomic_bool lost;
    uint8_t to;          /* the endpoint there: aqi_am_to() of its index */
    uint32_t max_medium; /* payload bytes of a Medium either way */
};
static_assert(sizeof(struct core_route) == AQI_CACHE_LINE, "a route is one cache line");

/*
 * The job ranks of a team; `map` NULL: the same as the team's. `at` is the place of each member in
 * `routes`: `map` itself, unless endpoints after the first are named.
 */
struct aq_team {
    aq_rank rank, size;
    const aq_rank *map;
    const uint32_t *at;
    struct core_route *routes; /* to the endpoints that it names */
    aq_ep *ep;                 /* ours; NULL: the first */
    uint8_t from;              /* aqi_am_from() of its index */
    bool pair;                 /* names job ranks only: no collectives, no barrier */
    bool ends;                 /* its members are in aq_team_destroy */
    bool dead;                 /* they have left it: kept for a while, for those who use it */
    struct core_barrier *barrier;
    struct core_coll *coll;
    struct coll_shape *shape; /* of one that spans neighbourhoods; else NULL */
    aq_team *local;           /* then the members in ours, if there are others */
    aq_team *whole;           /* of such a one: the team it is a part of */
    uint32_t id[2];           /* what messages call it: a job rank, and a number of that process */
    uint32_t agreed;          /* agreements of its members so far */
    uint64_t block[2];        /* its scratch memory: offset and size in that of its rank 0 */
    aq_team *next;            /* in a bucket of team.c */
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
    struct core_route *route; /* to the endpoint it came from */
    uint8_t reply_flags;      /* of a reply to it: which endpoints that goes between */
    bool replied;
};

struct core_thread {
    struct core_set nbi;
    struct aqi_op *region; /* inside an access region: where implicit operations count */
    struct core_message *handling;
    unsigned idle_polls; /* by the program, that found nothing where threads exceed cores */
    unsigned unpolled;   /* blocking calls that needed no progress, since the last that made some */
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
    atomic_bool lost_news;  /* a death, or a word of the job, for the program's threads */
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
    _Atomic(struct aq_ep *) eps[CORE_EPS]; /* by index. Release in endpoint.c, acquire in am.c */
    atomic_uint reached_eps;               /* bit i: the routes to endpoints i are there */
    struct aq_team pairs[CORE_EPS][CORE_EPS];
    atomic_bool any_lost;
    _Atomic unsigned spin_rounds; /* of a wait, before it yields */
    _Atomic aq_wait_mode wait_mode;
    aq_wait_mode wait_wanted;
    bool wait_hinted;     /* by the program, not the user */
    unsigned waiters;     /* threads of this process that make calls */
    struct aqi_spin lock; /* threads list, registration */
    struct core_thread *threads;
};
extern struct core core;

/* thread.c: the calling thread's state, created on first use. */
extern AQI_FAST_THREAD_LOCAL struct core_thread *core_thread_mine;
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

/* The error of a call that needs a peer which is lost: AQ_EPEER. */
AQI_COLD aq_status core_lost(const struct core_route *route, const char *call);

/* The route to a member of a team; NULL, with the error recorded, if there is none. */
AQI_COLD struct core_route *core_no_route(const aq_team *team, aq_rank rank, const char *call,
                                          aq_status *st);
static inline struct core_route *core_route_to(const aq_team *team, aq_rank rank, const char *call,
                                               aq_status *st)
{
    if (AQI_UNLIKELY(team == NULL || rank >= team->size))
        return core_no_route(team, rank, call, st);
    return &team->routes[team->at != NULL ? team->at[rank] : rank];
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
    uint32_t rounds;
    uint32_t bell; /* sleep.c: as heard before the last look at what is waited for; 0: never */
    uint64_t yield_since; /* ns */
};
/* One round over all transports; how many things happened. */
unsigned core_progress(void);
unsigned core_progress_round(void); /* the same, by the progress thread */
/* sleep.c: until something arrives, on the control channel too, or another thread has seen to it.
 */
AQI_COLD void core_sleep(struct core_wait *wait, int sleep_ms);
/* The same for the progress thread: also until `kick` is readable; aside while others sleep. */
AQI_COLD void core_sleep_keeper(int sleep_ms, int kick);
AQI_COLD void core_ring_bell(void);
uint32_t core_bell(void); /* moves with each ring */
aq_status core_sleep_open(void);
void core_sleep_close(void);
/* Progress brought something, for which another thread may wait asleep. */
static inline void core_ring(void)
{
    if (AQI_UNLIKELY(core.multi)) core_ring_bell();
}
/*
 * A blocking call that was done by loads and stores. A program may wait with nothing else (for a
 * lock in a segment, say), so now and then it must hear of messages and of the job's end.
 */
static inline void core_done_directly(struct core_thread *me)
{
    if (AQI_UNLIKELY((++me->unpolled & 255) == 0)) core_progress();
}
void core_yield(void);
/* A round of progress that the program asked for: what core_progress says. */
unsigned core_poll(struct core_thread *me);
/* After a round that brought nothing: spin, yield or sleep at most `sleep_ms`. */
void core_wait_round(struct core_wait *wait, int sleep_ms);
/* One turn of a wait: progress, and such a round if it brought nothing. */
static inline void core_wait_step(struct core_wait *wait, int sleep_ms)
{
    if (core_progress() != 0)
        *wait = (struct core_wait){0};
    else
        core_wait_round(wait, sleep_ms);
}
/* Make progress until the counter is 0. */
void core_wait_zero(_Atomic uint32_t *counter);
/*
 * A transport had no room (AQ_AGAIN): AQ_OK after a round of progress, to try again; AQ_AGAIN if
 * the flags say AQ_IMMEDIATE; AQ_EPEER if the peer is lost. For a reply only the progress of
 * replies is made, as no handler of a request may run.
 */
AQI_COLD aq_status core_wait_for_room(struct core_wait *wait, const struct core_route *route,
                                      bool reply, unsigned flags);
void core_hook_relax(void *arg, unsigned round);
/* How long waits spin, when that many threads of each process make calls: not at all where they are
 * more than the cores, for who spins keeps the core from whom it waits for. */
void core_progress_crowd(unsigned threads);

enum { CORE_SLEEP_MS = 100, CORE_CONDITION_MS = 10 };

/* wait/thread.c: started last and stopped first, if core.progress_thread. */
aq_status core_progress_thread_start(void);
void core_progress_thread_stop(void);
/* A thread of the program is about to sleep and will watch. */
void core_progress_thread_step_aside(void);

/* am.c */
void core_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am);
/* A message of a program that may be a stranger. False: it must not be delivered. */
bool core_deliver_from(struct core_route *route, uint32_t source, const struct aqi_am *am);
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

/* For am/reserve.c: check what every message needs; the request that may be replied to now (NULL:
 * `*st` says why not); send with waiting. */
aq_status core_check_message(const char *call, aq_handler handler, const aq_arg *args,
                             unsigned nargs, unsigned flags);
struct core_message *core_begin_reply(const char *call, aq_am *am, aq_status *st);
aq_status core_send_long(struct core_route *route, struct aqi_am *am, unsigned flags,
                         const char *call);
aq_status core_send_medium(struct core_route *route, struct aqi_am *am, unsigned flags,
                           const char *call);
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
/* Send a Short or Medium of the core's own, request or reply, with waiting as the flags allow. */
aq_status core_send(struct core_route *route, const struct aqi_am *am, unsigned flags,
                    const char *call);

/* am/deferred.c: send `am` when `*event`, which is not complete, is; it becomes the event of both,
 * or AQ_EVENT_DONE if they count as an implicit put. Progress pushes what waits, while there is
 * any.
 */
aq_status core_send_after(const char *call, struct core_route *route, const struct aqi_am *am,
                          bool implicit, aq_event *event);
extern _Atomic uint32_t core_after_busy;
unsigned core_after_push(void);
bool core_after_waits(const struct core_route *route); /* for a message to go this way */
void core_after_drop(const struct core_route *route);  /* it is closed: they fail */
void core_after_close(void);

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
void core_set_init(struct core_set *set);

/* lost.c */
void core_lost_open(void);
void core_lost_close(void);
/* Tell the program of deaths, unless this is a handler; of how many. */
unsigned core_lost_tell(void);
/* A set of job ranks: rank r is bit r % 8 of byte r / 8. */
static inline size_t core_set_bytes(void)
{
    return (core.params.size + 7) / 8;
}
bool core_set_has(const uint8_t *set, uint32_t rank);
/*
 * Agree with those of `members` who live, the caller among them; see aqi_boot_agree. Makes progress
 * meanwhile. Returns the worst of their statuses; `living` gets those who called.
 */
aq_status core_agree(uint64_t what, uint64_t which, aq_status mine, const uint8_t *members,
                     uint8_t *living);

/* team.c: the teams of the library. */
aq_status core_teams_open(void);
void core_teams_close(void);
/* May a collective be started on it now? */
aq_status core_team_usable(const char *call, const aq_team *team);

/* neighbors.c: where the ranks are, and who may load and store whose memory. */
struct core_place {
    uint32_t host, group, crowded; /* more ranks on the host than cores */
    uint32_t allocator;            /* the first transport that allocates memory */
};
aq_status core_neighbors_open(void);
/* Collective: `maps` says whose memory this process has mapped. */
aq_status core_neighbors_agree(bool (*maps)(uint32_t job_rank));
void core_neighbors_close(void);
const struct core_place *core_place_of(uint32_t job_rank);
uint32_t core_node_of(uint32_t job_rank); /* the lowest rank of its neighbourhood */
bool core_is_apart(uint32_t job_rank);    /* not to be mapped, also where it could be */

/* scratch.c */
uint32_t core_scratch_allocator(void); /* its place among core.tps, or core.tp_count */
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
/* coll/signature.c: has a wait been so long that one looks for members in other collectives? If so,
 * for each event without which it cannot end; and once after such a wait. */
bool core_coll_may_be_stuck(const struct core_wait *wait);
AQI_COLD void core_coll_event_waits(const struct aqi_op *op);
AQI_COLD void core_coll_event_waited(void);
/* coll/msg.c */
void core_coll_handlers(void);

/* rma.c: start a put or get that the transport carries; counts in `comp`. */
#define CORE_RMA_FLAGS (AQ_IMMEDIATE | AQ_REMOTE_OFFSET)
#define CORE_PUT_FLAGS (CORE_RMA_FLAGS | AQ_LOCAL_NOW)
aq_status core_start_run(struct core_route *route, bool get, uint64_t remote, void *local,
                         size_t len, unsigned flags, struct aqi_comp *comp, const char *call);

/* vis/message.c */
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
bool core_is_ep(const aq_ep *ep);
void core_eps_close(void);
void core_eps_unbind(const aq_segment *segment);

bool core_hook_range_ok(void *arg, uint64_t addr, size_t len);
bool core_range_ok(const struct core_route *route, uint64_t addr, size_t len); /* for a message */

/* context.c: what a transport is opened with, for all ranks of the job. */
void core_tp_params(struct aqi_tp_params *params);

/* conn.c, conn/join.c, conn/wait.c: connections of programs not started together. */
extern _Atomic uint32_t core_conn_used; /* listeners and connections: 0 costs nothing */
unsigned core_conn_progress(enum aqi_progress_mode mode);
aq_status core_conn_ready(void);
void core_conns_close(void);
bool core_conn_range_ok(const struct core_route *route, uint64_t addr, size_t len);
/* A reply waits for room on a connection: not for ever. */
void core_conn_stalled(struct core_wait *wait, const struct core_route *route);
void core_conn_hide(const aq_segment *segment); /* it ends: peers access it no more */
/* About to sleep: also on `*fd` (-1: there is none). False: something is there already. */
bool core_conn_doze(int *fd);
/* The transports were disarmed: whoever sleeps on aq_wait_fd looks again. */
void core_conn_disarmed(void);

#endif
