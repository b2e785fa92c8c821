/* ofi: active messages. */
#include "transport/ofi/ofi_impl.h"

#include "base/stats.h"

#include <string.h>

/* --- sending --------------------------------------------------------------------------------- */

/*
 * The provider takes an injected message at once, without a completion. So queries and answers,
 * which have to leave before the endpoint is closed, are not injected.
 */
ssize_t ofi_message_post_send(struct ofi_tp *ofi, const struct ofi_peer *peer, struct ofi_buf *buf,
                              size_t len)
{
    if (buf->ctx.kind == OFI_SEND && len <= ofi->inject)
        return fi_inject(ofi->ep, buf->rdma.bytes, len, peer->addr);
    ssize_t err = fi_send(ofi->ep, buf->rdma.bytes, len, ofi_mr_desc(buf->rdma.chunk->mr[0]),
                          peer->addr, &buf->ctx);
    buf->busy = err == 0;
    return err;
}

aq_status ofi_message_give(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf,
                           enum ofi_kind kind)
{
    struct ofi_tail tail = {.number = buf->number, .arrived = peer->received};
    /* Aligns the next message in a buffer for many. */
    buf->rdma.len =
        (uint32_t)(aqi_round_up(buf->rdma.len + sizeof(tail), OFI_ALIGN) - sizeof(tail));
    memcpy(buf->rdma.bytes + buf->rdma.len, &tail, sizeof(tail));
    buf->ctx.kind = kind;
    buf->rdma.peer = &peer->rdma;
    ssize_t err = ofi_message_post_send(ofi, peer, buf, buf->rdma.len + sizeof(tail));
    if (AQI_UNLIKELY(err != 0)) return ofi_peer_rejected(ofi, peer, err, "a message");
    aqi_count(AQI_CTR_POSTS, 1);
    aqi_count(buf->busy ? AQI_CTR_POSTS_SIGNALED : AQI_CTR_POSTS_INJECTED, 1);
    peer->refused = 0;
    peer->sends += buf->busy;
    peer->queries += buf->busy && kind == OFI_CONTROL;
    ofi->out += buf->busy;
    return AQ_OK;
}

aq_status ofi_message_post(struct aqi_rdma *rdma, struct aqi_rdma_peer *to,
                           struct aqi_rdma_buf *message)
{
    struct ofi_tp *ofi = (struct ofi_tp *)rdma;
    struct ofi_peer *peer = (struct ofi_peer *)to;
    struct ofi_buf *buf = (struct ofi_buf *)message;
    const struct aqi_am_wire *head = (const void *)message->bytes;
    /* The header of a Long that is a put: it has no number of a write. */
    if (AQI_UNLIKELY(head->kind == AQI_AM_LONG_HEADER))
        memset(message->bytes + message->len, 0, OFI_ALIGN);
    buf->number = peer->given + 1;
    aq_status st = ofi_message_give(ofi, peer, buf, OFI_SEND);
    if (st == AQ_OK)
        ofi_flush_keep(ofi, peer, buf);
    else
        ofi_buf_put(ofi, buf);
    return st;
}

void ofi_message_post_later(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf)
{
    buf->number = peer->given + 1;
    aq_status st = ofi_message_give(ofi, peer, buf, OFI_SEND);
    if (peer->rdma.down) {
        buf->is_long = false;
        if (!buf->busy) ofi_buf_put(ofi, buf);
        return;
    }
    ofi_flush_keep(ofi, peer, buf);
    if (st != AQ_OK) ofi_flush_again(ofi, peer, buf);
}

void ofi_message_sent(struct ofi_tp *ofi, struct ofi_buf *buf)
{
    ofi->out--;
    struct ofi_peer *peer = ofi_buf_peer(buf);
    if (!peer->rdma.down) {
        peer->sends--;
        peer->queries -= buf->ctx.kind == OFI_CONTROL;
    }
    buf->busy = false;
    if (AQI_UNLIKELY(peer->again == buf)) ofi->flushes = true;
    if (!buf->kept) ofi_buf_put(ofi, buf);
}

/* --- receiving ------------------------------------------------------------------------------- */

/* Find the claimed sender, and remove the tail. Returns false if the sender is unknown. */
static bool ofi_message_head(const struct ofi_tp *ofi, struct ofi_buf *buf, size_t len,
                             struct aqi_am_wire *head, struct ofi_tail *tail)
{
    if (len < sizeof(*head) + sizeof(*tail) || len > ofi->rdma.buffer) return false;
    buf->rdma.len = (uint32_t)(len - sizeof(*tail));
    memcpy(head, buf->rdma.bytes, sizeof(*head));
    memcpy(tail, buf->rdma.bytes + buf->rdma.len, sizeof(*tail));
    buf->number = tail->number;
    if (head->stamp != ofi->rdma.stamp || head->source >= ofi->rdma.params.size) return false;
    buf->rdma.peer = ofi->rdma.peers[head->source];
    return buf->rdma.peer != NULL;
}

static bool ofi_message_is_unnumbered(uint8_t what)
{
    return what == OFI_FLUSH || what == OFI_FLUSHED || what == OFI_FAREWELL;
}

void ofi_message_run(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf)
{
    aqi_rdma_run(rdma, buf, buf->bytes);
    ofi_receive_drop((struct ofi_tp *)rdma, (struct ofi_buf *)buf);
}

/* Process a numbered message of the transport itself. */
static AQI_COLD void ofi_message_take_own(struct ofi_tp *ofi, struct ofi_buf *buf, uint8_t what)
{
    if (what == OFI_LENDING) {
        aqi_lending_received(&ofi->rdma, &buf->rdma);
    } else {
        ofi_long_voided(ofi_buf_peer(buf), buf);
        ofi_receive_drop(ofi, buf);
    }
}

/* Process the peer's next message. If there is no memory to keep it, it counts as not received. */
static void ofi_message_take(struct ofi_tp *ofi, struct ofi_buf *buf, enum aqi_progress_mode mode)
{
    struct ofi_peer *peer = ofi_buf_peer(buf);
    const struct aqi_am_wire *head = (const void *)buf->rdma.bytes;
    if (AQI_UNLIKELY(head->kind == AQI_AM_NONE)) {
        peer->received++;
        ofi_message_take_own(ofi, buf, head->handler);
    } else if ((head->flags & AQI_AM_IS_REPLY) != 0 || mode == AQI_PROGRESS_ALL) {
        peer->received++;
        ofi_message_run(&ofi->rdma, &buf->rdma);
    } else if ((buf = ofi_receive_keep(ofi, buf)) != NULL) {
        peer->received++;
        aqi_rdma_hold(&ofi->rdma, &buf->rdma);
    }
}

void ofi_message_take_early(struct ofi_tp *ofi, struct ofi_peer *peer, enum aqi_progress_mode mode)
{
    struct ofi_buf *buf;
    while (peer->early != NULL && (buf = ofi_flush_next(ofi, peer)) != NULL)
        ofi_message_take(ofi, buf, mode);
}

unsigned ofi_message_received(struct ofi_tp *ofi, struct ofi_buf *buf, size_t len,
                              enum aqi_progress_mode mode)
{
    struct aqi_am_wire head;
    struct ofi_tail tail;
    if (!ofi_message_head(ofi, buf, len, &head, &tail)) {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
        ofi_receive_drop(ofi, buf);
        return 0;
    }
    struct ofi_peer *peer = ofi_buf_peer(buf);
    bool straight = AQI_LIKELY((uintptr_t)buf->rdma.bytes % OFI_ALIGN == 0); /* or copied */
    if (!straight && (buf = ofi_receive_keep(ofi, buf)) == NULL) return 0;
    ofi_flush_arrived(ofi, peer, tail.arrived);
    if (AQI_UNLIKELY(head.kind == AQI_AM_NONE && ofi_message_is_unnumbered(head.handler))) {
        ofi_flush_received(ofi, peer, head.handler, tail.number);
        ofi_receive_drop(ofi, buf);
    } else if (AQI_LIKELY(tail.number == peer->received + 1 && !ofi_long_waits(buf))) {
        ofi_message_take(ofi, buf, mode);
    } else if ((buf = ofi_receive_keep(ofi, buf)) != NULL && !ofi_flush_early(ofi, peer, buf)) {
        ofi_buf_put(ofi, buf);
    }
    if (AQI_UNLIKELY(peer->early != NULL)) ofi_message_take_early(ofi, peer, mode);
    return 1;
}
