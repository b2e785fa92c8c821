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

void aqc_op_complete(struct aqc_conn *conn)
{
    for (struct aqc_op *op; (op = conn->ops) != NULL && op_is_complete(conn, op);) {
        conn->ops = op->next;
        if (conn->last == op) conn->last = NULL;
        if (conn->unsent == op) conn->unsent = op->next;
        if (conn->unstarted == op) conn->unstarted = op->next;
        if (!op->sent) conn->queued--; /* its transfer has failed, so its message is never sent */
        op_finish(op);
    }
}

void aqc_op_fail(struct aqc_conn *conn, struct aqc_op *op, cci_status_t status)
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
        aqc_op_fail(conn, op, status);
    conn->unsent = conn->unstarted = NULL;
    conn->again = false;
    aqc_op_complete(conn);
    if (!aqi_list_is_empty(&conn->under_way)) aqc_conn_activate(conn);
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
    if (conn->send_timeout != 0) op->deadline = aqi_now_ns() + (uint64_t)conn->send_timeout * 1000;
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
