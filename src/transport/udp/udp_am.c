/* udp: active messages, and progress. */
#include "transport/udp/udp_impl.h"

#include "base/stats.h"
#include "base/touch.h"

#include <sched.h>
#include <string.h>

size_t udp_am_head(const struct udp_tp *udp, const struct aqi_am *am, struct udp_head *head)
{
    memset(head->bytes, 0, sizeof(uint32_t)); /* the engine's */
    aqi_am_encode(head->bytes, am, udp->params.self);
    return sizeof(struct aqi_am_wire) + 4u * am->nargs;
}

/* With the lock held; releases it. */
static AQI_COLD aq_status udp_am_cast(struct udp_tp *udp, struct aqi_peer *peer,
                                      const struct udp_head *head, size_t len,
                                      const struct aqi_am *am, struct aqi_comp *comp)
{
    size_t nbytes = aqi_am_payload(am);
    aq_status st = aqi_dgram_cast(udp->dgram, peer->id, head->bytes, len,
                                  nbytes != 0 ? am->payload : NULL, nbytes);
    if (st != AQ_EPEER) udp_began(udp); /* so that progress makes the connection */
    udp_unlock(udp);
    if (st == AQ_OK) aqi_comp_local(comp);
    return st;
}

aq_status udp_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                      struct aqi_comp *comp)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    struct udp_head head;
    size_t len = udp_am_head(udp, am, &head);
    bool reply = (am->flags & AQI_AM_IS_REPLY) != 0, payload = aqi_am_has_payload(am->kind);
    if (payload) aqi_touch_read(am->payload, am->nbytes);
    udp_lock(udp);
    const void *body = payload ? am->payload : NULL;
    size_t nbytes = payload ? am->nbytes : 0;
    if (AQI_UNLIKELY(udp->params.loose) && !reply && am->kind <= AQI_AM_MEDIUM)
        return udp_am_cast(udp, peer, &head, len, am, comp);
    bool acked = comp != NULL && (comp->shared & AQI_COMP_ACKED) != 0 && !reply;
    aq_status st =
        acked ? aqi_dgram_send_acked(udp->dgram, peer->id, head.bytes, len, body, nbytes, comp)
              : aqi_dgram_send(udp->dgram, peer->id, reply, head.bytes, len, body, nbytes);
    if (st == AQ_OK) udp_began(udp);
    udp_unlock(udp);
    if (st == AQ_OK && !acked) aqi_comp_local(comp);
    return st;
}

/* --- receiving ------------------------------------------------------------------------------- */

static bool udp_am_read(const struct udp_tp *udp, uint32_t source, bool request,
                        unsigned char *message, size_t len, struct aqi_am *am)
{
    uint32_t claimed;
    size_t most = udp->tp.limits.max_medium;
    if (aqi_am_decode(message, len, aqi_max(most, UDP_PACKED_LONG), am, &claimed) != AQ_OK)
        return false;
    if (am->nbytes > most && aqi_am_has_payload(am->kind) && am->kind != AQI_AM_LONG_PACKED)
        return false;
    if (claimed != source || request != ((am->flags & AQI_AM_IS_REPLY) == 0)) return false;
    if (!aqi_am_has_payload(am->kind)) return true;
    size_t offset = aqi_am_payload_offset(am->nargs);
    am->payload = message + offset;
    return am->nbytes == 0 || (len >= offset && am->nbytes <= len - offset);
}

/* Run the handler, without the lock. */
void udp_am_deliver(void *arg, uint32_t source, bool request, unsigned char *message, size_t len)
{
    struct udp_tp *udp = arg;
    struct aqi_am am;
    unsigned place = udp->place;
    if (!udp_am_read(udp, source, request, message, len, &am)) {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
        return;
    }
    if (place == UDP_OUTER) udp->outer_waits = true;
    udp_unlock(udp);
    udp->tp.hooks.deliver(udp->tp.hooks.arg, source, &am);
    udp_lock(udp);
    for (unsigned i = 0; place == UDP_OUTER && udp->receivers == UDP_RECEIVERS; i++) {
        udp_unlock(udp);
        if (i % 64 == 63)
            sched_yield();
        else
            aqi_pause();
        udp_lock(udp);
    }
    if (place == UDP_OUTER) udp->outer_waits = false;
    udp->place = place;
}

struct udp_receiver {
    struct udp_tp *udp;
    unsigned place;
    bool requests, rare;
    size_t bytes;
};

/* A program that has not polled for longer computes between its polls, so each takes all packets.
 * Shorter waits are within the queueing that pace.c tolerates. */
static const uint64_t udp_rare_ns = 50000;

static void udp_take(void *arg, enum aqi_dgram_channel channel, const struct aqi_dgram_addr *from,
                     unsigned char *packet, size_t len, uint64_t waited)
{
    struct udp_receiver *receiver = arg;
    struct udp_tp *udp = receiver->udp;
    (void)channel, (void)from; /* the engine's packets contain them */
    receiver->bytes += len;
    udp_lock(udp);
    udp->place = receiver->place;
    aqi_dgram_input(udp->dgram, packet, len, receiver->requests, waited, udp->now);
    udp_unlock(udp);
}

static void udp_take_to_answer(void *arg, enum aqi_dgram_channel channel,
                               const struct aqi_dgram_addr *from, unsigned char *packet, size_t len,
                               uint64_t waited)
{
    struct udp_tp *udp = ((const struct udp_receiver *)arg)->udp;
    (void)channel, (void)from;
    udp_lock(udp);
    udp->idle.helping = true;
    aqi_dgram_answer(udp->dgram, packet, len, waited, udp->now);
    udp->idle.helping = false;
    udp_unlock(udp);
}

/* Called with the lock held; releases it while the port receives. */
static unsigned udp_receive(struct udp_tp *udp, struct udp_receiver *receiver, aqi_port_take *take)
{
    enum { DEEP = 16 };
    struct aqi_dgram_addr refused;
    receiver->place = udp->receivers;
    if (receiver->place == UDP_NESTED ? !udp->outer_waits : receiver->place != UDP_OUTER) return 0;
    receiver->requests = receiver->requests && receiver->place == UDP_OUTER;
    bool deep = udp->deep || ++udp->rounds % DEEP == 0;
    enum aqi_port_look look = deep ? AQI_PORT_DEEP : AQI_PORT_SHORT;
    if (receiver->rare) look = AQI_PORT_RARE;
    udp->deep = false;
    udp->receivers++;
    udp_unlock(udp);
    unsigned n = udp->port->ops->receive(udp->port, look, take, receiver);
    /* Ignored: the job reports deaths, and the last packet to a process may be refused. */
    while (udp->port->ops->refused(udp->port, &refused))
        n++;
    bool unreadable = udp->port->ops->unreadable(udp->port);
    udp_lock(udp);
    udp->unreadable = udp->unreadable || unreadable;
    udp->receivers--;
    return n;
}

unsigned udp_receive_to_answer(struct udp_tp *udp)
{
    struct udp_receiver receiver = {.udp = udp, .rare = true};
    return udp_receive(udp, &receiver, udp_take_to_answer);
}

static unsigned udp_report_lost(struct udp_tp *udp)
{
    unsigned n = 0;
    for (;; n++) {
        udp_lock(udp);
        struct udp_peer *peer = udp->lost;
        if (peer != NULL) udp->lost = peer->next;
        udp_unlock(udp);
        if (peer == NULL) return n;
        const struct aqi_tp_hooks *hooks = &udp->tp.hooks;
        if (peer->unreached && hooks->unreached != NULL)
            hooks->unreached(hooks->host, peer->peer.id, peer->why);
        hooks->peer_lost(hooks->arg, peer->peer.id, peer->why);
    }
}

/*
 * Take what the thread has left, and the packets that it has parked. First raise the signal for
 * memory that it could not read, while no operation is half done and no lock is held.
 */
static AQI_COLD unsigned udp_take_left(struct udp_tp *udp, bool requests)
{
    if (udp->unreadable) {
        udp->unreadable = false;
        udp_unlock(udp);
        (void)udp_rma_touch(udp);
        udp_lock(udp);
    }
    udp_idle_take_left(udp);
    udp->place = UDP_NOT_RECEIVING;
    return 1 + aqi_dgram_resume(udp->dgram, requests, udp->now);
}

/*
 * Take packets that have arrived, acknowledge them, and send what is due. A rare poll is repeated,
 * since peers send more once acknowledgements arrive: it takes at most as much as may be in flight
 * to us, and may send as much while peers acknowledge it.
 */
static unsigned udp_look(struct udp_tp *udp, bool requests)
{
    enum { MORE = 16, MORE_BYTES = 1 << 15 }; /* no single receive exceeds these by much */
    struct udp_receiver receiver = {.udp = udp, .requests = requests};
    unsigned n = 0, got;
    size_t all = 0;
    receiver.rare = udp->now - udp->looked > udp_rare_ns;
    for (;;) {
        udp->looked = udp->now;
        receiver.bytes = 0;
        got = udp_receive(udp, &receiver, udp_take);
        udp->place = UDP_NOT_RECEIVING;
        udp->sent = 0;
        n += got + aqi_dgram_progress(udp->dgram, requests, udp->now);
        size_t bytes = receiver.bytes + udp->sent;
        all += bytes;
        if (AQI_LIKELY(!receiver.rare) || all >= udp->port->limits.room) return n;
        if (got < MORE && bytes < MORE_BYTES) return n;
        udp->now = aqi_max(udp->now, udp->tp.hooks.now(udp->tp.hooks.host));
    }
}

unsigned udp_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    if (udp_idle_rests(udp, now)) return 0;
    udp_lock(udp);
    udp->now = aqi_max(udp->now, now);
    udp->idle.looks++;
    udp_idle_look(udp);
    if (AQI_UNLIKELY(udp->touching)) udp_rma_left(udp);
    bool requests = mode == AQI_PROGRESS_ALL;
    unsigned n = AQI_UNLIKELY(udp->idle.left) ? udp_take_left(udp, requests) : 0;
    n += udp_look(udp, requests);
    udp_idle_begin(udp, n);
    if (aqi_port_is_deaf(udp->port)) udp_silence_lose_all(udp);
    if (AQI_UNLIKELY(udp->small.due != 0)) udp_paths_warn(udp, false);
    bool lost = udp->lost != NULL, unreadable = udp->unreadable;
    udp->unreadable = false;
    udp_unlock(udp);
    if (AQI_UNLIKELY(unreadable)) n += udp_rma_touch(udp);
    if (AQI_UNLIKELY(lost) && mode == AQI_PROGRESS_ALL) n += udp_report_lost(udp);
    return n;
}
