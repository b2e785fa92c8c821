/* Small helpers for every file: branch hints, the cache line, rounding, ranges, hashes. */
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
#define AQI_NOINLINE          __attribute__((noinline)) /* for rare calls from a fast path */
#define AQI_INLINE            inline __attribute__((always_inline)) /* for fast paths */
#define AQI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
/* Keep a variable that only the error case needs out of registers. */
#define AQI_KEEP_IN_MEMORY(x) __asm__ volatile("" : : "r"(&(x)) : "memory")
/*
 * A thread-local variable of a fast path, accessed without a call even in the shared library. Use
 * sparingly: a library loaded by dlopen gets this memory from a small reserve.
 */
#define AQI_FAST_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#define AQI_COUNT_OF(array)   (sizeof(array) / sizeof((array)[0]))

/* 64 bytes on x86-64 and most arm64 processors, which may fetch lines in pairs */
#define AQI_CACHE_LINE 64

/* Hint to the processor that this is a spin loop. */
static inline void aqi_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/*
 * Prefetch the cache line of `at` for writing, which takes it from another core. Harmless if the
 * address is not mapped.
 */
static inline void aqi_prefetch_write(const void *at)
{
#if defined(__x86_64__) /* the compiler only prefetches for reading */
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

static inline size_t aqi_round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* The smallest power of two that is at least `value`. */
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

/* Whether [at, at + len) lies in [from, from + size), even if a sum overflows. */
static inline bool aqi_within(uint64_t at, uint64_t len, uint64_t from, uint64_t size)
{
    uint64_t offset = at - from;
    return len <= size && offset <= size - len;
}

/* One step of FNV-1a on a word; start with AQI_HASH_SEED. */
#define AQI_HASH_SEED 1469598103934665603u
static inline uint64_t aqi_hash(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 1099511628211u;
}

static inline uint64_t aqi_hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = aqi_hash(hash, (unsigned char)*text);
    return hash;
}

/*
 * Make each bit of a hash depend on all others. Without this, the low bits, which select a bucket,
 * depend on the low bits of the words only, and those of pointers and sizes are all the same.
 */
static inline uint64_t aqi_hash_spread(uint64_t hash)
{
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static inline size_t aqi_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t aqi_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/*
 * Whether processes with these versions of the library can be in one job. Patch versions never
 * change the protocol; before 1.0, minor versions may.
 */
static inline bool aqi_versions_fit(unsigned major, unsigned minor, unsigned other_major,
                                    unsigned other_minor)
{
    return major == other_major && (major != 0 || minor == other_minor);
}

#endif
