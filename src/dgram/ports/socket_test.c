/* The port of sockets, over loopback: bursts come out as the packets that went in. */
#include "base/log.h"
#include "dgram/ports/address.h"
#include "dgram/ports/port_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

static const char *const hosts[] = {"127.0.0.1", "::1"};

static bool has_ipv6(void)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
    if (fd >= 0) close(fd);
    return has;
}

static struct aqi_port *open_port(const struct aqi_port_params *params)
{
    struct aqi_port *port = NULL;
    assert_int_equal(aqi_port_socket.open(params, &port), AQ_OK);
    return port;
}

static struct aqi_port *open_at(const char *host)
{
    return open_port(&(struct aqi_port_params){.interface = host});
}

/* The error text of an open that fails. */
static const char *refusal(const struct aqi_port_params *params, aq_status wanted)
{
    static struct capture capture;
    struct aqi_port *port = NULL;
    capture_start(&capture);
    aq_status status = aqi_port_socket.open(params, &port);
    const char *text = capture_end(&capture);
    assert_int_equal(status, wanted);
    assert_null(port);
    return text;
}

static void assert_all(const struct arrivals *arrivals, uint32_t first, unsigned count)
{
    assert_int_equal(arrivals->altered, 0);
    assert_int_equal(arrivals->misplaced, 0);
    for (uint32_t i = first; i < first + count; i++)
        assert_int_equal(arrivals->times[i], 1);
}

static void bursts_come_out_as_the_same_packets(const char *host)
{
    static const struct {
        unsigned count;
        size_t segment, last;
    } bursts[] = {{1, 8, 8},       {1, 8944, 8944},  {64, 16, 16},  {64, 16, 5},
                  {64, 960, 960},  {42, 1472, 1472}, {42, 1472, 1}, {2, 8944, 7},
                  {7, 8944, 8944}, {3, 1456, 1440},  {1, 1472, 4}};
    struct aqi_port *a = open_at(host), *b = open_at(host);
    for (unsigned channel = 0; channel < AQI_DGRAM_CHANNELS; channel++) {
        struct arrivals *arrivals = &(struct arrivals){0};
        uint32_t first = 1;
        for (size_t i = 0; i < AQI_COUNT_OF(bursts); i++) {
            assert_true(packet_send(a, (enum aqi_dgram_channel)channel, &b->address, first,
                                    bursts[i].count, bursts[i].segment, bursts[i].last));
            packet_await(b, arrivals, first - 1 + bursts[i].count);
            assert_int_equal(arrivals->channel, channel);
            assert_int_equal(arrivals->len[first],
                             bursts[i].count > 1 ? bursts[i].segment : bursts[i].last);
            first += bursts[i].count;
            /* A last packet that is too short for its number is counted, not compared. */
            assert_int_equal(arrivals->len[first - 1], bursts[i].last < 4 ? 0 : bursts[i].last);
            if (bursts[i].last < 4) {
                assert_int_equal(arrivals->altered, 1);
                arrivals->altered = 0;
                arrivals->times[first - 1] = 1;
            }
        }
        assert_all(arrivals, 1, first - 1);
        assert_int_equal(arrivals->count, first - 1);
        assert_true(port_same(&a->address, &arrivals->from));
        assert_false(port_same(&b->address, &arrivals->from));
    }
    assert_int_equal(b->ops->drops(b), 0);
    ports_close(a, b);
}

static void bursts_over_ipv4(void **state)
{
    bursts_come_out_as_the_same_packets(hosts[0]);
}

static void bursts_over_ipv6(void **state)
{
    if (!has_ipv6()) skip();
    bursts_come_out_as_the_same_packets(hosts[1]);
}

static void an_answer_to_where_it_came_from_arrives(void **state)
{
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]);
    for (unsigned channel = 0; channel < AQI_DGRAM_CHANNELS; channel++) {
        struct arrivals there = {0}, back = {0};
        assert_true(packet_send(a, (enum aqi_dgram_channel)channel, &b->address, 3, 1, 96, 96));
        packet_await(b, &there, 1);
        assert_true(packet_send(b, (enum aqi_dgram_channel)channel, &there.from, 4, 1, 64, 64));
        packet_await(a, &back, 1);
        assert_int_equal(back.times[4], 1);
        assert_int_equal(back.channel, channel);
        /* The port of the other channel is not known. */
        assert_true(packet_send(b, (enum aqi_dgram_channel) !channel, &there.from, 5, 1, 64, 64));
        assert_int_equal(b->ops->drops(b), channel + 1);
    }
    ports_close(a, b);
}

static void each_of_two_receivers_gets_its_own(void **state)
{
    struct aqi_port *a = open_at(hosts[0]);
    struct aqi_port *b[2] = {open_at(hosts[0]), open_at(hosts[0])};
    struct arrivals arrivals[2] = {{0}};
    for (uint32_t i = 0; i < 40; i++)
        assert_true(packet_send(a, AQI_DGRAM_DATA, &b[i % 2]->address, 10 * i, 10, 1008, 500));
    for (unsigned r = 0; r < 2; r++) {
        packet_await(b[r], &arrivals[r], 200);
        packet_drain(b[r], &arrivals[r]);
        assert_int_equal(arrivals[r].count, 200);
        assert_int_equal(arrivals[r].altered, 0);
        for (uint32_t i = 0; i < 400; i++)
            assert_int_equal(arrivals[r].times[i], i / 10 % 2 == r);
        b[r]->ops->close(b[r]);
    }
    a->ops->close(a);
}

/* Packets read while another one is being taken must not overwrite it. */
struct nested {
    struct aqi_port *port;
    struct arrivals *inner, *outer;
    unsigned depth, third;
};

static void take_within(void *arg, enum aqi_dgram_channel channel,
                        const struct aqi_dgram_addr *from, unsigned char *packet, size_t len,
                        uint64_t waited)
{
    struct nested *nested = arg;
    if (nested->depth == 2) {
        nested->third += nested->port->ops->receive(nested->port, AQI_PORT_DEEP, take_within, arg);
        packet_take(nested->inner, channel, from, packet, len, waited);
        return;
    }
    nested->depth++;
    (void)nested->port->ops->receive(nested->port, AQI_PORT_DEEP, take_within, arg);
    nested->depth--;
    packet_take(nested->outer, channel, from, packet, len, waited);
}

static void receiving_nests_once(void **state)
{
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]);
    struct arrivals arrivals[2] = {{0}};
    struct nested nested = {b, &arrivals[0], &arrivals[1], 1, 0};
    for (uint32_t i = 0; i < 6; i++)
        assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, 8 * i, 8, 480, 480));
    while (arrivals[0].count + arrivals[1].count < 48)
        assert_true(b->ops->receive(b, AQI_PORT_DEEP, take_within, &nested) > 0);
    assert_int_equal(nested.third, 0);
    assert_true(arrivals[0].count > 0 && arrivals[1].count > 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(arrivals[i].altered, 0);
        assert_int_equal(arrivals[i].misplaced, 0);
    }
    for (uint32_t i = 0; i < 48; i++)
        assert_int_equal(arrivals[0].times[i] + arrivals[1].times[i], 1);
    ports_close(a, b);
}

/* Linux counts them, but qemu hides that. */
static bool counts_drops(struct aqi_port *port)
{
    uint32_t info[16];
    socklen_t len = sizeof(info);
    int fds[2];
    (void)port->ops->descriptors(port, fds);
    return getsockopt(fds[0], SOL_SOCKET, SO_MEMINFO, info, &len) == 0 && len > sizeof(int);
}

/* `room` is guaranteed; packets beyond it may be lost, and are counted. */
static void a_full_buffer_tells_what_is_lost(void **state)
{
    static const size_t packets[] = {1472, 8944};
    for (size_t p = 0; p < AQI_COUNT_OF(packets); p++) {
        struct aqi_port *a = open_at(hosts[0]);
        struct aqi_port *b = open_port(&(struct aqi_port_params){
            .interface = hosts[0], .packet = packets[p], .buffer = 200000});
        struct arrivals *arrivals = &(struct arrivals){0};
        size_t len = b->limits.packet;
        unsigned room = (unsigned)(b->limits.room / (len + AQI_DGRAM_COST)), sent = 0;
        assert_true(room > 10);
        for (; sent < room; sent++)
            assert_true(packet_send(a, AQI_DGRAM_DATA, &b->address, sent, 1, len, len));
        packet_drain(b, arrivals);
        assert_int_equal(arrivals->count, room);
        assert_int_equal(b->ops->drops(b), 0);
        for (; sent < 5 * room; sent++)
            assert_true(packet_send(a, AQI_DGRAM_DATA, &b->address, sent % PACKETS, 1, len, len));
        packet_drain(b, arrivals);
        assert_true(arrivals->count < sent);
        if (counts_drops(b)) assert_int_equal(arrivals->count + b->ops->drops(b), sent);
        assert_int_equal(a->ops->drops(a), 0);
        ports_close(a, b);
    }
}

/* Without GSO the packets are the same. */
static void a_kernel_without_gso_is_sent_each_packet(void **state)
{
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]);
    struct arrivals *arrivals = &(struct arrivals){0};
    int fds[2], on = 1;
    /* Without checksums it cannot cut bursts: EIO. */
    static struct capture capture;
    assert_int_equal(a->ops->descriptors(a, fds), 2);
    assert_int_equal(aqi_log_configure("udp=info"), AQ_OK);
    capture_start(&capture);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(packet_send(a, AQI_DGRAM_DATA, &b->address, 20 * i, 20, 1472, 77));
    const char *text = strstr(capture_end(&capture), "UDP_SEGMENT");
    assert_non_null(text);
    assert_null(strstr(text + 1, "UDP_SEGMENT")); /* tried once only */
    packet_await(b, arrivals, 60);
    packet_drain(b, arrivals);
    assert_int_equal(arrivals->count, 60);
    assert_all(arrivals, 0, 60);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(arrivals->len[i], i % 20 == 19 ? 77 : 1472);
    ports_close(a, b);
}

static void peers_without_a_listener_are_reported(void **state)
{
    for (unsigned family = 0; family < (has_ipv6() ? 2u : 1u); family++) {
        struct aqi_port *a = open_at(hosts[family]), *b = open_at(hosts[family]);
        struct aqi_port *gone = open_at(hosts[family]);
        struct aqi_dgram_addr address = gone->address, refused;
        struct arrivals arrivals = {0};
        gone->ops->close(gone);
        assert_false(a->ops->refused(a, &refused));
        assert_true(packet_send(a, AQI_DGRAM_COMMAND, &address, 1, 1, 64, 64));
        /* This does not affect packets to others. */
        assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, 2, 1, 64, 64));
        packet_await(b, &arrivals, 1);
        assert_int_equal(a->ops->drops(a), 0);
        (void)a->ops->receive(a, AQI_PORT_DEEP, packet_take, &arrivals);
        assert_true(a->ops->refused(a, &refused));
        assert_true(port_same(&address, &refused));
        assert_false(port_same(&b->address, &refused));
        assert_false(a->ops->refused(a, &refused));
        ports_close(a, b);
    }
}

/* With one peer the sockets are connected, both ways and with bursts, and strangers are ignored. */
static void one_peer_alone_is_heard(void **state)
{
    for (unsigned i = 0; i < AQI_COUNT_OF(hosts); i++) {
        if (i == 1 && !has_ipv6()) continue;
        struct aqi_port_params params = {.interface = hosts[i], .one_peer = true};
        struct aqi_port *a = open_port(&params), *b = open_port(&params), *c = open_at(hosts[i]);
        struct arrivals here = {0}, there = {0};
        for (unsigned channel = 0; channel < AQI_DGRAM_CHANNELS; channel++) {
            enum aqi_dgram_channel at = (enum aqi_dgram_channel)channel;
            assert_true(packet_send(a, at, &b->address, 10 * channel, 5, 64, 64));
            packet_await(b, &there, 5 + 5 * channel);
            assert_true(packet_send(b, at, &a->address, 100 + channel, 1, 64, 64));
            packet_await(a, &here, 1 + channel);
            assert_true(packet_send(c, at, &a->address, 200 + channel, 1, 64, 64));
            assert_true(packet_send(b, at, &a->address, 300 + channel, 2, 64, 64));
            packet_await(a, &here, 3 + 3 * channel);
        }
        packet_drain(a, &here);
        assert_int_equal(here.count, 6);
        assert_int_equal(here.altered + there.altered + here.times[200] + here.times[201], 0);
        assert_true(port_same(&b->address, &here.from));
        ports_close(a, b);
        c->ops->close(c);
    }
}

/* A ping costs one look at one socket: a silent one is skipped unless the look is deep. */
static void data_is_looked_for_while_it_comes(void **state)
{
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]);
    struct arrivals arrivals = {0};
    assert_true(packet_send(a, AQI_DGRAM_DATA, &b->address, 1, 1, 64, 64));
    assert_int_equal(b->ops->receive(b, AQI_PORT_SHORT, packet_take, &arrivals), 0);
    assert_int_equal(b->ops->receive(b, AQI_PORT_DEEP, packet_take, &arrivals), 1);
    assert_true(packet_send(a, AQI_DGRAM_DATA, &b->address, 2, 1, 64, 64));
    assert_int_equal(b->ops->receive(b, AQI_PORT_SHORT, packet_take, &arrivals), 1);
    for (unsigned i = 0; i < 5000; i++)
        assert_int_equal(b->ops->receive(b, AQI_PORT_SHORT, packet_take, &arrivals), 0);
    assert_true(packet_send(a, AQI_DGRAM_DATA, &b->address, 3, 1, 64, 64));
    assert_int_equal(b->ops->receive(b, AQI_PORT_SHORT, packet_take, &arrivals), 0);
    assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, 4, 1, 64, 64));
    assert_int_equal(b->ops->receive(b, AQI_PORT_SHORT, packet_take, &arrivals), 1);
    assert_int_equal(b->ops->receive(b, AQI_PORT_DEEP, packet_take, &arrivals), 1);
    ports_close(a, b);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A port that is polled rarely reports how long packets have waited, once the kernel timestamps
 * them, and takes all packets at once. */
static void rare_looks_tell_since_when(void **state)
{
    enum { LAY = 3000000, SECOND = 1000000000 };
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]);
    struct arrivals arrivals = {0};
    int fds[2], on = 0;
    socklen_t len = sizeof(on);
    assert_int_equal(b->ops->descriptors(b, fds), 2);
    for (unsigned channel = 0; channel < AQI_DGRAM_CHANNELS; channel++) {
        enum aqi_dgram_channel at = (enum aqi_dgram_channel)channel;
        assert_true(packet_send(a, at, &b->address, 10 * channel, 4, 480, 480));
        assert_true(packet_send(a, at, &b->address, 10 * channel + 4, 1, 64, 64));
        assert_int_equal(b->ops->receive(b, AQI_PORT_RARE, packet_take, &arrivals), 5);
        assert_true(arrivals.waited == AQI_DGRAM_NEVER);
    }
    assert_true(packet_send(a, AQI_DGRAM_DATA, &b->address, 40, 1, 64, 64));
    assert_int_equal(b->ops->receive(b, AQI_PORT_RARE, packet_take, &arrivals), 1);
    bool marks = getsockopt(fds[1], SOL_SOCKET, SO_TIMESTAMPNS, &on, &len) == 0 && on != 0;
    for (unsigned channel = 0; marks && channel < AQI_DGRAM_CHANNELS; channel++) {
        uint64_t begin = 0;
        enum aqi_dgram_channel at = (enum aqi_dgram_channel)channel;
        arrivals.waited = 0;
        /* The kernel begins to timestamp when it likes. */
        for (unsigned i = 0; i < 500 && (arrivals.waited < LAY / 2 || arrivals.waited > SECOND);
             i++) {
            begin = clock_ns();
            assert_true(packet_send(a, at, &b->address, 20 + channel, 1, 64, 64));
            uint64_t sent = clock_ns();
            while (clock_ns() < sent + LAY)
                continue;
            assert_int_equal(b->ops->receive(b, AQI_PORT_RARE, packet_take, &arrivals), 1);
        }
        assert_in_range(arrivals.waited, LAY / 2, clock_ns() - begin + LAY);
        assert_true(packet_send(a, at, &b->address, 30 + channel, 1, 64, 64));
        assert_int_equal(b->ops->receive(b, AQI_PORT_DEEP, packet_take, &arrivals), 1);
        assert_int_equal(arrivals.waited, 0);
    }
    /* Frequent looks switch timestamps off. */
    for (unsigned i = 0; i < 20000; i++)
        (void)b->ops->receive(b, AQI_PORT_SHORT, packet_take, &arrivals);
    if (marks) (void)getsockopt(fds[0], SOL_SOCKET, SO_TIMESTAMPNS, &on, &len);
    assert_true(!marks || on == 0);
    assert_int_equal(arrivals.altered + arrivals.misplaced, 0);
    ports_close(a, b);
}

static int gro_of(struct aqi_port *port, enum aqi_dgram_channel channel)
{
    int fds[2], on = -1;
    socklen_t len = sizeof(on);
    port->ops->descriptors(port, fds);
    return getsockopt(fds[channel], IPPROTO_UDP, UDP_GRO, &on, &len) == 0 ? on : -1;
}

/* Send bursts of `count` to COMMAND until GRO is as wanted, and at most 1,000; all packets must
 * arrive. */
static void send_until(struct aqi_port *a, struct aqi_port *b, struct arrivals *arrivals,
                       unsigned count, int wanted)
{
    memset(arrivals, 0, sizeof(*arrivals));
    for (unsigned i = 0; i < 1000 && gro_of(b, AQI_DGRAM_COMMAND) != wanted; i++) {
        assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, arrivals->count, count, 41, 41));
        packet_await(b, arrivals, arrivals->count + count);
        assert_int_equal(b->ops->receive(b, AQI_PORT_SHORT, packet_take, arrivals), 0);
    }
    assert_int_equal(gro_of(b, AQI_DGRAM_COMMAND), wanted);
    assert_true(arrivals->count > 0);
    assert_all(arrivals, 0, arrivals->count);
}

/* GRO is off for a receiver of single messages, and on for one that is flooded. */
static void gro_is_for_company(void **state)
{
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]);
    struct arrivals *arrivals = &(struct arrivals){0};
    bool has = gro_of(b, AQI_DGRAM_DATA) == 1;
    if (has) {
        assert_int_equal(gro_of(b, AQI_DGRAM_COMMAND), 0);
        for (unsigned i = 0; i < 3; i++) {
            send_until(a, b, arrivals, 32, 1);
            send_until(a, b, arrivals, 1, 0);
        }
    }
    ports_close(a, b);
    if (!has) skip();
}

static void small_packets_that_met_are_aligned(void **state)
{
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]);
    struct arrivals *arrivals = &(struct arrivals){0};
    assert_true(packet_send(a, AQI_DGRAM_COMMAND, &b->address, 0, 30, 41, 39));
    packet_await(b, arrivals, 30);
    assert_all(arrivals, 0, 30);
    ports_close(a, b);
}

static void packets_have_the_size_asked_for(void **state)
{
    static const size_t wanted[][2] = {{0, 8944},  {1472, 1472},   {1479, 1472},
                                       {576, 576}, {40000, 40000}, {100000, AQI_DGRAM_MOST_PACKET}};
    for (size_t i = 0; i < AQI_COUNT_OF(wanted); i++) {
        struct aqi_port *port =
            open_port(&(struct aqi_port_params){.interface = hosts[0], .packet = wanted[i][0]});
        assert_int_equal(port->limits.packet, wanted[i][1]);
        assert_true(port->limits.room >= 2 * port->limits.packet);
        assert_string_equal(port->limits.interface, "lo");
        assert_memory_equal(port->limits.text, "127.0.0.1:", 10);
        port->ops->close(port);
    }
    const char *text =
        refusal(&(struct aqi_port_params){.interface = hosts[0], .packet = 500}, AQ_EINVAL);
    assert_non_null(strstr(text, "packets of 500 bytes were requested; at least 576"));
}

static void without_descriptors_it_says_so(void **state)
{
    struct rlimit all, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    int next = dup(STDERR_FILENO), captured = dup(STDERR_FILENO), file = dup(STDERR_FILENO);
    few = all;
    few.rlim_cur = (rlim_t)file + 1; /* the capture takes two, so one is left for us */
    close(next), close(captured), close(file);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const char *text = refusal(&(struct aqi_port_params){.interface = hosts[0]}, AQ_ELIMIT);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
    assert_non_null(strstr(text, "socket"));
}

static void malformed_addresses_are_lost_and_reported(void **state)
{
    struct aqi_port *a = open_at(hosts[0]);
    struct aqi_dgram_addr odd[3] = {{.len = 0}, {.len = 9, .bytes = {9}}, {.len = 5, .bytes = {4}}};
    char text[64];
    for (unsigned i = 0; i < 3; i++) {
        assert_true(packet_send(a, AQI_DGRAM_COMMAND, &odd[i], 1, 2, 64, 64));
        assert_int_equal(a->ops->drops(a), 2 * (i + 1));
        ports_address_text(&odd[i], text, sizeof(text));
        assert_string_equal(text, "an unknown address");
        assert_false(port_same(&odd[i], &odd[i]));
    }
    a->ops->close(a);
}

/* A peer of the other family is not reached; others are as fast as before. */
static void peers_of_another_family_are_reported(void **state)
{
    if (!has_ipv6()) skip();
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]), *six = open_at(hosts[1]);
    struct arrivals *arrivals = &(struct arrivals){0};
    static struct capture capture;
    assert_int_equal(aqi_log_configure("udp=info"), AQ_OK);
    capture_start(&capture);
    bool sent = packet_send(a, AQI_DGRAM_DATA, &six->address, 0, 5, 512, 512) &&
                packet_send(six, AQI_DGRAM_DATA, &a->address, 0, 5, 512, 512) &&
                packet_send(a, AQI_DGRAM_DATA, &b->address, 0, 5, 512, 512) &&
                packet_send(six, AQI_DGRAM_DATA, &six->address, 0, 5, 512, 512);
    const char *text = capture_end(&capture);
    assert_true(sent);
    assert_int_equal(a->ops->drops(a), 5);
    assert_int_equal(six->ops->drops(six), 5);
    assert_non_null(strstr(text, "all processes need addresses of one family"));
    assert_null(strstr(text, "UDP_SEGMENT"));
    packet_await(b, arrivals, 5);
    packet_await(six, arrivals, 10);
    assert_int_equal(arrivals->altered, 0);
    ports_close(a, b);
    six->ops->close(six);
}

/* qemu-user sends the readable part. */
static bool kernel_refuses(const struct iovec *iov, int niov)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
    bool refuses = writev(fds[0], iov, niov) < 0 && errno == EFAULT;
    close(fds[0]);
    close(fds[1]);
    return refuses;
}

/*
 * Data that cannot be read is lost and reported once, but not logged; so is a burst with such a
 * part.
 */
static void unreadable_sockets_are_reported(void **state)
{
    static struct capture capture;
    static char head[64];
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]);
    struct arrivals arrivals = {0};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *two = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(two != MAP_FAILED && mprotect(two + page, page, PROT_NONE) == 0);
    struct iovec iov[2] = {{head, sizeof(head)}, {two + page - 64, 128}};
    if (!kernel_refuses(iov, 2)) {
        print_message("an emulator reads memory before the kernel does\n");
        skip();
    }
    capture_start(&capture);
    bool alone = a->ops->send(a, AQI_DGRAM_DATA, &b->address, iov, 2, 192, 1);
    bool reported = a->ops->unreadable(a), again = a->ops->unreadable(a);
    bool burst = a->ops->send(a, AQI_DGRAM_DATA, &b->address, iov, 2, 64, 3);
    const char *text = capture_end(&capture);
    assert_true(alone && reported && burst);
    assert_false(again);
    assert_true(a->ops->unreadable(a));
    assert_int_equal(a->ops->drops(a), 4);
    assert_string_equal(text, "");
    assert_int_equal(mprotect(two + page, page, PROT_READ), 0);
    assert_true(a->ops->send(a, AQI_DGRAM_DATA, &b->address, iov, 2, 192, 1));
    packet_await(b, &arrivals, 1);
    packet_drain(b, &arrivals);
    assert_int_equal(arrivals.count, 1);
    assert_false(a->ops->unreadable(a));
    munmap(two, 2 * page);
    ports_close(a, b);
}

/* The user is warned once if the program closes the library's descriptors or opens files in their
 * place; no look waits for the error to pass, not even the one that switches GRO off. */
static void a_descriptor_that_is_gone_is_reported(void **state)
{
    static struct capture capture;
    struct aqi_port *a = open_at(hosts[0]), *b = open_at(hosts[0]);
    struct arrivals *arrivals = &(struct arrivals){0};
    int fds[2], file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    b->ops->descriptors(b, fds);
    int kept = dup(fds[AQI_DGRAM_COMMAND]);
    assert_true(file >= 0 && kept >= 0);
    if (gro_of(b, AQI_DGRAM_DATA) == 1) send_until(a, b, arrivals, 32, 1);
    memset(arrivals, 0, sizeof(*arrivals));
    capture_start(&capture);
    bool deaf = true;
    for (unsigned i = 0; i < 200; i++) { /* fewer switch GRO off */
        bool sent = packet_send(a, AQI_DGRAM_COMMAND, &b->address, i, 1, 64, 64);
        deaf = deaf && sent && b->ops->receive(b, AQI_PORT_SHORT, packet_take, arrivals) == 1;
        deaf = deaf && dup2(file, fds[AQI_DGRAM_COMMAND]) >= 0;
        deaf = deaf && b->ops->receive(b, AQI_PORT_SHORT, packet_take, arrivals) == 0;
        deaf = deaf && dup2(kept, fds[AQI_DGRAM_COMMAND]) >= 0;
    }
    const char *text = capture_end(&capture);
    assert_true(deaf);
    assert_true(b->deaf);
    const char *reported = strstr(text, "cannot receive packets");
    assert_non_null(reported);
    assert_non_null(strstr(reported, "must not close descriptors"));
    assert_null(strstr(reported + 1, "cannot receive packets"));
    assert_all(arrivals, 0, 200);
    close(file);
    close(kept);
    ports_close(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursts_over_ipv4),
        cmocka_unit_test(bursts_over_ipv6),
        cmocka_unit_test(an_answer_to_where_it_came_from_arrives),
        cmocka_unit_test(each_of_two_receivers_gets_its_own),
        cmocka_unit_test(receiving_nests_once),
        cmocka_unit_test(a_full_buffer_tells_what_is_lost),
        cmocka_unit_test(a_kernel_without_gso_is_sent_each_packet),
        cmocka_unit_test(peers_without_a_listener_are_reported),
        cmocka_unit_test(one_peer_alone_is_heard),
        cmocka_unit_test(data_is_looked_for_while_it_comes),
        cmocka_unit_test(rare_looks_tell_since_when),
        cmocka_unit_test(gro_is_for_company),
        cmocka_unit_test(small_packets_that_met_are_aligned),
        cmocka_unit_test(packets_have_the_size_asked_for),
        cmocka_unit_test(without_descriptors_it_says_so),
        cmocka_unit_test(malformed_addresses_are_lost_and_reported),
        cmocka_unit_test(peers_of_another_family_are_reported),
        cmocka_unit_test(unreadable_sockets_are_reported),
        cmocka_unit_test(a_descriptor_that_is_gone_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
