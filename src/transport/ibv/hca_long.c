/*
 * ibv: Longs that do not fit a message. The payload is an operation like a put, but all its pieces
 * are written on the link for messages, and the header is sent after them without waiting for a
 * completion: a connection keeps order, and a peer takes the header only once everything written
 * before it can be read. The header is never written into a ring, since InfiniBand does not
 * guarantee the order in which two writes reach the memory.
 *
 * If the connection breaks, the pieces are written again, followed by the header, unless the peer
 * has received it: then its handler may have run, and the memory may be in use again.
 */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"

aq_status hca_long_begin(struct aqi_rdma *rdma, struct aqi_transfer *want, const struct aqi_am *am,
                         const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem)
{
    aq_status st = rdma->driver->buffer(rdma, want->peer, aqi_rdma_kind(am), &want->header);
    if (st != AQ_OK) return st;
    want->follows = true;
    aqi_rdma_encode_long(rdma, want->header, am);
    if (want->comp == NULL && !aqi_rdma_copy(rdma, want))
        st = aqi_fail(AQ_ENOMEM, "ibv", "no memory to queue a Long of %u bytes", am->nbytes);
    if (st == AQ_OK) st = aqi_rdma_start(rdma, want, rmem, want->source == NULL ? mem : NULL);
    if (st == AQ_OK) return st;
    aqi_rdma_bounce_put(rdma, want->header);
    aqi_rdma_drop_copy(rdma, want);
    return st;
}

aq_status hca_long_follow(struct hca_tp *hca, struct hca_op *op)
{
    uint32_t number = hca_op_peer(op)->number;
    aq_status st = hca_message_send(hca, hca_op_peer(op), op->op.header, number);
    if (st != AQ_OK) return st;
    op->number = number;
    op->op.follows = false;
    return AQ_OK;
}

/*
 * The header is sent nevertheless, since it returns a credit, and messages are numbered. Its buffer
 * is still there: a request posted after the payload cannot have been sent before it.
 */
void hca_long_void(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    struct aqi_am_wire *wire = (void *)op->header->bytes;
    (void)rdma;
    wire->kind = AQI_AM_INTERNAL;
    wire->handler = AQI_AM_INTERNAL_VOID;
    wire->nbytes = 0;
}
