/* The root's state of all ranks and agents, updated by facts. */
#include "base/fail.h"
#include "job/hub/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT_ACK_NS 100000000u

bool root_open(struct aqi_hub *hub)
{
    const struct aqi_hub_params *params = &hub->params;
    struct hub_root *root = calloc(1, sizeof(*root));
    if (root == NULL) return false;
    hub->root = root;
    root->ranks = calloc(params->ranks, sizeof(*root->ranks));
    root->agents = calloc(params->agents, sizeof(*root->agents));
    if (root->ranks == NULL || root->agents == NULL) return false;
    for (uint32_t i = 0; i < params->agents; i++)
        root->agents[i].parent = aqi_hub_parent(i, params->fanout);
    root->agents[0].attached = true;
    root->attached = root->open = 1;
    root->began_ns = hub->now;
    root->end.by = AQI_NO_RANK;
    return true;
}

void root_close(struct aqi_hub *hub)
{
    struct hub_root *root = hub->root;
    for (uint32_t i = 0; root->ranks != NULL && i < hub->params.ranks; i++)
        free(root->ranks[i].fate);
    while (root->deaths != NULL) {
        struct hub_death *gone = root->deaths;
        root->deaths = gone->next;
        free(gone);
    }
    agree_close(root->agreements);
    for (uint32_t i = 0; root->agents != NULL && i < hub->params.agents; i++)
        free(root->agents[i].broken);
    free(root->call.parts);
    free(root->ranks);
    free(root->agents);
    free(root);
}

bool aqi_hub_agent_here(const struct aqi_hub *hub, uint32_t agent)
{
    return hub->root->agents[agent].attached;
}

uint32_t aqi_hub_agents_here(const struct aqi_hub *hub)
{
    return hub->root != NULL ? hub->root->attached : 0;
}

void root_event(struct aqi_hub *hub, enum aqi_boot_event_type event, uint32_t rank, int code,
                const char *why)
{
    flow_entry(hub,
               &(struct hub_note){
                   .type = HUB_EVENT, .event = event, .rank = rank, .code = code, .text = why});
}

void root_absent(struct aqi_hub *hub, uint32_t rank, enum aqi_rank_state state)
{
    hub->root->ranks[rank].state = state;
    hub->root->absent++;
    collective_check(hub);
    agree_root_gone(hub, rank);
}

/* --- facts about agents --------------------------------------------------------------------- */

/* Declare the agent dead after this time, unless it reconnects; 0: cancel. */
static void root_orphan(struct aqi_hub *hub, struct hub_agent *agent, uint64_t wait_ns)
{
    hub->root->orphans -= agent->until_ns != 0;
    hub->root->orphans += wait_ns != 0;
    agent->until_ns = wait_ns != 0 ? hub->now + wait_ns : 0;
    free(agent->broken);
    agent->broken = NULL;
}

static void root_on_here(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_root *root = hub->root;
    if (note->rank == 0 || note->rank >= hub->params.agents) return;
    struct hub_agent *agent = &root->agents[note->rank];
    /* A report by an agent that was disconnected for some time may be outdated. */
    if (agent->lost || note->seq <= agent->epoch) return;
    root->attached += !agent->attached;
    root->open += !agent->attached && !agent->closed;
    agent->attached = true;
    agent->parent = note->by;
    agent->epoch = note->seq;
    root_orphan(hub, agent, 0);
    aqi_hub_print_verbose(hub, "host %s has joined", hub_host(hub, note->rank));
}

static void root_agent_lost(struct aqi_hub *hub, uint32_t lost, const char *why)
{
    struct hub_root *root = hub->root;
    struct hub_agent *agent = &root->agents[lost];
    char text[AQI_CONTROL_TEXT];
    if (agent->lost || lost == 0) return;
    root->attached -= agent->attached;
    root->open -= agent->attached && !agent->closed;
    agent->lost = agent->closed = true;
    agent->attached = false;
    root_orphan(hub, agent, 0);
    for (uint32_t i = 0; i < hub->params.agents; i++) {
        struct hub_agent *below = &root->agents[i];
        if (i == 0 || below->parent != lost || below->lost || below->until_ns != 0) continue;
        root_orphan(hub, below, flow_orphans_ns(hub));
    }
    flow_entry(hub, &(struct hub_note){.type = HUB_LOST, .rank = lost, .text = why});
    for (uint32_t i = 0; i < hub->params.ranks; i++) {
        const struct hub_rank *rank = &root->ranks[i];
        bool ended = !rank->running && rank->state != AQI_RANK_WAITING;
        if (hub_agent_of(hub, i) != lost || ended) continue;
        snprintf(text, sizeof(text), "rank %u was lost with its host %.60s: %.300s", i,
                 hub_host(hub, lost), why);
        end_died(hub, i, AQI_EXIT_FAILED, text);
    }
}

/*
 * The agent notices at most a keep-alive interval later than its ancestors, and then has time for
 * two calls.
 */
static void root_link_broken(struct aqi_hub *hub, uint32_t number, const char *why)
{
    struct hub_agent *agent = &hub->root->agents[number];
    if (agent->lost || agent->until_ns != 0) return;
    root_orphan(hub, agent, hub->params.host_timeout_ns);
    agent->broken = strdup(why);
    aqi_hub_print_verbose(hub, "host %s has %.3g s to reconnect: %s", hub_host(hub, number),
                          (double)hub->params.host_timeout_ns / 1e9, why);
}

static void root_on_host_lost(struct aqi_hub *hub, const struct hub_note *note)
{
    char why[AQI_CONTROL_TEXT + 1];
    /* The agent may have attached elsewhere before its parent could report the loss. */
    if (note->rank >= hub->params.agents || hub->root->agents[note->rank].epoch > note->seq) return;
    if (hub->root->end.over) return;
    if (hub->root->agents[note->rank].closed && hub->root->end.ending) return;
    hub_note_text(note, why);
    if (note->code != 0)
        root_link_broken(hub, note->rank, why);
    else
        root_agent_lost(hub, note->rank, why);
}

static void root_on_closed(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_agent *agent = &hub->root->agents[note->by];
    hub->root->open -= agent->attached && !agent->closed;
    agent->closed = true;
}

static void root_on_failed(struct aqi_hub *hub, const struct hub_note *note)
{
    char why[AQI_CONTROL_TEXT + 1];
    /* It has not attached to the agent that started it, but has reached the root in another way. */
    if (note->rank < hub->params.agents && hub->root->agents[note->rank].epoch != 0) return;
    hub_note_text(note, why);
    if (note->by == 0 || hub->params.hosts == NULL)
        end_job(hub, note->code, AQI_NO_RANK, "%s", why);
    else
        end_job(hub, note->code, AQI_NO_RANK, "host %.60s: %s", hub_host(hub, note->by), why);
}

static void root_on_say(struct aqi_hub *hub, const struct hub_note *note)
{
    char text[AQI_CONTROL_TEXT + 1];
    hub->params.hooks.say(hub->params.arg, note->code != 0, hub_note_text(note, text));
}

static void root_on_output(struct aqi_hub *hub, const struct hub_note *note)
{
    if (note->event >= AQI_STREAMS) return;
    hub->params.hooks.output(hub->params.arg, note->rank, note->event, note->data, note->len);
}

/* --- facts about ranks ---------------------------------------------------------------------- */

static void root_on_consumed(struct aqi_hub *hub, const struct hub_note *note)
{
    size_t *waiting = &hub->root->input_waiting;
    *waiting -= aqi_min(*waiting, note->bytes);
}

static void root_on_started(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_rank *rank = &hub->root->ranks[note->rank];
    if (rank->state != AQI_RANK_WAITING) return;
    rank->state = AQI_RANK_STARTED;
    rank->pid = note->pid;
    rank->running = true;
    hub->root->running++;
    hub->root->started++;
}

static void root_on_joined(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_rank *rank = &hub->root->ranks[note->rank];
    if (rank->state != AQI_RANK_STARTED) return;
    rank->state = AQI_RANK_JOINED;
    rank->joined_pid = note->pid;
    snprintf(rank->program, sizeof(rank->program), "%.*s", (int)note->len,
             note->len != 0 ? (const char *)note->data : "");
    aqi_hub_print_verbose(hub, "rank %u joined (pid %d)", note->rank, note->pid);
}

static void root_on_bye(struct aqi_hub *hub, uint32_t rank)
{
    aqi_hub_print_verbose(hub, "rank %u left", rank);
    if (hub->root->ranks[rank].leaving) end_left(hub, rank);
    root_absent(hub, rank, AQI_RANK_LEFT);
}

static void root_on_said(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_root *root = hub->root;
    struct hub_rank *rank = &root->ranks[note->rank];
    char why[AQI_CONTROL_TEXT + 1];
    if (rank->state != AQI_RANK_JOINED) return;
    switch (note->event) {
    case AQI_CONTROL_READY:
        root->ready += !rank->ready;
        rank->ready = true;
        break;
    case AQI_CONTROL_LEAVING:
        root->leaving += !rank->leaving;
        rank->leaving = true;
        collective_check(hub);
        break;
    case AQI_CONTROL_BYE:
        root_on_bye(hub, note->rank);
        break;
    case AQI_CONTROL_EXIT:
        end_by_exit(hub, note->rank, note->code, hub_note_text(note, why));
        break;
    case AQI_CONTROL_ENDING:
        end_request(hub, note->rank, note->code, note->wait);
        break;
    default:
        break;
    }
}

void root_stopped(struct aqi_hub *hub, struct hub_rank *rank)
{
    if (!rank->running) return;
    rank->running = false;
    hub->root->running--;
    hub->root->willing -= rank->ending;
}

static void root_on_ended(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_rank *rank = &hub->root->ranks[note->rank];
    if (!rank->running) return;
    root_stopped(hub, rank);
    end_judge(hub, note);
}

static void root_on_unexplained(struct aqi_hub *hub, const struct hub_note *note)
{
    char text[AQI_CONTROL_TEXT + 1];
    end_died(hub, note->rank, AQI_EXIT_FAILED, hub_note_text(note, text));
}

static const struct {
    bool of_rank; /* whether `rank` must be one of the agent's */
    void (*take)(struct aqi_hub *hub, const struct hub_note *note);
} root_handlers[HUB_NOTES] = {
    [HUB_HERE] = {false, root_on_here},
    [HUB_HOST_LOST] = {false, root_on_host_lost},
    [HUB_STARTED] = {true, root_on_started},
    [HUB_JOINED] = {true, root_on_joined},
    [HUB_SAID] = {true, root_on_said},
    [HUB_PART] = {false, collective_part},
    [HUB_ASK] = {false, agree_root_call},
    [HUB_ENDED] = {true, root_on_ended},
    [HUB_UNEXPLAINED] = {true, root_on_unexplained},
    [HUB_FAILED] = {false, root_on_failed},
    [HUB_CLOSED] = {false, root_on_closed},
    [HUB_SAY] = {false, root_on_say},
    [HUB_CONSUMED] = {false, root_on_consumed},
    [HUB_OUTPUT] = {true, root_on_output},
};

void root_fact(struct aqi_hub *hub, const struct hub_note *note)
{
    if (root_handlers[note->type].take == NULL) return;
    if (root_handlers[note->type].of_rank &&
        (note->rank >= hub->params.ranks || hub_agent_of(hub, note->rank) != note->by))
        return;
    root_handlers[note->type].take(hub, note);
}

/* --- time ----------------------------------------------------------------------------------- */

static uint64_t root_tick_orphans(struct aqi_hub *hub)
{
    uint64_t next = UINT64_MAX;
    char why[AQI_CONTROL_TEXT + 1];
    for (uint32_t i = 0; hub->root->orphans != 0 && i < hub->params.agents; i++) {
        const struct hub_agent *agent = &hub->root->agents[i];
        if (agent->until_ns == 0) continue;
        if (hub->now < agent->until_ns) {
            next = aqi_min(next, agent->until_ns);
            continue;
        }
        snprintf(why, sizeof(why), "%s",
                 agent->broken != NULL ? agent->broken
                                       : "it could not be reached after the loss of another host");
        root_agent_lost(hub, i, why);
    }
    return next;
}

/* List hosts that have not attached, if any: "node3", "node3, node7 and 12 more". */
static bool root_list_absent(const struct aqi_hub *hub, char *text, size_t room)
{
    enum { LISTED = 8 };
    uint32_t absent = 0;
    text[0] = '\0';
    for (uint32_t i = 1; i < hub->params.agents; i++) {
        const struct hub_agent *agent = &hub->root->agents[i];
        if (agent->lost || agent->epoch != 0) continue;
        if (absent++ < LISTED)
            aqi_append(text, room, "%s%.40s", absent > 1 ? ", " : "", hub_host(hub, i));
    }
    if (absent > LISTED) aqi_append(text, room, " and %u more", absent - LISTED);
    return absent != 0;
}

/* Fail the start if a host has not attached in time. */
static uint64_t root_tick_absent(struct aqi_hub *hub)
{
    struct hub_root *root = hub->root;
    uint64_t limit = root->began_ns + hub->params.start_timeout_ns;
    char absent[AQI_CONTROL_TEXT];
    if (root->start_checked || root->attached == hub->params.agents) return UINT64_MAX;
    if (hub->now < limit) return limit;
    root->start_checked = true;
    if (root_list_absent(hub, absent, sizeof(absent)))
        end_job(hub, AQI_EXIT_FAILED, AQI_NO_RANK,
                "no answer within %.3g s (AQ_START_TIMEOUT) from %s",
                (double)hub->params.start_timeout_ns / 1e9, absent);
    return UINT64_MAX;
}

static uint64_t root_tick_acks(struct aqi_hub *hub)
{
    struct hub_root *root = hub->root;
    if (root->ack_ns == 0) return UINT64_MAX;
    if (hub->now < root->ack_ns) return root->ack_ns;
    root->ack_ns = 0;
    for (uint32_t i = 1; i < hub->params.agents; i++)
        flow_acknowledge(hub, i, true);
    return UINT64_MAX;
}

uint64_t root_tick(struct aqi_hub *hub)
{
    if (hub->root == NULL) return UINT64_MAX;
    uint64_t next = end_tick(hub);
    next = aqi_min(next, collective_tick(hub));
    next = aqi_min(next, root_tick_orphans(hub));
    next = aqi_min(next, root_tick_absent(hub));
    return aqi_min(next, root_tick_acks(hub));
}

void root_ack_later(struct aqi_hub *hub)
{
    if (hub->root->ack_ns == 0) hub->root->ack_ns = hub->now + ROOT_ACK_NS;
}

/* --- requests by the launcher --------------------------------------------------------------- */

void aqi_hub_input(struct aqi_hub *hub, const void *bytes, size_t len)
{
    hub->root->input_waiting += len;
    flow_entry(hub, &(struct hub_note){.type = HUB_INPUT, .data = bytes, .len = len});
    hub_pump(hub);
}

void aqi_hub_shut_output(struct aqi_hub *hub, unsigned stream)
{
    if (hub->params.agents > 1)
        flow_entry(hub, &(struct hub_note){.type = HUB_SHUT, .event = stream});
    hub_pump(hub);
}

void aqi_hub_watch(struct aqi_hub *hub, uint64_t interval_ns)
{
    flow_entry(hub, &(struct hub_note){.type = HUB_WATCH, .wait = interval_ns});
    hub_pump(hub);
}

void aqi_hub_ask_peers(struct aqi_hub *hub, uint32_t turn)
{
    flow_entry(hub, &(struct hub_note){.type = HUB_PEERS, .seq = turn});
    hub_pump(hub);
}

size_t aqi_hub_input_waiting(const struct aqi_hub *hub)
{
    return hub->root->input_waiting;
}

void aqi_hub_hold_output(struct aqi_hub *hub, bool hold)
{
    hub->root->hold = hold;
    for (uint32_t i = 1; !hold && i < hub->params.agents; i++)
        flow_acknowledge(hub, i, true);
}

/* Stop (Ctrl-Z) or continue the job. */
void aqi_hub_pass(struct aqi_hub *hub, int number)
{
    const struct hub_note note = {.type = HUB_PASS, .code = number};
    if (hub->root != NULL)
        flow_entry(hub, &note);
    else
        local_apply(hub, &note);
    hub_pump(hub);
}

void aqi_hub_stopped(struct aqi_hub *hub, uint64_t ns)
{
    struct hub_root *root = hub->root;
    hub->closing.since_ns += ns;
    if (root == NULL) return;
    root->call.since_ns += ns;
    root->began_ns += ns;
    root->end.limit_ns += ns;
    if (root->end.left_ns != 0 && root->end.left_ns != UINT64_MAX) root->end.left_ns += ns;
    if (root->end.grace_ns == 0) return;
    root->end.grace_ns += ns;
    root->end.ask_ns += ns;
    root->end.requested_ns += ns;
}

int aqi_hub_code(const struct aqi_hub *hub)
{
    return hub->root->end.code;
}

void aqi_hub_code_at_least(struct aqi_hub *hub, int code)
{
    if (hub->root->end.code == 0) hub->root->end.code = code;
}

bool aqi_hub_ending(const struct aqi_hub *hub)
{
    return hub->closing.ending;
}

bool aqi_hub_abandoned(const struct aqi_hub *hub)
{
    return hub->closing.abandoned || (hub->root != NULL && hub->root->end.abandoned);
}
