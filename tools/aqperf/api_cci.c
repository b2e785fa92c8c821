/*
 * The patterns with cci.h, over a connection between the two ranks. The job, and all operations
 * that are not measured, use Aqueduct's own API, with which the results are compared;
 * libaqueduct-cci contains a second copy of the library.
 */
#include "api_aq.h"
#include "base/library.h"
#include "provider.h"
#include <cci.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IN_FLIGHT = 64,
    URI_BYTES = 256,
    MAX_MESSAGE = 65408 /* maximum message size, see docs/cci.md */
};

/* The functions of the library, which is loaded only if it is measured. */
static struct {
    __typeof__(&cci_init) init;
    __typeof__(&cci_finalize) finalize;
    __typeof__(&cci_strerror) strerror;
    __typeof__(&cci_get_devices) get_devices;
    __typeof__(&cci_create_endpoint) create_endpoint;
    __typeof__(&cci_get_opt) get_opt;
    __typeof__(&cci_connect) connect;
    __typeof__(&cci_accept) accept;
    __typeof__(&cci_get_event) get_event;
    __typeof__(&cci_return_event) return_event;
    __typeof__(&cci_send) send;
    __typeof__(&cci_rma_register) rma_register;
    __typeof__(&cci_rma) rma;
} lib;
#define SYMBOL(name)                                                                               \
    {                                                                                              \
        "cci_" #name, (void *)&lib.name                                                            \
    }
static const struct aqi_symbol symbols[] = {SYMBOL(init),
                                            SYMBOL(finalize),
                                            SYMBOL(strerror),
                                            SYMBOL(get_devices),
                                            SYMBOL(create_endpoint),
                                            SYMBOL(get_opt),
                                            SYMBOL(connect),
                                            SYMBOL(accept),
                                            SYMBOL(get_event),
                                            SYMBOL(return_event),
                                            SYMBOL(send),
                                            SYMBOL(rma_register),
                                            SYMBOL(rma)};

/* The address and the memory of a rank. */
struct card {
    char uri[URI_BYTES];
    struct cci_rma_handle incoming;
};

static struct {
    cci_endpoint_t *endpoint;
    cci_connection_t *connection;
    unsigned char *outgoing, *incoming;
    cci_rma_handle_t *outgoing_handle, *incoming_handle;
    struct cci_rma_handle there;
    uint64_t received, begun, completed; /* the latter: with SEND events */
} cci;

/* --- opening --------------------------------------------------------------------------------- */

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "aqperf: --api cci: %s: %s\n", what, why);
    aq_exit(1);
}

static void check(int status, const char *what)
{
    if (status != CCI_SUCCESS) fail(what, lib.strerror(NULL, (enum cci_status)status));
}

static void load(void)
{
    char folder[PROVIDER_PATH], path[PROVIDER_PATH + 64], why[320];
    uint32_t caps;
    const char *file = provider_files[PROVIDER_CCI];
    if (!provider_find(PROVIDER_CCI, folder))
        fail(file, "it is not installed: build Aqueduct with AQ_CCI=ON");
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (aqi_library_load(path, symbols, sizeof symbols / sizeof symbols[0]) != NULL)
        fail(path, aqi_library_advice("libaqueduct-cci", sizeof why, why));
    check(lib.init(CCI_ABI_VERSION, 0, &caps), "cci_init");
}

/* The first device over the transport that the patterns of Aqueduct's API use. */
static cci_device_t *find_device(const char *transport)
{
    cci_device_t *const *devices;
    const char *wanted = strcmp(transport, "udp") == 0 ? "sock" : "sm";
    if (strcmp(transport, "shm") != 0 && strcmp(transport, "udp") != 0)
        fail(transport, "CCI has connections over shm and udp: choose one with --transport");
    check(lib.get_devices(&devices), "cci_get_devices");
    for (; *devices != NULL; devices++)
        if (strcmp((*devices)->transport, wanted) == 0) return *devices;
    fail(wanted, "there is no such device: describe one in the file of CCI_CONFIG (docs/cci.md)");
    return NULL;
}

static void open_endpoint(struct perf *perf, struct card *card, size_t len)
{
    enum { RIGHTS = CCI_FLAG_READ | CCI_FLAG_WRITE };
    char *uri;
    check(lib.create_endpoint(find_device(perf->transport), 0, &cci.endpoint, NULL),
          "cci_create_endpoint");
    check(lib.get_opt(cci.endpoint, CCI_OPT_ENDPT_URI, &uri), "cci_get_opt");
    snprintf(card->uri, sizeof card->uri, "%s", uri);
    free(uri);
    check(lib.rma_register(cci.endpoint, cci.outgoing, len, RIGHTS, &cci.outgoing_handle),
          "cci_rma_register");
    check(lib.rma_register(cci.endpoint, cci.incoming, len, RIGHTS, &cci.incoming_handle),
          "cci_rma_register");
    card->incoming = *cci.incoming_handle;
}

static void on_connected(int status, cci_connection_t *connection)
{
    check(status, "connecting");
    cci.connection = connection;
}

static void poll_once(struct perf *perf, unsigned *polls)
{
    cci_event_t *event;
    if (lib.get_event(cci.endpoint, &event) != CCI_SUCCESS) {
        limits_foreign_poll(perf, polls);
        return;
    }
    switch (event->type) {
    case CCI_EVENT_CONNECT_REQUEST:
        check(lib.accept(event, NULL), "cci_accept");
        break;
    case CCI_EVENT_ACCEPT:
        on_connected((int)event->accept.status, event->accept.connection);
        break;
    case CCI_EVENT_CONNECT:
        on_connected((int)event->connect.status, event->connect.connection);
        break;
    case CCI_EVENT_SEND:
        check((int)event->send.status, "an operation failed");
        cci.completed++;
        break;
    case CCI_EVENT_RECV:
        cci.received++;
        break;
    default:
        fail("an unexpected event arrived", cci_event_type_str(event->type));
    }
    lib.return_event(event);
}

static void attach(struct perf *perf)
{
    size_t len = (perf->max_size + 4095) & ~(size_t)4095;
    struct card mine = {.uri = ""}, *cards = calloc(perf->ranks, sizeof(*cards));
    api_aq.attach(perf);
    if (cards == NULL) CHECK(AQ_ENOMEM);
    cci.outgoing = perf_memory(perf, 2, len);
    cci.incoming = cci.outgoing + len;
    if (perf->rank <= 1) open_endpoint(perf, &mine, len);
    CHECK(aq_coll_allgather(api_aq_world, cards, &mine, sizeof(mine), 0));
    if (perf->rank == 0)
        check(lib.connect(cci.endpoint, cards[1].uri, NULL, 0, CCI_CONN_ATTR_RU, NULL, 0, NULL),
              "cci_connect");
    for (unsigned polls = 0; perf->rank <= 1 && cci.connection == NULL;)
        poll_once(perf, &polls);
    cci.there = cards[perf->peer].incoming;
    free(cards);
}

static size_t max_size(enum carrier carrier)
{
    size_t max = api_aq_max_size(carrier);
    return carrier == CARRIER_MEDIUM && max > MAX_MESSAGE ? MAX_MESSAGE : max;
}

static void start(struct perf *perf)
{
    api_aq.start(perf);
    if (perf->ranks < 2) fail("needs another rank", "aqrun -n 2 aqperf --api cci");
    if (perf->rank <= 1) load();
}

static void finish(void)
{
    if (lib.finalize != NULL) (void)lib.finalize();
    free(cci.outgoing);
    api_aq.finish();
}

/* --- the loops, in both ranks ---------------------------------------------------------------- */

/* Wait until at most this many operations are in flight. */
static void await(struct perf *perf, uint64_t in_flight)
{
    unsigned polls = 0;
    while (cci.begun - cci.completed > in_flight)
        poll_once(perf, &polls);
}

static void send(struct perf *perf, size_t size, int flags)
{
    unsigned polls = 0;
    int status;
    while ((status = lib.send(cci.connection, cci.outgoing, (uint32_t)at_least_word(size), NULL,
                              flags)) == CCI_ENOBUFS)
        poll_once(perf, &polls);
    check(status, "cci_send");
    cci.begun += flags != CCI_FLAG_SILENT;
}

static void receive(struct perf *perf, uint64_t messages)
{
    unsigned polls = 0;
    while (cci.received < messages)
        poll_once(perf, &polls);
    cci.received -= messages;
}

void api_cci_rtt(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (perf->rank == 0) send(perf, size, CCI_FLAG_SILENT);
        receive(perf, 1);
        if (perf->rank != 0) send(perf, size, CCI_FLAG_SILENT);
    }
}

/* Returns when rank 1 has received all messages. */
void api_cci_stream(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; perf->rank == 0 && i < n; i++) {
        send(perf, size, 0);
        await(perf, IN_FLIGHT - 1);
    }
    receive(perf, perf->rank == 0 ? 1 : n);
    if (perf->rank != 0) send(perf, WORD, CCI_FLAG_SILENT);
    await(perf, 0);
}

/* Rank 1 makes progress until a message reports that rank 0 has finished. */
static void move(struct perf *perf, int flag, size_t size, uint64_t n, uint64_t in_flight)
{
    cci_rma_handle_t *here = flag == CCI_FLAG_READ ? cci.incoming_handle : cci.outgoing_handle;
    unsigned polls = 0;
    for (uint64_t i = 0; perf->rank == 0 && i < n; i++) {
        int status;
        while ((status = lib.rma(cci.connection, NULL, 0, here, 0, &cci.there, 0, size, NULL,
                                 flag)) == CCI_ENOBUFS)
            poll_once(perf, &polls);
        check(status, "cci_rma");
        cci.begun++;
        await(perf, in_flight - 1);
    }
    await(perf, 0);
    api_cci_rtt(perf, WORD, 1);
}

#define MOVES(name, flag, in_flight)                                                               \
    void api_cci_##name(struct perf *perf, size_t size, uint64_t n)                                \
    {                                                                                              \
        move(perf, flag, size, n, in_flight);                                                      \
    }
MOVES(write, CCI_FLAG_WRITE, 1)
MOVES(read, CCI_FLAG_READ, 1)
MOVES(writes, CCI_FLAG_WRITE, IN_FLIGHT)
MOVES(reads, CCI_FLAG_READ, IN_FLIGHT)

const struct api api_cci = {
    .name = "cci",
    .doc = "cci.h, over libaqueduct-cci; compared with aq",
    .start = start,
    .attach = attach,
    .finish = finish,
    .max_size = max_size,
    API_AQ_JOB,
    .foreign = FOREIGN_CCI,
};
