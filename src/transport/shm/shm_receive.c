/* shm: receiving. Polls the active channels, replies first. */
#include "base/fail.h"
#include "base/log.h"
#include "base/stats.h"
#include "transport/shm/shm_impl.h"

/*
 * The sender is notified when this much has been freed, or a quarter of a ring. It reads the
 * notification only when it finds no room, so frequent ones cost little; with rare ones, both sides
 * would work in turns, in batches that exceed their caches.
 */
enum { SLOTS_HELD = 16, LINES_HELD = 64 };

/* Free a slot. Pairs with shm_send_tx_refresh. */
static inline void shm_receive_rx_release(struct shm_tp *shm, struct shm_rx *rx, uint32_t lines)
{
    uint32_t head = atomic_load_explicit(&rx->head, memory_order_relaxed) + 1;
    atomic_store_explicit(&rx->head, head, memory_order_relaxed);
    rx->lines_held += lines;
    if (head - rx->published >= aqi_min(shm->layout.slots / 4, SLOTS_HELD) ||
        rx->lines_held >= aqi_min(shm->layout.lines / 4, LINES_HELD)) {
        atomic_store_explicit(rx->done, head, memory_order_release);
        rx->published = head;
        rx->lines_held = 0;
    }
}

/* Find the payload of a slot; returns false if the slot is malformed. */
static inline bool shm_receive_find_payload(struct shm_tp *shm, const struct shm_rx *rx,
                                            const struct shm_slot *slot, uint32_t line,
                                            struct aqi_am *am, uint32_t *lines)
{
    /* Prefetch what the handler reads first. */
    if (line == SHM_INLINE) {
        size_t offset = aqi_am_payload_offset(am->nargs);
        am->payload = slot->bytes + offset;
        if (offset + am->nbytes > AQI_CACHE_LINE) __builtin_prefetch(slot->bytes + AQI_CACHE_LINE);
        return !aqi_am_has_payload(am->kind) || am->nbytes <= SHM_SLOT - offset;
    }
    *lines = shm_lines_of(am->nbytes);
    am->payload = rx->payload + (size_t)line * AQI_CACHE_LINE;
    __builtin_prefetch(am->payload);
    /* Only messages of puts and gets may exceed a Medium: its handlers rely on that limit. */
    if (am->nbytes > shm->tp.limits.max_medium && am->kind != AQI_AM_INTERNAL) return false;
    return line < shm->layout.lines && *lines <= shm->layout.lines - line;
}

/*
 * In a flood, prefetch the slots of the next messages. Not during its first messages: the sender
 * would lose the line that it is about to write.
 */
enum { FLOOD = 4, SLOTS_AHEAD = 4 };
static inline void shm_receive_prefetch(const struct shm_tp *shm, const struct shm_rx *rx,
                                        unsigned taken)
{
    uint32_t head = atomic_load_explicit(&rx->head, memory_order_relaxed);
    if (taken >= FLOOD)
        __builtin_prefetch(&rx->slots[(head + SLOTS_AHEAD) & (shm->layout.slots - 1)]);
}

/* Take at most a full ring, so that one sender cannot keep a poll busy forever. */
static unsigned shm_receive_rx_drain(struct shm_tp *shm, struct shm_source *source, unsigned ring)
{
    struct shm_rx *rx = &source->rx[ring];
    struct shm_slot *slot = shm_peek(shm, rx);
    unsigned n = 0;
    if (AQI_LIKELY(slot == NULL)) return 0;
    if (shm->params.threads) {
        if (!aqi_spin_try(&source->lock[ring])) return 0;
        slot = shm_peek(shm, rx); /* another thread may have taken it */
    }
    for (; slot != NULL && n < shm->layout.slots; slot = shm_peek(shm, rx), n++) {
        struct aqi_am am;
        uint32_t line = 0, lines = 0;
        bool reply = ring == SHM_REPLIES;
        shm_receive_prefetch(shm, rx, n);
        if (AQI_LIKELY(aqi_am_decode_here(slot->bytes, SHM_SLOT, shm->tp.limits.max_piece, &am,
                                          &line) == AQ_OK &&
                       reply == ((am.flags & AQI_AM_IS_REPLY) != 0) &&
                       shm_receive_find_payload(shm, rx, slot, line, &am, &lines)))
            shm->tp.hooks.deliver(shm->tp.hooks.arg, source->id, &am);
        else
            aqi_count(AQI_CTR_AM_DROPPED, 1);
        shm_receive_rx_release(shm, rx, lines);
    }
    shm_watch_ring(shm, source, ring);
    aqi_spin_unlock_if(shm->params.threads, &source->lock[ring]);
    return n;
}

/* A send found that a peer's process has ended: report that once per peer, with no lock held. */
static AQI_COLD unsigned shm_receive_report_lost(struct shm_tp *shm)
{
    unsigned n = 0;
    atomic_store_explicit(&shm->some_lost, false, memory_order_relaxed);
    for (uint32_t i = 0; i < shm->layout.ranks; i++) {
        aqi_spin_lock(&shm->join_lock);
        struct shm_peer *peer = shm->peers[i];
        bool report = peer != NULL && peer->lost && !peer->reported;
        if (report) peer->reported = true;
        aqi_spin_unlock(&shm->join_lock);
        if (!report) continue;
        shm->tp.hooks.peer_lost(shm->tp.hooks.arg, peer->peer.id, "its process has ended");
        n++;
    }
    return n;
}

unsigned shm_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    unsigned n = 0;
    (void)now;
    uint32_t round = atomic_load_explicit(&shm->inbox->rounds, memory_order_relaxed) + 1;
    /* Read by shm_cma.c in other processes; two threads may harmlessly count the same round. */
    atomic_store_explicit(&shm->inbox->rounds, round, memory_order_relaxed);
    if (AQI_UNLIKELY((round & (shm->cool - 1)) == 0)) shm_forget_idle(shm);
    if (AQI_UNLIKELY(shm_has_calls(shm))) shm_answer_calls(shm);
    if (AQI_UNLIKELY(atomic_load_explicit(&shm->some_lost, memory_order_acquire)) &&
        mode == AQI_PROGRESS_ALL)
        n += shm_receive_report_lost(shm);
    uint32_t count = atomic_load_explicit(&shm->polled_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        struct shm_source *source = atomic_load_explicit(&shm->polled[i], memory_order_relaxed);
        n += shm_receive_rx_drain(shm, source, SHM_REPLIES);
        if (mode == AQI_PROGRESS_ALL) n += shm_receive_rx_drain(shm, source, SHM_REQUESTS);
    }
    return n;
}

unsigned shm_moved(struct aqi_tp *tp, uint32_t watch)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    uint32_t ring = watch - SHM_WATCH_RINGS;
    /* Since the word was read, the set of polled channels may have changed. */
    if (AQI_UNLIKELY(watch < SHM_WATCH_RINGS || shm->params.threads))
        return tp->ops.progress(tp, AQI_PROGRESS_ALL, 0);
    struct shm_source *source =
        atomic_load_explicit(&shm->polled[ring / SHM_RINGS], memory_order_relaxed);
    return shm_receive_rx_drain(shm, source, ring % SHM_RINGS);
}

bool shm_has_arrivals(struct shm_tp *shm)
{
    if (shm_has_calls(shm) || atomic_load(&shm->some_lost)) return true;
    uint32_t count = atomic_load_explicit(&shm->polled_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        for (unsigned ring = 0; ring < SHM_RINGS; ring++)
            if (shm_has_message(shm, &atomic_load(&shm->polled[i])->rx[ring])) return true;
    return false;
}
