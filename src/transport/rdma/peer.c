/* rdma: opening, peers, their failure, and the end of a round of progress, which reports it. */
#include "transport/rdma/rdma.h"

#include "base/fail.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

aq_status aqi_rdma_open(struct aqi_rdma *rdma, const struct aqi_rdma_driver *driver,
                        const struct aqi_tp_params *params)
{
    rdma->params = *params;
    rdma->tp.hooks = params->hooks;
    rdma->locks = params->threads;
    rdma->lending.on = params->on_demand && params->size > 1;
    aqi_rdma_begin(rdma, driver);
    rdma->peers = calloc(params->size, sizeof(struct aqi_rdma_peer *));
    if (rdma->peers != NULL) return AQ_OK;
    return aqi_fail(AQ_ENOMEM, driver->name, "no memory for %u peers", params->size);
}

void aqi_rdma_end_peers(struct aqi_rdma *rdma)
{
    rdma->draining = true;
    for (uint32_t id = 0; rdma->peers != NULL && id < rdma->params.size; id++) {
        if (rdma->peers[id] == NULL) continue;
        rdma->driver->down(rdma, rdma->peers[id]);
        aqi_rdma_fail_transfers(rdma, rdma->peers[id], true);
    }
    if (rdma->lending.on) aqi_lending_progress(rdma); /* notifies the cache */
}

void aqi_rdma_close(struct aqi_rdma *rdma)
{
    aqi_pool_destroy(&rdma->lending.loans); /* no peer may hold any */
    aqi_rdma_close_copies(rdma);
    aqi_pool_destroy(&rdma->ops);
    for (uint32_t id = 0; rdma->peers != NULL && id < rdma->params.size; id++)
        free(rdma->peers[id]);
    free(rdma->peers);
}

aq_status aqi_rdma_connect(struct aqi_tp *tp, uint32_t id, uint32_t host, struct aqi_peer **out)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    const struct aqi_rdma_driver *driver = rdma->driver;
    if (id == rdma->params.self) return AQ_ENOTSUP;
    struct aqi_rdma_peer *peer = calloc(1, driver->peer_size);
    if (peer == NULL) return aqi_fail(AQ_ENOMEM, driver->name, "no memory for rank %u", id);
    peer->peer.id = id;
    aqi_rdma_lock(rdma);
    aq_status st = driver->meet(rdma, peer, host);
    if (st == AQ_AGAIN) st = AQ_OK; /* looked up again when needed */
    bool new = st == AQ_OK && rdma->peers[id] == NULL;
    if (new) rdma->peers[id] = peer;
    if (st == AQ_OK) *out = &rdma->peers[id]->peer;
    aqi_rdma_unlock(rdma);
    if (!new) free(peer);
    return st;
}

aq_status aqi_rdma_quiet(struct aqi_tp *tp, struct aqi_peer *to)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    bool quiet = true;
    aqi_rdma_lock(rdma);
    for (uint32_t id = 0; id < rdma->params.size; id++) {
        struct aqi_rdma_peer *peer = rdma->peers[id];
        if (peer == NULL || (to != NULL && &peer->peer != to)) continue;
        quiet = rdma->driver->is_quiet(rdma, peer) && quiet;
    }
    aqi_rdma_unlock(rdma);
    return quiet ? AQ_OK : AQ_AGAIN;
}

aq_status aqi_rdma_drain(struct aqi_tp *tp, uint64_t deadline)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    rdma->draining = true;
    return rdma->now >= deadline ? AQ_OK : aqi_rdma_quiet(tp, NULL);
}

void aqi_rdma_push_all(struct aqi_rdma *rdma)
{
    for (uint32_t id = 0; id < rdma->params.size; id++)
        if (rdma->peers[id] != NULL) rdma->driver->push(rdma, rdma->peers[id]);
}

void aqi_rdma_fail(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, const char *fmt, ...)
{
    char where[AQI_RDMA_WHERE] = "";
    va_list args;
    if (peer->down) return;
    va_start(args, fmt);
    vsnprintf(peer->why, sizeof(peer->why), fmt, args);
    va_end(args);
    if (rdma->driver->where != NULL) rdma->driver->where(rdma, peer, where);
    aqi_log(AQI_LOG_INFO, rdma->driver->name, "rank %u%s is lost: %s", peer->peer.id, where,
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
    peer->lost = true; /* already known to the caller */
    aqi_rdma_fail(rdma, peer, "the job reported its death");
    if (rdma->lending.on) aqi_lending_progress(rdma);
    aqi_rdma_unlock(rdma);
}

int aqi_rdma_wait_fd(struct aqi_tp *tp)
{
    return ((struct aqi_rdma *)tp)->fd;
}

unsigned aqi_rdma_report(struct aqi_rdma *rdma)
{
    for (unsigned n = aqi_lending_by_messages(rdma);; n++) {
        aqi_rdma_lock(rdma);
        struct aqi_rdma_peer *peer = rdma->lost;
        if (peer != NULL) rdma->lost = peer->next_lost;
        aqi_rdma_unlock(rdma);
        if (peer == NULL) return n;
        rdma->tp.hooks.peer_lost(rdma->tp.hooks.arg, peer->peer.id, peer->why);
    }
}
