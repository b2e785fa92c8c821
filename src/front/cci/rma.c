/* cci: registered memory, and remote reads and writes. */
#include "front/cci/impl.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    RMA_TESTS = 16, /* maximum incomplete transfers tested per round */
    RMA_BUCKETS = 16
};

/* --- registrations --------------------------------------------------------------------------- */

static struct aqc_mr **rma_bucket(const struct aqc_ep *ep, const cci_rma_handle_t *handle)
{
    return &ep->mrs[aqi_hash_spread((uintptr_t)handle) & (ep->mr_buckets - 1)];
}

static void rma_insert(struct aqc_ep *ep, struct aqc_mr *mr)
{
    struct aqc_mr **bucket = rma_bucket(ep, &mr->pub);
    mr->next = *bucket;
    *bucket = mr;
}

/* Make room for another registration, with at most one per bucket on average. */
static bool rma_reserve(struct aqc_ep *ep)
{
    if (ep->mr_count < ep->mr_buckets) return true;
    size_t last = ep->mr_buckets, buckets = last != 0 ? 2 * last : RMA_BUCKETS;
    struct aqc_mr **old = ep->mrs, **mrs = calloc(buckets, sizeof(*mrs));
    if (mrs == NULL) return false;
    ep->mrs = mrs;
    ep->mr_buckets = buckets;
    for (size_t i = 0; i < last; i++)
        for (struct aqc_mr *mr = old[i], *next; mr != NULL; mr = next) {
            next = mr->next;
            rma_insert(ep, mr);
        }
    free(old);
    return true;
}

/* The registration of a handle of the program; NULL: none. */
static struct aqc_mr *rma_find(struct aqc_ep *ep, const cci_rma_handle_t *handle)
{
    if (ep->last_mr != NULL && &ep->last_mr->pub == handle) return ep->last_mr;
    for (struct aqc_mr *mr = ep->mrs != NULL ? *rma_bucket(ep, handle) : NULL; mr != NULL;
         mr = mr->next)
        if (&mr->pub == handle) return ep->last_mr = mr;
    return NULL;
}

static void rma_end(struct aqc_ep *ep, struct aqc_mr *mr)
{
    struct aqc_mr **at = rma_bucket(ep, &mr->pub);
    while (*at != mr)
        at = &(*at)->next;
    *at = mr->next;
    ep->mr_count--;
    if (ep->last_mr == mr) ep->last_mr = NULL;
    (void)aq_region_revoke(mr->region);
    free(mr);
}

static aq_status rma_register(struct aqc_ep *ep, struct aqc_mr *mr)
{
    aq_region_handle handle;
    if (!rma_reserve(ep)) return AQ_ENOMEM;
    /* Allow both reads and writes: programs use handles beyond the access for which they
     * registered. */
    aq_status st =
        aq_region_create(NULL, mr->addr, mr->len, AQ_REGION_READ | AQ_REGION_WRITE, &mr->region);
    if (st == AQ_OK) st = aq_region_handle_of(mr->region, &handle);
    if (st != AQ_OK) return st;
    memcpy(&mr->pub, &handle, sizeof(handle));
    rma_insert(ep, mr);
    ep->mr_count++;
    return AQ_OK;
}

int cci_rma_register(cci_endpoint_t *endpoint, void *start, uint64_t length, int flags,
                     cci_rma_handle_t **rma_handle)
{
    (void)flags;
    if (endpoint == NULL || start == NULL || rma_handle == NULL || length == 0 ||
        (uintptr_t)start + length < (uintptr_t)start)
        return CCI_EINVAL;
    struct aqc_mr *mr = malloc(sizeof(*mr));
    if (mr == NULL) return CCI_ENOMEM;
    *mr = (struct aqc_mr){.addr = start, .len = length};
    aqc_enter();
    aq_status st = rma_register(AQI_OF(endpoint, struct aqc_ep, pub), mr);
    aqc_unlock();
    if (st == AQ_OK)
        *rma_handle = &mr->pub;
    else
        free(mr);
    return (int)aqc_status(st);
}

int cci_rma_deregister(cci_endpoint_t *endpoint, cci_rma_handle_t *rma_handle)
{
    if (endpoint == NULL || rma_handle == NULL) return CCI_EINVAL;
    aqc_enter();
    struct aqc_ep *ep = AQI_OF(endpoint, struct aqc_ep, pub);
    struct aqc_mr *mr = rma_find(ep, rma_handle);
    if (mr != NULL) rma_end(ep, mr);
    aqc_unlock();
    return mr != NULL ? CCI_SUCCESS : CCI_EINVAL;
}

void aqc_rma_close(struct aqc_ep *ep)
{
    for (size_t i = 0; i < ep->mr_buckets; i++)
        while (ep->mrs[i] != NULL)
            rma_end(ep, ep->mrs[i]);
    free(ep->mrs);
}

/* --- progress -------------------------------------------------------------------------------- */

static aq_status rma_start(struct aqc_conn *conn, struct aqc_op *op)
{
    return op->type == AQC_WRITE
               ? aq_region_put_nb(conn->link_to, &op->there, op->remote, op->local, op->size,
                                  AQ_IMMEDIATE, &op->transfer)
               : aq_region_get_nb(conn->link_to, op->local, &op->there, op->remote, op->size,
                                  AQ_IMMEDIATE, &op->transfer);
}

static void rma_done(struct aqc_conn *conn, struct aqc_op *op, aq_status st)
{
    op->done = true;
    conn->moved++;
    if (op->status == CCI_SUCCESS)
        op->status = st == AQ_EACCESS ? CCI_ERR_RMA_HANDLE : aqc_status(st);
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

/* Log why a call is refused: the program only gets CCI_EINVAL. */
static AQI_COLD int rma_refuse(const struct aqc_mr *mr, const struct aqc_rma_call *call)
{
    aq_region_handle there;
    memcpy(&there, call->remote, sizeof(there));
    uint64_t size = mr == NULL ? 0 : mr->len, remote = aq_region_handle_size(&there);
    bool local = mr == NULL || !aqi_within(call->local_offset, call->size, 0, size);
    uint64_t offset = local ? call->local_offset : call->remote_offset;
    if (mr == NULL)
        aqi_log(AQI_LOG_WARN, "cci",
                "cci_rma: the local handle is not one of this endpoint: it was deregistered, or "
                "registered with another endpoint");
    else if (!local && remote == 0)
        aqi_log(AQI_LOG_WARN, "cci", "cci_rma: the remote handle is not one of cci_rma_register");
    else
        aqi_log(AQI_LOG_WARN, "cci",
                "cci_rma: %llu bytes at offset %llu are not inside the %llu bytes of the %s handle",
                (unsigned long long)call->size, (unsigned long long)offset,
                (unsigned long long)(local ? size : remote), local ? "local" : "remote");
    return CCI_EINVAL;
}

static int rma_begin(struct aqc_conn *conn, const struct aqc_mr *mr,
                     const struct aqc_rma_call *call)
{
    aq_region_handle there;
    memcpy(&there, call->remote, sizeof(there));
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)call->msg, .iov_len = call->msg_len};
    if (mr == NULL || !aqi_within(call->local_offset, call->size, 0, mr->len) ||
        !aqi_within(call->remote_offset, call->size, 0, aq_region_handle_size(&there)))
        return rma_refuse(mr, call);
    if (conn->broken != CCI_SUCCESS) return (int)conn->broken;
    if (conn->queued >= AQC_QUEUED) return CCI_ENOBUFS;
    struct aqc_op *op = aqc_op_new(conn, (call->flags & CCI_FLAG_WRITE) != 0 ? AQC_WRITE : AQC_READ,
                                   call->context, call->flags);
    if (op == NULL) return CCI_ENOMEM;
    if (call->msg_len != 0 && !aqc_op_keep(op, &iov, 1, call->msg_len)) {
        aqc_event_free(&op->event);
        return CCI_ENOMEM;
    }
    op->local = mr->addr + call->local_offset;
    op->there = there;
    op->remote = call->remote_offset;
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
