/*
 * Credits: the laws one by one, then whole networks of endpoints simulated event by event, with
 * random delays and order, handlers that reply early, late or never, rejected sends, tiny limits
 * and deaths. Nothing may wait forever, no credit be lost, no limit be exceeded. TEST_SEED repeats
 * a run.
 */
#include "transport/layers/credits.h"

#include "base/array.h"
#include "base/capture_test.h"
#include <stdlib.h>

/* Returns NULL, or the law that is broken: `out` exceeds a limit, or the total is not the sum. */
static const char *credits_broken(const struct aqi_credits *c)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->peers; i++) {
        const struct aqi_credit_peer *p = &c->peer[i];
        sum += p->out.count;
        if (p->out.count > c->limits.depth) return "more requests out to a peer than its depth";
        if (p->held.count + p->banked.count > c->limits.depth)
            return "a peer has sent more requests than the depth";
        if (p->out.count == 0 && p->out.bytes != 0) return "bytes out without a request";
        if (c->limits.bytes != 0 && p->out.count > 1 && p->out.bytes > c->limits.bytes)
            return "more bytes out to a peer than its budget";
    }
    if (sum != c->out) return "the total is not the sum of the peers";
    if (c->out > c->limits.total) return "more requests out than the total";
    return NULL;
}

/* --- the laws -------------------------------------------------------------------------------- */

static void depth_total_and_bytes_bound(void **state)
{
    struct aqi_credits c;
    struct aqi_credit_peer peers[3];
    aqi_credits_init(&c, &(struct aqi_credit_limits){.depth = 3, .total = 4, .bytes = 100}, peers,
                     3);
    assert_true(aqi_credits_take(&c, 0, 40));
    assert_true(aqi_credits_take(&c, 0, 60));
    assert_false(aqi_credits_take(&c, 0, 1)); /* bytes */
    assert_true(aqi_credits_take(&c, 1, 0));
    assert_true(aqi_credits_take(&c, 1, 0));
    assert_false(aqi_credits_take(&c, 2, 0)); /* total */
    aqi_credits_undo(&c, 0, 60);
    assert_true(aqi_credits_take(&c, 1, 0));
    assert_true(aqi_credits_returned(&c, 0, (struct aqi_credit_note){1, 40}));
    assert_false(aqi_credits_take(&c, 1, 0)); /* depth */
    assert_null(credits_broken(&c));
}

static void a_message_above_the_budget_goes_alone(void **state)
{
    struct aqi_credits c;
    struct aqi_credit_peer peer;
    aqi_credits_init(
        &c, &(struct aqi_credit_limits){.depth = 8, .slack = 4, .bytes = 100, .largest = 5000},
        &peer, 1);
    assert_true(aqi_credits_take(&c, 0, 5000));
    assert_false(aqi_credits_take(&c, 0, 1));
    assert_true(aqi_credits_returned(&c, 0, (struct aqi_credit_note){1, 5000}));
    assert_true(aqi_credits_take(&c, 0, 1));
    assert_false(aqi_credits_take(&c, 0, 5000));
    /* To make that possible, nothing with bytes is ever banked. */
    aqi_credits_arrived(&c, 0, 1);
    aqi_credits_answered(&c, 0, 1);
    assert_true(aqi_credits_overdue(&c, 0));
}

static void slack_is_lowered_where_it_could_block(void **state)
{
    static const struct {
        struct aqi_credit_limits limits;
        uint32_t peers, slack, total;
    } rows[] = {
        {{.depth = 32, .slack = 1}, 4, 1, 128},
        {{.depth = 1, .slack = 1}, 4, 0, 4},
        {{.depth = 4, .slack = 9}, 1, 3, 4},
        {{.depth = 4, .slack = 9}, 2, 3, 8},
        {{.depth = 32, .total = 8, .slack = 9}, 4, 1, 8},
        {{.depth = 32, .total = 4, .slack = 9}, 4, 0, 4},
        {{.depth = 32, .total = 1, .slack = 1}, 64, 0, 1},
        {{.depth = 0, .slack = 1}, 2, 0, 2},
        {{.depth = 4, .total = 1000, .slack = 1}, 2, 1, 8},
        {{.depth = UINT32_MAX, .slack = 1}, 64, 1, UINT32_MAX},
        {{.depth = 4, .slack = 9}, 0, 3, 4}, /* no peer: as with one */
        {{.depth = 0, .slack = 9}, 0, 0, 1},
        {{.depth = 4, .total = 1, .slack = 9}, 1, 0, 1},
        {{.depth = 4, .total = 2, .slack = 9}, 0, 1, 2},
        {{.depth = 2, .total = 0, .slack = 0}, 1, 0, 2},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        struct aqi_credits c;
        struct aqi_credit_peer peers[64];
        aqi_credits_init(&c, &rows[i].limits, peers, rows[i].peers);
        assert_int_equal(c.limits.slack, rows[i].slack);
        assert_int_equal(c.limits.total, rows[i].total);
    }
}

static void the_bank_rides_once(void **state)
{
    struct aqi_credits c;
    struct aqi_credit_peer peer;
    aqi_credits_init(&c, &(struct aqi_credit_limits){.depth = 4, .slack = 1}, &peer, 1);
    aqi_credits_arrived(&c, 0, 64);
    aqi_credits_answered(&c, 0, 64);
    assert_false(aqi_credits_overdue(&c, 0));
    struct aqi_credit_note note = aqi_credits_ride(&c, 0);
    assert_int_equal(note.count, 1);
    assert_int_equal(note.bytes, 64);
    assert_int_equal(aqi_credits_ride(&c, 0).count, 0);
    aqi_credits_unride(&c, 0, note);
    aqi_credits_arrived(&c, 0, 64);
    aqi_credits_answered(&c, 0, 64);
    assert_true(aqi_credits_overdue(&c, 0));
    note = aqi_credits_ride(&c, 0);
    assert_int_equal(note.count, 2);
    assert_int_equal(note.bytes, 128);
}

static void returning_too_much_is_refused(void **state)
{
    struct aqi_credits c;
    struct aqi_credit_peer peer;
    aqi_credits_init(&c, &(struct aqi_credit_limits){.depth = 4, .slack = 1}, &peer, 1);
    assert_false(aqi_credits_returned(&c, 0, (struct aqi_credit_note){1, 0}));
    assert_true(aqi_credits_take(&c, 0, 64));
    assert_false(aqi_credits_returned(&c, 0, (struct aqi_credit_note){1, 65}));
    assert_false(aqi_credits_returned(&c, 0, (struct aqi_credit_note){2, 64}));
    assert_true(aqi_credits_returned(&c, 0, (struct aqi_credit_note){1, 64}));
    assert_int_equal(c.out, 0);
}

static void dead_peers_owe_nothing(void **state)
{
    struct aqi_credits c;
    struct aqi_credit_peer peers[2];
    aqi_credits_init(&c, &(struct aqi_credit_limits){.depth = 2, .total = 2}, peers, 2);
    assert_true(aqi_credits_take(&c, 0, 8));
    assert_true(aqi_credits_take(&c, 0, 8));
    aqi_credits_arrived(&c, 0, 8);
    assert_false(aqi_credits_take(&c, 1, 8));
    aqi_credits_forget(&c, 0);
    assert_true(aqi_credits_take(&c, 1, 8));
    aqi_credits_answered(&c, 0, 8); /* its handler was still running */
    aqi_credits_undo(&c, 0, 8);     /* and a send to it in progress */
    assert_true(aqi_credits_returned(&c, 0, (struct aqi_credit_note){1, 8}));
    assert_int_equal(aqi_credits_ride(&c, 0).count, 0);
    assert_int_equal(c.out, 1);
    assert_null(credits_broken(&c));
}

/* --- the simulated network ------------------------------------------------------------------- */

enum { MOST = 32 };
enum pattern { ANYBODY, RING, TO_ONE, PAIRS, HOT, PATTERNS };
enum event_kind { ARRIVAL, REPLY_NOW, HANDLER_END, SEND, FLUSH, DEATH, NEWS };

struct sim_event {
    uint64_t time, order;
    enum event_kind kind;
    uint8_t at, from; /* NEWS: the dead endpoint */
    bool is_reply;
    uint64_t bytes;
    struct aqi_credit_note note;
};

struct request {
    uint8_t from;
    uint64_t bytes;
    struct request *next;
};

struct endpoint {
    struct aqi_credits credits;
    struct aqi_credit_peer peer[MOST];
    unsigned quota; /* requests still to send */
    int want;       /* destination of the next one, or -1 */
    uint64_t want_bytes;
    bool thinking, busy, replied, dead;
    bool knows_dead[MOST];
    struct request *inbox, **inbox_end;
    struct request now; /* the request whose handler runs */
    /* The network's view, counted independently of the credits. */
    struct aqi_credit_note unanswered[MOST]; /* arrived or in flight, from each */
    uint32_t reply_buffers[MOST];            /* requests sent minus replies received, to each */
};

struct sim {
    struct aqi_credit_limits limits;
    unsigned n;
    enum pattern pattern;
    unsigned refuse; /* percentage of sends that the transport rejects */
    unsigned silent; /* percentage of handlers that do not reply */
    bool break_guard;
    uint64_t random, time, order, messages, hidden;
    struct endpoint ep[MOST];
    struct sim_event *heap;
    size_t count, room;
};

static uint64_t draw(struct sim *s, uint64_t below)
{
    s->random += 0x9e3779b97f4a7c15u; /* splitmix64: Steele, Lea, Flood 2014 */
    uint64_t z = s->random;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static bool earlier(const struct sim_event *a, const struct sim_event *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void swap(struct sim_event *a, struct sim_event *b)
{
    struct sim_event t = *a;
    *a = *b;
    *b = t;
}

static void schedule(struct sim *s, uint64_t delay, struct sim_event event)
{
    assert_true(aqi_array_reserve(&s->heap, &s->room, s->count + 1, sizeof(*s->heap)));
    event.time = s->time + delay;
    event.order = s->order++;
    size_t i = s->count++;
    s->heap[i] = event;
    for (; i > 0 && earlier(&s->heap[i], &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&s->heap[i], &s->heap[(i - 1) / 2]);
}

static struct sim_event next_event(struct sim *s)
{
    struct sim_event first = s->heap[0];
    s->heap[0] = s->heap[--s->count];
    for (size_t i = 0;;) {
        size_t least = i, child = 2 * i + 1;
        for (size_t k = child; k < child + 2 && k < s->count; k++)
            if (earlier(&s->heap[k], &s->heap[least])) least = k;
        if (least == i) return first;
        swap(&s->heap[i], &s->heap[least]);
        i = least;
    }
}

/* `from` sends a message: what the receiver must hold for it is counted and bounded here. */
static void transmit(struct sim *s, unsigned from, unsigned to, bool is_reply, uint64_t bytes,
                     struct aqi_credit_note note)
{
    struct endpoint *e = &s->ep[from], *target = &s->ep[to];
    s->messages++;
    assert_true(note.count <= e->unanswered[to].count && note.bytes <= e->unanswered[to].bytes);
    e->unanswered[to].count -= note.count;
    e->unanswered[to].bytes -= note.bytes;
    if (is_reply) {
        assert_true(target->reply_buffers[from] > 0);
        target->reply_buffers[from]--;
        assert_true(note.count > 0);
    } else {
        e->reply_buffers[to]++;
        target->unanswered[from].count++;
        target->unanswered[from].bytes += bytes;
        assert_true(target->unanswered[from].count <= s->limits.depth);
        if (s->limits.bytes != 0 && target->unanswered[from].count > 1)
            assert_true(target->unanswered[from].bytes <= s->limits.bytes);
    }
    uint64_t delay = draw(s, 8) == 0 ? draw(s, 1000) : draw(s, 40);
    schedule(s, 1 + delay,
             (struct sim_event){.kind = ARRIVAL,
                                .at = (uint8_t)to,
                                .from = (uint8_t)from,
                                .is_reply = is_reply,
                                .bytes = bytes,
                                .note = note});
}

static bool refused(struct sim *s)
{
    return draw(s, 100) < s->refuse;
}

static unsigned choose(struct sim *s, unsigned self)
{
    switch (s->pattern) {
    case RING:
        return (self + 1) % s->n;
    case TO_ONE:
        return 0;
    case PAIRS:
        return (self ^ 1) < s->n ? self ^ 1 : self;
    case HOT:
        return draw(s, 4) != 0 ? 0 : (unsigned)draw(s, s->n);
    default:
        return (unsigned)draw(s, s->n);
    }
}

/* The program of an endpoint: send the next request if there is a credit for it. */
static void attempt(struct sim *s, unsigned self)
{
    struct endpoint *e = &s->ep[self];
    while (!e->dead && !e->busy && !e->thinking && e->quota > 0) {
        if (e->want >= 0 && e->knows_dead[e->want]) e->want = -1, e->quota--;
        if (e->quota == 0) return;
        if (e->want < 0) {
            e->want = (int)choose(s, self);
            e->want_bytes = draw(s, 3) == 0 ? s->limits.largest : 1 + draw(s, s->limits.largest);
            continue;
        }
        unsigned to = (unsigned)e->want;
        /* A slot is reserved for the maximum and then used for less, as am_reserve allows. */
        uint64_t bytes = e->want_bytes, kept = draw(s, 4) == 0 ? (bytes + 1) / 2 : bytes;
        if (!aqi_credits_take(&e->credits, to, bytes)) return;
        struct aqi_credit_note note = aqi_credits_ride(&e->credits, to);
        e->thinking = refused(s) || draw(s, 2) == 0;
        if (e->thinking)
            schedule(s, 1 + draw(s, 50), (struct sim_event){.kind = SEND, .at = (uint8_t)self});
        if (refused(s)) {
            aqi_credits_undo(&e->credits, to, bytes);
            aqi_credits_unride(&e->credits, to, note);
            continue;
        }
        aqi_credits_shrink(&e->credits, to, bytes, kept);
        transmit(s, self, to, false, kept, note);
        e->quota--;
        e->want = -1;
    }
}

static void flush(struct sim *s, unsigned self, unsigned to)
{
    struct endpoint *e = &s->ep[self];
    if (!aqi_credits_overdue(&e->credits, to)) return;
    struct aqi_credit_note note = aqi_credits_ride(&e->credits, to);
    if (refused(s)) {
        aqi_credits_unride(&e->credits, to, note);
        schedule(s, 1 + draw(s, 9),
                 (struct sim_event){.kind = FLUSH, .at = (uint8_t)self, .from = (uint8_t)to});
        return;
    }
    s->hidden++;
    transmit(s, self, to, true, 0, note);
}

/* Run the next waiting handler. Replies are handled meanwhile, requests are not. */
static void serve(struct sim *s, unsigned self)
{
    struct endpoint *e = &s->ep[self];
    struct request *r = e->inbox;
    if (e->busy || r == NULL) return;
    e->inbox = r->next;
    if (e->inbox == NULL) e->inbox_end = &e->inbox;
    e->now = *r;
    free(r);
    e->busy = true;
    e->replied = false;
    aqi_credits_arrived(&e->credits, e->now.from, e->now.bytes);
    uint64_t length = draw(s, 16) == 0 ? draw(s, 500) : draw(s, 20);
    struct sim_event event = {.kind = HANDLER_END, .at = (uint8_t)self};
    if (draw(s, 100) >= s->silent) {
        event.kind = REPLY_NOW;
        length = draw(s, length + 1);
    }
    schedule(s, length, event);
}

static void reply_now(struct sim *s, unsigned self)
{
    struct endpoint *e = &s->ep[self];
    unsigned to = e->now.from;
    struct sim_event again = {.kind = REPLY_NOW, .at = (uint8_t)self};
    if (!e->knows_dead[to]) {
        aqi_credits_answered(&e->credits, to, e->now.bytes);
        struct aqi_credit_note note = aqi_credits_ride(&e->credits, to);
        if (refused(s)) {
            aqi_credits_unride(&e->credits, to, note);
            aqi_credits_unanswered(&e->credits, to, e->now.bytes);
            schedule(s, 1 + draw(s, 9), again);
            return;
        }
        e->replied = true;
        transmit(s, self, to, true, 0, note);
    }
    schedule(s, draw(s, 20), (struct sim_event){.kind = HANDLER_END, .at = (uint8_t)self});
}

static void handler_end(struct sim *s, unsigned self)
{
    struct endpoint *e = &s->ep[self];
    e->busy = false;
    if (!e->replied) {
        aqi_credits_answered(&e->credits, e->now.from, e->now.bytes);
        flush(s, self, e->now.from);
    }
    serve(s, self);
    attempt(s, self);
}

static void arrival(struct sim *s, const struct sim_event *event)
{
    struct endpoint *e = &s->ep[event->at];
    assert_true(aqi_credits_returned(&e->credits, event->from, event->note));
    if (!event->is_reply) {
        struct request *r = malloc(sizeof(*r));
        assert_non_null(r);
        *r = (struct request){.from = event->from, .bytes = event->bytes};
        *e->inbox_end = r;
        e->inbox_end = &r->next;
        serve(s, event->at);
    }
    attempt(s, event->at);
}

static void death(struct sim *s, unsigned who)
{
    s->ep[who].dead = true;
    for (unsigned i = 0; i < s->n; i++)
        if (i != who)
            schedule(s, 1 + draw(s, 3000),
                     (struct sim_event){.kind = NEWS, .at = (uint8_t)i, .from = (uint8_t)who});
}

static void step(struct sim *s, const struct sim_event *event)
{
    struct endpoint *e = &s->ep[event->at];
    if (e->dead) return;
    switch (event->kind) {
    case ARRIVAL:
        arrival(s, event);
        break;
    case REPLY_NOW:
        reply_now(s, event->at);
        break;
    case HANDLER_END:
        handler_end(s, event->at);
        break;
    case SEND:
        e->thinking = false;
        attempt(s, event->at);
        break;
    case FLUSH:
        flush(s, event->at, event->from);
        break;
    case DEATH:
        death(s, event->at);
        break;
    case NEWS:
        e->knows_dead[event->from] = true;
        aqi_credits_forget(&e->credits, event->from);
        attempt(s, event->at);
        break;
    }
    const char *broken = credits_broken(&e->credits);
    if (broken != NULL) fail_msg("%s", broken);
}

/* When all is quiet, the credit that one endpoint has out is banked by the other, to the byte. */
static void check_conservation(const struct sim *s)
{
    for (unsigned a = 0; a < s->n; a++)
        for (unsigned b = 0; b < s->n; b++) {
            const struct endpoint *from = &s->ep[a], *to = &s->ep[b];
            if (from->dead || to->dead) continue;
            assert_int_equal(from->peer[b].out.count, to->peer[a].banked.count);
            assert_int_equal(from->peer[b].out.bytes, to->peer[a].banked.bytes);
            assert_int_equal(to->unanswered[a].count, to->peer[a].banked.count);
            assert_int_equal(to->peer[a].held.count, 0);
            assert_false(aqi_credits_overdue(&to->credits, a));
        }
}

/* Returns true if everything has been sent, false on a deadlock, with messages left to send. */
static bool run(struct sim *s, unsigned requests, unsigned deaths)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct endpoint *e = &s->ep[i];
        aqi_credits_init(&e->credits, &s->limits, e->peer, s->n);
        if (s->break_guard) e->credits.limits.slack = s->limits.slack;
        e->quota = requests;
        e->want = -1;
        e->inbox_end = &e->inbox;
        schedule(s, 0, (struct sim_event){.kind = SEND, .at = (uint8_t)i});
    }
    for (unsigned i = 0; i < deaths; i++)
        schedule(s, draw(s, requests * 20),
                 (struct sim_event){.kind = DEATH, .at = (uint8_t)draw(s, s->n)});
    while (s->count > 0) {
        struct sim_event event = next_event(s);
        s->time = event.time;
        step(s, &event);
    }
    bool finished = true;
    for (unsigned i = 0; i < s->n; i++)
        finished = finished && (s->ep[i].dead || (s->ep[i].quota == 0 && !s->ep[i].busy));
    if (finished) check_conservation(s);
    for (unsigned i = 0; i < s->n; i++)
        while (s->ep[i].inbox != NULL) {
            struct request *r = s->ep[i].inbox;
            s->ep[i].inbox = r->next;
            free(r);
        }
    free(s->heap);
    return finished;
}

static uint64_t seed_of_run(void)
{
    const char *text = getenv("TEST_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 20240611;
}

static void draw_world(struct sim *s)
{
    static const uint32_t depths[] = {1, 1, 2, 2, 3, 8, 32};
    s->n = 2 + (unsigned)draw(s, MOST - 1);
    s->pattern = (enum pattern)draw(s, PATTERNS);
    s->refuse = draw(s, 2) ? (unsigned)draw(s, 40) : 0;
    s->silent = (unsigned)draw(s, 101);
    s->limits.depth = depths[draw(s, AQI_COUNT_OF(depths))];
    s->limits.slack = (uint32_t)draw(s, 5);
    s->limits.largest = 1000;
    s->limits.total = draw(s, 2) ? (uint32_t)draw(s, s->limits.depth * s->n + 1) : 0;
    if (draw(s, 3) != 0) s->limits.bytes = 500 + draw(s, 4000);
}

static void networks_never_stop(void **state)
{
    uint64_t seed = seed_of_run(), messages = 0, hidden = 0;
    print_message("seed %llu (TEST_SEED)\n", (unsigned long long)seed);
    for (unsigned world = 0; world < 120; world++) {
        struct sim *s = calloc(1, sizeof(*s));
        assert_non_null(s);
        s->random = seed * 1000 + world;
        draw_world(s);
        unsigned deaths = world % 3 == 0 ? 1 + (unsigned)draw(s, 2) : 0;
        if (!run(s, 8000 / s->n + 50, deaths))
            fail_msg("world %u: a deadlock: %u endpoints, depth %u, total %u, slack %u, %llu bytes",
                     world, s->n, s->limits.depth, s->limits.total, s->limits.slack,
                     (unsigned long long)s->limits.bytes);
        messages += s->messages;
        hidden += s->hidden;
        free(s);
    }
    print_message("%llu messages, %llu of them hidden replies\n", (unsigned long long)messages,
                  (unsigned long long)hidden);
    assert_true(messages > 100000 && hidden > 1000);
}

/* The simulation detects deadlocks: without the guard there is one. */
static void without_the_guard_they_stop(void **state)
{
    static const struct aqi_credit_limits limits[] = {
        {.depth = 1, .slack = 1, .largest = 10},
        {.depth = 2, .slack = 3, .largest = 10},
        {.depth = 8, .total = 3, .slack = 2, .largest = 10},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(limits); i++)
        for (int broken = 0; broken < 2; broken++) {
            struct sim *s = calloc(1, sizeof(*s));
            assert_non_null(s);
            s->random = i;
            s->n = 4;
            s->silent = 100;
            s->limits = limits[i];
            s->break_guard = broken;
            assert_int_equal(run(s, 500, 0), !broken);
            free(s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_total_and_bytes_bound),
        cmocka_unit_test(a_message_above_the_budget_goes_alone),
        cmocka_unit_test(slack_is_lowered_where_it_could_block),
        cmocka_unit_test(the_bank_rides_once),
        cmocka_unit_test(returning_too_much_is_refused),
        cmocka_unit_test(dead_peers_owe_nothing),
        cmocka_unit_test(networks_never_stop),
        cmocka_unit_test(without_the_guard_they_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
