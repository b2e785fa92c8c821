/* Links between hosts in normal operation: opening, sending, silence, closing, and errors. */
#include "job/link_world_test.h"

#include "base/log.h"
#include "base/resident_test.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { MANY = 1000, AT_ONCE = 32 };

static void test_talk(void **state)
{
    static const size_t sizes[] = {0, 1, 100, 65536, AQI_LINK_FRAME_MAX, 3};
    static uint8_t bytes[AQI_LINK_FRAME_MAX];
    uint64_t sum = AQI_HASH_SEED;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 31 + i / 256);
    world_open_all(10 * SECONDS, 0);
    world_connect();
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hosts[i].call.from, 1);
        assert_int_equal(hosts[i].call.to, 0);
        assert_int_equal(hosts[i].call.want, 7);
    }
    assert_non_null(strstr(hosts[0].link->name, "host 1 (127.0.0.1:"));
    assert_non_null(strstr(hosts[1].link->name, "host 0 (127.0.0.1:"));
    hosts[0].echo = true;
    for (unsigned i = 0; i < AQI_COUNT_OF(sizes); i++) {
        /* In pieces, which make up one frame. */
        size_t third = sizes[i] / 3;
        const struct iovec pieces[] = {{bytes, third}, {bytes + third, sizes[i] - third}};
        aqi_link_send(hosts[1].link, pieces, 2);
        sum = world_sum(sum, bytes, sizes[i]);
    }
    assert_true(hosts[1].link->backlog > AQI_LINK_FRAME_MAX);
    UNTIL(hosts[1].frames == AQI_COUNT_OF(sizes));
    assert_true(hosts[0].sum == sum && hosts[1].sum == sum);
    assert_int_equal(hosts[1].link->backlog, 0);
    aqi_link_close(hosts[1].link, 0);
    UNTIL(hosts[0].ended == 1 && hosts[1].ended == 1);
    assert_int_equal(hosts[0].status, AQ_OK);
    assert_int_equal(hosts[1].status, AQ_OK);
    assert_int_equal(aqi_links_count(hosts[0].links), 0);
}

/*
 * In both directions, so that no data is lost if a path silently drops packets that its interfaces
 * carry.
 */
static void test_packets_are_short(void **state)
{
    static uint8_t bytes[65536];
    world_open_all(10 * SECONDS, 0);
    world_connect();
    hosts[0].echo = true;
    world_send(hosts[1].link, bytes, sizeof(bytes));
    UNTIL(hosts[1].frames == 1);
    for (unsigned i = 0; i < 2; i++) {
        struct tcp_info info = {.tcpi_snd_mss = 0};
        socklen_t len = sizeof(info);
        int fd = hosts[i].link->source.fd;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
        assert_in_range(info.tcpi_snd_mss, 400, 536);
    }
}

/* Everything sent before the close arrives before the end does. Both close at once. */
static void test_close_delivers(void **state)
{
    static uint8_t bytes[65536];
    for (unsigned both = 0; both < 2; both++) {
        world_open_all(10 * SECONDS, 0);
        world_connect();
        for (unsigned i = 0; i < 200; i++)
            world_send(hosts[1].link, bytes, sizeof(bytes));
        aqi_link_close(hosts[1].link, 20 * SECONDS);
        world_send(hosts[1].link, bytes, 1); /* too late */
        if (both) aqi_link_close(hosts[0].link, 20 * SECONDS);
        UNTIL(hosts[0].ended == 1 && hosts[1].ended == 1);
        assert_int_equal(hosts[0].frames, both ? 0 : 200);
        assert_int_equal(hosts[0].status, AQ_OK);
        assert_int_equal(hosts[1].status, AQ_OK);
        for (unsigned i = 0; both == 0 && i < HOSTS; i++)
            aqi_links_close(hosts[i].links);
    }
}

static void ignore(struct aqi_source *source)
{
}

/*
 * The first host reads nothing from now on, and the sockets have little room. Merely not watching
 * for input would not do: the link watches again after each of its own frames.
 */
static struct aqi_source stop_reading(void)
{
    const int few = 64 << 10;
    struct aqi_source *reader = &hosts[0].link->source;
    const struct aqi_source before = *reader;
    assert_int_equal(setsockopt(reader->fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few)), 0);
    assert_int_equal(setsockopt(hosts[1].link->source.fd, SOL_SOCKET, SO_SNDBUF, &few, sizeof(few)),
                     0);
    reader->ready = ignore;
    return before;
}

/* A peer does not read: the close has a time limit, and reports the unsent data. */
static void test_close_is_bounded(void **state)
{
    static uint8_t bytes[AQI_LINK_FRAME_MAX];
    world_open_all(10 * SECONDS, 0);
    world_connect();
    (void)stop_reading();
    for (unsigned i = 0; i < 16; i++)
        world_send(hosts[1].link, bytes, sizeof(bytes));
    uint64_t began = aqi_now_ns();
    aqi_link_close(hosts[1].link, 100 * MS);
    UNTIL(hosts[1].ended == 1);
    assert_true(aqi_now_ns() - began >= 100 * MS);
    assert_int_equal(hosts[1].status, AQ_ETIMEOUT);
    assert_non_null(strstr(hosts[1].why, "did not receive"));
}

/* Data that the other side does not read waits here. */
static void test_backlog(void **state)
{
    static uint8_t bytes[65536];
    unsigned sent = 0;
    world_open_all(10 * SECONDS, 0);
    world_connect();
    struct aqi_source *reader = &hosts[0].link->source;
    const struct aqi_source before = stop_reading();
    while (hosts[1].link->backlog < 1u << 20) {
        world_send(hosts[1].link, bytes, sizeof(bytes));
        sent++;
        world_round(0);
    }
    world_run(50 * MS);
    assert_true(hosts[1].link->backlog >= 1u << 19);
    reader->ready = before.ready;
    UNTIL(hosts[0].frames == sent);
    UNTIL(hosts[1].link->backlog == 0);
}

static void test_too_large(void **state)
{
    uint8_t *bytes = calloc(1, AQI_LINK_FRAME_MAX + 1);
    world_open_all(10 * SECONDS, 0);
    world_connect();
    world_send(hosts[1].link, bytes, AQI_LINK_FRAME_MAX + 1);
    UNTIL(hosts[1].ended == 1 && hosts[0].ended == 1);
    assert_int_equal(hosts[1].status, AQ_ESIZE);
    assert_int_equal(hosts[0].status, AQ_ESYS);
    free(bytes);
}

/* The hook of one end dooms another link, which is freed in the same round. */
static void test_end_ends_another(void **state)
{
    world_open_all(10 * SECONDS, 0);
    world_connect();
    world_call(2, 0, hosts[0].at, 30 * SECONDS);
    UNTIL(hosts[0].opened == 2);
    hosts[0].spoil = hosts[0].link;
    aqi_link_close(hosts[1].link, 0);
    UNTIL(hosts[0].ended == 2 && hosts[1].ended == 1 && hosts[2].ended == 1);
    assert_int_equal(hosts[0].status, AQ_ESIZE);
    assert_int_equal(aqi_links_count(hosts[0].links), 0);
}

/* Data that is queued when a link ends is sent at once, not at the next deadline. */
static void test_queued_at_the_end(void **state)
{
    world_open_all(10 * SECONDS, 0);
    world_connect();
    world_call(2, 0, hosts[0].at, 30 * SECONDS);
    UNTIL(hosts[0].opened == 2);
    struct aqi_links *links = hosts[0].links;
    assert_int_equal(aqi_links_count(links), 2);
    hosts[0].tell = AQI_OF(links->all.next, struct aqi_link, node);
    aqi_links_close(hosts[2].links);
    hosts[2].links = NULL;
    while (links->doomed == 0)
        aqi_loop_once(aqi_now_ns() + SECONDS);
    assert_int_equal(aqi_links_tick(links, world_ns), world_ns);
    assert_int_equal(hosts[0].ended, 1);
    UNTIL(hosts[1].frames == 1);
}

/* A host that sends no data for a while is alive as long as its process is. */
static void test_idle(void **state)
{
    world_open_all(200 * MS, 0);
    world_connect();
    world_run(1 * SECONDS);
    assert_int_equal(hosts[0].ended + hosts[1].ended, 0);
    assert_int_equal(hosts[0].frames + hosts[1].frames, 0);
}

/* Another process: calls host 0 as host 1 and waits for the end, with its own timeout. */
static pid_t fork_caller(uint16_t port, uint64_t silence_ns)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0) return pid;
    int epoll;
    alarm(60);
    if (aqi_loop_open(world_failed, &epoll) != AQ_OK) _exit(2);
    memset(hosts, 0, sizeof(hosts));
    world_open(1, silence_ns, 0);
    snprintf(hosts[0].at, sizeof(hosts[0].at), "127.0.0.1:%u", port);
    world_call(1, 0, hosts[0].at, 30 * SECONDS);
    while (hosts[1].ended == 0)
        world_round(UINT64_MAX);
    _exit(hosts[1].status == AQ_ESYS && strstr(hosts[1].why, "reset") != NULL ? 0 : 1);
}

static void test_stopped(void **state)
{
    int status;
    world_open(0, 300 * MS, 0);
    pid_t pid = fork_caller(hosts[0].port, 30 * SECONDS);
    UNTIL(hosts[0].link != NULL);
    /*
     * If we were busy ourselves, silence of others proves nothing: data that arrived meanwhile
     * counts.
     */
    struct pollfd beat = {.fd = hosts[0].link->source.fd, .events = POLLIN};
    assert_int_equal(poll(&beat, 1, 60000), 1);
    uint64_t began = aqi_now_ns();
    aqi_links_tick(hosts[0].links, began + 600 * MS);
    assert_int_equal(hosts[0].ended, 0);

    kill(pid, SIGSTOP);
    UNTIL(hosts[0].ended == 1);
    assert_true(aqi_now_ns() - began >= 300 * MS);
    assert_int_equal(hosts[0].status, AQ_ETIMEOUT);
    assert_non_null(strstr(hosts[0].why, "nothing was received for 0."));
    assert_non_null(strstr(hosts[0].why, "AQ_HOST_TIMEOUT"));
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_killed(void **state)
{
    world_open(0, 30 * SECONDS, 0);
    pid_t pid = fork_caller(hosts[0].port, 30 * SECONDS);
    UNTIL(hosts[0].link != NULL);
    kill(pid, SIGKILL);
    uint64_t began = aqi_now_ns();
    UNTIL(hosts[0].ended == 1);
    assert_true(aqi_now_ns() - began < 10 * SECONDS);
    /* The unread data makes it a reset. */
    assert_true(hosts[0].status == AQ_EPEER || hosts[0].status == AQ_ESYS);
    assert_non_null(strstr(hosts[0].why, "has ended"));
    waitpid(pid, NULL, 0);
}

static bool queue_is_full(int listener)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    assert_int_equal(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_unacked > info.tcpi_sacked; /* of a listener: its queue, and the maximum */
}

/* A listener with a full queue does not answer, like a host behind a firewall. */
static void fill_queue(int listener, uint16_t port, int *fds, unsigned count)
{
    const struct sockaddr_in at = world_local(port);
    for (unsigned i = 0; i < count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(fds[i], (const struct sockaddr *)&at, sizeof(at)) != 0)
            assert_int_equal(errno, EINPROGRESS);
    }
    for (uint64_t limit = aqi_now_ns() + 60 * SECONDS; !queue_is_full(listener); world_run(MS))
        assert_true(aqi_now_ns() < limit);
}

/* How long an address that did not answer was waited for, according to the report. */
static double time_waited(const char *why, uint16_t port)
{
    char part[64];
    snprintf(part, sizeof(part), "cannot be reached at 127.0.0.1:%u: no answer within ", port);
    const char *at = strstr(why, part);
    assert_non_null(at);
    return strtod(at + strlen(part), NULL);
}

static void test_unreachable(void **state)
{
    int queue[8];
    uint16_t silent, closed;
    char list[128], part[64];
    world_open_all(10 * SECONDS, 0);
    int full = world_raw_listener(0, &silent);
    int refusing = world_raw_port(&closed);
    fill_queue(full, silent, queue, 8);

    snprintf(list, sizeof(list), "127.0.0.1:%u,127.0.0.1:%u", silent, closed);
    uint64_t began = aqi_now_ns();
    world_call(1, 0, list, 600 * MS);
    UNTIL(hosts[1].ended == 1);
    assert_true(aqi_now_ns() - began >= 600 * MS);
    assert_int_equal(hosts[1].status, AQ_ETIMEOUT);
    assert_non_null(strstr(hosts[1].why, "host 0: cannot be reached at "));
    assert_true(time_waited(hosts[1].why, silent) > 0.59);
    assert_non_null(strstr(hosts[1].why, "AQ_CONTROL_PORTS"));
    snprintf(part, sizeof(part), "; 127.0.0.1:%u: refused", closed);
    assert_non_null(strstr(hosts[1].why, part));

    /* If one answers, the others do not matter and cost little time. */
    snprintf(list, sizeof(list), "127.0.0.1:%u,127.0.0.1:%u,%s", silent, closed, hosts[0].at);
    began = aqi_now_ns();
    world_call(1, 0, list, 30 * SECONDS);
    UNTIL(hosts[1].link != NULL && hosts[0].link != NULL);
    assert_true(aqi_now_ns() - began < 10 * SECONDS);

    /* If all refuse, there is no wait: with the lead for each it would take four seconds. */
    char refuse[AQI_LINK_CANDIDATES * 32] = "", many[sizeof(refuse) + 64];
    for (unsigned i = 0; i < AQI_LINK_CANDIDATES; i++) {
        size_t len = strlen(refuse);
        snprintf(refuse + len, sizeof(refuse) - len, "%s127.0.0.1:%u", i != 0 ? "," : "", closed);
    }
    began = aqi_now_ns();
    world_call(2, 0, refuse, 30 * SECONDS);
    UNTIL(hosts[2].ended == 1);
    assert_true(aqi_now_ns() - began < 3 * SECONDS);
    assert_int_equal(hosts[2].status, AQ_EREFUSED);

    /* If a host has more addresses than are tried, the first ones are used. */
    snprintf(many, sizeof(many), "%s,%s", hosts[0].at, refuse);
    world_call(2, 0, many, 30 * SECONDS);
    UNTIL(hosts[2].link != NULL);
    for (unsigned i = 0; i < 8; i++)
        close(queue[i]);
    close(full);
    close(refusing);
}

static void test_wrong_address(void **state)
{
    char list[128];
    world_open_all(10 * SECONDS, 0);
    /* Another host of the job is there; the next address is the right one. */
    snprintf(list, sizeof(list), "%s,%s", hosts[2].at, hosts[0].at);
    world_call(1, 0, list, 30 * SECONDS);
    UNTIL(hosts[0].link != NULL && hosts[1].link != NULL);
    assert_int_equal(hosts[2].opened, 0);
    aqi_link_close(hosts[1].link, 0);
    UNTIL(hosts[1].ended == 1);

    world_call(1, 0, hosts[2].at, 30 * SECONDS);
    UNTIL(hosts[1].ended == 2);
    assert_int_equal(hosts[1].status, AQ_EMISMATCH);
    assert_non_null(strstr(hosts[1].why, "it is host 2 of this job, not host 0"));
}

static void test_bad_calls(void **state)
{
    static const char *const lists[] = {"", ",", "10.0.0.7", "10.0.0.7:1,", "name:1"};
    const struct aqi_seal_call call = {1, 0, 0};
    struct aqi_link *link;
    world_open_all(10 * SECONDS, 0);
    for (unsigned i = 0; i < AQI_COUNT_OF(lists); i++) {
        assert_int_equal(aqi_link_connect(hosts[1].links, lists[i], &call, SECONDS, NULL, &link),
                         AQ_EINVAL);
        assert_non_null(strstr(aq_error_message(), "is not a list of addresses of a host"));
    }
    assert_int_equal(aqi_links_count(hosts[1].links), 0);
    /* A call that is no longer wanted. */
    aqi_link_close(world_call(1, 0, hosts[0].at, SECONDS), 0);
    UNTIL(hosts[1].ended == 1);
    assert_int_equal(hosts[1].status, AQ_OK);
}

static void test_ports(void **state)
{
    static const char *const bad[] = {"x",     "1-",    "-1",    "0",       "0-5", "5-4",
                                      "1-2-3", "70000", "4000 ", "1-70000", "1,2"};
    char range[32], own[64];
    uint16_t taken = 0;
    world_open_all(10 * SECONDS, 0);
    struct aqi_links *links = hosts[1].links;
    aqi_source_close(&links->listener);
    for (unsigned i = 0; i < AQI_COUNT_OF(bad); i++) {
        assert_int_equal(aqi_links_listen(links, bad[i]), AQ_ESETTING);
        assert_non_null(strstr(aq_error_message(), "such as 40000-40099"));
    }
    /* A port that is in use is skipped. */
    do {
        aqi_links_close(hosts[0].links);
        world_open(0, 10 * SECONDS, 0);
        taken = hosts[0].port;
    } while (taken > UINT16_MAX - 50);
    snprintf(range, sizeof(range), "%u", taken);
    assert_int_equal(aqi_links_listen(links, range), AQ_ELIMIT);
    assert_non_null(strstr(aq_error_message(), "are in use"));
    snprintf(range, sizeof(range), "%u-%u", taken, taken + 50);
    assert_int_equal(aqi_links_listen(links, range), AQ_OK);
    assert_in_range(links->port, taken + 1, taken + 50);
    snprintf(own, sizeof(own), "127.0.0.1:%u", links->port);
    world_call(2, 1, own, 30 * SECONDS);
    UNTIL(hosts[1].link != NULL);
}

/* A host that gets the addresses that we offer can reach us. */
static void test_offer(void **state)
{
    char text[AQI_LINK_OFFER_BYTES], small[12] = "";
    world_open_all(10 * SECONDS, 0);
    assert_int_equal(aqi_links_offer(hosts[0].links, text, sizeof(text)), AQ_OK);
    print_message("offered: %s\n", text);
    world_call(1, 0, text, 30 * SECONDS);
    UNTIL(hosts[0].link != NULL && hosts[1].link != NULL);
    assert_int_equal(aqi_links_offer(hosts[0].links, small, sizeof(small)), AQ_ENOTSUP);
}

/* Over IPv6, if available. */
static void test_ipv6(void **state)
{
    char at[64];
    world_open_all(10 * SECONDS, 0);
    snprintf(at, sizeof(at), "[::1]:%u", hosts[0].port);
    world_call(1, 0, at, 30 * SECONDS);
    UNTIL(hosts[1].link != NULL || hosts[1].ended == 1);
    if (hosts[1].ended == 0)
        assert_non_null(strstr(hosts[1].link->name, "([::1]:"));
    else
        print_message("no IPv6: %s\n", hosts[1].why);
}

/*
 * Many hosts call one listener: all get through, although few may be unauthenticated at a time, and
 * all their frames arrive.
 */
static void test_many(void **state)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    unsigned many = (unsigned)aqi_min(MANY, limit.rlim_cur / 2 - 50);
    world_open_all(10 * SECONDS, 0);
    size_t before = resident();
    uint64_t began = aqi_now_ns();
    for (unsigned i = 0; i < many; i++) {
        world_call(1, 0, hosts[0].at, 30 * SECONDS);
        UNTIL(hosts[1].opened + AT_ONCE > i);
    }
    UNTIL(hosts[0].opened == many && hosts[1].opened == many);
    uint64_t took = aqi_now_ns() - began;
    print_message("%u links in %.1f ms, %.0f us each, both ends in one process; %zu bytes resident "
                  "for each end (struct %zu)\n",
                  many, (double)took / 1e6, (double)took / 1e3 / many,
                  (resident() - before) / many / 2, sizeof(struct aqi_link));
    hosts[0].echo = true;
    const struct aqi_node *all = &hosts[1].links->all;
    for (struct aqi_node *at = all->next; at != all; at = at->next)
        world_send(AQI_OF(at, struct aqi_link, node), "hello", 5);
    UNTIL(hosts[1].frames == many);
    for (struct aqi_node *at = all->next; at != all; at = at->next)
        aqi_link_close(AQI_OF(at, struct aqi_link, node), 20 * SECONDS);
    UNTIL(hosts[0].ended == many && hosts[1].ended == many);
    assert_int_equal(hosts[0].status, AQ_OK);
    assert_int_equal(hosts[0].strangers, 0);
}

static void test_speed(void **state)
{
    static uint8_t bytes[65536];
    enum { FRAMES = 400, TURNS = 400, WAITING = 4 << 20 };
    world_open_all(10 * SECONDS, 0);
    uint64_t began = aqi_now_ns();
    for (unsigned i = 0; i < 100; i++) {
        world_call(1, 0, hosts[0].at, 30 * SECONDS);
        UNTIL(hosts[1].opened == i + 1 && hosts[0].opened == i + 1);
    }
    double us = (double)(aqi_now_ns() - began) / 1e5;
    began = aqi_now_ns();
    for (unsigned i = 0; i < FRAMES; i++) {
        world_send(hosts[1].link, bytes, sizeof(bytes));
        UNTIL(hosts[1].link->backlog < WAITING);
    }
    UNTIL(hosts[0].frames == FRAMES);
    double seconds = (double)(aqi_now_ns() - began) / 1e9;
    hosts[0].echo = true;
    began = aqi_now_ns();
    for (unsigned i = 0; i < TURNS; i++) {
        world_send(hosts[1].link, bytes, 64);
        UNTIL(hosts[1].frames == i + 1);
    }
    print_message("one after the other, both ends in one thread: %.0f us to open a link; 64 KB "
                  "frames %.0f MB/s; there and back %.1f us\n",
                  us, FRAMES * 65536 / seconds / 1e6, (double)(aqi_now_ns() - began) / 1e3 / TURNS);
}

int main(void)
{
    (void)aqi_log_configure("off");
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_many),
        WORLD_TEST(test_talk),
        WORLD_TEST(test_packets_are_short),
        WORLD_TEST(test_close_delivers),
        WORLD_TEST(test_close_is_bounded),
        WORLD_TEST(test_backlog),
        WORLD_TEST(test_too_large),
        WORLD_TEST(test_end_ends_another),
        WORLD_TEST(test_queued_at_the_end),
        WORLD_TEST(test_idle),
        WORLD_TEST(test_stopped),
        WORLD_TEST(test_killed),
        WORLD_TEST(test_unreachable),
        WORLD_TEST(test_wrong_address),
        WORLD_TEST(test_bad_calls),
        WORLD_TEST(test_ports),
        WORLD_TEST(test_offer),
        WORLD_TEST(test_ipv6),

        WORLD_TEST(test_speed),
    };
    return cmocka_run_group_tests(tests, world_group_setup, NULL);
}
