/* shm: sending. A fast path reads: check, reserve, fill, publish, and check whether to wake. */
#include "transport/shm/shm_impl.h"

#include "base/copy.h"
#include "base/log.h"

#include <stdlib.h>

/*
 * A ring counts as full until the first check for room allocates `line_after`, since most peers in
 * a large job are never sent a message.
 */
void shm_tx_init(struct shm_tp *shm, struct shm_tx *tx, unsigned ring, uint32_t to)
{
    unsigned char *channel = shm_channel_of(shm, to, shm->params.local_rank);
    *tx = (struct shm_tx){
        .slots = shm_slots_of(shm, channel, ring),
        .payload = shm_payload_of(shm, channel, ring),
        .done = &((struct shm_channel_head *)(void *)channel)->ring[ring].done,
        .done_seen = -shm->layout.slots,
    };
}

/* Read how many slots the receiver has freed; a number ahead of ours is ignored. */
static AQI_COLD void shm_send_tx_refresh(struct shm_tp *shm, struct shm_tx *tx)
{
    static atomic_bool said;
    if (tx->line_after == NULL) {
        tx->line_after = calloc(shm->layout.slots, sizeof(*tx->line_after));
        if (tx->line_after != NULL)
            tx->done_seen = 0;
        else
            aqi_log_once(&said, AQI_LOG_ERROR, "shm",
                         "no memory to send: waiting until there is some");
        return;
    }
    uint32_t done = atomic_load_explicit(tx->done, memory_order_acquire);
    if (done - tx->done_seen > tx->tail - tx->done_seen) return;
    if (done == tx->done_seen) return;
    tx->done_seen = done;
    tx->line_done = tx->line_after[(done - 1) & (shm->layout.slots - 1)];
}

static inline bool shm_send_tx_has_slot(struct shm_tp *shm, struct shm_tx *tx)
{
    if (AQI_LIKELY(tx->tail - tx->done_seen < shm->layout.slots)) return true;
    shm_send_tx_refresh(shm, tx);
    return tx->tail - tx->done_seen < shm->layout.slots;
}

/*
 * Find `lines` contiguous lines in the payload ring, skipping its end if they do not fit there.
 * `*line` becomes the first, counted continuously.
 */
static bool shm_send_tx_has_lines(struct shm_tp *shm, struct shm_tx *tx, uint32_t lines,
                                  uint32_t *line)
{
    uint32_t ring = shm->layout.lines;
    uint32_t at = tx->line & (ring - 1);
    uint32_t first = at + lines <= ring ? tx->line : tx->line + (ring - at);
    for (int attempt = 0; attempt < 2; attempt++) {
        if (first + lines - tx->line_done <= ring) {
            *line = first;
            return true;
        }
        shm_send_tx_refresh(shm, tx);
    }
    return false;
}

/*
 * How many slots ahead to prefetch a slot from the core of the receiver, which read it last, so
 * that it has arrived when it is written. With cores 600 ns apart, 250 ns ahead is enough; a slot
 * fetched much earlier is lost again to the prefetcher of a receiver that waits for the next
 * message.
 */
enum { SLOTS_AHEAD = 8, SLOTS_AHEAD_LARGE = 3, LARGE_LONG = 2048 };

/* Prefetch a line of the slot `ahead` of the next one, unless it may hold an unread message. */
static inline void shm_send_prefetch(const struct shm_tp *shm, const struct shm_tx *tx,
                                     uint32_t ahead, size_t offset)
{
    uint32_t at = tx->tail + ahead;
    if (at - tx->done_seen < shm->layout.slots)
        aqi_prefetch_write(tx->slots[at & (shm->layout.slots - 1)].bytes + offset);
}

/* Pairs with the acquire load of the stamp in shm_receive.c. */
static inline void shm_send_publish(struct shm_tp *shm, struct shm_tx *tx, struct shm_slot *slot,
                                    uint32_t ahead)
{
    uint32_t tail = tx->tail;
    tx->line_after[tail & (shm->layout.slots - 1)] = tx->line;
    atomic_store_explicit(shm_stamp(slot), tail + 1, memory_order_release);
    shm_send_prefetch(shm, tx, ahead, 0);
    tx->tail = tail + 1;
}

/*
 * Prefetch the lines of the next payload, if this one is large and they are known to be free.
 * Otherwise each store of the copy would fetch its line from the receiver's core.
 */
enum { LEAST_LINES_AHEAD = 24, MOST_LINES_AHEAD = 256 };
static void shm_send_prefetch_lines(struct shm_tp *shm, const struct shm_tx *tx, uint32_t lines)
{
    uint32_t ring = shm->layout.lines, at = tx->line & (ring - 1);
    if (lines < LEAST_LINES_AHEAD || lines > MOST_LINES_AHEAD || at + lines > ring ||
        tx->line + lines - tx->line_done > ring)
        return;
    for (const unsigned char *line = tx->payload + (size_t)at * AQI_CACHE_LINE,
                             *end = line + (size_t)lines * AQI_CACHE_LINE;
         line < end; line += AQI_CACHE_LINE)
        aqi_prefetch_write(line);
}

/*
 * Wake the peer if it sleeps, and call it if it does not poll our channel. The peer sets the word
 * and then issues a barrier on all processors (membarrier), so either we see the word or it sees
 * our message; if it cannot, or we could not register for it, we fence.
 */
static inline void shm_send_notify(struct shm_tp *shm, struct shm_peer *to)
{
    atomic_signal_fence(memory_order_seq_cst); /* nor may the compiler reorder */
    if (AQI_UNLIKELY(to->fence)) atomic_thread_fence(memory_order_seq_cst);
    shm_call_if_unpolled(to);
    if (AQI_UNLIKELY(atomic_load_explicit(&to->inbox->asleep, memory_order_relaxed)))
        shm_wake(shm, to);
}

aq_status shm_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                      struct aqi_comp *comp)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *to = (struct shm_peer *)peer;
    static_assert(SHM_REQUESTS == 0 && SHM_REPLIES == AQI_AM_IS_REPLY, "the bit is the ring");
    size_t ring = am->flags & AQI_AM_IS_REPLY;
    struct shm_tx *tx = &to->tx[ring];
    aq_status st = AQ_AGAIN;

    if (AQI_UNLIKELY(to->lost)) return AQ_EPEER;
    if (!shm_lock_soon(shm, &to->lock[ring])) return AQ_AGAIN;
    if (!shm_send_tx_has_slot(shm, tx)) goto out;
    struct shm_slot *slot = &tx->slots[tx->tail & (shm->layout.slots - 1)];
    uint32_t line = SHM_INLINE;
    uint32_t ahead = am->nbytes < LARGE_LONG ? SLOTS_AHEAD : SLOTS_AHEAD_LARGE;
    if (aqi_am_has_payload(am->kind) && am->nbytes != 0) {
        size_t offset = aqi_am_payload_offset(am->nargs);
        unsigned char *at = slot->bytes + offset;
        if (am->nbytes > SHM_SLOT - offset) {
            uint32_t first;
            if (!shm_send_tx_has_lines(shm, tx, shm_lines_of(am->nbytes), &first)) goto out;
            tx->line = first + shm_lines_of(am->nbytes);
            line = first & (shm->layout.lines - 1);
            at = tx->payload + (size_t)line * AQI_CACHE_LINE;
            ahead = SLOTS_AHEAD_LARGE;
        } else if (offset + am->nbytes > AQI_CACHE_LINE) {
            shm_send_prefetch(shm, tx, ahead, AQI_CACHE_LINE);
        }
        aqi_copy_mostly_few(at, am->payload, am->nbytes);
    }
    aqi_am_encode_here(slot->bytes, am, line);
    shm_send_publish(shm, tx, slot, ahead);
    if (line != SHM_INLINE) shm_send_prefetch_lines(shm, tx, shm_lines_of(am->nbytes));
    st = AQ_OK;
out:
    aqi_spin_unlock_if(shm->params.threads, &to->lock[ring]);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    shm_send_notify(shm, to);
    aqi_comp_local(comp);
    return AQ_OK;
}

/* The lock of the ring is held from here to the commit: the slot is the ring's next. */
aq_status shm_am_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply, unsigned nargs,
                         size_t nbytes, struct aqi_slot *out)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *to = (struct shm_peer *)peer;
    unsigned ring = reply ? SHM_REPLIES : SHM_REQUESTS;
    struct shm_tx *tx = &to->tx[ring];
    if (to->lost) return AQ_EPEER;
    if (!shm_lock_soon(shm, &to->lock[ring])) return AQ_AGAIN;
    if (!shm_send_tx_has_slot(shm, tx)) goto again;
    struct shm_slot *slot = &tx->slots[tx->tail & (shm->layout.slots - 1)];
    size_t offset = aqi_am_payload_offset(nargs);
    out->payload = slot->bytes + offset;
    out->impl[0] = tx;
    out->impl[1] = (void *)(uintptr_t)SHM_INLINE;
    if (nbytes > SHM_SLOT - offset) {
        uint32_t first;
        if (!shm_send_tx_has_lines(shm, tx, shm_lines_of(nbytes), &first)) goto again;
        out->payload = tx->payload + (size_t)(first & (shm->layout.lines - 1)) * AQI_CACHE_LINE;
        out->impl[1] = (void *)(uintptr_t)first;
    }
    return AQ_OK;
again:
    aqi_spin_unlock_if(shm->params.threads, &to->lock[ring]);
    return AQ_AGAIN;
}

aq_status shm_am_commit(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *in,
                        const struct aqi_am *am)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *to = (struct shm_peer *)peer;
    struct shm_tx *tx = in->impl[0];
    if (am != NULL) {
        struct shm_slot *slot = &tx->slots[tx->tail & (shm->layout.slots - 1)];
        uint32_t line = SHM_INLINE, ahead = SLOTS_AHEAD;
        if (in->payload < (void *)slot || in->payload >= (void *)(slot + 1)) {
            uint32_t first = (uint32_t)(uintptr_t)in->impl[1];
            tx->line = first + shm_lines_of(am->nbytes);
            line = first & (shm->layout.lines - 1);
            ahead = SLOTS_AHEAD_LARGE;
        } else if (aqi_am_payload_offset(am->nargs) + am->nbytes > AQI_CACHE_LINE) {
            /* The message there probably needs its second line, as this one does. */
            shm_send_prefetch(shm, tx, ahead, AQI_CACHE_LINE);
        }
        aqi_am_encode_here(slot->bytes, am, line);
        shm_send_publish(shm, tx, slot, ahead);
        if (line != SHM_INLINE) shm_send_prefetch_lines(shm, tx, shm_lines_of(am->nbytes));
    }
    aqi_spin_unlock_if(shm->params.threads,
                       &to->lock[tx == &to->tx[SHM_REPLIES] ? SHM_REPLIES : SHM_REQUESTS]);
    if (am != NULL) shm_send_notify(shm, to);
    return AQ_OK;
}
