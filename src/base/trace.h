/*
 * The trace of a process: messages, handlers, one-sided operations, atomics, collectives, waits and
 * the steps of the job, each with the time it began and how long it took. Every thread fills a
 * block of its own, which is written out when it is full, at the end of the process, and when it is
 * killed by a signal that can be caught. Off, a traced place costs one load and one branch.
 */
#ifndef AQI_TRACE_H
#define AQI_TRACE_H

#include "base/clock.h"

enum aqi_trace_category {
    AQI_TRACE_AM = 1,
    AQI_TRACE_RMA = 2,
    AQI_TRACE_ATOMIC = 4,
    AQI_TRACE_COLL = 8,
    AQI_TRACE_WAIT = 16,
    AQI_TRACE_JOB = 32,
    AQI_TRACE_ALL = 63
};

/* There is no peer to tell of. */
#define AQI_TRACE_NOBODY UINT32_MAX

/* What is traced; 0: nothing. Changes at open and close only. Hidden: read without a detour. */
extern _Atomic uint32_t aqi_trace_mask __attribute__((visibility("hidden")));

enum aqi_trace_format {
    AQI_TRACE_AUTO,   /* text on standard error, else chrome */
    AQI_TRACE_CHROME, /* events in JSON, for Perfetto and chrome://tracing */
    AQI_TRACE_TEXT    /* a line each, for people */
};

struct aqi_trace_params {
    unsigned mask;
    int fd; /* where to write */
    enum aqi_trace_format format;
    uint64_t limit; /* bytes, after which nothing more is written; 0: none */
    bool flush;     /* write each event at once */
    uint32_t rank;
};

/*
 * Read a mask: categories separated by commas or '+', "all", "off" or nothing; or the letters of
 * GASNET_TRACEMASK; letters without a category here are ignored. Returns false if it is malformed.
 */
bool aqi_trace_read(const char *text, unsigned *mask);

/* Once. */
void aqi_trace_open(const struct aqi_trace_params *params);

/* Write what there is and end the file; tracing is off then. Also in a signal handler. */
void aqi_trace_close(void);

AQI_COLD void aqi_trace_record(unsigned category, const char *name, uint64_t begun, uint32_t peer,
                               uint64_t bytes);

/* For the shortest paths, which then go another way. */
static inline bool aqi_tracing(unsigned category)
{
    return AQI_UNLIKELY((atomic_load_explicit(&aqi_trace_mask, memory_order_relaxed) & category) !=
                        0);
}

/* When what is traced begins; 0: it is not traced. */
static inline uint64_t aqi_trace_begin(unsigned category)
{
    return aqi_tracing(category) ? aqi_now_ns() : 0;
}

/* It has ended. `name` is read when the block is written: it has static storage. */
static inline void aqi_trace_end(unsigned category, const char *name, uint64_t begun, uint32_t peer,
                                 uint64_t bytes)
{
    if (AQI_UNLIKELY(begun != 0)) aqi_trace_record(category, name, begun, peer, bytes);
}

/* Something that takes no time. */
static inline void aqi_trace_point(unsigned category, const char *name, uint32_t peer,
                                   uint64_t bytes)
{
    if (aqi_tracing(category)) aqi_trace_record(category, name, 0, peer, bytes);
}

#endif
