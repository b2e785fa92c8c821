/*
 * The rule for handles in docs/semantics.md. Calls every public function with NULL for each of its
 * handles, which handles.py finds in the headers, and checks the results for a destroyed handle.
 */
#include "../support.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static sigjmp_buf back;
static unsigned tried, failed;
static unsigned char room[4096]; /* for any pointer that is not a handle */
static aq_team *some_aq_team;
static aq_ep *some_aq_ep;
static aq_segment *some_aq_segment;

static void on_fault(int signal)
{
    siglongjmp(back, signal);
}

static void fold(const void *left, void *right_and_out, size_t count, const void *context)
{
    (void)left, (void)right_and_out, (void)count, (void)context;
}

static bool refused(aq_status status)
{
    return (status == AQ_EINVAL || status == AQ_ECONTEXT) && aq_error_message()[0] != '\0';
}

static void tell(const char *what, const char *how)
{
    fprintf(stderr, "%s NULL: %s\n", what, how);
    failed++;
}

#define TRY(what, ...)                                                                             \
    do {                                                                                           \
        volatile bool good = false;                                                                \
        tried++;                                                                                   \
        if (sigsetjmp(back, 1) != 0) {                                                             \
            tell(what, "a fault");                                                                 \
            break;                                                                                 \
        }                                                                                          \
        __VA_ARGS__;                                                                               \
        if (!good) tell(what, "neither refused nor the value for \"nothing\"");                    \
    } while (0)

#include "handles_calls.h"

static void destroyed_domains(void)
{
    aq_atomic_domain *domain, *other;
    aq_atomic_domain_info info;
    int64_t one = 1;
    for (int i = 0; i < 200; i++) {
        CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_I64, AQ_OP_BIT(AQ_OP_ADD), 0, &domain));
        CHECK_OK(aq_atomic_domain_destroy(domain));
        CHECK_REFUSED(aq_atomic_domain_destroy(domain), AQ_EINVAL);
        CHECK_REFUSED(aq_atomic_domain_query(domain, &info), AQ_EINVAL);
        CHECK_REFUSED(aq_atomic(domain, 0, job.base, AQ_OP_ADD, &one, NULL, NULL, 0), AQ_EINVAL);
        CHECK(strstr(aq_error_message(), "destroyed") != NULL);
        CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_I64, AQ_OP_BIT(AQ_OP_ADD), 0, &other));
        CHECK(other != domain);
        CHECK_REFUSED(aq_atomic_domain_destroy(domain), AQ_EINVAL);
        CHECK_OK(aq_atomic(other, 0, job.base, AQ_OP_ADD, &one, NULL, NULL, 0));
        CHECK_OK(aq_atomic_domain_destroy(other));
    }
    CHECK_EQUAL(*(int64_t *)(void *)job.base, 200);
    CHECK_REFUSED(aq_atomic_domain_destroy((void *)room), AQ_EINVAL);
}

static void destroyed_team(void)
{
    aq_team *team;
    CHECK_OK(aq_team_split(job.team, 0, 0, 0, &team));
    CHECK_OK(aq_team_destroy(team));
    CHECK_REFUSED(aq_team_destroy(team), AQ_ESTATE);
    CHECK_REFUSED(aq_barrier(team), AQ_ESTATE);
    CHECK_EQUAL(aq_team_size(team), 0);
    CHECK_EQUAL(aq_team_rank(team), AQ_RANK_NONE);
    CHECK_EQUAL(aq_team_to_job(team, 0), AQ_RANK_NONE);
}

static void destroyed_segment(void)
{
    aq_connect_params params = {.struct_size = sizeof(params)};
    aq_connection *conn;
    aq_segment *segment;
    aq_ep *ep;
    CHECK_OK(aq_ep_create(AQ_EP_RMA, &ep));
    CHECK_OK(aq_segment_create(NULL, 4096, 0, &segment));
    CHECK_OK(aq_segment_destroy(segment));
    CHECK_REFUSED(aq_segment_destroy(segment), AQ_EINVAL);
    CHECK_REFUSED(aq_ep_bind(ep, segment), AQ_EINVAL);
    CHECK_REFUSED(aq_ep_bind((void *)room, job.segment), AQ_EINVAL);
    params.segment = segment;
    CHECK_REFUSED(aq_connect("shm:///nothing", &params, &conn), AQ_EINVAL);
}

static void closed(void)
{
    aq_listener *listener;
    aq_connection *conn;
    CHECK_OK(aq_listen(NULL, 0, NULL, &listener));
    CHECK_OK(aq_listener_close(listener));
    CHECK_REFUSED(aq_listener_close(listener), AQ_EINVAL);
    CHECK_OK(aq_connect_start("shm:///nothing", NULL, &conn));
    CHECK_OK(aq_connection_close(conn));
    CHECK_REFUSED(aq_connection_close(conn), AQ_EINVAL);
}

int main(void)
{
    struct sigaction fault = {.sa_handler = on_fault};
    job_open(AQ_THREAD_SINGLE, 4096);
    CHECK_OK(aq_team_split(job.team, 0, 0, 0, &some_aq_team));
    some_aq_ep = job.ep;
    some_aq_segment = job.segment;
    aq_error_log(0);
    sigaction(SIGSEGV, &fault, NULL);
    sigaction(SIGBUS, &fault, NULL);
    try_all();
    CHECK_EQUAL(tried, CASES);
    CHECK(tried > 100);
    CHECK_EQUAL(failed, 0);
    destroyed_domains();
    destroyed_team();
    destroyed_segment();
    closed();
    CHECK_OK(aq_team_destroy(some_aq_team));
    job_close();
    return 0;
}
