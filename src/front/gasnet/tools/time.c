/*
 * Time for gasnet_tools.h. Ticks are those of the time stamp counter if both processor and kernel
 * consider it reliable. Its rate is computed from two readings of both clocks, one when the
 * library is loaded and one at the first conversion. It never changes afterwards, so that the
 * difference of two converted readings is the time between them.
 */
#include "tools.h"

#include <pthread.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum {
    TIME_SHORTEST_NS = 5000000, /* readings are accurate to 20 ns: this yields 10 ppm */
    TIME_READINGS = 16,
    TIME_PROBES = 1000
};

int aqg_ticks_native;
int aqg_fence_line; /* for clients that use the thread sanitizer */

static pthread_once_t time_once = PTHREAD_ONCE_INIT;
static uint64_t time_ticks0, time_ns0; /* the first reading */
static double time_ns_per_tick;
static double time_granularity_us, time_overhead_us;

static uint64_t time_ns_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t time_ns(void)
{
    return time_ns_of(CLOCK_MONOTONIC);
}

static uint64_t time_counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return time_ns();
#endif
}

/* Whether the processor says that it is invariant, and the kernel has not found it unstable. */
static int time_counter_usable(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || (d & 0x100u) == 0) return 0;
    char source[64] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (file == NULL) return 0;
    if (fgets(source, sizeof(source), file) == NULL) source[0] = '\0';
    fclose(file);
    return strstr(source, "tsc") != NULL || strstr(source, "kvm-clock") != NULL;
#else
    return 0;
#endif
}

/*
 * Read both clocks as simultaneously as possible: use the closest of several pairs of readings,
 * since the thread may be interrupted.
 */
static void time_read_both(uint64_t *ticks, uint64_t *ns)
{
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < TIME_READINGS; i++) {
        uint64_t before = time_counter(), now = time_ns();
        uint64_t width = time_counter() - before;
        if (width >= narrowest) continue;
        narrowest = width;
        *ns = now;
        *ticks = before + width / 2;
    }
}

static void time_setup(void)
{
    int native = time_counter_usable();
    time_read_both(&time_ticks0, &time_ns0);
    __atomic_store_n(&aqg_ticks_native, native, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void time_load(void)
{
    pthread_once(&time_once, time_setup);
}

uint64_t aqg_ticks_ask(void)
{
    /* constructors of other files may run first */
    pthread_once(&time_once, time_setup);
    return aqg_ticks_native ? time_counter() : time_ns();
}

static void time_measure(void)
{
    pthread_once(&time_once, time_setup);
    uint64_t ticks = 0, ns;
    time_ns_per_tick = 1.0;
    if (!aqg_ticks_native) return;
    while (ns = time_ns(), ns - time_ns0 < TIME_SHORTEST_NS)
        (void)gasnett_nsleep(TIME_SHORTEST_NS - (ns - time_ns0));
    time_read_both(&ticks, &ns);
    time_ns_per_tick = (double)(ns - time_ns0) / (double)(ticks - time_ticks0);
}

static double time_rate(void)
{
    static pthread_once_t measured = PTHREAD_ONCE_INIT;
    pthread_once(&measured, time_measure);
    return time_ns_per_tick;
}

uint64_t gasnett_ticks_to_ns(gasnett_tick_t ticks)
{
    return (uint64_t)((double)ticks * time_rate());
}

/* Measure the smallest difference of two ticks, and the cost of a reading. */
static void time_probe(void)
{
    gasnett_tick_t start = gasnett_ticks_now(), last = start, finest = GASNETT_TICK_MAX;
    for (int i = 0; i < TIME_PROBES; i++) {
        gasnett_tick_t now = gasnett_ticks_now();
        if (now > last && now - last < finest) finest = now - last;
        last = now;
    }
    double us = time_rate() / 1000;
    time_granularity_us = (double)finest * us;
    time_overhead_us = (double)(last - start) / TIME_PROBES * us;
}

static pthread_once_t time_probe_once = PTHREAD_ONCE_INIT;

double gasnett_tick_granularityus(void)
{
    pthread_once(&time_probe_once, time_probe);
    return time_granularity_us;
}

double gasnett_tick_overheadus(void)
{
    pthread_once(&time_probe_once, time_probe);
    return time_overhead_us;
}

uint64_t gasnett_gettimeofday_us(void)
{
    return time_ns_of(CLOCK_REALTIME) / 1000;
}

int gasnett_nsleep(uint64_t ns)
{
    if (ns == 0) return 0;
    struct timespec length = {
        .tv_sec = (time_t)(ns / 1000000000u),
        .tv_nsec = (long)(ns % 1000000000u),
    };
    return nanosleep(&length, NULL);
}
