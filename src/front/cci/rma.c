/* cci: registered memory, and remote reads and writes. */
#include "front/cci/impl.h"

#include "base/log.h"

#include <search.h>
#include <stdlib.h>

enum { RMA_TESTS = 16 /* maximum incomplete transfers tested per round */ };

/* --- registrations --------------------------------------------------------------------------- */

struct aqc_mr {
    struct cci_rma_handle pub; /* a copy of the region's handle */
    aq_region *region;
    unsigned char *addr;
    uint64_t len;
};
static_assert(sizeof(struct cci_rma_handle) == sizeof(aq_region_handle), "it is one");

/* Registrations are found by the addresses of their handles. */
static int rma_compare(const void *x, const void *y)
{
    return ((uintptr_t)x > (uintptr_t)y) - ((uintptr_t)x < (uintptr_t)y);
}

/* The registration of a handle of the program; NULL: none. */
static struct aqc_mr *rma_find(struct aqc_ep *ep, const cci_rma_handle_t *handle)
{
    if (ep->last_mr != NULL && &ep->last_mr->pub == handle) return ep->last_mr;
    struct aqc_mr *const *found = tfind(handle, &ep->mrs, rma_compare);
    return found != NULL ? ep->last_mr = *found : NULL;
}

static void rma_end(struct aqc_ep *ep, struct aqc_mr *mr)
{
    (void)tdelete(mr, &ep->mrs, rma_compare);
    if (ep->last_mr == mr) ep->last_mr = NULL;
    (void)aq_region_revoke(mr->region);
    free(mr);
}

int cci_rma_register(cci_endpoint_t *endpoint, void *start, uint64_t length, int flags,
                     cci_rma_handle_t **rma_handle)
{
    /* Allow both reads and writes: programs use handles beyond the access for which they
     * registered. */
    const unsigned rights = AQ_REGION_READ | AQ_REGION_WRITE;
    aq_region_handle handle;
    (void)flags;
    if (endpoint == NULL || start == NULL || rma_handle == NULL || length == 0 ||
        (uintptr_t)start + length < (uintptr_t)start)
        return CCI_EINVAL;
    struct aqc_mr *mr = malloc(sizeof(*mr));
    if (mr == NULL) return CCI_ENOMEM;
    *mr = (struct aqc_mr){.addr = start, .len = length};
    aqc_enter();
    aq_status st = aq_region_create(NULL, start, length, rights, &mr->region);
    if (st == AQ_OK) st = aq_region_handle_of(mr->region, &handle);
    if (st == AQ_OK) memcpy(&mr->pub, &handle, sizeof(handle));
    struct aqc_ep *ep = AQI_OF(endpoint, struct aqc_ep, pub);
    if (st == AQ_OK && tsearch(mr, &ep->mrs, rma_compare) == NULL) st = AQ_ENOMEM;
    if (st != AQ_OK) {
        (void)aq_region_revoke(mr->region);
        free(mr);
    } else {
        *rma_handle = &mr->pub;
    }
    aqc_unlock();
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
    while (ep->mrs != NULL)
        rma_end(ep, *(struct aqc_mr **)ep->mrs); /* that of the root */
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
    conn->moved++;
    if (op->status == CCI_SUCCESS)
        op->status = st == AQ_EACCESS ? CCI_ERR_RMA_HANDLE : aqc_status(st);
    bool goes_on = op->speaks && op->status == CCI_SUCCESS;
    aqc_op_set_stage(conn, op, goes_on ? AQC_TO_SEND : AQC_DONE);
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
    for (; conn->unstarted != &conn->ops; conn->unstarted = conn->unstarted->next) {
        struct aqc_op *op = AQI_OF(conn->unstarted, struct aqc_op, event.link);
        if (op->stage != AQC_TO_MOVE) continue;
        if ((op->flags & CCI_FLAG_FENCE) != 0 && !aqi_list_is_empty(&conn->under_way)) return;
        aq_status st = rma_start(conn, op);
        if (st == AQ_AGAIN) {
            conn->again = true;
            return;
        }
        op->stage = AQC_MOVING;
        aqi_list_append(&conn->under_way, &op->rma);
        if (st == AQ_OK) st = aq_event_test(&op->transfer);
        if (st != AQ_AGAIN) rma_done(conn, op, st);
    }
}

/* --- the call -------------------------------------------------------------------------------- */

/* Log why a range is refused: the program only gets CCI_EINVAL. */
static AQI_COLD int rma_refuse_range(const char *which, uint64_t size, uint64_t offset,
                                     uint64_t len)
{
    aqi_log(AQI_LOG_WARN, "cci",
            "cci_rma: %llu bytes at offset %llu are not inside the %llu bytes of the %s handle",
            (unsigned long long)len, (unsigned long long)offset, (unsigned long long)size, which);
    return CCI_EINVAL;
}

static AQI_COLD int rma_refuse_handle(const char *why)
{
    aqi_log(AQI_LOG_WARN, "cci", "cci_rma: the %s", why);
    return CCI_EINVAL;
}

static int rma_check(const struct aqc_mr *mr, uint64_t local, const aq_region_handle *there,
                     uint64_t remote, uint64_t len)
{
    uint64_t size = aq_region_handle_size(there);
    if (mr == NULL)
        return rma_refuse_handle("local handle is not one of this endpoint: it was deregistered, "
                                 "or registered with another endpoint");
    if (!aqi_within(local, len, 0, mr->len)) return rma_refuse_range("local", mr->len, local, len);
    if (size == 0) return rma_refuse_handle("remote handle is not one of cci_rma_register");
    if (!aqi_within(remote, len, 0, size)) return rma_refuse_range("remote", size, remote, len);
    return CCI_SUCCESS;
}

int cci_rma(cci_connection_t *connection, const void *msg_ptr, uint32_t msg_len,
            cci_rma_handle_t *local_handle, uint64_t local_offset, cci_rma_handle_t *remote_handle,
            uint64_t remote_offset, uint64_t data_len, const void *context, int flags)
{
    int way = flags & (CCI_FLAG_READ | CCI_FLAG_WRITE);
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)msg_ptr, .iov_len = msg_len};
    struct aqc_op *op = NULL;
    aq_region_handle there;
    if (connection == NULL || local_handle == NULL || remote_handle == NULL || data_len == 0 ||
        (way != CCI_FLAG_READ && way != CCI_FLAG_WRITE) || (msg_ptr == NULL && msg_len != 0))
        return CCI_EINVAL;
    struct aqc_conn *conn = AQI_OF(connection, struct aqc_conn, pub);
    if (!conn->reliable) return CCI_EINVAL;
    if (msg_len > connection->max_send_size) return CCI_EMSGSIZE;
    if ((flags & CCI_FLAG_BLOCKING) != 0) flags &= ~CCI_FLAG_SILENT;
    memcpy(&there, remote_handle, sizeof(there));
    aqc_enter();
    const struct aqc_mr *mr = rma_find(conn->ep, local_handle);
    int status = rma_check(mr, local_offset, &there, remote_offset, data_len);
    if (status == CCI_SUCCESS) status = (int)conn->broken;
    if (status == CCI_SUCCESS && conn->queued >= AQC_QUEUED) status = CCI_ENOBUFS;
    if (status == CCI_SUCCESS) {
        op = aqc_op_new(conn, way == CCI_FLAG_WRITE ? AQC_WRITE : AQC_READ, context, flags);
        if (op == NULL) status = CCI_ENOMEM;
    }
    if (op != NULL) {
        op->speaks = msg_len != 0;
        op->len = msg_len;
        op->local = mr->addr + local_offset;
        op->there = there;
        op->remote = remote_offset;
        op->size = data_len;
        status = aqc_op_begin(op, &iov, 1);
    }
    aqc_unlock();
    return status;
}
