/* Tests limits.c: what follows from settings and machine, and that a probe releases everything. */
#include "reg/limits.h"

#include "base/cmocka_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MB (UINT64_C(1) << 20)
#define GB (UINT64_C(1) << 30)

static const struct aqi_reg_machine machine = {
    .page = 4096, .memory = 16 * GB, .locked = UINT64_MAX, .processes = 4, .on_demand = true};

static void limits_follow_from_settings(void **unused)
{
    static const struct {
        const char *max, *main, *victim;
        uint64_t main_bytes, victim_bytes;
    } cases[] = {
        {"0.5", "", "", 3 * GB / 2, GB / 2},
        {"5/8", "", "", 15 * GB / 8, 5 * GB / 8},
        {"8G", "1G", "", GB, GB},
        {"8192", "", "256", 2 * GB - 256 * MB, 256 * MB},
        {"8G", "1/4", "128M", GB / 2, 128 * MB},
        {"0", "", "", 0, 0},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct aqi_reg_config config = aqi_reg_config;
        struct aqi_reg_limits limits;
        config.max = cases[i].max;
        config.main = cases[i].main;
        config.victim = cases[i].victim;
        assert_int_equal(aqi_reg_limits_from(&config, &machine, &limits), AQ_OK);
        assert_int_equal(limits.main.bytes, cases[i].main_bytes);
        assert_int_equal(limits.victim.bytes, cases[i].victim_bytes);
        assert_int_equal(limits.main.regions, limits.main.bytes / limits.region);
    }
}

static void the_machine_counts(void **unused)
{
    struct aqi_reg_config config = aqi_reg_config;
    struct aqi_reg_machine small = machine;
    struct aqi_reg_limits limits;
    small.locked = 8 * MB;
    small.on_demand = false;
    config.main_regions = 3;
    config.victim_regions = 1 << 30;
    assert_int_equal(aqi_reg_limits_from(&config, &small, &limits), AQ_OK);
    assert_int_equal(limits.main.bytes, MB / 2);
    assert_int_equal(limits.victim.bytes, 15 * MB / 2);
    assert_int_equal(limits.main.regions, 3);
    assert_int_equal(limits.victim.regions, limits.victim.bytes / 4096);
    assert_int_equal(limits.ride, 3072);
    aqi_reg_machine_look(&small);
    assert_true(aqi_is_power_of_two(small.page) && small.memory > small.page);
}

static void bad_settings_are_named(void **unused)
{
    static const char *const bad[] = {"x",
                                      "1.5",
                                      "9/8",
                                      "1/0",
                                      "0.5x",
                                      "-1",
                                      "1//2",
                                      "1.2.3",
                                      "99999999999999999999",
                                      "18446744073709551615"};
    static const char *const names[] = {"GASNET_PHYSMEM_MAX", "AQ_REG_MAX", "GASNET_FIREHOSE_M",
                                        "GASNET_FIREHOSE_MAXVICTIM_M"};
    struct aqi_settings_table *tables[] = {&aqi_reg_settings};
    for (size_t n = 0; n < AQI_COUNT_OF(names); n++) {
        for (size_t i = 0; i < AQI_COUNT_OF(bad); i++) {
            char start[80];
            snprintf(start, sizeof(start), "%s=\"%s\" is not valid", names[n], bad[i]);
            setenv(names[n], bad[i], 1);
            assert_int_equal(aqi_settings_load(tables, 1), AQ_ESETTING);
            assert_memory_equal(aq_error_message(), start, strlen(start));
        }
        unsetenv(names[n]);
    }
    struct aqi_reg_limits limits;
    setenv("GASNET_FIREHOSE_M", "0.6", 1); /* more than there is */
    setenv("AQ_REG_VICTIM", "0.6", 1);
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    assert_int_equal(aqi_reg_limits_from(&aqi_reg_config, &machine, &limits), AQ_ESETTING);
    assert_non_null(strstr(aq_error_message(), "GASNET_FIREHOSE_M ("));
    assert_non_null(strstr(aq_error_message(), "AQ_REG_VICTIM ("));
    unsetenv("GASNET_FIREHOSE_M");
    unsetenv("AQ_REG_VICTIM");
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
}

/*
 * "0" makes the library find out; a region without a unit is in M, and may be any multiple of the
 * page size.
 */
static void values_of_the_documents_of_vapi(void **unused)
{
    static const struct {
        const char *text;
        uint64_t region;
    } regions[] = {{"1", MB}, {"3", 2 * MB}, {"128K", 128 << 10}, {"12K", 8192}, {"1K", 4096}};
    struct aqi_settings_table *tables[] = {&aqi_reg_settings};
    struct aqi_reg_limits limits;
    setenv("GASNET_PHYSMEM_MAX", "0", 1);
    setenv("GASNET_PHYSMEM_NOPROBE", "0", 1);
    setenv("GASNET_USE_UDREG", "0", 1);
    for (size_t i = 0; i < AQI_COUNT_OF(regions); i++) {
        setenv("GASNET_FIREHOSE_MAXREGION_SIZE", regions[i].text, 1);
        assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
        assert_int_equal(aqi_reg_limits_from(&aqi_reg_config, &machine, &limits), AQ_OK);
        assert_int_equal(limits.region, regions[i].region);
        assert_true(limits.main.bytes > GB);
    }
    assert_true(aqi_reg_config.probe);
    assert_int_equal(aqi_reg_config.monitor, AQI_REG_MONITOR_NONE);
    setenv("GASNET_PHYSMEM_MAX", "64T", 1); /* no more than there is */
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    assert_int_equal(aqi_reg_limits_from(&aqi_reg_config, &machine, &limits), AQ_OK);
    assert_int_equal(limits.main.bytes + limits.victim.bytes, 4 * GB);
    unsetenv("GASNET_PHYSMEM_MAX");
    unsetenv("GASNET_PHYSMEM_NOPROBE");
    unsetenv("GASNET_USE_UDREG");
    unsetenv("GASNET_FIREHOSE_MAXREGION_SIZE");
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
}

static void the_table_can_be_loaded(void **unused)
{
    struct aqi_settings_table *tables[] = {&aqi_reg_settings};
    setenv("GASNET_FIREHOSE_M", "300", 1);
    setenv("GASNET_FIREHOSE_MAXREGION_SIZE", "256K", 1);
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    assert_string_equal(aqi_reg_config.main, "300");
    assert_int_equal(aqi_reg_config.region, 256 << 10);
    setenv("AQ_REG_REGION", "3K", 1);
    assert_int_equal(aqi_settings_load(tables, 1), AQ_ESETTING);
    unsetenv("AQ_REG_REGION");
    unsetenv("GASNET_FIREHOSE_M");
    unsetenv("GASNET_FIREHOSE_MAXREGION_SIZE");
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    assert_int_equal(aqi_reg_config.region, 128 << 10);
}

static uint64_t pinned, allowed;

static aq_status some_pin(void *host, uint64_t addr, uint64_t len, struct aqi_reg_mem *mem)
{
    if (pinned + len > allowed) return AQ_ENOMEM;
    pinned += len;
    mem->handle = (void *)(uintptr_t)len;
    return AQ_OK;
}

static void some_unpin(void *host, const struct aqi_reg_mem *mem)
{
    pinned -= (uintptr_t)mem->handle;
}

static void probing_finds_the_limit(void **unused)
{
    const struct aqi_reg_hooks hooks = {.pin = some_pin, .unpin = some_unpin};
    allowed = 10 * MB;
    assert_int_equal(aqi_reg_probe(&hooks, 64 * MB), 10 * MB);
    assert_int_equal(aqi_reg_probe(&hooks, 8 * MB), 8 * MB);
    allowed = 0;
    assert_int_equal(aqi_reg_probe(&hooks, 8 * MB), 0);
    assert_int_equal(pinned, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_follow_from_settings),
        cmocka_unit_test(the_machine_counts),
        cmocka_unit_test(bad_settings_are_named),
        cmocka_unit_test(values_of_the_documents_of_vapi),
        cmocka_unit_test(the_table_can_be_loaded),
        cmocka_unit_test(probing_finds_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
