/*
 * A random mixture of everything, from a printed seed. Each message carries a checksum, and at the
 * end every rank knows how many messages it should have received from each rank, and their sum.
 *
 * stress [STEPS [UNTIL]]; TEST_SEED repeats a run. The order of arrival is printed as a hash: runs
 * with equal hashes saw the same order. STEPS steps are repeated until the file UNTIL exists.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE = 100, QUESTION, ANSWER, WINDOW = 16, ROOM = 8192, LARGE = 60000 };

/* Totals sent to or received from one rank. Handlers may run on a thread of the library. */
struct tally {
    _Atomic uint64_t count, sum;
};

static struct tally *sent, *got;
static _Atomic uint64_t order;
static _Atomic uint32_t questions, answers;
static aq_atomic_domain *domain;
static uint64_t adds_done;

/* Events under way, each with the condition to check when it is complete. */
static struct outstanding {
    aq_event event;
    unsigned char *out, *in;
    size_t len;
    uint64_t seed;
    bool is_get;
} window[WINDOW];

/* --- messages ---------------------------------------------------------------------------- */

static uint64_t checksum(const void *payload, size_t nbytes, const aq_arg *args, unsigned nargs)
{
    const unsigned char *bytes = payload;
    uint64_t sum = nbytes * 31 + nargs;
    for (size_t i = 0; i < nbytes; i++)
        sum = sum * 0x100000001b3u + bytes[i];
    for (unsigned i = 0; i < nargs; i++)
        sum = sum * 0x100000001b3u + (uint32_t)args[i];
    return mix(sum);
}

static void count_in(const aq_am *am)
{
    uint64_t sum = checksum(am->payload, am->nbytes, am->args, am->nargs);
    got[am->source].count++;
    got[am->source].sum += sum;
    order = mix(order + am->source * 7919u + (sum & 0xffff));
}

static void on_message(aq_am *am)
{
    CHECK(!am->is_reply);
    count_in(am);
}

/* Half of the questions are answered by a negotiated reply. */
static void on_question(aq_am *am)
{
    count_in(am);
    if (am->nargs % 2 == 0) {
        CHECK_OK(aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, am->args, am->nargs, 0));
        return;
    }
    aq_am_buffer buffer;
    CHECK_OK(
        aq_am_reserve_reply(am, AQ_AM_MEDIUM, NULL, am->nbytes, am->nbytes, am->nargs, 0, &buffer));
    memcpy(buffer.addr, am->payload, am->nbytes);
    CHECK_OK(aq_am_commit(&buffer, ANSWER, am->nbytes, NULL, am->args, am->nargs, 0));
}

/* The answer is the question, whose checksum was written into the last two arguments. */
static void on_answer(aq_am *am)
{
    CHECK(am->is_reply && am->nargs >= 2);
    uint64_t sum = checksum(am->payload, am->nbytes, am->args, am->nargs - 2u);
    CHECK((uint32_t)am->args[am->nargs - 2] == (uint32_t)sum);
    CHECK((uint32_t)am->args[am->nargs - 1] == (uint32_t)(sum >> 32));
    answers++;
}

static void count_out(aq_rank rank, const void *payload, size_t nbytes, const aq_arg *args,
                      unsigned nargs)
{
    sent[rank].count++;
    sent[rank].sum += checksum(payload, nbytes, args, nargs);
}

static size_t some_size(void)
{
    size_t max = aq_am_max_medium(job.team);
    size_t most = job_random() % 8 == 0 ? max : 200;
    return job_random() % ((most < max ? most : max) + 1);
}

static void step_message(aq_rank rank)
{
    static unsigned char payload[1 << 17];
    unsigned nargs = (unsigned)(job_random() % 17);
    size_t nbytes = some_size();
    aq_arg args[AQ_AM_MAX_ARGS];
    fill_args(args, nargs, job_random());
    fill(payload, nbytes, job_random());
    switch (job_random() % 4) {
    case 0:
        count_out(rank, NULL, 0, args, nargs);
        CHECK_OK(aq_am_short(job.team, rank, MESSAGE, args, nargs, 0));
        return;
    case 1:
        count_out(rank, payload, nbytes, args, nargs);
        CHECK_OK(aq_am_medium(job.team, rank, MESSAGE, payload, nbytes, args, nargs, 0, NULL));
        return;
    case 2: {
        aq_am_buffer buffer;
        CHECK_OK(aq_am_reserve(job.team, rank, AQ_AM_MEDIUM, NULL, nbytes, nbytes + 100, nargs, 0,
                               &buffer));
        memcpy(buffer.addr, payload, nbytes);
        if (job_random() % 4 == 0) {
            aq_am_cancel(&buffer);
            return;
        }
        count_out(rank, payload, nbytes, args, nargs);
        CHECK_OK(aq_am_commit(&buffer, MESSAGE, nbytes, NULL, args, nargs, 0));
        return;
    }
    default: {
        aq_event event;
        count_out(rank, payload, nbytes, args, nargs);
        CHECK_OK(aq_am_medium(job.team, rank, MESSAGE, payload, nbytes, args, nargs, 0, &event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    }
    }
}

static void step_question(aq_rank rank)
{
    unsigned char payload[400];
    unsigned nargs = 2 + (unsigned)(job_random() % 15);
    size_t nbytes = job_random() % sizeof(payload);
    aq_arg args[AQ_AM_MAX_ARGS];
    fill_args(args, nargs - 2, job_random());
    fill(payload, nbytes, job_random());
    uint64_t sum = checksum(payload, nbytes, args, nargs - 2);
    args[nargs - 2] = (aq_arg)(uint32_t)sum;
    args[nargs - 1] = (aq_arg)(uint32_t)(sum >> 32);
    count_out(rank, payload, nbytes, args, nargs);
    questions++;
    CHECK_OK(aq_am_medium(job.team, rank, QUESTION, payload, nbytes, args, nargs, 0, NULL));
}

/* --- one-sided --------------------------------------------------------------------------- */

/*
 * Each slot of the window has its own place in every segment; the place of slot 0 has LARGE bytes.
 */
static void *place(aq_rank rank, size_t slot)
{
    size_t mine = LARGE + (WINDOW - 1) * (size_t)ROOM;
    size_t offset = slot == 0 ? 0 : LARGE + (slot - 1) * (size_t)ROOM;
    return job_at(rank, 64 + job.self * mine + offset);
}

static void settle(struct outstanding *o)
{
    CHECK_OK(aq_event_wait(&o->event, AQ_FOREVER));
    if (o->is_get) CHECK(filled(o->in, o->len, o->seed));
    o->is_get = false;
}

/* Put data, wait, and start to get it back. The data is checked when the slot is used next. */
static void step_put_get(aq_rank rank)
{
    size_t slot = job_random() % WINDOW;
    struct outstanding *o = &window[slot];
    settle(o);
    o->len = job_random() % ((slot == 0 ? (size_t)LARGE : (size_t)ROOM) - 8);
    o->seed = job_random();
    size_t skew = job_random() % 8;
    unsigned char *at = (unsigned char *)place(rank, slot) + skew;
    fill(o->out, o->len, o->seed);
    if (job_random() % 2 == 0) {
        CHECK_OK(aq_put(job.team, rank, at, o->out, o->len, 0));
    } else {
        CHECK_OK(aq_put_nbi(job.team, rank, at, o->out, o->len, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
    }
    memset(o->out, 0, o->len);
    CHECK_OK(aq_get_nb(job.team, rank, o->in, at, o->len, 0, &o->event));
    o->is_get = true;
}

static void step_atomic(aq_rank rank)
{
    uint64_t one = 1;
    adds_done++;
    CHECK_OK(aq_atomic_nbi(domain, rank, job_at(rank, 0), AQ_OP_ADD, &one, NULL, NULL, 0));
    if (job_random() % 8 == 0) CHECK_OK(aq_nbi_wait(AQ_NBI_ATOMIC, AQ_FOREVER));
}

/* --- the whole --------------------------------------------------------------------------- */

static void step(void)
{
    aq_rank rank = (aq_rank)(job_random() % job.size);
    unsigned kind = (unsigned)(job_random() % 10);
    if (kind < 4)
        step_message(rank);
    else if (kind < 6)
        step_question(rank);
    else if (kind < 8)
        step_put_get(rank);
    else if (kind < 9)
        step_atomic(rank);
    else
        (void)aq_poll();
}

/* Compare what has arrived with the totals that the others report. */
static void check_tallies(struct tally *expected)
{
    for (aq_rank rank = 0; rank < job.size; rank++)
        CHECK_OK(aq_put(job.team, rank, (struct tally *)job_at(rank, job.len) + job.self,
                        &sent[rank], sizeof(sent[rank]), 0));
    job_barrier();
    for (aq_rank rank = 0; rank < job.size; rank++)
        while (got[rank].count < expected[rank].count)
            (void)aq_poll();
    job_await(&answers, questions);
    job_barrier();
    for (aq_rank rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(got[rank].count, expected[rank].count);
        CHECK(got[rank].sum == expected[rank].sum);
    }
    CHECK_EQUAL(answers, questions);
}

/* Check that no addition of any rank is missing. */
static void check_adds(void)
{
    uint64_t mine = adds_done, one_sided, total = 0, all = 0;
    memcpy(job.base + 8, &mine, sizeof(mine));
    job_barrier();
    for (aq_rank rank = 0; rank < job.size; rank++) {
        CHECK_OK(aq_get(job.team, rank, &one_sided, job_at(rank, 0), sizeof(one_sided), 0));
        total += one_sided;
        CHECK_OK(aq_get(job.team, rank, &mine, job_at(rank, 8), sizeof(mine), 0));
        all += mine;
    }
    CHECK_EQUAL(total, all);
    job_barrier();
}

static void setup(void)
{
    aq_handler_entry table[] = {
        {MESSAGE, AQ_AM_ANY_ARGS, AQ_AM_REQUEST | AQ_AM_SHORT | AQ_AM_MEDIUM, on_message, NULL,
         "message"},
        {QUESTION, AQ_AM_ANY_ARGS, AQ_AM_REQUEST | AQ_AM_MEDIUM, on_question, NULL, "question"},
        {ANSWER, AQ_AM_ANY_ARGS, AQ_AM_REPLY | AQ_AM_MEDIUM, on_answer, NULL, "answer"},
    };
    job.segment_modes = ALL_SEGMENT_MODES;
    job_open(AQ_THREAD_SINGLE, 0);
    /* The tallies follow at offset job.len. */
    job.len = 64 + (LARGE + (WINDOW - 1) * (size_t)ROOM) * job.size;
    job.len = (job.len + 63) / 64 * 64;
    job_attach(job.len + job.size * sizeof(struct tally));
    sent = calloc(job.size, sizeof(*sent));
    got = calloc(job.size, sizeof(*got));
    CHECK(sent != NULL && got != NULL);
    for (size_t i = 0; i < WINDOW; i++) {
        window[i].out = malloc(LARGE);
        window[i].in = malloc(LARGE);
        CHECK(window[i].out != NULL && window[i].in != NULL);
    }
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U64, AQ_OP_BIT(AQ_OP_ADD), 0, &domain));
    job_handlers(table, COUNT_OF(table));
}

/* Rank 0 looks for the file on behalf of all ranks. */
static bool is_there(const char *path)
{
    bool there = access(path, F_OK) == 0;
    CHECK_OK(aq_coll_broadcast(job.team, 0, &there, &there, sizeof(there), 0));
    return there;
}

int main(int argc, char **argv)
{
    setup();
    unsigned long steps = argc > 1 ? strtoul(argv[1], NULL, 0) : 40000 / job.size + 500;
    do {
        for (unsigned long i = 0; i < steps; i++) {
            step();
            if (i % 1000 == 999 && mix(job.seed + i) % 2 == 0) job_barrier();
        }
    } while (argc > 2 && !is_there(argv[2]));
    for (size_t i = 0; i < WINDOW; i++) {
        settle(&window[i]);
        free(window[i].out);
        free(window[i].in);
    }
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    job_barrier();
    check_tallies((struct tally *)(void *)(job.base + job.len));
    check_adds();
    uint64_t total = 0;
    for (aq_rank rank = 0; rank < job.size; rank++)
        total += got[rank].count;
    printf("rank %u: %llu messages, order %016llx\n", job.self, (unsigned long long)total,
           (unsigned long long)order);
    aq_atomic_domain_destroy(domain);
    free(sent);
    free(got);
    job_close();
    return 0;
}
