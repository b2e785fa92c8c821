/* cci: pending sends and transfers, and their completion. */
#include "front/cci/impl.h"

#include "base/clock.h"

#include <string.h>

/* --- completion ------------------------------------------------------------------------------ */

static void op_finish(struct aqc_op *op)
{
    aqc_room_put(op->msg, op->msg_size);
    op->msg = NULL;
    op->finished = true;
    op->event.pub.send.status = op->status;
    if ((op->flags & CCI_FLAG_BLOCKING) != 0) return;
    if ((op->flags & CCI_FLAG_SILENT) != 0 || op->event.conn->left)
        aqc_event_free(&op->event);
    else
        aqc_event_push(&op->event);
}

static bool op_is_complete(const struct aqc_conn *conn, const struct aqc_op *op)
{
    if (op->type != AQC_SEND && !op->done) return false;
    if (op->status != CCI_SUCCESS) return true;
    if (op->type != AQC_SEND && op->len == 0) return true;
    return op->sent && (!aqc_conn_is_reliable(conn) || (int32_t)(conn->acked - op->seq) > 0);
}

/* Report a completed operation; `before` is its predecessor, NULL if it is the first. */
static inline void op_report(struct aqc_conn *conn, struct aqc_op *before, struct aqc_op *op)
{
    *(before != NULL ? &before->next : &conn->ops) = op->next;
    if (conn->last == op) conn->last = before;
    if (conn->unsent == op) conn->unsent = op->next;
    if (conn->unstarted == op) conn->unstarted = op->next;
    if (!op->sent) conn->queued--; /* its transfer has failed, so its message is never sent */
    op_finish(op);
}

/* Those that failed at once or in time need not wait for earlier transfers of a silent peer. */
static void op_report_failed(struct aqc_conn *conn)
{
    struct aqc_op *before = NULL;
    for (struct aqc_op *op = conn->ops, *next; op != NULL; op = next) {
        next = op->next;
        if (op->status != CCI_SUCCESS && op_is_complete(conn, op))
            op_report(conn, before, op);
        else
            before = op;
    }
}

void aqc_op_complete(struct aqc_conn *conn)
{
    for (struct aqc_op *op; (op = conn->ops) != NULL && op_is_complete(conn, op);)
        op_report(conn, NULL, op);
    if (AQI_UNLIKELY(conn->broken != CCI_SUCCESS) && conn->state == AQC_OPEN)
        op_report_failed(conn);
}

static void op_fail(struct aqc_conn *conn, struct aqc_op *op, cci_status_t status)
{
    if (op->status == CCI_SUCCESS) op->status = status;
    if (!op->sent && conn->queued != 0) conn->queued--;
    op->sent = true;
    if (!op->started) op->started = op->done = true;
}

void aqc_conn_fail(struct aqc_conn *conn, cci_status_t status)
{
    if (conn->broken == CCI_SUCCESS) conn->broken = status;
    for (struct aqc_op *op = conn->ops; op != NULL; op = op->next)
        op_fail(conn, op, status);
    conn->unsent = conn->unstarted = NULL;
    conn->again = false;
    aqc_op_complete(conn);
    if (!aqi_list_is_empty(&conn->under_way)) aqc_conn_activate(conn);
}

/* --- timeouts -----------------------------------------------------------------------------------
 */

/* On an ordered connection, all operations after a failed one also fail. */
static void op_fail_later(struct aqc_conn *conn, struct aqc_op *first, cci_status_t status)
{
    if (conn->broken == CCI_SUCCESS) conn->broken = status;
    for (struct aqc_op *op = first; op != NULL; op = op->next)
        op_fail(conn, op, status);
    aqc_op_complete(conn);
}

/*
 * A send that has timed out is reported even if it is behind another operation that is not
 * complete, such as a transfer, which uses the program's memory and therefore has no timeout.
 */
void aqc_op_expire(struct aqc_conn *conn, uint64_t now)
{
    struct aqc_op *before = NULL;
    if (now < conn->due) return;
    conn->due = UINT64_MAX;
    for (struct aqc_op *op = conn->ops, *next; op != NULL; op = next) {
        next = op->next;
        bool timed = op->type == AQC_SEND && op->deadline != 0;
        if (timed && now >= op->deadline) {
            cci_status_t status = op->sent ? CCI_ETIMEDOUT : CCI_ERR_RNR;
            bool failed = !op_is_complete(conn, op);
            if (failed && conn->pub.attribute == CCI_CONN_ATTR_RO) {
                op_fail_later(conn, op, status);
                return;
            }
            if (failed) op_fail(conn, op, status);
            op_report(conn, before, op);
            continue;
        }
        if (timed) conn->due = aqi_min(conn->due, op->deadline);
        before = op;
    }
}

/* --- operations ------------------------------------------------------------------------------ */

struct aqc_op *aqc_op_new(struct aqc_conn *conn, enum aqc_type type, const void *context, int flags)
{
    struct aqc_op *op = aqi_pool_get(&aqc.ops);
    if (op == NULL) return NULL;
    op->type = type;
    op->flags = flags;
    op->started = op->done = op->sent = op->finished = false;
    op->status = CCI_SUCCESS;
    op->len = 0;
    op->msg = NULL;
    op->deadline = 0;
    op->event.pub.send = (struct cci_event_send){
        .type = CCI_EVENT_SEND, .connection = &conn->pub, .context = (void *)(uintptr_t)context};
    op->event.ep = conn->ep;
    op->event.conn = conn;
    op->event.pool = &aqc.ops;
    conn->refs++;
    aqi_list_init(&op->event.link);
    aqi_list_init(&op->rma);
    if (conn->send_timeout != 0) {
        op->deadline = aqi_now_ns() + (uint64_t)conn->send_timeout * 1000;
        conn->due = aqi_min(conn->due, op->deadline);
    }
    return op;
}

bool aqc_op_keep(struct aqc_op *op, const struct iovec *iov, unsigned count, uint32_t len)
{
    op->msg = aqc_room_get(len, &op->msg_size);
    op->len = len;
    if (op->msg == NULL) return false;
    (void)aqi_iov_gather(iov, count, op->msg);
    return true;
}

void aqc_op_append(struct aqc_conn *conn, struct aqc_op *op)
{
    op->next = NULL;
    if (conn->last != NULL)
        conn->last->next = op;
    else
        conn->ops = op;
    conn->last = op;
    if (op->sent) return;
    conn->queued++;
    if (conn->unsent == NULL) conn->unsent = op;
    if (conn->unstarted == NULL && op->type != AQC_SEND) conn->unstarted = op;
    aqc_conn_activate(conn);
}

int aqc_op_wait(struct aqc_op *op)
{
    for (unsigned rounds = 0; !op->finished; rounds++) {
        aqc_progress();
        if (!op->finished) aqc_pause(rounds);
    }
    int status = (int)op->status;
    aqc_event_free(&op->event);
    return status;
}
