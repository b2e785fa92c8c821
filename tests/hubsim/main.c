/*
 * Runs jobs by seed.
 *
 *     hubsim --seed 17 [--count N] [--agents N] [--ranks N] [--trace]
 *     hubsim --file seeds.txt
 *     hubsim --every [MOST]   all orders of what can happen in small jobs
 *     hubsim --bounds         how many messages and rounds large jobs need at most
 *     hubsim --figures
 *
 * Several seeds run in one process at first; when one fails, it is said how to repeat it.
 */
#include "hubsim.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS_OF_A_BATCH 300
#define BATCH              50u
#define FAILURES_MOST      10u

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: hubsim --seed N [--count N] [--agents N] [--ranks N] [--trace]\n"
                    "       hubsim --file SEEDS\n       hubsim --every [MOST]\n"
                    "       hubsim --bounds\n       hubsim --figures\n");
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    if (*text == '\0' || *end != '\0') usage();
    return value;
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
            command.options.seed = number(optarg);
            command.seeded = true;
            break;
        case 'c':
            command.count = number(optarg);
            break;
        case 'a':
            command.options.agents = (uint32_t)number(optarg);
            break;
        case 'r':
            command.options.ranks = (uint32_t)number(optarg);
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
            command.most = optarg != NULL ? number(optarg) : 0;
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

/* In a process of their own; true if all was right. */
static bool run_apart(const struct options *options, uint64_t count)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_OF_A_BATCH);
        struct options quiet = *options;
        quiet.quiet = true;
        for (uint64_t i = 0; i < count; i++, quiet.seed++)
            run_seed(&quiet);
        exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("hubsim: fork");
        exit(2);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (count > 1) return false;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT)
        fprintf(stderr, "hubsim: seed %" PRIu64 " ends by signal %d (%s)\n", options->seed,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    fprintf(stderr, "FAILED: seed %" PRIu64 "\n", options->seed);
    return false;
}

/* Many together, and one by one those among which one fails. */
static int run_many(const struct command *command)
{
    struct options options = command->options;
    uint64_t end = options.seed + command->count;
    unsigned failures = 0;
    while (options.seed < end && failures < FAILURES_MOST) {
        uint64_t batch = aqi_min(end - options.seed, BATCH);
        bool right = run_apart(&options, batch);
        for (uint64_t i = 0; i < batch; i++, options.seed++)
            if (!right && !run_apart(&options, 1)) failures++;
    }
    printf("%" PRIu64 " seeds from %" PRIu64 ": %u failed\n", options.seed - command->options.seed,
           command->options.seed, failures);
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
        char *argv[32] = {"hubsim"}, *word = strtok(line, " ");
        int argc = 1;
        for (; word != NULL && argc < 31; word = strtok(NULL, " "))
            argv[argc++] = word;
        if (argc == 1) continue;
        struct command command = read_options(argc, argv);
        runs++;
        if (!run_apart(&command.options, 1)) failures++;
    }
    printf("%u stored seeds: %u failed\n", runs, failures);
    return failures != 0 || runs == 0;
}

int main(int argc, char **argv)
{
    struct command command = read_options(argc, argv);
    if (command.file != NULL) return run_file(command.file);
    if (command.every) return run_every(command.most);
    if (command.bounds) return run_bounds();
    if (command.figures) return run_figures();
    if (!command.seeded) usage();
    if (command.count > 1) return run_many(&command);
    run_seed(&command.options);
    return 0;
}
