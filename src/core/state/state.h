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

/* How a peer is reached, decided once; the data that every call needs. One cache line. */
struct core_route {
    alignas(AQI_CACHE_LINE) struct aqi_tp *tp;
    struct aqi_peer *peer;
    unsigned char *local; /* its segment in our address space, or NULL */
    uint64_t seg_addr;    /* its segment in its own */
    size_t seg_size;
    struct aqi_rmem *rmem; /* NULL: the segment is not registered with `tp` */
    uint32_t rank;         /* job rank; of connections a number from the size of the job on */
    atomic_bool lost;
    uint8_t to;          /* the endpoint there: aqi_am_to() of its index */
    bool self;           /* to this process: core_run_own */
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
    uint8_t barrier_code;      /* of the call that the barrier is part of, COLL_CODE_; 0: none */
    bool dead;                 /* left by its members: kept for a while, for threads using it */
    struct core_barrier *barrier;
    struct core_coll *coll;
    struct coll_shape *shape; /* of one that spans neighborhoods; else NULL */
    aq_team *local;           /* its members in our neighborhood, if there are others */
    aq_team *whole;           /* of such a part: the team it is a part of */
    uint32_t id[2];           /* its name in messages: a job rank, and a number of that process */
    uint32_t agreed;          /* agreements of its members so far */
    uint64_t block[2];        /* its scratch memory: offset and size in that of its rank 0 */
    /* Of teams.c: in a bucket; in the list of all; in that of those with operations. */
    aq_team *next, *of_all, **at_all, *of_active;
    bool active; /* in the last one; under the lock of its operations */
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
    bool bound;                                /* messages of peers may touch it; under the lock */
    struct aqi_mem *mems[CORE_MAX_TRANSPORTS]; /* NULL: that transport reaches it by messages */
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
    uint8_t reply_flags;      /* of a reply to it: the endpoints that it goes between */
    bool replied;
};

struct core_thread {
    struct core_set nbi;
    struct aqi_op *region; /* inside an access region: where implicit operations count */
    struct core_message *handling;
    struct core_asked *asked; /* the request whose handler runs, if its sender waits for it */
    unsigned idle_polls;      /* by the program, that found nothing: see core_poll */
    unsigned skipped;         /* polls that looked at the watched words only */
    uint64_t until_ns;        /* a wait of limited time ends; 0: there is none */
    uint32_t seen;            /* by aq_poll_for: core_activity() */
    struct core_awake awake;
    unsigned unpolled; /* blocking calls that needed no progress, since the last that made some */
    /* Of the request and of the reply being prepared: a commit may run a handler that prepares one.
     */
    struct aqi_slot slot[2];
    void *own[2]; /* payloads of the request and of the reply to itself; NULL: none yet */
    struct aqi_pool ops;
    struct core_thread *next;
    unsigned number; /* aqi_tp_thread */
    bool taken;
};

struct core {
    atomic_bool open;
    aq_thread_mode thread_mode;
    int owner;  /* the thread of aq_init, by its number in the system */
    bool multi; /* several threads make calls: AQ_THREAD_MULTIPLE, or the progress thread */
    bool progress_thread;
    atomic_bool lost_news;   /* a death, or a word of the job, for the program's threads */
    _Atomic uint64_t polls;  /* rounds of progress by the program's threads, with that thread */
    struct core_set nothing; /* a set in which nothing is under way */
    struct aqi_core_params params;
    struct aqi_core_boot boot;
    struct aqi_tp_params tp_params; /* what the transports of the job are opened with */
    struct core_route *routes;      /* by endpoint index, then job rank; see core_ep_reach */
    const unsigned char *cards;     /* by job rank: place and addresses, see core_card_size */
    size_t card_bytes;              /* of one of them */
    /*
     * Transports that some rank of the job may open, the same in all; and the place in it of each
     * that is open here.
     */
    const struct aqi_transport *offered[CORE_MAX_TRANSPORTS];
    unsigned offered_count, place[CORE_MAX_TRANSPORTS];
    struct aqi_tp *tps[CORE_MAX_TRANSPORTS];
    bool carries[CORE_MAX_TRANSPORTS]; /* routes to others */
    unsigned tp_count;
    struct aqi_tp *looked_at[CORE_MAX_TRANSPORTS + 1]; /* in every poll; then NULL */
    unsigned looks;
    atomic_bool timers; /* some open transport needs the time */
    size_t max_medium, max_long;
    struct aq_team world;
    struct aq_ep ep;
    struct aq_segment segment;
    aq_segment *segments; /* made by aq_segment_create; under the lock */
    bool attached;
    _Atomic(struct aq_ep *)
        eps[CORE_EPS];       /* by index. Release in mem/endpoint.c, acquire in am/dispatch.c */
    atomic_uint reached_eps; /* bit i: the routes to endpoints i are there */
    struct aq_team pairs[CORE_EPS][CORE_EPS];
    atomic_bool any_lost;
    _Atomic unsigned spin_rounds; /* of a wait, before it yields, at most */
    _Atomic unsigned spins;       /* and as it is now, which others on our cores make less */
    _Atomic unsigned calm_polls;  /* that found nothing: the next ones just return; see core_poll */
    _Atomic aq_wait_mode wait_mode;
    _Atomic uint64_t awake_ns; /* of a wait in which nothing comes, on a core of its own; else 0 */
    aq_wait_mode wait_wanted;
    bool wait_hinted;     /* by the program, not the user */
    unsigned waiters;     /* threads of this process that make calls */
    unsigned pauses;      /* of the processor, between two polls: see core_mode_calibrate */
    struct aqi_spin lock; /* threads list, registration */
    struct core_thread *threads;
};
extern struct core core;

/* Locks of what the threads of a program share: in mode single they cost nothing. */
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
/* AQ_CHECK_THREADS: it may make no calls. */
bool core_thread_is_foreign(void);
aq_status core_threads_open(void);
void core_threads_close(void);

static inline struct core_thread *core_self(void)
{
    struct core_thread *me = core_thread_mine;
    return AQI_LIKELY(me != NULL) ? me : core_thread_attach();
}

/* Nothing is under way: copied as bytes, in a few stores. */
static inline void core_set_init(struct core_set *set)
{
    memcpy(set, &core.nothing, sizeof(*set));
}

/* errors.c: the errors that many calls share. */
/* Whether this thread may make a call that communicates. Inside a handler it may not. */
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

/* Whether a collective may be started on it now. */
aq_status core_team_usable(const char *call, const aq_team *team);

/* The error of a call that needs a lost peer: AQ_EPEER. */
AQI_COLD aq_status core_lost(const struct core_route *route, const char *call);
/* The error of an operation that failed after it had begun: that of a lost peer, or any other. */
AQI_COLD aq_status core_failed(const struct core_route *route, aq_status st, const char *call);

static inline struct core_route *core_team_route(const aq_team *team, aq_rank rank)
{
    struct core_route *route = &team->routes[team->at != NULL ? team->at[rank] : rank];
    if (route == NULL) __builtin_unreachable(); /* or callers would look */
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

/* AQ_ENOTSUP for what needs an answer, if the route leads to a group. */
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
 * mode.c: how long waits spin, when that many threads of each process make calls: not at all if
 * they are more than the cores, since a thread that spins takes the core from the one that it waits
 * for.
 */
void core_mode_crowd(unsigned threads);
void core_mode_calibrate(void);
bool core_setting_is_default(const char *name);
const struct aqi_setting *core_setting(const char *name);
/* Whether the setting was set under an alias. */
bool core_setting_is_alias(const char *name);

/* texts.c: AQ_NEIGHBORHOOD; and the group of this place among the ranks of a host: the sizes
 * repeat. */
bool core_neighbors_legal(const char *list);
uint32_t core_neighbors_group(uint32_t local_rank);

/* texts.c: AQ_MAX_SEGMENT. */
struct core_segment_limit {
    double number;         /* bytes, or a part of the host's memory */
    bool is_part, of_host; /* of all ranks of the host together, not of each */
    bool physical;         /* never more than a rank's share of the memory */
};
bool core_segment_limit_legal(const char *text);
bool core_segment_read_limit(const char *text, struct core_segment_limit *limit);
uint64_t core_segment_limit_bytes(const struct core_segment_limit *limit, uint64_t memory,
                                  uint32_t ranks, uint64_t page);

/* lost.c */
aq_status core_lost_open(void);
void core_lost_close(void);
/* Report deaths to the program, unless this is a handler; returns how many. */
unsigned core_lost_tell(void);
/* A set of job ranks: rank r is bit r % 8 of byte r / 8. */
static inline size_t core_set_bytes(void)
{
    return (core.params.size + 7) / 8;
}
bool core_set_has(const uint8_t *set, uint32_t rank);
/* Called when a peer is lost, after its routes are marked. At most CORE_LOSS_LISTENERS of them. */
enum { CORE_LOSS_LISTENERS = 4 };
void core_on_loss(void (*fn)(uint32_t job_rank));

/* teams.c: the teams by what messages call them. */
void core_teams_reset(void);
void core_team_enter(aq_team *team);
void core_team_leave(aq_team *team);
aq_team *core_team_find(uint32_t root, uint32_t count);
/* While it is held no other thread is in core_team_each or core_team_each_active. */
extern struct aqi_spin core_teams_lock;
/* Ask every team, until one says false; false then, also if another thread is in here. */
bool core_team_each(bool (*fn)(aq_team *team));
/* Note that the team has operations; their lock is held, or the team is not in use yet. */
void core_team_activate(aq_team *team);
/* Ask every such team whether it still has some; if not, `fn` has cleared `active` under that lock.
 * Nothing is done if another thread is in here. */
void core_team_each_active(bool (*fn)(aq_team *team));
aq_team *core_team_any(void); /* one that is left; NULL: none */
/* A team with room for `size` members, its map all zero; NULL, with the error recorded. */
aq_team *core_team_new(size_t size);
void core_team_clear(aq_team *team); /* free its maps */
void core_team_free(aq_team *team);

#endif
