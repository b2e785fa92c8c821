/*
 * gasnet_tools.h under contention: atomics of each family from several threads, fences as the only
 * order between plain accesses, locks, conditions, and thread-specific pointers.
 */
#ifdef TOOLS_WITH_GASNET
#include <gasnetex.h>
#endif
#include <gasnet_tools.h>

#include "check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20000, EXCHANGES = 2000 };

GASNETT_THREADKEY_DEFINE(threads_key);
static pthread_barrier_t threads_meet;

static void threads_run(void *(*fn)(void *))
{
    pthread_t ids[THREADS];
    pthread_barrier_init(&threads_meet, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, fn, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    pthread_barrier_destroy(&threads_meet);
}

/*
 * For one family: sums that must not lose a step, a countdown whose end exactly one thread sees, a
 * lock made of compare-and-swap around a plain variable, and a swap that keeps every token.
 */
#define THREADS_FAMILY(X, V)                                                                       \
    static gasnett_##X##_t X##_sum, X##_down, X##_lock, X##_token;                                 \
    static long X##_plain, X##_ends;                                                               \
    static V X##_last[THREADS];                                                                    \
    static void *X##_thread(void *arg)                                                             \
    {                                                                                              \
        uintptr_t me = (uintptr_t)arg;                                                             \
        V token = (V)(me + 1);                                                                     \
        pthread_barrier_wait(&threads_meet);                                                       \
        for (int i = 0; i < ROUNDS; i++) {                                                         \
            gasnett_##X##_increment(&X##_sum, GASNETT_ATOMIC_NONE);                                \
            gasnett_##X##_add(&X##_sum, 5, GASNETT_ATOMIC_REL);                                    \
            gasnett_##X##_subtract(&X##_sum, 2, GASNETT_ATOMIC_ACQ);                               \
            gasnett_##X##_decrement(&X##_sum, GASNETT_ATOMIC_MB_PRE);                              \
            if (gasnett_##X##_decrement_and_test(&X##_down, GASNETT_ATOMIC_ACQ_IF_TRUE))           \
                X##_ends++;                                                                        \
            token = gasnett_##X##_swap(&X##_token, token, GASNETT_ATOMIC_NONE);                    \
            while (!gasnett_##X##_compare_and_swap(&X##_lock, 0, 1, GASNETT_ATOMIC_ACQ_IF_TRUE))   \
                gasnett_spinloop_hint();                                                           \
            X##_plain++;                                                                           \
            gasnett_##X##_set(&X##_lock, 0, GASNETT_ATOMIC_REL);                                   \
        }                                                                                          \
        X##_last[me] = token;                                                                      \
        return NULL;                                                                               \
    }                                                                                              \
    static void X##_check(void)                                                                    \
    {                                                                                              \
        V all = 0;                                                                                 \
        gasnett_##X##_set(&X##_down, (V)THREADS *ROUNDS, GASNETT_ATOMIC_NONE);                     \
        threads_run(X##_thread);                                                                   \
        CHECK(gasnett_##X##_read(&X##_sum, GASNETT_ATOMIC_NONE) == (V)THREADS * ROUNDS * 3);       \
        CHECK(gasnett_##X##_read(&X##_down, GASNETT_ATOMIC_NONE) == 0 && X##_ends == 1);           \
        CHECK(X##_plain == (long)THREADS * ROUNDS);                                                \
        all = gasnett_##X##_read(&X##_token, GASNETT_ATOMIC_NONE);                                 \
        for (int i = 0; i < THREADS; i++)                                                          \
            all = (V)(all + X##_last[i]);                                                          \
        CHECK(all == THREADS * (THREADS + 1) / 2);                                                 \
    }
THREADS_FAMILY(atomic, gasnett_atomic_val_t)
THREADS_FAMILY(atomic32, uint32_t)
THREADS_FAMILY(atomic64, uint64_t)
THREADS_FAMILY(strongatomic, gasnett_atomic_val_t)
THREADS_FAMILY(strongatomic32, uint32_t)
THREADS_FAMILY(strongatomic64, uint64_t)

/* --- fences ---------------------------------------------------------------------------------- */

static gasnett_strongatomic_t threads_flag;
static long threads_data[4];

/* Thread 0 writes data and, after a store fence, the number of the round; the others answer. */
static void *threads_pass(void *arg)
{
    static gasnett_strongatomic_t seen;
    uintptr_t me = (uintptr_t)arg;
    for (gasnett_atomic_val_t round = 1; round <= EXCHANGES; round++) {
        if (me == 0) {
            for (int i = 0; i < 4; i++)
                threads_data[i] = (long)round + i;
            if (round % 2 == 0)
                gasnett_local_wmb();
            else
                gasnett_local_mb();
            gasnett_strongatomic_set(&threads_flag, round, GASNETT_ATOMIC_NONE);
            while (gasnett_strongatomic_read(&seen, GASNETT_ATOMIC_NONE) != round * (THREADS - 1))
                gasnett_sched_yield();
            gasnett_local_mb();
            continue;
        }
        while (gasnett_strongatomic_read(&threads_flag, GASNETT_ATOMIC_NONE) != round)
            gasnett_sched_yield();
        gasnett_local_rmb();
        for (int i = 0; i < 4; i++)
            CHECK(threads_data[i] == (long)round + i);
        gasnett_strongatomic_increment(&seen, GASNETT_ATOMIC_MB_PRE);
    }
    return NULL;
}

/*
 * Each of a pair stores, fences, and loads the other's variable: at least one of them sees the
 * store.
 */
static gasnett_strongatomic_t threads_mine[2];
static gasnett_atomic_val_t threads_got[2];

static void *threads_cross(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    for (int round = 0; round < EXCHANGES; round++) {
        if (me < 2) gasnett_strongatomic_set(&threads_mine[me], 0, GASNETT_ATOMIC_NONE);
        pthread_barrier_wait(&threads_meet);
        if (me < 2) {
            if (round % 3 == 0) {
                gasnett_strongatomic_set(&threads_mine[me], 1, GASNETT_ATOMIC_MB_POST);
            } else {
                gasnett_strongatomic_set(&threads_mine[me], 1, GASNETT_ATOMIC_NONE);
                if (round % 3 == 1)
                    gasnett_local_mb();
                else
                    gasnett_local_wmb();
            }
            threads_got[me] = gasnett_strongatomic_read(&threads_mine[1 - me], GASNETT_ATOMIC_NONE);
        }
        pthread_barrier_wait(&threads_meet);
        CHECK(threads_got[0] + threads_got[1] >= 1);
        pthread_barrier_wait(&threads_meet);
    }
    return NULL;
}

/* --- locks ----------------------------------------------------------------------------------- */

static gasnett_mutex_t threads_mutex = GASNETT_MUTEX_INITIALIZER;
static gasnett_cond_t threads_cond = GASNETT_COND_INITIALIZER;
static gasnett_rwlock_t threads_rwlock = GASNETT_RWLOCK_INITIALIZER;
static unsigned threads_turn;
static long threads_two[2];

static void *threads_lock(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    CHECK(gasnett_threadkey_get(threads_key) == NULL);
    gasnett_threadkey_init(threads_key);
    gasnett_threadkey_set(threads_key, arg);
    for (int i = 0; i < EXCHANGES / 4; i++) {
        gasnett_mutex_lock(&threads_mutex);
        gasnett_mutex_assertlocked(&threads_mutex);
        while (threads_turn % THREADS != me)
            gasnett_cond_wait(&threads_cond, &threads_mutex);
        threads_turn++;
        gasnett_cond_broadcast(&threads_cond);
        gasnett_mutex_unlock(&threads_mutex);
    }
    for (int i = 0; i < EXCHANGES; i++) {
        if (i % 8 == (int)me) {
            gasnett_rwlock_wrlock(&threads_rwlock);
            threads_two[0]++;
            threads_two[1]++;
        } else {
            gasnett_rwlock_rdlock(&threads_rwlock);
            CHECK(threads_two[0] == threads_two[1]);
        }
        gasnett_rwlock_unlock(&threads_rwlock);
    }
    CHECK(gasnett_threadkey_get(threads_key) == arg);
    return NULL;
}

int main(void)
{
    atomic_check();
    atomic32_check();
    atomic64_check();
    strongatomic_check();
    strongatomic32_check();
    strongatomic64_check();
    threads_run(threads_pass);
    threads_run(threads_cross);
    threads_run(threads_lock);
    CHECK(threads_turn == THREADS * (EXCHANGES / 4));
    CHECK(threads_two[0] == (long)THREADS * EXCHANGES / 8);
    return 0;
}
