/* Counters: a block per thread, summed by readers. */
#include "base/stats.h"

#include "base/fail.h"
#include "base/shmem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct aqi_counter_row aqi_counter_rows[AQI_CTR_COUNT] = {
    [AQI_CTR_AM_SENT] = {"am_sent", "messages", "active messages sent"},
    [AQI_CTR_AM_RECEIVED] = {"am_received", "messages", "active messages handled"},
    [AQI_CTR_AM_BYTES] = {"am_bytes", "bytes", "payload of active messages sent"},
    [AQI_CTR_AM_BYTES_IN] = {"am_bytes_received", "bytes", "payload of active messages handled"},
    [AQI_CTR_AM_AGAIN] = {"am_again", "times",
                          "sends that found no room and had to poll or were rejected"},
    [AQI_CTR_AM_DROPPED] = {"am_dropped", "messages", "malformed messages dropped"},
    [AQI_CTR_CREDIT_NONE] = {"credit_none", "times", "requests that had to wait for a credit"},
    [AQI_CTR_CREDIT_HIDDEN] = {"credit_hidden", "messages", "hidden replies that return credits"},
    [AQI_CTR_PUT] = {"put", "operations", "puts"},
    [AQI_CTR_PUT_BYTES] = {"put_bytes", "bytes", "data written by puts"},
    [AQI_CTR_GET] = {"get", "operations", "gets"},
    [AQI_CTR_GET_BYTES] = {"get_bytes", "bytes", "data read by gets"},
    [AQI_CTR_ATOMIC] = {"atomic", "operations", "atomic operations"},
    [AQI_CTR_BARRIER] = {"barrier", "barriers", "barriers completed"},
    [AQI_CTR_POLL] = {"poll", "polls", "polls"},
    [AQI_CTR_POLL_EMPTY] = {"poll_empty", "polls", "polls that found nothing"},
    [AQI_CTR_YIELD] = {"yield", "times", "times the processor was yielded while waiting"},
    [AQI_CTR_SLEEP] = {"sleep", "times", "times a wait slept"},
    [AQI_CTR_OVERSLEPT] = {"overslept", "times", "sleeps ended only by their timeout"},
    [AQI_CTR_WAKE_SENT] = {"wake_sent", "times", "sleeping peers woken up"},
    [AQI_CTR_HELLO_DROPPED] = {"hello_dropped", "messages", "malformed connection requests"},
    [AQI_CTR_REG_HIT] = {"reg_hit", "pieces",
                         "parts of transfers whose memory was already registered"},
    [AQI_CTR_REG_MISS] = {"reg_miss", "pieces",
                          "parts of transfers whose memory was not registered yet"},
    [AQI_CTR_REG_PINNED] = {"reg_pinned", "bytes", "memory registered on demand"},
    [AQI_CTR_REG_UNPINNED] = {"reg_unpinned", "bytes", "memory registered on demand and released"},
    [AQI_CTR_REG_FAR_HIT] = {"reg_far_hit", "parts",
                             "parts of transfers whose memory the peer had already lent"},
    [AQI_CTR_REG_FAR_MISS] =
        {"reg_far_miss", "parts",
         "parts of transfers for which memory of the peer had to be requested"},
    [AQI_CTR_REG_FAR_REFUSED] = {"reg_far_refused", "parts",
                                 "parts of transfers that were sent as messages instead"},
    [AQI_CTR_REG_RIDES] = {"reg_rides", "puts",
                           "puts sent along with the request for the peer's memory"},
    [AQI_CTR_POSTS] = {"posts", "calls", "sends, writes and reads posted to an adapter"},
    [AQI_CTR_POSTS_SIGNALED] = {"posts_signaled", "calls",
                                "posts whose completion the adapter reports"},
    [AQI_CTR_POSTS_RECEIVE] = {"posts_receive", "calls", "receive buffers posted to an adapter"},
    [AQI_CTR_POSTS_INJECTED] = {"posts_injected", "calls",
                                "posts over ofi whose data the provider copied at once"},
    [AQI_CTR_POSTS_BOUNCED] = {"posts_bounced", "calls",
                               "puts and gets over ofi by way of a buffer"},
    [AQI_CTR_LINKED] = {"linked", "peers", "peers with queue pairs"},
    [AQI_CTR_LINKED_BYTES] = {"linked_bytes", "bytes",
                              "memory of queue pairs, including receive buffers"},
    [AQI_CTR_RAILS_FAILED] = {"rails_failed", "times", "failed connections replaced by others"},
    [AQI_CTR_RAILS_BACK] = {"rails_back", "times",
                            "connections used again after their port recovered"},
    [AQI_CTR_RINGS_LENT] = {"rings_lent", "times", "rings lent to peers for messages"},
    [AQI_CTR_RINGS_BACK] = {"rings_back", "times", "rings taken back from peers"},
    [AQI_CTR_AM_RING] = {"am_ring", "messages", "messages written into the memory of a peer"},
    [AQI_CTR_PACKETS] = {"packets", "packets", "packets sent, by transports that use packets"},
    [AQI_CTR_PACKETS_AGAIN] = {"packets_again", "packets", "packets sent again"},
    [AQI_CTR_PACKETS_TIMEOUT] = {"packets_timeout", "times", "losses detected only by a timeout"},
    [AQI_CTR_PACKETS_ACK] = {"packets_ack", "packets", "packets sent only to acknowledge"},
    [AQI_CTR_PACKETS_RECEIVED] = {"packets_received", "packets", "packets received"},
    [AQI_CTR_PACKETS_REPEATED] = {"packets_repeated", "packets", "packets received twice"},
    [AQI_CTR_PACKETS_DROPPED] = {"packets_dropped", "packets",
                                 "packets that were malformed or of unknown origin"},
    [AQI_CTR_PACKETS_NO_ROOM] = {"packets_no_room", "packets", "packets dropped for lack of room"},
};

const char *const aqi_doing_names[AQI_DOINGS] = {
    [AQI_DOING_WORK] = "-",
    [AQI_DOING_ROOM] = "room",
    [AQI_DOING_OPERATION] = "operation",
    [AQI_DOING_EVENT] = "event",
    [AQI_DOING_CONDITION] = "condition",
    [AQI_DOING_COLLECTIVE] = "collective",
    [AQI_DOING_BARRIER] = "barrier",
};

AQI_FAST_THREAD_LOCAL struct aqi_counters *aqi_counters_mine;

/* All blocks, the newest first. They are never freed, so no count is lost. */
static struct aqi_counters *_Atomic stats_blocks;
/* Used by threads that got no memory for a block; they may overwrite each other's counts. */
static struct aqi_counters stats_spare;
/* Blocks that other processes can read, or NULL. */
static unsigned char *_Atomic stats_shared;
static _Atomic uint32_t stats_shared_used;
/* Blocks made before the shared ones: leak detectors do not follow pointers in shared memory. */
static struct aqi_counters *volatile stats_unshared;
static pthread_once_t stats_once = PTHREAD_ONCE_INIT;
static pthread_key_t stats_key;
static bool stats_key_valid;

/* At the end of a thread, its block keeps the counts, and is free for the next new thread. */
static void stats_thread_end(void *block)
{
    struct aqi_counters *mine = block;
    aqi_counters_mine = NULL;
    /* Read by the exchange in stats_adopt. */
    atomic_store_explicit(&mine->taken, false, memory_order_release);
}

static void stats_setup(void)
{
    stats_key_valid = pthread_key_create(&stats_key, stats_thread_end) == 0;
}

/* The library may be unloaded before its threads end; they must not call into it then. */
__attribute__((destructor)) static void stats_unload(void)
{
    if (stats_key_valid) pthread_key_delete(stats_key);
    stats_key_valid = false;
}

static struct aqi_counters *stats_all(void)
{
    /* Reads the store in stats_create. */
    return atomic_load_explicit(&stats_blocks, memory_order_acquire);
}

static struct aqi_counters *stats_adopt(void)
{
    for (struct aqi_counters *block = stats_all(); block != NULL; block = block->next)
        if (!atomic_load_explicit(&block->taken, memory_order_relaxed) &&
            !atomic_exchange_explicit(&block->taken, true, memory_order_acquire))
            return block;
    return NULL;
}

static struct aqi_counters *stats_create(void)
{
    uint32_t shared = stats_shared != NULL ? atomic_fetch_add(&stats_shared_used, 1) : 0;
    struct aqi_counters *block;
    if (stats_shared != NULL && shared < AQI_COUNTERS_SHARED) {
        block = (void *)(stats_shared + shared * AQI_COUNTERS_BYTES); /* zero */
    } else {
        block = aligned_alloc(AQI_CACHE_LINE, AQI_COUNTERS_BYTES);
        if (block == NULL) return NULL;
        memset(block, 0, AQI_COUNTERS_BYTES);
    }
    atomic_init(&block->taken, true);
    block->next = atomic_load_explicit(&stats_blocks, memory_order_relaxed);
    /* Read by the load in stats_all. */
    while (!atomic_compare_exchange_weak_explicit(&stats_blocks, &block->next, block,
                                                  memory_order_release, memory_order_relaxed))
        ;
    return block;
}

static void stats_use(struct aqi_counters *block)
{
    if (stats_key_valid) pthread_setspecific(stats_key, block);
    aqi_counters_mine = block;
}

struct aqi_counters *aqi_counters_attach(void)
{
    pthread_once(&stats_once, stats_setup);
    struct aqi_counters *block = stats_adopt();
    if (block == NULL) block = stats_create();
    if (block == NULL) return &stats_spare;
    stats_use(block);
    return block;
}

/* The counts of the calling thread move to the new block; the old one stays unused. */
static void stats_move(struct aqi_counters *old)
{
    struct aqi_counters *block = stats_create();
    if (block == NULL) return;
    for (unsigned i = 0; old != NULL && i < AQI_CTR_COUNT; i++) {
        uint64_t so_far = atomic_load_explicit(&old->value[i], memory_order_relaxed);
        atomic_store_explicit(&block->value[i], so_far, memory_order_relaxed);
        atomic_store_explicit(&old->value[i], 0, memory_order_relaxed);
    }
    stats_use(block);
}

aq_status aqi_counters_share(int *fd)
{
    void *at;
    if (stats_shared != NULL) return aqi_fail(AQ_ESTATE, "base", "the counters are already shared");
    aq_status st =
        aqi_shmem_new("aqueduct-counters", AQI_COUNTERS_SHARED * AQI_COUNTERS_BYTES, fd, &at);
    if (st != AQ_OK) return st;
    pthread_once(&stats_once, stats_setup);
    stats_unshared = stats_all();
    stats_shared = at;
    stats_move(aqi_counters_mine);
    return AQ_OK;
}

uint64_t aqi_counters_form(void)
{
    uint64_t form = aqi_hash(AQI_HASH_SEED, AQI_COUNTERS_BYTES);
    form = aqi_hash(form, offsetof(struct aqi_counters, doing));
    for (unsigned i = 0; i < AQI_CTR_COUNT; i++)
        form = aqi_hash_text(form, aqi_counter_rows[i].name);
    return form;
}

bool aqi_counters_read(int fd, uint64_t value[AQI_CTR_COUNT], uint32_t *doing)
{
    unsigned char bytes[AQI_COUNTERS_SHARED * AQI_COUNTERS_BYTES]
        __attribute__((aligned(AQI_CACHE_LINE)));
    if (pread(fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) return false;
    memset(value, 0, AQI_CTR_COUNT * sizeof(*value));
    for (size_t b = 0; b < AQI_COUNTERS_SHARED; b++) {
        const struct aqi_counters *block = (const void *)(bytes + b * AQI_COUNTERS_BYTES);
        for (unsigned i = 0; i < AQI_CTR_COUNT; i++)
            value[i] += atomic_load_explicit(&block->value[i], memory_order_relaxed);
    }
    return aqi_counters_doing(fd, doing);
}

bool aqi_counters_doing(int fd, uint32_t *doing)
{
    return pread(fd, doing, sizeof(*doing), offsetof(struct aqi_counters, doing)) ==
           (ssize_t)sizeof(*doing);
}

uint64_t aqi_counter_sum(enum aqi_counter counter)
{
    uint64_t sum = atomic_load_explicit(&stats_spare.value[counter], memory_order_relaxed);
    for (struct aqi_counters *block = stats_all(); block != NULL; block = block->next)
        sum += atomic_load_explicit(&block->value[counter], memory_order_relaxed);
    return sum;
}

bool aqi_counter_line(struct aqi_safe_text *line, const char *title, enum aqi_counter counter,
                      uint64_t value)
{
    if (value == 0) return false;
    aqi_safe_add(line, title);
    aqi_safe_add(line, ": ");
    aqi_safe_add(line, aqi_counter_rows[counter].name);
    aqi_safe_number(line, " ", value);
    aqi_safe_add(line, " ");
    aqi_safe_add(line, aqi_counter_rows[counter].unit);
    aqi_safe_add(line, "\n");
    return true;
}

bool aqi_counters_print(int fd, const char *title)
{
    char bytes[256];
    bool all = true;
    struct aqi_safe_text line = {.text = bytes, .room = sizeof(bytes)};
    for (unsigned i = 0; i < AQI_CTR_COUNT; i++) {
        enum aqi_counter counter = (enum aqi_counter)i;
        if (all && aqi_counter_line(&line, title, counter, aqi_counter_sum(counter)))
            all = aqi_safe_write(&line, fd);
    }
    return all;
}
