/* The fault decorator: an open transport inside another that refuses, delays, hides and dies. */
#include "transport/fault.h"

#include "base/fail.h"
#include "base/spin.h"
#include "transport/fault_credits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool on;
    unsigned again, late, hide;
    bool credits;
    uint32_t depth; /* 0: as asked */
    uint32_t die_id;
    uint64_t die_after; /* 0: nobody dies */
    uint64_t seed;
} fault_config;

static const struct {
    const char *name;
    unsigned bits;
} hideable[] = {
    {"reserve", AQI_CAP_RESERVE}, {"put", AQI_CAP_PUT},
    {"get", AQI_CAP_GET},         {"atomic", AQI_CAP_ATOMIC},
    {"fill", AQI_CAP_FILL},       {"pull", AQI_CAP_PULL},
    {"long", AQI_CAP_LONG},       {"map", AQI_CAP_MAP | AQI_CAP_MEM_FD},
    {"alloc", AQI_CAP_ALLOC},     {"wait", AQI_CAP_WAIT_FD},
};

/* --- the specification ----------------------------------------------------------------------- */

static bool parse_number(const char *text, uint64_t max, uint64_t *value)
{
    char *end;
    if (*text < '0' || *text > '9') return false;
    unsigned long long v = strtoull(text, &end, 10);
    if (*end != 0 || v > max) return false;
    *value = v;
    return true;
}

static bool parse_hide(char *list, unsigned *bits)
{
    char *save;
    for (char *word = strtok_r(list, "+", &save); word; word = strtok_r(NULL, "+", &save)) {
        size_t i = 0;
        while (i < AQI_COUNT_OF(hideable) && strcmp(hideable[i].name, word) != 0)
            i++;
        if (i == AQI_COUNT_OF(hideable)) return false;
        *bits |= hideable[i].bits;
    }
    return *bits != 0;
}

static bool parse_die(char *value)
{
    uint64_t id, after;
    char *at = strchr(value, '@');
    if (at == NULL) return false;
    *at = 0;
    if (!parse_number(value, UINT32_MAX, &id) || !parse_number(at + 1, UINT64_MAX, &after) ||
        after == 0)
        return false;
    fault_config.die_id = (uint32_t)id;
    fault_config.die_after = after;
    return true;
}

static bool parse_item(char *item)
{
    uint64_t number = 0;
    char *value = strchr(item, '=');
    if (value == NULL) return false;
    *value++ = 0;
    if (strcmp(item, "hide") == 0) return parse_hide(value, &fault_config.hide);
    if (strcmp(item, "die") == 0) return parse_die(value);
    if (strcmp(item, "seed") == 0) return parse_number(value, UINT64_MAX, &fault_config.seed);
    if (strcmp(item, "credits") == 0) {
        if (!parse_number(value, 1, &number)) return false;
        fault_config.credits = number != 0;
        return true;
    }
    if (strcmp(item, "depth") == 0) {
        if (!parse_number(value, UINT32_MAX, &number)) return false;
        fault_config.depth = (uint32_t)number;
        return true;
    }
    if (strcmp(item, "again") == 0) {
        if (!parse_number(value, 95, &number)) return false;
        fault_config.again = (unsigned)number;
        return true;
    }
    if (strcmp(item, "late") == 0) {
        if (!parse_number(value, 1000, &number)) return false;
        fault_config.late = (unsigned)number;
        return true;
    }
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
        if (!parse_item(item)) goto bad;
    fault_config.on = true;
    return AQ_OK;
bad:
    memset(&fault_config, 0, sizeof(fault_config));
    return aqi_fail(
        AQ_ESETTING, "fault",
        "AQ_FAULT=\"%s\" is not legal: a comma list of again=0..95, late=0..1000, "
        "die=ID@CALLS, seed=NUMBER, credits=0..1, depth=NUMBER and hide= with a + list of reserve "
        "put get atomic fill pull long map alloc wait",
        spec);
}

bool aqi_fault_wanted(void)
{
    return fault_config.on;
}

unsigned aqi_fault_caps(unsigned caps)
{
    return (caps & ~fault_config.hide) | (fault_config.credits ? AQI_CAP_CREDITS : 0);
}

/* --- the decorator --------------------------------------------------------------------------- */

enum late_kind { LATE_BEGUN, LATE_PUT, LATE_GET, LATE_FILL };

/*
 * An operation held back: `inner` is what the transport counts down. Puts, gets and fills begin
 * late, so that who takes them for complete too early spoils the source or sees old bytes; the
 * result of an atomic operation is written late.
 */
struct late_op {
    struct aqi_comp inner;
    struct aqi_comp *comp;
    unsigned wait; /* progress calls still to pass */
    bool has_local;
    uint8_t kind; /* what is still to begin */
    int byte;
    struct aqi_peer *peer;
    struct aqi_rmem rmem;
    uint64_t addr;
    void *local;
    size_t len;
    unsigned char bytes[AQI_PUT_COPIED]; /* the source of a put that has copied it */
    uint64_t value;                      /* of an atomic operation */
    void *result;
    size_t result_size;
    struct late_op *next;
};

struct fault_tp {
    struct aqi_tp tp;
    struct aqi_tp *in;
    struct aqi_tp_hooks up;
    struct aqi_tp_params params;
    struct aqi_spin lock;
    uint64_t random;
    unsigned burst; /* calls still to refuse */
    uint64_t calls; /* to the one that is to die */
    atomic_bool dead, told;
    struct late_op *late;
    struct fault_credits *credits; /* NULL: not enforced */
};

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators". */
static unsigned draw(struct fault_tp *f, unsigned below)
{
    f->random ^= f->random >> 12;
    f->random ^= f->random << 25;
    f->random ^= f->random >> 27;
    return (unsigned)((f->random * 2685821657736338717u) >> 33) % below;
}

/* Before each call to a peer: AQ_OK lets it through. */
static aq_status gate(struct fault_tp *f, const struct aqi_peer *peer)
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
    } else if (st == AQ_OK && fault_config.again != 0 && draw(f, 100) < fault_config.again) {
        f->burst = draw(f, 4);
        st = AQ_AGAIN;
    }
    aqi_spin_unlock(&f->lock);
    return st;
}

/* Stand between an operation's counters and the transport; NULL: nothing is to be delayed. */
static struct late_op *hold(struct fault_tp *f, struct aqi_comp *comp, bool has_local)
{
    if (fault_config.late == 0 || comp == NULL) return NULL;
    struct late_op *op = calloc(1, sizeof(*op));
    if (op == NULL) return NULL;
    atomic_store(&op->inner.local, has_local ? 1u : 0u);
    atomic_store(&op->inner.remote, 1u);
    op->inner.shared = f->params.threads;
    op->comp = comp;
    op->has_local = has_local;
    return op;
}

static aq_status held(struct fault_tp *f, struct late_op *op, aq_status st)
{
    if (op == NULL) return st;
    if (st != AQ_OK) {
        free(op);
        return st;
    }
    aqi_spin_lock(&f->lock);
    op->wait = 1 + draw(f, fault_config.late);
    op->next = f->late;
    f->late = op;
    aqi_spin_unlock(&f->lock);
    return AQ_OK;
}

static aq_status begin_late(struct fault_tp *f, struct late_op *op)
{
    struct aqi_tp *in = f->in;
    if (op->kind == LATE_PUT)
        return in->ops.put(in, op->peer, &op->rmem, op->addr, op->local, op->len, &op->inner);
    if (op->kind == LATE_GET)
        return in->ops.get(in, op->peer, &op->rmem, op->addr, op->local, op->len, &op->inner);
    return in->ops.fill(in, op->peer, &op->rmem, op->addr, op->byte, op->len, &op->inner);
}

/* Begin what has waited long enough. One that fails now has begun as far as its caller knows. */
static void try_late(struct fault_tp *f, struct late_op *op)
{
    aq_status st = begin_late(f, op);
    if (st == AQ_AGAIN) return;
    op->kind = LATE_BEGUN;
    if (st == AQ_OK) return;
    aqi_comp_fail(&op->inner, st);
    atomic_store(&op->inner.local, 0);
    atomic_store(&op->inner.remote, 0);
}

/*
 * Keep a put, get or fill for later. First ask for 0 bytes, since whether the transport reaches
 * this memory at all must be answered now.
 */
static aq_status defer(struct fault_tp *f, struct late_op *op, const struct late_op *what)
{
    struct late_op probe = *what;
    probe.inner = (struct aqi_comp){.local = op->has_local ? 1 : 0, .remote = 1};
    probe.len = 0;
    aq_status st = begin_late(f, &probe);
    if (st == AQ_OK) {
        op->kind = what->kind;
        op->byte = what->byte;
        op->peer = what->peer;
        op->rmem = what->rmem;
        op->addr = what->addr;
        op->local = what->local;
        op->len = what->len;
        if (op->kind == LATE_PUT && op->len <= sizeof(op->bytes)) {
            if (op->len != 0) memcpy(op->bytes, op->local, op->len);
            op->local = op->bytes;
        }
    }
    return held(f, op, st);
}

static bool holds_back(struct fault_tp *f)
{
    aqi_spin_lock(&f->lock);
    bool some = f->late != NULL;
    aqi_spin_unlock(&f->lock);
    return some;
}

static unsigned release_late(struct fault_tp *f)
{
    unsigned n = 0;
    struct late_op *ready = NULL;
    aqi_spin_lock(&f->lock);
    for (struct late_op **at = &f->late; *at != NULL;) {
        struct late_op *op = *at;
        if (op->wait > 0) op->wait--;
        if (op->wait == 0 && op->kind != LATE_BEGUN) try_late(f, op);
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
        aqi_comp_remote(op->comp);
        free(op);
    }
    return n;
}

static aq_status fault_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                               struct aqi_comp *comp)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    aq_status st = gate(f, peer);
    if (st != AQ_OK) return st;
    fault_credits_sent(f->credits, peer->id, am, true);
    st = f->in->ops.am_send(f->in, peer, am, comp);
    if (st != AQ_OK) fault_credits_sent(f->credits, peer->id, am, false);
    return st;
}

static aq_status fault_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                           uint64_t addr, const void *src, size_t len, struct aqi_comp *comp)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    aq_status st = gate(f, peer);
    if (st != AQ_OK) return st;
    struct late_op *op = hold(f, comp, true);
    if (op == NULL) return f->in->ops.put(f->in, peer, rmem, addr, src, len, comp);
    struct late_op what = {.kind = LATE_PUT,
                           .peer = peer,
                           .rmem = *rmem,
                           .addr = addr,
                           .local = (void *)(uintptr_t)src,
                           .len = len};
    return defer(f, op, &what);
}

static aq_status fault_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                           uint64_t addr, void *dst, size_t len, struct aqi_comp *comp)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    aq_status st = gate(f, peer);
    if (st != AQ_OK) return st;
    struct late_op *op = hold(f, comp, false);
    if (op == NULL) return f->in->ops.get(f->in, peer, rmem, addr, dst, len, comp);
    struct late_op what = {
        .kind = LATE_GET, .peer = peer, .rmem = *rmem, .addr = addr, .local = dst, .len = len};
    return defer(f, op, &what);
}

static aq_status fault_fill(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                            uint64_t addr, int byte, size_t len, struct aqi_comp *comp)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    aq_status st = gate(f, peer);
    if (st != AQ_OK) return st;
    struct late_op *op = hold(f, comp, false);
    if (op == NULL) return f->in->ops.fill(f->in, peer, rmem, addr, byte, len, comp);
    struct late_op what = {
        .kind = LATE_FILL, .peer = peer, .rmem = *rmem, .addr = addr, .byte = byte, .len = len};
    return defer(f, op, &what);
}

static aq_status fault_atomic(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                              const struct aqi_atomic *req, void *result, struct aqi_comp *comp)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    aq_status st = gate(f, peer);
    if (st != AQ_OK) return st;
    struct late_op *op = hold(f, comp, false);
    if (op == NULL) return f->in->ops.atomic(f->in, peer, rmem, req, result, comp);
    if (req->fetch) op->result = result;
    op->result_size = aqi_atomic_size(req->type);
    st = f->in->ops.atomic(f->in, peer, rmem, req, &op->value, &op->inner);
    return held(f, op, st);
}

static aq_status fault_pull(struct aqi_tp *tp, struct aqi_peer *peer, uint64_t addr, void *dst,
                            size_t len)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    aq_status st = gate(f, peer);
    if (st == AQ_EPEER) return st;
    return f->in->ops.pull(f->in, peer, addr, dst, len);
}

static unsigned fault_progress(struct aqi_tp *tp, enum aqi_progress_mode mode)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    unsigned n = f->in->ops.progress(f->in, mode) + release_late(f);
    if (mode == AQI_PROGRESS_ALL && atomic_load(&f->dead) && !atomic_exchange(&f->told, true)) {
        f->up.peer_lost(f->up.arg, fault_config.die_id, "AQ_FAULT says that it died");
        n++;
    }
    return n;
}

static aq_status fault_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    return holds_back(f) ? AQ_AGAIN : f->in->ops.quiet(f->in, peer);
}

static void fault_close(struct aqi_tp *tp)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    f->in->ops.close(f->in);
    while (f->late != NULL) {
        struct late_op *op = f->late;
        f->late = op->next;
        free(op);
    }
    fault_credits_free(f->credits);
    free(f);
}

/* The rest goes straight through to the transport inside. */
#define IN(tp) (((struct fault_tp *)(tp))->in)

static aq_status fault_address(struct aqi_tp *tp, char *uri)
{
    return IN(tp)->ops.address(IN(tp), uri);
}

static aq_status fault_connect(struct aqi_tp *tp, const char *uri, uint32_t id,
                               struct aqi_peer **peer)
{
    return IN(tp)->ops.connect(IN(tp), uri, id, peer);
}

static void fault_disconnect(struct aqi_tp *tp, struct aqi_peer *peer)
{
    fault_credits_forget(((struct fault_tp *)tp)->credits, peer->id);
    if (IN(tp)->ops.disconnect != NULL) IN(tp)->ops.disconnect(IN(tp), peer);
}

static aq_status fault_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply, unsigned nargs,
                               size_t nbytes, struct aqi_slot *slot)
{
    aq_status st = gate((struct fault_tp *)tp, peer);
    return st != AQ_OK ? st : IN(tp)->ops.am_reserve(IN(tp), peer, reply, nargs, nbytes, slot);
}

static aq_status fault_commit(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                              const struct aqi_am *am)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    if (am != NULL) fault_credits_sent(f->credits, peer->id, am, true);
    aq_status st = f->in->ops.am_commit(f->in, peer, slot, am);
    if (st != AQ_OK && am != NULL) fault_credits_sent(f->credits, peer->id, am, false);
    return st;
}

static aq_status fault_alloc(struct aqi_tp *tp, size_t len, size_t most, void **addr)
{
    return IN(tp)->ops.mem_alloc(IN(tp), len, most, addr);
}

static aq_status fault_reg(struct aqi_tp *tp, void *addr, size_t len,
                           unsigned char key[AQI_KEY_MAX])
{
    return IN(tp)->ops.mem_reg(IN(tp), addr, len, key);
}

static void fault_dereg(struct aqi_tp *tp, const unsigned char key[AQI_KEY_MAX])
{
    IN(tp)->ops.mem_dereg(IN(tp), key);
}

static aq_status fault_map(struct aqi_tp *tp, struct aqi_peer *peer,
                           const unsigned char key[AQI_KEY_MAX], uint64_t addr, size_t len,
                           struct aqi_rmem *rmem)
{
    return IN(tp)->ops.mem_map(IN(tp), peer, key, addr, len, rmem);
}

static aq_status fault_mem_fd(struct aqi_tp *tp, const void *addr, size_t len, int *fd,
                              uint64_t *offset)
{
    return IN(tp)->ops.mem_fd(IN(tp), addr, len, fd, offset);
}

static int fault_wait_fd(struct aqi_tp *tp)
{
    return IN(tp)->ops.wait_fd(IN(tp));
}

/* Held-back completions need polls, not arrivals. */
static aq_status fault_arm(struct aqi_tp *tp, bool on)
{
    struct fault_tp *f = (struct fault_tp *)tp;
    if (on && holds_back(f)) return AQ_AGAIN;
    return f->in->ops.arm(f->in, on);
}

static int fault_describe(struct aqi_tp *tp, char *buf, size_t len)
{
    char inner[200] = "";
    if (IN(tp)->ops.describe != NULL) IN(tp)->ops.describe(IN(tp), inner, sizeof(inner));
    return snprintf(buf, len, "%s with faults: %s", tp->ops.name, inner);
}

/* With the map hidden, addresses stay what they are but nobody may load and store directly. */
static aq_status fault_map_hidden(struct aqi_tp *tp, struct aqi_peer *peer,
                                  const unsigned char key[AQI_KEY_MAX], uint64_t addr, size_t len,
                                  struct aqi_rmem *rmem)
{
    aq_status st = fault_map(tp, peer, key, addr, len, rmem);
    if (st == AQ_OK) rmem->local = NULL;
    return st;
}

aq_status aqi_fault_open(const struct aqi_transport *transport, const struct aqi_tp_params *params,
                         struct aqi_tp **tp)
{
    struct fault_tp *f = calloc(1, sizeof(*f));
    if (f == NULL) return aqi_fail(AQ_ENOMEM, "fault", "no memory to open");
    struct aqi_tp_params inner = *params;
    aq_status st = fault_config.credits ? fault_credits_new(params, &inner, &f->credits) : AQ_OK;
    if (st == AQ_OK) st = transport->open(&inner, &f->in);
    if (st != AQ_OK) {
        fault_credits_free(f->credits);
        free(f);
        return st;
    }
    f->in->ops = *transport;
    f->up = params->hooks;
    f->params = *params;
    f->random = fault_config.seed * 0x9e3779b97f4a7c15u + params->self + 1;
    f->tp.hooks = params->hooks;
    f->tp.limits = f->in->limits;
    if (fault_config.depth != 0) f->tp.limits.depth = fault_config.depth;
    if (f->credits != NULL) fault_credits_limit(f->credits, &f->tp.limits);

    unsigned caps = aqi_fault_caps(transport->caps);
    struct aqi_transport *ops = &f->tp.ops;
    *ops = (struct aqi_transport){.name = transport->name,
                                  .doc = transport->doc,
                                  .caps = caps,
                                  .probe = transport->probe,
                                  .open = transport->open,
                                  .close = fault_close,
                                  .address = fault_address,
                                  .connect = fault_connect,
                                  .disconnect = fault_disconnect,
                                  .am_send = fault_am_send,
                                  .progress = fault_progress,
                                  .quiet = fault_quiet,
                                  .describe = fault_describe,
                                  .meet = transport->meet};
    if (caps & AQI_CAP_RESERVE) ops->am_reserve = fault_reserve, ops->am_commit = fault_commit;
    if (caps & AQI_CAP_PUT) ops->put = fault_put;
    if (caps & AQI_CAP_GET) ops->get = fault_get;
    if (caps & AQI_CAP_FILL) ops->fill = fault_fill;
    if (caps & AQI_CAP_PULL) ops->pull = fault_pull;
    if (caps & AQI_CAP_ATOMIC) ops->atomic = fault_atomic;
    if (caps & AQI_CAP_ALLOC) ops->mem_alloc = fault_alloc;
    if (caps & AQI_CAP_MEM_FD) ops->mem_fd = fault_mem_fd;
    if (caps & AQI_CAP_WAIT_FD) ops->wait_fd = fault_wait_fd, ops->arm = fault_arm;
    if (caps & AQI_CAP_REG) {
        ops->mem_reg = fault_reg;
        ops->mem_dereg = fault_dereg;
        ops->mem_map = caps & AQI_CAP_MAP ? fault_map : fault_map_hidden;
    }
    *tp = &f->tp;
    return AQ_OK;
}
