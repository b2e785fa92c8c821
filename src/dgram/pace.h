/*
 * How fast to send to a peer: round-trip time, retransmission timeout, congestion window, pacing.
 *
 * Round trips as RFC 6298. The window follows the delay above the path's own (as Swift, SIGCOMM
 * 2020, and TIMELY, SIGCOMM 2015, do): a queue that builds up makes it smaller before anything is
 * lost. How much of a queue is too much depends on the window: a flow with a smaller one tolerates
 * more, so flows that share a queue come to equal windows. The delay of the path itself is measured
 * anew now and then, with an empty queue; otherwise flows that start late would take the queue for
 * a part of the path. A single loss means little on a path that loses at random, so the window
 * shrinks by half of the *share* that was lost in a round trip, and grows by a number of packets:
 * flows on a link that overflows converge to equal shares, too, and one of one percent costs
 * little.
 *
 * A receiver that computes leaves packets in its socket. That is not congestion: round trips are
 * those of the path, without the time that packets and acknowledgements spent waiting at the two
 * ends (as Swift's), and the window is what the path bears. The whole time of an answer is measured
 * separately: the timeout waits for that. Where packets wait for long, most of those under way
 * wait at the receiver, so a second window, the reach, bounds them all, and the first one bounds
 * only how fast they leave.
 */
#ifndef AQI_DGRAM_PACE_H
#define AQI_DGRAM_PACE_H

#include "base/base.h"

struct dgram_pace {
    uint64_t srtt;           /* ns, of the path; 0: nothing measured yet */
    uint64_t lay;            /* and at the two ends, beside that */
    uint64_t answer, varies; /* until an answer is here, and its variation; likewise */
    uint64_t base;           /* the smallest of late: what the path itself takes */
    uint64_t base_at;        /* when a round trip was last about as short */
    uint64_t rto_min, rto_max;
    unsigned patience; /* factor of dgram_pace_tail, in 1/PACE_ONE */

    size_t window, most, packet; /* bytes */
    size_t reach, reach_most;    /* of all that is under way where the receiver computes */
    bool growing;                /* slow start */
    uint8_t draining;            /* rounds that are left with the least window, */
    size_t drained;              /* instead of this one */
    /* Of the round trip under way. */
    uint64_t round_end, round_least;
    size_t acked, lost;
    bool full;    /* the window was what kept us; */
    bool reached; /* the reach */

    uint64_t filled_at; /* when `tokens` was brought up to date */
    int64_t tokens;     /* bytes that may leave now */
};

void dgram_pace_init(struct dgram_pace *pace, size_t packet, size_t most, size_t reach,
                     uint64_t rto_min, uint64_t rto_max);
/* An acknowledgement is served `ns` after what it tells of has left. */
void dgram_pace_answered(struct dgram_pace *pace, uint64_t ns);
/* A packet was on the path for `rtt` ns, there and back, and lay for `lay` ns at the ends. */
void dgram_pace_sample(struct dgram_pace *pace, uint64_t rtt, uint64_t lay, uint64_t now);
void dgram_pace_acked(struct dgram_pace *pace, size_t bytes, uint64_t now);
void dgram_pace_lost(struct dgram_pace *pace, size_t bytes);
/* The peer is silent: after several timeouts in a row nothing of what was known still holds. */
void dgram_pace_silent(struct dgram_pace *pace);

/* Whether the receiver looks rarely, as far as is known. */
bool dgram_pace_rare(const struct dgram_pace *pace);
/*
 * Whether `size` bytes may leave beside `under_way`. dgram_pace_open: if not, that is remembered.
 */
bool dgram_pace_fits(const struct dgram_pace *pace, size_t under_way, size_t size);
bool dgram_pace_open(struct dgram_pace *pace, size_t under_way, size_t size);

/* ns after which a packet without an answer is sent again, at the `tries`-th time. */
uint64_t dgram_pace_timeout(const struct dgram_pace *pace, unsigned tries);

/* ns after which the tail of what is under way, behind which nothing comes that would show a loss,
 * is probed: twice what answers take, at least, and at most a timeout. */
uint64_t dgram_pace_tail(const struct dgram_pace *pace);
/* Such a probe was: the packet or its acknowledgement was lost, or both were just late. */
void dgram_pace_needed(struct dgram_pace *pace);
void dgram_pace_needless(struct dgram_pace *pace);

/* When may `bytes` leave? `now` or before: at once. `away`: ns for which packets lay here before,
 * as the program computed, so that nothing could leave. */
uint64_t dgram_pace_when(struct dgram_pace *pace, size_t bytes, uint64_t away, uint64_t now);
static inline void dgram_pace_spend(struct dgram_pace *pace, size_t bytes)
{
    pace->tokens -= (int64_t)bytes;
}

#endif
