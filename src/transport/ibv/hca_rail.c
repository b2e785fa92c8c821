/* ibv: a port, its address and its queues. */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HCA_HOPS = 64 };

/* --- the address of a port ------------------------------------------------------------------- */

/* Rank an address by its type, as named by the kernel, and by whether it maps an IPv4 address. -1:
 * none. */
static int hca_rail_gid_rank(const struct hca_rail *rail, const char *device, int index,
                             const union ibv_gid *gid)
{
    static const unsigned char none[16];
    char path[200], type[32];
    if (memcmp(gid->raw, none, sizeof(none)) == 0) return -1;
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/gid_attrs/types/%d", device,
             rail->port, index);
    (void)aqi_line_read(path, type, sizeof(type));
    int rank = strncmp(type, "RoCE v2", 7) == 0 ? 4 : 0;
    if (hca_gid_is_ipv4(gid->raw)) return rank + 2;
    return rank + (gid->raw[0] != 0xfe); /* link-local addresses last */
}

/* Find the best address, or the requested one. Returns its rank; -1: there is none. */
static int hca_rail_gid_find(struct hca_rail *rail, bool any, union ibv_gid *gid)
{
    const char *device = hca_verbs.get_device_name(rail->context->device);
    bool ethernet = rail->attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    int best = -1;
    for (int i = 0; ethernet && any && i < rail->attr.gid_tbl_len; i++) {
        if (hca_verbs.query_gid(rail->context, rail->port, i, gid) != 0) continue;
        int rank = hca_rail_gid_rank(rail, device, i, gid);
        if (rank <= best) continue;
        best = rank;
        rail->gid_index = i;
    }
    if (hca_verbs.query_gid(rail->context, rail->port, rail->gid_index, gid) != 0) return -1;
    return ethernet ? hca_rail_gid_rank(rail, device, rail->gid_index, gid) : 0;
}

static aq_status hca_rail_gid(struct hca_rail *rail)
{
    union ibv_gid gid;
    char *end;
    bool any = strcmp(hca_config.gid, "auto") == 0;
    long index = any ? 0 : strtol(hca_config.gid, &end, 10);
    if (!any && (hca_config.gid[0] == 0 || *end != 0 || index < 0 || index > UINT8_MAX))
        return aqi_fail(AQ_ESETTING, "ibv", "AQ_IBV_GID=\"%s\": give auto or an index, 0 to %u",
                        hca_config.gid, UINT8_MAX);
    rail->gid_index = (int)index;
    rail->gid_rank = hca_rail_gid_find(rail, any, &gid);
    if (rail->gid_rank < 0)
        return aqi_fail(AQ_ESYS, "ibv",
                        "%s has no address (GID) with index %d: give its network interface an IP "
                        "address, or set AQ_IBV_GID to one that \"show_gids\" lists",
                        rail->name, rail->gid_index);
    memcpy(rail->place.gid, gid.raw, sizeof(rail->place.gid));
    return AQ_OK;
}

/*
 * An address that is removed and added again may have another index. Meanwhile there may only be
 * addresses of another kind, by which no peer is reachable.
 */
bool hca_rail_look_again(struct hca_rail *rail, bool *moved)
{
    union ibv_gid gid;
    struct hca_place was = rail->place;
    int index = rail->gid_index;
    if (hca_verbs.query_port(rail->context, rail->port, &rail->attr) != 0) return false;
    bool same = hca_verbs.query_gid(rail->context, rail->port, index, &gid) == 0 &&
                memcmp(gid.raw, was.gid, sizeof(was.gid)) == 0;
    if (!same &&
        hca_rail_gid_find(rail, strcmp(hca_config.gid, "auto") == 0, &gid) < rail->gid_rank) {
        rail->gid_index = index;
        return false;
    }
    memcpy(rail->place.gid, gid.raw, sizeof(rail->place.gid));
    rail->place.lid = rail->attr.lid;
    rail->place.mtu = (uint8_t)aqi_min(rail->place.mtu, (size_t)rail->attr.active_mtu);
    *moved = memcmp(&was, &rail->place, sizeof(was)) != 0;
    return true;
}

void hca_rail_path(const struct hca_rail *rail, const struct hca_place *to, struct ibv_ah_attr *ah)
{
    memset(ah, 0, sizeof(*ah));
    ah->port_num = rail->port;
    ah->dlid = to->lid;
    ah->sl = (uint8_t)hca_config.service_level;
    bool routed = memcmp(to->gid, rail->place.gid, 8) != 0; /* another subnet of InfiniBand */
    if (rail->attr.link_layer != IBV_LINK_LAYER_ETHERNET && !routed) return;
    ah->is_global = 1;
    ah->grh.sgid_index = (uint8_t)rail->gid_index;
    ah->grh.hop_limit = HCA_HOPS;
    ah->grh.traffic_class = (uint8_t)hca_config.traffic_class;
    memcpy(ah->grh.dgid.raw, to->gid, sizeof(to->gid));
}

/* --- opening --------------------------------------------------------------------------------- */

static struct ibv_context *hca_rail_context(const char *name)
{
    int count = 0;
    struct ibv_context *context = NULL;
    struct ibv_device **list = hca_verbs.get_device_list(&count);
    for (int i = 0; list != NULL && i < count && context == NULL; i++)
        if (strcmp(hca_verbs.get_device_name(list[i]), name) == 0)
            context = hca_verbs.open_device(list[i]);
    if (list != NULL) hca_verbs.free_device_list(list);
    return context;
}

static aq_status hca_rail_pkey(const struct hca_rail *rail)
{
    if (hca_config.pkey == 0 || hca_config.pkey < rail->attr.pkey_tbl_len) return AQ_OK;
    return aqi_fail(AQ_ESETTING, "ibv",
                    "AQ_IBV_PKEY=%llu: give an index below %u, the number of partition keys of %s",
                    (unsigned long long)hca_config.pkey, rail->attr.pkey_tbl_len, rail->name);
}

static aq_status hca_rail_mtu(struct hca_rail *rail)
{
    unsigned mtu = rail->attr.active_mtu;
    if (hca_config.mtu != 0) {
        for (mtu = IBV_MTU_256; mtu < IBV_MTU_4096 && 128u << mtu < hca_config.mtu;)
            mtu++;
        if (128u << mtu != hca_config.mtu || mtu > rail->attr.active_mtu)
            return aqi_fail(AQ_ESETTING, "ibv",
                            "AQ_IBV_MTU=%llu: give 256, 512, 1024, 2048 or 4096, but no more than "
                            "%u, the MTU of %s",
                            (unsigned long long)hca_config.mtu, 128u << rail->attr.active_mtu,
                            rail->name);
    }
    rail->place.mtu = (uint8_t)mtu;
    return AQ_OK;
}

aq_status hca_rail_open(struct hca_rail *rail, const struct hca_port *port)
{
    memset(rail, 0, sizeof(*rail));
    rail->port = port->number;
    snprintf(rail->name, sizeof(rail->name), "%s:%u", port->device, port->number);
    rail->context = hca_rail_context(port->device);
    if (rail->context == NULL)
        return aqi_fail_errno(AQ_ESYS, errno, "ibv", "cannot open %s", port->device);
    if (hca_verbs.query_device(rail->context, &rail->device) != 0 ||
        hca_verbs.query_port(rail->context, rail->port, &rail->attr) != 0)
        return aqi_fail_errno(AQ_ESYS, errno, "ibv", "cannot query %s", rail->name);
    rail->place.lid = rail->attr.lid;
    rail->place.link_layer = rail->attr.link_layer;
    aq_status st = hca_rail_gid(rail);
    if (st == AQ_OK) st = hca_rail_mtu(rail);
    if (st == AQ_OK) st = hca_rail_pkey(rail);
    if (st != AQ_OK) return st;
    rail->pd = hca_verbs.alloc_pd(rail->context);
    if (rail->pd != NULL) return AQ_OK;
    return aqi_fail_errno(AQ_ESYS, errno, "ibv", "cannot create a protection domain of %s",
                          rail->name);
}

static bool hca_rail_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

aq_status hca_rail_queues(struct hca_rail *rail, uint32_t receives, uint32_t completions)
{
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = receives, .max_sge = 1}};
    rail->channel = hca_verbs.create_comp_channel(rail->context);
    if (rail->channel == NULL || !hca_rail_nonblocking(rail->channel->fd) ||
        !hca_rail_nonblocking(rail->context->async_fd))
        return aqi_fail_errno(AQ_ESYS, errno, "ibv", "cannot create a completion channel of %s",
                              rail->name);
    rail->cq = hca_verbs.create_cq(rail->context, (int)completions, rail, rail->channel, 0);
    if (rail->cq == NULL)
        return aqi_fail(AQ_ESYS, "ibv",
                        "%s rejected a completion queue of %u entries (lower %s for fewer): %s",
                        rail->name, completions, aqi_setting_variable("AQ_AM_CREDITS"),
                        hca_advice_memory(errno).text);
    rail->srq = hca_verbs.create_srq(rail->pd, &srq);
    if (rail->srq != NULL) return AQ_OK;
    return aqi_fail(
        AQ_ESYS, "ibv", "%s rejected a shared receive queue of %u buffers (lower %s for fewer): %s",
        rail->name, receives, aqi_setting_variable("AQ_AM_CREDITS"), hca_advice_memory(errno).text);
}

void hca_rail_close(struct hca_rail *rail)
{
    if (rail->srq != NULL) hca_verbs.destroy_srq(rail->srq);
    if (rail->cq != NULL) hca_verbs.destroy_cq(rail->cq);
    if (rail->channel != NULL) hca_verbs.destroy_comp_channel(rail->channel);
    if (rail->pd != NULL) hca_verbs.dealloc_pd(rail->pd);
    if (rail->context != NULL) hca_verbs.close_device(rail->context);
    memset(rail, 0, sizeof(*rail));
}
