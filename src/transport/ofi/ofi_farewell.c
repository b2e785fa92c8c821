/*
 * ofi: notifying peers that they are lost here. Otherwise a peer that waits for this process would
 * wait forever: it does not treat silence as a failure, and the job reports no death. The existing
 * connection may be unusable: once the source of a put has become unreadable, tcp;ofi_rxm (1.17)
 * sends nothing more on it, but does not close it. So FAREWELL is sent from a second endpoint,
 * which makes a new connection and is closed a moment later. If it does not arrive, for instance
 * because the peer is computing, it is sent again when the peer sends a query (ofi_flush.c).
 */
#include "transport/ofi/ofi_impl.h"

#include "base/log.h"

#include <string.h>

/* Time to connect and send; time for sent messages to leave. */
static const uint64_t ofi_farewell_most_ns = 5000000000, ofi_farewell_last_ns = 1000000000;

void ofi_farewell_begin(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    bool knows = peer->rdma.lost || peer->parted; /* it has ended, or has sent FAREWELL itself */
    peer->unaware = !knows && peer->addr != FI_ADDR_NOTAVAIL && ofi->domain != NULL;
    ofi_farewell_again(ofi, peer);
}

void ofi_farewell_again(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    if (!peer->unaware || peer->parting || ofi->rdma.draining) return;
    peer->parting = true;
    peer->there = FI_ADDR_NOTAVAIL;
    ofi->farewell.due = true;
    ofi->farewell.until = AQI_NO_DEADLINE; /* progress sets when */
}

void ofi_farewell_received(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    peer->parted = true;
    aqi_rdma_fail(&ofi->rdma, &peer->rdma,
                  "it reported that it has lost its connection to this process; its messages "
                  "(%s=info) show why",
                  aqi_setting_variable("AQ_LOG"));
}

/* --- the endpoint ---------------------------------------------------------------------------- */

static int ofi_farewell_open(struct ofi_tp *ofi)
{
    struct ofi_farewell *from = &ofi->farewell;
    struct fi_av_attr av = {.type = ofi->info->domain_attr->av_type,
                            .count = ofi->rdma.params.size};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
    int err = fi_av_open(ofi->domain, &av, &from->av, NULL);
    if (err == 0) err = fi_cq_open(ofi->domain, &cq, &from->cq, NULL);
    if (err == 0) err = fi_endpoint(ofi->domain, ofi->info, &from->ep, NULL);
    return err == 0 ? ofi_endpoint_enable(from->ep, from->av, from->cq) : err;
}

void ofi_farewell_close(struct ofi_tp *ofi)
{
    struct ofi_farewell *from = &ofi->farewell;
    ofi_endpoint_drop(from->ep);
    ofi_endpoint_drop(from->cq);
    ofi_endpoint_drop(from->av);
    *from = (struct ofi_farewell){0};
}

/* The endpoint makes no progress, not even with connecting, unless its queue is polled. */
static void ofi_farewell_poll(const struct ofi_farewell *from)
{
    struct fi_cq_data_entry entry;
    struct fi_cq_err_entry failed = {0};
    if (fi_cq_read(from->cq, &entry, 1) == -FI_EAVAIL) (void)fi_cq_readerr(from->cq, &failed, 0);
}

/* --- messages -------------------------------------------------------------------------------- */

static int ofi_farewell_find(const struct ofi_tp *ofi, struct ofi_peer *peer)
{
    unsigned char name[OFI_NAME];
    size_t len = sizeof(name);
    int err = fi_av_lookup(ofi->av, peer->addr, name, &len);
    if (err != 0 || len > sizeof(name)) return -FI_EINVAL;
    return fi_av_insert(ofi->farewell.av, name, 1, &peer->there, 0, NULL) == 1 ? 0 : -FI_EAGAIN;
}

/* Injected, so that its memory need not be registered for this endpoint. */
static ssize_t ofi_farewell_say(const struct ofi_tp *ofi, struct ofi_peer *peer)
{
    _Alignas(OFI_ALIGN) unsigned char bytes[2 * OFI_ALIGN] = {0};
    const struct aqi_am_wire head = ofi_message_own(ofi, OFI_FAREWELL);
    const struct ofi_tail tail = {.arrived = peer->received};
    static_assert(sizeof(head) + sizeof(tail) == sizeof(bytes), "the tail is at the end");
    if (sizeof(bytes) > ofi->info->tx_attr->inject_size) return -FI_EMSGSIZE;
    int err = peer->there == FI_ADDR_NOTAVAIL ? ofi_farewell_find(ofi, peer) : 0;
    if (err != 0) return err;
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), &tail, sizeof(tail));
    return fi_inject(ofi->farewell.ep, bytes, sizeof(bytes), peer->there);
}

/* Returns whether some have to be sent again, for lack of room. */
static bool ofi_farewell_say_all(struct ofi_tp *ofi)
{
    bool more = false;
    for (uint32_t id = 0; id < ofi->rdma.params.size; id++) {
        struct ofi_peer *peer = ofi_peer_at(ofi, id);
        if (peer == NULL || !peer->parting) continue;
        ssize_t err = ofi_farewell_say(ofi, peer);
        peer->parting = err == -FI_EAGAIN;
        more = more || peer->parting;
        if (err == 0 || peer->parting) continue;
        peer->unaware = false; /* it would fail again */
        aqi_log(AQI_LOG_INFO, "ofi", "rank %u could not be notified that it is lost here: %s", id,
                ofi_library.strerror((int)-err));
    }
    return more;
}

/* Peers that were not reached are notified when they send a query, unless `for_good`. */
static void ofi_farewell_end(struct ofi_tp *ofi, bool for_good)
{
    for (uint32_t id = 0; id < ofi->rdma.params.size; id++) {
        struct ofi_peer *peer = ofi_peer_at(ofi, id);
        if (peer == NULL || !peer->parting) continue;
        peer->parting = false;
        peer->unaware = !for_good;
    }
    ofi_farewell_close(ofi);
}

void ofi_farewell_push(struct ofi_tp *ofi)
{
    struct ofi_farewell *from = &ofi->farewell;
    uint64_t now = ofi->rdma.now;
    int err = from->ep == NULL ? ofi_farewell_open(ofi) : 0;
    if (err != 0)
        aqi_log(AQI_LOG_INFO, "ofi",
                "%s: no endpoint for notifying peers that they are lost here: %s", ofi_name(ofi),
                ofi_library.strerror(-err));
    if (err == 0) {
        ofi_farewell_poll(from);
        uint64_t most = ofi_farewell_say_all(ofi) ? ofi_farewell_most_ns : ofi_farewell_last_ns;
        from->until = aqi_min(from->until, now + most);
    }
    if (err != 0 || now >= from->until) ofi_farewell_end(ofi, err != 0);
}
