/*
 * Sending: lost packets first, then COMMAND, then DATA, as windows and pacing allow. Packets of one
 * size go to the port in one burst. Every packet carries an acknowledgement; one is sent alone if
 * no packet leaves in time.
 */
#include "dgram/conn.h"

#include "base/iov.h"

#include <stdlib.h>

enum {
    TRANSMIT_TURN = 2,                /* full bursts before it is another peer's turn */
    TRANSMIT_LEAST_WINDOW = 16 << 10, /* of COMMAND, however small the congestion window */
    TRANSMIT_GATHERED = 2048,         /* bytes: packets up to this are copied into one piece */
    TRANSMIT_PIECES = 4,              /* of a packet: frame, bulk, padding, MAC */
    TRANSMIT_ALONE = 2,               /* of one with no number, besides the MAC */
    TRANSMIT_REREAD = 1000000         /* ns until an unreadable source is tried again */
};

struct dgram_burst {
    struct dgram_peer *peer;
    enum aqi_dgram_channel channel;
    unsigned niov, packets;
    unsigned turn;                  /* full bursts so far */
    size_t segment, bytes, missing; /* missing: padding of the last packet, if another follows */
    bool failed;
    bool copied;     /* sources were copied to env->gathered */
    bool unreadable; /* a source cannot be read: add no more packets that have one */
    struct dgram_head head;
    struct dgram_packet *packet[AQI_DGRAM_BURST_COUNT];
    struct iovec iov[AQI_DGRAM_BURST_COUNT * TRANSMIT_PIECES];
    uint8_t tag[AQI_DGRAM_BURST_COUNT][DGRAM_TAG];
};

/* --- heads -------------------------------------------------------------------------------------
 */

/*
 * KB of DATA that each peer may have in flight to us. While handlers may not run, requests pile up:
 * announce what the pool can still take of packets like those, lest they be dropped and count as
 * lost.
 */
static uint16_t transmit_room(const struct dgram_env *env)
{
    const struct aqi_dgram_config *config = &env->config;
    size_t room = config->room, least = 2 * (config->packet + AQI_DGRAM_COST);
    if (AQI_UNLIKELY(env->kept != 0)) {
        size_t pool = (config->pool - env->kept) * (env->kept_size / env->kept);
        room = aqi_min(room - aqi_min(env->kept_size, room), pool);
        least = 0;
    }
    size_t share = aqi_max(room / aqi_max(env->actives, 1), least);
    return (uint16_t)aqi_min(share >> 10, UINT16_MAX);
}

/*
 * us since the newest packet arrived, for its acknowledgement. Outside of progress `now` is stale,
 * but reading the clock pays only for a new acknowledgement.
 */
static uint16_t transmit_delay(const struct dgram_env *env, const struct dgram_conn *conn)
{
    uint64_t now = env->now;
    if (conn->unsure) return UINT16_MAX;
    if (!env->timed) {
        if (conn->unacked == 0 || env->hooks.now == NULL) return UINT16_MAX;
        now = aqi_max(now, env->hooks.now(env->hooks.arg));
    }
    return (uint16_t)aqi_min((now - conn->newest) / 1000, UINT16_MAX);
}

/* The common part of all heads of a burst. */
static struct dgram_head transmit_head(const struct dgram_env *env, const struct dgram_conn *conn)
{
    struct dgram_head head = {.cookie = conn->cookie_out,
                              .source = env->config.self,
                              .room = transmit_room(env),
                              .delay = transmit_delay(env, conn),
                              .flags = (uint8_t)((env->flagged ? DGRAM_FLAGGED : 0) |
                                                 (conn->unacked == 0 ? DGRAM_OLD : 0) |
                                                 (conn->repeated ? DGRAM_REPEATED : 0)),
                              .version = aqi_wire_version(AQI_WIRE_UDP)};
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        head.ack[c] = dgram_acked_until(conn, c);
    return head;
}

static void transmit_head_packet(struct dgram_head *head, const struct dgram_packet *packet)
{
    head->seq = packet->seq;
    head->order = (uint16_t)packet->order;
    const unsigned common = DGRAM_FLAGGED | DGRAM_OLD | DGRAM_REPEATED;
    head->flags =
        (uint8_t)(DGRAM_NUMBERED | (head->flags & common) | (packet->asks ? DGRAM_ASKS : 0) |
                  (packet->channel == AQI_DGRAM_DATA ? DGRAM_ON_DATA : 0) |
                  (packet->lane == DGRAM_REQUEST_LANE ? DGRAM_REQUESTS : 0));
    memcpy(packet->frame, head, sizeof(*head));
}

/* --- numbers -----------------------------------------------------------------------------------
 */

static bool transmit_ring_grow(struct dgram_tx *tx)
{
    uint32_t size = tx->ring_size == 0 ? 16 : 2 * tx->ring_size;
    struct dgram_packet **ring = calloc(size, sizeof(struct dgram_packet *));
    if (ring == NULL) return false;
    for (uint32_t seq = tx->base; seq != tx->next; seq++)
        ring[seq % size] = tx->ring[seq % tx->ring_size];
    free(tx->ring);
    tx->ring = ring;
    tx->ring_size = size;
    return true;
}

static bool transmit_number(struct dgram_tx *tx, struct dgram_packet *packet)
{
    if (tx->next - tx->base == tx->ring_size && !transmit_ring_grow(tx)) return false;
    packet->seq = tx->next++;
    tx->ring[packet->seq % tx->ring_size] = packet;
    return true;
}

/* --- bursts ------------------------------------------------------------------------------------
 */

static void transmit_done(struct dgram_env *env, struct dgram_conn *conn,
                          struct dgram_packet *packet)
{
    struct dgram_tx *tx = &conn->tx[packet->channel];
    packet->sent = env->timed ? env->now : 0;
    if (packet->first == 0) packet->first = packet->sent;
    if (packet->sent == 0) conn->untimed = true;
    packet->flying = true;
    dgram_list_append(&tx->flying, packet);
    tx->in_flight += packet->len + packet->bulk_len;
    tx->flights++;
    dgram_count(env, packet->tries == 0 ? AQI_DGRAM_SENT : AQI_DGRAM_RESENT);
    if (packet->tries == 0)
        conn->sent_count++;
    else
        conn->resent_count++;
    if (packet->tries < UINT8_MAX) packet->tries++;
    /* A search has its own rounds, long enough for the answers to arrive. */
    if (!conn->searching)
        conn->shrink_at = aqi_min(conn->shrink_at, dgram_stuck_at(env, conn, packet));
}

static void transmit_undo(struct dgram_conn *conn, struct dgram_packet *packet)
{
    struct dgram_tx *tx = &conn->tx[packet->channel];
    if (packet->tries != 0) {
        dgram_list_prepend(&conn->lost, packet);
        return;
    }
    tx->next--;
    tx->ring[packet->seq % tx->ring_size] = NULL;
    dgram_list_prepend(&tx->queue, packet);
    conn->queued[packet->lane] += packet->len;
}

/* Packets have left, and with them an acknowledgement. */
static void transmit_acknowledged(struct dgram_env *env, struct dgram_conn *conn, size_t bytes)
{
    conn->used = env->now;
    conn->unacked = 0;
    conn->unsure = conn->repeated = false;
    conn->ack_at = AQI_DGRAM_NEVER;
    if (!conn->gap) conn->ack_now = false;
    dgram_pace_spend(&conn->pace, bytes);
}

/* Many small pieces cost the kernel more than copying them into one. */
static void transmit_gather(struct dgram_env *env, struct dgram_burst *burst)
{
    if (burst->packets == 1 || burst->segment > TRANSMIT_GATHERED || burst->copied) return;
    size_t len = aqi_iov_gather(burst->iov, burst->niov, env->gathered);
    burst->iov[0] = (struct iovec){.iov_base = env->gathered, .iov_len = len};
    burst->niov = 1;
}

static void transmit_flush(struct dgram_env *env, struct dgram_burst *burst)
{
    struct dgram_conn *conn = burst->peer->conn;
    if (burst->packets == 0) return;
    transmit_gather(env, burst);
    bool ok = env->hooks.transmit(env->hooks.arg, burst->channel, &burst->peer->addr, burst->iov,
                                  burst->niov, burst->segment, burst->packets);
    for (unsigned i = 0; ok && i < burst->packets; i++)
        transmit_done(env, conn, burst->packet[i]);
    for (unsigned i = burst->packets; !ok && i-- > 0;)
        transmit_undo(conn, burst->packet[i]);
    if (ok) transmit_acknowledged(env, conn, burst->bytes);
    burst->failed = !ok;
    burst->copied = false;
    burst->niov = burst->packets = 0;
    burst->segment = burst->bytes = burst->missing = 0;
}

static void transmit_piece(struct dgram_burst *burst, const void *bytes, size_t len)
{
    burst->iov[burst->niov++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    burst->bytes += len;
}

/* Whether it fits after the others; the last of them is padded if it is a little short. */
static bool transmit_fits(const struct dgram_env *env, const struct dgram_burst *burst,
                          enum aqi_dgram_channel channel, size_t size)
{
    if (burst->channel != channel || size > burst->segment) return false;
    if (burst->packets == AQI_DGRAM_BURST_COUNT) return false;
    if (burst->bytes + burst->missing + size > AQI_DGRAM_BURST) return false;
    return burst->missing == 0 ||
           (!env->config.authenticate && burst->missing <= burst->segment / 4);
}

/* Where to read the transferred bytes of a packet to be added; NULL: they cannot be read. */
static const void *transmit_source(struct dgram_env *env, struct dgram_burst *burst,
                                   const struct dgram_packet *packet)
{
    if (env->hooks.source == NULL || packet->bulk_len == 0) return packet->bulk;
    /* No other packet of the burst uses this part of it. */
    unsigned char *copy = env->gathered + burst->bytes;
    const void *at = env->hooks.source(env->hooks.arg, packet->bulk, packet->bulk_len, copy);
    burst->copied = burst->copied || at == copy;
    burst->unreadable = burst->unreadable || at == NULL;
    return at;
}

/* --- slices, and packets without a number ------------------------------------------------------
 */

/* Send a packet without a number, with a MAC if packets have one. Returns false if the port has no
 * room. */
static bool transmit_unnumbered(struct dgram_env *env, const struct dgram_peer *peer,
                                enum aqi_dgram_channel channel, const struct iovec *iov,
                                unsigned niov)
{
    uint8_t tag[DGRAM_TAG];
    struct iovec all[TRANSMIT_ALONE + 1];
    size_t len = 0;
    for (unsigned i = 0; i < niov; i++) {
        all[i] = iov[i];
        len += iov[i].iov_len;
    }
    if (env->config.authenticate) {
        env->hooks.mac(env->hooks.arg, NULL, peer->conn->mac_key, iov, niov, tag);
        all[niov++] = (struct iovec){.iov_base = tag, .iov_len = sizeof(tag)};
        len += sizeof(tag);
    }
    return env->hooks.transmit(env->hooks.arg, channel, &peer->addr, all, niov, len, 1);
}

/* The packet without its MAC, in env->gathered. NULL: its source cannot be read. */
static unsigned char *transmit_image(struct dgram_env *env, struct dgram_burst *burst,
                                     const struct dgram_packet *packet)
{
    struct dgram_conn *conn = burst->peer->conn;
    unsigned char *image = env->gathered, *end = image + packet->len;
    burst->bytes = packet->len; /* where a copy of the source goes */
    const void *bulk = transmit_source(env, burst, packet);
    burst->bytes = 0;
    burst->copied = false;
    if (bulk == NULL && packet->bulk_len != 0) return NULL;
    struct dgram_head head = transmit_head(env, conn);
    transmit_head_packet(&head, packet);
    memcpy(image, packet->frame, packet->len);
    if (packet->bulk_len != 0 && bulk != end) memcpy(end, bulk, packet->bulk_len);
    return image;
}

/* Returns false if some slices could not be sent; they are next. */
static bool transmit_slices(struct dgram_env *env, struct dgram_peer *peer,
                            struct dgram_packet *packet, unsigned char *image)
{
    struct {
        struct dgram_head head;
        struct dgram_record record;
    } start = {.head = transmit_head(env, peer->conn)};
    size_t total = packet->len + packet->bulk_len, len;
    size_t most = (dgram_capacity(env, peer->conn, AQI_DGRAM_DATA) - sizeof(start)) & ~(size_t)15;
    for (; packet->sliced < total; packet->sliced += (uint32_t)len) {
        size_t offset = packet->sliced;
        len = aqi_min(most, total - offset);
        start.record = (struct dgram_record){.len = (uint16_t)(sizeof(start.record) + len),
                                             .kind = DGRAM_SLICE,
                                             .flags = packet->channel,
                                             .id = packet->seq,
                                             .where = (uint64_t)total << 32 | offset};
        const struct iovec iov[TRANSMIT_ALONE] = {{.iov_base = &start, .iov_len = sizeof(start)},
                                                  {.iov_base = image + offset, .iov_len = len}};
        if (!transmit_unnumbered(env, peer, AQI_DGRAM_DATA, iov, TRANSMIT_ALONE)) return false;
    }
    packet->sliced = 0;
    return true;
}

/* Send a packet that was made before the path became too small for it. */
static void transmit_sliced(struct dgram_env *env, struct dgram_burst *burst,
                            struct dgram_packet *packet)
{
    struct dgram_conn *conn = burst->peer->conn;
    transmit_flush(env, burst);
    unsigned char *image = NULL;
    packet->order = conn->tx[packet->channel].order;
    if (!burst->failed) image = transmit_image(env, burst, packet);
    bool ok = image != NULL && transmit_slices(env, burst->peer, packet, image);
    if (image != NULL && !ok) burst->failed = true;
    if (!ok) {
        if (packet->sliced != 0)
            packet->tries = (uint8_t)aqi_max(packet->tries, 1); /* its number is in use */
        transmit_undo(conn, packet);
        return;
    }
    conn->tx[packet->channel].order++;
    transmit_done(env, conn, packet);
    transmit_acknowledged(env, conn, dgram_packet_size(env, packet));
}

/* Add a packet that has a number and is in no list. */
static void transmit_add(struct dgram_env *env, struct dgram_burst *burst,
                         struct dgram_packet *packet)
{
    static const unsigned char zeros[AQI_DGRAM_MOST_PACKET / 4];
    struct dgram_conn *conn = burst->peer->conn;
    size_t size = dgram_packet_size(env, packet);
    enum aqi_dgram_channel channel = packet->tries != 0 ? AQI_DGRAM_DATA : packet->channel;
    if (AQI_UNLIKELY(size > conn->packet)) {
        transmit_sliced(env, burst, packet);
        return;
    }
    if (burst->packets != 0 && !transmit_fits(env, burst, channel, size))
        transmit_flush(env, burst);
    const void *bulk = burst->failed ? NULL : transmit_source(env, burst, packet);
    if (burst->failed || (bulk == NULL && packet->bulk_len != 0)) {
        transmit_undo(conn, packet);
        return;
    }
    if (burst->packets == 0) {
        burst->segment = size;
        burst->head = transmit_head(env, conn);
    }
    if (burst->missing != 0) transmit_piece(burst, zeros, burst->missing);
    burst->channel = channel;
    packet->order = conn->tx[packet->channel].order++;
    transmit_head_packet(&burst->head, packet);
    unsigned first = burst->niov;
    transmit_piece(burst, packet->frame, packet->len);
    if (packet->bulk_len != 0) transmit_piece(burst, bulk, packet->bulk_len);
    if (env->config.authenticate) {
        uint8_t *tag = burst->tag[burst->packets];
        env->hooks.mac(env->hooks.arg, NULL, conn->mac_key, &burst->iov[first], burst->niov - first,
                       tag);
        transmit_piece(burst, tag, DGRAM_TAG);
    }
    burst->missing = burst->segment - size;
    burst->packet[burst->packets++] = packet;
    if (burst->packets == AQI_DGRAM_BURST_COUNT ||
        burst->bytes + burst->missing + burst->segment > AQI_DGRAM_BURST) {
        transmit_flush(env, burst);
        burst->turn++;
    }
}

/* --- what may leave ----------------------------------------------------------------------------
 */

/*
 * Whether this lane may use more numbers. Replies and puts continue while requests are stuck, and
 * refusals while puts are stuck that the peer must refuse.
 */
static bool transmit_has_numbers(const struct dgram_tx *tx, unsigned channel, unsigned lane)
{
    static const uint32_t windows[] = {
        [AQI_DGRAM_COMMAND] = DGRAM_COMMAND_WINDOW, [AQI_DGRAM_DATA] = DGRAM_WINDOW};
    uint32_t most = windows[channel];
    if (lane == DGRAM_REQUEST_LANE) most = most / 4 * 3;
    if (lane == DGRAM_REFUSAL_LANE) most = DGRAM_WINDOW;
    return tx->next - tx->base < most;
}

/* Whether the windows let `size` more bytes of this channel and lane leave. */
static bool transmit_open(struct dgram_env *env, struct dgram_conn *conn, unsigned channel,
                          unsigned lane, size_t size, size_t pending)
{
    struct dgram_tx *tx = &conn->tx[channel];
    if (!transmit_has_numbers(tx, channel, lane)) return false;
    size_t all = dgram_in_flight(conn) + pending;
    if (all == 0 || lane == DGRAM_REFUSAL_LANE) return true;
    if (channel == AQI_DGRAM_COMMAND)
        return tx->in_flight + pending + size <= TRANSMIT_LEAST_WINDOW ||
               dgram_pace_open(&conn->pace, tx->in_flight + pending, size);
    if (!dgram_pace_open(&conn->pace, all, size)) return false;
    size_t data = tx->in_flight + pending;
    if (data != 0 && data + size + AQI_DGRAM_COST * (tx->flights + 1) > conn->room) return false;
    uint64_t when = dgram_pace_when(&conn->pace, size + pending, env->away, env->now);
    if (when <= env->now) return true;
    conn->pace_at = when;
    return false;
}

static struct dgram_packet *transmit_behind_requests(const struct dgram_conn *conn,
                                                     struct dgram_packet *packet)
{
    if (conn->queued[DGRAM_OTHER_LANE] + conn->queued[DGRAM_REFUSAL_LANE] == 0) return NULL;
    while (packet != NULL && packet->lane == DGRAM_REQUEST_LANE)
        packet = packet->next;
    return packet;
}

/* The first one from here on that needs no unreadable source. */
static struct dgram_packet *transmit_readable(const struct dgram_burst *burst,
                                              struct dgram_packet *packet)
{
    while (AQI_UNLIKELY(burst->unreadable) && packet != NULL && packet->bulk_len != 0)
        packet = packet->next;
    return packet;
}

/* Take the next packet of a queue that may leave, and give it a number. */
static struct dgram_packet *transmit_from_queue(struct dgram_env *env,
                                                const struct dgram_burst *burst, unsigned channel)
{
    struct dgram_conn *conn = burst->peer->conn;
    struct dgram_tx *tx = &conn->tx[channel];
    struct dgram_packet *packet = transmit_readable(burst, tx->queue.first);
    /* The other side may be waiting for packets queued behind stuck requests. */
    if (!transmit_has_numbers(tx, channel, DGRAM_REQUEST_LANE))
        packet = transmit_behind_requests(conn, packet);
    if (packet == NULL) return NULL;
    size_t size = dgram_packet_size(env, packet);
    if (!transmit_open(env, conn, channel, packet->lane, size, burst->bytes)) return NULL;
    if (!transmit_number(tx, packet)) return NULL;
    dgram_list_remove(&tx->queue, packet);
    if (tx->open[packet->lane] == packet) tx->open[packet->lane] = NULL;
    conn->queued[packet->lane] -= packet->len;
    return packet;
}

static struct dgram_packet *transmit_from_bulk(struct dgram_env *env,
                                               const struct dgram_burst *burst)
{
    struct dgram_peer *peer = burst->peer;
    struct dgram_conn *conn = peer->conn;
    if (conn->bulk == NULL || burst->unreadable) return NULL;
    size_t size = aqi_min(conn->packet, conn->bulk->len - conn->bulk->issued);
    if (!transmit_open(env, conn, AQI_DGRAM_DATA, DGRAM_OTHER_LANE, size, burst->bytes))
        return NULL;
    struct dgram_packet *packet = dgram_op_piece(env, peer);
    if (packet == NULL) return NULL;
    if (transmit_number(&conn->tx[AQI_DGRAM_DATA], packet)) return packet;
    dgram_list_append(&conn->tx[AQI_DGRAM_DATA].queue, packet);
    conn->queued[packet->lane] += packet->len;
    return NULL;
}

/* Messages and bulk take turns on DATA, a burst each. */
static struct dgram_packet *transmit_data(struct dgram_env *env, const struct dgram_burst *burst)
{
    const struct dgram_conn *conn = burst->peer->conn;
    struct dgram_packet *packet = NULL;
    if (!conn->turn || conn->bulk == NULL) packet = transmit_from_queue(env, burst, AQI_DGRAM_DATA);
    if (packet == NULL) packet = transmit_from_bulk(env, burst);
    if (packet == NULL && conn->turn) packet = transmit_from_queue(env, burst, AQI_DGRAM_DATA);
    return packet;
}

static struct dgram_packet *transmit_lost(struct dgram_env *env, const struct dgram_burst *burst)
{
    struct dgram_conn *conn = burst->peer->conn;
    struct dgram_packet *packet = transmit_readable(burst, conn->lost.first);
    if (packet == NULL) return NULL;
    /* New packets on COMMAND must not hold it back. */
    size_t data = conn->tx[AQI_DGRAM_DATA].in_flight + burst->bytes;
    if (conn->probes != 0) {
        conn->probes--;
        packet->asks = true;
    } else if (data != 0 && !dgram_pace_fits(&conn->pace, data, dgram_packet_size(env, packet))) {
        return NULL;
    }
    dgram_list_remove(&conn->lost, packet);
    return packet;
}

/* --- acknowledgements --------------------------------------------------------------------------
 */

/* Write the numbers of this channel that arrived after a gap, as a record. Returns its bytes. */
static size_t transmit_sack(const struct dgram_conn *conn, unsigned channel, unsigned char *at,
                            size_t room)
{
    uint64_t words[DGRAM_SACK_WORDS];
    const struct dgram_rx *rx = &conn->rx[channel];
    uint32_t from = dgram_acked_until(conn, channel);
    if (room < sizeof(struct dgram_record) + 8) return 0;
    size_t most = aqi_min((room - sizeof(struct dgram_record)) / 8, DGRAM_SACK_WORDS);
    unsigned n = dgram_seen_words(&rx->seen, from, words, (unsigned)most);
    if (n == 0) return 0;
    for (unsigned i = 0; i < DGRAM_HELD; i++) {
        uint32_t bit = conn->held[i].seq - from - 1;
        if (conn->held[i].taken && conn->held[i].channel == channel && bit < 64 * n)
            words[bit / 64] &= ~(UINT64_C(1) << bit % 64);
    }
    struct dgram_record record = {.len = (uint16_t)(sizeof(record) + 8 * n),
                                  .kind = DGRAM_SACK,
                                  .flags = (uint8_t)channel,
                                  .id = from,
                                  .where = rx->order};
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), words, (size_t)8 * n);
    return dgram_round16(record.len);
}

static bool transmit_ack(struct dgram_env *env, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    alignas(16) unsigned char bytes[AQI_DGRAM_COMMAND_MAX] = {0};
    size_t room = dgram_capacity(env, conn, AQI_DGRAM_COMMAND), len = sizeof(struct dgram_head);
    struct dgram_head head = transmit_head(env, conn);
    if (conn->asks) head.flags |= DGRAM_ASKS;
    memcpy(bytes, &head, sizeof(head));
    for (unsigned c = 0; conn->gap && c < AQI_DGRAM_CHANNELS; c++)
        len += transmit_sack(conn, c, bytes + len, room - len);
    const struct iovec all = {.iov_base = bytes, .iov_len = len};
    if (!transmit_unnumbered(env, peer, AQI_DGRAM_COMMAND, &all, 1)) return false;
    dgram_count(env, AQI_DGRAM_ACKS);
    conn->unacked = 0;
    conn->ack_now = conn->asks = conn->unsure = conn->repeated = false;
    conn->ack_at = AQI_DGRAM_NEVER;
    return true;
}

bool dgram_transmit_loose(struct dgram_env *env, struct dgram_peer *peer, unsigned char *frame,
                          size_t len)
{
    struct dgram_conn *conn = peer->conn;
    struct dgram_head head = transmit_head(env, conn);
    head.seq = conn->casts; /* so that they are not taken for duplicates while parked */
    memcpy(frame, &head, sizeof(head));
    const struct iovec all = {.iov_base = frame, .iov_len = len};
    if (!transmit_unnumbered(env, peer, AQI_DGRAM_DATA, &all, 1)) return false;
    dgram_count(env, AQI_DGRAM_SENT);
    conn->casts++;
    conn->used = env->now;
    return true;
}

/* --- a peer's turn -----------------------------------------------------------------------------
 */

/* Packets that left without a time count as sent now. */
static void transmit_time(struct dgram_env *env, struct dgram_conn *conn)
{
    conn->untimed = false;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        for (struct dgram_packet *p = conn->tx[c].flying.last; p != NULL && p->sent == 0;
             p = p->prev) {
            p->sent = env->now;
            if (p->first == 0) p->first = env->now;
        }
}

bool dgram_transmit(struct dgram_env *env, struct dgram_peer *peer, uint64_t wait)
{
    struct dgram_conn *conn = peer->conn;
    struct dgram_burst burst;
    struct dgram_packet *packet;
    burst.peer = peer;
    burst.channel = AQI_DGRAM_COMMAND;
    burst.niov = burst.packets = burst.turn = 0;
    burst.segment = burst.bytes = burst.missing = 0;
    burst.failed = burst.copied = burst.unreadable = false;
    if (conn->untimed && env->timed) transmit_time(env, conn);
    if (conn->recovered != 0) dgram_ack_recovered(conn);
    conn->pace_at = wait > env->now ? wait : AQI_DGRAM_NEVER;
    if (wait > env->now) return true;
    while (!burst.failed && burst.turn < TRANSMIT_TURN) {
        packet = transmit_lost(env, &burst);
        if (packet == NULL) packet = transmit_from_queue(env, &burst, AQI_DGRAM_COMMAND);
        if (packet == NULL) packet = transmit_data(env, &burst);
        if (packet == NULL) break;
        transmit_add(env, &burst, packet);
    }
    transmit_flush(env, &burst);
    conn->turn = !conn->turn;
    if (burst.unreadable) conn->pace_at = aqi_min(conn->pace_at, env->now + TRANSMIT_REREAD);
    bool ok = !burst.failed;
    if (ok && conn->ack_now) ok = transmit_ack(env, peer);
    if (!ok || conn->untimed || burst.turn == TRANSMIT_TURN) dgram_make_ready(env, peer);
    dgram_ack_set_probe(env, conn);
    return ok;
}
