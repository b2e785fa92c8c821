/* What the machine itself can do, measured in the same run between the same cores, without the
 * library: the two ranks talk through plain memory of their mapped segments. */
#include "perf.h"
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>

/* The last message of a limit's loop has this bit, and lets rank 1 out of it. */
#define STOP ((uint64_t)1 << 63)

/* Called through a volatile pointer, so that no copy is optimised away or inlined. */
void *(*volatile limits_copy)(void *, const void *, size_t) = memcpy;
static void *(*volatile limits_set)(void *, int, size_t) = memset;
static void do_nothing(void)
{
}
static void (*volatile limits_call)(void) = do_nothing;

/* Sequence numbers go on from loop to loop: nothing must be reset, so nothing can be reset late. */
static uint64_t line_seq, ring_seq, ring_consumed;

/* One turn of a wait. With more ranks than cores the other one may need ours; and so it may, if we
 * have waited for long, on a machine where other programs run too. */
void limits_wait_turn(const struct perf *perf, unsigned *turns)
{
    unsigned patience = perf->crowded ? 256 : 16384;
    if (++*turns % patience != 0) return;
    sched_yield();
    if (perf->api->look != NULL) perf->api->look();
}

static void send_line(struct perf *perf, const void *from, size_t size, uint64_t seq)
{
    struct shared *there = perf->theirs;
    if (size > 0) {
        void *to = size <= sizeof there->inbox.payload ? there->inbox.payload : there->data;
        limits_copy(to, from, size);
    }
    atomic_store_explicit(&there->inbox.seq, seq, memory_order_release); /* await_line */
}

/* Wait for a line with another number than `old`; pairs with the release in send_line. */
static uint64_t await_line(struct perf *perf, uint64_t old)
{
    uint64_t seq;
    unsigned turns = 0;
    while ((seq = atomic_load_explicit(&perf->mine->inbox.seq, memory_order_acquire)) == old)
        limits_wait_turn(perf, &turns);
    return seq;
}

/* One line there and back. It is answered also when it is the last: rank 1 then is out of its loop,
 * before it can be told of another. */
static void turn(struct perf *perf, size_t size, uint64_t flag)
{
    send_line(perf, perf->source, size, ((line_seq & ~STOP) + 1) | flag);
    line_seq = await_line(perf, line_seq);
}

static void echo(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        turn(perf, size, 0);
    turn(perf, size, STOP);
}

/* The first one only tells that rank 1 is there. */
static void begin_echo(struct perf *perf, size_t size, uint64_t n)
{
    (void)n;
    perf->api->ask(perf, COMMAND_ECHO, size);
    turn(perf, size, 0);
}

static void serve_echo(struct perf *perf, size_t size)
{
    struct shared *here = perf->mine;
    const void *payload = size <= sizeof here->inbox.payload ? here->inbox.payload : here->data;
    do {
        line_seq = await_line(perf, line_seq);
        send_line(perf, payload, size, line_seq);
    } while ((line_seq & STOP) == 0);
}

static double two(const struct perf *perf)
{
    (void)perf;
    return 2;
}

/* Half a round trip for each round of a dissemination barrier: ceil(log2(ranks)). */
static double rounds_in_rtt(const struct perf *perf)
{
    unsigned rounds = 0;
    while ((1u << rounds) < perf->ranks)
        rounds++;
    return 2.0 / rounds;
}

static void stream_one(struct perf *perf, size_t size, uint64_t flag)
{
    struct shared *there = perf->theirs;
    unsigned turns = 0;
    while (ring_seq - ring_consumed >= RING_LINES) {
        /* pairs with the release in serve_stream */
        ring_consumed = atomic_load_explicit(&perf->mine->consumed.seq, memory_order_acquire);
        limits_wait_turn(perf, &turns);
    }
    struct line *line = &there->ring[ring_seq % RING_LINES];
    if (size > 0 && size <= sizeof line->payload) {
        limits_copy(line->payload, perf->source, size);
    } else if (size > 0) {
        size_t places = perf->max_size / size < 16 ? perf->max_size / size : 16;
        limits_copy(there->data + ring_seq % places * size, perf->source, size);
    }
    ring_seq++;
    atomic_store_explicit(&line->seq, ring_seq | flag, memory_order_release); /* serve_stream */
}

static void stream_drain(struct perf *perf)
{
    unsigned turns = 0;
    while (ring_consumed != ring_seq) {
        ring_consumed = atomic_load_explicit(&perf->mine->consumed.seq, memory_order_acquire);
        limits_wait_turn(perf, &turns);
    }
}

static void begin_stream(struct perf *perf, size_t size, uint64_t n)
{
    (void)n;
    perf->api->ask(perf, COMMAND_STREAM, size);
}

static void stream(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        stream_one(perf, size, 0);
    stream_one(perf, size, STOP);
    stream_drain(perf);
}

static void serve_stream(struct perf *perf)
{
    struct shared *here = perf->mine;
    for (uint64_t seq = 0; (seq & STOP) == 0;) {
        struct line *line = &here->ring[ring_consumed % RING_LINES];
        unsigned turns = 0;
        /* pairs with the release in stream_one */
        while (((seq = atomic_load_explicit(&line->seq, memory_order_acquire)) & ~STOP) !=
               ring_consumed + 1)
            limits_wait_turn(perf, &turns);
        ring_consumed++;
        if (ring_consumed % (RING_LINES / 4) == 0 || (seq & STOP) != 0) /* stream_one, _drain */
            atomic_store_explicit(&perf->theirs->consumed.seq, ring_consumed, memory_order_release);
    }
}

void limits_serve(struct perf *perf, enum command command, size_t size)
{
    if (command == COMMAND_ECHO) serve_echo(perf, size);
    if (command == COMMAND_STREAM) serve_stream(perf);
    if (command == COMMAND_DOUBLE_OUT || command == COMMAND_DOUBLE_IN)
        limits_serve_double(perf, command, size);
}

/* The memory that one-sided operations are compared on: the peer's if it is mapped, else ours. */
static struct shared *place(struct perf *perf)
{
    return perf->theirs != NULL ? perf->theirs : perf->mine;
}

static void call(struct perf *perf, size_t size, uint64_t n)
{
    (void)perf, (void)size;
    for (uint64_t i = 0; i < n; i++)
        limits_call();
}

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

static void copy_out(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        limits_copy(place(perf)->data, perf->source, size);
}

static void set_bytes(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        limits_set(place(perf)->data, (int)i, size);
}

static void copy_in(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        limits_copy(perf->target, place(perf)->data, size);
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

static void cma_write(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        (void)cma(perf, true, size); /* was tried by limits_probe_cma */
}

static void cma_read(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        (void)cma(perf, false, size);
}

void limits_probe_cma(struct perf *perf)
{
    int error = cma(perf, true, 8);
    if (error == 0) error = cma(perf, false, 8);
    perf->no_cma = error == 0 ? NULL : strerror(error);
}

enum limit_id limits_for(const struct perf *perf, const struct pattern *pattern, size_t size)
{
    enum limit_id id =
        size <= 8 && pattern->kind->word != LIMIT_NONE ? pattern->kind->word : pattern->kind->limit;
    /* Ranks that take turns on a core wait for the scheduler, not for cache lines. */
    if (id == LIMIT_LINE_ROUNDS && perf->crowded) id = LIMIT_BARE_BARRIER;
    if (limits[id].all_ranks && (!perf->all_map || perf->ranks < 2)) return LIMIT_NONE;
    if (limits[id].work.before != NULL && (!perf->both_map || perf->ranks < 2)) return LIMIT_NONE;
    if (id == LIMIT_LINE_HOP && perf->crowded) return LIMIT_NONE;
    return id;
}

const struct limit limits[LIMIT_COUNT] = {
    [LIMIT_NONE] = {.name = NULL},
    [LIMIT_LINE_RTT] = {.name = "line-rtt",
                        .doc = "a flag to rank 1 in one cache line and back in another",
                        .work = {.loop = echo, .before = begin_echo, .bare = true}},
    [LIMIT_LINE_ECHO] = {.name = "line-echo",
                         .doc = "line-rtt with the payload copied before each flag is set",
                         .work = {.loop = echo, .before = begin_echo}},
    [LIMIT_LINE_STREAM] = {.name = "line-stream",
                           .doc =
                               "numbered cache lines, with the payload, through a ring to rank 1",
                           .work = {.loop = stream, .before = begin_stream}},
    [LIMIT_LINE_ROUNDS] =
        {.name = "line-rounds",
         .doc = "half a line-rtt for each of the log2(ranks) rounds of a barrier",
         .work = {.loop = echo, .before = begin_echo, .bare = true, .parts = rounds_in_rtt}},
    [LIMIT_BARE_BARRIER] = {.name = "yield-rounds",
                            .doc = "a counter in shared memory that all ranks wait at, yielding",
                            .work = {.loop = limits_bare_barrier},
                            .all_ranks = true},
    [LIMIT_COPY_LEAD] = {.name = "copies",
                         .doc = "what each rank must get, copied by it at once, between barriers",
                         .work = {.loop = limits_copy_from_lead},
                         .all_ranks = true},
    [LIMIT_COPY_NEXT] = {.name = "copies",
                         .doc = "",
                         .work = {.loop = limits_copy_from_next},
                         .all_ranks = true},
    [LIMIT_LINE_HOP] = {.name = "line-hop",
                        .doc = "half a line-rtt",
                        .work = {.loop = echo, .before = begin_echo, .bare = true, .parts = two}},
    [LIMIT_STORE] = {.name = "store",
                     .doc = "a store of 8 bytes into the peer's mapped segment",
                     .work = {.loop = store_words}},
    [LIMIT_LOAD] = {.name = "load",
                    .doc = "a load of 8 bytes from the peer's mapped segment",
                    .work = {.loop = load_words}},
    [LIMIT_ATOMIC] = {.name = "atomic",
                      .doc = "an atomic add of the processor in the peer's mapped segment",
                      .work = {.loop = add_words}},
    [LIMIT_CALL] = {.name = "call",
                    .doc = "a call, through a pointer, of a function that does nothing",
                    .work = {.loop = call}},
    [LIMIT_MEMCPY_OUT] = {.name = "memcpy",
                          .doc = "memcpy of that size into (put) or from (get) the mapped segment",
                          .work = {.loop = copy_out}},
    [LIMIT_MEMCPY_IN] = {.name = "memcpy", .doc = "", .work = {.loop = copy_in}},
    [LIMIT_STRIDED_OUT] = {.name = "loop",
                           .doc = "a loop of copies of that length over the same places or lists",
                           .work = {.loop = limits_strided_out}},
    [LIMIT_STRIDED_IN] = {.name = "loop", .doc = "", .work = {.loop = limits_strided_in}},
    [LIMIT_VECTOR_OUT] = {.name = "loop", .doc = "", .work = {.loop = limits_vector_out}},
    [LIMIT_VECTOR_IN] = {.name = "loop", .doc = "", .work = {.loop = limits_vector_in}},
    [LIMIT_INDEXED_OUT] = {.name = "loop", .doc = "", .work = {.loop = limits_indexed_out}},
    [LIMIT_INDEXED_IN] = {.name = "loop", .doc = "", .work = {.loop = limits_indexed_in}},
    [LIMIT_MEMSET] = {.name = "memset",
                      .doc = "memset of that size in the peer's mapped segment",
                      .work = {.loop = set_bytes}},
    [LIMIT_CMA_WRITE] = {.name = "cma",
                         .doc = "process_vm_writev (put) or process_vm_readv (get) of that size",
                         .work = {.loop = cma_write}},
    [LIMIT_CMA_READ] = {.name = "cma", .doc = "", .work = {.loop = cma_read}},
    [LIMIT_DOUBLE_OUT] = {.name = "double-copy",
                          .doc = "memcpy by both ranks through a ring of 8 fragments of 32 KB",
                          .work = {.loop = limits_copy_out, .before = limits_begin_out}},
    [LIMIT_DOUBLE_IN] = {.name = "double-copy",
                         .doc = "",
                         .work = {.loop = limits_copy_in, .before = limits_begin_in}},
    [LIMIT_CMA_PRIVATE_WRITE] = {.name = "cma",
                                 .doc = "",
                                 .work = {.loop = limits_cma_private_write}},
    [LIMIT_CMA_PRIVATE_READ] = {.name = "cma",
                                .doc = "",
                                .work = {.loop = limits_cma_private_read}},
};
