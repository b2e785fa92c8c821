/*
 * ofi: several domains (AQ_OFI_DOMAINS), for programs with several threads that communicate. Each
 * is a separate `ofi_tp` with its own endpoint, queue, buffers and lock, independent of the others:
 * messages are numbered, confirmed and resent per domain. This file passes a thread's calls to its
 * domain, which is connected to the domain of the same index at the peer. Replies use the domain of
 * the request, so that they confirm its messages.
 *
 * Each poll polls the thread's own domain and those without a thread. Other domains, which their
 * own threads poll as well, are polled occasionally (AQ_OFI_DOMAIN_POLLS), or if polls are slow,
 * after some time, and then again as long as there is something to do.
 *
 * Memory is registered in each domain. If a peer has another number of domains, those that both
 * have are used.
 */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { OFI_THREADS = 64 }; /* threads whose domain is in a table; others share those */

static const uint64_t ofi_domains_glance_ns = 20000;

struct ofi_domains {
    struct aqi_tp tp;
    unsigned count;
    struct ofi_domains_peer *peers; /* by rank */
    int fd;                         /* readable when that of a domain is; -1: not all have one */
    struct ofi_tp *domain[OFI_DOMAINS];
    unsigned char place[OFI_THREADS];
    _Atomic unsigned threads; /* number of threads seen so far */
    struct {
        _Alignas(AQI_CACHE_LINE) _Atomic uint64_t at; /* when one of its threads last polled it */
    } looked[OFI_DOMAINS];
};

struct ofi_domains_peer {
    _Atomic unsigned count; /* domains that both have; 0: its address is unknown */
    atomic_bool lost;       /* reported, at most once */
};

struct ofi_domains_mem {
    struct aqi_mem mem;
    struct ofi_key key;
    struct aqi_mem *in[OFI_DOMAINS];
};

struct ofi_domains_rmem {
    struct aqi_rmem rmem;
    unsigned count;
    struct aqi_rmem *in[OFI_DOMAINS];
};

/* State of this thread: the domain whose handlers it runs, and its polls of other threads'
 * domains. */
static _Thread_local const struct ofi_tp *ofi_domains_serving;
static _Thread_local struct {
    uint32_t polls;
    bool again;
    uint64_t at;
} ofi_domains_glance;

static unsigned ofi_domains_mine(struct ofi_domains *all)
{
    unsigned thread = aqi_tp_thread,
             seen = atomic_load_explicit(&all->threads, memory_order_relaxed);
    while (AQI_UNLIKELY(seen <= thread) &&
           !atomic_compare_exchange_weak(&all->threads, &seen, thread + 1)) {
    }
    return all->place[thread % OFI_THREADS];
}

/* The peer in this domain, given that in the first one, which is the core's. NULL: it has fewer. */
static struct aqi_peer *ofi_domains_in(const struct ofi_domains *all, unsigned place,
                                       const struct aqi_peer *peer)
{
    return (struct aqi_peer *)all->domain[place]->rdma.peers[peer->id];
}

/* --- sending --------------------------------------------------------------------------------- */

/* The domain for a message to this peer; -1: unknown for now. */
static int ofi_domains_place_for(struct ofi_domains *all, const struct aqi_peer *to,
                                 const struct aqi_am *am)
{
    const struct ofi_tp *serving = ofi_domains_serving;
    struct ofi_domains_peer *peer = &all->peers[to->id];
    unsigned count = atomic_load_explicit(&peer->count, memory_order_relaxed);
    if (AQI_UNLIKELY(count == 0)) {
        count = (unsigned)aqi_min(all->count, ofi_peer_domains(all->domain[0], to->id));
        if (count == 0) return -1;
        atomic_store_explicit(&peer->count, count, memory_order_relaxed);
    }
    unsigned place =
        (am->flags & AQI_AM_IS_REPLY) != 0 && serving != NULL && serving->front == &all->tp
            ? serving->place
            : ofi_domains_mine(all);
    if (AQI_UNLIKELY(place >= count)) place %= count;
    return (int)place;
}

static aq_status ofi_domains_am_send(struct aqi_tp *tp, struct aqi_peer *to,
                                     const struct aqi_am *am, struct aqi_comp *comp)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    int place = ofi_domains_place_for(all, to, am);
    if (AQI_UNLIKELY(place < 0)) return AQ_AGAIN;
    unsigned at = (unsigned)place;
    return aqi_rdma_am_send(&all->domain[at]->rdma.tp, ofi_domains_in(all, at, to), am, comp);
}

static unsigned ofi_domains_place_of(struct ofi_domains *all, const struct ofi_domains_rmem *rmem)
{
    unsigned place = ofi_domains_mine(all);
    return AQI_LIKELY(place < rmem->count) ? place : place % rmem->count;
}

static const struct aqi_mem *ofi_domains_local(const struct aqi_mem *mem, unsigned place)
{
    return mem != NULL ? ((const struct ofi_domains_mem *)mem)->in[place] : NULL;
}

static aq_status ofi_domains_am_long(struct aqi_tp *tp, struct aqi_peer *to,
                                     const struct aqi_am *am, const struct aqi_rmem *rmem,
                                     const struct aqi_mem *mem, struct aqi_comp *comp)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    const struct ofi_domains_rmem *there = (const struct ofi_domains_rmem *)rmem;
    int place = ofi_domains_place_for(all, to, am);
    if (AQI_UNLIKELY(place < 0)) return AQ_AGAIN;
    unsigned at = (unsigned)place;
    if (AQI_UNLIKELY(at >= there->count)) return AQ_ENOTSUP;
    return aqi_rdma_am_long(&all->domain[at]->rdma.tp, ofi_domains_in(all, at, to), am,
                            there->in[at], ofi_domains_local(mem, at), comp);
}

static aq_status ofi_domains_put(struct aqi_tp *tp, struct aqi_peer *peer,
                                 const struct aqi_rmem *rmem, uint64_t addr, const void *src,
                                 size_t len, const struct aqi_mem *mem, struct aqi_comp *comp)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    const struct ofi_domains_rmem *there = (const struct ofi_domains_rmem *)rmem;
    unsigned at = ofi_domains_place_of(all, there);
    return aqi_rdma_put_bytes(&all->domain[at]->rdma.tp, ofi_domains_in(all, at, peer),
                              there->in[at], addr, src, len, ofi_domains_local(mem, at), comp);
}

static aq_status ofi_domains_get(struct aqi_tp *tp, struct aqi_peer *peer,
                                 const struct aqi_rmem *rmem, uint64_t addr, void *dst, size_t len,
                                 const struct aqi_mem *mem, struct aqi_comp *comp)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    const struct ofi_domains_rmem *there = (const struct ofi_domains_rmem *)rmem;
    unsigned at = ofi_domains_place_of(all, there);
    return aqi_rdma_get_bytes(&all->domain[at]->rdma.tp, ofi_domains_in(all, at, peer),
                              there->in[at], addr, dst, len, ofi_domains_local(mem, at), comp);
}

/* --- progress -------------------------------------------------------------------------------- */

static unsigned ofi_domains_serve(struct ofi_tp *ofi, enum aqi_progress_mode mode, uint64_t now)
{
    const struct ofi_tp *before = ofi_domains_serving;
    ofi_domains_serving = ofi;
    unsigned n = ofi_progress(&ofi->rdma.tp, mode, now);
    ofi_domains_serving = before;
    return n;
}

/* Whether its own threads have polled it recently. */
static bool ofi_domains_is_polled(const struct ofi_domains *all, unsigned place, uint64_t now)
{
    return now - atomic_load_explicit(&all->looked[place].at, memory_order_relaxed) <
           ofi_domains_glance_ns;
}

static unsigned ofi_domains_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    unsigned mine = ofi_domains_mine(all), others = 0;
    unsigned threads = atomic_load_explicit(&all->threads, memory_order_relaxed);
    bool glance = mode == AQI_PROGRESS_REPLIES || ofi_domains_glance.again ||
                  (++ofi_domains_glance.polls & ofi_config.domain_polls) == 0 ||
                  now - ofi_domains_glance.at >= ofi_domains_glance_ns;
    atomic_store_explicit(&all->looked[mine].at, now, memory_order_relaxed);
    unsigned n = ofi_domains_serve(all->domain[mine], mode, now);
    if (glance) ofi_domains_glance.at = now;
    for (unsigned i = 0; i < all->count; i++) {
        if (i == mine) continue;
        bool left = (uint64_t)i * ofi_config.domain_threads < threads; /* assigned to threads */
        if (left && mode == AQI_PROGRESS_ALL && (!glance || ofi_domains_is_polled(all, i, now)))
            continue;
        others += ofi_domains_serve(all->domain[i], mode, now);
    }
    ofi_domains_glance.again = others != 0;
    return n + others;
}

static aq_status ofi_domains_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    aq_status st = AQ_OK;
    for (unsigned i = 0; i < all->count; i++) {
        struct aqi_peer *in = peer != NULL ? ofi_domains_in(all, i, peer) : NULL;
        if (peer != NULL && in == NULL) continue;
        if (aqi_rdma_quiet(&all->domain[i]->rdma.tp, in) != AQ_OK) st = AQ_AGAIN;
    }
    return st;
}

static aq_status ofi_domains_drain(struct aqi_tp *tp, uint64_t deadline)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    aq_status st = AQ_OK;
    for (unsigned i = 0; i < all->count; i++)
        if (aqi_rdma_drain(&all->domain[i]->rdma.tp, deadline) != AQ_OK) st = AQ_AGAIN;
    return st;
}

static uint64_t ofi_domains_next_deadline(struct aqi_tp *tp)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    uint64_t at = AQI_NO_DEADLINE;
    for (unsigned i = 0; i < all->count; i++)
        at = aqi_min(at, ofi_next_deadline(&all->domain[i]->rdma.tp));
    return at;
}

static int ofi_domains_wait_fd(struct aqi_tp *tp)
{
    return ((struct ofi_domains *)tp)->fd;
}

/* The thread must poll every domain that keeps it from sleeping, whichever thread owns it. */
static aq_status ofi_domains_arm(struct aqi_tp *tp, bool on)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    for (unsigned i = 0; i < all->count; i++) {
        if (ofi_arm(&all->domain[i]->rdma.tp, on) == AQ_OK) continue;
        ofi_domains_glance.again = true;
        atomic_store_explicit(&all->looked[i].at, 0, memory_order_relaxed);
        return AQ_AGAIN;
    }
    return AQ_OK;
}

/* --- peers ----------------------------------------------------------------------------------- */

static aq_status ofi_domains_connect(struct aqi_tp *tp, uint32_t id, uint32_t host,
                                     struct aqi_peer **out)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    struct aqi_peer *in[OFI_DOMAINS];
    for (unsigned i = 0; i < all->count; i++) {
        aq_status st = aqi_rdma_connect(&all->domain[i]->rdma.tp, id, host, &in[i]);
        if (i != 0 && st == AQ_ENOTSUP) break; /* it has fewer */
        if (st != AQ_OK) return st;
    }
    *out = in[0];
    return AQ_OK;
}

static void ofi_domains_disconnect(struct aqi_tp *tp, struct aqi_peer *to)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    for (unsigned i = 0; i < all->count; i++) {
        struct aqi_peer *in = ofi_domains_in(all, i, to);
        if (in != NULL) aqi_rdma_disconnect(&all->domain[i]->rdma.tp, in);
    }
}

static void ofi_domains_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    const struct ofi_domains *all = arg;
    all->tp.hooks.deliver(all->tp.hooks.arg, source, am);
}

/* A peer lost in one domain is lost in all. */
static void ofi_domains_peer_lost(void *arg, uint32_t id, const char *why)
{
    struct ofi_domains *all = arg;
    if (atomic_exchange(&all->peers[id].lost, true)) return;
    ofi_domains_disconnect(&all->tp, &all->domain[0]->rdma.peers[id]->peer);
    all->tp.hooks.peer_lost(all->tp.hooks.arg, id, why);
}

/* --- memory ---------------------------------------------------------------------------------- */

static void ofi_domains_mem_dereg(struct aqi_tp *tp, struct aqi_mem *out)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    struct ofi_domains_mem *mem = (struct ofi_domains_mem *)out;
    for (unsigned i = 0; i < all->count; i++)
        if (mem->in[i] != NULL) aqi_rdma_mem_dereg(&all->domain[i]->rdma.tp, mem->in[i]);
    free(mem);
}

/* Register with all domains or with none. */
static aq_status ofi_domains_mem_reg(struct aqi_tp *tp, void *addr, size_t len,
                                     struct aqi_mem **out)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    struct ofi_domains_mem *mem = calloc(1, sizeof(*mem));
    if (mem == NULL) return AQ_ENOMEM;
    for (unsigned i = 0; i < all->count; i++) {
        aq_status st = aqi_rdma_mem_reg(&all->domain[i]->rdma.tp, addr, len, &mem->in[i]);
        if (st != AQ_OK) {
            ofi_domains_mem_dereg(tp, &mem->mem);
            return st;
        }
        const struct ofi_key *key = mem->in[i]->key;
        if (i == 0) mem->key = *key;
        mem->key.keys[i] = key->keys[0];
    }
    mem->mem = (struct aqi_mem){
        .addr = addr, .len = len, .key = &mem->key, .key_len = ofi_key_len(all->count)};
    *out = &mem->mem;
    return AQ_OK;
}

static void ofi_domains_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *out)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    struct ofi_domains_rmem *rmem = (struct ofi_domains_rmem *)out;
    for (unsigned i = 0; i < rmem->count; i++)
        aqi_rdma_mem_unmap(&all->domain[i]->rdma.tp, rmem->in[i]);
    free(rmem);
}

static aq_status ofi_domains_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key,
                                     size_t key_len, uint64_t addr, size_t len,
                                     struct aqi_rmem **out)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    struct ofi_domains_rmem *rmem = calloc(1, sizeof(*rmem));
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, "ofi", "no memory to map memory");
    aq_status st = AQ_OK;
    do {
        unsigned i = rmem->count;
        st =
            aqi_rdma_mem_map(&all->domain[i]->rdma.tp, peer, key, key_len, addr, len, &rmem->in[i]);
        if (st != AQ_OK || rmem->in[i] == NULL) break;
    } while (++rmem->count < all->count && ofi_key_len(rmem->count + 1) <= key_len);
    if (st == AQ_OK && rmem->count != 0 && rmem->in[rmem->count - 1] != NULL) {
        rmem->rmem = *rmem->in[0];
        *out = &rmem->rmem;
        return AQ_OK;
    }
    ofi_domains_mem_unmap(tp, &rmem->rmem);
    *out = NULL;
    return st;
}

/* --- opening --------------------------------------------------------------------------------- */

static aq_status ofi_domains_address(struct aqi_tp *tp, void *out, size_t *len)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    unsigned char *bytes = out;
    aq_status st = ofi_address(&all->domain[0]->rdma.tp, out, len);
    for (unsigned i = 1; i < all->count && st == AQ_OK; i++) {
        struct ofi_addr addr;
        size_t one;
        st = ofi_address(&all->domain[i]->rdma.tp, &addr, &one);
        if (st != AQ_OK || *len + 1 + addr.len > OFI_ADDR) return AQ_ELIMIT;
        bytes[(*len)++] = (unsigned char)addr.len;
        memcpy(bytes + *len, addr.name, addr.len);
        *len += addr.len;
    }
    return st;
}

static int ofi_domains_describe(struct aqi_tp *tp, char *buf, size_t len)
{
    const struct ofi_domains *all = (const struct ofi_domains *)tp;
    int n = snprintf(buf, len, "%u domains, each: ", all->count);
    size_t used = aqi_min((size_t)n, len);
    return n + ofi_describe(&all->domain[0]->rdma.tp, buf + used, len - used);
}

static void ofi_domains_close(struct aqi_tp *tp)
{
    struct ofi_domains *all = (struct ofi_domains *)tp;
    for (unsigned i = 0; i < all->count; i++)
        ofi_close(&all->domain[i]->rdma.tp);
    free(all->peers);
    if (all->fd >= 0) close(all->fd);
    free(all);
}

/* One descriptor for those of all domains. */
static void ofi_domains_open_fd(struct ofi_domains *all)
{
    struct epoll_event event = {.events = EPOLLIN};
    all->fd = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < all->count && all->fd >= 0; i++) {
        int fd = all->domain[i]->rdma.fd;
        if (fd >= 0 && epoll_ctl(all->fd, EPOLL_CTL_ADD, fd, &event) == 0) continue;
        close(all->fd);
        all->fd = -1;
    }
}

/* As many as requested, but at most this process's share of the adapter's endpoints. */
static unsigned ofi_domains_share(const struct ofi_tp *first)
{
    uint64_t most = first->info->domain_attr->ep_cnt / aqi_max(1, first->rdma.params.local_size);
    if (first->info->domain_attr->ep_cnt == 0 || most >= ofi_config.domains)
        return (unsigned)ofi_config.domains;
    aqi_log(
        AQI_LOG_INFO, "ofi",
        "%s on %s has %zu endpoints for the %u processes of this host: using %u of %u domains (%s)",
        ofi_name(first), first->info->domain_attr->name, first->info->domain_attr->ep_cnt,
        first->rdma.params.local_size, (unsigned)aqi_max(1, most), (unsigned)ofi_config.domains,
        aqi_setting_variable("AQ_OFI_DOMAINS"));
    return (unsigned)aqi_max(1, most);
}

/* Open as many domains as possible, at least one. */
static aq_status ofi_domains_open_all(struct ofi_domains *all, const struct aqi_tp_params *params)
{
    struct aqi_tp_params inner = *params;
    unsigned char addr[OFI_ADDR];
    size_t len;
    aq_status st = AQ_OK;
    inner.hooks.deliver = ofi_domains_deliver;
    inner.hooks.peer_lost = ofi_domains_peer_lost;
    inner.hooks.arg = all;
    for (unsigned most = 1; all->count < most && st == AQ_OK;) {
        unsigned i = all->count;
        st = ofi_open_domain(&inner, &all->tp, i, i != 0 ? all->domain[0] : NULL, &all->domain[i]);
        if (st != AQ_OK) break;
        all->count++;
        if (i == 0) most = ofi_domains_share(all->domain[0]);
        st = ofi_domains_address(&all->tp, addr, &len);
        if (st != AQ_OK && i != 0) ofi_close(&all->domain[--all->count]->rdma.tp);
    }
    if (st == AQ_OK || all->count == 0) return st;
    aqi_log(AQI_LOG_WARN, "ofi", "only %u of %u domains (%s) could be opened: threads share them",
            all->count, (unsigned)ofi_config.domains, aqi_setting_variable("AQ_OFI_DOMAINS"));
    return AQ_OK;
}

static const struct aqi_transport ofi_domains_table;

aq_status ofi_domains_open(const struct aqi_tp_params *params, struct aqi_tp **tp)
{
    struct ofi_domains *all = aligned_alloc(AQI_CACHE_LINE, sizeof(*all));
    if (all == NULL) return aqi_fail(AQ_ENOMEM, "ofi", "no memory to open the transport");
    memset(all, 0, sizeof(*all));
    all->fd = -1;
    all->tp.hooks = params->hooks;
    all->tp.ops = ofi_domains_table;
    all->peers = calloc(params->size, sizeof(*all->peers));
    aq_status st = all->peers != NULL
                       ? ofi_domains_open_all(all, params)
                       : aqi_fail(AQ_ENOMEM, "ofi", "no memory for %u peers", params->size);
    if (st != AQ_OK) {
        ofi_domains_close(&all->tp);
        return st;
    }
    all->tp.limits = all->domain[0]->rdma.tp.limits;
    for (unsigned i = 0; i < OFI_THREADS; i++)
        all->place[i] = (unsigned char)(i / ofi_config.domain_threads % all->count);
    ofi_domains_open_fd(all);
    *tp = &all->tp;
    return AQ_OK;
}

/* Replaces the table with which it was opened. */
static const struct aqi_transport ofi_domains_table = {
    .name = "ofi",
    .caps = AQI_RDMA_CAPS,
    .addr_max = OFI_ADDR,
    .key_max = OFI_KEY,
    .settings = &aqi_ofi_settings,
    .open = ofi_domains_open,
    .close = ofi_domains_close,
    .address = ofi_domains_address,
    .connect = ofi_domains_connect,
    .am_send = ofi_domains_am_send,
    .am_long = ofi_domains_am_long,
    .progress = ofi_domains_progress,
    .quiet = ofi_domains_quiet,
    .disconnect = ofi_domains_disconnect,
    .drain = ofi_domains_drain,
    .put = ofi_domains_put,
    .get = ofi_domains_get,
    .mem_reg = ofi_domains_mem_reg,
    .mem_dereg = ofi_domains_mem_dereg,
    .mem_map = ofi_domains_mem_map,
    .mem_unmap = ofi_domains_mem_unmap,
    .next_deadline = ofi_domains_next_deadline,
    .wait_fd = ofi_domains_wait_fd,
    .arm = ofi_domains_arm,
    .describe = ofi_domains_describe,
};
