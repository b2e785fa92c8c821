/* Fences and atomics of gasnet_tools.h: inline functions that use the compiler's.
 *
 * "Weak" operations are plain accesses if there can be only one thread (AQG_THREADS 0); "strong"
 * ones are always atomic. The flags of a call are the minimum ordering required: release and
 * acquire become the memory order of the operation, everything else a fence before or after it. */
#ifndef AQG_TOOLS_ATOMIC_H
#define AQG_TOOLS_ATOMIC_H

#ifndef AQG_THREADS
#error "include gasnet_tools.h"
#endif

#define GASNETT_ATOMIC_NONE              0x00
#define GASNETT_ATOMIC_RMB_PRE           0x01
#define GASNETT_ATOMIC_WMB_PRE           0x02
#define GASNETT_ATOMIC_MB_PRE            0x07
#define GASNETT_ATOMIC_RMB_POST          0x08
#define GASNETT_ATOMIC_WMB_POST          0x10
#define GASNETT_ATOMIC_MB_POST           0x38
#define GASNETT_ATOMIC_RMB_POST_IF_TRUE  0x40
#define GASNETT_ATOMIC_RMB_POST_IF_FALSE 0x80
#define GASNETT_ATOMIC_REL               GASNETT_ATOMIC_WMB_PRE
#define GASNETT_ATOMIC_ACQ               GASNETT_ATOMIC_RMB_POST
#define GASNETT_ATOMIC_ACQ_IF_TRUE       GASNETT_ATOMIC_RMB_POST_IF_TRUE
#define GASNETT_ATOMIC_ACQ_IF_FALSE      GASNETT_ATOMIC_RMB_POST_IF_FALSE
/* The part of MB that neither RMB nor WMB includes. */
#define AQG_ATOMIC_FULL_PRE  0x04
#define AQG_ATOMIC_FULL_POST 0x20
#define AQG_ATOMIC_ACQUIRES                                                                        \
    (GASNETT_ATOMIC_RMB_POST | GASNETT_ATOMIC_RMB_POST_IF_TRUE | GASNETT_ATOMIC_RMB_POST_IF_FALSE)

#define GASNETT_HAVE_ATOMIC_CAS           1
#define GASNETT_HAVE_ATOMIC_ADD_SUB       1
#define GASNETT_HAVE_STRONGATOMIC_CAS     1
#define GASNETT_HAVE_STRONGATOMIC_ADD_SUB 1

AQG_BEGIN

/* GCC's thread sanitizer does not support fences; use a read-modify-write of a shared variable
 * instead. */
#if defined(__SANITIZE_THREAD__)
#define AQG_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define AQG_THREAD_SANITIZER 1
#endif
#endif
#ifdef AQG_THREAD_SANITIZER
extern int aqg_fence_line;
#define AQG_FENCE(order) ((void)__atomic_fetch_add(&aqg_fence_line, 1, __ATOMIC_SEQ_CST))
#else
#define AQG_FENCE(order) __atomic_thread_fence(order)
#endif

AQG_VOID_CALL(gasnett_compiler_fence, (void), __atomic_signal_fence(__ATOMIC_SEQ_CST))
/* wmb must also order earlier stores before later loads, which requires a full fence. */
AQG_VOID_CALL(gasnett_local_wmb, (void), AQG_FENCE(__ATOMIC_SEQ_CST))
AQG_VOID_CALL(gasnett_local_rmb, (void), AQG_FENCE(__ATOMIC_ACQUIRE))
AQG_VOID_CALL(gasnett_local_mb, (void), AQG_FENCE(__ATOMIC_SEQ_CST))

#if AQG_THREADS
#define gasnett_weak_wmb() gasnett_local_wmb()
#define gasnett_weak_rmb() gasnett_local_rmb()
#define gasnett_weak_mb()  gasnett_local_mb()
#else
#define gasnett_weak_wmb() gasnett_compiler_fence()
#define gasnett_weak_rmb() gasnett_compiler_fence()
#define gasnett_weak_mb()  gasnett_compiler_fence()
#endif

AQG_INLINE void gasnett_spinloop_hint(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield" ::: "memory");
#endif
    gasnett_compiler_fence();
}

#ifndef GASNETT_LITE_MODE

/* Types of exactly their size, which may alias any object of that size. */
typedef struct {
    volatile uint32_t aqg_value;
} __attribute__((__may_alias__, __aligned__(4))) gasnett_atomic32_t;
typedef struct {
    volatile uint64_t aqg_value;
} __attribute__((__may_alias__, __aligned__(8))) gasnett_atomic64_t;
typedef gasnett_atomic32_t gasnett_atomic_t;
typedef gasnett_atomic32_t gasnett_strongatomic_t;
typedef gasnett_atomic32_t gasnett_strongatomic32_t;
typedef gasnett_atomic64_t gasnett_strongatomic64_t;
typedef uint32_t gasnett_atomic_val_t;
typedef int32_t gasnett_atomic_sval_t;

#define gasnett_atomic_signed(v)  ((gasnett_atomic_sval_t)(v))
#define GASNETT_ATOMIC_MAX        ((gasnett_atomic_val_t)0xFFFFFFFFu)
#define GASNETT_ATOMIC_SIGNED_MIN ((gasnett_atomic_sval_t)(-0x7FFFFFFF - 1))
#define GASNETT_ATOMIC_SIGNED_MAX ((gasnett_atomic_sval_t)0x7FFFFFFF)

#define gasnett_atomic32_init(v)                                                                   \
    {                                                                                              \
        (uint32_t)(v)                                                                              \
    }
#define gasnett_atomic64_init(v)                                                                   \
    {                                                                                              \
        (uint64_t)(v)                                                                              \
    }
#define gasnett_atomic_init(v)         gasnett_atomic32_init(v)
#define gasnett_strongatomic_init(v)   gasnett_atomic32_init(v)
#define gasnett_strongatomic32_init(v) gasnett_atomic32_init(v)
#define gasnett_strongatomic64_init(v) gasnett_atomic64_init(v)

/* The fence that a call requires before its operation, except a release, which the operation has
 * itself. */
AQG_INLINE void aqg_atomic_before(int fence, int release)
{
    if (fence & AQG_ATOMIC_FULL_PRE)
        AQG_FENCE(__ATOMIC_SEQ_CST);
    else if (fence & (GASNETT_ATOMIC_RMB_PRE | release))
        AQG_FENCE(__ATOMIC_ACQ_REL);
}

AQG_INLINE void aqg_atomic_after(int fence, int acquire)
{
    if (fence & AQG_ATOMIC_FULL_POST)
        AQG_FENCE(__ATOMIC_SEQ_CST);
    else if (fence & (GASNETT_ATOMIC_WMB_POST | acquire))
        AQG_FENCE(__ATOMIC_ACQ_REL);
}

AQG_INLINE int aqg_atomic_order(int fence)
{
    if (fence & AQG_ATOMIC_ACQUIRES)
        return fence & GASNETT_ATOMIC_WMB_PRE ? __ATOMIC_ACQ_REL : __ATOMIC_ACQUIRE;
    return fence & GASNETT_ATOMIC_WMB_PRE ? __ATOMIC_RELEASE : __ATOMIC_RELAXED;
}

/*
 * The operations of family X, on type T with values of type V. REAL is 0 or 1, a constant: the
 * unused branches are discarded.
 */
#define AQG_ATOMIC_FAMILY(X, T, V, REAL)                                                           \
    AQG_INLINE void gasnett_##X##_set(T *p, V v, int fence)                                        \
    {                                                                                              \
        if (!(REAL)) fence = 0;                                                                    \
        aqg_atomic_before(fence, 0);                                                               \
        __atomic_store_n(&p->aqg_value, v,                                                         \
                         fence &GASNETT_ATOMIC_WMB_PRE ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);     \
        aqg_atomic_after(fence, AQG_ATOMIC_ACQUIRES);                                              \
    }                                                                                              \
    AQG_INLINE V gasnett_##X##_read(T *p, int fence)                                               \
    {                                                                                              \
        V value;                                                                                   \
        if (!(REAL)) fence = 0;                                                                    \
        aqg_atomic_before(fence, GASNETT_ATOMIC_WMB_PRE);                                          \
        value = __atomic_load_n(&p->aqg_value, fence & AQG_ATOMIC_ACQUIRES ? __ATOMIC_ACQUIRE      \
                                                                           : __ATOMIC_RELAXED);    \
        aqg_atomic_after(fence, 0);                                                                \
        return value;                                                                              \
    }                                                                                              \
    AQG_INLINE V gasnett_##X##_add(T *p, V op, int fence)                                          \
    {                                                                                              \
        V value;                                                                                   \
        if (!(REAL)) {                                                                             \
            value = (V)(p->aqg_value + op);                                                        \
            p->aqg_value = value;                                                                  \
            return value;                                                                          \
        }                                                                                          \
        aqg_atomic_before(fence, 0);                                                               \
        value = __atomic_add_fetch(&p->aqg_value, op, aqg_atomic_order(fence));                    \
        aqg_atomic_after(fence, 0);                                                                \
        return value;                                                                              \
    }                                                                                              \
    AQG_INLINE V gasnett_##X##_swap(T *p, V newv, int fence)                                       \
    {                                                                                              \
        V value;                                                                                   \
        if (!(REAL)) {                                                                             \
            value = p->aqg_value;                                                                  \
            p->aqg_value = newv;                                                                   \
            return value;                                                                          \
        }                                                                                          \
        aqg_atomic_before(fence, 0);                                                               \
        value = __atomic_exchange_n(&p->aqg_value, newv, aqg_atomic_order(fence));                 \
        aqg_atomic_after(fence, 0);                                                                \
        return value;                                                                              \
    }                                                                                              \
    AQG_INLINE int gasnett_##X##_compare_and_swap(T *p, V oldv, V newv, int fence)                 \
    {                                                                                              \
        int swapped;                                                                               \
        if (!(REAL)) {                                                                             \
            if (p->aqg_value != oldv) return 0;                                                    \
            p->aqg_value = newv;                                                                   \
            return 1;                                                                              \
        }                                                                                          \
        aqg_atomic_before(fence, 0);                                                               \
        swapped = __atomic_compare_exchange_n(                                                     \
            &p->aqg_value, &oldv, newv, 0, aqg_atomic_order(fence),                                \
            fence & AQG_ATOMIC_ACQUIRES ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED);                    \
        aqg_atomic_after(fence, 0);                                                                \
        return swapped;                                                                            \
    }                                                                                              \
    AQG_CALL(V, gasnett_##X##_subtract, (T * p, V op, int fence),                                  \
             gasnett_##X##_add(p, (V)(0 - op), fence))                                             \
    AQG_VOID_CALL(gasnett_##X##_increment, (T * p, int fence), gasnett_##X##_add(p, 1, fence))     \
    AQG_VOID_CALL(gasnett_##X##_decrement, (T * p, int fence),                                     \
                  gasnett_##X##_subtract(p, 1, fence))                                             \
    AQG_CALL(int, gasnett_##X##_decrement_and_test, (T * p, int fence),                            \
             gasnett_##X##_subtract(p, 1, fence) == 0)

AQG_ATOMIC_FAMILY(atomic, gasnett_atomic_t, gasnett_atomic_val_t, AQG_THREADS)
AQG_ATOMIC_FAMILY(atomic32, gasnett_atomic32_t, uint32_t, AQG_THREADS)
AQG_ATOMIC_FAMILY(atomic64, gasnett_atomic64_t, uint64_t, AQG_THREADS)
AQG_ATOMIC_FAMILY(strongatomic, gasnett_strongatomic_t, gasnett_atomic_val_t, 1)
AQG_ATOMIC_FAMILY(strongatomic32, gasnett_strongatomic32_t, uint32_t, 1)
AQG_ATOMIC_FAMILY(strongatomic64, gasnett_strongatomic64_t, uint64_t, 1)

#endif /* GASNETT_LITE_MODE */

AQG_END

#endif
