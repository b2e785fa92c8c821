/* Settings that are more than a number: their syntax and meaning. */
#include "core/state/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- AQ_NEIGHBORHOOD ------------------------------------------------------------------------- */

/* Parse the size at `*at`, and advance past it and its comma. Returns false if invalid. */
static bool texts_read_size(const char **at, uint64_t *size)
{
    char *end;
    *size = **at >= '0' && **at <= '9' ? strtoul(*at, &end, 10) : 0;
    if (*size == 0 || *size > UINT32_MAX || (*end != ',' && *end != 0) ||
        (*end == ',' && end[1] == 0))
        return false;
    *at = *end == ',' ? end + 1 : end;
    return true;
}

static bool texts_is_zero(const char *list)
{
    return *list != 0 && list[strspn(list, "0")] == 0;
}

bool core_neighbors_legal(const char *list)
{
    uint64_t size;
    if (*list == 0 || texts_is_zero(list)) return *list != 0;
    while (*list != 0)
        if (!texts_read_size(&list, &size)) return false;
    return true;
}

uint32_t core_neighbors_group(uint32_t local_rank)
{
    const char *list = aqi_core_config.neighborhood, *at = list;
    uint64_t before = 0, size;
    uint32_t group = 0;
    if (texts_is_zero(list)) return 0;
    while (texts_read_size(&at, &size)) {
        before += size;
        if (local_rank < before) break;
        group++;
        if (*at == 0) at = list;
    }
    return group;
}

/* --- AQ_MAX_SEGMENT -------------------------------------------------------------------------- */

/* "64M", "1.5 GB", "0.85", "85%"; a bare number of at most 1 is a fraction of memory. */
static bool texts_read_limit(const char *text, struct core_segment_limit *limit)
{
    static const struct aqi_setting size = {.name = "", .type = AQI_SET_BYTES};
    char unit[8], *end;
    uint64_t factor = 1;
    if (text[*text == '.'] < '0' || text[*text == '.'] > '9') return false;
    limit->number = strtod(text, &end);
    limit->is_part = *end == '%' || (*end == '\0' && limit->number <= 1);
    if (*end == '%') limit->number /= 100;
    if (limit->is_part) return end[*end == '%'] == '\0' && limit->number <= 1;
    end += strspn(end, " ");
    snprintf(unit, sizeof(unit), "1%.5s", end);
    if (*end == '\0' && limit->number != (double)(uint64_t)limit->number) return false;
    if (strlen(end) > 3 || !aqi_setting_read(&size, unit, &factor)) return false;
    limit->number *= (double)factor;
    return limit->number < 1e18;
}

bool core_segment_read_limit(const char *given, struct core_segment_limit *limit)
{
    char text[64];
    if ((size_t)snprintf(text, sizeof(text), "%s", given) >= sizeof(text)) return false;
    char *share = strchr(text, '/');
    char whose = share != NULL ? (char)(share[1] & ~0x20) : 'P';
    if (share != NULL && ((whose != 'P' && whose != 'H') || share[2] != '\0')) return false;
    if (share != NULL) *share = '\0';
    limit->of_host = whose == 'H';
    limit->physical = share != NULL;
    return texts_read_limit(text, limit);
}

bool core_segment_limit_legal(const char *text)
{
    struct core_segment_limit limit;
    return core_segment_read_limit(text, &limit);
}

uint64_t core_segment_limit_bytes(const struct core_segment_limit *limit, uint64_t memory,
                                  uint32_t ranks, uint64_t page)
{
    uint64_t share = memory / ranks;
    double bytes = limit->is_part ? limit->number * (double)memory : limit->number;
    if (limit->of_host) bytes /= ranks;
    if (bytes == 0 || ((limit->physical || limit->is_part) && bytes > (double)share))
        bytes = (double)share;
    return aqi_max((uint64_t)bytes / page, 1) * page;
}
