/*
 * Collective calls, at the root. There is one at a time, since a rank only begins the next one
 * after it has received the result of the last. If one fails, all later ones fail with the same
 * cause.
 */
#include "base/fail.h"
#include "job/hub/impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* List the ranks whose part is (not) complete: "rank 3", "ranks 1, 4 and 7", "ranks 0, 1, 2, 3 and
 * 60 more". */
static void collective_list(const struct aqi_hub *hub, bool whole, char *text, size_t room)
{
    enum { LISTED = 8 };
    const struct hub_rank *ranks = hub->root->ranks;
    uint32_t total = 0, seen = 0;
    for (uint32_t i = 0; i < hub->params.ranks; i++)
        total += ranks[i].whole == whole;
    uint32_t shown = total <= LISTED ? total : LISTED;
    snprintf(text, room, total == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < hub->params.ranks && seen < shown; i++) {
        if (ranks[i].whole != whole) continue;
        const char *before = seen == 0 ? " " : seen + 1 == total ? " and " : ", ";
        aqi_append(text, room, "%s%u", before, i);
        seen++;
    }
    if (shown < total) aqi_append(text, room, " and %u more", total - shown);
}

/* The public call that makes this exchange: a rank that has started makes no other one. */
static const char *collective_caller(const struct aqi_hub *hub)
{
    return hub->root->ranks[hub->root->call.first].ready ? "aq_segment_attach" : "aq_init";
}

bool collective_is_cause(const struct aqi_hub *hub, const char *why)
{
    const struct hub_call *call = &hub->root->call;
    return call->failed != AQ_OK && strcmp(why, call->why) == 0;
}

static void collective_end(struct aqi_hub *hub)
{
    struct hub_call *call = &hub->root->call;
    free(call->parts);
    call->parts = NULL;
    call->active = false;
    for (uint32_t i = 0; i < hub->params.ranks; i++)
        hub->root->ranks[i].whole = false;
}

static AQI_PRINTF(3, 4) void collective_fail(struct aqi_hub *hub, aq_status status, const char *fmt,
                                             ...)
{
    struct hub_call *call = &hub->root->call;
    va_list args;
    va_start(args, fmt);
    vsnprintf(call->why, sizeof(call->why), fmt, args);
    va_end(args);
    call->failed = status;
    aqi_hub_print(hub, "%s", call->why);
    collective_end(hub);
    flow_entry(hub, &(struct hub_note){
                        .type = HUB_RESULT, .seq = call->seq, .status = status, .text = call->why});
}

static void collective_complete(struct aqi_hub *hub)
{
    struct hub_call *call = &hub->root->call;
    bool share = call->call == AQI_CALL_SHARE;
    size_t len = share ? call->name_len : (size_t)call->bytes * hub->params.ranks;
    uint8_t *parts = call->parts;
    const struct hub_note note = {.type = HUB_RESULT,
                                  .seq = call->seq,
                                  .call = call->call,
                                  .status = AQ_OK,
                                  .bytes = share ? call->bytes : len,
                                  .data = share ? (const void *)call->name : parts,
                                  .len = len};
    call->parts = NULL;
    collective_end(hub);
    flow_entry(hub, &note);
    free(parts);
}

/* The parts in a note: their ranks, the data of each, and the name of a shared object. */
struct collective_parts {
    const uint8_t *ranks;
    const uint8_t *data;
    size_t each;
    const char *name;
    size_t name_len;
};

static bool collective_read(const struct aqi_hub *hub, const struct hub_note *note,
                            struct collective_parts *parts)
{
    bool share = note->call == AQI_CALL_SHARE;
    size_t each = share ? 0 : (size_t)note->bytes;
    size_t fixed = note->count * (sizeof(uint32_t) + each);
    if (note->call >= AQI_CALLS || note->count == 0 || note->count > hub->params.ranks ||
        (!share && (note->bytes > AQI_CONTROL_PART ||
                    note->bytes * hub->params.ranks > AQI_CONTROL_GATHER)) ||
        fixed > note->len || (share ? note->len - fixed > AQI_CONTROL_NAME : note->len != fixed))
        return false;
    const uint8_t *data = note->data;
    *parts = (struct collective_parts){.ranks = data,
                                       .data = data + note->count * sizeof(uint32_t),
                                       .each = each,
                                       .name = (const char *)data + fixed,
                                       .name_len = note->len - fixed};
    return true;
}

static void collective_begin(struct aqi_hub *hub, uint32_t rank, const struct hub_note *note,
                             const struct collective_parts *parts)
{
    struct hub_call *call = &hub->root->call;
    *call = (struct hub_call){.active = true,
                              .seq = note->seq,
                              .call = note->call,
                              .bytes = note->bytes,
                              .first = rank,
                              .since_ns = hub->now,
                              .name_len = parts->name_len};
    if (parts->name_len != 0) memcpy(call->name, parts->name, parts->name_len);
    if (note->call == AQI_CALL_SHARE) return;
    call->parts = calloc(1, parts->each * hub->params.ranks + 1);
    if (call->parts == NULL) hub_no_memory(hub, "an allgather");
}

/* The size that every rank must pass: for a shared object, that of the host's first rank. */
static uint64_t collective_bytes(struct aqi_hub *hub, uint32_t rank, const struct hub_note *note,
                                 uint32_t *first)
{
    const struct hub_call *call = &hub->root->call;
    struct hub_agent *agent = &hub->root->agents[hub_agent_of(hub, rank)];
    *first = call->first;
    if (note->call != AQI_CALL_SHARE || call->call != AQI_CALL_SHARE) return call->bytes;
    if (agent->share_seq != note->seq) {
        agent->share_seq = note->seq;
        agent->share_first = rank;
        agent->share_bytes = note->bytes;
    }
    *first = agent->share_first;
    return agent->share_bytes;
}

static bool collective_matches(struct aqi_hub *hub, uint32_t rank, const struct hub_note *note,
                               const struct collective_parts *parts)
{
    const struct hub_call *call = &hub->root->call;
    uint32_t first;
    return note->call == call->call && note->seq == call->seq &&
           note->bytes == collective_bytes(hub, rank, note, &first) &&
           parts->name_len == call->name_len &&
           memcmp(parts->name, call->name, call->name_len) == 0;
}

static void collective_describe(uint32_t call, uint64_t bytes, const char *name, size_t name_len,
                                char *text, size_t room)
{
    snprintf(text, room, "%s of %llu bytes", call == AQI_CALL_SHARE ? "share" : "allgather",
             (unsigned long long)bytes);
    if (call == AQI_CALL_SHARE) aqi_append(text, room, " as \"%.*s\"", (int)name_len, name);
}

static void collective_mismatch(struct aqi_hub *hub, uint32_t rank, const struct hub_note *note,
                                const struct collective_parts *parts)
{
    const struct hub_call *call = &hub->root->call;
    char first[160], other[160];
    uint32_t by;
    uint64_t bytes = collective_bytes(hub, rank, note, &by);
    collective_describe(call->call, bytes, call->name, call->name_len, first, sizeof(first));
    collective_describe(note->call, note->bytes, parts->name, parts->name_len, other,
                        sizeof(other));
    collective_fail(hub, AQ_EMISMATCH,
                    "the ranks disagree in %s: rank %u is in %s, but rank %u is in %s (exchange "
                    "%u); do all ranks run the same program with the same settings?",
                    collective_caller(hub), by, first, rank, other, call->seq);
}

void collective_part(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_call *call = &hub->root->call;
    struct collective_parts parts;
    if (call->failed != AQ_OK || !collective_read(hub, note, &parts)) return;
    for (uint32_t i = 0; i < note->count; i++) {
        uint32_t rank;
        memcpy(&rank, parts.ranks + i * sizeof(rank), sizeof(rank));
        if (rank >= hub->params.ranks || hub_agent_of(hub, rank) != note->by ||
            hub->root->ranks[rank].whole)
            return;
        if (!call->active) collective_begin(hub, rank, note, &parts);
        if (!collective_matches(hub, rank, note, &parts)) {
            collective_mismatch(hub, rank, note, &parts);
            return;
        }
        if (parts.each != 0)
            memcpy(call->parts + rank * parts.each, parts.data + i * parts.each, parts.each);
        hub->root->ranks[rank].whole = true;
        call->whole++;
    }
    if (call->whole == hub->params.ranks)
        collective_complete(hub);
    else
        collective_check(hub);
}

/* Describe why this rank, whose part is missing, can no longer call. Returns false if it still
 * may. */
static bool collective_cannot_come(struct aqi_hub *hub, uint32_t i, const char *waiting)
{
    const struct hub_rank *rank = &hub->root->ranks[i];
    char name[AQI_RANK_NAME_BYTES];
    if (rank->whole) return false;
    if (rank->state == AQI_RANK_LOST)
        collective_fail(hub, AQ_EPEER, "%s, while %s reached %s", rank->fate, waiting,
                        collective_caller(hub));
    else if (rank->state == AQI_RANK_LEFT)
        collective_fail(hub, AQ_EPEER, "rank %u has left the job, while %s reached %s", i, waiting,
                        collective_caller(hub));
    else if (rank->leaving)
        collective_fail(hub, AQ_EMISMATCH,
                        "the ranks disagree: rank %u called aq_finalize, while %s reached %s", i,
                        waiting, collective_caller(hub));
    else if (rank->state == AQI_RANK_STARTED && !rank->running)
        end_job(hub, AQI_EXIT_FAILED, i,
                "%s exited with code 0 without calling aq_init, while %s reached it",
                aqi_hub_name(hub, i, name), waiting);
    else
        return false;
    return true;
}

void collective_check(struct aqi_hub *hub)
{
    struct hub_root *root = hub->root;
    char waiting[160];
    if (!root->call.active || root->absent + root->leaving == 0 || root->end.ending) return;
    collective_list(hub, true, waiting, sizeof(waiting));
    for (uint32_t i = 0; i < hub->params.ranks; i++)
        if (collective_cannot_come(hub, i, waiting)) return;
}

/* Report the missing ranks and, for the first one that has not joined, what to check. (root.c
 * reports hosts that never attached.) */
static void collective_time_out(struct aqi_hub *hub)
{
    char missing[160], hint[AQI_RANK_NAME_BYTES + 120] = "", name[AQI_RANK_NAME_BYTES];
    collective_list(hub, false, missing, sizeof(missing));
    for (uint32_t i = 0; i < hub->params.ranks && hint[0] == '\0'; i++)
        if (hub->root->ranks[i].state == AQI_RANK_STARTED)
            snprintf(hint, sizeof(hint),
                     "; %s has not called aq_init: does it use Aqueduct, or is it stuck?",
                     aqi_hub_name(hub, i, name));
    collective_fail(hub, AQ_ETIMEOUT, "%s did not reach %s within %.3g s (AQ_START_TIMEOUT)%s",
                    missing, collective_caller(hub), (double)hub->params.start_timeout_ns / 1e9,
                    hint);
}

uint64_t collective_tick(struct aqi_hub *hub)
{
    const struct hub_call *call = &hub->root->call;
    if (!call->active) return UINT64_MAX;
    uint64_t limit = call->since_ns + hub->params.start_timeout_ns;
    if (hub->now < limit) return limit;
    collective_time_out(hub);
    return UINT64_MAX;
}
