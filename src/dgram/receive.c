/* Receiving: checks packets and numbers, processes records, delivers or keeps messages. */
#include "dgram/dgram_impl.h"

#include "base/copy.h"

#include <stdlib.h>

enum {
    RECEIVE_UNACKED = 16,      /* packets after which they are acknowledged at once */
    RECEIVE_INCOMING = 1 << 16 /* maximum number of incomplete messages and Longs of a peer */
};

/* --- fragments and Longs -----------------------------------------------------------------------
 */

/* A packet whose records are being processed. */
struct dgram_arrival {
    struct dgram_peer *peer;
    uint32_t seq;
    unsigned channel;
    bool requests; /* may be handled now */
    struct dgram_news news;
    struct dgram_packet *refusal; /* the packet that refuses puts in it */
    struct dgram_incoming *done;  /* complete, to be delivered; in no list */
    const char *broken;           /* why the connection must end; the packet counts as received */
    bool sliced;                  /* the last slice of a packet has arrived */
    bool loose;                   /* it is a message that may be dropped */
};

/* Acknowledged data is not retransmitted: without memory for it the connection must end. */
static bool receive_no_memory(struct dgram_arrival *arrival)
{
    arrival->broken = "it sent more than there is memory for here";
    return false;
}

static void *receive_or_break(struct dgram_arrival *arrival, void *memory)
{
    if (memory == NULL) (void)receive_no_memory(arrival);
    return memory;
}

static struct dgram_incoming **receive_find(struct dgram_conn *conn, uint32_t id, bool is_long)
{
    struct dgram_incoming **at = &conn->incoming[id % DGRAM_INCOMING_LISTS];
    while (*at != NULL && ((*at)->id != id || (*at)->is_long != is_long))
        at = &(*at)->next;
    return at;
}

static struct dgram_incoming *receive_incoming(struct aqi_dgram *dgram,
                                               struct dgram_arrival *arrival, uint32_t id,
                                               bool is_long)
{
    struct dgram_conn *conn = arrival->peer->conn;
    struct dgram_incoming **at = receive_find(conn, id, is_long);
    struct dgram_incoming *incoming = *at;
    if (incoming != NULL) return incoming;
    if (conn->incoming_count == RECEIVE_INCOMING)
        arrival->broken = "it sends parts of too many messages at a time";
    else
        incoming = receive_or_break(arrival, aqi_pool_get(&dgram->incoming_pool));
    if (incoming == NULL) return NULL;
    *incoming = (struct dgram_incoming){.id = id, .is_long = is_long, .total = SIZE_MAX};
    conn->incoming_count++;
    return *at = incoming;
}

static void receive_forget(struct aqi_dgram *dgram, struct dgram_incoming *incoming)
{
    free(incoming->message);
    aqi_pool_put(&dgram->incoming_pool, incoming);
}

void dgram_receive_forget_slices(struct dgram_conn *conn)
{
    if (conn->slices != NULL) free(conn->slices->bytes);
    free(conn->slices);
    conn->slices = NULL;
}

void dgram_receive_free(struct aqi_dgram *dgram, struct dgram_conn *conn)
{
    struct dgram_incoming *incoming;
    dgram_receive_forget_slices(conn);
    for (unsigned i = 0; i < DGRAM_INCOMING_LISTS; i++)
        while ((incoming = conn->incoming[i]) != NULL) {
            conn->incoming[i] = incoming->next;
            receive_forget(dgram, incoming);
        }
}

/* --- delivery ----------------------------------------------------------------------------------
 */

static void receive_deliver(struct aqi_dgram *dgram, uint32_t source, bool request,
                            unsigned char *message, size_t len)
{
    dgram->env.hooks.deliver(dgram->env.hooks.arg, source, request, message, len);
}

void dgram_receive_messages(struct aqi_dgram *dgram, uint32_t source, unsigned char *packet,
                            size_t len)
{
    struct dgram_walk walk = DGRAM_WALK;
    while (dgram_record_next(packet, len, &walk))
        if (walk.record.kind == DGRAM_MESSAGE || walk.record.kind == DGRAM_LOOSE)
            receive_deliver(dgram, source, (walk.record.flags & DGRAM_IS_REQUEST) != 0,
                            packet + (walk.bytes - packet), walk.nbytes);
}

/* --- records -----------------------------------------------------------------------------------
 */

/* Once all of it has arrived, move it to arrival->done. */
static void receive_complete(struct dgram_arrival *arrival, struct dgram_incoming *incoming)
{
    struct dgram_conn *conn = arrival->peer->conn;
    if (incoming->landed != incoming->total) return;
    *receive_find(conn, incoming->id, incoming->is_long) = incoming->next;
    conn->incoming_count--;
    incoming->next = arrival->done;
    arrival->done = incoming;
}

static bool receive_fragment(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                             const struct dgram_record *record, const unsigned char *bytes,
                             size_t n)
{
    size_t total = record->where >> 32, offset = (uint32_t)record->where;
    if (total > dgram->env.config.max_message || total < 8) return false;
    if (offset > total || n > total - offset) return false;
    struct dgram_incoming *incoming = receive_incoming(dgram, arrival, record->id, false);
    if (incoming == NULL) return false;
    if (incoming->message == NULL) {
        incoming->message = receive_or_break(arrival, malloc(dgram_round16(total)));
        if (incoming->message == NULL) return false;
        incoming->message_len = incoming->total = total;
        incoming->request = (record->flags & DGRAM_IS_REQUEST) != 0;
    }
    if (incoming->total != total || n > total - incoming->landed) return false;
    memcpy(incoming->message + offset, bytes, n);
    incoming->landed += n;
    receive_complete(arrival, incoming);
    return true;
}

static bool receive_long(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                         const struct dgram_record *record, const unsigned char *bytes, size_t n)
{
    struct dgram_incoming *incoming = receive_incoming(dgram, arrival, record->id, true);
    if (incoming == NULL || incoming->message != NULL || incoming->landed > record->where)
        return false;
    incoming->message = receive_or_break(arrival, malloc(dgram_round16(n)));
    if (incoming->message == NULL) return false;
    memcpy(incoming->message, bytes, n);
    incoming->message_len = n;
    incoming->total = record->where;
    incoming->request = (record->flags & DGRAM_IS_REQUEST) != 0;
    receive_complete(arrival, incoming);
    return true;
}

/*
 * A packet with refused puts is acknowledged only once the refusal has arrived, since the sender
 * considers acknowledged puts complete. Returns false if there is no room to record that; the
 * packet must be retransmitted.
 */
static bool receive_prepare_refusal(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                                    const unsigned char *packet, size_t len)
{
    struct dgram_conn *conn = arrival->peer->conn;
    const struct aqi_dgram_hooks *hooks = &dgram->env.hooks;
    struct dgram_walk walk = DGRAM_WALK;
    bool ok = true;
    while (ok && dgram_record_next(packet, len, &walk))
        if (walk.record.kind == DGRAM_PUT)
            ok = hooks->range_ok(hooks->arg, walk.record.where, walk.nbytes);
    if (ok) return true;
    unsigned i = 0;
    while (i < DGRAM_HELD && conn->held[i].taken)
        i++;
    if (i == DGRAM_HELD) return false;
    arrival->refusal = dgram_queue_packet(&dgram->env, conn, AQI_DGRAM_COMMAND, DGRAM_REFUSAL_LANE);
    if (arrival->refusal == NULL) return false;
    conn->held[i].taken = true;
    conn->held[i].seq = arrival->seq;
    conn->held[i].channel = (uint8_t)arrival->channel;
    conn->holding++;
    arrival->refusal->release = (uint8_t)(i + 1);
    dgram_make_ready(&dgram->env, arrival->peer);
    return true;
}

static bool receive_allowed(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                            const struct dgram_record *put, size_t n)
{
    const struct aqi_dgram_hooks *hooks = &dgram->env.hooks;
    struct dgram_record refusal = {.len = sizeof(refusal), .kind = DGRAM_REFUSED, .id = put->id};
    struct dgram_conn *conn = arrival->peer->conn;
    if (arrival->refusal == NULL || hooks->range_ok(hooks->arg, put->where, n)) return true;
    if (dgram_round16(arrival->refusal->len) + sizeof(refusal) <=
        dgram_capacity(&dgram->env, conn, AQI_DGRAM_COMMAND))
        memcpy(dgram_queue_extend(conn, arrival->refusal, sizeof(refusal)), &refusal,
               sizeof(refusal));
    return false;
}

static bool receive_put(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                        const struct dgram_record *record, const unsigned char *bytes, size_t n)
{
    bool ok = receive_allowed(dgram, arrival, record, n);
    if (ok) aqi_copy_put((void *)(uintptr_t)record->where, bytes, n);
    if ((record->flags & DGRAM_OF_LONG) == 0) return true;
    struct dgram_incoming *incoming = receive_incoming(dgram, arrival, record->id, true);
    if (incoming == NULL || n > incoming->total - incoming->landed) return false;
    if (!ok) incoming->refused = true;
    incoming->landed += n;
    receive_complete(arrival, incoming);
    return true;
}

static bool receive_get(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                        const struct dgram_record *record, const unsigned char *bytes, size_t n)
{
    const struct aqi_dgram_hooks *hooks = &dgram->env.hooks;
    struct dgram_peer *peer = arrival->peer;
    uint64_t len;
    memcpy(&len, bytes, n);
    if (len == 0 || len > SIZE_MAX / 2 || !hooks->range_ok(hooks->arg, record->where, len))
        return dgram_refuse(&dgram->env, peer, record->id) || receive_no_memory(arrival);
    unsigned char *local = (unsigned char *)(uintptr_t)record->where;
    if (len <= AQI_DGRAM_COPIED) {
        struct dgram_record answer = {
            .len = (uint16_t)(sizeof(answer) + len), .kind = DGRAM_BYTES, .id = record->id};
        if (!dgram_queue_copy(&dgram->env, peer, DGRAM_OTHER_LANE, &answer, local, NULL))
            return receive_no_memory(arrival);
    } else {
        struct dgram_op init = {
            .kind = DGRAM_OP_SERVE, .id = record->id, .local = local, .len = len};
        struct dgram_op *op = receive_or_break(arrival, dgram_op_new(&dgram->env, peer, &init));
        if (op == NULL) return false;
        dgram_op_join_bulk(peer->conn, op);
    }
    dgram_make_ready(&dgram->env, peer);
    return true;
}

/* Find the operation of ours that a peer answers. */
static struct dgram_op *receive_answered(struct aqi_dgram *dgram,
                                         const struct dgram_arrival *arrival, uint32_t id)
{
    struct dgram_op *op = dgram_op_find(&dgram->env, id);
    return op != NULL && op->peer == arrival->peer->id ? op : NULL;
}

static bool receive_bytes(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                          const struct dgram_record *record, const unsigned char *bytes, size_t n)
{
    struct dgram_op *op = receive_answered(dgram, arrival, record->id);
    if (op == NULL || op->kind != DGRAM_OP_GET) return true; /* refused meanwhile */
    if (record->where > op->len || n > op->len - record->where || n > op->len - op->finished)
        return false;
    memcpy(op->local + record->where, bytes, n);
    op->finished += n;
    dgram_op_settle(&dgram->env, arrival->peer, op);
    return true;
}

static bool receive_refused(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                            const struct dgram_record *record, const unsigned char *bytes, size_t n)
{
    struct dgram_op *op = receive_answered(dgram, arrival, record->id);
    (void)bytes, (void)n;
    if (op != NULL) dgram_op_fail(&dgram->env, arrival->peer, op, AQ_ERANGE);
    return true;
}

static bool receive_sack(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                         const struct dgram_record *record, const unsigned char *bytes, size_t n)
{
    return dgram_ack_sack(&dgram->env, arrival->peer, record, bytes, n, &arrival->news);
}

static struct dgram_slices *receive_slices(struct dgram_conn *conn,
                                           const struct dgram_record *record, size_t total)
{
    struct dgram_slices *slices = conn->slices;
    if (slices == NULL) slices = conn->slices = calloc(1, sizeof(*slices));
    if (slices == NULL) return NULL;
    if (slices->bytes != NULL && slices->channel == record->flags && slices->seq == record->id &&
        slices->total == total)
        return slices;
    /* The peer slices one packet at a time, so the missing slices of the earlier one were lost. */
    unsigned char *bytes = realloc(slices->bytes, dgram_round16(total) + DGRAM_TAG);
    if (bytes == NULL) return NULL;
    *slices = (struct dgram_slices){.channel = record->flags,
                                    .seq = record->id,
                                    .total = total,
                                    .missing = dgram_round16(total),
                                    .bytes = bytes};
    return slices;
}

/* Slices arrive in any order and repeatedly, and may be cut differently the next time. */
static bool receive_slice(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                          const struct dgram_record *record, const unsigned char *bytes, size_t n)
{
    size_t total = record->where >> 32, offset = (uint32_t)record->where;
    if (record->flags >= AQI_DGRAM_CHANNELS || total > dgram->env.config.packet) return false;
    if (offset % 16 != 0 || offset >= total || n > total - offset) return false;
    if (n % 16 != 0 && n != total - offset) return false;
    struct dgram_slices *slices = receive_slices(arrival->peer->conn, record, total);
    if (slices == NULL) return true; /* no memory */
    memcpy(slices->bytes + offset, bytes, n);
    for (size_t i = offset / 16; i < dgram_round16(offset + n) / 16; i++) {
        uint64_t bit = UINT64_C(1) << i % 64;
        if ((slices->have[i / 64] & bit) == 0) slices->missing -= 16;
        slices->have[i / 64] |= bit;
    }
    if (slices->missing == 0) arrival->sliced = true;
    return true;
}

/* Valid if such messages are accepted; receive_loose delivers it. */
static bool receive_may_be_loose(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                                 const struct dgram_record *r, const unsigned char *bytes, size_t n)
{
    (void)arrival, (void)r, (void)bytes, (void)n;
    return dgram->env.config.loose;
}

/* Returns false if the record is malformed, or there is no memory for it. */
typedef bool receive_fn(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                        const struct dgram_record *record, const unsigned char *bytes, size_t n);
static receive_fn *const receive_serve[DGRAM_RECORDS] = {
    [DGRAM_FRAGMENT] = receive_fragment,  [DGRAM_PUT] = receive_put,
    [DGRAM_LONG] = receive_long,          [DGRAM_GET] = receive_get,
    [DGRAM_BYTES] = receive_bytes,        [DGRAM_REFUSED] = receive_refused,
    [DGRAM_SACK] = receive_sack,          [DGRAM_SLICE] = receive_slice,
    [DGRAM_LOOSE] = receive_may_be_loose,
};

static void receive_records(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                            const unsigned char *packet, size_t len)
{
    struct dgram_walk walk = DGRAM_WALK;
    while (dgram_record_next(packet, len, &walk)) {
        receive_fn *serve = receive_serve[walk.record.kind];
        if (serve != NULL && !serve(dgram, arrival, &walk.record, walk.bytes, walk.nbytes))
            dgram_count(&dgram->env, AQI_DGRAM_DROP_MALFORMED);
    }
}

/* Keep requests that may not be handled now. */
static void receive_keep_done(struct aqi_dgram *dgram, struct dgram_arrival *arrival)
{
    for (struct dgram_incoming *i = arrival->done; i != NULL; i = i->next) {
        if (!i->request || arrival->requests || i->refused) continue;
        if (dgram_keep_message(dgram, arrival->peer, i->message, i->message_len))
            i->message = NULL;
        else
            (void)receive_no_memory(arrival);
    }
}

/* The peer may be lost during a delivery. Nothing is delivered if the connection is broken. */
static void receive_deliver_done(struct aqi_dgram *dgram, struct dgram_arrival *arrival)
{
    uint32_t source = arrival->peer->id;
    for (struct dgram_incoming *done = arrival->done, *next; done != NULL; done = next) {
        next = done->next;
        if (arrival->broken == NULL && done->message != NULL && !done->refused)
            receive_deliver(dgram, source, done->request, done->message, done->message_len);
        receive_forget(dgram, done);
    }
}

/* --- packets -----------------------------------------------------------------------------------
 */

static void receive_acknowledge(struct aqi_dgram *dgram, struct dgram_peer *peer, bool now)
{
    struct dgram_conn *conn = peer->conn;
    conn->unacked++;
    dgram_ack_find_gap(conn);
    if (now || conn->gap || conn->unacked >= RECEIVE_UNACKED) {
        conn->ack_now = true;
        dgram_make_ready(&dgram->env, peer);
    } else if (conn->ack_at == AQI_DGRAM_NEVER) {
        conn->ack_at = dgram->env.now + dgram->env.config.ack_delay;
        dgram_set_timer(dgram, peer);
    }
}

/* A peer that sends us bulk shares the port's room with the others that do. */
static void receive_share(struct aqi_dgram *dgram, struct dgram_peer *peer)
{
    enum { ACTIVE = 20000000 };
    struct dgram_conn *conn = peer->conn;
    if (conn->active_until == 0) dgram->env.actives++;
    conn->active_until = dgram->env.now + ACTIVE;
}

/* A duplicate: perhaps our acknowledgement was lost. */
static void receive_repeated(struct aqi_dgram *dgram, struct dgram_peer *peer,
                             const struct dgram_head *head)
{
    struct dgram_conn *conn = peer->conn;
    dgram_count(&dgram->env, AQI_DGRAM_DUPLICATES);
    conn->duplicate_count++;
    conn->repeated = true;
    conn->ack_now = true;
    dgram_make_ready(&dgram->env, peer);
    if (head->flags & DGRAM_ASKS) dgram_ack_asked(&dgram->env, peer);
}

static void receive_numbered(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                             const struct dgram_head *head, unsigned char *packet, size_t len)
{
    struct dgram_peer *peer = arrival->peer;
    struct dgram_conn *conn = peer->conn;
    struct dgram_rx *rx = &conn->rx[arrival->channel];
    /* It has more to send, or lacks an acknowledgement. */
    if (peer->state == DGRAM_CLOSING) peer->state = DGRAM_UP;
    if (!dgram_seen_fits(&rx->seen, head->seq)) {
        bool old = dgram_diff(head->seq, rx->seen.base) < 0;
        if (old)
            receive_repeated(dgram, peer, head);
        else
            dgram_count(&dgram->env, AQI_DGRAM_DROP_WINDOW);
        return;
    }
    if (!rx->ordered || (int16_t)(head->order - rx->order) > 0) rx->order = head->order;
    rx->ordered = true;
    if (dgram_seen_has(&rx->seen, head->seq)) {
        receive_repeated(dgram, peer, head);
        return;
    }
    bool requests = (head->flags & DGRAM_REQUESTS) != 0;
    bool keep = requests && !arrival->requests;
    if (keep ? !dgram_keep_packet(dgram, peer, packet, len)
             : !receive_prepare_refusal(dgram, arrival, packet, len)) {
        dgram_count(&dgram->env, AQI_DGRAM_DROP_POOL);
        return;
    }
    dgram_seen_mark(&rx->seen, head->seq);
    dgram_count(&dgram->env, AQI_DGRAM_RECEIVED);
    conn->received_count++;
    conn->used = dgram->env.now;
    conn->newest = aqi_max(conn->newest, dgram->env.arrived);
    if (dgram->env.arrived == 0) conn->unsure = true;
    if (arrival->channel == AQI_DGRAM_DATA) receive_share(dgram, peer);
    receive_records(dgram, arrival, packet, len);
    receive_keep_done(dgram, arrival);
    if (arrival->broken != NULL) {
        receive_deliver_done(dgram, arrival);
        dgram_lose(dgram, peer, AQI_DGRAM_BROKEN, arrival->broken);
        return;
    }
    /* Acknowledge a small packet that may close a gap, lest it be retransmitted (RFC 5681). */
    bool closes = conn->gap && arrival->channel == AQI_DGRAM_COMMAND;
    receive_acknowledge(dgram, peer, closes || (head->flags & DGRAM_ASKS) != 0);
    uint32_t source = peer->id;
    if (arrival->done != NULL) receive_deliver_done(dgram, arrival);
    if (!keep) dgram_receive_messages(dgram, source, packet, len);
}

static bool receive_is_loose(const struct aqi_dgram *dgram, const unsigned char *packet, size_t len)
{
    struct dgram_walk walk = DGRAM_WALK;
    return dgram->env.config.loose && dgram_record_next(packet, len, &walk) &&
           walk.record.kind == DGRAM_LOOSE;
}

/* A message of aqi_dgram_cast: dropped if no handler may run and there is no room to keep it. */
static void receive_loose(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                          unsigned char *packet, size_t len)
{
    struct dgram_peer *peer = arrival->peer;
    if (!arrival->requests) {
        if (!dgram_keep_loose(dgram, peer, packet, len))
            dgram_count(&dgram->env, AQI_DGRAM_DROP_POOL);
        return;
    }
    dgram_count(&dgram->env, AQI_DGRAM_RECEIVED);
    peer->conn->received_count++;
    peer->conn->used = dgram->env.now;
    dgram_receive_messages(dgram, peer->id, packet, len);
}

static void receive_unnumbered(struct aqi_dgram *dgram, struct dgram_arrival *arrival,
                               const struct dgram_head *head, unsigned char *packet, size_t len)
{
    struct dgram_peer *peer = arrival->peer;
    if (head->flags & DGRAM_ASKS) {
        peer->conn->ack_now = true;
        if (peer->state == DGRAM_CLOSING) peer->state = DGRAM_UP;
        dgram_make_ready(&dgram->env, peer);
    }
    receive_records(dgram, arrival, packet, len);
    dgram_ack_done(&dgram->env, peer, &arrival->news);
    if (AQI_UNLIKELY(arrival->loose)) receive_loose(dgram, arrival, packet, len);
}

/* Find the peer of a packet, and subtract the MAC from `*len`. Returns NULL if it was dropped. */
static struct dgram_peer *receive_check(struct aqi_dgram *dgram, const struct dgram_head *head,
                                        const unsigned char *packet, size_t *len)
{
    struct dgram_peer *peer = dgram_peer_of(dgram, head->source);
    if (peer == NULL || !dgram_is_connected(peer) || peer->conn->cookie_in != head->cookie) {
        dgram_count(&dgram->env, AQI_DGRAM_DROP_COOKIE);
        if (peer != NULL && peer->state == DGRAM_IDLE)
            dgram_connect_reset(dgram, peer, head->cookie);
        return NULL;
    }
    if (head->version != aqi_wire_version(AQI_WIRE_UDP)) {
        dgram_count(&dgram->env, AQI_DGRAM_DROP_VERSION);
        return NULL;
    }
    if (dgram->env.config.authenticate) {
        if (*len < sizeof(*head) + DGRAM_TAG || !dgram_tag_ok(dgram, peer->conn, packet, *len)) {
            dgram_count(&dgram->env, AQI_DGRAM_DROP_MAC);
            return NULL;
        }
        *len -= DGRAM_TAG;
    }
    if (!dgram_records_valid(packet, *len, head->flags)) {
        dgram_count(&dgram->env, AQI_DGRAM_DROP_MALFORMED);
        return NULL;
    }
    return peer;
}

/* Park a packet with new contents. If it requests an acknowledgement, acknowledge earlier ones. */
static void receive_later(struct aqi_dgram *dgram, struct dgram_peer *peer,
                          const struct dgram_head *head, const unsigned char *packet, size_t len)
{
    struct dgram_conn *conn = peer->conn;
    if (peer->state == DGRAM_CLOSING) peer->state = DGRAM_UP;
    if (!dgram_park_put(&dgram->park, head, packet, len, dgram->env.arrived,
                        dgram->env.config.room))
        dgram_count(&dgram->env, AQI_DGRAM_DROP_POOL);
    conn->used = dgram->env.now;
    if ((head->flags & DGRAM_ASKS) == 0) return;
    conn->ack_now = true;
    dgram_make_ready(&dgram->env, peer);
}

enum receive_how { RECEIVE_ANSWER, RECEIVE_REPLIES, RECEIVE_ALL };

static void receive_packet(struct aqi_dgram *dgram, unsigned char *packet, size_t len,
                           enum receive_how how);

/*
 * Process a packet whose slices have all arrived, like any other with a number. The connection may
 * end. Each slice had its own MAC, and they may be from several transmissions with different heads,
 * so the packet gets a new one.
 */
static void receive_sliced(struct aqi_dgram *dgram, const struct dgram_conn *conn,
                           enum receive_how how)
{
    struct dgram_slices *slices = conn->slices;
    unsigned char *packet = slices->bytes;
    size_t total = slices->total;
    slices->bytes = NULL;
    struct dgram_head head = {0};
    memcpy(&head, packet, aqi_min(total, sizeof(head)));
    if (dgram->env.config.authenticate) {
        const struct iovec all = {.iov_base = packet, .iov_len = total};
        dgram->env.hooks.mac(dgram->env.hooks.arg, NULL, conn->mac_key, &all, 1, packet + total);
        total += DGRAM_TAG;
    }
    if (head.flags & DGRAM_NUMBERED && head.cookie != DGRAM_HANDSHAKE)
        receive_packet(dgram, packet, total, how);
    else
        dgram_count(&dgram->env, AQI_DGRAM_DROP_MALFORMED);
    free(packet);
}

static void receive_packet(struct aqi_dgram *dgram, unsigned char *packet, size_t len,
                           enum receive_how how)
{
    struct dgram_head head;
    size_t whole = len;
    uint64_t cookie = 0;
    if (len >= sizeof(cookie)) memcpy(&cookie, packet, sizeof(cookie));
    if (cookie == DGRAM_HANDSHAKE) {
        dgram_connect_input(dgram, packet, len);
        return;
    }
    if (len < sizeof(head)) {
        dgram_count(&dgram->env, AQI_DGRAM_DROP_SHORT);
        return;
    }
    memcpy(&head, packet, sizeof(head));
    struct dgram_peer *peer = receive_check(dgram, &head, packet, &len);
    if (peer == NULL) return;
    struct dgram_conn *conn = peer->conn;
    struct dgram_arrival arrival = {.peer = peer,
                                    .seq = head.seq,
                                    .channel = head.flags & DGRAM_ON_DATA ? AQI_DGRAM_DATA
                                                                          : AQI_DGRAM_COMMAND,
                                    .requests = how == RECEIVE_ALL,
                                    .news = {.first = UINT64_MAX,
                                             .old = (head.flags & DGRAM_OLD) != 0,
                                             .repeated = (head.flags & DGRAM_REPEATED) != 0}};
    if (!dgram_ack_head(&dgram->env, peer, &head, &arrival.news)) {
        dgram_count(&dgram->env, AQI_DGRAM_DROP_WINDOW);
        return;
    }
    dgram->heard = conn->heard = dgram->env.now;
    conn->room = (size_t)head.room << 10;
    dgram->env.flagged = dgram->env.flagged || (head.flags & DGRAM_FLAGGED) != 0;
    dgram_connect_proved(dgram, peer);
    if (head.flags & DGRAM_NUMBERED) dgram_ack_done(&dgram->env, peer, &arrival.news);
    const struct dgram_seen *seen = &conn->rx[arrival.channel].seen;
    bool numbered = (head.flags & DGRAM_NUMBERED) != 0;
    arrival.loose = !numbered && receive_is_loose(dgram, packet, len);
    bool new = numbered ? dgram_seen_fits(seen, head.seq) && !dgram_seen_has(seen, head.seq)
                        : arrival.loose;
    if (how == RECEIVE_ANSWER && new) {
        receive_later(dgram, peer, &head, packet, whole);
    } else if (numbered) {
        receive_numbered(dgram, &arrival, &head, packet, len);
    } else {
        receive_unnumbered(dgram, &arrival, &head, packet, len);
        if (arrival.sliced) receive_sliced(dgram, conn, how);
    }
}

static void receive_at(struct aqi_dgram *dgram, unsigned char *packet, size_t len,
                       enum receive_how how, uint64_t waited, uint64_t now)
{
    bool timed = dgram->env.timed;
    uint64_t arrived = dgram->env.arrived;
    if (now > dgram->env.now) dgram->env.now = now;
    dgram->env.timed = true;
    dgram->env.arrived = waited < dgram->env.now ? dgram->env.now - waited : 0;
    uint64_t most = dgram->env.now - dgram->looked;
    dgram->env.away = aqi_max(dgram->env.away, aqi_min(waited, most));
    receive_packet(dgram, packet, len, how);
    dgram->env.arrived = arrived;
    dgram->env.timed = timed;
}

void aqi_dgram_input(struct aqi_dgram *dgram, unsigned char *packet, size_t len, bool requests,
                     uint64_t waited, uint64_t now)
{
    dgram->receives = true;
    receive_at(dgram, packet, len, requests ? RECEIVE_ALL : RECEIVE_REPLIES, waited, now);
}

void aqi_dgram_answer(struct aqi_dgram *dgram, unsigned char *packet, size_t len, uint64_t waited,
                      uint64_t now)
{
    receive_at(dgram, packet, len, RECEIVE_ANSWER, waited, now);
}

/* --- parked packets ----------------------------------------------------------------------------
 */

bool aqi_dgram_parked(const struct aqi_dgram *dgram)
{
    return dgram->park.first != NULL;
}

unsigned aqi_dgram_resume(struct aqi_dgram *dgram, bool requests, uint64_t now)
{
    unsigned n = 0;
    struct dgram_parked *parked;
    /* Others may be parked while handlers run. */
    for (uint32_t left = dgram->park.count;
         left > 0 && (parked = dgram_park_take(&dgram->park)) != NULL; left--, n++) {
        uint64_t waited = parked->arrived != 0 ? now - parked->arrived : AQI_DGRAM_NEVER;
        aqi_dgram_input(dgram, parked->bytes, parked->len, requests, waited, now);
        dgram_parked_free(parked);
    }
    return n;
}
