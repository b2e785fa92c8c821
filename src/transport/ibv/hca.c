/* ibv: opening, addresses, connecting and closing. */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

const unsigned char hca_magic[4] = {'i', 'b', 'v', '2'};

enum { HCA_RAILS_USUAL = 2, HCA_CQ_SLACK = 128 };

/* The limit on Medium payloads, if `wanted` bytes are requested. */
static size_t hca_medium(size_t wanted)
{
    return aqi_min(aqi_round_up(wanted, 64), hca_config.medium / 64 * 64);
}

static bool hca_probe(unsigned device, struct aqi_tp_probe *probe)
{
    struct hca_port ports[HCA_PORTS];
    const char *missing = hca_verbs_missing();
    if (missing == NULL) missing = aqi_mac_missing();
    *probe = (struct aqi_tp_probe){.device = "no adapter", .max_medium = hca_medium(SIZE_MAX / 2)};
    unsigned count = missing == NULL ? hca_ports_find(ports) : 0;
    if (count == 0) {
        struct hca_text why = {""};
        if (missing == NULL) why = hca_advice_no_port("");
        snprintf(probe->reason, sizeof(probe->reason), "%s", missing != NULL ? missing : why.text);
        return device == 0;
    }
    if (device >= count) return false;
    snprintf(probe->device, sizeof(probe->device), "%.56s:%u", ports[device].device,
             ports[device].number);
    probe->usable = ports[device].active;
    snprintf(probe->reason, sizeof(probe->reason), "%s", ports[device].why);
    if (probe->usable) aqi_pins_advise(probe->reason, sizeof(probe->reason));
    return true;
}

/* --- opening --------------------------------------------------------------------------------- */

static aq_status hca_open_rails(struct hca_tp *hca)
{
    struct hca_port ports[HCA_PORTS];
    unsigned count = hca_ports_find(ports), active = 0, near = 0;
    for (; active < count && ports[active].active; active++)
        near += ports[active].near;
    if (count == 0) return aqi_fail(AQ_ENOTSUP, "ibv", "%s", hca_advice_no_port("").text);
    if (active == 0)
        return aqi_fail(AQ_ENOTSUP, "ibv", "%s:%u: %s", ports[0].device, ports[0].number,
                        ports[0].why);
    unsigned wanted = hca_config.rails != 0 ? (unsigned)hca_config.rails
                                            : (unsigned)aqi_min(active, HCA_RAILS_USUAL);
    unsigned first =
        hca_config.spread ? hca->rdma.params.local_rank % (unsigned)aqi_max(near, 1) : 0;
    aq_status st = AQ_OK;
    for (unsigned r = 0; r < wanted && st == AQ_OK; r++) {
        hca->rails = r + 1;
        st = hca_rail_open(&hca->rail[r], &ports[(first + r) % active]);
    }
    return st;
}

enum { HCA_SENDS_LEAST = 64 };

/* Set how many requests a peer may have in flight, given the memory and the available queue
 * entries. */
static void hca_size_queues(struct hca_tp *hca, uint32_t *receives, uint32_t *completions)
{
    uint64_t peers = aqi_max(1, hca->rdma.params.size - 1);
    uint64_t cqes = UINT64_MAX, entries = UINT64_MAX;
    for (unsigned r = 0; r < hca->rails; r++) {
        cqes = aqi_min(cqes, (size_t)hca->rail[r].device.max_cqe);
        entries = aqi_min(entries, (size_t)hca->rail[r].device.max_srq_wr);
    }
    entries = aqi_min(entries, cqes / 2);
    if (peers * AQI_LENDING_BUFFERS > entries / 4) hca->rdma.lending.on = false; /* for all */
    entries -= peers * hca_control_buffers(hca);
    uint64_t depth =
        aqi_min(UINT16_MAX, hca_config.receive_memory / (2 * hca->rdma.buffer * peers));
    depth = aqi_min(depth, (entries - hca_message_spares()) / (2 * peers));
    hca->rdma.tp.limits.depth = (uint32_t)aqi_max(1, depth);
    hca->depth = aqi_credit_gate_limits(&hca->rdma.params, &hca->rdma.tp.limits).depth;
    hca->rdma.tp.limits.depth = hca->depth;
    *receives = (uint32_t)aqi_min(entries, 2 * peers * hca->depth + hca_message_spares()) +
                (uint32_t)peers * hca_control_buffers(hca);
    hca->sends = 2 * hca->depth + hca_control_buffers(hca) + (uint32_t)hca_config.sends;
    hca->mask = hca_mask_of(hca->sends);
    hca->room = (uint32_t)aqi_min(cqes - *receives - HCA_CQ_SLACK, peers * hca->sends);
    if (hca_config.sends_total != 0)
        hca->room = (uint32_t)aqi_min(hca->room, aqi_max(hca_config.sends_total, HCA_SENDS_LEAST));
    hca->max_unsignaled = (uint32_t)aqi_min(hca_config.bounces, hca->room) / 2;
    *completions = *receives + hca->room + HCA_CQ_SLACK;
}

static aq_status hca_open_queues(struct hca_tp *hca)
{
    uint32_t receives, completions;
    hca_size_queues(hca, &receives, &completions);
    hca->rdma.fd = epoll_create1(EPOLL_CLOEXEC);
    if (hca->rdma.fd < 0)
        return aqi_fail_errno(AQ_ESYS, errno, "ibv", "cannot create a descriptor to wait with");
    aq_status st = AQ_OK;
    for (unsigned r = 0; r < hca->rails && st == AQ_OK; r++) {
        struct hca_rail *rail = &hca->rail[r];
        struct epoll_event event = {.events = EPOLLIN};
        st = hca_rail_queues(rail, receives, completions);
        if (st != AQ_OK) break;
        if (epoll_ctl(hca->rdma.fd, EPOLL_CTL_ADD, rail->channel->fd, &event) != 0 ||
            epoll_ctl(hca->rdma.fd, EPOLL_CTL_ADD, rail->context->async_fd, &event) != 0)
            st = aqi_fail_errno(AQ_ESYS, errno, "ibv", "cannot create a descriptor to wait with");
    }
    return st;
}

static void hca_close(struct aqi_tp *tp)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    aqi_rdma_end_peers(&hca->rdma);
    hca_greet_close(hca);
    /* Destroy receive queues first, so that no more buffers are posted. */
    for (unsigned r = 0; r < hca->rails; r++) {
        if (hca->rail[r].srq != NULL) hca_verbs.destroy_srq(hca->rail[r].srq);
        hca->rail[r].srq = NULL;
    }
    aqi_pins_close(&hca->rdma.pins);
    free(hca->rings.owner);
    aqi_rdma_drop_chunks(&hca->rdma);
    aqi_rdma_close(&hca->rdma);
    for (unsigned r = 0; r < hca->rails; r++)
        hca_rail_close(&hca->rail[r]);
    if (hca->rdma.fd >= 0) close(hca->rdma.fd);
    free(hca);
}

static aq_status hca_open(const struct aqi_tp_params *params, struct aqi_tp **tp)
{
    const char *missing = hca_verbs_missing();
    if (missing != NULL) return aqi_fail(AQ_ENOTSUP, "ibv", "%s", missing);
    struct hca_tp *hca = calloc(1, sizeof(*hca));
    if (hca == NULL) return aqi_fail(AQ_ENOMEM, "ibv", "no memory to open the transport");
    aq_status st = aqi_rdma_open(&hca->rdma, &hca_driver, params);
    hca->rdma.tp.moved = hca_progress_short;
    hca->rdma.tp.straight_put = hca_put_within;
    hca->rdma.tp.straight_get = hca_get_within;
    hca_begin(hca);
    hca->rdma.tp.limits = (struct aqi_tp_limits){.max_medium = hca_medium(params->max_medium),
                                                 .max_long = UINT32_MAX};
    hca->rdma.buffer = aqi_round_up(HCA_FRAME + hca->rdma.tp.limits.max_medium, 64);
    if (st == AQ_OK) st = hca_open_rails(hca);
    if (st == AQ_OK) st = hca_open_queues(hca);
    if (st == AQ_OK) st = hca_message_open(hca);
    if (st == AQ_OK) st = hca_rings_open(hca);
    if (st == AQ_OK) st = aqi_pins_open(&hca->rdma, 0, true);
    if (st == AQ_OK) st = hca_greet_open(hca);
    if (st != AQ_OK) {
        hca_close(&hca->rdma.tp);
        return st;
    }
    *tp = &hca->rdma.tp;
    return AQ_OK;
}

/* --- peers ----------------------------------------------------------------------------------- */

static aq_status hca_address(struct aqi_tp *tp, void *out, size_t *len)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    struct hca_addr addr;
    memset(&addr, 0, sizeof(addr));
    memcpy(addr.magic, hca_magic, sizeof(addr.magic));
    addr.qkey = hca->greeter.qkey;
    addr.rails = hca->rails;
    for (unsigned r = 0; r < hca->rails; r++)
        addr.place[r] = hca->rail[r].place;
    *len = offsetof(struct hca_addr, place) + hca->rails * sizeof(addr.place[0]);
    memcpy(out, &addr, *len);
    return AQ_OK;
}

static uint64_t hca_next_deadline(struct aqi_tp *tp)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    aqi_rdma_lock(&hca->rdma);
    uint64_t at = aqi_min(hca_greet_deadline(hca), hca_events_deadline(hca));
    at = aqi_min(at, hca_repair_deadline(hca));
    aqi_rdma_unlock(&hca->rdma);
    return at;
}

/* The memory taken by a connected peer, except for what the driver allocates. */
size_t hca_peer_memory(const struct hca_tp *hca)
{
    return sizeof(struct hca_peer) +
           (2 * hca->depth + hca_control_buffers(hca)) * hca->rdma.buffer +
           hca->rails * ((size_t)hca->mask + 1) * sizeof(struct hca_sent);
}

static int hca_describe(struct aqi_tp *tp, char *buf, size_t len)
{
    const struct hca_tp *hca = (const struct hca_tp *)tp;
    const struct aqi_rdma_chunk *rings = hca->rings.chunk;
    char names[HCA_RAILS * (sizeof(hca->rail[0].name) + 3)] = "";
    for (unsigned r = 0; r < hca->rails; r++)
        aqi_append(names, sizeof(names), "%s%s", r == 0 ? "" : " + ", hca->rail[r].name);
    return snprintf(buf, len,
                    "%s, %u requests to a peer, %u queue pair%s and %zu KB for each connected "
                    "peer, and %zu KB for %u rings",
                    names, hca->depth, hca->rails, hca->rails == 1 ? "" : "s",
                    hca_peer_memory(hca) / 1024, rings != NULL ? rings->len / 1024 : 0,
                    rings != NULL ? hca->rings.count : 0);
}

static_assert(sizeof(struct hca_addr) == IBV_ADDR && sizeof(struct hca_key) == IBV_KEY &&
                  (int)IBV_KEY <= (int)AQI_RDMA_KEYS,
              "as in ibv.h and rdma.h");

const struct aqi_transport aqi_ibv_transport = {
    .name = "ibv",
    .doc = "InfiniBand and RoCE: remote writes and reads by the adapter (libibverbs)",
    .caps = AQI_RDMA_CAPS,
    .addr_max = IBV_ADDR,
    .key_max = IBV_KEY,
    .settings = &aqi_ibv_settings,
    .probe = hca_probe,
    .open = hca_open,
    .close = hca_close,
    .address = hca_address,
    .connect = aqi_rdma_connect,
    .am_send = hca_am_send,
    .am_long = aqi_rdma_am_long,
    .progress = hca_progress,
    .quiet = aqi_rdma_quiet,
    .disconnect = aqi_rdma_disconnect,
    .next_deadline = hca_next_deadline,
    .drain = aqi_rdma_drain,
    .put = aqi_rdma_put_bytes,
    .get = aqi_rdma_get_bytes,
    .mem_reg = aqi_rdma_mem_reg,
    .mem_dereg = aqi_rdma_mem_dereg,
    .mem_map = aqi_rdma_mem_map,
    .mem_unmap = aqi_rdma_mem_unmap,
    .wait_fd = aqi_rdma_wait_fd,
    .arm = hca_arm,
    .describe = hca_describe,
};
