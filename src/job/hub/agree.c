/*
 * Agreements. Each has a name and a set of ranks, and completes when all ranks of the set that are
 * still in the job have called. The result is the worst of their statuses and the set of callers.
 * It is decided once, by the root, so all callers get the same result, whichever ranks die
 * meanwhile.
 *
 * The agent of a host collects the calls of its own ranks, and notifies the root when all of them
 * have called; the root collects these notifications.
 */
#include "job/hub/impl.h"

#include <stdlib.h>
#include <string.h>

struct hub_agreement {
    struct hub_agreement *next;
    uint64_t name[2];
    aq_status status;
    uint32_t missing; /* members in the job that have not called: of this host, or of all hosts */
    uint8_t *members, *callers;
    uint8_t sets[]; /* the memory of `members` and `callers` */
};

typedef void agree_end_fn(struct aqi_hub *hub, struct hub_agreement *ended);

static struct hub_agreement *agree_find(struct hub_agreement *list, const uint64_t name[2])
{
    while (list != NULL && memcmp(list->name, name, sizeof(list->name)) != 0)
        list = list->next;
    return list;
}

/* Create an agreement; the caller sets the number of missing members. */
static struct hub_agreement *agree_begin(struct aqi_hub *hub, struct hub_agreement **list,
                                         const uint64_t name[2], const void *members)
{
    size_t bytes = aqi_boot_set_bytes(hub->params.ranks);
    struct hub_agreement *begun = calloc(1, sizeof(*begun) + 2 * bytes);
    if (begun == NULL) hub_no_memory(hub, "an agreement");
    memcpy(begun->name, name, sizeof(begun->name));
    begun->members = begun->sets;
    begun->callers = begun->sets + bytes;
    memcpy(begun->members, members, bytes);
    begun->next = *list;
    *list = begun;
    return begun;
}

static void agree_remove(struct hub_agreement **list, const struct hub_agreement *ended)
{
    while (*list != ended)
        list = &(*list)->next;
    *list = ended->next;
}

/* A rank will make no more calls, as it left or died. */
static void agree_without(struct aqi_hub *hub, struct hub_agreement *list, uint32_t rank,
                          agree_end_fn *end)
{
    struct hub_agreement *next;
    for (struct hub_agreement *each = list; each != NULL; each = next) {
        next = each->next;
        bool missed = hub_set_has(each->members, rank) && !hub_set_has(each->callers, rank);
        if (missed && --each->missing == 0) end(hub, each);
    }
}

void agree_close(struct hub_agreement *list)
{
    while (list != NULL) {
        struct hub_agreement *gone = list;
        list = gone->next;
        free(gone);
    }
}

/* --- on the agents -------------------------------------------------------------------------- */

static void agree_report(struct aqi_hub *hub, struct hub_agreement *agreement)
{
    agree_remove(&hub->agreements, agreement);
    flow_fact(hub, &(struct hub_note){.type = HUB_ASK,
                                      .name = {agreement->name[0], agreement->name[1]},
                                      .status = agreement->status,
                                      .data = agreement->sets,
                                      .len = 2 * aqi_boot_set_bytes(hub->params.ranks)});
    free(agreement);
}

static struct hub_agreement *agree_begin_here(struct aqi_hub *hub,
                                              const struct aqi_control *message)
{
    struct hub_agreement *begun = agree_begin(hub, &hub->agreements, message->name, message->data);
    for (uint32_t i = 0; i < hub->count; i++)
        begun->missing += hub_set_has(begun->members, hub->locals[i].rank) &&
                          hub->locals[i].state < AQI_RANK_LEFT;
    return begun;
}

aq_status agree_local_call(struct aqi_hub *hub, struct hub_local *local,
                           const struct aqi_control *message)
{
    size_t bytes = aqi_boot_set_bytes(hub->params.ranks);
    struct hub_agreement *found = agree_find(hub->agreements, message->name);
    if (message->len != bytes || !hub_set_has(message->data, local->rank) ||
        (found != NULL && (memcmp(found->members, message->data, bytes) != 0 ||
                           hub_set_has(found->callers, local->rank))))
        return AQ_EPROTO;
    if (found == NULL) found = agree_begin_here(hub, message);
    hub_set_add(found->callers, local->rank);
    if (message->status < found->status) found->status = (aq_status)message->status;
    if (--found->missing == 0) agree_report(hub, found);
    return AQ_OK;
}

void agree_local_gone(struct aqi_hub *hub, uint32_t rank)
{
    agree_without(hub, hub->agreements, rank, agree_report);
}

void agree_local_result(struct aqi_hub *hub, const struct hub_note *note)
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

/* --- on the root ---------------------------------------------------------------------------- */

/* Whether an agreement waits for this rank. agree_root_gone is called for ranks that end or leave.
 */
static bool agree_counts(const struct hub_rank *rank)
{
    return rank->state < AQI_RANK_LEFT && (rank->running || rank->state != AQI_RANK_STARTED);
}

/* Send the result to the callers that are still in the job. */
static void agree_end(struct aqi_hub *hub, struct hub_agreement *ended)
{
    agree_remove(&hub->root->agreements, ended);
    for (uint32_t i = 0; i < hub->params.ranks; i++)
        if (hub->root->ranks[i].state != AQI_RANK_JOINED) hub_set_drop(ended->callers, i);
    flow_entry(hub, &(struct hub_note){.type = HUB_AGREED,
                                       .status = ended->status,
                                       .name = {ended->name[0], ended->name[1]},
                                       .data = ended->callers,
                                       .len = aqi_boot_set_bytes(hub->params.ranks)});
    free(ended);
}

static struct hub_agreement *agree_begin_all(struct aqi_hub *hub, const struct hub_note *note)
{
    struct hub_agreement **list = &hub->root->agreements;
    struct hub_agreement *begun = agree_begin(hub, list, note->name, note->data);
    for (uint32_t i = 0; i < hub->params.ranks; i++)
        begun->missing += hub_set_has(begun->members, i) && agree_counts(&hub->root->ranks[i]);
    return begun;
}

void agree_root_call(struct aqi_hub *hub, const struct hub_note *note)
{
    size_t bytes = aqi_boot_set_bytes(hub->params.ranks);
    if (note->len != 2 * bytes) return;
    const uint8_t *callers = (const uint8_t *)note->data + bytes;
    struct hub_agreement *found = agree_find(hub->root->agreements, note->name);
    if (found == NULL) found = agree_begin_all(hub, note);
    if (memcmp(found->members, note->data, bytes) != 0) {
        aqi_hub_print(
            hub, "agent %u requested an agreement among different members than the other agents",
            note->by);
        return;
    }
    if (note->status < found->status) found->status = (aq_status)note->status;
    for (uint32_t i = 0; i < hub->params.ranks; i++) {
        if (callers[i / 8] == 0 || !hub_set_has(callers, i) || hub_agent_of(hub, i) != note->by ||
            !hub_set_has(found->members, i) || hub_set_has(found->callers, i))
            continue;
        hub_set_add(found->callers, i);
        found->missing -= agree_counts(&hub->root->ranks[i]);
    }
    if (found->missing == 0) agree_end(hub, found);
}

void agree_root_gone(struct aqi_hub *hub, uint32_t rank)
{
    agree_without(hub, hub->root->agreements, rank, agree_end);
}
