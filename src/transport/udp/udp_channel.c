/* udp: control channels of connections; see the header. */
#include "transport/udp/udp_channel.h"

#include "base/fail.h"
#include "base/shmem.h"
#include "base/stats.h"
#include "transport/udp/udp_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* The ids of the two ends, as in the connection. */
enum { CHANNEL_LISTENER, CHANNEL_CALLER, CHANNEL_ENDS };

enum channel_kind { CHANNEL_MESSAGE = 1, CHANNEL_PING, CHANNEL_END };

/* Precedes each message; the first bytes are reserved for the engine. */
struct channel_head {
    uint32_t engine;
    uint8_t kind, unused[11];
};
static_assert(sizeof(struct channel_head) == 16, "bodies are aligned");

struct udp_written {
    struct udp_written *next;
    enum channel_kind kind;
    size_t len;
    unsigned char bytes[];
};

enum {
    CHANNEL_WRITTEN = 32,     /* maximum number of messages that may wait */
    CHANNEL_REFUSALS = 3,     /* in a row, without a packet in between, at least so far apart: */
    CHANNEL_APART = 10000000, /* ns */
    CHANNEL_PINGS = 8,        /* per AQ_UDP_KEEPALIVE, but at least one per: */
    CHANNEL_PING_MOST = 1000000000 /* ns */
};
/* A peer that is alive answers earlier, even if its program makes no calls (udp_answer.c). */
static const uint64_t channel_silent_ns = 2000000000;

/* --- making and ending ----------------------------------------------------------------------- */

struct aqi_control_channel *udp_channel_new(struct aqi_rendezvous *rendezvous, bool caller)
{
    struct aqi_control_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL) return NULL;
    channel->end.fd = -1;
    channel->rendezvous = rendezvous;
    channel->caller = caller;
    channel->at = &rendezvous->channels;
    channel->next = rendezvous->channels;
    if (channel->next != NULL) channel->next->at = &channel->next;
    rendezvous->channels = channel;
    if (rendezvous->answer.running) pthread_cond_signal(&rendezvous->answer.changed);
    return channel;
}

static void udp_channel_forget_written(struct aqi_control_channel *channel)
{
    for (struct udp_written *next; channel->first != NULL; channel->first = next) {
        next = channel->first->next;
        free(channel->first);
    }
    channel->last = NULL;
}

/* Closing alone does not end the watch: a forked child may hold the same socket open. */
static void udp_channel_hang_up(struct aqi_control_channel *channel)
{
    if (channel->port == NULL) return;
    (void)epoll_ctl(channel->rendezvous->epoll, EPOLL_CTL_DEL, channel->end.fd, NULL);
    channel->port->ops->close(channel->port);
}

void udp_channel_free(struct aqi_control_channel *channel)
{
    if (channel->dgram != NULL) aqi_dgram_destroy(channel->dgram);
    udp_channel_hang_up(channel);
    if (channel->names != NULL) freeaddrinfo(channel->names);
    udp_channel_forget_written(channel);
    *channel->at = channel->next;
    if (channel->next != NULL) channel->next->at = channel->at;
    free(channel);
}

aq_status udp_channel_socket(struct aqi_control_channel *channel, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &channel->end};
    struct aqi_port *port;
    if (epoll_ctl(channel->rendezvous->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return aqi_fail_no_fd(errno, "udp", "cannot watch a control channel");
    aq_status st = udp_wire_open(fd, &port);
    if (st != AQ_OK) {
        (void)epoll_ctl(channel->rendezvous->epoll, EPOLL_CTL_DEL, fd, NULL);
        return st;
    }
    udp_channel_hang_up(channel);
    channel->port = channel->wire = port;
    st = udp_port_weather(&channel->port, channel->rendezvous->timer_at);
    channel->end.fd = fd;
    return st;
}

void udp_channel_end(struct aqi_control_channel *channel, aq_status status, const char *why)
{
    struct aqi_rendezvous *rendezvous = channel->rendezvous;
    bool reported = channel->state == UDP_CHANNEL_OVER || channel->closed;
    bool known = channel->state != UDP_CHANNEL_TAKEN;
    if (channel->state == UDP_CHANNEL_TAKEN) aqi_count(AQI_CTR_HELLO_DROPPED, 1);
    channel->state = UDP_CHANNEL_OVER;
    udp_channel_forget_written(channel);
    if (!known) channel->closed = true;
    rendezvous->happened++;
    if (!reported && known)
        rendezvous->hooks.closed(rendezvous->hooks.arg, channel->user, status, why);
}

/* --- the engine's hooks ---------------------------------------------------------------------- */

static bool udp_channel_hook_transmit(void *arg, enum aqi_dgram_channel lane,
                                      const struct aqi_dgram_addr *to, const struct iovec *iov,
                                      unsigned niov, size_t segment, unsigned packets)
{
    struct aqi_port *port = ((struct aqi_control_channel *)arg)->port;
    return port->ops->send(port, lane, to, iov, niov, segment, packets);
}

static void udp_channel_hook_deliver(void *arg, uint32_t source, bool request, unsigned char *bytes,
                                     size_t len)
{
    struct aqi_control_channel *channel = arg;
    struct aqi_rendezvous *rendezvous = channel->rendezvous;
    const struct aqi_writer writer = {.uid = UINT32_MAX, .ours = rendezvous->secret.is_set};
    struct channel_head head = {0};
    (void)source, (void)request;
    if (len >= sizeof(head)) memcpy(&head, bytes, sizeof(head));
    struct aqi_handshake message = {.bytes = bytes + sizeof(head), .len = len - sizeof(head)};
    rendezvous->happened++;
    if (head.kind == CHANNEL_END) channel->ended = true;
    if (head.kind != CHANNEL_MESSAGE || channel->closed) return;
    if (channel->state == UDP_CHANNEL_TAKEN)
        udp_rendezvous_called(channel, &message);
    else if (channel->state == UDP_CHANNEL_OPEN)
        rendezvous->hooks.message(rendezvous->hooks.arg, channel->user, &writer, &message);
}

static bool udp_channel_hook_range_ok(void *arg, uint64_t addr, size_t len)
{
    (void)arg, (void)addr, (void)len;
    return false;
}

static aq_status udp_channel_hook_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    (void)arg, (void)id; /* the socket is connected */
    *addr = (struct aqi_dgram_addr){.len = 1};
    return AQ_OK;
}

static void udp_channel_hook_lost(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why)
{
    (void)id, (void)loss, (void)why; /* another process is at its address */
    ((struct aqi_control_channel *)arg)->refused = true;
}

static void udp_channel_hook_small_path(void *arg, uint32_t id, size_t usable, bool agreed)
{
    (void)arg, (void)id, (void)usable, (void)agreed;
}

static void udp_channel_hook_mac(void *arg, const char *use, const uint8_t key[16],
                                 const struct iovec *iov, unsigned niov, uint8_t tag[16])
{
    const struct aqi_control_channel *channel = arg;
    aqi_macs_of(&channel->rendezvous->macs, use, key, iov, niov, tag);
}

aq_status udp_channel_up(struct aqi_control_channel *channel)
{
    const struct aqi_rendezvous *rendezvous = channel->rendezvous;
    const struct aqi_dgram_hooks hooks = {.transmit = udp_channel_hook_transmit,
                                          .deliver = udp_channel_hook_deliver,
                                          .range_ok = udp_channel_hook_range_ok,
                                          .lookup = udp_channel_hook_lookup,
                                          .lost = udp_channel_hook_lost,
                                          .small_path = udp_channel_hook_small_path,
                                          .mac = udp_channel_hook_mac,
                                          .arg = channel};
    struct aqi_dgram_config config;
    aqi_dgram_defaults(&config);
    udp_secret_derive(rendezvous->macs.proofs, &rendezvous->secret, "channel", channel->call.caller,
                      channel->call.listener, config.key);
    config.self = channel->caller ? CHANNEL_CALLER : CHANNEL_LISTENER;
    config.size = CHANNEL_ENDS;
    config.address = channel->port->address;
    config.packet = channel->port->limits.packet;
    config.room = channel->port->limits.room;
    config.max_message = sizeof(struct channel_head) + AQI_HANDSHAKE_MAX;
    config.pool = config.least = 4;
    config.ack_delay = 0;
    config.rto_min = 2000000;
    config.idle_close = 0;
    config.authenticate = true;
    aq_status st = udp_random_config(&config);
    if (st == AQ_OK) st = aqi_dgram_create(&config, &hooks, &channel->dgram);
    if (st == AQ_OK)
        st = aqi_dgram_peer(channel->dgram, CHANNEL_CALLER + CHANNEL_LISTENER - config.self);
    if (st != AQ_OK) return st;
    channel->state = channel->caller ? UDP_CHANNEL_OPEN : UDP_CHANNEL_TAKEN;
    channel->due = channel->ping_at = rendezvous->now;
    return AQ_OK;
}

/* --- writing --------------------------------------------------------------------------------- */

static uint32_t udp_channel_peer(const struct aqi_control_channel *channel)
{
    return channel->caller ? CHANNEL_LISTENER : CHANNEL_CALLER;
}

bool udp_channel_reached(const struct aqi_control_channel *channel)
{
    struct aqi_dgram_peer_info info;
    return channel->dgram != NULL &&
           aqi_dgram_peer_info(channel->dgram, udp_channel_peer(channel), &info) && info.reached;
}

static aq_status udp_channel_append(struct aqi_control_channel *channel, enum channel_kind kind,
                                    const void *bytes, size_t len)
{
    unsigned waiting = 0;
    for (const struct udp_written *w = channel->first; w != NULL; w = w->next)
        waiting++;
    if (waiting >= CHANNEL_WRITTEN && kind == CHANNEL_MESSAGE)
        return aqi_fail(AQ_ELIMIT, "udp", "a control channel cannot queue more than %d messages",
                        CHANNEL_WRITTEN);
    struct udp_written *written = malloc(sizeof(*written) + len);
    if (written == NULL) return aqi_fail(AQ_ENOMEM, "udp", "no memory for a message");
    *written = (struct udp_written){.kind = kind, .len = len};
    if (len != 0) memcpy(written->bytes, bytes, len);
    *(channel->last != NULL ? &channel->last->next : &channel->first) = written;
    channel->last = written;
    channel->due = 0;
    return AQ_OK;
}

aq_status udp_channel_write(struct aqi_control_channel *channel,
                            const struct aqi_handshake *message)
{
    if (channel->state == UDP_CHANNEL_OVER || channel->ended) return AQ_EPEER;
    return udp_channel_append(channel, CHANNEL_MESSAGE, message->bytes, message->len);
}

/*
 * Send messages one after the other, to keep their order. None waits for a PING: a peer that
 * computes may acknowledge that only after this process, which was closing the channel, has ended.
 */
static void udp_channel_push(struct aqi_control_channel *channel)
{
    while (channel->first != NULL) {
        struct udp_written *written = channel->first;
        bool beside = channel->pinging && written->kind != CHANNEL_PING;
        if (!beside && !aqi_dgram_quiet(channel->dgram, AQI_DGRAM_ALL)) return;
        const struct channel_head head = {.kind = (uint8_t)written->kind};
        if (aqi_dgram_send(channel->dgram, udp_channel_peer(channel), false, &head, sizeof(head),
                           written->bytes, written->len) != AQ_OK)
            return;
        channel->pinging = written->kind == CHANNEL_PING;
        channel->first = written->next;
        if (channel->first == NULL) channel->last = NULL;
        free(written);
    }
}

/* --- liveness -------------------------------------------------------------------------------- */

/*
 * Any host on the network could forge the report that a port is closed: it counts only if it is
 * repeated and nothing arrives from the other side.
 */
static void udp_channel_look_for_refusals(struct aqi_control_channel *channel)
{
    struct aqi_dgram_addr addr;
    uint64_t now = channel->rendezvous->now;
    if (!channel->port->ops->refused(channel->port, &addr)) return;
    if (now - channel->refused_at < CHANNEL_APART) return;
    channel->refused_at = now;
    channel->refusals++;
}

static void udp_channel_ping(struct aqi_control_channel *channel)
{
    uint64_t now = channel->rendezvous->now, pause = udp_config.keepalive_ns / CHANNEL_PINGS;
    if (pause == 0 || pause > CHANNEL_PING_MOST) pause = CHANNEL_PING_MOST;
    if (now < channel->ping_at) return;
    channel->ping_at = now + pause;
    if (channel->state == UDP_CHANNEL_OPEN && !channel->closed && channel->first == NULL)
        (void)udp_channel_append(channel, CHANNEL_PING, NULL, 0);
}

/* The reason why the other side is considered gone; NULL: it is not. */
static const char *udp_channel_gone(struct aqi_control_channel *channel)
{
    uint64_t now = channel->rendezvous->now;
    if (aqi_dgram_quiet(channel->dgram, AQI_DGRAM_ALL))
        channel->owed = 0;
    else if (channel->owed == 0)
        channel->owed = now;
    if (channel->ended) return "the peer's process has ended";
    if (channel->refused || channel->refusals >= CHANNEL_REFUSALS)
        return "the peer's process has ended: its port is closed";
    if (udp_config.keepalive_ns != 0 && channel->owed != 0 &&
        now - channel->owed > udp_config.keepalive_ns)
        return "the peer has been silent for AQ_UDP_KEEPALIVE: its host or the network is gone";
    return NULL;
}

/* --- turns ----------------------------------------------------------------------------------- */

/* The other side is alive if a packet from it, not from a stranger, has arrived since `before`. */
static void udp_channel_heard(struct aqi_control_channel *channel, uint64_t before)
{
    if (aqi_dgram_heard(channel->dgram) == before) return;
    channel->refusals = 0;
    channel->owed = 0;
    if (channel->rendezvous->leaving)
        channel->until = channel->rendezvous->now + UDP_CHANNEL_LEAVES;
}

void udp_channel_input(struct aqi_control_channel *channel, unsigned char *packet, size_t len)
{
    uint64_t before = aqi_dgram_heard(channel->dgram);
    aqi_dgram_input(channel->dgram, packet, len, true, 0, channel->rendezvous->now);
    udp_channel_heard(channel, before);
}

void udp_channel_answer(struct aqi_control_channel *channel, unsigned char *packet, size_t len)
{
    uint64_t before = aqi_dgram_heard(channel->dgram);
    aqi_dgram_answer(channel->dgram, packet, len, 0, channel->rendezvous->now);
    udp_channel_heard(channel, before);
}

static void udp_channel_schedule(struct aqi_control_channel *channel)
{
    channel->due = aqi_min(aqi_dgram_deadline(channel->dgram), channel->ping_at);
    if (channel->until != 0) channel->due = aqi_min(channel->due, channel->until);
}

void udp_channel_turn(struct aqi_control_channel *channel)
{
    uint64_t now = channel->rendezvous->now;
    if (channel->called != 0) udp_channel_warn(channel);
    if (channel->dgram == NULL) {
        if (channel->state == UDP_CHANNEL_CALLS && !channel->closed) udp_rendezvous_call(channel);
        return;
    }
    if (aqi_dgram_parked(channel->dgram)) (void)aqi_dgram_resume(channel->dgram, true, now);
    udp_channel_look_for_refusals(channel);
    udp_channel_ping(channel);
    udp_channel_push(channel);
    (void)aqi_dgram_progress(channel->dgram, true, now);
    udp_channel_push(channel);
    const char *gone = udp_channel_gone(channel);
    if (channel->state == UDP_CHANNEL_TAKEN && now >= channel->until) gone = "";
    if (gone != NULL && channel->state != UDP_CHANNEL_OVER)
        udp_channel_end(channel, AQ_EPEER, gone);
    udp_channel_schedule(channel);
}

void udp_channel_flush(struct aqi_control_channel *channel)
{
    if (channel->dgram == NULL) return;
    udp_channel_push(channel);
    (void)aqi_dgram_progress(channel->dgram, false, channel->rendezvous->now);
    udp_channel_schedule(channel);
}

void udp_channel_close(struct aqi_control_channel *channel)
{
    bool over = channel->state == UDP_CHANNEL_OVER || channel->dgram == NULL;
    if (!over && udp_channel_append(channel, CHANNEL_END, NULL, 0) != AQ_OK)
        channel->state = UDP_CHANNEL_OVER;
    channel->closed = true;
    channel->due = 0;
    channel->until = channel->rendezvous->now + UDP_CHANNEL_LINGERS;
}

void udp_channel_leave(struct aqi_control_channel *channel)
{
    uint64_t now = channel->rendezvous->now;
    if (!channel->closed) udp_channel_close(channel);
    udp_channel_flush(channel);
    bool silent = channel->owed != 0 && now - channel->owed >= channel_silent_ns;
    channel->until = silent ? now : aqi_min(channel->until, now + UDP_CHANNEL_LEAVES);
    channel->due = 0;
}

bool udp_channel_done(const struct aqi_control_channel *channel)
{
    if (!channel->closed) return false;
    if (channel->dgram == NULL || channel->refused) return true;
    if (channel->refusals >= CHANNEL_REFUSALS) return true;
    if (channel->rendezvous->now >= channel->until) return true;
    return channel->first == NULL && aqi_dgram_idle(channel->dgram);
}
