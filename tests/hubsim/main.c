/*
 * Runs jobs by seed.
 *
 *     hubsim --seed 17 [--count N] [--agents N] [--ranks N] [--trace]
 *     hubsim --file seeds.txt
 *     hubsim --every [MOST]   all orders of events in small jobs
 *     hubsim --bounds         the most messages and rounds that large jobs need
 *     hubsim --figures
 *
 * Several seeds share a process at first; if one fails, the command that repeats it is printed.
 */
#include "../common/seeds.h"
#include "hubsim.h"

#include <getopt.h>
#include <stdlib.h>

_Noreturn void usage(void)
{
    fprintf(stderr, "usage: hubsim --seed N [--count N] [--agents N] [--ranks N] [--trace]\n"
                    "       hubsim --file SEEDS\n       hubsim --every [MOST]\n"
                    "       hubsim --bounds\n       hubsim --figures\n");
    exit(2);
}

struct command {
    struct options options;
    uint64_t count, most;
    const char *file;
    bool seeded, every, bounds, figures;
};

static struct command read_options(int argc, char **argv)
{
    static const struct option table[] = {{"seed", 1, NULL, 's'},    {"count", 1, NULL, 'c'},
                                          {"agents", 1, NULL, 'a'},  {"ranks", 1, NULL, 'r'},
                                          {"trace", 0, NULL, 't'},   {"file", 1, NULL, 'F'},
                                          {"every", 2, NULL, 'e'},   {"bounds", 0, NULL, 'b'},
                                          {"figures", 0, NULL, 'g'}, {NULL, 0, NULL, 0}};
    struct command command = {.count = 1};
    int c;
    optind = 0; /* from the beginning */
    while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (c) {
        case 's':
            command.options.seed = seeds_number(optarg);
            command.seeded = true;
            break;
        case 'c':
            command.count = seeds_number(optarg);
            break;
        case 'a':
            command.options.agents = (uint32_t)seeds_number(optarg);
            break;
        case 'r':
            command.options.ranks = (uint32_t)seeds_number(optarg);
            if (command.options.ranks > 500) usage();
            break;
        case 't':
            command.options.trace = true;
            break;
        case 'F':
            command.file = optarg;
            break;
        case 'e':
            command.every = true;
            command.most = optarg != NULL ? seeds_number(optarg) : 0;
            break;
        case 'b':
            command.bounds = true;
            break;
        case 'g':
            command.figures = true;
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
    struct options quiet = *(const struct options *)options;
    quiet.seed = seed;
    quiet.quiet = true;
    run_seed(&quiet);
}

static bool run_stored(int argc, char **argv);

static const struct seeds_program program = {
    .name = "hubsim", .batch = 50, .seconds = 300, .run = run_quietly, .stored = run_stored};

static bool run_stored(int argc, char **argv)
{
    struct command command = read_options(argc, argv);
    return seeds_apart(&program, &command.options, command.options.seed, 1);
}

int main(int argc, char **argv)
{
    struct command command = read_options(argc, argv);
    if (command.file != NULL) return seeds_file(&program, command.file);
    if (command.every) return run_every(command.most);
    if (command.bounds) return run_bounds();
    if (command.figures) return run_figures();
    if (!command.seeded) usage();
    if (command.count > 1)
        return seeds_many(&program, &command.options, command.options.seed, command.count);
    run_seed(&command.options);
    return 0;
}
