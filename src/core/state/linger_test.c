/* The progress thread when it finds nothing to do, on the test's own clock. */
#include "core/state/linger.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint64_t us = 1000, ms = 1000000;

/* It finds nothing until it sleeps; returns how many times it yields before that. */
static unsigned looks(struct core_linger *linger, uint64_t away)
{
    unsigned n = 0;
    core_linger_found(linger);
    for (; core_linger_looks(linger); n++)
        assert_int_equal(core_linger_looked(linger, away), away <= ms);
    return n;
}

static void it_looks_some_times_on_a_core_of_its_own(void **state)
{
    struct core_linger linger = {0};
    for (int i = 0; i < 3; i++)
        assert_int_equal(looks(&linger, us), 20);
}

/* A single yield to a thread that computes costs a time slice. */
static void it_yields_hardly_ever_to_who_computes(void **state)
{
    struct core_linger linger = {0};
    unsigned yields = 0;
    for (int i = 0; i < 1000; i++)
        yields += looks(&linger, 4 * ms);
    assert_int_equal(yields, 1);
    for (int i = 0; i < 10000; i++)
        yields += looks(&linger, 4 * ms);
    assert_in_range(yields, 5, 15);
    for (int i = 0; i < 1000; i++)
        looks(&linger, us); /* the program sleeps now */
    assert_int_equal(looks(&linger, us), 20);
}

static void it_stands_back_while_the_program_polls_often(void **state)
{
    struct core_linger linger = {0};
    uint64_t polls = 0, now = 5000 * ms;
    assert_false(core_linger_stands_back(&linger, polls, now));
    assert_true(core_linger_stands_back(&linger, polls += 1000, now += ms));
    assert_true(core_linger_stands_back(&linger, polls += 1000, now += 10 * ms));
    assert_false(core_linger_stands_back(&linger, polls, now += ms));
}

/* The program computes between its polls. */
static void it_serves_who_polls_now_and_then(void **state)
{
    struct core_linger linger = {0};
    uint64_t polls = 0, now = 5000 * ms;
    assert_false(core_linger_stands_back(&linger, polls, now));
    assert_false(core_linger_stands_back(&linger, polls += 1, now += ms));
    assert_false(core_linger_stands_back(&linger, polls += 10, now += ms));
    assert_false(core_linger_stands_back(&linger, polls += 100, now += 10 * ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_looks_some_times_on_a_core_of_its_own),
        cmocka_unit_test(it_yields_hardly_ever_to_who_computes),
        cmocka_unit_test(it_stands_back_while_the_program_polls_often),
        cmocka_unit_test(it_serves_who_polls_now_and_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
