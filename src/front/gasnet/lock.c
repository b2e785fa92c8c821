/* Handler-safe locks: the parts that are not inline. */
#include "aqg.h"

int aqg_concurrent = 1; /* until threads are known not to be concurrent */

void gex_HSL_Init(gex_HSL_t *hsl)
{
    hsl->held = 0;
    int error = pthread_mutex_init(&hsl->mutex, NULL);
    if (error != 0) aqg_hsl_misused("gex_HSL_Init", error);
}

void gex_HSL_Destroy(gex_HSL_t *hsl)
{
    int error = pthread_mutex_destroy(&hsl->mutex);
    if (error != 0 || hsl->held) aqg_hsl_misused("gex_HSL_Destroy", error);
}

void aqg_hsl_misused(const char *call, int error)
{
    aqgi_die("%s: %s", call,
             error != 0 ? strerror(error) : "the lock is already held, or is not held");
}
