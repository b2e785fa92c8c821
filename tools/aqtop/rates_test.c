/* Tests rates.c: two samples of a rank, and the sum of several. */
#include "aqtop.h"

#include "base/capture_test.h"

static bool same(double value, double wanted)
{
    return value - wanted < 1e-9 && wanted - value < 1e-9;
}

static struct aqi_top_row sample(uint64_t at_ns, uint32_t looks, uint32_t waits, uint64_t each)
{
    struct aqi_top_row row = {.at_ns = at_ns, .looks = looks, .waits = waits};
    for (unsigned i = 0; i < AQI_CTR_COUNT; i++)
        row.value[i] = each;
    return row;
}

static void test_between(void **state)
{
    struct aqi_top_row before = sample(1000000000, 10, 5, 7), now = sample(3000000000, 110, 80, 7);
    now.value[AQI_CTR_AM_SENT] += 60;
    now.value[AQI_CTR_AM_BYTES] += 3000;
    now.value[AQI_CTR_PUT] += 40;
    now.value[AQI_CTR_PUT_BYTES] += 5000;
    now.value[AQI_CTR_GET] += 10;
    now.value[AQI_CTR_GET_BYTES] += 800;
    now.value[AQI_CTR_ATOMIC] += 2;
    now.value[AQI_CTR_AM_BYTES_IN] += 200;
    now.value[AQI_CTR_PACKETS_AGAIN] += 4;
    struct rates rates = rates_between(&before, &now);
    assert_true(same(rates.messages, 56));
    assert_true(same(rates.out, 4000));
    assert_true(same(rates.in, 500));
    assert_true(same(rates.size, 80)); /* gets and atomics send no data of the program */
    assert_true(same(rates.again, 2));
    assert_true(same(rates.waits, 0.75));
}

/* Counts of samples wrap; a rank that sent nothing has no size; no time, no rates. */
static void test_edges(void **state)
{
    static const struct rates none;
    struct aqi_top_row before = sample(1000, UINT32_MAX - 9, UINT32_MAX, 1),
                       now = sample(2000, 30, 19, 1);
    struct rates rates = rates_between(&before, &now);
    assert_true(same(rates.waits, 0.5));
    assert_true(same(rates.size, 0));
    assert_true(same(rates.messages, 0));
    rates = rates_between(&now, &now);
    assert_memory_equal(&rates, &none, sizeof(none));
    rates = rates_between(&now, &before); /* its process has started again */
    assert_memory_equal(&rates, &none, sizeof(none));
}

static void test_add(void **state)
{
    static const struct rates small = {100, 1000, 10, 10, 1, 0.25},
                              large = {300, 9000, 30, 30, 2, 1};
    struct rates total = {0};
    rates_add(&total, &(struct rates){0});
    assert_true(same(total.size, 0));
    rates_add(&total, &small);
    rates_add(&total, &large);
    assert_true(same(total.messages, 400));
    assert_true(same(total.out, 10000));
    assert_true(same(total.in, 40));
    assert_true(same(total.size, 25));
    assert_true(same(total.again, 3));
    assert_true(same(total.waits, 1.25));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_between), cmocka_unit_test(test_edges),
                                       cmocka_unit_test(test_add)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
