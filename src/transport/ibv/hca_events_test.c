/* Tests hca_events.c, with an adapter of two ports whose events and addresses the test chooses. */
#include "transport/ibv/hca_impl.h"

#include "base/capture_test.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RAILS = 2, GIDS = 4, SECOND = 1000000000 };

static struct {
    struct ibv_device device;
    struct ibv_context context[RAILS];
    struct ibv_async_event event[RAILS];
    bool pending[RAILS];
    unsigned char gid[RAILS][GIDS][16];
} card;

static struct hca_tp hca;
static struct hca_peer peer;
static struct aqi_rdma_peer *peers[] = {&peer.rdma};

static int card_event(struct ibv_context *context, struct ibv_async_event *event)
{
    unsigned r = (unsigned)(context - card.context);
    if (!card.pending[r]) {
        errno = EAGAIN;
        return -1;
    }
    card.pending[r] = false;
    *event = card.event[r];
    return 0;
}

static void card_ack(struct ibv_async_event *event)
{
}

static const char *card_event_text(enum ibv_event_type type)
{
    return "an event";
}

static const char *card_name(struct ibv_device *device)
{
    return "no_such_adapter";
}

static int card_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    attr->active_mtu = IBV_MTU_1024;
    attr->gid_tbl_len = GIDS;
    return 0;
}

static int card_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    memcpy(gid->raw, card.gid[context - card.context][index], sizeof(gid->raw));
    return 0;
}

/* An address of an IPv4 network that ends with `last`, or a link-local one. */
static void give_address(unsigned rail, unsigned index, unsigned char last)
{
    unsigned char *gid = card.gid[rail][index];
    memset(gid, 0, 16);
    if (last == 0) gid[0] = 0xfe;
    if (last != 0) gid[10] = gid[11] = 0xff;
    gid[15] = last;
}

static void tell(unsigned rail, enum ibv_event_type type, int port)
{
    card.pending[rail] = true;
    card.event[rail] = (struct ibv_async_event){.element.port_num = port, .event_type = type};
}

/* As after a reconnection: both sides have agreed on the excluded rails. */
static void agree(void)
{
    hca.broken = NULL;
    peer.broken = false;
    peer.state = HCA_UP;
}

static int open_all(void **unused)
{
    memset(&card, 0, sizeof(card));
    memset(&hca, 0, sizeof(hca));
    memset(&peer, 0, sizeof(peer));
    hca_verbs.get_async_event = card_event;
    hca_verbs.ack_async_event = card_ack;
    hca_verbs.event_type_str = card_event_text;
    hca_verbs.get_device_name = card_name;
    hca_verbs.query_port = card_port;
    hca_verbs.query_gid = card_gid;
    hca_config = (struct hca_config){.gid = "auto"};
    hca.rdma.driver = &hca_driver;
    hca.rdma.peers = peers;
    hca.rdma.params.size = 1;
    hca.rails = peer.addr.rails = RAILS;
    hca.rdma.now = SECOND;
    for (unsigned r = 0; r < RAILS; r++) {
        card.context[r].device = &card.device;
        give_address(r, 0, 0);
        give_address(r, 1, (unsigned char)(r + 1));
        struct hca_rail *rail = &hca.rail[r];
        rail->context = &card.context[r];
        rail->port = (uint8_t)(r + 1);
        rail->gid_index = 1;
        rail->gid_rank = 2;
        memcpy(rail->place.gid, card.gid[r][1], 16);
        rail->place.mtu = IBV_MTU_1024;
    }
    agree();
    return 0;
}

static void look(uint64_t later)
{
    hca.rdma.now += later;
    hca_events_look(&hca);
}

static void happens(unsigned rail, enum ibv_event_type type, int port)
{
    tell(rail, type, port);
    look(0);
}

static void lose(unsigned rail)
{
    happens(rail, IBV_EVENT_PORT_ERR, (int)rail + 1);
    assert_true(peer.broken);
    assert_int_equal(peer.failed, 1u << rail);
    agree();
}

static void a_port_that_is_back_is_used_again_a_second_later(void **unused)
{
    lose(0);
    assert_true(hca_events_deadline(&hca) == AQI_NO_DEADLINE);
    happens(0, IBV_EVENT_PORT_ACTIVE, 1);
    assert_true(hca_events_deadline(&hca) == hca.rdma.now + SECOND);
    look(SECOND - 1);
    assert_false(peer.broken);
    look(1);
    assert_true(peer.broken);
    assert_int_equal(peer.failed, 0);
    assert_true(hca_events_deadline(&hca) == AQI_NO_DEADLINE);
}

static void one_that_flaps_is_not(void **unused)
{
    lose(1);
    happens(1, IBV_EVENT_PORT_ACTIVE, 2);
    tell(1, IBV_EVENT_PORT_ERR, 2);
    look(SECOND / 2);
    look(SECOND);
    assert_false(peer.broken);
    assert_int_equal(peer.failed, 2);
}

static void events_of_other_ports_are_ignored(void **unused)
{
    happens(0, IBV_EVENT_PORT_ERR, 2);
    assert_false(peer.broken || hca.down != 0);
}

static const char *said_of(unsigned rail, enum ibv_event_type type, int port)
{
    static struct capture capture;
    capture_start(&capture);
    happens(rail, type, port);
    return capture_end(&capture);
}

static void report_says_whether_other_ports_take_over(void **unused)
{
    snprintf(hca.rail[0].name, sizeof(hca.rail[0].name), "card:1");
    assert_string_equal(said_of(0, IBV_EVENT_PORT_ERR, 2), "");
    assert_non_null(
        strstr(said_of(0, IBV_EVENT_PORT_ERR, 1), "card:1: an event; others take over"));
    assert_non_null(strstr(said_of(1, IBV_EVENT_PORT_ERR, 2), "no other port is left"));
    assert_non_null(strstr(said_of(0, IBV_EVENT_PORT_ACTIVE, 1), "card:1: an event"));
    assert_string_equal(said_of(0, IBV_EVENT_PORT_ACTIVE, 1), "");
}

/* Meanwhile there is only a link-local address, by which no peer is reachable. */
static void missing_address_is_awaited(void **unused)
{
    lose(0);
    memset(card.gid[0][1], 0, 16);
    happens(0, IBV_EVENT_PORT_ACTIVE, 1);
    look(SECOND);
    assert_false(peer.broken);
    assert_int_equal(hca.rail[0].gid_index, 1);
    give_address(0, 2, 1);
    look(SECOND);
    assert_true(peer.broken);
    assert_int_equal(peer.failed, 0);
    assert_int_equal(hca.rail[0].gid_index, 2);
}

/* With the same address, working connections are not disturbed; a new address is announced to all
 * peers. */
static void only_a_new_address_causes_reconnection(void **unused)
{
    memset(card.gid[1][1], 0, 16);
    give_address(1, 3, 2);
    happens(1, IBV_EVENT_GID_CHANGE, 2);
    look(SECOND);
    assert_false(peer.broken);
    assert_int_equal(hca.rail[1].gid_index, 3);
    give_address(1, 3, 9);
    happens(1, IBV_EVENT_GID_CHANGE, 2);
    look(SECOND);
    assert_true(peer.broken);
    assert_int_equal(hca.rail[1].place.gid[15], 9);
}

/*
 * The port number of such an event is meaningless. Later events of its port do not bring the
 * adapter back, even if the other one fails as well.
 */
static void an_adapter_that_fails_is_left_for_the_other(void **unused)
{
    happens(0, IBV_EVENT_DEVICE_FATAL, 0);
    assert_true(peer.broken);
    assert_int_equal(peer.failed, 1);
    agree();
    happens(0, IBV_EVENT_PORT_ACTIVE, 1);
    look(2 * SECOND);
    assert_false(peer.broken);
    assert_true(hca_events_deadline(&hca) == AQI_NO_DEADLINE);
    hca_repair_without(&hca, &peer, 1, "no acknowledgement");
    assert_true(peer.broken);
    assert_int_equal(peer.failed, 1);
}

static void without_another_its_peers_are_lost(void **unused)
{
    happens(1, IBV_EVENT_DEVICE_FATAL, 0);
    agree();
    happens(0, IBV_EVENT_DEVICE_FATAL, 0);
    assert_int_equal(peer.state, HCA_DOWN);
    assert_ptr_equal(hca.rdma.lost, &peer);
    assert_non_null(strstr(peer.rdma.why, "has failed completely, and no other adapter"));
}

/* Its pending greetings no longer take up room, and later calls fail at once. */
static void pending_greetings_of_a_failed_adapter_end(void **unused)
{
    hca.greeter.out = 5;
    hca.greeter.out_by[0] = 3;
    hca.greeter.out_by[1] = 2;
    happens(0, IBV_EVENT_DEVICE_FATAL, 0);
    const struct ibv_wc left = {.status = IBV_WC_SUCCESS};
    hca_greet_sent(&hca, 0, &left); /* dropped */
    hca_greet_sent(&hca, 1, &left);
    assert_int_equal(hca.greeter.out, 1);
    happens(1, IBV_EVENT_DEVICE_FATAL, 0);
    assert_int_equal(hca.greeter.out, 0);
    hca.rdma.lost = NULL;
    peer = (struct hca_peer){.addr = peer.addr, .known = true, .state = HCA_CALLING};
    hca.greeter.calling = &peer;
    hca_greet_timers(&hca);
    assert_int_equal(peer.state, HCA_DOWN);
    assert_null(hca.greeter.calling);
    assert_non_null(strstr(peer.rdma.why, "every adapter that reaches it has failed completely"));
}

static unsigned greeter_states, greeter_receives;

static int greeter_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    assert_ptr_equal(qp, hca.greeter.qp[1]);
    assert_int_equal(attr->qp_state, greeter_states++);
    return 0;
}

static int greeter_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    assert_int_equal(wr->wr_id >> 8, HCA_GREETINGS + greeter_receives++);
    return 0;
}

static const char *greeter_status(enum ibv_wc_status status)
{
    return "no route";
}

/* Its queue pair keeps its number, which peers know; flushed requests are not counted again. */
static void failed_greeting_resets_the_queue_pair(void **unused)
{
    static unsigned char memory[1];
    struct ibv_qp qp = {.context = &card.context[1]};
    struct ibv_mr mr = {.lkey = 1};
    const struct aqi_rdma_chunk chunk = {.memory = memory, .mr[1] = &mr};
    card.context[1].ops.post_recv = greeter_receive;
    hca_verbs.modify_qp = greeter_modify;
    hca_verbs.wc_status_str = greeter_status;
    hca.greeter = (struct hca_greeter){.qp[1] = &qp, .chunk = &chunk, .out = 5, .out_by = {2, 3}};
    greeter_states = greeter_receives = 0;
    hca_greet_sent(&hca, 1, &(struct ibv_wc){.status = IBV_WC_LOC_QP_OP_ERR});
    assert_int_equal(greeter_states, IBV_QPS_RTS + 1); /* reset, init, rtr, rts */
    assert_int_equal(greeter_receives, HCA_GREETINGS);
    assert_int_equal(hca.greeter.out, 2);
    hca_greet_sent(&hca, 1, &(struct ibv_wc){.status = IBV_WC_WR_FLUSH_ERR});
    hca_greet_received(&hca, 1, &(struct ibv_wc){.status = IBV_WC_WR_FLUSH_ERR});
    hca_greet_sent(&hca, 1, &(struct ibv_wc){.status = IBV_WC_SUCCESS}); /* a late one */
    assert_int_equal(hca.greeter.out, 2);
    assert_int_equal(greeter_states, IBV_QPS_RTS + 1);
    hca_greet_sent(&hca, 0, &(struct ibv_wc){.status = IBV_WC_SUCCESS});
    assert_int_equal(hca.greeter.out, 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_port_that_is_back_is_used_again_a_second_later, open_all),
        cmocka_unit_test_setup(one_that_flaps_is_not, open_all),
        cmocka_unit_test_setup(events_of_other_ports_are_ignored, open_all),
        cmocka_unit_test_setup(report_says_whether_other_ports_take_over, open_all),
        cmocka_unit_test_setup(missing_address_is_awaited, open_all),
        cmocka_unit_test_setup(an_adapter_that_fails_is_left_for_the_other, open_all),
        cmocka_unit_test_setup(without_another_its_peers_are_lost, open_all),
        cmocka_unit_test_setup(pending_greetings_of_a_failed_adapter_end, open_all),
        cmocka_unit_test_setup(failed_greeting_resets_the_queue_pair, open_all),
        cmocka_unit_test_setup(only_a_new_address_causes_reconnection, open_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
