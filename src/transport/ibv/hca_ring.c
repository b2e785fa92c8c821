/*
 * ibv: messages that are written into rings of the receiver (active messages over RDMA).
 *
 * A process that receives much from a peer lends it a *ring*: slots in its own memory, into which
 * the peer writes small messages, and which the process polls. A message is at the end of its slot,
 * followed by a *tail* whose last word shows that it has arrived. One write suffices, since
 * adapters deliver its last bytes last (relaxed ordering is never requested). Messages that find no
 * free slot are sent, as are large ones.
 *
 * Order: messages of a peer are numbered. A message in the ring waits until all sent before it have
 * been taken. Before a sent message is taken, those that precede it in the ring are; they have been
 * written by then, since a connection keeps order.
 *
 * Lending: each pair of processes has a *block* in the memory of both. The receiver writes into
 * that of the sender which ring it may use, and how many messages were consumed. To take a ring
 * back it writes "none", and then reads how many messages were written. The sender increments that
 * number first and then checks whether it still has the ring. So either the receiver reads the
 * incremented number, or the sender sees that the ring is gone; the sender, which may be computing,
 * need not answer. Once all messages written have been consumed, nothing is in flight, and
 * another peer may have the ring.
 *
 * A process that is about to sleep first takes all rings back, since writes do not wake it. It
 * lends none before it has been woken, since only received messages make it lend.
 */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/stats.h"

#include <stdlib.h>
#include <string.h>

enum { HCA_RING_STAMP = 0xa95c };

/* Follows a message. */
struct hca_ring_tail {
    uint32_t consumed, unused; /* of the ring in the other direction */
    _Atomic uint64_t mark;     /* number, length << 32, HCA_RING_STAMP << 48 */
};

/* The state that two processes share about their rings; each has one in its own memory. */
struct hca_ring_block {
    _Atomic uint64_t granted; /* written by the peer: messages consumed, (ring + 1 or 0) << 32 */
    _Atomic uint64_t head;    /* messages written to the peer, which reads this */
    uint64_t said;            /* source of writes to the peer's `granted` */
    _Atomic uint64_t seen;    /* the peer's `head` */
    uint64_t unused[4];       /* up to the end of the cache line */
};

static struct hca_ring_block *hca_ring_block(const struct hca_tp *hca, const struct hca_peer *peer)
{
    return (struct hca_ring_block *)(void *)hca->rings.chunk->memory + peer->rdma.peer.id;
}

static size_t hca_ring_blocks(const struct hca_tp *hca)
{
    return aqi_round_up(hca->rdma.params.size * sizeof(struct hca_ring_block), 4096);
}

/* Bytes of a message with its tail. */
static size_t hca_ring_room(size_t len)
{
    return aqi_round_up(len, 8) + sizeof(struct hca_ring_tail);
}

/* --- opening --------------------------------------------------------------------------------- */

aq_status hca_rings_open(struct hca_tp *hca)
{
    struct hca_rings *rings = &hca->rings;
    size_t depth = 1;
    while (2 * depth <= hca_config.ring_depth)
        depth *= 2;
    rings->slot = (uint32_t)aqi_min(hca_config.ring_limit / 64 * 64, hca->rdma.buffer);
    rings->count = (uint32_t)aqi_min(hca_config.ring_peers, hca->rdma.params.size - 1);
    if (rings->slot == 0 || rings->count == 0 || hca_config.ring_cycle == 0) return AQ_OK;
    rings->depth = (uint32_t)depth;
    rings->owner = calloc(rings->count, sizeof(struct hca_peer *));
    if (rings->owner == NULL) return aqi_fail(AQ_ENOMEM, "ibv", "no memory for rings");
    size_t len = hca_ring_blocks(hca) + rings->count * depth * rings->slot;
    rings->chunk = aqi_rdma_add_chunk(&hca->rdma, len, AQI_PINS_PEERS, 0);
    if (rings->chunk == NULL)
        return aqi_fail(AQ_ELIMIT, "ibv", "%s (or set %s=0)", aq_error_message(),
                        aqi_setting_variable("AQ_IBV_RING_PEERS"));
    rings->slots = rings->chunk->memory + hca_ring_blocks(hca);
    return AQ_OK;
}

/* The data that a peer needs to use a ring of this process. */
void hca_rings_place(const struct hca_tp *hca, struct hca_ring_place *place)
{
    const struct hca_rings *rings = &hca->rings;
    if (rings->chunk == NULL) return;
    *place = (struct hca_ring_place){.addr = (uintptr_t)rings->chunk->memory,
                                     .count = (uint16_t)rings->count,
                                     .depth = (uint16_t)rings->depth,
                                     .slot = rings->slot};
    for (unsigned r = 0; r < hca->rails; r++)
        place->rkey[r] = hca_rkey_of(rings->chunk->mr[r]);
}

void hca_ring_meet(struct hca_tp *hca, struct hca_peer *peer, const struct hca_ring_place *place)
{
    bool fine = hca->rings.chunk != NULL && place->addr != 0 && place->slot <= hca->rdma.buffer &&
                place->slot % 64 == 0 && place->depth != 0 &&
                (place->depth & (place->depth - 1)) == 0;
    peer->out = (struct hca_ring_out){.head = 0};
    if (!fine) return;
    peer->out.place = *place;
    peer->out.granted = &hca_ring_block(hca, peer)->granted;
}

/* --- writing --------------------------------------------------------------------------------- */

static void hca_ring_freed(struct hca_ring_out *out, uint32_t consumed)
{
    if ((int32_t)(consumed - out->freed) > 0 && (int32_t)(out->head - consumed) >= 0)
        out->freed = consumed;
}

/* Reserve a slot, counted over all rings of the peer, for the next message to it. */
static bool hca_ring_reserve(struct hca_ring_block *block, struct hca_ring_out *out, uint64_t *slot)
{
    atomic_store(&block->head, (uint32_t)(out->head + 1)); /* before checking: see above */
    uint64_t granted = atomic_load(&block->granted), ring = granted >> 32;
    hca_ring_freed(out, (uint32_t)granted);
    if (ring == 0 || ring > out->place.count || out->head - out->freed >= out->place.depth) {
        atomic_store(&block->head, out->head);
        return false;
    }
    *slot = (ring - 1) * out->place.depth + out->head % out->place.depth;
    return true;
}

static void hca_ring_seal(unsigned char *bytes, uint32_t len, uint32_t number, uint32_t consumed)
{
    struct hca_ring_tail *tail = (void *)(bytes + aqi_round_up(len, 8));
    tail->consumed = consumed;
    tail->unused = 0;
    tail->mark = number | (uint64_t)len << 32 | (uint64_t)HCA_RING_STAMP << 48;
}

aq_status hca_ring_issue(struct hca_tp *hca, struct hca_peer *peer, struct aqi_rdma_buf *buf)
{
    struct hca_ring_out *out = &peer->out;
    const struct hca_ring_place *place = &out->place;
    size_t room = hca_ring_room(buf->len);
    uint64_t slot;
    struct hca_ring_block *block = hca_ring_block(hca, peer);
    if (room > place->slot || !hca_ring_reserve(block, out, &slot)) return AQ_ENOTSUP;
    hca_ring_seal(buf->bytes, buf->len, peer->number, peer->in.consumed);
    struct ibv_sge piece = {.addr = (uintptr_t)buf->bytes,
                            .length = (uint32_t)room,
                            .lkey = hca_buf_lkey(buf, peer->first)};
    uint64_t remote = place->addr + hca_ring_blocks(hca) + (slot + 1) * place->slot - room;
    aq_status st =
        hca_link_access(hca, peer, peer->first, false, piece, remote, place->rkey[peer->first],
                        &(struct hca_sent){.piece.buf = buf, .number = peer->number});
    if (st == AQ_OK) {
        out->head++;
        peer->in.reported = peer->in.consumed;
        aqi_count(AQI_CTR_AM_RING, 1);
    } else if (peer->state == HCA_UP) {
        atomic_store(&block->head, out->head);
    }
    return st;
}

/* --- lending --------------------------------------------------------------------------------- */

/* Post 8 bytes between this block and that of the peer. */
static bool hca_ring_post(struct hca_tp *hca, struct hca_peer *peer, bool read)
{
    struct hca_ring_block *block = hca_ring_block(hca, peer);
    const struct hca_ring_place *place = &peer->out.place;
    uint64_t remote =
        place->addr + hca->rdma.params.self * sizeof(*block) +
        (read ? offsetof(struct hca_ring_block, head) : offsetof(struct hca_ring_block, granted));
    struct ibv_sge piece = {.addr = read ? (uintptr_t)&block->seen : (uintptr_t)&block->said,
                            .length = sizeof(uint64_t),
                            .lkey = hca_lkey_of(hca->rings.chunk->mr[peer->first])};
    return hca_link_access(hca, peer, peer->first, read, piece, remote, place->rkey[peer->first],
                           &(struct hca_sent){.probe = read, .word = !read}) == AQ_OK;
}

static void hca_ring_free(struct hca_tp *hca, struct hca_peer *peer)
{
    hca->rings.owner[peer->in.ring - 1] = NULL;
    hca->rings.open--;
    peer->in.ring = 0;
    peer->in.closing = peer->in.probed = false;
    aqi_count(AQI_CTR_RINGS_BACK, 1);
}

/* Notify the peer that has the ring of changes, and continue taking it back. */
static void hca_ring_attend(struct hca_tp *hca, struct hca_peer *peer)
{
    struct hca_ring_in *in = &peer->in;
    if (peer->state != HCA_UP) return;
    if (in->due) {
        hca_ring_block(hca, peer)->said = in->consumed | (uint64_t)(in->closing ? 0 : in->ring)
                                                             << 32;
        if (!hca_ring_post(hca, peer, false)) return;
        in->due = false;
        in->reported = in->consumed;
    }
    if (!in->closing || in->probing) return;
    if (in->probed && in->written == in->consumed)
        hca_ring_free(hca, peer);
    else
        in->probing = hca_ring_post(hca, peer, true);
}

void hca_ring_probed(struct hca_tp *hca, struct hca_peer *peer)
{
    struct hca_ring_in *in = &peer->in;
    in->probing = false;
    in->probed = true;
    in->written = (uint32_t)hca_ring_block(hca, peer)->seen;
    if (in->written == in->consumed) hca_ring_free(hca, peer);
}

static void hca_ring_lend(struct hca_tp *hca, struct hca_peer *peer)
{
    uint32_t i = 0;
    while (hca->rings.owner[i] != NULL)
        i++;
    hca->rings.owner[i] = peer;
    hca->rings.open++;
    peer->in.ring = (uint16_t)(i + 1);
    peer->in.due = true;
    aqi_count(AQI_CTR_RINGS_LENT, 1);
    hca_ring_attend(hca, peer);
}

static void hca_ring_revoke(struct hca_tp *hca, struct hca_peer *peer)
{
    if (peer->in.closing) return;
    peer->in.closing = peer->in.due = true;
    hca_ring_attend(hca, peer);
}

/*
 * A cycle has ended: of the peers without a ring, the one that sent most gets a free ring. If none
 * is free, take back that of the peer that sent least, if that was less than half as much.
 */
static void hca_ring_choose(struct hca_tp *hca)
{
    struct hca_rings *rings = &hca->rings;
    struct hca_peer *most = NULL, *least = NULL;
    for (uint32_t id = 0; id < hca->rdma.params.size; id++) {
        struct hca_peer *peer = hca_peer_at(hca, id);
        if (peer == NULL || peer->state != HCA_UP || peer->out.place.addr == 0) continue;
        if (peer->in.ring == 0 && (most == NULL || peer->in.heard > most->in.heard)) most = peer;
        if (peer->in.ring != 0 && (least == NULL || peer->in.heard < least->in.heard)) least = peer;
    }
    bool worth = most != NULL && most->in.heard > hca_config.ring_cycle / (2 * rings->count);
    if (worth && rings->open < rings->count)
        hca_ring_lend(hca, most);
    else if (worth && least != NULL && most->in.heard > 2 * least->in.heard)
        hca_ring_revoke(hca, least);
    for (uint32_t id = 0; id < hca->rdma.params.size; id++)
        if (hca_peer_at(hca, id) != NULL) hca_peer_at(hca, id)->in.heard /= 2;
    rings->heard = 0;
}

void hca_ring_heard(struct hca_tp *hca, struct hca_peer *peer, uint32_t len)
{
    if (hca_ring_room(len) > hca->rings.slot) return;
    peer->in.heard++;
    if (++hca->rings.heard >= hca_config.ring_cycle) hca_ring_choose(hca);
}

bool hca_rings_sleep(struct hca_tp *hca)
{
    for (uint32_t i = 0; hca->rings.open != 0 && i < hca->rings.count; i++) {
        struct hca_peer *peer = hca->rings.owner[i];
        if (peer != NULL) hca_ring_revoke(hca, peer);
    }
    return hca->rings.open == 0;
}

void hca_ring_reset(struct hca_tp *hca, struct hca_peer *peer)
{
    if (hca->rings.chunk == NULL) return;
    uint32_t ring = peer->in.ring, depth = hca->rings.depth;
    if (ring != 0) {
        for (uint32_t i = 0; i < depth; i++) {
            unsigned char *end =
                hca->rings.slots + (((size_t)ring - 1) * depth + i + 1) * hca->rings.slot;
            ((struct hca_ring_tail *)(void *)end)[-1].mark = 0;
        }
        hca_ring_free(hca, peer);
    }
    memset(hca_ring_block(hca, peer), 0, sizeof(struct hca_ring_block));
    peer->in = (struct hca_ring_in){.heard = peer->in.heard};
    peer->out = (struct hca_ring_out){.head = 0};
}

/* --- reading --------------------------------------------------------------------------------- */

/* Copy the message at the end of a slot, if it has arrived. */
static bool hca_ring_copy(const struct hca_tp *hca, struct aqi_rdma_buf *buf,
                          const unsigned char *end, uint32_t len)
{
    if (hca_ring_room(len) > hca->rings.slot) return false;
    memcpy(buf->bytes, end - hca_ring_room(len), len);
    buf->len = len;
    return true;
}

struct aqi_rdma_buf *hca_ring_take(struct hca_tp *hca, struct hca_peer *peer, bool later)
{
    struct hca_ring_in *in = &peer->in;
    struct hca_rings *rings = &hca->rings;
    if (in->ring == 0) return NULL;
    size_t slot = (in->ring - 1u) * rings->depth + in->consumed % rings->depth;
    unsigned char *end = rings->slots + (slot + 1) * rings->slot;
    struct hca_ring_tail *tail = (struct hca_ring_tail *)(void *)end - 1;
    uint64_t mark = atomic_load_explicit(&tail->mark, memory_order_acquire);
    if (AQI_LIKELY(mark >> 48 != HCA_RING_STAMP)) return NULL;
    if ((int32_t)((uint32_t)mark - peer->received) > 0) return NULL; /* not its turn */
    struct aqi_rdma_buf *buf = aqi_rdma_get(&hca->rdma);
    if (AQI_UNLIKELY(buf == NULL)) {
        if (later)
            (void)hca_buf_short(hca, peer, 0);
        else
            aqi_rdma_fail(&hca->rdma, &peer->rdma, "no buffer for messages: %s",
                          aq_error_message());
        return NULL;
    }
    bool good = (uint32_t)mark == peer->received &&
                hca_ring_copy(hca, buf, end, (uint32_t)(mark >> 32) & 0xffff);
    hca_ring_freed(&peer->out, tail->consumed);
    tail->mark = 0;
    in->consumed++;
    if (in->consumed - in->reported >= aqi_max(1, rings->depth / 2)) in->due = true;
    if (!good) {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
        aqi_rdma_put(&hca->rdma, buf);
        return NULL;
    }
    buf->peer = &peer->rdma;
    buf->rail = HCA_RAILS;
    buf->next = NULL;
    peer->received++;
    return buf;
}

unsigned hca_rings_progress(struct hca_tp *hca, enum aqi_progress_mode mode)
{
    struct hca_rings *rings = &hca->rings;
    unsigned n = 0;
    for (uint32_t i = 0; rings->open != 0 && i < rings->count; i++) {
        struct hca_peer *peer = rings->owner[i];
        struct aqi_rdma_buf *buf;
        for (unsigned taken = 0; peer != NULL && taken < AQI_RDMA_BATCH; taken++) {
            if ((buf = hca_ring_take(hca, peer, true)) == NULL) break;
            hca_message_dispatch(hca, buf, mode);
            n++;
            peer = rings->owner[i]; /* handlers may have changed it */
        }
        if (peer != NULL && (peer->in.due || peer->in.closing)) hca_ring_attend(hca, peer);
    }
    return n;
}
