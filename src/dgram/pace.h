/*
 * How fast to send to a peer: round-trip time, retransmission time-out, congestion window, pacing.
 *
 * Round trips as RFC 6298. The window follows the delay above the path's own (as Swift, SIGCOMM
 * 2020, and TIMELY, SIGCOMM 2015, do): a queue that builds up makes it smaller before anything is
 * lost. How much of a queue is too much depends on the window: who has less bears more, so flows
 * that share a queue come to equal windows. What the path itself takes is measured anew now and
 * then, with an empty queue, or late comers would take the queue for a part of it. A loss in itself
 * says little on a path that loses at random, so the window shrinks by half of the *share* that was
 * lost in a round trip, and grows by a number of packets: flows on a link that overflows converge
 * to equal shares, too, and one of one percent costs little.
 */
#ifndef AQI_DGRAM_PACE_H
#define AQI_DGRAM_PACE_H

#include "base/base.h"

struct dgram_pace {
    uint64_t srtt, rttvar; /* ns; 0: nothing measured yet */
    uint64_t base;         /* the smallest of late: what the path itself takes */
    uint64_t base_at;      /* when a round trip was last about as short */
    uint64_t rto_min, rto_max;

    size_t window, most, packet; /* bytes */
    bool growing;                /* slow start */
    uint8_t draining;            /* rounds that are left with the least window, */
    size_t drained;              /* instead of this one */
    /* Of the round trip under way. */
    uint64_t round_end, round_least;
    size_t acked, lost;
    bool full; /* the window was what kept us */

    uint64_t filled_at; /* when `tokens` was brought up to date */
    int64_t tokens;     /* bytes that may leave now */
};

void dgram_pace_init(struct dgram_pace *pace, size_t packet, size_t most, uint64_t rto_min,
                     uint64_t rto_max);
/* A packet came back after `rtt` ns on the way and at the peer's network. */
void dgram_pace_sample(struct dgram_pace *pace, uint64_t rtt, uint64_t now);
void dgram_pace_acked(struct dgram_pace *pace, size_t bytes, uint64_t now);
void dgram_pace_lost(struct dgram_pace *pace, size_t bytes);
/* The peer is silent: after several time-outs in a row nothing of what was known still holds. */
void dgram_pace_silent(struct dgram_pace *pace);

/* ns after which a packet without an answer is sent again, at the `tries`-th time. */
uint64_t dgram_pace_timeout(const struct dgram_pace *pace, unsigned tries);

/* When may `bytes` leave? `now` or before: at once. */
uint64_t dgram_pace_when(struct dgram_pace *pace, size_t bytes, uint64_t now);
static inline void dgram_pace_spend(struct dgram_pace *pace, size_t bytes)
{
    pace->tokens -= (int64_t)bytes;
}

#endif
