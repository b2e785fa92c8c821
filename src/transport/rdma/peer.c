/* rdma: peers that fail, and the end of a round of progress, which reports them. */
#include "transport/rdma/rdma.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void aqi_rdma_fail(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, const char *fmt, ...)
{
    char where[AQI_RDMA_WHERE];
    va_list args;
    if (peer->down) return;
    va_start(args, fmt);
    vsnprintf(peer->why, sizeof(peer->why), fmt, args);
    va_end(args);
    rdma->driver->where(rdma, peer, where);
    aqi_log(AQI_LOG_INFO, rdma->driver->name, "peer %u%s is lost: %s", peer->peer.id, where,
            peer->why);
    peer->down = true;
    rdma->driver->down(rdma, peer);
    if (peer->lost || rdma->draining) return;
    peer->lost = rdma->whole = true;
    peer->next_lost = rdma->lost;
    rdma->lost = peer;
}

void aqi_rdma_disconnect(struct aqi_tp *tp, struct aqi_peer *to)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    struct aqi_rdma_peer *peer = (struct aqi_rdma_peer *)to;
    aqi_rdma_lock(rdma);
    peer->lost = true; /* the caller knows it */
    aqi_rdma_fail(rdma, peer, "the job says that it is dead");
    if (rdma->lending.on) aqi_lending_progress(rdma);
    aqi_rdma_unlock(rdma);
}

static unsigned rdma_tell_lost(struct aqi_rdma *rdma)
{
    for (unsigned n = 0;; n++) {
        aqi_rdma_lock(rdma);
        struct aqi_rdma_peer *peer = rdma->lost;
        if (peer != NULL) rdma->lost = peer->next_lost;
        aqi_rdma_unlock(rdma);
        if (peer == NULL) return n;
        rdma->tp.hooks.peer_lost(rdma->tp.hooks.arg, peer->peer.id, peer->why);
    }
}

unsigned aqi_rdma_end_round(struct aqi_rdma *rdma, enum aqi_progress_mode mode)
{
    bool lost = rdma->lost != NULL && mode == AQI_PROGRESS_ALL;
    bool refused = rdma->lending.refused != NULL && mode == AQI_PROGRESS_ALL;
    unsigned n = 0;
    aqi_rdma_unlock(rdma);
    if (AQI_UNLIKELY(refused)) n += aqi_lending_by_messages(rdma);
    if (AQI_UNLIKELY(lost)) n += rdma_tell_lost(rdma);
    return n;
}
