/* The table of waiting messages: answers find theirs once, and invented ones nothing. */
#include "core/vis/pending.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void each_answer_finds_its_message_once(void **state)
{
    enum { COUNT = 500 };
    struct vis_table table;
    struct aqi_comp comps[COUNT] = {0};
    uint32_t index[COUNT], generation[COUNT];
    struct vis_side side = {.count = 0};
    (void)state;
    vis_table_open(&table, true);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            uint32_t cookie[2];
            assert_true(vis_pending_enter(&table, (uint32_t)i % 3, &comps[i], 8,
                                          i % 2 ? &side : NULL, cookie));
            index[i] = cookie[0];
            generation[i] = cookie[1];
        }
        for (int k = 0; k < COUNT; k++) {
            int i = k * 7 % COUNT;
            uint32_t rank = (uint32_t)i % 3;
            assert_null(vis_pending_take(&table, index[i], generation[i], rank + 1));
            assert_null(vis_pending_take(&table, index[i], generation[i] + 1, rank));
            struct vis_pending *p = vis_pending_take(&table, index[i], generation[i], rank);
            assert_ptr_equal(p->comp, &comps[i]);
            assert_int_equal(p->get, i % 2);
            assert_null(vis_pending_take(&table, index[i], generation[i], rank));
            vis_pending_put(&table, p);
        }
        assert_null(vis_pending_take(&table, COUNT, 1, 0));
        assert_null(vis_pending_take(&table, UINT32_MAX, 0, 0));
        assert_int_equal(table.count, COUNT); /* entries are used again */
    }
    vis_table_close(&table);
}

static void the_messages_of_a_lost_peer_come_out(void **state)
{
    struct vis_table table;
    struct aqi_comp comp = {0};
    uint32_t cookie[2];
    (void)state;
    vis_table_open(&table, false);
    assert_null(vis_pending_take_any(&table, 0));
    for (uint32_t i = 0; i < 10; i++)
        assert_true(vis_pending_enter(&table, i % 2, &comp, 1, NULL, cookie));
    for (int i = 0; i < 5; i++) {
        struct vis_pending *p = vis_pending_take_any(&table, 1);
        assert_int_equal(p->rank, 1);
        vis_pending_put(&table, p);
    }
    assert_null(vis_pending_take_any(&table, 1));
    assert_non_null(vis_pending_take_any(&table, 0));
    vis_table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_finds_its_message_once),
        cmocka_unit_test(the_messages_of_a_lost_peer_come_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
