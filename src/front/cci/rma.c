/* cci: registered memory, and remote reads and writes. */
#include "front/cci/impl.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum { RMA_TESTS = 16 /* transfers looked at in a round beyond those that are complete */ };
enum { RMA_ADDR, RMA_LENGTH, RMA_PLACE, RMA_OWNER };

/* --- registrations --------------------------------------------------------------------------- */

static bool rma_has(const struct aqc_mr *mr, uint64_t addr, size_t len)
{
    return mr->used && aqi_within(addr, len, mr->pub.stuff[RMA_ADDR], mr->pub.stuff[RMA_LENGTH]);
}

bool aqc_rma_covers(struct aqc_ep *ep, uint64_t addr, size_t len)
{
    if (ep->mr_last < ep->mr_count && rma_has(ep->mrs[ep->mr_last], addr, len)) return true;
    for (size_t i = 0; i < ep->mr_count; i++)
        if (rma_has(ep->mrs[i], addr, len)) {
            ep->mr_last = i;
            return true;
        }
    return false;
}

/* Registrations live as long as the endpoint, so that a stale handle is recognized. */
static struct aqc_mr *rma_free_place(struct aqc_ep *ep)
{
    for (size_t i = 0; ep->mr_free != 0 && i < ep->mr_count; i++)
        if (!ep->mrs[i]->used) {
            ep->mr_free--;
            return ep->mrs[i];
        }
    if (!aqi_array_reserve(&ep->mrs, &ep->mr_room, ep->mr_count + 1, sizeof(struct aqc_mr *)))
        return NULL;
    struct aqc_mr *mr = calloc(1, sizeof(*mr));
    if (mr == NULL) return NULL;
    mr->pub.stuff[RMA_PLACE] = ep->mr_count;
    ep->mrs[ep->mr_count++] = mr;
    return mr;
}

/* The registration that the program's pointer names; NULL: it names none. */
static struct aqc_mr *rma_find(const struct aqc_ep *ep, const cci_rma_handle_t *handle)
{
    uint64_t place = handle->stuff[RMA_PLACE];
    struct aqc_mr *mr = place < ep->mr_count ? ep->mrs[place] : NULL;
    return mr != NULL && &mr->pub == handle && mr->used ? mr : NULL;
}

int cci_rma_register(cci_endpoint_t *endpoint, void *start, uint64_t length, int flags,
                     cci_rma_handle_t **rma_handle)
{
    if (endpoint == NULL || start == NULL || rma_handle == NULL || length == 0 ||
        (uintptr_t)start + length < (uintptr_t)start)
        return CCI_EINVAL;
    (void)flags; /* programs use handles for what they did not register them for */
    struct aqc_ep *ep = AQI_OF(endpoint, struct aqc_ep, pub);
    aqc_enter();
    struct aqc_mr *mr = rma_free_place(ep);
    if (mr != NULL) {
        mr->used = true;
        mr->pub.stuff[RMA_ADDR] = (uintptr_t)start;
        mr->pub.stuff[RMA_LENGTH] = length;
        mr->pub.stuff[RMA_OWNER] = ep->id;
        *rma_handle = &mr->pub;
    }
    aqc_unlock();
    return mr != NULL ? CCI_SUCCESS : CCI_ENOMEM;
}

int cci_rma_deregister(cci_endpoint_t *endpoint, cci_rma_handle_t *rma_handle)
{
    if (endpoint == NULL || rma_handle == NULL) return CCI_EINVAL;
    struct aqc_ep *ep = AQI_OF(endpoint, struct aqc_ep, pub);
    aqc_enter();
    struct aqc_mr *mr = rma_find(ep, rma_handle);
    if (mr != NULL) {
        mr->used = false;
        ep->mr_free++;
    }
    aqc_unlock();
    return mr != NULL ? CCI_SUCCESS : CCI_EINVAL;
}

void aqc_rma_close(struct aqc_ep *ep)
{
    for (size_t i = 0; i < ep->mr_count; i++)
        free(ep->mrs[i]);
    free(ep->mrs);
    ep->mrs = NULL;
    ep->mr_count = 0;
}

/* --- progress -------------------------------------------------------------------------------- */

static aq_status rma_start(struct aqc_conn *conn, struct aqc_op *op)
{
    void *remote = (void *)(uintptr_t)op->remote;
    return op->type == AQC_WRITE
               ? aq_put_nb(conn->team, 1, remote, op->local, op->size, AQ_IMMEDIATE, &op->transfer)
               : aq_get_nb(conn->team, 1, op->local, remote, op->size, AQ_IMMEDIATE, &op->transfer);
}

static void rma_done(struct aqc_conn *conn, struct aqc_op *op, aq_status st)
{
    op->done = true;
    if (op->status == CCI_SUCCESS) op->status = aqc_status(st);
    if (op->len == 0 && !op->sent) {
        op->sent = true;
        conn->queued--;
    }
    aqi_list_remove(&op->rma);
}

static void rma_test(struct aqc_conn *conn)
{
    unsigned tests = 0;
    for (struct aqi_node *at = conn->under_way.next, *next;
         at != &conn->under_way && tests < RMA_TESTS; at = next) {
        struct aqc_op *op = AQI_OF(at, struct aqc_op, rma);
        next = at->next;
        aq_status st = aq_event_test(&op->transfer);
        if (st == AQ_AGAIN)
            tests++;
        else
            rma_done(conn, op, st);
    }
}

void aqc_rma_push(struct aqc_conn *conn)
{
    rma_test(conn);
    for (struct aqc_op *op; (op = conn->unstarted) != NULL; conn->unstarted = op->next) {
        if (op->type == AQC_SEND || op->started) continue;
        if ((op->flags & CCI_FLAG_FENCE) != 0 && !aqi_list_is_empty(&conn->under_way)) return;
        aq_status st = rma_start(conn, op);
        if (st == AQ_AGAIN) {
            conn->again = true;
            return;
        }
        op->started = true;
        aqi_list_append(&conn->under_way, &op->rma);
        if (st == AQ_OK) st = aq_event_test(&op->transfer);
        if (st != AQ_AGAIN) rma_done(conn, op, st);
    }
}

/* --- the call -------------------------------------------------------------------------------- */

struct aqc_rma_call {
    const void *msg;
    uint32_t msg_len;
    uint64_t local_offset, remote_offset, size;
    const struct cci_rma_handle *remote;
    const void *context;
    int flags;
};

static int rma_begin(struct aqc_conn *conn, const struct aqc_mr *mr,
                     const struct aqc_rma_call *call)
{
    const uint64_t *there = call->remote->stuff;
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)call->msg, .iov_len = call->msg_len};
    if (mr == NULL || !aqi_within(call->local_offset, call->size, 0, mr->pub.stuff[RMA_LENGTH]) ||
        !aqi_within(call->remote_offset, call->size, 0, there[RMA_LENGTH]))
        return CCI_EINVAL;
    if (conn->broken != CCI_SUCCESS) return (int)conn->broken;
    if (conn->queued >= AQC_QUEUED) return CCI_ENOBUFS;
    struct aqc_op *op = aqc_op_new(conn, (call->flags & CCI_FLAG_WRITE) != 0 ? AQC_WRITE : AQC_READ,
                                   call->context, call->flags);
    if (op == NULL) return CCI_ENOMEM;
    if (call->msg_len != 0 && !aqc_op_keep(op, &iov, 1, call->msg_len)) {
        aqc_event_free(&op->event);
        return CCI_ENOMEM;
    }
    op->local = (void *)(uintptr_t)(mr->pub.stuff[RMA_ADDR] + call->local_offset);
    op->remote = there[RMA_ADDR] + call->remote_offset;
    op->size = call->size;
    aqc_op_append(conn, op);
    if ((call->flags & CCI_FLAG_BLOCKING) != 0) return aqc_op_wait(op);
    aqc_conn_push(conn);
    return CCI_SUCCESS;
}

int cci_rma(cci_connection_t *connection, const void *msg_ptr, uint32_t msg_len,
            cci_rma_handle_t *local_handle, uint64_t local_offset, cci_rma_handle_t *remote_handle,
            uint64_t remote_offset, uint64_t data_len, const void *context, int flags)
{
    int way = flags & (CCI_FLAG_READ | CCI_FLAG_WRITE);
    if (connection == NULL || local_handle == NULL || remote_handle == NULL || data_len == 0 ||
        (way != CCI_FLAG_READ && way != CCI_FLAG_WRITE) || (msg_ptr == NULL && msg_len != 0))
        return CCI_EINVAL;
    if (connection->attribute >= CCI_CONN_ATTR_UU &&
        connection->attribute <= CCI_CONN_ATTR_UU_MC_RX)
        return CCI_EINVAL;
    if (msg_len > connection->max_send_size) return CCI_EMSGSIZE;
    if ((flags & CCI_FLAG_BLOCKING) != 0) flags &= ~CCI_FLAG_SILENT;
    struct aqc_conn *conn = AQI_OF(connection, struct aqc_conn, pub);
    aqc_enter();
    int status = rma_begin(conn, rma_find(conn->ep, local_handle),
                           &(struct aqc_rma_call){.msg = msg_ptr,
                                                  .msg_len = msg_len,
                                                  .local_offset = local_offset,
                                                  .remote_offset = remote_offset,
                                                  .size = data_len,
                                                  .remote = remote_handle,
                                                  .context = context,
                                                  .flags = flags});
    aqc_unlock();
    return status;
}
