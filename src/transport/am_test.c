/*
 * Tests am.c: the wire format encoded and decoded, what decoding rejects, and atomics against a
 * model.
 */
#include "transport/am.h"

#include "base/cmocka_test.h"

#include <aqueduct/type.h>
#include <string.h>

static alignas(16) unsigned char frame[256];

static void round_trip(void **state)
{
    int32_t args[16];
    for (int i = 0; i < 16; i++)
        args[i] = i % 2 ? -i : i * 1000;
    for (uint8_t nargs = 0; nargs <= 16; nargs++) {
        struct aqi_am in = {.kind = AQI_AM_MEDIUM,
                            .handler = (uint8_t)(200 + nargs),
                            .nargs = nargs,
                            .flags = (uint8_t)((nargs % 2 ? AQI_AM_IS_REPLY : 0) |
                                               aqi_am_to(nargs % 8) | aqi_am_from(nargs / 2 % 8)),
                            .nbytes = 77u * nargs,
                            .addr = 0x123456789abcdef0u + nargs,
                            .args = args};
        struct aqi_am out;
        uint32_t source;
        aqi_am_encode(frame, &in, 42);
        assert_int_equal(aqi_am_decode(frame, sizeof(frame), 8192, &out, &source), AQ_OK);
        assert_int_equal(source, 42);
        assert_int_equal(out.kind, in.kind);
        assert_int_equal(out.handler, in.handler);
        assert_int_equal(out.flags, in.flags);
        assert_int_equal(out.nbytes, in.nbytes);
        assert_true(out.addr == in.addr);
        assert_memory_equal(out.args, args, 4u * nargs);
    }
}

static void refuses(void **state)
{
    static const struct {
        size_t offset, len;
        unsigned char value;
    } bad[] = {
        {4, 256, 0},            /* no kind */
        {4, 256, AQI_AM_LONG},  /* never on the wire */
        {4, 256, 8},            /* no such kind */
        {6, 256, 19},           /* arguments */
        {6, 24 + 4 * 3 - 1, 3}, /* arguments beyond the end */
        {7, 256, 2},            /* a word of credits, but no argument */
        {13, 256, 0x20},        /* 8192 + bytes of payload */
        {0, 23, 0},             /* not even a header */
    };
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++) {
        struct aqi_am in = {.kind = AQI_AM_MEDIUM, .handler = 99, .nbytes = 1},
                      out = {.handler = 1};
        uint32_t source;
        aqi_am_encode(frame, &in, 0);
        frame[bad[i].offset] = bad[i].value;
        assert_int_equal(aqi_am_decode(frame, bad[i].len, 8191, &out, &source), AQ_EPROTO);
        assert_int_equal(out.handler, 1); /* unchanged */
    }
}

static void short_has_no_payload(void **state)
{
    struct aqi_am in = {.kind = AQI_AM_SHORT, .handler = 99, .nbytes = 1}, out;
    uint32_t source;
    aqi_am_encode(frame, &in, 0);
    assert_int_equal(aqi_am_decode(frame, sizeof(frame), 8192, &out, &source), AQ_EPROTO);
}

/* Layers may add to the 16 arguments, and a late Long is no reply. */
static void flags_are_checked(void **state)
{
    static const struct {
        uint8_t kind, nargs, flags;
        aq_status expected;
    } rows[] = {
        {AQI_AM_SHORT, 16, 0, AQ_OK},
        {AQI_AM_SHORT, 18, 0, AQ_OK},
        {AQI_AM_SHORT, 19, 0, AQ_EPROTO},
        {AQI_AM_SHORT, 18, AQI_AM_CREDITS, AQ_OK},
        {AQI_AM_SHORT, 19, AQI_AM_CREDITS, AQ_EPROTO},
        {AQI_AM_SHORT, 0, AQI_AM_CREDITS, AQ_EPROTO},
        {AQI_AM_SHORT, 1, AQI_AM_CREDITS | AQI_AM_IS_REPLY, AQ_OK},
        {AQI_AM_LONG_LATE, 1, 0, AQ_OK},
        {AQI_AM_LONG_LATE, 17, AQI_AM_CREDITS, AQ_OK},
        {AQI_AM_LONG_LATE, 1, AQI_AM_IS_REPLY, AQ_EPROTO},
        {AQI_AM_LONG_LATE, 1, AQI_AM_EPS, AQ_OK},
        {AQI_AM_LONG_HEADER, 1, AQI_AM_IS_REPLY | AQI_AM_EPS, AQ_OK},
    };
    int32_t args[19] = {0};
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        struct aqi_am out,
            in = {
                .kind = rows[i].kind, .nargs = rows[i].nargs, .flags = rows[i].flags, .args = args};
        uint32_t source;
        aqi_am_encode(frame, &in, 0);
        assert_int_equal(aqi_am_decode(frame, sizeof(frame), 8192, &out, &source),
                         rows[i].expected);
    }
}

/* Both indices fit next to the flags, and neither affects the other. */
static void endpoints_fit(void **state)
{
    for (unsigned to = 0; to < AQI_AM_MAX_EPS; to++)
        for (unsigned from = 0; from < AQI_AM_MAX_EPS; from++) {
            uint8_t eps = aqi_am_to(to) | aqi_am_from(from);
            assert_int_equal(eps & ~AQI_AM_EPS, 0);
            assert_int_equal(aqi_am_to_ep(eps | AQI_AM_IS_REPLY | AQI_AM_CREDITS), to);
            assert_int_equal(aqi_am_from_ep(eps | AQI_AM_IS_REPLY | AQI_AM_CREDITS), from);
        }
}

static void payload_is_aligned(void **state)
{
    for (unsigned nargs = 0; nargs <= 16; nargs++) {
        size_t offset = aqi_am_payload_offset(nargs);
        assert_int_equal(offset % 16, 0);
        assert_true(offset >= sizeof(struct aqi_am_wire) + 4 * nargs);
        assert_true(offset < sizeof(struct aqi_am_wire) + 4 * nargs + 16);
    }
}

/* --- atomics --------------------------------------------------------------------------------- */

static uint64_t apply(aq_op op, aq_type type, void *at, const void *a, const void *b)
{
    struct aqi_atomic req = {.op = (uint8_t)op, .type = (uint8_t)type, .fetch = 1};
    size_t size = aqi_atomic_size((uint8_t)type);
    assert_true(aqi_atomic_valid((uint8_t)op, (uint8_t)type));
    if (a) memcpy(&req.operand1, a, size);
    if (b) memcpy(&req.operand2, b, size);
    return aqi_atomic_apply(&req, at);
}

/* Each operation on each type once, with operands for which sign, width and rounding matter. */
#define CHECK_TYPE(type, T, start, operand)                                                        \
    do {                                                                                           \
        static const struct {                                                                      \
            aq_op op;                                                                              \
            T expected;                                                                            \
        } rows[] = {                                                                               \
            {AQ_OP_SET, (operand)},                                                                \
            {AQ_OP_GET, (start)},                                                                  \
            {AQ_OP_SWAP, (operand)},                                                               \
            {AQ_OP_ADD, (T)((start) + (operand))},                                                 \
            {AQ_OP_SUB, (T)((start) - (operand))},                                                 \
            {AQ_OP_MULT, (T)((start) * (operand))},                                                \
            {AQ_OP_MIN, (operand) < (start) ? (operand) : (start)},                                \
            {AQ_OP_MAX, (operand) > (start) ? (operand) : (start)},                                \
            {AQ_OP_INC, (T)((start) + 1)},                                                         \
            {AQ_OP_DEC, (T)((start)-1)},                                                           \
        };                                                                                         \
        for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {                                          \
            T at = (start), a = (operand), was;                                                    \
            uint64_t old = apply(rows[i].op, type, &at, &a, NULL);                                 \
            memcpy(&was, &old, sizeof(was));                                                       \
            if (rows[i].op != AQ_OP_SET) assert_true(was == (start));                              \
            assert_true(at == rows[i].expected);                                                   \
        }                                                                                          \
        T at = (start), wrong = (operand), right = (start), next = (operand);                      \
        apply(AQ_OP_CAS, type, &at, &wrong, &next);                                                \
        assert_true(at == (start));                                                                \
        apply(AQ_OP_CAS, type, &at, &right, &next);                                                \
        assert_true(at == (operand));                                                              \
    } while (0)

static void every_operation(void **state)
{
    CHECK_TYPE(AQ_TYPE_I32, int32_t, -7, 5);
    CHECK_TYPE(AQ_TYPE_U32, uint32_t, 4000000000u, 3u);
    CHECK_TYPE(AQ_TYPE_I64, int64_t, -7000000000, 5);
    CHECK_TYPE(AQ_TYPE_U64, uint64_t, 18000000000000000000u, 3u);
    CHECK_TYPE(AQ_TYPE_F32, float, -1.5f, 0.25f);
    CHECK_TYPE(AQ_TYPE_F64, double, -1e300, 0.5);
}

static void bit_operations(void **state)
{
    uint32_t a = 0x0ff0, at = 0x00ff;
    uint64_t wide = 0xff00ff00ff00ff00u, mask = 0x0ff00ff00ff00ff0u;
    apply(AQ_OP_AND, AQ_TYPE_U32, &at, &a, NULL);
    assert_int_equal(at, 0x00f0);
    apply(AQ_OP_OR, AQ_TYPE_U32, &at, &a, NULL);
    assert_int_equal(at, 0x0ff0);
    apply(AQ_OP_XOR, AQ_TYPE_I64, &wide, &mask, NULL);
    assert_true(wide == (0xff00ff00ff00ff00u ^ 0x0ff00ff00ff00ff0u));
    for (uint8_t op = AQ_OP_AND; op <= AQ_OP_XOR; op++) {
        assert_false(aqi_atomic_valid(op, AQ_TYPE_F32));
        assert_false(aqi_atomic_valid(op, AQ_TYPE_F64));
    }
    assert_false(aqi_atomic_valid(AQ_OP_XOR + 1, AQ_TYPE_U32));
    assert_false(aqi_atomic_valid(AQ_OP_ADD, AQ_TYPE_F64 + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),           cmocka_unit_test(refuses),
        cmocka_unit_test(short_has_no_payload), cmocka_unit_test(flags_are_checked),
        cmocka_unit_test(endpoints_fit),        cmocka_unit_test(payload_is_aligned),
        cmocka_unit_test(every_operation),      cmocka_unit_test(bit_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
