/*
 * The gate alone, in front of a scripted transport and with peers that send anything: what each
 * message returns, what waits for room, what is rejected.
 */
#include "transport/layers/credit_gate.h"

#include "base/capture_test.h"
#include "base/stats.h"
#include <string.h>

enum { SELF, FIRST, SECOND, THIRD, PEERS, NOBODY = 2 * PEERS, SENT = 64 };

/* A transport without a network. */
struct alone {
    struct aqi_tp tp;
    struct aqi_credit_gate *gate;
    struct aqi_peer peer[PEERS];
    struct aqi_peer *peers[NOBODY]; /* the real ones, followed by others that must not be found */
    aq_status answer[PEERS];        /* results of sends to each */
    struct {
        uint32_t to;
        bool prepared;
        struct aqi_am am;
        int32_t args[AQI_AM_WIRE_ARGS];
    } sent[SENT];
    unsigned count, tries, canceled, disconnected, room, armed;
    unsigned progress; /* result of the transport's own operation */
};
static struct alone alone, other; /* the second gate, if there are two */

/* The handlers of the test. */
static struct {
    unsigned runs, nargs;
    uint8_t flags;
    void (*act)(uint32_t source);
} handler;

static aq_status alone_sent(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                            bool prepared)
{
    struct alone *a = (struct alone *)tp;
    a->tries++;
    if (a->answer[peer->id] != AQ_OK) return a->answer[peer->id];
    assert_in_range(a->count, 0, SENT - 1);
    assert_in_range(am->nargs, 0, AQI_AM_WIRE_ARGS);
    a->sent[a->count].to = peer->id;
    a->sent[a->count].prepared = prepared;
    a->sent[a->count].am = *am;
    if (am->nargs != 0) memcpy(a->sent[a->count].args, am->args, 4u * am->nargs);
    a->sent[a->count].am.args = a->sent[a->count].args;
    a->count++;
    return AQ_OK;
}

static aq_status alone_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                               struct aqi_comp *comp)
{
    assert_int_not_equal(am->kind, AQI_AM_LONG);
    return alone_sent(tp, peer, am, false);
}

static aq_status alone_am_long(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                               const struct aqi_rmem *rmem, const struct aqi_mem *mem,
                               struct aqi_comp *comp)
{
    assert_int_equal(am->kind, AQI_AM_LONG);
    return alone_sent(tp, peer, am, false);
}

static aq_status alone_am_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply,
                                  unsigned nargs, size_t nbytes, struct aqi_slot *slot)
{
    struct alone *a = (struct alone *)tp;
    a->room = nargs;
    return a->answer[peer->id];
}

static aq_status alone_am_commit(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                                 const struct aqi_am *am)
{
    if (am != NULL) return alone_sent(tp, peer, am, true);
    ((struct alone *)tp)->canceled++;
    return AQ_OK;
}

static void alone_disconnect(struct aqi_tp *tp, struct aqi_peer *peer)
{
    ((struct alone *)tp)->disconnected++;
}

static unsigned alone_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    return ((struct alone *)tp)->progress;
}

static aq_status alone_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    return AQ_OK;
}

static aq_status alone_arm(struct aqi_tp *tp, bool on)
{
    ((struct alone *)tp)->armed = on;
    return AQ_OK;
}

static void alone_open_with(struct alone *a, struct aqi_credit_limits credits, bool threads)
{
    const struct aqi_tp_params params = {.size = PEERS, .threads = threads, .credits = credits};
    memset(a, 0, sizeof(*a));
    for (uint32_t i = 0; i < NOBODY; i++)
        a->peers[i] = &a->peer[i % PEERS];
    for (uint32_t i = 0; i < PEERS; i++)
        a->peer[i].id = i;
    a->tp.limits.max_medium = 512;
    a->tp.ops.am_send = alone_am_send;
    a->tp.ops.am_long = alone_am_long;
    a->tp.ops.am_reserve = alone_am_reserve;
    a->tp.ops.am_commit = alone_am_commit;
    a->tp.ops.disconnect = alone_disconnect;
    a->tp.ops.progress = alone_progress;
    a->tp.ops.quiet = alone_quiet;
    a->tp.ops.arm = alone_arm;
    assert_int_equal(aqi_credit_gate_create(&params, &a->gate), AQ_OK);
    aqi_credit_gate_complete(a->gate, a->peers, &a->tp);
    memset(&handler, 0, sizeof(handler));
}

static void alone_open(uint32_t depth, uint32_t slack)
{
    alone_open_with(
        &alone, (struct aqi_credit_limits){.depth = depth, .slack = slack, .bytes = 6400}, false);
}

static void alone_close(void)
{
    aqi_credit_gate_destroy(alone.gate);
    assert_int_equal(aqi_tp_pending, 0);
}

static void alone_handle(void *arg, uint32_t source, const struct aqi_am *am)
{
    assert_ptr_equal(arg, &alone);
    handler.runs++;
    handler.nargs = am->nargs;
    handler.flags = am->flags;
    if (handler.act != NULL && (am->flags & AQI_AM_IS_REPLY) == 0) handler.act(source);
}

static int32_t word(unsigned count, unsigned bytes)
{
    return (int32_t)(count | bytes / 64 << 12);
}

/* A Short arrives with `count` credits of that many bytes, unless `count` is 0. */
static void arrives(uint32_t source, uint8_t flags, unsigned count, unsigned bytes)
{
    const int32_t args[2] = {7, word(count, bytes)};
    struct aqi_am am = {.kind = AQI_AM_SHORT, .flags = flags, .nargs = 1, .args = args};
    if (count != 0) {
        am.flags |= AQI_AM_CREDITS;
        am.nargs = 2;
    }
    aqi_credit_gate_deliver(alone.gate, source, &am, alone_handle, &alone);
}

static const int32_t one[1] = {1};

static aq_status send_as(uint32_t to, uint8_t kind, uint8_t flags)
{
    const struct aqi_am am = {.kind = kind, .flags = flags, .nargs = 1, .args = one};
    return kind == AQI_AM_LONG
               ? alone.tp.ops.am_long(&alone.tp, alone.peers[to], &am, NULL, NULL, NULL)
               : alone.tp.ops.am_send(&alone.tp, alone.peers[to], &am, NULL);
}

static aq_status request_to(uint32_t to)
{
    return send_as(to, AQI_AM_SHORT, 0);
}

static aq_status reply_to(uint32_t to)
{
    return send_as(to, AQI_AM_SHORT, AQI_AM_IS_REPLY);
}

/* The last message returns this much. */
static void expect_note(uint32_t to, unsigned count, unsigned bytes)
{
    assert_int_not_equal(alone.count, 0);
    const struct aqi_credit_note note = aqi_credit_of(&alone.sent[alone.count - 1].am);
    assert_int_equal(alone.sent[alone.count - 1].to, to);
    assert_int_equal(note.count, count);
    assert_int_equal(note.bytes, bytes);
}

static unsigned progress(void)
{
    return alone.tp.ops.progress(&alone.tp, AQI_PROGRESS_ALL, 0);
}

/* Credits banked above the slack are returned in a message of their own. */
static void a_hidden_reply(void **state)
{
    alone_open(8, 2);
    uint64_t hidden = aqi_counter_sum(AQI_CTR_CREDIT_HIDDEN);
    for (unsigned round = 1; round <= 2; round++) {
        arrives(FIRST, 0, 0, 0);
        arrives(SECOND, 0, 0, 0); /* credits of others do not count */
        arrives(FIRST, 0, 0, 0);
        assert_int_equal(alone.count, round == 1 ? 0 : 2);
        arrives(FIRST, 0, 0, 0);
        assert_int_equal(alone.count, round == 1 ? 1 : 3);
        expect_note(FIRST, 3, 3 * 64);
        const struct aqi_am *am = &alone.sent[alone.count - 1].am;
        assert_int_equal(am->kind, AQI_AM_INTERNAL);
        assert_int_equal(am->handler, AQI_AM_INTERNAL_CREDITS);
        assert_int_equal(am->flags, AQI_AM_IS_REPLY | AQI_AM_CREDITS);
        assert_int_equal(am->nargs, 1);
        assert_int_equal(aqi_counter_sum(AQI_CTR_CREDIT_HIDDEN) - hidden, alone.count);
        if (round == 1) {
            arrives(SECOND, 0, 0, 0);
            assert_int_equal(alone.count, 1);
            arrives(SECOND, 0, 0, 0);
            expect_note(SECOND, 3, 3 * 64);
        }
    }
    assert_int_equal(handler.runs, 10);
    assert_int_equal(aqi_tp_pending, 0);
    alone_close();
}

/* The receiver takes the credits, and delivers nothing. */
static void returned_credits_can_be_used_again(void **state)
{
    alone_open(3, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(request_to(FIRST), AQ_OK);
    assert_int_equal(request_to(FIRST), AQ_AGAIN);
    const int32_t credits = word(2, 2 * 64);
    struct aqi_am am = {.kind = AQI_AM_INTERNAL,
                        .handler = AQI_AM_INTERNAL_CREDITS,
                        .flags = AQI_AM_IS_REPLY | AQI_AM_CREDITS,
                        .nargs = 1,
                        .args = &credits};
    aqi_credit_gate_deliver(alone.gate, FIRST, &am, alone_handle, &alone);
    assert_int_equal(handler.runs, 0);
    assert_int_equal(request_to(FIRST), AQ_OK);
    assert_int_equal(request_to(FIRST), AQ_OK);
    assert_int_equal(request_to(FIRST), AQ_AGAIN);
    /* Messages with only the same kind or the same handler number are delivered. */
    am.handler = AQI_AM_INTERNAL_CREDITS + 1;
    am.flags = AQI_AM_IS_REPLY;
    aqi_credit_gate_deliver(alone.gate, FIRST, &am, alone_handle, &alone);
    am.kind = AQI_AM_SHORT;
    am.handler = AQI_AM_INTERNAL_CREDITS;
    aqi_credit_gate_deliver(alone.gate, FIRST, &am, alone_handle, &alone);
    assert_int_equal(handler.runs, 2);
    arrives(FIRST, AQI_AM_IS_REPLY | aqi_am_to(3), 3, 3 * 64);
    assert_int_equal(handler.runs, 3);
    assert_int_equal(handler.nargs, 1);
    assert_int_equal(handler.flags, AQI_AM_IS_REPLY | aqi_am_to(3));
    assert_int_equal(request_to(FIRST), AQ_OK);
    alone_close();
}

/* A peer that returns more than it got gains nothing, nor does any other. */
static void returning_too_much(void **state)
{
    alone_open(2, 1);
    assert_int_equal(request_to(FIRST), AQ_OK);
    assert_int_equal(request_to(FIRST), AQ_OK);
    uint64_t dropped = aqi_counter_sum(AQI_CTR_AM_DROPPED);
    arrives(FIRST, AQI_AM_IS_REPLY, 3, 2 * 64);
    arrives(FIRST, AQI_AM_IS_REPLY, 2, 3 * 64);
    arrives(SECOND, AQI_AM_IS_REPLY, 1, 0);
    assert_int_equal(aqi_counter_sum(AQI_CTR_AM_DROPPED) - dropped, 3);
    assert_int_equal(request_to(FIRST), AQ_AGAIN);
    arrives(FIRST, AQI_AM_IS_REPLY, 2, 2 * 64);
    arrives(FIRST, AQI_AM_IS_REPLY, 0, 0);
    assert_int_equal(aqi_counter_sum(AQI_CTR_AM_DROPPED) - dropped, 3);
    assert_int_equal(request_to(FIRST), AQ_OK);
    alone_close();
}

/* Peers that do not exist have no account. */
static void unknown_sources(void **state)
{
    alone_open(2, 1);
    alone.peers[SECOND] = NULL;
    uint64_t dropped = aqi_counter_sum(AQI_CTR_AM_DROPPED);
    arrives(PEERS, 0, 0, 0);
    arrives(PEERS + 1, AQI_AM_IS_REPLY, 0, 0);
    arrives(SECOND, 0, 0, 0);
    assert_int_equal(handler.runs, 0);
    assert_int_equal(aqi_counter_sum(AQI_CTR_AM_DROPPED) - dropped, 3);
    arrives(SELF, 0, 0, 0);
    arrives(PEERS - 1, 0, 0, 0);
    assert_int_equal(handler.runs, 2);
    assert_int_equal(aqi_counter_sum(AQI_CTR_AM_DROPPED) - dropped, 3);
    alone_close();
}

/* A hidden reply without room is tried again by progress: each peer once per round, in turn. */
static void hidden_replies_without_room(void **state)
{
    for (unsigned threads = 0; threads < 2; threads++) {
        alone_open_with(&alone, (struct aqi_credit_limits){.depth = 8, .slack = 0}, threads != 0);
        uint64_t hidden = aqi_counter_sum(AQI_CTR_CREDIT_HIDDEN);
        alone.progress = 100;
        for (uint32_t id = FIRST; id < PEERS; id++) {
            alone.answer[id] = AQ_AGAIN;
            arrives(id, 0, 0, 0);
            arrives(id, 0, 0, 0); /* two credits, but one turn */
            assert_int_equal(aqi_tp_pending, id);
        }
        assert_int_equal(alone.tries, 6);
        for (unsigned round = 1; round <= 3; round++) {
            assert_int_equal(alone.tp.ops.quiet(&alone.tp, NULL), AQ_AGAIN);
            assert_int_equal(alone.tp.ops.arm(&alone.tp, true), AQ_AGAIN);
            assert_int_equal(alone.tp.ops.arm(&alone.tp, false), AQ_OK);
            assert_int_equal(progress(), 100);
            assert_int_equal(alone.tries, 6 + 3 * round);
            assert_int_equal(aqi_tp_pending, 3);
        }
        alone.answer[SECOND] = AQ_OK;
        assert_int_equal(progress(), 101);
        assert_int_equal(alone.tries, 18);
        expect_note(SECOND, 2, 0);
        assert_int_equal(aqi_tp_pending, 2);
        alone.answer[FIRST] = AQ_OK;
        assert_int_equal(progress(), 101);
        expect_note(FIRST, 2, 0);
        alone.answer[THIRD] = AQ_OK;
        assert_int_equal(aqi_tp_pending, 1);
        assert_int_equal(alone.tp.ops.quiet(&alone.tp, NULL), AQ_AGAIN);
        assert_int_equal(progress(), 101);
        expect_note(THIRD, 2, 0);
        assert_int_equal(aqi_tp_pending, 0);
        assert_int_equal(alone.tp.ops.quiet(&alone.tp, NULL), AQ_OK);
        assert_int_equal(alone.tp.ops.arm(&alone.tp, true), AQ_OK);
        assert_int_equal(alone.armed, 1);
        assert_int_equal(progress(), 100);
        assert_int_equal(alone.count, 3);
        assert_int_equal(aqi_counter_sum(AQI_CTR_CREDIT_HIDDEN) - hidden, 3);
        /* Several at once, including some that wrap around the end of the queue. */
        for (unsigned round = 0; round < 2 * PEERS; round++) {
            for (uint32_t id = FIRST; id < THIRD; id++) {
                alone.answer[id] = AQ_AGAIN;
                arrives(id, 0, 0, 0);
                alone.answer[id] = AQ_OK;
            }
            assert_int_equal(aqi_tp_pending, 2);
            assert_int_equal(progress(), 102);
            assert_int_equal(alone.sent[alone.count - 2].to, FIRST);
            expect_note(SECOND, 1, 0);
            assert_int_equal(aqi_tp_pending, 0);
        }
        alone_close();
    }
}

/* Another message has returned the credits meanwhile, or the send fails permanently. */
static void hidden_replies_that_are_not_needed_or_fail(void **state)
{
    alone_open(8, 0);
    alone.answer[FIRST] = alone.answer[SECOND] = AQ_AGAIN;
    arrives(FIRST, 0, 0, 0);
    arrives(SECOND, 0, 0, 0);
    alone.answer[FIRST] = AQ_OK;
    alone.answer[SECOND] = AQ_EPEER;
    assert_int_equal(request_to(FIRST), AQ_OK);
    expect_note(FIRST, 1, 64);
    uint64_t hidden = aqi_counter_sum(AQI_CTR_CREDIT_HIDDEN);
    assert_int_equal(progress(), 1); /* the second peer's, which has failed */
    assert_int_equal(progress(), 0);
    assert_int_equal(alone.count, 1);
    assert_int_equal(aqi_counter_sum(AQI_CTR_CREDIT_HIDDEN) - hidden, 0);
    /* Closing the gate with some in the queue leaves nothing pending. */
    alone.answer[FIRST] = AQ_AGAIN;
    arrives(FIRST, 0, 0, 0);
    assert_int_equal(aqi_tp_pending, 1);
    alone_close();
}

static void reply_twice(uint32_t source)
{
    assert_int_equal(reply_to(source), AQ_OK);
    expect_note(source, 1, 64);
    assert_int_equal(reply_to(source), AQ_OK);
    expect_note(source, 0, 0);
}

static void reply_to_another(uint32_t source)
{
    assert_int_equal(reply_to(SECOND), AQ_OK);
    expect_note(SECOND, 0, 0);
}

static void reply_in_vain(uint32_t source)
{
    alone.answer[source] = AQ_AGAIN;
    assert_int_equal(reply_to(source), AQ_AGAIN);
    alone.answer[source] = AQ_OK;
}

static void reply_at_second_try(uint32_t source)
{
    reply_in_vain(source);
    assert_int_equal(reply_to(source), AQ_OK);
    expect_note(source, 1, 64);
}

static void reply_through_the_other(uint32_t source)
{
    const struct aqi_am am = {.kind = AQI_AM_SHORT, .flags = AQI_AM_IS_REPLY};
    assert_int_equal(other.tp.ops.am_send(&other.tp, other.peers[source], &am, NULL), AQ_OK);
    assert_int_equal(other.sent[0].am.flags, AQI_AM_IS_REPLY);
}

static void reply_with_a_long(uint32_t source)
{
    assert_int_equal(send_as(source, AQI_AM_LONG, AQI_AM_IS_REPLY), AQ_OK);
    expect_note(source, 1, 64);
}

/* The credit of a request is returned by one reply to its sender, or after its handler. */
static void what_a_reply_answers(void **state)
{
    static const struct {
        void (*act)(uint32_t source);
        bool answers;
    } rows[] = {
        {NULL, false},
        {reply_twice, true},
        {reply_to_another, false},
        {reply_in_vain, false},
        {reply_at_second_try, true},
        {reply_through_the_other, false},
        {reply_with_a_long, true},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        alone_open_with(&other, (struct aqi_credit_limits){.depth = 8, .slack = 7}, false);
        alone_open(8, 7);
        handler.act = rows[i].act;
        arrives(FIRST, 0, 0, 0);
        handler.act = NULL;
        arrives(FIRST, 0, 0, 0);
        assert_int_equal(request_to(FIRST), AQ_OK);
        expect_note(FIRST, rows[i].answers ? 1 : 2, rows[i].answers ? 64 : 128);
        /* Outside of handlers, a reply returns what is banked, and answers nothing. */
        assert_int_equal(reply_to(FIRST), AQ_OK);
        expect_note(FIRST, 0, 0);
        aqi_credit_gate_destroy(other.gate);
        alone_close();
    }
}

/* A rejected request takes no credit, and the credits that it was to return stay. */
static void a_request_that_is_not_sent(void **state)
{
    static const uint8_t kinds[] = {AQI_AM_SHORT, AQI_AM_LONG};
    for (unsigned i = 0; i < 2 * AQI_COUNT_OF(kinds); i++) {
        uint64_t none = aqi_counter_sum(AQI_CTR_CREDIT_NONE);
        alone_open(2, 1);
        if (i >= AQI_COUNT_OF(kinds)) arrives(FIRST, 0, 0, 0);
        alone.answer[FIRST] = AQ_AGAIN;
        for (unsigned tries = 0; tries < 5; tries++)
            assert_int_equal(send_as(FIRST, kinds[i % 2], 0), AQ_AGAIN);
        assert_int_equal(aqi_counter_sum(AQI_CTR_CREDIT_NONE) - none, 0);
        alone.answer[FIRST] = AQ_OK;
        assert_int_equal(send_as(FIRST, kinds[i % 2], 0), AQ_OK);
        expect_note(FIRST, i >= AQI_COUNT_OF(kinds), i >= AQI_COUNT_OF(kinds) ? 64 : 0);
        assert_int_equal(alone.sent[0].args[0], 1);
        assert_int_equal(send_as(FIRST, kinds[i % 2], 0), AQ_OK);
        expect_note(FIRST, 0, 0);
        assert_int_equal(alone.sent[1].am.nargs, 1);
        assert_int_equal(send_as(FIRST, kinds[i % 2], 0), AQ_AGAIN);
        assert_int_equal(aqi_counter_sum(AQI_CTR_CREDIT_NONE) - none, 1);
        alone_close();
    }
}

static aq_status prepare(uint32_t to, bool reply, size_t nbytes, struct aqi_slot *slot)
{
    return alone.tp.ops.am_reserve(&alone.tp, alone.peers[to], reply, 1, nbytes, slot);
}

static aq_status commit(uint32_t to, struct aqi_slot *slot, bool reply, uint32_t nbytes)
{
    const struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                              .flags = reply ? AQI_AM_IS_REPLY : 0,
                              .nargs = 1,
                              .nbytes = nbytes,
                              .args = one};
    return alone.tp.ops.am_commit(&alone.tp, alone.peers[to], slot, &am);
}

/* A prepared request takes its credit when reserved, and the bytes that it finally has. */
static void a_prepared_request(void **state)
{
    struct aqi_slot slot, second;
    alone_open_with(&alone, (struct aqi_credit_limits){.depth = 3, .slack = 1, .bytes = 1280},
                    false);
    arrives(FIRST, 0, 0, 0);
    alone.answer[FIRST] = AQ_AGAIN;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(prepare(FIRST, false, 512, &slot), AQ_AGAIN);
    alone.answer[FIRST] = AQ_OK;
    assert_int_equal(prepare(FIRST, false, 512, &slot), AQ_OK);
    assert_int_equal(alone.room, 2); /* the word, too */
    assert_int_equal(prepare(FIRST, false, 512, &second), AQ_OK);
    assert_int_equal(request_to(FIRST), AQ_OK); /* 576 + 576 + 64 bytes */
    arrives(FIRST, AQI_AM_IS_REPLY, 1, 64);
    assert_int_equal(alone.tp.ops.am_commit(&alone.tp, alone.peers[FIRST], &second, NULL), AQ_OK);
    assert_int_equal(alone.canceled, 1);
    assert_int_equal(prepare(FIRST, false, 512, &second), AQ_OK);
    arrives(FIRST, 0, 0, 0); /* to put something into the note */
    alone.answer[FIRST] = AQ_AGAIN;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(commit(FIRST, &slot, false, 16), AQ_AGAIN);
    alone.answer[FIRST] = AQ_OK;
    assert_int_equal(commit(FIRST, &slot, false, 16), AQ_OK);
    expect_note(FIRST, 1, 64);
    assert_int_equal(alone.sent[alone.count - 1].am.nargs, 2);
    /* 64 + 576 bytes are out: one of 640 makes 1280, and then none of 64 fits. */
    assert_int_equal(prepare(FIRST, false, 513, &slot), AQ_OK);
    assert_int_equal(request_to(FIRST), AQ_AGAIN);
    arrives(FIRST, AQI_AM_IS_REPLY, 1, 64);
    assert_int_equal(request_to(FIRST), AQ_OK);
    arrives(FIRST, AQI_AM_IS_REPLY, 1, 64);
    /* A request that fails permanently gives its credit back. */
    alone.answer[FIRST] = AQ_EPEER;
    assert_int_equal(commit(FIRST, &second, false, 512), AQ_EPEER);
    assert_int_equal(commit(FIRST, &slot, false, 513), AQ_EPEER);
    alone.answer[FIRST] = AQ_OK;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(prepare(FIRST, false, 576, &slot), AQ_OK);
    assert_int_equal(request_to(FIRST), AQ_AGAIN);
    alone_close();
}

static void reply_prepared(uint32_t source)
{
    struct aqi_slot slot;
    for (unsigned i = 0; i < 9; i++) { /* a reply needs no credit, and loses none */
        assert_int_equal(prepare(source, true, 16, &slot), AQ_OK);
        assert_int_equal(alone.tp.ops.am_commit(&alone.tp, alone.peers[source], &slot, NULL),
                         AQ_OK);
        alone.answer[source] = AQ_AGAIN;
        assert_int_equal(prepare(source, true, 16, &slot), AQ_AGAIN);
        alone.answer[source] = AQ_OK;
    }
    assert_int_equal(prepare(source, true, 16, &slot), AQ_OK);
    alone.answer[source] = AQ_AGAIN;
    assert_int_equal(commit(source, &slot, true, 16), AQ_AGAIN);
    alone.answer[source] = AQ_OK;
    assert_int_equal(commit(source, &slot, true, 16), AQ_OK);
    expect_note(source, 1, 64);
    assert_true(alone.sent[alone.count - 1].prepared);
}

static void a_prepared_reply(void **state)
{
    alone_open(2, 1);
    assert_int_equal(request_to(FIRST), AQ_OK);
    handler.act = reply_prepared;
    arrives(FIRST, 0, 0, 0);
    assert_int_equal(request_to(FIRST), AQ_OK);
    expect_note(FIRST, 0, 0);
    assert_int_equal(request_to(FIRST), AQ_AGAIN);
    alone_close();
}

/* Without a limit on bytes, none are counted, however many requests there are. */
static void bytes_without_a_limit(void **state)
{
    enum { MANY = 128 };
    alone_open_with(&alone, (struct aqi_credit_limits){.depth = 2 * MANY, .slack = MANY}, false);
    for (unsigned i = 0; i < MANY; i++)
        arrives(FIRST, 0, 0, 0);
    assert_int_equal(request_to(FIRST), AQ_OK);
    expect_note(FIRST, MANY, 0);
    alone_close();
}

/* A dead peer neither owes credits nor is owed any. */
static void a_peer_that_is_gone(void **state)
{
    for (unsigned own = 0; own < 2; own++) {
        alone_open(2, 1);
        if (!own) {
            const struct aqi_tp_params params = {.size = PEERS, .credits = {.depth = 2}};
            aqi_credit_gate_destroy(alone.gate);
            memset(&alone.tp.ops, 0, sizeof(alone.tp.ops)); /* optional operations stay absent */
            alone.tp.ops.am_send = alone_am_send;
            assert_int_equal(aqi_credit_gate_create(&params, &alone.gate), AQ_OK);
            aqi_credit_gate_complete(alone.gate, alone.peers, &alone.tp);
            assert_null(alone.tp.ops.am_long);
            assert_null(alone.tp.ops.arm);
            assert_null(alone.tp.ops.am_reserve);
            assert_null(alone.tp.ops.am_commit);
        }
        assert_int_equal(request_to(FIRST), AQ_OK);
        assert_int_equal(request_to(FIRST), AQ_OK);
        assert_int_equal(request_to(FIRST), AQ_AGAIN);
        alone.tp.ops.disconnect(&alone.tp, alone.peers[FIRST]);
        assert_int_equal(alone.disconnected, own);
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(request_to(FIRST), AQ_OK);
            arrives(FIRST, 0, 0, 0);
        }
        expect_note(FIRST, 0, 0);
        alone_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hidden_reply),
        cmocka_unit_test(returned_credits_can_be_used_again),
        cmocka_unit_test(returning_too_much),
        cmocka_unit_test(unknown_sources),
        cmocka_unit_test(hidden_replies_without_room),
        cmocka_unit_test(hidden_replies_that_are_not_needed_or_fail),
        cmocka_unit_test(what_a_reply_answers),
        cmocka_unit_test(a_request_that_is_not_sent),
        cmocka_unit_test(a_prepared_request),
        cmocka_unit_test(a_prepared_reply),
        cmocka_unit_test(bytes_without_a_limit),
        cmocka_unit_test(a_peer_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
