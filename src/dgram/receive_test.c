/*
 * Twin of receive.c: a peer that connects and then sends what no engine would. Each bound is tried
 * on both sides. Refused packets are counted, leave memory alone, and harm no other peer.
 */
#include "dgram/forge_test.h"

/* --- messages in pieces ----------------------------------------------------------------------- */

static bool fragment(uint32_t id, uint64_t total, uint64_t offset, size_t n)
{
    return refuses_record(
        LIAR, DGRAM_NUMBERED,
        (struct dgram_record){.kind = DGRAM_FRAGMENT, .id = id, .where = total << 32 | offset}, n);
}

static void test_fragments(void **state)
{
    open_world(false);
    /* The first fragment says how much to allocate. */
    assert_false(fragment(1, MOST, 0, 16));
    assert_true(fragment(2, MOST + 1, 0, 16));
    assert_true(fragment(3, UINT32_MAX, 0, 16));
    assert_true(fragment(4, 7, 0, 7));
    assert_true(fragment(5, 0, 0, 1));
    assert_int_equal(world.delivered, 0);
    assert_false(fragment(6, 8, 0, 8));
    assert_int_equal(world.delivered, 1);
    assert_int_equal(world.delivered_len, 8);
    /* Fragments must lie within that. */
    assert_true(fragment(7, 100, 100, 1));
    assert_true(fragment(7, 100, 101, 1));
    assert_true(fragment(7, 100, UINT32_MAX, 1));
    assert_true(fragment(7, 100, 84, 17));
    assert_false(fragment(7, 100, 84, 16));
    /* A later fragment that disagrees, and one with more than is missing. */
    assert_true(fragment(7, 101, 0, 16));
    assert_true(fragment(7, 99, 0, 16));
    assert_true(fragment(7, 100, 0, 85));
    assert_false(fragment(7, 100, 0, 83));
    assert_true(fragment(7, 100, 90, 2));
    assert_int_equal(world.delivered, 1);
    assert_false(fragment(7, 100, 83, 1));
    assert_int_equal(world.delivered, 2);
    assert_int_equal(world.delivered_len, 100);
    /* The largest. */
    assert_false(fragment(1, MOST, 16, MOST - 16));
    assert_int_equal(world.delivered_len, MOST);
    assert_int_equal(peer_of(LIAR)->conn->incoming_count, 0);
    assert_int_equal(world.lost, 0);
    close_world();
}

/* Messages that a peer begins and never completes take no more memory than this. */
static void test_too_many_messages(void **state)
{
    enum { INCOMING = 1 << 16 };
    open_world(false);
    struct dgram_conn *conn = peer_of(LIAR)->conn;
    for (uint32_t id = 1; id <= 100; id++) { /* complete ones make room for others */
        assert_false(fragment(id, 16, 8, 8));
        assert_int_equal(conn->incoming_count, 1);
        assert_false(fragment(id, 16, 0, 8));
        assert_int_equal(conn->incoming_count, 0);
    }
    assert_int_equal(world.delivered, 100);
    conn->incoming_count = INCOMING - 1; /* beginning all of them would take long */
    assert_false(fragment(200, 16, 0, 8));
    assert_int_equal(conn->incoming_count, INCOMING);
    assert_int_equal(world.lost, 0);
    assert_true(fragment(201, 16, 0, 8));
    run(100000);
    assert_int_equal(world.lost, 1);
    assert_string_equal(world.why, "it sends parts of too many messages at a time");
    close_world();
}

/* --- Longs ------------------------------------------------------------------------------------ */

static bool long_head(uint32_t id, uint64_t bytes)
{
    return refuses_record(LIAR, DGRAM_NUMBERED,
                          (struct dgram_record){.kind = DGRAM_LONG, .id = id, .where = bytes}, 24);
}

static bool put(uint32_t id, size_t offset, size_t n, uint8_t flags)
{
    begin(LIAR, DGRAM_NUMBERED);
    add(
        (struct dgram_record){
            .kind = DGRAM_PUT, .flags = flags, .id = id, .where = (uintptr_t)reach + offset},
        n);
    return refuses();
}

static void test_longs(void **state)
{
    open_world(false);
    assert_false(put(1, 0, 100, DGRAM_OF_LONG));
    assert_true(long_head(1, 99)); /* more has arrived than belongs to it */
    assert_false(long_head(1, 100));
    assert_int_equal(world.delivered, 1);
    assert_int_equal(world.delivered_len, 24);
    assert_false(long_head(2, 100));
    assert_true(long_head(2, 100)); /* a second head */
    assert_true(put(2, 0, 101, DGRAM_OF_LONG));
    assert_false(put(2, 0, 60, DGRAM_OF_LONG));
    assert_true(put(2, 60, 41, DGRAM_OF_LONG));
    assert_int_equal(world.delivered, 1);
    assert_false(put(2, 60, 40, DGRAM_OF_LONG));
    assert_int_equal(world.delivered, 2);
    /* Its bytes are refused: the head is not delivered. */
    assert_false(put(3, REACH, 8, DGRAM_OF_LONG));
    assert_false(long_head(3, 8));
    assert_int_equal(world.delivered, 2);
    assert_int_equal(peer_of(LIAR)->conn->incoming_count, 0);
    close_world();
}

/* --- puts and gets ---------------------------------------------------------------------------- */

/* Find the first record of this kind and id in the packets that the victim has sent. */
static bool has_sent(uint8_t kind, uint32_t id, struct dgram_record *record)
{
    for (unsigned i = 0; i < world.flying; i++) {
        struct dgram_walk walk = DGRAM_WALK;
        while (dgram_record_next(world.wire[i].bytes, world.wire[i].len, &walk)) {
            *record = walk.record;
            if (record->kind == kind && record->id == id) return true;
        }
    }
    return false;
}

static void test_puts(void **state)
{
    struct dgram_record record;
    open_world(false);
    world.cut = true;
    assert_false(put(1, 0, 3, 0));
    assert_false(put(2, REACH - 3, 3, 0));
    assert_memory_equal(reach, "\1\2\3\0", 4);
    assert_memory_equal(reach + REACH - 3, "\1\2\3\0", 4);
    run(100000);
    uint32_t until = dgram_acked_until(peer_of(LIAR)->conn, AQI_DGRAM_COMMAND);
    /* One byte too many: nothing is written, and the refusal is sent before the put is
     * acknowledged. */
    assert_false(put(77, REACH - 3, 4, 0));
    run(100000);
    assert_int_equal(reach[REACH], 0);
    assert_true(has_sent(DGRAM_REFUSED, 77, &record));
    assert_int_equal(dgram_acked_until(peer_of(LIAR)->conn, AQI_DGRAM_COMMAND), until);
    /* DGRAM_HELD packets may wait for that; any more must be retransmitted. */
    for (uint32_t i = 1; i < DGRAM_HELD; i++) {
        begin(LIAR, DGRAM_NUMBERED);
        add((struct dgram_record){.kind = DGRAM_PUT, .id = 77 + i, .where = 1}, 8);
        assert_int_equal(come(AQI_DGRAM_DROP_POOL, true), 0);
    }
    begin(LIAR, DGRAM_NUMBERED);
    add((struct dgram_record){.kind = DGRAM_PUT, .id = 99, .where = 1}, 8);
    assert_int_equal(come(AQI_DGRAM_DROP_POOL, true), 1);
    assert_int_equal(peer_of(LIAR)->conn->holding, DGRAM_HELD);
    close_world();
}

/* Many refused puts in one packet: an answer reports as many as a packet has room for. */
static void test_many_refusals(void **state)
{
    open_world(false);
    world.cut = true;
    begin(LIAR, DGRAM_NUMBERED);
    for (uint32_t id = 0; id < 100; id++)
        add((struct dgram_record){.kind = DGRAM_PUT, .id = id, .where = 1}, 1);
    assert_false(refuses());
    run(100000);
    unsigned refused = 0;
    struct dgram_record record;
    while (has_sent(DGRAM_REFUSED, refused, &record))
        refused++;
    assert_int_equal(refused, (AQI_DGRAM_COMMAND_MAX - sizeof(struct dgram_head)) / sizeof(record));
    for (unsigned i = 0; i < world.flying; i++)
        assert_true(world.wire[i].len <= AQI_DGRAM_COMMAND_MAX);
    close_world();
}

static void get(uint32_t id, uint64_t where, uint64_t len)
{
    begin(LIAR, DGRAM_NUMBERED);
    add((struct dgram_record){.kind = DGRAM_GET, .id = id, .where = where}, sizeof(len));
    memcpy(forged.bytes + forged.len - 16, &len, sizeof(len));
    assert_false(refuses());
}

static void test_gets(void **state)
{
    struct dgram_record record;
    const uint64_t at = (uintptr_t)reach;
    open_world(false);
    world.cut = true;
    get(1, at, 0);
    get(2, at, UINT64_MAX);
    get(3, at, REACH + 1);
    get(4, at + 1, REACH);
    get(5, at + REACH, 1);
    get(6, at - 1, 1);
    run(100000);
    for (uint32_t id = 1; id <= 6; id++) {
        assert_true(has_sent(DGRAM_REFUSED, id, &record));
        assert_false(has_sent(DGRAM_BYTES, id, &record));
    }
    get(11, at, 1);
    get(12, at + REACH - 1, 1);
    get(13, at, AQI_DGRAM_COPIED);
    get(14, at, AQI_DGRAM_COPIED + 1);
    run(100000);
    for (uint32_t id = 11; id <= 14; id++) {
        assert_false(has_sent(DGRAM_REFUSED, id, &record));
        assert_true(has_sent(DGRAM_BYTES, id, &record));
    }
    close_world();
}

/* --- answers to what the victim has asked for ------------------------------------------------- */

static bool answer(uint32_t from, uint32_t id, uint64_t offset, size_t n)
{
    return refuses_record(from, DGRAM_NUMBERED,
                          (struct dgram_record){.kind = DGRAM_BYTES, .id = id, .where = offset}, n);
}

static void test_answers(void **state)
{
    enum { LEN = 100 };
    open_world(false);
    world.cut = true;
    memset(got, 0x55, sizeof(got));
    assert_int_equal(aqi_dgram_get(world.dgram[VICTIM], LIAR, 4096, got + 8, LEN, &world), AQ_OK);
    run(100000);
    uint32_t id = peer_of(LIAR)->conn->ops->id;
    assert_true(answer(LIAR, id, LEN, 1));
    assert_true(answer(LIAR, id, LEN + 1, 1));
    assert_true(answer(LIAR, id, UINT64_MAX, 2));
    assert_true(answer(LIAR, id, 0, LEN + 1));
    assert_true(answer(LIAR, id, LEN - 3, 4));
    /* From another peer, or to no operation: ignored. */
    assert_false(answer(FRIEND, id, 0, LEN));
    assert_false(answer(LIAR, id + 1, 0, LEN));
    assert_false(refuses_record(FRIEND, DGRAM_NUMBERED,
                                (struct dgram_record){.kind = DGRAM_REFUSED, .id = id}, 0));
    for (size_t i = 0; i < sizeof(got); i++)
        assert_int_equal(got[i], 0x55);
    assert_int_equal(world.completed, 0);
    /* The get completes when as many bytes as requested have arrived, even if some arrived twice.
     */
    assert_false(answer(LIAR, id, LEN - 3, 3));
    assert_memory_equal(got + 8 + LEN - 3, "\1\2\3\x55", 4);
    assert_true(answer(LIAR, id, 0, LEN - 2));
    assert_int_equal(world.completed, 0);
    assert_false(answer(LIAR, id, 0, LEN - 3));
    begin(LIAR, 0);
    forged.head.ack[0] = peer_of(LIAR)->conn->tx[0].next;
    (void)refuses();
    assert_int_equal(world.completed, 1);
    assert_int_equal(world.status, AQ_OK);
    assert_int_equal(got[7], 0x55);
    close_world();
}

/* --- packets ---------------------------------------------------------------------------------- */

static bool message_with(uint32_t seq, enum aqi_dgram_counter counter)
{
    begin(LIAR, DGRAM_NUMBERED);
    forged.head.seq = seq;
    add((struct dgram_record){.kind = DGRAM_MESSAGE}, 0);
    return come(counter, true) != 0;
}

static void test_numbers(void **state)
{
    open_world(false);
    world.cut = true;
    const struct dgram_seen *seen = &peer_of(LIAR)->conn->rx[AQI_DGRAM_COMMAND].seen;
    uint32_t base = seen->base;
    assert_true(message_with(base + DGRAM_WINDOW, AQI_DGRAM_DROP_WINDOW));
    assert_true(message_with(base - 1, AQI_DGRAM_DUPLICATES));
    assert_true(message_with(base + DGRAM_WINDOW - 1, AQI_DGRAM_RECEIVED));
    assert_true(message_with(base + DGRAM_WINDOW - 1, AQI_DGRAM_DUPLICATES));
    struct aqi_dgram_peer_info info;
    assert_true(aqi_dgram_peer_info(world.dgram[VICTIM], LIAR, &info));
    assert_int_equal(info.duplicates, 2);
    assert_int_equal(world.delivered, 1);
    assert_true(message_with(base, AQI_DGRAM_RECEIVED));
    assert_int_equal(seen->base, base + 1);
    assert_int_equal(world.delivered, 2);
    /* Acknowledgements of packets never sent. */
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        begin(LIAR, 0);
        forged.head.ack[c] = peer_of(LIAR)->conn->tx[c].next + 1;
        assert_int_equal(come(AQI_DGRAM_DROP_WINDOW, true), 1);
        begin(LIAR, 0);
        forged.head.ack[c] = peer_of(LIAR)->conn->tx[c].next;
        assert_int_equal(come(AQI_DGRAM_DROP_WINDOW, true), 0);
    }
    close_world();
}

/* The 16th packet is acknowledged at once, earlier ones after a delay. */
static void test_when_acknowledged(void **state)
{
    enum { UNACKED = 16 };
    open_world(false);
    struct dgram_conn *conn = peer_of(LIAR)->conn;
    run(1000000);
    assert_int_equal(conn->unacked, 0);
    for (unsigned i = 1; i <= UNACKED; i++) {
        assert_false(conn->ack_now);
        assert_true(message_with(conn->rx[AQI_DGRAM_COMMAND].seen.highest, AQI_DGRAM_RECEIVED));
        assert_int_equal(conn->ack_at, world.now + 50000);
    }
    assert_true(conn->ack_now);
    run(1000000);
    assert_int_equal(conn->unacked, 0);
    begin(LIAR, DGRAM_NUMBERED | DGRAM_ASKS);
    assert_int_equal(come(AQI_DGRAM_RECEIVED, true), 1);
    assert_true(conn->ack_now);
    run(1000000);
    assert_false(conn->ack_now);
    assert_true(message_with(conn->rx[AQI_DGRAM_COMMAND].seen.base + 1, AQI_DGRAM_RECEIVED));
    assert_true(conn->ack_now && conn->gap);
    close_world();
}

/* More data keeps a connection open that was about to be closed. */
static void test_not_closed(void **state)
{
    static alignas(16) unsigned char packet[sizeof(struct dgram_head)];
    open_world(false);
    struct dgram_peer *peer = peer_of(LIAR);
    for (unsigned how = 0; how < 4; how++) {
        peer->state = DGRAM_CLOSING;
        begin(LIAR, how % 2 == 0 ? DGRAM_NUMBERED : how == 1 ? DGRAM_ASKS : 0);
        memcpy(packet, &forged.head, sizeof(forged.head));
        if (how == 0)
            aqi_dgram_answer(world.dgram[VICTIM], packet, sizeof(packet), 0, world.now);
        else
            aqi_dgram_input(world.dgram[VICTIM], packet, sizeof(packet), true, 0, world.now);
        assert_int_equal(peer->state, how == 3 ? DGRAM_CLOSING : DGRAM_UP);
        assert_int_equal(peer->conn->room, 64 << 10);
    }
    peer->state = DGRAM_UP;
    assert_int_equal(aqi_dgram_resume(world.dgram[VICTIM], true, world.now), 1);
    close_world();
}

/* The latest transmission received; the numbers wrap. */
static void test_order(void **state)
{
    static const struct {
        uint16_t comes, latest;
    } steps[] = {{0xfff0, 0xfff0}, {0xffff, 0xffff}, {5, 5}, {3, 5}, {0xffff, 5}, {6, 6}};
    open_world(false);
    const struct dgram_rx *rx = &peer_of(LIAR)->conn->rx[AQI_DGRAM_DATA];
    assert_false(rx->ordered);
    for (size_t i = 0; i < AQI_COUNT_OF(steps); i++) {
        begin(LIAR, DGRAM_NUMBERED | DGRAM_ON_DATA);
        forged.head.order = steps[i].comes;
        assert_int_equal(come(AQI_DGRAM_RECEIVED, true), 1);
        assert_int_equal(rx->order, steps[i].latest);
    }
    close_world();
}

/* Peers that send bulk share the port's room. */
static void test_who_is_active(void **state)
{
    open_world(false);
    assert_int_equal(world.dgram[VICTIM]->env.actives, 0);
    for (unsigned i = 0; i < 6; i++) {
        begin(i < 3 ? LIAR : FRIEND, DGRAM_NUMBERED | DGRAM_ON_DATA);
        assert_int_equal(come(AQI_DGRAM_RECEIVED, true), 1);
        assert_int_equal(world.dgram[VICTIM]->env.actives, i < 3 ? 1 : 2);
    }
    run(40000000);
    assert_int_equal(world.dgram[VICTIM]->env.actives, 0);
    close_world();
}

static void test_heads(void **state)
{
    open_world(false);
    for (size_t len = 0; len < sizeof(struct dgram_head); len++) {
        begin(LIAR, DGRAM_ASKS);
        forged.len = len;
        assert_int_equal(come(AQI_DGRAM_DROP_SHORT, true), 1);
    }
    begin(LIAR, DGRAM_ASKS);
    assert_int_equal(come(AQI_DGRAM_DROP_SHORT, true), 0);
    assert_true(peer_of(LIAR)->conn->ack_now);
    begin(LIAR, 0);
    forged.head.cookie++;
    assert_int_equal(come(AQI_DGRAM_DROP_COOKIE, true), 1);
    begin(LIAR, 0);
    forged.head.source = FRIEND;
    assert_int_equal(come(AQI_DGRAM_DROP_COOKIE, true), 1);
    begin(LIAR, 0);
    forged.head.source = NODES;
    assert_int_equal(come(AQI_DGRAM_DROP_COOKIE, true), 1);
    begin(LIAR, 0);
    forged.head.version++;
    assert_int_equal(come(AQI_DGRAM_DROP_VERSION, true), 1);
    close_world();
}

static void test_macs(void **state)
{
    open_world(true);
    for (size_t more = 0; more < DGRAM_TAG; more++) {
        begin(LIAR, 0);
        forged.len += more;
        assert_int_equal(come(AQI_DGRAM_DROP_MAC, true), 1);
    }
    begin(LIAR, DGRAM_ASKS);
    struct iovec iov = {&forged.head, sizeof(forged.head)};
    mac(NULL, NULL, peer_of(LIAR)->conn->mac_key, &iov, 1, forged.bytes + forged.len);
    forged.len += DGRAM_TAG;
    assert_int_equal(come(AQI_DGRAM_DROP_MAC, true), 0);
    assert_true(peer_of(LIAR)->conn->ack_now);
    forged.bytes[forged.len - 1] ^= 1;
    assert_int_equal(come(AQI_DGRAM_DROP_MAC, true), 1);
    close_world();
}

/* --- requests that may not be handled now ----------------------------------------------------- */

static bool request(uint32_t from, enum aqi_dgram_counter counter)
{
    begin(from, DGRAM_NUMBERED | DGRAM_REQUESTS);
    add((struct dgram_record){.kind = DGRAM_MESSAGE, .flags = DGRAM_IS_REQUEST}, 0);
    return come(counter, false) != 0;
}

/* A pool of 16 with 8 for each peer: a peer that wants all of it leaves the other its share. */
static void test_pool(void **state)
{
    enum { POOL = 16, LEAST = 8 };
    open_world(false);
    struct aqi_dgram *dgram = world.dgram[VICTIM];
    for (unsigned i = 0; i < POOL; i++)
        assert_true(request(LIAR, AQI_DGRAM_RECEIVED));
    assert_true(request(LIAR, AQI_DGRAM_DROP_POOL));
    assert_true(request(FRIEND, AQI_DGRAM_DROP_POOL));
    assert_int_equal(dgram->env.kept, POOL);
    assert_int_equal(dgram->wanting, 2);
    assert_int_equal(world.delivered, 0);
    assert_int_equal(dgram_kept_deliver(dgram), POOL);
    assert_int_equal(world.requests, POOL);
    assert_int_equal(dgram->env.kept, 0);
    assert_int_equal(peer_of(LIAR)->held, 0);
    /* Now that both wait, neither gets more than its share. */
    for (unsigned i = 0; i < LEAST; i++)
        assert_true(request(LIAR, AQI_DGRAM_RECEIVED));
    assert_int_equal(dgram->wanting, 1);
    assert_true(request(LIAR, AQI_DGRAM_DROP_POOL));
    assert_true(request(LIAR, AQI_DGRAM_DROP_POOL));
    assert_int_equal(dgram->wanting, 2);
    assert_int_equal(peer_of(LIAR)->held, LEAST);
    /* The last place is for the peer that has waited longest, even though it may not take it now.
     */
    for (unsigned i = 1; i < LEAST; i++)
        assert_true(request(FRIEND, AQI_DGRAM_RECEIVED));
    assert_int_equal(dgram->wanting, 1);
    assert_true(request(FRIEND, AQI_DGRAM_DROP_POOL));
    assert_true(request(LIAR, AQI_DGRAM_DROP_POOL));
    assert_int_equal(dgram->wanting, 2);
    assert_int_equal(dgram->env.kept, POOL - 1);
    dgram_kept_forget(dgram, peer_of(LIAR));
    assert_int_equal(dgram->wanting, 1);
    assert_true(request(FRIEND, AQI_DGRAM_RECEIVED));
    assert_int_equal(dgram->wanting, 0);
    assert_int_equal(dgram->env.kept, LEAST);
    assert_int_equal(dgram_kept_deliver(dgram), LEAST);
    assert_int_equal(world.requests, POOL + LEAST);
    assert_true(dgram->kept == NULL && dgram->kept_end == &dgram->kept);
    close_world();
}

/* A peer that waits alone may use all the room that is announced to it. */
static void test_pool_for_one(void **state)
{
    enum { POOL = 16 };
    open_world(false);
    struct aqi_dgram *dgram = world.dgram[VICTIM];
    assert_true(request(FRIEND, AQI_DGRAM_RECEIVED));
    for (unsigned i = 1; i < POOL; i++)
        assert_true(request(LIAR, AQI_DGRAM_RECEIVED));
    assert_true(request(LIAR, AQI_DGRAM_DROP_POOL));
    assert_int_equal(dgram->wanting, 1);
    dgram_kept_forget(dgram, peer_of(FRIEND));
    assert_true(request(LIAR, AQI_DGRAM_RECEIVED));
    assert_int_equal(dgram->env.kept, POOL);
    assert_int_equal(dgram->wanting, 0);
    close_world();
}

/* A peer whose requests fill the pool is lost: the others get its room. */
static void test_pool_of_a_lost_peer(void **state)
{
    open_world(false);
    struct aqi_dgram *dgram = world.dgram[VICTIM];
    while (request(LIAR, AQI_DGRAM_RECEIVED))
        ;
    assert_int_equal(dgram->env.kept, options.pool);
    dgram_lose(dgram, peer_of(LIAR), AQI_DGRAM_BROKEN, "it lied");
    assert_int_equal(world.lost, 1);
    assert_int_equal(dgram->env.kept, 0);
    assert_int_equal(dgram->env.kept_size, 0);
    assert_true(request(FRIEND, AQI_DGRAM_RECEIVED));
    close_world();
}

/* Peers take turns in a pool of one place, whatever their ids. */
static void test_turns(void **state)
{
    options.pool = options.least = 1;
    for (uint32_t first = 0; first < VICTIM; first++) {
        uint32_t second = 1 - first;
        open_world(false);
        struct aqi_dgram *dgram = world.dgram[VICTIM];
        assert_true(request(first, AQI_DGRAM_RECEIVED));
        assert_true(request(first, AQI_DGRAM_DROP_POOL));
        assert_true(request(second, AQI_DGRAM_DROP_POOL));
        assert_int_equal(dgram_kept_deliver(dgram), 1);
        assert_true(request(second, AQI_DGRAM_DROP_POOL)); /* the other one has waited longer */
        assert_true(request(first, AQI_DGRAM_RECEIVED));
        assert_int_equal(dgram_kept_deliver(dgram), 1);
        assert_true(request(first, AQI_DGRAM_DROP_POOL));
        assert_true(request(second, AQI_DGRAM_RECEIVED));
        assert_int_equal(dgram_kept_deliver(dgram), 1);
        assert_int_equal(dgram->wanting, 1);
        assert_true(request(first, AQI_DGRAM_RECEIVED));
        assert_int_equal(dgram->wanting, 0);
        close_world();
    }
    options.pool = 16;
    options.least = 8;
}

/* --- packets in slices ------------------------------------------------------------------------ */

enum { PACKET = 1472 }; /* the largest */

static bool slice(uint64_t total, uint64_t offset, const unsigned char *bytes, size_t n)
{
    begin(LIAR, 0);
    add(
        (struct dgram_record){
            .kind = DGRAM_SLICE, .flags = AQI_DGRAM_DATA, .id = 7, .where = total << 32 | offset},
        n);
    if (bytes != NULL) memcpy(forged.bytes + sizeof(struct dgram_head) + 16, bytes, n);
    return refuses();
}

/* The packet that was forged last, with its head but without its MAC. */
static size_t image_of(unsigned char *image)
{
    memcpy(forged.bytes, &forged.head, sizeof(forged.head));
    memcpy(image, forged.bytes, forged.len);
    return forged.len;
}

static size_t image_of_message(unsigned char *image)
{
    begin(LIAR, DGRAM_NUMBERED);
    add((struct dgram_record){.kind = DGRAM_PUT, .where = (uintptr_t)reach}, 100);
    add((struct dgram_record){.kind = DGRAM_FRAGMENT, .id = 9, .where = UINT64_C(40) << 32}, 40);
    return image_of(image);
}

/* Slices in any order, repeated, and cut differently. */
static void test_slices(void **state)
{
    unsigned char image[PACKET];
    open_world(false);
    size_t len = image_of_message(image);
    assert_true(len > 160);
    for (unsigned i = 0; i < 3; i++)
        for (size_t at = 32; at < len; at += 32)
            assert_false(slice(len, at, image + at, aqi_min(32, len - at)));
    assert_int_equal(world.delivered, 0);
    assert_int_equal(reach[0], 0);
    assert_false(slice(len, 0, image, 16));
    assert_int_equal(world.delivered, 0);
    assert_false(slice(len, 0, image, 48));
    assert_int_equal(world.delivered, 1);
    assert_int_equal(reach[0], 1);
    /* Repeated as a whole: it is acknowledged again. */
    uint64_t before = aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DUPLICATES);
    assert_false(slice(len, 0, image, 64));
    assert_false(slice(len, 64, image + 64, len - 64));
    assert_int_equal(aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DUPLICATES), before + 1);
    assert_int_equal(world.delivered, 1);
    close_world();
}

static void test_bounds_of_slices(void **state)
{
    open_world(false);
    assert_false(slice(PACKET, 0, NULL, 16));
    assert_true(slice(PACKET + 1, 0, NULL, 16));
    assert_true(slice(UINT32_MAX, 0, NULL, 16));
    assert_true(slice(0, 0, NULL, 16));
    assert_true(slice(64, 64, NULL, 16));
    assert_true(slice(64, UINT32_MAX & ~15u, NULL, 16));
    assert_true(slice(64, 48, NULL, 32));
    assert_true(slice(64, 8, NULL, 16));
    assert_true(slice(64, 16, NULL, 24));
    assert_true(slice(56, 32, NULL, 23));
    assert_false(slice(56, 32, NULL, 24));
    assert_true(refuses_record(LIAR, 0,
                               (struct dgram_record){.kind = DGRAM_SLICE,
                                                     .flags = AQI_DGRAM_CHANNELS,
                                                     .where = UINT64_C(64) << 32},
                               16));
    /* slices have no numbers of their own */
    assert_true(refuses_record(
        LIAR, DGRAM_NUMBERED,
        (struct dgram_record){.kind = DGRAM_SLICE, .where = UINT64_C(64) << 32}, 16));
    assert_int_equal(world.delivered + world.lost, 0);
    close_world();
}

/* Slices make a numbered packet like any other: no handshake, nor slices. */
static void test_what_slices_make(void **state)
{
    unsigned char image[PACKET], other[PACKET];
    open_world(false);
    size_t len = image_of_message(image);
    assert_false(slice(len, 0, image, 32)); /* forgotten when another packet begins, */
    assert_false(refuses_record(
        LIAR, 0, (struct dgram_record){.kind = DGRAM_SLICE, .id = 8, .where = (uint64_t)len << 32},
        32));
    assert_false(slice(len, 32, image + 32, len - 32));
    assert_int_equal(world.delivered, 0);
    assert_false(slice(len + 16, 0, image, 32)); /* and one of another length */
    assert_int_equal(world.delivered, 0);
    begin(LIAR, 0);
    add((struct dgram_record){.kind = DGRAM_SLICE, .id = 7, .where = UINT64_C(48) << 32}, 48);
    size_t nested = image_of(other);
    assert_true(slice(nested, 0, other, nested));
    assert_true(slice(16, 0, image, 16));
    memcpy(other, image, len);
    ((struct dgram_head *)(void *)other)->cookie = DGRAM_HANDSHAKE;
    assert_true(slice(len, 0, other, len));
    memcpy(other, image, len);
    ((struct dgram_head *)(void *)other)->cookie ^= 1;
    uint64_t before = aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DROP_COOKIE);
    assert_false(slice(len, 0, other, len));
    assert_int_equal(aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DROP_COOKIE), before + 1);
    assert_int_equal(world.delivered, 0);
    assert_false(slice(len, 0, image, len));
    assert_int_equal(world.delivered, 1);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fragments),
        cmocka_unit_test(test_too_many_messages),
        cmocka_unit_test(test_longs),
        cmocka_unit_test(test_puts),
        cmocka_unit_test(test_many_refusals),
        cmocka_unit_test(test_gets),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_when_acknowledged),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_macs),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_pool_for_one),
        cmocka_unit_test(test_pool_of_a_lost_peer),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_bounds_of_slices),
        cmocka_unit_test(test_what_slices_make),
        cmocka_unit_test(test_not_closed),
        cmocka_unit_test(test_who_is_active),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
