/* Tests shm_receive.c: slots as a malicious peer could fill them, at each bound and beyond it. */
#include "base/cmocka_test.h"
#include "base/stats.h"
#include "transport/shm/shm_impl.h"

#include <string.h>

enum { SLOTS = 8, LINES = 8, MEDIUM = 256, PIECE = 640 };

enum { LARGE_SLOTS = 128, LARGE_LINES = 512 }; /* of test_given_back_by_number */

static struct shm_slot slots[SHM_RINGS][LARGE_SLOTS];
static alignas(AQI_CACHE_LINE) unsigned char payload[LARGE_LINES * AQI_CACHE_LINE];
static _Atomic uint32_t done[SHM_RINGS];
static struct aqi_am delivered;
static unsigned deliveries;
static bool refills; /* the sender refills each slot as soon as it has been read */

static void deliver(void *arg, uint32_t source, const struct aqi_am *am);

static struct shm_source source = {.id = 3};
static _Atomic(struct shm_source *) polled[1] = {&source};
static struct aqi_watch watch[SHM_WATCH_RINGS + SHM_RINGS];
static struct shm_tp shm = {
    .tp = {.hooks = {.deliver = deliver}, .limits = {.max_medium = MEDIUM, .max_piece = PIECE}},
    .layout = {.ranks = 1, .slots = SLOTS, .lines = LINES},
    .polled = polled,
    .polled_count = 1,
    .watch = watch};

static void put(unsigned ring, uint32_t number, const struct aqi_am *am, uint32_t line)
{
    struct shm_slot *slot = &slots[ring][number % shm.layout.slots];
    aqi_am_encode(slot->bytes, am, line);
    atomic_store(shm_stamp(slot), number + 1);
}

static void deliver(void *arg, uint32_t from, const struct aqi_am *am)
{
    assert_int_equal(from, source.id);
    delivered = *am;
    deliveries++;
    if (refills)
        put(SHM_REQUESTS, atomic_load(&source.rx[SHM_REQUESTS].head) + SLOTS, am, SHM_INLINE);
}

/* Whether a message is delivered. Otherwise it counts as dropped; its slot is freed anyway. */
static bool arrives(unsigned ring, struct aqi_am am, uint32_t line)
{
    struct shm_rx *rx = &source.rx[ring];
    uint32_t head = atomic_load(&rx->head);
    uint64_t dropped = aqi_counter_sum(AQI_CTR_AM_DROPPED);
    unsigned before = deliveries;
    static const int32_t args[AQI_AM_MAX_ARGS];
    am.args = args;
    put(ring, head, &am, line);
    assert_int_equal(shm_moved(&shm.tp, SHM_WATCH_RINGS + ring), 1);
    assert_int_equal(atomic_load(&rx->head), head + 1);
    bool there = deliveries != before;
    assert_int_equal(aqi_counter_sum(AQI_CTR_AM_DROPPED) - dropped, !there);
    return there;
}

static struct aqi_am message(uint8_t kind, uint32_t nbytes)
{
    return (struct aqi_am){.kind = kind, .handler = 200, .nbytes = nbytes};
}

static int begin(void **state)
{
    memset(slots, 0, sizeof(slots));
    memset(done, 0, sizeof(done));
    shm.layout.slots = SLOTS;
    shm.layout.lines = LINES;
    for (unsigned ring = 0; ring < SHM_RINGS; ring++)
        source.rx[ring] =
            (struct shm_rx){.slots = slots[ring], .payload = payload, .done = &done[ring]};
    return 0;
}

static void test_payload_in_the_ring(void **state)
{
    enum { LINE = AQI_CACHE_LINE };
    static const struct {
        uint32_t line, nbytes;
        bool taken;
    } cases[] = {{0, 1, true},           {0, LINES * LINE, true},  {0, LINES * LINE + 1, false},
                 {1, 7 * LINE, true},    {1, 7 * LINE + 1, false}, {LINES - 1, LINE, true},
                 {LINES - 1, 65, false}, {LINES, 0, false},        {LINES, 1, false},
                 {LINES, LINE, false},   {LINES + 1, 1, false},    {UINT32_MAX - 1, 1, false},
                 {1u << 31, 1, false}};
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct aqi_am am = message(AQI_AM_INTERNAL, cases[i].nbytes);
        assert_int_equal(arrives(SHM_REQUESTS, am, cases[i].line), cases[i].taken);
        if (!cases[i].taken) continue;
        assert_ptr_equal(delivered.payload, payload + cases[i].line * LINE);
        assert_int_equal(delivered.nbytes, cases[i].nbytes);
    }
    assert_true(arrives(SHM_REQUESTS, message(AQI_AM_MEDIUM, MEDIUM), 0));
    assert_false(arrives(SHM_REQUESTS, message(AQI_AM_MEDIUM, MEDIUM + 1), 0));
}

static void test_payload_in_the_slot(void **state)
{
    for (uint8_t nargs = 0; nargs <= AQI_AM_MAX_ARGS; nargs++) {
        size_t room = SHM_SLOT - aqi_am_payload_offset(nargs);
        struct aqi_am am = message(AQI_AM_MEDIUM, (uint32_t)room);
        am.nargs = nargs;
        assert_true(arrives(SHM_REQUESTS, am, SHM_INLINE));
        am.nbytes++;
        assert_false(arrives(SHM_REQUESTS, am, SHM_INLINE));
    }
}

static void test_rings(void **state)
{
    struct aqi_am am = message(AQI_AM_SHORT, 0);
    assert_true(arrives(SHM_REQUESTS, am, SHM_INLINE));
    assert_false(arrives(SHM_REPLIES, am, SHM_INLINE));
    am.flags = AQI_AM_IS_REPLY;
    assert_true(arrives(SHM_REPLIES, am, SHM_INLINE));
    assert_false(arrives(SHM_REQUESTS, am, SHM_INLINE));
}

/* The sender is notified of room once per quarter of the slots or of the lines. */
static void test_given_back(void **state)
{
    struct shm_rx *rx = &source.rx[SHM_REQUESTS];
    assert_true(arrives(SHM_REQUESTS, message(AQI_AM_SHORT, 0), SHM_INLINE));
    assert_int_equal(done[SHM_REQUESTS], 0);
    assert_int_equal(rx->lines_held, 0);
    assert_true(arrives(SHM_REQUESTS, message(AQI_AM_SHORT, 0), SHM_INLINE));
    assert_int_equal(done[SHM_REQUESTS], 2);
    assert_true(arrives(SHM_REQUESTS, message(AQI_AM_MEDIUM, 2 * AQI_CACHE_LINE), 0));
    assert_int_equal(done[SHM_REQUESTS], 3);
    assert_int_equal(rx->lines_held, 0);
    assert_true(arrives(SHM_REQUESTS, message(AQI_AM_MEDIUM, AQI_CACHE_LINE), 2));
    assert_int_equal(done[SHM_REQUESTS], 3);
    assert_int_equal(rx->lines_held, 1);
}

/* A quarter of a large ring is too much: once per 16 slots or 64 lines. */
static void test_given_back_by_number(void **state)
{
    struct aqi_am piece = message(AQI_AM_INTERNAL, PIECE); /* of 10 lines */
    shm.layout.slots = LARGE_SLOTS;
    shm.layout.lines = LARGE_LINES;
    for (unsigned i = 0; i < 15; i++)
        assert_true(arrives(SHM_REQUESTS, message(AQI_AM_SHORT, 0), SHM_INLINE));
    assert_int_equal(done[SHM_REQUESTS], 0);
    assert_true(arrives(SHM_REQUESTS, message(AQI_AM_SHORT, 0), SHM_INLINE));
    assert_int_equal(done[SHM_REQUESTS], 16);
    for (unsigned i = 0; i < 6; i++)
        assert_true(arrives(SHM_REQUESTS, piece, 10 * i));
    assert_int_equal(done[SHM_REQUESTS], 16);
    assert_true(arrives(SHM_REQUESTS, piece, 60));
    assert_int_equal(done[SHM_REQUESTS], 23);
}

/* One call takes everything that has arrived, at most a whole ring. */
static void test_a_ring_at_a_time(void **state)
{
    static const int32_t args[AQI_AM_MAX_ARGS];
    struct aqi_am am = message(AQI_AM_SHORT, 0);
    am.args = args;
    for (uint32_t number = 0; number < SLOTS; number++)
        put(SHM_REQUESTS, number, &am, SHM_INLINE);
    refills = true;
    assert_int_equal(shm_moved(&shm.tp, SHM_WATCH_RINGS + SHM_REQUESTS), SLOTS);
    refills = false;
    assert_int_equal(shm_moved(&shm.tp, SHM_WATCH_RINGS + SHM_REQUESTS), SLOTS);
    assert_int_equal(shm_moved(&shm.tp, SHM_WATCH_RINGS + SHM_REQUESTS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_payload_in_the_ring, begin),
        cmocka_unit_test_setup(test_payload_in_the_slot, begin),
        cmocka_unit_test_setup(test_rings, begin),
        cmocka_unit_test_setup(test_given_back, begin),
        cmocka_unit_test_setup(test_given_back_by_number, begin),
        cmocka_unit_test_setup(test_a_ring_at_a_time, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
