/*
 * ibv: memory that processes lend each other on demand (lending.h). Its messages use the link like
 * others and are numbered with them, so that each arrives once even if the connection is
 * re-established.
 */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"

#include <string.h>

static struct hca_peer *hca_lending_peer(struct aqi_lender *lender)
{
    return (struct hca_peer *)(void *)((char *)lender - offsetof(struct hca_peer, lender));
}

static struct aqi_lender *hca_lending_lender(void *host, uint32_t id)
{
    struct hca_peer *peer = ((struct hca_tp *)host)->peers[id];
    return peer != NULL ? &peer->lender : NULL;
}

static bool hca_lending_ready(void *host, struct aqi_lender *lender)
{
    const struct hca_peer *peer = hca_lending_peer(lender);
    (void)host;
    return peer->state == HCA_UP && peer->again == NULL;
}

static aq_status hca_lending_post(void *host, struct aqi_lender *lender, uint32_t taken,
                                  const void *bytes, size_t len)
{
    struct hca_tp *hca = host;
    struct hca_peer *peer = hca_lending_peer(lender);
    const struct aqi_am_wire head = {
        .kind = AQI_AM_NONE, .source = hca->params.self, .nbytes = (uint32_t)len, .addr = taken};
    aq_status st = hca_message_ready(hca, peer);
    if (st != AQ_OK) return st;
    uint32_t more = hca->depth + AQI_LENDING_MESSAGES;
    struct hca_buf *buf = hca_bounce_get(hca, more);
    if (buf == NULL) return hca_bounce_none(hca, peer, more);
    memcpy(buf->bytes, &head, sizeof(head));
    if (len != 0) memcpy(buf->bytes + sizeof(head), bytes, len);
    buf->len = (uint32_t)(sizeof(head) + len);
    st = hca_message_send(hca, peer, buf, peer->number);
    if (st != AQ_OK) hca_bounce_put(hca, buf);
    return st;
}

aq_status hca_lending_send(void *host, uint32_t id, const void *bytes, size_t len)
{
    return aqi_lending_send(&((struct hca_tp *)host)->lending, id, bytes, len);
}

static struct aqi_transfer *hca_lending_copy(void *host, const struct aqi_transfer *op)
{
    struct hca_op *copy = aqi_pool_get(&((struct hca_tp *)host)->ops);
    if (copy == NULL) return NULL;
    *copy = *(const struct hca_op *)(const void *)op;
    copy->peer->busy++;
    return &copy->op;
}

static bool hca_lending_have(void *host, struct aqi_transfer *op)
{
    const struct hca_tp *hca = host;
    const struct hca_peer *peer = hca_lending_peer(op->lender);
    size_t keys = aqi_min(hca->rails, peer->addr.rails) * sizeof(uint32_t);
    if (op->loan->wait.use.mem->key_len < keys) return false;
    hca_transfer_queue(host, (struct hca_op *)(void *)op);
    return true;
}

static void hca_lending_over(void *host, struct aqi_transfer *op)
{
    hca_transfer_end(host, (struct hca_op *)(void *)op);
}

void hca_lending_open(struct hca_tp *hca)
{
    const struct aqi_lending_hooks hooks = {.lender = hca_lending_lender,
                                            .ready = hca_lending_ready,
                                            .post = hca_lending_post,
                                            .copy = hca_lending_copy,
                                            .have = hca_lending_have,
                                            .over = hca_lending_over,
                                            .host = hca};
    aqi_lending_open(&hca->lending, &hooks, &hca->params, &hca->pins,
                     hca->locks ? &hca->lock : NULL);
}

/* It was not completely posted, and nothing more of it must be. */
static void hca_lending_unqueue(struct hca_tp *hca, struct hca_op *op)
{
    struct hca_op **at = &op->peer->ops;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    if (*at == NULL) op->peer->last_op = at;
    hca->waiting--;
}

bool hca_lending_again(struct hca_tp *hca, struct hca_sent *sent)
{
    struct hca_op *op = sent->op;
    if (op == NULL || op->op.loan == NULL || !(sent->refused || op->op.loan->stale)) return false;
    bool waits = op->op.posted != op->op.len;
    bool again = aqi_lending_refused(&hca->lending, &op->op, sent->offset, sent->len);
    if (waits && op->op.posted == op->op.len) hca_lending_unqueue(hca, op);
    return again;
}

/* The buffer is posted again before the message counts as taken. */
void hca_lending_received(struct hca_tp *hca, struct hca_buf *buf)
{
    struct hca_peer *peer = buf->source;
    struct aqi_am_wire head;
    memcpy(&head, buf->bytes, sizeof(head));
    aq_status st = aqi_lending_received(&hca->lending, &peer->lender, (uint32_t)head.addr,
                                        buf->bytes + sizeof(head), buf->len - sizeof(head));
    hca_message_again(hca, buf);
    if (st != AQ_OK)
        hca_peer_fail(hca, peer, "%s", aq_error_message());
    else
        aqi_lending_acknowledge(&hca->lending, &peer->lender);
}
