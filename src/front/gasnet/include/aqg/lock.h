/*
 * Handler-safe locks. They are mutexes if handlers can run concurrently with the caller; in a
 * single-threaded client without a progress thread they are only flags.
 */
#ifndef AQG_LOCK_H
#define AQG_LOCK_H

#include <aqg/types.h>

#include <pthread.h>

AQG_BEGIN

typedef struct {
    pthread_mutex_t mutex;
    int held; /* used without threads */
} gex_HSL_t;

#define GEX_HSL_INITIALIZER                                                                        \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, 0                                                               \
    }

/* Whether several threads run handlers and client code concurrently. Set at startup. */
extern int aqg_concurrent;

void gex_HSL_Init(gex_HSL_t *hsl);
void gex_HSL_Destroy(gex_HSL_t *hsl);
void aqg_hsl_misused(const char *call, int error) __attribute__((noreturn, cold));

AQG_INLINE void gex_HSL_Lock(gex_HSL_t *hsl)
{
    int error;
    if (!aqg_concurrent) {
        if (AQG_UNLIKELY(hsl->held)) aqg_hsl_misused("gex_HSL_Lock", 0);
        hsl->held = 1;
        return;
    }
    error = pthread_mutex_lock(&hsl->mutex);
    if (AQG_UNLIKELY(error != 0)) aqg_hsl_misused("gex_HSL_Lock", error);
}

AQG_INLINE void gex_HSL_Unlock(gex_HSL_t *hsl)
{
    int error;
    if (!aqg_concurrent || hsl->held) {
        if (AQG_UNLIKELY(!hsl->held)) aqg_hsl_misused("gex_HSL_Unlock", 0);
        hsl->held = 0;
        return;
    }
    error = pthread_mutex_unlock(&hsl->mutex);
    if (AQG_UNLIKELY(error != 0)) aqg_hsl_misused("gex_HSL_Unlock", error);
}

AQG_INLINE int gex_HSL_Trylock(gex_HSL_t *hsl)
{
    if (!aqg_concurrent) {
        if (hsl->held) return GASNET_ERR_NOT_READY;
        hsl->held = 1;
        return GASNET_OK;
    }
    return pthread_mutex_trylock(&hsl->mutex) == 0 ? GASNET_OK : GASNET_ERR_NOT_READY;
}

AQG_END

#endif
