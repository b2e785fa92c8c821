/* The cost of large jobs: the table in docs/measurements.md (figures.py), and bounds on counts,
 * not on times (run_bounds). */
#include "hubsim.h"

#include <stdlib.h>
#include <time.h>

enum { FIGURE_CALLS = 3, FANOUT = 16 };

/*
 * Agents, ranks, bytes of a card: every agent keeps the tables, so with many agents these are
 * short.
 */
static const uint32_t figure_sizes[][3] = {
    {10, 10000, 512}, {100, 10000, 512}, {1000, 10000, 512}, {10000, 10000, 8}};

/* Start, three tables, an agreement of all ranks, and an exit of all ranks. */
static void figures_plan(struct plan *plan, uint32_t agents, uint32_t ranks, uint64_t card_bytes)
{
    plan_open(plan, agents, ranks, FANOUT);
    plan->link_ns = MS;
    plan->quiet_data = true;
    plan->call_count = FIGURE_CALLS;
    plan->agree_count = 1;
    for (uint32_t i = 0; i < FIGURE_CALLS; i++)
        plan->calls[i] = (struct plan_call){AQI_CALL_TABLE, card_bytes};
    for (uint32_t i = 0; i < ranks; i++) {
        plan_add(plan, i, STEP_JOIN, 0, 0);
        for (int k = 0; k < FIGURE_CALLS; k++)
            plan_add(plan, i, STEP_CALL, k, 0);
        plan_add(plan, i, STEP_READY, 0, 0);
        plan_add(plan, i, STEP_AGREE, 0, 0);
        plan_add(plan, i, STEP_ENDING, 0, 0);
        hub_set_add(plan->agrees[0].members, i);
    }
}

static uint32_t figures_depth(uint32_t agents)
{
    uint32_t depth = 0;
    for (uint32_t i = agents - 1; i != 0; i = aqi_hub_parent(i, FANOUT))
        depth++;
    return depth;
}

static uint64_t figures_rounds(const struct sim *sim, uint32_t from, uint32_t to)
{
    return (sim->marks[to] - sim->marks[from]) / sim->plan->link_ns;
}

/* The most frames that arrived at one agent other than the root. */
static uint64_t figures_most_in(const struct sim *sim)
{
    uint64_t most = 0;
    for (uint32_t i = 1; i < sim->plan->agents; i++)
        most = aqi_max(most, sim->agents[i].frames_in);
    return most;
}

static void figures_run(struct sim *sim, struct plan *plan)
{
    sim_open(sim, plan, 1);
    sim_run(sim);
    check_end(sim);
    REQUIRE(sim, sim->checks.code == 0, "the job ends with code %d", sim->checks.code);
}

int run_figures(void)
{
    printf(
        "agents,ranks,depth,start,table,agreement,exit,root_frames,agent_frames,root_in,root_out,"
        "seconds\n");
    for (size_t i = 0; i < AQI_COUNT_OF(figure_sizes); i++) {
        struct plan plan;
        struct sim sim = {.quiet = true};
        uint32_t agents = figure_sizes[i][0], ranks = figure_sizes[i][1];
        figures_plan(&plan, agents, ranks, figure_sizes[i][2]);
        clock_t before = clock();
        figures_run(&sim, &plan);
        double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
        printf("%u,%u,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
               ",%" PRIu64 ",%" PRIu64 ",%.2f\n",
               agents, ranks, figures_depth(agents), sim.marks[0] / plan.link_ns,
               figures_rounds(&sim, 1, 2), figures_rounds(&sim, 2, MARK_AGREED),
               figures_rounds(&sim, MARK_AGREED, MARK_EXIT), sim.agents[0].frames_in,
               figures_most_in(&sim), sim.agents[0].bytes_in, sim.agents[0].bytes_out, seconds);
        fflush(stdout);
        sim_close(&sim);
        plan_close(&plan);
    }
    return 0;
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* Each stage takes the way up and down the tree; the root gets a few messages about each rank. */
static void bounds_size(uint32_t agents, uint32_t ranks)
{
    struct plan plan;
    struct sim sim = {.quiet = true};
    uint32_t depth = figures_depth(agents);
    figures_plan(&plan, agents, ranks, 8);
    figures_run(&sim, &plan);
    for (uint32_t to = 1; to <= MARK_EXIT; to++) {
        uint32_t from = to == MARK_AGREED ? FIGURE_CALLS - 1 : to - 1;
        if (to >= FIGURE_CALLS && to < MARK_AGREED) continue;
        uint64_t rounds = figures_rounds(&sim, from, to);
        REQUIRE(&sim, rounds <= 2 * depth,
                "stage %u takes %" PRIu64 " rounds in a tree of depth %u", to, rounds, depth);
    }
    /* STARTED, JOINED, READY, ENDING, ENDED; HERE, three tables, ASK, CLOSED; APPLIED of each entry
     */
    uint64_t most = 5ull * ranks + 6ull * agents + 10ull * FANOUT;
    REQUIRE(&sim, sim.agents[0].frames_in <= most,
            "the root gets %" PRIu64 " frames, more than %" PRIu64, sim.agents[0].frames_in, most);
    printf("%u ranks on %u hosts: %" PRIu64 " frames for the root, %" PRIu64 " rounds in all\n",
           ranks, agents, sim.agents[0].frames_in, sim.marks[MARK_OVER] / plan.link_ns);
    sim_close(&sim);
    plan_close(&plan);
}

enum { LONG_ENTRIES = 7000, LONG_KEPT = 24 };

static void bounds_on_input(struct sim *sim, struct event *event)
{
    (void)event;
    if (!sim->agents[0].up) return;
    aqi_hub_input(agent_hub(sim, 0), "line\n", 5);
    agent_after(sim, 0);
}

static void bounds_on_forget(struct sim *sim, struct event *event)
{
    (void)event;
    for (uint32_t i = 0; i < sim->plan->agents; i++)
        sim->agents[i].most_log = sim->agents[i].most_facts = 0;
}

/* A job of many entries and facts, in which a host dies, keeps few of them. */
static void bounds_long(void)
{
    enum { AGENTS = 9, LOST = 1 };
    struct plan plan;
    struct sim sim = {.quiet = true};
    plan_open(&plan, AGENTS, 2 * AGENTS, 2);
    plan.survive = plan.lossy = plan.may_hang = true;
    plan.call_count = 1;
    plan.link_ns = MS;
    plan.calls[0] = (struct plan_call){AQI_CALL_TABLE, 100};
    for (uint32_t i = 0; i < plan.ranks; i++) {
        plan_add(&plan, i, STEP_JOIN, 0, 0);
        plan_add(&plan, i, STEP_CALL, 0, 0);
        plan_add(&plan, i, STEP_READY, 0, 0);
        for (uint32_t k = 0; k < 45; k++)
            plan_add(&plan, i, STEP_PRINT, 100, 150 * MS);
        plan_add(&plan, i, STEP_EXIT, 0, SECOND);
    }
    plan.faults[plan.fault_count++] =
        (struct fault){.kind = FAULT_SILENCE, .a = LOST, .at_ns = 500 * MS};
    sim_open(&sim, &plan, 1);
    for (uint64_t i = 0; i < LONG_ENTRIES; i++)
        sim_post(&sim, NO_CHANNEL, 10 * MS + i * MS, bounds_on_input);
    /*
     * The host is missed, waited for, and declared lost; until then the entries that it lacks are
     * kept for those below it.
     */
    sim_post(&sim, NO_CHANNEL, 500 * MS + 5 * HOST_NS / 4 + HOST_NS + 2 * HOST_NS + 100 * MS,
             bounds_on_forget);
    sim_run(&sim);
    check_end(&sim);
    for (uint32_t i = 0; i < AGENTS; i++) {
        if (i == LOST) continue;
        const struct agent *agent = &sim.agents[i];
        REQUIRE(&sim, agent->hub->flow.applied > LONG_ENTRIES, "agent %u has had few entries", i);
        REQUIRE(&sim, agent->most_log <= LONG_KEPT && agent->most_facts <= LONG_KEPT,
                "agent %u has kept %" PRIu64 " entries and %" PRIu64 " facts", i, agent->most_log,
                agent->most_facts);
    }
    printf("%d entries: the root has kept %" PRIu64 "\n", LONG_ENTRIES, sim.agents[0].most_log);
    sim_close(&sim);
    plan_close(&plan);
}

int run_bounds(void)
{
    bounds_long();
    bounds_size(20, 200);
    bounds_size(100, 2000);
    bounds_size(1000, 10000);
    return 0;
}
