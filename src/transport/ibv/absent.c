/* ibv, in a library that was built without the headers of libibverbs. */
#include "transport/ibv/ibv.h"

#include <stdio.h>

static const char absent_why[] =
    "this library was built without it: install libibverbs-dev and rebuild";

static bool absent_probe(unsigned device, struct aqi_tp_probe *probe)
{
    *probe = (struct aqi_tp_probe){.device = "not built"};
    snprintf(probe->reason, sizeof(probe->reason), "%s", absent_why);
    return device == 0;
}

const struct aqi_transport aqi_ibv_transport = {
    .name = "ibv",
    .doc = "InfiniBand and RoCE: remote writes and reads by the adapter (libibverbs)",
    .caps = AQI_CAP_FAR,
    .addr_max = IBV_ADDR,
    .key_max = IBV_KEY,
    .settings = &aqi_ibv_settings,
    .probe = absent_probe,
    .absent = absent_why,
};
