/* What the kernel has mapped into this process. */
#ifndef AQI_REG_MAPPINGS_H
#define AQI_REG_MAPPINGS_H

#include "reg/ranges.h"

struct reg_mapped {
    struct reg_range own;  /* the mappings that have it */
    struct reg_range side; /* with all others of this kind that they lie side by side with */
    struct reg_range wide; /* with what around them is not mapped */
};

/* How many mappings are there; 0: that cannot be found out. If all of [from, to) is private
 * anonymous memory, whatever its protection, `mapped` is set, else zeroed. Allocates nothing. */
uint64_t reg_mappings_find(uint64_t from, uint64_t to, struct reg_mapped *mapped);

/* The most that there may be (vm.max_map_count). */
uint64_t reg_mappings_most(void);

#endif
