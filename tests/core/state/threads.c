/*
 * Four threads in each rank use everything at once (mode multiple), or one after another under a
 * lock of the program (mode serialized). Every message and every byte is accounted for.
 */
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NOTE = 100, QUESTION, ANSWER, LANDED, THREADS = 4, SLICE = 4096 };

static struct totals {
    _Atomic uint64_t sum;
    _Atomic uint32_t count;
} noted, asked, answered, landed;

static _Atomic uint32_t running;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static bool serialized;
static uint32_t rounds;

struct worker {
    unsigned index;
    uint64_t random;
    uint32_t answers_due;
};

/* In mode serialized, a thread makes calls only when it is its turn. */
static void take_turn(void)
{
    if (serialized) pthread_mutex_lock(&turn);
}

static void end_turn(void)
{
    if (serialized) pthread_mutex_unlock(&turn);
}

static void add(struct totals *totals, const aq_am *am)
{
    uint64_t seed = (uint32_t)am->args[0];
    CHECK(filled(am->payload, am->nbytes, seed));
    atomic_fetch_add(&totals->sum, mix(seed) + am->nbytes);
    atomic_fetch_add(&totals->count, 1);
}

static void on_note(aq_am *am)
{
    add(&noted, am);
}

static void on_answer(aq_am *am)
{
    add(&answered, am);
}

static void on_landed(aq_am *am)
{
    add(&landed, am);
}

static void on_question(aq_am *am)
{
    add(&asked, am);
    CHECK_OK(aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, am->args, 1, 0));
}

/* --- what a thread does ------------------------------------------------------------------ */

static aq_arg seed_of(const struct worker *w)
{
    return (aq_arg)(w->random >> 24 & 0xffffff);
}

static void do_note(struct worker *w, aq_rank rank)
{
    unsigned char payload[300];
    size_t nbytes = (size_t)seed_of(w) % sizeof(payload);
    fill(payload, nbytes, (uint64_t)seed_of(w));
    CHECK_OK(aq_am_medium(job.team, rank, NOTE, payload, nbytes, AQ_ARGS(seed_of(w)), 0, NULL));
}

static void do_reserved_note(struct worker *w, aq_rank rank)
{
    size_t nbytes = (size_t)seed_of(w) % 500;
    aq_am_buffer buffer;
    CHECK_OK(aq_am_reserve(job.team, rank, AQ_AM_MEDIUM, NULL, nbytes, nbytes, 1, 0, &buffer));
    fill(buffer.addr, nbytes, (uint64_t)seed_of(w));
    CHECK_OK(aq_am_commit(&buffer, NOTE, nbytes, NULL, AQ_ARGS(seed_of(w)), 0));
}

static void do_question(struct worker *w, aq_rank rank)
{
    unsigned char payload[64];
    size_t nbytes = (size_t)seed_of(w) % sizeof(payload);
    fill(payload, nbytes, (uint64_t)seed_of(w));
    CHECK_OK(aq_am_medium(job.team, rank, QUESTION, payload, nbytes, AQ_ARGS(seed_of(w)), 0, NULL));
}

/* Each thread owns two slices of every rank's segment: one for Longs, one for puts. */
static void *slice_of(const struct worker *w, aq_rank rank, unsigned which)
{
    return job_at(rank, SLICE * (1 + ((size_t)job.self * THREADS + w->index) * 2 + which));
}

static void do_put_get(struct worker *w, aq_rank rank)
{
    unsigned char out[SLICE], in[SLICE];
    size_t len = (size_t)(w->random >> 20) % SLICE + 1;
    aq_event event;
    fill(out, len, w->random);
    CHECK_OK(aq_put_nb(job.team, rank, slice_of(w, rank, 0), out, len, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK_OK(aq_get_nbi(job.team, rank, in, slice_of(w, rank, 0), len, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
    CHECK(memcmp(in, out, len) == 0);
}

static aq_atomic_domain *domain;

static void do_add(struct worker *w, aq_rank rank)
{
    uint64_t one = 1, old = UINT64_MAX;
    bool fetch = w->random % 2 == 0;
    CHECK_OK(
        aq_atomic(domain, rank, job_at(rank, 0), AQ_OP_ADD, &one, NULL, fetch ? &old : NULL, 0));
    if (fetch) CHECK(old < (uint64_t)rounds * THREADS * job.size);
}

/* One Long per thread, because its slice is written only once. */
static void do_long(struct worker *w, aq_rank rank)
{
    unsigned char payload[SLICE];
    size_t nbytes = SLICE - w->index;
    fill(payload, nbytes, (uint64_t)seed_of(w));
    CHECK_OK(aq_am_long(job.team, rank, LANDED, payload, nbytes, slice_of(w, rank, 1),
                        AQ_ARGS(seed_of(w)), 0, NULL));
}

/* When the thread exits, the library's own destructor may already have run. */
static pthread_key_t last;
static void do_last(void *arg)
{
    struct worker *w = arg;
    uint64_t word = w->random, back = 0;
    take_turn();
    CHECK_OK(aq_put(job.team, job_next(), slice_of(w, job_next(), 0), &word, sizeof(word), 0));
    CHECK_OK(aq_get(job.team, job_next(), &back, slice_of(w, job_next(), 0), sizeof(back), 0));
    CHECK_EQUAL(back, word);
    end_turn();
}

static void *work(void *arg)
{
    struct worker *w = arg;
    CHECK_EQUAL(pthread_setspecific(last, w), 0);
    for (uint32_t round = 0; round < rounds; round++) {
        aq_rank rank = (aq_rank)((job.self + round) % job.size);
        w->random = mix(w->random + round);
        take_turn();
        do_note(w, rank);
        do_reserved_note(w, rank);
        do_question(w, rank);
        do_put_get(w, rank);
        do_add(w, rank);
        if (round == 0) do_long(w, job_next());
        end_turn();
    }
    atomic_fetch_sub(&running, 1);
    while (atomic_load(&running) > 0 || atomic_load(&answered.count) < THREADS * rounds) {
        take_turn();
        aq_status status = aq_poll();
        end_turn();
        if (status == AQ_AGAIN) sched_yield();
    }
    return NULL;
}

/* --- the whole --------------------------------------------------------------------------- */

/* The totals that `rank` has sent to this rank, computed as its threads did. */
static void expect_from(aq_rank rank, uint64_t *notes, uint32_t *count, uint64_t *longs)
{
    for (unsigned index = 0; index < THREADS; index++) {
        struct worker w = {.random = mix(job.seed + rank * 100u + index)};
        for (uint32_t round = 0; round < rounds; round++) {
            w.random = mix(w.random + round);
            uint64_t seed = (uint64_t)seed_of(&w);
            if (round == 0 && (rank + 1) % job.size == job.self)
                *longs += mix(seed) + SLICE - index;
            if ((rank + round) % job.size != job.self) continue;
            *notes += 2 * mix(seed) + seed % 300 + seed % 500;
            *count += 2;
        }
    }
}

static void run(void)
{
    pthread_t thread[THREADS];
    struct worker worker[THREADS];
    running = THREADS;
    CHECK_EQUAL(pthread_key_create(&last, do_last), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        worker[i] = (struct worker){.index = i, .random = mix(job.seed + job.self * 100u + i)};
        CHECK_EQUAL(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    uint64_t notes = 0, longs = 0, adds;
    uint32_t count = 0;
    for (aq_rank rank = 0; rank < job.size; rank++)
        expect_from(rank, &notes, &count, &longs);
    job_await(&noted.count, count);
    job_await(&landed.count, THREADS);
    job_barrier();
    CHECK_EQUAL(noted.count, count);
    CHECK(noted.sum == notes);
    CHECK_EQUAL(landed.count, THREADS);
    CHECK(landed.sum == longs);
    CHECK_EQUAL(answered.count, THREADS * rounds);
    CHECK_EQUAL(asked.count, count / 2);
    memcpy(&adds, job.base, sizeof(adds));
    CHECK_EQUAL(adds, count / 2);
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {
        {NOTE, 1, 0, on_note, NULL, "note"},
        {QUESTION, 1, 0, on_question, NULL, "question"},
        {ANSWER, 1, AQ_AM_REPLY, on_answer, NULL, "answer"},
        {LANDED, 1, AQ_AM_LONG, on_landed, NULL, "landed"},
    };
    serialized = argc > 1 && strcmp(argv[1], "serialized") == 0;
    job_open(serialized ? AQ_THREAD_SERIALIZED : AQ_THREAD_MULTIPLE, 0);
    rounds = job.size > 4 ? 50 : 300;
    job_attach(SLICE * (1 + (size_t)job.size * THREADS * 2));
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U64, AQ_OP_BIT(AQ_OP_ADD), 0, &domain));
    job_handlers(table, COUNT_OF(table));
    run();
    aq_atomic_domain_destroy(domain);
    job_close();
    return 0;
}
