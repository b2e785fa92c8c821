/* A job from its start to its end, by a seed. */
#include "hubsim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#define RUN_TIMEOUT_NS (60 * SECOND)  /* then the user ends what may hang */
#define RUN_MOST_NS    (150 * SECOND) /* whatever happens, a job takes no longer */
#define RUN_EVENTS     20000000u

void *sim_alloc(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL) abort();
    return memory;
}

void sim_trace(struct sim *sim, const char *fmt, ...)
{
    va_list args;
    if (!sim->trace) return;
    printf("%12.6f  ", (double)sim->now / 1e6);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

void sim_fail(struct sim *sim, const char *fmt, ...)
{
    va_list args;
    fflush(stdout);
    fprintf(stderr, "hubsim: after %.6f ms: ", (double)sim->now / 1e6);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n  last said: %s\n", sim->said);
    if (!sim->every) fprintf(stderr, "  repeat: hubsim --seed %" PRIu64 " --trace\n", sim->seed);
    fflush(stderr);
    abort();
}

uint64_t sim_random(struct sim *sim, uint64_t below)
{
    sim->random = mix(sim->random);
    return below == 0 || sim->every ? 0 : sim->random % below;
}

bool sim_chance(struct sim *sim, unsigned percent)
{
    return !sim->every && sim_random(sim, 100) < percent;
}

/* Once it reconnects in time; the second time it may be too late. */
static void sim_break(struct sim *sim, uint32_t number)
{
    struct agent *agent = &sim->agents[number];
    if (agent->broken) check_cause(sim, 1);
    agent->excused = agent->excused || agent->broken;
    agent->broken = true;
}

static void sim_mend(struct sim *sim, struct event *event)
{
    (void)event;
    sim_trace(sim, "the outage has ended");
    link_partition(sim, 0, false);
}

static void sim_outage(struct sim *sim, const struct fault *fault)
{
    bool for_ever = fault->for_ns == UINT64_MAX;
    if (for_ever)
        check_cause(sim, 1);
    else
        sim_post(sim, NO_CHANNEL, fault->for_ns, sim_mend);
    link_partition(sim, fault->a, for_ever);
}

static void sim_fault(struct sim *sim, struct event *event)
{
    const struct fault *fault = &sim->plan->faults[event->a];
    sim_trace(sim, "fault %u of %#x", (unsigned)fault->kind, fault->a);
    switch (fault->kind) {
    case FAULT_DEATH:
    case FAULT_SILENCE:
        check_cause(sim, 1);
        agent_die(sim, fault->a, fault->kind == FAULT_SILENCE);
        break;
    case FAULT_RESET:
        sim_break(sim, fault->a);
        link_reset(sim, fault->a);
        break;
    case FAULT_CUT:
        sim_break(sim, fault->a);
        for (uint32_t i = 0; i < fault->a; i++)
            link_cut(sim, fault->a, i);
        break;
    case FAULT_PARTITION:
    case FAULT_HEAL:
        check_cause(sim, 1);
        link_partition(sim, fault->kind == FAULT_PARTITION ? fault->a : 0, true);
        break;
    case FAULT_OUTAGE:
        sim_outage(sim, fault);
        break;
    case FAULT_SIGNAL:
        if (!sim->agents[0].up) break;
        check_cause(sim, AQI_EXIT_SIGNAL + (int)fault->a);
        aqi_hub_signal(agent_hub(sim, 0), (int)fault->a);
        agent_after(sim, 0);
        break;
    case FAULT_PAUSE:
    case FAULT_RELEASE:
        if (sim->agents[0].up) aqi_hub_hold_output(agent_hub(sim, 0), fault->kind == FAULT_PAUSE);
        break;
    case FAULT_KINDS:
        break;
    }
}

static void sim_time_out(struct sim *sim, struct event *event)
{
    if (!sim->agents[0].up) return;
    REQUIRE(sim, sim->plan->may_hang, "the job does not end by itself");
    check_cause(sim, AQI_EXIT_SIGNAL + SIGINT);
    sim_trace(sim, "the user ends the job");
    aqi_hub_signal(agent_hub(sim, 0), SIGINT);
    agent_after(sim, 0);
    (void)event;
}

/* A line of the standard input, and the next one. */
static void sim_input(struct sim *sim, struct event *event)
{
    uint64_t number = event->number;
    if (!sim->agents[0].up) return;
    aqi_hub_input(agent_hub(sim, 0), &number, sizeof(number));
    agent_after(sim, 0);
    if (++number < sim->plan->inputs)
        sim_post(sim, NO_CHANNEL, sim->plan->input_ns, sim_input)->number = number;
}

static void sim_places(struct sim *sim)
{
    uint32_t agents = sim->plan->agents;
    sim->hosts = sim_alloc(agents, sizeof(char *));
    sim->host_names = sim_alloc(agents, sizeof(*sim->host_names));
    for (uint32_t i = 0; i < agents; i++) {
        snprintf(sim->host_names[i], sizeof(sim->host_names[i]), "node%u", i);
        sim->hosts[i] = sim->host_names[i];
    }
    for (uint32_t i = 0; i < sim->plan->ranks; i++) {
        sim->ranks[i].number = i;
        sim->ranks[i].agent = sim->plan->agent_of[i];
        sim->ranks[i].agree = -1;
    }
}

void sim_open(struct sim *sim, const struct plan *plan, uint64_t seed)
{
    bool trace = sim->trace, quiet = sim->quiet, every = sim->every;
    *sim = (struct sim){.plan = plan, .seed = seed, .random = mix(seed ^ 0x5eed), .every = every};
    sim->trace = trace;
    sim->quiet = quiet;
    size_t pairs = (size_t)plan->agents * plan->agents;
    sim->agents = sim_alloc(plan->agents, sizeof(*sim->agents));
    sim->ranks = sim_alloc(plan->ranks, sizeof(*sim->ranks));
    sim->open = sim_alloc(pairs, sizeof(*sim->open));
    sim->links = sim_alloc(pairs, sizeof(*sim->links));
    sim->cut = sim_alloc(pairs, 1);
    sim->up = plan->agents;
    queue_open(sim);
    sim_places(sim);
    check_open(sim);
    for (uint32_t i = 0; i < plan->agents; i++) {
        agent_post_start(sim, i);
        if (plan->starts_ns[i] > START_NS / 2) sim->checks.codes[AQI_EXIT_FAILED] = true;
    }
    for (uint32_t i = 0; i < plan->fault_count; i++)
        sim_post(sim, every ? channel_fault(sim) : NO_CHANNEL, plan->faults[i].at_ns, sim_fault)
            ->a = i;
    if (plan->inputs != 0) sim_post(sim, NO_CHANNEL, plan->input_ns, sim_input);
    sim_post(sim, NO_CHANNEL, RUN_TIMEOUT_NS, sim_time_out);
}

void sim_close(struct sim *sim)
{
    queue_close(sim);
    for (uint32_t i = 0; i < sim->plan->agents; i++)
        if (sim->agents[i].hub != NULL) {
            free(sim->agents[i].hub->params.arg);
            aqi_hub_close(sim->agents[i].hub);
        }
    if (sim->last != NULL && --sim->last->refs == 0) free(sim->last);
    check_close(sim);
    free(sim->agents);
    free(sim->ranks);
    free(sim->open);
    free(sim->links);
    free(sim->cut);
    free(sim->hosts);
    free(sim->host_names);
}

void sim_run(struct sim *sim)
{
    struct event *event;
    while (sim->up != 0 && (event = sim_earliest(sim)) != NULL) {
        REQUIRE(sim, event->time <= RUN_MOST_NS, "%u agents have not ended", sim->up);
        REQUIRE(sim, sim->events < RUN_EVENTS, "it does not end");
        sim_happen(sim, event);
    }
}

void run_seed(const struct options *options)
{
    struct plan plan;
    struct sim sim = {.trace = options->trace, .quiet = options->quiet};
    plan_draw(&plan, options->seed, options->agents, options->ranks);
    sim_open(&sim, &plan, options->seed);
    sim_trace(&sim, "%u agents (fanout %u), %u ranks%s", plan.agents, plan.fanout, plan.ranks,
              plan.survive ? ", survive" : "");
    sim_run(&sim);
    check_end(&sim);
    if (!sim.quiet)
        printf("seed %" PRIu64 ": %u agents, %u ranks, %" PRIu64 " events, %.3f ms, code %d\n",
               options->seed, plan.agents, plan.ranks, sim.events, (double)sim.now / 1e6,
               sim.checks.code);
    sim_close(&sim);
    plan_close(&plan);
}
