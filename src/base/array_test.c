/* Arrays keep their elements as they grow, grow by doubling, and survive running out of memory. */
#include "base/array.h"

#include "base/capture_test.h"
#include <stdlib.h>

static void growing_keeps_the_elements(void **state)
{
    uint32_t *numbers = NULL;
    size_t room = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(aqi_array_reserve(&numbers, &room, i + 1, sizeof(*numbers)));
        numbers[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i);
    assert_int_equal(room, 1024);
    free(numbers);
}

static void room_at_least_doubles(void **state)
{
    char *bytes = NULL;
    size_t room = 0;
    assert_true(aqi_array_reserve(&bytes, &room, 1, 1));
    assert_int_equal(room, 8);
    assert_true(aqi_array_reserve(&bytes, &room, 8, 1));
    assert_int_equal(room, 8);
    assert_true(aqi_array_reserve(&bytes, &room, 9, 1));
    assert_int_equal(room, 16);
    assert_true(aqi_array_reserve(&bytes, &room, 100, 1));
    assert_int_equal(room, 100);
    free(bytes);
}

/* Including when the number of bytes does not fit in a size_t. */
static void without_memory_nothing_changes(void **state)
{
    uint64_t *numbers = NULL;
    size_t room = 0;
    assert_true(aqi_array_reserve(&numbers, &room, 2, sizeof(*numbers)));
    uint64_t *before = numbers;
    numbers[1] = 7;
    assert_false(aqi_array_reserve(&numbers, &room, SIZE_MAX / 8 + 2, sizeof(*numbers)));
    assert_ptr_equal(numbers, before);
    assert_int_equal(room, 8);
    assert_int_equal(numbers[1], 7);
    free(numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growing_keeps_the_elements),
        cmocka_unit_test(room_at_least_doubles),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
