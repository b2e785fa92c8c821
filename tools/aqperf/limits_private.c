/* What the machine can do with memory that is not mapped: both ranks copy, through a ring of
 * fragments in the segment of the one that receives; or the kernel does (CMA). */
#include "perf.h"
#include <stdatomic.h>

/* Fragments that this rank has sent and taken; never reset, so that nothing is reset late. */
static uint64_t sent, taken;

static size_t piece_at(size_t at, size_t size)
{
    return size - at < FRAGMENT_BYTES ? size - at : FRAGMENT_BYTES;
}

/* Wait until at most `most` of our fragments are not taken; pairs with the release in copy_in. */
static void await_taken(struct perf *perf, uint64_t most)
{
    unsigned turns = 0;
    while (sent - atomic_load_explicit(&perf->mine->fragments_taken.seq, memory_order_acquire) >
           most)
        limits_wait_turn(perf, &turns);
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
            unsigned turns = 0;
            while (atomic_load_explicit(&perf->mine->fragments.seq, memory_order_acquire) == taken)
                limits_wait_turn(perf, &turns);
            limits_copy(to + at, perf->mine->fragment[taken++ % FRAGMENTS], piece_at(at, size));
            atomic_store_explicit(&perf->theirs->fragments_taken.seq, taken, memory_order_release);
        }
}

void limits_serve_double(struct perf *perf, enum command command, size_t size)
{
    uint64_t n = perf->mine->operations; /* put there before the command */
    if (command == COMMAND_DOUBLE_OUT)
        take_all(perf, perf->target, size, n);
    else
        send_all(perf, perf->target, size, n);
}

void limits_begin_out(struct perf *perf, size_t size, uint64_t n)
{
    perf->theirs->operations = n;
    perf->api->ask(perf, COMMAND_DOUBLE_OUT, size);
}

void limits_copy_out(struct perf *perf, size_t size, uint64_t n)
{
    send_all(perf, perf->source, size, n);
}

void limits_begin_in(struct perf *perf, size_t size, uint64_t n)
{
    perf->theirs->operations = n;
    perf->api->ask(perf, COMMAND_DOUBLE_IN, size);
}

void limits_copy_in(struct perf *perf, size_t size, uint64_t n)
{
    take_all(perf, perf->source, size, n);
}

void limits_cma_private_write(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        (void)limits_cma(perf, true, perf->source, perf->peer_target, size);
}

void limits_cma_private_read(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        (void)limits_cma(perf, false, perf->source, perf->peer_target, size);
}
