/*
 * The trace of a process: messages, handlers, one-sided operations, atomics, collectives, waits and
 * the steps of the job, each with its start and duration. Every thread fills a block of its own,
 * which is written when it is full, at the end of the process, and when a signal that can be caught
 * kills the process. When tracing is off, a trace point costs one load and one branch.
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

/* The event has no peer. */
#define AQI_TRACE_NOBODY UINT32_MAX

/* The traced categories; changes at open and close only. Hidden, so that access is direct. */
extern _Atomic uint32_t aqi_trace_mask __attribute__((visibility("hidden")));

enum aqi_trace_format {
    AQI_TRACE_AUTO,   /* text on standard error, otherwise chrome */
    AQI_TRACE_CHROME, /* events in JSON, for Perfetto and chrome://tracing */
    AQI_TRACE_TEXT    /* one line per event, for people */
};

struct aqi_trace_params {
    unsigned mask;
    int fd; /* destination */
    enum aqi_trace_format format;
    uint64_t limit; /* bytes, after which writing stops; 0: no limit */
    bool flush;     /* write each event at once */
    uint32_t rank;
};

/*
 * Parse a mask: categories separated by commas or '+', "all", "off" or nothing, or the letters of
 * GASNET_TRACEMASK, where letters without a category here are ignored. Returns false if it is
 * malformed.
 */
bool aqi_trace_read(const char *text, unsigned *mask);

/* Call once. */
void aqi_trace_open(const struct aqi_trace_params *params);

/* Write the remaining events, end the file and turn tracing off. Also called in signal handlers. */
void aqi_trace_close(void);

AQI_COLD void aqi_trace_record(unsigned category, const char *name, uint64_t begun, uint32_t peer,
                               uint64_t bytes);

/* For fast paths, which branch to a slower variant if this is true. */
static inline bool aqi_tracing(unsigned category)
{
    return AQI_UNLIKELY((atomic_load_explicit(&aqi_trace_mask, memory_order_relaxed) & category) !=
                        0);
}

/* The start time of an event; 0 if it is not traced. */
static inline uint64_t aqi_trace_begin(unsigned category)
{
    return aqi_tracing(category) ? aqi_now_ns() : 0;
}

/*
 * Record an event that ends now. `name` is read when the block is written, so it must have static
 * storage.
 */
static inline void aqi_trace_end(unsigned category, const char *name, uint64_t begun, uint32_t peer,
                                 uint64_t bytes)
{
    if (AQI_UNLIKELY(begun != 0)) aqi_trace_record(category, name, begun, peer, bytes);
}

/* Record an event without duration. */
static inline void aqi_trace_point(unsigned category, const char *name, uint32_t peer,
                                   uint64_t bytes)
{
    if (aqi_tracing(category)) aqi_trace_record(category, name, 0, peer, bytes);
}

#endif
