/* The patterns of remote atomics. */
#include "api_aq.h"

static aq_atomic_domain *integers, *doubles;

void api_aq_atomic_open(void)
{
    unsigned ops = AQ_OP_BIT(AQ_ADD) | AQ_OP_BIT(AQ_CAS);
    api_aq_check(aq_atomic_domain_create(api_aq_world(), AQ_U64, ops, &integers),
                 "aq_atomic_domain_create");
    api_aq_check(aq_atomic_domain_create(api_aq_world(), AQ_F64, AQ_OP_BIT(AQ_ADD), &doubles),
                 "aq_atomic_domain_create");
}

void api_aq_atomic_close(void)
{
    aq_atomic_domain_destroy(integers);
    aq_atomic_domain_destroy(doubles);
}

/* One at a time, each with its result. */
static double one_by_one(struct perf *perf, uint64_t n, aq_atomic_domain *domain, aq_atomic_op op,
                         const void *operand1, const void *operand2)
{
    uint64_t old;
    void *word = &perf->peer_addr->word.seq;
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_atomic(domain, perf->peer, word, op, operand1, operand2, &old, 0),
                     "aq_atomic");
    return measure_now_ns() - begun;
}

double api_aq_atomic_lat(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    return one_by_one(perf, n, integers, AQ_ADD, &(uint64_t){1}, NULL);
}

double api_aq_atomic_cas(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    return one_by_one(perf, n, integers, AQ_CAS, &(uint64_t){0}, &(uint64_t){0});
}

double api_aq_atomic_double(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    return one_by_one(perf, n, doubles, AQ_ADD, &(double){1}, NULL);
}

static void add(struct perf *perf, size_t size, uint64_t n)
{
    const uint64_t one = 1;
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_atomic_nbi(integers, perf->peer, &perf->peer_addr->word.seq, AQ_ADD, &one,
                                   NULL, NULL, 0),
                     "aq_atomic_nbi");
    api_aq_check(aq_nbi_wait(AQ_NBI_ATOMIC), "aq_nbi_wait");
}

double api_aq_atomic_rate(struct perf *perf, size_t size, uint64_t n)
{
    return api_aq_spread(perf, size, n, add);
}
