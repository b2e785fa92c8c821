/* ibv: InfiniBand and RoCE by libibverbs: reliable connections, remote writes and reads. */
#ifndef AQI_TRANSPORT_IBV_H
#define AQI_TRANSPORT_IBV_H

#include "transport/transport.h"

/* All of this also in a library that was built without ibv; the first two are bytes of an address
 * and of a key. */
enum { IBV_ADDR = 124, IBV_KEY = 136, HCA_RAILS = 4 };

struct hca_config {
    const char *ports, *gid;
    uint64_t port, rails, spread, medium, receive_memory, sends, sends_total, bounce_limit, bounces,
        piece, registration, inline_limit, timeout, retries, silence_ns, rnr_retries, mtu,
        service_level, traffic_class, pkey, spares, ring_peers, ring_depth, ring_limit, ring_cycle;
};
extern struct hca_config hca_config;

extern const struct aqi_transport aqi_ibv_transport;
extern struct aqi_settings_table aqi_ibv_settings;

#endif
