/* Three processes in one for tests of ibv, with adapters that perform their requests later. */
#ifndef AQI_IBV_WORLD_TEST_H
#define AQI_IBV_WORLD_TEST_H

#include "transport/ibv/hca_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ENDS = 3, DEPTH = 8, SENDS = 64, WIRE = 256, CQES = 1024, KEYS = 1 << 18 };

/* Requests that were posted but have not arrived. */
struct parcel {
    enum ibv_wr_opcode opcode;
    uint64_t wr_id, remote;
    uint32_t rkey, lkey, len;
    unsigned char *local, bytes[64]; /* bytes: inline */
    bool signaled, halfway;
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
    struct aqi_rdma_buf *posted;
    bool asleep;
    uint32_t sent[ENDS], replied[ENDS], handled[ENDS], owed[ENDS], answers[ENDS];
} ends[ENDS];

/* A registration: keys are indices of the table, each used once. */
struct world_key {
    const struct end *end;
    unsigned char *addr;
    size_t len;
    int access;
};

static struct {
    uint64_t state;
    uint32_t written, slept;
    uint32_t keys, live;
    struct world_key key[KEYS];
} world;

static inline uint32_t dice(uint32_t sides)
{
    world.state = world.state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(world.state >> 33) % sides;
}

static inline struct end *end_of(const struct ibv_context *context)
{
    for (unsigned i = 0; i < ENDS; i++)
        if (&ends[i].context == context) return &ends[i];
    abort();
}

/* --- the adapter ----------------------------------------------------------------------------- */

static inline int card_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct end *end = end_of(qp->context);
    struct wire *wire = &end->to[qp - end->qp];
    (void)bad;
    assert_true(wire->head - wire->tail < WIRE);
    struct parcel *parcel = &wire->parcels[wire->head++ % WIRE];
    *parcel = (struct parcel){.opcode = wr->opcode,
                              .wr_id = wr->wr_id,
                              .remote = wr->wr.rdma.remote_addr,
                              .rkey = wr->wr.rdma.rkey,
                              .signaled = (wr->send_flags & IBV_SEND_SIGNALED) != 0};
    if (wr->num_sge == 0) return 0;
    parcel->len = wr->sg_list->length;
    parcel->lkey = wr->sg_list->lkey;
    parcel->local = (unsigned char *)(uintptr_t)wr->sg_list->addr;
    if ((wr->send_flags & IBV_SEND_INLINE) == 0) return 0;
    assert_true(parcel->len <= sizeof(parcel->bytes));
    memcpy(parcel->bytes, parcel->local, parcel->len);
    parcel->local = parcel->bytes;
    return 0;
}

static inline int card_receive(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                               struct ibv_recv_wr **bad)
{
    struct end *end = end_of(srq->context);
    (void)bad;
    for (; wr != NULL; wr = wr->next) {
        struct aqi_rdma_buf *buf = (struct aqi_rdma_buf *)(uintptr_t)(wr->wr_id & ~(uint64_t)3);
        buf->next = end->posted;
        end->posted = buf;
    }
    return 0;
}

static inline int card_poll(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    struct end *end = end_of(cq->context);
    int n = 0;
    while (n < most && end->cq_tail != end->cq_head)
        wc[n++] = end->cqes[end->cq_tail++ % CQES];
    return n;
}

static inline int card_arm(struct ibv_cq *cq, int solicited)
{
    (void)cq;
    (void)solicited;
    return 0;
}

static inline int no_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)
{
    (void)channel;
    (void)cq;
    (void)user;
    return -1;
}

static inline int no_async(struct ibv_context *context, struct ibv_async_event *event)
{
    (void)context;
    (void)event;
    return -1;
}

static inline struct ibv_mr *card_register(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    struct ibv_mr *mr = calloc(1, sizeof(*mr));
    assert_non_null(mr);
    assert_true(world.keys < KEYS);
    world.live++;
    world.key[world.keys] = (struct world_key){end_of(pd->context), addr, len, access};
    world.keys++;
    *mr = (struct ibv_mr){
        .pd = pd, .addr = addr, .length = len, .lkey = world.keys, .rkey = world.keys};
    return mr;
}

static inline int card_deregister(struct ibv_mr *mr)
{
    world.key[mr->rkey - 1].end = NULL;
    world.live--;
    free(mr);
    return 0;
}

static inline int card_destroy(struct ibv_qp *qp)
{
    (void)qp;
    return 0;
}

/* Whether this memory of `end` may be accessed with the key. */
static inline bool card_reaches(const struct end *end, uint32_t key, const unsigned char *at,
                                uint32_t len, int access)
{
    if (key == 0 || key > world.keys) return false;
    const struct world_key *k = &world.key[key - 1];
    return k->end == end && (k->access & access) == access &&
           aqi_within((uintptr_t)at, len, (uintptr_t)k->addr, k->len);
}

static inline void card_complete(struct end *end, unsigned peer, uint64_t wr_id, uint32_t len)
{
    assert_true(end->cq_head - end->cq_tail < CQES);
    end->cqes[end->cq_head++ % CQES] = (struct ibv_wc){
        .wr_id = wr_id, .byte_len = len, .status = IBV_WC_SUCCESS, .qp_num = end->qp[peer].qp_num};
    end->asleep = false; /* it is woken */
}

/* The parts of a write arrive one after the other; a sleeping process gets none in its rings. */
static inline bool card_write(struct end *there, struct parcel *parcel)
{
    const struct hca_rings *rings = &there->hca->rings;
    unsigned char *to = (unsigned char *)(uintptr_t)parcel->remote;
    uint32_t cut = parcel->halfway ? 0 : parcel->len / 2;
    assert_true(card_reaches(there, parcel->rkey, to, parcel->len, IBV_ACCESS_REMOTE_WRITE));
    const struct aqi_rdma_chunk *chunk = rings->chunk;
    if (chunk != NULL && to >= rings->slots && to < chunk->memory + chunk->len) {
        assert_false(there->asleep);
        world.written += !parcel->halfway;
    } else if (chunk != NULL && to >= chunk->memory && to < rings->slots) {
        cut = 0;
    }
    memcpy(to, parcel->local, cut != 0 ? cut : parcel->len);
    parcel->halfway = true;
    return cut == 0;
}

static inline void card_read(const struct end *here, const struct end *there,
                             const struct parcel *parcel)
{
    const unsigned char *from = (const unsigned char *)(uintptr_t)parcel->remote;
    assert_true(card_reaches(there, parcel->rkey, from, parcel->len, IBV_ACCESS_REMOTE_READ));
    assert_true(
        card_reaches(here, parcel->lkey, parcel->local, parcel->len, IBV_ACCESS_LOCAL_WRITE));
    memcpy(parcel->local, from, parcel->len);
}

static inline void card_deliver(unsigned from, unsigned to)
{
    struct end *here = &ends[from], *there = &ends[to];
    struct wire *wire = &here->to[to];
    if (wire->head == wire->tail) return;
    struct parcel *parcel = &wire->parcels[wire->tail % WIRE];
    if (parcel->len != 0 && parcel->local != parcel->bytes)
        assert_true(card_reaches(here, parcel->lkey, parcel->local, parcel->len, 0));
    if (parcel->opcode == IBV_WR_SEND) {
        struct aqi_rdma_buf *buf = there->posted;
        assert_non_null(buf); /* a receive buffer is always posted */
        there->posted = buf->next;
        memcpy(buf->bytes, parcel->local, parcel->len);
        card_complete(there, from, (uintptr_t)buf | HCA_WR_RECEIVE, parcel->len);
    } else if (parcel->opcode == IBV_WR_RDMA_READ) {
        card_read(here, there, parcel);
    } else if (parcel->len != 0 && !card_write(there, parcel)) {
        return;
    }
    wire->tail++;
    if (parcel->signaled) card_complete(here, to, parcel->wr_id, 0);
}

static inline const char *card_status(enum ibv_wc_status status)
{
    (void)status;
    return "failed";
}

static inline void world_cards(void)
{
    hca_verbs = (struct hca_verbs){.reg_mr = card_register,
                                   .dereg_mr = card_deregister,
                                   .destroy_qp = card_destroy,
                                   .get_cq_event = no_event,
                                   .get_async_event = no_async,
                                   .wc_status_str = card_status};
    hca_config.bounces = 64;
}

/* --- the processes --------------------------------------------------------------------------- */

static inline void end_open(unsigned self, uint32_t medium)
{
    struct end *end = &ends[self];
    struct hca_tp *hca = end->hca = calloc(1, sizeof(*hca));
    end->context.ops = (struct ibv_context_ops){.post_send = card_send,
                                                .post_srq_recv = card_receive,
                                                .poll_cq = card_poll,
                                                .req_notify_cq = card_arm};
    end->cq.cqe = CQES;
    end->cq.context = end->srq.context = end->pd.context = &end->context;
    hca->rails = 1;
    hca->rail[0] = (struct hca_rail){.context = &end->context,
                                     .cq = &end->cq,
                                     .srq = &end->srq,
                                     .pd = &end->pd,
                                     .name = "none:1",
                                     .max_inline = 64};
    hca->rdma.params.self = self;
    hca->rdma.params.size = ENDS;
    hca->rdma.params.local_size = 1;
    hca->depth = DEPTH;
    hca->sends = SENDS;
    hca->mask = SENDS - 1;
    hca->room = ENDS * SENDS;
    hca->max_unsignaled = 32;
    hca->rdma.tp.limits.max_medium = medium;
    hca->rdma.tp.hooks.arg = end;
    hca->rdma.buffer = HCA_FRAME + medium + 32;
    aqi_rdma_begin(&hca->rdma, &hca_driver);
    hca_begin(hca);
    hca->rdma.peers = calloc(ENDS, sizeof(struct aqi_rdma_peer *));
    assert_int_equal(hca_rings_open(hca), AQ_OK);
    assert_int_equal(hca_message_open(hca), AQ_OK);
}

static inline void end_meet(unsigned self, unsigned id)
{
    struct end *end = &ends[self];
    struct hca_peer *peer = calloc(1, sizeof(*peer));
    struct hca_ring_place place = {.addr = 0};
    peer->state = HCA_UP;
    peer->used = 1;
    peer->addr.rails = 1;
    end->hca->rdma.peers[id] = &peer->rdma;
    peer->rdma.peer.id = id;
    hca_peer_begin(peer);
    end->qp[id] = (struct ibv_qp){.context = &end->context, .qp_num = 100 * self + id};
    peer->link[0].qp = &end->qp[id];
    hca_link_begin(end->hca, peer, 0);
    peer->link[0].sent = calloc(SENDS, sizeof(struct hca_sent));
    assert_true(hca_message_prepare(end->hca, peer));
    hca_rings_place(ends[id].hca, &place);
    hca_ring_meet(end->hca, peer, &place);
}

static inline void world_meet(void)
{
    for (unsigned i = 0; i < ENDS; i++)
        for (unsigned j = 0; j < ENDS; j++)
            if (i != j) end_meet(i, j);
}

static inline void world_reset(void)
{
    memset(ends, 0, sizeof(ends));
    world.keys = world.live = 0;
}

static inline void world_open(uint32_t medium)
{
    world_reset();
    for (unsigned i = 0; i < ENDS; i++)
        end_open(i, medium);
    world_meet();
}

static inline void end_close(struct end *end)
{
    struct hca_tp *hca = end->hca;
    for (unsigned j = 0; j < ENDS; j++) {
        if (hca_peer_at(hca, j) == NULL) continue;
        if (hca->rdma.lending.on) aqi_reg_peer_down(hca->rdma.pins.reg, j);
        hca_links_end(hca, hca_peer_at(hca, j));
        aqi_rdma_fail_transfers(&hca->rdma, hca->rdma.peers[j], true);
        assert_int_equal(hca_peer_at(hca, j)->in.ring, 0);
        assert_null(hca_peer_at(hca, j)->rdma.ops);
    }
    assert_int_equal(hca->rings.open, 0);
    aqi_pins_close(&hca->rdma.pins);
    free(hca->rings.owner);
    aqi_rdma_drop_chunks(&hca->rdma);
    aqi_rdma_close(&hca->rdma);
    free(hca);
}

static inline void world_close(void)
{
    for (unsigned i = 0; i < ENDS; i++)
        end_close(&ends[i]);
    assert_int_equal(world.live, 0);
}

static inline int world_end(void **unused)
{
    (void)unused;
    world_close();
    return 0;
}

/* A test of a file whose open_all opens the world. */
#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, open_all, world_end)

static inline aq_status world_send(unsigned from, unsigned to, const struct aqi_am *am)
{
    struct hca_tp *hca = ends[from].hca;
    return hca_am_send(&hca->rdma.tp, &hca_peer_at(hca, to)->rdma.peer, am, NULL);
}

#endif
