/* Channels, and their events in the order of time, then of creation: a binary heap. */
#include "hubsim.h"

#include <stdlib.h>

uint32_t channel_link(const struct sim *sim, uint32_t from, uint32_t to)
{
    return from * sim->plan->agents + to;
}

uint32_t channel_rank(const struct sim *sim, uint32_t rank, enum channel_kind kind)
{
    return sim->plan->agents * sim->plan->agents + rank * RANK_CHANNELS + (uint32_t)kind;
}

uint32_t channel_agent(const struct sim *sim, uint32_t agent, enum agent_channel kind)
{
    return channel_rank(sim, sim->plan->ranks, 0) + agent * AGENT_CHANNELS + (uint32_t)kind;
}

uint32_t channel_fault(const struct sim *sim)
{
    return channel_agent(sim, sim->plan->agents, 0);
}

static uint32_t channel_actor(const struct sim *sim, uint32_t channel)
{
    uint32_t agents = sim->plan->agents;
    if (channel == channel_fault(sim)) return ALL;
    if (channel >= channel_agent(sim, 0, 0))
        return (channel - channel_agent(sim, 0, 0)) / AGENT_CHANNELS;
    if (channel < agents * agents) return channel % agents;
    uint32_t rank = (channel - agents * agents) / RANK_CHANNELS;
    uint32_t kind = (channel - agents * agents) % RANK_CHANNELS;
    return kind == RANK_UP || kind == RANK_REAP ? sim->plan->agent_of[rank] : agents + rank;
}

void queue_open(struct sim *sim)
{
    sim->channel_count = channel_fault(sim) + 1;
    sim->channels = sim_alloc(sim->channel_count, sizeof(*sim->channels));
    for (uint32_t i = 0; i < sim->channel_count; i++) {
        sim->channels[i].last = &sim->channels[i].first;
        sim->channels[i].actor = channel_actor(sim, i);
    }
}

void event_free(struct event *event)
{
    if (event->bytes != NULL && --event->bytes->refs == 0) free(event->bytes);
    if (event->parcel != NULL) aqi_parcel_release(event->parcel);
    free(event);
}

static bool before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->serial < b->serial;
}

static void heap_add(struct sim *sim, struct event *event)
{
    if (sim->heap_count == sim->heap_room) {
        sim->heap_room = sim->heap_room == 0 ? 1024 : sim->heap_room * 2;
        sim->heap = realloc(sim->heap, sim->heap_room * sizeof(struct event *));
        if (sim->heap == NULL) abort();
    }
    size_t at = sim->heap_count++;
    while (at > 0 && before(event, sim->heap[(at - 1) / 2])) {
        sim->heap[at] = sim->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->heap[at] = event;
}

static void heap_drop_first(struct sim *sim)
{
    struct event *last = sim->heap[--sim->heap_count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < sim->heap_count) {
        if (child + 1 < sim->heap_count && before(sim->heap[child + 1], sim->heap[child])) child++;
        if (!before(sim->heap[child], last)) break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
}

struct event *sim_post(struct sim *sim, uint32_t channel, uint64_t delay_ns,
                       void (*run)(struct sim *, struct event *))
{
    struct event *event = sim_alloc(1, sizeof(*event));
    *event = (struct event){.time = sim->now + delay_ns,
                            .serial = sim->serial++,
                            .channel = channel,
                            .timer = channel == NO_CHANNEL,
                            .run = run};
    if (channel != NO_CHANNEL) {
        struct channel *in = &sim->channels[channel];
        event->time = aqi_max(event->time, in->time);
        in->time = event->time;
        *in->last = event;
        in->last = &event->next;
    }
    if (!sim->every || event->timer) heap_add(sim, event);
    return event;
}

/* Messages of a rank are also taken out of turn (rank_drain), after which their turn is empty. */
struct event *sim_earliest(struct sim *sim)
{
    while (sim->heap_count != 0) {
        struct event *first = sim->heap[0];
        if (first->run != NULL) return first;
        heap_drop_first(sim);
        event_free(first);
    }
    return NULL;
}

struct event *sim_channel_first(struct sim *sim, uint32_t channel)
{
    return sim->channels[channel].first;
}

void sim_happen(struct sim *sim, struct event *event)
{
    void (*run)(struct sim *, struct event *) = event->run;
    bool in_heap = !sim->every || event->timer;
    bool in_turn = in_heap && sim->heap_count != 0 && sim->heap[0] == event;
    if (event->channel != NO_CHANNEL) {
        struct channel *in = &sim->channels[event->channel];
        in->first = event->next;
        if (in->first == NULL) in->last = &in->first;
    }
    if (in_turn) heap_drop_first(sim);
    event->run = NULL;
    sim->events++;
    if (in_turn) sim->now = aqi_max(sim->now, event->time);
    run(sim, event);
    if (in_turn || !in_heap) event_free(event);
}

void queue_close(struct sim *sim)
{
    for (size_t i = 0; i < sim->heap_count; i++)
        event_free(sim->heap[i]);
    for (uint32_t i = 0; sim->every && i < sim->channel_count; i++)
        while (sim->channels[i].first != NULL) {
            struct event *gone = sim->channels[i].first;
            sim->channels[i].first = gone->next;
            event_free(gone);
        }
    free(sim->heap);
    free(sim->channels);
}
