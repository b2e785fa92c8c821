/*
 * Agreements. Each has a name and a set of ranks, and is over when all of the set that are still in
 * the job have come. Those hear the worst of their statuses and the set of those who came. As the
 * answer is one and is given once, all of them do the same from there on, whoever dies meanwhile.
 */
#include "job.h"

#include <stdlib.h>

struct agreement {
    struct agreement *next;
    uint64_t name[2];
    aq_status status;
    uint32_t missing; /* members that are in the job and have not come */
    uint8_t *members;
    uint8_t *came;
    uint8_t sets[];
};

static struct agreement *agreements;

static bool agree_has(const uint8_t *set, uint32_t rank)
{
    return (set[rank / 8] >> rank % 8 & 1) != 0;
}

static struct agreement *agree_find(const uint64_t name[2])
{
    struct agreement *found = agreements;
    while (found != NULL && memcmp(found->name, name, sizeof(found->name)) != 0)
        found = found->next;
    return found;
}

static struct agreement *agree_begin(const struct aqi_control *message)
{
    struct agreement *begun = calloc(1, sizeof(*begun) + 2 * message->len);
    if (begun == NULL) die("no memory for an agreement of %u ranks", job.size);
    memcpy(begun->name, message->name, sizeof(begun->name));
    begun->members = begun->sets;
    begun->came = begun->sets + message->len;
    memcpy(begun->members, message->data, message->len);
    for (uint32_t i = 0; i < job.size; i++)
        begun->missing += agree_has(begun->members, i) && job.ranks[i].state < RANK_LEFT;
    begun->next = agreements;
    agreements = begun;
    return begun;
}

/* Answer those who came and still listen. */
static void agree_end(struct agreement *ended)
{
    struct agreement **at = &agreements;
    while (*at != ended)
        at = &(*at)->next;
    *at = ended->next;
    for (uint32_t i = 0; i < job.size; i++)
        if (job.ranks[i].state != RANK_JOINED) ended->came[i / 8] &= (uint8_t) ~(1u << i % 8);
    struct aqi_control message = {.type = AQI_CONTROL_AGREED,
                                  .status = ended->status,
                                  .name = {ended->name[0], ended->name[1]}};
    struct parcel *set = parcel_new(ended->came, aqi_boot_set_bytes(job.size));
    if (set == NULL) die("no memory for an agreement of %u ranks", job.size);
    for (uint32_t i = 0; i < job.size; i++)
        if (agree_has(ended->came, i)) hub_send(&job.ranks[i], &message, set);
    parcel_release(set);
    free(ended);
}

void agree_call(struct rank *rank, const struct aqi_control *message)
{
    struct agreement *found = agree_find(message->name);
    size_t bytes = aqi_boot_set_bytes(job.size);
    if (message->len != bytes || !agree_has(message->data, rank->number) ||
        (found != NULL && (memcmp(found->members, message->data, bytes) != 0 ||
                           agree_has(found->came, rank->number)))) {
        hub_garbage(rank, message->len);
        return;
    }
    if (found == NULL) found = agree_begin(message);
    found->came[rank->number / 8] |= (uint8_t)(1u << rank->number % 8);
    if (message->status < found->status) found->status = (aq_status)message->status;
    if (--found->missing == 0) agree_end(found);
}

void agree_gone(const struct rank *rank)
{
    struct agreement *next;
    for (struct agreement *each = agreements; each != NULL; each = next) {
        next = each->next;
        bool missed =
            agree_has(each->members, rank->number) && !agree_has(each->came, rank->number);
        if (missed && --each->missing == 0) agree_end(each);
    }
}
