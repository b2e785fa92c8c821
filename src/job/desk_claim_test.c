/* Tests desk.c: processes that connect by themselves, some of them strangers. */
#include "job/desk_world_test.h"

#include <sys/resource.h>

static void open_listener(void)
{
    open_world();
    world.at = (struct sockaddr_un){.sun_family = AF_UNIX};
    socklen_t len = sizeof(sa_family_t); /* the kernel picks a name */
    world.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(world.listener >= 0);
    assert_int_equal(bind(world.listener, (struct sockaddr *)&world.at, len), 0);
    len = sizeof(world.at);
    assert_int_equal(getsockname(world.listener, (struct sockaddr *)&world.at, &len), 0);
    assert_int_equal(listen(world.listener, 128), 0);
    assert_int_equal(aqi_desk_listen(world.listener, secret), AQ_OK);
}

static int call(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 6); /* of autobind */
    assert_int_equal(connect(fd, (struct sockaddr *)&world.at, len), 0);
    return fd;
}

static int claim(uint32_t rank, uint8_t key, int pass)
{
    struct aqi_control message = {.type = AQI_CONTROL_CLAIM, .rank = rank};
    int fd = call();
    memcpy(message.key, secret, sizeof(secret));
    message.key[0] = key;
    assert_int_equal(aqi_channel_send(fd, &message, pass), AQ_OK);
    turns();
    return fd;
}

static bool is_closed(int fd)
{
    struct aqi_control message;
    int passed;
    return hear(fd, &message, &passed) == AQ_EPEER;
}

static void places_are_claimed(void **state)
{
    int page, theirs, own;
    open_listener();
    expect_refusal(claim(0, secret[0], -1), AQ_EMISMATCH, "rank 0 does not belong to this host");
    expect_refusal(claim(RANKS, secret[0], -1), AQ_EMISMATCH, "rank 4 does not belong");
    expect_refusal(claim(UINT32_MAX, secret[0], -1), AQ_EMISMATCH, "does not belong");
    assert_int_equal(aqi_desk_claimed(), 0);
    own = own_socket(&theirs);
    int fd = claim(FIRST, secret[0], theirs); /* the descriptor is closed */
    close(theirs);
    assert_true(is_closed(own));
    expect_job(fd, FIRST, &page);
    close(page);
    assert_int_equal(aqi_desk_claimed(), 1);
    assert_int_equal(aqi_hub_pid(world.hub, 0), getpid());
    expect_refusal(claim(FIRST, secret[0], -1), AQ_ESTATE, "place in the job is taken");
    assert_int_equal(aqi_desk_claimed(), 1);
    int other = claim(RANKS - 1, secret[0], -1);
    expect_job(other, RANKS - 1, &page);
    assert_int_equal(aqi_desk_claimed(), 2);
    close(page);
    close(own);
    close(fd);
    close(other);
    turns();
    close_world();
}

/* Regardless of their length and contents. */
static void claims_of_other_versions_are_rejected(void **state)
{
    uint8_t bytes[AQI_CONTROL_MAX] = {(uint8_t)(aqi_wire_version(AQI_WIRE_CONTROL) + 1)};
    const uint16_t type = AQI_CONTROL_CLAIM;
    static const size_t lengths[] = {4, 5, 24, 100, sizeof(bytes)};
    open_listener();
    memcpy(bytes + 2, &type, sizeof(type));
    for (size_t i = 0; i < AQI_COUNT_OF(lengths); i++) {
        int fd = call();
        assert_int_equal(send(fd, bytes, lengths[i], 0), lengths[i]);
        turns();
        expect_refusal(fd, AQ_EPROTO,
                       "of the format \"control\", the agent of its host uses version");
    }
    assert_int_equal(aqi_desk_claimed(), 0);
    close_world();
}

/* If no descriptor is free, the listener does not spin, and accepts the call later. */
static void without_descriptors_calls_wait(void **state)
{
    struct rlimit all, none;
    struct aqi_control message = {.type = AQI_CONTROL_CLAIM, .rank = FIRST};
    open_listener();
    int fd = call(), page;
    memcpy(message.key, secret, sizeof(secret));
    assert_int_equal(aqi_channel_send(fd, &message, -1), AQ_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    none = all;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    unsigned rounds = 0;
    for (uint64_t until = aqi_now_ns() + 300000000; aqi_now_ns() < until; rounds++)
        aqi_loop_once(until);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
    assert_true(rounds < 50);
    assert_int_equal(aqi_desk_claimed(), 0);
    uint64_t limit = aqi_now_ns() + 10000000000;
    while (aqi_desk_claimed() == 0 && aqi_now_ns() < limit)
        aqi_loop_once(aqi_now_ns() + 10000000);
    expect_job(fd, FIRST, &page);
    close(page);
    close(fd);
    turns();
    close_world();
}

static void strangers_claim_nothing(void **state)
{
    static const uint8_t zeros[8];
    const struct aqi_control hi = {.type = AQI_CONTROL_HELLO};
    open_listener();
    int fd = claim(FIRST, (uint8_t)(secret[0] + 1), -1);
    assert_true(is_closed(fd));
    close(fd);
    fd = call();
    assert_int_equal(send(fd, zeros, sizeof(zeros), 0), sizeof(zeros));
    turns();
    assert_true(is_closed(fd));
    close(fd);
    fd = call();
    assert_int_equal(aqi_channel_send(fd, &hi, -1), AQ_OK);
    turns();
    assert_true(is_closed(fd));
    close(fd);
    assert_int_equal(aqi_desk_claimed(), 0);
    /* This many may be silent; the next is not accepted until one of them is gone. */
    int fds[STRANGERS + 1];
    for (unsigned i = 0; i <= STRANGERS; i++) {
        fds[i] = call();
        turn();
    }
    turns();
    for (unsigned i = 0; i < STRANGERS; i++)
        assert_false(is_closed(fds[i]));
    assert_true(is_closed(fds[STRANGERS]));
    close(fds[STRANGERS]);
    close(fds[STRANGERS / 2]);
    turns();
    fds[STRANGERS / 2] = claim(FIRST, secret[0], -1);
    int page;
    expect_job(fds[STRANGERS / 2], FIRST, &page);
    close(page);
    for (unsigned i = 0; i < STRANGERS; i++)
        close(fds[i]);
    close_world();
}

/* Another user may call, and is not let in even with the secret. */
static void another_user_claims_nothing(void **state)
{
    enum { ANOTHER = 65534 };
    if (geteuid() != 0) {
        print_message("skipped: only root can become another user\n");
        skip();
    }
    open_listener();
    assert_int_equal(seteuid(ANOTHER), 0);
    int fd = call();
    assert_int_equal(seteuid(0), 0);
    turns();
    assert_true(is_closed(fd));
    close(fd);
    assert_int_equal(aqi_desk_claimed(), 0);
    close_world();
}

/* One that left has ended when its socket is closed. */
static void leaving_a_claimed_place(void **state)
{
    const struct aqi_control bye = {.type = AQI_CONTROL_BYE};
    int page;
    open_listener();
    int fd = claim(FIRST, secret[0], -1);
    expect_job(fd, FIRST, &page);
    close(page);
    unsigned before = descriptors();
    assert_int_equal(aqi_channel_send(fd, &bye, -1), AQ_OK);
    turns();
    assert_int_equal(descriptors(), before);
    close(fd);
    turns();
    /* Its control socket and the descriptors that showed its end are closed. */
    assert_int_equal(descriptors(), before - 3);
    /* Its number may be that of another process now. */
    void (*handler)(int) = signal(SIGURG, on_signal);
    aqi_desk_kill(NULL, FIRST, SIGURG);
    signal(SIGURG, handler);
    assert_int_equal(signals, 0);
    close_world();
}

/* A process that has claimed a place ends when it exits, not when it closes its socket. */
static void losing_a_claimed_place(void **state)
{
    int go[2], gone[2];
    char byte = 0;
    open_listener();
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(gone, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct aqi_control message = {.type = AQI_CONTROL_CLAIM, .rank = SECOND};
        memcpy(message.key, secret, sizeof(secret));
        int fd = call();
        close(go[1]);
        if (aqi_channel_send(fd, &message, -1) != AQ_OK) _exit(1);
        if (read(go[0], &byte, 1) != 1) _exit(1);
        close(fd);
        (void)!write(gone[1], &byte, 1);
        pause(); /* until it is killed */
    }
    while (aqi_desk_claimed() == 0)
        aqi_loop_once(aqi_now_ns() + 1000000);
    assert_int_equal(aqi_hub_pid(world.hub, 1), pid);
    assert_int_equal(aqi_hub_state(world.hub, SECOND), AQI_RANK_JOINED);
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(read(gone[0], &byte, 1), 1);
    turns();
    assert_false(aqi_hub_ending(world.hub));
    aqi_desk_kill(NULL, SECOND, SIGTERM);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGTERM);
    turns();
    assert_true(aqi_hub_ending(world.hub));
    assert_non_null(strstr(world.text, ") ended before aq_finalize; ending the job"));
    for (unsigned i = 0; i < 2; i++) {
        close(go[i]);
        close(gone[i]);
    }
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_claimed),
        cmocka_unit_test(claims_of_other_versions_are_rejected),
        cmocka_unit_test(without_descriptors_calls_wait),
        cmocka_unit_test(strangers_claim_nothing),
        cmocka_unit_test(another_user_claims_nothing),
        cmocka_unit_test(leaving_a_claimed_place),
        cmocka_unit_test(losing_a_claimed_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
