/* For tests of how much memory peers use. */
#ifndef DGRAM_MEMORY_TEST_H
#define DGRAM_MEMORY_TEST_H

#include "dgram/dgram_impl.h"

/* Bytes that this peer uses now, excluding the pools that all peers share. */
static inline size_t dgram_peer_memory(const struct aqi_dgram *dgram, uint32_t id)
{
    const struct dgram_peer *peer = dgram_peer_of(dgram, id);
    size_t bytes = sizeof(struct dgram_peer *);
    if (peer == NULL) return bytes;
    bytes += sizeof(*peer);
    if (peer->conn == NULL) return bytes;
    bytes += sizeof(*peer->conn);
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        bytes += peer->conn->tx[c].ring_size * sizeof(struct dgram_packet *);
    return bytes;
}

#endif
