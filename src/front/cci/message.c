/*
 * cci: messages, their acknowledgment, and the completion of operations.
 *
 * Connections are ordered. Both sides acknowledge by two counts: messages received, which
 * completes sends, and units released by the program when it returns events, which is the sender's
 * credit. Both counts are sent with each message, or in notes if there is none. Multicast groups
 * have no counts: a receiver without room drops messages.
 */
#include "front/cci/impl.h"

#include "base/clock.h"
#include "base/iov.h"

enum { MESSAGE_HANDLER = AQ_HANDLER_BASE, MESSAGE_NOTE = AQ_HANDLER_BASE + 1 };
enum { MESSAGE_GOT, MESSAGE_FREED, MESSAGE_ARGS }; /* arguments of messages and notes */
enum {
    MESSAGE_OWED = 32, /* this many messages are acknowledged at once, even if more arrive */
    MESSAGE_ROOM_NS = 1000000, /* released room is reported after this time */
    MESSAGE_ROOM =
        AQC_WINDOW - AQC_LARGEST /* if fewer units are in use, there is room for any message */
};

static uint32_t message_units(uint32_t len)
{
    return 2 + len / AQC_UNIT; /* including the event that contains it */
}

static inline struct aqc_op *message_op(struct aqi_node *node)
{
    return AQI_OF(node, struct aqc_op, event.link);
}

/* --- completion of operations ---------------------------------------------------------------- */

static bool message_is_complete(const struct aqc_conn *conn, const struct aqc_op *op)
{
    return op->stage == AQC_DONE || (op->stage == AQC_SENT && (int32_t)(conn->acked - op->seq) > 0);
}

void aqc_op_set_stage(struct aqc_conn *conn, struct aqc_op *op, enum aqc_stage stage)
{
    conn->queued -= op->stage < AQC_SENT && stage >= AQC_SENT;
    op->stage = stage;
}

/* Report a completed operation. */
static inline void message_report(struct aqc_conn *conn, struct aqc_op *op)
{
    struct aqi_node *node = &op->event.link;
    if (conn->unsent == node) conn->unsent = node->next;
    if (conn->unstarted == node) conn->unstarted = node->next;
    aqi_list_remove(node);
    aqi_stash_put(&aqc.stash, op->msg);
    op->msg = NULL;
    op->event.pub.send.status = op->status;
    if ((op->flags & CCI_FLAG_BLOCKING) != 0) return;
    if ((op->flags & CCI_FLAG_SILENT) != 0 || conn->left)
        aqc_event_free(&op->event);
    else
        aqc_event_push(&op->event);
}

/* Those that failed at once or in time need not wait for earlier transfers of a silent peer. */
void aqc_op_complete(struct aqc_conn *conn)
{
    bool ordered = true, any = conn->broken != CCI_SUCCESS && conn->state == AQC_OPEN;
    for (struct aqi_node *at = conn->ops.next, *next; at != &conn->ops; at = next) {
        struct aqc_op *op = message_op(at);
        bool complete = message_is_complete(conn, op);
        next = at->next;
        ordered = ordered && complete;
        if (!ordered && !any) return;
        if (complete && (ordered || op->status != CCI_SUCCESS)) message_report(conn, op);
    }
}

/* A transfer in flight still uses the program's memory. */
static void message_fail(struct aqc_conn *conn, struct aqc_op *op, cci_status_t status)
{
    if (op->status == CCI_SUCCESS) op->status = status;
    if (op->stage != AQC_MOVING) aqc_op_set_stage(conn, op, AQC_DONE);
}

/* Fail this operation and all later ones. */
static void message_fail_from(struct aqc_conn *conn, struct aqi_node *at, cci_status_t status)
{
    if (conn->broken == CCI_SUCCESS) conn->broken = status;
    for (; at != &conn->ops; at = at->next)
        message_fail(conn, message_op(at), status);
    aqc_op_complete(conn);
}

void aqc_conn_fail(struct aqc_conn *conn, cci_status_t status)
{
    message_fail_from(conn, conn->ops.next, status);
    if (!aqi_list_is_empty(&conn->under_way)) aqc_conn_activate(conn);
}

/*
 * A send that has timed out is reported even if it is behind another operation that is not
 * complete, such as a transfer, which uses the program's memory and therefore has no timeout.
 */
static void message_expire(struct aqc_conn *conn)
{
    uint64_t now = aqi_now_ns();
    if (now < conn->due) return;
    conn->due = UINT64_MAX;
    for (struct aqi_node *at = conn->ops.next, *next; at != &conn->ops; at = next) {
        struct aqc_op *op = message_op(at);
        bool late = now >= op->deadline, failed = late && !message_is_complete(conn, op);
        cci_status_t status = op->stage == AQC_SENT ? CCI_ETIMEDOUT : CCI_ERR_RNR;
        next = at->next;
        if (failed && conn->pub.attribute == CCI_CONN_ATTR_RO) {
            message_fail_from(conn, at, status);
            return;
        }
        if (failed) message_fail(conn, op, status);
        if (late)
            message_report(conn, op);
        else
            conn->due = aqi_min(conn->due, op->deadline);
    }
}

/* --- new operations -------------------------------------------------------------------------- */

struct aqc_op *aqc_op_new(struct aqc_conn *conn, enum aqc_type type, const void *context, int flags)
{
    struct aqc_op *op = (void *)aqc_event_new(conn->ep, conn, sizeof(*op) - sizeof(op->event));
    if (op == NULL) return NULL;
    op->event.pub.send = (struct cci_event_send){
        .type = CCI_EVENT_SEND, .connection = &conn->pub, .context = (void *)(uintptr_t)context};
    aqi_list_init(&op->rma);
    op->type = type;
    op->flags = flags;
    op->stage = type == AQC_SEND ? AQC_TO_SEND : AQC_TO_MOVE;
    op->speaks = true;
    op->status = CCI_SUCCESS;
    op->len = 0;
    op->msg = NULL;
    op->deadline = UINT64_MAX;
    if (conn->send_timeout != 0 && type == AQC_SEND) {
        op->deadline = aqi_now_ns() + (uint64_t)conn->send_timeout * 1000;
        conn->due = aqi_min(conn->due, op->deadline);
    }
    return op;
}

static int message_wait(struct aqc_op *op)
{
    const struct aqi_node *node = &op->event.link; /* in no list once it is reported */
    for (unsigned rounds = 0; !aqi_list_is_empty(node); rounds++) {
        aqc_progress();
        if (!aqi_list_is_empty(node)) aqc_pause(rounds);
    }
    int status = (int)op->status;
    aqc_event_free(&op->event);
    return status;
}

int aqc_op_begin(struct aqc_op *op, const struct iovec *iov, unsigned count)
{
    struct aqc_conn *conn = op->event.conn;
    struct aqi_node *node = &op->event.link;
    bool waits = op->stage < AQC_SENT, blocks = (op->flags & CCI_FLAG_BLOCKING) != 0;
    if (waits && op->speaks) {
        op->msg = aqi_stash_get(&aqc.stash, op->len);
        if (op->msg == NULL) {
            aqc_event_free(&op->event);
            return CCI_ENOMEM;
        }
        (void)aqi_iov_gather(iov, count, op->msg);
    }
    aqi_list_append(&conn->ops, node);
    if (AQI_UNLIKELY(waits)) {
        conn->queued++;
        if (conn->unsent == &conn->ops) conn->unsent = node;
        if (op->stage == AQC_TO_MOVE && conn->unstarted == &conn->ops) conn->unstarted = node;
    }
    if (AQI_UNLIKELY(waits || conn->due != UINT64_MAX)) aqc_conn_activate(conn);
    if (op->stage == AQC_TO_MOVE)
        aqc_conn_push(conn);
    else if (op->stage == AQC_DONE)
        aqc_op_complete(conn);
    return AQI_UNLIKELY(blocks) ? message_wait(op) : CCI_SUCCESS;
}

/* --- receiving ------------------------------------------------------------------------------- */

/* Count units that the program will hold, or (modulo 2^32) holds no longer. */
static inline void message_hold(struct aqc_conn *conn, uint32_t units)
{
    bool was = conn->held > MESSAGE_ROOM;
    conn->held += units;
    bool is = conn->held > MESSAGE_ROOM;
    if (AQI_UNLIKELY(is != was)) conn->ep->starved += is ? 1 : UINT32_MAX;
}

/* Process the peer's counts: messages received there, and units released by its program. Report
 * completions in the next round: a program replies before it polls for them. */
static void message_acknowledged(struct aqc_conn *conn, const aq_am *am)
{
    uint32_t got = (uint32_t)am->args[MESSAGE_GOT], freed = (uint32_t)am->args[MESSAGE_FREED];
    bool news = (freed != conn->freed_there && conn->unsent != &conn->ops) ||
                (got != conn->acked && !aqi_list_is_empty(&conn->ops));
    conn->freed_there = freed;
    conn->acked = got;
    if (news) aqc_conn_activate(conn);
}

/* The connection of a message; NULL: it is closed, or its other end is no CCI program. */
static struct aqc_conn *message_conn(const aq_am *am)
{
    struct aqc_conn *conn = aq_connection_context(aq_connection_of(am));
    if (conn == NULL || conn->left) return NULL;
    return AQI_LIKELY(conn->state == AQC_OPEN) || aqc_conn_open(conn) ? conn : NULL;
}

/*
 * If the peer exceeds its window, or the size that the handshake gave it, or memory runs out, the
 * message is dropped; then all later ones must also be dropped.
 */
static void message_received(aq_am *am)
{
    struct aqc_conn *conn = message_conn(am);
    if (conn == NULL) return;
    size_t most = conn->group ? AQC_MESSAGE : conn->ep->device->pub.max_send_size;
    uint32_t len = (uint32_t)am->nbytes, units = message_units(len);
    bool drop = conn->deaf || am->nbytes > most || conn->held + units > AQC_WINDOW;
    struct aqc_event *event = drop ? NULL : aqc_event_new(conn->ep, conn, am->nbytes + 1);
    conn->deaf = event == NULL && !conn->group;
    if (event == NULL) return;
    unsigned char *payload = aqc_payload(event);
    memcpy(payload, am->payload, len);
    payload[len] = 0;
    event->pub.recv = (struct cci_event_recv){
        .type = CCI_EVENT_RECV, .len = len, .ptr = payload, .connection = &conn->pub};
    event->units = units;
    message_hold(conn, units);
    conn->got++;
    conn->fresh = true;
    aqc_event_push(event);
    message_acknowledged(conn, am);
    aqc_conn_activate(conn);
}

static void message_note_received(aq_am *am)
{
    struct aqc_conn *conn = message_conn(am);
    if (conn != NULL) message_acknowledged(conn, am);
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

/* Whether the peer may lack room that the program has released. */
static inline bool message_is_tight(const struct aqc_conn *conn)
{
    uint32_t owed = conn->freed - conn->reported_freed;
    return owed != 0 && (owed >= AQC_WINDOW / 4 || conn->held + owed > MESSAGE_ROOM);
}

void aqc_conn_returned(struct aqc_conn *conn, uint32_t units)
{
    if (conn->left) return;
    conn->freed += units;
    message_hold(conn, -units);
    if (AQI_UNLIKELY(message_is_tight(conn))) aqc_conn_activate(conn);
}

/*
 * Whether to tell the peer how much room the program has released. A little is not worth a note of
 * its own at once, since the program will soon release more.
 */
static bool message_owes_room(struct aqc_conn *conn)
{
    if (AQI_LIKELY(!message_is_tight(conn))) return false;
    if (conn->freed - conn->reported_freed >= AQC_LARGEST) return true;
    uint64_t now = aqi_now_ns();
    if (conn->tight_since == 0) conn->tight_since = now;
    return now - conn->tight_since >= MESSAGE_ROOM_NS;
}

/* --- sending --------------------------------------------------------------------------------- */

/* Record that our counts have been sent, with a message or note. */
static inline void message_reported(struct aqc_conn *conn)
{
    conn->tight_since = 0;
    conn->reported = conn->got;
    conn->reported_freed = conn->freed;
    aqc.sent += conn->ep->device->kind != AQC_SM;
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
    uint32_t units = message_units(len);
    if (!conn->group && conn->units - conn->freed_there + units > AQC_WINDOW) return AQ_AGAIN;
    aq_status st = message_put(conn, iov, count, len, args);
    if (AQI_UNLIKELY(st != AQ_OK)) {
        conn->again = st == AQ_AGAIN;
        return st;
    }
    conn->again = false;
    conn->seq++;
    conn->units += units;
    message_reported(conn);
    return AQ_OK;
}

static void message_note(struct aqc_conn *conn)
{
    const aq_arg args[MESSAGE_ARGS] = {(aq_arg)conn->got, (aq_arg)conn->freed};
    aq_status st = conn->group
                       ? AQ_OK
                       : aq_am_short(conn->team, 1, MESSAGE_NOTE, args, MESSAGE_ARGS, AQ_IMMEDIATE);
    if (st == AQ_AGAIN) conn->again = true;
    if (st == AQ_OK) message_reported(conn);
}

/* The stage of an operation after an attempt to send its message. */
static AQI_INLINE enum aqc_stage message_stage(const struct aqc_conn *conn, aq_status st)
{
    if (st == AQ_AGAIN) return AQC_TO_SEND;
    return st == AQ_OK && conn->reliable ? AQC_SENT : AQC_DONE;
}

/* Send queued messages. The message of a transfer is sent once the transfer is complete; all later
 * ones wait for it. */
static void message_push(struct aqc_conn *conn)
{
    for (; conn->unsent != &conn->ops; conn->unsent = conn->unsent->next) {
        struct aqc_op *op = message_op(conn->unsent);
        if (!op->speaks || op->stage >= AQC_SENT) continue;
        if (op->stage != AQC_TO_SEND) return;
        const struct iovec iov = {.iov_base = op->msg, .iov_len = op->len};
        op->seq = conn->seq;
        aq_status st = message_send(conn, &iov, 1, op->len);
        if (st == AQ_AGAIN) return;
        op->status = aqc_status(st);
        aqc_op_set_stage(conn, op, message_stage(conn, st));
    }
}

void aqc_conn_push(struct aqc_conn *conn)
{
    bool fresh = conn->fresh;
    conn->fresh = conn->again = false;
    if (AQI_UNLIKELY(conn->unstarted != &conn->ops || !aqi_list_is_empty(&conn->under_way)))
        aqc_rma_push(conn);
    if (conn->state != AQC_OPEN) {
        aqc_op_complete(conn);
        if (aqi_list_is_empty(&conn->under_way)) aqc_conn_release(conn, AQC_CLOSE_NS);
        return;
    }
    message_push(conn);
    if (!aqi_list_is_empty(&conn->ops)) aqc_op_complete(conn);
    if (AQI_UNLIKELY(conn->due != UINT64_MAX)) message_expire(conn);
    uint32_t owed = conn->got - conn->reported;
    if ((owed != 0 && (!fresh || owed >= MESSAGE_OWED)) || message_owes_room(conn))
        message_note(conn);
    if (!conn->again && conn->got == conn->reported && conn->tight_since == 0 &&
        conn->due == UINT64_MAX && conn->unstarted == &conn->ops &&
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

static AQI_INLINE int message_try(struct aqc_conn *conn, const struct iovec *iov, unsigned count,
                                  uint32_t len, const void *context, int flags)
{
    cci_status_t status = conn->broken;
    aq_status st = status == CCI_SUCCESS ? AQ_AGAIN : AQ_EPEER;
    bool quiet = (flags & CCI_FLAG_SILENT) != 0, blocks = (flags & CCI_FLAG_BLOCKING) != 0;
    uint32_t seq = conn->seq;
    if (AQI_LIKELY(st == AQ_AGAIN && conn->unsent == &conn->ops && conn->state == AQC_OPEN)) {
        st = message_send(conn, iov, count, len);
        if (st == AQ_OK && quiet) return CCI_SUCCESS;
        if (AQI_UNLIKELY(st < AQ_OK)) status = aqc_status(st);
    }
    if (status != CCI_SUCCESS && (quiet || blocks)) return (int)status;
    if (st == AQ_AGAIN && conn->queued >= AQC_QUEUED) return CCI_ENOBUFS;
    struct aqc_op *op = aqc_op_new(conn, AQC_SEND, context, flags);
    if (op == NULL) return CCI_ENOMEM;
    op->stage = message_stage(conn, st);
    op->len = len;
    op->seq = seq;
    op->status = status;
    return aqc_op_begin(op, iov, count);
}

static AQI_INLINE int message_call(cci_connection_t *connection, const struct iovec *iov,
                                   unsigned count, const void *context, int flags)
{
    if (connection == NULL || connection->attribute == CCI_CONN_ATTR_UU_MC_RX) return CCI_EINVAL;
    for (unsigned i = 0; i < count; i++)
        if (iov[i].iov_base == NULL && iov[i].iov_len != 0) return CCI_EINVAL;
    size_t len = message_len(iov, count, connection->max_send_size);
    if (len > connection->max_send_size) return CCI_EMSGSIZE;
    if ((flags & CCI_FLAG_BLOCKING) != 0) flags &= ~CCI_FLAG_SILENT;
    aqc_enter();
    int status = message_try(AQI_OF(connection, struct aqc_conn, pub), iov, count, (uint32_t)len,
                             context, flags);
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
