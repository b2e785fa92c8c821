/* For tests of ports: numbered packets, and a list of those that have arrived. */
#ifndef PORTS_PORT_TEST_H
#define PORTS_PORT_TEST_H

#include "base/capture_test.h"
#include "dgram/ports/address.h"
#include "dgram/ports/port.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { PACKETS = 4096 };

struct arrivals {
    unsigned count, altered, misplaced;
    unsigned times[PACKETS]; /* how many times each number arrived */
    uint32_t order[PACKETS];
    size_t len[PACKETS];
    enum aqi_dgram_channel channel;
    struct aqi_dgram_addr from;
    uint64_t waited; /* that of the latest */
};

/* Whether `seen`, from take or refused, is part of the address that a peer has announced. */
static inline bool port_same(const struct aqi_dgram_addr *given, const struct aqi_dgram_addr *seen)
{
    union aqi_sockaddr a, b;
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS; i++) {
        enum aqi_dgram_channel channel = (enum aqi_dgram_channel)i;
        if (ports_address_to(given, channel, 0, &a) && ports_address_to(seen, channel, 0, &b) &&
            aqi_sockaddr_same_ip(&a.any, &b.any) &&
            *aqi_sockaddr_port(&a) == *aqi_sockaddr_port(&b))
            return true;
    }
    return false;
}

/* The byte at `at` of packet `number`; the number itself comes first. */
static inline unsigned char packet_byte(uint32_t number, size_t at)
{
    return at < 4 ? (unsigned char)(number >> 8 * at)
                  : (unsigned char)((number * 2654435761u >> 24) + at * 13);
}

static inline void packet_fill(unsigned char *packet, uint32_t number, size_t len)
{
    for (size_t i = 0; i < len; i++)
        packet[i] = packet_byte(number, i);
}

static inline void packet_take(void *arg, enum aqi_dgram_channel channel,
                               const struct aqi_dgram_addr *from, unsigned char *packet, size_t len,
                               uint64_t waited)
{
    struct arrivals *arrivals = arg;
    uint32_t number = 0;
    arrivals->waited = waited;
    if (len >= 4) memcpy(&number, packet, 4);
    bool whole = len >= 4 && number < PACKETS;
    for (size_t i = 0; i < len && whole; i++)
        whole = packet[i] == packet_byte(number, i);
    if ((uintptr_t)packet % 16 != 0) arrivals->misplaced++;
    if (!whole) {
        arrivals->altered++;
    } else {
        arrivals->times[number]++;
        arrivals->len[number] = len;
        arrivals->order[arrivals->count % PACKETS] = number;
    }
    arrivals->count++;
    arrivals->channel = channel;
    arrivals->from = *from;
    memset(packet, 0xee, len); /* it may be written to, without harm to the next */
}

/* Send a burst that begins with packet `first`, gathered from pieces of odd lengths. */
static inline bool packet_send(struct aqi_port *port, enum aqi_dgram_channel channel,
                               const struct aqi_dgram_addr *to, uint32_t first, unsigned count,
                               size_t segment, size_t last)
{
    static unsigned char bytes[AQI_DGRAM_BURST];
    struct iovec pieces[256];
    unsigned n = 0;
    size_t len = (count - 1) * segment + last;
    assert_true(len <= sizeof(bytes));
    for (unsigned i = 0; i < count; i++)
        packet_fill(bytes + i * segment, first + i, i + 1 < count ? segment : last);
    for (size_t at = 0; at < len; n++) {
        size_t piece = len - at < 401 ? len - at : 401 + n % 3 * 100;
        if (piece > len - at) piece = len - at;
        pieces[n] = (struct iovec){bytes + at, piece};
        at += piece;
    }
    return port->ops->send(port, channel, to, pieces, n, segment, count);
}

/* Receive until `count` packets have arrived, or none for 10 s. */
static inline void packet_await(struct aqi_port *port, struct arrivals *arrivals, unsigned count)
{
    while (arrivals->count < count) {
        int fds[2] = {-1, -1};
        unsigned n = port->ops->descriptors(port, fds);
        struct pollfd polled[2] = {{.fd = fds[0], .events = POLLIN},
                                   {.fd = fds[1], .events = POLLIN}};
        if (port->ops->receive(port, AQI_PORT_DEEP, packet_take, arrivals) == 0)
            assert_true(poll(polled, n, 10000) > 0);
    }
}

static inline void ports_close(struct aqi_port *a, struct aqi_port *b)
{
    a->ops->close(a);
    b->ops->close(b);
}

/* Receive all packets: loopback delivers before the call that sends returns. */
static inline void packet_drain(struct aqi_port *port, struct arrivals *arrivals)
{
    while (port->ops->receive(port, AQI_PORT_DEEP, packet_take, arrivals) != 0)
        continue;
}

#endif
