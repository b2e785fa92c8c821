/* How fast to send to a peer. */
#include "dgram/pace.h"

enum {
    PACE_FIRST_WINDOW = 128 << 10,
    PACE_LEAST_PACKETS = 2,
    PACE_GROWTH = 6,           /* maximum growth of the window per round trip, in packets */
    PACE_QUEUE = 100000,       /* ns of queueing that do not count as congestion */
    PACE_SHARE = 32000,        /* ns more for each halving of the window below PACE_SHARE_WINDOW */
    PACE_SHARE_WINDOW = 20,    /* 1 MB, as a power of two */
    PACE_BASE_AGE = 100000000, /* ns after which the path's delay is remeasured */
    PACE_BASE_ROUNDS = 64,     /* but not before this many round trips */
    PACE_DRAIN_ROUNDS = 3,
    PACE_RARE = 100000,    /* ns: shorter waits do not indicate a receiver that computes */
    PACE_BURST = 62 << 10, /* bytes that leave at once, however slow the path is */
    PACE_FEW = 8,          /* packets: with fewer, a single loss says little about the loss rate */
    PACE_TAIL = 10,        /* minimum delay of a probe beyond the usual response time: rto_min /
                            * PACE_TAIL */
    PACE_ONE = 1024,       /* unit of `backoff` */
    PACE_BACKOFF = 16,     /* largest backoff, in that unit */
    PACE_FORGET = 256      /* responses over which it decays */
};

void dgram_pace_init(struct dgram_pace *pace, size_t packet, size_t most, size_t reach,
                     uint64_t rto_min, uint64_t rto_max)
{
    *pace = (struct dgram_pace){.base = UINT64_MAX,
                                .rto_min = rto_min,
                                .rto_max = rto_max,
                                .window = aqi_min(PACE_FIRST_WINDOW, most),
                                .most = most,
                                .reach = aqi_min(PACE_FIRST_WINDOW, reach),
                                .reach_most = reach,
                                .packet = packet,
                                .growing = true,
                                .backoff = PACE_ONE,
                                .round_least = UINT64_MAX,
                                .tokens = PACE_BURST};
}

void dgram_pace_response(struct dgram_pace *pace, uint64_t ns)
{
    if (ns == 0) ns = 1;
    if (pace->response == 0) {
        pace->response = ns;
        pace->response_var = ns / 2;
        return;
    }
    /* Spurious probes double the backoff, so there is about one in 180 responses, however late. */
    pace->backoff -= (pace->backoff - PACE_ONE) / PACE_FORGET;
    uint64_t error = ns > pace->response ? ns - pace->response : pace->response - ns;
    pace->response_var = (3 * pace->response_var + error) / 4;
    pace->response = (7 * pace->response + ns) / 8;
}

bool dgram_pace_rare(const struct dgram_pace *pace)
{
    return pace->srtt != 0 && pace->end_delay > pace->srtt / 4 + PACE_RARE;
}

/* Whether the reach, not the window, is the limit. */
static bool pace_reaches(const struct dgram_pace *pace)
{
    return pace->reach > pace->window && pace->draining == 0 && dgram_pace_rare(pace);
}

bool dgram_pace_fits(const struct dgram_pace *pace, size_t under_way, size_t size)
{
    if (under_way + size <= pace->window) return true;
    return pace_reaches(pace) && under_way + size <= pace->reach;
}

bool dgram_pace_open(struct dgram_pace *pace, size_t under_way, size_t size)
{
    if (dgram_pace_fits(pace, under_way, size)) return true;
    pace->reached = true;
    if (!pace_reaches(pace)) pace->full = true;
    return false;
}

void dgram_pace_sample(struct dgram_pace *pace, uint64_t rtt, uint64_t end_delay, uint64_t now)
{
    if (rtt == 0) rtt = 1;
    pace->end_delay = pace->srtt == 0 ? end_delay : (7 * pace->end_delay + end_delay) / 8;
    pace->srtt = pace->srtt == 0 ? rtt : (7 * pace->srtt + rtt) / 8;
    if (rtt < pace->base || rtt - pace->base <= pace->base / 8) pace->base_at = now;
    if (rtt < pace->base) pace->base = rtt;
    if (rtt < pace->round_least) pace->round_least = rtt;
}

static void dgram_pace_clamp(struct dgram_pace *pace)
{
    pace->window = aqi_max(pace->window, PACE_LEAST_PACKETS * pace->packet);
    pace->window = aqi_min(pace->window, pace->most);
    pace->reach = aqi_max(pace->reach, PACE_LEAST_PACKETS * pace->packet);
    pace->reach = aqi_min(pace->reach, pace->reach_most);
}

/* ns of queueing that a flow with this window tolerates. */
static uint64_t dgram_pace_limit(const struct dgram_pace *pace)
{
    uint64_t limit = aqi_max(PACE_QUEUE, pace->base / 4);
    if (pace->window >> PACE_SHARE_WINDOW != 0) return limit;
    int log = 63 - __builtin_clzll(pace->window);
    uint64_t part = (PACE_SHARE * (pace->window - (UINT64_C(1) << log))) >> log;
    return limit + (uint64_t)(PACE_SHARE_WINDOW - log) * PACE_SHARE - part;
}

/*
 * The delay of the path itself can be measured only while its queue is empty, so each flow
 * periodically holds back for some round trips. All flows that share the queue do so together: once
 * one has emptied it, the others also measure that (as in BBR, 2016). Returns true while draining.
 */
static bool dgram_pace_drain(struct dgram_pace *pace, uint64_t now)
{
    if (pace->draining != 0) {
        if (--pace->draining != 0) return true;
        if (pace->round_least != UINT64_MAX) pace->base = pace->round_least;
        pace->window = pace->drained;
        pace->base_at = now;
        return false;
    }
    uint64_t rounds = PACE_BASE_ROUNDS * aqi_max(pace->srtt, pace->response);
    if (now - pace->base_at < aqi_max(PACE_BASE_AGE, rounds)) return false;
    pace->base_at = now;
    if (!pace->full) { /* the queue is not ours */
        if (pace->round_least != UINT64_MAX) pace->base = pace->round_least;
        return false;
    }
    /*
     * Packets that wait at a receiver that computes are not queued on the path, and all flows have
     * paused meanwhile.
     */
    pace->draining = dgram_pace_rare(pace) ? 1 : PACE_DRAIN_ROUNDS;
    pace->drained = pace->window;
    pace->window = pace->packet;
    pace->round_least = UINT64_MAX;
    return true;
}

/* At the end of a round trip: shrink the window for queueing and losses in it, or let it grow. */
static void dgram_pace_round(struct dgram_pace *pace)
{
    size_t all = pace->acked + pace->lost;
    uint64_t rtt = pace->round_least == UINT64_MAX ? pace->srtt : pace->round_least;
    uint64_t queued = rtt > pace->base ? rtt - pace->base : 0;
    uint64_t limit = dgram_pace_limit(pace);
    bool slow = queued > limit;
    /* If either end computes there may be no measurement, and srtt may be stale. */
    bool delayed = slow && pace->round_least != UINT64_MAX;
    bool lossy = all > PACE_FEW * pace->packet && pace->lost > 0;
    if (pace->growing && (delayed || (lossy && pace->lost > all / 8))) pace->growing = false;
    if (delayed) /* by at most half */
        pace->window -=
            (size_t)((double)pace->window * (double)(queued - limit) / (double)(2 * queued));
    if (lossy && !pace->growing)
        pace->window -= (size_t)((double)pace->window * (double)pace->lost / (double)(2 * all));
    if (!slow && pace->full) {
        size_t most = aqi_max(pace->window / 8, pace->packet);
        most = aqi_min(most, PACE_GROWTH * pace->packet);
        pace->window += pace->growing ? pace->acked : most * (limit - queued) / limit;
    }
    if (lossy)
        pace->reach -= (size_t)((double)pace->reach * (double)pace->lost / (double)(2 * all));
    else if (pace->reached && !delayed && dgram_pace_rare(pace))
        pace->reach = aqi_max(pace->reach, pace->window) + pace->acked;
}

void dgram_pace_acked(struct dgram_pace *pace, size_t bytes, uint64_t now)
{
    pace->acked += bytes;
    if (now < pace->round_end) return;
    if (!dgram_pace_drain(pace, now)) {
        dgram_pace_round(pace);
        dgram_pace_clamp(pace);
        pace->round_least = UINT64_MAX;
    }
    pace->acked = pace->lost = 0;
    pace->full = pace->reached = false;
    bool drains = pace->draining != 0 && dgram_pace_rare(pace);
    pace->round_end = now + (drains ? pace->response : pace->srtt);
}

void dgram_pace_lost(struct dgram_pace *pace, size_t bytes)
{
    pace->lost += bytes;
}

void dgram_pace_silent(struct dgram_pace *pace)
{
    pace->window = aqi_min(pace->window, PACE_FIRST_WINDOW);
    pace->reach = aqi_min(pace->reach, PACE_FIRST_WINDOW);
    pace->growing = true;
    pace->draining = 0;
}

uint64_t dgram_pace_timeout(const struct dgram_pace *pace, unsigned tries)
{
    /* Keep a margin even if response times do not vary: acknowledgements may be delayed. */
    uint64_t margin = aqi_max(4 * pace->response_var, pace->rto_min / 2);
    uint64_t rto = pace->response == 0 ? 4 * pace->rto_min : pace->response + margin;
    if (rto < pace->rto_min) rto = pace->rto_min;
    for (; tries > 0 && rto < pace->rto_max; tries--)
        rto *= 2;
    return rto < pace->rto_max ? rto : pace->rto_max;
}

uint64_t dgram_pace_tail(const struct dgram_pace *pace)
{
    uint64_t most = dgram_pace_timeout(pace, 0);
    if (pace->response == 0) return most;
    uint64_t margin = aqi_max(pace->rto_min / PACE_TAIL, pace->response);
    uint64_t tail = pace->response + aqi_max(margin, 4 * pace->response_var);
    return aqi_min(tail * pace->backoff / PACE_ONE, most);
}

void dgram_pace_probe_needed(struct dgram_pace *pace)
{
    pace->backoff = (unsigned)aqi_max(pace->backoff / 2, PACE_ONE);
}

void dgram_pace_probe_spurious(struct dgram_pace *pace)
{
    pace->backoff = (unsigned)aqi_min(2 * pace->backoff, PACE_BACKOFF * PACE_ONE);
}

/* Bytes that may leave at once: after the program has computed, as many as could have been sent
 * meanwhile, up to a window. */
static double pace_burst(const struct dgram_pace *pace, double rate, uint64_t away)
{
    double missed = rate * (double)away, most = (double)pace->window;
    if (missed > most) missed = most;
    return missed > PACE_BURST ? missed : PACE_BURST;
}

uint64_t dgram_pace_when(struct dgram_pace *pace, size_t bytes, uint64_t away, uint64_t now)
{
    if (pace->srtt == 0) return now;
    /* A little faster than a window per round trip, so that pacing is not the bottleneck. */
    double rate = (double)pace->window * (pace->growing ? 2.0 : 1.25) / (double)pace->srtt;
    if (now > pace->filled_at) {
        double most = pace_burst(pace, rate, away);
        double fresh = (double)pace->tokens + rate * (double)(now - pace->filled_at);
        pace->filled_at = now;
        pace->tokens = (int64_t)(fresh < most ? fresh : most);
    }
    int64_t missing = (int64_t)aqi_min(bytes, PACE_BURST) - pace->tokens;
    if (missing <= 0) return now;
    /* With a receiver that computes, only pacing keeps packets from leaving. */
    if (dgram_pace_rare(pace)) pace->full = true;
    return now + (uint64_t)((double)missing / rate) + 1;
}
