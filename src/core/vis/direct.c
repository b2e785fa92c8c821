/* Scattered transfers between mapped memory. */
#include "core/vis/direct.h"

#include "base/copy.h"
#include "core/vis/runs.h"

#include <stdatomic.h>

static inline uint64_t direct_address(const unsigned char *entry)
{
    return (uint64_t)(uintptr_t) * (void *const *)(const void *)entry;
}

/* --- checking --------------------------------------------------------------------------------- */

typedef uint64_t direct_word __attribute__((may_alias)); /* an address or a length */

/*
 * Whether the even words of a list are in [low, high], and the odd ones in [odd_low, odd_high].
 * Tested by the sign bits of differences, since user addresses and sizes of memory never use that
 * bit; other values may be rejected.
 */
static inline bool direct_words(const direct_word *words, size_t n, uint64_t low, uint64_t high,
                                uint64_t odd_low, uint64_t odd_high)
{
    uint64_t signs = 0;
    for (size_t i = 0; i < n; i++)
        signs |= i % 2 == 0 ? (words[i] - low) | (high - words[i])
                            : (words[i] - odd_low) | (odd_high - words[i]);
    return (int64_t)signs >= 0;
}

/* Several words at a time: otherwise checking takes as long as copying small pieces. */
static inline bool direct_blocks(const direct_word *words, size_t n, uint64_t low, uint64_t high,
                                 uint64_t odd_low, uint64_t odd_high)
{
    typedef uint64_t block __attribute__((vector_size(32)));
    const block lows = {low, odd_low, low, odd_low}, highs = {high, odd_high, high, odd_high};
    block next, other, signs = {0}, others = {0}; /* two chains, for parallelism */
    for (; n >= 8; n -= 8, words += 8) {
        memcpy(&next, words, sizeof(next));
        memcpy(&other, words + 4, sizeof(other));
        signs |= (next - lows) | (highs - next);
        others |= (other - lows) | (highs - other);
    }
    signs |= others;
    return (int64_t)(signs[0] | signs[1] | signs[2] | signs[3]) >= 0 &&
           direct_words(words, n, low, high, odd_low, odd_high);
}

static bool direct_many(const direct_word *words, size_t n, uint64_t low, uint64_t high,
                        uint64_t odd_low, uint64_t odd_high)
{
    return direct_blocks(words, n, low, high, odd_low, odd_high);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static bool direct_many_wide(const direct_word *words, size_t n,
                                                             uint64_t low, uint64_t high,
                                                             uint64_t odd_low, uint64_t odd_high)
{
    return direct_blocks(words, n, low, high, odd_low, odd_high);
}
#define DIRECT_WIDE __builtin_cpu_supports("avx2")
#else
#define direct_many_wide direct_many
#define DIRECT_WIDE      0
#endif

/*
 * Whether the addresses of a list are in [first, first + most] and, with `vector`, all lengths are
 * `len`.
 */
static inline bool direct_list_ok(const void *list, bool vector, size_t count, uint64_t first,
                                  uint64_t most, size_t len)
{
    size_t n = vector ? 2 * count : count;
    uint64_t last = first + most, low = vector ? len : first, high = vector ? len : last;
    if ((int64_t)most < 0) return false;
    if (n < 16) return direct_words(list, n, first, last, low, high);
    return (DIRECT_WIDE ? direct_many_wide : direct_many)(list, n, first, last, low, high);
}

/* --- copying --------------------------------------------------------------------------------- */

/*
 * Copies piece by piece. A side is a list with entries `step` bytes apart, whose addresses differ
 * by `shift` from those here, or a run that begins at `shift`.
 */
struct direct_side {
    const unsigned char *entry;
    uint64_t shift;
};

static inline void *direct_piece(struct direct_side side, bool run, size_t step, size_t len,
                                 size_t i)
{
    return (void *)(uintptr_t)(side.shift +
                               (run ? i * len : direct_address(side.entry + i * step)));
}

static inline void direct_loop(struct direct_side to, bool to_run, struct direct_side from,
                               bool from_run, size_t step, size_t count, size_t len)
{
    for (size_t i = 0; i < count; i++) {
        void *at = direct_piece(to, to_run, step, len, i);
        const void *bytes = direct_piece(from, from_run, step, len, i);
        if (len <= 64)
            memcpy(at, bytes, len);
        else
            aqi_copy(at, bytes, len);
    }
}

/* Small lengths that are known to the compiler need no call. */
static inline void direct_copy(struct direct_side to, bool to_run, struct direct_side from,
                               bool from_run, size_t step, size_t count, size_t len)
{
    switch (len) {
    case 4:
        direct_loop(to, to_run, from, from_run, step, count, 4);
        return;
    case 8:
        direct_loop(to, to_run, from, from_run, step, count, 8);
        return;
    case 16:
        direct_loop(to, to_run, from, from_run, step, count, 16);
        return;
    case 32:
        direct_loop(to, to_run, from, from_run, step, count, 32);
        return;
    case 64:
        direct_loop(to, to_run, from, from_run, step, count, 64);
        return;
    default:
        direct_loop(to, to_run, from, from_run, step, count, len);
    }
}

/* --- lists ----------------------------------------------------------------------------------- */

/*
 * Transfer pieces of one length, with `vector` or not. A side whose list has a single entry is a
 * run, however the other side is divided.
 */
static inline bool direct_lists(const struct vis_window *w, bool vector, const void *there,
                                bool there_run, const void *here, bool here_run, size_t count,
                                size_t len)
{
    const size_t step = vector ? sizeof(aq_vec) : sizeof(void *), total = count * len;
    size_t there_len = there_run ? total : len;
    uint64_t shift = (uint64_t)(uintptr_t)w->mapped - w->first;
    if (there_len > w->size ||
        !direct_list_ok(there, vector, there_run ? 1 : count, w->first, w->size - there_len,
                        there_len) ||
        !direct_list_ok(here, vector, here_run ? 1 : count, 1, INT64_MAX - 1,
                        here_run ? total : len))
        return false;
    struct direct_side far = {there, there_run ? shift + direct_address(there) : shift};
    struct direct_side near = {here, here_run ? direct_address(here) : 0};
    bool to_run = w->get ? here_run : there_run, from_run = w->get ? there_run : here_run;
    struct direct_side to = {w->get ? near.entry : far.entry, w->get ? near.shift : far.shift};
    struct direct_side from = {w->get ? far.entry : near.entry, w->get ? far.shift : near.shift};
    if (w->get) atomic_thread_fence(memory_order_acquire);
    if (to_run)
        direct_copy(to, true, from, false, step, count, len);
    else if (from_run)
        direct_copy(to, false, from, true, step, count, len);
    else
        direct_copy(to, false, from, false, step, count, len);
    /* A thread that learns of the put (message, barrier, flag) sees its bytes. */
    if (!w->get) atomic_thread_fence(memory_order_release);
    return true;
}

bool vis_direct_indexed(const struct vis_window *w, size_t there_count, void *const *there,
                        size_t there_len, size_t here_count, void *const *here, size_t here_len,
                        size_t *bytes)
{
    bool here_run = here_count == 1, there_run = there_count == 1 && !here_run;
    size_t count = there_run ? here_count : there_count, len = there_run ? here_len : there_len;
    if (__builtin_mul_overflow(count, len, bytes) || *bytes == 0 || there == NULL || here == NULL ||
        (here_run ? here_len != *bytes : here_count != count || here_len != len) ||
        (there_run ? there_len != *bytes : false))
        return false;
    return direct_lists(w, false, there, there_run, here, here_run, count, len);
}

/* The address of a piece: entry `i`, or `done` bytes into the only entry. */
static inline uint64_t direct_at(const aq_vec *list, bool run, size_t i, size_t done)
{
    return (uint64_t)(uintptr_t)list[run ? 0 : i].addr + (run ? done : 0);
}

/* Transfer pieces of any lengths, equal on both sides unless one of them is a run. */
static bool direct_mixed(const struct vis_window *w, const aq_vec *there, bool there_run,
                         const aq_vec *here, bool here_run, size_t count, size_t *bytes)
{
    const aq_vec *lens = there_run ? here : there;
    size_t total = 0, done = 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = lens[i].len;
        uint64_t at = direct_at(there, there_run, i, total) - w->first;
        if (len == 0) continue;
        if ((!there_run && !here_run && here[i].len != len) || len > w->size ||
            at > w->size - len || direct_at(here, here_run, i, 0) == 0 ||
            __builtin_add_overflow(total, len, &total))
            return false;
    }
    if ((there_run && there->len != total) || (here_run && here->len != total)) return false;
    if (w->get) atomic_thread_fence(memory_order_acquire);
    for (size_t i = 0; i < count; done += lens[i++].len) {
        uint64_t offset = direct_at(there, there_run, i, done) - w->first; /* unused if empty */
        void *far = (void *)((uintptr_t)w->mapped + offset);
        void *near = (void *)(uintptr_t)direct_at(here, here_run, i, done);
        if (lens[i].len != 0) aqi_copy(w->get ? near : far, w->get ? far : near, lens[i].len);
    }
    if (!w->get) atomic_thread_fence(memory_order_release); /* as in direct_lists */
    *bytes = total;
    return total != 0;
}

bool vis_direct_vector(const struct vis_window *w, size_t there_count, const aq_vec *there,
                       size_t here_count, const aq_vec *here, size_t *bytes)
{
    if (there_count == 0 || here_count == 0 || there == NULL || here == NULL) return false;
    bool here_run = here_count == 1, there_run = there_count == 1 && !here_run;
    if (!here_run && !there_run && there_count != here_count) return false;
    size_t count = there_run ? here_count : there_count;
    size_t len = there_run ? here->len : there->len;
    return (len != 0 && !__builtin_mul_overflow(count, len, bytes) &&
            direct_lists(w, true, there, there_run, here, here_run, count, len)) ||
           direct_mixed(w, there, there_run, here, here_run, count, bytes);
}

/* --- strided --------------------------------------------------------------------------------- */

/* Loop over the levels; both sides of a region have the same shape, so a common loop suffices. */
static void direct_levels(unsigned char *dst, const ptrdiff_t *dst_strides,
                          const unsigned char *src, const ptrdiff_t *src_strides, size_t elem,
                          const size_t *counts, size_t levels)
{
    while (levels > 1 && counts[levels - 1] == 1)
        levels--;
    if (levels == 0) {
        aqi_copy(dst, src, elem);
        return;
    }
    if (levels == 1) {
        aqi_copy_pieces(dst, dst_strides[0], src, src_strides[0], elem, counts[0]);
        return;
    }
    levels--; /* at least 2 elements per level, so the depth is at most the bits of a size */
    for (size_t i = 0; i < counts[levels]; i++) {
        direct_levels(dst, dst_strides, src, src_strides, elem, counts, levels);
        dst += dst_strides[levels];
        src += src_strides[levels];
    }
}

static inline bool direct_bounds_ok(const struct vis_bounds *bounds, uint64_t at, uint64_t first,
                                    size_t size)
{
    uint64_t begin = at + (uint64_t)bounds->low - first;
    uint64_t span = (uint64_t)bounds->high - (uint64_t)bounds->low;
    return span <= size && begin <= size - span;
}

bool vis_direct_strided(const struct vis_window *w, const struct vis_region *r, size_t *bytes)
{
    const ptrdiff_t *there_strides = r->remote_strides, *here_strides = r->local_strides;
    const size_t *counts = r->counts;
    size_t elem = r->elem, levels = r->levels, total = elem;
    if (levels > AQ_STRIDED_LEVELS || elem - 1 >= INT64_MAX || r->local == 0 ||
        (levels != 0 && (counts == NULL || there_strides == NULL || here_strides == NULL)))
        return false;
    struct vis_bounds far = {0, (int64_t)elem}, near = {0, (int64_t)elem};
    for (size_t l = 0; l < levels; l++)
        if (__builtin_mul_overflow(total, counts[l], &total) ||
            !vis_bounds_add(&far, there_strides[l], counts[l]) ||
            !vis_bounds_add(&near, here_strides[l], counts[l]))
            return false;
    if (!direct_bounds_ok(&far, r->remote, w->first, w->size) ||
        !direct_bounds_ok(&near, r->local, 0, SIZE_MAX))
        return false;
    *bytes = total;
    for (; levels > 0 && (counts[0] == 1 || (there_strides[0] == (ptrdiff_t)elem &&
                                             here_strides[0] == (ptrdiff_t)elem));
         levels--, counts++, there_strides++, here_strides++)
        elem *= counts[0];
    unsigned char *there = w->mapped + (r->remote - w->first);
    unsigned char *here = (unsigned char *)(uintptr_t)r->local;
    if (w->get) {
        atomic_thread_fence(memory_order_acquire);
        direct_levels(here, here_strides, there, there_strides, elem, counts, levels);
    } else {
        direct_levels(there, there_strides, here, here_strides, elem, counts, levels);
        atomic_thread_fence(memory_order_release); /* as for lists */
    }
    return true;
}
