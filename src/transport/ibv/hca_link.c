/* ibv: the connections to a peer, and the requests posted to them. */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/stats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HCA_RNR_TIMER = 12 /* 0.64 ms */, HCA_SURE = 1024 /* bytes that any network carries */ };

/* --- creating and destroying them ------------------------------------------------------------ */

/* Prepare the queue pair to be connected. */
static int hca_link_init(const struct hca_rail *rail, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = rail->port,
                               .pkey_index = (uint16_t)hca_config.pkey,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    return hca_verbs.modify_qp(
        qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static aq_status hca_link_create(struct hca_tp *hca, struct hca_peer *peer, struct hca_link *link,
                                 struct hca_rail *rail)
{
    struct ibv_qp_init_attr init = {.send_cq = rail->cq,
                                    .recv_cq = rail->cq,
                                    .srq = rail->srq,
                                    .cap = {.max_send_wr = hca->sends,
                                            .max_send_sge = 1,
                                            .max_inline_data = (uint32_t)hca_config.inline_limit},
                                    .qp_type = IBV_QPT_RC};
    link->head = link->tail = link->last_tail = link->pieces = link->unsignaled = 0;
    link->since = 0;
    if (link->sent == NULL) link->sent = calloc((size_t)hca->mask + 1, sizeof(*link->sent));
    if (link->sent == NULL) return aqi_fail(AQ_ENOMEM, "ibv", "no memory for a connection");
    link->qp = hca_verbs.create_qp(rail->pd, &init);
    while (link->qp == NULL && init.cap.max_inline_data != 0) { /* the adapter supports less */
        init.cap.max_inline_data /= 2;
        link->qp = hca_verbs.create_qp(rail->pd, &init);
    }
    if (link->qp == NULL)
        return aqi_fail(
            AQ_ELIMIT, "ibv",
            "cannot create a queue pair of %s with %u sends (lower %s or %s for fewer): %s",
            rail->name, hca->sends, aqi_setting_variable("AQ_AM_CREDITS"),
            aqi_setting_variable("AQ_IBV_SENDS"), hca_advice_memory(errno).text);
    rail->max_inline = init.cap.max_inline_data;
    hca_link_begin(hca, peer, (unsigned)(rail - hca->rail));
    if (hca_link_init(rail, link->qp) == 0) return AQ_OK;
    return aqi_fail_errno(AQ_ESYS, errno, "ibv",
                          "cannot prepare a queue pair of %s: AQ_IBV_PKEY=%llu may not exist",
                          rail->name, (unsigned long long)hca_config.pkey);
}

aq_status hca_links_create(struct hca_tp *hca, struct hca_peer *peer)
{
    aq_status st = AQ_OK;
    if (peer->link[0].sent == NULL) {
        aqi_count(AQI_CTR_LINKED, 1);
        aqi_count(AQI_CTR_LINKED_BYTES, hca_peer_memory(hca));
    }
    for (unsigned r = 0; r < hca->rails && st == AQ_OK; r++)
        if (peer->link[r].qp == NULL && !hca_has_rail(hca->gone, r))
            st = hca_link_create(hca, peer, &peer->link[r], &hca->rail[r]);
    return st;
}

static aq_status hca_link_connect(const struct hca_rail *rail, const struct hca_link *link,
                                  const struct hca_place *to, unsigned reads)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = (enum ibv_mtu)aqi_min(rail->place.mtu, to->mtu),
                               .dest_qp_num = to->qpn,
                               .rq_psn = to->psn,
                               .max_dest_rd_atomic =
                                   (uint8_t)aqi_min(reads, (size_t)rail->device.max_qp_rd_atom),
                               .min_rnr_timer = HCA_RNR_TIMER};
    hca_rail_path(rail, to, &attr.ah_attr);
    int err =
        hca_verbs.modify_qp(link->qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .sq_psn = rail->place.psn,
        .timeout = (uint8_t)hca_config.timeout,
        .retry_cnt = (uint8_t)hca_config.retries,
        .rnr_retry = (uint8_t)hca_config.rnr_retries,
        .max_rd_atomic = (uint8_t)aqi_min(reads, (size_t)rail->device.max_qp_init_rd_atom)};
    if (err == 0)
        err = hca_verbs.modify_qp(link->qp, &attr,
                                  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    return err == 0 ? AQ_OK
                    : aqi_fail(AQ_ESYS, "ibv", "%s, %s", strerror(err > 0 ? err : errno),
                               hca_advice_path(rail, to).text);
}

/* A partially connected queue pair can only start over. It keeps its number, which the peer
 * knows. */
static void hca_link_reset(struct hca_tp *hca, struct hca_peer *peer, unsigned rail)
{
    struct ibv_qp *qp = peer->link[rail].qp;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    int err = hca_verbs.modify_qp(qp, &attr, IBV_QP_STATE);
    if (err == 0) err = hca_link_init(&hca->rail[rail], qp);
    if (err != 0)
        aqi_rdma_fail(&hca->rdma, &peer->rdma, "cannot reset a queue pair of %s: %s",
                      hca->rail[rail].name, strerror(err > 0 ? err : errno));
}

/*
 * Its only rail cannot be connected: retry with the next greeting, unless the peer has failed.
 */
static void hca_link_unconnected(struct hca_tp *hca, struct hca_peer *peer, unsigned rail,
                                 const char *why)
{
    peer->connected = false;
    hca_peer_unreached(hca, peer, rail, why);
    if (peer->state != HCA_DOWN) hca_link_reset(hca, peer, rail);
}

void hca_links_connect(struct hca_tp *hca, struct hca_peer *peer, const struct hca_place *places,
                       unsigned reads)
{
    for (unsigned r = 0; r < hca->rails; r++) {
        if (!hca_has_rail(peer->used, r) ||
            hca_link_connect(&hca->rail[r], &peer->link[r], &places[r], reads) == AQ_OK)
            continue;
        if (peer->used == 1u << r)
            hca_link_unconnected(hca, peer, r, aq_error_message());
        else
            hca_repair_without(hca, peer, r, aq_error_message());
        return;
    }
}

void hca_sent_end(struct hca_tp *hca, struct hca_sent *sent, aq_status status)
{
    if (sent->straight)
        hca_transfer_straight_end(sent, status);
    else if (sent->piece.op != NULL)
        aqi_rdma_piece_done(&hca->rdma, &sent->piece, status);
    else if (sent->piece.buf != NULL)
        aqi_rdma_bounce_put(&hca->rdma, sent->piece.buf);
}

struct hca_sent *hca_link_take(struct hca_tp *hca, struct hca_link *link)
{
    struct hca_sent *sent = hca_link_place(hca, link, link->tail++);
    hca->out--;
    hca->unsignaled -= sent->unsignaled;
    if (hca_sent_is_piece(sent)) link->pieces--;
    return sent;
}

void hca_links_destroy(struct hca_tp *hca, struct hca_peer *peer)
{
    for (unsigned r = 0; r < HCA_RAILS; r++) {
        if (peer->link[r].qp != NULL) hca_verbs.destroy_qp(peer->link[r].qp);
        peer->link[r].qp = NULL;
        peer->link[r].qpn = 0;
    }
    peer->used = 0;
    hca_ring_reset(hca, peer);
}

/* Destroying a queue pair ends everything posted to it: its buffers are ours again. */
void hca_links_end(struct hca_tp *hca, struct hca_peer *peer)
{
    hca_links_destroy(hca, peer);
    for (unsigned r = 0; r < HCA_RAILS; r++) {
        struct hca_link *link = &peer->link[r];
        while (link->tail != link->head)
            hca_sent_end(hca, hca_link_take(hca, link), AQ_EPEER);
        free(link->sent);
        link->sent = NULL;
    }
    hca_repair_forget(hca, peer);
}

/* --- using them ------------------------------------------------------------------------------ */

aq_status hca_link_refused(struct hca_tp *hca, struct hca_link *link, int err)
{
    if (err == ENOMEM) return AQ_AGAIN;
    aqi_rdma_fail(&hca->rdma, &hca_link_peer(link)->rdma, "%s rejected a send: %s",
                  hca->rail[link->rail].name, strerror(err));
    return AQ_EPEER;
}

aq_status hca_link_post(struct hca_tp *hca, struct hca_peer *peer, unsigned rail,
                        struct ibv_send_wr *wr, const struct hca_sent *sent)
{
    struct hca_link *link = &peer->link[rail];
    if (hca_link_is_full(hca, link)) return AQ_AGAIN;
    bool unsignaled = sent->piece.op == NULL && (sent->piece.buf != NULL || sent->word) &&
                      hca_link_may_be_unsignaled(hca, link);
    struct hca_sent *place = hca_link_place(hca, link, link->head);
    aq_status st = hca_link_hand_over(hca, link, wr, unsignaled);
    if (st != AQ_OK) return st;
    *place = *sent;
    place->unsignaled = unsignaled;
    if (sent->piece.op != NULL)
        link->pieces++;
    else if (sent->piece.buf != NULL)
        peer->number = sent->number + 1;
    return AQ_OK;
}

aq_status hca_link_access(struct hca_tp *hca, struct hca_peer *peer, unsigned rail, bool read,
                          struct ibv_sge piece, uint64_t remote, uint32_t rkey,
                          const struct hca_sent *sent)
{
    struct ibv_send_wr wr = {.sg_list = &piece,
                             .num_sge = 1,
                             .opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                             .wr.rdma = {.remote_addr = remote, .rkey = rkey}};
    if (!read && piece.length <= peer->link[rail].max_inline) wr.send_flags = IBV_SEND_INLINE;
    return hca_link_post(hca, peer, rail, &wr, sent);
}

void hca_link_mark(struct hca_tp *hca, struct hca_peer *peer, unsigned rail)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}; /* without data, so it needs no key */
    if (peer->state != HCA_UP || peer->link[rail].unsignaled == 0) return;
    (void)hca_link_post(hca, peer, rail, &wr, &(struct hca_sent){.number = 0});
}

/* The peer has sent greetings since the reconnection, but the first longer message does not
 * arrive. */
static void hca_link_doubt(const struct hca_tp *hca, struct hca_peer *peer, unsigned rail,
                           const struct hca_sent *sent)
{
    size_t len = sent->straight            ? sent->len
                 : sent->piece.op != NULL  ? sent->piece.len
                 : sent->piece.buf != NULL ? sent->piece.buf->len
                                           : 0;
    bool first = sent == peer->link[rail].sent;
    if (peer->doubted || peer->generation == 0 || !first || len <= HCA_SURE) return;
    peer->doubted = true;
    aqi_log(AQI_LOG_WARN, "ibv", "rank %u answers, but messages of %zu bytes do not arrive: %s",
            peer->rdma.peer.id, len,
            hca_advice_packets(&hca->rail[rail], &peer->addr.place[rail]).text);
}

/* The first failure on a queue pair is the real one; all other requests are flushed. */
static void hca_link_broke(struct hca_tp *hca, struct hca_peer *peer, unsigned rail,
                           struct hca_sent *sent, enum ibv_wc_status status)
{
    char why[128];
    snprintf(why, sizeof(why), "%s: %s", hca->rail[rail].name, hca_verbs.wc_status_str(status));
    bool refused = status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
                   status == IBV_WC_REM_OP_ERR;
    if (refused && hca_sent_is_piece(sent)) sent->refused = true;
    /* A dying process may lose its receive buffers first; its job will report its death. */
    bool dying = status == IBV_WC_REM_OP_ERR && !hca_sent_is_piece(sent) && !peer->unreceived;
    if (dying) peer->unreceived = true;
    bool gone = status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_LOC_QP_OP_ERR || /* no route */
                status == IBV_WC_FATAL_ERR;
    if (status == IBV_WC_RETRY_EXC_ERR) hca_link_doubt(hca, peer, rail, sent);
    if (gone)
        hca_repair_without(hca, peer, rail, why);
    else if (sent->refused || dying || status == IBV_WC_WR_FLUSH_ERR)
        hca_repair_begin(hca, peer, 0, why);
    else
        aqi_rdma_fail(&hca->rdma, &peer->rdma, "%s", why);
}

void hca_link_completed(struct hca_tp *hca, const struct ibv_wc *wc)
{
    uint32_t id = (uint32_t)(wc->wr_id >> 32);
    unsigned rail = wc->wr_id >> 2 & (HCA_RAILS - 1);
    struct hca_peer *peer = hca_peer_at(hca, id);
    struct hca_link *link = &peer->link[rail];
    if (link->qp == NULL || link->qp->qp_num != wc->qp_num) return; /* of an earlier queue pair */
    uint32_t place = link->tail + (((uint32_t)(wc->wr_id >> 8) - link->tail) & HCA_PLACES);
    if (AQI_LIKELY(wc->status == IBV_WC_SUCCESS)) {
        while ((int32_t)(place - link->tail) >= 0) { /* with unsignaled ones before it */
            struct hca_sent *sent = hca_link_take(hca, link);
            if (AQI_UNLIKELY(sent->probe)) hca_ring_probed(hca, peer);
            hca_sent_end(hca, sent, AQ_OK);
        }
        return;
    }
    if (!peer->broken)
        hca_link_broke(hca, peer, rail, hca_link_place(hca, link, place), wc->status);
}

void hca_peer_unreached(struct hca_tp *hca, struct hca_peer *peer, unsigned rail, const char *why)
{
    bool moved;
    if (peer->generation == 0)
        aqi_rdma_fail(&hca->rdma, &peer->rdma, "no route to it: %s", why);
    else
        (void)hca_rail_look_again(&hca->rail[rail], &moved);
}
