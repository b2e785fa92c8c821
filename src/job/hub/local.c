/* The ranks of this host: converts their messages to facts, and notifies them of the log's
 * entries. */
#include "job/hub/impl.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Time for a shell to report the exit status of its program, as a part of AQ_EXIT_TIMEOUT. */
#define LOCAL_SHELL_PART 20

bool local_open(struct aqi_hub *hub)
{
    const struct aqi_hub_params *params = &hub->params;
    hub->index = malloc(params->ranks * sizeof(*hub->index));
    for (uint32_t i = 0; i < params->ranks; i++)
        hub->count += hub_agent_of(hub, i) == params->agent;
    hub->locals = calloc(hub->count + 1, sizeof(*hub->locals));
    if (hub->index == NULL || hub->locals == NULL) return false;
    uint32_t next = 0;
    for (uint32_t i = 0; i < params->ranks; i++) {
        bool mine = hub_agent_of(hub, i) == params->agent;
        hub->index[i] = mine ? next : AQI_NO_RANK;
        if (mine) hub->locals[next++].rank = i;
    }
    return true;
}

void local_close(struct aqi_hub *hub)
{
    for (uint32_t i = 0; hub->locals != NULL && i < hub->count; i++)
        free(hub->locals[i].part.data);
    if (hub->why != NULL) aqi_parcel_release(hub->why);
    agree_close(hub->agreements);
    free(hub->locals);
    free(hub->index);
}

/* --- ranks ---------------------------------------------------------------------------------- */

void aqi_hub_started(struct aqi_hub *hub, uint32_t rank, int pid)
{
    struct hub_local *local = hub_local(hub, rank);
    local->pid = pid;
    local->state = AQI_RANK_STARTED;
    local->running = true;
    hub->running++;
    flow_fact(hub, &(struct hub_note){.type = HUB_STARTED, .rank = rank, .pid = pid});
    hub_pump(hub);
}

enum aqi_rank_state aqi_hub_state(const struct aqi_hub *hub, uint32_t rank)
{
    const struct hub_local *local = hub_local(hub, rank);
    return local != NULL ? local->state : hub->root->ranks[rank].state;
}

aq_status aqi_hub_may_join(struct aqi_hub *hub, uint32_t rank, char why[AQI_CONTROL_TEXT])
{
    const struct hub_local *local = hub_local(hub, rank);
    if (local->state != AQI_RANK_STARTED) {
        snprintf(why, AQI_CONTROL_TEXT,
                 "rank %u's place in the job is taken: process %d joined there and %s. A place can "
                 "be used only once, by one program: start the second program with a separate %s",
                 rank, local->joined_pid,
                 local->state == AQI_RANK_LEFT ? "has left again" : "has not left",
                 hub->params.launcher);
        return AQ_ESTATE;
    }
    if (hub->closing.ending) {
        snprintf(why, AQI_CONTROL_TEXT, "the job is ending: %.400s",
                 hub->why_end[0] != '\0' ? hub->why_end : "its host has left the job");
        return AQ_EPEER;
    }
    return AQ_OK;
}

void aqi_hub_joined(struct aqi_hub *hub, uint32_t rank, int pid, const char *name)
{
    struct hub_local *local = hub_local(hub, rank);
    local->state = AQI_RANK_JOINED;
    local->joined_pid = pid;
    snprintf(local->program, sizeof(local->program), "%s", name);
    struct aqi_control message = {.type = AQI_CONTROL_JOB,
                                  .rank = rank,
                                  .size = hub->params.ranks,
                                  .host = hub->params.host,
                                  .hosts = hub->params.host_count,
                                  .local_rank = hub->index[rank],
                                  .local_size = hub->count};
    memcpy(message.key, hub->params.key, sizeof(message.key));
    hub->params.hooks.to_rank(hub->params.arg, rank, &message, hub->params.page);
    flow_fact(hub, &(struct hub_note){
                       .type = HUB_JOINED, .rank = rank, .pid = pid, .text = local->program});
    hub_pump(hub);
}

static aq_status local_report(struct aqi_hub *hub, struct hub_local *local,
                              const struct aqi_control *message)
{
    const struct hub_note note = {.type = HUB_SAID,
                                  .rank = local->rank,
                                  .event = message->type,
                                  .code = message->code,
                                  .wait = message->wait,
                                  .data = message->data,
                                  .len = message->len};
    if (message->type == AQI_CONTROL_LEAVING) local->leaving = true;
    if (message->type == AQI_CONTROL_BYE) {
        local->state = AQI_RANK_LEFT;
        agree_local_gone(hub, local->rank);
    }
    flow_fact(hub, &note);
    return AQ_OK;
}

/* Messages allowed once a rank has joined; all other types are malformed. */
static aq_status (*const local_handlers[AQI_CONTROL_TYPES])(struct aqi_hub *, struct hub_local *,
                                                            const struct aqi_control *) = {
    [AQI_CONTROL_CALL] = calls_take,        [AQI_CONTROL_BYE] = local_report,
    [AQI_CONTROL_READY] = local_report,     [AQI_CONTROL_LEAVING] = local_report,
    [AQI_CONTROL_AGREE] = agree_local_call, [AQI_CONTROL_EXIT] = local_report,
    [AQI_CONTROL_ENDING] = local_report,
};

aq_status aqi_hub_from_rank(struct aqi_hub *hub, uint32_t rank, const struct aqi_control *message)
{
    struct hub_local *local = hub_local(hub, rank);
    if (local_handlers[message->type] == NULL) return AQ_EPROTO;
    if (local->state != AQI_RANK_JOINED) return AQ_OK; /* a rank that has left sends nothing more */
    aq_status status = local_handlers[message->type](hub, local, message);
    hub_pump(hub);
    return status;
}

/* Describe how the rank's process has ended, with `status` of waitpid. Returns the exit code. */
static int local_describe(const struct aqi_hub *hub, const struct hub_local *local, int status,
                          char *text, size_t room)
{
    char name[AQI_RANK_NAME_BYTES];
    aqi_hub_name(hub, local->rank, name);
    if (status == -1) {
        snprintf(text, room, "%s ended%s", name,
                 local->state == AQI_RANK_JOINED ? " before aq_finalize" : "");
        return local->state == AQI_RANK_LEFT ? 0 : AQI_EXIT_FAILED;
    }
    int code = WIFSIGNALED(status) ? AQI_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    int number = code - AQI_EXIT_SIGNAL;
    bool shell_says = local->lost_ns != 0 && number > 0 && number < NSIG;
    const char *hint = hub->params.hooks.hint != NULL && number == SIGKILL
                           ? hub->params.hooks.hint(hub->params.arg)
                           : "";
    if (WIFSIGNALED(status) || shell_says)
        snprintf(text, room, "%s was killed by signal %d (%s)%s%s", name, number, strsignal(number),
                 local->state == AQI_RANK_LEFT ? " after aq_finalize" : "", hint);
    else
        snprintf(text, room, "%s exited with code %d%s", name, code,
                 local->state == AQI_RANK_JOINED ? " before aq_finalize" : "");
    return code;
}

void aqi_hub_ended(struct aqi_hub *hub, uint32_t rank, int status)
{
    struct hub_local *local = hub_local(hub, rank);
    char text[AQI_CONTROL_TEXT + 1];
    int code = local_describe(hub, local, status, text, sizeof(text));
    local->running = false;
    hub->running--;
    flow_fact(hub, &(struct hub_note){
                       .type = HUB_ENDED,
                       .rank = rank,
                       .code = code,
                       .event = (status != -1 && WIFSIGNALED(status) ? HUB_END_SIGNALED : 0u) |
                                (local->terminated ? HUB_END_TERMINATED : 0u),
                       .text = text});
    if (local->state < AQI_RANK_LEFT) {
        local->state = AQI_RANK_LOST;
        agree_local_gone(hub, rank);
    }
    closing_check(hub);
    hub_pump(hub);
}

void aqi_hub_lost(struct aqi_hub *hub, uint32_t rank)
{
    struct hub_local *local = hub_local(hub, rank);
    if (local->state != AQI_RANK_JOINED) return;
    local->lost_ns = hub->now;
    hub->unexplained++;
}

void aqi_hub_printed(struct aqi_hub *hub, uint32_t rank, unsigned stream, const void *bytes,
                     size_t len)
{
    flow_fact(hub,
              &(struct hub_note){
                  .type = HUB_OUTPUT, .rank = rank, .event = stream, .data = bytes, .len = len});
    hub_pump(hub);
}

void aqi_hub_consumed(struct aqi_hub *hub, size_t len)
{
    flow_fact(hub, &(struct hub_note){.type = HUB_CONSUMED, .bytes = len});
    hub_pump(hub);
}

void aqi_hub_failed(struct aqi_hub *hub, int code, const char *fmt, ...)
{
    char text[AQI_CONTROL_TEXT + 1];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    flow_fact(hub, &(struct hub_note){.type = HUB_FAILED, .code = code, .text = text});
    hub_pump(hub);
}

/* --- messages to the ranks ------------------------------------------------------------------ */

void local_broadcast(struct aqi_hub *hub, uint32_t except, const struct aqi_control *message,
                     const void *text, size_t len)
{
    struct aqi_parcel *parcel = aqi_parcel_new(text, aqi_min(len, AQI_CONTROL_TEXT));
    if (parcel == NULL) hub_no_memory(hub, "messages to ranks");
    for (uint32_t i = 0; i < hub->count; i++)
        if (hub->locals[i].rank != except && hub->locals[i].state == AQI_RANK_JOINED)
            hub->params.hooks.to_rank(hub->params.arg, hub->locals[i].rank, message, parcel);
    aqi_parcel_release(parcel);
}

static void local_event(struct aqi_hub *hub, const struct hub_note *note)
{
    const struct aqi_control message = {
        .type = AQI_CONTROL_EVENT, .event = note->event, .rank = note->rank, .code = note->code};
    uint32_t except = note->event == AQI_BOOT_PEER_LOST ? note->rank : AQI_NO_RANK;
    local_broadcast(hub, except, &message, note->data, note->len);
}

static void local_pass(struct aqi_hub *hub, const struct hub_note *note)
{
    for (uint32_t i = 0; i < hub->count; i++)
        if (hub->locals[i].running)
            hub->params.hooks.kill(hub->params.arg, hub->locals[i].rank, note->code);
    if (hub->params.hooks.pause != NULL)
        hub->params.hooks.pause(hub->params.arg, note->code == SIGTSTP);
}

void local_apply(struct aqi_hub *hub, const struct hub_note *note)
{
    switch (note->type) {
    case HUB_RESULT:
        calls_result(hub, note);
        break;
    case HUB_EVENT:
        local_event(hub, note);
        break;
    case HUB_AGREED:
        agree_local_result(hub, note);
        break;
    case HUB_END:
        closing_begin(hub, note);
        break;
    case HUB_KILL:
        closing_kill(hub);
        break;
    case HUB_PASS:
        local_pass(hub, note);
        break;
    case HUB_INPUT:
        if (hub_local(hub, 0) != NULL && hub->params.hooks.input != NULL)
            hub->params.hooks.input(hub->params.arg, note->data, note->len);
        break;
    case HUB_SHUT:
        if (note->event < AQI_STREAM_SHOWN && hub->params.hooks.shut != NULL)
            hub->params.hooks.shut(hub->params.arg, note->event);
        break;
    case HUB_WATCH:
        if (hub->params.hooks.watch != NULL) hub->params.hooks.watch(hub->params.arg, note->wait);
        break;
    case HUB_PEERS:
        if (hub->params.hooks.peers != NULL) hub->params.hooks.peers(hub->params.arg, note->seq);
        break;
    case HUB_OVER:
        closing_kill(hub); /* shells whose program has ended, and processes that survived SIGKILL */
        hub_over(hub, note->code);
        break;
    default:
        break;
    }
}

/* Programs that ended before their shell, which has not reported the cause yet. */
static uint64_t local_tick_lost(struct aqi_hub *hub)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; hub->unexplained != 0 && i < hub->count && !hub->closing.ending; i++) {
        struct hub_local *local = &hub->locals[i];
        char name[AQI_RANK_NAME_BYTES], text[AQI_CONTROL_TEXT];
        if (local->lost_ns == 0 || local->unexplained || !local->running ||
            local->state != AQI_RANK_JOINED)
            continue;
        uint64_t at = local->lost_ns + hub->params.exit_timeout_ns / LOCAL_SHELL_PART;
        next = aqi_min(next, hub->now < at ? at : UINT64_MAX);
        if (hub->now < at) continue;
        snprintf(text, sizeof(text), "%s ended before aq_finalize",
                 aqi_hub_name(hub, local->rank, name));
        local->unexplained = true;
        flow_fact(hub,
                  &(struct hub_note){.type = HUB_UNEXPLAINED, .rank = local->rank, .text = text});
        local->state = AQI_RANK_LOST;
        agree_local_gone(hub, local->rank);
    }
    return next;
}

uint64_t local_tick(struct aqi_hub *hub)
{
    uint64_t next = local_tick_lost(hub);
    next = aqi_min(next, calls_tick(hub));
    return aqi_min(next, closing_tick(hub));
}
