/*
 * The network of a simulation: each process has an uplink and a downlink, and possibly all share a
 * link in between. A link has a bandwidth and a queue, and drops packets that do not fit. On their
 * way packets are lost, singly or many in a row, duplicated, reordered, and altered.
 */
#include "sim.h"

#include <stdlib.h>

#define ADDRESS_LEN 7u

void net_address(uint32_t id, struct aqi_dgram_addr *addr)
{
    *addr = (struct aqi_dgram_addr){.len = ADDRESS_LEN, .bytes = {10}};
    memcpy(addr->bytes + 1, &id, sizeof(id));
    addr->bytes[5] = 0x51;
    addr->bytes[6] = 0x4d;
}

bool net_id(const struct sim *sim, const struct aqi_dgram_addr *addr, uint32_t *id)
{
    struct aqi_dgram_addr same;
    memcpy(id, addr->bytes + 1, sizeof(*id));
    net_address(*id, &same);
    return addr->len == ADDRESS_LEN && memcmp(addr->bytes, same.bytes, ADDRESS_LEN) == 0 &&
           *id < sim->plan.peers;
}

struct sim_packet *net_packet(uint32_t from, uint32_t to, unsigned channel, size_t len)
{
    struct sim_packet *packet = sim_alloc(sizeof(*packet));
    packet->from = from;
    packet->to = to;
    packet->channel = (uint8_t)channel;
    packet->len = len;
    packet->bytes = sim_alloc(len);
    return packet;
}

void net_free(struct sim *sim, struct sim_packet *packet)
{
    sim->in_net--;
    free(packet->bytes);
    free(packet);
}

static void net_drop(struct sim *sim, struct sim_packet *packet, const char *why)
{
    SIM_TRACE(sim, "%u -> %u: a packet of %zu bytes is dropped: %s", packet->from, packet->to,
              packet->len, why);
    sim->dropped++;
    net_free(sim, packet);
}

/* The time at which a packet of `len` bytes has passed, or 0 if the queue is full. */
static uint64_t link_through(struct sim *sim, struct sim_link *link, size_t len)
{
    uint64_t begin = link->busy > sim->now ? link->busy : sim->now;
    if (begin - sim->now > link->limit) return 0;
    return link->busy = begin + 1 + (len + 46) * link->ns_per_kb / 1024;
}

bool net_room(struct sim *sim, const struct sim_proc *from)
{
    if (!sim->clear && sim_chance(sim, SIM_OF_NET, sim->plan.refuse, 1000000)) return false;
    return from->up.busy <= sim->now + from->up.limit;
}

static bool burst_loses(struct sim *sim, struct sim_proc *to)
{
    const struct sim_plan *plan = &sim->plan;
    if (!sim_has(sim, SIM_BURST)) return false;
    while (sim->now >= to->burst_at) {
        to->burst = !to->burst;
        uint64_t mean = to->burst ? plan->burst_last : plan->burst_every;
        to->burst_at += 1 + sim_below(sim, SIM_OF_NET, 2 * mean);
    }
    return to->burst && sim_chance(sim, SIM_OF_NET, plan->burst_loss, 1000000);
}

static bool other_side(const struct sim *sim, uint32_t a, uint32_t b)
{
    return sim->sides != NULL &&
           (sim->sides[a / 64] >> a % 64 & 1) != (sim->sides[b / 64] >> b % 64 & 1);
}

/* The reason why a packet does not arrive, or NULL. */
static const char *net_loses(struct sim *sim, const struct sim_packet *packet)
{
    const struct sim_plan *plan = &sim->plan;
    if (sim_has(sim, SIM_MTU) && packet->len > plan->mtu && (packet->from | packet->to) % 2 != 0)
        return "larger than the path carries";
    if (sim_has_shrunk(sim) && packet->len > plan->shrunk && (packet->from | packet->to) % 2 != 0)
        return "larger than the path carries now";
    if (sim->clear) return NULL;
    if (other_side(sim, packet->from, packet->to)) return "a partition";
    if (packet->from == sim->one_way_from && packet->to == sim->one_way_to)
        return "the link carries only the other direction";
    if (sim_chance(sim, SIM_OF_NET, plan->loss, 1000000)) return "lost";
    if (burst_loses(sim, &sim->procs[packet->to])) return "lost in a burst";
    return NULL;
}

/* Change bytes, or cut off the end. Without MACs the checksum of UDP detects this, so the packet is
 * dropped. */
static bool net_alters(struct sim *sim, struct sim_packet *packet)
{
    if (sim->clear || !sim_chance(sim, SIM_OF_NET, sim->plan.alter, 1000000)) return true;
    if (!sim->plan.config.authenticate) return false;
    if (sim_chance(sim, SIM_OF_NET, 1, 4)) {
        packet->len = sim_below(sim, SIM_OF_NET, packet->len);
        unsigned char *shorter = sim_alloc(packet->len);
        memcpy(shorter, packet->bytes, packet->len);
        free(packet->bytes);
        packet->bytes = shorter;
        return true;
    }
    for (uint64_t i = 1 + sim_below(sim, SIM_OF_NET, 4); i > 0; i--)
        packet->bytes[sim_below(sim, SIM_OF_NET, packet->len)] ^=
            (unsigned char)(1 + sim_below(sim, SIM_OF_NET, 255));
    return true;
}

static void net_hop(struct sim *sim, uint64_t a, void *arg)
{
    (void)a;
    struct sim_packet *packet = arg;
    struct sim_proc *to = &sim->procs[packet->to];
    uint64_t through;
    switch (packet->hop++) {
    case 0: /* at the link that all share */
        if (sim->plan.core_ns_per_kb != 0) {
            through = link_through(sim, &sim->core, packet->len);
            if (through == 0) return net_drop(sim, packet, "the shared queue is full");
            sim_at(sim, through, net_hop, 0, packet);
            return;
        }
        packet->hop++;
        /* fall through */
    case 1: /* at the downlink */
        through = link_through(sim, &to->down, packet->len);
        if (through == 0) return net_drop(sim, packet, "the queue is full");
        sim_at(sim, through, net_hop, 0, packet);
        return;
    default:
        proc_arrived(to, packet);
    }
}

static void net_travel(struct sim *sim, struct sim_packet *packet, uint64_t start)
{
    const struct sim_plan *plan = &sim->plan;
    uint64_t delay = plan->delay + sim_below(sim, SIM_OF_NET, plan->jitter + 1);
    if (!sim->clear && sim_chance(sim, SIM_OF_NET, plan->reorder, 1000000))
        delay += sim_spread(sim, SIM_OF_NET, SIM_US, 3 * SIM_MS);
    sim_at(sim, start + delay, net_hop, 0, packet);
}

static void net_repeat(struct sim *sim, const struct sim_packet *packet, uint64_t start)
{
    struct sim_packet *twin = net_packet(packet->from, packet->to, packet->channel, packet->len);
    memcpy(twin->bytes, packet->bytes, packet->len);
    sim->in_net++;
    net_travel(sim, twin, start + sim_spread(sim, SIM_OF_NET, SIM_US, 300 * SIM_MS));
}

void net_send(struct sim *sim, struct sim_packet *packet)
{
    sim->packets++;
    sim->in_net++;
    hostile_capture(sim, packet);
    uint64_t through = link_through(sim, &sim->procs[packet->from].up, packet->len);
    if (through == 0) return net_drop(sim, packet, "the queue of the sender is full");
    const char *why = net_loses(sim, packet);
    if (why != NULL) return net_drop(sim, packet, why);
    if (!sim->clear && sim_chance(sim, SIM_OF_NET, sim->plan.repeat, 1000000))
        net_repeat(sim, packet, through);
    if (!net_alters(sim, packet)) return net_drop(sim, packet, "altered");
    net_travel(sim, packet, through);
}

/* --- faults of whole links -----------------------------------------------------------------------
 */

static void partition_end(struct sim *sim, uint64_t a, void *arg)
{
    (void)a;
    (void)arg;
    SIM_TRACE(sim, "the partition ends");
    free(sim->sides);
    sim->sides = NULL;
}

static void partition_begin(struct sim *sim, uint64_t last, void *arg)
{
    (void)arg;
    if (sim->clear || sim->sides != NULL) return;
    size_t words = sim->plan.peers / 64 + 1;
    sim->sides = sim_alloc(words * sizeof(uint64_t));
    for (size_t i = 0; i < words; i++)
        sim->sides[i] = sim_random(sim, SIM_OF_NET);
    SIM_TRACE(sim, "a partition begins");
    sim_at(sim, sim->now + last, partition_end, 0, NULL);
}

static void one_way_end(struct sim *sim, uint64_t a, void *arg)
{
    (void)a;
    (void)arg;
    sim->one_way_from = sim->one_way_to = UINT32_MAX;
}

static void one_way_begin(struct sim *sim, uint64_t last, void *arg)
{
    (void)arg;
    if (sim->clear) return;
    sim->one_way_from = (uint32_t)sim_below(sim, SIM_OF_NET, sim->plan.peers);
    sim->one_way_to = proc_partner(sim, &sim->procs[sim->one_way_from]);
    SIM_TRACE(sim, "no packets from %u to %u from now on", sim->one_way_from, sim->one_way_to);
    sim_at(sim, sim->now + last, one_way_end, 0, NULL);
}

void net_faults(struct sim *sim)
{
    one_way_end(sim, 0, NULL);
    for (int i = 0; i < 4; i++) {
        uint64_t at = sim->now + sim_below(sim, SIM_OF_NET, sim->plan.horizon);
        uint64_t last = sim_spread(sim, SIM_OF_NET, SIM_MS, 300 * SIM_MS);
        if (sim_has(sim, SIM_PARTITION) && i < 2) sim_at(sim, at, partition_begin, last, NULL);
        if (sim_has(sim, SIM_ONE_WAY)) sim_at(sim, at, one_way_begin, last, NULL);
    }
}
