/* Tests hca_ring.c: three processes whose messages arrive once and in order, also by rings. */
#include "transport/ibv/hca_world_test.h"

enum { MEDIUM = 256, STEPS = 200000 };

/* --- the processes --------------------------------------------------------------------------- */

static void answer(struct end *end, unsigned to)
{
    int32_t number = (int32_t)end->answers[to];
    struct aqi_am am = {
        .kind = AQI_AM_SHORT, .nargs = 1, .flags = AQI_AM_IS_REPLY, .args = &number};
    if (end->owed[to] == 0 || world_send((unsigned)(end - ends), to, &am) != AQ_OK) return;
    end->owed[to]--;
    end->answers[to]++;
}

/* Each message arrives once and in order, with its contents. */
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
    if (world_send((unsigned)(end - ends), to, &am) == AQ_OK) end->sent[to]++;
}

static void open_with(uint64_t peers, uint64_t depth, uint64_t limit, uint64_t cycle)
{
    world.written = world.slept = 0;
    hca_config.ring_peers = peers;
    hca_config.ring_depth = depth;
    hca_config.ring_limit = limit;
    hca_config.ring_cycle = cycle;
    world_open(MEDIUM);
    for (unsigned i = 0; i < ENDS; i++)
        ends[i].hca->rdma.tp.hooks.deliver = on_message;
}

static void end_sleep(struct end *end)
{
    if (hca_arm(&end->hca->rdma.tp, true) != AQ_OK) return;
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
        (void)aqi_rdma_deliver_held(&end->hca->rdma);
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

/* A sleeping process is woken by its completion queue only. */
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
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++)
        for (unsigned sleeps = 0; sleeps < 2; sleeps++) {
            world.state = i;
            hca_config.spares = i % 2; /* without spares, messages are copied */
            open_with(rows[i].peers, rows[i].depth, rows[i].limit, rows[i].cycle);
            run(sleeps != 0);
            assert_true(world.written > 100);
            assert_true((world.slept > 20) == (sleeps != 0));
            world_close();
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
    return hca_peer_at(ends[at].hca, who)->in.ring != 0;
}

static void follows_the_traffic(void **unused)
{
    open_with(1, 16, 4096, 32);
    talk(1, 0, 31);
    assert_false(has_ring(0, 1));
    talk(1, 0, 33);
    assert_true(has_ring(0, 1));
    talk(2, 0, 100);
    talk(2, 0, 100);
    assert_true(has_ring(0, 2));
    assert_false(has_ring(0, 1));
    world_close();
}

static void nothing_without_them(void **unused)
{
    for (unsigned i = 0; i < 3; i++) {
        open_with(i != 0, 16, i != 1 ? 4096 : 0, i != 2);
        talk(1, 0, 200);
        assert_int_equal(world.written, 0);
        assert_null(ends[0].hca->rings.chunk);
        world_close();
    }
}

/* Data from a peer is not trusted: nothing beyond the slot is read, and nothing stops the
 * process. */
static void malformed_ring_messages_are_dropped(void **unused)
{
    open_with(1, 4, 128, 1);
    talk(1, 0, 2);
    struct hca_tp *hca = ends[0].hca;
    struct hca_peer *peer = hca_peer_at(hca, 1);
    assert_int_equal(peer->in.ring, 1);
    for (uint32_t len = 0; len < 0x10000; len += 13) {
        uint32_t place = peer->in.consumed % 4, was = peer->in.consumed;
        uint64_t mark = peer->received | (uint64_t)len << 32 | UINT64_C(0xa95c) << 48;
        memset(hca->rings.slots + place * 128, (int)len, 120);
        memcpy(hca->rings.slots + place * 128 + 120, &mark, 8);
        ((uint64_t *)(void *)(hca->rings.chunk->memory + 64))[0] = dice(1000) | (uint64_t)len << 32;
        hca_peer_at(hca, 1)->out.freed = dice(1u << 31);
        (void)hca_rings_progress(hca, AQI_PROGRESS_ALL);
        assert_int_equal(peer->in.consumed, was + 1);
    }
    world_close();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_and_in_order),
        cmocka_unit_test(follows_the_traffic),
        cmocka_unit_test(nothing_without_them),
        cmocka_unit_test(malformed_ring_messages_are_dropped),
    };
    world_cards();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
