/* Endpoints whose addresses are those of sockets (FI_SOCKADDR_IN). */
#include "fi/pair.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

static struct sockaddr_in name_of(const struct side *side)
{
    struct sockaddr_in at;
    size_t len = 0;
    CHECK_EQUAL(fi_getname(&side->ep->fid, NULL, &len), -FI_ETOOSMALL);
    CHECK_EQUAL(len, sizeof(at));
    CHECK_EQUAL(fi_getname(&side->ep->fid, &at, &len), 0);
    CHECK_EQUAL(len, sizeof(at));
    CHECK_EQUAL(at.sin_family, AF_INET);
    CHECK(at.sin_port != 0 && at.sin_addr.s_addr != 0);
    return at;
}

static void looked_up(const struct side *side, fi_addr_t addr, const struct sockaddr_in *wanted)
{
    struct sockaddr_in at;
    size_t len = sizeof(at);
    CHECK_EQUAL(fi_av_lookup(side->av, addr, &at, &len), 0);
    CHECK_EQUAL(len, sizeof(at));
    CHECK(memcmp(&at, wanted, len) == 0);
}

/* Both ends know each other by such addresses, and receivers get those of the senders. */
static void converse(struct pair *pair)
{
    int value = 7, got = 0;
    fi_addr_t from;
    struct side *sides[] = {&pair->a, &pair->b};
    for (unsigned i = 0; i < 2; i++) {
        struct side *sender = sides[i], *receiver = sides[1 - i];
        PAIR_CALL(pair, fi_recv(receiver->ep, &got, 4, NULL, receiver->other, NULL));
        PAIR_CALL(pair, fi_send(sender->ep, &value, 4, NULL, sender->other, NULL));
        (void)pair_next(pair, receiver->rx, &from);
        CHECK_EQUAL(from, receiver->other);
        (void)pair_next(pair, sender->tx, NULL);
    }
}

/* An address that is not the first one of the host stays as it was inserted. */
static void by_loopback(struct pair *pair, struct sockaddr_in at)
{
    int value = 8, got = 0;
    const struct sockaddr_in first = at;
    CHECK_EQUAL(inet_pton(AF_INET, "127.0.0.1", &at.sin_addr), 1);
    fi_addr_t addr = side_insert(&pair->a, &at);
    looked_up(&pair->a, addr, &at);
    looked_up(&pair->a, pair->a.other, &first);
    PAIR_CALL(pair, fi_recv(pair->b.ep, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(pair, fi_send(pair->a.ep, &value, 4, NULL, addr, NULL));
    (void)pair_next(pair, pair->b.rx, NULL);
    CHECK_EQUAL(got, 8);
    looked_up(&pair->a, addr, &at);
    CHECK_EQUAL(fi_av_remove(pair->a.av, &pair->a.other, 1, 0), 0);
    pair->a.other = addr;
}

static void messages(uint32_t format)
{
    struct pair pair;
    const struct pair_wish wish = {.format = format};
    char text[64], wanted[64], ip[INET_ADDRSTRLEN];
    size_t len = sizeof(text);
    side_open(&pair.a, &wish);
    side_open(&pair.b, &wish);
    const struct sockaddr_in a = name_of(&pair.a), b = name_of(&pair.b);
    CHECK_EQUAL(pair.a.info->addr_format, FI_SOCKADDR_IN);
    CHECK(memcmp(&a, &b, sizeof(a)) != 0);
    pair.a.other = side_insert(&pair.a, &b);
    pair.b.other = side_insert(&pair.b, &a);
    looked_up(&pair.a, pair.a.other, &b);
    converse(&pair);
    looked_up(&pair.a, pair.a.other, &b);
    CHECK(fi_av_straddr(pair.a.av, &b, text, &len) == text);
    CHECK(inet_ntop(AF_INET, &b.sin_addr, ip, sizeof(ip)) != NULL);
    snprintf(wanted, sizeof(wanted), "fi_sockaddr_in://%s:%u", ip, ntohs(b.sin_port));
    CHECK(strcmp(text, wanted) == 0);
    CHECK_EQUAL(len, strlen(wanted) + 1);
    by_loopback(&pair, b);
    converse(&pair);
    pair_close(&pair);
}

/* Many addresses in one call; some are no address of an endpoint. */
static void insertions(void)
{
    enum { COUNT = 100, OTHER_FAMILY = 7, ANY_HOST, NO_PORT };
    const struct pair_wish wish = {.format = FI_SOCKADDR_IN};
    struct side side;
    struct sockaddr_in at[COUNT];
    fi_addr_t addrs[COUNT];
    int errors[COUNT];
    memset(at, 0, sizeof(at));
    for (uint32_t i = 0; i < COUNT; i++) {
        at[i].sin_family = AF_INET;
        at[i].sin_addr.s_addr = htonl(0xc0000200 + i);
        at[i].sin_port = htons((uint16_t)(i + 1));
    }
    at[OTHER_FAMILY].sin_family = AF_INET6;
    at[ANY_HOST].sin_addr.s_addr = htonl(INADDR_ANY);
    at[NO_PORT].sin_port = 0;
    side_open(&side, &wish);
    CHECK_EQUAL(fi_av_insert(side.av, at, COUNT, addrs, FI_SYNC_ERR, errors), COUNT - 3);
    for (unsigned i = 0; i < COUNT; i++) {
        bool bad = i >= OTHER_FAMILY && i <= NO_PORT;
        CHECK_EQUAL(errors[i], bad ? FI_EINVAL : 0);
        CHECK_EQUAL(addrs[i] == FI_ADDR_NOTAVAIL, bad);
        if (!bad) looked_up(&side, addrs[i], &at[i]);
    }
    CHECK_EQUAL(fi_av_insertsvc(side.av, "192.0.2.5", "5000", addrs, 0, NULL), 1);
    at[5].sin_port = htons(5000);
    looked_up(&side, addrs[0], &at[5]);
    side_close(&side);
}

/* The address of a sender that is in no vector is the error data, and can be inserted. */
static void strangers(void)
{
    struct pair pair;
    const struct pair_wish wish = {.format = FI_SOCKADDR_IN,
                                   .caps = FI_MSG | FI_SOURCE | FI_SOURCE_ERR};
    int value = 7, got = 0;
    side_open(&pair.a, &wish);
    side_open(&pair.b, &wish);
    const struct sockaddr_in a = name_of(&pair.a), b = name_of(&pair.b);
    pair.a.other = side_insert(&pair.a, &b);
    PAIR_CALL(&pair, fi_recv(pair.b.ep, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, pair.a.other, NULL));
    const struct fi_cq_err_entry error = pair_error(&pair, pair.b.rx);
    CHECK_EQUAL(error.err, FI_EADDRNOTAVAIL);
    CHECK_EQUAL(error.err_data_size, sizeof(a));
    CHECK(memcmp(error.err_data, &a, sizeof(a)) == 0);
    pair.b.other = side_insert(&pair.b, error.err_data);
    (void)pair_next(&pair, pair.a.tx, NULL);
    converse(&pair);
    pair_close(&pair);
}

/* A chosen address is that of the endpoint; another format needs another domain. */
static void chosen(void)
{
    struct side side, taken;
    const struct pair_wish wish = {.format = FI_SOCKADDR_IN}, plain = {0};
    struct fi_info *info;
    struct fid_ep *ep;
    side_open(&taken, &wish);
    struct sockaddr_in at = name_of(&taken);
    side_close(&taken);
    CHECK_EQUAL(pair_find(&plain, &info), 0);
    side_open(&side, &wish);
    CHECK_EQUAL(fi_endpoint(side.domain, info, &ep, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_endpoint(side.domain, side.info, &ep, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &side.av->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &side.tx->fid, FI_TRANSMIT | FI_RECV), 0);
    CHECK_EQUAL(inet_pton(AF_INET, "127.0.0.1", &at.sin_addr), 1);
    CHECK_EQUAL(fi_setname(&ep->fid, &at, sizeof(at)), 0);
    CHECK_EQUAL(fi_enable(ep), 0);
    const struct side same = {.ep = ep};
    const struct sockaddr_in got = name_of(&same);
    CHECK(memcmp(&got, &at, sizeof(at)) == 0);
    CHECK_EQUAL(fi_close(&ep->fid), 0);
    side_close(&side);
    fi_freeinfo(info);
}

int main(void)
{
    messages(FI_SOCKADDR_IN);
    messages(FI_SOCKADDR);
    insertions();
    strangers();
    chosen();
    puts("ok");
    return 0;
}
