/* The end of a job at the root: its cause, its exit code, and when it is complete. */
#include "job/hub/impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * If ranks request the end one after the other, all finish their work: the others are asked to
 * agree this long after the latest request, and again after each doubling of the delay. Ranks that
 * still poll then agree.
 */
#define END_ASK_NS 75000000u

/*
 * When the user has requested the end twice, the root waits this long for agents to kill their
 * ranks. Agents do so even later, once they receive the request or lose their connection.
 */
#define END_KILL_NS 1000000000u

/* Maximum delay, as a part of AQ_EXIT_TIMEOUT, of the decision about a death during the start. */
#define END_JUDGE_PART 8

/* End the job with the exit code as known now. */
static void end_begin(struct aqi_hub *hub, uint32_t by, const char *why)
{
    struct hub_end *end = &hub->root->end;
    end->ending = true;
    end->by = by;
    /* Other hosts have as much time as this one to end their ranks, and then to report it. */
    end->limit_ns = hub->now + 2 * hub->params.exit_timeout_ns + hub->params.host_timeout_ns;
    if (why != end->why) snprintf(end->why, sizeof(end->why), "%s", why);
    flow_entry(
        hub, &(struct hub_note){.type = HUB_END, .rank = by, .code = end->code, .text = end->why});
}

static void end_job_text(struct aqi_hub *hub, int code, uint32_t by, const char *why)
{
    aqi_hub_code_at_least(hub, code);
    if (hub->root->end.ending) {
        aqi_hub_print_verbose(hub, "%s", why);
        return;
    }
    aqi_hub_print(hub, "%s; ending the job", why);
    end_begin(hub, by, why);
}

void end_job(struct aqi_hub *hub, int code, uint32_t by, const char *fmt, ...)
{
    char why[AQI_CONTROL_TEXT + 1];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    end_job_text(hub, code, by, why);
}

void end_by_exit(struct aqi_hub *hub, uint32_t by, int code, const char *why)
{
    char name[AQI_RANK_NAME_BYTES], text[AQI_CONTROL_TEXT + 1];
    code &= 0xff; /* as the kernel truncates exit codes */
    if (why[0] != '\0' && !collective_is_cause(hub, why)) {
        end_job(hub, code, by, "%s: %s", aqi_hub_name(hub, by, name), why);
        return;
    }
    snprintf(text, sizeof(text), "%s ended the job with code %d", aqi_hub_name(hub, by, name),
             code);
    aqi_hub_print_verbose(hub, "%s", text);
    aqi_hub_code_at_least(hub, code);
    if (!hub->root->end.ending) end_begin(hub, by, text);
}

void end_request(struct aqi_hub *hub, uint32_t by, int code, uint64_t wait_ns)
{
    const uint64_t most = 24ull * 3600 * 1000000000;
    struct hub_end *end = &hub->root->end;
    char name[AQI_RANK_NAME_BYTES];
    aqi_hub_name(hub, by, name);
    aqi_hub_print_verbose(hub, "%s ends with code %d", name, code & 0xff);
    bool comes = !hub->root->ranks[by].ending && wait_ns != AQI_BOOT_WAIT_NONE;
    hub->root->willing += !hub->root->ranks[by].ending && hub->root->ranks[by].running;
    hub->root->ranks[by].ending = true;
    aqi_hub_code_at_least(hub, code & 0xff);
    if (end->ending) return;
    if (comes || end->grace_ns == 0) {
        end->requests++;
        end->requested_ns = hub->now;
        end->ask_ns = hub->now + END_ASK_NS;
    }
    if (end->grace_ns != 0) return;
    snprintf(end->why, sizeof(end->why), "%s ended the job with code %d", name, code & 0xff);
    end->grace_ns = hub->now + aqi_min(wait_ns, most);
}

/* --- deaths --------------------------------------------------------------------------------- */

/* A rank ended while the job was ending. Its code counts only if there is no worse one. */
static void end_straggler(struct aqi_hub *hub, const struct hub_note *note, const char *text)
{
    struct hub_end *end = &hub->root->end;
    bool news = note->code != 0 && (note->event & HUB_END_TERMINATED) == 0;
    bool killed = (note->event & HUB_END_SIGNALED) != 0;
    bool loud = news && killed && (note->rank == end->by || end->code == 0);
    (loud ? aqi_hub_print : aqi_hub_print_verbose)(hub, "%s", text);
    if (news) aqi_hub_code_at_least(hub, note->code);
}

/* A rank died, but the job has started and continues: notify the others. */
static void end_survive(struct aqi_hub *hub, uint32_t number, int code, const char *text)
{
    struct hub_root *root = hub->root;
    struct hub_rank *rank = &root->ranks[number];
    rank->fate = strdup(text);
    if (rank->fate == NULL) hub_no_memory(hub, text);
    rank->state = AQI_RANK_LOST;
    root->lost++;
    aqi_hub_code_at_least(hub, code);
    aqi_hub_print(hub, "%s; the job goes on without it", text);
    root_event(hub, AQI_BOOT_PEER_LOST, number, code, text);
    root_absent(hub, number, AQI_RANK_LOST);
}

static void end_postpone(struct aqi_hub *hub, uint32_t rank, int code, const char *text)
{
    size_t len = strlen(text) + 1;
    struct hub_death *death = malloc(sizeof(*death) + len), **at = &hub->root->deaths;
    if (death == NULL) hub_no_memory(hub, text);
    *death = (struct hub_death){.rank = rank, .code = code, .since_ns = hub->now};
    memcpy(death->text, text, len);
    while (*at != NULL)
        at = &(*at)->next;
    *at = death;
    /* Their READY may be unread yet. */
    for (uint32_t i = 0; i < hub->count; i++)
        if (!hub->root->ranks[hub->locals[i].rank].ready)
            hub->params.hooks.drain(hub->params.arg, hub->locals[i].rank);
}

void end_died(struct aqi_hub *hub, uint32_t number, int code, const char *text)
{
    struct hub_root *root = hub->root;
    struct hub_rank *rank = &root->ranks[number];
    root_stopped(hub, rank);
    if (rank->state >= AQI_RANK_LEFT || root->end.ending) return;
    bool may_survive = hub->params.survive && rank->state == AQI_RANK_JOINED;
    if (may_survive && root->ready == hub->params.ranks)
        end_survive(hub, number, code, text);
    else if (may_survive && rank->ready)
        end_postpone(hub, number, code, text);
    else
        end_job_text(hub, code, number, text);
}

static uint64_t end_judge_at(const struct aqi_hub *hub, const struct hub_death *death)
{
    /* all messages of this host have been handled; those of other hosts take some time */
    if (hub->params.agents == 1) return 0;
    return death->since_ns + hub->params.exit_timeout_ns / END_JUDGE_PART;
}

void end_deaths(struct aqi_hub *hub)
{
    struct hub_root *root = hub->root;
    while (root->deaths != NULL) {
        struct hub_death *death = root->deaths;
        bool started = root->ready == hub->params.ranks;
        if (!started && hub->now < end_judge_at(hub, death) && !root->end.ending) return;
        root->deaths = death->next;
        if (started && !root->end.ending)
            end_survive(hub, death->rank, death->code, death->text);
        else
            end_job_text(hub, death->code, death->rank, death->text);
        free(death);
    }
}

void end_judge(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_root *root = hub->root;
    struct hub_rank *rank = &root->ranks[note->rank];
    char text[AQI_CONTROL_TEXT + 1];
    hub_note_text(note, text);
    if (root->end.ending) {
        end_straggler(hub, note, text);
    } else if (rank->state == AQI_RANK_LOST) {
        aqi_hub_print_verbose(hub, "%s", text);
    } else if (rank->state == AQI_RANK_LEFT) {
        bool killed = (note->event & HUB_END_SIGNALED) != 0;
        (killed ? aqi_hub_print : aqi_hub_print_verbose)(hub, "%s", text);
        aqi_hub_code_at_least(hub, note->code);
    } else if (rank->state == AQI_RANK_JOINED || note->code != 0) {
        end_died(hub, note->rank, note->code != 0 ? note->code : AQI_EXIT_FAILED, text);
    } else {
        aqi_hub_print_verbose(hub, "%s", text);
        root->absent++;
        collective_check(hub);
        agree_root_gone(hub, note->rank);
    }
}

void aqi_hub_print_lost(struct aqi_hub *hub)
{
    enum { LISTED = 16 };
    uint32_t listed = 0;
    for (uint32_t i = 0; i < hub->params.ranks && listed < LISTED; i++)
        if (hub->root->ranks[i].fate != NULL) {
            aqi_hub_print(hub, "the job ended without rank %u: %s", i, hub->root->ranks[i].fate);
            listed++;
        }
    if (listed < hub->root->lost)
        aqi_hub_print(hub, "it also ended without %u more", hub->root->lost - listed);
}

/* --- the end of the job --------------------------------------------------------------------- */

/* The job ends once every running rank has requested the end or agreed to it. */
static void end_check_requested(struct aqi_hub *hub)
{
    struct hub_root *root = hub->root;
    if (root->end.grace_ns == 0 || root->end.ending || root->started < hub->params.ranks) return;
    if (root->willing < root->running) return;
    end_begin(hub, AQI_NO_RANK, "all processes have ended");
}

void end_check(struct aqi_hub *hub)
{
    struct hub_root *root = hub->root;
    struct hub_end *end = &root->end;
    end_check_requested(hub);
    if (end->over) return;
    if (end->ending
            ? root->open != 0 && !end->abandoned /* agents report when all processes have ended */
            : root->running != 0 || root->deaths != NULL || root->started < hub->params.ranks)
        return;
    end->over = true;
    flow_entry(hub, &(struct hub_note){.type = HUB_OVER, .code = end->code});
}

void aqi_hub_signal(struct aqi_hub *hub, int number)
{
    struct hub_root *root = hub->root;
    if (root->end.ending || (root->running == 0 && root->started != 0)) {
        aqi_hub_print_verbose(hub, "signal %d again: killing at once", number);
        flow_entry(hub, &(struct hub_note){.type = HUB_KILL});
        root->end.limit_ns = aqi_min(root->end.limit_ns, hub->now + END_KILL_NS);
        hub->closing.abandoned = hub->closing.abandoned || root->end.over;
    } else {
        end_job(hub, AQI_EXIT_SIGNAL + number, AQI_NO_RANK, "the launcher got signal %d (%s)",
                number, strsignal(number));
    }
    hub_pump(hub);
}

/* --- time ----------------------------------------------------------------------------------- */

void end_left(struct aqi_hub *hub, uint32_t rank)
{
    struct hub_end *end = &hub->root->end;
    if (end->left_ns != 0) return;
    end->left_ns = hub->now + hub->params.exit_timeout_ns;
    end->left = rank;
}

/* Ranks leave aq_finalize only after all have entered it, unless it failed there. */
static uint64_t end_tick_left(struct aqi_hub *hub)
{
    struct hub_end *end = &hub->root->end;
    char name[AQI_RANK_NAME_BYTES];
    if (end->left_ns == 0) return UINT64_MAX;
    if (hub->now < end->left_ns) return end->left_ns;
    end->left_ns = UINT64_MAX;
    for (uint32_t i = 0; i < hub->params.ranks; i++) {
        const struct hub_rank *rank = &hub->root->ranks[i];
        if (rank->state != AQI_RANK_JOINED || rank->leaving) continue;
        aqi_hub_print(
            hub,
            "rank %u has left the job, while %s has not called aq_finalize: it would wait "
            "forever for the rank that left",
            end->left, aqi_hub_name(hub, i, name));
        break;
    }
    return UINT64_MAX;
}

/* Some ranks have requested the end: ask the others to agree, and end without them after the time
 * limit. */
static uint64_t end_tick_requested(struct aqi_hub *hub)
{
    struct hub_end *end = &hub->root->end;
    if (end->grace_ns == 0) return UINT64_MAX;
    if (hub->now >= end->grace_ns) {
        /* Without a causing rank, so that the rank that requested the end is notified as well. */
        end_begin(hub, AQI_NO_RANK, end->why);
        return UINT64_MAX;
    }
    if (hub->now >= end->ask_ns) {
        root_event(hub, AQI_BOOT_ENDING, 0, (int)end->requests, end->why);
        end->ask_ns = hub->now + (hub->now - end->requested_ns);
    }
    return aqi_min(end->ask_ns, end->grace_ns);
}

static uint64_t end_tick_time_out(struct aqi_hub *hub)
{
    uint64_t limit = hub->root->began_ns + hub->params.timeout_ns;
    if (hub->params.timeout_ns == 0) return UINT64_MAX;
    if (hub->now < limit) return limit;
    end_job(hub, AQI_EXIT_TIME, AQI_NO_RANK, "the job did not end within %.3g s (--timeout)",
            (double)hub->params.timeout_ns / 1e9);
    return UINT64_MAX;
}

static uint64_t end_tick_ending(struct aqi_hub *hub)
{
    struct hub_end *end = &hub->root->end;
    if (!hub->closing.closed || end->over || end->abandoned) return UINT64_MAX;
    if (hub->now < end->limit_ns) return end->limit_ns;
    for (uint32_t i = 1; i < hub->params.agents; i++)
        if (hub->root->agents[i].attached && !hub->root->agents[i].closed)
            aqi_hub_print(hub,
                          "host %s did not report that its ranks have ended: leaving it behind",
                          hub_host(hub, i));
    end->abandoned = true;
    return UINT64_MAX;
}

static uint64_t end_tick_deaths(struct aqi_hub *hub)
{
    return hub->root->deaths != NULL ? end_judge_at(hub, hub->root->deaths) : UINT64_MAX;
}

uint64_t end_tick(struct aqi_hub *hub)
{
    static uint64_t (*const ticks[])(struct aqi_hub *) = {end_tick_time_out, end_tick_left,
                                                          end_tick_requested, end_tick_deaths};
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < AQI_COUNT_OF(ticks) && !hub->root->end.ending; i++)
        next = aqi_min(next, ticks[i](hub));
    return hub->root->end.ending ? end_tick_ending(hub) : next;
}
