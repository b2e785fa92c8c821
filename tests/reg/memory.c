/* Address spaces, their registrations, and whether those still match the program's memory. */
#include "regsim.h"

#include <stdlib.h>
#include <string.h>

/* Of every eight pages outside the segments, peers may not access the first few. */
static bool open_page(const struct sim *sim, uint64_t number)
{
    return number < sim->plan->segment || number % 8 >= RANGE_NEVER;
}

static uint64_t page_number(uint64_t addr)
{
    return (addr - BASE) / PAGE;
}

bool memory_open_to_peers(const struct sim *sim, uint64_t addr, uint64_t len)
{
    for (uint64_t at = addr / PAGE * PAGE; at < addr + len; at += PAGE)
        if (!open_page(sim, page_number(at))) return false;
    return true;
}

struct page *memory_page(struct proc *proc, uint64_t addr)
{
    return &proc->pages[page_number(addr)];
}

void memory_busy(struct proc *proc, uint64_t addr, uint64_t len, bool on)
{
    for (uint64_t at = addr / PAGE * PAGE; at < addr + len; at += PAGE)
        memory_page(proc, at)->busy += on ? 1u : UINT32_MAX;
}

static aq_status memory_pin(void *host, uint64_t addr, uint64_t len, struct aqi_reg_mem *mem)
{
    struct proc *proc = host;
    struct sim *sim = proc->sim;
    const struct aqi_reg_limits *limits = &sim->plan->limits;
    uint64_t pages = len / PAGE, first = page_number(addr);
    REQUIRE(sim, addr % PAGE == 0 && len % PAGE == 0 && len != 0,
            "pins something other than whole pages");
    REQUIRE(sim, addr / limits->region == (addr + len - 1) / limits->region,
            "pins more than a region");
    REQUIRE(sim, proc->pinned + len <= limits->main.bytes + limits->victim.bytes,
            "process %u pins more than its limit", proc->id);
    if (sim->plan->memlock != 0 && proc->pinned + len > sim->plan->memlock) return AQ_ENOMEM;
    for (uint64_t i = first; i < first + pages; i++)
        if (i >= sim->plan->pages || proc->pages[i].frame == 0) return AQ_ERANGE;
    struct mem *made = calloc(1, sizeof(*made) + pages * sizeof(made->frames[0]));
    if (made == NULL) abort();
    if (sim->mem_count == sim->mem_room) {
        sim->mem_room = sim->mem_room != 0 ? 2 * sim->mem_room : 256;
        sim->mems = realloc(sim->mems, sim->mem_room * sizeof(struct mem *));
        if (sim->mems == NULL) abort();
    }
    made->proc = proc->id;
    made->id = (uint32_t)sim->mem_count;
    made->addr = addr;
    made->len = len;
    made->live = true;
    for (uint64_t i = 0; i < pages; i++)
        made->frames[i] = proc->pages[first + i].frame;
    sim->mems[sim->mem_count++] = made;
    proc->pinned += len;
    *mem = (struct aqi_reg_mem){.handle = made, .key = &made->id, .key_len = sizeof(made->id)};
    return AQ_OK;
}

static void memory_unpin(void *host, const struct aqi_reg_mem *mem)
{
    struct proc *proc = host;
    struct mem *made = mem->handle;
    REQUIRE(proc->sim, made->live, "unpins twice");
    made->live = false;
    proc->pinned -= made->len;
}

static enum aqi_reg_how memory_how(void *host, uint32_t who, uint64_t addr, uint64_t len,
                                   uint64_t *from, uint64_t *to)
{
    const struct proc *proc = host;
    const struct plan *plan = proc->sim->plan;
    uint64_t end = BASE + (uint64_t)plan->segment * PAGE;
    if (addr < BASE || addr + len > BASE + (uint64_t)plan->pages * PAGE) return AQI_REG_NEVER;
    if (addr >= BASE && addr + len <= end) {
        *from = BASE;
        *to = end;
        return AQI_REG_KEEP;
    }
    if (who != AQI_REG_SELF && !memory_open_to_peers(proc->sim, addr, len)) return AQI_REG_NEVER;
    return plan->watched ? AQI_REG_KEEP : AQI_REG_ONCE;
}

static bool memory_changed(void *host, uint64_t *addr, uint64_t *len)
{
    struct proc *proc = host;
    if (proc->changes_count == 0) return false;
    const struct change *change = &proc->changes[proc->changes_first];
    *addr = change->addr;
    *len = change->len;
    proc->changes_first = (proc->changes_first + 1) % AQI_COUNT_OF(proc->changes);
    proc->changes_count--;
    return true;
}

static aq_status memory_send(void *host, uint32_t peer, const void *bytes, size_t len)
{
    struct proc *proc = host;
    struct sim *sim = proc->sim;
    REQUIRE(sim, peer < sim->plan->procs && peer != proc->id,
            "sends to a process that does not exist");
    REQUIRE(sim, len <= AQI_REG_MESSAGE_MAX, "sends a message that is too long");
    if (sim_any(sim, 100) < sim->plan->again) {
        if (!proc->progress_due)
            (void)queue_post(sim, 1 + sim_any(sim, sim->plan->delay), EVENT_PROGRESS, proc->id);
        proc->progress_due = true;
        return AQ_AGAIN;
    }
    unsigned char *copy = malloc(len);
    if (copy == NULL) abort();
    memcpy(copy, bytes, len);
    struct event *event = queue_post(sim, 1 + sim_any(sim, sim->plan->delay), EVENT_MESSAGE, peer);
    event->other = proc->id;
    event->bytes = copy;
    event->len = len;
    return AQ_OK;
}

const struct aqi_reg_hooks memory_hooks = {.pin = memory_pin,
                                           .unpin = memory_unpin,
                                           .how = memory_how,
                                           .changed = memory_changed,
                                           .send = memory_send,
                                           .ride = work_ride};

/* Unmap some pages that no transfer uses; they are mapped again, at once or later. */
void memory_unmap(struct sim *sim, uint32_t number)
{
    struct proc *proc = &sim->procs[number];
    uint64_t from = sim_any(sim, sim->plan->pages), to = from;
    uint64_t most = 1 + sim_any(sim, sim_any(sim, 4) == 0 ? 64 : 4);
    while (to < sim->plan->pages && to - from < most && proc->pages[to].busy == 0 &&
           proc->pages[to].frame != 0)
        to++;
    if (to == from || proc->changes_count == AQI_COUNT_OF(proc->changes)) return;
    struct change change = {.addr = BASE + from * PAGE, .len = (to - from) * PAGE};
    for (uint64_t i = from; i < to; i++) {
        proc->pages[i].frame = 0;
        proc->pages[i].closed = true;
    }
    proc->closed += (uint32_t)(to - from);
    sim->unmapped++;
    sim_trace(sim, "process %u unmaps %" PRIx64 " + %" PRIx64, number, change.addr, change.len);
    /* Without a monitor only changes of the segment are reported, by the transport itself. */
    if (sim->plan->watched || from < sim->plan->segment) {
        unsigned at = (proc->changes_first + proc->changes_count) % AQI_COUNT_OF(proc->changes);
        proc->changes[at] = change;
        proc->changes_count++;
    }
    struct event again = {.proc = number, .range = change};
    if (sim_any(sim, 2) == 0)
        memory_remap(sim, &again);
    else
        queue_post(sim, 1 + sim_any(sim, 400), EVENT_REMAP, number)->range = change;
}

void memory_remap(struct sim *sim, const struct event *event)
{
    struct proc *proc = &sim->procs[event->proc];
    for (uint64_t at = event->range.addr; at < event->range.addr + event->range.len; at += PAGE)
        memory_page(proc, at)->frame = ++sim->frame;
    sim_trace(sim, "process %u maps %" PRIx64 " + %" PRIx64, event->proc, event->range.addr,
              event->range.len);
    if (sim_any(sim, 2) == 0) memory_reopen(proc);
}

void memory_reopen(struct proc *proc)
{
    if (proc->closed == 0 || aqi_reg_fenced(proc->reg)) return;
    for (uint32_t i = 0; i < proc->sim->plan->pages; i++) {
        struct page *page = &proc->pages[i];
        if (!page->closed || page->frame == 0) continue;
        page->closed = false;
        proc->closed--;
    }
}

bool memory_check(struct sim *sim, struct proc *owner, const struct aqi_reg_use *use, uint64_t addr,
                  uint64_t len, bool far)
{
    uint32_t id;
    if (!owner->alive) return true;
    REQUIRE(sim, use->mem->key_len == sizeof(id), "a key of another length");
    memcpy(&id, use->mem->key, sizeof(id));
    REQUIRE(sim, id < sim->mem_count && sim->mems[id]->proc == owner->id, "a key without an owner");
    const struct mem *mem = sim->mems[id];
    REQUIRE(sim, addr >= mem->addr && addr + len <= mem->addr + mem->len,
            "a transfer at %" PRIx64 " + %" PRIx64 " exceeds its registration", addr, len);
    REQUIRE(sim, use->mem_addr == mem->addr && use->mem_len == mem->len, "another registration");
    REQUIRE(sim, !far || memory_open_to_peers(sim, mem->addr, mem->len),
            "a key gives access to memory that peers must not access");
    if (!mem->live) {
        REQUIRE(sim, far && sim->plan->cut,
                "process %u: a transfer at %" PRIx64 " + %" PRIx64
                " through memory that is unpinned",
                owner->id, addr, len);
        return false; /* the network refuses it */
    }
    for (uint64_t at = addr / PAGE * PAGE; at < addr + len; at += PAGE)
        REQUIRE(sim, mem->frames[(at - mem->addr) / PAGE] == memory_page(owner, at)->frame,
                "process %u: a transfer at %" PRIx64 " to a page that is no longer mapped",
                owner->id, at);
    return true;
}
