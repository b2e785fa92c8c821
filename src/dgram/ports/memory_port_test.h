/* A network inside a process, for tests: ports that find each other in a list, and drop packets
 * that they have no room for. */
#ifndef DGRAM_MEMORY_PORT_TEST_H
#define DGRAM_MEMORY_PORT_TEST_H

#include "base/fail.h"
#include "base/kick.h"
#include "base/shmem.h"
#include "base/spin.h"
#include "dgram/ports/address.h"
#include "dgram/ports/port.h"
#include "dgram/ports/slice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct aqi_port_ops memory_port_ops;

enum { MEMORY_PACKET = 8944, MEMORY_ROOM = 4 << 20, MEMORY_BATCH = 64 };

struct memory_packet {
    struct memory_packet *next;
    struct aqi_dgram_addr from;
    size_t len;
    alignas(16) unsigned char bytes[];
};

struct memory_queue {
    struct memory_packet *first, **last;
};

struct memory_port {
    struct aqi_port port;
    struct memory_port *next;
    struct memory_queue queues[AQI_DGRAM_CHANNELS];
    size_t kept; /* bytes in them */
    int kick;    /* readable while there is something in them, or `refused` */
    bool refused;
    struct aqi_dgram_addr nobody; /* the address that refused last */
    uint64_t dropped;
};

/* The network. One lock for all: it is for tests, not for speed. */
static struct {
    struct aqi_spin lock;
    struct memory_port *first;
    uint16_t last_number;
} memory;

static struct memory_port *memory_find(const struct aqi_dgram_addr *to)
{
    struct memory_port *at = memory.first;
    while (at != NULL && memcmp(to, &at->port.address, sizeof(*to)) != 0)
        at = at->next;
    return at;
}

static void memory_refuse(struct memory_port *self, const struct aqi_dgram_addr *to)
{
    self->refused = true;
    self->nobody = *to;
    aqi_kick(self->kick);
}

static void memory_put(struct memory_port *to, enum aqi_dgram_channel channel,
                       const struct memory_port *from, const struct iovec *iov, unsigned niov,
                       size_t len)
{
    struct memory_packet *packet = NULL;
    if (len <= to->port.limits.packet && to->kept + len <= to->port.limits.room)
        packet = aligned_alloc(16, aqi_round_up(sizeof(*packet) + len, 16));
    if (packet == NULL) {
        to->dropped++;
        return;
    }
    *packet = (struct memory_packet){.from = from->port.address, .len = len};
    for (unsigned i = 0, at = 0; i < niov; at += (unsigned)iov[i++].iov_len)
        memcpy(packet->bytes + at, iov[i].iov_base, iov[i].iov_len);
    *to->queues[channel].last = packet;
    to->queues[channel].last = &packet->next;
    if (to->kept == 0) aqi_kick(to->kick);
    to->kept += len;
}

static bool memory_send(struct aqi_port *port, enum aqi_dgram_channel channel,
                        const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                        size_t segment, unsigned packets)
{
    struct memory_port *self = (struct memory_port *)port;
    struct ports_slices all = {.iov = iov, .niov = niov};
    struct iovec pieces[AQI_PORT_PIECES];
    aqi_spin_lock(&memory.lock);
    struct memory_port *there = memory_find(to);
    if (there == NULL) memory_refuse(self, to);
    for (unsigned i = 0; i < packets && there != NULL; i++) {
        size_t len;
        unsigned n = ports_slice(&all, segment, pieces, &len);
        memory_put(there, channel, self, pieces, n, len);
    }
    aqi_spin_unlock(&memory.lock);
    return true;
}

/* With the lock held. */
static void memory_calm(struct memory_port *self)
{
    if (self->kept == 0 && !self->refused) (void)aqi_kick_take(self->kick);
}

static struct memory_packet *memory_next(struct memory_port *self, unsigned *channel)
{
    struct memory_packet *packet;
    aqi_spin_lock(&memory.lock);
    *channel = self->queues[AQI_DGRAM_COMMAND].first != NULL ? AQI_DGRAM_COMMAND : AQI_DGRAM_DATA;
    struct memory_queue *queue = &self->queues[*channel];
    packet = queue->first;
    if (packet != NULL) {
        queue->first = packet->next;
        if (queue->first == NULL) queue->last = &queue->first;
        self->kept -= packet->len;
    }
    memory_calm(self);
    aqi_spin_unlock(&memory.lock);
    return packet;
}

static unsigned memory_receive(struct aqi_port *port, enum aqi_port_look look, aqi_port_take *take,
                               void *arg)
{
    struct memory_packet *packet;
    unsigned n = 0, channel;
    (void)look;
    while (n < MEMORY_BATCH &&
           (packet = memory_next((struct memory_port *)port, &channel)) != NULL) {
        take(arg, (enum aqi_dgram_channel)channel, &packet->from, packet->bytes, packet->len, 0);
        free(packet);
        n++;
    }
    return n;
}

static unsigned memory_descriptors(struct aqi_port *port, int fds[2])
{
    fds[0] = ((struct memory_port *)port)->kick;
    return 1;
}

static bool memory_refused(struct aqi_port *port, struct aqi_dgram_addr *addr)
{
    struct memory_port *self = (struct memory_port *)port;
    aqi_spin_lock(&memory.lock);
    bool refused = self->refused;
    *addr = self->nobody;
    self->refused = false;
    memory_calm(self);
    aqi_spin_unlock(&memory.lock);
    return refused;
}

/* The memory is read in the call that sends. */
static bool memory_unreadable(struct aqi_port *port)
{
    (void)port;
    return false;
}

static uint64_t memory_drops(struct aqi_port *port)
{
    aqi_spin_lock(&memory.lock);
    uint64_t dropped = ((struct memory_port *)port)->dropped;
    aqi_spin_unlock(&memory.lock);
    return dropped;
}

static void memory_close(struct aqi_port *port)
{
    struct memory_port *self = (struct memory_port *)port, **at = &memory.first;
    struct memory_packet *packet;
    unsigned channel;
    aqi_spin_lock(&memory.lock);
    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
    aqi_spin_unlock(&memory.lock);
    while ((packet = memory_next(self, &channel)) != NULL)
        free(packet);
    close(self->kick);
    free(self);
}

static aq_status memory_open(const struct aqi_port_params *params, struct aqi_port **port)
{
    struct memory_port *self = calloc(1, sizeof(*self));
    int kick = aqi_kick_new();
    if (self == NULL || kick < 0) {
        free(self);
        if (kick < 0) return aqi_fail_no_fd(errno, "udp", "eventfd");
        close(kick);
        return aqi_fail(AQ_ENOMEM, "udp", "no memory for a port");
    }
    self->kick = kick;
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++)
        self->queues[c].last = &self->queues[c].first;
    self->port.ops = &memory_port_ops;
    self->port.limits = (struct aqi_port_limits){
        .packet = params->packet != 0 ? aqi_min(params->packet, AQI_DGRAM_MOST_PACKET) & ~(size_t)15
                                      : MEMORY_PACKET,
        .room = params->buffer != 0 ? params->buffer : MEMORY_ROOM,
        .interface = "memory"};
    aqi_spin_lock(&memory.lock);
    /* The process in place of a host: other processes have other networks. */
    const union aqi_sockaddr name = {.v4 = {.sin_family = AF_INET,
                                            .sin_addr.s_addr = (in_addr_t)getpid(),
                                            .sin_port = ++memory.last_number}};
    ports_address_seen(&name, AQI_DGRAM_COMMAND, &self->port.address);
    ports_address_add(&self->port.address, AQI_DGRAM_DATA, name.v4.sin_port);
    self->next = memory.first;
    memory.first = self;
    aqi_spin_unlock(&memory.lock);
    ports_address_text(&self->port.address, self->port.limits.text, sizeof(self->port.limits.text));
    *port = &self->port;
    return AQ_OK;
}

static const struct aqi_port_ops memory_port_ops = {.open = memory_open,
                                                    .close = memory_close,
                                                    .send = memory_send,
                                                    .receive = memory_receive,
                                                    .descriptors = memory_descriptors,
                                                    .refused = memory_refused,
                                                    .unreadable = memory_unreadable,
                                                    .drops = memory_drops};

#endif
