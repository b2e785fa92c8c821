/* ofi: headers of Longs wait for their writes, which arrive in any order, twice, or never. */
#include "transport/ofi/ofi_peer_world_test.h"

#include "base/capture_test.h"

#include <string.h>

enum { PEER = 3, SELF = 1, NUMBER_BITS = 8, WINDOW = 64 };

struct message {
    struct ofi_buf buf;
    _Alignas(16) unsigned char bytes[128];
};

static struct ofi_tp ofi;
static struct ofi_peer peer;
static struct aqi_rdma_peer *peers[8] = {[PEER] = &peer.rdma};

static int begin(void **state)
{
    ofi = (struct ofi_tp){.rdma = {.driver = &ofi_driver,
                                   .peers = peers,
                                   .params = {.size = AQI_COUNT_OF(peers), .self = SELF}},
                          .limits.depth = 4};
    peer_begin(&peer, 0, PEER);
    return 0;
}

/* A header with this number of arguments and this write; 0: of none. */
static struct ofi_buf *header(struct message *m, unsigned nargs, uint32_t write)
{
    const struct aqi_am_wire head = {
        .kind = AQI_AM_LONG_HEADER, .nargs = (uint8_t)nargs, .source = PEER};
    size_t at = aqi_am_payload_offset(nargs);
    uint32_t number[2] = {write != 0, write};
    *m = (struct message){.buf = {.rdma.peer = &peer.rdma}};
    m->buf.rdma.bytes = m->bytes;
    memcpy(m->bytes, &head, sizeof(head));
    if (at + sizeof(number) <= sizeof(m->bytes)) memcpy(m->bytes + at, number, sizeof(number));
    m->buf.rdma.len = (uint32_t)(at + sizeof(number));
    return &m->buf;
}

static bool waits(uint32_t write)
{
    struct message m;
    return ofi_long_waits(header(&m, 2, write));
}

static struct ofi_peer *report(uint32_t source, uint32_t write)
{
    return ofi_long_reported(&ofi, (uint64_t)source << NUMBER_BITS | (write & UINT8_MAX));
}

static void a_header_waits_for_its_write(void **state)
{
    assert_false(waits(0));
    assert_true(waits(1));
    assert_ptr_equal(report(PEER, 2), &peer);
    assert_true(waits(1));
    assert_false(waits(2));
    assert_true(waits(3));
    assert_ptr_equal(report(PEER, 1), &peer);
    assert_ptr_equal(report(PEER, 2), &peer); /* again */
    assert_false(waits(1));
    assert_false(waits(2));
    assert_true(waits(3));
    assert_int_equal(peer.written, 2);
}

static void numbers_go_on_after_the_last(void **state)
{
    peer.written = UINT32_MAX - 2;
    for (uint32_t i = WINDOW; i > 0; i--) {
        assert_true(waits(UINT32_MAX - 2 + i) || UINT32_MAX - 2 + i == 0);
        (void)report(PEER, UINT32_MAX - 2 + i);
    }
    assert_int_equal(peer.written, WINDOW - 3);
    assert_int_equal(peer.written_more, 0);
    assert_false(waits(UINT32_MAX));
}

static void unknown_writes_change_nothing(void **state)
{
    assert_null(report(PEER + 1, 1));
    assert_null(report(AQI_COUNT_OF(peers), 1));
    assert_null(ofi_long_reported(&ofi, UINT64_MAX));
    (void)report(PEER, WINDOW + 1);
    (void)report(PEER, 0);
    assert_int_equal(peer.written_more, 0);
    assert_int_equal(peer.written, 0);
    assert_true(waits(WINDOW));
    assert_true(waits(WINDOW + 1));
}

/* Decoding the message reports it. */
static void a_header_without_its_arguments_does_not_wait(void **state)
{
    struct message m;
    struct ofi_buf *buf = header(&m, 2, 1);
    assert_true(ofi_long_waits(buf));
    buf->rdma.len--;
    assert_false(ofi_long_waits(buf));
    buf = header(&m, UINT8_MAX, 1);
    buf->rdma.len = sizeof(m.bytes);
    assert_false(ofi_long_waits(buf));
    buf = header(&m, 2, 1);
    ((struct aqi_am_wire *)(void *)m.bytes)->kind = AQI_AM_LONG_PACKED;
    assert_false(ofi_long_waits(buf));
}

static void one_that_waits_keeps_its_turn(void **state)
{
    struct message first, second, again;
    header(&first, 2, 1)->number = 1;
    header(&second, 2, 0)->number = 2;
    header(&again, 2, 1)->number = 1;
    assert_true(ofi_flush_early(&ofi, &peer, &second.buf));
    assert_true(ofi_flush_early(&ofi, &peer, &first.buf));
    assert_false(ofi_flush_early(&ofi, &peer, &again.buf));
    assert_null(ofi_flush_next(&ofi, &peer));
    (void)report(PEER, 1);
    assert_ptr_equal(ofi_flush_next(&ofi, &peer), &first.buf);
    peer.received++;
    assert_ptr_equal(ofi_flush_next(&ofi, &peer), &second.buf);
}

/* The receiver processes headers made by the sender in order. */
static void failed_write_is_no_longer_awaited(void **state)
{
    struct capture capture;
    struct message other, failed, arrived;
    struct aqi_comp comp = {.local = 1};
    struct ofi_op op = {.header = 2, .op = {.is_long = true, .peer = &peer.rdma, .comp = &comp}};
    header(&other, 2, 0)->number = 1;
    header(&failed, 2, 5)->number = 2;
    failed.buf.is_long = true;
    failed.buf.write = 5;
    ofi_flush_keep(&ofi, &peer, &other.buf);
    ofi_flush_keep(&ofi, &peer, &failed.buf);
    peer.longs = 1;
    assert_false(ofi_long_has_arrived(&op));
    ofi_long_failed(&ofi.rdma, &op.op);
    assert_true(failed.buf.voided);
    assert_false(other.buf.voided);
    assert_ptr_equal(peer.again, &failed.buf);
    assert_int_equal(peer.until, 2);
    assert_true(ofi.flushes);
    ofi_long_void(&ofi, &failed.buf);
    const struct aqi_am_wire *head = (const void *)failed.bytes;
    assert_int_equal(head->kind, AQI_AM_NONE);
    assert_int_equal(head->handler, OFI_VOID);
    assert_int_equal(head->source, SELF);
    ofi_flush_arrived(&ofi, &peer, 2);
    assert_true(ofi_long_has_arrived(&op));
    assert_int_equal(peer.longs, 0);
    assert_false(failed.buf.voided);
    /* At the receiver, it replaces the header; those after it have arrived. */
    peer.written = 4;
    (void)report(PEER, 6);
    header(&arrived, 2, 5)->number = 2;
    assert_true(ofi_flush_early(&ofi, &peer, &arrived.buf));
    assert_true(ofi_flush_early(&ofi, &peer, &failed.buf));
    assert_ptr_equal(peer.early, &failed.buf);
    assert_null(failed.buf.next);
    assert_false(ofi_long_waits(&failed.buf));
    ofi_long_voided(&peer, &failed.buf);
    assert_int_equal(peer.written, 6);
    /* A sender that has its source back sees it in the log. */
    op.op.comp = NULL;
    op.op.len = 77;
    capture_start(&capture);
    ofi_long_failed(&ofi.rdma, &op.op); /* confirmed, so nothing is sent again */
    const char *text = capture_end(&capture);
    assert_non_null(strstr(text, "a Long of 77 bytes"));
    assert_non_null(strstr(text, "rank 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_header_waits_for_its_write, begin),
        cmocka_unit_test_setup(numbers_go_on_after_the_last, begin),
        cmocka_unit_test_setup(unknown_writes_change_nothing, begin),
        cmocka_unit_test_setup(a_header_without_its_arguments_does_not_wait, begin),
        cmocka_unit_test_setup(one_that_waits_keeps_its_turn, begin),
        cmocka_unit_test_setup(failed_write_is_no_longer_awaited, begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
