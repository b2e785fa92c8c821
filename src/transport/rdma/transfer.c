/* rdma: puts and gets: the queue of those waiting to be posted, their pieces, and copies of
 * sources. */
#include "transport/rdma/rdma.h"

#include "base/fail.h"
#include "base/touch.h"

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

/* It has ended for the initiator: update its counters, for the last time. */
static void rdma_end(struct aqi_transfer *op)
{
    op->ended = true;
    if (op->status != AQ_OK) aqi_comp_fail(op->comp, op->status);
    if (!op->get) aqi_comp_local(op->comp);
    if (!op->is_long) aqi_comp_remote(op->comp);
    *op->link = op->next_op;
    if (op->next_op != NULL) op->next_op->link = op->link;
}

/* No piece of it may be posted. */
static void rdma_free(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    if (AQI_UNLIKELY(op->loan != NULL)) aqi_lending_end(rdma, op);
    if (AQI_UNLIKELY(op->follows)) aqi_rdma_bounce_put(rdma, op->header);
    aqi_rdma_drop_copy(rdma, op);
    aqi_pool_put(&rdma->ops, op);
}

void aqi_rdma_over(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    if (!op->ended) rdma_end(op);
    rdma_free(rdma, op);
}

void aqi_rdma_unqueue(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    struct aqi_transfers *queue = &op->peer->waiting;
    struct aqi_transfer **at = &queue->first, *before = NULL;
    for (; *at != NULL && *at != op; at = &(*at)->next)
        before = *at;
    if (*at == NULL) return;
    *at = op->next;
    if (queue->last == op) queue->last = before;
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

void aqi_rdma_piece_done(struct aqi_rdma *rdma, struct aqi_rdma_piece *piece, aq_status status)
{
    struct aqi_transfer *op = piece->op;
    if (AQI_UNLIKELY(op->is_long && status != AQ_OK && !op->peer->down))
        rdma->driver->void_long(rdma, op);
    if (op->status == AQ_OK) op->status = status;
    if (piece->buf != NULL && op->get && status == AQ_OK && !op->ended)
        memcpy(op->local + piece->offset, piece->buf->bytes, piece->len);
    if (piece->buf != NULL || piece->pin != NULL) aqi_rdma_piece_drop(rdma, piece);
    op->done += piece->len;
    if (op->done == op->len && !op->follows) aqi_rdma_over(rdma, op);
}

/* --- starting and failing -------------------------------------------------------------------- */

struct aqi_transfer *aqi_rdma_new(struct aqi_rdma *rdma, const struct aqi_transfer *want,
                                  const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem)
{
    struct aqi_transfer *op = aqi_pool_get(&rdma->ops);
    if (op == NULL) return NULL;
    memset(op, 0, rdma->driver->op_size);
    *op = *want;
    rdma->driver->reach(rdma, op, rmem, mem);
    aqi_rdma_link(op);
    return op;
}

aq_status aqi_rdma_start(struct aqi_rdma *rdma, const struct aqi_transfer *want,
                         const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem)
{
    aq_status st = rdma->driver->ready(rdma, want->peer);
    if (st != AQ_OK) return st;
    if (!want->get && aqi_rdma_fenced(rdma)) return AQ_AGAIN;
    struct aqi_transfer *op = aqi_rdma_new(rdma, want, rmem, mem);
    if (op == NULL) return aqi_fail(AQ_ENOMEM, rdma->driver->name, "no memory for a transfer");
    if (AQI_UNLIKELY(rmem->lent))
        aqi_lending_begin(rdma, op);
    else
        aqi_rdma_queue(rdma, op);
    aqi_rdma_push(rdma, want->peer);
    return AQ_OK;
}

void aqi_rdma_push(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer)
{
    struct aqi_transfer *op;
    while ((op = peer->waiting.first) != NULL) {
        if (rdma->driver->post(rdma, op) != AQ_OK) return;
        if (op->posted != op->len || op->follows) continue;
        (void)aqi_transfers_take(&peer->waiting);
        rdma->waiting--;
        if (AQI_UNLIKELY(op->done == op->len)) aqi_rdma_over(rdma, op);
    }
}

void aqi_rdma_fail_transfers(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, bool now)
{
    struct aqi_transfer *op, *next;
    aqi_lending_fail(rdma, peer, AQ_EPEER);
    while ((op = aqi_transfers_take(&peer->waiting)) != NULL) {
        rdma->waiting--;
        op->done += op->len - op->posted;
        op->posted = op->len;
    }
    for (op = peer->ops; op != NULL; op = next) {
        next = op->next_op;
        if (op->status == AQ_OK) op->status = AQ_EPEER;
        if (!now && op->exposed && op->done != op->len) continue;
        rdma_end(op);
        if (op->done == op->len) rdma_free(rdma, op);
    }
}

static aq_status rdma_transfer(struct aqi_tp *tp, struct aqi_peer *peer,
                               const struct aqi_rmem *there, uint64_t addr, void *local, size_t len,
                               const struct aqi_mem *mem, struct aqi_comp *comp, bool get)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    const struct aqi_rdma_driver *driver = rdma->driver;
    const struct aqi_rdma_rmem *rmem = (const struct aqi_rdma_rmem *)there;
    struct aqi_transfer want = {.peer = (struct aqi_rdma_peer *)peer,
                                .comp = comp,
                                .get = get,
                                .remote = addr,
                                .local = local,
                                .len = len};
    aq_status st = aqi_rdma_check(tp, peer, there, addr, len);
    if (st != AQ_OK) return st;
    if (len == 0) {
        if (!get) aqi_comp_local(comp);
        aqi_comp_remote(comp);
        return AQ_OK;
    }
    if ((mem == NULL || !driver->pins) && get)
        aqi_touch_write(local, len);
    else if (mem == NULL || !driver->pins)
        aqi_touch_read(local, len);
    aqi_rdma_lock(rdma);
    bool done = driver->straight != NULL && (get || !aqi_rdma_fenced(rdma)) &&
                driver->straight(rdma, &want, rmem, mem);
    st = done ? AQ_OK : aqi_rdma_start(rdma, &want, rmem, mem);
    aqi_rdma_unlock(rdma);
    return st;
}

aq_status aqi_rdma_put_bytes(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                             uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                             struct aqi_comp *comp)
{
    return rdma_transfer(tp, peer, rmem, addr, (void *)(uintptr_t)src, len, mem, comp, false);
}

aq_status aqi_rdma_get_bytes(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                             uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                             struct aqi_comp *comp)
{
    return rdma_transfer(tp, peer, rmem, addr, dst, len, mem, comp, true);
}
