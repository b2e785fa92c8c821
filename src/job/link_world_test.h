/*
 * For the tests of links: hosts in one process and one loop, which record the calls of their hooks.
 */
#ifndef JOB_LINK_WORLD_TEST_H
#define JOB_LINK_WORLD_TEST_H

#include "base/clock.h"
#include "job/link_impl.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MS      1000000ull
#define SECONDS (1000 * MS)

enum { HOSTS = 3 };
static const uint8_t world_key[AQI_SEAL_KEY_BYTES] = "the key of a job";

struct host {
    struct aqi_links *links;
    uint16_t port;
    char at[64];           /* of its listener */
    struct aqi_link *link; /* the last link opened */
    struct aqi_seal_call call;
    unsigned opened, frames, ended, strangers;
    size_t bytes;
    uint64_t sum; /* of the frames, in order */
    aq_status status;
    char why[4096], stranger[512];
    bool echo;
    struct aqi_link *tell;  /* when another link ends, queue a frame */
    struct aqi_link *spoil; /* when another link ends, queue data, and too much of it */
};
static struct host hosts[HOSTS];

#define WORLD_STEP_NS (10 * MS)
static uint64_t world_ns; /* time that has passed for the hosts */

static inline uint64_t world_sum(uint64_t sum, const uint8_t *bytes, size_t len)
{
    sum = aqi_hash(sum, len);
    for (size_t i = 0; i < len; i += 61)
        sum = aqi_hash(sum, bytes[i]);
    return sum;
}

static inline void world_opened(struct aqi_link *link, const struct aqi_seal_call *call)
{
    struct host *host = link->links->config.arg;
    host->opened++;
    host->link = link;
    host->call = *call;
}

static inline void world_frame(struct aqi_link *link, const uint8_t *bytes, size_t len)
{
    struct host *host = link->links->config.arg;
    host->frames++;
    host->bytes += len;
    host->sum = world_sum(host->sum, bytes, len);
    const struct iovec piece = {(void *)(uintptr_t)bytes, len};
    if (host->echo) aqi_link_send(link, &piece, 1);
}

static inline void world_ended(struct aqi_link *link, aq_status status, const char *why)
{
    struct host *host = link->links->config.arg;
    host->ended++;
    host->status = status;
    snprintf(host->why, sizeof(host->why), "%s", why);
    if (host->link == link) host->link = NULL;
    static uint8_t much[AQI_LINK_FRAME_MAX + 1];
    const struct iovec little = {much, 1}, all = {much, sizeof(much)};
    if (host->tell != NULL) aqi_link_send(host->tell, &little, 1);
    if (host->spoil == NULL) return;
    link = host->spoil;
    host->spoil = NULL;
    aqi_link_send(link, &little, 1);
    aqi_link_send(link, &all, 1);
}

static inline void world_stranger(void *arg, const char *why, unsigned more)
{
    struct host *host = arg;
    host->strangers += 1 + more;
    snprintf(host->stranger, sizeof(host->stranger), "%s", why);
}

static const struct aqi_link_hooks world_hooks = {world_opened, world_frame, world_ended,
                                                  world_stranger};

static inline void world_failed(const char *why)
{
    fail_msg("the loop: %s", why);
}

static inline void world_open(unsigned number, uint64_t silence_ns, uint64_t prove_ns)
{
    struct host *host = &hosts[number];
    struct aqi_links_config config = {.host = number,
                                      .silence_ns = silence_ns,
                                      .prove_ns = prove_ns,
                                      .hooks = &world_hooks,
                                      .arg = host};
    memset(host, 0, sizeof(*host));
    host->sum = AQI_HASH_SEED;
    memcpy(config.key, world_key, sizeof(config.key));
    assert_int_equal(aqi_links_open(&config, &host->links), AQ_OK);
    assert_int_equal(aqi_links_listen(host->links, ""), AQ_OK);
    host->port = host->links->port;
    snprintf(host->at, sizeof(host->at), "127.0.0.1:%u", host->port);
}

/* All hosts, with the same timeouts. */
static inline void world_open_all(uint64_t silence_ns, uint64_t prove_ns)
{
    for (unsigned i = 0; i < HOSTS; i++)
        world_open(i, silence_ns, prove_ns);
}

static inline int world_setup(void **state)
{
    (void)state;
    int epoll;
    memset(hosts, 0, sizeof(hosts));
    world_ns = aqi_now_ns();
    return aqi_loop_open(world_failed, &epoll) == AQ_OK ? 0 : -1;
}

static inline int world_teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HOSTS; i++)
        aqi_links_close(hosts[i].links);
    aqi_loop_close();
    return 0;
}

/*
 * Results of ticks are checked before waiting. If this process did not run for a while, the time of
 * its hosts still advances in steps: each sends its keep-alive before others check for it, and
 * immediate answers arrive before a timeout.
 */
static inline uint64_t world_tick(uint64_t until_ns)
{
    uint64_t now = aqi_now_ns(), next;
    for (;;) {
        world_ns = aqi_min(world_ns + WORLD_STEP_NS, now);
        next = until_ns;
        for (unsigned i = 0; i < HOSTS; i++)
            if (hosts[i].links != NULL)
                next = aqi_min(next, aqi_links_tick(hosts[i].links, world_ns));
        if (world_ns >= now) return next;
        until_ns = 0; /* the awaited condition may be true now */
        aqi_loop_once(0);
    }
}

static inline void world_round(uint64_t until_ns)
{
    aqi_loop_once(world_tick(until_ns));
}

/* Run until it is true, for at most a minute, which is far more than anything here takes. */
#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        uint64_t until_ns = aqi_now_ns() + 60 * SECONDS, next_ns;                                  \
        while (next_ns = world_tick(until_ns), !(condition)) {                                     \
            if (aqi_now_ns() > until_ns) fail_msg("not true within a minute: %s", #condition);     \
            aqi_loop_once(next_ns);                                                                \
            if (condition) break;                                                                  \
        }                                                                                          \
    } while (0)

static inline void world_run(uint64_t ns)
{
    uint64_t until = aqi_now_ns() + ns;
    while (aqi_now_ns() < until)
        world_round(until);
}

static inline struct aqi_link *world_call(unsigned from, unsigned to, const char *at,
                                          uint64_t timeout_ns)
{
    const struct aqi_seal_call call = {from, to, 7};
    struct aqi_link *link;
    assert_int_equal(aqi_link_connect(hosts[from].links, at, &call, timeout_ns, NULL, &link),
                     AQ_OK);
    return link;
}

/* Host 1 calls host 0. */
static inline void world_connect(void)
{
    world_call(1, 0, hosts[0].at, 30 * SECONDS);
    UNTIL(hosts[0].link != NULL && hosts[1].link != NULL);
}

static inline void world_send(struct aqi_link *link, const void *bytes, size_t len)
{
    const struct iovec piece = {(void *)(uintptr_t)bytes, len};
    aqi_link_send(link, &piece, 1);
}

static inline struct sockaddr_in world_local(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

/* A plain connection, not a link. */
static inline int world_raw(uint16_t port)
{
    const struct sockaddr_in at = world_local(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* The links of host 0 that have not authenticated or are about to end. */
static inline unsigned world_strangers(void)
{
    return hosts[0].links->strangers + hosts[0].links->doomed;
}

/* Whether the other side has closed it. Received data is discarded. */
static inline bool world_raw_ended(int fd)
{
    char bytes[4096];
    ssize_t len;
    do
        len = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    while (len > 0);
    return len == 0 || errno != EAGAIN;
}

/* A reserved port where connections are refused. */
static inline int world_raw_port(uint16_t *port)
{
    struct sockaddr_in at = world_local(0);
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* A plain listening socket, not a link's. */
static inline int world_raw_listener(int backlog, uint16_t *port)
{
    int fd = world_raw_port(port);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

static inline int world_group_setup(void **state)
{
    (void)state;
    const char *missing = aqi_mac_missing();
    if (missing == NULL) return 0;
    print_message("%s\n", missing);
    exit(77);
}

#define WORLD_TEST(test) cmocka_unit_test_setup_teardown(test, world_setup, world_teardown)

#endif
