/*
 * How fast to send to a peer: RTT, retransmission timeout, congestion window, pacing.
 *
 * RTTs are estimated as in RFC 6298. The window follows the delay in excess of the path's own (like
 * Swift, SIGCOMM 2020, and TIMELY, SIGCOMM 2015): a growing queue shrinks it before anything is
 * lost. How much queueing is tolerated depends on the window: a flow with a smaller one tolerates
 * more, so flows that share a queue converge to equal windows. The delay of the path itself is
 * periodically remeasured with an empty queue; otherwise flows that start late would mistake the
 * queue for part of the path. A single loss means little on a path that loses at random, so the
 * window shrinks by half of the *share* that was lost in a round trip, and grows by a number of
 * packets: flows that overflow a link also converge to equal shares, and a random loss of 1 % costs
 * little.
 *
 * A receiver that computes leaves packets in its socket. That is not congestion: RTTs are those of
 * the path, without the time that packets and acknowledgements waited at the two ends (as in
 * Swift), and the window is what the path carries. The timeout is based on the whole response time,
 * which is measured separately. If packets wait for long, most of those in flight wait at the
 * receiver; then a second window, the reach, limits them all, and the first limits only how fast
 * they leave.
 */
#ifndef AQI_DGRAM_PACE_H
#define AQI_DGRAM_PACE_H

#include "base/base.h"

struct dgram_pace {
    uint64_t srtt;      /* ns: the RTT of the path; 0: not measured yet */
    uint64_t end_delay; /* ns spent waiting at the two ends */
    uint64_t response,
        response_var; /* ns until a response, and its variation; 0: not measured yet */
    uint64_t base;    /* the smallest recent RTT: that of the path itself */
    uint64_t base_at; /* when a round trip was last about as short */
    uint64_t rto_min, rto_max;
    unsigned backoff; /* factor of dgram_pace_tail, in 1/PACE_ONE */

    size_t window, most, packet; /* bytes */
    size_t reach, reach_most;    /* limit of all bytes in flight to a receiver that computes */
    bool growing;                /* slow start */
    uint8_t draining;            /* rounds left with a window of one packet */
    size_t drained;              /* the window after them */
    /* In the current round trip. */
    uint64_t round_end, round_least;
    size_t acked, lost;
    bool full;    /* the window kept packets from leaving */
    bool reached; /* the reach did, or the window where no reach applies */

    uint64_t filled_at; /* when `tokens` was last updated */
    int64_t tokens;     /* bytes that may leave now */
};

void dgram_pace_init(struct dgram_pace *pace, size_t packet, size_t most, size_t reach,
                     uint64_t rto_min, uint64_t rto_max);
/* An acknowledgement is processed `ns` after the packet that it acknowledges was sent. */
void dgram_pace_response(struct dgram_pace *pace, uint64_t ns);
/* A packet and its acknowledgement spent `rtt` ns on the path and `end_delay` ns waiting at the
 * ends. */
void dgram_pace_sample(struct dgram_pace *pace, uint64_t rtt, uint64_t end_delay, uint64_t now);
void dgram_pace_acked(struct dgram_pace *pace, size_t bytes, uint64_t now);
void dgram_pace_lost(struct dgram_pace *pace, size_t bytes);
/* The peer is silent: after several timeouts in a row the windows are stale. */
void dgram_pace_silent(struct dgram_pace *pace);

/* Whether the receiver polls rarely, as far as is known. */
bool dgram_pace_rare(const struct dgram_pace *pace);
/*
 * Whether `size` bytes may leave beside `under_way` bytes in flight. If not, dgram_pace_open
 * records it.
 */
bool dgram_pace_fits(const struct dgram_pace *pace, size_t under_way, size_t size);
bool dgram_pace_open(struct dgram_pace *pace, size_t under_way, size_t size);

/* ns after which an unanswered packet is retransmitted; doubled `tries` times. */
uint64_t dgram_pace_timeout(const struct dgram_pace *pace, unsigned tries);

/* ns after which the last packets in flight are probed, as no later packet can show their loss: at
 * least twice the response time, and at most a timeout. */
uint64_t dgram_pace_tail(const struct dgram_pace *pace);
/* The probe was needed, as the packet or its acknowledgement was lost; or spurious: they were
 * late. */
void dgram_pace_probe_needed(struct dgram_pace *pace);
void dgram_pace_probe_spurious(struct dgram_pace *pace);

/* When `bytes` may leave; `now`: at once. `away`: ns for which packets waited here while the
 * program computed, so that nothing could leave. */
uint64_t dgram_pace_when(struct dgram_pace *pace, size_t bytes, uint64_t away, uint64_t now);
static inline void dgram_pace_spend(struct dgram_pace *pace, size_t bytes)
{
    pace->tokens -= (int64_t)bytes;
}

#endif
