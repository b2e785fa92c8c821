/* ibv: what adapters say of themselves: ports that go down and come back, addresses that change. */
#include "transport/ibv/hca_impl.h"

#include "base/log.h"

#include <sys/epoll.h>

/* Routes and addresses come after the port, and one that flaps is no use. */
#define EVENTS_BACK_NS UINT64_C(1000000000)

static void hca_events_port(struct hca_tp *hca, unsigned r, enum ibv_event_type type)
{
    struct hca_rail *rail = &hca->rail[r];
    if (rail->gone) return;
    bool down = type == IBV_EVENT_PORT_ERR;
    bool changed = type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_GID_CHANGE ||
                   type == IBV_EVENT_LID_CHANGE;
    if (!down && !changed) return;
    if (type != IBV_EVENT_GID_CHANGE && type != IBV_EVENT_LID_CHANGE) rail->down = down;
    rail->back = rail->down ? 0 : hca->now + EVENTS_BACK_NS;
    if (down) hca_repair_port_down(hca, r);
}

/* The adapter says that it has failed, or was taken away: nothing of it will work again, and what
 * is asked of it is answered with errors, or never. */
static void hca_events_fatal(struct hca_tp *hca, unsigned r)
{
    struct hca_rail *rail = &hca->rail[r];
    if (rail->gone) return;
    rail->gone = rail->down = true;
    rail->back = 0;
    /* Or who sleeps is woken for ever. */
    (void)epoll_ctl(hca->epoll, EPOLL_CTL_DEL, rail->context->async_fd, NULL);
    hca_greet_gone(hca, r);
    hca_repair_port_down(hca, r);
}

/* It may be used again, under the address that it has now. */
static void hca_events_back(struct hca_tp *hca, unsigned r)
{
    struct hca_rail *rail = &hca->rail[r];
    bool moved;
    if (hca_rail_look_again(rail, &moved)) {
        rail->back = 0;
        hca_repair_port_back(hca, r, moved);
    } else {
        rail->back = hca->now + EVENTS_BACK_NS;
    }
}

static void hca_events_take(struct hca_tp *hca, unsigned r)
{
    struct hca_rail *rail = &hca->rail[r];
    struct ibv_async_event event;
    while (hca_verbs.get_async_event(rail->context, &event) == 0) {
        enum ibv_event_type type = event.event_type;
        bool ours = event.element.port_num == rail->port; /* if it is one of a port */
        bool bad = type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_CQ_ERR ||
                   type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_DEVICE_FATAL;
        aqi_log(bad ? AQI_LOG_WARN : AQI_LOG_INFO, "ibv", "%s: %s", rail->name,
                hca_verbs.event_type_str(type));
        hca_verbs.ack_async_event(&event);
        if (type == IBV_EVENT_DEVICE_FATAL)
            hca_events_fatal(hca, r);
        else if (ours)
            hca_events_port(hca, r, type);
    }
    if (rail->back != 0 && hca->now >= rail->back) hca_events_back(hca, r);
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
