/* Tests fallback_rows.c: serving scattered transfers that a peer may have made up. */
#include "transport/layers/fallback_world_test.h"

struct record {
    uint64_t addr, step;
    uint32_t len, count;
};

static struct record record(size_t at, int64_t step, uint32_t len, uint32_t count)
{
    return (struct record){(uintptr_t)reach + at, (uint64_t)step, len, count};
}

/* A message of one record and `more` bytes of data. */
static unsigned row_arrives(enum fallback_message type, struct record row, size_t more, size_t cut)
{
    static unsigned char bytes[2048];
    memset(bytes, 0xee, sizeof(bytes));
    memcpy(bytes, &row, sizeof(row));
    return arrives(
        (struct message){type, 2, {5, 6}, NULL, bytes, (uint32_t)(sizeof(row) + more - cut)});
}

static void rows_stay_within_the_message_and_the_memory(void **state)
{
    const struct {
        struct record row;
        size_t bytes, cut;
        bool put_ok, get_ok;
    } rows[] = {
        {record(0, 0, 64, 1), 64, 0, true, true},
        {record(REACH - 64, 0, 64, 1), 64, 0, true, true},
        {record(REACH - 63, 0, 64, 1), 64, 0, false, false},
        {record(0, 100, 8, 5), 40, 0, true, true},
        {record(REACH - 408, 100, 8, 5), 40, 0, true, true},
        {record(REACH - 407, 100, 8, 5), 40, 0, false, false},
        {record(400, -100, 8, 5), 40, 0, true, true},
        {record(399, -100, 8, 5), 40, 0, false, false},
        {record(REACH - 8, -100, 8, 5), 40, 0, true, true},
        {record(REACH - 7, -100, 8, 5), 40, 0, false, false},
        {record(0, INT64_MAX, 8, 2), 16, 0, false, false},
        {record(0, INT64_MAX, 8, 3), 24, 0, false, false},
        {record(0, INT64_MIN, 8, 2), 16, 0, false, false},
        {record(0, INT64_MIN / 2 - 1, 8, 3), 24, 0, false, false},
        {record(0, 0, 0, 1), 0, 0, false, false},
        {record(0, 0, 1, 0), 0, 0, false, false},
        {record(0, 0, UINT32_MAX, UINT32_MAX), 64, 0, false, false},
        {record(0, 0, 1u << 16, 1u << 16), 64, 0, false, false},
        {record(0, 0, 64, 1), 64, 1, false, false}, /* a byte is missing */
        {record(0, 0, 512, 1), 512, 0, true, true}, /* capacity of an answer */
        {record(0, 0, 513, 1), 513, 0, true, false},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        unsigned char before[sizeof(reach)];
        open_world();
        memcpy(before, reach, sizeof(reach));
        assert_int_equal(row_arrives(FB_PUT_ROWS, rows[i].row, rows[i].bytes, rows[i].cut), 0);
        expect_answer(1, rows[i].put_ok ? FB_DONE : FB_REFUSED);
        unsigned written = 0;
        for (unsigned at = 0; at < sizeof(reach); at++)
            written += reach[at] != before[at];
        if (!rows[i].put_ok) assert_int_equal(written, 0);
        if (rows[i].put_ok) assert_in_range(written, rows[i].bytes * 9 / 10, rows[i].bytes);
        assert_memory_equal(reach + REACH, before + REACH, 64);
        memcpy(reach, before, sizeof(reach));
        /* Likewise for a get, whose message has no data. */
        assert_int_equal(row_arrives(FB_GET_ROWS, rows[i].row, 0, rows[i].cut), 0);
        if (!rows[i].get_ok) {
            expect_answer(2, FB_REFUSED);
        } else {
            expect_sent(2, FB_ROWS, 2, (const int32_t[]){5, 6});
            assert_int_equal(world.sent[1].am.nbytes, rows[i].bytes);
            for (uint32_t piece = 0; piece < rows[i].row.count; piece++)
                assert_memory_equal(world.sent[1].payload + piece * rows[i].row.len,
                                    (unsigned char *)(uintptr_t)rows[i].row.addr +
                                        (int64_t)rows[i].row.step * piece,
                                    rows[i].row.len);
        }
        close_world();
    }
}

/* If one of several records is invalid, nothing is done. */
static void all_rows_or_none(void **state)
{
    for (unsigned bad = 0; bad < 2; bad++) {
        struct {
            struct record first;
            unsigned char bytes[16];
            struct record second;
            unsigned char more[16];
        } put = {record(0, 0, 16, 1), {1, 2, 3}, record(bad ? REACH : 64, 0, 16, 1), {4, 5, 6}};
        struct record get[2] = {put.first, put.second};
        static_assert(sizeof(put) == 80, "no padding");
        open_world();
        assert_int_equal(arrives((struct message){FB_PUT_ROWS, 2, {5, 6}, NULL, &put, sizeof(put)}),
                         0);
        expect_answer(1, bad ? FB_REFUSED : FB_DONE);
        assert_int_equal(memcmp(reach, put.bytes, 16) == 0, !bad);
        assert_int_equal(memcmp(reach + 64, put.more, 16) == 0, !bad);
        assert_int_equal(arrives((struct message){FB_GET_ROWS, 2, {5, 6}, NULL, get, sizeof(get)}),
                         0);
        if (bad) expect_answer(2, FB_REFUSED);
        if (!bad) assert_int_equal(world.sent[1].am.nbytes, 32);
        if (!bad) assert_memory_equal(world.sent[1].payload, put.bytes, 16);
        if (!bad) assert_memory_equal(world.sent[1].payload + 16, put.more, 16);
        close_world();
    }
}

/* A stranger changes its message while it is read: it gets no byte that it may not access. */
static void rows_that_change_meanwhile(void **state)
{
    for (unsigned put = 0; put < 2; put++)
        for (unsigned large = 0; large < 2; large++) {
            unsigned char bytes[sizeof(struct record) + 64], before[sizeof(reach)];
            const struct record row = record(0, 0, 64, 1);
            open_world();
            memset(bytes, 0xee, sizeof(bytes));
            memcpy(bytes, &row, sizeof(row));
            world.swap = bytes + offsetof(struct record, len);
            world.swap_at = 1; /* all were checked, none was moved */
            world.swap_to = large ? 65 : 0;
            memcpy(before, reach, sizeof(reach));
            const struct message m = {put ? FB_PUT_ROWS : FB_GET_ROWS,
                                      2,
                                      {5, 6},
                                      NULL,
                                      bytes,
                                      (uint32_t)(put ? sizeof(bytes) : sizeof(row))};
            assert_int_equal(arrives(m), 0);
            assert_memory_equal(reach, before, sizeof(reach));
            assert_int_equal(world.count, 1);
            assert_int_equal(world.sent[0].am.nbytes, 0);
            close_world();
        }
}

/* A message is prepared for as many arguments as it is sent with: its payload follows them. */
static struct aqi_transport prepared;
static unsigned prepared_nargs;

static aq_status prepare(struct aqi_tp *tp, struct aqi_peer *peer, bool reply, unsigned nargs,
                         size_t nbytes, struct aqi_slot *slot)
{
    prepared_nargs = nargs;
    return prepared.am_reserve(tp, peer, reply, nargs, nbytes, slot);
}

static aq_status send_prepared(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                               const struct aqi_am *am)
{
    if (am != NULL) assert_int_equal(am->nargs, prepared_nargs);
    return prepared.am_commit(tp, peer, slot, am);
}

/* When sent, a row without gaps at the target becomes one piece, and adjacent rows become one. */
static void rows_that_share_records(void **state)
{
    enum { TO = 4096, MOST = 3 };
    static const struct {
        struct aqi_row rows[MOST];
        unsigned n;
        struct record records[MOST];
        unsigned nrecords;
    } cases[] = {
        {{{.remote = TO, .len = 8, .count = 1}}, 1, {{TO, 0, 8, 1}}, 1},
        {{{.remote = TO, .len = 8, .count = 1}, {.remote = TO + 8, .len = 24, .count = 1}},
         2,
         {{TO, 0, 32, 1}},
         1},
        {{{.remote = TO, .len = 8, .count = 1}, {.remote = TO + 9, .len = 24, .count = 1}},
         2,
         {{TO, 0, 8, 1}, {TO + 9, 0, 24, 1}},
         2},
        {{{.remote = TO, .remote_step = 8, .len = 8, .count = 4}}, 1, {{TO, 0, 32, 1}}, 1},
        {{{.remote = TO, .remote_step = 9, .len = 8, .count = 4}}, 1, {{TO, 9, 8, 4}}, 1},
        {{{.remote = TO, .remote_step = 9, .len = 8, .count = 2},
          {.remote = TO + 8, .len = 8, .count = 1},
          {.remote = TO + 16, .remote_step = 16, .len = 8, .count = 2}},
         3,
         {{TO, 9, 8, 2}, {TO + 8, 0, 8, 1}, {TO + 16, 16, 8, 2}},
         3},
    };
    static unsigned char local[256];
    for (unsigned i = 0; i < sizeof(local); i++)
        local[i] = (unsigned char)(i + 1);
    for (unsigned c = 0; c < 2 * AQI_COUNT_OF(cases); c++) {
        bool put = c % 2 == 0;
        struct aqi_comp comp = {.local = put, .remote = 1};
        struct aqi_row rows[MOST];
        unsigned taken = 0, n = cases[c / 2].n;
        size_t at = 0, from = 0;
        open_world();
        prepared = world.tp.ops;
        world.tp.ops.am_reserve = prepare;
        world.tp.ops.am_commit = send_prepared;
        memcpy(rows, cases[c / 2].rows, sizeof(rows));
        for (unsigned i = 0; i < n; i++) {
            rows[i].local = local + from;
            rows[i].local_step = (int64_t)rows[i].len;
            from += rows[i].len * rows[i].count;
        }
        assert_int_equal((put ? world.tp.ops.put_rows : world.tp.ops.get_rows)(
                             &world.tp, world.fb->peers[PEER], NULL, rows, n, &taken, &comp),
                         AQ_OK);
        assert_int_equal(taken, n);
        assert_int_equal(world.count, 1);
        assert_int_equal(world.sent[0].am.handler, put ? FB_PUT_ROWS : FB_GET_ROWS);
        assert_int_equal(world.sent[0].am.nargs, 2);
        from = 0;
        const unsigned char *payload = world.sent[0].payload;
        for (unsigned i = 0; i < cases[c / 2].nrecords; i++) {
            const struct record *want = &cases[c / 2].records[i];
            assert_memory_equal(payload + at, want, sizeof(*want));
            at += sizeof(*want);
            if (!put) continue;
            size_t bytes = (size_t)want->len * want->count;
            assert_memory_equal(payload + at, local + from, bytes);
            at += bytes;
            from += bytes;
        }
        assert_int_equal(world.sent[0].am.nbytes, at);
        aqi_tp_peer_down(&world.tp, PEER);
        close_world();
    }
}

/* The end of a message takes part of a piece, unless that is small; a message may be full. */
static void rows_at_the_end_of_a_message(void **state)
{
    enum { RECORD = sizeof(struct record), FIRST = MEDIUM - 2 * RECORD };
    static const struct {
        size_t left, len, goes; /* bytes that fit of the second row, that it has, that go */
    } cases[] = {{64, 100, 64}, {63, 100, 0}, {63, 63, 63}, {63, 64, 0},
                 {65, 100, 65}, {10, 10, 10}, {1, 1, 1},    {0, 10, 0}};
    static unsigned char local[MEDIUM];
    for (unsigned c = 0; c < AQI_COUNT_OF(cases); c++) {
        struct aqi_comp comp = {.local = 1, .remote = 1};
        struct aqi_row rows[2] = {
            {.remote = 4096, .local = local, .len = FIRST - cases[c].left, .count = 1},
            {.remote = 8192, .local = local, .len = cases[c].len, .count = 1}};
        unsigned taken = 0;
        open_world();
        assert_int_equal(
            world.tp.ops.put_rows(&world.tp, world.fb->peers[PEER], NULL, rows, 2, &taken, &comp),
            AQ_OK);
        size_t goes = cases[c].goes;
        assert_int_equal(taken, goes == cases[c].len ? 2 : 1);
        if (taken == 1) assert_int_equal(rows[1].skip, goes);
        assert_int_equal(world.sent[0].am.nbytes,
                         FIRST - cases[c].left + RECORD + (goes != 0 ? RECORD + goes : 0));
        aqi_tp_peer_down(&world.tp, PEER);
        close_world();
    }
    enum { MANY = 20 };
    struct aqi_comp comp = {.remote = 1};
    struct aqi_row rows[MANY];
    unsigned taken = 0;
    open_world();
    world.fb->peers[PEER]->max_medium = MANY * RECORD;
    for (unsigned i = 0; i < MANY; i++)
        rows[i] = (struct aqi_row){.remote = 4096 + 2 * i, .local = local, .len = 1, .count = 1};
    assert_int_equal(
        world.tp.ops.get_rows(&world.tp, world.fb->peers[PEER], NULL, rows, MANY, &taken, &comp),
        AQ_OK);
    assert_int_equal(taken, MANY);
    assert_int_equal(world.sent[0].am.nbytes, MANY * RECORD);
    aqi_tp_peer_down(&world.tp, PEER);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stay_within_the_message_and_the_memory),
        cmocka_unit_test(all_rows_or_none),
        cmocka_unit_test(rows_that_change_meanwhile),
        cmocka_unit_test(rows_that_share_records),
        cmocka_unit_test(rows_at_the_end_of_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
