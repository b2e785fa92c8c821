/*
 * The offset between a local clock and that of the job's first host, from the times of queries and
 * answers between the two. No I/O: all times are arguments, in ns.
 */
#ifndef AQI_ALIGN_H
#define AQI_ALIGN_H

#include "base/base.h"

enum { AQI_ALIGN_SAMPLES = 8, AQI_ALIGN_NODES = 512 };

struct aqi_align_sample {
    uint64_t at; /* local time */
    int64_t offset;
    uint64_t error;
};

struct aqi_align_node {
    uint64_t at;
    int64_t offset;
};

/* All zero: unknown. */
struct aqi_align {
    struct aqi_align_sample samples[AQI_ALIGN_SAMPLES];
    unsigned count; /* so far */
    struct aqi_align_node nodes[AQI_ALIGN_NODES];
    unsigned used;
};

/*
 * Add a sample: a query sent at local time `asked`, received (`heard`) and answered at these times
 * of the other clock, which may itself be off by `error`. The answer arrived at local time `got`.
 */
void aqi_align_add(struct aqi_align *align, uint64_t asked, uint64_t heard, uint64_t answered,
                   uint64_t got, uint64_t error);
/* Whether enough samples have been added. */
bool aqi_align_ready(const struct aqi_align *align);
/*
 * Convert local time `at` to the other clock. The result is monotonic in `at`, and earlier results
 * stay valid: a better estimate is approached slowly, by at most 1/2000 of the elapsed time,
 * unless it differs by more than 10 ms (after a host was suspended).
 */
uint64_t aqi_align_time(const struct aqi_align *align, uint64_t at);
/* The offset that aqi_align_time adds, and its error bound; UINT64_MAX: unknown. */
int64_t aqi_align_offset(const struct aqi_align *align, uint64_t at);
uint64_t aqi_align_error(const struct aqi_align *align, uint64_t now);

#endif
