/* ofi: the driver for the engine (rdma.h). */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"

#include <string.h>

/* --- memory ---------------------------------------------------------------------------------- */

static const unsigned char ofi_key_magic[4] = {'o', 'f', 'i', 'k'};

static struct fid_mr *ofi_driver_register(struct ofi_tp *ofi, void *addr, size_t len,
                                          uint64_t access, int *err)
{
    struct fid_mr *mr = NULL;
    /* Without FI_MR_PROV_KEY we choose the keys: never one twice, nor FI_KEY_NOTAVAIL. */
    size_t bits = 8 * ofi->info->domain_attr->mr_key_size;
    uint64_t most = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX >> 1;
    uint64_t key = ofi_wants(ofi, FI_MR_PROV_KEY) ? 0 : ofi->next_key++ & most;
    *err = -fi_mr_reg(ofi->domain, addr, len, access, 0, key, 0, &mr, NULL);
    if (*err != 0 || !ofi_wants(ofi, FI_MR_ENDPOINT)) return *err == 0 ? mr : NULL;
    *err = -fi_mr_bind(mr, &ofi->ep->fid, 0);
    if (*err == 0) *err = -fi_mr_enable(mr);
    if (*err == 0) return mr;
    fi_close(&mr->fid);
    return NULL;
}

static void ofi_driver_explain(const struct ofi_tp *ofi, size_t len, const char *why)
{
    aqi_fail_quiet(AQ_ELIMIT,
                   "%s cannot register %zu bytes (%s); \"ulimit -l\" shows whether locked memory "
                   "is limited",
                   ofi_name(ofi), len, why);
}

static aq_status ofi_driver_reg(struct aqi_rdma *rdma, void *addr, size_t len,
                                enum aqi_pins_access access, void *mr[AQI_RDMA_RAILS])
{
    static const uint64_t rights[] = {[AQI_PINS_READ] = FI_WRITE,
                                      [AQI_PINS_WRITE] = FI_WRITE | FI_READ,
                                      [AQI_PINS_PEERS] =
                                          FI_WRITE | FI_READ | FI_REMOTE_WRITE | FI_REMOTE_READ,
                                      [AQI_PINS_BUFFERS] = FI_WRITE | FI_READ | FI_SEND | FI_RECV};
    struct ofi_tp *ofi = (struct ofi_tp *)rdma;
    int err;
    if (access == AQI_PINS_BUFFERS && !ofi_wants(ofi, FI_MR_LOCAL)) return AQ_OK;
    mr[0] = ofi_driver_register(ofi, addr, len, rights[access], &err);
    if (mr[0] != NULL) return AQ_OK;
    ofi_driver_explain(ofi, len, ofi_library.strerror(err));
    return err == FI_ENOMEM || err == FI_ENOSPC || err == FI_EAGAIN ? AQ_ELIMIT : AQ_ENOTSUP;
}

static void ofi_driver_dereg(struct aqi_rdma *rdma, void *mr[AQI_RDMA_RAILS])
{
    (void)rdma;
    ofi_endpoint_drop(mr[0]);
}

/* --- keys ------------------------------------------------------------------------------------ */

static size_t ofi_driver_key(struct aqi_rdma *rdma, void *const mr[AQI_RDMA_RAILS], uint64_t addr,
                             void *key)
{
    uint64_t *words = key; /* the key, and the address of the first byte */
    words[0] = fi_mr_key(mr[0]);
    words[1] = ofi_wants((const struct ofi_tp *)rdma, FI_MR_VIRT_ADDR) ? addr : 0;
    return 2 * sizeof(*words);
}

/* In one part. */
static aq_status ofi_driver_split(struct aqi_rdma *rdma, size_t len, uint8_t *shift)
{
    (void)len;
    *shift = 63;
    return ((const struct ofi_tp *)rdma)->without & OFI_REMOTE ? AQ_ENOTSUP : AQ_OK;
}

static size_t ofi_driver_seal(struct aqi_rdma *rdma, const struct aqi_rdma_mem *mem, void *out)
{
    struct ofi_key *key = out;
    uint64_t words[2] = {0};
    if (mem->parts != 0) (void)ofi_driver_key(rdma, mem->mr[0], (uintptr_t)mem->mem.addr, words);
    *key = (struct ofi_key){.lent = mem->parts == 0, .base = words[1], .keys = {words[0]}};
    memcpy(key->magic, ofi_key_magic, sizeof(ofi_key_magic));
    if (words[0] != FI_KEY_NOTAVAIL) return ofi_key_len(1);
    ofi_driver_explain((const struct ofi_tp *)rdma, mem->mem.len, "it has no key");
    return 0;
}

static aq_status ofi_driver_map(struct aqi_rdma *rdma, const void *key, size_t key_len,
                                struct aqi_rdma_rmem *out)
{
    const struct ofi_tp *ofi = (const struct ofi_tp *)rdma;
    struct ofi_rmem *rmem = (struct ofi_rmem *)out;
    struct ofi_key given;
    if (key_len < ofi_key_len(ofi->place + 1) || key_len > sizeof(given)) return AQ_EPROTO;
    memcpy(&given, key, key_len);
    bool remote = (ofi->without & OFI_REMOTE) == 0;
    /* A peer may lend although we do not, if only its self-test has passed. */
    if (memcmp(given.magic, ofi_key_magic, 4) != 0 ||
        given.lent > (remote ? ofi->rdma.lending.on : 1))
        return AQ_EPROTO;
    rmem->key = given.keys[ofi->place];
    rmem->base = given.base;
    out->lent = given.lent != 0;
    return remote ? AQ_OK : AQ_ENOTSUP;
}

/* --- on demand ------------------------------------------------------------------------------- */

/*
 * The limit on registrations: half of the adapter's are for segments and buffers, the rest is
 * divided among the processes of this host.
 */
static uint64_t ofi_pins_most(const struct ofi_tp *ofi)
{
    uint64_t all = ofi->info->domain_attr->mr_cnt / 2;
    uint64_t most = all != 0 ? aqi_max(1, all / aqi_max(1, ofi->rdma.params.local_size)) : 0;
    if (most == 0 || ofi_config.registrations == 0) return aqi_max(most, ofi_config.registrations);
    return aqi_min(most, ofi_config.registrations);
}

/*
 * Deregister changed memory at once (`cut`) only if the provider pins pages. Others access whatever
 * is mapped at the address, and some never complete a rejected access.
 */
aq_status ofi_pins_open(struct ofi_tp *ofi)
{
    bool pins = ofi->rdma.lending.on || ofi_wants(ofi, FI_MR_LOCAL);
    bool cut = ofi_wants(ofi, FI_MR_ALLOCATED);
    return pins ? aqi_pins_open(&ofi->rdma, ofi_pins_most(ofi), cut) : AQ_OK;
}

/* --- messages, transfers and peers ----------------------------------------------------------- */

static aq_status ofi_driver_buffer(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer,
                                   enum aqi_rdma_message kind, struct aqi_rdma_buf **buf)
{
    bool room = ofi_message_room((struct ofi_tp *)rdma, kind != AQI_RDMA_REQUEST);
    (void)peer;
    *buf = room ? aqi_rdma_get(rdma) : NULL;
    return *buf != NULL ? AQ_OK : AQ_AGAIN;
}

static void ofi_driver_taken(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf)
{
    ofi_receive_drop((struct ofi_tp *)rdma, (struct ofi_buf *)buf);
}

static bool ofi_driver_lent(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    const struct aqi_reg_use *use = &op->loan->wait.use;
    struct ofi_op *own = (struct ofi_op *)op;
    uint64_t words[2];
    (void)rdma;
    if (use->mem->key_len != sizeof(words)) return false;
    memcpy(words, use->mem->key, sizeof(words));
    own->key = words[0];
    own->shift = words[1] - use->mem_addr;
    return own->key != FI_KEY_NOTAVAIL;
}

/* While draining, no peer is queried: all have agreed to leave, and may have left. */
static bool ofi_driver_is_quiet(struct aqi_rdma *rdma, struct aqi_rdma_peer *to)
{
    struct ofi_peer *peer = (struct ofi_peer *)to;
    bool arrived = rdma->draining || ofi_flush_confirmed((struct ofi_tp *)rdma, peer);
    return arrived && peer->sends == 0 && peer->rdma.ops == NULL;
}

const struct aqi_rdma_driver ofi_driver = {.name = "ofi",
                                           .buf_size = sizeof(struct ofi_buf),
                                           .op_size = sizeof(struct ofi_op),
                                           .peer_size = sizeof(struct ofi_peer),
                                           .rmem_size = sizeof(struct ofi_rmem),
                                           .one_thread = true,
                                           .reg = ofi_driver_reg,
                                           .dereg = ofi_driver_dereg,
                                           .key = ofi_driver_key,
                                           .split = ofi_driver_split,
                                           .seal = ofi_driver_seal,
                                           .map = ofi_driver_map,
                                           .ready = ofi_peer_ready,
                                           .buffer = ofi_driver_buffer,
                                           .send = ofi_message_post,
                                           .taken = ofi_driver_taken,
                                           .handle = ofi_message_run,
                                           .reach = ofi_transfer_reach,
                                           .post = ofi_transfer_post,
                                           .am_long = ofi_long_begin,
                                           .void_long = ofi_long_failed,
                                           .lent = ofi_driver_lent,
                                           .meet = ofi_peer_meet,
                                           .push = aqi_rdma_push,
                                           .is_quiet = ofi_driver_is_quiet,
                                           .down = ofi_peer_down,
                                           .where = ofi_peer_where};
