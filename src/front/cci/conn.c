/* cci: connections: establishing and closing them. */
#include "front/cci/impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/wire.h"
#include "lib/alone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONN_MAGIC    0x494343u                   /* "CCI" */
#define CONN_FOREVER  UINT64_C(31536000000000000) /* ns, a year */
#define CONN_FLUSH_NS UINT64_C(5000000000)        /* at a disconnect, for peers that are silent */
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
    rlim_t needed = (rlim_t)++aqc.conns * CONN_DESCRIPTORS + CONN_OTHER_DESCRIPTORS;
    if (needed <= aqc.descriptors || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    if (needed > limit.rlim_cur && limit.rlim_cur < limit.rlim_max) {
        rlim_t usual = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = usual;
    }
    aqc.descriptors = limit.rlim_cur;
}

/* Remove it from its endpoint. */
static void conn_remove(struct aqc_conn *conn)
{
    aqi_list_remove(&conn->link);
    aqc.conns--;
}

static struct aqc_conn *conn_new(struct aqc_ep *ep, enum aqc_state state, const void *context)
{
    struct aqc_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) return NULL;
    conn->ep = ep;
    conn->state = state;
    conn->refs = 1; /* released when the connection is closed */
    conn->pub.endpoint = &ep->pub;
    conn->pub.context = (void *)(uintptr_t)context;
    aqi_list_init(&conn->active);
    aqi_list_init(&conn->under_way);
    aqi_list_init(&conn->early);
    aqi_list_append(&ep->conns, &conn->link);
    conn_allow_descriptors();
    return conn;
}

void aqc_conn_unref(struct aqc_conn *conn)
{
    if (--conn->refs == 0) free(conn);
}

void aqc_conn_activate(struct aqc_conn *conn)
{
    if (conn->active.next == &conn->active && conn->link_to != NULL)
        aqi_list_append(&aqc.active, &conn->active);
}

static void conn_set_state(struct aqc_conn *conn, enum aqc_state state)
{
    bool was = conn->state == AQC_CALLING || conn->state == AQC_JOINING;
    bool is = state == AQC_CALLING || state == AQC_JOINING;
    conn->state = state;
    if (is && !was) aqc.calling++;
    if (was && !is) aqc.calling--;
}

/* --- closing --------------------------------------------------------------------------------- */

static void conn_release(struct aqc_conn *conn, uint64_t patience)
{
    aq_connection *below = conn->link_to;
    conn->link_to = NULL;
    conn->team = NULL;
    aqi_list_remove(&conn->active);
    if (below == NULL) return;
    uint64_t usual = lib_alone_patience(patience);
    aq_connection_set_context(below, NULL);
    (void)aq_connection_close(below);
    (void)lib_alone_patience(usual);
}

void aqc_conn_release(struct aqc_conn *conn)
{
    conn_release(conn, CONN_FLUSH_NS);
}

/* Whether nothing has to be sent or acknowledged. */
static bool conn_is_flushed(const struct aqc_conn *conn)
{
    return conn->state != AQC_OPEN || (conn->ops == NULL && conn->got == conn->told);
}

/* Once the connection below is closed, no transfer is under way, nor uses the program's memory. */
static void conn_end_transfers(struct aqc_conn *conn)
{
    while (!aqi_list_is_empty(&conn->under_way)) {
        struct aqc_op *op = AQI_OF(conn->under_way.next, struct aqc_op, rma);
        if (aq_event_wait(&op->transfer, AQ_FOREVER) != AQ_OK) op->status = CCI_ERR_DISCONNECTED;
        op->done = true;
        aqi_list_remove(&op->rma);
    }
    aqc_op_complete(conn);
}

static void conn_drop_events(struct aqi_node *list, const struct aqc_conn *conn)
{
    for (struct aqi_node *at = list->next, *next; at != list; at = next) {
        struct aqc_event *event = AQI_OF(at, struct aqc_event, link);
        next = at->next;
        if (event->conn == conn) aqc_event_free(event);
    }
}

/* Without further delay; `patience`: for what the library below has not delivered. */
static void conn_close(struct aqc_conn *conn, uint64_t patience)
{
    conn->left = true;
    aqc_conn_fail(conn, CCI_ERR_DISCONNECTED);
    conn_set_state(conn, AQC_GONE);
    conn_release(conn, patience);
    conn_end_transfers(conn);
    conn->send_timeout = conn->keepalive = 0;
    aqc_conn_watch(conn);
    if (conn->starved) conn->ep->starved--;
    conn->starved = false;
    conn_drop_events(&conn->early, conn);
    conn_drop_events(&conn->ep->queue, conn);
    conn_remove(conn);
    aqc_conn_unref(conn);
}

struct conn_patience {
    uint64_t since;
    uint32_t done;
};

/*
 * Whether to wait for transfers. They acknowledge nothing before they are complete, which may take
 * long, so the peer's library is asked whether it responds.
 */
static bool conn_waits_for_transfers(struct aqc_conn *conn)
{
    bool pending = conn->unstarted != NULL || !aqi_list_is_empty(&conn->under_way);
    if (!pending || conn->state != AQC_OPEN || conn->silent) return false;
    if (!conn->leaving) (void)!aq_connection_keepalive(conn->link_to, CONN_FLUSH_NS);
    conn->leaving = true;
    return true;
}

/* Count the messages and transfers that the peer has acknowledged. */
static uint32_t conn_done(const struct aqc_conn *conn)
{
    return conn->acked + conn->moved;
}

/* Whether peers have acknowledged anything in the last CONN_FLUSH_NS. */
static bool conn_is_patient(struct conn_patience *patience, uint32_t done)
{
    uint64_t now = aqi_now_ns();
    if (patience->since == 0 || done != patience->done)
        *patience = (struct conn_patience){.since = now, .done = done};
    return now - patience->since < CONN_FLUSH_NS;
}

/* A round of a wait. Other threads, with other endpoints and connections, run meanwhile. */
static void conn_wait(unsigned rounds)
{
    aqc_progress();
    aqc_pause(rounds);
}

void aqc_conn_close(struct aqc_conn *conn)
{
    struct conn_patience patience = {0};
    bool flushed;
    for (unsigned rounds = 0; !(flushed = conn_is_flushed(conn)); rounds++) {
        bool patient = conn_is_patient(&patience, conn_done(conn));
        if (!conn_waits_for_transfers(conn) && !patient) break;
        conn_wait(rounds);
    }
    conn_close(conn, flushed ? CONN_FLUSH_NS : CONN_LEAST_NS);
}

/* Whether to wait for any connection of the endpoint. */
static bool conn_wait_for_some(struct aqc_ep *ep, struct conn_patience *patience)
{
    bool flushed = true, transfers = false;
    uint32_t done = 0;
    for (struct aqi_node *at = ep->conns.next; at != &ep->conns; at = at->next) {
        struct aqc_conn *conn = AQI_OF(at, struct aqc_conn, link);
        flushed = flushed && conn_is_flushed(conn);
        transfers = conn_waits_for_transfers(conn) || transfers;
        done += conn_done(conn);
    }
    return !flushed && (conn_is_patient(patience, done) || transfers);
}

void aqc_conn_close_all(struct aqc_ep *ep)
{
    struct conn_patience patience = {0};
    for (unsigned rounds = 0; conn_wait_for_some(ep, &patience); rounds++)
        conn_wait(rounds);
    uint64_t until = aqi_now_ns() + CONN_FLUSH_NS;
    while (!aqi_list_is_empty(&ep->conns)) {
        struct aqc_conn *conn = AQI_OF(ep->conns.next, struct aqc_conn, link);
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
    aqc_conn_close(AQI_OF(connection, struct aqc_conn, pub));
    aqc_unlock();
    return CCI_SUCCESS;
}

/* --- calling --------------------------------------------------------------------------------- */

static uint64_t conn_patience(const struct timeval *timeout)
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
static aq_status conn_join_group(struct aqc_conn *conn, const char *uri)
{
    char at_interface[320];
    bool sends = conn->pub.attribute == CCI_CONN_ATTR_UU_MC_TX;
    const char *port = strstr(uri, "]:"), *address = conn->ep->device->address;
    aq_connect_params params = aq_connect_defaults();
    if (port == NULL) port = strrchr(uri, ':');
    if (port != NULL && *address != '\0' && strchr(uri, '%') == NULL) {
        snprintf(at_interface, sizeof(at_interface), "%.*s%%%s%s", (int)(port - uri), uri, address,
                 port);
        uri = at_interface;
    }
    params.flags = (sends ? AQ_CONNECT_GROUP_SEND : AQ_CONNECT_GROUP_RECEIVE) |
                   (conn->ep->device->anyone ? AQ_CONNECT_ANYBODY : 0);
    params.context = conn;
    return aq_connect_start(uri, &params, &conn->link_to);
}

static aq_status conn_call(struct aqc_conn *conn, const char *uri, const void *data, uint32_t len,
                           uint64_t patience)
{
    unsigned char all[sizeof(struct conn_hello) + CCI_CONN_REQ_LEN];
    const struct conn_hello hello = {.magic = conn_magic(),
                                     .attribute = (uint32_t)conn->pub.attribute,
                                     .max_send_size = conn->ep->device->pub.max_send_size};
    aq_connect_params params = aq_connect_defaults();
    memcpy(all, &hello, sizeof(hello));
    if (len != 0) memcpy(all + sizeof(hello), data, len);
    params.data = all;
    params.nbytes = sizeof(hello) + len;
    params.timeout_ns = patience;
    params.flags = AQ_CONNECT_ORDERED | (conn->ep->device->anyone ? AQ_CONNECT_ANYBODY : 0);
    params.context = conn;
    return aq_connect_start(uri, &params, &conn->link_to);
}

static void conn_failed(struct aqc_conn *conn, cci_event_type_t type, cci_status_t status)
{
    aqc_event_about(conn, type, status);
    conn_remove(conn);
    conn_set_state(conn, AQC_GONE);
    aqc_conn_release(conn);
    conn->left = true;
    aqc_conn_unref(conn);
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
    struct aqc_conn *conn = conn_new(ep, AQC_GONE, context);
    int status = conn != NULL ? CCI_SUCCESS : CCI_ENOMEM;
    if (conn != NULL) {
        conn->pub.attribute = attribute;
        conn_set_state(conn, AQC_CALLING);
        aq_status st = aqc_conn_is_group(conn)
                           ? conn_join_group(conn, uri)
                           : conn_call(conn, uri, data_ptr, data_len, conn_patience(timeout));
        /* Report failure by an event: programs retry after an event, but exit if a call fails. */
        if (st != AQ_OK) conn_failed(conn, CCI_EVENT_CONNECT, aqc_status(st));
    }
    aqc_unlock();
    return status;
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

/* Reject a request that was not made by this library. */
static void conn_reject(aq_connection *below)
{
    aq_connection_info info;
    uint32_t magic = 0;
    char why[200] = "the caller is not a CCI program";
    if (aq_connection_query(below, &info) == AQ_OK && info.nbytes >= sizeof(magic))
        memcpy(&magic, info.data, sizeof(magic));
    bool other = (magic & 0xffffff) == CONN_MAGIC && magic != conn_magic();
    if (other) {
        aqi_wire_differs(why, sizeof(why), AQI_WIRE_CCI, "the caller", magic >> 24, "the server");
        aqi_log(AQI_LOG_WARN, "cci", "refused a connection request: %s", why);
    }
    if (aq_connection_reject(below, other ? CONN_OTHER : 0, why) != AQ_OK)
        (void)aq_connection_close(below);
}

static void conn_limit(struct aqc_conn *conn, const struct conn_hello *hello)
{
    uint32_t own = conn->ep->device->pub.max_send_size;
    conn->pub.max_send_size = own < hello->max_send_size ? own : hello->max_send_size;
}

static void conn_requested(struct aqc_ep *ep, aq_connection *below)
{
    aq_connection_info info;
    const struct conn_hello *hello = conn_hello(below, &info);
    if (hello == NULL) {
        conn_reject(below);
        return;
    }
    uint32_t len = (uint32_t)(info.nbytes - sizeof(*hello));
    struct aqc_event *event = aqc_event_new(ep, len);
    struct aqc_conn *conn = event != NULL ? conn_new(ep, AQC_REQUESTED, NULL) : NULL;
    if (conn == NULL) {
        if (event != NULL) aqc_event_free(event);
        if (aq_connection_reject(below, 0, "out of memory") != AQ_OK)
            (void)aq_connection_close(below);
        return;
    }
    conn->link_to = below;
    conn->pub.attribute = (cci_conn_attribute_t)hello->attribute;
    conn_limit(conn, hello);
    aq_connection_set_context(below, conn);
    /* A copy: the program may read it until it returns the event, and the connection may end
     * earlier. */
    void *data = len != 0 ? AQC_PAYLOAD(event) : NULL;
    if (len != 0) memcpy(data, hello + 1, len);
    event->pub.request = (struct cci_event_connect_request){.type = CCI_EVENT_CONNECT_REQUEST,
                                                            .data_len = len,
                                                            .data_ptr = data,
                                                            .attribute = conn->pub.attribute};
    event->conn = conn;
    event->answered = false;
    conn->asked = true;
    conn->refs++;
    aqc_event_push(event);
}

/* The connection of a pending request; NULL: it is no request, or has been answered. */
static struct aqc_conn *conn_of_request(cci_event_t *request)
{
    struct aqc_event *event = AQI_OF(request, struct aqc_event, pub);
    if (request == NULL || request->type != CCI_EVENT_CONNECT_REQUEST || event->answered)
        return NULL;
    event->answered = true;
    return event->conn;
}

int cci_accept(cci_event_t *conn_req, const void *context)
{
    if (conn_req == NULL) return CCI_EINVAL;
    aqc_enter();
    struct aqc_conn *conn = conn_of_request(conn_req);
    if (conn != NULL) {
        const struct conn_hello hello = {.magic = conn_magic(),
                                         .max_send_size = conn->ep->device->pub.max_send_size};
        aq_accept_params params = aq_accept_defaults();
        params.data = &hello;
        params.nbytes = sizeof(hello);
        params.context = conn;
        conn->pub.context = (void *)(uintptr_t)context;
        aq_status st =
            conn->state == AQC_REQUESTED ? aq_connection_accept(conn->link_to, &params) : AQ_EPEER;
        if (st == AQ_OK)
            conn_set_state(conn, AQC_JOINING);
        else
            conn_failed(conn, CCI_EVENT_ACCEPT, CCI_ETIMEDOUT); /* the caller has stopped waiting */
    }
    aqc_unlock();
    return conn != NULL ? CCI_SUCCESS : CCI_EINVAL;
}

int cci_reject(cci_event_t *conn_req)
{
    if (conn_req == NULL) return CCI_EINVAL;
    aqc_enter();
    struct aqc_conn *conn = conn_of_request(conn_req);
    if (conn != NULL && conn->state == AQC_REQUESTED) {
        aq_connection *below = conn->link_to;
        conn->link_to = NULL;
        conn_set_state(conn, AQC_GONE);
        if (aq_connection_reject(below, 0, NULL) != AQ_OK) (void)aq_connection_close(below);
    }
    aqc_unlock();
    return conn != NULL ? CCI_SUCCESS : CCI_EINVAL;
}

/* --- events of connections -------------------------------------------------------------------- */

static void conn_opened(struct aqc_conn *conn, cci_event_type_t type)
{
    aq_connection_info info;
    const struct conn_hello none = {.max_send_size = AQC_MESSAGE};
    const struct conn_hello *hello =
        aqc_conn_is_group(conn) ? &none : conn_hello(conn->link_to, &info);
    if (hello == NULL) {
        conn_failed(conn, type, CCI_ECONNREFUSED);
        return;
    }
    conn_limit(conn, hello);
    conn->team = aq_connection_team(conn->link_to);
    size_t most = aq_am_max_medium(conn->team);
    conn->pub.max_send_size = (uint32_t)aqi_min(conn->pub.max_send_size, most);
    conn_set_state(conn, AQC_OPEN);
    conn->send_timeout = conn->ep->send_timeout;
    conn->keepalive = conn->ep->keepalive;
    aqc_conn_watch(conn);
    aqc_event_about(conn, type, CCI_SUCCESS);
    aqc_conn_opened(conn);
}

/* The peer has closed the connection or was lost. */
static void conn_lost(struct aqc_conn *conn, cci_status_t status)
{
    if (conn->state == AQC_CALLING || conn->state == AQC_JOINING) {
        conn_failed(conn, conn->state == AQC_CALLING ? CCI_EVENT_CONNECT : CCI_EVENT_ACCEPT,
                    status);
    } else if (conn->state == AQC_OPEN) {
        conn_set_state(conn, AQC_GONE);
        aqc_conn_fail(conn, CCI_ERR_DISCONNECTED);
        if (aqi_list_is_empty(&conn->under_way)) aqc_conn_release(conn);
    } else {
        conn_set_state(conn, AQC_GONE);
        if (!conn->asked && !conn->left) aqc_conn_close(conn);
    }
}

static void conn_silent(struct aqc_conn *conn)
{
    conn->silent = conn->leaving;
    if (conn->keepalive == 0 || conn->leaving) return;
    conn->keepalive = 0; /* disabled until it is set again */
    aqc_conn_watch(conn);
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
        return;
    }
    if (event->type == AQ_CONNECTION_REQUEST) {
        conn_requested(event->context, event->connection);
        return;
    }
    if (conn == NULL || conn->link_to != event->connection) {
        (void)aq_connection_close(event->connection);
        return;
    }
    /* Log the reason: the program only gets a status. */
    if (event->type == AQ_CONNECTION_FAILED &&
        aq_connection_query(event->connection, &info) == AQ_OK && info.code == CONN_OTHER)
        aqi_log(AQI_LOG_WARN, "cci", "a server refused the connection request: %s", info.reason);
    if (event->type == AQ_CONNECTION_SILENT)
        conn_silent(conn);
    else if (event->type == AQ_CONNECTION_OPENED)
        conn_opened(conn, conn->state == AQC_CALLING ? CCI_EVENT_CONNECT : CCI_EVENT_ACCEPT);
    else
        conn_lost(conn, aqc_status(event->status));
}

void aqc_conn_events(void)
{
    aq_connection_event event;
    while (aq_connection_next_event(&event) == AQ_OK)
        conn_event(&event);
}
