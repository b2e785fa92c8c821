/* ibv: the driver for the engine (rdma.h). */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/log.h"

#include <errno.h>

/* --- memory ---------------------------------------------------------------------------------- */

static_assert((int)HCA_RAILS == (int)AQI_RDMA_RAILS && HCA_RAILS * sizeof(uint32_t) <= AQI_RDMA_KEY,
              "the engine has room for the registrations and keys of all rails");

static aq_status hca_driver_reg(struct aqi_rdma *rdma, void *addr, size_t len,
                                enum aqi_pins_access access, void *mr[AQI_RDMA_RAILS])
{
    static const int rights[] = {[AQI_PINS_READ] = 0,
                                 [AQI_PINS_WRITE] = IBV_ACCESS_LOCAL_WRITE,
                                 [AQI_PINS_PEERS] = HCA_ACCESS,
                                 [AQI_PINS_BUFFERS] = IBV_ACCESS_LOCAL_WRITE};
    if (hca_rails_register((struct hca_tp *)rdma, mr, addr, len, rights[access])) return AQ_OK;
    bool full = errno == ENOMEM;
    hca_rails_deregister(rdma, mr);
    return full ? AQ_ELIMIT : AQ_ENOTSUP;
}

static size_t hca_driver_key(struct aqi_rdma *rdma, void *const mr[AQI_RDMA_RAILS], uint64_t addr,
                             void *key)
{
    unsigned rails = ((const struct hca_tp *)rdma)->rails;
    uint32_t *rkey = key;
    (void)addr;
    for (unsigned r = 0; r < rails; r++)
        rkey[r] = hca_rkey_of(mr[r]);
    return rails * sizeof(*rkey);
}

/* --- messages -------------------------------------------------------------------------------- */

/* Buffers of unsignaled sends are returned only with a later, signaled one: post one on each
 * link. */
static void hca_driver_signal_all(struct hca_tp *hca)
{
    hca->silent_most = 0;
    for (uint32_t id = 0; id < hca->rdma.params.size; id++)
        for (unsigned r = 0; hca_peer_at(hca, id) != NULL && r < hca->rails; r++)
            hca_link_mark(hca, hca_peer_at(hca, id), r);
}

aq_status hca_buf_short(struct hca_tp *hca, struct hca_peer *peer, uint32_t mine)
{
    static atomic_bool once;
    aqi_log_once(&once, AQI_LOG_WARN, "ibv", "no more message buffers can be registered: %s",
                 aq_error_message());
    if (hca->rdma.bounced > mine) {
        hca_driver_signal_all(hca);
        return AQ_AGAIN;
    }
    aqi_rdma_fail(&hca->rdma, &peer->rdma, "no buffer for messages: %s", aq_error_message());
    return AQ_EPEER;
}

static aq_status hca_driver_buffer(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer,
                                   struct aqi_rdma_buf **buf)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    uint32_t more = hca->depth + AQI_LENDING_MESSAGES;
    *buf = aqi_rdma_bounce_get(rdma, more);
    return *buf != NULL ? AQ_OK : hca_bounce_none(hca, (struct hca_peer *)peer, more);
}

static aq_status hca_driver_send(struct aqi_rdma *rdma, struct aqi_rdma_peer *to,
                                 struct aqi_rdma_buf *buf)
{
    struct hca_peer *peer = (struct hca_peer *)to;
    aq_status st = hca_message_send((struct hca_tp *)rdma, peer, buf, peer->number);
    if (st != AQ_OK) aqi_rdma_bounce_put(rdma, buf);
    return st;
}

/* --- transfers and peers --------------------------------------------------------------------- */

static bool hca_driver_lent(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    const struct hca_peer *peer = (const struct hca_peer *)op->peer;
    unsigned rails = ((const struct hca_tp *)rdma)->rails;
    return op->loan->wait.use.mem->key_len >= aqi_min(rails, peer->addr.rails) * sizeof(uint32_t);
}

static aq_status hca_driver_meet(struct aqi_rdma *rdma, struct aqi_rdma_peer *to, uint32_t host)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    struct hca_peer *peer = (struct hca_peer *)to;
    const struct hca_place *there = &peer->addr.place[0];
    (void)host;
    hca_peer_begin(peer);
    aq_status st = hca_greet_find(hca, peer);
    if (st == AQ_EPROTO)
        return aqi_fail(st, "ibv", "the address of peer %u is malformed", to->peer.id);
    if (st != AQ_OK || there->link_layer == hca->rail[0].place.link_layer) return st;
    static atomic_bool once;
    aqi_log_once(&once, AQI_LOG_WARN, "ibv", "no route to rank %u %s", to->peer.id,
                 hca_advice_path(&hca->rail[0], there).text);
    return AQ_ENOTSUP;
}

static void hca_driver_push(struct aqi_rdma *rdma, struct aqi_rdma_peer *to)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    struct hca_peer *peer = (struct hca_peer *)to;
    if (peer->again != NULL) hca_repair_resume(hca, peer);
    aqi_rdma_push(rdma, to);
}

static bool hca_driver_is_quiet(struct aqi_rdma *rdma, struct aqi_rdma_peer *to)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    struct hca_peer *peer = (struct hca_peer *)to;
    if (to->ops != NULL || peer->again != NULL || peer->state == HCA_CALLING) return false;
    bool quiet = true;
    for (unsigned r = 0; r < hca->rails; r++) {
        hca_link_mark(hca, peer, r);
        quiet = quiet && peer->link[r].head == peer->link[r].tail;
    }
    return quiet;
}

static void hca_driver_down(struct aqi_rdma *rdma, struct aqi_rdma_peer *lost)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    struct hca_peer *peer = (struct hca_peer *)lost;
    hca_greet_end(hca, peer);
    peer->state = HCA_DOWN;
    hca_links_end(hca, peer, AQ_EPEER);
    aqi_rdma_fail_transfers(rdma, lost, true);
}

const struct aqi_rdma_driver hca_driver = {.name = "ibv",
                                           .buf_size = sizeof(struct aqi_rdma_buf),
                                           .op_size = sizeof(struct hca_op),
                                           .peer_size = sizeof(struct hca_peer),
                                           .pins = true,
                                           .reg = hca_driver_reg,
                                           .dereg = hca_rails_deregister,
                                           .key = hca_driver_key,
                                           .mem_reg = hca_mem_reg,
                                           .mem_lent = hca_mem_lent,
                                           .mem_drop = hca_mem_drop,
                                           .ready = hca_message_ready,
                                           .buffer = hca_driver_buffer,
                                           .send = hca_driver_send,
                                           .taken = hca_message_again,
                                           .handle = hca_message_request,
                                           .reach = hca_transfer_reach,
                                           .straight = hca_transfer_at_once,
                                           .post = hca_transfer_post,
                                           .void_long = hca_long_void,
                                           .lent = hca_driver_lent,
                                           .meet = hca_driver_meet,
                                           .push = hca_driver_push,
                                           .is_quiet = hca_driver_is_quiet,
                                           .down = hca_driver_down};
