/* Collective calls of this host's ranks: assembles their parts and sends them to the root. */
#include "job/hub/impl.h"

#include <stdlib.h>
#include <string.h>

/* Parts are sent when those of all ranks of this host are complete, or this long after the
 * first. */
#define CALLS_DELAY_NS 20000000u

/* Whether the message is valid: `bytes` determines the memory allocated, `offset` the place of the
 * data. */
static bool calls_valid(const struct aqi_hub *hub, const struct hub_part *part,
                        const struct aqi_control *message)
{
    if (message->seq != part->calls + 1 || part->whole || message->offset != part->got)
        return false;
    if (part->inside && (message->call != part->call || message->bytes != part->bytes))
        return false;
    uint64_t most = message->call == AQI_CALL_TABLE ? AQI_CONTROL_GATHER : AQI_CONTROL_CHUNK;
    if (message->call == AQI_CALL_SHARE) return message->len <= AQI_CONTROL_NAME;
    return message->bytes <= AQI_CONTROL_PART && message->bytes * hub->params.ranks <= most &&
           message->len <= message->bytes - part->got &&
           (message->len != 0 || (message->bytes == 0 && message->call == AQI_CALL_ALLGATHER));
}

static void calls_answer_failed(struct aqi_hub *hub, const struct hub_local *local, uint32_t seq)
{
    const struct aqi_control message = {
        .type = AQI_CONTROL_RESULT, .seq = seq, .status = hub->failed, .bytes = hub->why->len};
    hub->params.hooks.to_rank(hub->params.arg, local->rank, &message, hub->why);
}

static bool calls_alike(const struct hub_part *a, const struct hub_part *b)
{
    return a->calls == b->calls && a->call == b->call && a->bytes == b->bytes &&
           (a->call != AQI_CALL_SHARE ||
            (a->name_len == b->name_len && memcmp(a->data, b->data, a->name_len) == 0));
}

static bool calls_unsent(const struct hub_local *local)
{
    return local->part.whole && !local->part.sent;
}

/* Send one note with the parts of ranks from `first` to before `end` that have the same call and
 * size as that of `first`: the ranks, then the data of each, or the common name. */
static void calls_send_alike(struct aqi_hub *hub, uint32_t first, uint32_t end)
{
    const struct hub_part *like = &hub->locals[first].part;
    bool share = like->call == AQI_CALL_SHARE;
    size_t each = share ? 0 : (size_t)like->bytes, count = 0;
    for (uint32_t i = first; i < end; i++)
        count += calls_unsent(&hub->locals[i]) && calls_alike(&hub->locals[i].part, like);
    size_t len = count * (sizeof(uint32_t) + each) + (share ? like->name_len : 0);
    uint8_t *data = malloc(len);
    if (data == NULL) hub_no_memory(hub, "the parts of a collective call");
    uint8_t *ranks = data, *parts = data + count * sizeof(uint32_t);
    for (uint32_t i = first; i < end; i++) {
        struct hub_local *local = &hub->locals[i];
        if (!calls_unsent(local) || !calls_alike(&local->part, like)) continue;
        memcpy(ranks, &local->rank, sizeof(uint32_t));
        ranks += sizeof(uint32_t);
        if (each != 0) memcpy(parts, local->part.data, each);
        parts += each;
        local->part.sent = true;
        hub->unsent_parts--;
    }
    if (share && like->name_len != 0) memcpy(parts, like->data, like->name_len);
    flow_fact(hub, &(struct hub_note){.type = HUB_PART,
                                      .count = (uint32_t)count,
                                      .seq = like->calls + 1,
                                      .call = like->call,
                                      .bytes = like->bytes,
                                      .data = data,
                                      .len = len});
    free(data);
}

static void calls_send(struct aqi_hub *hub)
{
    hub->unsent_since_ns = 0;
    for (uint32_t i = 0; i < hub->count; i++)
        if (calls_unsent(&hub->locals[i])) calls_send_alike(hub, i, hub->count);
}

static void calls_keep(struct aqi_hub *hub, struct hub_part *part,
                       const struct aqi_control *message)
{
    bool share = message->call == AQI_CALL_SHARE;
    if (!part->inside) {
        size_t room = share ? message->len : (size_t)message->bytes;
        part->inside = true;
        part->call = message->call;
        part->bytes = message->bytes;
        part->data = malloc(room + 1);
        if (part->data == NULL) hub_no_memory(hub, "the part of a collective call");
    }
    if (message->len != 0) memcpy(part->data + part->got, message->data, message->len);
    part->got += message->len;
    part->name_len = share ? message->len : 0;
    part->whole = share || part->got == part->bytes;
    hub->unsent_parts += part->whole;
}

aq_status calls_take(struct aqi_hub *hub, struct hub_local *local,
                     const struct aqi_control *message)
{
    struct hub_part *part = &local->part;
    if (hub->failed != AQ_OK) {
        if (message->offset == 0) calls_answer_failed(hub, local, message->seq);
        return AQ_OK;
    }
    if (!calls_valid(hub, part, message)) return AQ_EPROTO;
    calls_keep(hub, part, message);
    if (!part->whole) return AQ_OK;
    uint32_t index = hub->index[local->rank];
    if (hub->root != NULL)
        calls_send_alike(hub, index, index + 1);
    else if (hub->unsent_parts == hub->count)
        calls_send(hub);
    else if (hub->unsent_since_ns == 0)
        hub->unsent_since_ns = hub->now;
    return AQ_OK;
}

uint64_t calls_tick(struct aqi_hub *hub)
{
    if (hub->unsent_since_ns == 0) return UINT64_MAX;
    if (hub->now < hub->unsent_since_ns + CALLS_DELAY_NS)
        return hub->unsent_since_ns + CALLS_DELAY_NS;
    calls_send(hub);
    return UINT64_MAX;
}

static void calls_end(struct aqi_hub *hub, struct hub_part *part)
{
    hub->unsent_parts -= part->whole && !part->sent;
    free(part->data);
    *part = (struct hub_part){.calls = part->calls + 1};
}

static void calls_fail(struct aqi_hub *hub, aq_status status, const void *why, size_t len)
{
    if (hub->failed != AQ_OK) return; /* keep the first cause */
    hub->failed = status;
    hub->why = aqi_parcel_new(why, aqi_min(len, AQI_CONTROL_TEXT));
    if (hub->why == NULL) hub_no_memory(hub, "the cause of a failed collective call");
    for (uint32_t i = 0; i < hub->count; i++) {
        struct hub_local *local = &hub->locals[i];
        if (!local->part.inside) continue;
        calls_answer_failed(hub, local, local->part.calls + 1);
        calls_end(hub, &local->part);
    }
}

/* The size of the shared object of this host's ranks, which is the same in all their calls. */
static size_t calls_share_bytes(const struct aqi_hub *hub)
{
    uint32_t i = 0;
    while (i + 1 < hub->count && !hub->locals[i].part.inside)
        i++;
    return (size_t)hub->locals[i].part.bytes;
}

/* Create the result for the ranks of this host: bytes, or a descriptor. */
static aq_status calls_make(struct aqi_hub *hub, const struct hub_note *note,
                            struct aqi_parcel **parcel)
{
    char name[AQI_CONTROL_NAME + 1];
    if (note->call == AQI_CALL_TABLE)
        return hub->params.hooks.freeze(hub->params.arg, note->data, note->len, parcel);
    if (note->call == AQI_CALL_SHARE) {
        size_t len = aqi_min(note->len, sizeof(name) - 1);
        if (len != 0) memcpy(name, note->data, len);
        name[len] = '\0';
        return hub->params.hooks.share(hub->params.arg, name, calls_share_bytes(hub), parcel);
    }
    *parcel = aqi_parcel_new(note->data, note->len);
    return *parcel != NULL ? AQ_OK : AQ_ENOMEM;
}

/* End the job: ranks of other hosts have their result, and would wait for this host's ranks
 * forever. */
static void calls_report(struct aqi_hub *hub, const char *why)
{
    if (hub->params.agents == 1)
        aqi_hub_print(hub, "%s", why);
    else
        flow_fact(hub,
                  &(struct hub_note){.type = HUB_FAILED, .code = AQI_EXIT_FAILED, .text = why});
}

void calls_result(struct aqi_hub *hub, const struct hub_note *note)
{
    struct aqi_parcel *parcel = NULL;
    if (note->status != AQ_OK) {
        calls_fail(hub, (aq_status)note->status, note->data, note->len);
        return;
    }
    if (hub->count == 0) return;
    aq_status status = calls_make(hub, note, &parcel);
    if (status != AQ_OK) {
        const char *why = aq_error_message();
        calls_report(hub, why);
        calls_fail(hub, status, why, strlen(why));
        return;
    }
    const struct aqi_control message = {
        .type = AQI_CONTROL_RESULT, .seq = note->seq, .bytes = note->bytes};
    for (uint32_t i = 0; i < hub->count; i++) {
        struct hub_local *local = &hub->locals[i];
        hub->params.hooks.to_rank(hub->params.arg, local->rank, &message, parcel);
        if (local->part.inside) calls_end(hub, &local->part);
    }
    aqi_parcel_release(parcel);
}
