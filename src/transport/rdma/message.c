/* rdma: received messages whose handlers have to wait. */
#include "transport/rdma/rdma.h"

void aqi_rdma_hold(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf)
{
    buf->next = NULL;
    *rdma->last_held = buf;
    rdma->last_held = &buf->next;
    rdma->whole = true;
}

unsigned aqi_rdma_deliver_held(struct aqi_rdma *rdma)
{
    unsigned n = 0;
    for (; rdma->held != NULL && n < AQI_RDMA_BATCH; n++) {
        struct aqi_rdma_buf *buf = rdma->held;
        rdma->held = buf->next;
        if (rdma->held == NULL) rdma->last_held = &rdma->held;
        rdma->driver->handle(rdma, buf);
    }
    return n;
}
