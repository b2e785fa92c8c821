/*
 * The limits of ranks that share no memory: plain UDP sockets, for comparison with datagram
 * transports. Bursts are sent and received with one call (GSO, GRO).
 */
#include "base/here.h"
#include "perf.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define SEGMENT  8944u   /* maximum bytes of a datagram */
#define SEGMENTS 64u     /* maximum datagrams per call */
#define BURST    63488u  /* maximum bytes per call */
#define WINDOW   262144u /* bytes in flight, for which a kernel buffer has room */

static int channel = -1; /* a socket, connected to the peer's */
static size_t room;      /* size of its buffer, as counted by the kernel */
static unsigned char incoming[65536], outgoing[65536];

/* Retry until the call succeeds; no datagrams should be lost. */
static ssize_t transfer(struct perf *perf, ssize_t (*call)(int, struct msghdr *),
                        struct msghdr *message)
{
    double begun = 0;
    ssize_t done;
    for (unsigned polls = 0; (done = call(channel, message)) < 0;) {
        limits_empty_poll(perf, &polls);
        if (polls % 65536 != 1) continue;
        if (begun == 0) begun = measure_now_ns();
        if (measure_now_ns() - begun < 10e9) continue;
        fprintf(stderr, "aqperf: a datagram between plain UDP sockets was lost\n");
        perf->api->quit(1);
    }
    return done;
}

static ssize_t call_send(int fd, struct msghdr *message)
{
    return sendmsg(fd, message, 0);
}

static ssize_t call_receive(int fd, struct msghdr *message)
{
    return recv(fd, message->msg_iov->iov_base, message->msg_iov->iov_len, 0);
}

static size_t receive(struct perf *perf)
{
    struct iovec all = {incoming, sizeof incoming};
    return (size_t)transfer(perf, call_receive, &(struct msghdr){.msg_iov = &all});
}

static void send_burst(struct perf *perf, size_t len, size_t segment)
{
    union {
        struct cmsghdr header;
        unsigned char bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control;
    struct iovec all = {outgoing, len};
    struct msghdr message = {.msg_iov = &all, .msg_iovlen = 1};
    if (len > segment) {
        uint16_t size = (uint16_t)segment;
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header = (struct cmsghdr){
            .cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof size)};
        memcpy(CMSG_DATA(&control.header), &size, sizeof size);
    }
    (void)transfer(perf, call_send, &message);
}

/*
 * If a rank computes, the window is what its buffer can hold: small packets occupy a multiple of
 * their payload.
 */
static uint64_t window(const struct perf *perf, size_t segment)
{
    if (perf->target_computes_ns == 0) return WINDOW;
    return room / (segment < 512 ? 8 : 4) & ~(size_t)3;
}

/* Bytes of such datagrams that one call sends. */
static size_t burst_of(size_t segment)
{
    size_t burst = BURST / segment * segment;
    return burst < SEGMENTS * segment ? burst : SEGMENTS * segment;
}

/* Send this many bytes in datagrams of `segment` bytes. Each quarter of the window is
 * acknowledged. */
static void send_bytes(struct perf *perf, uint64_t bytes, size_t segment)
{
    const size_t burst = burst_of(segment);
    const uint64_t limit = window(perf, segment), quarter = limit / 4;
    uint64_t acknowledged = 0;
    for (uint64_t at = 0; at < bytes;) {
        size_t len = bytes - at < burst ? (size_t)(bytes - at) : burst;
        while (at + len > acknowledged + limit) {
            receive(perf);
            memcpy(&acknowledged, incoming, sizeof acknowledged);
        }
        send_burst(perf, len, segment);
        at += len;
    }
    while (acknowledged < bytes / quarter * quarter) {
        receive(perf);
        memcpy(&acknowledged, incoming, sizeof acknowledged);
    }
}

static void receive_bytes(struct perf *perf, uint64_t bytes, size_t segment)
{
    const uint64_t quarter = window(perf, segment) / 4;
    for (uint64_t got = 0, acknowledged = 0; got < bytes;) {
        got += receive(perf);
        if (got / quarter == acknowledged / quarter) continue;
        acknowledged = got;
        memcpy(outgoing, &got, sizeof got);
        send_burst(perf, sizeof got, sizeof got);
    }
}

/* A stream consists of messages, so a datagram has the size of a message. */
static size_t segment_of(size_t size)
{
    return at_least_word(size) < SEGMENT ? at_least_word(size) : SEGMENT;
}

/* `n` times, transfer `out` bytes from rank 0 to rank 1, and then `in` bytes back. */
static void exchange(struct perf *perf, uint64_t n, uint64_t out, uint64_t in, size_t segment)
{
    for (uint64_t i = 0; i < n; i++) {
        if (perf->rank == 0) send_bytes(perf, out, segment);
        receive_bytes(perf, perf->rank == 0 ? in : out, segment);
        if (perf->rank != 0) send_bytes(perf, in, segment);
    }
}

/* Run by both ranks: exchange these numbers of bytes, out and in, this many times. */
#define SOCKET_LIMIT(name, times, out, in)                                                         \
    void limits_socket_##name(struct perf *perf, size_t size, uint64_t n)                          \
    {                                                                                              \
        const uint64_t bytes = at_least_word(size);                                                \
        exchange(perf, times, out, in, segment_of(size));                                          \
    }
SOCKET_LIMIT(echo, n, bytes, bytes)
SOCKET_LIMIT(out, n, bytes, WORD)
SOCKET_LIMIT(in, n, WORD, bytes)
SOCKET_LIMIT(answer, n, WORD, bytes)
SOCKET_LIMIT(stream_out, 1, n *bytes, WORD)
SOCKET_LIMIT(stream_in, 1, WORD, n *bytes)

/*
 * Send rows to both sides, which are the same peer here. The peer's buffer has room for the rows
 * of two steps, and no rank gets further ahead.
 */
void limits_socket_halo(struct perf *perf, size_t size, uint64_t n)
{
    const uint64_t bytes = 2 * at_least_word(size);
    const size_t segment = segment_of(size), burst = burst_of(segment);
    static uint64_t early; /* bytes received of the next step */
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t at = 0; at < bytes; at += burst)
            send_burst(perf, bytes - at < burst ? (size_t)(bytes - at) : burst, segment);
        compute_for(perf->interval_ns);
        while (early < bytes)
            early += receive(perf);
        early -= bytes;
    }
}

bool limits_socket_takes(size_t size)
{
    return 16 * size <= room;
}

uint64_t limits_open_socket(const struct perf *perf)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int bytes = 16 * WINDOW, on = 1;
    if (perf->rank > 1 || perf->neighbors >= perf->ranks || strcmp(perf->transport, "shm") == 0)
        return 0;
    channel = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (channel < 0 || bind(channel, (struct sockaddr *)&at, sizeof at) != 0 ||
        getsockname(channel, (struct sockaddr *)&at, &len) != 0 ||
        setsockopt(channel, IPPROTO_UDP, UDP_GRO, &on, sizeof on) != 0)
        return 0;
    (void)setsockopt(channel, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    (void)setsockopt(channel, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    len = sizeof bytes;
    if (getsockopt(channel, SOL_SOCKET, SO_RCVBUF, &bytes, &len) != 0) return 0;
    room = (size_t)bytes;
    return aqi_here_network() << 16 | ntohs(at.sin_port);
}

/* The first word from the peer is its pid. The peer may need this rank to poll in order to get its
 * port. */
static bool peer_answers(const struct perf *perf)
{
    struct pollfd wait = {.fd = channel, .events = POLLIN};
    double begun = measure_now_ns();
    for (uint64_t pid = 0; measure_now_ns() - begun < 2e9;) {
        perf->api->poll();
        (void)poll(&wait, 1, 1);
        if (recv(channel, &pid, sizeof pid, 0) == sizeof pid && pid == perf->peer_pid) return true;
    }
    errno = ETIMEDOUT;
    return false;
}

bool limits_connect_socket(struct perf *perf, uint64_t place)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)place),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (place == 0 || channel < 0 || place >> 16 != aqi_here_network() << 16 >> 16) return false;
    if (connect(channel, (struct sockaddr *)&at, sizeof at) != 0 ||
        send(channel, &perf->mine->pid, sizeof perf->mine->pid, 0) < 0 || !peer_answers(perf)) {
        fprintf(stderr,
                "aqperf: rank %u: the limit of UDP without the library was not measured: no answer "
                "between plain sockets (%s)\n",
                perf->rank, strerror(errno));
        return false;
    }
    return true;
}
