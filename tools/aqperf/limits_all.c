/*
 * Limits that involve all ranks: a barrier on a plain counter in rank 0's segment, alone or after
 * copying the data of a collective.
 */
#include "perf.h"
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

static uint64_t rounds; /* continues across loops, like the counters in the segment */

static struct shared *lead(struct perf *perf)
{
    return perf->rank == 0 ? perf->mine : perf->theirs;
}

/*
 * The last rank to arrive releases the others. Ranks that share cores yield immediately, so that
 * each runs only once per round, the minimum for any barrier.
 */
static void barrier(struct perf *perf)
{
    struct shared *at = lead(perf);
    unsigned polls = 0;
    rounds++;
    if (atomic_fetch_add_explicit(&at->arrived.seq, 1, memory_order_acq_rel) + 1 ==
        rounds * perf->ranks) {
        atomic_store_explicit(&at->released.seq, rounds, memory_order_release);
        return;
    }
    /* Pairs with the release by the last rank to arrive. */
    while (atomic_load_explicit(&at->released.seq, memory_order_acquire) != rounds)
        if (perf->oversubscribed || ++polls % 16384 == 0) sched_yield();
}

LOOP(limits_bare_barrier, , barrier(perf))

LOOP(limits_copy_from_lead, barrier(perf), {
    barrier(perf);
    memcpy(talk_second_half(perf), lead(perf)->data, size);
})

void limits_copy_from_next(struct perf *perf, size_t size, uint64_t n)
{
    size_t own = size / perf->ranks;
    for (uint64_t i = 0; i < n; i++) {
        barrier(perf);
        memcpy(talk_second_half(perf) + own, perf->beside[1].mapped->data + own, size - own);
        memcpy(talk_second_half(perf), perf->mine->data, own);
    }
    barrier(perf);
}

/* Wait until the neighbor has announced the step; its row can then be read. */
static void await_row(struct perf *perf, unsigned side, uint64_t step)
{
    unsigned polls = 0;
    /* pairs with the release in limits_halo */
    while (atomic_load_explicit(&perf->mine->row[side].seq, memory_order_acquire) < step)
        if (perf->oversubscribed || ++polls % 16384 == 0) sched_yield();
}

void limits_halo(struct perf *perf, size_t size, uint64_t n)
{
    static uint64_t step;
    for (uint64_t i = 0; i < n; i++) {
        step++;
        for (unsigned side = 0; side < 2; side++) {
            struct shared *there = perf->beside[side].mapped;
            memcpy(there->data + (1 - side) * perf->max_size / 2, talk_second_half(perf), size);
            atomic_store_explicit(&there->row[1 - side].seq, step, memory_order_release);
        }
        compute_for(perf->interval_ns);
        await_row(perf, 0, step);
        await_row(perf, 1, step);
    }
}

LOOP(limits_random, , {
    size_t offset;
    struct place place = talk_random_place(perf, size, &offset);
    atomic_fetch_add((_Atomic uint64_t *)(void *)(place.mapped->data + offset), 1);
})

LOOP(limits_shared_word, , atomic_fetch_add(&lead(perf)->word.seq, 1))
