/* toy: registered memory, and puts and gets by packets that contain a key for their rail. */
#include "toy_impl.h"

#include "base/fail.h"

#include <stdlib.h>
#include <string.h>

/* --- memory ---------------------------------------------------------------------------------- */

aq_status toy_rma_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **out)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    struct toy_mem *mem = calloc(1, sizeof(*mem));
    uint32_t region = 0;
    if (mem == NULL) return AQ_ENOMEM;
    aqi_spin_lock(&toy->lock);
    while (region < TOY_REGIONS && toy->regions[region] != NULL)
        region++;
    if (region < TOY_REGIONS) {
        toy->regions[region] = mem;
        mem->keys.magic = TOY_KEYS;
        for (unsigned rail = 0; rail < TOY_RAILS; rail++)
            mem->keys.rail[rail] = (struct toy_key){region, ++toy->secrets};
    }
    aqi_spin_unlock(&toy->lock);
    if (region == TOY_REGIONS) {
        free(mem);
        return AQ_ELIMIT;
    }
    mem->mem =
        (struct aqi_mem){.addr = addr, .len = len, .key = &mem->keys, .key_len = sizeof(mem->keys)};
    *out = &mem->mem;
    return AQ_OK;
}

void toy_rma_dereg(struct aqi_tp *tp, struct aqi_mem *mem)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    aqi_spin_lock(&toy->lock);
    for (unsigned i = 0; i < TOY_REGIONS; i++)
        if (toy->regions[i] == (struct toy_mem *)mem) toy->regions[i] = NULL;
    aqi_spin_unlock(&toy->lock);
    free(mem);
}

aq_status toy_rma_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **out)
{
    (void)tp, (void)peer;
    struct toy_rmem *rmem = calloc(1, sizeof(*rmem));
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, "toy", "no memory for a region");
    if (key_len == sizeof(rmem->keys)) memcpy(&rmem->keys, key, key_len);
    if (rmem->keys.magic != TOY_KEYS) {
        free(rmem);
        return aqi_fail(AQ_EPROTO, "toy", "a malformed key");
    }
    rmem->rmem = (struct aqi_rmem){.addr = addr, .len = len};
    *out = &rmem->rmem;
    return AQ_OK;
}

void toy_rma_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem)
{
    (void)tp;
    free(rmem);
}

/* Whether the key of this rail grants access to these bytes. */
static bool rma_opens(const struct toy_tp *toy, const struct toy_head *head)
{
    if (head->rail >= TOY_RAILS || head->key.region >= TOY_REGIONS) return false;
    const struct toy_mem *mem = toy->regions[head->key.region];
    if (mem == NULL || mem->keys.rail[head->rail].secret != head->key.secret) return false;
    uint64_t offset = head->addr - (uint64_t)(uintptr_t)mem->mem.addr;
    return head->len <= mem->mem.len && offset <= mem->mem.len - head->len;
}

/* --- the initiator --------------------------------------------------------------------------- */

static void rma_finish(struct toy_op *op)
{
    if (op->status != AQ_OK) aqi_comp_fail(op->comp, (aq_status)op->status);
    aqi_comp_remote(op->comp);
    op->what = TOY_AM;
    op->generation++;
}

/* Send pieces while the stream has room. Returns whether any were sent. */
static bool rma_push_one(struct toy_tp *toy, struct toy_op *op)
{
    bool sent = false;
    while (op->issued < op->len && toy_stream_has_room(op->peer, TOY_BULK)) {
        uint8_t rail = (uint8_t)((op->issued / TOY_PIECE + aqi_tp_thread) % TOY_RAILS);
        size_t n = aqi_min(op->len - op->issued, TOY_PIECE);
        struct toy_head head = {.what = op->what,
                                .rail = rail,
                                .op = (uint32_t)(op - toy->ops),
                                .generation = op->generation,
                                .len = (uint32_t)n,
                                .addr = op->addr + op->issued,
                                .offset = op->issued,
                                .key = op->keys.rail[rail]};
        toy_stream_send(toy, op->peer, TOY_BULK, &head, op->local + op->issued,
                        op->what == TOY_PUT ? n : 0);
        op->issued += n;
        sent = true;
        if (op->issued == op->len && op->what == TOY_PUT) aqi_comp_local(op->comp);
    }
    return sent;
}

static void rma_push_answers(struct toy_tp *toy, struct toy_peer *peer)
{
    while (peer->answers != NULL && toy_stream_has_room(peer, TOY_REPLIES)) {
        struct toy_packet *answer = peer->answers;
        const struct toy_head *head = (const struct toy_head *)(const void *)answer->bytes;
        toy_stream_send(toy, peer, TOY_REPLIES, head, answer->bytes + sizeof(*head),
                        answer->len - sizeof(*head));
        peer->answers = answer->next;
        if (peer->answers == NULL) peer->last_answer = &peer->answers;
        free(answer);
    }
}

void toy_rma_push(struct toy_tp *toy)
{
    for (unsigned i = 0; i < TOY_OPS; i++)
        if (toy->ops[i].what != TOY_AM) (void)rma_push_one(toy, &toy->ops[i]);
    for (unsigned id = 0; id < TOY_RANKS; id++)
        if (toy->peers[id] != NULL) rma_push_answers(toy, toy->peers[id]);
}

static bool rma_local_ok(const struct toy_tp *toy, const struct aqi_mem *mem, const void *at,
                         size_t len)
{
    bool found = false;
    for (unsigned i = 0; i < TOY_REGIONS; i++)
        found = found || (mem != NULL && &toy->regions[i]->mem == mem);
    if (!found) return len <= TOY_BOUNCE;
    size_t offset = (size_t)((uintptr_t)at - (uintptr_t)mem->addr);
    if (len > mem->len || offset > mem->len - len)
        abort(); /* outside the range that the caller registered */
    return true;
}

static aq_status rma_start(struct aqi_tp *tp, struct aqi_peer *to, uint8_t what,
                           const struct aqi_rmem *rmem, uint64_t addr, void *local, size_t len,
                           const struct aqi_mem *mem, struct aqi_comp *comp)
{
    struct toy_tp *toy = (struct toy_tp *)tp;
    struct toy_peer *peer = (struct toy_peer *)to;
    aq_status st = AQ_OK;
    unsigned i = 0;
    if (rmem == NULL) abort();
    if (len == 0) { /* nothing to transfer */
        if (mem == NULL) return AQ_ENOTSUP;
        if (what == TOY_PUT) aqi_comp_local(comp);
        aqi_comp_remote(comp);
        return AQ_OK;
    }
    aqi_spin_lock(&toy->lock);
    while (i < TOY_OPS && toy->ops[i].what != TOY_AM)
        i++;
    if (peer->state == TOY_DOWN)
        st = AQ_EPEER;
    else if (!rma_local_ok(toy, mem, local, len))
        st = AQ_ENOTSUP;
    else if (peer->state != TOY_UP || i == TOY_OPS || !toy_stream_has_room(peer, TOY_BULK))
        st = AQ_AGAIN;
    if (st == AQ_AGAIN && peer->state == TOY_IDLE) peer->state = TOY_CONNECTING;
    if (st == AQ_OK) {
        struct toy_op *op = &toy->ops[i];
        *op = (struct toy_op){.what = what,
                              .generation = op->generation,
                              .peer = peer,
                              .addr = addr,
                              .local = local,
                              .len = len,
                              .comp = comp};
        op->keys = ((const struct toy_rmem *)rmem)->keys;
        (void)rma_push_one(toy, op);
    }
    aqi_spin_unlock(&toy->lock);
    return st;
}

aq_status toy_rma_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                      uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                      struct aqi_comp *comp)
{
    return rma_start(tp, peer, TOY_PUT, rmem, addr, (void *)(uintptr_t)src, len, mem, comp);
}

aq_status toy_rma_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                      uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                      struct aqi_comp *comp)
{
    return rma_start(tp, peer, TOY_GET, rmem, addr, dst, len, mem, comp);
}

void toy_rma_answer(struct toy_tp *toy, struct toy_peer *peer, const struct toy_head *head,
                    const void *data)
{
    struct toy_op *op = &toy->ops[head->op % TOY_OPS];
    if (op->what == TOY_AM || op->generation != head->generation || op->peer != peer) return;
    if (head->status != AQ_OK)
        op->status = head->status;
    else if (head->what == TOY_READ)
        memcpy(op->local + head->offset, data, head->len);
    op->finished += head->len;
    if (op->finished == op->len) rma_finish(op);
}

bool toy_rma_busy(const struct toy_tp *toy, const struct toy_peer *peer)
{
    for (unsigned i = 0; i < TOY_OPS; i++)
        if (toy->ops[i].what != TOY_AM && toy->ops[i].peer == peer) return true;
    return false;
}

void toy_rma_fail(struct toy_tp *toy, const struct toy_peer *peer)
{
    for (unsigned i = 0; i < TOY_OPS; i++) {
        struct toy_op *op = &toy->ops[i];
        if (op->what == TOY_AM || op->peer != peer) continue;
        if (op->what == TOY_PUT && op->issued < op->len) aqi_comp_local(op->comp);
        op->status = AQ_EPEER;
        rma_finish(op);
    }
}

/* --- the target ------------------------------------------------------------------------------ */

/* Answers to requests do not wait for the pool: they have a list of their own. */
void toy_rma_serve(struct toy_tp *toy, struct toy_peer *peer, const struct toy_head *head,
                   const void *data)
{
    void *at = (void *)(uintptr_t)head->addr;
    bool ok = rma_opens(toy, head), read = ok && head->what == TOY_GET;
    if (ok && head->what == TOY_PUT) memcpy(at, data, head->len);
    struct toy_head answer = {.what = read ? TOY_READ : TOY_DONE,
                              .status = ok ? AQ_OK : AQ_ERANGE,
                              .op = head->op,
                              .generation = head->generation,
                              .len = head->len,
                              .offset = head->offset};
    struct toy_packet *packet = toy_packet_new(sizeof(answer) + (read ? head->len : 0));
    memcpy(packet->bytes, &answer, sizeof(answer));
    if (read) memcpy(packet->bytes + sizeof(answer), at, head->len);
    *peer->last_answer = packet;
    peer->last_answer = &packet->next;
    rma_push_answers(toy, peer);
}
