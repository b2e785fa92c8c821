/* Messages while many hosts start. */
#include "progress.h"

#include "base/fail.h"

#include <stdio.h>

#define PROGRESS_SECOND 1000000000ull
#define PROGRESS_NAMES  8u

/* Seconds before each line; the last one also applies to all later lines. */
static const unsigned progress_pauses[] = {2, 3, 5, 10, 20, 30};

static uint64_t progress_due(const struct progress *progress)
{
    size_t i = aqi_min(progress->lines, AQI_COUNT_OF(progress_pauses) - 1);
    uint64_t from = progress->lines == 0 ? progress->began_ns : progress->last_ns;
    return from + progress_pauses[i] * PROGRESS_SECOND;
}

/* List some names, and the number of the others. */
static void progress_write(const struct progress_hosts *hosts, uint32_t missing, char *line)
{
    uint32_t named = 0;
    snprintf(line, PROGRESS_LINE, "%u of %u hosts have answered; waiting for",
             hosts->count - missing, hosts->count);
    for (uint32_t i = 0; i < hosts->count && named < PROGRESS_NAMES; i++) {
        if (hosts->answered(i)) continue;
        aqi_append(line, PROGRESS_LINE, "%s %.40s", named > 0 ? "," : "", hosts->name(i));
        named++;
    }
    if (missing > named) aqi_append(line, PROGRESS_LINE, " and %u more", missing - named);
}

bool progress_line(struct progress *progress, const struct progress_hosts *hosts, uint64_t now,
                   char line[PROGRESS_LINE], uint64_t *next)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < hosts->count; i++)
        missing += !hosts->answered(i);
    *next = UINT64_MAX;
    if (missing == 0) return false;
    bool due = now >= progress_due(progress);
    if (due) {
        progress_write(hosts, missing, line);
        progress->last_ns = now;
        progress->lines++;
    }
    *next = progress_due(progress);
    return due;
}
