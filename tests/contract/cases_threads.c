/*
 * Several threads on one endpoint use every operation at once; every message and byte is accounted
 * for.
 */
#include "harness.h"

#include <aqueduct/type.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NOTE = 120, QUESTION = 121, ANSWER = 122, THREADS = 4, ROUNDS = 400, SLICE = 8192 };

/* Sums over all messages, which must be equal at both ends. */
struct threads_state {
    _Atomic uint64_t notes, note_sum;
    _Atomic uint64_t questions;
    _Atomic uint64_t answers, answer_sum;
    _Atomic uint64_t sent_sum, asked_sum;
    _Atomic uint32_t running;
};

struct threads_worker {
    struct ct_ep *ep;
    unsigned index;
    uint64_t random;
};

static uint64_t threads_check(const struct aqi_am *am)
{
    uint64_t seed = (uint32_t)am->args[0];
    CT_CHECK(filled(am->payload, am->nbytes, seed));
    return mix(seed) + am->nbytes;
}

static void threads_on_note(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct threads_state *state = ep->user;
    (void)source;
    atomic_fetch_add(&state->note_sum, threads_check(am));
    atomic_fetch_add(&state->notes, 1);
}

static void threads_on_question(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct threads_state *state = ep->user;
    struct aqi_am answer = *am;
    answer.handler = ANSWER;
    threads_check(am);
    atomic_fetch_add(&state->questions, 1);
    ct_reply(ep, source, &answer);
}

static void threads_on_answer(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct threads_state *state = ep->user;
    (void)source;
    atomic_fetch_add(&state->answer_sum, threads_check(am));
    atomic_fetch_add(&state->answers, 1);
}

static void threads_message(struct threads_worker *w, uint32_t to, uint8_t handler,
                            _Atomic uint64_t *sum)
{
    unsigned char buffer[600];
    uint32_t seed = (uint32_t)(w->random >> 20) & 0xffffff;
    struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                        .handler = handler,
                        .nargs = 1,
                        .nbytes = seed % 500,
                        .args = (int32_t[]){(int32_t)seed},
                        .payload = buffer};
    fill(buffer, am.nbytes, seed);
    atomic_fetch_add(sum, mix(seed) + am.nbytes);
    ct_send(w->ep, to, &am, NULL);
}

/* This thread owns a slice of the target: it gets back what it has put. */
static void threads_put_get(struct threads_worker *w, uint32_t to)
{
    unsigned char out[SLICE], in[SLICE];
    size_t len = (w->random >> 30) % SLICE + 1;
    size_t offset = SLICE * ((size_t)w->ep->self * THREADS + w->index + 1);
    struct aqi_comp comp;
    ct_comp_init(w->ep, &comp);
    fill(out, len, w->random);
    ct_put(w->ep, to, offset, out, len, &comp);
    ct_comp_wait(w->ep, &comp);
    ct_get(w->ep, to, offset, in, len, &comp);
    ct_comp_wait(w->ep, &comp);
    CT_CHECK(memcmp(in, out, len) == 0);
}

static void threads_add(struct threads_worker *w, uint32_t to)
{
    struct aqi_comp comp;
    ct_comp_init(w->ep, &comp);
    uint64_t old = 0;
    struct aqi_atomic req = {.addr = w->ep->world->addr[to],
                             .operand1 = 1,
                             .op = AQ_OP_ADD,
                             .type = AQ_TYPE_U64,
                             .fetch = w->random % 2 == 0};
    ct_atomic(w->ep, to, &req, req.fetch ? &old : NULL, &comp);
    ct_comp_wait(w->ep, &comp);
}

static void *threads_work(void *arg)
{
    struct threads_worker *w = arg;
    struct threads_state *state = w->ep->user;
    aqi_tp_thread = w->index;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        w->random = mix(w->random + round);
        uint32_t to = ct_next(w->ep);
        threads_message(w, to, NOTE, &state->sent_sum);
        threads_message(w, to, QUESTION, &state->asked_sum);
        threads_put_get(w, to);
        threads_add(w, to);
        /* The result is outdated at once; the point is that any thread may make the call. */
        if (round % 16 == 0) CT_CHECK(w->ep->tp->ops.quiet(w->ep->tp, NULL) >= 0);
        if (round % 16 == 8) {
            CT_CHECK(w->ep->tp->ops.arm(w->ep->tp, true) >= 0);
            CT_OK(w->ep->tp->ops.arm(w->ep->tp, false));
        }
    }
    atomic_fetch_sub(&state->running, 1);
    /* A thread that has finished continues to poll, so that several threads make progress at
     * once. */
    while (atomic_load(&state->answers) < THREADS * ROUNDS || atomic_load(&state->running) > 0)
        ct_poll(w->ep);
    return NULL;
}

static void threads_mix(struct ct_ep *ep)
{
    struct threads_state *state = calloc(1, sizeof(*state));
    CT_CHECK(state != NULL);
    state->running = THREADS;
    ep->user = state;
    ep->handlers[NOTE] = threads_on_note;
    ep->handlers[QUESTION] = threads_on_question;
    ep->handlers[ANSWER] = threads_on_answer;
    ct_mem_open(ep, SLICE * ((size_t)ep->size * THREADS + 1));
    pthread_t thread[THREADS];
    struct threads_worker worker[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        worker[i] = (struct threads_worker){.ep = ep, .index = i, .random = ct_random(ep)};
        CT_EQUAL(pthread_create(&thread[i], NULL, threads_work, &worker[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    ep->world->len[ep->self] = atomic_load(&state->sent_sum);
    while (atomic_load(&state->notes) < THREADS * ROUNDS)
        ct_poll(ep);
    ct_barrier(ep);
    uint32_t source = (ep->self + ep->size - 1) % ep->size;
    uint64_t counter;
    memcpy(&counter, ep->mem.addr, sizeof(counter));
    CT_EQUAL(counter, THREADS * ROUNDS);
    CT_EQUAL(atomic_load(&state->notes), THREADS * ROUNDS);
    CT_EQUAL(atomic_load(&state->questions), THREADS * ROUNDS);
    CT_EQUAL(atomic_load(&state->answers), THREADS * ROUNDS);
    CT_CHECK(atomic_load(&state->note_sum) == ep->world->len[source]);
    CT_CHECK(atomic_load(&state->answer_sum) == atomic_load(&state->asked_sum));
    ct_mem_close(ep);
    free(state);
}

/* Threads that reserve at the same time get different room. */
static void *threads_reserve_work(void *arg)
{
    struct threads_worker *w = arg;
    struct ct_ep *ep = w->ep;
    aqi_tp_thread = w->index;
    const struct aqi_transport *ops = &ep->tp->ops;
    uint32_t to = ct_next(ep);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t seed = w->index * ROUNDS + round, nbytes = seed % 500;
        struct aqi_slot slot;
        while (ops->am_reserve(ep->tp, ep->peers[to], false, 1, nbytes, &slot) == AQ_AGAIN)
            ct_poll(ep);
        fill(slot.payload, nbytes, seed);
        struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                            .handler = NOTE,
                            .nargs = 1,
                            .nbytes = nbytes,
                            .args = (int32_t[]){(int32_t)seed}};
        while (ops->am_commit(ep->tp, ep->peers[to], &slot, round % 4 == 3 ? NULL : &am) ==
               AQ_AGAIN)
            ct_poll(ep);
    }
    return NULL;
}

static void threads_reserve(struct ct_ep *ep)
{
    struct threads_state *state = calloc(1, sizeof(*state));
    CT_CHECK(state != NULL);
    ep->user = state;
    ep->handlers[NOTE] = threads_on_note;
    ct_meet(ep);
    pthread_t thread[THREADS];
    struct threads_worker worker[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        worker[i] = (struct threads_worker){.ep = ep, .index = i};
        CT_EQUAL(pthread_create(&thread[i], NULL, threads_reserve_work, &worker[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    while (atomic_load(&state->notes) < THREADS * ROUNDS * 3 / 4)
        ct_poll(ep);
    ct_barrier(ep);
    uint64_t sum = 0;
    for (uint32_t seed = 0; seed < THREADS * ROUNDS; seed++)
        if (seed % ROUNDS % 4 != 3) sum += mix(seed) + seed % 500;
    CT_CHECK(atomic_load(&state->note_sum) == sum);
    CT_EQUAL(atomic_load(&state->notes), THREADS * ROUNDS * 3 / 4);
    free(state);
}

const struct ct_case ct_cases_threads[] = {
    {"threads: messages, puts, gets and atomics at once", threads_mix, CT_THREADS},
    {"threads: reserve and commit at once", threads_reserve, CT_THREADS},
    {NULL, NULL, 0},
};
