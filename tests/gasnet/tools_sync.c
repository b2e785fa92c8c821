/* The other calls of tools_calls: atomics and locks of gasnet_tools.h, by one thread. */
#ifdef TOOLS_WITH_GASNET
#include <gasnetex.h>
#endif
#include <gasnet_tools.h>

#include "check.h"

#include <errno.h>

GASNETT_BEGIN_EXTERNC
GASNETT_EXTERNC void tools_sync_calls(void);
GASNETT_END_EXTERNC

/* --- atomics --------------------------------------------------------------------------------- */

static const int tools_flags[] = {
    GASNETT_ATOMIC_NONE,
    GASNETT_ATOMIC_RMB_PRE,
    GASNETT_ATOMIC_WMB_PRE,
    GASNETT_ATOMIC_MB_PRE,
    GASNETT_ATOMIC_RMB_POST,
    GASNETT_ATOMIC_WMB_POST,
    GASNETT_ATOMIC_MB_POST,
    GASNETT_ATOMIC_REL,
    GASNETT_ATOMIC_ACQ,
    GASNETT_ATOMIC_REL | GASNETT_ATOMIC_ACQ,
    GASNETT_ATOMIC_MB_PRE | GASNETT_ATOMIC_MB_POST,
    GASNETT_ATOMIC_RMB_POST_IF_TRUE,
    GASNETT_ATOMIC_RMB_POST_IF_FALSE,
    GASNETT_ATOMIC_REL | GASNETT_ATOMIC_ACQ_IF_TRUE,
    GASNETT_ATOMIC_REL | GASNETT_ATOMIC_ACQ_IF_FALSE,
};
enum { TOOLS_FLAGS = sizeof(tools_flags) / sizeof(tools_flags[0]) };

/* The operations of family X on values V, each with each set of fences; arithmetic wraps. */
#define TOOLS_FAMILY(X, V)                                                                         \
    static gasnett_##X##_t tools_##X = gasnett_##X##_init(5);                                      \
    static void tools_check_##X(void)                                                              \
    {                                                                                              \
        const V top = (V) ~(V)0;                                                                   \
        CHECK(gasnett_##X##_read(&tools_##X, GASNETT_ATOMIC_NONE) == 5);                           \
        for (int i = 0; i < TOOLS_FLAGS; i++) {                                                    \
            int f = tools_flags[i];                                                                \
            gasnett_##X##_t a = gasnett_##X##_init(1);                                             \
            gasnett_##X##_set(&a, 2, f);                                                           \
            CHECK(gasnett_##X##_read(&a, f) == 2);                                                 \
            gasnett_##X##_increment(&a, f);                                                        \
            CHECK(gasnett_##X##_add(&a, 7, f) == 10);                                              \
            CHECK(gasnett_##X##_subtract(&a, 8, f) == 2);                                          \
            gasnett_##X##_decrement(&a, f);                                                        \
            CHECK(gasnett_##X##_decrement_and_test(&a, f) != 0);                                   \
            CHECK(gasnett_##X##_decrement_and_test(&a, f) == 0);                                   \
            CHECK(gasnett_##X##_read(&a, f) == top);                                               \
            CHECK(gasnett_##X##_add(&a, 3, f) == 2);                                               \
            CHECK(gasnett_##X##_subtract(&a, 3, f) == top);                                        \
            CHECK(gasnett_##X##_compare_and_swap(&a, 4, 6, f) == 0);                               \
            CHECK(gasnett_##X##_read(&a, f) == top);                                               \
            CHECK(gasnett_##X##_compare_and_swap(&a, top, 6, f) != 0);                             \
            CHECK(gasnett_##X##_swap(&a, 9, f) == 6);                                              \
            CHECK(gasnett_##X##_read(&a, f) == 9);                                                 \
        }                                                                                          \
    }
TOOLS_FAMILY(atomic, gasnett_atomic_val_t)
TOOLS_FAMILY(atomic32, uint32_t)
TOOLS_FAMILY(atomic64, uint64_t)
TOOLS_FAMILY(strongatomic, gasnett_atomic_val_t)
TOOLS_FAMILY(strongatomic32, uint32_t)
TOOLS_FAMILY(strongatomic64, uint64_t)

static void tools_atomics(void)
{
    tools_check_atomic();
    tools_check_atomic32();
    tools_check_atomic64();
    tools_check_strongatomic();
    tools_check_strongatomic32();
    tools_check_strongatomic64();
    CHECK(sizeof(gasnett_atomic32_t) == 4 && sizeof(gasnett_atomic64_t) == 8);
    CHECK(sizeof(gasnett_strongatomic32_t) == 4 && sizeof(gasnett_strongatomic64_t) == 8);
    CHECK(gasnett_atomic_signed(GASNETT_ATOMIC_MAX) == -1);
    CHECK(GASNETT_ATOMIC_SIGNED_MIN < 0 && GASNETT_ATOMIC_SIGNED_MAX > 0);
    CHECK((gasnett_atomic_val_t)(GASNETT_ATOMIC_SIGNED_MAX + GASNETT_ATOMIC_SIGNED_MIN) ==
          GASNETT_ATOMIC_MAX);

    /* Atomics may overlay other objects of their size. */
    float f = 1.0f;
    double d = 1.0;
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    CHECK(gasnett_atomic32_read((gasnett_atomic32_t *)&f, 0) == bits);
    gasnett_strongatomic32_set((gasnett_strongatomic32_t *)&f, 0, 0);
    gasnett_strongatomic64_set((gasnett_strongatomic64_t *)&d, 0, 0);
    CHECK(f <= 0.0f && d <= 0.0);
}

/* --- locks ------------------------------------------------------------------------------------ */

static void tools_locks(void)
{
    static struct {
        gasnett_mutex_t mutex;
        gasnett_cond_t cond;
        gasnett_rwlock_t rwlock;
    } table[2] = {
        {GASNETT_MUTEX_INITIALIZER, GASNETT_COND_INITIALIZER, GASNETT_RWLOCK_INITIALIZER},
        {GASNETT_MUTEX_INITIALIZER, GASNETT_COND_INITIALIZER, GASNETT_RWLOCK_INITIALIZER}};
    gasnett_mutex_t m;
    gasnett_cond_t c;
    gasnett_rwlock_t l;
    gasnett_mutex_init(&m);
    gasnett_cond_init(&c);
    gasnett_rwlock_init(&l);

    gasnett_mutex_assertunlocked(&m);
    gasnett_mutex_lock(&m);
    gasnett_mutex_assertlocked(&m);
    CHECK(gasnett_mutex_trylock(&m) == EBUSY);
    gasnett_cond_signal(&c);
    gasnett_cond_broadcast(&c);
    gasnett_mutex_unlock(&m);
    CHECK(gasnett_mutex_trylock(&m) == 0);
    gasnett_mutex_unlock(&m);
    gasnett_mutex_lock(&table[1].mutex);
    gasnett_cond_signal(&table[1].cond);
    gasnett_mutex_unlock(&table[1].mutex);

    gasnett_rwlock_rdlock(&l);
    gasnett_rwlock_assertlocked(&l);
    gasnett_rwlock_assertrdlocked(&l);
    CHECK(gasnett_rwlock_tryrdlock(&l) == 0);
    int error = gasnett_rwlock_trywrlock(&l);
    CHECK(error == EBUSY || error == EAGAIN);
    gasnett_rwlock_unlock(&l);
    gasnett_rwlock_unlock(&l);
    gasnett_rwlock_assertunlocked(&l);
    gasnett_rwlock_wrlock(&l);
    gasnett_rwlock_assertwrlocked(&l);
    error = gasnett_rwlock_tryrdlock(&l);
    CHECK(error == EBUSY || error == EAGAIN);
    gasnett_rwlock_unlock(&l);
    CHECK(gasnett_rwlock_trywrlock(&table[0].rwlock) == 0);
    gasnett_rwlock_unlock(&table[0].rwlock);

    gasnett_cond_destroy(&c);
    gasnett_rwlock_destroy(&l);
    gasnett_mutex_destroy(&m);
    gasnett_mutex_init(&m);
    CHECK(gasnett_mutex_destroy_ignoreerr(&m) == 0);
}

void tools_sync_calls(void)
{
    tools_atomics();
    tools_locks();
}
