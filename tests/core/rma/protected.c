/*
 * Transfers of protected local memory, by a faulty program or by one that watches its pages by
 * signals. The signal is raised in the calling thread, as by memcpy. A transfer works if a handler
 * makes the pages accessible one by one, and nothing has been started if the handler jumps out of
 * the call.
 *
 * usage: protected WHAT…
 *   calls   each kind of transfer from and to pages that are already protected
 *   own     the same with a segment in the program's own memory
 *   later   pages are protected while the transfer is under way
 *   alone   the same, and rank 0 makes no call for a while; no signal is raised meanwhile
 *   served  the peer's segment is protected
 *   anywhere  from here on signals may be raised in any thread, as with a progress thread
 *   leave   the handler jumps out of the call (not if it has changed memory of a peer)
 *   leave_wait  it jumps out of the wait for a transfer (udp)
 */
#include "../support.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 600000, LATER = 4 << 20, SEGMENT = LATER + 65536, LONG = 100, MEDIUM, ROW = 100 };

static struct {
    unsigned char *from, *to; /* whole pages */
    int rights;               /* those that the handler sets; 0: it jumps out of the call */
    volatile unsigned faults;
    volatile sig_atomic_t others; /* faults of another thread, or elsewhere */
    pid_t thread;
    bool anywhere; /* signals may be raised in any thread */
    sigjmp_buf way_out;
} watch;

static size_t page;
static unsigned char *memory, *copy; /* of this process: LATER bytes with pages around them */
static aq_team *team;                /* of the endpoints that are used */
static unsigned char *there, *here;  /* the segment of the peer, and that of this rank */
static _Atomic uint32_t mediums, longs;
static uint64_t medium_seed, long_seed; /* of the last message */

static void on_fault(int number, siginfo_t *info, void *context)
{
    unsigned char *at = info->si_addr;
    (void)number, (void)context;
    bool expected = at >= watch.from && at < watch.to && gettid() == watch.thread;
    if (!expected && !watch.anywhere) {
        watch.others++;
        (void)signal(SIGSEGV, SIG_DFL);
        return;
    }
    watch.faults++;
    if (watch.rights == 0) siglongjmp(watch.way_out, 1);
    at = (unsigned char *)((uintptr_t)at & ~(uintptr_t)(page - 1));
    /* Another thread may have faulted here, too, and have changed the rights already. */
    int rights = watch.anywhere ? PROT_READ | PROT_WRITE : watch.rights;
    if (mprotect(at, page, rights) != 0) (void)signal(SIGSEGV, SIG_DFL);
}

/* Protect all pages that overlap [at, at + len), except the first `open` of them. */
static void protect(unsigned char *at, size_t len, size_t open, int rights)
{
    uintptr_t from = (uintptr_t)at & ~(uintptr_t)(page - 1);
    uintptr_t to = ((uintptr_t)at + len + page - 1) & ~(uintptr_t)(page - 1);
    watch.from = (unsigned char *)from + open * page;
    watch.to = (unsigned char *)to;
    watch.faults = 0;
    watch.thread = gettid();
    if (watch.from >= watch.to) return;
    CHECK(mprotect(watch.from, (size_t)(watch.to - watch.from), rights) == 0);
}

static unsigned pages(void)
{
    return watch.from < watch.to ? (unsigned)((size_t)(watch.to - watch.from) / page) : 0;
}

/* If several threads may fault at any time, even at the same page, the number can be any. */
static bool faulted(unsigned times)
{
    return watch.anywhere || watch.faults == times;
}

static void unprotect(void)
{
    if (pages() != 0)
        CHECK(mprotect(watch.from, (size_t)(watch.to - watch.from), PROT_READ | PROT_WRITE) == 0);
    CHECK_EQUAL(watch.others, 0);
}

/* --- kinds of transfers ---------------------------------------------------------------------- */

static void on_medium(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, medium_seed));
    mediums++;
}

static void on_long(aq_am *am)
{
    CHECK(am->payload == here && filled(am->payload, am->nbytes, long_seed));
    longs++;
}

static void put(unsigned char *at, size_t len)
{
    CHECK_OK(aq_put(team, job_next(), there, at, len, 0));
}

static void put_nb(unsigned char *at, size_t len)
{
    aq_event event;
    CHECK_OK(aq_put_nb(team, job_next(), there, at, len, 0, &event));
    CHECK(faulted(pages())); /* during the call */
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
}

static void get(unsigned char *at, size_t len)
{
    CHECK_OK(aq_get(team, job_next(), at, there, len, 0));
}

static void get_nbi(unsigned char *at, size_t len)
{
    CHECK_OK(aq_get_nbi(team, job_next(), at, there, len, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
}

static void medium(unsigned char *at, size_t len)
{
    CHECK_OK(aq_am_medium(job.team, job_next(), MEDIUM, at, len, NULL, 0, 0, NULL));
}

static void lng(unsigned char *at, size_t len)
{
    CHECK_OK(aq_am_long(job.team, job_next(), LONG, at, len, there, NULL, 0, 0, NULL));
}

static void long_event(unsigned char *at, size_t len)
{
    aq_event event;
    CHECK_OK(aq_am_long(job.team, job_next(), LONG, at, len, there, NULL, 0, 0, &event));
    CHECK(faulted(pages()));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
}

/* Rows one after the other in memory. */
static void put_rows(unsigned char *at, size_t len)
{
    const ptrdiff_t steps[] = {ROW};
    const size_t count[] = {len / ROW};
    CHECK_OK(aq_put_strided(team, job_next(), there, steps, at, steps, ROW, count, 1, 0));
    size_t done = len / ROW * ROW;
    CHECK_OK(aq_put(team, job_next(), there + done, at + done, len - done, 0));
}

static void get_rows(unsigned char *at, size_t len)
{
    const ptrdiff_t steps[] = {ROW};
    const size_t count[] = {len / ROW};
    CHECK_OK(aq_get_strided(team, job_next(), at, steps, there, steps, ROW, count, 1, 0));
    size_t done = len / ROW * ROW;
    CHECK_OK(aq_get(team, job_next(), at + done, there + done, len - done, 0));
}

static const struct kind {
    const char *name;
    void (*run)(unsigned char *at, size_t len);
    bool get;
    const _Atomic uint32_t *arrivals; /* of a message, at the target */
    bool first;                       /* through the first endpoints only */
} kinds[] = {
    {"put", put, false, NULL, false},
    {"put_nb", put_nb, false, NULL, false},
    {"get", get, true, NULL, false},
    {"get_nbi", get_nbi, true, NULL, false},
    {"medium", medium, false, &mediums, true},
    {"long", lng, false, &longs, true},
    {"long with an event", long_event, false, &longs, true},
    {"put of rows", put_rows, false, NULL, false},
    {"get of rows", get_rows, true, NULL, false},
};

/* --- before the call ------------------------------------------------------------------------- */

/* Both ranks do this at the same time. */
static void call(const struct kind *kind, size_t len, size_t open, int rights)
{
    uint64_t seed = mix(len + open + (uint64_t)(kind - kinds));
    unsigned char *at = memory + page - len % 7;
    uint32_t arrivals = kind->arrivals != NULL ? *kind->arrivals : 0;
    medium_seed = long_seed = seed;
    fill(kind->get ? here : at, len, seed);
    job_barrier();
    protect(at, len, open, rights);
    watch.rights = kind->get ? PROT_READ | PROT_WRITE : PROT_READ;
    kind->run(at, len);
    if (!faulted(pages()))
        check_failed(__FILE__, __LINE__, "%s of %zu bytes: %u faults of %u pages", kind->name, len,
                     watch.faults, pages());
    unprotect();
    if (kind->arrivals != NULL) job_await(kind->arrivals, arrivals + 1);
    job_barrier();
    CHECK(kind->arrivals == &mediums || filled(kind->get ? at : here, len, seed));
    job_barrier();
}

static void calls(void)
{
    static const size_t sizes[] = {1, 200, 257, 512, 5000, 40000, LARGE};
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (size_t s = 0; s < COUNT_OF(sizes); s++) {
            if (kinds[k].first && team != job.team) continue;
            if (kinds[k].arrivals == &mediums && sizes[s] > aq_am_max_medium(job.team)) continue;
            for (size_t open = 0; open < 3; open += 2) {
                call(&kinds[k], sizes[s], open, PROT_NONE);
                if (kinds[k].get) call(&kinds[k], sizes[s], open, PROT_READ);
            }
        }
}

static void broadcast(void)
{
    static const size_t sizes[] = {300, LARGE};
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        bool root = job.self == 0;
        if (root) fill(memory, sizes[s], s);
        protect(root ? memory : copy, sizes[s], 0, PROT_NONE);
        watch.rights = PROT_READ | PROT_WRITE;
        CHECK_OK(aq_coll_broadcast(job.team, 0, root ? memory : copy, memory, sizes[s], 0));
        CHECK(faulted(pages()));
        unprotect();
        CHECK(filled(root ? memory : copy, sizes[s], s));
        job_barrier();
    }
}

static aq_status all_to_all(const unsigned char *from, unsigned char *to, size_t len)
{
    return aq_coll_alltoall(job.team, to, from, len, 0);
}

static aq_status scatter(const unsigned char *from, unsigned char *to, size_t len)
{
    return aq_coll_scatter(job.team, 0, to, from, len, 0);
}

static aq_status all_gather(const unsigned char *from, unsigned char *to, size_t len)
{
    return aq_coll_allgather(job.team, to, from, len, 0);
}

/* A peer, or the kernel on its behalf, may read the source of a collective, but the signal is
 * raised here. */
static void collectives(void)
{
    static aq_status (*const runs[])(const unsigned char *, unsigned char *,
                                     size_t) = {all_to_all, scatter, all_gather};
    static const size_t sizes[] = {300, 5000, LARGE};
    for (size_t i = 0; i < COUNT_OF(runs) * COUNT_OF(sizes) * 2; i++) {
        bool source = i % 2 == 0;
        size_t r = i / 2 % COUNT_OF(runs), len = sizes[i / 2 / COUNT_OF(runs)];
        bool reads = runs[r] != scatter || job.self == 0;
        size_t sent = runs[r] == all_gather ? len : 2 * len;
        size_t got = runs[r] == scatter ? len : 2 * len, at = runs[r] == all_gather ? 0 : len;
        fill(memory, len, i);
        fill(memory + len, len, i + 100);
        memset(copy, 0, got);
        protect(source ? memory : copy, source ? sent : got, 0, PROT_NONE);
        watch.rights = PROT_READ | PROT_WRITE;
        CHECK_OK(runs[r](memory, copy, len));
        CHECK(faulted(source && !reads ? 0 : pages()));
        unprotect();
        CHECK(filled(copy, len, job.self == 0 || at == 0 ? i : i + 100));
        CHECK(got == len || filled(copy + len, len, job.self == 0 || at == 0 ? i : i + 100));
        job_barrier();
    }
}

/* --- after the call -------------------------------------------------------------------------- */

/* Rank 1 makes progress meanwhile, so threads of the library here have something to do. */
static void make_no_call(void)
{
    static const struct timespec while_it_computes = {.tv_nsec = 100000000};
    if (job.self != 0) return;
    nanosleep(&while_it_computes, NULL);
    CHECK(faulted(0));
}

static void protect_later(bool computes)
{
    for (unsigned round = 0; round < 3; round++) {
        aq_event event;
        uint64_t seed = mix(round + 77);
        uint32_t arrivals = longs;
        long_seed = seed;
        fill(round == 1 ? here : memory, LATER, seed);
        job_barrier();
        if (round == 0) CHECK_OK(aq_put_nb(team, job_next(), there, memory, LATER, 0, &event));
        if (round == 1) CHECK_OK(aq_get_nb(team, job_next(), memory, there, LATER, 0, &event));
        if (round == 2)
            CHECK_OK(
                aq_am_long(job.team, job_next(), LONG, memory, LATER, there, NULL, 0, 0, &event));
        protect(memory, LATER, 0, PROT_NONE);
        watch.rights = round == 1 ? PROT_READ | PROT_WRITE : PROT_READ;
        if (computes) make_no_call();
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        CHECK(watch.faults != 0);
        unprotect();
        if (round == 2) job_await(&longs, arrivals + 1);
        job_barrier();
        CHECK(filled(round == 1 ? memory : here, LATER, seed));
        job_barrier();
    }
}

static void later(void)
{
    protect_later(false);
}

static void alone(void)
{
    protect_later(true);
}

/*
 * The segment of rank 1 is protected while rank 1 polls; its handler makes the page readable, then
 * writable.
 */
static void served(void)
{
    for (unsigned round = 0; round < 2; round++) {
        bool is_get = round == 0;
        if (is_get) fill(here, LARGE, job.self);
        if (!is_get) fill(memory, LARGE, job.self + 5);
        if (job.self == 1) protect(here, LARGE, 0, PROT_NONE);
        watch.rights = PROT_READ | PROT_WRITE;
        job_barrier();
        if (job.self == 0 && is_get) get(memory, LARGE);
        if (job.self == 0 && !is_get) put(memory, LARGE);
        job_barrier();
        if (job.self == 1) {
            CHECK(faulted(pages()));
            unprotect();
        }
        if (job.self == 0 && is_get) CHECK(filled(memory, LARGE, 1));
        if (job.self == 1 && !is_get) CHECK(filled(here, LARGE, 5));
        job_barrier();
    }
}

/* --- leaving the call ------------------------------------------------------------------------ */

static void leave(void)
{
    void (*const runs[])(unsigned char *, size_t) = {put, get, lng, medium};
    uint32_t before = mediums + longs;
    for (volatile size_t r = 0; r < COUNT_OF(runs); r++) {
        protect(memory, 512, 0, PROT_NONE);
        watch.rights = 0;
        if (sigsetjmp(watch.way_out, 1) == 0) {
            runs[r](memory, 512);
            check_failed(__FILE__, __LINE__, "the call has returned");
        }
        CHECK_EQUAL(watch.faults, 1);
        unprotect();
        job_barrier(); /* works, so no lock is held */
    }
    CHECK_EQUAL(mediums + longs, before);
    call(&kinds[0], LARGE, 0, PROT_NONE);
}

/* Jump out of the wait for a transfer, which continues. */
static void leave_wait(void)
{
    aq_event event;
    fill(memory, LATER, 9);
    job_barrier();
    CHECK_OK(aq_put_nb(team, job_next(), there, memory, LATER, 0, &event));
    protect(memory, LATER, 0, PROT_NONE);
    watch.rights = 0;
    if (sigsetjmp(watch.way_out, 1) == 0) {
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        check_failed(__FILE__, __LINE__, "the wait has returned");
    }
    unprotect();
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    job_barrier();
    CHECK(filled(here, LATER, 9));
    job_barrier();
}

/* --------------------------------------------------------------------------------------------- */

static void anywhere(void)
{
    watch.anywhere = true;
}

static unsigned char *map(size_t len)
{
    unsigned char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void find(aq_team *of)
{
    aq_segment_info info;
    team = of;
    CHECK_OK(aq_segment_query(team, job_next(), &info));
    there = info.addr;
}

/* A segment that no other process maps. */
static void own(void)
{
    aq_ep *ep;
    aq_segment *segment;
    unsigned char *attached = here;
    here = map(SEGMENT);
    CHECK_OK(aq_ep_create(AQ_EP_RMA, &ep));
    CHECK_OK(aq_segment_create(here, SEGMENT, 0, &segment));
    CHECK_OK(aq_ep_bind(ep, segment));
    CHECK_OK(aq_ep_publish(job.team, &ep, 1, 0));
    find(aq_team_pair(job.ep, aq_ep_index(ep)));
    calls();
    job_barrier();
    find(job.team);
    here = attached;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"anywhere", anywhere},    {"calls", calls},   {"calls", broadcast},
                 {"calls", collectives},    {"own", own},       {"later", later},
                 {"alone", alone},          {"served", served}, {"leave", leave},
                 {"leave_wait", leave_wait}};
    aq_handler_entry table[] = {
        {LONG, 0, AQ_AM_REQUEST | AQ_AM_LONG, on_long, NULL, "long"},
        {MEDIUM, 0, AQ_AM_REQUEST | AQ_AM_MEDIUM, on_medium, NULL, "medium"}};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    page = (size_t)sysconf(_SC_PAGESIZE);
    job_open(AQ_THREAD_SINGLE, SEGMENT);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    job_handlers(table, COUNT_OF(table));
    memory = map(LATER + 4 * page);
    copy = map(LATER + 4 * page);
    here = job.base;
    find(job.team);
    for (int i = 1; i < argc; i++)
        for (size_t p = 0; p < COUNT_OF(parts); p++)
            if (strcmp(argv[i], parts[p].name) == 0) parts[p].run();
    job_close();
    return 0;
}
