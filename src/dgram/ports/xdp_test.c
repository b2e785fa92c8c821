/* The port on AF_XDP, between two network namespaces with a pair of interfaces. Root only. */
#include "dgram/ports/address.h"
#include "dgram/ports/namespace_test.h"
#include "dgram/ports/port_test.h"
#include "dgram/ports/xdp_program.h"
#include "dgram/ports/xdp_rings.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int spaces[2]; /* network namespaces: 10.8.0.1 on pair0, 10.8.0.2 on pair1 */
static const char *const names[] = {"pair0", "pair1"};
static struct capture capture;

static void enter(unsigned space)
{
    assert_int_equal(setns(spaces[space], CLONE_NEWNET), 0);
}

static aq_status open_in(unsigned space, const struct aqi_port_ops *ops, struct aqi_port **port)
{
    struct aqi_port_params params = {.interface = names[space]};
    enter(space);
    return ops->open(&params, port);
}

static struct aqi_port *port_in(unsigned space, const struct aqi_port_ops *ops)
{
    struct aqi_port *port = NULL;
    assert_int_equal(open_in(space, ops, &port), AQ_OK);
    assert_ptr_equal(port->ops, ops);
    return port;
}

static void between(const struct aqi_port_ops *one, const struct aqi_port_ops *other)
{
    struct aqi_port *a = port_in(0, one), *b = port_in(1, other);
    struct arrivals *there = &(struct arrivals){0}, *back = &(struct arrivals){0};
    for (uint32_t i = 0; i < 1000; i++) {
        size_t len = i * 7 % 761 + 4; /* one at a time, so that they bypass the stack */
        assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, i, 1, len, len));
        packet_await(b, there, i + 1);
        assert_int_equal(there->len[i], len);
        assert_int_equal(there->channel, AQI_DGRAM_COMMAND);
        assert_true(port_same(&a->address, &there->from));
        /* Reply to the source address and, in turn, to the announced one. */
        const struct aqi_dgram_addr *to = i % 2 == 0 ? &there->from : &a->address;
        assert_true(packet_send(b, AQI_DGRAM_COMMAND, to, i, 1, len, len));
        packet_await(a, back, i + 1);
        assert_int_equal(back->len[i], len);
    }
    for (unsigned channel = 0; channel < AQI_DGRAM_CHANNELS; channel++) {
        uint32_t first = 1000 + channel * 1000;
        for (uint32_t i = 0; i < 10; i++) {
            assert_true(packet_send(a, (enum aqi_dgram_channel)channel, &b->address, first + 40 * i,
                                    40, 752, 752));
            packet_await(b, there, 1000 + channel * 400 + 40 * (i + 1));
        }
        for (uint32_t i = 0; i < 400; i++)
            assert_int_equal(there->times[first + i], 1);
        assert_int_equal(there->channel, channel);
    }
    assert_int_equal(there->altered + back->altered, 0);
    assert_int_equal(there->misplaced + back->misplaced, 0);
    assert_int_equal(a->ops->drops(a) + b->ops->drops(b), 0);
    ports_close(a, b);
}

static void between_two(void **state)
{
    between(&aqi_port_xdp, &aqi_port_xdp);
}

static void from_xdp_to_sockets(void **state)
{
    between(&aqi_port_xdp, &aqi_port_socket);
}

static void from_sockets_to_xdp(void **state)
{
    between(&aqi_port_socket, &aqi_port_xdp);
}

/* Packets that bypass the kernel's stack do not change its UDP counters. */
static unsigned long udp_received(unsigned space)
{
    char line[512];
    unsigned long count = 0;
    enter(space);
    FILE *file = fopen("/proc/thread-self/net/snmp", "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "Udp: %lu", &count) == 1) break;
    fclose(file);
    return count;
}

/* Returns false if nothing arrives for a second. */
static bool waits_for(struct aqi_port *port)
{
    struct pollfd polled = {.events = POLLIN};
    int fds[2];
    assert_int_equal(port->ops->descriptors(port, fds), 1);
    polled.fd = fds[0];
    return poll(&polled, 1, 1000) == 1;
}

static void small_packets_pass_by_the_stack(void **state)
{
    struct aqi_port *a = port_in(0, &aqi_port_xdp), *b = port_in(1, &aqi_port_xdp);
    struct arrivals *arrivals = &(struct arrivals){0};
    unsigned long before = udp_received(1);
    uint32_t next = 0;
    for (unsigned i = 0; i < 16; i++) { /* all packets of a sender arrive through the same queue */
        struct aqi_port *sender = i == 0 ? a : port_in(0, &aqi_port_socket);
        for (unsigned k = 0; k < 10; k++) {
            assert_true(packet_send(sender, AQI_DGRAM_COMMAND, &b->address, next++, 1, 64, 64));
            while (b->ops->receive(b, AQI_PORT_SHORT, packet_take, arrivals) == 0)
                assert_true(waits_for(b));
        }
        if (sender != a) sender->ops->close(sender);
    }
    assert_int_equal(arrivals->count, next);
    assert_int_equal(udp_received(1), before);
    assert_true(packet_send(a, AQI_DGRAM_DATA, &b->address, next++, 1, 64, 64));
    packet_await(b, arrivals, next);
    assert_int_equal(udp_received(1), before + 1);
    /* Packets to itself do not pass the wire. */
    assert_true(packet_send(b, AQI_DGRAM_COMMAND, &b->address, next++, 1, 64, 64));
    packet_await(b, arrivals, next);
    ports_close(a, b);
}

/* With the program in the driver, which tells queues apart. */
static void every_queue_is_listened_to(void **state)
{
    static struct ports_xdp_rings rings[3];
    struct ports_xdp_program program = PORTS_XDP_NO_PROGRAM;
    struct aqi_port *to = port_in(1, &aqi_port_socket);
    union aqi_sockaddr at;
    unsigned count[2] = {0, 0}, sent = 0;
    assert_true(ports_address_to(&to->address, AQI_DGRAM_COMMAND, 0, &at));
    const struct ports_xdp_filter filter = {.name = names[1],
                                            .interface = if_nametoindex(names[1]),
                                            .ip = at.v4.sin_addr.s_addr,
                                            .port = at.v4.sin_port,
                                            .longest = 1500};
    assert_int_equal(ports_xdp_load(&program, &filter), AQ_OK);
    assert_int_equal(ports_xdp_attach(&program, &filter), AQ_OK);
    assert_false(program.generic);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ports_xdp_open(&rings[i], names[1], filter.interface, i, 6), AQ_OK);
        assert_int_equal(ports_xdp_steer(&program, &filter, i, rings[i].fd), AQ_OK);
    }
    assert_int_equal(ports_xdp_open(&rings[2], names[1], filter.interface, 2, 6), AQ_ERANGE);
    while (sent < 64 || (sent < 1000 && (count[0] == 0 || count[1] == 0))) {
        struct aqi_port *from = port_in(0, &aqi_port_socket);
        assert_true(packet_send(from, AQI_DGRAM_COMMAND, &to->address, sent++, 1, 64, 64));
        while (count[0] + count[1] < sent) {
            struct pollfd polled[] = {{.fd = rings[0].fd, .events = POLLIN},
                                      {.fd = rings[1].fd, .events = POLLIN}};
            assert_true(poll(polled, 2, 10000) > 0);
            for (unsigned i = 0; i < 2; i++) {
                size_t len;
                uint64_t number;
                if (ports_xdp_next(&rings[i], &len, &number) == NULL) continue;
                ports_xdp_release(&rings[i], number);
                count[i]++;
            }
        }
        from->ops->close(from);
    }
    assert_true(count[0] > 0 && count[1] > 0);
    ports_xdp_close(&rings[0]);
    ports_xdp_close(&rings[1]);
    ports_xdp_detach(&program);
    to->ops->close(to);
}

/* Send more packets than there are frames: those that arrive are whole, the others are counted. */
static void a_full_ring_loses_and_tells(void **state)
{
    struct aqi_port *a = port_in(0, &aqi_port_xdp), *b = port_in(1, &aqi_port_xdp);
    struct arrivals *arrivals = &(struct arrivals){0};
    for (uint32_t i = 0; i < PACKETS; i++)
        assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, i, 1, 64, 64));
    while (b->ops->receive(b, AQI_PORT_DEEP, packet_take, arrivals) != 0 ||
           arrivals->count + b->ops->drops(b) + a->ops->drops(a) < PACKETS)
        (void)a->ops->receive(a, AQI_PORT_DEEP, packet_take,
                              arrivals); /* tells the kernel to go on */
    assert_int_equal(arrivals->altered, 0);
    assert_true(arrivals->count >= 1000);
    assert_true(b->ops->drops(b) > 0);
    ports_close(a, b);
}

static bool runs(unsigned space)
{
    enter(space);
    return interface_runs(names[space]);
}

static void both_run(void)
{
    for (unsigned i = 0; i < 10000 && !(runs(0) && runs(1)); i++)
        (void)poll(NULL, 0, 1);
}

/* A packet must arrive, past the stack or through it. */
static void arrives(struct aqi_port *a, struct aqi_port *b, uint32_t number, bool past)
{
    struct arrivals *arrivals = &(struct arrivals){0};
    unsigned long before = udp_received(1);
    assert_non_null(arrivals);
    assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, number, 1, 64, 64));
    while (arrivals->times[number] == 0)
        if (b->ops->receive(b, AQI_PORT_DEEP, packet_take, arrivals) == 0) (void)waits_for(b);
    assert_int_equal(udp_received(1), past ? before : before + 1);
}

/* Two ports that reach each other by frames; the caller is in the space of the first. */
struct pair {
    struct aqi_port *a, *b;
    struct arrivals *arrivals;
};

static struct pair pair_open(void)
{
    struct pair pair = {.a = port_in(0, &aqi_port_xdp),
                        .b = port_in(1, &aqi_port_xdp),
                        .arrivals = calloc(1, sizeof(*pair.arrivals))};
    assert_non_null(pair.arrivals);
    arrives(pair.a, pair.b, 2000, true);
    enter(0);
    return pair;
}

static void pair_close(struct pair *pair)
{
    pair->a->ops->close(pair->a);
    pair->b->ops->close(pair->b);
    free(pair->arrivals);
}

/* While the interface is down frames stay in the ring; later they are sent. */
static void an_interface_comes_back(void **state)
{
    struct pair pair = pair_open();
    struct aqi_port *a = pair.a, *b = pair.b;
    struct arrivals *arrivals = pair.arrivals;
    assert_true(ip("link set pair0 down"));
    capture_start(&capture);
    for (uint32_t i = 0; i < 1000; i++)
        assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, i, 1, 64, 64));
    const char *text = capture_end(&capture);
    assert_null(strstr(text, "AF_XDP"));
    assert_true(ip("link set pair0 up"));
    both_run();
    for (unsigned i = 0; i < 10000 && arrivals->count < PORTS_XDP_SEND; i++) {
        (void)a->ops->receive(a, AQI_PORT_DEEP, packet_take, arrivals);
        if (b->ops->receive(b, AQI_PORT_DEEP, packet_take, arrivals) == 0) (void)poll(NULL, 0, 1);
    }
    assert_true(arrivals->count >= PORTS_XDP_SEND);
    assert_int_equal(arrivals->altered, 0);
    arrives(a, b, 2001, true);
    pair_close(&pair);
}

/* Another file takes the place of its descriptors: packets leave through the sockets, and the user
 * is warned. */
static void a_stuck_ring_is_left(void **state)
{
    struct aqi_port *a = port_in(0, &aqi_port_xdp);
    int none = open("/dev/null", O_RDWR | O_CLOEXEC), count = 0;
    for (int fd = 3; fd < 1024; fd++) {
        int domain = 0;
        socklen_t len = sizeof(domain);
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_XDP) continue;
        assert_int_equal(dup2(none, fd), fd);
        count++;
    }
    assert_true(count > 0);
    close(none);
    struct aqi_port *b = port_in(1, &aqi_port_xdp);
    capture_start(&capture);
    assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, 0, 1, 64, 64)); /* it is lost */
    const char *text = capture_end(&capture);
    assert_non_null(strstr(text, "AF_XDP on interface pair0 can no longer send"));
    assert_int_equal(a->ops->drops(a), 1);
    ports_close(a, b);
}

/* Must be the last test, as it removes the interface. */
static void an_interface_is_taken_away(void **state)
{
    struct pair pair = pair_open();
    struct aqi_port *a = pair.a, *b = pair.b;
    struct arrivals *arrivals = pair.arrivals;
    assert_true(ip("link del pair0"));
    for (uint32_t i = 0; i < 1000; i++)
        assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, i, 1, 64, 64));
    assert_true(a->ops->drops(a) >= 1000);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(a->ops->receive(a, AQI_PORT_DEEP, packet_take, arrivals), 0);
    pair_close(&pair);
}

static void others_on_the_interface_get_theirs(void **state)
{
    struct aqi_port *a = port_in(0, &aqi_port_xdp), *b = port_in(1, &aqi_port_xdp), *c = NULL;
    struct arrivals arrivals = {0};
    /* A second port gets sockets only. */
    assert_int_equal(open_in(1, &aqi_port_xdp, &c), AQ_OK);
    assert_ptr_equal(c->ops, &aqi_port_socket);
    assert_null(c->limits.xdp);
    assert_string_equal(b->limits.xdp, "generic");
    assert_true(packet_send(a, AQI_DGRAM_COMMAND, &c->address, 1, 1, 64, 64));
    packet_await(c, &arrivals, 1);
    assert_int_equal(arrivals.times[1], 1);
    ports_close(a, b);
    c->ops->close(c);
    /* When the port is closed the interface is free for the next one. */
    b = port_in(1, &aqi_port_xdp);
    b->ops->close(b);
}

static void what_it_cannot_use_is_named(void **state)
{
    struct aqi_port *port = NULL;
    enter(0);
    const char *how;
    assert_int_equal(aqi_port_xdp_check(&(struct aqi_port_params){.interface = "pair0"}, &how),
                     AQ_OK);
    assert_string_equal(how, "generic mode");
    capture_start(&capture);
    aq_status status = aqi_port_xdp_check(&(struct aqi_port_params){.interface = "lo"}, &how);
    const char *text = capture_end(&capture);
    assert_int_equal(status, AQ_ENOTSUP);
    assert_non_null(strstr(text, "AF_XDP on interface lo: it is not an Ethernet interface"));
    capture_start(&capture);
    status = aqi_port_xdp.open(&(struct aqi_port_params){.interface = "lo"}, &port);
    text = capture_end(&capture);
    assert_int_equal(status, AQ_ENOTSUP);
    assert_non_null(strstr(text, "AF_XDP on interface lo: it is not an Ethernet interface"));
    capture_start(&capture);
    status = aqi_port_xdp.open(&(struct aqi_port_params){.interface = "fd08::1"}, &port);
    text = capture_end(&capture);
    assert_int_equal(status, AQ_ENOTSUP);
    assert_non_null(strstr(text, "is supported with IPv4 only"));
    assert_null(port);
}

/* In a process that is no longer root. */
static void a_missing_privilege_is_named(void **state)
{
    enter(0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct aqi_port *port = NULL;
        capture_start(&capture);
        bool left = setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0;
        aq_status status =
            aqi_port_xdp.open(&(struct aqi_port_params){.interface = names[0]}, &port);
        const char *text = capture_end(&capture);
        _exit(!left || status != AQ_EACCESS ||
              strstr(text, "creating a BPF map is not permitted: it needs CAP_BPF") == NULL);
    }
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

/* Make two namespaces, held by this process. */
static bool set_up(void)
{
    char link[192];
    for (unsigned i = 0; i < 2; i++) {
        if (unshare(CLONE_NEWNET) != 0) return false;
        spaces[i] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
        if (spaces[i] < 0) return false;
        (void)ip("link set lo up");
    }
    /* We are in the second one; naming the first one takes a process inside it. */
    int hold[2];
    if (pipe(hold) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        (void)!setns(spaces[0], CLONE_NEWNET);
        (void)!read(hold[0], &byte, 1);
        _exit(0);
    }
    close(hold[0]);
    bool made = false;
    snprintf(link, sizeof(link),
             "link add pair1 numrxqueues 2 numtxqueues 2 type veth peer name pair0 numrxqueues 2 "
             "numtxqueues 2 netns %d",
             (int)child);
    for (unsigned i = 0; i < 1000 && !made; i++) { /* until the child is in its namespace */
        made = ip(link) && setns(spaces[0], CLONE_NEWNET) == 0 && ip("link show pair0");
        if (made) break;
        (void)setns(spaces[1], CLONE_NEWNET);
        (void)ip("link del pair1");
    }
    close(hold[1]);
    waitpid(child, NULL, 0);
    return made && ip("address add 10.8.0.1/24 dev pair0") &&
           ip("address add fd08::1/64 dev pair0 nodad") && ip("link set pair0 up") &&
           setns(spaces[1], CLONE_NEWNET) == 0 && ip("address add 10.8.0.2/24 dev pair1") &&
           ip("link set pair1 up");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_two),
        cmocka_unit_test(from_xdp_to_sockets),
        cmocka_unit_test(from_sockets_to_xdp),
        cmocka_unit_test(small_packets_pass_by_the_stack),
        cmocka_unit_test(every_queue_is_listened_to),
        cmocka_unit_test(a_full_ring_loses_and_tells),
        cmocka_unit_test(others_on_the_interface_get_theirs),
        cmocka_unit_test(what_it_cannot_use_is_named),
        cmocka_unit_test(a_missing_privilege_is_named),
        cmocka_unit_test(an_interface_comes_back),
        cmocka_unit_test(a_stuck_ring_is_left),
        cmocka_unit_test(an_interface_is_taken_away),
    };
    if (geteuid() != 0 || !set_up()) {
        puts("skipped: it needs root (in a container a privileged one), network namespaces and "
             "iproute2");
        return 77;
    }
    both_run();
    struct aqi_port *port = NULL;
    capture_start(&capture);
    aq_status status = open_in(0, &aqi_port_xdp, &port);
    const char *text = capture_end(&capture);
    if (status == AQ_ENOTSUP || status == AQ_EACCESS) {
        printf("skipped: %s", text);
        return 77;
    }
    if (status == AQ_OK) port->ops->close(port);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
