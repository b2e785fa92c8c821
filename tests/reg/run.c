/* A run: its plan drawn from the seed, its events, and the conditions at the end. */
#include "regsim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void sim_fail(const struct sim *sim, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "seed %" PRIu64 ", time %" PRIu64 ": ", sim->seed, sim->now);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\nrepeat it: regsim --seed %" PRIu64 " --trace\n", sim->seed);
    abort();
}

void sim_trace(const struct sim *sim, const char *fmt, ...)
{
    if (!sim->trace) return;
    va_list args;
    va_start(args, fmt);
    printf("%8" PRIu64 "  ", sim->now);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

uint64_t sim_any(struct sim *sim, uint64_t below)
{
    sim->random = sim->random * 6364136223846793005u + 1442695040888963407u;
    return below != 0 ? (sim->random >> 24) % below : 0;
}

static void begin(struct sim *sim)
{
    const struct plan *plan = sim->plan;
    for (uint32_t i = 0; i < plan->procs; i++) {
        struct proc *proc = &sim->procs[i];
        *proc = (struct proc){.sim = sim, .id = i, .alive = true, .left = plan->transfers};
        proc->pages = calloc(plan->pages, sizeof(*proc->pages));
        proc->transfers = calloc(plan->at_once, sizeof(*proc->transfers));
        if (proc->pages == NULL || proc->transfers == NULL) abort();
        for (uint32_t page = 0; page < plan->pages; page++)
            proc->pages[page].frame = ++sim->frame;
        struct aqi_reg_params params = {
            .limits = plan->limits, .peers = plan->procs, .cut = plan->cut, .hooks = memory_hooks};
        params.hooks.host = proc;
        REQUIRE(sim, aqi_reg_open(&params, &proc->reg) == AQ_OK, "a cache cannot be opened");
        for (uint32_t k = 0; k < plan->at_once; k++)
            (void)queue_post(sim, sim_any(sim, 100), EVENT_START, i);
    }
    for (uint32_t i = 0; i < plan->deaths; i++)
        (void)queue_post(sim, sim_any(sim, 40 * plan->transfers), EVENT_DEATH,
                         (uint32_t)sim_any(sim, plan->procs));
}

static void die(struct sim *sim, uint32_t number)
{
    struct proc *proc = &sim->procs[number];
    if (!proc->alive) return;
    proc->alive = false;
    sim_trace(sim, "process %u dies", number);
    for (uint32_t i = 0; i < sim->plan->at_once; i++) {
        const struct transfer *transfer = &proc->transfers[i];
        if (transfer->active)
            memory_busy(&sim->procs[transfer->peer], transfer->far_busy, transfer->whole, false);
    }
    for (uint32_t i = 0; i < sim->plan->procs; i++)
        if (i != number) queue_post(sim, sim_any(sim, 500), EVENT_DOWN, i)->other = number;
}

static void handle(struct sim *sim, struct event *event)
{
    struct proc *proc = &sim->procs[event->proc];
    if (!proc->alive && event->kind != EVENT_DEATH) {
        free(event->bytes);
        return;
    }
    switch (event->kind) {
    case EVENT_START:
        work_start(sim, event->proc);
        break;
    case EVENT_MESSAGE: {
        aq_status st = aqi_reg_input(proc->reg, event->other, event->bytes, event->len);
        sim_trace(sim, "process %u gets from %u: kind %u", event->proc, event->other,
                  event->bytes[0]);
        REQUIRE(sim, st == AQ_OK, "process %u refuses a message of %u: %s", event->proc,
                event->other, aq_status_name(st));
        free(event->bytes);
        break;
    }
    case EVENT_END:
        work_end(sim, event->transfer);
        break;
    case EVENT_AGAIN:
        work_again(sim, event->transfer);
        break;
    case EVENT_UNMAP:
        memory_unmap(sim, event->proc);
        break;
    case EVENT_REMAP:
        memory_remap(sim, event);
        break;
    case EVENT_PROGRESS:
        proc->progress_due = false;
        (void)aqi_reg_progress(proc->reg);
        break;
    case EVENT_DEATH:
        die(sim, event->proc);
        break;
    case EVENT_DOWN:
        aqi_reg_peer_down(proc->reg, event->other);
        break;
    }
    /* Only sometimes, because asking makes the cache look for changes. */
    if (proc->alive && sim_any(sim, 4) == 0) memory_reopen(proc);
}

static void drain(struct sim *sim)
{
    struct event event;
    while (queue_take(sim, &event))
        handle(sim, &event);
}

/* Run until no process has anything to do. */
static void quiesce(struct sim *sim)
{
    unsigned rounds = 0;
    for (bool more = true; more;) {
        REQUIRE(sim, rounds++ < 10000, "some process never finishes: is one fenced forever?");
        drain(sim);
        more = false;
        for (uint32_t i = 0; i < sim->plan->procs; i++) {
            struct proc *proc = &sim->procs[i];
            if (proc->alive && aqi_reg_progress(proc->reg)) more = true;
            if (proc->alive && aqi_reg_fenced(proc->reg)) more = true;
        }
        more = more || sim->heap_count != 0;
    }
}

static void add_counts(struct aqi_reg_counts *to, const struct aqi_reg_counts *from)
{
    to->hits += from->hits;
    to->misses += from->misses;
    to->far_hits += from->far_hits;
    to->far_asked += from->far_asked;
    to->far_joined += from->far_joined;
    to->far_refused += from->far_refused;
    to->sent += from->sent;
    to->pins += from->pins;
}

/* Check that all requests were answered, and that nothing stays pinned once all memory has
 * changed. */
static void finish(struct sim *sim)
{
    const struct plan *plan = sim->plan;
    quiesce(sim);
    for (uint32_t i = 0; i < plan->procs; i++) {
        struct proc *proc = &sim->procs[i];
        if (!proc->alive) continue;
        add_counts(&sim->counts, aqi_reg_counts(proc->reg));
        for (uint32_t k = 0; k < plan->at_once; k++)
            REQUIRE(sim, !proc->transfers[k].active, "process %u: a transfer never ends", i);
        REQUIRE(sim, proc->left == 0, "process %u stops with transfers left", i);
        const struct aqi_reg_counts *counts = aqi_reg_counts(proc->reg);
        const struct aqi_reg_limits *limits = &plan->limits;
        REQUIRE(sim,
                counts->lent.bytes <= limits->main.bytes &&
                    counts->lent.regions <= limits->main.regions,
                "lent more than the pool");
        REQUIRE(sim,
                counts->pinned.bytes - counts->lent.bytes <= limits->victim.bytes &&
                    counts->pinned.regions - counts->lent.regions <= limits->victim.regions,
                "keeps more victims than it may");
        REQUIRE(sim, counts->pinned.bytes == proc->pinned, "counts memory that is not pinned");
    }
    for (uint32_t i = 0; i < plan->procs; i++)
        if (sim->procs[i].alive) aqi_reg_invalidate(sim->procs[i].reg, 0, UINT64_MAX);
    quiesce(sim);
    for (uint32_t i = 0; i < plan->procs; i++)
        REQUIRE(sim, !sim->procs[i].alive || sim->procs[i].pinned == 0,
                "process %u keeps %" PRIu64 " bytes pinned", i, sim->procs[i].pinned);
}

void run_plan(const struct plan *plan, uint64_t seed, bool trace, struct sim *sim)
{
    *sim = (struct sim){.plan = plan, .seed = seed, .random = seed * 7919 + 1, .trace = trace};
    begin(sim);
    drain(sim);
    finish(sim);
    for (uint32_t i = 0; i < plan->procs; i++) {
        struct proc *proc = &sim->procs[i];
        aqi_reg_close(proc->reg);
        REQUIRE(sim, proc->pinned == 0, "closing leaves something pinned");
        free(proc->pages);
        free(proc->transfers);
    }
    for (size_t i = 0; i < sim->mem_count; i++)
        free(sim->mems[i]);
    free(sim->mems);
    free(sim->heap);
}

void plan_draw(uint64_t seed, struct plan *plan)
{
    struct sim dice = {.random = seed * 104729 + 17};
    uint64_t region = (uint64_t)PAGE << sim_any(&dice, 7);
    *plan = (struct plan){
        .procs = 2 + (uint32_t)sim_any(&dice, 5),
        .pages = 64 + (uint32_t)sim_any(&dice, 600),
        .transfers = 40 + (uint32_t)sim_any(&dice, 200),
        .at_once = 1 + (uint32_t)sim_any(&dice, 12),
        .most_bytes = 1 + (uint32_t)sim_any(&dice, 20 * PAGE),
        .delay = 1 + (uint32_t)sim_any(&dice, sim_any(&dice, 2) == 0 ? 20 : 500),
        .again = (uint32_t)(sim_any(&dice, 2) * sim_any(&dice, 60)),
        .unmaps = (uint32_t)(sim_any(&dice, 3) * sim_any(&dice, 40)),
        .gets = (uint32_t)sim_any(&dice, 101),
        .deaths = sim_any(&dice, 3) == 0 ? 1 + (uint32_t)sim_any(&dice, 2) : 0,
        .watched = sim_any(&dice, 3) != 0,
        .cut = sim_any(&dice, 3) == 0,
        .pattern = (enum pattern)sim_any(&dice, 4),
    };
    plan->segment = (uint32_t)sim_any(&dice, plan->pages + 1);
    plan->loop = 24 + (uint32_t)sim_any(&dice, plan->pages - 24);
    plan->limits = (struct aqi_reg_limits){
        .page = PAGE,
        .region = region,
        .main = {.bytes = region * sim_any(&dice, 1 + sim_any(&dice, 80)),
                 .regions = 4 + sim_any(&dice, 80)},
        .victim = {.bytes = region * sim_any(&dice, 1 + sim_any(&dice, 80)),
                   .regions = 1 + sim_any(&dice, 80)},
        .ride = sim_any(&dice, 2) == 0 ? 0 : (uint32_t)sim_any(&dice, AQI_REG_RIDE_MAX + 1)};
    if (sim_any(&dice, 3) == 0)
        plan->memlock = sim_any(&dice, plan->limits.main.bytes + plan->limits.victim.bytes + 1);
}
