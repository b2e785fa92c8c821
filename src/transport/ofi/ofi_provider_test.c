/*
 * ofi: loading libfabric, and the choice of a provider. Without the library nothing can be tested.
 */
#include "transport/ofi/ofi_impl.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void provider_handler(int number)
{
}

/* Including those that a provider's library would install. (cmocka has some of its own.) */
static void provider_leaves_signals_alone(void **state)
{
    static const int numbers[] = {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGTERM};
    struct sigaction mine = {.sa_handler = provider_handler}, was[AQI_COUNT_OF(numbers)], is;
    struct fi_info *info = NULL, *hints;
    assert_int_equal(sigaction(SIGTERM, &mine, NULL), 0);
    for (size_t i = 0; i < AQI_COUNT_OF(numbers); i++)
        assert_int_equal(sigaction(numbers[i], NULL, &was[i]), 0);
    if (ofi_library_missing() != NULL) {
        print_message("%s\n", ofi_library_missing());
        skip();
    }
    hints = ofi_library.dupinfo(NULL);
    assert_non_null(hints);
    if (ofi_library_getinfo(hints, &info) == 0) ofi_library.freeinfo(info);
    ofi_library.freeinfo(hints);
    for (size_t i = 0; i < AQI_COUNT_OF(numbers); i++) {
        assert_int_equal(sigaction(numbers[i], NULL, &is), 0);
        assert_true(is.sa_handler == was[i].sa_handler);
    }
}

/* Providers over the kernel's network are for users that request them, or name the transport. */
static void provider_of_the_kernel_is_used_on_request(void **state)
{
    struct aqi_tp_probe probe;
    char why[320] = "";
    assert_true(ofi_provider_probe(0, &probe));
    assert_true(probe.usable || probe.reason[0] != 0);
    assert_null(strstr(probe.device, "tcp"));
    if (!probe.usable) assert_int_equal(probe.on_request, strstr(probe.reason, "AQ_OFI_") != NULL);
    if (ofi_library_missing() != NULL) skip();
    ofi_config.provider = "tcp";
    assert_true(ofi_provider_probe(0, &probe));
    ofi_config.provider = "";
    if (!probe.usable) skip(); /* libfabric may be built without it */
    assert_non_null(strstr(probe.device, "tcp"));
    struct fi_info *info = ofi_provider_find(true, 2, why, sizeof(why));
    assert_non_null(info);
    ofi_library.freeinfo(info);
}

/* Each of the others is listed once, with the reason why it is not used. */
static void provider_that_is_not_used(void **state)
{
    struct aqi_tp_probe probe;
    char seen[2048] = "", used[sizeof(probe.device)] = "";
    if (ofi_library_missing() != NULL) skip();
    ofi_config.provider = "tcp"; /* "tcp;ofi_rxm" with libfabric 1, "tcp" with libfabric 2 */
    bool tcp = ofi_provider_probe(0, &probe) && probe.usable;
    if (tcp) memcpy(used, probe.device, sizeof(used));
    for (unsigned device = 1; tcp && ofi_provider_probe(device, &probe); device++) {
        size_t len = strlen(seen);
        if (probe.usable)
            assert_non_null(strstr(probe.reason, "AQ_OFI_PROVIDER="));
        else
            assert_true(strstr(probe.reason, "has no") != NULL ||
                        strstr(probe.reason, "does not support") != NULL);
        assert_null(strstr(seen, probe.device));
        assert_string_not_equal(probe.device, used);
        snprintf(seen + len, sizeof(seen) - len, "%s\n", probe.device);
    }
    ofi_config.provider = "shm";
    bool shm = ofi_provider_probe(0, &probe) && probe.usable;
    ofi_config.provider = "";
    if (!tcp || !shm) skip();
    assert_non_null(strstr(seen, "shm on "));
}

static void provider_that_is_not_here(void **state)
{
    struct aqi_tp_probe probe;
    if (ofi_library_missing() != NULL) skip();
    ofi_config.provider = "tc"; /* the beginning of a name does not match */
    assert_true(ofi_provider_probe(0, &probe));
    assert_false(probe.usable);
    assert_non_null(strstr(probe.reason, "no provider tc (AQ_OFI_PROVIDER) with"));
    ofi_config.provider = "tcp";
    ofi_config.domain = "nowhere0";
    assert_true(ofi_provider_probe(0, &probe));
    assert_false(probe.usable);
    assert_non_null(strstr(probe.reason, "nowhere0"));
    ofi_config.provider = ofi_config.domain = "";
}

/* The message about a missing device names the variables that requested it. */
static void provider_by_another_name(void **state)
{
    struct aqi_settings_table *const tables[] = {&aqi_ofi_settings};
    struct ofi_config before = ofi_config;
    char why[320] = "";
    if (ofi_library_missing() != NULL) skip();
    setenv("GASNET_OFI_DEVICE", "nowhere0", 1);
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    assert_null(ofi_provider_find(true, 2, why, sizeof(why)));
    assert_non_null(strstr(why, "domain nowhere0 (GASNET_OFI_DEVICE)"));
    assert_non_null(strstr(why, "the choices for AQ_OFI_PROVIDER"));
    setenv("GASNET_OFI_PROVIDER", "tc", 1);
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    assert_null(ofi_provider_find(true, 2, why, sizeof(why)));
    assert_non_null(strstr(why, "no provider tc (GASNET_OFI_PROVIDER) and domain nowhere0 (G"));
    unsetenv("GASNET_OFI_DEVICE");
    unsetenv("GASNET_OFI_PROVIDER");
    ofi_config = before;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(provider_leaves_signals_alone),
        cmocka_unit_test(provider_of_the_kernel_is_used_on_request),
        cmocka_unit_test(provider_that_is_not_used),
        cmocka_unit_test(provider_that_is_not_here),
        cmocka_unit_test(provider_by_another_name),
    };
    ofi_config.provider = ofi_config.domain = "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
