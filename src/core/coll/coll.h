/*
 * Shared by the files of teams and collectives.
 *
 * A collective is an operation in the list of its team. All members start them in the same order,
 * so its sequence number identifies it in messages and selects its slot in shared memory. If all
 * members map each other's scratch memory, it runs there (shm.c); otherwise it is a plan of sends
 * and receives (plan.c) executed by msg.c. On a team that spans neighborhoods it has parts of both
 * kinds (hier.c). Progress drives the operations.
 */
#ifndef AQI_CORE_COLL_IMPL_H
#define AQI_CORE_COLL_IMPL_H

#include "core/am/am.h"
#include "core/mem/mem.h"

enum coll_kind {
    COLL_BARRIER,
    COLL_BROADCAST,
    COLL_REDUCE,
    COLL_ALLREDUCE,
    COLL_GATHER,
    COLL_ALLGATHER,
    COLL_SCATTER,
    COLL_ALLTOALL,
    COLL_THROTTLE, /* internal: a barrier that bounds how far members drift apart (coll/op.c) */
    COLL_KINDS
};

/* The arguments of a call. Tables of counts make it a v-form; else every block has `nbytes`. */
struct coll_args {
    enum coll_kind kind;
    aq_rank root;
    void *dst;
    const void *src;
    size_t nbytes; /* of a block; broadcast and reductions: in all */
    const size_t *send_counts, *send_offsets;
    const size_t *recv_counts, *recv_offsets;
    bool vary;      /* a v-form whose sizes are not known to all */
    uint32_t table; /* of a v-form whose sizes are known to all: their hash */
    uint8_t code;   /* COLL_CODE_, or that of a built-in reduction (api.c) */
    bool ordered;   /* a reduction that folds in rank order */
    bool written;   /* a barrier by remote writes (words.c) */
    size_t element;
    aq_reduce_fn *fn;
    const void *context;
};

/* Codes of operations that are not a plain call of their kind. */
enum {
    COLL_CODE_OPS = 16,
    COLL_CODE_SIZES = 250, /* the check that precedes a v-form; errors name the v-form */
    COLL_CODE_LEAST,
    COLL_CODE_ATTACH = COLL_CODE_LEAST,
    COLL_CODE_FINALIZE,
    COLL_CODE_BARRIER,
    COLL_CODE_DESTROY,
    COLL_CODE_TEAM
};

/* From the barrier_code of a team (0: a plain barrier). */
static inline uint8_t coll_barrier_code(uint32_t code)
{
    return code != 0 ? (uint8_t)code : COLL_CODE_BARRIER;
}

/* The properties that all members of an operation must agree on; sent in lines and messages. */
struct coll_signature {
    uint32_t what; /* kind, v-form, code, and the upper half of the bytes */
    uint32_t root, bytes;
};

static inline bool coll_signature_same(const struct coll_signature *a,
                                       const struct coll_signature *b)
{
    return a->what == b->what && a->root == b->root && a->bytes == b->bytes;
}

struct coll_step;
struct coll_plan {
    struct coll_step *steps;
    size_t count, room, at;
    unsigned char *temporary;
    bool failed; /* no memory */
};

/* An operation in shared memory (shm.c): the purpose of its current round. */
enum coll_phase { SHM_ADDRESSES, SHM_CHUNK, SHM_SLICE, SHM_DIRECT, SHM_DONE };
struct coll_shm_state {
    enum coll_phase phase;
    bool waiting;      /* we have arrived and wait for the other members */
    bool checked;      /* all members are known to be in the same operation */
    bool more;         /* direct: a second step follows this one */
    uint32_t seen;     /* flat: members seen to have arrived, in order */
    uint32_t first;    /* all-to-all: the first member whose blocks are in this round */
    size_t unit;       /* bytes of each block that a round moves */
    size_t at, length; /* the part of each block in this round */
    size_t most;       /* the longest block */
};

/* State of an operation that sends messages (msg.c). */
struct coll_hier;
struct coll_msg_state {
    bool started; /* it has its plan, so messages for it can be matched */
    struct coll_plan plan;
    size_t asked; /* the step at which peers were last asked for their operation, + 1; 0: never */
    struct coll_hier *hier; /* of an operation in parts (hier.c) */
};

struct coll_op;
/*
 * A way to carry out an operation: the first engine that takes it is used, the same one in all
 * members. Called with the lock of the team held, except for `takes`.
 */
struct coll_engine {
    bool messages; /* uses messages: recorded in `past`, and throttled */
    bool (*takes)(const aq_team *team, const struct coll_args *args); /* NULL: any */
    aq_status (*prepare)(aq_team *team, struct coll_op *op);          /* every step that can fail */
    void (*begin)(aq_team *team, struct coll_op *op);               /* once in the list; or NULL */
    bool (*push)(aq_team *team, struct coll_op *op, bool *no_room); /* true: complete */
    /* Whether it can proceed now. NULL: only after a message, which ends a sleep. */
    bool (*ready)(const aq_team *team, const struct coll_op *op);
    void (*free)(struct coll_op *op); /* release the results of prepare and push; or NULL */
};
extern const struct coll_engine coll_shm_engine, coll_hier_engine, coll_msg_engine;

struct coll_op {
    struct coll_op *next; /* in the list of the team */
    struct coll_op *then; /* a later operation, held until this one is complete */
    struct aqi_op *event; /* the event to complete; NULL: `done` is set instead */
    const struct coll_engine *engine;
    struct coll_args args;
    struct coll_signature signature;
    uint32_t seq; /* its sequence number in the team */
    uint8_t slot; /* each runs one operation at a time; COLL_NO_SLOT: uses messages */
    bool owned;   /* allocated by op.c; else by the caller that waits */
    /* Queued, but must not begin yet: cleared with release, read with acquire before a push. */
    _Atomic bool held;
    _Atomic bool done; /* release on completion, acquire by the thread that waits */
    aq_status status;
    uint64_t sizes; /* coll/sizes.c */
    union {
        struct coll_shm_state shm;
        struct coll_msg_state msg;
    };
};
/* How many operations in shared memory can run at a time. */
enum { COLL_SLOTS = 2, COLL_NO_SLOT = 31 };
/* Checks of shared memory between polls of the transports: when spinning, or on shared cores. */
enum { COLL_LOOKS = 4, COLL_TURNS = 4 };

/* A team's block of scratch memory: shm.h has its layout. */
struct coll_shm;
struct coll_early;
struct coll_words;

enum { COLL_THROTTLE_EVERY = 16, COLL_PAST = 2 * COLL_THROTTLE_EVERY };

struct core_coll {
    struct aqi_spin lock; /* of everything below; never held while handlers run */
    uint32_t started;     /* the next sequence number; wraps */
    uint32_t shm_started, message_ops;
    uint32_t messages;  /* operations by messages in flight */
    bool moved;         /* an operation has made progress since this was last cleared */
    bool stuck;         /* the other members have been notified which operation we are waiting in */
    bool op_failed;     /* an operation has failed */
    bool mismatched;    /* members were in different operations */
    atomic_bool failed; /* no operation can complete from now on: mismatch after a death */
    struct coll_op *first;
    struct coll_op **last;
    struct { /* signatures of the latest operations by messages, by seq */
        uint32_t seq;
        struct coll_signature signature;
    } past[COLL_PAST];
    struct coll_early *early; /* messages for operations not started here yet */
    struct coll_shm *shm;     /* NULL: messages only */
    struct coll_words *words; /* NULL: barriers also use messages */
};

/* A hash of two words; its upper half is well mixed. */
static inline uint64_t coll_mix(uint64_t a, uint64_t b)
{
    uint64_t word = a * 0x9e3779b97f4a7c15u;
    return (word ^ word >> 29 ^ b) * 0xbf58476d1ce4e5b9u;
}

static inline const struct core_route *coll_route(const aq_team *team, aq_rank rank)
{
    return &core.routes[team->map != NULL ? team->map[rank] : rank];
}

/* The block for, or from, a member: returns its length, and its address in `*at`. */
static inline size_t coll_send_block(const struct coll_args *args, aq_rank rank,
                                     const unsigned char **at)
{
    size_t offset = args->send_offsets != NULL ? args->send_offsets[rank] : rank * args->nbytes;
    *at = args->src != NULL ? (const unsigned char *)args->src + offset : NULL;
    return args->send_counts != NULL ? args->send_counts[rank] : args->nbytes;
}

static inline size_t coll_recv_block(const struct coll_args *args, aq_rank rank, unsigned char **at)
{
    size_t offset = args->recv_offsets != NULL ? args->recv_offsets[rank] : rank * args->nbytes;
    *at = args->dst != NULL ? (unsigned char *)args->dst + offset : NULL;
    return args->recv_counts != NULL ? args->recv_counts[rank] : args->nbytes;
}

/* The longest block known to this member. */
size_t coll_longest(const aq_team *team, const struct coll_args *args);

/* Copy, unless source and destination are the same. */
void coll_copy(void *dst, const void *src, size_t len);

/* Fold `len` bytes: into = from op into. */
static inline void coll_fold(const struct coll_args *args, const void *from, void *into, size_t len)
{
    args->fn(from, into, len / args->element, args->context);
}

/* The direction in which a kind moves data. */
enum coll_who { COLL_NONE, COLL_ROOT, COLL_EACH };
struct coll_flow {
    enum coll_who sends, receives;
    bool deals;    /* a sender has a separate block for each member */
    bool collects; /* a receiver gets a separate block from each member */
    bool folds;
};
extern const struct coll_flow coll_flows[COLL_KINDS]; /* coll/api.c */

static inline bool coll_rooted(enum coll_kind kind)
{
    return coll_flows[kind].sends == COLL_ROOT || coll_flows[kind].receives == COLL_ROOT;
}

static inline bool coll_is_one(enum coll_who who, const struct coll_args *args, aq_rank rank)
{
    return who == COLL_EACH || (who == COLL_ROOT && rank == args->root);
}

static inline bool coll_sends(const struct coll_args *args, aq_rank rank)
{
    return coll_is_one(coll_flows[args->kind].sends, args, rank);
}

static inline bool coll_receives(const struct coll_args *args, aq_rank rank)
{
    return coll_is_one(coll_flows[args->kind].receives, args, rank);
}

/* coll/signature.c */
struct coll_signature coll_signature_of(const struct coll_args *args);
struct coll_signature coll_signature_of_barrier(uint32_t code);
enum { COLL_TEXT = 160 };
void coll_signature_text(struct coll_signature signature, char *text); /* COLL_TEXT bytes */
/* Two members are in different operations: the job ends, or, with AQ_SURVIVE, the team fails. */
AQI_COLD void coll_mismatch(const aq_team *team, struct coll_signature mine, aq_rank other,
                            struct coll_signature theirs);
/* Called after each idle round of a wait; `op` is NULL for the barrier in shared memory. */
AQI_COLD void coll_waits_long(aq_team *team, const struct coll_op *op,
                              const struct core_wait *wait);
AQI_COLD void coll_waited(aq_team *team); /* call if coll->stuck, once the wait has ended */

/*
 * coll/sizes.c. coll_sizes_of returns this member's word; the words of all members add up to 0 if
 * the sizes match. coll_sizes_of_table returns a hash of a table that is the same in all members.
 * coll_sizes_first returns true if `check` has to run first: it releases `op` and sets its status.
 */
uint64_t coll_sizes_of(const aq_team *team, const struct coll_args *args);
uint32_t coll_sizes_of_table(const aq_team *team, const size_t *counts);
bool coll_sizes_first(const aq_team *team, struct coll_op *op, struct coll_op *check);

/* coll/builtin.c: the function for a built-in type and operator; NULL if there is none. */
aq_reduce_fn *coll_builtin(int type, int op, size_t *element);

/* coll/shape.c: the neighborhoods of a team that spans several. */
struct coll_shape {
    aq_rank groups, mine; /* number of neighborhoods; index of ours */
    bool sorted;          /* `order` is rank order */
    aq_rank *group_of;    /* by rank */
    aq_rank *order;       /* ranks by neighborhood; a place is an index in it */
    aq_rank *place;       /* by rank: its place */
    aq_rank *start;       /* by neighborhood: its first place; the last entry is the end */
    aq_rank tables[];
};
/*
 * For `n` members, grouped by `nodes`: members with equal numbers are neighbors. NULL: no memory.
 */
struct coll_shape *coll_shape_new(aq_rank n, aq_rank self, const uint32_t *nodes);
aq_status coll_shape_make(aq_team *team); /* sets team->shape and team->local, if any */
void coll_shape_free(aq_team *team);
static inline aq_rank coll_group_size(const struct coll_shape *shape, aq_rank group)
{
    return shape->start[group + 1] - shape->start[group];
}

/* op.c: `op` has its arguments, and must live until it is done. */
aq_status coll_append(aq_team *team, struct coll_op *op); /* without pushing it */
bool coll_push_team(aq_team *team);                       /* true: something moved */
aq_status coll_begin(aq_team *team, struct coll_op *op);
aq_status coll_run(const char *call, aq_team *team, const struct coll_args *args);
aq_status coll_start(const char *call, aq_team *team, const struct coll_args *args, unsigned flags,
                     aq_event *event);
aq_status coll_open(aq_team *team);
void coll_close(aq_team *team);
/* The team itself; for the part of a team in one neighborhood, the whole team. */
static inline const aq_team *coll_whole(const aq_team *team)
{
    return team->whole != NULL ? team->whole : team;
}

bool coll_broken(const aq_team *team); /* whether a member has died, or the team has failed */
void coll_fail(const aq_team *team);   /* from now on it is broken in this process */
aq_status coll_dead(const aq_team *team, const char *call); /* the error of a broken team */
bool coll_idle(const aq_team *team);
bool coll_any_ready(const aq_team *team); /* whether an operation can proceed without an arrival */

/* coll/shm.c */
struct coll_shm *coll_shm_new(aq_team *team, const struct scratch_block *block); /* for free() */
size_t coll_shm_least(uint32_t members); /* the smallest useful block */
void coll_shm_clear(void *at, uint32_t members);
/* The barrier has a separate slot: arrive with a name, and get the name that all agree on. */
struct coll_name {
    uint32_t state;
    int32_t id;
};
void coll_shm_arrive(aq_team *team, struct coll_name name);
bool coll_shm_arrived(aq_team *team, struct coll_name *agreed);
struct coll_name coll_name_combine(struct coll_name a, struct coll_name b);
/*
 * Call before sleeping, with the lock held, to be woken by the next arrival. Returns false if
 * something is already complete.
 */
bool coll_shm_doze(aq_team *team);
void coll_shm_leave(const aq_team *team); /* leave an operation that others may still be in */

/* coll/plan.c: the steps of member `self` of `n`. */
void coll_plan_make(struct coll_plan *plan, const struct coll_args *args, aq_rank n, aq_rank self);
void coll_plan_free(struct coll_plan *plan);

/* coll/msg.c */
enum coll_step_type { STEP_SEND, STEP_RECV, STEP_COPY, STEP_FOLD, STEP_FENCE };
struct coll_step {
    uint8_t type;
    bool begun; /* send: bytes in flight or requested; receive: may be written to */
    bool ready; /* the receiver of a large send has requested it */
    bool done;
    uint32_t tag;
    aq_rank peer; /* in the team */
    unsigned char *to;
    const unsigned char *from;
    size_t len, moved;
    unsigned char *early; /* a small payload that arrived before its turn */
};
void coll_msg_begin(aq_team *team, struct coll_op *op); /* its plan names members of the team */
bool coll_msg_push(aq_team *team, struct coll_op *op, bool *no_room);
void coll_msg_free(struct coll_op *op);
AQI_COLD void coll_msg_failed(const aq_team *team, const struct coll_op *op); /* notify waiters */
/* Ask the members that we wait for whether they are in our operation. Called with the lock held. */
void coll_msg_ask(aq_team *team);
void coll_msg_close(struct core_coll *coll);

/* words.c: barriers by remote writes, if AQ_BARRIER requests them. Collective: */
aq_status coll_words_open(void);
void coll_words_close(void);
/*
 * Reserve a place for a team in the memory of this process; 0: none is free, so its barriers use
 * messages. coll_words_new takes over the place, and gets those of the other members (NULL: all the
 * same as ours).
 */
uint32_t coll_words_built_in(unsigned part); /* SCRATCH_ */
uint32_t coll_words_take(void);
void coll_words_give(uint32_t place);
aq_status coll_words_new(aq_team *team, uint32_t mine, const uint32_t *places);
void coll_words_free(struct coll_words *w, bool failed);
/* Begin the next barrier. Returns true if it uses words: then set coll_args.written. */
bool coll_words_begin(const aq_team *team);
/* Returns AQ_AGAIN if there is no room. */
aq_status coll_words_send(const aq_team *team, const struct coll_op *op,
                          const struct coll_step *step);
bool coll_words_receive(const aq_team *team, const struct coll_op *op,
                        const struct coll_step *step); /* true: it has arrived */

/* barrier.c */
aq_status core_barrier_open(aq_team *team);
void core_barrier_close(aq_team *team);
bool core_barrier_pending(const aq_team *team);
/* aq_barrier as a part of another call, which errors name. */
aq_status core_barrier_of(const char *call, uint8_t code, aq_team *team);

void coll_register(void); /* op.c: installs the collectives in the layers below */
bool coll_may_be_stuck(const struct core_wait *wait); /* signature.c */
void coll_event_waits(const struct aqi_op *op);
void coll_event_waited(void);
void coll_msg_register(void);

#endif
