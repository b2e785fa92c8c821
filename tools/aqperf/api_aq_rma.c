/* The patterns of puts, gets, values, memsets and remote atomics. */
#include "api_aq.h"

static aq_atomic_domain *integers, *doubles;
/* The team of second endpoints, whose segments are private memory of ranks 0 and 1. */
static aq_team *pair;

void api_aq_private_open(struct perf *perf)
{
    aq_ep *ep;
    aq_segment *segment;
    aq_segment_info info;
    CHECK(aq_ep_create(AQ_EP_RMA, &ep));
    if (perf->target != NULL) {
        CHECK(aq_segment_create(perf->target, perf->max_size, 0, &segment));
        CHECK(aq_ep_bind(ep, segment));
    }
    CHECK(aq_ep_publish(api_aq_world, &ep, 1, 0));
    pair = aq_team_pair(ep, aq_ep_index(ep));
    CHECK(aq_segment_query(pair, perf->peer, &info));
    perf->peer_target = info.addr;
}

void api_aq_atomic_open(void)
{
    unsigned ops = AQ_OP_BIT(AQ_OP_ADD) | AQ_OP_BIT(AQ_OP_CAS);
    CHECK(aq_atomic_domain_create(api_aq_team, AQ_TYPE_U64, ops, 0, &integers));
    CHECK(aq_atomic_domain_create(api_aq_team, AQ_TYPE_F64, AQ_OP_BIT(AQ_OP_ADD), 0, &doubles));
}

void api_aq_atomic_close(void)
{
    aq_atomic_domain_destroy(integers);
    aq_atomic_domain_destroy(doubles);
}

LOOP(api_aq_put, , CHECK(aq_put(api_aq_team, AT_PEER, perf->source, size, 0)))
LOOP(api_aq_put_self, ,
     CHECK(aq_put(api_aq_world, perf->rank, perf->mine->data, perf->source, size, 0)))
LOOP(api_aq_get, , CHECK(aq_get(api_aq_team, FROM_PEER, size, 0)))
LOOP(api_aq_put_value, , CHECK(aq_put_value(api_aq_team, AT_PEER, i, size, 0)))
LOOP(api_aq_get_value, , {
    uint64_t value;
    CHECK(aq_get_value(api_aq_team, AT_PEER, size, 0, &value));
})
LOOP(api_aq_put_nbi, CHECK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER)),
     CHECK(aq_put_nbi(api_aq_team, AT_PEER, perf->source, size, 0)))
LOOP(api_aq_get_nbi, CHECK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER)),
     CHECK(aq_get_nbi(api_aq_team, FROM_PEER, size, 0)))
LOOP(api_aq_memset, CHECK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER)),
     CHECK(aq_memset_nbi(api_aq_team, AT_PEER, (int)i & 0xff, size, 0)))
LOOP(api_aq_put_private, CHECK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER)),
     CHECK(aq_put_nbi(pair, perf->peer, perf->peer_target, perf->source, size, 0)))
LOOP(api_aq_get_private, CHECK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER)),
     CHECK(aq_get_nbi(pair, perf->peer, perf->source, perf->peer_target, size, 0)))

/* Windows of operations with an event each. */
#define EVENTS(name, ...)                                                                          \
    void api_aq_##name(struct perf *perf, size_t size, uint64_t n)                                 \
    {                                                                                              \
        enum { WINDOW = 64 };                                                                      \
        aq_event events[WINDOW];                                                                   \
        while (n > 0) {                                                                            \
            size_t count = n < WINDOW ? (size_t)n : WINDOW;                                        \
            for (size_t i = 0; i < count; i++)                                                     \
                CHECK(__VA_ARGS__);                                                                \
            CHECK(aq_event_wait_all(events, count, AQ_FOREVER));                                   \
            n -= count;                                                                            \
        }                                                                                          \
    }
EVENTS(put_events, aq_put_nb(api_aq_team, AT_PEER, perf->source, size, 0, &events[i]))
EVENTS(get_events, aq_get_nb(api_aq_team, FROM_PEER, size, 0, &events[i]))

/* One at a time, each with its result. */
#define FETCH(name, domain, ...)                                                                   \
    LOOP(api_aq_##name, , {                                                                        \
        uint64_t old;                                                                              \
        CHECK(aq_atomic(domain, __VA_ARGS__, &old, 0));                                            \
    })
FETCH(fetch_add, integers, WORD_AT_PEER, AQ_OP_ADD, &(uint64_t){1}, NULL)
FETCH(fetch_add_shared, integers, WORD_AT_LEAD, AQ_OP_ADD, &(uint64_t){1}, NULL)
FETCH(cas, integers, WORD_AT_PEER, AQ_OP_CAS, &(uint64_t){0}, &(uint64_t){0})
FETCH(add_double, doubles, WORD_AT_PEER, AQ_OP_ADD, &(double){1}, NULL)
LOOP(api_aq_add, CHECK(aq_nbi_wait(AQ_NBI_ATOMIC, AQ_FOREVER)),
     CHECK(aq_atomic_nbi(integers, WORD_AT_PEER, AQ_OP_ADD, &(uint64_t){1}, NULL, NULL, 0)))
LOOP(api_aq_updates, CHECK(aq_nbi_wait(AQ_NBI_ATOMIC, AQ_FOREVER)), {
    size_t offset;
    struct place place = talk_random_place(perf, size, &offset);
    CHECK(aq_atomic_nbi(integers, place.rank, place.addr->data + offset, AQ_OP_ADD, &(uint64_t){1},
                        NULL, NULL, 0));
})
