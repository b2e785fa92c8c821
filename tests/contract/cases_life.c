/* Addresses, opening and closing, and the death of a peer. */
#include "../common/capture.h"
#include "harness.h"
#include "toy.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLAIN = 80 };

static void life_ignore(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    (void)ep;
    (void)source;
    (void)am;
}

static void life_probe(struct ct_ep *ep)
{
    struct aqi_tp_probe probe = {0};
    const struct aqi_transport *transport = ep->world->config.transport;
    CT_CHECK(transport == &toy_transport || aqi_transport_find(transport->name) == transport);
    CT_CHECK(aqi_transport_find("carrier-pigeon") == NULL);
    bool usable = false;
    CT_CHECK(transport->probe(0, &probe));
    for (unsigned device = 0; transport->probe(device, &probe); device++) {
        usable = usable || probe.usable;
        CT_CHECK(memchr(probe.reason, 0, sizeof(probe.reason)) != NULL);
        CT_CHECK(memchr(probe.device, 0, sizeof(probe.device)) != NULL);
    }
    CT_CHECK(usable);
}

/*
 * A peer on another host, or without an address, is not reachable; that is not reported as a
 * failure.
 */
static void life_addresses(struct ct_ep *ep)
{
    uint32_t other = ct_next(ep);
    ct_meet(ep);
    if (ep->self == 0) {
        struct capture capture;
        capture_begin(&capture);
        struct aqi_peer *peer = NULL;
        aq_status elsewhere = ep->tp->ops.connect(ep->tp, other, 1, &peer);
        size_t len = ep->world->home[other].len;
        ep->world->home[other].len = 0;
        aq_status nowhere = ep->tp->ops.connect(ep->tp, other, 0, &peer);
        ep->world->home[other].len = len;
        const char *said = capture_end(&capture);
        bool network = (ep->tp->ops.caps & AQI_CAP_FAR) != 0;
        CT_EQUAL(elsewhere, network ? AQ_OK : AQ_ENOTSUP);
        CT_EQUAL(nowhere, len != 0 ? AQ_ENOTSUP : AQ_OK);
        CT_CHECK(said[0] == '\0');
    }
    ct_barrier(ep);
}

/* A damaged address of this transport is refused, unless the damage yields another valid
 * address. */
static void life_bad_addresses(struct ct_ep *ep)
{
    ct_meet(ep);
    if (ep->self == 0) {
        uint32_t other = ct_next(ep);
        unsigned char *bytes = ep->world->home[other].bytes;
        size_t length = ep->world->home[other].len;
        struct aqi_peer *peer = NULL;
        for (size_t cut = 1; cut < length; cut++) {
            ep->world->home[other].len = cut;
            CT_EQUAL(ep->tp->ops.connect(ep->tp, other, 0, &peer), AQ_EPROTO);
            ep->world->home[other].len = length;
            if (cut > 4) continue; /* numbers follow, which may have other values */
            bytes[cut - 1] ^= 0x40;
            CT_EQUAL(ep->tp->ops.connect(ep->tp, other, 0, &peer), AQ_EPROTO);
            bytes[cut - 1] ^= 0x40;
        }
    }
    ct_barrier(ep);
}

/*
 * The harness counts descriptors and mappings around the case, in which each leak occurs twenty
 * times.
 */
static void life_reopen(struct ct_ep *ep)
{
    unsigned fds = 0, maps = 0;
    for (int round = 0; round < 20; round++) {
        ct_open(ep);
        ep->handlers[PLAIN] = life_ignore;
        struct aqi_am am = {.kind = AQI_AM_SHORT, .handler = PLAIN};
        ct_mem_open(ep, 8192);
        ct_send(ep, ct_next(ep), &am, NULL);
        if (round % 2 == 0) ct_mem_close(ep); /* every other time close frees it */
        while (ep->tp->ops.quiet(ep->tp, NULL) == AQ_AGAIN)
            ct_poll(ep);
        ct_barrier(ep);
        if (round == 0 && ep->self == 0) fds = ct_count_fds(), maps = ct_count_shared_maps();
        ct_meet(ep);
        ct_close(ep);
        ct_meet(ep);
    }
    if (ep->self == 0) CT_CHECK(ct_count_fds() <= fds && ct_count_shared_maps() <= maps);
    ct_meet(ep);
}

/* Close with unread messages, with operations under way, and after the peer has gone. */
static void life_close_busy(struct ct_ep *ep)
{
    ct_open(ep);
    ep->handlers[PLAIN] = life_ignore;
    ct_mem_open(ep, 1u << 20);
    uint32_t to = ct_next(ep);
    static unsigned char buffer[1u << 20];
    static struct aqi_comp comps[CT_MAX_RANKS]; /* outlive the transport */
    struct aqi_comp *comp = &comps[ep->self];
    ct_comp_init(ep, comp);
    if (ep->self % 2 == 1) {
        ct_meet(ep);
        ct_close(ep);
        return;
    }
    for (int i = 0; i < 100; i++) {
        struct aqi_am am = {
            .kind = AQI_AM_MEDIUM, .handler = PLAIN, .nbytes = 300, .payload = buffer};
        if (ep->tp->ops.am_send(ep->tp, ep->peers[to], &am, NULL) != AQ_OK) break;
    }
    struct aqi_rmem *remote = ep->mem.remote[to];
    comp->local = comp->remote = 10;
    for (int i = 0; i < 10; i++)
        if (ep->tp->ops.put(ep->tp, ep->peers[to], remote, ep->world->addr[to], buffer,
                            ep->world->len[to], NULL, comp) != AQ_OK)
            break;
    ct_meet(ep);
    ct_close(ep);
}

/*
 * Start one operation of each kind to `rank`; those refused because it is dead count as completed.
 */
static void life_start_all(struct ct_ep *ep, uint32_t rank, struct aqi_comp comp[4], void *buffer,
                           size_t len)
{
    const struct aqi_transport *ops = &ep->tp->ops;
    struct aqi_peer *peer = ep->peers[rank];
    const struct aqi_rmem *remote = ep->mem.remote[rank];
    uint64_t addr = ep->world->addr[rank];
    static uint64_t result;
    struct aqi_atomic req = {.addr = addr, .op = 1 /* get */, .type = 3, .fetch = 1};
    for (int i = 0; i < 4; i++)
        ct_comp_init(ep, &comp[i]);
    comp[0].local = comp[0].remote = comp[1].remote = comp[2].remote = comp[3].remote = 1;
    aq_status status[4];
    status[0] = ops->put(ep->tp, peer, remote, addr, buffer, len, NULL, &comp[0]);
    status[1] = ops->get(ep->tp, peer, remote, addr, buffer, len, NULL, &comp[1]);
    status[2] = ops->atomic(ep->tp, peer, remote, &req, &result, &comp[2]);
    status[3] = ops->fill(ep->tp, peer, remote, addr, 0, len, &comp[3]);
    for (int i = 0; i < 4; i++) {
        if (status[i] == AQ_OK) continue;
        CT_CHECK(status[i] == AQ_AGAIN || status[i] == AQ_EPEER);
        comp[i].local = comp[i].remote = 0; /* nothing was started */
    }
}

static void life_wait_all(struct ct_ep *ep, struct aqi_comp comp[4])
{
    for (int i = 0; i < 4; i++) {
        while (ct_comp_local(&comp[i]) != 0 || ct_comp_remote(&comp[i]) != 0)
            ct_poll(ep);
        aq_status status = (aq_status)atomic_load(&comp[i].status);
        CT_CHECK(status == AQ_OK || status == AQ_EPEER);
    }
}

/* Send to a dead peer. Only the fault decorator may return anything else before AQ_EPEER. */
static void life_refused(struct ct_ep *ep, uint32_t rank, uint8_t flags)
{
    struct aqi_am am = {.kind = AQI_AM_SHORT, .handler = PLAIN, .flags = flags};
    aq_status status;
    do {
        status = ep->tp->ops.am_send(ep->tp, ep->peers[rank], &am, NULL);
    } while (status == AQ_AGAIN && ep->world->config.fault != NULL);
    CT_EQUAL(status, AQ_EPEER);
}

static void life_reserve_refused(struct ct_ep *ep, uint32_t rank)
{
    struct aqi_slot slot;
    aq_status status;
    if ((ep->tp->ops.caps & AQI_CAP_RESERVE) == 0)
        return; /* reserve returns memory only; commit reports the failure */
    do {
        status = ep->tp->ops.am_reserve(ep->tp, ep->peers[rank], false, 0, 64, &slot);
    } while (status == AQ_AGAIN && ep->world->config.fault != NULL);
    CT_EQUAL(status, AQ_EPEER);
}

/* Send to the dead peer until a call reports its death, within a time limit. */
static void life_until_lost(struct ct_ep *ep, uint32_t rank)
{
    struct aqi_am am = {.kind = AQI_AM_SHORT, .handler = PLAIN};
    uint64_t start = 0;
    aq_status status = AQ_OK;
    while (status >= 0) {
        status = ep->tp->ops.am_send(ep->tp, ep->peers[rank], &am, NULL);
        ct_poll(ep);
        CT_CHECK(!ct_overdue(&start, 60));
    }
    CT_EQUAL(status, AQ_EPEER);
    for (int i = 0; i < 1000; i++)
        ct_progress(ep, AQI_PROGRESS_ALL);
    life_refused(ep, rank, 0);
    life_refused(ep, rank, AQI_AM_IS_REPLY);
    life_reserve_refused(ep, rank);
}

/* The survivors, 0 and 2, continue with each other. */
static void life_go_on(struct ct_ep *ep)
{
    struct aqi_am am = {.kind = AQI_AM_SHORT, .handler = PLAIN};
    if (ep->size > 2)
        for (int i = 0; i < 1000; i++)
            ct_send(ep, ep->self == 0 ? 2 : 0, &am, NULL);
    atomic_fetch_add(&ep->world->flag[1], 1);
    while (atomic_load(&ep->world->flag[1]) < ep->size - 1)
        ct_poll(ep);
}

/*
 * Rank 1 waits until the others have started their operations, and is killed while awake or asleep.
 */
static void life_die(struct ct_ep *ep, bool asleep)
{
    while (atomic_load(&ep->world->flag[0]) < ep->size - 1)
        ct_relax();
    while (asleep && ep->tp->ops.arm(ep->tp, true) != AQ_OK)
        ct_poll(ep); /* what has arrived does not stay unread during the sleep */
    atomic_store(&ep->world->may_die[1], true);
    raise(SIGKILL);
}

/*
 * Rank 1 is killed with operations to it under way, and the job announces it. If it was asleep,
 * some operations start after its death and before the announcement: a rank that wants to wake it
 * may notice the death by itself.
 */
static void life_death(struct ct_ep *ep, bool asleep)
{
    ep->handlers[PLAIN] = life_ignore;
    ct_mem_open(ep, 1u << 20);
    if (ep->self == 1) life_die(ep, asleep);
    void *buffer = calloc(1, 1u << 20);
    struct aqi_comp comp[4], late[4], last[4];
    life_start_all(ep, 1, comp, buffer, asleep ? 64 : 1u << 20);
    atomic_fetch_add(&ep->world->flag[0], 1);
    while (!atomic_load(&ep->world->reaped[1]))
        ct_poll(ep);
    life_start_all(ep, 1, late, buffer, 4096);
    for (int i = 0; i < 100; i++)
        ct_poll(ep);
    aqi_tp_peer_down(ep->tp, 1);
    life_until_lost(ep, 1);
    life_start_all(ep, 1, last, buffer, 4096);
    life_wait_all(ep, comp);
    life_wait_all(ep, late);
    life_wait_all(ep, last);
    for (uint32_t id = 0; id < ep->size; id++)
        CT_CHECK(atomic_load(&ep->lost[id]) <= (id == 1));
    CT_OK(ep->tp->ops.quiet(ep->tp, ep->peers[1])); /* nothing is under way to a dead peer */
    life_go_on(ep);
    free(buffer);
}

static void life_death_awake(struct ct_ep *ep)
{
    life_death(ep, false);
}

static void life_death_asleep(struct ct_ep *ep)
{
    life_death(ep, true);
}

/* Rank 1 is declared dead but is alive: memory of operations that failed is no longer written to.
 * Skipped where gets are messages, since rank 1 would wait for room to answer a peer that no longer
 * listens. */
static void life_let_go(struct ct_ep *ep)
{
    enum { SIZE = 1 << 20, OTHERS = 1, OWN = 2, LATER = 50000000 /* ns */ };
    if ((ep->tp->ops.caps & AQI_CAP_GET) == 0) {
        ct_skip(ep, "gets are messages");
        return;
    }
    ct_mem_open(ep, SIZE);
    memset(ep->mem.addr, OTHERS, SIZE);
    ct_barrier(ep);
    if (ep->self == 0) {
        unsigned char *buffer = ep->mem.addr; /* registered: the network writes to it */
        struct aqi_comp comp;
        ct_comp_init(ep, &comp);
        /* This establishes the connection, so that all operations below start. */
        ct_get(ep, 1, 0, buffer, 8, &comp);
        while (ct_comp_remote(&comp) != 0)
            ct_poll(ep);
        ct_get(ep, 1, 0, buffer, SIZE, &comp);
        aqi_tp_peer_down(ep->tp, 1);
        while (ct_comp_remote(&comp) != 0)
            ct_poll(ep);
        memset(buffer, OWN, SIZE);
        for (uint64_t until = aqi_now_ns() + LATER; aqi_now_ns() < until;)
            ct_poll(ep);
        for (size_t i = 0; i < SIZE; i++)
            CT_EQUAL(buffer[i], OWN);
        atomic_store(&ep->world->flag[0], 1);
    }
    while (atomic_load(&ep->world->flag[0]) == 0)
        ct_poll(ep);
    if (ep->self == 1) aqi_tp_peer_down(ep->tp, 0); /* which no longer listens */
}

/* The decorator declares rank 1 dead: reported once, and no operation is left pending. */
static void life_fault_death(struct ct_ep *ep)
{
    ep->handlers[PLAIN] = life_ignore;
    ct_mem_open(ep, 1u << 20);
    if (ep->self == 1) { /* it is alive and serves what still arrives */
        while (atomic_load(&ep->world->flag[1]) < ep->size - 1 ||
               ct_progress(ep, AQI_PROGRESS_ALL) != 0)
            ct_poll(ep);
        atomic_store(&ep->world->flag[2], 1);
        return;
    }
    void *buffer = calloc(1, 1u << 20);
    struct aqi_comp comp[4];
    life_start_all(ep, 1, comp, buffer, 1u << 20);
    life_until_lost(ep, 1);
    life_wait_all(ep, comp);
    life_start_all(ep, 1, comp, buffer, 4096);
    life_wait_all(ep, comp);
    for (uint32_t id = 0; id < ep->size; id++)
        CT_EQUAL(atomic_load(&ep->lost[id]), id == 1);
    life_go_on(ep);
    while (atomic_load(&ep->world->flag[2]) == 0)
        ct_poll(ep); /* rank 1 may be waiting for room to answer us */
    free(buffer);
}

const struct ct_case ct_cases_life[] = {
    {"probe and find", life_probe, 0},
    {"connect: peers of others", life_addresses, CT_CLEAN},
    {"connect: damaged addresses", life_bad_addresses, CT_CLEAN},
    {"open and close twenty times", life_reopen, CT_CLOSED | CT_CLEAN},
    {"close while busy", life_close_busy, CT_CLOSED},
    {"a peer is killed", life_death_awake, CT_PEERS | CT_PROCESSES},
    {"a peer is killed in its sleep", life_death_asleep, CT_PEERS | CT_PROCESSES},
    {"memory of operations that failed with a peer is not touched", life_let_go,
     CT_PEERS | CT_CLEAN},
    {"the fault decorator kills a peer", life_fault_death, CT_PEERS | CT_DEADLY},
    {NULL, NULL, 0},
};
