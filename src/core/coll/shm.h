/* The layout of a team's block of scratch memory, for the files of collectives in shared memory. */
#ifndef AQI_CORE_COLL_SHM_IMPL_H
#define AQI_CORE_COLL_SHM_IMPL_H

#include "core/coll/coll.h"

enum { COLL_NAME_NONE, COLL_NAME_GIVEN, COLL_NAME_MISMATCH };

enum {
    SHM_SLOTS = COLL_SLOTS, /* one more slot is for the barrier */
    SHM_INLINE = 48,
    SHM_SMALL = 1024, /* up to this many bytes, one member folds the whole reduction */
    SHM_LEAST_CHUNK = 128,
    SHM_LEAST_PIECE = 64, /* for one member; below this, a round serves only part of them */
    /* Sizes for a member, and for a broadcast: they fit the nearest caches if all members run at
     * once. Where members take turns (crowded), rounds are expensive and move more. */
    SHM_MOST_CHUNK = 64 * 1024,
    SHM_MOST_BURST = 32 * 1024,
    SHM_CROWDED_CHUNK = 256 * 1024,
    SHM_CROWDED_BURST = 256 * 1024,
    SHM_DIRECT_LEAST = 16 * 1024 /* size of a block that is worth a round for the addresses */
};

/* The buffers of a member in a large operation; all members base the same decision on them. */
struct shm_buffers {
    uint64_t most;        /* its longest block */
    uint64_t src, dst;    /* 0: unreachable; or SHM_NO_BUFFER */
    uint32_t src_private; /* outside of its segment: must be pulled */
    uint32_t can_pull;    /* can pull all the data it gets */
    uint64_t sizes;       /* of a v-form: coll_sizes_of */
};
#define SHM_NO_BUFFER 1u

/* Each line has one writer per round: a member, or the last to arrive. */
struct shm_line {
    alignas(AQI_CACHE_LINE) _Atomic uint32_t round; /* stored last, with release */
    union {
        struct coll_signature signature;
        struct {
            /* for the barrier: */
            uint32_t code; /* the barrier_code of the team */
            struct coll_name name;
        };
    };
    union {
        unsigned char bytes[SHM_INLINE];
        struct shm_buffers buffers;
    };
};
static_assert(sizeof(struct shm_line) == AQI_CACHE_LINE, "a line is one cache line");

struct shm_slot_head {
    /* The lower half counts arrivals, the upper half adds up signatures; both wrap. */
    alignas(AQI_CACHE_LINE) _Atomic uint64_t arrived;
    uint32_t sum_before;
    _Atomic uint32_t named; /* barrier: counts the members that gave a name */
    uint32_t named_before;
    struct shm_line release[2]; /* by parity of the round */
};

/* In shm_stuck.at: the team has failed in this member, which arrives at no more rounds. */
#define SHM_GAVE_UP UINT64_MAX

/* A member that has been waiting for long. */
struct shm_stuck {
    _Atomic uint64_t at; /* slot + 1, and round; stored last, with release. 0: not stuck */
    struct coll_signature signature;
};

struct shm_head {
    alignas(AQI_CACHE_LINE) _Atomic uint32_t sleepers;
    _Atomic uint32_t left;    /* a member has left an operation that others are still in */
    _Atomic uint8_t asleep[]; /* by rank in the team; followed by a shm_stuck for each */
};

/* A slot as a member sees it. */
struct coll_slot {
    struct shm_slot_head *head;
    struct shm_line *lines; /* two for each member */
    unsigned char *data;    /* two areas: a chunk for each member, and one for results */
    uint32_t round;         /* the last round at which we have arrived */
    uint32_t members;
};

struct coll_shm {
    struct shm_head *head;
    struct shm_stuck *stuck;
    uint32_t members, self;
    bool flat, crowded;
    size_t area, chunk;
    uint32_t barrier_seen;
    _Atomic uint32_t barrier_round, barrier_done; /* for a thread that is about to sleep */
    struct coll_slot slots[SHM_SLOTS + 1];
};

static inline struct shm_line *shm_line_of(const struct coll_slot *slot, uint32_t member,
                                           uint32_t round)
{
    return &slot->lines[(size_t)(round & 1) * slot->members + member];
}

static inline struct shm_line *shm_release_of(const struct coll_slot *slot, uint32_t round)
{
    return &slot->head->release[round & 1];
}

/* The chunk of a member in a round; with `members` as the member, the chunk of the result. */
static inline unsigned char *shm_chunk_of(const struct coll_shm *shm, const struct coll_slot *slot,
                                          uint32_t member, uint32_t round)
{
    return slot->data + (round & 1) * shm->area + member * shm->chunk;
}

/* Acquire: if no member has left by now, the data read before is valid. */
static inline bool shm_some_left(const struct coll_shm *shm)
{
    atomic_thread_fence(memory_order_acquire);
    return AQI_UNLIKELY(atomic_load_explicit(&shm->head->left, memory_order_relaxed) != 0);
}

struct shm_line *shm_line_next(struct coll_shm *shm, struct coll_slot *slot);

/* coll/shm_move.c: what each kind writes before it arrives, and reads afterwards. */
struct shm_view {
    aq_team *team;
    struct coll_shm *shm;
    struct coll_slot *slot;
    struct coll_op *op;
};
size_t shm_unit(const struct coll_shm *shm, const struct coll_args *args); /* 0: unsupported */
uint32_t shm_group_end(const struct coll_shm *shm, const struct coll_op *op);
void shm_stage(const struct shm_view *v);
void shm_read(const struct shm_view *v);
void shm_last(const struct shm_view *v); /* called by the last to arrive, in counted rounds */
bool shm_in_slices(const struct coll_shm *shm, const struct coll_op *op);
void shm_slice_stage(const struct shm_view *v);
void shm_slice_read(const struct shm_view *v);
size_t shm_slice_begin(const struct shm_view *v, size_t len, uint32_t member);
void shm_own_block(const struct shm_view *v); /* copy our block for ourselves */

/* coll/shm_direct.c: exchange addresses; decide, and transfer; the second step. */
void shm_buffers_stage(const struct shm_view *v);
enum coll_phase shm_buffers_read(const struct shm_view *v);
void shm_direct_rest(const struct shm_view *v);

#endif
