/* Twin of search.c: every size is found, in few rounds; losses make the search longer, and its
 * result hardly ever smaller. */
#include "dgram/search.h"

#include "dgram/dgram.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint64_t seed;

static unsigned dice(unsigned sides)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % sides;
}

struct path {
    unsigned carries; /* bytes */
    unsigned loss;    /* in 1/1000, of packets and of answers */
    unsigned refused; /* in 1/1000: packets that do not leave */
    bool stuck;       /* packets that the path does not carry never leave */
    size_t bytes;     /* sent */
};

static enum dgram_verdict play(struct dgram_search *search, struct path *path)
{
    uint16_t sizes[DGRAM_SEARCH_SIZES], left = 0;
    unsigned n = dgram_search_sizes(search, sizes);
    for (unsigned i = 0; i < n; i++) {
        assert_true(sizes[i] >= AQI_DGRAM_LEAST_PACKET && sizes[i] < search->largest);
        assert_int_equal(sizes[i] % 16, 0);
        if (i > 0) assert_true(sizes[i] < sizes[i - 1]);
        bool leaves = dice(1000) >= path->refused && (!path->stuck || sizes[i] <= path->carries);
        left |= (uint16_t)(leaves << i);
        path->bytes += sizes[i];
    }
    if (dgram_search_needs_largest(search)) path->bytes += 2 * search->largest;
    dgram_search_sent(search, left == (1u << n) - 1 && !path->stuck);
    for (unsigned i = 0; i < n; i++)
        if ((left & 1u << i) != 0 && sizes[i] <= path->carries && dice(1000) >= path->loss &&
            dice(1000) >= path->loss)
            dgram_search_passed(search, sizes[i]);
    return dgram_search_judge(search);
}

/* Returns the number of rounds until it is found. */
static unsigned find(uint16_t largest, struct path *path, uint16_t *found)
{
    struct dgram_search search = {0};
    dgram_search_begin(&search, largest, 0);
    for (unsigned round = 1; round < 1000; round++)
        if (play(&search, path) == DGRAM_FOUND) {
            *found = search.small;
            return round;
        }
    fail_msg("a path of %u bytes, of %u, is not found in 1,000 rounds", path->carries, largest);
    return 0;
}

static void every_size_is_found(void **state)
{
    static const uint16_t largest[] = {592, 1440, 1472, 3968, 8944, 32768, AQI_DGRAM_MOST_PACKET};
    for (unsigned l = 0; l < AQI_COUNT_OF(largest); l++)
        for (unsigned carries = AQI_DGRAM_LEAST_PACKET;
             carries<largest[l]; carries += largest[l]> 9000 ? 333 : 1) {
            struct path path = {.carries = carries};
            uint16_t found;
            unsigned rounds = find(largest[l], &path, &found);
            assert_int_equal(found, carries / 16 * 16);
            assert_true(rounds <= (carries >= 8960 ? 20 : largest[l] > 8960 ? 9 : 8));
            assert_true(path.bytes <= (size_t)largest[l] * (largest[l] > 8960 ? 4 : 10) * rounds);
        }
}

/*
 * Losses, unlike a limit of the path, may make the result too small, but not too large, and not
 * often.
 */
static void losses_make_it_longer(void **state)
{
    enum { TIMES = 2000 };
    static const unsigned losses[] = {10, 50, 200};
    for (unsigned l = 0; l < AQI_COUNT_OF(losses); l++) {
        unsigned smaller = 0, rounds = 0;
        for (unsigned i = 0; i < TIMES; i++) {
            struct path path = {.carries = AQI_DGRAM_LEAST_PACKET + dice(1472 - 576 - 1),
                                .loss = losses[l]};
            uint16_t found;
            rounds += find(1472, &path, &found);
            assert_true(found <= path.carries);
            smaller += found != path.carries / 16 * 16;
        }
        assert_true(smaller < TIMES / 50);
        assert_true(rounds < 25 * TIMES);
    }
}

/* A full buffer takes none of the packets, or some; another never takes large ones. */
static void what_does_not_leave_is_as_good_as_lost(void **state)
{
    struct dgram_search search = {0};
    dgram_search_begin(&search, 8944, 0);
    for (unsigned i = 0; i < 50; i++) {
        dgram_search_sent(&search, false);
        assert_int_equal(dgram_search_judge(&search), DGRAM_SILENT);
    }
    struct path some = {.carries = 1400, .refused = 100}, stuck = {.carries = 1400, .stuck = true};
    uint16_t found;
    assert_true(find(8944, &some, &found) >= 8);
    assert_int_equal(found, 1392);
    assert_true(find(8944, &stuck, &found) >= 8);
    assert_int_equal(found, 1392);
}

/*
 * A buffer that never holds a whole round: the small packets that the path carries still get
 * through, since rounds become short and begin with the smallest.
 */
static void long_rounds_become_short(void **state)
{
    struct dgram_search search = {0};
    uint16_t sizes[DGRAM_SEARCH_SIZES];
    dgram_search_begin(&search, 1472, 0);
    dgram_search_sent(&search, true);
    dgram_search_passed(&search, 576);
    assert_int_equal(dgram_search_judge(&search), DGRAM_GO_ON);
    assert_false(search.crowded);
    assert_int_equal(dgram_search_sizes(&search, sizes), DGRAM_SEARCH_SIZES);
    for (unsigned i = 0; i < 5; i++) {
        assert_false(search.crowded);
        dgram_search_sent(&search, true); /* and nothing passes */
        assert_int_equal(dgram_search_judge(&search), DGRAM_SILENT);
    }
    assert_true(search.crowded);
    assert_int_equal(dgram_search_sizes(&search, sizes), 2);
    assert_int_equal(sizes[1], 576);

    search = (struct dgram_search){0}; /* or some packets do not even leave */
    dgram_search_begin(&search, 1472, 0);
    dgram_search_sent(&search, false);
    assert_false(search.crowded); /* answers still belong to the long round */
    dgram_search_passed(&search, 1232);
    assert_int_equal(dgram_search_judge(&search), DGRAM_GO_ON);
    assert_true(search.crowded);
}

/* If nothing passes, as with a host that is down, the path is not known to be small. */
static void silence_says_nothing(void **state)
{
    struct dgram_search search = {0};
    struct path path = {.carries = 100};
    dgram_search_begin(&search, 1472, 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(play(&search, &path), DGRAM_SILENT);
    path.carries = 1400;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(play(&search, &path), DGRAM_GO_ON);
    path.carries = 100; /* what was known still holds, but not enough passes */
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(play(&search, &path), DGRAM_SILENT);
    path.carries = 1400;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(play(&search, &path), DGRAM_GO_ON);
    assert_int_equal(play(&search, &path), DGRAM_FOUND);
    assert_int_equal(search.small, 1392);
    assert_int_equal(play(&search, &path), DGRAM_FOUND); /* again; then after beginning anew */
    dgram_search_begin(&search, 1472, 0);
    assert_int_equal(search.small, 1392);
    dgram_search_begin(&search, 1472, 1);
    assert_int_equal(search.small, 0);
    dgram_search_begin(&search, 1024, 1);
    assert_int_equal(search.largest, 1024);
}

/* The route changes during the search, and sizes that have passed no longer do. */
static void path_shrinks_during_the_search(void **state)
{
    struct dgram_search search = {0};
    struct path path = {.carries = 1400};
    dgram_search_begin(&search, 1472, 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(play(&search, &path), DGRAM_GO_ON);
    path.carries = 640;
    for (unsigned i = 0; i < 8; i++) /* rounds of half a second: part of the peer's timeout */
        assert_int_equal(play(&search, &path), DGRAM_SILENT);
    assert_int_equal(play(&search, &path), DGRAM_GO_ON);
    unsigned rounds = 0;
    while (play(&search, &path) != DGRAM_FOUND)
        assert_true(++rounds < 24);
    assert_int_equal(search.small, 640);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_found),
        cmocka_unit_test(losses_make_it_longer),
        cmocka_unit_test(what_does_not_leave_is_as_good_as_lost),
        cmocka_unit_test(long_rounds_become_short),
        cmocka_unit_test(silence_says_nothing),
        cmocka_unit_test(path_shrinks_during_the_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
