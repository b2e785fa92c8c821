/*
 * An open link: when data and keep-alives are sent, silence of the other side, and errors of the
 * kernel. The test sets the time of one side; the other one does not run.
 */
#include "job/link_world_test.h"

#include "base/log.h"

#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { BEAT_LEN = AQI_SEAL_HEAD + 4 + AQI_SEAL_TAG };

/* --- a kernel that refuses something --------------------------------------------------------- */

static int refuse_recv, refuse_send; /* the error of the next one; 0: none */
static _Atomic size_t sent;          /* bytes accepted; atomic, as other tests have threads */
static size_t room = SIZE_MAX;       /* bytes that the socket still accepts */
static bool trickle;                 /* it delivers byte by byte */

/* The thread sanitizer's versions, by which it learns that one thread waits for another. */
__attribute__((weak)) ssize_t __interceptor_recv(int fd, void *bytes, size_t len, int flags);
__attribute__((weak)) ssize_t __interceptor_sendmsg(int fd, const struct msghdr *message,
                                                    int flags);

static ssize_t real_recv(int fd, void *bytes, size_t len, int flags)
{
    if (__interceptor_recv != NULL) return __interceptor_recv(fd, bytes, len, flags);
    return syscall(SYS_recvfrom, fd, bytes, len, flags, NULL, NULL);
}

static ssize_t real_sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (__interceptor_sendmsg != NULL) return __interceptor_sendmsg(fd, message, flags);
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* These override those of the C library, for the whole program. */
ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
    if (refuse_recv == 0) return real_recv(fd, bytes, trickle ? aqi_min(len, 1) : len, flags);
    errno = refuse_recv;
    refuse_recv = 0;
    return -1;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (room == 0) refuse_send = EAGAIN;
    if (refuse_send == 0) {
        const struct iovec *first = message->msg_iov;
        ssize_t len = room == SIZE_MAX
                          ? real_sendmsg(fd, message, flags)
                          : send(fd, first->iov_base, aqi_min(first->iov_len, room), flags);
        sent += len > 0 ? (size_t)len : 0;
        if (room != SIZE_MAX) room -= len > 0 ? (size_t)len : 0;
        return len;
    }
    errno = refuse_send;
    refuse_send = 0;
    return -1;
}

/* Bytes that wait to be read by this host. */
static size_t waiting(unsigned host)
{
    int len = 0;
    assert_int_equal(ioctl(hosts[host].link->source.fd, FIONREAD, &len), 0);
    return (size_t)len;
}

/* Run only this host, at this time. Returns when it must run again. */
static uint64_t run_alone(unsigned host, uint64_t now)
{
    hosts[host].links->next_ns = 0; /* deadlines are not checked that often */
    return aqi_links_tick(hosts[host].links, now);
}

/* A link from host 1 to host 0, with nothing left to send on either side. */
static void connect_idle(uint64_t silence_ns, uint64_t other_silence_ns)
{
    world_open(0, other_silence_ns, 0);
    world_open(1, silence_ns, 0);
    world_connect();
    UNTIL(hosts[0].link->received_ns != 0 && hosts[1].link->received_ns != 0 && waiting(0) == 0 &&
          waiting(1) == 0 && hosts[0].link->beat_ns == hosts[1].link->beat_ns);
    sent = 0;
}

/* --- keep-alives ----------------------------------------------------------------------------- */

/* They are sent after a quarter of the shorter silence limit, not earlier. */
static void test_keep_alives(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        uint64_t short_limit = 80 * SECONDS, long_limit = 4000 * SECONDS, beat = short_limit / 4;
        connect_idle(i == 0 ? short_limit : long_limit, i == 0 ? long_limit : short_limit);
        uint64_t said = hosts[1].link->sent_ns, next;
        next = run_alone(1, said + beat - 1);
        assert_int_equal(sent, 0);
        assert_true(next <= said + beat + 10 * MS); /* deadlines are checked that often */
        next = run_alone(1, said + beat);
        assert_int_equal(sent, BEAT_LEN);
        /* It has just been sent. */
        assert_true(next > aqi_now_ns());
        run_alone(1, said + beat);
        assert_int_equal(sent, BEAT_LEN);
        world_send(hosts[1].link, "x", 1); /* serves as one */
        run_alone(1, aqi_now_ns());
        size_t len = sent;
        assert_int_equal(len, BEAT_LEN + AQI_SEAL_HEAD + 1 + AQI_SEAL_TAG);
        run_alone(1, aqi_now_ns() + beat / 2);
        assert_int_equal(sent, len);
        world_teardown(state), world_setup(state);
    }
}

/* None is sent while queued data cannot be sent, nor need the host run for it. */
static void test_no_keep_alive_behind_data(void **state)
{
    static uint8_t bytes[1 << 20];
    connect_idle(80 * SECONDS, 80 * SECONDS);
    struct aqi_link *link = hosts[1].link;
    for (unsigned i = 0; i < 64; i++)
        world_send(link, bytes, sizeof(bytes));
    size_t before;
    do {
        before = link->backlog;
        run_alone(1, aqi_now_ns());
    } while (link->backlog != before);
    assert_true(before > 0);
    uint64_t now = aqi_now_ns() + 30 * SECONDS, next = run_alone(1, now);
    assert_int_equal(link->backlog, before);
    assert_true(next > now + 10 * SECONDS);
}

/* Silence ends a link exactly when its time has expired; data that has arrived meanwhile counts. */
static void test_silence(void **state)
{
    const uint64_t silence = 80 * SECONDS;
    connect_idle(silence, silence);
    uint64_t heard = hosts[1].link->received_ns;
    assert_in_range(run_alone(1, heard + silence - 1), 1, heard + silence + 10 * MS);
    assert_int_equal(hosts[1].ended, 0);
    world_send(hosts[0].link, "x", 1);
    run_alone(0, aqi_now_ns());
    run_alone(1, heard + silence);
    assert_int_equal(hosts[1].ended, 0);
    assert_int_equal(hosts[1].frames, 1);
    heard = hosts[1].link->received_ns;
    aqi_links_ignore_silence(hosts[1].links, true);
    run_alone(1, heard + 2 * silence);
    assert_int_equal(hosts[1].ended, 0);
    aqi_links_ignore_silence(hosts[1].links, false);
    run_alone(1, heard + 3 * silence - 1);
    assert_int_equal(hosts[1].ended, 0);
    run_alone(1, heard + 3 * silence);
    assert_int_equal(hosts[1].ended, 1);
    assert_int_equal(hosts[1].status, AQ_ETIMEOUT);
    assert_non_null(strstr(hosts[1].why, "nothing was received for 80.0 s"));
}

/* The other side had ended when its silence was noticed: that is the reported reason. */
static void test_silent_since_it_ended(void **state)
{
    const uint64_t silence = 80 * SECONDS;
    connect_idle(silence, silence);
    assert_int_equal(shutdown(hosts[0].link->source.fd, SHUT_WR), 0);
    run_alone(1, hosts[1].link->received_ns + silence);
    assert_int_equal(hosts[1].ended, 1);
    assert_int_equal(hosts[1].status, AQ_EPEER);
    assert_non_null(strstr(hosts[1].why, "the connection was closed: the process there has ended"));
}

/* --- sending --------------------------------------------------------------------------------- */

/* Each byte of each frame arrives, also of frames of one byte and in pieces of one byte. */
static void test_short_frames(void **state)
{
    static const char text[] = "abc";
    const struct iovec pieces[] = {{(void *)(uintptr_t)text, 1},
                                   {NULL, 0},
                                   {(void *)(uintptr_t)(text + 1), 1},
                                   {(void *)(uintptr_t)(text + 2), 1}};
    connect_idle(80 * SECONDS, 80 * SECONDS);
    aqi_link_send(hosts[1].link, pieces, 4);
    world_send(hosts[1].link, "x", 1);
    UNTIL(hosts[0].frames == 2);
    uint64_t sum = AQI_HASH_SEED;
    sum = aqi_hash(aqi_hash(sum, 3), 'a');
    sum = aqi_hash(aqi_hash(sum, 1), 'x');
    assert_int_equal(hosts[0].bytes, 4);
    assert_true(hosts[0].sum == sum);
}

/* Frames arrive intact even if received byte by byte. */
static void test_byte_by_byte(void **state)
{
    connect_idle(80 * SECONDS, 80 * SECONDS);
    trickle = true;
    world_send(hosts[1].link, "one", 3);
    world_send(hosts[1].link, "two", 3);
    UNTIL(hosts[0].frames == 2 || hosts[0].ended != 0);
    trickle = false;
    assert_int_equal(hosts[0].ended, 0);
    assert_int_equal(hosts[0].bytes, 6);
}

/* One turn sends all that the socket takes, however many frames that is. */
static void test_turn(void **state)
{
    enum { FRAMES = 300 };
    connect_idle(80 * SECONDS, 80 * SECONDS);
    for (unsigned i = 0; i < FRAMES; i++)
        world_send(hosts[1].link, "x", 1);
    run_alone(1, aqi_now_ns());
    assert_int_equal(hosts[1].link->backlog, 0);
    assert_int_equal(sent, FRAMES * (AQI_SEAL_HEAD + 1 + AQI_SEAL_TAG));
    UNTIL(hosts[0].frames == FRAMES);
}

/* Data dropped with a link is not queued any longer. */
static void test_backlog(void **state)
{
    static uint8_t bytes[AQI_LINK_FRAME_MAX + 1];
    const size_t len = AQI_SEAL_HEAD + 1000 + AQI_SEAL_TAG;
    connect_idle(80 * SECONDS, 80 * SECONDS);
    for (unsigned n = 1; n <= 3; n++) {
        for (unsigned i = 0; i < n; i++)
            world_send(hosts[1].link, bytes, 1000);
        assert_int_equal(hosts[1].link->backlog, n * len);
        run_alone(1, aqi_now_ns());
        assert_int_equal(hosts[1].link->backlog, 0);
    }
    world_send(hosts[1].link, bytes, 1000);
    world_send(hosts[1].link, bytes, sizeof(bytes));
    assert_int_equal(hosts[1].link->backlog, 0);
    UNTIL(hosts[1].ended == 1);
    assert_int_equal(hosts[1].status, AQ_ESIZE);
}

/* The socket takes some of the frames, and a byte of the next one. */
static void test_partial(void **state)
{
    static uint8_t bytes[1000];
    const size_t len = AQI_SEAL_HEAD + sizeof(bytes) + AQI_SEAL_TAG;
    connect_idle(80 * SECONDS, 80 * SECONDS);
    for (unsigned i = 0; i < 12; i++)
        world_send(hosts[1].link, bytes, sizeof(bytes));
    room = 6 * len;
    run_alone(1, aqi_now_ns());
    assert_int_equal(hosts[1].link->backlog, 6 * len);
    room = 1;
    while (hosts[1].link->backlog == 6 * len)
        aqi_loop_once(aqi_now_ns() + 10 * MS);
    room = SIZE_MAX;
    assert_int_equal(hosts[1].link->backlog, 6 * len - 1);
}

/* --- closing --------------------------------------------------------------------------------- */

/* The close has the given time limit, or the usual one; closing again changes nothing. */
static void test_time_to_close(void **state)
{
    static const uint64_t given[] = {0, 1 * SECONDS, 20 * SECONDS};
    for (unsigned i = 0; i < AQI_COUNT_OF(given); i++) {
        connect_idle(80 * SECONDS, 80 * SECONDS);
        uint64_t limit = given[i] != 0 ? given[i] : AQI_LINK_CLOSE_NS, before = aqi_now_ns();
        aqi_link_close(hosts[1].link, given[i]);
        uint64_t after = aqi_now_ns();
        aqi_link_close(hosts[1].link, 1);
        run_alone(1, before + limit - 1);
        assert_int_equal(hosts[1].ended, 0);
        run_alone(1, after + limit);
        assert_int_equal(hosts[1].ended, 1);
        assert_true(run_alone(1, after + limit) > after + limit); /* nothing is left to do */
        assert_int_equal(hosts[1].status, AQ_ETIMEOUT);
        world_teardown(state), world_setup(state);
    }
}

/* The other side closes its direction, before or after it was asked to. */
static void test_half_closed(void **state)
{
    static const char *const why[] = {"the connection was closed: the process there has ended",
                                      "before it had received all data"};
    for (unsigned closing = 0; closing < 2; closing++) {
        connect_idle(80 * SECONDS, 80 * SECONDS);
        if (closing) aqi_link_close(hosts[1].link, 0);
        run_alone(1, aqi_now_ns());
        assert_int_equal(shutdown(hosts[0].link->source.fd, SHUT_WR), 0);
        hosts[0].link->source.ready = NULL;
        aqi_source_watch(&hosts[0].link->source, 0);
        while (hosts[1].ended == 0) {
            aqi_loop_once(aqi_now_ns() + 10 * MS);
            run_alone(1, aqi_now_ns());
        }
        assert_int_equal(hosts[1].status, AQ_EPEER);
        assert_non_null(strstr(hosts[1].why, why[closing]));
        world_teardown(state), world_setup(state);
    }
}

/* A stranger of another version receives ours, and then the end: it must not see a reset. */
static void test_stranger_sees_the_end(void **state)
{
    uint8_t said[64];
    size_t len = 0;
    ssize_t n;
    world_open(0, 80 * SECONDS, 0);
    int fd = world_raw(hosts[0].port);
    assert_int_equal(send(fd, "aqlink\3\0", 8, MSG_NOSIGNAL), 8);
    while ((n = recv(fd, said + len, sizeof(said) - len, MSG_DONTWAIT)) != 0) {
        assert_true(n > 0 || errno == EAGAIN);
        len += n > 0 ? (size_t)n : 0;
        world_round(aqi_now_ns() + 10 * MS);
    }
    assert_memory_equal(said, "aqlink\2\0", 8);
    close(fd);
}

/* --- errors of the kernel -------------------------------------------------------------------- */

/* Some errors of recv are ignored, others end the link with their reason. */
static void test_receive_errors(void **state)
{
    static const struct {
        int error;
        aq_status status; /* AQ_OK: the link does not end */
        const char *why;
    } rows[] = {{EAGAIN, AQ_OK, NULL},
                {EINTR, AQ_OK, NULL},
                {ECONNRESET, AQ_ESYS, "the connection was reset: "},
                {ETIMEDOUT, AQ_ESYS, "Connection timed out"},
                {EHOSTUNREACH, AQ_ESYS, "No route to host"}};
    for (unsigned closing = 0; closing < 2; closing++)
        for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
            connect_idle(80 * SECONDS, 80 * SECONDS);
            if (closing) aqi_link_close(hosts[1].link, 0);
            run_alone(1, aqi_now_ns());
            aqi_source_watch(&hosts[0].link->source, 0);
            world_send(hosts[0].link, "x", 1);
            run_alone(0, aqi_now_ns());
            refuse_recv = rows[i].error;
            aqi_source_watch(&hosts[0].link->source, 0);
            while (refuse_recv != 0)
                aqi_loop_once(aqi_now_ns() + 10 * MS);
            run_alone(1, aqi_now_ns());
            assert_int_equal(hosts[1].ended, rows[i].status != AQ_OK);
            assert_int_equal(hosts[1].status, rows[i].status);
            if (rows[i].why != NULL) assert_non_null(strstr(hosts[1].why, rows[i].why));
            assert_null(strstr(hosts[1].why, "unsent")); /* all was sent */
            world_teardown(state), world_setup(state);
        }
}

/* Likewise for errors of sendmsg, which also report the unsent bytes. */
static void test_send_errors(void **state)
{
    static const struct {
        int error;
        aq_status status;
        const char *why;
    } rows[] = {{EAGAIN, AQ_OK, NULL},
                {EINTR, AQ_OK, NULL},
                {EPIPE, AQ_EPEER, "the connection was reset: "},
                {ECONNRESET, AQ_ESYS, "the connection was reset: "},
                {ETIMEDOUT, AQ_ESYS, "Connection timed out"}};
    for (unsigned closing = 0; closing < 2; closing++)
        for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
            connect_idle(80 * SECONDS, 80 * SECONDS);
            world_send(hosts[1].link, "x", 1);
            if (closing) aqi_link_close(hosts[1].link, 0);
            refuse_send = rows[i].error;
            run_alone(1, aqi_now_ns());
            run_alone(1, aqi_now_ns());
            assert_int_equal(refuse_send, 0);
            assert_int_equal(hosts[1].ended, rows[i].status != AQ_OK);
            assert_int_equal(hosts[1].status, rows[i].status);
            if (rows[i].why != NULL) {
                assert_non_null(strstr(hosts[1].why, rows[i].why));
                assert_int_equal(strstr(hosts[1].why, "bytes unsent") != NULL, closing);
            } else {
                UNTIL(hosts[0].frames == 1);
            }
            world_teardown(state), world_setup(state);
        }
}

/* Frames that the other side had sent before it ended are delivered first, to the last byte. */
static void test_last_messages(void **state)
{
    connect_idle(80 * SECONDS, 80 * SECONDS);
    world_send(hosts[0].link, "one", 3);
    world_send(hosts[0].link, "two", 3);
    run_alone(0, aqi_now_ns());
    world_send(hosts[1].link, "x", 1);
    refuse_send = EPIPE;
    trickle = true;
    run_alone(1, aqi_now_ns());
    trickle = false;
    run_alone(1, aqi_now_ns());
    assert_int_equal(hosts[1].ended, 1);
    assert_int_equal(hosts[1].status, AQ_EPEER);
    assert_int_equal(hosts[1].frames, 2);
}

/* A caller whose connection breaks before it has proved itself is reported unless it sent
 * nothing. */
static void test_stranger_breaks(void **state)
{
    static const struct {
        const char *said;
        int error;
        unsigned reported;
    } rows[] = {{"", ECONNRESET, 0}, {"aqlink\2\0", ECONNRESET, 1}, {"", ETIMEDOUT, 1}};
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        world_open(0, 80 * SECONDS, 0);
        int fd = world_raw(hosts[0].port);
        size_t len = rows[i].said[0] != '\0' ? 7 : 0;
        if (len != 0) assert_int_equal(send(fd, rows[i].said, len, MSG_NOSIGNAL), len);
        struct aqi_node *all = &hosts[0].links->all;
        UNTIL(hosts[0].links->strangers == 1 &&
              AQI_OF(all->next, struct aqi_link, node)->seal.held_len == len);
        assert_int_equal(send(fd, "", 1, MSG_NOSIGNAL), 1);
        refuse_recv = rows[i].error;
        UNTIL(aqi_list_is_empty(all));
        assert_int_equal(hosts[0].strangers, rows[i].reported);
        close(fd);
        world_teardown(state), world_setup(state);
    }
}

int main(void)
{
    (void)aqi_log_configure("off");
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_keep_alives),    WORLD_TEST(test_no_keep_alive_behind_data),
        WORLD_TEST(test_silence),        WORLD_TEST(test_silent_since_it_ended),
        WORLD_TEST(test_partial),        WORLD_TEST(test_short_frames),
        WORLD_TEST(test_byte_by_byte),   WORLD_TEST(test_turn),
        WORLD_TEST(test_backlog),        WORLD_TEST(test_time_to_close),
        WORLD_TEST(test_half_closed),    WORLD_TEST(test_stranger_sees_the_end),
        WORLD_TEST(test_receive_errors), WORLD_TEST(test_send_errors),
        WORLD_TEST(test_last_messages),  WORLD_TEST(test_stranger_breaks),
    };
    return cmocka_run_group_tests(tests, world_group_setup, NULL);
}
