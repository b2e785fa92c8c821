/* Mutexes, conditions, reader/writer locks and thread-specific pointers of gasnet_tools.h.
 *
 * The types are the same in every mode, so that objects compiled for different modes are
 * compatible. With a single thread, locks are plain variables. Checking builds also track the
 * owner of a lock. */
#ifndef AQG_TOOLS_SYNC_H
#define AQG_TOOLS_SYNC_H

#ifndef AQG_THREADS
#error "include gasnet_tools.h"
#endif
#include <errno.h>
#include <pthread.h>

#define AQG_TRUE_MUTEXES (AQG_THREADS || GASNETT_USE_TRUE_MUTEXES)
/* Whether the extra fields of locks are maintained. */
#define AQG_LOCK_WORDS (AQG_CHECKS || !AQG_TRUE_MUTEXES)

AQG_BEGIN

typedef struct {
    pthread_mutex_t aqg_mutex;
    pthread_t aqg_owner; /* checking builds only */
    int aqg_locked;      /* also if the mutex is not used */
} gasnett_mutex_t;
#define GASNETT_MUTEX_INITIALIZER                                                                  \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, 0, 0                                                            \
    }

typedef struct {
    pthread_cond_t aqg_cond;
} gasnett_cond_t;
#define GASNETT_COND_INITIALIZER                                                                   \
    {                                                                                              \
        PTHREAD_COND_INITIALIZER                                                                   \
    }

/* `aqg_held` is the number of readers, or -1 with a writer; maintained under the same
 * conditions. */
typedef struct {
    pthread_rwlock_t aqg_rwlock;
    pthread_t aqg_writer;
    int aqg_held;
} gasnett_rwlock_t;
#define GASNETT_RWLOCK_INITIALIZER                                                                 \
    {                                                                                              \
        PTHREAD_RWLOCK_INITIALIZER, 0, 0                                                           \
    }

/* Make a call that can only fail if the program is incorrect. */
extern GASNETT_COLD GASNETT_NORETURN void aqg_sync_failed(const char *call, int error);
#define AQG_SYNC(call)                                                                             \
    do {                                                                                           \
        int aqg_error = (call);                                                                    \
        if (GASNETT_PREDICT_FALSE(aqg_error != 0)) aqg_sync_failed(#call, aqg_error);              \
    } while (0)
#define AQG_SYNC_MUST(condition, text)                                                             \
    do {                                                                                           \
        if (GASNETT_PREDICT_FALSE(!(condition))) aqg_sync_failed(text, 0);                         \
    } while (0)

#define AQG_BUSY(taken) ((taken) ? EBUSY : 0)

AQG_INLINE int aqg_mutex_mine(gasnett_mutex_t *m)
{
    pthread_t owner;
    if (!__atomic_load_n(&m->aqg_locked, __ATOMIC_ACQUIRE)) return 0;
    __atomic_load(&m->aqg_owner, &owner, __ATOMIC_RELAXED);
    return pthread_equal(owner, pthread_self());
}

AQG_INLINE void aqg_mutex_taken(gasnett_mutex_t *m)
{
    pthread_t self = pthread_self();
    if (!AQG_LOCK_WORDS) return;
    __atomic_store(&m->aqg_owner, &self, __ATOMIC_RELAXED);
    __atomic_store_n(&m->aqg_locked, 1, __ATOMIC_RELEASE);
}

AQG_INLINE void aqg_mutex_leaving(gasnett_mutex_t *m)
{
    if (AQG_CHECKS)
        AQG_SYNC_MUST(aqg_mutex_mine(m), "this thread unlocks a mutex that it does not hold");
    if (AQG_LOCK_WORDS) __atomic_store_n(&m->aqg_locked, 0, __ATOMIC_RELAXED);
}

AQG_INLINE void gasnett_mutex_init(gasnett_mutex_t *m)
{
    m->aqg_locked = 0;
    AQG_SYNC(pthread_mutex_init(&m->aqg_mutex, NULL));
}

AQG_CALL(int, gasnett_mutex_destroy_ignoreerr, (gasnett_mutex_t * m),
         pthread_mutex_destroy(&m->aqg_mutex))

AQG_INLINE void gasnett_mutex_lock(gasnett_mutex_t *m)
{
    if (AQG_CHECKS)
        AQG_SYNC_MUST(!aqg_mutex_mine(m), "this thread locks a mutex that it already holds");
    if (AQG_TRUE_MUTEXES) AQG_SYNC(pthread_mutex_lock(&m->aqg_mutex));
    aqg_mutex_taken(m);
}

AQG_INLINE void gasnett_mutex_unlock(gasnett_mutex_t *m)
{
    aqg_mutex_leaving(m);
    if (AQG_TRUE_MUTEXES) AQG_SYNC(pthread_mutex_unlock(&m->aqg_mutex));
}

AQG_INLINE int gasnett_mutex_trylock(gasnett_mutex_t *m)
{
    int error = AQG_TRUE_MUTEXES ? pthread_mutex_trylock(&m->aqg_mutex) : AQG_BUSY(m->aqg_locked);
    if (error != 0) return error;
    aqg_mutex_taken(m);
    return 0;
}

/* A function that makes one such call. */
#define AQG_SYNC_CALL(name, T, call)                                                               \
    AQG_INLINE void name(T *object)                                                                \
    {                                                                                              \
        AQG_SYNC(call);                                                                            \
    }
AQG_SYNC_CALL(gasnett_mutex_destroy, gasnett_mutex_t, pthread_mutex_destroy(&object->aqg_mutex))
AQG_SYNC_CALL(gasnett_cond_init, gasnett_cond_t, pthread_cond_init(&object->aqg_cond, NULL))
AQG_SYNC_CALL(gasnett_cond_destroy, gasnett_cond_t, pthread_cond_destroy(&object->aqg_cond))
AQG_SYNC_CALL(gasnett_cond_signal, gasnett_cond_t, pthread_cond_signal(&object->aqg_cond))
AQG_SYNC_CALL(gasnett_cond_broadcast, gasnett_cond_t, pthread_cond_broadcast(&object->aqg_cond))
AQG_SYNC_CALL(gasnett_rwlock_destroy, gasnett_rwlock_t, pthread_rwlock_destroy(&object->aqg_rwlock))

AQG_INLINE void gasnett_cond_wait(gasnett_cond_t *c, gasnett_mutex_t *m)
{
    AQG_SYNC_MUST(AQG_TRUE_MUTEXES, "the only thread waits on a condition: no thread can wake it");
    aqg_mutex_leaving(m);
    AQG_SYNC(pthread_cond_wait(&c->aqg_cond, &m->aqg_mutex));
    aqg_mutex_taken(m);
}

AQG_CALL(int, aqg_rwlock_count, (gasnett_rwlock_t * l),
         __atomic_load_n(&l->aqg_held, __ATOMIC_ACQUIRE))

AQG_INLINE int aqg_rwlock_write_mine(gasnett_rwlock_t *l)
{
    pthread_t writer;
    if (aqg_rwlock_count(l) != -1) return 0;
    __atomic_load(&l->aqg_writer, &writer, __ATOMIC_RELAXED);
    return pthread_equal(writer, pthread_self());
}

AQG_INLINE void aqg_rwlock_read_taken(gasnett_rwlock_t *l)
{
    if (AQG_LOCK_WORDS) (void)__atomic_fetch_add(&l->aqg_held, 1, __ATOMIC_ACQ_REL);
}

AQG_INLINE void aqg_rwlock_write_taken(gasnett_rwlock_t *l)
{
    pthread_t self = pthread_self();
    if (!AQG_LOCK_WORDS) return;
    __atomic_store(&l->aqg_writer, &self, __ATOMIC_RELAXED);
    __atomic_store_n(&l->aqg_held, -1, __ATOMIC_RELEASE);
}

AQG_INLINE void gasnett_rwlock_init(gasnett_rwlock_t *l)
{
    l->aqg_held = 0;
    AQG_SYNC(pthread_rwlock_init(&l->aqg_rwlock, NULL));
}

AQG_INLINE void gasnett_rwlock_rdlock(gasnett_rwlock_t *l)
{
    if (AQG_TRUE_MUTEXES) AQG_SYNC(pthread_rwlock_rdlock(&l->aqg_rwlock));
    aqg_rwlock_read_taken(l);
}

AQG_INLINE void gasnett_rwlock_wrlock(gasnett_rwlock_t *l)
{
    if (AQG_TRUE_MUTEXES) AQG_SYNC(pthread_rwlock_wrlock(&l->aqg_rwlock));
    aqg_rwlock_write_taken(l);
}

AQG_INLINE void gasnett_rwlock_unlock(gasnett_rwlock_t *l)
{
    int held = AQG_LOCK_WORDS ? aqg_rwlock_count(l) : 0;
    if (AQG_CHECKS)
        AQG_SYNC_MUST(held > 0 || aqg_rwlock_write_mine(l),
                      "this thread unlocks a lock that is not held");
    if (AQG_LOCK_WORDS) (void)__atomic_fetch_add(&l->aqg_held, held > 0 ? -1 : 1, __ATOMIC_ACQ_REL);
    if (AQG_TRUE_MUTEXES) AQG_SYNC(pthread_rwlock_unlock(&l->aqg_rwlock));
}

AQG_INLINE int gasnett_rwlock_tryrdlock(gasnett_rwlock_t *l)
{
    int error =
        AQG_TRUE_MUTEXES ? pthread_rwlock_tryrdlock(&l->aqg_rwlock) : AQG_BUSY(l->aqg_held < 0);
    if (error != 0) return error;
    aqg_rwlock_read_taken(l);
    return 0;
}

AQG_INLINE int gasnett_rwlock_trywrlock(gasnett_rwlock_t *l)
{
    int error =
        AQG_TRUE_MUTEXES ? pthread_rwlock_trywrlock(&l->aqg_rwlock) : AQG_BUSY(l->aqg_held != 0);
    if (error != 0) return error;
    aqg_rwlock_write_taken(l);
    return 0;
}

/* Only checked in checking builds. Readers are counted, not identified. */
#define AQG_SYNC_ASSERT(name, T, condition, text)                                                  \
    AQG_INLINE void name(T *object)                                                                \
    {                                                                                              \
        if (AQG_CHECKS) AQG_SYNC_MUST(condition, text);                                            \
    }
AQG_SYNC_ASSERT(gasnett_mutex_assertlocked, gasnett_mutex_t, aqg_mutex_mine(object),
                "this thread does not hold the mutex")
AQG_SYNC_ASSERT(gasnett_mutex_assertunlocked, gasnett_mutex_t, !aqg_mutex_mine(object),
                "this thread holds the mutex")
AQG_SYNC_ASSERT(gasnett_rwlock_assertlocked, gasnett_rwlock_t,
                aqg_rwlock_count(object) > 0 || aqg_rwlock_write_mine(object),
                "the lock is not held")
AQG_SYNC_ASSERT(gasnett_rwlock_assertunlocked, gasnett_rwlock_t, !aqg_rwlock_write_mine(object),
                "this thread holds the lock")
AQG_SYNC_ASSERT(gasnett_rwlock_assertrdlocked, gasnett_rwlock_t, aqg_rwlock_count(object) > 0,
                "no thread holds the lock for reading")
AQG_SYNC_ASSERT(gasnett_rwlock_assertwrlocked, gasnett_rwlock_t, aqg_rwlock_write_mine(object),
                "this thread does not hold the lock for writing")

/* A thread-specific pointer is a thread-local variable, which needs no initialization. */
#define GASNETT_THREADKEY_DECLARE(key) extern __thread void *aqg_key_##key
#define GASNETT_THREADKEY_DEFINE(key)                                                              \
    GASNETT_THREADKEY_DECLARE(key);                                                                \
    __thread void *aqg_key_##key = NULL
#define gasnett_threadkey_get(key)             (aqg_key_##key)
#define gasnett_threadkey_set(key, val)        ((void)(aqg_key_##key = (val)))
#define gasnett_threadkey_init(key)            ((void)&aqg_key_##key)
#define gasnett_threadkey_get_noinit(key)      gasnett_threadkey_get(key)
#define gasnett_threadkey_set_noinit(key, val) gasnett_threadkey_set(key, val)

AQG_END

#endif
