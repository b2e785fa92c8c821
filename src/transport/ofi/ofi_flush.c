/*
 * ofi: confirming that messages have arrived. A provider's completion of a message means that it
 * has left, not that it has arrived: data in a connection that breaks, or in an endpoint that is
 * closed, is lost. So messages to a peer are numbered, and each carries the number of the last of
 * the peer's messages received without a gap. Senders keep unconfirmed messages; credits limit
 * their number.
 *
 * To learn more, a process sends a query, FLUSH, which the peer answers at once with FLUSHED.
 * Queries are sent
 *   - before reporting that nothing is in flight,
 *   - after the provider has reported a broken connection, with growing pauses,
 *   - when messages have been unconfirmed for long, as a connection may break without a report.
 *
 * Messages that are missing according to the answer to the latest query are resent. They may only
 * be late; a receiver drops duplicates, and keeps early messages until their turn.
 *
 * Late transfers also cause queries: a peer that answers repeatedly makes calls, and if none of the
 * provider's operations for it ends meanwhile, none ever will, and the peer is lost.
 *
 * Queries and answers are not numbered: if they are lost, the next ones replace them.
 */
#include "transport/ofi/ofi_impl.h"

#include "base/log.h"
#include "base/stats.h"

#include <stdio.h>
#include <string.h>

enum { OFI_FLUSH_CALLS = 8 /* answers of a peer after which its operations could have ended */ };

/*
 * The last two are the longest pauses: for broken connections, and for all, as a query or its
 * answer may be lost. They are not shorter because queries occupy the memory of a peer that is
 * computing.
 */
static const uint64_t ofi_flush_late_ns = 20000000, ofi_flush_broken_ns = 1000000,
                      ofi_flush_pause_ns = 1000000000, ofi_flush_most_ns = 10000000000;

/* --- kept messages --------------------------------------------------------------------------- */

void ofi_flush_keep(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf)
{
    peer->given = buf->number;
    buf->kept = true;
    buf->next = NULL;
    *peer->last_kept = buf;
    peer->last_kept = &buf->next;
    if (AQI_UNLIKELY(peer->ask_at == 0)) ofi->look_at = 0;
}

static void ofi_flush_release(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    struct ofi_buf *buf = peer->kept;
    peer->kept = buf->next;
    if (peer->kept == NULL) peer->last_kept = &peer->kept;
    if (AQI_UNLIKELY(peer->again == buf)) peer->again = buf->next;
    peer->confirmed++;
    peer->longs -= buf->is_long;
    buf->kept = buf->is_long = buf->voided = false;
    if (!buf->busy) ofi_buf_put(ofi, buf);
}

void ofi_flush_again(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf)
{
    bool first = peer->again == NULL;
    if (first || (int32_t)(buf->number - peer->again->number) < 0) peer->again = buf;
    if (first || (int32_t)(buf->number - peer->until) > 0) peer->until = buf->number;
    ofi->flushes = true;
}

/* Impossible numbers are ignored. */
void ofi_flush_arrived(struct ofi_tp *ofi, struct ofi_peer *peer, uint32_t arrived)
{
    if (arrived - peer->confirmed > peer->given - peer->confirmed) return;
    if (arrived == peer->confirmed) return;
    peer->broken = 0;
    if (AQI_UNLIKELY(peer->pause > ofi_flush_late_ns)) ofi->look_at = 0;
    while (arrived != peer->confirmed)
        ofi_flush_release(ofi, peer);
}

void ofi_flush_forget(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    while (peer->kept != NULL)
        ofi_flush_release(ofi, peer);
    while (peer->early != NULL) {
        struct ofi_buf *buf = peer->early;
        peer->early = buf->next;
        ofi_buf_put(ofi, buf);
    }
    peer->ask = peer->answer = false;
}

/* --- early and duplicate messages ------------------------------------------------------------ */

/* Credits bound how far ahead a message may be. An OFI_VOID replaces the message of its number. */
bool ofi_flush_early(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf)
{
    struct ofi_buf **at = &peer->early;
    if (peer->rdma.down || buf->number - peer->received - 1 > 8 * ofi->limits.depth + 64)
        return false;
    while (*at != NULL && (int32_t)((*at)->number - buf->number) < 0)
        at = &(*at)->next;
    if (*at != NULL && (*at)->number == buf->number) {
        struct ofi_buf *other = *at;
        if (((const struct aqi_am_wire *)(const void *)buf->rdma.bytes)->kind != AQI_AM_NONE)
            return false;
        *at = other->next;
        ofi_buf_put(ofi, other);
    }
    buf->next = *at;
    *at = buf;
    return true;
}

/* While a handler ran, a duplicate of one of these may have arrived in order. */
struct ofi_buf *ofi_flush_next(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    while (peer->early != NULL) {
        struct ofi_buf *buf = peer->early;
        int32_t ahead = (int32_t)(buf->number - peer->received);
        if (ahead > 1 || (ahead == 1 && ofi_long_waits(buf))) return NULL;
        peer->early = buf->next;
        if (ahead == 1) return buf;
        ofi_buf_put(ofi, buf);
    }
    return NULL;
}

/* --- queries and answers --------------------------------------------------------------------- */

/* AQ_AGAIN: progress will retry. */
static aq_status ofi_flush_send(struct ofi_tp *ofi, struct ofi_peer *peer, uint8_t what,
                                uint32_t number)
{
    const struct aqi_am_wire head = ofi_message_own(ofi, what);
    aq_status st = ofi_peer_ready(&ofi->rdma, &peer->rdma);
    struct ofi_buf *buf = st == AQ_OK && ofi_message_room(ofi, true) ? ofi_buf_get(ofi) : NULL;
    if (st == AQ_OK && buf == NULL) st = AQ_AGAIN;
    if (st == AQ_OK) {
        memcpy(buf->rdma.bytes, &head, sizeof(head));
        buf->rdma.len = sizeof(head);
        buf->number = number;
        st = ofi_message_give(ofi, peer, buf, OFI_CONTROL);
        if (st != AQ_OK) ofi_buf_put(ofi, buf);
    }
    if (st == AQ_AGAIN) ofi->flushes = true;
    return st;
}

/*
 * Returns false if not all could be resent now. Messages that the provider still has are resent
 * when it has completed them.
 */
static bool ofi_flush_repeat(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    while (peer->again != NULL && (int32_t)(peer->until - peer->again->number) >= 0) {
        struct ofi_buf *buf = peer->again;
        if (buf->busy) return false;
        if (AQI_UNLIKELY(buf->voided)) ofi_long_void(ofi, buf);
        bool given =
            ofi_message_room(ofi, true) && ofi_message_give(ofi, peer, buf, OFI_SEND) == AQ_OK;
        if (peer->rdma.down) return false;
        if (!given) {
            ofi->flushes = true;
            return false;
        }
        aqi_count(AQI_CTR_PACKETS_AGAIN, 1);
        peer->again = buf->next;
    }
    peer->again = NULL;
    return true;
}

static void ofi_flush_push_peer(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    if (peer->answer && ofi_flush_send(ofi, peer, OFI_FLUSHED, peer->answered) == AQ_OK)
        peer->answer = false;
    if (!ofi_flush_repeat(ofi, peer) || !peer->ask) return;
    if (ofi_flush_send(ofi, peer, OFI_FLUSH, peer->question + 1) != AQ_OK) return;
    peer->question++;
    peer->until = peer->given;
    peer->ask = false;
    peer->asked = true;
}

void ofi_flush_push(struct ofi_tp *ofi)
{
    ofi->flushes = false;
    for (uint32_t id = 0; id < ofi->rdma.params.size; id++)
        if (ofi_peer_at(ofi, id) != NULL && !ofi->rdma.peers[id]->down)
            ofi_flush_push_peer(ofi, ofi_peer_at(ofi, id));
}

bool ofi_flush_confirmed(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    if (peer->kept == NULL) return true;
    if (!peer->ask && !peer->asked && peer->again == NULL) {
        peer->ask = true;
        ofi_flush_push_peer(ofi, peer);
    }
    return peer->kept == NULL;
}

static uint32_t ofi_flush_ended(const struct ofi_peer *peer)
{
    return peer->confirmed + peer->pieces;
}

/* The peer makes calls, so operations for it that the provider does not end now never will. */
static void ofi_flush_calls(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    bool owed = peer->kept != NULL || ofi_transfer_is_posted(peer);
    if (!owed || peer->calls == 0 || peer->owed_at != ofi_flush_ended(peer)) {
        peer->owed = ofi->rdma.now;
        peer->owed_at = ofi_flush_ended(peer);
        peer->calls = owed;
    } else if (++peer->calls > OFI_FLUSH_CALLS &&
               ofi->rdma.now - peer->owed > ofi_config.repair_ns) {
        aqi_rdma_fail(&ofi->rdma, &peer->rdma,
                      "%s has delivered nothing to it for %u s, during which it made calls "
                      "(AQ_OFI_REPAIR_TIMEOUT): %u messages are missing%s",
                      ofi_name(ofi), (unsigned)((ofi->rdma.now - peer->owed) / 1000000000),
                      peer->given - peer->confirmed,
                      ofi_transfer_is_posted(peer) ? ", and transfers" : "");
    }
}

void ofi_flush_received(struct ofi_tp *ofi, struct ofi_peer *peer, uint8_t what, uint32_t number)
{
    if (peer->rdma.down) {
        if (what == OFI_FLUSH) ofi_farewell_again(ofi, peer);
        return;
    }
    if (what == OFI_FAREWELL) {
        ofi_farewell_received(ofi, peer);
        return;
    }
    if (what == OFI_FLUSH) {
        peer->answer = true;
        peer->answered = number;
    } else if (what == OFI_FLUSHED && peer->asked && number == peer->question) {
        peer->asked = false;
        peer->broken = 0;
        peer->again = peer->kept;
    } else {
        return; /* stale */
    }
    ofi_flush_calls(ofi, peer);
    if (peer->rdma.down) return;
    ofi_flush_push_peer(ofi, peer);
}

/* --- watching -------------------------------------------------------------------------------- */

void ofi_flush_broken(struct ofi_tp *ofi, struct ofi_peer *peer, const char *why)
{
    if (peer->rdma.down) return;
    if (ofi->rdma.draining) {
        aqi_rdma_fail(&ofi->rdma, &peer->rdma, "its connection broke at the end of the job: %s",
                      why);
        return;
    }
    char where[AQI_RDMA_WHERE];
    ofi_peer_where(&ofi->rdma, &peer->rdma, where);
    if (peer->broken == 0)
        aqi_log(AQI_LOG_INFO, "ofi", "the connection to rank %u%s broke: %s", peer->rdma.peer.id,
                where, why);
    snprintf(peer->rdma.why, sizeof(peer->rdma.why), "%s", why);
    peer->failed = true;
    ofi->look_at = 0;
}

/* The connection broke, again or for the first time. */
static void ofi_flush_fail(struct ofi_tp *ofi, struct ofi_peer *peer, uint64_t now)
{
    char why[sizeof(peer->rdma.why)];
    peer->failed = false;
    if (peer->broken == 0) {
        peer->broken = now;
        peer->pause = ofi_flush_broken_ns;
    } else if (now - peer->broken > ofi_config.repair_ns) {
        memcpy(why, peer->rdma.why, sizeof(why));
        aqi_rdma_fail(&ofi->rdma, &peer->rdma,
                      "its connection broke %u s ago and could not be re-established "
                      "(AQ_OFI_REPAIR_TIMEOUT): %.80s",
                      (unsigned)((now - peer->broken) / 1000000000), why);
        return;
    }
    peer->pause = aqi_min(peer->pause, ofi_flush_pause_ns);
    peer->seen = ofi_flush_ended(peer);
    peer->ask_at = now + peer->pause;
}

uint64_t ofi_flush_look(struct ofi_tp *ofi, struct ofi_peer *peer, uint64_t now)
{
    if (peer->failed) ofi_flush_fail(ofi, peer, now);
    if (peer->kept == NULL && peer->rdma.ops == NULL && peer->broken == 0) {
        peer->ask_at = 0;
        return AQI_NO_DEADLINE;
    }
    if (peer->ask_at == 0 || peer->seen != ofi_flush_ended(peer)) {
        peer->seen = ofi_flush_ended(peer);
        peer->pause = ofi_flush_late_ns;
        peer->ask_at = now + peer->pause;
    } else if (now >= peer->ask_at) {
        peer->pause = aqi_min(2 * peer->pause, ofi_flush_most_ns);
        peer->ask_at = now + peer->pause;
        /* A query that has not left is not lost, and another one would take room from all peers. */
        peer->ask = peer->ask || peer->queries == 0;
        ofi_flush_push_peer(ofi, peer);
    }
    return peer->ask_at;
}
