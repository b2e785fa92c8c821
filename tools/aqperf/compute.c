/* Computation in place of a program's own; does not call the library. */
#include "perf.h"
#include <time.h>

#define CELLS 512u

static double cells[CELLS];

/* CPU time of this thread, which excludes the time without a CPU. */
static double processor_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Relax a row of cells this many times, about a microsecond each. */
static void relax(uint64_t times)
{
    for (; times > 0; times--) {
        cells[0] = 1;
        for (unsigned i = 1; i + 1 < CELLS; i++)
            cells[i] = cells[i] / 2 + (cells[i - 1] + cells[i + 1]) / 4;
        __asm__ volatile("" ::: "memory"); /* prevents optimizing the loop away */
    }
}

/* Minimum time of one relaxation, in ns. */
static double once_ns(void)
{
    enum { TRIES = 16, TIMES = 16 };
    static double shortest;
    if (shortest > 0) return shortest;
    for (unsigned i = 0; i < TRIES; i++) {
        double begun = processor_ns();
        relax(TIMES);
        double took = (processor_ns() - begun) / TIMES;
        if (i == 0 || took < shortest) shortest = took;
    }
    return shortest;
}

/* Recheck the remaining time, since the CPU may become slower meanwhile. */
void compute_for(double ns)
{
    double once = once_ns(), end = processor_ns() + ns;
    for (double left = ns; left > once / 2; left = end - processor_ns()) {
        uint64_t times = (uint64_t)(left / once / 4);
        relax(times > 0 ? times : 1);
    }
}
