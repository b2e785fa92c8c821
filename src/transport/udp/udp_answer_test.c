/*
 * The thread that answers while the program makes no call, at a rendezvous whose progress the tests
 * call only to see what the thread has left. The other side is the rendezvous of the world.
 */
#include "transport/udp/udp_rendezvous_world_test.h"

#include "base/clock.h"

#include <sys/wait.h>

static struct {
    struct aqi_rendezvous *rendezvous;
    struct aqi_listener *listener;
    char uri[AQI_URI_MAX];
    union aqi_sockaddr at;
} busy;

static void busy_listen(void)
{
    unsigned port;
    assert_int_equal(udp_rendezvous.listen(busy.rendezvous, "udp://127.0.0.1:0", &world,
                                           &busy.listener, busy.uri),
                     AQ_OK);
    assert_int_equal(sscanf(busy.uri, "udp://127.0.0.1:%u", &port), 1);
    busy.at = world.at;
    busy.at.v4.sin_port = htons((in_port_t)port);
}

static int busy_setup(void **state)
{
    const struct aqi_rendezvous_hooks hooks = {
        .call = world_call, .message = world_message, .closed = world_closed};
    (void)world_setup(state);
    memset(&busy, 0, sizeof(busy));
    assert_int_equal(udp_rendezvous.open(&hooks, &busy.rendezvous), AQ_OK);
    assert_true(busy.rendezvous->answer.running);
    return 0;
}

static int busy_teardown(void **state)
{
    if (busy.rendezvous != NULL) {
        udp_answer_close(busy.rendezvous);
        while (busy.rendezvous->channels != NULL)
            udp_channel_free(busy.rendezvous->channels);
        udp_rendezvous.close(busy.rendezvous);
    }
    return world_teardown(state);
}

/* Make the thread look at once, not in a second. */
static void nudge(void)
{
    udp_rendezvous_lock(busy.rendezvous);
    pthread_cond_signal(&busy.rendezvous->answer.changed);
    udp_rendezvous_unlock(busy.rendezvous);
}

#define BUSY_TEST(test) cmocka_unit_test_setup_teardown(test, busy_setup, busy_teardown)

/* --- at a listener --------------------------------------------------------------------------- */

static void ask(int fd, enum udp_call_kind kind, struct udp_call *call)
{
    seal(kind, call);
    assert_int_equal(send(fd, call, sizeof(*call), 0), sizeof(*call));
}

static struct udp_call answer_to(int fd)
{
    struct udp_call answer;
    await(fd);
    assert_int_equal(recv(fd, &answer, sizeof(answer), MSG_TRUNC), sizeof(answer));
    assert_true(udp_call_read(world.rendezvous->macs.proofs, &answer, sizeof(answer), &answer));
    return answer;
}

static struct udp_call answered(int fd, enum udp_call_kind kind, struct udp_call *call)
{
    ask(fd, kind, call);
    nudge();
    return answer_to(fd);
}

static int stranger_at_busy(void)
{
    int fd = stranger("127.0.0.1");
    assert_int_equal(connect(fd, &busy.at.any, sizeof(busy.at.v4)), 0);
    return fd;
}

/* A caller learns that the listener is alive; the program learns of the caller only by its own
 * call. */
static void test_calls(void **state)
{
    struct udp_call call = {.caller = {1}};
    busy_listen(); /* which wakes a thread that has nothing to do */
    int fd = stranger_at_busy();
    struct udp_call cookie = answered(fd, UDP_CALL_KNOCK, &call);
    assert_int_equal(cookie.kind, UDP_CALL_COOKIE);
    memcpy(call.cookie, cookie.cookie, UDP_CALL_BYTES);
    ask(fd, UDP_CALL_CALL, &call); /* for which it looks by itself */
    assert_int_equal(answer_to(fd).kind, UDP_CALL_TAKEN);
    udp_rendezvous_lock(busy.rendezvous);
    struct aqi_control_channel *channel = busy.rendezvous->channels;
    assert_non_null(channel);
    assert_int_equal(channel->state, UDP_CHANNEL_TAKEN);
    udp_rendezvous_unlock(busy.rendezvous);
    assert_int_equal(world.calls, 0);
    close(fd);
}

/* --- on a channel ---------------------------------------------------------------------------- */

static void busy_call(void)
{
    assert_int_equal(connect_to(busy.uri), AQ_OK);
}

/* Let the caller make progress until `done`. */
static void go_on(bool (*done)(void), bool nudged)
{
    struct pollfd caller = {.fd = world.rendezvous->epoll, .events = POLLIN};
    uint64_t until = aqi_now_ns() + TIMEOUT_MS * 1000000ull;
    while (!done()) {
        assert_true(aqi_now_ns() < until);
        if (nudged) nudge();
        (void)poll(&caller, 1, 1);
        (void)udp_rendezvous.progress(world.rendezvous);
    }
}

static bool has_parked(void)
{
    udp_rendezvous_lock(busy.rendezvous);
    const struct aqi_control_channel *channel = busy.rendezvous->channels;
    bool parked = channel != NULL && channel->dgram != NULL && aqi_dgram_parked(channel->dgram);
    udp_rendezvous_unlock(busy.rendezvous);
    return parked;
}

static bool is_announced(void)
{
    (void)udp_rendezvous.progress(busy.rendezvous);
    return world.calls != 0;
}

static uint64_t heard_before;

static bool is_heard(void)
{
    return aqi_dgram_heard(world.channel->dgram) > heard_before;
}

/* The message waits for the program, whose wait ends because of it. */
static void test_messages(void **state)
{
    struct pollfd wakes;
    busy_listen();
    wakes = (struct pollfd){.fd = udp_rendezvous.wait_fd(busy.rendezvous), .events = POLLIN};
    busy_call();
    go_on(has_parked, true);
    assert_int_equal(world.calls, 0);
    assert_int_equal(busy.rendezvous->channels->state, UDP_CHANNEL_TAKEN);
    assert_int_equal(poll(&wakes, 1, TIMEOUT_MS), 1);
    go_on(is_announced, true);
    assert_int_equal(world.calls, 1);
    assert_int_equal(busy.rendezvous->channels->state, UDP_CHANNEL_OPEN);
    assert_int_equal(world.ends, 0);
}

/* A caller that asks for signs of life gets them. */
static void test_signs_of_life(void **state)
{
    busy_listen();
    busy_call();
    go_on(has_parked, true);
    for (unsigned i = 0; i < 3; i++) {
        heard_before = aqi_dgram_heard(world.channel->dgram);
        go_on(is_heard, true);
    }
    assert_int_equal(world.calls + world.ends, 0);
}

/* The answer of a listener to a call of ours waits for the program. */
static void test_call_of_ours(void **state)
{
    const struct aqi_handshake message = {.bytes = "message", .len = 7};
    struct aqi_control_channel *channel;
    struct udp_call call, knock = {.caller = {1}};
    union aqi_sockaddr at, from;
    socklen_t len = sizeof(from);
    char uri[64];
    int fd = stranger_at("127.0.0.1", &at);
    snprintf(uri, sizeof(uri), "udp://127.0.0.1:%u", ntohs(at.v4.sin_port));
    assert_int_equal(udp_rendezvous.connect(busy.rendezvous, uri, &message, &world, &channel),
                     AQ_OK);
    await(fd);
    assert_int_equal(recvfrom(fd, &call, sizeof(call), 0, &from.any, &len), sizeof(call));
    seal(UDP_CALL_DENIED, &call);
    assert_int_equal(sendto(fd, &call, sizeof(call), 0, &from.any, len), sizeof(call));
    await(channel->end.fd);
    busy_listen();
    int caller = stranger_at_busy();
    for (unsigned i = 0; i < 2; i++) /* the second answer comes after a look at the channel */
        assert_int_equal(answered(caller, UDP_CALL_KNOCK, &knock).kind, UDP_CALL_COOKIE);
    assert_int_equal(channel->state, UDP_CHANNEL_CALLS);
    assert_int_equal(world.ends, 0);
    while (world.ends == 0)
        (void)udp_rendezvous.progress(busy.rendezvous);
    assert_int_equal(world.end, AQ_EACCESS);
    close(caller), close(fd);
}

/* A program that does not listen, but has called another. */
static void test_caller(void **state)
{
    const struct aqi_handshake message = {.bytes = "message", .len = 7};
    struct aqi_control_channel *channel;
    char uri[64];
    snprintf(uri, sizeof(uri), "udp://127.0.0.1:%u", ntohs(world.at.v4.sin_port));
    assert_int_equal(udp_rendezvous.connect(busy.rendezvous, uri, &message, &world, &channel),
                     AQ_OK);
    go_on(is_announced, false);
    struct aqi_control_channel *back = world.rendezvous->channels;
    assert_int_equal(udp_rendezvous.send(back, &message), AQ_OK);
    assert_true(world.rendezvous->timer_at <= back->due); /* it is sent without another event */
    go_on(has_parked, false);
    assert_int_equal(world.messages + world.ends, 0);
    udp_rendezvous.close_channel(back); /* the other side must be notified */
    assert_ptr_equal(world.rendezvous->channels, back);
}

/* --- looks without the thread ---------------------------------------------------------------- */

static bool has_packet(void)
{
    struct pollfd end = {.fd = busy.rendezvous->channels->end.fd, .events = POLLIN};
    return poll(&end, 1, 0) == 1;
}

static bool looks_and_has_parked(void)
{
    (void)udp_answer_look(busy.rendezvous);
    return has_parked();
}

/* A look returns whether something had arrived, at a listener or on a channel. */
static void test_looks(void **state)
{
    struct udp_call call = {.caller = {1}};
    busy_listen();
    udp_answer_close(busy.rendezvous);
    assert_false(udp_answer_look(busy.rendezvous));
    int fd = stranger_at_busy();
    ask(fd, UDP_CALL_KNOCK, &call);
    await(((struct udp_end *)busy.listener)->fd);
    assert_true(udp_answer_look(busy.rendezvous));
    assert_false(udp_answer_look(busy.rendezvous));
    busy_call();
    go_on(looks_and_has_parked, false);
    while (udp_answer_look(busy.rendezvous))
        continue;
    for (unsigned i = 0; i < 2; i++) {
        go_on(has_packet, false); /* the message is retransmitted, as it was not acknowledged */
        assert_true(udp_answer_look(busy.rendezvous));
        assert_false(udp_answer_look(busy.rendezvous));
    }
    close(fd);
}

static void test_pauses(void **state)
{
    const uint64_t ms = 1000000, often = 10 * ms, rarely = 1000 * ms;
    static const struct {
        uint64_t keepalive_ms, pause_ms;
    } rows[] = {{0, 1000},  {1, 10},      {80, 10},     {88, 11},
                {800, 100}, {8000, 1000}, {8008, 1000}, {86400000, 1000}};
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        udp_config.keepalive_ns = rows[i].keepalive_ms * ms;
        uint64_t most = rows[i].pause_ms * ms;
        assert_int_equal(udp_answer_pause(rarely, false), most);
        assert_int_equal(udp_answer_pause(rarely, true), often);
        assert_int_equal(udp_answer_pause(often / 2, false), often);
        assert_int_equal(udp_answer_pause(most / 2 - 1, false), most / 2 * 2 - 2);
    }
}

/* --- beginning and ending -------------------------------------------------------------------- */

/* The thread ends, whether it has something to watch or not. */
static void test_ends(void **state)
{
    udp_rendezvous.close(busy.rendezvous);
    busy.rendezvous = NULL;
    (void)world_teardown(state);
    (void)busy_setup(state);
    busy_listen();
    udp_answer_close(busy.rendezvous);
    assert_true(busy.rendezvous->answer.stop);
    assert_false(busy.rendezvous->answer.running);
    busy.rendezvous->answer.stop = false;
    udp_answer_close(busy.rendezvous);
    assert_false(busy.rendezvous->answer.stop); /* it no longer existed */
}

/* A forked child has no such thread, and does not wait for it. */
static void test_child(void **state)
{
    int status;
    busy_listen();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        udp_answer_close(busy.rendezvous);
        _exit(busy.rendezvous->answer.running || busy.rendezvous->answer.stop);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct udp_call call = {.caller = {1}};
    int fd = stranger_at_busy();
    assert_int_equal(answered(fd, UDP_CALL_KNOCK, &call).kind, UDP_CALL_COOKIE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUSY_TEST(test_calls),
        BUSY_TEST(test_messages),
        BUSY_TEST(test_signs_of_life),
        BUSY_TEST(test_call_of_ours),
        BUSY_TEST(test_caller),
        BUSY_TEST(test_looks),
        cmocka_unit_test_setup_teardown(test_pauses, world_setup, world_teardown),
        BUSY_TEST(test_ends),
        BUSY_TEST(test_child),
    };
    if (mac_is_missing()) return 77;
    return cmocka_run_group_tests_name("transport/udp/udp_answer", tests, NULL, NULL);
}
