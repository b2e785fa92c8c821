/*
 * A job that continues when processes die: `survivor VICTIMS HOW [apart]`. The last VICTIMS ranks
 * (-VICTIMS: the first) each die at a random moment, or wait to be killed, while all ranks send,
 * put, count, split teams and meet. A rank that is notified of a death shrinks its team and
 * continues. In the end the survivors have been notified of each death exactly once, and leave
 * cleanly. With "apart" the others are in a team of their own, which never notices.
 */
#include "../support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { ASK = 100, ANSWER, LATEST_US = 30000, PAYLOAD = 3000 };

static aq_rank victims, first_victim;
static _Atomic uint32_t answers;
static unsigned deaths; /* that were reported */
static volatile sig_atomic_t time_to_exit;

static void (*how)(void);

/* --- dying ------------------------------------------------------------------------------- */

static void die_kill(void)
{
    raise(SIGKILL);
}

static void die_abort(void)
{
    signal(SIGABRT, SIG_DFL); /* sanitizers have handlers */
    abort();
}

static void die_quick(void)
{
    _exit(4);
}

/* Not in a signal handler, but at the next step. */
static void die_exit(void)
{
    time_to_exit = 1;
}

/* The test kills the rank, once all ranks are ready. */
static void die_later(void)
{
}

/* The test announces that all victims have died, by closing rank 0's standard input. */
static void await_deaths(void)
{
    char byte;
    if (job.self != 0 || how != die_later) return;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
}

static const struct {
    const char *name;
    void (*run)(void);
} hows[] = {{"kill", die_kill},
            {"abort", die_abort},
            {"quick4", die_quick},
            {"exit3", die_exit},
            {"outside", die_later}};

static void on_alarm(int number)
{
    (void)number;
    how();
}

static bool is_victim(aq_rank job_rank)
{
    return job_rank >= first_victim && job_rank - first_victim < victims;
}

static void start_clock(void)
{
    uint64_t wait = 1 + job_random() % LATEST_US;
    struct itimerval timer = {.it_value = {.tv_usec = (suseconds_t)wait}};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    CHECK_EQUAL(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* --- notification ------------------------------------------------------------------------ */

static void on_lost(void *context, aq_rank rank, const char *why)
{
    CHECK(context == &deaths);
    CHECK(rank < job.size && is_victim(rank));
    CHECK(aq_peer_lost(job.team, rank) == 1);
    CHECK(why[0] != '\0');
    CHECK_STATUS(aq_poll(), AQ_ECONTEXT);
    CHECK_STATUS(aq_barrier(job.team), AQ_ECONTEXT);
    deaths++;
}

static void on_ask(aq_am *am)
{
    aq_status status = aq_am_reply_short(am, ANSWER, am->args, am->nargs, 0);
    CHECK(status == AQ_OK || (status == AQ_EPEER && is_victim(am->source)));
}

static void on_answer(aq_am *am)
{
    (void)am;
    answers++;
}

/* --- the work, each step of it ending with AQ_OK or, once a member is dead, AQ_EPEER -------- */

static aq_rank next_of(const aq_team *team)
{
    return (aq_team_rank(team) + 1) % aq_team_size(team);
}

struct wait {
    const aq_team *team;
    aq_rank rank;
    uint32_t answers;
};

static int answered_or_lost(void *arg)
{
    const struct wait *wait = arg;
    return answers != wait->answers || aq_peer_lost(wait->team, wait->rank);
}

/* Ask the next member and wait for its answer. */
static aq_status ask(aq_team *team)
{
    static unsigned char payload[PAYLOAD];
    struct wait wait = {team, next_of(team), answers};
    aq_status status =
        aq_am_medium(team, wait.rank, ASK, payload, sizeof(payload), AQ_NO_ARGS, 0, NULL);
    if (status != AQ_OK) return status;
    CHECK_OK(aq_poll_until(answered_or_lost, &wait, AQ_FOREVER));
    return answers != wait.answers ? AQ_OK : AQ_EPEER;
}

static aq_status move(aq_team *team)
{
    static unsigned char bytes[PAYLOAD];
    aq_rank to = next_of(team);
    aq_rank job_rank = aq_team_to_job(team, to);
    uint64_t old;
    aq_event events[2] = {AQ_EVENT_DONE, AQ_EVENT_DONE};
    aq_status status = aq_put_nb(team, to, job_at(job_rank, 64), bytes, sizeof(bytes), 0, events);
    if (status == AQ_OK) status = aq_get(team, to, bytes, job_at(job_rank, 4096), sizeof(bytes), 0);
    aq_status waited = aq_event_wait(&events[0], AQ_FOREVER);
    if (status == AQ_OK) status = waited;
    if (status == AQ_OK) status = aq_get_value(team, to, job_at(job_rank, 0), 8, 0, &old);
    return status;
}

static aq_status sum(aq_team *team)
{
    uint64_t mine = job.self + 1, all, expected = 0;
    for (aq_rank i = 0; i < aq_team_size(team); i++)
        expected += aq_team_to_job(team, i) + 1;
    aq_status status = aq_coll_allreduce(team, &all, &mine, 1, AQ_TYPE_U64, AQ_OP_ADD, 0);
    if (status == AQ_OK) CHECK_EQUAL(all, expected);
    return status;
}

/* A large exchange takes several rounds, so that deaths occur between them. */
static aq_status exchange(aq_team *team)
{
    size_t each = 160000 / job.size;
    unsigned char *to = malloc(aq_team_size(team) * each);
    unsigned char *from = calloc(aq_team_size(team), each);
    CHECK(to != NULL && from != NULL);
    memset(from, (int)job.self, aq_team_size(team) * each);
    aq_status status = aq_coll_alltoall(team, to, from, each, 0);
    for (aq_rank i = 0; status == AQ_OK && i < aq_team_size(team); i++)
        CHECK(all_bytes(to + i * each, each, (unsigned char)aq_team_to_job(team, i)));
    free(to);
    free(from);
    return status;
}

static aq_status halve(aq_team *team)
{
    aq_team *half;
    aq_status status = aq_team_split(team, (int)aq_team_rank(team) % 2, 0, 0, &half);
    if (status != AQ_OK) return status;
    status = aq_barrier(half);
    aq_status destroyed = aq_team_destroy(half);
    return status == AQ_OK ? destroyed : status;
}

static aq_status named_barrier(aq_team *team)
{
    aq_status status = aq_barrier_notify(team, 7, 0);
    if (status != AQ_OK) return status;
    aq_wait wait = {{0}};
    while ((status = aq_barrier_wait(team, 7, 0, 0)) == AQ_AGAIN)
        CHECK_OK(aq_poll_wait(&wait));
    return status;
}

static aq_status (*const steps[])(aq_team *) = {
    aq_barrier, ask, move, sum, exchange, halve, named_barrier,
};

/* --- continuing ------------------------------------------------------------------------------ */

static bool has_victim(const aq_team *team)
{
    for (aq_rank i = 0; i < aq_team_size(team); i++)
        if (is_victim(aq_team_to_job(team, i))) return true;
    return false;
}

static aq_team *shrink(aq_team *team)
{
    aq_team *smaller;
    aq_status status;
    do {
        status = aq_team_shrink(team, 0, &smaller);
    } while (status == AQ_EPEER);
    CHECK_OK(status);
    CHECK(aq_team_size(smaller) <= aq_team_size(team));
    if (team != job.team) {
        status = aq_team_destroy(team);
        CHECK(status == AQ_OK || status == AQ_EPEER);
    }
    return smaller;
}

/*
 * The same steps in the same order on all ranks; each round ends with a collective, which fails
 * after a death.
 */
static aq_status work(aq_team *team)
{
    aq_status status = AQ_OK;
    for (size_t i = 0; status == AQ_OK && i < COUNT_OF(steps); i++) {
        if (time_to_exit) exit(3);
        status = steps[i](team);
    }
    if (status != AQ_OK) CHECK_EQUAL(status, AQ_EPEER);
    return status;
}

/* Every operation on a dead rank fails, and nothing hangs. */
static void ask_the_dead(void)
{
    uint64_t word = 0;
    aq_event event;
    void *at = job_at(first_victim, 0);
    CHECK_STATUS(aq_barrier(job.team), AQ_EPEER);
    CHECK_STATUS(aq_am_short(job.team, first_victim, ASK, AQ_NO_ARGS, 0), AQ_EPEER);
    aq_segment_info info;
    CHECK_OK(aq_segment_query(job.team, first_victim, &info));
    if (info.local != NULL) return; /* memory that is mapped remains accessible */
    CHECK_STATUS(aq_put(job.team, first_victim, at, &word, sizeof(word), 0), AQ_EPEER);
    CHECK_STATUS(aq_get(job.team, first_victim, &word, at, sizeof(word), 0), AQ_EPEER);
    CHECK_STATUS(aq_put_nb(job.team, first_victim, at, &word, sizeof(word), 0, &event), AQ_EPEER);
}

/* With "apart" nothing fails: the members decide together how long they continue. */
static bool all_heard(aq_team *team)
{
    uint64_t mine = deaths, least;
    CHECK_OK(aq_coll_allreduce(team, &least, &mine, 1, AQ_TYPE_U64, AQ_OP_MIN, 0));
    return least == victims;
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {
        {ASK, 0, AQ_AM_MEDIUM | AQ_AM_REQUEST, on_ask, NULL, "ask"},
        {ANSWER, 0, AQ_AM_REPLY, on_answer, NULL, "answer"},
    };
    bool apart = argc == 4 && strcmp(argv[3], "apart") == 0;
    if (argc != 3 && !apart) return 2;
    victims = (aq_rank)abs(atoi(argv[1]));
    for (size_t i = 0; i < COUNT_OF(hows); i++)
        if (strcmp(hows[i].name, argv[2]) == 0) how = hows[i].run;
    job_open(AQ_THREAD_SINGLE, 65536);
    CHECK(how != NULL && victims < job.size);
    first_victim = argv[1][0] == '-' ? 0 : job.size - victims;
    job_handlers(table, COUNT_OF(table));
    CHECK_OK(aq_on_peer_lost(on_lost, &deaths));
    aq_team *team = job.team;
    if (apart) CHECK_OK(aq_team_split(job.team, is_victim(job.self), 0, 0, &team));
    aq_status met = aq_barrier(job.team); /* some may leave it and die before others leave */
    CHECK(met == AQ_OK || met == AQ_EPEER);
    if (is_victim(job.self)) start_clock();
    if (how == die_later) {
        printf("ready\n");
        fflush(stdout);
    }
    while (has_victim(team) || (apart && !all_heard(team)))
        if (work(team) != AQ_OK) team = shrink(team);
    await_deaths();
    for (aq_rank i = 0; i < 2 + 40 / job.size; i++)
        CHECK_OK(work(team));
    while (deaths < victims)
        (void)aq_poll();
    CHECK_EQUAL(deaths, victims);
    if (victims > 0) ask_the_dead();
    printf("rank %u leaves\n", job.self);
    CHECK_OK(aq_finalize());
    return 0;
}
