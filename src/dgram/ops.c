/* Transfers: puts, gets, Longs, and answers to the gets of peers. */
#include "dgram/conn.h"

#include "base/array.h"

/* --- the table of operations -------------------------------------------------------------------
 */

static bool dgram_ops_grow(struct dgram_env *env)
{
    uint32_t had = (uint32_t)env->ops_size;
    if (had > UINT16_MAX || !aqi_array_grow(&env->ops, &env->ops_size, had + 1, sizeof(*env->ops)))
        return false;
    for (uint32_t i = had; i < env->ops_size; i++)
        env->ops[i] = (struct dgram_slot){.next_free = i + 1};
    env->ops_free = had;
    return true;
}

struct dgram_op *dgram_op_find(const struct dgram_env *env, uint32_t id)
{
    uint32_t index = id & UINT16_MAX;
    if (index >= env->ops_size || env->ops[index].generation != id >> 16) return NULL;
    return env->ops[index].op;
}

struct dgram_op *dgram_op_new(struct dgram_env *env, struct dgram_peer *peer,
                              const struct dgram_op *init)
{
    struct dgram_conn *conn = peer->conn;
    if (init->kind != DGRAM_OP_SERVE && env->ops_free == env->ops_size && !dgram_ops_grow(env))
        return NULL;
    struct dgram_op *op = aqi_pool_get(&env->op_pool);
    if (op == NULL) return NULL;
    *op = *init;
    op->peer = peer->id;
    if (op->kind != DGRAM_OP_SERVE) {
        uint32_t index = env->ops_free;
        struct dgram_slot *slot = &env->ops[index];
        env->ops_free = slot->next_free;
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

void dgram_op_free(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op)
{
    struct dgram_conn *conn = peer->conn;
    dgram_op_leave_bulk(conn, op);
    *op->link = op->next;
    if (op->next != NULL) op->next->link = op->link;
    if (op->kind != DGRAM_OP_SERVE) {
        uint32_t index = op->id & UINT16_MAX;
        struct dgram_slot *slot = &env->ops[index];
        *slot = (struct dgram_slot){.generation = (uint16_t)(slot->generation + 1),
                                    .next_free = env->ops_free};
        env->ops_free = index;
        conn->own_ops--;
    }
    aqi_pool_put(&env->op_pool, op);
}

/* --- pieces ------------------------------------------------------------------------------------
 */

struct dgram_packet *dgram_op_piece(struct dgram_env *env, struct dgram_peer *peer)
{
    static const uint8_t kinds[] = {
        [DGRAM_OP_PUT] = DGRAM_PUT, [DGRAM_OP_LONG] = DGRAM_PUT, [DGRAM_OP_SERVE] = DGRAM_BYTES};
    struct dgram_conn *conn = peer->conn;
    struct dgram_op *op = conn->bulk;
    if (op == NULL) return NULL;
    struct dgram_packet *packet = dgram_packet_new(env, AQI_DGRAM_DATA, false);
    if (packet == NULL) return NULL;
    size_t room = dgram_capacity(env, conn, AQI_DGRAM_DATA) - sizeof(packet->small);
    size_t len = dgram_next_piece(op->len, op->len - op->issued, room);
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

/* Complete the operation if nothing of it is outstanding. */
void dgram_op_settle(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op)
{
    if (op->flying != 0 || op->issued != op->len) return;
    if (op->status == AQ_OK && op->kind == DGRAM_OP_GET && op->finished != op->len) return;
    void *user = op->user;
    aq_status status = op->status;
    bool copied = op->copied;
    uint8_t kind = op->kind;
    dgram_op_free(env, peer, op);
    if (user == NULL || kind == DGRAM_OP_SERVE) return;
    const struct aqi_dgram_hooks *hooks = &env->hooks;
    if (kind != DGRAM_OP_GET && !copied) hooks->local(hooks->arg, user, status);
    if (kind != DGRAM_OP_LONG && kind != DGRAM_OP_MESSAGE) hooks->remote(hooks->arg, user, status);
}

void dgram_op_acked(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op)
{
    op->flying--;
    dgram_op_settle(env, peer, op);
}

void dgram_op_fail(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op,
                   aq_status status)
{
    if (op->status == AQ_OK) op->status = status;
    /* All of a Long is sent even if it is refused: at the peer its head waits for all bytes. */
    if (op->kind != DGRAM_OP_LONG || status == AQ_EPEER) {
        dgram_op_leave_bulk(peer->conn, op);
        op->issued = op->len;
    }
    dgram_op_settle(env, peer, op);
}

void dgram_op_join_packet(struct dgram_op *op, struct dgram_packet *packet)
{
    op->flying++;
    op->next_in_packet = packet->ops;
    packet->ops = op;
}

/* --- beginning ---------------------------------------------------------------------------------
 */

/* A put that shares a packet: its bytes are copied. */
static bool dgram_ops_put_small(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op)
{
    struct dgram_record record = {.len = (uint16_t)(sizeof(record) + op->len),
                                  .kind = DGRAM_PUT,
                                  .flags = op->kind == DGRAM_OP_LONG ? DGRAM_OF_LONG : 0,
                                  .id = op->id,
                                  .where = op->addr};
    struct dgram_packet *packet;
    if (!dgram_queue_copy(env, peer, DGRAM_OTHER_LANE, &record, op->local, &packet)) return false;
    op->issued = op->len;
    dgram_op_join_packet(op, packet);
    packet->asks = true;
    op->copied = true;
    return true;
}

/*
 * The head of a Long: delivered at the peer when the bytes of its operation are in place. The
 * operation lasts at least until the head is acknowledged: the peer keeps state for each operation
 * that it has received a part of.
 */
static bool dgram_ops_head(struct dgram_env *env, struct dgram_peer *peer, bool reply,
                           struct dgram_op *op, const void *head, size_t head_len)
{
    struct dgram_record record = {.len = (uint16_t)(sizeof(record) + head_len),
                                  .kind = DGRAM_LONG,
                                  .flags = reply ? 0 : DGRAM_IS_REQUEST,
                                  .id = op->id,
                                  .where = op->len};
    struct dgram_packet *packet;
    unsigned lane = reply ? DGRAM_OTHER_LANE : DGRAM_REQUEST_LANE;
    if (!dgram_queue_copy(env, peer, lane, &record, head, &packet)) return false;
    op->flying++;
    op->next_head = packet->heads;
    packet->heads = op;
    return true;
}

aq_status dgram_op_put(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_op *init,
                       bool reply, const void *head, size_t head_len)
{
    struct dgram_op *op = dgram_op_new(env, peer, init);
    if (op == NULL) return AQ_AGAIN;
    bool begun = head_len == 0 || dgram_ops_head(env, peer, reply, op, head, head_len);
    if (begun && op->len != 0 && op->len <= AQI_DGRAM_COPIED) {
        bool queued = dgram_ops_put_small(env, peer, op);
        if (!queued && head_len != 0) dgram_op_join_bulk(peer->conn, op);
        begun = queued || head_len != 0;
    } else if (begun && op->len != 0) {
        dgram_op_join_bulk(peer->conn, op);
    }
    if (!begun) {
        dgram_op_free(env, peer, op);
        return AQ_AGAIN;
    }
    if (op->len == 0) op->copied = true;
    if (op->copied && op->user != NULL) env->hooks.local(env->hooks.arg, op->user, AQ_OK);
    return AQ_OK;
}

aq_status dgram_op_get(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_op *init)
{
    struct dgram_op *op = dgram_op_new(env, peer, init);
    if (op == NULL) return AQ_AGAIN;
    uint64_t length = op->len;
    struct dgram_record record = {
        .len = sizeof(record) + sizeof(length), .kind = DGRAM_GET, .id = op->id, .where = op->addr};
    if (dgram_queue_copy(env, peer, DGRAM_OTHER_LANE, &record, &length, NULL)) return AQ_OK;
    dgram_op_free(env, peer, op);
    return AQ_AGAIN;
}

/* --- refusals ----------------------------------------------------------------------------------
 */

bool dgram_refuse(struct dgram_env *env, struct dgram_peer *peer, uint32_t id)
{
    struct dgram_record record = {.len = sizeof(record), .kind = DGRAM_REFUSED, .id = id};
    if (!dgram_queue_copy(env, peer, DGRAM_OTHER_LANE, &record, NULL, NULL)) return false;
    dgram_make_ready(env, peer);
    return true;
}

/* Turn the packets that would read its memory into refusals. */
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

void dgram_op_abort(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op)
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
    if (op->issued != op->len) dgram_refuse(env, peer, op->id);
    dgram_op_fail(env, peer, op, AQ_ERANGE);
}
