/*
 * ibv: control messages, by which two processes lend each other memory (src/reg).
 *
 * They travel on the link as other messages do and are numbered with them, so that each comes once
 * also when the connection is made anew. No handler runs for them: whoever polls takes them at
 * once, also while a handler waits for room, and they need no credits, which a handler that waits
 * keeps. Instead a process has at most HCA_CONTROL under way to a peer, for which buffers are
 * posted, and each says how many of the other's were taken. When half as many were taken and none
 * has said so, one says only that. Of those at most two are under way, since the other one sends no
 * more before it has taken the first.
 */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"

#include <string.h>

static aq_status hca_control_post(struct hca_tp *hca, struct hca_peer *peer, const void *bytes,
                                  size_t len)
{
    struct hca_control *control = &peer->control;
    const struct aqi_am_wire head = {.kind = AQI_AM_NONE,
                                     .source = hca->params.self,
                                     .nbytes = (uint32_t)len,
                                     .addr = control->received};
    aq_status st = hca_message_ready(hca, peer);
    if (st != AQ_OK) return st;
    struct hca_buf *buf = hca_bounce_get(hca, hca->depth + HCA_CONTROL);
    if (buf == NULL) return AQ_AGAIN;
    memcpy(buf->bytes, &head, sizeof(head));
    if (len != 0) memcpy(buf->bytes + sizeof(head), bytes, len);
    buf->len = (uint32_t)(sizeof(head) + len);
    st = hca_link_message(hca, peer, buf, peer->number);
    if (st == AQ_OK)
        control->told = control->received;
    else
        hca_bounce_put(hca, buf);
    return st;
}

aq_status hca_control_send(void *host, uint32_t id, const void *bytes, size_t len)
{
    struct hca_tp *hca = host;
    struct hca_peer *peer = hca->peers[id];
    if (peer == NULL || peer->state == HCA_DOWN) return AQ_OK;
    aq_status st = AQ_AGAIN;
    if (peer->control.sent - peer->control.taken < HCA_CONTROL)
        st = hca_control_post(hca, peer, bytes, len);
    if (st == AQ_OK) peer->control.sent++;
    if (st == AQ_AGAIN) hca->lending.full = hca->pins.due = true;
    return st == AQ_AGAIN ? st : AQ_OK;
}

static void hca_control_acknowledge(struct hca_tp *hca, struct hca_peer *peer)
{
    if (peer->control.received - peer->control.told < HCA_CONTROL / 2) return;
    if (hca_control_post(hca, peer, NULL, 0) == AQ_AGAIN) hca->lending.owed = true;
}

void hca_control_progress(struct hca_tp *hca)
{
    if (!hca->lending.owed) return;
    hca->lending.owed = false;
    for (uint32_t id = 0; id < hca->params.size; id++)
        if (hca->peers[id] != NULL) hca_control_acknowledge(hca, hca->peers[id]);
}

/* The buffer is posted again before the message counts as taken. */
void hca_control_received(struct hca_tp *hca, struct hca_buf *buf)
{
    struct hca_peer *peer = buf->source;
    struct hca_control *control = &peer->control;
    struct aqi_am_wire head;
    aq_status st = AQ_OK;
    memcpy(&head, buf->bytes, sizeof(head));
    if ((uint32_t)head.addr - control->taken <= control->sent - control->taken)
        control->taken = (uint32_t)head.addr;
    if (buf->len > sizeof(head))
        st = aqi_reg_input(hca->pins.reg, peer->peer.id, buf->bytes + sizeof(head),
                           buf->len - sizeof(head));
    if (buf->len > sizeof(head)) control->received++;
    hca_message_again(hca, buf);
    if (st != AQ_OK)
        hca_peer_fail(hca, peer, "%s", aq_error_message());
    else
        hca_control_acknowledge(hca, peer);
}
