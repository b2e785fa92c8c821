/* Random numbers. */
#ifndef AQI_RANDOM_H
#define AQI_RANDOM_H

#include "base/base.h"

/*
 * Fill `out` with random bytes of the kernel, fit for keys and secrets. Returns AQ_ESYS, logged for
 * `folder`, if it provides none.
 */
aq_status aqi_random(void *out, size_t len, const char *folder);

#endif
