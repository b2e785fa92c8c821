/*
 * The GASNet interface, implemented with Aqueduct's public calls: declarations shared by its
 * files. The rules for headers, names, handles, events and errors are in docs/gasnet-internals.md.
 */
#ifndef AQGI_H
#define AQGI_H

/* The library itself has no mode; it uses the headers as in mode PAR. */
#define AQG_LIBRARY 1
#define GASNET_PAR  1
#include <gasnetex.h>

#include <gasnet_tools.h>

#include <aqueduct/aqueduct.h>
#include <assert.h>
#include <stdbool.h>

enum { AQGI_EPS = GASNET_MAXEPS, AQGI_THREADS = 256 };

/* How long an exiting process waits for the others; GASNET_EXITTIMEOUT limits it. */
#define AQGI_EXIT_WAIT UINT64_MAX

struct aqg_segment {
    aq_segment *aq;
    void *addr;
    uintptr_t size;
    void *cdata;
    gex_Flags_t flags;
};

struct aqg_ep {
    aq_ep *aq;
    struct aqg_segment *segment;
    void *cdata;
    gex_Flags_t flags;
    gex_EP_Capabilities_t capabilities;
    gex_EP_Index_t index;
};

struct aqgi_team {
    struct aqg_tm head;
    aq_team *aq;
    struct aqg_ep *ep; /* the endpoint of this process */
    void *cdata;
    gex_Memvec_t scratch; /* unused: the library allocates its own */
    gex_Flags_t flags;
    bool pair;
};

struct aqg_client {
    gex_Flags_t flags;
    char *name;
    void *cdata;
};

/* The state of this process. */
struct aqgi_state {
    bool open;
    bool attached; /* gex_Segment_Attach or gasnet_attach was called */
    bool verbose_errors;
    unsigned mode, segment_mode;
    unsigned max_threads; /* GASNET_MAX_THREADS */
    size_t coll_scratch;  /* GASNET_COLL_SCRATCH_SIZE; 0: not set */
    gex_Rank_t rank, size;
    struct aqg_client client;
    struct aqg_ep ep;       /* the primordial one */
    struct aqgi_team world; /* the primordial team */
    struct aqg_ep *eps[AQGI_EPS];
    struct aqg_reach *reach[AQGI_EPS]; /* of all processes, by endpoint index; NULL: not used yet */
};
extern struct aqgi_state aqgi;

/* Whether the segment of each process is all of its memory. */
static inline bool aqgi_everything(void)
{
    return aqgi.segment_mode == AQ_SEGMENT_EVERYTHING;
}

static inline struct aqgi_team *aqgi_team(gex_TM_t tm)
{
    return (struct aqgi_team *)(void *)tm;
}

static inline aq_am *aqgi_am(gex_Token_t token)
{
    return (aq_am *)(void *)token;
}

/* The endpoint that received a message. */
static inline struct aqg_ep *aqgi_ep_of(const aq_am *am)
{
    return aqgi.eps[aq_ep_index(am->ep)];
}

/* The team to pass to Aqueduct. */
static inline aq_team *aqgi_aq(gex_TM_t tm)
{
    return aqgi_team(tm)->aq;
}

static inline gex_Event_t aqgi_event(aq_event event)
{
    return (gex_Event_t)(void *)event;
}

static inline aq_event aqgi_aq_event(gex_Event_t event)
{
    return (aq_event)(void *)event;
}

/* The calls common to all objects: their flags, and the client's data. */
#define AQGI_OBJECT(prefix, param, object)                                                         \
    AQG_DEFINE(gex_Flags_t, prefix##_QueryFlags, (param), (object)->flags)                         \
    AQG_DEFINE(void *, prefix##_QueryCData, (param), (object)->cdata)                              \
    void prefix##_SetCData(param, const void *val)                                                 \
    {                                                                                              \
        (object)->cdata = (void *)(uintptr_t)val;                                                  \
    }

/* env.c: convert the environment before Aqueduct reads it. */
void aqgi_env_prepare(void);
/* The maximum segment of this process, as limited by the user, the client or the memory. */
uint64_t aqgi_segment_max(void);
/* GASNET_VERBOSEENV: print the variables that this library reads. */
void aqgi_env_report(void);
/* tools/tools.h: hooks for the environment and rank of the job, and for an abort. */
extern char *(*aqg_getenv_hook)(const char *name);
extern int (*aqg_rank_hook)(void);
extern void (*aqg_abort_hook)(void);
/* spawn.c: start several processes if the environment requests that and no launcher has done so. */
void aqgi_spawn(const struct aqg_build *build);
/* system.c */
aq_status aqgi_system_open(void);
/* exit.c: freeze for a debugger and print a backtrace, if the environment requests it. */
void aqgi_explain(void);
/* exit.c: catch signals unless the program (prepare: called before Aqueduct) or the environment
 * does. */
void aqgi_signals_prepare(void);
void aqgi_signals_open(void);
void aqgi_signals_abort(void);

/* segment.c: in mode everything, bind the first endpoints to all memory. */
aq_status aqgi_segment_open(void);
/*
 * segment.c: check whether this process may attach this many bytes now. Returns a GASNET_ code, as
 * aqgi_refuse does.
 */
int aqgi_attachable(const char *call, uintptr_t size);
/* segment.c: the mappings of the segments of all endpoints with this index. */
struct aqg_reach *aqgi_reach(unsigned index);

/*
 * coll_images.c: whether any process has several images, that is, threads that take part in the
 * collectives of GASNet-1.
 */
extern bool aqgi_images;
static inline bool aqgi_has_images(void)
{
    return AQG_UNLIKELY(__atomic_load_n(&aqgi_images, __ATOMIC_RELAXED));
}
/* Advance pending collectives; forget those of a team that is destroyed. */
void aqgi_images_poll(void);
void aqgi_images_forget(gex_TM_t tm);

/*
 * am_call.c: the function to register with Aqueduct for a handler that takes these categories
 * (AQ_AM_ bits; 0: any) and this number of arguments (AQ_AM_ANY_ARGS: any). Its context is a
 * gex_AM_Entry_t.
 */
aq_am_fn *aqgi_caller(unsigned categories, unsigned nargs);
/* am.c: register a table of at most AQGI_HANDLERS handlers, and store their indices in it. */
enum { AQGI_HANDLERS = 256 };
int aqgi_register(const char *call, gex_EP_t ep, gex_AM_Entry_t *table, size_t count);
/*
 * Run handler `index` of the endpoint that received `carrier`, as if for a reply without
 * arguments. Returns false if there is no such handler.
 */
bool aqgi_deliver_reply(const aq_am *carrier, gex_AM_Index_t index);

/*
 * ratomic.c: convert an operation (the lowest of several), and a data type; aqgi_type returns its
 * size, or 0 if it is none of the six.
 */
aq_op aqgi_op(gex_OP_t op);
size_t aqgi_type(gex_DT_t dt, aq_type *type);

/* vis.c: the message that reports the completion of a put, and its handler. */
enum { AQGI_COMPLETION = 64 };
aq_status aqgi_vis_open(gex_EP_t ep);

/* --- errors.c -------------------------------------------------------------------------------- */

/* exit.c: end the job as a failure. */
_Noreturn void aqgi_abort(void);
/* Print and end the job: `call` failed with `st`. */
_Noreturn void aqgi_fatal(const char *call, aq_status st);
/* Print another message and end the job. */
_Noreturn void aqgi_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Allocate zeroed memory. If there is none, the job ends with a message that names `what`. */
void *aqgi_alloc(size_t count, size_t size, const char *what);
/* Convert the status of a failed call to a GASNET_ERR_ code; prints it if verbose errors are
 * enabled. */
int aqgi_error(const char *call, aq_status st);
/* Returns `code`; prints the reason if verbose errors are enabled. */
int aqgi_refuse(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* For calls that cannot fail: any status but AQ_OK is fatal. */
static inline void aqgi_done(const char *call, aq_status st)
{
    if (AQG_UNLIKELY(st != AQ_OK)) aqgi_fatal(call, st);
}

/* For calls with GEX_FLAG_IMMEDIATE: returns 0 if started, 1 if not; a failure is fatal. */
static inline int aqgi_started(const char *call, aq_status st)
{
    if (AQG_LIKELY(st == AQ_OK)) return 0;
    if (st != AQ_AGAIN) aqgi_fatal(call, st);
    return 1;
}

/* The same for calls that return an event. */
static inline gex_Event_t aqgi_started_nb(const char *call, aq_status st, aq_event event)
{
    return aqgi_started(call, st) == 0 ? aqgi_event(event) : GEX_EVENT_NO_OP;
}

/* Aqueduct's flag for GEX_FLAG_IMMEDIATE, which is the same bit. */
static inline unsigned aqgi_immediate(gex_Flags_t flags)
{
    return flags & GEX_FLAG_IMMEDIATE;
}

/* The flags of a transfer for Aqueduct, which are the same bits. */
static inline unsigned aqgi_flags(gex_Flags_t flags)
{
    return flags & (GEX_FLAG_IMMEDIATE | GEX_FLAG_PEER_SEG_OFFSET);
}
static_assert(GEX_FLAG_IMMEDIATE == AQ_IMMEDIATE && GEX_FLAG_PEER_SEG_OFFSET == AQ_REMOTE_OFFSET,
              "one bit for both");

/* segment.c: convert an offset into the segment of the team's own endpoint to an address. */
void *aqgi_at_offset(gex_TM_t tm, const void *offset);
/* Convert the local argument of a transfer to an address. */
static inline void *aqgi_local(gex_TM_t tm, const void *addr, gex_Flags_t flags)
{
    if (AQG_UNLIKELY(flags & GEX_FLAG_SELF_SEG_OFFSET)) return aqgi_at_offset(tm, addr);
    return (void *)(uintptr_t)addr;
}

#endif
