/*
 * Tests wire.c and rma.c: what a peer may send, and what it may not. One endpoint and one peer,
 * whose messages are made here; each test sends one message that is valid, and the same with one
 * thing wrong.
 */
#include "front/fi/wire_world_test.h"

#include "base/capture_test.h"

static int open_world(void **state)
{
    world_open();
    return 0;
}

static int begin(void **state)
{
    world.peer->state = AFI_UP;
    world.peer->eager = 8192;
    world.peer->left = AFI_WINDOW / 2;
    world_begin_operations();
    memset(world.memory, 0, sizeof(world.memory));
    memset(world.target, 0, sizeof(world.target));
    return 0;
}

static int end(void **state)
{
    world_disconnect();
    for (unsigned i = 0; i < OPS; i++)
        assert_null(afi.ops[i].op);
    for (unsigned i = 0; i < GUARD; i++) {
        assert_int_equal(world.memory[MEMORY + i], 0);
        assert_int_equal(world.target[OP_BYTES + i], 0);
    }
    return 0;
}

/* The buffer ends where a sanitizer sees the first byte beyond. */
static void send_as(uint32_t number, const struct afi_wire *head, const void *bytes, size_t len)
{
    unsigned char *message = malloc(sizeof(*head) + len);
    struct afi_wire numbered = *head;
    assert_non_null(message);
    numbered.number = number;
    memcpy(message, &numbered, sizeof(numbered));
    if (len != 0) memcpy(message + sizeof(numbered), bytes, len);
    afi_wire_input(world.peer, message, sizeof(numbered) + len);
    free(message);
}

static void again(void)
{
    end(NULL);
    begin(NULL);
}

/* Starts afresh; returns whether the peer may send this message. */
static bool takes(const struct afi_wire *head, const void *bytes, size_t len)
{
    again();
    send_as(world.peer->received + 1, head, bytes, len);
    return world.peer->state == AFI_UP;
}

static const unsigned char data[OP_BYTES + 8] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};

static void test_results(void **state)
{
    struct afi_wire head = {.kind = AFI_BYTES};
    for (uint32_t i = 0; i < OPS; i++) {
        bool has_result = i == 1 || i == 2;
        head.op = HANDLE(i);
        assert_int_equal(takes(&head, data, OP_BYTES), has_result);
        assert_int_equal(afi.ops[i].op == NULL, has_result);
        assert_int_equal(memcmp(world.target, data, OP_BYTES) == 0, has_result);
        assert_false(takes(&head, data, OP_BYTES - 1));
        assert_false(takes(&head, data, OP_BYTES + 1));
        assert_false(takes(&head, data, 0));
    }
    head.op = HANDLE(OPS);
    assert_false(takes(&head, data, OP_BYTES));
    head.op = 2 << 20 | 1; /* an earlier or later use of the slot */
    assert_false(takes(&head, data, OP_BYTES));
    head.op = 1;
    assert_false(takes(&head, data, OP_BYTES));
}

static void test_ends_of_operations(void **state)
{
    struct afi_wire head = {.kind = AFI_DONE, .op = HANDLE(3)};
    struct fi_cq_err_entry error = {.err_data_size = 8}; /* left uninitialized by a program */
    assert_true(takes(&head, NULL, 0));
    assert_null(afi.ops[3].op);
    assert_null(world.cq->errors);
    send_as(world.peer->received + 1, &head, NULL, 0);
    assert_int_equal(world.peer->state, AFI_CLOSING); /* it has ended */
    head.tag = FI_EACCES;
    assert_true(takes(&head, NULL, 0));
    assert_int_equal(fi_cq_readerr(&world.cq->fid, &error, 0), 1);
    assert_int_equal(error.err, FI_EACCES);
    assert_int_equal(error.err_data_size, 0);
    head.op = HANDLE(OPS);
    assert_false(takes(&head, NULL, 0));
    again();
    afi.ops[3].op->sent = false; /* the peer cannot know it yet */
    head.op = HANDLE(3);
    send_as(world.peer->received + 1, &head, NULL, 0);
    assert_int_equal(world.peer->state, AFI_CLOSING);
}

static void test_lists_of_pieces(void **state)
{
    struct afi_piece pieces[AFI_IOVS + 1] = {{1, 5}, {2, 7}};
    struct afi_wire head = {.pieces = 2, .len = 12};
    const void *bytes = pieces;
    size_t one = sizeof(pieces[0]);
    assert_true(afi_wire_has_pieces(&head, bytes, 2 * one));
    assert_false(afi_wire_has_pieces(&head, bytes, one));
    assert_false(afi_wire_has_pieces(&head, bytes, 2 * one + 1));
    head.len = 11;
    assert_false(afi_wire_has_pieces(&head, bytes, 2 * one));
    head.len = 13;
    assert_false(afi_wire_has_pieces(&head, bytes, 2 * one));
    head.pieces = AFI_IOVS;
    head.len = 12;
    assert_true(afi_wire_has_pieces(&head, bytes, AFI_IOVS * one));
    head.pieces = AFI_IOVS + 1;
    assert_false(afi_wire_has_pieces(&head, bytes, (AFI_IOVS + 1) * one));
    head.pieces = 2; /* the sum is at most that of a message, and does not wrap */
    pieces[0].len = AFI_MAX_MESSAGE - 7;
    head.len = AFI_MAX_MESSAGE;
    assert_true(afi_wire_has_pieces(&head, bytes, 2 * one));
    pieces[0].len++;
    head.len++;
    assert_false(afi_wire_has_pieces(&head, bytes, 2 * one));
    pieces[0].len = UINT64_MAX - 3;
    head.len = 3;
    assert_false(afi_wire_has_pieces(&head, bytes, 2 * one));
}

static void test_grants(void **state)
{
    struct afi_piece piece = {.addr = 1, .len = OP_BYTES};
    struct afi_wire head = {.kind = AFI_GRANT, .pieces = 1};
    for (uint32_t i = 0; i < OPS; i++) {
        if (i == 1) continue; /* it would be fetched */
        head.op = HANDLE(i);
        head.len = OP_BYTES;
        assert_false(takes(&head, &piece, sizeof(piece)));
    }
    head.op = HANDLE(1);
    for (head.len = OP_BYTES - 1; head.len <= OP_BYTES + 1; head.len += 2) {
        piece.len = head.len;
        assert_false(takes(&head, &piece, sizeof(piece)));
    }
    head.len = OP_BYTES; /* not that of the piece */
    assert_false(takes(&head, &piece, sizeof(piece)));
    head.op = HANDLE(OPS);
    piece.len = OP_BYTES;
    assert_false(takes(&head, &piece, sizeof(piece)));
}

static void test_messages(void **state)
{
    struct afi_wire head = {.kind = AFI_MESSAGE, .len = OP_BYTES};
    struct afi_piece piece = {.addr = 1, .len = OP_BYTES};
    assert_true(takes(&head, data, OP_BYTES));
    assert_false(aqi_list_is_empty(&world.ep->own.matches[0].unexpected));
    assert_true(aqi_list_is_empty(&world.peer->notes));
    assert_false(takes(&head, data, OP_BYTES - 1));
    assert_false(takes(&head, data, OP_BYTES + 1));
    head.flags = AFI_TAGGED_FLAG | AFI_ACK_ARRIVED;
    assert_true(takes(&head, data, OP_BYTES));
    assert_false(aqi_list_is_empty(&world.ep->own.matches[1].unexpected));
    assert_false(aqi_list_is_empty(&world.peer->notes)); /* the answer */
    head.flags = AFI_REMOTE;
    head.pieces = 1;
    assert_true(takes(&head, &piece, sizeof(piece)));
    head.pieces = 0;
    assert_false(takes(&head, &piece, sizeof(piece)));
    head.pieces = 1;
    head.len++;
    assert_false(takes(&head, &piece, sizeof(piece)));
}

struct access {
    struct afi_place places[AFI_IOVS + 1];
    unsigned char bytes[OP_BYTES * 2 + 8];
};

/* Likewise for a message with `count` places, followed by `len` bytes. */
static bool accesses(struct afi_wire *head, const struct access *access, unsigned count, size_t len)
{
    unsigned char bytes[sizeof(*access)];
    head->count = (uint8_t)count;
    memcpy(bytes, access->places, count * sizeof(access->places[0]));
    memcpy(bytes + count * sizeof(access->places[0]), access->bytes, len);
    return takes(head, bytes, count * sizeof(access->places[0]) + len);
}

static void test_writes(void **state)
{
    struct access access = {.places = {{0, 5, KEY}, {100, 11, KEY}}, .bytes = {1, 2, 3, 4, 5, 6}};
    struct afi_wire head = {.kind = AFI_PUT, .len = 16, .op = 9};
    assert_true(accesses(&head, &access, 2, 16));
    assert_memory_equal(world.memory, access.bytes, 5);
    assert_int_equal(world.memory[5], 0);
    assert_memory_equal(world.memory + 100, access.bytes + 5, 11);
    assert_false(accesses(&head, &access, 2, 15));
    assert_false(accesses(&head, &access, 2, 17));
    assert_false(accesses(&head, &access, 1, 16)); /* not as many bytes as the head says */
    head.len = 15;
    assert_false(accesses(&head, &access, 2, 16));
    head.len = 16;
    head.len = 0;
    access = (struct access){0};
    for (unsigned i = 0; i <= AFI_IOVS; i++)
        access.places[i].key = KEY;
    assert_true(accesses(&head, &access, AFI_IOVS, 0));
    assert_false(accesses(&head, &access, AFI_IOVS + 1, 0));
    head.count = 1; /* the place is not complete */
    assert_false(takes(&head, access.places, sizeof(access.places[0]) - 1));
    access.places[0].len = UINT64_MAX; /* the sum must not wrap */
    access.places[1].len = 17;
    head.len = 16;
    assert_false(accesses(&head, &access, 2, 16));
}

/* Memory that is not registered is refused in an answer, not by the end of the connection. */
static void test_places_outside(void **state)
{
    static const struct afi_place places[] = {{MEMORY - 15, 16, KEY}, {MEMORY, 16, KEY},
                                              {MEMORY + 1, 16, KEY},  {UINT64_MAX - 7, 16, KEY},
                                              {0, 16, KEY + 1},       {UINT64_MAX - 15, 16, KEY}};
    struct access access = {.bytes = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
    for (size_t i = 0; i < AQI_COUNT_OF(places); i++) {
        struct afi_wire head = {.kind = AFI_PUT, .len = 16};
        access.places[0] = places[i];
        assert_true(accesses(&head, &access, 1, 16));
        assert_false(aqi_list_is_empty(&world.peer->notes));
        for (unsigned k = 0; k < MEMORY; k++)
            assert_int_equal(world.memory[k], 0);
    }
    access.places[0] = (struct afi_place){MEMORY - 16, 16, KEY};
    struct afi_wire head = {.kind = AFI_PUT, .len = 16};
    assert_true(accesses(&head, &access, 1, 16));
    assert_memory_equal(world.memory + MEMORY - 16, access.bytes, 16);
}

static void test_reads(void **state)
{
    struct access access = {.places = {{0, 16, KEY}}};
    struct afi_wire head = {.kind = AFI_GET, .len = 16};
    assert_true(accesses(&head, &access, 1, 0));
    assert_false(aqi_list_is_empty(&world.peer->notes));
    assert_false(accesses(&head, &access, 1, 1));
    head.len = 17;
    assert_false(accesses(&head, &access, 1, 0));
}

static void test_atomic_operations(void **state)
{
    struct access access = {.places = {{8, 16, KEY}}, .bytes = {1}};
    struct afi_wire head = {.kind = AFI_ATOMIC_REQUEST, .len = 16, .tag = FI_UINT64 | FI_SUM << 8};
    uint64_t sum;
    assert_true(accesses(&head, &access, 1, 16));
    memcpy(&sum, world.memory + 8, sizeof(sum));
    assert_int_equal(sum, 1);
    assert_false(accesses(&head, &access, 1, 15));
    assert_false(accesses(&head, &access, 1, 32));
    head.tag = FI_UINT64 | FI_CSWAP << 8; /* operands, and what to compare with */
    assert_true(accesses(&head, &access, 1, 32));
    assert_false(accesses(&head, &access, 1, 16));
    head.tag = FI_UINT64 | FI_ATOMIC_READ << 8 | 1 << 16;
    assert_true(accesses(&head, &access, 1, 0));
    assert_false(accesses(&head, &access, 1, 16));
    head.tag = 0xff | FI_SUM << 8;
    assert_false(accesses(&head, &access, 1, 16));
    head.tag = FI_UINT64 | 0xff << 8;
    assert_false(accesses(&head, &access, 1, 16));
    head.tag = FI_UINT64 | FI_SUM << 8; /* half an element */
    head.len = access.places[0].len = 12;
    assert_false(accesses(&head, &access, 1, 12));
    access.places[1] = (struct afi_place){64, 4, KEY};
    head.len = 16;
    assert_false(accesses(&head, &access, 2, 16));
    head.tag = FI_UINT64 | FI_ATOMIC_READ << 8 | 1 << 16; /* the most, and more */
    head.len = access.places[0].len = AFI_ATOMIC;
    assert_true(accesses(&head, &access, 1, 0));
    head.len = access.places[0].len = AFI_ATOMIC + 8;
    assert_false(accesses(&head, &access, 1, 0));
}

static void test_credits(void **state)
{
    struct afi_wire head = {.kind = AFI_CREDIT, .credit = AFI_WINDOW / 2};
    assert_true(takes(&head, NULL, 0));
    assert_int_equal(world.peer->left, AFI_WINDOW);
    assert_false(takes(&head, data, 1));
    head.credit++;
    assert_false(takes(&head, NULL, 0));
    head.credit = UINT32_MAX; /* which would take some back */
    assert_false(takes(&head, NULL, 0));
}

static void test_kinds(void **state)
{
    struct afi_wire head = {.kind = AFI_NONE};
    assert_false(takes(&head, NULL, 0));
    head.kind = AFI_BRIEF + 1;
    assert_false(takes(&head, NULL, 0));
    head.kind = UINT8_MAX;
    assert_false(takes(&head, NULL, 0));
    again();
    head.kind = AFI_CREDIT;
    head.number = world.peer->received + 1;
    afi_wire_input(world.peer, &head, sizeof(head) - 1);
    assert_int_equal(world.peer->state, AFI_CLOSING);
}

static bool takes_brief(uint8_t flags, size_t len)
{
    again();
    struct afi_brief head = {.kind = AFI_BRIEF, .flags = flags, .number = world.peer->received + 1};
    unsigned char *message = calloc(1, len);
    assert_non_null(message);
    memcpy(message, &head, aqi_min(len, sizeof(head)));
    afi_wire_input(world.peer, message, len);
    free(message);
    return world.peer->state == AFI_UP;
}

static void test_brief_messages(void **state)
{
    assert_true(takes_brief(AFI_DATA_FLAG, sizeof(struct afi_brief)));
    assert_false(aqi_list_is_empty(&world.ep->own.matches[0].unexpected));
    assert_true(takes_brief(AFI_TAGGED_FLAG, sizeof(struct afi_brief) + 8));
    assert_false(aqi_list_is_empty(&world.ep->own.matches[1].unexpected));
    assert_false(takes_brief(0, sizeof(struct afi_brief) - 1));
    assert_false(takes_brief(AFI_ACK_ARRIVED, sizeof(struct afi_brief)));
    assert_false(takes_brief(AFI_ACK_DELIVERED, sizeof(struct afi_brief)));
    assert_false(takes_brief(AFI_REMOTE, sizeof(struct afi_brief)));
}

/* Returns the state in which this answer leaves a peer that was asked to close the connection. */
static enum afi_state answered(enum afi_kind kind, size_t len)
{
    const struct afi_wire head = {.kind = (uint8_t)kind};
    again();
    world.peer->state = AFI_LEAVING;
    send_as(world.peer->received + 1, &head, data, len);
    return world.peer->state;
}

/*
 * Closing an unused connection: there is no answer without a question, and none is longer than a
 * head.
 */
static void test_leaving(void **state)
{
    struct afi_wire leave = {.kind = AFI_LEAVE}, agree = {.kind = AFI_AGREE},
                    stay = {.kind = AFI_STAY};
    assert_true(takes(&leave, NULL, 0)); /* operations are under way: no */
    assert_false(takes(&leave, data, 1));
    assert_false(takes(&agree, NULL, 0));
    assert_false(takes(&stay, NULL, 0));
    assert_int_equal(answered(AFI_STAY, 1), AFI_CLOSING);
    assert_int_equal(answered(AFI_STAY, 0), AFI_UP);
    assert_int_equal(answered(AFI_AGREE, 1), AFI_CLOSING);
    assert_int_equal(answered(AFI_AGREE, 0), AFI_PARTING);
}

/* Messages without a receive take no more memory than the window, whatever the peer claims. */
static void test_window(void **state)
{
    static const unsigned char bytes[64];
    struct afi_wire head = {
        .kind = AFI_MESSAGE, .flags = AFI_TAGGED_FLAG, .tag = 77, .len = sizeof(bytes)};
    again();
    uint32_t kept = world.peer->kept, most = AFI_WINDOW / 64;
    for (uint32_t i = 0; i < most && world.peer->state == AFI_UP; i++)
        send_as(world.peer->received + 1, &head, bytes, sizeof(bytes));
    assert_int_equal(world.peer->state, AFI_CLOSING);
    assert_true(world.peer->kept - kept > AFI_WINDOW / 512);
    assert_true(world.peer->taken <= AFI_WINDOW);
}

/* Whether this message, for which there is no receive, leaves the window to others. */
static bool is_spared(size_t len)
{
    static const unsigned char bytes[AFI_INJECT + 1];
    const struct afi_wire head = {.kind = AFI_MESSAGE, .tag = 77, .len = len};
    uint32_t owed = world.peer->owed;
    size_t spared = world.ep->own.spared;
    send_as(world.peer->received + 1, &head, bytes, len);
    assert_int_equal(world.peer->state, AFI_UP);
    assert_int_equal(world.peer->owed - owed, world.ep->own.spared - spared);
    return world.peer->owed - owed == len + AFI_COST;
}

/* Short messages without a receive do so, until an endpoint has many of them. */
static void test_unexpected_messages(void **state)
{
    again();
    assert_true(is_spared(0));
    assert_true(is_spared(AFI_INJECT));
    assert_false(is_spared(AFI_INJECT + 1));
    assert_int_equal(world.ep->own.spared, AFI_INJECT + 2 * AFI_COST);
    again();
    assert_int_equal(world.ep->own.spared, 0);
    world.ep->own.spared = AFI_SPARE - AFI_COST - 8;
    assert_false(is_spared(9));
    assert_true(is_spared(8));
    assert_false(is_spared(0));
    world.ep->own.spared -= AFI_SPARE - AFI_COST - 8;
}

/* Credit is returned earlier to a peer that has little left, so that it does not wait for more. */
static void test_little_credit(void **state)
{
    for (unsigned little = 0; little < 2; little++) {
        again();
        world.peer->owed = AFI_WINDOW / 8 - AFI_COST;
        world.peer->taken = AFI_WINDOW / 4 * 3 - AFI_COST + little;
        assert_true(is_spared(0));
        assert_int_equal(aqi_list_is_empty(&world.peer->notes), little == 0);
    }
}

/* Messages that overtake others wait; a duplicate ends the connection. */
/* A short message waits for credit without polling; only longer ones are fetched by the peer. */
static void test_waiting_for_credit(void **state)
{
    static const struct {
        size_t len, left;
        bool waits;
    } cases[] = {{100, AFI_COST + 99, true},
                 {AFI_INJECT, AFI_COST + AFI_INJECT - 1, true},
                 {AFI_INJECT + 1, AFI_COST, false},
                 {AFI_INJECT + 1, AFI_COST - 1, true},
                 {100, AFI_COST + 100, false}};
    const struct afi_wire head = {.kind = AFI_CREDIT, .credit = 1};
    for (unsigned i = 0; i < AQI_COUNT_OF(cases); i++) {
        again();
        struct afi_op *op = afi_op_new(world.peer, 0, true, NULL);
        assert_non_null(op);
        op->type = AFI_SEND;
        op->len = op->iov[0].iov_len = cases[i].len;
        op->iov[0].iov_base = world.memory;
        op->count = 1;
        world.peer->left = (uint32_t)cases[i].left;
        aqi_list_append(&world.peer->waiting, &op->link);
        world.peer->waiting_count++;
        afi_peer_activate(world.peer);
        afi_wire_push(world.peer); /* there is no connection: others are to be sent again */
        assert_int_equal(aqi_list_is_empty(&world.peer->active), cases[i].waits);
        send_as(world.peer->received + 1, &head, NULL, 0);
        assert_false(aqi_list_is_empty(&world.peer->active));
    }
}

static void test_order(void **state)
{
    struct afi_wire head = {.kind = AFI_CREDIT, .credit = 1};
    again();
    uint32_t first = world.peer->received + 1, left = world.peer->left;
    send_as(first + 2, &head, NULL, 0);
    send_as(first + 1, &head, NULL, 0);
    send_as(first + 3, &head, NULL, 0);
    assert_int_equal(world.peer->left, left);
    send_as(first, &head, NULL, 0);
    assert_int_equal(world.peer->left, left + 4);
    assert_int_equal(world.peer->early.count, 0);
    assert_int_equal(world.peer->state, AFI_UP);
    send_as(first + 3, &head, NULL, 0); /* a duplicate of the last one */
    assert_int_equal(world.peer->state, AFI_CLOSING);
    again();
    first = world.peer->received + 1;
    send_as(first + 1, &head, NULL, 0);
    send_as(first + 1, &head, NULL, 0); /* a duplicate of one that waits */
    assert_int_equal(world.peer->state, AFI_CLOSING);
    again();
    world.peer->state = AFI_CLOSING; /* nothing more is taken */
    uint32_t received = world.peer->received;
    send_as(received + 1, &head, NULL, 0);
    assert_int_equal(world.peer->received, received);
}

/* Before its connection is known to be open, the peer is neither answered nor believed. */
static void test_early_messages(void **state)
{
    struct afi_wire head = {.kind = AFI_CREDIT, .credit = 1};
    again();
    uint32_t first = world.peer->received + 1, left = world.peer->left, calling = afi.calling;
    world.peer->state = AFI_CALLING;
    send_as(first + 1, &head, NULL, 0);
    send_as(first, &head, NULL, 0);
    assert_int_equal(world.peer->left, left);
    world.peer->state = AFI_UP;
    afi_wire_take_early(world.peer);
    assert_int_equal(world.peer->left, left + 2);
    assert_int_equal(world.peer->received, first + 1);
    again();
    world.peer->state = AFI_CALLING;
    afi.calling++;
    send_as(world.peer->received + 1, &head, NULL, 0);
    send_as(world.peer->received + 1, &head, NULL, 0);
    assert_int_equal(world.peer->state, AFI_CLOSING);
    again();
    assert_int_equal(afi.calling, calling);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_results, begin, end),
        cmocka_unit_test_setup_teardown(test_ends_of_operations, begin, end),
        cmocka_unit_test_setup_teardown(test_lists_of_pieces, begin, end),
        cmocka_unit_test_setup_teardown(test_grants, begin, end),
        cmocka_unit_test_setup_teardown(test_messages, begin, end),
        cmocka_unit_test_setup_teardown(test_writes, begin, end),
        cmocka_unit_test_setup_teardown(test_places_outside, begin, end),
        cmocka_unit_test_setup_teardown(test_reads, begin, end),
        cmocka_unit_test_setup_teardown(test_atomic_operations, begin, end),
        cmocka_unit_test_setup_teardown(test_credits, begin, end),
        cmocka_unit_test_setup_teardown(test_kinds, begin, end),
        cmocka_unit_test_setup_teardown(test_brief_messages, begin, end),
        cmocka_unit_test_setup_teardown(test_leaving, begin, end),
        cmocka_unit_test_setup_teardown(test_window, begin, end),
        cmocka_unit_test_setup_teardown(test_unexpected_messages, begin, end),
        cmocka_unit_test_setup_teardown(test_little_credit, begin, end),
        cmocka_unit_test_setup_teardown(test_waiting_for_credit, begin, end),
        cmocka_unit_test_setup_teardown(test_order, begin, end),
        cmocka_unit_test_setup_teardown(test_early_messages, begin, end),
    };
    return cmocka_run_group_tests(tests, open_world, NULL);
}
