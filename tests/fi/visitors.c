/*
 * Peers that the program does not know, or no longer, are forgotten once they have gone, and can
 * come again. As unit tests of src/front/fi, this knows the structures of the provider.
 */
#include "fi/pair.h"
#include "front/fi/fi.h"

#include <stdio.h>

enum { VISITORS = 300, MOST = 100 /* known at once: of those gone, some are kept for a while */ };

static unsigned peers_of(struct fid_ep *fid)
{
    struct afi_ep *ep = AQI_OF(fid, struct afi_ep, fid);
    unsigned count = 0;
    afi_lock();
    for (unsigned i = 0; i < AFI_PEERS; i++)
        for (const struct aqi_node *at = ep->peers[i].next; at != &ep->peers[i]; at = at->next)
            count++;
    afi_unlock();
    return count;
}

static void say(struct pair *pair, struct side *from, fi_addr_t to)
{
    static const int value = 7;
    int got = 0;
    PAIR_CALL(pair, fi_recv(pair->b.in, &got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(pair, fi_inject(from->ep, &value, sizeof(value), to));
    (void)pair_next(pair, pair->b.rx, NULL);
    CHECK_EQUAL(got, value);
}

/* The server sees many clients; every other one is also inserted, answered and removed. */
static void visit(struct pair *pair, const char *server, unsigned number)
{
    const struct pair_wish wish = {0};
    struct side guest;
    char name[64];
    size_t len = sizeof(name);
    int value = 8, got = 0;
    side_open(&guest, &wish);
    say(pair, &guest, side_insert(&guest, server));
    if (number % 2 == 0) {
        CHECK_EQUAL(fi_getname(&guest.ep->fid, name, &len), 0);
        fi_addr_t addr = side_insert(&pair->b, name);
        PAIR_CALL(pair, fi_recv(guest.in, &got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL));
        PAIR_CALL(pair, fi_inject(pair->b.ep, &value, sizeof(value), addr));
        (void)pair_next(pair, guest.rx, NULL);
        CHECK_EQUAL(got, value);
        CHECK_EQUAL(fi_av_remove(pair->b.av, &addr, 1, 0), 0);
    }
    side_close(&guest);
}

static struct afi_peer *peer_at(struct fid_ep *ep, fi_addr_t addr)
{
    afi_lock();
    struct afi_peer *peer = afi_peer_of(AQI_OF(ep, struct afi_ep, fid), addr);
    afi_unlock();
    return peer;
}

/* The connection breaks, and both ends notice. */
static void break_connection(struct pair *pair, fi_addr_t server_to_client)
{
    struct afi_peer *mine = peer_at(pair->a.ep, pair->a.other);
    struct afi_peer *theirs = peer_at(pair->b.ep, server_to_client);
    afi_lock();
    afi_peer_fail(theirs, FI_ECONNRESET);
    afi_unlock();
    while (mine->state != AFI_IDLE)
        pair_move(pair);
}

/* A peer that the server has called, and then forgotten, is called again at once. */
static void again(struct pair *pair, const char *name)
{
    int value = 9, got = 0;
    for (unsigned i = 0; i < 3; i++) {
        fi_addr_t addr = side_insert(&pair->b, name);
        CHECK_EQUAL(peer_at(pair->b.ep, addr)->calls, i); /* the peer refuses numbers it has had */
        PAIR_CALL(pair, fi_recv(pair->a.in, &got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL));
        PAIR_CALL(pair, fi_inject(pair->b.ep, &value, sizeof(value), addr));
        (void)pair_next(pair, pair->a.rx, NULL);
        CHECK_EQUAL(got, value);
        break_connection(pair, addr);
        CHECK_EQUAL(fi_av_remove(pair->b.av, &addr, 1, 0), 0);
        afi_lock();
        afi.lost = MOST;
        afi_peer_forget();
        afi_unlock();
        CHECK_EQUAL(peers_of(pair->b.ep), 0);
    }
    say(pair, &pair->a, pair->a.other);
}

int main(void)
{
    const struct pair_wish wish = {0};
    struct pair pair;
    char names[2][64];
    size_t lens[2] = {sizeof(names[0]), sizeof(names[1])};
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_getname(&pair.a.ep->fid, names[0], &lens[0]), 0);
    CHECK_EQUAL(fi_getname(&pair.b.ep->fid, names[1], &lens[1]), 0);
    for (unsigned i = 0; i < VISITORS; i++) {
        visit(&pair, names[1], i);
        CHECK(peers_of(pair.b.ep) <= MOST);
    }
    CHECK_EQUAL(fi_av_remove(pair.b.av, &pair.b.other, 1, 0), 0);
    again(&pair, names[0]);
    pair_close(&pair);
    puts("ok");
    return 0;
}
