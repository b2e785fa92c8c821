/*
 * The core: the semantics, independent of the transport. This header is for lib/init.c;
 * state/state.h is shared by the folders of the core.
 */
#ifndef AQI_CORE_H
#define AQI_CORE_H

#include "base/base.h"
#include "base/settings.h"

#include <aqueduct/job.h>

/* The core's interface to the job, passed in by lib, since the core must not depend on it. */
struct aqi_core_boot {
    aq_status (*allgather)(void *arg, const void *mine, size_t len, void *all);
    /* Likewise; the table remains valid until the end of the job. */
    aq_status (*table)(void *arg, const void *mine, size_t len, const void **table);
    aq_status (*share)(void *arg, const char *name, size_t bytes, int *fd);
    bool (*alert)(void *arg);  /* cheap: whether anything has arrived on the control channel */
    void (*attend)(void *arg); /* read it; may end the process or call aqi_core_peer_down */
    int (*fd)(void *arg);      /* to sleep on, or -1 */
    /* Ask which ranks of a set are alive; aqi_core_agreed delivers the answer. */
    aq_status (*agree)(void *arg, const uint64_t name[2], aq_status mine, const uint8_t *members);
    /* For a failure that no caller would see: print `why` and end the job. */
    void (*fatal)(void *arg, const char *why);
    void *arg;
};

struct aqi_core_params {
    struct aqi_core_boot boot;
    aq_thread_mode thread_mode;
    bool turns; /* AQ_THREAD_SERIALIZED: other threads may call while a thread sleeps on aq_wait_fd
                 */
    bool brisk; /* empty polls just return: the caller's work between two polls takes longer than a
                   pause, and it yields itself, after it has released its lock */
    const char *register_call, *create_call; /* names of these calls in error texts */
    uint32_t rank, size;
    uint32_t local_rank, local_size;
    uint32_t cores;            /* shared by the local ranks */
    uint32_t host;             /* which of the job's hosts this is */
    bool survive;              /* the job continues when a peer dies */
    uint64_t start_timeout_ns; /* time limit for reaching the peers; 0: none */
    uint8_t key[16];
};

struct aqi_core_config {
    const char *transports;
    const char *neighborhood;
    uint64_t max_medium;
    uint64_t am_credits, am_credits_total, am_slack;
    uint64_t packed_long;
    uint64_t am_bytes;
    uint64_t progress_thread, check_threads;
    const char *max_segment;
    uint64_t scratch;
    uint64_t barrier; /* 1: by remote writes */
    uint64_t vis_pack;
    uint64_t segment_mode;
    uint64_t wait, awake_ns;
    uint64_t conn_timeout_ns;
    uint64_t conn_backlog, conn_data, conn_max;
    uint64_t copy, copy_least;
};
extern struct aqi_core_config aqi_core_config;
extern struct aqi_settings_table aqi_core_settings;

/* Whether AQ_TRANSPORTS allows this transport, which need not be open. */
bool aqi_core_may_use(const char *transport);

/*
 * Choose one of the segment modes that the program supports, according to AQ_SEGMENT_MODE; call
 * after the settings are read. Returns AQ_ESETTING if that names none of them.
 */
aq_status aqi_core_choose_segment_mode(unsigned modes);

/* Open the transports; find a route to every peer. Collective; calls aqi_core_close on failure. */
aq_status aqi_core_open(const struct aqi_core_params *params, aq_team **world);

/* Returns AQ_OK if aq_finalize may begin, else the error to return. */
aq_status aqi_core_may_leave(void);
/* Returns when everything sent so far has been handled everywhere. Collective. */
aq_status aqi_core_quiesce(void);
void aqi_core_close(void);

/*
 * One round of waiting for the job: makes progress, or else sleeps, also on boot.fd. Until the core
 * is open, no requests are handled, although a peer that has learned that all ranks are open may
 * send some.
 */
void aqi_core_idle(void);

/*
 * For a process that ends without aqi_core_close: stop the progress thread. After a time limit,
 * returns even if it has not stopped.
 */
void aqi_core_halt_progress(void);

/*
 * Whether this is the progress thread. If that thread calls aqi_core_news, the next thread of the
 * program that makes progress also reads the control channel.
 */
bool aqi_core_on_progress_thread(void);
void aqi_core_news(void);

/*
 * A round of progress while this process only waits for the other ranks to end: operations in
 * flight proceed, but no requests are handled. Any thread, even inside a handler.
 */
void aqi_core_ending(void);

/*
 * For a process that ends while others go on: wait until everything it has sent has arrived, at
 * most this long. Makes progress like aqi_core_ending.
 */
void aqi_core_deliver(uint64_t most_ns);

/* The job reports that `rank` is dead. */
void aqi_core_peer_down(uint32_t rank, const char *why);

/* The answer to boot.agree. */
void aqi_core_agreed(const uint64_t name[2], aq_status status, const uint8_t *living);

/*
 * Set an additional check: whether the peer of the connection with `context` may access a part of
 * the segment exposed to it. Called during progress. NULL: only the segment's bounds are checked.
 */
typedef bool aqi_core_range_filter(void *context, uint64_t addr, size_t len);
void aqi_core_filter_ranges(aqi_core_range_filter *filter);

/* AQ_OK between aqi_core_open and aqi_core_close and outside handlers; else the error to return. */
aq_status aqi_core_callable(const char *call);

/* The name of the transport that reaches a member of a team, for aq_info_route. */
aq_status aqi_core_route_name(const aq_team *team, aq_rank rank, const char **name);

#endif
