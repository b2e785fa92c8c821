/* How fast to send to a peer. */
#include "dgram/pace.h"

enum {
    PACE_FIRST_WINDOW = 128 << 10,
    PACE_LEAST_PACKETS = 2,
    PACE_GROWTH = 6,            /* packets in a round trip */
    PACE_QUEUE = 100000,        /* ns of queueing that is no congestion */
    PACE_BASE_AGE = 1000000000, /* the path's own time is measured anew */
    PACE_BURST = 62 << 10,      /* bytes that leave at once however slow the path */
    PACE_FEW = 8                /* packets: of fewer, a lost one says nothing of a share */
};

void dgram_pace_init(struct dgram_pace *pace, size_t packet, size_t most, uint64_t rto_min,
                     uint64_t rto_max)
{
    *pace = (struct dgram_pace){.base = UINT64_MAX,
                                .base_next = UINT64_MAX,
                                .rto_min = rto_min,
                                .rto_max = rto_max,
                                .window = aqi_min(PACE_FIRST_WINDOW, most),
                                .most = most,
                                .packet = packet,
                                .growing = true,
                                .round_least = UINT64_MAX,
                                .tokens = PACE_BURST};
}

void dgram_pace_sample(struct dgram_pace *pace, uint64_t rtt, uint64_t now)
{
    if (rtt == 0) rtt = 1;
    if (pace->srtt == 0) {
        pace->srtt = rtt;
        pace->rttvar = rtt / 2;
    } else {
        uint64_t error = rtt > pace->srtt ? rtt - pace->srtt : pace->srtt - rtt;
        pace->rttvar = (3 * pace->rttvar + error) / 4;
        pace->srtt = (7 * pace->srtt + rtt) / 8;
    }
    if (rtt < pace->base_next) pace->base_next = rtt;
    if (rtt < pace->base) pace->base = rtt;
    if (now - pace->base_since > PACE_BASE_AGE) {
        pace->base = pace->base_next;
        pace->base_next = UINT64_MAX;
        pace->base_since = now;
    }
    if (rtt < pace->round_least) pace->round_least = rtt;
}

static void dgram_pace_clamp(struct dgram_pace *pace)
{
    pace->window = aqi_max(pace->window, PACE_LEAST_PACKETS * pace->packet);
    pace->window = aqi_min(pace->window, pace->most);
}

/* At the end of a round trip: one step down for what was queued and lost in it, one step up. */
static void dgram_pace_round(struct dgram_pace *pace)
{
    size_t all = pace->acked + pace->lost;
    uint64_t queued = pace->round_least == UINT64_MAX ? 0 : pace->round_least - pace->base;
    uint64_t limit = aqi_max(PACE_QUEUE, pace->base);
    bool delayed = queued > limit;
    bool lossy = all > PACE_FEW * pace->packet && pace->lost > 0;
    if (pace->growing && (delayed || (lossy && pace->lost > all / 8))) pace->growing = false;
    if (delayed) /* at most to a half */
        pace->window -=
            (size_t)((double)pace->window * (double)(queued - limit) / (double)(2 * queued));
    if (lossy && !pace->growing)
        pace->window -= (size_t)((double)pace->window * (double)pace->lost / (double)(2 * all));
    if (!delayed && pace->full)
        pace->window += pace->growing ? pace->acked : PACE_GROWTH * pace->packet;
    dgram_pace_clamp(pace);
    pace->acked = pace->lost = 0;
    pace->round_least = UINT64_MAX;
    pace->full = false;
}

void dgram_pace_acked(struct dgram_pace *pace, size_t bytes, uint64_t now)
{
    pace->acked += bytes;
    if (now < pace->round_end) return;
    dgram_pace_round(pace);
    pace->round_end = now + pace->srtt;
}

void dgram_pace_lost(struct dgram_pace *pace, size_t bytes)
{
    pace->lost += bytes;
}

void dgram_pace_silent(struct dgram_pace *pace)
{
    pace->window = aqi_min(pace->window, PACE_FIRST_WINDOW);
    pace->growing = true;
}

uint64_t dgram_pace_timeout(const struct dgram_pace *pace, unsigned tries)
{
    uint64_t rto = pace->srtt == 0 ? 4 * pace->rto_min : pace->srtt + 4 * pace->rttvar;
    if (rto < pace->rto_min) rto = pace->rto_min;
    for (; tries > 0 && rto < pace->rto_max; tries--)
        rto *= 2;
    return rto < pace->rto_max ? rto : pace->rto_max;
}

uint64_t dgram_pace_when(struct dgram_pace *pace, size_t bytes, uint64_t now)
{
    if (pace->srtt == 0) return now;
    /* A little faster than a window in a round trip, so that pacing is not what limits. */
    double rate = (double)pace->window * (pace->growing ? 2.0 : 1.25) / (double)pace->srtt;
    if (now > pace->filled_at) {
        double fresh = rate * (double)(now - pace->filled_at);
        pace->filled_at = now;
        pace->tokens =
            fresh > PACE_BURST - (double)pace->tokens ? PACE_BURST : pace->tokens + (int64_t)fresh;
    }
    int64_t missing = (int64_t)aqi_min(bytes, PACE_BURST) - pace->tokens;
    return missing <= 0 ? now : now + (uint64_t)((double)missing / rate) + 1;
}
