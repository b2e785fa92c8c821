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
#include "base/touch.h"

static struct aqi_rdma_buf *hca_long_header(struct hca_tp *hca, const struct aqi_am *am,
                                            uint32_t more)
{
    struct aqi_rdma_buf *buf = aqi_rdma_bounce_get(&hca->rdma, more);
    if (buf == NULL) return NULL;
    struct aqi_am header = *am;
    aqi_am_set_kind(&header, AQI_AM_LONG_HEADER);
    aqi_am_encode_here(buf->bytes, &header, hca->rdma.params.self);
    buf->len = (uint32_t)aqi_am_payload_offset(am->nargs);
    return buf;
}

static aq_status hca_long_begin(struct hca_tp *hca, struct aqi_transfer *op,
                                const struct aqi_am *am, const struct hca_rmem *rmem,
                                const struct aqi_mem *mem)
{
    struct hca_peer *peer = (struct hca_peer *)op->peer;
    bool reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    uint32_t more = reply ? hca->depth : 0;
    aq_status st = hca_message_ready(&hca->rdma, &peer->rdma);
    if (st != AQ_OK) return st;
    op->header = hca_long_header(hca, am, more);
    op->follows = true;
    if (op->header == NULL) return hca_bounce_none(hca, peer, more);
    if (op->comp == NULL && !aqi_rdma_copy(&hca->rdma, op))
        st = aqi_fail(AQ_ENOMEM, "ibv", "no memory to queue a Long of %u bytes", am->nbytes);
    if (st == AQ_OK && !reply) st = hca_message_expect(hca, peer);
    if (st == AQ_OK)
        st = aqi_rdma_start(&hca->rdma, op, &rmem->rdma, op->source == NULL ? mem : NULL);
    if (st == AQ_OK) return st;
    aqi_rdma_bounce_put(&hca->rdma, op->header);
    aqi_rdma_drop_copy(&hca->rdma, op);
    return st;
}

aq_status hca_am_long(struct aqi_tp *tp, struct aqi_peer *to, const struct aqi_am *am,
                      const struct aqi_rmem *there, const struct aqi_mem *mem,
                      struct aqi_comp *comp)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    const struct hca_rmem *rmem = (const struct hca_rmem *)there;
    if (rmem->key.parts == 0 || am->nbytes == 0) return AQ_ENOTSUP; /* lent: by fallback.c */
    aq_status st = aqi_rdma_check(tp, to, there, am->addr, am->nbytes);
    if (st != AQ_OK) return st;
    struct aqi_transfer op = {.peer = (struct aqi_rdma_peer *)to,
                              .is_long = true,
                              .comp = comp,
                              .remote = am->addr,
                              .local = (unsigned char *)(uintptr_t)am->payload,
                              .len = am->nbytes};
    if (mem == NULL || comp == NULL) aqi_touch_read(am->payload, am->nbytes);
    aqi_rdma_lock(&hca->rdma);
    st = hca_long_begin(hca, &op, am, rmem, mem);
    aqi_rdma_unlock(&hca->rdma);
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
