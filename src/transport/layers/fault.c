/*
 * The fault decorator: wraps an open transport, and rejects calls, delays completions, hides
 * capabilities and loses a peer.
 */
#include "transport/layers/fault.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/spin.h"
#include "transport/layers/fault_credits.h"
#include "transport/layers/fault_swap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool on;
    unsigned hide;
    uint64_t again, late, swap, credits, seed;
    uint64_t depth; /* 0: not limited */
    uint64_t die_id;
    uint64_t die_after; /* 0: no peer dies */
} fault_config;

static const struct {
    const char *name;
    uint64_t max;
    uint64_t *value;
} numbers[] = {
    {"again", 95, &fault_config.again},         {"late", 1000, &fault_config.late},
    {"swap", 95, &fault_config.swap},           {"credits", 1, &fault_config.credits},
    {"depth", UINT32_MAX, &fault_config.depth}, {"seed", UINT64_MAX, &fault_config.seed},
};

static const struct {
    const char *name;
    unsigned bits;
} hideable[] = {
    {"reserve", AQI_CAP_RESERVE}, {"put", AQI_CAP_PUT},
    {"get", AQI_CAP_GET},         {"atomic", AQI_CAP_ATOMIC},
    {"fill", AQI_CAP_FILL},       {"pull", AQI_CAP_PULL},
    {"long", AQI_CAP_LONG},       {"map", AQI_CAP_MAP | AQI_CAP_MEM_FD},
    {"alloc", AQI_CAP_ALLOC},     {"wait", AQI_CAP_WAIT_FD | AQI_CAP_ROOM},
    {"rows", AQI_CAP_ROWS},       {"reg", AQI_CAP_REG | AQI_CAP_MAP | AQI_CAP_MEM_FD},
};

/* --- the specification ----------------------------------------------------------------------- */

static bool fault_parse_number(const char *text, uint64_t max, uint64_t *value)
{
    char *end;
    if (*text < '0' || *text > '9') return false;
    unsigned long long v = strtoull(text, &end, 10);
    if (*end != 0 || v > max) return false;
    *value = v;
    return true;
}

static bool fault_parse_hide(char *list)
{
    char *save;
    for (char *word = strtok_r(list, "+", &save); word; word = strtok_r(NULL, "+", &save)) {
        size_t i = 0;
        while (i < AQI_COUNT_OF(hideable) && strcmp(hideable[i].name, word) != 0)
            i++;
        if (i == AQI_COUNT_OF(hideable)) return false;
        fault_config.hide |= hideable[i].bits;
    }
    return fault_config.hide != 0;
}

static bool fault_parse_die(char *value)
{
    char *at = strchr(value, '@');
    if (at == NULL) return false;
    *at = 0;
    return fault_parse_number(value, UINT32_MAX, &fault_config.die_id) &&
           fault_parse_number(at + 1, UINT64_MAX, &fault_config.die_after) &&
           fault_config.die_after != 0;
}

static bool fault_parse_item(char *item)
{
    char *value = strchr(item, '=');
    if (value == NULL) return false;
    *value++ = 0;
    if (strcmp(item, "hide") == 0) return fault_parse_hide(value);
    if (strcmp(item, "die") == 0) return fault_parse_die(value);
    for (size_t i = 0; i < AQI_COUNT_OF(numbers); i++)
        if (strcmp(item, numbers[i].name) == 0)
            return fault_parse_number(value, numbers[i].max, numbers[i].value);
    return false;
}

aq_status aqi_fault_configure(const char *spec)
{
    memset(&fault_config, 0, sizeof(fault_config));
    fault_config.seed = 1;
    if (spec[0] == 0) return AQ_OK;
    char copy[256], *save;
    if (snprintf(copy, sizeof(copy), "%s", spec) >= (int)sizeof(copy)) goto bad;
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save))
        if (!fault_parse_item(item)) goto bad;
    fault_config.on = true;
    return AQ_OK;
bad:
    memset(&fault_config, 0, sizeof(fault_config));
    return aqi_fail(AQ_ESETTING, "fault",
                    "AQ_FAULT=\"%s\" is not valid: give a comma-separated list of again=0..95, "
                    "late=0..1000, swap=0..95, die=ID@CALLS, seed=NUMBER, credits=0..1, "
                    "depth=NUMBER and hide= with some of the following, separated by +: reserve "
                    "put get atomic fill pull long rows map reg alloc wait",
                    spec);
}

bool aqi_fault_wanted(void)
{
    return fault_config.on;
}

unsigned aqi_fault_caps(unsigned caps)
{
    caps &= ~(unsigned)(AQI_CAP_REST | AQI_CAP_ORDER); /* faults are timed in polls, and reorder */
    if (fault_config.again != 0) caps &= ~(unsigned)AQI_CAP_ROOM; /* never announced here */
    return (caps & ~fault_config.hide) | (fault_config.credits != 0 ? AQI_CAP_CREDITS : 0);
}

/* --- the decorator --------------------------------------------------------------------------- */

enum late_kind { LATE_BEGUN, LATE_PUT, LATE_GET, LATE_FILL };

/* The two ends of a transfer. */
struct late_end {
    struct aqi_peer *peer;
    const struct aqi_rmem *rmem;
    uint64_t addr;
    void *local;
    size_t len;
    const struct aqi_mem *mem;
    int byte;
};

/*
 * A held-back operation: the transport counts down `inner`. Puts, gets and fills start late, so
 * that a caller that considers them complete too early overwrites the source or sees old bytes; the
 * result of an atomic operation is written late.
 */
struct late_op {
    struct aqi_comp inner;
    struct aqi_comp *comp;
    unsigned wait;              /* progress calls left to wait */
    bool has_local, has_remote; /* the counters that it uses */
    uint8_t kind;               /* the operation still to be started, or LATE_BEGUN */
    struct late_end end;
    unsigned char bytes[AQI_PUT_COPIED]; /* the copied source of a small put */
    uint64_t value;                      /* for an atomic operation */
    void *result;
    size_t result_size;
    struct late_op *next;
};

struct aqi_fault {
    struct aqi_tp *tp;
    struct aqi_transport own; /* the transport's operations */
    struct aqi_tp_hooks up;
    bool threads;
    struct aqi_spin lock;
    uint64_t random;
    unsigned burst; /* calls left to reject */
    uint64_t calls; /* calls to the peer that is to die */
    atomic_bool dead, reported;
    struct aqi_pool pool;
    struct late_op *late;
    struct fault_swap swap;
    struct fault_credits *credits; /* NULL: not enforced */
};

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators". */
static unsigned fault_draw(struct aqi_fault *f, unsigned below)
{
    f->random ^= f->random >> 12;
    f->random ^= f->random << 25;
    f->random ^= f->random >> 27;
    return (unsigned)((f->random * 2685821657736338717u) >> 33) % below;
}

/* Called before each call to a peer; AQ_OK lets it through. */
static aq_status fault_gate(struct aqi_fault *f, const struct aqi_peer *peer)
{
    aq_status st = AQ_OK;
    aqi_spin_lock(&f->lock);
    if (fault_config.die_after != 0 && peer->id == fault_config.die_id) {
        if (++f->calls > fault_config.die_after) atomic_store(&f->dead, true);
        if (atomic_load(&f->dead)) st = AQ_EPEER;
    }
    if (st == AQ_OK && f->burst > 0) {
        f->burst--;
        st = AQ_AGAIN;
    } else if (st == AQ_OK && fault_config.again != 0 && fault_draw(f, 100) < fault_config.again) {
        f->burst = fault_draw(f, 4);
        st = AQ_AGAIN;
    }
    aqi_spin_unlock(&f->lock);
    return st;
}

/* Intercept the counters of an operation; NULL: nothing is to be delayed. */
static struct late_op *fault_hold(struct aqi_fault *f, const struct late_op *what,
                                  struct aqi_comp *comp)
{
    if (fault_config.late == 0 || comp == NULL) return NULL;
    struct late_op *op = aqi_pool_get(&f->pool);
    if (op == NULL) return NULL;
    *op = *what;
    op->inner =
        (struct aqi_comp){.local = op->has_local, .remote = op->has_remote, .shared = f->threads};
    op->comp = comp;
    return op;
}

static aq_status fault_held(struct aqi_fault *f, struct late_op *op, aq_status st)
{
    if (st != AQ_OK) {
        aqi_pool_put(&f->pool, op);
        return st;
    }
    aqi_spin_lock(&f->lock);
    op->wait = 1 + fault_draw(f, (unsigned)fault_config.late);
    op->next = f->late;
    f->late = op;
    aqi_spin_unlock(&f->lock);
    return AQ_OK;
}

static aq_status fault_begin(struct aqi_fault *f, uint8_t kind, const struct late_end *e,
                             size_t len, struct aqi_comp *comp)
{
    struct aqi_tp *tp = f->tp;
    if (kind == LATE_PUT)
        return f->own.put(tp, e->peer, e->rmem, e->addr, e->local, len, e->mem, comp);
    if (kind == LATE_GET)
        return f->own.get(tp, e->peer, e->rmem, e->addr, e->local, len, e->mem, comp);
    return f->own.fill(tp, e->peer, e->rmem, e->addr, e->byte, len, comp);
}

/* Fail an operation that has not started yet, as its caller assumes, and never will. */
static void fault_fail_late(struct late_op *op, aq_status st)
{
    op->kind = LATE_BEGUN;
    aqi_comp_fail(&op->inner, st);
    atomic_store(&op->inner.local, 0);
    atomic_store(&op->inner.remote, 0);
}

static void fault_try_late(struct aqi_fault *f, struct late_op *op)
{
    aq_status st = fault_begin(f, op->kind, &op->end, op->end.len, &op->inner);
    if (st == AQ_OK)
        op->kind = LATE_BEGUN;
    else if (st != AQ_AGAIN)
        fault_fail_late(op, st);
}

/*
 * A put, get or fill, started later if completions are late. First transfers 0 bytes, since the
 * caller must know now whether the transport reaches this memory.
 */
static aq_status fault_transfer(struct aqi_tp *tp, uint8_t kind, struct late_end end,
                                struct aqi_comp *comp)
{
    struct aqi_fault *f = tp->fault;
    struct late_op what = {
        .kind = kind, .has_local = kind == LATE_PUT, .has_remote = true, .end = end};
    aq_status st = fault_gate(f, end.peer);
    if (st != AQ_OK) return st;
    struct late_op *op = fault_hold(f, &what, comp);
    if (op == NULL) return fault_begin(f, kind, &end, end.len, comp);
    struct aqi_comp probe = {.local = 1, .remote = 1};
    st = fault_begin(f, kind, &end, 0, &probe);
    if (st == AQ_OK && kind == LATE_PUT && end.len <= sizeof(op->bytes)) {
        if (end.len != 0) memcpy(op->bytes, end.local, end.len);
        op->end.local = op->bytes;
    }
    return fault_held(f, op, st);
}

static bool fault_holds_back(struct aqi_fault *f)
{
    aqi_spin_lock(&f->lock);
    bool some = f->late != NULL;
    aqi_spin_unlock(&f->lock);
    return some;
}

static unsigned fault_release_late(struct aqi_fault *f)
{
    unsigned n = 0;
    struct late_op *ready = NULL;
    aqi_spin_lock(&f->lock);
    for (struct late_op **at = &f->late; *at != NULL;) {
        struct late_op *op = *at;
        if (op->wait > 0) op->wait--;
        if (op->wait == 0 && op->kind != LATE_BEGUN) fault_try_late(f, op);
        if (op->wait == 0 && op->kind == LATE_BEGUN && atomic_load(&op->inner.remote) == 0 &&
            atomic_load(&op->inner.local) == 0) {
            *at = op->next;
            op->next = ready;
            ready = op;
        } else {
            at = &op->next;
        }
    }
    aqi_spin_unlock(&f->lock);
    for (; ready != NULL; n++) {
        struct late_op *op = ready;
        ready = op->next;
        if (op->result != NULL) memcpy(op->result, &op->value, op->result_size);
        if (op->inner.status != AQ_OK) aqi_comp_fail(op->comp, (aq_status)op->inner.status);
        if (op->has_local) aqi_comp_local(op->comp);
        if (op->has_remote) aqi_comp_remote(op->comp);
        aqi_pool_put(&f->pool, op);
    }
    return n;
}

static bool fault_is_swapped(struct aqi_fault *f)
{
    if (fault_config.swap == 0) return false;
    aqi_spin_lock(&f->lock);
    bool swapped = fault_draw(f, 100) < fault_config.swap;
    aqi_spin_unlock(&f->lock);
    return swapped;
}

static aq_status fault_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                               struct aqi_comp *comp)
{
    struct aqi_fault *f = tp->fault;
    aq_status st = fault_gate(f, peer);
    if (st != AQ_OK) return st;
    fault_credits_sent(f->credits, peer->id, am, true);
    if (comp == NULL && fault_is_swapped(f) && fault_swap_keep(&f->swap, peer, am) == AQ_OK)
        return AQ_OK;
    st = f->own.am_send(tp, peer, am, comp);
    if (st != AQ_OK) fault_credits_sent(f->credits, peer->id, am, false);
    if (st == AQ_OK && fault_swap_holds(&f->swap)) (void)fault_swap_send(&f->swap, tp, &f->own);
    return st;
}

static aq_status fault_am_long(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                               const struct aqi_rmem *rmem, const struct aqi_mem *mem,
                               struct aqi_comp *comp)
{
    struct aqi_fault *f = tp->fault;
    struct late_op what = {.kind = LATE_BEGUN, .has_local = true};
    aq_status st = fault_gate(f, peer);
    if (st != AQ_OK) return st;
    struct late_op *op = fault_hold(f, &what, comp);
    fault_credits_sent(f->credits, peer->id, am, true);
    st = f->own.am_long(tp, peer, am, rmem, mem, op != NULL ? &op->inner : comp);
    if (st != AQ_OK) fault_credits_sent(f->credits, peer->id, am, false);
    return op != NULL ? fault_held(f, op, st) : st;
}

static aq_status fault_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                           uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                           struct aqi_comp *comp)
{
    void *local = (void *)(uintptr_t)src;
    return fault_transfer(tp, LATE_PUT, (struct late_end){peer, rmem, addr, local, len, mem, 0},
                          comp);
}

static aq_status fault_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                           uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                           struct aqi_comp *comp)
{
    return fault_transfer(tp, LATE_GET, (struct late_end){peer, rmem, addr, dst, len, mem, 0},
                          comp);
}

static aq_status fault_fill(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                            uint64_t addr, int byte, size_t len, struct aqi_comp *comp)
{
    return fault_transfer(tp, LATE_FILL, (struct late_end){peer, rmem, addr, NULL, len, NULL, byte},
                          comp);
}

/* Scattered transfers start at once and complete late. */
static aq_status fault_rows(struct aqi_tp *tp, bool put, struct aqi_peer *peer,
                            const struct aqi_rmem *rmem, struct aqi_row *rows, unsigned n,
                            unsigned *taken, struct aqi_comp *comp)
{
    struct aqi_fault *f = tp->fault;
    struct late_op what = {.kind = LATE_BEGUN, .has_local = put, .has_remote = true};
    aq_status st = fault_gate(f, peer);
    if (st != AQ_OK) return st;
    struct late_op *op = fault_hold(f, &what, comp);
    st = (put ? f->own.put_rows : f->own.get_rows)(tp, peer, rmem, rows, n, taken,
                                                   op != NULL ? &op->inner : comp);
    return op != NULL ? fault_held(f, op, st) : st;
}

static aq_status fault_put_rows(struct aqi_tp *tp, struct aqi_peer *peer,
                                const struct aqi_rmem *rmem, struct aqi_row *rows, unsigned n,
                                unsigned *taken, struct aqi_comp *comp)
{
    return fault_rows(tp, true, peer, rmem, rows, n, taken, comp);
}

static aq_status fault_get_rows(struct aqi_tp *tp, struct aqi_peer *peer,
                                const struct aqi_rmem *rmem, struct aqi_row *rows, unsigned n,
                                unsigned *taken, struct aqi_comp *comp)
{
    return fault_rows(tp, false, peer, rmem, rows, n, taken, comp);
}

static aq_status fault_atomic(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                              const struct aqi_atomic *req, void *result, struct aqi_comp *comp)
{
    struct aqi_fault *f = tp->fault;
    struct late_op what = {.kind = LATE_BEGUN,
                           .has_remote = true,
                           .result = req->fetch ? result : NULL,
                           .result_size = aqi_atomic_size(req->type)};
    aq_status st = fault_gate(f, peer);
    if (st != AQ_OK) return st;
    struct late_op *op = fault_hold(f, &what, comp);
    if (op == NULL) return f->own.atomic(tp, peer, rmem, req, result, comp);
    return fault_held(f, op, f->own.atomic(tp, peer, rmem, req, &op->value, &op->inner));
}

static aq_status fault_pull(struct aqi_tp *tp, struct aqi_peer *peer, uint64_t addr, void *dst,
                            size_t len)
{
    aq_status st = fault_gate(tp->fault, peer);
    if (st == AQ_EPEER) return st;
    return tp->fault->own.pull(tp, peer, addr, dst, len);
}

static unsigned fault_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct aqi_fault *f = tp->fault;
    unsigned n = f->own.progress(tp, mode, now) + fault_release_late(f);
    if (fault_swap_holds(&f->swap)) n += fault_swap_send(&f->swap, tp, &f->own);
    if (mode == AQI_PROGRESS_ALL && atomic_load(&f->dead) && !atomic_exchange(&f->reported, true)) {
        f->up.peer_lost(f->up.arg, (uint32_t)fault_config.die_id, "died as AQ_FAULT requested");
        n++;
    }
    return n;
}

static aq_status fault_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    if (fault_holds_back(tp->fault) || fault_swap_holds(&tp->fault->swap)) return AQ_AGAIN;
    return tp->fault->own.quiet(tp, peer);
}

static void fault_free(struct aqi_fault *f)
{
    aqi_pool_destroy(&f->pool);
    fault_swap_drop(&f->swap, NULL);
    free(f->credits);
    free(f);
}

static void fault_close(struct aqi_tp *tp)
{
    struct aqi_fault *f = tp->fault;
    f->own.close(tp);
    fault_free(f);
}

static void fault_disconnect(struct aqi_tp *tp, struct aqi_peer *peer)
{
    struct aqi_fault *f = tp->fault;
    fault_credits_forget(f->credits, peer->id);
    fault_swap_drop(&f->swap, peer);
    aqi_spin_lock(&f->lock);
    for (struct late_op *op = f->late; op != NULL; op = op->next)
        if (op->kind != LATE_BEGUN && op->end.peer == peer) fault_fail_late(op, AQ_EPEER);
    aqi_spin_unlock(&f->lock);
    if (tp->fault->own.disconnect != NULL) tp->fault->own.disconnect(tp, peer);
}

static aq_status fault_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply, unsigned nargs,
                               size_t nbytes, struct aqi_slot *slot)
{
    aq_status st = fault_gate(tp->fault, peer);
    return st != AQ_OK ? st : tp->fault->own.am_reserve(tp, peer, reply, nargs, nbytes, slot);
}

static aq_status fault_commit(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                              const struct aqi_am *am)
{
    struct aqi_fault *f = tp->fault;
    if (am != NULL) fault_credits_sent(f->credits, peer->id, am, true);
    aq_status st = f->own.am_commit(tp, peer, slot, am);
    if (st != AQ_OK && am != NULL) fault_credits_sent(f->credits, peer->id, am, false);
    if (fault_swap_holds(&f->swap)) (void)fault_swap_send(&f->swap, tp, &f->own);
    return st;
}

/* Held-back completions are released by polls, not by arrivals, so the thread must not sleep. */
static aq_status fault_arm(struct aqi_tp *tp, bool on)
{
    if (on && (fault_holds_back(tp->fault) || fault_swap_holds(&tp->fault->swap))) return AQ_AGAIN;
    return tp->fault->own.arm(tp, on);
}

static int fault_describe(struct aqi_tp *tp, char *buf, size_t len)
{
    char inner[200] = "";
    if (tp->fault->own.describe != NULL) tp->fault->own.describe(tp, inner, sizeof(inner));
    return snprintf(buf, len, "%s with faults: %s", tp->ops.name, inner);
}

/* With the map hidden, addresses stay the same but must not be loaded from or stored to. */
static aq_status fault_map_hidden(struct aqi_tp *tp, struct aqi_peer *peer, const void *key,
                                  size_t key_len, uint64_t addr, size_t len, struct aqi_rmem **rmem)
{
    aq_status st = tp->fault->own.mem_map(tp, peer, key, key_len, addr, len, rmem);
    if (st == AQ_OK) (*rmem)->local = NULL;
    return st;
}

/* Replaces some operations; the others stay the transport's own. */
static void fault_decorate(struct aqi_transport *ops)
{
    const unsigned hidden = ops->caps & ~aqi_fault_caps(ops->caps);
    ops->caps = aqi_fault_caps(ops->caps);
    ops->close = fault_close;
    ops->disconnect = fault_disconnect;
    ops->am_send = fault_am_send;
    ops->progress = fault_progress;
    ops->quiet = fault_quiet;
    ops->describe = fault_describe;
    if ((hidden & AQI_CAP_MAP) && ops->mem_map != NULL) ops->mem_map = fault_map_hidden;
    aqi_tp_hide(ops, hidden);
#define WRAP(slot, with) ops->slot = ops->slot != NULL ? (with) : NULL
    WRAP(am_reserve, fault_reserve);
    WRAP(am_commit, fault_commit);
    WRAP(am_long, fault_am_long);
    WRAP(put_rows, fault_put_rows);
    WRAP(get_rows, fault_get_rows);
    WRAP(put, fault_put);
    WRAP(get, fault_get);
    WRAP(fill, fault_fill);
    WRAP(pull, fault_pull);
    WRAP(atomic, fault_atomic);
    WRAP(arm, fault_arm);
#undef WRAP
}

aq_status aqi_fault_open(const struct aqi_transport *transport, const struct aqi_tp_params *params,
                         struct aqi_tp **tp)
{
    struct aqi_fault *f = calloc(1, sizeof(*f));
    if (f == NULL) return aqi_fail(AQ_ENOMEM, "fault", "no memory to open the transport");
    aqi_pool_init(&f->pool, sizeof(struct late_op), 32, true);
    fault_swap_init(&f->swap);
    struct aqi_tp_params inner = *params;
    inner.bell = (struct aqi_bell_rope){0};
    aq_status st =
        fault_config.credits != 0 ? fault_credits_new(params, &inner, &f->credits) : AQ_OK;
    if (st == AQ_OK) st = transport->open(&inner, &f->tp);
    if (st != AQ_OK) {
        fault_free(f);
        return st;
    }
    if (f->tp->ops.open == NULL) f->tp->ops = *transport;
    f->own = f->tp->ops;
    f->up = params->hooks;
    f->threads = params->threads;
    f->random = fault_config.seed * 0x9e3779b97f4a7c15u + params->self + 1;
    if (fault_config.depth != 0) f->tp->limits.depth = (uint32_t)fault_config.depth;
    if (f->credits != NULL) fault_credits_limit(f->credits, &f->tp->limits);
    f->tp->fault = f;
    fault_decorate(&f->tp->ops);
    *tp = f->tp;
    return AQ_OK;
}
