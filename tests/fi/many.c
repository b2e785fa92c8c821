/*
 * Many peers in one process: addresses that are never used cost little, and a thousand endpoints
 * that talk with one answer it.
 */
#include "fi/pair.h"

#include <malloc.h>
#include <stdio.h>

enum { PEERS = 1000, BYTES_PER_ADDRESS = 256 };

/* Insert made-up addresses; the bytes of memory that each takes. */
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
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, addr, &value)); /* there is none */
    CHECK(pair_error(&pair, pair.a.tx).op_context == &value);
    pair_close(&pair);
}

/* Endpoints in the domain of `b`, which report to its queues. */
static void open_peers(struct pair *pair, struct fid_ep **eps, fi_addr_t *addrs)
{
    char name[64];
    for (unsigned i = 0; i < PEERS; i++) {
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

static void used_peers(void)
{
    static struct fid_ep *eps[PEERS];
    static fi_addr_t addrs[PEERS];
    static uint32_t asked[PEERS], answers[PEERS];
    struct pair pair;
    struct pair_wish wish = {0};
    pair_open(&pair, &wish);
    open_peers(&pair, eps, addrs);
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < PEERS; i++) {
            uint32_t value = round * PEERS + i;
            PAIR_CALL(&pair, fi_recv(eps[i], &asked[i], 4, NULL, FI_ADDR_UNSPEC, &asked[i]));
            PAIR_CALL(&pair, fi_trecv(pair.a.in, &answers[i], 4, NULL, addrs[i], i, 0, NULL));
            PAIR_CALL(&pair, fi_inject(pair.a.ep, &value, 4, addrs[i]));
        }
        for (uint32_t i = 0; i < PEERS; i++) {
            struct fi_cq_tagged_entry entry = pair_next(&pair, pair.b.rx, NULL);
            size_t which = (size_t)((uint32_t *)entry.op_context - asked);
            CHECK_EQUAL(asked[which], round * PEERS + which);
            PAIR_CALL(&pair, fi_tinject(eps[which], &asked[which], 4, pair.b.other, which));
        }
        for (uint32_t i = 0; i < PEERS; i++)
            (void)pair_next(&pair, pair.a.rx, NULL);
        for (uint32_t i = 0; i < PEERS; i++)
            CHECK_EQUAL(answers[i], round * PEERS + i);
    }
    for (unsigned i = 0; i < PEERS; i++)
        CHECK_EQUAL(fi_close(&eps[i]->fid), 0);
    pair_close(&pair);
}

int main(void)
{
    unused_addresses();
    used_peers();
    puts("ok");
    return 0;
}
