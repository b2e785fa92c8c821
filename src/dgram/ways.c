/*
 * Ways to a peer that has several addresses. The initiator sends HELLO by one way, soon by all, and
 * continues with the one that is answered first (in the spirit of RFC 8305); its packets contain
 * its address for that way, to which the peer replies. When packets stop arriving, each end
 * probes for another way independently: it sends MOVE by all ways, and the peer answers with MOVED.
 * Both are as long as the largest packet of the connection, since packets in flight should fit the
 * new way. If no way carries that much, one that carries less is used (shrink.c).
 */
#include "dgram/handshake.h"

#include <string.h>

enum {
    WAYS_LEAD = 6,                /* tries by one way, or 126 ms, before all are tried */
    WAYS_MOVE_AFTER = 1000000000, /* ns of silence before other ways are probed */
    WAYS_ANY_AFTER = 3000000000   /* and before one that carries less is accepted */
};

bool dgram_way(const struct aqi_dgram *dgram, const struct dgram_peer *peer, unsigned way,
               struct connect_by *by)
{
    const struct aqi_dgram_hooks *hooks = &dgram->env.hooks;
    *by = (struct connect_by){.numbers = {way}};
    return hooks->way != NULL && hooks->way(hooks->arg, peer->id, way, &by->to, &by->own);
}

bool dgram_way_answer(struct aqi_dgram *dgram, struct dgram_peer *peer,
                      const struct connect_hello *hello, enum connect_kind kind,
                      const uint64_t nonces[2], size_t packet, size_t fill)
{
    bool several = dgram->env.hooks.way != NULL;
    const struct connect_by by = {.to = several ? hello->address : peer->addr,
                                  .own = dgram->env.config.address,
                                  .numbers = {hello->numbers[0], hello->numbers[1]}};
    return dgram_say(dgram, peer, &by, kind, nonces, packet, fill);
}

void dgram_way_adopt(const struct aqi_dgram *dgram, struct dgram_peer *peer,
                     const struct connect_hello *hello)
{
    if (dgram->env.hooks.way != NULL) peer->addr = hello->address;
}

bool dgram_way_hello(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct connect_by by;
    bool said = false;
    if (dgram->env.hooks.way == NULL)
        return dgram_say(dgram, peer, NULL, CONNECT_HELLO, peer->nonces, peer->packet, 0);
    for (unsigned i = 0; i < AQI_DGRAM_WAYS && (!said || peer->tries >= WAYS_LEAD); i++)
        if (dgram_way(dgram, peer, (peer->way + i) % AQI_DGRAM_WAYS, &by))
            said |= dgram_say(dgram, peer, &by, CONNECT_HELLO, peer->nonces, peer->packet, 0);
    return said;
}

/* Whether there is a way that is not in use. */
static bool ways_others(const struct aqi_dgram *dgram, const struct dgram_peer *peer)
{
    struct connect_by by;
    for (unsigned way = 0; way < AQI_DGRAM_WAYS; way++)
        if (dgram_way(dgram, peer, way, &by) && memcmp(&by.to, &peer->addr, sizeof(by.to)) != 0)
            return true;
    return false;
}

static void ways_move(struct aqi_dgram *dgram, struct dgram_peer *peer, struct connect_by *by,
                      size_t size)
{
    by->numbers[1] = ++peer->conn->moves;
    dgram_say(dgram, peer, by, CONNECT_MOVE, peer->conn->nonces, size, size);
}

void dgram_way_ask(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    struct connect_by by;
    if (conn->waited < WAYS_MOVE_AFTER || !ways_others(dgram, peer)) return;
    for (unsigned way = 0; way < AQI_DGRAM_WAYS; way++) {
        if (!dgram_way(dgram, peer, way, &by)) continue;
        ways_move(dgram, peer, &by, conn->packet);
        if (conn->waited >= WAYS_ANY_AFTER) ways_move(dgram, peer, &by, AQI_DGRAM_LEAST_PACKET);
    }
}

/* Numbers only grow, so replayed packets are ignored. */
void dgram_way_on_move(struct aqi_dgram *dgram, struct dgram_peer *peer,
                       const struct connect_hello *hello, size_t len)
{
    if (dgram->env.hooks.way == NULL || len < hello->packet) return;
    if (peer->state == DGRAM_IDLE) {
        /* The peer's other packets, which a RESET would answer, do not arrive. */
        dgram_way_adopt(dgram, peer, hello);
        dgram_way_answer(dgram, peer, hello, CONNECT_CLOSED, hello->nonces,
                         dgram->env.config.packet, 0);
    }
    if (!connect_is_current(peer, hello) || hello->numbers[1] <= peer->conn->moved_in) return;
    peer->conn->moved_in = hello->numbers[1];
    peer->conn->searching = false;
    dgram_way_adopt(dgram, peer, hello);
    dgram_way_answer(dgram, peer, hello, CONNECT_MOVED, hello->nonces, hello->packet,
                     hello->packet);
    peer->state = DGRAM_UP; /* it has more to send */
    peer->conn->heard = dgram->env.now;
    peer->conn->ack_now = true;
    dgram_make_ready(&dgram->env, peer);
}

/* Only the first answer to the MOVEs sent by all ways counts. */
void dgram_way_on_moved(struct aqi_dgram *dgram, struct dgram_peer *peer,
                        const struct connect_hello *hello, size_t len)
{
    struct connect_by by;
    if (!connect_is_current(peer, hello) || hello->numbers[0] >= AQI_DGRAM_WAYS) return;
    if (len < hello->packet) return;
    if (hello->numbers[1] <= peer->conn->moved_back || hello->numbers[1] > peer->conn->moves)
        return;
    if (!dgram_way(dgram, peer, hello->numbers[0], &by)) return;
    peer->conn->moved_back = peer->conn->moves;
    peer->conn->searching = false;
    peer->way = (uint8_t)hello->numbers[0];
    peer->addr = by.to;
    peer->conn->heard = dgram->env.now;
    dgram_make_ready(&dgram->env, peer);
}

/* The numbers in a CLOSE are those of all packets sent. */
bool dgram_way_close(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    struct connect_by by;
    bool said = false;
    if (peer->tries < WAYS_LEAD || dgram->env.hooks.way == NULL)
        return dgram_say(dgram, peer, NULL, CONNECT_CLOSE, conn->nonces, conn->packet, 0);
    for (unsigned way = 0; way < AQI_DGRAM_WAYS; way++) {
        if (!dgram_way(dgram, peer, way, &by)) continue;
        for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
            by.numbers[c] = conn->tx[c].next;
        said |= dgram_say(dgram, peer, &by, CONNECT_CLOSE, conn->nonces, conn->packet, 0);
    }
    return said;
}
