/* Poll sets: what fi_poll reports, and what is refused. Empty polls let other processes run. */
#include "fi/pair.h"

#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local unsigned yields;
static _Thread_local bool pretend;         /* to yield: the core is back after ... */
static _Thread_local uint64_t pretend_for; /* ... this time in ns */

/*
 * Instead of the C library's, in the provider, too, and in all tests of this program: threads of
 * the library yield as well.
 */
int sched_yield(void)
{
    yields++;
    if (!pretend) return (int)syscall(SYS_sched_yield);
    for (uint64_t until = pair_now() + pretend_for; pretend_for != 0 && pair_now() < until;)
        ;
    return 0;
}

static char rx_context, tx_context, cntr_context;

static struct fid_poll *open_set(struct side *side)
{
    struct fi_poll_attr attr = {.flags = 0};
    struct fid_poll *set;
    CHECK_EQUAL(fi_poll_open(side->domain, &attr, &set), 0);
    return set;
}

static struct fid_cntr *open_cntr(struct side *side)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fid_cntr *cntr;
    CHECK_EQUAL(fi_cntr_open(side->domain, &attr, &cntr, &cntr_context), 0);
    return cntr;
}

/* The set reports this object, and nothing else. */
static void reports(struct fid_poll *set, const void *context)
{
    void *got[4];
    CHECK_EQUAL(fi_poll(set, got, 4), 1);
    CHECK(got[0] == context);
}

static void reports_nothing(struct fid_poll *set)
{
    void *got[4];
    CHECK_EQUAL(fi_poll(set, got, 4), 0);
}

static void peek_in_vain(struct pair *pair)
{
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC};
    PAIR_CALL(pair, fi_trecvmsg(pair->b.in, &msg, FI_PEEK));
}

/* fi_poll makes progress, and reports a queue as long as it is not empty. */
static void queues(struct pair *pair, struct fid_poll *set)
{
    int value = 7, got = 0;
    void *context;
    reports_nothing(set);
    PAIR_CALL(pair, fi_recv(pair->b.in, &got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(pair, fi_inject(pair->a.ep, &value, sizeof(value), pair->a.other));
    uint64_t until = pair_now() + UINT64_C(30000000000);
    while (fi_poll(set, &context, 1) == 0)
        CHECK(pair_now() < until);
    CHECK(context == &rx_context);
    CHECK_EQUAL(got, value);
    reports(set, &rx_context);
    (void)pair_next(pair, pair->b.rx, NULL);
    reports_nothing(set);
    peek_in_vain(pair);
    reports(set, &rx_context);
    CHECK_EQUAL(pair_error(pair, pair->b.rx).err, FI_ENOMSG);
    reports_nothing(set);
}

/* A counter is reported once for each change since the last call. */
static void counters(struct pair *pair, struct fid_poll *set)
{
    struct fid_cntr *cntr = open_cntr(&pair->b);
    CHECK_EQUAL(fi_cntr_add(cntr, 1), 0); /* a change before it is added counts, too */
    CHECK_EQUAL(fi_poll_add(set, &cntr->fid, 0), 0);
    reports(set, &cntr_context);
    reports_nothing(set);
    CHECK_EQUAL(fi_cntr_add(cntr, 1), 0);
    CHECK_EQUAL(fi_cntr_adderr(cntr, 1), 0);
    reports(set, &cntr_context);
    reports_nothing(set);
    CHECK_EQUAL(fi_cntr_seterr(cntr, 0), 0);
    reports(set, &cntr_context);
    CHECK_EQUAL(fi_close(&cntr->fid), -FI_EBUSY);
    CHECK_EQUAL(fi_poll_del(set, &cntr->fid, 0), 0);
    CHECK_EQUAL(fi_cntr_add(cntr, 1), 0);
    reports_nothing(set);
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
}

/* If there is no room for all objects, they are reported in turn. */
static void little_room(struct pair *pair, struct fid_poll *set)
{
    struct fid_cntr *cntr = open_cntr(&pair->b);
    void *first, *second;
    CHECK_EQUAL(fi_poll_add(set, &cntr->fid, 0), 0);
    for (unsigned i = 0; i < 5; i++) {
        peek_in_vain(pair);
        CHECK_EQUAL(fi_cntr_add(cntr, 1), 0);
        CHECK_EQUAL(fi_poll(set, NULL, 0), 0);
        CHECK_EQUAL(fi_poll(set, &first, 1), 1);
        CHECK_EQUAL(fi_poll(set, &second, 1), 1);
        CHECK(first == &rx_context ? second == &cntr_context
                                   : first == &cntr_context && second == &rx_context);
        (void)pair_error(pair, pair->b.rx);
    }
    CHECK_EQUAL(fi_poll_del(set, &cntr->fid, 0), 0);
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
}

static void refusals(struct pair *pair, struct fid_poll *set)
{
    struct fi_poll_attr attr = {.flags = 1};
    struct fid_poll *other;
    void *context;
    CHECK_EQUAL(fi_poll_open(pair->b.domain, NULL, &other), -FI_EINVAL);
    CHECK_EQUAL(fi_poll_open(pair->b.domain, &attr, &other), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_poll_add(set, NULL, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_poll_del(set, NULL, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_poll_add(set, &pair->b.ep->fid, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_poll_add(set, &pair->a.rx->fid, 0), -FI_EINVAL); /* of another domain */
    CHECK_EQUAL(fi_poll_add(set, &pair->a.reads->fid, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_poll_add(set, &pair->b.reads->fid, 1), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_poll_del(set, &pair->b.reads->fid, 1), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_poll_del(set, &pair->b.reads->fid, 0), -FI_ENOENT);
    CHECK_EQUAL(fi_poll_add(set, &pair->b.rx->fid, 0), -FI_EALREADY);
    CHECK_EQUAL(fi_poll(set, &context, -1), -FI_EINVAL);
    CHECK_EQUAL(fi_poll(set, NULL, 1), -FI_EINVAL);
    CHECK_EQUAL(fi_control(&set->fid, FI_GETWAIT, &context), -FI_ENOSYS);
}

/* One object in two sets, each with its own view of a counter; a set keeps its domain open. */
static void two_sets(struct pair *pair)
{
    struct fid_poll *sets[] = {open_set(&pair->b), open_set(&pair->b)};
    struct fid_cntr *cntr = open_cntr(&pair->b);
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQUAL(fi_poll_add(sets[i], &cntr->fid, 0), 0);
    CHECK_EQUAL(fi_cntr_add(cntr, 1), 0);
    reports(sets[0], &cntr_context);
    reports(sets[1], &cntr_context);
    CHECK_EQUAL(fi_poll_del(sets[0], &cntr->fid, 0), 0);
    CHECK_EQUAL(fi_close(&sets[0]->fid), 0);
    CHECK_EQUAL(fi_close(&cntr->fid), -FI_EBUSY);
    CHECK_EQUAL(fi_close(&sets[1]->fid), 0); /* which removes it */
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
}

static void keeps_its_domain(void)
{
    struct pair_wish wish = {0};
    struct side side = {0};
    CHECK_EQUAL(pair_find(&wish, &side.info), 0);
    CHECK_EQUAL(fi_prov_ini()->fabric(side.info->fabric_attr, &side.fabric, NULL), 0);
    CHECK_EQUAL(fi_domain(side.fabric, side.info, &side.domain, NULL), 0);
    struct fid_poll *set = open_set(&side);
    CHECK_EQUAL(fi_close(&side.domain->fid), -FI_EBUSY);
    CHECK_EQUAL(fi_close(&set->fid), 0);
    CHECK_EQUAL(fi_close(&side.domain->fid), 0);
    CHECK_EQUAL(fi_close(&side.fabric->fid), 0);
    fi_freeinfo(side.info);
}

static unsigned yields_of_reads(struct fid_cq *cq, unsigned reads, uint64_t away_ns)
{
    struct fi_cq_tagged_entry entry;
    pretend = true;
    pretend_for = away_ns;
    yields = 0;
    while (reads-- > 0)
        CHECK_EQUAL(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
    pretend = false;
    return yields;
}

static void arrive(struct pair *pair)
{
    int value = 7, got = 0;
    PAIR_CALL(pair, fi_recv(pair->b.in, &got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(pair, fi_inject(pair->a.ep, &value, sizeof(value), pair->a.other));
    (void)pair_next(pair, pair->b.rx, NULL);
}

/*
 * A program that waits by reading its queue would otherwise keep other ranks from running if there
 * are more of them than cores: Open MPI does not yield itself with a provider. It yields soon after
 * an arrival only if others have used the core for a short time.
 */
static void waits_yield(struct pair *pair)
{
    static const uint64_t shared = 20000;
    (void)yields_of_reads(pair->b.rx, 600, 0);
    CHECK(yields_of_reads(pair->b.rx, 1024, 0) >= 1024 / 16);
    arrive(pair);
    CHECK(yields_of_reads(pair->b.rx, 500, 0) < 500 / 32);
    (void)yields_of_reads(pair->b.rx, 1024, shared);
    arrive(pair);
    CHECK(yields_of_reads(pair->b.rx, 500, shared) > 500 / 32);
}

int main(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    keeps_its_domain();
    pair_open(&pair, &wish);
    pair.b.rx->fid.context = &rx_context;
    pair.b.tx->fid.context = &tx_context;
    struct fid_poll *set = open_set(&pair.b);
    reports_nothing(set);
    CHECK_EQUAL(fi_poll_add(set, &pair.b.tx->fid, 0), 0);
    CHECK_EQUAL(fi_poll_add(set, &pair.b.rx->fid, 0), 0);
    queues(&pair, set);
    counters(&pair, set);
    little_room(&pair, set);
    refusals(&pair, set);
    two_sets(&pair);
    waits_yield(&pair);
    CHECK_EQUAL(fi_poll_del(set, &pair.b.tx->fid, 0), 0);
    reports_nothing(set);
    CHECK_EQUAL(fi_poll_del(set, &pair.b.rx->fid, 0), 0);
    CHECK_EQUAL(fi_close(&set->fid), 0);
    pair_close(&pair);
    puts("ok");
    return 0;
}
