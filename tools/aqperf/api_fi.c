/*
 * The patterns with libfabric and the provider libaqueduct-fi.so, as used by MPI programs. The
 * job, and all operations that are not measured, use Aqueduct's own API, with which the results
 * are compared; the provider contains a second copy of the library.
 */
#include "api_aq.h"
#include "provider.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if AQPERF_OFI
#include "ofi_objects.h"
#include <rdma/fi_tagged.h>

enum { NAME_MAX_BYTES = 128, IN_FLIGHT = 64, BATCH = 16, TAG = 1 };

/* The address and the memory of a rank. */
struct card {
    unsigned char name[NAME_MAX_BYTES];
    uint64_t key, incoming;
};

static struct {
    struct ofi_objects open;
    fi_addr_t peer;
    uint64_t key, there;
    unsigned char *outgoing, *incoming; /* private memory, like that of MPI programs */
    size_t len;
    struct fi_context2 contexts[4 * IN_FLIGHT];
    unsigned context;
    uint64_t posted[2], completed[2]; /* [1]: receives, [0]: all other operations */
} fi;

/* --- opening --------------------------------------------------------------------------------- */

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "aqperf: --api fi: %s: %s\n", what, why);
    aq_exit(1);
}

static void check(long err, const char *what)
{
    if (err != 0) fail(what, ofi_library.strerror((int)-err));
}

/* Set the path of the provider of this build or installation, unless the environment specifies
 * another one. */
static void find_provider(void)
{
    char folder[PROVIDER_PATH];
    bool chosen = getenv("FI_PROVIDER_PATH") != NULL;
    if (!chosen && !provider_find(PROVIDER_FI, folder))
        fail("libaqueduct-fi.so is not installed",
             "build Aqueduct with libfabric's headers (libfabric-dev)");
    if (!chosen) (void)setenv("FI_PROVIDER_PATH", folder, 1);
    const char *missing = ofi_library_missing();
    if (missing != NULL) fail("libfabric is missing", missing);
    struct fi_info *hints = ofi_library.dupinfo(NULL);
    if (hints == NULL) fail("fi_getinfo", "no memory");
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->fabric_attr->prov_name = strdup("aqueduct");
    if (ofi_library_getinfo(hints, &fi.open.info) != 0)
        fail("libfabric does not find libaqueduct-fi.so", getenv("FI_PROVIDER_PATH"));
    ofi_library.freeinfo(hints);
}

static void open_endpoint(struct card *card)
{
    const struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    const char *what;
    size_t len = sizeof(card->name);
    int err = ofi_objects_open(&fi.open, &queue, &what);
    check(err, what);
    check(fi_mr_reg(fi.open.domain, fi.incoming, fi.len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0,
                    &fi.open.mr, NULL),
          "fi_mr_reg");
    check(fi_getname(&fi.open.ep->fid, card->name, &len), "fi_getname");
    bool virtual = (fi.open.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    card->key = fi_mr_key(fi.open.mr);
    card->incoming = virtual ? (uintptr_t)fi.incoming : 0;
}

static void attach(struct perf *perf)
{
    struct card mine = {.key = 0}, *cards = calloc(perf->ranks, sizeof(*cards));
    api_aq.attach(perf);
    fi.len = (perf->max_size + 4095) & ~(size_t)4095;
    if (cards == NULL) CHECK(AQ_ENOMEM);
    fi.outgoing = perf_memory(perf, 2, fi.len);
    fi.incoming = fi.outgoing + fi.len;
    if (perf->rank <= 1) open_endpoint(&mine);
    CHECK(aq_coll_allgather(api_aq_world, cards, &mine, sizeof(mine), 0));
    if (perf->rank <= 1 &&
        fi_av_insert(fi.open.av, cards[perf->peer].name, 1, &fi.peer, 0, NULL) != 1)
        fail("fi_av_insert", "the address of the peer is malformed");
    fi.key = cards[perf->peer].key;
    fi.there = cards[perf->peer].incoming;
    free(cards);
}

static void start(struct perf *perf)
{
    api_aq.start(perf);
    if (perf->ranks < 2) fail("needs another rank", "aqrun -n 2 aqperf --api fi");
    if (perf->rank <= 1) find_provider();
}

static void finish(void)
{
    ofi_objects_close(&fi.open);
    free(fi.outgoing);
    api_aq.finish();
}

/* --- single operations ----------------------------------------------------------------------- */

enum op { TAGGED_SEND, SEND, TAGGED_RECEIVE, RECEIVE, WRITE, READ };

static void poll_once(struct perf *perf, unsigned *polls)
{
    struct fi_cq_tagged_entry found[BATCH];
    struct fi_cq_err_entry error = {0};
    ssize_t got = fi_cq_read(fi.open.cq, found, BATCH);
    for (ssize_t i = 0; i < got; i++)
        fi.completed[(found[i].flags & FI_RECV) != 0]++;
    if (got > 0) return;
    if (got != -FI_EAGAIN) {
        (void)fi_cq_readerr(fi.open.cq, &error, 0);
        fail("an operation failed", ofi_library.strerror(error.err));
    }
    limits_foreign_poll(perf, polls);
}

/* Wait until at most this many operations are in flight. */
static void await(struct perf *perf, bool receives, uint64_t in_flight)
{
    unsigned polls = 0;
    while (fi.posted[receives] - fi.completed[receives] > in_flight)
        poll_once(perf, &polls);
}

static ssize_t post_once(enum op op, size_t size, bool injected, void *context)
{
    struct iovec part = {op == READ ? fi.incoming : fi.outgoing, size};
    struct fi_rma_iov there = {.addr = fi.there, .len = size, .key = fi.key};
    struct fi_msg_rma msg = {.msg_iov = &part,
                             .iov_count = 1,
                             .addr = fi.peer,
                             .rma_iov = &there,
                             .rma_iov_count = 1,
                             .context = context};
    switch (op) {
    case TAGGED_SEND:
        return injected ? fi_tinject(fi.open.ep, fi.outgoing, size, fi.peer, TAG)
                        : fi_tsend(fi.open.ep, fi.outgoing, size, NULL, fi.peer, TAG, context);
    case SEND:
        return injected ? fi_inject(fi.open.ep, fi.outgoing, size, fi.peer)
                        : fi_send(fi.open.ep, fi.outgoing, size, NULL, fi.peer, context);
    case TAGGED_RECEIVE:
        return fi_trecv(fi.open.ep, fi.incoming, size, NULL, fi.peer, TAG, 0, context);
    case RECEIVE:
        return fi_recv(fi.open.ep, fi.incoming, size, NULL, fi.peer, context);
    case WRITE:
        return fi_writemsg(fi.open.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
    default:
        return fi_readmsg(fi.open.ep, &msg, FI_COMPLETION);
    }
}

static void post(struct perf *perf, enum op op, size_t size)
{
    bool receives = op == TAGGED_RECEIVE || op == RECEIVE;
    bool injected = op <= SEND && size <= fi.open.info->tx_attr->inject_size;
    void *context = &fi.contexts[fi.context++ % (4 * IN_FLIGHT)];
    unsigned polls = 0;
    ssize_t err;
    while ((err = post_once(op, size, injected, context)) == -FI_EAGAIN)
        poll_once(perf, &polls);
    check(err, "an operation was rejected");
    fi.posted[receives] += !injected;
}

/* --- the loops, in both ranks ---------------------------------------------------------------- */

static void echo(struct perf *perf, enum op send, size_t size, uint64_t n)
{
    enum op receive = send == SEND ? RECEIVE : TAGGED_RECEIVE;
    size = at_least_word(size);
    for (uint64_t i = 0; i < n; i++) {
        post(perf, receive, size);
        if (perf->rank == 0) post(perf, send, size);
        await(perf, true, 0);
        if (perf->rank != 0) post(perf, send, size);
    }
    await(perf, false, 0);
}

void api_fi_tagged_rtt(struct perf *perf, size_t size, uint64_t n)
{
    echo(perf, TAGGED_SEND, size, n);
}

void api_fi_msg_rtt(struct perf *perf, size_t size, uint64_t n)
{
    echo(perf, SEND, size, n);
}

/* Rank 1 answers a batch once it has posted the receives of the next one. */
void api_fi_stream(struct perf *perf, size_t size, uint64_t n)
{
    enum op op = perf->rank == 0 ? TAGGED_SEND : TAGGED_RECEIVE;
    size = at_least_word(size);
    uint64_t left = n, batch = n < IN_FLIGHT ? n : IN_FLIGHT;
    for (uint64_t i = 0; perf->rank != 0 && i < batch; i++)
        post(perf, op, size);
    while (left > 0) {
        if (perf->rank == 0) post(perf, TAGGED_RECEIVE, WORD);
        for (uint64_t i = 0; perf->rank == 0 && i < batch; i++)
            post(perf, op, size);
        await(perf, false, 0);
        await(perf, true, 0);
        left -= batch;
        if (left < batch) batch = left;
        for (uint64_t i = 0; perf->rank != 0 && i < batch; i++)
            post(perf, op, size);
        if (perf->rank != 0) post(perf, TAGGED_SEND, WORD);
    }
    await(perf, false, 0);
}

/* Rank 1 makes progress until a message reports that rank 0 has finished. */
static void move(struct perf *perf, enum op op, size_t size, uint64_t n, uint64_t in_flight)
{
    for (uint64_t i = 0; perf->rank == 0 && i < n; i++) {
        post(perf, op, size);
        await(perf, false, in_flight - 1);
    }
    await(perf, false, 0);
    echo(perf, TAGGED_SEND, WORD, 1);
}

#define MOVES(name, op, in_flight)                                                                 \
    void api_fi_##name(struct perf *perf, size_t size, uint64_t n)                                 \
    {                                                                                              \
        move(perf, op, size, n, in_flight);                                                        \
    }
MOVES(write, WRITE, 1)
MOVES(read, READ, 1)
MOVES(writes, WRITE, IN_FLIGHT)
MOVES(reads, READ, IN_FLIGHT)

#else

static void start(struct perf *perf)
{
    (void)perf;
    fprintf(stderr, "aqperf: --api fi: this aqperf was built without libfabric's headers "
                    "(libfabric-dev)\n");
    exit(1);
}
#endif

const struct api api_fi = {
    .name = "fi",
    .doc = "libfabric, over the provider libaqueduct-fi.so; compared with aq",
    .start = start,
#if AQPERF_OFI
    .attach = attach,
    .finish = finish,
#endif
    .max_size = api_aq_max_size,
    API_AQ_JOB,
    .foreign = FOREIGN_FI,
};
