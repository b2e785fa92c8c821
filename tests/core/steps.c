/*
 * Counts the instructions of the short paths, and checks that in mode single none of them is
 * locked. Rank 0 makes each call under a stepper; rank 1 acts on commands only between the runs, so
 * that nothing happens at the same time and the counts are reproducible.
 *
 *   core_steps             step, print the table, and fail if anything is locked in mode single
 *   core_steps multiple    the table in mode multiple; locks are allowed
 *   core_steps call NAME   without a stepper, call NAME a thousand times, for callgrind
 */
#include "stepper.h"
#include "support.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SINK = 100, ASK, RUNS = 9, WARM = 4, CALLS = 1000, PAYLOAD = 512 };

/* Commands to rank 1; the words are in the segments, apart from the data. */
enum command { IDLE, POLL, SEND, SEND_ASK, NOTIFY, BROADCAST, ALLREDUCE, QUIT };
enum { DATA = 1024 };

static _Atomic uint32_t *command, *done; /* of rank 1, in its segment; of rank 0, in its own */
static unsigned char payload[PAYLOAD];
static const aq_arg args[4] = {1, 2, 3, 4};
static unsigned char *remote;
static aq_atomic_domain *domain;

static void on_sink(aq_am *am)
{
    (void)am;
}

static void on_ask(aq_am *am)
{
    CHECK_OK(aq_am_reply_short(am, SINK, args, 4, 0));
}

static void tell(enum command what)
{
    uint32_t before = atomic_load(done);
    atomic_store(command, what);
    while (atomic_load(done) == before)
        sched_yield();
}

/* Arrive at a collective before rank 0 does. */
static aq_event arrive(uint32_t what)
{
    static uint64_t in, out;
    aq_event event = AQ_EVENT_DONE;
    if (what == NOTIFY) CHECK_OK(aq_barrier_notify(job.team, 0, AQ_BARRIER_ANONYMOUS));
    if (what == BROADCAST)
        CHECK_OK(aq_coll_broadcast_nb(job.team, 1, &out, &in, sizeof(in), 0, &event));
    if (what == ALLREDUCE)
        CHECK_OK(aq_coll_allreduce_nb(job.team, &out, &in, 1, AQ_TYPE_U64, AQ_OP_ADD, 0, &event));
    return event;
}

static void obey(void)
{
    for (;;) {
        uint32_t what;
        while ((what = atomic_load(command)) == IDLE)
            sched_yield();
        atomic_store(command, IDLE);
        if (what == POLL)
            while (aq_poll() != AQ_OK)
                sched_yield();
        if (what == SEND) CHECK_OK(aq_am_short(job.team, 0, SINK, args, 4, 0));
        if (what == SEND_ASK) CHECK_OK(aq_am_short(job.team, 0, ASK, args, 4, 0));
        aq_event event = arrive(what);
        atomic_fetch_add(done, 1);
        if (what == NOTIFY)
            CHECK_OK(aq_barrier_wait(job.team, 0, AQ_BARRIER_ANONYMOUS, AQ_FOREVER));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        if (what == QUIT) return;
    }
}

/* --- the calls ------------------------------------------------------------------------------- */

static void nothing(void *arg)
{
    (void)arg;
}

static void short_request(void *arg)
{
    (void)arg;
    CHECK_OK(aq_am_short(job.team, 1, SINK, args, 4, 0));
}

static void short_self(void *arg)
{
    (void)arg;
    CHECK_OK(aq_am_short(job.team, 0, SINK, args, 4, 0));
}

static void short_asked(void *arg)
{
    aq_event event;
    (void)arg;
    CHECK_OK(aq_am_short_nb(job.team, 0, SINK, args, 4, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
}

static void short_ask(void *arg)
{
    (void)arg;
    CHECK_OK(aq_am_short(job.team, 1, ASK, args, 4, 0));
}

static void medium_8(void *arg)
{
    (void)arg;
    CHECK_OK(aq_am_medium(job.team, 1, SINK, payload, 8, args, 4, 0, NULL));
}

static void medium_512(void *arg)
{
    (void)arg;
    CHECK_OK(aq_am_medium(job.team, 1, SINK, payload, PAYLOAD, args, 4, 0, NULL));
}

static void long_8(void *arg)
{
    (void)arg;
    CHECK_OK(aq_am_long(job.team, 1, SINK, payload, 8, remote, args, 4, 0, NULL));
}

static void reserve_commit(void *arg)
{
    aq_am_buffer buffer;
    (void)arg;
    CHECK_OK(aq_am_reserve(job.team, 1, AQ_AM_MEDIUM, NULL, 8, 8, 4, 0, &buffer));
    memcpy(buffer.addr, payload, 8);
    CHECK_OK(aq_am_commit(&buffer, SINK, 8, NULL, args, 4, 0));
}

static void poll_busy(void *arg)
{
    (void)arg;
    CHECK_OK(aq_poll());
}

static void poll_empty(void *arg)
{
    (void)arg;
    CHECK_STATUS(aq_poll(), AQ_AGAIN);
}

static void put_8(void *arg)
{
    (void)arg;
    CHECK_OK(aq_put(job.team, 1, remote, payload, 8, 0));
}

static void get_8(void *arg)
{
    (void)arg;
    CHECK_OK(aq_get(job.team, 1, payload, remote, 8, 0));
}

static void put_nb_8(void *arg)
{
    aq_event event;
    (void)arg;
    CHECK_OK(aq_put_nb(job.team, 1, remote, payload, 8, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
}

static void put_nbi_8(void *arg)
{
    (void)arg;
    CHECK_OK(aq_put_nbi(job.team, 1, remote, payload, 8, 0));
}

static void nbi_wait(void *arg)
{
    (void)arg;
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
}

static void put_value(void *arg)
{
    (void)arg;
    CHECK_OK(aq_put_value(job.team, 1, remote, 77, 8, 0));
}

static void get_value(void *arg)
{
    uint64_t value;
    (void)arg;
    CHECK_OK(aq_get_value(job.team, 1, remote, 8, 0, &value));
}

static void put_nb_64(void *arg)
{
    aq_event event;
    (void)arg;
    CHECK_OK(aq_put_nb(job.team, 1, remote, payload, 64, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
}

/* Scattered transfers of a single piece. */
static void put_indexed_8(void *arg)
{
    void *there = remote, *here = payload;
    (void)arg;
    CHECK_OK(aq_put_indexed(job.team, 1, 1, &there, 8, 1, &here, 8, 0));
}

static void get_vector_8(void *arg)
{
    const aq_vec there = {remote, 8}, here = {payload, 8};
    (void)arg;
    CHECK_OK(aq_get_vector(job.team, 1, 1, &here, 1, &there, 0));
}

static void put_strided_8(void *arg)
{
    const size_t count = 1;
    const ptrdiff_t stride = 8;
    (void)arg;
    CHECK_OK(aq_put_strided(job.team, 1, remote, &stride, payload, &stride, 8, &count, 1, 0));
}

static void event_test(void *arg)
{
    aq_event event = AQ_EVENT_DONE;
    (void)arg;
    CHECK_OK(aq_event_test(&event));
}

static void event_wait(void *arg)
{
    aq_event event = AQ_EVENT_DONE;
    (void)arg;
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
}

static void fetch_add(void *arg)
{
    uint64_t one = 1, old;
    (void)arg;
    CHECK_OK(aq_atomic(domain, 1, remote, AQ_OP_ADD, &one, NULL, &old, 0));
}

static void barrier(void *arg)
{
    (void)arg;
    CHECK_OK(aq_barrier(job.team));
}

static void broadcast_8(void *arg)
{
    uint64_t value;
    (void)arg;
    CHECK_OK(aq_coll_broadcast(job.team, 1, &value, NULL, sizeof(value), 0));
}

static void allreduce_8(void *arg)
{
    uint64_t one = 1, sum;
    (void)arg;
    CHECK_OK(aq_coll_allreduce(job.team, &sum, &one, 1, AQ_TYPE_U64, AQ_OP_ADD, 0));
}

/*
 * The calls, with the commands that rank 1 gets before and after each run, outside the stepper;
 * `locks`: the call needs locked instructions.
 */
static const struct scenario {
    const char *name;
    void (*run)(void *arg);
    enum command before, after;
    bool ask, locks;
    const char *what;
} scenarios[] = {
    {"short-request", short_request, IDLE, POLL, false, false, "aq_am_short, 4 arguments"},
    {"short-self", short_self, IDLE, IDLE, false, false,
     "the same to the rank itself, with its handler"},
    {"short-asked", short_asked, IDLE, IDLE, false, false, "likewise, by aq_am_short_nb"},
    {"medium-8", medium_8, IDLE, POLL, false, false, "aq_am_medium, 8 B, in the slot"},
    {"medium-512", medium_512, IDLE, POLL, false, false, "aq_am_medium, 512 B"},
    {"long-8", long_8, IDLE, POLL, false, false, "aq_am_long, 8 B"},
    {"reserve-commit", reserve_commit, IDLE, POLL, false, false, "the same 8 B, in two calls"},
    {"dispatch", poll_busy, SEND, IDLE, false, false, "aq_poll that runs an empty handler"},
    {"dispatch-reply", poll_busy, SEND_ASK, POLL, false, false, "the same; the handler replies"},
    {"reply-dispatch", poll_busy, POLL, IDLE, true, false, "aq_poll that runs a reply's handler"},
    {"poll-empty", poll_empty, IDLE, IDLE, false, false, "aq_poll, nothing there"},
    {"put-8", put_8, IDLE, IDLE, false, false, "aq_put of 8 B"},
    {"get-8", get_8, IDLE, IDLE, false, false, "aq_get of 8 B"},
    {"put-value", put_value, IDLE, IDLE, false, false, "aq_put_value of 8 B"},
    {"get-value", get_value, IDLE, IDLE, false, false, "aq_get_value of 8 B"},
    {"put-nb-8", put_nb_8, IDLE, IDLE, false, false, "aq_put_nb of 8 B and aq_event_wait"},
    {"put-nbi-8", put_nbi_8, IDLE, IDLE, false, false, "aq_put_nbi of 8 B"},
    {"put-nb-64", put_nb_64, IDLE, IDLE, false, false, "the same with 64 B"},
    {"put-indexed-8", put_indexed_8, IDLE, IDLE, false, false, "aq_put_indexed, one piece of 8 B"},
    {"get-vector-8", get_vector_8, IDLE, IDLE, false, false, "aq_get_vector, likewise"},
    {"put-strided-8", put_strided_8, IDLE, IDLE, false, false, "aq_put_strided, likewise"},
    {"nbi-wait", nbi_wait, IDLE, IDLE, false, false, "aq_nbi_wait, nothing outstanding"},
    {"event-test", event_test, IDLE, IDLE, false, false, "aq_event_test, done"},
    {"event-wait", event_wait, IDLE, IDLE, false, false, "aq_event_wait, done"},
    {"fetch-add", fetch_add, IDLE, IDLE, false, true, "aq_atomic, fetch-and-add of 8 B"},
    /* These calls fence before they look for sleepers. */
    {"barrier", barrier, NOTIFY, IDLE, false, true, "aq_barrier, the other has arrived"},
    {"broadcast-8", broadcast_8, BROADCAST, IDLE, false, true,
     "aq_coll_broadcast of 8 B, likewise"},
    {"allreduce-8", allreduce_8, ALLREDUCE, IDLE, false, true, "aq_coll_allreduce, 8 B, likewise"},
};

static struct stepped once(const struct scenario *s)
{
    if (s->ask) short_ask(NULL);
    if (s->before != IDLE) tell(s->before);
    struct stepped stepped = stepper_run(s->run, NULL);
    if (s->after != IDLE) tell(s->after);
    return stepped;
}

/* --- the table ------------------------------------------------------------------------------- */

static int by_count(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Measure all runs except the first ones, which set up per-thread state. */
static bool measure(const struct scenario *s, uint32_t bare, bool single)
{
    uint32_t counts[RUNS], locked = 0, syscalls = 0;
    struct stepped culprit = {0};
    for (unsigned i = 0; i < WARM; i++)
        (void)once(s);
    for (unsigned i = 0; i < RUNS; i++) {
        struct stepped stepped = once(s);
        counts[i] = stepped.instructions - bare;
        if (stepped.locked > locked) culprit = stepped;
        if (stepped.locked > locked) locked = stepped.locked;
        if (stepped.syscalls > syscalls) syscalls = stepped.syscalls;
    }
    qsort(counts, RUNS, sizeof(counts[0]), by_count);
    printf("%-15s %6u %6u %6u %7u %9u  %s\n", s->name, counts[RUNS / 2], counts[0],
           counts[RUNS - 1], locked, syscalls, s->what);
    CHECK(counts[0] > 0);
    /* According to the words to watch nothing has arrived, so no transport is called to find
     * out. */
    static uint32_t busy;
    if (s->run == poll_busy && busy == 0) busy = counts[RUNS / 2];
    if (s->run == poll_empty) CHECK(counts[RUNS / 2] < busy / 2);
    if (s->locks) return locked > 0; /* the stepper must find them where they occur */
    if (!single || (locked == 0 && syscalls == 0)) return true;
    if (locked > 0) {
        fprintf(stderr, "%s: a locked instruction at %#llx (stepper_run is at %p):", s->name,
                (unsigned long long)culprit.at, (void *)(uintptr_t)stepper_run);
        for (size_t i = 0; i < sizeof(culprit.bytes); i++)
            fprintf(stderr, " %02x", culprit.bytes[i]);
        fprintf(stderr, "\n");
    }
    if (syscalls > 0) fprintf(stderr, "%s: %u system calls\n", s->name, syscalls);
    return false;
}

static bool measure_all(bool single)
{
    bool good = true;
    uint32_t bare = stepper_run(nothing, NULL).instructions;
    printf("%-15s %6s %6s %6s %7s %9s  (instructions: median, least, most)\n", "call", "median",
           "least", "most", "locked", "syscalls");
    for (size_t i = 0; i < COUNT_OF(scenarios); i++)
        good = measure(&scenarios[i], bare, single) && good;
    return good;
}

static void call(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(scenarios); i++) {
        if (strcmp(name, scenarios[i].name) != 0) continue;
        for (unsigned n = 0; n < CALLS; n++)
            (void)once(&scenarios[i]);
        return;
    }
    check_failed(__FILE__, __LINE__, "no call is named %s", name);
}

/* The decoder, with the machine code of the instructions in question. */
static void test_decoder(void)
{
    static const struct {
        enum stepper_kind kind;
        uint8_t bytes[16];
    } cases[] = {
        {STEPPER_LOCKED, {0xf0, 0x48, 0x0f, 0xc1, 0x07}},      /* lock xadd %rax,(%rdi) */
        {STEPPER_LOCKED, {0xf0, 0x0f, 0xb1, 0x17}},            /* lock cmpxchg %edx,(%rdi) */
        {STEPPER_LOCKED, {0x66, 0xf0, 0x0f, 0xb1, 0x17}},      /* lock cmpxchg %dx,(%rdi) */
        {STEPPER_LOCKED, {0x64, 0xf0, 0x83, 0x04, 0x25}},      /* lock addl $…,%fs:… */
        {STEPPER_LOCKED, {0x87, 0x07}},                        /* xchg %eax,(%rdi) */
        {STEPPER_LOCKED, {0x41, 0x86, 0x45, 0x00}},            /* xchg %al,0(%r13) */
        {STEPPER_LOCKED, {0x0f, 0xae, 0xf0}},                  /* mfence */
        {STEPPER_PLAIN, {0x0f, 0xae, 0xe8}},                   /* lfence */
        {STEPPER_PLAIN, {0x48, 0x87, 0xd8}},                   /* xchg %rbx,%rax */
        {STEPPER_PLAIN, {0xf3, 0x90}},                         /* pause */
        {STEPPER_PLAIN, {0xf3, 0x0f, 0x1e, 0xfa}},             /* endbr64 */
        {STEPPER_PLAIN, {0x66, 0x90}},                         /* xchg %ax,%ax */
        {STEPPER_PLAIN, {0x48, 0x8b, 0x05, 0xf0, 0xf0, 0xf0}}, /* mov …(%rip),%rax */
        {STEPPER_SYSCALL, {0x0f, 0x05}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK_EQUAL(stepper_decode(cases[i].bytes), cases[i].kind);
}

static bool fences_needed(void)
{
    return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0u, 0) != 0;
}

int main(int argc, char **argv)
{
    bool calling = argc > 2 && strcmp(argv[1], "call") == 0;
    bool single = argc < 2 || calling;
    aq_handler_entry table[] = {{SINK, 4, AQ_AM_REQUEST | AQ_AM_REPLY, on_sink, NULL, "sink"},
                                {ASK, 4, AQ_AM_REQUEST, on_ask, NULL, "ask"}};
    test_decoder();
    const char *why = calling ? NULL : stepper_open();
    if (why == NULL && fences_needed()) why = "no membarrier: every send has to fence";
    if (why != NULL) {
        printf("skipped: %s\n", why);
        return 77;
    }
    job_open(single ? AQ_THREAD_SINGLE : AQ_THREAD_MULTIPLE, DATA + 4096);
    CHECK_EQUAL(job.size, 2);
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U64, AQ_OP_BIT(AQ_OP_ADD), 0, &domain));
    job_handlers(table, COUNT_OF(table));
    aq_segment_info info[2];
    for (aq_rank rank = 0; rank < 2; rank++)
        CHECK_OK(aq_segment_query(job.team, rank, &info[rank]));
    done = (_Atomic uint32_t *)info[0].local;
    command = (_Atomic uint32_t *)info[1].local;
    CHECK(done != NULL && command != NULL);
    remote = (unsigned char *)info[1].addr + DATA;
    job_barrier();
    bool good = true;
    if (job.self == 1) {
        obey();
    } else {
        /*
         * After this message rank 1 is among the ranks that are polled, and the barrier is
         * complete.
         */
        tell(SEND);
        while (aq_poll() == AQ_OK)
            ;
        if (calling)
            call(argv[2]);
        else
            good = measure_all(single);
        tell(QUIT);
    }
    CHECK(good);
    aq_atomic_domain_destroy(domain);
    job_close();
    return 0;
}
