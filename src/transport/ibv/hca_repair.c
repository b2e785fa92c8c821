/*
 * ibv: re-establishing broken connections.
 *
 * An access that the peer's adapter rejects, or packets that are not acknowledged for too long, end
 * a connection at both ends, with all requests posted to it. Neither means that the peer is dead;
 * only the job reports that. So both ends create new queue pairs, of the next *generation*, and
 * exchange greetings again. A greeting states how many messages have arrived, so exactly those that
 * have not are resent: each message arrives once, in order. All pieces of puts and gets are
 * repeated.
 *
 * A missing acknowledgment, or a port that goes down, ends the use of that rail: the next
 * generation uses the others, which greetings list. The side that requests a generation decides for
 * both; if both do at the same time, rails excluded by either are excluded. A rail is tried again
 * when its port is back, which starts a generation with it, or when all others have failed.
 */
#include "transport/ibv/hca_impl.h"

#include "base/log.h"
#include "base/stats.h"

#include <stdio.h>
#include <stdlib.h>

void hca_repair_begin(struct hca_tp *hca, struct hca_peer *peer, uint32_t generation,
                      const char *why)
{
    if (hca->rdma.draining) {
        aqi_rdma_fail(&hca->rdma, &peer->rdma, "%s", why);
        return;
    }
    peer->wanted = generation;
    if (peer->broken) return;
    aqi_log(AQI_LOG_INFO, "ibv", "re-establishing the connection to rank %u: %s",
            peer->rdma.peer.id, why);
    hca_greet_end(hca, peer);
    peer->state = HCA_CALLING; /* nothing is posted from now on */
    peer->broken = true;
    peer->next_broken = hca->broken;
    hca->broken = peer;
    hca->rdma.whole = true;
}

void hca_repair_without(struct hca_tp *hca, struct hca_peer *peer, unsigned rail, const char *why)
{
    uint32_t all = hca_rails_of(hca, peer);
    if (peer->broken || peer->state == HCA_DOWN) return;
    peer->failed |= 1u << rail;
    if ((peer->failed & all) == all) peer->failed = hca->down;
    if ((peer->failed & all) == all) peer->failed = hca->gone;
    if (peer->failed != 0) aqi_count(AQI_CTR_RAILS_FAILED, 1);
    hca_repair_begin(hca, peer, 0, why);
}

void hca_repair_port_down(struct hca_tp *hca, unsigned rail)
{
    char why[128];
    bool gone = hca_has_rail(hca->gone, rail);
    snprintf(why, sizeof(why), "%s %s", hca->rail[rail].name,
             gone ? "has failed completely" : "is down");
    for (uint32_t id = 0; id < hca->rdma.params.size; id++) {
        struct hca_peer *peer = hca_peer_at(hca, id);
        bool known = peer != NULL && peer->addr.rails != 0; /* how many it has */
        uint32_t all = known ? hca_rails_of(hca, peer) : (1u << hca->rails) - 1;
        if (gone && peer != NULL && (all & ~hca->gone) == 0) {
            aqi_rdma_fail(&hca->rdma, &peer->rdma, "%s, and no other adapter reaches this peer",
                          why);
            continue;
        }
        bool uses = peer != NULL && (peer->state == HCA_UP || peer->state == HCA_CALLING) &&
                    !hca_has_rail(peer->failed, rail);
        if (uses && (hca_rails_of(hca, peer) & ~(1u << rail)) != 0)
            hca_repair_without(hca, peer, rail, why);
        if (gone && peer != NULL) peer->failed |= 1u << rail; /* regardless of its state */
    }
}

void hca_repair_port_back(struct hca_tp *hca, unsigned rail, bool moved)
{
    char why[128];
    snprintf(why, sizeof(why), "%s is back%s", hca->rail[rail].name,
             moved ? " with another address" : "");
    for (uint32_t id = 0; id < hca->rdma.params.size && !hca->rdma.draining; id++) {
        struct hca_peer *peer = hca_peer_at(hca, id);
        if (peer == NULL || !hca_has_rail(hca_rails_of(hca, peer), rail)) continue;
        bool left_out = hca_has_rail(peer->failed, rail);
        if ((peer->state != HCA_UP && peer->state != HCA_CALLING) || !(left_out || moved)) continue;
        if (left_out) aqi_count(AQI_CTR_RAILS_BACK, 1);
        peer->failed &= ~(1u << rail);
        hca_repair_begin(hca, peer, 0, why);
    }
}

/* --- silence --------------------------------------------------------------------------------- */

/*
 * How long an adapter may take. Its timer is only accurate to a factor of four (InfiniBand
 * Architecture Specification, volume 1, 9.7.6.1.3). The time doubles after each failure; otherwise
 * a merely slow connection would never succeed.
 */
static uint64_t hca_repair_timeout(const struct hca_link *link)
{
    uint64_t ns = hca_config.silence_ns;
    if (ns == 0) ns = 4 * (hca_config.retries + 1) * (UINT64_C(4096) << hca_config.timeout);
    return ns << aqi_min(link->stalls, 10);
}

/*
 * Software RoCE sometimes loses its timer. If only unsignaled messages are in flight, post a
 * signaled request, whose completion will show that they are complete.
 */
static void hca_repair_look_at(struct hca_tp *hca, struct hca_peer *peer, unsigned rail)
{
    struct hca_link *link = &peer->link[rail];
    if (link->tail != link->last_tail) link->stalls = 0;
    if (link->tail != link->last_tail || link->since == 0) {
        link->last_tail = link->tail;
        link->since = link->tail != link->head ? hca->rdma.now : 0;
    }
    if (link->since == 0 || hca->rdma.now - link->since < hca_repair_timeout(link)) return;
    link->since = hca->rdma.now;
    if (link->unsignaled == link->head - link->tail) {
        hca_link_mark(hca, peer, rail);
        return;
    }
    link->stalls++;
    char why[128];
    snprintf(why, sizeof(why), "%s does not report the outcome of its sends", hca->rail[rail].name);
    hca_repair_without(hca, peer, rail, why);
}

void hca_repair_look(struct hca_tp *hca)
{
    for (uint32_t id = 0; hca->out != 0 && id < hca->rdma.params.size; id++) {
        struct hca_peer *peer = hca_peer_at(hca, id);
        for (unsigned r = 0; r < hca->rails && peer != NULL && peer->state == HCA_UP; r++)
            hca_repair_look_at(hca, peer, r);
    }
}

uint64_t hca_repair_deadline(const struct hca_tp *hca)
{
    uint64_t first = AQI_NO_DEADLINE;
    for (uint32_t id = 0; hca->out != 0 && id < hca->rdma.params.size; id++) {
        const struct hca_peer *peer = hca_peer_at(hca, id);
        for (unsigned r = 0; r < hca->rails && peer != NULL && peer->state == HCA_UP; r++) {
            const struct hca_link *link = &peer->link[r];
            if (link->tail == link->head) continue;
            uint64_t since = link->since != 0 ? link->since : hca->rdma.now;
            first = aqi_min(first, since + hca_repair_timeout(link));
        }
    }
    return first;
}

/* --- requests in flight ---------------------------------------------------------------------- */

/*
 * Take posted requests that have not completed. A dying process may release its memory before its
 * connections, so a rejected access is tried once more: if the process answers, it is alive, and
 * the range is wrong.
 */
static void hca_repair_keep(struct hca_tp *hca, struct hca_peer *peer, struct hca_link *link)
{
    while (link->tail != link->head) {
        struct hca_sent *sent = hca_link_take(hca, link);
        if (sent->straight) {
            hca_transfer_again(hca, peer, sent);
        } else if (hca_transfer_lent_again(hca, sent)) {
            hca_sent_end(hca, sent, AQ_OK);
        } else if (sent->refused && hca_sent_op(sent)->refused) {
            hca_sent_end(hca, sent, AQ_ERANGE);
        } else if (sent->piece.op != NULL || sent->piece.buf != NULL) {
            if (sent->refused) hca_sent_op(sent)->refused = true;
            sent->refused = false;
            peer->again[peer->again_count++] = *sent;
        }
    }
}

void hca_repair_forget(struct hca_tp *hca, struct hca_peer *peer)
{
    while (peer->again_first < peer->again_count)
        hca_sent_end(hca, &peer->again[peer->again_first++], AQ_EPEER);
    if (peer->again != NULL) hca->rdma.waiting--;
    free(peer->again);
    peer->again = NULL;
    peer->again_first = peer->again_count = 0;
}

/* Requests left from an earlier repair come first. */
static bool hca_repair_collect(struct hca_tp *hca, struct hca_peer *peer)
{
    uint32_t left = peer->again_count - peer->again_first, count = left;
    for (unsigned r = 0; r < HCA_RAILS; r++)
        count += peer->link[r].head - peer->link[r].tail;
    struct hca_sent *again = calloc(count + 1, sizeof(*again));
    if (again == NULL) return false;
    /* Reposted messages precede those still left, so those of the links are the earlier ones. */
    struct hca_sent *old = peer->again;
    if (old == NULL) hca->rdma.waiting++;
    hca->rdma.whole = true;
    uint32_t first = peer->again_first;
    peer->again = again;
    peer->again_first = peer->again_count = 0;
    for (unsigned r = 0; r < HCA_RAILS; r++)
        hca_repair_keep(hca, peer, &peer->link[r]);
    for (uint32_t i = 0; i < left; i++)
        peer->again[peer->again_count++] = old[first + i];
    free(old);
    return true;
}

/* --- new queue pairs ------------------------------------------------------------------------- */

static void hca_repair_peer(struct hca_tp *hca, struct hca_peer *peer)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    for (unsigned r = 0; r < HCA_RAILS; r++)
        if (peer->link[r].qp != NULL)
            (void)hca_verbs.modify_qp(peer->link[r].qp, &error, IBV_QP_STATE);
    /* Requests acknowledged by the peer's adapter have arrived, and are complete. */
    while (hca_progress_queues(hca, AQI_PROGRESS_REPLIES) != 0)
        continue;
    if (peer->state == HCA_DOWN) return; /* the job has reported its death meanwhile */
    if (!hca_repair_collect(hca, peer)) {
        aqi_rdma_fail(&hca->rdma, &peer->rdma, "no memory to re-establish its connection");
        return;
    }
    hca_links_destroy(hca, peer);
    peer->generation++;
    if ((int32_t)(peer->wanted - peer->generation) > 0) peer->generation = peer->wanted;
    peer->broken = peer->connected = false;
    peer->state = HCA_IDLE;
    hca_greet_begin(hca, peer);
}

void hca_repair(struct hca_tp *hca)
{
    while (hca->broken != NULL) {
        struct hca_peer *peer = hca->broken;
        hca->broken = peer->next_broken;
        hca_repair_peer(hca, peer);
    }
}

void hca_repair_resume(struct hca_tp *hca, struct hca_peer *peer)
{
    while (peer->again_first < peer->again_count && peer->state == HCA_UP) {
        struct hca_sent *sent = &peer->again[peer->again_first];
        aq_status st = AQ_OK;
        if (sent->piece.op != NULL && hca_long_arrived(peer, hca_sent_op(sent)))
            hca_sent_end(hca, sent, AQ_OK); /* its handler may have run: nothing may be rewritten */
        else if (sent->piece.op != NULL)
            st = hca_transfer_issue(hca, peer, sent);
        else if ((int32_t)(sent->number - peer->arrived) < 0)
            hca_sent_end(hca, sent, AQ_OK);
        else
            st = hca_message_send(hca, peer, sent->piece.buf, sent->number);
        if (st != AQ_OK) return; /* no room, or the rail has failed and everything was dropped */
        peer->again_first++;
    }
    if (peer->state == HCA_UP) hca_repair_forget(hca, peer);
}
