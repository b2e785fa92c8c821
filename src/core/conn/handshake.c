/* Connections: calling, being called, and the messages that follow. */
#include "core/conn/conn.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The pauses between two calls double. */
enum { FIRST_PAUSE_NS = 1000000, LONGEST_PAUSE_NS = 64 * FIRST_PAUSE_NS };

/* --- writing --------------------------------------------------------------------------------- */

static void conn_handshake_answer(unsigned t, struct aqi_control_channel *channel,
                                  const struct aqi_hello *hello)
{
    struct aqi_handshake message = {.bytes = conns.message,
                                    .len = aqi_hello_encode(hello, conns.message)};
    /* A caller that has ended needs no answer. */
    (void)aqi_transports[t]->rendezvous->send(channel, &message);
}

void conn_refuse(unsigned t, struct aqi_control_channel *channel, aq_status status, uint32_t code,
                 const char *reason)
{
    const struct aqi_hello hello = {.type = AQI_HELLO_REFUSE,
                                    .code = code,
                                    .status = (int32_t)status,
                                    .data = reason,
                                    .nbytes = (uint32_t)strlen(reason)};
    conn_handshake_answer(t, channel, &hello);
}

static aq_status conn_handshake_own_address(aq_connection *conn, void *addr,
                                            struct aqi_hello *hello)
{
    size_t len = 0;
    aq_status st = conn->tp->ops.address(conn->tp, addr, &len);
    hello->addr = addr;
    hello->addr_len = (uint32_t)len;
    return st;
}

/* ACCEPT, CONFIRM or BYE. */
aq_status conn_write(aq_connection *conn, uint8_t type)
{
    unsigned char addr[AQI_ADDR_MAX];
    struct aqi_hello hello = {.type = type};
    struct aqi_handshake message = {.bytes = conns.message};
    int fds[2] = {-1, -1};
    aq_status st = AQ_OK;
    if (type == AQI_HELLO_ACCEPT) {
        st = conn_handshake_own_address(conn, addr, &hello);
        hello.max_medium = (uint32_t)core.max_medium;
        hello.data = conn->sent;
        hello.nbytes = conn->nsent;
    }
    if (st != AQ_OK) return st;
    if (type != AQI_HELLO_BYE) {
        conn_describe_segment(conn, &hello, &fds[0]);
        conn_describe_bell(conn, &hello, &fds[hello.memory]);
    }
    message.fds = fds;
    message.nfds = (unsigned)hello.memory + hello.bell;
    message.len = aqi_hello_encode(&hello, conns.message);
    return conn_rendezvous(conn)->send(conn->channel, &message);
}

/* --- calling --------------------------------------------------------------------------------- */

void conn_drop_channel(aq_connection *conn)
{
    if (conn->channel != NULL) conn_rendezvous(conn)->close_channel(conn->channel);
    conn->channel = NULL;
}

static void conn_handshake_end(aq_connection *conn, aq_connection_event_type type, aq_status status,
                               const char *reason)
{
    conn_drop_channel(conn);
    conn_end(conn, type, status, reason);
}

static void conn_handshake_fail(aq_connection *conn, aq_status status, const char *reason)
{
    /* Front ends pass on only the status, so log the reason. */
    if (status == AQ_EMISMATCH && !conn->silent)
        aqi_log(AQI_LOG_WARN, "core", "cannot connect to %s: %s", conn->uri, reason);
    conn_handshake_end(conn, AQ_CONNECTION_FAILED, status, reason);
}

static void conn_handshake_retry_later(aq_connection *conn)
{
    conn->pause_ns = aqi_max(FIRST_PAUSE_NS, aqi_min(2 * conn->pause_ns, LONGEST_PAUSE_NS));
    conn->retry_ns = aqi_now_ns() + conn->pause_ns;
}

static const char *conn_handshake_nobody(const aq_connection *conn)
{
    return (aqi_transports[conn->t]->caps & AQI_CAP_FAR) != 0
               ? "nothing is listening there: start the server first"
               : "nothing is listening there: start the server first, in the same network "
                 "namespace (containers may have one each), or set AQ_SHM_FOLDER for both";
}

/* A call was not answered: try again, or fail. */
static void conn_handshake_not_called(aq_connection *conn, aq_status status, const char *why)
{
    bool waits = (conn->flags & AQ_CONNECT_WAIT) != 0;
    conn->nobody = status == AQ_EREFUSED;
    if (status == AQ_AGAIN || status == AQ_EPEER || (status == AQ_EREFUSED && waits))
        conn_handshake_retry_later(conn); /* if the server has ended, the next call reports it */
    else
        conn_handshake_fail(conn, status,
                            status == AQ_EREFUSED ? conn_handshake_nobody(conn) : why);
}

static const struct {
    unsigned flag;
    uint8_t trait;
} conn_handshake_kinds[] = {{AQ_CONNECT_ORDERED, AQI_HELLO_ORDERED},
                            {AQ_CONNECT_UNRELIABLE, AQI_HELLO_UNRELIABLE},
                            {CONN_NUMBERED, AQI_HELLO_NUMBERED}};

static uint8_t conn_handshake_traits(unsigned flags)
{
    unsigned traits = 0;
    for (unsigned i = 0; i < AQI_COUNT_OF(conn_handshake_kinds); i++)
        if ((flags & conn_handshake_kinds[i].flag) != 0) traits |= conn_handshake_kinds[i].trait;
    return (uint8_t)traits;
}

static unsigned conn_handshake_flags(uint8_t traits)
{
    unsigned flags = 0;
    for (unsigned i = 0; i < AQI_COUNT_OF(conn_handshake_kinds); i++)
        if ((traits & conn_handshake_kinds[i].trait) != 0) flags |= conn_handshake_kinds[i].flag;
    return flags;
}

void conn_connect(aq_connection *conn)
{
    struct aqi_hello hello = {.type = AQI_HELLO_CALL,
                              .objects = (uint8_t)conn->object_count,
                              .traits = conn_handshake_traits(conn->flags),
                              .messages = aqi_wire_version(AQI_WIRE_MESSAGES),
                              .transport = aqi_wire_version(conn_rendezvous(conn)->wire),
                              .max_medium = (uint32_t)core.max_medium,
                              .data = conn->sent,
                              .nbytes = conn->nsent};
    unsigned char addr[AQI_ADDR_MAX];
    conn->retry_ns = UINT64_MAX;
    aq_status st = conn_handshake_own_address(conn, addr, &hello);
    if (st == AQ_OK) {
        struct aqi_handshake message = {.bytes = conns.message,
                                        .len = aqi_hello_encode(&hello, conns.message),
                                        .fds = conn->objects,
                                        .nfds = conn->object_count};
        st = conn_rendezvous(conn)->connect(conns.rendezvous[conn->t], conn->uri, &message, conn,
                                            &conn->channel);
    }
    if (st != AQ_OK) conn_handshake_not_called(conn, st, aq_error_message());
}

void conn_times(uint64_t now_ns)
{
    for (uint32_t i = 0; i < atomic_load(&conns.high); i++) {
        aq_connection *conn = atomic_load(&conns.slots[i].conn);
        int state = conn != NULL ? conn_state(conn) : AQ_CONNECTION_ENDED;
        if (state == AQ_CONNECTION_JOINING && now_ns >= conn->deadline_ns) {
            conn_handshake_end(conn, AQ_CONNECTION_LOST, AQ_ETIMEOUT,
                               "the client did not confirm in time");
        } else if (state == AQ_CONNECTION_CALLING && now_ns >= conn->deadline_ns) {
            char reason[sizeof(conn->reason)] =
                "the connection request was not answered in time: nothing is listening there, or "
                "the listener's queue is full";
            if (conn->nobody)
                snprintf(reason, sizeof(reason),
                         "the connection request was not answered in time: %s",
                         conn_handshake_nobody(conn));
            else if (conn->channel != NULL)
                conn_rendezvous(conn)->unanswered(conn->channel, reason, sizeof(reason));
            else if (conn->unanswered[0] != 0)
                memcpy(reason, conn->unanswered, sizeof(reason));
            conn_handshake_fail(conn, AQ_ETIMEOUT, reason);
        } else if (state == AQ_CONNECTION_CALLING && now_ns >= conn->retry_ns) {
            conn_connect(conn);
        }
    }
}

uint64_t conn_next_time(void)
{
    uint64_t next = UINT64_MAX;
    if (atomic_load(&conns.busy) == 0) return next;
    for (uint32_t i = 0; i < atomic_load(&conns.high); i++) {
        aq_connection *conn = atomic_load(&conns.slots[i].conn);
        int state = conn != NULL ? conn_state(conn) : AQ_CONNECTION_ENDED;
        if (state != AQ_CONNECTION_CALLING && state != AQ_CONNECTION_JOINING) continue;
        next = aqi_min(next, conn->deadline_ns);
        if (state == AQ_CONNECTION_CALLING) next = aqi_min(next, conn->retry_ns);
    }
    return next;
}

/* --- being called ---------------------------------------------------------------------------- */

/* Whether our formats differ from the caller's; `why` names the first that does. */
static bool conn_handshake_differs(unsigned t, aq_status decoded, const struct aqi_hello *hello,
                                   char why[200])
{
    enum aqi_wire wire = AQI_WIRE_CONNECTION;
    unsigned theirs = hello->version;
    if (decoded == AQ_OK && hello->type == AQI_HELLO_CALL) {
        bool messages = hello->messages != aqi_wire_version(AQI_WIRE_MESSAGES);
        wire = messages ? AQI_WIRE_MESSAGES : aqi_transports[t]->rendezvous->wire;
        theirs = messages ? hello->messages : hello->transport;
    } else if (decoded != AQ_EMISMATCH) {
        return false;
    }
    if (theirs == aqi_wire_version(wire)) return false;
    aqi_wire_differs(why, 200, wire, "the caller", theirs, "the server");
    return true;
}

/* The reason to reject this call at once; AQ_OK: none. */
static aq_status conn_handshake_check_call(const aq_listener *listener,
                                           const struct aqi_writer *writer,
                                           const struct aqi_hello *hello,
                                           const struct aqi_handshake *message, char reason[200])
{
    if (hello->type != AQI_HELLO_CALL || message->nfds != hello->objects || hello->memory ||
        hello->bell) {
        snprintf(reason, 200, "the connection request is malformed");
        return AQ_EPROTO;
    }
    if ((listener->flags & AQ_LISTEN_ANYBODY) == 0 && !writer->ours) {
        snprintf(reason, 200,
                 "the server accepts connections from its own user %u only, not from user %u",
                 (unsigned)geteuid(), writer->uid);
        return AQ_EACCESS;
    }
    if (hello->nbytes > aqi_core_config.conn_data) {
        snprintf(reason, 200,
                 "%u bytes of data are more than the server accepts (AQ_CONN_DATA, %llu there)",
                 hello->nbytes, (unsigned long long)aqi_core_config.conn_data);
        return AQ_ESIZE;
    }
    return AQ_OK;
}

static bool conn_handshake_keep_data(aq_connection *conn, const struct aqi_hello *hello)
{
    if (hello->nbytes == 0) return true;
    conn->data = malloc(hello->nbytes);
    if (conn->data == NULL) return false;
    memcpy(conn->data, hello->data, hello->nbytes);
    conn->nbytes = hello->nbytes;
    return true;
}

/* NULL: no room now. */
static aq_connection *conn_handshake_take_call(aq_listener *listener,
                                               struct aqi_control_channel *channel,
                                               const struct aqi_writer *writer,
                                               const struct aqi_hello *hello,
                                               struct aqi_handshake *message)
{
    if (listener->waiting >= aqi_core_config.conn_backlog) return NULL;
    aq_connection *conn = conn_new(listener->t, false);
    if (conn == NULL) return NULL;
    conn->listener = conn->pending.listener = listener;
    listener->waiting++;
    conn->peer_id = *writer;
    conn->peer_medium = hello->max_medium;
    conn->flags |= conn_handshake_flags(hello->traits);
    conn->addr_len = hello->addr_len;
    memcpy(conn->addr, hello->addr, hello->addr_len);
    for (unsigned i = 0; i < message->nfds; i++) {
        conn->objects[conn->object_count++] = message->fds[i];
        message->fds[i] = -1;
    }
    conn_set_state(conn, AQ_CONNECTION_ASKED);
    if (!conn_handshake_keep_data(conn, hello)) {
        conn->forget = true;
        atomic_store(&conns.forgotten, true);
        return NULL;
    }
    conn->channel = channel;
    conn_push(conn, AQ_CONNECTION_REQUEST);
    return conn;
}

static void *conn_handshake_on_call(void *arg, void *listener_user,
                                    struct aqi_control_channel *channel,
                                    const struct aqi_writer *writer, struct aqi_handshake *message)
{
    aq_listener *listener = listener_user;
    static atomic_bool once; /* any process may call any number of times */
    struct aqi_hello hello;
    char reason[200];
    (void)arg;
    aq_status st = aqi_hello_decode(message->bytes, message->len, &hello);
    if (conn_handshake_differs(listener->t, st, &hello, reason)) {
        st = AQ_EMISMATCH;
        aqi_log_once(&once, AQI_LOG_WARN, "core", "refused a connection request: %s", reason);
    } else if (st == AQ_OK) {
        st = conn_handshake_check_call(listener, writer, &hello, message, reason);
    } else {
        snprintf(reason, sizeof(reason), "the connection request is malformed");
    }
    if (st != AQ_OK) {
        if (st == AQ_EPROTO) aqi_count(AQI_CTR_HELLO_DROPPED, 1);
        conn_refuse(listener->t, channel, st, 0, reason);
        return NULL;
    }
    aq_connection *conn = conn_handshake_take_call(listener, channel, writer, &hello, message);
    static const struct aqi_hello busy = {.type = AQI_HELLO_BUSY};
    if (conn == NULL) conn_handshake_answer(listener->t, channel, &busy);
    return conn;
}

/* --- messages --------------------------------------------------------------------------------- */

/* Map the memory that the peer exposes. */
static aq_status conn_handshake_learn(aq_connection *conn, const struct aqi_hello *hello,
                                      const struct aqi_handshake *message)
{
    aq_status st = conn_learn_segment(conn, hello, hello->memory ? message->fds[0] : -1);
    if (st == AQ_OK)
        st = conn_learn_bell(conn, hello, hello->bell ? message->fds[hello->memory] : -1);
    return st;
}

/* Join the transport that the server opened, and confirm. */
static aq_status conn_handshake_accepted(aq_connection *conn, const struct aqi_hello *hello,
                                         const struct aqi_handshake *message)
{
    conn->peer_medium = hello->max_medium;
    aq_status st = conn_join(conn, hello->addr, hello->addr_len);
    if (st == AQ_OK) st = conn_handshake_learn(conn, hello, message);
    if (st == AQ_OK && !conn_handshake_keep_data(conn, hello))
        st = aqi_fail(AQ_ENOMEM, "core", "no memory for the data that the server passed");
    if (st == AQ_OK) st = conn_write(conn, AQI_HELLO_CONFIRM);
    return st;
}

static void conn_handshake_on_accept(aq_connection *conn, const struct aqi_writer *writer,
                                     const struct aqi_hello *hello,
                                     const struct aqi_handshake *message)
{
    char reason[100];
    if ((conn->flags & AQ_CONNECT_ANYBODY) == 0 && !writer->ours) {
        snprintf(reason, sizeof(reason),
                 "the server runs as user %u: set AQ_CONNECT_ANYBODY to allow that", writer->uid);
        conn_handshake_fail(conn, AQ_EACCESS, reason);
        return;
    }
    conn->peer_id = *writer;
    aq_status st = conn_handshake_accepted(conn, hello, message);
    if (st == AQ_OK)
        conn_opened(conn);
    else
        conn_handshake_fail(
            conn, st, st == AQ_EPEER ? "the server died while accepting" : aq_error_message());
}

static void conn_handshake_on_refuse(aq_connection *conn, const struct aqi_hello *hello)
{
    char text[240];
    /* Make clear that the cause is at the server. */
    snprintf(text, sizeof(text), "%s%.*s",
             hello->status == AQ_EREFUSED || hello->nbytes == 0 ? "" : "the server says: ",
             (int)aqi_min(hello->nbytes, 200), (const char *)hello->data);
    for (char *c = text; *c != 0; c++)
        if ((unsigned char)*c < ' ') *c = '?'; /* untrusted text, only to be printed */
    conn->code = hello->code;
    conn_handshake_fail(conn, (aq_status)hello->status,
                        text[0] != 0 ? text : "the server rejected the connection request");
}

static void conn_handshake_on_confirm(aq_connection *conn, const struct aqi_hello *hello,
                                      const struct aqi_handshake *message)
{
    aq_status st = conn_handshake_learn(conn, hello, message);
    if (st == AQ_OK)
        conn_opened(conn);
    else
        conn_handshake_end(conn, AQ_CONNECTION_LOST, st, aq_error_message());
}

/* The other side sent an invalid or unknown message. */
static void conn_handshake_broken(aq_connection *conn, const char *why)
{
    aqi_count(AQI_CTR_HELLO_DROPPED, 1);
    conn_drop_channel(conn);
    if (conn->client && conn_state(conn) == AQ_CONNECTION_CALLING)
        conn_handshake_fail(conn, AQ_EPROTO, why);
    else
        conn_end_soon(conn, AQ_CONNECTION_LOST, AQ_EPROTO, why);
}

static void conn_handshake_on_message(void *arg, void *channel_user,
                                      const struct aqi_writer *writer,
                                      struct aqi_handshake *message)
{
    aq_connection *conn = channel_user;
    struct aqi_hello hello;
    int state = conn_state(conn);
    bool calling = state == AQ_CONNECTION_CALLING;
    (void)arg;
    aq_status st = aqi_hello_decode(message->bytes, message->len, &hello);
    if (st == AQ_EMISMATCH && calling) {
        char why[200];
        aqi_wire_differs(why, sizeof(why), AQI_WIRE_CONNECTION, "the server", hello.version,
                         "this process");
        conn_handshake_fail(conn, st, why);
    } else if (st != AQ_OK || message->nfds != (unsigned)hello.memory + hello.bell ||
               hello.objects != 0) {
        conn_handshake_broken(conn, "the peer sent a malformed message");
    } else if (hello.type == AQI_HELLO_ACCEPT && calling) {
        conn_handshake_on_accept(conn, writer, &hello, message);
    } else if (hello.type == AQI_HELLO_REFUSE && calling) {
        conn_handshake_on_refuse(conn, &hello);
    } else if (hello.type == AQI_HELLO_BUSY && calling) {
        conn_drop_channel(conn);
        conn_handshake_retry_later(conn);
    } else if (hello.type == AQI_HELLO_CONFIRM && state == AQ_CONNECTION_JOINING) {
        conn_handshake_on_confirm(conn, &hello, message);
    } else if (hello.type == AQI_HELLO_BYE) {
        conn_end_soon(conn, AQ_CONNECTION_CLOSED, AQ_EPEER, "the peer closed the connection");
    } else {
        conn_handshake_broken(conn, "the peer sent an unexpected message");
    }
}

static void conn_handshake_on_closed(void *arg, void *channel_user, aq_status status,
                                     const char *why)
{
    aq_connection *conn = channel_user;
    (void)arg;
    if (conn_state(conn) == AQ_CONNECTION_CALLING && conn->channel != NULL)
        conn_rendezvous(conn)->unanswered(conn->channel, conn->unanswered,
                                          sizeof(conn->unanswered));
    conn_drop_channel(conn);
    switch (conn_state(conn)) {
    case AQ_CONNECTION_CALLING:
        conn_handshake_not_called(conn, status, why);
        break;
    case AQ_CONNECTION_ASKED:
        if ((conn->pending.events & 1u << AQ_CONNECTION_REQUEST) != 0) {
            conn_drop_events(conn, UINT_MAX);
            conn->forget = conn->silent = true; /* the program never learns of it */
            atomic_store(&conns.forgotten, true);
        }
        conn_end(conn, AQ_CONNECTION_LOST, AQ_EPEER, "the client stopped waiting or died");
        break;
    default:
        conn_end_soon(conn, AQ_CONNECTION_LOST, AQ_EPEER,
                      why != NULL ? why : "the peer's process has ended");
    }
}

aq_status conn_rendezvous_open(unsigned t)
{
    static const struct aqi_rendezvous_hooks hooks = {.call = conn_handshake_on_call,
                                                      .message = conn_handshake_on_message,
                                                      .closed = conn_handshake_on_closed,
                                                      .interface = conn_listener_interface};
    if (conns.rendezvous[t] != NULL) return AQ_OK;
    aq_status st = aqi_transports[t]->rendezvous->open(&hooks, &conns.rendezvous[t]);
    if (st == AQ_OK && aqi_transports[t]->rendezvous->lingers)
        core_source_count(&core_conn_used, 1); /* until all is closed */
    return st == AQ_OK ? conn_watch_rendezvous(t) : st;
}
