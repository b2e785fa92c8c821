/* Ranges in a sorted array: see ranges.h. */
#include "reg/ranges.h"

#include <string.h>

/* The first range that ends at or after `addr`. */
static uint32_t ranges_find(const struct reg_ranges *set, uint64_t addr)
{
    uint32_t low = 0, high = set->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (set->at[middle].to < addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Replace ranges [first, last) by `count` others, which the caller fills in. */
static void ranges_replace(struct reg_ranges *set, uint32_t first, uint32_t last, uint32_t count)
{
    memmove(&set->at[first + count], &set->at[last], (set->count - last) * sizeof(set->at[0]));
    set->count = set->count - (last - first) + count;
}

void reg_ranges_add(struct reg_ranges *set, uint64_t from, uint64_t to)
{
    uint32_t first = ranges_find(set, from), last = first;
    for (; last < set->count && set->at[last].from <= to; last++) {
        from = aqi_min(from, set->at[last].from);
        to = aqi_max(to, set->at[last].to);
    }
    if (first == last && set->count == REG_RANGES) first = last = set->count = 0;
    ranges_replace(set, first, last, 1);
    set->at[first] = (struct reg_range){.from = from, .to = to};
}

void reg_ranges_take(struct reg_ranges *set, uint64_t from, uint64_t to)
{
    struct reg_range left[2]; /* the parts of the overlapping ranges that lie outside */
    uint32_t first = ranges_find(set, from), last, count = 0;
    if (first < set->count && set->at[first].to == from) first++;
    for (last = first; last < set->count && set->at[last].from < to; last++) {
        const struct reg_range *at = &set->at[last];
        if (at->from < from) left[count++] = (struct reg_range){.from = at->from, .to = from};
        if (at->to > to) left[count++] = (struct reg_range){.from = to, .to = at->to};
    }
    if (count > last - first && set->count == REG_RANGES) count--;
    ranges_replace(set, first, last, count);
    memcpy(&set->at[first], left, count * sizeof(left[0]));
}

bool reg_ranges_cover(const struct reg_ranges *set, uint64_t from, uint64_t to)
{
    uint32_t at = ranges_find(set, to);
    return at < set->count && set->at[at].from <= from;
}
