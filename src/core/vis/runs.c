/* Walking both sides of a scattered transfer, and merging adjacent pieces. */
#include "core/vis/runs.h"

#include "base/copy.h"

/* --- one side -------------------------------------------------------------------------------- */

static inline uint64_t vis_runs_stepped(uint64_t addr, int64_t step, size_t times)
{
    return addr + (uint64_t)step * times;
}

static void vis_runs_single(struct vis_side *side, uint64_t addr, size_t len)
{
    side->addr = addr;
    side->left = side->len = len;
    side->count = 1;
    side->step = 0;
}

/* Load the next non-empty entry of a list, together with those that continue it. */
static void vis_runs_load_entry(struct vis_side *side)
{
    size_t len = 0, more;
    uint64_t addr = 0;
    while (side->next < side->list.count && len == 0)
        addr = side->base + vis_list_entry(&side->list, side->next++, &len);
    if (len == 0) return;
    while (side->next < side->list.count) {
        uint64_t follower = side->base + vis_list_entry(&side->list, side->next, &more);
        if (more != 0 && follower != addr + len) break;
        len += more;
        side->next++;
    }
    vis_runs_single(side, addr, len);
}

/* Load the next row of a strided side: an odometer over the outer levels. */
static void vis_runs_load_row(struct vis_side *side)
{
    unsigned l = 1;
    while (l < side->levels && side->level[l].at + 1 == side->level[l].count) {
        side->base -= (uint64_t)side->level[l].step * side->level[l].at;
        side->level[l++].at = 0;
    }
    if (l >= side->levels) return;
    side->level[l].at++;
    side->base = vis_runs_stepped(side->base, side->level[l].step, 1);
    side->addr = side->base;
    side->count = side->level[0].count;
}

static inline void vis_runs_load(struct vis_side *side)
{
    if (side->list.shape == VIS_STRIDED)
        vis_runs_load_row(side);
    else
        vis_runs_load_entry(side);
}

static void vis_runs_begin(struct vis_side *side, uint64_t base, struct vis_list list)
{
    memset(side, 0, offsetof(struct vis_side, level));
    side->base = base;
    side->list = list;
}

void vis_list_begin(struct vis_side *side, uint64_t base, struct vis_list list)
{
    vis_runs_begin(side, base, list);
    vis_runs_load_entry(side);
}

void vis_strided_begin(struct vis_side *side, uint64_t addr, size_t elem, const size_t *counts,
                       const ptrdiff_t *strides, unsigned levels)
{
    vis_runs_begin(side, addr, (struct vis_list){.shape = VIS_STRIDED});
    for (unsigned i = 0; i < levels; i++) {
        struct vis_level *last = side->levels > 0 ? &side->level[side->levels - 1] : NULL;
        if (counts[i] == 1) continue;
        if (last == NULL && strides[i] == (ptrdiff_t)elem)
            elem *= counts[i];
        else if (last != NULL &&
                 (uint64_t)strides[i] == vis_runs_stepped(0, last->step, last->count))
            last->count *= counts[i];
        else
            side->level[side->levels++] =
                (struct vis_level){.count = counts[i], .step = strides[i]};
    }
    vis_runs_single(side, addr, elem);
    if (side->levels == 0) return;
    side->count = side->level[0].count;
    side->step = side->level[0].step;
}

static void vis_runs_advance(struct vis_side *side, size_t len, size_t count)
{
    if (len == side->len && side->left == len) {
        side->addr = vis_runs_stepped(side->addr, side->step, count);
        side->count -= count;
    } else {
        side->addr += len * count;
        side->left -= len * count;
        if (side->left != 0) return;
        side->addr = vis_runs_stepped(side->addr, side->step, 1) - side->len;
        side->left = side->len;
        side->count--;
    }
    if (side->count == 0) vis_runs_load(side);
}

/* --- both sides ------------------------------------------------------------------------------ */

bool vis_peek(const struct vis_side *a, const struct vis_side *b, struct vis_row *row)
{
    if (a->count == 0 || b->count == 0) return false;
    bool a_whole = a->left == a->len, b_whole = b->left == b->len;
    *row = (struct vis_row){.a = a->addr, .b = b->addr, .count = 1};
    if (a->left == b->left) {
        row->len = a->left;
        if (a_whole && b_whole) row->count = aqi_min(a->count, b->count);
        row->a_step = a->step;
        row->b_step = b->step;
    } else if (a->left > b->left) { /* part of a piece of a corresponds to whole pieces of b */
        row->len = b->left;
        if (b_whole) row->count = aqi_min(a->left / b->left, b->count);
        row->a_step = (int64_t)row->len;
        row->b_step = b->step;
    } else {
        row->len = a->left;
        if (a_whole) row->count = aqi_min(b->left / a->left, a->count);
        row->a_step = a->step;
        row->b_step = (int64_t)row->len;
    }
    return true;
}

void vis_take(struct vis_side *a, struct vis_side *b, const struct vis_row *row)
{
    vis_runs_advance(a, row->len, row->count);
    vis_runs_advance(b, row->len, row->count);
}

bool vis_extent(size_t elem, const size_t *counts, const ptrdiff_t *strides, size_t levels,
                struct vis_bounds *bounds)
{
    if (elem > INT64_MAX) return false;
    *bounds = (struct vis_bounds){0, (int64_t)elem};
    for (size_t i = 0; i < levels; i++)
        if (!vis_bounds_add(bounds, strides[i], counts[i])) return false;
    return true;
}
