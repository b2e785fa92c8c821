/* The events, ordered by time and then by creation: a binary heap. */
#include "regsim.h"

#include <stdlib.h>

static bool before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->serial < b->serial;
}

static void swap(struct event *a, struct event *b)
{
    struct event kept = *a;
    *a = *b;
    *b = kept;
}

struct event *queue_post(struct sim *sim, uint64_t after, enum event_kind kind, uint32_t proc)
{
    if (sim->heap_count == sim->heap_room) {
        sim->heap_room = sim->heap_room != 0 ? 2 * sim->heap_room : 256;
        sim->heap = realloc(sim->heap, sim->heap_room * sizeof(*sim->heap));
        if (sim->heap == NULL) abort();
    }
    size_t at = sim->heap_count++;
    sim->heap[at] = (struct event){
        .time = sim->now + after, .serial = sim->serial++, .kind = kind, .proc = proc};
    while (at != 0 && before(&sim->heap[at], &sim->heap[(at - 1) / 2])) {
        swap(&sim->heap[at], &sim->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    return &sim->heap[at];
}

bool queue_take(struct sim *sim, struct event *event)
{
    if (sim->heap_count == 0) return false;
    *event = sim->heap[0];
    sim->heap[0] = sim->heap[--sim->heap_count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < sim->heap_count; child++)
            if (before(&sim->heap[child], &sim->heap[least])) least = child;
        if (least == at) break;
        swap(&sim->heap[at], &sim->heap[least]);
        at = least;
    }
    sim->now = event->time;
    return true;
}
