/*
 * The tree of agents: the log on its way down, facts on their way up, and re-attaching after the
 * loss of an agent or link.
 */
#include "base/array.h"
#include "job/hub/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Facts are acknowledged after this many bytes; root_tick acknowledges the remaining ones. */
#define FLOW_ACK_BYTES 65536u
/* Pause between two rounds of calls to ancestors, in fractions of AQ_HOST_TIMEOUT. */
#define FLOW_ROUNDS 40u
/* Output waits while more than this many bytes are unacknowledged. */
#define FLOW_WINDOW (4 * FLOW_ACK_BYTES)

uint32_t aqi_hub_parent(uint32_t agent, uint32_t fanout)
{
    return agent == 0 ? AQI_NO_AGENT : (agent - 1) / fanout;
}

static bool flow_below(const struct aqi_hub *hub, uint32_t agent, uint32_t above)
{
    while (agent != above && agent != AQI_NO_AGENT)
        agent = aqi_hub_parent(agent, hub->params.fanout);
    return agent == above;
}

static void flow_items_append(struct aqi_hub *hub, struct hub_items *items, uint64_t number,
                              struct aqi_parcel *parcel)
{
    struct hub_item *item = malloc(sizeof(*item));
    if (item == NULL) hub_no_memory(hub, "messages between hosts");
    *item = (struct hub_item){.number = number, .parcel = parcel};
    *items->last = item;
    items->last = &item->next;
}

/* Free items up to this number; returns the number of bytes freed. */
static size_t flow_items_drop(struct hub_items *items, uint64_t number)
{
    size_t bytes = 0;
    while (items->first != NULL && items->first->number <= number) {
        struct hub_item *gone = items->first;
        items->first = gone->next;
        bytes += gone->parcel->len;
        aqi_parcel_release(gone->parcel);
        free(gone);
    }
    if (items->first == NULL) items->last = &items->first;
    return bytes;
}

void flow_close(struct aqi_hub *hub)
{
    (void)flow_items_drop(&hub->flow.log, UINT64_MAX);
    (void)flow_items_drop(&hub->flow.facts, UINT64_MAX);
    free(hub->flow.children);
    free(hub->flow.via);
}

static void flow_send(struct aqi_hub *hub, uint32_t to, const struct hub_frame *frame)
{
    uint8_t small[HUB_FRAME_HEAD + AQI_CONTROL_TEXT];
    size_t len = aqi_min(frame->len, AQI_CONTROL_TEXT);
    hub_frame_head(frame, small);
    if (len != 0) memcpy(small + HUB_FRAME_HEAD, frame->data, len);
    hub->params.hooks.to_agent(hub->params.arg, to, small, HUB_FRAME_HEAD + len);
}

/* Parcels have space for the head of the frame. */
static void flow_send_item(struct aqi_hub *hub, uint32_t to, uint8_t kind,
                           const struct hub_item *item)
{
    struct hub_frame frame = {.kind = kind, .agent = hub->params.agent, .number = item->number};
    hub_frame_head(&frame, item->parcel->bytes);
    hub->params.hooks.to_agent(hub->params.arg, to, item->parcel->bytes, item->parcel->len);
}

/* --- facts ---------------------------------------------------------------------------------- */

void flow_fact(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_flow *flow = &hub->flow;
    struct aqi_parcel *parcel = hub_note_encode(note);
    if (parcel == NULL) hub_no_memory(hub, "messages from ranks");
    struct hub_item **at = flow->facts.last;
    flow_items_append(hub, &flow->facts, ++flow->last_fact, parcel);
    if (hub->root != NULL) return; /* the next pump handles it */
    flow->unacknowledged += parcel->len;
    if (flow->attached) flow_send_item(hub, flow->parent, HUB_FRAME_FACT, *at);
}

static void flow_resend(struct aqi_hub *hub)
{
    struct hub_flow *flow = &hub->flow;
    const struct hub_frame frame = {.kind = HUB_FRAME_RESEND};
    for (const struct hub_item *item = flow->facts.first; item != NULL; item = item->next)
        flow_send_item(hub, flow->parent, HUB_FRAME_FACT, item);
    for (uint32_t i = 0; i < flow->count; i++)
        if (flow->children[i].attached) flow_send(hub, flow->children[i].agent, &frame);
}

bool aqi_hub_has_room(const struct aqi_hub *hub)
{
    return hub->root != NULL ? !hub->root->hold
                             : hub->flow.attached && hub->flow.unacknowledged < FLOW_WINDOW;
}

/* --- children ------------------------------------------------------------------------------- */

static struct hub_child *flow_child(struct aqi_hub *hub, uint32_t agent)
{
    struct hub_flow *flow = &hub->flow;
    for (uint32_t i = 0; i < flow->count; i++)
        if (flow->children[i].agent == agent) return &flow->children[i];
    return NULL;
}

static struct hub_child *flow_add_child(struct aqi_hub *hub, uint32_t agent)
{
    struct hub_flow *flow = &hub->flow;
    if (!aqi_array_reserve(&flow->children, &flow->room, (size_t)flow->count + 1,
                           sizeof(*flow->children)))
        hub_no_memory(hub, "links to other hosts");
    struct hub_child *child = &flow->children[flow->count++];
    *child = (struct hub_child){.agent = agent, .until_ns = UINT64_MAX};
    return child;
}

void flow_open(struct aqi_hub *hub)
{
    struct hub_flow *flow = &hub->flow;
    flow->parent = aqi_hub_parent(hub->params.agent, hub->params.fanout);
    flow->attached = hub->params.agent == 0;
    flow->detached_ns = hub->now;
    flow->log.last = &flow->log.first;
    flow->facts.last = &flow->facts.first;
    flow->via = calloc(hub->params.agents, sizeof(*flow->via));
    if (flow->via == NULL) hub_no_memory(hub, "links to other hosts");
    uint64_t first = (uint64_t)hub->params.agent * hub->params.fanout + 1;
    for (uint64_t i = first; i < first + hub->params.fanout && i < hub->params.agents; i++)
        (void)flow_add_child(hub, (uint32_t)i);
}

/* The child through which an agent is reachable; NULL: currently unreachable. */
static struct hub_child *flow_way(struct aqi_hub *hub, uint32_t agent)
{
    struct hub_child *last = flow_child(hub, hub->flow.via[agent]);
    if (last != NULL && last->attached) return last;
    while (agent != AQI_NO_AGENT && agent != hub->params.agent) {
        struct hub_child *child = flow_child(hub, agent);
        if (child != NULL && child->attached) return child;
        agent = aqi_hub_parent(agent, hub->params.fanout);
    }
    return NULL;
}

/* Free entries that all agents in our subtree have. */
static void flow_trim(struct aqi_hub *hub)
{
    struct hub_flow *flow = &hub->flow;
    uint64_t applied = flow->applied;
    for (uint32_t i = 0; i < flow->count; i++)
        applied = aqi_min(applied, flow->children[i].applied);
    (void)flow_items_drop(&flow->log, applied);
    if (applied <= flow->reported) return;
    flow->reported = applied;
    const struct hub_frame frame = {.kind = HUB_FRAME_APPLIED, .number = applied};
    if (hub->root == NULL && flow->attached) flow_send(hub, flow->parent, &frame);
}

uint64_t flow_orphans_ns(const struct aqi_hub *hub)
{
    return 2 * hub->params.host_timeout_ns;
}

/* Agents below a lost child may attach here, and continue with the log where the child was: keep
 * it. */
static void flow_lose_child(struct aqi_hub *hub, struct hub_child *child)
{
    child->attached = false;
    child->until_ns = hub->now + flow_orphans_ns(hub);
}

static void flow_refuse(struct aqi_hub *hub, uint32_t agent, const char *why)
{
    const struct hub_frame frame = {
        .kind = HUB_FRAME_GONE, .agent = agent, .data = why, .len = strlen(why)};
    flow_send(hub, agent, &frame);
    hub->params.hooks.detach(hub->params.arg, agent);
}

/* No agent accepts us: end the ranks of this host; agents below re-attach elsewhere. */
static void flow_cut_off(struct aqi_hub *hub, const char *why)
{
    struct hub_flow *flow = &hub->flow;
    if (flow->cut_off || hub->over) return;
    flow->cut_off = true;
    flow->attached = false;
    for (uint32_t i = 0; i < flow->count; i++)
        if (flow->children[i].attached) {
            flow_lose_child(hub, &flow->children[i]);
            hub->params.hooks.detach(hub->params.arg, flow->children[i].agent);
        }
    const struct hub_note end = {.type = HUB_END,
                                 .rank = AQI_NO_RANK,
                                 .code = AQI_EXIT_FAILED,
                                 .data = why,
                                 .len = strlen(why)};
    hub->params.hooks.say(hub->params.arg, hub->running != 0, why);
    closing_begin(hub, &end);
    if (hub->closing.closed) hub_over(hub, AQI_EXIT_FAILED);
}

/* The root has declared this agent dead. */
static void flow_excluded(struct aqi_hub *hub, const char *why)
{
    char text[2 * AQI_CONTROL_TEXT];
    if (hub->flow.cut_off || hub->over) return;
    snprintf(text, sizeof(text), "host %.60s is no longer part of the job (%s): its ranks end",
             hub_host(hub, hub->params.agent), why);
    if (hub->flow.attached) hub->params.hooks.detach(hub->params.arg, hub->flow.parent);
    flow_cut_off(hub, text);
}

/* The root has declared an agent dead. */
static void flow_on_lost(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_child *child = flow_child(hub, note->rank);
    char why[AQI_CONTROL_TEXT + 1];
    hub_note_text(note, why);
    if (note->rank == hub->params.agent) flow_excluded(hub, why);
    if (child == NULL) return;
    bool attached = child->attached;
    flow_lose_child(hub, child);
    if (attached) flow_refuse(hub, note->rank, why);
}

/* --- the log -------------------------------------------------------------------------------- */

/* Store, forward and apply the next entry. */
static void flow_append_entry(struct aqi_hub *hub, struct aqi_parcel *parcel)
{
    struct hub_flow *flow = &hub->flow;
    struct hub_note note;
    struct hub_item **at = flow->log.last;
    bool sane =
        hub_note_decode(parcel->bytes + HUB_FRAME_HEAD, parcel->len - HUB_FRAME_HEAD, &note);
    flow_items_append(hub, &flow->log, ++flow->applied, parcel);
    for (uint32_t i = 0; i < flow->count; i++)
        if (flow->children[i].attached)
            flow_send_item(hub, flow->children[i].agent, HUB_FRAME_ENTRY, *at);
    parcel->refs++; /* not to be freed by trimming while it is applied */
    if (sane && note.type == HUB_LOST) flow_on_lost(hub, &note);
    if (sane) local_apply(hub, &note);
    aqi_parcel_release(parcel);
    flow_trim(hub);
}

void flow_entry(struct aqi_hub *hub, const struct hub_note *note)
{
    struct aqi_parcel *parcel = hub_note_encode(note);
    if (parcel == NULL) hub_no_memory(hub, "messages to ranks");
    flow_append_entry(hub, parcel);
}

static aq_status flow_on_entry(struct aqi_hub *hub, uint32_t from, const struct hub_frame *frame)
{
    struct hub_flow *flow = &hub->flow;
    if (hub->root != NULL || from != flow->parent) return AQ_EPROTO;
    if (frame->number <= flow->applied) return AQ_OK;
    if (frame->number != flow->applied + 1) return AQ_EPROTO;
    struct aqi_parcel *parcel = aqi_parcel_new(NULL, HUB_FRAME_HEAD + frame->len);
    if (parcel == NULL) hub_no_memory(hub, "messages to ranks");
    memcpy(parcel->bytes + HUB_FRAME_HEAD, frame->data, frame->len);
    flow_append_entry(hub, parcel);
    return AQ_OK;
}

/* --- attaching ------------------------------------------------------------------------------ */

/* Send all entries after `applied` to an agent. */
static void flow_catch_up(struct aqi_hub *hub, uint32_t agent, uint64_t applied)
{
    for (const struct hub_item *item = hub->flow.log.first; item != NULL; item = item->next)
        if (item->number > applied) flow_send_item(hub, agent, HUB_FRAME_ENTRY, item);
}

static aq_status flow_on_attach(struct aqi_hub *hub, uint32_t from, const struct hub_frame *frame)
{
    struct hub_flow *flow = &hub->flow;
    uint32_t agent = frame->agent, epoch;
    if (agent != from || agent >= hub->params.agents || agent == hub->params.agent ||
        frame->len != sizeof(epoch) || !flow_below(hub, agent, hub->params.agent))
        return AQ_EPROTO;
    memcpy(&epoch, frame->data, sizeof(epoch));
    uint64_t kept = flow->log.first != NULL ? flow->log.first->number - 1 : flow->applied;
    if (hub->root != NULL && hub->root->agents[agent].lost) {
        flow_refuse(hub, agent, "the job goes on without it");
        return AQ_OK;
    }
    if (hub->root != NULL && frame->number > flow->applied) return AQ_EPROTO;
    /* It may have more entries than this agent, and then ignores those that are forwarded to it. */
    if (frame->number < kept) {
        /* An agent above may still store what it needs: agents below may have attached there
         * meanwhile. */
        if (hub->root != NULL)
            flow_refuse(hub, agent, "it was disconnected for too long");
        else
            hub->params.hooks.detach(hub->params.arg, agent);
        return AQ_OK;
    }
    struct hub_child *child = flow_child(hub, agent);
    if (child == NULL) child = flow_add_child(hub, agent);
    child->attached = true;
    child->epoch = epoch;
    /* Agents below it may lack entries that it has; it will report what they have. */
    child->applied = kept;
    flow->via[agent] = agent;
    flow_fact(hub, &(struct hub_note){.type = HUB_HERE, .rank = agent, .seq = epoch});
    flow_catch_up(hub, agent, frame->number);
    return AQ_OK;
}

void aqi_hub_attached(struct aqi_hub *hub, uint32_t ancestor)
{
    struct hub_flow *flow = &hub->flow;
    if (flow->cut_off || hub->over) {
        hub->params.hooks.detach(hub->params.arg, ancestor);
        return;
    }
    flow->parent = ancestor;
    flow->attached = true;
    flow->retry_ns = 0;
    flow->why[0] = '\0';
    flow->epoch++;
    const struct hub_frame frame = {.kind = HUB_FRAME_ATTACH,
                                    .agent = hub->params.agent,
                                    .number = flow->applied,
                                    .data = &flow->epoch,
                                    .len = sizeof(flow->epoch)};
    flow_send(hub, ancestor, &frame);
    flow->reported = 0;
    flow_trim(hub);
    flow_resend(hub);
}

static void flow_call(struct aqi_hub *hub, uint32_t ancestor)
{
    hub->flow.parent = ancestor;
    hub->flow.retry_ns = 0;
    hub->params.hooks.attach(hub->params.arg, ancestor);
}

/* There is no ancestor left to call, or none could be reached in time. */
static void flow_unreachable(struct aqi_hub *hub, const char *why)
{
    char text[AQI_CONTROL_TEXT];
    snprintf(text, sizeof(text), "host %.60s %s %s, and ends its part of the job: %.300s",
             hub_host(hub, hub->params.agent),
             hub->flow.epoch != 0 ? "has lost its connection to" : "cannot connect to",
             hub->params.launcher, why);
    flow_cut_off(hub, text);
}

/*
 * An agent that was attached calls the next ancestor and then the root. If only a link broke, it
 * repeats this, starting with its old parent, as the network may recover at any time, unless the
 * root has ended. A parent that has ended may have tried all of that before it ended, without
 * success.
 */
void aqi_hub_unreachable(struct aqi_hub *hub, uint32_t ancestor, bool gone, const char *why)
{
    struct hub_flow *flow = &hub->flow;
    uint32_t next = aqi_hub_parent(ancestor, hub->params.fanout);
    if (flow->cut_off || hub->over) return;
    if (next == AQI_NO_AGENT && flow->epoch != 0 && flow->lost_parent != AQI_NO_AGENT && !gone) {
        snprintf(flow->why, sizeof(flow->why), "%s", why);
        flow->retry_ns = hub->now + hub->params.host_timeout_ns / FLOW_ROUNDS;
    } else if (next == AQI_NO_AGENT) {
        flow_unreachable(hub, why);
    } else {
        flow_call(hub, flow->epoch != 0 ? 0 : next);
    }
}

void aqi_hub_forsaken(struct aqi_hub *hub)
{
    char text[AQI_CONTROL_TEXT];
    if (hub->flow.epoch != 0 || hub->root != NULL) return;
    snprintf(text, sizeof(text), "host %.60s: the process that started its agent is gone",
             hub_host(hub, hub->params.agent));
    flow_cut_off(hub, text);
}

static aq_status flow_on_gone(struct aqi_hub *hub, const struct hub_frame *frame)
{
    struct hub_note note = {.data = frame->data, .len = frame->len};
    char why[AQI_CONTROL_TEXT + 1];
    flow_excluded(hub, hub_note_text(&note, why));
    return AQ_OK;
}

static void flow_lose_parent(struct aqi_hub *hub, bool ended, const char *why)
{
    struct hub_flow *flow = &hub->flow;
    uint32_t above = aqi_hub_parent(flow->parent, hub->params.fanout);
    flow->attached = false;
    flow->detached_ns = hub->now;
    flow->lost_parent = ended ? AQI_NO_AGENT : flow->parent;
    if (hub->closing.closed && flow->facts.first == NULL)
        hub_over(hub, 0); /* not needed any longer: all facts are acknowledged */
    else if (flow->cut_off)
        return;
    else if (above != AQI_NO_AGENT)
        flow_call(hub, above);
    else if (!ended)
        flow_call(hub, 0);
    else
        flow_unreachable(hub, why);
}

void aqi_hub_link_lost(struct aqi_hub *hub, uint32_t agent, bool ended, const char *why)
{
    struct hub_flow *flow = &hub->flow;
    struct hub_child *child = flow_child(hub, agent);
    if (hub->over) return;
    if (hub->root == NULL && agent == flow->parent && flow->attached) {
        flow_lose_parent(hub, ended, why);
    } else if (child != NULL && child->attached) {
        flow_lose_child(hub, child);
        flow_fact(hub, &(struct hub_note){.type = HUB_HOST_LOST,
                                          .rank = agent,
                                          .seq = child->epoch,
                                          .code = !ended,
                                          .text = why});
    }
    hub_pump(hub);
}

void aqi_hub_no_agent(struct aqi_hub *hub, uint32_t agent, const char *why)
{
    flow_fact(hub, &(struct hub_note){
                       .type = HUB_FAILED, .rank = agent, .code = AQI_EXIT_FAILED, .text = why});
    flow_fact(hub, &(struct hub_note){.type = HUB_HOST_LOST, .rank = agent, .text = why});
    hub_pump(hub);
}

/* --- frames --------------------------------------------------------------------------------- */

static aq_status flow_on_fact(struct aqi_hub *hub, uint32_t from, const struct hub_frame *frame)
{
    struct hub_child *child = flow_child(hub, from);
    if (child == NULL || !child->attached || frame->agent >= hub->params.agents ||
        !flow_below(hub, frame->agent, hub->params.agent))
        return AQ_EPROTO;
    hub->flow.via[frame->agent] = from;
    if (hub->root == NULL) {
        /* If this agent is not attached, the fact is dropped, and resent later. */
        if (hub->flow.attached)
            hub->params.hooks.to_agent(hub->params.arg, hub->flow.parent, frame->raw,
                                       frame->raw_len);
        return AQ_OK;
    }
    struct hub_agent *agent = &hub->root->agents[frame->agent];
    struct hub_note note;
    if (agent->lost) return AQ_OK;
    if (frame->number <= agent->facts) { /* the acknowledgment has not arrived */
        agent->acknowledged = 0;
        root_ack_later(hub);
    }
    if (frame->number != agent->facts + 1) return AQ_OK;
    if (!hub_note_decode(frame->data, frame->len, &note) || !HUB_IS_FACT(note.type))
        return AQ_EPROTO;
    note.by = frame->agent;
    agent->facts++;
    agent->bytes += frame->len;
    root_fact(hub, &note);
    root_ack_later(hub);
    flow_acknowledge(hub, frame->agent, false);
    return AQ_OK;
}

void flow_acknowledge(struct aqi_hub *hub, uint32_t agent, bool now)
{
    struct hub_agent *known = &hub->root->agents[agent];
    if (known->acknowledged == known->facts || hub->root->hold ||
        (!now && known->bytes < FLOW_ACK_BYTES))
        return;
    struct hub_child *way = flow_way(hub, agent);
    if (way == NULL) return;
    const struct hub_frame frame = {.kind = HUB_FRAME_GOT, .agent = agent, .number = known->facts};
    known->acknowledged = known->facts;
    known->bytes = 0;
    flow_send(hub, way->agent, &frame);
}

static aq_status flow_on_got(struct aqi_hub *hub, uint32_t from, const struct hub_frame *frame)
{
    struct hub_flow *flow = &hub->flow;
    if (hub->root != NULL || from != flow->parent || frame->agent >= hub->params.agents)
        return AQ_EPROTO;
    if (frame->agent == hub->params.agent) {
        if (frame->number > flow->last_fact) return AQ_EPROTO;
        flow->unacknowledged -= flow_items_drop(&flow->facts, frame->number);
        return AQ_OK;
    }
    struct hub_child *way = flow_way(hub, frame->agent);
    if (way != NULL) flow_send(hub, way->agent, frame);
    return AQ_OK;
}

static aq_status flow_on_applied(struct aqi_hub *hub, uint32_t from, const struct hub_frame *frame)
{
    struct hub_child *child = flow_child(hub, from);
    if (child == NULL || !child->attached ||
        (hub->root != NULL && frame->number > hub->flow.applied))
        return AQ_EPROTO;
    child->applied = aqi_max(child->applied, frame->number);
    flow_trim(hub);
    return AQ_OK;
}

static aq_status flow_dispatch(struct aqi_hub *hub, uint32_t from, const struct hub_frame *frame)
{
    switch ((enum hub_frame_kind)frame->kind) {
    case HUB_FRAME_ATTACH:
        return flow_on_attach(hub, from, frame);
    case HUB_FRAME_FACT:
        return flow_on_fact(hub, from, frame);
    case HUB_FRAME_GOT:
        return flow_on_got(hub, from, frame);
    case HUB_FRAME_ENTRY:
        return flow_on_entry(hub, from, frame);
    case HUB_FRAME_APPLIED:
        return flow_on_applied(hub, from, frame);
    case HUB_FRAME_RESEND:
        if (hub->root != NULL || from != hub->flow.parent) return AQ_EPROTO;
        flow_resend(hub);
        return AQ_OK;
    case HUB_FRAME_GONE:
        return from == hub->flow.parent ? flow_on_gone(hub, frame) : AQ_EPROTO;
    case HUB_FRAMES:
        break;
    }
    return AQ_EPROTO;
}

aq_status aqi_hub_frame(struct aqi_hub *hub, uint32_t agent, const void *bytes, size_t len)
{
    struct hub_frame frame;
    if (!hub_frame_decode(bytes, len, &frame)) return AQ_EPROTO;
    bool attach = frame.kind == HUB_FRAME_ATTACH;
    /* Output of ranks arrives even after the end; agents that attach must try elsewhere. */
    if (hub->flow.cut_off || (hub->over && attach)) {
        if (attach) hub->params.hooks.detach(hub->params.arg, agent);
        return AQ_OK;
    }
    aq_status status = flow_dispatch(hub, agent, &frame);
    hub_pump(hub);
    return status;
}

/* --- time ----------------------------------------------------------------------------------- */

static uint64_t flow_tick_children(struct aqi_hub *hub)
{
    struct hub_flow *flow = &hub->flow;
    uint64_t next = UINT64_MAX;
    for (uint32_t i = flow->count; i-- > 0;) {
        const struct hub_child *child = &flow->children[i];
        if (child->attached) continue;
        if (hub->now >= child->until_ns)
            flow->children[i] = flow->children[--flow->count];
        else
            next = aqi_min(next, child->until_ns);
    }
    flow_trim(hub);
    return next;
}

/* Remain disconnected for as long as the root waits for this agent or the first one of its
 * subtree. */
static uint64_t flow_tick_detached(struct aqi_hub *hub)
{
    struct hub_flow *flow = &hub->flow;
    char why[sizeof(flow->why) + 40];
    if (flow->attached || flow->cut_off || hub->over) return UINT64_MAX;
    uint64_t wait = flow->epoch != 0 ? flow_orphans_ns(hub) : hub->params.start_timeout_ns;
    uint64_t limit = flow->detached_ns + wait;
    if (hub->now < limit) {
        if (flow->retry_ns != 0 && hub->now >= flow->retry_ns) flow_call(hub, flow->lost_parent);
        return flow->retry_ns != 0 ? aqi_min(flow->retry_ns, limit) : limit;
    }
    snprintf(why, sizeof(why), "no connection for %.3g s%s%s", (double)wait / 1e9,
             flow->why[0] != '\0' ? ": " : "", flow->why);
    flow_unreachable(hub, why);
    return UINT64_MAX;
}

uint64_t flow_tick(struct aqi_hub *hub)
{
    return aqi_min(flow_tick_children(hub), flow_tick_detached(hub));
}
