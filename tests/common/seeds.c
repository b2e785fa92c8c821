/* Runs seeds for the simulators. */
#include "../common/seeds.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAILURES_MOST = 10 };

uint64_t seeds_number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    if (*text == '\0' || *end != '\0') usage();
    return value;
}

bool seeds_apart(const struct seeds_program *program, const void *options, uint64_t seed,
                 uint64_t count)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(program->seconds);
        for (uint64_t i = 0; i < count; i++)
            program->run(options, seed + i);
        exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        fprintf(stderr, "%s: ", program->name);
        perror("fork");
        exit(2);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (count > 1) return false;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT)
        fprintf(stderr, "%s: seed %" PRIu64 " is killed by signal %d (%s)%s\n", program->name, seed,
                WTERMSIG(status), strsignal(WTERMSIG(status)),
                WTERMSIG(status) == SIGALRM ? ": timed out" : "");
    fprintf(stderr, "FAILED: seed %" PRIu64 "\n", seed);
    return false;
}

int seeds_many(const struct seeds_program *program, const void *options, uint64_t seed,
               uint64_t count)
{
    unsigned failures = 0;
    uint64_t done = 0;
    while (done < count && failures < FAILURES_MOST) {
        uint64_t batch = count - done < program->batch ? count - done : program->batch;
        bool right = seeds_apart(program, options, seed + done, batch);
        if (!right && batch == 1) failures++;
        for (uint64_t i = 0; i < batch && batch > 1 && !right; i++)
            if (!seeds_apart(program, options, seed + done + i, 1)) failures++;
        done += batch;
    }
    printf("%" PRIu64 " seeds from %" PRIu64 ": %u failed\n", done, seed, failures);
    return failures != 0;
}

int seeds_file(const struct seeds_program *program, const char *path)
{
    static char text[64 << 10]; /* read first, as a child would move the file's offset */
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
        char *argv[32] = {(char *)(uintptr_t)program->name}, *word = strtok(line, " ");
        int argc = 1;
        for (; word != NULL && argc < 31; word = strtok(NULL, " "))
            argv[argc++] = word;
        if (argc == 1) continue;
        runs++;
        if (!program->stored(argc, argv)) failures++;
    }
    printf("%u stored seeds: %u failed\n", runs, failures);
    return failures != 0 || runs == 0;
}
