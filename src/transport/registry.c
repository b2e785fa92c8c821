/* The list of transports, and how one is opened: checked, decorated and completed. */
#include "base/fail.h"
#include "transport/ibv/ibv.h"
#include "transport/layers/fallback.h"
#include "transport/layers/fault.h"
#include "transport/layers/order.h"
#include "transport/loop/loop.h"
#include "transport/ofi/ofi.h"
#include "transport/shm/shm.h"
#include "transport/udp/udp.h"

#include <stdio.h>
#include <string.h>

_Thread_local unsigned aqi_tp_thread;

/* Networks whose headers were missing when the library was built. */
#if !AQ_WITH_IBV
const struct aqi_transport aqi_ibv_transport = {
    .name = "ibv",
    .doc = "InfiniBand and RoCE: remote writes and reads by the adapter (libibverbs)",
    .caps = AQI_CAP_FAR,
    .addr_max = IBV_ADDR,
    .key_max = IBV_KEY,
    .settings = &aqi_ibv_settings,
    .absent = "this library was built without it: install libibverbs-dev and rebuild",
};
#endif
#if !AQ_WITH_OFI
const struct aqi_transport aqi_ofi_transport = {
    .name = "ofi",
    .doc = "networks with a provider in libfabric (cxi, efa, opx, psm3 and others)",
    .caps = AQI_CAP_FAR,
    .addr_max = OFI_ADDR,
    .key_max = OFI_KEY,
    .settings = &aqi_ofi_settings,
    .absent = "this library was built without it: install libfabric-dev and rebuild",
};
#endif

/* In order of preference. A new transport is a folder and a line here. */
const struct aqi_transport *const aqi_transports[] = {
    &aqi_loop_transport, &aqi_shm_transport, &aqi_ibv_transport,
    &aqi_ofi_transport,  &aqi_udp_transport, NULL,
};

const struct aqi_transport *aqi_transport_find(const char *name)
{
    for (const struct aqi_transport *const *t = aqi_transports; *t != NULL; t++)
        if (strcmp((*t)->name, name) == 0) return *t;
    return NULL;
}

/* The operation that each capability promises; 0: required of every transport. */
#define SLOT(bit, member)                                                                          \
    {                                                                                              \
        bit, offsetof(struct aqi_transport, member), #member                                       \
    }
static const struct {
    unsigned bit;
    size_t offset;
    const char *name;
} promises[] = {
    SLOT(0, probe),
    SLOT(0, open),
    SLOT(0, close),
    SLOT(0, address),
    SLOT(0, connect),
    SLOT(0, am_send),
    SLOT(0, progress),
    SLOT(0, quiet),
    SLOT(AQI_CAP_RESERVE, am_reserve),
    SLOT(AQI_CAP_RESERVE, am_commit),
    SLOT(AQI_CAP_PUT, put),
    SLOT(AQI_CAP_GET, get),
    SLOT(AQI_CAP_ATOMIC, atomic),
    SLOT(AQI_CAP_FILL, fill),
    SLOT(AQI_CAP_PULL, pull),
    SLOT(AQI_CAP_ALLOC, mem_alloc),
    SLOT(AQI_CAP_REG, mem_reg),
    SLOT(AQI_CAP_REG, mem_dereg),
    SLOT(AQI_CAP_REG, mem_map),
    SLOT(AQI_CAP_REG, mem_unmap),
    SLOT(AQI_CAP_LONG, am_long),
    SLOT(AQI_CAP_ROWS, put_rows),
    SLOT(AQI_CAP_ROWS, get_rows),
    SLOT(AQI_CAP_TIMERS, next_deadline),
    SLOT(AQI_CAP_MEM_FD, mem_fd),
    SLOT(AQI_CAP_RENDEZVOUS, rendezvous),
    SLOT(AQI_CAP_WAIT_FD, wait_fd),
    SLOT(AQI_CAP_WAIT_FD, arm),
    SLOT(AQI_CAP_REST, rest),
};

_Atomic uint32_t aqi_tp_pending;
_Atomic uint64_t aqi_tp_awake_until;

void aqi_tp_hide(struct aqi_transport *ops, unsigned caps)
{
    for (size_t i = 0; i < AQI_COUNT_OF(promises); i++)
        if (promises[i].bit & caps) memset((char *)ops + promises[i].offset, 0, sizeof(void *));
}

static aq_status registry_check_contract(const struct aqi_transport *transport)
{
    if ((transport->caps & AQI_CAP_MAP) && !(transport->caps & AQI_CAP_REG))
        return aqi_fail(AQ_ENOTSUP, "transport", "%s can map memory but not register it",
                        transport->name);
    for (size_t i = 0; i < AQI_COUNT_OF(promises); i++) {
        void (*slot)(void);
        memcpy(&slot, (const char *)transport + promises[i].offset, sizeof(slot));
        bool promised = promises[i].bit == 0 || (transport->caps & promises[i].bit) != 0;
        if (promised != (slot != NULL))
            return aqi_fail(AQ_ENOTSUP, "transport",
                            "%s: operation %s and its capability bit contradict each other: "
                            "correct the transport's table",
                            transport->name, promises[i].name);
    }
    if (transport->addr_max <= AQI_ADDR_MAX && transport->key_max <= AQI_KEY_MAX) return AQ_OK;
    return aqi_fail(AQ_ENOTSUP, "transport", "%s: addresses or keys are too long", transport->name);
}

static unsigned registry_caps(const struct aqi_transport *transport)
{
    return aqi_fault_wanted() ? aqi_fault_caps(transport->caps) : transport->caps;
}

bool aqi_tp_keeps_order(const struct aqi_transport *transport)
{
    return (registry_caps(transport) & AQI_CAP_ORDER) != 0;
}

bool aqi_tp_probe(const struct aqi_transport *transport, unsigned device,
                  struct aqi_tp_probe *probe)
{
    if (transport->absent == NULL) return transport->probe(device, probe);
    *probe = (struct aqi_tp_probe){.device = "not built"};
    snprintf(probe->reason, sizeof(probe->reason), "%s", transport->absent);
    return device == 0;
}

aq_status aqi_tp_open(const struct aqi_transport *transport, const struct aqi_tp_params *params,
                      struct aqi_tp **tp)
{
    struct aqi_tp_params inner;
    struct aqi_fallback *fallback;
    struct aqi_order *order = NULL;
    struct aqi_tp *open;
    unsigned caps = registry_caps(transport);
    if (transport->absent != NULL)
        return aqi_fail(AQ_ENOTSUP, transport->name, "%s", transport->absent);
    aq_status st = registry_check_contract(transport);
    if (st != AQ_OK) return st;
    st = aqi_fallback_create(params, (caps & AQI_CAP_CREDITS) != 0, &inner, &fallback);
    if (st != AQ_OK) return st;
    if (params->numbered) st = aqi_order_create(&inner, &order);
    if (st == AQ_OK)
        st = aqi_fault_wanted() ? aqi_fault_open(transport, &inner, &open)
                                : transport->open(&inner, &open);
    if (st != AQ_OK) {
        aqi_order_destroy(order);
        aqi_fallback_destroy(fallback);
        return st;
    }
    if (open->ops.open == NULL) open->ops = *transport;
    if (order != NULL) aqi_order_complete(order, open);
    if (caps & AQI_CAP_CREDITS) open->ops.caps |= AQI_CAP_CREDITS;
    aqi_fallback_complete(fallback, open);
    *tp = open;
    return AQ_OK;
}

void aqi_tp_close(struct aqi_tp *tp)
{
    struct aqi_fallback *fallback = tp->fallback;
    struct aqi_order *order = tp->order;
    tp->ops.close(tp);
    aqi_order_destroy(order);
    aqi_fallback_destroy(fallback);
}

aq_status aqi_tp_region(struct aqi_tp *tp, struct aqi_peer *peer, bool get,
                        const uint32_t ticket[AQI_TICKET], uint64_t offset, void *local, size_t len,
                        struct aqi_comp *comp)
{
    return aqi_fallback_region(tp->fallback, peer, get, ticket, offset, local, len, comp);
}

aq_status aqi_tp_ping(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_comp *comp)
{
    return aqi_fallback_ping(tp->fallback, peer, comp);
}

void aqi_tp_peer_down(struct aqi_tp *tp, uint32_t id)
{
    aqi_fallback_peer_down(tp->fallback, id);
}

bool aqi_tp_waits_for_room(const struct aqi_tp *tp)
{
    if ((tp->ops.caps & AQI_CAP_ROOM) != 0) return false; /* room is announced */
    return aqi_fallback_waits(tp->fallback);
}

bool aqi_tp_waits(const struct aqi_tp *tp)
{
    return aqi_fallback_waits(tp->fallback);
}
