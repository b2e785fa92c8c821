/* The events of a simulation, ordered by time and then by creation: a binary heap. */
#include "sim.h"

#include <stdlib.h>

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->time != b->time ? a->time < b->time : a->serial < b->serial;
}

void sim_at(struct sim *sim, uint64_t time, void (*run)(struct sim *, uint64_t, void *), uint64_t a,
            void *arg)
{
    if (sim->heap_count == sim->heap_room) {
        sim->heap_room = sim->heap_room == 0 ? 1024 : sim->heap_room * 2;
        sim->heap = realloc(sim->heap, sim->heap_room * sizeof(*sim->heap));
        SIM_REQUIRE(sim, sim->heap != NULL, "no memory for events");
    }
    struct sim_event event = {time, sim->serial++, run, a, arg};
    if (event.time < sim->now) event.time = sim->now;
    size_t at = sim->heap_count++;
    while (at > 0 && before(&event, &sim->heap[(at - 1) / 2])) {
        sim->heap[at] = sim->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->heap[at] = event;
}

static struct sim_event take_first(struct sim *sim)
{
    struct sim_event first = sim->heap[0], last = sim->heap[--sim->heap_count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < sim->heap_count) {
        if (child + 1 < sim->heap_count && before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!before(&sim->heap[child], &last)) break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
    return first;
}

bool sim_step(struct sim *sim)
{
    if (sim->heap_count == 0) return false;
    struct sim_event event = take_first(sim);
    sim->now = event.time;
    sim->events++;
    event.run(sim, event.a, event.arg);
    return true;
}
