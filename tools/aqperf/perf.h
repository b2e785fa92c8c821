/* What the parts of aqperf share: the job it runs in, the patterns, and the results.
 *
 * Rank 0 leads and rank 1 answers ("pair" patterns), or all ranks take part; ranks that have
 * nothing to do wait in a barrier. A pattern is a row in patterns.c plus a loop in each API back
 * end (api_aq.c); what the machine itself can do is measured by limits.c beside it. */
#ifndef AQPERF_PERF_H
#define AQPERF_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_THREADS 64u /* of a rank */
#define MAX_SIZE    ((size_t)1 << 30)

enum unit {
    UNIT_NS,   /* per operation: less is better */
    UNIT_RATE, /* million messages per second */
    UNIT_BANDWIDTH,
    UNIT_COUNT
};

/* A scattered transfer is a pattern for each length of its pieces: 8, 64 and 512 bytes. */
#define SCATTERED(id) id, id##_64, id##_512

enum pattern_id {
    AM_SHORT_RTT,
    AM_MEDIUM_RTT,
    AM_LONG_RTT,
    AM_RING,
    AM_SHORT_RATE,
    AM_MEDIUM_RATE,
    AM_RESERVE_RATE,
    AM_LONG_RATE,
    AM_SHORT_PAIRS,
    AM_MEDIUM_PAIRS,
    AM_LONG_PAIRS,
    AM_SHORT_IN,
    POLL_EMPTY,
    AM_SELF,
    AM_SELF_REPLY,
    PUT_SELF,
    PUT_LAT,
    GET_LAT,
    PUT_VALUE,
    GET_VALUE,
    ATOMIC_LAT,
    ATOMIC_CAS,
    ATOMIC_DOUBLE,
    ATOMIC_RATE,
    PUT_BW,
    GET_BW,
    PUT_RATE,
    GET_RATE,
    PUT_EVENTS,
    MEMSET_BW,
    PUT_PRIVATE,
    GET_PRIVATE,
    SCATTERED(STRIDED_PUT),
    SCATTERED(STRIDED_GET),
    SCATTERED(VECTOR_PUT),
    SCATTERED(VECTOR_GET),
    SCATTERED(INDEXED_PUT),
    SCATTERED(INDEXED_GET),
    TEAM_SPLIT,
    BARRIER,
    BCAST,
    REDUCE,
    ALLREDUCE,
    GATHER,
    ALLGATHER,
    SCATTER,
    ALLTOALL,
    PATTERN_COUNT
};

struct perf;

/* Do `n` operations of `size` bytes. */
typedef void loop_fn(struct perf *perf, size_t size, uint64_t n);

/* What is measured: a loop, and what belongs to it. */
struct work {
    loop_fn *loop;
    loop_fn *before;                          /* not timed */
    loop_fn *after;                           /* timed: until all of it has come to its end */
    bool threads;                             /* those of --threads share the loop */
    bool bare;                                /* the size is 0, whatever that of the row */
    double (*parts)(const struct perf *perf); /* of which each operation has so many; NULL: 1 */
};

/* What is compared with what the library reaches; limits.c. */
struct limit {
    const char *name;
    const char *doc;
    struct work work; /* where `before` asks rank 1 to take part, that is through mapped segments */
    bool all_ranks;   /* take part, and need the mappings of all */
};
enum limit_id {
    LIMIT_NONE,
    LIMIT_LINE_RTT,
    LIMIT_LINE_ECHO,
    LIMIT_LINE_STREAM,
    LIMIT_LINE_ROUNDS,
    LIMIT_LINE_HOP,
    LIMIT_BARE_BARRIER,
    LIMIT_COPY_LEAD,
    LIMIT_COPY_NEXT,
    LIMIT_STORE,
    LIMIT_LOAD,
    LIMIT_ATOMIC,
    LIMIT_CALL,
    LIMIT_MEMCPY_OUT,
    LIMIT_MEMCPY_IN,
    LIMIT_STRIDED_OUT,
    LIMIT_STRIDED_IN,
    LIMIT_VECTOR_OUT,
    LIMIT_VECTOR_IN,
    LIMIT_INDEXED_OUT,
    LIMIT_INDEXED_IN,
    LIMIT_MEMSET,
    LIMIT_CMA_WRITE,
    LIMIT_CMA_READ,
    LIMIT_DOUBLE_OUT,
    LIMIT_DOUBLE_IN,
    LIMIT_CMA_PRIVATE_WRITE,
    LIMIT_CMA_PRIVATE_READ,
    LIMIT_COUNT
};
extern const struct limit limits[LIMIT_COUNT];

/* What carries the payload of a pattern, where that has a largest size. */
enum carrier { CARRIER_ANY, CARRIER_MEDIUM, CARRIER_LONG };

/* What patterns have in common. */
struct kind {
    enum unit unit;
    enum carrier carrier;
    bool all_ranks;       /* every rank runs it; else rank 0 does, with rank 1 */
    bool endpoints;       /* needs more than one, or oneself: not over a connection */
    size_t least;         /* the smallest size that makes sense */
    size_t piece;         /* of scattered transfers, in bytes; else 0 */
    enum limit_id limit;  /* of sizes above 8 bytes */
    enum limit_id word;   /* of up to 8 bytes, if another one */
    enum limit_id second; /* shown beside it: CMA */
    bool either;          /* the limit is the better one of these two */
};

struct sizes {
    size_t sizes[5];
    size_t count; /* 1: --sizes does not apply */
};

struct pattern {
    const char *name;
    const struct kind *kind;
    const struct sizes *sizes; /* measured by default */
    const char *doc;
};
extern const struct pattern patterns[PATTERN_COUNT];

/* The names of units, and a time for `n` operations in the unit. */
extern const char *const unit_names[UNIT_COUNT];
double unit_from_ns(enum unit unit, double ns, size_t size, uint64_t n);

/* A cache line that two processes talk through. */
struct line {
    _Alignas(64) _Atomic uint64_t seq;
    unsigned char payload[56];
};
#define RING_LINES 256u
/* The ring of the double copy. */
#define FRAGMENTS      8u
#define FRAGMENT_BYTES ((size_t)32768)

/* The segment of ranks 0 and 1; the others have it without data. */
struct shared {
    struct line inbox;           /* the other rank writes, the owner reads */
    struct line consumed;        /* of the ring in the other rank's segment */
    struct line fragments;       /* how many the other rank has put into `fragment`, on and on */
    struct line fragments_taken; /* how many of ours the other rank has taken */
    struct line word;            /* target of atomics and of single stores */
    struct line arrived;         /* of rank 0: at the bare barrier of limits_all.c */
    struct line released;
    struct line ring[RING_LINES];
    _Alignas(64) uint64_t count; /* iterations of a pattern of all ranks; 0: go on */
    uint64_t limit;              /* of this limit, if it is not LIMIT_NONE */
    uint64_t pid;
    uint64_t maps_peer;  /* 1: the owner has the other rank's segment mapped */
    uint64_t operations; /* that rank 1 is to do in COMMAND_DOUBLE_OUT, _IN */
    _Alignas(4096) unsigned char fragment[FRAGMENTS][FRAGMENT_BYTES];
    _Alignas(4096) unsigned char data[]; /* two halves of max_size: arrivals, and replies */
};

/* What the peer is told, and answers with the number of floods that it has handled. */
enum command {
    COMMAND_NONE,
    COMMAND_COUNT,      /* only answer */
    COMMAND_END,        /* of a connection: nothing comes any more */
    COMMAND_NEXT,       /* take part in the pattern of all ranks, or go on to the next row */
    COMMAND_ECHO,       /* limits.c: answer lines */
    COMMAND_STREAM,     /* limits.c: consume lines */
    COMMAND_DOUBLE_OUT, /* limits_private.c: take a stream of fragments, or send one */
    COMMAND_DOUBLE_IN
};

/* What the handlers of this process have heard, through whatever interface. */
struct heard {
    uint64_t pongs;  /* answers */
    uint64_t tokens; /* of the ring */
    uint64_t floods, floods_in;
    uint64_t hellos;
    uint32_t answer; /* the last one to a command */
    enum command command;
    size_t command_size;
};
extern struct heard heard;

/* A programming interface that is measured. Failures end the job with a message. */
struct api {
    const char *name;
    const char *doc;
    void (*start)(struct perf *perf); /* join the job, talk_begin; fills in transport */
    /* Segments of perf->segment_size, and one of perf->target; fills in mine, peer_target,
     * neighbours. */
    void (*attach)(struct perf *perf);
    void (*finish)(struct perf *perf);
    void (*quit)(int code); /* end the job at once; does not return */
    size_t (*max_size)(enum carrier carrier);
    void (*barrier)(void);
    /* The segment of a rank, as that has it; and as mapped here, or NULL. */
    struct shared *(*segment)(unsigned rank, struct shared **mapped);
    void (*put_word)(unsigned rank, uint64_t *there, uint64_t value);
    uint64_t (*get_word)(unsigned rank, uint64_t *there);
    void (*ask)(struct perf *perf, enum command command, size_t size); /* the peer */
    void (*pass_token)(struct perf *perf);                             /* to the next rank */
    void (*until)(int (*over)(void *arg), void *arg);
    void (*look)(void);       /* end the program if the peer is gone; NULL: the job sees to that */
    const struct work *works; /* a row for each pattern */
};
extern const struct api api_aq, api_gasnet, api_connection;
extern const struct api *const apis[]; /* ended by NULL */

struct options {
    const struct api *api;
    enum pattern_id patterns[PATTERN_COUNT];
    size_t pattern_count;
    size_t sizes[64];
    size_t size_count; /* 0: each pattern's own */
    const char *transport;
    const char *json, *csv, *plot;
    const char *listen, *connect; /* URIs: measure over a connection, and not in a job */
    uint64_t repeats;
    unsigned threads; /* of a rank, in the patterns of floods */
    double min_time_ns;
    bool unpinned;
    bool all_pairs;
};

/* Fills in `*options`, or ends the program: code 0 after --help and the like, 2 for wrong usage. */
void options_parse(struct options *options, int argc, char **argv);
/* Whether this process may print before it has joined the job. */
bool options_is_first_rank(void);

struct result {
    const struct pattern *pattern;
    size_t size;
    double median, min, max;
    double limit, limit_min, limit_max; /* 0: there is none */
    const char *limit_name;
    double second; /* 0: there is none */
    const char *second_name;
};

/* measured / limit; 0 when there is no limit. */
double result_ratio(const struct result *result);

struct perf {
    struct options options;
    const struct api *api;
    unsigned rank, ranks;
    unsigned peer;         /* of the pair patterns: of rank 0 rank 1 if there is one, else rank 0 */
    unsigned neighbours;   /* ranks that can share memory, with us */
    const char *transport; /* that reaches the peer */
    int cores;             /* that this process may use */
    bool crowded;          /* more ranks than cores */
    bool pinned;
    size_t max_size; /* of any row */
    size_t segment_size;
    struct shared *mine;
    struct shared *theirs;    /* rank 0: the peer's as mapped here, rank 1: rank 0's; or NULL */
    bool both_map;            /* both of the pair have the other's segment mapped */
    bool all_map;             /* all ranks have all segments mapped */
    struct shared *next;      /* the segment of the rank after ours, if all_map */
    struct shared *peer_addr; /* the peer's segment in its own address space */
    struct shared *lead_addr; /* rank 0's, where Long replies go */
    uint64_t peer_pid;
    const char *no_cma;             /* why CMA is not measured; NULL: it is */
    unsigned char *source, *target; /* private memory of max_size */
    unsigned char *peer_target;     /* the peer's, in its own address space */
    struct result *results;
    size_t result_count;
};

/* measure.c: one row. Every rank calls it for every row, in the same order. */
void measure_row(struct perf *perf, enum pattern_id pattern, size_t size);
/* Instead, behind --listen: take part in whatever rows rank 0 measures, until it closes. */
void measure_answer(struct perf *perf);
/* Why this row cannot be measured, in `text`; false if it can. */
bool measure_skips(struct perf *perf, enum pattern_id pattern, size_t size, char *text, size_t len);
/* Can it be measured over a connection? */
bool measure_connects(const struct kind *kind);
double measure_now_ns(void);

/* talk.c: what is the same through any interface. In `start`: who we are and whom we talk to. */
void talk_begin(struct perf *perf, unsigned rank, unsigned ranks);
/* After `attach`: learn where all segments are. */
void talk_meet(struct perf *perf);
/* A command has come; returns what to answer. */
uint32_t talk_hear(enum command command, size_t size);
/* Rank 1: wait for a command other than COMMAND_COUNT. */
enum command talk_await(struct perf *perf, size_t *size);
/* In all ranks: how many operations of the pattern come, or of the limit if there is one. */
void talk_set_count(struct perf *perf, uint64_t n, enum limit_id limit);
loop_fn talk_ring, talk_await_floods, talk_await_in, talk_barriers;
double talk_ring_hops(const struct perf *perf), talk_senders(const struct perf *perf);
/* Where collectives have their arrivals, and the block of each rank if all have `size` bytes. */
unsigned char *talk_arrivals(const struct perf *perf);
size_t talk_block(const struct perf *perf, size_t size);

/* limits.c: rank 1 does what the limit needs of it until rank 0 ends it. */
void limits_serve(struct perf *perf, enum command command, size_t size);
void limits_probe_cma(struct perf *perf);
/* What the loops of limits.c and limits_private.c share. */
extern void *(*volatile limits_copy)(void *, const void *, size_t);
void limits_wait_turn(const struct perf *perf, unsigned *turns);
/* Move `size` bytes between `here` and `there` of the peer; 0, or an errno value. */
int limits_cma(const struct perf *perf, bool write, void *here, void *there, size_t size);
/* limits_private.c */
loop_fn limits_begin_out, limits_begin_in, limits_copy_out, limits_copy_in;
loop_fn limits_cma_private_write, limits_cma_private_read;
void limits_serve_double(struct perf *perf, enum command command, size_t size);
/* The limit of a row; LIMIT_NONE if it cannot be measured here. */
enum limit_id limits_for(const struct perf *perf, const struct pattern *pattern, size_t size);

/* scatter.c: of a row of scattered transfers, its pieces in each form that a call may want. */
struct piece {
    void *addr;
    size_t len;
};
struct pieces {
    unsigned char *base;
    ptrdiff_t step;
    void **at;
    struct piece *vecs;
};
struct scatter {
    size_t len, count;
    struct pieces there, mapped; /* the peer's, by its addresses and by ours */
    struct pieces source, target;
};
extern struct scatter row_pieces;
/* Its rows in a table of works. */
#define SCATTERED_WORK(id, fn)                                                                     \
    [id] = {.loop = fn}, [id##_64] = {.loop = fn}, [id##_512] = {.loop = fn}
void scatter_begin(struct perf *perf, size_t piece, size_t size);
loop_fn limits_strided_out, limits_strided_in, limits_vector_out, limits_vector_in;
loop_fn limits_indexed_out, limits_indexed_in;

/* limits_all.c: every rank calls them. */
loop_fn limits_bare_barrier, limits_copy_from_lead, limits_copy_from_next;

/* report.c and plot.c, in rank 0. Files are opened early, so that a bad name costs no time. */
void report_begin(const struct perf *perf);
void report_progress(const struct pattern *pattern, size_t size);
void report_row(const struct result *result);
void report_skip(const struct pattern *pattern, size_t size, const char *why);
void report_end(const struct perf *perf);
void report_list(void);
/* A size as people write it: "8", "4K". */
const char *report_size(size_t size, char text[static 16]);
struct outputs;
struct outputs *outputs_open(const struct options *options);
/* 0, or -1 after a message when a file could not be written. */
int outputs_write(struct outputs *outputs, const struct perf *perf);

#endif
