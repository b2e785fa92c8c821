/* Packets being filled: a record is added to a queued packet as long as there is room in it. */
#include "dgram/conn.h"

void dgram_list_append(struct dgram_list *list, struct dgram_packet *packet)
{
    packet->next = NULL;
    packet->prev = list->last;
    if (list->last != NULL)
        list->last->next = packet;
    else
        list->first = packet;
    list->last = packet;
}

void dgram_list_prepend(struct dgram_list *list, struct dgram_packet *packet)
{
    packet->prev = NULL;
    packet->next = list->first;
    if (list->first != NULL)
        list->first->prev = packet;
    else
        list->last = packet;
    list->first = packet;
}

void dgram_list_remove(struct dgram_list *list, struct dgram_packet *packet)
{
    if (packet->prev != NULL)
        packet->prev->next = packet->next;
    else
        list->first = packet->next;
    if (packet->next != NULL)
        packet->next->prev = packet->prev;
    else
        list->last = packet->prev;
}

size_t dgram_capacity(const struct dgram_env *env, const struct dgram_conn *conn,
                      enum aqi_dgram_channel channel)
{
    size_t bytes = conn->packet;
    if (channel == AQI_DGRAM_COMMAND) bytes = aqi_min(bytes, AQI_DGRAM_COMMAND_MAX);
    return env->config.authenticate ? bytes - DGRAM_TAG : bytes;
}

struct dgram_packet *dgram_packet_new(struct dgram_env *env, enum aqi_dgram_channel channel,
                                      bool with_frame)
{
    struct dgram_packet *packet = aqi_pool_get(&env->packets);
    if (packet == NULL) return NULL;
    memset(packet, 0, offsetof(struct dgram_packet, small));
    packet->frame = packet->small;
    if (with_frame) packet->frame = aqi_pool_get(&env->frames[channel]);
    if (packet->frame == NULL) {
        aqi_pool_put(&env->packets, packet);
        return NULL;
    }
    packet->channel = (uint8_t)channel;
    packet->lane = DGRAM_OTHER_LANE;
    packet->len = sizeof(struct dgram_head);
    return packet;
}

void dgram_packet_free(struct dgram_env *env, struct dgram_packet *packet)
{
    if (packet->frame != packet->small) aqi_pool_put(&env->frames[packet->channel], packet->frame);
    aqi_pool_put(&env->packets, packet);
}

struct dgram_packet *dgram_queue_packet(struct dgram_env *env, struct dgram_conn *conn,
                                        enum aqi_dgram_channel channel, unsigned lane)
{
    struct dgram_packet *packet = dgram_packet_new(env, channel, true);
    if (packet == NULL) return NULL;
    packet->lane = (uint8_t)lane;
    conn->queued[lane] += packet->len;
    if (lane == DGRAM_REFUSAL_LANE)
        dgram_list_prepend(&conn->tx[channel].queue, packet);
    else
        dgram_list_append(&conn->tx[channel].queue, packet);
    return packet;
}

unsigned char *dgram_queue_extend(struct dgram_conn *conn, struct dgram_packet *packet, size_t len)
{
    size_t at = dgram_round16(packet->len);
    memset(packet->frame + packet->len, 0, at - packet->len);
    conn->queued[packet->lane] += at + len - packet->len;
    packet->len = (uint32_t)(at + len);
    return packet->frame + at;
}

unsigned char *dgram_queue_record(struct dgram_env *env, struct dgram_peer *peer, unsigned lane,
                                  size_t len, struct dgram_packet **where)
{
    struct dgram_conn *conn = peer->conn;
    enum aqi_dgram_channel channel = AQI_DGRAM_COMMAND;
    if (sizeof(struct dgram_head) + len > dgram_capacity(env, conn, channel))
        channel = AQI_DGRAM_DATA;
    struct dgram_packet **open = &conn->tx[channel].open[lane];
    if (*open == NULL || dgram_round16((*open)->len) + len > dgram_capacity(env, conn, channel))
        *open = dgram_queue_packet(env, conn, channel, lane);
    if (*open == NULL) return NULL;
    if (where != NULL) *where = *open;
    return dgram_queue_extend(conn, *open, len);
}

bool dgram_queue_copy(struct dgram_env *env, struct dgram_peer *peer, unsigned lane,
                      const struct dgram_record *record, const void *bytes,
                      struct dgram_packet **where)
{
    unsigned char *at = dgram_queue_record(env, peer, lane, record->len, where);
    if (at == NULL) return false;
    memcpy(at, record, sizeof(*record));
    if (bytes != NULL) memcpy(at + sizeof(*record), bytes, record->len - sizeof(*record));
    return true;
}

unsigned char *dgram_queue_fragment(struct dgram_env *env, struct dgram_peer *peer, unsigned lane,
                                    const struct dgram_record *record, size_t len,
                                    struct dgram_packet **where)
{
    struct dgram_packet *packet = dgram_queue_packet(env, peer->conn, AQI_DGRAM_DATA, lane);
    if (packet == NULL) return NULL;
    *where = packet;
    unsigned char *at = dgram_queue_extend(peer->conn, packet, sizeof(*record) + len);
    memcpy(at, record, sizeof(*record));
    return at + sizeof(*record);
}
