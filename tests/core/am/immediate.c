/*
 * AQ_IMMEDIATE: a call that finds no room returns AQ_AGAIN and has no effect. Tested with requests
 * to a suspended rank, whose ring stays full; one-sided operations on the rank itself; and replies,
 * where AQ_FAULT=again=… refuses many: after a refused reply any other form can still be sent.
 */
#include "../support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNTED = 100, QUESTION, ANSWER, QUESTIONS = 500, BYTES = 200, AT = 64, TARGET = 4096 };

static _Atomic uint32_t counted, answers;
static _Atomic uint32_t refused_replies;

static void on_counted(aq_am *am)
{
    (void)am;
    counted++;
}

/* --- requests to a suspended rank ---------------------------------------------------------- */

static pid_t peer_pid; /* the suspended process; 0: it runs again */

static void wake_peer(void)
{
    if (peer_pid != 0) CHECK(kill(peer_pid, SIGUSR1) == 0);
    peer_pid = 0;
}

/* Even ranks act while the next rank is suspended; then the result of `act` is passed to the next
 * rank. */
static void in_turn(uint32_t (*act)(aq_rank peer, unsigned turn), unsigned turn)
{
    static const struct timespec now = {0};
    uint64_t sent = 0, pid;
    sigset_t usr1;
    int signal;
    aq_rank other = job.self ^ 1u;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &usr1, NULL) == 0);
    counted = 0;
    memset(job.base + TARGET, 0x5a, aq_am_max_medium(job.team));
    if (other < job.size)
        CHECK_OK(aq_put_value(job.team, other, job_at(other, AT), (uint64_t)getpid(), 8, 0));
    job_barrier();
    memcpy(&pid, job.base + AT, sizeof(pid));
    if (job.self % 2 == 1) {
        CHECK(kill((pid_t)pid, SIGUSR1) == 0); /* let it leave the barrier */
        CHECK(sigwait(&usr1, &signal) == 0);
    } else if (other < job.size) {
        while (sigtimedwait(&usr1, NULL, &now) != SIGUSR1)
            CHECK(aq_poll() >= AQ_OK);
        peer_pid = (pid_t)pid;
        sent = act(other, turn);
        wake_peer();
        CHECK_OK(aq_put_value(job.team, other, job_at(other, AT), sent, 8, 0));
    }
    job_barrier();
    if (job.self % 2 == 1) {
        memcpy(&sent, job.base + AT, sizeof(sent));
        job_await(&counted, (uint32_t)sent);
    }
    job_barrier();
    CHECK_EQUAL(counted, job.self % 2 == 1 ? sent : 0);
}

static void fill_up(aq_rank rank, uint32_t *sent)
{
    aq_status status;
    while ((status = aq_am_short(job.team, rank, COUNTED, AQ_NO_ARGS, AQ_IMMEDIATE)) == AQ_OK) {
        ++*sent;
        CHECK(*sent < 1000000);
    }
    CHECK_STATUS(status, AQ_AGAIN);
}

/* Add what has been counted as sent since `from`, which was read by the same means. */
static void count_sent(uint64_t from[2], uint64_t messages, uint64_t bytes)
{
    uint64_t now[2] = {job_counter("am_sent"), job_counter("am_bytes")};
    CHECK_EQUAL(now[0] - from[0], messages);
    CHECK_EQUAL(now[1] - from[1], bytes);
}

/*
 * Every form of request when there is no room. Some are sent nevertheless where faults refuse at
 * random, where a progress thread may make room at any time, and over a network, where Longs have
 * room of their own.
 */
static uint32_t act_requests(aq_rank peer, unsigned turn)
{
    enum { TIMES = 100 };
    const char *fault = getenv("AQ_FAULT");
    const char *route;
    CHECK_OK(aq_info_route(job.team, peer, &route));
    bool random = (fault != NULL && strstr(fault, "again") != NULL) || aq_job_progress_thread() ||
                  strcmp(route, "udp") == 0;
    size_t max = aq_am_max_medium(job.team), longs = 0;
    unsigned char *buffer = calloc(1, max);
    aq_event events[TIMES];
    aq_segment_info info;
    uint32_t sent = 0, mediums = 0;
    uint64_t counted_before[2] = {job_counter("am_sent"), job_counter("am_bytes")};
    (void)turn;
    CHECK(buffer != NULL);
    CHECK_OK(aq_segment_query(job.team, peer, &info));
    const unsigned char *target = info.local;
    fill_up(peer, &sent);
    for (int i = 0; i < TIMES; i++) {
        aq_event none = (aq_event)&sent, event = none;
        aq_am_buffer reserved;
        aq_status status =
            aq_am_medium(job.team, peer, COUNTED, buffer, 100, AQ_NO_ARGS, AQ_IMMEDIATE, &event);
        CHECK(status == AQ_AGAIN || (random && status == AQ_OK));
        if (status == AQ_AGAIN) CHECK(event == none);
        sent += status == AQ_OK;
        mediums += status == AQ_OK;
        event = none;
        status = aq_am_long(job.team, peer, COUNTED, buffer, max, job_at(peer, TARGET), AQ_NO_ARGS,
                            AQ_IMMEDIATE, &event);
        CHECK(status == AQ_AGAIN || (random && status == AQ_OK));
        if (status == AQ_AGAIN) {
            CHECK(event == none);
            CHECK(longs != 0 || target == NULL || all_bytes(target + TARGET, max, 0x5a));
        } else {
            events[longs++] = event;
            sent++;
        }
        status =
            aq_am_reserve(job.team, peer, AQ_AM_MEDIUM, NULL, 0, max, 0, AQ_IMMEDIATE, &reserved);
        CHECK(status == AQ_OK || status == AQ_AGAIN);
        if (status == AQ_OK) aq_am_cancel(&reserved);
    }
    count_sent(counted_before, sent, mediums * 100 + longs * max);
    wake_peer();
    CHECK_OK(aq_event_wait_all(events, longs, AQ_FOREVER));
    free(buffer);
    return sent;
}

/* Prepared requests that need room at commit, or have reserved it before. Each is sent at once,
 * canceled, or waits for room. */
static uint32_t act_commits(aq_rank peer, unsigned turn)
{
    uint32_t sent = 0;
    aq_am_buffer reserved;
    bool is_long = turn % 2 == 0, give_up = turn / 2 % 2 == 0;
    if (turn / 4 % 2 == 0) fill_up(peer, &sent);
    aq_status status = aq_am_reserve(job.team, peer, is_long ? AQ_AM_LONG : AQ_AM_MEDIUM, NULL, 8,
                                     64, 0, AQ_IMMEDIATE, &reserved);
    CHECK(status == AQ_OK || (status == AQ_AGAIN && !is_long));
    if (status == AQ_AGAIN) return sent;
    memset(reserved.addr, 0x5a, 8);
    if (is_long) fill_up(peer, &sent); /* its room is reserved at commit */
    status = aq_am_commit(&reserved, COUNTED, 8, job_at(peer, TARGET), AQ_NO_ARGS, AQ_IMMEDIATE);
    CHECK(status == AQ_OK || status == AQ_AGAIN);
    if (status == AQ_OK) return sent + 1;
    if (give_up) {
        aq_am_cancel(&reserved);
        return sent;
    }
    wake_peer();
    CHECK_OK(aq_am_commit(&reserved, COUNTED, 8, job_at(peer, TARGET), AQ_NO_ARGS, 0));
    return sent + 1;
}

/* --- one-sided operations ----------------------------------------------------------------- */

/* Start operations until there is no room, where messages carry them. */
static void fill_up_own(void)
{
    static const uint32_t nothing = 0;
    for (int i = 0; i < 1000; i++)
        if (aq_put_nbi(job.team, job.self, job.base + TARGET, &nothing, 4, AQ_IMMEDIATE) != AQ_OK)
            return;
}

static uint64_t operations_counted(void)
{
    return job_counter("put") + job_counter("get") + job_counter("atomic");
}

/*
 * The blocking one-sided calls: if they are carried by messages and there is no room, they fail
 * without effect; otherwise they are complete on return.
 */
static void test_one_sided(void)
{
    enum { FORMS = 6 };
    const char *fault = getenv("AQ_FAULT");
    bool carried = fault != NULL && strstr(fault, "put+get+atomic") != NULL;
    unsigned char *target = job.base + AT, *at = (unsigned char *)(uintptr_t)AT;
    uint32_t refused = 0, one = 0x01010101;
    aq_atomic_domain *domain;
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U32, AQ_OPS_ALL, 0, &domain));
    for (unsigned i = 0; i < 20 * FORMS; i++) {
        const unsigned flags = AQ_IMMEDIATE | AQ_REMOTE_OFFSET;
        unsigned char got[4] = {9, 9, 9, 9};
        aq_status status = AQ_AGAIN;
        memset(target, 0, sizeof(got));
        fill_up_own();
        uint64_t operations = operations_counted();
        if (i % FORMS == 0) status = aq_put(job.team, job.self, at, &one, 4, flags);
        if (i % FORMS == 1) status = aq_put_value(job.team, job.self, at, one, 4, flags);
        if (i % FORMS == 2) status = aq_memset(job.team, job.self, at, 1, 4, flags);
        if (i % FORMS == 3)
            status = aq_atomic(domain, job.self, at, AQ_OP_ADD, &one, NULL, NULL, flags);
        if (i % FORMS == 4)
            status = aq_put_vector(job.team, job.self, 1, &(aq_vec){at, 4}, 1, &(aq_vec){&one, 4},
                                   flags);
        if (i % FORMS == 5) status = aq_get(job.team, job.self, got, at, 4, flags);
        CHECK(status == AQ_OK || status == AQ_AGAIN);
        CHECK_EQUAL(operations_counted() - operations, status == AQ_OK);
        if (i % FORMS == 5)
            CHECK(all_bytes(got, 4, status == AQ_OK ? 0 : 9));
        else
            CHECK(all_bytes(target, 4, status == AQ_OK ? 1 : 0));
        refused += status == AQ_AGAIN;
    }
    if (carried && !aq_job_progress_thread()) CHECK(refused > 0);
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    aq_atomic_domain_destroy(domain);
    job_barrier();
}

/* --- replies ------------------------------------------------------------------------------ */

static aq_status reply_now(aq_am *am, unsigned form, const void *payload)
{
    aq_am_buffer reserved;
    void *at = job_at(am->source, (size_t)job.self * 4096);
    aq_status status;
    switch (form % 4) {
    case 0:
        return aq_am_reply_short(am, ANSWER, am->args, 1, AQ_IMMEDIATE);
    case 1:
        return aq_am_reply_medium(am, ANSWER, payload, BYTES, am->args, 1, AQ_IMMEDIATE);
    case 2:
        return aq_am_reply_long(am, ANSWER, payload, BYTES, at, am->args, 1, AQ_IMMEDIATE);
    default:
        status =
            aq_am_reserve_reply(am, AQ_AM_MEDIUM, NULL, BYTES, BYTES, 1, AQ_IMMEDIATE, &reserved);
        if (status != AQ_OK) return status;
        /* A reserved reply may be canceled, after which the request can be replied to again. */
        if (form % 8 == 3) {
            aq_am_cancel(&reserved);
            return AQ_AGAIN;
        }
        memcpy(reserved.addr, payload, BYTES);
        status = aq_am_commit(&reserved, ANSWER, BYTES, NULL, am->args, 1, AQ_IMMEDIATE);
        if (status == AQ_AGAIN) aq_am_cancel(&reserved);
        return status;
    }
}

static void on_question(aq_am *am)
{
    unsigned char payload[BYTES];
    unsigned form = (unsigned)am->args[0];
    aq_status status;
    fill(payload, BYTES, (uint64_t)am->args[0]);
    while ((status = reply_now(am, form, payload)) == AQ_AGAIN) {
        refused_replies++;
        if (++form < 200 + (unsigned)am->args[0]) continue;
        status = aq_am_reply_medium(am, ANSWER, payload, BYTES, am->args, 1, 0);
        break;
    }
    CHECK_STATUS(status, AQ_OK);
    CHECK_STATUS(aq_am_reply_short(am, ANSWER, am->args, 1, 0), AQ_ECONTEXT);
}

static void on_answer(aq_am *am)
{
    if (am->nbytes != 0) CHECK(filled(am->payload, BYTES, (uint64_t)am->args[0]));
    answers++;
}

static void test_replies(void)
{
    for (uint32_t i = 0; i < QUESTIONS; i++) {
        CHECK_OK(aq_am_short(job.team, job_next(), QUESTION, AQ_ARGS((aq_arg)i), 0));
        /* All Longs go to the same place, so they are sent one at a time. */
        job_await(&answers, i + 1);
    }
    job_barrier();
    CHECK_EQUAL(answers, QUESTIONS);
    CHECK(refused_replies > 0);
}

int main(void)
{
    aq_handler_entry table[] = {
        {COUNTED, 0, AQ_AM_REQUEST, on_counted, NULL, "counted"},
        {QUESTION, 1, AQ_AM_REQUEST, on_question, NULL, "question"},
        {ANSWER, 1, AQ_AM_REPLY, on_answer, NULL, "answer"},
    };
    job_open(AQ_THREAD_SINGLE, 1 << 20);
    job_handlers(table, COUNT_OF(table));
    in_turn(act_requests, 0);
    for (unsigned turn = 0; turn < 40; turn++)
        in_turn(act_commits, turn);
    test_one_sided();
    test_replies();
    job_close();
    return 0;
}
