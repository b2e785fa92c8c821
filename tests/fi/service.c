/*
 * usage: service [other | serve PORT | ask NODE PORT | meet NODE PORT]
 *
 * Endpoints at a service (a port) chosen by the program, which peers look up by host and number, as
 * client and server programs do. With `other`, the server is another process, without shared
 * memory. For tests between hosts: `serve` answers a message of `ask`; two that `meet` have the
 * same service.
 */
#include "fi/pair.h"
#include "front/fi/name.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 1000000, FIRST_PORT = 20000, PORTS = 12000 };

/* Not of the ports that the kernel chooses. */
static const char *service(unsigned which, char text[8])
{
    snprintf(text, 8, "%u", FIRST_PORT + ((unsigned)getpid() * 3 + which) % PORTS);
    return text;
}

static struct pair_wish server_wish(const char *port)
{
    return (struct pair_wish){.service = port, .flags = FI_SOURCE};
}

static struct pair_wish client_wish(const char *port)
{
    const char *six = getenv("AQT_FI_SIX");
    return (struct pair_wish){.node = six != NULL ? six : "localhost", .service = port};
}

/* The client sends its name, as the server knows no peer. */
static void introduce(struct pair *pair)
{
    char name[64], got[64];
    size_t len = sizeof(name);
    fi_addr_t from;
    CHECK_EQUAL(fi_getname(&pair->a.ep->fid, name, &len), 0);
    pair->a.other = side_insert(&pair->a, pair->a.info->dest_addr);
    PAIR_CALL(pair, fi_recv(pair->b.ep, got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(pair, fi_send(pair->a.ep, name, len, NULL, pair->a.other, NULL));
    CHECK_EQUAL(pair_next(pair, pair->b.rx, &from).len, len);
    CHECK_EQUAL(from, FI_ADDR_NOTAVAIL);
    (void)pair_next(pair, pair->a.tx, NULL);
    pair->b.other = side_insert(&pair->b, got);
}

/* Messages of both kinds in both directions. */
static void converse(struct pair *pair, fi_addr_t server)
{
    static unsigned char out[LONG], in[LONG];
    static const size_t sizes[] = {8, LONG};
    fi_addr_t from;
    for (unsigned i = 0; i < COUNT_OF(sizes); i++) {
        pattern_fill(out, sizes[i], i);
        PAIR_CALL(pair, fi_recv(pair->b.ep, in, sizes[i], NULL, pair->b.other, NULL));
        PAIR_CALL(pair, fi_send(pair->a.ep, out, sizes[i], NULL, server, NULL));
        (void)pair_next(pair, pair->b.rx, &from);
        CHECK_EQUAL(from, pair->b.other);
        pattern_check(in, sizes[i], i);
        (void)pair_next(pair, pair->a.tx, NULL);
        memset(in, 0, sizes[i]);
        PAIR_CALL(pair, fi_recv(pair->a.ep, in, sizes[i], NULL, server, NULL));
        PAIR_CALL(pair, fi_send(pair->b.ep, out, sizes[i], NULL, pair->b.other, NULL));
        (void)pair_next(pair, pair->a.rx, NULL);
        pattern_check(in, sizes[i], i);
        (void)pair_next(pair, pair->b.tx, NULL);
    }
}

static void client_and_server(void)
{
    char port[8], name[64], looked_up[64];
    size_t len = sizeof(name);
    struct pair pair;
    fi_addr_t addr;
    const struct pair_wish server = server_wish(service(0, port)), client = client_wish(port);
    side_open(&pair.b, &server);
    side_open(&pair.a, &client);
    introduce(&pair);
    converse(&pair, pair.a.other);
    /* The name that the server itself knows, and the service in a vector, are the same peer. */
    CHECK_EQUAL(fi_getname(&pair.b.ep->fid, name, &len), 0);
    converse(&pair, side_insert(&pair.a, name));
    CHECK_EQUAL(fi_av_insertsvc(pair.a.av, client.node, port, &addr, 0, NULL), 1);
    converse(&pair, addr);
    len = sizeof(looked_up);
    CHECK_EQUAL(fi_av_lookup(pair.a.av, addr, looked_up, &len), 0);
    CHECK(memcmp(looked_up, name, sizeof(name)) == 0);
    pair_close(&pair);
}

/* Both ends are services, and call each other simultaneously. */
static void two_services(void)
{
    char port[2][8];
    struct pair pair;
    int value = 7, got[2] = {0};
    const struct pair_wish wish[2] = {server_wish(service(1, port[0])),
                                      server_wish(service(2, port[1]))};
    side_open(&pair.a, &wish[0]);
    side_open(&pair.b, &wish[1]);
    CHECK_EQUAL(fi_av_insertsvc(pair.a.av, client_wish(NULL).node, port[1], &pair.a.other, 0, NULL),
                1);
    CHECK_EQUAL(fi_av_insertsvc(pair.b.av, client_wish(NULL).node, port[0], &pair.b.other, 0, NULL),
                1);
    PAIR_CALL(&pair, fi_recv(pair.a.ep, &got[0], 4, NULL, pair.a.other, NULL));
    PAIR_CALL(&pair, fi_recv(pair.b.ep, &got[1], 4, NULL, pair.b.other, NULL));
    PAIR_CALL(&pair, fi_inject(pair.a.ep, &value, 4, pair.a.other));
    PAIR_CALL(&pair, fi_inject(pair.b.ep, &value, 4, pair.b.other));
    (void)pair_next(&pair, pair.a.rx, NULL);
    (void)pair_next(&pair, pair.b.rx, NULL);
    CHECK(got[0] == 7 && got[1] == 7);
    pair_close(&pair);
}

/* Ranges of nodes and services are inserted node by node. */
static void ranges(void)
{
    static const struct {
        uint8_t node;
        uint16_t port;
    } wanted[] = {{1, 5000}, {1, 5001}, {2, 5000}, {2, 5001}};
    const struct pair_wish wish = {0};
    struct side side;
    fi_addr_t addrs[4];
    int errors[4] = {-1, -1, -1, -1};
    struct afi_name name;
    size_t len = sizeof(name);
    side_open(&side, &wish);
    CHECK_EQUAL(fi_av_insertsym(side.av, "192.0.2.1", 2, "5000", 2, addrs, FI_SYNC_ERR, errors), 4);
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQUAL(errors[i], 0);
        CHECK_EQUAL(fi_av_lookup(side.av, addrs[i], &name, &len), 0);
        CHECK_EQUAL(name.address[0][3], wanted[i].node);
        CHECK_EQUAL(name.port, wanted[i].port);
    }
    CHECK_EQUAL(fi_av_insertsym(side.av, "localhost", 1, "65535", 2, addrs, 0, NULL), 1);
    CHECK(addrs[0] != FI_ADDR_NOTAVAIL && addrs[1] == FI_ADDR_NOTAVAIL);
    CHECK_EQUAL(fi_av_insertsym(side.av, "localhost", 0, "5000", 2, addrs, 0, NULL), 0);
    CHECK_EQUAL(fi_av_insertsym(side.av, "localhost", 2, "5000", 1, addrs, 0, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_av_insertsym(side.av, "localhost", 1, "a name", 2, addrs, 0, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_av_insertsym(side.av, NULL, 1, "5000", 1, addrs, 0, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_av_insertsym(side.av, "a", SIZE_MAX, "5000", 2, addrs, 0, NULL), -FI_EINVAL);
    side_close(&side);
}

/*
 * Several endpoints with one fi_info: the first one has the service, and the others have addresses
 * of their own. The service is free again after its endpoint has been closed.
 */
static void one_info(void)
{
    char port[8];
    struct side first, second;
    const struct pair_wish wish = server_wish(service(3, port));
    for (unsigned i = 0; i < 3; i++) {
        char names[2][64];
        size_t len = sizeof(names[0]);
        side_open(&first, &wish);
        side_open(&second, &wish);
        CHECK_EQUAL(fi_getname(&first.ep->fid, names[0], &len), 0);
        CHECK_EQUAL(afi_name_service(names[0], len), atoi(port));
        CHECK_EQUAL(fi_getname(&second.ep->fid, names[1], &len), 0);
        CHECK_EQUAL(afi_name_service(names[1], len), 0);
        side_close(&second);
        side_close(&first);
    }
}

/* A service that is chosen by fi_setname has one endpoint. */
static void one_endpoint(void)
{
    char port[8];
    struct side first, second;
    struct fid_ep *ep;
    const struct pair_wish wish = server_wish(service(3, port)), plain = {0};
    side_open(&first, &wish);
    side_open(&second, &plain);
    CHECK_EQUAL(fi_endpoint(second.domain, second.info, &ep, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &second.av->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &second.tx->fid, FI_TRANSMIT | FI_RECV), 0);
    CHECK_EQUAL(fi_setname(&ep->fid, first.info->src_addr, first.info->src_addrlen), 0);
    CHECK_EQUAL(fi_enable(ep), -FI_EADDRINUSE);
    side_close(&first);
    CHECK_EQUAL(fi_enable(ep), 0);
    CHECK_EQUAL(fi_close(&ep->fid), 0);
    side_close(&second);
}

/* An endpoint that could not be enabled, because a program that is no endpoint had the port, is
 * enabled once the port is free. */
static void occupied(void)
{
    char port[8];
    struct side side;
    const struct pair_wish wish = server_wish(service(7, port));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    CHECK_EQUAL(side_try(&side, &wish), -FI_EADDRINUSE);
    CHECK_EQUAL(close(fd), 0);
    CHECK_EQUAL(fi_enable(side.ep), 0);
    side_close(&side);
}

static void chosen_name(void)
{
    char port[8];
    struct fi_info *info;
    struct fid_ep *ep;
    struct afi_name name;
    size_t len = sizeof(name);
    struct side side;
    const struct pair_wish plain = {0}, wish = server_wish(service(4, port));
    side_open(&side, &plain);
    CHECK_EQUAL(pair_find(&wish, &info), 0);
    CHECK_EQUAL(info->src_addrlen, sizeof(name));
    CHECK_EQUAL(fi_setname(&side.ep->fid, info->src_addr, len), -FI_EOPBADSTATE);
    CHECK_EQUAL(fi_endpoint(side.domain, side.info, &ep, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &side.av->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &side.tx->fid, FI_TRANSMIT | FI_RECV), 0);
    CHECK_EQUAL(fi_setname(&ep->fid, info->src_addr, len - 1), -FI_EINVAL);
    CHECK_EQUAL(fi_setname(&ep->fid, info->src_addr, len), 0);
    CHECK_EQUAL(fi_enable(ep), 0);
    CHECK_EQUAL(fi_getname(&ep->fid, &name, &len), 0);
    CHECK_EQUAL(name.port, atoi(port));
    CHECK_EQUAL(fi_close(&ep->fid), 0);
    fi_freeinfo(info);
    side_close(&side);
}

/* Programs for any provider give addresses of sockets. */
static void addresses_of_sockets(void)
{
    char port[8];
    struct fi_info *hints = fi_allocinfo(), *info;
    struct sockaddr_in *at = calloc(1, sizeof(*at));
    CHECK(hints != NULL && at != NULL);
    at->sin_family = AF_INET;
    hints->src_addr = at;
    hints->src_addrlen = sizeof(*at);
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), 0); /* any address, any port */
    CHECK_EQUAL(afi_name_service(info->src_addr, info->src_addrlen), 0);
    fi_freeinfo(info);
    at->sin_port = htons((uint16_t)atoi(service(6, port)));
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), 0);
    CHECK_EQUAL(afi_name_service(info->src_addr, info->src_addrlen), atoi(port));
    fi_freeinfo(info);
    CHECK_EQUAL(inet_pton(AF_INET, "192.0.2.1", &at->sin_addr), 1); /* of no host */
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), -FI_ENODATA);
    hints->src_addr = NULL;
    hints->dest_addr = at;
    hints->dest_addrlen = sizeof(*at);
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), 0);
    CHECK_EQUAL(afi_name_service(info->dest_addr, info->dest_addrlen), atoi(port));
    CHECK(memcmp(((struct afi_name *)info->dest_addr)->address, &at->sin_addr, 4) == 0);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void refused(const char *node, const char *port, uint64_t flags)
{
    struct fi_info *info;
    const struct pair_wish wish = {.node = node, .service = port, .flags = flags};
    CHECK_EQUAL(pair_find(&wish, &info), -FI_ENODATA);
}

/* Ports of the addresses that are found; -1: no address is. */
static void found(const char *node, const char *port, uint64_t flags, int from, int to)
{
    struct fi_info *info;
    const struct pair_wish wish = {.node = node, .service = port, .flags = flags};
    CHECK_EQUAL(pair_find(&wish, &info), 0);
    CHECK(afi_name_is_service(info->src_addr, info->src_addrlen));
    CHECK_EQUAL(afi_name_service(info->src_addr, info->src_addrlen), from);
    CHECK_EQUAL(afi_name_is_service(info->dest_addr, info->dest_addrlen), to >= 0);
    if (to >= 0) CHECK_EQUAL(afi_name_service(info->dest_addr, info->dest_addrlen), to);
    struct fi_info *same;
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), info, &same), 0);
    CHECK_EQUAL(same->dest_addrlen, info->dest_addrlen);
    fi_freeinfo(same);
    fi_freeinfo(info);
}

/* There is always a source, and a destination if there is a node or service without FI_SOURCE. */
static void lookups(void)
{
    bool six = getenv("AQT_FI_SIX") != NULL;
    refused("localhost", "65537", 0);
    refused(NULL, "70000", FI_SOURCE);
    refused("a name", "7000", FI_NUMERICHOST);
    refused("localhost", "7000", FI_NUMERICHOST);
    refused("localhost", "no service", 0);
    refused("192.0.2.1", "7000", FI_SOURCE); /* an address of no host */
    refused("192.0.2.1", NULL, FI_SOURCE);
    refused("a name", NULL, FI_SOURCE);
    refused("a name", NULL, 0);
    refused("localhost", NULL, FI_NUMERICHOST);
    refused("fi_sockaddr_in://192.0.2.1:7000", NULL, FI_SOURCE);
    refused("fi_sockaddr_in://192.0.2.1", NULL, 0);
    refused("fi_sockaddr_ib://192.0.2.1:7000", NULL, 0);
    refused("fi_sockaddr_in://192.0.2.1:7000", "7000", 0);
    found(NULL, NULL, 0, 0, -1);
    found(NULL, "7000", FI_SOURCE | FI_NUMERICHOST, 7000, -1);
    found("localhost", NULL, FI_SOURCE, 0, -1);
    found("localhost", "7000", FI_SOURCE, 7000, -1);
    found("127.0.1.1", "7000", FI_SOURCE, 7000, -1);
    found(six ? "fi_sockaddr://[::1]:7000" : "fi_sockaddr://127.0.0.1:7000", NULL, FI_SOURCE, 7000,
          -1);
    found(NULL, "7000", 0, 0, 7000);
    found("192.0.2.1", NULL, 0, 0, 0);
    found("192.0.2.1", "7000", FI_NUMERICHOST, 0, 7000);
    found("fi_sockaddr_in://192.0.2.1:7000", NULL, 0, 0, 7000);
    found("fi_sockaddr_in6://[2001:db8::1]:7000", NULL, 0, 0, 7000);
}

static void nothing_there(void)
{
    char port[8];
    struct side side;
    fi_addr_t addr;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    const struct pair_wish wish = {0};
    side_open(&side, &wish);
    CHECK_EQUAL(fi_av_insertsvc(side.av, NULL, "7000", &addr, 0, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_av_insertsvc(side.av, "a name", "x", &addr, 0, NULL), -FI_ENODATA);
    CHECK_EQUAL(fi_av_insertsvc(side.av, client_wish(NULL).node, service(5, port), &addr, 0, NULL),
                1);
    CHECK_EQUAL(fi_send(side.ep, port, 4, NULL, addr, NULL), 0);
    while (fi_cq_read(side.tx, &entry, 1) == -FI_EAGAIN)
        continue;
    CHECK_EQUAL(fi_cq_readerr(side.tx, &error, 0), 1);
    CHECK_EQUAL(error.err, FI_ECONNREFUSED);
    CHECK_EQUAL(fi_av_insertsvc(side.av, "localhost", NULL, &addr, 0, NULL), 0); /* no endpoint */
    CHECK(addr == FI_ADDR_NOTAVAIL);
    side_close(&side);
}

static void await(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    ssize_t got;
    while ((got = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
        continue;
    if (got == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        CHECK_EQUAL(fi_cq_readerr(cq, &error, 0), 1);
        check_failed(__FILE__, __LINE__, "an error completion: %s", fi_strerror(error.err));
    }
    CHECK_EQUAL(got, 1);
}

/* Answer one message with the same one. */
static void serve(const char *port)
{
    struct side side;
    char name[64];
    const struct pair_wish wish = server_wish(port);
    side_open(&side, &wish);
    CHECK_EQUAL(fi_recv(side.ep, name, sizeof(name), NULL, FI_ADDR_UNSPEC, NULL), 0);
    printf("ready\n");
    fflush(stdout);
    await(side.rx);
    fi_addr_t client = side_insert(&side, name);
    CHECK_EQUAL(fi_send(side.ep, name, sizeof(name), NULL, client, NULL), 0);
    await(side.tx);
    side_close(&side);
}

static void ask(const char *node, const char *port)
{
    char name[64], got[64] = {0};
    size_t len = sizeof(name);
    struct side side;
    const struct pair_wish wish = {.node = node, .service = port};
    side_open(&side, &wish);
    CHECK_EQUAL(fi_getname(&side.ep->fid, name, &len), 0);
    fi_addr_t addr = side_insert(&side, side.info->dest_addr);
    CHECK_EQUAL(fi_recv(side.ep, got, sizeof(got), NULL, addr, NULL), 0);
    CHECK_EQUAL(fi_send(side.ep, name, len, NULL, addr, NULL), 0);
    await(side.tx);
    await(side.rx);
    CHECK(memcmp(got, name, len) == 0);
    side_close(&side);
}

/* Each sends one message, until the other one exists. */
static void meet(const char *node, const char *port)
{
    struct side side;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {.err = FI_ECONNREFUSED};
    int value = 7, got = 0;
    fi_addr_t addr;
    const struct pair_wish wish = server_wish(port);
    side_open(&side, &wish);
    CHECK_EQUAL(fi_av_insertsvc(side.av, node, port, &addr, 0, NULL), 1);
    CHECK_EQUAL(fi_recv(side.ep, &got, 4, NULL, addr, NULL), 0);
    while (error.err == FI_ECONNREFUSED) {
        ssize_t count;
        CHECK_EQUAL(fi_send(side.ep, &value, 4, NULL, addr, NULL), 0);
        while ((count = fi_cq_read(side.tx, &entry, 1)) == -FI_EAGAIN)
            continue;
        if (count == 1) break;
        CHECK_EQUAL(fi_cq_readerr(side.tx, &error, 0), 1);
        CHECK_EQUAL(error.err, FI_ECONNREFUSED);
    }
    await(side.rx);
    CHECK_EQUAL(got, 7);
    side_close(&side);
}

/* The server does not have all the transports that its host has. */
static void other_process(void)
{
    int out[2], status;
    char port[8], line[8] = "";
    (void)service(0, port);
    CHECK_EQUAL(pipe(out), 0);
    pid_t server = fork();
    if (server == 0) {
        CHECK_EQUAL(dup2(out[1], STDOUT_FILENO), STDOUT_FILENO);
        CHECK_EQUAL(setenv("AQ_TRANSPORTS", "loop,udp", 1), 0);
        serve(port);
        _exit(0);
    }
    CHECK(read(out[0], line, sizeof(line)) > 0);
    ask("localhost", port);
    CHECK_EQUAL(waitpid(server, &status, 0), server);
    CHECK_EQUAL(status, 0);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "other") == 0) {
        other_process();
        occupied();
    } else if (strcmp(mode, "serve") == 0 && argc == 3) {
        serve(argv[2]);
    } else if (strcmp(mode, "ask") == 0 && argc == 4) {
        ask(argv[2], argv[3]);
    } else if (strcmp(mode, "meet") == 0 && argc == 4) {
        meet(argv[2], argv[3]);
    } else {
        client_and_server();
        two_services();
        ranges();
        one_info();
        one_endpoint();
        chosen_name();
        addresses_of_sockets();
        lookups();
        nothing_there();
    }
    return 0;
}
