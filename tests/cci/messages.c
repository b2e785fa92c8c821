/* Connections, messages and their completions, each call and attribute. */
#include "side.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 3000, LARGEST = 65408, FLOOD = 100000, KEPT = 126, SECOND_US = 1000000, CROWD = 100 };

static unsigned char bytes[LARGEST + 1];

static uint32_t length(uint32_t i)
{
    static const uint32_t lengths[] = {0, 1, 7, 64, 255, 256, 257, 4000, 20000, LARGEST};
    return i < 10 ? lengths[i] : (i * 2654435761u) % (i % 16 == 0 ? 9000 : 300);
}

static void send_one(cci_connection_t *connection, uint32_t i, int flags)
{
    uint32_t len = length(i);
    const struct iovec parts[] = {{.iov_base = bytes, .iov_len = len / 3},
                                  {.iov_base = NULL, .iov_len = 0},
                                  {.iov_base = bytes + len / 3, .iov_len = len - len / 3}};
    void *context = (void *)(uintptr_t)i;
    fill(bytes, len, i);
    int status = i % 3 == 0 ? cci_sendv(connection, parts, 3, context, flags)
                            : cci_send(connection, bytes, len, context, flags);
    memset(bytes, 0, len); /* the caller may reuse it at once */
    CHECK_OK(status);
}

static void check_message(cci_event_t *event, cci_connection_t *connection, uint32_t i)
{
    const unsigned char *got = event->recv.ptr;
    CHECK_EQUAL(event->type, CCI_EVENT_RECV);
    CHECK_EQUAL(event->recv.len, length(i));
    CHECK(event->recv.connection == connection);
    CHECK(filled(got, event->recv.len, i));
    CHECK_EQUAL((uintptr_t)got % 8, 0);
    CHECK_EQUAL(got[event->recv.len], 0);
}

/*
 * Send MANY messages in one direction; they and, unless `flags` say otherwise, their completions
 * arrive in order.
 */
static void stream(struct pair *pair, bool back, int flags)
{
    cci_endpoint_t *from = back ? pair->called : pair->caller;
    cci_endpoint_t *to = back ? pair->caller : pair->called;
    cci_connection_t *out = back ? pair->in : pair->out, *in = back ? pair->out : pair->in;
    bool silent = (flags & (CCI_FLAG_SILENT | CCI_FLAG_BLOCKING)) != 0;
    uint32_t sent = 0, done = silent ? MANY : 0, got = 0;
    double limit = side_now() + TIMEOUT;
    cci_event_t *event;
    while (got < MANY || done < MANY) {
        CHECK(side_now() < limit);
        if (sent < MANY && sent < got + 100) send_one(out, sent++, flags);
        if (cci_get_event(from, &event) == CCI_SUCCESS) {
            CHECK_EQUAL(event->type, CCI_EVENT_SEND);
            CHECK_EQUAL(event->send.status, CCI_SUCCESS);
            CHECK(event->send.connection == out);
            CHECK(event->send.context == (void *)(uintptr_t)done);
            done++;
            CHECK_OK(cci_return_event(event));
        }
        if (cci_get_event(to, &event) == CCI_SUCCESS) {
            check_message(event, in, got++);
            CHECK_OK(cci_return_event(event));
        }
    }
    side_nothing(from);
    side_nothing(to);
}

static void attributes(void)
{
    static const cci_conn_attribute_t all[] = {CCI_CONN_ATTR_RO, CCI_CONN_ATTR_RU,
                                               CCI_CONN_ATTR_UU};
    for (int i = 0; i < 3; i++) {
        struct pair pair;
        pair_open(&pair, all[i]);
        stream(&pair, false, 0);
        stream(&pair, true, CCI_FLAG_NO_COPY);
        stream(&pair, false, CCI_FLAG_SILENT);
        stream(&pair, true, CCI_FLAG_BLOCKING);
        pair_close(&pair);
    }
}

static void refusals(void)
{
    struct pair pair;
    cci_event_t *event;
    struct timeval second = {.tv_sec = 1};
    const struct timeval negative = {.tv_sec = -1};
    static char data[CCI_CONN_REQ_LEN + 1];
    uint32_t caps;
    CHECK_STATUS(cci_init(1, 0, &caps), CCI_EINVAL);
    CHECK_STATUS(cci_init(CCI_ABI_VERSION, 0, NULL), CCI_EINVAL);
    CHECK_STATUS(cci_init(CCI_ABI_VERSION, 1, &caps), CCI_ERR_NOT_IMPLEMENTED);
    pair_open(&pair, CCI_CONN_ATTR_RO);
    char *uri = side_uri(pair.called);
    CHECK_STATUS(cci_connect(pair.caller, uri, data, sizeof(data), CCI_CONN_ATTR_RO, NULL, 0, NULL),
                 CCI_EINVAL);
    CHECK_STATUS(cci_connect(pair.caller, "ftp://x", NULL, 0, CCI_CONN_ATTR_RO, NULL, 0, NULL),
                 CCI_EINVAL);
    CHECK_STATUS(cci_send(NULL, data, 1, NULL, 0), CCI_EINVAL);
    CHECK_STATUS(cci_send(pair.out, bytes, LARGEST + 1, NULL, 0), CCI_EMSGSIZE);
    CHECK_STATUS(cci_send(pair.out, bytes, pair.out->max_send_size + 1, NULL, 0), CCI_EMSGSIZE);
    CHECK_STATUS(cci_arm_os_handle(NULL, 0), CCI_EINVAL);
    CHECK_STATUS(cci_destroy_endpoint(NULL), CCI_EINVAL);
    CHECK_STATUS(cci_disconnect(NULL), CCI_EINVAL);

    /* An unknown attribute, a negative timeout and as much data as fits. */
    CHECK_OK(cci_connect(pair.caller, uri, data, CCI_CONN_REQ_LEN, (cci_conn_attribute_t)123, &pair,
                         0, &negative));
    event = side_expect(pair.called, pair.caller, CCI_EVENT_CONNECT_REQUEST);
    CHECK_EQUAL(event->request.data_len, CCI_CONN_REQ_LEN);
    CHECK_OK(cci_reject(event));
    CHECK_STATUS(cci_reject(event), CCI_EINVAL);
    CHECK_EQUAL(event->request.data_len, CCI_CONN_REQ_LEN);
    CHECK(memcmp(event->request.data_ptr, data, CCI_CONN_REQ_LEN) == 0);
    CHECK_OK(cci_return_event(event));
    event = side_expect(pair.caller, pair.called, CCI_EVENT_CONNECT);
    CHECK_EQUAL(event->connect.status, CCI_ECONNREFUSED);
    CHECK(event->connect.connection == NULL && event->connect.context == &pair);
    CHECK_OK(cci_return_event(event));
    side_nothing(pair.called);

    /* A request that is not answered. */
    CHECK_OK(cci_connect(pair.caller, uri, NULL, 0, CCI_CONN_ATTR_RU, NULL, 0, &second));
    event = side_expect(pair.called, pair.caller, CCI_EVENT_CONNECT_REQUEST);
    CHECK_EQUAL(event->request.data_len, 0);
    CHECK_OK(cci_return_event(event));
    event = side_expect(pair.caller, pair.called, CCI_EVENT_CONNECT);
    CHECK_EQUAL(event->connect.status, CCI_ETIMEDOUT);
    CHECK_OK(cci_return_event(event));

    /* No endpoint listens. */
    pair_close(&pair);
    pair.caller = side_open(NULL);
    CHECK_OK(cci_connect(pair.caller, uri, NULL, 0, CCI_CONN_ATTR_RU, data, 0, &second));
    event = side_expect(pair.caller, NULL, CCI_EVENT_CONNECT);
    CHECK(event->connect.status == CCI_ECONNREFUSED || event->connect.status == CCI_ETIMEDOUT);
    CHECK(event->connect.context == data);
    CHECK_OK(cci_return_event(event));
    CHECK_OK(cci_destroy_endpoint(pair.caller));
    free(uri);
}

/*
 * An endpoint may connect to itself, and several connections between the same two endpoints are
 * independent.
 */
static void to_itself(void)
{
    struct pair pair, again;
    pair.caller = pair.called = side_open(NULL);
    pair_connect(&pair, CCI_CONN_ATTR_RO, &pair, &again);
    again = pair;
    pair_connect(&again, CCI_CONN_ATTR_RU, &again, &pair);
    CHECK(again.out != pair.out && again.in != pair.in);
    CHECK_OK(cci_send(pair.out, "one", 4, NULL, CCI_FLAG_SILENT));
    cci_event_t *event = side_expect(pair.caller, NULL, CCI_EVENT_RECV);
    CHECK(event->recv.connection == pair.in);
    CHECK_OK(cci_return_event(event));
    CHECK_OK(cci_send(again.in, "two", 4, NULL, CCI_FLAG_SILENT));
    event = side_expect(pair.caller, NULL, CCI_EVENT_RECV);
    CHECK(event->recv.connection == again.out && strcmp(event->recv.ptr, "two") == 0);
    CHECK_OK(cci_destroy_endpoint(pair.caller)); /* while an event is held */
}

/* The receiver polls for no events: the sender's memory is bounded, and nothing is lost. */
static void flood(void)
{
    struct pair pair;
    cci_event_t *event;
    uint32_t sent = 0, got = 0;
    pair_open(&pair, CCI_CONN_ATTR_RO);
    int status;
    while ((status = cci_send(pair.out, &sent, sizeof(sent), NULL, CCI_FLAG_SILENT)) == CCI_SUCCESS)
        CHECK(++sent < 2 * FLOOD);
    CHECK_STATUS(status, CCI_ENOBUFS);
    CHECK(sent > 16384);
    for (double limit = side_now() + TIMEOUT; got < sent;) {
        CHECK(side_now() < limit);
        (void)cci_get_event(pair.caller, &event);
        if (cci_get_event(pair.called, &event) != CCI_SUCCESS) continue;
        CHECK_EQUAL(event->type, CCI_EVENT_RECV);
        CHECK(memcmp(event->recv.ptr, &got, sizeof(got)) == 0);
        got++;
        CHECK_OK(cci_return_event(event));
    }
    CHECK_OK(cci_send(pair.out, &sent, sizeof(sent), NULL, CCI_FLAG_BLOCKING));
    pair_close(&pair);
}

/* Bytes that the program and the library have allocated; 0: unknown. */
static size_t allocated(void)
{
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
#endif
#endif
    return 0;
}

/* More messages in pieces than there is room for, again and again: nothing of them remains. */
static void pieces(void)
{
    enum { ROUNDS = 40, WARM = 8, BURST = 130, PIECE = 30000 };
    struct pair pair;
    const struct iovec parts[] = {{.iov_base = bytes, .iov_len = PIECE},
                                  {.iov_base = bytes + PIECE, .iov_len = PIECE}};
    size_t before = 0;
    cci_event_t *event;
    pair_open(&pair, CCI_CONN_ATTR_RO);
    const struct iovec missing[] = {parts[0], {.iov_base = NULL, .iov_len = 1}};
    CHECK_STATUS(cci_sendv(pair.out, missing, 2, NULL, 0), CCI_EINVAL);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == WARM) before = allocated();
        for (int sent = 0; sent < BURST; sent++)
            CHECK_OK(cci_sendv(pair.out, parts, 2, NULL, CCI_FLAG_SILENT));
        double limit = side_now() + TIMEOUT;
        for (int got = 0; got < BURST;) {
            CHECK(side_now() < limit);
            (void)cci_get_event(pair.caller, &event);
            if (cci_get_event(pair.called, &event) != CCI_SUCCESS) continue;
            CHECK_EQUAL(event->recv.len, 2 * PIECE);
            got++;
            CHECK_OK(cci_return_event(event));
        }
    }
    printf("%zu bytes before, %zu after\n", before, allocated());
    CHECK(allocated() < before + (ROUNDS - WARM) * PIECE || before == 0);
    pair_close(&pair);
}

/* A peer that sends more than it may: neither that nor what follows arrives. */
static void too_long(void)
{
    struct pair pair;
    pair_open(&pair, CCI_CONN_ATTR_RO);
    struct cci_connection *out = (struct cci_connection *)(uintptr_t)pair.out;
    CHECK_OK(cci_send(pair.out, bytes, LARGEST, NULL, CCI_FLAG_SILENT));
    cci_event_t *event = side_expect(pair.called, pair.caller, CCI_EVENT_RECV);
    CHECK_EQUAL(event->recv.len, LARGEST);
    CHECK_OK(cci_return_event(event));
    CHECK_EQUAL(out->max_send_size, LARGEST);
    out->max_send_size++; /* as a peer might */
    CHECK_OK(cci_send(pair.out, bytes, LARGEST + 1, NULL, CCI_FLAG_SILENT));
    CHECK_OK(cci_send(pair.out, bytes, 1, NULL, CCI_FLAG_SILENT));
    for (double until = side_now() + 1; side_now() < until;) {
        CHECK_STATUS(cci_get_event(pair.caller, &event), CCI_EAGAIN);
        CHECK_STATUS(cci_get_event(pair.called, &event), CCI_EAGAIN);
    }
    pair_close(&pair);
}

/* The program returns no events, until it holds all of the receiver's buffers. */
static void hoard(void)
{
    struct pair pair;
    static cci_event_t *kept[FLOOD];
    uint32_t sent = 0, got = 0;
    cci_event_t *event;
    int status = CCI_EAGAIN;
    pair_open(&pair, CCI_CONN_ATTR_RU);
    while (cci_send(pair.out, bytes, 4096, NULL, CCI_FLAG_SILENT) == CCI_SUCCESS)
        sent++;
    for (double limit = side_now() + TIMEOUT; status != CCI_ENOBUFS;) {
        CHECK(side_now() < limit);
        (void)cci_get_event(pair.caller, &event);
        status = cci_get_event(pair.called, &event);
        if (status == CCI_SUCCESS) kept[got++] = event;
    }
    CHECK(got < sent);
    for (uint32_t i = got; i-- != 0;)
        CHECK_OK(cci_return_event(kept[i]));
    for (double limit = side_now() + TIMEOUT; got < sent;) {
        CHECK(side_now() < limit);
        (void)cci_get_event(pair.caller, &event);
        if (cci_get_event(pair.called, &event) != CCI_SUCCESS) continue;
        got++;
        CHECK_OK(cci_return_event(event));
    }
    side_nothing(pair.called);
    pair_close(&pair);
}

/* The program keeps most of the room for good: what it returns of the rest is used again. */
static void keep(void)
{
    struct pair pair;
    uint32_t sent = 0, got = 0, total = 3 * KEPT;
    pair_open(&pair, CCI_CONN_ATTR_RO);
    for (double limit = side_now() + TIMEOUT; got < total;) {
        cci_event_t *event;
        CHECK(side_now() < limit);
        if (sent < total && cci_send(pair.out, bytes, pair.out->max_send_size, NULL,
                                     CCI_FLAG_SILENT) == CCI_SUCCESS)
            sent++;
        (void)cci_get_event(pair.caller, &event);
        if (cci_get_event(pair.called, &event) != CCI_SUCCESS) continue;
        CHECK_EQUAL(event->type, CCI_EVENT_RECV);
        if (got++ >= KEPT) CHECK_OK(cci_return_event(event));
    }
    pair_close(&pair);
}

/* A receiver that takes messages slowly does not keep the room that it releases to itself. */
static void take_slowly(void)
{
    const double pause = 0.01;
    struct pair pair;
    cci_event_t *event;
    uint32_t room, queue, sent = 0, taken = 0;
    pair_open(&pair, CCI_CONN_ATTR_RO);
    CHECK_OK(cci_get_opt(pair.called, CCI_OPT_ENDPT_RECV_BUF_COUNT, &room));
    CHECK_OK(cci_get_opt(pair.caller, CCI_OPT_ENDPT_SEND_BUF_COUNT, &queue));
    double limit = side_now() + TIMEOUT, at = 0;
    while (sent < room + queue) {
        CHECK(side_now() < limit);
        if (cci_send(pair.out, NULL, 0, NULL, CCI_FLAG_SILENT) == CCI_SUCCESS)
            sent++;
        else
            CHECK_STATUS(cci_get_event(pair.caller, &event), CCI_EAGAIN);
    }
    while (cci_send(pair.out, NULL, 0, NULL, CCI_FLAG_SILENT) == CCI_ENOBUFS) {
        CHECK(side_now() < limit);
        (void)cci_get_event(pair.caller, &event);
        if (side_now() < at || cci_get_event(pair.called, &event) != CCI_SUCCESS) continue;
        CHECK_OK(cci_return_event(event));
        CHECK(++taken < 10000);
        at = side_now() + pause;
    }
    for (double until = side_now() + TIMEOUT; taken < sent + 1;) {
        CHECK(side_now() < until);
        (void)cci_get_event(pair.caller, &event);
        if (cci_get_event(pair.called, &event) != CCI_SUCCESS) continue;
        CHECK_OK(cci_return_event(event));
        taken++;
    }
    pair_close(&pair);
}

/*
 * The peer's library receives messages until it is out of room, although its program polls for no
 * events; on an ordered connection, all later messages fail, too.
 */
static void timeouts(void)
{
    struct pair pair;
    uint32_t us = SECOND_US / 2, value = 0, sent = 0, failed = 0;
    enum cci_status why = CCI_SUCCESS;
    pair_open(&pair, CCI_CONN_ATTR_RO);
    CHECK_OK(cci_set_opt(pair.out, CCI_OPT_CONN_SEND_TIMEOUT, &us));
    CHECK_OK(cci_get_opt(pair.out, CCI_OPT_CONN_SEND_TIMEOUT, &value));
    CHECK_EQUAL(value, us);
    while (cci_send(pair.out, bytes, 65000, &sent, 0) == CCI_SUCCESS && sent < 1000)
        sent++;
    for (uint32_t done = 0; done < sent; done++) {
        cci_event_t *event = side_expect(pair.caller, NULL, CCI_EVENT_SEND);
        if (event->send.status == CCI_SUCCESS) {
            CHECK_EQUAL(failed, 0);
        } else if (failed++ == 0) {
            why = event->send.status;
            CHECK(why == CCI_ERR_RNR || why == CCI_ETIMEDOUT); /* the latter on a busy machine */
        } else {
            CHECK_EQUAL(event->send.status, why);
        }
        CHECK_OK(cci_return_event(event));
    }
    CHECK(failed != 0 && failed <= sent);
    CHECK_STATUS(cci_send(pair.out, bytes, 1, NULL, CCI_FLAG_BLOCKING), why);
    pair_close(&pair);
}

static void disconnects(void)
{
    struct pair pair;
    cci_event_t *event;
    pair_open(&pair, CCI_CONN_ATTR_RO);
    CHECK_OK(cci_send(pair.out, "bye", 3, NULL, CCI_FLAG_SILENT));
    CHECK_OK(cci_disconnect(pair.out));
    event = side_expect(pair.called, pair.caller, CCI_EVENT_RECV);
    CHECK(strcmp(event->recv.ptr, "bye") == 0 && event->recv.connection == pair.in);
    CHECK_OK(cci_return_event(event));
    double limit = side_now() + TIMEOUT;
    enum cci_status status = CCI_SUCCESS;
    while (status == CCI_SUCCESS) { /* until the disconnection is known here */
        CHECK(side_now() < limit);
        CHECK_OK(cci_send(pair.in, "x", 1, &pair, 0));
        event = side_expect(pair.called, pair.caller, CCI_EVENT_SEND);
        CHECK(event->send.context == &pair && event->send.connection == pair.in);
        status = event->send.status;
        CHECK_OK(cci_return_event(event));
    }
    CHECK_STATUS(status, CCI_ERR_DISCONNECTED);
    CHECK_STATUS(cci_send(pair.in, "x", 1, &pair, CCI_FLAG_BLOCKING), CCI_ERR_DISCONNECTED);
    CHECK_OK(cci_disconnect(pair.in));
    pair_close(&pair);
}

/* The data of a request stays until its event is returned, whatever becomes of the connection. */
static void held_requests(void)
{
    struct pair pair = {.caller = side_open(NULL), .called = side_open(NULL)};
    static char data[CCI_CONN_REQ_LEN];
    static const uint32_t lengths[] = {1, 200, CCI_CONN_REQ_LEN};
    char *uri = side_uri(pair.called);
#ifdef M_PERTURB
    (void)mallopt(M_PERTURB, 0x5a); /* freed memory changes at once; sanitizers detect its use */
#endif
    for (int i = 0; i < 3; i++) {
        fill(data, sizeof(data), (uint32_t)i);
        CHECK_OK(cci_connect(pair.caller, uri, data, lengths[i], CCI_CONN_ATTR_RO, NULL, 0, NULL));
        cci_event_t *request = side_expect(pair.called, pair.caller, CCI_EVENT_CONNECT_REQUEST);
        CHECK_OK(cci_accept(request, NULL));
        cci_event_t *event = side_expect(pair.caller, NULL, CCI_EVENT_CONNECT);
        CHECK_OK(event->connect.status);
        CHECK_OK(cci_disconnect(event->connect.connection));
        CHECK_OK(cci_return_event(event));
        event = side_expect(pair.called, NULL, CCI_EVENT_ACCEPT);
        CHECK_OK(event->accept.status);
        CHECK_OK(cci_disconnect(event->accept.connection));
        CHECK_OK(cci_return_event(event));
        CHECK_EQUAL(request->request.data_len, lengths[i]);
        CHECK(filled(request->request.data_ptr, lengths[i], (uint32_t)i));
        CHECK_OK(cci_return_event(request));
    }
#ifdef M_PERTURB
    (void)mallopt(M_PERTURB, 0);
#endif
    free(uri);
    pair_close(&pair);
}

static void options(void)
{
    cci_os_handle_t fd = -1;
    cci_endpoint_t *endpoint = side_open(&fd);
    cci_alignment_t align = {0};
    uint32_t value = 7, set = 1234;
    CHECK(fd >= 0);
    CHECK_STATUS(cci_arm_os_handle(endpoint, 0), CCI_ERR_NOT_IMPLEMENTED);
    CHECK_OK(cci_get_opt(endpoint, CCI_OPT_ENDPT_SEND_TIMEOUT, &value));
    CHECK_EQUAL(value, 0);
    CHECK_OK(cci_set_opt(endpoint, CCI_OPT_ENDPT_SEND_TIMEOUT, &set));
    CHECK_OK(cci_get_opt(endpoint, CCI_OPT_ENDPT_SEND_TIMEOUT, &value));
    CHECK_EQUAL(value, set);
    CHECK_OK(cci_set_opt(endpoint, CCI_OPT_ENDPT_KEEPALIVE_TIMEOUT, &set));
    CHECK_OK(cci_get_opt(endpoint, CCI_OPT_ENDPT_KEEPALIVE_TIMEOUT, &value));
    CHECK_EQUAL(value, set);
    CHECK_OK(cci_get_opt(endpoint, CCI_OPT_ENDPT_RECV_BUF_COUNT, &value));
    CHECK(value >= 1024);
    CHECK_OK(cci_get_opt(endpoint, CCI_OPT_ENDPT_SEND_BUF_COUNT, &value));
    CHECK(value >= 1024);
    CHECK_STATUS(cci_set_opt(endpoint, CCI_OPT_ENDPT_RECV_BUF_COUNT, &set),
                 CCI_ERR_NOT_IMPLEMENTED);
    CHECK_STATUS(cci_set_opt(endpoint, CCI_OPT_ENDPT_SEND_BUF_COUNT, &set),
                 CCI_ERR_NOT_IMPLEMENTED);
    CHECK_STATUS(cci_set_opt(endpoint, CCI_OPT_ENDPT_URI, ""), CCI_EINVAL);
    CHECK_STATUS(cci_set_opt(endpoint, CCI_OPT_ENDPT_RMA_ALIGN, &align), CCI_EINVAL);
    CHECK_STATUS(cci_set_opt(endpoint, (cci_opt_name_t)99, &set), CCI_EINVAL);
    memset(&align, 1, sizeof(align));
    CHECK_OK(cci_get_opt(endpoint, CCI_OPT_ENDPT_RMA_ALIGN, &align));
    CHECK_EQUAL(align.rma_read_length | align.rma_write_local_addr, 0);
    CHECK_STATUS(cci_get_opt(NULL, CCI_OPT_ENDPT_URI, &value), CCI_EINVAL);
    CHECK_STATUS(cci_get_opt(endpoint, CCI_OPT_ENDPT_URI, NULL), CCI_EINVAL);
    CHECK_STATUS(cci_get_opt(endpoint, (cci_opt_name_t)99, &value), CCI_EINVAL);
    CHECK_OK(cci_destroy_endpoint(endpoint));
}

/* An option of endpoints is refused for a connection, and vice versa. */
static void confused_options(void)
{
    struct pair pair;
    uint64_t value[4] = {1234};
    pair_open(&pair, CCI_CONN_ATTR_RO);
    for (cci_opt_name_t name = CCI_OPT_ENDPT_SEND_TIMEOUT; name <= CCI_OPT_CONN_KEEPALIVE_TIMEOUT;
         name++) {
        bool of_connection = name >= CCI_OPT_CONN_SEND_TIMEOUT;
        const void *wrong = of_connection ? (const void *)pair.caller : (const void *)pair.out;
        CHECK_STATUS(cci_get_opt(wrong, name, value), CCI_EINVAL);
        CHECK_STATUS(cci_set_opt(wrong, name, value), CCI_EINVAL);
    }
    send_one(pair.out, 1, 0);
    check_message(side_event(pair.called, NULL), pair.in, 1);
    pair_close(&pair);
}

/* More connections than the usual limit of descriptors allows. */
static void crowd(void)
{
    static cci_connection_t *in[CROWD], *out[CROWD];
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlim_t usual = limit.rlim_cur;
    if (limit.rlim_max < 20 * CROWD || usual < CROWD) return;
    struct pair pair = {.caller = side_open(NULL), .called = side_open(NULL)};
    limit.rlim_cur = CROWD;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (uint32_t i = 0; i < CROWD; i++) {
        pair_connect(&pair, CCI_CONN_ATTR_RU, NULL, NULL);
        in[i] = pair.in;
        out[i] = pair.out;
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        send_one(out[i], i, CCI_FLAG_SILENT);
        check_message(side_event(pair.called, pair.caller), in[i], i);
    }
    pair_close(&pair);
    limit.rlim_cur = usual;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* AQ_AM_MAX_MEDIUM limits messages. */
static void require_size(void)
{
    struct pair pair;
    pair_open(&pair, CCI_CONN_ATTR_RO);
    uint32_t most = pair.out->max_send_size;
    pair_close(&pair);
    if (most >= LARGEST) return;
    printf("skipped: messages have at most %u bytes here, AQ_AM_MAX_MEDIUM\n", most);
    exit(77);
}

int main(int argc, char **argv)
{
    uint32_t caps;
    side_init(argc, argv);
    crowd(); /* before the library reads the limit */
    require_size();
    attributes();
    refusals();
    to_itself();
    flood();
    pieces();
    too_long();
    hoard();
    keep();
    take_slowly();
    timeouts();
    disconnects();
    held_requests();
    options();
    confused_options();
    CHECK_OK(cci_init(CCI_ABI_VERSION, 0, &caps));
    CHECK_OK(cci_finalize());
    (void)side_open(NULL); /* cci_finalize closes it */
    CHECK_OK(cci_finalize());
    CHECK_STATUS(cci_finalize(), CCI_ERROR);
    side_init(argc, argv);
    CHECK_OK(cci_finalize());
    return 0;
}
