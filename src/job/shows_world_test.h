/*
 * For the tests of data shown by ranks: the hub of a job on one host, with the hooks of its agent
 * that concern such data.
 */
#ifndef JOB_SHOWS_WORLD_TEST_H
#define JOB_SHOWS_WORLD_TEST_H

#include "base/clock.h"
#include "job/hooks_test.h"
#include "job/loop.h"
#include "job/peers.h"
#include "job/records.h"
#include "job/top.h"

#include <string.h>
#include <unistd.h>

enum { RANKS = 2 };

static struct aqi_hub *hub;
static uint64_t requested_ns; /* interval requested by the hub */
static unsigned requests;     /* number of such requests */
static char said[2048];       /* to the user */

static inline void shows_output(void *arg, uint32_t rank, unsigned stream, const void *bytes,
                                size_t len)
{
    (void)arg, (void)rank;
    if (stream == AQI_STREAM_TOP)
        aqi_top_arrived(bytes, len);
    else if (stream == AQI_STREAM_PEERS)
        aqi_top_peers_arrived(bytes, len);
    else
        aqi_records_arrived((enum aqi_show)(stream - AQI_STREAM_SHOWN), bytes, len);
}

static inline void shows_watch(void *arg, uint64_t interval_ns)
{
    requested_ns = interval_ns;
    requests++;
    aqi_top_watch(arg, interval_ns);
}

static inline void shows_say(void *arg, bool always, const char *text)
{
    (void)arg, (void)always;
    snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", text);
}

static inline void shows_failed(const char *why)
{
    fail_msg("%s", why);
}

static inline int shows_open(void **state)
{
    (void)state;
    int epoll;
    struct aqi_hub_params params = hooks_params(RANKS, 60000000000);
    params.now_ns = aqi_now_ns();
    params.hooks.say = shows_say;
    params.hooks.output = shows_output;
    params.hooks.watch = shows_watch;
    params.hooks.peers = aqi_peers_report;
    requested_ns = requests = 0;
    said[0] = '\0';
    if (aqi_loop_open(shows_failed, &epoll) != AQ_OK) return -1;
    if (aqi_hub_open(&params, &hub) != AQ_OK) return -1;
    aqi_peers_open(hub);
    aqi_top_open(&(struct aqi_top_params){
        .hub = hub, .host = "here", .program = params.program, .root = true});
    aqi_records_open(&(struct aqi_records_params){.hub = hub, .host = "here"});
    return 0;
}

static inline int shows_close(void **state)
{
    (void)state;
    aqi_records_drain();
    aqi_records_close();
    aqi_top_close();
    aqi_peers_close();
    aqi_hub_close(hub);
    aqi_loop_close();
    return 0;
}

/* Handle all that has arrived, at this time. */
static inline void shows_at(uint64_t now)
{
    aqi_loop_once(0);
    aqi_records_tick();
    (void)aqi_top_tick(now);
    (void)aqi_peers_tick(now);
}

#define SHOWS_TEST(test) cmocka_unit_test_setup_teardown(test, shows_open, shows_close)

#endif
