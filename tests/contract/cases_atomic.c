/* Remote atomics: every operation on every type against a model, and sums under contention. */
#include "../model/atomics.h"
#include "harness.h"

#include <string.h>

static union model_value atomic_some(struct ct_ep *ep, unsigned type)
{
    uint64_t random = ct_random(ep);
    return model_some(type, random, ct_random(ep));
}

/* Compare the bytes of the old value, and check that nothing beside them was written. */
static void atomic_check_result(const unsigned char *got, unsigned type, bool fetch,
                                union model_value old)
{
    size_t size = aqi_atomic_size((uint8_t)type);
    for (size_t i = fetch ? size : 0; i < 16; i++)
        CT_EQUAL(got[i], 0xa5);
    if (fetch) CT_CHECK(memcmp(got, &old, size) == 0);
}

static void atomic_model_run(struct ct_ep *ep)
{
    ct_mem_open(ep, 4096 * ep->size);
    uint32_t target = ct_next(ep);
    for (unsigned type = 0; type < MODEL_TYPES; type++) {
        for (unsigned op = 0; op < MODEL_OPS; op++) {
            if ((model_ops(type) & AQ_OP_BIT(op)) == 0) continue;
            for (int i = 0; i < 6; i++) { /* every i % 2 with every i % 3 */
                size_t size = aqi_atomic_size((uint8_t)type);
                size_t offset = 4096 * ep->self + ct_random(ep) % (4000 / size) * size;
                union model_value old = atomic_some(ep, type), a = atomic_some(ep, type),
                                  b = atomic_some(ep, type), now = {.u64 = 0};
                if (op == AQ_OP_CAS && i % 2 == 0) a = old;
                bool fetch = model_must_fetch(op) || (model_may_fetch(op) && i % 3 == 0);
                unsigned char result[16];
                memset(result, 0xa5, sizeof(result));
                struct aqi_comp comp;
                ct_comp_init(ep, &comp);
                ct_put(ep, target, offset, &old, size, &comp);
                ct_comp_wait(ep, &comp);
                struct aqi_atomic req = {.addr = ep->world->addr[target] + offset,
                                         .operand1 = a.u64,
                                         .operand2 = b.u64,
                                         .op = (uint8_t)op,
                                         .type = (uint8_t)type,
                                         .fetch = fetch};
                ct_atomic(ep, target, &req, fetch ? result : NULL, &comp);
                memset(&req, 0x5a, sizeof(req)); /* the request has been copied */
                ct_comp_wait(ep, &comp);
                atomic_check_result(result, type, fetch, old);
                ct_get(ep, target, offset, &now, size, &comp);
                ct_comp_wait(ep, &comp);
                union model_value want = model_after(type, op, old, a, b);
                if (memcmp(&now, &want, size) != 0)
                    ct_fail(__FILE__, __LINE__,
                            "type %u op %u: old %llx a %llx b %llx gave %llx, not %llx", type, op,
                            (unsigned long long)old.u64, (unsigned long long)a.u64,
                            (unsigned long long)b.u64, (unsigned long long)now.u64,
                            (unsigned long long)want.u64);
            }
        }
    }
    ct_mem_close(ep);
}

/* Compare-and-swap compares bits: the two zeros are different. */
static void atomic_cas_bits(struct ct_ep *ep)
{
    ct_mem_open(ep, 4096 * ep->size);
    uint32_t target = ct_next(ep);
    double minus = -0.0, plus = 0.0, one = 1.0, now, old;
    struct aqi_comp comp;
    ct_comp_init(ep, &comp);
    ct_put(ep, target, 4096 * ep->self, &minus, sizeof(minus), &comp);
    ct_comp_wait(ep, &comp);
    struct aqi_atomic req = {.addr = ep->world->addr[target] + 4096 * ep->self,
                             .op = AQ_OP_CAS,
                             .type = AQ_TYPE_F64,
                             .fetch = 1};
    memcpy(&req.operand1, &plus, sizeof(plus));
    memcpy(&req.operand2, &one, sizeof(one));
    ct_atomic(ep, target, &req, &old, &comp);
    ct_comp_wait(ep, &comp);
    CT_CHECK(memcmp(&old, &minus, sizeof(old)) == 0);
    ct_get(ep, target, 4096 * ep->self, &now, sizeof(now), &comp);
    ct_comp_wait(ep, &comp);
    CT_CHECK(memcmp(&now, &minus, sizeof(now)) == 0);
    ct_mem_close(ep);
}

/*
 * All ranks use one word of rank 0 at once, with several operations under way; no two fetched
 * values are equal.
 */
static void atomic_contend(struct ct_ep *ep)
{
    enum { EACH = 3000, WINDOW = 8 };
    ct_mem_open(ep, 4096);
    bool acts = ct_reaches(ep, 0);
    uint64_t old[WINDOW], last = 0, adds = 0;
    struct aqi_comp comp[WINDOW];
    for (size_t i = 0; i < WINDOW; i++)
        ct_comp_init(ep, &comp[i]);
    for (uint32_t i = 0; acts && i < EACH; i++) {
        struct aqi_atomic req = {.addr = ep->world->addr[0] + 64,
                                 .operand1 = 1,
                                 .op = AQ_OP_ADD,
                                 .type = AQ_TYPE_U64,
                                 .fetch = 1};
        struct aqi_comp *slot = &comp[i % WINDOW];
        ct_comp_wait(ep, slot);
        if (i >= WINDOW) adds += old[i % WINDOW] + 1;
        ct_atomic(ep, 0, &req, &old[i % WINDOW], slot);
    }
    for (size_t i = 0; acts && i < WINDOW; i++) {
        ct_comp_wait(ep, &comp[i]);
        adds += old[i] + 1;
    }
    /* Each of the numbers 1..n was fetched exactly once, so their sum is known. */
    ep->world->len[ep->self] = adds;
    ct_barrier(ep);
    if (ep->self == 0) {
        uint64_t total = EACH * (uint64_t)(ep->size == 1 ? 1 : ep->size - 1), sum = 0;
        for (uint32_t rank = 0; rank < ep->size; rank++)
            sum += ep->world->len[rank];
        memcpy(&last, ep->mem.addr + 64, sizeof(last));
        CT_EQUAL(last, total);
        CT_EQUAL(sum, total * (total + 1) / 2);
    }
    ct_mem_close(ep);
}

/* A lock by compare-and-swap protects a plain counter that is read and written by get and put. */
static void atomic_cas_lock(struct ct_ep *ep)
{
    enum { EACH = 100 };
    ct_mem_open(ep, 4096);
    for (int i = 0; ct_reaches(ep, 0) && i < EACH; i++) {
        struct aqi_comp comp;
        uint32_t old = 1, none = 0;
        uint64_t counter;
        ct_comp_init(ep, &comp);
        struct aqi_atomic lock = {.addr = ep->world->addr[0],
                                  .operand1 = 0,
                                  .operand2 = ep->self + 1,
                                  .op = AQ_OP_CAS,
                                  .type = AQ_TYPE_U32,
                                  .fetch = 1};
        while (old != 0) {
            ct_atomic(ep, 0, &lock, &old, &comp);
            ct_comp_wait(ep, &comp);
        }
        ct_get(ep, 0, 128, &counter, sizeof(counter), &comp);
        ct_comp_wait(ep, &comp);
        counter++;
        ct_put(ep, 0, 128, &counter, sizeof(counter), &comp);
        ct_comp_wait(ep, &comp);
        struct aqi_atomic unlock = lock;
        unlock.op = AQ_OP_SWAP;
        unlock.operand1 = 0;
        ct_atomic(ep, 0, &unlock, &none, &comp);
        ct_comp_wait(ep, &comp);
        CT_EQUAL(none, ep->self + 1);
    }
    ct_barrier(ep);
    if (ep->self == 0) {
        uint64_t counter;
        memcpy(&counter, ep->mem.addr + 128, sizeof(counter));
        CT_EQUAL(counter, EACH * (ep->size == 1 ? 1 : ep->size - 1));
    }
    ct_mem_close(ep);
}

const struct ct_case ct_cases_atomic[] = {
    {"atomics: all operations and types against a model", atomic_model_run, 0},
    {"atomics: compare-and-swap compares bits", atomic_cas_bits, 0},
    {"atomics: contended sum", atomic_contend, 0},
    {"atomics: a lock by compare-and-swap", atomic_cas_lock, 0},
    {NULL, NULL, 0},
};
