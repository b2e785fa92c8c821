/* The patterns of puts, gets, values, memsets and remote atomics. */
#include "api_aq.h"

static aq_atomic_domain *integers, *doubles;
/* A second endpoint, with the private memory of ranks 0 and 1 as its segment. */
static aq_team *pair;

void api_aq_private_open(struct perf *perf)
{
    aq_ep *ep;
    aq_segment *segment;
    aq_segment_info info;
    CHECK(aq_ep_create(AQ_EP_RMA, &ep));
    if (perf->target != NULL) {
        CHECK(aq_segment_create(perf->target, perf->max_size, &segment));
        CHECK(aq_ep_bind(ep, segment));
    }
    CHECK(aq_ep_publish(api_aq_world, &ep, 1));
    pair = aq_team_pair(ep, aq_ep_index(ep));
    CHECK(aq_segment_query(pair, perf->peer, &info));
    perf->peer_target = info.addr;
}

void api_aq_atomic_open(void)
{
    unsigned ops = AQ_OP_BIT(AQ_ADD) | AQ_OP_BIT(AQ_CAS);
    CHECK(aq_atomic_domain_create(api_aq_team, AQ_U64, ops, &integers));
    CHECK(aq_atomic_domain_create(api_aq_team, AQ_F64, AQ_OP_BIT(AQ_ADD), &doubles));
}

void api_aq_atomic_close(void)
{
    aq_atomic_domain_destroy(integers);
    aq_atomic_domain_destroy(doubles);
}

void api_aq_put(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_put(api_aq_team, perf->peer, perf->peer_addr->data, perf->source, size, 0));
}

void api_aq_put_self(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_put(api_aq_world, perf->rank, perf->mine->data, perf->source, size, 0));
}

void api_aq_get(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_get(api_aq_team, perf->target, perf->peer, perf->peer_addr->data, size, 0));
}

void api_aq_put_value(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_put_value(api_aq_team, perf->peer, perf->peer_addr->data, i, size, 0));
}

void api_aq_get_value(struct perf *perf, size_t size, uint64_t n)
{
    uint64_t value;
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_get_value(api_aq_team, perf->peer, perf->peer_addr->data, size, 0, &value));
}

void api_aq_put_nbi(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_put_nbi(api_aq_team, perf->peer, perf->peer_addr->data, perf->source, size, 0));
    CHECK(aq_nbi_wait(AQ_NBI_PUT));
}

void api_aq_get_nbi(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_get_nbi(api_aq_team, perf->target, perf->peer, perf->peer_addr->data, size, 0));
    CHECK(aq_nbi_wait(AQ_NBI_GET));
}

void api_aq_put_events(struct perf *perf, size_t size, uint64_t n)
{
    enum { WINDOW = 64 };
    aq_event events[WINDOW];
    while (n > 0) {
        size_t count = n < WINDOW ? (size_t)n : WINDOW;
        for (size_t i = 0; i < count; i++)
            CHECK(aq_put_nb(api_aq_team, perf->peer, perf->peer_addr->data, perf->source, size, 0,
                            &events[i]));
        CHECK(aq_event_wait_all(events, count));
        n -= count;
    }
}

void api_aq_memset(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(
            aq_memset_nbi(api_aq_team, perf->peer, perf->peer_addr->data, (int)i & 0xff, size, 0));
    CHECK(aq_nbi_wait(AQ_NBI_PUT));
}

void api_aq_put_private(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_put_nbi(pair, perf->peer, perf->peer_target, perf->source, size, 0));
    CHECK(aq_nbi_wait(AQ_NBI_PUT));
}

void api_aq_get_private(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_get_nbi(pair, perf->source, perf->peer, perf->peer_target, size, 0));
    CHECK(aq_nbi_wait(AQ_NBI_GET));
}

/* One at a time, each with its result. */
static void fetch(struct perf *perf, uint64_t n, aq_atomic_domain *domain, aq_atomic_op op,
                  const void *operand1, const void *operand2)
{
    uint64_t old;
    void *word = &perf->peer_addr->word.seq;
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_atomic(domain, perf->peer, word, op, operand1, operand2, &old, 0));
}

void api_aq_fetch_add(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    fetch(perf, n, integers, AQ_ADD, &(uint64_t){1}, NULL);
}

void api_aq_cas(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    fetch(perf, n, integers, AQ_CAS, &(uint64_t){0}, &(uint64_t){0});
}

void api_aq_add_double(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    fetch(perf, n, doubles, AQ_ADD, &(double){1}, NULL);
}

void api_aq_add(struct perf *perf, size_t size, uint64_t n)
{
    const uint64_t one = 1;
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_atomic_nbi(integers, perf->peer, &perf->peer_addr->word.seq, AQ_ADD, &one, NULL,
                            NULL, 0));
    CHECK(aq_nbi_wait(AQ_NBI_ATOMIC));
}
