/* Kept memory: sizes, alignment, reuse, and the limit on what is kept. */
#include "base/stash.h"

#include "base/capture_test.h"
#include <string.h>

enum { CLASSES = AQI_STASH_CLASSES, KEPT = 1 << 20, HEAD = sizeof(struct aqi_stash_block) };

static size_t kept_bytes(const struct aqi_stash *stash)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < CLASSES; i++)
        bytes += stash->kept[i].count * aqi_stash_bytes(i);
    return bytes;
}

static void every_length_has_the_smallest_class(void **state)
{
    for (unsigned i = 0; i < CLASSES; i++) {
        size_t most = aqi_stash_bytes(i) - HEAD;
        assert_int_equal(aqi_stash_class(most), i);
        assert_int_equal(aqi_stash_class(most + 1), i + 1);
    }
    assert_int_equal(aqi_stash_class(0), 0);
}

static void blocks_are_separate_and_aligned(void **state)
{
    struct aqi_stash stash = {0};
    static const size_t sizes[] = {0, 1, 240, 241, 5000, 131056, 131057, 3000000};
    unsigned char *blocks[2 * AQI_COUNT_OF(sizes)];
    for (size_t i = 0; i < AQI_COUNT_OF(blocks); i++) {
        blocks[i] = aqi_stash_get(&stash, sizes[i / 2]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)i, sizes[i / 2]);
    }
    for (size_t i = 0; i < AQI_COUNT_OF(blocks); i++) {
        for (size_t at = 0; at < sizes[i / 2]; at++)
            assert_int_equal(blocks[i][at], i);
        aqi_stash_put(&stash, blocks[i]);
    }
    aqi_stash_put(&stash, NULL);
    aqi_stash_drop(&stash);
    assert_int_equal(kept_bytes(&stash), 0);
}

static void blocks_are_reused_by_class(void **state)
{
    struct aqi_stash stash = {0};
    void *small = aqi_stash_get(&stash, 10), *large = aqi_stash_get(&stash, 1000);
    assert_non_null(small);
    assert_non_null(large);
    aqi_stash_put(&stash, small);
    aqi_stash_put(&stash, large);
    assert_int_equal(kept_bytes(&stash), 256 + 1024);
    assert_ptr_equal(aqi_stash_get(&stash, 1008), large);
    assert_ptr_equal(aqi_stash_get(&stash, 240), small);
    assert_int_equal(kept_bytes(&stash), 0);
    aqi_stash_put(&stash, small);
    aqi_stash_put(&stash, large);
    aqi_stash_drop(&stash);
}

static void kept_memory_is_limited(void **state)
{
    enum { BLOCKS = 20, LEN = 100000, LARGER = 1 << 18 };
    struct aqi_stash stash = {0};
    void *blocks[BLOCKS], *larger = aqi_stash_get(&stash, LARGER);
    for (int i = 0; i < BLOCKS; i++)
        assert_non_null(blocks[i] = aqi_stash_get(&stash, LEN));
    for (int i = 0; i < BLOCKS; i++)
        aqi_stash_put(&stash, blocks[i]);
    aqi_stash_put(&stash, larger); /* of no class */
    assert_int_equal(kept_bytes(&stash), KEPT);
    aqi_stash_drop(&stash);
}

static void impossible_lengths_are_refused(void **state)
{
    struct aqi_stash stash = {0};
    assert_null(aqi_stash_get(&stash, SIZE_MAX));
    assert_null(aqi_stash_get(&stash, PTRDIFF_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_has_the_smallest_class),
        cmocka_unit_test(blocks_are_separate_and_aligned),
        cmocka_unit_test(blocks_are_reused_by_class),
        cmocka_unit_test(kept_memory_is_limited),
        cmocka_unit_test(impossible_lengths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
