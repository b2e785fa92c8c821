/*
 * Paths that carry less than when the connection was made, for instance because the route now leads
 * through a tunnel. If a large packet was retransmitted repeatedly but is not acknowledged, PROBEs
 * of several sizes are sent between two of the largest, in rounds as when a connection is made
 * (search.h); even a process that computes answers them. The size found is that of new packets, and
 * of the slices in which existing ones are sent (transmit.c).
 */
#include "dgram/handshake.h"

enum {
    SHRINK_SOON = 50000000,  /* minimum ns between two rounds; twice the timeout if that is more */
    SHRINK_LATER = 500000000 /* but at most this */
};

static bool shrink_is_stuck(const struct dgram_env *env, const struct dgram_conn *conn)
{
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        const struct dgram_tx *tx = &conn->tx[c];
        if (tx->base == tx->next) continue;
        if (dgram_stuck_at(env, conn, tx->ring[tx->base % tx->ring_size]) <= env->now) return true;
    }
    return false;
}

static bool shrink_probe(struct aqi_dgram *dgram, struct dgram_peer *peer, size_t size)
{
    struct connect_by by;
    if (!dgram_way(dgram, peer, peer->way, &by)) by.own = dgram->env.config.address;
    by.to = peer->addr;
    by.numbers[0] = peer->way;
    by.numbers[1] = peer->conn->searches;
    return dgram_say(dgram, peer, &by, CONNECT_PROBE, peer->conn->nonces, size, size);
}

static void shrink_round(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    uint16_t sizes[DGRAM_SEARCH_SIZES];
    unsigned n = dgram_search_sizes(&conn->search, sizes);
    unsigned left = shrink_probe(dgram, peer, conn->search.largest);
    for (unsigned i = 0; i < n; i++)
        left += shrink_probe(dgram, peer, sizes[i]);
    left += shrink_probe(dgram, peer, conn->search.largest);
    dgram_search_sent(&conn->search, left == n + 2);
}

static void shrink_to(struct aqi_dgram *dgram, struct dgram_peer *peer, uint16_t size)
{
    struct dgram_conn *conn = peer->conn;
    conn->searching = false;
    conn->judged = dgram->env.now;
    conn->packet = conn->pace.packet = peer->packet = size;
    peer->small_reported = true;
    dgram_ack_too_large(&dgram->env, conn);
    dgram_make_ready(&dgram->env, peer);
    dgram->env.hooks.small_path(dgram->env.hooks.arg, peer->id, size, false);
}

void dgram_shrink_look(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    uint64_t now = dgram->env.now, pause = 2 * dgram_pace_timeout(&conn->pace, 0);
    conn->shrink_at = AQI_DGRAM_NEVER;
    if (!shrink_is_stuck(&dgram->env, conn)) {
        conn->searching = false;
        return;
    }
    if (conn->search.way != peer->way) conn->searching = false;
    if (conn->searching && dgram_search_judge(&conn->search) == DGRAM_FOUND) {
        shrink_to(dgram, peer, conn->search.small);
        return;
    }
    if (!conn->searching) {
        conn->search = (struct dgram_search){0};
        dgram_search_begin(&conn->search, (uint16_t)conn->packet, peer->way);
        conn->searching = true;
        conn->searches++;
    }
    shrink_round(dgram, peer);
    conn->shrink_at = now + aqi_min(aqi_max(pause, SHRINK_SOON), SHRINK_LATER);
}

void dgram_shrink_on_probe(struct aqi_dgram *dgram, struct dgram_peer *peer,
                           const struct connect_hello *hello, size_t len)
{
    if (len < hello->packet) return;
    if (peer->state == DGRAM_IDLE) /* the packets that a RESET would answer do not arrive */
        dgram_way_answer(dgram, peer, hello, CONNECT_CLOSED, hello->nonces,
                         dgram->env.config.packet, 0);
    if (!connect_is_current(peer, hello)) return;
    peer->state = DGRAM_UP; /* it has more to send */
    const struct connect_by by = {.to = peer->addr,
                                  .own = dgram->env.config.address,
                                  .numbers = {hello->numbers[0], hello->numbers[1]}};
    dgram_say(dgram, peer, &by, CONNECT_PROBED, hello->nonces, hello->packet, 0);
}

/* If the largest arrives, the path has not changed: the packet was lost, or the peer computes. */
void dgram_shrink_on_probed(struct aqi_dgram *dgram, struct dgram_peer *peer,
                            const struct connect_hello *hello, size_t len)
{
    struct dgram_conn *conn = peer->conn;
    (void)len;
    if (!connect_is_current(peer, hello) || !conn->searching) return;
    if (hello->numbers[1] != conn->searches) return;
    conn->heard = dgram->env.now;
    if (hello->packet < conn->search.largest) {
        dgram_search_passed(&conn->search, hello->packet);
        return;
    }
    conn->searching = false;
    conn->judged = dgram->env.now;
    conn->shrink_at = conn->judged + DGRAM_STUCK_AFTER;
}
