/*
 * One endpoint and one peer, whose messages the test or fuzzer makes itself. What cannot be set up
 * aborts.
 */
#ifndef AFI_WIRE_WORLD_TEST_H
#define AFI_WIRE_WORLD_TEST_H

#include "front/fi/wire.h"

#include <rdma/providers/fi_prov.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY = 4096, KEY = 7, OPS = 4, OP_BYTES = 16, GUARD = 64 };
/* By which the peer knows an operation. */
#define HANDLE(i) (UINT32_C(1) << 20 | (i))

struct fi_provider *fi_prov_ini(void);

static struct {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_mr *mr; /* of the first MEMORY bytes of `memory` */
    struct afi_ep *ep;
    struct afi_peer *peer;
    struct afi_cq *cq;
    unsigned char memory[MEMORY + GUARD], target[512];
} world;

static inline void world_must(int err)
{
    if (err != 0) abort();
}

/* It remains until the process ends. */
static inline void world_open(void)
{
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_av_attr av_attr = {.type = FI_AV_MAP};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct afi_name name;
    world_must(fi_prov_ini()->getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    world_must(fi_prov_ini()->fabric(info->fabric_attr, &world.fabric, NULL));
    world_must(fi_domain(world.fabric, info, &world.domain, NULL));
    world_must(fi_av_open(world.domain, &av_attr, &av, NULL));
    world_must(fi_cq_open(world.domain, &cq_attr, &cq, NULL));
    world_must(fi_endpoint(world.domain, info, &ep, NULL));
    world_must(fi_ep_bind(ep, &av->fid, 0));
    world_must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    world_must(fi_mr_reg(world.domain, world.memory, MEMORY, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                         KEY, 0, &world.mr, NULL));
    world_must(afi_name_make(&name, 0));
    name.transports = AFI_BY_SHM;
    world.ep = AQI_OF(ep, struct afi_ep, fid);
    world.cq = AQI_OF(cq, struct afi_cq, fid);
    world.peer = afi_peer_get(world.ep, afi_ident_get(world.ep->domain, &name));
    afi.ops = calloc(OPS, sizeof(*afi.ops));
    afi.op_room = OPS;
    world_must(world.peer == NULL || afi.ops == NULL);
    fi_freeinfo(hints);
    fi_freeinfo(info);
}

/* The peer may answer these: a send, a read, an atomic operation with a result, and a write. */
static inline void world_begin_operations(void)
{
    static const enum afi_type types[OPS] = {AFI_SEND, AFI_READ, AFI_ATOMIC_OP, AFI_WRITE};
    for (unsigned i = 0; i < OPS; i++) {
        struct afi_op *op = afi_op_new(world.peer, 0, false, NULL);
        if (op == NULL) abort();
        op->type = types[i];
        op->handle = HANDLE(i);
        op->fetches = types[i] == AFI_ATOMIC_OP;
        op->sent = true;
        op->iov[0] = (struct iovec){.iov_base = world.target, .iov_len = OP_BYTES};
        op->count = 1;
        op->len = OP_BYTES;
        afi.ops[i].op = op;
        aqi_list_append(&world.peer->under_way, &op->link);
    }
}

/* The connection is lost; what had been received is forgotten. */
static inline void world_disconnect(void)
{
    struct fi_cq_err_entry error;
    afi_peer_fail(world.peer, FI_ECONNRESET);
    afi_receive_peer_gone(world.peer, true);
    afi_rxq_close(&world.ep->own);
    afi_rxq_init(&world.ep->own);
    world.cq->count = 0;
    while (world.cq->errors != NULL)
        world_must(fi_cq_readerr(&world.cq->fid, &error, 0) != 1);
}

#endif
