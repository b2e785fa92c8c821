/*
 * Twin of hotel.c: thousands of guests, checked against a list; guests that stay long cost nothing.
 */
#include "dgram/hotel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUESTS = 1000 };

static struct dgram_hotel hotel;
static struct dgram_guest guests[GUESTS];
static uint64_t state;

static uint64_t any(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 20) % below;
}

static uint64_t earliest(void)
{
    uint64_t when = UINT64_MAX;
    for (unsigned i = 0; i < GUESTS; i++)
        if (guests[i].link != NULL && guests[i].when < when) when = guests[i].when;
    return when;
}

static void all_are_woken_in_time(void **unused)
{
    const char *seed = getenv("TEST_SEED");
    state = seed != NULL ? strtoull(seed, NULL, 0) : 1;
    uint64_t now = 5000000000;
    unsigned woken = 0;
    for (unsigned round = 0; round < 20000; round++) {
        struct dgram_guest *guest = &guests[any(GUESTS)];
        uint64_t far = UINT64_C(1) << (10 + any(28)); /* 1 us to 2 minutes */
        if (any(4) == 0)
            dgram_check_out(&hotel, guest);
        else
            dgram_check_in(&hotel, guest, now + any(far));
        uint64_t next = dgram_next_wake(&hotel), first = earliest();
        assert_true(next <= first);
        assert_true(first == UINT64_MAX || next != UINT64_MAX);
        now = any(3) == 0 && next != UINT64_MAX && next > now ? next : now + any(200000);
        while ((guest = dgram_wake_up(&hotel, now)) != NULL) {
            assert_true(guest->when <= now && guest->link == NULL);
            woken++;
        }
        assert_true(earliest() > now);
    }
    assert_true(woken > 5000);
    for (unsigned i = 0; i < GUESTS; i++)
        dgram_check_out(&hotel, &guests[i]);
    assert_int_equal(hotel.guests, 0);
    assert_true(dgram_next_wake(&hotel) == UINT64_MAX);
}

static void who_stays_long_wakes_nobody(void **unused)
{
    uint64_t now = UINT64_C(1) << 40, minute = 60000000000;
    unsigned wakes = 0, woken = 0;
    for (unsigned i = 0; i < GUESTS; i++) {
        dgram_check_in(&hotel, &guests[i], now + i * 1000000 + minute);
        assert_null(dgram_wake_up(&hotel, now + i * 1000000));
    }
    while (hotel.guests != 0) {
        now = dgram_next_wake(&hotel);
        wakes++;
        while (dgram_wake_up(&hotel, now) != NULL)
            woken++;
    }
    assert_int_equal(woken, GUESTS);
    assert_true(wakes < GUESTS + GUESTS / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_woken_in_time),
        cmocka_unit_test(who_stays_long_wakes_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
