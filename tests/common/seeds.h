/* Programs that run seeds: many at a time, each in a process that can harm no other, and stored
 * ones. Whatever goes wrong, it is said how to repeat it. */
#ifndef AQT_SEEDS_H
#define AQT_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

struct seeds_program {
    const char *name;
    unsigned batch;   /* seeds that one process runs, as long as none fails */
    unsigned seconds; /* that it has for them */
    /* Run one and say nothing, unless it fails: that ends the process. */
    void (*run)(const void *options, uint64_t seed);
    /* Read the options of a stored run, and run it by seeds_apart. */
    bool (*stored)(int argc, char **argv);
};

/* Of the program: say how it is used, and end. */
_Noreturn void usage(void);

/* A whole number, in any base of C; anything else is told by usage(). */
uint64_t seeds_number(const char *text);

/* `count` seeds from `seed` on in a process of their own; true if all was right. */
bool seeds_apart(const struct seeds_program *program, const void *options, uint64_t seed,
                 uint64_t count);
/* Likewise in batches, and one by one where a batch fails. The result is for main to return. */
int seeds_many(const struct seeds_program *program, const void *options, uint64_t seed,
               uint64_t count);
/* Each line of the file has the options of a run; what is behind # says why it is there. */
int seeds_file(const struct seeds_program *program, const char *path);

#endif
