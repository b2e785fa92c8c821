/* With --prefix: the output of a rank, relayed line by line with the rank's number in front. */
#ifndef AQRUN_RELAY_H
#define AQRUN_RELAY_H

#include "output.h"

struct relay {
    struct source source; /* closed: the rank's side has ended, or there never was one */
    struct output *to;
    uint32_t rank;
    bool paused;
    struct bytes line; /* the beginning of one whose end has not come */
};

/* Make a pipe; returns its write end for the rank. The caller closes that after the fork. */
int relay_open(struct relay *relay, uint32_t rank, struct output *to);

/* Read what is there and then end, although somebody may still hold the write end. */
void relay_finish(struct relay *relay);

/* All relays to `to`: its reader is gone; or there is room again. */
void relay_shut(const struct output *to);
void relay_resume(const struct output *to);

#endif
