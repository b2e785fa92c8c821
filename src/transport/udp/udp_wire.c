/* A port of one connected UDP socket, for uses that need neither speed nor a socket for each
 * channel. */
#include "base/fail.h"
#include "base/log.h"
#include "base/unforked.h"
#include "dgram/ports/receive_error.h"
#include "dgram/ports/send_error.h"
#include "dgram/ports/slice.h"
#include "transport/udp/udp_channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The size that every path of IPv6 carries, without headers. */
enum { WIRE_PACKET = 1232, WIRE_ROOM = 64 << 10, WIRE_BATCH = 16 };

struct wire_port {
    struct aqi_port port;
    int fd;
    bool refused, errors; /* there is no receiver; the error queue must be read */
    int error;            /* the last error */
    alignas(16) unsigned char buffer[WIRE_PACKET + 16];
};

static void udp_wire_close(struct aqi_port *port)
{
    aqi_unforked_close(((struct wire_port *)port)->fd);
    free(port);
}

/* Note an error that the network reported for an earlier packet. */
static void udp_wire_note(struct wire_port *self, int error)
{
    self->errors = true;
    self->error = error;
    self->refused = self->refused || error == ECONNREFUSED || error == EHOSTUNREACH ||
                    error == ENETUNREACH || error == EACCES;
}

/* Broken by the program, or a filter of system calls. */
static AQI_COLD void udp_wire_broken(int error, const char *reason)
{
    static atomic_bool once;
    aqi_log_once(&once, AQI_LOG_WARN, "udp",
                 "the socket of a connection can no longer be used: %s; %s", strerror(error),
                 reason);
}

static bool udp_wire_send(struct aqi_port *port, enum aqi_dgram_channel channel,
                          const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                          size_t segment, unsigned packets)
{
    struct wire_port *self = (struct wire_port *)port;
    struct ports_slices at = {.iov = iov, .niov = niov};
    struct iovec pieces[AQI_PORT_PIECES];
    (void)channel, (void)to;
    for (unsigned i = 0; i < packets; i++) {
        size_t len;
        struct msghdr message = {.msg_iov = pieces};
        message.msg_iovlen = ports_slice(&at, segment, pieces, &len);
        for (unsigned tries = 0; tries < 2; tries++) {
            if (sendmsg(self->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) break;
            int error = errno;
            const struct ports_send_error *row = ports_send_error(error);
            if (row->verdict == PORTS_NO_ROOM) return i > 0;
            if (!row->final) udp_wire_note(self, error);
            if (!row->final || row->verdict == PORTS_REPEAT) continue;
            if (!row->silent) udp_wire_broken(error, row->reason);
            break;
        }
    }
    return true;
}

static unsigned udp_wire_receive(struct aqi_port *port, enum aqi_port_look look,
                                 aqi_port_take *take, void *arg)
{
    static const struct aqi_dgram_addr nobody; /* there is one peer */
    struct wire_port *self = (struct wire_port *)port;
    unsigned n = 0;
    (void)look;
    for (unsigned i = 0; i < WIRE_BATCH; i++) {
        ssize_t len = recv(self->fd, self->buffer, sizeof(self->buffer), MSG_DONTWAIT);
        if (len < 0 && errno == EAGAIN) break;
        if (len < 0) {
            int error = errno;
            const struct ports_receive_error *row = ports_receive_error(error);
            if (row->verdict == PORTS_NOTHING) break;
            if (row->verdict != PORTS_REREAD) udp_wire_note(self, error);
            if (row->verdict < PORTS_DEAF) continue;
            udp_wire_broken(error, row->reason);
            break;
        }
        take(arg, AQI_DGRAM_COMMAND, &nobody, self->buffer, (size_t)len, 0);
        n++;
    }
    return n;
}

static bool udp_wire_refused(struct aqi_port *port, struct aqi_dgram_addr *addr)
{
    struct wire_port *self = (struct wire_port *)port;
    unsigned char byte;
    /* The socket is readable until its errors are read. */
    while (self->errors && recv(self->fd, &byte, sizeof(byte), MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
        continue;
    bool refused = self->refused;
    self->errors = self->refused = false;
    memset(addr, 0, sizeof(*addr));
    return refused;
}

/* A control channel calls no other operation. */
static const struct aqi_port_ops wire_ops = {.close = udp_wire_close,
                                             .send = udp_wire_send,
                                             .receive = udp_wire_receive,
                                             .refused = udp_wire_refused};

int udp_wire_error(const struct aqi_port *wire)
{
    return ((const struct wire_port *)wire)->error;
}

aq_status udp_wire_open(int fd, struct aqi_port **port)
{
    int on = 1;
    struct wire_port *self = calloc(1, sizeof(*self));
    if (self == NULL) return aqi_fail(AQ_ENOMEM, "udp", "no memory for a socket");
    /*
     * Without this option the kernel does not report unreachable hosts; one of the two does not
     * apply.
     */
    (void)setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on));
    self->port.ops = &wire_ops;
    self->port.address.len = 1; /* the engine requires one */
    self->port.limits = (struct aqi_port_limits){.packet = WIRE_PACKET, .room = WIRE_ROOM};
    self->fd = fd;
    aqi_unforked_add(fd);
    *port = &self->port;
    return AQ_OK;
}
