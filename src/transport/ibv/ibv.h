/* ibv: InfiniBand and RoCE by libibverbs: reliable connections, remote writes and reads. */
#ifndef AQI_TRANSPORT_IBV_H
#define AQI_TRANSPORT_IBV_H

#include "transport/transport.h"

/* Bytes of an address and of a key, also in a library that was built without ibv. */
enum { IBV_ADDR = 124, IBV_KEY = 136 };

extern const struct aqi_transport aqi_ibv_transport;
extern struct aqi_settings_table aqi_ibv_settings;

#endif
