/*
 * Shared by the parts of aqperf: the job in which it runs, the patterns, and the results.
 *
 * Either rank 0 leads and rank 1 answers ("pair" patterns), or all ranks take part; idle ranks
 * wait in a barrier. A pattern is a row in patterns.c plus a loop in each API back end (api_aq.c);
 * limits.c measures the machine's limit for comparison.
 */
#ifndef AQPERF_PERF_H
#define AQPERF_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MAX_THREADS   64u /* threads per rank */
#define MAX_SIZE      ((size_t)1 << 30)
#define MAX_INTERVALS 16u

enum unit {
    UNIT_NS,   /* ns per operation: less is better */
    UNIT_RATE, /* million messages per second */
    UNIT_BANDWIDTH,
    UNIT_COUNT
};

struct perf;

/* Messages without the library have at least a word. */
enum { WORD = 8 };
static inline size_t at_least_word(size_t size)
{
    return size < WORD ? WORD : size;
}

/* Perform `n` operations of `size` bytes. */
typedef void loop_fn(struct perf *perf, size_t size, uint64_t n);

/*
 * Define a loop of one statement, followed by a wait for all operations; `pongs` is the number of
 * answers before the loop.
 */
#define LOOP(name, after, ...)                                                                     \
    void name(struct perf *perf, size_t size, uint64_t n)                                          \
    {                                                                                              \
        const uint64_t pongs = received_count(&received.pongs);                                    \
        (void)perf, (void)size, (void)pongs;                                                       \
        for (uint64_t i = 0; i < n; i++)                                                           \
            __VA_ARGS__;                                                                           \
        after;                                                                                     \
    }

/* The target of puts and gets, as arguments of calls: rank and address. */
#define AT_PEER      perf->peer, perf->peer_addr->data
#define FROM_PEER    perf->peer, perf->target, perf->peer_addr->data
#define WORD_AT_PEER perf->peer, (void *)&perf->peer_addr->word.seq
#define WORD_AT_LEAD 0, (void *)&perf->lead_addr->word.seq

/* The loop of a pattern or limit, and its properties. */
struct work {
    loop_fn *loop;
    loop_fn *before; /* not timed */
    loop_fn *serve;  /* run by rank 1 concurrently, if it has a part */
    loop_fn *after;  /* timed: until all operations are complete */
    bool all_ranks;  /* run by all ranks; otherwise by rank 0, with rank 1 */
    bool threads;    /* the threads of --threads share the loop */
    bool bare;       /* the size is always 0 */
    double (*parts)(const struct perf *perf); /* units per operation; NULL: 1 */
};

/* The limits of ranks that share no memory, for each kind of connection. */
enum plain_limit {
    PLAIN_RTT,
    PLAIN_ECHO,
    PLAIN_ROUNDS,
    PLAIN_HOP,
    PLAIN_OUT,
    PLAIN_IN,
    PLAIN_STREAM_OUT,
    PLAIN_STREAM_IN,
    PLAIN_ANSWER,
    PLAIN_HALO,
    PLAIN_COUNT
};
enum limit_id {
    LIMIT_NONE,
    LIMIT_LINE_RTT,
    LIMIT_LINE_ECHO,
    LIMIT_LINE_ANSWER,
    LIMIT_LINE_STREAM,
    LIMIT_LINE_ROUNDS,
    LIMIT_LINE_HOP,
    LIMIT_BARE_BARRIER,
    LIMIT_COPY_LEAD,
    LIMIT_COPY_NEXT,
    LIMIT_STORE,
    LIMIT_LOAD,
    LIMIT_ATOMIC,
    LIMIT_ATOMIC_RANDOM,
    LIMIT_ATOMIC_SHARED,
    LIMIT_HALO,
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
    LIMIT_SOCKET,
    LIMIT_OFI = LIMIT_SOCKET + PLAIN_COUNT,
    LIMIT_IBV = LIMIT_OFI + PLAIN_COUNT,
    LIMIT_FI_TAGGED_RTT = LIMIT_IBV + PLAIN_COUNT, /* measured by --api fi */
    LIMIT_FI_MSG_RTT,
    LIMIT_FI_STREAM,
    LIMIT_FI_WRITE,
    LIMIT_FI_READ,
    LIMIT_FI_WRITES,
    LIMIT_FI_READS,
    LIMIT_CCI_RTT, /* measured by --api cci */
    LIMIT_CCI_STREAM,
    LIMIT_CCI_WRITE,
    LIMIT_CCI_READ,
    LIMIT_CCI_WRITES,
    LIMIT_CCI_READS,
    LIMIT_COUNT
};

/* The limits with which the library is compared; limits.c. */
struct limit {
    const char *name;
    const char *doc; /* for --list; NULL or "": not listed */
    /*
     * With rank 1, it uses mapped segments or sockets. With all ranks, it requires that the
     * segments of all are mapped.
     */
    struct work work;
    enum limit_id alone, many; /* without shared memory: one operation at a time; many in flight */
};
extern const struct limit limits[LIMIT_COUNT];

/* The kind of message that carries the payload, if that has a maximum size. */
enum carrier { CARRIER_ANY, CARRIER_MEDIUM, CARRIER_LONG };

/* The ranks that compute, for the time given by --interval. */
enum computing {
    COMPUTING_NEVER,
    COMPUTING_TARGET, /* rank 1, between polls */
    COMPUTING_BEFORE, /* rank 0, before each operation; not timed */
    COMPUTING_ALL     /* all ranks, within each operation */
};

/* APIs that are not Aqueduct's, and are compared with it. */
enum foreign { FOREIGN_NONE, FOREIGN_FI, FOREIGN_CCI, FOREIGN_COUNT };

/* Properties common to several patterns. */
struct kind {
    enum unit unit;
    enum carrier carrier;
    enum computing computing;
    struct work work; /* without the loop, which is in struct pattern */
    bool turns;       /* uses all connections of --connections in turn */
    bool endpoints;   /* needs several endpoints or messages to itself: not over a connection */
    size_t min_size;
    size_t moved;                         /* bytes moved by an operation, if not `size` */
    size_t places;                        /* number of areas of `size` bytes in a segment; 0: two */
    enum limit_id limit;                  /* for sizes above 8 bytes */
    enum limit_id word;                   /* for up to 8 bytes, if different */
    enum limit_id second;                 /* shown as well: CMA */
    bool either;                          /* the limit is the better of `limit` and `second` */
    enum limit_id foreign[FOREIGN_COUNT]; /* through these APIs; LIMIT_NONE: not applicable */
};

struct sizes {
    size_t sizes[5];
    size_t count; /* 1: --sizes does not apply */
    size_t piece; /* bytes of a piece of scattered transfers; otherwise 0 */
};

struct pattern {
    const char *name;
    const struct kind *kind;
    const struct sizes *sizes; /* measured by default */
    loop_fn *aq, *gasnet;      /* by API */
    const char *doc;
};
enum { PATTERN_COUNT = 74 };
extern const struct pattern patterns[PATTERN_COUNT];

struct row {
    const struct pattern *pattern;
    size_t size;
    double interval_ns; /* interval of computing; 0: none */
};

/* The names of the units, and the conversion of a time for `n` operations. */
extern const char *const unit_names[UNIT_COUNT];
double unit_from_ns(enum unit unit, double ns, size_t size, uint64_t n);

/* A cache line for communication between two processes. */
struct line {
    _Alignas(64) _Atomic uint64_t seq;
    unsigned char payload[56];
};
#define RING_LINES     256u  /* lines in use while both ranks poll continuously */
#define RING_LINES_FAR 4096u /* lines in use while one rank computes */
/* The ring of the double copy. */
#define FRAGMENTS         8u
#define FRAGMENT_BYTES    ((size_t)32768)
#define FABRIC_CARD_WORDS 34u /* data for the peer: address and memory */

/* The segment of ranks 0 and 1. Other ranks have one without `data`. */
struct shared {
    struct line inbox;     /* written by the other rank, read by the owner */
    struct line consumed;  /* number of lines that the other rank has consumed from its own ring */
    struct line fragments; /* number of fragments that the other rank has stored in `fragment` */
    struct line fragments_taken; /* number of this rank's fragments that the other rank has taken */
    struct line word;            /* target of atomics and of single stores */
    struct line arrived;         /* in rank 0: arrivals at the plain barrier of limits_all.c */
    struct line released;
    struct line row[2]; /* steps of the previous and the next rank, for LIMIT_HALO */
    struct line ring[RING_LINES_FAR];
    _Alignas(64) uint64_t count; /* operations of a pattern of all ranks; 0: the row is complete */
    uint64_t limit;              /* or of this limit, unless it is LIMIT_NONE */
    uint64_t pid;
    uint64_t maps_peer;  /* 1: the owner has mapped the other rank's segment */
    uint64_t operations; /* of a limit in which rank 1 takes part */
    uint64_t settled;    /* in rank 0: number of fabric loops that rank 1 has finished */
    uint64_t socket;     /* address of the socket of limits_socket.c; 0: none */
    uint64_t card[FABRIC_CARD_WORDS];
    _Alignas(4096) unsigned char fragment[FRAGMENTS][FRAGMENT_BYTES];
    _Alignas(4096) unsigned char data[]; /* two halves of max_size: for arrivals, for replies */
};

/* Commands for the peer, which answers with the number of flood messages it has handled. */
enum command {
    COMMAND_NONE,
    COMMAND_COUNT,   /* only answer */
    COMMAND_COMPUTE, /* compute for this many ns between polls; 0: poll continuously */
    COMMAND_END,     /* connections: no more commands follow */
    COMMAND_NEXT,    /* join the pattern of all ranks, or continue with the next row */
    COMMAND_LIMIT    /* plus the number of a limit: perform rank 1's part */
};

/* The messages received by handlers of this process, which may run in another thread. */
struct received {
    uint64_t pongs;  /* answers */
    uint64_t tokens; /* of the ring */
    uint64_t floods, floods_in;
    uint64_t rows[2]; /* rows from the previous and the next rank */
    uint64_t hellos;
    uint32_t answer; /* the last answer to a command */
    enum command command;
    size_t command_size;
    uint64_t computes_ns;
    bool concurrent; /* several threads may run handlers concurrently */
};
extern struct received received;

/* An API to measure. Failures end the job with a message. */
struct api {
    const char *name;
    const char *doc;
    void (*start)(struct perf *perf); /* join the job and call talk_begin; sets `transport` */
    /* Attach segments of perf->segment_size, and one for perf->target; sets mine, peer_target and
     * neighbors. */
    void (*attach)(struct perf *perf);
    void (*finish)(void);
    void (*quit)(int code); /* end the job immediately; does not return */
    size_t (*max_size)(enum carrier carrier);
    void (*barrier)(void);
    /* The segment of a rank in its own address space, and its mapping here, or NULL. */
    struct shared *(*segment)(unsigned rank, struct shared **mapped);
    void (*put_word)(unsigned rank, uint64_t *there, uint64_t value);
    uint64_t (*get_word)(unsigned rank, uint64_t *there);
    void (*ask)(struct perf *perf, enum command command, size_t size); /* the peer */
    void (*pass_token)(struct perf *perf);                             /* to the next rank */
    void (*until)(int (*done)(void *arg), void *arg);
    void (*poll)(void);
    void (*check_peer)(void); /* end the program if the peer is gone; NULL: the job does that */
    enum foreign foreign;
};
extern const struct api api_aq, api_gasnet, api_fi, api_cci, api_connection;
extern const struct api *const apis[]; /* NULL-terminated */

/* The loops of the patterns, for both APIs. */
#define BOTH(name) api_aq_##name, api_gasnet_##name
loop_fn BOTH(short_rtt), BOTH(medium_rtt), BOTH(long_rtt), BOTH(self_rtt), BOTH(self_reply_rtt);
loop_fn BOTH(short_pairs), BOTH(medium_pairs), BOTH(long_pairs), BOTH(poll_empty);
loop_fn BOTH(shorts), BOTH(mediums), BOTH(reserved), BOTH(longs), BOTH(shorts_in);
loop_fn BOTH(put), BOTH(put_self), BOTH(put_value), BOTH(put_nbi), BOTH(put_events);
loop_fn BOTH(get_events), BOTH(fetch_add_shared);
loop_fn BOTH(get), BOTH(get_value), BOTH(get_nbi), BOTH(memset), BOTH(put_private);
loop_fn BOTH(get_private), BOTH(fetch_add), BOTH(cas), BOTH(add_double), BOTH(add);
loop_fn BOTH(strided_put), BOTH(strided_get), BOTH(vector_put), BOTH(vector_get);
loop_fn BOTH(indexed_put), BOTH(indexed_get), BOTH(team_split), BOTH(bcast), BOTH(reduce);
loop_fn BOTH(allreduce), BOTH(gather), BOTH(allgather), BOTH(scatter), BOTH(alltoall);
loop_fn BOTH(updates), BOTH(halo), BOTH(steal_rtt);
loop_fn api_aq_turns_rtt;
/* Run by both ranks. */
loop_fn api_fi_tagged_rtt, api_fi_msg_rtt, api_fi_stream, api_fi_write, api_fi_read;
loop_fn api_fi_writes, api_fi_reads;
loop_fn api_cci_rtt, api_cci_stream, api_cci_write, api_cci_read, api_cci_writes, api_cci_reads;

struct options {
    const struct api *api;
    const struct pattern *patterns[PATTERN_COUNT];
    size_t pattern_count;
    size_t sizes[64];
    size_t size_count; /* 0: each pattern's default */
    double intervals_ns[MAX_INTERVALS];
    size_t interval_count;
    const char *json, *csv, *plot;
    const char *listen, *connect; /* URIs: measure over a connection instead of in a job */
    unsigned repeats;             /* samples per row */
    unsigned connections;         /* number of connections of --connect */
    unsigned threads;             /* threads per rank in flood patterns */
    double min_time_ns;
    bool unpinned;
    bool all_pairs;
};

/* Fill in `*options`. Ends the program with code 0 after --help etc., or with 2 after an error. */
void options_parse(struct options *options, int argc, char **argv);

struct result {
    struct row row;
    double median, min, max;
    double limit, limit_min, limit_max; /* 0: no limit */
    const char *limit_name;
    double second; /* 0: no second limit */
    const char *second_name;
};

/* measured / limit; 0 if there is no limit. */
double result_ratio(const struct result *result);

/* A rank, with its segment in its own address space and its mapping here, or NULL. */
struct place {
    unsigned rank;
    struct shared *addr, *mapped;
};

struct perf {
    struct options options;
    const struct api *api;
    unsigned rank, ranks;
    unsigned peer; /* peer in pair patterns: for rank 0, rank 1 if there is one; otherwise rank 0 */
    unsigned neighbors;    /* number of ranks that share memory with this one */
    const char *transport; /* that reaches the peer */
    int cores;             /* number of cores that this process may use */
    bool oversubscribed;   /* more ranks than cores */
    bool pinned;
    bool progress_thread;
    size_t max_size; /* maximum size of all rows */
    size_t segment_size;
    struct shared *mine;
    struct shared *theirs;    /* rank 0: the peer's as mapped here, rank 1: rank 0's; or NULL */
    bool both_map;            /* both ranks of the pair have mapped the other's segment */
    enum limit_id plain;      /* first limit for the connection of the pair, or LIMIT_NONE */
    bool all_map;             /* all ranks have mapped all segments */
    struct place beside[2];   /* the previous and the next rank */
    struct shared *peer_addr; /* the peer's segment, in its own address space */
    struct shared *lead_addr; /* rank 0's segment, for Long replies */
    uint64_t peer_pid;
    double interval_ns;             /* of this row */
    double target_computes_ns;      /* in this row, between polls; in ranks 0 and 1 */
    const char *no_cma;             /* why CMA is not measured; NULL: it is measured */
    unsigned char *source, *target; /* private memory of max_size */
    unsigned char *peer_target;     /* the peer's `target`, in its own address space */
    struct result *results;
    size_t result_count, row_count;
};

/* measure.c: measure one row. Every rank calls it for every row, in the same order. */
void measure_row(struct perf *perf, const struct row *row);
/*
 * For --listen, called instead: take part in the rows that rank 0 measures, until it closes the
 * connection.
 */
void measure_answer(struct perf *perf);
/* Whether this row cannot be measured; if so, the reason is in `text`. */
bool measure_skips(struct perf *perf, const struct row *row, char *text, size_t len);
/* Whether the API has patterns of this kind; if not, the reason is in `text`. */
bool measure_supports(const struct api *api, const struct kind *kind, char *text, size_t len);
double measure_now_ns(void);
/* The value of a setting of the library. */
const char *measure_setting(const char *name);

/* main.c: memory for `count` items, to be freed; ends the job if there is none. */
void *perf_memory(struct perf *perf, size_t count, size_t size);

/* compute.c: use the CPU for this long. */
void compute_for(double ns);

static inline void received_add(uint64_t *count)
{
    if (received.concurrent)
        __atomic_fetch_add(count, 1, __ATOMIC_RELEASE);
    else
        ++*count;
}

static inline uint64_t received_count(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

/* talk.c: common to all APIs. Called by `start`: sets this rank and its peer. */
void talk_begin(struct perf *perf, unsigned rank, unsigned ranks);
/* Called after `attach`: exchange the addresses of all segments. */
void talk_exchange_addresses(struct perf *perf);
/* Handle a command; returns the answer. */
uint32_t talk_handle(enum command command, size_t size);
/* Rank 1: wait for a command other than COMMAND_COUNT. */
enum command talk_await(struct perf *perf, size_t *size);
/* Set, in all ranks, the number of operations of the pattern, or of the limit if there is one. */
void talk_set_count(struct perf *perf, uint64_t n, enum limit_id limit);
loop_fn talk_ring, talk_await_floods, talk_await_in, talk_barriers;
double talk_ring_hops(const struct perf *perf), talk_senders(const struct perf *perf);
/* The destination of collectives, and the source of halo rows: half of this rank's data. */
unsigned char *talk_second_half(const struct perf *perf);
/* The block of each rank if `size` bytes are divided among all. */
size_t talk_block(const struct perf *perf, size_t size);
/* The destination of a halo row in the rank on that side. */
unsigned char *talk_row_at(const struct perf *perf, unsigned side);
/* Wait for the rows of the next step from both sides. */
void talk_await_rows(struct perf *perf);
/* A random other rank, and the offset of a random word in `size` bytes of its data. */
struct place talk_random_place(struct perf *perf, size_t size, size_t *offset);

/* limits.c: rank 0 requests rank 1's part of a limit, if it has one, and rank 1 performs it. */
void limits_ask(struct perf *perf, enum limit_id id, size_t size, uint64_t n);
void limits_serve(struct perf *perf, unsigned id, size_t size);
/* Rank 0, after its own timed part: wait until rank 1 has completed its part. */
void limits_settle(struct perf *perf, enum limit_id id);
void limits_probe_cma(struct perf *perf);
/* Shared by limits.c and limits_private.c. */
extern void *(*volatile limits_copy)(void *, const void *, size_t);
void limits_empty_poll(const struct perf *perf, unsigned *polls);
/* The same outside Aqueduct. Periodically makes progress with it as well: its last message may
 * still have to be sent. */
void limits_foreign_poll(const struct perf *perf, unsigned *polls);
/* Transfer `size` bytes between `here` and the peer's `there`; returns 0 or an errno value. */
int limits_cma(const struct perf *perf, bool write, void *here, void *there, size_t size);
/* limits_private.c */
loop_fn limits_double_out, limits_double_in, limits_cma_private_write, limits_cma_private_read;
/*
 * limits_socket.c: limits_open_socket opens a socket if it may be needed, and returns its address
 * (loopback network and port), or 0. limits_connect_socket returns whether it reaches the peer's
 * socket, which must be on this host.
 */
uint64_t limits_open_socket(const struct perf *perf);
bool limits_connect_socket(struct perf *perf, uint64_t place);
loop_fn limits_socket_echo, limits_socket_out, limits_socket_in, limits_socket_stream_out;
loop_fn limits_socket_stream_in, limits_socket_answer, limits_socket_halo;
/* Whether the socket's buffer has room for the rows of a halo. */
bool limits_socket_takes(size_t size);
/* limits_fabric.c: if a transport over a fabric reaches the peer, prepare the data for it. */
void limits_open_fabric(const struct perf *perf, uint64_t card[FABRIC_CARD_WORDS]);
/* Returns the first of the fabric's limits, or LIMIT_NONE. */
enum limit_id limits_connect_fabric(struct perf *perf, const uint64_t card[FABRIC_CARD_WORDS]);
/* Whether the fabric can transfer this size. */
bool limits_fabric_takes(size_t size);
/*
 * Called in both ranks after a loop: the delivery of rank 1's messages may require calls in both
 * ranks, so neither continues with the library before that.
 */
void limits_fabric_settle(struct perf *perf);
void limits_close_fabric(void);
loop_fn limits_fabric_echo, limits_fabric_out, limits_fabric_in, limits_fabric_stream_out;
loop_fn limits_fabric_stream_in, limits_fabric_answer, limits_fabric_halo;
/* The limit of a row; LIMIT_NONE if it cannot be measured here. */
enum limit_id limits_for(const struct perf *perf, const struct pattern *pattern, size_t size);

/* scatter.c: the pieces of a scattered transfer, in each form that calls require. */
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
    struct pieces there, mapped; /* the peer's, by its addresses and by our mappings */
    struct pieces source, target;
};
extern struct scatter row_pieces;
void scatter_begin(struct perf *perf, size_t piece, size_t size);
loop_fn limits_strided_out, limits_strided_in, limits_vector_out, limits_vector_in;
loop_fn limits_indexed_out, limits_indexed_in;

/* limits_all.c: called by all ranks. */
loop_fn limits_bare_barrier, limits_copy_from_lead, limits_copy_from_next, limits_halo;
loop_fn limits_random, limits_shared_word;

/*
 * report.c and plot.c, in rank 0. Files are opened before the measurements, to detect invalid
 * names early.
 */
void report_begin(const struct perf *perf);
void report_progress(const struct row *row);
void report_row(const struct result *result);
void report_skip(const struct row *row, const char *why);
void report_end(const struct perf *perf);
void report_list(void);
/* Format a size: "8", "4K". */
const char *report_size(size_t size, char text[static 16]);
/* Format a time: "100us", "1ms". */
const char *report_time(double ns, char text[static 16]);
struct outputs;
struct outputs *outputs_open(const struct options *options);
/* Returns 0, or -1 after printing a message if a file could not be written. */
int outputs_write(struct outputs *outputs, const struct perf *perf);
/* Draw all results as one self-contained SVG picture. */
void plot_write(FILE *out, const struct perf *perf);

#endif
