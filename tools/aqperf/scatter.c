/*
 * Scattered transfers: the pieces of a row, which are adjacent here and separated by gaps of the
 * same length at the peer, and the copy loops used for comparison.
 */
#include "perf.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct scatter row_pieces;

static void make_list(struct perf *perf, struct pieces *list, unsigned char *base, ptrdiff_t step)
{
    list->base = base;
    list->step = step;
    free(list->at);
    free(list->vecs);
    list->at = perf_memory(perf, row_pieces.count, sizeof *list->at);
    list->vecs = perf_memory(perf, row_pieces.count, sizeof *list->vecs);
    for (size_t i = 0; i < row_pieces.count; i++) {
        list->at[i] = base + (ptrdiff_t)i * step;
        list->vecs[i] = (struct piece){list->at[i], row_pieces.len};
    }
}

void scatter_begin(struct perf *perf, size_t piece, size_t size)
{
    ptrdiff_t step = (ptrdiff_t)piece;
    row_pieces.len = piece;
    row_pieces.count = size / piece;
    make_list(perf, &row_pieces.there, perf->peer_addr->data, 2 * step);
    make_list(perf, &row_pieces.source, perf->source, step);
    make_list(perf, &row_pieces.target, perf->target, step);
    make_list(perf, &row_pieces.mapped,
              perf->theirs != NULL ? perf->theirs->data : perf->mine->data, 2 * step);
}

/* --- limits: code of a program that has mapped all pieces and knows their length -------------- */

static inline void copy_piece(void *to, const void *from, size_t len)
{
    if (len <= 64)
        memcpy(to, from, len); /* inline, as `len` is constant */
    else
        limits_copy(to, from, len);
}

enum form { STRIDED, LIST, VECTOR };

/* The address of a piece: from the list, or at a stride of `times` its length. */
static inline void *piece_at(const struct pieces *pieces, enum form form, size_t i, size_t len,
                             size_t times)
{
    if (form == LIST) return pieces->at[i];
    if (form == VECTOR) return pieces->vecs[i].addr;
    return pieces->base + i * times * len;
}

static inline void copy_round(const struct pieces *to, size_t to_times, const struct pieces *from,
                              size_t from_times, enum form form, size_t len)
{
    for (size_t i = 0, count = row_pieces.count; i < count; i++)
        copy_piece(piece_at(to, form, i, len, to_times), piece_at(from, form, i, len, from_times),
                   len);
}

#define LIMIT(name, form, to, to_times, from, from_times)                                          \
    void limits_##name(struct perf *perf, size_t size, uint64_t n)                                 \
    {                                                                                              \
        const struct pieces dst = row_pieces.to, src = row_pieces.from;                            \
        (void)perf, (void)size;                                                                    \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            if (row_pieces.len == 8)                                                               \
                copy_round(&dst, to_times, &src, from_times, form, 8);                             \
            else if (row_pieces.len == 64)                                                         \
                copy_round(&dst, to_times, &src, from_times, form, 64);                            \
            else                                                                                   \
                copy_round(&dst, to_times, &src, from_times, form, 512);                           \
            atomic_signal_fence(memory_order_seq_cst); /* so that each round copies again */       \
        }                                                                                          \
    }
LIMIT(strided_out, STRIDED, mapped, 2, source, 1)
LIMIT(strided_in, STRIDED, target, 1, mapped, 2)
LIMIT(vector_out, VECTOR, mapped, 2, source, 1)
LIMIT(vector_in, VECTOR, target, 1, mapped, 2)
LIMIT(indexed_out, LIST, mapped, 2, source, 1)
LIMIT(indexed_in, LIST, target, 1, mapped, 2)
