/*
 * All possible orders of events in small jobs. Each order is a run of its own, from the beginning:
 * it repeats the choices of the previous run up to the last one with an alternative. The order of
 * two events that change different processes does not matter, so only one of such orders is run
 * (sleep sets). Time passes only when nothing else can happen.
 */
#include "hubsim.h"

#include <stdlib.h>

#define EVERY_DEPTH 4096u

struct node { /* bits: channels whose first event could be next */
    uint64_t enabled, asleep, done;
    uint32_t chosen;
};

struct search {
    struct node nodes[EVERY_DEPTH];
    uint32_t depth; /* of the current path */
    uint64_t runs, whole, most_messages, least_messages;
    bool count_messages;
};

static uint64_t every_enabled(struct sim *sim)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < sim->channel_count; i++)
        if (sim->channels[i].first != NULL) bits |= 1ull << i;
    return bits;
}

/*
 * Messages of ranks are also read out of turn when a death is judged, so that agents depend on
 * ranks.
 */
static bool every_independent(const struct sim *sim, uint32_t a, uint32_t b)
{
    uint32_t one = sim->channels[a].actor, other = sim->channels[b].actor;
    uint32_t agents = sim->plan->agents;
    if (one == ALL || other == ALL || one == other) return false;
    return !sim->plan->survive || (one < agents) == (other < agents);
}

static uint64_t every_asleep(const struct sim *sim, const struct node *node)
{
    uint64_t asleep = 0;
    for (uint32_t i = 0; i < sim->channel_count; i++)
        if ((node->asleep >> i & 1) != 0 || (node->done >> i & 1) != 0)
            if (every_independent(sim, i, node->chosen)) asleep |= 1ull << i;
    return asleep;
}

static uint32_t every_first(uint64_t bits)
{
    return (uint32_t)__builtin_ctzll(bits);
}

/*
 * One step. Returns false if this run ends, because the job has ended or the run would repeat
 * another one.
 */
static bool every_step(struct sim *sim, struct search *search, uint32_t depth, bool *whole)
{
    struct node *node = &search->nodes[depth];
    if (depth == EVERY_DEPTH) sim_fail(sim, "an order of events is longer than %u", EVERY_DEPTH);
    uint64_t enabled = every_enabled(sim);
    if (depth == search->depth) {
        uint64_t asleep = depth > 0 ? every_asleep(sim, node - 1) & enabled : 0;
        *node = (struct node){.enabled = enabled, .asleep = asleep};
        if ((enabled & ~asleep) == 0) {
            *whole = false;
            return false;
        }
        node->chosen = every_first(enabled & ~asleep);
        search->depth++;
    }
    REQUIRE(sim, node->enabled == enabled, "a run does not repeat itself");
    sim_happen(sim, sim_channel_first(sim, node->chosen));
    return true;
}

/* Follow the path to its end, and then always take the first choice. */
static void every_run(struct sim *sim, struct search *search)
{
    bool whole = true;
    uint32_t depth = 0;
    struct event *timer;
    while (sim->up != 0 || every_enabled(sim) != 0) {
        if (every_enabled(sim) != 0) {
            if (!every_step(sim, search, depth, &whole)) break;
            depth++;
        } else if ((timer = sim_earliest(sim)) != NULL) {
            REQUIRE(sim, timer->time < 60 * SECOND, "%u agents have not ended", sim->up);
            sim_happen(sim, timer);
        } else {
            break;
        }
    }
    search->runs++;
    if (!whole) return;
    search->whole++;
    check_end(sim);
    if (!search->count_messages) return;
    uint64_t messages = sim->checks.requests + sim->checks.orders + sim->checks.answers;
    uint64_t n = sim->plan->ranks;
    REQUIRE(sim, messages >= 2 * n && messages <= 4 * n - 2,
            "an exit of %" PRIu64 " ranks takes %" PRIu64 " messages", n, messages);
    search->most_messages = aqi_max(search->most_messages, messages);
    search->least_messages = aqi_min(search->least_messages, messages);
}

/* Go to the last choice that has an alternative. Returns false if there is none. */
static bool every_next(struct search *search)
{
    while (search->depth != 0) {
        struct node *node = &search->nodes[search->depth - 1];
        node->done |= 1ull << node->chosen;
        uint64_t left = node->enabled & ~node->asleep & ~node->done;
        if (left != 0) {
            node->chosen = every_first(left);
            return true;
        }
        search->depth--;
    }
    return false;
}

/* --- the jobs --------------------------------------------------------------------------------- */

struct small {
    const char *name;
    uint32_t agents, ranks, fanout;
    bool survive, may_hang;
    bool counted; /* messages of a plain exit */
    struct {
        enum step_kind kind;
        int what;
    } steps[3][8]; /* of each rank; terminated by one of the STEP_END kinds */
    enum fault_kind fault;
    uint32_t fault_of; /* 0: none */
};

#define FINALIZES                                                                                  \
    {                                                                                              \
        {STEP_JOIN, 0}, {STEP_LEAVING, 0}, {STEP_BYE, 0},                                          \
        {                                                                                          \
            STEP_END, 0                                                                            \
        }                                                                                          \
    }
#define EXITS(code)                                                                                \
    {                                                                                              \
        {STEP_JOIN, 0}, {STEP_CALL, 0},                                                            \
        {                                                                                          \
            STEP_EXIT, code                                                                        \
        }                                                                                          \
    }
#define WAITS                                                                                      \
    {                                                                                              \
        {STEP_JOIN, 0}, {STEP_CALL, 0},                                                            \
        {                                                                                          \
            STEP_HANG, 0                                                                           \
        }                                                                                          \
    }
#define COMES_TO_END(code)                                                                         \
    {                                                                                              \
        {STEP_JOIN, 0}, {STEP_CALL, 0},                                                            \
        {                                                                                          \
            STEP_ENDING, code                                                                      \
        }                                                                                          \
    }

static const struct small every_jobs[] = {
    {.name = "two exit", .agents = 1, .ranks = 2, .counted = true, .steps = {EXITS(3), EXITS(4)}},
    {.name = "one of three exits",
     .agents = 1,
     .ranks = 3,
     .counted = true,
     .steps = {EXITS(3), WAITS, WAITS}},
    {.name = "three exit",
     .agents = 1,
     .ranks = 3,
     .counted = true,
     .steps = {EXITS(3), EXITS(4), EXITS(0)}},
    {.name = "three exit",
     .agents = 1,
     .ranks = 3,
     .counted = true,
     .steps = {COMES_TO_END(0), COMES_TO_END(5), COMES_TO_END(0)}},
    {.name = "three finalize", .agents = 1, .ranks = 3, .steps = {FINALIZES, FINALIZES, FINALIZES}},
    {.name = "a crash among calls",
     .agents = 1,
     .ranks = 2,
     .steps = {{{STEP_JOIN, 0}, {STEP_CALL, 0}, {STEP_CALL, 1}, {STEP_BYE, 0}, {STEP_END, 0}},
               {{STEP_JOIN, 0}, {STEP_CALL, 0}, {STEP_CRASH, 11}}}},
    {.name = "a death that is survived",
     .agents = 1,
     .ranks = 2,
     .survive = true,
     .steps = {{{STEP_JOIN, 0}, {STEP_READY, 0}, {STEP_AGREE, 0}, {STEP_BYE, 0}, {STEP_END, 0}},
               {{STEP_JOIN, 0}, {STEP_READY, 0}, {STEP_CRASH, 11}}}},
    {.name = "a call over two hosts",
     .agents = 2,
     .ranks = 2,
     .fanout = 2,
     .steps = {{{STEP_JOIN, 0}, {STEP_CALL, 0}, {STEP_BYE, 0}, {STEP_END, 0}},
               {{STEP_JOIN, 0}, {STEP_CALL, 0}, {STEP_BYE, 0}, {STEP_END, 0}}}},
    {.name = "exits on two hosts",
     .agents = 2,
     .ranks = 2,
     .fanout = 2,
     .steps = {EXITS(3), EXITS(4)}},
    {.name = "a host dies",
     .agents = 2,
     .ranks = 2,
     .fanout = 2,
     .may_hang = true,
     .steps = {WAITS, EXITS(4)},
     .fault = FAULT_DEATH,
     .fault_of = 1},
    {.name = "a host between two dies",
     .agents = 3,
     .ranks = 2,
     .fanout = 1,
     .may_hang = true,
     .steps = {WAITS, EXITS(4)},
     .fault = FAULT_DEATH,
     .fault_of = 1},
    {.name = "a line breaks",
     .agents = 2,
     .ranks = 2,
     .fanout = 2,
     .steps = {EXITS(3), EXITS(4)},
     .fault = FAULT_RESET,
     .fault_of = 1},
    {.name = "a line below another one breaks",
     .agents = 3,
     .ranks = 2,
     .fanout = 1,
     .steps = {EXITS(3), EXITS(4)},
     .fault = FAULT_RESET,
     .fault_of = 2},
};

static void every_plan(const struct small *small, struct plan *plan)
{
    plan_open(plan, small->agents, small->ranks, small->fanout != 0 ? small->fanout : 1);
    plan->survive = small->survive;
    plan->may_hang = small->may_hang;
    plan->link_ns = MS;
    for (uint32_t i = 0; i < small->ranks; i++) {
        for (uint32_t k = 0; k < AQI_COUNT_OF(small->steps[i]); k++) {
            plan_add(plan, i, small->steps[i][k].kind, small->steps[i][k].what, 0);
            if (small->steps[i][k].kind >= STEP_ENDING) break;
        }
        hub_set_add(plan->agrees[0].members, i);
    }
    if (small->agents == 3) /* none between */
        plan->agent_of[1] = 2;
    plan->agree_count = 1;
    plan->call_count = 2;
    plan->calls[0] = (struct plan_call){AQI_CALL_ALLGATHER, 8};
    plan->calls[1] = (struct plan_call){AQI_CALL_TABLE, 100};
    if (small->fault_of == 0) return;
    plan->lossy = small->fault != FAULT_RESET;
    plan->faults[plan->fault_count++] = (struct fault){.kind = small->fault, .a = small->fault_of};
}

static void every_job(const struct small *small, struct search *search, uint64_t most)
{
    struct plan plan;
    bool more = true;
    *search = (struct search){.count_messages = small->counted, .least_messages = UINT64_MAX};
    every_plan(small, &plan);
    while (more && (most == 0 || search->runs < most)) {
        struct sim sim = {.every = true};
        sim_open(&sim, &plan, 1);
        if (sim.channel_count > 64) sim_fail(&sim, "%s: too many channels", small->name);
        every_run(&sim, search);
        sim_close(&sim);
        more = every_next(search);
    }
    plan_close(&plan);
    printf("%-26s %8" PRIu64 " orders%s", small->name, search->whole,
           more ? ", and more" : ", all of them");
    if (small->counted)
        printf("; %" PRIu64 " to %" PRIu64 " messages", search->least_messages,
               search->most_messages);
    putchar('\n');
}

int run_every(uint64_t most)
{
    struct search *search = sim_alloc(1, sizeof(*search));
    for (size_t i = 0; i < AQI_COUNT_OF(every_jobs); i++)
        every_job(&every_jobs[i], search, most);
    free(search);
    return 0;
}
