/* ofi: messages kept until they have arrived, early and duplicate ones, and broken connections. */
#include "transport/ofi/ofi_peer_world_test.h"

#include "base/capture_test.h"

#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct ofi_tp ofi;
static struct ofi_peer peer;

/* The state of a connected peer; there is no room, so nothing reaches a provider. */
static int begin(void **state)
{
    ofi = (struct ofi_tp){
        .rdma.driver = &ofi_driver, .limits.depth = 4, .look_at = AQI_NO_DEADLINE, .rdma.fd = -1};
    peer_begin(&peer, 0, 3);
    return 0;
}

static unsigned buffers_free(void)
{
    unsigned n = 0;
    for (const struct aqi_rdma_buf *buf = ofi.rdma.free; buf != NULL; buf = buf->next)
        n++;
    return n;
}

static void counts_of_the_peer_release(void **state)
{
    struct ofi_buf bufs[3] = {{.number = UINT32_MAX}, {.number = 0, .busy = true}, {.number = 1}};
    peer.given = peer.confirmed = UINT32_MAX - 1;
    for (unsigned i = 0; i < 3; i++)
        ofi_flush_keep(&ofi, &peer, &bufs[i]);
    ofi_flush_arrived(&ofi, &peer, 2); /* more than were sent */
    ofi_flush_arrived(&ofi, &peer, UINT32_MAX - 2);
    assert_ptr_equal(peer.kept, &bufs[0]);
    peer.again = &bufs[0];
    ofi_flush_arrived(&ofi, &peer, 0);
    assert_ptr_equal(peer.kept, &bufs[2]);
    assert_ptr_equal(peer.again, &bufs[2]);
    assert_int_equal(buffers_free(), 1); /* the provider has the second one */
    assert_false(bufs[1].kept);
    ofi_flush_arrived(&ofi, &peer, UINT32_MAX); /* an older count */
    assert_ptr_equal(peer.kept, &bufs[2]);
    ofi_flush_arrived(&ofi, &peer, 1);
    assert_null(peer.kept);
    assert_ptr_equal(peer.last_kept, &peer.kept);
}

static void each_comes_once_and_in_order(void **state)
{
    unsigned char bytes[64] = {[offsetof(struct aqi_am_wire, kind)] = AQI_AM_SHORT};
    struct ofi_buf five = {.number = 5, .rdma.bytes = bytes},
                   four = {.number = 4, .rdma.bytes = bytes},
                   again = {.number = 5, .rdma.bytes = bytes},
                   before = {.number = 2, .rdma.bytes = bytes},
                   far = {.number = 1000, .rdma.bytes = bytes},
                   seven = {.number = 7, .rdma.bytes = bytes};
    peer.received = 2;
    assert_true(ofi_flush_early(&ofi, &peer, &five));
    assert_true(ofi_flush_early(&ofi, &peer, &seven));
    assert_true(ofi_flush_early(&ofi, &peer, &four));
    assert_false(ofi_flush_early(&ofi, &peer, &again));
    assert_false(ofi_flush_early(&ofi, &peer, &before));
    assert_false(ofi_flush_early(&ofi, &peer, &far));
    assert_null(ofi_flush_next(&ofi, &peer)); /* the third is missing */
    peer.received = 3;
    assert_ptr_equal(ofi_flush_next(&ofi, &peer), &four);
    peer.received = 5; /* the fifth has arrived again, in order */
    assert_null(ofi_flush_next(&ofi, &peer));
    assert_int_equal(buffers_free(), 1);
    peer.received = 6;
    assert_ptr_equal(ofi_flush_next(&ofi, &peer), &seven);
    assert_null(peer.early);
}

static void late_messages_cause_queries(void **state)
{
    struct ofi_buf bufs[2] = {{.number = 1}, {.number = 2}};
    assert_int_equal(ofi_flush_look(&ofi, &peer, SECOND), AQI_NO_DEADLINE);
    ofi_flush_keep(&ofi, &peer, &bufs[0]);
    assert_int_equal(ofi.look_at, 0);
    ofi_flush_keep(&ofi, &peer, &bufs[1]);
    uint64_t at = ofi_flush_look(&ofi, &peer, SECOND);
    ofi_flush_arrived(&ofi, &peer, 1);
    uint64_t later = ofi_flush_look(&ofi, &peer, at);
    assert_true(later > at);
    assert_false(peer.ask); /* something has arrived meanwhile */
    uint64_t last = ofi_flush_look(&ofi, &peer, later);
    assert_true(peer.ask);
    assert_true(last - later > later - at);
}

/* Queries and their answers may also be lost. */
static void pauses_between_queries_are_bounded(void **state)
{
    struct ofi_buf buf = {.number = 1};
    ofi_flush_keep(&ofi, &peer, &buf);
    uint64_t at = ofi_flush_look(&ofi, &peer, SECOND), next;
    for (unsigned n = 0; n < 100; n++, at = next) {
        peer.ask = false;
        next = ofi_flush_look(&ofi, &peer, at);
        assert_true(peer.ask);
        assert_true(next - at <= 10 * SECOND);
    }
    peer.ask = false;
    peer.queries = 1; /* it has not left, so it is not lost */
    next = ofi_flush_look(&ofi, &peer, at);
    assert_false(peer.ask);
    peer.queries = 0;
    (void)ofi_flush_look(&ofi, &peer, next);
    assert_true(peer.ask);
}

static void peer_that_keeps_breaking_is_lost(void **state)
{
    ofi_config.repair_ns = 60 * SECOND;
    for (unsigned s = 1; s <= 61; s++) {
        ofi_flush_broken(&ofi, &peer, "reset");
        assert_int_equal(ofi.look_at, 0);
        (void)ofi_flush_look(&ofi, &peer, s * SECOND);
        assert_false(peer.rdma.down);
    }
    peer.asked = true; /* an answer: all is well */
    ofi_flush_received(&ofi, &peer, 2, peer.question);
    for (unsigned s = 100; s <= 160; s++) {
        ofi_flush_broken(&ofi, &peer, "reset");
        (void)ofi_flush_look(&ofi, &peer, s * SECOND);
        assert_false(peer.rdma.down);
    }
    ofi_flush_broken(&ofi, &peer, "reset");
    (void)ofi_flush_look(&ofi, &peer, 161 * SECOND);
    assert_true(peer.rdma.down);
    assert_ptr_equal(ofi.rdma.lost, &peer);
    assert_non_null(strstr(peer.rdma.why, "61 s"));
    assert_non_null(strstr(peer.rdma.why, "AQ_OFI_REPAIR_TIMEOUT"));
    assert_non_null(strstr(peer.rdma.why, "reset"));
}

static ssize_t nothing_read(struct fid_cq *cq, void *buf, size_t count)
{
    return -FI_EAGAIN;
}

/* If two threads call progress, the one that read its clock first may get the lock last. */
static void thread_whose_clock_is_older_breaks_nothing(void **state)
{
    struct aqi_rdma_peer *peers[] = {NULL, NULL, NULL, &peer.rdma};
    struct fi_ops_cq ops = {.size = sizeof(ops), .read = nothing_read};
    struct fid_cq queue = {.ops = &ops};
    ofi.rdma.peers = peers;
    ofi.rdma.params.size = 4;
    ofi.cq = &queue;
    ofi_config.repair_ns = 60 * SECOND;
    ofi_flush_broken(&ofi, &peer, "reset");
    (void)ofi_progress(&ofi.rdma.tp, AQI_PROGRESS_ALL, 2 * SECOND);
    assert_int_equal(peer.broken, 2 * SECOND);
    ofi_flush_broken(&ofi, &peer, "reset again");
    (void)ofi_progress(&ofi.rdma.tp, AQI_PROGRESS_ALL, 1 * SECOND);
    assert_false(peer.rdma.down);
    assert_int_equal(ofi.rdma.now, 2 * SECOND);
}

/* A query from the peer, at this second, while the first of our messages has not arrived. */
static bool is_lost_after_call(unsigned s)
{
    ofi.rdma.now = s * SECOND;
    ofi_flush_received(&ofi, &peer, 1, s);
    return peer.rdma.down;
}

static void peer_that_calls_and_gets_nothing_is_lost(void **state)
{
    struct fi_fabric_attr fabric = {.prov_name = (char[]){"tcp"}};
    struct fi_info info = {.fabric_attr = &fabric};
    struct ofi_buf bufs[2] = {{.number = 1}, {.number = 2}};
    struct ofi_op op = {.op = {.len = 8, .posted = 8}};
    ofi.info = &info;
    ofi_config.repair_ns = 60 * SECOND;
    for (unsigned s = 1; s < 200; s++) /* no operation is pending */
        assert_false(is_lost_after_call(s));
    ofi_flush_keep(&ofi, &peer, &bufs[0]);
    ofi_flush_keep(&ofi, &peer, &bufs[1]);
    assert_false(is_lost_after_call(200));
    for (unsigned s = 201; s <= 206; s++)
        assert_false(is_lost_after_call(s));
    assert_false(is_lost_after_call(300)); /* it may have been computing */
    ofi_flush_arrived(&ofi, &peer, 1);     /* an operation ends, so it starts over */
    for (unsigned s = 301; s <= 361; s++)
        assert_false(is_lost_after_call(s));
    ofi_flush_arrived(&ofi, &peer, 2);
    peer.rdma.ops = &op.op; /* a transfer also has to end */
    op.op.link = &peer.rdma.ops;
    peer.pieces++;
    for (unsigned s = 362; s <= 422; s++)
        assert_false(is_lost_after_call(s));
    op.op.comp = NULL;
    op.op.exposed = true;
    op.op.done = 4;
    assert_true(is_lost_after_call(423));
    assert_non_null(strstr(peer.rdma.why, "tcp has delivered nothing to it for 61 s"));
    assert_non_null(strstr(peer.rdma.why, "AQ_OFI_REPAIR_TIMEOUT"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(counts_of_the_peer_release, begin),
        cmocka_unit_test_setup(each_comes_once_and_in_order, begin),
        cmocka_unit_test_setup(late_messages_cause_queries, begin),
        cmocka_unit_test_setup(pauses_between_queries_are_bounded, begin),
        cmocka_unit_test_setup(peer_that_keeps_breaking_is_lost, begin),
        cmocka_unit_test_setup(peer_that_calls_and_gets_nothing_is_lost, begin),
        cmocka_unit_test_setup(thread_whose_clock_is_older_breaks_nothing, begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
