/* Datagrams of groups between the ends of a pair of interfaces, in a network namespace, with IPv4
 * and IPv6; and the messages if anything is missing. */
#include "dgram/ports/multicast.h"

#include "dgram/ports/namespace_test.h"
#include "dgram/ports/port_test.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static struct capture capture;

static union aqi_sockaddr group_at(const char *text)
{
    union aqi_sockaddr at;
    assert_true(aqi_sockaddr_read(text, &at));
    return at;
}

static aq_status try_open(struct ports_multicast *multicast, const char *group,
                          const char *interface, bool sends, bool receives)
{
    const union aqi_sockaddr at = group_at(group);
    const struct ports_multicast_params params = {.group = &at,
                                                  .interface = interface,
                                                  .buffer = 1 << 18,
                                                  .hops = 3,
                                                  .sends = sends,
                                                  .receives = receives};
    return ports_multicast_open(multicast, &params);
}

static void assert_says(const char *group, const char *interface, aq_status status,
                        const char *what)
{
    struct ports_multicast multicast;
    capture_start(&capture);
    aq_status is = try_open(&multicast, group, interface, true, true);
    const char *text = capture_end(&capture);
    ports_multicast_close(&multicast);
    assert_int_equal(is, status);
    if (strstr(text, what) == NULL) fail_msg("\"%s\" does not say \"%s\"", text, what);
}

/* The pair net7 and net8 of one host: what leaves by one also arrives at the other. */
static int set_up(void **state)
{
    (void)does("sysctl -qw %s", "net.ipv6.conf.default.accept_dad=0"); /* it takes time */
    assert_ip("link set lo up");
    assert_ip("link add net7 type veth peer name net8");
    assert_ip("address add 10.7.0.1/24 dev net7");
    assert_ip("address add fd07::1/64 dev net7 nodad");
    assert_ip("address add 10.8.0.1/24 dev net8");
    assert_ip("link set net7 up");
    assert_ip("link set net8 up");
    for (unsigned i = 0; i < 10000 && !ip("-6 address show dev net7 scope link -tentative | "
                                          "grep -q inet6");
         i++)
        (void)poll(NULL, 0, 1);
    return 0;
}

static int take_down(void **state)
{
    assert_ip("link del net7");
    assert_ip("link set lo down");
    return 0;
}

static void assert_sent(const struct ports_multicast *from, const char *text)
{
    const struct iovec iov[] = {{(void *)(uintptr_t)text, 1},
                                {(void *)(uintptr_t)(text + 1), strlen(text) - 1}};
    assert_int_equal(ports_multicast_send(from, iov, 2), AQ_OK);
}

static void assert_got(const struct ports_multicast *by, const char *text)
{
    char buf[100];
    size_t len = 0;
    struct pollfd at = {.fd = by->in, .events = POLLIN};
    assert_int_equal(poll(&at, 1, 10000), 1);
    assert_int_equal(ports_multicast_receive(by, buf, sizeof(buf), &len), AQ_OK);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(buf, text, len);
}

static void assert_nothing(const struct ports_multicast *by)
{
    char buf[100];
    size_t len;
    assert_int_equal(ports_multicast_receive(by, buf, sizeof(buf), &len), AQ_AGAIN);
}

/* Several members of a host get each datagram once, others none. */
static void members_get_it(const char *group, const char *other_group, const char *other_port)
{
    struct ports_multicast out, in[2], elsewhere[3];
    assert_int_equal(try_open(&out, group, "net7", true, false), AQ_OK);
    assert_int_equal(try_open(&in[0], group, "net7", false, true), AQ_OK);
    assert_int_equal(try_open(&in[1], group, "net7", true, true), AQ_OK);
    assert_int_equal(try_open(&elsewhere[0], group, "lo", false, true), AQ_OK);
    assert_int_equal(try_open(&elsewhere[1], other_group, "net7", false, true), AQ_OK);
    assert_int_equal(try_open(&elsewhere[2], other_port, "net7", false, true), AQ_OK);
    assert_int_equal(out.in, -1);
    assert_int_equal(in[0].out, -1);
    assert_true(out.packet >= 1400);
    assert_sent(&out, "one");
    assert_sent(&in[1], "two");
    for (unsigned i = 0; i < 2; i++) {
        assert_got(&in[i], "one");
        assert_got(&in[i], "two");
        assert_nothing(&in[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_nothing(&elsewhere[i]);
        ports_multicast_close(&elsewhere[i]);
    }
    ports_multicast_close(&out);
    ports_multicast_close(&in[0]);
    ports_multicast_close(&in[1]);
}

static void over_ipv4(void **state)
{
    members_get_it("239.255.1.1:4000", "239.255.1.2:4000", "239.255.1.1:4001");
}

static void over_ipv6(void **state)
{
    assert_ip("-6 route add ff00::/8 dev lo table local"); /* lo has none by default */
    members_get_it("[ff02::1234]:4000", "[ff02::1235]:4000", "[ff02::1234]:4001");
    assert_ip("-6 route del ff00::/8 dev lo table local");
}

/* A member receives what arrives at its interface, not what leaves by another. */
static void the_other_end_gets_it(void **state)
{
    struct ports_multicast out, in;
    int hops = 0;
    socklen_t len = sizeof(hops);
    assert_ip("link set net8 up");
    if (!does("sysctl -qw %s", "net.ipv4.conf.all.rp_filter=0 "
                               "net.ipv4.conf.net8.rp_filter=0 "
                               "net.ipv4.conf.net8.accept_local=1"))
        skip();
    assert_int_equal(try_open(&out, "239.255.1.1:4000", "10.7.0.1", true, false), AQ_OK);
    assert_int_equal(try_open(&in, "239.255.1.1:4000", "net8", false, true), AQ_OK);
    assert_int_equal(getsockopt(out.out, IPPROTO_IP, IP_MULTICAST_TTL, &hops, &len), 0);
    assert_int_equal(hops, 3);
    assert_sent(&out, "over");
    assert_got(&in, "over");
    assert_nothing(&in);
    ports_multicast_close(&out);
    ports_multicast_close(&in);
}

/* Datagrams that exceed the buffer are lost, and counted. */
static void a_full_buffer(void **state)
{
    static char bytes[1000];
    struct ports_multicast out, in;
    char buf[sizeof(bytes)];
    size_t len;
    const struct iovec iov = {bytes, sizeof(bytes)};
    unsigned sent = 0, got = 0;
    assert_int_equal(try_open(&out, "239.255.1.1:4000", "net7", true, false), AQ_OK);
    assert_int_equal(try_open(&in, "239.255.1.1:4000", "net7", false, true), AQ_OK);
    assert_int_equal(ports_multicast_drops(&in), 0);
    for (aq_status st = AQ_OK; sent < 3000; sent += st == AQ_OK) {
        st = ports_multicast_send(&out, &iov, 1);
        assert_true(st == AQ_OK || st == AQ_AGAIN);
    }
    while (ports_multicast_receive(&in, buf, sizeof(buf), &len) == AQ_OK)
        got++;
    assert_true(got >= 50);
    assert_true(ports_multicast_drops(&in) > 0 && got + ports_multicast_drops(&in) <= sent);
    assert_int_equal(ports_multicast_drops(&out), 0);
    ports_multicast_close(&out);
    ports_multicast_close(&in);
}

static void the_route_decides(void **state)
{
    struct ports_multicast out;
    assert_says("239.255.1.1:4000", NULL, AQ_EINVAL, "no interface leads to host \"239.255.1.1\"");
    assert_ip("route add 239.0.0.0/8 dev net8");
    assert_int_equal(try_open(&out, "239.255.1.1:4000", NULL, true, false), AQ_OK);
    assert_string_equal(out.interface.name, "net8");
    ports_multicast_close(&out);
}

static void what_is_missing_is_said(void **state)
{
    assert_says("10.7.0.1:4000", "net7", AQ_EINVAL, "10.7.0.1:4000 is the address of one host");
    assert_says("[fd07::1]:4000", "net7", AQ_EINVAL, "is the address of one host");
    assert_says("239.255.1.1:4000", "net9", AQ_EINVAL, "\"net9\" (interfaces: ");
    assert_says("[ff02::1234]:4000", "lo", AQ_ESYS,
                "create a route for groups with \"ip -6 route add ff00::/8");
    assert_ip("link set net7 multicast off");
    assert_says("239.255.1.1:4000", "net7", AQ_EINVAL,
                "interface net7 does not carry multicast: \"ip link set net7 multicast on\"");
    assert_ip("link set net7 multicast on");
    assert_ip("link set net7 down");
    assert_says("239.255.1.1:4000", "net7", AQ_EINVAL, "interface net7 is down");
}

/* Another program has the port, and has not set SO_REUSEADDR. */
static void a_port_that_is_not_shared(void **state)
{
    const union aqi_sockaddr any = group_at("0.0.0.0:4000");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, &any.any, sizeof(any.v4)), 0);
    assert_says("239.255.1.1:4000", "net7", AQ_ESTATE, "and does not share it");
    close(fd);
}

static void without_descriptors(void **state)
{
    struct rlimit old, none;
    struct ports_multicast multicast;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (unsigned more = 0; more < 8; more++) {
        capture_start(&capture);
        int next = dup(0);
        close(next);
        none = (struct rlimit){.rlim_cur = (rlim_t)next + more, .rlim_max = old.rlim_max};
        int limited = setrlimit(RLIMIT_NOFILE, &none);
        aq_status st = try_open(&multicast, "239.255.1.1:4000", "net7", true, true);
        int freed = setrlimit(RLIMIT_NOFILE, &old);
        const char *text = capture_end(&capture);
        ports_multicast_close(&multicast);
        assert_true(limited == 0 && freed == 0);
        if (st == AQ_OK) return;
        if (strstr(text, "descriptor") == NULL) fail_msg("with %u more: \"%s\"", more, text);
    }
    fail_msg("there are enough");
}

/* A call fails with a message; a later one may succeed again. */
static void a_firewall(void **state)
{
    static const char rules[] = "add table ip t; add chain ip t out { type filter hook output "
                                "priority 0 ; policy accept ; }; add rule ip t out ip daddr "
                                "239.255.1.1 drop";
    const struct iovec iov = {(void *)(uintptr_t) "x", 1};
    struct ports_multicast out;
    if (!does("nft '%s'", rules)) skip();
    assert_int_equal(try_open(&out, "239.255.1.1:4000", "net7", true, false), AQ_OK);
    capture_start(&capture);
    aq_status st = ports_multicast_send(&out, &iov, 1);
    const char *text = capture_end(&capture);
    assert_int_equal(st, AQ_EACCESS);
    if (strstr(text, "group 239.255.1.1:4000 through interface net7: a firewall") == NULL)
        fail_msg("\"%s\"", text);
    assert_true(does("nft %s", "delete table ip t"));
    assert_int_equal(ports_multicast_send(&out, &iov, 1), AQ_OK);
    ports_multicast_close(&out);
}

/* The program closes the library's descriptor. */
static void a_closed_socket(void **state)
{
    struct ports_multicast in;
    char buf[10];
    size_t len;
    assert_int_equal(try_open(&in, "239.255.1.1:4000", "net7", false, true), AQ_OK);
    close(in.in);
    capture_start(&capture);
    assert_int_equal(ports_multicast_receive(&in, buf, sizeof(buf), &len), AQ_ESYS);
    assert_non_null(strstr(capture_end(&capture), "cannot receive"));
    ports_multicast_close(&in);
}

/* Emulators of other processors lack IP_MULTICAST_IF. */
static bool chooses_interface(void)
{
    const struct ip_mreqn lo = {.imr_ifindex = 1};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool can = setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &lo, sizeof(lo)) == 0;
    close(fd);
    return can;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(over_ipv4, set_up, take_down),
        cmocka_unit_test_setup_teardown(over_ipv6, set_up, take_down),
        cmocka_unit_test_setup_teardown(the_other_end_gets_it, set_up, take_down),
        cmocka_unit_test_setup_teardown(a_full_buffer, set_up, take_down),
        cmocka_unit_test_setup_teardown(the_route_decides, set_up, take_down),
        cmocka_unit_test_setup_teardown(what_is_missing_is_said, set_up, take_down),
        cmocka_unit_test_setup_teardown(a_port_that_is_not_shared, set_up, take_down),
        cmocka_unit_test_setup_teardown(without_descriptors, set_up, take_down),
        cmocka_unit_test_setup_teardown(a_firewall, set_up, take_down),
        cmocka_unit_test_setup_teardown(a_closed_socket, set_up, take_down),
    };
    if (!namespace_usable()) return 77;
    if (!chooses_interface()) {
        puts("skipped: the interface of multicast cannot be chosen here (IP_MULTICAST_IF)");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
