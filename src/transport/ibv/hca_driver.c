/* ibv: the driver for the engine (rdma.h). */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/settings.h"

#include <errno.h>
#include <string.h>

/* --- memory ---------------------------------------------------------------------------------- */

static_assert((int)HCA_RAILS == (int)AQI_RDMA_RAILS && HCA_RAILS * sizeof(uint32_t) <= AQI_RDMA_KEY,
              "the engine has room for the registrations and keys of all rails");

static void hca_driver_dereg(struct aqi_rdma *rdma, void *mr[AQI_RDMA_RAILS])
{
    (void)rdma;
    for (unsigned r = 0; r < HCA_RAILS; r++) {
        if (mr[r] != NULL) hca_verbs.dereg_mr(mr[r]);
        mr[r] = NULL;
    }
}

static aq_status hca_driver_reg(struct aqi_rdma *rdma, void *addr, size_t len,
                                enum aqi_pins_access access, void *mr[AQI_RDMA_RAILS])
{
    static const int rights[] = {[AQI_PINS_READ] = 0,
                                 [AQI_PINS_WRITE] = IBV_ACCESS_LOCAL_WRITE,
                                 [AQI_PINS_PEERS] = IBV_ACCESS_LOCAL_WRITE |
                                                    IBV_ACCESS_REMOTE_WRITE |
                                                    IBV_ACCESS_REMOTE_READ,
                                 [AQI_PINS_BUFFERS] = IBV_ACCESS_LOCAL_WRITE};
    const struct hca_tp *hca = (const struct hca_tp *)rdma;
    for (unsigned r = 0; r < hca->rails; r++) {
        const struct hca_rail *rail = &hca->rail[r];
        if (hca_has_rail(hca->gone, r)) continue;
        mr[r] = hca_verbs.reg_mr(rail->pd, addr, len, rights[access]);
        if (mr[r] != NULL) continue;
        int err = errno;
        aqi_fail_quiet(AQ_ELIMIT, "%s cannot register %zu bytes at %p: %s", rail->name, len, addr,
                       hca_advice_memory(err).text);
        hca_driver_dereg(rdma, mr);
        return err == ENOMEM ? AQ_ELIMIT : AQ_ENOTSUP;
    }
    return AQ_OK;
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

/* --- segments -------------------------------------------------------------------------------- */

static const unsigned char hca_driver_magic[4] = {'i', 'b', 'v', 'k'};

static size_t hca_driver_key_len(const struct hca_key *key)
{
    return offsetof(struct hca_key, rkey) + (size_t)key->rails * key->parts * sizeof(key->rkey[0]);
}

static size_t hca_driver_keys(const struct hca_tp *hca, size_t len, unsigned shift)
{
    return (((len - 1) >> shift) + 1) * hca->rails;
}

/*
 * Parts have the size that is set, or more if a key cannot describe that many parts and the memory
 * cannot be lent instead; but no more than all adapters support.
 */
static aq_status hca_driver_split(struct aqi_rdma *rdma, size_t len, uint8_t *shift)
{
    const struct hca_tp *hca = (const struct hca_tp *)rdma;
    uint64_t most = UINT64_MAX;
    for (unsigned r = 0; r < hca->rails; r++)
        most = aqi_min(most, hca->rail[r].device.max_mr_size);
    unsigned log2 = 63u - (unsigned)__builtin_clzll(aqi_min(hca_config.registration, most) | 1);
    size_t wanted = hca_driver_keys(hca, len, log2), keys = wanted;
    while (keys > HCA_KEYS && !rdma->lending.on && UINT64_C(2) << log2 <= most)
        keys = hca_driver_keys(hca, len, ++log2);
    *shift = (uint8_t)log2;
    if (keys != wanted)
        aqi_log(rdma->params.local_rank == 0 ? AQI_LOG_WARN : AQI_LOG_INFO, "ibv",
                "%s: %zu bytes would take %zu registrations, but the maximum is %u, so each has "
                "%llu bytes instead",
                aqi_setting_variable("AQ_IBV_REGISTRATION"), len, wanted, HCA_KEYS, 1ull << log2);
    if (keys <= HCA_KEYS) return AQ_OK;
    aqi_log(aqi_rdma_loud(rdma), "ibv",
            "%zu bytes would take %zu registrations of %llu bytes, but the maximum is %u, so "
            "they are %s: raise %s if the adapter supports larger ones, or lower %s",
            len, keys, 1ull << log2, HCA_KEYS, aqi_rdma_instead(rdma),
            aqi_setting_variable("AQ_IBV_REGISTRATION"), aqi_setting_variable("AQ_IBV_RAILS"));
    return AQ_ELIMIT;
}

static size_t hca_driver_seal(struct aqi_rdma *rdma, const struct aqi_rdma_mem *mem, void *out)
{
    struct hca_key *key = out;
    unsigned rails = ((const struct hca_tp *)rdma)->rails;
    *key = (struct hca_key){.rails = (uint8_t)rails, .shift = mem->shift, .parts = mem->parts};
    memcpy(key->magic, hca_driver_magic, sizeof(hca_driver_magic));
    for (unsigned i = 0; i < mem->parts * rails; i++)
        key->rkey[i] = hca_rkey_of(mem->mr[i / rails][i % rails]);
    return hca_driver_key_len(key);
}

/* Whether a key of a peer is valid, for memory of `len` bytes. */
static bool hca_driver_key_valid(const struct hca_tp *hca, const struct hca_key *key,
                                 size_t key_len, size_t len)
{
    if (memcmp(key->magic, hca_driver_magic, 4) != 0 || key->rails == 0 || key->rails > HCA_RAILS ||
        key->parts > HCA_KEYS / key->rails || key->shift >= 63 || len == 0 ||
        key_len != hca_driver_key_len(key))
        return false;
    return key->parts != 0 ? (len - 1) >> key->shift == key->parts - 1u : hca->rdma.lending.on;
}

static aq_status hca_driver_map(struct aqi_rdma *rdma, const void *key, size_t key_len,
                                struct aqi_rdma_rmem *out)
{
    struct hca_rmem *rmem = (struct hca_rmem *)out;
    memcpy(&rmem->key, key, aqi_min(key_len, sizeof(rmem->key)));
    out->lent = rmem->key.parts == 0;
    bool valid =
        hca_driver_key_valid((const struct hca_tp *)rdma, &rmem->key, key_len, out->rmem.len);
    return valid ? AQ_OK : AQ_EPROTO;
}

/* --- messages -------------------------------------------------------------------------------- */

/* Buffers of unsignaled sends are returned only with a later, signaled one: post one on each
 * link. */
static void hca_driver_signal_all(struct hca_tp *hca)
{
    hca->max_unsignaled = 0;
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

/* For a reply to a request, a buffer is posted first. */
static aq_status hca_driver_buffer(struct aqi_rdma *rdma, struct aqi_rdma_peer *to,
                                   enum aqi_rdma_message kind, struct aqi_rdma_buf **buf)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    struct hca_peer *peer = (struct hca_peer *)to;
    uint32_t more = kind == AQI_RDMA_REQUEST ? 0 : hca->depth;
    if (kind == AQI_RDMA_OWN) more += AQI_LENDING_MESSAGES;
    *buf = aqi_rdma_bounce_get(rdma, more);
    if (*buf == NULL) return hca_bounce_none(hca, peer, more);
    aq_status st = kind == AQI_RDMA_REQUEST ? hca_message_expect(hca, peer) : AQ_OK;
    if (st != AQ_OK) aqi_rdma_bounce_put(rdma, *buf);
    return st;
}

static aq_status hca_driver_send(struct aqi_rdma *rdma, struct aqi_rdma_peer *to,
                                 struct aqi_rdma_buf *buf)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    struct hca_peer *peer = (struct hca_peer *)to;
    bool ring = hca_ring_is_ours(peer) && !hca_message_is_lending(hca, buf);
    aq_status st = ring ? hca_ring_issue(hca, peer, buf) : AQ_ENOTSUP;
    if (st == AQ_ENOTSUP) st = hca_message_send(hca, peer, buf, peer->number);
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
        return aqi_fail(st, "ibv", "the address of rank %u is malformed", to->peer.id);
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
    hca_links_end(hca, peer);
    aqi_rdma_fail_transfers(rdma, lost, true);
}

const struct aqi_rdma_driver hca_driver = {.name = "ibv",
                                           .buf_size = sizeof(struct aqi_rdma_buf),
                                           .op_size = sizeof(struct hca_op),
                                           .peer_size = sizeof(struct hca_peer),
                                           .rmem_size = sizeof(struct hca_rmem),
                                           .pins = true,
                                           .reg = hca_driver_reg,
                                           .dereg = hca_driver_dereg,
                                           .key = hca_driver_key,
                                           .split = hca_driver_split,
                                           .seal = hca_driver_seal,
                                           .map = hca_driver_map,
                                           .ready = hca_message_ready,
                                           .buffer = hca_driver_buffer,
                                           .send = hca_driver_send,
                                           .taken = hca_message_again,
                                           .handle = hca_message_request,
                                           .reach = hca_transfer_reach,
                                           .straight = hca_transfer_at_once,
                                           .post = hca_transfer_post,
                                           .am_long = hca_long_begin,
                                           .void_long = hca_long_void,
                                           .lent = hca_driver_lent,
                                           .meet = hca_driver_meet,
                                           .push = hca_driver_push,
                                           .is_quiet = hca_driver_is_quiet,
                                           .down = hca_driver_down};
