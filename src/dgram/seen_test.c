/* Twin of seen.c: numbers in any order, also where they wrap, checked against an array. */
#include "dgram/seen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { NUMBERS = 20000, AHEAD = 3000 };

static bool arrived[NUMBERS];

static void check_words(const struct dgram_seen *seen, uint32_t first, unsigned base,
                        unsigned highest)
{
    uint64_t words[DGRAM_WINDOW / 64];
    memset(words, 0xff, sizeof(words));
    unsigned n = dgram_seen_words(seen, seen->base, words, DGRAM_WINDOW / 64);
    assert_int_equal(n, highest > base + 1 ? (highest - base - 1 + 63) / 64 : 0);
    for (unsigned i = 0; i < 64 * n; i++) {
        unsigned number = base + 1 + i;
        bool there = (words[i / 64] >> i % 64 & 1) != 0;
        assert_int_equal(there, number < highest && arrived[number]);
    }
    assert_int_equal(seen->highest, (uint32_t)(first + highest));
}

static void in_any_order(void **state)
{
    static const uint32_t firsts[] = {0, 12345, UINT32_MAX - 5000};
    for (unsigned f = 0; f < 3; f++) {
        struct dgram_seen seen = {.base = firsts[f], .highest = firsts[f]};
        unsigned base = 0, highest = 0;
        uint64_t dice = f + 1;
        memset(arrived, 0, sizeof(arrived));
        while (base < NUMBERS - AHEAD) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            unsigned number = base + (unsigned)(dice >> 33) % (dice >> 63 ? 4 : AHEAD);
            uint32_t seq = firsts[f] + number;
            assert_true(dgram_seen_fits(&seen, seq));
            assert_int_equal(dgram_seen_has(&seen, seq), arrived[number]);
            if (arrived[number]) continue;
            dgram_seen_mark(&seen, seq);
            arrived[number] = true;
            if (number >= highest) highest = number + 1;
            while (arrived[base])
                base++;
            assert_int_equal(seen.base, (uint32_t)(firsts[f] + base));
            if (dice % 64 == 0) check_words(&seen, firsts[f], base, highest);
        }
        assert_false(dgram_seen_fits(&seen, seen.base - 1));
        assert_true(dgram_seen_fits(&seen, seen.base + DGRAM_WINDOW - 1));
        assert_false(dgram_seen_fits(&seen, seen.base + DGRAM_WINDOW));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_any_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
