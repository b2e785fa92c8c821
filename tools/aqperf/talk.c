/*
 * Communication that is not measured, and the patterns common to all APIs.
 */
#include "perf.h"
#include <string.h>
#include <unistd.h>

struct received received;

void talk_begin(struct perf *perf, unsigned rank, unsigned ranks)
{
    perf->rank = rank;
    perf->ranks = ranks;
    perf->peer = rank == 0 && ranks > 1 ? 1 : 0;
    perf->progress_thread = strcmp(measure_setting("AQ_PROGRESS_THREAD"), "yes") == 0;
    /* Threads that send to their own rank also run its handlers. */
    received.concurrent = perf->options.threads > 1 || perf->progress_thread;
}

/* Determine the connection of the pair, if the ranks share no memory. */
static enum limit_id connect_plain(struct perf *perf)
{
    struct shared *there = perf->peer_addr;
    uint64_t card[FABRIC_CARD_WORDS];
    for (unsigned i = 0; i < FABRIC_CARD_WORDS; i++)
        card[i] = perf->api->get_word(perf->peer, &there->card[i]);
    enum limit_id first = limits_connect_fabric(perf, card);
    if (first != LIMIT_NONE) return first;
    bool connected = limits_connect_socket(perf, perf->api->get_word(perf->peer, &there->socket));
    return connected ? LIMIT_SOCKET : LIMIT_NONE;
}

/* Notify the other rank of the pair whether this one can access its memory, and get its answer. */
static void introduce(struct perf *perf)
{
    struct shared *there = perf->peer_addr;
    perf->mine->pid = (uint64_t)getpid();
    perf->mine->maps_peer = perf->theirs != NULL;
    perf->mine->socket = limits_open_socket(perf);
    limits_open_fabric(perf, perf->mine->card);
    perf->api->barrier();
    if (perf->rank > 1) return;
    perf->peer_pid = perf->api->get_word(perf->peer, &there->pid);
    perf->both_map =
        perf->api->get_word(perf->peer, &there->maps_peer) != 0 && perf->theirs != NULL;
    if (!perf->both_map) perf->plain = connect_plain(perf);
}

void talk_exchange_addresses(struct perf *perf)
{
    perf->lead_addr = perf->rank == 0 ? perf->mine : perf->api->segment(0, NULL);
    perf->peer_addr = perf->api->segment(perf->peer, &perf->theirs);
    introduce(perf);
    for (unsigned side = 0; side < 2; side++) {
        struct place *beside = &perf->beside[side];
        beside->rank = (perf->rank + (side == 0 ? perf->ranks - 1 : 1)) % perf->ranks;
        beside->addr = perf->api->segment(beside->rank, &beside->mapped);
    }
    perf->all_map = perf->neighbors == perf->ranks && perf->beside[1].mapped != NULL;
}

uint32_t talk_handle(enum command command, size_t size)
{
    if (command == COMMAND_COMPUTE) {
        __atomic_store_n(&received.computes_ns, size, __ATOMIC_RELEASE);
    } else if (command != COMMAND_COUNT) {
        __atomic_store_n(&received.command_size, size, __ATOMIC_RELAXED);
        __atomic_store_n(&received.command, command, __ATOMIC_RELEASE); /* for has_command */
    }
    return (uint32_t)received_count(&received.floods);
}

static int has_command(void *unused)
{
    (void)unused;
    return __atomic_load_n(&received.command, __ATOMIC_ACQUIRE) != COMMAND_NONE;
}

static int has_command_or_computes(void *unused)
{
    return has_command(unused) || received_count(&received.computes_ns) != 0;
}

enum command talk_await(struct perf *perf, size_t *size)
{
    while (!has_command(NULL)) {
        double ns = (double)received_count(&received.computes_ns);
        if (ns > 0) {
            compute_for(ns);
            perf->api->poll();
        } else {
            perf->api->until(has_command_or_computes, NULL);
        }
    }
    perf->target_computes_ns = (double)received_count(&received.computes_ns);
    *size = __atomic_load_n(&received.command_size, __ATOMIC_RELAXED);
    return __atomic_exchange_n(&received.command, COMMAND_NONE, __ATOMIC_ACQ_REL);
}

void talk_set_count(struct perf *perf, uint64_t n, enum limit_id limit)
{
    for (unsigned rank = 0; rank < perf->ranks; rank++) {
        struct shared *there = perf->api->segment(rank, NULL);
        perf->api->put_word(rank, &there->count, n);
        perf->api->put_word(rank, &there->limit, limit);
    }
}

static int has_token(void *passed)
{
    return received_count(&received.tokens) > *(uint64_t *)passed;
}

/* `n` laps; every rank forwards the token once per lap. */
void talk_ring(struct perf *perf, size_t size, uint64_t n)
{
    static uint64_t passed;
    (void)size;
    for (uint64_t lap = 0; lap < n; lap++) {
        if (perf->rank == 0) perf->api->pass_token(perf);
        perf->api->until(has_token, &passed);
        passed++;
        if (perf->rank != 0) perf->api->pass_token(perf);
    }
}

double talk_ring_hops(const struct perf *perf)
{
    return perf->ranks;
}

/* Messages are unordered, so query how many have been handled until all have. */
void talk_await_floods(struct perf *perf, size_t size, uint64_t n)
{
    static uint32_t sent; /* modulo 2^32, like the peer's counter */
    (void)size;
    sent += (uint32_t)n;
    do
        perf->api->ask(perf, COMMAND_COUNT, 0);
    while (received.answer != sent);
}

double talk_senders(const struct perf *perf)
{
    return perf->ranks > 1 ? perf->ranks - 1 : 1;
}

static int all_in(void *wanted)
{
    return received_count(&received.floods_in) == *(uint64_t *)wanted;
}

/* Run by rank 0, which may have received some messages already. */
void talk_await_in(struct perf *perf, size_t size, uint64_t n)
{
    static uint64_t wanted;
    (void)size;
    if (perf->rank > 0) return;
    wanted += n * (uint64_t)talk_senders(perf);
    perf->api->until(all_in, &wanted);
}

LOOP(talk_barriers, , perf->api->barrier())

unsigned char *talk_second_half(const struct perf *perf)
{
    return perf->mine->data + perf->max_size;
}

size_t talk_block(const struct perf *perf, size_t size)
{
    return size < perf->ranks ? 1 : size / perf->ranks;
}

/* This rank is the next one of the previous rank, so the sides are swapped. */
unsigned char *talk_row_at(const struct perf *perf, unsigned side)
{
    return perf->beside[side].addr->data + (1 - side) * perf->max_size / 2;
}

static int has_rows(void *steps)
{
    const uint64_t wanted = *(uint64_t *)steps;
    return received_count(&received.rows[0]) >= wanted &&
           received_count(&received.rows[1]) >= wanted;
}

void talk_await_rows(struct perf *perf)
{
    static uint64_t steps;
    steps++;
    perf->api->until(has_rows, &steps);
}

static struct place *find_all(struct perf *perf)
{
    struct place *all = perf_memory(perf, perf->ranks, sizeof *all);
    for (unsigned rank = 0; rank < perf->ranks; rank++) {
        all[rank].rank = rank;
        all[rank].addr = perf->api->segment(rank, &all[rank].mapped);
    }
    return all;
}

struct place talk_random_place(struct perf *perf, size_t size, size_t *offset)
{
    static struct place *all;
    static uint64_t state; /* xorshift */
    if (all == NULL) {
        all = find_all(perf);
        state = 0x9e3779b97f4a7c15u * (perf->rank + 1);
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    *offset = (state >> 16) % (size / sizeof(uint64_t)) * sizeof(uint64_t);
    unsigned step = perf->ranks > 1 ? 1 + (unsigned)(state & 0xffff) % (perf->ranks - 1) : 0;
    return all[(perf->rank + step) % perf->ranks];
}
