/*
 * An attacker. It replays packets: to or from other processes, later, in another connection,
 * altered, truncated, extended; and it sends arbitrary ones. Where cookies are the protection, the
 * attacker is assumed to be unable to read the wire, so that it cannot alter packets: without MACs
 * it only replays and guesses.
 */
#include "sim.h"

#include <stdlib.h>

void hostile_capture(struct sim *sim, const struct sim_packet *packet)
{
    if (!sim_has(sim, SIM_HOSTILE) || packet->forged) return;
    /* The first packets are those of handshakes, so the first 16 are kept forever. */
    unsigned at = sim->capture_count++;
    if (at >= AQI_COUNT_OF(sim->captured)) {
        if (!sim_chance(sim, SIM_OF_HOSTILE, 1, 8)) return;
        at = 16 + (unsigned)sim_below(sim, SIM_OF_HOSTILE, AQI_COUNT_OF(sim->captured) - 16);
        free(sim->captured[at]->bytes);
        free(sim->captured[at]);
    }
    struct sim_packet *copy = net_packet(packet->from, packet->to, packet->channel, packet->len);
    memcpy(copy->bytes, packet->bytes, packet->len);
    sim->captured[at] = copy;
}

static const struct sim_packet *hostile_any(struct sim *sim)
{
    unsigned count = sim->capture_count;
    if (count > AQI_COUNT_OF(sim->captured)) count = AQI_COUNT_OF(sim->captured);
    return count == 0 ? NULL : sim->captured[sim_below(sim, SIM_OF_HOSTILE, count)];
}

static uint32_t hostile_one(struct sim *sim)
{
    return (uint32_t)sim_below(sim, SIM_OF_HOSTILE, sim->plan.peers);
}

static struct sim_packet *hostile_junk(struct sim *sim)
{
    size_t len = sim_spread(sim, SIM_OF_HOSTILE, 1, AQI_DGRAM_MOST_PACKET) - 1;
    unsigned channel = (unsigned)sim_below(sim, SIM_OF_HOSTILE, AQI_DGRAM_CHANNELS);
    struct sim_packet *packet = net_packet(hostile_one(sim), hostile_one(sim), channel, len);
    fill(packet->bytes, len, sim_random(sim, SIM_OF_HOSTILE));
    /* With the head of a real packet it passes the first check. */
    const struct sim_packet *real = hostile_any(sim);
    if (real != NULL && sim_chance(sim, SIM_OF_HOSTILE, 1, 2)) {
        size_t head = aqi_min(aqi_min(len, real->len), sim_below(sim, SIM_OF_HOSTILE, 16));
        memcpy(packet->bytes, real->bytes, head);
    }
    return packet;
}

static struct sim_packet *hostile_again(struct sim *sim, const struct sim_packet *real)
{
    bool mac = sim->plan.config.authenticate;
    size_t len = real->len;
    switch (mac ? sim_below(sim, SIM_OF_HOSTILE, 6) : 0) {
    case 1:
        len = sim_below(sim, SIM_OF_HOSTILE, len + 1);
        break;
    case 2:
        len += 1 + sim_below(sim, SIM_OF_HOSTILE, 4096);
    }
    struct sim_packet *packet = net_packet(real->from, real->to, real->channel, len);
    memcpy(packet->bytes, real->bytes, aqi_min(len, real->len));
    if (mac && len == real->len && len != 0 && sim_chance(sim, SIM_OF_HOSTILE, 1, 3))
        packet->bytes[sim_below(sim, SIM_OF_HOSTILE, len)] ^=
            (unsigned char)(1 + sim_below(sim, SIM_OF_HOSTILE, 255));
    switch (sim_below(sim, SIM_OF_HOSTILE, 8)) {
    case 0:
        packet->to = hostile_one(sim);
        break;
    case 1: /* as if the other side had sent it */
        packet->to = real->from;
        break;
    case 2:
        packet->channel ^= 1;
    }
    return packet;
}

static void hostile_strike(struct sim *sim, uint64_t left, void *arg)
{
    (void)arg;
    if (sim->clear || left == 0) return;
    for (uint64_t burst = 1 + sim_below(sim, SIM_OF_HOSTILE, 8); burst > 0; burst--) {
        const struct sim_packet *real = hostile_any(sim);
        struct sim_packet *packet = real == NULL || sim_chance(sim, SIM_OF_HOSTILE, 1, 4)
                                        ? hostile_junk(sim)
                                        : hostile_again(sim, real);
        packet->forged = true;
        sim->in_net++;
        /* Packets too large for the path cannot be injected either. */
        if (sim_has(sim, SIM_MTU) && packet->len > sim->plan.mtu)
            net_free(sim, packet);
        else
            proc_arrived(&sim->procs[packet->to], packet);
    }
    uint64_t pause = sim->plan.horizon / 64;
    sim_at(sim, sim->now + sim_below(sim, SIM_OF_HOSTILE, 2 * pause), hostile_strike, left - 1,
           NULL);
}

void hostile_begin(struct sim *sim)
{
    if (sim_has(sim, SIM_HOSTILE)) sim_at(sim, sim->now, hostile_strike, 128, NULL);
}

void hostile_end(struct sim *sim)
{
    for (size_t i = 0; i < AQI_COUNT_OF(sim->captured); i++) {
        if (sim->captured[i] == NULL) continue;
        free(sim->captured[i]->bytes);
        free(sim->captured[i]);
    }
}
