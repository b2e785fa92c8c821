/* ofi: which peers are notified that they are lost here, and what such a peer does. */
#include "transport/ofi/ofi_peer_world_test.h"

#include "base/capture_test.h"

#include <string.h>

/* Only their addresses matter: progress opens the endpoint. */
static struct fid_domain domain;
static struct fid_cq queue;

static struct ofi_tp ofi;
static struct ofi_peer peer;

static int begin(void **state)
{
    ofi = (struct ofi_tp){.rdma.driver = &ofi_driver, .domain = &domain, .cq = &queue};
    peer_begin(&peer, 0, 3);
    return 0;
}

static void peer_that_fails_here_is_notified(void **state)
{
    aqi_rdma_fail(&ofi.rdma, &peer.rdma, "the source of a put can no longer be read");
    assert_true(peer.parting);
    assert_true(ofi.farewell.due);
    assert_int_equal(ofi_arm(&ofi.rdma.tp, true), AQ_AGAIN); /* progress must not stop */
    peer.parting = ofi.farewell.due = false;
    ofi_flush_received(&ofi, &peer, OFI_FLUSH, 1); /* it has not been notified */
    assert_true(peer.parting);
    assert_true(ofi.farewell.due);
}

static void other_peers_are_not_notified(void **state)
{
    aqi_rdma_disconnect(&ofi.rdma.tp, &peer.rdma.peer); /* it has ended */
    assert_true(peer.rdma.down);
    assert_false(ofi.farewell.due);
    ofi_flush_received(&ofi, &peer, OFI_FLUSH, 1); /* sent before it ended */
    assert_false(ofi.farewell.due);
    begin(state);
    peer.addr = FI_ADDR_NOTAVAIL; /* it was never reached */
    aqi_rdma_fail(&ofi.rdma, &peer.rdma, "its address is malformed");
    assert_false(ofi.farewell.due);
    begin(state);
    ofi.rdma.draining = true; /* this process ends */
    aqi_rdma_fail(&ofi.rdma, &peer.rdma, "its connection broke");
    assert_false(ofi.farewell.due);
}

static void notified_peer_loses_the_sender_and_is_silent(void **state)
{
    struct ofi_buf buf = {.number = 1};
    ofi_flush_keep(&ofi, &peer, &buf);
    ofi_flush_received(&ofi, &peer, OFI_FAREWELL, 0);
    assert_true(peer.rdma.down);
    assert_null(peer.kept);
    assert_ptr_equal(ofi.rdma.lost, &peer);
    assert_non_null(strstr(peer.rdma.why, "it has lost its connection to this process"));
    assert_false(ofi.farewell.due);
    ofi_flush_received(&ofi, &peer, OFI_FAREWELL, 0);
    assert_ptr_equal(ofi.rdma.lost, &peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(peer_that_fails_here_is_notified, begin),
        cmocka_unit_test_setup(other_peers_are_not_notified, begin),
        cmocka_unit_test_setup(notified_peer_loses_the_sender_and_is_silent, begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
