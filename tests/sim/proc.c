/*
 * Processes of a simulation: each has an engine, polls at its own pace, sleeps until something
 * arrives or until the engine's deadline, pauses, dies, and restarts. Also the engine's hooks, and
 * the conditions that must hold whenever one of them is called.
 */
#include "sim.h"

#include <limits.h>
#include <stdlib.h>

#define PACKETS_TO_THE_LOST 16u /* that may still be sent after a loss was reported */

/* --- the hooks -----------------------------------------------------------------------------------
 */

static struct sim_loss *proc_loss(const struct sim_proc *proc, uint32_t id)
{
    for (unsigned i = 0; i < proc->loss_count; i++)
        if (proc->losses[i].id == id) return &proc->losses[i];
    return NULL;
}

bool proc_lost(const struct sim_proc *proc, uint32_t id)
{
    return proc_loss(proc, id) != NULL;
}

static void proc_add_loss(struct sim_proc *proc, uint32_t id)
{
    proc->losses = realloc(proc->losses, (proc->loss_count + 1) * sizeof(*proc->losses));
    SIM_REQUIRE(proc->sim, proc->losses != NULL, "no memory");
    proc->losses[proc->loss_count++] = (struct sim_loss){.id = id};
}

static void proc_check_burst(const struct sim_proc *proc, enum aqi_dgram_channel channel,
                             const struct iovec *iov, unsigned niov, size_t segment,
                             unsigned packets)
{
    const struct sim *sim = proc->sim;
    size_t total = 0, most = sim->plan.config.packet;
    if (channel == AQI_DGRAM_COMMAND) most = aqi_min(most, AQI_DGRAM_COMMAND_MAX);
    for (unsigned i = 0; i < niov; i++)
        total += iov[i].iov_len;
    SIM_REQUIRE(sim, packets >= 1 && packets <= AQI_DGRAM_BURST_COUNT && total <= AQI_DGRAM_BURST,
                "process %u sends a burst of %u packets, %zu bytes", proc->id, packets, total);
    SIM_REQUIRE(sim, segment <= most && segment > 0,
                "process %u sends packets of %zu bytes on channel %d", proc->id, segment, channel);
    SIM_REQUIRE(sim, total > (packets - 1) * segment && total <= packets * segment,
                "process %u: %u packets of %zu are not %zu bytes", proc->id, packets, segment,
                total);
}

/* The next `len` bytes of `iov`, from `*piece`, `*used` on. */
static void proc_gather(unsigned char *to, size_t len, const struct iovec *iov, unsigned *piece,
                        size_t *used)
{
    while (len > 0) {
        size_t part = aqi_min(len, iov[*piece].iov_len - *used);
        if (part > 0) memcpy(to, (const char *)iov[*piece].iov_base + *used, part);
        to += part;
        len -= part;
        *used += part;
        if (*used == iov[*piece].iov_len) {
            *used = 0;
            ++*piece;
        }
    }
}

/* Bytes of the largest packet for which the port of a process ever has room. */
static size_t proc_room_for(const struct sim_proc *proc)
{
    const struct sim *sim = proc->sim;
    return sim_has(sim, SIM_SIZE) && proc->id % 2 != 0 ? sim->plan.size : SIZE_MAX;
}

/* The largest packet that reaches another process, and whose answers come back. */
static size_t proc_path_to(const struct sim_proc *proc, uint32_t id)
{
    const struct sim *sim = proc->sim;
    size_t bytes = sim->plan.config.packet;
    bool odd = ((proc->id | id) & 1) != 0;
    if (sim_has(sim, SIM_MTU) && odd) bytes = aqi_min(bytes, sim->plan.mtu);
    if (sim_has_shrunk(sim) && odd) bytes = aqi_min(bytes, sim->plan.shrunk);
    bytes = aqi_min(bytes, proc_room_for(proc));
    return aqi_min(bytes, proc_room_for(&sim->procs[id]));
}

static bool proc_transmit(void *arg, enum aqi_dgram_channel channel,
                          const struct aqi_dgram_addr *addr, const struct iovec *iov, unsigned niov,
                          size_t segment, unsigned packets)
{
    struct sim_proc *proc = arg;
    struct sim *sim = proc->sim;
    uint32_t to = 0;
    proc_check_burst(proc, channel, iov, niov, segment, packets);
    bool known = net_id(sim, addr, &to);
    SIM_REQUIRE(sim, known || sim_has(sim, SIM_HOSTILE),
                "process %u sends to an address that does not exist", proc->id);
    if (!net_room(sim, proc)) return false;
    if (segment > proc_room_for(proc)) return false;
    proc->sent_packets += packets;
    if (!known) return true;
    struct sim_loss *loss = proc_loss(proc, to);
    if (loss != NULL) loss->sent += packets;
    SIM_REQUIRE(sim, loss == NULL || sim_has(sim, SIM_HOSTILE) || loss->sent < PACKETS_TO_THE_LOST,
                "process %u continues to send to %u, which it has lost", proc->id, to);
    size_t left = 0, used = 0;
    for (unsigned i = 0; i < niov; i++)
        left += iov[i].iov_len;
    for (unsigned piece = 0; left > 0;) {
        size_t len = aqi_min(left, segment);
        struct sim_packet *packet = net_packet(proc->id, to, channel, len);
        proc_gather(packet->bytes, len, iov, &piece, &used);
        left -= len;
        net_send(sim, packet);
    }
    return true;
}

static void proc_deliver(void *arg, uint32_t source, bool request, unsigned char *message,
                         size_t len)
{
    struct sim_proc *proc = arg;
    SIM_REQUIRE(proc->sim, !proc->calling,
                "process %u: a delivery inside a call that begins "
                "something",
                proc->id);
    SIM_REQUIRE(proc->sim, !request || proc->nested == 0,
                "process %u: a request from %u is delivered although no handler may run", proc->id,
                source);
    proc->delivered++;
    work_deliver(proc, source, request, message, len);
}

static void proc_local(void *arg, void *user, aq_status status)
{
    struct sim_proc *proc = arg;
    if (!proc->ending) work_local(proc, user, status);
}

static void proc_remote(void *arg, void *user, aq_status status)
{
    struct sim_proc *proc = arg;
    if (!proc->ending) work_remote(proc, user, status);
}

static bool proc_range_ok(void *arg, uint64_t addr, size_t len)
{
    return memory_range_ok(arg, addr, len);
}

static uint64_t proc_now(void *arg)
{
    return ((struct sim_proc *)arg)->sim->now;
}

static aq_status proc_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    struct sim_proc *proc = arg;
    struct sim *sim = proc->sim;
    SIM_REQUIRE(sim, id < sim->plan.peers, "process %u calls %u", proc->id, id);
    uint64_t known = mix(sim->options.seed ^ ((uint64_t)proc->id << 32 | id));
    if (sim->plan.late_lookup && sim->now < SIM_BEGIN + known % (5 * SIM_MS)) return AQ_AGAIN;
    net_address(id, addr);
    return AQ_OK;
}

static void proc_on_lost(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why)
{
    struct sim_proc *proc = arg;
    struct sim *sim = proc->sim;
    (void)loss;
    SIM_TRACE(sim, "process %u has lost %u: %s", proc->id, id, why);
    SIM_REQUIRE(sim, id < sim->plan.peers && !proc->calling && !proc_lost(proc, id),
                "process %u has lost %u a second time, or inside a call (%s)", proc->id, id, why);
    SIM_REQUIRE(sim, !sim->procs[id].alive || sim->procs[id].life != 0 || proc->life != 0,
                "process %u has lost %u, which is alive (%s)", proc->id, id, why);
    proc_add_loss(proc, id);
}

static void proc_small_path(void *arg, uint32_t id, size_t usable, bool agreed)
{
    (void)agreed;
    struct sim_proc *proc = arg;
    struct sim *sim = proc->sim;
    SIM_TRACE(sim, "process %u: the path to %u carries %zu bytes", proc->id, id, usable);
    SIM_REQUIRE(sim, usable >= AQI_DGRAM_LEAST_PACKET && usable <= sim->plan.config.packet,
                "process %u: the path to %u carries %zu bytes?", proc->id, id, usable);
    /* It may have been found before the path shrank, and agreed on afterwards. */
    bool old = sim_has_shrunk(sim) && sim->now - sim->plan.shrunk_at < SIM_SECOND;
    size_t most = proc_path_to(proc, id);
    SIM_REQUIRE(sim, old || (most < sim->plan.config.packet && usable <= most),
                "process %u: the path to %u carries %zu bytes, not %zu", proc->id, id, most,
                usable);
    /* Losses may make the path seem smaller than it is. */
    bool calm = (sim->plan.faults & ~(1u << SIM_MTU | 1u << SIM_SIZE | 1u << SIM_SHRINK)) == 0;
    SIM_REQUIRE(sim, old || !calm || sim->plan.limit < 5 * SIM_MS || usable == most / 16 * 16,
                "process %u: the path to %u carries %zu bytes, not only %zu", proc->id, id, most,
                usable);
    proc->small_paths++;
}

/* Good enough to detect altered bytes; nothing here has to be secret. */
void proc_mac(void *arg, const char *use, const uint8_t key[16], const struct iovec *iov,
              unsigned niov, uint8_t tag[16])
{
    (void)arg;
    uint64_t h[2], word = 0;
    unsigned have = 0;
    memcpy(h, key, sizeof(h));
    for (; use != NULL && *use != 0; use++)
        h[0] = (h[0] ^ (unsigned char)*use) * 0x9e3779b97f4a7c15u;
    for (unsigned i = 0; i < niov; i++) {
        const unsigned char *p = iov[i].iov_base, *end = p + iov[i].iov_len;
        while (p < end) {
            if (have == 0 && end - p >= 8) {
                memcpy(&word, p, 8);
                p += 8;
                have = 8;
            } else {
                word |= (uint64_t)*p++ << 8 * have++;
            }
            if (have < 8) continue;
            h[0] = (h[0] ^ word) * 0x9e3779b97f4a7c15u;
            h[1] = (h[1] + (h[0] >> 29)) * 0xbf58476d1ce4e5b9u ^ word;
            word = 0;
            have = 0;
        }
    }
    h[0] = mix(h[0] ^ word ^ (uint64_t)have << 56);
    h[1] = mix(h[1] ^ h[0]);
    memcpy(tag, h, sizeof(h));
}

/* --- start and end ---------------------------------------------------------------------------- */

static void proc_poll(struct sim *sim, uint64_t serial, void *arg);

uint32_t proc_partner(struct sim *sim, const struct sim_proc *proc)
{
    uint32_t n = sim->plan.peers, id = proc->id;
    switch (sim->plan.shape) {
    case SIM_RING:
        return (id + (sim_chance(sim, SIM_OF_WORK, 1, 2) ? 1 : n - 1)) % n;
    case SIM_PAIRS:
        return (id ^ 1) < n ? id ^ 1 : id - 1;
    case SIM_TO_ONE:
        return id != 0 ? 0 : 1 + (uint32_t)sim_below(sim, SIM_OF_WORK, n - 1);
    default:
        return (id + 1 + (uint32_t)sim_below(sim, SIM_OF_WORK, n - 1)) % n;
    }
}

/* Whether `a` may communicate with `b`. */
static bool proc_neighbor(const struct sim *sim, uint32_t a, uint32_t b)
{
    uint32_t n = sim->plan.peers;
    switch (sim->plan.shape) {
    case SIM_RING:
        return (a + 1) % n == b || (b + 1) % n == a;
    case SIM_PAIRS:
        return (a | 1) == (b | 1) || (n % 2 != 0 && a + b == 2 * n - 3);
    case SIM_TO_ONE:
        return a == 0 || b == 0;
    default:
        return true;
    }
}

void proc_open(struct sim *sim, struct sim_proc *proc)
{
    struct aqi_dgram_config config = sim->plan.config;
    config.self = proc->id;
    config.size = sim->plan.peers;
    config.epoch = sim_random(sim, SIM_OF_PROC) | 1;
    config.seed = sim_random(sim, SIM_OF_PROC);
    memcpy(config.secret, &config.seed, sizeof(config.seed));
    net_address(proc->id, &config.address);
    const struct aqi_dgram_hooks hooks = {.transmit = proc_transmit,
                                          .deliver = proc_deliver,
                                          .local = proc_local,
                                          .remote = proc_remote,
                                          .range_ok = proc_range_ok,
                                          .now = proc_now,
                                          .lookup = proc_lookup,
                                          .lost = proc_on_lost,
                                          .small_path = proc_small_path,
                                          .mac = proc_mac,
                                          .arg = proc};
    aq_status status = aqi_dgram_create(&config, &hooks, &proc->dgram);
    SIM_REQUIRE(sim, status == AQ_OK, "process %u: aqi_dgram_create: %d", proc->id, status);
    proc->alive = true;
    proc->fruitless = 0;
    proc->pause_until = 0;
    proc->computes = false;
    proc->poll_at = SIM_NEVER;
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS; i++)
        proc->queue[i].tail = &proc->queue[i].head;
    for (uint32_t id = 0; id < sim->plan.peers; id++)
        if (id != proc->id && proc_neighbor(sim, proc->id, id))
            SIM_REQUIRE(sim, aqi_dgram_peer(proc->dgram, id) == AQ_OK,
                        "process %u: aqi_dgram_peer(%u)", proc->id, id);
    proc_poll_at(proc, sim->now + sim_below(sim, SIM_OF_PROC, sim->plan.poll_max));
}

void proc_close(struct sim_proc *proc)
{
    proc->ending = true;
    aqi_dgram_destroy(proc->dgram);
    proc->ending = false;
    proc->alive = false;
    proc->dgram = NULL;
    free(proc->losses);
    proc->losses = NULL;
    proc->loss_count = 0;
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS; i++) {
        struct sim_packet *next;
        for (struct sim_packet *packet = proc->queue[i].head; packet != NULL; packet = next) {
            next = packet->next;
            net_free(proc->sim, packet);
        }
        proc->queue[i] = (struct sim_fifo){.head = NULL};
    }
}

/* --- polling -------------------------------------------------------------------------------------
 */

void proc_poll_at(struct sim_proc *proc, uint64_t time)
{
    if (time >= proc->poll_at) return;
    proc->poll_at = time;
    sim_at(proc->sim, time, proc_poll, ++proc->poll_serial, proc);
}

void proc_arrived(struct sim_proc *proc, struct sim_packet *packet)
{
    struct sim *sim = proc->sim;
    struct sim_fifo *queue = &proc->queue[packet->channel];
    if (!proc->alive || queue->bytes + packet->len + AQI_DGRAM_COST > sim->plan.room) {
        SIM_TRACE(sim, "%u -> %u: a packet of %zu bytes finds no %s", packet->from, packet->to,
                  packet->len, proc->alive ? "room" : "process");
        sim->dropped++;
        net_free(sim, packet);
        return;
    }
    packet->arrived = sim->now;
    packet->next = NULL;
    *queue->tail = packet;
    queue->tail = &packet->next;
    queue->bytes += packet->len + AQI_DGRAM_COST;
    if (!proc->asleep || proc->every != 0) return;
    uint64_t wake = sim->plan.spin ? 100 : sim_spread(sim, SIM_OF_PROC, SIM_US, 50 * SIM_US);
    proc_poll_at(proc, sim->now + wake);
}

static struct sim_packet *proc_take(struct sim_proc *proc)
{
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS; i++) {
        struct sim_fifo *queue = &proc->queue[i];
        struct sim_packet *packet = queue->head;
        if (packet == NULL) continue;
        queue->head = packet->next;
        if (queue->head == NULL) queue->tail = &queue->head;
        queue->bytes -= packet->len + AQI_DGRAM_COST;
        return packet;
    }
    return NULL;
}

static unsigned proc_receive(struct sim_proc *proc)
{
    struct sim *sim = proc->sim;
    unsigned most = 1 + (unsigned)sim_below(sim, SIM_OF_PROC, 64), n = 0;
    struct sim_packet *packet;
    if (proc->every != 0) most = UINT_MAX;
    n += aqi_dgram_resume(proc->dgram, proc->nested == 0, sim->now);
    while (n < most && (packet = proc_take(proc)) != NULL) {
        SIM_TRACE(sim, "%u -> %u: %s packet of %zu bytes%s", packet->from, proc->id,
                  packet->channel == AQI_DGRAM_DATA ? "DATA" : "COMMAND", packet->len,
                  packet->forged ? ", forged" : "");
        aqi_dgram_input(proc->dgram, packet->bytes, packet->len, proc->nested == 0,
                        sim->now - packet->arrived, sim->now);
        net_free(sim, packet);
        n++;
    }
    return n;
}

#define PROC_HELPED (2 * SIM_MS)

/* A thread answers while the program computes. */
static void proc_help(struct sim_proc *proc)
{
    struct sim *sim = proc->sim;
    struct sim_packet *packet;
    uint64_t delivered = proc->delivered;
    while ((packet = proc_take(proc)) != NULL) {
        aqi_dgram_answer(proc->dgram, packet->bytes, packet->len, sim->now - packet->arrived,
                         sim->now);
        net_free(sim, packet);
    }
    (void)aqi_dgram_progress(proc->dgram, false, sim->now);
    SIM_REQUIRE(sim, proc->delivered == delivered,
                "process %u: a message is delivered while it computes", proc->id);
}

static unsigned proc_progress(struct sim_proc *proc, bool received)
{
    struct sim *sim = proc->sim;
    const struct sim_plan *plan = &sim->plan;
    bool due = aqi_dgram_deadline(proc->dgram) <= sim->now, calm = !received && proc->nested == 0;
    uint64_t polls = proc->polls, delivered = proc->delivered;
    unsigned things = aqi_dgram_progress(proc->dgram, proc->nested == 0, sim->now);
    if (proc->polls != polls || !calm) return things; /* a handler has waited */
    SIM_REQUIRE(sim, proc->delivered - delivered <= aqi_max(plan->config.pool, 1),
                "process %u had kept %" PRIu64 " requests in a pool of %u", proc->id,
                proc->delivered - delivered, plan->config.pool);
    if (!due) return things;
    proc->timers++;
    if (things == 0) proc->spurious++;
    bool stuck = things == 0 && aqi_dgram_deadline(proc->dgram) <= sim->now &&
                 proc->up.busy <= sim->now && !sim_has(sim, SIM_REFUSE);
    proc->stuck = stuck ? proc->stuck + 1 : 0;
    SIM_REQUIRE(sim, proc->stuck < 3,
                "process %u: the deadline has passed, but progress does nothing", proc->id);
    return things;
}

static void proc_check(struct sim_proc *proc)
{
    struct sim *sim = proc->sim;
    struct aqi_dgram_peer_info info;
    uint32_t id = proc_partner(sim, proc);
    if (!aqi_dgram_peer_info(proc->dgram, id, &info)) return;
    /* Each channel has a window of its own. */
    SIM_REQUIRE(sim, info.in_flight <= AQI_DGRAM_CHANNELS * sim->plan.config.reach,
                "process %u: %zu bytes in flight to %u, more than twice %zu", proc->id,
                info.in_flight, id, sim->plan.config.reach);
    SIM_REQUIRE(sim, info.lost == proc_lost(proc, id),
                "process %u and its engine differ on whether "
                "%u is lost",
                proc->id, id);
    work_check_quiet(proc);
    if (sim_chance(sim, SIM_OF_PROC, 1, 4096)) memory_check(proc);
}

/* Schedule the next poll. */
static void proc_schedule(struct sim_proc *proc, bool fruitless)
{
    struct sim *sim = proc->sim;
    uint64_t next = aqi_dgram_deadline(proc->dgram);
    bool waiting = proc->queue[0].head != NULL || proc->queue[1].head != NULL;
    proc->fruitless = fruitless ? proc->fruitless + 1 : 0;
    proc->asleep = !waiting && proc->nested == 0 &&
                   (sim->plan.spin || proc->fruitless > 4 || sim_chance(sim, SIM_OF_PROC, 1, 8));
    if (proc->every != 0)
        next = sim->now + proc->every / 2 + sim_below(sim, SIM_OF_PROC, proc->every);
    else if (!proc->asleep)
        next = sim->now +
               (sim->plan.spin ? 100 : sim_spread(sim, SIM_OF_PROC, SIM_US, sim->plan.poll_max));
    else if (!work_done(proc) && proc->work_at < next)
        next = proc->work_at;
    if (next == SIM_NEVER) return;
    if (next < sim->now + 100) next = sim->now + 100;
    proc_poll_at(proc, next);
}

static void proc_poll(struct sim *sim, uint64_t serial, void *arg)
{
    struct sim_proc *proc = arg;
    if (serial != proc->poll_serial || !proc->alive) return;
    proc->poll_at = SIM_NEVER;
    if (sim->now < proc->pause_until) {
        if (proc->computes) proc_help(proc);
        uint64_t soon = proc->computes ? sim->now + PROC_HELPED : SIM_NEVER;
        proc_poll_at(proc, aqi_min(proc->pause_until, soon));
        return;
    }
    SIM_REQUIRE(sim, sim->now < sim->give_up, "the run does not end");
    proc->polls++;
    bool received = proc_receive(proc) != 0;
    bool did = proc_progress(proc, received) != 0;
    if (proc->nested == 0) work_poll(proc);
    proc_check(proc);
    proc_schedule(proc, !received && !did);
}

void proc_wait(struct sim_proc *proc)
{
    struct sim *sim = proc->sim;
    uint64_t polls = proc->polls;
    proc->nested++;
    sim->depth++;
    proc_poll_at(proc, sim->now + sim_spread(sim, SIM_OF_PROC, 200, 50 * SIM_US));
    while (proc->polls == polls)
        SIM_REQUIRE(sim, sim_step(sim), "process %u waits, but no event is left", proc->id);
    sim->depth--;
    proc->nested--;
}

/* --- faults of processes ---------------------------------------------------------------------- */

static void proc_pause(struct sim *sim, uint64_t last, void *arg)
{
    struct sim_proc *proc = arg;
    if (sim->clear) return;
    SIM_TRACE(sim, "process %u pauses for %" PRIu64 " us", proc->id, last / SIM_US);
    proc->pause_until = sim->now + last;
    proc->computes = last % 2 == 0;
}

static void proc_tell(struct sim *sim, uint64_t id, void *arg)
{
    struct sim_proc *proc = arg;
    if (!proc->alive || proc_lost(proc, (uint32_t)id)) return;
    if (!proc_neighbor(sim, proc->id, (uint32_t)id)) return;
    SIM_TRACE(sim, "process %u is notified of the death of %u", proc->id, (uint32_t)id);
    proc_add_loss(proc, (uint32_t)id);
    aqi_dgram_down(proc->dgram, (uint32_t)id);
    proc_poll_at(proc, sim->now + SIM_US);
}

enum proc_fate { PROC_DIES, PROC_DIES_UNANNOUNCED, PROC_BEGINS_ANEW };

static void proc_fate(struct sim *sim, uint64_t fate, void *arg)
{
    struct sim_proc *proc = arg;
    if (sim->clear || !proc->alive) return;
    if (proc->nested != 0) {
        sim_at(sim, sim->now + 50 * SIM_US, proc_fate, fate, proc);
        return;
    }
    SIM_TRACE(sim, "process %u %s", proc->id, fate == PROC_BEGINS_ANEW ? "begins anew" : "dies");
    proc_close(proc);
    work_orphan(sim, proc);
    if (fate == PROC_BEGINS_ANEW) {
        proc->life++;
        proc_open(sim, proc);
        return;
    }
    if (fate == PROC_DIES_UNANNOUNCED) return;
    proc->announced = true;
    for (uint32_t id = 0; id < sim->plan.peers; id++)
        sim_at(sim, sim->now + sim_spread(sim, SIM_OF_PROC, 100 * SIM_US, 20 * SIM_MS), proc_tell,
               proc->id, &sim->procs[id]);
}

static void proc_forget(struct sim *sim, uint64_t a, void *arg)
{
    (void)a;
    struct sim_proc *proc = arg;
    if (proc->alive && !sim->clear) work_forget(sim, proc);
}

bool proc_will_know(const struct sim *sim, const struct sim_op *op)
{
    const struct sim_proc *from = &sim->procs[op->from], *to = &sim->procs[op->to];
    if (!from->alive || from->life != op->from_life || from->life != 0) return false;
    if (to->alive) return true;
    return to->announced || sim->plan.config.dead_after != 0;
}

static struct sim_proc *proc_any(struct sim *sim)
{
    return &sim->procs[sim_below(sim, SIM_OF_PROC, sim->plan.peers)];
}

void proc_faults(struct sim *sim)
{
    uint64_t horizon = sim->plan.horizon;
    uint32_t n = sim->plan.peers;
    for (uint32_t i = 0; i < 1 + n / 8; i++) {
        uint64_t at = sim->now + sim_below(sim, SIM_OF_PROC, horizon);
        uint64_t unannounced = sim_below(sim, SIM_OF_PROC, 2);
        if (sim_has(sim, SIM_DEATH)) sim_at(sim, at, proc_fate, unannounced, proc_any(sim));
        at = sim->now + sim_below(sim, SIM_OF_PROC, horizon);
        if (sim_has(sim, SIM_RESTART)) sim_at(sim, at, proc_fate, PROC_BEGINS_ANEW, proc_any(sim));
    }
    for (uint32_t i = 0; i < 2 * n && i < 1000; i++) {
        uint64_t at = sim->now + sim_below(sim, SIM_OF_PROC, horizon);
        uint64_t last = sim_spread(sim, SIM_OF_PROC, SIM_MS, 300 * SIM_MS);
        if (sim_has(sim, SIM_PAUSE)) sim_at(sim, at, proc_pause, last, proc_any(sim));
        for (int each = 0; each < 8; each++) {
            at = sim->now + sim_below(sim, SIM_OF_PROC, horizon);
            if (sim_has(sim, SIM_FORGET)) sim_at(sim, at, proc_forget, 0, proc_any(sim));
        }
    }
}
