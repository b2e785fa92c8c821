/* Texts of settings: what each type accepts and rejects, and that printed values can be parsed. */
#include "base/capture_test.h"
#include "base/fail.h"
#include "base/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define K 1024ull

static const char *const colors[] = {"red", "green", "blue", NULL};
static const struct aqi_setting row_bool = {.name = "AQ_B", .type = AQI_SET_BOOL};
static const struct aqi_setting row_count = {.name = "AQ_N", .type = AQI_SET_COUNT};
static const struct aqi_setting row_range = {
    .name = "AQ_R", .def = "8", .type = AQI_SET_COUNT, .min = 2, .max = 64, .power_of_two = true};
static const struct aqi_setting row_bytes = {.name = "AQ_S", .type = AQI_SET_BYTES};
static const struct aqi_setting row_time = {
    .name = "AQ_T", .type = AQI_SET_TIME, .unit = "us", .min = 1000, .max = 60000000000};
static const struct aqi_setting row_time_plain = {.name = "AQ_TP", .type = AQI_SET_TIME};
static const struct aqi_setting row_choice = {
    .name = "AQ_C", .type = AQI_SET_CHOICE, .choices = colors};
static const struct aqi_setting row_text = {.name = "AQ_X", .type = AQI_SET_TEXT};
static const struct aqi_setting row_open = {
    .name = "AQ_O", .type = AQI_SET_BYTES, .min = 4096, .max = UINT64_MAX};

static const struct {
    const struct aqi_setting *row;
    const char *text;
    uint64_t value;
} legal[] = {
    {&row_bool, "0", 0},
    {&row_bool, "1", 1},
    {&row_bool, "no", 0},
    {&row_bool, "YES", 1},
    {&row_bool, "off", 0},
    {&row_bool, "On", 1},
    {&row_bool, "false", 0},
    {&row_bool, "true", 1},
    {&row_bool, "n", 0},
    {&row_bool, "Y", 1},
    {&row_count, "0", 0},
    {&row_count, "007", 7},
    {&row_count, "18446744073709551615", UINT64_MAX},
    {&row_range, "2", 2},
    {&row_range, "64", 64},
    {&row_bytes, "0", 0},
    {&row_bytes, "12", 12},
    {&row_bytes, "12b", 12},
    {&row_bytes, "4K", 4 * K},
    {&row_bytes, "4k", 4 * K},
    {&row_bytes, "4KB", 4 * K},
    {&row_bytes, "4KiB", 4 * K},
    {&row_bytes, "3M", 3 * K *K},
    {&row_bytes, "2g", 2 * K *K *K},
    {&row_bytes, "1TB", K *K *K *K},
    {&row_bytes, "16777215T", 16777215 * K *K *K *K},
    {&row_time, "1", 1000},
    {&row_time, "60s", 60000000000},
    {&row_time, "1m", 60000000000},
    {&row_time, "250ms", 250000000},
    {&row_time, "7us", 7000},
    {&row_time, "1500ns", 1500},
    {&row_time, "1.5", 1500},
    {&row_time, "0.25s", 250000000},
    {&row_time, "0.99999999999m", 59999999940},
    {&row_time, "2.0001us", 2000},
    {&row_time_plain, "5", 5},
    {&row_time_plain, "0", 0},
    {&row_choice, "red", 0},
    {&row_choice, "Blue", 2},
    {&row_open, "4K", 4096},
    {&row_open, "18446744073709551615", UINT64_MAX},
};

static const struct {
    const struct aqi_setting *row;
    const char *texts[16]; /* ended by NULL */
} illegal[] = {
    {&row_bool, {"", "2", "yess", " 1"}},
    {&row_count,
     {"", "-1", "+1", " 1", "1 ", "0x10", "1K", "1.5", "18446744073709551616",
      "99999999999999999999999999"}},
    {&row_range, {"0", "1", "3", "128"}},
    {&row_bytes,
     {"", "K", "-4K", "4KK", "4Ki", "4KiBx", "4iB", "4BB", "4P", "4 K", "16777216T",
      "18446744073709551615K"}},
    {&row_time,
     {"1.", "1.s", ".5s", "1.5.5s", "-1.5s", "", "0", "999ns", "61s", "1h", "-1s", "1sec",
      "18446744073709551615m"}},
    {&row_time_plain, {"307445734561.9m"}},
    {&row_choice, {"", "re", "redd", "0"}},
    {&row_open, {"4095"}},
};

static void valid_values_are_accepted(void **state)
{
    for (size_t i = 0; i < AQI_COUNT_OF(legal); i++) {
        uint64_t value = 12345678901;
        assert_true(aqi_setting_read(legal[i].row, legal[i].text, &value));
        if (value != legal[i].value)
            fail_msg("\"%s\" gave %" PRIu64 ", not %" PRIu64, legal[i].text, value, legal[i].value);
    }
}

static void check_refused(const struct aqi_setting *row, const char *text)
{
    uint64_t value = 12345678901;
    char range[128], start[128], complaint[512];
    if (aqi_setting_read(row, text, &value)) fail_msg("\"%s\" was taken", text);
    assert_true(value == 12345678901);
    aqi_setting_complain(row, row->name, text, complaint, sizeof(complaint));
    aqi_setting_range(row, range, sizeof(range));
    snprintf(start, sizeof(start), "%s=\"%s\" ", row->name, text);
    assert_memory_equal(complaint, start, strlen(start));
    assert_non_null(strstr(complaint, range));
}

static void invalid_values_are_refused(void **state)
{
    for (size_t i = 0; i < AQI_COUNT_OF(illegal); i++)
        for (const char *const *text = illegal[i].texts; *text != NULL; text++)
            check_refused(illegal[i].row, *text);
}

static void text_is_any_text(void **state)
{
    const char *value = NULL;
    assert_true(aqi_setting_read(&row_text, "", &value));
    assert_string_equal(value, "");
    assert_true(aqi_setting_read(&row_text, "a b=c", &value));
    assert_string_equal(value, "a b=c");
}

static void ranges_read_well(void **state)
{
    static const struct {
        const struct aqi_setting *row;
        const char *range;
    } cases[] = {
        {&row_bool, "0 1 no yes off on false true"},
        {&row_count, "0 to 18446744073709551615"},
        {&row_bytes, "0 to 16777215T"},
        {&row_time_plain, "0 to 307445734m"},
        {&row_range, "2 to 64, a power of two"},
        {&row_time, "1us to 1m"},
        {&row_choice, "red green blue"},
        {&row_text, "any text"},
        {&row_open, "4K to 16777215T"},
    };
    char range[64];
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        aqi_setting_range(cases[i].row, range, sizeof(range));
        assert_string_equal(range, cases[i].range);
    }
}

static void types_have_names(void **state)
{
    assert_string_equal(aqi_setting_type_name(AQI_SET_BOOL), "bool");
    assert_string_equal(aqi_setting_type_name(AQI_SET_TEXT), "text");
}

static void printed_values_can_be_parsed(void **state)
{
    for (size_t i = 0; i < AQI_COUNT_OF(legal); i++) {
        uint64_t value = legal[i].value, again = 0;
        struct aqi_setting row = *legal[i].row;
        struct aqi_settings_table table = {
            .group = "t", .rows = &row, .count = 1, .values = &value};
        char text[64];
        aqi_setting_format(&table, 0, text, sizeof(text));
        assert_true(aqi_setting_read(&row, text, &again));
        assert_true(again == value);
    }
}

static void short_buffers_are_not_overrun(void **state)
{
    char whole[256], part[256];
    aqi_setting_complain(&row_range, "AQ_R", "seven", whole, sizeof(whole));
    assert_string_equal(whole, "AQ_R=\"seven\" is not valid: give a plain number, 2 to 64, a power "
                               "of two; the default is 8");
    for (size_t len = 1; len <= strlen(whole); len++) {
        memset(part, '#', sizeof(part));
        aqi_setting_complain(&row_range, "AQ_R", "seven", part, len);
        assert_int_equal(part[len], '#');
        assert_int_equal(part[len - 1], '\0');
        assert_memory_equal(part, whole, len - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_values_are_accepted),
        cmocka_unit_test(invalid_values_are_refused),
        cmocka_unit_test(text_is_any_text),
        cmocka_unit_test(ranges_read_well),
        cmocka_unit_test(types_have_names),
        cmocka_unit_test(printed_values_can_be_parsed),
        cmocka_unit_test(short_buffers_are_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
