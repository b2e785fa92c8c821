/*
 * The limits of the machine, measured in the same run and between the same cores, but without the
 * library: the two ranks communicate through plain memory in their mapped segments.
 */
#include "perf.h"
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>

/* Set in the last message of a limit's loop, and makes rank 1 leave its loop. */
#define STOP ((uint64_t)1 << 63)

/* Called through volatile pointers, so that no copy is inlined or optimized away. */
void *(*volatile limits_copy)(void *, const void *, size_t) = memcpy;
static void *(*volatile limits_set)(void *, int, size_t) = memset;
static void do_nothing(void)
{
}
static void (*volatile limits_call)(void) = do_nothing;

/* Sequence numbers continue across loops, so nothing is reset. */
static uint64_t line_seq, ring_seq, ring_consumed;

/*
 * Called after each empty poll of a wait. Yields after many, or sooner if there are more ranks than
 * cores, since the other rank may need this core.
 */
void limits_empty_poll(const struct perf *perf, unsigned *polls)
{
    unsigned interval = perf->oversubscribed ? 256 : 16384;
    if (perf->rank == 1 && perf->target_computes_ns > 0) compute_for(perf->target_computes_ns);
    if (++*polls % interval != 0) return;
    sched_yield();
    if (perf->api->check_peer != NULL) perf->api->check_peer();
}

void limits_foreign_poll(const struct perf *perf, unsigned *polls)
{
    limits_empty_poll(perf, polls);
    if (*polls % 4096 == 0 || perf->target_computes_ns > 0) perf->api->poll();
}

static void send_line(struct perf *perf, const void *from, size_t size, uint64_t seq)
{
    struct shared *there = perf->theirs;
    if (size > 0) {
        void *to = size <= sizeof there->inbox.payload ? there->inbox.payload : there->data;
        limits_copy(to, from, size);
    }
    atomic_store_explicit(&there->inbox.seq, seq, memory_order_release); /* for await_line */
}

/* Wait until the sequence number differs from `old`; pairs with the release in send_line. */
static uint64_t await_line(struct perf *perf, uint64_t old)
{
    uint64_t seq;
    unsigned polls = 0;
    while ((seq = atomic_load_explicit(&perf->mine->inbox.seq, memory_order_acquire)) == old)
        limits_empty_poll(perf, &polls);
    return seq;
}

/*
 * Send one line to rank 1 and back. The last one is answered as well, so that rank 1 has left its
 * loop before the next command.
 */
static void round_trip(struct perf *perf, size_t size, uint64_t flag)
{
    send_line(perf, perf->source, size, ((line_seq & ~STOP) + 1) | flag);
    line_seq = await_line(perf, line_seq);
}

static void echo(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        round_trip(perf, size, 0);
    round_trip(perf, size, STOP);
}

/* The first echo only shows that rank 1 is ready. */
static void begin_echo(struct perf *perf, size_t size, uint64_t n)
{
    (void)n;
    round_trip(perf, size, 0);
}

static void begin_answer(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    begin_echo(perf, 0, n);
}

static void serve_echo(struct perf *perf, size_t size, uint64_t n)
{
    (void)n; /* the last message is marked */
    struct shared *here = perf->mine;
    const void *payload = size <= sizeof here->inbox.payload ? here->inbox.payload : here->data;
    do {
        line_seq = await_line(perf, line_seq);
        send_line(perf, payload, size, line_seq);
    } while ((line_seq & STOP) == 0);
}

/* Only rank 1 sends the payload. */
static void answer(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    echo(perf, 0, n);
}

static double two(const struct perf *perf)
{
    (void)perf;
    return 2;
}

/* A dissemination barrier has ceil(log2(ranks)) rounds of half a round trip each. */
static double rounds_in_rtt(const struct perf *perf)
{
    unsigned rounds = 0;
    while ((1u << rounds) < perf->ranks)
        rounds++;
    return 2.0 / rounds;
}

/*
 * The number of lines in use, a power of two: sufficient for the time for which the other rank
 * computes, but at most 4 MB with their payloads.
 */
static uint64_t ring_lines(const struct perf *perf, size_t size)
{
    if (perf->target_computes_ns == 0) return RING_LINES;
    uint64_t lines = RING_LINES_FAR;
    while (lines > 16 && lines * size > (uint64_t)4 << 20)
        lines /= 2;
    return lines;
}

static void stream_one(struct perf *perf, size_t size, uint64_t flag)
{
    struct shared *there = perf->theirs;
    unsigned polls = 0;
    const uint64_t lines = ring_lines(perf, size);
    while (ring_seq - ring_consumed >= lines) {
        /* pairs with the release in serve_stream */
        ring_consumed = atomic_load_explicit(&perf->mine->consumed.seq, memory_order_acquire);
        limits_empty_poll(perf, &polls);
    }
    struct line *line = &there->ring[ring_seq & (lines - 1)];
    if (size > 0 && size <= sizeof line->payload) {
        limits_copy(line->payload, perf->source, size);
    } else if (size > 0) {
        size_t places = perf->max_size / size < 16 ? perf->max_size / size : 16;
        limits_copy(there->data + ring_seq % places * size, perf->source, size);
    }
    ring_seq++;
    atomic_store_explicit(&line->seq, ring_seq | flag, memory_order_release); /* for serve_stream */
}

static void stream_drain(struct perf *perf)
{
    unsigned polls = 0;
    while (ring_consumed != ring_seq) {
        ring_consumed = atomic_load_explicit(&perf->mine->consumed.seq, memory_order_acquire);
        limits_empty_poll(perf, &polls);
    }
}

static void stream(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        stream_one(perf, size, 0);
    stream_one(perf, size, STOP);
    stream_drain(perf);
}

static void serve_stream(struct perf *perf, size_t size, uint64_t n)
{
    (void)n;
    struct shared *here = perf->mine;
    const uint64_t lines = ring_lines(perf, size);
    for (uint64_t seq = 0; (seq & STOP) == 0;) {
        struct line *line = &here->ring[ring_consumed & (lines - 1)];
        unsigned polls = 0;
        /* pairs with the release in stream_one */
        while (((seq = atomic_load_explicit(&line->seq, memory_order_acquire)) & ~STOP) !=
               ring_consumed + 1)
            limits_empty_poll(perf, &polls);
        ring_consumed++;
        if ((ring_consumed & (lines / 4 - 1)) == 0 || (seq & STOP) != 0) /* stream_one, _drain */
            atomic_store_explicit(&perf->theirs->consumed.seq, ring_consumed, memory_order_release);
    }
}

void limits_ask(struct perf *perf, enum limit_id id, size_t size, uint64_t n)
{
    const struct work *work = &limits[id].work;
    if (work->serve == NULL) return;
    perf->api->put_word(perf->peer, &perf->peer_addr->operations, n);
    perf->api->ask(perf, (enum command)(COMMAND_LIMIT + (unsigned)id), work->bare ? 0 : size);
}

void limits_serve(struct perf *perf, unsigned id, size_t size)
{
    if (id >= LIMIT_COUNT || limits[id].work.serve == NULL) return;
    limits[id].work.serve(perf, size, perf->mine->operations);
    limits_settle(perf, (enum limit_id)id);
}

void limits_settle(struct perf *perf, enum limit_id id)
{
    if (limits[id].work.serve != NULL) limits_fabric_settle(perf);
}

/*
 * The memory that limits of one-sided operations access: the peer's if it is mapped, otherwise
 * this rank's.
 */
static struct shared *place(struct perf *perf)
{
    return perf->theirs != NULL ? perf->theirs : perf->mine;
}

static loop_fn call, copy_out, copy_in, set_bytes, cma_write, cma_read;
LOOP(call, , limits_call())
LOOP(copy_out, , limits_copy(place(perf)->data, perf->source, size))
LOOP(copy_in, , limits_copy(perf->target, place(perf)->data, size))
LOOP(set_bytes, , limits_set(place(perf)->data, (int)i, size))

static void store_words(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    volatile uint64_t *word = (uint64_t *)(void *)place(perf)->data;
    for (uint64_t i = 0; i < n; i++)
        *word = i;
}

static void load_words(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    volatile uint64_t *word = (uint64_t *)(void *)place(perf)->data;
    for (uint64_t i = 0; i < n; i++)
        (void)*word;
}

static void add_words(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    _Atomic uint64_t *word = &place(perf)->word.seq;
    for (uint64_t i = 0; i < n; i++)
        atomic_fetch_add(word, 1);
}

int limits_cma(const struct perf *perf, bool write, void *here, void *there, size_t size)
{
    for (size_t done = 0; done < size;) {
        struct iovec local = {(unsigned char *)here + done, size - done};
        struct iovec remote = {(unsigned char *)there + done, size - done};
        ssize_t moved = write ? process_vm_writev((pid_t)perf->peer_pid, &local, 1, &remote, 1, 0)
                              : process_vm_readv((pid_t)perf->peer_pid, &local, 1, &remote, 1, 0);
        if (moved <= 0) return moved < 0 ? errno : EIO;
        done += (size_t)moved;
    }
    return 0;
}

static int cma(struct perf *perf, bool write, size_t size)
{
    return limits_cma(perf, write, write ? perf->source : perf->target, perf->peer_addr->data,
                      size);
}

/* limits_probe_cma has detected errors. */
LOOP(cma_write, , (void)cma(perf, true, size))
LOOP(cma_read, , (void)cma(perf, false, size))

void limits_probe_cma(struct perf *perf)
{
    perf->no_cma = "the peer is reached over a network";
    if (perf->plain != LIMIT_NONE) return;
    int error = cma(perf, true, 8);
    if (error == 0) error = cma(perf, false, 8);
    perf->no_cma = error == 0 ? NULL : strerror(error);
}

static enum limit_id plain(const struct perf *perf, const struct kind *kind, enum limit_id id)
{
    bool alone = kind->limit == LIMIT_CALL || (kind->endpoints && !kind->either);
    if (perf->plain == LIMIT_NONE || alone) return id;
    enum limit_id found = kind->unit == UNIT_NS ? limits[id].alone : limits[id].many;
    return found == LIMIT_NONE ? found : found - LIMIT_SOCKET + perf->plain;
}

enum limit_id limits_for(const struct perf *perf, const struct pattern *pattern, size_t size)
{
    enum limit_id id =
        size <= 8 && pattern->kind->word != LIMIT_NONE ? pattern->kind->word : pattern->kind->limit;
    /* Ranks that share a core wait for the scheduler, not for cache lines. */
    if (id == LIMIT_LINE_ROUNDS && perf->oversubscribed) id = LIMIT_BARE_BARRIER;
    id = plain(perf, pattern->kind, id);
    if (id == LIMIT_SOCKET + PLAIN_HALO && !limits_socket_takes(size)) return LIMIT_NONE;
    if (id >= LIMIT_SOCKET) return limits_fabric_takes(size) ? id : LIMIT_NONE;
    if (limits[id].work.all_ranks && (!perf->all_map || perf->ranks < 2)) return LIMIT_NONE;
    if (limits[id].work.serve != NULL && (!perf->both_map || perf->ranks < 2)) return LIMIT_NONE;
    if (id == LIMIT_LINE_HOP && perf->oversubscribed) return LIMIT_NONE;
    return id;
}

/* Both ranks run the same loop. */
#define BOTH_RUN(name)  .work.loop = name, .work.serve = name
#define LEAD_RUNS(name) .work.loop = name /* rank 1 is not involved: the adapter does its part */
#define ECHO            .work.loop = echo, .work.before = begin_echo, .work.serve = serve_echo

/* The limits to use if no memory is shared: those of the first kind of connection. */
#define ALONE(name) .alone = LIMIT_SOCKET + PLAIN_##name
#define MANY(name)  .many = LIMIT_SOCKET + PLAIN_##name

/* The limits of ranks that share no memory, for one kind of connection. */
#define PLAIN_ROWS(first, loops, name, run, how, put, stream)                                      \
    [(first) +                                                                                     \
        PLAIN_RTT] = {name "-rtt", "8 bytes to rank 1 and back " how, BOTH_RUN(loops##_echo),      \
                      .work.bare = true},                                                          \
        [(first) + PLAIN_ECHO] = {name "-echo", name "-rtt with the payload both ways",            \
                                  BOTH_RUN(loops##_echo)},                                         \
        [(first) + PLAIN_ROUNDS] = {name "-rounds",                                                \
                                    "half a " name                                                 \
                                    "-rtt for each of the log2(ranks) rounds of a barrier",        \
                                    BOTH_RUN(loops##_echo), .work.bare = true,                     \
                                    .work.parts = rounds_in_rtt},                                  \
        [(first) + PLAIN_HOP] = {name "-hop", "half a " name "-rtt", BOTH_RUN(loops##_echo),       \
                                 .work.bare = true, .work.parts = two},                            \
        [(first) + PLAIN_OUT] = {name "-put", put, run(loops##_out)},                              \
        [(first) + PLAIN_IN] = {name "-get", "", run(loops##_in)},                                 \
        [(first) + PLAIN_STREAM_OUT] = {name "-stream", stream, run(loops##_stream_out)},          \
        [(first) + PLAIN_STREAM_IN] = {name "-stream", "", run(loops##_stream_in)},                \
        [(first) + PLAIN_ANSWER] = {name "-answer", name "-rtt with the payload back",             \
                                    BOTH_RUN(loops##_answer)},                                     \
        [(first) + PLAIN_HALO] = {                                                                 \
            name "-halo", "two payloads to the peer, computation, and two payloads from the peer", \
            BOTH_RUN(loops##_halo)}

/* A limit without a description has that of the previous one with the same name. */
const struct limit limits[LIMIT_COUNT] = {
    [LIMIT_NONE] = {.name = NULL},
    [LIMIT_LINE_RTT] = {"line-rtt", "a flag to rank 1 in one cache line and back in another", ECHO,
                        .work.bare = true, ALONE(RTT)},
    [LIMIT_LINE_ECHO] = {"line-echo", "line-rtt with the payload copied before each flag is set",
                         ECHO, ALONE(ECHO)},
    [LIMIT_LINE_ANSWER] = {"line-answer", "line-rtt with the payload back", .work.loop = answer,
                           .work.before = begin_answer, .work.serve = serve_echo, ALONE(ANSWER)},
    [LIMIT_LINE_STREAM] = {"line-stream",
                           "numbered cache lines, with the payload, through a ring to rank 1",
                           .work.loop = stream, .work.serve = serve_stream, MANY(STREAM_OUT)},
    [LIMIT_LINE_ROUNDS] = {"line-rounds",
                           "half a line-rtt for each of the log2(ranks) rounds of a barrier", ECHO,
                           .work.bare = true, .work.parts = rounds_in_rtt, ALONE(ROUNDS)},
    [LIMIT_BARE_BARRIER] = {"yield-rounds",
                            "a counter in shared memory on which all ranks wait, yielding",
                            .work.loop = limits_bare_barrier, .work.all_ranks = true},
    [LIMIT_COPY_LEAD] =
        {"copies",
         "copies of the data that each rank receives, by all ranks at once, between barriers",
         .work.loop = limits_copy_from_lead, .work.all_ranks = true},
    [LIMIT_COPY_NEXT] = {"copies", "", .work.loop = limits_copy_from_next, .work.all_ranks = true},
    [LIMIT_LINE_HOP] = {"line-hop", "half a line-rtt", ECHO, .work.bare = true, .work.parts = two,
                        ALONE(HOP)},
    [LIMIT_STORE] = {"store", "a store of 8 bytes into the peer's mapped segment",
                     .work.loop = store_words, ALONE(OUT), MANY(STREAM_OUT)},
    [LIMIT_LOAD] = {"load", "a load of 8 bytes from the peer's mapped segment",
                    .work.loop = load_words, ALONE(IN), MANY(STREAM_IN)},
    [LIMIT_ATOMIC] = {"atomic", "an atomic add by the processor in the peer's mapped segment",
                      .work.loop = add_words, ALONE(RTT), MANY(STREAM_OUT)},
    [LIMIT_ATOMIC_RANDOM] = {"atomics",
                             "atomic adds by the processor to random words, by all ranks",
                             .work.loop = limits_random, .work.all_ranks = true, MANY(STREAM_OUT)},
    [LIMIT_ATOMIC_SHARED] = {"shared-atomic",
                             "atomic adds by the processor to one word of rank 0, by all ranks",
                             .work.loop = limits_shared_word, .work.all_ranks = true, ALONE(RTT)},
    [LIMIT_HALO] = {"halo",
                    "rows copied to both sides, computation, and waiting for flags from both",
                    .work.loop = limits_halo, .work.all_ranks = true, ALONE(HALO)},
    [LIMIT_CALL] = {"call", "a call, through a pointer, of a function that does nothing",
                    .work.loop = call},
    [LIMIT_MEMCPY_OUT] = {"memcpy",
                          "memcpy of that size into (put) or from (get) the mapped segment",
                          .work.loop = copy_out, ALONE(OUT), MANY(STREAM_OUT)},
    [LIMIT_MEMCPY_IN] = {"memcpy", "", .work.loop = copy_in, ALONE(IN), MANY(STREAM_IN)},
    [LIMIT_STRIDED_OUT] = {"loop", "a loop of copies of that length over the same places or lists",
                           .work.loop = limits_strided_out, MANY(STREAM_OUT)},
    [LIMIT_STRIDED_IN] = {"loop", "", .work.loop = limits_strided_in, MANY(STREAM_IN)},
    [LIMIT_VECTOR_OUT] = {"loop", "", .work.loop = limits_vector_out, MANY(STREAM_OUT)},
    [LIMIT_VECTOR_IN] = {"loop", "", .work.loop = limits_vector_in, MANY(STREAM_IN)},
    [LIMIT_INDEXED_OUT] = {"loop", "", .work.loop = limits_indexed_out, MANY(STREAM_OUT)},
    [LIMIT_INDEXED_IN] = {"loop", "", .work.loop = limits_indexed_in, MANY(STREAM_IN)},
    [LIMIT_MEMSET] = {"memset", "memset of that size in the peer's mapped segment",
                      .work.loop = set_bytes},
    [LIMIT_CMA_WRITE] = {"cma", "process_vm_writev (put) or process_vm_readv (get) of that size",
                         .work.loop = cma_write},
    [LIMIT_CMA_READ] = {"cma", "", .work.loop = cma_read},
    [LIMIT_DOUBLE_OUT] = {"double-copy",
                          "memcpy by both ranks through a ring of 8 fragments of 32 KB",
                          BOTH_RUN(limits_double_out), MANY(STREAM_OUT)},
    [LIMIT_DOUBLE_IN] = {"double-copy", "", BOTH_RUN(limits_double_in), MANY(STREAM_IN)},
    [LIMIT_CMA_PRIVATE_WRITE] = {"cma", "", .work.loop = limits_cma_private_write},
    [LIMIT_CMA_PRIVATE_READ] = {"cma", "", .work.loop = limits_cma_private_read},
    PLAIN_ROWS(LIMIT_SOCKET, limits_socket, "udp", BOTH_RUN,
               "between plain UDP sockets, where no memory is shared",
               "udp-rtt with the payload one way (get: udp-get)",
               "datagrams of that size, many in flight (GSO, GRO)"),
    PLAIN_ROWS(LIMIT_OFI, limits_fabric, "ofi", BOTH_RUN,
               "by messages of libfabric, over the provider of ofi",
               "a write by libfabric until it is visible (get: ofi-get, a read)",
               "writes or reads of that size by libfabric, 64 in flight"),
    PLAIN_ROWS(LIMIT_IBV, limits_fabric, "ibv", LEAD_RUNS,
               "by messages of verbs, over the adapter of ibv",
               "a write by verbs until it is complete (get: ibv-get, a read)",
               "writes or reads of that size by verbs, 64 in flight"),
#if AQPERF_OFI
    [LIMIT_FI_TAGGED_RTT] = {BOTH_RUN(api_fi_tagged_rtt)},
    [LIMIT_FI_MSG_RTT] = {BOTH_RUN(api_fi_msg_rtt)},
    [LIMIT_FI_STREAM] = {BOTH_RUN(api_fi_stream)},
    [LIMIT_FI_WRITE] = {BOTH_RUN(api_fi_write)},
    [LIMIT_FI_READ] = {BOTH_RUN(api_fi_read)},
    [LIMIT_FI_WRITES] = {BOTH_RUN(api_fi_writes)},
    [LIMIT_FI_READS] = {BOTH_RUN(api_fi_reads)},
#endif
    [LIMIT_CCI_RTT] = {BOTH_RUN(api_cci_rtt)},
    [LIMIT_CCI_STREAM] = {BOTH_RUN(api_cci_stream)},
    [LIMIT_CCI_WRITE] = {BOTH_RUN(api_cci_write)},
    [LIMIT_CCI_READ] = {BOTH_RUN(api_cci_read)},
    [LIMIT_CCI_WRITES] = {BOTH_RUN(api_cci_writes)},
    [LIMIT_CCI_READS] = {BOTH_RUN(api_cci_reads)},
};
