/* The table of patterns. A new one is a row here, a row of `works` in each API back end, and, if
 * none fits, a kind and a limit. */
#include "perf.h"

#define K 1024u
#define M (1024u * 1024u)

const char *const unit_names[UNIT_COUNT] = {
    [UNIT_NS] = "ns", [UNIT_RATE] = "M/s", [UNIT_BANDWIDTH] = "GB/s"};

double unit_from_ns(enum unit unit, double ns, size_t size, uint64_t n)
{
    if (ns <= 0) ns = 1; /* below what the clock can tell */
    switch (unit) {
    case UNIT_RATE:
        return (double)n / ns * 1e3;
    case UNIT_BANDWIDTH:
        return (double)n * (double)size / ns;
    default:
        return ns / (double)n;
    }
}

/* The sizes that are measured by default. Several can be replaced by --sizes, a single one not. */
static const struct sizes none = {{0}, 1}, word = {{8}, 1}, rates = {{8, 512}, 2};
static const struct sizes small = {{8, 512, 4 * K}, 3}, coll = {{8, 4 * K, 1 * M}, 3};
static const struct sizes mediums = {{8, 512, 4 * K, 8 * K}, 4};
static const struct sizes longs = {{8, 64, 512, 4 * K, 64 * K}, 5},
                          floods = {{8, 4 * K, 64 * K}, 3};
static const struct sizes large = {{4 * K, 64 * K, 1 * M, 4 * M}, 4}, sets = {{4 * K, 1 * M}, 2};
static const struct sizes scattered_8 = {{8, 512, 4 * K, 128 * K}, 4};
static const struct sizes scattered_64 = {{64, 4 * K, 128 * K}, 3};
static const struct sizes scattered_512 = {{512, 4 * K, 128 * K}, 3};

static const struct kind rtt = {.unit = UNIT_NS, .limit = LIMIT_LINE_RTT};
static const struct kind medium_rtt = {
    .unit = UNIT_NS, .limit = LIMIT_LINE_ECHO, .carrier = CARRIER_MEDIUM};
static const struct kind long_rtt = {
    .unit = UNIT_NS, .limit = LIMIT_LINE_ECHO, .carrier = CARRIER_LONG};
static const struct kind ring = {.unit = UNIT_NS, .limit = LIMIT_LINE_HOP, .all_ranks = true};
static const struct kind flood = {.unit = UNIT_RATE, .limit = LIMIT_LINE_STREAM};
static const struct kind medium_flood = {
    .unit = UNIT_RATE, .limit = LIMIT_LINE_STREAM, .carrier = CARRIER_MEDIUM};
static const struct kind long_flood = {
    .unit = UNIT_RATE, .limit = LIMIT_LINE_STREAM, .carrier = CARRIER_LONG};
static const struct kind flood_in = {.unit = UNIT_RATE, .all_ranks = true};
static const struct kind called = {.unit = UNIT_NS, .limit = LIMIT_CALL};
static const struct kind called_own = {.unit = UNIT_NS, .limit = LIMIT_CALL, .endpoints = true};
static const struct kind put_self = {
    .unit = UNIT_NS, .limit = LIMIT_MEMCPY_OUT, .word = LIMIT_STORE, .endpoints = true};
static const struct kind put_lat = {
    .unit = UNIT_NS, .limit = LIMIT_MEMCPY_OUT, .word = LIMIT_STORE, .second = LIMIT_CMA_WRITE};
static const struct kind get_lat = {
    .unit = UNIT_NS, .limit = LIMIT_MEMCPY_IN, .word = LIMIT_LOAD, .second = LIMIT_CMA_READ};
static const struct kind put_value = {.unit = UNIT_NS, .limit = LIMIT_STORE};
static const struct kind get_value = {.unit = UNIT_NS, .limit = LIMIT_LOAD};
static const struct kind atomic = {.unit = UNIT_NS, .limit = LIMIT_ATOMIC};
static const struct kind atomic_rate = {.unit = UNIT_RATE, .limit = LIMIT_ATOMIC};
static const struct kind put_bw = {
    .unit = UNIT_BANDWIDTH, .limit = LIMIT_MEMCPY_OUT, .second = LIMIT_CMA_WRITE, .least = 1};
static const struct kind get_bw = {
    .unit = UNIT_BANDWIDTH, .limit = LIMIT_MEMCPY_IN, .second = LIMIT_CMA_READ, .least = 1};
static const struct kind put_rate = {
    .unit = UNIT_RATE, .limit = LIMIT_MEMCPY_OUT, .word = LIMIT_STORE, .least = 1};
static const struct kind get_rate = {
    .unit = UNIT_RATE, .limit = LIMIT_MEMCPY_IN, .word = LIMIT_LOAD, .least = 1};
static const struct kind set_bw = {.unit = UNIT_BANDWIDTH, .limit = LIMIT_MEMSET, .least = 1};
static const struct kind put_private = {.unit = UNIT_BANDWIDTH,
                                        .limit = LIMIT_DOUBLE_OUT,
                                        .second = LIMIT_CMA_PRIVATE_WRITE,
                                        .either = true,
                                        .endpoints = true,
                                        .least = 1};
static const struct kind get_private = {.unit = UNIT_BANDWIDTH,
                                        .limit = LIMIT_DOUBLE_IN,
                                        .second = LIMIT_CMA_PRIVATE_READ,
                                        .either = true,
                                        .endpoints = true,
                                        .least = 1};
/* Scattered transfers by the length of their pieces, a kind and default sizes for each. */
#define SCATTER_KIND(name, len, limit_, word_)                                                     \
    static const struct kind name##_##len = {                                                      \
        .unit = UNIT_BANDWIDTH, .limit = limit_, .word = word_, .least = len, .piece = len};
#define SCATTER_KINDS(name, limit, word)                                                           \
    SCATTER_KIND(name, 8, limit, word)                                                             \
    SCATTER_KIND(name, 64, limit, word)                                                            \
    SCATTER_KIND(name, 512, limit, word)
SCATTER_KINDS(strided_out, LIMIT_STRIDED_OUT, LIMIT_STORE)
SCATTER_KINDS(strided_in, LIMIT_STRIDED_IN, LIMIT_LOAD)
SCATTER_KINDS(vector_out, LIMIT_VECTOR_OUT, LIMIT_STORE)
SCATTER_KINDS(vector_in, LIMIT_VECTOR_IN, LIMIT_LOAD)
SCATTER_KINDS(indexed_out, LIMIT_INDEXED_OUT, LIMIT_STORE)
SCATTER_KINDS(indexed_in, LIMIT_INDEXED_IN, LIMIT_LOAD)
#define SCATTER_ROWS(id, name, kind, doc)                                                          \
    [id] = {name, &kind##_8, &scattered_8, doc ", 8 bytes each"},                                  \
    [id##_64] = {name "-64", &kind##_64, &scattered_64, doc ", 64 bytes each"},                    \
    [id##_512] = {name "-512", &kind##_512, &scattered_512, doc ", 512 bytes each"}

static const struct kind split = {.unit = UNIT_NS, .all_ranks = true};
static const struct kind rounds = {.unit = UNIT_NS, .limit = LIMIT_LINE_ROUNDS, .all_ranks = true};
/* Collectives, by what is copied at the least: from rank 0, by rank 0, from the next rank. */
static const struct kind from_lead = {.unit = UNIT_NS,
                                      .limit = LIMIT_COPY_LEAD,
                                      .word = LIMIT_LINE_ROUNDS,
                                      .all_ranks = true,
                                      .least = 8};
static const struct kind by_lead = {.unit = UNIT_NS,
                                    .limit = LIMIT_MEMCPY_IN,
                                    .word = LIMIT_LINE_ROUNDS,
                                    .all_ranks = true,
                                    .least = 8};
static const struct kind from_next = {.unit = UNIT_NS,
                                      .limit = LIMIT_COPY_NEXT,
                                      .word = LIMIT_LINE_ROUNDS,
                                      .all_ranks = true,
                                      .least = 8};

const struct pattern patterns[PATTERN_COUNT] = {
    [AM_SHORT_RTT] = {"am-short-rtt", &rtt, &none, "Short request and its reply, one at a time"},
    [AM_MEDIUM_RTT] = {"am-medium-rtt", &medium_rtt, &mediums,
                       "Medium request, its payload sent back in a Medium reply"},
    [AM_LONG_RTT] = {"am-long-rtt", &long_rtt, &longs,
                     "Long request, its payload sent back in a Long reply"},
    [AM_RING] = {"am-ring", &ring, &none, "Short request round a ring of all ranks, by hop"},
    [AM_SHORT_RATE] = {"am-short-rate", &flood, &none,
                       "flood of Short requests, until the last one has been handled"},
    [AM_MEDIUM_RATE] = {"am-medium-rate", &medium_flood, &mediums,
                        "flood of Medium requests, until the last one has been handled"},
    [AM_RESERVE_RATE] = {"am-reserve-rate", &medium_flood, &small,
                         "am-medium-rate, the payloads written into buffers of the library"},
    [AM_LONG_RATE] = {"am-long-rate", &long_flood, &floods,
                      "flood of Long requests whose sources complete later, until all are handled"},
    [AM_SHORT_PAIRS] = {"am-short-pairs", &flood, &none,
                        "flood of Short requests, until the last one has been answered by a Short"},
    [AM_MEDIUM_PAIRS] = {"am-medium-pairs", &medium_flood, &mediums,
                         "flood of Medium requests, until all have come back in Medium replies"},
    [AM_LONG_PAIRS] = {"am-long-pairs", &long_flood, &longs,
                       "flood of Long requests, until all have come back in Long replies"},
    [AM_SHORT_IN] = {"am-short-in", &flood_in, &none,
                     "flood of Short requests from all other ranks to rank 0, in all"},
    [POLL_EMPTY] = {"poll-empty", &called, &none, "poll that finds nothing"},
    [AM_SELF] = {"am-self", &called_own, &none,
                 "Short request to the sender itself, until it has been handled, one at a time"},
    [AM_SELF_REPLY] = {"am-self-reply", &called_own, &none,
                       "Short request to the sender itself and its reply, one at a time"},
    [PUT_SELF] = {"put-self", &put_self, &small,
                  "blocking put into the own segment, one at a time"},
    [PUT_LAT] = {"put-lat", &put_lat, &small,
                 "blocking put into the peer's segment, one at a time"},
    [GET_LAT] = {"get-lat", &get_lat, &small,
                 "blocking get from the peer's segment, one at a time"},
    [PUT_VALUE] = {"put-value", &put_value, &word,
                   "blocking put of a value of 8 bytes, one at a time"},
    [GET_VALUE] = {"get-value", &get_value, &word,
                   "blocking get of a value of 8 bytes, one at a time"},
    [ATOMIC_LAT] = {"atomic-lat", &atomic, &word,
                    "64-bit fetch-and-add in the peer's segment, one at a time"},
    [ATOMIC_CAS] = {"atomic-cas", &atomic, &word,
                    "64-bit compare-and-swap in the peer's segment, one at a time"},
    [ATOMIC_DOUBLE] = {"atomic-double", &atomic, &word,
                       "fetch-and-add of doubles in the peer's segment, one at a time"},
    [ATOMIC_RATE] = {"atomic-rate", &atomic_rate, &word,
                     "64-bit additions without a result, many under way"},
    [PUT_BW] = {"put-bw", &put_bw, &large,
                "non-blocking puts, many under way, until all are visible"},
    [GET_BW] = {"get-bw", &get_bw, &large,
                "non-blocking gets, many under way, until all have arrived"},
    [PUT_RATE] = {"put-rate", &put_rate, &rates,
                  "non-blocking puts, many under way, until all are visible"},
    [GET_RATE] = {"get-rate", &get_rate, &rates,
                  "non-blocking gets, many under way, until all have arrived"},
    [PUT_EVENTS] = {"put-events", &put_rate, &rates,
                    "puts with an event each, 64 under way, which are waited for together"},
    [MEMSET_BW] = {"memset-bw", &set_bw, &sets,
                   "non-blocking memsets in the peer's segment, many under way"},
    [PUT_PRIVATE] = {"put-private", &put_private, &large,
                     "put-bw into memory of the peer's own that nobody has mapped"},
    [GET_PRIVATE] = {"get-private", &get_private, &large,
                     "get-bw from memory of the peer's own that nobody has mapped"},
    SCATTER_ROWS(STRIDED_PUT, "strided-put", strided_out,
                 "pieces put into every other place, many calls under way"),
    SCATTER_ROWS(STRIDED_GET, "strided-get", strided_in,
                 "pieces got from every other place, many calls under way"),
    SCATTER_ROWS(VECTOR_PUT, "vector-put", vector_out,
                 "strided-put by lists of places and lengths"),
    SCATTER_ROWS(VECTOR_GET, "vector-get", vector_in, "strided-get by lists of places and lengths"),
    SCATTER_ROWS(INDEXED_PUT, "indexed-put", indexed_out, "strided-put by lists of places"),
    SCATTER_ROWS(INDEXED_GET, "indexed-get", indexed_in, "strided-get by lists of places"),
    [TEAM_SPLIT] = {"team-split", &split, &none,
                    "split of all ranks into two teams, and their end"},
    [BARRIER] = {"barrier", &rounds, &none, "barrier of all ranks"},
    [BCAST] = {"bcast", &from_lead, &coll, "broadcast of so many bytes from rank 0"},
    [REDUCE] = {"reduce", &by_lead, &coll, "sum of doubles to rank 0, so many bytes of each rank"},
    [ALLREDUCE] = {"allreduce", &by_lead, &coll,
                   "sum of doubles to all ranks, so many bytes of each"},
    [GATHER] = {"gather", &by_lead, &coll, "gather to rank 0, so many bytes in all"},
    [ALLGATHER] = {"allgather", &from_next, &coll, "gather to all ranks, so many bytes in all"},
    [SCATTER] = {"scatter", &by_lead, &coll, "scatter from rank 0, so many bytes in all"},
    [ALLTOALL] = {"alltoall", &from_next, &coll, "exchange, so many bytes out of each rank in all"},
};
