/* Twin of park.c: limits of parked packets while the program makes no call. */
#include "dgram/forge_test.h"

/* A packet arrives `ahead` of the next number; returns false if it is dropped. */
static bool parks(uint32_t ahead, uint8_t flags)
{
    static alignas(16) unsigned char packet[sizeof(struct dgram_head)];
    uint64_t before = aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DROP_POOL);
    begin(LIAR, (uint8_t)(DGRAM_NUMBERED | flags));
    forged.head.seq += ahead;
    memcpy(packet, &forged.head, sizeof(packet));
    aqi_dgram_answer(world.dgram[VICTIM], packet, sizeof(packet), 0, world.now);
    return aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DROP_POOL) == before;
}

static void fill(uint32_t most)
{
    struct aqi_dgram *dgram = world.dgram[VICTIM];
    for (uint32_t i = 0; i < most; i++) {
        assert_true(parks(i, 0));
        assert_true(parks(i, 0)); /* a duplicate is not parked again */
        assert_int_equal(dgram->park.count, i + 1);
        assert_int_equal(dgram->park.bytes, (i + 1) * sizeof(struct dgram_head));
    }
    assert_false(parks(0, DGRAM_ON_DATA));
    assert_true(aqi_dgram_parked(dgram));
    assert_int_equal(aqi_dgram_resume(dgram, true, world.now), most);
    assert_false(aqi_dgram_parked(dgram));
    assert_int_equal(dgram->park.count + dgram->park.bytes, 0);
}

static void test_bounds(void **state)
{
    enum { FEW = 31, PACKETS = DGRAM_WINDOW };
    open_world(false);
    world.cut = true;
    struct aqi_dgram *dgram = world.dgram[VICTIM];
    dgram->env.config.room = FEW * sizeof(struct dgram_head);
    fill(FEW);
    fill(FEW); /* and again */
    dgram->env.config.room = 1 << 20;
    fill(PACKETS);
    close_world();
}

/* The two channels are numbered independently. */
static void test_channels(void **state)
{
    open_world(false);
    assert_true(parks(0, 0));
    assert_true(parks(0, DGRAM_ON_DATA));
    assert_true(parks(0, DGRAM_ON_DATA));
    assert_int_equal(world.dgram[VICTIM]->park.count, 2);
    close_world();
}

/* A handler during which another packet is parked. */
static void park_another(void *arg, uint32_t source, bool request, unsigned char *message,
                         size_t len)
{
    world.delivered++;
    assert_true(parks(5, 0));
}

/* A packet parked meanwhile waits for the next call, so that long handlers cannot extend this one
 * without bound. */
static void test_parked_meanwhile(void **state)
{
    static alignas(16) unsigned char packet[sizeof(forged.bytes)];
    open_world(false);
    struct aqi_dgram *dgram = world.dgram[VICTIM];
    dgram->env.hooks.deliver = park_another;
    begin(LIAR, DGRAM_NUMBERED);
    add((struct dgram_record){.kind = DGRAM_MESSAGE}, 0);
    memcpy(forged.bytes, &forged.head, sizeof(forged.head));
    memcpy(packet, forged.bytes, forged.len);
    aqi_dgram_answer(dgram, packet, forged.len, 0, world.now);
    assert_int_equal(dgram->park.count, 1);
    assert_int_equal(aqi_dgram_resume(dgram, true, world.now), 1);
    assert_int_equal(world.delivered, 1);
    assert_int_equal(dgram->park.count, 1);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_parked_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
