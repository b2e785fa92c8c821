/*
 * Counters with units, all in one table; each thread counts into its own block without atomic
 * read-modify-write, and a reader sums the blocks.
 */
#ifndef AQI_STATS_H
#define AQI_STATS_H

#include "base/safe_text.h"

/* All counters of the library, in one list so that a count is one indexed add. */
enum aqi_counter {
    AQI_CTR_AM_SENT,          /* active messages sent */
    AQI_CTR_AM_RECEIVED,      /* active messages handled */
    AQI_CTR_AM_BYTES,         /* payload bytes of active messages sent */
    AQI_CTR_AM_BYTES_IN,      /* payload bytes of those handled */
    AQI_CTR_AM_AGAIN,         /* sends that found no room, and had to poll or were refused */
    AQI_CTR_AM_DROPPED,       /* arrivals that made no sense and were dropped */
    AQI_CTR_CREDIT_NONE,      /* looks for a credit, also of one request, that found none */
    AQI_CTR_CREDIT_HIDDEN,    /* hidden replies sent to give credits back */
    AQI_CTR_PUT,              /* puts that have begun */
    AQI_CTR_PUT_BYTES,        /* bytes put */
    AQI_CTR_GET,              /* gets that have begun */
    AQI_CTR_GET_BYTES,        /* bytes got */
    AQI_CTR_ATOMIC,           /* atomic operations */
    AQI_CTR_BARRIER,          /* barriers completed */
    AQI_CTR_POLL,             /* polls */
    AQI_CTR_POLL_EMPTY,       /* polls that found nothing */
    AQI_CTR_YIELD,            /* processor given away while waiting */
    AQI_CTR_SLEEP,            /* sleeps while waiting */
    AQI_CTR_OVERSLEPT,        /* of them, those that nothing ended but their time-out */
    AQI_CTR_WAKE_SENT,        /* sleeping peers woken */
    AQI_CTR_HELLO_DROPPED,    /* calls and messages of strangers that made no sense */
    AQI_CTR_REG_HIT,          /* pieces of transfers whose memory was registered before, ... */
    AQI_CTR_REG_MISS,         /* ... and that had to be registered, or could not be */
    AQI_CTR_REG_PINNED,       /* bytes registered on demand */
    AQI_CTR_REG_UNPINNED,     /* of these, bytes given back */
    AQI_CTR_REG_FAR_HIT,      /* parts of transfers whose memory at the peer was held, ... */
    AQI_CTR_REG_FAR_MISS,     /* ... that had to ask for it, ... */
    AQI_CTR_REG_FAR_REFUSED,  /* ... and that went by messages */
    AQI_CTR_REG_RIDES,        /* puts that rode on such a question */
    AQI_CTR_POSTS,            /* what an adapter was given to send, write or read, ... */
    AQI_CTR_POSTS_TOLD,       /* ... of whose end it tells */
    AQI_CTR_POSTS_RECEIVE,    /* buffers that it was given to receive in */
    AQI_CTR_POSTS_INJECTED,   /* of those sends and writes, what a provider copied at once, ... */
    AQI_CTR_POSTS_BOUNCED,    /* ... and puts and gets by way of a buffer of the library */
    AQI_CTR_LINKED,           /* peers that an adapter is connected with, ... */
    AQI_CTR_LINKED_BYTES,     /* ... and what memory that takes */
    AQI_CTR_RAILS_FAILED,     /* times that others took over from a connection that failed */
    AQI_CTR_RAILS_BACK,       /* times that one was used again */
    AQI_CTR_RINGS_LENT,       /* rings that peers may write messages into, ... */
    AQI_CTR_RINGS_BACK,       /* ... and that were taken back */
    AQI_CTR_AM_RING,          /* messages written into rings of peers */
    AQI_CTR_PACKETS,          /* packets sent, by transports that have to */
    AQI_CTR_PACKETS_AGAIN,    /* packets sent again */
    AQI_CTR_PACKETS_TIMEOUT,  /* times that nothing else showed a loss */
    AQI_CTR_PACKETS_ACK,      /* packets sent only to acknowledge */
    AQI_CTR_PACKETS_RECEIVED, /* packets taken */
    AQI_CTR_PACKETS_REPEATED, /* packets that had come before */
    AQI_CTR_PACKETS_DROPPED,  /* packets that were none of ours, or made no sense */
    AQI_CTR_PACKETS_NO_ROOM,  /* packets that found no room here or were not taken */
    AQI_CTR_COUNT
};

struct aqi_counter_row {
    const char *name; /* "am_sent" */
    const char *unit; /* "messages", "bytes", … */
    const char *doc;
};
extern const struct aqi_counter_row aqi_counter_rows[AQI_CTR_COUNT];

/* What a thread waits for. */
enum aqi_doing {
    AQI_DOING_WORK,       /* nothing: the program runs */
    AQI_DOING_ROOM,       /* for room to send */
    AQI_DOING_OPERATION,  /* for a one-sided operation to complete */
    AQI_DOING_EVENT,      /* for events or implicit operations */
    AQI_DOING_CONDITION,  /* aq_poll_until and the like */
    AQI_DOING_COLLECTIVE, /* for the others in a collective */
    AQI_DOING_BARRIER,
    AQI_DOINGS,
    AQI_DOING_ASLEEP = 8 /* and sleeps meanwhile: a bit */
};
extern const char *const aqi_doing_names[AQI_DOINGS];

/* The calling thread's block; allocated and linked on first use. At the thread's end the block and
 * its counts stay, and the next new thread counts on in it. */
struct aqi_counters {
    _Atomic uint64_t value[AQI_CTR_COUNT];
    _Atomic uint32_t doing;            /* enum aqi_doing */
    atomic_bool taken;                 /* some living thread counts in it */
    struct trace_block *_Atomic trace; /* what the thread has traced; NULL: nothing so far */
    struct aqi_counters *next;
};
extern AQI_FAST_THREAD_LOCAL struct aqi_counters *aqi_counters_mine;
struct aqi_counters *aqi_counters_attach(void);

static inline struct aqi_counters *aqi_counting(void)
{
    struct aqi_counters *mine = aqi_counters_mine;
    return AQI_LIKELY(mine != NULL) ? mine : aqi_counters_attach();
}

/* For who counts several things at once, in its block. */
static inline void aqi_count_in(struct aqi_counters *mine, enum aqi_counter counter, uint64_t n)
{
    /* Only this thread writes: no locked read-modify-write. */
#if defined(__x86_64__)
    /* Compilers make three instructions of what is below. */
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

/* The calling thread waits from now on; within another wait it is the outer one that counts.
 * Returns what to leave it with. */
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
 * Count from now on where others may look: in an object of AQI_COUNTERS_SHARED blocks, the first of
 * which is the calling thread's, each AQI_COUNTERS_BYTES long and a struct aqi_counters. Threads
 * beyond these count on in memory of the process. Once; before the process has other threads that
 * count, or theirs is not seen.
 */
enum { AQI_COUNTERS_SHARED = 64 };
#define AQI_COUNTERS_BYTES                                                                         \
    ((sizeof(struct aqi_counters) + AQI_CACHE_LINE - 1) / AQI_CACHE_LINE * AQI_CACHE_LINE)
aq_status aqi_counters_share(int *fd);
/* Sum the blocks of such an object of another process; `doing` is that of its first thread. False:
 * it is none. */
bool aqi_counters_read(int fd, uint64_t value[AQI_CTR_COUNT], uint32_t *doing);
bool aqi_counters_doing(int fd, uint32_t *doing);

/* The sum over all threads, past and present. */
uint64_t aqi_counter_sum(enum aqi_counter counter);

/* One such line: false: it is zero, and there is none. */
bool aqi_counter_line(struct aqi_safe_text *line, const char *title, enum aqi_counter counter,
                      uint64_t value);
/* Print all non-zero counters to `fd`, a line "TITLE: name value unit" each; async-signal-safe
 * (used on abnormal exit too). False: not all of it could be written, as errno says. */
bool aqi_counters_print(int fd, const char *title);

#endif
