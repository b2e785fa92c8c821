/* Tests peer.c: what arrives before the event that its connection is open. */
#include "front/fi/sides_test.h"

enum { LEN = 64, KEY = 7, POLLS = 1000 };

static unsigned char memory[LEN], got[LEN];

static int open_world(void **state)
{
    sides_open();
    return 0;
}

/* Handle all events up to the one that `peer` is connected, and return that. */
static aq_connection_event await_opened(const struct afi_peer *peer)
{
    aq_connection_event event;
    for (uint64_t until = afi_deadline(TIMEOUT_MS);;) {
        assert_true(aqi_now_ns() < until);
        (void)!aq_poll();
        if (aq_connection_next_event(&event) != AQ_OK) continue;
        if (event.type == AQ_CONNECTION_OPENED && event.context == peer) return event;
        afi_peer_event(&event);
    }
}

static void test_early_request(void **state)
{
    struct fid_mr *mr;
    memset(memory, 5, LEN);
    assert_int_equal(fi_mr_reg(world.domain, memory, LEN, FI_REMOTE_READ, 0, KEY, 0, &mr, NULL), 0);
    struct afi_peer *reader = side_peer(&from);
    struct afi_peer *owner = side_peer(&to);
    assert_int_equal(
        fi_read(from.ep, got, LEN, NULL, from.other, side_address(memory), fi_mr_key(mr), NULL), 0);
    afi_lock();
    aq_connection_event opened = await_opened(owner);
    assert_int_equal(reader->state, AFI_UP);
    afi_wire_push(reader);
    for (unsigned i = 0; i < POLLS; i++)
        (void)!aq_poll();
    afi_peer_event(&opened);
    afi_unlock();
    side_await(&from);
    assert_memory_equal(got, memory, LEN);
    assert_int_equal(fi_close(&mr->fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_early_request)};
    return cmocka_run_group_tests(tests, open_world, NULL);
}
