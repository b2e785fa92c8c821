/* Follows the clock of another host: approaches the best of the last samples without steps. */
#include "job/align.h"

#include "base/clock.h"

#include <string.h>

enum { ALIGN_ENOUGH = 4, ALIGN_SLEW = 2000, ALIGN_DRIFT = 10000, ALIGN_STEP_NS = 10000000 };

/* Two quartz clocks drift apart by at most 1/ALIGN_DRIFT (100 ppm) of the elapsed time. */
static uint64_t align_aged(const struct aqi_align_sample *sample, uint64_t now)
{
    return sample->error + aqi_elapsed_ns(now, sample->at) / ALIGN_DRIFT;
}

static const struct aqi_align_sample *align_best(const struct aqi_align *align, uint64_t now)
{
    const struct aqi_align_sample *best = &align->samples[0];
    unsigned count = align->count < AQI_ALIGN_SAMPLES ? align->count : AQI_ALIGN_SAMPLES;
    for (unsigned i = 1; i < count; i++)
        if (align_aged(&align->samples[i], now) < align_aged(best, now)) best = &align->samples[i];
    return best;
}

static uint64_t align_distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* Make room: drop every other node of the older half. */
static void align_thin(struct aqi_align *align)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < align->used; i++)
        if (i >= AQI_ALIGN_NODES / 2 || i % 2 == 0) align->nodes[kept++] = align->nodes[i];
    align->used = kept;
}

static void align_node(struct aqi_align *align, uint64_t at, int64_t offset)
{
    if (align->used == AQI_ALIGN_NODES) align_thin(align);
    align->nodes[align->used++] = (struct aqi_align_node){at, offset};
}

/* From `now` on, approach the offset of the best sample. */
static void align_follow(struct aqi_align *align, uint64_t now)
{
    int64_t wanted = align_best(align, now)->offset;
    int64_t present = aqi_align_offset(align, now);
    uint64_t distance = align_distance(wanted, present);
    if (align->used == 0) align_node(align, 0, wanted);
    if (align->count <= ALIGN_ENOUGH) { /* not in use yet */
        align->nodes[0].offset = wanted;
        return;
    }
    if (distance == 0) return;
    while (align->used > 1 && align->nodes[align->used - 1].at >= now)
        align->used--;
    align_node(align, now, present);
    align_node(align, now + (distance > ALIGN_STEP_NS ? 1 : distance * ALIGN_SLEW), wanted);
}

void aqi_align_add(struct aqi_align *align, uint64_t asked, uint64_t heard, uint64_t answered,
                   uint64_t got, uint64_t error)
{
    if (got < asked || answered < heard || error > INT64_MAX) return;
    uint64_t way = got - asked, held = answered - heard;
    if (way < held) return; /* a clock was set, or the sample is forged */
    struct aqi_align_sample *sample = &align->samples[align->count++ % AQI_ALIGN_SAMPLES];
    /* The offset at the midpoint of the round trip; the error is at most half of the round trip. */
    *sample = (struct aqi_align_sample){.at = got,
                                        .offset = (int64_t)(heard + held / 2 - (asked + way / 2)),
                                        .error = (way - held) / 2 + 1 + error};
    align_follow(align, got);
}

bool aqi_align_ready(const struct aqi_align *align)
{
    return align->count >= ALIGN_ENOUGH;
}

int64_t aqi_align_offset(const struct aqi_align *align, uint64_t at)
{
    unsigned low = 0, high = align->used; /* find the last node not later than `at` */
    if (high == 0) return 0;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (align->nodes[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    const struct aqi_align_node *from = &align->nodes[low], *to = from + 1;
    if (low + 1 == align->used || at <= from->at) return from->offset;
    double part = (double)(at - from->at) / (double)(to->at - from->at);
    return from->offset + (int64_t)((double)(to->offset - from->offset) * part);
}

uint64_t aqi_align_time(const struct aqi_align *align, uint64_t at)
{
    return at + (uint64_t)aqi_align_offset(align, at);
}

uint64_t aqi_align_error(const struct aqi_align *align, uint64_t now)
{
    if (align->count == 0) return UINT64_MAX;
    const struct aqi_align_sample *best = align_best(align, now);
    return align_aged(best, now) + align_distance(best->offset, aqi_align_offset(align, now));
}
