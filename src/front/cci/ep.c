/* cci: endpoints, their events and options. */
#include "front/cci/impl.h"

#include "base/fail.h"
#include "base/log.h"

#include <stdlib.h>

enum {
    EP_TAKES = 8,  /* events returned between two rounds of progress */
    EP_SPINS = 16, /* consecutive empty polls by a program that does not sleep */
    EP_TRIES = 8,
    EP_NUMBERS = 1000 /* tried for an endpoint: programs may share "pid" and "id" of a device */
};

/* --- the handle on which a program sleeps ----------------------------------------------------- */

/* Whether arrivals for the library make the handle readable. */
static void ep_watch(struct aqc_ep *ep, bool on)
{
    if (on != ep->watches && lib_alone_handle_watch(&ep->handle, aqc.thread.fd, on))
        ep->watches = on;
}

static void ep_set_signal(struct aqc_ep *ep, bool on)
{
    if (on == ep->signaled) return;
    ep->signaled = on;
    if (on)
        aqi_kick(ep->handle.kick);
    else
        (void)aqi_kick_take(ep->handle.kick);
}

void aqc_ep_signal(struct aqc_ep *ep)
{
    ep->spins = 0;
    if (ep->handle.fd < 0) return;
    ep_set_signal(ep, !aqi_list_is_empty(&ep->queue));
    ep_watch(ep, true);
}

/* The program may sleep next: the handle must become readable when there is an event. */
static void ep_park(struct aqc_ep *ep)
{
    unsigned tries = 0;
    ep_watch(ep, true);
    while (aqi_list_is_empty(&ep->queue) && aqc_may_sleep() == 0 && ++tries < EP_TRIES)
        aqc_progress();
    /* After the last try, make the program call again. */
    ep_set_signal(ep, !aqi_list_is_empty(&ep->queue) || tries == EP_TRIES);
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
    if (lib_alone_thread_start(&aqc.thread) != 0) return CCI_ENOMEM;
    int status = ep_listen(ep, service);
    if (status != CCI_SUCCESS || fd == NULL) return status;
    if (lib_alone_handle_open(&ep->handle) != 0) return CCI_ENOMEM;
    ep_park(ep); /* programs may sleep before their first poll */
    *fd = ep->handle.fd;
    return ep->watches ? CCI_SUCCESS : CCI_ENOMEM;
}

void aqc_ep_close(struct aqc_ep *ep)
{
    aqc_conn_close_all(&ep->conns);
    (void)aq_listener_close(ep->listener);
    struct aqi_node *lists[] = {&ep->queue, &ep->lent};
    for (unsigned i = 0; i < AQI_COUNT_OF(lists); i++)
        while (!aqi_list_is_empty(lists[i]))
            aqc_event_free(AQI_OF(lists[i]->next, struct aqc_event, link));
    aqc_rma_close(ep);
    lib_alone_handle_close(&ep->handle);
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

static struct aqc_ep *ep_new(struct aqc_device *device)
{
    struct aqc_ep *ep = calloc(1, sizeof(*ep));
    if (ep == NULL) return NULL;
    ep->pub.device = &device->pub;
    ep->device = device;
    ep->handle = (struct lib_alone_handle){-1, -1};
    aqi_list_init(&ep->conns);
    aqi_list_init(&ep->queue);
    aqi_list_init(&ep->lent);
    aqi_list_append(&aqc.eps, &ep->link);
    return ep;
}

static int ep_create(const cci_device_t *device, const char *service, int flags,
                     cci_endpoint_t **endpoint, cci_os_handle_t *fd)
{
    struct aqc_device *found = NULL;
    if (endpoint == NULL || flags != 0) return CCI_EINVAL;
    aqc_enter();
    int status = aqc.users == 0 || aqc.forked ? CCI_ERROR : ep_choose_device(device, &found);
    struct aqc_ep *ep = status == CCI_SUCCESS ? ep_new(found) : NULL;
    if (status == CCI_SUCCESS) status = ep != NULL ? ep_open(ep, service, fd) : CCI_ENOMEM;
    if (status == CCI_SUCCESS)
        *endpoint = &ep->pub;
    else if (ep != NULL)
        aqc_ep_close(ep);
    aqc_unlock();
    return status;
}

int cci_create_endpoint(cci_device_t *device, int flags, cci_endpoint_t **endpoint,
                        cci_os_handle_t *fd)
{
    return ep_create(device, NULL, flags, endpoint, fd);
}

int cci_create_endpoint_at(cci_device_t *device, const char *service, int flags,
                           cci_endpoint_t **endpoint, cci_os_handle_t *fd)
{
    if (device == NULL || service == NULL) return CCI_EINVAL;
    return ep_create(device, service, flags, endpoint, fd);
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

void aqc_event_free(struct aqc_event *event)
{
    struct aqc_conn *conn = event->conn;
    aqi_list_remove(&event->link);
    aqi_stash_put(&aqc.stash, event);
    if (conn != NULL) aqc_conn_unref(conn);
}

void aqc_event_push(struct aqc_event *event)
{
    struct aqc_ep *ep = event->ep;
    aqi_list_append(&ep->queue, &event->link);
    /* A thread may be sleeping on the handle, and what arrived is no longer seen there. */
    if (AQI_UNLIKELY(ep->handle.fd >= 0 && ep != aqc.served)) ep_set_signal(ep, true);
}

void aqc_event_about(struct aqc_conn *conn, cci_event_type_t type, cci_status_t status)
{
    struct aqc_event *event = aqc_event_new(conn->ep, conn, 0);
    if (event == NULL) return;
    struct cci_connection *known = status == CCI_SUCCESS ? &conn->pub : NULL;
    if (type == CCI_EVENT_KEEPALIVE_TIMEDOUT)
        event->pub.keepalive =
            (struct cci_event_keepalive_timedout){.type = type, .connection = known};
    else
        event->pub.connect = (struct cci_event_connect){
            .type = type, .status = status, .context = conn->pub.context, .connection = known};
    aqc_event_push(event);
}

void aqc_ep_interface(struct aqc_ep *ep, bool up)
{
    aqc_device_set_up(ep->device, up);
    struct aqc_event *event = up || ep->failed ? NULL : aqc_event_new(ep, NULL, 0);
    ep->failed = !up;
    if (event == NULL) return;
    event->pub.dev_failed = (struct cci_event_endpoint_device_failed){
        .type = CCI_EVENT_ENDPOINT_DEVICE_FAILED, .endpoint = &ep->pub};
    aqc_event_push(event);
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
    unsigned spins = ep->spins = status == CCI_EAGAIN ? ep->spins + 1 : 0;
    if (ep->handle.fd >= 0 && spins < EP_SPINS)
        ep_park(ep);
    else if (ep->handle.fd >= 0 && spins == EP_SPINS)
        ep_unpark(ep);
    aqc_unlock();
    aqi_big_yield(&aqc.lock);
    lib_alone_yield(spins);
    return status;
}

int cci_return_event(cci_event_t *event)
{
    if (event == NULL) return CCI_EINVAL;
    aqc_enter();
    struct aqc_event *own = AQI_OF(event, struct aqc_event, pub);
    if (event->type == CCI_EVENT_RECV) aqc_conn_returned(own->conn, own->units);
    aqc_event_free(own);
    aqc_unlock();
    return CCI_SUCCESS;
}

/* --- options --------------------------------------------------------------------------------- */

/* NULL: the handle of an option is that of a connection. */
static struct aqc_ep *ep_of_handle(const void *handle)
{
    for (struct aqi_node *at = aqc.eps.next; at != &aqc.eps; at = at->next)
        if (&AQI_OF(at, struct aqc_ep, link)->pub == handle) return AQI_OF(at, struct aqc_ep, link);
    return NULL;
}

/* The value of an option that is a number. NULL: it is none, or not one of this kind of handle. */
static uint32_t *ep_option(struct aqc_ep *ep, const void *handle, cci_opt_name_t name)
{
    static uint32_t receives = AQC_WINDOW / 2 /* of minimum-size messages */, sends = AQC_QUEUED;
    struct aqc_conn *conn = AQI_OF(handle, struct aqc_conn, pub);
    switch (name) {
    case CCI_OPT_ENDPT_SEND_TIMEOUT:
        return ep != NULL ? &ep->send_timeout : NULL;
    case CCI_OPT_ENDPT_RECV_BUF_COUNT:
        return ep != NULL ? &receives : NULL;
    case CCI_OPT_ENDPT_SEND_BUF_COUNT:
        return ep != NULL ? &sends : NULL;
    case CCI_OPT_ENDPT_KEEPALIVE_TIMEOUT:
        return ep != NULL ? &ep->keepalive : NULL;
    case CCI_OPT_CONN_SEND_TIMEOUT:
        return ep == NULL ? &conn->send_timeout : NULL;
    case CCI_OPT_CONN_KEEPALIVE_TIMEOUT:
        return ep == NULL ? &conn->keepalive : NULL;
    default:
        return NULL;
    }
}

static int ep_set_option(const void *handle, cci_opt_name_t name, const void *val)
{
    struct aqc_ep *ep = ep_of_handle(handle);
    uint32_t *value = ep_option(ep, handle, name);
    if (value == NULL) return CCI_EINVAL;
    if (name == CCI_OPT_ENDPT_RECV_BUF_COUNT || name == CCI_OPT_ENDPT_SEND_BUF_COUNT)
        return CCI_ERR_NOT_IMPLEMENTED;
    memcpy(value, val, sizeof(*value));
    if (name == CCI_OPT_CONN_KEEPALIVE_TIMEOUT)
        aqc_conn_keepalive(AQI_OF(handle, struct aqc_conn, pub), *value);
    if (name == CCI_OPT_ENDPT_KEEPALIVE_TIMEOUT)
        for (struct aqi_node *at = ep->conns.next; at != &ep->conns; at = at->next)
            aqc_conn_keepalive(AQI_OF(at, struct aqc_conn, link), *value);
    return CCI_SUCCESS;
}

int cci_set_opt(cci_opt_handle_t *handle, cci_opt_name_t name, const void *val)
{
    if (handle == NULL || val == NULL) return CCI_EINVAL;
    aqc_enter();
    int status = ep_set_option(handle, name, val);
    aqc_unlock();
    return status;
}

static int ep_get_option(const void *handle, cci_opt_name_t name, void *val)
{
    struct aqc_ep *ep = ep_of_handle(handle);
    const uint32_t *value = ep_option(ep, handle, name);
    if (value != NULL) {
        memcpy(val, value, sizeof(*value));
    } else if (ep != NULL && name == CCI_OPT_ENDPT_RMA_ALIGN) {
        memset(val, 0, sizeof(cci_alignment_t));
    } else if (ep != NULL && name == CCI_OPT_ENDPT_URI) {
        char *uri = aqc_uri_outside(ep->device->kind, aq_listener_uri(ep->listener));
        if (uri == NULL) return CCI_ENOMEM;
        memcpy(val, &uri, sizeof(uri));
    } else {
        return CCI_EINVAL;
    }
    return CCI_SUCCESS;
}

int cci_get_opt(cci_opt_handle_t *handle, cci_opt_name_t name, void *val)
{
    if (handle == NULL || val == NULL) return CCI_EINVAL;
    aqc_enter();
    int status = ep_get_option(handle, name, val);
    aqc_unlock();
    return status;
}
