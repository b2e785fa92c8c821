/* Conditions that must hold at every step and at the end. */
#include "hubsim.h"

#include <stdlib.h>

void check_open(struct sim *sim)
{
    sim->checks.shown = sim_alloc(sim->plan->ranks, sizeof(uint64_t));
}

void check_close(struct sim *sim)
{
    free(sim->checks.entries);
    free(sim->checks.shown);
}

/* An event that permits the job to end with this code. */
void check_cause(struct sim *sim, int code)
{
    sim->checks.codes[code & 0xff] = true;
    sim->checks.some_code = true;
}

/* --- the log ---------------------------------------------------------------------------------- */

/* An entry of the log has the same content, whichever agent sends it. */
void check_entry(struct sim *sim, const void *bytes, size_t len)
{
    struct checks *checks = &sim->checks;
    struct hub_frame frame;
    if (sim->plan->quiet_data || !hub_frame_decode(bytes, len, &frame) ||
        frame.kind != HUB_FRAME_ENTRY)
        return;
    uint64_t hash = frame.len + 1;
    for (size_t i = 0; i < frame.len; i++)
        hash = (hash ^ ((const uint8_t *)frame.data)[i]) * 0x100000001b3u;
    if (frame.number >= checks->entry_room) {
        size_t room = (size_t)frame.number * 2 + 64;
        checks->entries = realloc(checks->entries, room * sizeof(uint64_t));
        if (checks->entries == NULL) abort();
        memset(checks->entries + checks->entry_room, 0,
               (room - checks->entry_room) * sizeof(uint64_t));
        checks->entry_room = room;
    }
    uint64_t *known = &checks->entries[frame.number];
    REQUIRE(sim, *known == 0 || *known == hash, "entry %" PRIu64 " is not the same everywhere",
            frame.number);
    *known = hash;
}

/* --- news ------------------------------------------------------------------------------------- */

static uint16_t check_key(struct sim *sim, uint32_t type, uint32_t rank)
{
    struct checks *checks = &sim->checks;
    for (uint32_t i = 0; i < checks->key_count; i++)
        if (checks->keys[i].type == type && checks->keys[i].rank == rank) return (uint16_t)i;
    REQUIRE(sim, checks->key_count < KEYS, "more news than there is room for");
    checks->keys[checks->key_count] = (struct key){type, rank};
    return (uint16_t)checks->key_count++;
}

static bool check_before(const struct checks *checks, uint32_t a, uint32_t b)
{
    return hub_set_has(checks->before[a], b);
}

void check_heard(struct sim *sim, struct rank *rank, const struct aqi_control *message)
{
    bool agreed = message->type == AQI_CONTROL_AGREED;
    struct checks *checks = &sim->checks;
    /* A rank that is no longer a part of the job is notified only by its own agent. */
    if (sim->plan->quiet_data || sim->agents[rank->agent].hub->flow.cut_off) return;
    uint32_t type = agreed ? AQI_BOOT_AGREED : message->event;
    uint32_t of = agreed                                 ? (uint32_t)message->name[0]
                  : message->event == AQI_BOOT_PEER_LOST ? message->rank
                                                         : 0;
    uint16_t key = check_key(sim, type, of);
    sim_trace(sim, "rank %u gets %s %u", rank->number,
              agreed                       ? "AGREED"
              : type == AQI_BOOT_PEER_LOST ? "PEER_LOST"
                                           : "EXIT",
              of);
    REQUIRE(sim, type != AQI_BOOT_PEER_LOST || of != rank->number,
            "rank %u is notified of its own death", of);
    for (uint32_t i = 0; i < rank->heard_count; i++) {
        REQUIRE(sim, rank->heard[i] != key, "rank %u is notified twice of event %u of %u",
                rank->number, type, of);
        REQUIRE(sim, !check_before(checks, key, rank->heard[i]),
                "rank %u is notified of event %u of %u later than others", rank->number, type, of);
        hub_set_add(checks->before[rank->heard[i]], key);
    }
    rank->heard[rank->heard_count++] = key;
}

static bool check_has_heard(const struct rank *rank, uint32_t key)
{
    for (uint32_t i = 0; i < rank->heard_count; i++)
        if (rank->heard[i] == key) return true;
    return false;
}

/*
 * If other ranks were notified of an event before one that this rank knows, this rank knows it,
 * too.
 */
static void check_complete(struct sim *sim, const struct rank *rank)
{
    const struct checks *checks = &sim->checks;
    for (uint32_t i = 0; i < rank->heard_count; i++)
        for (uint32_t k = 0; k < checks->key_count; k++) {
            const struct key *key = &checks->keys[k];
            if (!check_before(checks, k, rank->heard[i]) || check_has_heard(rank, k) ||
                (key->type == AQI_BOOT_PEER_LOST && key->rank == rank->number) ||
                (key->type == AQI_BOOT_AGREED &&
                 !hub_set_has(checks->agrees[key->rank].arrived, rank->number)))
                continue;
            sim_fail(
                sim,
                "rank %u was not notified of event %u of %u, which others know before its %uth",
                rank->number, key->type, key->rank, i);
        }
}

/* --- collective calls ------------------------------------------------------------------------- */

void check_part(const struct sim *sim, uint32_t call, uint32_t rank, uint8_t *part)
{
    fill(part, (size_t)sim->plan->calls[call].bytes, mix(sim->seed + call) + rank);
}

static bool check_table(const struct sim *sim, uint32_t number, const struct aqi_parcel *parcel)
{
    const struct plan_call *call = &sim->plan->calls[number];
    if (parcel->len != call->bytes * sim->plan->ranks) return false;
    for (uint32_t i = 0; i < sim->plan->ranks; i++)
        if (!filled(parcel->bytes + i * call->bytes, (size_t)call->bytes,
                    mix(sim->seed + number) + i))
            return false;
    return true;
}

void check_result(struct sim *sim, struct rank *rank, const struct aqi_control *message,
                  const struct aqi_parcel *parcel)
{
    uint32_t number = (message->seq - 1) % sim->plan->call_count;
    const struct plan_call *call = &sim->plan->calls[number];
    char name[32];
    snprintf(name, sizeof(name), "object-%u", number);
    rank->results[number] = message->status == AQ_OK ? 1 : -1;
    if (message->status != AQ_OK || sim->plan->quiet_data) return;
    bool right = call->call == AQI_CALL_SHARE
                     ? parcel->len == strlen(name) && memcmp(parcel->bytes, name, parcel->len) == 0
                     : check_table(sim, number, parcel);
    REQUIRE(sim, right, "rank %u gets a wrong result of call %u", rank->number, message->seq);
}

/* All ranks that got the result of a call got the same. */
static void check_alike(struct sim *sim)
{
    for (uint32_t call = 0; call < CALLS; call++) {
        int result = 0;
        for (uint32_t i = 0; i < sim->plan->ranks; i++) {
            int its = sim->ranks[i].results[call];
            /* The others had room. */
            if (sim->ranks[i].agent == sim->plan->full_host) continue;
            REQUIRE(sim, its == 0 || result == 0 || its == result,
                    "call %u is right for some, but failed for rank %u or others", call + 1, i);
            if (its != 0) result = its;
        }
    }
}

/* --- agreements ------------------------------------------------------------------------------- */

void check_agreed(struct sim *sim, struct rank *rank, const struct aqi_control *message,
                  const struct aqi_parcel *set)
{
    uint32_t number = (uint32_t)message->name[0];
    struct agree_state *state = &sim->checks.agrees[number];
    size_t bytes = aqi_boot_set_bytes(sim->plan->ranks);
    REQUIRE(sim, set->len == bytes && hub_set_has(set->bytes, rank->number),
            "rank %u is notified of an agreement without it", rank->number);
    for (uint32_t i = 0; i < rank->heard_count; i++) {
        const struct key *key = &sim->checks.keys[rank->heard[i]];
        REQUIRE(sim, key->type != AQI_BOOT_PEER_LOST || !hub_set_has(set->bytes, key->rank),
                "agreement %u has rank %u, which rank %u knows to be dead", number, key->rank,
                rank->number);
    }
    if (state->answered) {
        REQUIRE(sim,
                state->status == message->status && memcmp(state->arrived, set->bytes, bytes) == 0,
                "rank %u gets another answer to agreement %u than others", rank->number, number);
        return;
    }
    state->answered = true;
    state->status = message->status;
    memcpy(state->arrived, set->bytes, bytes);
    for (uint32_t i = 0; i < sim->plan->ranks; i++) {
        const struct rank *other = &sim->ranks[i];
        if (hub_set_has(state->arrived, i))
            REQUIRE(sim, hub_set_has(state->asked, i),
                    "agreement %u has rank %u, which has not asked", number, i);
        else if (hub_set_has(sim->plan->agrees[number].members, i) && other->running &&
                 !other->left && !other->under_shell && !other->notified_exit && !sim->plan->lossy)
            sim_fail(sim, "agreement %u lacks rank %u, which is alive", number, i);
    }
}

/* --- output ----------------------------------------------------------------------------------- */

void check_input(struct sim *sim, const void *bytes, size_t len)
{
    uint64_t number = 0;
    if (len != sizeof(number)) return; /* not one of ours (run_bounds) */
    memcpy(&number, bytes, sizeof(number));
    REQUIRE(sim, number == sim->checks.inputs,
            "line %" PRIu64 " of the input comes as number %" PRIu64, number, sim->checks.inputs);
    sim->checks.inputs++;
}

void check_output(struct sim *sim, uint32_t rank, const void *bytes, size_t len)
{
    char text[24] = "";
    memcpy(text, bytes, aqi_min(len, sizeof(text) - 1));
    uint64_t number = strtoull(text, NULL, 10);
    REQUIRE(sim, number == sim->checks.shown[rank],
            "line %" PRIu64 " of rank %u comes as number %" PRIu64, number, rank,
            sim->checks.shown[rank]);
    sim->checks.shown[rank]++;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* An agent is done: no process of its host runs, except those that nothing can end. */
void check_over(struct sim *sim, uint32_t agent, int code)
{
    struct checks *checks = &sim->checks;
    for (uint32_t i = 0; i < sim->plan->ranks; i++) {
        struct rank *rank = &sim->ranks[i];
        if (rank->agent != agent || !rank->running) continue;
        REQUIRE(sim, rank->killed, "agent %u ends while rank %u is running", agent, i);
        rank_vanish(sim, rank); /* if it can be ended: it ends with its agent */
    }
    if (agent != 0) return;
    checks->over = true;
    checks->code = code;
    REQUIRE(sim, code == aqi_hub_code(sim->agents[0].hub), "ended with %d, but the code is %d",
            code, aqi_hub_code(sim->agents[0].hub));
}

static void check_code(struct sim *sim)
{
    const struct checks *checks = &sim->checks;
    if (!checks->over) {
        REQUIRE(sim, sim->agents[0].dead, "the root has no end");
        return;
    }
    bool late = checks->code == AQI_EXIT_TIME && sim->plan->timeout_ns != 0;
    bool none = checks->code == 0 && (!checks->some_code || sim->plan->lossy);
    REQUIRE(sim, checks->codes[checks->code & 0xff] || none || late,
            "the job ends with code %d, which has no cause", checks->code);
    for (uint32_t i = 1; i < sim->plan->agents; i++) {
        const struct agent *agent = &sim->agents[i];
        /* An agent that connects after the end is not answered. */
        if (!agent->over || sim->plan->lossy || !sim->agents[0].hub->root->agents[i].attached)
            continue;
        /* An agent whose line breaks at the end reconnects too late to be notified. */
        if (!agent->hub->flow.attached) continue;
        REQUIRE(sim, agent->code == checks->code, "agent %u ends with code %d, the root with %d", i,
                agent->code, checks->code);
    }
}

/* All messages were received: none is lost, none was duplicated. */
static void check_counts(struct sim *sim)
{
    const struct hub_root *root = sim->agents[0].hub != NULL ? sim->agents[0].hub->root : NULL;
    for (uint32_t i = 0; i < sim->plan->ranks && !sim->plan->lossy; i++) {
        const struct rank *rank = &sim->ranks[i];
        if (rank->killed || !rank->spawned) continue;
        REQUIRE(sim, sim->checks.shown[i] == rank->printed,
                "of rank %u's lines %" PRIu64 " of %" PRIu64 " have come", i, sim->checks.shown[i],
                rank->printed);
    }
    for (uint32_t i = 1; i < sim->plan->agents && root != NULL; i++)
        REQUIRE(sim, !root->agents[i].lost || sim->agents[i].excused,
                "agent %u was declared lost, although it has a way to the root", i);
    for (uint32_t i = 1; i < sim->plan->agents && root != NULL; i++) {
        const struct agent *agent = &sim->agents[i];
        if (agent->hub == NULL || agent->dead || root->agents[i].lost || !root->end.over ||
            !root->agents[i].attached || !agent->hub->flow.attached)
            continue;
        REQUIRE(sim, root->agents[i].facts <= agent->hub->flow.last_fact,
                "the root has more facts of agent %u than it sent", i);
        REQUIRE(sim,
                agent->hub->flow.applied == sim->agents[0].hub->flow.applied || sim->plan->lossy ||
                    sim->plan->may_hang,
                "agent %u ended before the last entry", i);
    }
}

/* A host that is cut off forever ends: it is missed, tries to reconnect while it is waited for,
 * and ends; then those below it, one after the other. */
static void check_outage(struct sim *sim)
{
    const struct plan *plan = sim->plan;
    for (uint32_t i = 1; i < plan->agents && plan->outage_ns != 0; i++) {
        uint64_t above = 0;
        for (uint32_t at = i; at != 0; at = aqi_hub_parent(at, plan->fanout))
            above++;
        uint64_t limit = plan->outage_ns + (3 + above) * HOST_NS + 3 * EXIT_NS;
        if ((sim->partition >> i % 32 & 1) == 0 || !sim->agents[i].over) continue;
        REQUIRE(sim, sim->agents[i].over_ns <= limit, "agent %u, cut off, ended after %.3f s", i,
                (double)(sim->agents[i].over_ns - plan->outage_ns) / 1e9);
    }
}

void check_end(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan->agents; i++)
        REQUIRE(sim, !sim->agents[i].up, "agent %u has not ended", i);
    for (uint32_t i = 0; i < sim->plan->ranks; i++) {
        REQUIRE(sim, !sim->ranks[i].running, "rank %u is still running", i);
        check_complete(sim, &sim->ranks[i]);
    }
    check_alike(sim);
    check_code(sim);
    check_counts(sim);
    check_outage(sim);
}
