/* Packets that arrive while the program makes no call: found by number, taken in order. */
#include "dgram/park.h"

#include <stdlib.h>

enum { PARK_MOST = DGRAM_WINDOW /* packets */ };

void dgram_parked_free(struct dgram_parked *parked)
{
    free(parked->bytes);
    free(parked);
}

static unsigned park_list(const struct dgram_head *head)
{
    return (head->seq ^ head->source) % DGRAM_PARK_LISTS;
}

/* Whether the packet that begins with `head` has been parked before. */
static bool park_has(const struct dgram_park *park, const struct dgram_head *head)
{
    struct dgram_head other;
    const struct dgram_parked *parked = park->alike[park_list(head)].first;
    for (; parked != NULL; parked = parked->next_alike) {
        memcpy(&other, parked->bytes, sizeof(other));
        if (other.cookie == head->cookie && other.source == head->source &&
            other.seq == head->seq &&
            ((other.flags ^ head->flags) & (DGRAM_ON_DATA | DGRAM_NUMBERED)) == 0)
            return true;
    }
    return false;
}

bool dgram_park_put(struct dgram_park *park, const struct dgram_head *head,
                    const unsigned char *packet, size_t len, uint64_t arrived, size_t room)
{
    if (park_has(park, head)) return true;
    if (park->count == PARK_MOST) return false;
    if (park->bytes + len > room) return false;
    struct dgram_parked *parked = malloc(sizeof(*parked));
    unsigned char *copy = malloc(dgram_round16(len));
    if (parked == NULL || copy == NULL) {
        free(parked);
        free(copy);
        return false;
    }
    memcpy(copy, packet, len);
    *parked = (struct dgram_parked){.bytes = copy, .len = len, .arrived = arrived};
    unsigned list = park_list(head);
    *(park->alike[list].first != NULL ? &park->alike[list].last->next_alike
                                      : &park->alike[list].first) = parked;
    park->alike[list].last = parked;
    *(park->first != NULL ? &park->last->next : &park->first) = parked;
    park->last = parked;
    park->count++;
    park->bytes += len;
    return true;
}

struct dgram_parked *dgram_park_take(struct dgram_park *park)
{
    struct dgram_parked *parked = park->first;
    struct dgram_head head;
    if (parked == NULL) return NULL;
    memcpy(&head, parked->bytes, sizeof(head));
    /* The oldest packet is also the oldest of its hash list. */
    park->alike[park_list(&head)].first = parked->next_alike;
    park->first = parked->next;
    park->count--;
    park->bytes -= parked->len;
    return parked;
}
