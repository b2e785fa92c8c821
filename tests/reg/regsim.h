/*
 * Processes with registration caches in virtual time: address spaces whose pages come and go,
 * messages that overtake each other, transfers, deaths, and an oracle that knows the page frames of
 * each key.
 */
#ifndef AQ_TESTS_REGSIM_H
#define AQ_TESTS_REGSIM_H

#include "reg/reg.h"

#include <inttypes.h>
#include <stdio.h>

enum { PAGE = 4096, PROCS_MOST = 16, RANGE_NEVER = 2 };
#define BASE UINT64_C(0x10000000) /* where each address space begins */

enum pattern {
    PATTERN_ANY,    /* any range of any peer */
    PATTERN_LOOP,   /* the same few regions over and over */
    PATTERN_STREAM, /* through memory, from its beginning to its end */
    PATTERN_HOT     /* nine of ten transfers to a tenth of the memory */
};

struct plan {
    uint32_t procs, pages, segment; /* pages of memory, and how many of them form the segment */
    uint32_t transfers, at_once;    /* per process: in all, and under way at once */
    uint32_t most_bytes;
    uint32_t delay, again; /* of messages; percent of sends that find no room */
    uint32_t unmaps;       /* unmappings per 100 transfers */
    uint32_t gets, deaths; /* percent of transfers that are gets; processes that die */
    uint32_t loop;         /* PATTERN_LOOP: pages */
    uint64_t memlock;      /* 0: no limit */
    bool watched;          /* changes outside the segment are reported */
    bool cut;
    enum pattern pattern;
    struct aqi_reg_limits limits;
};

/* Memory that a process has registered. */
struct mem {
    uint32_t proc, id;
    uint64_t addr, len;
    bool live;
    struct mem *next;
    uint64_t frames[];
};

struct page {
    uint64_t frame; /* 0: not mapped */
    uint32_t busy;  /* transfers under way: the program keeps it mapped */
    bool closed;    /* its owner has not announced yet that it is mapped again */
};

struct transfer {
    struct aqi_reg_wait wait;
    struct sim *sim;
    uint32_t proc, peer;
    uint64_t near, far, len; /* the rest */
    uint64_t near_busy, far_busy, whole;
    struct aqi_reg_use local;
    bool is_put, active, has_local, arrived;
};

struct change {
    uint64_t addr, len;
};

struct proc {
    struct sim *sim;
    uint32_t id, left, closed;
    struct aqi_reg *reg;
    struct page *pages;
    struct transfer *transfers; /* plan.at_once */
    struct change changes[64];
    uint32_t changes_first, changes_count;
    uint64_t pinned, at;
    bool alive, progress_due;
};

enum event_kind {
    EVENT_START,
    EVENT_MESSAGE,
    EVENT_END,
    EVENT_AGAIN,
    EVENT_UNMAP,
    EVENT_REMAP,
    EVENT_PROGRESS,
    EVENT_DEATH,
    EVENT_DOWN
};

struct event {
    uint64_t time, serial;
    enum event_kind kind;
    uint32_t proc, other;
    struct transfer *transfer;
    struct change range;
    unsigned char *bytes;
    size_t len;
};

struct sim {
    const struct plan *plan;
    uint64_t seed, random, now, serial, frame;
    struct proc procs[PROCS_MOST];
    struct event *heap;
    size_t heap_count, heap_room;
    struct mem **mems; /* by id */
    size_t mem_count, mem_room;
    bool trace;
    /* Results. */
    uint64_t transfers, by_message, pieces, rode, cut, unmapped;
    struct aqi_reg_counts counts; /* of all caches, before everything was unmapped at the end */
};

/* End the run with the seed and a message unless the condition holds. */
#define REQUIRE(sim, holds, ...)                                                                   \
    do {                                                                                           \
        if (!(holds)) sim_fail(sim, __VA_ARGS__);                                                  \
    } while (0)
_Noreturn void sim_fail(const struct sim *sim, const char *fmt, ...) AQI_PRINTF(2, 3);
void sim_trace(const struct sim *sim, const char *fmt, ...) AQI_PRINTF(2, 3);
uint64_t sim_any(struct sim *sim, uint64_t below);

/* queue.c */
struct event *queue_post(struct sim *sim, uint64_t after, enum event_kind kind, uint32_t proc);
bool queue_take(struct sim *sim, struct event *event);

/* memory.c: the hooks of a cache */
extern const struct aqi_reg_hooks memory_hooks;
bool memory_open_to_peers(const struct sim *sim, uint64_t addr, uint64_t len);
struct page *memory_page(struct proc *proc, uint64_t addr);
void memory_busy(struct proc *proc, uint64_t addr, uint64_t len, bool on);
void memory_unmap(struct sim *sim, uint32_t proc);
void memory_remap(struct sim *sim, const struct event *event);
/* Announce pages that are mapped again, if the cache allows it. */
void memory_reopen(struct proc *proc);
/* Check that the transfer uses the page frames that the program sees. */
bool memory_check(struct sim *sim, struct proc *owner, const struct aqi_reg_use *use, uint64_t addr,
                  uint64_t len, bool far);

/* work.c */
void work_start(struct sim *sim, uint32_t proc);
void work_end(struct sim *sim, struct transfer *transfer);
void work_again(struct sim *sim, struct transfer *transfer);
aq_status work_ride(void *host, uint32_t peer, uint64_t addr, uint8_t tag, const void *bytes,
                    size_t nbytes);

/* run.c */
void plan_draw(uint64_t seed, struct plan *plan);
void run_plan(const struct plan *plan, uint64_t seed, bool trace, struct sim *sim);
int run_figures(void);

#endif
