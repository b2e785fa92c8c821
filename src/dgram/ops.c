/* Transfers: puts, gets, Longs, and what peers get of us. */
#include "dgram/dgram_impl.h"

#include <stdlib.h>

/* --- their table, so that an answer finds its operation, or nothing ----------------------------
 */

static bool dgram_ops_grow(struct aqi_dgram *dgram)
{
    uint32_t size = dgram->ops_size == 0 ? 64 : 2 * dgram->ops_size;
    if (size > UINT16_MAX + 1u) return false;
    struct dgram_slot *slots = realloc(dgram->ops, size * sizeof(*slots));
    if (slots == NULL) return false;
    for (uint32_t i = dgram->ops_size; i < size; i++)
        slots[i] = (struct dgram_slot){.next_free = i + 1};
    dgram->ops = slots;
    dgram->ops_free = dgram->ops_size;
    dgram->ops_size = size;
    return true;
}

struct dgram_op *dgram_op_find(const struct aqi_dgram *dgram, uint32_t id)
{
    uint32_t index = id & UINT16_MAX;
    if (index >= dgram->ops_size || dgram->ops[index].generation != id >> 16) return NULL;
    return dgram->ops[index].op;
}

struct dgram_op *dgram_op_new(struct aqi_dgram *dgram, struct dgram_peer *peer,
                              const struct dgram_op *init)
{
    struct dgram_conn *conn = peer->conn;
    if (init->kind != DGRAM_OP_SERVE && dgram->ops_free == dgram->ops_size &&
        !dgram_ops_grow(dgram))
        return NULL;
    struct dgram_op *op = aqi_pool_get(&dgram->op_pool);
    if (op == NULL) return NULL;
    *op = *init;
    op->peer = peer->id;
    if (op->kind != DGRAM_OP_SERVE) {
        uint32_t index = dgram->ops_free;
        struct dgram_slot *slot = &dgram->ops[index];
        dgram->ops_free = slot->next_free;
        slot->op = op;
        op->id = index | (uint32_t)slot->generation << 16;
        conn->own_ops++;
    }
    op->next = conn->ops;
    op->link = &conn->ops;
    if (op->next != NULL) op->next->link = &op->next;
    conn->ops = op;
    return op;
}

static void dgram_op_leave_bulk(struct dgram_conn *conn, struct dgram_op *op)
{
    if (op->bulk_link == NULL) return;
    *op->bulk_link = op->next_bulk;
    if (op->next_bulk != NULL)
        op->next_bulk->bulk_link = op->bulk_link;
    else
        conn->bulk_end = op->bulk_link;
    op->bulk_link = NULL;
}

void dgram_op_join_bulk(struct dgram_conn *conn, struct dgram_op *op)
{
    op->next_bulk = NULL;
    op->bulk_link = conn->bulk_end;
    *conn->bulk_end = op;
    conn->bulk_end = &op->next_bulk;
}

static void dgram_op_free(struct aqi_dgram *dgram, struct dgram_peer *peer, struct dgram_op *op)
{
    struct dgram_conn *conn = peer->conn;
    dgram_op_leave_bulk(conn, op);
    *op->link = op->next;
    if (op->next != NULL) op->next->link = op->link;
    if (op->kind != DGRAM_OP_SERVE) {
        uint32_t index = op->id & UINT16_MAX;
        struct dgram_slot *slot = &dgram->ops[index];
        *slot = (struct dgram_slot){.generation = (uint16_t)(slot->generation + 1),
                                    .next_free = dgram->ops_free};
        dgram->ops_free = index;
        conn->own_ops--;
    }
    aqi_pool_put(&dgram->op_pool, op);
}

/* --- pieces ------------------------------------------------------------------------------------
 */

struct dgram_packet *dgram_op_piece(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    static const uint8_t kinds[] = {
        [DGRAM_OP_PUT] = DGRAM_PUT, [DGRAM_OP_LONG] = DGRAM_PUT, [DGRAM_OP_SERVE] = DGRAM_BYTES};
    struct dgram_conn *conn = peer->conn;
    struct dgram_op *op = conn->bulk;
    if (op == NULL) return NULL;
    struct dgram_packet *packet = dgram_packet_new(dgram, AQI_DGRAM_DATA, false);
    if (packet == NULL) return NULL;
    size_t room = dgram_capacity(dgram, conn, AQI_DGRAM_DATA) - sizeof(packet->small);
    size_t len = aqi_min(op->len - op->issued, room & ~(size_t)15);
    struct dgram_record record = {.len = (uint16_t)(sizeof(record) + len),
                                  .kind = kinds[op->kind],
                                  .flags = op->kind == DGRAM_OP_LONG ? DGRAM_OF_LONG : 0,
                                  .id = op->id,
                                  .where = op->addr + op->issued};
    memcpy(packet->frame + packet->len, &record, sizeof(record));
    packet->len += (uint32_t)sizeof(record);
    packet->op = op;
    packet->bulk = op->local + op->issued;
    packet->bulk_len = (uint32_t)len;
    op->flying++;
    op->issued += len;
    if (op->issued == op->len) {
        packet->asks = op->kind != DGRAM_OP_SERVE;
        dgram_op_leave_bulk(conn, op);
    }
    return packet;
}

/* Complete, if it is. */
void dgram_op_settle(struct aqi_dgram *dgram, struct dgram_peer *peer, struct dgram_op *op)
{
    if (op->flying != 0 || op->issued != op->len) return;
    if (op->status == AQ_OK && op->kind == DGRAM_OP_GET && op->finished != op->len) return;
    void *user = op->user;
    aq_status status = op->status;
    bool copied = op->copied;
    uint8_t kind = op->kind;
    dgram_op_free(dgram, peer, op);
    if (user == NULL || kind == DGRAM_OP_SERVE) return;
    const struct aqi_dgram_hooks *hooks = &dgram->hooks;
    if (kind != DGRAM_OP_GET && !copied) hooks->local(hooks->arg, user, status);
    if (kind != DGRAM_OP_LONG) hooks->remote(hooks->arg, user, status);
}

void dgram_op_acked(struct aqi_dgram *dgram, struct dgram_peer *peer, struct dgram_op *op)
{
    op->flying--;
    dgram_op_settle(dgram, peer, op);
}

void dgram_op_fail(struct aqi_dgram *dgram, struct dgram_peer *peer, struct dgram_op *op,
                   aq_status status)
{
    if (op->status == AQ_OK) op->status = status;
    /* All of a Long is sent, also where it is refused: over there its head waits for that. */
    if (op->kind != DGRAM_OP_LONG || status == AQ_EPEER) {
        dgram_op_leave_bulk(peer->conn, op);
        op->issued = op->len;
    }
    dgram_op_settle(dgram, peer, op);
}

/* --- beginning them ----------------------------------------------------------------------------
 */

/* A put that shares a packet: its bytes are copied. */
static bool dgram_ops_put_small(struct aqi_dgram *dgram, struct dgram_peer *peer,
                                struct dgram_op *op)
{
    struct dgram_record record = {.len = (uint16_t)(sizeof(record) + op->len),
                                  .kind = DGRAM_PUT,
                                  .flags = op->kind == DGRAM_OP_LONG ? DGRAM_OF_LONG : 0,
                                  .id = op->id,
                                  .where = op->addr};
    struct dgram_packet *packet;
    unsigned char *at =
        dgram_queue_record(dgram, peer, DGRAM_OTHER_LANE, sizeof(record) + op->len, &packet);
    if (at == NULL) return false;
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), op->local, op->len);
    op->issued = op->len;
    op->flying++;
    op->next_in_packet = packet->ops;
    packet->ops = op;
    packet->asks = true;
    op->copied = true;
    return true;
}

/*
 * The head of a Long: delivered at the peer when the bytes of its operation are in place. The
 * operation lasts at least until the head is acknowledged: the peer keeps state for each operation
 * that it has received a part of.
 */
static bool dgram_ops_head(struct aqi_dgram *dgram, struct dgram_peer *peer, bool reply,
                           struct dgram_op *op, const void *head, size_t head_len)
{
    struct dgram_record record = {.len = (uint16_t)(sizeof(record) + head_len),
                                  .kind = DGRAM_LONG,
                                  .flags = reply ? 0 : DGRAM_IS_REQUEST,
                                  .id = op->id,
                                  .where = op->len};
    struct dgram_packet *packet;
    unsigned char *at =
        dgram_queue_record(dgram, peer, reply ? DGRAM_OTHER_LANE : DGRAM_REQUEST_LANE,
                           sizeof(record) + head_len, &packet);
    if (at == NULL) return false;
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), head, head_len);
    op->flying++;
    op->next_head = packet->heads;
    packet->heads = op;
    return true;
}

/* For so many bytes; without any there need not be a connection. */
static aq_status dgram_ops_room(struct aqi_dgram *dgram, uint32_t id, bool reply, size_t bytes,
                                struct dgram_peer **out)
{
    enum { MOST_OPS = 1024 };
    struct dgram_peer *peer = *out = dgram_peer_of(dgram, id);
    if (peer == NULL || peer->state == DGRAM_LOST) return AQ_EPEER;
    if (bytes == 0) return AQ_OK;
    aq_status st = dgram_conn_make(dgram, peer);
    if (st != AQ_OK) return st;
    return !reply && peer->conn->own_ops >= MOST_OPS ? AQ_AGAIN : AQ_OK;
}

aq_status aqi_dgram_put(struct aqi_dgram *dgram, uint32_t id, uint64_t addr, const void *src,
                        size_t len, bool reply, const void *head, size_t head_len, void *user)
{
    struct dgram_peer *peer;
    aq_status st = dgram_ops_room(dgram, id, reply, len + head_len, &peer);
    if (st != AQ_OK) return st;
    if (len + head_len == 0) {
        if (user != NULL) dgram->hooks.local(dgram->hooks.arg, user, AQ_OK);
        if (user != NULL) dgram->hooks.remote(dgram->hooks.arg, user, AQ_OK);
        return AQ_OK;
    }
    struct dgram_op init = {.kind = head_len != 0 ? DGRAM_OP_LONG : DGRAM_OP_PUT,
                            .local = (unsigned char *)(uintptr_t)src,
                            .addr = addr,
                            .len = len,
                            .user = user};
    struct dgram_op *op = dgram_op_new(dgram, peer, &init);
    if (op == NULL) return AQ_AGAIN;
    bool begun = head_len == 0 || dgram_ops_head(dgram, peer, reply, op, head, head_len);
    if (begun && len != 0 && len <= AQI_DGRAM_COPIED) {
        bool queued = dgram_ops_put_small(dgram, peer, op);
        if (!queued && head_len != 0) dgram_op_join_bulk(peer->conn, op);
        begun = queued || head_len != 0;
    } else if (begun && len != 0) {
        dgram_op_join_bulk(peer->conn, op);
    }
    if (!begun) {
        dgram_op_free(dgram, peer, op);
        return AQ_AGAIN;
    }
    if (len == 0) op->copied = true;
    if (op->copied && user != NULL) dgram->hooks.local(dgram->hooks.arg, user, AQ_OK);
    dgram_transmit_soon(dgram, peer);
    return AQ_OK;
}

aq_status aqi_dgram_get(struct aqi_dgram *dgram, uint32_t id, uint64_t addr, void *dst, size_t len,
                        void *user)
{
    struct dgram_peer *peer;
    aq_status st = dgram_ops_room(dgram, id, false, len, &peer);
    if (st != AQ_OK) return st;
    if (len == 0) {
        if (user != NULL) dgram->hooks.remote(dgram->hooks.arg, user, AQ_OK);
        return AQ_OK;
    }
    struct dgram_op init = {
        .kind = DGRAM_OP_GET, .local = dst, .addr = addr, .len = len, .issued = len, .user = user};
    struct dgram_op *op = dgram_op_new(dgram, peer, &init);
    if (op == NULL) return AQ_AGAIN;
    uint64_t length = len;
    struct dgram_record record = {
        .len = sizeof(record) + sizeof(length), .kind = DGRAM_GET, .id = op->id, .where = addr};
    unsigned char *at =
        dgram_queue_record(dgram, peer, DGRAM_OTHER_LANE, sizeof(record) + sizeof(length), NULL);
    if (at == NULL) {
        dgram_op_free(dgram, peer, op);
        return AQ_AGAIN;
    }
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), &length, sizeof(length));
    dgram_transmit_soon(dgram, peer);
    return AQ_OK;
}

/* --- memory that is read -----------------------------------------------------------------------
 */

void aqi_dgram_sources(const struct aqi_dgram *dgram,
                       void (*found)(void *arg, const void *addr, size_t len), void *arg)
{
    for (uint32_t i = 0; i < dgram->config.size; i++) {
        const struct dgram_peer *peer = dgram->peers[i];
        if (peer == NULL || peer->conn == NULL) continue;
        for (const struct dgram_op *op = peer->conn->ops; op != NULL; op = op->next)
            if (op->kind != DGRAM_OP_GET && !op->copied) found(arg, op->local, op->len);
    }
}

/* --- memory that goes away ---------------------------------------------------------------------
 */

/* Packets that would read it say that they are refused. */
static void dgram_ops_refuse_packets(struct dgram_list *list, const struct dgram_op *op)
{
    struct dgram_record record = {.len = sizeof(record), .kind = DGRAM_REFUSED, .id = op->id};
    for (struct dgram_packet *packet = list->first; packet != NULL; packet = packet->next) {
        if (packet->op != op) continue;
        memcpy(packet->frame + sizeof(struct dgram_head), &record, sizeof(record));
        packet->bulk = NULL;
        packet->bulk_len = 0;
    }
}

static void dgram_ops_abort(struct aqi_dgram *dgram, struct dgram_peer *peer, struct dgram_op *op)
{
    struct dgram_conn *conn = peer->conn;
    struct dgram_tx *tx = &conn->tx[AQI_DGRAM_DATA];
    size_t before = 0;
    for (struct dgram_packet *packet = tx->flying.first; packet != NULL; packet = packet->next)
        if (packet->op == op) before += packet->bulk_len;
    tx->in_flight -= before;
    dgram_ops_refuse_packets(&tx->flying, op);
    dgram_ops_refuse_packets(&tx->queue, op);
    dgram_ops_refuse_packets(&conn->lost, op);
    if (op->issued != op->len) dgram_refuse(dgram, peer, op->id);
    dgram_op_fail(dgram, peer, op, AQ_ERANGE);
}

void aqi_dgram_forget(struct aqi_dgram *dgram, const void *addr, size_t len)
{
    uintptr_t from = (uintptr_t)addr;
    for (uint32_t i = 0; i < dgram->config.size; i++) {
        struct dgram_peer *peer = dgram->peers[i];
        if (peer == NULL || peer->conn == NULL) continue;
        struct dgram_op *next;
        for (struct dgram_op *op = peer->conn->ops; op != NULL; op = next) {
            next = op->next;
            uintptr_t local = (uintptr_t)op->local;
            if (op->kind == DGRAM_OP_SERVE && local < from + len && from < local + op->len)
                dgram_ops_abort(dgram, peer, op);
        }
    }
}
