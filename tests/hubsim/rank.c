/* The process of a rank: it follows its steps, waits for answers, and ends in many ways. */
#include "hubsim.h"

#include <signal.h>
#include <stdlib.h>

static void rank_step(struct sim *sim, struct event *event);

static uint64_t rank_delay(struct sim *sim)
{
    return sim->plan->link_ns != 0 ? 0 : US + sim_random(sim, 30 * US);
}

static void rank_post_step(struct sim *sim, struct rank *rank, uint64_t more_ns)
{
    const struct plan_rank *plan = &sim->plan->each[rank->number];
    uint64_t delay = rank->at < plan->count ? plan->steps[rank->at].delay_ns : 0;
    sim_post(sim, channel_rank(sim, rank->number, RANK_STEP), delay + more_ns, rank_step)->a =
        rank->number;
}

static void rank_next(struct sim *sim, struct rank *rank)
{
    rank->at++;
    rank->waits = WAITS_NOT;
    rank_post_step(sim, rank, 0);
}

/* --- its end ---------------------------------------------------------------------------------- */

static void rank_on_reaped(struct sim *sim, struct event *event)
{
    uint32_t agent = sim->ranks[event->a].agent;
    if (!sim->agents[agent].up) return;
    rank_drain(sim, event->a);
    aqi_hub_ended(agent_hub(sim, agent), event->a, (int)event->number);
    agent_after(sim, agent);
}

static void rank_end(struct sim *sim, struct rank *rank, int status)
{
    if (!rank->running) return;
    rank->running = false;
    sim_trace(sim, "rank %u ends with status %#x", rank->number, status);
    if (rank->notified_exit) sim->checks.answers++;
    struct event *event =
        sim_post(sim, channel_rank(sim, rank->number, RANK_REAP), rank_delay(sim), rank_on_reaped);
    event->a = rank->number;
    event->number = (uint64_t)(uint32_t)status;
}

static void rank_exits(struct sim *sim, struct rank *rank, int code)
{
    if (!rank->running) return;
    if (code != 0)
        check_cause(sim, code);
    else if (rank->joined && !rank->left)
        check_cause(sim, AQI_EXIT_FAILED);
    else if (!rank->joined)
        sim->checks.codes[AQI_EXIT_FAILED] = true; /* if others call aq_init */
    rank_end(sim, rank, code << 8);
}

static void rank_on_shell_lost(struct sim *sim, struct event *event)
{
    uint32_t agent = sim->ranks[event->a].agent;
    if (!sim->agents[agent].up || !sim->ranks[event->a].running) return;
    rank_drain(sim, event->a);
    aqi_hub_lost(agent_hub(sim, agent), event->a);
    agent_after(sim, agent);
}

void rank_vanish(struct sim *sim, struct rank *rank)
{
    (void)sim;
    rank->running = false;
    rank->lost_parent = true;
}

/* --- its messages ----------------------------------------------------------------------------- */

static void rank_on_said(struct sim *sim, struct event *event)
{
    uint32_t agent = sim->ranks[event->a].agent;
    struct aqi_control *message = &event->message;
    if (!sim->agents[agent].up) return;
    struct aqi_hub *hub = agent_hub(sim, agent);
    char why[AQI_CONTROL_TEXT];
    if (message->type == AQI_CONTROL_HELLO) {
        if (aqi_hub_may_join(hub, event->a, why) == AQ_OK) {
            aqi_hub_joined(hub, event->a, 1000 + (int)event->a, "");
        } else if (sim->ranks[event->a].running) {
            check_cause(sim, 1);
            rank_end(sim, &sim->ranks[event->a], 1 << 8); /* as aq_init fails */
        }
    } else {
        message->data = event->bytes != NULL ? event->bytes->data : NULL;
        message->len = event->bytes != NULL ? event->bytes->len : 0;
        aq_status status = aqi_hub_from_rank(hub, event->a, message);
        REQUIRE(sim, status == AQ_OK, "a message of type %u of rank %u is rejected", message->type,
                event->a);
    }
    if (!sim->draining) agent_after(sim, agent);
}

/* Process all messages that it has sent and that have not been read. */
void rank_drain(struct sim *sim, uint32_t rank)
{
    struct event *event;
    bool before = sim->draining;
    sim->draining = true;
    while ((event = sim_channel_first(sim, channel_rank(sim, rank, RANK_UP))) != NULL)
        sim_happen(sim, event);
    sim->draining = before;
}

static void rank_say(struct sim *sim, struct rank *rank, const struct aqi_control *message,
                     const void *data, size_t len)
{
    struct event *event =
        sim_post(sim, channel_rank(sim, rank->number, RANK_UP), rank_delay(sim), rank_on_said);
    event->a = rank->number;
    event->message = *message;
    if (len == 0) return;
    event->bytes = sim_alloc(1, sizeof(*event->bytes) + len);
    event->bytes->refs = 1;
    event->bytes->len = len;
    memcpy(event->bytes->data, data, len);
}

/* In pieces, as the length of a message is limited. */
static void rank_calls(struct sim *sim, struct rank *rank, uint32_t number)
{
    const struct plan_call *call = &sim->plan->calls[number];
    bool share = call->call == AQI_CALL_SHARE;
    struct aqi_control message = {
        .type = AQI_CONTROL_CALL, .seq = ++rank->seq, .call = call->call, .bytes = call->bytes};
    char name[32];
    rank->waits = WAITS_RESULT;
    if (share) {
        int len = snprintf(name, sizeof(name), "object-%u", number);
        if (sim->plan->each[rank->number].odd_call) message.bytes++;
        rank_say(sim, rank, &message, name, (size_t)len);
        return;
    }
    if (sim->plan->each[rank->number].odd_call)
        message.bytes = call->bytes > 1 ? call->bytes - 1 : call->bytes + 1;
    uint8_t *part = sim_alloc(1, (size_t)call->bytes + 2);
    check_part(sim, number, rank->number, part);
    do {
        size_t len = (size_t)aqi_min(message.bytes - message.offset, AQI_CONTROL_CHUNK);
        if (len > 1 && sim->plan->link_ns == 0 && sim_chance(sim, 30))
            len = 1 + (size_t)sim_random(sim, len);
        rank_say(sim, rank, &message, part + message.offset, len);
        message.offset += len;
    } while (message.offset < message.bytes);
    free(part);
}

static void rank_asks(struct sim *sim, struct rank *rank, uint32_t number)
{
    const struct aqi_control message = {.type = AQI_CONTROL_AGREE,
                                        .status = rank->number == 1 ? AQ_EPEER : AQ_OK,
                                        .name = {number, sim->seed}};
    hub_set_add(sim->checks.agrees[number].asked, rank->number);
    rank->agree = (int)number;
    rank->waits = WAITS_AGREED;
    rank_say(sim, rank, &message, sim->plan->agrees[number].members,
             aqi_boot_set_bytes(sim->plan->ranks));
}

static void rank_prints(struct sim *sim, struct rank *rank, int bytes)
{
    char *text = sim_alloc(1, (size_t)bytes + 32);
    if (!aqi_hub_has_room(sim->agents[rank->agent].hub)) {
        rank_post_step(sim, rank, MS);
        free(text);
        return;
    }
    int len = snprintf(text, 32, "%" PRIu64 " ", rank->printed++);
    memset(text + len, '.', (size_t)bytes);
    aqi_hub_printed(agent_hub(sim, rank->agent), rank->number, rank->printed & 1, text,
                    (size_t)(len + bytes));
    agent_after(sim, rank->agent);
    free(text);
    rank_next(sim, rank);
}

static void rank_says_end(struct sim *sim, struct rank *rank, enum aqi_control_type type, int code)
{
    const struct aqi_control message = {.type = (uint16_t)type, .code = code, .wait = SECOND};
    check_cause(sim, code);
    sim->checks.requests++;
    rank_say(sim, rank, &message, NULL, 0);
}

static void rank_says(struct sim *sim, struct rank *rank, enum aqi_control_type type)
{
    const struct aqi_control message = {.type = (uint16_t)type};
    rank->left = rank->left || type == AQI_CONTROL_BYE;
    rank->leaving = rank->leaving || type == AQI_CONTROL_LEAVING;
    rank->ready = rank->ready || type == AQI_CONTROL_READY;
    rank_say(sim, rank, &message, NULL, 0);
    rank_next(sim, rank);
}

static void rank_do(struct sim *sim, struct rank *rank, const struct step *step)
{
    switch (step->kind) {
    case STEP_JOIN:
        rank->waits = WAITS_JOB;
        rank_say(sim, rank, &(struct aqi_control){.type = AQI_CONTROL_HELLO}, NULL, 0);
        break;
    case STEP_CALL:
        rank_calls(sim, rank, (uint32_t)step->what);
        break;
    case STEP_READY:
        rank_says(sim, rank, AQI_CONTROL_READY);
        break;
    case STEP_AGREE:
        rank_asks(sim, rank, (uint32_t)step->what);
        break;
    case STEP_PRINT:
        rank_prints(sim, rank, step->what);
        break;
    case STEP_LEAVING:
        rank_says(sim, rank, AQI_CONTROL_LEAVING);
        break;
    case STEP_BYE:
        rank_says(sim, rank, AQI_CONTROL_BYE);
        break;
    case STEP_ENDING:
        rank->waits = WAITS_EXIT;
        rank_says_end(sim, rank, AQI_CONTROL_ENDING, step->what);
        break;
    case STEP_EXIT:
        rank_says_end(sim, rank, AQI_CONTROL_EXIT, step->what);
        rank->notified_exit = true;
        rank_exits(sim, rank, step->what);
        break;
    case STEP_END:
        rank_exits(sim, rank, step->what);
        break;
    case STEP_CRASH:
        check_cause(sim, AQI_EXIT_SIGNAL + step->what);
        rank_end(sim, rank, step->what);
        break;
    case STEP_LOSE:
        rank->under_shell = true;
        rank->waits = WAITS_EXIT;
        check_cause(sim, AQI_EXIT_FAILED);
        sim_post(sim, channel_rank(sim, rank->number, RANK_REAP), rank_delay(sim),
                 rank_on_shell_lost)
            ->a = rank->number;
        break;
    case STEP_HANG:
        rank->waits = WAITS_EXIT;
        break;
    }
}

static void rank_step(struct sim *sim, struct event *event)
{
    struct rank *rank = &sim->ranks[event->a];
    const struct plan_rank *plan = &sim->plan->each[rank->number];
    if (!rank->running || rank->waits != WAITS_NOT || rank->under_shell) return;
    if (rank->at < plan->count)
        rank_do(sim, rank, &plan->steps[rank->at]);
    else
        rank_exits(sim, rank, 0);
}

void rank_spawn(struct sim *sim, uint32_t number)
{
    struct rank *rank = &sim->ranks[number];
    rank->spawned = rank->running = true;
    rank_post_step(sim, rank, 0);
}

/* --- messages to it --------------------------------------------------------------------------- */

static void rank_on_exit_event(struct sim *sim, struct rank *rank, int code)
{
    if (rank->notified_exit) return;
    rank->notified_exit = true;
    sim->marks[MARK_EXIT] = sim->now;
    if (sim->plan->each[rank->number].temper != OBEYS) return;
    rank->waits = WAITS_EXIT;
    rank_end(sim, rank, (code & 0xff) << 8);
}

static void rank_on_result(struct sim *sim, struct rank *rank, const struct event *event)
{
    if (rank->waits != WAITS_RESULT || event->message.seq != rank->seq) return;
    check_result(sim, rank, &event->message, event->parcel);
    sim->marks[(rank->seq - 1) % sim->plan->call_count] = sim->now;
    if (event->message.status == AQ_OK) {
        rank_next(sim, rank);
        return;
    }
    rank_exits(sim, rank, 1);
}

static void rank_hears(struct sim *sim, struct event *event)
{
    struct rank *rank = &sim->ranks[event->a];
    const struct aqi_control *message = &event->message;
    if (!rank->running || rank->under_shell) return;
    switch (message->type) {
    case AQI_CONTROL_JOB:
        REQUIRE(sim, message->rank == rank->number && message->size == sim->plan->ranks,
                "rank %u is notified that it is %u of %u", rank->number, message->rank,
                message->size);
        rank->joined = true;
        rank_next(sim, rank);
        break;
    case AQI_CONTROL_RESULT:
        rank_on_result(sim, rank, event);
        break;
    case AQI_CONTROL_AGREED:
        check_heard(sim, rank, message);
        check_agreed(sim, rank, message, event->parcel);
        sim->marks[MARK_AGREED] = sim->now;
        if (rank->waits == WAITS_AGREED && rank->agree == (int)message->name[0])
            rank_next(sim, rank);
        break;
    case AQI_CONTROL_EVENT:
        if (message->event == AQI_BOOT_ENDING) break;
        check_heard(sim, rank, message);
        if (message->event == AQI_BOOT_EXIT) rank_on_exit_event(sim, rank, message->code);
        break;
    default:
        sim_fail(sim, "rank %u gets a message of type %u", rank->number, message->type);
    }
}

static void rank_to(void *arg, uint32_t number, const struct aqi_control *message,
                    struct aqi_parcel *parcel)
{
    struct sim *sim = ((struct owner *)arg)->sim;
    struct rank *rank = &sim->ranks[number];
    REQUIRE(sim, rank->agent == ((struct owner *)arg)->agent,
            "agent %u sends to rank %u of agent %u", ((struct owner *)arg)->agent, number,
            rank->agent);
    if (!rank->running) return;
    if (message->type == AQI_CONTROL_EVENT && message->event == AQI_BOOT_EXIT) sim->checks.orders++;
    struct event *event =
        sim_post(sim, channel_rank(sim, number, RANK_DOWN), rank_delay(sim), rank_hears);
    event->a = number;
    event->message = *message;
    event->parcel = parcel;
    if (parcel != NULL) parcel->refs++;
}

static void rank_on_signal(struct sim *sim, struct event *event)
{
    struct rank *rank = &sim->ranks[event->a];
    int number = (int)event->number;
    enum temper temper = sim->plan->each[rank->number].temper;
    if (!rank->running || temper == ASLEEP || number == SIGCONT) return;
    if (number == SIGTERM && temper == WANTS_KILL) return;
    rank_end(sim, rank, number);
}

static void rank_kill(void *arg, uint32_t number, int signal_number)
{
    struct sim *sim = ((struct owner *)arg)->sim;
    if (signal_number == SIGKILL) sim->ranks[number].killed = true;
    if (!sim->ranks[number].running || signal_number == SIGCONT) return;
    struct event *event =
        sim_post(sim, channel_rank(sim, number, RANK_SIGNAL), rank_delay(sim), rank_on_signal);
    event->a = number;
    event->number = (uint64_t)signal_number;
}

static bool rank_asleep(void *arg, uint32_t number)
{
    struct sim *sim = ((struct owner *)arg)->sim;
    return sim->plan->each[number].temper == ASLEEP;
}

static void rank_on_drain(void *arg, uint32_t number)
{
    rank_drain(((struct owner *)arg)->sim, number);
}

void rank_hooks(struct aqi_hub_hooks *hooks)
{
    hooks->to_rank = rank_to;
    hooks->kill = rank_kill;
    hooks->asleep = rank_asleep;
    hooks->drain = rank_on_drain;
}
