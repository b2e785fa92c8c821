/* The context: opens the transports, finds a route to every peer, and closes everything. */
#include "core/conn/conn.h"
#include "core/team/team.h"

#include "base/clock.h"
#include "base/copy.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names the agreements of aq_finalize; those of aq_team_shrink begin with the id of a team. */
#define LEAVE_NAME UINT64_MAX

/* --- opening --------------------------------------------------------------------------------- */

static void context_hook_peer_lost(void *arg, uint32_t id, const char *why)
{
    (void)arg;
    /* The death of a process on this host is not logged: aqrun reports it if it matters. */
    if (!core.params.survive && (core.routes[id].tp->ops.caps & AQI_CAP_FAR) != 0)
        aqi_log(AQI_LOG_WARN, "core", "rank %u is no longer reachable: %s", id, why);
    aqi_core_peer_down(id, why);
}

/* A program may wait forever for a message that cannot be sent to it. */
static void context_hook_unreached(void *arg, uint32_t id, const char *why)
{
    char text[640];
    (void)arg;
    if (core.params.survive) return;
    snprintf(text, sizeof(text), "rank %u cannot be reached: %s", id, why);
    core.boot.fatal(core.boot.arg, text);
}

static aq_status context_hook_lookup(void *arg, const struct aqi_tp *tp, uint32_t id, void *addr,
                                     size_t *len)
{
    (void)arg;
    const void *blob = core_card_get(core_place_of(id), sizeof(struct core_place), CORE_ADDRESSES,
                                     core_tp_index(tp), len);
    memcpy(addr, blob, *len);
    return AQ_OK;
}

static aq_status context_hook_share(void *arg, const char *name, size_t bytes, int *fd)
{
    (void)arg;
    return core.boot.share(core.boot.arg, name, bytes, fd);
}

/* A setting that costs memory per peer: lower in jobs of more than `crowd` processes. */
static uint64_t context_spare(const char *name, uint32_t crowd, uint64_t less)
{
    return aqi_setting_spare(&aqi_core_settings, name, core.params.size > crowd, less);
}

/* A receiver has buffers for all that may arrive from each peer before it handles any of it: less
 * in larger jobs. */
static struct aqi_credit_limits context_credits(void)
{
    static const struct {
        uint32_t crowd, depth;
        uint64_t bytes;
    } less[] = {{128, 32, 12 << 10}, {8, 32, 128 << 10}, {4, 64, 256 << 10}};
    struct aqi_credit_limits limits = {.depth = (uint32_t)aqi_core_config.am_credits,
                                       .total = (uint32_t)aqi_core_config.am_credits_total,
                                       .slack = (uint32_t)aqi_core_config.am_slack,
                                       .bytes = aqi_core_config.am_bytes};
    for (size_t i = 0; i < AQI_COUNT_OF(less); i++) {
        if (core.params.size <= less[i].crowd) continue;
        limits.depth = (uint32_t)context_spare("AQ_AM_CREDITS", less[i].crowd, less[i].depth);
        limits.bytes = context_spare("AQ_AM_BYTES", less[i].crowd, less[i].bytes);
        break;
    }
    return limits;
}

static void context_tp_params(void)
{
    const struct aqi_core_params *p = &core.params;
    core.tp_params = (struct aqi_tp_params){
        .hooks = {.deliver = core_hook_deliver,
                  .peer_lost = context_hook_peer_lost,
                  .unreached = context_hook_unreached,
                  .range_ok = core_hook_range_ok,
                  .share = context_hook_share,
                  .lookup = context_hook_lookup,
                  .now = core_hook_now,
                  .relax = core_hook_relax},
        .self = p->rank,
        .size = p->size,
        .local_rank = p->local_rank,
        .local_size = p->local_size,
        .host = p->host,
        .threads = core.multi,
        .on_demand = aqi_core_config.segment_mode != AQ_SEGMENT_FAST,
        /* Each pair that communicates takes four times as much, in each direction. */
        .max_medium = context_spare("AQ_AM_MAX_MEDIUM", 16, 8192),
        .reach_within_ns = p->start_timeout_ns,
        .long_apart = aqi_core_config.packed_long + 1,
        .credits = context_credits(),
    };
    memcpy(core.tp_params.key, p->key, sizeof(p->key));
}

static void context_offer(const struct aqi_transport *transport)
{
    core.offered[core.offered_count++] = transport;
}

/* Open the transport that was offered last. */
static aq_status context_open_transport(const struct aqi_transport *transport)
{
    struct aqi_tp *tp;
    aq_status st = aqi_tp_open(transport, &core.tp_params, &tp);
    if (st != AQ_OK) return st;
    core.place[core.tp_count] = core.offered_count - 1;
    tp->index = core.tp_count;
    core.tps[core.tp_count++] = tp;
    if (!tp->watched || tp->watch != NULL) core.looked_at[core.looks++] = tp;
    core.timers = core.timers || (tp->ops.caps & AQI_CAP_TIMERS) != 0;
    char text[256];
    tp->ops.describe(tp, text, sizeof(text));
    aqi_log(AQI_LOG_INFO, "core", "transport %s: %s", transport->name, text);
    return AQ_OK;
}

static aq_status context_open_listed(const char *name)
{
    const struct aqi_transport *transport = aqi_transport_find(name);
    if (transport == NULL) {
        char known[128] = "";
        for (const struct aqi_transport *const *t = aqi_transports; *t != NULL; t++) {
            strncat(known, " ", sizeof(known) - strlen(known) - 1);
            strncat(known, (*t)->name, sizeof(known) - strlen(known) - 1);
        }
        return aqi_fail(AQ_ESETTING, "core",
                        "AQ_TRANSPORTS=\"%s\": there is no transport \"%s\"; the names are auto%s",
                        aqi_core_config.transports, name, known);
    }
    for (unsigned i = 0; i < core.tp_count; i++)
        if (strcmp(core.tps[i]->ops.name, name) == 0) return AQ_OK;
    context_offer(transport);
    return context_open_transport(transport);
}

static bool context_is_asked_for(const struct aqi_transport *transport)
{
    const struct aqi_settings_table *settings = transport->settings;
    for (size_t row = 0; settings != NULL && row < settings->count; row++)
        if (!aqi_setting_is_default(settings, row)) return true;
    return false;
}

/*
 * Transports that reach other hosts are used only if there are other hosts, or if AQ_NEIGHBORHOOD
 * divides this one, to test how a program behaves on several.
 */
static bool context_may_use(const struct aqi_transport *transport)
{
    if ((transport->caps & AQI_CAP_FAR) == 0) return true;
    if (core.params.local_size != core.params.size) return true;
    return core_neighbors_group(core.params.local_size - 1) != 0;
}

/*
 * Whether to open a transport. A network may be absent, unless one of its settings is set, or it is
 * the last one that could reach other hosts: its error is then reported.
 */
static bool context_is_there(const struct aqi_transport *const *transport)
{
    struct aqi_tp_probe probe;
    if (((*transport)->caps & AQI_CAP_FAR) == 0) return true;
    if (transport[1] == NULL && core.params.local_size != core.params.size) return true;
    if (context_is_asked_for(*transport)) return true;
    (void)aqi_tp_probe(*transport, 0, &probe);
    if (!probe.usable)
        aqi_log(AQI_LOG_INFO, "core", "transport %s: %s", (*transport)->name, probe.reason);
    return probe.usable;
}

/* All ranks open them in the same order: opening may be collective among the ranks of a host. */
static aq_status context_open_auto(void)
{
    aq_status st = AQ_OK;
    for (const struct aqi_transport *const *t = aqi_transports; *t != NULL && st == AQ_OK; t++) {
        if (!context_may_use(*t)) continue;
        context_offer(*t);
        if (context_is_there(t)) st = context_open_transport(*t);
    }
    return st;
}

static aq_status context_open_transports(void)
{
    char list[256], *save;
    aq_status st = AQ_OK;
    core.offered_count = 0;
    if (strcmp(aqi_core_config.transports, "auto") == 0) return context_open_auto();
    if (strlen(aqi_core_config.transports) >= sizeof(list))
        return aqi_fail(AQ_ESETTING, "core", "AQ_TRANSPORTS is longer than %zu characters",
                        sizeof(list) - 1);
    strcpy(list, aqi_core_config.transports);
    for (char *name = strtok_r(list, ", ", &save); name != NULL && st == AQ_OK;
         name = strtok_r(NULL, ", ", &save))
        st = context_open_listed(name);
    if (st == AQ_OK && core.tp_count == 0)
        st = aqi_fail(AQ_ESETTING, "core", "AQ_TRANSPORTS names no transport");
    return st == AQ_OK ? context_open_listed("loop")
                       : st; /* nothing else reaches the process itself */
}

/* The first transport that reaches a peer becomes its route. Returns AQ_ENOTSUP if none does. */
static aq_status context_find_route(uint32_t rank, uint32_t host)
{
    struct core_route *route = &core.routes[rank];
    for (unsigned t = 0; t < core.tp_count; t++) {
        struct aqi_tp *tp = core.tps[t];
        aq_status st = tp->ops.connect(tp, rank, host, &route->peer);
        if (st == AQ_ENOTSUP) continue;
        if (st != AQ_OK) return st;
        route->tp = tp;
        route->max_medium = route->peer->max_medium;
        route->self = rank == core.params.rank;
        core.max_medium = aqi_min(core.max_medium, route->max_medium);
        core.max_long = aqi_min(core.max_long, route->peer->max_long);
        if (rank != core.params.rank) core.carries[t] = true;
        return AQ_OK;
    }
    return AQ_ENOTSUP;
}

static aq_status context_write_card(void *card)
{
    unsigned char addr[AQI_ADDR_MAX];
    struct core_place mine;
    aq_status st = AQ_OK;
    core_neighbors_here(&mine);
    memcpy(card, &mine, sizeof(mine));
    for (unsigned t = 0; t < core.tp_count && st == AQ_OK; t++) {
        size_t len = 0;
        st = core.tps[t]->ops.address(core.tps[t], addr, &len);
        core_card_set(card, sizeof(mine), CORE_ADDRESSES, t, addr, len);
    }
    return st;
}

/* Other neighborhoods of this host are reached like other hosts, if a transport can do that. */
static aq_status context_find_routes(void)
{
    static const uint32_t elsewhere = UINT32_MAX;
    unsigned char mine[CORE_CARD_MAX] = {0};
    const void *all;
    aq_status st = context_write_card(mine);
    core.card_bytes = core_card_size(sizeof(struct core_place), CORE_ADDRESSES);
    if (st == AQ_OK) st = core.boot.table(core.boot.arg, mine, core.card_bytes, &all);
    if (st == AQ_OK) core.cards = all;
    for (uint32_t rank = 0; rank < core.params.size && st == AQ_OK; rank++) {
        uint32_t host = core_place_of(rank)->host;
        bool apart = host == core.params.host && core_is_apart(rank);
        st = context_find_route(rank, apart ? elsewhere : host);
        if (st == AQ_ENOTSUP && apart) st = context_find_route(rank, host);
        if (st == AQ_ENOTSUP)
            st = aqi_fail(AQ_EPEER, "core",
                          "no transport reaches rank %u: AQ_TRANSPORTS=%s excludes those that do "
                          "(auto allows all)",
                          rank, aqi_core_config.transports);
    }
    return st;
}

static aq_status context_allocate(void)
{
    uint32_t size = core.params.size;
    /* Routes to further endpoints take no memory before core_ep_reach touches them. */
    core.routes = aligned_alloc(AQI_CACHE_LINE, CORE_EPS * size * sizeof(struct core_route));
    if (core.routes == NULL) return aqi_fail(AQ_ENOMEM, "core", "no memory for %u routes", size);
    memset(core.routes, 0, size * sizeof(struct core_route));
    for (uint32_t i = 0; i < size; i++)
        core.routes[i].rank = i;
    atomic_store(&core.reached_eps, 1);
    core.ep.capabilities = AQ_EP_ALL;
    atomic_store(&core.eps[0], &core.ep);
    core.world.routes = core.routes;
    return AQ_OK;
}

static void context_free_routes(void)
{
    free(core.routes);
    core.routes = NULL;
}

static void context_close_transports(void)
{
    while (core.tp_count > 0)
        aqi_tp_close(core.tps[--core.tp_count]);
}

/* Opened in this order, closed in reverse, even if opening failed. */
static const struct {
    aq_status (*open)(void);
    void (*close)(void);
} modules[] = {
    {core_threads_open, core_threads_close},
    {core_lost_open, core_lost_close},
    {context_allocate, context_free_routes},
    {core_sleep_open, core_sleep_close},
    {core_after_open, core_after_close},
    {core_asked_open, core_asked_close},
    {NULL, core_eps_close},
    {context_open_transports, context_close_transports},
    {NULL, core_segments_close},
    {context_find_routes, NULL},
    {core_neighbors_open, core_neighbors_close},
    /*
     * Its agreement ensures that no rank sends before all can receive. Messages that arrive while
     * this rank waits there or opens the rest are handled later (aqi_core_idle).
     */
    {core_scratch_open, core_scratch_close},
    {core_teams_open, core_teams_close},
    {NULL, core_domains_close},
    {core_conns_open, core_conns_close},
};
static size_t modules_open;

aq_status aqi_core_open(const struct aqi_core_params *params, aq_team **world)
{
    aq_status st = AQ_OK;
    memset(&core, 0, sizeof(core));
    atomic_store(&core_sources_busy, 0);
    core.params = *params;
    core.boot = params->boot;
    core.thread_mode = params->thread_mode;
    core.owner = core_thread_id();
    core.progress_thread = aqi_core_config.progress_thread != 0;
    core.multi = params->thread_mode == AQ_THREAD_MULTIPLE || core.progress_thread;
    core.wakes = core.multi || params->turns;
    struct aqi_comp none = {.shared = core.multi};
    core.nothing = (struct core_set){none, none, none, none};
    atomic_store(&aqi_tp_pending, core.progress_thread); /* if set, every poll is a full round */
    core.max_medium = core.max_long = SIZE_MAX;
    core.world = (struct aq_team){.rank = params->rank, .size = params->size};
    core.wait_wanted = (aq_wait_mode)aqi_core_config.wait;
    core_mode_crowd(1);
    core_mode_calibrate();
    context_tp_params();
    aqi_copy_configure((enum aqi_copy_method)aqi_core_config.copy,
                       (size_t)aqi_core_config.copy_least);
    for (modules_open = 0; modules_open < AQI_COUNT_OF(modules) && st == AQ_OK; modules_open++)
        if (modules[modules_open].open != NULL) st = modules[modules_open].open();
    if (st == AQ_OK) {
        aqi_fail_expect_losses(true);
        atomic_store(&core.open, true);
        st = core_progress_thread_start();
    }
    if (st != AQ_OK) {
        aqi_core_close();
        return st;
    }
    *world = &core.world;
    return AQ_OK;
}

/* --- closing --------------------------------------------------------------------------------- */

static void context_drain(void)
{
    /* After two consecutive empty rounds nothing is left, including messages to ourselves. */
    for (unsigned empty = 0; empty < 2;)
        empty = core_progress_round() != 0 ? 0 : empty + 1;
}

/* A job that ends need not wait for operations in flight. */
static bool context_stop_at_loss(void)
{
    return atomic_load(&core.any_lost) && !core.params.survive;
}

/* A round of a wait; `alone`: of a process that ends alone, perhaps inside a handler. */
static void context_step(struct core_wait *wait, bool alone)
{
    if (alone)
        aqi_core_ending();
    else
        core_wait_step(wait, 1);
}

/* Wait until no operation that we started is in flight. */
static void context_wait_until_quiet(bool alone, uint64_t deadline)
{
    struct core_wait wait = {0};
    for (unsigned t = 0; t < core.tp_count; t++)
        while (core.tps[t]->ops.quiet(core.tps[t], NULL) == AQ_AGAIN && aqi_now_ns() < deadline &&
               !context_stop_at_loss())
            context_step(&wait, alone);
}

/* Peers may need the last acknowledgments again if the network has lost them. */
static void context_linger(bool alone, uint64_t deadline)
{
    if (!core.timers) return;
    struct core_wait wait = {0};
    for (unsigned t = 0; t < core.tp_count; t++)
        while (core.tps[t]->ops.drain(core.tps[t], deadline) == AQ_AGAIN &&
               aqi_now_ns() < deadline && !context_stop_at_loss())
            context_step(&wait, alone);
}

void aqi_core_deliver(uint64_t most_ns)
{
    enum { LINGER_NS = 100000000 };
    uint64_t deadline = aqi_now_ns() + most_ns;
    context_wait_until_quiet(true, deadline);
    context_linger(true, aqi_min(deadline, aqi_now_ns() + LINGER_NS));
}

/*
 * Agree that all living ranks have reached this round, over the control channel, so that nothing
 * has to be retransmitted afterwards.
 */
static aq_status context_agree_to_leave(uint64_t round)
{
    size_t bytes = core_set_bytes();
    uint8_t *sets = calloc(2, bytes);
    if (sets == NULL) return aqi_fail(AQ_ENOMEM, "core", "aq_finalize: out of memory");
    for (uint32_t i = 0; i < core.params.size; i++)
        sets[i / 8] |= (uint8_t)(1u << i % 8);
    aq_status st = core_agree(LEAVE_NAME, round, AQ_OK, sets, sets + bytes);
    free(sets);
    return st;
}

aq_status aqi_core_may_leave(void)
{
    aq_status st = aqi_core_callable("aq_finalize");
    if (st == AQ_OK && core_barrier_pending(&core.world))
        st = aqi_fail(AQ_ESTATE, "core",
                      "aq_finalize: the last aq_barrier_notify on the team of all has not been "
                      "followed by a wait");
    return st;
}

/*
 * After the barrier, all requests have arrived; after the second round, all replies to them. The
 * barrier has a code of its own, so a rank that is in another collective is detected. In a job that
 * survives deaths, it may succeed in some ranks and fail in others, so all agree once more.
 */
aq_status aqi_core_quiesce(void)
{
    static const uint64_t linger_ns = 1000000000;
    /* A progress round that finds nothing proves only that work of this thread has ended. */
    core_progress_thread_stop();
    context_wait_until_quiet(false, AQI_NO_DEADLINE);
    aq_status st = core_barrier_of("aq_finalize", COLL_CODE_FINALIZE, &core.world);
    if (core.params.survive && (st == AQ_OK || st == AQ_EPEER)) st = context_agree_to_leave(0);
    context_drain();
    if (st != AQ_OK) return st;
    context_wait_until_quiet(false, AQI_NO_DEADLINE);
    st = context_agree_to_leave(1);
    context_drain();
    if (st == AQ_OK) context_linger(false, aqi_now_ns() + linger_ns);
    return st;
}

void aqi_core_close(void)
{
    core_progress_thread_stop();
    atomic_store(&core.open, false);
    while (modules_open > 0)
        if (modules[--modules_open].close != NULL) modules[modules_open].close();
}

aq_status aqi_core_route_name(const aq_team *team, aq_rank rank, const char **name)
{
    aq_status st = AQ_OK;
    if (!atomic_load(&core.open)) return core_not_callable("aq_info_route");
    const struct core_route *route = core_route_to(team, rank, "aq_info_route", &st);
    if (route != NULL) *name = route->tp->ops.name;
    return st;
}

/* --- teams and the job ----------------------------------------------------------------------- */

aq_rank aq_job_rank(void)
{
    return atomic_load_explicit(&core.open, memory_order_relaxed) ? core.params.rank
                                                                  : aqi_log_rank();
}

aq_rank aq_job_size(void)
{
    return atomic_load_explicit(&core.open, memory_order_relaxed) ? core.params.size : 1;
}

aq_thread_mode aq_job_thread_mode(void)
{
    return core.thread_mode;
}

aq_rank aq_team_rank(const aq_team *team)
{
    return team != NULL && !team->dead ? team->rank : AQ_RANK_NONE;
}

aq_rank aq_team_size(const aq_team *team)
{
    return team != NULL ? team->size : 0;
}

aq_ep *aq_team_ep(const aq_team *team)
{
    if (team == NULL || team->dead) return NULL;
    return team->ep != NULL ? team->ep : &core.ep;
}
