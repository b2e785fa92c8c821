/* Functions for the cases: meeting, sending, memory, data. world.c makes the worlds. */
#include "harness.h"

#include "../job/pass_fd.h"
#include "base/clock.h"
#include "base/shmem.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * The messages that the innermost progress on this thread may deliver, and whether one is running.
 */
static _Thread_local enum aqi_progress_mode contract_mode;
static _Thread_local unsigned contract_depth;
static _Thread_local uint32_t contract_rank;
static _Thread_local unsigned
    contract_idle; /* calls of ct_relax() since something last happened here */

_Noreturn void ct_fail(const char *file, int line, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(stderr, "[rank %u, pid %d] %s:%d: %s\n", contract_rank, (int)getpid(), file, line,
            text);
    _exit(1);
}

void ct_skip(struct ct_ep *ep, const char *reason)
{
    struct ct_world *world = ep->world;
    if (ep->self == 0) snprintf(world->skip_reason, sizeof(world->skip_reason), "%s", reason);
    atomic_store(&world->skipped, true);
}

/* --- hooks ------------------------------------------------------------------------------- */

/* Deliver a message to the case, with the checks that every message must pass. */
static void harness_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    struct ct_ep *ep = arg;
    CT_CHECK(contract_depth > 0);
    CT_CHECK(source < ep->size && ct_reaches(ep, source));
    CT_CHECK(am->kind >= AQI_AM_SHORT && am->kind <= AQI_AM_LONG);
    CT_CHECK(am->nargs <= AQI_AM_MAX_ARGS);
    CT_CHECK((am->flags & ~(AQI_AM_IS_REPLY | AQI_AM_EPS)) == 0);
    CT_CHECK(contract_mode == AQI_PROGRESS_ALL || (am->flags & AQI_AM_IS_REPLY) != 0);
    if (am->kind == AQI_AM_SHORT) CT_EQUAL(am->nbytes, 0);
    if (am->kind == AQI_AM_MEDIUM) {
        CT_CHECK(am->nbytes <= ep->tp->limits.max_medium);
        CT_EQUAL((uintptr_t)am->payload % 16, 0);
        /*
         * The handler may write to the payload: overwrite every byte after the case's handler has
         * run.
         */
    }
    CT_CHECK(ep->handlers[am->handler] != NULL);
    ep->handlers[am->handler](ep, source, am);
    if (am->kind == AQI_AM_MEDIUM && am->nbytes > 0) memset((void *)am->payload, 0xee, am->nbytes);
}

static void harness_peer_lost(void *arg, uint32_t id, const char *why)
{
    struct ct_ep *ep = arg;
    CT_CHECK(id < ep->size);
    CT_CHECK(why != NULL && why[0] != '\0');
    fprintf(stderr, "rank %u: peer %u is lost: %s\n", ep->self, id, why);
    atomic_fetch_add(&ep->lost[id], 1);
}

static bool harness_range_ok(void *arg, uint64_t addr, size_t len)
{
    const struct ct_ep *ep = arg;
    uint64_t start = (uint64_t)(uintptr_t)ep->mem.addr;
    return addr >= start && len <= ep->mem.len && addr - start <= ep->mem.len - len;
}

/* Rank 0 creates the object and sends it to the others; collective, as the contract demands. */
static aq_status harness_share(void *arg, const char *name, size_t bytes, int *fd)
{
    struct ct_ep *ep = arg;
    struct ct_world *world = ep->world;
    if (ep->self != 0) {
        uint64_t got_bytes = 0;
        CT_CHECK(take_fd(world->share[ep->self][1], &got_bytes, sizeof(got_bytes), fd));
        CT_EQUAL(got_bytes, bytes);
        return AQ_OK;
    }
    int made;
    aq_status status = aqi_shmem_create(name, bytes, &made);
    if (status != AQ_OK) return status;
    for (uint32_t rank = 1; rank < ep->size; rank++) {
        uint64_t say = bytes;
        CT_CHECK(pass_fd(world->share[rank][0], &say, sizeof(say), made));
    }
    *fd = made;
    return AQ_OK;
}

/*
 * Let the other processes run, by sleeping. If others compute, a yield costs a whole time slice,
 * and two ranks that take turns would manage only a few hundred turns per second; a process that
 * has slept is preferred when it wakes. The sleep grows while nothing happens, so that a case that
 * waits, say for a timeout, leaves the processors to other tests.
 */
void ct_relax(void)
{
    static const uint64_t slice_ns = 300000;
    static const unsigned yields = 16, doublings = 8;
    static _Thread_local unsigned crowded;
    unsigned idle = contract_idle++;
    if (crowded == 0 && idle < yields) {
        uint64_t start = aqi_now_ns();
        sched_yield();
        if (aqi_now_ns() - start > slice_ns) crowded = 100;
        return;
    }
    if (crowded > 0) crowded--;
    nanosleep(&(struct timespec){.tv_nsec = 1000L << aqi_min(idle, doublings)}, NULL);
}

static aq_status harness_lookup(void *arg, const struct aqi_tp *tp, uint32_t id, void *addr,
                                size_t *len)
{
    struct ct_ep *ep = arg;
    CT_CHECK(id < ep->size && *len >= tp->ops.addr_max);
    /* The first lookup over a network may have to wait. */
    if ((tp->ops.caps & AQI_CAP_TIMERS) != 0 && atomic_fetch_add(&ep->asked[id], 1) == 0)
        return AQ_AGAIN;
    *len = ep->world->home[id].len;
    memcpy(addr, ep->world->home[id].bytes, *len);
    return AQ_OK;
}

static uint64_t harness_now(void *arg)
{
    const struct ct_ep *ep = arg;
    return (ep->tp->ops.caps & AQI_CAP_TIMERS) != 0 ? aqi_now_ns() : 0;
}

static void harness_relax(void *arg, unsigned round)
{
    (void)arg;
    (void)round;
    ct_relax();
}

/* --- opening ----------------------------------------------------------------------------- */

/* How long closing may take. A peer may still have to repeat a request whose answer was lost. */
static const uint64_t CLOSE_NS = 2000000000;

void ct_open(struct ct_ep *ep)
{
    struct ct_world *world = ep->world;
    contract_rank = ep->self;
    struct aqi_tp_params params = {
        .hooks = {.deliver = harness_deliver,
                  .peer_lost = harness_peer_lost,
                  .range_ok = harness_range_ok,
                  .share = harness_share,
                  .lookup = harness_lookup,
                  .now = harness_now,
                  .relax = harness_relax,
                  .arg = ep,
                  .host = ep},
        .self = ep->self,
        .size = ep->size,
        .local_rank = ep->self,
        .local_size = ep->size,
        .threads = ep->threads,
        .max_medium = 4096,
    };
    memcpy(params.key, "contract suite!", 16);
    CT_OK(aqi_tp_open(world->config.transport, &params, &ep->tp));
    if (world->config.shows != NULL) {
        char text[256];
        ep->tp->ops.describe(ep->tp, text, sizeof(text));
        CT_CHECK(strstr(text, world->config.shows) != NULL);
    }
    CT_OK(ep->tp->ops.address(ep->tp, world->home[ep->self].bytes, &world->home[ep->self].len));
    CT_CHECK(world->home[ep->self].len <= ep->tp->ops.addr_max);
    ct_meet(ep);
    for (uint32_t id = 0; id < ep->size; id++) {
        if (!ct_reaches(ep, id)) continue;
        CT_OK(ep->tp->ops.connect(ep->tp, id, 0, &ep->peers[id]));
        CT_CHECK(ep->peers[id] != NULL);
    }
    ct_meet(ep);
}

static void harness_forget(struct ct_ep *ep)
{
    for (uint32_t rank = 0; rank < ep->size; rank++)
        if (ep->mem.remote[rank] != NULL) ep->tp->ops.mem_unmap(ep->tp, ep->mem.remote[rank]);
    if (ep->mem.own != NULL) ep->tp->ops.mem_dereg(ep->tp, ep->mem.own);
    memset(&ep->mem, 0, sizeof(ep->mem));
}

void ct_close(struct ct_ep *ep)
{
    uint64_t deadline = aqi_now_ns() + CLOSE_NS;
    while (ep->tp->ops.drain(ep->tp, deadline) == AQ_AGAIN)
        ct_poll(ep);
    harness_forget(ep);
    aqi_tp_close(ep->tp);
    ep->tp = NULL;
    memset(ep->peers, 0, sizeof(ep->peers));
}

bool ct_reaches(const struct ct_ep *ep, uint32_t rank)
{
    return ep->size == 1 || rank != ep->self;
}

uint32_t ct_next(const struct ct_ep *ep)
{
    return (ep->self + 1) % ep->size;
}

/* --- progress and meeting ---------------------------------------------------------------- */

unsigned ct_progress(struct ct_ep *ep, enum aqi_progress_mode mode)
{
    enum aqi_progress_mode outer = contract_mode;
    contract_mode = mode;
    contract_depth++;
    unsigned done = ep->tp->ops.progress(ep->tp, mode, harness_now(ep));
    contract_depth--;
    contract_mode = outer;
    if (done > 0) contract_idle = 0;
    return done;
}

void ct_poll(struct ct_ep *ep)
{
    if (ct_progress(ep, AQI_PROGRESS_ALL) == 0) ct_relax();
}

void ct_sleep(struct ct_ep *ep)
{
    enum { WAKE_MS = 60000 };
    struct pollfd wait = {.fd = ep->tp->ops.wait_fd(ep->tp), .events = POLLIN};
    uint64_t deadline = ep->tp->ops.next_deadline(ep->tp), now = aqi_now_ns();
    if (deadline == AQI_NO_DEADLINE) {
        CT_EQUAL(poll(&wait, 1, WAKE_MS), 1);
        CT_EQUAL(wait.revents, POLLIN);
        return;
    }
    CT_CHECK(ep->tp->ops.caps & AQI_CAP_TIMERS);
    uint64_t ns = deadline > now ? deadline - now : 0;
    CT_CHECK(ns < WAKE_MS * 1000000ull);
    struct timespec most = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};
    CT_CHECK(ppoll(&wait, 1, &most, NULL) >= 0);
}

static void harness_meet(struct ct_ep *ep, bool progress)
{
    struct ct_world *world = ep->world;
    uint32_t generation = atomic_load(&world->generation);
    if (atomic_fetch_add(&world->arrived, 1) + 1 == ep->size) {
        atomic_store(&world->arrived, 0);
        atomic_fetch_add(&world->generation, 1);
    }
    while (atomic_load(&world->generation) == generation) {
        if (progress)
            ct_poll(ep);
        else
            ct_relax();
    }
}

void ct_barrier(struct ct_ep *ep)
{
    harness_meet(ep, true);
}

void ct_meet(struct ct_ep *ep)
{
    harness_meet(ep, false);
}

/* --- messages ---------------------------------------------------------------------------- */

const struct aqi_mem *ct_local_mem(const struct ct_ep *ep, const void *addr, size_t len)
{
    uint64_t offset = (uint64_t)(uintptr_t)addr - (uint64_t)(uintptr_t)ep->mem.addr;
    return len <= ep->mem.len && offset <= ep->mem.len - len ? ep->mem.own : NULL;
}

size_t ct_max_medium(const struct ct_ep *ep)
{
    size_t most = ep->tp->limits.max_medium;
    for (uint32_t rank = 0; rank < ep->size; rank++)
        if (ct_reaches(ep, rank)) most = aqi_min(most, ep->peers[rank]->max_medium);
    return most;
}

aq_status ct_try_send(struct ct_ep *ep, uint32_t to, const struct aqi_am *am, struct aqi_comp *comp)
{
    if (am->kind != AQI_AM_LONG) return ep->tp->ops.am_send(ep->tp, ep->peers[to], am, comp);
    return ep->tp->ops.am_long(ep->tp, ep->peers[to], am, ep->mem.remote[to],
                               ct_local_mem(ep, am->payload, am->nbytes), comp);
}

void ct_send(struct ct_ep *ep, uint32_t to, const struct aqi_am *am, struct aqi_comp *comp)
{
    aq_status status;
    while ((status = ct_try_send(ep, to, am, comp)) == AQ_AGAIN)
        ct_poll(ep);
    CT_EQUAL(status, AQ_OK);
}

void ct_reply(struct ct_ep *ep, uint32_t to, const struct aqi_am *am)
{
    struct aqi_am reply = *am;
    reply.flags |= AQI_AM_IS_REPLY;
    aq_status status;
    while ((status = ct_try_send(ep, to, &reply, NULL)) == AQ_AGAIN)
        if (ct_progress(ep, AQI_PROGRESS_REPLIES) == 0) ct_relax();
    CT_EQUAL(status, AQ_OK);
}

/* --- memory ------------------------------------------------------------------------------ */

void ct_mem_share(struct ct_ep *ep, void *addr, size_t len)
{
    struct ct_world *world = ep->world;
    ep->mem.addr = addr;
    ep->mem.len = len;
    if (ep->tp->ops.mem_reg(ep->tp, addr, len, &ep->mem.own) != AQ_OK) ep->mem.own = NULL;
    world->key_len[ep->self] = 0;
    if (ep->mem.own != NULL) {
        CT_CHECK(ep->mem.own->key_len != 0 && ep->mem.own->key_len <= ep->tp->ops.key_max);
        world->key_len[ep->self] = ep->mem.own->key_len;
        memcpy(world->key[ep->self], ep->mem.own->key, ep->mem.own->key_len);
    }
    world->addr[ep->self] = (uint64_t)(uintptr_t)addr;
    world->len[ep->self] = len;
    ct_barrier(ep);
    for (uint32_t rank = 0; rank < ep->size; rank++) {
        if (!ct_reaches(ep, rank) || world->key_len[rank] == 0) continue;
        struct aqi_rmem *remote;
        CT_OK(ep->tp->ops.mem_map(ep->tp, ep->peers[rank], world->key[rank], world->key_len[rank],
                                  world->addr[rank], world->len[rank], &remote));
        CT_CHECK(remote->addr == world->addr[rank] && remote->len >= world->len[rank]);
        ep->mem.remote[rank] = remote;
    }
    ct_barrier(ep);
}

void ct_mem_open(struct ct_ep *ep, size_t len)
{
    void *addr = NULL;
    ep->world->len[ep->self] = len;
    ct_barrier(ep);
    size_t most = 0;
    for (uint32_t rank = 0; rank < ep->size; rank++)
        most = aqi_max(most, ep->world->len[rank]);
    ct_barrier(ep);
    CT_OK(ep->tp->ops.mem_alloc(ep->tp, len, most, &addr));
    CT_CHECK(addr != NULL && (uintptr_t)addr % aqi_page_size() == 0);
    ct_mem_share(ep, addr, len);
}

void ct_mem_close(struct ct_ep *ep)
{
    ct_barrier(ep);
    harness_forget(ep);
}

void ct_comp_init(const struct ct_ep *ep, struct aqi_comp *comp)
{
    memset(comp, 0, sizeof(*comp));
    comp->shared = ep->threads;
}

uint32_t ct_comp_local(struct aqi_comp *comp)
{
    return atomic_load_explicit(&comp->local, memory_order_acquire);
}

uint32_t ct_comp_remote(struct aqi_comp *comp)
{
    return atomic_load_explicit(&comp->remote, memory_order_acquire);
}

void ct_comp_wait(struct ct_ep *ep, struct aqi_comp *comp)
{
    while (ct_comp_local(comp) != 0 || ct_comp_remote(comp) != 0)
        ct_poll(ep);
    CT_EQUAL(atomic_load(&comp->status), AQ_OK);
}

void ct_put(struct ct_ep *ep, uint32_t rank, size_t offset, const void *src, size_t len,
            struct aqi_comp *comp)
{
    uint64_t addr = ep->world->addr[rank] + offset;
    aqi_comp_add(comp, &comp->local, 1);
    aqi_comp_add(comp, &comp->remote, 1);
    aq_status status;
    while ((status = ep->tp->ops.put(ep->tp, ep->peers[rank], ep->mem.remote[rank], addr, src, len,
                                     ct_local_mem(ep, src, len), comp)) == AQ_AGAIN)
        ct_poll(ep);
    CT_EQUAL(status, AQ_OK);
}

void ct_get(struct ct_ep *ep, uint32_t rank, size_t offset, void *dst, size_t len,
            struct aqi_comp *comp)
{
    uint64_t addr = ep->world->addr[rank] + offset;
    aqi_comp_add(comp, &comp->remote, 1);
    aq_status status;
    while ((status = ep->tp->ops.get(ep->tp, ep->peers[rank], ep->mem.remote[rank], addr, dst, len,
                                     ct_local_mem(ep, dst, len), comp)) == AQ_AGAIN)
        ct_poll(ep);
    CT_EQUAL(status, AQ_OK);
}

void ct_atomic(struct ct_ep *ep, uint32_t rank, const struct aqi_atomic *req, void *result,
               struct aqi_comp *comp)
{
    aqi_comp_add(comp, &comp->remote, 1);
    aq_status status;
    while ((status = ep->tp->ops.atomic(ep->tp, ep->peers[rank], ep->mem.remote[rank], req, result,
                                        comp)) == AQ_AGAIN)
        ct_poll(ep);
    CT_EQUAL(status, AQ_OK);
}

/* --- data -------------------------------------------------------------------------------- */

uint64_t ct_random(struct ct_ep *ep)
{
    ep->random += 0x9e3779b97f4a7c15u;
    return mix(ep->random);
}

bool ct_overdue(uint64_t *start_ns, unsigned seconds)
{
    uint64_t now = aqi_now_ns();
    if (*start_ns == 0) *start_ns = now;
    return now - *start_ns > seconds * 1000000000ull;
}

unsigned ct_count_fds(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    CT_CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

void ct_expect_fds(unsigned fds, unsigned more)
{
    char said[4000];
    size_t used = 0;
    unsigned count = ct_count_fds();
    if (count >= fds && count <= fds + more) return;
    DIR *dir = opendir("/proc/self/fd");
    CT_CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL && used < sizeof(said);) {
        char what[64] = "";
        (void)!readlinkat(dirfd(dir), entry->d_name, what, sizeof(what) - 1);
        used += (size_t)snprintf(said + used, sizeof(said) - used, " %s %s;", entry->d_name, what);
    }
    closedir(dir);
    fprintf(stderr, "open:%s\n", said);
    CT_EQUAL(count, fds);
}

unsigned ct_count_shared_maps(void)
{
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CT_CHECK(maps != NULL);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, maps) > 0)
        count += strstr(line, "memfd:") != NULL;
    free(line);
    fclose(maps);
    return count;
}
