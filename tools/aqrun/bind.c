/*
 * Distributes ranks over the cores that aqrun itself may use: rank r is bound to the hardware
 * threads of core r, modulo the number of cores.
 */
#include "base/fail.h"
#include "base/topology.h"
#include "job.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

struct bind_thread {
    unsigned cpu;
    unsigned first; /* hardware thread that identifies its core */
    unsigned core;  /* counted from 0 */
};

static struct {
    size_t mask_bytes;
    struct bind_thread *threads;
    unsigned count, cores;
} bind;

static unsigned bind_core(const struct bind_thread *thread)
{
    for (unsigned i = 0; i < bind.count; i++)
        if (bind.threads[i].first == thread->first) return bind.threads[i].core;
    return bind.cores++;
}

void bind_open(void)
{
    unsetenv("AQ_LOCAL_CORES"); /* set if a rank of another job runs aqrun */
    if (!job.bind) return;
    cpu_set_t *mask = aqi_allowed_cpus(&bind.mask_bytes);
    if (mask == NULL)
        die("--bind core: sched_getaffinity: %s; start the job without --bind", strerror(errno));
    unsigned all = (unsigned)CPU_COUNT_S(bind.mask_bytes, mask);
    bind.threads = calloc(all, sizeof(*bind.threads));
    if (bind.threads == NULL) die("no memory for %u processors", all);
    for (unsigned cpu = 0; bind.count < all; cpu++) {
        if (!CPU_ISSET_S(cpu, bind.mask_bytes, mask)) continue;
        struct bind_thread thread = {.cpu = cpu, .first = aqi_core_of(cpu)};
        thread.core = bind_core(&thread);
        bind.threads[bind.count++] = thread;
    }
    CPU_FREE(mask);
}

static bool bind_has(uint32_t rank, const struct bind_thread *thread)
{
    return rank % bind.cores == thread->core;
}

unsigned bind_processors(void)
{
    unsigned used = 0;
    for (unsigned i = 0; i < bind.count; i++)
        used += bind.threads[i].core < job.size;
    return (unsigned)aqi_min(used, aqi_cores()); /* a CPU quota may allow less time */
}

const char *bind_text(uint32_t rank, char text[BIND_TEXT_BYTES])
{
    const char *between = " on processors ";
    text[0] = '\0';
    for (unsigned i = 0; i < bind.count; i++) {
        if (!bind_has(rank, &bind.threads[i])) continue;
        aqi_append(text, BIND_TEXT_BYTES, "%s%u", between, bind.threads[i].cpu);
        between = ",";
    }
    return text;
}

bool bind_rank(uint32_t rank)
{
    if (bind.count == 0) return true;
    cpu_set_t *mask = calloc(1, bind.mask_bytes);
    if (mask == NULL) return false;
    for (unsigned i = 0; i < bind.count; i++)
        if (bind_has(rank, &bind.threads[i])) CPU_SET_S(bind.threads[i].cpu, bind.mask_bytes, mask);
    bool bound = sched_setaffinity(0, bind.mask_bytes, mask) == 0;
    free(mask);
    return bound;
}
