/*
 * ibv: greetings, by which two processes exchange the addresses of their queue pairs.
 *
 * They have the same form in both directions: the sender's queue pairs, and whether it knows the
 * receiver's. A process that receives a greeting connects its queue pairs to those in it, and may
 * send once it knows that the other has received its own. Greetings are repeated with growing
 * pauses, on one rail after the other, until the other side confirms that it knows, so loss,
 * crossing and duplicates need no special cases. Each is authenticated with the job's key.
 */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Flags of a greeting: the sender knows the receiver's queue pairs; it needs no answer. */
enum { GREET_KNOWS = 1, GREET_UP = 2 };
#define GREET_PAUSE_NS UINT64_C(20000000)
#define GREET_MOST_NS  UINT64_C(1000000000)
#define GREET_DOUBT_NS UINT64_C(10000000000)

struct hca_greeting {
    unsigned char magic[4];
    uint8_t version, flags;
    uint8_t failed, reads; /* failed: rails that must not be used, as bits */
    uint32_t from, to;
    uint64_t epoch, to_epoch;        /* 0: not known yet */
    uint32_t generation;             /* of the connection */
    uint32_t received;               /* total messages received from the other */
    uint32_t depth, buffer, control; /* control: buffers in addition to those of requests */
    struct hca_place place[HCA_RAILS];
    struct hca_ring_place rings;
    uint8_t tag[AQI_MAC_BYTES];
};
enum { GREET_ROOM = 512 };
static_assert(sizeof(struct hca_greeting) + HCA_GRH <= GREET_ROOM, "a buffer holds a greeting");

static void hca_greet_sign(struct hca_tp *hca, const struct hca_greeting *greeting, uint8_t *tag)
{
    aqi_mac_bytes(hca->greeter.mac, "ibv greeting", hca->rdma.params.key, greeting,
                  offsetof(struct hca_greeting, tag), tag);
}

/* --- the queue pair for them ----------------------------------------------------------------- */

/* Each rail has HCA_GREETINGS buffers. */
static void hca_greet_post(struct hca_tp *hca, uint32_t i)
{
    unsigned rail = i / HCA_GREETINGS;
    struct ibv_sge piece = {.addr = (uintptr_t)hca->greeter.chunk->memory + i * GREET_ROOM,
                            .length = GREET_ROOM,
                            .lkey = hca_lkey_of(hca->greeter.chunk->mr[rail])};
    struct ibv_recv_wr *bad,
        wr = {.wr_id = (uint64_t)i << 8 | HCA_WR_GREETING, .sg_list = &piece, .num_sge = 1};
    (void)ibv_post_recv(hca->greeter.qp[rail], &wr, &bad);
}

/* Prepare a queue pair, also one that has failed; it keeps its number. */
static aq_status hca_greet_prepare(struct hca_tp *hca, unsigned r)
{
    struct hca_rail *rail = &hca->rail[r];
    struct ibv_qp *qp = hca->greeter.qp[r];
    const struct {
        struct ibv_qp_attr attr;
        int mask;
    } steps[] = {
        {{.qp_state = IBV_QPS_RESET}, IBV_QP_STATE},
        {{.qp_state = IBV_QPS_INIT,
          .port_num = rail->port,
          .pkey_index = (uint16_t)hca_config.pkey,
          .qkey = hca->greeter.qkey},
         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
        {{.qp_state = IBV_QPS_RTR}, IBV_QP_STATE},
        {{.qp_state = IBV_QPS_RTS}, IBV_QP_STATE | IBV_QP_SQ_PSN},
    };
    for (unsigned i = 0; i < AQI_COUNT_OF(steps); i++) {
        struct ibv_qp_attr attr = steps[i].attr;
        int err = hca_verbs.modify_qp(qp, &attr, steps[i].mask);
        if (err != 0)
            return aqi_fail_errno(AQ_ESYS, err, "ibv", "cannot prepare a queue pair of %s",
                                  rail->name);
    }
    for (uint32_t i = 0; i < HCA_GREETINGS; i++)
        hca_greet_post(hca, r * HCA_GREETINGS + i);
    return AQ_OK;
}

/*
 * The first failure, for example a temporarily missing route, puts a queue pair into the error
 * state, and all other requests are flushed. Their greetings are repeated later.
 */
static void hca_greet_failed(struct hca_tp *hca, unsigned rail, const struct ibv_wc *wc)
{
    if (wc->status == IBV_WC_WR_FLUSH_ERR || hca_has_rail(hca->gone, rail)) return;
    aqi_log(AQI_LOG_INFO, "ibv", "%s could not send a greeting (%s), and will try again",
            hca->rail[rail].name, hca_verbs.wc_status_str(wc->status));
    hca_greet_gone(hca, rail);
    (void)hca_greet_prepare(hca, rail);
}

static aq_status hca_greet_start(struct hca_tp *hca, unsigned r)
{
    struct hca_rail *rail = &hca->rail[r];
    struct ibv_qp_init_attr init = {.send_cq = rail->cq,
                                    .recv_cq = rail->cq,
                                    .cap = {.max_send_wr = HCA_GREETINGS_OUT,
                                            .max_recv_wr = HCA_GREETINGS,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_UD,
                                    .sq_sig_all = 1};
    struct ibv_qp *qp = hca->greeter.qp[r] = hca_verbs.create_qp(rail->pd, &init);
    if (qp == NULL)
        return aqi_fail_errno(AQ_ELIMIT, errno, "ibv", "cannot create a queue pair of %s",
                              rail->name);
    rail->place.qpn = qp->qp_num;
    return hca_greet_prepare(hca, r);
}

aq_status hca_greet_open(struct hca_tp *hca)
{
    struct hca_greeter *greeter = &hca->greeter;
    size_t len = (hca->rails * HCA_GREETINGS + HCA_GREETINGS_OUT) * GREET_ROOM;
    struct {
        uint64_t epoch;
        uint32_t qkey, psn;
    } random;
    aq_status st = aqi_mac_open(AQI_MAC_HMAC, &greeter->mac);
    if (st == AQ_OK) st = aqi_random(&random, sizeof(random), "ibv");
    if (st != AQ_OK) return st;
    greeter->epoch = random.epoch | 1;
    greeter->qkey = random.qkey & 0x7fffffff; /* the high bit is reserved for the system */
    greeter->chunk = aqi_rdma_add_chunk(&hca->rdma, len, AQI_PINS_BUFFERS, 0);
    if (greeter->chunk == NULL) return aqi_fail(AQ_ELIMIT, "ibv", "%s", aq_error_message());
    for (unsigned r = 0; r < hca->rails && st == AQ_OK; r++) {
        hca->rail[r].place.psn = random.psn & 0xffffff;
        st = hca_greet_start(hca, r);
    }
    return st;
}

void hca_greet_close(struct hca_tp *hca)
{
    struct hca_greeter *greeter = &hca->greeter;
    while (greeter->calling != NULL)
        hca_greet_end(hca, greeter->calling);
    for (unsigned r = 0; r < HCA_RAILS; r++)
        if (greeter->qp[r] != NULL) hca_verbs.destroy_qp(greeter->qp[r]);
    aqi_mac_close(greeter->mac);
}

/* --- sending --------------------------------------------------------------------------------- */

aq_status hca_greet_find(struct hca_tp *hca, struct hca_peer *peer)
{
    unsigned char bytes[AQI_ADDR_MAX];
    size_t len = sizeof(bytes);
    if (peer->known) return AQ_OK;
    aq_status st = hca->rdma.tp.hooks.lookup(hca->rdma.tp.hooks.host, &hca->rdma.tp,
                                             peer->rdma.peer.id, bytes, &len);
    if (st != AQ_OK) return st;
    if (len == 0) return AQ_ENOTSUP;
    if (len < offsetof(struct hca_addr, place) || len > sizeof(peer->addr)) return AQ_EPROTO;
    memcpy(&peer->addr, bytes, len);
    if (memcmp(peer->addr.magic, hca_magic, 4) != 0 || peer->addr.rails == 0 ||
        len != offsetof(struct hca_addr, place) + peer->addr.rails * sizeof(struct hca_place))
        return AQ_EPROTO;
    peer->known = true;
    return AQ_OK;
}

/* A rail without a route, for example because its port is down, matters only if no other has
 * one. */
static bool hca_greet_reach(struct hca_tp *hca, struct hca_peer *peer, unsigned rail)
{
    uint32_t all = hca_rails_of(hca, peer) & ~hca->gone;
    struct ibv_ah_attr path;
    if (peer->ah[rail] != NULL) return true;
    hca_rail_path(&hca->rail[rail], &peer->addr.place[rail], &path);
    peer->ah[rail] = hca_verbs.create_ah(hca->rail[rail].pd, &path);
    peer->unroutable &= ~(1u << rail);
    peer->unroutable |= (uint32_t)(peer->ah[rail] == NULL) << rail;
    if (peer->ah[rail] == NULL && (peer->unroutable & all) == all) {
        aqi_fail_quiet(AQ_EPEER, "%s, %s", strerror(errno),
                       hca_advice_path(&hca->rail[rail], &peer->addr.place[rail]).text);
        hca_peer_unreached(hca, peer, rail, aq_error_message());
    }
    return peer->ah[rail] != NULL;
}

static void hca_greet_fill(struct hca_tp *hca, struct hca_peer *peer, struct hca_greeting *greeting)
{
    memset(greeting, 0, sizeof(*greeting));
    memcpy(greeting->magic, hca_magic, sizeof(greeting->magic));
    greeting->version = aqi_wire_version(AQI_WIRE_IBV);
    greeting->flags =
        (uint8_t)((peer->connected ? GREET_KNOWS : 0) | (peer->state == HCA_UP ? GREET_UP : 0));
    greeting->failed = (uint8_t)peer->failed;
    greeting->reads = (uint8_t)aqi_min(255, (size_t)hca->rail[0].device.max_qp_rd_atom);
    greeting->from = hca->rdma.params.self;
    greeting->to = peer->rdma.peer.id;
    greeting->epoch = hca->greeter.epoch;
    greeting->to_epoch = peer->epoch;
    greeting->generation = peer->generation;
    greeting->received = peer->received;
    greeting->depth = hca->depth;
    greeting->control = hca_control_buffers(hca);
    greeting->buffer = (uint32_t)hca->rdma.buffer;
    for (unsigned r = 0; r < hca->rails; r++) {
        greeting->place[r] = hca->rail[r].place;
        if (peer->link[r].qp != NULL) greeting->place[r].qpn = peer->link[r].qp->qp_num;
    }
    hca_rings_place(hca, &greeting->rings);
    hca_greet_sign(hca, greeting, greeting->tag);
}

static void hca_greet_say(struct hca_tp *hca, struct hca_peer *peer, unsigned rail)
{
    struct hca_greeter *greeter = &hca->greeter;
    if (greeter->out == HCA_GREETINGS_OUT || hca_has_rail(hca->gone, rail)) return;
    if (!hca_greet_reach(hca, peer, rail)) return;
    uint32_t slot = hca->rails * HCA_GREETINGS + greeter->next++ % HCA_GREETINGS_OUT;
    struct hca_greeting greeting;
    unsigned char *bytes = greeter->chunk->memory + slot * GREET_ROOM;
    struct ibv_sge piece = {.addr = (uintptr_t)bytes,
                            .length = sizeof(greeting),
                            .lkey = hca_lkey_of(greeter->chunk->mr[rail])};
    struct ibv_send_wr *bad, wr = {.wr_id = HCA_WR_GREETED,
                                   .sg_list = &piece,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .wr.ud = {.ah = peer->ah[rail],
                                             .remote_qpn = peer->addr.place[rail].qpn,
                                             .remote_qkey = peer->addr.qkey}};
    hca_greet_fill(hca, peer, &greeting);
    memcpy(bytes, &greeting, sizeof(greeting));
    if (ibv_post_send(greeter->qp[rail], &wr, &bad) != 0) return;
    greeter->out++;
    greeter->out_by[rail]++;
}

void hca_greet_sent(struct hca_tp *hca, unsigned rail, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS) {
        hca_greet_failed(hca, rail, wc);
    } else if (hca->greeter.out_by[rail] != 0) {
        hca->greeter.out--;
        hca->greeter.out_by[rail]--;
    }
}

void hca_greet_gone(struct hca_tp *hca, unsigned rail)
{
    hca->greeter.out -= hca->greeter.out_by[rail];
    hca->greeter.out_by[rail] = 0;
}

/* --- calls ----------------------------------------------------------------------------------- */

void hca_greet_begin(struct hca_tp *hca, struct hca_peer *peer)
{
    if (peer->state != HCA_IDLE) return;
    if (hca_links_create(hca, peer) != AQ_OK) {
        aqi_rdma_fail(&hca->rdma, &peer->rdma, "%s", aq_error_message());
        return;
    }
    peer->state = HCA_CALLING;
    peer->pause = GREET_PAUSE_NS;
    peer->greeted = 0;
    peer->greet_rail = 0;
    peer->unroutable = 0;
    peer->next_calling = hca->greeter.calling;
    hca->greeter.calling = peer;
    hca->rdma.whole = true;
}

void hca_greet_end(struct hca_tp *hca, struct hca_peer *peer)
{
    struct hca_peer **at = &hca->greeter.calling;
    while (*at != NULL && *at != peer)
        at = &(*at)->next_calling;
    if (*at == peer) *at = peer->next_calling;
    for (unsigned r = 0; r < HCA_RAILS; r++) {
        if (peer->ah[r] != NULL) hca_verbs.destroy_ah(peer->ah[r]);
        peer->ah[r] = NULL;
    }
}

/*
 * The peer may only be computing, but if its port is on another network, it never answers. Ports
 * that are down here have already been reported.
 */
static void hca_greet_doubt(const struct hca_tp *hca, struct hca_peer *peer)
{
    if (hca->down == (1u << hca->rails) - 1) return;
    if (peer->doubted || hca->rdma.now - peer->called < GREET_DOUBT_NS) return;
    peer->doubted = true;
    aqi_log(AQI_LOG_WARN, "ibv", "rank %u has not answered for %u s; still trying; %s",
            peer->rdma.peer.id, (unsigned)(GREET_DOUBT_NS / 1000000000),
            hca_advice_path(&hca->rail[0], &peer->addr.place[0]).text);
}

/* Greet the peer over one rail after the other, starting with those that work. */
static void hca_greet_call(struct hca_tp *hca, struct hca_peer *peer)
{
    if (hca_greet_find(hca, peer) != AQ_OK) return;
    uint32_t all = hca_rails_of(hca, peer) & ~hca->gone, good = all & ~peer->failed;
    if (all == 0) {
        aqi_rdma_fail(&hca->rdma, &peer->rdma,
                      "every adapter that reaches it has failed completely");
        return;
    }
    if (good == 0) good = all;
    while (!hca_has_rail(good, peer->greet_rail))
        peer->greet_rail = (peer->greet_rail + 1) % HCA_RAILS;
    hca_greet_say(hca, peer, peer->greet_rail);
    peer->greet_rail = (peer->greet_rail + 1) % HCA_RAILS;
}

void hca_greet_timers(struct hca_tp *hca)
{
    for (struct hca_peer *peer = hca->greeter.calling, *next; peer != NULL; peer = next) {
        next = peer->next_calling;
        if (peer->greeted != 0 && hca->rdma.now < peer->greeted + peer->pause) continue;
        if (peer->greeted != 0) peer->pause = aqi_min(2 * peer->pause, GREET_MOST_NS);
        if (peer->greeted == 0) peer->called = hca->rdma.now;
        peer->greeted = hca->rdma.now | 1;
        hca_greet_doubt(hca, peer);
        hca_greet_call(hca, peer);
    }
}

uint64_t hca_greet_deadline(const struct hca_tp *hca)
{
    uint64_t first = AQI_NO_DEADLINE;
    for (const struct hca_peer *peer = hca->greeter.calling; peer != NULL;
         peer = peer->next_calling)
        first = aqi_min(first, peer->greeted + peer->pause);
    return first;
}

/* --- receiving ------------------------------------------------------------------------------- */

static bool hca_greet_read(struct hca_tp *hca, const unsigned char *bytes, size_t len,
                           struct hca_greeting *greeting)
{
    uint8_t tag[AQI_MAC_BYTES];
    if (len != sizeof(*greeting)) return false;
    memcpy(greeting, bytes, sizeof(*greeting));
    if (memcmp(greeting->magic, hca_magic, 4) != 0 ||
        greeting->version != aqi_wire_version(AQI_WIRE_IBV) ||
        greeting->to != hca->rdma.params.self || greeting->from >= hca->rdma.params.size ||
        greeting->from == hca->rdma.params.self)
        return false;
    hca_greet_sign(hca, greeting, tag);
    return aqi_mac_same(tag, greeting->tag);
}

static void hca_greet_connect(struct hca_tp *hca, struct hca_peer *peer,
                              const struct hca_greeting *greeting)
{
    if (greeting->depth != hca->depth || greeting->buffer != hca->rdma.buffer) {
        aqi_rdma_fail(
            &hca->rdma, &peer->rdma,
            "it keeps %u buffers of %u bytes per peer, but this process keeps %u of %zu bytes: "
            "give all processes the same %s, AQ_IBV_MEDIUM and AQ_IBV_RECEIVE_MEMORY",
            greeting->depth, greeting->buffer, hca->depth, hca->rdma.buffer,
            aqi_setting_variable("AQ_AM_CREDITS"));
        return;
    }
    if (greeting->control != hca_control_buffers(hca)) {
        aqi_rdma_fail(
            &hca->rdma, &peer->rdma,
            "only one of the two processes lends memory on demand: give all processes the same "
            "AQ_SEGMENT_MODE, and adapters with the same number of receive buffers");
        return;
    }
    peer->epoch = greeting->epoch;
    peer->arrived = greeting->received;
    peer->connected = true;
    uint32_t all = hca_rails_of(hca, peer);
    peer->used = all & ~(peer->failed | greeting->failed);
    if (peer->used == 0) peer->used = all & ~hca->gone;
    peer->first = (unsigned)__builtin_ctz(peer->used);
    if (!hca_message_prepare(hca, peer)) {
        aqi_rdma_fail(&hca->rdma, &peer->rdma, "no buffer for messages: %s", aq_error_message());
        return;
    }
    hca_ring_meet(hca, peer, &greeting->rings);
    hca_links_connect(hca, peer, greeting->place, greeting->reads);
}

void hca_greet_up(struct hca_tp *hca, struct hca_peer *peer)
{
    hca_greet_end(hca, peer);
    peer->state = HCA_UP;
    peer->failed = hca_rails_of(hca, peer) & ~peer->used; /* now that both agree */
    hca_repair_resume(hca, peer);
}

/* The peer's ports may have new addresses since it published them. */
static void hca_greet_follow(struct hca_tp *hca, struct hca_peer *peer,
                             const struct hca_greeting *greeting)
{
    for (unsigned r = 0; hca_rails_of(hca, peer) >> r != 0; r++) {
        struct hca_place *known = &peer->addr.place[r], said = greeting->place[r];
        said.qpn = known->qpn; /* for greetings */
        said.psn = known->psn;
        if (memcmp(known, &said, sizeof(said)) == 0) continue;
        *known = said;
        peer->unroutable &= ~(1u << r);
        if (peer->ah[r] != NULL) hca_verbs.destroy_ah(peer->ah[r]);
        peer->ah[r] = NULL;
    }
}

static void hca_greet_heard(struct hca_tp *hca, unsigned rail, const struct hca_greeting *greeting)
{
    struct hca_peer *peer = hca_peer_at(hca, greeting->from);
    if (peer == NULL || peer->state == HCA_DOWN || peer->broken)
        return; /* the peer will repeat it */
    if (hca_greet_find(hca, peer) != AQ_OK || !hca_has_rail(hca_rails_of(hca, peer), rail)) return;
    if (peer->epoch != 0 && greeting->epoch != peer->epoch) return;
    if (greeting->to_epoch != 0 && greeting->to_epoch != hca->greeter.epoch) return;
    hca_greet_follow(hca, peer, greeting);
    if ((int32_t)(greeting->generation - peer->generation) > 0) {
        peer->failed = greeting->failed | hca->down;
        if (peer->state != HCA_IDLE) {
            hca_repair_begin(hca, peer, greeting->generation, "the peer requested it");
            return;
        }
        peer->generation = greeting->generation;
    }
    hca_greet_begin(hca, peer);
    bool ours = greeting->generation == peer->generation; /* otherwise inform the peer */
    if (ours && peer->state == HCA_CALLING && !peer->connected)
        hca_greet_connect(hca, peer, greeting);
    if (peer->broken || (ours && !peer->connected)) return;
    bool knows = ours && (greeting->flags & GREET_KNOWS) != 0;
    if (knows && peer->state == HCA_CALLING) hca_greet_up(hca, peer);
    if (peer->state == HCA_DOWN) return;
    if (!ours || (greeting->flags & GREET_UP) == 0) hca_greet_say(hca, peer, rail);
}

void hca_greet_received(struct hca_tp *hca, unsigned rail, const struct ibv_wc *wc)
{
    uint32_t i = (uint32_t)(wc->wr_id >> 8) % (hca->rails * HCA_GREETINGS);
    struct hca_greeting greeting;
    if (wc->status != IBV_WC_SUCCESS) {
        hca_greet_failed(hca, rail, wc);
        return;
    }
    if (wc->byte_len >= HCA_GRH &&
        hca_greet_read(hca, hca->greeter.chunk->memory + i * GREET_ROOM + HCA_GRH,
                       wc->byte_len - HCA_GRH, &greeting))
        hca_greet_heard(hca, rail, &greeting);
    else
        aqi_count(AQI_CTR_HELLO_DROPPED, 1);
    hca_greet_post(hca, i);
}
