/* Tests hca_repair.c: an adapter that neither completes anything nor reports a failure. */
#include "transport/ibv/hca_world_test.h"

#include <errno.h>

enum { MEDIUM = 256 };
#define SECOND UINT64_C(1000000000)

static struct hca_tp *hca;
static struct hca_peer *peer;

static int open_all(void **unused)
{
    hca_config.timeout = 18; /* 1.07 s */
    hca_config.retries = 7;
    hca_config.silence_ns = 0;
    world_open(MEDIUM);
    hca = ends[0].hca;
    peer = hca_peer_at(hca, 1);
    hca->rdma.now = 1000 * SECOND;
    return 0;
}

static void send_one(void)
{
    struct aqi_am am = {.kind = AQI_AM_SHORT};
    assert_int_equal(world_send(0, 1, &am), AQ_OK);
}

static void look(uint64_t later)
{
    hca->rdma.now += later;
    hca_repair_look(hca);
}

static uint32_t under_way(void)
{
    return ends[0].to[1].head - ends[0].to[1].tail;
}

static void deliver_one(void)
{
    card_deliver(0, 1);
    (void)hca_progress_queues(hca, AQI_PROGRESS_ALL);
}

/* As after both have new queue pairs. */
static void agree(void)
{
    hca->broken = NULL;
    peer->broken = false;
    peer->state = HCA_UP;
    peer->link[0].since = 0;
}

static void later_request_completes_messages(void **unused)
{
    send_one();
    look(SECOND);
    look(35 * SECOND);
    assert_int_equal(under_way(), 2);
    assert_false(peer->broken);
    look(34 * SECOND);
    deliver_one();
    deliver_one();
    assert_int_equal(hca->out, 0);
    look(35 * SECOND);
    assert_false(peer->broken);
    assert_true(hca_repair_deadline(hca) == AQI_NO_DEADLINE);
}

static void stalled_adapter_causes_reconnection(void **unused)
{
    uint64_t timeout = UINT64_C(32) * 4096 << 18; /* 34 s */
    send_one();
    assert_true(hca_repair_deadline(hca) == hca->rdma.now + timeout);
    look(0);
    look(timeout - 1);
    assert_int_equal(under_way(), 1);
    look(1);
    assert_int_equal(under_way(), 2);
    look(timeout - 1);
    assert_false(peer->broken);
    assert_true(hca_repair_deadline(hca) == hca->rdma.now + 1);
    look(1);
    assert_true(peer->broken);
}

static void timeout_doubles_after_each_stall(void **unused)
{
    hca_config.silence_ns = SECOND;
    send_one();
    look(0);
    look(SECOND); /* the mark */
    for (unsigned times = 0; times < 14; times++) {
        uint64_t timeout = SECOND << aqi_min(times, 10);
        look(0);
        look(timeout - 1);
        assert_false(peer->broken);
        look(1);
        assert_true(peer->broken);
        agree();
    }
    deliver_one();
    deliver_one();
    look(0);
    send_one();
    look(0);
    look(SECOND);
    assert_int_equal(under_way(), 1 + 1);
}

static void slow_adapter_keeps_the_connection(void **unused)
{
    hca_config.silence_ns = SECOND;
    for (unsigned i = 0; i < DEPTH; i++) {
        send_one();
        hca_link_mark(hca, peer, 0);
    }
    while (under_way() != 0) {
        look(SECOND - 1);
        deliver_one();
        deliver_one();
    }
    assert_false(peer->broken);
}

/* Time with nothing in flight does not count. */
static void idle_time_does_not_count(void **unused)
{
    send_one();
    look(0);
    hca_link_mark(hca, peer, 0);
    deliver_one();
    deliver_one();
    look(SECOND);
    hca->rdma.now += 1000 * SECOND;
    send_one();
    look(SECOND);
    look(SECOND);
    assert_int_equal(under_way(), 1);
    assert_false(peer->broken);
}

static void fail_one(enum ibv_wc_status status)
{
    const struct ibv_wc wc = {.wr_id = ends[0].to[1].parcels[ends[0].to[1].tail % WIRE].wr_id,
                              .qp_num = peer->link[0].qpn,
                              .status = status};
    ends[0].to[1].tail = ends[0].to[1].head;
    hca_link_completed(hca, &wc);
}

/* The receive buffers of a dying process may go first. */
static void one_failed_receive_does_not_lose_the_peer(void **unused)
{
    send_one();
    fail_one(IBV_WC_REM_OP_ERR);
    assert_true(peer->broken);
    assert_false(peer->rdma.down);
    agree();
    send_one();
    fail_one(IBV_WC_REM_OP_ERR);
    assert_true(peer->rdma.down);
}

static int card_reject(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    *bad = wr;
    return EINVAL;
}

static void expect_loss_by_sending(void)
{
    struct aqi_am am = {.kind = AQI_AM_SHORT};
    assert_int_equal(world_send(0, 1, &am), AQ_EPEER);
    assert_true(peer->rdma.down);
    assert_int_equal(hca->rdma.bounced, 0);
}

static void rejected_message_loses_the_peer(void **unused)
{
    send_one();
    ends[0].context.ops.post_send = card_reject;
    expect_loss_by_sending();
}

static void rejected_repetition_loses_the_peer(void **unused)
{
    send_one();
    peer->again = calloc(1, sizeof(*peer->again));
    assert_non_null(peer->again);
    peer->again[peer->again_count++] = *hca_link_take(hca, &peer->link[0]);
    hca->rdma.waiting++;
    ends[0].context.ops.post_send = card_reject;
    expect_loss_by_sending();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WORLD_TEST(later_request_completes_messages),
        WORLD_TEST(stalled_adapter_causes_reconnection),
        WORLD_TEST(timeout_doubles_after_each_stall),
        WORLD_TEST(slow_adapter_keeps_the_connection),
        WORLD_TEST(idle_time_does_not_count),
        WORLD_TEST(one_failed_receive_does_not_lose_the_peer),
        WORLD_TEST(rejected_message_loses_the_peer),
        WORLD_TEST(rejected_repetition_loses_the_peer),
    };
    world_cards();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
