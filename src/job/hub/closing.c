/* The end of the job on this host, escalating from a message to SIGKILL. */
#include "job/hub/impl.h"

#include <signal.h>
#include <string.h>

/* The schedule, in quarters of AQ_EXIT_TIMEOUT since the end began. */
enum closing_steps { CLOSING_TERM, CLOSING_KILL, CLOSING_ABANDON, CLOSING_STEPS };
static const unsigned closing_quarters[CLOSING_STEPS] = {
    [CLOSING_TERM] = 1, [CLOSING_KILL] = 3, [CLOSING_ABANDON] = 4};

/* Maximum number of checks, a quarter of AQ_EXIT_TIMEOUT apart, before killed processes that have
 * not ended are abandoned: in general, and in an uninterruptible sleep. */
enum { CLOSING_CHECKS = 60, CLOSING_CHECKS_ASLEEP = 2 };

static void closing_terminate(struct aqi_hub *hub, struct hub_local *local, int number)
{
    if (!local->running) return;
    local->terminated = true;
    hub->params.hooks.kill(hub->params.arg, local->rank, number);
    /* a stopped process does not handle SIGTERM */
    hub->params.hooks.kill(hub->params.arg, local->rank, SIGCONT);
}

void closing_begin(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_closing *closing = &hub->closing;
    if (closing->ending) return;
    closing->ending = true;
    closing->since_ns = hub->now;
    hub_note_text(note, hub->why_end);
    const struct aqi_control message = {
        .type = AQI_CONTROL_EVENT, .event = AQI_BOOT_EXIT, .rank = note->rank, .code = note->code};
    local_broadcast(hub, note->rank, &message, note->data, note->len);
    /* A process that has not joined cannot be notified, so there is nothing to wait for. */
    for (uint32_t i = 0; i < hub->count; i++)
        if (hub->locals[i].state == AQI_RANK_STARTED)
            closing_terminate(hub, &hub->locals[i], SIGTERM);
    closing_check(hub);
}

void closing_kill(struct aqi_hub *hub)
{
    for (uint32_t i = 0; i < hub->count; i++)
        closing_terminate(hub, &hub->locals[i], SIGKILL);
}

void closing_check(struct aqi_hub *hub)
{
    struct hub_closing *closing = &hub->closing;
    if (!closing->ending || closing->closed || (hub->running != 0 && !closing->abandoned)) return;
    closing->closed = true;
    flow_fact(hub, &(struct hub_note){.type = HUB_CLOSED});
    if (hub->flow.cut_off) hub_over(hub, AQI_EXIT_FAILED);
}

static void closing_take_step(struct aqi_hub *hub, size_t step)
{
    char name[AQI_RANK_NAME_BYTES];
    for (uint32_t i = 0; i < hub->count; i++) {
        struct hub_local *local = &hub->locals[i];
        if (!local->running) continue;
        aqi_hub_name(hub, local->rank, name);
        if (step == CLOSING_ABANDON) {
            aqi_hub_print(hub, "%s does not end after SIGKILL: leaving it behind", name);
            hub->closing.abandoned = true;
        } else {
            aqi_hub_print_verbose(hub, "%s gets SIG%s", name,
                                  step == CLOSING_TERM ? "TERM" : "KILL");
            closing_terminate(hub, local, step == CLOSING_TERM ? SIGTERM : SIGKILL);
        }
    }
    closing_check(hub);
}

/*
 * Whether to keep waiting for killed processes: no process survives SIGKILL, but freeing gigabytes
 * of memory may take long on a busy machine.
 */
static bool closing_some_end(struct aqi_hub *hub)
{
    char name[AQI_RANK_NAME_BYTES];
    bool some = false;
    if (hub->closing.checks >= CLOSING_CHECKS) return false;
    for (uint32_t i = 0; i < hub->count; i++) {
        struct hub_local *local = &hub->locals[i];
        if (!local->running) continue;
        bool asleep = hub->params.hooks.asleep != NULL &&
                      hub->params.hooks.asleep(hub->params.arg, local->rank);
        local->asleep = asleep ? local->asleep + 1 : 0;
        some = some || local->asleep < CLOSING_CHECKS_ASLEEP;
        if (hub->closing.checks == 0)
            aqi_hub_print_verbose(hub, "%s was killed but has not ended yet",
                                  aqi_hub_name(hub, local->rank, name));
    }
    return some;
}

uint64_t closing_tick(struct aqi_hub *hub)
{
    struct hub_closing *closing = &hub->closing;
    while (closing->ending && !closing->closed && closing->step < CLOSING_STEPS) {
        unsigned quarters = closing_quarters[closing->step] + closing->checks;
        uint64_t at = closing->since_ns + hub->params.exit_timeout_ns / 4 * quarters;
        if (hub->now < at) return at;
        if (closing->step == CLOSING_ABANDON && closing_some_end(hub))
            closing->checks++;
        else
            closing_take_step(hub, closing->step++);
    }
    return UINT64_MAX;
}
