/* The MAC that udp's calls and groups use. */
#ifndef UDP_MAC_TEST_H
#define UDP_MAC_TEST_H

#include "base/mac.h"

#include <stdio.h>

static struct aqi_mac *mac;

/* Whether the tests must be skipped, with exit code 77. */
static inline bool mac_is_missing(void)
{
    const char *missing = aqi_mac_missing();
    if (missing != NULL) printf("skipped: %s\n", missing);
    return missing != NULL;
}

static inline int test_open(void **state)
{
    (void)state;
    return aqi_mac_open(AQI_MAC_HMAC, &mac) == AQ_OK ? 0 : -1;
}

static inline int test_close(void **state)
{
    (void)state;
    aqi_mac_close(mac);
    return 0;
}

#endif
