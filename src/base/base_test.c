/* Tests base.h: hashes of pointers and other multiples of a power of two fill a table. */
#include "base/base.h"

#include "base/capture_test.h"

static void test_buckets_of_multiples(void **state)
{
    enum { COUNT = 256 };
    static const uint64_t strides[] = {1, 16, 48, 160, 256, 4096, 65536, 2 << 20};
    (void)state;
    for (size_t s = 0; s < AQI_COUNT_OF(strides); s++) {
        bool one[COUNT] = {false}, two[COUNT] = {false};
        unsigned by_one = 0, by_two = 0;
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t word = 0x7f1200000000 + i * strides[s];
            uint64_t hash = aqi_hash(AQI_HASH_SEED, word);
            bool *a = &one[aqi_hash_spread(hash) % COUNT];
            bool *b = &two[aqi_hash_spread(aqi_hash(hash, 7)) % COUNT];
            by_one += !*a;
            by_two += !*b;
            *a = *b = true;
        }
        /* Random numbers fill 162 of them. */
        assert_true(by_one > COUNT / 2);
        assert_true(by_two > COUNT / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_of_multiples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
