/* toy: the network itself, which drops, duplicates, delays and reorders packets. */
#include "toy_impl.h"

#include "../common/data.h"
#include "base/fail.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct toy_weather toy_weather = {.seed = 1};

static struct {
    struct aqi_spin lock;
    struct toy_tp *at[TOY_RANKS];
    uint64_t random;
} net;

enum { NET_LEAST_NS = 3000, NET_SPREAD_NS = 20000, NET_OVERTAKEN_NS = 150000 };

/* The lock is held. */
static uint64_t net_random(void)
{
    return mix(net.random += 0x9e3779b97f4a7c15u);
}

uint64_t toy_random(void)
{
    aqi_spin_lock(&net.lock);
    uint64_t random = net_random();
    aqi_spin_unlock(&net.lock);
    return random;
}

aq_status toy_net_join(struct toy_tp *toy)
{
    aq_status st = AQ_ELIMIT;
    aqi_spin_lock(&net.lock);
    if (net.random == 0) net.random = toy_weather.seed;
    for (uint32_t slot = 0; slot < TOY_RANKS && st != AQ_OK; slot++) {
        if (net.at[slot] != NULL) continue;
        net.at[slot] = toy;
        toy->slot = slot;
        toy->cookie = net_random();
        st = AQ_OK;
    }
    aqi_spin_unlock(&net.lock);
    if (st == AQ_OK) return st;
    return aqi_fail(st, "toy", "all %d places of the network are taken", TOY_RANKS);
}

void toy_net_leave(struct toy_tp *toy)
{
    aqi_spin_lock(&net.lock);
    net.at[toy->slot] = NULL;
    aqi_spin_unlock(&net.lock);
    while (toy->inbox != NULL) {
        struct toy_packet *packet = toy->inbox;
        toy->inbox = packet->next;
        free(packet);
    }
}

struct toy_packet *toy_packet_new(size_t len)
{
    struct toy_packet *packet = aligned_alloc(16, aqi_round_up(sizeof(*packet) + len, 16));
    if (packet == NULL) abort();
    memset(packet, 0, sizeof(*packet));
    packet->len = len;
    return packet;
}

/* The lock is held. */
static void net_deliver(struct toy_tp *to, const struct toy_packet *packet, uint64_t now)
{
    uint64_t delay = NET_LEAST_NS + net_random() % NET_SPREAD_NS;
    struct toy_packet *copy = toy_packet_new(packet->len);
    memcpy(copy, packet, sizeof(*packet) + packet->len);
    if (net_random() % 1000 < toy_weather.overtaking) delay += NET_OVERTAKEN_NS;
    copy->due = now + delay;
    copy->next = to->inbox;
    to->inbox = copy;
    uint64_t one = 1;
    if (to->armed) (void)!write(to->wake, &one, sizeof(one));
    to->armed = false;
}

void toy_net_send(struct toy_tp *toy, const struct toy_peer *peer, const struct toy_packet *packet)
{
    aqi_spin_lock(&net.lock);
    struct toy_tp *to = net.at[peer->slot];
    bool lost = net_random() % 1000 < toy_weather.loss;
    bool twice = net_random() % 1000 < toy_weather.duplication;
    if (to != NULL && !lost) net_deliver(to, packet, toy->now);
    if (to != NULL && twice) net_deliver(to, packet, toy->now);
    aqi_spin_unlock(&net.lock);
}

struct toy_packet *toy_net_take(struct toy_tp *toy)
{
    struct toy_packet *found = NULL;
    aqi_spin_lock(&net.lock);
    for (struct toy_packet **at = &toy->inbox; *at != NULL; at = &(*at)->next)
        if ((*at)->due <= toy->now) {
            found = *at;
            *at = found->next;
            break;
        }
    aqi_spin_unlock(&net.lock);
    return found;
}

uint64_t toy_net_due(struct toy_tp *toy)
{
    uint64_t due = AQI_NO_DEADLINE;
    aqi_spin_lock(&net.lock);
    for (const struct toy_packet *packet = toy->inbox; packet != NULL; packet = packet->next)
        due = aqi_min(due, packet->due);
    aqi_spin_unlock(&net.lock);
    return due;
}

bool toy_net_arm(struct toy_tp *toy, bool on)
{
    bool go = !on || toy_net_due(toy) > toy->now;
    aqi_spin_lock(&net.lock);
    toy->armed = on && go;
    aqi_spin_unlock(&net.lock);
    return go;
}
