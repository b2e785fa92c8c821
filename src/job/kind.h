/*
 * A kind of bootstrap: one row of operations. To add one (ssh, PMIx, PMI): a file with its row, and
 * a line in the table of boot.c.
 */
#ifndef AQI_BOOT_KIND_H
#define AQI_BOOT_KIND_H

#include "job/boot.h"
#include "job/control.h"

/* What aqi_boot_table gave away. */
struct boot_table {
    struct boot_table *next;
    void *memory;
    size_t bytes;
};

/* The part that all kinds have; each kind's own struct begins with it. */
struct aqi_boot {
    const struct aqi_boot_kind *kind;
    struct aqi_boot_info info;
    const _Atomic uint32_t *alerts; /* events sent to this rank so far */
    _Atomic uint32_t seen;          /* events handed on by progress */
    int fd;                         /* readable when there is an event; -1 */
    void (*idle)(void);             /* while a collective call waits; NULL */
    struct boot_table *tables;
};

/* Every slot is filled. What they may return, boot.h says beside the function of the same name. */
struct aqi_boot_kind {
    const char *name;
    size_t bytes; /* of its struct */
    /* Was this process started by it? */
    bool (*launched)(void);
    /* Join; fills `info`, `alerts` and `fd` of a zeroed struct. Undoes itself when it fails. */
    aq_status (*open)(struct aqi_boot *boot);
    aq_status (*allgather)(struct aqi_boot *boot, const void *mine, size_t len, void *all);
    /* Of at least a byte; `*memory` is a mapping of its own. */
    aq_status (*table)(struct aqi_boot *boot, const void *mine, size_t len, void **memory);
    aq_status (*share)(struct aqi_boot *boot, const char *name, size_t bytes, int *fd);
    aq_status (*ready)(struct aqi_boot *boot);
    aq_status (*leaving)(struct aqi_boot *boot);
    aq_status (*agree)(struct aqi_boot *boot, const uint64_t name[2], aq_status mine,
                       const uint8_t *members);
    aq_status (*progress)(struct aqi_boot *boot, aqi_boot_event_fn *fn, void *arg);
    void (*exit)(struct aqi_boot *boot, int code, const char *why);
    bool (*ending)(struct aqi_boot *boot, int code, uint64_t wait_ns);
    aq_status (*finalize)(struct aqi_boot *boot);
    void (*close)(struct aqi_boot *boot);
};

extern const struct aqi_boot_kind aqi_boot_fork;
extern const struct aqi_boot_kind aqi_boot_single;

#endif
