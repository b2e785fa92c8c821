/*
 * The cost of many peers, in instructions: opening and connecting grow linearly with their number,
 * and a poll costs the same with a thousand peers as with ten while few are active, whether credits
 * or operations wait for room. Each peer is the process itself, behind one ring. There is no
 * network below it, so only the library's own instructions are counted.
 */
#include "../core/stepper.h"
#include "base/base.h"
#include "transport/layers/fault.h"
#include "transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { FEW = 10, MANY = 1000, BUSY = 3, ROUNDS = 4 };

/*
 * Takes messages while it has room, and delivers them as coming from the peers that they were sent
 * to.
 */
static struct many {
    struct aqi_tp tp;
    struct aqi_tp_hooks hooks;
    struct aqi_peer *peers;
    unsigned room; /* number of messages that it still takes */
    uint32_t to[64];
    struct aqi_am message[64];
    int32_t args[64][AQI_AM_WIRE_ARGS];
    unsigned count, sent;
    bool backwards; /* the last one arrives first */
} many;

static bool many_probe(unsigned device, struct aqi_tp_probe *probe)
{
    *probe = (struct aqi_tp_probe){.usable = true};
    return device == 0;
}

static aq_status many_open(const struct aqi_tp_params *params, struct aqi_tp **tp)
{
    memset(&many, 0, sizeof(many));
    many.room = UINT32_MAX;
    many.hooks = params->hooks;
    many.tp.limits = (struct aqi_tp_limits){.max_medium = 4096, .max_long = UINT32_MAX};
    many.peers = calloc(params->size, sizeof(*many.peers));
    MUST(many.peers != NULL);
    *tp = &many.tp;
    return AQ_OK;
}

static void many_close(struct aqi_tp *tp)
{
    (void)tp;
    free(many.peers);
}

static aq_status many_address(struct aqi_tp *tp, void *addr, size_t *len)
{
    (void)tp, (void)addr;
    *len = 0;
    return AQ_OK;
}

static aq_status many_connect(struct aqi_tp *tp, uint32_t id, uint32_t host, struct aqi_peer **peer)
{
    (void)tp, (void)host;
    many.peers[id].id = id;
    *peer = &many.peers[id];
    return AQ_OK;
}

static aq_status many_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                              struct aqi_comp *comp)
{
    (void)tp;
    if (many.room == 0 || many.count == AQI_COUNT_OF(many.to)) return AQ_AGAIN;
    many.room--;
    MUST(am->kind != AQI_AM_LONG);
    many.to[many.count] = peer->id;
    many.message[many.count] = *am; /* its payload stays where it is */
    if (am->nargs != 0) memcpy(many.args[many.count], am->args, am->nargs * sizeof(am->args[0]));
    many.message[many.count].args = many.args[many.count];
    many.count++;
    many.sent++;
    aqi_comp_local(comp);
    return AQ_OK;
}

static unsigned many_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    static struct many now_here; /* messages sent by handlers arrive later */
    (void)tp, (void)mode, (void)now;
    now_here = many;
    many.count = 0;
    for (unsigned i = 0; i < now_here.count; i++) {
        unsigned at = many.backwards ? now_here.count - 1 - i : i;
        now_here.message[at].args = now_here.args[at];
        many.hooks.deliver(many.hooks.arg, now_here.to[at], &now_here.message[at]);
    }
    return now_here.count;
}

static aq_status many_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    (void)tp, (void)peer;
    return AQ_OK;
}

static struct aqi_transport transport = {
    .name = "many",
    .doc = "many peers without a network",
    .probe = many_probe,
    .open = many_open,
    .close = many_close,
    .address = many_address,
    .connect = many_connect,
    .am_send = many_am_send,
    .progress = many_progress,
    .quiet = many_quiet,
};

/* --- the user of the transport --------------------------------------------------------------- */

static struct user {
    struct aqi_tp *tp;
    struct aqi_peer *peers[MANY];
    uint32_t size;
    unsigned delivered;
} user;

static void on_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    (void)arg, (void)am;
    MUST(source < user.size);
    user.delivered++;
}

static void on_lost(void *arg, uint32_t id, const char *why)
{
    (void)arg, (void)id, (void)why;
    MUST(0);
}

static bool range_ok(void *host, uint64_t addr, size_t len)
{
    (void)host, (void)addr, (void)len;
    return true;
}

static uint64_t now(void *host)
{
    (void)host;
    return 0;
}

static void open_all(void *arg)
{
    struct aqi_tp_params params = {
        .hooks = {.deliver = on_deliver, .peer_lost = on_lost, .range_ok = range_ok, .now = now},
        .size = user.size,
        .local_size = user.size,
        .max_medium = 4096,
        .credits = {.depth = 4, .slack = 1}};
    (void)arg;
    MUST(aqi_tp_open(&transport, &params, &user.tp) == AQ_OK);
    for (uint32_t id = 0; id < user.size; id++)
        MUST(user.tp->ops.connect(user.tp, id, 0, &user.peers[id]) == AQ_OK);
}

static void poll_once(void *arg)
{
    *(unsigned *)arg = user.tp->ops.progress(user.tp, AQI_PROGRESS_ALL, 0);
}

static uint32_t instructions_of_poll(void)
{
    unsigned n;
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t count = stepper_run(poll_once, &n).instructions;
        MUST(n == 0);
        if (count < least) least = count;
    }
    return least;
}

static void poll_until_idle(void)
{
    unsigned n = 1;
    while (n != 0)
        poll_once(&n);
}

struct cost {
    uint32_t open, idle, credits, pending;
};

static struct cost measure(uint32_t size)
{
    static unsigned char bytes[3 * 4096];
    struct cost cost;
    user.size = size;
    user.delivered = 0;
    transport.caps = AQI_CAP_CREDITS;
    cost.open = stepper_run(open_all, NULL).instructions;
    for (uint32_t id = 0; id < size; id++) { /* communicate with each peer once */
        struct aqi_am am = {.kind = AQI_AM_SHORT, .handler = 200};
        MUST(user.tp->ops.am_send(user.tp, user.peers[id], &am, NULL) == AQ_OK);
        if (id % 32 == 31) poll_until_idle();
    }
    poll_until_idle();
    MUST(user.delivered == size);
    cost.idle = instructions_of_poll();

    /*
     * Some peers have more banked credits than the slack allows, and there is no room to return
     * them.
     */
    for (int i = 0; i < 2; i++)
        for (uint32_t id = 0; id < BUSY; id++) {
            struct aqi_am am = {.kind = AQI_AM_SHORT, .handler = 200};
            many.to[many.count] = size - 1 - id;
            many.message[many.count++] = am;
        }
    many.room = 0;
    poll_until_idle();
    cost.credits = instructions_of_poll();
    many.room = UINT32_MAX;
    poll_until_idle();
    MUST(user.tp->ops.quiet(user.tp, NULL) == AQ_OK);
    aqi_tp_close(user.tp);

    /* Puts wait for room. */
    transport.caps = 0;
    open_all(NULL);
    struct aqi_comp comp = {.local = BUSY, .remote = BUSY};
    for (uint32_t id = 0; id < BUSY; id++) {
        many.room = 1; /* for the first piece */
        struct aqi_tp *tp = user.tp;
        uint64_t addr = (uint64_t)(uintptr_t)bytes;
        struct aqi_peer *peer = user.peers[size - 1 - id];
        MUST(tp->ops.put(tp, peer, NULL, addr, bytes, sizeof(bytes), NULL, &comp) == AQ_OK);
    }
    many.count = 0; /* the pieces are lost, so the puts stay under way */
    cost.pending = instructions_of_poll();
    aqi_tp_close(user.tp);
    return cost;
}

/* The pieces of a put are acknowledged together, in whatever order they arrive. */
static void acknowledge(bool backwards, unsigned messages)
{
    static unsigned char from[3 * 4096], to[3 * 4096];
    struct aqi_comp comp = {.local = 1, .remote = 1};
    user.size = FEW;
    transport.caps = 0;
    open_all(NULL);
    many.backwards = backwards;
    memset(to, 0, sizeof(to));
    memset(from, backwards + 1, sizeof(from));
    MUST(user.tp->ops.put(user.tp, user.peers[3], NULL, (uint64_t)(uintptr_t)to, from, sizeof(from),
                          NULL, &comp) == AQ_OK);
    poll_until_idle();
    MUST(comp.remote == 0 && comp.local == 0 && comp.status == AQ_OK);
    MUST(memcmp(from, to, sizeof(to)) == 0);
    MUST(user.tp->ops.quiet(user.tp, NULL) == AQ_OK);
    MUST(many.sent == messages);
    aqi_tp_close(user.tp);
}

int main(void)
{
    MUST(aqi_fault_configure("") == AQ_OK);
    acknowledge(false, 3 + 1);
    acknowledge(true,
                3 + 1 + 2); /* the last piece's acknowledgement lacks the others: asked again */
    const char *why = stepper_open();
    if (why != NULL) {
        printf("skipped: %s\n", why);
        return 77;
    }
    (void)measure(FEW); /* warm up: map and resolve everything */
    struct cost few = measure(FEW), lots = measure(MANY);
    printf("%8s %10s %8s %16s %14s\n", "peers", "open", "idle", "credits waiting", "puts waiting");
    printf("%8d %10u %8u %16u %14u\n", FEW, few.open, few.idle, few.credits, few.pending);
    printf("%8d %10u %8u %16u %14u\n", MANY, lots.open, lots.idle, lots.credits, lots.pending);
    MUST(lots.open < few.open + (MANY - FEW) * 500u);
    MUST(lots.idle == few.idle);
    MUST(lots.credits <= few.credits + 50);
    MUST(lots.pending <= few.pending + 50);
    return 0;
}
