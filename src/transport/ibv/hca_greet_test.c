/* Tests hca_greet.c: two processes greet each other; greetings that ours would never send. */
#include "transport/ibv/hca_greet_world_test.h"

static void two_meet(void **unused)
{
    for (uint32_t i = 0; i < HCA_GREETINGS - 3; i++) /* and so on to the last buffer */
        assert_false(hears(1, "", 0, HCA_GRH));
    call(0);
    assert_int_equal(said, 1);
    exchange();
    assert_int_equal(said, 3); /* "mine", "mine, and I know yours", "I know yours, no answer" */
    for (unsigned i = 0; i < GREETERS; i++) {
        assert_int_equal(other(i)->state, HCA_UP);
        assert_true(other(i)->connected);
        assert_true(other(i)->epoch == ends[1 - i].hca->greeter.epoch);
        assert_int_equal(other(i)->used, 1);
        assert_null(ends[i].hca->greeter.calling);
        assert_int_equal(ends[i].hca->greeter.out, 0);
    }
    /* The first greeting again, even with other contents: it is answered, and changes nothing. */
    struct letter letter = forged(AT_DEPTH, 1, 4);
    assert_true(hears_letter(1, &letter));
    assert_int_equal(other(1)->state, HCA_UP);
    assert_int_equal(said, 4);
    exchange();
    assert_int_equal(said, 4);
}

static void both_call(void **unused)
{
    call(0);
    call(1);
    exchange();
    assert_true(other(0)->state == HCA_UP && other(1)->state == HCA_UP);
}

/* It has received a greeting, but does not know that the other has. */
static void peer_is_up_once_both_know_each_other(void **unused)
{
    call(0);
    assert_true(hears_letter(1, &letters[0]));
    assert_true(other(1)->connected);
    assert_int_equal(other(1)->state, HCA_CALLING);
    assert_int_equal(said, 2);
    struct letter letter = forged(AT_DEPTH, 1, 4);
    assert_true(hears_letter(1, &letter));
    assert_int_equal(other(1)->state, HCA_CALLING);
    assert_int_equal(said, 3);
}

/* New addresses of the other's ports are adopted; those of ports that it does not have are
 * ignored. */
static void new_addresses_of_a_peer_are_adopted(void **unused)
{
    struct hca_peer *peer = other(1);
    call(0);
    exchange();
    peer->ah[0] = &ways[1][0]; /* it recently answered over this */
    ways_made++;
    peer->addr.place[0].qpn = addresses[0].place[0].qpn = 77;
    peer->unroutable = 3;
    const struct hca_place before = peer->addr.place[1];
    unsigned gone = ways_gone;
    struct letter letter = forged(AT_LID, 9, 2);
    letter.bytes[letter.len - 1] ^= 1;
    assert_false(hears_letter(1, &letter));
    assert_int_equal(peer->addr.place[0].lid, 0);
    letter.bytes[letter.len - 1] ^= 1;
    assert_true(hears_letter(1, &letter));
    assert_int_equal(peer->addr.place[0].lid, 9);
    assert_int_equal(peer->addr.place[0].qpn, 77);
    assert_int_equal(peer->unroutable, 2);
    assert_int_equal(ways_gone, gone + 1);
    assert_true(hears_letter(1, &letter)); /* it has not moved again */
    assert_int_equal(ways_gone, gone + 1);
    letter = forged(AT_LID + sizeof(struct hca_place), 9, 2);
    assert_true(hears_letter(1, &letter));
    assert_memory_equal(&peer->addr.place[1], &before, sizeof(before));
    /* Not for one that is lost, nor during a reconnection. */
    letter = forged(AT_LID, 5, 2);
    unsigned said_before = said;
    for (unsigned i = 0; i < 2; i++) {
        peer->addr.place[0].lid = 9;
        peer->state = i == 0 ? HCA_DOWN : HCA_CALLING;
        peer->broken = i == 1;
        assert_true(hears_letter(1, &letter));
        assert_int_equal(peer->addr.place[0].lid, 9);
    }
    assert_int_equal(said, said_before);
}

/* All rails have failed for one side or the other: the available ones are tried again. */
static void the_failed_are_used_if_there_is_no_other(void **unused)
{
    call(0);
    struct letter letter = forged(AT_FAILED, 0xff, 1);
    assert_true(hears_letter(1, &letter));
    assert_true(other(1)->connected);
    assert_int_equal(other(1)->used, 1);
    assert_int_equal(other(1)->first, 0);
}

/* Greetings from a rank whose address is unknown or invalid. */
static void unknown_peers_are_not_answered(void **unused)
{
    struct aqi_rdma_peer **peers = ends[1].hca->rdma.peers, *peer = peers[2];
    struct hca_addr at = addresses[0];
    call(0);
    struct letter letter = forged(AT_FROM, 2, 4);
    peers[2] = NULL;
    assert_true(hears_letter(1, &letter));
    peers[2] = peer;
    at.magic[0] ^= 1;
    found = &at;
    found_len = offsetof(struct hca_addr, place) + sizeof(struct hca_place);
    assert_true(hears_letter(1, &letters[0]));
    assert_int_equal(other(1)->state, HCA_IDLE);
    assert_int_equal(said, 1);
}

static void malformed_greetings_are_dropped(void **unused)
{
    static const struct {
        size_t at;
        uint64_t value;
        size_t size;
    } bad[] = {{AT_MAGIC, 0, 1},
               {AT_VERSION, 3, 1},
               {AT_VERSION, 5, 1},
               {AT_FROM, ENDS, 4},
               {AT_FROM, UINT32_MAX, 4},
               {AT_FROM, 1 << 20, 4},
               {AT_FROM, 1, 4},
               {AT_TO, 0, 4},
               {AT_TO, 2, 4},
               {AT_TO, 1ull << 31, 4}};
    call(0);
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++) {
        struct letter letter = forged(bad[i].at, bad[i].value, bad[i].size);
        assert_false(hears_letter(1, &letter));
    }
    /* Not signed, or with another key. */
    struct letter letter = letters[0];
    for (size_t i = 0; i < letter.len; i++) {
        letter.bytes[i] ^= 0x20;
        assert_false(hears_letter(1, &letter));
        letter.bytes[i] ^= 0x20;
    }
    /* Shorter or longer than a greeting, down to less than the head of a datagram. */
    for (size_t len = 0; len < HCA_GRH + letter.len + 8; len++)
        if (len != HCA_GRH + letter.len) assert_false(hears(1, letter.bytes, letter.len, len));
    assert_int_equal(other(1)->state, HCA_IDLE);
    assert_int_equal(said, 1);
    assert_true(hears_letter(1, &letter));
    assert_true(other(1)->connected);
}

static void peer_with_other_settings_is_lost(void **unused)
{
    static const struct {
        size_t at;
        const char *why;
    } rows[] = {
        {AT_DEPTH, "AQ_AM_CREDITS"}, {AT_BUFFER, "AQ_IBV_MEDIUM"}, {AT_CONTROL, "AQ_SEGMENT_MODE"}};
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        if (i != 0) close_all(unused), open_all(unused);
        call(0);
        struct letter letter = forged(rows[i].at, 1, 4);
        assert_true(hears_letter(1, &letter));
        assert_int_equal(other(1)->state, HCA_DOWN);
        assert_non_null(strstr(other(1)->rdma.why, rows[i].why));
        assert_int_equal(said, 1);
        assert_null(ends[1].hca->greeter.calling);
        /* From now on it is not answered. */
        assert_true(hears_letter(1, &letters[0]));
        assert_int_equal(other(1)->state, HCA_DOWN);
        assert_int_equal(said, 1);
    }
}

/* Greetings from a process that is not the known one of the rank, or for one that is not this. */
static void other_processes_are_not_heard(void **unused)
{
    call(0);
    struct letter letter = forged(AT_TO_EPOCH, ends[1].hca->greeter.epoch + 2, 8);
    assert_true(hears_letter(1, &letter));
    assert_int_equal(other(1)->state, HCA_IDLE);
    exchange();
    assert_int_equal(other(1)->state, HCA_UP);
    unsigned before = said;
    letter = forged(AT_EPOCH, ends[0].hca->greeter.epoch + 2, 8);
    assert_true(hears_letter(1, &letter));
    letter = forged(AT_FROM, 2, 4); /* of one that is up and has another address */
    hca_peer_at(ends[1].hca, 2)->state = HCA_DOWN;
    assert_true(hears_letter(1, &letter));
    assert_int_equal(said, before);
    assert_int_equal(other(1)->state, HCA_UP);
}

/* A greeting for a later connection begins it; one for an earlier connection is ignored. */
static void only_a_later_connection_replaces_one(void **unused)
{
    call(0);
    exchange();
    struct hca_peer *peer = other(1);
    peer->generation = 5;
    for (uint32_t generation = 3; generation <= 5; generation++) {
        struct letter letter = forged(AT_GENERATION, generation, 4);
        assert_true(hears_letter(1, &letter));
        assert_int_equal(peer->state, HCA_UP);
        assert_false(peer->broken);
    }
    /* Nor does a connection that is being set up use the address of an earlier one. */
    peer->state = HCA_IDLE;
    peer->connected = false;
    struct letter letter = forged(AT_GENERATION, 4, 4);
    unsigned before = said;
    assert_true(hears_letter(1, &letter));
    assert_int_equal(peer->state, HCA_CALLING);
    assert_false(peer->connected);
    assert_int_equal(said, before + 1);
    letter = forged(AT_GENERATION, 6, 4);
    before = said;
    assert_true(hears_letter(1, &letter));
    assert_true(peer->broken);
    assert_int_equal(peer->wanted, 6);
    assert_int_equal(said, before);
}

/* An address must have the length that it implies, and no more rails than there is room for. */
static void addresses_are_checked(void **unused)
{
    static const size_t head = offsetof(struct hca_addr, place), place = sizeof(struct hca_place);
    struct {
        struct hca_addr addr;
        unsigned char more[64];
    } at;
    const struct {
        uint32_t rails;
        size_t len;
        aq_status status;
    } rows[] = {{1, head + place, AQ_OK},
                {HCA_RAILS, sizeof(struct hca_addr), AQ_OK},
                {0, head, AQ_EPROTO},
                {1, head, AQ_EPROTO},
                {1, head - 1, AQ_EPROTO},
                {1, head + place - 1, AQ_EPROTO},
                {1, head + place + 1, AQ_EPROTO},
                {2, head + place, AQ_EPROTO},
                {1, head + 2 * place, AQ_EPROTO},
                {UINT32_MAX, head + place, AQ_EPROTO},
                {HCA_RAILS + 1, sizeof(struct hca_addr), AQ_EPROTO},
                {HCA_RAILS + 1, sizeof(struct hca_addr) + place, AQ_EPROTO},
                {HCA_RAILS, sizeof(struct hca_addr) + 1, AQ_EPROTO},
                {1, 0, AQ_ENOTSUP}};
    struct hca_peer *peer = other(0);
    found = &at;
    for (size_t i = 0; i < AQI_COUNT_OF(rows) + 1; i++) {
        bool wrong = i == AQI_COUNT_OF(rows); /* it is not one of our addresses */
        memset(&at, 0, sizeof(at));
        memcpy(at.addr.magic, hca_magic, sizeof(hca_magic));
        at.addr.magic[3] ^= wrong;
        at.addr.rails = rows[wrong ? 0 : i].rails;
        found_len = rows[wrong ? 0 : i].len;
        peer->known = false;
        assert_int_equal(hca_greet_find(ends[0].hca, peer), wrong ? AQ_EPROTO : rows[i].status);
        assert_int_equal(peer->known, !wrong && rows[i].status == AQ_OK);
    }
    /* Known addresses are not looked up again. */
    peer->known = true;
    assert_int_equal(hca_greet_find(ends[0].hca, peer), AQ_OK);
}

/* Greetings are repeated, each time after twice the pause, up to a second. */
static void pauses_grow(void **unused)
{
    struct hca_tp *hca = ends[0].hca;
    call(0);
    for (uint64_t pause = PAUSE; said < 12;) {
        unsigned before = said;
        uint64_t at = hca_greet_deadline(hca);
        assert_true(at - hca->rdma.now <= pause + 1 && at - hca->rdma.now >= pause);
        hca->rdma.now = at - 1;
        hca_greet_timers(hca);
        assert_int_equal(said, before);
        hca->rdma.now = at;
        hca_greet_timers(hca);
        assert_int_equal(said, before + 1);
        pause = aqi_min(2 * pause, UINT64_C(1000000000));
    }
    /* As many as the adapter takes, until some have been sent. */
    for (unsigned i = 0; i < 8; i++) {
        hca->rdma.now += UINT64_C(2000000000);
        hca_greet_timers(hca);
    }
    assert_int_equal(said, HCA_GREETINGS_OUT);
    hca_greet_sent(hca, 0, &(struct ibv_wc){.status = IBV_WC_SUCCESS});
    hca->rdma.now += UINT64_C(2000000000);
    hca_greet_timers(hca);
    assert_int_equal(said, HCA_GREETINGS_OUT + 1);
}

/* The first greeting is sent at once, however early it is; the second one waits. */
static void the_first_greeting_is_at_once(void **unused)
{
    ends[0].hca->rdma.now = 2;
    call(0);
    assert_int_equal(said, 1);
    hca_greet_timers(ends[0].hca);
    assert_int_equal(said, 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        GREET_TEST(two_meet),
        GREET_TEST(both_call),
        GREET_TEST(peer_is_up_once_both_know_each_other),
        GREET_TEST(new_addresses_of_a_peer_are_adopted),
        GREET_TEST(the_failed_are_used_if_there_is_no_other),
        GREET_TEST(unknown_peers_are_not_answered),
        GREET_TEST(malformed_greetings_are_dropped),
        GREET_TEST(peer_with_other_settings_is_lost),
        GREET_TEST(other_processes_are_not_heard),
        GREET_TEST(only_a_later_connection_replaces_one),
        GREET_TEST(addresses_are_checked),
        GREET_TEST(pauses_grow),
        GREET_TEST(the_first_greeting_is_at_once),
    };
    if (aqi_mac_missing() != NULL) {
        printf("skipped: %s\n", aqi_mac_missing());
        return 77;
    }
    return cmocka_run_group_tests_name("hca_greet", tests, NULL, NULL);
}
