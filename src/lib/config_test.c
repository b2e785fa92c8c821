/* Tests config.c: every row with an alias, in all folders. */
#include "lib/lib.h"

#include "base/capture_test.h"
#include <aqueduct/job.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int config_clean(void **state)
{
    return clearenv();
}

/* Load with `name`=`text`; `output` receives the output on standard error. */
static aq_status config_load(const char *name, const char *text, struct capture *output)
{
    size_t count;
    struct aqi_settings_table *const *tables = lib_tables(&count);
    capture_start(output);
    setenv(name, text, 1);
    aq_status st = aqi_settings_load(tables, count);
    aqi_settings_warn(tables, count, lib_other_names);
    (void)capture_end(output);
    return st;
}

/* A value that is invalid for every row except those that take any text, or any other word. */
static void errors_name_the_variable_that_was_set(void **state)
{
    size_t count, tried = 0;
    struct aqi_settings_table *const *tables = lib_tables(&count);
    for (size_t t = 0; t < count; t++)
        for (size_t r = 0; r < tables[t]->count; r++) {
            const struct aqi_setting *row = &tables[t]->rows[r];
            const char *alias;
            if (row->type == AQI_SET_TEXT && row->check == NULL && !row->words_only) continue;
            if (row->alias_words != NULL && strcmp(row->name, "AQ_BARRIER") == 0) continue;
            for (unsigned a = 0; (alias = aqi_setting_alias(row, a)) != NULL; a++, tried++) {
                char start[128];
                struct capture output;
                config_clean(state);
                snprintf(start, sizeof(start), "%s=\"-1 '\" is not valid: give ", alias);
                assert_int_equal(config_load(alias, "-1 '", &output), AQ_ESETTING);
                assert_memory_equal(aq_error_message(), start, strlen(start));
                assert_string_equal(aqi_setting_origin(tables[t], r), "default");
            }
        }
    assert_true(tried > 50);
}

/* A number under an alias is valid, or adjusted with one warning, or invalid, as documented. */
static void extreme_numbers_are_no_errors(void **state)
{
    static const char *const texts[] = {"0", "1", "11", "1000000", "4611686018427387904"};
    static const char *const errors[] = {"AQ_REG_PUT_IN_MOVE", "AQ_IBV_PORT", NULL};
    size_t count;
    struct aqi_settings_table *const *tables = lib_tables(&count);
    for (size_t t = 0; t < count; t++)
        for (size_t r = 0; r < tables[t]->count; r++) {
            const struct aqi_setting *row = &tables[t]->rows[r];
            const char *alias = aqi_setting_alias(row, 0);
            bool number = row->type == AQI_SET_COUNT || row->type == AQI_SET_BYTES ||
                          row->type == AQI_SET_TIME;
            size_t e = 0;
            while (errors[e] != NULL && strcmp(errors[e], row->name) != 0)
                e++;
            for (size_t i = 0;
                 alias != NULL && number && errors[e] == NULL && i < AQI_COUNT_OF(texts); i++) {
                char value[64];
                struct capture output;
                uint64_t read;
                config_clean(state);
                if (row->type == AQI_SET_TIME && i == AQI_COUNT_OF(texts) - 1) continue;
                if (row->alias_unit != NULL && i == AQI_COUNT_OF(texts) - 1) continue;
                assert_int_equal(config_load(alias, texts[i], &output), AQ_OK);
                aqi_setting_format(tables[t], r, value, sizeof(value));
                assert_true(aqi_setting_read(row, value, &read));
                bool legal = aqi_setting_read(row, texts[i], &read);
                if (row->alias_words == NULL && row->alias_unit == NULL)
                    assert_int_equal(strstr(output.text, alias) != NULL, !legal);
                assert_int_equal(config_load(alias, texts[i], &output), AQ_OK);
                assert_string_equal(output.text, "");
            }
        }
}

/* Values that the documents allow, and that have another name here or are not supported yet. */
static void values_of_the_documents(void **state)
{
    static const struct {
        const char *name, *text, *row, *value;
        bool warned;
    } rows[] = {
        {"GASNET_DOMAIN_COUNT", "9", "AQ_OFI_DOMAINS", "8", true},
        {"GASNET_NUM_QPS", "5", "AQ_IBV_RAILS", "4", true},
        {"GASNET_BBUF_COUNT", "0", "AQ_IBV_BOUNCES", "1048576", false},
        {"GASNET_NETWORKDEPTH_SPACE", "64M", "AQ_AM_BYTES", "32M", true},
        {"GASNET_NETWORKDEPTH_SPACE", "0", "AQ_AM_BYTES", "1", false},
        {"GASNET_NETWORKDEPTH_PP", "32", "AQ_IBV_SENDS", "32", false},
        {"GASNET_OP_OUST_PP", "32", "AQ_IBV_SENDS", "32", false},
        {"GASNET_NETWORKDEPTH_TOTAL", "0", "AQ_IBV_SENDS_TOTAL", "0", false},
        {"GASNET_OP_OUST_LIMIT", "1024", "AQ_IBV_SENDS_TOTAL", "1024", false},
        {"GASNET_AM_SPARES", "2", "AQ_IBV_SPARES", "2", false},
        {"GASNET_PHYSMEM_MAX", "0", "AQ_REG_MAX", "2/3", false},
        {"GASNET_PHYSMEM_NOPROBE", "1", "AQ_REG_PROBE", "no", false},
        {"GASNET_PHYSMEM_NOPROBE", "0", "AQ_REG_PROBE", "yes", false},
        {"GASNET_USE_FIREHOSE", "0", "AQ_REG_MONITOR", "none", false},
        {"GASNET_USE_UDREG", "yes", "AQ_REG_MONITOR", "auto", false},
        {"GASNET_FIREHOSE_VERBOSE", "1", "AQ_LOG", "warn,ibv=info,ofi=info", false},
        {"GASNET_GNI_BOUNCE_SIZE", "256K", "AQ_OFI_BOUNCE_MEMORY", "256K", false},
        {"GASNET_BARRIER", "GNIDISSEM", "AQ_BARRIER", "writes", false},
        {"GASNET_BARRIER", "rdmadissem", "AQ_BARRIER", "writes", false},
        {"GASNET_BARRIER", "AMDISSEM", "AQ_BARRIER", "messages", false},
        {"GASNET_BARRIER", "PSHM", "AQ_BARRIER", "messages", true},
        {"GASNET_HCA_ID", "InfiniHost0", "AQ_IBV_PORTS", "InfiniHost0", true},
        {"GASNET_PORT_NUM", "2", "AQ_IBV_PORT", "2", true},
        {"GASNET_VAPI_PORTS", "a+b:2", "AQ_IBV_PORTS", "a+b:2", false},
        {"GASNET_PIN_MAXSZ", "256K", "AQ_IBV_REGISTRATION", "256K", false},
        {"GASNET_FIREHOSE_MAXREGION_SIZE", "1", "AQ_REG_REGION", "1M", false},
        {"GASNET_MAX_SEGSIZE", "0.85/H", "AQ_MAX_SEGMENT", "0.85/H", false},
        {"GASNET_RCV_THREAD", "1", "AQ_PROGRESS_THREAD", "yes", false},
    };
    size_t count;
    struct aqi_settings_table *const *tables = lib_tables(&count);
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        char value[64] = "";
        struct capture output;
        config_clean(state);
        assert_int_equal(config_load(rows[i].name, rows[i].text, &output), AQ_OK);
        for (size_t t = 0; t < count; t++)
            for (size_t r = 0; r < tables[t]->count; r++)
                if (strcmp(tables[t]->rows[r].name, rows[i].row) == 0)
                    aqi_setting_format(tables[t], r, value, sizeof(value));
        assert_string_equal(value, rows[i].value);
        if ((strstr(output.text, rows[i].name) != NULL) != rows[i].warned)
            fail_msg("%s=%s: \"%s\"", rows[i].name, rows[i].text, output.text);
    }
}

static void other_names_are_no_settings(void **state)
{
    size_t count;
    struct aqi_settings_table *const *tables = lib_tables(&count);
    for (size_t i = 0; lib_other_names[i] != NULL; i++)
        for (size_t t = 0; t < count; t++)
            for (size_t r = 0; r < tables[t]->count; r++) {
                const char *alias;
                for (unsigned a = 0; (alias = aqi_setting_alias(&tables[t]->rows[r], a)) != NULL;
                     a++)
                    assert_string_not_equal(alias, lib_other_names[i]);
            }
}

static void names_of_the_documents_are_known(void **state)
{
    static const char *const names[] = {
        /* Scripts set all of them, even those without effect here. */
        "GASNET_AMRDMA_CYCLE", "GASNET_AMRDMA_DEPTH", "GASNET_AMRDMA_LIMIT",
        "GASNET_AMRDMA_MAX_PEERS", "GASNET_AM_CREDITS_PP", "GASNET_AM_CREDITS_SLACK",
        "GASNET_AM_CREDITS_TOTAL", "GASNET_AM_OUST_LIMIT", "GASNET_AM_OUST_PP", "GASNET_AM_SPARES",
        "GASNET_BARRIER", "GASNET_BBUF_COUNT", "GASNET_EXITTIMEOUT", "GASNET_FIREHOSE_M",
        "GASNET_FIREHOSE_MAXREGION_SIZE", "GASNET_FIREHOSE_MAXVICTIM_M",
        "GASNET_FIREHOSE_MAXVICTIM_R", "GASNET_FIREHOSE_R", "GASNET_FIREHOSE_VERBOSE",
        "GASNET_GNI_BOUNCE_SIZE", "GASNET_GNI_GET_FMA_RDMA_CUTOVER", "GASNET_GNI_NUM_PD",
        "GASNET_GNI_PUT_FMA_RDMA_CUTOVER", "GASNET_HCA_ID", "GASNET_INLINESEND_LIMIT",
        "GASNET_NETWORKDEPTH", "GASNET_NETWORKDEPTH_PP", "GASNET_NETWORKDEPTH_SPACE",
        "GASNET_NETWORKDEPTH_TOTAL", "GASNET_NONBULKPUT_BOUNCE_LIMIT", "GASNET_NUM_QPS",
        "GASNET_OP_OUST_LIMIT", "GASNET_OP_OUST_PP", "GASNET_PACKEDLONG_LIMIT",
        "GASNET_PHYSMEM_MAX", "GASNET_PHYSMEM_NOPROBE", "GASNET_PIN_MAXSZ", "GASNET_PORT_NUM",
        "GASNET_PUTINMOVE_LIMIT", "GASNET_QP_RETRY_COUNT", "GASNET_QP_TIMEOUT", "GASNET_RCV_THREAD",
        "GASNET_SSH_CMD", "GASNET_SSH_NODEFILE", "GASNET_SSH_OPTIONS", "GASNET_SSH_SERVERS",
        "GASNET_USE_FIREHOSE", "GASNET_USE_UDREG", "GASNET_VAPI_PORTS", "GASNET_VAPI_SPAWNER",
        /* Further ones without effect. */
        "GASNET_OFI_DEVICE_TYPE", "GASNET_RBUF_COUNT", "GASNET_IBV_PORTS_TYPE"};
    for (size_t i = 0; i < AQI_COUNT_OF(names); i++) {
        struct capture output;
        (void)config_load(names[i], "1", &output);
        if (strstr(output.text, "is not a setting") != NULL) fail_msg("%s", output.text);
        unsetenv(names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(errors_name_the_variable_that_was_set, config_clean),
        cmocka_unit_test_setup(extreme_numbers_are_no_errors, config_clean),
        cmocka_unit_test_setup(values_of_the_documents, config_clean),
        cmocka_unit_test_setup(other_names_are_no_settings, config_clean),
        cmocka_unit_test_setup(names_of_the_documents_are_known, config_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
