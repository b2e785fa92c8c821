/* The desk of an agent with a real hub, and with processes played by the test. */
#ifndef DESK_WORLD_TEST_H
#define DESK_WORLD_TEST_H

#include "job/desk.h"

#include "base/clock.h"
#include "base/descriptors_test.h"
#include "job/channel.h"
#include "job/hooks_test.h"
#include "job/loop.h"
#include "job/top.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* Two of the four ranks of the job are here: 1 and 3. */
enum {
    RANKS = 4,
    HERE = 2,
    FIRST = 1,
    SECOND = 3,
    TURN = 64,
    LAST_WORDS = 65536,
    STRANGERS = 64 + HERE
};
static const uint32_t agent_of[RANKS] = {1, 0, 1, 0};
static const uint8_t secret[AQI_JOB_KEY_BYTES] = "this is secret.";

static struct {
    struct aqi_hub *hub;
    struct aqi_parcel *page;
    int place[RANKS];
    int listener;
    struct sockaddr_un at;
    unsigned said;
    char text[512]; /* the last message printed */
    unsigned descriptors;
} world;

static inline void on_say(void *arg, bool always, const char *text)
{
    (void)arg;
    if (!always) return;
    world.said++;
    snprintf(world.text, sizeof(world.text), "%s", text);
}

static inline void loop_failed(const char *why)
{
    fail_msg("%s", why);
}

/* Handle everything that is ready now, once. */
static inline void turn(void)
{
    aqi_loop_once(aqi_now_ns());
}

static inline void turns(void)
{
    for (unsigned i = 0; i < 20; i++)
        turn();
}

static inline void open_world(void)
{
    int epoll;
    memset(&world, 0, sizeof(world));
    world.descriptors = descriptors();
    assert_int_equal(aqi_loop_open(loop_failed, &epoll), AQ_OK);
    assert_int_equal(aqi_desk_open(HERE, &world.page), AQ_OK);
    struct aqi_hub_params params = hooks_params(RANKS, UINT64_MAX / 4);
    params.agents = 2;
    params.fanout = 1;
    params.agent_of = agent_of;
    params.page = world.page;
    params.now_ns = aqi_now_ns();
    params.hooks.to_rank = aqi_desk_to_rank;
    params.hooks.drain = aqi_desk_drain;
    params.hooks.say = on_say;
    params.hooks.freeze = aqi_desk_freeze;
    params.hooks.share = aqi_desk_share;
    assert_int_equal(aqi_hub_open(&params, &world.hub), AQ_OK);
    aqi_desk_serve(world.hub);
    aqi_top_open(
        &(struct aqi_top_params){.hub = world.hub, .host = "here", .program = "./program"});
    for (uint32_t i = 0; i < RANKS; i++)
        world.place[i] = -1;
    world.listener = -1;
}

/* A place for a process that the agent has forked, played by this one. */
static inline void open_places(void)
{
    open_world();
    for (uint32_t rank = FIRST; rank <= SECOND; rank += 2) {
        world.place[rank] = aqi_desk_place(rank);
        assert_true(world.place[rank] >= 0);
        assert_int_equal(fcntl(world.place[rank], F_SETFL, O_NONBLOCK), 0);
        aqi_desk_forked(rank, getpid());
        aqi_hub_started(world.hub, rank, getpid());
    }
}

static inline void close_world(void)
{
    for (uint32_t i = 0; i < RANKS; i++)
        if (world.place[i] >= 0) close(world.place[i]);
    aqi_desk_close();
    aqi_top_close();
    aqi_hub_close(world.hub);
    aqi_parcel_release(world.page);
    aqi_loop_close();
    assert_int_equal(descriptors(), world.descriptors);
}

/* --- actions of a rank ----------------------------------------------------------------------- */

static inline int own_socket(int *theirs)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    *theirs = pair[1];
    return pair[0];
}

/* HELLO, with one end of a socket; returns the other. */
static inline int hello(uint32_t rank)
{
    int theirs, own = own_socket(&theirs);
    const struct aqi_control message = {.type = AQI_CONTROL_HELLO};
    assert_int_equal(aqi_channel_send(world.place[rank], &message, theirs), AQ_OK);
    close(theirs);
    turns();
    return own;
}

static uint8_t heard[AQI_CONTROL_MAX];

/* Receive a message from the desk; its data stays in `heard`. */
static inline aq_status hear(int fd, struct aqi_control *message, int *passed)
{
    size_t len = sizeof(heard);
    aq_status status = aqi_channel_receive(fd, heard, &len, passed);
    return status == AQ_OK ? aqi_control_decode(heard, len, message) : status;
}

static inline void expect_job(int fd, uint32_t rank, int *page)
{
    struct aqi_control message;
    assert_int_equal(hear(fd, &message, page), AQ_OK);
    assert_int_equal(message.type, AQI_CONTROL_JOB);
    assert_int_equal(message.rank, rank);
    assert_int_equal(message.local_rank, rank / 2);
    assert_true(*page >= 0);
}

/* It is refused with this text, and its socket is closed. */
static inline void expect_refusal(int fd, aq_status status, const char *why)
{
    struct aqi_control message;
    char text[AQI_CONTROL_TEXT + 1];
    int passed;
    assert_int_equal(hear(fd, &message, &passed), AQ_OK);
    assert_int_equal(message.type, AQI_CONTROL_REFUSE);
    assert_int_equal(message.status, status);
    assert_int_equal(passed, -1);
    aqi_control_text(&message, text);
    assert_non_null(strstr(text, why));
    assert_in_range(message.len, strlen(why), 300); /* nothing but the text */
    assert_int_equal(hear(fd, &message, &passed), AQ_EPEER);
    close(fd);
}

static volatile sig_atomic_t signals; /* received by this process */

static inline void on_signal(int number)
{
    (void)number;
    signals++;
}

static inline int joined(uint32_t rank)
{
    int page, fd = hello(rank);
    expect_job(fd, rank, &page);
    close(page);
    return fd;
}

#endif
