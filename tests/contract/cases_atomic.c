/* Remote atomics: every operation on every type against a model, and sums under contention. */
#include "harness.h"

#include <aqueduct/atomic.h>
#include <string.h>

/* A value of any of the types. */
union atomic_value {
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f32;
    double f64;
};

/* The model, once per kind of type; integers wrap, so they are computed unsigned. */
#define ATOMIC_MODEL_INTEGER(name, type, utype)                                                    \
    static type name(unsigned op, type old, type a, type b)                                        \
    {                                                                                              \
        switch (op) {                                                                              \
        case AQ_SET:                                                                               \
        case AQ_SWAP:                                                                              \
            return a;                                                                              \
        case AQ_CAS:                                                                               \
            return old == a ? b : old;                                                             \
        case AQ_ADD:                                                                               \
            return (type)((utype)old + (utype)a);                                                  \
        case AQ_SUB:                                                                               \
            return (type)((utype)old - (utype)a);                                                  \
        case AQ_MULT:                                                                              \
            return (type)((utype)old * (utype)a);                                                  \
        case AQ_MIN:                                                                               \
            return old < a ? old : a;                                                              \
        case AQ_MAX:                                                                               \
            return old > a ? old : a;                                                              \
        case AQ_INC:                                                                               \
            return (type)((utype)old + 1u);                                                        \
        case AQ_DEC:                                                                               \
            return (type)((utype)old - 1u);                                                        \
        case AQ_AND:                                                                               \
            return (type)((utype)old & (utype)a);                                                  \
        case AQ_OR:                                                                                \
            return (type)((utype)old | (utype)a);                                                  \
        case AQ_XOR:                                                                               \
            return (type)((utype)old ^ (utype)a);                                                  \
        default:                                                                                   \
            return old;                                                                            \
        }                                                                                          \
    }
#define ATOMIC_MODEL_FLOATING(name, type)                                                          \
    static type name(unsigned op, type old, type a, type b)                                        \
    {                                                                                              \
        switch (op) {                                                                              \
        case AQ_SET:                                                                               \
        case AQ_SWAP:                                                                              \
            return a;                                                                              \
        case AQ_CAS:                                                                               \
            return memcmp(&old, &a, sizeof(old)) == 0 ? b : old;                                   \
        case AQ_ADD:                                                                               \
            return old + a;                                                                        \
        case AQ_SUB:                                                                               \
            return old - a;                                                                        \
        case AQ_MULT:                                                                              \
            return old * a;                                                                        \
        case AQ_MIN:                                                                               \
            return old < a ? old : a;                                                              \
        case AQ_MAX:                                                                               \
            return old > a ? old : a;                                                              \
        case AQ_INC:                                                                               \
            return old + 1;                                                                        \
        case AQ_DEC:                                                                               \
            return old - 1;                                                                        \
        default:                                                                                   \
            return old;                                                                            \
        }                                                                                          \
    }
ATOMIC_MODEL_INTEGER(atomic_model_i32, int32_t, uint32_t)
ATOMIC_MODEL_INTEGER(atomic_model_u32, uint32_t, uint32_t)
ATOMIC_MODEL_INTEGER(atomic_model_i64, int64_t, uint64_t)
ATOMIC_MODEL_INTEGER(atomic_model_u64, uint64_t, uint64_t)
ATOMIC_MODEL_FLOATING(atomic_model_f32, float)
ATOMIC_MODEL_FLOATING(atomic_model_f64, double)

static union atomic_value atomic_model(unsigned type, unsigned op, union atomic_value old,
                                       union atomic_value a, union atomic_value b)
{
    union atomic_value result = {.u64 = 0};
    switch (type) {
    case AQ_I32:
        result.i32 = atomic_model_i32(op, old.i32, a.i32, b.i32);
        break;
    case AQ_U32:
        result.u32 = atomic_model_u32(op, old.u32, a.u32, b.u32);
        break;
    case AQ_I64:
        result.i64 = atomic_model_i64(op, old.i64, a.i64, b.i64);
        break;
    case AQ_U64:
        result.u64 = atomic_model_u64(op, old.u64, a.u64, b.u64);
        break;
    case AQ_F32:
        result.f32 = atomic_model_f32(op, old.f32, a.f32, b.f32);
        break;
    default:
        result.f64 = atomic_model_f64(op, old.f64, a.f64, b.f64);
        break;
    }
    return result;
}

static bool atomic_is_bitwise(unsigned op)
{
    return op == AQ_AND || op == AQ_OR || op == AQ_XOR;
}

static bool atomic_is_float(unsigned type)
{
    return type == AQ_F32 || type == AQ_F64;
}

/* A value worth trying: the ends of the range, signs, zeros; floats without NaN. */
static union atomic_value atomic_some(struct ct_ep *ep, unsigned type)
{
    static const double reals[] = {0.0, 1.0, -1.0, 0.5, 1e30, -1e30, 3.25, 1e-30};
    static const uint64_t wholes[] = {
        0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN, 0x80000000u, 0x7fffffffu, 0xffffffffu};
    uint64_t random = ct_random(ep);
    union atomic_value value = {.u64 = 0};
    if (type == AQ_F64) {
        value.f64 = reals[random % AQI_COUNT_OF(reals)];
    } else if (type == AQ_F32) {
        value.f32 = (float)reals[random % AQI_COUNT_OF(reals)];
    } else {
        value.u64 = random % 2 ? wholes[random / 2 % AQI_COUNT_OF(wholes)] : ct_random(ep);
        if (aqi_atomic_size((uint8_t)type) == 4) value.u64 &= UINT32_MAX;
    }
    return value;
}

/* The old value's bytes are compared, and that nothing beside them was written. */
static void atomic_check_result(const unsigned char *got, unsigned type, bool fetch,
                                union atomic_value old)
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
    for (unsigned type = AQ_I32; type <= AQ_F64; type++) {
        for (unsigned op = AQ_SET; op <= AQ_XOR; op++) {
            if (atomic_is_float(type) && atomic_is_bitwise(op)) continue;
            for (int i = 0; i < 24; i++) {
                size_t size = aqi_atomic_size((uint8_t)type);
                size_t offset = 4096 * ep->self + ct_random(ep) % (4000 / size) * size;
                union atomic_value old = atomic_some(ep, type), a = atomic_some(ep, type),
                                   b = atomic_some(ep, type), now = {.u64 = 0};
                if (op == AQ_CAS && i % 2 == 0) a = old;
                bool fetch = op == AQ_GET || op == AQ_SWAP || (op != AQ_SET && i % 3 == 0);
                unsigned char result[16];
                memset(result, 0xa5, sizeof(result));
                struct aqi_comp comp;
                ct_comp_init(ep, &comp);
                ct_put(ep, target, offset, &old, size, &comp);
                ct_comp_wait(ep, &comp);
                struct aqi_atomic req = {.addr = ep->mem.remote[target].addr + offset,
                                         .operand1 = a.u64,
                                         .operand2 = b.u64,
                                         .op = (uint8_t)op,
                                         .type = (uint8_t)type,
                                         .fetch = fetch};
                ct_atomic(ep, target, &req, fetch ? result : NULL, &comp);
                memset(&req, 0x5a, sizeof(req)); /* it was copied */
                ct_comp_wait(ep, &comp);
                atomic_check_result(result, type, fetch, old);
                ct_get(ep, target, offset, &now, size, &comp);
                ct_comp_wait(ep, &comp);
                union atomic_value want = atomic_model(type, op, old, a, b);
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
    struct aqi_atomic req = {.addr = ep->mem.remote[target].addr + 4096 * ep->self,
                             .op = AQ_CAS,
                             .type = AQ_F64,
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

/* All on one word of rank 0 at once, several under way; the fetched values are all different. */
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
        struct aqi_atomic req = {.addr = ep->mem.remote[0].addr + 64,
                                 .operand1 = 1,
                                 .op = AQ_ADD,
                                 .type = AQ_U64,
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
    /* The numbers 1..n were each handed out once: so their sum is known. */
    ep->world->addr[ep->self] = adds;
    ct_barrier(ep);
    if (ep->self == 0) {
        uint64_t total = EACH * (uint64_t)(ep->size == 1 ? 1 : ep->size - 1), sum = 0;
        for (uint32_t rank = 0; rank < ep->size; rank++)
            sum += ep->world->addr[rank];
        memcpy(&last, ep->mem.addr + 64, sizeof(last));
        CT_EQUAL(last, total);
        CT_EQUAL(sum, total * (total + 1) / 2);
    }
    ct_mem_close(ep);
}

/* A lock by compare-and-swap guards a plain counter that put and get move. */
static void atomic_cas_lock(struct ct_ep *ep)
{
    enum { EACH = 100 };
    ct_mem_open(ep, 4096);
    for (int i = 0; ct_reaches(ep, 0) && i < EACH; i++) {
        struct aqi_comp comp;
        uint32_t old = 1, none = 0;
        uint64_t counter;
        ct_comp_init(ep, &comp);
        struct aqi_atomic lock = {.addr = ep->mem.remote[0].addr,
                                  .operand1 = 0,
                                  .operand2 = ep->self + 1,
                                  .op = AQ_CAS,
                                  .type = AQ_U32,
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
        unlock.op = AQ_SWAP;
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
