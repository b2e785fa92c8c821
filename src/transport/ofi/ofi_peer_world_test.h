/* Peers for unit tests of ofi. */
#ifndef OFI_PEER_WORLD_TEST_H
#define OFI_PEER_WORLD_TEST_H

#include "transport/ofi/ofi_impl.h"

/* A peer with an address, and nothing in flight. */
static inline void peer_begin(struct ofi_peer *peer, fi_addr_t addr, uint32_t id)
{
    *peer = (struct ofi_peer){.addr = addr};
    peer->rdma.peer.id = id;
    peer->last_kept = &peer->kept;
}

#endif
