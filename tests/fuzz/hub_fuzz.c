/* Any frames between agents, for a hub of each role: none of them ends the agent, or makes it
 * act on a rank or an agent that does not exist. */
#include "fuzz.h"
#include "job/hub/hub.h"

#include <string.h>

enum { AGENTS = 6, RANKS = 9, FANOUT = 2, TURNS = 200 };

static const uint32_t agent_of[RANKS] = {0, 0, 1, 1, 2, 2, 3, 4, 5};
static const char *const hosts[AGENTS] = {"a", "b", "c", "d", "e", "f"};

struct target {
    struct aqi_hub *hub;
    uint32_t agent;
    bool over;
};

static void on_rank(void *arg, uint32_t rank, const struct aqi_control *message,
                    struct aqi_parcel *parcel)
{
    const struct target *target = arg;
    uint8_t head[AQI_CONTROL_HEAD];
    struct aqi_control whole = *message;
    fuzz_require(rank < RANKS && agent_of[rank] == target->agent, "it sends to ranks of its host");
    whole.data = parcel != NULL ? parcel->bytes : NULL;
    whole.len = parcel != NULL ? parcel->len : 0;
    fuzz_require(whole.type == AQI_CONTROL_RESULT || aqi_control_encode(&whole, head) != 0,
                 "its messages to them can be sent");
}

static volatile uint8_t fuzz_seen;

static void on_agent(void *arg, uint32_t agent, const void *frame, size_t len)
{
    const struct target *target = arg;
    fuzz_require(agent < AGENTS && agent != target->agent, "it sends to an agent that exists");
    for (size_t i = 0; i < len; i++) /* sanitizers check that it may be read */
        fuzz_seen ^= ((const uint8_t *)frame)[i];
}

static void on_attach(void *arg, uint32_t agent)
{
    const struct target *target = arg;
    fuzz_require(agent < target->agent, "it calls its ancestors");
}

static void on_detach(void *arg, uint32_t agent)
{
    (void)arg;
    fuzz_require(agent < AGENTS, "it drops an agent that exists");
}

static void on_kill(void *arg, uint32_t rank, int number)
{
    const struct target *target = arg;
    (void)number;
    fuzz_require(rank < RANKS && agent_of[rank] == target->agent,
                 "it only kills ranks of its host");
}

static bool on_asleep(void *arg, uint32_t rank)
{
    (void)arg;
    return rank % 2 == 0;
}

static void on_drain(void *arg, uint32_t rank)
{
    (void)arg;
    (void)rank;
}

static void on_say(void *arg, bool always, const char *text)
{
    (void)arg;
    (void)always;
    fuzz_require(strlen(text) <= 2 * AQI_CONTROL_TEXT, "a text is not longer than the limit");
}

static void on_output(void *arg, uint32_t rank, unsigned stream, const void *bytes, size_t len)
{
    (void)arg;
    (void)bytes;
    (void)len;
    fuzz_require(rank < RANKS && stream < AQI_STREAMS, "the output's rank and stream exist");
}

static void on_input(void *arg, const void *bytes, size_t len)
{
    (void)arg;
    (void)bytes;
    (void)len;
}

static void on_shut(void *arg, unsigned stream)
{
    (void)arg;
    fuzz_require(stream < 2, "the stream to shut exists");
}

static aq_status on_freeze(void *arg, const void *bytes, size_t len, struct aqi_parcel **parcel)
{
    (void)arg;
    *parcel = aqi_parcel_new(bytes, len);
    return *parcel != NULL ? AQ_OK : AQ_ENOMEM;
}

static aq_status on_share(void *arg, const char *name, size_t bytes, struct aqi_parcel **parcel)
{
    (void)bytes;
    return on_freeze(arg, name, strlen(name), parcel);
}

static void on_over(void *arg, int code)
{
    struct target *target = arg;
    (void)code;
    fuzz_require(!target->over, "it ends once");
    target->over = true;
}

static void on_die(void *arg, const char *why)
{
    (void)arg;
    fuzz_require(why == NULL, "no frame of an agent ends another one");
}

static void target_open(struct target *target, uint32_t agent, bool survive)
{
    struct aqi_hub_params params = {.ranks = RANKS,
                                    .agents = AGENTS,
                                    .agent = agent,
                                    .fanout = FANOUT,
                                    .agent_of = agent_of,
                                    .hosts = hosts,
                                    .program = "./program",
                                    .launcher = "aqrun",
                                    .survive = survive,
                                    .start_timeout_ns = 1000,
                                    .exit_timeout_ns = 1000,
                                    .host_timeout_ns = 1000,
                                    .arg = target};
    params.hooks = (struct aqi_hub_hooks){.to_rank = on_rank,
                                          .to_agent = on_agent,
                                          .attach = on_attach,
                                          .detach = on_detach,
                                          .kill = on_kill,
                                          .asleep = on_asleep,
                                          .drain = on_drain,
                                          .say = on_say,
                                          .output = on_output,
                                          .input = on_input,
                                          .shut = on_shut,
                                          .freeze = on_freeze,
                                          .share = on_share,
                                          .over = on_over,
                                          .die = on_die};
    *target = (struct target){.agent = agent};
    if (aqi_hub_open(&params, &target->hub) != AQ_OK) abort();
    if (agent != 0) aqi_hub_attached(target->hub, aqi_hub_parent(agent, FANOUT));
    for (uint32_t i = 0; i < RANKS; i++)
        if (agent_of[i] == agent) {
            aqi_hub_started(target->hub, i, 100 + (int)i);
            aqi_hub_joined(target->hub, i, 100 + (int)i, "");
        }
}

/* Other events that may happen meanwhile. */
static void target_event(struct target *target, uint8_t what, uint8_t which, uint64_t *now)
{
    const struct aqi_control ready = {.type = AQI_CONTROL_READY};
    uint32_t first = target->agent == 0 ? 0 : 2 * target->agent;
    switch (what % 5) {
    case 0:
        *now += which;
        aqi_hub_now(target->hub, *now);
        break;
    case 1:
        aqi_hub_link_lost(target->hub, which % AGENTS, which / AGENTS % 2 != 0, "it was closed");
        break;
    case 2:
        if (target->agent == 0)
            aqi_hub_hold_output(target->hub, which % 2 == 0);
        else
            aqi_hub_attached(target->hub, which % target->agent);
        break;
    case 3:
        if (target->agent != 0)
            aqi_hub_unreachable(target->hub, which % target->agent, which % 2 == 0, "refused");
        break;
    default:
        (void)aqi_hub_from_rank(
            target->hub, first < RANKS && agent_of[first] == target->agent ? first : 7, &ready);
    }
}

/*
 * The input is a sequence of records: sender, length, and a frame or, if the length is 0, another
 * event.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct target target;
    uint64_t now = 0;
    if (size < 1) return 0;
    target_open(&target, data[0] % 4, (data[0] & 0x80) != 0);
    for (size_t at = 1; at + 3 <= size && !target.over;) {
        uint8_t from = data[at] % AGENTS, len = data[at + 1], what = data[at + 2];
        at += 2;
        if (len == 0) {
            target_event(&target, what, data[at - 2], &now);
            at++;
        } else {
            size_t most = size - at < len ? size - at : len;
            uint8_t *frame =
                malloc(most); /* in a block of its own, so that reads beyond its end are detected */
            if (frame == NULL) abort();
            memcpy(frame, data + at, most);
            aq_status status = aqi_hub_frame(target.hub, from, frame, most);
            fuzz_require(status == AQ_OK || status == AQ_EPROTO,
                         "a frame is accepted, or malformed");
            free(frame);
            at += most;
        }
        for (int turn = 0; aqi_hub_tick(target.hub) <= now && !target.over; turn++)
            fuzz_require(turn < TURNS, "it does not ask to be called forever");
    }
    aqi_hub_close(target.hub);
    return 0;
}
