/* cci: endpoints and their events. */
#include "front/cci/impl.h"

#include "base/fail.h"
#include "base/log.h"
#include "lib/alone.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
    EP_TAKES = 8, /* events returned between two rounds of progress */
    EP_TRIES = 8,
    EP_NUMBERS = 1000 /* tried for an endpoint: programs may share "pid" and "id" of a device */
};

/* --- the handle on which a program sleeps ----------------------------------------------------- */

/* Whether arrivals for the library make the handle readable. */
static void ep_watch(struct aqc_ep *ep, bool on)
{
    struct epoll_event wanted = {.events = EPOLLIN};
    if (on == ep->watches) return;
    if (epoll_ctl(ep->handle, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, aqc.fd, &wanted) == 0)
        ep->watches = on;
}

static int ep_open_handle(struct aqc_ep *ep)
{
    struct epoll_event wanted = {.events = EPOLLIN};
    ep->handle = epoll_create1(EPOLL_CLOEXEC);
    ep->signal = aqi_kick_new();
    if (ep->handle < 0 || ep->signal < 0) return CCI_ENOMEM;
    if (epoll_ctl(ep->handle, EPOLL_CTL_ADD, ep->signal, &wanted) != 0) return CCI_ENOMEM;
    ep_watch(ep, true);
    if (!ep->watches) return CCI_ENOMEM;
    ep->has_handle = true;
    aqc.handles++;
    return CCI_SUCCESS;
}

static void ep_set_signal(struct aqc_ep *ep, bool on)
{
    if (on == ep->signaled) return;
    ep->signaled = on;
    if (on)
        aqi_kick(ep->signal);
    else
        (void)aqi_kick_take(ep->signal);
}

void aqc_ep_signal(struct aqc_ep *ep)
{
    ep->spins = 0;
    if (!ep->has_handle) return;
    ep_set_signal(ep, !aqi_list_is_empty(&ep->queue));
    ep_watch(ep, true);
}

/* The program may sleep next: the handle must become readable when there is an event. */
static void ep_park(struct aqc_ep *ep)
{
    ep_watch(ep, true);
    for (unsigned i = 0; aqi_list_is_empty(&ep->queue) && i < EP_TRIES; i++) {
        if (aqc_may_sleep()) break;
        aqc_progress();
        /* Make the program call again. */
        if (i == EP_TRIES - 1) {
            ep_set_signal(ep, true);
            return;
        }
    }
    ep_set_signal(ep, !aqi_list_is_empty(&ep->queue));
}

/*
 * The program has polled in vain so often that it probably does not sleep. If it does, it must not
 * find the handle readable from now on, which no further poll would change: it makes no calls then,
 * and the thread makes the handle useful again.
 */
static void ep_unpark(struct aqc_ep *ep)
{
    ep_watch(ep, false);
    ep_set_signal(ep, false);
}

/* --- endpoints ------------------------------------------------------------------------------- */

static int ep_listen(struct aqc_ep *ep, const char *service)
{
    char uri[256];
    struct aqc_device *device = ep->device;
    unsigned flags = device->anyone ? AQ_LISTEN_ANYBODY : 0;
    unsigned tries = service != NULL || device->port != 0 ? 1 : EP_NUMBERS;
    aq_status st = AQ_ESTATE;
    while (st == AQ_ESTATE && tries-- != 0) {
        if (!aqc_device_uri(device, service, uri, sizeof(uri))) return CCI_EINVAL;
        aqi_fail_defer(true);
        st = aq_listen(uri, flags, ep, &ep->listener);
        aqi_fail_defer(false);
    }
    if (st != AQ_OK) aqi_log(AQI_LOG_ERROR, "cci", "%s", aq_error_message());
    return st == AQ_ESTATE ? CCI_EBUSY : (int)aqc_status(st);
}

static int ep_open(struct aqc_ep *ep, const char *service, cci_os_handle_t *fd)
{
    int status = aqc_thread_start();
    if (status == CCI_SUCCESS) status = ep_listen(ep, service);
    if (status == CCI_SUCCESS && fd != NULL) {
        status = ep_open_handle(ep);
        *fd = ep->handle;
    }
    return status;
}

void aqc_ep_close(struct aqc_ep *ep)
{
    aqc_conn_close_all(ep);
    (void)aq_listener_close(ep->listener);
    struct aqi_node *lists[] = {&ep->queue, &ep->lent};
    for (unsigned i = 0; i < AQI_COUNT_OF(lists); i++)
        while (!aqi_list_is_empty(lists[i]))
            aqc_event_free(AQI_OF(lists[i]->next, struct aqc_event, link));
    aqc_rma_close(ep);
    if (ep->handle >= 0) close(ep->handle);
    if (ep->signal >= 0) close(ep->signal);
    if (ep->has_handle) aqc.handles--;
    aqi_list_remove(&ep->link);
    free(ep);
}

/* The device for a new endpoint, the best one if `device` is NULL. */
static int ep_choose_device(const cci_device_t *device, struct aqc_device **found)
{
    *found = NULL;
    for (unsigned i = 0; i < aqc.device_count; i++) {
        struct aqc_device *other = aqc.devices[i];
        if (device != NULL && device != &other->pub) continue;
        aqc_device_look(other); /* without endpoints, no event has reported changes */
        if (device != NULL && !other->pub.up) return CCI_ENETDOWN;
        if (other->pub.up && (*found == NULL || aqc_device_compare(other, *found) < 0))
            *found = other;
    }
    if (*found != NULL) return CCI_SUCCESS;
    return device == NULL ? CCI_ENODEV : CCI_EINVAL;
}

static int ep_create(cci_device_t *device, const char *service, cci_endpoint_t **endpoint,
                     cci_os_handle_t *fd)
{
    struct aqc_device *found;
    if (aqc.users == 0 || aqc.forked) return CCI_ERROR;
    int status = ep_choose_device(device, &found);
    if (status != CCI_SUCCESS) return status;
    struct aqc_ep *ep = calloc(1, sizeof(*ep));
    if (ep == NULL) return CCI_ENOMEM;
    ep->pub.device = &found->pub;
    ep->device = found;
    ep->handle = ep->signal = -1;
    aqi_list_init(&ep->conns);
    aqi_list_init(&ep->queue);
    aqi_list_init(&ep->lent);
    aqi_list_append(&aqc.eps, &ep->link);
    status = ep_open(ep, service, fd);
    if (status != CCI_SUCCESS) {
        aqc_ep_close(ep);
        return status;
    }
    if (ep->has_handle) ep_park(ep); /* programs may sleep before their first poll */
    *endpoint = &ep->pub;
    return CCI_SUCCESS;
}

int cci_create_endpoint(cci_device_t *device, int flags, cci_endpoint_t **endpoint,
                        cci_os_handle_t *fd)
{
    if (endpoint == NULL || flags != 0) return CCI_EINVAL;
    aqc_enter();
    int status = ep_create(device, NULL, endpoint, fd);
    aqc_unlock();
    return status;
}

int cci_create_endpoint_at(cci_device_t *device, const char *service, int flags,
                           cci_endpoint_t **endpoint, cci_os_handle_t *fd)
{
    if (device == NULL || service == NULL || endpoint == NULL || flags != 0) return CCI_EINVAL;
    aqc_enter();
    int status = ep_create(device, service, endpoint, fd);
    aqc_unlock();
    return status;
}

int cci_destroy_endpoint(cci_endpoint_t *endpoint)
{
    if (endpoint == NULL) return CCI_EINVAL;
    if (aqc.forked) return CCI_SUCCESS;
    aqc_enter();
    aqc_ep_close(AQI_OF(endpoint, struct aqc_ep, pub));
    aqc_unlock();
    return CCI_SUCCESS;
}

int cci_arm_os_handle(cci_endpoint_t *endpoint, int flags)
{
    (void)flags;
    return endpoint == NULL ? CCI_EINVAL : CCI_ERR_NOT_IMPLEMENTED;
}

/* --- events ---------------------------------------------------------------------------------- */

struct aqc_event *aqc_event_new(struct aqc_ep *ep, size_t len)
{
    struct aqi_pool *pool = len <= AQC_SMALL ? &aqc.small : NULL;
    uint8_t size = 0;
    struct aqc_event *event = pool != NULL
                                  ? aqi_pool_get(pool)
                                  : aqc_room_get(sizeof(struct aqc_event) + 16 + len, &size);
    if (event == NULL) return NULL;
    event->size = size;
    event->pool = pool;
    event->ep = ep;
    event->conn = NULL;
    aqi_list_init(&event->link);
    return event;
}

void aqc_event_free(struct aqc_event *event)
{
    struct aqc_conn *conn = event->conn;
    aqi_list_remove(&event->link);
    if (event->pool != NULL)
        aqi_pool_put(event->pool, event);
    else
        aqc_room_put(event, event->size);
    if (conn != NULL) aqc_conn_unref(conn);
}

void aqc_event_push(struct aqc_event *event)
{
    struct aqc_ep *ep = event->ep;
    aqi_list_append(&ep->queue, &event->link);
    /* A thread may be sleeping on the handle, and what arrived is no longer seen there. */
    if (AQI_UNLIKELY(ep->has_handle && ep != aqc.served)) ep_set_signal(ep, true);
}

void aqc_event_about(struct aqc_conn *conn, cci_event_type_t type, cci_status_t status)
{
    struct aqc_event *event = aqc_event_new(conn->ep, 0);
    if (event == NULL) return;
    struct cci_connection *known = status == CCI_SUCCESS ? &conn->pub : NULL;
    if (type == CCI_EVENT_KEEPALIVE_TIMEDOUT)
        event->pub.keepalive =
            (struct cci_event_keepalive_timedout){.type = type, .connection = known};
    else
        event->pub.connect = (struct cci_event_connect){
            .type = type, .status = status, .context = conn->pub.context, .connection = known};
    event->conn = conn;
    conn->refs++;
    aqc_event_push(event);
}

void aqc_ep_interface(struct aqc_ep *ep, bool up)
{
    aqc_device_set_up(ep->device, up);
    struct aqc_event *event = up || ep->failed ? NULL : aqc_event_new(ep, 0);
    ep->failed = !up;
    if (event == NULL) return;
    event->pub.dev_failed = (struct cci_event_endpoint_device_failed){
        .type = CCI_EVENT_ENDPOINT_DEVICE_FAILED, .endpoint = &ep->pub};
    aqc_event_push(event);
}

/* No event is left to take: peers may be waiting for room. */
static void ep_tell_room(struct aqc_ep *ep)
{
    ep->tight = false;
    for (struct aqi_node *at = ep->conns.next; at != &ep->conns; at = at->next) {
        struct aqc_conn *conn = AQI_OF(at, struct aqc_conn, link);
        if (!aqc_conn_owes_room(conn)) continue;
        aqc_conn_activate(conn);
        ep->tight = true; /* until the note has been sent */
    }
}

static int ep_take(struct aqc_ep *ep, cci_event_t **event)
{
    *event = NULL;
    if (aqi_list_is_empty(&ep->queue)) {
        (void)aq_poll();
        /* If an event has just arrived, deliver it first. */
        if (aqi_list_is_empty(&ep->queue)) aqc_progress_rest();
    } else if (++ep->takes >= EP_TAKES) {
        ep->takes = 0;
        aqc_progress();
    }
    if (aqi_list_is_empty(&ep->queue)) return ep->starved != 0 ? CCI_ENOBUFS : CCI_EAGAIN;
    struct aqc_event *first = AQI_OF(ep->queue.next, struct aqc_event, link);
    aqi_list_remove(&first->link);
    aqi_list_append(&ep->lent, &first->link);
    *event = &first->pub;
    return CCI_SUCCESS;
}

int cci_get_event(cci_endpoint_t *endpoint, cci_event_t **event)
{
    if (endpoint == NULL || event == NULL) return CCI_EINVAL;
    struct aqc_ep *ep = AQI_OF(endpoint, struct aqc_ep, pub);
    aqc_enter();
    aqc.served = ep;
    int status = ep_take(ep, event);
    aqc.served = NULL;
    if (AQI_UNLIKELY(ep->tight) && aqi_list_is_empty(&ep->queue)) ep_tell_room(ep);
    unsigned spins = ep->spins = status == CCI_EAGAIN ? ep->spins + 1 : 0;
    if (ep->has_handle && spins <= AQC_SPINS) {
        if (spins < AQC_SPINS)
            ep_park(ep);
        else
            ep_unpark(ep);
    }
    aqc_unlock();
    aqi_big_yield(&aqc.lock);
    lib_alone_yield(spins);
    return status;
}

static void ep_returned(struct aqc_event *event)
{
    struct aqc_conn *conn = event->conn;
    if (event->pub.type == CCI_EVENT_RECV && conn != NULL) {
        conn->freed += event->units;
        conn->held -= event->units;
        if (conn->starved && conn->held <= AQC_WINDOW - AQC_LARGEST) {
            conn->starved = false;
            conn->ep->starved--;
        }
        if (aqc_conn_owes_room(conn))
            aqc_conn_activate(conn);
        else if (aqc_conn_is_tight(conn))
            event->ep->tight = true;
    }
    bool refused = false;
    if (event->pub.type == CCI_EVENT_CONNECT_REQUEST) {
        conn->asked = false;
        refused = conn->state == AQC_GONE && !conn->left;
    }
    if (refused) aqc_conn_close(conn);
    aqc_event_free(event);
}

int cci_return_event(cci_event_t *event)
{
    if (event == NULL) return CCI_EINVAL;
    aqc_enter();
    ep_returned(AQI_OF(event, struct aqc_event, pub));
    aqc_unlock();
    return CCI_SUCCESS;
}
