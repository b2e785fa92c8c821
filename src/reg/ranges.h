/* A set of address ranges, of bounded size: ranges that do not fit are forgotten. */
#ifndef AQI_REG_RANGES_H
#define AQI_REG_RANGES_H

#include "base/base.h"

enum { REG_RANGES = 1024 };

struct reg_range {
    uint64_t from, to;
};

/* Empty if zeroed. */
struct reg_ranges {
    uint32_t count;
    struct reg_range at[REG_RANGES]; /* sorted; no two touch */
};

/* Add [from, to), which is not empty; other ranges may be forgotten. */
void reg_ranges_add(struct reg_ranges *set, uint64_t from, uint64_t to);
/* Remove [from, to); ranges next to it may be forgotten. */
void reg_ranges_take(struct reg_ranges *set, uint64_t from, uint64_t to);
bool reg_ranges_cover(const struct reg_ranges *set, uint64_t from, uint64_t to);

#endif
