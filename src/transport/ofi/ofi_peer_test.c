/* ofi: what is told of a peer for which the provider never has room. */
#include "transport/ofi/ofi_impl.h"

#include "base/capture_test.h"
#include "base/log.h"

#include <string.h>

#define SECOND UINT64_C(1000000000)

/* What standard error gets of it. */
static const char *refuse(struct capture *told, struct ofi_tp *ofi, struct ofi_peer *peer,
                          uint64_t now)
{
    capture_start(told);
    aq_status st = ofi_peer_refused(ofi, peer);
    ofi->now = now;
    if (now >= ofi->look_at) ofi_peer_look(ofi);
    const char *text = capture_end(told);
    assert_int_equal(st, AQ_AGAIN);
    return text;
}

static void peer_is_doubted_once(void **state)
{
    struct fi_fabric_attr fabric = {.prov_name = (char[]){"tcp;ofi_rxm"}};
    struct fi_domain_attr domain = {.name = (char[]){"eth7"}};
    struct fi_info info = {.fabric_attr = &fabric, .domain_attr = &domain};
    struct ofi_peer peer = {.peer.id = 3}, *peers[] = {NULL, NULL, NULL, &peer};
    struct ofi_tp ofi = {
        .info = &info, .peers = peers, .params.size = 4, .look_at = AQI_NO_DEADLINE};
    struct capture told;
    (void)state;
    assert_int_equal(aqi_log_configure("warn"), AQ_OK);
    assert_string_equal(refuse(&told, &ofi, &peer, SECOND), "");
    assert_string_equal(refuse(&told, &ofi, &peer, 30 * SECOND), "");
    peer.refused = 0; /* something was taken */
    assert_string_equal(refuse(&told, &ofi, &peer, 40 * SECOND), "");
    assert_string_equal(refuse(&told, &ofi, &peer, 69 * SECOND), "");
    const char *text = refuse(&told, &ofi, &peer, 70 * SECOND);
    assert_non_null(strstr(text, "tcp;ofi_rxm on eth7"));
    assert_non_null(strstr(text, "rank 3"));
    assert_string_equal(refuse(&told, &ofi, &peer, 1000 * SECOND), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(peer_is_doubted_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
