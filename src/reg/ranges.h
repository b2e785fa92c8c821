/* A set of ranges of addresses, of bounded size: what it has no room for it forgets. */
#ifndef AQI_REG_RANGES_H
#define AQI_REG_RANGES_H

#include "base/base.h"

enum { REG_RANGES = 1024 };

struct reg_range {
    uint64_t from, to;
};

/* Zeroed it is empty. */
struct reg_ranges {
    uint32_t count;
    struct reg_range at[REG_RANGES]; /* in order; none touches the next one */
};

/* From here on [from, to), which is not empty, is in it; what was may be forgotten. */
void reg_ranges_add(struct reg_ranges *set, uint64_t from, uint64_t to);
/* Nothing of [from, to) is; what is beside it may be forgotten. */
void reg_ranges_take(struct reg_ranges *set, uint64_t from, uint64_t to);
bool reg_ranges_cover(const struct reg_ranges *set, uint64_t from, uint64_t to);

#endif
