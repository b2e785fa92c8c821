/* Numbered items that arrived ahead of their turn. */
#include "base/early.h"

#include "base/cmocka_test.h"

#include <stdlib.h>

static const struct aqi_early_most most = {.ahead = 1 << 20, .bytes = 256 << 20};

struct message {
    struct aqi_early_item item;
    uint32_t number;
};

static bool keep(struct aqi_early *early, uint32_t next, uint32_t number)
{
    struct message *message = malloc(sizeof(*message));
    assert_non_null(message);
    *message = (struct message){.item.bytes = sizeof(number), .number = number};
    bool kept = aqi_early_keep(early, next, number, &message->item, &most);
    if (!kept) free(message);
    return kept;
}

static void take(struct aqi_early *early, uint32_t number)
{
    struct message *message = aqi_early_take(early, number);
    assert_non_null(message);
    assert_int_equal(message->number, number);
    free(message);
}

/* Numbers wrap, and the table grows while it holds messages. */
static void test_each_is_found_by_its_number(void **state)
{
    struct aqi_early early = {0};
    const uint32_t first = UINT32_MAX - 40, count = 5000;
    for (uint32_t i = count; i > 0; i--)
        assert_true(keep(&early, first, first + i));
    assert_int_equal(early.count, count);
    assert_null(aqi_early_take(&early, first));
    for (uint32_t i = 1; i <= count; i++)
        take(&early, first + i);
    assert_int_equal(early.count, 0);
    assert_int_equal(early.bytes, 0);
    assert_null(aqi_early_take(&early, first + 1));
    aqi_early_drop(&early);
}

static void test_room_grows_in_the_middle(void **state)
{
    struct aqi_early early = {0};
    for (uint32_t next = 7; next < 1000; next++) {
        assert_true(keep(&early, next, next + next));
        struct message *message = aqi_early_take(&early, next);
        assert_int_equal(message != NULL, next >= 14 && next % 2 == 0);
        free(message);
    }
    aqi_early_drop(&early);
    assert_int_equal(early.room, 0);
}

static void test_limits_and_repeated_numbers(void **state)
{
    struct aqi_early early = {0};
    assert_false(keep(&early, 10, 10)); /* it is this message's turn */
    assert_false(keep(&early, 10, 9));
    assert_false(keep(&early, 10, 10 - most.ahead));
    assert_true(keep(&early, 10, 12));
    assert_false(keep(&early, 10, 12)); /* twice */
    assert_true(keep(&early, 10, 9 + most.ahead));
    assert_false(keep(&early, 10, 10 + most.ahead));
    early.bytes += most.bytes - 12; /* as if others occupied them */
    assert_true(keep(&early, 10, 13));
    assert_false(keep(&early, 10, 14));
    early.bytes -= most.bytes - 12;
    aqi_early_drop(&early);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_found_by_its_number),
        cmocka_unit_test(test_room_grows_in_the_middle),
        cmocka_unit_test(test_limits_and_repeated_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
