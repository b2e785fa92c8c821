/* ofi: what is told of a peer for which the provider never has room. */
#include "transport/ofi/ofi_impl.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

/* What standard error gets of it; the length. */
static ssize_t refuse(const struct ofi_tp *ofi, struct ofi_peer *peer, uint64_t now, char text[512])
{
    int log = memfd_create("log", MFD_CLOEXEC), err = dup(2);
    assert_true(log >= 0 && err >= 0 && dup2(log, 2) == 2);
    aq_status st = ofi_peer_refused(ofi, peer, now);
    int back = dup2(err, 2);
    ssize_t len = pread(log, text, 511, 0);
    close(log);
    close(err);
    assert_true(back == 2 && len >= 0);
    assert_int_equal(st, AQ_AGAIN);
    text[len] = 0;
    return len;
}

static void peer_is_doubted_once(void **state)
{
    struct fi_fabric_attr fabric = {.prov_name = (char[]){"tcp;ofi_rxm"}};
    struct fi_domain_attr domain = {.name = (char[]){"eth7"}};
    struct fi_info info = {.fabric_attr = &fabric, .domain_attr = &domain};
    struct ofi_tp ofi = {.info = &info};
    struct ofi_peer peer = {.peer.id = 3};
    char text[512];
    (void)state;
    assert_int_equal(aqi_log_configure("warn"), AQ_OK);
    assert_int_equal(refuse(&ofi, &peer, SECOND, text), 0);
    assert_int_equal(refuse(&ofi, &peer, 30 * SECOND, text), 0);
    peer.refused = 0; /* something was taken */
    assert_int_equal(refuse(&ofi, &peer, 40 * SECOND, text), 0);
    assert_int_equal(refuse(&ofi, &peer, 69 * SECOND, text), 0);
    assert_true(refuse(&ofi, &peer, 70 * SECOND, text) > 0);
    assert_non_null(strstr(text, "tcp;ofi_rxm on eth7"));
    assert_non_null(strstr(text, "rank 3"));
    assert_int_equal(refuse(&ofi, &peer, 1000 * SECOND, text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(peer_is_doubted_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
