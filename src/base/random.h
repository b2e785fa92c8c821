/* Random numbers. */
#ifndef AQI_RANDOM_H
#define AQI_RANDOM_H

#include "base/base.h"

/*
 * Fill `out` from the kernel's generator: fit for keys and secrets. Returns AQ_ESYS, logged for
 * `part`, if there is none.
 */
aq_status aqi_random(void *out, size_t len, const char *part);

#endif
