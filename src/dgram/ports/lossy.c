/* A port around another one that loses, repeats, delays and alters packets: always the same packets
 * for the same seed and sequence of packets. */
#include "base/fail.h"
#include "base/iov.h"
#include "base/spin.h"
#include "dgram/ports/port.h"
#include "dgram/ports/slice.h"

#include <stdlib.h>

enum {
    HELD = 32,         /* maximum number of packets held back at once */
    DELAY = 8,         /* maximum number of packets that overtake one */
    RELEASE_AFTER = 64 /* calls of receive until all held packets are released */
};

struct held {
    unsigned wait; /* packets to wait for; 0: this entry is free */
    enum aqi_dgram_channel channel;
    struct aqi_dgram_addr to;
    size_t len;
    unsigned char *bytes;
};

struct lossy_port {
    struct aqi_port port;
    struct aqi_port_weather weather;
    struct aqi_spin lock; /* protects the following */
    uint64_t random;
    unsigned holding, idle;
    struct held held[HELD];
    _Atomic uint64_t lost;  /* packets, since the inner port had no room for the rest of a burst */
    unsigned char *altered; /* memory of one packet, followed by that of held ones */
};

enum fate { PASS, LOSE, REPEAT, HOLD, ALTER };

/* splitmix64 */
static uint64_t lossy_random(struct lossy_port *self)
{
    uint64_t z = self->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static enum fate lossy_fate(struct lossy_port *self)
{
    const struct aqi_port_weather *weather = &self->weather;
    uint64_t at = lossy_random(self) % 1000, end = weather->loss;
    if (at < end) return LOSE;
    if (at < (end += weather->duplication)) return REPEAT;
    if (at < (end += weather->reordering)) return HOLD;
    return at < end + weather->corruption ? ALTER : PASS;
}

static bool lossy_pass_one(struct lossy_port *self, enum aqi_dgram_channel channel,
                           const struct aqi_dgram_addr *to, unsigned char *bytes, size_t len)
{
    struct iovec all = {bytes, len};
    return self->port.inner->ops->send(self->port.inner, channel, to, &all, 1, len, 1);
}

static void lossy_release(struct lossy_port *self, struct held *held)
{
    held->wait = 0;
    self->holding--;
    (void)lossy_pass_one(self, held->channel, &held->to, held->bytes, held->len);
}

/* `packets` packets were sent: release held ones that are due. */
static void lossy_age(struct lossy_port *self, unsigned packets)
{
    for (unsigned i = 0; i < HELD && self->holding > 0; i++) {
        struct held *held = &self->held[i];
        if (held->wait > packets)
            held->wait -= packets;
        else if (held->wait > 0)
            lossy_release(self, held);
    }
}

static void lossy_hold(struct lossy_port *self, enum aqi_dgram_channel channel,
                       const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov)
{
    uint64_t wait = lossy_random(self) % DELAY;
    if (self->holding == HELD) lossy_age(self, UINT32_MAX);
    struct held *held = self->held;
    while (held->wait > 0)
        held++;
    held->wait = 2 + (unsigned)wait; /* this packet is the first to count */
    held->channel = channel;
    held->to = *to;
    held->len = aqi_iov_gather(iov, niov, held->bytes);
    self->holding++;
    self->idle = 0;
}

/* Handle a packet whose fate is not PASS. Returns false if there is no room. */
static bool lossy_meddle(struct lossy_port *self, enum fate fate, enum aqi_dgram_channel channel,
                         const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                         size_t len)
{
    const struct aqi_port_ops *ops = self->port.inner->ops;
    if (fate == LOSE) return true;
    if (fate == REPEAT || len == 0 || len > self->port.limits.packet) {
        if (!ops->send(self->port.inner, channel, to, iov, niov, len, 1)) return false;
        if (fate == REPEAT) (void)ops->send(self->port.inner, channel, to, iov, niov, len, 1);
        return true;
    }
    if (fate == HOLD) {
        lossy_hold(self, channel, to, iov, niov);
        return true;
    }
    (void)aqi_iov_gather(iov, niov, self->altered);
    uint64_t bit = lossy_random(self) % (8 * len);
    self->altered[bit / 8] ^= (unsigned char)(1u << bit % 8);
    return lossy_pass_one(self, channel, to, self->altered, len);
}

/* Returns the number of packets handled before there was no room. */
static unsigned lossy_send_all(struct lossy_port *self, enum aqi_dgram_channel channel,
                               const struct aqi_dgram_addr *to, struct ports_slices at,
                               size_t segment, unsigned packets)
{
    struct iovec pieces[AQI_PORT_PIECES];
    size_t len;
    for (unsigned done = 0;; done++) {
        enum fate fate = PASS;
        unsigned run = 0; /* of packets that pass */
        while (done + run < packets && (fate = lossy_fate(self)) == PASS)
            run++;
        unsigned n = ports_slice(&at, run * segment, pieces, &len);
        if (run > 0 &&
            !self->port.inner->ops->send(self->port.inner, channel, to, pieces, n, segment, run))
            return done;
        done += run;
        if (done == packets) return done;
        n = ports_slice(&at, segment, pieces, &len);
        if (!lossy_meddle(self, fate, channel, to, pieces, n, len)) return done;
    }
}

static bool lossy_send(struct aqi_port *port, enum aqi_dgram_channel channel,
                       const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                       size_t segment, unsigned packets)
{
    struct lossy_port *self = (struct lossy_port *)port;
    struct ports_slices all = {.iov = iov, .niov = niov};
    aqi_spin_lock(&self->lock);
    uint64_t random = self->random;
    unsigned done = lossy_send_all(self, channel, to, all, segment, packets);
    if (done > 0)
        atomic_fetch_add_explicit(&self->lost, packets - done, memory_order_relaxed);
    else
        self->random = random; /* the burst will be sent again */
    lossy_age(self, done);
    aqi_spin_unlock(&self->lock);
    return done > 0;
}

static unsigned lossy_receive(struct aqi_port *port, enum aqi_port_look look, aqi_port_take *take,
                              void *arg)
{
    struct lossy_port *self = (struct lossy_port *)port;
    aqi_spin_lock(&self->lock);
    if (self->holding > 0 && ++self->idle > RELEASE_AFTER) lossy_age(self, UINT32_MAX);
    aqi_spin_unlock(&self->lock);
    return aqi_port_inner_receive(port, look, take, arg);
}

static unsigned lossy_descriptors(struct aqi_port *port, int fds[2])
{
    return port->inner->ops->descriptors(port->inner, fds);
}

static uint64_t lossy_drops(struct aqi_port *port)
{
    struct lossy_port *self = (struct lossy_port *)port;
    return self->port.inner->ops->drops(self->port.inner) +
           atomic_load_explicit(&self->lost, memory_order_relaxed);
}

static void lossy_close(struct aqi_port *port)
{
    struct lossy_port *self = (struct lossy_port *)port;
    self->port.inner->ops->close(self->port.inner);
    free(self->altered);
    free(self);
}

static const struct aqi_port_ops lossy_ops = {
    .close = lossy_close,
    .send = lossy_send,
    .receive = lossy_receive,
    .descriptors = lossy_descriptors,
    .refused = aqi_port_inner_refused,
    .unreadable = aqi_port_inner_unreadable,
    .drops = lossy_drops,
};

aq_status aqi_port_lossy(struct aqi_port *inner, const struct aqi_port_weather *weather,
                         struct aqi_port **port)
{
    size_t packet = inner->limits.packet;
    struct lossy_port *self = calloc(1, sizeof(*self));
    unsigned char *memory = malloc((HELD + 1) * packet);
    if (self == NULL || memory == NULL) {
        free(self);
        free(memory);
        return aqi_fail(AQ_ENOMEM, "udp", "no memory for delayed packets");
    }
    self->altered = memory;
    for (unsigned i = 0; i < HELD; i++)
        self->held[i].bytes = memory + (i + 1) * packet;
    self->weather = *weather;
    self->random = weather->seed;
    self->port = *inner;
    self->port.ops = &lossy_ops;
    self->port.inner = inner;
    *port = &self->port;
    return AQ_OK;
}
