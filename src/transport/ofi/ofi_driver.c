/* ofi: the driver for the engine (rdma.h). */
#include "transport/ofi/ofi_impl.h"

#include <string.h>

static void ofi_driver_dereg(struct aqi_rdma *rdma, void *mr[AQI_RDMA_RAILS])
{
    (void)rdma;
    if (mr[0] != NULL) fi_close(&((struct fid_mr *)mr[0])->fid);
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
    mr[0] = ofi_memory_register(ofi, addr, len, rights[access], &err);
    if (mr[0] != NULL) return AQ_OK;
    return err == FI_ENOMEM || err == FI_ENOSPC || err == FI_EAGAIN ? AQ_ELIMIT : AQ_ENOTSUP;
}

static size_t ofi_driver_key(struct aqi_rdma *rdma, void *const mr[AQI_RDMA_RAILS], uint64_t addr,
                             void *key)
{
    uint64_t *words = key; /* the key, and the address of the first byte */
    words[0] = fi_mr_key(mr[0]);
    words[1] = ofi_wants((const struct ofi_tp *)rdma, FI_MR_VIRT_ADDR) ? addr : 0;
    return 2 * sizeof(*words);
}

static aq_status ofi_driver_buffer(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer,
                                   struct aqi_rdma_buf **buf)
{
    (void)peer;
    *buf = ofi_message_room((struct ofi_tp *)rdma, true) ? aqi_rdma_get(rdma) : NULL;
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
                                           .reg = ofi_driver_reg,
                                           .dereg = ofi_driver_dereg,
                                           .key = ofi_driver_key,
                                           .mem_reg = ofi_mem_reg,
                                           .mem_lent = ofi_mem_lent,
                                           .mem_drop = ofi_mem_drop,
                                           .ready = ofi_peer_ready,
                                           .buffer = ofi_driver_buffer,
                                           .send = ofi_message_post,
                                           .taken = ofi_driver_taken,
                                           .handle = ofi_message_run,
                                           .reach = ofi_transfer_reach,
                                           .post = ofi_transfer_post,
                                           .void_long = ofi_long_failed,
                                           .lent = ofi_driver_lent,
                                           .meet = ofi_peer_meet,
                                           .push = aqi_rdma_push,
                                           .is_quiet = ofi_driver_is_quiet,
                                           .down = ofi_peer_down,
                                           .where = ofi_peer_where};
