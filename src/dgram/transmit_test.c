/*
 * Sending: memory of the program is read where the hook says; while it cannot be read the
 * connection stays alive and everything else is sent. Also, which packets leave together.
 */
#include "dgram/pair_test.h"

enum { BYTES = 1 << 20, SMALL = 300, MESSAGES = 20 };

static void put_what_is_apart(unsigned loss, bool authenticates)
{
    static unsigned char memory[BYTES], apart[BYTES], there[BYTES];
    const uint64_t base = (uintptr_t)there;
    pair_authenticates = authenticates;
    pair_open(1, 10 * SECOND, 1 + loss);
    memset(memory, 0xee, BYTES);
    memset(there, 0, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        apart[i] = (unsigned char)(i * 31 + i / 4096);
    net.loss = loss;
    net.memory = memory;
    net.apart = apart;
    assert_int_equal(say(0, 0), AQ_OK);
    assert_int_equal(aqi_dgram_put(net.end[0], 1, base, memory, SMALL, false, NULL, 0, memory),
                     AQ_OK);
    assert_int_equal(aqi_dgram_put(net.end[0], 1, base + SMALL, memory + SMALL, BYTES - SMALL,
                                   false, NULL, 0, memory),
                     AQ_OK);
    while (aqi_dgram_count(net.end[0], AQI_DGRAM_SENT) < 20)
        run(10000);
    assert_in_range(aqi_dgram_count(net.end[0], AQI_DGRAM_SENT), 20, BYTES / LARGEST / 2);

    net.apart = NULL;
    for (unsigned i = 1; i < MESSAGES; i++) {
        assert_int_equal(say(0, i), AQ_OK);
        say_and_run(1, i, 300 * MS);
        assert_int_equal(net.received[0], i);
    }
    assert_int_equal(net.received[1], MESSAGES);
    assert_int_equal(net.lost[0] + net.lost[1] + net.silent[0] + net.silent[1], 0);
    assert_true(net.complete < 2);

    net.apart = apart;
    run(20 * SECOND);
    assert_int_equal(net.complete, 2);
    assert_memory_equal(there, apart, BYTES);
    pair_close();
}

static void what_cannot_be_read_waits(void **unused)
{
    put_what_is_apart(0, false);
    put_what_is_apart(0, true);
    put_what_is_apart(50, false);
    put_what_is_apart(50, true);
}

/* Messages and puts that are a little longer than a packet: several leave in a burst. */
static void equal_pieces_share_bursts(void **unused)
{
    enum { COUNT = 100, BIT_MORE = LARGEST + LARGEST / 8 };
    static unsigned char from[BIT_MORE], to[BIT_MORE];
    const unsigned char head[16] = {0};
    pair_authenticates = false;
    for (unsigned put = 0; put < 2; put++) {
        pair_open(1, 10 * SECOND, 1);
        say_and_run(0, 0, SECOND / 10);
        net.memory = from;
        net.apart = from;
        net.bursts = net.packets = 0;
        for (unsigned i = 0; i < COUNT;) {
            aq_status st =
                put ? aqi_dgram_put(net.end[0], 1, (uintptr_t)to, from, BIT_MORE, false, NULL, 0,
                                    from)
                    : aqi_dgram_send(net.end[0], 1, false, head, sizeof(head), from, BIT_MORE);
            i += st == AQ_OK;
            if (st == AQ_AGAIN) run(10000);
        }
        run(SECOND);
        assert_int_equal(net.packets, 2 * COUNT);
        assert_true(3 * net.bursts <= net.packets);
        pair_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_read_waits),
        cmocka_unit_test(equal_pieces_share_bursts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
