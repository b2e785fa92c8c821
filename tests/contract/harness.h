/*
 * The harness of the contract suite: opens one transport in several ranks and runs the same case in
 * each of them, at the level of transport.h, without the core.
 *
 * A *world* is a number of ranks. They are processes, or threads of one process with an endpoint
 * each; both under a supervising parent that limits their time and reports their end. With one
 * rank, the rank is its own peer.
 */
#ifndef AQT_CONTRACT_HARNESS_H
#define AQT_CONTRACT_HARNESS_H

#include "transport/transport.h"

#include "../common/data.h"

#define CT_MAX_RANKS 8
#define CT_FLAGS     32

struct ct_ep;
typedef void ct_handler(struct ct_ep *ep, uint32_t source, const struct aqi_am *am);
typedef void ct_case_fn(struct ct_ep *ep);

/* Requirements of a case, which is neither run nor reported where they are not met. */
enum ct_need {
    CT_PEERS = 1u << 0,     /* at least two ranks */
    CT_PROCESSES = 1u << 1, /* ranks are processes */
    CT_THREADS = 1u << 2,   /* the transport is opened for several threads */
    CT_CLOSED = 1u << 3,    /* the case opens and closes the transport itself */
    CT_CLEAN = 1u << 4,     /* not under the fault decorator */
    CT_DEADLY = 1u << 5     /* only where the fault decorator kills a peer (die=1@N) */
};

struct ct_case {
    const char *name;
    ct_case_fn *run;
    unsigned needs;
};

/* How the ranks of a run are made. */
struct ct_config {
    const struct aqi_transport *transport;
    uint32_t ranks;
    bool as_threads;   /* ranks are threads of one process */
    bool threads;      /* opened for several threads */
    const char *fault; /* value of AQ_FAULT, or NULL */
    const char *hosts; /* path of network namespaces without their number (from 1 on), or NULL */
    const char *shows; /* a part of the transport's description of itself, or NULL */
    uint64_t seed;
    unsigned timeout_s; /* for one case: a failure bound */
};

/* The memory that the ranks of a world share, mapped before they start. */
struct ct_world {
    struct ct_config config;
    _Atomic uint32_t arrived;
    _Atomic uint32_t generation;
    _Atomic uint32_t flag[CT_FLAGS];    /* the case's own; zero at its start */
    _Atomic bool may_die[CT_MAX_RANKS]; /* by SIGKILL, without failing the case */
    _Atomic bool reaped[CT_MAX_RANKS];  /* the parent has reaped it */
    _Atomic bool skipped;
    char skip_reason[128];
    char uri[CT_MAX_RANKS][AQI_URI_MAX]; /* of listeners */
    struct {
        unsigned char bytes[AQI_ADDR_MAX];
        size_t len;
    } home[CT_MAX_RANKS]; /* addresses */
    unsigned char key[CT_MAX_RANKS][AQI_KEY_MAX];
    size_t key_len[CT_MAX_RANKS]; /* 0: not registered */
    uint64_t addr[CT_MAX_RANKS];
    uint64_t len[CT_MAX_RANKS];
    int share[CT_MAX_RANKS][2]; /* socket pairs: rank 0 hands out shared objects */
};

/* Memory of this rank that the others may access, and theirs. */
struct ct_mem {
    unsigned char *addr;
    size_t len;
    struct aqi_mem *own; /* NULL: not registered */
    struct aqi_rmem *remote[CT_MAX_RANKS];
};

/* One rank. */
struct ct_ep {
    struct ct_world *world;
    struct aqi_tp *tp;
    struct aqi_peer *peers[CT_MAX_RANKS];
    uint32_t self;
    uint32_t size;
    bool threads;
    ct_handler *handlers[256];
    void *user; /* the case's own state */
    struct ct_mem mem;
    _Atomic uint32_t lost[CT_MAX_RANKS];  /* calls of peer_lost */
    _Atomic uint32_t asked[CT_MAX_RANKS]; /* calls of lookup */
    uint64_t random;                      /* state of ct_random */
};

/* Run a case in a world of its own. Returns 0, 77 (skipped; `reason` says why) or 1. */
int ct_world_run(const struct ct_config *config, const struct ct_case *c, char reason[128]);

/* --- for cases --------------------------------------------------------------------------- */

_Noreturn void ct_fail(const char *file, int line, const char *fmt, ...) AQI_PRINTF(3, 4);

#define CT_CHECK(condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) ct_fail(__FILE__, __LINE__, "not true: %s", #condition);                 \
    } while (0)

#define CT_EQUAL(got, want)                                                                        \
    do {                                                                                           \
        long long ct_got = (long long)(got), ct_want = (long long)(want);                          \
        if (ct_got != ct_want)                                                                     \
            ct_fail(__FILE__, __LINE__, "%s is %lld, expected %s = %lld", #got, ct_got, #want,     \
                    ct_want);                                                                      \
    } while (0)

#define CT_OK(call)                                                                                \
    do {                                                                                           \
        aq_status ct_status = (call);                                                              \
        if (ct_status != AQ_OK)                                                                    \
            ct_fail(__FILE__, __LINE__, "%s: %s (%s)", #call, aq_status_name(ct_status),           \
                    aq_error_message());                                                           \
    } while (0)

/* Skip the case, because this world cannot test its subject; every rank must call this. */
void ct_skip(struct ct_ep *ep, const char *reason);

/* Open, exchange addresses, and connect all ranks. ct_close undoes this. */
void ct_open(struct ct_ep *ep);
void ct_close(struct ct_ep *ep);

/* Whether messages can be sent to `rank`; a rank reaches itself only if it is alone. */
bool ct_reaches(const struct ct_ep *ep, uint32_t rank);
/* The next rank of the ring; the rank itself if it is alone. */
uint32_t ct_next(const struct ct_ep *ep);

/* Make progress, recording the mode so that the harness can check the deliveries. */
unsigned ct_progress(struct ct_ep *ep, enum aqi_progress_mode mode);
/* ct_relax: let other processes run. ct_poll: progress once, and relax if nothing happened. */
void ct_relax(void);
void ct_poll(struct ct_ep *ep);

/* When armed: sleep on the descriptor, or until the transport's next deadline. The length of the
 * sleep is bounded, so a lost wake-up fails the case. */
void ct_sleep(struct ct_ep *ep);

/* Meet all ranks, with progress or without touching the transport. */
void ct_barrier(struct ct_ep *ep);
void ct_meet(struct ct_ep *ep);

/* The largest payload of a Medium that every rank accepts from this one. */
size_t ct_max_medium(const struct ct_ep *ep);
/* Send a message of any kind once; by am_long if it is a Long. */
aq_status ct_try_send(struct ct_ep *ep, uint32_t to, const struct aqi_am *am,
                      struct aqi_comp *comp);
/* Send until accepted. Makes progress of all kinds, or of replies only if called by a handler. */
void ct_send(struct ct_ep *ep, uint32_t to, const struct aqi_am *am, struct aqi_comp *comp);
void ct_reply(struct ct_ep *ep, uint32_t to, const struct aqi_am *am);

/* Allocate, register, exchange and map `len` bytes in each rank; collective. */
void ct_mem_open(struct ct_ep *ep, size_t len);
/* The same for memory of the caller. */
void ct_mem_share(struct ct_ep *ep, void *addr, size_t len);
void ct_mem_close(struct ct_ep *ep);
/* The registration that contains local memory, or NULL. */
const struct aqi_mem *ct_local_mem(const struct ct_ep *ep, const void *addr, size_t len);

void ct_comp_init(const struct ct_ep *ep, struct aqi_comp *comp);
uint32_t ct_comp_local(struct aqi_comp *comp);
uint32_t ct_comp_remote(struct aqi_comp *comp);
void ct_comp_wait(struct ct_ep *ep, struct aqi_comp *comp);

/* Start operations on the memory of `rank`, retrying; counts them in `comp` first. */
void ct_put(struct ct_ep *ep, uint32_t rank, size_t offset, const void *src, size_t len,
            struct aqi_comp *comp);
void ct_get(struct ct_ep *ep, uint32_t rank, size_t offset, void *dst, size_t len,
            struct aqi_comp *comp);
void ct_atomic(struct ct_ep *ep, uint32_t rank, const struct aqi_atomic *req, void *result,
               struct aqi_comp *comp);

uint64_t ct_random(struct ct_ep *ep);

/* Whether more than `seconds` have passed since `*start_ns`, which the first call sets if it is 0.
 * A bound for failures. */
bool ct_overdue(uint64_t *start_ns, unsigned seconds);

/* The numbers of open descriptors, and of mappings of shared objects, of this process. */
unsigned ct_count_fds(void);
/* Check that this many descriptors are open, or up to `more` in addition. Lists them if not. */
void ct_expect_fds(unsigned fds, unsigned more);
unsigned ct_count_shared_maps(void);

/* The tables, one per file. */
extern const struct ct_case ct_cases_am[];
extern const struct ct_case ct_cases_flow[];
extern const struct ct_case ct_cases_rma[];
extern const struct ct_case ct_cases_atomic[];
extern const struct ct_case ct_cases_life[];
extern const struct ct_case ct_cases_rendezvous[];
extern const struct ct_case ct_cases_threads[];

#endif
