/*
 * The bootstrap: how this process gets its rank, exchanges addresses with other ranks before any
 * transport is open, is notified of deaths, and leaves. Independent of transports.
 *
 * A kind of bootstrap is a row of operations: "fork" (a control socket to the agent of this host:
 * aqrun, which passes it down, or one forked by the processes of a manager's job, managed.h) and
 * "single" (no launcher: a job of one). To add one: a file with its row, and a case in
 * boot_choose.
 */
#ifndef AQI_BOOT_H
#define AQI_BOOT_H

#include "base/base.h"

#define AQI_JOB_KEY_BYTES 16
#define AQI_MAX_RANKS     65536u

struct aqi_boot;

struct aqi_boot_info {
    uint32_t rank;       /* in the job */
    uint32_t size;       /* of the job */
    uint32_t host;       /* 0-based number of this host */
    uint32_t hosts;      /* number of hosts */
    uint32_t local_rank; /* among the ranks of this host */
    uint32_t local_size;
    uint8_t key[AQI_JOB_KEY_BYTES]; /* random and secret; the same in all ranks */
};

/* For the `wait_ns` of `ending`. */
#define AQI_BOOT_WAIT_NONE 0

/* Events of the control channel. */
enum aqi_boot_event_type {
    AQI_BOOT_PEER_LOST, /* `rank` died; `text` says why; the job continues */
    AQI_BOOT_EXIT,      /* another rank ended the job: exit with `code` */
    AQI_BOOT_ENDING,    /* `code` ranks request the end: agree if idle */
    AQI_BOOT_AGREED     /* the result of `agree` */
};
struct aqi_boot_event {
    enum aqi_boot_event_type type;
    uint32_t rank;
    int code;
    const char *text; /* valid during the callback, as is `set` */
    uint64_t name[2]; /* this and the following: AGREED */
    aq_status status;
    const uint8_t *set;
};
typedef void aqi_boot_event_fn(void *arg, const struct aqi_boot_event *event);

/* Progress of this process through the job. */
enum aqi_boot_stage {
    AQI_BOOT_READY, /* started; once all have, AQ_SURVIVE allows the job to continue without some */
    AQI_BOOT_LEAVING, /* it makes no more collective calls; ranks that wait for it are notified */
    AQI_BOOT_LEFT     /* left in order: its exit, with any code, affects no other rank */
};

/* Descriptors that a process passes to its agent: sockets with lines for the job's files, its
 * counters, and a socket with its warnings and errors. */
enum aqi_show { AQI_SHOW_STATS, AQI_SHOW_TRACE, AQI_SHOW_COUNTERS, AQI_SHOW_LOG, AQI_SHOWS };

/* Bytes of a set of ranks. Rank r is bit r % 8 of byte r / 8. */
static inline size_t aqi_boot_set_bytes(uint32_t size)
{
    return (size + 7) / 8;
}

/* Every slot is filled. Call as boot->kind->reach(boot, …). */
struct aqi_boot_kind {
    size_t bytes; /* size of its struct */
    /* Join; fill `info`, `alerts` and `fd` of a zeroed struct. Releases everything on failure. */
    aq_status (*open)(struct aqi_boot *boot);
    /*
     * Collective calls, made in the same order by every rank, before it has left. Bounded by
     * AQ_START_TIMEOUT; AQ_ETIMEOUT names the missing ranks, AQ_EPEER the one that died.
     *
     * Every rank contributes `len` bytes, the same number everywhere; `all` receives size x len
     * bytes in rank order. With 0 bytes it is a barrier.
     */
    aq_status (*allgather)(struct aqi_boot *boot, const void *mine, size_t len, void *all);
    /* Allgather of at least one byte for aqi_boot_table; `*memory` is a separate mapping. */
    aq_status (*table)(struct aqi_boot *boot, const void *mine, size_t len, void **memory);
    /* Create one shared memory object of `bytes`, the same on all of them, for the ranks of this
     * host. */
    aq_status (*share)(struct aqi_boot *boot, const char *name, size_t bytes, int *fd);
    aq_status (*reach)(struct aqi_boot *boot, enum aqi_boot_stage stage);
    /*
     * Agree with the other ranks in `members`, which includes this one. Once all of them that are
     * alive and have not left have called this with the same name, each gets the event
     * AQI_BOOT_AGREED with the worst of their statuses and the set of callers, identical for all.
     * A name can be used once. Does not wait. May be called by any thread.
     */
    aq_status (*agree)(struct aqi_boot *boot, const uint64_t name[2], aq_status mine,
                       const uint8_t *members);
    /* Pass this descriptor, which the caller closes, to the agent, which writes the job's files
     * and serves aqtop. AQ_ENOTSUP: there is no agent. */
    aq_status (*show)(struct aqi_boot *boot, enum aqi_show what, int fd);
    /* Read the control channel without blocking; calls `fn` for each event. AQ_EPEER: the launcher
     * died. */
    aq_status (*progress)(struct aqi_boot *boot, aqi_boot_event_fn *fn, void *arg);
    /* Notify the launcher that this process ends the job with `code`; `why` may be NULL.
     * Async-signal-safe; does not end the process, does not wait. */
    void (*exit)(struct aqi_boot *boot, int code, const char *why);
    /* Request that the job end with `code` as soon as all other ranks request or agree to it, and
     * after `wait_ns` at the latest: AQI_BOOT_EXIT then arrives. Returns false if it will not.
     * AQI_BOOT_WAIT_NONE: only agree to the requests of other ranks. */
    bool (*ending)(struct aqi_boot *boot, int code, uint64_t wait_ns);
    /* This process is about to exit in an orderly way, though not by aq_finalize: managers must
     * not treat it as a crash. Only close may be called afterwards. */
    void (*depart)(struct aqi_boot *boot);
    void (*close)(struct aqi_boot *boot);
};

extern const struct aqi_boot_kind aqi_boot_fork;
extern const struct aqi_boot_kind aqi_boot_single;

/* The common part of all kinds; each kind's struct begins with it. */
struct aqi_boot {
    const struct aqi_boot_kind *kind;
    struct aqi_boot_info info;
    const _Atomic uint32_t *alerts; /* events sent to this rank so far */
    _Atomic uint32_t seen;          /* events delivered by progress */
    _Atomic int fd;                 /* readable if there is an event; -1: none */
    /* Called repeatedly while a collective call waits; sleeps until `fd` is readable at the
     * latest. NULL: no other progress while waiting. */
    void (*idle)(void);
    struct boot_table *tables; /* returned by aqi_boot_table */
};

/* Whether the environment specifies how this process joins a job, or that it is a job of one
 * (AQ_BOOT), even if the value is invalid. Call after aqi_settings_load. */
bool aqi_boot_is_specified(void);

/*
 * Join. Blocks until the launcher has answered; bounded by AQ_START_TIMEOUT. `*boot` is set before
 * the launcher is contacted, for another thread or a signal handler that ends the process meanwhile
 * (only `exit` and `depart`, until this returns); NULL if it fails.
 *
 * @return AQ_EPROTO  The launcher uses another version (both versions are named).
 * @return AQ_ESTATE  This rank's place in the job was already taken by another process.
 */
aq_status aqi_boot_open(struct aqi_boot *_Atomic *boot);

/* As allgather, but the result is one table, valid until the bootstrap is closed: the ranks of a
 * host share its memory, so a rank only pays for the parts that it reads. */
aq_status aqi_boot_table(struct aqi_boot *boot, const void *mine, size_t len, const void **table);

/* True if the control channel has an event; one load of a shared line, no system call. */
bool aqi_boot_alert(const struct aqi_boot *boot);

/* Close descriptors and free. Cannot fail. */
void aqi_boot_close(struct aqi_boot *boot);

#endif
