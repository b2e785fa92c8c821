/*
 * Four threads in each rank make every public call that several threads may make, in random order,
 * while the first thread also makes those that only one may make at a time (barriers, registration,
 * atomic domains). Also run under tsan. All data written is read back, every request with a reply
 * is answered, and every note arrives.
 */
#include "../support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NOTE = 100, QUESTION, ANSWER, THREADS = 4, HALF = 8192, AREA = 2 * HALF };
enum { COUNTERS = 4096 }; /* bytes for atomics and expected counts, at the start of a segment */

static struct worker {
    unsigned index;
    uint64_t random;
    _Atomic uint32_t answers;
    _Atomic uint32_t asked;
    bool refused;
    unsigned char local[HALF], check[HALF];
} workers[THREADS];
static _Atomic uint32_t notes;
static aq_atomic_domain *domain;
static uint32_t rounds;

static uint64_t next(struct worker *w, uint64_t below)
{
    w->random = mix(w->random + 1);
    return (w->random >> 20) % below;
}

/* In some runs the largest Medium has 512 bytes. */
static size_t note_size(struct worker *w)
{
    size_t max = aq_am_max_medium(job.team);
    return next(w, max < 600 ? max : 600);
}

/* Each thread has an area in every segment: its puts in the first half, then its Longs, and last
 * the Longs that answer them, separated by sender. */
static unsigned char *area(const struct worker *w, aq_rank rank, size_t offset)
{
    size_t place = (size_t)job.self * THREADS + w->index;
    return job_at(rank, COUNTERS + place * AREA + offset);
}

/* --- handlers ---------------------------------------------------------------------------- */

static void on_note(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint32_t)am->args[0]));
    atomic_fetch_add(&notes, 1);
}

/* args: seed, kind of the reply, thread. */
static void on_question(aq_am *am)
{
    aq_am_buffer buffer;
    CHECK(filled(am->payload, am->nbytes, (uint32_t)am->args[0]));
    void *back = (unsigned char *)job_at(am->source, COUNTERS) +
                 ((size_t)am->source * THREADS + (unsigned)am->args[2]) * AREA + HALF + HALF / 2 +
                 job.self % 8 * 512;
    size_t n = am->nbytes < 400 ? am->nbytes : 400;
    aq_arg args[] = {am->args[0], (aq_arg)n, am->args[2]};
    switch (am->args[1] % 5) {
    case 0:
        args[1] = 0;
        CHECK_OK(aq_am_reply_short(am, ANSWER, args, 3, 0));
        break;
    case 1:
        CHECK_OK(aq_am_reply_medium(am, ANSWER, am->payload, n, args, 3, 0));
        break;
    case 2:
        CHECK_OK(aq_am_reply_long(am, ANSWER, am->payload, n, back, args, 3, 0));
        break;
    case 3:
        CHECK_OK(aq_am_reserve_reply(am, AQ_AM_MEDIUM, NULL, n, n, 3, 0, &buffer));
        memcpy(buffer.addr, am->payload, n);
        CHECK_OK(aq_am_commit(&buffer, ANSWER, n, NULL, args, 3, 0));
        break;
    default:
        CHECK_OK(aq_am_reserve_reply(am, AQ_AM_LONG, am->payload, n, n, 3, 0, &buffer));
        CHECK_OK(aq_am_commit(&buffer, ANSWER, n, back, args, 3, 0));
    }
}

static void on_answer(aq_am *am)
{
    /*
     * For tsan, which does not see that the other rank orders this after the asking thread.
     */
    CHECK(atomic_load(&workers[am->args[2]].asked) > 0);
    CHECK_EQUAL(am->nbytes, am->args[1]);
    CHECK(filled(am->payload, am->nbytes, (uint32_t)am->args[0]));
    atomic_fetch_add(&workers[am->args[2]].answers, 1);
}

/* --- messages ---------------------------------------------------------------------------- */

static int all_answered(void *arg)
{
    struct worker *w = arg;
    return atomic_load(&w->answers) == w->asked;
}

/* Announce a note to `rank` by means other than the note itself. */
static void announce(aq_rank rank)
{
    uint64_t one = 1;
    CHECK_OK(aq_atomic_nbi(domain, rank, job_at(rank, 8), AQ_OP_ADD, &one, NULL, NULL, 0));
}

static void move_note(struct worker *w, aq_rank rank)
{
    uint32_t seed = (uint32_t)next(w, 1u << 20);
    size_t n = note_size(w);
    unsigned flags = next(w, 3) == 0 ? AQ_IMMEDIATE : 0;
    aq_event event = AQ_EVENT_DONE;
    aq_event *local[] = {NULL, &event, AQ_EVENT_GROUP};
    aq_status status;
    fill(w->local, n, seed);
    if (next(w, 3) == 0)
        status = aq_am_short(job.team, rank, NOTE, AQ_ARGS((aq_arg)seed), flags);
    else
        status = aq_am_medium(job.team, rank, NOTE, w->local, n, AQ_ARGS((aq_arg)seed), flags,
                              local[next(w, 3)]);
    CHECK(status == AQ_OK || (flags != 0 && status == AQ_AGAIN));
    if (status != AQ_OK) return;
    announce(rank);
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
}

static void move_prepared(struct worker *w, aq_rank rank)
{
    uint32_t seed = (uint32_t)next(w, 1u << 20);
    size_t n = note_size(w);
    bool own = next(w, 2) == 0;
    aq_am_buffer buffer;
    fill(w->local, n, seed);
    CHECK_OK(
        aq_am_reserve(job.team, rank, AQ_AM_MEDIUM, own ? w->local : NULL, n, n, 1, 0, &buffer));
    if (next(w, 4) == 0) {
        aq_am_cancel(&buffer);
        return;
    }
    if (!own) fill(buffer.addr, n, seed);
    CHECK_OK(aq_am_commit(&buffer, NOTE, n, NULL, AQ_ARGS((aq_arg)seed), 0));
    announce(rank);
}

static void move_question(struct worker *w, aq_rank rank)
{
    aq_arg seed = (aq_arg)next(w, 1u << 20), form = (aq_arg)next(w, 5);
    size_t n = next(w, HALF / 2);
    aq_event event = AQ_EVENT_DONE;
    aq_event *local[] = {NULL, &event, AQ_EVENT_GROUP};
    size_t max = aq_am_max_medium(job.team);
    fill(w->local, n, (uint32_t)seed);
    w->asked++;
    if (next(w, 2) == 0)
        CHECK_OK(aq_am_medium(job.team, rank, QUESTION, w->local, n < max ? n : max,
                              AQ_ARGS(seed, form, (aq_arg)w->index), 0, local[next(w, 3)]));
    else
        CHECK_OK(aq_am_long(job.team, rank, QUESTION, w->local, n, area(w, rank, HALF),
                            AQ_ARGS(seed, form, (aq_arg)w->index), 0, local[next(w, 3)]));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK_OK(aq_nbi_wait(AQ_NBI_LOCAL, AQ_FOREVER));
    CHECK_OK(aq_poll_until(all_answered, w, AQ_FOREVER));
}

/* --- one-sided --------------------------------------------------------------------------- */

static void move_put_get(struct worker *w, aq_rank rank)
{
    size_t n = 1 + next(w, HALF);
    unsigned char *at = area(w, rank, 0);
    aq_event event;
    fill(w->local, n, w->random);
    switch (next(w, 4)) {
    case 0:
        CHECK_OK(aq_put(job.team, rank, at, w->local, n, 0));
        CHECK_OK(aq_get(job.team, rank, w->check, at, n, 0));
        break;
    case 1:
        CHECK_OK(aq_put_nb(job.team, rank, at, w->local, n, 0, &event));
        (void)aq_event_local(event);
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        CHECK_OK(aq_get_nb(job.team, rank, w->check, at, n, 0, &event));
        while (aq_event_test(&event) == AQ_AGAIN)
            (void)aq_poll();
        break;
    case 2:
        CHECK_OK(aq_put_nbi(job.team, rank, at, w->local, n, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
        CHECK_OK(aq_get_nbi(job.team, rank, w->check, at, n, 0));
        while (aq_nbi_test(AQ_NBI_GET) == AQ_AGAIN)
            (void)aq_poll();
        break;
    default:
        CHECK_OK(aq_nbi_begin());
        CHECK_OK(aq_put_nbi(job.team, rank, at, w->local, n, 0));
        CHECK_OK(aq_nbi_end(&event));
        (void)aq_event_leaf(event, AQ_NBI_LOCAL);
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        CHECK_OK(aq_get(job.team, rank, w->check, at, n, 0));
    }
    CHECK(memcmp(w->local, w->check, n) == 0);
}

static void move_values(struct worker *w, aq_rank rank)
{
    unsigned char *at = area(w, rank, 0);
    uint64_t value = w->random, got = 0;
    aq_event event;
    CHECK_OK(aq_put_value(job.team, rank, at, value, 8, 0));
    CHECK_OK(aq_put_value_nb(job.team, rank, at + 8, value, 4, 0, &event));
    CHECK_OK(aq_put_value_nbi(job.team, rank, at + 16, value, 2, 0));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    CHECK_OK(aq_get_value(job.team, rank, at, 8, 0, &got));
    CHECK(got == value);
    CHECK_OK(aq_get_value(job.team, rank, at + 8, 4, 0, &got));
    CHECK(got == (uint32_t)value);
    CHECK_OK(aq_get_value(job.team, rank, at + 16, 2, 0, &got));
    CHECK(got == (uint16_t)value);
    CHECK_OK(aq_memset(job.team, rank, at, 1, 100, 0));
    CHECK_OK(aq_memset_nb(job.team, rank, at + 100, 1, 100, 0, &event));
    CHECK_OK(aq_memset_nbi(job.team, rank, at + 200, 1, 100, 0));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
    CHECK_OK(aq_get(job.team, rank, w->check, at, 300, 0));
    CHECK(all_bytes(w->check, 300, 1));
}

static void move_pieces(struct worker *w, aq_rank rank)
{
    unsigned char *at = area(w, rank, 0);
    aq_vec far[4], out[4], in[4];
    void *far_at[4], *out_at[4], *in_at[4];
    const ptrdiff_t far_stride = 500, near_stride = 100;
    const size_t four = 4;
    aq_event event;
    fill(w->local, 400, w->random);
    memset(w->check, 0, 400);
    for (size_t i = 0; i < 4; i++) {
        far[i] = (aq_vec){far_at[i] = at + i * 500, 100};
        out[i] = (aq_vec){out_at[i] = w->local + i * 100, 100};
        in[i] = (aq_vec){in_at[i] = w->check + i * 100, 100};
    }
    switch (next(w, 5)) {
    case 0:
        CHECK_OK(aq_put_vector(job.team, rank, 4, far, 4, out, 0));
        CHECK_OK(aq_get_vector(job.team, rank, 4, in, 4, far, 0));
        break;
    case 1:
        CHECK_OK(aq_put_vector_nb(job.team, rank, 4, far, 4, out, 0, &event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        CHECK_OK(aq_get_vector_nbi(job.team, rank, 4, in, 4, far, 0));
        break;
    case 2:
        CHECK_OK(aq_put_indexed(job.team, rank, 4, far_at, 100, 4, out_at, 100, 0));
        CHECK_OK(aq_get_indexed(job.team, rank, 4, in_at, 100, 4, far_at, 100, 0));
        break;
    case 3:
        CHECK_OK(aq_put_strided(job.team, rank, at, &far_stride, w->local, &near_stride, 100, &four,
                                1, 0));
        CHECK_OK(aq_get_strided(job.team, rank, w->check, &near_stride, at, &far_stride, 100, &four,
                                1, 0));
        break;
    default:
        CHECK_OK(aq_put_strided_nbi(job.team, rank, at, &far_stride, w->local, &near_stride, 100,
                                    &four, 1, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
        CHECK_OK(aq_get_indexed_nb(job.team, rank, 4, in_at, 100, 4, far_at, 100, 0, &event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    }
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
    CHECK(memcmp(w->local, w->check, 400) == 0);
}

static void move_atomics(struct worker *w, aq_rank rank)
{
    uint64_t one = 1, old = UINT64_MAX;
    unsigned char *own = area(w, rank, 0);
    aq_event event;
    CHECK_OK(aq_put_value(job.team, rank, own, 7, 8, 0));
    CHECK_OK(aq_atomic(domain, rank, own, AQ_OP_ADD, &one, NULL, &old, 0));
    CHECK(old == 7);
    CHECK_OK(aq_atomic_nb(domain, rank, own, AQ_OP_ADD, &one, NULL, &old, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK(old == 8);
    CHECK_OK(aq_atomic_nbi(domain, rank, job_at(rank, 0), AQ_OP_ADD, &one, NULL, NULL, 0));
}

static void move_events(struct worker *w, aq_rank rank)
{
    aq_event events[16];
    size_t n = 1 + next(w, 16);
    fill(w->local, n * 100, w->random);
    for (size_t i = 0; i < n; i++)
        CHECK_OK(aq_put_nb(job.team, rank, area(w, rank, i * 100), w->local + i * 100, 100, 0,
                           &events[i]));
    switch (next(w, 4)) {
    case 0:
        while (aq_event_test_all(events, n) == AQ_AGAIN)
            (void)aq_poll();
        break;
    case 1:
        while (aq_event_test_some(events, n) == AQ_AGAIN)
            (void)aq_poll();
        break;
    case 2:
        CHECK_OK(aq_event_wait_some(events, n, AQ_FOREVER));
        break;
    default:
        break;
    }
    CHECK_OK(aq_event_wait_all(events, n, AQ_FOREVER));
    CHECK_OK(aq_get(job.team, rank, w->check, area(w, rank, 0), n * 100, 0));
    CHECK(memcmp(w->local, w->check, n * 100) == 0);
}

static void move_ask(struct worker *w, aq_rank rank)
{
    aq_counter_info counter;
    aq_segment_info info;
    const char *route;
    CHECK_OK(aq_segment_query(job.team, rank, &info));
    CHECK_OK(aq_info_route(job.team, rank, &route));
    CHECK_OK(aq_info_counter(next(w, 4), &counter));
    CHECK_EQUAL(aq_team_size(job.team), aq_job_size());
    CHECK_EQUAL(aq_team_rank(job.team), aq_job_rank());
    CHECK(aq_team_ep(job.team) == job.ep);
    CHECK(aq_am_max_long(job.team) >= aq_am_max_medium(job.team));
    /* Each thread has an error message of its own. */
    if (!w->refused)
        CHECK_REFUSED(aq_put(job.team, job.size + w->index, w->local, w->local, 1, 0), AQ_ERANK);
    w->refused = true;
    (void)aq_poll();
}

/* --- one thread at a time ---------------------------------------------------------------- */

static void move_alone(struct worker *w, uint32_t round)
{
    aq_handler_entry late = {AQ_HANDLER_AUTO, 1, 0, on_note, NULL, "late"};
    aq_atomic_domain *other;
    aq_status status;
    CHECK_OK(aq_barrier_notify(job.team, (int)round, 0));
    if (round < 20) CHECK_OK(aq_am_register(job.ep, &late, 1));
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U32, AQ_OP_BIT(AQ_OP_ADD), 0, &other));
    aq_atomic_domain_destroy(other);
    while ((status = aq_barrier_wait(job.team, (int)round, 0, 0)) == AQ_AGAIN)
        if (next(w, 100) == 0) {
            status = aq_barrier_wait(job.team, (int)round, 0, AQ_FOREVER);
            break;
        }
    CHECK_STATUS(status, AQ_OK);
}

static void *work(void *arg)
{
    static void (*const moves[])(struct worker *, aq_rank) = {
        move_note,   move_prepared, move_question, move_put_get, move_values,
        move_pieces, move_atomics,  move_events,   move_ask,
    };
    struct worker *w = arg;
    for (uint32_t round = 0; round < rounds; round++) {
        moves[next(w, COUNT_OF(moves))](w, (aq_rank)next(w, job.size));
        if (w->index == 0 && round % 10 == 0) move_alone(w, round);
    }
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    return NULL;
}

int main(void)
{
    aq_handler_entry table[] = {
        {NOTE, 1, AQ_AM_REQUEST, on_note, NULL, "note"},
        {QUESTION, 3, AQ_AM_REQUEST, on_question, NULL, "question"},
        {ANSWER, 3, AQ_AM_REPLY, on_answer, NULL, "answer"},
    };
    pthread_t threads[THREADS];
    job_open(AQ_THREAD_MULTIPLE, 0);
    rounds = job.size > 2 ? 150 : 400;
    job_attach(COUNTERS + (size_t)job.size * THREADS * AREA);
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U64, AQ_OP_BIT(AQ_OP_ADD), 0, &domain));
    job_handlers(table, COUNT_OF(table));
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].index = i;
        workers[i].random = mix(job.seed + job.self * 100u + i);
        CHECK_EQUAL(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    job_barrier(); /* all notes have been announced */
    uint64_t announced;
    memcpy(&announced, job.base + 8, sizeof(announced));
    job_await(&notes, (uint32_t)announced);
    job_barrier();
    CHECK_EQUAL(notes, announced);
    aq_atomic_domain_destroy(domain);
    job_close();
    return 0;
}
