/*
 * Collective calls. One is going on at a time, since a rank begins the next only when it has the
 * result of the last. When one fails, all later ones fail too, with the same cause.
 */
#include "base/clock.h"
#include "base/shmem.h"
#include "job.h"

#include <stdarg.h>
#include <stdio.h>

static struct {
    bool going_on;
    aq_status failed; /* why there will be no further call, or AQ_OK */
    struct parcel *why;
    uint32_t seq;
    uint32_t call;
    uint32_t first; /* the rank that came first; its arguments are the others' measure */
    uint32_t whole; /* ranks whose part is here */
    uint64_t bytes;
    uint64_t since_ns;
    char name[AQI_CONTROL_NAME + 1];
    struct parcel *parts;
} now;

/* "rank 3", "ranks 1, 4 and 7", "ranks 0, 1, 2, 3 and 60 more": those that are (not) whole. */
static void collective_list(bool whole, char *text, size_t room)
{
    enum { LISTED = 8 };
    uint32_t total = 0;
    for (uint32_t i = 0; i < job.size; i++)
        total += job.ranks[i].part.whole == whole;
    uint32_t shown = total <= LISTED ? total : LISTED;
    size_t used = (size_t)snprintf(text, room, total == 1 ? "rank" : "ranks");
    uint32_t seen = 0;
    for (uint32_t i = 0; i < job.size && seen < shown; i++) {
        if (job.ranks[i].part.whole != whole) continue;
        const char *before = seen == 0 ? " " : seen + 1 == total ? " and " : ", ";
        used += (size_t)snprintf(text + used, room - used, "%s%u", before, i);
        seen++;
    }
    if (shown < total) snprintf(text + used, room - used, " and %u more", total - shown);
}

/* The call of the program that leads here: a rank makes no other one once it has started. */
static const char *collective_caller(void)
{
    return job.ranks[now.first].ready ? "aq_segment_attach" : "aq_init";
}

bool collective_said(const char *why)
{
    return now.why != NULL && strlen(why) == now.why->len &&
           memcmp(why, now.why->bytes, now.why->len) == 0;
}

static void collective_answer_failed(struct rank *rank, uint32_t seq)
{
    struct aqi_control message = {
        .type = AQI_CONTROL_RESULT, .seq = seq, .status = now.failed, .bytes = now.why->len};
    hub_send(rank, &message, now.why);
}

static void collective_end(void)
{
    now.going_on = false;
    if (now.parts != NULL) parcel_release(now.parts);
    now.parts = NULL;
    for (uint32_t i = 0; i < job.size; i++) {
        struct part *part = &job.ranks[i].part;
        if (part->inside) part->calls = now.seq;
        part->inside = part->whole = false;
        part->got = 0;
    }
}

static AQI_PRINTF(2, 3) void collective_fail(aq_status status, const char *fmt, ...)
{
    char text[AQI_CONTROL_TEXT + 1];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    now.failed = status;
    now.why = parcel_new(text, strlen(text));
    if (now.why == NULL) die("no memory to report: %s", text);
    say("%s", text);
    for (uint32_t i = 0; i < job.spawned; i++)
        if (job.ranks[i].part.inside) collective_answer_failed(&job.ranks[i], now.seq);
    collective_end();
}

static void collective_complete(void)
{
    struct parcel *parts = now.parts;
    struct aqi_control message = {.type = AQI_CONTROL_RESULT, .seq = now.seq, .bytes = parts->len};
    aq_status st = AQ_OK;
    if (now.call == AQI_CALL_SHARE) st = aqi_shmem_create(now.name, now.bytes, &parts->fd);
    if (now.call == AQI_CALL_TABLE) {
        st = aqi_shmem_freeze("aq-table", parts->bytes, parts->len, &parts->fd);
        parts->len = 0; /* it is not sent itself */
    }
    if (st != AQ_OK) {
        collective_fail(st, "%s", aq_error_message());
        return;
    }
    for (uint32_t i = 0; i < job.size; i++)
        hub_send(&job.ranks[i], &message, now.parts);
    collective_end();
}

static void collective_begin(struct rank *rank, const struct aqi_control *message)
{
    now.going_on = true;
    now.seq = message->seq;
    now.call = message->call;
    now.bytes = message->bytes;
    now.first = rank->number;
    now.whole = 0;
    now.since_ns = aqi_now_ns();
    size_t room = 0;
    if (now.call == AQI_CALL_SHARE) {
        memcpy(now.name, message->data, message->len);
        now.name[message->len] = '\0';
    } else {
        room = (size_t)now.bytes * job.size;
    }
    now.parts = parcel_new(NULL, room);
    if (now.parts == NULL) die("no memory for an allgather of %zu bytes", room);
}

/* Could a library of ours have sent this? `bytes` sizes memory, the offset places the data. */
static bool collective_sane(const struct rank *rank, const struct aqi_control *message)
{
    const struct part *part = &rank->part;
    if (message->seq != part->calls + 1 || part->whole || message->offset != part->got)
        return false;
    uint64_t most = message->call == AQI_CALL_TABLE ? AQI_CONTROL_GATHER : AQI_CONTROL_CHUNK;
    if (message->call == AQI_CALL_SHARE) return message->len <= AQI_CONTROL_NAME;
    return message->bytes <= AQI_CONTROL_PART && message->bytes * job.size <= most &&
           message->len <= message->bytes - part->got &&
           (message->len != 0 || (message->bytes == 0 && message->call == AQI_CALL_ALLGATHER));
}

static bool collective_agrees(const struct aqi_control *message)
{
    if (message->call != now.call || message->bytes != now.bytes || message->seq != now.seq)
        return false;
    return now.call != AQI_CALL_SHARE ||
           (message->len == strlen(now.name) && memcmp(message->data, now.name, message->len) == 0);
}

static void collective_describe(uint32_t call, uint64_t bytes, const char *name, size_t name_len,
                                char *text, size_t room)
{
    int n = snprintf(text, room, "%s of %llu bytes", call == AQI_CALL_SHARE ? "share" : "allgather",
                     (unsigned long long)bytes);
    if (call == AQI_CALL_SHARE)
        snprintf(text + n, room - (size_t)n, " as \"%.*s\"", (int)name_len, name);
}

static void collective_mismatch(struct rank *rank, const struct aqi_control *message)
{
    char first[160], other[160], name[AQI_CONTROL_TEXT + 1];
    aqi_control_text(message, name);
    collective_describe(now.call, now.bytes, now.name, strlen(now.name), first, sizeof(first));
    collective_describe(message->call, message->bytes, name, aqi_min(message->len, 64), other,
                        sizeof(other));
    rank->part.inside = true;
    collective_fail(AQ_EMISMATCH,
                    "the ranks disagree in %s: rank %u comes to %s, rank %u to %s (exchange %u); "
                    "do all ranks run the same program with the same settings?",
                    collective_caller(), now.first, first, rank->number, other, now.seq);
}

void collective_call(struct rank *rank, const struct aqi_control *message)
{
    struct part *part = &rank->part;
    if (now.failed != AQ_OK) {
        if (message->offset == 0) collective_answer_failed(rank, message->seq);
        return;
    }
    if (!collective_sane(rank, message)) {
        hub_garbage(rank, message->len);
        return;
    }
    if (!now.going_on) collective_begin(rank, message);
    if (!collective_agrees(message)) {
        collective_mismatch(rank, message);
        return;
    }
    part->inside = true;
    if (now.call != AQI_CALL_SHARE && message->len != 0) {
        uint8_t *mine = now.parts->bytes + rank->number * now.bytes;
        memcpy(mine + part->got, message->data, message->len);
        part->got += message->len;
    }
    part->whole = now.call == AQI_CALL_SHARE || part->got == now.bytes;
    if (part->whole && ++now.whole == job.size)
        collective_complete();
    else
        collective_check();
}

void collective_check(void)
{
    if (!now.going_on || job.absent + job.leaving == 0 || job.end.ending) return;
    char waiting[160], name[RANK_NAME_BYTES];
    collective_list(true, waiting, sizeof(waiting));
    for (uint32_t i = 0; i < job.spawned; i++) {
        struct rank *rank = &job.ranks[i];
        if (rank->part.whole) continue;
        if (rank->state == RANK_LOST) {
            collective_fail(AQ_EPEER, "%s, while %s came to %s", rank->fate, waiting,
                            collective_caller());
            return;
        }
        if (rank->state == RANK_LEFT) {
            collective_fail(AQ_EPEER, "rank %u has left the job, while %s came to %s", i, waiting,
                            collective_caller());
            return;
        }
        if (rank->leaving) {
            collective_fail(AQ_EMISMATCH,
                            "the ranks disagree: rank %u calls aq_finalize, while %s came to %s", i,
                            waiting, collective_caller());
            return;
        }
        if (rank->state == RANK_STARTED && !rank->running) {
            end_job(EXIT_FAILED, rank,
                    "%s exited with code 0 without calling aq_init, while %s came there",
                    rank_name(rank, name), waiting);
            return;
        }
    }
}

/* Who is missing, and for the first of them that never joined: what to look at. */
static void collective_time_out(void)
{
    char missing[160], hint[RANK_NAME_BYTES + 120] = "", name[RANK_NAME_BYTES];
    collective_list(false, missing, sizeof(missing));
    for (uint32_t i = 0; i < job.size && hint[0] == '\0'; i++)
        if (job.ranks[i].state == RANK_STARTED)
            snprintf(hint, sizeof(hint),
                     "; %s has not called aq_init: does it use Aqueduct, and is it not stuck?",
                     rank_name(&job.ranks[i], name));
    collective_fail(AQ_ETIMEOUT, "%s did not come to %s within %.3g s (AQ_START_TIMEOUT)%s",
                    missing, collective_caller(), (double)job.start_timeout_ns / 1e9, hint);
}

uint64_t collective_tick(uint64_t time)
{
    if (!now.going_on) return UINT64_MAX;
    uint64_t limit = now.since_ns + job.start_timeout_ns;
    if (time < limit) return limit;
    collective_time_out();
    return UINT64_MAX;
}

void collective_postpone(uint64_t ns)
{
    now.since_ns += ns;
}
