/*
 * usage: many [PEERS]
 *
 * Many peers in one process: addresses that are never used cost little memory, many endpoints
 * exchange messages with one, and connections that are closed and reopened lose nothing.
 */
#include "fi/pair.h"
#include "front/fi/fi.h"

#include <malloc.h>
#include <stdio.h>

enum { PEERS = 1000, /* at most */ BYTES_PER_ADDRESS = 256 };

/* Insert made-up addresses. Returns the bytes of memory that each takes. */
static size_t insert_many(struct pair *pair, uint32_t count, fi_addr_t *addr)
{
    char name[64];
    size_t len = sizeof(name), before = mallinfo2().uordblks + mallinfo2().hblkhd;
    CHECK_EQUAL(fi_getname(&pair->a.ep->fid, name, &len), 0);
    for (uint32_t i = 1; i <= count; i++) {
        memcpy(name + 8, &count, sizeof(count)); /* another endpoint's id */
        memcpy(name + 12, &i, sizeof(i));
        CHECK_EQUAL(fi_av_insert(pair->a.av, name, 1, addr, 0, NULL), 1);
    }
    return (mallinfo2().uordblks + mallinfo2().hblkhd - before) / count;
}

static void unused_addresses(void)
{
    static const uint32_t counts[] = {1000, 100000};
    struct pair pair;
    struct pair_wish wish = {0};
    fi_addr_t addr;
    int value = 7, got = 0;
    pair_open(&pair, &wish);
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        size_t bytes = insert_many(&pair, counts[i], &addr);
        printf("%u addresses: %zu bytes each\n", counts[i], bytes);
        CHECK(bytes <= BYTES_PER_ADDRESS);
    }
    PAIR_CALL(&pair, fi_recv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, pair.a.other, NULL));
    (void)pair_next(&pair, pair.b.rx, NULL);
    CHECK_EQUAL(got, 7);
    (void)pair_next(&pair, pair.a.tx, NULL);
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, addr, &value)); /* no such endpoint */
    CHECK(pair_error(&pair, pair.a.tx).op_context == &value);
    pair_close(&pair);
}

/* The table of registrations grows with them, and finds each. */
static void registrations(void)
{
    enum { COUNT = 100000 };
    struct pair pair;
    struct pair_wish wish = {0};
    struct fid_mr **mrs = calloc(COUNT, sizeof(*mrs));
    static char byte;
    pair_open(&pair, &wish);
    struct afi_domain *domain = AQI_OF(pair.a.domain, struct afi_domain, fid);
    for (uint64_t i = 0; i < COUNT; i++)
        CHECK_EQUAL(fi_mr_reg(pair.a.domain, &byte, 1, FI_REMOTE_READ, 0, i * i, 0, &mrs[i], NULL),
                    0);
    CHECK(domain->mr_room >= COUNT / 2);
    for (uint64_t i = 0; i < COUNT; i++) {
        CHECK(&afi_mr_of(domain, i * i)->fid == mrs[i]);
        CHECK_EQUAL(fi_close(&mrs[i]->fid), 0);
        CHECK(afi_mr_of(domain, i * i) == NULL);
    }
    pair_close(&pair);
    free(mrs);
}

/* Open endpoints in the domain of `b` that report to its queues. */
static void open_peers(struct pair *pair, unsigned count, struct fid_ep **eps, fi_addr_t *addrs)
{
    char name[64];
    for (unsigned i = 0; i < count; i++) {
        size_t len = sizeof(name);
        CHECK_EQUAL(fi_endpoint(pair->b.domain, pair->b.info, &eps[i], NULL), 0);
        CHECK_EQUAL(fi_ep_bind(eps[i], &pair->b.av->fid, 0), 0);
        CHECK_EQUAL(fi_ep_bind(eps[i], &pair->b.tx->fid, FI_TRANSMIT), 0);
        CHECK_EQUAL(fi_ep_bind(eps[i], &pair->b.rx->fid, FI_RECV), 0);
        CHECK_EQUAL(fi_enable(eps[i]), 0);
        CHECK_EQUAL(fi_getname(&eps[i]->fid, name, &len), 0);
        CHECK_EQUAL(fi_av_insert(pair->a.av, name, 1, &addrs[i], 0, NULL), 1);
    }
}

static void used_peers(unsigned count)
{
    static struct fid_ep *eps[PEERS];
    static fi_addr_t addrs[PEERS];
    static uint32_t asked[PEERS], answers[PEERS];
    struct pair pair;
    struct pair_wish wish = {0};
    pair_open(&pair, &wish);
    open_peers(&pair, count, eps, addrs);
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t value = round * PEERS + i;
            PAIR_CALL(&pair, fi_recv(eps[i], &asked[i], 4, NULL, FI_ADDR_UNSPEC, &asked[i]));
            PAIR_CALL(&pair, fi_trecv(pair.a.in, &answers[i], 4, NULL, addrs[i], i, 0, NULL));
            PAIR_CALL(&pair, fi_inject(pair.a.ep, &value, 4, addrs[i]));
        }
        for (uint32_t i = 0; i < count; i++) {
            struct fi_cq_tagged_entry entry = pair_next(&pair, pair.b.rx, NULL);
            size_t which = (size_t)((uint32_t *)entry.op_context - asked);
            CHECK_EQUAL(asked[which], round * PEERS + which);
            PAIR_CALL(&pair, fi_tinject(eps[which], &asked[which], 4, pair.b.other, which));
        }
        for (uint32_t i = 0; i < count; i++)
            (void)pair_next(&pair, pair.a.rx, NULL);
        for (uint32_t i = 0; i < count; i++)
            CHECK_EQUAL(answers[i], round * PEERS + i);
    }
    for (unsigned i = 0; i < count; i++)
        CHECK_EQUAL(fi_close(&eps[i]->fid), 0);
    pair_close(&pair);
}

static uint64_t seed = 1;

static unsigned any(unsigned below)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(seed >> 33) % below;
}

/* Close all connections that are idle on both sides. */
static void close_unused(void)
{
    afi_lock();
    afi_peer_sweep();
    afi_peer_sweep();
    afi_unlock();
}

/*
 * Idle connections are closed at random moments. Numbered messages of three kinds go both ways:
 * short ones, which may wait for their receive, and long ones.
 */
static void unused_connections(void)
{
    enum { SOME = 12, ROUNDS = 3000, LONG = 70000 };
    static struct fid_ep *eps[SOME];
    static fi_addr_t addrs[SOME];
    static uint32_t sent[2][SOME], expected[2][SOME];
    static uint32_t from[LONG / 4], to[LONG / 4];
    struct pair pair;
    struct pair_wish wish = {0};
    unsigned opened = 0, parted = 0;
    pair_open(&pair, &wish);
    open_peers(&pair, SOME, eps, addrs);
    afi.most = 0;
    afi.sweep_ns = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned which = any(SOME), back = any(2), count = 1 + any(3), kind = any(4);
        struct fid_ep *source = back != 0 ? eps[which] : pair.a.ep;
        struct fid_ep *sink = back != 0 ? pair.a.in : eps[which];
        struct fid_cq *sent_to = back != 0 ? pair.b.tx : pair.a.tx;
        fi_addr_t addr = back != 0 ? pair.b.other : addrs[which];
        uint32_t up = afi.up;
        for (unsigned i = 0; i < count; i++) {
            from[0] = sent[back][which]++;
            if (kind == 0)
                PAIR_CALL(&pair, fi_tsend(source, from, LONG, NULL, addr, which, NULL));
            else
                PAIR_CALL(&pair, fi_tinject(source, from, 4, addr, which));
            if (any(4) == 0) close_unused();
            for (unsigned n = any(200); kind < 2 && n != 0; n--)
                pair_move(&pair);
            if (kind != 0 && i + 1 < count) continue;
            for (unsigned left = kind != 0 ? count : 1; left != 0; left--) {
                PAIR_CALL(&pair, fi_trecv(sink, to, LONG, NULL, FI_ADDR_UNSPEC, which, 0, NULL));
                (void)pair_next(&pair, back != 0 ? pair.a.rx : pair.b.rx, NULL);
                CHECK_EQUAL(to[0], expected[back][which]++);
            }
            if (kind == 0) (void)pair_next(&pair, sent_to, NULL);
        }
        opened += afi.up > up;
        parted += afi.up < up;
        for (unsigned n = any(100); n != 0; n--)
            pair_move(&pair);
        if (any(20) == 0) close_unused();
    }
    printf("connections: opened in %u rounds, closed in %u\n", opened, parted);
    CHECK(opened > 100 && parted > 20);
    for (unsigned i = 0; i < SOME; i++)
        CHECK_EQUAL(fi_close(&eps[i]->fid), 0);
    pair_close(&pair);
}

int main(int argc, char **argv)
{
    unused_addresses();
    registrations();
    used_peers(argc > 1 ? (unsigned)atoi(argv[1]) : PEERS);
    unused_connections();
    puts("ok");
    return 0;
}
