/* The cost of some access patterns, as a table: the figures of docs/measurements.md. */
#include "regsim.h"

#define MB (UINT64_C(1) << 20)

static const struct row {
    const char *name;
    struct plan plan;
} rows[] = {
    {"working set fits", {.pattern = PATTERN_LOOP, .loop = 1024, .most_bytes = 65536}},
    {"puts of up to 2 KB, four times what may be held",
     {.pattern = PATTERN_ANY, .most_bytes = 2048}},
    {"any address, four times what may be held", {.pattern = PATTERN_ANY, .most_bytes = 65536}},
    {"nine of ten in a tenth of that", {.pattern = PATTERN_HOT, .most_bytes = 65536}},
    {"from the beginning to the end, by 16 KB", {.pattern = PATTERN_STREAM, .most_bytes = 16384}},
    {"working set fits, one unmapping for five transfers",
     {.pattern = PATTERN_LOOP, .loop = 1024, .most_bytes = 65536, .unmaps = 20}},
};

static double percent(uint64_t part, uint64_t whole)
{
    return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void figure(const struct row *row)
{
    static struct sim sim;
    struct plan plan = row->plan;
    plan.procs = 8;
    plan.pages = plan.segment = 8192; /* 32 MB */
    plan.transfers = 4000;
    plan.at_once = 4;
    plan.delay = 20;
    plan.watched = true;
    plan.limits = (struct aqi_reg_limits){.page = PAGE,
                                          .region = 128 << 10,
                                          .main = {.bytes = 56 * MB, .regions = 448},
                                          .victim = {.bytes = 16 * MB, .regions = 128},
                                          .ride = AQI_REG_RIDE_MAX};
    run_plan(&plan, 1, false, &sim);
    const struct aqi_reg_counts *counts = &sim.counts;
    uint64_t far = counts->far_hits + counts->far_asked + counts->far_joined + counts->far_refused;
    printf("| %s | %.1f %% | %.1f %% | %.2f | %.1f %% | %.1f %% |\n", row->name,
           percent(counts->hits, counts->hits + counts->misses), percent(counts->far_hits, far),
           (double)counts->sent / (double)sim.transfers, percent(sim.rode, sim.transfers),
           percent(sim.by_message, sim.transfers));
}

int run_figures(void)
{
    puts("| pattern | found pinned here | held there | messages per transfer | sent along "
         "| by messages |\n|---|---|---|---|---|---|");
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++)
        figure(&rows[i]);
    return 0;
}
