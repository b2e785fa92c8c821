/* The engine: its peers, their timers and turns; and sending messages. */
#include "dgram/dgram_impl.h"

#include "base/fail.h"

#include <stdlib.h>

const char *const aqi_dgram_counter_names[AQI_DGRAM_COUNTERS] = {
    [AQI_DGRAM_SENT] = "sent",
    [AQI_DGRAM_RESENT] = "resent",
    [AQI_DGRAM_RECEIVED] = "received",
    [AQI_DGRAM_ACKS] = "acks",
    [AQI_DGRAM_DUPLICATES] = "duplicates",
    [AQI_DGRAM_TIMEOUTS] = "timeouts",
    [AQI_DGRAM_DROP_SHORT] = "drop_short",
    [AQI_DGRAM_DROP_COOKIE] = "drop_cookie",
    [AQI_DGRAM_DROP_MAC] = "drop_mac",
    [AQI_DGRAM_DROP_WINDOW] = "drop_window",
    [AQI_DGRAM_DROP_MALFORMED] = "drop_malformed",
    [AQI_DGRAM_DROP_VERSION] = "drop_version",
    [AQI_DGRAM_DROP_POOL] = "drop_pool",
};

enum {
    ENGINE_MOST_QUEUED = 256 << 10, /* bytes of requests that may be queued for a peer */
    ENGINE_SOON = 32 << 10,         /* bytes: each time so many are queued, send them */
    ENGINE_AT_ONCE = 1000000,       /* ns after which config.at_once is refilled */
    ENGINE_MANY = 32,               /* packets in that time after which none leave at once */
    ENGINE_TURNS = 64               /* maximum number of peers served per call of progress */
};

/* --- peers -------------------------------------------------------------------------------------
 */

struct dgram_peer *dgram_peer_of(const struct aqi_dgram *dgram, uint32_t id)
{
    return id < dgram->env.config.size ? dgram->peers[id] : NULL;
}

aq_status aqi_dgram_peer(struct aqi_dgram *dgram, uint32_t id)
{
    if (id >= dgram->env.config.size)
        return aqi_fail(AQ_EINVAL, "dgram", "peer id %u is not less than %u", id,
                        dgram->env.config.size);
    if (dgram->peers[id] != NULL) return AQ_OK;
    struct dgram_peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL) return aqi_fail(AQ_ENOMEM, "dgram", "no memory for peer %u", id);
    peer->id = id;
    dgram->peers[id] = peer;
    return AQ_OK;
}

static struct dgram_peer *engine_take_ready(struct aqi_dgram *dgram)
{
    struct dgram_peer *peer = dgram->env.ready;
    if (peer == NULL) return NULL;
    dgram->env.ready = peer->next_ready;
    if (dgram->env.ready == NULL) dgram->env.ready_end = &dgram->env.ready;
    peer->ready = false;
    return peer;
}

/* Excludes what peers on env.ready are about to send. */
void dgram_note(struct aqi_dgram *dgram, struct dgram_conn *conn)
{
    bool own = conn->own_ops != 0 || conn->lost.first != NULL;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        own = own || conn->tx[c].flying.first != NULL || conn->tx[c].queue.first != NULL;
    bool busy = own || conn->ops != NULL || conn->ack_now || conn->ack_at != AQI_DGRAM_NEVER;
    if (own != conn->own) dgram->own += own ? 1 : UINT32_MAX;
    if (busy != conn->busy) dgram->busy += busy ? 1 : UINT32_MAX;
    conn->own = own;
    conn->busy = busy;
}

void dgram_set_timer(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    uint64_t when = AQI_DGRAM_NEVER;
    if (conn != NULL) {
        dgram_note(dgram, conn);
        when = aqi_min(conn->ack_at, conn->pace_at);
        if (peer->state == DGRAM_UP) when = aqi_min(when, aqi_min(conn->probe_at, conn->shrink_at));
        if (conn->active_until != 0) when = aqi_min(when, conn->active_until);
        if (peer->state == DGRAM_UP) when = aqi_min(when, dgram_connect_idle_at(dgram, conn));
        if (peer->state != DGRAM_UP) when = aqi_min(when, peer->hello_at);
    }
    if (when == AQI_DGRAM_NEVER)
        dgram_wheel_cancel(&dgram->wheel, &peer->timer);
    else if (peer->timer.link == NULL || peer->timer.when != when)
        dgram_wheel_set(&dgram->wheel, &peer->timer, when);
}

/* An acknowledgement, or the response to a get, is overdue. */
static void engine_overdue(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_env *env = &dgram->env;
    struct dgram_conn *conn = peer->conn;
    if (dgram_ack_overdue(env, peer)) return;
    if (conn->owed <= conn->heard) {
        conn->owed = env->now;
        dgram_silence_begin(env, conn);
    }
    dgram_silence_look(env, peer);
    dgram_way_ask(dgram, peer);
    if (env->config.dead_after != 0 && env->now - conn->owed > env->config.dead_after)
        dgram_lose(dgram, peer, AQI_DGRAM_SILENT, "it no longer answers");
    else
        dgram_ack_timeout(env, peer);
}

static void engine_timers(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    uint64_t now = dgram->env.now;
    if (conn == NULL) return;
    if (conn->ack_at <= now) {
        conn->ack_at = AQI_DGRAM_NEVER;
        conn->ack_now = true;
        dgram_make_ready(&dgram->env, peer);
    }
    if (conn->pace_at <= now) {
        conn->pace_at = AQI_DGRAM_NEVER;
        dgram_make_ready(&dgram->env, peer);
    }
    if (conn->active_until != 0 && conn->active_until <= now) {
        conn->active_until = 0;
        dgram->env.actives--;
    }
    if (peer->state == DGRAM_UP && conn->probe_at <= now) {
        dgram_ack_set_probe(&dgram->env, conn); /* recomputed: it may have moved */
        if (conn->probe_at <= now) engine_overdue(dgram, peer);
        if (peer->conn == NULL) return; /* the peer was lost */
        dgram_ack_set_probe(&dgram->env, conn);
    }
    if (peer->state == DGRAM_UP && conn->shrink_at <= now) dgram_shrink_look(dgram, peer);
    if (peer->state == DGRAM_UP && dgram_connect_idle_at(dgram, conn) <= now)
        dgram_connect_close(dgram, peer);
    else if (peer->state != DGRAM_UP)
        dgram_connect_step(dgram, peer);
    if (peer->conn != NULL) dgram_set_timer(dgram, peer);
}

/* Send what may leave now. Returns false if the port has no room. */
static bool engine_send_now(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    const struct dgram_conn *conn = peer->conn;
    uint64_t wait = AQI_LIKELY(conn->proved) ? 0 : dgram_connect_wait(conn);
    bool ok = dgram_transmit(&dgram->env, peer, wait);
    dgram_set_timer(dgram, peer);
    return ok;
}

/* Refill at_once, unless the connection has just sent many packets and most likely continues. */
static void engine_allow_at_once(const struct dgram_env *env, struct dgram_conn *conn)
{
    uint32_t sent = conn->tx[AQI_DGRAM_COMMAND].next + conn->tx[AQI_DGRAM_DATA].next;
    bool lately = env->now - conn->at_once_again < ENGINE_AT_ONCE;
    bool many = lately && sent - conn->at_once_sent > ENGINE_MANY;
    conn->at_once = many ? 0 : env->config.at_once;
    conn->at_once_sent = sent;
    conn->at_once_again = env->now + ENGINE_AT_ONCE;
}

/* Leave sending to the next progress. */
static void engine_gather(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    const struct aqi_dgram_hooks *hooks = &dgram->env.hooks;
    dgram_make_ready(&dgram->env, peer);
    if (AQI_LIKELY(dgram->gathers || dgram->receives) || hooks->gathers == NULL) return;
    dgram->gathers = true;
    hooks->gathers(hooks->arg);
}

/*
 * If the program computes after a few messages, the last of them must not wait until it polls; many
 * messages are gathered. Messages that handlers send leave with the progress that follows.
 */
static AQI_COLD void engine_send_at_once(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    const struct dgram_env *env = &dgram->env;
    struct dgram_conn *conn = peer->conn;
    bool may = peer->state == DGRAM_UP && conn->lost.first == NULL;
    if (may && env->now >= conn->at_once_again) engine_allow_at_once(env, conn);
    if (!may || conn->at_once == 0) {
        engine_gather(dgram, peer);
        return;
    }
    conn->at_once--;
    engine_send_now(dgram, peer);
}

void dgram_send_soon(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    conn->used = dgram->env.now;
    if (peer->state == DGRAM_UP && dgram_in_flight(conn) == 0 && conn->lost.first == NULL)
        engine_send_now(dgram, peer);
    else if (AQI_LIKELY((conn->at_once == 0 && dgram->env.now < conn->at_once_again) ||
                        dgram->receives))
        engine_gather(dgram, peer);
    else
        engine_send_at_once(dgram, peer);
}

/* --- progress ----------------------------------------------------------------------------------
 */

/* Returns false if the port has no room. */
static bool engine_turn(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    if (peer->conn == NULL) return true;
    if (peer->state == DGRAM_UP) return engine_send_now(dgram, peer);
    if (peer->state == DGRAM_IDLE) dgram_connect_step(dgram, peer);
    dgram_set_timer(dgram, peer);
    return true;
}

unsigned aqi_dgram_progress(struct aqi_dgram *dgram, bool requests, uint64_t now)
{
    unsigned n = 0;
    bool timed = dgram->env.timed;
    struct dgram_timer *timer;
    if (now > dgram->env.now) dgram->env.now = now;
    dgram->env.timed = true;
    while ((timer = dgram_wheel_expire(&dgram->wheel, dgram->env.now)) != NULL) {
        char *peer = (char *)timer - offsetof(struct dgram_peer, timer);
        engine_timers(dgram, (struct dgram_peer *)(void *)peer);
        n++;
    }
    struct dgram_peer *peer;
    /* The first peer finds the shortest queue at the link and is answered first, so it would be
     * first again the next time: rotate. */
    if (dgram->env.ready != NULL && dgram->env.ready->next_ready != NULL)
        dgram_make_ready(&dgram->env, engine_take_ready(dgram));
    for (unsigned i = 0; i < ENGINE_TURNS && (peer = engine_take_ready(dgram)) != NULL; i++) {
        n++;
        if (!engine_turn(dgram, peer)) break;
    }
    dgram->looked = dgram->env.now;
    dgram->receives = dgram->gathers = false;
    dgram->env.away = 0;
    if (requests && dgram->kept != NULL) n += dgram_kept_deliver(dgram);
    dgram->env.timed = timed;
    return n;
}

void aqi_dgram_set_flag(struct aqi_dgram *dgram)
{
    dgram->env.flagged = true;
}

bool aqi_dgram_has_flag(const struct aqi_dgram *dgram)
{
    return dgram->env.flagged;
}

uint64_t aqi_dgram_deadline(const struct aqi_dgram *dgram)
{
    return dgram->env.ready != NULL ? dgram->env.now : dgram_wheel_next(&dgram->wheel);
}

bool aqi_dgram_quiet(const struct aqi_dgram *dgram, uint32_t id)
{
    if (id == AQI_DGRAM_ALL) return dgram->own == 0 && dgram->env.ready == NULL;
    const struct dgram_peer *peer = dgram_peer_of(dgram, id);
    return peer == NULL || peer->conn == NULL || !(peer->conn->own || peer->ready);
}

bool aqi_dgram_idle(const struct aqi_dgram *dgram)
{
    return dgram->busy == 0 && dgram->env.ready == NULL && dgram->kept == NULL &&
           dgram->park.first == NULL;
}

uint64_t aqi_dgram_heard(const struct aqi_dgram *dgram)
{
    return dgram->heard;
}

bool aqi_dgram_drained(const struct aqi_dgram *dgram, uint64_t now)
{
    return dgram->busy == 0 && dgram->env.ready == NULL && dgram->park.first == NULL &&
           (dgram->conns == 0 || now - dgram->heard > 8 * dgram->env.config.rto_min);
}

void aqi_dgram_down(struct aqi_dgram *dgram, uint32_t id)
{
    struct dgram_peer *peer = dgram_peer_of(dgram, id);
    if (peer == NULL || peer->state == DGRAM_LOST) return;
    peer->state = DGRAM_LOST;
    dgram_wheel_cancel(&dgram->wheel, &peer->timer);
    dgram_conn_free(dgram, peer, AQ_EPEER);
    dgram_kept_forget(dgram, peer);
}

/* --- messages ----------------------------------------------------------------------------------
 */

/* Copy `n` bytes, from `offset` on, of a message: the head, and the body at a multiple of 16. */
static void engine_copy(unsigned char *to, const void *head, size_t head_len, const void *body,
                        size_t body_len, size_t offset, size_t n)
{
    size_t begin = body_len != 0 ? dgram_round16(head_len) : head_len, done = 0;
    if (offset < head_len) {
        done = aqi_min(n, head_len - offset);
        memcpy(to, (const unsigned char *)head + offset, done);
    }
    if (done < n && offset + done < begin) {
        size_t zeros = aqi_min(n - done, begin - offset - done);
        memset(to + done, 0, zeros);
        done += zeros;
    }
    if (done < n)
        memcpy(to + done, (const unsigned char *)body + (offset + done - begin), n - done);
}

static aq_status engine_send_pieces(struct aqi_dgram *dgram, struct dgram_peer *peer, unsigned lane,
                                    const void *head, size_t head_len, const void *body,
                                    size_t body_len, size_t total, struct dgram_op *acked)
{
    struct dgram_conn *conn = peer->conn;
    struct dgram_tx *tx = &conn->tx[AQI_DGRAM_DATA];
    struct dgram_packet *before = tx->queue.last, *packet;
    size_t room = dgram_capacity(&dgram->env, conn, AQI_DGRAM_DATA) - sizeof(struct dgram_head) -
                  sizeof(struct dgram_record);
    uint32_t id = conn->message_ids++;
    for (size_t offset = 0, n; offset < total; offset += n) {
        n = dgram_next_piece(total, total - offset, room);
        struct dgram_record record = {.len = (uint16_t)(sizeof(record) + n),
                                      .kind = DGRAM_FRAGMENT,
                                      .flags = lane == DGRAM_REQUEST_LANE ? DGRAM_IS_REQUEST : 0,
                                      .id = id,
                                      .where = (uint64_t)total << 32 | offset};
        unsigned char *at = dgram_queue_fragment(&dgram->env, peer, lane, &record, n, &packet);
        if (at == NULL) goto undo;
        /* The operation spans several packets, but can be in the list of only one. */
        if (acked != NULL) packet->op = acked;
        if (acked != NULL) acked->flying++;
        engine_copy(at, head, head_len, body, body_len, offset, n);
    }
    return AQ_OK;
undo:
    while ((packet = tx->queue.last) != before) {
        dgram_list_remove(&tx->queue, packet);
        conn->queued[packet->lane] -= packet->len;
        dgram_packet_free(&dgram->env, packet);
    }
    return AQ_AGAIN;
}

static aq_status engine_send_whole(struct aqi_dgram *dgram, struct dgram_peer *peer, unsigned lane,
                                   const void *head, size_t head_len, const void *body,
                                   size_t body_len, size_t total, struct dgram_op *acked)
{
    struct dgram_packet *packet;
    struct dgram_record record = {.len = (uint16_t)total,
                                  .kind = DGRAM_MESSAGE,
                                  .flags = lane == DGRAM_REQUEST_LANE ? DGRAM_IS_REQUEST : 0};
    unsigned char *at = dgram_queue_record(&dgram->env, peer, lane, total, &packet);
    if (at == NULL) return AQ_AGAIN;
    if (acked != NULL) dgram_op_join_packet(acked, packet);
    engine_copy(at, head, head_len, body, body_len, 0, total);
    memcpy(at, &record, 4);
    return AQ_OK;
}

static aq_status engine_send(struct aqi_dgram *dgram, struct dgram_peer *peer, bool reply,
                             const void *head, size_t head_len, const void *body, size_t body_len,
                             struct dgram_op *acked)
{
    struct dgram_conn *conn = peer->conn;
    size_t total = body_len != 0 ? dgram_round16(head_len) + body_len : head_len;
    unsigned lane = reply ? DGRAM_OTHER_LANE : DGRAM_REQUEST_LANE;
    size_t most = reply ? 4 * ENGINE_MOST_QUEUED : ENGINE_MOST_QUEUED;
    if (conn->queued[lane] >= most) return AQ_AGAIN;
    bool whole =
        sizeof(struct dgram_head) + total <= dgram_capacity(&dgram->env, conn, AQI_DGRAM_DATA);
    size_t before = conn->queued[lane] / ENGINE_SOON;
    aq_status st = (whole ? engine_send_whole : engine_send_pieces)(
        dgram, peer, lane, head, head_len, body, body_len, total, acked);
    if (st != AQ_OK) return st;
    if (conn->queued[lane] / ENGINE_SOON > before && peer->state == DGRAM_UP)
        engine_send_now(dgram, peer);
    else
        dgram_send_soon(dgram, peer);
    return AQ_OK;
}

aq_status aqi_dgram_send(struct aqi_dgram *dgram, uint32_t id, bool reply, const void *head,
                         size_t head_len, const void *body, size_t body_len)
{
    struct dgram_peer *peer = dgram_peer_of(dgram, id);
    if (peer == NULL || peer->state == DGRAM_LOST) return AQ_EPEER;
    aq_status st = dgram_conn_make(dgram, peer);
    if (st != AQ_OK) return st;
    return engine_send(dgram, peer, reply, head, head_len, body, body_len, NULL);
}

aq_status aqi_dgram_send_acked(struct aqi_dgram *dgram, uint32_t id, const void *head,
                               size_t head_len, const void *body, size_t body_len, void *user)
{
    enum { MOST_ACKED = 1024 };
    const struct dgram_op init = {.kind = DGRAM_OP_MESSAGE, .user = user};
    struct dgram_peer *peer = dgram_peer_of(dgram, id);
    if (peer == NULL || peer->state == DGRAM_LOST) return AQ_EPEER;
    aq_status st = dgram_conn_make(dgram, peer);
    if (st != AQ_OK) return st;
    if (peer->conn->own_ops >= MOST_ACKED) return AQ_AGAIN;
    struct dgram_op *op = dgram_op_new(&dgram->env, peer, &init);
    if (op == NULL) return AQ_AGAIN;
    st = engine_send(dgram, peer, false, head, head_len, body, body_len, op);
    if (st != AQ_OK) dgram_op_free(&dgram->env, peer, op);
    return st;
}

size_t aqi_dgram_most_cast(const struct aqi_dgram_config *config)
{
    return config->packet - sizeof(struct dgram_head) - (config->authenticate ? DGRAM_TAG : 0);
}

aq_status aqi_dgram_cast(struct aqi_dgram *dgram, uint32_t id, const void *head, size_t head_len,
                         const void *body, size_t body_len)
{
    struct dgram_peer *peer = dgram_peer_of(dgram, id);
    if (peer == NULL || peer->state == DGRAM_LOST) return AQ_EPEER;
    size_t total = body_len != 0 ? dgram_round16(head_len) + body_len : head_len;
    if (total > aqi_dgram_most_cast(&dgram->env.config)) return AQ_ESIZE;
    aq_status st = dgram_conn_make(dgram, peer);
    if (st != AQ_OK) return st;
    if (!dgram_is_connected(peer)) {
        dgram_send_soon(dgram, peer); /* it must be connected first */
        return AQ_AGAIN;
    }
    struct dgram_record record = {
        .len = (uint16_t)total, .kind = DGRAM_LOOSE, .flags = DGRAM_IS_REQUEST};
    unsigned char *frame = dgram->env.gathered, *at = frame + sizeof(struct dgram_head);
    engine_copy(at, head, head_len, body, body_len, 0, total);
    memcpy(at, &record, 4);
    size_t len = sizeof(struct dgram_head) + total;
    return dgram_transmit_loose(&dgram->env, peer, frame, len) ? AQ_OK : AQ_AGAIN;
}

/* --- opening, closing, inspection --------------------------------------------------------------
 */

void aqi_dgram_defaults(struct aqi_dgram_config *config)
{
    *config = (struct aqi_dgram_config){.packet = 1472 & ~15u,
                                        .max_message = (64 << 10) + 512,
                                        .window = 1 << 20,
                                        .reach = 4 << 20,
                                        .room = 1 << 20,
                                        .pool = 512,
                                        .least = 8,
                                        .ack_delay = 50000,
                                        .rto_min = 250000,
                                        .rto_max = 250000000,
                                        .idle_close = 60000000000,
                                        .warn_after = 5000000000};
}

aq_status aqi_dgram_create(const struct aqi_dgram_config *config,
                           const struct aqi_dgram_hooks *hooks, struct aqi_dgram **out)
{
    if (config->packet % 16 != 0 || config->packet < AQI_DGRAM_LEAST_PACKET ||
        config->packet > AQI_DGRAM_MOST_PACKET || config->max_message > UINT32_MAX / 2)
        return aqi_fail(AQ_EINVAL, "dgram", "packets of %zu bytes are not possible",
                        config->packet);
    struct aqi_dgram *dgram = calloc(1, sizeof(*dgram));
    struct dgram_peer **peers = calloc(config->size, sizeof(struct dgram_peer *));
    unsigned char *gathered = malloc(AQI_DGRAM_BURST);
    if (dgram == NULL || peers == NULL || gathered == NULL) {
        free(dgram);
        free(peers);
        free(gathered);
        return aqi_fail(AQ_ENOMEM, "dgram", "no memory for %u peers", config->size);
    }
    dgram->env.config = *config;
    dgram->env.hooks = *hooks;
    dgram->peers = peers;
    dgram->env.gathered = gathered;
    dgram->env.ready_end = &dgram->env.ready;
    dgram->kept_end = &dgram->kept;
    /* So that answers to another process match none of ours. */
    dgram->nonce = config->seed * 0x9e3779b97f4a7c15u >> 2;
    aqi_pool_init(&dgram->env.packets, sizeof(struct dgram_packet), 64, false);
    aqi_pool_init(&dgram->env.frames[AQI_DGRAM_COMMAND], AQI_DGRAM_COMMAND_MAX, 32, false);
    aqi_pool_init(&dgram->env.frames[AQI_DGRAM_DATA], config->packet, 16, false);
    aqi_pool_init(&dgram->env.op_pool, sizeof(struct dgram_op), 64, false);
    aqi_pool_init(&dgram->incoming_pool, sizeof(struct dgram_incoming), 32, false);
    *out = dgram;
    return AQ_OK;
}

void aqi_dgram_destroy(struct aqi_dgram *dgram)
{
    for (uint32_t i = 0; i < dgram->env.config.size; i++) {
        if (dgram->peers[i] == NULL) continue;
        aqi_dgram_down(dgram, i);
        free(dgram->peers[i]);
    }
    for (struct dgram_parked *p; (p = dgram_park_take(&dgram->park)) != NULL;)
        dgram_parked_free(p);
    size_t out = aqi_pool_destroy(&dgram->env.packets) +
                 aqi_pool_destroy(&dgram->env.frames[AQI_DGRAM_COMMAND]) +
                 aqi_pool_destroy(&dgram->env.frames[AQI_DGRAM_DATA]) +
                 aqi_pool_destroy(&dgram->env.op_pool) + aqi_pool_destroy(&dgram->incoming_pool);
    assert(out == 0); /* everything was returned */
    (void)out;
    free(dgram->env.ops);
    free(dgram->env.gathered);
    free(dgram->peers);
    free(dgram);
}

uint64_t aqi_dgram_count(const struct aqi_dgram *dgram, enum aqi_dgram_counter counter)
{
    return dgram->env.counters[counter];
}

bool aqi_dgram_peer_info(const struct aqi_dgram *dgram, uint32_t id,
                         struct aqi_dgram_peer_info *info)
{
    const struct dgram_peer *peer = dgram_peer_of(dgram, id);
    if (peer == NULL) return false;
    const struct dgram_conn *conn = peer->conn;
    *info = (struct aqi_dgram_peer_info){.connected = peer->state == DGRAM_UP,
                                         .lost = peer->state == DGRAM_LOST,
                                         .reached = peer->reached};
    if (peer->located) info->addr = peer->addr;
    if (conn == NULL) return true;
    info->rtt = conn->pace.srtt;
    info->rto = dgram_pace_timeout(&conn->pace, 0);
    info->base_rtt = conn->pace.srtt != 0 ? conn->pace.base : 0;
    info->window = conn->pace.window;
    info->packet = conn->packet;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        info->in_flight += conn->tx[c].in_flight;
    info->queued = conn->queued[DGRAM_REQUEST_LANE] + conn->queued[DGRAM_OTHER_LANE];
    info->sent = conn->sent_count;
    info->resent = conn->resent_count;
    info->received = conn->received_count;
    info->duplicates = conn->duplicate_count;
    return true;
}
