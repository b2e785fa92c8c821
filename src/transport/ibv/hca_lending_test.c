/* Tests lending.c and lending by pins.c: three processes that put and get. */
#include "base/stats.h"
#include "reg/limits.h"
#include "transport/ibv/hca_world_test.h"

#include <sys/mman.h>

enum {
    MEDIUM = 4032,
    PAGE = 4096,
    REGION = 4 * PAGE,
    SLOTS = 4,       /* concurrent transfers of a process to another, each with separate memory: */
    PLOT = 9 * PAGE, /* ... this much there */
    ARENA = ENDS * SLOTS * PLOT,
    STEPS = 100000
};

/* A transfer, and the expected contents of the peer's memory. */
struct slot {
    struct aqi_comp comp;
    bool get;
    size_t offset, len;
    unsigned char *local;
    unsigned char model[PLOT];
};

static struct place {
    unsigned char *memory, *arena, *local;
    struct aqi_mem *mem;
    struct aqi_rmem *rmem[ENDS]; /* of the others */
    bool blocked[ENDS];          /* has not been notified that its memory was changed */
    bool unnotified[ENDS];       /* must be notified that ours was */
    struct slot slot[ENDS][SLOTS];
    uint32_t transfers, carried; /* carried: by messages */
    int32_t changes;
    bool closing; /* it waits until its memory is unused, to change it */
} places[ENDS];

static void configure(void)
{
    hca_config.sends = SENDS / 2;
    hca_config.registration = UINT64_C(1) << 30;
    hca_config.piece = 2 * PAGE;
    hca_config.bounce_limit = PAGE;
}

/* --- the environment of ibv ------------------------------------------------------------------ */

static bool range_ok(void *host, uint64_t addr, size_t len)
{
    const struct place *place = host;
    return aqi_within(addr, len, (uintptr_t)place->arena, ARENA);
}

static aq_status by_messages(void *messenger, uint32_t id, bool get, uint64_t addr, void *local,
                             size_t len, struct aqi_comp *comp)
{
    struct place *place = messenger;
    void *there = (void *)(uintptr_t)addr;
    if (dice(4) == 0) return AQ_AGAIN;
    assert_true(range_ok(&places[id], addr, len));
    memcpy(get ? local : there, get ? there : local, len);
    if (!get) aqi_comp_local(comp);
    aqi_comp_remote(comp);
    place->carried++;
    return AQ_OK;
}

/* The only message: memory has changed. */
static void on_message(void *arg, uint32_t source, const struct aqi_am *am)
{
    const struct end *end = arg;
    if (am->args[0] == places[source].changes) places[end - ends].blocked[source] = false;
}

static void segment_offer(unsigned self)
{
    struct place *place = &places[self];
    struct hca_tp *hca = ends[self].hca;
    assert_int_equal(aqi_rdma_mem_reg(&hca->rdma.tp, place->arena, ARENA, &place->mem), AQ_OK);
    assert_int_equal(((struct aqi_rdma_mem *)place->mem)->parts, 0);
}

static void place_open(unsigned self)
{
    struct place *place = &places[self];
    end_open(self, MEDIUM);
    struct hca_tp *hca = ends[self].hca;
    hca->rdma.lending.on = true;
    hca->rdma.params.hooks = (struct aqi_tp_hooks){
        .range_ok = range_ok, .host = place, .by_messages = by_messages, .messenger = place};
    hca->rdma.tp.hooks.deliver = on_message;
    assert_int_equal(aqi_pins_open(&hca->rdma, 0, true), AQ_OK);
    place->memory =
        mmap(NULL, 2 * ARENA + REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(place->memory != MAP_FAILED);
    place->arena = place->memory + (REGION - (uintptr_t)place->memory % REGION) % REGION;
    place->local = place->arena + ARENA;
    segment_offer(self);
    for (unsigned i = 0; i < ENDS * SLOTS; i++)
        place->slot[i / SLOTS][i % SLOTS].local = place->local + i * PLOT;
}

static void open_with(const char *main, uint64_t ride)
{
    memset(places, 0, sizeof(places));
    world_reset();
    aqi_reg_config.main = main;
    aqi_reg_config.ride = ride;
    for (unsigned i = 0; i < ENDS; i++)
        place_open(i);
    world_meet();
    for (unsigned i = 0; i < ENDS; i++)
        for (unsigned j = 0; j < ENDS; j++)
            if (i != j)
                assert_int_equal(
                    aqi_rdma_mem_map(&ends[i].hca->rdma.tp, &hca_peer_at(ends[i].hca, j)->rdma.peer,
                                     places[j].mem->key, places[j].mem->key_len,
                                     (uintptr_t)places[j].arena, ARENA, &places[i].rmem[j]),
                    AQ_OK);
}

static void close_all(void)
{
    for (unsigned i = 0; i < ENDS; i++) {
        for (unsigned j = 0; j < ENDS; j++)
            if (i != j) aqi_rdma_mem_unmap(&ends[i].hca->rdma.tp, places[i].rmem[j]);
        aqi_rdma_mem_dereg(&ends[i].hca->rdma.tp, places[i].mem);
    }
    world_close();
    for (unsigned i = 0; i < ENDS; i++)
        munmap(places[i].memory, 2 * ARENA + REGION);
}

/* --- actions of the processes ---------------------------------------------------------------- */

static bool is_over(const struct slot *slot)
{
    return slot->comp.local == 0 && slot->comp.remote == 0;
}

static unsigned char *plot_of(unsigned self, unsigned there, unsigned s)
{
    return places[there].arena + ((size_t)self * SLOTS + s) * PLOT;
}

static aq_status begin(unsigned self, unsigned there, unsigned s)
{
    struct slot *slot = &places[self].slot[there][s];
    struct hca_tp *hca = ends[self].hca;
    struct aqi_peer *peer = &hca_peer_at(hca, there)->rdma.peer;
    uint64_t addr = (uintptr_t)plot_of(self, there, s) + slot->offset;
    slot->comp = (struct aqi_comp){.local = !slot->get, .remote = 1};
    aq_status st = slot->get ? aqi_rdma_get_bytes(&hca->rdma.tp, peer, places[self].rmem[there],
                                                  addr, slot->local, slot->len, NULL, &slot->comp)
                             : aqi_rdma_put_bytes(&hca->rdma.tp, peer, places[self].rmem[there],
                                                  addr, slot->local, slot->len, NULL, &slot->comp);
    if (st != AQ_OK) {
        assert_int_equal(st, AQ_AGAIN);
        slot->comp.local = slot->comp.remote = 0;
        slot->len = 0;
        return st;
    }
    if (!slot->get) memcpy(slot->model + slot->offset, slot->local, slot->len);
    places[self].transfers++;
    return st;
}

/* If the previous transfer has ended, check its result, and begin another one. */
static void transfer(unsigned self, unsigned there, unsigned s)
{
    struct slot *slot = &places[self].slot[there][s];
    if (!is_over(slot)) return;
    assert_int_equal(slot->comp.status, AQ_OK);
    if (slot->get) assert_memory_equal(slot->local, slot->model + slot->offset, slot->len);
    if (places[self].blocked[there] || places[there].closing) return;
    slot->get = dice(2) != 0;
    slot->len = 1 + dice(dice(2) != 0 ? 64 : PLOT);
    slot->offset = dice((uint32_t)(PLOT - slot->len + 1));
    for (size_t i = 0; i < slot->len; i++)
        slot->local[i] = (unsigned char)dice(256);
    (void)begin(self, there, s);
}

/* Change the memory if it is unused, offer it again, and notify all. */
static void change(unsigned self)
{
    for (unsigned i = 0; i < ENDS; i++)
        for (unsigned s = 0; s < SLOTS; s++)
            if (!is_over(&places[i].slot[self][s])) return;
    aqi_rdma_mem_dereg(&ends[self].hca->rdma.tp, places[self].mem);
    segment_offer(self);
    places[self].changes++;
    places[self].closing = false;
    for (unsigned i = 0; i < ENDS; i++)
        if (i != self) places[i].blocked[self] = places[self].unnotified[i] = true;
}

static aq_status tell(unsigned self, unsigned there)
{
    const struct aqi_am am = {.kind = AQI_AM_SHORT, .nargs = 1, .args = &places[self].changes};
    return world_send(self, there, &am);
}

static void step(bool works)
{
    unsigned a = dice(ENDS), b = (a + 1 + dice(ENDS - 1)) % ENDS;
    switch (dice(8)) {
    case 0:
        if (works) transfer(a, b, dice(SLOTS));
        break;
    case 1:
        if (works && dice(200) == 0) places[a].closing = true;
        if (places[a].closing) change(a);
        if (places[a].unnotified[b] && tell(a, b) == AQ_OK) places[a].unnotified[b] = false;
        break;
    case 2:
    case 3:
        (void)hca_progress(&ends[a].hca->rdma.tp,
                           dice(4) == 0 ? AQI_PROGRESS_REPLIES : AQI_PROGRESS_ALL, 0);
        break;
    default:
        card_deliver(a, b);
    }
}

static bool all_over(void)
{
    for (unsigned i = 0; i < ENDS * ENDS * SLOTS; i++)
        if (!is_over(&places[i / SLOTS / ENDS].slot[i / SLOTS % ENDS][i % SLOTS])) return false;
    return true;
}

static void settle(void)
{
    for (unsigned i = 0; i < STEPS && !all_over(); i++)
        step(false);
    assert_true(all_over());
    for (unsigned i = 0; i < STEPS / 20; i++)
        step(false);
}

/* --- the cases ------------------------------------------------------------------------------- */

/* Accesses use keys of the right memory, whatever is changed, returned and rejected meanwhile. */
static void all_arrives(void **unused)
{
    static const struct {
        const char *main;
        uint64_t ride;
        bool hits, refusals, rides;
    } rows[] = {{"32M", 3072, true, false, true},
                {"160K", 256, true, true, true},
                {"32K", 0, true, true, false},
                {"16K", 3072, false, true, false}};
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        uint64_t hits = aqi_counter_sum(AQI_CTR_REG_FAR_HIT),
                 rides = aqi_counter_sum(AQI_CTR_REG_RIDES);
        uint32_t carried = 0, transfers = 0;
        world.state = i;
        hca_config.spares = i % 2; /* without spares, messages are copied */
        open_with(rows[i].main, rows[i].ride);
        for (unsigned j = 0; j < STEPS; j++)
            step(true);
        settle();
        for (unsigned j = 0; j < ENDS; j++) {
            const struct aqi_reg_counts *counts = aqi_reg_counts(ends[j].hca->rdma.pins.reg);
            assert_int_equal(counts->revoked != 0, rows[i].hits);
            carried += places[j].carried;
            transfers += places[j].transfers;
        }
        assert_true(transfers > 500);
        assert_int_equal(aqi_counter_sum(AQI_CTR_REG_FAR_HIT) - hits > 100, rows[i].hits);
        assert_int_equal(carried != 0, rows[i].refusals);
        assert_int_equal(aqi_counter_sum(AQI_CTR_REG_RIDES) != rides, rows[i].rides);
        close_all();
    }
}

/* Process 1 holds memory of process 0. */
static struct slot *hold(bool get, size_t len)
{
    struct slot *slot = &places[1].slot[0][0];
    slot->get = get;
    slot->offset = 0;
    slot->len = len;
    assert_int_equal(begin(1, 0, 0), AQ_OK);
    return slot;
}

static void pass_on(unsigned from, unsigned to)
{
    for (unsigned i = 0; i < WIRE; i++)
        card_deliver(from, to);
}

static void poll_at(unsigned self)
{
    for (unsigned i = 0; i < 4; i++)
        (void)hca_progress(&ends[self].hca->rdma.tp, AQI_PROGRESS_ALL, 0);
}

static void nothing_leaves_behind_the_fence(void **unused)
{
    open_with("32M", 0);
    hold(true, PLOT);
    settle();
    struct hca_tp *hca = ends[0].hca;
    assert_false(aqi_rdma_fenced(&hca->rdma));
    change(0);
    assert_true(aqi_rdma_fenced(&hca->rdma));
    const struct wire *wire = &ends[0].to[2];
    uint32_t before = wire->head;
    places[0].slot[2][0].len = 64;
    assert_int_equal(begin(0, 2, 0), AQ_AGAIN);
    assert_int_equal(tell(0, 2), AQ_AGAIN);
    poll_at(0);
    pass_on(0, 1);
    poll_at(0);
    assert_int_equal(tell(0, 1), AQ_AGAIN);
    assert_int_equal(wire->head, before);
    poll_at(1); /* it returns memory even while a handler waits */
    pass_on(1, 0);
    (void)hca_progress(&hca->rdma.tp, AQI_PROGRESS_REPLIES, 0);
    assert_false(aqi_rdma_fenced(&hca->rdma));
    assert_int_equal(tell(0, 2), AQ_OK);
    settle();
    close_all();
}

/* The handler of a message from the ring waits until its answer can be sent. */
static void on_ring(void *arg, uint32_t source, const struct aqi_am *am)
{
    const struct end *end = arg;
    if (am->kind != AQI_AM_SHORT) return;
    (void)hca_progress(&end->hca->rdma.tp, AQI_PROGRESS_REPLIES, 0);
    if (tell((unsigned)(end - ends), source) == AQ_OK) ends[0].answers[source]++;
}

/* The peer has requested an answer through the ring, and returns memory in a later message. */
static void handlers_do_not_wait_for_later_messages(void **unused)
{
    static const unsigned char large[512];
    const struct aqi_am am = {.kind = AQI_AM_MEDIUM, .nbytes = sizeof(large), .payload = large};
    hca_config.ring_peers = hca_config.ring_cycle = 1;
    hca_config.ring_depth = 4;
    hca_config.ring_limit = 256;
    open_with("32M", 0);
    hold(true, PLOT);
    settle();
    ends[0].hca->rdma.tp.hooks.deliver = on_ring;
    assert_int_equal(tell(1, 0), AQ_OK);
    pass_on(1, 0);
    poll_at(0);
    pass_on(0, 1);
    ends[0].answers[1] = 0;
    uint64_t by_ring = aqi_counter_sum(AQI_CTR_AM_RING);
    change(0);
    assert_true(aqi_rdma_fenced(&ends[0].hca->rdma));
    pass_on(0, 1);
    assert_int_equal(world_send(1, 0, &am), AQ_OK);
    assert_int_equal(tell(1, 0), AQ_OK);
    assert_int_equal(aqi_counter_sum(AQI_CTR_AM_RING), by_ring + 1);
    poll_at(1);
    pass_on(1, 0);
    poll_at(0);
    assert_int_equal(ends[0].answers[1], 1);
    settle();
    close_all();
    hca_config.ring_peers = 0;
}

/* A peer that does not poll gets only this many requests, and waits for it end when it is gone. */
static void waits_for_a_lost_peer_end(void **unused)
{
    open_with("32M", 0);
    for (unsigned s = 0; s < SLOTS; s++) {
        places[1].slot[0][s].get = s % 2 != 0;
        places[1].slot[0][s].len = PLOT;
        assert_int_equal(begin(1, 0, s), AQ_OK);
    }
    struct hca_peer *peer = hca_peer_at(ends[1].hca, 0);
    for (unsigned i = 0; i < 10; i++) {
        poll_at(1);
        pass_on(1, 0);
    }
    assert_int_equal(peer->rdma.lender.sent, AQI_LENDING_MESSAGES);
    assert_non_null(peer->rdma.lender.wants.first);
    peer->rdma.lost = true; /* the caller knows it */
    aqi_rdma_fail(&ends[1].hca->rdma, &peer->rdma, "it is gone");
    aqi_lending_progress(&ends[1].hca->rdma);
    for (unsigned s = 0; s < SLOTS; s++) {
        assert_true(is_over(&places[1].slot[0][s]));
        assert_int_equal(places[1].slot[0][s].comp.status, AQ_EPEER);
    }
    assert_null(peer->rdma.ops);
    close_all();
}

/*
 * Accesses that the peer's adapter rejects, as adjacent memory was unmapped, are repeated by
 * messages.
 */
static void rejected_accesses_are_repeated_by_messages(void **unused)
{
    open_with("32M", 0);
    hca_config.sends = 1; /* so half of the long ones are not posted */
    hca_config.piece = PAGE;
    for (unsigned i = 0; i < 4; i++) {
        bool get = i % 2 != 0;
        struct slot *slot = hold(get, i < 2 ? 2 * PAGE : PAGE);
        settle();
        memset(get ? plot_of(1, 0, 0) : slot->local, 'x', slot->len);
        struct hca_link *link = &hca_peer_at(ends[1].hca, 0)->link[0];
        struct wire *wire = &ends[1].to[0];
        assert_int_equal(begin(1, 0, 0), AQ_OK);
        assert_true(link->head != link->tail);
        wire->tail = wire->head;
        while (link->tail != link->head) {
            struct hca_sent *sent = hca_link_take(ends[1].hca, link);
            sent->refused = sent->piece.op != NULL;
            assert_int_equal(hca_transfer_lent_again(ends[1].hca, sent), sent->piece.op != NULL);
            hca_sent_end(ends[1].hca, sent, AQ_OK);
        }
        assert_false(is_over(slot));
        settle();
        assert_int_equal(ends[1].hca->rdma.waiting, 0);
        assert_int_equal(slot->comp.status, AQ_OK);
        assert_memory_equal(slot->local, plot_of(1, 0, 0), slot->len);
    }
    assert_int_equal(places[1].carried, 6);
    close_all();
    configure();
}

/* A peer with more ports than we have is accessed by as many keys as we need. */
static void keys_are_for_the_ports_of_both(void **unused)
{
    open_with("32M", 0);
    assert_int_equal(ends[1].hca->rails, 1);
    hca_peer_at(ends[1].hca, 0)->addr.rails = 2;
    hold(false, PLOT);
    settle();
    assert_int_equal(places[1].carried, 0);
    close_all();
}

static void malformed_message_ends_the_peer(void **unused)
{
    static const unsigned char nonsense[64] = "no message of the cache";
    open_with("32M", 0);
    hca_peer_at(ends[0].hca, 1)->rdma.lost = true;
    assert_int_equal(aqi_lending_send(&ends[1].hca->rdma, 0, nonsense, sizeof(nonsense)), AQ_OK);
    pass_on(1, 0);
    poll_at(0);
    assert_int_equal(hca_peer_at(ends[0].hca, 1)->state, HCA_DOWN);
    close_all();
}

/* In mode everything, the system reports unmapped memory; if it does not, no registration is
 * kept. */
static void memory_of_any_kind(void **unused)
{
    for (unsigned monitor = 0; monitor < 2; monitor++) {
        aqi_reg_config.monitor = monitor;
        open_with("32M", 0);
        aqi_reg_config.monitor = AQI_REG_MONITOR_NONE;
        struct hca_tp *hca = ends[0].hca;
        bool watched = hca->rdma.pins.monitor != NULL;
        aqi_rdma_mem_dereg(&hca->rdma.tp, places[0].mem);
        assert_int_equal(aqi_rdma_mem_reg(&hca->rdma.tp, NULL, SIZE_MAX, &places[0].mem), AQ_OK);
        struct slot *slot = hold(false, 2 * PAGE);
        settle();
        assert_false(aqi_rdma_fenced(&hca->rdma));
        assert_int_equal(aqi_reg_counts(hca->rdma.pins.reg)->lent.regions != 0, watched);
        void *at = mmap(plot_of(1, 0, 0), 2 * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        assert_ptr_equal(at, plot_of(1, 0, 0));
        assert_int_equal(aqi_rdma_fenced(&hca->rdma), watched);
        for (unsigned i = 0; i < STEPS && tell(0, 1) != AQ_OK; i++)
            step(false);
        memset(slot->local, 'x', slot->len);
        assert_int_equal(begin(1, 0, 0), AQ_OK);
        settle();
        assert_memory_equal(slot->local, plot_of(1, 0, 0), slot->len);
        for (unsigned i = 0; i < 4 * SLOTS; i++) { /* in pieces that are returned, some at once */
            places[1].slot[0][i % SLOTS].len = PLOT;
            assert_int_equal(begin(1, 0, i % SLOTS), AQ_OK);
            if (i % SLOTS == SLOTS - 1) settle();
        }
        assert_int_equal(places[1].carried, 0);
        close_all();
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_arrives),
        cmocka_unit_test(nothing_leaves_behind_the_fence),
        cmocka_unit_test(handlers_do_not_wait_for_later_messages),
        cmocka_unit_test(waits_for_a_lost_peer_end),
        cmocka_unit_test(rejected_accesses_are_repeated_by_messages),
        cmocka_unit_test(keys_are_for_the_ports_of_both),
        cmocka_unit_test(malformed_message_ends_the_peer),
        cmocka_unit_test(memory_of_any_kind),
    };
    world_cards();
    configure();
    aqi_reg_config.max = "1G";
    aqi_reg_config.region = REGION;
    aqi_reg_config.monitor = AQI_REG_MONITOR_NONE;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
