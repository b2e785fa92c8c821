/*
 * Teams of endpoints other than the first: messages and transfers through them reach these
 * endpoints, collectives work, derived teams keep the endpoints, and every member refuses invalid
 * lists.
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { FULL = 1, MUTE = 2, EPS = 3, HELLO = 80, PLACE = 64 };

static aq_ep *eps[EPS];
static unsigned char *segment_of[EPS]; /* of this process, by endpoint */
static _Atomic uint32_t hellos;

/* args: the source and target endpoints. */
static void on_hello(aq_am *am)
{
    CHECK_EQUAL(am->source_ep, am->args[0]);
    CHECK_EQUAL(aq_ep_index(am->ep), am->args[1]);
    CHECK(am->context == eps + am->args[1]);
    hellos++;
}

static void make_endpoints(void)
{
    aq_segment *segment;
    eps[0] = job.ep;
    segment_of[0] = job.base;
    CHECK_OK(aq_ep_create(AQ_EP_ALL, &eps[FULL]));
    CHECK_OK(aq_ep_create(AQ_EP_ALL & ~AQ_EP_COLL, &eps[MUTE]));
    CHECK_OK(aq_segment_create(NULL, 4096, 0, &segment));
    segment_of[FULL] = aq_segment_addr(segment);
    CHECK_OK(aq_ep_bind(eps[FULL], segment));
    CHECK_OK(aq_ep_publish(job.team, &eps[FULL], 1, 0));
    for (unsigned i = 0; i <= FULL; i++) {
        aq_handler_entry row = {HELLO, 2, AQ_AM_SHORT | AQ_AM_REQUEST, on_hello, eps + i, "hello"};
        CHECK_OK(aq_am_register(eps[i], &row, 1));
    }
    job_barrier();
}

/* The endpoint of a process in the teams below. */
static unsigned named(aq_rank job_rank)
{
    return job_rank % 3 != 1 ? FULL : 0;
}

/* Check everything about a team of these endpoints. */
static void check_team(aq_team *team)
{
    aq_rank self = aq_team_rank(team), size = aq_team_size(team);
    const unsigned mine = named(job.self);
    uint32_t sum = 0, one = 1, before = hellos;
    aq_atomic_domain *domain;
    CHECK(aq_team_ep(team) == eps[mine]);
    CHECK_EQUAL(aq_team_ep_index(team, size), aq_ep_max());
    memset(segment_of[0], 0, 4096);
    memset(segment_of[FULL], 0, 4096);
    CHECK_OK(aq_barrier(team));
    CHECK_OK(aq_atomic_domain_create(team, AQ_TYPE_U32, AQ_OPS_ALL, 0, &domain));
    for (aq_rank rank = 0; rank < size; rank++) {
        const aq_rank job_rank = aq_team_to_job(team, rank);
        aq_segment_info info;
        CHECK_EQUAL(aq_team_ep_index(team, rank), named(job_rank));
        CHECK_OK(aq_segment_query(team, rank, &info));
        CHECK(info.size >= 4096);
        CHECK_OK(aq_put_value(team, rank, (char *)info.addr + PLACE + self, self + 1, 1, 0));
        CHECK_OK(aq_atomic(domain, rank, NULL, AQ_OP_ADD, &one, NULL, NULL, AQ_REMOTE_OFFSET));
        CHECK_OK(aq_am_short(team, rank, HELLO, AQ_ARGS((aq_arg)mine, (aq_arg)named(job_rank)), 0));
    }
    aq_atomic_domain_destroy(domain);
    job_await(&hellos, before + size);
    CHECK_OK(aq_coll_allreduce(team, &sum, &one, 1, AQ_TYPE_U32, AQ_OP_ADD, 0));
    CHECK_EQUAL(sum, size);
    for (aq_rank rank = 0; rank < size; rank++)
        CHECK_EQUAL(segment_of[mine][PLACE + rank], rank + 1);
    CHECK_EQUAL(*(uint32_t *)(void *)segment_of[mine], size);
    CHECK(all_bytes(segment_of[mine == 0 ? FULL : 0], 4096, 0));
    CHECK_OK(aq_barrier(team));
}

static aq_status make(const unsigned *indices, aq_team **team)
{
    aq_rank *members = malloc(job.size * sizeof(*members));
    CHECK(members != NULL);
    for (aq_rank i = 0; i < job.size; i++)
        members[i] = job.size - 1 - i;
    aq_status status = aq_team_create_eps(job.team, members, indices, job.size, 0, team);
    free(members);
    return status;
}

static void test_teams(unsigned *indices)
{
    aq_team *team, *half, *again;
    for (aq_rank i = 0; i < job.size; i++)
        indices[i] = named(job.size - 1 - i);
    CHECK_OK(make(indices, &team));
    check_team(team);
    CHECK_OK(aq_team_split(team, (int)(job.self % 2), (int)job.self, 0, &half));
    check_team(half);
    CHECK_OK(aq_team_create(team, (aq_rank[]){aq_team_rank(team)}, 1, 0, &again));
    check_team(again);
    CHECK_OK(aq_team_destroy(again));
    CHECK_OK(aq_team_destroy(half));
    CHECK_OK(aq_team_destroy(team));
    CHECK_OK(make(NULL, &team)); /* with the endpoints of the parent */
    CHECK(aq_team_ep(team) == job.ep && aq_team_ep_index(team, 0) == 0);
    CHECK_OK(aq_team_destroy(team));
}

/* A mistake of one member makes the call fail on all. */
static void test_refused(unsigned *indices)
{
    static const struct {
        unsigned index;
        aq_status status;
    } bad[] = {{MUTE, AQ_ENOTSUP}, {5, AQ_EINVAL}, {8, AQ_EINVAL}, {UINT32_MAX, AQ_EINVAL}};
    aq_team *team = job.team;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        for (aq_rank rank = 0; rank < job.size; rank++)
            indices[rank] = rank == job.size / 2 ? bad[i].index : FULL;
        CHECK_REFUSED(make(indices, &team), bad[i].status);
    }
    if (job.size > 1) { /* the lists differ in the endpoint of the first member */
        for (aq_rank rank = 0; rank < job.size; rank++)
            indices[rank] = rank == 0 && job.self == 0 ? 0 : FULL;
        CHECK_REFUSED(make(indices, &team), AQ_EMISMATCH);
    }
    CHECK(team == job.team);
}

int main(void)
{
    job_open(AQ_THREAD_SINGLE, 4096);
    unsigned *indices = calloc(job.size, sizeof(*indices));
    CHECK(indices != NULL);
    make_endpoints();
    test_teams(indices);
    test_refused(indices);
    test_teams(indices);
    free(indices);
    job_close();
    return 0;
}
