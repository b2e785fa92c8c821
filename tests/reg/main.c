/*
 * Simulates registration caches, from seeds.
 *
 *     regsim --seed 17 [--count N] [--trace]
 *     regsim --file seeds.txt
 *     regsim --figures           hits and messages of some patterns, as a table
 */
#include "../common/seeds.h"
#include "regsim.h"

#include <stdlib.h>
#include <string.h>

_Noreturn void usage(void)
{
    fprintf(stderr, "usage: regsim --seed N [--count N] [--trace] | --file SEEDS | --figures\n");
    exit(2);
}

static void run_seed(uint64_t seed, bool trace, bool quiet)
{
    struct plan plan;
    struct sim sim;
    plan_draw(seed, &plan);
    run_plan(&plan, seed, trace, &sim);
    if (quiet) return;
    printf("seed %" PRIu64 ": %u processes, %" PRIu64 " transfers, %" PRIu64 " pieces, %" PRIu64
           " by message, %" PRIu64 " rode, %" PRIu64 " cut, %" PRIu64 " times unmapped\n",
           seed, plan.procs, sim.transfers, sim.pieces, sim.by_message, sim.rode, sim.cut,
           sim.unmapped);
}

static void run_quietly(const void *trace, uint64_t seed)
{
    run_seed(seed, *(const bool *)trace, true);
}

static bool run_stored(int argc, char **argv);

static const struct seeds_program program = {
    .name = "regsim", .batch = 50, .seconds = 300, .run = run_quietly, .stored = run_stored};

static bool run_stored(int argc, char **argv)
{
    static const bool silent = false;
    if (argc != 3 || strcmp(argv[1], "--seed") != 0) usage();
    return seeds_apart(&program, &silent, seeds_number(argv[2]), 1);
}

int main(int argc, char **argv)
{
    uint64_t seed = 0, count = 1;
    bool seeded = false, trace = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--figures") == 0 && argc == 2) return run_figures();
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (i + 1 == argc) {
            usage();
        } else if (strcmp(argv[i], "--file") == 0) {
            return seeds_file(&program, argv[i + 1]);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = seeds_number(argv[++i]);
            seeded = true;
        } else if (strcmp(argv[i], "--count") == 0) {
            count = seeds_number(argv[++i]);
        } else {
            usage();
        }
    }
    if (!seeded) usage();
    if (count > 1) return seeds_many(&program, &trace, seed, count);
    run_seed(seed, trace, false);
    return 0;
}
