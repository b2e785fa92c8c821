/* rdma: puts and gets: those that wait until they are posted, and the pieces of others. */
#include "transport/rdma/rdma.h"

#include "base/fail.h"

aq_status aqi_rdma_outside(const struct aqi_tp *tp, const struct aqi_peer *peer, uint64_t addr,
                           size_t len)
{
    return aqi_fail(AQ_ERANGE, ((const struct aqi_rdma *)tp)->driver->name,
                    "%zu bytes at 0x%llx of rank %u are not in its registered memory", len,
                    (unsigned long long)addr, peer->id);
}

void aqi_rdma_unqueue(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    struct aqi_transfer **at = &op->peer->waiting;
    while (*at != NULL && *at != op)
        at = &(*at)->next;
    if (*at == NULL) return;
    *at = op->next;
    if (*at == NULL) op->peer->last_waiting = at;
    rdma->waiting--;
}

bool aqi_rdma_piece_begin(struct aqi_rdma *rdma, struct aqi_transfer *op, size_t most,
                          struct aqi_rdma_piece *piece)
{
    *piece = (struct aqi_rdma_piece){.op = op, .offset = op->posted, .len = most};
    if (op->by == AQI_BY_PINS) {
        piece->pin = aqi_pins_get(&rdma->pins, op, piece->offset, &piece->len);
        if (piece->pin == NULL) op->by = AQI_BY_BOUNCE;
    }
    if (op->by != AQI_BY_BOUNCE) return true;
    piece->len = aqi_min(piece->len, rdma->buffer);
    piece->buf = aqi_rdma_bounce_get(rdma, 0);
    if (piece->buf == NULL) return false;
    if (!op->get) memcpy(piece->buf->bytes, op->local + piece->offset, piece->len);
    return true;
}

void aqi_rdma_piece_drop(struct aqi_rdma *rdma, struct aqi_rdma_piece *piece)
{
    if (piece->buf != NULL) aqi_rdma_bounce_put(rdma, piece->buf);
    if (piece->pin == NULL) return;
    aqi_pins_put(&rdma->pins, piece->pin);
    rdma->whole = true; /* it may be unpinned */
}

bool aqi_rdma_piece_end(struct aqi_rdma *rdma, struct aqi_rdma_piece *piece, aq_status status)
{
    struct aqi_transfer *op = piece->op;
    if (op->status == AQ_OK) op->status = status;
    if (piece->buf != NULL && op->get && status == AQ_OK && !op->ended)
        memcpy(op->local + piece->offset, piece->buf->bytes, piece->len);
    aqi_rdma_piece_drop(rdma, piece);
    op->done += piece->len;
    return op->done == op->len;
}
