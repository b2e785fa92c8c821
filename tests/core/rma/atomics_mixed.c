/*
 * Coherence of atomics: in one job, the even ranks access a location directly and the odd ones by
 * messages, all at once, with every type and operation, and with and without fetching where both
 * exist. No update may be lost.
 */
#include "../../model/atomics.h"
#include "../support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EACH = 300, TURNS = 6 };

/* A small integer in each type. */
static uint64_t number(int type, int value)
{
    uint64_t bytes = 0;
    float f = (float)value;
    double d = value;
    int32_t i = value;
    int64_t l = value;
    size_t size = model_size((unsigned)type);
    const void *from = type == AQ_TYPE_F32   ? (void *)&f
                       : type == AQ_TYPE_F64 ? (void *)&d
                       : size == 4           ? (void *)&i
                                             : (void *)&l;
    memcpy(&bytes, from, size);
    return bytes;
}

static double value_of(int type, uint64_t bytes)
{
    float f;
    double d;
    memcpy(&f, &bytes, 4);
    memcpy(&d, &bytes, 8);
    return type == AQ_TYPE_F32 ? (double)f : type == AQ_TYPE_F64 ? d : (double)bytes;
}

static uint64_t fetch(aq_atomic_domain *domain, size_t at)
{
    uint64_t old = 0;
    CHECK_OK(aq_atomic(domain, 0, job_at(0, at), AQ_OP_GET, NULL, NULL, &old, 0));
    return old;
}

/* Increments and decrements by every operation that adds; the result is known. */
static void test_sums(aq_atomic_domain *domain, int type)
{
    uint64_t one = number(type, 1), two = number(type, 2), old, more;
    void *at = job_at(0, 0);
    for (int i = 0; i < EACH; i++) {
        void *result = i % 2 ? &old : NULL;
        CHECK_OK(aq_atomic_nbi(domain, 0, at, AQ_OP_ADD, &two, NULL, result, AQ_ATOMIC_RELEASE));
        CHECK_OK(
            aq_atomic_nbi(domain, 0, at, AQ_OP_INC, NULL, NULL, result != NULL ? &more : NULL, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_ATOMIC, AQ_FOREVER));
        CHECK_OK(aq_atomic(domain, 0, at, AQ_OP_SUB, &one, NULL, result, 0));
        CHECK_OK(aq_atomic(domain, 0, at, AQ_OP_DEC, NULL, NULL, result, 0));
    }
    job_barrier();
    CHECK(value_of(type, fetch(domain, 0)) == (double)EACH * job.size);
}

/* Increments by compare-and-swap: each success counts once. */
static void test_cas(aq_atomic_domain *domain, int type)
{
    void *at = job_at(0, 8);
    for (int i = 0; i < EACH;) {
        uint64_t seen = fetch(domain, 8), old = 0;
        uint64_t next = number(type, (int)value_of(type, seen) + 1);
        CHECK_OK(aq_atomic(domain, 0, at, AQ_OP_CAS, &seen, &next, &old, 0));
        if (memcmp(&old, &seen, model_size((unsigned)type)) == 0) i++;
    }
    job_barrier();
    CHECK(value_of(type, fetch(domain, 8)) == (double)EACH * job.size);
}

/* Turns by compare-and-swap without fetching: the rank whose turn it is succeeds, while all others
 * try in vain to take a turn that has passed. */
static void test_turns(aq_atomic_domain *domain, int type)
{
    void *at = job_at(0, 64);
    for (int turn = 0; turn < TURNS;) {
        int now = (int)value_of(type, fetch(domain, 64));
        uint64_t seen = number(type, now), over = number(type, now - 1),
                 next = number(type, now + 1);
        CHECK_OK(aq_atomic(domain, 0, at, AQ_OP_CAS, &over, &next, NULL, 0));
        if (now % (int)job.size != (int)job.self) continue;
        CHECK_OK(aq_atomic(domain, 0, at, AQ_OP_CAS, &seen, &next, NULL, 0));
        CHECK((int)value_of(type, fetch(domain, 64)) > now);
        turn++;
    }
    job_barrier();
    CHECK((int)value_of(type, fetch(domain, 64)) == TURNS * (int)job.size);
}

/* Minima and maxima of values from all ranks, which arrive in any order. */
static void test_extremes(aq_atomic_domain *domain, int type)
{
    double seen = 1e9; /* the old minimum never increases */
    for (int i = 0; i < EACH; i++) {
        int mine = 100 + (i * 7 + (int)job.self * 13) % (EACH + (int)job.self);
        uint64_t bytes = number(type, mine);
        uint64_t old = bytes, *result = i % 2 != 0 ? &old : NULL;
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 16), AQ_OP_MAX, &bytes, NULL, result, 0));
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 24), AQ_OP_MIN, &bytes, NULL, result, 0));
        if (result == NULL) continue;
        CHECK(value_of(type, old) <= seen);
        seen = value_of(type, old);
    }
    job_barrier();
    double most = 0, least = 1e9;
    for (int r = 0; r < (int)job.size; r++)
        for (int i = 0; i < EACH; i++) {
            double mine = 100 + (i * 7 + r * 13) % (EACH + r);
            most = mine > most ? mine : most;
            least = mine < least ? mine : least;
        }
    CHECK(value_of(type, fetch(domain, 16)) == most);
    CHECK(value_of(type, fetch(domain, 24)) == least);
}

/* A token is passed by swap: a rank that takes it puts it back, so there is never more than one. */
static void test_swaps(aq_atomic_domain *domain, int type)
{
    uint64_t none = number(type, 0), token = number(type, 1), held = 0;
    for (int i = 0; i < EACH; i++) {
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 32), AQ_OP_SWAP, &none, NULL, &held, 0));
        if (value_of(type, held) == 0) continue;
        CHECK(value_of(type, held) == 1);
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 40), AQ_OP_INC, NULL, NULL, &held, 0));
        CHECK(value_of(type, held) == 0); /* the only holder of the token */
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 40), AQ_OP_DEC, NULL, NULL, NULL, 0));
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 32), AQ_OP_SET, &token, NULL, NULL, 0));
    }
    job_barrier();
    CHECK(value_of(type, fetch(domain, 32)) == 1);
}

/* Each rank has a bit, which it toggles an even number of times, sets, and clears. */
static void test_bits(aq_atomic_domain *domain, int type)
{
    uint64_t bit = 1ull << (job.self % 16), rest = ~bit, old;
    for (int i = 0; i < EACH; i++) {
        CHECK_OK(
            aq_atomic(domain, 0, job_at(0, 48), AQ_OP_XOR, &bit, NULL, i % 2 ? &old : NULL, 0));
        uint64_t *result = i % 2 != 0 ? &old : NULL;
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 56), AQ_OP_OR, &bit, NULL, result, 0));
        if (result != NULL && job.size <= 16) CHECK((old & bit) == 0);
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 56), AQ_OP_AND, &rest, NULL, result, 0));
        if (result != NULL && job.size <= 16) CHECK((old & bit) != 0);
    }
    job_barrier();
    CHECK(value_of(type, fetch(domain, 48)) == 0);
    CHECK(value_of(type, fetch(domain, 56)) == 0);
}

static void prepare(int type)
{
    uint64_t start[9] = {0};
    start[3] = number(type, 1000000);
    start[4] = number(type, 1);
    job_barrier();
    if (job.self == 0) memcpy(job.base, start, sizeof(start));
    job_barrier();
}

int main(void)
{
    const char *rank = getenv("AQ_RANK");
    if (rank != NULL && atoi(rank) % 2 == 1) setenv("AQ_FAULT", "hide=map+atomic,again=20", 1);
    job_open(AQ_THREAD_SINGLE, 4096);
    aq_segment_info info;
    CHECK_OK(aq_segment_query(job.team, 0, &info));
    if (rank != NULL && getenv("AQ_SHM_MAP") == NULL)
        CHECK((info.local == NULL) == (job.self % 2 == 1));
    for (int type = 0; type < MODEL_TYPES; type++) {
        aq_atomic_domain *domain;
        CHECK_OK(aq_atomic_domain_create(job.team, (aq_type)type, model_ops((unsigned)type), 0,
                                         &domain));
        prepare(type);
        test_sums(domain, type);
        test_cas(domain, type);
        test_turns(domain, type);
        test_extremes(domain, type);
        test_swaps(domain, type);
        if (!model_is_float((unsigned)type)) test_bits(domain, type);
        job_barrier();
        aq_atomic_domain_destroy(domain);
    }
    job_close();
    return 0;
}
