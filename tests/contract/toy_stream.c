/* toy: streams of packets that are delivered exactly once each, in any order: windows,
 * acknowledgements, timers. */
#include "toy_impl.h"

#include <stdlib.h>
#include <string.h>

bool toy_stream_has_room(const struct toy_peer *peer, enum toy_stream stream)
{
    return peer->tx[stream].next - peer->tx[stream].base < TOY_WINDOW;
}

void toy_stream_send(struct toy_tp *toy, struct toy_peer *peer, enum toy_stream stream,
                     const struct toy_head *head, const void *body, size_t len)
{
    struct toy_tx *tx = &peer->tx[stream];
    struct toy_packet *packet = toy_packet_new(sizeof(*head) + len);
    packet->type = TOY_DATA;
    packet->stream = (uint8_t)stream;
    packet->from = toy->params.self;
    packet->from_cookie = toy->cookie;
    packet->to_cookie = peer->cookie;
    packet->seq = tx->next;
    memcpy(packet->bytes, head, sizeof(*head));
    if (len != 0) memcpy(packet->bytes + sizeof(*head), body, len);
    tx->slot[tx->next % TOY_WINDOW].packet = packet;
    tx->slot[tx->next % TOY_WINDOW].sent = 0;
    tx->slot[tx->next % TOY_WINDOW].pause = TOY_RESEND;
    tx->next++;
    toy_net_send(toy, peer, packet);
}

bool toy_stream_is_new(struct toy_peer *peer, const struct toy_packet *packet)
{
    struct toy_rx *rx = &peer->rx[packet->stream];
    uint32_t ahead = packet->seq - rx->base;
    if (ahead < 32 && (rx->seen & 1u << ahead) == 0) return true;
    rx->ack_at = 1; /* a duplicate is acknowledged at once, as the last acknowledgement was lost */
    return false;
}

void toy_stream_accept(struct toy_tp *toy, struct toy_peer *peer, const struct toy_packet *packet)
{
    struct toy_rx *rx = &peer->rx[packet->stream];
    rx->seen |= 1u << (packet->seq - rx->base);
    while (rx->seen & 1) {
        rx->seen >>= 1;
        rx->base++;
    }
    if (rx->ack_at == 0) rx->ack_at = toy->now + TOY_ACK_DELAY;
    if (++rx->unacked >= TOY_WINDOW / 4) rx->ack_at = 1;
}

static unsigned stream_done(struct toy_tx *tx, uint32_t seq)
{
    struct toy_packet **packet = &tx->slot[seq % TOY_WINDOW].packet;
    unsigned n = *packet != NULL;
    free(*packet);
    *packet = NULL;
    return n;
}

unsigned toy_stream_acked(struct toy_peer *peer, const struct toy_packet *ack)
{
    struct toy_tx *tx = &peer->tx[ack->stream];
    unsigned n = 0;
    for (uint32_t seq = tx->base; seq != tx->next; seq++) {
        uint32_t ahead = seq - ack->seq;
        if (ahead > INT32_MAX || (ahead < 32 && (ack->seen & 1u << ahead) != 0))
            n += stream_done(tx, seq);
    }
    while (tx->base != tx->next && tx->slot[tx->base % TOY_WINDOW].packet == NULL)
        tx->base++;
    return n;
}

static void stream_acknowledge(struct toy_tp *toy, struct toy_peer *peer, enum toy_stream stream)
{
    struct toy_rx *rx = &peer->rx[stream];
    struct toy_packet ack = {.type = TOY_ACK,
                             .stream = (uint8_t)stream,
                             .from = toy->params.self,
                             .from_cookie = toy->cookie,
                             .to_cookie = peer->cookie,
                             .seq = rx->base,
                             .seen = rx->seen};
    rx->ack_at = 0;
    rx->unacked = 0;
    toy_net_send(toy, peer, &ack);
}

void toy_stream_timers(struct toy_tp *toy, struct toy_peer *peer)
{
    for (unsigned s = 0; s < TOY_STREAMS; s++) {
        struct toy_tx *tx = &peer->tx[s];
        for (uint32_t seq = tx->base; seq != tx->next; seq++) {
            uint64_t *sent = &tx->slot[seq % TOY_WINDOW].sent;
            uint64_t *pause = &tx->slot[seq % TOY_WINDOW].pause;
            if (tx->slot[seq % TOY_WINDOW].packet == NULL) continue;
            if (*sent == 0) *sent = toy->now;
            if (toy->now - *sent < *pause) continue;
            toy_net_send(toy, peer, tx->slot[seq % TOY_WINDOW].packet);
            *sent = toy->now;
            *pause = aqi_min(2 * *pause, TOY_RESEND_MOST);
        }
        uint64_t ack_at = peer->rx[s].ack_at;
        if (ack_at != 0 && toy->now >= ack_at) stream_acknowledge(toy, peer, (enum toy_stream)s);
    }
}

uint64_t toy_stream_deadline(const struct toy_peer *peer)
{
    uint64_t at = AQI_NO_DEADLINE;
    for (unsigned s = 0; s < TOY_STREAMS; s++) {
        const struct toy_tx *tx = &peer->tx[s];
        for (uint32_t seq = tx->base; seq != tx->next; seq++)
            if (tx->slot[seq % TOY_WINDOW].packet != NULL)
                at =
                    aqi_min(at, tx->slot[seq % TOY_WINDOW].sent + tx->slot[seq % TOY_WINDOW].pause);
        if (peer->rx[s].ack_at != 0) at = aqi_min(at, peer->rx[s].ack_at);
    }
    return at;
}

bool toy_stream_empty(const struct toy_peer *peer)
{
    for (unsigned s = 0; s < TOY_STREAMS; s++)
        if (peer->tx[s].base != peer->tx[s].next) return false;
    return peer->answers == NULL;
}

void toy_stream_clear(struct toy_peer *peer)
{
    for (unsigned s = 0; s < TOY_STREAMS; s++) {
        struct toy_tx *tx = &peer->tx[s];
        for (; tx->base != tx->next; tx->base++)
            (void)stream_done(tx, tx->base);
        peer->rx[s].ack_at = 0;
    }
    while (peer->answers != NULL) {
        struct toy_packet *answer = peer->answers;
        peer->answers = answer->next;
        free(answer);
    }
    peer->last_answer = &peer->answers;
}
