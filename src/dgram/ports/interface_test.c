/* The interface that a port uses, tested in a network namespace; and the fate of packets that the
 * network refuses. */
#include "dgram/ports/interface.h"

#include "dgram/ports/namespace_test.h"
#include "dgram/ports/port_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

static struct capture capture;

/* Bring up both ends of a pair; the kernel marks them running a little later. */
static void pair_up(const char *a, const char *b)
{
    char line[64];
    snprintf(line, sizeof(line), "link set %s up", a);
    assert_ip(line);
    snprintf(line, sizeof(line), "link set %s up", b);
    assert_ip(line);
    for (unsigned i = 0; i < 10000 && !(interface_runs(a) && interface_runs(b)); i++)
        (void)poll(NULL, 0, 1);
    assert_true(interface_runs(a) && interface_runs(b));
}

/* Loopback, an end named like a container bridge, and a pair with no address at net8. */
static int set_up(void **state)
{
    assert_ip("link set lo up");
    assert_ip("link add docker0 type veth peer name veth1");
    assert_ip("address add 172.17.0.1/16 dev docker0");
    assert_ip("link add net7 type veth peer name net8");
    assert_ip("address add 10.7.0.1/24 dev net7");
    assert_ip("address add fd07::1/64 dev net7 nodad");
    return 0;
}

static int take_down(void **state)
{
    assert_ip("link del docker0");
    assert_ip("link del net7");
    assert_ip("link set lo down");
    return 0;
}

static void assert_finds(const char *wanted, const char *towards, const char *name,
                         const char *address)
{
    struct ports_interface found;
    char text[INET6_ADDRSTRLEN];
    assert_int_equal(ports_interface_find(wanted, towards, &found), AQ_OK);
    assert_string_equal(found.name, name);
    assert_int_equal(found.index, if_nametoindex(name));
    bool six = found.address.any.sa_family == AF_INET6;
    const void *bytes = six ? (void *)&found.address.v6.sin6_addr : &found.address.v4.sin_addr;
    assert_string_equal(inet_ntop(found.address.any.sa_family, bytes, text, sizeof(text)), address);
}

static void assert_says(const char *wanted, const char *towards, aq_status status, const char *what)
{
    struct ports_interface found;
    capture_start(&capture);
    aq_status is = ports_interface_find(wanted, towards, &found);
    const char *text = capture_end(&capture);
    assert_int_equal(is, status);
    if (strstr(text, what) == NULL) fail_msg("\"%s\" lacks \"%s\"", text, what);
}

static void by_itself_it_takes_what_leads_to_others(void **state)
{
    assert_finds(NULL, NULL, "lo", "127.0.0.1");
    pair_up("docker0", "veth1");
    assert_finds(NULL, NULL, "lo", "127.0.0.1");
    /* Interfaces of containers are used only if there is nothing better. */
    assert_ip("address add 172.17.0.9/16 dev veth1");
    assert_finds(NULL, NULL, "veth1", "172.17.0.9");
    assert_ip("link set net7 up"); /* its other end is down: no carrier */
    assert_finds(NULL, NULL, "veth1", "172.17.0.9");
    pair_up("net7", "net8");
    assert_finds(NULL, NULL, "net7", "10.7.0.1");
    assert_ip("address del 10.7.0.1/24 dev net7");
    assert_finds(NULL, NULL, "net7", "fd07::1");
    assert_ip("address del fd07::1/64 dev net7");
    assert_finds(NULL, NULL, "veth1", "172.17.0.9");
    assert_ip("link set lo down");
    assert_ip("link set veth1 down");
    assert_says(NULL, NULL, AQ_ENOTSUP, "no interface that is up has an address (interfaces: ");
}

static void assert_state(const char *ip, uint32_t scope, enum ports_interface_state state,
                         char name[IF_NAMESIZE])
{
    union aqi_sockaddr at = {.any.sa_family = AF_INET};
    struct ifaddrs *all;
    if (inet_pton(AF_INET, ip, &at.v4.sin_addr) != 1) {
        at.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_scope_id = scope};
        assert_int_equal(inet_pton(AF_INET6, ip, &at.v6.sin6_addr), 1);
    }
    assert_int_equal(getifaddrs(&all), 0);
    enum ports_interface_state found = ports_interface_state(all, &at, name);
    freeifaddrs(all);
    assert_int_equal(found, state);
}

static void the_state_of_one(void **state)
{
    char name[IF_NAMESIZE] = "", six[IF_NAMESIZE] = "", none[IF_NAMESIZE] = "";
    assert_state("10.7.0.1", 0, PORTS_INTERFACE_DOWN, name);
    assert_string_equal(name, "net7");
    assert_ip("link set net7 up");
    assert_state("10.7.0.1", 0, PORTS_INTERFACE_NO_CARRIER, name);
    pair_up("net7", "net8");
    assert_state("10.7.0.1", 0, PORTS_INTERFACE_UP, name);
    assert_state("fd07::1", 0, PORTS_INTERFACE_UP, six);
    assert_string_equal(six, "net7");
    /* Link-local addresses may be the same on several links. */
    assert_ip("address add fe80::7/64 dev net7 nodad");
    assert_state("fe80::7", if_nametoindex("net7"), PORTS_INTERFACE_UP, none);
    none[0] = '\0';
    assert_state("fe80::7", if_nametoindex("net8"), PORTS_INTERFACE_GONE, none);
    assert_string_equal(none, "");
    assert_ip("link set net7 down"); /* which removes its IPv6 addresses */
    assert_state("fd07::1", 0, PORTS_INTERFACE_DOWN, six);
    assert_state("10.7.0.1", 0, PORTS_INTERFACE_DOWN, name);
    assert_ip("link set net7 up");
    assert_state("fd07::1", 0, PORTS_INTERFACE_GONE, six);
    assert_ip("address add 10.7.0.5/24 dev net7 label net7:five");
    assert_state("10.7.0.5", 0, PORTS_INTERFACE_UP, name);
    assert_string_equal(name, "net7");
    assert_ip("address del 10.7.0.5/24 dev net7");
    assert_state("10.7.0.5", 0, PORTS_INTERFACE_GONE, name);
}

/* The best state of all interfaces but loopback. */
static void the_state_of_all(void **state)
{
    char name[IF_NAMESIZE] = "";
    assert_state("0.0.0.0", 0, PORTS_INTERFACE_DOWN, name);
    assert_ip("link set net7 up");
    assert_state("::", 0, PORTS_INTERFACE_NO_CARRIER, name);
    assert_string_equal(name, "net7");
    pair_up("net7", "net8");
    assert_state("0.0.0.0", 0, PORTS_INTERFACE_UP, name);
    assert_ip("address del 10.7.0.1/24 dev net7");
    assert_state("0.0.0.0", 0, PORTS_INTERFACE_DOWN, name); /* docker0 */
    assert_state("::", 0, PORTS_INTERFACE_UP, name);
}

/* With several networks all addresses are announced, but only one if an interface is named. */
static void all_that_lead_to_others(void **state)
{
    struct ports_interface found;
    union aqi_sockaddr others[3], source;
    struct aqi_port *port;
    char text[64];
    pair_up("docker0", "veth1");
    assert_ip("address add 172.17.0.9/16 dev veth1");
    pair_up("net7", "net8");
    assert_int_equal(ports_interface_find(NULL, NULL, &found), AQ_OK);
    assert_int_equal(ports_interface_others(&found, others, 3), 1);
    assert_int_equal(ntohl(others[0].v4.sin_addr.s_addr), 0xac110009);
    assert_int_equal(ports_interface_find("fd07::1", NULL, &found), AQ_OK);
    assert_int_equal(ports_interface_others(&found, others, 3), 0);
    for (unsigned named = 0; named < 2; named++) {
        const struct aqi_port_params params = {.several = true, .interface = named ? "net7" : NULL};
        assert_int_equal(aqi_port_socket.open(&params, &port), AQ_OK);
        assert_int_equal(port->other_count, !named);
        assert_ptr_equal(strstr(port->limits.text, "10.7.0.1:"), port->limits.text);
        assert_int_equal(strstr(port->limits.text, ", 172.17.0.9:") != NULL, !named);
        if (!named) {
            ports_address_text(&port->others[0], text, sizeof(text));
            assert_string_equal(strrchr(text, ':'), strrchr(port->limits.text, ':'));
            assert_false(ports_address_same_ip(&port->address, &port->others[0]));
            assert_true(ports_interface_route(&port->others[0], &source));
        }
        port->ops->close(port);
    }
    assert_int_equal(ports_interface_find(NULL, NULL, &found), AQ_OK);
    struct aqi_dgram_addr away;
    union aqi_sockaddr at = found.address;
    at.v4.sin_addr.s_addr = htonl(0x0a070002);
    at.v4.sin_port = htons(9);
    ports_address_seen(&at, AQI_DGRAM_COMMAND, &away);
    assert_true(ports_interface_route(&away, &source));
    assert_int_equal(source.v4.sin_addr.s_addr, found.address.v4.sin_addr.s_addr);
    at.v4.sin_addr.s_addr = htonl(0x0a090002); /* no route, not even a default one */
    ports_address_seen(&at, AQI_DGRAM_COMMAND, &away);
    assert_false(ports_interface_route(&away, &source));
}

static void by_name_and_by_address(void **state)
{
    assert_says("net7", NULL, AQ_EINVAL, "interface net7 is down: \"ip link set net7 up\"");
    pair_up("net7", "net8");
    assert_finds("net7", NULL, "net7", "10.7.0.1");
    assert_finds("10.7.0.1", NULL, "net7", "10.7.0.1");
    assert_finds("fd07::1", NULL, "net7", "fd07::1");
    assert_finds("lo", "10.7.0.2", "lo", "127.0.0.1");
    assert_says("net9", NULL, AQ_EINVAL,
                "no interface has the name or the address \"net9\" (interfaces: ");
    assert_says("net9", NULL, AQ_EINVAL, "net7 10.7.0.1");
    assert_says("10.7.0.99", NULL, AQ_EINVAL, "\"10.7.0.99\" (interfaces: ");
    assert_ip("link set net8 addrgenmode none");
    assert_ip("address flush dev net8");
    assert_says("net8", NULL, AQ_EINVAL, "interface net8 has no IP address");
}

static void towards_a_host_the_routes_decide(void **state)
{
    pair_up("net7", "net8");
    pair_up("docker0", "veth1");
    assert_finds(NULL, "10.7.0.2", "net7", "10.7.0.1");
    assert_finds(NULL, "fd07::2", "net7", "fd07::1");
    assert_finds(NULL, "172.17.0.5", "docker0", "172.17.0.1"); /* explicitly asked for */
    /* This host by one of its addresses: where others reach it, too. */
    assert_finds(NULL, "10.7.0.1", "net7", "10.7.0.1");
    assert_finds(NULL, "localhost", "lo", "127.0.0.1");
    assert_says(NULL, "192.0.2.1", AQ_EINVAL, "no interface leads to host \"192.0.2.1\"");
    assert_says(NULL, "no host", AQ_EINVAL, "host \"no host\" is unknown");
}

/* A system made by debootstrap has no /etc/hosts, and there are no name servers here. */
static void loopback_needs_no_name(void **state)
{
    if (access("/etc/hosts", F_OK) == 0) {
        assert_int_equal(unshare(CLONE_NEWNS), 0);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
            print_message("skipped: mounts cannot be private here, as in a chroot\n");
            skip();
        }
        assert_int_equal(mount("/dev/null", "/etc/hosts", NULL, MS_BIND, NULL), 0);
    }
    assert_finds(NULL, "localhost", "lo", "127.0.0.1");
    assert_finds(NULL, "LocalHost", "lo", "127.0.0.1");
    assert_ip("address del 127.0.0.1/8 dev lo");
    assert_finds(NULL, "localhost", "lo", "::1");
    assert_ip("address add 127.0.0.1/8 dev lo");
}

static void a_packet_fits_the_mtu(void **state)
{
    static const struct {
        const char *mtu, *address;
        size_t packet;
    } rows[] = {{"link set net7 mtu 1500", "10.7.0.1", 1472},
                {"link set net7 mtu 1500", "fd07::1", 1440},
                {"link set net7 mtu 9000", "10.7.0.1", 8944},
                {"link set net7 mtu 1280", "fd07::1", 1232},
                {"link set net7 mtu 604", "10.7.0.1", 576}};
    pair_up("net7", "net8");
    struct ports_interface found;
    size_t packet;
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        assert_ip(rows[i].mtu);
        assert_int_equal(ports_interface_find(rows[i].address, NULL, &found), AQ_OK);
        assert_int_equal(ports_interface_packet(&found, 0, &packet), AQ_OK);
        assert_int_equal(packet, rows[i].packet);
    }
    assert_int_equal(ports_interface_packet(&found, 4000, &packet), AQ_OK);
    assert_int_equal(packet, 576);
    assert_ip("link set net7 mtu 603");
    assert_int_equal(ports_interface_find("net7", NULL, &found), AQ_OK);
    capture_start(&capture);
    aq_status status = ports_interface_packet(&found, 0, &packet);
    const char *text = capture_end(&capture);
    assert_int_equal(status, AQ_EINVAL);
    assert_non_null(
        strstr(text, "packets of interface net7 (MTU 603) carry only 575 bytes, and 576"));
}

/* Loopback carries packets to a host's own addresses. The peers of a job may be elsewhere. */
static void packets_to_this_host_are_large(void **state)
{
    static const struct {
        const char *towards;
        bool to_peer;
        size_t packet;
    } rows[] = {{"10.7.0.1", true, 8944},
                {"fd07::1", true, 8944},
                {"10.7.0.2", true, 1472},
                {"10.7.0.1", false, 1472},
                {"localhost", true, 8944}};
    pair_up("net7", "net8");
    assert_ip("link set net7 mtu 1500");
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        const struct aqi_port_params want = {.towards = rows[i].towards,
                                             .to_peer = rows[i].to_peer};
        struct aqi_port *port;
        assert_int_equal(aqi_port_socket.open(&want, &port), AQ_OK);
        assert_int_equal(port->limits.packet, rows[i].packet);
        port->ops->close(port);
    }
}

/* A packet that cannot be sent is lost like any other, logged once, and counted. */
static void what_the_network_refuses_is_lost(void **state)
{
    pair_up("net7", "net8");
    assert_ip("link set net7 mtu 4000");
    struct aqi_port *a = NULL, *b = NULL, *far = NULL;
    struct aqi_port_params params = {.interface = "net7"};
    assert_int_equal(aqi_port_socket.open(&params, &a), AQ_OK);
    assert_int_equal(aqi_port_socket.open(&params, &b), AQ_OK);
    assert_int_equal(a->limits.packet, 3968);
    assert_ip("address add 192.0.2.9/32 dev net8");
    params.interface = "192.0.2.9";
    assert_int_equal(aqi_port_socket.open(&params, &far), AQ_OK);
    assert_ip("address del 192.0.2.9/32 dev net8"); /* now nothing leads there */
    capture_start(&capture);
    bool sent = true;
    for (unsigned i = 0; i < 3; i++)
        sent = sent && packet_send(a, AQI_DGRAM_DATA, &far->address, 0, 4, 1008, 1008);
    const char *text = capture_end(&capture);
    assert_true(sent);
    assert_int_equal(a->ops->drops(a), 12);
    text = strstr(text, "packets to 192.0.2.9:");
    assert_non_null(text);
    assert_non_null(strstr(text, strerror(ENETUNREACH)));
    assert_non_null(strstr(text, "see \"ip route get\" for the address"));
    assert_null(strstr(text + 1, "packets to"));
    /* Others can still be reached. */
    struct arrivals *arrivals = &(struct arrivals){0};
    assert_true(packet_send(a, AQI_DGRAM_DATA, &b->address, 0, 15, 3968, 3968));
    packet_await(b, arrivals, 15);
    assert_int_equal(arrivals->altered, 0);
    ports_close(a, b);
    far->ops->close(far);
}

/* A port, and one whose address then moves behind the wire, where nothing answers. */
static void open_near_and_far(struct aqi_port **near, struct aqi_port **far)
{
    assert_int_equal(aqi_port_socket.open(&(struct aqi_port_params){.interface = "net7"}, near),
                     AQ_OK);
    assert_ip("address add 10.7.0.77/32 dev net8");
    assert_int_equal(aqi_port_socket.open(&(struct aqi_port_params){.interface = "net8"}, far),
                     AQ_OK);
    assert_ip("address del 10.7.0.77/32 dev net8");
}

/* One end of a pair reports no room for packets that the other end does not take: they are lost,
 * and smaller ones pass. Older kernels report nothing. */
static void what_the_other_end_refuses_is_lost(void **state)
{
    struct aqi_port *a = NULL, *far = NULL;
    pair_up("net7", "net8");
    assert_ip("link set net7 mtu 9000");
    open_near_and_far(&a, &far);
    assert_ip("neighbor add 10.7.0.77 lladdr 02:00:00:00:00:77 dev net7");
    capture_start(&capture);
    bool sent = true;
    for (unsigned i = 0; i < 100; i++) {
        sent = sent && packet_send(a, AQI_DGRAM_DATA, &far->address, 0, 1, 8944, 8944);
        sent = sent && packet_send(a, AQI_DGRAM_DATA, &far->address, 0, 1, 1472, 1472);
    }
    const char *text = capture_end(&capture);
    assert_true(sent);
    assert_string_equal(text, "");
    uint64_t drops = a->ops->drops(a);
    assert_true(drops == 100 || drops == 0);
    ports_close(a, far);
}

/* Packets to a host that does not answer wait, and fill the socket's buffer: none are lost by that,
 * and when the host is known sending continues. */
static void what_finds_no_room_is_not_sent(void **state)
{
    struct aqi_port *a = NULL, *far = NULL;
    int fds[2], least = 1;
    pair_up("net7", "net8");
    open_near_and_far(&a, &far);
    assert_int_equal(a->ops->descriptors(a, fds), 2);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
    for (unsigned packets = 1; packets <= 4; packets += 3) {
        enum aqi_dgram_channel channel = packets == 1 ? AQI_DGRAM_COMMAND : AQI_DGRAM_DATA;
        unsigned sent = 0;
        while (sent < 1000 && packet_send(a, channel, &far->address, 0, packets, 512, 512))
            sent++;
        assert_true(sent > 0 && sent < 1000);
        assert_false(packet_send(a, channel, &far->address, 0, packets, 512, 512));
    }
    assert_int_equal(a->ops->drops(a), 0);
    assert_ip("neighbor replace 10.7.0.77 lladdr 02:00:00:00:00:77 dev net7 nud permanent");
    assert_true(packet_send(a, AQI_DGRAM_COMMAND, &far->address, 0, 1, 512, 512));
    assert_true(packet_send(a, AQI_DGRAM_DATA, &far->address, 0, 4, 512, 512));
    assert_int_equal(a->ops->drops(a), 0);
    ports_close(a, far);
}

/* An interface whose MTU has been lowered sends no fragments. */
static void nothing_is_fragmented(void **state)
{
    struct aqi_port *a = NULL, *far = NULL;
    pair_up("net7", "net8");
    assert_ip("link set net7 mtu 4000");
    open_near_and_far(&a, &far);
    assert_ip("neighbor replace 10.7.0.77 lladdr 02:00:00:00:00:77 dev net7 nud permanent");
    assert_true(packet_send(a, AQI_DGRAM_DATA, &far->address, 0, 4, 3968, 3968));
    assert_int_equal(a->ops->drops(a), 0);
    assert_ip("link set net7 mtu 1500");
    assert_true(packet_send(a, AQI_DGRAM_DATA, &far->address, 0, 1, 3968, 3968));
    assert_int_equal(a->ops->drops(a), 1);
    assert_true(packet_send(a, AQI_DGRAM_DATA, &far->address, 0, 4, 3968, 3968));
    assert_int_equal(a->ops->drops(a), 5);
    assert_true(packet_send(a, AQI_DGRAM_DATA, &far->address, 0, 4, 1472, 1472));
    assert_int_equal(a->ops->drops(a), 5);
    ports_close(a, far);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_itself_it_takes_what_leads_to_others, set_up, take_down),
        cmocka_unit_test_setup_teardown(by_name_and_by_address, set_up, take_down),
        cmocka_unit_test_setup_teardown(all_that_lead_to_others, set_up, take_down),
        cmocka_unit_test_setup_teardown(towards_a_host_the_routes_decide, set_up, take_down),
        cmocka_unit_test_setup_teardown(loopback_needs_no_name, set_up, take_down),
        cmocka_unit_test_setup_teardown(the_state_of_one, set_up, take_down),
        cmocka_unit_test_setup_teardown(the_state_of_all, set_up, take_down),
        cmocka_unit_test_setup_teardown(a_packet_fits_the_mtu, set_up, take_down),
        cmocka_unit_test_setup_teardown(packets_to_this_host_are_large, set_up, take_down),
        cmocka_unit_test_setup_teardown(what_the_network_refuses_is_lost, set_up, take_down),
        cmocka_unit_test_setup_teardown(what_the_other_end_refuses_is_lost, set_up, take_down),
        cmocka_unit_test_setup_teardown(what_finds_no_room_is_not_sent, set_up, take_down),
        cmocka_unit_test_setup_teardown(nothing_is_fragmented, set_up, take_down),
    };
    if (!namespace_usable()) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
