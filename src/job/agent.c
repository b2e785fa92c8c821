/* The I/O of an agent: see agent.h. */
#include "job/agent.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/fail.h"
#include "job/align.h"
#include "job/desk.h"
#include "job/link.h"
#include "job/loop.h"
#include "job/peers.h"
#include "job/records.h"
#include "job/top.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first byte of each frame of a link. A frame of the hub is sent in pieces: MORE, …, LAST.
 * CLOCK is a time query or its answer. */
enum { AGENT_LAST, AGENT_MORE, AGENT_CLOCK };
#define AGENT_PIECE     (AQI_LINK_FRAME_MAX - 1)
#define AGENT_FRAME_MAX (AQI_CONTROL_GATHER + 4096) /* a result and its description */

/* Interval of time queries once the clock is known. */
#define AGENT_CLOCK_NS 250000000u
#define AGENT_RETRY_NS 10000000u

struct agent_clock {
    uint8_t kind, answer;
    uint8_t unused[6];
    uint64_t asked;              /* by the clock of the querying agent */
    uint64_t received, answered; /* by the job's clock, as estimated by the answering agent */
    uint64_t error;              /* of these two; UINT64_MAX: unknown */
};

/* The link to another agent, and the received part of a frame. */
struct agent_peer {
    struct aqi_link *link; /* NULL: not connected */
    bool called;           /* by this agent */
    bool open;
    uint8_t *pieces;
    size_t got, room;
};

static struct {
    struct aqi_agent_params params;
    struct aqi_hub *hub;
    struct aqi_links *links;
    struct agent_peer *peers;       /* by number */
    struct agent_peer *above;       /* the agent that we have called */
    uint32_t children;              /* links that other agents have opened to this one */
    struct agent_peer *failed_call; /* a call that failed to start */
    bool hub_called;                /* by a link, so the hub may have work due */
    struct aqi_align align;         /* our clock and the root's */
    char name[64];                  /* of this host */
    bool clock_wanted;
    void (*output)(void *arg, uint32_t rank, unsigned stream, const void *bytes, size_t len);
    uint64_t ask_ns; /* when to send the next query */
} agent;

static uint32_t agent_number(const struct agent_peer *peer)
{
    return (uint32_t)(peer - agent.peers);
}

static void agent_peer_reset(struct agent_peer *peer)
{
    if (agent.above == peer) agent.above = NULL;
    agent.children -= peer->open && !peer->called;
    free(peer->pieces);
    *peer = (struct agent_peer){.link = NULL};
}

/* --- to other agents ------------------------------------------------------------------------ */

static void agent_to_agent(void *arg, uint32_t number, const void *frame, size_t len)
{
    const struct agent_peer *peer = &agent.peers[number];
    const uint8_t *at = frame;
    (void)arg;
    if (!peer->open) return;
    do {
        size_t piece = aqi_min(len, AGENT_PIECE);
        uint8_t kind = piece == len ? AGENT_LAST : AGENT_MORE;
        const struct iovec iov[] = {{.iov_base = &kind, .iov_len = 1},
                                    {.iov_base = (void *)(uintptr_t)at, .iov_len = piece}};
        aqi_link_send(peer->link, iov, AQI_COUNT_OF(iov));
        at += piece;
        len -= piece;
    } while (len != 0);
}

static void agent_detach(void *arg, uint32_t number)
{
    struct agent_peer *peer = &agent.peers[number];
    (void)arg;
    if (peer->link == NULL) return;
    aqi_link_set_owner(peer->link, NULL);
    aqi_link_close(peer->link, 0);
    agent_peer_reset(peer);
}

static void agent_call(uint32_t ancestor, uint64_t within_ns)
{
    struct agent_peer *peer = &agent.peers[ancestor];
    const struct aqi_seal_call call = {.from = agent.params.hub.agent, .to = ancestor};
    const char *where = agent.params.where(agent.params.hub.arg, ancestor);
    peer->called = true;
    agent.above = peer;
    aq_status status = AQ_EPEER;
    if (where != NULL)
        status = aqi_link_connect(agent.links, where, &call, within_ns, peer, &peer->link);
    if (status != AQ_OK) agent.failed_call = peer; /* the next tick reports it to the hub */
}

/* A quarter of the timeout leaves time to retry, and to try other ancestors, before the root
 * declares this host dead. */
static void agent_attach(void *arg, uint32_t ancestor)
{
    (void)arg;
    agent_call(ancestor, agent.params.hub.host_timeout_ns / 4);
}

static void agent_pause(void *arg, bool paused)
{
    (void)arg;
    if (agent.links != NULL) aqi_links_ignore_silence(agent.links, paused);
}

/* --- the clock ------------------------------------------------------------------------------ */

static void agent_send_clock(const struct agent_peer *peer, const struct agent_clock *clock)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)clock, .iov_len = sizeof(*clock)};
    aqi_link_send(peer->link, &iov, 1);
}

static void agent_ask_clock(uint64_t now)
{
    const struct agent_clock question = {.kind = AGENT_CLOCK, .asked = now};
    agent.ask_ns = now + (aqi_align_ready(&agent.align) ? AGENT_CLOCK_NS : AGENT_RETRY_NS);
    agent_send_clock(agent.above, &question);
}

/* To answer queries, an agent needs the job's time itself. */
static void agent_answer_clock(const struct agent_peer *peer, struct agent_clock clock,
                               uint64_t now)
{
    bool root = agent.params.hub.agent == 0;
    agent.clock_wanted = true;
    clock.answer = 1;
    clock.received = aqi_align_time(&agent.align, now);
    clock.error = root                            ? 0
                  : aqi_align_ready(&agent.align) ? aqi_align_error(&agent.align, now)
                                                  : UINT64_MAX;
    clock.answered = aqi_align_time(&agent.align, aqi_now_ns());
    agent_send_clock(peer, &clock);
}

static aq_status agent_on_clock(const struct agent_peer *peer, const uint8_t *bytes, size_t len)
{
    struct agent_clock clock;
    uint64_t now = aqi_now_ns();
    if (len != sizeof(clock)) return AQ_EPROTO;
    memcpy(&clock, bytes, sizeof(clock));
    if (clock.answer == 0) {
        agent_answer_clock(peer, clock, now);
    } else if (peer == agent.above) {
        aqi_align_add(&agent.align, clock.asked, clock.received, clock.answered, now, clock.error);
        if (clock.error != UINT64_MAX && !aqi_align_ready(&agent.align)) agent.ask_ns = 0;
    }
    return AQ_OK;
}

static uint64_t agent_tick_clock(uint64_t now)
{
    agent.clock_wanted = agent.clock_wanted || aqi_records_need_clock();
    if (!agent.clock_wanted || !aqi_agent_attached()) return UINT64_MAX;
    if (now >= agent.ask_ns) agent_ask_clock(now);
    return agent.ask_ns;
}

/* --- from other agents ---------------------------------------------------------------------- */

static void agent_enter_hub(void)
{
    agent.hub_called = true;
    aqi_hub_now(agent.hub, aqi_now_ns());
}

static void agent_on_opened(struct aqi_link *link, const struct aqi_seal_call *call)
{
    struct agent_peer *peer = aqi_link_owner(link);
    agent_enter_hub();
    if (peer != NULL) {
        peer->open = true;
        aqi_hub_attached(agent.hub, agent_number(peer));
        return;
    }
    if (call->from >= agent.params.hub.agents || call->from == agent.params.hub.agent) {
        aqi_link_close(link, 0);
        return;
    }
    peer = &agent.peers[call->from];
    if (peer->link != NULL) { /* the peer has closed the old link; its end has not arrived yet */
        agent_detach(NULL, call->from);
        aqi_hub_link_lost(agent.hub, call->from, false, "it connected again");
    }
    peer->link = link;
    peer->open = true;
    agent.children++;
    aqi_link_set_owner(link, peer);
    if (agent.params.attached != NULL) agent.params.attached(agent.params.hub.arg, call->from);
}

static void agent_drop(struct agent_peer *peer, aq_status status, const char *why)
{
    bool open = peer->open, called = peer->called;
    uint32_t number = agent_number(peer);
    agent_peer_reset(peer);
    if (open && !called && status != AQ_OK && agent.params.disconnected != NULL)
        agent.params.disconnected(agent.params.hub.arg, number, why);
    if (open)
        aqi_hub_link_lost(agent.hub, number, status == AQ_OK || status == AQ_EPEER, why);
    else if (called)
        aqi_hub_unreachable(agent.hub, number, status == AQ_EREFUSED, why);
}

/* Pass a frame to the hub once its last piece has arrived. */
static aq_status agent_on_piece(struct agent_peer *peer, bool last, const uint8_t *bytes,
                                size_t len)
{
    if (last && peer->got == 0) return aqi_hub_frame(agent.hub, agent_number(peer), bytes, len);
    if (peer->got + len > AGENT_FRAME_MAX) return AQ_EPROTO;
    if (!aqi_array_reserve(&peer->pieces, &peer->room, peer->got + len, 1)) return AQ_ENOMEM;
    memcpy(peer->pieces + peer->got, bytes, len);
    peer->got += len;
    if (!last) return AQ_OK;
    size_t got = peer->got;
    uint8_t *pieces = peer->pieces;
    peer->pieces = NULL; /* the hub may close the link */
    peer->got = peer->room = 0;
    aq_status status = aqi_hub_frame(agent.hub, agent_number(peer), pieces, got);
    free(pieces);
    return status;
}

static void agent_on_frame(struct aqi_link *link, const uint8_t *bytes, size_t len)
{
    struct agent_peer *peer = aqi_link_owner(link);
    if (peer == NULL) return;
    uint32_t number = agent_number(peer);
    aq_status status = AQ_EPROTO;
    agent_enter_hub();
    if (len > 0 && bytes[0] == AGENT_CLOCK)
        status = agent_on_clock(peer, bytes, len);
    else if (len > 0 && bytes[0] <= AGENT_MORE)
        status = agent_on_piece(peer, bytes[0] == AGENT_LAST, bytes + 1, len - 1);
    if (status == AQ_OK || aqi_link_owner(link) != peer) return;
    agent_detach(NULL, number);
    aqi_hub_link_lost(agent.hub, number, true, "it sent a malformed message");
}

static void agent_on_ended(struct aqi_link *link, aq_status status, const char *why)
{
    struct agent_peer *peer = aqi_link_owner(link);
    if (peer == NULL) return;
    agent_enter_hub();
    agent_drop(peer, status, status == AQ_OK ? "its agent has ended" : why);
}

static void agent_on_stranger(void *arg, const char *why, unsigned more)
{
    (void)arg;
    aqi_hub_print_verbose(agent.hub, "%s (and %u more)", why, more);
}

static const struct aqi_link_hooks agent_links_hooks = {.opened = agent_on_opened,
                                                        .frame = agent_on_frame,
                                                        .ended = agent_on_ended,
                                                        .stranger = agent_on_stranger};

/* --- data shown by the ranks ------------------------------------------------------------------ */

static void agent_output(void *arg, uint32_t rank, unsigned stream, const void *bytes, size_t len)
{
    if (stream < AQI_STREAM_SHOWN || stream >= AQI_STREAM_FILES || stream == AQI_STREAM_LOG)
        agent.output(arg, rank, stream, bytes, len);
    else if (stream == AQI_STREAM_TOP)
        aqi_top_arrived(bytes, len);
    else if (stream == AQI_STREAM_PEERS)
        aqi_top_peers_arrived(bytes, len);
    else
        aqi_records_arrived((enum aqi_show)(stream - AQI_STREAM_SHOWN), bytes, len);
}

static void agent_open_shows(void)
{
    const struct aqi_hub_params *own = &agent.params.hub;
    const char *host = own->hosts != NULL ? own->hosts[own->agent] : agent.name;
    if (own->hosts == NULL && gethostname(agent.name, sizeof(agent.name) - 1) != 0)
        host = "this host";
    aqi_records_open(&(struct aqi_records_params){
        .hub = agent.hub, .host = host, .align = own->agent != 0 ? &agent.align : NULL});
    aqi_peers_open(agent.hub);
    aqi_top_open(&(struct aqi_top_params){
        .hub = agent.hub, .host = host, .program = own->program, .root = own->agent == 0});
}

/* --- opening and closing -------------------------------------------------------------------- */

static aq_status agent_open_links(void)
{
    const struct aqi_hub_params *hub = &agent.params.hub;
    struct aqi_links_config config = {
        .host = hub->agent, .silence_ns = hub->host_timeout_ns, .hooks = &agent_links_hooks};
    static_assert(sizeof(config.key) == sizeof(hub->key), "the key of the job");
    memcpy(config.key, hub->key, sizeof(config.key));
    if (hub->agents == 1) return AQ_OK;
    aq_status status = aqi_links_open(&config, &agent.links);
    if (status == AQ_OK) status = aqi_links_listen(agent.links, agent.params.ports);
    return status;
}

aq_status aqi_agent_open(const struct aqi_agent_params *params, struct aqi_hub **hub)
{
    agent.params = *params;
    struct aqi_hub_params *own = &agent.params.hub;
    own->now_ns = aqi_now_ns();
    own->hooks.to_rank = aqi_desk_to_rank;
    own->hooks.to_agent = agent_to_agent;
    own->hooks.attach = agent_attach;
    own->hooks.detach = agent_detach;
    own->hooks.pause = agent_pause;
    own->hooks.drain = aqi_desk_drain;
    own->hooks.freeze = aqi_desk_freeze;
    own->hooks.share = aqi_desk_share;
    own->hooks.watch = aqi_top_watch;
    own->hooks.peers = aqi_peers_report;
    agent.output = own->hooks.output;
    own->hooks.output = agent_output;
    agent.peers = calloc(own->agents, sizeof(*agent.peers));
    if (agent.peers == NULL)
        return aqi_fail(AQ_ENOMEM, "job", "no memory for %u hosts", own->agents);
    aq_status status = aqi_desk_open(params->local_ranks, &own->page);
    if (status == AQ_OK) status = aqi_hub_open(own, &agent.hub);
    if (status == AQ_OK) {
        aqi_desk_serve(agent.hub);
        agent_open_shows();
    }
    if (status == AQ_OK) status = agent_open_links();
    if (status != AQ_OK) {
        aqi_agent_close();
        return status;
    }
    *hub = agent.hub;
    return AQ_OK;
}

void aqi_agent_start(void)
{
    const struct aqi_hub_params *own = &agent.params.hub;
    /* Leave time to report the reason before the root ends the job. */
    uint64_t within_ns = aqi_min(own->host_timeout_ns, own->start_timeout_ns / 4 * 3);
    if (own->agent != 0) agent_call(aqi_hub_parent(own->agent, own->fanout), within_ns);
}

aq_status aqi_agent_offer(char *text, size_t len)
{
    return aqi_links_offer(agent.links, text, len);
}

static void agent_report_unreachable(void)
{
    struct agent_peer *peer = agent.failed_call;
    if (peer == NULL) return;
    agent.failed_call = NULL;
    agent_drop(peer, AQ_EINVAL, "its address is unknown");
}

uint64_t aqi_agent_tick(void)
{
    uint64_t now = aqi_now_ns();
    aqi_hub_now(agent.hub, now);
    agent_report_unreachable();
    aqi_records_tick();
    uint64_t clock = agent_tick_clock(now), watched = aqi_top_tick(now);
    watched = aqi_min(watched, aqi_peers_tick(now));
    uint64_t next = aqi_min(aqi_hub_tick(agent.hub), clock);
    next = aqi_min(next, watched);
    if (agent.links == NULL) return next;
    agent.hub_called = false;
    next = aqi_min(next, aqi_links_tick(agent.links, now));
    return agent.hub_called ? now : next;
}

bool aqi_agent_attached(void)
{
    return agent.above != NULL && agent.above->open;
}

uint32_t aqi_agent_children(void)
{
    return agent.children;
}

void aqi_agent_leave(uint64_t limit_ns)
{
    aqi_records_drain();
    aqi_records_close();
    if (agent.links == NULL) return;
    for (uint32_t i = 0; i < agent.params.hub.agents; i++)
        agent_detach(NULL, i);
    for (;;) {
        uint64_t next = aqi_agent_tick();
        /* Check after the tick, which ends links: if it ended the last one, nothing would wake the
         * loop. */
        if (aqi_links_count(agent.links) == 0 || aqi_now_ns() >= limit_ns) return;
        aqi_loop_once(aqi_min(next, limit_ns));
    }
}

void aqi_agent_close(void)
{
    if (agent.hub != NULL) aqi_top_close();
    aqi_peers_close();
    if (agent.links != NULL) aqi_links_close(agent.links);
    aqi_desk_close();
    if (agent.hub != NULL) aqi_hub_close(agent.hub);
    if (agent.params.hub.page != NULL) aqi_parcel_release(agent.params.hub.page);
    for (uint32_t i = 0; agent.peers != NULL && i < agent.params.hub.agents; i++)
        free(agent.peers[i].pieces);
    free(agent.peers);
    memset(&agent, 0, sizeof(agent));
}
