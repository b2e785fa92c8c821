/* The choices of a seed: the number of processes, their settings, the links, the faults, the
 * work. */
#include "sim.h"

const char *const sim_fault_names[SIM_FAULT_COUNT] = {
#define X(name, text) [SIM_##name] = text,
    SIM_FAULTS(X)
#undef X
};

uint64_t sim_spread(struct sim *sim, enum sim_stream stream, uint64_t low, uint64_t high)
{
    unsigned bits = 0;
    while (bits < 63 && high / (low == 0 ? 1 : low) >> bits > 1)
        bits++;
    uint64_t top = (low == 0 ? 1 : low) << sim_below(sim, stream, bits + 1);
    if (top > high) top = high;
    uint64_t value = top + sim_below(sim, stream, top);
    return value > high ? low + sim_below(sim, stream, high - low + 1) : value;
}

static uint64_t draw(struct sim *sim, uint64_t low, uint64_t high)
{
    return sim_spread(sim, SIM_OF_PLAN, low, high);
}

static uint64_t one_of(struct sim *sim, const uint64_t *values, size_t count)
{
    return values[sim_below(sim, SIM_OF_PLAN, count)];
}
#define ONE_OF(sim, ...)                                                                           \
    one_of(sim, (const uint64_t[]){__VA_ARGS__},                                                   \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void plan_config(struct sim *sim, struct aqi_dgram_config *config)
{
    const struct sim_plan *plan = &sim->plan;
    aqi_dgram_defaults(config);
    for (unsigned i = 0; i < sizeof(config->key); i++)
        config->key[i] = (uint8_t)sim_random(sim, SIM_OF_PLAN);
    config->packet = ONE_OF(sim, 576, 1472, 1472, 4096, 8944, 8944, 32768, AQI_DGRAM_MOST_PACKET);
    config->max_message = ONE_OF(sim, 4096, 16 << 10, 65536 + 512, 65536 + 512);
    config->window = ONE_OF(sim, 64 << 10, 256 << 10, 1 << 20);
    if (config->window < 2 * config->packet) config->window = 2 * config->packet;
    config->reach = 4 * config->window;
    config->room = sim_has(sim, SIM_ROOM)
                       ? draw(sim, 2 * (config->packet + AQI_DGRAM_COST), 256 << 10)
                       : 4 << 20;
    config->pool = (uint32_t)draw(sim, 16, 1024);
    config->least = 1 + (uint32_t)sim_below(sim, SIM_OF_PLAN, 4);
    if (config->pool < config->least * plan->peers) config->pool = config->least * plan->peers;
    config->ack_delay = ONE_OF(sim, 0, 10 * SIM_US, 100 * SIM_US, SIM_MS);
    config->rto_min = ONE_OF(sim, 200 * SIM_US, SIM_MS, 5 * SIM_MS);
    config->rto_max = ONE_OF(sim, 50 * SIM_MS, 200 * SIM_MS);
    config->idle_close = ONE_OF(sim, 0, 0, 5 * SIM_MS, 50 * SIM_MS, SIM_SECOND);
    /* Far longer than pauses and partitions, so that only dead peers are lost. */
    config->dead_after = ONE_OF(sim, 0, 8 * SIM_SECOND);
    config->authenticate = sim_chance(sim, SIM_OF_PLAN, 1, 2);
}

static void plan_net(struct sim *sim, struct sim_plan *plan)
{
    plan->delay = ONE_OF(sim, 1 * SIM_US, 5 * SIM_US, 20 * SIM_US, 100 * SIM_US, SIM_MS);
    plan->jitter = ONE_OF(sim, 0, 1, SIM_US, 10 * SIM_US, 200 * SIM_US);
    /* 100, 25, 10, 1 and 0.1 Gbit/s */
    plan->ns_per_kb = ONE_OF(sim, 82, 328, 819, 8192, 81920);
    plan->limit = sim_has(sim, SIM_QUEUE) ? draw(sim, 4, 64) * plan->ns_per_kb * 2 : 5 * SIM_MS;
    /* A queue holds at least a few packets, or nothing would ever arrive. */
    uint64_t packet = plan->config.packet * plan->ns_per_kb / 1024;
    plan->limit = aqi_max(plan->limit, 3 * packet);
    if (sim_chance(sim, SIM_OF_PLAN, 1, 8)) {
        plan->core_ns_per_kb = plan->ns_per_kb;
        plan->limit = aqi_max(plan->limit, 8 * packet);
    }
    /* A peer that connects sends the largest packet, several times if it is lost: if all do that
     * at once, it must not keep a link busy until the first ones are declared lost. */
    uint64_t sent = 8 * (uint64_t)plan->peers * (plan->core_ns_per_kb != 0 ? plan->peers : 1);
    if (sent * packet > 2 * SIM_SECOND && plan->config.packet > 1472) plan->config.packet = 1472;
    plan->poll_max = ONE_OF(sim, 2 * SIM_US, 50 * SIM_US, SIM_MS, SIM_MS);
    uint32_t odds = (uint32_t)ONE_OF(sim, 1000, 10000, 50000, 200000);
    if (sim_has(sim, SIM_LOSS)) plan->loss = odds;
    odds = (uint32_t)ONE_OF(sim, 1000, 20000, 200000);
    if (sim_has(sim, SIM_REPEAT)) plan->repeat = odds;
    odds = (uint32_t)ONE_OF(sim, 1000, 20000, 300000);
    if (sim_has(sim, SIM_REORDER)) plan->reorder = odds;
    odds = (uint32_t)ONE_OF(sim, 100, 10000, 100000);
    if (sim_has(sim, SIM_ALTER)) plan->alter = odds;
    odds = (uint32_t)ONE_OF(sim, 1000, 50000, 500000);
    if (sim_has(sim, SIM_REFUSE)) plan->refuse = odds;
    plan->burst_loss = (uint32_t)ONE_OF(sim, 300000, 900000, 1000000);
    plan->burst_every = draw(sim, 2 * SIM_MS, 50 * SIM_MS);
    /* A path that loses most packets all the time is as good as dead for some peers. */
    plan->burst_last = aqi_min(draw(sim, 20 * SIM_US, 5 * SIM_MS), plan->burst_every);
    plan->room = plan->config.room;
    size_t mtu = ONE_OF(sim, AQI_DGRAM_LEAST_PACKET, 1400, 1472, 4000);
    plan->mtu = aqi_min(mtu, plan->config.packet);
    plan->late_lookup = sim_chance(sim, SIM_OF_PLAN, 1, 4);
}

static void plan_work(struct sim *sim, struct sim_plan *plan)
{
    plan->horizon = draw(sim, 5 * SIM_MS, 1000 * SIM_MS);
    /* All data together passes the slowest link within a second or so. */
    size_t bytes = plan->ns_per_kb > 10000 ? 256 << 10 : 4 << 20;
    plan->put_max = ONE_OF(sim, 256, 4096, 65536, 1 << 20);
    plan->put_max = aqi_min(plan->put_max, bytes / 4);
    plan->quota = (unsigned)draw(sim, 8, 400) * 4 / plan->peers + 4;
    plan->burst = (unsigned)ONE_OF(sim, 1, 8, 64);
    plan->rest = plan->horizon * plan->burst / plan->quota / 2 + 1;
    plan->small = (unsigned)ONE_OF(sim, 20, 80, 99);
    plan->replies = (unsigned)ONE_OF(sim, 0, 30, 100);
    plan->gets = (unsigned)ONE_OF(sim, 0, 20, 50);
    plan->puts = (unsigned)ONE_OF(sim, 0, 20, 40);
    plan->longs = (unsigned)ONE_OF(sim, 0, 10);
    plan->bad = (unsigned)ONE_OF(sim, 0, 5, 20);
    size_t most = aqi_max(plan->put_max, plan->config.max_message);
    size_t all = (size_t)plan->quota * plan->peers * (100 - plan->small) / 100 * most / 8;
    if (all > bytes) plan->quota = (unsigned)((uint64_t)plan->quota * bytes / all + 4);
}

/* Drawn last, so that the plans of the seeds with other faults do not change. */
static void plan_sizes(struct sim *sim, struct sim_plan *plan)
{
    size_t least = AQI_DGRAM_LEAST_PACKET, most = plan->config.packet;
    bool drawn = sim_chance(sim, SIM_OF_PLAN, 1, 8) && plan->faults != 0;
    if (sim->options.drawn && drawn) plan->faults |= 1u << SIM_SIZE;
    if (sim_has(sim, SIM_SIZE) || !sim->options.drawn) plan->mtu = draw(sim, least, most);
    plan->size = draw(sim, least, most);
}

/* Drawn after the sizes, for the same reason. */
static void plan_shrink(struct sim *sim, struct sim_plan *plan)
{
    bool drawn = sim_chance(sim, SIM_OF_PLAN, 1, 8);
    if (sim->options.drawn && drawn) plan->faults |= 1u << SIM_SHRINK;
    plan->shrunk = draw(sim, AQI_DGRAM_LEAST_PACKET, plan->config.packet);
    plan->shrunk_at = SIM_BEGIN + sim_below(sim, SIM_OF_PLAN, plan->horizon);
}

void sim_plan(struct sim *sim)
{
    struct sim_plan *plan = &sim->plan;
    const struct sim_options *options = &sim->options;
    plan->peers = (uint32_t)ONE_OF(sim, 2, 2, 2, 2, 3, 4, 5, 8, 16, 40);
    if (options->peers != 0) plan->peers = options->peers;
    plan->shape = (enum sim_shape)sim_below(sim, SIM_OF_PLAN, SIM_SHAPES);
    if (plan->peers == 2) plan->shape = SIM_PAIRS;
    if (plan->peers > 64 && plan->shape == SIM_ALL) plan->shape = SIM_TO_ONE;
    /* Each fault in a quarter of the runs; one run in eight has none. */
    uint64_t bits = sim_random(sim, SIM_OF_PLAN) & sim_random(sim, SIM_OF_PLAN);
    if (sim_chance(sim, SIM_OF_PLAN, 1, 8)) bits = 0;
    plan->faults = (uint32_t)bits & ((1u << SIM_SIZE) - 1);
    if (!options->drawn) plan->faults = options->faults;
    plan_config(sim, &plan->config);
    plan_net(sim, plan);
    plan_work(sim, plan);
    if (options->quota != 0) plan->quota = options->quota;
    plan_sizes(sim, plan);
    plan_shrink(sim, plan);
}

void sim_print_plan(const struct sim *sim)
{
    static const char *const shapes[SIM_SHAPES] = {"all to all", "ring", "pairs", "all to one"};
    const struct sim_plan *plan = &sim->plan;
    const struct aqi_dgram_config *config = &plan->config;
    printf("seed %" PRIu64 ": %u processes, %s, %u operations each; faults:", sim->options.seed,
           plan->peers, shapes[plan->shape], plan->quota);
    for (unsigned i = 0; i < SIM_FAULT_COUNT; i++)
        if (plan->faults >> i & 1) printf(" %s", sim_fault_names[i]);
    printf("\n  packet %zu, message %zu, put %zu, window %zu, room %zu, pool %u, least %u%s\n",
           config->packet, config->max_message, plan->put_max, config->window, plan->room,
           config->pool, config->least, config->authenticate ? ", MAC" : "");
    printf("  us: delay %.1f, jitter %.1f, poll %.0f, ack %.0f, rto %.0f..%.0f, idle %.0f, "
           "dead %.0f, horizon %.0f; %.2f Gbit/s\n",
           (double)plan->delay / 1e3, (double)plan->jitter / 1e3, (double)plan->poll_max / 1e3,
           (double)config->ack_delay / 1e3, (double)config->rto_min / 1e3,
           (double)config->rto_max / 1e3, (double)config->idle_close / 1e3,
           (double)config->dead_after / 1e3, (double)plan->horizon / 1e3,
           8192.0 / (double)plan->ns_per_kb);
}
