/* Answers to operations of the fallback layer that peers may have made up. */
#include "transport/layers/fallback_world_test.h"

static struct aqi_comp comp;

static struct aqi_peer *begin(void)
{
    open_world();
    comp = (struct aqi_comp){.local = 1, .remote = 1};
    return world.fb->peers[PEER];
}

static void expect_under_way(bool under_way)
{
    assert_int_equal(comp.remote, under_way);
    assert_int_equal(comp.status, AQ_OK);
    assert_int_equal(world.tp.ops.quiet(&world.tp, NULL), under_way ? AQ_AGAIN : AQ_OK);
}

/* An answer to the operation of message `number`. */
static struct message answer_to(unsigned number, enum fallback_message type, uint8_t nargs,
                                int32_t third)
{
    const int32_t *args = world.sent[number].args;
    return (struct message){type, nargs, {args[0], args[1], third}, NULL, NULL, 0};
}

static void acknowledgements_of_a_put(void **state)
{
    static unsigned char bytes[2 * PIECE];
    struct aqi_peer *peer = begin();
    assert_int_equal(
        world.tp.ops.put(&world.tp, peer, NULL, 4096, bytes, sizeof(bytes), NULL, &comp), AQ_OK);
    assert_int_equal(world.count, 2);
    assert_int_equal(comp.local, 0);
    struct message ack = answer_to(0, FB_ACK, 3, PIECE);
    /* For another operation, for more than was sent, or the answer to another kind. */
    ack.args[0]++;
    assert_int_equal(arrives(ack), 1);
    ack.args[0]--, ack.args[1]++;
    assert_int_equal(arrives(ack), 1);
    ack.args[1]--, ack.args[2] = 2 * PIECE + 1;
    assert_int_equal(arrives(ack), 0);
    expect_under_way(true);
    for (unsigned i = 0; i < 4; i++) {
        static const enum fallback_message others[] = {FB_GET_DATA, FB_RESULT, FB_DONE, FB_ROWS};
        assert_int_equal(arrives(answer_to(0, others[i], 4, 0)), 0);
        expect_under_way(true);
    }
    ack.args[2] = PIECE;
    assert_int_equal(arrives(ack), 0);
    assert_int_equal(world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0), 0);
    assert_int_equal(world.count, 2);
    /* The last answer is short: the rest is requested. */
    ack.args[2] = (PIECE - 10) | FB_ANSWER;
    assert_int_equal(arrives(ack), 0);
    expect_under_way(true);
    assert_int_equal(aqi_tp_pending, 1);
    assert_int_equal(world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0), 1);
    expect_sent(3, FB_SYNC, 2, ack.args);
    assert_int_equal(aqi_tp_pending, 0);
    ack.args[2] = 11 | FB_ANSWER;
    assert_int_equal(arrives(ack), 0);
    expect_under_way(true);
    ack.args[2] = 10 | FB_ANSWER;
    assert_int_equal(arrives(ack), 0);
    expect_under_way(false);
    assert_int_equal(world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0), 0);
    assert_int_equal(world.count, 3);
    assert_int_equal(arrives(ack), 1); /* repeated */
    expect_under_way(false);
    close_world();
}

/* A second put in the same answer, whether the first is known or not. */
static void acknowledgements_of_two_puts(void **state)
{
    static unsigned char bytes[PIECE];
    for (unsigned i = 0; i < 4; i++) {
        struct aqi_peer *peer = begin();
        assert_int_equal(
            world.tp.ops.put(&world.tp, peer, NULL, 4096, bytes, sizeof(bytes), NULL, &comp),
            AQ_OK);
        const int32_t *args = world.sent[0].args;
        /* The second has its own number, generation and bytes; five arguments lack it. */
        struct message ack = {FB_ACK, 6, {99, 99, PIECE, args[0], args[1], PIECE}, NULL, NULL, 0};
        ack.nargs = i == 1 ? 5 : 6;
        ack.args[5] += i == 2;
        ack.args[4] += i == 3;
        assert_int_equal(arrives(ack), 1);
        expect_under_way(i != 0);
        close_world();
    }
}

static void data_of_a_get(void **state)
{
    enum { LEN = PIECE + 100 };
    static unsigned char local[LEN + 64], data[LEN + 64];
    struct aqi_peer *peer = begin();
    memset(local, 0, sizeof(local));
    memset(data, 0x33, sizeof(data));
    assert_int_equal(world.tp.ops.get(&world.tp, peer, NULL, 4096, local, LEN, NULL, &comp), AQ_OK);
    assert_int_equal(world.count, 2);
    static const struct {
        int32_t offset; /* in units of 64 bytes */
        uint32_t nbytes;
    } bad[] = {{0, LEN + 1}, {1, LEN}, {PIECE / 64, 101}, {LEN / 64 + 1, 0}, {-1, 1}};
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++) {
        struct message m = answer_to(0, FB_GET_DATA, 3, bad[i].offset);
        m.payload = data;
        m.nbytes = bad[i].nbytes;
        assert_int_equal(arrives(m), 0);
        for (unsigned at = 0; at < sizeof(local); at++)
            assert_int_equal(local[at], 0);
    }
    expect_under_way(true);
    struct message m = answer_to(0, FB_GET_DATA, 3, PIECE / 64);
    m.payload = data;
    m.nbytes = 100;
    assert_int_equal(arrives(m), 0);
    expect_under_way(true);
    assert_int_equal(arrives(answer_to(0, FB_ACK, 3, PIECE)), 0);
    expect_under_way(true);
    m.args[2] = 0;
    m.nbytes = PIECE + 1; /* more than is outstanding */
    assert_int_equal(arrives(m), 0);
    assert_int_equal(local[0], 0);
    m.nbytes = PIECE;
    assert_int_equal(arrives(m), 0);
    expect_under_way(false);
    for (unsigned at = 0; at < sizeof(local); at++)
        assert_int_equal(local[at], at < LEN ? 0x33 : 0);
    assert_int_equal(arrives(m), 1);
    close_world();
}

/* Data that has not been requested yet is not accepted. */
static void data_ahead_of_a_get(void **state)
{
    enum { LEN = 20 * PIECE };
    static unsigned char local[LEN], data[LEN];
    struct aqi_peer *peer = begin();
    memset(local, 0, sizeof(local));
    memset(data, 0x33, sizeof(data));
    assert_int_equal(world.tp.ops.get(&world.tp, peer, NULL, 4096, local, LEN, NULL, &comp), AQ_OK);
    uint32_t asked = world.count * PIECE;
    assert_true(asked < LEN);
    struct message m = answer_to(0, FB_GET_DATA, 3, 0);
    m.payload = data;
    m.nbytes = asked + 1;
    assert_int_equal(arrives(m), 0);
    assert_int_equal(local[0], 0);
    m.nbytes = asked;
    assert_int_equal(arrives(m), 0);
    assert_int_equal(local[asked - 1], 0x33);
    assert_int_equal(world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0), 1);
    assert_int_equal(world.count, LEN / PIECE);
    m.args[2] = (int32_t)(asked / 64);
    m.nbytes = LEN - asked;
    assert_int_equal(arrives(m), 0);
    expect_under_way(false);
    close_world();
}

static void results_of_atomics(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        uint8_t type = i == 1 ? U32 : U64;
        const struct aqi_atomic req = {.addr = 64, .op = ADD, .type = type, .fetch = i != 2};
        uint64_t result = 0;
        struct aqi_peer *peer = begin();
        assert_int_equal(world.tp.ops.atomic(&world.tp, peer, NULL, &req, &result, &comp), AQ_OK);
        for (unsigned j = 0; j < 4; j++) {
            static const enum fallback_message others[] = {FB_GET_DATA, FB_ACK, FB_DONE, FB_ROWS};
            assert_int_equal(arrives(answer_to(0, others[j], 4, 0)), 0);
            expect_under_way(true);
        }
        struct message m = answer_to(0, FB_RESULT, 4, 0x55667788);
        m.args[3] = 0x11223344;
        assert_int_equal(arrives(m), 0);
        expect_under_way(false);
        assert_true(result == (i == 0 ? 0x1122334455667788u : i == 1 ? 0x55667788u : 0));
        assert_int_equal(arrives(m), 1);
        close_world();
    }
}

static void ends_of_fills_and_rows(void **state)
{
    static unsigned char local[128], data[129];
    memset(data, 0x33, sizeof(data));
    for (unsigned i = 0; i < 3; i++) {
        struct aqi_row row = {.remote = 4096, .local = local, .len = 128, .count = 1};
        struct aqi_peer *peer = begin();
        unsigned taken = 0;
        memset(local, 0, sizeof(local));
        if (i == 0)
            assert_int_equal(world.tp.ops.fill(&world.tp, peer, NULL, 4096, 1, 64, &comp), AQ_OK);
        else if (i == 1)
            assert_int_equal(world.tp.ops.put_rows(&world.tp, peer, NULL, &row, 1, &taken, &comp),
                             AQ_OK);
        else
            assert_int_equal(world.tp.ops.get_rows(&world.tp, peer, NULL, &row, 1, &taken, &comp),
                             AQ_OK);
        static const enum fallback_message others[] = {FB_GET_DATA, FB_ACK, FB_RESULT};
        for (unsigned j = 0; j < AQI_COUNT_OF(others); j++)
            assert_int_equal(arrives(answer_to(0, others[j], 4, 0)), 0);
        expect_under_way(true);
        struct message done = answer_to(0, FB_DONE, 2, 0), rows = answer_to(0, FB_ROWS, 2, 0);
        rows.payload = data;
        for (rows.nbytes = 127; rows.nbytes <= 129; rows.nbytes += 2)
            assert_int_equal(arrives(rows), 0);
        rows.nbytes = 128;
        assert_int_equal(arrives(i < 2 ? rows : done), 0);
        expect_under_way(true);
        assert_int_equal(local[0], 0);
        assert_int_equal(arrives(i < 2 ? done : rows), 0);
        expect_under_way(false);
        assert_int_equal(local[127], i < 2 ? 0 : 0x33);
        close_world();
    }
}

/*
 * A get of two rows whose first begins within a piece and whose last does not fit: the message asks
 * for four parts, and each byte of the answer goes to its place.
 */
static void rows_that_are_cut(void **state)
{
    enum { SKIP = 60, STEP = 256 };
    static unsigned char local[6 * STEP], data[MEDIUM];
    struct aqi_row rows[] = {{.remote = 0,
                              .remote_step = STEP,
                              .local = local,
                              .local_step = STEP,
                              .len = 64,
                              .count = 3,
                              .skip = SKIP},
                             {.remote = 1024,
                              .remote_step = STEP,
                              .local = local + 3 * STEP,
                              .local_step = STEP,
                              .len = 200,
                              .count = 2}};
    struct aqi_peer *peer = begin();
    unsigned taken = 0;
    for (size_t i = 0; i < MEDIUM; i++)
        data[i] = (unsigned char)(i / 4 + 1);
    memset(local, 0, sizeof(local));
    assert_int_equal(world.tp.ops.get_rows(&world.tp, peer, NULL, rows, 2, &taken, &comp), AQ_OK);
    assert_int_equal(taken, 1);
    assert_int_equal(rows[1].count, 1);
    assert_int_equal(rows[1].skip, MEDIUM - (64 - SKIP) - 2 * 64 - 200);
    assert_int_equal(world.sent[0].am.nbytes, 4 * 24);
    struct message answer = answer_to(0, FB_ROWS, 2, 0);
    answer.payload = data;
    answer.nbytes = MEDIUM;
    assert_int_equal(arrives(answer), 0);
    expect_under_way(false);
    assert_int_equal(local[SKIP - 1], 0);
    assert_memory_equal(local + SKIP, data, 4);
    assert_memory_equal(local + STEP, data + 4, 64);
    assert_memory_equal(local + 2 * STEP, data + 68, 64);
    assert_int_equal(local[2 * STEP + 64], 0);
    assert_memory_equal(local + 3 * STEP, data + 132, 200);
    assert_memory_equal(local + 4 * STEP, data + 332, 180);
    assert_int_equal(local[4 * STEP + 180], 0);
    close_world();
}

static void refused_operations_fail(void **state)
{
    static unsigned char bytes[PIECE];
    struct aqi_peer *peer = begin();
    assert_int_equal(world.tp.ops.get(&world.tp, peer, NULL, 4096, bytes, PIECE, NULL, &comp),
                     AQ_OK);
    assert_int_equal(arrives(answer_to(0, FB_REFUSED, 2, 0)), 0);
    assert_int_equal(comp.remote, 0);
    assert_int_equal(comp.status, AQ_ERANGE);
    assert_int_equal(arrives(answer_to(0, FB_REFUSED, 2, 0)), 1);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledgements_of_a_put),
        cmocka_unit_test(acknowledgements_of_two_puts),
        cmocka_unit_test(data_of_a_get),
        cmocka_unit_test(data_ahead_of_a_get),
        cmocka_unit_test(results_of_atomics),
        cmocka_unit_test(ends_of_fills_and_rows),
        cmocka_unit_test(rows_that_are_cut),
        cmocka_unit_test(refused_operations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
