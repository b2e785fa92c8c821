/*
 * The table of patterns. To add a pattern, add a row here, a loop to each back end and, if no
 * existing ones fit, a kind and a limit.
 */
#include "perf.h"

#define K 1024u
#define M (1024u * 1024u)

const char *const unit_names[UNIT_COUNT] = {
    [UNIT_NS] = "ns", [UNIT_RATE] = "M/s", [UNIT_BANDWIDTH] = "GB/s"};

double unit_from_ns(enum unit unit, double ns, size_t size, uint64_t n)
{
    if (ns <= 0) ns = 1; /* below the clock's resolution */
    switch (unit) {
    case UNIT_RATE:
        return (double)n / ns * 1e3;
    case UNIT_BANDWIDTH:
        return (double)n * (double)size / ns;
    default:
        return ns / (double)n;
    }
}

/* The sizes measured by default. --sizes can replace lists of several sizes, but not single
 * ones. */
static const struct sizes none = {{0}, .count = 1}, word = {{8}, .count = 1},
                          rates = {{8, 512}, .count = 2};
static const struct sizes pieces = {{8, 16, 64, 512}, .count = 4};
static const struct sizes small = {{8, 512, 4 * K}, .count = 3},
                          coll = {{8, 4 * K, 1 * M}, .count = 3};
static const struct sizes mediums = {{8, 512, 4 * K, 8 * K}, .count = 4};
static const struct sizes longs = {{8, 64, 512, 4 * K, 64 * K}, .count = 5},
                          floods = {{8, 4 * K, 64 * K}, .count = 3};
static const struct sizes attentive = {{8, 4 * K, 64 * K}, .count = 3};
static const struct sizes tables = {{64 * K, 4 * M}, .count = 2},
                          rows = {{512, 4 * K, 64 * K}, .count = 3};
static const struct sizes bulk = {{64 * K, 1 * M, 16 * M}, .count = 3};
static const struct sizes large = {{4 * K, 64 * K, 1 * M, 4 * M}, .count = 4},
                          sets = {{4 * K, 1 * M}, .count = 2};
static const struct sizes scattered_8 = {{8, 512, 4 * K, 128 * K}, .count = 4, .piece = 8};
static const struct sizes scattered_64 = {{64, 4 * K, 128 * K}, .count = 3, .piece = 64};
static const struct sizes scattered_512 = {{512, 4 * K, 128 * K}, .count = 3, .piece = 512};

/* Parts that several kinds have in common. */
#define STREAM           .unit = UNIT_RATE, .limit = LIMIT_LINE_STREAM
#define FLOOD            STREAM, .work = {.after = talk_await_floods, .threads = true}
#define RATE             .unit = UNIT_RATE, .work = {.threads = true}
#define ALL              .work = {.all_ranks = true}
#define COLL             ALL, .word = LIMIT_LINE_ROUNDS, .min_size = 8
#define BY_BYTES         .unit = UNIT_BANDWIDTH, .min_size = 1
#define THROUGH(fi, cci) .foreign = {LIMIT_NONE, LIMIT_##fi, LIMIT_##cci}
static const struct kind rtt = {.limit = LIMIT_LINE_RTT, THROUGH(FI_TAGGED_RTT, CCI_RTT)};
static const struct kind turns = {.limit = LIMIT_LINE_RTT, .turns = true};
static const struct kind medium_rtt = {
    .limit = LIMIT_LINE_ECHO, .carrier = CARRIER_MEDIUM, THROUGH(FI_TAGGED_RTT, CCI_RTT)};
static const struct kind long_rtt = {
    .limit = LIMIT_LINE_ECHO, .carrier = CARRIER_LONG, THROUGH(FI_MSG_RTT, NONE)};
static const struct kind ring = {.limit = LIMIT_LINE_HOP,
                                 .work = {.all_ranks = true, .parts = talk_ring_hops}};
static const struct kind flood = {FLOOD, THROUGH(FI_STREAM, CCI_STREAM)}, pairs = {STREAM};
static const struct kind medium_flood = {FLOOD, .carrier = CARRIER_MEDIUM,
                                         THROUGH(FI_STREAM, CCI_STREAM)};
static const struct kind reserved_flood = {FLOOD, .carrier = CARRIER_MEDIUM};
static const struct kind medium_pairs = {STREAM, .carrier = CARRIER_MEDIUM};
static const struct kind long_flood = {FLOOD, .carrier = CARRIER_LONG};
static const struct kind long_bw = {BY_BYTES, .limit = LIMIT_LINE_STREAM, .carrier = CARRIER_LONG,
                                    .work = {.after = talk_await_floods, .threads = true},
                                    THROUGH(FI_STREAM, NONE)};
static const struct kind long_pairs = {STREAM, .carrier = CARRIER_LONG};
static const struct kind flood_in = {
    .unit = UNIT_RATE,
    .work = {.all_ranks = true, .after = talk_await_in, .threads = true, .parts = talk_senders}};
static const struct kind called = {.limit = LIMIT_CALL};
static const struct kind called_own = {.limit = LIMIT_CALL, .endpoints = true};
static const struct kind put_self = {
    .limit = LIMIT_MEMCPY_OUT, .word = LIMIT_STORE, .endpoints = true};
static const struct kind put_lat = {.limit = LIMIT_MEMCPY_OUT,
                                    .word = LIMIT_STORE,
                                    .second = LIMIT_CMA_WRITE,
                                    THROUGH(FI_WRITE, CCI_WRITE)};
static const struct kind get_lat = {.limit = LIMIT_MEMCPY_IN,
                                    .word = LIMIT_LOAD,
                                    .second = LIMIT_CMA_READ,
                                    THROUGH(FI_READ, CCI_READ)};
static const struct kind put_value = {.limit = LIMIT_STORE}, get_value = {.limit = LIMIT_LOAD};
static const struct kind atomic = {.limit = LIMIT_ATOMIC};
static const struct kind atomic_rate = {RATE, .limit = LIMIT_ATOMIC};
static const struct kind atomic_shared = {.limit = LIMIT_ATOMIC_SHARED, ALL};
static const struct kind put_bw = {BY_BYTES, .limit = LIMIT_MEMCPY_OUT, .second = LIMIT_CMA_WRITE,
                                   .work = {.threads = true}, THROUGH(FI_WRITES, CCI_WRITES)};
static const struct kind get_bw = {BY_BYTES, .limit = LIMIT_MEMCPY_IN, .second = LIMIT_CMA_READ,
                                   .work = {.threads = true}, THROUGH(FI_READS, CCI_READS)};
static const struct kind put_rate = {RATE, .limit = LIMIT_MEMCPY_OUT, .word = LIMIT_STORE,
                                     .min_size = 1, THROUGH(FI_WRITES, CCI_WRITES)};
static const struct kind get_rate = {RATE, .limit = LIMIT_MEMCPY_IN, .word = LIMIT_LOAD,
                                     .min_size = 1, THROUGH(FI_READS, CCI_READS)};
static const struct kind set_bw = {BY_BYTES, .limit = LIMIT_MEMSET};
/* The limit of patterns with private memory is the better of two methods. */
#define PRIVATE BY_BYTES, .either = true, .endpoints = true
static const struct kind put_private = {PRIVATE, .limit = LIMIT_DOUBLE_OUT,
                                        .second = LIMIT_CMA_PRIVATE_WRITE};
static const struct kind get_private = {PRIVATE, .limit = LIMIT_DOUBLE_IN,
                                        .second = LIMIT_CMA_PRIVATE_READ};
static const struct kind strided_out = {BY_BYTES, .limit = LIMIT_STRIDED_OUT, .word = LIMIT_STORE};
static const struct kind strided_in = {BY_BYTES, .limit = LIMIT_STRIDED_IN, .word = LIMIT_LOAD};
static const struct kind vector_out = {BY_BYTES, .limit = LIMIT_VECTOR_OUT, .word = LIMIT_STORE};
static const struct kind vector_in = {BY_BYTES, .limit = LIMIT_VECTOR_IN, .word = LIMIT_LOAD};
static const struct kind indexed_out = {BY_BYTES, .limit = LIMIT_INDEXED_OUT, .word = LIMIT_STORE};
static const struct kind indexed_in = {BY_BYTES, .limit = LIMIT_INDEXED_IN, .word = LIMIT_LOAD};
static const struct kind split = {ALL}, rounds = {ALL, .limit = LIMIT_LINE_ROUNDS};
/* Collectives, by the minimum amount of copying: from rank 0, by rank 0, or from the next rank. */
static const struct kind from_lead = {COLL, .limit = LIMIT_COPY_LEAD};
static const struct kind by_lead = {COLL, .limit = LIMIT_MEMCPY_IN};
static const struct kind from_next = {COLL, .limit = LIMIT_COPY_NEXT};

/* Patterns in which ranks compute, as those of programs do. */
#define ATTENTIVE .unit = UNIT_BANDWIDTH, .computing = COMPUTING_TARGET, .min_size = 1
#define AFTER     .computing = COMPUTING_BEFORE
static const struct kind attentive_rtt = {.limit = LIMIT_LINE_RTT, .computing = COMPUTING_TARGET};
static const struct kind attentive_medium = {ATTENTIVE, .limit = LIMIT_LINE_STREAM,
                                             .carrier = CARRIER_MEDIUM,
                                             .work = {.after = talk_await_floods}};
static const struct kind attentive_long = {ATTENTIVE, .limit = LIMIT_LINE_STREAM,
                                           .carrier = CARRIER_LONG,
                                           .work = {.after = talk_await_floods}};
static const struct kind attentive_put = {ATTENTIVE, .limit = LIMIT_MEMCPY_OUT,
                                          .word = LIMIT_STORE};
static const struct kind attentive_get = {ATTENTIVE, .limit = LIMIT_MEMCPY_IN, .word = LIMIT_LOAD};
static const struct kind rtt_after = {AFTER, .limit = LIMIT_LINE_RTT};
static const struct kind put_after = {AFTER, .limit = LIMIT_MEMCPY_OUT, .word = LIMIT_STORE};
static const struct kind get_after = {AFTER, .limit = LIMIT_MEMCPY_IN, .word = LIMIT_LOAD};

static const struct kind updates = {
    .unit = UNIT_RATE, .limit = LIMIT_ATOMIC_RANDOM, .min_size = 8, .moved = 8, ALL};
static const struct kind halo = {.limit = LIMIT_HALO,
                                 .carrier = CARRIER_LONG,
                                 .min_size = 1,
                                 .places = 4,
                                 .computing = COMPUTING_ALL,
                                 ALL};
static const struct kind steal = {
    .limit = LIMIT_LINE_ANSWER, .carrier = CARRIER_LONG, .computing = COMPUTING_TARGET};

/* Scattered transfers are a separate pattern for each length of their pieces, with its own
 * sizes. */
#define SCATTER_ROWS(name, kind, loop, doc)                                                        \
    {name, &kind, &scattered_8, BOTH(loop), doc ", 8 bytes each"},                                 \
        {name "-64", &kind, &scattered_64, BOTH(loop), doc ", 64 bytes each"},                     \
    {                                                                                              \
        name "-512", &kind, &scattered_512, BOTH(loop), doc ", 512 bytes each"                     \
    }

const struct pattern patterns[] = {
    {"am-short-rtt", &rtt, &none, BOTH(short_rtt), "Short request and its reply, one at a time"},
    {"am-turns-rtt", &turns, &none, api_aq_turns_rtt, NULL,
     "am-short-rtt over all connections in turn, each with the next (--connections)"},
    {"am-medium-rtt", &medium_rtt, &mediums, BOTH(medium_rtt),
     "Medium request, its payload sent back in a Medium reply"},
    {"am-long-rtt", &long_rtt, &longs, BOTH(long_rtt),
     "Long request, its payload sent back in a Long reply"},
    {"am-ring", &ring, &none, talk_ring, talk_ring,
     "Short request around a ring of all ranks, per hop"},
    {"am-short-rate", &flood, &none, BOTH(shorts),
     "flood of Short requests, until the last one has been handled"},
    {"am-medium-rate", &medium_flood, &mediums, BOTH(mediums),
     "flood of Medium requests, until the last one has been handled"},
    {"am-reserve-rate", &reserved_flood, &small, BOTH(reserved),
     "am-medium-rate with payloads written into buffers of the library"},
    {"am-long-rate", &long_flood, &floods, BOTH(longs),
     "flood of Long requests whose sources complete later, until all are handled"},
    {"am-long-bw", &long_bw, &bulk, BOTH(longs), "am-long-rate, in bytes"},
    {"am-short-pairs", &pairs, &none, BOTH(short_pairs),
     "flood of Short requests, until the last one has been answered by a Short reply"},
    {"am-medium-pairs", &medium_pairs, &mediums, BOTH(medium_pairs),
     "flood of Medium requests, until all have come back in Medium replies"},
    {"am-long-pairs", &long_pairs, &longs, BOTH(long_pairs),
     "flood of Long requests, until all have come back in Long replies"},
    {"am-short-in", &flood_in, &none, BOTH(shorts_in),
     "flood of Short requests from all other ranks to rank 0, in total"},
    {"poll-empty", &called, &none, BOTH(poll_empty), "poll that finds nothing"},
    {"am-self", &called_own, &none, BOTH(self_rtt),
     "Short request to the sender itself, until it has been handled, one at a time"},
    {"am-self-reply", &called_own, &none, BOTH(self_reply_rtt),
     "Short request to the sender itself and its reply, one at a time"},
    {"put-self", &put_self, &small, BOTH(put_self),
     "blocking put into the rank's own segment, one at a time"},
    {"put-lat", &put_lat, &small, BOTH(put), "blocking put into the peer's segment, one at a time"},
    {"get-lat", &get_lat, &small, BOTH(get), "blocking get from the peer's segment, one at a time"},
    {"put-value", &put_value, &word, BOTH(put_value),
     "blocking put of a value of 8 bytes, one at a time"},
    {"get-value", &get_value, &word, BOTH(get_value),
     "blocking get of a value of 8 bytes, one at a time"},
    {"atomic-lat", &atomic, &word, BOTH(fetch_add),
     "64-bit fetch-and-add in the peer's segment, one at a time"},
    {"atomic-cas", &atomic, &word, BOTH(cas),
     "64-bit compare-and-swap in the peer's segment, one at a time"},
    {"atomic-double", &atomic, &word, BOTH(add_double),
     "fetch-and-add of doubles in the peer's segment, one at a time"},
    {"atomic-shared", &atomic_shared, &word, BOTH(fetch_add_shared),
     "64-bit fetch-and-add on one word of rank 0 by all ranks at once, one at a time each"},
    {"atomic-rate", &atomic_rate, &word, BOTH(add),
     "64-bit additions without a result, many in flight"},
    {"put-bw", &put_bw, &large, BOTH(put_nbi),
     "non-blocking puts, many in flight, until all are visible"},
    {"get-bw", &get_bw, &large, BOTH(get_nbi),
     "non-blocking gets, many in flight, until all have arrived"},
    {"put-rate", &put_rate, &rates, BOTH(put_nbi),
     "non-blocking puts, many in flight, until all are visible"},
    {"get-rate", &get_rate, &rates, BOTH(get_nbi),
     "non-blocking gets, many in flight, until all have arrived"},
    {"put-events", &put_rate, &pieces, BOTH(put_events),
     "puts with an event each, 64 in flight, with one wait for all of them"},
    {"get-events", &get_rate, &pieces, BOTH(get_events),
     "gets with an event each, 64 in flight, with one wait for all of them"},
    {"memset-bw", &set_bw, &sets, BOTH(memset),
     "non-blocking memsets in the peer's segment, many in flight"},
    {"put-private", &put_private, &large, BOTH(put_private),
     "put-bw into the peer's private memory, which is not mapped"},
    {"get-private", &get_private, &large, BOTH(get_private),
     "get-bw from the peer's private memory, which is not mapped"},
    SCATTER_ROWS("strided-put", strided_out, strided_put,
                 "pieces put into every other place, many calls in flight"),
    SCATTER_ROWS("strided-get", strided_in, strided_get,
                 "pieces read from every other place, many calls in flight"),
    SCATTER_ROWS("vector-put", vector_out, vector_put,
                 "strided-put by lists of places and lengths"),
    SCATTER_ROWS("vector-get", vector_in, vector_get, "strided-get by lists of places and lengths"),
    SCATTER_ROWS("indexed-put", indexed_out, indexed_put, "strided-put by lists of places"),
    SCATTER_ROWS("indexed-get", indexed_in, indexed_get, "strided-get by lists of places"),
    {"team-split", &split, &none, BOTH(team_split),
     "split of all ranks into two teams, and the destruction of the teams"},
    {"barrier", &rounds, &none, talk_barriers, talk_barriers, "barrier of all ranks"},
    {"bcast", &from_lead, &coll, BOTH(bcast), "broadcast of that many bytes from rank 0"},
    {"reduce", &by_lead, &coll, BOTH(reduce),
     "sum of doubles to rank 0, that many bytes from each rank"},
    {"allreduce", &by_lead, &coll, BOTH(allreduce),
     "sum of doubles to all ranks, that many bytes from each"},
    {"gather", &by_lead, &coll, BOTH(gather), "gather to rank 0, that many bytes in total"},
    {"allgather", &from_next, &coll, BOTH(allgather),
     "gather to all ranks, that many bytes in total"},
    {"scatter", &by_lead, &coll, BOTH(scatter), "scatter from rank 0, that many bytes in total"},
    {"alltoall", &from_next, &coll, BOTH(alltoall),
     "exchange, that many bytes in total sent by each rank"},
    {"gups", &updates, &tables, BOTH(updates),
     "additions by each rank to random words, in that many bytes of every other rank"},
    {"attentive-am-short", &attentive_rtt, &none, BOTH(short_rtt),
     "am-short-rtt while rank 1 alternately computes and polls"},
    {"attentive-am-medium", &attentive_medium, &attentive, BOTH(mediums),
     "am-medium-rate while rank 1 alternately computes and polls"},
    {"attentive-am-long", &attentive_long, &attentive, BOTH(longs),
     "am-long-rate while rank 1 alternately computes and polls"},
    {"attentive-put", &attentive_put, &attentive, BOTH(put_nbi),
     "put-bw while rank 1 alternately computes and polls"},
    {"attentive-get", &attentive_get, &attentive, BOTH(get_nbi),
     "get-bw while rank 1 alternately computes and polls"},
    {"first-after-am", &rtt_after, &none, BOTH(short_rtt),
     "am-short-rtt, each time after rank 0 has computed while rank 1 waited"},
    {"first-after-put", &put_after, &small, BOTH(put),
     "put-lat, each time after rank 0 has computed while rank 1 waited"},
    {"first-after-get", &get_after, &small, BOTH(get),
     "get-lat, each time after rank 0 has computed while rank 1 waited"},
    {"halo", &halo, &rows, BOTH(halo),
     "Longs to the previous and next ranks, then computation, until their Longs have arrived"},
    {"steal", &steal, &rows, BOTH(steal_rtt),
     "Short request answered by a Long, one at a time, while rank 1 alternately computes and "
     "polls"},
};
