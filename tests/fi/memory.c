/* Remote writes, reads and atomic operations, by direct calls of libfabric's interface. */
#include "fi/pair.h"
#include "front/fi/fi.h"

#include <complex.h>
#include <stdio.h>

enum { ROOM = 1 << 20, KEY = 42 };

static struct fid_mr *mr;
static char *target, *local;
static uint64_t key, base;

static void open_memory(struct pair *pair, uint64_t access)
{
    CHECK_EQUAL(fi_mr_reg(pair->b.domain, target, ROOM, access, 0, KEY, 0, &mr, NULL), 0);
    key = fi_mr_key(mr);
    base = pair->b.info->domain_attr->mr_mode == AFI_MR_BASIC ? (uint64_t)(uintptr_t)target : 0;
    if (base == 0) CHECK_EQUAL(key, KEY);
}

static void writes_and_reads(struct pair *pair)
{
    static const size_t lens[] = {0, 1, 8, 4096, 8000, 65000, 66000, 300000, ROOM};
    uint64_t reads = fi_cntr_read(pair->a.reads), writes = fi_cntr_read(pair->a.writes);
    uint64_t served = fi_cntr_read(pair->b.served);
    for (unsigned i = 0; i < COUNT_OF(lens); i++) {
        size_t len = lens[i], at = len == ROOM ? 0 : 1000;
        pattern_fill(local, len, i);
        memset(target, 0, ROOM);
        PAIR_CALL(pair,
                  fi_write(pair->a.ep, local, len, NULL, pair->a.other, base + at, key, local));
        struct fi_cq_tagged_entry entry = pair_next(pair, pair->a.tx, NULL);
        CHECK(entry.op_context == local);
        CHECK_EQUAL(entry.flags & (FI_RMA | FI_WRITE), FI_RMA | FI_WRITE);
        pattern_check(target + at, len, i);
        if (len != ROOM) CHECK_EQUAL(target[at + len], 0);
        memset(local, 0, len);
        PAIR_CALL(pair,
                  fi_read(pair->a.ep, local, len, NULL, pair->a.other, base + at, key, local));
        entry = pair_next(pair, pair->a.tx, NULL);
        CHECK_EQUAL(entry.flags & (FI_RMA | FI_READ), FI_RMA | FI_READ);
        pattern_check(local, len, i);
    }
    CHECK_EQUAL(fi_cntr_read(pair->a.reads) - reads, COUNT_OF(lens));
    CHECK_EQUAL(fi_cntr_read(pair->a.writes) - writes, COUNT_OF(lens));
    CHECK(fi_cntr_read(pair->b.served) - served >= COUNT_OF(lens));
}

/*
 * Writes that the target fetches are counted for its registration like others; reads are not, as
 * the counter is bound for writes only.
 */
static void counted(struct pair *pair)
{
    enum { MINE = 77 };
    static const size_t lens[] = {8, 300000};
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;
    struct fid_mr *own;
    CHECK_EQUAL(fi_cntr_open(pair->b.domain, &attr, &cntr, NULL), 0);
    CHECK_EQUAL(fi_mr_reg(pair->b.domain, target, ROOM, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, MINE,
                          0, &own, NULL),
                0);
    CHECK_EQUAL(fi_mr_bind(own, &cntr->fid, FI_REMOTE_WRITE), 0);
    CHECK_EQUAL(fi_mr_bind(own, &cntr->fid, FI_REMOTE_READ), -FI_EINVAL);
    CHECK_EQUAL(fi_mr_enable(own), 0);
    for (unsigned i = 0; i < COUNT_OF(lens); i++) {
        PAIR_CALL(pair, fi_write(pair->a.ep, local, lens[i], NULL, pair->a.other, base,
                                 fi_mr_key(own), NULL));
        (void)pair_next(pair, pair->a.tx, NULL);
        PAIR_CALL(pair, fi_read(pair->a.ep, local, lens[i], NULL, pair->a.other, base,
                                fi_mr_key(own), NULL));
        (void)pair_next(pair, pair->a.tx, NULL);
        CHECK_EQUAL(fi_cntr_read(cntr), i + 1);
    }
    CHECK_EQUAL(fi_close(&own->fid), 0);
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
}

/*
 * A raw key can be mapped to a usable key although no mode requires it; a refresh changes nothing.
 */
static void raw_keys(struct pair *pair)
{
    uint8_t raw[32];
    size_t size = 1;
    uint64_t at, mapped;
    struct iovec iov = {.iov_base = target, .iov_len = ROOM};
    CHECK_EQUAL(fi_mr_raw_attr(mr, &at, raw, &size, 0), -FI_ETOOSMALL);
    CHECK_EQUAL(size, pair->b.info->domain_attr->mr_key_size);
    CHECK_EQUAL(fi_mr_raw_attr(mr, &at, raw, &size, 0), 0);
    CHECK_EQUAL(at, base);
    CHECK_EQUAL(fi_mr_map_raw(pair->a.domain, at, raw, size + 1, &mapped, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_mr_map_raw(pair->a.domain, at, raw, size, &mapped, 0), 0);
    CHECK_EQUAL(fi_mr_refresh(mr, &iov, 1, 0), 0);
    pattern_fill(local, 100, 9);
    PAIR_CALL(pair, fi_write(pair->a.ep, local, 100, NULL, pair->a.other, at, mapped, NULL));
    (void)pair_next(pair, pair->a.tx, NULL);
    pattern_check(target, 100, 9);
    CHECK_EQUAL(fi_mr_unmap_key(pair->a.domain, mapped), 0);
}

/* A registration covers a single piece of memory. */
static void registered(struct pair *pair)
{
    struct iovec iov[2] = {{.iov_base = target, .iov_len = 8}, {.iov_base = target, .iov_len = 8}};
    struct fi_mr_attr attr = {.mr_iov = iov, .iov_count = 1, .access = FI_REMOTE_READ};
    struct fid_mr *own;
    CHECK_EQUAL(fi_mr_regv(pair->b.domain, iov, 1, FI_REMOTE_READ, 0, 7, 0, &own, NULL), 0);
    CHECK_EQUAL(fi_close(&own->fid), 0);
    CHECK_EQUAL(fi_mr_regv(pair->b.domain, iov, 2, FI_REMOTE_READ, 0, 7, 0, &own, NULL),
                -FI_EINVAL);
    attr.context = pair;
    CHECK_EQUAL(fi_mr_regattr(pair->b.domain, &attr, 0, &own), 0);
    CHECK(own->fid.context == pair);
    CHECK_EQUAL(fi_close(&own->fid), 0);
    attr.offset = 1; /* reserved */
    CHECK_EQUAL(fi_mr_regattr(pair->b.domain, &attr, 0, &own), -FI_EINVAL);
}

static void pieces(struct pair *pair)
{
    struct iovec iov[8];
    struct fi_rma_iov there[4];
    struct fi_msg_rma msg = {.msg_iov = iov,
                             .iov_count = 8,
                             .addr = pair->a.other,
                             .rma_iov = there,
                             .rma_iov_count = 4,
                             .data = 99};
    for (size_t scale = 1; scale <= 1000; scale *= 1000) {
        for (size_t i = 0; i < 8; i++)
            iov[i] = (struct iovec){.iov_base = local + 10 * scale * i, .iov_len = 10 * scale};
        for (size_t i = 0; i < 4; i++)
            there[i] = (struct fi_rma_iov){.addr = base + 40000 * i, .len = 20 * scale, .key = key};
        pattern_fill(local, 80 * scale, 5);
        memset(target, 0, ROOM);
        PAIR_CALL(pair, fi_writemsg(pair->a.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
        (void)pair_next(pair, pair->a.tx, NULL);
        struct fi_cq_tagged_entry entry = pair_next(pair, pair->b.rx, NULL);
        CHECK_EQUAL(entry.data, 99);
        CHECK_EQUAL(entry.flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA),
                    FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
        memset(local, 0, 80 * scale);
        PAIR_CALL(pair, fi_readmsg(pair->a.ep, &msg, FI_COMPLETION));
        (void)pair_next(pair, pair->a.tx, NULL);
        pattern_check(local, 80 * scale, 5);
    }
}

/* Each of these operations ends with an error, and later ones succeed. */
static void refused(struct pair *pair)
{
    const struct {
        uint64_t addr, key;
        size_t len;
    } bad[] = {{base, key + 1, 8},     {base + ROOM - 4, key, 8},       {base + ROOM, key, 8},
               {base - 1, key, 8},     {base + UINT64_MAX - 3, key, 8}, {base + 1, key, ROOM},
               {base, key + 7, 100000}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        PAIR_CALL(pair, fi_write(pair->a.ep, local, bad[i].len, NULL, pair->a.other, bad[i].addr,
                                 bad[i].key, &local));
        struct fi_cq_err_entry error = pair_error(pair, pair->a.tx);
        CHECK_EQUAL(error.err, FI_EACCES);
        CHECK(error.op_context == &local);
        PAIR_CALL(pair, fi_read(pair->a.ep, local, bad[i].len, NULL, pair->a.other, bad[i].addr,
                                bad[i].key, &local));
        CHECK_EQUAL(pair_error(pair, pair->a.tx).err, FI_EACCES);
    }
    PAIR_CALL(pair, fi_read(pair->a.ep, local, 8, NULL, pair->a.other, base, key, NULL));
    (void)pair_next(pair, pair->a.tx, NULL);
}

static void rights(struct pair *pair)
{
    CHECK_EQUAL(fi_close(&mr->fid), 0);
    open_memory(pair, FI_REMOTE_READ);
    PAIR_CALL(pair, fi_write(pair->a.ep, local, 8, NULL, pair->a.other, base, key, NULL));
    CHECK_EQUAL(pair_error(pair, pair->a.tx).err, FI_EACCES);
    PAIR_CALL(pair, fi_read(pair->a.ep, local, 8, NULL, pair->a.other, base, key, NULL));
    (void)pair_next(pair, pair->a.tx, NULL);
    CHECK_EQUAL(fi_close(&mr->fid), 0);
    PAIR_CALL(pair, fi_read(pair->a.ep, local, 8, NULL, pair->a.other, base, key, NULL));
    CHECK_EQUAL(pair_error(pair, pair->a.tx).err, FI_EACCES);
    open_memory(pair, FI_REMOTE_READ | FI_REMOTE_WRITE);
}

/*
 * A message sent after a write arrives after it, and the buffer of an injected write may be changed
 * at once.
 */
static void in_order(struct pair *pair)
{
    uint64_t value, got = 0;
    for (value = 1; value <= 200; value++) {
        uint64_t sent = value;
        PAIR_CALL(pair, fi_inject_write(pair->a.ep, &sent, 8, pair->a.other, base + 64, key));
        sent = 0;
        PAIR_CALL(pair, fi_inject(pair->a.ep, &value, 8, pair->a.other));
        PAIR_CALL(pair, fi_recv(pair->b.in, &got, 8, NULL, FI_ADDR_UNSPEC, NULL));
        (void)pair_next(pair, pair->b.rx, NULL);
        CHECK_EQUAL(got, value);
        CHECK_EQUAL(*(uint64_t *)(void *)(target + 64), value);
    }
    pair_none(pair, pair->a.tx);
}

/* --- atomics --------------------------------------------------------------------------------- */

static void fetch(struct pair *pair, enum fi_datatype type, enum fi_op op, const void *operand,
                  const void *compare, void *old)
{
    if (compare != NULL)
        PAIR_CALL(pair, fi_compare_atomic(pair->a.ep, operand, 1, NULL, compare, NULL, old, NULL,
                                          pair->a.other, base, key, type, op, NULL));
    else
        PAIR_CALL(pair, fi_fetch_atomic(pair->a.ep, operand, 1, NULL, old, NULL, pair->a.other,
                                        base, key, type, op, NULL));
    (void)pair_next(pair, pair->a.tx, NULL);
}

/* The calls of an endpoint and of its domain agree. */
static void check_valid(struct pair *pair, enum fi_datatype type, enum fi_op op)
{
    struct fi_atomic_attr attr = {.count = 0};
    size_t count = 0;
    int err = fi_query_atomic(pair->a.domain, type, op, &attr, 0);
    CHECK_EQUAL(fi_atomicvalid(pair->a.ep, type, op, &count), err);
    if (err == 0) CHECK_EQUAL(count, attr.count);
    err = fi_query_atomic(pair->a.domain, type, op, &attr, FI_FETCH_ATOMIC);
    CHECK_EQUAL(fi_fetch_atomicvalid(pair->a.ep, type, op, &count), err);
    if (err == 0) CHECK_EQUAL(count, attr.count);
    err = fi_query_atomic(pair->a.domain, type, op, &attr, FI_COMPARE_ATOMIC);
    CHECK_EQUAL(fi_compare_atomicvalid(pair->a.ep, type, op, &count), err);
    if (err == 0) CHECK_EQUAL(count, attr.count);
    CHECK_EQUAL(fi_query_atomic(pair->a.domain, type, op, &attr, FI_TAGGED), -FI_EOPNOTSUPP);
}

/* The operations of a type on the values 12, 10 and 12. */
#define TYPE_TEST(name, type, datatype, ordered, bits)                                             \
    static void atomic_##name(struct pair *pair)                                                   \
    {                                                                                              \
        type a = 12, b = 10, c = 12, old;                                                          \
        const struct {                                                                             \
            enum fi_op op;                                                                         \
            bool here, compares;                                                                   \
            type want;                                                                             \
        } rows[] = {{FI_SUM, true, false, a + b},                                                  \
                    {FI_PROD, true, false, a * b},                                                 \
                    {FI_LOR, true, false, 1},                                                      \
                    {FI_LAND, true, false, 1},                                                     \
                    {FI_LXOR, true, false, 0},                                                     \
                    {FI_ATOMIC_READ, true, false, a},                                              \
                    {FI_ATOMIC_WRITE, true, false, b},                                             \
                    {FI_CSWAP, true, true, b},                                                     \
                    {FI_CSWAP_NE, true, true, a},                                                  \
                    {FI_MIN, ordered, false, 10},                                                  \
                    {FI_MAX, ordered, false, 12},                                                  \
                    {FI_CSWAP_LE, ordered, true, 10},                                              \
                    {FI_CSWAP_LT, ordered, true, 12},                                              \
                    {FI_CSWAP_GE, ordered, true, 10},                                              \
                    {FI_CSWAP_GT, ordered, true, 12},                                              \
                    {FI_BOR, bits, false, 14},                                                     \
                    {FI_BAND, bits, false, 8},                                                     \
                    {FI_BXOR, bits, false, 6},                                                     \
                    {FI_MSWAP, bits, true, (type)((10 & 12) | 0)}};                                \
        for (size_t i = 0; i < COUNT_OF(rows); i++) {                                              \
            struct fi_atomic_attr attr;                                                            \
            uint64_t kind = rows[i].compares ? FI_COMPARE_ATOMIC : FI_FETCH_ATOMIC;                \
            int err = fi_query_atomic(pair->a.domain, datatype, rows[i].op, &attr, kind);          \
            CHECK_EQUAL(err, rows[i].here ? 0 : -FI_EOPNOTSUPP);                                   \
            check_valid(pair, datatype, rows[i].op);                                               \
            if (!rows[i].here) continue;                                                           \
            CHECK_EQUAL(attr.size, sizeof(type));                                                  \
            memcpy(target, &a, sizeof(a));                                                         \
            memset(&old, 0, sizeof(old));                                                          \
            fetch(pair, datatype, rows[i].op, &b, rows[i].compares ? &c : NULL, &old);             \
            type now;                                                                              \
            memcpy(&now, target, sizeof(now));                                                     \
            CHECK(old == a);                                                                       \
            if (!(now == rows[i].want))                                                            \
                check_failed(__FILE__, __LINE__, "operation %d of type %d", (int)rows[i].op,       \
                             (int)datatype);                                                       \
        }                                                                                          \
    }

TYPE_TEST(int8, int8_t, FI_INT8, true, true)
TYPE_TEST(uint8, uint8_t, FI_UINT8, true, true)
TYPE_TEST(int16, int16_t, FI_INT16, true, true)
TYPE_TEST(uint16, uint16_t, FI_UINT16, true, true)
TYPE_TEST(int32, int32_t, FI_INT32, true, true)
TYPE_TEST(uint32, uint32_t, FI_UINT32, true, true)
TYPE_TEST(int64, int64_t, FI_INT64, true, true)
TYPE_TEST(uint64, uint64_t, FI_UINT64, true, true)
TYPE_TEST(float, float, FI_FLOAT, true, false)
TYPE_TEST(double, double, FI_DOUBLE, true, false)
TYPE_TEST(long_double, long double, FI_LONG_DOUBLE, true, false)
TYPE_TEST(float_complex, float complex, FI_FLOAT_COMPLEX, false, false)
TYPE_TEST(double_complex, double complex, FI_DOUBLE_COMPLEX, false, false)
TYPE_TEST(long_double_complex, long double complex, FI_LONG_DOUBLE_COMPLEX, false, false)

static void atomics(struct pair *pair)
{
    int32_t negative = -5, three = 3, old = 0;
    uint64_t ones[100], results[100];
    atomic_int8(pair);
    atomic_uint8(pair);
    atomic_int16(pair);
    atomic_uint16(pair);
    atomic_int32(pair);
    atomic_uint32(pair);
    atomic_int64(pair);
    atomic_uint64(pair);
    atomic_float(pair);
    atomic_double(pair);
    atomic_long_double(pair);
    atomic_float_complex(pair);
    atomic_double_complex(pair);
    atomic_long_double_complex(pair);
    memcpy(target, &negative, 4); /* compared as a signed type */
    fetch(pair, FI_INT32, FI_MAX, &three, NULL, &old);
    CHECK_EQUAL(old, -5);
    CHECK_EQUAL(*(int32_t *)(void *)target, 3);
    memset(target, 0, sizeof(ones)); /* many elements, with and without results */
    for (unsigned i = 0; i < 100; i++)
        ones[i] = i;
    PAIR_CALL(pair, fi_atomic(pair->a.ep, ones, 100, NULL, pair->a.other, base, key, FI_UINT64,
                              FI_SUM, NULL));
    (void)pair_next(pair, pair->a.tx, NULL);
    PAIR_CALL(pair,
              fi_inject_atomic(pair->a.ep, ones, 100, pair->a.other, base, key, FI_UINT64, FI_SUM));
    PAIR_CALL(pair, fi_fetch_atomic(pair->a.ep, NULL, 100, NULL, results, NULL, pair->a.other, base,
                                    key, FI_UINT64, FI_ATOMIC_READ, NULL));
    (void)pair_next(pair, pair->a.tx, NULL);
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQUAL(results[i], 2 * i);
    PAIR_CALL(pair, fi_atomic(pair->a.ep, ones, 100, NULL, pair->a.other, base + ROOM, key,
                              FI_UINT64, FI_SUM, NULL));
    CHECK_EQUAL(pair_error(pair, pair->a.tx).err, FI_EACCES);
    CHECK_EQUAL(fi_atomic(pair->a.ep, target, 1000, NULL, pair->a.other, base, key, FI_UINT64,
                          FI_SUM, NULL),
                -FI_EMSGSIZE);
}

/* A fenced operation begins only when all earlier ones have ended. */
static void fences(struct pair *pair)
{
    uint64_t got = 0, one = 1;
    struct iovec iov = {.iov_base = &got, .iov_len = 8};
    struct fi_rma_iov there = {.addr = base, .len = 8, .key = key};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = pair->a.other,
                             .rma_iov = &there,
                             .rma_iov_count = 1};
    for (unsigned i = 1; i <= 50; i++) {
        memset(target, 0, 8);
        for (unsigned k = 0; k < i; k++)
            PAIR_CALL(pair, fi_atomic(pair->a.ep, &one, 1, NULL, pair->a.other, base, key,
                                      FI_UINT64, FI_SUM, NULL));
        PAIR_CALL(pair, fi_readmsg(pair->a.ep, &msg, FI_COMPLETION | FI_FENCE));
        for (unsigned k = 0; k <= i; k++)
            (void)pair_next(pair, pair->a.tx, NULL);
        CHECK_EQUAL(got, i);
    }
}

int main(int argc, char **argv)
{
    struct pair pair;
    struct pair_wish wish = {.mr_mode =
                                 argc > 1 && strcmp(argv[1], "basic") == 0 ? AFI_MR_BASIC : 0,
                             .automatic = argc > 1 && strcmp(argv[1], "auto") == 0};
    target = malloc(ROOM);
    local = malloc(ROOM);
    pair_open(&pair, &wish);
    open_memory(&pair, FI_REMOTE_READ | FI_REMOTE_WRITE);
    writes_and_reads(&pair);
    counted(&pair);
    raw_keys(&pair);
    registered(&pair);
    pieces(&pair);
    refused(&pair);
    rights(&pair);
    in_order(&pair);
    atomics(&pair);
    fences(&pair);
    CHECK_EQUAL(fi_close(&mr->fid), 0);
    pair_close(&pair);
    free(target);
    free(local);
    puts("ok");
    return 0;
}
