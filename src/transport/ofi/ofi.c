/* ofi: opening, the address of this process, and closing. */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"
#include "base/mac.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const unsigned char ofi_magic[4] = {'o', 'f', 'i', '3'};

/* --- opening --------------------------------------------------------------------------------- */

static void ofi_size_queues(struct ofi_tp *ofi)
{
    if (ofi_config.receive_many == 0 || (ofi->info->caps & FI_MULTI_RECV) == 0)
        ofi->without |= OFI_MANY;
    ofi_receive_limit(ofi);
    uint64_t bounces = aqi_max(ofi_config.bounce_memory / ofi->rdma.buffer, 1);
    ofi->rdma.most = ofi_config.bounce_memory != 0 ? bounces : UINT64_MAX;
    /* Replies may use an additional half of `room`. */
    size_t inject = ofi->info->tx_attr->inject_size;
    ofi->inject = ofi->without & OFI_INJECT ? 0 : aqi_min(ofi_config.inject, inject);
    ofi->put_inject = ofi->without & OFI_PUTS ? 0 : aqi_min(ofi_config.put_inject, inject);
    ofi->room = (uint32_t)aqi_max(1, aqi_min(ofi_config.sends, ofi->info->tx_attr->size * 2 / 3));
}

/*
 * The stamp at the start of each message, and the first key of memory: known to holders of the
 * job's key.
 */
static aq_status ofi_make_secrets(struct ofi_tp *ofi)
{
    struct aqi_mac *mac;
    uint8_t tag[AQI_MAC_BYTES];
    aq_status st = aqi_mac_open(AQI_MAC_HMAC, &mac);
    if (st != AQ_OK) return st;
    aqi_mac_bytes(mac, "ofi stamp", ofi->rdma.params.key, ofi_magic, sizeof(ofi_magic), tag);
    memcpy(&ofi->rdma.stamp, tag, sizeof(ofi->rdma.stamp));
    memcpy(&ofi->next_key, tag + sizeof(ofi->rdma.stamp), sizeof(ofi->next_key));
    aqi_mac_close(mac);
    return AQ_OK;
}

void ofi_close(struct aqi_tp *tp)
{
    struct ofi_tp *ofi = (struct ofi_tp *)tp;
    aqi_rdma_end_peers(&ofi->rdma);
    ofi_endpoint_close(ofi);
    if (ofi->info != NULL) ofi_library.freeinfo(ofi->info);
    aqi_pool_destroy(&ofi->pieces);
    aqi_rdma_close(&ofi->rdma);
    free(ofi);
}

static aq_status ofi_find(struct ofi_tp *ofi)
{
    char why[320];
    uint64_t endpoints = (uint64_t)ofi->rdma.params.size;
    if (ofi->front != &ofi->rdma.tp) endpoints *= ofi_config.domains;
    ofi->info = ofi_provider_find(true, (uint32_t)aqi_min(endpoints, UINT32_MAX), why, sizeof(why));
    return ofi->info != NULL ? AQ_OK : aqi_fail(AQ_ENOTSUP, "ofi", "%s", why);
}

aq_status ofi_try(struct fi_info *info)
{
    struct ofi_tp *ofi = calloc(1, sizeof(*ofi));
    if (ofi == NULL) return aqi_fail(AQ_ENOMEM, "ofi", "no memory to open the transport");
    aqi_rdma_begin(&ofi->rdma, &ofi_driver);
    ofi->rdma.params = (struct aqi_tp_params){.size = 2, .local_size = 1};
    ofi->info = info;
    ofi->rdma.buffer = ofi_buffer_bytes((size_t)ofi_config.medium);
    ofi_size_queues(ofi);
    aq_status st = ofi_endpoint_open(ofi);
    ofi_endpoint_close(ofi);
    free(ofi);
    return st;
}

aq_status ofi_open_domain(const struct aqi_tp_params *params, const struct aqi_tp *front,
                          unsigned place, const struct ofi_tp *first, struct ofi_tp **out)
{
    struct ofi_tp *ofi = calloc(1, sizeof(*ofi));
    if (ofi == NULL) return aqi_fail(AQ_ENOMEM, "ofi", "no memory to open the transport");
    aq_status st = aqi_rdma_open(&ofi->rdma, &ofi_driver, params);
    ofi->front = front != NULL ? front : &ofi->rdma.tp;
    ofi->place = place;
    ofi->without = first != NULL ? first->without : 0;
    if (front != NULL) ofi->rdma.lending.on = false;
    ofi->look_at = AQI_NO_DEADLINE;
    size_t medium =
        aqi_min(aqi_round_up(params->max_medium, 64), ofi_medium(params->size, params->on_demand));
    ofi->rdma.tp.limits = (struct aqi_tp_limits){.max_medium = medium, .max_long = UINT32_MAX};
    ofi->rdma.buffer = ofi_buffer_bytes(medium);
    aqi_pool_init(&ofi->pieces, sizeof(struct ofi_piece), 64, false);
    if (st == AQ_OK) st = ofi_find(ofi);
    if (st == AQ_OK) st = ofi_make_secrets(ofi);
    if (st == AQ_OK) {
        ofi_size_queues(ofi);
        st = ofi_trial_open(ofi);
    }
    if (ofi->without & OFI_REMOTE) ofi->rdma.lending.on = false;
    if (st == AQ_OK) ofi_long_open(ofi);
    if (st == AQ_OK) st = ofi_pins_open(ofi);
    if (st != AQ_OK) {
        ofi_close(&ofi->rdma.tp);
        return st;
    }
    *out = ofi;
    return AQ_OK;
}

static aq_status ofi_open(const struct aqi_tp_params *params, struct aqi_tp **tp)
{
    if (params->threads && ofi_config.domains > 1) return ofi_domains_open(params, tp);
    struct ofi_tp *ofi = NULL;
    aq_status st = ofi_open_domain(params, NULL, 0, NULL, &ofi);
    if (st == AQ_OK) *tp = &ofi->rdma.tp;
    return st;
}

/* --- description ----------------------------------------------------------------------------- */

aq_status ofi_address(struct aqi_tp *tp, void *out, size_t *len)
{
    struct ofi_tp *ofi = (struct ofi_tp *)tp;
    struct ofi_addr addr = {.protocol = ofi->info->ep_attr->protocol,
                            .format = ofi->info->addr_format};
    memcpy(addr.magic, ofi_magic, sizeof(addr.magic));
    size_t room = OFI_NAME;
    int err = fi_getname(&ofi->ep->fid, addr.name, &room);
    if (err != 0)
        return aqi_fail(AQ_ELIMIT, "ofi",
                        "%s has an address of %zu bytes, but at most %d are supported: %s",
                        ofi_name(ofi), room, OFI_NAME, ofi_library.strerror(-err));
    addr.len = (uint32_t)room;
    *len = offsetof(struct ofi_addr, name) + room;
    memcpy(out, &addr, *len);
    return AQ_OK;
}

/* The requested message order, and whether the provider has it. */
static const char *ofi_describe_order(const struct ofi_tp *ofi)
{
    static const char *const orders[] = {"", ", in order", ", in strict order"};
    uint64_t order = ofi_provider_order();
    bool has = (ofi->info->tx_attr->msg_order & order) == order;
    return has ? orders[ofi_config.order] : ", without the requested order";
}

static const char *ofi_describe_progress(const struct ofi_tp *ofi)
{
    if (ofi_config.progress == 0) return "";
    return ofi->info->domain_attr->data_progress == FI_PROGRESS_AUTO
               ? ", which claims to make progress on its own"
               : ", which makes no progress on its own";
}

int ofi_describe(struct aqi_tp *tp, char *buf, size_t len)
{
    const struct ofi_tp *ofi = (const struct ofi_tp *)tp;
    bool many = (ofi->without & OFI_MANY) == 0;
    int n = snprintf(
        buf, len, "%s on %s%s%s, %u requests to a peer, %u receive buffers of %zu bytes%s",
        ofi_name(ofi), ofi->info->domain_attr->name, ofi_describe_progress(ofi),
        ofi_describe_order(ofi), ofi->limits.depth, ofi->receives,
        many ? aqi_rdma_chunk_len(&ofi->rdma) : ofi->rdma.buffer, many ? " for many messages" : "");
    size_t used = aqi_min((size_t)n, len);
    return n + ofi_trial_describe(ofi, buf + used, len - used);
}

static_assert(sizeof(struct ofi_addr) == OFI_ADDR && sizeof(struct ofi_key) == OFI_KEY,
              "as in ofi.h");

const struct aqi_transport aqi_ofi_transport = {
    .name = "ofi",
    .doc = "networks with a provider in libfabric (cxi, efa, opx, psm3 and others)",
    .caps = AQI_RDMA_CAPS,
    .addr_max = OFI_ADDR,
    .key_max = OFI_KEY,
    .settings = &aqi_ofi_settings,
    .probe = ofi_provider_probe,
    .open = ofi_open,
    .close = ofi_close,
    .address = ofi_address,
    .connect = aqi_rdma_connect,
    .am_send = aqi_rdma_am_send,
    .am_long = aqi_rdma_am_long,
    .progress = ofi_progress,
    .quiet = aqi_rdma_quiet,
    .disconnect = aqi_rdma_disconnect,
    .drain = aqi_rdma_drain,
    .put = aqi_rdma_put_bytes,
    .get = aqi_rdma_get_bytes,
    .mem_reg = aqi_rdma_mem_reg,
    .mem_dereg = aqi_rdma_mem_dereg,
    .mem_map = aqi_rdma_mem_map,
    .mem_unmap = aqi_rdma_mem_unmap,
    .next_deadline = ofi_next_deadline,
    .wait_fd = aqi_rdma_wait_fd,
    .arm = ofi_arm,
    .describe = ofi_describe,
};
