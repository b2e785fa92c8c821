/*
 * The bytes of a scattered transfer in order: each side walks its memory as rows of equal pieces,
 * and two sides together yield rows that both can move at once. Independent of ranks and messages.
 */
#ifndef AQI_CORE_VIS_RUNS_H
#define AQI_CORE_VIS_RUNS_H

#include "base/base.h"

#include <aqueduct/vis.h>

enum vis_shape { VIS_VECTOR, VIS_INDEXED, VIS_STRIDED };

/* The list of one side: of aq_vec, or of addresses of pieces of `piece` bytes. */
struct vis_list {
    enum vis_shape shape;
    const void *at;
    size_t count, piece;
};

static inline uint64_t vis_list_entry(const struct vis_list *list, size_t i, size_t *len)
{
    if (list->shape == VIS_INDEXED) {
        *len = list->piece;
        return (uint64_t)(uintptr_t)((void *const *)list->at)[i];
    }
    *len = ((const aq_vec *)list->at)[i].len;
    return (uint64_t)(uintptr_t)((const aq_vec *)list->at)[i].addr;
}

struct vis_level {
    size_t count, at;
    int64_t step;
};

/*
 * One side, and the position in it; a copy continues from the same position. `count` pieces of the
 * current row remain, of `len` bytes each, `step` apart; of the first one, `left` bytes at `addr`.
 * Count 0: the end.
 */
struct vis_side {
    uint64_t addr;
    size_t left, len, count;
    int64_t step;
    uint64_t base; /* list: added to its addresses; strided: where the row began */
    struct vis_list list;
    size_t next;                               /* index in the list */
    unsigned levels;                           /* outside the row */
    struct vis_level level[AQ_STRIDED_LEVELS]; /* only `levels` of them are set */
};

/* A row that can be moved at once: `count` pieces of `len` bytes, with a step for each side. */
struct vis_row {
    uint64_t a, b;
    size_t len, count;
    int64_t a_step, b_step;
};

/* Begin a side. The list is read during the walk; `base` is added to each of its addresses. */
void vis_list_begin(struct vis_side *side, uint64_t base, struct vis_list list);
/*
 * Up to AQ_STRIDED_LEVELS levels, innermost first; counts and `elem` are not 0. Copies the arrays.
 */
void vis_strided_begin(struct vis_side *side, uint64_t addr, size_t elem, const size_t *counts,
                       const ptrdiff_t *strides, unsigned levels);

/* Get the next row of two sides of equal length. Returns false at their end. */
bool vis_peek(const struct vis_side *a, const struct vis_side *b, struct vis_row *row);
/* Advance past a row that vis_peek returned, or past the start of it. */
void vis_take(struct vis_side *a, struct vis_side *b, const struct vis_row *row);
/*
 * The bounds of a strided region relative to its address: [low, high), in bytes. vis_bounds_add
 * extends them by a level of at least one element; false: they exceed an address space.
 */
struct vis_bounds {
    int64_t low, high;
};

static inline bool vis_bounds_add(struct vis_bounds *bounds, ptrdiff_t stride, size_t count)
{
    int64_t span;
    if (count - 1 > INT64_MAX ||
        __builtin_mul_overflow((int64_t)stride, (int64_t)(count - 1), &span))
        return false;
    int64_t *end = span < 0 ? &bounds->low : &bounds->high;
    return !__builtin_add_overflow(*end, span, end);
}

bool vis_extent(size_t elem, const size_t *counts, const ptrdiff_t *strides, size_t levels,
                struct vis_bounds *bounds);

#endif
