/*
 * The limits of a fabric, for ranks that are connected by a transport over it: the same operations
 * between the same two processes, by the minimum of calls of libfabric or verbs, without the
 * library.
 */
#include "limits_fabric.h"
#include <aqueduct/info.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECEIVES = 2 };

static const struct fabric *const fabrics[] = {
#if AQPERF_OFI
    &fabric_ofi,
#endif
#if AQPERF_IBV
    &fabric_ibv,
#endif
    NULL};

static const struct fabric *fabric; /* the one in use */
static size_t max_transfer;
static struct fabric_memory memory;
static uint64_t posted[FABRIC_OPS], completed[FABRIC_OPS], messages_received;

/* --- one operation --------------------------------------------------------------------------- */

static void fail(struct perf *perf, const char *why)
{
    fprintf(stderr, "aqperf: rank %u: %s without the library: %s\n", perf->rank, fabric->transport,
            why);
    perf->api->quit(1);
}

static void progress(struct perf *perf, unsigned *polls)
{
    char why[FABRIC_WHY];
    enum fabric_op op;
    int found = fabric->poll(&op, why);
    if (found < 0) fail(perf, why);
    if (found > 0) completed[op]++;
    if (found == 0) limits_foreign_poll(perf, polls);
}

static void post(struct perf *perf, enum fabric_op op, size_t size)
{
    unsigned polls = 0;
    while (posted[op] - completed[op] >= FABRIC_IN_FLIGHT || !fabric->post(op, size))
        progress(perf, &polls);
    posted[op]++;
}

static void await(struct perf *perf, enum fabric_op op, uint64_t count)
{
    unsigned polls = 0;
    while (completed[op] < count)
        progress(perf, &polls);
}

static void receive_message(struct perf *perf)
{
    await(perf, FABRIC_RECEIVE, ++messages_received);
}

/* Send, and post another receive; those for the peer's next messages are already posted. */
static void send_message(struct perf *perf, size_t size)
{
    post(perf, FABRIC_SEND, size);
    post(perf, FABRIC_RECEIVE, memory.len);
}

/* --- the loops, in both ranks ---------------------------------------------------------------- */

/* `n` times, send `out` bytes to rank 1 and `back` bytes back. */
static void round_trips(struct perf *perf, uint64_t n, size_t out, size_t back)
{
    for (uint64_t i = 0; i < n; i++) {
        if (perf->rank == 0) send_message(perf, out);
        receive_message(perf);
        if (perf->rank != 0) send_message(perf, back);
    }
}

void limits_fabric_echo(struct perf *perf, size_t size, uint64_t n)
{
    round_trips(perf, n, at_least_word(size), at_least_word(size));
}

void limits_fabric_answer(struct perf *perf, size_t size, uint64_t n)
{
    round_trips(perf, n, WORD, at_least_word(size));
}

/*
 * Send rows to both sides, which are the same peer here. Receives are posted even for a peer that
 * is one step ahead.
 */
void limits_fabric_halo(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        send_message(perf, at_least_word(size));
        send_message(perf, at_least_word(size));
        compute_for(perf->interval_ns);
        receive_message(perf);
        receive_message(perf);
    }
}

/*
 * Rank 0 transfers the bytes. libfabric may need rank 1 to keep polling, so a message makes it
 * stop.
 */
static void move(struct perf *perf, enum fabric_op op, size_t size, uint64_t n, bool each)
{
    for (uint64_t i = 0; perf->rank == 0 && i < n; i++) {
        post(perf, op, at_least_word(size));
        if (each) await(perf, op, posted[op]);
    }
    await(perf, op, posted[op]);
    if (limits[fabric->first + PLAIN_OUT].work.serve != NULL) round_trips(perf, 1, WORD, WORD);
}

#define FABRIC_LIMIT(name, op, each)                                                               \
    void limits_fabric_##name(struct perf *perf, size_t size, uint64_t n)                          \
    {                                                                                              \
        move(perf, op, size, n, each);                                                             \
    }
FABRIC_LIMIT(out, FABRIC_PUT, true)
FABRIC_LIMIT(in, FABRIC_GET, true)
FABRIC_LIMIT(stream_out, FABRIC_PUT, false)
FABRIC_LIMIT(stream_in, FABRIC_GET, false)

void limits_fabric_settle(struct perf *perf)
{
    static uint64_t loops;
    unsigned polls = 0;
    if (fabric == NULL) return;
    loops++;
    if (perf->rank != 0) {
        await(perf, FABRIC_SEND, posted[FABRIC_SEND]);
        perf->api->put_word(perf->peer, &perf->peer_addr->settled, loops);
        return;
    }
    while (*(volatile uint64_t *)&perf->mine->settled != loops) {
        progress(perf, &polls);
        perf->api->poll();
    }
}

/* --- opening and closing --------------------------------------------------------------------- */

void limits_open_fabric(const struct perf *perf, uint64_t card[FABRIC_CARD_WORDS])
{
    char why[FABRIC_WHY] = "no memory";
    memset(card, 0, FABRIC_CARD_WORDS * sizeof(*card));
    for (size_t i = 0; fabrics[i] != NULL; i++)
        if (strcmp(perf->transport, fabrics[i]->transport) == 0) fabric = fabrics[i];
    if (perf->rank > 1 || perf->ranks < 2 || fabric == NULL) {
        fabric = NULL;
        return;
    }
    memory.len = (at_least_word(perf->max_size) + 4095) & ~(size_t)4095;
    memory.outgoing = aligned_alloc(4096, 2 * memory.len);
    if (memory.outgoing != NULL) {
        memset(memory.outgoing, 1, 2 * memory.len);
        memory.incoming = memory.outgoing + memory.len;
        max_transfer = fabric->open(perf->rank, &memory, card, why);
    }
    if (max_transfer != 0) return;
    fprintf(stderr, "aqperf: rank %u: the limit of %s without the library was not measured: %s\n",
            perf->rank, fabric->transport, why);
    limits_close_fabric();
    memset(card, 0, FABRIC_CARD_WORDS * sizeof(*card));
}

/* A rank that could not open the fabric has an empty card. */
enum limit_id limits_connect_fabric(struct perf *perf, const uint64_t card[FABRIC_CARD_WORDS])
{
    static const uint64_t empty[FABRIC_CARD_WORDS];
    char why[FABRIC_WHY];
    if (fabric == NULL || memcmp(card, empty, sizeof(empty)) == 0) return LIMIT_NONE;
    if (!fabric->connect(card, why)) fail(perf, why);
    for (unsigned i = 0; i < RECEIVES; i++)
        post(perf, FABRIC_RECEIVE, memory.len);
    return fabric->first;
}

void limits_close_fabric(void)
{
    if (fabric != NULL) fabric->close();
    free(memory.outgoing);
    memory.outgoing = NULL;
    fabric = NULL;
}

bool limits_fabric_takes(size_t size)
{
    return fabric == NULL || size <= max_transfer;
}

const char *fabric_device(const char *transport, unsigned index)
{
    aq_transport_info info;
    for (size_t i = 0; aq_info_transport(i, &info) == AQ_OK; i++)
        if (strcmp(info.name, transport) == 0 && info.usable && index-- == 0) return info.device;
    return "";
}
