/*
 * Connections: made on first use by four packets, closed when idle.
 *
 *   HELLO      the initiator: its epoch and a nonce
 *   CHALLENGE  the other side: its nonce, which it can recompute and so need not remember
 *   CONFIRM    both nonces, padded to the largest packet
 *   ACCEPT     likewise: now both know the cookies, derived from the nonces and the job's key
 *
 * Each carries a MAC with the job's key; packets without a valid one are not answered. A replayed
 * CONFIRM of an earlier connection is rejected by its nonce, as nonces only grow. If both sides
 * begin, the connection of the one with the lower id prevails.
 *
 * CONFIRM and its ACCEPT verify that the path carries the largest packet. After some tries, each
 * round sends smaller sizes between two packets of the largest. A round is conclusive only if a
 * small packet is answered and neither of the large ones, which passed the same buffers at the same
 * time. After several such rounds, each twice as long as the one before, and more of them if a
 * small packet was lost, the path is known not to carry the largest. The size that it carries is
 * known by then, or found by further rounds (search.h; RFC 8899 searches likewise, but with packets
 * of a connection). The initiator then sends a CONFIRM of that size marked as agreed, and an ACCEPT
 * with the same mark ends the search. If buffers are full, the small packets are lost as well and
 * nothing is concluded; the rounds after that are short, so that they fit.
 */
#include "base/mac.h"
#include "dgram/handshake.h"

#include <stdlib.h>

static_assert(DGRAM_TAG == AQI_MAC_BYTES, "tags are compared as those of libcrypto");

enum {
    CONNECT_FIRST_PAUSE = 2000000, /* ns; doubled with each try */
    CONNECT_LAST_PAUSE = 500000000,
    CONNECT_GIVE_UP = 2 * CONNECT_LAST_PAUSE,
    CONNECT_ANEW = 10,       /* tries before starting over: the challenge may be too old */
    CONNECT_GOING_ON = 7,    /* number of the first try of a resumed search, for longer pauses */
    CONNECT_LARGE_TRIES = 2, /* tries with the largest packet alone */
    CONNECT_RESET_PAUSE = 1000000
};

/* --- keys --------------------------------------------------------------------------------------
 */

/* Each use of the key has a name, so that no hash is valid for another. */
static void connect_mac(const struct aqi_dgram *dgram, const char *use, const uint8_t key[16],
                        const void *bytes, size_t len, uint8_t tag[DGRAM_TAG])
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    dgram->env.hooks.mac(dgram->env.hooks.arg, use, key, &iov, 1, tag);
}

static void connect_sign(const struct aqi_dgram *dgram, const struct connect_hello *hello,
                         uint8_t tag[DGRAM_TAG])
{
    connect_mac(dgram, "udp handshake", dgram->env.config.key, hello,
                offsetof(struct connect_hello, tag), tag);
}

bool dgram_tag_ok(const struct aqi_dgram *dgram, const struct dgram_conn *conn,
                  const unsigned char *packet, size_t len)
{
    uint8_t tag[DGRAM_TAG];
    connect_mac(dgram, NULL, conn->mac_key, packet, len - DGRAM_TAG, tag);
    return aqi_mac_same(tag, packet + len - DGRAM_TAG);
}

/* Derive cookies and key of a connection that `first` has begun with `second`. */
static void connect_keys(const struct aqi_dgram *dgram, struct dgram_conn *conn, uint32_t first,
                         uint32_t second, const uint64_t nonces[2])
{
    struct {
        uint32_t first, second;
        uint64_t nonces[2];
    } of = {first, second, {nonces[0], nonces[1]}};
    uint64_t cookies[2];
    connect_mac(dgram, "udp cookies", dgram->env.config.key, &of, sizeof(of), (uint8_t *)cookies);
    for (unsigned i = 0; i < 2; i++)
        if (cookies[i] == DGRAM_HANDSHAKE) cookies[i]++;
    bool begun = first == dgram->env.config.self;
    conn->cookie_out = cookies[begun];
    conn->cookie_in = cookies[!begun];
    connect_mac(dgram, "udp packets", dgram->env.config.key, &of, sizeof(of), conn->mac_key);
    memcpy(conn->nonces, nonces, sizeof(conn->nonces));
}

/* The nonce of our challenge, derived from the HELLO, a secret, and the period: now, or `age`
 * before. */
static uint64_t connect_challenge(const struct aqi_dgram *dgram, const struct connect_hello *hello,
                                  uint64_t age)
{
    enum { PERIOD_SHIFT = 33 }; /* 8.6 s */
    struct {
        uint32_t source, unused;
        uint64_t epoch, nonce, period;
    } of = {hello->source, 0, hello->epoch, hello->nonces[0],
            (dgram->env.now >> PERIOD_SHIFT) - age};
    uint64_t tag[2];
    connect_mac(dgram, "udp challenge", dgram->env.config.secret, &of, sizeof(of), (uint8_t *)tag);
    return tag[0];
}

/* Whether it carries the nonce of a recent challenge of ours. */
static bool connect_challenged(const struct aqi_dgram *dgram, const struct connect_hello *hello)
{
    return hello->nonces[1] == connect_challenge(dgram, hello, 0) ||
           hello->nonces[1] == connect_challenge(dgram, hello, 1);
}

/* --- connections -------------------------------------------------------------------------------
 */

static void connect_pace_init(const struct aqi_dgram *dgram, struct dgram_conn *conn, size_t packet)
{
    const struct aqi_dgram_config *config = &dgram->env.config;
    dgram_pace_init(&conn->pace, packet, config->window, config->reach, config->rto_min,
                    config->rto_max);
}

static void connect_conn_init(const struct aqi_dgram *dgram, struct dgram_conn *conn)
{
    conn->packet = aqi_min(AQI_DGRAM_LEAST_PACKET, dgram->env.config.packet);
    conn->room = 64 << 10;
    conn->ack_at = conn->probe_at = conn->pace_at = conn->shrink_at = AQI_DGRAM_NEVER;
    conn->heard = conn->used = dgram->env.now;
    conn->reorder = DGRAM_REORDER;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        conn->tx[c].overdue_at = AQI_DGRAM_NEVER;
    connect_pace_init(dgram, conn, conn->packet);
}

aq_status dgram_conn_make(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    if (peer->conn != NULL) return AQ_OK;
    struct dgram_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) return AQ_AGAIN;
    connect_conn_init(dgram, conn);
    conn->bulk_end = &conn->bulk;
    peer->conn = conn;
    dgram->conns++;
    return AQ_OK;
}

static void connect_free_packets(struct aqi_dgram *dgram, struct dgram_list *list)
{
    struct dgram_packet *next;
    for (struct dgram_packet *packet = list->first; packet != NULL; packet = next) {
        next = packet->next;
        dgram_packet_free(&dgram->env, packet);
    }
    *list = (struct dgram_list){0};
}

void dgram_conn_free(struct aqi_dgram *dgram, struct dgram_peer *peer, aq_status status)
{
    struct dgram_conn *conn = peer->conn;
    if (conn == NULL) return;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        connect_free_packets(dgram, &conn->tx[c].flying);
        connect_free_packets(dgram, &conn->tx[c].queue);
        free(conn->tx[c].ring);
        conn->tx[c] = (struct dgram_tx){0};
    }
    connect_free_packets(dgram, &conn->lost);
    while (conn->ops != NULL) {
        conn->ops->flying = 0;
        dgram_op_fail(&dgram->env, peer, conn->ops, status);
    }
    dgram_receive_free(dgram, conn);
    if (conn->cookie_in != 0) peer->last_cookie = conn->cookie_in;
    if (conn->active_until != 0) dgram->env.actives--;
    if (conn->own) dgram->own--;
    if (conn->busy) dgram->busy--;
    dgram->conns--;
    peer->conn = NULL;
    free(conn);
}

/* The connection has been closed: move its unacknowledged packets to the next one. */
static void connect_begin_again(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    for (unsigned c = AQI_DGRAM_CHANNELS; c-- > 0;) {
        struct dgram_tx *tx = &conn->tx[c];
        for (uint32_t seq = tx->next; seq-- != tx->base;) {
            struct dgram_packet *packet = tx->ring[seq % tx->ring_size];
            if (packet == NULL) continue;
            dgram_list_remove(packet->flying ? &tx->flying : &conn->lost, packet);
            packet->flying = false;
            packet->tries = packet->release = 0;
            packet->sliced = 0;
            tx->ring[seq % tx->ring_size] = NULL;
            dgram_list_prepend(&tx->queue, packet);
            conn->queued[packet->lane] += packet->len;
        }
        tx->base = tx->next = tx->order = 0;
        tx->in_flight = 0;
        conn->rx[c] = (struct dgram_rx){0};
    }
    dgram_receive_forget_slices(conn);
    memset(conn->held, 0, sizeof(conn->held));
    conn->search = (struct dgram_search){0};
    conn->agreed = conn->accepted = false;
    conn->holding = conn->silences = conn->unacked = 0;
    conn->backoff = 0;
    conn->moves = conn->moved_back = conn->moved_in = 0;
    conn->recovered = 0;
    conn->probes = 0;
    conn->ack_now = conn->gap = conn->untimed = conn->proved = false;
    conn->searching = false;
    conn->ack_at = conn->probe_at = conn->pace_at = conn->shrink_at = AQI_DGRAM_NEVER;
    peer->state = DGRAM_IDLE;
    dgram_make_ready(&dgram->env, peer);
}

void dgram_lose(struct aqi_dgram *dgram, struct dgram_peer *peer, enum aqi_dgram_loss loss,
                const char *why)
{
    peer->state = DGRAM_LOST; /* first: without its connection, a peer cannot be up */
    dgram_conn_free(dgram, peer, AQ_EPEER);
    dgram_kept_forget(dgram, peer);
    dgram_wheel_cancel(&dgram->wheel, &peer->timer);
    dgram->env.hooks.lost(dgram->env.hooks.arg, peer->id, loss, why);
}

/* --- sending -----------------------------------------------------------------------------------
 */

bool dgram_say(struct aqi_dgram *dgram, struct dgram_peer *peer, const struct connect_by *by,
               enum connect_kind kind, const uint64_t nonces[2], size_t packet, size_t fill)
{
    static const unsigned char zeros[AQI_DGRAM_MOST_PACKET];
    struct connect_hello hello = {.magic = DGRAM_HANDSHAKE,
                                  .version = aqi_wire_version(AQI_WIRE_UDP),
                                  .kind = (uint8_t)kind,
                                  .packet = (uint16_t)packet,
                                  .source = dgram->env.config.self,
                                  .target = peer->id,
                                  .epoch = dgram->env.config.epoch,
                                  .nonces = {nonces[0], nonces[1]},
                                  .begun = peer->nonces[0],
                                  .address = by != NULL ? by->own : dgram->env.config.address};
    hello.agreed = (kind == CONNECT_CONFIRM || kind == CONNECT_ACCEPT) && peer->conn->agreed;
    for (unsigned c = 0; c < 2; c++)
        hello.numbers[c] = by != NULL           ? by->numbers[c]
                           : peer->conn != NULL ? peer->conn->tx[c].next
                                                : 0;
    connect_sign(dgram, &hello, hello.tag);
    size_t more = fill > sizeof(hello) ? fill - sizeof(hello) : 0;
    struct iovec iov[2] = {{.iov_base = &hello, .iov_len = sizeof(hello)},
                           {.iov_base = (void *)(uintptr_t)zeros, .iov_len = more}};
    return dgram->env.hooks.transmit(
        dgram->env.hooks.arg, fill != 0 ? AQI_DGRAM_DATA : AQI_DGRAM_COMMAND,
        by != NULL ? &by->to : &peer->addr, iov, more != 0 ? 2 : 1, sizeof(hello) + more, 1);
}

static bool connect_confirm_of(struct aqi_dgram *dgram, struct dgram_peer *peer, size_t packet)
{
    struct connect_by by;
    bool several = dgram_way(dgram, peer, peer->way, &by);
    return dgram_say(dgram, peer, several ? &by : NULL, CONNECT_CONFIRM, peer->nonces, packet,
                     packet);
}

/* Returns false if nothing was sent. The port may never have room for the largest packet. */
static bool connect_confirm(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    uint16_t sizes[DGRAM_SEARCH_SIZES];
    bool largest = conn->agreed || dgram_search_needs_largest(&conn->search);
    /* If a buffer never holds a whole round, large packets must not take the room of small ones. */
    bool rising = conn->search.crowded && !conn->agreed;
    unsigned left = largest && !rising && connect_confirm_of(dgram, peer, peer->packet);
    if (conn->agreed || (peer->tries < CONNECT_LARGE_TRIES && left != 0)) return left != 0;
    unsigned n = dgram_search_sizes(&conn->search, sizes);
    for (unsigned i = 0; i < n; i++)
        left += connect_confirm_of(dgram, peer, sizes[rising ? n - 1 - i : i]);
    left += largest && connect_confirm_of(dgram, peer, peer->packet);
    dgram_search_sent(&conn->search, left == n + largest + (largest && !rising));
    return left != 0;
}

/* A round has ended: check whether the path carries only small packets. */
static void connect_judge(struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    if (conn->agreed || peer->tries <= CONNECT_LARGE_TRIES) return;
    enum dgram_verdict verdict = dgram_search_judge(&conn->search);
    if (verdict == DGRAM_NEARLY) peer->tries--; /* the next round is as long */
    if (verdict != DGRAM_FOUND) return;
    conn->agreed = true;
    peer->packet = conn->search.small;
    peer->tries = 0;
}

/* Bytes of the largest packet worth trying. */
static uint16_t connect_largest(const struct aqi_dgram *dgram, const struct dgram_peer *peer)
{
    const struct aqi_dgram_hooks *hooks = &dgram->env.hooks;
    size_t known = hooks->path != NULL ? hooks->path(hooks->arg, peer->id) : SIZE_MAX;
    return (uint16_t)aqi_min(dgram->env.config.packet, aqi_max(known, AQI_DGRAM_LEAST_PACKET));
}

static bool connect_locate(const struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    const struct aqi_dgram_hooks *hooks = &dgram->env.hooks;
    if (!peer->located) peer->located = hooks->lookup(hooks->arg, peer->id, &peer->addr) == AQ_OK;
    return peer->located;
}

/* Begin a new attempt; answers to earlier ones are ignored. */
static bool connect_hello(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    peer->packet = connect_largest(dgram, peer);
    peer->state = DGRAM_CONNECTING;
    peer->tries = 0;
    peer->nonces[0] = ++dgram->nonce;
    peer->nonces[1] = 0;
    return dgram_way_hello(dgram, peer);
}

/*
 * The pause after the latest try: randomized by up to a quarter, so that peers that began together
 * do not overflow each other's buffers every time.
 */
static uint64_t connect_pause(const struct aqi_dgram *dgram, const struct dgram_peer *peer,
                              bool said)
{
    uint64_t pause = (uint64_t)CONNECT_FIRST_PAUSE << (said ? aqi_min(peer->tries, 16) : 0);
    pause = aqi_min(pause, CONNECT_LAST_PAUSE);
    uint64_t chance = aqi_hash(aqi_hash(dgram->env.config.epoch, dgram->env.config.self),
                               (uint64_t)peer->id << 32 | peer->tries);
    return pause - pause / 4 + (chance >> 32) % (pause / 2);
}

/* Take the next step of a handshake that we have begun or have to begin. */
void dgram_connect_step(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    bool said = true;
    if (peer->state == DGRAM_CLOSING && dgram->env.now >= peer->hello_at) {
        dgram_way_close(dgram, peer);
    } else if (peer->state == DGRAM_IDLE) {
        peer->hello_at = dgram->env.now + CONNECT_FIRST_PAUSE;
        peer->conn->heard = dgram->env.now;
        dgram_silence_begin(&dgram->env, peer->conn);
        if (!connect_locate(dgram, peer)) return;
        if (!peer->reached) peer->way = dgram->way;
        connect_hello(dgram, peer);
        return;
    } else if (peer->state == DGRAM_CONNECTING && dgram->env.now >= peer->hello_at) {
        connect_judge(peer);
        if (peer->nonces[1] != 0 && peer->tries == CONNECT_ANEW) {
            /* This way may carry nothing larger than HELLO. */
            if (peer->conn->search.rounds == 0) peer->way = (peer->way + 1) % AQI_DGRAM_WAYS;
            said = connect_hello(dgram, peer);
        } else if (peer->nonces[1] == 0) {
            said = dgram_way_hello(dgram, peer);
        } else {
            said = connect_confirm(dgram, peer);
        }
    } else {
        return;
    }
    /* Count only tries that were sent. */
    if (said && peer->tries < UINT8_MAX) peer->tries++;
    peer->hello_at = dgram->env.now + connect_pause(dgram, peer, said);
    if (peer->state == DGRAM_CONNECTING) dgram_silence_look(&dgram->env, peer);
    if (dgram_silence_too_long(&dgram->env, peer))
        dgram_lose(dgram, peer, AQI_DGRAM_UNREACHED, "it was never reached");
    else if (dgram->env.config.dead_after != 0 &&
             dgram->env.now - peer->conn->heard > dgram->env.config.dead_after)
        dgram_lose(dgram, peer, AQI_DGRAM_SILENT, "it does not answer");
}

void dgram_connect_close(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    peer->state = DGRAM_CLOSING;
    peer->conn->heard = dgram->env.now;
    peer->tries = 0;
    peer->hello_at = dgram->env.now;
    dgram_connect_step(dgram, peer);
}

/* RESETs for the cookie of the latest connection are limited separately, so that forged cookies
 * cannot suppress them. */
void dgram_connect_reset(struct aqi_dgram *dgram, struct dgram_peer *peer, uint64_t cookie)
{
    uint64_t nonces[2] = {cookie, 0};
    uint64_t *at = &peer->reset_at[cookie == peer->last_cookie];
    if (dgram->env.now < *at || peer->state == DGRAM_LOST) return;
    if (!connect_locate(dgram, peer)) return;
    *at = dgram->env.now + CONNECT_RESET_PAUSE;
    dgram_say(dgram, peer, NULL, CONNECT_RESET, nonces, dgram->env.config.packet, 0);
}

/* --- receiving ---------------------------------------------------------------------------------
 */

static void connect_up(struct aqi_dgram *dgram, struct dgram_peer *peer, size_t packet, bool proved)
{
    struct dgram_conn *conn = peer->conn;
    peer->state = DGRAM_UP;
    peer->reached = true;
    peer->packet = (uint16_t)packet;
    conn->proved = false;
    conn->heard = conn->used = dgram->env.now;
    connect_pace_init(dgram, conn, packet);
    if (proved) dgram_connect_proved(dgram, peer);
    dgram_make_ready(&dgram->env, peer);
}

uint64_t dgram_connect_wait(const struct dgram_conn *conn)
{
    if (conn->proved || !conn->accepted) return 0;
    return conn->accepted_at + CONNECT_FIRST_PAUSE;
}

uint64_t dgram_connect_idle_at(const struct aqi_dgram *dgram, const struct dgram_conn *conn)
{
    if (dgram->env.config.idle_close == 0 || conn->busy) return AQI_DGRAM_NEVER;
    uint64_t at = conn->used + dgram->env.config.idle_close;
    /* The peer may still be searching for the size that the path carries. */
    if (!conn->proved && conn->accepted) at = aqi_max(at, conn->accepted_at + CONNECT_GIVE_UP);
    return at;
}

void dgram_connect_proved(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    if (conn->proved) return;
    conn->proved = true;
    conn->packet = conn->pace.packet = peer->packet;
    dgram_make_ready(&dgram->env, peer);
    if (peer->packet >= dgram->env.config.packet || peer->small_reported || !conn->agreed) return;
    peer->small_reported = true;
    dgram->env.hooks.small_path(dgram->env.hooks.arg, peer->id, peer->packet, true);
}

static void connect_on_hello(struct aqi_dgram *dgram, struct dgram_peer *peer,
                             const struct connect_hello *hello, size_t len)
{
    (void)len;
    uint64_t nonces[2] = {hello->nonces[0], connect_challenge(dgram, hello, 0)};
    dgram_way_answer(dgram, peer, hello, CONNECT_CHALLENGE, nonces,
                     aqi_min(hello->packet, connect_largest(dgram, peer)), 0);
}

static void connect_on_challenge(struct aqi_dgram *dgram, struct dgram_peer *peer,
                                 const struct connect_hello *hello, size_t len)
{
    (void)len;
    if (peer->state != DGRAM_CONNECTING || hello->nonces[0] != peer->nonces[0]) return;
    if (peer->nonces[1] == hello->nonces[1]) return;
    peer->nonces[1] = hello->nonces[1];
    peer->conn->heard = dgram->env.now; /* it answers a fresh nonce, so it is no replay */
    struct connect_by by;
    uint8_t way = 0;
    if (hello->numbers[0] < AQI_DGRAM_WAYS && dgram_way(dgram, peer, hello->numbers[0], &by)) {
        peer->way = way = (uint8_t)hello->numbers[0];
        peer->addr = by.to;
    }
    peer->packet = hello->packet;
    peer->conn->agreed = false; /* the next round may conclude that again */
    dgram_search_begin(&peer->conn->search, peer->packet, way);
    /* A search resumes with rounds that are long enough for it. */
    peer->tries = peer->conn->search.small != 0 ? CONNECT_GOING_ON : 0;
    peer->hello_at = dgram->env.now + connect_pause(dgram, peer, true);
    connect_confirm(dgram, peer);
}

static void connect_accept(struct aqi_dgram *dgram, struct dgram_peer *peer,
                           const struct connect_hello *hello)
{
    struct dgram_conn *conn = peer->conn;
    conn->accepted = true;
    conn->accepted_at = dgram->env.now;
    conn->agreed = hello->agreed != 0;
    dgram_way_adopt(dgram, peer, hello);
    dgram_say(dgram, peer, NULL, CONNECT_ACCEPT, hello->nonces, hello->packet, hello->packet);
}

/* A repeated CONFIRM: our ACCEPT was lost or does not pass, or the peer is trying other sizes.
 * Until it agrees to less, it will use the largest that we have accepted. */
static void connect_accept_again(struct aqi_dgram *dgram, struct dgram_peer *peer,
                                 const struct connect_hello *hello)
{
    struct dgram_conn *conn = peer->conn;
    if (conn->proved || (conn->agreed && hello->agreed == 0)) return;
    if (hello->agreed != 0 || hello->packet > peer->packet) peer->packet = hello->packet;
    conn->heard = dgram->env.now;
    connect_accept(dgram, peer, hello);
}

static void connect_on_confirm(struct aqi_dgram *dgram, struct dgram_peer *peer,
                               const struct connect_hello *hello, size_t len)
{
    if (len < hello->packet) return; /* truncated */
    if (!connect_challenged(dgram, hello)) return;
    if (peer->state == DGRAM_UP && connect_is_current(peer, hello)) {
        connect_accept_again(dgram, peer, hello);
        return;
    }
    if (hello->nonces[0] <= peer->last_nonce) return;
    if (peer->state == DGRAM_CONNECTING && dgram->env.config.self < peer->id) {
        peer->conn->heard = dgram->env.now; /* it is alive, and waits for our CONFIRM */
        return;
    }
    if (dgram_conn_make(dgram, peer) != AQ_OK) return;
    /* We still have the previous connection, which the peer has closed. */
    if (dgram_is_connected(peer)) connect_begin_again(dgram, peer);
    peer->last_nonce = hello->nonces[0];
    connect_keys(dgram, peer->conn, peer->id, dgram->env.config.self, hello->nonces);
    connect_up(dgram, peer, hello->packet, false);
    connect_accept(dgram, peer, hello);
}

static void connect_on_accept(struct aqi_dgram *dgram, struct dgram_peer *peer,
                              const struct connect_hello *hello, size_t len)
{
    if (peer->state != DGRAM_CONNECTING || len < hello->packet) return;
    if (hello->nonces[0] != peer->nonces[0] || hello->nonces[1] != peer->nonces[1]) return;
    peer->conn->heard = dgram->env.now;
    dgram_silence_begin(&dgram->env, peer->conn);
    if (hello->packet != peer->packet || (hello->agreed != 0) != peer->conn->agreed) {
        if (hello->agreed == 0 && !peer->conn->agreed)
            dgram_search_passed(&peer->conn->search, hello->packet);
        return;
    }
    /*
     * If the peer had also begun a connection, it has abandoned it: its late packets must not
     * replace this one.
     */
    if (hello->begun > peer->last_nonce) peer->last_nonce = hello->begun;
    connect_keys(dgram, peer->conn, dgram->env.config.self, peer->id, hello->nonces);
    connect_up(dgram, peer, hello->packet, true);
    dgram->way = peer->way;
    peer->conn->ack_now = true; /* which proves to the peer that we have it */
}

static bool connect_quiet(struct aqi_dgram *dgram, struct dgram_conn *conn)
{
    dgram_note(dgram, conn);
    return !conn->own && conn->ops == NULL && !conn->gap && conn->incoming_count == 0;
}

static void connect_on_close(struct aqi_dgram *dgram, struct dgram_peer *peer,
                             const struct connect_hello *hello, size_t len)
{
    (void)len;
    struct dgram_conn *conn = peer->conn;
    if (connect_is_current(peer, hello)) {
        for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
            if (conn->rx[c].seen.base != hello->numbers[c]) return;
        bool quiet = connect_quiet(dgram, conn);
        if (conn->own || conn->ops != NULL) {
            peer->state = DGRAM_UP; /* even if we were also closing it: there is more to send now */
            dgram_make_ready(&dgram->env, peer);
        }
        if (!quiet) return;
        dgram_conn_free(dgram, peer, AQ_OK);
        peer->state = DGRAM_IDLE;
    } else if (conn != NULL && peer->state == DGRAM_UP) {
        return;
    } else if (peer->state == DGRAM_CONNECTING && hello->nonces[0] == peer->nonces[0]) {
        connect_hello(dgram, peer); /* it has abandoned the connection that we are making */
    }
    dgram_way_answer(dgram, peer, hello, CONNECT_CLOSED, hello->nonces, dgram->env.config.packet,
                     0);
}

static void connect_on_closed(struct aqi_dgram *dgram, struct dgram_peer *peer,
                              const struct connect_hello *hello, size_t len)
{
    (void)len;
    if (!connect_is_current(peer, hello)) return;
    if (!connect_quiet(dgram, peer->conn)) {
        connect_begin_again(dgram, peer);
        return;
    }
    dgram_conn_free(dgram, peer, AQ_OK);
    peer->state = DGRAM_IDLE;
}

static void connect_on_reset(struct aqi_dgram *dgram, struct dgram_peer *peer,
                             const struct connect_hello *hello, size_t len)
{
    (void)len;
    /* It has closed the connection, but we have not. */
    if (dgram_is_connected(peer) && peer->conn->cookie_out == hello->nonces[0])
        connect_begin_again(dgram, peer);
}

/* Whether it is valid: authenticated with the job's key, and addressed to us. */
static bool connect_check(struct aqi_dgram *dgram, const unsigned char *packet, size_t len,
                          struct connect_hello *hello)
{
    uint8_t tag[DGRAM_TAG];
    enum aqi_dgram_counter why = AQI_DGRAM_DROP_SHORT;
    if (len < sizeof(*hello)) goto drop;
    memcpy(hello, packet, sizeof(*hello));
    why = AQI_DGRAM_DROP_VERSION;
    if (hello->version != aqi_wire_version(AQI_WIRE_UDP)) goto drop;
    why = AQI_DGRAM_DROP_MAC;
    connect_sign(dgram, hello, tag);
    if (!aqi_mac_same(tag, hello->tag)) goto drop;
    why = AQI_DGRAM_DROP_MALFORMED;
    if (hello->target != dgram->env.config.self || hello->kind >= CONNECT_KINDS) goto drop;
    if (hello->packet < aqi_min(AQI_DGRAM_LEAST_PACKET, dgram->env.config.packet) ||
        hello->packet % 16 != 0 || hello->packet > AQI_DGRAM_MOST_PACKET)
        goto drop;
    if (hello->address.len > sizeof(hello->address.bytes)) goto drop;
    return true;
drop:
    dgram_count(&dgram->env, why);
    return false;
}

/* Whether it answers our latest packet, so that it cannot be a replay. */
static bool connect_fresh(const struct aqi_dgram *dgram, const struct dgram_peer *peer,
                          const struct connect_hello *hello)
{
    switch (hello->kind) {
    case CONNECT_CHALLENGE:
    case CONNECT_ACCEPT:
        return peer->state == DGRAM_CONNECTING && hello->nonces[0] == peer->nonces[0];
    case CONNECT_CONFIRM:
        return connect_challenged(dgram, hello);
    case CONNECT_RESET:
        return peer->conn != NULL && peer->conn->cookie_out == hello->nonces[0];
    default:
        return false;
    }
}

/* Whether the sender is still the same process. The first fresh packet shows its epoch. */
static bool connect_epoch(struct aqi_dgram *dgram, struct dgram_peer *peer,
                          const struct connect_hello *hello)
{
    /* The epoch in other packets is not trusted. */
    if (!connect_fresh(dgram, peer, hello)) return true;
    if (peer->met && peer->epoch != hello->epoch) {
        dgram_lose(dgram, peer, AQI_DGRAM_BROKEN, "it has ended: another process has its address");
        return false;
    }
    peer->met = true;
    peer->epoch = hello->epoch;
    return true;
}

static void (*const connect_handlers[CONNECT_KINDS])(struct aqi_dgram *, struct dgram_peer *,
                                                     const struct connect_hello *, size_t) = {
    [CONNECT_HELLO] = connect_on_hello,        [CONNECT_CHALLENGE] = connect_on_challenge,
    [CONNECT_CONFIRM] = connect_on_confirm,    [CONNECT_ACCEPT] = connect_on_accept,
    [CONNECT_CLOSE] = connect_on_close,        [CONNECT_CLOSED] = connect_on_closed,
    [CONNECT_RESET] = connect_on_reset,        [CONNECT_MOVE] = dgram_way_on_move,
    [CONNECT_MOVED] = dgram_way_on_moved,      [CONNECT_PROBE] = dgram_shrink_on_probe,
    [CONNECT_PROBED] = dgram_shrink_on_probed,
};

void dgram_connect_input(struct aqi_dgram *dgram, const unsigned char *packet, size_t len)
{
    struct connect_hello hello;
    if (!connect_check(dgram, packet, len, &hello)) return;
    struct dgram_peer *peer = dgram_peer_of(dgram, hello.source);
    if (peer == NULL || peer->state == DGRAM_LOST) return;
    if (!peer->located) {
        peer->addr = hello.address;
        peer->located = true;
    }
    if (!connect_epoch(dgram, peer, &hello)) return;
    dgram->heard = dgram->env.now;
    if (connect_handlers[hello.kind] != NULL)
        connect_handlers[hello.kind](dgram, peer, &hello, len);
    dgram_set_timer(dgram, peer);
}
