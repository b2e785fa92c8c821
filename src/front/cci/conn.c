/* cci: connections: establishing and closing them. */
#include "front/cci/impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/wire.h"

#include <stdlib.h>
#include <sys/resource.h>

#define CONN_MAGIC    0x494343u                   /* "CCI" */
#define CONN_FOREVER  UINT64_C(31536000000000000) /* ns, a year */
#define CONN_LEAST_NS UINT64_C(10000000)          /* after that, for each connection */

/* Descriptors of a connection over udp, and those of requests in the kernel, and of the program. */
enum { CONN_DESCRIPTORS = 6, CONN_OTHER_DESCRIPTORS = 512 };

enum { CONN_OTHER = 1 /* code of a rejected call: different version */ };

/* Precedes the data of a call, and of the answer. */
struct conn_hello {
    uint32_t magic; /* with the version in the highest byte */
    uint32_t attribute;
    uint32_t max_send_size;
    uint32_t unused;
};

static uint32_t conn_magic(void)
{
    return CONN_MAGIC | (uint32_t)aqi_wire_version(AQI_WIRE_CCI) << 24;
}

/*
 * With CCI's own library, connections take no descriptors: raise the limit if there are so many
 * that the usual one, which suits select(), might not suffice.
 */
static void conn_allow_descriptors(void)
{
    struct rlimit limit;
    rlim_t needed = (rlim_t)aqc.conns * CONN_DESCRIPTORS + CONN_OTHER_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || needed <= limit.rlim_cur) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void conn_set_state(struct aqc_conn *conn, enum aqc_state state)
{
    aqc.calling -= conn->state == AQC_CALLING || conn->state == AQC_JOINING;
    aqc.calling += state == AQC_CALLING || state == AQC_JOINING;
    conn->state = state;
}

static struct aqc_conn *conn_new(struct aqc_ep *ep, enum aqc_state state,
                                 cci_conn_attribute_t attribute, const void *context)
{
    struct aqc_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) return NULL;
    conn->ep = ep;
    conn->refs = 1; /* released when the connection is closed */
    conn->pub.endpoint = &ep->pub;
    conn->pub.attribute = attribute;
    conn->pub.max_send_size = ep->device->pub.max_send_size;
    conn->pub.context = (void *)(uintptr_t)context;
    conn->group = attribute == CCI_CONN_ATTR_UU_MC_TX || attribute == CCI_CONN_ATTR_UU_MC_RX;
    conn->reliable = !conn->group && attribute != CCI_CONN_ATTR_UU;
    conn->due = UINT64_MAX;
    conn->unstarted = conn->unsent = &conn->ops;
    aqi_list_init(&conn->ops);
    aqi_list_init(&conn->active);
    aqi_list_init(&conn->under_way);
    aqi_list_append(&ep->conns, &conn->link);
    aqc.conns++;
    conn_allow_descriptors();
    conn->state = AQC_GONE;
    conn_set_state(conn, state);
    return conn;
}

void aqc_conn_unref(struct aqc_conn *conn)
{
    if (--conn->refs == 0) free(conn);
}

void aqc_conn_activate(struct aqc_conn *conn)
{
    if (aqi_list_is_empty(&conn->active) && conn->link_to != NULL)
        aqi_list_append(&aqc.active, &conn->active);
}

/* --- closing --------------------------------------------------------------------------------- */

void aqc_conn_release(struct aqc_conn *conn, uint64_t timeout_ns)
{
    aq_connection *below = conn->link_to;
    conn->link_to = NULL;
    conn->team = NULL;
    aqi_list_remove(&conn->active);
    if (below == NULL) return;
    uint64_t usual = lib_alone_set_close_timeout(timeout_ns);
    aq_connection_set_context(below, NULL);
    (void)aq_connection_close(below);
    (void)lib_alone_set_close_timeout(usual);
}

/* Once the connection below is closed, no transfer is under way, nor uses the program's memory. */
static void conn_end_transfers(struct aqc_conn *conn)
{
    while (!aqi_list_is_empty(&conn->under_way)) {
        struct aqc_op *op = AQI_OF(conn->under_way.next, struct aqc_op, rma);
        if (aq_event_wait(&op->transfer, AQ_FOREVER) != AQ_OK) op->status = CCI_ERR_DISCONNECTED;
        op->stage = AQC_DONE;
        aqi_list_remove(&op->rma);
    }
    aqc_op_complete(conn);
}

/* The program must no longer use it, but events that refer to it may remain. `timeout_ns`: for what
 * the library below has not delivered. */
static void conn_end(struct aqc_conn *conn, uint64_t timeout_ns)
{
    if (conn->left) return;
    aqc_conn_returned(conn, conn->held); /* messages that the program keeps no longer count */
    conn->left = true;
    aqc_conn_fail(conn, CCI_ERR_DISCONNECTED);
    conn_set_state(conn, AQC_GONE);
    aqc_conn_release(conn, timeout_ns);
    conn_end_transfers(conn);
    aqi_list_remove(&conn->link);
    aqc.conns--;
    aqc_conn_unref(conn);
}

static void conn_close(struct aqc_conn *conn, uint64_t timeout_ns)
{
    for (struct aqi_node *at = conn->ep->queue.next, *next; at != &conn->ep->queue; at = next) {
        struct aqc_event *event = AQI_OF(at, struct aqc_event, link);
        next = at->next;
        if (event->conn == conn) aqc_event_free(event);
    }
    conn_end(conn, timeout_ns);
}

/* Whether nothing has to be sent or acknowledged. */
static bool conn_is_flushed(const struct aqc_conn *conn)
{
    return conn->state != AQC_OPEN ||
           (aqi_list_is_empty(&conn->ops) && conn->got == conn->reported);
}

/*
 * Whether to wait for transfers. They acknowledge nothing before they are complete, which may take
 * long, so the peer's library is asked whether it responds.
 */
static bool conn_waits_for_transfers(struct aqc_conn *conn)
{
    bool pending = conn->unstarted != &conn->ops || !aqi_list_is_empty(&conn->under_way);
    if (!pending || conn->state != AQC_OPEN || conn->silent) return false;
    if (!conn->leaving) (void)!aq_connection_keepalive(conn->link_to, AQC_CLOSE_NS);
    conn->leaving = true;
    return true;
}

/* Whether to wait for any of these connections. `*since` is when peers acknowledged the last of
 * `*done` messages and transfers. */
static bool conn_waits_for_some(const struct aqi_node *conns, uint64_t *since, uint32_t *done)
{
    bool flushed = true, transfers = false;
    uint32_t now_done = 0;
    uint64_t now = aqi_now_ns();
    for (struct aqi_node *at = conns->next; at != conns; at = at->next) {
        struct aqc_conn *conn = AQI_OF(at, struct aqc_conn, link);
        flushed = flushed && conn_is_flushed(conn);
        transfers = conn_waits_for_transfers(conn) || transfers;
        now_done += conn->acked + conn->moved;
    }
    if (*since == 0 || now_done != *done) *since = now;
    *done = now_done;
    return !flushed && (now - *since < AQC_CLOSE_NS || transfers);
}

/* Other threads, with other endpoints and connections, run meanwhile. The delays that silent peers
 * cause do not add up. */
void aqc_conn_close_all(struct aqi_node *conns)
{
    uint64_t since = 0;
    uint32_t done = 0;
    for (unsigned rounds = 0; conn_waits_for_some(conns, &since, &done); rounds++) {
        aqc_progress();
        aqc_pause(rounds);
    }
    uint64_t until = aqi_now_ns() + AQC_CLOSE_NS;
    while (!aqi_list_is_empty(conns)) {
        struct aqc_conn *conn = AQI_OF(conns->next, struct aqc_conn, link);
        uint64_t now = aqi_now_ns();
        bool wait = conn_is_flushed(conn) && now + CONN_LEAST_NS < until;
        conn_close(conn, wait ? until - now : CONN_LEAST_NS);
    }
}

int cci_disconnect(cci_connection_t *connection)
{
    if (connection == NULL) return CCI_EINVAL;
    if (aqc.forked) return CCI_SUCCESS;
    aqc_enter();
    struct aqc_conn *conn = AQI_OF(connection, struct aqc_conn, pub);
    struct aqi_node alone;
    aqi_list_init(&alone);
    aqi_list_remove(&conn->link);
    aqi_list_append(&alone, &conn->link);
    aqc_conn_close_all(&alone);
    aqc_unlock();
    return CCI_SUCCESS;
}

/* --- calling --------------------------------------------------------------------------------- */

static uint64_t conn_timeout_ns(const struct timeval *timeout)
{
    if (timeout == NULL || timeout->tv_sec < 0 || timeout->tv_usec < 0) return CONN_FOREVER;
    uint64_t s = (uint64_t)timeout->tv_sec, us = (uint64_t)timeout->tv_usec;
    if (s >= CONN_FOREVER / 1000000000) return CONN_FOREVER;
    return aqi_max(s * 1000000000 + us * 1000, 1);
}

/*
 * Join a multicast group, on the interface of the device unless the URI specifies one. There is no
 * server that could answer or receive data.
 */
static aq_status conn_join_group(struct aqc_conn *conn, const char *uri, aq_connect_params *params)
{
    char at_interface[320];
    bool sends = conn->pub.attribute == CCI_CONN_ATTR_UU_MC_TX;
    const char *port = strstr(uri, "]:"), *address = conn->ep->device->address;
    if (port == NULL) port = strrchr(uri, ':');
    if (port != NULL && *address != '\0' && strchr(uri, '%') == NULL) {
        snprintf(at_interface, sizeof(at_interface), "%.*s%%%s%s", (int)(port - uri), uri, address,
                 port);
        uri = at_interface;
    }
    params->flags |= sends ? AQ_CONNECT_GROUP_SEND : AQ_CONNECT_GROUP_RECEIVE;
    return aq_connect_start(uri, params, &conn->link_to);
}

static aq_status conn_call(struct aqc_conn *conn, const char *uri, const void *data, uint32_t len,
                           const struct timeval *timeout)
{
    struct {
        struct conn_hello hello;
        unsigned char data[CCI_CONN_REQ_LEN];
    } call = {.hello = {.magic = conn_magic(),
                        .attribute = (uint32_t)conn->pub.attribute,
                        .max_send_size = conn->pub.max_send_size}};
    aq_connect_params params = aq_connect_defaults();
    params.flags = conn->ep->device->anyone ? AQ_CONNECT_ANYBODY : 0;
    params.context = conn;
    if (conn->group) return conn_join_group(conn, uri, &params);
    if (len != 0) memcpy(call.data, data, len);
    params.data = &call;
    params.nbytes = sizeof(call.hello) + len;
    params.timeout_ns = conn_timeout_ns(timeout);
    params.flags |= AQ_CONNECT_ORDERED;
    return aq_connect_start(uri, &params, &conn->link_to);
}

/* The result of a call, or of accepting one. */
static cci_event_type_t conn_result(const struct aqc_conn *conn)
{
    return conn->state == AQC_CALLING ? CCI_EVENT_CONNECT : CCI_EVENT_ACCEPT;
}

static void conn_failed(struct aqc_conn *conn, cci_status_t status)
{
    aqc_event_about(conn, conn_result(conn), status);
    conn_end(conn, AQC_CLOSE_NS);
}

int cci_connect(cci_endpoint_t *endpoint, const char *server_uri, const void *data_ptr,
                uint32_t data_len, cci_conn_attribute_t attribute, const void *context, int flags,
                const struct timeval *timeout)
{
    char uri[256];
    if (endpoint == NULL || server_uri == NULL || data_len > CCI_CONN_REQ_LEN || flags != 0 ||
        (data_len != 0 && data_ptr == NULL))
        return CCI_EINVAL;
    struct aqc_ep *ep = AQI_OF(endpoint, struct aqc_ep, pub);
    if (!aqc_uri_inside(ep->device->kind, server_uri, uri, sizeof(uri))) return CCI_EINVAL;
    aqc_enter();
    struct aqc_conn *conn = conn_new(ep, AQC_CALLING, attribute, context);
    aq_status st = conn != NULL ? conn_call(conn, uri, data_ptr, data_len, timeout) : AQ_OK;
    /* Report failure by an event: programs retry after an event, but exit if a call fails. */
    if (st != AQ_OK) conn_failed(conn, aqc_status(st));
    aqc_unlock();
    return conn != NULL ? CCI_SUCCESS : CCI_ENOMEM;
}

/* --- incoming requests ----------------------------------------------------------------------- */

static const struct conn_hello *conn_hello(aq_connection *below, aq_connection_info *info)
{
    if (aq_connection_query(below, info) != AQ_OK || info->nbytes < sizeof(struct conn_hello) ||
        info->nbytes > sizeof(struct conn_hello) + CCI_CONN_REQ_LEN)
        return NULL;
    const struct conn_hello *hello = info->data;
    bool ordered = (info->flags & AQ_CONNECT_ORDERED) != 0;
    return hello->magic == conn_magic() && ordered ? hello : NULL;
}

static void conn_refuse(aq_connection *below, uint32_t code, const char *why)
{
    if (aq_connection_reject(below, code, why) != AQ_OK) (void)aq_connection_close(below);
}

/* Reject a request that was not made by this version of the library. */
static void conn_refuse_stranger(aq_connection *below, const aq_connection_info *info)
{
    uint32_t magic = 0;
    char why[200] = "the caller is not a CCI program";
    if (info->nbytes >= sizeof(magic)) memcpy(&magic, info->data, sizeof(magic));
    bool other = (magic & 0xffffff) == CONN_MAGIC && magic != conn_magic();
    if (other) {
        aqi_wire_differs(why, sizeof(why), AQI_WIRE_CCI, "the caller", magic >> 24, "the server");
        aqi_log(AQI_LOG_WARN, "cci", "refused a connection request: %s", why);
    }
    conn_refuse(below, other ? CONN_OTHER : 0, why);
}

static void conn_limit(struct aqc_conn *conn, size_t most)
{
    conn->pub.max_send_size = (uint32_t)aqi_min(conn->pub.max_send_size, most);
}

static void conn_requested(struct aqc_ep *ep, aq_connection *below)
{
    aq_connection_info info = {0};
    const struct conn_hello *hello = conn_hello(below, &info);
    if (hello == NULL) {
        conn_refuse_stranger(below, &info);
        return;
    }
    struct aqc_conn *conn =
        conn_new(ep, AQC_REQUESTED, (cci_conn_attribute_t)hello->attribute, NULL);
    uint32_t len = (uint32_t)(info.nbytes - sizeof(*hello));
    struct aqc_event *event = conn != NULL ? aqc_event_new(ep, conn, len) : NULL;
    if (event == NULL) {
        conn_refuse(below, 0, "out of memory");
        if (conn != NULL) conn_end(conn, 0);
        return;
    }
    conn->link_to = below;
    conn_limit(conn, hello->max_send_size);
    aq_connection_set_context(below, conn);
    /* A copy: the program may read it until it returns the event, and the connection may end
     * earlier. */
    memcpy(aqc_payload(event), hello + 1, len);
    event->pub.request =
        (struct cci_event_connect_request){.type = CCI_EVENT_CONNECT_REQUEST,
                                           .data_len = len,
                                           .data_ptr = len != 0 ? aqc_payload(event) : NULL,
                                           .attribute = conn->pub.attribute};
    event->answered = false;
    aqc_event_push(event);
}

/* Begin to answer a request. Returns NULL if it is none, or has been answered. */
static struct aqc_conn *conn_answer(cci_event_t *request)
{
    struct aqc_event *event = AQI_OF(request, struct aqc_event, pub);
    if (request->type != CCI_EVENT_CONNECT_REQUEST || event->answered) return NULL;
    event->answered = true;
    return event->conn;
}

int cci_accept(cci_event_t *conn_req, const void *context)
{
    if (conn_req == NULL) return CCI_EINVAL;
    aqc_enter();
    struct aqc_conn *conn = conn_answer(conn_req);
    if (conn != NULL) {
        const struct conn_hello hello = {.magic = conn_magic(),
                                         .max_send_size = conn->ep->device->pub.max_send_size};
        aq_accept_params params = aq_accept_defaults();
        params.data = &hello;
        params.nbytes = sizeof(hello);
        params.context = conn;
        conn->pub.context = (void *)(uintptr_t)context;
        if (!conn->left && aq_connection_accept(conn->link_to, &params) == AQ_OK)
            conn_set_state(conn, AQC_JOINING);
        else
            conn_failed(conn, CCI_ETIMEDOUT); /* the caller has stopped waiting */
    }
    aqc_unlock();
    return conn != NULL ? CCI_SUCCESS : CCI_EINVAL;
}

int cci_reject(cci_event_t *conn_req)
{
    if (conn_req == NULL) return CCI_EINVAL;
    aqc_enter();
    struct aqc_conn *conn = conn_answer(conn_req);
    if (conn != NULL && !conn->left) {
        conn_refuse(conn->link_to, 0, NULL);
        conn->link_to = NULL;
        conn_end(conn, 0);
    }
    aqc_unlock();
    return conn != NULL ? CCI_SUCCESS : CCI_EINVAL;
}

/* --- events of connections -------------------------------------------------------------------- */

void aqc_conn_keepalive(struct aqc_conn *conn, uint32_t us)
{
    conn->keepalive = us;
    if (conn->state == AQC_OPEN && !conn->group)
        (void)!aq_connection_keepalive(conn->link_to, (uint64_t)us * 1000);
}

bool aqc_conn_open(struct aqc_conn *conn)
{
    aq_connection_info info;
    const struct conn_hello none = {.max_send_size = AQC_MESSAGE};
    if (conn->state != AQC_CALLING && conn->state != AQC_JOINING) return conn->state == AQC_OPEN;
    const struct conn_hello *hello = conn->group ? &none : conn_hello(conn->link_to, &info);
    if (hello == NULL) return false;
    cci_event_type_t type = conn_result(conn);
    conn->team = aq_connection_team(conn->link_to);
    conn_limit(conn, aqi_min(hello->max_send_size, aq_am_max_medium(conn->team)));
    conn->send_timeout = conn->ep->send_timeout;
    conn->keepalive = conn->ep->keepalive;
    conn_set_state(conn, AQC_OPEN);
    aqc_event_about(conn, type, CCI_SUCCESS);
    return true;
}

/* The peer has closed the connection or was lost. */
static void conn_lost(struct aqc_conn *conn, cci_status_t status)
{
    if (conn->state == AQC_CALLING || conn->state == AQC_JOINING) {
        conn_failed(conn, status);
    } else if (conn->state == AQC_OPEN) {
        conn_set_state(conn, AQC_GONE);
        aqc_conn_fail(conn, CCI_ERR_DISCONNECTED);
        if (aqi_list_is_empty(&conn->under_way)) aqc_conn_release(conn, AQC_CLOSE_NS);
    } else {
        conn_end(conn, AQC_CLOSE_NS);
    }
}

static void conn_silent(struct aqc_conn *conn)
{
    conn->silent = conn->leaving;
    if (conn->keepalive == 0 || conn->leaving) return;
    aqc_conn_keepalive(conn, 0); /* disabled until it is set again */
    aqc_event_about(conn, CCI_EVENT_KEEPALIVE_TIMEDOUT, CCI_SUCCESS);
}

static void conn_event(const aq_connection_event *event)
{
    struct aqc_conn *conn = event->context;
    aq_connection_info info;
    if (event->connection == NULL) {
        /* An interface without a carrier counts as up, as in the search for devices: it still
         * reaches this host. */
        aqc_ep_interface(event->context,
                         event->type == AQ_LISTENER_UP || event->status == AQ_EPEER);
    } else if (event->type == AQ_CONNECTION_REQUEST) {
        conn_requested(event->context, event->connection);
    } else if (conn == NULL || conn->link_to != event->connection) {
        (void)aq_connection_close(event->connection);
    } else if (event->type == AQ_CONNECTION_SILENT) {
        conn_silent(conn);
    } else if (event->type == AQ_CONNECTION_OPENED) {
        if (aqc_conn_open(conn))
            aqc_conn_keepalive(conn, conn->keepalive);
        else
            conn_failed(conn, CCI_ECONNREFUSED);
    } else {
        /* Log the reason: the program only gets a status. */
        if (event->type == AQ_CONNECTION_FAILED &&
            aq_connection_query(event->connection, &info) == AQ_OK && info.code == CONN_OTHER)
            aqi_log(AQI_LOG_WARN, "cci", "a server refused the connection request: %s",
                    info.reason);
        conn_lost(conn, aqc_status(event->status));
    }
}

void aqc_conn_events(void)
{
    aq_connection_event event;
    while (aq_connection_next_event(&event) == AQ_OK)
        conn_event(&event);
}
