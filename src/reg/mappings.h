/* The memory mappings of this process. */
#ifndef AQI_REG_MAPPINGS_H
#define AQI_REG_MAPPINGS_H

#include "reg/ranges.h"

struct reg_mapped {
    struct reg_range own;  /* the mappings that contain the range searched for */
    struct reg_range side; /* with adjacent mappings of the same kind */
    struct reg_range wide; /* also with the unmapped space around those */
};

/*
 * Returns the number of mappings, or 0 if it cannot be determined. If all of [from, to) is private
 * anonymous memory, of any protection, `mapped` is set; otherwise it is zeroed. Allocates nothing.
 */
uint64_t reg_mappings_find(uint64_t from, uint64_t to, struct reg_mapped *mapped);

/*
 * Extend `range` by adjacent memory that may belong to the same mapping as the memory inside:
 * private anonymous memory of any protection, or the continuation of a file. Returns whether there
 * was any. Allocates nothing.
 */
bool reg_mappings_complete(struct reg_range *range);

/* Call `found` for each mapping of private anonymous memory. */
void reg_mappings_each(void (*found)(void *arg, const struct reg_range *range), void *arg);

/* The maximum number of mappings (vm.max_map_count). */
uint64_t reg_mappings_most(void);

#endif
