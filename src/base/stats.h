/*
 * Counters with units, all in one table; each thread counts into its own block without atomic
 * read-modify-write, and a reader sums the blocks.
 */
#ifndef AQI_STATS_H
#define AQI_STATS_H

#include "base/base.h"

/* All counters of the library, in one list so that a count is one indexed add. */
enum aqi_counter {
    AQI_CTR_AM_SENT,          /* active messages sent */
    AQI_CTR_AM_RECEIVED,      /* active messages handled */
    AQI_CTR_AM_BYTES,         /* payload bytes of active messages sent */
    AQI_CTR_AM_AGAIN,         /* sends that found no room and had to poll */
    AQI_CTR_AM_DROPPED,       /* arrivals that made no sense and were dropped */
    AQI_CTR_CREDIT_NONE,      /* requests that found no credit */
    AQI_CTR_CREDIT_HIDDEN,    /* hidden replies sent to give credits back */
    AQI_CTR_PUT,              /* puts */
    AQI_CTR_PUT_BYTES,        /* bytes put */
    AQI_CTR_GET,              /* gets */
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

/* The calling thread's block; allocated and linked on first use. At the thread's end the block and
 * its counts stay, and the next new thread counts on in it. */
struct aqi_counters {
    _Atomic uint64_t value[AQI_CTR_COUNT];
    atomic_bool taken;                 /* some living thread counts in it */
    struct trace_block *_Atomic trace; /* what the thread has traced; NULL: nothing so far */
    struct aqi_counters *next;
};
extern AQI_FAST_THREAD_LOCAL struct aqi_counters *aqi_counters_mine;
struct aqi_counters *aqi_counters_attach(void);
/* The blocks of all threads, past and present; async-signal-safe. */
struct aqi_counters *aqi_counters_all(void);

static inline void aqi_count(enum aqi_counter counter, uint64_t n)
{
    struct aqi_counters *mine = aqi_counters_mine;
    if (AQI_UNLIKELY(mine == NULL)) mine = aqi_counters_attach();
    /* Only this thread writes: a plain load and store, no read-modify-write. */
    uint64_t old = atomic_load_explicit(&mine->value[counter], memory_order_relaxed);
    atomic_store_explicit(&mine->value[counter], old + n, memory_order_relaxed);
}

/* The sum over all threads, past and present. */
uint64_t aqi_counter_sum(enum aqi_counter counter);

/* Print all non-zero counters to `fd`, a line "TITLE: name value unit" each; async-signal-safe
 * (used on abnormal exit too). */
void aqi_counters_print(int fd, const char *title);

#endif
