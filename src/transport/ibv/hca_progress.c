/* ibv: completions, timers, lost peers, and sleeping until there is something to do. */
#include "transport/ibv/hca_impl.h"

#define HCA_LOOK_NS UINT64_C(10000000)

/* Complete a straight transfer that is the oldest entry of its link, like almost all sends. Returns
 * false if the completion is another one. */
static AQI_INLINE bool hca_progress_straight(struct hca_tp *hca, const struct ibv_wc *wc)
{
    struct hca_link *link =
        &hca_peer_at(hca, (uint32_t)(wc->wr_id >> 32))->link[wc->wr_id >> 2 & (HCA_RAILS - 1)];
    uint32_t place = link->tail;
    const struct hca_sent *sent = hca_link_place(hca, link, place);
    if (AQI_UNLIKELY(wc->wr_id != hca_wr_of_place(link, place) || wc->qp_num != link->qpn ||
                     wc->status != IBV_WC_SUCCESS || !sent->straight))
        return false;
    link->tail = place + 1;
    link->pieces--;
    hca->out--;
    hca_transfer_straight_end(sent, AQ_OK);
    return true;
}

static AQI_NOINLINE unsigned hca_progress_one(struct hca_tp *hca, struct hca_rail *rail,
                                              const struct ibv_wc *wc, enum aqi_progress_mode mode)
{
    unsigned r = (unsigned)(rail - hca->rail);
    switch (wc->wr_id & 3) {
    case HCA_WR_SEND:
        if (!hca_progress_straight(hca, wc)) hca_link_completed(hca, wc);
        return 1;
    case HCA_WR_RECEIVE:
        return hca_message_received(hca, r, wc, mode);
    case HCA_WR_GREETING:
        hca_greet_received(hca, r, wc);
        return 1;
    default:
        hca_greet_sent(hca, r, wc);
        return 0;
    }
}

/*
 * Handle completions one by one, since other threads or nested handlers may take the next one, and
 * poll others into its place.
 */
static AQI_NOINLINE unsigned hca_progress_found(struct hca_tp *hca, struct hca_rail *rail,
                                                enum aqi_progress_mode mode)
{
    unsigned n = 0;
    for (unsigned most = AQI_RDMA_BATCH; most != 0 && rail->found_next != rail->found_end; most--)
        n += hca_progress_one(hca, rail, rail->found_next++, mode);
    return n;
}

static inline int hca_progress_poll(struct hca_rail *rail)
{
    return ibv_poll_cq(rail->cq, AQI_RDMA_BATCH, rail->found);
}

static inline bool hca_progress_keep(struct hca_rail *rail, int found)
{
    if (found <= 0) return false;
    rail->found_next = rail->found;
    rail->found_end = rail->found + found;
    return true;
}

/* A process that computes between its polls finds many completions at once, and the senders wait
 * for credits. So one poll handles all that were there when it began, but no more than the queue
 * holds, since senders may continue meanwhile. */
static AQI_NOINLINE unsigned hca_progress_many(struct hca_tp *hca, struct hca_rail *rail,
                                               enum aqi_progress_mode mode)
{
    unsigned n = 0;
    int left = mode == AQI_PROGRESS_ALL ? rail->cq->cqe : 0, found;
    do {
        n += hca_progress_found(hca, rail, mode);
        left -= AQI_RDMA_BATCH;
        if (left <= 0 || rail->found_next != rail->found_end) break;
        found = hca_progress_poll(rail);
    } while (hca_progress_keep(rail, found));
    return n;
}

/* The usual case: no completions left from before, and at most one new one. */
static AQI_INLINE unsigned hca_progress_rail(struct hca_tp *hca, unsigned r,
                                             enum aqi_progress_mode mode)
{
    struct hca_rail *rail = &hca->rail[r];
    if (AQI_UNLIKELY(rail->found_next != rail->found_end))
        return hca_progress_found(hca, rail, mode);
    int found = hca_progress_poll(rail);
    const struct ibv_wc *wc = rail->found;
    if (AQI_LIKELY(found == 1)) {
        unsigned what = wc->wr_id & 3;
        if (what == HCA_WR_SEND && hca_progress_straight(hca, wc)) return 1;
        if (what == HCA_WR_RECEIVE) return hca_message_received(hca, r, wc, mode);
    }
    if (!hca_progress_keep(rail, found)) return 0;
    return found == AQI_RDMA_BATCH ? hca_progress_many(hca, rail, mode)
                                   : hca_progress_found(hca, rail, mode);
}

static AQI_NOINLINE unsigned hca_progress_other_rails(struct hca_tp *hca,
                                                      enum aqi_progress_mode mode)
{
    unsigned n = 0;
    for (unsigned r = 1; r < hca->rails; r++)
        n += hca_progress_rail(hca, r, mode);
    return n;
}

static AQI_INLINE unsigned hca_progress_rails(struct hca_tp *hca, enum aqi_progress_mode mode)
{
    unsigned n = 0;
    if (AQI_UNLIKELY(hca->rings.open != 0)) n = hca_rings_progress(hca, mode);
    n += hca_progress_rail(hca, 0, mode);
    return AQI_LIKELY(hca->rails == 1) ? n : n + hca_progress_other_rails(hca, mode);
}

unsigned hca_progress_queues(struct hca_tp *hca, enum aqi_progress_mode mode)
{
    return hca_progress_rails(hca, mode);
}

/*
 * Work that adapters do not signal. Timers and unmapped memory are checked in whole rounds anyway.
 */
static inline bool hca_progress_is_due(const struct hca_tp *hca)
{
    return ((uintptr_t)hca->rdma.held | (uintptr_t)hca->broken | (uintptr_t)hca->rdma.lost |
            (uintptr_t)hca->greeter.calling | hca->rdma.waiting) != 0 ||
           hca->rdma.pins.due || hca->rdma.lending.on;
}

unsigned hca_progress_short(struct aqi_tp *tp, uint32_t watch)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    (void)watch;
    aqi_rdma_lock(&hca->rdma);
    if (AQI_UNLIKELY(hca->rdma.whole)) {
        aqi_rdma_unlock(&hca->rdma);
        return tp->ops.progress(tp, AQI_PROGRESS_ALL, tp->hooks.now(tp->hooks.host));
    }
    unsigned n = hca_progress_rails(hca, AQI_PROGRESS_ALL);
    aqi_rdma_unlock(&hca->rdma);
    return n;
}

static void hca_progress_look(struct hca_tp *hca)
{
    hca->looked = hca->rdma.now;
    hca_events_look(hca);
    hca_repair_look(hca);
}

unsigned hca_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    aqi_rdma_begin_round(&hca->rdma, now);
    unsigned n = aqi_rdma_run_held(&hca->rdma, mode);
    n += hca_progress_queues(hca, mode);
    if (n == 0 && AQI_UNLIKELY(hca->rdma.now - hca->looked >= HCA_LOOK_NS)) hca_progress_look(hca);
    if (AQI_UNLIKELY(hca->broken != NULL)) hca_repair(hca);
    if (hca->greeter.calling != NULL) hca_greet_timers(hca);
    aqi_rdma_serve_memory(&hca->rdma);
    hca->rdma.whole = hca_progress_is_due(hca);
    return n + aqi_rdma_end_round(&hca->rdma, mode);
}

static void hca_progress_disarm(struct hca_tp *hca)
{
    struct ibv_cq *cq;
    void *user;
    for (unsigned r = 0; r < hca->rails; r++) {
        struct hca_rail *rail = &hca->rail[r];
        while (hca_verbs.get_cq_event(rail->channel, &cq, &user) == 0)
            hca_verbs.ack_cq_events(cq, 1);
    }
    hca->looked = 0; /* an asynchronous event of an adapter may have been the cause */
}

/* Events are only generated for completions after the queue was armed, so poll once more. */
static bool hca_progress_rail_arm(struct hca_rail *rail)
{
    if (rail->found_next != rail->found_end) return false;
    if (ibv_req_notify_cq(rail->cq, 0) != 0) return false;
    return !hca_progress_keep(rail, hca_progress_poll(rail));
}

aq_status hca_arm(struct aqi_tp *tp, bool on)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    aqi_rdma_lock(&hca->rdma);
    bool go = true;
    if (!on) hca_progress_disarm(hca);
    if (on)
        go = hca->rdma.held == NULL && hca->rdma.lost == NULL &&
             hca->rdma.lending.refused.first == NULL && hca_rings_sleep(hca);
    for (unsigned r = 0; r < hca->rails && on && go; r++)
        go = hca_has_rail(hca->gone, r) || hca_progress_rail_arm(&hca->rail[r]);
    aqi_rdma_unlock(&hca->rdma);
    return go ? AQ_OK : AQ_AGAIN;
}
