/* Links between agents: ordered like TCP; closed, reset, or cut without a notification. */
#include "hubsim.h"

#include <stdlib.h>

static uint32_t *link_end(struct sim *sim, uint32_t a, uint32_t b)
{
    return &sim->open[(size_t)a * sim->plan->agents + b];
}

static uint32_t *link_number(struct sim *sim, uint32_t a, uint32_t b)
{
    return &sim->links[(size_t)aqi_min(a, b) * sim->plan->agents + aqi_max(a, b)];
}

static uint8_t *link_is_cut(struct sim *sim, uint32_t a, uint32_t b)
{
    return &sim->cut[(size_t)aqi_min(a, b) * sim->plan->agents + aqi_max(a, b)];
}

bool link_open(const struct sim *sim, uint32_t a, uint32_t b)
{
    return sim->open[(size_t)a * sim->plan->agents + b] != 0;
}

static bool link_apart(const struct sim *sim, uint32_t a, uint32_t b)
{
    return sim->partition != 0 && (sim->partition >> a % 32 & 1) != (sim->partition >> b % 32 & 1);
}

uint64_t link_delay(struct sim *sim)
{
    if (sim->plan->link_ns != 0) return sim->plan->link_ns;
    if (sim->plan->slow_links && sim_chance(sim, 10)) return sim_random(sim, 100 * MS);
    return 10 * US + sim_random(sim, 200 * US);
}

/* This end has closed, whatever the hub assumes. `ended`: and so has the agent. */
static void link_lost(struct sim *sim, uint32_t at, uint32_t other, bool ended, const char *why)
{
    *link_end(sim, at, other) = 0;
    if (!sim->agents[at].up) return;
    sim_trace(sim, "agent %u: link to %u is lost: %s", at, other, why);
    aqi_hub_link_lost(agent_hub(sim, at), other, ended, why);
    agent_after(sim, at);
}

/* An event at agent `a`'s end of its link to `b`. */
static struct event *link_post(struct sim *sim, uint32_t channel, uint64_t delay_ns, uint32_t a,
                               uint32_t b, void (*run)(struct sim *, struct event *))
{
    struct event *event = sim_post(sim, channel, delay_ns, run);
    event->a = a;
    event->b = b;
    event->number = *link_number(sim, a, b);
    return event;
}

/* The link may have been replaced meanwhile. */
static bool link_is_meant(struct sim *sim, const struct event *event)
{
    return *link_end(sim, event->a, event->b) == event->number;
}

static void link_on_frame(struct sim *sim, struct event *event)
{
    uint32_t at = event->a, from = event->b;
    struct agent *agent = &sim->agents[at];
    if (!agent->up || !link_is_meant(sim, event) || *link_is_cut(sim, from, at)) return;
    if (sim->agents[from].dead && event->time > sim->agents[from].lost_after_ns) return;
    agent->frames_in++;
    agent->bytes_in += event->bytes->len;
    aq_status status =
        aqi_hub_frame(agent_hub(sim, at), from, event->bytes->data, event->bytes->len);
    REQUIRE(sim, status == AQ_OK, "agent %u rejects a frame of kind %u from agent %u", at,
            event->bytes->data[0], from);
    agent_after(sim, at);
}

/* Frames that are sent to several agents share their bytes. */
static struct bytes *link_bytes(struct sim *sim, const void *frame, size_t len)
{
    struct bytes *bytes = sim->last;
    if (bytes == NULL || bytes->len != len || memcmp(bytes->data, frame, len) != 0) {
        bytes = malloc(sizeof(*bytes) + len);
        if (bytes == NULL) abort();
        bytes->refs = 1;
        bytes->len = len;
        memcpy(bytes->data, frame, len);
        if (sim->last != NULL && --sim->last->refs == 0) free(sim->last);
        sim->last = bytes;
    }
    bytes->refs++;
    return bytes;
}

void link_send(struct sim *sim, uint32_t from, uint32_t to, const void *frame, size_t len)
{
    REQUIRE(sim, link_open(sim, from, to),
            "agent %u sends a frame of kind %u to agent %u without "
            "a link",
            from, *(const uint8_t *)frame, to);
    sim->agents[from].frames_out++;
    sim->agents[from].bytes_out += len;
    check_entry(sim, frame, len);
    struct event *event =
        link_post(sim, channel_link(sim, from, to), link_delay(sim), to, from, link_on_frame);
    event->bytes = link_bytes(sim, frame, len);
}

static void link_on_end(struct sim *sim, struct event *event)
{
    if (!*link_is_cut(sim, event->a, event->b) && link_is_meant(sim, event))
        link_lost(sim, event->a, event->b, true, "it was closed");
}

void link_close(struct sim *sim, uint32_t from, uint32_t to)
{
    if (!link_open(sim, from, to)) return;
    *link_end(sim, from, to) = 0;
    link_post(sim, channel_link(sim, from, to), link_delay(sim), to, from, link_on_end);
}

static void link_on_silence(struct sim *sim, struct event *event)
{
    if (link_is_meant(sim, event))
        link_lost(sim, event->a, event->b, false, "it was silent for too long");
}

/* Each end that is alive notices by its own timeout. */
void link_cut(struct sim *sim, uint32_t a, uint32_t b)
{
    if (!link_open(sim, a, b) && !link_open(sim, b, a)) return;
    *link_is_cut(sim, a, b) = 1;
    uint64_t silence = HOST_NS + sim_random(sim, HOST_NS / 4);
    for (int i = 0; i < 2; i++)
        link_post(sim, NO_CHANNEL, silence - sim_random(sim, HOST_NS / 4), i == 0 ? a : b,
                  i == 0 ? b : a, link_on_silence);
}

void link_of_dead(struct sim *sim, uint32_t agent, bool silent)
{
    for (uint32_t i = 0; i < sim->plan->agents; i++) {
        if (!link_open(sim, agent, i)) continue;
        if (silent) {
            link_cut(sim, agent, i);
            *link_end(sim, agent, i) = 0;
        } else {
            link_close(sim, agent, i);
        }
    }
}

static void link_on_reset(struct sim *sim, struct event *event)
{
    if (link_is_meant(sim, event)) link_lost(sim, event->a, event->b, false, "it was reset");
}

/* Reset the link to this agent's current parent at both ends. */
void link_reset(struct sim *sim, uint32_t agent)
{
    for (uint32_t i = 0; i < agent; i++) {
        if (!link_open(sim, agent, i)) continue;
        *link_is_cut(sim, agent, i) = 1;
        for (int k = 0; k < 2; k++)
            link_post(sim, NO_CHANNEL, link_delay(sim), k == 0 ? agent : i, k == 0 ? i : agent,
                      link_on_reset);
    }
}

void link_partition(struct sim *sim, uint32_t number, bool excused)
{
    sim->partition = number;
    for (uint32_t i = 0; i < sim->plan->agents; i++)
        sim->agents[i].excused = sim->agents[i].excused || excused;
    for (uint32_t i = 0; i < sim->plan->agents; i++)
        for (uint32_t k = i + 1; k < sim->plan->agents; k++)
            if (link_apart(sim, i, k)) link_cut(sim, i, k);
}

static void link_on_refused(struct sim *sim, struct event *event)
{
    if (!sim->agents[event->a].up) return;
    sim_trace(sim, "agent %u: %u cannot be reached", event->a, event->b);
    aqi_hub_unreachable(agent_hub(sim, event->a), event->b, event->number != 0,
                        event->number != 0 ? "connection refused" : "no answer");
    agent_after(sim, event->a);
}

static void link_on_connect(struct sim *sim, struct event *event)
{
    uint32_t agent = event->a, to = event->b;
    if (!sim->agents[agent].up) return;
    bool apart = link_apart(sim, agent, to);
    bool refused = !apart && !sim->agents[to].up && !sim->agents[to].silent;
    if (refused || apart || !sim->agents[to].up) {
        /* TCP retries after a while, and once more too late. */
        bool again = !refused && event->number == 0;
        struct event *later =
            sim_post(sim, refused ? channel_agent(sim, agent, AGENT_CONNECT) : NO_CHANNEL,
                     refused ? 50 * US
                     : again ? HOST_NS / 10
                             : HOST_NS / 4 - HOST_NS / 10,
                     again ? link_on_connect : link_on_refused);
        later->a = agent;
        later->b = to;
        later->number = refused || again;
        return;
    }
    if (link_open(sim, to, agent)) link_lost(sim, to, agent, false, "it has called again");
    *link_end(sim, agent, to) = *link_end(sim, to, agent) = ++*link_number(sim, agent, to);
    *link_is_cut(sim, agent, to) = 0;
    sim_trace(sim, "agent %u is connected to %u", agent, to);
    aqi_hub_attached(agent_hub(sim, agent), to);
    agent_after(sim, agent);
}

void link_connect(struct sim *sim, uint32_t agent, uint32_t ancestor)
{
    struct event *event =
        sim_post(sim, channel_agent(sim, agent, AGENT_CONNECT), link_delay(sim), link_on_connect);
    event->a = agent;
    event->b = ancestor;
}
