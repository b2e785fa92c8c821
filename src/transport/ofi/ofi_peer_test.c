/* ofi: reports about a peer for which the provider never has room; addresses of peers. */
#include "transport/ofi/ofi_peer_world_test.h"

#include "base/capture_test.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct ofi_tp ofi;
static struct ofi_peer peer;
static struct aqi_rdma_peer *peers[] = {NULL, NULL, NULL, &peer.rdma};

static int begin(void **state)
{
    static char provider[] = "tcp;ofi_rxm", interface[] = "eth7";
    static struct fi_fabric_attr fabric = {.prov_name = provider};
    static struct fi_domain_attr domain = {.name = interface};
    static struct fi_info info = {.fabric_attr = &fabric, .domain_attr = &domain};
    ofi = (struct ofi_tp){
        .rdma = {.driver = &ofi_driver, .peers = peers, .params.size = AQI_COUNT_OF(peers)},
        .info = &info,
        .look_at = AQI_NO_DEADLINE};
    peer_begin(&peer, 0, 3);
    return 0;
}

/* Returns its output on standard error. */
static const char *refuse(uint64_t now)
{
    static struct capture output;
    capture_start(&output);
    aq_status st = ofi_peer_refused(&ofi, &peer);
    ofi.rdma.now = now;
    if (now >= ofi.look_at) ofi_peer_look(&ofi);
    const char *text = capture_end(&output);
    assert_int_equal(st, AQ_AGAIN);
    return text;
}

static void peer_is_doubted_once(void **state)
{
    assert_int_equal(aqi_log_configure("warn"), AQ_OK);
    assert_string_equal(refuse(SECOND), "");
    assert_string_equal(refuse(30 * SECOND), "");
    peer.refused = 0; /* something was accepted */
    assert_string_equal(refuse(40 * SECOND), "");
    assert_string_equal(refuse(69 * SECOND), "");
    const char *text = refuse(70 * SECOND);
    assert_non_null(strstr(text, "tcp;ofi_rxm on eth7"));
    assert_non_null(strstr(text, "rank 3"));
    assert_string_equal(refuse(1000 * SECOND), "");
}

static void provider_that_never_has_room_is_given_up(void **state)
{
    assert_int_equal(aqi_log_configure("error"), AQ_OK);
    ofi_config.refused_ns = 100 * SECOND;
    (void)refuse(SECOND);
    (void)refuse(40 * SECOND);
    (void)refuse(100 * SECOND);
    assert_false(peer.rdma.down);
    assert_true(ofi.look_at <= 101 * SECOND);
    (void)refuse(101 * SECOND);
    assert_true(peer.rdma.down);
    assert_ptr_equal(ofi.rdma.lost, &peer);
    assert_non_null(strstr(peer.rdma.why, "for 100 s (AQ_OFI_REFUSED_TIMEOUT)"));
    ofi_config.refused_ns = 0;
}

static struct ofi_addr address;
static size_t address_len;

static aq_status look_up(void *host, const struct aqi_tp *tp, uint32_t id, void *addr, size_t *len)
{
    memcpy(addr, &address, address_len);
    *len = address_len;
    return AQ_OK;
}

/* `rest`: the part after the head, whose first name has `first` bytes. */
static unsigned domains(unsigned place, uint32_t first, const char *rest, size_t len)
{
    struct fi_ep_attr ep = {.protocol = 7};
    struct fi_info info = {.ep_attr = &ep, .addr_format = 8};
    ofi = (struct ofi_tp){.info = &info, .place = place, .rdma.tp.hooks.lookup = look_up};
    address = (struct ofi_addr){.protocol = 7, .format = 8, .len = first};
    memcpy(address.magic, ofi_magic, sizeof(address.magic));
    memcpy(address.name, rest, len);
    address_len = offsetof(struct ofi_addr, name) + len;
    return ofi_peer_domains(&ofi, 3);
}

static void addresses_name_each_domain(void **state)
{
    assert_int_equal(aqi_log_configure("error"), AQ_OK);
    assert_int_equal(domains(0, 4, "four", 4), 1);
    assert_int_equal(domains(1, 4, "four", 4), 0); /* it has no second one */
    for (unsigned place = 0; place < 3; place++)
        assert_int_equal(domains(place, 4, "four\3six\1a", 10), 3);
    assert_int_equal(domains(3, 4, "four\3six\1a", 10), 0);
    assert_int_equal(domains(0, 4, "four\3six\1", 9), 0); /* cut off */
    assert_int_equal(domains(0, 4, "four\3si", 7), 0);
    assert_int_equal(domains(0, 4, "four\0", 5), 0);
    assert_int_equal(domains(0, 5, "four", 4), 0);
    assert_int_equal(domains(0, 0, "four", 4), 0);
    assert_int_equal(domains(0, UINT32_MAX, "four", 4), 0);
}

/* --- addresses in words ---------------------------------------------------------------------- */

static int vector_lookup(struct fid_av *av, fi_addr_t at, void *addr, size_t *len)
{
    if (at != 7) return -FI_EINVAL;
    memset(addr, 1, 16);
    *len = 16;
    return 0;
}

static const char *vector_straddr(struct fid_av *av, const void *addr, char *buf, size_t *len)
{
    assert_int_equal(*(const unsigned char *)addr, 1);
    *len = (size_t)snprintf(buf, *len, "fi_sockaddr_in://10.0.0.7:4021") + 1;
    return buf;
}

static void report_of_a_lost_peer_has_its_address(void **state)
{
    struct fi_ops_av ops = {.lookup = vector_lookup, .straddr = vector_straddr};
    struct fid_av av = {.ops = &ops};
    struct capture output;
    char name[AQI_RDMA_WHERE];
    ofi.rdma.draining = true;
    ofi.av = &av;
    peer.addr = 7;
    assert_int_equal(aqi_log_configure("info"), AQ_OK);
    capture_start(&output);
    aqi_rdma_fail(&ofi.rdma, &peer.rdma, "%s says so", "a test");
    const char *text = capture_end(&output);
    assert_non_null(
        strstr(text, "rank 3 (fi_sockaddr_in://10.0.0.7:4021) is lost: a test says so"));
    peer.addr = 8;
    ofi_peer_where(&ofi.rdma, &peer.rdma, name);
    assert_string_equal(name, "");
    peer.addr = FI_ADDR_NOTAVAIL;
    ofi_peer_where(&ofi.rdma, &peer.rdma, name);
    assert_string_equal(name, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(peer_is_doubted_once, begin),
        cmocka_unit_test_setup(provider_that_never_has_room_is_given_up, begin),
        cmocka_unit_test_setup(addresses_name_each_domain, begin),
        cmocka_unit_test_setup(report_of_a_lost_peer_has_its_address, begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
