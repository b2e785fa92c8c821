/*
 * Runs registration caches by seed.
 *
 *     regsim --seed 17 [--count N] [--trace]
 *     regsim --file seeds.txt    each line a seed; what is behind # says why it is there
 *     regsim --figures           hits and messages of some patterns, as a table
 */
#include "regsim.h"

#include "base/fail.h"

#include <stdlib.h>
#include <string.h>

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: regsim --seed N [--count N] [--trace] | --file SEEDS | --figures\n");
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end;
    if (text == NULL) usage();
    uint64_t value = strtoull(text, &end, 0);
    if (*text == '\0' || *end != '\0') usage();
    return value;
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

static int run_file(const char *path)
{
    char line[256];
    unsigned runs = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        return 2;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "# \n")] = '\0';
        if (line[0] == '\0') continue;
        run_seed(number(line), false, true);
        runs++;
    }
    fclose(file);
    printf("%u stored seeds hold\n", runs);
    return runs == 0;
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
            return run_file(argv[i + 1]);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = number(argv[++i]);
            seeded = true;
        } else if (strcmp(argv[i], "--count") == 0) {
            count = number(argv[++i]);
        } else {
            usage();
        }
    }
    if (!seeded) usage();
    for (uint64_t i = 0; i < count; i++)
        run_seed(seed + i, trace, count > 1);
    if (count > 1) printf("%" PRIu64 " seeds from %" PRIu64 " hold\n", count, seed);
    return 0;
}
