/* Connections: the calls of programs. */
#include "core/conn/conn.h"

#include "base/clock.h"
#include "base/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONN_API_KINDS  (AQ_CONNECT_ORDERED | AQ_CONNECT_UNRELIABLE)
#define CONN_API_TRAITS (CONN_API_KINDS | CONN_GROUP)

static aq_status conn_api_is_null(const char *call, const char *what)
{
    return aqi_fail(AQ_EINVAL, "core", "%s: %s is NULL", call, what);
}

/* --- listening ------------------------------------------------------------------------------- */

bool aqi_core_may_use(const char *name)
{
    const char *list = aqi_core_config.transports;
    return strcmp(list, "auto") == 0 || aqi_words_have(list, name);
}

/* The transport that `uri` names, or the first that connects programs not started together. */
static aq_status conn_api_transport_for(const char *uri, const char *call, unsigned *out)
{
    for (unsigned t = 0; aqi_transports[t] != NULL; t++) {
        const struct aqi_transport *ops = aqi_transports[t];
        size_t n = strlen(ops->name);
        if (ops->rendezvous == NULL || !aqi_core_may_use(ops->name)) continue;
        if (uri != NULL && (strncmp(uri, ops->name, n) != 0 || strncmp(uri + n, "://", 3) != 0))
            continue;
        *out = t;
        return AQ_OK;
    }
    return aqi_fail(AQ_ENOTSUP, "core",
                    "%s: none of the transports in use can connect programs at \"%s\": try "
                    "shm:///PATH or udp://HOST:PORT, and see AQ_TRANSPORTS",
                    call, uri != NULL ? uri : "");
}

/* Without AQ_LISTEN_ANYBODY or AQ_CONNECT_ANYBODY, the transport must identify its peers. */
static aq_status conn_api_begin(const char *call, const char *uri, bool anybody, unsigned *t)
{
    aq_status st = core_conn_ready();
    if (st == AQ_OK) st = conn_api_transport_for(uri, call, t);
    if (st != AQ_OK) return st;
    aqi_spin_lock(&conns.lock);
    st = conn_rendezvous_open(*t);
    if (st == AQ_OK && !anybody &&
        !aqi_transports[*t]->rendezvous->knows_writers(conns.rendezvous[*t]))
        st = aqi_fail(
            AQ_EACCESS, "core",
            "%s: %s cannot tell which process is at the other end: set AQ_CONNECT_SECRET on both "
            "sides, or allow any peer with AQ_LISTEN_ANYBODY and AQ_CONNECT_ANYBODY",
            call, aqi_transports[*t]->name);
    aqi_spin_unlock(&conns.lock);
    return st;
}

aq_status aq_listen(const char *uri, unsigned flags, void *context, aq_listener **out)
{
    unsigned t;
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK) return st;
    if (out == NULL) return conn_api_is_null(__func__, "the pointer to the listener");
    if ((flags & ~AQ_LISTEN_ANYBODY) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", __func__,
                        flags & ~AQ_LISTEN_ANYBODY);
    st = conn_api_begin(__func__, uri, (flags & AQ_LISTEN_ANYBODY) != 0, &t);
    if (st != AQ_OK) return st;
    aq_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: out of memory", __func__);
    *listener = (aq_listener){.t = t, .flags = flags, .context = context};
    conn_listener_init(listener);
    aqi_spin_lock(&conns.lock);
    st = aqi_transports[t]->rendezvous->listen(conns.rendezvous[t], uri, listener, &listener->at,
                                               listener->uri);
    if (st == AQ_OK) {
        listener->next = conns.listeners;
        conns.listeners = listener;
        core_source_count(&core_conn_used, 1);
        core_set_disarmed(); /* a sleeping thread does not watch connections yet */
        *out = listener;
    }
    aqi_spin_unlock(&conns.lock);
    if (st != AQ_OK) free(listener);
    return st;
}

const char *aq_listener_uri(const aq_listener *listener)
{
    return listener != NULL ? listener->uri : "";
}

/*
 * Release the connections made through the listener: requests that the program has not seen are
 * rejected and freed.
 */
static void conn_api_release_callers(const aq_listener *listener)
{
    for (uint32_t i = 0; i < atomic_load(&conns.high); i++) {
        aq_connection *conn = atomic_load(&conns.slots[i].conn);
        if (conn == NULL || conn->pending.listener != listener) continue;
        conn_leave_listener(conn);
        conn->listener = NULL;
        if ((conn->pending.events & 1u << AQ_CONNECTION_REQUEST) == 0) continue;
        if (conn->channel != NULL) /* else it broke meanwhile */
            conn_refuse(conn->t, conn->channel, AQ_EREFUSED, 0, "the server has stopped listening");
        conn_drop_events(conn, UINT_MAX);
        conn->forget = conn->silent = true; /* the program never learns of it */
        atomic_store(&conns.forgotten, true);
    }
}

aq_status aq_listener_close(aq_listener *listener)
{
    aq_status st = aqi_core_callable("aq_listener_close");
    if (st != AQ_OK || listener == NULL) return st;
    aqi_spin_lock(&conns.lock);
    aq_listener **at = &conns.listeners;
    while (*at != NULL && *at != listener)
        at = &(*at)->next;
    if (*at == NULL) {
        aqi_spin_unlock(&conns.lock);
        return aqi_fail(AQ_EINVAL, "core", "aq_listener_close: the listener is already closed");
    }
    *at = listener->next;
    conn_api_release_callers(listener);
    aqi_transports[listener->t]->rendezvous->unlisten(conns.rendezvous[listener->t], listener->at);
    conn_listener_free(listener);
    aqi_spin_unlock(&conns.lock);
    core_conns_sweep();
    core_source_count(&core_conn_used, UINT32_MAX);
    return AQ_OK;
}

/* --- connecting ------------------------------------------------------------------------------ */

aq_status conn_copy_params(const char *call, const void *given, void *params, size_t size,
                           const char *name)
{
    size_t struct_size;
    if (given == NULL) return AQ_OK;
    memcpy(&struct_size, given, sizeof(struct_size));
    if (struct_size < sizeof(struct_size) || struct_size > 4096)
        return aqi_fail(AQ_EINVAL, "core", "%s: params.struct_size is %zu: set it to sizeof(%s)",
                        call, struct_size, name);
    memcpy(params, given, aqi_min(struct_size, size));
    return AQ_OK;
}

/* Take the data and the segment from the parameters. */
static aq_status conn_api_take_params(aq_connection *conn, const void *data, size_t nbytes,
                                      aq_segment *segment, const char *call)
{
    if (nbytes > aqi_core_config.conn_data)
        return aqi_fail(AQ_ESIZE, "core",
                        "%s: %zu bytes of data; the maximum is %llu (AQ_CONN_DATA)", call, nbytes,
                        (unsigned long long)aqi_core_config.conn_data);
    if (data == NULL && nbytes != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu bytes of data, but the address is NULL", call,
                        nbytes);
    if (segment != NULL && !core_is_segment(segment))
        return aqi_fail(AQ_EINVAL, "core", "%s: the segment is not one of this process", call);
    void *copy = NULL;
    if (nbytes != 0) {
        copy = malloc(nbytes);
        if (copy == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: out of memory", call);
        memcpy(copy, data, nbytes);
    }
    free(conn->sent);
    conn->sent = copy;
    conn->nsent = (uint32_t)nbytes;
    conn->shown = segment != NULL ? segment : core.ep.segment;
    return AQ_OK;
}

static aq_status conn_api_read_connect(const char *call, const aq_connect_params *given,
                                       aq_connect_params *params)
{
    const unsigned known = AQ_CONNECT_ANYBODY | AQ_CONNECT_WAIT | CONN_API_TRAITS;
    *params = (aq_connect_params){.struct_size = sizeof(*params)};
    aq_status st = conn_copy_params(call, given, params, sizeof(*params), "aq_connect_params");
    if (st != AQ_OK) return st;
    if ((params->flags & CONN_API_KINDS) == CONN_API_KINDS)
        return aqi_fail(
            AQ_EINVAL, "core",
            "%s: a connection can be AQ_CONNECT_ORDERED or AQ_CONNECT_UNRELIABLE, but not both",
            call);
    if ((params->flags & CONN_GROUP) != 0 &&
        ((params->flags & AQ_CONNECT_ORDERED) != 0 || params->nbytes != 0))
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: messages to a group are never ordered (AQ_CONNECT_ORDERED), and it "
                        "has no server that could receive data",
                        call);
    if ((params->flags & ~known) == 0) return AQ_OK;
    return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", call, params->flags & ~known);
}

static aq_status conn_api_check_group(const char *call, const char *uri, unsigned t)
{
    if (aqi_transports[t]->rendezvous->group != NULL) return AQ_OK;
    return aqi_fail(
        AQ_ENOTSUP, "core",
        "%s: %s does not support groups: use udp, such as udp://239.1.2.3:5000, instead of \"%s\"",
        call, aqi_transports[t]->name, uri);
}

/* Without a call, since no process would answer it. */
static aq_status conn_api_open_group(aq_connection *conn)
{
    conn->peer_medium = (uint32_t)core.max_medium;
    aq_status st = conn_join(conn, "", 0);
    aqi_spin_lock(&conns.lock);
    if (st == AQ_OK) conn_opened(conn);
    aqi_spin_unlock(&conns.lock);
    return st;
}

static void conn_api_call(aq_connection *conn)
{
    aqi_spin_lock(&conns.lock);
    conn_set_state(conn, AQ_CONNECTION_CALLING);
    conn_connect(conn);
    aqi_spin_unlock(&conns.lock);
}

static aq_status conn_api_start(const char *uri, const aq_connect_params *given, bool silent,
                                aq_connection **out, const char *call)
{
    aq_connect_params params;
    unsigned t;
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (uri == NULL || out == NULL)
        return conn_api_is_null(call, uri == NULL ? "uri" : "the pointer to the connection");
    if (strlen(uri) >= AQI_URI_MAX)
        return aqi_fail(AQ_EINVAL, "core", "%s: the URI is longer than %d characters", call,
                        AQI_URI_MAX - 1);
    st = conn_api_read_connect(call, given, &params);
    if (st == AQ_OK) st = conn_api_begin(call, uri, (params.flags & AQ_CONNECT_ANYBODY) != 0, &t);
    if (st == AQ_OK && (params.flags & CONN_GROUP) != 0) st = conn_api_check_group(call, uri, t);
    if (st != AQ_OK) return st;
    aqi_spin_lock(&conns.lock);
    aq_connection *conn = conn_new(t, true);
    aqi_spin_unlock(&conns.lock);
    if (conn == NULL)
        return aqi_fail(AQ_ELIMIT, "core",
                        "%s: this process already has %llu connections, which is the limit "
                        "(AQ_CONN_MAX): close ended ones or raise it",
                        call, (unsigned long long)aqi_core_config.conn_max);
    memcpy(conn->uri, uri, strlen(uri) + 1);
    conn->flags = params.flags;
    conn->context = params.context;
    conn->silent = silent;
    conn->deadline_ns = aqi_now_ns() + (params.timeout_ns != 0 ? params.timeout_ns
                                                               : aqi_core_config.conn_timeout_ns);
    st = conn_api_take_params(conn, params.data, params.nbytes, params.segment, call);
    if (st == AQ_OK && (st = conn_open_tp(conn)) != AQ_OK) {
        snprintf(conn->reason, sizeof(conn->reason), "%s", aq_error_message());
        st = aqi_fail_quiet(st, "%s: %s: %s", call, uri, conn->reason);
    }
    if (st == AQ_OK && (conn->flags & CONN_GROUP) != 0)
        st = conn_api_open_group(conn);
    else if (st == AQ_OK)
        conn_api_call(conn);
    if (st != AQ_OK) {
        conn_destroy(conn);
        return st;
    }
    *out = conn;
    return AQ_OK;
}

aq_status aq_connect_start(const char *uri, const aq_connect_params *params, aq_connection **out)
{
    return conn_api_start(uri, params, false, out, "aq_connect_start");
}

/* The result of a call that has ended; its event is no longer needed. */
static aq_status conn_api_result(aq_connection *conn, const char *call)
{
    if (conn_state(conn) == AQ_CONNECTION_CALLING) return AQ_AGAIN;
    aqi_spin_lock(&conns.lock);
    conn_drop_events(conn, 1u << AQ_CONNECTION_OPENED | 1u << AQ_CONNECTION_FAILED);
    aqi_spin_unlock(&conns.lock);
    if (conn->was_open) return AQ_OK;
    return aqi_fail_quiet(conn->status, "%s: %s: %s", call, conn->uri, conn->reason);
}

static aq_status conn_api_check_client(const char *call, const aq_connection *conn)
{
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (conn == NULL) return conn_api_is_null(call, "the connection");
    if (conn->client) return AQ_OK;
    return aqi_fail(AQ_EINVAL, "core", "%s: the connection was requested by the other side", call);
}

aq_status aq_connect_test(aq_connection *conn)
{
    aq_status st = conn_api_check_client("aq_connect_test", conn);
    return st == AQ_OK ? conn_api_result(conn, "aq_connect_test") : st;
}

static aq_status conn_api_wait_for(aq_connection *conn, const char *call)
{
    struct core_wait wait = {0};
    aq_status st;
    while ((st = conn_api_result(conn, call)) == AQ_AGAIN)
        core_wait_step(&wait, CORE_SLEEP_MS);
    return st;
}

aq_status aq_connect_wait(aq_connection *conn)
{
    aq_status st = conn_api_check_client("aq_connect_wait", conn);
    return st == AQ_OK ? conn_api_wait_for(conn, "aq_connect_wait") : st;
}

aq_status aq_connect(const char *uri, const aq_connect_params *params, aq_connection **out)
{
    aq_connection *conn;
    aq_status st = conn_api_start(uri, params, true, &conn, "aq_connect");
    if (st != AQ_OK) return st;
    st = conn_api_wait_for(conn, "aq_connect");
    if (st == AQ_OK)
        *out = conn;
    else
        conn_destroy(conn);
    return st;
}

/* --- accepting ------------------------------------------------------------------------------- */

static aq_status conn_api_take_request(aq_connection *conn, const char *call)
{
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (conn == NULL) return conn_api_is_null(call, "the connection");
    aqi_spin_lock(&conns.lock);
    bool waits = conn_state(conn) == AQ_CONNECTION_ASKED;
    bool gone = !waits && !conn->client && conn->tp == NULL;
    aqi_spin_unlock(&conns.lock);
    if (gone) return aqi_fail_quiet(AQ_EPEER, "%s: the client stopped waiting or died", call);
    return waits ? AQ_OK
                 : aqi_fail(AQ_ESTATE, "core",
                            "%s: the connection is not a request that waits for an answer", call);
}

/* Open our side, and send the answer, ACCEPT or REFUSE. */
static aq_status conn_api_answer(aq_connection *conn)
{
    aq_status st = conn_open_tp(conn);
    if (st == AQ_OK) st = conn_join(conn, conn->addr, conn->addr_len);
    aqi_spin_lock(&conns.lock);
    if (conn->listener != NULL) conn->listener->waiting--;
    conn->listener = NULL;
    if (conn->channel == NULL) {
        st = aqi_fail_quiet(AQ_EPEER, "aq_connection_accept: the client stopped waiting or died");
    } else if (st != AQ_OK) {
        conn_refuse(conn->t, conn->channel, st, 0, aq_error_message());
    } else {
        conn->deadline_ns = aqi_now_ns() + aqi_core_config.conn_timeout_ns;
        conn_set_state(conn, AQ_CONNECTION_JOINING);
        st = conn_write(conn, AQI_HELLO_ACCEPT);
    }
    if (st != AQ_OK) {
        conn->silent = true; /* the caller gets the error here */
        conn_end(conn, AQ_CONNECTION_LOST, st, aq_error_message());
    }
    aqi_spin_unlock(&conns.lock);
    return st;
}

aq_status aq_connection_accept(aq_connection *conn, const aq_accept_params *given)
{
    aq_accept_params params = {.struct_size = sizeof(params)};
    aq_status st = conn_api_take_request(conn, __func__);
    if (st == AQ_OK)
        st = conn_copy_params(__func__, given, &params, sizeof(params), "aq_accept_params");
    if (st != AQ_OK) return st;
    st = conn_api_take_params(conn, params.data, params.nbytes, params.segment, __func__);
    if (st != AQ_OK) return st;
    conn->context = params.context;
    return conn_api_answer(conn);
}

aq_status aq_connection_reject(aq_connection *conn, uint32_t code, const char *reason)
{
    aq_status st = conn_api_take_request(conn, __func__);
    if (st == AQ_EPEER) { /* the client is gone */
        conn_destroy(conn);
        return AQ_OK;
    }
    if (st != AQ_OK) return st;
    char text[200];
    strncpy(text, reason != NULL ? reason : "", sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    aqi_spin_lock(&conns.lock);
    conn->silent = true; /* another thread may find that the client has left before it is freed */
    if (conn->channel != NULL) conn_refuse(conn->t, conn->channel, AQ_EREFUSED, code, text);
    aqi_spin_unlock(&conns.lock);
    conn_destroy(conn);
    return AQ_OK;
}

/* --- closing --------------------------------------------------------------------------------- */

static bool conn_api_is_busy(const aq_connection *conn)
{
    return core_after_waits(&conn->routes[1]) || conn->tp->ops.quiet(conn->tp, NULL) == AQ_AGAIN;
}

/* Wait until nothing is in flight to the peer, or until the timeout. */
static void conn_api_wait_quiet(aq_connection *conn)
{
    struct core_wait wait = {0};
    uint64_t until = aqi_now_ns() + aqi_core_config.conn_timeout_ns;
    while (conn_state(conn) == AQ_CONNECTION_OPEN && conn_api_is_busy(conn) && aqi_now_ns() < until)
        core_wait_step(&wait, 1);
}

static bool conn_api_is_there(const aq_connection *conn)
{
    uint32_t i = 0, high = atomic_load(&conns.high);
    while (i < high && atomic_load(&conns.slots[i].conn) != conn)
        i++;
    return i < high;
}

aq_status aq_connection_close(aq_connection *conn)
{
    aq_status st = aqi_core_callable("aq_connection_close");
    if (st != AQ_OK || conn == NULL) return st;
    if (!conn_api_is_there(conn))
        return aqi_fail(AQ_EINVAL, "core", "aq_connection_close: the connection is already closed");
    if (conn_state(conn) == AQ_CONNECTION_OPEN) conn_api_wait_quiet(conn);
    aqi_spin_lock(&conns.lock);
    int state = conn_state(conn);
    conn->silent = true; /* as for a request that is rejected */
    if (conn->channel != NULL && state == AQ_CONNECTION_ASKED)
        conn_refuse(conn->t, conn->channel, AQ_EREFUSED, 0, "the server closed the request");
    else if (conn->channel != NULL &&
             (state == AQ_CONNECTION_OPEN || state == AQ_CONNECTION_JOINING))
        (void)conn_write(conn, AQI_HELLO_BYE);
    aqi_spin_unlock(&conns.lock);
    conn_destroy(conn);
    return AQ_OK;
}

/* --- queries --------------------------------------------------------------------------------- */

aq_team *aq_connection_team(aq_connection *conn)
{
    return conn != NULL && conn_state(conn) >= AQ_CONNECTION_OPEN && conn->was_open ? &conn->team
                                                                                    : NULL;
}

aq_connection *aq_connection_of(const aq_am *am)
{
    const struct core_message *message = (const struct core_message *)am;
    uint32_t rank = am != NULL ? message->route->rank : 0;
    return rank < core.params.size ? NULL : atomic_load(&conns.slots[rank - core.params.size].conn);
}

aq_status aq_connection_query(const aq_connection *conn, aq_connection_info *info)
{
    if (conn == NULL || info == NULL)
        return conn_api_is_null("aq_connection_query", conn == NULL ? "the connection" : "info");
    int state = conn_state(conn);
    bool over = state == AQ_CONNECTION_ENDED;
    *info = (aq_connection_info){.state = (aq_connection_state)state,
                                 .status = over ? conn->status : AQ_OK,
                                 .code = conn->code,
                                 .reason = over ? conn->reason : "",
                                 .pid = conn->peer_id.pid,
                                 .uid = conn->peer_id.uid,
                                 .data = conn->data,
                                 .nbytes = conn->nbytes,
                                 .flags = conn->flags & CONN_API_TRAITS};
    return AQ_OK;
}

void *aq_connection_context(const aq_connection *conn)
{
    return conn != NULL ? conn->context : NULL;
}

void aq_connection_set_context(aq_connection *conn, void *context)
{
    if (conn != NULL) conn->context = context;
}
