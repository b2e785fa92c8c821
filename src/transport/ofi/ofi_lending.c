/*
 * ofi: memory that processes lend each other on demand (lending.h). Its messages are numbered with
 * all others, so none is lost or duplicated.
 */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"

#include <string.h>

static struct ofi_peer *ofi_lending_peer(struct aqi_lender *lender)
{
    return (struct ofi_peer *)(void *)((char *)lender - offsetof(struct ofi_peer, lender));
}

static struct aqi_lender *ofi_lending_lender(void *host, uint32_t id)
{
    struct ofi_peer *peer = ((struct ofi_tp *)host)->peers[id];
    return peer != NULL ? &peer->lender : NULL;
}

static bool ofi_lending_ready(void *host, struct aqi_lender *lender)
{
    return ofi_peer_ready(host, ofi_lending_peer(lender)) == AQ_OK;
}

static aq_status ofi_lending_post(void *host, struct aqi_lender *lender, uint32_t taken,
                                  const void *bytes, size_t len)
{
    struct ofi_tp *ofi = host;
    struct ofi_peer *peer = ofi_lending_peer(lender);
    const struct aqi_am_wire head = {.stamp = ofi->stamp,
                                     .kind = AQI_AM_NONE,
                                     .handler = OFI_LENDING,
                                     .source = ofi->params.self,
                                     .nbytes = (uint32_t)len,
                                     .addr = taken};
    aq_status st = ofi_peer_ready(ofi, peer);
    if (st != AQ_OK) return st;
    struct ofi_buf *buf = ofi_message_room(ofi, true) ? ofi_buf_get(ofi) : NULL;
    if (buf == NULL) return AQ_AGAIN;
    memcpy(buf->bytes, &head, sizeof(head));
    if (len != 0) memcpy(buf->bytes + sizeof(head), bytes, len);
    buf->len = (uint32_t)(sizeof(head) + len);
    return ofi_message_post(ofi, peer, buf);
}

aq_status ofi_lending_send(void *host, uint32_t id, const void *bytes, size_t len)
{
    return aqi_lending_send(&((struct ofi_tp *)host)->lending, id, bytes, len);
}

static struct aqi_transfer *ofi_lending_copy(void *host, const struct aqi_transfer *op)
{
    struct ofi_op *copy = aqi_pool_get(&((struct ofi_tp *)host)->ops);
    if (copy == NULL) return NULL;
    *copy = *(const struct ofi_op *)(const void *)op;
    ofi_transfer_link(copy);
    return &copy->op;
}

static bool ofi_lending_have(void *host, struct aqi_transfer *of)
{
    struct ofi_op *op = (struct ofi_op *)(void *)of;
    const struct aqi_reg_use *use = &of->loan->wait.use;
    uint64_t base;
    if (!ofi_pins_key(use, &op->key, &base)) return false;
    op->shift = base - use->mem_addr;
    ofi_transfer_queue(host, op);
    return true;
}

static void ofi_lending_over(void *host, struct aqi_transfer *op)
{
    ofi_transfer_over(host, (struct ofi_op *)(void *)op);
}

void ofi_lending_open(struct ofi_tp *ofi)
{
    const struct aqi_lending_hooks hooks = {.lender = ofi_lending_lender,
                                            .ready = ofi_lending_ready,
                                            .post = ofi_lending_post,
                                            .copy = ofi_lending_copy,
                                            .have = ofi_lending_have,
                                            .over = ofi_lending_over,
                                            .host = ofi};
    aqi_lending_open(&ofi->lending, &hooks, &ofi->params, &ofi->pins,
                     ofi->locks ? &ofi->lock : NULL);
}

void ofi_lending_received(struct ofi_tp *ofi, struct ofi_buf *buf)
{
    struct ofi_peer *peer = buf->peer;
    struct aqi_am_wire head;
    aq_status st = AQ_OK;
    memcpy(&head, buf->bytes, sizeof(head));
    if (!ofi->lending.on || head.nbytes > buf->len - sizeof(head))
        st = aqi_fail(AQ_EPROTO, "ofi", "a message about memory is malformed");
    else
        st = aqi_lending_received(&ofi->lending, &peer->lender, (uint32_t)head.addr,
                                  buf->bytes + sizeof(head), head.nbytes);
    ofi_receive_drop(ofi, buf);
    if (st != AQ_OK)
        ofi_peer_fail(ofi, peer, "%s", aq_error_message());
    else if (ofi->lending.on)
        aqi_lending_acknowledge(&ofi->lending, &peer->lender);
}
