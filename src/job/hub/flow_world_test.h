/* One hub, and others played by the test. */
#ifndef HUB_FLOW_WORLD_TEST_H
#define HUB_FLOW_WORLD_TEST_H

#include "job/hooks_test.h"
#include "job/hub/note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tree of fanout 2: 0 has 1 and 2, 1 has 3 and 4, 3 has 7 and 8, 7 has 15. A rank on each. */
enum { AGENTS = 16, FANOUT = 2, SENT_MAX = 64 };
#define TIMEOUT_NS 1000000000ull

struct sent {
    uint32_t to;
    uint8_t kind;
    uint16_t type; /* of a fact */
    uint32_t agent;
    uint64_t number;
};

static struct {
    struct aqi_hub *hub;
    uint64_t now;
    struct sent sent[SENT_MAX];
    unsigned count;
    size_t bytes;      /* of all frames */
    uint32_t detached; /* a bit for each */
    unsigned called;   /* the ancestors called, and the last of them */
    uint32_t last_called;
    bool over;
    int code;      /* then */
    unsigned says; /* how many times, and the last text */
    bool always;
    char text[1024];
} one;

static uint32_t agent_of[AGENTS];

static inline void on_agent(void *arg, uint32_t agent, const void *bytes, size_t len)
{
    (void)arg;
    struct hub_frame frame;
    assert_true(hub_frame_decode(bytes, len, &frame));
    assert_true(one.count < SENT_MAX);
    one.bytes += len;
    struct hub_note what = {0};
    if (frame.kind == HUB_FRAME_FACT) assert_true(hub_note_decode(frame.data, frame.len, &what));
    one.sent[one.count++] = (struct sent){agent, frame.kind, what.type, frame.agent, frame.number};
}

static inline void on_attach(void *arg, uint32_t agent)
{
    (void)arg;
    one.called++;
    one.last_called = agent;
}

static inline void on_detach(void *arg, uint32_t agent)
{
    (void)arg;
    one.detached |= 1u << agent;
}

static inline aq_status on_freeze(void *arg, const void *bytes, size_t len,
                                  struct aqi_parcel **parcel)
{
    (void)arg, (void)bytes, (void)len, (void)parcel;
    return AQ_ENOMEM;
}

static inline void on_say(void *arg, bool always, const char *text)
{
    (void)arg;
    one.says++;
    one.always = always;
    snprintf(one.text, sizeof(one.text), "%s", text);
}

static inline void on_over(void *arg, int code)
{
    (void)arg;
    assert_false(one.over);
    one.over = true;
    one.code = code;
}

static inline void open_one(uint32_t agent)
{
    memset(&one, 0, sizeof(one));
    one.now = 1;
    for (uint32_t i = 0; i < AGENTS; i++)
        agent_of[i] = i;
    struct aqi_hub_params params = hooks_params(AGENTS, TIMEOUT_NS);
    params.start_timeout_ns = 60 * TIMEOUT_NS;
    params.agents = AGENTS;
    params.agent = agent;
    params.fanout = FANOUT;
    params.agent_of = agent_of;
    params.hooks.to_agent = on_agent;
    params.hooks.attach = on_attach;
    params.hooks.detach = on_detach;
    params.hooks.say = on_say;
    params.hooks.freeze = on_freeze;
    params.hooks.over = on_over;
    assert_int_equal(aqi_hub_open(&params, &one.hub), AQ_OK);
}

/* An agent that is attached to its parent. */
static inline void open_attached(uint32_t agent)
{
    open_one(agent);
    aqi_hub_attached(one.hub, aqi_hub_parent(agent, FANOUT));
}

static inline void pass(uint64_t ns)
{
    one.now += ns;
    aqi_hub_now(one.hub, one.now);
    while (aqi_hub_tick(one.hub) <= one.now)
        continue;
}

static inline aq_status try_frame(uint32_t from, uint8_t kind, uint32_t agent, uint64_t number,
                                  const void *data, size_t len)
{
    static uint8_t bytes[70000];
    const struct hub_frame head = {.kind = kind, .agent = agent, .number = number};
    assert_true(HUB_FRAME_HEAD + len <= sizeof(bytes));
    hub_frame_head(&head, bytes);
    if (len != 0) memcpy(bytes + HUB_FRAME_HEAD, data, len);
    return aqi_hub_frame(one.hub, from, bytes, HUB_FRAME_HEAD + len);
}

static inline void frame(uint32_t from, uint8_t kind, uint32_t agent, uint64_t number,
                         const void *data, size_t len)
{
    assert_int_equal(try_frame(from, kind, agent, number, data, len), AQ_OK);
}

static inline void attach(uint32_t agent, uint32_t epoch, uint64_t applied)
{
    frame(agent, HUB_FRAME_ATTACH, agent, applied, &epoch, sizeof(epoch));
}

static inline void note(uint32_t from, uint8_t kind, uint32_t agent, uint64_t number,
                        const struct hub_note *what)
{
    struct aqi_parcel *parcel = hub_note_encode(what);
    assert_non_null(parcel);
    frame(from, kind, agent, number, parcel->bytes + HUB_FRAME_HEAD, parcel->len - HUB_FRAME_HEAD);
    aqi_parcel_release(parcel);
}

static inline void fact(uint32_t from, uint32_t agent, uint64_t number, const struct hub_note *what)
{
    note(from, HUB_FRAME_FACT, agent, number, what);
}

static inline unsigned sent(uint32_t to, uint8_t kind, uint32_t agent, uint64_t number)
{
    unsigned count = 0;
    for (unsigned i = 0; i < one.count; i++)
        count += one.sent[i].to == to && one.sent[i].kind == kind && one.sent[i].agent == agent &&
                 one.sent[i].number == number;
    return count;
}

/* A fact, an entry, and the entry that ends the job. */
static __attribute__((unused))
const struct hub_note say = {.type = HUB_SAY, .data = ""},
                      entry = {.type = HUB_PASS, .code = 18},
                      end = {.type = HUB_END, .rank = AQI_NO_RANK, .data = ""};

#endif
