/* Messages while many hosts start: how many have answered, and which have not. */
#ifndef AQRUN_PROGRESS_H
#define AQRUN_PROGRESS_H

#include "base/base.h"

#define PROGRESS_LINE 400u

/* Initialize to zero, except for `began_ns`. */
struct progress {
    uint64_t began_ns;
    uint64_t last_ns; /* when the last line was due */
    unsigned lines;
};

struct progress_hosts {
    uint32_t count;
    bool (*answered)(uint32_t host);
    const char *(*name)(uint32_t host);
};

/*
 * Get the line to print now, if any: "14 of 16 hosts have answered; waiting for n7, n12". The
 * first is due after two seconds, further ones at increasing intervals until all hosts have
 * answered. `*next` is the time of the next call, UINT64_MAX once all have answered.
 */
bool progress_line(struct progress *progress, const struct progress_hosts *hosts, uint64_t now,
                   char line[PROGRESS_LINE], uint64_t *next);

#endif
