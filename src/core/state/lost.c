/* Peers that die while the job continues: marking their routes, and notifying the program. */
#include "core/state/state.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* A death that has not been reported to the program yet. */
struct lost_peer {
    struct lost_peer *next;
    uint32_t rank;
    char why[];
};

static struct {
    struct aqi_spin lock;
    struct lost_peer *first; /* in the order of their deaths */
    struct lost_peer **last;
    aq_peer_lost_fn *fn;
    void *context;
    bool reporting; /* a thread is running `fn` */
    void (*listeners[CORE_LOSS_LISTENERS])(uint32_t job_rank);
    unsigned listener_count;
} lost;

aq_status core_lost_open(void)
{
    memset(&lost, 0, sizeof(lost));
    lost.last = &lost.first;
    return AQ_OK;
}

void core_on_loss(void (*fn)(uint32_t job_rank))
{
    lost.listeners[lost.listener_count++] = fn;
}

void core_lost_close(void)
{
    while (lost.first != NULL) {
        struct lost_peer *gone = lost.first;
        lost.first = gone->next;
        free(gone);
    }
}

/* --- notifying the program ------------------------------------------------------------------- */

static void lost_note(uint32_t rank, const char *why)
{
    size_t len = strlen(why) + 1;
    struct lost_peer *peer = malloc(sizeof(*peer) + len);
    if (peer == NULL) {
        core.boot.fatal(core.boot.arg, "no memory to report a death to the program");
        return;
    }
    peer->next = NULL;
    peer->rank = rank;
    memcpy(peer->why, why, len);
    aqi_spin_lock(&lost.lock);
    *lost.last = peer;
    lost.last = &peer->next;
    if (lost.fn != NULL) atomic_store(&core.lost_news, true);
    aqi_spin_unlock(&lost.lock);
}

/* The next death to report. NULL: there is none, or another thread is reporting. */
static struct lost_peer *lost_next(aq_peer_lost_fn **fn, void **context)
{
    aqi_spin_lock(&lost.lock);
    struct lost_peer *peer = lost.fn != NULL && !lost.reporting ? lost.first : NULL;
    if (peer != NULL) {
        lost.first = peer->next;
        if (lost.first == NULL) lost.last = &lost.first;
        lost.reporting = true;
        *fn = lost.fn;
        *context = lost.context;
    }
    if (!lost.reporting) atomic_store(&core.lost_news, false);
    aqi_spin_unlock(&lost.lock);
    return peer;
}

AQI_COLD unsigned core_lost_report(void)
{
    struct core_thread *me = core_self();
    struct core_message as_handler = {.replied = true}; /* makes calls fail as in a handler */
    struct lost_peer *peer;
    aq_peer_lost_fn *fn;
    void *context;
    unsigned reported = 0;
    if (me == NULL || me->handling != NULL) return 0;
    while ((peer = lost_next(&fn, &context)) != NULL) {
        me->handling = &as_handler;
        fn(context, peer->rank, peer->why);
        me->handling = NULL;
        free(peer);
        aqi_spin_lock(&lost.lock);
        lost.reporting = false;
        aqi_spin_unlock(&lost.lock);
        reported++;
    }
    return reported;
}

void aqi_core_news(void)
{
    atomic_store(&core.lost_news, true);
}

aq_status aq_on_peer_lost(aq_peer_lost_fn *fn, void *context)
{
    aq_status st = aqi_core_callable("aq_on_peer_lost");
    if (st != AQ_OK) return st;
    aqi_spin_lock(&lost.lock);
    lost.fn = fn;
    lost.context = context;
    if (fn != NULL && lost.first != NULL) atomic_store(&core.lost_news, true);
    aqi_spin_unlock(&lost.lock);
    return AQ_OK;
}

int aq_peer_lost(const aq_team *team, aq_rank rank)
{
    aq_rank job_rank = atomic_load(&core.open) ? aq_team_to_job(team, rank) : AQ_RANK_NONE;
    return job_rank != AQ_RANK_NONE && atomic_load(&core.routes[job_rank].lost);
}

/* --- the loss -------------------------------------------------------------------------------- */

void aqi_core_peer_down(uint32_t rank, const char *why)
{
    if (core.routes == NULL || rank >= core.params.size) return;
    if (atomic_exchange(&core.routes[rank].lost, true)) return;
    atomic_store(&core.any_lost, true);
    aqi_log(AQI_LOG_INFO, "core", "rank %u is lost: %s", rank, why);
    aqi_trace_point(AQI_TRACE_JOB, "peer lost", rank, 0);
    aqi_spin_lock(&core.lock); /* held by core_ep_reach while it copies routes */
    for (unsigned e = 1; e < CORE_EPS; e++)
        if (atomic_load(&core.reached_eps) & 1u << e)
            atomic_store(&core_ep_route(e, rank)->lost, true);
    aqi_spin_unlock(&core.lock);
    for (unsigned t = 0; t < core.tp_count; t++)
        aqi_tp_peer_down(core.tps[t], rank);
    for (unsigned i = 0; i < lost.listener_count; i++)
        lost.listeners[i](rank);
    lost_note(rank, why);
}

bool core_set_has(const uint8_t *set, uint32_t rank)
{
    return (set[rank / 8] >> rank % 8 & 1) != 0;
}
