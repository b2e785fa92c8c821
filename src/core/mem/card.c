/* Cards: the data that ranks exchange about their transports, packed. */
#include "core/mem/mem.h"

#include <string.h>

static size_t card_longest(unsigned offered, enum core_blob what)
{
    const struct aqi_transport *ops = core.offered[offered];
    return what == CORE_KEYS ? ops->key_max : ops->addr_max;
}

/* Each entry begins with its length, in two bytes. */
static size_t card_place_of(size_t fixed, enum core_blob what, unsigned offered)
{
    while (offered-- > 0)
        fixed += sizeof(uint16_t) + card_longest(offered, what);
    return fixed;
}

size_t core_card_size(size_t fixed, enum core_blob what)
{
    return aqi_round_up(card_place_of(fixed, what, core.offered_count), sizeof(uint64_t));
}

void core_card_set(void *card, size_t fixed, enum core_blob what, unsigned t, const void *blob,
                   size_t len)
{
    unsigned char *at = (unsigned char *)card + card_place_of(fixed, what, core.place[t]);
    uint16_t n = (uint16_t)aqi_min(len, card_longest(core.place[t], what));
    memcpy(at, &n, sizeof(n));
    if (n != 0) memcpy(at + sizeof(n), blob, n);
}

const void *core_card_get(const void *card, size_t fixed, enum core_blob what, unsigned t,
                          size_t *len)
{
    const unsigned char *at =
        (const unsigned char *)card + card_place_of(fixed, what, core.place[t]);
    uint16_t n;
    memcpy(&n, at, sizeof(n));
    *len = aqi_min(n, card_longest(core.place[t], what));
    return at + sizeof(n);
}

unsigned core_tp_index(const struct aqi_tp *tp)
{
    return core.tps[tp->index] == tp ? tp->index : core.tp_count;
}
