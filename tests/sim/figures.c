/* The data of the picture in docs/measurements.md, as lines "picture,line,x,y": how flows that
 * begin one by one share a link, and how a process communicates with many others. figures.py draws
 * the picture. */
#include "sim.h"

#include "dgram/memory_test.h"

#include <stdlib.h>

static void figure(const char *picture, const char *line, double x, double y)
{
    printf("%s,%s,%g,%g\n", picture, line, x, y);
}

static void figures_shares(void)
{
    enum { FLOWS = 4, APART = 50, STEP_MS = 5 };
    struct sim sim;
    measure_open(&sim, FLOWS + 1, 0);
    for (unsigned ms = 0; ms < (FLOWS + 1) * APART; ms += STEP_MS) {
        uint64_t since = sim.now;
        unsigned flows = (unsigned)aqi_min(ms / APART + 1, FLOWS);
        measure_flows_of(&sim, flows, 16, 64 << 10, since + STEP_MS * SIM_MS);
        for (uint32_t id = 1; id <= flows; id++) {
            char line[32];
            snprintf(line, sizeof(line), "flow %u", id);
            figure("GB/s of four flows; ms", line, ms + STEP_MS, measure_goodput(&sim, id, since));
        }
    }
    sim_close(&sim);
}

static void figures_ask(struct sim *sim, uint32_t id)
{
    if (work_request(&sim->procs[id], 0, 8) != AQ_OK) sim_fail(sim, "no room for a request");
    proc_poll_at(&sim->procs[id], sim->now);
}

/* How many requests to process 0 have their reply, counted from operation `first` on. */
static uint32_t figures_answered(const struct sim *sim, uint32_t first)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < sim->op_count; i++)
        count += sim->ops[i]->reply && sim->ops[i]->delivered != 0;
    return count;
}

static void figures_connect(struct sim *sim, uint32_t peers)
{
    for (uint32_t id = 1; id <= peers; id++) {
        figures_ask(sim, id);
        if (id % 64 == 0) sim_until(sim, sim->now + SIM_MS);
    }
    sim_until(sim, sim->now + 50 * SIM_MS);
    if (figures_answered(sim, 0) != peers) sim_fail(sim, "not all requests are answered");
}

/* Print when the requests of `peers` are answered, after all have been cut off for `last_ms`. */
static void figures_partition(uint32_t peers, unsigned last_ms)
{
    struct sim sim;
    measure_open(&sim, peers + 1, 0);
    figures_connect(&sim, peers);
    uint32_t first = sim.op_count, answered = 0;
    sim.sides = sim_alloc((peers / 64 + 1) * sizeof(uint64_t));
    sim.sides[0] = 1;
    for (uint32_t id = 1; id <= peers; id++)
        figures_ask(&sim, id);
    sim_until(&sim, sim.now + last_ms * SIM_MS);
    free(sim.sides);
    sim.sides = NULL;
    uint64_t end = sim.now;
    char line[32];
    snprintf(line, sizeof(line), "after %u ms", last_ms);
    while (answered < peers && sim.now < end + SIM_SECOND) {
        double ms = (double)(sim.now - end) / 1e6;
        answered = figures_answered(&sim, first);
        figure("answered % after a partition; ms", line, ms, 100.0 * answered / peers);
        sim_until(&sim, sim.now + SIM_MS);
    }
    if (answered != peers) sim_fail(&sim, "not all requests are answered within a second");
    sim_close(&sim);
}

/* Each of `peers` sends its next request as soon as its previous one has been answered. */
static void figures_crowd(uint32_t peers, unsigned ms)
{
    struct sim sim;
    double sum = 0, squares = 0;
    measure_open(&sim, peers + 1, 0);
    size_t silent = dgram_peer_memory(sim.procs[0].dgram, 1), bytes = 0;
    figures_connect(&sim, peers);
    for (uint32_t id = 1; id <= peers; id++)
        bytes += dgram_peer_memory(sim.procs[0].dgram, id);
    unsigned *count = sim_alloc((peers + 1) * sizeof(*count));
    uint32_t first = sim.op_count;
    uint64_t packets = sim.packets, end = sim.now + ms * SIM_MS;
    for (uint32_t id = 1; id <= peers; id++)
        figures_ask(&sim, id);
    while (sim.now < end) {
        sim_until(&sim, sim.now + 20 * SIM_US);
        for (uint32_t i = first, known = sim.op_count; i < known; i++) {
            struct sim_op *op = sim.ops[i];
            if (!op->reply || op->delivered != 1) continue;
            op->delivered++; /* mark it as counted */
            count[op->to]++;
            figures_ask(&sim, op->to);
        }
        while (first < sim.op_count && (!sim.ops[first]->reply || sim.ops[first]->delivered > 1))
            first++;
    }
    for (uint32_t id = 1; id <= peers; id++) {
        sum += count[id];
        squares += (double)count[id] * count[id];
    }
    free(count);
    figure("bytes of a peer; peers", "never talked to", peers, (double)silent);
    figure("bytes of a peer; peers", "connected", peers, (double)bytes / peers);
    figure("packets per message; peers", "request or reply", peers,
           (double)(sim.packets - packets) / (2 * sum));
    figure("Jain's index; peers", "requests", peers, sum * sum / (peers * squares));
    figure("M requests/s; peers", "requests", peers, sum / ms / 1e3);
    sim_close(&sim);
}

int sim_figures(void)
{
    printf("picture,line,x,y\n");
    figures_shares();
    for (uint32_t peers = 10; peers <= 10000; peers *= 10)
        figures_crowd(peers, 20);
    for (unsigned ms = 1; ms <= 100; ms *= 10)
        figures_partition(10000, ms);
    return 0;
}
