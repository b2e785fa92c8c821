/* Pools: alignment, zeroed first use, reuse, counts, and several threads on a locked one. */
#include "base/pool.h"

#include "base/capture_test.h"
#include <pthread.h>
#include <string.h>

#define OBJECTS 1000

static bool all_bytes(const unsigned char *bytes, size_t len, unsigned char value)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != value) return false;
    return true;
}

static void objects_are_separate_aligned_and_zero(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 16, 17, 100, 8944};
    enum { CHUNK = 7 };
    for (size_t s = 0; s < AQI_COUNT_OF(sizes); s++) {
        struct aqi_pool pool;
        static unsigned char *objects[OBJECTS];
        aqi_pool_init(&pool, sizes[s], CHUNK, false);
        for (size_t i = 0; i < OBJECTS; i++) {
            objects[i] = aqi_pool_get(&pool);
            assert_non_null(objects[i]);
            size_t aligned = i % CHUNK == 0 ? AQI_CACHE_LINE : 16;
            assert_int_equal((uintptr_t)objects[i] % aligned, 0);
            assert_true(all_bytes(objects[i], sizes[s], 0));
            memset(objects[i], (int)(i % 255 + 1), sizes[s]);
        }
        for (size_t i = 0; i < OBJECTS; i++) {
            assert_true(all_bytes(objects[i], sizes[s], (unsigned char)(i % 255 + 1)));
            aqi_pool_put(&pool, objects[i]);
        }
        assert_int_equal(aqi_pool_destroy(&pool), 0);
    }
}

static void objects_come_back(void **state)
{
    struct aqi_pool pool;
    aqi_pool_init(&pool, 64, 4, false);
    void *a = aqi_pool_get(&pool), *b = aqi_pool_get(&pool);
    aqi_pool_put(&pool, a);
    aqi_pool_put(&pool, b);
    assert_ptr_equal(aqi_pool_get(&pool), b);
    assert_ptr_equal(aqi_pool_get(&pool), a);
    void *chunk = pool.chunks;
    for (unsigned i = 0; i < 10000; i++)
        aqi_pool_put(&pool, aqi_pool_get(&pool));
    assert_ptr_equal(pool.chunks, chunk);
    aqi_pool_put(&pool, a);
    aqi_pool_put(&pool, b);
    assert_int_equal(aqi_pool_destroy(&pool), 0);
}

static void destroy_counts_objects_in_use(void **state)
{
    struct aqi_pool pool;
    aqi_pool_init(&pool, 64, 2, false);
    for (unsigned i = 0; i < 5; i++)
        assert_non_null(aqi_pool_get(&pool));
    assert_int_equal(aqi_pool_destroy(&pool), 5);
    /* The pool can be used again. */
    void *object = aqi_pool_get(&pool);
    assert_non_null(object);
    aqi_pool_put(&pool, object);
    assert_int_equal(aqi_pool_destroy(&pool), 0);
}

static void sizes_beyond_memory_give_null(void **state)
{
    struct aqi_pool pool;
    aqi_pool_init(&pool, SIZE_MAX / 4, 8, false);
    assert_null(aqi_pool_get(&pool));
    assert_int_equal(aqi_pool_destroy(&pool), 0);
}

/* Each object belongs to one thread at a time: a second owner would see a foreign mark. */
static void *take_and_give(void *arg)
{
    struct aqi_pool *pool = arg;
    int failures = 0;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t *mine[3];
        for (unsigned j = 0; j < 3; j++) {
            mine[j] = aqi_pool_get(pool);
            mine[j][1] = (uint64_t)(uintptr_t)&failures + j;
        }
        for (unsigned j = 0; j < 3; j++) {
            failures += mine[j][1] != (uint64_t)(uintptr_t)&failures + j;
            aqi_pool_put(pool, mine[j]);
        }
    }
    return failures == 0 ? pool : NULL;
}

static void locked_pool_serves_threads(void **state)
{
    struct aqi_pool pool;
    pthread_t threads[3];
    aqi_pool_init(&pool, 32, 4, true);
    for (unsigned i = 0; i < AQI_COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &pool), 0);
    for (unsigned i = 0; i < AQI_COUNT_OF(threads); i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &pool);
    }
    assert_int_equal(aqi_pool_destroy(&pool), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_separate_aligned_and_zero),
        cmocka_unit_test(objects_come_back),
        cmocka_unit_test(destroy_counts_objects_in_use),
        cmocka_unit_test(sizes_beyond_memory_give_null),
        cmocka_unit_test(locked_pool_serves_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
