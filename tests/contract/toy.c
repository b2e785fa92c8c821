/* toy: the transport of the network in toy_net.c: connections, messages, the pool, progress. */
#include "toy_impl.h"

#include "base/fail.h"
#include "base/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct toy_address {
    uint32_t magic, slot;
    uint64_t cookie; /* of this incarnation */
};
#define TOY_MAGIC 0x31594f54u /* "TOY1" */

/* Two devices; the second one exists but cannot be used. */
static bool toy_probe(unsigned device, struct aqi_tp_probe *probe)
{
    *probe = (struct aqi_tp_probe){.usable = device == 0};
    snprintf(probe->device, sizeof(probe->device), "toy%u", device);
    if (device != 0) snprintf(probe->reason, sizeof(probe->reason), "it exists for the probe only");
    return device < 2;
}

static aq_status toy_open(const struct aqi_tp_params *params, struct aqi_tp **tp)
{
    struct toy_tp *toy = calloc(1, sizeof(*toy));
    if (toy == NULL) return aqi_fail(AQ_ENOMEM, "toy", "no memory to open");
    for (unsigned i = 0; i < TOY_OPS; i++)
        toy->ops[i].what = TOY_AM;
    toy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    toy->params = *params;
    toy->last_held = &toy->held;
    toy->tp.hooks = params->hooks;
    toy->tp.limits =
        (struct aqi_tp_limits){.max_medium = TOY_PIECE, .max_long = 1u << 24, .pool = TOY_POOL};
    aq_status st = toy_net_join(toy);
    if (st != AQ_OK) {
        close(toy->wake);
        free(toy);
        return st;
    }
    *tp = &toy->tp;
    return AQ_OK;
}

static void toy_close(struct aqi_tp *tp)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    toy_net_leave(toy);
    while (toy->held != NULL) {
        struct toy_packet *packet = toy->held;
        toy->held = packet->next;
        free(packet);
    }
    for (unsigned id = 0; id < TOY_RANKS; id++) {
        if (toy->peers[id] == NULL) continue;
        toy_stream_clear(toy->peers[id]);
        free(toy->peers[id]);
    }
    close(toy->wake);
    free(toy);
}

static aq_status toy_address(struct aqi_tp *tp, void *addr, size_t *len)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    struct toy_address mine = {TOY_MAGIC, toy->slot, toy->cookie};
    memcpy(addr, &mine, sizeof(mine));
    *len = sizeof(mine);
    return AQ_OK;
}

/*
 * Look up the address of the peer. AQ_AGAIN: lookup is called again when the address is first
 * needed.
 */
static aq_status toy_find(struct toy_tp *toy, uint32_t id, struct toy_peer *peer)
{
    struct toy_address addr;
    unsigned char bytes[AQI_ADDR_MAX];
    size_t len = sizeof(bytes);
    if (peer->known) return AQ_OK;
    aq_status st = toy->params.hooks.lookup(toy->params.hooks.host, &toy->tp, id, bytes, &len);
    if (st != AQ_OK) return st;
    if (len == 0) return AQ_ENOTSUP;
    memcpy(&addr, bytes, sizeof(addr));
    if (len != sizeof(addr) || addr.magic != TOY_MAGIC || addr.slot >= TOY_RANKS) return AQ_EPROTO;
    peer->cookie = addr.cookie;
    peer->slot = addr.slot;
    peer->known = true;
    return AQ_OK;
}

static aq_status toy_connect(struct aqi_tp *tp, uint32_t id, uint32_t host, struct aqi_peer **out)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    struct toy_peer *peer = calloc(1, sizeof(*peer));
    (void)host;
    if (peer == NULL) return aqi_fail(AQ_ENOMEM, "toy", "no memory for peer %u", id);
    aq_status st = toy_find(toy, id, peer);
    if (st == AQ_EPROTO) aqi_fail(st, "toy", "the address of peer %u is malformed", id);
    if (st == AQ_AGAIN) st = AQ_OK;
    peer->peer.id = id;
    peer->peer.max_medium = ((id | toy->params.self) & 1) != 0 ? TOY_SMALL : 0;
    peer->last_answer = &peer->answers;
    aqi_spin_lock(&toy->lock);
    bool new = st == AQ_OK && toy->peers[id] == NULL;
    if (new) toy->peers[id] = peer;
    if (st == AQ_OK) *out = &toy->peers[id]->peer;
    aqi_spin_unlock(&toy->lock);
    if (!new) free(peer);
    return st;
}

/* --- connecting: SYN, CHALLENGE, SYN with its token, ACCEPT ---------------------------------- */

static void toy_say(struct toy_tp *toy, const struct toy_peer *peer, uint8_t type, uint64_t token)
{
    struct toy_packet packet = {.type = type,
                                .token = token,
                                .from = toy->params.self,
                                .from_cookie = toy->cookie,
                                .to_cookie = peer->cookie};
    toy_net_send(toy, peer, &packet);
}

static void toy_call(struct toy_tp *toy, struct toy_peer *peer)
{
    if (peer->state != TOY_CONNECTING || toy_find(toy, peer->peer.id, peer) != AQ_OK) return;
    if (peer->syn_sent != 0 && toy->now - peer->syn_sent < TOY_RESEND) return;
    peer->syn_sent = toy->now + (toy->now == 0);
    toy_say(toy, peer, TOY_SYN, peer->token);
}

/* The side that answers keeps no state before its token has come back. */
static unsigned toy_handshake(struct toy_tp *toy, struct toy_peer *peer,
                              const struct toy_packet *packet)
{
    uint64_t token = (toy->cookie ^ packet->from_cookie) | 1;
    if (packet->type == TOY_SYN && packet->token != token) {
        toy_say(toy, peer, TOY_CHALLENGE, token);
    } else if (packet->type == TOY_SYN) {
        toy_say(toy, peer, TOY_ACCEPT, 0);
        peer->state = TOY_UP;
    } else if (peer->state == TOY_CONNECTING && packet->type == TOY_CHALLENGE) {
        peer->token = packet->token;
        peer->syn_sent = toy->now + (toy->now == 0);
        toy_say(toy, peer, TOY_SYN, peer->token);
    } else if (peer->state == TOY_CONNECTING) {
        peer->state = TOY_UP;
    }
    return 1;
}

/* --- messages -------------------------------------------------------------------------------- */

static aq_status toy_am_send(struct aqi_tp *tp, struct aqi_peer *to, const struct aqi_am *am,
                             struct aqi_comp *comp)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    struct toy_peer *peer = (struct toy_peer *)to;
    enum toy_stream stream = am->flags & AQI_AM_IS_REPLY ? TOY_REPLIES : TOY_REQUESTS;
    alignas(16) unsigned char frame[128 + TOY_PIECE];
    size_t len = aqi_am_payload_offset(am->nargs);
    if (aqi_am_has_payload(am->kind) &&
        am->nbytes > (am->kind == AQI_AM_MEDIUM ? to->max_medium : to->max_piece))
        abort();
    aqi_am_encode(frame, am, toy->params.self);
    if (aqi_am_has_payload(am->kind) && am->nbytes != 0) {
        memcpy(frame + len, am->payload, am->nbytes);
        len += am->nbytes;
    }
    aqi_spin_lock(&toy->lock);
    aq_status st = peer->state == TOY_DOWN ? AQ_EPEER : AQ_OK;
    if (peer->state == TOY_IDLE) peer->state = TOY_CONNECTING;
    if (st == AQ_OK && (peer->state != TOY_UP || !toy_stream_has_room(peer, stream))) st = AQ_AGAIN;
    if (st == AQ_OK)
        toy_stream_send(toy, peer, stream, &(struct toy_head){.what = TOY_AM}, frame, len);
    aqi_spin_unlock(&toy->lock);
    if (st == AQ_OK) aqi_comp_local(comp);
    return st;
}

/*
 * Take a place in the pool for a request of `peer`. While places are short, no peer holds more than
 * its share, and the peers that were refused first come first.
 */
static bool toy_take_place(struct toy_tp *toy, struct toy_peer *peer)
{
    unsigned before = 0; /* peers that have waited longer */
    for (unsigned id = 0; id < TOY_RANKS; id++) {
        const struct toy_peer *other = toy->peers[id];
        if (other != NULL && other != peer && other->waits != 0 && other->state == TOY_UP)
            before += peer->waits == 0 || other->waits < peer->waits;
    }
    bool share = toy->waiting == 0 || peer->held < AQI_LEAST_ROOM;
    if (share && toy->pool + before < TOY_POOL) {
        toy->waiting -= peer->waits != 0;
        peer->waits = 0;
        peer->held++;
        toy->pool++;
        return true;
    }
    if (peer->waits == 0) {
        peer->waits = ++toy->turn;
        toy->waiting++;
    }
    return false;
}

/*
 * Run the handler and free the packet. The lock is held on entry and return, but not while the
 * handler runs.
 */
static void toy_deliver(struct toy_tp *toy, struct toy_peer *peer, struct toy_packet *packet)
{
    struct aqi_am am;
    uint32_t source;
    unsigned char *frame = packet->bytes + sizeof(struct toy_head);
    size_t len = packet->len - sizeof(struct toy_head);
    aqi_spin_unlock(&toy->lock);
    if (aqi_am_decode(frame, len, TOY_PIECE, &am, &source) == AQ_OK && source == peer->peer.id) {
        am.payload = frame + aqi_am_payload_offset(am.nargs);
        toy->tp.hooks.deliver(toy->tp.hooks.arg, source, &am);
    } else {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
    }
    aqi_spin_lock(&toy->lock);
    if (packet->stream == TOY_REQUESTS) {
        peer->held--;
        toy->pool--;
    }
    free(packet);
}

static unsigned toy_deliver_held(struct toy_tp *toy)
{
    unsigned n = 0;
    while (toy->held != NULL && n < TOY_BATCH) {
        struct toy_packet *packet = toy->held;
        toy->held = packet->next;
        if (toy->held == NULL) toy->last_held = &toy->held;
        toy_deliver(toy, toy->peers[packet->from], packet);
        n++;
    }
    return n;
}

/* Returns true if the packet has been kept. */
static bool toy_take_data(struct toy_tp *toy, struct toy_peer *peer, struct toy_packet *packet,
                          enum aqi_progress_mode mode)
{
    const struct toy_head *head = (const struct toy_head *)(const void *)packet->bytes;
    const void *data = packet->bytes + sizeof(*head);
    if (!toy_stream_is_new(peer, packet)) return false;
    if (packet->stream == TOY_REQUESTS && !toy_take_place(toy, peer)) return false;
    toy_stream_accept(toy, peer, packet);
    switch (head->what) {
    case TOY_AM:
        if (packet->stream == TOY_REPLIES || mode == AQI_PROGRESS_ALL) {
            toy_deliver(toy, peer, packet);
        } else {
            packet->next = NULL;
            *toy->last_held = packet;
            toy->last_held = &packet->next;
        }
        return true;
    case TOY_PUT:
    case TOY_GET:
        toy_rma_serve(toy, peer, head, data);
        break;
    default:
        toy_rma_answer(toy, peer, head, data);
    }
    return false;
}

static unsigned toy_take(struct toy_tp *toy, struct toy_packet *packet, enum aqi_progress_mode mode)
{
    struct toy_peer *peer = packet->from < TOY_RANKS ? toy->peers[packet->from] : NULL;
    bool kept = false;
    unsigned n = 0;
    if (peer == NULL || packet->to_cookie != toy->cookie ||
        toy_find(toy, peer->peer.id, peer) != AQ_OK || packet->from_cookie != peer->cookie ||
        peer->state == TOY_DOWN) {
        free(packet);
        return 0;
    }
    toy->heard = toy->now;
    if (packet->type < TOY_DATA) {
        n = toy_handshake(toy, peer, packet);
    } else if (packet->type == TOY_ACK) {
        n = toy_stream_acked(peer, packet);
    } else {
        peer->state = TOY_UP; /* the ACCEPT that it sent was lost */
        kept = toy_take_data(toy, peer, packet, mode);
        n = 1;
    }
    if (!kept) free(packet);
    return n;
}

static unsigned toy_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    struct toy_packet *packet;
    unsigned n = 0, taken = 0;
    aqi_spin_lock(&toy->lock);
    toy->now = aqi_max(toy->now, now);
    if (mode == AQI_PROGRESS_ALL) n += toy_deliver_held(toy);
    while (taken++ < TOY_BATCH && (packet = toy_net_take(toy)) != NULL)
        n += toy_take(toy, packet, mode);
    toy_rma_push(toy);
    for (unsigned id = 0; id < TOY_RANKS; id++) {
        if (toy->peers[id] == NULL || toy->peers[id]->state == TOY_DOWN) continue;
        toy_call(toy, toy->peers[id]);
        if (toy->peers[id]->known) toy_stream_timers(toy, toy->peers[id]);
    }
    aqi_spin_unlock(&toy->lock);
    return n;
}

static uint64_t toy_next_deadline(struct aqi_tp *tp)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    uint64_t at = toy_net_due(toy);
    aqi_spin_lock(&toy->lock);
    for (unsigned id = 0; id < TOY_RANKS; id++) {
        const struct toy_peer *peer = toy->peers[id];
        if (peer == NULL) continue;
        at = aqi_min(at, toy_stream_deadline(peer));
        if (peer->state == TOY_CONNECTING) at = aqi_min(at, peer->syn_sent + TOY_RESEND);
    }
    aqi_spin_unlock(&toy->lock);
    return at;
}

/* --- the end --------------------------------------------------------------------------------- */

static aq_status toy_quiet(struct aqi_tp *tp, struct aqi_peer *to)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    bool busy = false;
    aqi_spin_lock(&toy->lock);
    for (unsigned id = 0; id < TOY_RANKS; id++) {
        const struct toy_peer *peer = toy->peers[id];
        if (peer == NULL || (to != NULL && &peer->peer != to)) continue;
        busy = busy || !toy_stream_empty(peer) || toy_rma_busy(toy, peer);
    }
    aqi_spin_unlock(&toy->lock);
    return busy ? AQ_AGAIN : AQ_OK;
}

/* A peer that has not received the last acknowledgement retransmits within this time. */
static aq_status toy_drain(struct aqi_tp *tp, uint64_t deadline)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    bool quiet = toy_quiet(tp, NULL) == AQ_OK;
    aqi_spin_lock(&toy->lock);
    bool over =
        toy->now >= deadline || toy->heard == 0 || (quiet && toy->now - toy->heard >= TOY_LINGER);
    aqi_spin_unlock(&toy->lock);
    return over ? AQ_OK : AQ_AGAIN;
}

static void toy_disconnect(struct aqi_tp *tp, struct aqi_peer *to)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    struct toy_peer *peer = (struct toy_peer *)to;
    aqi_spin_lock(&toy->lock);
    toy_rma_fail(toy, peer);
    toy_stream_clear(peer);
    toy->waiting -= peer->waits != 0;
    peer->waits = 0;
    peer->state = TOY_DOWN;
    aqi_spin_unlock(&toy->lock);
}

static int toy_wait_fd(struct aqi_tp *tp)
{
    return ((struct toy_tp *)tp)->wake;
}

static aq_status toy_arm(struct aqi_tp *tp, bool on)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    uint64_t count;
    if (!on) (void)!read(toy->wake, &count, sizeof(count));
    aqi_spin_lock(&toy->lock);
    bool go = toy_net_arm(toy, on);
    aqi_spin_unlock(&toy->lock);
    return go ? AQ_OK : AQ_AGAIN;
}

const struct aqi_transport toy_transport = {
    .name = "toy",
    .doc = "a network for the contract suite",
    .caps = AQI_CAP_PUT | AQI_CAP_GET | AQI_CAP_REG | AQI_CAP_WAIT_FD | AQI_CAP_TIMERS |
            AQI_CAP_ROOM | AQI_CAP_LOCAL | AQI_CAP_FAR,
    .addr_max = sizeof(struct toy_address),
    .key_max = sizeof(struct toy_keys),
    .probe = toy_probe,
    .open = toy_open,
    .close = toy_close,
    .address = toy_address,
    .connect = toy_connect,
    .am_send = toy_am_send,
    .progress = toy_progress,
    .quiet = toy_quiet,
    .disconnect = toy_disconnect,
    .next_deadline = toy_next_deadline,
    .drain = toy_drain,
    .put = toy_rma_put,
    .get = toy_rma_get,
    .mem_reg = toy_rma_reg,
    .mem_dereg = toy_rma_dereg,
    .mem_map = toy_rma_map,
    .mem_unmap = toy_rma_unmap,
    .wait_fd = toy_wait_fd,
    .arm = toy_arm,
};
