/* Draws the plan of a job from a seed. */
#include "hubsim.h"

#include <signal.h>
#include <stdlib.h>

struct draw {
    struct plan *plan;
    uint64_t state;
    uint64_t slow; /* factor of the duration of ranks' steps */
};

static uint64_t draw(struct draw *from, uint64_t below)
{
    from->state = mix(from->state);
    return below == 0 ? 0 : from->state % below;
}

static bool chance(struct draw *from, unsigned percent)
{
    return draw(from, 100) < percent;
}

void plan_open(struct plan *plan, uint32_t agents, uint32_t ranks, uint32_t fanout)
{
    *plan = (struct plan){.agents = agents, .ranks = ranks, .fanout = fanout, .full_host = NOBODY};
    plan->agent_of = sim_alloc(ranks, sizeof(uint32_t));
    plan->each = sim_alloc(ranks, sizeof(*plan->each));
    plan->starts_ns = sim_alloc(agents, sizeof(uint64_t));
    for (uint32_t i = 0; i < ranks; i++)
        plan->agent_of[i] = (uint32_t)((uint64_t)i * agents / ranks);
}

void plan_close(struct plan *plan)
{
    free(plan->agent_of);
    free(plan->each);
    free(plan->starts_ns);
}

void plan_add(struct plan *plan, uint32_t rank, enum step_kind kind, int what, uint64_t delay_ns)
{
    struct plan_rank *each = &plan->each[rank];
    if (each->count == STEPS) abort();
    each->steps[each->count++] = (struct step){kind, what, delay_ns};
}

/* --- placement of ranks ----------------------------------------------------------------------- */

static void draw_places(struct draw *from)
{
    struct plan *plan = from->plan;
    uint32_t how = (uint32_t)draw(from, 3);
    uint32_t first =
        plan->agents > 1 && chance(from, 25) ? 1 : 0; /* aqrun runs on no host of the job */
    uint32_t agents = plan->agents - first;
    for (uint32_t i = 0; i < plan->ranks; i++) {
        uint32_t block = (uint32_t)((uint64_t)i * agents / plan->ranks);
        uint32_t at = how == 0 ? block : how == 1 ? i % agents : (uint32_t)draw(from, agents);
        plan->agent_of[i] = first + at;
    }
}

static void draw_starts(struct draw *from)
{
    struct plan *plan = from->plan;
    bool failing = chance(from, 4);
    for (uint32_t i = 1; i < plan->agents; i++) {
        uint64_t parent = plan->starts_ns[aqi_hub_parent(i, plan->fanout)];
        bool never = parent == UINT64_MAX || (failing && chance(from, 15));
        plan->starts_ns[i] =
            never ? UINT64_MAX : parent + MS + draw(from, chance(from, 5) ? 2 * SECOND : 50 * MS);
        if (never) plan->lossy = true;
    }
}

/* --- steps of the ranks ----------------------------------------------------------------------- */

static uint64_t draw_delay(struct draw *from)
{
    uint32_t kind = (uint32_t)draw(from, 10);
    uint64_t most = kind < 5 ? 100 * US : kind < 9 ? 5 * MS : 200 * MS;
    return draw(from, most * from->slow);
}

static void draw_calls(struct draw *from)
{
    struct plan *plan = from->plan;
    plan->call_count = 1 + (uint32_t)draw(from, 6);
    for (uint32_t i = 0; i < plan->call_count; i++) {
        struct plan_call *call = &plan->calls[i];
        call->call = (enum aqi_control_call)draw(from, AQI_CALLS);
        if (call->call == AQI_CALL_ALLGATHER)
            call->bytes = draw(from, aqi_min(AQI_CONTROL_CHUNK / plan->ranks, 512) + 1);
        else
            call->bytes = 1 + draw(from, chance(from, 10) ? 70000 : 600);
    }
    plan->agree_count = (uint32_t)draw(from, 4);
    for (uint32_t i = 0; i < plan->agree_count; i++) {
        bool all = chance(from, 30);
        for (uint32_t k = 0; k < plan->ranks; k++)
            if (all || chance(from, 50)) hub_set_add(plan->agrees[i].members, k);
    }
}

enum ending { FINALIZE, ALL_EXIT, ALL_ENDING, ONE_EXITS, ONE_ENDING, RETURN, ENDINGS };

static void draw_ending(struct draw *from, uint32_t rank, enum ending ending, uint32_t one)
{
    struct plan *plan = from->plan;
    int code = (int)draw(from, 3) == 0 ? 10 + (int)rank % 40 : 0;
    switch (ending) {
    case FINALIZE:
        plan_add(plan, rank, STEP_LEAVING, 0, draw_delay(from));
        if (plan->agree_count != 0)
            plan_add(plan, rank, STEP_AGREE, (int)plan->agree_count - 1, draw_delay(from));
        plan_add(plan, rank, STEP_BYE, 0, draw_delay(from));
        plan_add(plan, rank, STEP_END, chance(from, 3) ? code : 0, draw_delay(from));
        break;
    case ALL_EXIT:
        plan_add(plan, rank, STEP_EXIT, code, draw_delay(from));
        break;
    case ALL_ENDING:
        plan_add(plan, rank, STEP_ENDING, code, draw_delay(from));
        break;
    case ONE_EXITS:
        plan_add(plan, rank, rank == one ? STEP_EXIT : STEP_HANG, code, draw_delay(from));
        break;
    case ONE_ENDING:
        plan_add(plan, rank, rank == one ? STEP_ENDING : STEP_HANG, code, draw_delay(from));
        break;
    default:
        plan_add(plan, rank, STEP_END, code, draw_delay(from));
        break;
    }
}

static void draw_steps(struct draw *from, uint32_t rank, enum ending ending, uint32_t one)
{
    struct plan *plan = from->plan;
    uint32_t ready_at = (plan->call_count + 1) / 2;
    bool prints = chance(from, 30);
    plan_add(plan, rank, STEP_JOIN, 0, draw_delay(from));
    for (uint32_t i = 0; i < plan->call_count; i++) {
        plan_add(plan, rank, STEP_CALL, (int)i, draw_delay(from));
        if (i + 1 == ready_at) plan_add(plan, rank, STEP_READY, 0, draw_delay(from));
    }
    for (uint32_t i = 0; i < plan->agree_count; i++) {
        bool last = ending == FINALIZE && i + 1 == plan->agree_count;
        if (hub_set_has(plan->agrees[i].members, rank) && !last)
            plan_add(plan, rank, STEP_AGREE, (int)i, draw_delay(from));
        for (uint32_t k = 0; prints && k < 8; k++)
            plan_add(plan, rank, STEP_PRINT, (int)draw(from, 60000), draw_delay(from));
    }
    draw_ending(from, rank, ending, one);
}

/* One deviation of this rank. */
static void draw_oddity(struct draw *from, uint32_t rank)
{
    struct plan *plan = from->plan;
    struct plan_rank *each = &plan->each[rank];
    struct step *step = &each->steps[draw(from, each->count)];
    static const int signals[] = {SIGSEGV, SIGKILL, SIGABRT};
    switch (draw(from, 8)) {
    case 0:
    case 1:
        *step = (struct step){STEP_CRASH, signals[draw(from, 3)], step->delay_ns};
        break;
    case 2:
        *step = (struct step){STEP_END, (int)draw(from, 60), step->delay_ns};
        break;
    case 3:
        *step = (struct step){STEP_EXIT, (int)draw(from, 60), step->delay_ns};
        if (step == each->steps)
            step->kind = STEP_END; /* a rank that has not joined sends nothing */
        break;
    case 4:
        *step = (struct step){STEP_HANG, 0, step->delay_ns};
        plan->may_hang = true;
        break;
    case 5:
        step->delay_ns += draw(from, 8 * SECOND);
        break;
    case 6:
        each->odd_call = rank != 0; /* never all ranks */
        break;
    case 7:
        if (step->kind == STEP_END)
            plan->may_hang = true; /* no process waits for a program that has left */
        *step =
            (struct step){step == each->steps ? STEP_CRASH : STEP_LOSE, SIGSEGV, step->delay_ns};
        break;
    }
}

static void draw_ranks(struct draw *from)
{
    struct plan *plan = from->plan;
    enum ending ending = (enum ending)draw(from, ENDINGS);
    uint32_t one = (uint32_t)draw(from, plan->ranks);
    bool calm = chance(from, 40);
    plan->waits_for_one = ending == ONE_EXITS || ending == ONE_ENDING;
    if (ending == FINALIZE && plan->agree_count != 0) /* the last result of all */
        memset(plan->agrees[plan->agree_count - 1].members, 0xff, aqi_boot_set_bytes(plan->ranks));
    for (uint32_t i = 0; ending == FINALIZE && plan->agree_count != 0 && i < 8; i++)
        if (plan->ranks + i < aqi_boot_set_bytes(plan->ranks) * 8)
            hub_set_drop(plan->agrees[plan->agree_count - 1].members, plan->ranks + i);
    for (uint32_t i = 0; i < plan->ranks; i++)
        draw_steps(from, i, ending, one);
    for (uint32_t i = 0; !calm && i < 1 + draw(from, 3); i++) {
        uint32_t rank = (uint32_t)draw(from, plan->ranks);
        draw_oddity(from, rank);
        if (rank == one && plan->waits_for_one) plan->may_hang = true;
        if (chance(from, 30))
            plan->each[draw(from, plan->ranks)].temper = (enum temper)draw(from, 4);
    }
}

/* --- faults ----------------------------------------------------------------------------------- */

static void add_fault(struct plan *plan, enum fault_kind kind, uint32_t a, uint64_t at_ns)
{
    if (plan->fault_count == FAULTS) return;
    plan->faults[plan->fault_count++] = (struct fault){.kind = kind, .a = a, .at_ns = at_ns};
}

static void draw_losses(struct draw *from)
{
    struct plan *plan = from->plan;
    uint64_t span = chance(from, 50) ? 100 * MS : 3 * SECOND;
    uint32_t count = 1 + (uint32_t)draw(from, 3);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t agent = 1 + (uint32_t)draw(from, plan->agents - 1);
        uint64_t at = draw(from, span);
        enum fault_kind kind = (enum fault_kind)draw(from, FAULT_PARTITION + 1);
        plan->lossy = i != 0 || (kind != FAULT_RESET && kind != FAULT_CUT);
        if (kind == FAULT_DEATH && chance(from, 5)) agent = 0;
        if (kind == FAULT_PARTITION) {
            uint32_t bits = (uint32_t)draw(from, UINT32_MAX) & ~1u;
            if (chance(from, 50)) bits &= (uint32_t)draw(from, UINT32_MAX);
            add_fault(plan, kind, bits | 2, at);
            if (chance(from, 50)) add_fault(plan, FAULT_HEAL, 0, at + draw(from, 3 * SECOND));
            continue;
        }
        add_fault(plan, kind, agent, at);
        if (agent != 0 && chance(from, 30)) { /* and its parent, at the same time or soon */
            uint32_t parent = aqi_hub_parent(agent, plan->fanout);
            uint64_t later = chance(from, 50) ? 0 : draw(from, 2 * MS);
            plan->lossy = plan->lossy || parent != 0;
            if (parent != 0) add_fault(plan, kind, parent, at + later);
        }
    }
}

/* Once all ranks have joined; some rank takes so long that the job is still running. */
static void draw_outage(struct draw *from)
{
    static const uint64_t shares[] = {50, 100, 150}; /* % of the time that a host may be silent */
    struct plan *plan = from->plan;
    uint64_t at = 300 * MS, share = draw(from, 2 * AQI_COUNT_OF(shares));
    struct plan_rank *slow = &plan->each[draw(from, plan->ranks)];
    for (uint32_t i = 0; i < plan->agents; i++) {
        if (plan->starts_ns[i] == UINT64_MAX) return;
        at = aqi_max(at, plan->starts_ns[i] + 300 * MS);
    }
    at += draw(from, 500 * MS);
    slow->steps[draw(from, slow->count)].delay_ns += at + draw(from, 3 * SECOND);
    add_fault(plan, FAULT_OUTAGE, ((uint32_t)draw(from, UINT32_MAX) & ~1u) | 2, at);
    struct fault *fault = &plan->faults[plan->fault_count - 1];
    fault->for_ns =
        share < AQI_COUNT_OF(shares) ? HOST_NS * shares[share] / 100 : draw(from, HOST_NS * 3 / 2);
    if (!chance(from, 20)) return;
    fault->for_ns = UINT64_MAX;
    plan->lossy = true;
    plan->outage_ns = at;
}

static void draw_faults(struct draw *from)
{
    struct plan *plan = from->plan;
    if (plan->agents > 1 && chance(from, 15))
        draw_outage(from);
    else if (plan->agents > 1 && chance(from, 60))
        draw_losses(from);
    if (chance(from, 12)) {
        uint64_t at = draw(from, chance(from, 50) ? 50 * MS : SECOND);
        add_fault(plan, FAULT_SIGNAL, SIGINT, at);
        if (chance(from, 40)) add_fault(plan, FAULT_SIGNAL, SIGINT, at + draw(from, SECOND));
    }
    if (chance(from, 30)) {
        uint64_t at = draw(from, 100 * MS);
        add_fault(plan, FAULT_PAUSE, 0, at);
        add_fault(plan, FAULT_RELEASE, 0, at + draw(from, 500 * MS));
    }
    if (plan->fault_count == FAULTS) plan->fault_count--; /* a pause always ends */
    if (plan->fault_count == FAULTS - 1) add_fault(plan, FAULT_RELEASE, 0, SECOND);
    if (plan->lossy && plan->waits_for_one) plan->may_hang = true;
}

void plan_draw(struct plan *plan, uint64_t seed, uint32_t agents, uint32_t ranks)
{
    struct draw from = {.plan = plan, .state = mix(seed)};
    uint64_t size = draw(&from, 10);
    if (agents == 0)
        agents = size < 2 ? 1 : 2 + (uint32_t)draw(&from, size < 6 ? 4 : size < 9 ? 10 : 40);
    if (ranks == 0) ranks = 1 + (uint32_t)draw(&from, size < 8 ? 12 : 60);
    plan_open(plan, agents, ranks, 1 + (uint32_t)draw(&from, size % 2 == 0 ? 3 : 16));
    plan->survive = chance(&from, 50);
    plan->timeout_ns = chance(&from, 5) ? 300 * MS + draw(&from, 6 * SECOND) : 0;
    plan->slow_links = chance(&from, 20);
    from.slow = chance(&from, 50) ? 1 : 1 + draw(&from, 20);
    plan->inputs = chance(&from, 50) ? 0 : (uint32_t)draw(&from, 100);
    plan->input_ns = draw(&from, from.slow * 10 * MS);
    draw_places(&from);
    draw_starts(&from);
    draw_calls(&from);
    draw_ranks(&from);
    draw_faults(&from);
    if (chance(&from, 3)) plan->full_host = (uint32_t)draw(&from, agents);
}
