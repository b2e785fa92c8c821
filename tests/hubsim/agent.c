/* The owner of a hub: the parts of aqrun and the agents around it, without system calls. */
#include "base/fail.h"
#include "hubsim.h"

#include <stdlib.h>

struct aqi_hub *agent_hub(struct sim *sim, uint32_t agent)
{
    aqi_hub_now(sim->agents[agent].hub, sim->now);
    return sim->agents[agent].hub;
}

/* --- hooks ------------------------------------------------------------------------------------ */

static void agent_send(void *arg, uint32_t to, const void *frame, size_t len)
{
    const struct owner *owner = arg;
    link_send(owner->sim, owner->agent, to, frame, len);
}

static void agent_attach(void *arg, uint32_t ancestor)
{
    const struct owner *owner = arg;
    sim_trace(owner->sim, "agent %u looks for %u", owner->agent, ancestor);
    REQUIRE(owner->sim, !owner->sim->agents[owner->agent].over,
            "agent %u looks for a parent after the end", owner->agent);
    link_connect(owner->sim, owner->agent, ancestor);
}

static void agent_detach(void *arg, uint32_t agent)
{
    const struct owner *owner = arg;
    sim_trace(owner->sim, "agent %u drops %u", owner->agent, agent);
    link_close(owner->sim, owner->agent, agent);
}

static void agent_say(void *arg, bool always, const char *text)
{
    const struct owner *owner = arg;
    sim_trace(owner->sim, "agent %u says%s: %s", owner->agent, always ? " aloud" : "", text);
    if (!always) return;
    snprintf(owner->sim->said, sizeof(owner->sim->said), "%s", text);
    owner->sim->loud++;
}

static void agent_output(void *arg, uint32_t rank, unsigned stream, const void *bytes, size_t len)
{
    (void)stream;
    check_output(((struct owner *)arg)->sim, rank, bytes, len);
}

/* Rank 0 reads its input. */
static void agent_on_taken(struct sim *sim, struct event *event)
{
    uint32_t agent = sim->plan->agent_of[0];
    if (!sim->agents[agent].up) return;
    aqi_hub_consumed(agent_hub(sim, agent), (size_t)event->number);
    agent_after(sim, agent);
}

static void agent_input(void *arg, const void *bytes, size_t len)
{
    struct sim *sim = ((struct owner *)arg)->sim;
    check_input(sim, bytes, len);
    struct event *event = sim_post(sim, channel_agent(sim, sim->plan->agent_of[0], AGENT_START),
                                   100 * US, agent_on_taken);
    event->number = len;
}

static void agent_shut(void *arg, unsigned stream)
{
    (void)arg;
    (void)stream;
}

static aq_status agent_freeze(void *arg, const void *bytes, size_t len, struct aqi_parcel **parcel)
{
    const struct owner *owner = arg;
    bool leave_out = owner->sim->plan->quiet_data;
    if (owner->agent == owner->sim->plan->full_host) {
        check_cause(owner->sim, 1);
        return aqi_fail_quiet(AQ_ENOMEM, "no memory for the data of all ranks");
    }
    *parcel = aqi_parcel_new(leave_out ? NULL : bytes, leave_out ? 0 : len);
    return *parcel != NULL ? AQ_OK : AQ_ENOMEM;
}

static aq_status agent_share(void *arg, const char *name, size_t bytes, struct aqi_parcel **parcel)
{
    (void)arg;
    (void)bytes;
    *parcel = aqi_parcel_new(name, strlen(name));
    return *parcel != NULL ? AQ_OK : AQ_ENOMEM;
}

static void agent_on_over(void *arg, int code)
{
    const struct owner *owner = arg;
    struct agent *agent = &owner->sim->agents[owner->agent];
    sim_trace(owner->sim, "agent %u learns of the end, with code %d", owner->agent, code);
    REQUIRE(owner->sim, !agent->over, "agent %u learns of the end twice", owner->agent);
    agent->over = true;
    agent->code = code;
}

static void agent_on_die(void *arg, const char *why)
{
    const struct owner *owner = arg;
    sim_fail(owner->sim, "agent %u cannot go on: %s", owner->agent, why);
}

static const struct aqi_hub_hooks agent_own_hooks = {
    .to_agent = agent_send,
    .attach = agent_attach,
    .detach = agent_detach,
    .say = agent_say,
    .output = agent_output,
    .input = agent_input,
    .shut = agent_shut,
    .freeze = agent_freeze,
    .share = agent_share,
    .over = agent_on_over,
    .die = agent_on_die,
};

/* --- its lifetime ----------------------------------------------------------------------------- */

static void agent_leave(struct sim *sim, uint32_t number)
{
    struct agent *agent = &sim->agents[number];
    agent->up = false;
    agent->over_ns = sim->marks[MARK_OVER] = sim->now;
    sim->up--;
    check_over(sim, number, agent->code);
    for (uint32_t i = 0; i < sim->plan->agents; i++)
        link_close(sim, number, i);
}

static void agent_on_tick(struct sim *sim, struct event *event)
{
    struct agent *agent = &sim->agents[event->a];
    if (!agent->up || agent->tick_ns != event->time) return;
    agent->tick_ns = UINT64_MAX;
    (void)agent_hub(sim, event->a);
    agent_after(sim, event->a);
}

/* Record the most that it has kept. */
static void agent_look(struct agent *agent)
{
    const struct hub_flow *flow = &agent->hub->flow;
    if (flow->log.first != NULL)
        agent->most_log = aqi_max(agent->most_log, flow->applied + 1 - flow->log.first->number);
    if (flow->facts.first != NULL)
        agent->most_facts =
            aqi_max(agent->most_facts, flow->last_fact + 1 - flow->facts.first->number);
}

void agent_after(struct sim *sim, uint32_t number)
{
    struct agent *agent = &sim->agents[number];
    uint64_t next = 0;
    for (unsigned turns = 0; agent->up && !agent->over && next <= sim->now; turns++) {
        REQUIRE(sim, turns < 1000, "agent %u keeps asking to be called at once", number);
        next = aqi_hub_tick(agent->hub);
    }
    if (!agent->up) return;
    agent_look(agent);
    if (agent->over) {
        agent_leave(sim, number);
        return;
    }
    if (next == UINT64_MAX || next >= agent->tick_ns) return;
    agent->tick_ns = next;
    sim_post(sim, NO_CHANNEL, next - sim->now, agent_on_tick)->a = number;
}

static void agent_on_spawn(struct sim *sim, struct event *event)
{
    uint32_t number = sim->ranks[event->b].agent;
    if (!sim->agents[number].up || aqi_hub_ending(sim->agents[number].hub)) return;
    rank_spawn(sim, event->b);
    aqi_hub_started(agent_hub(sim, number), event->b, 100 + (int)event->b);
    agent_after(sim, number);
}

static void agent_open_hub(struct sim *sim, uint32_t number)
{
    const struct plan *plan = sim->plan;
    struct owner *owner = sim_alloc(1, sizeof(*owner));
    *owner = (struct owner){.sim = sim, .agent = number};
    struct aqi_hub_params params = {.ranks = plan->ranks,
                                    .agents = plan->agents,
                                    .agent = number,
                                    .fanout = plan->fanout,
                                    .agent_of = plan->agent_of,
                                    .hosts = sim->hosts,
                                    .program = "./program",
                                    .launcher = "aqrun",
                                    .survive = plan->survive,
                                    .start_timeout_ns = START_NS,
                                    .exit_timeout_ns = EXIT_NS,
                                    .host_timeout_ns = HOST_NS,
                                    .timeout_ns = plan->timeout_ns,
                                    .now_ns = sim->now,
                                    .hooks = agent_own_hooks,
                                    .arg = owner};
    rank_hooks(&params.hooks);
    if (aqi_hub_open(&params, &sim->agents[number].hub) != AQ_OK)
        sim_fail(sim, "cannot open the hub of agent %u", number);
}

static void agent_on_start(struct sim *sim, struct event *event)
{
    const struct plan *plan = sim->plan;
    uint32_t number = event->a;
    struct agent *agent = &sim->agents[number];
    if (agent->dead) return;
    agent->up = true;
    agent->tick_ns = UINT64_MAX;
    agent_open_hub(sim, number);
    if (number != 0) link_connect(sim, number, aqi_hub_parent(number, plan->fanout));
    for (uint32_t i = 0; i < plan->ranks; i++) {
        if (plan->agent_of[i] != number) continue;
        struct event *spawn =
            sim_post(sim, channel_agent(sim, number, AGENT_START), 0, agent_on_spawn);
        spawn->a = number;
        spawn->b = i;
    }
    agent_after(sim, number);
}

/*
 * The process that should have started it notices that this fails: its parent, or the root on its
 * behalf.
 */
static void agent_on_no_start(struct sim *sim, struct event *event)
{
    uint32_t parent = aqi_hub_parent(event->a, sim->plan->fanout);
    if (!sim->agents[parent].up) parent = 0;
    if (!sim->agents[parent].up) return;
    check_cause(sim, 1);
    aqi_hub_no_agent(agent_hub(sim, parent), event->a, "ssh: no route to host");
    agent_after(sim, parent);
}

void agent_post_start(struct sim *sim, uint32_t agent)
{
    uint64_t at = sim->plan->starts_ns[agent];
    if (at == UINT64_MAX) {
        uint32_t parent = aqi_hub_parent(agent, sim->plan->fanout);
        sim->agents[agent].dead = sim->agents[agent].excused = true;
        sim->up--;
        if (sim->plan->starts_ns[parent] == UINT64_MAX) return;
        at = sim->plan->starts_ns[parent] + 300 * MS;
        sim_post(sim, channel_agent(sim, agent, AGENT_START), at, agent_on_no_start)->a = agent;
    } else {
        sim_post(sim, channel_agent(sim, agent, AGENT_START), at, agent_on_start)->a = agent;
    }
}

/* With all processes of its host. */
void agent_die(struct sim *sim, uint32_t number, bool silent)
{
    struct agent *agent = &sim->agents[number];
    if (agent->dead || (agent->hub != NULL && !agent->up)) return;
    sim_trace(sim, "agent %u dies%s", number, silent ? " without a word" : "");
    agent->dead = agent->excused = true;
    agent->silent = silent;
    agent->up = false;
    agent->lost_after_ns = sim->now + sim_random(sim, 200 * US);
    sim->up--;
    for (uint32_t i = 0; i < sim->plan->ranks; i++)
        if (sim->plan->agent_of[i] == number) rank_vanish(sim, &sim->ranks[i]);
    link_of_dead(sim, number, silent);
}
