/* Tests texts.c. */
#include "core/state/state.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void sizes_of_neighborhoods(void **unused)
{
    static const char *const bad[] = {"", "-1", "1,", ",1", "1,0", "0,1", "x", "1 2", "4294967296"};
    static const char groups[] = "011111220111112"; /* for 1,5,2 */
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++)
        assert_false(core_neighbors_legal(bad[i]));
    assert_true(core_neighbors_legal("0") && core_neighbors_legal("4294967295"));
    assert_true(core_neighbors_legal("1,5,2"));
    aqi_core_config.neighborhood = "1,5,2";
    for (uint32_t rank = 0; rank < 8; rank++) {
        assert_int_equal(core_neighbors_group(rank), groups[rank] - '0');
        assert_int_equal(core_neighbors_group(rank + 8), groups[rank] - '0' + 3);
    }
    aqi_core_config.neighborhood = "2";
    assert_int_equal(core_neighbors_group(5), 2);
    aqi_core_config.neighborhood = "0";
    assert_int_equal(core_neighbors_group(5), 0);
}

static void limits_of_segments(void **unused)
{
    enum { PAGE = 4096, RANKS = 4 };
    static const uint64_t memory = UINT64_C(16) << 30, share = memory / RANKS;
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        {"0", share},
        {"64M", 64 << 20},
        {"64MB/P", 64 << 20},
        {"1.5 GB", 3 << 29},
        {"1.5G/H", 3 << 27},
        {"65537", 65536},
        {"2", PAGE},
        {"1T", UINT64_C(1) << 40}, /* the explicit value of AQ_MAX_SEGMENT */
        {"1T/P", share},
        {"1T/h", share},
        {"0.5/H", share / 2},
        {"50%/H", share / 2},
        {"0.25", share},
        {".5/H", share / 2},
        {"0.125 gb/p", 128 << 20},
        {"85%", share},
        {"1", share},
        {"1/H", share},
        {"0x100000", 1 << 20},
    };
    static const char *const bad[] = {"",      "x",      "-1",   "64Q", "1.5", "101%",
                                      "64M/X", "64M/P2", "/H",   "inf", "nan", "5%%",
                                      "64MBB", "1e300G", " 64M", "64M/"};
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        struct core_segment_limit limit;
        assert_true(core_segment_limit_legal(rows[i].text));
        assert_true(core_segment_read_limit(rows[i].text, &limit));
        assert_int_equal(core_segment_limit_bytes(&limit, memory, RANKS, PAGE), rows[i].bytes);
    }
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++)
        assert_false(core_segment_limit_legal(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_neighborhoods),
        cmocka_unit_test(limits_of_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
