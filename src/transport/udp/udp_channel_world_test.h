/*
 * A control channel whose other side is an engine of the test, which sends what no channel would.
 * There are no sockets, and time passes only when a test says so.
 */
#ifndef UDP_CHANNEL_WORLD_TEST_H
#define UDP_CHANNEL_WORLD_TEST_H

#include "base/stats.h"
#include "transport/udp/udp_channel.h"
#include "transport/udp/udp_impl.h"
#include "transport/udp/udp_mac_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS     1000000ull
#define SECOND 1000000000ull

/* As both sides define them. */
enum { LISTENER, CALLER, ENDS };
enum { MESSAGE = 1, PING, END };
struct head {
    uint32_t engine;
    uint8_t kind, unused[11];
};

enum {
    PACKET = 1232,
    FLYING = 256,
    WAITING = 32,      /* maximum number of messages that a channel keeps */
    REFUSALS = 3,      /* in a row, */
    APART = 10,        /* ms */
    PINGS = 8,         /* in AQ_UDP_KEEPALIVE */
    FIRST_TIMEOUT = 5, /* s, for the first message */
    LINGERS = 10,      /* s */
    LEAVES = 500,      /* ms */
    LARGEST = AQI_HANDSHAKE_MAX
};

struct copy {
    size_t len;
    alignas(16) unsigned char bytes[PACKET];
};

static struct {
    struct aqi_rendezvous *rendezvous;
    struct aqi_listener *listener;
    struct aqi_control_channel *channel;
    struct aqi_port port;
    bool refused; /* the network reports that, once */
    bool deaf;    /* packets of the channel are lost */
    bool answers; /* the program makes no calls: the thread answers */
    unsigned copies;
    struct aqi_dgram *peer;
    struct copy wire[FLYING];
    unsigned flying, to_peer;
    struct copy back[FLYING];
    bool refuse; /* refuse the call */
    unsigned calls, messages, ends;
    aq_status end;
    struct aqi_writer writer;
    size_t len; /* of the last message */
    unsigned char last;
    unsigned heard[END + 1]; /* by the peer, of each kind */
    size_t heard_len;
    unsigned char heard_last;
} world;

/* --- the channel's port and hooks ------------------------------------------------------------ */

static inline bool fly(struct copy *wire, unsigned *flying, const struct iovec *iov, unsigned niov,
                       size_t segment)
{
    static unsigned char all[AQI_DGRAM_BURST + PACKET];
    size_t len = 0;
    for (unsigned i = 0; i < niov; i++) {
        memcpy(all + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    for (size_t at = 0; at < len; at += segment) {
        assert_true(*flying < FLYING);
        struct copy *copy = &wire[(*flying)++];
        copy->len = aqi_min(segment, len - at);
        memcpy(copy->bytes, all + at, copy->len);
    }
    return true;
}

static inline bool port_send(struct aqi_port *port, enum aqi_dgram_channel lane,
                             const struct aqi_dgram_addr *to, const struct iovec *iov,
                             unsigned niov, size_t segment, unsigned packets)
{
    (void)port, (void)lane, (void)to, (void)packets;
    return world.deaf || fly(world.back, &world.to_peer, iov, niov, segment);
}

static inline bool port_refused(struct aqi_port *port, struct aqi_dgram_addr *addr)
{
    bool refused = world.refused;
    (void)port, (void)addr;
    world.refused = false;
    return refused;
}

static inline void port_close(struct aqi_port *port)
{
    (void)port;
}

static const struct aqi_port_ops port_ops = {
    .close = port_close, .send = port_send, .refused = port_refused};

static inline void remember(const struct aqi_writer *writer, const struct aqi_handshake *message)
{
    assert_int_equal(message->nfds, 0);
    assert_true(message->len <= LARGEST);
    world.writer = *writer;
    world.len = message->len;
    if (message->len != 0) world.last = ((const unsigned char *)message->bytes)[message->len - 1];
}

static inline void *world_call(void *arg, void *listener_user, struct aqi_control_channel *channel,
                               const struct aqi_writer *writer, struct aqi_handshake *message)
{
    (void)arg;
    assert_ptr_equal(listener_user, &world.listener);
    assert_ptr_equal(channel, world.channel);
    world.calls++;
    remember(writer, message);
    return world.refuse ? NULL : &world;
}

static inline void world_message(void *arg, void *channel_user, const struct aqi_writer *writer,
                                 struct aqi_handshake *message)
{
    (void)arg;
    assert_ptr_equal(channel_user, &world);
    world.messages++;
    remember(writer, message);
}

static inline void world_closed(void *arg, void *channel_user, aq_status status, const char *why)
{
    (void)arg;
    assert_ptr_equal(channel_user, &world);
    assert_non_null(why);
    world.ends++;
    world.end = status;
}

/* --- the other side -------------------------------------------------------------------------- */

static inline bool peer_transmit(void *arg, enum aqi_dgram_channel lane,
                                 const struct aqi_dgram_addr *to, const struct iovec *iov,
                                 unsigned niov, size_t segment, unsigned packets)
{
    (void)arg, (void)lane, (void)to, (void)packets;
    return fly(world.wire, &world.flying, iov, niov, segment);
}

static inline void peer_deliver(void *arg, uint32_t source, bool request, unsigned char *bytes,
                                size_t len)
{
    struct head head;
    (void)arg, (void)request;
    assert_int_equal(source, world.channel->caller ? CALLER : LISTENER);
    assert_true(len >= sizeof(head));
    memcpy(&head, bytes, sizeof(head));
    assert_in_range(head.kind, MESSAGE, END);
    world.heard[head.kind]++;
    world.heard_len = len - sizeof(head);
    if (len > sizeof(head)) world.heard_last = bytes[len - 1];
}

static inline aq_status peer_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    (void)arg, (void)id;
    *addr = (struct aqi_dgram_addr){.len = 1};
    return AQ_OK;
}

static inline void peer_lost(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why)
{
    (void)arg, (void)id, (void)loss, (void)why;
}

static inline void peer_mac(void *arg, const char *use, const uint8_t key[16],
                            const struct iovec *iov, unsigned niov, uint8_t tag[16])
{
    (void)arg;
    aqi_macs_of(&world.rendezvous->macs, use, key, iov, niov, tag);
}

/* Like that of udp_channel_up, but it may send messages that are too large. */
static inline void peer_open(const struct udp_secret *secret, uint8_t first_of_listener,
                             uint64_t epoch)
{
    const struct aqi_dgram_hooks hooks = {.transmit = peer_transmit,
                                          .deliver = peer_deliver,
                                          .lookup = peer_lookup,
                                          .lost = peer_lost,
                                          .mac = peer_mac};
    struct aqi_dgram_config config;
    struct udp_call call = world.channel->call;
    call.listener[0] = first_of_listener;
    aqi_dgram_defaults(&config);
    udp_secret_derive(world.rendezvous->macs.proofs, secret, "channel", call.caller, call.listener,
                      config.key);
    config.self = world.channel->caller ? LISTENER : CALLER;
    config.size = ENDS;
    config.address = world.port.address;
    config.packet = PACKET;
    config.room = 64 << 10;
    config.max_message = 2 * LARGEST;
    config.ack_delay = config.idle_close = config.warn_after = 0;
    config.rto_min = 2000000;
    config.authenticate = true;
    config.epoch = config.seed = epoch;
    if (world.peer != NULL) aqi_dgram_destroy(world.peer);
    assert_int_equal(aqi_dgram_create(&config, &hooks, &world.peer), AQ_OK);
    assert_int_equal(aqi_dgram_peer(world.peer, ENDS - 1 - config.self), AQ_OK);
}

/* --- time ------------------------------------------------------------------------------------ */

static inline void arrive(void)
{
    for (unsigned i = 0; i < world.flying; i++)
        for (unsigned n = 0; n < world.copies; n++) {
            alignas(16) unsigned char bytes[PACKET];
            memcpy(bytes, world.wire[i].bytes, world.wire[i].len);
            (world.answers ? udp_channel_answer : udp_channel_input)(world.channel, bytes,
                                                                     world.wire[i].len);
        }
    world.flying = 0;
    for (unsigned i = 0; i < world.to_peer; i++)
        aqi_dgram_input(world.peer, world.back[i].bytes, world.back[i].len, true, 0,
                        world.rendezvous->now);
    world.to_peer = 0;
}

static inline void turn(void)
{
    if (world.answers)
        (void)aqi_dgram_progress(world.channel->dgram, false, world.rendezvous->now);
    else
        udp_channel_turn(world.channel);
}

static inline void run(uint64_t ns)
{
    uint64_t *now = &world.rendezvous->now;
    for (uint64_t until = *now + ns; *now < until;) {
        uint64_t next = world.flying + world.to_peer != 0 ? 0 : until;
        next = aqi_min(next, aqi_dgram_deadline(world.peer));
        next = aqi_min(next, world.answers ? until : world.channel->due);
        *now = aqi_max(aqi_min(next, until), *now + 100000);
        arrive();
        turn();
        (void)aqi_dgram_progress(world.peer, true, *now);
    }
}

/* --- setup ----------------------------------------------------------------------------------- */

/* Open a channel as the rendezvous does, with the other side at its other end. */
static inline void channel_open(bool caller)
{
    struct aqi_control_channel *channel = udp_channel_new(world.rendezvous, caller);
    assert_non_null(channel);
    channel->port = channel->wire = &world.port;
    memcpy(channel->call.caller, "caller", 6);
    memcpy(channel->call.listener, "listener", 8);
    channel->listener = caller ? NULL : world.listener;
    channel->until = caller ? 0 : world.rendezvous->now + FIRST_TIMEOUT * SECOND;
    channel->user = caller ? &world : NULL;
    assert_int_equal(udp_channel_up(channel), AQ_OK);
    world.channel = channel;
    peer_open(&world.rendezvous->secret, 'l', 1);
}

static inline int world_setup(void **state)
{
    const struct aqi_rendezvous_hooks hooks = {
        .call = world_call, .message = world_message, .closed = world_closed};
    char uri[AQI_URI_MAX];
    (void)state;
    memset(&world, 0, sizeof(world));
    world.copies = 1;
    world.port = (struct aqi_port){
        .ops = &port_ops, .address = {.len = 1}, .limits = {.packet = PACKET, .room = 64 << 10}};
    udp_config = (struct udp_config){.interface = "", .lossy = "", .secret = ""};
    assert_int_equal(udp_rendezvous.open(&hooks, &world.rendezvous), AQ_OK);
    udp_answer_close(world.rendezvous);
    assert_int_equal(udp_rendezvous.listen(world.rendezvous, "udp://127.0.0.1:0", &world.listener,
                                           &world.listener, uri),
                     AQ_OK);
    world.rendezvous->now = 1000 * SECOND;
    return 0;
}

static inline int world_teardown(void **state)
{
    (void)state;
    if (world.peer != NULL) aqi_dgram_destroy(world.peer);
    while (world.rendezvous->channels != NULL)
        udp_channel_free(world.rendezvous->channels);
    udp_rendezvous.close(world.rendezvous);
    return 0;
}

/* Send a message as the other side, without running. */
static inline void say_only(unsigned kind, size_t head_len, size_t body_len)
{
    static unsigned char body[2 * LARGEST];
    const struct head head = {.kind = (uint8_t)kind, .unused = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}};
    if (body_len != 0) body[body_len - 1] = (unsigned char)(body_len % 251);
    assert_int_equal(aqi_dgram_send(world.peer, world.channel->caller ? CALLER : LISTENER, false,
                                    &head, head_len, body, body_len),
                     AQ_OK);
}

static inline void say(unsigned kind, size_t body_len)
{
    say_only(kind, sizeof(struct head), body_len);
    run(20 * MS);
}

/* Open a channel whose call has been announced. */
static inline void channel_open_called(void)
{
    channel_open(false);
    say(MESSAGE, 3);
    assert_int_equal(world.calls, 1);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OPEN);
}

static inline aq_status write_to_peer(size_t len)
{
    static unsigned char bytes[LARGEST];
    const struct aqi_handshake message = {.bytes = bytes, .len = len};
    if (len != 0) bytes[len - 1] = (unsigned char)(len % 251);
    return udp_channel_write(world.channel, &message);
}

#define WORLD_TEST(test) cmocka_unit_test_setup_teardown(test, world_setup, world_teardown)

#endif
