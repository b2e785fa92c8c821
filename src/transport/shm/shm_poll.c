/*
 * shm: which channels are polled. Polling one costs two cache lines, which adds up if hundreds of
 * ranks have communicated once; so idle ones are left out. A process that sends on such a channel
 * calls the receiver, which then polls it again. Initially, none is polled.
 */
#include "base/fail.h"
#include "transport/shm/shm_impl.h"

#include <stdlib.h>

/* --- the sender ------------------------------------------------------------------------------ */

AQI_COLD void shm_call(struct shm_peer *peer)
{
    /* If a call is pending, the message will be found when it is answered. */
    if (atomic_load_explicit(peer->calling, memory_order_relaxed)) return;
    /* Both pair with the acquire loads in shm_answer_calls. */
    atomic_store_explicit(peer->calling, 1, memory_order_release);
    atomic_fetch_add_explicit(&peer->inbox->calls, 1, memory_order_release);
}

/* --- the receiver ---------------------------------------------------------------------------- */

static struct shm_source *shm_poll_source_new(struct shm_tp *shm, uint32_t sender)
{
    if (shm->peers[sender] == NULL) return NULL;
    struct shm_source *source =
        aligned_alloc(AQI_CACHE_LINE, aqi_round_up(sizeof(struct shm_source), AQI_CACHE_LINE));
    if (source == NULL) return NULL;
    unsigned char *channel = shm_channel_of(shm, shm->params.local_rank, sender);
    struct shm_channel_head *head = (struct shm_channel_head *)(void *)channel;
    *source = (struct shm_source){.id = shm->peers[sender]->peer.id, .local_rank = sender};
    for (unsigned ring = 0; ring < SHM_RINGS; ring++)
        source->rx[ring] = (struct shm_rx){.slots = shm_slots_of(shm, channel, ring),
                                           .payload = shm_payload_of(shm, channel, ring),
                                           .done = &head->ring[ring].done};
    return source;
}

/* Threads that still use the source's old position may overwrite its words with stale ones. */
static void shm_poll_place(struct shm_tp *shm, struct shm_source *source, uint32_t at)
{
    atomic_store_explicit(&source->at, at, memory_order_relaxed);
    for (unsigned ring = 0; ring < SHM_RINGS; ring++)
        shm_watch_ring(shm, source, ring);
    atomic_store_explicit(&shm->polled[at], source, memory_order_relaxed);
}

static void shm_poll_set_count(struct shm_tp *shm, uint32_t count)
{
    atomic_store_explicit(&shm->polled_count, count, memory_order_release);
    atomic_store_explicit(&shm->tp.watches, SHM_WATCH_RINGS + SHM_RINGS * count,
                          memory_order_release);
}

static void shm_poll_from_now_on(struct shm_tp *shm, struct shm_source *source)
{
    atomic_store_explicit(shm_polled_of(shm->inbox, source->local_rank), 1, memory_order_relaxed);
    if (source->polled) return;
    source->polled = true;
    uint32_t n = atomic_load_explicit(&shm->polled_count, memory_order_relaxed);
    shm_poll_place(shm, source, n);
    shm_poll_set_count(shm, n + 1);
}

AQI_COLD void shm_answer_calls(struct shm_tp *shm)
{
    bool all = true;
    aqi_spin_lock(&shm->join_lock);
    uint32_t calls = atomic_load_explicit(&shm->inbox->calls, memory_order_acquire);
    for (uint32_t sender = 0; sender < shm->layout.ranks; sender++) {
        _Atomic uint8_t *calling = shm_calling_of(shm, shm->inbox, sender);
        if (!atomic_load_explicit(calling, memory_order_acquire)) continue;
        if (shm->sources[sender] == NULL) shm->sources[sender] = shm_poll_source_new(shm, sender);
        if (shm->sources[sender] == NULL) {
            all = false; /* not connected yet, or out of memory: try again at the next poll */
            continue;
        }
        atomic_store_explicit(calling, 0, memory_order_relaxed);
        shm_poll_from_now_on(shm, shm->sources[sender]);
    }
    if (all) aqi_watch_set(&shm->watch[SHM_WATCH_CALLS], &shm->inbox->calls, calls);
    aqi_spin_unlock(&shm->join_lock);
}

/* Make the senders of idle channels call from now on. Returns their number. */
static uint32_t shm_poll_mark_idle(struct shm_tp *shm, uint32_t count)
{
    uint32_t idle = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct shm_source *source = atomic_load_explicit(&shm->polled[i], memory_order_relaxed);
        uint32_t heads =
            atomic_load_explicit(&source->rx[SHM_REQUESTS].head, memory_order_relaxed) +
            atomic_load_explicit(&source->rx[SHM_REPLIES].head, memory_order_relaxed);
        source->leaving = heads == source->heads && count - idle > shm_config.hot;
        source->heads = heads;
        if (!source->leaving) continue;
        idle++;
        atomic_store_explicit(shm_polled_of(shm->inbox, source->local_rank), 0,
                              memory_order_release);
    }
    return idle;
}

/*
 * A sender whose message we do not see after the barrier sees, after publishing it, that its
 * channel is not polled, and calls. Other threads may be walking the list: they may check a channel
 * twice, or skip one.
 */
AQI_COLD void shm_forget_idle(struct shm_tp *shm)
{
    if (!aqi_spin_try(&shm->join_lock)) return;
    uint32_t count = atomic_load_explicit(&shm->polled_count, memory_order_relaxed);
    if (count > shm_config.hot && shm_poll_mark_idle(shm, count) != 0) {
        shm_barrier(shm);
        for (uint32_t i = count; i-- > 0;) {
            struct shm_source *source = atomic_load_explicit(&shm->polled[i], memory_order_relaxed);
            if (!source->leaving) continue;
            source->leaving = false;
            if (shm_has_message(shm, &source->rx[SHM_REQUESTS]) ||
                shm_has_message(shm, &source->rx[SHM_REPLIES])) {
                shm_poll_from_now_on(shm, source);
                continue;
            }
            source->polled = false;
            shm_poll_place(shm, atomic_load_explicit(&shm->polled[--count], memory_order_relaxed),
                           i);
        }
        shm_poll_set_count(shm, count);
    }
    aqi_spin_unlock(&shm->join_lock);
}
