/* udp: processes of different hosts over UDP, by the datagram engine. */
#ifndef AQI_TRANSPORT_UDP_H
#define AQI_TRANSPORT_UDP_H

#include "transport/transport.h"

extern const struct aqi_transport aqi_udp_transport;
extern struct aqi_settings_table aqi_udp_settings;

/* For tests: open this port, not the one that AQ_UDP_PORT names; NULL: that one. */
struct aqi_port_ops;
extern const struct aqi_port_ops *aqi_udp_test_port;

#endif
