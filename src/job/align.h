/*
 * The offset between a local clock and that of the job's first host, from the times of queries and
 * answers between the two. Pure: all times are arguments, in ns.
 */
#ifndef AQI_ALIGN_H
#define AQI_ALIGN_H

#include "base/base.h"

enum { AQI_ALIGN_SAMPLES = 8, AQI_ALIGN_NODES = 512 };

struct aqi_align_sample {
    uint64_t at; /* our time */
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
 * A query sent at our time `asked`, received and answered at these times of the other clock, which
 * may itself be wrong by `error`, and whose answer arrived at our time `got`.
 */
void aqi_align_add(struct aqi_align *align, uint64_t asked, uint64_t heard, uint64_t answered,
                   uint64_t got, uint64_t error);
/* Whether enough queries have been answered. */
bool aqi_align_ready(const struct aqi_align *align);
/*
 * Our time `at` on the other clock. It always grows with `at`, and earlier results stay valid: a
 * better estimate is approached from then on, by at most 1/2000 of the elapsed time, unless it
 * differs by more than 10 ms (after a host was suspended).
 */
uint64_t aqi_align_time(const struct aqi_align *align, uint64_t at);
/* The offset added there, and its error bound; UINT64_MAX: unknown. */
int64_t aqi_align_offset(const struct aqi_align *align, uint64_t at);
uint64_t aqi_align_error(const struct aqi_align *align, uint64_t now);

#endif
