/* Barriers: no rank leaves before all have arrived; names, mismatches, misuse. */
#include "../support.h"

#include <sched.h>
#include <string.h>

/* Announce this rank's epoch to rank 0. Written before the notify, it is read after the wait. */
static void write_epoch(uint32_t epoch)
{
    CHECK_OK(aq_put(job.team, 0, job_at(0, job.self * 4), &epoch, sizeof(epoch), 0));
}

static void check_epochs(uint32_t epoch)
{
    for (aq_rank rank = 0; job.self == 0 && rank < job.size; rank++) {
        uint32_t seen;
        memcpy(&seen, job.base + rank * 4, sizeof(seen));
        /* Fast ranks may already have written the next epoch. */
        CHECK(seen == epoch || seen == epoch + 1);
    }
}

/* A varying amount of work between the two halves. */
static void dawdle(void)
{
    for (uint64_t i = job_random() % 40; i > 0; i--)
        (void)aq_poll();
    sched_yield(); /* there may be more ranks than cores */
}

static void test_epochs(void)
{
    uint32_t count = job.size > 8 ? 60 : 400;
    for (uint32_t epoch = 1; epoch <= count; epoch++) {
        write_epoch(epoch);
        dawdle();
        switch (epoch % 4) {
        case 0:
            job_barrier();
            break;
        case 1:
            CHECK_OK(aq_barrier_notify(job.team, (int)epoch, 0));
            dawdle();
            CHECK_OK(aq_barrier_wait(job.team, (int)epoch, 0, AQ_FOREVER));
            break;
        case 2:
            CHECK_OK(aq_barrier_notify(job.team, 0, AQ_BARRIER_ANONYMOUS));
            CHECK_OK(aq_barrier_wait(job.team, 0, AQ_BARRIER_ANONYMOUS, AQ_FOREVER));
            break;
        default:
            CHECK_OK(aq_barrier_notify(job.team, -5, 0));
            aq_status status;
            while ((status = aq_barrier_wait(job.team, -5, 0, 0)) == AQ_AGAIN)
                dawdle();
            CHECK_OK(status);
        }
        check_epochs(epoch);
    }
    job_barrier();
}

/* Puts, messages and atomics work between notify and wait. */
static void test_split(void)
{
    unsigned char out[64], in[64];
    for (uint32_t i = 0; i < 20; i++) {
        size_t at = 4096 + job.self * 64;
        CHECK_OK(aq_barrier_notify(job.team, 7, 0));
        fill(out, sizeof(out), i);
        CHECK_OK(aq_put(job.team, job_next(), job_at(job_next(), at), out, sizeof(out), 0));
        CHECK_OK(aq_get(job.team, job_next(), in, job_at(job_next(), at), sizeof(in), 0));
        CHECK(memcmp(in, out, sizeof(in)) == 0);
        CHECK_OK(aq_barrier_wait(job.team, 7, 0, AQ_FOREVER));
    }
}

/* --- names ------------------------------------------------------------------------------- */

static aq_status whole(int id, unsigned flags)
{
    aq_status status = aq_barrier_notify(job.team, id, flags);
    if (status != AQ_OK) return status;
    if (job.self % 2 == 0) return aq_barrier_wait(job.team, id, flags, AQ_FOREVER);
    while ((status = aq_barrier_wait(job.team, id, flags, 0)) == AQ_AGAIN)
        dawdle();
    return status;
}

static void check_result(aq_status want, int id)
{
    int got = ~id;
    CHECK_STATUS(aq_barrier_result(job.team, &got), want);
    if (want == AQ_OK) CHECK_EQUAL(got, id);
}

static void test_names(void)
{
    static const int ids[] = {0, 1, -1, INT32_MAX, INT32_MIN, 42};
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        CHECK_OK(whole(ids[i], 0));
        check_result(AQ_OK, ids[i]);
        /* Anonymous ranks match any name: only some ranks pass a name. */
        CHECK_OK(whole(ids[i], job.self % 2 ? AQ_BARRIER_ANONYMOUS : 0));
        check_result(AQ_OK, ids[i]);
        CHECK_OK(whole(ids[i] ^ (int)job.self, AQ_BARRIER_ANONYMOUS));
        check_result(AQ_AGAIN, 0);
    }
}

static void test_mismatch(void)
{
    aq_status different = job.size == 1 ? AQ_OK : AQ_EMISMATCH;
    for (int i = 0; i < 10; i++) {
        /*
         * One rank uses a different id. Every rank gets the error, and the next barrier works.
         */
        aq_rank odd = (aq_rank)i % job.size;
        CHECK_STATUS(whole(job.self == odd ? 1000 + i : i, 0), different);
        check_result(different, 1000 + i);
        CHECK_OK(whole(i, 0));
        /* All names differ. */
        CHECK_STATUS(whole((int)job.self, 0), different);
        /* Two ranks with different names among anonymous ones, if there are two. */
        bool named = job.self < 2;
        CHECK_STATUS(whole((int)job.self, named ? 0 : AQ_BARRIER_ANONYMOUS), different);
        /* One rank declares a mismatch by the flag. */
        CHECK_STATUS(whole(i, job.self == odd ? AQ_BARRIER_MISMATCH : 0), AQ_EMISMATCH);
        CHECK_STATUS(whole(i, job.self == odd ? AQ_BARRIER_MISMATCH : AQ_BARRIER_ANONYMOUS),
                     AQ_EMISMATCH);
        job_barrier();
    }
}

/*
 * If a rank passes different ids to notify and wait, only this rank gets the error.
 */
static void test_mismatch_at_wait(void)
{
    CHECK_OK(aq_barrier_notify(job.team, 3, 0));
    CHECK_STATUS(aq_barrier_wait(job.team, job.self == 0 ? 4 : 3, 0, AQ_FOREVER),
                 job.self == 0 ? AQ_EMISMATCH : AQ_OK);
    /* A rank that was anonymous may pass the agreed name at wait; if all were anonymous, any
     * name. */
    CHECK_OK(aq_barrier_notify(job.team, 3, job.self == 0 ? 0 : AQ_BARRIER_ANONYMOUS));
    CHECK_STATUS(aq_barrier_wait(job.team, 3 + (int)job.self % 2, 0, AQ_FOREVER),
                 job.self % 2 ? AQ_EMISMATCH : AQ_OK);
    aq_status status;
    CHECK_OK(aq_barrier_notify(job.team, 3, job.self == 0 ? 0 : AQ_BARRIER_ANONYMOUS));
    while ((status = aq_barrier_wait(job.team, 3 + (int)job.self % 2, 0, 0)) == AQ_AGAIN)
        dawdle();
    CHECK_STATUS(status, job.self % 2 ? AQ_EMISMATCH : AQ_OK);
    CHECK_OK(aq_barrier_notify(job.team, 3, AQ_BARRIER_ANONYMOUS));
    CHECK_OK(aq_barrier_wait(job.team, (int)job.self, 0, AQ_FOREVER));
    job_barrier();
}

/* --- misuse ------------------------------------------------------------------------------ */

static void test_misuse(void)
{
    CHECK_REFUSED(aq_barrier_wait(job.team, 0, 0, AQ_FOREVER), AQ_ESTATE);
    CHECK_REFUSED(aq_barrier_wait(job.team, 0, 0, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_barrier_notify(job.team, 0, 0x8000), AQ_EINVAL);
    CHECK_REFUSED(aq_barrier_notify(NULL, 0, 0), AQ_EINVAL);
    CHECK_OK(aq_barrier_notify(job.team, 1, 0));
    CHECK_REFUSED(aq_barrier_notify(job.team, 1, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_barrier(job.team), AQ_ESTATE);
    CHECK_REFUSED(aq_barrier_result(job.team, &(int){0}), AQ_ESTATE);
    CHECK_REFUSED(aq_barrier_result(job.team, NULL), AQ_EINVAL);
    CHECK_OK(aq_barrier_wait(job.team, 1, 0, AQ_FOREVER));
    CHECK_REFUSED(aq_barrier_wait(job.team, 1, 0, AQ_FOREVER), AQ_ESTATE);
    job_barrier();
}

int main(void)
{
    job_open(AQ_THREAD_SINGLE, 65536);
    test_epochs();
    test_split();
    test_names();
    test_mismatch();
    test_mismatch_at_wait();
    test_misuse();
    job_close();
    return 0;
}
