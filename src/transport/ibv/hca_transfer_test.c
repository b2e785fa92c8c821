/* Tests hca_transfer.c and hca_driver.c, with an adapter that records requests. */
#include "transport/ibv/hca_impl.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { RAILS = 2, PART = 1 << 16, LEN = 3 * PART + 4096, BASE = 0x7000000, SENDS = 64 };

/* Keys contain their part and rail. */
static struct {
    struct ibv_pd pd[RAILS];
    struct ibv_context context;
    struct ibv_qp qp[RAILS];
    unsigned made, live, refuse_from;
    size_t len[2 * HCA_KEYS];
    unsigned posts;
    struct ibv_send_wr wr[SENDS];
    struct ibv_sge piece[SENDS];
} card;

static struct ibv_mr *card_register(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    if (card.refuse_from != 0 && card.made >= card.refuse_from) return NULL;
    struct ibv_mr *mr = calloc(1, sizeof(*mr));
    assert_non_null(mr);
    card.len[card.made++] = len;
    card.live++;
    *mr = (struct ibv_mr){.pd = pd, .addr = addr, .length = len};
    mr->lkey = (uint32_t)((uintptr_t)addr / PART * RAILS + (uintptr_t)(pd - card.pd));
    mr->rkey = mr->lkey + 1000000;
    return mr;
}

static int card_deregister(struct ibv_mr *mr)
{
    card.live--;
    free(mr);
    return 0;
}

static int card_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    assert_true(card.posts < SENDS);
    assert_int_equal(wr->num_sge, 1);
    card.wr[card.posts] = *wr;
    card.wr[card.posts].imm_data = (uint32_t)(qp - card.qp);
    card.piece[card.posts++] = wr->sg_list[0];
    return 0;
}

static struct hca_tp hca;
static struct hca_peer peer;

static void open_with(uint64_t registration, uint64_t largest)
{
    memset(&card, 0, sizeof(card));
    memset(&hca, 0, sizeof(hca));
    memset(&peer, 0, sizeof(peer));
    hca_verbs.reg_mr = card_register;
    hca_verbs.dereg_mr = card_deregister;
    card.context.ops.post_send = card_post;
    hca_config = (struct hca_config){
        .registration = registration, .piece = 1 << 20, .sends = SENDS, .bounces = SENDS};
    hca.rails = RAILS;
    hca.sends = hca.room = SENDS;
    hca.mask = SENDS - 1;
    aqi_rdma_begin(&hca.rdma, &hca_driver);
    hca_begin(&hca);
    peer.state = HCA_UP;
    peer.used = (1u << RAILS) - 1;
    peer.rdma.peer.id = 0;
    hca_peer_begin(&peer);
    for (unsigned r = 0; r < RAILS; r++) {
        hca.rail[r].pd = &card.pd[r];
        hca.rail[r].device.max_mr_size = largest;
        card.qp[r].context = &card.context;
        peer.link[r].qp = &card.qp[r];
        hca_link_begin(&hca, &peer, r);
        peer.link[r].sent = calloc(SENDS, sizeof(struct hca_sent));
    }
}

static void close_all(void)
{
    for (unsigned r = 0; r < RAILS; r++) {
        while (peer.link[r].tail != peer.link[r].head)
            hca_sent_end(&hca, hca_link_take(&hca, &peer.link[r]), AQ_OK);
        free(peer.link[r].sent);
    }
    assert_null(peer.rdma.ops);
    aqi_pool_destroy(&hca.rdma.ops);
    assert_int_equal(card.live, 0);
}

static aq_status mem_reg(size_t len, struct aqi_mem **mem)
{
    return aqi_rdma_mem_reg(&hca.rdma.tp, (void *)(uintptr_t)BASE, len, mem);
}

static aq_status mem_map(const void *key, size_t key_len, struct aqi_rmem **rmem)
{
    return aqi_rdma_mem_map(&hca.rdma.tp, &peer.rdma.peer, key, key_len, BASE, LEN, rmem);
}

/* Each piece lies in one part on either side, and has their keys, for its rail. */
static void check_pieces(uint64_t remote, uint64_t local, size_t len, bool known)
{
    for (unsigned i = 0; i < card.posts; i++) {
        const struct ibv_send_wr *wr = &card.wr[i];
        uint64_t there = wr->wr.rdma.remote_addr, last = card.piece[i].length - 1;
        assert_int_equal(there, remote);
        assert_int_equal(card.piece[i].addr, local);
        assert_int_equal((there - BASE) / PART, (there + last - BASE) / PART);
        assert_int_equal(wr->wr.rdma.rkey,
                         1000000 + (BASE / PART + (there - BASE) / PART) * RAILS + wr->imm_data);
        assert_true(!known || (local - BASE) / PART == (local + last - BASE) / PART);
        if (known)
            assert_int_equal(card.piece[i].lkey,
                             (BASE / PART + (local - BASE) / PART) * RAILS + wr->imm_data);
        remote += last + 1;
        local += last + 1;
        len -= last + 1;
    }
    assert_int_equal(len, 0);
}

static void a_large_segment_has_several_registrations(void **unused)
{
    static const struct {
        uint64_t registration, largest;
    } rows[] = {{PART, UINT64_MAX}, {1 << 30, PART}, {1 << 30, 2 * PART - 1}};
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        struct aqi_mem *mem;
        struct aqi_rmem *rmem;
        open_with(rows[i].registration, rows[i].largest);
        assert_int_equal(mem_reg(LEN, &mem), AQ_OK);
        assert_int_equal(card.made, 4 * RAILS);
        for (unsigned r = 0; r < card.made; r++)
            assert_int_equal(card.len[r], r < 3 * RAILS ? PART : 4096);
        assert_int_equal(mem_map(mem->key, mem->key_len, &rmem), AQ_OK);
        struct aqi_comp comp = {.local = 1, .remote = 1};
        void *from = (void *)(uintptr_t)(BASE + 5000);
        assert_int_equal(aqi_rdma_put_bytes(&hca.rdma.tp, &peer.rdma.peer, rmem, BASE + PART - 3,
                                            from, 2 * PART, mem, &comp),
                         AQ_OK);
        assert_int_equal(card.posts, 5);
        check_pieces(BASE + PART - 3, BASE + 5000, 2 * PART, true);
        aqi_rdma_mem_unmap(&hca.rdma.tp, rmem);
        aqi_rdma_mem_dereg(&hca.rdma.tp, mem);
        close_all();
        assert_int_equal(comp.remote, 0);
        assert_int_equal(comp.status, AQ_OK);
    }
}

static void small_segment_has_one_registration(void **unused)
{
    struct aqi_mem *mem;
    open_with(UINT64_C(1) << 40, UINT64_MAX);
    assert_int_equal(mem_reg(LEN, &mem), AQ_OK);
    assert_int_equal(card.made, RAILS);
    assert_int_equal(mem->key_len, 8 + 4 * RAILS);
    aqi_rdma_mem_dereg(&hca.rdma.tp, mem);
    close_all();
}

/* An adapter that has failed is not used. */
static void failed_adapter_registers_nothing(void **unused)
{
    struct aqi_mem *mem;
    open_with(UINT64_C(1) << 40, UINT64_MAX);
    hca.gone = 1u << 1;
    assert_int_equal(mem_reg(LEN, &mem), AQ_OK);
    assert_int_equal(card.made, 1);
    aqi_rdma_mem_dereg(&hca.rdma.tp, mem);
    close_all();
}

/* More parts than a key can describe, or than the adapter provides: then everything goes by
 * messages. */
static void too_many_parts_are_refused(void **unused)
{
    struct aqi_mem *mem;
    open_with(UINT64_C(1) << 40, PART);
    assert_int_equal(mem_reg(HCA_KEYS / RAILS * PART, &mem), AQ_OK);
    aqi_rdma_mem_dereg(&hca.rdma.tp, mem);
    assert_int_equal(mem_reg(HCA_KEYS / RAILS * PART + 1, &mem), AQ_ELIMIT);
    assert_int_equal(card.live, 0);
    card.refuse_from = card.made + 5;
    assert_int_equal(mem_reg(LEN, &mem), AQ_ELIMIT);
    close_all();
}

/* If the setting leads to more parts than a key can describe, they are larger. */
static void parts_grow_with_the_memory(void **unused)
{
    static const struct {
        size_t len;
        unsigned parts;
    } rows[] = {{HCA_KEYS / RAILS * PART, HCA_KEYS / RAILS},
                {HCA_KEYS / RAILS * PART + 1, HCA_KEYS / RAILS / 2 + 1},
                {(size_t)1 << 40, HCA_KEYS / RAILS}};
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        struct aqi_mem *mem;
        open_with(PART, UINT64_MAX);
        assert_int_equal(mem_reg(rows[i].len, &mem), AQ_OK);
        assert_int_equal(card.made, rows[i].parts * RAILS);
        aqi_rdma_mem_dereg(&hca.rdma.tp, mem);
        assert_int_equal(card.live, 0);
        close_all();
    }
}

/* In mode large it is lent instead, so that only used memory is registered. */
static void too_many_parts_are_lent_in_mode_large(void **unused)
{
    struct aqi_mem *mem;
    open_with(PART, UINT64_MAX);
    hca.rdma.lending.on = true;
    assert_int_equal(mem_reg(HCA_KEYS / RAILS * PART + 1, &mem), AQ_OK);
    assert_int_equal(card.made, 0);
    hca.rdma.pins.segments = NULL; /* no cache is open */
    aqi_rdma_mem_dereg(&hca.rdma.tp, mem);
    hca.rdma.lending.on = false;
    close_all();
}

static void invalid_keys_are_refused(void **unused)
{
    static const struct hca_key good = {.magic = "ibvk", .rails = 2, .shift = 16, .parts = 4};
    struct hca_key bad[8];
    struct aqi_rmem *rmem;
    size_t len = offsetof(struct hca_key, rkey) + 8 * 4;
    open_with(PART, UINT64_MAX);
    assert_int_equal(mem_map(&good, len, &rmem), AQ_OK);
    aqi_rdma_mem_unmap(&hca.rdma.tp, rmem);
    for (unsigned i = 0; i < AQI_COUNT_OF(bad); i++)
        bad[i] = good;
    bad[0].magic[0] = 'x';
    bad[1].rails = 0;
    bad[2].rails = HCA_RAILS + 1;
    bad[3].parts = 3;
    bad[4].parts = 0;
    bad[5].shift = 17;
    bad[6].shift = 64;
    bad[7].rails = 4, bad[7].parts = 16;
    for (unsigned i = 0; i < AQI_COUNT_OF(bad); i++)
        assert_int_equal(mem_map(&bad[i], len, &rmem), AQ_EPROTO);
    assert_int_equal(mem_map(&good, len - 1, &rmem), AQ_EPROTO);
    assert_int_equal(mem_map(&good, 0, &rmem), AQ_EPROTO);
    close_all();
}

/* Memory here and there, both registered in parts. */
static struct {
    struct aqi_mem *mem;
    struct aqi_rmem *rmem;
    struct aqi_comp comp;
} both;

static void open_both(void)
{
    open_with(PART, UINT64_MAX);
    for (unsigned r = 0; r < RAILS; r++)
        hca.rail[r].max_inline = peer.link[r].max_inline = 64;
    hca.rdma.buffer = 4096;
    both.comp = (struct aqi_comp){.local = 1, .remote = 1};
    assert_int_equal(mem_reg(LEN, &both.mem), AQ_OK);
    assert_int_equal(mem_map(both.mem->key, both.mem->key_len, &both.rmem), AQ_OK);
}

static void close_both(void)
{
    aqi_rdma_mem_unmap(&hca.rdma.tp, both.rmem);
    aqi_rdma_mem_dereg(&hca.rdma.tp, both.mem);
    aqi_rdma_drop_chunks(&hca.rdma);
    close_all();
}

static aq_status get(uint64_t there, uint64_t here, size_t len)
{
    return aqi_rdma_get_bytes(&hca.rdma.tp, &peer.rdma.peer, both.rmem, there,
                              (void *)(uintptr_t)here, len, both.mem, &both.comp);
}

static void one_piece_goes_straight(void **unused)
{
    for (unsigned rail = 0; rail < RAILS; rail++) {
        open_both();
        peer.next = &peer.link[rail];
        both.comp.local = 0;
        assert_int_equal(get(BASE + PART - 100, BASE + 2 * PART, 100), AQ_OK);
        assert_int_equal(hca.rdma.ops.outstanding, 0);
        assert_int_equal(card.posts, 1);
        assert_int_equal(card.wr[0].imm_data, rail);
        assert_int_equal(card.wr[0].opcode, IBV_WR_RDMA_READ);
        check_pieces(BASE + PART - 100, BASE + 2 * PART, 100, true);
        assert_int_equal(peer.next->rail, 1 - rail);
        assert_int_equal(both.comp.remote, 1);
        hca_sent_end(&hca, hca_link_take(&hca, &peer.link[rail]), AQ_EPEER);
        assert_int_equal(both.comp.remote, 0);
        assert_int_equal(both.comp.status, AQ_EPEER);
        assert_int_equal(peer.link[rail].pieces, 0);
        close_both();
    }
}

/* As if this many pieces were in flight on each. */
static void fill_links(uint32_t pieces)
{
    for (unsigned r = 0; r < RAILS; r++) {
        peer.link[r].head += pieces - peer.link[r].pieces;
        peer.link[r].pieces = pieces;
    }
}

/* It crosses the end of a part, remote or local, or there is no room, or no connection. */
static void transfer_of_several_pieces_is_queued(void **unused)
{
    for (unsigned i = 0; i < 4; i++) {
        open_both();
        both.comp.local = 0;
        if (i == 2) fill_links(SENDS);
        if (i == 3) peer.state = HCA_CALLING;
        aq_status st = get(BASE + (i == 0 ? PART - 50 : 0), BASE + (i == 1 ? PART - 50 : 0), 100);
        assert_int_equal(st, i == 3 ? AQ_AGAIN : AQ_OK);
        assert_int_equal(card.posts, i < 2 ? 2 : 0);
        assert_int_equal(hca.rdma.ops.outstanding, i == 3 ? 0 : 1);
        if (i == 2) fill_links(0);
        aqi_rdma_push(&hca.rdma, &peer.rdma);
        close_both();
    }
    open_both();
    assert_int_equal(get(BASE + LEN - 99, BASE, 100), AQ_ERANGE);
    assert_int_equal(get(BASE - 1, BASE, 100), AQ_ERANGE);
    assert_int_equal(both.comp.remote, 1);
    assert_int_equal(card.posts, 0);
    close_both();
}

/* With the contents of the source at the time of the put, and the counters are decremented once. */
static void interrupted_transfer_is_repeated(void **unused)
{
    uint64_t word = 0x0123456789abcdef, was = word;
    struct hca_sent *sent;
    open_both();
    assert_int_equal(aqi_rdma_put_bytes(&hca.rdma.tp, &peer.rdma.peer, both.rmem, BASE + 8, &word,
                                        sizeof(word), NULL, &both.comp),
                     AQ_OK);
    word = 0;
    assert_int_equal(card.wr[0].send_flags & IBV_SEND_INLINE, IBV_SEND_INLINE);
    sent = hca_link_take(&hca, &peer.link[0]);
    assert_true(sent->straight);
    hca_transfer_again(&hca, &peer, sent);
    assert_int_equal(hca.rdma.waiting, 1);
    assert_int_equal(both.comp.remote, 1);
    aqi_rdma_push(&hca.rdma, &peer.rdma);
    assert_int_equal(card.posts, 2);
    assert_int_equal(card.wr[1].wr.rdma.remote_addr, BASE + 8);
    assert_memory_equal((void *)(uintptr_t)card.piece[1].addr, &was, sizeof(was));
    hca_sent_end(&hca, hca_link_take(&hca, &peer.link[card.wr[1].imm_data]), AQ_OK);
    assert_int_equal(both.comp.remote, 0);
    assert_int_equal(both.comp.local, 0);
    assert_int_equal(both.comp.status, AQ_OK);
    close_both();
}

static struct ibv_qp *card_make(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return &card.qp[pd - card.pd];
}

static int card_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    return 0;
}

static int card_destroy(struct ibv_qp *qp)
{
    return 0;
}

static int card_poll(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    return 0;
}

static const char *card_status(enum ibv_wc_status status)
{
    return "refused";
}

/* The adapter of the peer rejects the last post; the connection is re-established. */
static void refuse_last(void)
{
    static struct aqi_rdma_peer *peers[] = {&peer.rdma};
    static struct ibv_cq cq;
    const struct ibv_wc wc = {.wr_id = card.wr[card.posts - 1].wr_id,
                              .status = IBV_WC_REM_ACCESS_ERR};
    hca_verbs.create_qp = card_make;
    hca_verbs.modify_qp = card_modify;
    hca_verbs.destroy_qp = card_destroy;
    hca_verbs.wc_status_str = card_status;
    card.context.ops.poll_cq = card_poll;
    cq.context = &card.context;
    hca.rail[0].cq = hca.rail[1].cq = &cq;
    hca.rdma.peers = peers;
    hca.rdma.params.size = 1;
    hca_link_completed(&hca, &wc);
    assert_true(peer.broken);
    hca_repair(&hca);
    hca_greet_end(&hca, &peer);
    peer.state = HCA_UP;
    peer.used = (1u << RAILS) - 1;
    if (peer.again != NULL) hca_repair_resume(&hca, &peer);
    aqi_rdma_push(&hca.rdma, &peer.rdma);
}

/* A dying process may lose its memory before its connections: then its job reports its death. */
static void only_access_rejected_twice_fails(void **unused)
{
    static const size_t lens[] = {100, PART}; /* straight; an operation of two pieces */
    for (unsigned i = 0; i < AQI_COUNT_OF(lens); i++) {
        open_both();
        both.comp.local = 0;
        assert_int_equal(get(BASE + PART - 100, BASE + 2 * PART, lens[i]), AQ_OK);
        unsigned posts = card.posts;
        refuse_last();
        assert_int_equal(card.posts, 2 * posts);
        assert_int_equal(both.comp.remote, 1);
        for (unsigned again = 0; again < posts; again++)
            refuse_last();
        close_both();
        assert_int_equal(both.comp.remote, 0);
        assert_int_equal(both.comp.status, AQ_ERANGE);
    }
}

/*
 * Entries keep their positions although the size of the queue is no power of two and the post
 * counter wraps.
 */
static void positions_survive_the_wrap(void **unused)
{
    enum { PLACES = 24 };
    struct hca_link *link = &peer.link[0];
    const uint64_t word = 1;
    open_both();
    hca.rails = 1;
    hca.sends = hca.room = PLACES;
    hca.mask = hca_mask_of(PLACES);
    assert_int_equal(hca.mask, 31);
    link->head = link->tail = UINT32_MAX - PLACES / 2;
    both.comp.local = both.comp.remote = PLACES;
    for (uint64_t i = 0; i < PLACES; i++)
        assert_int_equal(aqi_rdma_put_bytes(&hca.rdma.tp, &peer.rdma.peer, both.rmem, BASE + 8 * i,
                                            &word, 8, NULL, &both.comp),
                         AQ_OK);
    for (uint64_t i = 0; i < PLACES; i++) {
        const struct hca_sent *sent = hca_link_take(&hca, link);
        assert_int_equal(sent->remote, BASE + 8 * i);
        hca_transfer_straight_end(sent, AQ_OK);
    }
    assert_int_equal(both.comp.remote, 0);
    hca.rails = RAILS;
    close_both();
}

/* The turns of the rails do not matter. */
static void a_long_keeps_to_the_link_of_messages(void **unused)
{
    const struct aqi_am am = {.kind = AQI_AM_LONG,
                              .nbytes = 2 * PART,
                              .addr = BASE + PART - 3,
                              .payload = (void *)(uintptr_t)(BASE + 5000)};
    struct hca_link *link = &peer.link[1];
    open_both();
    peer.first = 1;
    assert_int_equal(
        aqi_rdma_am_long(&hca.rdma.tp, &peer.rdma.peer, &am, both.rmem, both.mem, &both.comp),
        AQ_OK);
    assert_int_equal(card.posts, 6);
    for (unsigned i = 0; i < card.posts; i++) {
        assert_int_equal(card.wr[i].imm_data, 1);
        assert_int_equal(card.wr[i].opcode, i < 5 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND);
    }
    card.posts = 5;
    check_pieces(BASE + PART - 3, BASE + 5000, 2 * PART, true);
    assert_int_equal(both.comp.local, 1);
    while (link->tail != link->head)
        hca_sent_end(&hca, hca_link_take(&hca, link), AQ_OK);
    assert_int_equal(both.comp.local, 0);
    assert_int_equal(hca.rdma.bounced, 0);
    close_both();
}

static sigjmp_buf way_out;

static void on_fault(int number)
{
    siglongjmp(way_out, 1);
}

/*
 * Otherwise registering it would fail, or copying would raise the signal halfway. The adapter can
 * access registered memory even if the program cannot.
 */
static void protected_memory_raises_its_signal(void **unused)
{
    void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    open_both();
    for (volatile unsigned i = 0; i < 3; i++) {
        struct sigaction action = {.sa_handler = on_fault}, before;
        assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
        bool jumped = sigsetjmp(way_out, 1) != 0;
        if (!jumped && i == 0)
            (void)aqi_rdma_put_bytes(&hca.rdma.tp, &peer.rdma.peer, both.rmem, BASE, page, 200,
                                     NULL, &both.comp);
        if (!jumped && i == 1)
            (void)aqi_rdma_get_bytes(&hca.rdma.tp, &peer.rdma.peer, both.rmem, BASE, page, 200,
                                     NULL, &both.comp);
        if (!jumped && i == 2) (void)get(BASE, BASE, 200); /* nothing is mapped there */
        assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
        assert_int_equal(jumped, i < 2);
        assert_int_equal(card.posts, i < 2 ? 0 : 1);
        assert_int_equal(hca.rdma.waiting, 0);
        assert_null(peer.rdma.ops);
    }
    close_both();
    munmap(page, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_segment_has_several_registrations),
        cmocka_unit_test(small_segment_has_one_registration),
        cmocka_unit_test(failed_adapter_registers_nothing),
        cmocka_unit_test(too_many_parts_are_refused),
        cmocka_unit_test(parts_grow_with_the_memory),
        cmocka_unit_test(too_many_parts_are_lent_in_mode_large),
        cmocka_unit_test(invalid_keys_are_refused),
        cmocka_unit_test(one_piece_goes_straight),
        cmocka_unit_test(transfer_of_several_pieces_is_queued),
        cmocka_unit_test(interrupted_transfer_is_repeated),
        cmocka_unit_test(only_access_rejected_twice_fails),
        cmocka_unit_test(positions_survive_the_wrap),
        cmocka_unit_test(a_long_keeps_to_the_link_of_messages),
        cmocka_unit_test(protected_memory_raises_its_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
