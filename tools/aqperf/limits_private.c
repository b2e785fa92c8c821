/*
 * The limits of memory that is not mapped: both ranks copy through a ring of fragments in the
 * receiver's segment, or the kernel copies (CMA).
 */
#include "perf.h"
#include <stdatomic.h>

/* Numbers of fragments that this rank has sent and received; never reset. */
static uint64_t sent, taken;

static size_t piece_at(size_t at, size_t size)
{
    return size - at < FRAGMENT_BYTES ? size - at : FRAGMENT_BYTES;
}

/*
 * Wait until at most `pending` fragments sent by this rank have not been taken; pairs with the
 * release in take_all.
 */
static void await_taken(struct perf *perf, uint64_t pending)
{
    unsigned polls = 0;
    while (sent - atomic_load_explicit(&perf->mine->fragments_taken.seq, memory_order_acquire) >
           pending)
        limits_empty_poll(perf, &polls);
}

static void send_all(struct perf *perf, const unsigned char *from, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        for (size_t at = 0; at < size; at += FRAGMENT_BYTES) {
            await_taken(perf, FRAGMENTS - 1);
            limits_copy(perf->theirs->fragment[sent++ % FRAGMENTS], from + at, piece_at(at, size));
            /* pairs with the acquire in take_all */
            atomic_store_explicit(&perf->theirs->fragments.seq, sent, memory_order_release);
        }
    await_taken(perf, 0);
}

static void take_all(struct perf *perf, unsigned char *to, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        for (size_t at = 0; at < size; at += FRAGMENT_BYTES) {
            unsigned polls = 0;
            while (atomic_load_explicit(&perf->mine->fragments.seq, memory_order_acquire) == taken)
                limits_empty_poll(perf, &polls);
            limits_copy(to + at, perf->mine->fragment[taken++ % FRAGMENTS], piece_at(at, size));
            atomic_store_explicit(&perf->theirs->fragments_taken.seq, taken, memory_order_release);
        }
}

/* Run by both ranks: copy from rank 0 to rank 1 (out), or back (in). */
void limits_double_out(struct perf *perf, size_t size, uint64_t n)
{
    if (perf->rank == 0)
        send_all(perf, perf->source, size, n);
    else
        take_all(perf, perf->target, size, n);
}

void limits_double_in(struct perf *perf, size_t size, uint64_t n)
{
    if (perf->rank == 0)
        take_all(perf, perf->source, size, n);
    else
        send_all(perf, perf->target, size, n);
}

LOOP(limits_cma_private_write, ,
     (void)limits_cma(perf, true, perf->source, perf->peer_target, size))
LOOP(limits_cma_private_read, ,
     (void)limits_cma(perf, false, perf->source, perf->peer_target, size))
