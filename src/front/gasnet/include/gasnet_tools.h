/* The GASNet tools: time, fences, atomics, locks, environment and errors, usable with or without a
 * job.
 *
 * A program that communicates includes gasnetex.h or gasnet.h first, which sets the threading mode.
 * Any other program defines GASNETT_THREAD_SAFE or GASNETT_THREAD_SINGLE, and links with
 * libgasnet_tools-par or -seq. */
#ifndef _INCLUDED_GASNET_TOOLS_H
#define _INCLUDED_GASNET_TOOLS_H 1

#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gasnet_portable_platform.h>

#include <aqg/tools_compiler.h>

/* The threading mode. */
#if defined(_INCLUDED_GASNETEX_H)
#if defined(GASNETT_LITE_MODE)
#error "GASNETT_LITE_MODE is for programs without communication: leave it out here"
#endif
#if defined(GASNET_PAR) && defined(GASNETT_THREAD_SINGLE)
#error "GASNET_PAR and GASNETT_THREAD_SINGLE contradict each other: define one of them"
#elif !defined(GASNET_PAR) && defined(GASNETT_THREAD_SAFE)
#error "GASNETT_THREAD_SAFE needs GASNET_PAR in a program that communicates"
#elif defined(GASNET_PAR)
#define AQG_TOOLS_SAFE 1
#else
#define AQG_TOOLS_SAFE 0
#endif
#else
#if defined(GASNET_SEQ) || defined(GASNET_PAR) || defined(GASNET_PARSYNC)
#error "gasnet_tools.h is included before gasnetex.h or gasnet.h: put it after them"
#endif
#if defined(GASNETT_THREAD_SAFE) + defined(GASNETT_THREAD_SINGLE) + defined(GASNETT_LITE_MODE) > 1
#error "define at most one of GASNETT_THREAD_SAFE, GASNETT_THREAD_SINGLE and GASNETT_LITE_MODE"
#elif defined(GASNETT_THREAD_SAFE)
#define AQG_TOOLS_SAFE 1
#elif defined(GASNETT_THREAD_SINGLE)
#define AQG_TOOLS_SAFE 0
#elif defined(_REENTRANT) || defined(_THREAD_SAFE) || defined(_PTHREAD_H)
#define AQG_TOOLS_SAFE 1
#else
#define AQG_TOOLS_SAFE 0
#endif
#endif

#undef GASNETT_THREAD_SAFE
#undef GASNETT_THREAD_SINGLE
#if AQG_TOOLS_SAFE
#define GASNETT_THREAD_SAFE  1
#define GASNETT_THREAD_MODEL THREAD_SAFE
#else
#define GASNETT_THREAD_SINGLE 1
#define GASNETT_THREAD_MODEL  THREAD_SINGLE
#endif

/* Whether other threads, of client or library, may access the objects of "weak" operations. */
#if AQG_TOOLS_SAFE || defined(GASNET_PARSYNC)
#define AQG_THREADS 1
#elif defined(_INCLUDED_GASNETEX_H) && GASNET_HIDDEN_AM_CONCURRENCY_LEVEL
#define AQG_THREADS 1
#else
#define AQG_THREADS 0
#endif
#if defined(GASNET_DEBUG)
#define AQG_CHECKS 1
#else
#define AQG_CHECKS 0
#endif

/* Versions and properties. */
#define GASNETT_SPEC_VERSION_MAJOR    1
#define GASNETT_SPEC_VERSION_MINOR    20
#define GASNETT_RELEASE_VERSION_MAJOR GASNET_RELEASE_VERSION_MAJOR
#define GASNETT_RELEASE_VERSION_MINOR GASNET_RELEASE_VERSION_MINOR
#define GASNETT_RELEASE_VERSION_PATCH GASNET_RELEASE_VERSION_PATCH
#define GASNETT_PAGESIZE              4096
#define GASNETT_PAGESHIFT             12
#define GASNETT_CACHE_LINE_BYTES      64
#define GASNETT_SYSTEM_TUPLE          AQG_ARCH_WORD "-linux-gnu"
#define GASNETT_CONFIGURE_ARGS        ""
#define GASNETT_SET_AFFINITY_SUPPORT  1

#define GASNETT_PTR_CONFIG                 "64bit"
#define GASNETT_TIMER_CONFIG               "timers_native"
#define GASNETT_MEMBAR_CONFIG              "membars_native"
#define GASNETT_ATOMIC_CONFIG              "atomics_native"
#define GASNETT_ATOMIC32_CONFIG            "atomic32_native"
#define GASNETT_ATOMIC64_CONFIG            "atomic64_native"
#define GASNETT_PLATFORM_COMPILER_IDSTR    PLATFORM_COMPILER_IDSTR
#define GASNETT_PLATFORM_COMPILER_FAMILYID PLATFORM_COMPILER_FAMILYID
#define GASNETT_PLATFORM_COMPILER_ID       PLATFORM_COMPILER_ID
#define GASNETT_PLATFORM_COMPILER_VERSION  PLATFORM_COMPILER_VERSION
#if AQG_CHECKS
#define GASNETT_DEBUG_CONFIG "debug"
#else
#define GASNETT_DEBUG_CONFIG "nodebug"
#endif
#define AQG_TOOLS_SPEC                                                                             \
    AQG_STRING(GASNETT_SPEC_VERSION_MAJOR)                                                         \
    "." AQG_STRING(GASNETT_SPEC_VERSION_MINOR)
#define AQG_TOOLS_OPERATIONS                                                                       \
    "," GASNETT_TIMER_CONFIG "," GASNETT_MEMBAR_CONFIG "," GASNETT_ATOMIC_CONFIG                   \
    "," GASNETT_ATOMIC32_CONFIG "," GASNETT_ATOMIC64_CONFIG
#define GASNETT_CONFIG_STRING                                                                      \
    "RELEASE=" AQG_RELEASE_STRING ",SPEC=" AQG_TOOLS_SPEC "," AQG_STRING(                          \
        GASNETT_THREAD_MODEL) "," GASNETT_PTR_CONFIG "," GASNETT_DEBUG_CONFIG                      \
                              ",notrace,nostats,nodebugmalloc,nosrclines" AQG_TOOLS_OPERATIONS

#include <aqg/tools_atomic.h>

AQG_BEGIN

/*
 * Time. Ticks are those of the processor's counter if it is reliable, otherwise nanoseconds; this
 * is decided once, when the library is loaded. No call waits for a calibration.
 */
typedef uint64_t gasnett_tick_t;
#define GASNETT_TICK_MIN ((gasnett_tick_t)0)
#define GASNETT_TICK_MAX ((gasnett_tick_t)-1)

extern int aqg_ticks_native; /* 1: use the counter; 0: call the library */
extern uint64_t aqg_ticks_ask(void);

AQG_INLINE gasnett_tick_t gasnett_ticks_now(void)
{
#if defined(__x86_64__)
    if (GASNETT_PREDICT_TRUE(__atomic_load_n(&aqg_ticks_native, __ATOMIC_RELAXED)))
        return __builtin_ia32_rdtsc();
#endif
    return aqg_ticks_ask();
}

extern uint64_t gasnett_ticks_to_ns(gasnett_tick_t ticks);
#define gasnett_ticks_to_us(ticks) (gasnett_ticks_to_ns(ticks) / 1000)
extern double gasnett_tick_granularityus(void);
extern double gasnett_tick_overheadus(void);
extern uint64_t gasnett_gettimeofday_us(void);
extern int gasnett_nsleep(uint64_t ns);

AQG_END

#ifndef GASNETT_LITE_MODE

#include <aqg/tools_process.h>
#include <aqg/tools_sync.h>

#endif

#endif
