/* A control channel: messages of the other side, strangers, lost peers, and the end. */
#include "transport/udp/udp_channel_world_test.h"

/* --- messages -------------------------------------------------------------------------------- */

static void test_first_and_next(void **state)
{
    channel_open(false);
    assert_int_equal(world.channel->state, UDP_CHANNEL_TAKEN);
    world.rendezvous->happened = 0;
    say(MESSAGE, 3);
    assert_int_equal(world.rendezvous->happened, 1);
    assert_int_equal(world.calls, 1);
    assert_int_equal(world.len, 3);
    assert_int_equal(world.last, 3);
    assert_false(world.writer.ours);
    assert_int_equal(world.writer.pid, 0);
    assert_int_equal(world.writer.uid, UINT32_MAX);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OPEN);
    assert_int_equal(world.channel->until, 0);
    assert_null(world.channel->listener);
    say(MESSAGE, 4);
    say(MESSAGE, 0);
    assert_int_equal(world.calls, 1);
    assert_int_equal(world.messages, 2);
    assert_int_equal(world.len, 0);
    run(2 * FIRST_TIMEOUT * SECOND);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OPEN);
    assert_int_equal(world.ends, 0);
}

/* For a caller every message is one of the channel, not a call. */
static void test_at_a_caller(void **state)
{
    world.rendezvous->secret = (struct udp_secret){{1}, true};
    channel_open(true);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OPEN);
    say(MESSAGE, 5);
    assert_int_equal(world.calls, 0);
    assert_int_equal(world.messages, 1);
    assert_true(world.writer.ours);
    assert_int_equal(write_to_peer(7), AQ_OK);
    run(20 * MS);
    assert_int_equal(world.heard[MESSAGE], 1);
    assert_int_equal(world.heard_len, 7);
    assert_int_equal(world.heard_last, 7);
    /* A flush sends at once, without a turn. */
    assert_int_equal(write_to_peer(1), AQ_OK);
    udp_channel_flush(world.channel);
    assert_null(world.channel->first);
    assert_int_equal(world.to_peer, 1);
    run(20 * MS);
    assert_int_equal(world.heard[MESSAGE], 2);
    assert_int_equal(world.heard_len, 1);
    assert_int_equal(world.heard_last, 1);
}

/* Messages that end within the head are ignored, whatever they contain. */
static void test_short_heads(void **state)
{
    channel_open_called();
    for (size_t len = 8; len <= sizeof(struct head); len++)
        for (unsigned kind = MESSAGE; kind <= END; kind++) {
            if (len == sizeof(struct head) && kind != MESSAGE) continue;
            say_only(kind, len, 0);
            run(20 * MS);
            assert_int_equal(world.messages, len == sizeof(struct head));
            assert_false(world.channel->ended);
        }
    assert_int_equal(world.len, 0);
    assert_int_equal(world.ends, 0);
}

static void test_kinds(void **state)
{
    for (unsigned first = 0; first < 2; first++) {
        channel_open(false);
        if (first == 0) say(MESSAGE, 1);
        for (unsigned kind = 0; kind < 256; kind++)
            if (kind != MESSAGE && kind != END) say_only(kind, sizeof(struct head), 100);
        run(100 * MS);
        assert_int_equal(world.calls, 1);
        assert_int_equal(world.messages + world.ends, 0);
        assert_int_equal(world.channel->state, first == 0 ? UDP_CHANNEL_OPEN : UDP_CHANNEL_TAKEN);
    }
}

static void test_lengths(void **state)
{
    static const size_t lengths[] = {0, 1, 1000, 2 * PACKET, LARGEST - 1, LARGEST};
    channel_open_called();
    char why[300];
    udp_rendezvous.unanswered(world.channel, why, sizeof(why));
    assert_non_null(strstr(why, "the server exists, but does not accept"));
    for (size_t i = 0; i < AQI_COUNT_OF(lengths); i++) {
        say(MESSAGE, lengths[i]);
        assert_int_equal(world.messages, i + 1);
        assert_int_equal(world.len, lengths[i]);
        if (lengths[i] != 0) assert_int_equal(world.last, lengths[i] % 251);
    }
    uint64_t dropped = aqi_dgram_count(world.channel->dgram, AQI_DGRAM_DROP_MALFORMED);
    say(MESSAGE, LARGEST + 1);
    assert_int_equal(world.messages, AQI_COUNT_OF(lengths));
    assert_true(aqi_dgram_count(world.channel->dgram, AQI_DGRAM_DROP_MALFORMED) > dropped);
    assert_int_equal(world.ends, 0);
}

static void test_repeated_packets(void **state)
{
    world.copies = 3;
    channel_open_called();
    for (unsigned i = 1; i < 8; i++) {
        say(MESSAGE, i * 500);
        assert_int_equal(world.messages, i);
    }
    assert_int_equal(world.calls, 1);
    say(END, 0);
    assert_int_equal(world.ends, 1);
}

static void test_its_end(void **state)
{
    channel_open_called();
    say_only(MESSAGE, sizeof(struct head), 9);
    say_only(END, sizeof(struct head), 9);
    world.rendezvous->happened = 0;
    (void)aqi_dgram_progress(world.peer, true, world.rendezvous->now);
    arrive();
    assert_true(world.channel->ended);
    assert_int_equal(write_to_peer(1), AQ_EPEER); /* although `closed` has not been called yet */
    assert_int_equal(world.ends, 0);
    run(20 * MS);
    assert_int_equal(world.rendezvous->happened, 3);
    assert_int_equal(world.messages, 1);
    assert_int_equal(world.ends, 1);
    assert_int_equal(world.end, AQ_EPEER);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OVER);
    assert_int_equal(write_to_peer(1), AQ_EPEER);
    assert_null(world.channel->first);
    say(MESSAGE, 1);
    say(END, 0);
    assert_int_equal(world.messages, 1);
    assert_int_equal(world.ends, 1);
    assert_false(udp_channel_done(world.channel));
    udp_channel_close(world.channel);
    run(20 * MS);
    assert_int_equal(world.heard[END], 0);
    assert_true(udp_channel_done(world.channel));
}

/* A call that ends without a message is not announced. */
static void test_end_of_a_call(void **state)
{
    uint64_t dropped = aqi_counter_sum(AQI_CTR_HELLO_DROPPED);
    channel_open(false);
    say(END, 0);
    assert_int_equal(world.calls + world.ends, 0);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OVER);
    assert_true(world.channel->closed);
    assert_int_equal(aqi_counter_sum(AQI_CTR_HELLO_DROPPED), dropped + 1);
    say(MESSAGE, 1);
    assert_int_equal(world.calls, 0);
}

static void test_refused_call(void **state)
{
    world.refuse = true;
    channel_open(false);
    say_only(MESSAGE, sizeof(struct head), 1);
    say_only(MESSAGE, sizeof(struct head), 1);
    run(20 * MS);
    assert_int_equal(world.calls, 1);
    assert_int_equal(world.messages, 0);
    assert_int_equal(world.heard[END], 1);
    say(END, 0);
    assert_int_equal(world.ends, 0);
    assert_true(udp_channel_done(world.channel));
}

/* --- strangers ------------------------------------------------------------------------------- */

/* Another random number of the listener, or another secret: the key differs. */
static void test_other_keys(void **state)
{
    static const struct udp_secret one = {{1}, true};
    channel_open(false);
    for (unsigned i = 0; i < 2; i++) {
        peer_open(i == 0 ? &world.rendezvous->secret : &one, i == 0 ? 'L' : 'l', 2);
        say(MESSAGE, 1);
        assert_int_equal(world.calls, 0);
    }
    peer_open(&world.rendezvous->secret, 'l', 3);
    say(MESSAGE, 1);
    assert_int_equal(world.calls, 1);
}

/* A message's packet is rejected if a byte is altered, or if it is truncated. */
static void test_altered_packets(void **state)
{
    static struct copy good;
    alignas(16) unsigned char bytes[PACKET];
    channel_open_called();
    say_only(MESSAGE, sizeof(struct head), 2);
    (void)aqi_dgram_progress(world.peer, true, world.rendezvous->now);
    assert_int_equal(world.flying, 1);
    good = world.wire[0];
    for (size_t i = 0; i < good.len; i++) {
        memcpy(bytes, good.bytes, good.len);
        udp_channel_input(world.channel, bytes, i);
        memcpy(bytes, good.bytes, good.len);
        bytes[i] ^= 1;
        udp_channel_input(world.channel, bytes, good.len);
        turn();
        assert_int_equal(world.messages + world.ends, 0);
    }
    memcpy(bytes, good.bytes, good.len);
    udp_channel_input(world.channel, bytes, good.len);
    assert_int_equal(world.messages, 1);
}

/* Another process has taken the address of the other side. */
static void test_another_process(void **state)
{
    channel_open_called();
    peer_open(&world.rendezvous->secret, 'l', 2);
    say(MESSAGE, 1);
    assert_int_equal(world.ends, 1);
    assert_int_equal(world.end, AQ_EPEER);
    assert_int_equal(world.messages, 0);
    udp_channel_close(world.channel);
    assert_true(udp_channel_done(world.channel)); /* there is no process to notify */
}

/* --- peers that are gone ---------------------------------------------------------------------- */

/* The network reports that the port is closed, `ns` after the last report. */
static void refuse_after(uint64_t ns)
{
    world.rendezvous->now += ns;
    world.refused = true;
    udp_channel_turn(world.channel);
}

static void test_refusals(void **state)
{
    channel_open_called();
    for (unsigned i = 1; i < REFUSALS; i++)
        refuse_after(APART * MS);
    refuse_after(APART * MS - 1); /* too soon to count */
    assert_int_equal(world.ends, 0);
    say(PING, 0); /* something arrives */
    for (unsigned i = 1; i < REFUSALS; i++)
        refuse_after(APART * MS);
    udp_channel_turn(world.channel);
    assert_int_equal(world.ends, 0);
    assert_false(udp_channel_done(world.channel));
    refuse_after(APART * MS);
    assert_int_equal(world.ends, 1);
    assert_int_equal(world.end, AQ_EPEER);
    refuse_after(APART * MS);
    assert_int_equal(world.ends, 1);
    assert_int_equal(write_to_peer(1), AQ_EPEER);
}

/* Something that arrives while the program makes no call counts, too. */
static void test_refusals_and_answers(void **state)
{
    channel_open_called();
    for (unsigned i = 1; i < REFUSALS; i++)
        refuse_after(APART * MS);
    world.answers = true;
    world.channel->owed = world.rendezvous->now;
    say(PING, 0);
    world.answers = false;
    assert_int_equal(world.channel->owed, 0);
    for (unsigned i = 1; i < REFUSALS; i++)
        refuse_after(APART * MS);
    assert_int_equal(world.ends, 0);
}

/* A packet like those of the other side, from a process that has all but the key. */
static void forge(bool answers)
{
    alignas(16) unsigned char bytes[PACKET];
    say_only(PING, sizeof(struct head), 0);
    (void)aqi_dgram_progress(world.peer, true, world.rendezvous->now);
    assert_int_equal(world.flying, 1);
    size_t len = world.wire[0].len;
    memcpy(bytes, world.wire[0].bytes, len);
    bytes[len - 1] ^= 1;
    world.flying = 0;
    (answers ? udp_channel_answer : udp_channel_input)(world.channel, bytes, len);
}

/* Any host can send a packet, so that is no sign of life. */
static void test_refusals_and_forged_packets(void **state)
{
    for (unsigned answers = 0; answers < 2; answers++) {
        channel_open_called();
        for (unsigned i = 1; i < REFUSALS; i++)
            refuse_after(APART * MS);
        forge(answers != 0);
        assert_int_equal(world.ends, 0);
        refuse_after(APART * MS);
        assert_int_equal(world.ends, 1);
        world.calls = world.ends = 0;
    }
}

static void test_silence_and_forged_packets(void **state)
{
    udp_config.keepalive_ns = 2 * SECOND;
    for (unsigned answers = 0; answers < 2; answers++) {
        channel_open_called();
        world.deaf = true;
        assert_int_equal(write_to_peer(1), AQ_OK);
        udp_channel_turn(world.channel);
        uint64_t since = world.rendezvous->now;
        assert_int_equal(world.channel->owed, since);
        world.rendezvous->now = since + SECOND;
        forge(answers != 0);
        udp_channel_turn(world.channel);
        assert_int_equal(world.channel->owed, since);
        world.rendezvous->now = since + 2 * SECOND + 1;
        udp_channel_turn(world.channel);
        assert_int_equal(world.ends, 1);
        world.calls = world.ends = 0;
        world.deaf = false;
    }
}

/* The other side is gone when it has owed an acknowledgement for longer than AQ_UDP_KEEPALIVE. */
static void test_silence(void **state)
{
    udp_config.keepalive_ns = 2 * SECOND;
    channel_open_called();
    world.deaf = true;
    assert_int_equal(write_to_peer(1), AQ_OK);
    udp_channel_turn(world.channel);
    uint64_t since = world.rendezvous->now;
    assert_int_equal(world.channel->owed, since);
    assert_int_equal(world.channel->due, aqi_dgram_deadline(world.channel->dgram));
    assert_in_range(world.channel->due, since + 1, world.channel->ping_at);
    world.rendezvous->now = since + 2 * SECOND;
    udp_channel_turn(world.channel);
    assert_int_equal(world.channel->owed, since);
    assert_int_equal(world.ends, 0);
    world.rendezvous->now++;
    udp_channel_turn(world.channel);
    assert_int_equal(world.ends, 1);
    assert_int_equal(world.end, AQ_EPEER);
}

static void test_silence_that_may_last(void **state)
{
    channel_open_called();
    world.deaf = true;
    assert_int_equal(write_to_peer(1), AQ_OK);
    run(100 * SECOND);
    assert_int_equal(world.ends, 0);
    world.deaf = false;
    run(SECOND);
    assert_int_equal(world.heard[MESSAGE], 1);
    udp_config.keepalive_ns = 2 * SECOND; /* it owes nothing now */
    run(100 * SECOND);
    assert_int_equal(world.ends, 0);
}

/* Without traffic it sends PINGs, often enough for AQ_UDP_KEEPALIVE. */
static void test_pings(void **state)
{
    static const uint64_t keepalives[] = {0, SECOND, PINGS * SECOND, 100 * SECOND};
    static const uint64_t pauses[] = {SECOND, SECOND / PINGS, SECOND, SECOND};
    channel_open(false);
    run(SECOND); /* a caller that has sent no message is not pinged */
    assert_int_equal(world.heard[PING], 0);
    for (unsigned i = 0; i < AQI_COUNT_OF(keepalives); i++) {
        udp_config.keepalive_ns = keepalives[i];
        say(MESSAGE, 1);
        world.rendezvous->now = world.channel->ping_at;
        udp_channel_turn(world.channel);
        assert_int_equal(world.channel->ping_at - world.rendezvous->now, pauses[i]);
        unsigned heard = world.heard[PING];
        run(20 * MS);
        assert_int_equal(world.heard[PING], heard + 1);
        assert_in_range(world.channel->due, world.rendezvous->now + 1, world.channel->ping_at);
        world.rendezvous->now = world.channel->ping_at - 1;
        udp_channel_turn(world.channel);
        run(MS / 10 - 1);
        assert_int_equal(world.heard[PING], heard + 1);
    }
}

/* A caller that sends no message for too long is dropped, and not announced. */
static void test_callers_that_say_nothing(void **state)
{
    channel_open(false);
    say(PING, 0);
    world.rendezvous->now = world.channel->until - 1;
    udp_channel_turn(world.channel);
    assert_int_equal(world.channel->state, UDP_CHANNEL_TAKEN);
    assert_int_equal(world.channel->due, world.channel->until);
    world.rendezvous->now++;
    udp_channel_turn(world.channel);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OVER);
    assert_true(udp_channel_done(world.channel));
    assert_int_equal(world.calls + world.ends, 0);
}

/* --- writing, and our end -------------------------------------------------------------------- */

static void test_messages_that_wait(void **state)
{
    channel_open_called();
    world.deaf = true;
    for (unsigned i = 0; i < WAITING; i++)
        assert_int_equal(write_to_peer(100), AQ_OK);
    assert_int_equal(write_to_peer(100), AQ_ELIMIT);
    udp_channel_close(world.channel); /* END is sent nevertheless */
    run(SECOND);
    world.deaf = false;
    run(5 * SECOND);
    assert_int_equal(world.heard[MESSAGE], WAITING);
    assert_int_equal(world.heard[END], 1);
}

/* A peer that makes no calls for a second has not acknowledged a PING when this process ends. */
static void test_message_beside_a_ping(void **state)
{
    channel_open_called();
    run(SECOND / 2);
    world.rendezvous->now = world.channel->ping_at;
    unsigned sent = world.to_peer;
    udp_channel_turn(world.channel);
    assert_true(world.to_peer > sent);
    sent = world.to_peer;
    assert_int_equal(write_to_peer(100), AQ_OK);
    udp_channel_flush(world.channel);
    assert_true(world.to_peer > sent);
    sent = world.to_peer;
    assert_int_equal(write_to_peer(100), AQ_OK); /* this one waits, to keep the order */
    udp_channel_flush(world.channel);
    assert_int_equal(world.to_peer, sent);
    run(SECOND);
    assert_int_equal(world.heard[MESSAGE], 2);
}

/* It is done when everything was sent and acknowledged, or after a time. */
static void test_farewell(void **state)
{
    channel_open_called();
    assert_false(udp_channel_done(world.channel));
    world.deaf = true;
    udp_channel_close(world.channel);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OPEN);
    uint64_t since = world.rendezvous->now;
    assert_int_equal(world.channel->until, since + LINGERS * SECOND);
    udp_channel_turn(world.channel);
    world.rendezvous->now = since + LINGERS * SECOND - 1;
    udp_channel_turn(world.channel);
    assert_false(udp_channel_done(world.channel));
    say(MESSAGE, 1); /* what arrives now is ignored */
    assert_int_equal(world.messages, 0);
    world.rendezvous->now = since + LINGERS * SECOND - 1;
    assert_false(udp_channel_done(world.channel));
    world.rendezvous->now++;
    assert_true(udp_channel_done(world.channel));
}

/* A process that ends waits for peers that answer, and for others no longer than packets are lost.
 */
static void test_leaving(void **state)
{
    for (unsigned closed = 0; closed < 2; closed++) {
        channel_open_called();
        run(SECOND / 2);
        world.deaf = true;
        if (closed != 0) udp_channel_close(world.channel);
        world.rendezvous->leaving = true;
        udp_channel_leave(world.channel);
        run(LEAVES * MS - 1 * MS);
        assert_false(udp_channel_done(world.channel));
        run(2 * MS);
        assert_true(udp_channel_done(world.channel));
        world.deaf = world.rendezvous->leaving = false;
        world.calls = 0;
    }
}

/* A PING that was not answered for two seconds will not be. */
static void test_leaving_a_silent_peer(void **state)
{
    for (unsigned seconds = 2; seconds <= 4; seconds += 2) {
        channel_open_called();
        run(SECOND / 2);
        world.deaf = true;
        run(seconds * SECOND);
        world.rendezvous->leaving = true;
        udp_channel_leave(world.channel);
        assert_int_equal(udp_channel_done(world.channel), seconds == 4);
        world.deaf = world.rendezvous->leaving = false;
        world.calls = 0;
    }
}

static void test_leaving_a_slow_peer(void **state)
{
    channel_open_called();
    run(SECOND / 2);
    world.deaf = true;
    for (unsigned i = 0; i < WAITING; i++)
        assert_int_equal(write_to_peer(100), AQ_OK);
    world.rendezvous->leaving = true;
    udp_channel_leave(world.channel);
    run(LEAVES * MS - 100 * MS);
    world.deaf = false; /* a packet at a time arrives */
    while (world.heard[MESSAGE] < 2)
        run(MS);
    world.deaf = true;
    run(LEAVES * MS - 100 * MS);
    assert_false(udp_channel_done(world.channel));
    world.deaf = false;
    run(SECOND);
    assert_int_equal(world.heard[MESSAGE], WAITING);
    assert_int_equal(world.heard[END], 1);
}

static void test_farewell_to_a_lost_peer(void **state)
{
    channel_open_called();
    world.deaf = true;
    udp_channel_close(world.channel);
    udp_channel_turn(world.channel);
    for (unsigned i = 0; i < REFUSALS; i++) {
        assert_false(udp_channel_done(world.channel));
        refuse_after(APART * MS);
    }
    assert_true(udp_channel_done(world.channel));
    assert_int_equal(world.ends, 0);
}

/* Any host can forge reports: fewer than end a channel do not end its farewell, at any time. */
static void test_farewell_and_forged_reports(void **state)
{
    for (unsigned before = 0; before < REFUSALS; before++) {
        channel_open_called();
        world.deaf = true; /* the first END is lost */
        for (unsigned i = 0; i < before; i++)
            refuse_after(APART * MS);
        udp_channel_close(world.channel);
        udp_channel_turn(world.channel);
        for (unsigned i = before + 1; i < REFUSALS; i++)
            refuse_after(APART * MS);
        assert_false(udp_channel_done(world.channel));
        world.deaf = false;
        run(SECOND);
        assert_int_equal(world.heard[END], before + 1);
        assert_true(udp_channel_done(world.channel));
        world.calls = 0;
    }
}

/* Messages that arrive while the program makes no call wait for its next one. */
static void test_parked(void **state)
{
    channel_open_called();
    world.answers = true;
    say(MESSAGE, 3);
    say(END, 0);
    assert_int_equal(world.messages + world.ends, 0);
    world.answers = false;
    udp_channel_turn(world.channel);
    assert_int_equal(world.messages, 1);
    assert_int_equal(world.ends, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_first_and_next),
        WORLD_TEST(test_at_a_caller),
        WORLD_TEST(test_short_heads),
        WORLD_TEST(test_kinds),
        WORLD_TEST(test_lengths),
        WORLD_TEST(test_repeated_packets),
        WORLD_TEST(test_its_end),
        WORLD_TEST(test_end_of_a_call),
        WORLD_TEST(test_refused_call),
        WORLD_TEST(test_other_keys),
        WORLD_TEST(test_altered_packets),
        WORLD_TEST(test_another_process),
        WORLD_TEST(test_refusals),
        WORLD_TEST(test_refusals_and_answers),
        WORLD_TEST(test_refusals_and_forged_packets),
        WORLD_TEST(test_silence),
        WORLD_TEST(test_silence_and_forged_packets),
        WORLD_TEST(test_silence_that_may_last),
        WORLD_TEST(test_pings),
        WORLD_TEST(test_callers_that_say_nothing),
        WORLD_TEST(test_messages_that_wait),
        WORLD_TEST(test_message_beside_a_ping),
        WORLD_TEST(test_farewell),
        WORLD_TEST(test_leaving),
        WORLD_TEST(test_leaving_a_silent_peer),
        WORLD_TEST(test_leaving_a_slow_peer),
        WORLD_TEST(test_farewell_to_a_lost_peer),
        WORLD_TEST(test_farewell_and_forged_reports),
        WORLD_TEST(test_parked),
    };
    if (mac_is_missing()) return 77;
    return cmocka_run_group_tests_name("transport/udp/udp_channel", tests, NULL, NULL);
}
