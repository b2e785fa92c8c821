/*
 * ofi: whether messages have arrived. A provider's completion of a message says that it has left,
 * not that it has come: an endpoint that is closed then takes with it what its connections still
 * hold. So messages are counted at both ends, and who wants to know of the last one asks for the
 * peer's count: FLUSH, which the peer answers with FLUSHED once as many have come.
 *
 * There is at most one of each under way to a peer; buffers for them are among those for messages.
 * What is asked and answered stays the same if it is sent again, which is done when one is lost.
 */
#include "transport/ofi/ofi_impl.h"

#include "base/stats.h"

#include <string.h>

enum { OFI_FLUSH = 1, OFI_FLUSHED = 2 }; /* the `handler` of such a message; `addr` is the count */

/* AQ_AGAIN: progress tries again. */
static aq_status ofi_flush_send(struct ofi_tp *ofi, struct ofi_peer *peer, uint8_t what,
                                uint64_t count)
{
    struct aqi_am_wire head = {.stamp = ofi->stamp,
                               .kind = AQI_AM_NONE,
                               .handler = what,
                               .flags = AQI_AM_IS_REPLY,
                               .source = ofi->params.self,
                               .addr = count};
    aq_status st = ofi_peer_ready(ofi, peer);
    struct ofi_buf *buf = st == AQ_OK && ofi_message_room(ofi, true) ? ofi_buf_get(ofi) : NULL;
    if (st == AQ_OK && buf == NULL) st = AQ_AGAIN;
    if (st == AQ_OK) {
        memcpy(buf->bytes, &head, sizeof(head));
        st = ofi_message_give(ofi, peer, buf, sizeof(head), OFI_CONTROL);
    }
    if (st == AQ_AGAIN) ofi->flushes = true;
    return st;
}

static void ofi_flush_push_peer(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    if (peer->ask && ofi_flush_send(ofi, peer, OFI_FLUSH, peer->asked) != AQ_AGAIN)
        peer->ask = false;
    if (peer->wanted != 0 && peer->received >= peer->wanted &&
        ofi_flush_send(ofi, peer, OFI_FLUSHED, peer->wanted) != AQ_AGAIN)
        peer->wanted = 0;
}

void ofi_flush_push(struct ofi_tp *ofi)
{
    ofi->flushes = false;
    for (uint32_t id = 0; id < ofi->params.size; id++)
        if (ofi->peers[id] != NULL) ofi_flush_push_peer(ofi, ofi->peers[id]);
}

bool ofi_flush_confirmed(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    if (peer->down || peer->confirmed == peer->given) return true;
    if (peer->asked == 0) {
        peer->asked = peer->given;
        peer->ask = true;
        ofi_flush_push_peer(ofi, peer);
    }
    return false;
}

void ofi_flush_reached(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    if (peer->received >= peer->wanted) ofi_flush_push_peer(ofi, peer);
}

/* A number that we did not ask for says nothing; one that is never reached is never answered. */
void ofi_flush_received(struct ofi_tp *ofi, struct ofi_peer *peer, const struct aqi_am_wire *head)
{
    if (head->handler == OFI_FLUSH) {
        peer->wanted = head->addr;
        ofi_flush_push_peer(ofi, peer);
    } else if (head->handler == OFI_FLUSHED && head->addr == peer->asked) {
        peer->confirmed = peer->asked;
        peer->asked = 0;
        peer->ask = false;
    } else {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
    }
}

void ofi_flush_lost(struct ofi_tp *ofi, const struct ofi_buf *buf)
{
    struct ofi_peer *peer = buf->peer;
    struct aqi_am_wire head;
    memcpy(&head, buf->bytes, sizeof(head));
    if (head.handler == OFI_FLUSH)
        peer->ask = peer->asked == head.addr;
    else if (peer->wanted == 0)
        peer->wanted = head.addr;
    ofi->flushes = true;
}
