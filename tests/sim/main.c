/*
 * Simulates networks of datagram engines, from seeds.
 *
 *     sim --seed 17 [--count N] [--peers N] [--faults loss,burst,…|none|all] [--quota N] [--trace]
 *     sim --file seeds.txt
 *     sim --measure
 *     sim --figures
 *
 * Each seed runs in a process of its own, so that none affects the next. For each failure the
 * command that repeats it is printed.
 */
#include "../common/seeds.h"
#include "sim.h"

#include <getopt.h>
#include <stdlib.h>

_Noreturn void usage(void)
{
    fprintf(stderr, "usage: sim --seed N [--count N] [--peers N] [--faults LIST|none|all] "
                    "[--quota N] [--trace]\n       sim --file SEEDS\n       sim --measure\n       "
                    "sim --figures\nfaults:");
    for (unsigned i = 0; i < SIM_FAULT_COUNT; i++)
        fprintf(stderr, " %s", sim_fault_names[i]);
    fputc('\n', stderr);
    exit(2);
}

static uint32_t fault_bits(char *list)
{
    uint32_t bits = 0;
    if (strcmp(list, "none") == 0) return 0;
    if (strcmp(list, "all") == 0) return (1u << SIM_FAULT_COUNT) - 1;
    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
        unsigned i = 0;
        while (i < SIM_FAULT_COUNT && strcmp(name, sim_fault_names[i]) != 0)
            i++;
        if (i == SIM_FAULT_COUNT) usage();
        bits |= 1u << i;
    }
    return bits;
}

/* The options of a run; remaining arguments are left to the caller. */
struct command {
    struct sim_options options;
    uint64_t count;
    const char *file;
    bool seeded, measure, figures;
};

static struct command read_options(int argc, char **argv)
{
    static const struct option table[] = {{"seed", 1, NULL, 's'},    {"count", 1, NULL, 'c'},
                                          {"peers", 1, NULL, 'p'},   {"faults", 1, NULL, 'f'},
                                          {"quota", 1, NULL, 'q'},   {"trace", 0, NULL, 't'},
                                          {"file", 1, NULL, 'F'},    {"measure", 0, NULL, 'm'},
                                          {"figures", 0, NULL, 'g'}, {NULL, 0, NULL, 0}};
    struct command command = {.options = {.drawn = true}, .count = 1};
    int c;
    optind = 0; /* restart getopt */
    while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (c) {
        case 's':
            command.options.seed = seeds_number(optarg);
            command.seeded = true;
            break;
        case 'c':
            command.count = seeds_number(optarg);
            break;
        case 'p':
            command.options.peers = (uint32_t)seeds_number(optarg);
            if (command.options.peers < 2 || command.options.peers > 100000) usage();
            break;
        case 'f':
            command.options.faults = fault_bits(optarg);
            command.options.drawn = false;
            break;
        case 'q':
            command.options.quota = (unsigned)seeds_number(optarg);
            break;
        case 't':
            command.options.trace = true;
            break;
        case 'm':
            command.measure = true;
            break;
        case 'g':
            command.figures = true;
            break;
        case 'F':
            command.file = optarg;
            break;
        default:
            usage();
        }
    }
    if (optind != argc) usage();
    return command;
}

static void run_quietly(const void *options, uint64_t seed)
{
    struct sim_options quiet = *(const struct sim_options *)options;
    quiet.seed = seed;
    quiet.quiet = true;
    sim_run(&quiet);
}

static bool run_stored(int argc, char **argv);

/* One seed per process, since a run may leave objects behind. */
static const struct seeds_program program = {
    .name = "sim", .batch = 1, .seconds = 120, .run = run_quietly, .stored = run_stored};

static bool run_stored(int argc, char **argv)
{
    struct command command = read_options(argc, argv);
    return seeds_apart(&program, &command.options, command.options.seed, 1);
}

int main(int argc, char **argv)
{
    struct command command = read_options(argc, argv);
    if (command.file != NULL) return seeds_file(&program, command.file);
    if (command.measure) return sim_measure();
    if (command.figures) return sim_figures();
    if (!command.seeded) usage();
    if (command.count > 1)
        return seeds_many(&program, &command.options, command.options.seed, command.count);
    sim_run(&command.options);
    return 0;
}
