/* Remote atomics: domains, and their operations by the processor or by the transport. */
#include "core/rma/rma.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct aq_atomic_domain {
    aq_team *team;
    aq_type type;
    unsigned ops;    /* 0: destroyed, so that every operation is rejected */
    unsigned direct; /* operations that have an instruction of the processor */
    uint8_t size;
    aq_atomic_domain *next;
};

/* Destroyed domains are kept for a while, so that using one is an error and not a crash. */
enum { DOMAIN_TOMBSTONES = 64 };

static struct {
    struct aqi_spin lock;
    aq_atomic_domain *first, **last;
    unsigned destroyed;
} domains = {.last = &domains.first};

/*
 * Every path ends in a sequentially consistent operation on the target's processor, and messages
 * release and acquire: the two flags need nothing more.
 */
#define FLAGS (CORE_RMA_FLAGS | AQ_ATOMIC_ACQUIRE | AQ_ATOMIC_RELEASE)

/* The number of operands of each operation. */
static const uint8_t operands[] = {
    [AQ_OP_SET] = 1, [AQ_OP_GET] = 0,  [AQ_OP_SWAP] = 1, [AQ_OP_CAS] = 2, [AQ_OP_ADD] = 1,
    [AQ_OP_SUB] = 1, [AQ_OP_MULT] = 1, [AQ_OP_MIN] = 1,  [AQ_OP_MAX] = 1, [AQ_OP_INC] = 0,
    [AQ_OP_DEC] = 0, [AQ_OP_AND] = 1,  [AQ_OP_OR] = 1,   [AQ_OP_XOR] = 1,
};
static_assert(AQ_OPS_ALL == (1u << AQI_COUNT_OF(operands)) - 1, "an entry for each operation");

#define OPS_BY_CAS (AQ_OP_BIT(AQ_OP_MULT) | AQ_OP_BIT(AQ_OP_MIN) | AQ_OP_BIT(AQ_OP_MAX))

/* Operations that the processor has an instruction for; floating-point arithmetic has none. */
static unsigned rma_atomic_direct(aq_type type, unsigned ops)
{
    const unsigned bits =
        AQ_OP_BIT(AQ_OP_SET) | AQ_OP_BIT(AQ_OP_GET) | AQ_OP_BIT(AQ_OP_SWAP) | AQ_OP_BIT(AQ_OP_CAS);
    return type == AQ_TYPE_F32 || type == AQ_TYPE_F64 ? ops & bits : ops & ~OPS_BY_CAS;
}

/* Memory for a domain: reuses the oldest tombstone if there are too many. */
static aq_atomic_domain *rma_atomic_domain_new(void)
{
    aq_atomic_domain **at = &domains.first, *d = NULL;
    aqi_spin_lock(&domains.lock);
    while (domains.destroyed > DOMAIN_TOMBSTONES && (*at)->ops != 0)
        at = &(*at)->next;
    if (domains.destroyed > DOMAIN_TOMBSTONES) {
        d = *at;
        *at = d->next;
        if (*at == NULL) domains.last = at;
        domains.destroyed--;
    }
    aqi_spin_unlock(&domains.lock);
    return d != NULL ? d : malloc(sizeof(*d));
}

aq_status aq_atomic_domain_create(aq_team *team, aq_type type, unsigned ops, unsigned flags,
                                  aq_atomic_domain **domain)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK) return st;
    if (team == NULL || domain == NULL || ops == 0 || (ops & ~AQ_OPS_ALL) != 0)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: the team or the domain pointer is NULL, or ops has none or other bits "
                        "than AQ_OP_BIT()s",
                        __func__);
    if (flags != 0) return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", __func__, flags);
    for (unsigned op = 0; op < AQI_COUNT_OF(operands); op++)
        if ((ops & AQ_OP_BIT(op)) && !aqi_atomic_valid((uint8_t)op, (uint8_t)type))
            return aqi_fail(AQ_EINVAL, "core", "%s: operation %u does not exist for type %d",
                            __func__, op, (int)type);
    aq_atomic_domain *d = rma_atomic_domain_new();
    if (d == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: out of memory", __func__);
    *d = (aq_atomic_domain){.team = team,
                            .type = type,
                            .ops = ops,
                            .direct = rma_atomic_direct(type, ops),
                            .size = (uint8_t)aqi_atomic_size((uint8_t)type)};
    aqi_spin_lock(&domains.lock);
    *domains.last = d;
    domains.last = &d->next;
    aqi_spin_unlock(&domains.lock);
    *domain = d;
    return AQ_OK;
}

aq_status aq_atomic_domain_query(const aq_atomic_domain *domain, aq_atomic_domain_info *info)
{
    if (domain == NULL || info == NULL || domain->ops == 0)
        return aqi_fail(AQ_EINVAL, "core", "aq_atomic_domain_query: %s",
                        domain == NULL || info == NULL ? "a pointer is NULL"
                                                       : "the domain has been destroyed");
    *info = (aq_atomic_domain_info){
        .team = domain->team, .type = domain->type, .ops = domain->ops, .size = domain->size};
    return AQ_OK;
}

aq_status aq_atomic_domain_destroy(aq_atomic_domain *domain)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK || domain == NULL) return st;
    aqi_spin_lock(&domains.lock);
    aq_atomic_domain *d = domains.first;
    while (d != NULL && d != domain)
        d = d->next;
    bool there = d != NULL && d->ops != 0;
    if (there) d->ops = d->direct = 0;
    domains.destroyed += there;
    aqi_spin_unlock(&domains.lock);
    return there
               ? AQ_OK
               : aqi_fail(AQ_EINVAL, "core", "%s: the domain has already been destroyed", __func__);
}

void core_domains_close(void)
{
    while (domains.first != NULL) {
        aq_atomic_domain *next = domains.first->next;
        free(domains.first);
        domains.first = next;
    }
    domains.last = &domains.first;
    domains.destroyed = 0;
}

/* An operation carried by the transport. */
struct carried {
    struct core_route *route;
    const struct aqi_atomic *req;
    void *result;
    unsigned flags;
    const char *call;
};

static AQI_COLD aq_status atomic_refused(const aq_atomic_domain *d, const void *addr, aq_op op,
                                         unsigned flags, bool pointers, const char *call)
{
    if (d == NULL || d->ops == 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: the domain %s", call,
                        d == NULL ? "is NULL" : "has been destroyed");
    if ((unsigned)op >= AQI_COUNT_OF(operands) || !(d->ops & AQ_OP_BIT(op)))
        return aqi_fail(AQ_EINVAL, "core", "%s: operation %d is not one of those of the domain",
                        call, (int)op);
    if (!pointers)
        return aqi_fail(
            AQ_EINVAL, "core",
            "%s: an operand or the pointer to the result is missing, or AQ_OP_SET was given one",
            call);
    if ((flags & ~FLAGS) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x, or the event is NULL", call,
                        flags);
    return aqi_fail(AQ_EINVAL, "core", "%s: address %p is not aligned to %u bytes", call, addr,
                    d->size);
}

/* Whether all pointers that an operation needs are given, and no others. */
static inline bool atomic_pointers(aq_op op, const void *operand1, const void *operand2,
                                   const void *result)
{
    if ((operands[op] > 0 && operand1 == NULL) || (operands[op] > 1 && operand2 == NULL))
        return false;
    return result != NULL ? op != AQ_OP_SET : op != AQ_OP_GET && op != AQ_OP_SWAP;
}

static inline uint64_t atomic_load_operand(const void *from, uint8_t size)
{
    uint32_t half;
    uint64_t whole;
    if (size == sizeof(whole)) {
        memcpy(&whole, from, sizeof(whole));
        return whole;
    }
    memcpy(&half, from, sizeof(half));
    return half;
}

static aq_status rma_atomic_start(void *arg, struct aqi_comp *comp)
{
    const struct carried *c = arg;
    struct core_wait wait = {0};
    struct aqi_tp *tp = c->route->tp;
    aq_status st;
    aqi_comp_add(comp, &comp->remote, 1);
    do
        st = tp->ops.atomic(tp, c->route->peer, c->route->rmem, c->req, c->result, comp);
    while (core_retry(&st, &wait, c->route, false, c->flags));
    if (st == AQ_OK) return AQ_OK;
    aqi_comp_remote(comp);
    return st == AQ_EPEER ? core_lost(c->route, c->call) : st;
}

/* Counts as atomic if explicit or blocking; an implicit set or get counts as a put or get. */
static size_t rma_atomic_kind_of(enum core_mode mode, uint8_t op)
{
    if (mode == IMPLICIT && op == AQ_OP_SET) return offsetof(struct core_set, put);
    if (mode == IMPLICIT && op == AQ_OP_GET) return offsetof(struct core_set, get);
    return offsetof(struct core_set, atomic);
}

/* Takes scalars, so that they stay in registers if memory is mapped. */
static inline aq_status atomic_now(enum core_mode mode, aq_atomic_domain *d, aq_rank rank,
                                   void *addr, aq_op op, const void *operand1, const void *operand2,
                                   void *result, unsigned flags, aq_event *ev, const char *call)
{
    uint64_t remote = (uint64_t)(uintptr_t)addr, a = 0, b = 0;
    struct core_thread *me = core_self();
    aq_status st = core_callable(me, call);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    if (AQI_UNLIKELY(d == NULL || (unsigned)op >= AQI_COUNT_OF(operands) ||
                     !(d->ops & AQ_OP_BIT(op))))
        return atomic_refused(d, addr, op, flags, true, call);
    if (AQI_UNLIKELY(!atomic_pointers(op, operand1, operand2, result)))
        return atomic_refused(d, addr, op, flags, false, call);
    struct core_route *route = core_route_to(d->team, rank, call, &st);
    if (AQI_UNLIKELY(route == NULL)) return st;
    if (AQI_UNLIKELY((flags & ~FLAGS) != 0 || (mode == EXPLICIT && ev == NULL)))
        return atomic_refused(d, addr, op, UINT_MAX, true, call);
    if (AQI_UNLIKELY(flags & AQ_REMOTE_OFFSET)) remote += route->seg_addr;
    if (AQI_UNLIKELY((remote & (d->size - 1u)) != 0))
        return atomic_refused(d, addr, op, flags, true, call);
    if (AQI_UNLIKELY(!core_in_segment(route, remote, d->size)))
        return core_out_of_segment(route, remote, d->size, call);
    if (operands[op] > 0) a = atomic_load_operand(operand1, d->size);
    if (operands[op] > 1) b = atomic_load_operand(operand2, d->size);
    if (AQI_UNLIKELY(route->local == NULL)) {
        const struct aqi_atomic req = {.addr = remote,
                                       .operand1 = a,
                                       .operand2 = b,
                                       .op = (uint8_t)op,
                                       .type = (uint8_t)d->type,
                                       .fetch = result != NULL};
        struct carried c = {route, &req, result, flags, call};
        st = core_carry(mode, rma_atomic_kind_of(mode, req.op), route, rma_atomic_start, &c, ev,
                        call);
        if (st == AQ_OK) aqi_count(AQI_CTR_ATOMIC, 1);
        return st;
    }
    aqi_count(AQI_CTR_ATOMIC, 1);
    uint64_t old = aqi_atomic_do((uint8_t)op, (uint8_t)d->type,
                                 route->local + (remote - route->seg_addr), a, b);
    if (result != NULL && d->size == sizeof(old)) memcpy(result, &old, sizeof(old));
    if (result != NULL && d->size != sizeof(old)) memcpy(result, &old, sizeof(uint32_t));
    if (mode == EXPLICIT) *ev = AQ_EVENT_DONE;
    if (mode == BLOCKING) core_done_directly(me);
    return AQ_OK;
}

static AQI_COLD aq_status atomic_traced(enum core_mode mode, aq_atomic_domain *d, aq_rank rank,
                                        void *addr, aq_op op, const void *operand1,
                                        const void *operand2, void *result, unsigned flags,
                                        aq_event *ev, const char *call)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_ATOMIC);
    aq_status st = atomic_now(mode, d, rank, addr, op, operand1, operand2, result, flags, ev, call);
    aqi_trace_end(AQI_TRACE_ATOMIC, call, begun, rank, st == AQ_OK ? d->size : 0);
    return st;
}

static AQI_INLINE aq_status rma_atomic_any(enum core_mode mode, aq_atomic_domain *d, aq_rank rank,
                                           void *addr, aq_op op, const void *operand1,
                                           const void *operand2, void *result, unsigned flags,
                                           aq_event *ev, const char *call)
{
    if (aqi_tracing(AQI_TRACE_ATOMIC))
        return atomic_traced(mode, d, rank, addr, op, operand1, operand2, result, flags, ev, call);
    return atomic_now(mode, d, rank, addr, op, operand1, operand2, result, flags, ev, call);
}

/* --- the common case: an instruction, and no errors ------------------------------------------- */

/* The address of the mapped word. NULL: not the common case; take the general path. */
static AQI_INLINE void *atomic_usual_place(const aq_atomic_domain *d, aq_rank rank,
                                           const void *addr, aq_op op, const void *operand1,
                                           const void *operand2, const void *result, unsigned flags)
{
    const uint64_t remote = (uint64_t)(uintptr_t)addr;
    if (AQI_UNLIKELY(flags != 0 || aqi_tracing(AQI_TRACE_ATOMIC) ||
                     !core_may_call(core_thread_mine) || aqi_counters_mine == NULL || d == NULL ||
                     (unsigned)op >= AQI_COUNT_OF(operands) || !(d->ops & AQ_OP_BIT(op)) ||
                     !atomic_pointers(op, operand1, operand2, result) || rank >= d->team->size))
        return NULL;
    const struct core_route *route = core_team_route(d->team, rank);
    if (AQI_UNLIKELY(route->local == NULL || (remote & (d->size - 1u)) != 0 ||
                     !core_in_segment(route, remote, d->size)))
        return NULL;
    return route->local + (remote - route->seg_addr);
}

#define INSTRUCTION(width)                                                                         \
    static AQI_INLINE void atomic_instruction##width(_Atomic uint##width##_t *at, aq_op op,        \
                                                     const void *operand1, const void *operand2,   \
                                                     void *result)                                 \
    {                                                                                              \
        uint##width##_t a = 1, b, old; /* AQ_OP_INC and AQ_OP_DEC add 1 */                         \
        if (operands[op] > 0) memcpy(&a, operand1, sizeof(a));                                     \
        switch (op) {                                                                              \
        case AQ_OP_ADD:                                                                            \
        case AQ_OP_INC:                                                                            \
            old = atomic_fetch_add(at, a);                                                         \
            break;                                                                                 \
        case AQ_OP_SUB:                                                                            \
        case AQ_OP_DEC:                                                                            \
            old = atomic_fetch_sub(at, a);                                                         \
            break;                                                                                 \
        case AQ_OP_CAS:                                                                            \
            memcpy(&b, operand2, sizeof(b));                                                       \
            old = a;                                                                               \
            atomic_compare_exchange_strong(at, &old, b);                                           \
            break;                                                                                 \
        case AQ_OP_GET:                                                                            \
            old = atomic_load(at);                                                                 \
            break;                                                                                 \
        case AQ_OP_SET:                                                                            \
            atomic_store(at, a);                                                                   \
            return;                                                                                \
        case AQ_OP_SWAP:                                                                           \
            old = atomic_exchange(at, a);                                                          \
            break;                                                                                 \
        case AQ_OP_AND:                                                                            \
            old = atomic_fetch_and(at, a);                                                         \
            break;                                                                                 \
        case AQ_OP_OR:                                                                             \
            old = atomic_fetch_or(at, a);                                                          \
            break;                                                                                 \
        default:                                                                                   \
            old = atomic_fetch_xor(at, a);                                                         \
        }                                                                                          \
        if (result != NULL) memcpy(result, &old, sizeof(old));                                     \
    }
INSTRUCTION(32)
INSTRUCTION(64)

static AQI_INLINE aq_status rma_atomic_end(enum core_mode mode, aq_event *ev)
{
    aqi_count_in(aqi_counters_mine, AQI_CTR_ATOMIC, 1);
    if (mode == EXPLICIT) *ev = AQ_EVENT_DONE;
    return mode == BLOCKING ? core_direct_end(core_thread_mine) : AQ_OK;
}

/* For an operation without an instruction of the processor. */
static AQI_NOINLINE aq_status rma_atomic_by_cas(enum core_mode mode, const aq_atomic_domain *d,
                                                void *at, aq_op op, const void *operand1,
                                                void *result, aq_event *ev)
{
    uint64_t a = operands[op] > 0 ? atomic_load_operand(operand1, d->size) : 0;
    uint64_t old = aqi_atomic_do((uint8_t)op, (uint8_t)d->type, at, a, 0);
    if (result != NULL && d->size == sizeof(old)) memcpy(result, &old, sizeof(old));
    if (result != NULL && d->size != sizeof(old)) memcpy(result, &old, sizeof(uint32_t));
    return rma_atomic_end(mode, ev);
}

/* A form of the call. The general path is a separate function, reached by a tail call. */
#define FORM(NAME, MODE, EV, PARAMS, VALUES, ...)                                                  \
    static AQI_NOINLINE aq_status rma_any_##NAME PARAMS                                            \
    {                                                                                              \
        return rma_atomic_any(MODE, __VA_ARGS__, flags, EV, "aq_" #NAME);                          \
    }                                                                                              \
    aq_status aq_##NAME PARAMS                                                                     \
    {                                                                                              \
        void *at = atomic_usual_place(domain, rank, addr, op, operand1, operand2, result, flags);  \
        if (AQI_UNLIKELY(at == NULL || (MODE == EXPLICIT && EV == NULL)))                          \
            return rma_any_##NAME VALUES;                                                          \
        if (!(domain->direct & AQ_OP_BIT(op)))                                                     \
            return rma_atomic_by_cas(MODE, domain, at, op, operand1, result, EV);                  \
        if (domain->size == sizeof(uint64_t))                                                      \
            atomic_instruction64(at, op, operand1, operand2, result);                              \
        else                                                                                       \
            atomic_instruction32(at, op, operand1, operand2, result);                              \
        return rma_atomic_end(MODE, EV);                                                           \
    }
CORE_FORMS_BY(FORM, atomic,
              (aq_atomic_domain * domain, aq_rank rank, void *addr, aq_op op, const void *operand1,
               const void *operand2, void *result),
              (domain, rank, addr, op, operand1, operand2, result), domain, rank, addr, op,
              operand1, operand2, result)
