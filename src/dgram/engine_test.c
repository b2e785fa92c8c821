/* Two engines and a wire between them: every kind of operation, on a reliable wire and on a lossy
 * one. tests/sim has many more engines and worse networks. */
#include "dgram/engine_world_test.h"
#include "dgram/memory_test.h"

static void messages(unsigned loss, bool authenticate)
{
    static const size_t sizes[] = {0, 1, 8, 500, 800, 1400, 4096, 8900, 9000, 20000, 65536};
    begin(loss, authenticate);
    world.node[1].answers = true;
    unsigned sent = 0;
    size_t sum = 0;
    for (unsigned round = 0; round < 20; round++)
        for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
            while (send_one(&world.node[0], sizes[i], sent) == AQ_AGAIN)
                step(world.now + 1000);
            sent++;
            sum += HEAD + sizes[i];
        }
    settle(20000000000);
    assert_int_equal(world.node[1].requests, sent);
    assert_int_equal(world.node[1].sum, sum);
    assert_int_equal(world.node[0].replies, sent);
    assert_true(aqi_dgram_quiet(world.node[0].dgram, AQI_DGRAM_ALL));
    end();
}

static void test_messages(void **state)
{
    messages(0, false);
    messages(0, true);
}

static void test_messages_lost(void **state)
{
    messages(10, false);
    messages(200, true);
}

/* A peer that computes can be connected to and is not lost, however long it computes; packets that
 * arrived meanwhile are taken afterwards. */
static void test_computes(void **state)
{
    enum { SENT = 40 };
    struct done done = {0};
    dead_after = 1000000000;
    begin(20, true);
    dead_after = 0;
    struct node *here = &world.node[0], *there = &world.node[1];
    world.computes = true;
    memset(here->memory, 7, 5000);
    memset(there->memory, 0, 5000);
    for (unsigned i = 0; i < SENT; i++)
        assert_int_equal(send_one(here, i % 2 * 3000, i), AQ_OK);
    assert_put(NULL, (uintptr_t)there->memory, 5000, &done);
    run(5000000000);
    assert_int_equal(here->lost, 0);
    assert_true(info_of(0).connected);
    assert_int_equal(there->requests, 0);
    assert_int_equal(there->memory[0], 0);
    assert_int_equal(done.remote, 0);
    assert_true(aqi_dgram_parked(there->dgram));
    /* The sender asks less and less often, down to four times per second and channel. */
    uint64_t again = aqi_dgram_count(here->dgram, AQI_DGRAM_RESENT);
    printf("%llu packets retransmitted in 5 s\n", (unsigned long long)again);
    assert_in_range(again, 20, 80);
    world.computes = false;
    assert_true(aqi_dgram_resume(there->dgram, true, world.now) != 0);
    settle(20000000000);
    assert_int_equal(there->requests, SENT);
    assert_int_equal(done.remote, 1);
    assert_memory_equal(there->memory, here->memory, 5000);
    end();
}

/*
 * A handler that waits for room in its reply lets requests pile up: the sender slows down, and none
 * is dropped. Afterwards it is fast again.
 */
static void test_handler_waits(void **state)
{
    enum { FOR = 500000 /* ns */, SIZE = 20000, ENOUGH = 500 };
    begin(0, false);
    struct node *here = &world.node[0], *there = &world.node[1];
    unsigned sent = 0;
    for (unsigned waits = 2; waits-- > 0;) {
        world.replies_only = waits == 1;
        for (uint64_t until = world.now + FOR; world.now < until;) {
            if (send_one(here, SIZE, sent) == AQ_OK)
                sent++;
            else
                step(until);
        }
        if (waits == 1) assert_int_equal(there->requests, 0);
    }
    settle(20000000000);
    assert_int_equal(there->requests, sent);
    assert_int_equal(aqi_dgram_count(there->dgram, AQI_DGRAM_DROP_POOL), 0);
    printf("%u messages\n", sent);
    assert_true(sent > ENOUGH);
    end();
}

/* Both begin; packets of the side that accepts do not overtake its ACCEPT. */
static void test_crossing(void **state)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        begin(0, false);
        world.random = seed;
        world.detour = 3000;
        for (unsigned i = 0; i < NODES; i++)
            send_and_settle(&world.node[i], 10, i, 1000000000);
        for (unsigned i = 0; i < NODES; i++) {
            assert_int_equal(world.node[i].requests, 1);
            assert_int_equal(aqi_dgram_count(world.node[i].dgram, AQI_DGRAM_DROP_COOKIE), 0);
            assert_int_equal(aqi_dgram_count(world.node[i].dgram, AQI_DGRAM_RESENT), 0);
        }
        end();
    }
}

/* A few messages leave at once though others are in flight; any more are gathered until some time
 * has passed. */
static void test_at_once(void **state)
{
    enum { AT_ONCE = 3, ROUNDS = 3 };
    unsigned sent = 0;
    at_once = AT_ONCE;
    begin(0, false);
    at_once = 0;
    struct node *here = &world.node[0], *there = &world.node[1];
    send_and_settle(here, 10, sent++, 1000000000);
    for (unsigned round = 0; round < ROUNDS; round++) {
        (void)aqi_dgram_progress(here->dgram, true, world.now);
        world.sent = here->gathers = 0;
        for (unsigned i = 0; i < 1 + AT_ONCE; i++)
            assert_int_equal(send_one(here, 10, sent++), AQ_OK);
        assert_int_equal(world.sent, 1 + AT_ONCE);
        assert_int_equal(here->gathers, 0);
        for (unsigned i = 0; i < 5; i++)
            assert_int_equal(send_one(here, 10, sent++), AQ_OK);
        assert_int_equal(world.sent, 1 + AT_ONCE);
        assert_int_equal(here->gathers, 1);
        (void)aqi_dgram_progress(here->dgram, true, world.now);
        assert_int_equal(world.sent, 2 + AT_ONCE);
        assert_int_equal(send_one(here, 10, sent++), AQ_OK);
        assert_int_equal(world.sent, 2 + AT_ONCE);
        assert_int_equal(here->gathers, 2);
        settle(1000000000);
        assert_int_equal(there->requests, sent);
        run(2000000);
    }
    /* Replies of handlers are gathered. */
    there->answers = true;
    unsigned before = here->replies;
    for (unsigned i = 0; i < 1 + AT_ONCE; i++)
        assert_int_equal(send_one(here, 10, sent++), AQ_OK);
    world.sent = 0;
    settle(1000000000);
    assert_int_equal(here->replies - before, 1 + AT_ONCE);
    printf("%u packets with replies\n", world.sent);
    assert_in_range(world.sent, 1, 3);
    end();
}

static void transfers(unsigned loss)
{
    static const size_t sizes[] = {1, 8, 255, 256, 257, 5000, 9000, 100000, MEMORY / 2};
    struct done done[3 * AQI_COUNT_OF(sizes)] = {{0}};
    begin(loss, false);
    struct node *here = &world.node[0], *there = &world.node[1];
    uint64_t base = (uintptr_t)there->memory;
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        size_t n = sizes[i];
        unsigned char head[HEAD] = {0};
        struct done *d = &done[3 * i];
        memset(here->memory, (int)i + 1, n);
        memset(there->memory, 0, MEMORY);
        assert_put(NULL, base + 3, n, &d[0]);
        settle(20000000000);
        assert_int_equal(d[0].local, 1);
        assert_int_equal(d[0].remote, 1);
        assert_int_equal(d[0].status, AQ_OK);
        assert_memory_equal(there->memory + 3, here->memory, n);
        assert_int_equal(there->memory[3 + n], 0);
        memset(here->memory, 0, MEMORY);
        assert_int_equal(aqi_dgram_get(here->dgram, 1, base + 3, here->memory, n, &d[1]), AQ_OK);
        settle(20000000000);
        assert_int_equal(d[1].remote, 1);
        assert_memory_equal(there->memory + 3, here->memory, n);
        memset(here->memory, (int)i + 77, n);
        assert_put(head, base, n, &d[2]);
        settle(20000000000);
        assert_int_equal(d[2].local, 1);
        assert_int_equal(d[2].remote, 0);
        assert_int_equal(there->requests, i + 1);
        assert_memory_equal(there->memory, here->memory, n);
    }
    end();
}

static void test_transfers(void **state)
{
    transfers(0);
    transfers(50);
}

/* Bulk data leaves in full bursts: none is cut short by the end of a turn. */
static void test_bursts(void **state)
{
    struct done done = {0};
    begin(0, false);
    struct node *here = &world.node[0];
    uint64_t there = (uintptr_t)world.node[1].memory;
    memset(here->memory, 1, MEMORY);
    for (unsigned i = 0; i < 2; i++) {
        world.bursts = world.packets = 0;
        assert_put(NULL, there, MEMORY, &done);
        settle(20000000000);
    }
    unsigned full = AQI_DGRAM_BURST / (LARGEST / 16 * 16);
    print_message("%u packets in %u bursts of up to %u\n", world.packets, world.bursts, full);
    assert_true(world.bursts <= world.packets / full + 2);
    end();
}

/* The bytes of Longs are in place before their heads arrive, which are retransmitted repeatedly: no
 * more Longs are begun than the peer keeps track of. */
static void test_late_heads(void **state)
{
    enum { COUNT = 5000, SIZE = 600 };
    static struct done done[COUNT];
    begin(0, false);
    struct node *here = &world.node[0], *there = &world.node[1];
    unsigned char head[HEAD] = {0};
    memset(done, 0, sizeof(done));
    send_and_settle(here, 0, 0, 1000000000);
    world.headless = true;
    uint64_t until = world.now + 100000000;
    for (unsigned i = 0; i < COUNT;) {
        aq_status st = aqi_dgram_put(here->dgram, 1, (uintptr_t)there->memory, here->memory, SIZE,
                                     false, head, sizeof(head), &done[i]);
        i += st == AQ_OK;
        assert_true(st == AQ_OK || st == AQ_AGAIN);
        step(world.now + 1000);
        world.headless = world.now < until;
    }
    world.headless = false;
    settle(20000000000);
    assert_int_equal(there->requests, 1 + COUNT);
    assert_int_equal(aqi_dgram_count(there->dgram, AQI_DGRAM_DROP_MALFORMED), 0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(done[i].local, 1);
    end();
}

static void test_refused(void **state)
{
    static const size_t sizes[] = {8, 5000, 100000};
    begin(20, false);
    struct node *here = &world.node[0], *there = &world.node[1];
    uint64_t bad = (uintptr_t)there->memory + MEMORY - 4;
    unsigned char head[HEAD] = {0};
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        struct done done[3] = {{0}};
        assert_put(NULL, bad, sizes[i], &done[0]);
        assert_int_equal(aqi_dgram_get(here->dgram, 1, bad, here->memory, sizes[i], &done[1]),
                         AQ_OK);
        assert_put(head, bad, sizes[i], &done[2]);
        settle(20000000000);
        assert_int_equal(done[0].remote, 1);
        assert_int_equal(done[0].status, AQ_ERANGE);
        assert_int_equal(done[1].remote, 1);
        assert_int_equal(done[1].status, AQ_ERANGE);
        assert_int_equal(done[2].local, 1);
        assert_int_equal(there->requests, 0);
    }
    end();
}

static void test_forget(void **state)
{
    struct done done = {0};
    begin(0, false);
    struct node *here = &world.node[0], *there = &world.node[1];
    assert_int_equal(
        aqi_dgram_get(here->dgram, 1, (uintptr_t)there->memory, here->memory, MEMORY, &done),
        AQ_OK);
    while (aqi_dgram_count(there->dgram, AQI_DGRAM_SENT) < 5)
        step(world.now + 1000);
    aqi_dgram_forget(there->dgram, there->memory + 5, 1);
    settle(20000000000);
    assert_int_equal(done.remote, 1);
    assert_int_equal(done.status, AQ_ERANGE);
    end();
}

static void test_idle_close(void **state)
{
    begin(0, false);
    for (unsigned i = 0; i < 3; i++) {
        send_and_settle(&world.node[i % 2], 10, i, 1000000000);
        assert_true(info_of(0).connected);
        run(2500000000);
        assert_true(!info_of(0).connected);
        assert_true(dgram_peer_memory(world.node[0].dgram, 1) <= 264);
    }
    assert_int_equal(world.node[0].requests, 1);
    assert_int_equal(world.node[1].requests, 2);
    end();
}

/* A peer that does not answer is asked now and then, no matter how much is pending for it. */
static void test_silence(void **state)
{
    begin(0, false);
    struct node *here = &world.node[0];
    send_and_settle(here, 10, 0, 1000000000);
    world.loss = 1000;
    for (unsigned i = 1; i <= 40; i++)
        assert_int_equal(send_one(here, 8000, i), AQ_OK);
    run(3000000000);
    assert_true(aqi_dgram_count(here->dgram, AQI_DGRAM_SENT) > 10);
    assert_in_range(aqi_dgram_count(here->dgram, AQI_DGRAM_RESENT), 10, 60);
    world.loss = 0;
    settle(1000000000);
    assert_int_equal(world.node[1].requests, 41);
    end();
}

/* Both begin, and the packets of the one that should prevail are lost: it still learns that the
 * other one is alive. */
static void test_unheard_beginner(void **state)
{
    dead_after = 5000000000;
    begin(0, false);
    world.unasked = true;
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(send_one(&world.node[i], 10, i), AQ_OK);
    run(30000000000);
    world.unasked = false;
    settle(2000000000);
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(world.node[i].lost, 0);
        assert_int_equal(world.node[i].requests, 1);
    }
    end();
    dead_after = 0;
}

/* A peer that does not answer, connected or not, is lost after the time allowed. */
static void test_dead(void **state)
{
    dead_after = 1000000000;
    for (unsigned connected = 0; connected < 2; connected++) {
        begin(0, false);
        struct node *here = &world.node[0];
        if (connected) send_and_settle(here, 10, 0, 500000000);
        world.loss = 1000;
        assert_int_equal(send_one(here, 10, 1), AQ_OK);
        run(900000000);
        assert_int_equal(here->lost, 0);
        run(4000000000);
        assert_int_equal(here->lost, 1);
        assert_int_equal(here->loss, AQI_DGRAM_SILENT);
        world.loss = 0;
        end();
    }
    dead_after = 0;
}

/* The time during which acknowledgements were lost does not count as RTT. The bulk is lost; small
 * messages arrive, but their sender does not learn that before the first of the bulk arrives. */
static void test_lost_acknowledgements(void **state)
{
    for (uint64_t ms = 80; ms < 320; ms += 20) {
        begin(0, false);
        struct node *here = &world.node[0];
        for (unsigned i = 0; i < 10; i++) {
            send_and_settle(here, 10, i, 1000000000);
        }
        world.loss = 1000;
        assert_int_equal(send_one(here, 8000, 10), AQ_OK);
        run(50000);
        world.loss = 0;
        world.deaf = true;
        for (unsigned i = 11; i < 31; i++)
            assert_int_equal(send_one(here, 700, i), AQ_OK);
        run(50000);
        world.loss = 1000;
        run(ms * 1000000);
        world.loss = 0;
        world.deaf = false;
        settle(1000000000);
        assert_int_equal(world.node[1].requests, 31);
        assert_in_range(info_of(0).rtt, 1, 2000000);
        end();
    }
}

/*
 * A whole window is lost and nothing is sent after it: the answer to the first retransmission shows
 * the fate of everything sent before.
 */
static void test_window_lost(void **state)
{
    struct done done = {0};
    begin(0, false);
    struct node *here = &world.node[0];
    send_and_settle(here, 10, 0, 1000000000);
    world.loss = 1000;
    assert_put(NULL, (uintptr_t)world.node[1].memory, 120000, &done);
    run(20000);
    world.loss = 0;
    uint64_t healed = world.now;
    settle(1000000000);
    uint64_t timeouts = aqi_dgram_count(here->dgram, AQI_DGRAM_TIMEOUTS);
    printf("%llu us, %llu timeouts\n", (unsigned long long)(world.now - healed) / 1000,
           (unsigned long long)timeouts);
    assert_int_equal(done.remote, 1);
    assert_in_range(timeouts, 1, 3);
    end();
}

static void test_restart(void **state)
{
    begin(0, false);
    aqi_dgram_set_flag(world.node[0].dgram); /* it rides on packets */
    assert_false(aqi_dgram_has_flag(world.node[1].dgram));
    send_and_settle(&world.node[0], 10, 0, 1000000000);
    assert_true(aqi_dgram_has_flag(world.node[1].dgram));
    aqi_dgram_destroy(world.node[1].dgram);
    open_node(1, 777, false);
    assert_int_equal(send_one(&world.node[0], 10, 0), AQ_OK);
    run(1000000000);
    assert_int_equal(world.node[0].lost, 1);
    assert_int_equal(world.node[0].loss, AQI_DGRAM_BROKEN);
    assert_int_equal(send_one(&world.node[0], 10, 0), AQ_EPEER);
    end();
}

static void test_down(void **state)
{
    struct done done = {0};
    begin(1000, false);
    struct node *here = &world.node[0];
    assert_put(NULL, (uintptr_t)world.node[1].memory, 100000, &done);
    run(3000000);
    aqi_dgram_down(here->dgram, 1);
    assert_int_equal(done.local, 1);
    assert_int_equal(done.remote, 1);
    assert_int_equal(done.status, AQ_EPEER);
    assert_true(aqi_dgram_idle(here->dgram));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_messages_lost),
        cmocka_unit_test(test_computes),
        cmocka_unit_test(test_handler_waits),
        cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_late_heads),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_idle_close),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_dead),
        cmocka_unit_test(test_lost_acknowledgements),
        cmocka_unit_test(test_window_lost),
        cmocka_unit_test(test_down),
        cmocka_unit_test(test_unheard_beginner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
