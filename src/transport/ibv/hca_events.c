/* ibv: asynchronous events of adapters: ports that go down and come back, addresses that change. */
#include "transport/ibv/hca_impl.h"

#include "base/log.h"

#include <sys/epoll.h>

/* Wait after a port is back: routes and addresses become ready later, and the port may be
 * flapping. */
#define EVENTS_BACK_NS UINT64_C(1000000000)

static void hca_events_port(struct hca_tp *hca, unsigned r, enum ibv_event_type type)
{
    struct hca_rail *rail = &hca->rail[r];
    if (hca_has_rail(hca->gone, r)) return;
    bool down = type == IBV_EVENT_PORT_ERR;
    bool changed = type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_GID_CHANGE ||
                   type == IBV_EVENT_LID_CHANGE;
    if (!down && !changed) return;
    if (type == IBV_EVENT_PORT_ACTIVE) hca->down &= ~(1u << r);
    if (down) hca->down |= 1u << r;
    rail->back = hca_has_rail(hca->down, r) ? 0 : hca->rdma.now + EVENTS_BACK_NS;
    if (down) hca_repair_port_down(hca, r);
}

/*
 * The adapter has failed or was removed: nothing on it will work again, and requests to it fail or
 * are never answered.
 */
static void hca_events_fatal(struct hca_tp *hca, unsigned r)
{
    if (hca_has_rail(hca->gone, r)) return;
    hca->gone |= 1u << r;
    hca->down |= 1u << r;
    hca->rail[r].back = 0;
    /* Otherwise its event would wake sleeping threads forever. */
    (void)epoll_ctl(hca->rdma.fd, EPOLL_CTL_DEL, hca->rail[r].context->async_fd, NULL);
    hca_greet_gone(hca, r);
    hca_repair_port_down(hca, r);
}

/* Try to use the rail again, with its current address. */
static void hca_events_back(struct hca_tp *hca, unsigned r)
{
    struct hca_rail *rail = &hca->rail[r];
    bool moved;
    if (hca_rail_look_again(rail, &moved)) {
        rail->back = 0;
        hca_repair_port_back(hca, r, moved);
    } else {
        rail->back = hca->rdma.now + EVENTS_BACK_NS;
    }
}

static bool hca_events_is_of_port(enum ibv_event_type type)
{
    return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE ||
           type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_LID_CHANGE ||
           type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_SM_CHANGE ||
           type == IBV_EVENT_CLIENT_REREGISTER;
}

static const char *hca_events_meaning(const struct hca_tp *hca, unsigned r,
                                      enum ibv_event_type type)
{
    uint32_t all = (1u << hca->rails) - 1;
    if (type != IBV_EVENT_PORT_ERR) return "";
    return (all & ~hca->down & ~(1u << r)) != 0
               ? "; others take over until it is back"
               : "; no other port is left, so all transfers wait until it is back: check the "
                 "cable, the network interface (\"ip link\") or the subnet manager";
}

/* Events of a port are delivered to every context of its adapter. */
static void hca_events_one(struct hca_tp *hca, unsigned r, const struct ibv_async_event *event)
{
    struct hca_rail *rail = &hca->rail[r];
    enum ibv_event_type type = event->event_type;
    if (hca_events_is_of_port(type) && event->element.port_num != rail->port) return;
    bool bad = type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_CQ_ERR ||
               type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_DEVICE_FATAL;
    bool back = type == IBV_EVENT_PORT_ACTIVE && hca_has_rail(hca->down, r);
    aqi_log(bad || back ? AQI_LOG_WARN : AQI_LOG_INFO, "ibv", "%s: %s%s", rail->name,
            hca_verbs.event_type_str(type), hca_events_meaning(hca, r, type));
    if (type == IBV_EVENT_DEVICE_FATAL)
        hca_events_fatal(hca, r);
    else
        hca_events_port(hca, r, type);
}

static void hca_events_take(struct hca_tp *hca, unsigned r)
{
    struct hca_rail *rail = &hca->rail[r];
    struct ibv_async_event event;
    while (hca_verbs.get_async_event(rail->context, &event) == 0) {
        struct ibv_async_event copy = event;
        hca_verbs.ack_async_event(&event);
        hca_events_one(hca, r, &copy);
    }
    if (rail->back != 0 && hca->rdma.now >= rail->back) hca_events_back(hca, r);
}

void hca_events_look(struct hca_tp *hca)
{
    for (unsigned r = 0; r < hca->rails; r++)
        hca_events_take(hca, r);
}

uint64_t hca_events_deadline(const struct hca_tp *hca)
{
    uint64_t first = AQI_NO_DEADLINE;
    for (unsigned r = 0; r < hca->rails; r++)
        if (hca->rail[r].back != 0) first = aqi_min(first, hca->rail[r].back);
    return first;
}
