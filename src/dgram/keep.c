/*
 * Requests that arrive while no handler may run, because one waits for room in its reply: they are
 * kept in a pool, which bounds how much the peers can make us keep.
 */
#include "dgram/dgram_impl.h"

#include <stdlib.h>
#include <string.h>

/*
 * Whether a request of this peer may be kept. While other peers wait for room, it may not hold more
 * than config.least, and the one that has waited longest is next.
 */
static bool keep_turn(const struct aqi_dgram *dgram, const struct dgram_peer *peer)
{
    uint32_t unused = dgram->env.config.pool - dgram->env.kept;
    if (unused == 0) return false;
    if (dgram->wanting == (peer->waits != 0 ? 1u : 0u)) return true; /* no other waits */
    if (peer->held >= dgram->env.config.least) return false;
    if (unused > dgram->wanting) return true;
    for (uint32_t i = 0; i < dgram->env.config.size; i++) {
        const struct dgram_peer *other = dgram->peers[i];
        if (other == NULL || other == peer || other->waits == 0) continue;
        if (peer->waits == 0 || other->waits < peer->waits) return false;
    }
    return true;
}

static void keep_stop_waiting(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    if (peer->waits == 0) return;
    peer->waits = 0;
    dgram->wanting--;
}

static void keep_free(struct dgram_kept *kept)
{
    free(kept->bytes);
    free(kept);
}

static bool keep_has_messages(const unsigned char *packet, size_t len)
{
    struct dgram_walk walk = DGRAM_WALK;
    while (dgram_record_next(packet, len, &walk))
        if (walk.record.kind == DGRAM_MESSAGE || walk.record.kind == DGRAM_LOOSE) return true;
    return false;
}

/*
 * Keep a copy of a packet, or just count it if it has only fragments, which are copied to their
 * message. If `whole`, keep `bytes` itself, a message from malloc.
 */
static bool keep_one(struct aqi_dgram *dgram, struct dgram_peer *peer, unsigned char *bytes,
                     size_t len, bool whole)
{
    struct dgram_kept *kept = malloc(sizeof(*kept));
    bool copies = !whole && keep_has_messages(bytes, len);
    unsigned char *copy = whole ? bytes : copies ? malloc(dgram_round16(len)) : NULL;
    if (kept == NULL || (copies && copy == NULL)) {
        free(kept);
        if (!whole) free(copy);
        return false;
    }
    if (copies) memcpy(copy, bytes, len);
    *kept = (struct dgram_kept){.source = peer->id, .whole = whole, .bytes = copy, .len = len};
    *dgram->kept_end = kept;
    dgram->kept_end = &kept->next;
    if (!whole) {
        dgram->env.kept++;
        dgram->env.kept_size += len + AQI_DGRAM_COST;
        peer->held++;
        keep_stop_waiting(dgram, peer);
    }
    return true;
}

bool dgram_keep_loose(struct aqi_dgram *dgram, struct dgram_peer *peer, unsigned char *packet,
                      size_t len)
{
    return keep_turn(dgram, peer) && keep_one(dgram, peer, packet, len, false);
}

bool dgram_keep_packet(struct aqi_dgram *dgram, struct dgram_peer *peer, unsigned char *packet,
                       size_t len)
{
    if (dgram_keep_loose(dgram, peer, packet, len)) return true;
    if (peer->waits == 0) {
        peer->waits = ++dgram->turns;
        dgram->wanting++;
    }
    return false;
}

/* Whether peers have been slowed down noticeably: see transmit_room. */
static bool keep_is_tight(const struct dgram_env *env)
{
    return env->kept >= env->config.pool / 2 || env->kept_size >= env->config.room / 2;
}

/* Announce the room to peers that may wait for it, with nothing in flight. */
static void keep_reopen(struct aqi_dgram *dgram)
{
    for (uint32_t i = 0; i < dgram->env.config.size; i++) {
        struct dgram_peer *peer = dgram->peers[i];
        if (peer == NULL || peer->state != DGRAM_UP || peer->conn->active_until == 0) continue;
        peer->conn->ack_now = true;
        dgram_make_ready(&dgram->env, peer);
    }
}

static void keep_release(struct aqi_dgram *dgram, const struct dgram_kept *kept)
{
    struct dgram_peer *peer = dgram_peer_of(dgram, kept->source);
    if (kept->whole || peer == NULL) return;
    bool tight = keep_is_tight(&dgram->env);
    dgram->env.kept--;
    dgram->env.kept_size -= kept->len + AQI_DGRAM_COST;
    peer->held--;
    if (tight && !keep_is_tight(&dgram->env)) keep_reopen(dgram);
}

bool dgram_keep_message(struct aqi_dgram *dgram, struct dgram_peer *peer, unsigned char *message,
                        size_t len)
{
    return keep_one(dgram, peer, message, len, true);
}

unsigned dgram_kept_deliver(struct aqi_dgram *dgram)
{
    unsigned n = 0;
    struct dgram_kept *kept;
    while ((kept = dgram->kept) != NULL) {
        dgram->kept = kept->next;
        if (dgram->kept == NULL) dgram->kept_end = &dgram->kept;
        keep_release(dgram, kept);
        if (kept->whole)
            dgram->env.hooks.deliver(dgram->env.hooks.arg, kept->source, true, kept->bytes,
                                     kept->len);
        else if (kept->bytes != NULL)
            dgram_receive_messages(dgram, kept->source, kept->bytes, kept->len);
        keep_free(kept);
        n++;
    }
    return n;
}

void dgram_kept_forget(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_kept **at = &dgram->kept, *kept;
    keep_stop_waiting(dgram, peer);
    while ((kept = *at) != NULL) {
        if (kept->source != peer->id) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        keep_release(dgram, kept);
        keep_free(kept);
    }
    dgram->kept_end = at;
}
