/* For tests of signed data: the MAC that udp's calls and groups use. */
#ifndef UDP_MAC_TEST_H
#define UDP_MAC_TEST_H

#include "base/mac.h"

static struct aqi_mac *mac;

static int test_open(void **state)
{
    (void)state;
    return aqi_mac_open(AQI_MAC_HMAC, &mac) == AQ_OK ? 0 : -1;
}

static int test_close(void **state)
{
    (void)state;
    aqi_mac_close(mac);
    return 0;
}

#endif
