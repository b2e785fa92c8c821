/* fi: atomic operations: the calls, and the arithmetic at the target. */
#include "front/fi/wire.h"

#include <complex.h>
#include <stdlib.h>
#include <string.h>

/* --- arithmetic ------------------------------------------------------------------------------ */

/* Combine one element: `a` is the target, `b` the operand, `c` the comparand. FI_ATOMIC_READ is
 * missing, as it leaves the target unchanged. Integers wrap: the product of two 16-bit values may
 * overflow an int, but not an unsigned int. */
#define ATOMIC_CASE(op, result)                                                                    \
    case op:                                                                                       \
        a = result;                                                                                \
        break

#define ATOMIC_BASIC                                                                               \
    ATOMIC_CASE(FI_SUM, a + b);                                                                    \
    ATOMIC_CASE(FI_PROD, 1U * a * b);                                                              \
    ATOMIC_CASE(FI_LOR, a != 0 || b != 0);                                                         \
    ATOMIC_CASE(FI_LAND, a != 0 && b != 0);                                                        \
    ATOMIC_CASE(FI_LXOR, (a != 0) != (b != 0));                                                    \
    ATOMIC_CASE(FI_ATOMIC_WRITE, b);                                                               \
    ATOMIC_CASE(FI_CSWAP, c == a ? b : a);                                                         \
    ATOMIC_CASE(FI_CSWAP_NE, c != a ? b : a);

#define ATOMIC_ORDERED                                                                             \
    ATOMIC_CASE(FI_MIN, b < a ? b : a);                                                            \
    ATOMIC_CASE(FI_MAX, b > a ? b : a);                                                            \
    ATOMIC_CASE(FI_CSWAP_LE, c <= a ? b : a);                                                      \
    ATOMIC_CASE(FI_CSWAP_LT, c < a ? b : a);                                                       \
    ATOMIC_CASE(FI_CSWAP_GE, c >= a ? b : a);                                                      \
    ATOMIC_CASE(FI_CSWAP_GT, c > a ? b : a);

#define ATOMIC_BITS                                                                                \
    ATOMIC_CASE(FI_BOR, a | b);                                                                    \
    ATOMIC_CASE(FI_BAND, (a & b));                                                                 \
    ATOMIC_CASE(FI_BXOR, a ^ b);                                                                   \
    ATOMIC_CASE(FI_MSWAP, (b & c) | (a & ~c));

/* Elements may be unaligned. */
#define ATOMIC_TYPE(name, type, cases)                                                             \
    static void atomic_##name(unsigned op, unsigned char *at, const unsigned char *operand,        \
                              const unsigned char *compare, unsigned char *old)                    \
    {                                                                                              \
        type a, b = 0, c = 0;                                                                      \
        memcpy(&a, at, sizeof(a));                                                                 \
        memcpy(old, &a, sizeof(a));                                                                \
        if (op != FI_ATOMIC_READ) memcpy(&b, operand, sizeof(b));                                  \
        if (compare != NULL) memcpy(&c, compare, sizeof(c));                                       \
        switch (op) {                                                                              \
            cases default : return;                                                                \
        }                                                                                          \
        memcpy(at, &a, sizeof(a));                                                                 \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wfloat-equal"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#define ATOMIC_INTEGER ATOMIC_BASIC ATOMIC_ORDERED ATOMIC_BITS
#define ATOMIC_REAL    ATOMIC_BASIC ATOMIC_ORDERED
ATOMIC_TYPE(int8, int8_t, ATOMIC_INTEGER)
ATOMIC_TYPE(uint8, uint8_t, ATOMIC_INTEGER)
ATOMIC_TYPE(int16, int16_t, ATOMIC_INTEGER)
ATOMIC_TYPE(uint16, uint16_t, ATOMIC_INTEGER)
ATOMIC_TYPE(int32, uint32_t, ATOMIC_BASIC ATOMIC_BITS)
ATOMIC_TYPE(int32_ordered, int32_t, ATOMIC_ORDERED)
ATOMIC_TYPE(uint32, uint32_t, ATOMIC_INTEGER)
ATOMIC_TYPE(int64, uint64_t, ATOMIC_BASIC ATOMIC_BITS)
ATOMIC_TYPE(int64_ordered, int64_t, ATOMIC_ORDERED)
ATOMIC_TYPE(uint64, uint64_t, ATOMIC_INTEGER)
ATOMIC_TYPE(float, float, ATOMIC_REAL)
ATOMIC_TYPE(double, double, ATOMIC_REAL)
ATOMIC_TYPE(long_double, long double, ATOMIC_REAL)
ATOMIC_TYPE(float_complex, float complex, ATOMIC_BASIC)
ATOMIC_TYPE(double_complex, double complex, ATOMIC_BASIC)
ATOMIC_TYPE(long_double_complex, long double complex, ATOMIC_BASIC)
#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 atomic_u128;
__extension__ typedef __int128 atomic_s128;
ATOMIC_TYPE(int128, atomic_u128, ATOMIC_BASIC ATOMIC_BITS)
ATOMIC_TYPE(int128_ordered, atomic_s128, ATOMIC_ORDERED)
ATOMIC_TYPE(uint128, atomic_u128, ATOMIC_INTEGER)
#endif
#pragma GCC diagnostic pop

typedef void atomic_fn(unsigned op, unsigned char *at, const unsigned char *operand,
                       const unsigned char *compare, unsigned char *old);

/* Signed types wrap: sums and products use the unsigned type. `ordered` has the operations that
 * depend on the sign; NULL: `fn` has all of them. */
static const struct {
    size_t size;
    atomic_fn *fn, *ordered;
    enum { ATOMIC_IS_INTEGER, ATOMIC_IS_REAL, ATOMIC_IS_COMPLEX } kind;
} atomic_types[] = {
    [FI_INT8] = {1, atomic_int8, NULL, ATOMIC_IS_INTEGER},
    [FI_UINT8] = {1, atomic_uint8, NULL, ATOMIC_IS_INTEGER},
    [FI_INT16] = {2, atomic_int16, NULL, ATOMIC_IS_INTEGER},
    [FI_UINT16] = {2, atomic_uint16, NULL, ATOMIC_IS_INTEGER},
    [FI_INT32] = {4, atomic_int32, atomic_int32_ordered, ATOMIC_IS_INTEGER},
    [FI_UINT32] = {4, atomic_uint32, NULL, ATOMIC_IS_INTEGER},
    [FI_INT64] = {8, atomic_int64, atomic_int64_ordered, ATOMIC_IS_INTEGER},
    [FI_UINT64] = {8, atomic_uint64, NULL, ATOMIC_IS_INTEGER},
    [FI_FLOAT] = {sizeof(float), atomic_float, NULL, ATOMIC_IS_REAL},
    [FI_DOUBLE] = {sizeof(double), atomic_double, NULL, ATOMIC_IS_REAL},
    [FI_FLOAT_COMPLEX] = {2 * sizeof(float), atomic_float_complex, NULL, ATOMIC_IS_COMPLEX},
    [FI_DOUBLE_COMPLEX] = {2 * sizeof(double), atomic_double_complex, NULL, ATOMIC_IS_COMPLEX},
    [FI_LONG_DOUBLE] = {sizeof(long double), atomic_long_double, NULL, ATOMIC_IS_REAL},
    [FI_LONG_DOUBLE_COMPLEX] = {2 * sizeof(long double), atomic_long_double_complex, NULL,
                                ATOMIC_IS_COMPLEX},
#ifdef __SIZEOF_INT128__
    [FI_INT128] = {16, atomic_int128, atomic_int128_ordered, ATOMIC_IS_INTEGER},
    [FI_UINT128] = {16, atomic_uint128, NULL, ATOMIC_IS_INTEGER},
#endif
};

size_t afi_atomic_size(unsigned datatype)
{
    return datatype < AQI_COUNT_OF(atomic_types) ? atomic_types[datatype].size : 0;
}

static bool atomic_is_ordered(unsigned op)
{
    return op == FI_MIN || op == FI_MAX || (op >= FI_CSWAP_LE && op <= FI_CSWAP_GT);
}

static bool atomic_is_of_bits(unsigned op)
{
    return op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP;
}

bool afi_atomic_valid(unsigned datatype, unsigned op)
{
    if (afi_atomic_size(datatype) == 0 || op > FI_MSWAP) return false;
    if (atomic_is_ordered(op)) return atomic_types[datatype].kind != ATOMIC_IS_COMPLEX;
    return !atomic_is_of_bits(op) || atomic_types[datatype].kind == ATOMIC_IS_INTEGER;
}

void afi_atomic_apply(unsigned datatype, unsigned op, void *at, const void *operand,
                      const void *compare, void *old, size_t count)
{
    size_t size = afi_atomic_size(datatype);
    atomic_fn *fn = atomic_types[datatype].fn;
    if (atomic_is_ordered(op) && atomic_types[datatype].ordered != NULL)
        fn = atomic_types[datatype].ordered;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *with = compare;
        fn(op, (unsigned char *)at + i * size, (const unsigned char *)operand + i * size,
           with != NULL ? with + i * size : NULL, (unsigned char *)old + i * size);
    }
}

int afi_atomic_query(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags)
{
    const uint64_t both = FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC;
    bool compares = op >= FI_CSWAP;
    if ((flags & both) == both) return -FI_EINVAL;
    if (!afi_atomic_valid(datatype, op)) return -FI_EOPNOTSUPP;
    if ((flags & FI_TAGGED) != 0) return -FI_EOPNOTSUPP;
    if ((flags & FI_COMPARE_ATOMIC) != 0 ? !compares : compares) return -FI_EOPNOTSUPP;
    if ((flags & (FI_COMPARE_ATOMIC | FI_FETCH_ATOMIC)) == 0 && op == FI_ATOMIC_READ)
        return -FI_EOPNOTSUPP;
    attr->size = afi_atomic_size(datatype);
    attr->count = AFI_ATOMIC / attr->size;
    return 0;
}

/* --- the calls ------------------------------------------------------------------------------- */

struct atomic_call {
    const struct fi_ioc *operands, *compares, *results;
    size_t operand_count, compare_count, result_count;
    const struct fi_rma_ioc *there;
    size_t there_count;
    enum fi_datatype datatype;
    enum fi_op op;
    fi_addr_t addr;
    uint64_t flags;
    bool fetches, silent;
    void *context;
};

static size_t atomic_count(const struct fi_ioc *ioc, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += ioc[i].count;
    return n;
}

static size_t atomic_pack(unsigned char *to, const struct fi_ioc *ioc, size_t count, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(to + at, ioc[i].addr, ioc[i].count * size);
        at += ioc[i].count * size;
    }
    return at;
}

static int atomic_check(const struct atomic_call *call, size_t elements)
{
    size_t size = afi_atomic_size(call->datatype);
    bool compares = call->op >= FI_CSWAP;
    if (!afi_atomic_valid(call->datatype, call->op)) return -FI_EOPNOTSUPP;
    if (compares != (call->compares != NULL) || (compares && !call->fetches)) return -FI_EOPNOTSUPP;
    if (call->op == FI_ATOMIC_READ && !call->fetches) return -FI_EOPNOTSUPP;
    if ((call->flags & FI_TAGGED) != 0) return -FI_EOPNOTSUPP; /* the target is not a receive */
    if ((call->flags & AFI_NO_FLAGS) != 0) return -FI_EBADFLAGS;
    if (elements > AFI_ATOMIC / size) return -FI_EMSGSIZE;
    if (call->operand_count > AFI_IOVS || call->compare_count > AFI_IOVS ||
        call->result_count > AFI_IOVS || call->there_count > AFI_IOVS)
        return -FI_EINVAL;
    if (call->op != FI_ATOMIC_READ && atomic_count(call->operands, call->operand_count) != elements)
        return -FI_EINVAL;
    if (call->fetches && atomic_count(call->results, call->result_count) != elements)
        return -FI_EINVAL;
    if (compares && atomic_count(call->compares, call->compare_count) != elements)
        return -FI_EINVAL;
    return 0;
}

static int atomic_fill(const struct atomic_call *call, struct afi_op *op)
{
    size_t size = afi_atomic_size(call->datatype), elements = 0;
    for (size_t i = 0; i < call->there_count; i++)
        elements += call->there[i].count;
    int err = atomic_check(call, elements);
    if (err != 0) return err;
    op->copy = malloc(aqi_max(2 * elements * size, 1));
    if (op->copy == NULL) return -FI_EAGAIN;
    if (call->op != FI_ATOMIC_READ)
        op->copy_len = atomic_pack(op->copy, call->operands, call->operand_count, size);
    if (call->compares != NULL)
        op->copy_len +=
            atomic_pack(op->copy + op->copy_len, call->compares, call->compare_count, size);
    op->type = AFI_ATOMIC_OP;
    op->cq_flags = FI_ATOMIC | (call->fetches ? FI_READ : FI_WRITE);
    op->fetches = call->fetches;
    op->datatype = (uint8_t)call->datatype;
    op->operation = (uint8_t)call->op;
    op->len = elements * size;
    op->there_count = (unsigned)call->there_count;
    for (size_t i = 0; i < call->there_count; i++)
        op->there[i] = (struct fi_rma_iov){.addr = call->there[i].addr,
                                           .len = call->there[i].count * size,
                                           .key = call->there[i].key};
    op->count = call->fetches ? (unsigned)call->result_count : 0;
    for (unsigned i = 0; i < op->count; i++)
        op->iov[i] = (struct iovec){.iov_base = call->results[i].addr,
                                    .iov_len = call->results[i].count * size};
    return 0;
}

static ssize_t atomic_start(struct afi_ep *ep, const struct atomic_call *call)
{
    struct afi_peer *peer = afi_peer_of(ep, call->addr);
    if (!ep->enabled) return -FI_EOPBADSTATE;
    if (peer == NULL) return -FI_EINVAL;
    struct afi_op *op = afi_op_new(peer, call->flags, call->silent, call->context);
    return op != NULL ? afi_op_start(op, atomic_fill(call, op)) : -FI_EAGAIN;
}

static ssize_t atomic_call(struct fid_ep *fid, const struct atomic_call *call)
{
    if (!afi_is_ep(fid)) return -FI_ENOSYS;
    afi_lock();
    ssize_t err = atomic_start(afi_ep_of(fid), call);
    afi_unlock();
    return err;
}

/* The parameters of all calls except those that take a message. */
static struct atomic_call atomic_of(struct fid_ep *ep, const struct fi_ioc *operands, size_t count,
                                    fi_addr_t addr, const struct fi_rma_ioc *there,
                                    enum fi_datatype datatype, enum fi_op op, void *context)
{
    return (struct atomic_call){.operands = operands,
                                .operand_count = count,
                                .there = there,
                                .there_count = 1,
                                .datatype = datatype,
                                .op = op,
                                .addr = addr,
                                .flags = afi_tx_flags_of(ep),
                                .context = context};
}

static struct atomic_call atomic_of_msg(const struct fi_msg_atomic *msg, uint64_t flags)
{
    return (struct atomic_call){.operands = msg->msg_iov,
                                .operand_count = msg->iov_count,
                                .there = msg->rma_iov,
                                .there_count = msg->rma_iov_count,
                                .datatype = msg->datatype,
                                .op = msg->op,
                                .addr = msg->addr,
                                .flags = flags,
                                .context = msg->context};
}

static struct fi_ioc atomic_ioc(const void *at, size_t count)
{
    return (struct fi_ioc){.addr = (void *)(uintptr_t)at, .count = count};
}

static struct fi_rma_ioc atomic_there(uint64_t addr, size_t count, uint64_t key)
{
    return (struct fi_rma_ioc){.addr = addr, .count = count, .key = key};
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                             fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                             enum fi_datatype datatype, enum fi_op op, void *context)
{
    const struct fi_rma_ioc there = atomic_there(addr, atomic_count(iov, count), key);
    const struct atomic_call call =
        atomic_of(ep, iov, count, dest_addr, &there, datatype, op, context);
    return atomic_call(ep, &call);
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                            fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                            enum fi_datatype datatype, enum fi_op op, void *context)
{
    const struct fi_ioc iov = atomic_ioc(buf, count);
    return atomic_writev(ep, &iov, NULL, 1, dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    const struct atomic_call call = atomic_of_msg(msg, flags);
    return atomic_call(ep, &call);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr,
                             uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
    const struct fi_ioc iov = atomic_ioc(buf, count);
    const struct fi_rma_ioc there = atomic_there(addr, count, key);
    struct atomic_call call = atomic_of(ep, &iov, 1, dest_addr, &there, datatype, op, NULL);
    call.silent = true;
    return atomic_call(ep, &call);
}

/* A call that returns the old values in `results`; `compares` may be NULL. */
static ssize_t atomic_fetch(struct fid_ep *ep, struct atomic_call *call,
                            const struct fi_ioc *results, size_t result_count,
                            const struct fi_ioc *compares, size_t compare_count)
{
    call->fetches = true;
    call->results = results;
    call->result_count = result_count;
    call->compares = compares;
    call->compare_count = compare_count;
    return atomic_call(ep, call);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t count, struct fi_ioc *resultv, void **result_desc,
                                 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
                                 uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                 void *context)
{
    const struct fi_rma_ioc there = atomic_there(addr, atomic_count(resultv, result_count), key);
    struct atomic_call call = atomic_of(ep, iov, count, dest_addr, &there, datatype, op, context);
    return atomic_fetch(ep, &call, resultv, result_count, NULL, 0);
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
                                uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                void *context)
{
    const struct fi_ioc iov = atomic_ioc(buf, count);
    struct fi_ioc to = atomic_ioc(result, count);
    return atomic_readwritev(ep, &iov, NULL, 1, &to, NULL, 1, dest_addr, addr, key, datatype, op,
                             context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *resultv, void **result_desc, size_t result_count,
                                   uint64_t flags)
{
    struct atomic_call call = atomic_of_msg(msg, flags);
    return atomic_fetch(ep, &call, resultv, result_count, NULL, 0);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t count, const struct fi_ioc *comparev, void **compare_desc,
                                 size_t compare_count, struct fi_ioc *resultv, void **result_desc,
                                 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
                                 uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                 void *context)
{
    const struct fi_rma_ioc there = atomic_there(addr, atomic_count(iov, count), key);
    struct atomic_call call = atomic_of(ep, iov, count, dest_addr, &there, datatype, op, context);
    return atomic_fetch(ep, &call, resultv, result_count, comparev, compare_count);
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                const void *compare, void *compare_desc, void *result,
                                void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                                enum fi_datatype datatype, enum fi_op op, void *context)
{
    const struct fi_ioc iov = atomic_ioc(buf, count), with = atomic_ioc(compare, count);
    struct fi_ioc to = atomic_ioc(result, count);
    return atomic_compwritev(ep, &iov, NULL, 1, &with, NULL, 1, &to, NULL, 1, dest_addr, addr, key,
                             datatype, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *comparev, void **compare_desc,
                                   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
                                   size_t result_count, uint64_t flags)
{
    struct atomic_call call = atomic_of_msg(msg, flags);
    return atomic_fetch(ep, &call, resultv, result_count, comparev, compare_count);
}

static int atomic_valid(enum fi_datatype datatype, enum fi_op op, size_t *count, uint64_t flags)
{
    struct fi_atomic_attr attr;
    int err = afi_atomic_query(NULL, datatype, op, &attr, flags);
    if (err == 0) *count = attr.count;
    return err;
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                             size_t *count)
{
    return atomic_valid(datatype, op, count, 0);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                                 size_t *count)
{
    return atomic_valid(datatype, op, count, FI_FETCH_ATOMIC);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                                 size_t *count)
{
    return atomic_valid(datatype, op, count, FI_COMPARE_ATOMIC);
}

struct fi_ops_atomic afi_atomic_ops = {.size = sizeof(struct fi_ops_atomic),
                                       .write = atomic_write,
                                       .writev = atomic_writev,
                                       .writemsg = atomic_writemsg,
                                       .inject = atomic_inject,
                                       .readwrite = atomic_readwrite,
                                       .readwritev = atomic_readwritev,
                                       .readwritemsg = atomic_readwritemsg,
                                       .compwrite = atomic_compwrite,
                                       .compwritev = atomic_compwritev,
                                       .compwritemsg = atomic_compwritemsg,
                                       .writevalid = atomic_writevalid,
                                       .readwritevalid = atomic_readwritevalid,
                                       .compwritevalid = atomic_compwritevalid};
