/*
 * Dividing a team while one rank is out of memory: whichever allocation of the call fails, all
 * ranks return the same status, and the next call works. The linker replaces malloc and calloc,
 * including those of the library, by the ones below (--wrap).
 */
#include "../support.h"

#include <stdlib.h>

enum { NEVER = -1 };

static int left = NEVER; /* allocations until one fails */
static bool failed;
static unsigned refusals; /* calls of this rank that failed */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool fails(void)
{
    if (left < 0 || left-- > 0) return false;
    failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

static aq_status split(aq_team **team)
{
    return aq_team_split(job.team, (int)(job.self % 2), 0, 0, team);
}

static aq_status create(aq_team **team)
{
    aq_rank *all = __real_malloc(job.size * sizeof(*all));
    for (aq_rank i = 0; i < job.size; i++)
        all[i] = i;
    aq_status status = aq_team_create(job.team, all, job.size, 0, team);
    free(all);
    return status;
}

/*
 * Make allocation `which` of `rank` fail in this call, and check that all ranks get the error.
 * Returns whether the call failed.
 */
static bool fails_everywhere(aq_status (*make)(aq_team **team), aq_rank rank, int which)
{
    aq_team *team = NULL;
    uint32_t any, mine, worst, own;
    left = job.self == rank ? which : NEVER;
    failed = false;
    aq_status status = make(&team);
    left = NEVER;
    mine = failed;
    CHECK_OK(aq_coll_allreduce(job.team, &any, &mine, 1, AQ_TYPE_U32, AQ_OP_MAX, 0));
    /* Teams by color share no member: those of the other color may succeed. */
    bool concerned = make == create || job.self % 2 == rank % 2;
    CHECK(status == AQ_OK || (status == AQ_ENOMEM && team == NULL));
    own = concerned ? (uint32_t)-status : 0;
    CHECK_OK(aq_coll_allreduce(job.team, &worst, &own, 1, AQ_TYPE_U32, AQ_OP_MAX, 0));
    if (concerned) CHECK_EQUAL(own, worst);
    refusals += own != 0;
    if (!any) CHECK_OK(status);
    if (status == AQ_OK) CHECK_OK(aq_team_destroy(team));
    return any != 0;
}

int main(void)
{
    static aq_status (*const calls[])(aq_team **) = {split, create};
    aq_team *team;
    job_open(AQ_THREAD_SINGLE, 0);
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        CHECK_OK(calls[i](&team)); /* make the allocations that occur only once */
        CHECK_OK(aq_team_destroy(team));
        for (aq_rank rank = 0; rank < job.size; rank++) {
            int which = 0;
            while (fails_everywhere(calls[i], rank, which))
                which++;
            CHECK(which >= 3);
        }
        CHECK(refusals >= 3 * (i + 1));
    }
    job_close();
    return 0;
}
