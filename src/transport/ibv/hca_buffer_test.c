/* Tests buffers: adapters that register no more memory if little may be locked. */
#include "transport/ibv/hca_world_test.h"

#include <errno.h>

enum { MEDIUM = 256, MANY = 200 };

static uint32_t arrived;

static void on_message(void *arg, uint32_t source, const struct aqi_am *am)
{
    arrived++;
}

static struct ibv_mr *card_refuses(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    errno = ENOMEM;
    return NULL;
}

static int open_all(void **unused)
{
    arrived = 0;
    world_cards();
    world_open(MEDIUM);
    for (unsigned i = 0; i < ENDS; i++)
        ends[i].hca->rdma.tp.hooks.deliver = on_message;
    hca_verbs.reg_mr = card_refuses;
    return 0;
}

static aq_status request(unsigned from, unsigned to)
{
    struct aqi_am am = {.kind = AQI_AM_SHORT};
    return world_send(from, to, &am);
}

static void take_all(struct hca_tp *hca)
{
    while (hca->rdma.free != NULL)
        (void)aqi_rdma_get(&hca->rdma);
}

static void pass_on(void)
{
    for (unsigned i = 0; i < SENDS; i++)
        card_deliver(0, 1);
    for (unsigned i = 0; i < 2; i++)
        while (hca_progress_queues(ends[i].hca, AQI_PROGRESS_ALL) != 0)
            continue;
}

/* The buffers of unsignaled messages also come back. */
static void shortage_waits_for_buffers_in_use(void **unused)
{
    uint32_t sent = 0;
    for (unsigned i = 0; i < MANY; i++) {
        aq_status st = request(0, 1);
        assert_true(st == AQ_OK || st == AQ_AGAIN);
        sent += st == AQ_OK;
        if (st == AQ_AGAIN || i % 4 == 0) pass_on();
    }
    take_all(ends[0].hca); /* except for some in flight */
    assert_int_equal(request(0, 1), AQ_AGAIN);
    pass_on();
    assert_int_equal(request(0, 1), AQ_OK);
    pass_on();
    assert_int_equal(arrived, sent + 1);
    assert_int_equal(ends[0].hca->rdma.bounced, 0);
}

static void without_buffers_in_use_the_peer_fails(void **unused)
{
    struct hca_peer *peer = hca_peer_at(ends[0].hca, 1);
    take_all(ends[0].hca);
    assert_int_equal(request(0, 1), AQ_EPEER);
    assert_int_equal(peer->state, HCA_DOWN);
    assert_non_null(strstr(peer->rdma.why, "no buffer for messages: none:1 cannot register"));
}

/* There is a buffer to send from. */
static void without_buffer_for_the_reply_the_peer_fails(void **unused)
{
    struct hca_tp *hca = ends[0].hca;
    struct aqi_rdma_buf *last = aqi_rdma_get(&hca->rdma);
    take_all(hca);
    aqi_rdma_put(&hca->rdma, last);
    assert_int_equal(request(0, 1), AQ_EPEER);
    assert_int_equal(hca->rdma.bounced, 0);
    assert_int_equal(hca_peer_at(hca, 1)->awaited, 0);
    assert_int_equal(hca_peer_at(hca, 1)->state, HCA_DOWN);
}

static void a_peer_without_buffers_is_not_connected(void **unused)
{
    struct hca_tp *hca = ends[0].hca;
    take_all(hca);
    hca_peer_at(hca, 1)->posted = 0;
    assert_false(hca_message_prepare(hca, hca_peer_at(hca, 1)));
    assert_non_null(strstr(aq_error_message(), "cannot register"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WORLD_TEST(shortage_waits_for_buffers_in_use),
        WORLD_TEST(without_buffers_in_use_the_peer_fails),
        WORLD_TEST(without_buffer_for_the_reply_the_peer_fails),
        WORLD_TEST(a_peer_without_buffers_is_not_connected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
