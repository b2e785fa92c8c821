/*
 * Agreements, at the root. Each has a name and a set of ranks, and ends when all ranks of the set
 * that are still in the job have called. They get the worst of their statuses and the set of
 * callers. As there is a single answer, given once, all of them act alike afterwards, whichever
 * ranks die meanwhile.
 */
#include "job/hub/impl.h"

#include <stdlib.h>
#include <string.h>

struct hub_agreement {
    struct hub_agreement *next;
    uint64_t name[2];
    aq_status status;
    uint32_t missing; /* members in the job that have not called */
    uint8_t *members, *came;
    uint8_t sets[];
};

/* Whether to wait for it. agree_gone is called for ranks that end or leave. */
static bool agree_counts(const struct hub_rank *rank)
{
    return rank->state < AQI_RANK_LEFT && (rank->running || rank->state != AQI_RANK_STARTED);
}

static struct hub_agreement *agree_begin(struct aqi_hub *hub, const struct hub_note *note,
                                         size_t bytes)
{
    struct hub_agreement *begun = calloc(1, sizeof(*begun) + 2 * bytes);
    if (begun == NULL) hub_no_memory(hub, "an agreement");
    memcpy(begun->name, note->name, sizeof(begun->name));
    begun->members = begun->sets;
    begun->came = begun->sets + bytes;
    memcpy(begun->members, note->data, bytes);
    for (uint32_t i = 0; i < hub->params.ranks; i++)
        begun->missing += hub_set_has(begun->members, i) && agree_counts(&hub->root->ranks[i]);
    begun->next = hub->root->agreements;
    hub->root->agreements = begun;
    return begun;
}

/* Answer the callers that still listen. */
static void agree_end(struct aqi_hub *hub, struct hub_agreement *ended)
{
    struct hub_agreement **at = &hub->root->agreements;
    while (*at != ended)
        at = &(*at)->next;
    *at = ended->next;
    for (uint32_t i = 0; i < hub->params.ranks; i++)
        if (hub->root->ranks[i].state != AQI_RANK_JOINED) hub_set_drop(ended->came, i);
    const struct hub_note note = {.type = HUB_AGREED,
                                  .status = ended->status,
                                  .name = {ended->name[0], ended->name[1]},
                                  .data = ended->came,
                                  .len = aqi_boot_set_bytes(hub->params.ranks)};
    flow_entry(hub, &note);
    free(ended);
}

void agree_ask(struct aqi_hub *hub, uint32_t agent, const struct hub_note *note)
{
    size_t bytes = aqi_boot_set_bytes(hub->params.ranks);
    struct hub_agreement *found = hub->root->agreements;
    if (note->len != 2 * bytes) return;
    const uint8_t *came = (const uint8_t *)note->data + bytes;
    while (found != NULL && memcmp(found->name, note->name, sizeof(found->name)) != 0)
        found = found->next;
    if (found == NULL) found = agree_begin(hub, note, bytes);
    if (memcmp(found->members, note->data, bytes) != 0) {
        aqi_hub_say(hub, "agent %u requests an agreement with other members than the others",
                    agent);
        return;
    }
    if (note->status < found->status) found->status = (aq_status)note->status;
    for (uint32_t i = 0; i < hub->params.ranks; i++) {
        if (came[i / 8] == 0 || !hub_set_has(came, i) || hub_agent_of(hub, i) != agent ||
            !hub_set_has(found->members, i) || hub_set_has(found->came, i))
            continue;
        hub_set_add(found->came, i);
        found->missing -= agree_counts(&hub->root->ranks[i]);
    }
    if (found->missing == 0) agree_end(hub, found);
}

void agree_gone(struct aqi_hub *hub, uint32_t rank)
{
    struct hub_agreement *next;
    for (struct hub_agreement *each = hub->root->agreements; each != NULL; each = next) {
        next = each->next;
        bool missed = hub_set_has(each->members, rank) && !hub_set_has(each->came, rank);
        if (missed && --each->missing == 0) agree_end(hub, each);
    }
}

void agree_close(struct aqi_hub *hub)
{
    while (hub->root->agreements != NULL) {
        struct hub_agreement *gone = hub->root->agreements;
        hub->root->agreements = gone->next;
        free(gone);
    }
}
