/* Tests hca_link.c: an adapter that rejects some steps on the way to a connection. */
#include "transport/ibv/hca_world_test.h"

#include <errno.h>

enum { MEDIUM = 256, NEVER = 100 };

static struct {
    enum ibv_qp_state state, refuses; /* rejects the step to this state, this many times */
    unsigned times, destroyed;
} card;

static struct hca_tp *hca;
static struct hca_peer *peer;
static const struct hca_place place = {.mtu = IBV_MTU_1024};

static int card_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state to = attr->qp_state;
    if (to != IBV_QPS_RESET && to != card.state + 1) return EINVAL;
    if (to == card.refuses && card.times != 0) {
        card.times--;
        return EINVAL;
    }
    card.state = to;
    return 0;
}

static int card_destroy_one(struct ibv_qp *qp)
{
    card.destroyed++;
    return 0;
}

static int card_no_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    return ENODEV;
}

static struct ibv_ah *card_no_way(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    errno = EHOSTUNREACH;
    return NULL;
}

static int open_all(void **unused)
{
    memset(&card, 0, sizeof(card));
    card.state = IBV_QPS_INIT;
    world_open(MEDIUM);
    hca = ends[0].hca;
    peer = hca_peer_at(hca, 1);
    peer->generation = 1;
    peer->state = HCA_CALLING;
    return 0;
}

/* Connect it, as for each greeting that arrives while it is not connected. */
static void connect_it(void)
{
    peer->connected = true;
    hca_links_connect(hca, peer, &place, 1);
}

static void partial_connection_starts_over(void **unused)
{
    card.refuses = IBV_QPS_RTS;
    card.times = 2;
    for (unsigned i = 0; i < 2; i++) {
        connect_it();
        assert_false(peer->connected);
        assert_int_equal(peer->state, HCA_CALLING);
        assert_int_equal(card.state, IBV_QPS_INIT);
    }
    connect_it();
    assert_true(peer->connected);
    assert_int_equal(card.state, IBV_QPS_RTS);
    assert_int_equal(card.destroyed, 0); /* the peer knows this one */
}

static void failed_reset_loses_the_peer(void **unused)
{
    card.refuses = IBV_QPS_RTS;
    card.times = 1;
    connect_it();
    card.refuses = IBV_QPS_RTR;
    card.times = 1;
    connect_it();
    assert_int_equal(card.state, IBV_QPS_INIT);
    card.refuses = IBV_QPS_INIT;
    card.times = NEVER;
    card.state = IBV_QPS_RTS; /* which cannot be continued */
    connect_it();
    assert_int_equal(peer->state, HCA_DOWN);
    assert_int_equal(card.destroyed, 1);
    assert_null(peer->link[0].qp);
}

static void first_failure_to_connect_loses_the_peer(void **unused)
{
    peer->generation = 0;
    card.refuses = IBV_QPS_RTS;
    card.times = NEVER;
    connect_it();
    assert_int_equal(peer->state, HCA_DOWN);
    assert_int_equal(card.destroyed, 1);
    assert_null(peer->link[0].qp);
    assert_null(peer->link[0].sent);
}

/* While the address of a port moves. */
static void peer_without_route_stays_connected(void **unused)
{
    connect_it();
    peer->known = true;
    hca->greeter.calling = peer;
    hca_greet_timers(hca);
    assert_int_equal(peer->state, HCA_CALLING);
    assert_true(peer->connected);
    assert_int_equal(card.state, IBV_QPS_RTS);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WORLD_TEST(partial_connection_starts_over),
        WORLD_TEST(failed_reset_loses_the_peer),
        WORLD_TEST(first_failure_to_connect_loses_the_peer),
        WORLD_TEST(peer_without_route_stays_connected),
    };
    world_cards();
    hca_verbs.modify_qp = card_modify;
    hca_verbs.destroy_qp = card_destroy_one;
    hca_verbs.query_port = card_no_port;
    hca_verbs.create_ah = card_no_way;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
