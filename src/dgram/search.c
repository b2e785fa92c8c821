/* The largest packet that a path carries. */
#include "dgram/search.h"

#include "dgram/dgram.h"

enum {
    SEARCH_ROUNDS = 4, /* dgram_search.rounds after which the path is known to be small */
    SEARCH_ROUGH = 8,  /* the same, if packets that it carries are lost */
    SEARCH_SURE = 2,   /* dgram_search.sure after which nothing larger passes */
    SEARCH_ROUGHLY_SURE = 4,
    SEARCH_MOST = 24,    /* rounds after which the largest size that passed is accepted */
    SEARCH_SILENCES = 5, /* silent in a row; half a second: few peers wait so long for a CPU */
    SEARCH_FORGET = 8,   /* silent in a row after which earlier results may no longer hold */
    SEARCH_GRAIN = 16,
    SEARCH_PARTS = 7,   /* sizes in a round that divide the range */
    SEARCH_JUMBO = 8960 /* what jumbo frames carry; above it, one size per round */
};

void dgram_search_begin(struct dgram_search *search, uint16_t largest, uint8_t way)
{
    if (search->largest != largest || search->way != way)
        *search = (struct dgram_search){.largest = largest, .way = way};
}

static uint16_t search_ceiling(const struct dgram_search *search)
{
    return search->ceiling != 0 ? search->ceiling : search->largest;
}

unsigned dgram_search_sizes(const struct dgram_search *search, uint16_t sizes[DGRAM_SEARCH_SIZES])
{
    /* Ethernet; most tunnels; the minimum of IPv6; our minimum. */
    static const uint16_t usual[] = {1472, 1424, 1232, AQI_DGRAM_LEAST_PACKET};
    unsigned n = 0, ceiling = search_ceiling(search);
    if (search->small == 0) {
        for (unsigned i = 0; i < AQI_COUNT_OF(usual); i++)
            if (usual[i] < search->largest) sizes[n++] = usual[i];
        return n;
    }
    bool few = ceiling > SEARCH_JUMBO || search->crowded;
    unsigned grains = (ceiling - search->small) / SEARCH_GRAIN;
    unsigned parts = (unsigned)aqi_min(few ? 1 : SEARCH_PARTS, grains - 1);
    if (ceiling > SEARCH_JUMBO && search->small < SEARCH_JUMBO)
        sizes[n++] = SEARCH_JUMBO;
    else
        for (unsigned i = parts; i > 0; i--)
            sizes[n++] = (uint16_t)(search->small + i * grains / (parts + 1) * SEARCH_GRAIN);
    if (n == 0 && ceiling < search->largest) sizes[n++] = (uint16_t)ceiling;
    sizes[n++] = search->small;
    return n;
}

bool dgram_search_needs_largest(const struct dgram_search *search)
{
    return !search->nearly || search->ceiling == 0;
}

void dgram_search_sent(struct dgram_search *search, bool all)
{
    search->sent = true;
    if (!all) search->rough = search->partial = true;
}

void dgram_search_passed(struct dgram_search *search, uint16_t size)
{
    uint16_t sizes[DGRAM_SEARCH_SIZES];
    unsigned n = dgram_search_sizes(search, sizes);
    if (size >= search->largest) return;
    for (unsigned i = 0; i < n; i++)
        if (sizes[i] == size) search->passed |= (uint16_t)(1u << i);
    /* It may be one of an earlier round. */
    if (size > search->best) search->best = size;
}

/* The smallest size that has not passed and is larger than those that have; 0: none. */
static uint16_t search_fails(struct dgram_search *search)
{
    uint16_t sizes[DGRAM_SEARCH_SIZES], fails = 0;
    unsigned n = dgram_search_sizes(search, sizes);
    for (unsigned i = 0; i < n; i++) {
        if ((search->passed & 1u << i) != 0) continue;
        if (sizes[i] > aqi_max(search->best, search->small))
            fails = sizes[i];
        else
            search->rough = true;
    }
    return fails;
}

static void search_narrow(struct dgram_search *search)
{
    uint16_t fails = search_fails(search), small = search->small, ceiling = search->ceiling;
    if (search->best > search->small) search->small = search->best;
    if (ceiling != 0 && search->small >= ceiling) {
        search->ceiling = 0; /* it had only been lost */
        search->rough = true;
    }
    if (fails != 0 && fails < search_ceiling(search)) search->ceiling = fails;
    bool same = search->small == small && search->ceiling == ceiling;
    bool close = search_ceiling(search) - search->small == SEARCH_GRAIN;
    if (!same || !close)
        search->sure = 0;
    else if (search->sure < UINT8_MAX)
        search->sure++;
}

static enum dgram_verdict search_verdict(struct dgram_search *search)
{
    if (search->best == 0) {
        if (search->rounds > 0) search->rounds--;
        return DGRAM_SILENT;
    }
    search_narrow(search);
    if (search->rounds < UINT8_MAX) search->rounds++;
    search->nearly = search->rounds >= (search->rough ? SEARCH_ROUGH : SEARCH_ROUNDS);
    if (!search->nearly) return DGRAM_GO_ON;
    bool sure = search->sure >= (search->rough ? SEARCH_ROUGHLY_SURE : SEARCH_SURE);
    if (!sure && search->rounds < SEARCH_MOST) return DGRAM_NEARLY;
    search->rounds--; /* if it has to be found again, one round suffices */
    if (search->sure > 0) search->sure--;
    return DGRAM_FOUND;
}

static void search_forget(struct dgram_search *search)
{
    *search = (struct dgram_search){.largest = search->largest,
                                    .way = search->way,
                                    .silences = SEARCH_SILENCES,
                                    .rough = true,
                                    .crowded = true};
}

enum dgram_verdict dgram_search_judge(struct dgram_search *search)
{
    if (search->sent) search->silences = search->best != 0 ? 0 : search->silences + 1;
    if (search->partial || search->silences >= SEARCH_SILENCES) search->crowded = true;
    enum dgram_verdict verdict = search->sent ? search_verdict(search) : DGRAM_SILENT;
    if (search->silences >= SEARCH_FORGET && search->small != 0) search_forget(search);
    search->best = search->passed = 0;
    search->sent = search->partial = false;
    return verdict;
}
