/* Shared by all folders of the core: the context, routes, teams, threads, losses. */
#ifndef AQI_CORE_STATE_H
#define AQI_CORE_STATE_H

#include "base/fail.h"
#include "base/pool.h"
#include "base/spin.h"
#include "base/stats.h"
#include "base/trace.h"
#include "core/core.h"
#include "core/state/awake.h"
#include "transport/transport.h"

#include <aqueduct/aqueduct.h>
#include <string.h>

#define CORE_MAX_TRANSPORTS 8
#define CORE_HANDLERS       256
#define CORE_EPS            AQI_AM_MAX_EPS /* endpoints of a process */

/* How to reach a peer, decided once, with the data that every call needs. One cache line. */
struct core_route {
    alignas(AQI_CACHE_LINE) struct aqi_tp *tp;
    struct aqi_peer *peer;
    unsigned char *local; /* the peer's segment where it is mapped here, or NULL */
    uint64_t seg_addr;    /* the address of the segment in the peer */
    size_t seg_size;
    struct aqi_rmem *rmem; /* NULL: the segment is not registered with `tp` */
    uint32_t rank;         /* job rank; for a connection, a number not below the job's size */
    atomic_bool lost;
    uint8_t to;          /* the endpoint there: aqi_am_to() of its index */
    bool self;           /* leads to this process: core_run_own */
    uint32_t max_medium; /* payload bytes of a Medium either way */
};
static_assert(sizeof(struct core_route) == AQI_CACHE_LINE, "a route is one cache line");

/*
 * The members of a team, as job ranks; `map` NULL: job ranks are team ranks. `at` is the index of
 * each member in `routes`: `map` itself, unless the team names endpoints other than the first.
 */
struct aq_team {
    aq_rank rank, size;
    const aq_rank *map;
    const uint32_t *at;
    struct core_route *routes; /* to the endpoints that the team names */
    aq_ep *ep;                 /* our endpoint; NULL: the first */
    uint8_t from;              /* aqi_am_from() of its index */
    bool pair;                 /* for addressing only: no collectives, no barrier */
    uint8_t barrier_code;      /* COLL_CODE_ of the call that the barrier is part of; 0: none */
    bool dead;                 /* destroyed; kept for a while, for threads that still use it */
    struct core_barrier *barrier;
    struct core_coll *coll;
    struct coll_shape *shape; /* of a team that spans neighborhoods; else NULL */
    aq_team *local;           /* the members in our neighborhood, if there are others */
    aq_team *whole;           /* of such a team: the team that it is part of */
    uint32_t id[2];    /* its name in messages: a job rank, and a number assigned by that process */
    uint32_t agreed;   /* number of agreements of its members so far */
    uint64_t block[2]; /* its scratch memory: offset and size in that of its rank 0 */
    /* Lists of teams.c: the hash bucket, all teams, teams with operations. */
    aq_team *next, *of_all, **at_all, *of_active;
    bool active; /* in the last of these; under the lock of its operations */
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
    void *mapped; /* memory mapped by aq_segment_create, else NULL */
    bool registered;
    bool bound;                                /* messages of peers may access it; under the lock */
    struct aqi_mem *mems[CORE_MAX_TRANSPORTS]; /* NULL: reached by messages over that transport */
    aq_segment *next;
};

/* The counters of a set of operations, by kind: of a thread, of a region, or of one operation. */
struct core_set {
    struct aqi_comp put, get, atomic;
    struct aqi_comp message; /* only its local counter: the sources of messages */
};

/* An event. A single operation uses only the member of its kind. */
struct aqi_op {
    struct core_set set;
    struct core_thread *owner; /* whose pool it came from */
};

/* A message while its handler runs: the public part first. */
struct core_message {
    aq_am am;
    struct core_route *route; /* to the endpoint it came from */
    uint8_t reply_flags;      /* flags of a reply to it, which contain its endpoints */
    bool replied;
};

struct core_thread {
    struct core_set nbi;
    struct aqi_op *region; /* inside an access region: counts its implicit operations */
    struct core_message *handling;
    struct core_asked *asked; /* the request whose handler runs, if its sender waits for it */
    unsigned idle_polls;      /* consecutive empty polls: see core_poll */
    unsigned skipped;         /* consecutive polls that checked only the watched words */
    uint64_t until_ns;        /* deadline of a timed wait; 0: none */
    uint32_t seen;            /* core_activity() at the last poll of aq_poll_for */
    struct core_awake awake;
    unsigned unpolled; /* blocking calls that needed no progress; every 256th makes some */
    /* Of a request and a reply being prepared: committing one may run a handler that prepares
     * another. */
    struct aqi_slot slot[2];
    void *own[2]; /* payload buffers for requests and replies to itself; NULL: none yet */
    struct aqi_pool ops;
    struct core_thread *next;
    unsigned number; /* aqi_tp_thread */
    bool taken;
};

struct core {
    atomic_bool open;
    aq_thread_mode thread_mode;
    int owner;  /* kernel id of the thread that called aq_init */
    bool multi; /* several threads make calls: AQ_THREAD_MULTIPLE, or the progress thread */
    bool
        wakes; /* a thread may sleep on aq_wait_fd while others make progress: `multi`, or params */
    bool progress_thread;
    atomic_bool lost_news; /* a death or news of the job, which the program's threads must handle */
    _Atomic uint64_t polls;  /* the program's rounds of progress; counted only if progress_thread */
    struct core_set nothing; /* an idle set, to be copied */
    struct aqi_core_params params;
    struct aqi_core_boot boot;
    struct aqi_tp_params tp_params; /* parameters of the job's transports */
    struct core_route *routes;      /* by endpoint index, then job rank; see core_ep_reach */
    const unsigned char *cards;     /* by job rank: place and addresses, see core_card_size */
    size_t card_bytes;              /* of one of them */
    /*
     * Transports that some rank of the job may open, the same in all ranks; and the index in that
     * list of each transport that is open here.
     */
    const struct aqi_transport *offered[CORE_MAX_TRANSPORTS];
    unsigned offered_count, place[CORE_MAX_TRANSPORTS];
    struct aqi_tp *tps[CORE_MAX_TRANSPORTS];
    bool carries[CORE_MAX_TRANSPORTS]; /* has routes to other processes */
    unsigned tp_count;
    struct aqi_tp *looked_at[CORE_MAX_TRANSPORTS + 1]; /* checked in every poll; NULL-terminated */
    unsigned looks;
    atomic_bool timers; /* some open transport needs the time */
    size_t max_medium, max_long;
    struct aq_team world;
    struct aq_ep ep;
    struct aq_segment segment;
    aq_segment *segments; /* made by aq_segment_create; under the lock */
    bool attached;
    _Atomic(struct aq_ep *)
        eps[CORE_EPS];       /* by index; release in mem/endpoint.c, acquire in am/dispatch.c */
    atomic_uint reached_eps; /* bit i: routes to endpoints i are set up */
    struct aq_team pairs[CORE_EPS][CORE_EPS];
    atomic_bool any_lost;
    _Atomic unsigned spin_rounds; /* rounds that a wait spins before it yields, at most */
    _Atomic unsigned spins;       /* the current number, lower while others use our cores */
    _Atomic unsigned calm_polls; /* after this many empty polls, polls just return; see core_poll */
    _Atomic aq_wait_mode wait_mode;
    _Atomic uint64_t awake_ns; /* awake time after the last arrival, on a core of its own; else 0 */
    aq_wait_mode wait_wanted;
    bool wait_hinted;     /* wait_wanted was set by the program, not the user */
    unsigned waiters;     /* threads of this process that make calls */
    unsigned pauses;      /* processor pauses between two polls: see core_mode_calibrate */
    struct aqi_spin lock; /* threads list, registration */
    struct core_thread *threads;
};
extern struct core core;

/* Locks of data shared by threads of the program: they cost nothing in mode single. */
static inline void core_lock(struct aqi_spin *lock)
{
    if (core.multi) aqi_spin_lock(lock);
}

static inline bool core_try_lock(struct aqi_spin *lock)
{
    return !core.multi || aqi_spin_try(lock);
}

static inline void core_unlock(struct aqi_spin *lock)
{
    if (core.multi) aqi_spin_unlock(lock);
}

/* thread.c: the calling thread's state, created on first use. */
extern AQI_FAST_THREAD_LOCAL struct core_thread *core_thread_mine;
extern _Thread_local bool core_thread_is_progress; /* the library's own thread */
struct core_thread *core_thread_attach(void);
int core_thread_id(void);
/* AQ_CHECK_THREADS: whether this thread must not make calls. */
bool core_thread_is_foreign(void);
aq_status core_threads_open(void);
void core_threads_close(void);

static inline struct core_thread *core_self(void)
{
    struct core_thread *me = core_thread_mine;
    return AQI_LIKELY(me != NULL) ? me : core_thread_attach();
}

/* Set it to idle: a copy of bytes compiles to a few stores. */
static inline void core_set_init(struct core_set *set)
{
    memcpy(set, &core.nothing, sizeof(*set));
}

/* errors.c: the errors that many calls share. */
/* Whether this thread may make a call that communicates; not inside a handler. */
static inline bool core_may_call(const struct core_thread *me)
{
    return AQI_LIKELY(atomic_load_explicit(&core.open, memory_order_relaxed) && me != NULL &&
                      me->handling == NULL);
}
AQI_COLD aq_status core_not_callable(const char *call);
static inline aq_status core_callable(const struct core_thread *me, const char *call)
{
    return core_may_call(me) ? AQ_OK : core_not_callable(call);
}

/* Returns AQ_OK if a collective may be started on the team now. */
aq_status core_team_usable(const char *call, const aq_team *team);

/* The error of a call that needs a lost peer: AQ_EPEER. */
AQI_COLD aq_status core_lost(const struct core_route *route, const char *call);
/* The error of an operation that failed after it was started: of a lost peer, or any other. */
AQI_COLD aq_status core_failed(const struct core_route *route, aq_status st, const char *call);

/* The route to endpoint `index` of a rank; core_ep_reach has set it up. */
static inline struct core_route *core_ep_route(unsigned index, uint32_t job_rank)
{
    return &core.routes[index * (size_t)core.params.size + job_rank];
}

static inline struct core_route *core_team_route(const aq_team *team, aq_rank rank)
{
    struct core_route *route = &team->routes[team->at != NULL ? team->at[rank] : rank];
    if (route == NULL) __builtin_unreachable(); /* saves callers a check */
    return route;
}
/* The route to a member of a team; NULL, with the error recorded, if there is none. */
AQI_COLD struct core_route *core_no_route(const aq_team *team, aq_rank rank, const char *call,
                                          aq_status *st);
static inline struct core_route *core_route_to(const aq_team *team, aq_rank rank, const char *call,
                                               aq_status *st)
{
    if (AQI_UNLIKELY(team == NULL || rank >= team->size))
        return core_no_route(team, rank, call, st);
    return core_team_route(team, rank);
}

/* Returns AQ_ENOTSUP for a call that needs a reply, if the route leads to a group. */
AQI_COLD aq_status core_no_answer(const char *call);
static inline aq_status core_may_answer(const struct core_route *route, const char *call)
{
    bool group = (route->tp->ops.caps & AQI_CAP_GROUP) != 0;
    return AQI_LIKELY(!group) ? AQ_OK : core_no_answer(call);
}

/* Whether [addr, addr + len) is in the segment at the end of the route. */
AQI_COLD aq_status core_out_of_segment(const struct core_route *route, uint64_t addr, size_t len,
                                       const char *call);
static inline bool core_in_segment(const struct core_route *route, uint64_t addr, size_t len)
{
    return aqi_within(addr, len, route->seg_addr, route->seg_size);
}

/*
 * mode.c: set how long waits spin when `threads` threads of each process make calls: not at all if
 * they exceed the cores, since a thread that spins takes the core from the one that it waits for.
 */
void core_mode_crowd(unsigned threads);
void core_mode_calibrate(void);
bool core_setting_is_default(const char *name);
const struct aqi_setting *core_setting(const char *name);
bool core_setting_is_alias(const char *name);

/*
 * texts.c: AQ_NEIGHBORHOOD; and the group of a rank by its index among the ranks of its host. The
 * list of sizes repeats.
 */
bool core_neighbors_legal(const char *list);
uint32_t core_neighbors_group(uint32_t local_rank);

/* texts.c: AQ_MAX_SEGMENT. */
struct core_segment_limit {
    double number;         /* bytes, or a fraction of the host's memory */
    bool is_part, of_host; /* a fraction; for all ranks of the host together, not each */
    bool physical;         /* never more than a rank's share of the memory */
};
bool core_segment_limit_legal(const char *text);
bool core_segment_read_limit(const char *text, struct core_segment_limit *limit);
uint64_t core_segment_limit_bytes(const struct core_segment_limit *limit, uint64_t memory,
                                  uint32_t ranks, uint64_t page);

/* lost.c */
aq_status core_lost_open(void);
void core_lost_close(void);
/* Report deaths to the program, except inside a handler; returns the number reported. */
unsigned core_lost_report(void);
/* A set of job ranks: rank r is bit r % 8 of byte r / 8. */
static inline size_t core_set_bytes(void)
{
    return (core.params.size + 7) / 8;
}
bool core_set_has(const uint8_t *set, uint32_t rank);
/* Call `fn` when a peer is lost, after its routes are marked. At most CORE_LOSS_LISTENERS. */
enum { CORE_LOSS_LISTENERS = 4 };
void core_on_loss(void (*fn)(uint32_t job_rank));

/* teams.c: the teams by their ids in messages. */
void core_teams_reset(void);
void core_team_enter(aq_team *team);
void core_team_leave(aq_team *team);
aq_team *core_team_find(uint32_t root, uint32_t count);
/* While this is held, no other thread is in core_team_each or core_team_each_active. */
extern struct aqi_spin core_teams_lock;
/* Call `fn` for each team until it returns false. Returns false then, and if the lock is taken. */
bool core_team_each(bool (*fn)(aq_team *team));
/* Mark the team as having operations, with their lock held unless the team is not in use yet. */
void core_team_activate(aq_team *team);
/*
 * Call `fn` for each marked team. `fn` returns whether the team still has operations; if not, it
 * has cleared `active` under their lock. Does nothing if another thread holds core_teams_lock.
 */
void core_team_each_active(bool (*fn)(aq_team *team));
aq_team *core_team_any(void); /* any remaining team; NULL: none */
/* A team with room for `size` members, its map all zero; NULL, with the error recorded. */
aq_team *core_team_new(size_t size);
void core_team_clear(aq_team *team); /* free its maps */
void core_team_free(aq_team *team);

#endif
