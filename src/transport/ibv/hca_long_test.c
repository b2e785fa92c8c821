/* Tests hca_long.c: the requests posted for a Long, and what happens if the connection breaks. */
#include "transport/ibv/hca_world_test.h"

enum { MEDIUM = 4032, SLOTS = 16, SLOT = 40000, PIECE = 16384, PIECES = 4, LONG = 5000 };

static unsigned char source[SLOT], memory[SLOTS * SLOT];
static struct aqi_mem *here, *there;
static struct aqi_rmem *rmem;
static struct hca_tp *hca;
static struct hca_peer *peer;

/*
 * The contents sent into each slot; the handler overwrites them, and nothing may be written after
 * it.
 */
static struct {
    uint32_t seed, len, handled, sent;
} slots[SLOTS];

static void fill(unsigned char *at, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)(seed * 31 + i * 7 + i / 251);
}

static bool is_filled(const unsigned char *at, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++)
        if (at[i] != (unsigned char)(seed * 31 + i * 7 + i / 251)) return false;
    return true;
}

/* As passed by fallback.c. */
static void on_long(void *arg, uint32_t from, const struct aqi_am *am)
{
    assert_int_equal(from, 0);
    if (am->kind == AQI_AM_INTERNAL) {
        assert_int_equal(am->handler, AQI_AM_INTERNAL_VOID);
        assert_int_equal(am->nbytes, 0);
        return;
    }
    unsigned char *at = (void *)(uintptr_t)am->addr;
    uint32_t slot = (uint32_t)am->args[0];
    assert_int_equal(am->kind, AQI_AM_LONG_HEADER);
    assert_ptr_equal(at, memory + (size_t)slot * SLOT);
    assert_int_equal(am->nbytes, slots[slot].len);
    assert_true(is_filled(at, am->nbytes, slots[slot].seed));
    memset(at, 0xee, am->nbytes);
    slots[slot].handled++;
}

static struct ibv_qp *card_make(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return &end_of(pd->context)->qp[1];
}

static int card_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    return 0;
}

static int open_all(void **unused)
{
    memset(slots, 0, sizeof(slots));
    hca_config.registration = UINT64_C(1) << 30;
    hca_config.piece = PIECE;
    hca_config.sends = PIECES;
    hca_config.bounce_limit = 1 << 16;
    world_open(MEDIUM);
    hca = ends[0].hca;
    peer = hca_peer_at(hca, 1);
    ends[1].hca->rdma.tp.hooks.deliver = on_long;
    for (unsigned i = 0; i < 2; i++)
        ends[i].hca->rail[0].device.max_mr_size = UINT64_MAX;
    assert_int_equal(aqi_rdma_mem_reg(&hca->rdma.tp, source, sizeof(source), &here), AQ_OK);
    assert_int_equal(aqi_rdma_mem_reg(&ends[1].hca->rdma.tp, memory, sizeof(memory), &there),
                     AQ_OK);
    assert_int_equal(aqi_rdma_mem_map(&hca->rdma.tp, &peer->rdma.peer, there->key, there->key_len,
                                      (uintptr_t)memory, sizeof(memory), &rmem),
                     AQ_OK);
    hca_verbs.create_qp = card_make;
    hca_verbs.modify_qp = card_modify;
    return 0;
}

static int close_all(void **unused)
{
    aqi_rdma_mem_unmap(&hca->rdma.tp, rmem);
    aqi_rdma_mem_dereg(&ends[1].hca->rdma.tp, there);
    aqi_rdma_mem_dereg(&hca->rdma.tp, here);
    world_close();
    return 0;
}

static aq_status am_long(const struct aqi_am *am, const struct aqi_rmem *to, struct aqi_comp *comp)
{
    return aqi_rdma_am_long(&hca->rdma.tp, &peer->rdma.peer, am, to, here, comp);
}

static aq_status send_long(uint32_t slot, uint32_t len, struct aqi_comp *comp, uint8_t flags)
{
    const int32_t args[] = {(int32_t)slot};
    slots[slot].seed = dice(1000);
    slots[slot].len = len;
    fill(source, len, slots[slot].seed);
    const struct aqi_am am = {.kind = AQI_AM_LONG,
                              .nargs = 1,
                              .flags = flags,
                              .nbytes = len,
                              .addr = (uintptr_t)memory + (size_t)slot * SLOT,
                              .args = args,
                              .payload = source};
    aq_status st = am_long(&am, rmem, comp);
    if (st == AQ_OK) slots[slot].sent++;
    if (comp == NULL) memset(source, 0x55, len); /* it was copied */
    return st;
}

static struct wire *wire(void)
{
    return &ends[0].to[1];
}

static uint32_t under_way(void)
{
    return wire()->head - wire()->tail;
}

static void progress(void)
{
    for (unsigned i = 0; i < 2; i++)
        (void)hca_progress_queues(ends[i].hca, AQI_PROGRESS_ALL);
    if (peer->state == HCA_UP && peer->again == NULL) aqi_rdma_push(&hca->rdma, &peer->rdma);
}

static void deliver_all(void)
{
    while (under_way() != 0) {
        card_deliver(0, 1);
        progress();
    }
}

/* Handle everything, and end unsignaled requests by later ones. */
static void settle(void)
{
    deliver_all();
    hca_link_mark(hca, peer, 0);
    deliver_all();
    assert_int_equal(hca->rdma.waiting + hca->rdma.bounced, 0);
    assert_null(peer->rdma.ops);
    assert_int_equal(hca->rdma.ops.outstanding, 0);
}

/*
 * The connection ends at the request posted as number `place` of those in flight, and both sides
 * exchange greetings again.
 */
static void break_with(enum ibv_wc_status status, uint32_t place)
{
    const struct ibv_wc wc = {.wr_id = wire()->parcels[(wire()->tail + place) % WIRE].wr_id,
                              .qp_num = peer->link[0].qpn,
                              .status = status};
    hca_link_completed(hca, &wc);
    wire()->tail = wire()->head;
    progress();
    assert_true(peer->broken);
    hca_repair(hca);
    hca_greet_end(hca, peer);
    peer->arrived = hca_peer_at(ends[1].hca, 0)->received;
    peer->state = HCA_UP;
    peer->used = 1;
    if (peer->again != NULL) hca_repair_resume(hca, peer);
    progress();
}

static void check_kinds(const char *kinds)
{
    assert_int_equal(under_way(), strlen(kinds));
    for (uint32_t i = 0; i < under_way(); i++) {
        enum ibv_wr_opcode opcode = wire()->parcels[(wire()->tail + i) % WIRE].opcode;
        assert_int_equal(opcode, kinds[i] == 'w' ? IBV_WR_RDMA_WRITE : IBV_WR_SEND);
    }
}

/* Without waiting for a completion; there is one for all of it. */
static void one_is_a_write_and_a_send(void **unused)
{
    struct aqi_comp comp = {.local = 1, .remote = 7};
    assert_int_equal(send_long(0, LONG, &comp, 0), AQ_OK);
    check_kinds("ws");
    assert_true(wire()->parcels[0].signaled);
    assert_false(wire()->parcels[1].signaled);
    assert_ptr_equal(wire()->parcels[0].local, source);
    assert_int_equal(hca->rdma.waiting, 0);
    assert_int_equal(comp.local, 1);
    card_deliver(0, 1);
    card_deliver(0, 1);
    progress();
    assert_int_equal(comp.local, 0); /* before the header has been taken */
    assert_int_equal(slots[0].handled, 0);
    settle();
    assert_int_equal(slots[0].handled, 1);
    assert_int_equal(comp.remote, 7);
    assert_int_equal(comp.status, AQ_OK);
}

static void without_counters_a_copy_is_sent(void **unused)
{
    for (uint32_t reply = 0; reply < 2; reply++) {
        uint32_t awaited = peer->awaited;
        assert_int_equal(send_long(reply, LONG, NULL, reply ? AQI_AM_IS_REPLY : 0), AQ_OK);
        check_kinds("wws");
        assert_int_equal(peer->awaited, awaited + 1 - reply);
        if (reply == 0) settle();
    }
    assert_int_equal(slots[0].handled, 1);
    /* The first message of the other side is a reply to no request. */
    settle();
    assert_int_equal(slots[1].handled, 1);
}

static void several_pieces_come_before_the_header(void **unused)
{
    struct aqi_comp comp = {.local = 2};
    assert_int_equal(send_long(0, PIECE * 2 + 1, &comp, 0), AQ_OK);
    check_kinds("wwws");
    deliver_all();
    assert_int_equal(slots[0].handled, 1);
    assert_int_equal(comp.local, 1);
    /* There is no room for as many pieces of a copy. */
    assert_int_equal(send_long(1, SLOT, NULL, 0), AQ_OK);
    check_kinds("wwww");
    settle();
    assert_int_equal(slots[1].handled, 1);
}

static void the_header_waits_for_room(void **unused)
{
    struct aqi_comp comp = {.local = 1};
    hca->room = 1;
    assert_int_equal(send_long(0, LONG, &comp, 0), AQ_OK);
    check_kinds("w");
    assert_int_equal(hca->rdma.waiting, 1);
    hca->room = 0; /* though its piece has ended */
    deliver_all();
    assert_int_equal(hca->rdma.waiting, 1);
    hca->room = ENDS * SENDS;
    progress();
    check_kinds("s");
    settle();
    assert_int_equal(slots[0].handled, 1);
    assert_int_equal(comp.local, 0);
}

static void received_long_is_not_written_again(void **unused)
{
    struct aqi_comp comp = {.local = 1};
    assert_int_equal(send_long(0, LONG, &comp, 0), AQ_OK);
    /* It arrives, but the sender gets no completion. */
    for (unsigned i = 0; i < 3; i++)
        card_deliver(0, 1);
    ends[0].cq_tail = ends[0].cq_head;
    (void)hca_progress_queues(ends[1].hca, AQI_PROGRESS_ALL);
    assert_int_equal(slots[0].handled, 1);
    wire()->tail -= 2;
    break_with(IBV_WC_RETRY_EXC_ERR, 0);
    check_kinds("");
    assert_int_equal(comp.local, 0);
    assert_int_equal(comp.status, AQ_OK);
    settle();
}

static void long_without_header_is_sent_again(void **unused)
{
    struct aqi_comp comp = {.local = 1};
    assert_int_equal(send_long(0, LONG, &comp, 0), AQ_OK);
    for (unsigned i = 0; i < 2; i++)
        card_deliver(0, 1); /* the payload */
    ends[0].cq_tail = ends[0].cq_head;
    wire()->tail--;
    break_with(IBV_WC_RETRY_EXC_ERR, 0);
    check_kinds("ws");
    settle();
    assert_int_equal(slots[0].handled, 1);
    assert_int_equal(comp.local, 0);
    assert_int_equal(comp.status, AQ_OK);
}

/* The header then runs no handler, but returns the credit. */
static void long_rejected_twice_runs_no_handler(void **unused)
{
    struct aqi_comp comp = {.local = 1}, next = {.local = 1};
    assert_int_equal(send_long(0, PIECE + 1, &comp, 0), AQ_OK);
    assert_int_equal(send_long(1, LONG, &next, 0), AQ_OK);
    check_kinds("wwsws");
    break_with(IBV_WC_REM_ACCESS_ERR, 1);
    check_kinds("wwsws");
    assert_int_equal(comp.local, 1);
    break_with(IBV_WC_REM_ACCESS_ERR, 1);
    check_kinds("wsws");
    settle();
    assert_int_equal(comp.local, 0);
    assert_int_equal(comp.status, AQ_ERANGE);
    assert_int_equal(slots[0].handled, 0);
    assert_int_equal(hca_peer_at(ends[1].hca, 0)->received, 2);
    assert_int_equal(slots[1].handled, 1);
    assert_int_equal(next.status, AQ_OK);
}

static void longs_to_a_lost_peer_fail(void **unused)
{
    struct aqi_comp comp = {.local = 2};
    assert_int_equal(send_long(0, PIECE, &comp, 0), AQ_OK);
    hca->room = hca->out + 1;
    assert_int_equal(send_long(1, LONG, &comp, 0), AQ_OK);
    assert_int_equal(send_long(2, LONG, NULL, 0), AQ_OK);
    check_kinds("wsw");
    aqi_rdma_fail(&hca->rdma, &peer->rdma, "it is gone");
    assert_int_equal(comp.local, 0);
    assert_int_equal(comp.status, AQ_EPEER);
    assert_int_equal(hca->rdma.waiting + hca->rdma.bounced, 0);
    assert_null(peer->rdma.ops);
    assert_int_equal(send_long(3, LONG, NULL, 0), AQ_EPEER);
    assert_int_equal(hca->rdma.bounced, 0);
}

static void unsupported_longs_are_refused(void **unused)
{
    struct aqi_comp comp = {.local = 1};
    struct hca_rmem lent = *(struct hca_rmem *)rmem;
    struct aqi_am am = {.kind = AQI_AM_LONG,
                        .nbytes = LONG,
                        .addr = (uintptr_t)memory + sizeof(memory) - LONG + 1,
                        .payload = source};
    assert_int_equal(am_long(&am, rmem, &comp), AQ_ERANGE);
    lent.rdma.lent = true;
    am.addr--;
    assert_int_equal(am_long(&am, &lent.rdma.rmem, &comp), AQ_ENOTSUP);
    am.nbytes = 0;
    assert_int_equal(am_long(&am, rmem, &comp), AQ_ENOTSUP);
    peer->state = HCA_CALLING;
    am.nbytes = LONG;
    assert_int_equal(am_long(&am, rmem, &comp), AQ_AGAIN);
    assert_int_equal(am_long(&am, rmem, NULL), AQ_AGAIN);
    peer->state = HCA_UP;
    assert_int_equal(hca->rdma.bounced, 0);
    assert_int_equal(comp.status, AQ_OK);
    assert_int_equal(comp.local, 1);
    check_kinds("");
}

/* Send into a random slot if it is free. Nothing may have written to it since its handler ran. */
static void send_somewhere(struct aqi_comp *comp)
{
    uint32_t slot = dice(SLOTS);
    if (slots[slot].sent != slots[slot].handled || hca->rdma.waiting != 0) return;
    for (uint32_t i = 0; i < slots[slot].len; i++)
        assert_int_equal(memory[(size_t)slot * SLOT + i], 0xee);
    bool keeps = comp->local == 0 && dice(2) == 0;
    if (comp->local != 0) return;
    if (keeps) comp->local = 1;
    if (send_long(slot, MEDIUM + 1 + dice(SLOT - MEDIUM), keeps ? comp : NULL, 0) == AQ_OK) return;
    comp->local = 0;
}

static void each_arrives_once_whatever_breaks(void **unused)
{
    struct aqi_comp comp = {.local = 0};
    uint32_t sent = 0, handled = 0, broken = 0;
    for (unsigned step = 0; step < 200000; step++) {
        unsigned what = dice(100);
        if (what < 20) {
            send_somewhere(&comp);
        } else if (what < 80) {
            card_deliver(0, 1);
        } else if (what < 85 && under_way() != 0 && ends[0].cq_tail != ends[0].cq_head) {
            /* Some of it arrived, but the sender gets no completion. */
            ends[0].cq_tail = ends[0].cq_head;
            uint32_t unknown = peer->link[0].head - peer->link[0].tail;
            wire()->tail = wire()->head - unknown;
            break_with(IBV_WC_RETRY_EXC_ERR, 0);
            broken++;
        } else {
            progress();
        }
        assert_true(comp.status == AQ_OK);
    }
    settle();
    for (unsigned i = 0; i < SLOTS; i++) {
        assert_int_equal(slots[i].handled, slots[i].sent);
        sent += slots[i].sent;
        handled += slots[i].handled;
        for (uint32_t b = 0; b < slots[i].len; b++)
            assert_int_equal(memory[(size_t)i * SLOT + b], 0xee);
    }
    assert_int_equal(sent, handled);
    assert_true(sent > 1000 && broken > 100);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
        TEST(one_is_a_write_and_a_send),
        TEST(without_counters_a_copy_is_sent),
        TEST(several_pieces_come_before_the_header),
        TEST(the_header_waits_for_room),
        TEST(received_long_is_not_written_again),
        TEST(long_without_header_is_sent_again),
        TEST(long_rejected_twice_runs_no_handler),
        TEST(longs_to_a_lost_peer_fail),
        TEST(unsupported_longs_are_refused),
        TEST(each_arrives_once_whatever_breaks),
#undef TEST
    };
    world_cards();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
