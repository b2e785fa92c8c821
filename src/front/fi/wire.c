/* fi: sending operations and protocol messages, and handling received ones. */
#include "front/fi/wire.h"

#include "base/array.h"
#include "base/stats.h"

#include <stdlib.h>
#include <string.h>

enum {
    WIRE_HANDLER = AQ_HANDLER_BASE,
    WIRE_SHORT = 256,
    WIRE_OWED = AFI_WINDOW / 8, /* send this much credit with a full head */
    WIRE_SLOT_BITS = 20,        /* of a handle; the bits above count the uses of the slot */
    WIRE_SLOTS = 1 << WIRE_SLOT_BITS
};

/* A message waiting to be sent, and one received out of order. */
struct wire_note {
    struct aqi_node link;
    size_t len;
    unsigned char bytes[]; /* including the head */
};
struct wire_early {
    struct aqi_early_item item;
    unsigned char bytes[];
};

/* --- operations of the program --------------------------------------------------------------- */

static bool wire_grow_ops(void)
{
    size_t had = afi.op_room, size = sizeof(afi.ops[0]);
    if (had >= WIRE_SLOTS || !aqi_array_reserve(&afi.ops, &afi.op_room, had + 1, size))
        return false;
    afi.op_room = aqi_min(afi.op_room, WIRE_SLOTS);
    memset(afi.ops + had, 0, (afi.op_room - had) * size);
    afi.op_free = had;
    return true;
}

struct afi_op *afi_op_new(struct afi_peer *peer, uint64_t flags, bool silent, void *context)
{
    static const struct afi_op none;
    struct afi_op *op = afi_tx_is_full(peer->ep, flags, silent) ? NULL : aqi_pool_get(&afi.op_pool);
    if (op == NULL) return NULL;
    *op = none;
    aqi_list_init(&op->link);
    op->peer = peer;
    op->context = silent ? peer->ep->fid.fid.context : context; /* for an error */
    op->report = afi_tx_reports(peer->ep, flags, silent);
    op->fence = (flags & FI_FENCE) != 0;
    return op;
}

static uint32_t wire_slot(uint32_t handle)
{
    return handle & (WIRE_SLOTS - 1);
}

/* Assign the handle by which the peer refers to the operation. Returns false if there are too
 * many. */
static bool wire_give_handle(struct afi_op *op)
{
    size_t slot = afi.op_free, tried = 0;
    if (op->handle != 0) return true;
    while (tried < afi.op_room && afi.ops[slot].op != NULL) {
        slot = (slot + 1) % afi.op_room;
        tried++;
    }
    if (tried == afi.op_room) {
        if (!wire_grow_ops()) return false;
        slot = afi.op_free;
    }
    afi.ops[slot].op = op;
    afi.op_free = (slot + 1) % afi.op_room;
    uint32_t use = ++afi.ops[slot].uses % ((UINT32_C(1) << (32 - WIRE_SLOT_BITS)) - 1) + 1;
    op->handle = use << WIRE_SLOT_BITS | (uint32_t)slot;
    return true;
}

static struct afi_op *wire_find_op(const struct afi_peer *peer, uint32_t handle)
{
    uint32_t slot = wire_slot(handle);
    struct afi_op *op = slot < afi.op_room ? afi.ops[slot].op : NULL;
    return op != NULL && op->handle == handle && op->peer == peer && op->sent ? op : NULL;
}

static void wire_end_long_write(struct afi_peer *peer)
{
    if (--peer->long_writes == 0 && !aqi_list_is_empty(&peer->waiting)) afi_peer_activate(peer);
}

void afi_op_free(struct afi_op *op)
{
    if (op->is_long) wire_end_long_write(op->peer);
    if (op->handle != 0) afi.ops[wire_slot(op->handle)].op = NULL;
    aqi_list_remove(&op->link);
    free(op->copy);
    aqi_pool_put(&afi.op_pool, op);
}

static const enum afi_counts wire_counts[] = {
    [AFI_SEND] = AFI_COUNT_SEND, [AFI_WRITE] = AFI_COUNT_WRITE, [AFI_READ] = AFI_COUNT_READ};

void afi_op_end(struct afi_op *op, int err)
{
    struct afi_ep *ep = op->peer->ep;
    enum afi_counts which = op->type == AFI_ATOMIC_OP
                                ? (op->fetches ? AFI_COUNT_READ : AFI_COUNT_WRITE)
                                : wire_counts[op->type];
    if (AQI_UNLIKELY(ep->closing)) {
        afi_op_free(op);
        return;
    }
    afi_count(ep->cntr[which], err == 0);
    if (err != 0 && ep->tx_cq != NULL) {
        const struct fi_cq_err_entry entry = {.op_context = op->context,
                                              .flags = op->cq_flags,
                                              .data = op->data,
                                              .tag = op->tag,
                                              .err = err};
        afi_cq_fail(ep->tx_cq, &entry, NULL);
    } else if (err == 0 && op->report && ep->tx_cq != NULL) {
        const struct fi_cq_tagged_entry entry = {.op_context = op->context, .flags = op->cq_flags};
        afi_cq_write(ep->tx_cq, &entry, FI_ADDR_NOTAVAIL);
    }
    afi_op_free(op);
}

/* --- sending --------------------------------------------------------------------------------- */

/* Disconnect a peer, from outside of the handler, as if it had been lost. */
static void wire_abandon(struct afi_peer *peer)
{
    if (peer->state == AFI_CALLING) afi.calling--;
    peer->state = AFI_CLOSING;
    afi_peer_activate(peer);
}

static bool wire_keep(struct aqi_node *list, const struct afi_wire *head, const struct iovec *iov,
                      unsigned count)
{
    size_t len = sizeof(*head) + afi_iov_len(iov, count);
    struct wire_note *note = malloc(sizeof(*note) + len);
    if (note == NULL) return false;
    note->len = len;
    memcpy(note->bytes, head, sizeof(*head));
    (void)aqi_iov_gather(iov, count, note->bytes + sizeof(*head));
    aqi_list_append(list, &note->link);
    return true;
}

static aq_status wire_post(struct afi_peer *peer, const struct afi_wire *head,
                           const struct iovec *iov, unsigned count, size_t len)
{
    aq_am_buffer buffer;
    aq_status st =
        aq_am_reserve(peer->team, 1, AQ_AM_MEDIUM, NULL, len, len, 0, AQ_IMMEDIATE, &buffer);
    if (st != AQ_OK) return st;
    memcpy(buffer.addr, head, sizeof(*head));
    (void)aqi_iov_gather(iov, count, (unsigned char *)buffer.addr + sizeof(*head));
    st = aq_am_commit(&buffer, WIRE_HANDLER, len, NULL, NULL, 0, AQ_IMMEDIATE);
    if (st == AQ_AGAIN) aq_am_cancel(&buffer);
    return st;
}

/* For so few bytes, one call and a copy are cheaper than two calls. */
static aq_status wire_post_short(struct afi_peer *peer, const struct afi_wire *head,
                                 const struct iovec *iov, unsigned count, size_t len)
{
    unsigned char bytes[WIRE_SHORT];
    memcpy(bytes, head, sizeof(*head));
    (void)aqi_iov_gather(iov, count, bytes + sizeof(*head));
    return aq_am_medium(peer->team, 1, WIRE_HANDLER, bytes, len, NULL, 0, AQ_IMMEDIATE, NULL);
}

/* Send one message. AQ_AGAIN: no room. */
static aq_status wire_transmit(struct afi_peer *peer, const struct afi_wire *head,
                               const struct iovec *iov, unsigned count, size_t payload)
{
    size_t len = sizeof(*head) + payload;
    struct afi_wire now = *head;
    now.number = peer->sent + 1;
    now.credit = peer->owed;
    if (peer->self) {
        if (!wire_keep(&peer->notes, &now, iov, count)) return AQ_AGAIN;
        afi_peer_activate(peer);
    } else {
        aq_status st = len <= WIRE_SHORT ? wire_post_short(peer, &now, iov, count, len)
                                         : wire_post(peer, &now, iov, count, len);
        if (st != AQ_OK) return st;
    }
    peer->sent++;
    afi.sent += !peer->by_shm;
    peer->taken -= peer->owed;
    peer->owed = 0;
    return AQ_OK;
}

void afi_wire_note(struct afi_peer *peer, const struct afi_wire *head, const struct iovec *iov,
                   unsigned count)
{
    if (peer->state != AFI_UP && peer->state != AFI_LEAVING) return;
    if (peer->self) {
        (void)wire_transmit(peer, head, iov, count, afi_iov_len(iov, count));
        return;
    }
    if (wire_keep(&peer->notes, head, iov, count))
        afi_peer_activate(peer);
    else
        wire_abandon(peer); /* the peer would never get the message */
}

void afi_wire_answer(struct afi_peer *peer, uint32_t epoch, uint32_t op, int err)
{
    if (epoch != peer->epoch) return;
    const struct afi_wire head = {.kind = AFI_DONE, .op = op, .tag = (uint64_t)err};
    afi_wire_note(peer, &head, NULL, 0);
}

void afi_wire_send_credit(struct afi_peer *peer)
{
    static const struct afi_wire head = {.kind = AFI_CREDIT};
    if (aqi_list_is_empty(&peer->notes)) afi_wire_note(peer, &head, NULL, 0);
}

/* Copy the source, which the caller may change once the call has returned. */
static bool wire_own(struct afi_op *op)
{
    if (op->copy != NULL || op->len == 0) return true;
    op->copy = malloc(op->len);
    if (op->copy == NULL) return false;
    (void)aqi_iov_gather(op->iov, op->count, op->copy);
    op->iov[0] = (struct iovec){.iov_base = op->copy, .iov_len = op->len};
    op->count = 1;
    return true;
}

/* Send a message whose source the peer fetches: head, places if any, pieces. */
static aq_status wire_send_remote(struct afi_op *op, struct afi_wire *head, struct iovec *iov,
                                  unsigned count)
{
    struct afi_piece pieces[AFI_IOVS];
    if (op->injected && !wire_own(op)) return AQ_AGAIN;
    if (!wire_give_handle(op)) return AQ_AGAIN;
    head->flags |= AFI_REMOTE;
    head->op = op->handle;
    head->pieces = (uint8_t)afi_iov_pieces(op->iov, op->count, pieces);
    iov[count] =
        (struct iovec){.iov_base = pieces, .iov_len = head->pieces * sizeof(struct afi_piece)};
    return wire_transmit(op->peer, head, iov, count + 1, afi_iov_len(iov, count + 1));
}

static inline bool wire_fits_inline(const struct afi_peer *peer, size_t len)
{
    return len + sizeof(struct afi_wire) <= peer->eager;
}

/*
 * Whether a message of `len` bytes can be sent inline: there is credit for it, even if it is
 * unexpected at the peer. A quarter is left to short messages and heads, whose credit the peer
 * returns when they arrive (receive_spare).
 */
static inline bool wire_is_eager(const struct afi_peer *peer, size_t len)
{
    size_t reserve = len <= AFI_INJECT ? 0 : AFI_WINDOW / 4;
    return wire_fits_inline(peer, len) && len + AFI_COST + reserve <= peer->left;
}

/* Whether a message waits for credit, which for a short one returns sooner than the peer could
 * fetch the message; or for earlier writes (FI_ORDER_SAW). */
static bool wire_must_wait(const struct afi_op *op)
{
    bool is_short = op->len <= AFI_INJECT && wire_fits_inline(op->peer, op->len);
    return op->type == AFI_SEND &&
           (op->peer->long_writes != 0 || (is_short ? op->len : 0) + AFI_COST > op->peer->left);
}

bool afi_wire_send_brief(struct afi_peer *peer, uint8_t flags, uint64_t tag, uint64_t data,
                         const void *bytes, size_t len)
{
    union {
        struct afi_brief head;
        unsigned char bytes[AFI_BRIEF_MAX + sizeof(struct afi_brief)];
    } message;
    if (AQI_UNLIKELY(peer->owed >= WIRE_OWED || peer->self || !wire_is_eager(peer, len)))
        return false;
    message.head = (struct afi_brief){
        .kind = AFI_BRIEF, .flags = flags, .number = peer->sent + 1, .tag = tag, .data = data};
    aqi_copy_mostly_few(message.bytes + sizeof(message.head), bytes, len);
    if (AQI_UNLIKELY(aq_am_medium(peer->team, 1, WIRE_HANDLER, message.bytes,
                                  sizeof(message.head) + len, NULL, 0, AQ_IMMEDIATE,
                                  NULL) != AQ_OK))
        return false;
    peer->sent++;
    peer->left -= (uint32_t)(len + AFI_COST);
    return true;
}

bool afi_wire_send(struct afi_peer *peer, uint8_t flags, uint64_t tag, uint64_t data,
                   const struct iovec *iov, unsigned count, size_t len)
{
    const struct afi_wire head = {
        .kind = AFI_MESSAGE, .flags = flags, .tag = tag, .data = data, .len = len};
    if (!wire_is_eager(peer, len) || wire_transmit(peer, &head, iov, count, len) != AQ_OK)
        return false;
    peer->left -= (uint32_t)(len + AFI_COST);
    return true;
}

static aq_status wire_send_message(struct afi_op *op)
{
    struct afi_peer *peer = op->peer;
    struct iovec iov[2];
    struct afi_wire head = {.kind = AFI_MESSAGE, .tag = op->tag, .data = op->data, .len = op->len};
    head.flags = (uint8_t)(afi_wire_flags(op->tagged, op->has_data) | op->ack);
    size_t cost = op->len + AFI_COST;
    aq_status st;
    if (wire_must_wait(op)) return AQ_AGAIN;
    if (wire_is_eager(peer, op->len)) {
        if (op->ack != 0 && !wire_give_handle(op)) return AQ_AGAIN;
        head.op = op->handle;
        st = wire_transmit(peer, &head, op->iov, op->count, op->len);
    } else {
        cost = AFI_COST;
        op->ack = AFI_ACK_DELIVERED;
        st = wire_send_remote(op, &head, iov, 0);
    }
    if (st == AQ_OK) peer->left -= (uint32_t)cost;
    return st;
}

static size_t wire_places(const struct afi_op *op, struct afi_place places[AFI_IOVS])
{
    for (unsigned i = 0; i < op->there_count; i++)
        places[i] = (struct afi_place){
            .addr = op->there[i].addr, .len = op->there[i].len, .key = op->there[i].key};
    return op->there_count * sizeof(*places);
}

/* Send an operation on memory of the peer. It is always answered. */
static aq_status wire_send_access(struct afi_op *op)
{
    struct afi_place places[AFI_IOVS];
    struct iovec iov[AFI_IOVS + 2] = {{.iov_base = places}};
    struct afi_wire head = {.flags = op->has_data ? AFI_DATA_FLAG : 0,
                            .count = (uint8_t)op->there_count,
                            .data = op->data,
                            .len = op->len};
    iov[0].iov_len = wire_places(op, places);
    op->ack = AFI_ACK_DELIVERED;
    if (!wire_give_handle(op)) return AQ_AGAIN;
    head.op = op->handle;
    if (op->type == AFI_READ) {
        head.kind = AFI_GET;
        return wire_transmit(op->peer, &head, iov, 1, iov[0].iov_len);
    }
    if (op->type == AFI_ATOMIC_OP) {
        head.kind = AFI_ATOMIC_REQUEST;
        head.tag =
            (uint64_t)op->datatype | (uint64_t)op->operation << 8 | (uint64_t)op->fetches << 16;
        iov[1] = (struct iovec){.iov_base = op->copy, .iov_len = op->copy_len};
        return wire_transmit(op->peer, &head, iov, 2, afi_iov_len(iov, 2));
    }
    head.kind = AFI_PUT;
    if (sizeof(head) + iov[0].iov_len + op->len > op->peer->eager) {
        aq_status st = wire_send_remote(op, &head, iov, 1);
        op->is_long = st == AQ_OK;
        op->peer->long_writes += op->is_long;
        return st;
    }
    memcpy(&iov[1], op->iov, op->count * sizeof(struct iovec));
    return wire_transmit(op->peer, &head, iov, 1 + op->count, iov[0].iov_len + op->len);
}

static aq_status wire_send(struct afi_op *op)
{
    struct afi_peer *peer = op->peer;
    if (op->fence && !aqi_list_is_empty(&peer->under_way)) return AQ_AGAIN;
    aq_status st = op->type == AFI_SEND ? wire_send_message(op) : wire_send_access(op);
    if (st != AQ_OK) return st;
    if (op->ack == 0) {
        afi_op_end(op, 0);
        return AQ_OK;
    }
    aqi_list_remove(&op->link);
    aqi_list_append(&peer->under_way, &op->link);
    op->sent = true;
    return AQ_OK;
}

static int wire_start(struct afi_op *op)
{
    struct afi_peer *peer = op->peer;
    if (AQI_LIKELY(afi_wire_is_free(peer))) {
        aq_status st = wire_send(op);
        if (st == AQ_OK) return 0;
        if (st != AQ_AGAIN && st != AQ_EPEER) return afi_error(st);
    }
    if (peer->waiting_count >= peer->ep->tx_size) return -FI_EAGAIN;
    if (op->injected && !wire_own(op)) return -FI_EAGAIN;
    aqi_list_append(&peer->waiting, &op->link);
    peer->waiting_count++;
    if (peer->state == AFI_UP)
        afi_peer_activate(peer);
    else
        afi_peer_call(peer);
    return 0;
}

int afi_op_start(struct afi_op *op, int err)
{
    if (err == 0) err = wire_start(op);
    if (err == 0) return 0;
    afi_op_free(op);
    if (err == -FI_EAGAIN) afi_progress();
    return err;
}

static struct wire_note *wire_first_note(struct afi_peer *peer)
{
    return AQI_OF(peer->notes.next, struct wire_note, link);
}

static void wire_push_notes(struct afi_peer *peer)
{
    while (!aqi_list_is_empty(&peer->notes)) {
        struct wire_note *note = wire_first_note(peer);
        struct afi_wire head;
        const struct iovec iov = {.iov_base = note->bytes + sizeof(head),
                                  .iov_len = note->len - sizeof(head)};
        memcpy(&head, note->bytes, sizeof(head));
        if (wire_transmit(peer, &head, &iov, 1, iov.iov_len) != AQ_OK) return;
        aqi_list_remove(&note->link);
        free(note);
    }
}

/* Handle only the messages queued now, as each may queue more. */
static void wire_take_own(struct afi_peer *peer)
{
    struct aqi_node *last = peer->notes.prev;
    for (bool more = !aqi_list_is_empty(&peer->notes); more;) {
        struct wire_note *note = wire_first_note(peer);
        more = &note->link != last;
        aqi_list_remove(&note->link);
        afi_wire_input(peer, note->bytes, note->len);
        free(note);
    }
}

void afi_wire_push(struct afi_peer *peer)
{
    if (peer->state != AFI_UP && peer->state != AFI_AGREED) {
        afi_peer_progress(peer);
        return;
    }
    if (peer->self)
        wire_take_own(peer);
    else
        wire_push_notes(peer);
    if (peer->state == AFI_AGREED) {
        if (aqi_list_is_empty(&peer->notes)) aqi_list_remove(&peer->active);
        return;
    }
    while ((peer->self || aqi_list_is_empty(&peer->notes)) && !aqi_list_is_empty(&peer->waiting)) {
        if (wire_send(AQI_OF(peer->waiting.next, struct afi_op, link)) != AQ_OK) break;
        peer->waiting_count--;
    }
    /* Credit, and the end of a write, make the peer active again. */
    if (aqi_list_is_empty(&peer->notes) &&
        (aqi_list_is_empty(&peer->waiting) ||
         wire_must_wait(AQI_OF(peer->waiting.next, struct afi_op, link))))
        aqi_list_remove(&peer->active);
}

void afi_wire_forget(struct afi_peer *peer)
{
    while (!aqi_list_is_empty(&peer->notes)) {
        struct wire_note *note = wire_first_note(peer);
        aqi_list_remove(&note->link);
        free(note);
    }
    aqi_early_drop(&peer->early);
}

/* --- closing an unused connection ------------------------------------------------------------ */

/*
 * Whether this end has nothing to send or to answer, and keeps no unexpected message. If that is
 * true of both ends, and all credit has been returned, nothing is in flight that could be lost.
 */
static bool wire_is_unused(const struct afi_peer *peer)
{
    return !peer->self && aqi_list_is_empty(&peer->waiting) &&
           aqi_list_is_empty(&peer->under_way) && aqi_list_is_empty(&peer->notes) &&
           peer->early.count == 0 && peer->kept == 0;
}

void afi_wire_leave(struct afi_peer *peer)
{
    static const struct afi_wire head = {.kind = AFI_LEAVE};
    if (peer->state != AFI_UP || !wire_is_unused(peer)) return;
    if (wire_transmit(peer, &head, NULL, 0, 0) == AQ_OK) peer->state = AFI_LEAVING;
}

static bool wire_on_leave(struct afi_peer *peer)
{
    static const struct afi_wire agree = {.kind = AFI_AGREE}, stay = {.kind = AFI_STAY};
    /* Both ends ask simultaneously: the one whose name comes last answers. */
    bool both = peer->state == AFI_LEAVING;
    if (both && afi_name_before(&peer->ep->name, &peer->ident->name)) return true;
    if (peer->state != AFI_UP && !both) return false;
    bool agreed = wire_is_unused(peer) && peer->left == AFI_WINDOW;
    peer->state = AFI_UP;
    afi_wire_note(peer, agreed ? &agree : &stay, NULL, 0);
    if (agreed && peer->state == AFI_UP) peer->state = AFI_AGREED;
    return true;
}

static bool wire_on_agree(struct afi_peer *peer)
{
    if (peer->state != AFI_LEAVING) return false;
    peer->state = AFI_PARTING;
    afi_peer_activate(peer);
    return true;
}

static bool wire_on_stay(struct afi_peer *peer)
{
    if (peer->state != AFI_LEAVING) return false;
    peer->state = AFI_UP;
    afi_peer_activate(peer);
    return true;
}

/* --- arriving -------------------------------------------------------------------------------- */

/* Charge a message to the window of its sender. Returns false if the sender exceeds it. */
static inline bool wire_has_window(struct afi_peer *peer, size_t bytes)
{
    if (AQI_UNLIKELY(bytes + AFI_COST > AFI_WINDOW - peer->taken)) return false;
    peer->taken += (uint32_t)(bytes + AFI_COST);
    return true;
}

bool afi_wire_has_pieces(const struct afi_wire *head, const unsigned char *bytes, size_t len)
{
    struct afi_piece pieces[AFI_IOVS];
    uint64_t sum = 0;
    if (head->pieces > AFI_IOVS || len != head->pieces * sizeof(pieces[0])) return false;
    memcpy(pieces, bytes, len);
    for (unsigned i = 0; i < head->pieces; i++) {
        if (pieces[i].len > AFI_MAX_MESSAGE - sum) return false;
        sum += pieces[i].len;
    }
    return sum == head->len;
}

static bool wire_on_message(struct afi_peer *peer, const struct afi_wire *head,
                            const unsigned char *bytes, size_t len)
{
    struct afi_message message = {.tagged = (head->flags & AFI_TAGGED_FLAG) != 0,
                                  .remote = (head->flags & AFI_REMOTE) != 0,
                                  .flags = head->flags,
                                  .op = head->op,
                                  .epoch = peer->epoch,
                                  .tag = head->tag,
                                  .data = head->data,
                                  .len = head->len,
                                  .bytes = bytes,
                                  .nbytes = len};
    if (message.remote ? !afi_wire_has_pieces(head, bytes, len) : len != head->len) return false;
    if (!wire_has_window(peer, message.remote ? 0 : len)) return false;
    afi_receive(peer, &message);
    if ((head->flags & AFI_ACK_ARRIVED) != 0) afi_wire_answer(peer, peer->epoch, head->op, 0);
    return true;
}

static bool wire_on_done(struct afi_peer *peer, const struct afi_wire *head)
{
    struct afi_op *op = wire_find_op(peer, head->op);
    if (op != NULL) afi_op_end(op, (int)(head->tag & 0xffff));
    return op != NULL;
}

static bool wire_on_bytes(struct afi_peer *peer, const struct afi_wire *head,
                          const unsigned char *bytes, size_t len)
{
    struct afi_op *op = wire_find_op(peer, head->op);
    if (op == NULL || (op->type != AFI_READ && !op->fetches) ||
        len != afi_iov_len(op->iov, op->count))
        return false;
    afi_iov_scatter(op->iov, op->count, 0, bytes, len);
    afi_op_end(op, 0);
    return true;
}

static void wire_granted(struct afi_fetch *fetch)
{
    struct afi_op *op = wire_find_op(fetch->peer, fetch->remote_op);
    if (op != NULL) afi_op_end(op, fetch->status == AQ_OK ? 0 : FI_EIO);
}

static bool wire_on_grant(struct afi_peer *peer, const struct afi_wire *head,
                          const unsigned char *bytes, size_t len)
{
    struct afi_op *op = wire_find_op(peer, head->op);
    if (op == NULL || op->type != AFI_READ || head->len != op->len ||
        !afi_wire_has_pieces(head, bytes, len))
        return false;
    struct afi_fetch *fetch = afi_fetch_new(peer, bytes, len);
    if (fetch == NULL) {
        afi_op_end(op, FI_ENOMEM);
        return true;
    }
    memcpy(fetch->to, op->iov, op->count * sizeof(struct iovec));
    fetch->to_count = op->count;
    fetch->len = op->len;
    fetch->remote_op = op->handle;
    fetch->done = wire_granted;
    afi_fetch_begin(fetch);
    return true;
}

static AQI_INLINE bool wire_on_brief(struct afi_peer *peer, const unsigned char *bytes, size_t len)
{
    struct afi_brief brief;
    memcpy(&brief, bytes, sizeof(brief));
    len -= sizeof(brief);
    const struct afi_message message = {.tagged = (brief.flags & AFI_TAGGED_FLAG) != 0,
                                        .flags = brief.flags,
                                        .epoch = peer->epoch,
                                        .tag = brief.tag,
                                        .data = brief.data,
                                        .len = len,
                                        .bytes = bytes + sizeof(brief),
                                        .nbytes = len};
    if ((brief.flags & ~(AFI_TAGGED_FLAG | AFI_DATA_FLAG)) != 0) return false;
    if (!wire_has_window(peer, len)) return false;
    afi_receive(peer, &message);
    return true;
}

/* Disconnect a peer that violates the protocol. */
static void wire_broken(struct afi_peer *peer)
{
    aqi_count(AQI_CTR_AM_DROPPED, 1);
    wire_abandon(peer);
}

/* Returns false if this is more credit than was used. */
static bool wire_take_credit(struct afi_peer *peer, uint32_t credit)
{
    if (credit > AFI_WINDOW - peer->left) return false;
    peer->left += credit;
    if (credit != 0 && !aqi_list_is_empty(&peer->waiting)) afi_peer_activate(peer);
    return true;
}

static bool wire_handle(struct afi_peer *peer, const struct afi_wire *head,
                        const unsigned char *bytes, size_t len)
{
    switch (head->kind) {
    case AFI_MESSAGE:
        return wire_on_message(peer, head, bytes, len);
    case AFI_DONE:
        return wire_on_done(peer, head);
    case AFI_PUT:
        return afi_target_put(peer, head, bytes, len);
    case AFI_GET:
        return afi_target_get(peer, head, bytes, len);
    case AFI_BYTES:
        return wire_on_bytes(peer, head, bytes, len);
    case AFI_GRANT:
        return wire_on_grant(peer, head, bytes, len);
    case AFI_ATOMIC_REQUEST:
        return afi_target_atomic(peer, head, bytes, len);
    case AFI_CREDIT:
        return len == 0;
    case AFI_LEAVE:
        return len == 0 && wire_on_leave(peer);
    case AFI_AGREE:
        return len == 0 && wire_on_agree(peer);
    case AFI_STAY:
        return len == 0 && wire_on_stay(peer);
    default:
        return false;
    }
}

static void wire_take_long(struct afi_peer *peer, const unsigned char *bytes, size_t len)
{
    struct afi_wire head;
    bool whole = len >= sizeof(head);
    if (whole) memcpy(&head, bytes, sizeof(head));
    if (!whole || !wire_take_credit(peer, head.credit) ||
        !wire_handle(peer, &head, bytes + sizeof(head), len - sizeof(head)))
        wire_broken(peer);
}

static AQI_INLINE void wire_take(struct afi_peer *peer, const unsigned char *bytes, size_t len)
{
    if (AQI_UNLIKELY(bytes[0] != AFI_BRIEF))
        wire_take_long(peer, bytes, len);
    else if (AQI_UNLIKELY(!wire_on_brief(peer, bytes, len)))
        wire_broken(peer);
}

/* The datagram engine of a correct peer has at most 4,096 packets in flight, so both limits are
 * far beyond what can arrive out of order. */
static bool wire_keep_early(struct afi_peer *peer, uint32_t number, const void *bytes, size_t len)
{
    static const struct aqi_early_most most = {.ahead = 1 << 20, .bytes = 256 << 20};
    struct wire_early *early = malloc(sizeof(*early) + len);
    if (early == NULL) return false;
    early->item.bytes = len;
    memcpy(early->bytes, bytes, len);
    bool kept = aqi_early_keep(&peer->early, peer->received, number, &early->item, &most);
    if (!kept) free(early);
    return kept;
}

void afi_wire_take_early(struct afi_peer *peer)
{
    struct wire_early *early;
    while ((early = aqi_early_take(&peer->early, peer->received + 1)) != NULL) {
        peer->received++;
        wire_take(peer, early->bytes, early->item.bytes);
        free(early);
    }
}

/* Before the event that the connection is open, nothing could be answered, and a peer that we have
 * called may not be the right one: messages that arrive before it are therefore also early. */
static AQI_INLINE void wire_input(struct afi_peer *peer, const void *bytes, size_t len)
{
    uint32_t number;
    bool calling = peer->state == AFI_CALLING;
    if (peer->state != AFI_UP && !calling && peer->state != AFI_LEAVING) return;
    if (len < sizeof(struct afi_brief)) {
        wire_broken(peer);
        return;
    }
    memcpy(&number, (const unsigned char *)bytes + offsetof(struct afi_wire, number),
           sizeof(number));
    if (AQI_UNLIKELY(number != peer->received + 1 || calling)) {
        if (!wire_keep_early(peer, number, bytes, len)) wire_broken(peer);
        return;
    }
    peer->received++;
    wire_take(peer, bytes, len);
    if (AQI_UNLIKELY(peer->early.count != 0)) afi_wire_take_early(peer);
}

void afi_wire_input(struct afi_peer *peer, const void *bytes, size_t len)
{
    wire_input(peer, bytes, len);
}

static void wire_handler(aq_am *am)
{
    aq_connection *connection = aq_connection_of(am);
    struct afi_peer *peer = connection != NULL ? aq_connection_context(connection) : NULL;
    if (peer != NULL && peer->connection == connection) wire_input(peer, am->payload, am->nbytes);
}

aq_status afi_wire_open(void)
{
    aq_handler_entry entry = {.index = WIRE_HANDLER,
                              .accepts = AQ_AM_MEDIUM | AQ_AM_REQUEST,
                              .fn = wire_handler,
                              .name = "fi"};
    return aq_am_register(aq_team_ep(afi.world), &entry, 1);
}
