/* rdma: puts and gets that wait until they are posted. */
#include "transport/rdma/rdma.h"

void aqi_rdma_queue(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    struct aqi_rdma_peer *peer = op->peer;
    rdma->waiting++;
    rdma->whole = true;
    op->next = NULL;
    *peer->last_waiting = op;
    peer->last_waiting = &op->next;
}

void aqi_rdma_unqueue(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    struct aqi_transfer **at = &op->peer->waiting;
    while (*at != NULL && *at != op)
        at = &(*at)->next;
    if (*at == NULL) return;
    *at = op->next;
    if (*at == NULL) op->peer->last_waiting = at;
    rdma->waiting--;
}
