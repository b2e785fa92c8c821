/* Teams: neighborhoods, splitting, creating, translating ranks, addressing through teams,
 * destroying; and many teams. */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

static void check_team(const aq_team *team, aq_rank size, aq_rank rank)
{
    CHECK_EQUAL(aq_team_size(team), size);
    CHECK_EQUAL(aq_team_rank(team), rank);
    CHECK_EQUAL(aq_team_to_job(team, rank), job.self);
    CHECK_EQUAL(aq_team_from_job(team, job.self), rank);
    CHECK_EQUAL(aq_team_to_job(team, size), AQ_RANK_NONE);
    CHECK(aq_team_ep(team) == job.ep);
}

/* Make a put, and a sum over the members, which must equal the sum of their job ranks. */
static void use_team(aq_team *team)
{
    aq_rank size = aq_team_size(team), self = aq_team_rank(team), next = (self + 1) % size;
    uint64_t sum, mine = job.self, want = 0;
    aq_segment_info info;
    for (aq_rank i = 0; i < size; i++)
        want += aq_team_to_job(team, i);
    CHECK_OK(aq_coll_allreduce(team, &sum, &mine, 1, AQ_TYPE_U64, AQ_OP_ADD, 0));
    CHECK_EQUAL(sum, want);
    CHECK_OK(aq_segment_query(team, next, &info));
    CHECK(info.addr == job_at(aq_team_to_job(team, next), 0));
    CHECK_OK(aq_put_value(team, next, info.addr, job.self + 1, 8, 0));
    CHECK_OK(aq_barrier(team));
    CHECK_EQUAL(*(uint64_t *)(void *)job.base, aq_team_to_job(team, (self + size - 1) % size) + 1u);
    CHECK_OK(aq_barrier(team));
}

/* All members of a neighborhood map each other's memory; TEST_NEIGHBORHOODS is the expected number
 * of neighborhoods. */
static void test_neighborhood(aq_team *near)
{
    const char *want = getenv("TEST_NEIGHBORHOODS");
    aq_rank count, mine;
    aq_segment_info info;
    aq_job_neighborhoods(&count, &mine);
    CHECK(mine < count && count <= job.size);
    if (want != NULL) CHECK_EQUAL(count, atoi(want));
    for (aq_rank rank = 0; rank < job.size && aq_team_size(near) > 1; rank++) {
        CHECK_OK(aq_segment_query(job.team, rank, &info));
        if (aq_team_from_job(near, rank) != AQ_RANK_NONE)
            CHECK(info.local != NULL);
        else if (getenv("AQ_NEIGHBORHOOD") != NULL)
            CHECK(info.local == NULL);
    }
    CHECK_EQUAL(aq_team_to_job(near, aq_team_rank(near)), job.self);
    use_team(near);
}

static void test_library(void)
{
    aq_team *near = aq_team_neighborhood(), *host = aq_team_host();
    aq_rank count, mine;
    CHECK(near != NULL && host != NULL && near != job.team && host != job.team);
    aq_job_hosts(&count, &mine);
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(mine, 0);
    check_team(host, job.size, job.self);
    test_neighborhood(near);
    use_team(host);
    CHECK_REFUSED(aq_team_destroy(job.team), AQ_EINVAL);
    CHECK_REFUSED(aq_team_destroy(host), AQ_EINVAL);
    CHECK_OK(aq_team_destroy(NULL));
}

static void refuse_dead(aq_team *team)
{
    static uint64_t one = 1, all;
    CHECK_REFUSED(aq_barrier(team), AQ_ESTATE);
    CHECK_REFUSED(aq_coll_allreduce(team, &all, &one, 1, AQ_TYPE_U64, AQ_OP_ADD, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_put(team, 0, job.base, &one, 1, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_team_split(team, 0, 0, 0, &team), AQ_ESTATE);
    CHECK_REFUSED(aq_team_destroy(team), AQ_ESTATE);
    CHECK_EQUAL(aq_team_size(team), 0);
}

static void test_split(void)
{
    aq_team *halves, *reversed, *none = job.team, *deeper;
    aq_rank first = (job.size + 1) / 2;
    bool low = job.self < first;
    CHECK_OK(aq_team_split(job.team, low ? 0 : 7, 0, 0, &halves));
    check_team(halves, low ? first : job.size - first, low ? job.self : job.self - first);
    CHECK_OK(aq_team_split(job.team, 1, -(int)job.self, 0, &reversed));
    check_team(reversed, job.size, job.size - 1 - job.self);
    CHECK_EQUAL(aq_team_translate(reversed, 0, job.team), job.size - 1);
    CHECK_EQUAL(aq_team_translate(job.team, job.self, halves), aq_team_rank(halves));
    CHECK_EQUAL(aq_team_translate(reversed, 0, halves),
                low ? (job.size == 1 ? 0 : AQ_RANK_NONE) : job.size - 1 - first);
    CHECK_OK(aq_team_split(job.team, low ? AQ_COLOR_NONE : 3, 0, 0, low ? NULL : &none));
    CHECK_OK(aq_team_split(halves, (int)(aq_team_rank(halves) % 2), 0, 0, &deeper));
    use_team(halves);
    use_team(reversed);
    use_team(deeper);
    if (!low) {
        use_team(none);
        CHECK_OK(aq_team_destroy(none));
    }
    /* Barriers of several teams, under way at the same time. */
    CHECK_OK(aq_barrier_notify(halves, 4, 0));
    CHECK_OK(aq_barrier_notify(reversed, 5, 0));
    CHECK_OK(aq_barrier_notify(deeper, (int)job.self, AQ_BARRIER_ANONYMOUS));
    CHECK_REFUSED(aq_team_destroy(deeper), AQ_ESTATE);
    CHECK_OK(aq_barrier_wait(reversed, 5, 0, AQ_FOREVER));
    CHECK_OK(aq_barrier_wait(halves, 4, 0, AQ_FOREVER));
    CHECK_OK(aq_barrier_wait(deeper, 0, AQ_BARRIER_ANONYMOUS, AQ_FOREVER));
    CHECK_STATUS(aq_barrier_notify(halves, (int)job.self, 0), AQ_OK);
    CHECK_STATUS(aq_barrier_wait(halves, (int)job.self, 0, AQ_FOREVER),
                 aq_team_size(halves) == 1 ? AQ_OK : AQ_EMISMATCH);
    CHECK_OK(aq_team_destroy(deeper));
    CHECK_OK(aq_team_destroy(reversed));
    CHECK_OK(aq_team_destroy(halves));
    refuse_dead(halves);
}

static void test_create(void)
{
    aq_rank list[64], count = 0;
    aq_team *team = NULL, *empty = job.team;
    if (job.size > 64) return;
    /* The odd ranks in reverse order; the even ones take part without joining. */
    for (aq_rank i = job.size; i-- > 0;)
        if (i % 2) list[count++] = i;
    bool in = job.self % 2;
    CHECK_OK(aq_team_create(job.team, in ? list : NULL, in ? count : 0, 0, in ? &team : &empty));
    if (in) {
        check_team(team, count, count - 1 - job.self / 2);
        use_team(team);
        CHECK_OK(aq_team_destroy(team));
    } else {
        CHECK(empty == NULL);
    }
    for (aq_rank i = 0; i < job.size; i++)
        list[i] = (i + 3) % job.size;
    CHECK_OK(aq_team_create(job.team, list, job.size, 0, &team));
    use_team(team);
    CHECK_OK(aq_team_destroy(team));
    if (job.size == 1) return;
    /* Lists that differ or are invalid fail on all ranks. */
    list[0] = (job.self + 1) % job.size;
    list[1] = job.self;
    if (job.size > 2) CHECK_REFUSED(aq_team_create(job.team, list, 2, 0, &team), AQ_EMISMATCH);
    list[0] = 0;
    list[1] = 1; /* only rank 0 learns that rank 1 wants to be alone, or in no team */
    CHECK_REFUSED(
        aq_team_create(job.team, job.self == 0 ? list : &job.self, job.self == 0 ? 2 : 1, 0, &team),
        AQ_EMISMATCH);
    CHECK_REFUSED(aq_team_create(job.team, list, job.self == 0 ? 2 : 0, 0, &team), AQ_EMISMATCH);
    list[0] = job.size;
    CHECK_REFUSED(aq_team_create(job.team, list, 1, 0, &team), AQ_ERANK);
    list[0] = list[1] = job.self;
    CHECK_REFUSED(aq_team_create(job.team, list, 2, 0, &team), AQ_EINVAL);
    list[0] = (job.self + 1) % job.size;
    CHECK_REFUSED(aq_team_create(job.team, list, 1, 0, &team), AQ_EINVAL);
    CHECK_REFUSED(aq_team_split(job.team, -2, 0, 0, &team), AQ_EINVAL);
    job_barrier();
}

/* The scratch memory and ids of destroyed teams are reused. More teams can exist than there is
 * scratch memory for. */
static void test_many(void)
{
    enum { AT_ONCE = 40 };
    aq_team *teams[AT_ONCE];
    int rounds = job.size > 8 ? 20 : 300;
    for (int i = 0; i < rounds; i++) {
        CHECK_OK(aq_team_split(job.team, (int)(job.self + (aq_rank)i) % 3, 0, 0, &teams[0]));
        CHECK_OK(aq_barrier(teams[0]));
        CHECK_OK(aq_team_destroy(teams[0]));
    }
    for (int i = 0; i < AT_ONCE; i++)
        CHECK_OK(aq_team_split(job.team, 0, i, 0, &teams[i]));
    for (int i = 0; i < AT_ONCE; i++)
        CHECK_OK(aq_barrier_notify(teams[i], i, 0));
    for (int i = AT_ONCE; i-- > 0;)
        CHECK_OK(aq_barrier_wait(teams[i], i, 0, AQ_FOREVER));
    for (int i = 0; i < AT_ONCE; i++)
        use_team(teams[i]);
    for (int i = 0; i < AT_ONCE; i++)
        CHECK_OK(aq_team_destroy(teams[i]));
}

/*
 * The rank in TEST_HIDE accesses all others by messages only, whereas the others map its memory and
 * each other's.
 */
static void hide_mapping(void)
{
    const char *rank = getenv("AQ_RANK"), *hider = getenv("TEST_HIDE");
    if (rank != NULL && hider != NULL && atoi(rank) == atoi(hider))
        setenv("AQ_FAULT", "hide=map,again=20", 1);
}

int main(void)
{
    hide_mapping();
    job_open(AQ_THREAD_SINGLE, 65536);
    test_library();
    test_split();
    test_create();
    test_many();
    job_close();
    return 0;
}
