/*
 * A run: first the work, until all operations have begun; then the faults stop, and everything must
 * end soon; after that nothing may happen without a cause. A memory leak fails the run.
 */
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>

#define END_WITHIN  (20 * SIM_SECOND) /* after all faults */
#define CALM_WITHIN (10 * SIM_SECOND)
#define IDLE_FOR    (3 * SIM_SECOND)

static const char *sim_program = "sim";

void sim_trace(const struct sim *sim, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("%12.3f us  ", (double)(sim->now - SIM_BEGIN) / 1e3);
    vprintf(fmt, args);
    putchar('\n');
    va_end(args);
}

static void run_report(const struct sim *sim)
{
    if (sim->options.quiet) return;
    uint64_t counts[AQI_DGRAM_COUNTERS] = {0}, polls = 0, timers = 0, spurious = 0;
    for (uint32_t id = 0; id < sim->plan.peers; id++) {
        const struct sim_proc *proc = &sim->procs[id];
        polls += proc->polls;
        timers += proc->timers;
        spurious += proc->spurious;
        for (int i = 0; proc->alive && i < AQI_DGRAM_COUNTERS; i++)
            counts[i] += aqi_dgram_count(proc->dgram, (enum aqi_dgram_counter)i);
    }
    printf("  %.3f s, %" PRIu64 " events, %u operations, %" PRIu64 " packets, %" PRIu64
           " dropped; polls %" PRIu64 ", at deadlines %" PRIu64 ", needless %" PRIu64
           ", handlers waited %" PRIu64 "\n ",
           (double)(sim->now - SIM_BEGIN) / 1e9, sim->events, sim->op_count, sim->packets,
           sim->dropped, polls, timers, spurious, sim->waits);
    for (int i = 0; i < AQI_DGRAM_COUNTERS; i++)
        if (counts[i] != 0) printf(" %s %" PRIu64, aqi_dgram_counter_names[i], counts[i]);
    putchar('\n');
}

void sim_fail(const struct sim *sim, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (sim->procs != NULL) run_report(sim);
    fflush(stdout);
    fprintf(stderr, "sim: at %.3f us: ", (double)(sim->now - SIM_BEGIN) / 1e3);
    vfprintf(stderr, fmt, args);
    va_end(args);
    const struct sim_options *options = &sim->options;
    fprintf(stderr, "\nRepeat with: %s --seed %" PRIu64, sim_program, options->seed);
    if (options->peers != 0) fprintf(stderr, " --peers %u", options->peers);
    if (options->quota != 0) fprintf(stderr, " --quota %u", options->quota);
    if (!options->drawn) {
        const char *before = " --faults ";
        for (unsigned i = 0; i < SIM_FAULT_COUNT; i++) {
            if (!(options->faults >> i & 1)) continue;
            fprintf(stderr, "%s%s", before, sim_fault_names[i]);
            before = ",";
        }
        if (options->faults == 0) fprintf(stderr, " --faults none");
    }
    fputc('\n', stderr);
    exit(1);
}

void *sim_alloc(size_t size)
{
    void *memory = calloc(1, size == 0 ? 1 : size);
    if (memory == NULL) {
        fprintf(stderr, "sim: no memory\n");
        exit(2);
    }
    return memory;
}

void sim_open(struct sim *sim, const struct sim_options *options)
{
    *sim = (struct sim){.options = *options, .now = SIM_BEGIN, .give_up = SIM_NEVER};
    for (unsigned i = 0; i < SIM_STREAMS; i++)
        sim->random[i] = mix(options->seed * SIM_STREAMS + i);
}

void sim_start(struct sim *sim)
{
    const struct sim_plan *plan = &sim->plan;
    sim->core = (struct sim_link){plan->core_ns_per_kb, plan->limit, 0};
    sim->procs = sim_alloc(plan->peers * sizeof(struct sim_proc));
    for (uint32_t id = 0; id < plan->peers; id++) {
        struct sim_proc *proc = &sim->procs[id];
        proc->sim = sim;
        proc->id = id;
        proc->down = (struct sim_link){plan->ns_per_kb, plan->limit, 0};
        /* The size of the smallest socket buffers in use. */
        proc->up = proc->down;
        proc->up.limit = aqi_max(proc->up.limit, 208 * plan->ns_per_kb);
        proc_open(sim, proc);
    }
}

void sim_close(struct sim *sim)
{
    for (uint32_t id = 0; id < sim->plan.peers; id++)
        if (sim->procs[id].alive) proc_close(&sim->procs[id]);
    sim->clear = true;
    for (uint32_t id = 0; id < sim->plan.peers; id++)
        memory_check(&sim->procs[id]);
    sim->give_up = SIM_NEVER;
    while (sim_step(sim)) /* discards the packets in flight */
        ;
    for (uint32_t id = 0; id < sim->plan.peers; id++)
        memory_free(&sim->procs[id]);
    hostile_end(sim);
    work_free(sim);
    free(sim->procs);
    sim->procs = NULL;
    free(sim->heap);
    free(sim->sides);
}

/* --- the phases ----------------------------------------------------------------------------------
 */

void sim_until(struct sim *sim, uint64_t time)
{
    while (sim->heap_count > 0 && sim->heap[0].time <= time)
        sim_step(sim);
    if (sim->now < time) sim->now = time;
}

static bool run_all_begun(const struct sim *sim)
{
    for (uint32_t id = 0; id < sim->plan.peers; id++)
        if (sim->procs[id].alive && !work_done(&sim->procs[id])) return false;
    return true;
}

static bool run_nothing_pending(const struct sim *sim)
{
    return run_all_begun(sim) && work_pending(sim) == NULL;
}

/* It is alive, has never been restarted, and no operations from or to it are under way. */
static bool run_is_idle(const struct sim *sim, const struct sim_proc *proc)
{
    return proc->alive && proc->life == 0 && !work_left(sim, proc);
}

static bool run_calm(const struct sim *sim)
{
    for (uint32_t id = 0; id < sim->plan.peers; id++) {
        const struct sim_proc *proc = &sim->procs[id];
        if (!run_is_idle(sim, proc)) continue;
        if (!aqi_dgram_idle(proc->dgram) || !aqi_dgram_quiet(proc->dgram, AQI_DGRAM_ALL) ||
            !aqi_dgram_drained(proc->dgram, sim->now))
            return false;
    }
    return true;
}

static bool run_phase(struct sim *sim, bool (*over)(const struct sim *), uint64_t within)
{
    uint64_t end = sim->now + within;
    for (uint64_t step = 100 * SIM_US; !over(sim); step = step < 20 * SIM_MS ? 2 * step : step) {
        if (sim->now >= end) return false;
        sim_until(sim, sim->now + step);
    }
    return true;
}

static void run_print_active(const struct sim *sim)
{
    for (uint32_t id = 0; id < sim->plan.peers; id++) {
        const struct sim_proc *proc = &sim->procs[id];
        if (!proc->alive || work_left(sim, proc)) continue;
        fprintf(stderr, "  process %u: idle %d, quiet %d, drained %d\n", id,
                aqi_dgram_idle(proc->dgram), aqi_dgram_quiet(proc->dgram, AQI_DGRAM_ALL),
                aqi_dgram_drained(proc->dgram, sim->now));
    }
}

/* Nothing is under way, so a process that sends now, or wakes up, does so needlessly. A process
 * that declares a dead peer lost only now was not idle. */
static void run_idle(struct sim *sim)
{
    const struct sim_plan *plan = &sim->plan;
    uint64_t *timers = sim_alloc(plan->peers * sizeof(uint64_t));
    sim_until(sim, sim->now + SIM_SECOND); /* late packets are still answered */
    uint64_t packets = sim->packets, links = 0;
    for (uint32_t id = 0; id < plan->peers; id++)
        timers[id] = run_is_idle(sim, &sim->procs[id]) ? sim->procs[id].timers : UINT64_MAX;
    sim_until(sim, sim->now + IDLE_FOR);
    for (uint32_t id = 0; id < plan->peers; id++) {
        const struct sim_proc *proc = &sim->procs[id];
        if (timers[id] == UINT64_MAX || !run_is_idle(sim, proc)) continue;
        links += plan->peers;
        SIM_REQUIRE(sim, proc->timers - timers[id] <= 64 + 16 * plan->peers,
                    "process %u is idle, but its deadline came %" PRIu64 " times in %d s", id,
                    proc->timers - timers[id], (int)(IDLE_FOR / SIM_SECOND));
    }
    free(timers);
    bool all = true; /* are idle */
    for (uint32_t id = 0; id < plan->peers; id++)
        all = all && sim->procs[id].alive && sim->procs[id].life == 0;
    SIM_REQUIRE(sim, !all || sim->packets - packets <= 16 * links,
                "all are idle, but %" PRIu64 " packets were sent", sim->packets - packets);
}

/* All operations must have begun, and end soon. */
static void run_to_the_end(struct sim *sim)
{
    char text[128];
    SIM_REQUIRE(sim, run_phase(sim, run_all_begun, END_WITHIN), "not all operations can begin");
    if (!run_phase(sim, run_nothing_pending, END_WITHIN))
        sim_fail(sim, "%s has not ended %d s after all faults",
                 work_name(work_pending(sim), text, sizeof(text)), (int)(END_WITHIN / SIM_SECOND));
    if (!run_phase(sim, run_calm, CALM_WITHIN)) {
        run_print_active(sim);
        sim_fail(sim, "everything has ended, but not all processes are idle, quiet and drained");
    }
}

static void run_phases(struct sim *sim)
{
    uint64_t horizon = sim->now + sim->plan.horizon;
    net_faults(sim);
    proc_faults(sim);
    hostile_begin(sim);
    run_phase(sim, run_all_begun, END_WITHIN + sim->plan.horizon);
    if (sim->now < horizon) sim_until(sim, horizon);
    SIM_TRACE(sim, "all faults end");
    sim->clear = true;
    run_to_the_end(sim);
    run_idle(sim);
    /* Work must be possible after a silence longer than that after which peers count as dead. */
    sim_until(sim, sim->now + 10 * SIM_SECOND);
    sim->plan.quota += 2;
    SIM_TRACE(sim, "once more");
    for (uint32_t id = 0; id < sim->plan.peers; id++)
        if (sim->procs[id].alive) proc_poll_at(&sim->procs[id], sim->now);
    run_to_the_end(sim);
    work_check_end(sim);
}

void sim_run(const struct sim_options *options)
{
    struct sim sim;
    long before = sim_allocations();
    sim_open(&sim, options);
    sim_plan(&sim);
    if (!options->quiet) sim_print_plan(&sim);
    sim_start(&sim);
    run_phases(&sim);
    run_report(&sim);
    sim_close(&sim);
    SIM_REQUIRE(&sim, sim.in_net == 0, "%zu packets are lost by the simulation", sim.in_net);
    SIM_REQUIRE(&sim, sim_allocations() == before, "%ld allocations are leaked",
                sim_allocations() - before);
}
