/* Small things every file may use: branch hints, cache line, pauses, alignment. */
#ifndef AQI_BASE_H
#define AQI_BASE_H

#include <aqueduct/status.h>
#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AQI_LIKELY(x)         __builtin_expect(!!(x), 1)
#define AQI_UNLIKELY(x)       __builtin_expect(!!(x), 0)
#define AQI_COLD              __attribute__((cold, noinline))
#define AQI_NOINLINE          __attribute__((noinline)) /* for what a short path calls seldom */
#define AQI_INLINE            inline __attribute__((always_inline)) /* in a short path */
#define AQI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
/* What a short path needs only when it goes wrong is not kept in registers till then. */
#define AQI_KEEP_IN_MEMORY(x) __asm__ volatile("" : : "r"(&(x)) : "memory")
/* For a pointer or number that fast paths read: found without a call also in the shared library.
 * Little of it, for a library that is loaded late gets it from a small reserve. */
#define AQI_FAST_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#define AQI_COUNT_OF(array)   (sizeof(array) / sizeof((array)[0]))

/* x86-64 and most arm64 parts: 64 bytes; pairs of lines may be fetched together. */
#define AQI_CACHE_LINE 64

/* Tell the core that this is a spin loop. */
static inline void aqi_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Bring the cache line of `at` to this core, to be written soon; takes it from another one.
 * Harmless on memory that is not there. */
static inline void aqi_prefetch_write(const void *at)
{
#if defined(__x86_64__) /* the compiler has only a prefetch to read, for the oldest processors */
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

static inline size_t aqi_round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* The least that is not below. */
static inline size_t aqi_power_of_two_from(size_t value)
{
    size_t power = 1;
    while (power < value)
        power *= 2;
    return power;
}

static inline bool aqi_is_power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Does [at, at + len) lie in [from, from + size)? Sums that may wrap are not made. */
static inline bool aqi_within(uint64_t at, uint64_t len, uint64_t from, uint64_t size)
{
    uint64_t offset = at - from;
    return len <= size && offset <= size - len;
}

/* A step of FNV-1a by words, from AQI_HASH_SEED on. */
#define AQI_HASH_SEED 1469598103934665603u
static inline uint64_t aqi_hash(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 1099511628211u;
}

static inline size_t aqi_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t aqi_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Do these versions of the library work together in a job? Patch versions change nothing that
 * processes say to each other; before 1.0 minor ones may. */
static inline bool aqi_versions_fit(unsigned major, unsigned minor, unsigned other_major,
                                    unsigned other_minor)
{
    return major == other_major && (major != 0 || minor == other_minor);
}

#endif
