/*
 * Detects members of a team that are in different operations, so that none can complete.
 *
 * Every operation has a signature. In shared memory, it is in the lines that members read anyway,
 * or is added to the counter at which they arrive; otherwise, it is in each message. If signatures
 * are never compared, because members wait in different places, members that have waited long check
 * where the others wait (coll_waits_long).
 */
#include "core/coll/shm.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>

/* How long a member waits before it investigates; until then, this costs nothing. */
enum { COLL_STUCK_NS = 100000000, COLL_STUCK_TURNS = 16, COLL_STUCK_SPINS = 1 << 15 };

/* --- signatures ------------------------------------------------------------------------------ */

enum {
    SIGNATURE_KIND = 0x3f,
    SIGNATURE_ORDERED = 0x40,
    SIGNATURE_VARY = 0x80,
    SIGNATURE_CODE_SHIFT = 8,
    SIGNATURE_HIGH_SHIFT = 16
};

struct coll_signature coll_signature_of(const struct coll_args *args)
{
    bool vary = args->vary || args->send_counts != NULL || args->recv_counts != NULL;
    uint64_t bytes = vary ? args->table : args->nbytes;
    return (struct coll_signature){(uint32_t)args->kind | (vary ? SIGNATURE_VARY : 0) |
                                       (args->ordered ? SIGNATURE_ORDERED : 0) |
                                       (uint32_t)args->code << SIGNATURE_CODE_SHIFT |
                                       (uint32_t)(bytes >> 32) << SIGNATURE_HIGH_SHIFT,
                                   args->root, (uint32_t)bytes};
}

struct coll_signature coll_signature_of_barrier(uint32_t code)
{
    code = coll_barrier_code(code);
    return (struct coll_signature){COLL_BARRIER | code << SIGNATURE_CODE_SHIFT, 0, 0};
}

static const char *signature_type(uint32_t code)
{
    static const char *const names[] = {
        [AQ_TYPE_I32] = "I32", [AQ_TYPE_U32] = "U32", [AQ_TYPE_I64] = "I64",
        [AQ_TYPE_U64] = "U64", [AQ_TYPE_F32] = "F32", [AQ_TYPE_F64] = "F64"};
    uint32_t type = (code - 1) / COLL_CODE_OPS;
    return type < AQI_COUNT_OF(names) ? names[type] : "?";
}

static const char *signature_operator(uint32_t code)
{
    static const char *const names[COLL_CODE_OPS] = {
        [AQ_OP_ADD] = "ADD", [AQ_OP_MULT] = "MULT", [AQ_OP_MIN] = "MIN", [AQ_OP_MAX] = "MAX",
        [AQ_OP_AND] = "AND", [AQ_OP_OR] = "OR",     [AQ_OP_XOR] = "XOR"};
    const char *name = names[(code - 1) % COLL_CODE_OPS];
    return name != NULL ? name : "?";
}

void coll_signature_text(struct coll_signature signature, char *text)
{
    static const char *const names[COLL_KINDS] = {
        [COLL_BARRIER] = "aq_barrier_nb",
        [COLL_BROADCAST] = "aq_coll_broadcast",
        [COLL_REDUCE] = "aq_coll_reduce",
        [COLL_ALLREDUCE] = "aq_coll_allreduce",
        [COLL_GATHER] = "aq_coll_gather",
        [COLL_ALLGATHER] = "aq_coll_allgather",
        [COLL_SCATTER] = "aq_coll_scatter",
        [COLL_ALLTOALL] = "aq_coll_alltoall",
        [COLL_THROTTLE] = "16 collectives before it",
    };
    static const char *const calls[] = {"aq_segment_attach", "aq_finalize", "aq_barrier",
                                        "aq_team_destroy", "a call that creates teams"};
    uint32_t kind = signature.what & SIGNATURE_KIND,
             code = signature.what >> SIGNATURE_CODE_SHIFT & UINT8_MAX;
    uint64_t bytes = (uint64_t)(signature.what >> SIGNATURE_HIGH_SHIFT) << 32 | signature.bytes;
    const char *name = kind < COLL_KINDS ? names[kind] : "another one, which has ended", *v = "";
    if (code >= COLL_CODE_LEAST) name = calls[code - COLL_CODE_LEAST];
    if (signature.what & SIGNATURE_VARY) v = "v";
    int n = snprintf(text, COLL_TEXT, "%s%s", name, v);
    if (code >= COLL_CODE_LEAST || kind >= COLL_KINDS) return;
    if (!(signature.what & SIGNATURE_VARY) && kind != COLL_BARRIER && kind != COLL_THROTTLE)
        n += snprintf(text + n, (size_t)(COLL_TEXT - n), " of %llu bytes",
                      (unsigned long long)bytes);
    if (code != 0)
        n += snprintf(text + n, (size_t)(COLL_TEXT - n), " (AQ_TYPE_%s, AQ_OP_%s)",
                      signature_type(code), signature_operator(code));
    if (signature.what & SIGNATURE_ORDERED)
        n += snprintf(text + n, (size_t)(COLL_TEXT - n), ", in order");
    if (coll_rooted((enum coll_kind)kind))
        snprintf(text + n, (size_t)(COLL_TEXT - n), " with root %u", signature.root);
}

/* Members that wait for us in shared memory see it; others ask by message (coll_msg_ask). */
static void coll_give_up_in_memory(const aq_team *team)
{
    if (team == NULL || team->coll->shm == NULL) return;
    struct coll_shm *shm = team->coll->shm;
    team->coll->stuck = false; /* so that coll_waited does not clear it */
    atomic_store_explicit(&shm->stuck[shm->self].at, SHM_GAVE_UP, memory_order_release);
}

/* The team fails here, because of a mismatch found by us or by another member. */
static void coll_give_up(const aq_team *team)
{
    team = coll_whole(team);
    coll_fail(team);
    team->coll->mismatched = true;
    coll_give_up_in_memory(team);
    coll_give_up_in_memory(team->local);
}

/*
 * After a death members leave their operations at different points, and some have not noticed it
 * yet. So if the job goes on, a mismatch only fails the team.
 */
static bool coll_fails(const aq_team *team, const char *why)
{
    bool lost = atomic_load(&core.any_lost);
    if (!core.params.survive && !lost) return false;
    aqi_log(lost ? AQI_LOG_INFO : AQI_LOG_WARN, "core", "%s", why);
    coll_give_up(team);
    return true;
}

void coll_mismatch(const aq_team *team, struct coll_signature mine, aq_rank other,
                   struct coll_signature theirs)
{
    char my_text[COLL_TEXT], their_text[COLL_TEXT], why[3 * COLL_TEXT + 300];
    coll_signature_text(mine, my_text);
    coll_signature_text(theirs, their_text);
    snprintf(why, sizeof(why),
             "members of team %u.%u (%u ranks) are in different collectives: its rank %u (job rank "
             "%u) in %s, its rank %u (job rank %u) in %s: all members must start the same "
             "collectives in the same order, with the same root, sizes, type and operator",
             team->id[0], team->id[1], team->size, team->rank, core.params.rank, my_text, other,
             aq_team_to_job(team, other), their_text);
    if (!coll_fails(team, why)) core.boot.fatal(core.boot.arg, why);
}

/* --- in shared memory: members that wait long ------------------------------------------------ */

/* `op` is NULL for the barrier. */
static struct coll_slot *coll_stuck_slot(struct coll_shm *shm, const struct coll_op *op)
{
    return &shm->slots[op != NULL ? op->slot : SHM_SLOTS];
}

/* Also true of a member past that round, which may still be marked as stuck in an earlier one. */
static bool coll_has_arrived(const struct coll_slot *slot, uint32_t member, uint32_t round)
{
    uint32_t at =
        atomic_load_explicit(&shm_line_of(slot, member, round)->round, memory_order_acquire);
    return at - round <= INT32_MAX;
}

/* Whether every operation waits in shared memory for others, or behind one that does. */
static bool coll_all_wait(const aq_team *team)
{
    return team->coll->messages == 0 && !coll_any_ready(team);
}

/*
 * Whether we wait for a member that has failed: it has reported the cause, and will never arrive.
 */
static bool coll_waits_for_failed(const struct coll_shm *shm, const struct coll_slot *slot)
{
    for (uint32_t i = 0; i < shm->members; i++)
        if (atomic_load_explicit(&shm->stuck[i].at, memory_order_acquire) == SHM_GAVE_UP &&
            !coll_has_arrived(slot, i, slot->round))
            return true;
    return false;
}

/*
 * A stuck member waits in a call, has published its slot and round, and arrives nowhere else
 * meanwhile. If it has not arrived where we wait, nor we where it waits, neither can proceed.
 */
static void coll_look_for_others(const aq_team *team, struct coll_shm *shm,
                                 const struct coll_slot *slot)
{
    const struct coll_signature mine = shm->stuck[shm->self].signature;
    for (uint32_t i = 0; i < shm->members; i++) {
        struct shm_stuck *other = &shm->stuck[i];
        uint64_t at = atomic_load_explicit(&other->at, memory_order_seq_cst);
        uint32_t round = (uint32_t)at, place = (uint32_t)(at >> 32);
        if (place == 0 || place > SHM_SLOTS + 1 || &shm->slots[place - 1] == slot) continue;
        if (coll_has_arrived(slot, i, slot->round) ||
            coll_has_arrived(&shm->slots[place - 1], shm->self, round))
            continue;
        if (!coll_all_wait(team))
            return; /* one of our operations can proceed, perhaps the one that it waits for */
        coll_mismatch(team, mine, i, other->signature);
    }
}

static void coll_stuck_in_memory(aq_team *team, const struct coll_op *mine,
                                 struct coll_signature signature)
{
    struct coll_shm *shm = team->coll->shm;
    const struct coll_slot *slot = coll_stuck_slot(shm, mine);
    struct shm_stuck *stuck = &shm->stuck[shm->self];
    if (!coll_all_wait(team)) return;
    if (!team->coll->stuck) stuck->signature = signature;
    team->coll->stuck = true;
    /* seq_cst: each marks itself stuck before it checks, so of two members one sees the other. */
    atomic_store_explicit(&stuck->at, (uint64_t)(slot - shm->slots + 1) << 32 | slot->round,
                          memory_order_seq_cst);
    coll_look_for_others(team, shm, slot);
    if (coll_waits_for_failed(shm, slot)) coll_give_up(team);
}

/* Check the parts that wait in our neighborhood; only the leaders see the other parts. */
static void coll_stuck_in_part(aq_team *local)
{
    struct coll_shm *shm = local->coll->shm;
    core_lock(&local->coll->lock);
    for (const struct coll_op *op = local->coll->first; op != NULL && shm != NULL; op = op->next)
        if (!op->engine->messages && !atomic_load(&op->held) &&
            coll_waits_for_failed(shm, coll_stuck_slot(shm, op)))
            coll_give_up(local);
    core_unlock(&local->coll->lock);
}

/* --- waiting long ---------------------------------------------------------------------------- */

static bool coll_long_enough(const struct core_wait *wait)
{
    if (wait->yield_since == 0) return wait->rounds % COLL_STUCK_SPINS == 0 && wait->rounds != 0;
    return wait->rounds % COLL_STUCK_TURNS == 0 && aqi_now_ns() - wait->yield_since > COLL_STUCK_NS;
}

/* In mode multiple, another thread may still start the operation that the others are in. */
bool coll_may_be_stuck(const struct core_wait *wait)
{
    return core.thread_mode != AQ_THREAD_MULTIPLE && coll_long_enough(wait);
}

/* Called with the lock held. */
static void coll_stuck_in(aq_team *team, const struct coll_op *op)
{
    struct coll_signature signature =
        op != NULL ? op->signature : coll_signature_of_barrier(team->barrier_code);
    if (coll_broken(team)) return;
    if (team->coll->shm != NULL && (op == NULL || !op->engine->messages))
        coll_stuck_in_memory(team, op, signature);
    else
        coll_msg_ask(team);
    if (team->local != NULL) coll_stuck_in_part(team->local);
}

void coll_waits_long(aq_team *team, const struct coll_op *op, const struct core_wait *wait)
{
    if (!coll_may_be_stuck(wait)) return;
    core_lock(&team->coll->lock);
    coll_stuck_in(team, op);
    core_unlock(&team->coll->lock);
}

void coll_waited(aq_team *team)
{
    struct coll_shm *shm = team->coll->shm;
    team->coll->stuck = false;
    if (shm != NULL) atomic_store(&shm->stuck[shm->self].at, 0);
}

/* --- waiting for events ---------------------------------------------------------------------- */

/* The event that coll_ask_for_event searches for; used only if a single thread waits. */
static const struct aqi_op *coll_asked_event;

/* In an operation of several parts, the last one has the event. */
static bool coll_ask_for_event(aq_team *team)
{
    struct core_coll *coll = team->coll;
    core_lock(&coll->lock);
    for (const struct coll_op *op = coll->first; op != NULL; op = op->next) {
        const struct coll_op *last = op;
        while (last->then != NULL)
            last = last->then;
        if (last->event != coll_asked_event || atomic_load(&op->held)) continue;
        coll_stuck_in(team, op);
        break;
    }
    core_unlock(&coll->lock);
    return true;
}

void coll_event_waits(const struct aqi_op *op)
{
    coll_asked_event = op;
    (void)core_team_each(coll_ask_for_event);
}

static bool coll_team_waited(aq_team *team)
{
    if (team->coll->stuck) coll_waited(team);
    return true;
}

void coll_event_waited(void)
{
    (void)core_team_each(coll_team_waited);
}
