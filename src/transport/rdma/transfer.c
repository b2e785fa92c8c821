/* rdma: puts and gets: the queue of those waiting to be posted, their pieces, and copies of
 * sources. */
#include "transport/rdma/rdma.h"

#include "base/fail.h"

#include <stdlib.h>

enum { RDMA_SPARE_COPIES = 16 };

/* All are in a list, since the network may keep one until it is closed. */
struct aqi_rdma_copy {
    struct aqi_rdma_copy *next, **link;
    size_t room;
    unsigned char bytes[];
};

aq_status aqi_rdma_outside(const struct aqi_tp *tp, const struct aqi_peer *peer, uint64_t addr,
                           size_t len)
{
    return aqi_fail(AQ_ERANGE, ((const struct aqi_rdma *)tp)->driver->name,
                    "%zu bytes at 0x%llx of rank %u are not inside its registered memory", len,
                    (unsigned long long)addr, peer->id);
}

/* --- copies of sources ----------------------------------------------------------------------- */

/* Prefer used memory: faulting in new pages would cost more than the copy. */
static struct aqi_rdma_copy *rdma_spare_copy(struct aqi_rdma *rdma, size_t len)
{
    struct aqi_rdma_copy *copy = len <= AQI_RDMA_COPIED ? rdma->spare_copies : NULL;
    size_t room = aqi_max(len, AQI_RDMA_COPIED);
    if (copy != NULL) {
        rdma->spare_copies = copy->next;
        rdma->spare_count--;
    } else if ((copy = malloc(sizeof(*copy) + room)) != NULL) {
        copy->room = room;
    }
    return copy;
}

bool aqi_rdma_copy(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    struct aqi_rdma_copy *copy = rdma_spare_copy(rdma, op->len);
    if (copy == NULL) return false;
    copy->next = rdma->copies;
    copy->link = &rdma->copies;
    if (copy->next != NULL) copy->next->link = &copy->next;
    rdma->copies = op->source = copy;
    op->local = memcpy(copy->bytes, op->local, op->len);
    return true;
}

void aqi_rdma_drop_copy(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    struct aqi_rdma_copy *copy = op->source;
    if (AQI_LIKELY(copy == NULL)) return;
    *copy->link = copy->next;
    if (copy->next != NULL) copy->next->link = copy->link;
    if (copy->room != AQI_RDMA_COPIED || rdma->spare_count == RDMA_SPARE_COPIES) {
        free(copy);
        return;
    }
    copy->next = rdma->spare_copies;
    rdma->spare_copies = copy;
    rdma->spare_count++;
}

static void rdma_free_copies(struct aqi_rdma_copy *list)
{
    while (list != NULL) {
        struct aqi_rdma_copy *copy = list;
        list = copy->next;
        free(copy);
    }
}

void aqi_rdma_close_copies(struct aqi_rdma *rdma)
{
    rdma_free_copies(rdma->copies);
    rdma_free_copies(rdma->spare_copies);
}

/* --- the life of a transfer ------------------------------------------------------------------ */

void aqi_rdma_end(struct aqi_transfer *op)
{
    op->ended = true;
    if (op->status != AQ_OK) aqi_comp_fail(op->comp, op->status);
    if (!op->get) aqi_comp_local(op->comp);
    if (!op->is_long) aqi_comp_remote(op->comp);
    *op->link = op->next_op;
    if (op->next_op != NULL) op->next_op->link = op->link;
}

void aqi_rdma_free(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    if (AQI_UNLIKELY(op->loan != NULL)) aqi_lending_end(rdma, op);
    aqi_rdma_drop_copy(rdma, op);
    aqi_pool_put(&rdma->ops, op);
}

void aqi_rdma_over(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    if (!op->ended) aqi_rdma_end(op);
    aqi_rdma_free(rdma, op);
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

bool aqi_rdma_piece_memory(struct aqi_rdma *rdma, struct aqi_rdma_piece *piece)
{
    struct aqi_transfer *op = piece->op;
    if (op->by == AQI_BY_PINS) {
        piece->pin = aqi_pins_get(&rdma->pins, op, piece->offset, &piece->len);
        if (piece->pin != NULL) return true;
        op->by = AQI_BY_BOUNCE;
    }
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
