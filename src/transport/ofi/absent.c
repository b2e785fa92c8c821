/* ofi, in a library that was built without the headers of libfabric. */
#include "transport/ofi/ofi.h"

#include <stdio.h>

static const char absent_why[] =
    "this library was built without it: install libfabric-dev and rebuild";

static bool absent_probe(unsigned device, struct aqi_tp_probe *probe)
{
    *probe = (struct aqi_tp_probe){.device = "not built"};
    snprintf(probe->reason, sizeof(probe->reason), "%s", absent_why);
    return device == 0;
}

const struct aqi_transport aqi_ofi_transport = {
    .name = "ofi",
    .doc = "networks with a provider in libfabric (cxi, efa, opx, psm3 and others)",
    .caps = AQI_CAP_FAR,
    .addr_max = OFI_ADDR,
    .key_max = OFI_KEY,
    .settings = &aqi_ofi_settings,
    .probe = absent_probe,
    .absent = absent_why,
};
