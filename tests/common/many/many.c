/*
 * Many programs in one binary, so that the library is linked to them only once. The name of the
 * link by which the binary is started, or else the first argument, selects the program.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Some are main(void), which the C run-time also calls with arguments. */
#define PROGRAM(name, run) int run(int argc, char **argv);
#include "programs.h"
#undef PROGRAM

static const struct program {
    const char *name;
    int (*run)(int argc, char **argv);
} programs[] = {
#define PROGRAM(name, run) {#name, run},
#include "programs.h"
#undef PROGRAM
};

static const struct program *program_find(const char *name)
{
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
        if (strcmp(programs[i].name, name) == 0) return &programs[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const struct program *program = NULL;
    if (argc > 0) program = program_find(slash != NULL ? slash + 1 : argv[0]);
    if (program != NULL) return program->run(argc, argv);
    if (argc > 1) program = program_find(argv[1]);
    if (program != NULL) return program->run(argc - 1, argv + 1);
    fprintf(stderr, "usage: PROGRAM [ARGUMENT…], of these:\n");
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
        fprintf(stderr, "  %s\n", programs[i].name);
    return 2;
}
