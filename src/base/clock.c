/*
 * Time. Ticks are the time stamp counter where processor and kernel both trust it; its rate is
 * what passed between two readings that the program made anyway.
 */
#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

/* A longer time between the two readings makes the rate no better than 0.01 %. */
#define CLOCK_FIRM_NS 10000000u

static pthread_once_t clock_once = PTHREAD_ONCE_INIT;
static atomic_bool clock_ready;
static bool clock_counter;               /* ticks are those of the processor's counter */
static double clock_system_rate;         /* as the system tells it, or 0 */
static uint64_t clock_ticks0, clock_ns0; /* the first reading */
static _Atomic double clock_firm_rate;   /* 0 until known well */

uint64_t aqi_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)

static uint64_t clock_read_counter(void)
{
    return __rdtsc();
}

/* Invariant, by the processor's word, and not found wanting by the kernel. */
static bool clock_counter_usable(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || (d & 0x100u) == 0) return false;
    char source[64] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (file == NULL) return true;
    if (fgets(source, sizeof(source), file) == NULL) source[0] = '\0';
    fclose(file);
    return strstr(source, "tsc") != NULL || strstr(source, "kvm-clock") != NULL;
}

/* Crystal frequency times ratio, on processors that say both. */
static double clock_counter_rate(void)
{
    unsigned denominator, numerator, hertz, d;
    if (!__get_cpuid(0x15, &denominator, &numerator, &hertz, &d)) return 0;
    if (denominator == 0 || numerator == 0 || hertz == 0) return 0;
    return (double)hertz * numerator / denominator / 1e9;
}

#elif defined(__aarch64__)

static uint64_t clock_read_counter(void)
{
    uint64_t ticks;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

static bool clock_counter_usable(void)
{
    return true;
}

static double clock_counter_rate(void)
{
    uint64_t hertz;
    __asm__ __volatile__("mrs %0, cntfrq_el0" : "=r"(hertz));
    return (double)hertz / 1e9;
}

#else

static uint64_t clock_read_counter(void)
{
    return aqi_now_ns();
}

static bool clock_counter_usable(void)
{
    return false;
}

static double clock_counter_rate(void)
{
    return 1.0;
}

#endif

/*
 * Both clocks at one moment: the counter is read before and after, and the middle taken. Of some
 * such readings the narrowest, as the thread may lose the processor inside one.
 */
static void clock_read_both(uint64_t *ticks, uint64_t *ns)
{
    uint64_t narrowest = UINT64_MAX;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t before = clock_read_counter(), now = aqi_now_ns();
        uint64_t width = clock_read_counter() - before;
        if (width >= narrowest) continue;
        narrowest = width;
        *ns = now;
        *ticks = before + width / 2;
    }
}

static void clock_setup(void)
{
    clock_counter = clock_counter_usable();
    clock_system_rate = clock_counter ? clock_counter_rate() : 1.0;
    clock_read_both(&clock_ticks0, &clock_ns0);
    atomic_store_explicit(&clock_ready, true, memory_order_release);
}

static inline void clock_open(void)
{
    /* Reads the store in clock_setup. */
    if (AQI_UNLIKELY(!atomic_load_explicit(&clock_ready, memory_order_acquire)))
        pthread_once(&clock_once, clock_setup);
}

uint64_t aqi_ticks(void)
{
    clock_open();
    return AQI_LIKELY(clock_counter) ? clock_read_counter() : aqi_now_ns();
}

double aqi_ticks_per_ns(void)
{
    clock_open();
    if (clock_system_rate > 0) return clock_system_rate;
    double rate = atomic_load_explicit(&clock_firm_rate, memory_order_relaxed);
    if (rate > 0) return rate;

    uint64_t ticks = 0, ns = 0;
    clock_read_both(&ticks, &ns);
    if (ns == clock_ns0 || ticks == clock_ticks0) return 1.0;
    rate = (double)(ticks - clock_ticks0) / (double)(ns - clock_ns0);
    if (ns - clock_ns0 >= CLOCK_FIRM_NS)
        atomic_store_explicit(&clock_firm_rate, rate, memory_order_relaxed);
    return rate;
}
