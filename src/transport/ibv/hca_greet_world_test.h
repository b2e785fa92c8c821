/*
 * For the tests of greetings: two processes with one port or two, and letters: greetings sent by
 * one but not received yet by the other.
 */
#ifndef AQI_IBV_GREET_WORLD_TEST_H
#define AQI_IBV_GREET_WORLD_TEST_H

#include "base/capture_test.h"
#include "base/log.h"
#include "base/stats.h"
#include "transport/ibv/hca_world_test.h"

enum { MEDIUM = 256, LETTERS = 64, LETTER = 512, GREETERS = 2, RAILS = 2, QKEY = 4321 };
#define PAUSE   UINT64_C(20000000)
#define SECONDS UINT64_C(1000000000)

/* Positions in a greeting, in bytes; the tag is at the end. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_FLAGS = 5,
    AT_FAILED = 6,
    AT_READS = 7,
    AT_FROM = 8,
    AT_TO = 12,
    AT_EPOCH = 16,
    AT_TO_EPOCH = 24,
    AT_GENERATION = 32,
    AT_DEPTH = 40,
    AT_BUFFER = 44,
    AT_CONTROL = 48,
    AT_PLACE = 52,
    AT_LID = 68 /* of its first rail */
};

static struct letter {
    unsigned from, rail;
    size_t len;
    unsigned char bytes[LETTER];
} letters[LETTERS]; /* sent, but not received yet */
static unsigned said, heard;

/* The receive buffers of each rail, oldest first. */
static struct buffers {
    uint64_t wr_id[2 * HCA_GREETINGS];
    unsigned char *bytes[2 * HCA_GREETINGS];
    uint32_t head, tail;
} buffers[GREETERS][RAILS];

/* The queue pair for greetings of each rail, and the one that is connected to the other. */
static struct card {
    struct ibv_qp greeter, link;
    bool open;
    uint32_t qkey, connected_to;
    unsigned reads;
} cards[GREETERS][RAILS];
static struct ibv_pd second_pd[GREETERS];
static struct ibv_ah ways[GREETERS][RAILS];
static bool blocked[RAILS]; /* there is no route over it */
static bool unconnectable[RAILS];
static unsigned rails = 1; /* of each */
static struct hca_addr addresses[GREETERS];
static const void *found; /* what a look-up of the other returns; NULL: its address */
static size_t found_len;

/* --- the environment ------------------------------------------------------------------------- */

static inline struct card *card_of(const struct ibv_qp *qp, unsigned *self, unsigned *rail)
{
    for (*self = 0; *self < GREETERS; ++*self)
        for (*rail = 0; *rail < RAILS; ++*rail)
            if (qp == &cards[*self][*rail].greeter || qp == &cards[*self][*rail].link)
                return &cards[*self][*rail];
    return NULL;
}

/* Send it to the other's queue pair for greetings, on the same rail. */
static inline int greet_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    unsigned self, rail;
    (void)bad;
    assert_non_null(card_of(qp, &self, &rail));
    assert_true(said < LETTERS && wr->sg_list->length <= LETTER);
    assert_int_equal(wr->num_sge, 1);
    assert_ptr_equal(wr->wr.ud.ah, &ways[self][rail]);
    assert_int_equal(wr->wr.ud.remote_qkey, QKEY);
    assert_int_equal(wr->wr.ud.remote_qpn, addresses[1 - self].place[rail].qpn);
    assert_int_equal(wr->sg_list->lkey, hca_lkey_of(ends[self].hca->greeter.chunk->mr[rail]));
    assert_true(card_reaches(&ends[self], wr->sg_list->lkey, (void *)(uintptr_t)wr->sg_list->addr,
                             wr->sg_list->length, 0));
    struct letter *letter = &letters[said++];
    letter->from = self;
    letter->rail = rail;
    letter->len = wr->sg_list->length;
    memcpy(letter->bytes, (void *)(uintptr_t)wr->sg_list->addr, letter->len);
    return 0;
}

static inline int greet_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    unsigned self, rail;
    (void)bad;
    assert_non_null(card_of(qp, &self, &rail));
    struct buffers *of = &buffers[self][rail];
    uint32_t i = of->head++ % (2 * HCA_GREETINGS);
    assert_true(of->head - of->tail <= HCA_GREETINGS);
    assert_int_equal(wr->wr_id & 0xff, HCA_WR_GREETING);
    assert_int_equal(wr->num_sge, 1);
    assert_int_equal(wr->sg_list->length, LETTER);
    of->wr_id[i] = wr->wr_id;
    of->bytes[i] = (unsigned char *)(uintptr_t)wr->sg_list->addr;
    assert_int_equal(wr->sg_list->lkey, hca_lkey_of(ends[self].hca->greeter.chunk->mr[rail]));
    assert_true(
        card_reaches(&ends[self], wr->sg_list->lkey, of->bytes[i], LETTER, IBV_ACCESS_LOCAL_WRITE));
    return 0;
}

static inline struct ibv_qp *card_make(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    unsigned self = (unsigned)(end_of(pd->context) - ends), rail = pd == &second_pd[self];
    struct card *card = &cards[self][rail];
    if (attr->qp_type == IBV_QPT_RC) {
        card->link = (struct ibv_qp){.context = pd->context, .qp_num = 50 + 10 * self + rail};
        return &card->link;
    }
    assert_false(card->open);
    assert_int_equal(attr->cap.max_send_wr, HCA_GREETINGS_OUT);
    assert_int_equal(attr->cap.max_recv_wr, HCA_GREETINGS);
    card->open = true;
    card->greeter = (struct ibv_qp){.context = pd->context, .qp_num = 7 + rail};
    return &card->greeter;
}

/* A queue pair that has failed no longer has receive buffers. */
static inline int card_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    unsigned self, rail;
    struct card *card = card_of(qp, &self, &rail);
    if (card == NULL) return 0; /* made by the world */
    if (qp == &card->greeter && attr->qp_state == IBV_QPS_RESET)
        buffers[self][rail].tail = buffers[self][rail].head;
    if (qp == &card->greeter && (mask & IBV_QP_QKEY) != 0) card->qkey = attr->qkey;
    if ((mask & IBV_QP_DEST_QPN) != 0) card->connected_to = attr->dest_qp_num;
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) card->reads = attr->max_dest_rd_atomic;
    return (mask & IBV_QP_DEST_QPN) != 0 && unconnectable[rail] ? ENETUNREACH : 0;
}

static inline int card_unmake(struct ibv_qp *qp)
{
    unsigned self, rail;
    struct card *card = card_of(qp, &self, &rail);
    if (card == NULL) { /* made by the world */
        assert_in_range((uintptr_t)qp, (uintptr_t)ends, (uintptr_t)ends + sizeof(ends) - 1);
    } else if (qp == &card->greeter) {
        assert_true(card->open);
        card->open = false;
    }
    return 0;
}

static unsigned ways_made, ways_gone;

static inline struct ibv_ah *card_way(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    unsigned self = (unsigned)(end_of(pd->context) - ends), rail = pd == &second_pd[self];
    (void)attr;
    errno = ENETUNREACH;
    if (blocked[rail]) return NULL;
    ways_made++;
    return &ways[self][rail];
}

static inline int card_no_way(struct ibv_ah *ah)
{
    ways_gone++;
    assert_in_range((uintptr_t)ah, (uintptr_t)ways, (uintptr_t)ways + sizeof(ways) - 1);
    return 0;
}

static inline aq_status lookup(void *host, const struct aqi_tp *tp, uint32_t id, void *addr,
                               size_t *len)
{
    (void)host, (void)tp;
    const void *from = found != NULL ? found : &addresses[id];
    assert_true(*len >= AQI_ADDR_MAX);
    *len = found != NULL
               ? found_len
               : offsetof(struct hca_addr, place) + addresses[id].rails * sizeof(struct hca_place);
    memcpy(addr, from, aqi_min(*len, AQI_ADDR_MAX));
    return AQ_OK;
}

static inline struct hca_peer *other(unsigned self)
{
    return hca_peer_at(ends[self].hca, 1 - self);
}

/* A second port, with buffers that both may use. */
static inline void open_second(unsigned self)
{
    struct hca_tp *hca = ends[self].hca;
    second_pd[self].context = &ends[self].context;
    hca->rails = 2;
    hca->rail[1] = hca->rail[0];
    hca->rail[1].pd = &second_pd[self];
    snprintf(hca->rail[1].name, sizeof(hca->rail[1].name), "none:2");
    memset(&hca->rail[2].place, 0xab, sizeof(hca->rail[2].place)); /* it has no third one */
    hca->rdma.free = NULL; /* registered with the first only */
}

static inline void open_greeter(unsigned self)
{
    struct hca_tp *hca = ends[self].hca;
    struct hca_addr *addr = &addresses[self];
    ends[self].context.ops.post_recv = greet_receive;
    hca->rail[0].device.max_qp_rd_atom = 16;
    if (rails == 2) open_second(self);
    assert_int_equal(hca_greet_open(hca), AQ_OK);
    ends[self].context.ops.post_send = greet_send;
    hca->rdma.tp.hooks.lookup = lookup;
    hca->rdma.now = 1000 * PAUSE;
    memcpy(addr->magic, hca_magic, sizeof(hca_magic));
    addr->qkey = QKEY;
    addr->rails = rails;
    for (unsigned r = 0; r < rails; r++)
        addr->place[r].qpn = hca->rail[r].place.qpn;
    struct hca_peer *peer = hca_peer_at(hca, 1 - self);
    peer->state = HCA_IDLE;
    peer->link[0].qp = NULL;
    peer->used = 0;
    peer->addr.rails = 0;
}

static inline int open_all(void **unused)
{
    (void)unused;
    memset(buffers, 0, sizeof(buffers));
    memset(cards, 0, sizeof(cards));
    memset(addresses, 0, sizeof(addresses));
    memset(blocked, 0, sizeof(blocked));
    memset(unconnectable, 0, sizeof(unconnectable));
    said = heard = ways_made = ways_gone = 0;
    found = NULL;
    world_cards();
    hca_verbs.create_qp = card_make;
    hca_verbs.modify_qp = card_modify;
    hca_verbs.destroy_qp = card_unmake;
    hca_verbs.create_ah = card_way;
    hca_verbs.destroy_ah = card_no_way;
    world_open(MEDIUM);
    for (unsigned i = 0; i < GREETERS; i++)
        open_greeter(i);
    return 0;
}

static inline int open_two_rails(void **unused)
{
    rails = 2;
    return open_all(unused);
}

static inline int close_all(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < GREETERS; i++) {
        hca_greet_end(ends[i].hca, other(i));
        hca_greet_close(ends[i].hca);
    }
    assert_int_equal(ways_gone, ways_made);
    for (unsigned i = 0; i < GREETERS * RAILS; i++)
        assert_false(cards[i / RAILS][i % RAILS].open);
    world_close();
    rails = 1;
    return 0;
}

#define GREET_TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
#define RAILS_TEST(name) cmocka_unit_test_setup_teardown(name, open_two_rails, close_all)

/* --- sending and receiving ------------------------------------------------------------------- */

/* Returns true if it was recognized as a greeting. Its buffer is always reposted. */
static inline bool hears_over(unsigned self, unsigned rail, const void *bytes, size_t len,
                              size_t byte_len)
{
    struct buffers *of = &buffers[self][rail];
    uint64_t dropped = aqi_counter_sum(AQI_CTR_HELLO_DROPPED);
    uint32_t i = of->tail++ % (2 * HCA_GREETINGS), head = of->head;
    memcpy(of->bytes[i] + HCA_GRH, bytes, aqi_min(len, LETTER - HCA_GRH));
    struct ibv_wc wc = {
        .status = IBV_WC_SUCCESS, .wr_id = of->wr_id[i], .byte_len = (uint32_t)byte_len};
    hca_greet_received(ends[self].hca, rail, &wc);
    assert_int_equal(of->head, head + 1);
    assert_true(of->bytes[head % (2 * HCA_GREETINGS)] == of->bytes[i]);
    memset(of->bytes[i], 0, LETTER);
    dropped = aqi_counter_sum(AQI_CTR_HELLO_DROPPED) - dropped;
    assert_true(dropped <= 1);
    return dropped == 0;
}

static inline bool hears(unsigned self, const void *bytes, size_t len, size_t byte_len)
{
    return hears_over(self, 0, bytes, len, byte_len);
}

static inline bool hears_letter(unsigned self, const struct letter *letter)
{
    return hears_over(self, letter->rail, letter->bytes, letter->len, HCA_GRH + letter->len);
}

/* Advance to the time when the next greeting is due. */
static inline void say_next(unsigned self)
{
    ends[self].hca->rdma.now = hca_greet_deadline(ends[self].hca);
    hca_greet_timers(ends[self].hca);
}

static inline void sent(const struct letter *letter)
{
    hca_greet_sent(ends[letter->from].hca, letter->rail,
                   &(struct ibv_wc){.status = IBV_WC_SUCCESS});
}

/* Complete the sending of all greetings, and have the other receive them. */
static inline void exchange(void)
{
    for (; heard < said; heard++) {
        const struct letter letter = letters[heard];
        sent(&letter);
        assert_true(hears_letter(1 - letter.from, &letter));
    }
}

static inline void call(unsigned self)
{
    hca_greet_begin(ends[self].hca, other(self));
    hca_greet_timers(ends[self].hca);
}

/* The greeting of the first to the second, altered, and signed as by the first. */
static inline struct letter forged(size_t at, uint64_t value, size_t size)
{
    struct letter letter = letters[0];
    struct hca_tp *hca = ends[0].hca;
    memcpy(letter.bytes + at, &value, size);
    size_t len = letter.len - AQI_MAC_BYTES;
    aqi_mac_bytes(hca->greeter.mac, "ibv greeting", hca->rdma.params.key, letter.bytes, len,
                  letter.bytes + len);
    return letter;
}

#endif
