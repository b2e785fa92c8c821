/* The registry finds teams by id, even if ids share a bucket. */
#include "core/state/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TEAMS = 3000 }; /* more than there are buckets */

static unsigned seen;

static bool count(aq_team *team)
{
    seen++;
    return true;
}

static bool stop(aq_team *team)
{
    seen++;
    return false;
}

static void teams_are_found_by_both_halves_of_the_id(void **state)
{
    static aq_team teams[TEAMS];
    core_teams_reset();
    assert_null(core_team_any());
    for (uint32_t i = 0; i < TEAMS; i++) {
        teams[i] = (aq_team){.id = {i % 7, i / 7}};
        core_team_enter(&teams[i]);
    }
    for (uint32_t i = 0; i < TEAMS; i++)
        assert_ptr_equal(core_team_find(i % 7, i / 7), &teams[i]);
    assert_null(core_team_find(7, 0));
    assert_null(core_team_find(0, TEAMS));
    for (uint32_t i = 0; i < TEAMS; i += 2)
        core_team_leave(&teams[i]);
    core_team_leave(&teams[0]); /* leaving twice is harmless */
    for (uint32_t i = 0; i < TEAMS; i++)
        assert_ptr_equal(core_team_find(i % 7, i / 7), i % 2 ? &teams[i] : NULL);
    seen = 0;
    assert_true(core_team_each(count));
    assert_int_equal(seen, TEAMS / 2);
    seen = 0;
    assert_false(core_team_each(stop));
    assert_int_equal(seen, 1);
    unsigned left = 0;
    for (aq_team *team; (team = core_team_any()) != NULL; left++)
        core_team_leave(team);
    assert_int_equal(left, TEAMS / 2);
}

/* Teams with an odd id still have operations. */
static bool is_odd(aq_team *team)
{
    seen++;
    team->active = team->id[1] % 2 != 0;
    return team->active;
}

static unsigned ask_active(void)
{
    seen = 0;
    core_team_each_active(is_odd);
    return seen;
}

static void only_teams_with_operations_are_asked(void **state)
{
    static aq_team teams[TEAMS];
    core_teams_reset();
    for (uint32_t i = 0; i < TEAMS; i++) {
        teams[i] = (aq_team){.id = {0, i}};
        core_team_enter(&teams[i]);
    }
    assert_int_equal(ask_active(), 0);
    for (uint32_t i = 0; i < 10; i++) {
        core_team_activate(&teams[100 * i + i % 2]); /* even and odd alternately */
        core_team_activate(&teams[100 * i + i % 2]);
    }
    assert_int_equal(ask_active(), 10);
    assert_int_equal(ask_active(), 5);
    core_team_activate(&teams[0]); /* again */
    core_team_activate(&teams[501]);
    core_team_leave(&teams[101]); /* from the middle of the list */
    core_team_leave(&teams[0]);
    assert_int_equal(ask_active(), 4);
    for (aq_team *team; (team = core_team_any()) != NULL;)
        core_team_leave(team);
    assert_int_equal(ask_active(), 0);
}

static void a_new_team_has_room_for_its_members(void **state)
{
    aq_team *team = core_team_new(3);
    assert_non_null(team);
    assert_int_equal(team->size, 3);
    assert_ptr_equal(team->at, team->map);
    for (aq_rank i = 0; i < 3; i++)
        assert_int_equal(team->map[i], 0);
    team->at = calloc(3, sizeof(uint32_t)); /* endpoints of its own: both are freed */
    core_team_free(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(teams_are_found_by_both_halves_of_the_id),
        cmocka_unit_test(only_teams_with_operations_are_asked),
        cmocka_unit_test(a_new_team_has_room_for_its_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
