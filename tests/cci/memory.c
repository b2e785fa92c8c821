/*
 * Registered memory: writes and reads, completion messages, ranges, handles that are not valid,
 * fences.
 */
#include "side.h"

#include <sys/mman.h>

enum { LARGE = 4 << 20, REGISTRATIONS = 512, DEEP = 8192, PIECE = 1024, SIZES = 400 };

static unsigned char *here, *there;
static cci_rma_handle_t *local, *remote;
static struct cci_rma_handle copy; /* as a peer would receive it */

static void map_all(void)
{
    here = mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    there = mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(here != MAP_FAILED && there != MAP_FAILED);
}

static void register_all(struct pair *pair)
{
    CHECK_OK(cci_rma_register(pair->caller, here, LARGE, 0, &local));
    CHECK_OK(cci_rma_register(pair->called, there, LARGE, CCI_FLAG_READ | CCI_FLAG_WRITE, &remote));
    copy = *remote;
}

static void expect_done(struct pair *pair, enum cci_status status, void *context)
{
    cci_event_t *event = side_expect(pair->caller, NULL, CCI_EVENT_SEND);
    CHECK_STATUS(event->send.status, status);
    CHECK(event->send.context == context && event->send.connection == pair->out);
    CHECK_OK(cci_return_event(event));
}

static void expect_message(struct pair *pair, const char *text)
{
    cci_event_t *event = side_expect(pair->called, pair->caller, CCI_EVENT_RECV);
    CHECK_EQUAL(event->recv.len, strlen(text));
    CHECK(strcmp(event->recv.ptr, text) == 0);
    CHECK_OK(cci_return_event(event));
}

static void one(struct pair *pair, int way, uint32_t i, size_t len, size_t from, size_t to)
{
    unsigned char *src = way == CCI_FLAG_WRITE ? here + from : there + to;
    unsigned char *dst = way == CCI_FLAG_WRITE ? there + to : here + from;
    char text[16] = "";
    if (i % 3 != 0) snprintf(text, sizeof(text), "done %u", i);
    memset(dst, 0, len);
    fill(src, len, i);
    int flags = way | (i % 5 == 0 ? CCI_FLAG_FENCE : 0) | (i % 7 == 0 ? CCI_FLAG_BLOCKING : 0);
    CHECK_OK(
        cci_rma(pair->out, text, (uint32_t)strlen(text), local, from, &copy, to, len, text, flags));
    if (i % 7 != 0) expect_done(pair, CCI_SUCCESS, text);
    CHECK(filled(dst, len, i));
    if (*text != '\0') expect_message(pair, text);
}

static void sizes(cci_conn_attribute_t attribute)
{
    struct pair pair;
    pair_open(&pair, attribute);
    register_all(&pair);
    for (uint32_t i = 0; i < SIZES; i++) {
        size_t len = i < 23 ? (size_t)1 << i : 1 + mix(i) % (i % 16 == 0 ? LARGE / 2 : 9000);
        size_t from = mix(i + 1000) % (LARGE - len + 1), to = mix(i + 2000) % (LARGE - len + 1);
        one(&pair, i % 2 != 0 ? CCI_FLAG_WRITE : CCI_FLAG_READ, i, len, from, to);
    }
    side_nothing(pair.called);
    pair_close(&pair);
}

/*
 * Many transfers at once, each with its completion; on an ordered connection, messages keep their
 * place between them.
 */
static void many(void)
{
    _Static_assert(DEEP / 2 * PIECE <= LARGE, "every other one is a transfer");
    struct pair pair;
    uint32_t done = 0, got = 0;
    pair_open(&pair, CCI_CONN_ATTR_RO);
    register_all(&pair);
    fill(here, LARGE, 1);
    memset(there, 0, LARGE);
    for (uint32_t i = 0; i < DEEP; i++) {
        uint64_t at = (uint64_t)(i / 2) * PIECE; /* not shared: later writes may be done already */
        if (i % 2 == 0)
            CHECK_OK(cci_rma(pair.out, &i, sizeof(i), local, at, &copy, at, PIECE,
                             (void *)(uintptr_t)i, CCI_FLAG_WRITE));
        else
            CHECK_OK(cci_send(pair.out, &i, sizeof(i), (void *)(uintptr_t)i, 0));
    }
    for (double limit = side_now() + TIMEOUT; done < DEEP || got < DEEP;) {
        cci_event_t *event;
        CHECK(side_now() < limit);
        if (cci_get_event(pair.caller, &event) == CCI_SUCCESS) {
            CHECK_EQUAL(event->type, CCI_EVENT_SEND);
            CHECK_OK(event->send.status);
            CHECK(event->send.context == (void *)(uintptr_t)done);
            done++;
            CHECK_OK(cci_return_event(event));
        }
        if (cci_get_event(pair.called, &event) == CCI_SUCCESS) {
            CHECK_EQUAL(event->type, CCI_EVENT_RECV);
            CHECK(memcmp(event->recv.ptr, &got, sizeof(got)) == 0);
            if (got % 2 == 0) {
                size_t at = (size_t)(got / 2) * PIECE;
                CHECK(memcmp(there + at, here + at, PIECE) == 0);
            }
            got++;
            CHECK_OK(cci_return_event(event));
        }
    }
    pair_close(&pair);
}

static void refusals(void)
{
    struct pair pair, unreliable;
    cci_rma_handle_t *another = NULL;
    pair_open(&pair, CCI_CONN_ATTR_RU);
    pair_open(&unreliable, CCI_CONN_ATTR_UU);
    register_all(&pair);
    CHECK_STATUS(cci_rma_register(NULL, here, 1, 0, &another), CCI_EINVAL);
    CHECK_STATUS(cci_rma_register(pair.caller, NULL, 1, 0, &another), CCI_EINVAL);
    CHECK_STATUS(cci_rma_register(pair.caller, here, 0, 0, &another), CCI_EINVAL);
    CHECK_STATUS(cci_rma_register(pair.caller, here, UINT64_MAX, 0, &another), CCI_EINVAL);
    CHECK_STATUS(cci_rma_register(pair.caller, here, 1, 0, NULL), CCI_EINVAL);
#define RMA(connection, l, lo, r, ro, len, flags)                                                  \
    cci_rma(connection, NULL, 0, l, lo, r, ro, len, NULL, flags)
    CHECK_STATUS(RMA(NULL, local, 0, &copy, 0, 1, CCI_FLAG_READ), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, NULL, 0, &copy, 0, 1, CCI_FLAG_READ), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, local, 0, NULL, 0, 1, CCI_FLAG_READ), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, local, 0, &copy, 0, 0, CCI_FLAG_READ), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, local, 0, &copy, 0, 1, 0), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, local, 0, &copy, 0, 1, CCI_FLAG_READ | CCI_FLAG_WRITE), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, local, LARGE, &copy, 0, 1, CCI_FLAG_READ), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, local, 1, &copy, 0, LARGE, CCI_FLAG_READ), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, local, UINT64_MAX, &copy, 0, 2, CCI_FLAG_READ), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, local, 0, &copy, 1, LARGE, CCI_FLAG_WRITE), CCI_EINVAL);
    CHECK_STATUS(RMA(pair.out, &copy, 0, &copy, 0, 1, CCI_FLAG_READ), CCI_EINVAL);
    CHECK_STATUS(RMA(unreliable.out, local, 0, &copy, 0, 1, CCI_FLAG_READ), CCI_EINVAL);

    /* A handle that the peer has never issued, and one that it has revoked. */
    cci_rma_handle_t lie = copy;
    lie.stuff[3] ^= 1;
    CHECK_OK(cci_rma(pair.out, "x", 1, local, 0, &lie, 0, 4096, &lie, CCI_FLAG_WRITE));
    expect_done(&pair, CCI_ERR_RMA_HANDLE, &lie);
    CHECK_OK(cci_rma_deregister(pair.called, remote));
    CHECK_OK(cci_rma(pair.out, "x", 1, local, 0, &copy, 0, 4096, &copy, CCI_FLAG_READ));
    expect_done(&pair, CCI_ERR_RMA_HANDLE, &copy);
    CHECK_STATUS(cci_rma_deregister(pair.called, remote), CCI_EINVAL);
    CHECK_STATUS(cci_rma_deregister(pair.caller, &copy), CCI_EINVAL);
    CHECK_STATUS(cci_rma_deregister(pair.caller, NULL), CCI_EINVAL);
    side_nothing(pair.called);
    pair_close(&pair);
    pair_close(&unreliable);
}

/* Memory is registered and deregistered again and again, and registrations overlap. */
static void again(void)
{
    static cci_rma_handle_t *handles[REGISTRATIONS];
    struct pair pair;
    pair_open(&pair, CCI_CONN_ATTR_RU);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < REGISTRATIONS; i++)
            CHECK_OK(cci_rma_register(pair.called, there + i, LARGE, CCI_FLAG_WRITE, &handles[i]));
        register_all(&pair);
        copy = *handles[mix(round) % REGISTRATIONS];
        fill(here, 9000, round);
        CHECK_OK(cci_rma(pair.out, NULL, 0, local, 0, &copy, 5, 9000, &pair, CCI_FLAG_WRITE));
        expect_done(&pair, CCI_SUCCESS, &pair);
        CHECK(filled(there + mix(round) % REGISTRATIONS + 5, 9000, round));
        CHECK_OK(cci_rma_deregister(pair.caller, local));
        CHECK_OK(cci_rma_deregister(pair.called, remote));
        for (uint32_t i = 0; i < REGISTRATIONS; i++)
            CHECK_OK(cci_rma_deregister(pair.called, handles[i]));
    }
    pair_close(&pair);
}

int main(int argc, char **argv)
{
    side_init(argc, argv);
    map_all();
    sizes(CCI_CONN_ATTR_RO);
    sizes(CCI_CONN_ATTR_RU);
    many();
    refusals();
    again();
    CHECK_OK(cci_finalize());
    return 0;
}
