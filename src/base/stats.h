/*
 * Counters with units, all in one table; each thread counts into its own block without atomic
 * read-modify-write, and a reader sums the blocks.
 */
#ifndef AQI_STATS_H
#define AQI_STATS_H

#include "base/safe_text.h"

/*
 * All counters of the library in one list, so that counting is one indexed addition.
 * aqi_counter_rows describes them.
 */
enum aqi_counter {
    AQI_CTR_AM_SENT,
    AQI_CTR_AM_RECEIVED,
    AQI_CTR_AM_BYTES,
    AQI_CTR_AM_BYTES_IN,
    AQI_CTR_AM_AGAIN,
    AQI_CTR_AM_DROPPED,
    AQI_CTR_CREDIT_NONE,
    AQI_CTR_CREDIT_HIDDEN,
    AQI_CTR_PUT,
    AQI_CTR_PUT_BYTES,
    AQI_CTR_GET,
    AQI_CTR_GET_BYTES,
    AQI_CTR_ATOMIC,
    AQI_CTR_BARRIER,
    AQI_CTR_POLL,
    AQI_CTR_POLL_EMPTY,
    AQI_CTR_YIELD,
    AQI_CTR_SLEEP,
    AQI_CTR_OVERSLEPT,
    AQI_CTR_WAKE_SENT,
    AQI_CTR_HELLO_DROPPED,
    AQI_CTR_REG_HIT,
    AQI_CTR_REG_MISS,
    AQI_CTR_REG_PINNED,
    AQI_CTR_REG_UNPINNED,
    AQI_CTR_REG_FAR_HIT,
    AQI_CTR_REG_FAR_MISS,
    AQI_CTR_REG_FAR_REFUSED,
    AQI_CTR_REG_RIDES,
    AQI_CTR_POSTS,
    AQI_CTR_POSTS_SIGNALED,
    AQI_CTR_POSTS_RECEIVE,
    AQI_CTR_POSTS_INJECTED,
    AQI_CTR_POSTS_BOUNCED,
    AQI_CTR_LINKED,
    AQI_CTR_LINKED_BYTES,
    AQI_CTR_RAILS_FAILED,
    AQI_CTR_RAILS_BACK,
    AQI_CTR_RINGS_LENT,
    AQI_CTR_RINGS_BACK,
    AQI_CTR_AM_RING,
    AQI_CTR_PACKETS,
    AQI_CTR_PACKETS_AGAIN,
    AQI_CTR_PACKETS_TIMEOUT,
    AQI_CTR_PACKETS_ACK,
    AQI_CTR_PACKETS_RECEIVED,
    AQI_CTR_PACKETS_REPEATED,
    AQI_CTR_PACKETS_DROPPED,
    AQI_CTR_PACKETS_NO_ROOM,
    AQI_CTR_COUNT
};

struct aqi_counter_row {
    const char *name; /* "am_sent" */
    const char *unit; /* "messages", "bytes", … */
    const char *doc;
};
extern const struct aqi_counter_row aqi_counter_rows[AQI_CTR_COUNT];

/* The reason why a thread waits. */
enum aqi_doing {
    AQI_DOING_WORK,       /* not waiting: the program runs */
    AQI_DOING_ROOM,       /* for room to send */
    AQI_DOING_OPERATION,  /* for a one-sided operation to complete */
    AQI_DOING_EVENT,      /* for events or implicit operations */
    AQI_DOING_CONDITION,  /* aq_poll_until and the like */
    AQI_DOING_COLLECTIVE, /* for the other ranks of a collective */
    AQI_DOING_BARRIER,
    AQI_DOINGS,
    AQI_DOING_ASLEEP = 8 /* flag: asleep while it waits */
};
extern const char *const aqi_doing_names[AQI_DOINGS];

/*
 * The calling thread's block, allocated and linked on first use. At the end of the thread, the
 * block and its counts stay, and the next new thread uses it.
 */
struct aqi_counters {
    _Atomic uint64_t value[AQI_CTR_COUNT];
    _Atomic uint32_t doing;            /* enum aqi_doing */
    atomic_bool taken;                 /* in use by a living thread */
    struct trace_block *_Atomic trace; /* the thread's trace; NULL: none yet */
    struct aqi_counters *next;
};
extern AQI_FAST_THREAD_LOCAL struct aqi_counters *aqi_counters_mine;
struct aqi_counters *aqi_counters_attach(void);

static inline struct aqi_counters *aqi_counting(void)
{
    struct aqi_counters *mine = aqi_counters_mine;
    return AQI_LIKELY(mine != NULL) ? mine : aqi_counters_attach();
}

/* For counting several events at once in the same block. */
static inline void aqi_count_in(struct aqi_counters *mine, enum aqi_counter counter, uint64_t n)
{
    /* Only this thread writes, so no atomic read-modify-write is needed. */
#if defined(__x86_64__)
    /* Compilers emit three instructions for the general code below. */
    __asm__("addq %1, %0" : "+m"(mine->value[counter]) : "er"(n));
#else
    uint64_t old = atomic_load_explicit(&mine->value[counter], memory_order_relaxed);
    atomic_store_explicit(&mine->value[counter], old + n, memory_order_relaxed);
#endif
}

static inline void aqi_count(enum aqi_counter counter, uint64_t n)
{
    aqi_count_in(aqi_counting(), counter, n);
}

/*
 * Mark the calling thread as waiting. Inside another wait, the outer one stays. Returns the value
 * to restore afterwards.
 */
static inline uint32_t aqi_wait_enter(enum aqi_doing what)
{
    struct aqi_counters *mine = aqi_counting();
    uint32_t outer = atomic_load_explicit(&mine->doing, memory_order_relaxed);
    uint32_t now = what == AQI_DOING_ASLEEP ? outer | what : outer != 0 ? outer : what;
    atomic_store_explicit(&mine->doing, now, memory_order_relaxed);
    return outer;
}

static inline void aqi_wait_leave(uint32_t outer)
{
    struct aqi_counters *mine = aqi_counters_mine;
    if (AQI_LIKELY(mine != NULL)) atomic_store_explicit(&mine->doing, outer, memory_order_relaxed);
}

/*
 * From now on, count in memory that other processes can read: an object of AQI_COUNTERS_SHARED
 * blocks, each a struct aqi_counters of AQI_COUNTERS_BYTES bytes, the first being the calling
 * thread's. Further threads use private memory. Call once, before other threads count, since their
 * counts would not be visible.
 */
enum { AQI_COUNTERS_SHARED = 64 };
#define AQI_COUNTERS_BYTES                                                                         \
    ((sizeof(struct aqi_counters) + AQI_CACHE_LINE - 1) / AQI_CACHE_LINE * AQI_CACHE_LINE)
aq_status aqi_counters_share(int *fd);
/*
 * A hash of the counters' names and of the layout of a block. Counters are added and removed often,
 * so builds that exchange them compare this, and no version has to be kept in step.
 */
uint64_t aqi_counters_form(void);
/*
 * Sum the blocks of such an object of another process; `doing` is that of its first thread. Returns
 * false if it is not such an object.
 */
bool aqi_counters_read(int fd, uint64_t value[AQI_CTR_COUNT], uint32_t *doing);
bool aqi_counters_doing(int fd, uint32_t *doing);

/* The sum over all threads, including those that have ended. */
uint64_t aqi_counter_sum(enum aqi_counter counter);

/* Format one line of aqi_counters_print; returns false if the counter is zero. */
bool aqi_counter_line(struct aqi_safe_text *line, const char *title, enum aqi_counter counter,
                      uint64_t value);
/*
 * Print all non-zero counters to `fd`, one line "TITLE: name value unit" each. Async-signal-safe,
 * as it is also called at abnormal exits. Returns false and sets errno if not all was written.
 */
bool aqi_counters_print(int fd, const char *title);

#endif
