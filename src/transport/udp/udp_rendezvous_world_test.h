/*
 * A rendezvous over UDP with a listener, and strangers, which are sockets of the test. The thread
 * that answers has ended, so only what the test calls happens.
 */
#ifndef UDP_RENDEZVOUS_WORLD_TEST_H
#define UDP_RENDEZVOUS_WORLD_TEST_H

#include "base/stats.h"
#include "base/timer.h"
#include "transport/udp/udp_channel.h"
#include "transport/udp/udp_impl.h"
#include "transport/udp/udp_mac_test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TIMEOUT_MS = 60000 /* much more than anything here takes */ };

static struct {
    struct aqi_rendezvous *rendezvous;
    struct aqi_listener *listener;
    struct aqi_control_channel *channel;
    union aqi_sockaddr at; /* of the listener */
    unsigned calls, messages, ends;
    aq_status end;
    char why[200];
    uint64_t callers;
} world;

static inline void *world_call(void *arg, void *listener_user, struct aqi_control_channel *channel,
                               const struct aqi_writer *writer, struct aqi_handshake *message)
{
    (void)arg, (void)listener_user, (void)channel, (void)writer, (void)message;
    world.calls++;
    return &world;
}

static inline void world_message(void *arg, void *channel_user, const struct aqi_writer *writer,
                                 struct aqi_handshake *message)
{
    (void)arg, (void)channel_user, (void)writer, (void)message;
    world.messages++;
}

static inline void world_closed(void *arg, void *channel_user, aq_status status, const char *why)
{
    (void)arg;
    assert_ptr_equal(channel_user, &world);
    world.ends++;
    world.end = status;
    snprintf(world.why, sizeof(world.why), "%s", why != NULL ? why : "");
}

/* Open a stranger's socket at this address of this host. */
static inline int stranger_at(const char *ip, union aqi_sockaddr *at)
{
    socklen_t len = sizeof(*at);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    memset(at, 0, sizeof(*at));
    at->v4.sin_family = AF_INET;
    assert_int_equal(inet_pton(AF_INET, ip, &at->v4.sin_addr), 1);
    assert_int_equal(bind(fd, &at->any, sizeof(at->v4)), 0);
    assert_int_equal(getsockname(fd, &at->any, &len), 0);
    return fd;
}

static inline int stranger(const char *ip)
{
    union aqi_sockaddr at;
    int fd = stranger_at(ip, &at);
    assert_int_equal(connect(fd, &world.at.any, sizeof(world.at.v4)), 0);
    return fd;
}

static inline void await(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, TIMEOUT_MS), 1);
}

static inline int world_setup(void **state)
{
    const struct aqi_rendezvous_hooks hooks = {
        .call = world_call, .message = world_message, .closed = world_closed};
    char uri[AQI_URI_MAX];
    unsigned port;
    (void)state;
    memset(&world, 0, sizeof(world));
    udp_config = (struct udp_config){.interface = "", .lossy = "", .secret = ""};
    assert_int_equal(udp_rendezvous.open(&hooks, &world.rendezvous), AQ_OK);
    udp_answer_close(world.rendezvous);
    assert_int_equal(
        udp_rendezvous.listen(world.rendezvous, "udp://127.0.0.1:0", &world, &world.listener, uri),
        AQ_OK);
    assert_int_equal(sscanf(uri, "udp://127.0.0.1:%u", &port), 1);
    world.at.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    world.at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return 0;
}

/* Without a farewell of remaining channels, which no test answers. */
static inline int world_teardown(void **state)
{
    (void)state;
    while (world.rendezvous->channels != NULL)
        udp_channel_free(world.rendezvous->channels);
    udp_rendezvous.close(world.rendezvous);
    return 0;
}

static inline aq_status connect_to(const char *uri)
{
    const struct aqi_handshake message = {.bytes = "message", .len = 7};
    return udp_rendezvous.connect(world.rendezvous, uri, &message, &world, &world.channel);
}

static inline void seal(enum udp_call_kind kind, struct udp_call *call)
{
    udp_call_seal(world.rendezvous->macs.proofs, &world.rendezvous->secret, kind, call);
}

static inline void expect_nothing(int fd)
{
    unsigned char byte;
    assert_int_equal(recv(fd, &byte, sizeof(byte), MSG_DONTWAIT), -1);
}

/* A packet arrives at a socket that we have closed, but a child holds: it must be ignored. */
static inline void expect_unwatched(int from, const union aqi_sockaddr *to, int held)
{
    struct pollfd watch = {.fd = world.rendezvous->epoll, .events = POLLIN};
    assert_int_equal(sendto(from, "packet", 6, 0, &to->any, sizeof(to->v4)), 6);
    await(held);
    assert_int_equal(poll(&watch, 1, 0), 0);
    assert_int_equal(udp_rendezvous.progress(world.rendezvous), 0);
    close(held);
}

#define WORLD_TEST(test) cmocka_unit_test_setup_teardown(test, world_setup, world_teardown)

#endif
