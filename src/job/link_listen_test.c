/*
 * The listener for other hosts: many callers, rejected ones, a system short of resources, its
 * ports, and the addresses that it offers.
 */
#include "job/link_world_test.h"

#include "base/log.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* --- a system that refuses something --------------------------------------------------------- */

static int refuse_accept; /* the error of the next accept4; 0: none */
static bool no_ipv6;      /* the system has no IPv6 */
static struct ifaddrs *interfaces;

/* These override those of the C library, for the whole program. */
int accept4(int fd, struct sockaddr *at, socklen_t *len, int flags)
{
    if (refuse_accept == 0) return (int)syscall(SYS_accept4, fd, at, len, flags);
    errno = refuse_accept;
    refuse_accept = 0;
    return -1;
}

int socket(int domain, int type, int protocol)
{
    if (!no_ipv6 || domain != AF_INET6) return (int)syscall(SYS_socket, domain, type, protocol);
    errno = EAFNOSUPPORT;
    return -1;
}

int getifaddrs(struct ifaddrs **list)
{
    int (*real)(struct ifaddrs **);
    *(void **)&real = dlsym(RTLD_NEXT, "getifaddrs");
    if (interfaces == NULL) return real(list);
    *list = interfaces;
    return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
    void (*real)(struct ifaddrs *);
    *(void **)&real = dlsym(RTLD_NEXT, "freeifaddrs");
    if (list != interfaces) real(list);
}

/* Send a few bytes like another program; it has been rejected when this returns. */
static void talk_nonsense(void)
{
    int fd = world_raw(hosts[0].port);
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    UNTIL(world_raw_ended(fd));
    UNTIL(world_strangers() == 0);
    close(fd);
}

/* --- callers --------------------------------------------------------------------------------- */

/* Strangers that call too soon after a report are counted in the next one. */
static void test_strangers_are_counted(void **state)
{
    world_open(0, 10 * SECONDS, 0);
    for (unsigned i = 0; i < 2; i++) {
        hosts[0].links->stranger_ns = aqi_now_ns() + 3600 * SECONDS;
        unsigned before = hosts[0].strangers;
        for (unsigned n = 0; n < 3; n++)
            talk_nonsense();
        assert_int_equal(hosts[0].strangers, before);
        hosts[0].links->stranger_ns = 0;
        talk_nonsense();
        assert_int_equal(hosts[0].strangers, before + 4);
    }
    /* None of them occupies a place or keeps this process busy. */
    uint64_t now = aqi_now_ns();
    assert_int_equal(hosts[0].links->doomed, 0);
    assert_true(aqi_links_tick(hosts[0].links, now) > now);
}

/* A crowd of callers is let in within a few rounds, but not all in one. */
static void test_crowd(void **state)
{
    enum { CALLERS = 60 };
    int fds[CALLERS];
    world_open(0, 10 * SECONDS, 10 * SECONDS);
    for (unsigned i = 0; i < CALLERS; i++)
        fds[i] = world_raw(hosts[0].port);
    unsigned rounds = 0, most = 0;
    for (unsigned count = 0; count < CALLERS; rounds++) {
        aqi_loop_once(0);
        most = (unsigned)aqi_max(most, world_strangers() - count);
        count = world_strangers();
        assert_true(rounds < CALLERS);
    }
    assert_in_range(rounds, 2, 8);
    assert_true(most < CALLERS / 2);
    for (unsigned i = 0; i < CALLERS; i++)
        close(fds[i]);
}

/* A program that was started without standard input: 0 is a descriptor like any other. */
static void test_descriptor_zero(void **state)
{
    int kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_true(kept >= 0);
    close(STDIN_FILENO);
    world_open(0, 10 * SECONDS, 0);
    assert_int_equal(hosts[0].links->listener.fd, STDIN_FILENO);
    aqi_links_close(hosts[0].links);
    assert_int_equal(fcntl(kept, F_DUPFD, 0), STDIN_FILENO);
    world_open_all(10 * SECONDS, 0);
    /* The next descriptor is the caller's, and after that the one of the accepted connection. */
    close(STDIN_FILENO);
    world_connect();
    assert_int_equal(hosts[1].link->source.fd, STDIN_FILENO);
    aqi_link_close(hosts[1].link, 0);
    UNTIL(hosts[0].ended == 1 && hosts[1].ended == 1);
    assert_int_equal(fcntl(kept, F_DUPFD, 0), STDIN_FILENO);
    int caller = world_raw(hosts[0].port);
    close(STDIN_FILENO);
    UNTIL(world_strangers() == 1);
    assert_int_equal(AQI_OF(hosts[0].links->all.prev, struct aqi_link, node)->source.fd,
                     STDIN_FILENO);
    struct pollfd said = {.fd = caller, .events = POLLIN};
    assert_int_equal(poll(&said, 1, 60000), 1);
    close(caller);
    UNTIL(world_strangers() == 0);
    assert_int_equal(fcntl(kept, F_DUPFD, 0), STDIN_FILENO);
    close(kept);
}

/* Whichever resource the system lacks, the listener pauses, reports it, and tries again. */
static void test_out_of_resources(void **state)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS};
    for (unsigned i = 0; i < AQI_COUNT_OF(errors); i++) {
        world_open(0, 10 * SECONDS, 10 * SECONDS);
        struct aqi_links *links = hosts[0].links;
        int fd = world_raw(hosts[0].port);
        refuse_accept = errors[i];
        for (unsigned n = 0; n < 100; n++)
            aqi_loop_once(0);
        assert_int_equal(world_strangers(), 0);
        assert_int_equal(hosts[0].strangers, 1);
        assert_non_null(strstr(hosts[0].stranger, "no file descriptor or memory"));
        uint64_t now = aqi_now_ns(), next = links->listen_ns;
        assert_in_range(next, 1, now + SECONDS);
        assert_in_range(aqi_links_tick(links, next - 1), next, next + 10 * MS);
        aqi_loop_once(0);
        assert_int_equal(world_strangers(), 0);
        aqi_links_tick(links, next);
        aqi_loop_once(0);
        assert_int_equal(world_strangers(), 1);
        /* From then on, it sleeps until something happens. */
        assert_true(aqi_links_tick(links, next + 1) >= now + 9 * SECONDS);
        close(fd);
        aqi_links_close(links);
        hosts[0].links = NULL;
    }
}

/* A connection that was broken before it was accepted does not keep out the next one. */
static void test_broken_before_accepted(void **state)
{
    world_open(0, 10 * SECONDS, 10 * SECONDS);
    int fd = world_raw(hosts[0].port);
    refuse_accept = ECONNABORTED;
    aqi_loop_once(0);
    assert_int_equal(world_strangers(), 1);
    assert_int_equal(hosts[0].strangers, 0);
    close(fd);
}

/* --- ports ----------------------------------------------------------------------------------- */

/* Which texts are valid ranges: since there are no descriptors, these fail for another reason. */
static void test_ranges(void **state)
{
    static const struct {
        const char *text;
        aq_status status;
    } rows[] = {
        {"", AQ_ESYS},          {"1", AQ_ESYS},        {"9", AQ_ESYS},
        {"65535", AQ_ESYS},     {"1-1", AQ_ESYS},      {"1-9", AQ_ESYS},
        {"9-10", AQ_ESYS},      {"1-65535", AQ_ESYS},  {"0900-0999", AQ_ESYS},
        {"0", AQ_ESETTING},     {"0-0", AQ_ESETTING},  {"0-9", AQ_ESETTING},
        {" 5", AQ_ESETTING},    {"+5", AQ_ESETTING},   {"/5", AQ_ESETTING},
        {":5", AQ_ESETTING},    {"5:", AQ_ESETTING},   {"5-", AQ_ESETTING},
        {"5-/6", AQ_ESETTING},  {"5-:6", AQ_ESETTING}, {"5-+6", AQ_ESETTING},
        {"5- 6", AQ_ESETTING},  {"5--6", AQ_ESETTING}, {"5+6", AQ_ESETTING},
        {"65536", AQ_ESETTING}, {"6-5", AQ_ESETTING},  {"1-65536", AQ_ESETTING},
        {"5-6-7", AQ_ESETTING}, {"5-6 ", AQ_ESETTING}, {"18446744073709551617", AQ_ESETTING},
    };
    struct rlimit limit, none;
    world_open(0, 10 * SECONDS, 0);
    struct aqi_links *links = hosts[0].links;
    aqi_source_close(&links->listener);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        aq_status status = aqi_links_listen(links, rows[i].text);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (status != rows[i].status) fail_msg("\"%s\": %d", rows[i].text, (int)status);
        if (status != AQ_ESYS) continue;
        char port_text[40];
        snprintf(port_text, sizeof(port_text), "(port %s)",
                 rows[i].text[0] != '\0' ? rows[i].text : "any");
        assert_non_null(strstr(aq_error_message(), port_text));
    }
}

/* --- addresses ------------------------------------------------------------------------------- */

enum { UP = IFF_UP | IFF_RUNNING, LO = UP | IFF_LOOPBACK };
static const struct {
    const char *name;
    unsigned flags;
    const char *address; /* NULL: none */
} known[] = {
    {"lo", LO, "127.0.0.1:9"},   {"lo", LO, "[::1]:9"},       {"down0", 0, "10.0.0.1:9"},
    {"none0", UP, NULL},         {"tun0", UP, "10.0.0.3:9"},  {"docker0", UP, "10.0.0.2:9"},
    {"eth0", UP, "[fe80::7]:9"}, {"eth0", UP, "[fd00::7]:9"}, {"eth0", UP, "10.0.0.7:9"},
    {"eth1", UP, "[fd00::8]:9"}, {"tun0", UP, "[fd00::3]:9"},
};
static struct ifaddrs entries[AQI_COUNT_OF(known)];
static union aqi_sockaddr addresses[AQI_COUNT_OF(known)];

/* The system has the interfaces of the table with these names. */
static void give_interfaces(const char *names)
{
    struct ifaddrs **last = &interfaces;
    for (unsigned i = 0; i < AQI_COUNT_OF(known); i++) {
        if (strstr(names, known[i].name) == NULL) continue;
        entries[i] = (struct ifaddrs){.ifa_name = (char *)(uintptr_t)known[i].name,
                                      .ifa_flags = known[i].flags};
        if (known[i].address != NULL) {
            assert_true(aqi_sockaddr_read(known[i].address, &addresses[i]));
            entries[i].ifa_addr = &addresses[i].any;
        }
        *last = &entries[i];
        last = &entries[i].ifa_next;
    }
}

/* The offer for this room, with ports as "P". */
static aq_status offer(struct host *host, size_t room, char *text)
{
    char port[16], *at;
    snprintf(port, sizeof(port), ":%u", host->port);
    memset(text, 'x', AQI_LINK_OFFER_BYTES);
    aq_status status = aqi_links_offer(host->links, text, room);
    assert_true(room == AQI_LINK_OFFER_BYTES || text[room] == 'x');
    while (status == AQ_OK && (at = strstr(text, port)) != NULL) {
        memcpy(at, ":P", 2);
        memmove(at + 2, at + strlen(port), strlen(at + strlen(port)) + 1);
    }
    interfaces = NULL;
    return status;
}

/* The best addresses come first; loopback only if there is nothing else. */
static void test_offers(void **state)
{
    static const struct {
        const char *names, *offered, *without_ipv6; /* NULL: nothing to offer */
    } rows[] = {
        {"lo eth0", "10.0.0.7:P,[fd00::7]:P", "10.0.0.7:P"},
        {"lo tun0 eth0 eth1", "10.0.0.7:P,[fd00::7]:P,[fd00::8]:P,10.0.0.3:P,[fd00::3]:P",
         "10.0.0.7:P,10.0.0.3:P"},
        {"lo tun0", "10.0.0.3:P,[fd00::3]:P", "10.0.0.3:P"},
        {"lo eth1", "[fd00::8]:P", "127.0.0.1:P"},
        {"lo down0 none0 docker0", "127.0.0.1:P", "127.0.0.1:P"},
        {"down0 none0 docker0", NULL, NULL},
        {"eth1", "[fd00::8]:P", NULL},
    };
    char text[AQI_LINK_OFFER_BYTES];
    for (unsigned six = 0; six < 2; six++) {
        no_ipv6 = six == 0;
        world_open(six, 10 * SECONDS, 0);
        no_ipv6 = false;
        if (hosts[six].links->only_v4 != (six == 0)) continue; /* this system has no IPv6 */
        for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
            const char *wanted = six == 0 ? rows[i].without_ipv6 : rows[i].offered;
            give_interfaces(rows[i].names);
            aq_status status = offer(&hosts[six], sizeof(text), text);
            assert_int_equal(status, wanted != NULL ? AQ_OK : AQ_ENOTSUP);
            if (wanted != NULL) assert_string_equal(text, wanted);
        }
    }
    /* Even without IPv6, it can be reached. */
    world_open(2, 10 * SECONDS, 0);
    world_call(2, 0, hosts[0].at, 30 * SECONDS);
    UNTIL(hosts[2].opened == 1 && hosts[0].opened == 1);
}

/* As many addresses as there is room for, without writing beyond it. */
static void test_room_for_offers(void **state)
{
    char text[AQI_LINK_OFFER_BYTES], port[16];
    no_ipv6 = true;
    world_open(0, 10 * SECONDS, 0);
    no_ipv6 = false;
    size_t len = (size_t)snprintf(port, sizeof(port), ":%u", hosts[0].port) + strlen("10.0.0.7");
    const struct {
        size_t room;
        const char *offered;
    } rows[] = {{1, NULL},
                {len, NULL},
                {len + 2, "10.0.0.7:P"},
                {2 * len + 1, "10.0.0.7:P"},
                {2 * len + 2, "10.0.0.7:P,10.0.0.3:P"},
                {3 * len, "10.0.0.7:P,10.0.0.3:P"}};
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        give_interfaces("eth0 tun0");
        aq_status status = offer(&hosts[0], rows[i].room, text);
        assert_int_equal(status, rows[i].offered != NULL ? AQ_OK : AQ_ENOTSUP);
        if (rows[i].offered != NULL) assert_string_equal(text, rows[i].offered);
    }
}

static void test_offer_before_listening(void **state)
{
    char text[AQI_LINK_OFFER_BYTES];
    world_open(0, 10 * SECONDS, 0);
    hosts[0].links->port = 0;
    assert_int_equal(aqi_links_offer(hosts[0].links, text, sizeof(text)), AQ_ESTATE);
}

int main(void)
{
    (void)aqi_log_configure("off");
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_strangers_are_counted),
        WORLD_TEST(test_crowd),
        WORLD_TEST(test_descriptor_zero),
        WORLD_TEST(test_out_of_resources),
        WORLD_TEST(test_broken_before_accepted),
        WORLD_TEST(test_ranges),
        WORLD_TEST(test_offers),
        WORLD_TEST(test_room_for_offers),
        WORLD_TEST(test_offer_before_listening),
    };
    return cmocka_run_group_tests(tests, world_group_setup, NULL);
}
