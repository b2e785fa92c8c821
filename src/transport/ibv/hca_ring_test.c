/* Twin of hca_ring.c: three processes in one, with adapters that do what they are given later. */
#include "transport/ibv/hca_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ENDS = 3, DEPTH = 8, SENDS = 64, MEDIUM = 256, WIRE = 256, CQES = 1024, STEPS = 200000 };

/* What was posted and has not arrived. */
struct parcel {
    enum ibv_wr_opcode opcode;
    uint64_t wr_id, remote;
    unsigned char *local;
    unsigned char bytes[512];
    uint32_t len;
    bool told, halfway;
};

struct wire {
    struct parcel parcels[WIRE];
    uint32_t head, tail;
};

static struct end {
    struct hca_tp *hca;
    struct ibv_context context;
    struct ibv_cq cq;
    struct ibv_srq srq;
    struct ibv_pd pd;
    struct ibv_qp qp[ENDS];
    struct wire to[ENDS];
    struct ibv_wc cqes[CQES];
    uint32_t cq_head, cq_tail;
    struct hca_buf *posted;
    bool asleep;
    uint32_t sent[ENDS], replied[ENDS], handled[ENDS], owed[ENDS], answers[ENDS];
} ends[ENDS];

static struct {
    uint64_t state;
    uint32_t written, slept;
} world;

static uint32_t dice(uint32_t sides)
{
    world.state = world.state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(world.state >> 33) % sides;
}

static struct end *end_of(const struct ibv_context *context)
{
    for (unsigned i = 0; i < ENDS; i++)
        if (&ends[i].context == context) return &ends[i];
    abort();
}

/* --- the adapter ----------------------------------------------------------------------------- */

static int card_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct end *end = end_of(qp->context);
    struct wire *wire = &end->to[qp - end->qp];
    (void)bad;
    assert_true(wire->head - wire->tail < WIRE);
    struct parcel *parcel = &wire->parcels[wire->head++ % WIRE];
    *parcel = (struct parcel){.opcode = wr->opcode,
                              .wr_id = wr->wr_id,
                              .remote = wr->wr.rdma.remote_addr,
                              .told = (wr->send_flags & IBV_SEND_SIGNALED) != 0};
    if (wr->num_sge == 0) return 0;
    parcel->len = wr->sg_list->length;
    parcel->local = (unsigned char *)(uintptr_t)wr->sg_list->addr;
    assert_true(parcel->len <= sizeof(parcel->bytes));
    if (wr->opcode != IBV_WR_RDMA_READ) memcpy(parcel->bytes, parcel->local, parcel->len);
    return 0;
}

static int card_receive(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct hca_buf *buf = (struct hca_buf *)(uintptr_t)(wr->wr_id & ~(uint64_t)3);
    struct end *end = end_of(srq->context);
    (void)bad;
    buf->next = end->posted;
    end->posted = buf;
    return 0;
}

static int card_poll(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    struct end *end = end_of(cq->context);
    int n = 0;
    while (n < most && end->cq_tail != end->cq_head)
        wc[n++] = end->cqes[end->cq_tail++ % CQES];
    return n;
}

static int card_arm(struct ibv_cq *cq, int solicited)
{
    (void)cq;
    (void)solicited;
    return 0;
}

static int no_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)
{
    (void)channel;
    (void)cq;
    (void)user;
    return -1;
}

static int no_async(struct ibv_context *context, struct ibv_async_event *event)
{
    (void)context;
    (void)event;
    return -1;
}

static struct ibv_mr *card_register(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    struct ibv_mr *mr = calloc(1, sizeof(*mr));
    (void)access;
    assert_non_null(mr);
    *mr = (struct ibv_mr){.pd = pd, .addr = addr, .length = len};
    return mr;
}

static int card_deregister(struct ibv_mr *mr)
{
    free(mr);
    return 0;
}

static int card_destroy(struct ibv_qp *qp)
{
    (void)qp;
    return 0;
}

static void card_complete(struct end *end, unsigned peer, uint64_t wr_id, uint32_t len)
{
    assert_true(end->cq_head - end->cq_tail < CQES);
    end->cqes[end->cq_head++ % CQES] = (struct ibv_wc){
        .wr_id = wr_id, .byte_len = len, .status = IBV_WC_SUCCESS, .qp_num = end->qp[peer].qp_num};
    end->asleep = false; /* it is woken */
}

/* The parts of a write come one after the other; who sleeps gets none but in its block. */
static bool card_write(struct end *there, struct parcel *parcel)
{
    const struct hca_rings *rings = &there->hca->rings;
    unsigned char *to = (unsigned char *)(uintptr_t)parcel->remote;
    uint32_t cut = parcel->halfway ? 0 : parcel->len / 2;
    assert_true(to >= rings->memory && to + parcel->len <= rings->memory + rings->len);
    if (to >= rings->slots) {
        assert_false(there->asleep);
        world.written += !parcel->halfway;
    } else {
        cut = 0;
    }
    memcpy(to, parcel->bytes, cut != 0 ? cut : parcel->len);
    parcel->halfway = true;
    return cut == 0;
}

static void card_deliver(unsigned from, unsigned to)
{
    struct end *here = &ends[from], *there = &ends[to];
    struct wire *wire = &here->to[to];
    if (wire->head == wire->tail) return;
    struct parcel *parcel = &wire->parcels[wire->tail % WIRE];
    if (parcel->opcode == IBV_WR_SEND) {
        struct hca_buf *buf = there->posted;
        assert_non_null(buf); /* nobody finds no buffer */
        there->posted = buf->next;
        memcpy(buf->bytes, parcel->bytes, parcel->len);
        card_complete(there, from, (uintptr_t)buf | HCA_WR_RECEIVE, parcel->len);
    } else if (parcel->opcode == IBV_WR_RDMA_READ) {
        memcpy(parcel->local, (void *)(uintptr_t)parcel->remote, parcel->len);
    } else if (parcel->len != 0 && !card_write(there, parcel)) {
        return;
    }
    wire->tail++;
    if (parcel->told) card_complete(here, to, parcel->wr_id, 0);
}

/* --- the processes --------------------------------------------------------------------------- */

static void answer(struct end *end, unsigned to)
{
    int32_t number = (int32_t)end->answers[to];
    struct aqi_am am = {
        .kind = AQI_AM_SHORT, .nargs = 1, .flags = AQI_AM_IS_REPLY, .args = &number};
    if (end->owed[to] == 0) return;
    if (hca_am_send(&end->hca->tp, &end->hca->peers[to]->peer, &am, NULL) != AQ_OK) return;
    end->owed[to]--;
    end->answers[to]++;
}

/* Each message comes once and in order, with what was sent. */
static void on_message(void *arg, uint32_t source, const struct aqi_am *am)
{
    struct end *end = arg;
    uint32_t number = (uint32_t)am->args[0];
    if ((am->flags & AQI_AM_IS_REPLY) != 0) {
        assert_int_equal(number, end->replied[source]++);
        return;
    }
    assert_int_equal(number, end->handled[source]++);
    for (uint32_t i = 0; am->kind == AQI_AM_MEDIUM && i < am->nbytes; i++)
        assert_int_equal(((const unsigned char *)am->payload)[i], (unsigned char)(number + i));
    end->owed[source]++;
    answer(end, source);
}

static void request(struct end *end, unsigned to)
{
    unsigned char payload[MEDIUM];
    int32_t number = (int32_t)end->sent[to];
    struct aqi_am am = {.kind = dice(2) != 0 ? AQI_AM_SHORT : AQI_AM_MEDIUM,
                        .nargs = 1,
                        .args = &number,
                        .payload = payload};
    if (end->sent[to] - end->replied[to] >= DEPTH) return;
    if (am.kind == AQI_AM_MEDIUM) am.nbytes = dice(MEDIUM + 1);
    for (uint32_t i = 0; i < am.nbytes; i++)
        payload[i] = (unsigned char)((uint32_t)number + i);
    if (hca_am_send(&end->hca->tp, &end->hca->peers[to]->peer, &am, NULL) == AQ_OK) end->sent[to]++;
}

static void end_open(unsigned self)
{
    struct end *end = &ends[self];
    struct hca_tp *hca = end->hca = calloc(1, sizeof(*hca));
    end->context.ops = (struct ibv_context_ops){.post_send = card_send,
                                                .post_srq_recv = card_receive,
                                                .poll_cq = card_poll,
                                                .req_notify_cq = card_arm};
    end->cq.context = end->srq.context = end->pd.context = &end->context;
    hca->rails = 1;
    hca->rail[0] = (struct hca_rail){.context = &end->context,
                                     .cq = &end->cq,
                                     .srq = &end->srq,
                                     .pd = &end->pd,
                                     .max_inline = 64};
    hca->params.self = self;
    hca->params.size = ENDS;
    hca->depth = DEPTH;
    hca->sends = SENDS;
    hca->room = ENDS * SENDS;
    hca->tp.limits.max_medium = MEDIUM;
    hca->tp.hooks.deliver = on_message;
    hca->tp.hooks.arg = end;
    hca->buffer = HCA_FRAME + MEDIUM + 32;
    hca->last_held = &hca->held;
    hca->peers = calloc(ENDS, sizeof(struct hca_peer *));
    assert_int_equal(hca_rings_open(hca), AQ_OK);
}

static void end_meet(unsigned self, unsigned id)
{
    struct end *end = &ends[self];
    struct hca_peer *peer = end->hca->peers[id] = calloc(1, sizeof(*peer));
    struct hca_ring_place place = {.addr = 0};
    peer->peer.id = id;
    peer->state = HCA_UP;
    peer->used = 1;
    end->qp[id] = (struct ibv_qp){.context = &end->context, .qp_num = 100 * self + id};
    peer->link[0].qp = &end->qp[id];
    peer->link[0].sent = calloc(SENDS, sizeof(struct hca_sent));
    hca_message_prepare(end->hca, peer, 0);
    hca_rings_place(ends[id].hca, &place);
    hca_ring_meet(end->hca, peer, &place);
}

static void open_with(uint64_t peers, uint64_t depth, uint64_t limit, uint64_t cycle)
{
    memset(ends, 0, sizeof(ends));
    world.written = world.slept = 0;
    hca_config.ring_peers = peers;
    hca_config.ring_depth = depth;
    hca_config.ring_limit = limit;
    hca_config.ring_cycle = cycle;
    for (unsigned i = 0; i < ENDS; i++)
        end_open(i);
    for (unsigned i = 0; i < ENDS; i++)
        for (unsigned j = 0; j < ENDS; j++)
            if (i != j) end_meet(i, j);
}

static void close_all(void)
{
    for (unsigned i = 0; i < ENDS; i++) {
        struct hca_tp *hca = ends[i].hca;
        for (unsigned j = 0; j < ENDS; j++) {
            if (i == j) continue;
            hca_links_end(hca, hca->peers[j], AQ_EPEER);
            assert_int_equal(hca->peers[j]->in.ring, 0);
            free(hca->peers[j]);
        }
        assert_int_equal(hca->rings.open, 0);
        free(hca->peers);
        hca_rings_close(hca);
        hca_buf_close(hca);
        free(hca);
    }
}

static void end_sleep(struct end *end)
{
    if (hca_arm(&end->hca->tp, true) != AQ_OK) return;
    end->asleep = true;
    world.slept++;
}

/* One step of a process that is awake, or of a wire. */
static void step(bool requests, bool sleeps)
{
    unsigned a = dice(ENDS), b = (a + 1 + dice(ENDS - 1)) % ENDS;
    struct end *end = &ends[a];
    switch (dice(8)) {
    case 0:
        if (requests && !end->asleep) request(end, b);
        if (requests && dice(20) == 0) end->asleep = false; /* it has waited for long enough */
        break;
    case 1:
        if (!end->asleep) answer(end, b);
        break;
    case 2:
        if (sleeps && !end->asleep) end_sleep(end);
        break;
    case 3:
    case 4:
        if (end->asleep) break;
        (void)hca_message_deliver_held(end->hca);
        (void)hca_progress_queues(end->hca, dice(4) == 0 ? AQI_PROGRESS_REPLIES : AQI_PROGRESS_ALL);
        break;
    default:
        card_deliver(a, b);
    }
}

static bool all_arrived(void)
{
    for (unsigned i = 0; i < ENDS; i++)
        for (unsigned j = 0; j < ENDS; j++)
            if (ends[i].sent[j] != ends[i].replied[j]) return false;
    return true;
}

/* Who sleeps is woken by its completion queue only. */
static void run(bool sleeps)
{
    for (unsigned i = 0; i < STEPS; i++)
        step(true, sleeps);
    for (unsigned i = 0; i < STEPS && !all_arrived(); i++)
        step(false, sleeps);
    assert_true(all_arrived());
}

/* --- the cases ------------------------------------------------------------------------------- */

static void once_and_in_order(void **unused)
{
    static const struct {
        uint64_t peers, depth, limit, cycle;
    } rows[] = {
        {2, 16, 4096, 1}, {2, 2, 128, 1}, {1, 4, 256, 1}, {1, 1, 4096, 7}, {1, 32, 128, 64}};
    (void)unused;
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++)
        for (unsigned sleeps = 0; sleeps < 2; sleeps++) {
            world.state = i;
            open_with(rows[i].peers, rows[i].depth, rows[i].limit, rows[i].cycle);
            run(sleeps != 0);
            assert_true(world.written > 100);
            assert_true((world.slept > 20) == (sleeps != 0));
            close_all();
        }
}

static void pass_on(unsigned steps)
{
    for (unsigned i = 0; i < steps; i++)
        step(false, false);
}

static void talk(unsigned from, unsigned to, unsigned count)
{
    for (uint32_t end = ends[from].sent[to] + count; ends[from].sent[to] != end; pass_on(10))
        request(&ends[from], to);
    pass_on(2000);
}

static bool has_ring(unsigned at, unsigned who)
{
    return ends[at].hca->peers[who]->in.ring != 0;
}

static void follows_the_traffic(void **unused)
{
    (void)unused;
    open_with(1, 16, 4096, 32);
    talk(1, 0, 31);
    assert_false(has_ring(0, 1));
    talk(1, 0, 33);
    assert_true(has_ring(0, 1));
    talk(2, 0, 100);
    talk(2, 0, 100);
    assert_true(has_ring(0, 2));
    assert_false(has_ring(0, 1));
    close_all();
}

static void nothing_without_them(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < 3; i++) {
        open_with(i != 0, 16, i != 1 ? 4096 : 0, i != 2);
        talk(1, 0, 200);
        assert_int_equal(world.written, 0);
        assert_null(ends[0].hca->rings.memory);
        close_all();
    }
}

/* What a peer writes is not believed: nothing of it is read beyond the slot, nor makes it stop. */
static void nonsense_is_dropped(void **unused)
{
    (void)unused;
    open_with(1, 4, 128, 1);
    talk(1, 0, 2);
    struct hca_tp *hca = ends[0].hca;
    struct hca_peer *peer = hca->peers[1];
    assert_int_equal(peer->in.ring, 1);
    for (uint32_t len = 0; len < 0x10000; len += 13) {
        uint32_t place = peer->in.consumed % 4, was = peer->in.consumed;
        uint64_t mark = peer->received | (uint64_t)len << 32 | UINT64_C(0xa95c) << 48;
        memset(hca->rings.slots + place * 128, (int)len, 120);
        memcpy(hca->rings.slots + place * 128 + 120, &mark, 8);
        ((uint64_t *)(void *)(hca->rings.memory + 64))[0] = dice(1000) | (uint64_t)len << 32;
        hca->peers[1]->out.freed = dice(1u << 31);
        (void)hca_rings_progress(hca, AQI_PROGRESS_ALL);
        assert_int_equal(peer->in.consumed, was + 1);
    }
    close_all();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_and_in_order),
        cmocka_unit_test(follows_the_traffic),
        cmocka_unit_test(nothing_without_them),
        cmocka_unit_test(nonsense_is_dropped),
    };
    hca_verbs = (struct hca_verbs){.reg_mr = card_register,
                                   .dereg_mr = card_deregister,
                                   .destroy_qp = card_destroy,
                                   .get_cq_event = no_event,
                                   .get_async_event = no_async};
    hca_config.bounces = 64;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
