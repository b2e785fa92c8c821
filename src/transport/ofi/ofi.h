/* ofi: networks that libfabric supports, by its providers: messages, remote writes and reads. */
#ifndef AQI_TRANSPORT_OFI_H
#define AQI_TRANSPORT_OFI_H

#include "transport/transport.h"

/* Bytes of an address and of a key, also in a library that was built without ofi. */
enum { OFI_ADDR = 160, OFI_KEY = 80 };

extern const struct aqi_transport aqi_ofi_transport;
extern struct aqi_settings_table aqi_ofi_settings;

#endif
