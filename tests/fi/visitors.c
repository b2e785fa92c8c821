/*
 * Peers that the program does not know, or no longer, are forgotten once they have gone, and can
 * come again. As unit tests of src/front/fi, this knows the structures of the provider.
 */
#include "fi/pair.h"
#include "front/fi/fi.h"

#include <stdio.h>

enum { LONG = 1000000 };
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

/* Receive a message of `len` bytes, with a buffer for the error data if there is `room`. */
static struct fi_cq_err_entry stranger(struct pair *pair, struct side *guest, size_t len, void *buf,
                                       size_t room)
{
    static unsigned char out[LONG], in[LONG];
    struct fi_cq_err_entry error = {.err_data = buf, .err_data_size = room};
    struct fi_cq_tagged_entry entry;
    ssize_t got;
    pattern_fill(out, len, 1);
    memset(in, 0, len);
    PAIR_CALL(pair, fi_trecv(pair->b.in, in, len, NULL, FI_ADDR_UNSPEC, 5, 0, in));
    PAIR_CALL(pair, fi_tsend(guest->ep, out, len, NULL, guest->other, 5, NULL));
    while ((got = fi_cq_read(pair->b.rx, &entry, 1)) == -FI_EAGAIN)
        pair_move(pair);
    CHECK_EQUAL(got, -FI_EAVAIL);
    CHECK_EQUAL(fi_cq_readerr(pair->b.rx, &error, 0), 1);
    CHECK_EQUAL(error.err, FI_EADDRNOTAVAIL);
    CHECK(error.op_context == in);
    CHECK_EQUAL(error.flags, FI_RECV | FI_TAGGED);
    CHECK(error.tag == 5 && error.len == len && error.olen == 0);
    pattern_check(in, len, 1);
    (void)pair_next(pair, guest->tx, NULL);
    return error;
}

/* With FI_SOURCE_ERR, the first message of an unknown peer tells its name (FI_EADDRNOTAVAIL). */
static void strangers(void)
{
    const struct pair_wish wish = {.caps = FI_TAGGED | FI_SOURCE | FI_SOURCE_ERR}, plain = {0};
    struct pair pair;
    struct side guest;
    struct fi_cq_err_entry error;
    char name[64], server[64], buf[64] = "";
    size_t len = sizeof(name), server_len = sizeof(server);
    int got = 0;
    fi_addr_t from;
    pair_open(&pair, &wish);
    side_open(&guest, &plain);
    CHECK_EQUAL(fi_getname(&pair.b.ep->fid, server, &server_len), 0);
    CHECK_EQUAL(fi_getname(&guest.ep->fid, name, &len), 0);
    guest.other = side_insert(&guest, server);
    error = stranger(&pair, &guest, LONG, NULL, 0);
    CHECK(error.err_data_size == len && memcmp(error.err_data, name, len) == 0);
    error = stranger(&pair, &guest, 4, buf, 10);
    CHECK(error.err_data == buf && error.err_data_size == 10);
    CHECK(memcmp(buf, name, 10) == 0 && buf[10] == 0);
    error = stranger(&pair, &guest, 0, buf, sizeof(buf));
    CHECK_EQUAL(error.err_data_size, len);
    pair.b.other = side_insert(&pair.b, buf);
    PAIR_CALL(&pair, fi_trecv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    PAIR_CALL(&pair, fi_tinject(guest.ep, name, 4, guest.other, 5));
    (void)pair_next(&pair, pair.b.rx, &from);
    CHECK_EQUAL(from, pair.b.other);
    side_close(&guest);
    pair_close(&pair);
}

int main(void)
{
    strangers();
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
