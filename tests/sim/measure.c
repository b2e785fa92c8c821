/* Figures instead of faults: the cost of a peer, packets per message, shares of a link, and the
 * cost of loss. Time is virtual and processors cost nothing, so that only the protocol is
 * measured. */
#include "sim.h"

#include "dgram/memory_test.h"

#include <stdlib.h>

#define LINK_GBIT 10
#define STEP      (20 * SIM_US)

void measure_open(struct sim *sim, uint32_t peers, uint32_t loss)
{
    const struct sim_options options = {.seed = 1};
    sim_open(sim, &options);
    struct sim_plan *plan = &sim->plan;
    aqi_dgram_defaults(&plan->config);
    plan->config.packet = 8944;
    plan->config.idle_close = 0;
    plan->peers = peers;
    plan->shape = SIM_TO_ONE;
    plan->room = plan->config.room;
    plan->delay = 25 * SIM_US;
    plan->ns_per_kb = 8192 / LINK_GBIT;
    plan->limit = SIM_MS;
    plan->poll_max = SIM_US;
    plan->spin = plan->plain = true;
    plan->loss = loss;
    sim->options.quiet = true;
    sim_start(sim);
}

double measure_goodput(const struct sim *sim, uint32_t from, uint64_t since)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < sim->op_count; i++) {
        const struct sim_op *op = sim->ops[i];
        if (op->from == from && op->remote_done && op->done_at >= since) bytes += op->len;
    }
    return (double)bytes / (double)(sim->now - since);
}

void measure_load(struct sim *sim, const struct sim_load *load, uint64_t end)
{
    unsigned *flying = sim_alloc(sim->plan.peers * sizeof(*flying));
    uint32_t first = 0;
    for (uint32_t i = 0; i < sim->op_count; i++)
        if (sim->ops[i]->remote != NULL) flying[sim->ops[i]->from]++;
    while (sim->now < end) {
        for (uint32_t i = first; i < sim->op_count; i++) {
            struct sim_op *op = sim->ops[i];
            if (!op->remote_done || op->remote == NULL) continue;
            memory_drop(&sim->procs[op->to], op->remote);
            if (op->dst != NULL) memory_drop(&sim->procs[op->from], op->dst);
            op->remote = op->dst = NULL;
            flying[op->from]--;
        }
        while (first < sim->op_count && sim->ops[first]->remote == NULL)
            first++;
        for (uint32_t id = 1; id <= load->flows; id++)
            while (flying[id] < load->depth &&
                   load->begin(&sim->procs[id], 0, load->len) == AQ_OK) {
                flying[id]++;
                proc_poll_at(&sim->procs[id], sim->now);
            }
        sim_until(sim, sim->now + STEP);
    }
    free(flying);
}

void measure_flows_of(struct sim *sim, uint32_t flows, unsigned depth, size_t len, uint64_t end)
{
    const struct sim_load load = {work_put, flows, depth, len};
    measure_load(sim, &load, end);
}

static void measure_flows(struct sim *sim, unsigned depth, size_t len, uint64_t end)
{
    measure_flows_of(sim, sim->plan.peers - 1, depth, len, end);
}

static double measure_bandwidth(uint32_t loss)
{
    struct sim sim;
    measure_open(&sim, 2, loss);
    measure_flows(&sim, 16, 256 << 10, sim.now + 50 * SIM_MS);
    uint64_t since = sim.now;
    measure_flows(&sim, 16, 256 << 10, since + 300 * SIM_MS);
    double goodput = measure_goodput(&sim, 1, since);
    sim_close(&sim);
    return goodput;
}

/* Jain's index of the goodput of all flows from `since` on, and its total. */
static double measure_shares(const struct sim *sim, uint64_t since, double *total)
{
    double sum = 0, squares = 0;
    for (uint32_t id = 1; id < sim->plan.peers; id++) {
        double goodput = measure_goodput(sim, id, since);
        sum += goodput;
        squares += goodput * goodput;
    }
    *total = sum;
    return sum * sum / ((sim->plan.peers - 1) * squares);
}

/*
 * Jain's index of flows through one link, each beginning `apart` ns after the previous one. `queue`
 * is the length of the link's queue in ns.
 */
static double measure_fairness(uint32_t flows, uint64_t apart, uint64_t queue, double *total)
{
    struct sim sim;
    measure_open(&sim, flows + 1, 0);
    sim.procs[0].down.limit = queue;
    for (uint32_t id = 1; apart != 0 && id < flows; id++)
        measure_flows_of(&sim, id, 16, 64 << 10, sim.now + apart);
    measure_flows(&sim, 16, 64 << 10, sim.now + 200 * SIM_MS);
    uint64_t since = sim.now;
    measure_flows(&sim, 16, 64 << 10, since + 300 * SIM_MS);
    double jain = measure_shares(&sim, since, total);
    sim_close(&sim);
    return jain;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The round-trip time of messages of 8 bytes, in us, where a packet takes `delay` ns. */
static void measure_round_trips(uint64_t delay, uint32_t loss, double *mean, double *p99)
{
    enum { COUNT = 5000 };
    static double us[COUNT];
    struct sim sim;
    double sum = 0;
    measure_open(&sim, 2, loss);
    sim.plan.delay = delay;
    for (unsigned i = 0; i < COUNT + 10; i++) {
        uint32_t request = sim.op_count;
        if (work_request(&sim.procs[1], 0, 8) != AQ_OK) sim_fail(&sim, "no room for a request");
        proc_poll_at(&sim.procs[1], sim.now);
        while (sim.op_count < request + 2 || sim.ops[request + 1]->delivered == 0)
            if (!sim_step(&sim)) sim_fail(&sim, "no answer");
        if (i < 10) continue; /* the connection is being set up */
        us[i - 10] = (double)(sim.now - sim.ops[request]->began_at) / 1e3;
        sum += us[i - 10];
    }
    qsort(us, COUNT, sizeof(us[0]), by_value);
    *mean = sum / COUNT;
    *p99 = us[COUNT * 99 / 100];
    sim_close(&sim);
}

/* The share of packets that were duplicates. */
static double measure_repeated(const struct sim *sim)
{
    uint64_t repeated = 0, all = 0;
    for (uint32_t id = 0; id < sim->plan.peers; id++) {
        const struct aqi_dgram *dgram = sim->procs[id].dgram;
        repeated += aqi_dgram_count(dgram, AQI_DGRAM_DUPLICATES);
        all += aqi_dgram_count(dgram, AQI_DGRAM_SENT) + aqi_dgram_count(dgram, AQI_DGRAM_RESENT);
    }
    return (double)repeated / (double)all;
}

/*
 * Send messages of 8 bytes one at a time, every `answered`-th with a reply, to a process that polls
 * about every `every` ns. If `turn` is not 0, the process alternates: it polls at this interval for
 * that many messages, and then continuously for as many. Returns the share of needless packets;
 * none is lost.
 */
static double measure_needless(uint64_t every, unsigned turn, unsigned answered)
{
    enum { COUNT = 4000, CONNECTING = 10 };
    struct sim sim;
    measure_open(&sim, 2, 0);
    sim.plan.delay = 2 * SIM_US;
    struct sim_proc *to = &sim.procs[0], *from = &sim.procs[1];
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t request = sim.op_count;
        bool asks = i % answered == 0, looks = turn != 0 && i / turn % 2 != 0;
        to->every = looks || i < CONNECTING ? 0 : every;
        proc_poll_at(to, sim.now + to->every / 2 + sim_below(&sim, SIM_OF_PROC, to->every));
        if ((asks ? work_request : work_message)(from, 0, 8) != AQ_OK)
            sim_fail(&sim, "no room for a message");
        proc_poll_at(from, sim.now);
        while (asks ? sim.op_count < request + 2 || sim.ops[request + 1]->delivered == 0
                    : sim.ops[request]->delivered == 0)
            if (!sim_step(&sim)) sim_fail(&sim, "a message does not arrive");
    }
    double share = measure_repeated(&sim);
    sim_close(&sim);
    return share;
}

/*
 * The round-trip time, in us, of messages of 8 bytes from one of `flows` processes that send bulk
 * data through one link.
 */
static void measure_beside(uint32_t flows, double *mean, double *p99)
{
    enum { COUNT = 500 };
    static double us[COUNT];
    struct sim sim;
    double sum = 0;
    measure_open(&sim, flows + 1, 0);
    measure_flows(&sim, 16, 64 << 10, sim.now + 200 * SIM_MS);
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t request = sim.op_count, reply = request;
        if (work_request(&sim.procs[1], 0, 8) != AQ_OK) sim_fail(&sim, "no room for a request");
        proc_poll_at(&sim.procs[1], sim.now);
        do {
            measure_flows(&sim, 16, 64 << 10, sim.now + 100 * SIM_US);
            while (reply < sim.op_count && !sim.ops[reply]->reply)
                reply++;
        } while (reply == sim.op_count || sim.ops[reply]->delivered == 0);
        us[i] = (double)(sim.ops[reply]->done_at - sim.ops[request]->began_at) / 1e3;
        sum += us[i];
    }
    qsort(us, COUNT, sizeof(us[0]), by_value);
    *mean = sum / COUNT;
    *p99 = us[COUNT * 99 / 100];
    sim_close(&sim);
}

/* The time in ms, after an outage of `last` ns, until 0.9 of the previous goodput is reached. */
static double measure_recovery(uint64_t last)
{
    struct sim sim;
    measure_open(&sim, 2, 0);
    measure_flows(&sim, 16, 64 << 10, sim.now + 50 * SIM_MS);
    uint64_t since = sim.now;
    measure_flows(&sim, 16, 64 << 10, since + 50 * SIM_MS);
    double before = measure_goodput(&sim, 1, since);
    sim.sides = sim_alloc(sizeof(uint64_t));
    sim.sides[0] = 1;
    measure_flows(&sim, 16, 64 << 10, sim.now + last);
    free(sim.sides);
    sim.sides = NULL;
    uint64_t end = sim.now, ms = sim.now;
    do {
        ms = sim.now;
        measure_flows(&sim, 16, 64 << 10, ms + SIM_MS);
    } while (measure_goodput(&sim, 1, ms) < 0.9 * before && sim.now < end + SIM_SECOND);
    double recovery = (double)(ms - end) / 1e6;
    sim_close(&sim);
    return recovery;
}

/* Traffic with process 0, which first polls continuously, and then computes and polls about every
 * `every` ns. Returns Jain's index; `*share` is the share that was achieved of what the link can
 * carry and the receiver has room for between polls, and `*repeated` that of duplicates. `loss` is
 * as in measure_open. */
static double measure_rare(const struct sim_load *load, uint64_t every, uint32_t loss,
                           double *share, double *repeated)
{
    struct sim sim;
    measure_open(&sim, load->flows + 1, loss);
    size_t room = sim.plan.room;
    uint64_t last = aqi_max(100 * SIM_MS, 20 * every);
    measure_load(&sim, load, sim.now + 20 * SIM_MS);
    sim.procs[0].every = every;
    measure_load(&sim, load, sim.now + last);
    uint64_t since = sim.now;
    double total, jain;
    measure_load(&sim, load, since + 2 * last);
    jain = measure_shares(&sim, since, &total);
    double room_rate = (double)room / (double)every, link = LINK_GBIT / 8.0;
    *share = total / (room_rate < link ? room_rate : link);
    *repeated = measure_repeated(&sim);
    sim_close(&sim);
    return jain;
}

/* Packets of both sides per message, for `count` messages, sent `together` at a time. */
static double measure_per_message(unsigned count, unsigned together)
{
    struct sim sim;
    measure_open(&sim, 2, 0);
    work_request(&sim.procs[1], 0, 8);
    sim_until(&sim, sim.now + 20 * SIM_MS);
    uint64_t before = sim.packets;
    for (unsigned i = 0; i < count; i += together) {
        for (unsigned j = 0; j < together; j++)
            if (work_message(&sim.procs[1], 0, 8) != AQ_OK) sim_fail(&sim, "no room");
        proc_poll_at(&sim.procs[1], sim.now);
        sim_until(&sim, sim.now + SIM_MS);
    }
    double each = (double)(sim.packets - before) / count;
    sim_close(&sim);
    return each;
}

static size_t measure_memory(uint32_t peers, size_t *silent)
{
    struct sim sim;
    measure_open(&sim, peers + 1, 0);
    *silent = dgram_peer_memory(sim.procs[0].dgram, 1);
    for (uint32_t id = 1; id <= peers; id++) {
        if (work_message(&sim.procs[id], 0, 8) != AQ_OK) sim_fail(&sim, "no room");
        proc_poll_at(&sim.procs[id], sim.now);
        if (id % 64 == 0) sim_until(&sim, sim.now + SIM_MS);
    }
    sim_until(&sim, sim.now + 20 * SIM_MS);
    size_t bytes = 0;
    for (uint32_t id = 1; id <= peers; id++) {
        struct aqi_dgram_peer_info info;
        if (!aqi_dgram_peer_info(sim.procs[0].dgram, id, &info) || !info.connected)
            sim_fail(&sim, "peer %u is not connected", id);
        bytes += dgram_peer_memory(sim.procs[0].dgram, id);
    }
    sim_close(&sim);
    return bytes / peers;
}

/* goals that were missed */
static unsigned missed;

static void goal(bool reached, const char *what)
{
    if (reached) return;
    fprintf(stderr, "sim: missed: %s\n", what);
    missed++;
}

static const uint32_t losses[] = {0, 10000, 50000};

static void report_loss(void)
{
    double goodput[3];
    printf("| | no loss | 1 %% | 5 %% |\n|---|---|---|---|\n| puts, GB/s (share) |");
    for (unsigned i = 0; i < 3; i++) {
        goodput[i] = measure_bandwidth(losses[i]);
        printf(" %.2f (%.2f) |", goodput[i], goodput[i] / goodput[0]);
    }
    goal(goodput[1] >= 0.7 * goodput[0], "0.7 of the bandwidth at 1 % loss");
    goal(goodput[2] >= 0.4 * goodput[0], "0.4 of the bandwidth at 5 % loss");
}

/* Nothing follows a lost message that would reveal the loss. */
static void report_tails(void)
{
    static const uint64_t delays[] = {2 * SIM_US, 25 * SIM_US, 500 * SIM_US};
    for (unsigned d = 0; d < AQI_COUNT_OF(delays); d++) {
        double mean[3], p99[3];
        printf("\n| 8 bytes and the answer, mean / p99, us |");
        for (unsigned i = 0; i < 3; i++) {
            measure_round_trips(delays[d], losses[i], &mean[i], &p99[i]);
            printf(" %.1f / %.1f |", mean[i], p99[i]);
        }
        goal(mean[1] <= 1.2 * mean[0], "a mean round trip 1.2 times as long at 1 % loss");
        goal(mean[2] <= 2 * mean[0], "a mean round trip twice as long at 5 % loss");
        goal(p99[1] <= 40 || p99[1] <= 3.2 * p99[0],
             "99 of 100 replies within 40 us, or 3.2 round trips, at 1 % loss");
    }
    printf("\n");
}

static void report_needless(void)
{
    static const uint64_t every[] = {20 * SIM_US, 100 * SIM_US, SIM_MS, 5 * SIM_MS, 20 * SIM_MS};
    static const struct {
        unsigned turn, answered;
    } kinds[] = {{0, 1}, {0, 3}, {64, 1}, {64, 3}, {8, 1}, {1, 1}};
    printf("\n| polls about every | needless packets if every message is answered | every third | "
           "polls constantly for 64 in turn, every one answered | every third | for 8 | for 1 |"
           "\n|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < AQI_COUNT_OF(every); i++) {
        printf("| %.2f ms |", (double)every[i] / 1e6);
        for (unsigned k = 0; k < AQI_COUNT_OF(kinds); k++) {
            double share = measure_needless(every[i], kinds[k].turn, kinds[k].answered);
            printf(" %.3f |", share);
            goal(share <= 0.03, "at most 0.03 of packets needless where a receiver computes");
        }
        printf("\n");
    }
}

static void report_shares(uint32_t step)
{
    printf("\n\n| flows through one link | Jain's index | begun one by one | with a short queue | "
           "GB/s | 8 bytes beside it, mean / p99, us |\n|---|---|---|---|---|---|\n");
    for (uint32_t flows = 1; flows <= 16; flows *= step) {
        double total, mean, p99, ignored, jain = measure_fairness(flows, 0, SIM_MS, &total);
        double late = measure_fairness(flows, 20 * SIM_MS, SIM_MS, &ignored);
        double lossy = measure_fairness(flows, 0, 150 * SIM_US, &ignored);
        measure_beside(flows, &mean, &p99);
        printf("| %u | %.2f | %.2f | %.2f | %.2f | %.0f / %.0f |\n", flows, jain, late, lossy,
               total, mean, p99);
        goal(jain >= 0.9 && late >= 0.9, "Jain's index of 0.9");
        goal(lossy >= 0.8, "Jain's index of 0.8 where the queue overflows");
        goal(total >= 0.93 * LINK_GBIT / 8, "0.93 of the link's bandwidth");
        goal(p99 <= 1000, "a short message within 1 ms beside bulk");
    }
}

static void report_rare(void)
{
    static const uint64_t every[] = {100 * SIM_US, SIM_MS, 5 * SIM_MS, 20 * SIM_MS};
    static const struct sim_load to_it = {work_put, 1, 64, 64 << 10},
                                 to_it_4 = {work_put, 4, 64, 64 << 10},
                                 from_it = {work_get, 1, 1000, 4 << 10},
                                 from_it_4 = {work_get, 4, 250, 4 << 10};
    printf("\n| process 0 polls every | puts to it, of what is possible: 1 flow | 4 flows, Jain's "
           "index, needless packets | 1 %% lost | gets from it: 1 flow | 4 flows, Jain's index | "
           "1 %% lost |\n|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < AQI_COUNT_OF(every); i++) {
        double one, four, lossy, jain, repeated, ignored;
        (void)measure_rare(&to_it, every[i], 0, &one, &ignored);
        jain = measure_rare(&to_it_4, every[i], 0, &four, &repeated);
        (void)measure_rare(&to_it, every[i], 10000, &lossy, &ignored);
        printf("| %.1f ms | %.2f | %.2f, %.2f, %.4f | %.2f |", (double)every[i] / 1e6, one, four,
               jain, repeated, lossy);
        goal(one >= 0.7 && four >= 0.7, "0.7 of what there is room for until a receiver polls");
        goal(jain >= 0.9, "Jain's index of 0.9 at a receiver that polls rarely");
        goal(repeated <= 0.01, "at most 0.01 of bulk packets needless where a receiver computes");
        goal(lossy >= 0.4, "0.4 at 1 % loss to a receiver that polls rarely");
        (void)measure_rare(&from_it, every[i], 0, &one, &ignored);
        jain = measure_rare(&from_it_4, every[i], 0, &four, &ignored);
        (void)measure_rare(&from_it, every[i], 10000, &lossy, &ignored);
        printf(" %.2f | %.2f, %.2f | %.2f |\n", one, four, jain, lossy);
        goal(one >= 0.7 && four >= 0.7, "0.7 of what there is room for until a sender polls");
        goal(jain >= 0.9, "Jain's index of 0.9 of gets from a sender that polls rarely");
        goal(lossy >= 0.4, "0.4 at 1 % loss from a sender that polls rarely");
    }
}

int sim_measure(void)
{
    printf("Link %d Gbit/s, round trip 50 us, packets of 8944 bytes.\n\n", LINK_GBIT);
    report_loss();
    report_tails();
    report_shares(4);
    report_rare();
    report_needless();
    printf("\n| | |\n|---|---|\n");
    printf("| packets per message of 8 bytes, one by one | %.2f |\n", measure_per_message(1000, 1));
    printf("| the same, 100 at once | %.2f |\n", measure_per_message(10000, 100));
    double one = measure_recovery(SIM_MS), ten = measure_recovery(10 * SIM_MS);
    printf("| recovery from 1 ms without the link | %.0f ms |\n| from 10 ms | %.0f ms |\n", one,
           ten);
    goal(one <= 5 && ten <= 20, "recovery within 5 and 20 ms");
    size_t silent, bytes = measure_memory(10000, &silent);
    printf("| a connected peer of 10,000 | %zu bytes |\n| one never talked to | %zu bytes |\n",
           bytes, silent);
    goal(bytes <= 4096 && silent <= 512, "4 KB per connected peer, 512 bytes per peer");
    return missed != 0;
}
