/* ibv: the values of its settings, also in a library that was built without it. */
#ifndef AQI_IBV_CONFIG_H
#define AQI_IBV_CONFIG_H

#include <stdint.h>

enum { HCA_RAILS = 4 };

struct hca_config {
    const char *ports, *gid;
    uint64_t port, rails, spread, medium, receive_memory, sends, sends_total, bounce_limit, bounces,
        piece, registration, inline_limit, timeout, retries, silence_ns, rnr_retries, mtu,
        service_level, traffic_class, pkey, spares, ring_peers, ring_depth, ring_limit, ring_cycle;
};
extern struct hca_config hca_config;

#endif
