/* The wire format of active messages, and remote atomics performed by the processor. */
#include "transport/am.h"

#include <aqueduct/atomic.h>
#include <string.h>

/* The wire is little-endian, and so are all machines we build on; a swap would go here. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "wire structs are read in place");
static_assert(offsetof(struct aqi_am_wire, addr) == 16, "wire layout");

aq_status aqi_am_decode(const void *frame, size_t len, size_t max_payload, struct aqi_am *am,
                        uint32_t *source)
{
    struct aqi_am_wire wire;
    if (len < sizeof(wire)) return AQ_EPROTO;
    /* Check a copy: in shared memory the peer could change the original in between. */
    memcpy(&wire, frame, sizeof(wire));
    if (wire.kind == AQI_AM_NONE || wire.kind > AQI_AM_LONG_LATE || wire.kind == AQI_AM_LONG)
        return AQ_EPROTO;
    bool credits = (wire.flags & AQI_AM_CREDITS) != 0;
    if (wire.nargs > AQI_AM_MAX_ARGS + credits || wire.nargs < credits) return AQ_EPROTO;
    if (len < sizeof(wire) + 4u * wire.nargs) return AQ_EPROTO;
    if (wire.kind == AQI_AM_SHORT && wire.nbytes != 0) return AQ_EPROTO;
    if (aqi_am_has_payload(wire.kind) && wire.nbytes > max_payload) return AQ_EPROTO;
    if (wire.kind == AQI_AM_LONG_LATE && (wire.flags & AQI_AM_IS_REPLY)) return AQ_EPROTO;
    am->kind = wire.kind;
    am->handler = wire.handler;
    am->nargs = wire.nargs;
    am->flags = wire.flags;
    am->nbytes = wire.nbytes;
    am->addr = wire.addr;
    am->args = (const int32_t *)(const void *)((const char *)frame + sizeof(wire));
    am->payload = NULL;
    *source = wire.source;
    return AQ_OK;
}

void aqi_am_encode(void *frame, const struct aqi_am *am, uint32_t source)
{
    struct aqi_am_wire *wire = frame;
    wire->kind = am->kind;
    wire->handler = am->handler;
    wire->nargs = am->nargs;
    wire->flags = am->flags;
    wire->source = source;
    wire->nbytes = am->nbytes;
    wire->addr = am->addr;
    int32_t *args = (int32_t *)(void *)(wire + 1);
    for (unsigned i = 0; i < am->nargs; i++)
        args[i] = am->args[i];
}

/* The value that an operation leaves behind, for one C type. */
#define COMBINE(type, name, bits)                                                                  \
    static type combine_##name(uint8_t op, type old, type a)                                       \
    {                                                                                              \
        switch (op) {                                                                              \
        case AQ_ADD:                                                                               \
            return (type)(old + a);                                                                \
        case AQ_SUB:                                                                               \
            return (type)(old - a);                                                                \
        case AQ_MULT:                                                                              \
            return (type)(old * a);                                                                \
        case AQ_MIN:                                                                               \
            return a < old ? a : old;                                                              \
        case AQ_MAX:                                                                               \
            return a > old ? a : old;                                                              \
        case AQ_INC:                                                                               \
            return (type)(old + 1);                                                                \
        case AQ_DEC:                                                                               \
            return (type)(old - 1);                                                                \
        default:                                                                                   \
            return bits(op, old, a);                                                               \
        }                                                                                          \
    }

static uint64_t am_bits_integer(uint8_t op, uint64_t old, uint64_t a)
{
    return op == AQ_AND ? (old & a) : op == AQ_OR ? (old | a) : (old ^ a);
}
#define BITS_U32(op, old, a)  (uint32_t) am_bits_integer(op, old, a)
#define BITS_U64(op, old, a)  am_bits_integer(op, old, a)
#define BITS_NONE(op, old, a) ((void)(a), (old))

COMBINE(uint32_t, u32, BITS_U32)
COMBINE(uint64_t, u64, BITS_U64)
COMBINE(float, f32, BITS_NONE)
COMBINE(double, f64, BITS_NONE)

/* What differs from the unsigned type of the same width: the order, for minimum and maximum. */
static uint32_t am_combine_i32(uint8_t op, uint32_t old, uint32_t a)
{
    if (op == AQ_MIN) return (int32_t)a < (int32_t)old ? a : old;
    if (op == AQ_MAX) return (int32_t)a > (int32_t)old ? a : old;
    return combine_u32(op, old, a);
}

static uint64_t am_combine_i64(uint8_t op, uint64_t old, uint64_t a)
{
    if (op == AQ_MIN) return (int64_t)a < (int64_t)old ? a : old;
    if (op == AQ_MAX) return (int64_t)a > (int64_t)old ? a : old;
    return combine_u64(op, old, a);
}

static uint32_t am_combine32(uint8_t type, uint8_t op, uint32_t old, uint32_t a)
{
    if (type == AQ_I32) return am_combine_i32(op, old, a);
    if (type == AQ_U32) return combine_u32(op, old, a);
    float fold, fa;
    memcpy(&fold, &old, 4);
    memcpy(&fa, &a, 4);
    fold = combine_f32(op, fold, fa);
    memcpy(&old, &fold, 4);
    return old;
}

static uint64_t am_combine64(uint8_t type, uint8_t op, uint64_t old, uint64_t a)
{
    if (type == AQ_I64) return am_combine_i64(op, old, a);
    if (type == AQ_U64) return combine_u64(op, old, a);
    double dold, da;
    memcpy(&dold, &old, 8);
    memcpy(&da, &a, 8);
    dold = combine_f64(op, dold, da);
    memcpy(&old, &dold, 8);
    return old;
}

/* One body for both widths: the common operations directly, the rest by compare and swap. */
#define APPLY(width)                                                                               \
    static inline uint64_t apply##width(uint8_t op, uint8_t type, _Atomic uint##width##_t *at,     \
                                        uint##width##_t a, uint##width##_t b)                      \
    {                                                                                              \
        bool integer = type != AQ_F##width;                                                        \
        uint##width##_t old = a;                                                                   \
        switch (op) {                                                                              \
        case AQ_SET:                                                                               \
            atomic_store(at, a);                                                                   \
            return 0;                                                                              \
        case AQ_GET:                                                                               \
            return atomic_load(at);                                                                \
        case AQ_SWAP:                                                                              \
            return atomic_exchange(at, a);                                                         \
        case AQ_CAS:                                                                               \
            atomic_compare_exchange_strong(at, &old, b);                                           \
            return old;                                                                            \
        case AQ_ADD:                                                                               \
        case AQ_INC:                                                                               \
            if (integer) return atomic_fetch_add(at, op == AQ_INC ? 1 : a);                        \
            break;                                                                                 \
        case AQ_SUB:                                                                               \
        case AQ_DEC:                                                                               \
            if (integer) return atomic_fetch_sub(at, op == AQ_DEC ? 1 : a);                        \
            break;                                                                                 \
        case AQ_AND:                                                                               \
            return atomic_fetch_and(at, a);                                                        \
        case AQ_OR:                                                                                \
            return atomic_fetch_or(at, a);                                                         \
        case AQ_XOR:                                                                               \
            return atomic_fetch_xor(at, a);                                                        \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
        old = atomic_load_explicit(at, memory_order_relaxed);                                      \
        while (!atomic_compare_exchange_weak(at, &old, am_combine##width(type, op, old, a)))       \
            ;                                                                                      \
        return old;                                                                                \
    }
APPLY(32)
APPLY(64)

uint64_t aqi_atomic_do(uint8_t op, uint8_t type, void *at, uint64_t a, uint64_t b)
{
    return aqi_atomic_size(type) == 4 ? apply32(op, type, at, (uint32_t)a, (uint32_t)b)
                                      : apply64(op, type, at, a, b);
}

uint64_t aqi_atomic_apply(const struct aqi_atomic *req, void *at)
{
    return aqi_atomic_do(req->op, req->type, at, req->operand1, req->operand2);
}

bool aqi_atomic_valid(uint8_t op, uint8_t type)
{
    if (op > AQ_XOR || type > AQ_F64) return false;
    bool floating = type == AQ_F32 || type == AQ_F64;
    return !(floating && (op == AQ_AND || op == AQ_OR || op == AQ_XOR));
}
