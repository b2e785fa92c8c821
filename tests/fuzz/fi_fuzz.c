/*
 * Any messages from a peer of the provider for libfabric, which has a receive posted for each kind
 * of message, registered memory, and operations that wait for an answer. Each message is preceded
 * by two bytes with its length, and gets the number that is next.
 */
#include "front/fi/wire.h"
#include "fuzz.h"

#include <rdma/providers/fi_prov.h>
#include <string.h>

enum { MEMORY = 4096, KEY = 7 };

struct fi_provider *fi_prov_ini(void);

static struct {
    struct afi_ep *ep;
    struct afi_peer *peer;
    struct afi_cq *cq;
    unsigned char memory[MEMORY + 64], target[512];
} world;

static void must(int err)
{
    if (err != 0) abort();
}

static void open_world(void)
{
    static struct fid_fabric *fabric; /* these remain until the end */
    static struct fid_domain *domain;
    static struct fid_av *av;
    static struct fid_cq *cq;
    static struct fid_ep *ep;
    static struct fid_mr *mr;
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_av_attr av_attr = {.type = FI_AV_MAP};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct afi_name name;
    must(fi_prov_ini()->getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    must(fi_prov_ini()->fabric(info->fabric_attr, &fabric, NULL));
    must(fi_domain(fabric, info, &domain, NULL));
    must(fi_av_open(domain, &av_attr, &av, NULL));
    must(fi_cq_open(domain, &cq_attr, &cq, NULL));
    must(fi_endpoint(domain, info, &ep, NULL));
    must(fi_ep_bind(ep, &av->fid, 0));
    must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    must(fi_mr_reg(domain, world.memory, MEMORY, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
                   NULL));
    must(afi_name_make(&name));
    name.transports = AFI_BY_SHM;
    world.ep = AQI_OF(ep, struct afi_ep, fid);
    world.cq = AQI_OF(cq, struct afi_cq, fid);
    world.peer = afi_peer_get(world.ep, afi_ident_get(world.ep->domain, &name));
    afi.ops = calloc(4, sizeof(*afi.ops));
    afi.op_room = 4;
    if (world.peer == NULL || afi.ops == NULL) abort();
    fi_freeinfo(hints);
    fi_freeinfo(info);
}

/* The peer knows these by the handles 1 << 20 | i. */
static void begin_operations(void)
{
    static const enum afi_type types[] = {AFI_SEND, AFI_READ, AFI_ATOMIC_OP, AFI_WRITE};
    for (unsigned i = 0; i < 4; i++) {
        struct afi_op *op = afi_op_new(world.peer, 0, false, NULL);
        if (op == NULL) abort();
        op->type = types[i];
        op->handle = UINT32_C(1) << 20 | i;
        op->fetches = types[i] == AFI_ATOMIC_OP;
        op->sent = true;
        op->iov[0] = (struct iovec){.iov_base = world.target, .iov_len = 16};
        op->count = 1;
        op->len = 16;
        afi.ops[i].op = op;
        aqi_list_append(&world.peer->under_way, &op->link);
    }
}

static void post_receives(void)
{
    for (unsigned i = 0; i < 3; i++) {
        const struct iovec iov = {.iov_base = world.target + 100, .iov_len = 100};
        const struct afi_receive_request request = {.iov = &iov,
                                                    .count = 1,
                                                    .tag = 5,
                                                    .ignore = i == 1 ? UINT64_MAX : 0,
                                                    .flags = i == 2 ? FI_MULTI_RECV : 0,
                                                    .tagged = i < 2,
                                                    .report = true};
        must(afi_receive_post(world.ep->rxq, &request));
    }
}

/* Each buffer ends where a sanitizer sees the first byte beyond. */
static void take(const uint8_t *data, size_t len)
{
    unsigned char *bytes = malloc(len != 0 ? len : 1);
    uint32_t number = world.peer->received + 1;
    if (bytes == NULL) abort();
    memcpy(bytes, data, len);
    if (len >= sizeof(struct afi_brief))
        memcpy(bytes + offsetof(struct afi_brief, number), &number, sizeof(number));
    afi_wire_input(world.peer, bytes, len);
    free(bytes);
}

static void end(void)
{
    struct fi_cq_err_entry error;
    afi_peer_fail(world.peer, FI_ECONNRESET);
    afi_receive_peer_gone(world.peer, true);
    afi_rxq_close(&world.ep->own);
    afi_rxq_init(&world.ep->own);
    world.cq->count = 0;
    while (world.cq->errors != NULL)
        fuzz_require(fi_cq_readerr(&world.cq->fid, &error, 0) == 1, "an error can be read");
    for (unsigned i = 0; i < 4; i++)
        fuzz_require(afi.ops[i].op == NULL, "each operation ends with the connection");
    for (unsigned i = MEMORY; i < sizeof(world.memory); i++)
        fuzz_require(world.memory[i] == 0, "nothing is written behind registered memory");
    for (unsigned i = 200; i < sizeof(world.target); i++)
        fuzz_require(world.target[i] == 0, "nothing is written behind a receive");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (world.ep == NULL) open_world();
    world.peer->state = AFI_UP;
    world.peer->eager = 8192;
    begin_operations();
    post_receives();
    while (len >= 2) {
        size_t n = data[0] | (size_t)data[1] << 8;
        data += 2;
        len -= 2;
        if (n > len) n = len;
        take(data, n);
        data += n;
        len -= n;
    }
    end();
    return 0;
}
