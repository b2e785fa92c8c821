/* ofi: buffers for many messages: when they are reposted, and which messages are copied. */
#include "transport/ofi/ofi_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 16 };

/* Buffers posted to the provider. */
static struct ofi_area *given[MOST];
static unsigned count;
static bool full;

static ssize_t provider_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    struct ofi_area *area = msg->context;
    assert_true((flags & FI_MULTI_RECV) != 0);
    assert_ptr_equal(msg->msg_iov->iov_base, area->chunk->memory);
    assert_int_equal(msg->msg_iov->iov_len, area->chunk->len);
    assert_int_equal(area->messages, 0);
    if (full) return -FI_EAGAIN;
    assert_true(count < MOST);
    given[count++] = area;
    return 0;
}

static struct fid_ep ep;
static struct fi_rx_attr rx;
static struct ofi_tp ofi;

static int begin(void **state)
{
    static struct fi_ops_msg ops = {.recvmsg = provider_recvmsg};
    static struct fi_domain_attr domain;
    static struct fi_info info = {.domain_attr = &domain, .rx_attr = &rx};
    ep.msg = &ops;
    rx.size = 1024;
    ofi = (struct ofi_tp){.rdma = {.driver = &ofi_driver, .params.size = 2, .buffer = 640},
                          .limits.depth = 4,
                          .info = &info,
                          .ep = &ep};
    count = 0;
    full = false;
    ofi_config.receive_memory = 1 << 20;
    ofi_receive_size(&ofi);
    ofi_receive_post(&ofi);
    return 0;
}

static int end(void **state)
{
    aqi_rdma_drop_chunks(&ofi.rdma);
    return 0;
}

static struct fi_cq_data_entry found(struct ofi_area *area, size_t offset, size_t len,
                                     uint64_t flags)
{
    struct fi_cq_data_entry entry = {.op_context = area,
                                     .flags = flags,
                                     .len = len,
                                     .buf = len != 0 ? area->chunk->memory + offset : NULL};
    ofi_receive_found(&ofi, &entry);
    return entry;
}

/* The provider releases it with its last message; completions may be handled in another order. */
static void a_buffer_is_used_again_after_its_messages(void **state)
{
    struct ofi_buf views[2];
    struct fi_cq_data_entry entries[2];
    unsigned before = count;
    assert_int_equal(ofi.posted, ofi.receives);
    entries[0] = found(given[0], 64, 64, FI_RECV | FI_MULTI_RECV);
    entries[1] = found(given[0], 0, 64, FI_RECV);
    assert_int_equal(count, before + 1); /* another one */
    assert_ptr_not_equal(given[before], given[0]);
    assert_int_equal(ofi.posted, ofi.receives);
    for (unsigned i = 0; i < 2; i++)
        assert_ptr_equal(ofi_receive_message(&entries[i], &views[i]), &views[i]);
    assert_ptr_equal(views[1].rdma.bytes, given[0]->chunk->memory);
    ofi_receive_drop(&ofi, &views[0]);
    assert_null(ofi.free_areas);
    ofi_receive_drop(&ofi, &views[1]);
    assert_ptr_equal(ofi.free_areas, given[0]);
    (void)found(given[1], 0, 0, FI_MULTI_RECV); /* without a message */
    assert_ptr_equal(given[count - 1], given[1]);
    assert_ptr_equal(ofi.free_areas, given[0]);
}

static void a_release_alone_is_no_message(void **state)
{
    struct ofi_buf view;
    struct fi_cq_data_entry entry = found(given[0], 0, 0, FI_MULTI_RECV);
    assert_null(ofi_receive_message(&entry, &view));
    entry = found(given[0], 0, 0, FI_MULTI_RECV); /* twice counts once */
    assert_int_equal(ofi.posted, ofi.receives);
}

static void kept_messages_are_copied(void **state)
{
    struct ofi_peer peer;
    struct ofi_buf view;
    memcpy(given[0]->chunk->memory + 16, "kept", 5);
    struct fi_cq_data_entry entry = found(given[0], 16, 5, FI_RECV | FI_MULTI_RECV);
    assert_ptr_equal(ofi_receive_message(&entry, &view), &view);
    view.rdma.len = 5;
    view.number = 7;
    view.rdma.peer = &peer.rdma;
    struct ofi_buf *own = ofi_receive_keep(&ofi, &view);
    assert_non_null(own);
    assert_ptr_equal(ofi.free_areas, given[0]);
    assert_null(own->area);
    assert_string_equal((const char *)own->rdma.bytes, "kept");
    assert_int_equal(own->rdma.len, 5);
    assert_int_equal(own->number, 7);
    assert_ptr_equal(own->rdma.peer, &peer);
    assert_ptr_equal(ofi_receive_keep(&ofi, own), own);
    ofi_receive_drop(&ofi, own);
    assert_ptr_equal(ofi.rdma.free, own);
}

static void failed_buffers_are_not_reposted(void **state)
{
    unsigned before = count;
    ofi_receive_failed(&ofi, &given[0]->ctx);
    (void)found(given[0], 0, 0, FI_MULTI_RECV);
    assert_null(ofi.free_areas);
    assert_int_equal(ofi.posted, ofi.receives - 1);
    full = true; /* for a while */
    ofi_receive_post(&ofi);
    assert_int_equal(ofi.posted, ofi.receives - 1);
    full = false;
    ofi_receive_post(&ofi);
    assert_int_equal(ofi.posted, ofi.receives);
    assert_int_equal(count, before + 1);
    assert_ptr_not_equal(given[before], given[0]);
}

/* The length in the message is not trusted, and not read if nothing is lent. */
static void length_of_lending_messages_is_checked(void **state)
{
    static const struct {
        bool on;
        uint32_t nbytes, room; /* bytes claimed; bytes present */
        bool fine;
    } rows[] = {{true, 0, 0, true},  {true, 8, 8, true},           {true, 7, 8, true},
                {true, 9, 8, false}, {true, UINT32_MAX, 8, false}, {true, 1, 0, false},
                {false, 0, 0, false}};
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        if (i != 0) end(state), begin(state);
        struct ofi_peer peer = {.rdma.lender = {.sent = 5, .forget = true},
                                .addr = FI_ADDR_NOTAVAIL};
        const struct aqi_am_wire head = {
            .kind = AQI_AM_NONE, .handler = OFI_LENDING, .nbytes = rows[i].nbytes, .addr = 3};
        struct ofi_buf *buf = ofi_buf_get(&ofi);
        assert_non_null(buf);
        memcpy(buf->rdma.bytes, &head, sizeof(head));
        buf->rdma.len = (uint32_t)sizeof(head) + rows[i].room;
        buf->rdma.peer = &peer.rdma;
        ofi.rdma.lending.on = rows[i].on;
        aqi_lending_received(&ofi.rdma, &buf->rdma);
        assert_int_equal(peer.rdma.down, !rows[i].fine);
        assert_int_equal(peer.rdma.lender.taken, rows[i].fine ? 3 : 0);
        if (!rows[i].fine) assert_non_null(strstr(peer.rdma.why, "a message about memory"));
        assert_ptr_equal(ofi.rdma.free, buf);
    }
}

/*
 * There is room for whatever credits let peers send, in the largest or the smallest messages; the
 * memory suffices, and a busy pair of a large job still has more than one request in flight.
 */
static void buffers_suffice_for_all_messages(void **state)
{
    static const uint32_t jobs[] = {2, 16, 64, 1000, 10000, 30000};
    static const uint64_t memories[] = {16 << 20, 256 << 20, 4u << 30};
    for (unsigned i = 0; i < AQI_COUNT_OF(jobs) * AQI_COUNT_OF(memories); i++) {
        uint64_t peers = jobs[i % AQI_COUNT_OF(jobs)] - 1;
        ofi_config.receive_memory = memories[i / AQI_COUNT_OF(jobs)];
        ofi.rdma.params.size = (uint32_t)peers + 1;
        /* With the settings for jobs of that size. */
        ofi.rdma.params.credits = (struct aqi_credit_limits){
            .depth = 32, .bytes = peers < 128 ? 128 << 10 : 12288, .slack = 8};
        size_t medium = peers < 1024 ? 8192 : 4032;
        ofi.rdma.tp.limits = (struct aqi_tp_limits){.max_medium = medium};
        ofi.rdma.buffer = ofi_buffer_bytes(medium);
        rx.size = UINT32_MAX;
        ofi_receive_limit(&ofi);
        ofi_receive_size(&ofi);
        uint64_t requests = peers * aqi_max(ofi.limits.bytes, ofi.limits.largest);
        uint64_t replies = aqi_min(peers * ofi.limits.depth, ofi.limits.total) * ofi.rdma.buffer;
        uint64_t room = (uint64_t)ofi.receives * (aqi_rdma_chunk_len(&ofi.rdma) - ofi.rdma.buffer);
        if (requests <= ofi_config.receive_memory / 2) {
            assert_true(room >= requests + replies);
            /* In addition to the four buffers that are not the provider's. */
            uint64_t memory = (ofi.receives - 4u) * (uint64_t)aqi_rdma_chunk_len(&ofi.rdma);
            assert_true(memory <= ofi_config.receive_memory * 11 / 10);
        }
        if (ofi_config.receive_memory >= 256 << 20 && peers < 8000)
            assert_int_equal(ofi.limits.depth, 32);
        assert_true(ofi.limits.total >= 1);
    }
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(buffers_suffice_for_all_messages),
        WORLD_TEST(a_buffer_is_used_again_after_its_messages),
        WORLD_TEST(a_release_alone_is_no_message),
        WORLD_TEST(kept_messages_are_copied),
        WORLD_TEST(failed_buffers_are_not_reposted),
        WORLD_TEST(length_of_lending_messages_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
