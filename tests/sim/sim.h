/*
 * A network of datagram engines in one process and in virtual time. Everything that happens is
 * determined by a seed, so that each run is repeatable.
 *
 *   plan.c     choices of a seed: sizes, links, faults, work
 *   queue.c    the events, ordered by time
 *   net.c      links: bandwidth, delay, queues, and their faults
 *   hostile.c  an attacker
 *   proc.c     processes: they poll, pause, sleep, die and restart
 *   work.c     operations and their expected results
 *   memory.c   memory of processes that peers read and write, and its expected contents
 *   measure.c  figures instead of faults, and goals for them
 *   figures.c  more figures, for a picture
 *   run.c      one run from start to end
 *   allocations.c  memory leaks
 */
#ifndef AQT_SIM_H
#define AQT_SIM_H

#include "../common/data.h"
#include "dgram/dgram.h"

#include <inttypes.h>
#include <stdio.h>

#define SIM_US     UINT64_C(1000)
#define SIM_MS     UINT64_C(1000000)
#define SIM_SECOND UINT64_C(1000000000)
#define SIM_NEVER  AQI_DGRAM_NEVER
#define SIM_BEGIN  SIM_SECOND /* the time at the start */

/* Possible faults, by their name for --faults. */
#define SIM_FAULTS(X)                                                                              \
    X(LOSS, "loss")           /* single packets are lost */                                        \
    X(BURST, "burst")         /* many in a row are lost */                                         \
    X(REPEAT, "repeat")       /* packets are duplicated, the second time possibly much later */    \
    X(REORDER, "reorder")     /* packets overtake others */                                        \
    X(ALTER, "alter")         /* bytes change; packets are truncated */                            \
    X(QUEUE, "queue")         /* queues of links are short */                                      \
    X(REFUSE, "refuse")       /* transmit returns that there is no room */                         \
    X(PARTITION, "partition") /* for a while some processes reach only each other */               \
    X(ONE_WAY, "oneway")      /* for a while a link carries packets in one direction only */       \
    X(PAUSE, "pause") /* processes do not poll for a while; in half of them a thread answers */    \
    X(ROOM, "room")   /* processes have little room for arriving packets */                        \
    X(MTU, "mtu")     /* a path carries only smaller packets than the processes assume */          \
    X(DEATH, "death") /* processes die; the job announces it, or not */                            \
    X(RESTART, "restart") /* processes restart at the same address */                              \
    X(FORGET, "forget")   /* memory disappears while peers read and write it */                    \
    X(HOSTILE, "hostile") /* an attacker on the wire */                                            \
    X(SIZE, "size")       /* ports never have room for large packets */                            \
    X(SHRINK, "shrink")   /* at some point, a path begins to carry only smaller packets */
enum sim_fault {
#define X(name, text) SIM_##name,
    SIM_FAULTS(X)
#undef X
        SIM_FAULT_COUNT
};
extern const char *const sim_fault_names[SIM_FAULT_COUNT];

struct sim_options {
    uint64_t seed;
    uint32_t peers;  /* processes; 0: drawn */
    uint32_t faults; /* bits; only those selected by the seed if `drawn` */
    bool drawn, trace, quiet;
    unsigned quota; /* operations of a process; 0: drawn */
};

/* Which processes communicate. */
enum sim_shape { SIM_ALL, SIM_RING, SIM_PAIRS, SIM_TO_ONE, SIM_SHAPES };

struct sim_link {
    uint64_t ns_per_kb; /* of 1024 bytes */
    uint64_t limit;     /* ns of queue; further packets are dropped */
    uint64_t busy;      /* until this time */
};

/* The plan of a seed. */
struct sim_plan {
    uint32_t peers, faults;
    enum sim_shape shape;
    struct aqi_dgram_config config; /* of every process, except for its identity */
    uint64_t horizon;               /* work and faults start before */
    unsigned quota, burst;          /* operations of a process, in all and at once */
    size_t put_max;
    uint64_t rest;                                   /* between bursts of work */
    unsigned small, replies, gets, puts, longs, bad; /* shares of operations, in percent */
    bool late_lookup;

    uint64_t delay, jitter, poll_max;
    uint64_t ns_per_kb, limit;      /* of uplinks and downlinks */
    uint64_t core_ns_per_kb;        /* of a link that all share; 0: none */
    uint32_t loss, repeat, reorder; /* in 1/1,000,000 of packets */
    uint32_t alter, refuse;
    uint32_t burst_loss;              /* while a burst lasts */
    uint64_t burst_every, burst_last; /* ns, mean */
    size_t room;                      /* bytes, per channel */
    size_t mtu;                       /* of paths to odd processes */
    size_t shrunk;                    /* likewise, from this time on: */
    uint64_t shrunk_at;
    size_t size; /* largest packet for which ports of odd processes have room */
    bool spin;   /* processes poll as soon as something arrives */
    bool plain;  /* heads and replies are all alike */
};

enum sim_stream { SIM_OF_PLAN, SIM_OF_NET, SIM_OF_WORK, SIM_OF_PROC, SIM_OF_HOSTILE, SIM_STREAMS };

struct sim;
struct sim_proc;
struct sim_op;

struct sim_packet {
    struct sim_packet *next;
    uint32_t from, to;
    uint8_t channel, hop;
    bool forged;
    size_t len;
    uint64_t arrived;
    unsigned char *bytes; /* 16-byte aligned, an allocation of exactly `len` */
};

struct sim_event {
    uint64_t time, serial;
    void (*run)(struct sim *sim, uint64_t a, void *arg);
    uint64_t a;
    void *arg;
};

struct sim_fifo {
    struct sim_packet *head, **tail;
    size_t bytes;
};

/* Memory that a peer reads or writes, with a guard on each side. */
struct sim_block {
    struct sim_block *next;
    unsigned char *base, *at; /* of the allocation; of the usable part */
    size_t len;
    uint64_t pattern; /* of its current contents */
    bool registered;  /* range_ok */
    bool gone;        /* was registered, and is forgotten */
    bool open;        /* an operation may be writing to it: not checked */
};

struct sim_proc {
    struct sim *sim;
    uint32_t id, life; /* life: counts its engines */
    struct aqi_dgram *dgram;
    bool alive, ending; /* has an engine; the engine is being destroyed */
    bool announced;     /* its death was announced to all */
    bool computes;      /* while it pauses, a thread answers */
    unsigned nested;    /* handlers that wait */
    bool calling;       /* inside a call that must not deliver messages or report losses */
    struct sim_fifo queue[AQI_DGRAM_CHANNELS];
    uint64_t poll_at, poll_serial, pause_until;
    uint64_t every;     /* it computes, and polls about this often; 0: whenever packets arrive */
    unsigned fruitless; /* polls in a row */
    bool asleep;

    unsigned begun; /* operations, of the plan's quota */
    uint64_t work_at;
    struct sim_block *blocks;
    struct sim_loss {
        uint32_t id;
        unsigned sent; /* packets, since */
    } * losses;
    unsigned loss_count;
    struct sim_link up, down;
    bool burst; /* of loss, until burst_at */
    uint64_t burst_at;
    unsigned stuck, small_paths;
    uint64_t polls, delivered, sent_packets, spurious, timers;
};

enum sim_kind { SIM_SEND, SIM_PUT, SIM_LONG, SIM_GET };

struct sim_op {
    enum sim_kind kind;
    uint32_t index, from, to, from_life, to_life;
    bool reply, silent; /* silent: user is NULL */
    bool began, bad;    /* bad: the range is not the peer's */
    bool gone, orphan;  /* gone: its memory is forgotten; orphan: its process has gone */
    bool local_done, remote_done;
    uint32_t wants; /* the length of a reply, plus 1 */
    aq_status local_status, remote_status;
    unsigned delivered;
    size_t head_len, len;
    uint64_t pattern, addr;
    unsigned char *source;    /* of a put, until local */
    struct sim_block *remote; /* in the peer */
    struct sim_block *dst;    /* of a get */
    uint64_t began_at, done_at;
};

struct sim {
    struct sim_options options;
    struct sim_plan plan;
    uint64_t now, serial, random[SIM_STREAMS];
    struct sim_event *heap;
    size_t heap_count, heap_room;
    uint64_t events, give_up; /* virtual time */
    unsigned depth;           /* of handlers that wait */
    struct sim_proc *procs;
    struct sim_op **ops;
    uint32_t op_count, op_room;
    struct sim_link core;
    bool clear;      /* nothing goes wrong from now on */
    uint64_t waits;  /* of handlers */
    uint64_t *sides; /* the sides of a partition, one bit for each process; NULL: none */
    uint32_t one_way_from, one_way_to;
    size_t in_net; /* packets */
    struct sim_packet *captured[64];
    unsigned capture_count;
    uint64_t packets, dropped;
};

/* --- common ----------------------------------------------------------------------------------- */

/* End the run with a message, and the command that repeats it. */
_Noreturn void sim_fail(const struct sim *sim, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
#define SIM_REQUIRE(sim, condition, ...)                                                           \
    do {                                                                                           \
        if (!(condition)) sim_fail(sim, __VA_ARGS__);                                              \
    } while (0)
#define SIM_TRACE(sim, ...)                                                                        \
    do {                                                                                           \
        if (AQI_UNLIKELY((sim)->options.trace)) sim_trace(sim, __VA_ARGS__);                       \
    } while (0)
void sim_trace(const struct sim *sim, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void *sim_alloc(size_t size); /* zeroed; never NULL */

static inline uint64_t sim_random(struct sim *sim, enum sim_stream stream)
{
    return mix(sim->random[stream] += 0x9e3779b97f4a7c15u);
}

static inline uint64_t sim_below(struct sim *sim, enum sim_stream stream, uint64_t limit)
{
    return limit == 0 ? 0 : sim_random(sim, stream) % limit;
}

/* True in `share` of `of` cases. */
static inline bool sim_chance(struct sim *sim, enum sim_stream stream, uint64_t share, uint64_t of)
{
    return share != 0 && sim_below(sim, stream, of) < share;
}

/* Uniform in the logarithm between low and high. */
uint64_t sim_spread(struct sim *sim, enum sim_stream stream, uint64_t low, uint64_t high);

static inline bool sim_has(const struct sim *sim, enum sim_fault fault)
{
    return sim->plan.faults >> fault & 1;
}

static inline bool sim_has_shrunk(const struct sim *sim)
{
    return sim_has(sim, SIM_SHRINK) && sim->now >= sim->plan.shrunk_at;
}

/* --- plan.c, queue.c, run.c ----------------------------------------------------------------------
 */

void sim_plan(struct sim *sim);
void sim_print_plan(const struct sim *sim);

void sim_at(struct sim *sim, uint64_t time, void (*run)(struct sim *, uint64_t, void *), uint64_t a,
            void *arg);
/* Run the next event. Returns false if there are none. */
bool sim_step(struct sim *sim);

/* Run one seed. Ends the program on a failure. */
void sim_run(const struct sim_options *options);
void sim_open(struct sim *sim, const struct sim_options *options);
void sim_start(struct sim *sim);                /* with the current plan */
void sim_until(struct sim *sim, uint64_t time); /* run until this time */
void sim_close(struct sim *sim);
int sim_measure(void);
int sim_figures(void);
/*
 * A network of 10 Gbit/s in which all processes communicate with process 0, without faults other
 * than `loss`, in 1/1,000,000 of packets.
 */
void measure_open(struct sim *sim, uint32_t peers, uint32_t loss);
/* Run until `end`. Each of the processes 1 to `flows` always has `depth` operations of `len` bytes
 * with process 0 under way; measure_flows_of: puts. */
struct sim_load {
    aq_status (*begin)(struct sim_proc *proc, uint32_t to, size_t len);
    uint32_t flows;
    unsigned depth;
    size_t len;
};
void measure_load(struct sim *sim, const struct sim_load *load, uint64_t end);
void measure_flows_of(struct sim *sim, uint32_t flows, unsigned depth, size_t len, uint64_t end);
double measure_goodput(const struct sim *sim, uint32_t from, uint64_t since); /* GB/s */
long sim_allocations(void);

/* --- net.c, hostile.c ----------------------------------------------------------------------------
 */

void net_address(uint32_t id, struct aqi_dgram_addr *addr);
bool net_id(const struct sim *sim, const struct aqi_dgram_addr *addr, uint32_t *id);
/* Whether there is room on the uplink of `from`. */
bool net_room(struct sim *sim, const struct sim_proc *from);
void net_send(struct sim *sim, struct sim_packet *packet);
void net_free(struct sim *sim, struct sim_packet *packet);
struct sim_packet *net_packet(uint32_t from, uint32_t to, unsigned channel, size_t len);
void net_faults(struct sim *sim);
void hostile_capture(struct sim *sim, const struct sim_packet *packet);
void hostile_begin(struct sim *sim);
void hostile_end(struct sim *sim);

/* --- proc.c --------------------------------------------------------------------------------------
 */

void proc_open(struct sim *sim, struct sim_proc *proc);
void proc_close(struct sim_proc *proc);
void proc_poll_at(struct sim_proc *proc, uint64_t time);
void proc_arrived(struct sim_proc *proc, struct sim_packet *packet);
void proc_faults(struct sim *sim);
/* For a handler that waits: the other processes continue, and this one takes only replies. */
void proc_wait(struct sim_proc *proc);
bool proc_lost(const struct sim_proc *proc, uint32_t id);
uint32_t proc_partner(struct sim *sim, const struct sim_proc *proc);
/* Whether the operation that `proc` has begun with `to` can be expected to end. */
bool proc_will_know(const struct sim *sim, const struct sim_op *op);
void proc_mac(void *arg, const char *use, const uint8_t key[16], const struct iovec *iov,
              unsigned niov, uint8_t tag[16]);

/* --- work.c, memory.c ----------------------------------------------------------------------------
 */

void work_poll(struct sim_proc *proc);
bool work_done(const struct sim_proc *proc);
void work_deliver(struct sim_proc *proc, uint32_t source, bool request, unsigned char *message,
                  size_t len);
void work_local(struct sim_proc *proc, struct sim_op *op, aq_status status);
void work_remote(struct sim_proc *proc, struct sim_op *op, aq_status status);
/* One operation of one kind, for measurements. */
aq_status work_put(struct sim_proc *proc, uint32_t to, size_t len);
aq_status work_get(struct sim_proc *proc, uint32_t to, size_t len);
aq_status work_message(struct sim_proc *proc, uint32_t to, size_t len);
aq_status work_request(struct sim_proc *proc, uint32_t to, size_t len); /* with a reply */
void work_forget(struct sim *sim, struct sim_proc *proc);
void work_check_quiet(struct sim_proc *proc);
/* An operation that should have ended but has not, or NULL. */
const struct sim_op *work_pending(const struct sim *sim);
/* Whether operations from or to `proc` may still be under way. */
bool work_left(const struct sim *sim, const struct sim_proc *proc);
void work_check_end(struct sim *sim);
void work_free(struct sim *sim);
/* `proc` has gone: the operations that it began need no longer end. */
void work_orphan(struct sim *sim, struct sim_proc *proc);
const char *work_name(const struct sim_op *op, char *text, size_t size);

struct sim_block *memory_make(struct sim_proc *owner, size_t len, size_t align, uint64_t pattern);
void memory_drop(struct sim_proc *owner, struct sim_block *block);
void memory_set(struct sim_block *block, uint64_t pattern);
void memory_forget(struct sim_proc *owner, struct sim_block *block);
bool memory_range_ok(const struct sim_proc *owner, uint64_t addr, size_t len);
/* Returns NULL, or what is wrong with the block. */
const char *memory_wrong(const struct sim_block *block);
void memory_check(struct sim_proc *owner);
void memory_free(struct sim_proc *owner);

#endif
