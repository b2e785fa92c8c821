/* ibv: active messages. */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"

#include <stdlib.h>
#include <string.h>

/* --- sending --------------------------------------------------------------------------------- */

static uint32_t hca_message_post(struct hca_tp *hca, unsigned rail, uint32_t count);

/* Buffers are posted several at a time. */
aq_status hca_message_expect(struct hca_tp *hca, struct hca_peer *peer)
{
    uint32_t *replies = &peer->replies[peer->first];
    if (peer->awaited < hca->depth) peer->awaited++;
    if (AQI_LIKELY(peer->awaited <= *replies)) return AQ_OK;
    uint32_t more = (uint32_t)aqi_min(HCA_POSTS, hca->depth - *replies);
    *replies += hca_message_post(hca, peer->first, more);
    if (AQI_LIKELY(peer->awaited <= *replies)) return AQ_OK;
    peer->awaited--;
    return hca_buf_short(hca, peer, 1);
}

aq_status hca_message_ready(struct aqi_rdma *rdma, struct aqi_rdma_peer *to)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    struct hca_peer *peer = (struct hca_peer *)to;
    if (AQI_LIKELY(peer->state == HCA_UP && peer->again == NULL)) return AQ_OK;
    if (peer->state == HCA_UP)
        hca_repair_resume(hca, peer);
    else
        hca_greet_begin(hca, peer); /* if it has not begun */
    if (peer->state == HCA_DOWN) return AQ_EPEER;
    return peer->state == HCA_UP && peer->again == NULL ? AQ_OK : AQ_AGAIN;
}

/* Send it on this link, the one for messages, which has room. */
static AQI_INLINE aq_status hca_message_go(struct hca_tp *hca, struct hca_peer *peer,
                                           struct hca_link *link, struct aqi_rdma_buf *buf,
                                           uint32_t number)
{
    struct ibv_send_wr *wr = &hca->post;
    hca->post_piece.addr = (uintptr_t)buf->bytes;
    hca->post_piece.length = buf->len;
    wr->opcode = IBV_WR_SEND;
    wr->send_flags = IBV_SEND_INLINE;
    if (AQI_UNLIKELY(buf->len > link->max_inline)) {
        wr->send_flags = 0;
        hca->post_piece.lkey = hca_buf_lkey(buf, link->rail);
    }
    bool unsignaled = hca_link_may_be_unsignaled(hca, link);
    struct hca_sent *sent = hca_link_place(hca, link, link->head);
    sent->piece.buf = buf;
    sent->piece.op = NULL;
    sent->number = number;
    sent->is = 0;
    sent->unsignaled = unsignaled;
    peer->number = number + 1;
    aq_status st = hca_link_hand_over(hca, link, wr, unsignaled);
    if (AQI_UNLIKELY(st == AQ_AGAIN)) /* a peer that failed no longer has entries */
        hca_link_peer(link)->number = hca_link_place(hca, link, link->head)->number;
    return st;
}

aq_status hca_message_send(struct hca_tp *hca, struct hca_peer *peer, struct aqi_rdma_buf *buf,
                           uint32_t number)
{
    struct hca_link *link = &peer->link[peer->first];
    return hca_link_is_full(hca, link) ? AQ_AGAIN : hca_message_go(hca, peer, link, buf, number);
}

/* Whether a message can be posted right away, with nothing to check or do first. */
static inline bool hca_message_is_usual(const struct hca_tp *hca, const struct hca_peer *peer,
                                        const struct hca_link *link, const struct aqi_am *am)
{
    bool reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    return !hca->rdma.locks && !hca->rdma.lending.on && am->nbytes == 0 && peer->state == HCA_UP &&
           peer->again == NULL && hca->rdma.free != NULL &&
           hca->rdma.bounced < hca_config.bounces && !hca_ring_is_ours(peer) &&
           !hca_link_is_full(hca, link) &&
           (reply || peer->awaited < peer->replies[link->rail] || peer->awaited == hca->depth);
}

/* Most messages are sent without any call before the post. */
aq_status hca_am_send(struct aqi_tp *tp, struct aqi_peer *to, const struct aqi_am *am,
                      struct aqi_comp *comp)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    struct hca_peer *peer = (struct hca_peer *)to;
    struct hca_link *link = &peer->link[peer->first];
    if (AQI_UNLIKELY(comp != NULL || !hca_message_is_usual(hca, peer, link, am)))
        return aqi_rdma_am_send(tp, to, am, comp);
    struct aqi_rdma_buf *buf = hca->rdma.free;
    hca->rdma.free = buf->next;
    hca->rdma.bounced++;
    aqi_am_encode_here(buf->bytes, am, hca->rdma.params.self);
    buf->len = (uint32_t)aqi_am_payload_offset(am->nargs);
    if ((am->flags & AQI_AM_IS_REPLY) == 0) peer->awaited += peer->awaited < hca->depth;
    aq_status st = hca_message_go(hca, peer, link, buf, peer->number);
    if (AQI_UNLIKELY(st != AQ_OK)) aqi_rdma_bounce_put(&hca->rdma, buf);
    return st;
}

/* --- receiving ------------------------------------------------------------------------------- */

/* Post up to HCA_POSTS buffers in one call. Frees those that are rejected. */
static AQI_NOINLINE bool hca_message_post_bufs(struct hca_tp *hca, unsigned rail,
                                               struct aqi_rdma_buf *const *bufs, uint32_t count)
{
    struct ibv_sge piece[HCA_POSTS];
    struct ibv_recv_wr wr[HCA_POSTS], *bad = wr;
    for (uint32_t i = 0; i < count; i++) {
        piece[i] = (struct ibv_sge){.addr = (uintptr_t)bufs[i]->bytes,
                                    .length = (uint32_t)hca->rdma.buffer,
                                    .lkey = hca_buf_lkey(bufs[i], rail)};
        wr[i] = (struct ibv_recv_wr){.wr_id = (uintptr_t)bufs[i] | HCA_WR_RECEIVE,
                                     .next = i + 1 < count ? &wr[i + 1] : NULL,
                                     .sg_list = &piece[i],
                                     .num_sge = 1};
    }
    int err = ibv_post_srq_recv(hca->rail[rail].srq, wr, &bad);
    if (AQI_LIKELY(err == 0 || bad != wr)) aqi_count(AQI_CTR_POSTS_RECEIVE, 1);
    if (AQI_LIKELY(err == 0)) return true;
    aqi_fail_quiet(AQ_ESYS, "%s rejected a receive buffer: %s", hca->rail[rail].name,
                   strerror(err));
    for (uint32_t i = (uint32_t)(bad - wr); i < count; i++)
        aqi_rdma_put(&hca->rdma, bufs[i]);
    return false;
}

void hca_message_again(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf)
{
    if (buf->rail < HCA_RAILS)
        (void)hca_message_post_bufs((struct hca_tp *)rdma, buf->rail, &buf, 1);
    else
        aqi_rdma_put(rdma, buf);
}

/* Repost freed buffers HCA_POSTS at a time; hca_message_spares allows for those that wait. */
static void hca_message_repost(struct hca_tp *hca, struct aqi_rdma_buf *buf)
{
    struct hca_rail *rail = &hca->rail[buf->rail];
    rail->repost[rail->repost_count++] = buf;
    if (rail->repost_count < HCA_POSTS) return;
    rail->repost_count = 0;
    (void)hca_message_post_bufs(hca, buf->rail, rail->repost, HCA_POSTS);
}

/* Post this many free buffers, or fewer if no more can be registered. Returns their number. */
static uint32_t hca_message_post(struct hca_tp *hca, unsigned rail, uint32_t count)
{
    struct aqi_rdma_buf *bufs[HCA_POSTS];
    uint32_t posted = 0, got;
    for (bool fine = true; fine && posted < count; posted += fine ? got : 0) {
        for (got = 0; got < aqi_min(count - posted, HCA_POSTS); got++)
            if ((bufs[got] = aqi_rdma_get(&hca->rdma)) == NULL) break;
        fine = got != 0 && hca_message_post_bufs(hca, rail, bufs, got);
    }
    return posted;
}

aq_status hca_message_open(struct hca_tp *hca)
{
    for (unsigned r = 0; r < hca->rails; r++)
        if (hca_message_post(hca, r, hca_message_spares()) != hca_message_spares())
            return aqi_fail(AQ_ELIMIT, "ibv", "cannot post a receive buffer: %s",
                            aq_error_message());
    return AQ_OK;
}

/* Replies to requests in flight, or to repeated ones, arrive on the current first rail. */
bool hca_message_prepare(struct hca_tp *hca, struct hca_peer *peer)
{
    unsigned rail = peer->first;
    bool posted = hca_has_rail(peer->posted, rail);
    uint32_t replies = peer->replies[rail], awaited = (uint32_t)aqi_max(replies, peer->awaited);
    uint32_t requests = posted ? 0 : hca->depth + hca_control_buffers(hca);
    peer->posted |= 1u << rail;
    peer->replies[rail] = awaited;
    return hca_message_post(hca, rail, requests) == requests &&
           hca_message_post(hca, rail, awaited - replies) == awaited - replies;
}

/*
 * As many handlers are running as there are spare buffers: copy the message, and repost its buffer.
 * Returns false if out of memory.
 */
static AQI_NOINLINE bool hca_message_copied(struct hca_tp *hca, struct aqi_rdma_buf *buf)
{
    unsigned char *copy = aligned_alloc(64, aqi_round_up(buf->len + 1, 64));
    if (copy == NULL) return false;
    struct aqi_rdma_buf was = *buf;
    memcpy(copy, buf->bytes, buf->len);
    (void)hca_message_post_bufs(hca, buf->rail, &buf, 1);
    aqi_rdma_run(&hca->rdma, &was, copy);
    free(copy);
    return true;
}

/*
 * While the handler of a request runs, one of the spares, which are posted in advance, replaces its
 * buffer. Buffers of messages from a ring were not `posted`.
 */
static AQI_INLINE void hca_message_serve(struct hca_tp *hca, struct aqi_rdma_buf *buf, bool posted)
{
    if (AQI_UNLIKELY(posted && hca->handling >= hca_config.spares) && hca_message_copied(hca, buf))
        return;
    hca->handling += posted;
    aqi_rdma_run(&hca->rdma, buf, buf->bytes);
    hca->handling -= posted;
    if (posted)
        hca_message_repost(hca, buf);
    else
        aqi_rdma_put(&hca->rdma, buf);
}

void hca_message_request(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf)
{
    hca_message_serve((struct hca_tp *)rdma, buf, buf->rail < HCA_RAILS);
}

static AQI_NOINLINE void hca_message_reply(struct hca_tp *hca, struct aqi_rdma_buf *buf)
{
    struct hca_peer *peer = hca_buf_peer(buf);
    if (peer->awaited != 0) peer->awaited--;
    if (buf->rail < HCA_RAILS && peer->replies[buf->rail] != 0) peer->replies[buf->rail]--;
    aqi_rdma_run(&hca->rdma, buf, buf->bytes);
    aqi_rdma_put(&hca->rdma, buf);
}

static inline bool hca_message_is_reply(const struct aqi_rdma_buf *buf)
{
    const struct aqi_am_wire *head = (const void *)buf->bytes;
    return buf->len >= sizeof(*head) && (head->flags & AQI_AM_IS_REPLY) != 0;
}

/* The sender claimed by the message, if the queue pair is connected to it. */
static inline struct hca_peer *hca_message_source(const struct hca_tp *hca,
                                                  const struct aqi_rdma_buf *buf, uint32_t qpn)
{
    const struct aqi_am_wire *head = (const void *)buf->bytes;
    if (buf->len < sizeof(*head) || head->source >= hca->rdma.params.size) return NULL;
    struct hca_peer *peer = hca_peer_at(hca, head->source);
    return peer != NULL && peer->link[buf->rail].qpn == qpn ? peer : NULL;
}

static AQI_INLINE void hca_message_take(struct hca_tp *hca, struct aqi_rdma_buf *buf, bool posted,
                                        enum aqi_progress_mode mode)
{
    if (AQI_UNLIKELY(hca_message_is_lending(hca, buf))) {
        aqi_lending_received(&hca->rdma, buf);
        return;
    }
    if (hca->rings.chunk != NULL) hca_ring_heard(hca, hca_buf_peer(buf), buf->len);
    if (hca_message_is_reply(buf)) {
        hca_message_reply(hca, buf);
    } else if (AQI_LIKELY(mode == AQI_PROGRESS_ALL)) {
        hca_message_serve(hca, buf, posted);
    } else {
        aqi_rdma_hold(&hca->rdma, buf);
    }
}

void hca_message_dispatch(struct hca_tp *hca, struct aqi_rdma_buf *buf, enum aqi_progress_mode mode)
{
    hca_message_take(hca, buf, buf->rail < HCA_RAILS, mode);
}

/*
 * Messages in the ring that precede a sent one are handled first, unless that is a control message,
 * for which their handlers may wait. All are counted before any handler runs, since other threads
 * may take the next ones meanwhile.
 */
static AQI_NOINLINE void hca_message_in_turn(struct hca_tp *hca, struct aqi_rdma_buf *buf,
                                             enum aqi_progress_mode mode)
{
    struct aqi_rdma_buf *first = NULL, **last = &first, *next;
    while ((*last = hca_ring_take(hca, hca_buf_peer(buf), false)) != NULL)
        last = &(*last)->next;
    hca_buf_peer(buf)->received++;
    buf->next = NULL;
    if (hca_message_is_lending(hca, buf))
        aqi_lending_received(&hca->rdma, buf);
    else
        *last = buf;
    for (; first != NULL; first = next) {
        next = first->next;
        hca_message_dispatch(hca, first, mode);
    }
}

unsigned hca_message_received(struct hca_tp *hca, unsigned rail, const struct ibv_wc *wc,
                              enum aqi_progress_mode mode)
{
    struct aqi_rdma_buf *buf = (struct aqi_rdma_buf *)(uintptr_t)(wc->wr_id & ~(uint64_t)3);
    buf->len = wc->byte_len;
    buf->rail = rail;
    struct hca_peer *peer =
        wc->status == IBV_WC_SUCCESS ? hca_message_source(hca, buf, wc->qp_num) : NULL;
    if (peer == NULL) {
        if (wc->status == IBV_WC_SUCCESS) aqi_count(AQI_CTR_AM_DROPPED, 1);
        (void)hca_message_post_bufs(hca, rail, &buf, 1);
        return 0;
    }
    buf->peer = &peer->rdma;
    /* It has sent, so it has received our greeting. */
    if (AQI_UNLIKELY(peer->state == HCA_CALLING && !peer->broken)) hca_greet_up(hca, peer);
    if (AQI_UNLIKELY(peer->in.ring != 0)) {
        hca_message_in_turn(hca, buf, mode);
    } else {
        peer->received++;
        hca_message_take(hca, buf, true, mode);
    }
    return 1;
}
