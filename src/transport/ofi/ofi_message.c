/* ofi: active messages. */
#include "transport/ofi/ofi_impl.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/stats.h"

#include <string.h>

/* --- sending --------------------------------------------------------------------------------- */

aq_status ofi_message_give(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf,
                           size_t len, enum ofi_kind kind)
{
    buf->ctx.kind = kind;
    buf->peer = peer;
    ssize_t err = fi_send(ofi->ep, buf->bytes, len, ofi_buf_desc(buf), peer->addr, &buf->ctx);
    if (err != 0) ofi_buf_put(ofi, buf);
    if (err == -FI_EAGAIN) return ofi_peer_refused(ofi, peer, aqi_now_ns());
    if (err != 0) {
        ofi_peer_fail(ofi, peer, "%s takes no message: %s", ofi->info->fabric_attr->prov_name,
                      ofi_library.strerror((int)-err));
        return AQ_EPEER;
    }
    peer->refused = 0;
    peer->sends++;
    ofi->out++;
    return AQ_OK;
}

aq_status ofi_am_send(struct aqi_tp *tp, struct aqi_peer *to, const struct aqi_am *am,
                      struct aqi_comp *comp)
{
    struct ofi_tp *ofi = (struct ofi_tp *)tp;
    struct ofi_peer *peer = (struct ofi_peer *)to;
    size_t len = aqi_am_payload_offset(am->nargs);
    size_t payload = aqi_am_has_payload(am->kind) ? am->nbytes : 0;
    ofi_lock(ofi);
    aq_status st = ofi_peer_ready(ofi, peer);
    if (st == AQ_OK && !ofi_message_room(ofi, (am->flags & AQI_AM_IS_REPLY) != 0)) st = AQ_AGAIN;
    struct ofi_buf *buf = st == AQ_OK ? ofi_buf_get(ofi) : NULL;
    if (st == AQ_OK && buf == NULL) st = AQ_AGAIN;
    if (st == AQ_OK) {
        aqi_am_encode(buf->bytes, am, ofi->params.self);
        memcpy(buf->bytes, &ofi->stamp, sizeof(ofi->stamp));
        if (payload != 0) memcpy(buf->bytes + len, am->payload, payload);
        st = ofi_message_give(ofi, peer, buf, len + payload, OFI_SEND);
        if (st == AQ_OK) peer->given++;
    }
    ofi_unlock(ofi);
    if (st == AQ_OK) aqi_comp_local(comp);
    return st;
}

void ofi_message_sent(struct ofi_tp *ofi, struct ofi_buf *buf)
{
    ofi->out--;
    if (!buf->peer->down) buf->peer->sends--;
    ofi_buf_put(ofi, buf);
}

/* --- receiving ------------------------------------------------------------------------------- */

void ofi_message_post(struct ofi_tp *ofi)
{
    while (ofi->posted < ofi->receives) {
        struct ofi_buf *buf = ofi_buf_get(ofi);
        if (buf == NULL) return;
        buf->ctx.kind = OFI_RECEIVE;
        if (fi_recv(ofi->ep, buf->bytes, ofi->buffer, ofi_buf_desc(buf), FI_ADDR_UNSPEC,
                    &buf->ctx) != 0) {
            ofi_buf_put(ofi, buf); /* progress tries again */
            return;
        }
        ofi->posted++;
    }
}

/* Whose it is, as it says; false: nobody's. */
static bool ofi_message_head(const struct ofi_tp *ofi, struct ofi_buf *buf,
                             struct aqi_am_wire *head)
{
    if (buf->len < sizeof(*head)) return false;
    memcpy(head, buf->bytes, sizeof(*head));
    if (head->stamp != ofi->stamp || head->source >= ofi->params.size) return false;
    buf->peer = ofi->peers[head->source];
    return buf->peer != NULL;
}

static bool ofi_message_read(const struct ofi_tp *ofi, const struct ofi_buf *buf, struct aqi_am *am)
{
    uint32_t claimed;
    if (aqi_am_decode(buf->bytes, buf->len, ofi->tp.limits.max_medium, am, &claimed) != AQ_OK ||
        claimed != buf->peer->peer.id)
        return false;
    if (!aqi_am_has_payload(am->kind)) return true;
    size_t offset = aqi_am_payload_offset(am->nargs);
    am->payload = buf->bytes + offset;
    return am->nbytes == 0 || (buf->len >= offset && am->nbytes <= buf->len - offset);
}

/* Run the handler, without the lock. Another buffer has taken the place of this one. */
static void ofi_message_run(struct ofi_tp *ofi, struct ofi_buf *buf)
{
    struct aqi_am am;
    uint32_t source = buf->peer->peer.id;
    if (ofi_message_read(ofi, buf, &am)) {
        ofi_unlock(ofi);
        ofi->tp.hooks.deliver(ofi->tp.hooks.arg, source, &am);
        ofi_lock(ofi);
    } else {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
    }
    ofi_buf_put(ofi, buf);
}

unsigned ofi_message_received(struct ofi_tp *ofi, struct ofi_buf *buf, size_t len,
                              enum aqi_progress_mode mode)
{
    struct aqi_am_wire head;
    ofi->posted--;
    ofi_message_post(ofi);
    buf->len = (uint32_t)len;
    if (!ofi_message_head(ofi, buf, &head)) {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
        ofi_buf_put(ofi, buf);
        return 0;
    }
    if (AQI_UNLIKELY(head.kind == AQI_AM_NONE)) {
        ofi_flush_received(ofi, buf->peer, &head);
        ofi_buf_put(ofi, buf);
        return 1;
    }
    buf->peer->received++;
    if (AQI_UNLIKELY(buf->peer->wanted != 0)) ofi_flush_reached(ofi, buf->peer);
    if ((head.flags & AQI_AM_IS_REPLY) != 0 || mode == AQI_PROGRESS_ALL) {
        ofi_message_run(ofi, buf);
    } else {
        buf->next = NULL;
        *ofi->last_held = buf;
        ofi->last_held = &buf->next;
    }
    return 1;
}

unsigned ofi_message_deliver_held(struct ofi_tp *ofi)
{
    unsigned n = 0;
    for (; ofi->held != NULL && n < OFI_BATCH; n++) {
        struct ofi_buf *buf = ofi->held;
        ofi->held = buf->next;
        if (ofi->held == NULL) ofi->last_held = &ofi->held;
        ofi_message_run(ofi, buf);
    }
    return n;
}
