/* rdma: sending messages, and received ones whose handlers have to wait. */
#include "transport/rdma/rdma.h"

#include "base/touch.h"

/* Write the message into the buffer. */
static AQI_INLINE void rdma_encode(const struct aqi_rdma *rdma, struct aqi_rdma_buf *buf,
                                   const struct aqi_am *am)
{
    size_t len = aqi_am_payload_offset(am->nargs), payload = aqi_am_payload(am);
    ((struct aqi_am_wire *)(void *)buf->bytes)->stamp = rdma->stamp;
    aqi_am_encode_here(buf->bytes, am, rdma->params.self);
    if (payload != 0) memcpy(buf->bytes + len, am->payload, payload);
    buf->len = (uint32_t)(len + payload);
}

aq_status aqi_rdma_am_send(struct aqi_tp *tp, struct aqi_peer *to, const struct aqi_am *am,
                           struct aqi_comp *comp)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    struct aqi_rdma_peer *peer = (struct aqi_rdma_peer *)to;
    const struct aqi_rdma_driver *driver = rdma->driver;
    struct aqi_rdma_buf *buf;
    aqi_rdma_lock(rdma);
    aq_status st = aqi_rdma_fenced(rdma) ? AQ_AGAIN : driver->ready(rdma, peer);
    if (st == AQ_OK) st = driver->buffer(rdma, peer, aqi_rdma_kind(am), &buf);
    if (st == AQ_OK) {
        rdma_encode(rdma, buf, am);
        st = driver->send(rdma, peer, buf);
    }
    aqi_rdma_unlock(rdma);
    if (st == AQ_OK) aqi_comp_local(comp);
    return st;
}

aq_status aqi_rdma_am_long(struct aqi_tp *tp, struct aqi_peer *to, const struct aqi_am *am,
                           const struct aqi_rmem *there, const struct aqi_mem *mem,
                           struct aqi_comp *comp)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    const struct aqi_rdma_rmem *rmem = (const struct aqi_rdma_rmem *)there;
    struct aqi_transfer want = {.peer = (struct aqi_rdma_peer *)to,
                                .is_long = true,
                                .comp = comp,
                                .remote = am->addr,
                                .local = (unsigned char *)(uintptr_t)am->payload,
                                .len = am->nbytes};
    if (rmem->lent || am->nbytes == 0 || am->nbytes > rdma->max_long) return AQ_ENOTSUP;
    aq_status st = aqi_rdma_check(tp, to, there, am->addr, am->nbytes);
    if (st != AQ_OK) return st;
    if (mem == NULL || comp == NULL || !rdma->driver->pins) aqi_touch_read(am->payload, am->nbytes);
    aqi_rdma_lock(rdma);
    st = aqi_rdma_fenced(rdma) ? AQ_AGAIN : rdma->driver->ready(rdma, want.peer);
    if (st == AQ_OK) st = rdma->driver->am_long(rdma, &want, am, rmem, mem);
    aqi_rdma_unlock(rdma);
    return st;
}

void aqi_rdma_encode_long(const struct aqi_rdma *rdma, struct aqi_rdma_buf *buf,
                          const struct aqi_am *am)
{
    struct aqi_am header = *am;
    aqi_am_set_kind(&header, AQI_AM_LONG_HEADER);
    rdma_encode(rdma, buf, &header);
}

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
