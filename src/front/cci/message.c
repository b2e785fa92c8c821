/*
 * cci: messages and their acknowledgment.
 *
 * Connections are ordered. Both sides acknowledge by two counts: messages received, which
 * completes sends, and units released by the program when it returns events, which is the sender's
 * credit. Both counts are sent with each message, or in notes if there is none. Multicast groups
 * have no counts: a receiver without room drops messages.
 */
#include "front/cci/impl.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGE_HANDLER = AQ_HANDLER_BASE, MESSAGE_NOTE = AQ_HANDLER_BASE + 1 };
enum { MESSAGE_GOT, MESSAGE_FREED, MESSAGE_ARGS }; /* arguments of messages and notes */
enum {
    MESSAGE_OWED = 32 /* this many messages are acknowledged immediately, even if more arrive */
};

#define MESSAGE_SLOW_NS UINT64_C(500000000)

static uint32_t message_units(uint32_t len)
{
    return 2 + len / AQC_UNIT; /* including the event that contains it */
}

/* --- receiving ------------------------------------------------------------------------------- */

static void message_deliver(struct aqc_conn *conn, struct aqc_event *event)
{
    conn->got++;
    if (conn->state != AQC_OPEN)
        aqi_list_append(&conn->early, &event->link);
    else
        aqc_event_push(event);
}

void aqc_conn_opened(struct aqc_conn *conn)
{
    while (!aqi_list_is_empty(&conn->early)) {
        struct aqc_event *event = AQI_OF(conn->early.next, struct aqc_event, link);
        aqi_list_remove(&event->link);
        aqc_event_push(event);
    }
    if (conn->ops != NULL || conn->got != conn->told) aqc_conn_activate(conn);
}

/* Process the peer's counts: messages received there, and units released by its program. */
static void message_acknowledged(struct aqc_conn *conn, uint32_t got, uint32_t freed)
{
    if (freed != conn->freed_there) {
        conn->freed_there = freed;
        if (conn->unsent != NULL) aqc_conn_activate(conn);
    }
    if (got == conn->acked) return;
    conn->acked = got;
    /* Report completions in the next round: a program replies before it polls for them. */
    if (conn->ops != NULL) aqc_conn_activate(conn);
}

static struct aqc_event *message_new(struct aqc_conn *conn, const aq_am *am, uint32_t units)
{
    struct aqc_event *event = aqc_event_new(conn->ep, am->nbytes + 1);
    if (event == NULL) return NULL;
    unsigned char *payload = AQC_PAYLOAD(event);
    memcpy(payload, am->payload, am->nbytes);
    payload[am->nbytes] = 0;
    event->pub.recv = (struct cci_event_recv){.type = CCI_EVENT_RECV,
                                              .len = (uint32_t)am->nbytes,
                                              .ptr = payload,
                                              .connection = &conn->pub};
    event->conn = conn;
    event->units = units;
    conn->refs++;
    conn->held += units;
    return event;
}

/* A peer keeps to its window, and to the size that the handshake gave it. */
static bool message_is_allowed(const struct aqc_conn *conn, size_t len, uint32_t units)
{
    size_t most = aqc_conn_is_group(conn) ? AQC_MESSAGE : conn->ep->device->pub.max_send_size;
    return len <= most && conn->held + units <= AQC_WINDOW;
}

static void message_received(aq_am *am)
{
    struct aqc_conn *conn = aq_connection_context(aq_connection_of(am));
    if (conn == NULL || conn->left) return;
    uint32_t units = message_units((uint32_t)am->nbytes);
    /* If the peer violates the protocol, or memory runs out, the message is dropped; then all later
     * ones must also be dropped. */
    bool drop = conn->deaf || !message_is_allowed(conn, am->nbytes, units);
    struct aqc_event *event = drop ? NULL : message_new(conn, am, units);
    conn->deaf = event == NULL && !aqc_conn_is_group(conn);
    if (event == NULL) return;
    message_deliver(conn, event);
    message_acknowledged(conn, (uint32_t)am->args[MESSAGE_GOT], (uint32_t)am->args[MESSAGE_FREED]);
    if (!conn->starved && conn->held > AQC_WINDOW - AQC_LARGEST) {
        conn->starved = true;
        conn->ep->starved++;
    }
    conn->fresh = true;
    aqc_conn_activate(conn);
}

static void message_note_received(aq_am *am)
{
    struct aqc_conn *conn = aq_connection_context(aq_connection_of(am));
    if (conn == NULL || conn->left) return;
    message_acknowledged(conn, (uint32_t)am->args[MESSAGE_GOT], (uint32_t)am->args[MESSAGE_FREED]);
}

aq_status aqc_wire_open(void)
{
    aq_handler_entry table[] = {{.index = MESSAGE_HANDLER,
                                 .nargs = MESSAGE_ARGS,
                                 .accepts = AQ_AM_MEDIUM | AQ_AM_REQUEST,
                                 .fn = message_received,
                                 .name = "message"},
                                {.index = MESSAGE_NOTE,
                                 .nargs = MESSAGE_ARGS,
                                 .accepts = AQ_AM_SHORT | AQ_AM_REQUEST,
                                 .fn = message_note_received,
                                 .name = "note"}};
    return aq_am_register(aq_team_ep(aqc.world), table, AQI_COUNT_OF(table));
}

/* --- sending --------------------------------------------------------------------------------- */

/* A peer that disconnects must see within its patience that the program takes messages. */
bool aqc_conn_is_slow(struct aqc_conn *conn)
{
    uint64_t now = aqi_now_ns();
    if (conn->tight_since == 0) conn->tight_since = now;
    return now - conn->tight_since >= MESSAGE_SLOW_NS;
}

/* Record that our counts have been sent, with a message or note. */
static inline void message_told(struct aqc_conn *conn)
{
    conn->tight_since = 0;
    conn->told = conn->got;
    conn->told_freed = conn->freed;
    aqc.sent += conn->ep->device->kind != AQC_SM;
}

static inline bool message_has_credit(const struct aqc_conn *conn, uint32_t len)
{
    return aqc_conn_is_group(conn) ||
           conn->units - conn->freed_there + message_units(len) <= AQC_WINDOW;
}

static AQI_INLINE aq_status message_put(struct aqc_conn *conn, const struct iovec *iov,
                                        unsigned count, uint32_t len, const aq_arg *args)
{
    aq_am_buffer buffer;
    if (count <= 1)
        return aq_am_medium(conn->team, 1, MESSAGE_HANDLER, len != 0 ? iov->iov_base : NULL, len,
                            args, MESSAGE_ARGS, AQ_IMMEDIATE, NULL);
    aq_status st = aq_am_reserve(conn->team, 1, AQ_AM_MEDIUM, NULL, len, len, MESSAGE_ARGS,
                                 AQ_IMMEDIATE, &buffer);
    if (st != AQ_OK) return st;
    (void)aqi_iov_gather(iov, count, buffer.addr);
    st = aq_am_commit(&buffer, MESSAGE_HANDLER, len, NULL, args, MESSAGE_ARGS, AQ_IMMEDIATE);
    if (st == AQ_AGAIN) aq_am_cancel(&buffer); /* the message is queued as a copy */
    return st;
}

/* AQ_AGAIN: no credit or no room. */
static AQI_INLINE aq_status message_send(struct aqc_conn *conn, const struct iovec *iov,
                                         unsigned count, uint32_t len)
{
    const aq_arg args[MESSAGE_ARGS] = {(aq_arg)conn->got, (aq_arg)conn->freed};
    if (!message_has_credit(conn, len)) return AQ_AGAIN;
    aq_status st = message_put(conn, iov, count, len, args);
    if (AQI_UNLIKELY(st != AQ_OK)) {
        conn->again = st == AQ_AGAIN;
        return st;
    }
    conn->again = false;
    conn->seq++;
    conn->units += message_units(len);
    message_told(conn);
    return AQ_OK;
}

static void message_note(struct aqc_conn *conn)
{
    const aq_arg args[MESSAGE_ARGS] = {(aq_arg)conn->got, (aq_arg)conn->freed};
    aq_status st = aqc_conn_is_group(conn)
                       ? AQ_OK
                       : aq_am_short(conn->team, 1, MESSAGE_NOTE, args, MESSAGE_ARGS, AQ_IMMEDIATE);
    if (st == AQ_AGAIN) conn->again = true;
    if (st == AQ_OK) message_told(conn);
}

/* Send queued messages. The message of a transfer is sent once the transfer is complete; all later
 * ones wait for it. */
static void message_push(struct aqc_conn *conn)
{
    for (struct aqc_op *op; (op = conn->unsent) != NULL; conn->unsent = op->next) {
        if (op->sent || (op->type != AQC_SEND && op->len == 0)) continue;
        if (op->type != AQC_SEND && !op->done) return;
        if (op->status == CCI_SUCCESS) {
            const struct iovec iov = {.iov_base = op->msg, .iov_len = op->len};
            uint32_t seq = conn->seq;
            aq_status st = message_send(conn, &iov, 1, op->len);
            if (st == AQ_AGAIN) return;
            op->seq = seq;
            if (st != AQ_OK) op->status = aqc_status(st);
        }
        op->sent = true;
        conn->queued--;
    }
}

void aqc_conn_push(struct aqc_conn *conn)
{
    bool fresh = conn->fresh;
    conn->fresh = conn->again = false;
    if (AQI_UNLIKELY(conn->unstarted != NULL || !aqi_list_is_empty(&conn->under_way)))
        aqc_rma_push(conn);
    if (conn->state != AQC_OPEN) {
        aqc_op_complete(conn);
        if (aqi_list_is_empty(&conn->under_way)) aqc_conn_release(conn);
        return;
    }
    if (conn->unsent != NULL) message_push(conn);
    if (conn->ops != NULL) aqc_op_complete(conn);
    uint32_t owed = conn->got - conn->told;
    if ((owed != 0 && (!fresh || owed >= MESSAGE_OWED)) || aqc_conn_owes_room(conn))
        message_note(conn);
    if (!conn->again && conn->got == conn->told && conn->unstarted == NULL &&
        aqi_list_is_empty(&conn->under_way))
        aqi_list_remove(&conn->active);
}

/* --- the calls ------------------------------------------------------------------------------- */

/* Total bytes of the pieces; if more than `most`, any number above it. */
static AQI_INLINE size_t message_len(const struct iovec *iov, unsigned count, size_t most)
{
    size_t len = 0;
    for (unsigned i = 0; i < count && len <= most; i++)
        len += aqi_min(iov[i].iov_len, most + 1);
    return len;
}

/* The message has been sent: queue its completion. */
static AQI_INLINE int message_left(struct aqc_conn *conn, uint32_t seq, const void *context,
                                   int flags)
{
    if ((flags & CCI_FLAG_SILENT) != 0) return CCI_SUCCESS;
    struct aqc_op *op = aqc_op_new(conn, AQC_SEND, context, flags);
    if (op == NULL) return CCI_ENOMEM;
    op->sent = true;
    op->seq = seq;
    aqc_op_append(conn, op);
    if (!aqc_conn_is_reliable(conn)) aqc_op_complete(conn);
    return (flags & CCI_FLAG_BLOCKING) != 0 ? aqc_op_wait(op) : CCI_SUCCESS;
}

static int message_later(struct aqc_conn *conn, const struct iovec *iov, unsigned count,
                         uint32_t len, const void *context, int flags)
{
    if (conn->queued >= AQC_QUEUED) return CCI_ENOBUFS;
    struct aqc_op *op = aqc_op_new(conn, AQC_SEND, context, flags);
    if (op == NULL || !aqc_op_keep(op, iov, count, len)) {
        if (op != NULL) aqc_event_free(&op->event);
        return CCI_ENOMEM;
    }
    aqc_op_append(conn, op);
    return (flags & CCI_FLAG_BLOCKING) != 0 ? aqc_op_wait(op) : CCI_SUCCESS;
}

static int message_failed(struct aqc_conn *conn, const void *context, int flags,
                          cci_status_t status)
{
    if ((flags & (CCI_FLAG_SILENT | CCI_FLAG_BLOCKING)) != 0) return (int)status;
    struct aqc_op *op = aqc_op_new(conn, AQC_SEND, context, flags);
    if (op == NULL) return CCI_ENOMEM;
    op->status = status;
    op->sent = true;
    aqc_op_append(conn, op);
    aqc_op_complete(conn);
    return CCI_SUCCESS;
}

static AQI_INLINE int message_try(struct aqc_conn *conn, const struct iovec *iov, unsigned count,
                                  uint32_t len, const void *context, int flags)
{
    if (AQI_UNLIKELY(conn->broken != CCI_SUCCESS))
        return message_failed(conn, context, flags, conn->broken);
    if (conn->unsent == NULL && conn->state == AQC_OPEN) {
        uint32_t seq = conn->seq;
        aq_status st = message_send(conn, iov, count, len);
        if (AQI_LIKELY(st == AQ_OK)) return message_left(conn, seq, context, flags);
        if (st != AQ_AGAIN) return message_failed(conn, context, flags, aqc_status(st));
    }
    return message_later(conn, iov, count, len, context, flags);
}

static AQI_INLINE int message_call(cci_connection_t *connection, const struct iovec *iov,
                                   unsigned count, const void *context, int flags)
{
    if (connection == NULL || connection->attribute == CCI_CONN_ATTR_UU_MC_RX) return CCI_EINVAL;
    for (unsigned i = 0; i < count; i++)
        if (iov[i].iov_base == NULL && iov[i].iov_len != 0) return CCI_EINVAL;
    size_t len = message_len(iov, count, connection->max_send_size);
    if (len > connection->max_send_size) return CCI_EMSGSIZE;
    struct aqc_conn *conn = AQI_OF(connection, struct aqc_conn, pub);
    if ((flags & CCI_FLAG_BLOCKING) != 0) flags &= ~CCI_FLAG_SILENT;
    aqc_enter();
    int status = message_try(conn, iov, count, (uint32_t)len, context, flags);
    aqc_unlock();
    return status;
}

int cci_send(cci_connection_t *connection, const void *msg_ptr, uint32_t msg_len,
             const void *context, int flags)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)msg_ptr, .iov_len = msg_len};
    return message_call(connection, &iov, 1, context, flags);
}

int cci_sendv(cci_connection_t *connection, const struct iovec *data, uint32_t iovcnt,
              const void *context, int flags)
{
    if (data == NULL && iovcnt != 0) return CCI_EINVAL;
    return message_call(connection, data, iovcnt, context, flags);
}

/* --- timeouts -------------------------------------------------------------------------------- */

void aqc_conn_watch(struct aqc_conn *conn)
{
    bool watch = conn->send_timeout != 0;
    if (watch && !conn->watched) aqc.timed++;
    if (!watch && conn->watched) aqc.timed--;
    conn->watched = watch;
    if (conn->state == AQC_OPEN && !aqc_conn_is_group(conn))
        (void)!aq_connection_keepalive(conn->link_to, (uint64_t)conn->keepalive * 1000);
}
