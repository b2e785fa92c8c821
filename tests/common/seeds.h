/* For programs that run seeds, each batch of them in a process of its own, or runs stored in a
 * file. For each failure the command that repeats it is printed. */
#ifndef AQT_SEEDS_H
#define AQT_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

struct seeds_program {
    const char *name;
    unsigned batch;   /* seeds that one process runs, until one fails */
    unsigned seconds; /* time limit for them */
    /* Run one seed silently; if it fails, print why and end the process. */
    void (*run)(const void *options, uint64_t seed);
    /* Parse the options of a stored run, and run it by seeds_apart. */
    bool (*stored)(int argc, char **argv);
};

/* Defined by the program: print its usage, and exit. */
_Noreturn void usage(void);

/* A whole number in any base of C; calls usage() for anything else. */
uint64_t seeds_number(const char *text);

/* Run `count` seeds, beginning with `seed`, in one child process. Returns whether all of them
 * passed. */
bool seeds_apart(const struct seeds_program *program, const void *options, uint64_t seed,
                 uint64_t count);
/* Likewise in batches; the seeds of a batch that fails are repeated one by one. Returns the exit
 * code for main. */
int seeds_many(const struct seeds_program *program, const void *options, uint64_t seed,
               uint64_t count);
/* Each line of the file contains the options of a run, and after # the reason for it. */
int seeds_file(const struct seeds_program *program, const char *path);

#endif
