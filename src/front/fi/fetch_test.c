/*
 * Tests fetch.c: an endpoint that is closed while it fetches a message and the next one arrives.
 * The endpoints transfer as if each had a process of its own.
 */
#include "front/fi/sides_test.h"

enum { LEN = 4 << 20 };

static unsigned char sent[LEN], got[2][LEN];

static int open_world(void **state)
{
    (void)state;
    assert_int_equal(setenv("AQ_SHM_CMA", "no", 1), 0); /* a transfer takes several polls */
    sides_open();
    return 0;
}

static void test_closing_while_messages_arrive(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) /* one to connect */
        assert_int_equal(fi_recv(to.ep, got[i], LEN, NULL, to.other, NULL), 0);
    assert_int_equal(fi_send(from.ep, sent, 1, NULL, from.other, NULL), 0);
    side_await(&from);
    side_await(&to);
    assert_int_equal(fi_recv(to.ep, got[0], LEN, NULL, to.other, NULL), 0);
    struct afi_peer *peer = side_peer(&to);
    assert_non_null(peer);
    peer->local = false;
    assert_int_equal(fi_send(from.ep, sent, LEN, NULL, from.other, NULL), 0);
    for (uint64_t until = afi_deadline(PATIENCE_MS); aqi_list_is_empty(&afi.fetches);) {
        assert_true(afi_now() < until);
        afi_progress();
    }
    assert_int_equal(fi_send(from.ep, sent, LEN, NULL, from.other, NULL), 0);
    assert_int_equal(fi_close(&to.ep->fid), 0);
    assert_true(aqi_list_is_empty(&afi.fetches));
    assert_int_equal(fi_close(&from.ep->fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_closing_while_messages_arrive)};
    return cmocka_run_group_tests(tests, open_world, NULL);
}
