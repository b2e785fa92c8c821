/* Tests base.h: hashes of multiples of a power of two, such as pointers, and of texts. */
#include "base/base.h"

#include "base/capture_test.h"

static void test_buckets_of_multiples(void **state)
{
    enum { COUNT = 256 };
    static const uint64_t strides[] = {1, 16, 48, 160, 256, 4096, 65536, 2 << 20};
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

/* Any byte matters. */
static void test_hashes_of_texts(void **state)
{
    const uint64_t hash = aqi_hash_text(AQI_HASH_SEED, "node1");
    assert_true(hash == aqi_hash_text(aqi_hash_text(AQI_HASH_SEED, "no"), "de1"));
    assert_true(hash != aqi_hash_text(AQI_HASH_SEED, "node2"));
    assert_true(hash != aqi_hash_text(AQI_HASH_SEED, "mode1"));
    assert_true(hash != aqi_hash_text(AQI_HASH_SEED, "node"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_of_multiples),
        cmocka_unit_test(test_hashes_of_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
