/* Processing of acknowledgements, loss detection, retransmission timeouts. */
#include "dgram/conn.h"

enum {
    ACK_REORDER_MOST = 128,
    ACK_TAILS = 2,   /* tail probes in a row before timeouts: the peer may only be computing */
    ACK_LATE = 5000, /* minimum time to wait for an overtaken packet, in ns */
    ACK_SILENCES = 3 /* consecutive timeouts after which the windows are stale */
};

uint32_t dgram_acked_until(const struct dgram_conn *conn, unsigned channel)
{
    uint32_t until = conn->rx[channel].seen.base;
    for (unsigned i = 0; conn->holding != 0 && i < DGRAM_HELD; i++)
        if (conn->held[i].taken && conn->held[i].channel == channel &&
            dgram_diff(conn->held[i].seq, until) < 0)
            until = conn->held[i].seq;
    return until;
}

void dgram_ack_find_gap(struct dgram_conn *conn)
{
    conn->gap = conn->holding != 0;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        if (conn->rx[c].seen.base != conn->rx[c].seen.highest) conn->gap = true;
}

static void dgram_landed(struct dgram_tx *tx, const struct dgram_packet *packet)
{
    tx->in_flight -= packet->len + packet->bulk_len;
    tx->flights--;
}

static void ack_packet(struct dgram_env *env, struct dgram_peer *peer, struct dgram_packet *packet,
                       struct dgram_news *news)
{
    struct dgram_conn *conn = peer->conn;
    struct dgram_tx *tx = &conn->tx[packet->channel];
    tx->ring[packet->seq % tx->ring_size] = NULL;
    if (packet->flying) {
        dgram_list_remove(&tx->flying, packet);
        dgram_landed(tx, packet);
    } else {
        dgram_list_remove(&conn->lost, packet);
    }
    news->bytes += packet->len + packet->bulk_len;
    if (packet->tries == 1 && packet->sent != 0) {
        news->sent = aqi_max(news->sent, packet->sent);
        news->first = aqi_min(news->first, packet->sent);
    }
    if (packet->tries > 1 && packet->flying && packet->sent > news->again) {
        news->again = packet->sent;
        news->since = packet->first;
    }
    /* Overtaken, but not lost: no retransmission could have been acknowledged yet. */
    if (packet->overtaken && (!packet->flying || env->now - packet->sent < conn->pace.base / 2))
        conn->reorder = (unsigned)aqi_min(2 * conn->reorder, ACK_REORDER_MOST);
    if (packet->release != 0) {
        conn->held[packet->release - 1].taken = false;
        conn->holding--;
        conn->ack_now = true;
        dgram_ack_find_gap(conn);
    }
    struct dgram_op *op = packet->op, *next;
    struct dgram_op *small = packet->ops, *head = packet->heads;
    dgram_packet_free(env, packet);
    if (op != NULL) dgram_op_acked(env, peer, op);
    for (; small != NULL; small = next) {
        next = small->next_in_packet;
        dgram_op_acked(env, peer, small);
    }
    for (; head != NULL; head = next) {
        next = head->next_head;
        dgram_op_acked(env, peer, head);
    }
}

/*
 * Sample the response time and, if known, the RTT of the path, which excludes the time that the
 * packet waited at the peer and the acknowledgement waited here.
 */
static void ack_time(struct dgram_env *env, struct dgram_conn *conn, const struct dgram_news *news,
                     bool silent)
{
    uint64_t all = env->now - news->sent, held = (uint64_t)conn->delay * 1000;
    /* Earlier acknowledgements may have been lost, so limit the sample. The estimate still follows
     * a path that has become longer, in several steps. */
    uint64_t most = silent ? 4 * dgram_pace_timeout(&conn->pace, 0) : UINT64_MAX;
    dgram_pace_response(&conn->pace, aqi_min(env->now - news->first, most));
    /* The delay is that of the newest arrival, which may be a retransmission. It may exceed the
     * total time, as the peer does not read its clock for each packet. */
    if (conn->delay == UINT16_MAX || env->arrived <= news->sent + held) return;
    if (news->again > news->sent) return;
    uint64_t rtt = aqi_min(env->arrived - news->sent - held, most);
    dgram_pace_sample(&conn->pace, rtt, aqi_max(all, rtt) - rtt, env->now);
}

/* Whether this acknowledges the retransmission. If the packet reached the peer before the
 * retransmission was sent, it was the first transmission that arrived. The time that the
 * acknowledgement waited here does not count. */
static bool ack_is_of_latest(const struct dgram_env *env, const struct dgram_conn *conn,
                             const struct dgram_news *news)
{
    return conn->delay != UINT16_MAX && env->arrived > news->again + (uint64_t)conn->delay * 1000;
}

/*
 * Detect spurious retransmissions. If this acknowledgement repeats an earlier one, that one was
 * lost, and the retransmission was needed. A new one may be for either transmission: if it is for
 * the first, the second was spurious, and the peer reports a duplicate now or soon. Duplicates
 * reported later were made by the network.
 */
static void ack_judge(struct dgram_env *env, struct dgram_conn *conn, const struct dgram_news *news)
{
    if (news->again != 0) {
        conn->doubt = news->old ? 0 : env->now - news->since;
        conn->doubt_until = env->now + conn->doubt;
        conn->doubt_of_tail = conn->tails != 0;
        if (news->old && conn->tails != 0) dgram_pace_probe_needed(&conn->pace);
    }
    if (conn->doubt == 0 || !news->repeated || env->now > conn->doubt_until) return;
    /* If every packet is retransmitted before its response arrives, there are no other samples of
     * the response time. */
    dgram_pace_response(&conn->pace, conn->doubt);
    conn->backoff = 0;
    if (conn->doubt_of_tail) dgram_pace_probe_spurious(&conn->pace);
    conn->doubt = 0;
}

/* No duplicate was reported, so the last tail probe was not spurious. */
static void ack_end_doubt(struct dgram_conn *conn)
{
    if (conn->doubt != 0 && conn->doubt_of_tail) dgram_pace_probe_needed(&conn->pace);
    conn->doubt = 0;
}

static void ack_use_news(struct dgram_env *env, struct dgram_peer *peer,
                         const struct dgram_news *news)
{
    struct dgram_conn *conn = peer->conn;
    ack_judge(env, conn, news);
    if (news->bytes == 0) return;
    bool silent = conn->silences != 0 || conn->tails != 0;
    conn->silences = 0;
    conn->tails = 0;
    /* The response to a retransmission also acknowledges packets that arrived long before: too late
     * to sample their response time. */
    bool timed = news->sent != 0 && !(silent && news->again != 0);
    /* A retransmitted packet yields no sample (Karn). A single timeout most likely was a loss;
     * after several, keep the backoff until there is a sample, or more packets are in flight. */
    bool more = dgram_in_flight(conn) != 0;
    if (timed || more || conn->backoff == 1) conn->backoff = 0;
    if (timed) ack_time(env, conn, news, silent);
    if (silent && news->again > conn->recovered && ack_is_of_latest(env, conn, news))
        conn->recovered = news->again;
    dgram_pace_acked(&conn->pace, news->bytes, env->now);
    dgram_make_ready(env, peer);
}

static void ack_move_base(struct dgram_tx *tx)
{
    while (tx->base != tx->next && tx->ring[tx->base % tx->ring_size] == NULL)
        tx->base++;
}

bool dgram_ack_head(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_head *head,
                    struct dgram_news *news)
{
    struct dgram_conn *conn = peer->conn;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        if (dgram_diff(head->ack[c], conn->tx[c].next) > 0) return false;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        struct dgram_tx *tx = &conn->tx[c];
        for (; dgram_diff(head->ack[c], tx->base) > 0; tx->base++) {
            struct dgram_packet *packet = tx->ring[tx->base % tx->ring_size];
            if (packet != NULL) ack_packet(env, peer, packet, news);
        }
        ack_move_base(tx);
    }
    conn->delay = head->delay;
    return true;
}

static void ack_lost(struct dgram_conn *conn, struct dgram_packet *packet)
{
    struct dgram_tx *tx = &conn->tx[packet->channel];
    dgram_list_remove(&tx->flying, packet);
    dgram_landed(tx, packet);
    packet->flying = packet->overtaken = false;
    dgram_list_append(&conn->lost, packet);
}

/* ns after which an overtaken packet is lost: the RTT plus a reordering window, which widens if
 * packets were declared lost too early (RFC 8985). */
static uint64_t ack_late(const struct dgram_conn *conn)
{
    unsigned quarters = (unsigned)aqi_min(conn->reorder / DGRAM_REORDER, 4);
    return conn->pace.srtt + aqi_max(quarters * conn->pace.srtt / 4, ACK_LATE);
}

/*
 * Packets sent well before the latest one that has arrived are lost: `reorder` transmissions before
 * it, or `late` ns ago. For one on COMMAND that is not due yet, set a timer. On DATA later
 * acknowledgements show the loss, and flows that react faster share an overflowing queue less
 * evenly.
 */
static void ack_find_overtaken(struct dgram_env *env, struct dgram_peer *peer, struct dgram_tx *tx)
{
    struct dgram_conn *conn = peer->conn;
    struct dgram_packet *packet;
    tx->overdue_at = AQI_DGRAM_NEVER;
    while ((packet = tx->flying.first) != NULL) {
        int32_t behind = dgram_diff(tx->latest, packet->order);
        if (behind <= 0) break;
        bool old = packet->sent != 0 && env->now - packet->sent >= tx->late;
        if (behind < (int32_t)conn->reorder && !old) {
            if (packet->channel == AQI_DGRAM_COMMAND && packet->sent != 0)
                tx->overdue_at = packet->sent + tx->late;
            break;
        }
        dgram_pace_lost(&conn->pace, packet->len + packet->bulk_len);
        ack_lost(conn, packet);
        packet->overtaken = true;
        dgram_make_ready(env, peer);
    }
}

static void ack_find_lost(struct dgram_env *env, struct dgram_peer *peer, struct dgram_tx *tx,
                          uint16_t order)
{
    struct dgram_conn *conn = peer->conn;
    uint32_t newest = tx->order - 1;
    tx->latest = newest - (uint16_t)((uint16_t)newest - order);
    /* Do not count the time that the latest one waited at the peer. */
    tx->late = ack_late(conn);
    if (conn->delay != UINT16_MAX) tx->late += (uint64_t)conn->delay * 1000;
    ack_find_overtaken(env, peer, tx);
}

bool dgram_ack_overdue(struct dgram_env *env, struct dgram_peer *peer)
{
    bool found = false;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        struct dgram_tx *tx = &peer->conn->tx[c];
        if (tx->overdue_at > env->now) continue;
        ack_find_overtaken(env, peer, tx);
        found = true;
    }
    return found;
}

/* A retransmission has arrived after timeouts. Packets sent well before it and covered neither by
 * its acknowledgement nor by SACKs are lost (as in RACK, RFC 8985). */
void dgram_ack_recovered(struct dgram_conn *conn)
{
    uint64_t late = ack_late(conn);
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        struct dgram_packet *packet;
        while ((packet = conn->tx[c].flying.first) != NULL && packet->sent != 0 &&
               packet->sent + late < conn->recovered) {
            dgram_pace_lost(&conn->pace, packet->len + packet->bulk_len);
            ack_lost(conn, packet);
        }
    }
    conn->recovered = 0;
}

void dgram_ack_too_large(const struct dgram_env *env, struct dgram_conn *conn)
{
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        for (struct dgram_packet *packet = conn->tx[c].flying.first, *next; packet != NULL;
             packet = next) {
            next = packet->next;
            if (dgram_packet_size(env, packet) > conn->packet) ack_lost(conn, packet);
        }
}

void dgram_ack_asked(struct dgram_env *env, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    uint64_t late = ack_late(conn);
    if (conn->pace.srtt == 0) return;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        struct dgram_tx *tx = &conn->tx[c];
        /* Acknowledgements of the bulk behind it show the loss. */
        if (tx->base == tx->next || (c == AQI_DGRAM_DATA && tx->flights > 1)) continue;
        struct dgram_packet *packet = tx->ring[tx->base % tx->ring_size];
        if (!packet->flying || packet->sent == 0 || packet->sent + late >= env->arrived) continue;
        dgram_pace_lost(&conn->pace, packet->len + packet->bulk_len);
        ack_lost(conn, packet);
        dgram_make_ready(env, peer);
    }
}

bool dgram_ack_sack(struct dgram_env *env, struct dgram_peer *peer,
                    const struct dgram_record *record, const unsigned char *words, size_t nbytes,
                    struct dgram_news *news)
{
    struct dgram_conn *conn = peer->conn;
    if (record->flags >= AQI_DGRAM_CHANNELS) return false;
    struct dgram_tx *tx = &conn->tx[record->flags];
    for (size_t w = 0; w < nbytes / 8; w++) {
        uint64_t word;
        memcpy(&word, words + 8 * w, 8);
        for (; word != 0; word &= word - 1) {
            uint32_t seq = record->id + 1 + (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(word);
            if (dgram_diff(seq, tx->base) < 0) continue;
            if (dgram_diff(seq, tx->next) >= 0) return false;
            struct dgram_packet *packet = tx->ring[seq % tx->ring_size];
            if (packet != NULL) ack_packet(env, peer, packet, news);
        }
    }
    ack_move_base(tx);
    news->gaps[record->flags] = true;
    news->order[record->flags] = (uint16_t)record->where;
    return true;
}

void dgram_ack_done(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_news *news)
{
    ack_use_news(env, peer, news);
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        if (news->gaps[c]) ack_find_lost(env, peer, &peer->conn->tx[c], news->order[c]);
}

/* ns until the oldest packet is retransmitted: the delays of tail probes, then the timeout. */
static uint64_t ack_probe_timeout(const struct dgram_conn *conn)
{
    uint64_t timeout = dgram_pace_timeout(&conn->pace, conn->backoff);
    if (conn->tails == ACK_TAILS || conn->backoff != 0) return timeout;
    return aqi_min(dgram_pace_tail(&conn->pace) << conn->tails, timeout);
}

void dgram_ack_set_probe(struct dgram_env *env, struct dgram_conn *conn)
{
    conn->probe_at = AQI_DGRAM_NEVER;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        const struct dgram_tx *tx = &conn->tx[c];
        const struct dgram_packet *oldest = tx->flying.first;
        if (oldest == NULL) continue;
        uint64_t sent = oldest->sent != 0 ? aqi_max(oldest->sent, tx->probed) : env->now;
        uint64_t at = sent + ack_probe_timeout(conn);
        conn->probe_at = aqi_min(conn->probe_at, aqi_min(at, tx->overdue_at));
    }
    if (conn->probe_at == AQI_DGRAM_NEVER && conn->own_ops != 0)
        conn->probe_at = aqi_max(conn->heard, conn->asked) + env->config.rto_max;
}

void dgram_ack_timeout(struct dgram_env *env, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    if (conn->tx[AQI_DGRAM_COMMAND].flying.first == NULL &&
        conn->tx[AQI_DGRAM_DATA].flying.first == NULL) {
        /* The response to a get is late: check that the peer is alive. */
        conn->asked = env->now;
        conn->asks = conn->ack_now = true;
        dgram_make_ready(env, peer);
        return;
    }
    uint64_t timeout = ack_probe_timeout(conn);
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        struct dgram_tx *tx = &conn->tx[c];
        struct dgram_packet *oldest = tx->flying.first;
        if (oldest == NULL || oldest->sent == 0) continue;
        if (aqi_max(oldest->sent, tx->probed) + timeout > env->now) continue;
        tx->probed = env->now;
        ack_lost(conn, oldest);
        if (conn->probes < AQI_DGRAM_CHANNELS) conn->probes++;
    }
    dgram_count(env, AQI_DGRAM_TIMEOUTS);
    dgram_make_ready(env, peer);
    ack_end_doubt(conn);
    if (timeout < dgram_pace_timeout(&conn->pace, 0)) {
        conn->tails++;
        return;
    }
    conn->silences++;
    if (conn->backoff < UINT8_MAX) conn->backoff++;
    if (conn->silences == ACK_SILENCES) dgram_pace_silent(&conn->pace);
}
