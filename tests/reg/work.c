/*
 * Transfers: the memory that they use, the paths that they take, and the check that each arrives
 * exactly once.
 */
#include "regsim.h"

#include <stdlib.h>
#include <string.h>

static void work_next(struct sim *sim, struct transfer *transfer);

static uint64_t draw_address(struct sim *sim, struct proc *proc, uint64_t len)
{
    const struct plan *plan = sim->plan;
    uint64_t room = (uint64_t)plan->pages * PAGE;
    switch (plan->pattern) {
    case PATTERN_LOOP:
        return BASE + sim_any(sim, (uint64_t)plan->loop * PAGE - len);
    case PATTERN_STREAM:
        if (proc->at + len > room) proc->at = 0;
        proc->at += len;
        return BASE + proc->at - len;
    case PATTERN_HOT:
        if (sim_any(sim, 10) != 0) room = aqi_max(room / 10, 2 * len);
        return BASE + sim_any(sim, room - len);
    case PATTERN_ANY:
    default:
        return BASE + sim_any(sim, room - len);
    }
}

static bool usable(struct proc *proc, uint64_t addr, uint64_t len, bool by_peer)
{
    for (uint64_t at = addr / PAGE * PAGE; at < addr + len; at += PAGE) {
        const struct page *page = memory_page(proc, at);
        if (page->frame == 0 || (by_peer && page->closed)) return false;
    }
    return true;
}

static void work_finish(struct sim *sim, struct transfer *transfer)
{
    struct proc *proc = &sim->procs[transfer->proc], *peer = &sim->procs[transfer->peer];
    memory_busy(proc, transfer->near_busy, transfer->whole, false);
    memory_busy(peer, transfer->far_busy, transfer->whole, false);
    if (transfer->has_local) aqi_reg_release(proc->reg, &transfer->local);
    transfer->has_local = transfer->active = false;
    sim->transfers++;
    (void)queue_post(sim, 1 + sim_any(sim, 20), EVENT_START, transfer->proc);
}

/* The rest, which registrations cannot serve, is transferred by messages, and ends the transfer. */
static void work_by_message(struct sim *sim, struct transfer *transfer)
{
    sim->by_message++;
    transfer->len = 0;
    work_next(sim, transfer);
}

static void work_run(struct sim *sim, struct transfer *transfer)
{
    sim->pieces++;
    queue_post(sim, 1 + sim_any(sim, 60), EVENT_END, transfer->proc)->transfer = transfer;
}

static void work_ready(struct aqi_reg_wait *wait, aq_status status)
{
    struct transfer *transfer =
        (struct transfer *)(void *)((char *)wait - offsetof(struct transfer, wait));
    struct sim *sim = transfer->sim;
    struct proc *proc = &sim->procs[transfer->proc];
    REQUIRE(sim, transfer->active, "a finished transfer is reported again");
    if (wait->rode && status != AQ_EPEER) {
        REQUIRE(sim, transfer->arrived, "data sent along has not arrived");
        REQUIRE(sim, wait->ride_status == AQ_OK, "data sent along has a wrong status");
        if (status == AQ_OK) aqi_reg_release(proc->reg, &wait->use);
        sim->rode++;
        transfer->len = 0;
    } else if (status == AQ_OK) {
        work_run(sim, transfer);
        return;
    } else if (status == AQ_ENOTSUP || status == AQ_EPEER) {
        sim->by_message++;
        transfer->len = 0;
    }
    /* The cache permits no request inside this call. */
    queue_post(sim, 0, EVENT_AGAIN, transfer->proc)->transfer = transfer;
}

aq_status work_ride(void *host, uint32_t peer, uint64_t addr, uint8_t tag, const void *bytes,
                    size_t nbytes)
{
    struct proc *proc = host;
    struct sim *sim = proc->sim;
    struct transfer *transfer;
    REQUIRE(sim, nbytes >= sizeof(transfer), "data sent along has a wrong length");
    memcpy(&transfer, bytes, sizeof(transfer));
    REQUIRE(sim, tag == 7 && transfer->proc == peer && transfer->peer == proc->id,
            "data is sent along to a wrong process");
    if (!sim->procs[peer].alive) return AQ_OK;
    REQUIRE(sim,
            transfer->active && transfer->far == addr && transfer->len == nbytes &&
                !transfer->arrived,
            "data is sent along twice or to a wrong address");
    transfer->arrived = true;
    return AQ_OK;
}

static void work_next(struct sim *sim, struct transfer *transfer)
{
    static unsigned char bytes[AQI_REG_RIDE_MAX];
    struct proc *proc = &sim->procs[transfer->proc];
    struct aqi_reg_wait *wait = &transfer->wait;
    if (transfer->len == 0) {
        work_finish(sim, transfer);
        return;
    }
    if (!transfer->has_local) {
        aq_status st = aqi_reg_local(proc->reg, transfer->near, transfer->len, &transfer->local);
        REQUIRE(sim, st == AQ_OK || st == AQ_ENOTSUP, "local memory: %d", st);
        if (st != AQ_OK) {
            work_by_message(sim, transfer);
            return;
        }
        transfer->has_local = true;
    }
    bool rides = transfer->is_put && transfer->len <= sim->plan->limits.ride &&
                 transfer->len >= sizeof(transfer);
    *wait = (struct aqi_reg_wait){
        .ready = work_ready, .bytes = bytes, .nbytes = rides ? transfer->len : 0, .tag = 7};
    memcpy(bytes, &transfer, sizeof(transfer));
    transfer->arrived = false;
    uint64_t len = aqi_min(transfer->len, transfer->local.len);
    aq_status st =
        aqi_reg_remote(proc->reg, transfer->peer, transfer->far, rides ? transfer->len : len, wait);
    REQUIRE(sim, st == AQ_OK || st == AQ_AGAIN || st == AQ_ENOTSUP || st == AQ_EPEER,
            "remote memory: %d", st);
    if (st == AQ_OK) work_run(sim, transfer);
    if (st < 0) work_by_message(sim, transfer);
}

void work_again(struct sim *sim, struct transfer *transfer)
{
    if (sim->procs[transfer->proc].alive) work_next(sim, transfer);
}

void work_end(struct sim *sim, struct transfer *transfer)
{
    struct proc *proc = &sim->procs[transfer->proc], *peer = &sim->procs[transfer->peer];
    if (!proc->alive) return;
    struct aqi_reg_use *there = &transfer->wait.use, *here = &transfer->local;
    REQUIRE(sim, there->addr == transfer->far && here->addr == transfer->near,
            "a use has a wrong address");
    uint64_t len = aqi_min(transfer->len, aqi_min(here->len, there->len));
    REQUIRE(sim, len != 0, "a use has no bytes");
    bool done = memory_check(sim, peer, there, transfer->far, len, true);
    (void)memory_check(sim, proc, here, transfer->near, len, false);
    aqi_reg_release(proc->reg, there);
    aqi_reg_release(proc->reg, here);
    transfer->has_local = false;
    if (done) {
        transfer->near += len;
        transfer->far += len;
        transfer->len -= len;
    } else {
        sim->cut++;
    }
    work_next(sim, transfer);
}

void work_start(struct sim *sim, uint32_t number)
{
    struct proc *proc = &sim->procs[number];
    const struct plan *plan = sim->plan;
    struct transfer *transfer = proc->transfers;
    for (uint32_t i = 0; transfer->active && i < plan->at_once; i++)
        transfer = &proc->transfers[i];
    if (!proc->alive || proc->left == 0 || transfer->active) return;
    uint32_t peer = (uint32_t)sim_any(sim, plan->procs - 1);
    peer += peer >= number;
    if (plan->pattern == PATTERN_STREAM) peer = (number + 1) % plan->procs;
    uint64_t len = 1 + sim_any(sim, sim_any(sim, 3) == 0 ? plan->most_bytes : 4096);
    len = aqi_min(len, plan->most_bytes);
    if (plan->pattern == PATTERN_STREAM) len = plan->most_bytes;
    uint64_t far = draw_address(sim, proc, len);
    uint64_t near = BASE + sim_any(sim, (uint64_t)plan->pages * PAGE - len);
    if (plan->pattern == PATTERN_LOOP) near = draw_address(sim, proc, len);
    proc->left--;
    if (!sim->procs[peer].alive || !usable(&sim->procs[peer], far, len, true) ||
        !usable(proc, near, len, false)) {
        (void)queue_post(sim, 1 + sim_any(sim, 20), EVENT_START, number);
        return;
    }
    *transfer = (struct transfer){.sim = sim,
                                  .proc = number,
                                  .peer = peer,
                                  .near = near,
                                  .far = far,
                                  .len = len,
                                  .near_busy = near,
                                  .far_busy = far,
                                  .whole = len,
                                  .is_put = sim_any(sim, 100) >= plan->gets,
                                  .active = true};
    memory_busy(proc, near, len, true);
    memory_busy(&sim->procs[peer], far, len, true);
    if (sim_any(sim, 100) < plan->unmaps)
        (void)queue_post(sim, sim_any(sim, 100), EVENT_UNMAP, (uint32_t)sim_any(sim, plan->procs));
    work_next(sim, transfer);
}
