/*
 * Matching: the rules one by one, and random operations compared with a list that is searched from
 * its start.
 */
#include "front/fi/match.h"

#include "base/capture_test.h"

#include <stdlib.h>

struct receive {
    struct afi_posted entry;
    bool posted;
};

static const char sources[4];

static void test_order_of_posting(void **state)
{
    struct afi_match match;
    struct afi_posted any = {.tag = 5, .ignore = 0}, exact = {.tag = 5, .source = &sources[0]},
                      masked = {.tag = 0, .ignore = 7};
    afi_match_init(&match);
    afi_match_post(&match, &masked);
    afi_match_post(&match, &exact);
    afi_match_post(&match, &any);
    assert_ptr_equal(afi_match_find(&match, 5, &sources[0]), &masked);
    afi_match_cancel(&match, &masked);
    assert_ptr_equal(afi_match_find(&match, 5, &sources[0]), &exact);
    assert_ptr_equal(afi_match_find(&match, 5, &sources[1]), &any);
    assert_null(afi_match_find(&match, 6, &sources[0]));
    afi_match_cancel(&match, &exact);
    assert_ptr_equal(afi_match_find(&match, 5, &sources[0]), &any);
    afi_match_cancel(&match, &any);
    afi_match_close(&match);
}

static void test_unexpected_in_order_of_arrival(void **state)
{
    struct afi_match match;
    struct afi_unexpected first = {.tag = 1, .source = &sources[0]},
                          second = {.tag = 1, .source = &sources[1]},
                          third = {.tag = 3, .source = &sources[0]};
    afi_match_init(&match);
    afi_match_keep(&match, &first);
    afi_match_keep(&match, &second);
    afi_match_keep(&match, &third);
    assert_ptr_equal(afi_match_find_unexpected(&match, 1, 0, NULL), &first);
    assert_ptr_equal(afi_match_find_unexpected(&match, 1, 0, &sources[1]), &second);
    assert_ptr_equal(afi_match_find_unexpected(&match, 0, 2, NULL), NULL);
    assert_ptr_equal(afi_match_find_unexpected(&match, 1, 2, &sources[0]), &first);
    afi_match_drop(&first);
    assert_ptr_equal(afi_match_find_unexpected(&match, 1, 2, &sources[0]), &third);
    afi_match_drop(&third);
    afi_match_drop(&second);
    assert_null(afi_match_find_unexpected(&match, 0, UINT64_MAX, NULL));
    afi_match_close(&match);
}

/* More kinds of receives than there are classes, and enough of one kind for its table to grow. */
static void test_at_random(void **state)
{
    enum { COUNT = 600, STEPS = 20000 };
    static struct receive receives[COUNT];
    static unsigned order[COUNT];
    unsigned posted = 0;
    struct afi_match match;
    srand(1);
    afi_match_init(&match);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)rand() % COUNT;
        struct receive *r = &receives[i];
        if (!r->posted && rand() % 3 != 0) {
            r->entry = (struct afi_posted){.tag = (uint64_t)rand() % 16,
                                           .ignore = (uint64_t)(rand() % 4 != 0 ? 0 : rand() % 32),
                                           .source = rand() % 2 != 0 ? &sources[rand() % 4] : NULL};
            afi_match_post(&match, &r->entry);
            r->posted = true;
            order[posted++] = i;
            continue;
        }
        uint64_t tag = (uint64_t)rand() % 16;
        const void *source = &sources[rand() % 4];
        struct afi_posted *expected = NULL;
        unsigned at = 0;
        for (; at < posted && expected == NULL; at++) {
            struct afi_posted *w = &receives[order[at]].entry;
            if (((w->tag ^ tag) & ~w->ignore) == 0 && (w->source == NULL || w->source == source))
                expected = w;
        }
        assert_ptr_equal(afi_match_find(&match, tag, source), expected);
        if (expected == NULL) continue;
        afi_match_cancel(&match, expected);
        receives[order[at - 1]].posted = false;
        for (posted--; at <= posted; at++)
            order[at - 1] = order[at];
    }
    while (posted != 0)
        afi_match_cancel(&match, &receives[order[--posted]].entry);
    afi_match_close(&match);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_posting),
        cmocka_unit_test(test_unexpected_in_order_of_arrival),
        cmocka_unit_test(test_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
