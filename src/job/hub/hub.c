/* Opening a hub, time, and messages for users. */
#include "base/fail.h"
#include "base/safe_text.h"
#include "job/hub/impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void hub_say(struct aqi_hub *hub, bool always, const char *fmt, va_list args)
{
    char text[2 * AQI_CONTROL_TEXT];
    vsnprintf(text, sizeof(text), fmt, args);
    if (hub->root != NULL)
        hub->params.hooks.say(hub->params.arg, always, text);
    else
        flow_fact(hub, &(struct hub_note){.type = HUB_SAY, .code = always, .text = text});
}

void aqi_hub_print(struct aqi_hub *hub, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    hub_say(hub, true, fmt, args);
    va_end(args);
}

void aqi_hub_print_verbose(struct aqi_hub *hub, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    hub_say(hub, false, fmt, args);
    va_end(args);
}

void hub_no_memory(struct aqi_hub *hub, const char *what)
{
    char text[AQI_CONTROL_TEXT];
    snprintf(text, sizeof(text), "no memory for %s", what);
    hub->params.hooks.die(hub->params.arg, text);
    abort(); /* the hook has ended the process */
}

uint32_t hub_agent_of(const struct aqi_hub *hub, uint32_t rank)
{
    return hub->params.agent_of != NULL ? hub->params.agent_of[rank] : 0;
}

struct hub_local *hub_local(const struct aqi_hub *hub, uint32_t rank)
{
    uint32_t index = rank < hub->params.ranks ? hub->index[rank] : AQI_NO_RANK;
    return index != AQI_NO_RANK ? &hub->locals[index] : NULL;
}

uint32_t aqi_hub_local_ranks(const struct aqi_hub *hub)
{
    return hub->count;
}

uint32_t aqi_hub_ranks(const struct aqi_hub *hub)
{
    return hub->params.ranks;
}

uint32_t aqi_hub_index(const struct aqi_hub *hub, uint32_t rank)
{
    return hub->index[rank];
}

uint32_t aqi_hub_rank_at(const struct aqi_hub *hub, uint32_t index)
{
    return hub->locals[index].rank;
}

int aqi_hub_pid(const struct aqi_hub *hub, uint32_t index)
{
    return hub->locals[index].joined_pid;
}

const char *hub_host(const struct aqi_hub *hub, uint32_t agent)
{
    return hub->params.hosts != NULL ? hub->params.hosts[agent] : "this host";
}

/* If the rank's process is a shell, name the process that joined. */
const char *aqi_hub_name(const struct aqi_hub *hub, uint32_t rank, char name[AQI_RANK_NAME_BYTES])
{
    const struct hub_local *local = hub_local(hub, rank);
    const struct hub_rank *known = hub->root != NULL ? &hub->root->ranks[rank] : NULL;
    int pid = local != NULL ? local->pid : known != NULL ? known->pid : 0;
    int joined = local != NULL ? local->joined_pid : known != NULL ? known->joined_pid : 0;
    const char *program = local != NULL ? local->program : known != NULL ? known->program : "";
    bool other = joined > 0 && program[0] != '\0';
    char path[100];
    bool several = hub->params.hosts != NULL && hub->params.agents > 1;
    snprintf(name, AQI_RANK_NAME_BYTES, "rank %u (pid %d%s%.60s, %s)", rank, other ? joined : pid,
             several ? " on " : "", several ? hub_host(hub, hub_agent_of(hub, rank)) : "",
             aqi_safe_path(other ? program : hub->params.program, sizeof(path), path));
    return name;
}

void aqi_hub_now(struct aqi_hub *hub, uint64_t now_ns)
{
    hub->now = aqi_max(hub->now, now_ns);
}

uint64_t aqi_hub_tick(struct aqi_hub *hub)
{
    static uint64_t (*const ticks[])(struct aqi_hub *) = {root_tick, flow_tick, local_tick};
    uint64_t next = UINT64_MAX, said = hub->flow.last_fact, applied = hub->flow.applied;
    for (size_t i = 0; i < AQI_COUNT_OF(ticks); i++)
        next = aqi_min(next, ticks[i](hub));
    hub_pump(hub);
    /* Notes may have made more work due. */
    return said != hub->flow.last_fact || applied != hub->flow.applied ? hub->now : next;
}

void hub_over(struct aqi_hub *hub, int code)
{
    if (hub->over) return;
    hub->over = true;
    hub->params.hooks.over(hub->params.arg, code);
}

/* Handle facts one after the other: they cause entries, which cause facts; this must not
 * recurse. */
void hub_pump(struct aqi_hub *hub)
{
    struct hub_items *facts = &hub->flow.facts;
    if (hub->root == NULL || hub->pumping) return;
    hub->pumping = true;
    do {
        while (facts->first != NULL) {
            struct hub_item *item = facts->first;
            struct hub_note note;
            facts->first = item->next;
            if (facts->first == NULL) facts->last = &facts->first;
            if (hub_note_decode(item->parcel->bytes + HUB_FRAME_HEAD,
                                item->parcel->len - HUB_FRAME_HEAD, &note))
                root_fact(hub, &note);
            aqi_parcel_release(item->parcel);
            free(item);
        }
        end_deaths(hub);
    } while (facts->first != NULL);
    end_check(hub);
    hub->pumping = false;
}

aq_status aqi_hub_open(const struct aqi_hub_params *params, struct aqi_hub **out)
{
    struct aqi_hub *hub = calloc(1, sizeof(*hub));
    if (hub != NULL) {
        hub->params = *params;
        hub->now = params->now_ns;
        flow_open(hub);
        if (local_open(hub) && (params->agent != 0 || root_open(hub))) {
            *out = hub;
            return AQ_OK;
        }
        aqi_hub_close(hub);
    }
    return aqi_fail(AQ_ENOMEM, "job", "no memory for %u ranks", params->ranks);
}

void aqi_hub_close(struct aqi_hub *hub)
{
    if (hub->root != NULL) root_close(hub);
    local_close(hub);
    flow_close(hub);
    free(hub);
}
