/*
 * Tests reg.c, pins.c, lend.c and borrow.c: cases that the simulator (tests/reg) does not
 * distinguish.
 */
#include "reg/reg_impl.h"

#include "base/cmocka_test.h"

#include <string.h>

enum { P = 4096, SENT_MOST = 256 };
#define AT UINT64_C(0x100000)

/* Records of the hooks, and their scripted results. */
static struct {
    uint64_t pinned, memlock, hole;
    unsigned pins, unpins, ready, rides;
    bool no_room, exact;
    enum aqi_reg_how how;
    aq_status status;
    struct {
        unsigned char bytes[AQI_REG_MESSAGE_MAX];
        size_t len;
    } sent[SENT_MOST];
    unsigned sent_count;
} world;
static struct aqi_reg *reg;

static aq_status world_pin(void *host, uint64_t addr, uint64_t len, struct aqi_reg_mem *mem)
{
    if (world.memlock != 0 && world.pinned + len > world.memlock) return AQ_ENOMEM;
    if (world.hole != 0 && reg_overlap(addr, len, world.hole, P)) return AQ_ESYS;
    world.pinned += len;
    world.pins++;
    *mem = (struct aqi_reg_mem){.handle = (void *)(uintptr_t)len, .key = "key", .key_len = 3};
    return AQ_OK;
}

static void world_unpin(void *host, const struct aqi_reg_mem *mem)
{
    world.pinned -= (uintptr_t)mem->handle;
    world.unpins++;
}

static enum aqi_reg_how world_how(void *host, uint32_t process, uint64_t addr, uint64_t len,
                                  uint64_t *from, uint64_t *to)
{
    if (!world.exact) {
        *from = 0;
        *to = UINT64_MAX;
    }
    return process == AQI_REG_SELF ? AQI_REG_KEEP : world.how;
}

static bool world_changed(void *host, uint64_t *addr, uint64_t *len)
{
    return false;
}

static aq_status world_send(void *host, uint32_t peer, const void *bytes, size_t len)
{
    assert_int_equal(peer, 1);
    assert_true(len <= AQI_REG_MESSAGE_MAX && world.sent_count < SENT_MOST);
    if (world.no_room) return AQ_AGAIN;
    memcpy(world.sent[world.sent_count].bytes, bytes, len);
    world.sent[world.sent_count++].len = len;
    return AQ_OK;
}

static aq_status world_ride(void *host, uint32_t peer, uint64_t addr, uint8_t tag,
                            const void *bytes, size_t nbytes)
{
    world.rides++;
    return AQ_ERANGE;
}

static void world_ready(struct aqi_reg_wait *wait, aq_status status)
{
    world.status = status;
    world.ready++;
}

/* Two processes, regions of 4 pages; pools of this many regions. */
static void open_with(uint64_t main, uint64_t victim, bool cut)
{
    memset(&world, 0, sizeof(world));
    world.how = AQI_REG_KEEP;
    struct aqi_reg_params params = {
        .limits = {.page = P,
                   .region = 4 * P,
                   .main = {.bytes = main * 4 * P, .regions = main},
                   .victim = {.bytes = victim * 4 * P, .regions = 4 * victim},
                   .ride = 1024},
        .peers = 2,
        .cut = cut,
        .hooks = {.pin = world_pin,
                  .unpin = world_unpin,
                  .how = world_how,
                  .changed = world_changed,
                  .send = world_send,
                  .ride = world_ride}};
    assert_int_equal(aqi_reg_open(&params, &reg), AQ_OK);
}

static int open_world(void **state)
{
    open_with(2, 4, false);
    return 0;
}

static int close_world(void **state)
{
    aqi_reg_close(reg);
    assert_int_equal(world.pinned, 0);
    assert_int_equal(world.pins, world.unpins);
    return 0;
}

static aq_status receive(struct reg_wire wire, const uint64_t *serials, const void *bytes)
{
    unsigned char frame[AQI_REG_MESSAGE_MAX];
    struct reg_message message = {.wire = wire, .bytes = bytes};
    for (unsigned i = 0; i < wire.serials; i++)
        message.serials[i] = serials[i];
    return aqi_reg_input(reg, 1, frame, reg_message_encode(&message, frame));
}

static aq_status receive_ask(uint64_t serial, uint64_t addr)
{
    return receive((struct reg_wire){.kind = REG_ASK, .serial = serial, .addr = addr, .len = 8},
                   NULL, NULL);
}

static aq_status receive_drop(uint64_t serial)
{
    return receive((struct reg_wire){.kind = REG_DROP, .serials = 1}, &serial, NULL);
}

/* The last message that was sent. */
static struct reg_message last_sent(void)
{
    struct reg_message message;
    assert_true(world.sent_count > 0);
    assert_int_equal(reg_message_decode(world.sent[world.sent_count - 1].bytes,
                                        world.sent[world.sent_count - 1].len, &message),
                     AQ_OK);
    return message;
}

static struct aqi_reg_use use_local(uint64_t addr, uint64_t len)
{
    struct aqi_reg_use use;
    assert_int_equal(aqi_reg_local(reg, addr, len, &use), AQ_OK);
    return use;
}

static void local_memory_is_pinned_once(void **unused)
{
    open_with(1, 4, false);
    struct aqi_reg_use a = use_local(AT + 10, 20), b = use_local(AT + 3 * P, 9 * P);
    assert_int_equal(world.pins, 1); /* the whole region */
    assert_int_equal(a.len, 20);
    assert_int_equal(b.len, P); /* the rest must be requested separately */
    assert_ptr_equal(a.piece, b.piece);
    aqi_reg_release(reg, &a);
    aqi_reg_release(reg, &b);
    a = use_local(AT, 1);
    assert_int_equal(aqi_reg_counts(reg)->hits, 2);
    aqi_reg_release(reg, &a);
}

static void neighbors_are_combined(void **unused)
{
    open_with(1, 4, false);
    world.exact = true;
    struct aqi_reg_use a = use_local(AT, P), b;
    b = use_local(AT + P, P); /* the one before it is in use */
    assert_int_equal(b.mem_addr, AT + P);
    aqi_reg_release(reg, &a);
    aqi_reg_release(reg, &b);
    a = use_local(AT + 2 * P, P);
    assert_int_equal(a.mem_addr, AT);
    assert_int_equal(a.mem_len, 3 * P);
    assert_int_equal(world.pinned, 3 * P);
    aqi_reg_release(reg, &a);
}

static void holes_are_left_out(void **unused)
{
    open_with(1, 4, false);
    world.hole = AT + 2 * P;
    struct aqi_reg_use use = use_local(AT + P + 1, 10);
    assert_int_equal(use.mem_addr, AT + P);
    assert_int_equal(use.mem_len, P);
    struct aqi_reg_use none;
    assert_int_equal(aqi_reg_local(reg, AT + 2 * P, 1, &none), AQ_ENOTSUP);
    aqi_reg_release(reg, &use);
}

static void the_longest_unused_goes_first(void **unused)
{
    open_with(0, 2, false);
    struct aqi_reg_use a = use_local(AT, 1), b = use_local(AT + 4 * P, 1), c;
    assert_int_equal(aqi_reg_local(reg, AT + 8 * P, 1, &c), AQ_ENOTSUP); /* all are in use */
    aqi_reg_release(reg, &b);
    aqi_reg_release(reg, &a);
    c = use_local(AT + 8 * P, 1);
    aqi_reg_release(reg, &c);
    assert_int_equal(world.pins, 3);
    a = use_local(AT, 1);
    assert_int_equal(world.pins, 3); /* still there: b was evicted */
    aqi_reg_release(reg, &a);
}

/* The system allows less than the limit: that becomes the limit, for a while. */
static void locked_memory_runs_out(void **unused)
{
    open_with(0, 100, false);
    world.memlock = 8 * P;
    struct aqi_reg_use a = use_local(AT, 1), b = use_local(AT + 4 * P, 1), c;
    assert_int_equal(aqi_reg_local(reg, AT + 8 * P, 1, &c), AQ_ENOTSUP);
    aqi_reg_release(reg, &a);
    uint64_t failed = aqi_reg_counts(reg)->failed;
    for (unsigned i = 0; i < 200; i++) {
        c = use_local(AT + (8 + 4 * i) * P, 1);
        aqi_reg_release(reg, &c);
    }
    assert_int_equal(aqi_reg_counts(reg)->failed, failed); /* the limit is known */
    world.memlock = 0;
    for (unsigned i = 0; i < 2000; i++) {
        c = use_local(AT + (8 + 4 * i) * P, 1);
        aqi_reg_release(reg, &c);
    }
    assert_true(aqi_reg_counts(reg)->pinned.bytes > 16 * P); /* and it was tried again */
    aqi_reg_release(reg, &b);
}

static void a_peer_gets_its_share_and_no_more(void **unused)
{
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(receive_ask(i, AT + i * 4 * P), AQ_OK);
        assert_int_equal(last_sent().wire.nbytes, i <= 2 ? 3 : 0);
        assert_int_equal(last_sent().wire.quota, 2);
    }
    assert_int_equal(receive_drop(1), AQ_OK);
    assert_int_equal(receive_ask(4, AT), AQ_OK);
    assert_int_equal(last_sent().wire.nbytes, 3);
    assert_int_equal(aqi_reg_counts(reg)->lent.regions, 2);
    aqi_reg_peer_down(reg, 1);
    assert_int_equal(aqi_reg_counts(reg)->lent.regions, 0);
    assert_int_equal(receive_ask(9, AT), AQ_OK); /* too late to count */
    assert_int_equal(aqi_reg_counts(reg)->lent.regions, 0);
}

static void changed_memory_is_called_back(void **unused)
{
    for (unsigned cut = 0; cut < 2; cut++) {
        open_with(2, 4, cut != 0);
        assert_int_equal(receive_ask(1, AT), AQ_OK);
        assert_false(aqi_reg_fenced(reg));
        aqi_reg_invalidate(reg, AT + 3 * P, P);
        assert_true(aqi_reg_fenced(reg));
        assert_int_equal(last_sent().wire.kind, REG_REVOKE);
        assert_int_equal(last_sent().wire.serial, 1);
        assert_int_equal(world.pinned, cut != 0 ? 0 : 4 * P);
        struct aqi_reg_use use = use_local(AT, 1); /* never the old one */
        assert_int_equal(world.pins, 2);
        assert_int_equal(receive_drop(1), AQ_OK);
        assert_false(aqi_reg_fenced(reg));
        assert_false(aqi_reg_progress(reg));
        assert_int_equal(world.pinned, 4 * P);
        aqi_reg_release(reg, &use);
        close_world(NULL);
    }
}

/* An answer that could not be sent yet is dropped. */
static void an_answer_too_late_is_a_refusal(void **unused)
{
    world.no_room = true;
    assert_int_equal(receive_ask(1, AT), AQ_OK);
    aqi_reg_invalidate(reg, AT, 1);
    assert_false(aqi_reg_fenced(reg));
    world.no_room = false;
    assert_false(aqi_reg_progress(reg));
    assert_int_equal(world.sent_count, 1);
    assert_int_equal(last_sent().wire.kind, REG_ANSWER);
    assert_int_equal(last_sent().wire.nbytes, 0);
    assert_int_equal(world.pinned, 0);
}

static void invalid_messages_are_refused(void **unused)
{
    static const char bytes[1025];
    const uint64_t twice[] = {1, 1}, none[] = {7};
    struct aqi_reg_wait wait = {.ready = world_ready};
    assert_int_equal(receive_ask(1, AT), AQ_OK);
    assert_int_equal(aqi_reg_remote(reg, 1, AT, 8, &wait), AQ_AGAIN);
    const struct {
        struct reg_wire wire;
        const uint64_t *serials;
    } cases[] = {
        {{.kind = REG_ASK, .serial = 1, .addr = AT, .len = 8}, NULL}, /* has it */
        {{.kind = REG_ASK, .serial = 2, .addr = AT, .len = 4 * P + 1}, NULL},
        {{.kind = REG_ASK, .serial = 2, .addr = AT, .len = 8, .nbytes = 1025}, NULL},
        {{.kind = REG_ASK, .serial = 2, .addr = AT, .len = 8, .serials = 1}, none},
        {{.kind = REG_ASK, .serial = 2, .addr = AT, .len = 8, .serials = 2}, twice},
        {{.kind = REG_DROP, .serials = 1}, none},
        {{.kind = REG_REVOKE, .serial = 2}, NULL}, /* never requested */
        {{.kind = REG_ANSWER, .serial = 2}, NULL},
        {{.kind = REG_ANSWER, .serial = 1, .addr = AT + P, .len = P, .nbytes = 3}, NULL},
        {{.kind = REG_ANSWER, .serial = 1, .addr = AT, .len = 5 * P, .nbytes = 3}, NULL},
        {{.kind = REG_ANSWER, .serial = 1, .status = -1}, NULL}, /* nothing was sent along */
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++)
        assert_int_equal(receive(cases[i].wire, cases[i].serials, bytes), AQ_EPROTO);
    assert_int_equal(world.ready, 0);
    assert_int_equal(world.rides, 0);
    /* Nothing of it took effect. */
    assert_int_equal(receive_drop(1), AQ_OK);
    assert_int_equal(
        receive(
            (struct reg_wire){
                .kind = REG_ANSWER, .serial = 1, .addr = AT, .len = P, .quota = 2, .nbytes = 3},
            NULL, "key"),
        AQ_OK);
    assert_int_equal(world.ready, 1);
    assert_int_equal(world.status, AQ_OK);
    assert_int_equal(wait.use.mem_len, P);
    aqi_reg_release(reg, &wait.use);
}

/* A peer that keeps requesting and accepts no answer does not fill our memory. */
static void a_flood_ends(void **unused)
{
    world.no_room = true;
    aq_status st = AQ_OK;
    uint64_t serial = 0;
    while (st == AQ_OK && serial < 1000)
        st = receive_ask(++serial, AT);
    assert_int_equal(st, AQ_EPROTO);
    assert_int_equal(serial, AQI_REG_ASKED_MAX + 1);
}

static aq_status answer(uint64_t serial, uint64_t addr, bool lent, aq_status ride)
{
    struct reg_wire wire = {.kind = REG_ANSWER, .serial = serial, .quota = 2, .status = ride};
    if (lent) {
        wire.addr = addr;
        wire.len = 4 * P;
        wire.nbytes = 3;
    }
    return receive(wire, NULL, "key");
}

static void pieces_are_replaced_in_the_same_message(void **unused)
{
    struct aqi_reg_wait wait = {.ready = world_ready};
    for (unsigned i = 1; i <= 2; i++) {
        assert_int_equal(aqi_reg_remote(reg, 1, AT + 4 * P * i, 8, &wait), AQ_AGAIN);
        assert_int_equal(answer(i, AT + 4 * P * i, true, AQ_OK), AQ_OK);
        if (i == 1) aqi_reg_release(reg, &wait.use);
    }
    struct aqi_reg_use second = wait.use;
    assert_int_equal(aqi_reg_remote(reg, 1, AT, 8, &wait), AQ_AGAIN);
    assert_int_equal(last_sent().wire.serials, 1);
    assert_int_equal(last_sent().serials[0], 1);
    /* Both are in use or requested: there is nothing to return. */
    struct aqi_reg_wait other = {.ready = world_ready};
    unsigned sent = world.sent_count;
    assert_int_equal(aqi_reg_remote(reg, 1, AT + 40 * P, 8, &other), AQ_ENOTSUP);
    assert_int_equal(aqi_reg_remote(reg, 1, AT + P, 8, &other), AQ_AGAIN); /* joins */
    assert_int_equal(world.sent_count, sent);
    world.ready = 0;
    assert_int_equal(answer(3, AT, true, AQ_OK), AQ_OK);
    assert_int_equal(world.ready, 2);
    aqi_reg_release(reg, &wait.use);
    aqi_reg_release(reg, &other.use);
    aqi_reg_release(reg, &second);
    assert_int_equal(aqi_reg_remote(reg, 1, AT + 2 * P, 8, &wait), AQ_OK);
    assert_int_equal(world.sent_count, sent);
    aqi_reg_release(reg, &wait.use);
}

static void data_sent_along_is_answered(void **unused)
{
    struct aqi_reg_wait wait = {.ready = world_ready, .bytes = "data", .nbytes = 4, .tag = 9};
    assert_int_equal(aqi_reg_remote(reg, 1, AT, 4, &wait), AQ_AGAIN);
    assert_true(wait.rode);
    assert_int_equal(last_sent().wire.tag, 9);
    assert_memory_equal(last_sent().bytes, "data", 4);
    assert_int_equal(answer(1, AT, false, AQ_ERANGE), AQ_OK);
    assert_int_equal(world.status, AQ_ENOTSUP);
    assert_int_equal(wait.ride_status, AQ_ERANGE);
    /* And the owner's end, which has no room to lend but takes the data. */
    world.how = AQI_REG_NEVER;
    assert_int_equal(
        receive((struct reg_wire){.kind = REG_ASK, .serial = 1, .addr = AT, .len = 4, .nbytes = 4},
                NULL, "data"),
        AQ_OK);
    assert_int_equal(world.rides, 1);
    assert_int_equal(last_sent().wire.status, AQ_ERANGE);
    assert_int_equal(last_sent().wire.nbytes, 0);
}

static void refused_requests_are_not_repeated_each_time(void **unused)
{
    struct aqi_reg_wait wait = {.ready = world_ready};
    unsigned asked = 0;
    for (unsigned i = 0; i < 100; i++) {
        if (aqi_reg_remote(reg, 1, AT, 8, &wait) != AQ_AGAIN) continue;
        assert_int_equal(answer(++asked, AT, false, AQ_OK), AQ_OK);
    }
    assert_in_range(asked, 4, 8);
}

static void requests_to_a_dead_peer_fail(void **unused)
{
    struct aqi_reg_wait a = {.ready = world_ready}, b = {.ready = world_ready};
    assert_int_equal(aqi_reg_remote(reg, 1, AT, 8, &a), AQ_AGAIN);
    assert_int_equal(answer(1, AT, true, AQ_OK), AQ_OK); /* in use */
    assert_int_equal(aqi_reg_remote(reg, 1, AT + 4 * P, 8, &b), AQ_AGAIN);
    world.ready = 0;
    aqi_reg_peer_down(reg, 1);
    assert_int_equal(world.ready, 1);
    assert_int_equal(world.status, AQ_EPEER);
    assert_int_equal(aqi_reg_remote(reg, 1, AT, 8, &b), AQ_EPEER);
    unsigned sent = world.sent_count;
    aqi_reg_release(reg, &a.use);
    assert_int_equal(world.sent_count, sent);
}

static void impossible_limits_are_refused(void **unused)
{
    struct aqi_reg_params params = {.limits = {.page = P, .region = 3 * P}, .peers = 1};
    assert_int_equal(aqi_reg_open(&params, &reg), AQ_EINVAL);
    params.limits.region = P / 2;
    assert_int_equal(aqi_reg_open(&params, &reg), AQ_EINVAL);
    params.limits.region = P;
    params.limits.ride = AQI_REG_RIDE_MAX + 1;
    assert_int_equal(aqi_reg_open(&params, &reg), AQ_EINVAL);
}

int main(void)
{
#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(local_memory_is_pinned_once, close_world),
        cmocka_unit_test_teardown(neighbors_are_combined, close_world),
        cmocka_unit_test_teardown(holes_are_left_out, close_world),
        cmocka_unit_test_teardown(the_longest_unused_goes_first, close_world),
        cmocka_unit_test_teardown(locked_memory_runs_out, close_world),
        IN_WORLD(a_peer_gets_its_share_and_no_more),
        cmocka_unit_test(changed_memory_is_called_back),
        IN_WORLD(an_answer_too_late_is_a_refusal),
        IN_WORLD(invalid_messages_are_refused),
        IN_WORLD(a_flood_ends),
        IN_WORLD(pieces_are_replaced_in_the_same_message),
        IN_WORLD(data_sent_along_is_answered),
        IN_WORLD(refused_requests_are_not_repeated_each_time),
        IN_WORLD(requests_to_a_dead_peer_fail),
        cmocka_unit_test(impossible_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
