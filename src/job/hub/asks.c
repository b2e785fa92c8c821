/* Agreements, on the side of a host: when all of its surviving members have asked, the root is
 * notified. */
#include "job/hub/impl.h"

#include <stdlib.h>
#include <string.h>

struct hub_ask {
    struct hub_ask *next;
    uint64_t name[2];
    aq_status status;
    uint32_t missing; /* members of this host that are in the job and have not asked */
    uint8_t *members, *came;
    uint8_t sets[]; /* one set after the other */
};

static bool asks_counts(const struct hub_local *local)
{
    return local->state < AQI_RANK_LEFT;
}

static struct hub_ask *asks_begin(struct aqi_hub *hub, const struct aqi_control *message)
{
    struct hub_ask *begun = calloc(1, sizeof(*begun) + 2 * message->len);
    if (begun == NULL) hub_no_memory(hub, "an agreement");
    memcpy(begun->name, message->name, sizeof(begun->name));
    begun->members = begun->sets;
    begun->came = begun->sets + message->len;
    memcpy(begun->members, message->data, message->len);
    for (uint32_t i = 0; i < hub->count; i++)
        begun->missing +=
            hub_set_has(begun->members, hub->locals[i].rank) && asks_counts(&hub->locals[i]);
    begun->next = hub->asks;
    hub->asks = begun;
    return begun;
}

static void asks_tell(struct aqi_hub *hub, struct hub_ask *ask)
{
    struct hub_ask **at = &hub->asks;
    while (*at != ask)
        at = &(*at)->next;
    *at = ask->next;
    const struct hub_note note = {.type = HUB_ASK,
                                  .name = {ask->name[0], ask->name[1]},
                                  .status = ask->status,
                                  .data = ask->sets,
                                  .len = 2 * aqi_boot_set_bytes(hub->params.ranks)};
    flow_fact(hub, &note);
    free(ask);
}

aq_status asks_take(struct aqi_hub *hub, struct hub_local *local, const struct aqi_control *message)
{
    size_t bytes = aqi_boot_set_bytes(hub->params.ranks);
    struct hub_ask *found = hub->asks;
    while (found != NULL && memcmp(found->name, message->name, sizeof(found->name)) != 0)
        found = found->next;
    if (message->len != bytes || !hub_set_has(message->data, local->rank) ||
        (found != NULL && (memcmp(found->members, message->data, bytes) != 0 ||
                           hub_set_has(found->came, local->rank))))
        return AQ_EPROTO;
    if (found == NULL) found = asks_begin(hub, message);
    hub_set_add(found->came, local->rank);
    if (message->status < found->status) found->status = (aq_status)message->status;
    if (--found->missing == 0) asks_tell(hub, found);
    return AQ_OK;
}

void asks_gone(struct aqi_hub *hub, uint32_t rank)
{
    struct hub_ask *next;
    for (struct hub_ask *each = hub->asks; each != NULL; each = next) {
        next = each->next;
        bool missed = hub_set_has(each->members, rank) && !hub_set_has(each->came, rank);
        if (missed && --each->missing == 0) asks_tell(hub, each);
    }
}

void asks_agreed(struct aqi_hub *hub, const struct hub_note *note)
{
    const struct aqi_control message = {
        .type = AQI_CONTROL_AGREED, .status = note->status, .name = {note->name[0], note->name[1]}};
    if (note->len != aqi_boot_set_bytes(hub->params.ranks)) return;
    struct aqi_parcel *set = aqi_parcel_new(note->data, note->len);
    if (set == NULL) hub_no_memory(hub, "an agreement");
    for (uint32_t i = 0; i < hub->count; i++)
        if (hub_set_has(note->data, hub->locals[i].rank))
            hub->params.hooks.to_rank(hub->params.arg, hub->locals[i].rank, &message, set);
    aqi_parcel_release(set);
}

void asks_close(struct aqi_hub *hub)
{
    while (hub->asks != NULL) {
        struct hub_ask *gone = hub->asks;
        hub->asks = gone->next;
        free(gone);
    }
}
