/* ibv: InfiniBand and RoCE by libibverbs: reliable connections, remote writes and reads. */
#ifndef AQI_TRANSPORT_IBV_H
#define AQI_TRANSPORT_IBV_H

#include "transport/transport.h"

extern const struct aqi_transport aqi_ibv_transport;
extern struct aqi_settings_table aqi_ibv_settings;

#endif
