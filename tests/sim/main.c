/*
 * Runs seeds.
 *
 *     sim --seed 17 [--count N] [--peers N] [--faults loss,burst,…|none|all] [--quota N] [--trace]
 *     sim --file seeds.txt
 *     sim --measure
 *     sim --figures
 *
 * Several seeds run each in a process of its own, so that none can harm the next; whatever goes
 * wrong, the command that repeats it is printed.
 */
#include "sim.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS_OF_A_SEED 120
#define FAILURES_MOST     10u

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: sim --seed N [--count N] [--peers N] [--faults LIST|none|all] "
                    "[--quota N] [--trace]\n       sim --file SEEDS\n       sim --measure\n       "
                    "sim --figures\nfaults:");
    for (unsigned i = 0; i < SIM_FAULT_COUNT; i++)
        fprintf(stderr, " %s", sim_fault_names[i]);
    fputc('\n', stderr);
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    if (*text == '\0' || *end != '\0') usage();
    return value;
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

/* The options of a run; what is left of the arguments is the caller's. */
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
    optind = 0; /* from the beginning */
    while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (c) {
        case 's':
            command.options.seed = number(optarg);
            command.seeded = true;
            break;
        case 'c':
            command.count = number(optarg);
            break;
        case 'p':
            command.options.peers = (uint32_t)number(optarg);
            if (command.options.peers < 2 || command.options.peers > 100000) usage();
            break;
        case 'f':
            command.options.faults = fault_bits(optarg);
            command.options.drawn = false;
            break;
        case 'q':
            command.options.quota = (unsigned)number(optarg);
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

/* In a process of its own: true if all was right. */
static bool run_apart(const struct sim_options *options)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_OF_A_SEED);
        struct sim_options quiet = *options;
        quiet.quiet = true;
        sim_run(&quiet);
        exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("sim: fork");
        exit(2);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (WIFSIGNALED(status))
        fprintf(stderr, "sim: seed %" PRIu64 " ends by signal %d (%s)%s\n", options->seed,
                WTERMSIG(status), strsignal(WTERMSIG(status)),
                WTERMSIG(status) == SIGALRM ? ": it takes too long" : "");
    fprintf(stderr, "FAILED: seed %" PRIu64 "\n", options->seed);
    return false;
}

static int run_many(const struct command *command)
{
    struct sim_options options = command->options;
    unsigned failures = 0;
    uint64_t i = 0;
    for (; i < command->count && failures < FAILURES_MOST; i++, options.seed++)
        if (!run_apart(&options)) failures++;
    printf("%" PRIu64 " seeds from %" PRIu64 ": %u failed\n", i, command->options.seed, failures);
    return failures != 0;
}

/* Each line has the options of a run; what is behind # says why it is there. */
static int run_file(const char *path)
{
    static char text[64 << 10]; /* read before any run: a child would move the file's offset */
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        return 2;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    unsigned runs = 0, failures = 0;
    for (char *next, *line = text; *line != '\0'; line = next) {
        next = line + strcspn(line, "\n");
        if (*next != '\0') *next++ = '\0';
        line[strcspn(line, "#")] = '\0';
        char *argv[32] = {"sim"}, *word = strtok(line, " ");
        int argc = 1;
        for (; word != NULL && argc < 31; word = strtok(NULL, " "))
            argv[argc++] = word;
        if (argc == 1) continue;
        struct command command = read_options(argc, argv);
        runs++;
        if (!run_apart(&command.options)) failures++;
    }
    printf("%u stored seeds: %u failed\n", runs, failures);
    return failures != 0 || runs == 0;
}

int main(int argc, char **argv)
{
    struct command command = read_options(argc, argv);
    if (command.file != NULL) return run_file(command.file);
    if (command.measure) return sim_measure();
    if (command.figures) return sim_figures();
    if (!command.seeded) usage();
    if (command.count > 1) return run_many(&command);
    sim_run(&command.options);
    return 0;
}
