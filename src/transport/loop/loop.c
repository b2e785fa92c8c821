/*
 * loop: the transport of a process to itself. Messages wait in two rings, one for requests and one
 * for replies, until progress delivers them; if a ring is full, sends return AQ_AGAIN. Memory needs
 * no transfer, so mem_map returns the address itself and everything else is left to fallback.c.
 * (Requests that a program sends to itself do not get here: the core runs their handlers.)
 *
 * This is the smallest complete transport. docs/adding-a-transport.md walks through it.
 */
#include "transport/loop/loop.h"

#include "base/fail.h"
#include "base/kick.h"
#include "base/shmem.h"
#include "base/spin.h"
#include "base/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LOOP_SLOTS = 32, LOOP_BATCH = 16 };

/* Separate rings, so that a reply never waits behind requests. */
enum { REQUESTS, REPLIES, QUEUES };

struct loop_queue {
    unsigned char *frames; /* LOOP_SLOTS of them, used in turn */
    /* The numbers of messages sent and delivered; both wrap. */
    alignas(AQI_CACHE_LINE) _Atomic uint32_t sent;
    alignas(AQI_CACHE_LINE) _Atomic uint32_t done;
    struct aqi_spin producer, consumer; /* only with params.threads */
};

struct loop_tp {
    struct aqi_tp tp;
    struct aqi_tp_params params;
    size_t frame_bytes;
    struct loop_queue queue[QUEUES];
    struct aqi_peer self;
    int wake;          /* eventfd */
    atomic_bool armed; /* a thread sleeps on it, or is about to, and has not been woken */
};

static bool loop_probe(unsigned device, struct aqi_tp_probe *probe)
{
    *probe = (struct aqi_tp_probe){.usable = true, .device = "this process"};
    return device == 0;
}

static void loop_close(struct aqi_tp *tp)
{
    struct loop_tp *loop = (struct loop_tp *)tp;
    for (unsigned i = 0; i < QUEUES; i++)
        free(loop->queue[i].frames);
    if (loop->wake >= 0) close(loop->wake);
    free(loop);
}

static aq_status loop_open(const struct aqi_tp_params *params, struct aqi_tp **tp)
{
    struct loop_tp *loop =
        aligned_alloc(AQI_CACHE_LINE, aqi_round_up(sizeof(*loop), AQI_CACHE_LINE));
    if (loop == NULL) return aqi_fail(AQ_ENOMEM, "loop", "no memory to open the transport");
    memset(loop, 0, sizeof(*loop));
    size_t max_medium = aqi_round_up(params->max_medium, 64);
    loop->frame_bytes =
        aqi_round_up(aqi_am_payload_offset(AQI_AM_MAX_ARGS) + max_medium, AQI_CACHE_LINE);
    loop->wake = aqi_kick_new();
    aq_status st = AQ_OK;
    if (loop->wake < 0) st = aqi_fail_no_fd(errno, "loop", "cannot create the wake-up descriptor");
    for (unsigned i = 0; i < QUEUES && st == AQ_OK; i++) {
        loop->queue[i].frames = aligned_alloc(AQI_CACHE_LINE, LOOP_SLOTS * loop->frame_bytes);
        if (loop->queue[i].frames == NULL)
            st = aqi_fail(AQ_ENOMEM, "loop", "no memory for %d messages of %zu bytes", LOOP_SLOTS,
                          loop->frame_bytes);
    }
    if (st != AQ_OK) {
        loop_close(&loop->tp);
        return st;
    }
    loop->params = *params;
    loop->tp.hooks = params->hooks;
    loop->tp.limits = (struct aqi_tp_limits){.max_medium = max_medium, .max_long = UINT32_MAX};
    loop->tp.watched = true; /* only aqi_tp_pending announces work */
    *tp = &loop->tp;
    return AQ_OK;
}

static aq_status loop_address(struct aqi_tp *tp, void *addr, size_t *len)
{
    (void)tp, (void)addr;
    *len = 0; /* no other process needs an address */
    return AQ_OK;
}

static aq_status loop_connect(struct aqi_tp *tp, uint32_t id, uint32_t host, struct aqi_peer **peer)
{
    struct loop_tp *loop = (struct loop_tp *)tp;
    if (id != loop->params.self || host != loop->params.host) return AQ_ENOTSUP;
    loop->self.id = id;
    *peer = &loop->self;
    return AQ_OK;
}

/* Either we see that a thread sleeps, or one about to sleep sees our message (loop_arm). */
static inline void loop_wake(struct loop_tp *loop)
{
    if (loop->params.threads) atomic_thread_fence(memory_order_seq_cst);
    if (AQI_LIKELY(!atomic_load_explicit(&loop->armed, memory_order_relaxed))) return;
    if (atomic_exchange(&loop->armed, false)) aqi_kick(loop->wake);
}

static unsigned char *loop_frame(const struct loop_tp *loop, const struct loop_queue *queue,
                                 uint32_t number)
{
    return queue->frames + number % LOOP_SLOTS * loop->frame_bytes;
}

/* The oldest undelivered message, or NULL. */
static unsigned char *loop_oldest(const struct loop_tp *loop, const struct loop_queue *queue)
{
    uint32_t done = atomic_load_explicit(&queue->done, memory_order_relaxed);
    /* Reads the store in loop_am_send: the message is there. */
    if (atomic_load_explicit(&queue->sent, memory_order_acquire) == done) return NULL;
    return loop_frame(loop, queue, done);
}

static aq_status loop_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                              struct aqi_comp *comp)
{
    struct loop_tp *loop = (struct loop_tp *)tp;
    struct loop_queue *queue = &loop->queue[am->flags & AQI_AM_IS_REPLY ? REPLIES : REQUESTS];
    (void)peer;
    aqi_spin_lock_if(loop->params.threads, &queue->producer);
    uint32_t sent = atomic_load_explicit(&queue->sent, memory_order_relaxed);
    /* Reads the store in loop_drain: the frame is free. */
    bool room = sent - atomic_load_explicit(&queue->done, memory_order_acquire) < LOOP_SLOTS;
    if (room) {
        unsigned char *frame = loop_frame(loop, queue, sent);
        aqi_am_encode(frame, am, loop->params.self);
        if (aqi_am_has_payload(am->kind) && am->nbytes != 0)
            memcpy(frame + aqi_am_payload_offset(am->nargs), am->payload, am->nbytes);
        /* Read by the load in loop_oldest. */
        atomic_store_explicit(&queue->sent, sent + 1, memory_order_release);
        aqi_count_on(&aqi_tp_pending, loop->params.threads, 1);
    }
    aqi_spin_unlock_if(loop->params.threads, &queue->producer);
    if (!room) return AQ_AGAIN;
    loop_wake(loop);
    aqi_comp_local(comp);
    return AQ_OK;
}

/* Deliver at most one batch. A slot is freed after its handler has run. */
static unsigned loop_drain(struct loop_tp *loop, struct loop_queue *queue)
{
    unsigned n = 0;
    if (loop->params.threads && !aqi_spin_try(&queue->consumer)) return 0;
    while (n < LOOP_BATCH) {
        unsigned char *frame = loop_oldest(loop, queue);
        if (frame == NULL) break;
        struct aqi_am am;
        uint32_t source;
        if (aqi_am_decode(frame, SIZE_MAX, loop->tp.limits.max_medium, &am, &source) == AQ_OK) {
            am.payload = frame + aqi_am_payload_offset(am.nargs);
            loop->tp.hooks.deliver(loop->tp.hooks.arg, source, &am);
        } else {
            aqi_count(AQI_CTR_AM_DROPPED, 1);
        }
        /* Only this thread stores here; read by the load in loop_am_send. */
        uint32_t done = atomic_load_explicit(&queue->done, memory_order_relaxed);
        atomic_store_explicit(&queue->done, done + 1, memory_order_release);
        aqi_count_on(&aqi_tp_pending, loop->params.threads, UINT32_MAX);
        n++;
    }
    aqi_spin_unlock_if(loop->params.threads, &queue->consumer);
    return n;
}

static unsigned loop_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct loop_tp *loop = (struct loop_tp *)tp;
    (void)now;
    unsigned n = loop_drain(loop, &loop->queue[REPLIES]);
    if (mode == AQI_PROGRESS_ALL) n += loop_drain(loop, &loop->queue[REQUESTS]);
    return n;
}

/* A message is in flight until it is delivered, and only progress does that. */
static aq_status loop_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    (void)tp;
    (void)peer;
    return AQ_OK;
}

static int loop_wait_fd(struct aqi_tp *tp)
{
    return ((struct loop_tp *)tp)->wake;
}

static bool loop_has_arrivals(struct loop_tp *loop)
{
    bool some = false;
    for (unsigned i = 0; i < QUEUES && !some; i++) {
        struct loop_queue *queue = &loop->queue[i];
        /* The thread that holds the lock is delivering. */
        if (loop->params.threads && !aqi_spin_try(&queue->consumer)) return true;
        some = loop_oldest(loop, queue) != NULL;
        aqi_spin_unlock_if(loop->params.threads, &queue->consumer);
    }
    return some;
}

static aq_status loop_arm(struct aqi_tp *tp, bool on)
{
    struct loop_tp *loop = (struct loop_tp *)tp;
    atomic_store(&loop->armed, on);
    atomic_thread_fence(memory_order_seq_cst);
    if (on) return loop_has_arrivals(loop) ? AQ_AGAIN : AQ_OK;
    (void)aqi_kick_take(loop->wake);
    return AQ_OK;
}

/* A key is one meaningless byte: without a key, the memory would count as not registered. */
static aq_status loop_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **out)
{
    struct aqi_mem *mem = malloc(sizeof(*mem));
    (void)tp;
    if (mem == NULL) return AQ_ENOMEM;
    *mem = (struct aqi_mem){.addr = addr, .len = len, .key = "", .key_len = 1};
    *out = mem;
    return AQ_OK;
}

static void loop_dereg(struct aqi_tp *tp, struct aqi_mem *mem)
{
    (void)tp;
    free(mem);
}

static aq_status loop_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                          uint64_t addr, size_t len, struct aqi_rmem **out)
{
    struct aqi_rmem *rmem = malloc(sizeof(*rmem));
    (void)tp, (void)peer, (void)key, (void)key_len;
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, "loop", "no memory to map memory");
    *rmem = (struct aqi_rmem){.local = (void *)(uintptr_t)addr, .addr = addr, .len = len};
    *out = rmem;
    return AQ_OK;
}

static void loop_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem)
{
    (void)tp;
    free(rmem);
}

const struct aqi_transport aqi_loop_transport = {
    .name = "loop",
    .doc = "messages of a process to itself",
    .caps = AQI_CAP_REG | AQI_CAP_MAP | AQI_CAP_WAIT_FD,
    .key_max = 1,
    .probe = loop_probe,
    .open = loop_open,
    .close = loop_close,
    .address = loop_address,
    .connect = loop_connect,
    .am_send = loop_am_send,
    .progress = loop_progress,
    .quiet = loop_quiet,
    .mem_reg = loop_reg,
    .mem_dereg = loop_dereg,
    .mem_map = loop_map,
    .mem_unmap = loop_unmap,
    .wait_fd = loop_wait_fd,
    .arm = loop_arm,
};
