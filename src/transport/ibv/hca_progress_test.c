/* Twin of hca_progress.c: how much a poll takes. */
#include "transport/ibv/hca_world_test.h"

enum { MEDIUM = 256, MANY = 5 * AQI_RDMA_BATCH + 3 };

static struct hca_tp *hca;
static bool answering; /* another message follows each one handled */

static void send_one(void)
{
    struct aqi_am am = {.kind = AQI_AM_SHORT};
    assert_int_equal(world_send(0, 1, &am), AQ_OK);
}

static void on_message(void *arg, uint32_t source, const struct aqi_am *am)
{
    struct end *end = arg;
    end->handled[source]++;
    if (!answering) return;
    (void)hca_progress_queues(hca, AQI_PROGRESS_ALL); /* its buffer is free again */
    send_one();
    card_deliver(0, 1);
}

static int open_all(void **unused)
{
    hca_config.spares = MANY;
    world_open(MEDIUM);
    hca_config.spares = 4;
    hca = ends[0].hca;
    ends[1].hca->rdma.tp.hooks.deliver = on_message;
    answering = false;
    return 0;
}

static void send_many(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (i % AQI_RDMA_BATCH == 0) (void)hca_progress_queues(hca, AQI_PROGRESS_ALL);
        send_one();
        card_deliver(0, 1);
    }
}

static void one_poll_takes_all_that_has_arrived(void **unused)
{
    for (unsigned count = 0; count <= MANY; count += count < 3 ? 1 : AQI_RDMA_BATCH - 1) {
        ends[1].handled[0] = 0;
        send_many(count);
        assert_int_equal(hca_progress_queues(ends[1].hca, AQI_PROGRESS_ALL), count);
        assert_int_equal(ends[1].handled[0], count);
        assert_int_equal(hca_progress_queues(ends[1].hca, AQI_PROGRESS_ALL), 0);
    }
}

/* Inside a handler, requests are only held. */
static void inside_a_handler_it_takes_a_batch(void **unused)
{
    send_many(MANY);
    assert_int_equal(hca_progress_queues(ends[1].hca, AQI_PROGRESS_REPLIES), AQI_RDMA_BATCH);
    assert_int_equal(ends[1].handled[0], 0);
    while (hca_progress_queues(ends[1].hca, AQI_PROGRESS_REPLIES) != 0)
        continue;
    while (aqi_rdma_deliver_held(&ends[1].hca->rdma) != 0)
        continue;
    assert_int_equal(ends[1].handled[0], MANY);
}

static void poll_ends_while_messages_arrive(void **unused)
{
    send_many(MANY);
    answering = true;
    unsigned taken = hca_progress_queues(ends[1].hca, AQI_PROGRESS_ALL);
    assert_in_range(taken, MANY + 1, CQES);
    answering = false;
    assert_int_equal(hca_progress_queues(ends[1].hca, AQI_PROGRESS_ALL), MANY);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WORLD_TEST(one_poll_takes_all_that_has_arrived),
        WORLD_TEST(inside_a_handler_it_takes_a_batch),
        WORLD_TEST(poll_ends_while_messages_arrive),
    };
    world_cards();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
