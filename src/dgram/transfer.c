/* The calls that begin transfers, and those that deal with the memory that transfers read. */
#include "dgram/dgram_impl.h"

/* Whether `bytes` may be transferred; 0 bytes need no connection. */
static aq_status transfer_room(struct aqi_dgram *dgram, uint32_t id, bool reply, size_t bytes,
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
    const struct aqi_dgram_hooks *hooks = &dgram->env.hooks;
    struct dgram_peer *peer;
    aq_status st = transfer_room(dgram, id, reply, len + head_len, &peer);
    if (st != AQ_OK) return st;
    if (len + head_len == 0) {
        if (user != NULL) hooks->local(hooks->arg, user, AQ_OK);
        if (user != NULL) hooks->remote(hooks->arg, user, AQ_OK);
        return AQ_OK;
    }
    struct dgram_op init = {.kind = head_len != 0 ? DGRAM_OP_LONG : DGRAM_OP_PUT,
                            .local = (unsigned char *)(uintptr_t)src,
                            .addr = addr,
                            .len = len,
                            .user = user};
    st = dgram_op_put(&dgram->env, peer, &init, reply, head, head_len);
    if (st == AQ_OK) dgram_send_soon(dgram, peer);
    return st;
}

aq_status aqi_dgram_get(struct aqi_dgram *dgram, uint32_t id, uint64_t addr, void *dst, size_t len,
                        void *user)
{
    const struct aqi_dgram_hooks *hooks = &dgram->env.hooks;
    struct dgram_peer *peer;
    aq_status st = transfer_room(dgram, id, false, len, &peer);
    if (st != AQ_OK) return st;
    if (len == 0) {
        if (user != NULL) hooks->remote(hooks->arg, user, AQ_OK);
        return AQ_OK;
    }
    struct dgram_op init = {
        .kind = DGRAM_OP_GET, .local = dst, .addr = addr, .len = len, .issued = len, .user = user};
    st = dgram_op_get(&dgram->env, peer, &init);
    if (st == AQ_OK) dgram_send_soon(dgram, peer);
    return st;
}

void aqi_dgram_sources(const struct aqi_dgram *dgram,
                       void (*found)(void *arg, const void *addr, size_t len), void *arg)
{
    for (uint32_t i = 0; i < dgram->env.config.size; i++) {
        const struct dgram_peer *peer = dgram->peers[i];
        if (peer == NULL || peer->conn == NULL) continue;
        for (const struct dgram_op *op = peer->conn->ops; op != NULL; op = op->next)
            if (op->kind != DGRAM_OP_GET && op->len != 0 && !op->copied)
                found(arg, op->local, op->len);
    }
}

void aqi_dgram_forget(struct aqi_dgram *dgram, const void *addr, size_t len)
{
    uintptr_t from = (uintptr_t)addr;
    for (uint32_t i = 0; i < dgram->env.config.size; i++) {
        struct dgram_peer *peer = dgram->peers[i];
        if (peer == NULL || peer->conn == NULL) continue;
        struct dgram_op *next;
        for (struct dgram_op *op = peer->conn->ops; op != NULL; op = next) {
            next = op->next;
            uintptr_t local = (uintptr_t)op->local;
            if (op->kind == DGRAM_OP_SERVE && local < from + len && from < local + op->len)
                dgram_op_abort(&dgram->env, peer, op);
        }
    }
}
