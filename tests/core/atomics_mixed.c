/*
 * Coherence of atomics: in one job the even ranks reach a location by the processor and the odd
 * ones by messages, all at once, with every type and operation, and no update may be lost.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EACH = 300, TYPES = AQ_F64 + 1 };

static const size_t sizes[TYPES] = {4, 4, 8, 8, 4, 8};

static bool is_float(int type)
{
    return type == AQ_F32 || type == AQ_F64;
}

/* A small whole number in each type. */
static uint64_t number(int type, int value)
{
    uint64_t bytes = 0;
    float f = (float)value;
    double d = value;
    int32_t i = value;
    int64_t l = value;
    const void *from = type == AQ_F32     ? (void *)&f
                       : type == AQ_F64   ? (void *)&d
                       : sizes[type] == 4 ? (void *)&i
                                          : (void *)&l;
    memcpy(&bytes, from, sizes[type]);
    return bytes;
}

static double value_of(int type, uint64_t bytes)
{
    float f;
    double d;
    memcpy(&f, &bytes, 4);
    memcpy(&d, &bytes, 8);
    return type == AQ_F32 ? (double)f : type == AQ_F64 ? d : (double)bytes;
}

static uint64_t fetch(aq_atomic_domain *domain, size_t at)
{
    uint64_t old = 0;
    CHECK_OK(aq_atomic(domain, 0, job_at(0, at), AQ_GET, NULL, NULL, &old));
    return old;
}

/* Ups and downs by every operation that adds; what is left is known. */
static void test_sums(aq_atomic_domain *domain, int type)
{
    uint64_t one = number(type, 1), two = number(type, 2), old;
    void *at = job_at(0, 0);
    for (int i = 0; i < EACH; i++) {
        void *result = i % 2 ? &old : NULL;
        CHECK_OK(aq_atomic_nbi(domain, 0, at, AQ_ADD, &two, NULL, result, AQ_ATOMIC_RELEASE));
        CHECK_OK(aq_atomic_nbi(domain, 0, at, AQ_INC, NULL, NULL, NULL, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_ATOMIC));
        CHECK_OK(aq_atomic(domain, 0, at, AQ_SUB, &one, NULL, result));
        CHECK_OK(aq_atomic(domain, 0, at, AQ_DEC, NULL, NULL, NULL));
    }
    job_barrier();
    CHECK(value_of(type, fetch(domain, 0)) == (double)EACH * job.size);
}

/* Increments by compare-and-swap, fetching and not: each success counts once. */
static void test_cas(aq_atomic_domain *domain, int type)
{
    void *at = job_at(0, 8);
    for (int i = 0; i < EACH;) {
        uint64_t seen = fetch(domain, 8), old = 0;
        uint64_t next = number(type, (int)value_of(type, seen) + 1);
        CHECK_OK(aq_atomic(domain, 0, at, AQ_CAS, &seen, &next, &old));
        if (memcmp(&old, &seen, sizes[type]) == 0) i++;
    }
    job_barrier();
    CHECK(value_of(type, fetch(domain, 8)) == (double)EACH * job.size);
}

/* The extremes of what all offer, in any order. */
static void test_extremes(aq_atomic_domain *domain, int type)
{
    for (int i = 0; i < EACH; i++) {
        int mine = 100 + (i * 7 + (int)job.self * 13) % (EACH + (int)job.self);
        uint64_t bytes = number(type, mine);
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 16), AQ_MAX, &bytes, NULL, NULL));
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 24), AQ_MIN, &bytes, NULL, NULL));
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

/* A token of swaps: what is taken out is put back, so that it is never doubled. */
static void test_swaps(aq_atomic_domain *domain, int type)
{
    uint64_t none = number(type, 0), token = number(type, 1), held = 0;
    for (int i = 0; i < EACH; i++) {
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 32), AQ_SWAP, &none, NULL, &held));
        if (value_of(type, held) == 0) continue;
        CHECK(value_of(type, held) == 1);
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 40), AQ_INC, NULL, NULL, &held));
        CHECK(value_of(type, held) == 0); /* alone with the token */
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 40), AQ_DEC, NULL, NULL, NULL));
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 32), AQ_SET, &token, NULL, NULL));
    }
    job_barrier();
    CHECK(value_of(type, fetch(domain, 32)) == 1);
}

/* A bit of each rank; toggled an even number of times, set, and cleared. */
static void test_bits(aq_atomic_domain *domain, int type)
{
    uint64_t bit = 1ull << (job.self % 16), rest = ~bit, old;
    for (int i = 0; i < EACH; i++) {
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 48), AQ_XOR, &bit, NULL, i % 2 ? &old : NULL));
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 56), AQ_OR, &bit, NULL, &old));
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 56), AQ_AND, &rest, NULL, &old));
        if (job.size <= 16) CHECK((old & bit) != 0);
    }
    job_barrier();
    CHECK(value_of(type, fetch(domain, 48)) == 0);
    CHECK(value_of(type, fetch(domain, 56)) == 0);
}

static void prepare(int type)
{
    uint64_t start[8] = {0};
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
    for (int type = AQ_I32; type < TYPES; type++) {
        unsigned bits = AQ_OP_BIT(AQ_AND) | AQ_OP_BIT(AQ_OR) | AQ_OP_BIT(AQ_XOR);
        aq_atomic_domain *domain;
        CHECK_OK(aq_atomic_domain_create(job.team, (aq_atomic_type)type,
                                         is_float(type) ? AQ_OPS_ALL & ~bits : AQ_OPS_ALL,
                                         &domain));
        prepare(type);
        test_sums(domain, type);
        test_cas(domain, type);
        test_extremes(domain, type);
        test_swaps(domain, type);
        if (!is_float(type)) test_bits(domain, type);
        job_barrier();
        aq_atomic_domain_destroy(domain);
    }
    job_close();
    return 0;
}
