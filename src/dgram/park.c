/* Packets that came while the program made no call: parked as they are, and taken when it does. */
#include "dgram/dgram_impl.h"

#include <stdlib.h>

enum { PARK_MOST = DGRAM_WINDOW /* packets */ };

void dgram_kept_free(struct dgram_kept *kept)
{
    free(kept->bytes);
    free(kept);
}

static struct dgram_parked *park_list(struct aqi_dgram *dgram, const struct dgram_head *head)
{
    return &dgram->parked_by[(head->seq ^ head->source) % DGRAM_PARKED_LISTS];
}

/* Whether the packet that begins with `head` came before and has been parked. */
static bool park_has(struct aqi_dgram *dgram, const struct dgram_head *head)
{
    struct dgram_head other;
    const struct dgram_kept *kept = park_list(dgram, head)->first;
    for (; kept != NULL; kept = kept->next_parked) {
        memcpy(&other, kept->bytes, sizeof(other));
        if (other.cookie == head->cookie && other.source == head->source &&
            other.seq == head->seq && ((other.flags ^ head->flags) & DGRAM_ON_DATA) == 0)
            return true;
    }
    return false;
}

bool dgram_park(struct aqi_dgram *dgram, const struct dgram_head *head, const unsigned char *packet,
                size_t len)
{
    if (park_has(dgram, head)) return true;
    if (dgram->parked_count == PARK_MOST) return false;
    if (dgram->parked_bytes + len > dgram->config.room) return false;
    struct dgram_kept *kept = malloc(sizeof(*kept));
    unsigned char *copy = malloc(dgram_round16(len));
    if (kept == NULL || copy == NULL) {
        free(kept);
        free(copy);
        return false;
    }
    memcpy(copy, packet, len);
    *kept = (struct dgram_kept){
        .source = head->source, .bytes = copy, .len = len, .arrived = dgram->arrived};
    struct dgram_parked *list = park_list(dgram, head);
    if (list->first != NULL)
        list->last->next_parked = kept;
    else
        list->first = kept;
    list->last = kept;
    *dgram->parked_end = kept;
    dgram->parked_end = &kept->next;
    dgram->parked_count++;
    dgram->parked_bytes += len;
    return true;
}

/* The first of those that are parked, which is the caller's now; NULL: there is none. */
static struct dgram_kept *park_take(struct aqi_dgram *dgram)
{
    struct dgram_kept *kept = dgram->parked;
    struct dgram_head head;
    if (kept == NULL) return NULL;
    memcpy(&head, kept->bytes, sizeof(head));
    park_list(dgram, &head)->first = kept->next_parked; /* the first of all is the first there */
    dgram->parked = kept->next;
    if (dgram->parked == NULL) dgram->parked_end = &dgram->parked;
    dgram->parked_count--;
    dgram->parked_bytes -= kept->len;
    return kept;
}

void dgram_park_forget(struct aqi_dgram *dgram)
{
    struct dgram_kept *kept;
    while ((kept = park_take(dgram)) != NULL)
        dgram_kept_free(kept);
}

bool aqi_dgram_parked(const struct aqi_dgram *dgram)
{
    return dgram->parked != NULL;
}

unsigned aqi_dgram_resume(struct aqi_dgram *dgram, bool requests, uint64_t now)
{
    unsigned n = 0;
    struct dgram_kept *kept;
    /* Others may be parked while handlers run. */
    for (uint32_t left = dgram->parked_count; left > 0; left--, n++) {
        kept = park_take(dgram);
        if (kept == NULL) break;
        uint64_t waited = kept->arrived != 0 ? now - kept->arrived : AQI_DGRAM_NEVER;
        aqi_dgram_input(dgram, kept->bytes, kept->len, requests, waited, now);
        dgram_kept_free(kept);
    }
    return n;
}
