/* ofi: lending messages: their contents, and to which peers they are sent. */
#include "transport/ofi/ofi_peer_world_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SELF, PEER, STRANGER, SIZE, STAMP = 77, BUFFER = 640, ADDRESS = 5, BODY = 100 };

static struct {
    unsigned sent;
    unsigned char bytes[BUFFER];
    size_t len;
    ssize_t answer; /* of the provider */
    struct fi_ops_msg ops;
    struct fid_ep ep;
    struct ofi_peer peer;
    struct aqi_rdma_peer *peers[SIZE];
    struct ofi_tp ofi;
} world;

static ssize_t provider_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
    assert_int_equal(to, ADDRESS);
    assert_in_range(len, 1, BUFFER);
    if (world.answer != 0) return world.answer;
    world.sent++;
    memcpy(world.bytes, buf, len);
    world.len = len;
    return 0;
}

static int begin(void **state)
{
    memset(&world, 0, sizeof(world));
    world.ops.inject = provider_inject;
    world.ep.msg = &world.ops;
    peer_begin(&world.peer, ADDRESS, PEER);
    world.peer.given = 6;
    world.peer.received = 3;
    world.peers[PEER] = &world.peer.rdma;
    world.ofi = (struct ofi_tp){.rdma = {.driver = &ofi_driver,
                                         .params = {.self = SELF, .size = SIZE},
                                         .stamp = STAMP,
                                         .buffer = BUFFER,
                                         .peers = world.peers},
                                .inject = BUFFER,
                                .room = 1,
                                .ep = &world.ep,
                                .look_at = AQI_NO_DEADLINE};
    static struct fi_domain_attr domain;
    static struct fi_info info = {.domain_attr = &domain};
    world.ofi.info = &info;
    aqi_pool_init(&world.ofi.rdma.ops, sizeof(struct ofi_op), 4, false);
    aqi_pool_init(&world.ofi.rdma.lending.loans, sizeof(struct aqi_loan), 4, false);
    return 0;
}

static int end(void **state)
{
    aqi_rdma_drop_chunks(&world.ofi.rdma);
    (void)aqi_pool_destroy(&world.ofi.rdma.ops);
    (void)aqi_pool_destroy(&world.ofi.rdma.lending.loans);
    return 0;
}

static void a_message_has_all_that_was_given(void **state)
{
    static const size_t lengths[] = {0, 1, 2, 8, BODY};
    unsigned char body[BODY];
    for (unsigned i = 0; i < BODY; i++)
        body[i] = (unsigned char)(i + 1);
    for (unsigned i = 0; i < AQI_COUNT_OF(lengths); i++) {
        struct aqi_am_wire head;
        struct ofi_tail tail;
        world.peer.rdma.lender.received = 40 + i;
        assert_int_equal(aqi_lending_send(&world.ofi.rdma, PEER, body, lengths[i]), AQ_OK);
        assert_int_equal(world.sent, i + 1);
        assert_int_equal(world.peer.rdma.lender.sent, i + 1);
        memcpy(&head, world.bytes, sizeof(head));
        memcpy(&tail, world.bytes + world.len - sizeof(tail), sizeof(tail));
        assert_int_equal(head.stamp, STAMP);
        assert_int_equal(head.kind, AQI_AM_NONE);
        assert_int_equal(head.handler, OFI_LENDING);
        assert_int_equal(head.source, SELF);
        assert_int_equal(head.nbytes, lengths[i]);
        assert_int_equal(head.addr, 40 + i);
        assert_memory_equal(world.bytes + sizeof(head), body, lengths[i]);
        assert_int_equal(tail.number, 7 + i); /* in turn with all others, and kept like them */
        assert_int_equal(tail.arrived, 3);
        assert_int_equal(world.peer.given, 7 + i);
        assert_ptr_not_equal(world.peer.last_kept, &world.peer.kept);
    }
}

/* The cache retries when there is room. */
static void without_room_a_message_is_tried_again(void **state)
{
    for (unsigned full = 0; full < 2; full++) {
        world.ofi.out = full ? world.ofi.room : 0;
        world.answer = full ? 0 : -FI_EAGAIN;
        world.ofi.rdma.lending.full = world.ofi.rdma.pins.due = false;
        assert_int_equal(aqi_lending_send(&world.ofi.rdma, PEER, "8 bytes", 8), AQ_AGAIN);
        assert_true(world.ofi.rdma.lending.full && world.ofi.rdma.pins.due);
        assert_int_equal(world.peer.rdma.lender.sent, 0);
        assert_null(world.peer.kept);
    }
    assert_int_equal(world.sent, 0);
    world.ofi.room = 2; /* plus the room reserved for replies */
    world.ofi.out = 2;
    assert_int_equal(aqi_lending_send(&world.ofi.rdma, PEER, "8 bytes", 8), AQ_OK);
    assert_int_equal(world.sent, 1);
}

static void nothing_is_sent_to_a_peer_that_is_gone(void **state)
{
    struct aqi_rdma *rdma = &world.ofi.rdma;
    assert_int_equal(ofi_driver.ready(rdma, &world.peer.rdma), AQ_OK);
    assert_int_equal(aqi_lending_send(rdma, STRANGER, "8 bytes", 8), AQ_OK);
    world.peer.rdma.down = true;
    assert_int_equal(ofi_driver.ready(rdma, &world.peer.rdma), AQ_EPEER);
    assert_int_equal(aqi_lending_send(rdma, PEER, "8 bytes", 8), AQ_OK);
    assert_int_equal(world.sent, 0);
    assert_int_equal(world.peer.rdma.lender.sent, 0);
}

/* A part of a transfer is a transfer of the peer, and inherits everything from the whole. */
static void parts_are_transfers_of_the_peer(void **state)
{
    unsigned char local[17];
    struct aqi_loan loan = {.held = true};
    struct ofi_op whole = {.op = {.remote = 4096,
                                  .local = local,
                                  .len = 17,
                                  .posted = 17,
                                  .get = true,
                                  .loan = &loan,
                                  .peer = &world.peer.rdma}};
    assert_true(aqi_lending_refused(&world.ofi.rdma, &whole.op, 8, 9));
    struct aqi_transfer *part = world.ofi.rdma.lending.refused.first;
    struct ofi_op *op = (struct ofi_op *)(void *)part;
    assert_ptr_equal(world.peer.rdma.ops, op);
    assert_ptr_equal(part->link, &world.peer.rdma.ops);
    assert_ptr_equal(ofi_op_peer(op), &world.peer);
    assert_int_equal(part->remote, 4096 + 8);
    assert_ptr_equal(part->local, local + 8);
    assert_int_equal(part->len, 9);
    assert_true(part->get);
    aqi_pool_put(&world.ofi.rdma.ops, op);
}

/* The key must have the provider's format; otherwise the memory is accessed by messages. */
static void malformed_keys_are_not_used(void **state)
{
    uint64_t words[2] = {9, 1 << 20};
    struct aqi_reg_mem memory = {.key = words};
    struct aqi_loan loan = {.wait.use = {.mem = &memory, .mem_addr = 4096}};
    struct ofi_op op = {.op = {.loan = &loan, .peer = &world.peer.rdma}};
    struct aqi_rdma *rdma = &world.ofi.rdma;
    memory.key_len = sizeof(words) - 1;
    assert_false(ofi_driver.lent(rdma, &op.op));
    memory.key_len = sizeof(words);
    assert_true(ofi_driver.lent(rdma, &op.op));
    assert_int_equal(op.key, 9);
    assert_int_equal(op.shift, (1 << 20) - 4096);
    words[0] = FI_KEY_NOTAVAIL;
    assert_false(ofi_driver.lent(rdma, &op.op));
}

#define WORLD_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_message_has_all_that_was_given),
        WORLD_TEST(without_room_a_message_is_tried_again),
        WORLD_TEST(nothing_is_sent_to_a_peer_that_is_gone),
        WORLD_TEST(parts_are_transfers_of_the_peer),
        WORLD_TEST(malformed_keys_are_not_used),
    };
    return cmocka_run_group_tests_name("transport/ofi/ofi_lending", tests, NULL, NULL);
}
