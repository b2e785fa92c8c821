/* Remote atomics: all operations and types compared with a model, sums by all ranks, locks. */
#include "../../model/atomics.h"
#include "../support.h"

#include <string.h>

static union model_value some_value(unsigned type)
{
    uint64_t random = job_random();
    return model_some(type, random, job_random());
}

/* --- against the model ------------------------------------------------------------------- */

/* One operation by one of its three calls. */
static void perform(aq_atomic_domain *domain, int form, aq_rank rank, void *at, unsigned op,
                    const union model_value *a, const union model_value *b, void *result)
{
    aq_event event;
    aq_op o = (aq_op)op;
    if (form == 0) {
        CHECK_OK(aq_atomic(domain, rank, at, o, a, b, result, 0));
    } else if (form == 1) {
        CHECK_OK(aq_atomic_nb(domain, rank, at, o, a, b, result, 0, &event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    } else {
        unsigned mask = o == AQ_OP_SET ? AQ_NBI_PUT : o == AQ_OP_GET ? AQ_NBI_GET : AQ_NBI_ATOMIC;
        CHECK_OK(aq_atomic_nbi(domain, rank, at, o, a, b, result, 0));
        CHECK_OK(aq_nbi_wait(mask, AQ_FOREVER));
    }
}

static void model_step(aq_atomic_domain *domain, unsigned type, unsigned op, aq_rank rank, int i)
{
    size_t size = model_size(type);
    void *at = job_at(rank, 4096 + job.self * (size_t)512 + job_random() % (512 / size) * size);
    union model_value old = some_value(type), a = some_value(type), b = some_value(type);
    if (op == AQ_OP_CAS && i % 2 == 0) a = old;
    bool fetch = model_must_fetch(op) || (model_may_fetch(op) && i % 3 != 0);
    unsigned char result[16];
    memset(result, 0xa5, sizeof(result));
    CHECK_OK(aq_put(job.team, rank, at, &old, size, 0));
    perform(domain, i % 3, rank, at, op, model_operands(op) > 0 ? &a : NULL,
            model_operands(op) > 1 ? &b : NULL, fetch ? result : NULL);
    if (fetch) CHECK(memcmp(result, &old, size) == 0);
    CHECK(all_bytes(result + (fetch ? size : 0), sizeof(result) - (fetch ? size : 0), 0xa5));
    union model_value now = {.u64 = 0}, want = model_after(type, op, old, a, b);
    CHECK_OK(aq_get(job.team, rank, &now, at, size, 0));
    if (memcmp(&now, &want, size) != 0)
        check_failed(__FILE__, __LINE__, "type %u op %u: old %llx a %llx b %llx: %llx, not %llx",
                     type, op, (unsigned long long)old.u64, (unsigned long long)a.u64,
                     (unsigned long long)b.u64, (unsigned long long)now.u64,
                     (unsigned long long)want.u64);
}

static void test_model(void)
{
    int times = job.size > 4 ? 3 : 12;
    for (unsigned type = 0; type < MODEL_TYPES; type++) {
        aq_atomic_domain *domain;
        CHECK_OK(aq_atomic_domain_create(job.team, (aq_type)type, model_ops(type), 0, &domain));
        for (unsigned op = 0; op < MODEL_OPS; op++)
            for (int i = 0; i < times && (model_ops(type) & AQ_OP_BIT(op)) != 0; i++)
                model_step(domain, type, op, (aq_rank)(job_random() % job.size), i);
        aq_atomic_domain_destroy(domain);
    }
    job_barrier();
}

/* --- all ranks at one place --------------------------------------------------------------- */

/* All ranks add at once to memory of the last rank; the sums are exact in every type. */
static void test_sums(void)
{
    uint32_t each = 2000 / job.size + 10;
    aq_rank owner = job.size - 1;
    for (unsigned type = 0; type < MODEL_TYPES; type++) {
        aq_atomic_domain *domain;
        union model_value one = {.u64 = 1};
        if (type == AQ_TYPE_F32) one.f32 = 1;
        if (type == AQ_TYPE_F64) one.f64 = 1;
        CHECK_OK(aq_atomic_domain_create(job.team, (aq_type)type, model_ops(type), 0, &domain));
        if (job.self == owner) memset(job.base, 0, 64);
        job_barrier();
        for (uint32_t i = 0; i < each; i++) {
            CHECK_OK(aq_atomic_nbi(domain, owner, job_at(owner, 0), i % 2 ? AQ_OP_ADD : AQ_OP_INC,
                                   i % 2 ? &one : NULL, NULL, NULL, 0));
            CHECK_OK(aq_atomic(domain, owner, job_at(owner, 8), AQ_OP_SUB, &one, NULL, NULL, 0));
        }
        CHECK_OK(aq_nbi_wait(AQ_NBI_ATOMIC, AQ_FOREVER));
        job_barrier();
        union model_value up, down;
        CHECK_OK(aq_atomic(domain, owner, job_at(owner, 0), AQ_OP_GET, NULL, NULL, &up, 0));
        CHECK_OK(aq_atomic(domain, owner, job_at(owner, 8), AQ_OP_GET, NULL, NULL, &down, 0));
        int64_t n = (int64_t)each * job.size;
        if (type == AQ_TYPE_F32) CHECK(up.f32 == (float)n && down.f32 == (float)-n);
        if (type == AQ_TYPE_F64) CHECK(up.f64 == (double)n && down.f64 == (double)-n);
        if (type == AQ_TYPE_I32 || type == AQ_TYPE_U32) CHECK(up.i32 == n && down.i32 == -n);
        if (type == AQ_TYPE_I64 || type == AQ_TYPE_U64) CHECK(up.i64 == n && down.i64 == -n);
        aq_atomic_domain_destroy(domain);
        job_barrier();
    }
}

/* Tickets: each number is drawn exactly once, and each rank draws increasing ones. */
static void test_tickets(void)
{
    uint64_t each = 2000 / job.size + 10, last = 0, drawn = 0;
    aq_atomic_domain *domain;
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U64, AQ_OP_BIT(AQ_OP_INC), 0, &domain));
    if (job.self == 0) memset(job.base, 0, 64);
    job_barrier();
    for (uint64_t i = 0; i < each; i++) {
        uint64_t ticket;
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 0), AQ_OP_INC, NULL, NULL, &ticket, 0));
        CHECK(i == 0 || ticket > last);
        last = ticket;
        drawn += mix(ticket);
    }
    CHECK_OK(aq_put(job.team, 0, job_at(0, 1024 + job.self * 8), &drawn, sizeof(drawn), 0));
    job_barrier();
    if (job.self == 0) {
        uint64_t sum = 0, want = 0, part;
        for (aq_rank rank = 0; rank < job.size; rank++) {
            memcpy(&part, job.base + 1024 + rank * 8, sizeof(part));
            sum += part;
        }
        for (uint64_t ticket = 0; ticket < each * job.size; ticket++)
            want += mix(ticket);
        CHECK(sum == want);
    }
    aq_atomic_domain_destroy(domain);
    job_barrier();
}

/* Compare-and-swap loops that double a value modulo a prime reveal any update that is not
 * atomic. */
static void test_cas_loop(void)
{
    uint32_t each = 500 / job.size + 5;
    aq_atomic_domain *domain;
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U32,
                                     AQ_OP_BIT(AQ_OP_CAS) | AQ_OP_BIT(AQ_OP_GET), 0, &domain));
    if (job.self == 0) memcpy(job.base + 16, &(uint32_t){1}, 4);
    job_barrier();
    for (uint32_t i = 0; i < each; i++) {
        uint32_t seen, old;
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 16), AQ_OP_GET, NULL, NULL, &seen, 0));
        for (;;) {
            uint32_t next = (uint32_t)((uint64_t)seen * 2 % 1000003);
            CHECK_OK(aq_atomic(domain, 0, job_at(0, 16), AQ_OP_CAS, &seen, &next, &old, 0));
            if (old == seen) break;
            seen = old;
        }
    }
    job_barrier();
    uint32_t want = 1, got;
    for (uint32_t i = 0; i < each * job.size; i++)
        want = (uint32_t)((uint64_t)want * 2 % 1000003);
    CHECK_OK(aq_atomic(domain, 0, job_at(0, 16), AQ_OP_GET, NULL, NULL, &got, 0));
    CHECK_EQUAL(got, want);
    aq_atomic_domain_destroy(domain);
    job_barrier();
}

/* A lock made of atomics orders the plain puts and gets of its holders. */
static void test_lock(void)
{
    uint32_t each = 200 / job.size + 2, free_word = 0, mine = job.self + 1;
    aq_atomic_domain *domain;
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U32, AQ_OPS_ALL, 0, &domain));
    if (job.self == 0) memset(job.base, 0, 64);
    job_barrier();
    for (uint32_t i = 0; i < each; i++) {
        uint32_t old = 1;
        uint64_t count;
        while (old != 0)
            CHECK_OK(aq_atomic(domain, 0, job_at(0, 0), AQ_OP_CAS, &free_word, &mine, &old, 0));
        CHECK_OK(aq_get(job.team, 0, &count, job_at(0, 40), sizeof(count), 0));
        count++;
        CHECK_OK(aq_put(job.team, 0, job_at(0, 40), &count, sizeof(count), 0));
        CHECK_OK(aq_atomic(domain, 0, job_at(0, 0), AQ_OP_SWAP, &free_word, NULL, &old, 0));
        CHECK_EQUAL(old, mine);
    }
    job_barrier();
    uint64_t count;
    CHECK_OK(aq_get(job.team, 0, &count, job_at(0, 40), sizeof(count), 0));
    CHECK_EQUAL(count, (uint64_t)each * job.size);
    aq_atomic_domain_destroy(domain);
    job_barrier();
}

/* Operands are read before the call returns, and many results are pending at once. */
static void test_outstanding(void)
{
    enum { COUNT = 1000 };
    static aq_event events[COUNT];
    static uint32_t results[COUNT];
    aq_atomic_domain *domain;
    aq_rank next = job_next();
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U32, AQ_OPS_ALL, 0, &domain));
    memset(job.base + 8192 + job_previous() * (size_t)COUNT * 4, 0, (size_t)COUNT * 4);
    job_barrier();
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t operand = i * 3 + job.self;
        void *at = job_at(next, 8192 + job.self * (size_t)COUNT * 4 + i * 4);
        CHECK_OK(
            aq_atomic_nb(domain, next, at, AQ_OP_SWAP, &operand, NULL, &results[i], 0, &events[i]));
        operand = 0xdeadbeef;
    }
    CHECK_OK(aq_event_wait_all(events, COUNT, AQ_FOREVER));
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_EQUAL(results[i], 0);
    job_barrier();
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t got;
        memcpy(&got, job.base + 8192 + (job_previous() * (size_t)COUNT + i) * 4, 4);
        CHECK_EQUAL(got, i * 3 + job_previous());
    }
    aq_atomic_domain_destroy(domain);
    job_barrier();
}

int main(void)
{
    job.segment_modes = ALL_SEGMENT_MODES;
    job_open(AQ_THREAD_SINGLE, 0);
    job.len = 32768 + job.size * (size_t)4096;
    job_attach(job.len);
    test_model();
    test_sums();
    test_tickets();
    test_cas_loop();
    test_lock();
    test_outstanding();
    job_close();
    return 0;
}
