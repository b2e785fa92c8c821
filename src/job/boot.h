/*
 * The bootstrap: how this process learns who it is, exchanges addresses with the others before any
 * transport is open, hears of deaths, and leaves. Knows nothing of transports.
 *
 * A kind of bootstrap is a row of operations: "fork" (a control socket to the agent of this host:
 * aqrun, which hands it down, or one that the processes of a manager's job have forked, managed.h)
 * and "single" (nobody started us: a job of one). To add one: a file with its row, and a line in
 * the table of boot.c.
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
    uint8_t
        key[AQI_JOB_KEY_BYTES]; /* secret, random, the same in all ranks; never on a command line */
};

/* Of `ending`. */
#define AQI_BOOT_WAIT_NONE 0

/* What the control channel can tell. */
enum aqi_boot_event_type {
    AQI_BOOT_PEER_LOST, /* `rank` died; `text` says of what; the job goes on */
    AQI_BOOT_EXIT,      /* somebody ended the job with `code`: end too */
    AQI_BOOT_ENDING,    /* `code` ranks have come to their end: who has nothing to do does, too */
    AQI_BOOT_AGREED     /* the answer to `agree` */
};
struct aqi_boot_event {
    enum aqi_boot_event_type type;
    uint32_t rank;
    int code;
    const char *text; /* valid during the callback, as is `set` */
    uint64_t name[2]; /* and these: AGREED */
    aq_status status;
    const uint8_t *set;
};
typedef void aqi_boot_event_fn(void *arg, const struct aqi_boot_event *event);

/* How far this process has come. */
enum aqi_boot_stage {
    AQI_BOOT_READY,   /* its start is over; when all are, AQ_SURVIVE allows to go on without some */
    AQI_BOOT_LEAVING, /* it makes no more collective call, and who waits for it is told */
    AQI_BOOT_LEFT     /* in good order: its end, whatever its exit code, harms nobody */
};

/* What a process shows of itself: through stream sockets lines for the job's files and its warnings
 * and errors, and its counters. */
enum aqi_show { AQI_SHOW_STATS, AQI_SHOW_TRACE, AQI_SHOW_COUNTERS, AQI_SHOW_LOG, AQI_SHOWS };

/* Bytes of a set of ranks: rank r is bit r % 8 of byte r / 8. */
static inline size_t aqi_boot_set_bytes(uint32_t size)
{
    return (size + 7) / 8;
}

/* Every slot is filled. A call goes through the bootstrap's row: boot->kind->reach(boot, …). */
struct aqi_boot_kind {
    const char *name;
    size_t bytes; /* of its struct */
    /* Was this process started by it? */
    bool (*launched)(void);
    /* Join; fills `info`, `alerts` and `fd` of a zeroed struct. Undoes itself when it fails. */
    aq_status (*open)(struct aqi_boot *boot);
    /*
     * Collective calls, made in the same order by every rank, before it has left. Bounded by
     * AQ_START_TIMEOUT; AQ_ETIMEOUT names the ranks that did not come, AQ_EPEER the one that died.
     *
     * Every rank gives `len` bytes (the same everywhere); `all` gets size x len bytes in rank
     * order. Of 0 bytes it is a barrier.
     */
    aq_status (*allgather)(struct aqi_boot *boot, const void *mine, size_t len, void *all);
    /* The same for aqi_boot_table, of at least a byte; `*memory` is a mapping of its own. */
    aq_status (*table)(struct aqi_boot *boot, const void *mine, size_t len, void **memory);
    /* One shared memory object of `bytes` (the same value in all of them) for the ranks of this
     * host.
     */
    aq_status (*share)(struct aqi_boot *boot, const char *name, size_t bytes, int *fd);
    aq_status (*reach)(struct aqi_boot *boot, enum aqi_boot_stage stage);
    /*
     * Agree with the others of the set `members`, which holds this rank, too. Once all of them have
     * called it with this name, but for those that are dead or have left, each hears, as the event
     * AQI_BOOT_AGREED, the worst of their statuses and the set of those who called: all hear the
     * same. A name serves once. Never waits for others; any thread.
     */
    aq_status (*agree)(struct aqi_boot *boot, const uint64_t name[2], aq_status mine,
                       const uint8_t *members);
    /* Pass this descriptor, which the caller closes, to whoever keeps the job's files and shows the
     * job to aqtop. AQ_ENOTSUP: there is nobody. */
    aq_status (*show)(struct aqi_boot *boot, enum aqi_show what, int fd);
    /* Read the control channel, never blocks; calls `fn` for each event. AQ_EPEER: the launcher
     * died. */
    aq_status (*progress)(struct aqi_boot *boot, aqi_boot_event_fn *fn, void *arg);
    /* Tell the launcher that this process ends the job with `code`; `why` may be NULL.
     * Async-signal- safe; does not end the process, does not wait. */
    void (*exit)(struct aqi_boot *boot, int code, const char *why);
    /* Tell it that this process ends with `code` as soon as all others want to end, too, and at the
     * latest in `wait_ns`: then the event AQI_BOOT_EXIT comes. False: nobody will say so.
     * AQI_BOOT_WAIT_NONE: it does not end by itself, but agrees to what others have begun. */
    bool (*ending)(struct aqi_boot *boot, int code, uint64_t wait_ns);
    /* This process exits in good order, now, though not by aq_finalize: a manager shall not take it
     * for a crash. Only close makes sense afterwards. */
    void (*depart)(struct aqi_boot *boot);
    void (*close)(struct aqi_boot *boot);
};

extern const struct aqi_boot_kind aqi_boot_fork;
extern const struct aqi_boot_kind aqi_boot_single;

/* The part that all kinds have; each kind's own struct begins with it. */
struct aqi_boot {
    const struct aqi_boot_kind *kind;
    struct aqi_boot_info info;
    const _Atomic uint32_t *alerts; /* events sent to this rank so far */
    _Atomic uint32_t seen;          /* events handed on by progress */
    _Atomic int fd;                 /* readable when there is an event; -1: there is none */
    /* Called over and over while a collective call waits; sleeps itself, at most until `fd` is
     * readable. NULL: the calls wait alone, and nothing else moves on. */
    void (*idle)(void);
    struct boot_table *tables; /* that aqi_boot_table gave away */
};

/* Does the environment say how this process joins a job, or that it is alone (AQ_BOOT)? Also where
 * what it says is wrong. After aqi_settings_load. */
bool aqi_boot_is_said(void);

/*
 * Join. Blocks until the launcher has answered; bounded by AQ_START_TIMEOUT. `*boot` is there
 * before the launcher hears of us, for another thread or a signal's handler that ends the process
 * meanwhile (only `exit` and `depart`, until this returns); NULL if it fails.
 *
 * @return AQ_EPROTO   The launcher speaks another version (both versions are named).
 * @return AQ_ESTATE   This rank's place in the job was already taken by another process.
 */
aq_status aqi_boot_open(struct aqi_boot *_Atomic *boot);

/* As allgather, but what all gave is one table, to be read until the bootstrap is closed: the ranks
 * of a host share its memory, so it costs a rank only what it reads of it. */
aq_status aqi_boot_table(struct aqi_boot *boot, const void *mine, size_t len, const void **table);

/* True when the control channel has something to say; one load of a shared line, no system call. */
bool aqi_boot_alert(const struct aqi_boot *boot);

/* Close descriptors and free. Cannot fail. */
void aqi_boot_close(struct aqi_boot *boot);

#endif
