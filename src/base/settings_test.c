/* Tables filled from the environment: aliases, origins, bad values, unknown names. */
#include "base/settings.h"

#include "base/capture_test.h"
#include "base/fail.h"
#include <stdlib.h>
#include <string.h>

static struct {
    uint64_t slots, wait;
    const char *name;
} values_a;
static struct {
    uint64_t rank, size;
} values_b;

static const char *const waits[] = {"spin", "yield", "sleep", NULL};
static const struct aqi_setting rows_a[] = {
    {.name = "AQ_SHM_SLOTS",
     .alias = "GASNET_SLOTS",
     .more_aliases = (const char *const[]){"GASNET_RINGS", "GASNET_OLD", NULL},
     .def = "64",
     .doc = "Slots.",
     .min = 2,
     .max = 1024,
     .power_of_two = true,
     AQI_SETTING_IN(COUNT, __typeof__(values_a), slots)},
    {.name = "AQ_WAIT",
     .def = "yield",
     .doc = "How to wait.",
     .choices = waits,
     AQI_SETTING_IN(CHOICE, __typeof__(values_a), wait)},
    {.name = "AQ_NAME", .doc = "A name.", AQI_SETTING_IN(TEXT, __typeof__(values_a), name)},
};
static const struct aqi_setting rows_b[] = {
    {.name = "AQ_RANK",
     .doc = "Rank.",
     .by_launcher = true,
     AQI_SETTING_IN(COUNT, __typeof__(values_b), rank)},
    {.name = "AQ_LIMIT",
     .def = "1M",
     .doc = "Limit.",
     .max = 1 << 30,
     AQI_SETTING_IN(BYTES, __typeof__(values_b), size)},
};

static bool is_word(const char *text)
{
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyz")] == '\0';
}

static struct {
    uint64_t depth, region, keep, way, old;
    const char *word;
} values_c;
static const char *const keeps[] = {"auto", "none", NULL};
static const char *const ways[] = {"messages", "writes", NULL};
static const struct aqi_setting_word zero_words[] = {{"0", "32"}, {NULL, NULL}};
static const struct aqi_setting_word keep_words[] = {AQI_SETTING_WORDS("none", "auto")};
static const struct aqi_setting_word way_words[] = {
    {"GNIDISSEM", "writes"}, {"*", "messages"}, {NULL, NULL}};
static const struct aqi_setting rows_c[] = {
    {.name = "AQ_DEPTH",
     .alias = "GASNET_DEPTH",
     .alias_words = zero_words,
     .clamp = true,
     .def = "4",
     .doc = "Depth.",
     .min = 2,
     .max = 32,
     .power_of_two = true,
     AQI_SETTING_IN(COUNT, __typeof__(values_c), depth)},
    {.name = "AQ_REGION",
     .alias = "GASNET_REGION",
     .alias_unit = "M",
     .def = "128K",
     .doc = "Region.",
     .min = 4096,
     .max = 1 << 30,
     AQI_SETTING_IN(BYTES, __typeof__(values_c), region)},
    {.name = "AQ_KEEP",
     .alias = "GASNET_USE_KEEPING",
     .alias_words = keep_words,
     .words_only = true,
     .def = "auto",
     .doc = "Keep.",
     .choices = keeps,
     AQI_SETTING_IN(CHOICE, __typeof__(values_c), keep)},
    {.name = "AQ_WAY",
     .alias = "GASNET_WAY",
     .alias_words = way_words,
     .def = "messages",
     .doc = "Way.",
     .choices = ways,
     AQI_SETTING_IN(CHOICE, __typeof__(values_c), way)},
    {.name = "AQ_OLD",
     .alias = "GASNET_NEW",
     .old_aliases = (const char *const[]){"GASNET_ANCIENT", NULL},
     .def = "0",
     .doc = "Old.",
     AQI_SETTING_IN(COUNT, __typeof__(values_c), old)},
    {.name = "AQ_WORD",
     .alias = "GASNET_WORD",
     .check = is_word,
     .legal = "a word",
     .def = "",
     .doc = "Word.",
     AQI_SETTING_IN(TEXT, __typeof__(values_c), word)},
};
static const char *const others[] = {"GASNET_FREEZE", "GASNET_TEST_*", "GASNET_DEPTHS", NULL};
static const char *const gone_c[] = {"AQ_WORDY", "AQ_WAITING", NULL};
static struct aqi_settings_table table_c = {.group = "c",
                                            .rows = rows_c,
                                            .count = AQI_COUNT_OF(rows_c),
                                            .values = &values_c,
                                            .gone = gone_c};
static struct aqi_settings_table table_a = {
    .group = "a", .rows = rows_a, .count = AQI_COUNT_OF(rows_a), .values = &values_a};
static struct aqi_settings_table table_b = {
    .group = "b", .rows = rows_b, .count = AQI_COUNT_OF(rows_b), .values = &values_b};
static struct aqi_settings_table *const tables[] = {&table_a, &table_b, &table_c};

/* Remove the variables of the user that runs the test. */
static int clean_environment(void **state)
{
    (void)aqi_fail_quiet(AQ_OK, "%s", "");
    return clearenv();
}

static aq_status load(struct capture *capture)
{
    capture_start(capture);
    aq_status status = aqi_settings_load(tables, AQI_COUNT_OF(tables));
    aqi_settings_warn(tables, AQI_COUNT_OF(tables), others);
    capture_end(capture);
    return status;
}

static void defaults_without_variables(void **state)
{
    struct capture capture;
    values_b.rank = 99;
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(capture.text, "");
    assert_int_equal(values_a.slots, 64);
    assert_int_equal(values_a.wait, 1);
    assert_null(values_a.name);
    assert_int_equal(values_b.rank, 0);
    assert_int_equal(values_b.size, 1 << 20);
    for (size_t i = 0; i < AQI_COUNT_OF(rows_a); i++)
        assert_string_equal(aqi_setting_origin(&table_a, i), "default");
}

static void variables_win_and_are_named(void **state)
{
    struct capture capture;
    char text[32];
    setenv("AQ_WAIT", "sleep", 1);
    setenv("AQ_NAME", "x y", 1);
    setenv("AQ_RANK", "3", 1);
    setenv("AQ_LIMIT", "64K", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(capture.text, "");
    assert_int_equal(values_a.wait, 2);
    assert_string_equal(values_a.name, "x y");
    assert_int_equal(values_b.rank, 3);
    assert_int_equal(values_b.size, 65536);
    assert_string_equal(aqi_setting_origin(&table_a, 1), "AQ_WAIT");
    assert_string_equal(aqi_setting_origin(&table_a, 0), "default");
    aqi_setting_format(&table_a, 1, text, sizeof(text));
    assert_string_equal(text, "sleep");
    aqi_setting_format(&table_b, 1, text, sizeof(text));
    assert_string_equal(text, "64K");

    /* When read again, removed values are gone, and texts outlive their variable. */
    const char *name = values_a.name;
    assert_int_equal(clean_environment(NULL), 0);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(values_a.wait, 1);
    assert_string_equal(aqi_setting_origin(&table_a, 1), "default");
    assert_string_equal(name, "x y");
}

static void alias_counts_after_the_name(void **state)
{
    struct capture capture;
    setenv("GASNET_SLOTS", "128", 1);
    setenv("GASNET_SOMETHING_ELSE", "1", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(capture.text, "");
    assert_int_equal(values_a.slots, 128);
    assert_string_equal(aqi_setting_origin(&table_a, 0), "GASNET_SLOTS");
    assert_string_equal(aqi_setting_variable("AQ_SHM_SLOTS"), "GASNET_SLOTS");
    setenv("AQ_SHM_SLOTS", "256", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(values_a.slots, 256);
    assert_string_equal(aqi_setting_origin(&table_a, 0), "AQ_SHM_SLOTS");
}

static void empty_alias_is_none(void **state)
{
    struct capture capture;
    setenv("GASNET_SLOTS", "", 1);
    setenv("GASNET_RINGS", "32", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(capture.text, "");
    assert_int_equal(values_a.slots, 32);
    unsetenv("GASNET_RINGS");
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(aqi_setting_origin(&table_a, 0), "default");
}

static void aliases_count_in_their_order(void **state)
{
    struct capture capture;
    setenv("GASNET_OLD", "8", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(values_a.slots, 8);
    assert_string_equal(aqi_setting_origin(&table_a, 0), "GASNET_OLD");
    setenv("GASNET_RINGS", "16", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(values_a.slots, 16);
    assert_string_equal(aqi_setting_origin(&table_a, 0), "GASNET_RINGS");
    setenv("GASNET_SLOTS", "32", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(values_a.slots, 32);
    assert_null(aqi_setting_alias(&rows_a[0], 3));
    assert_null(aqi_setting_alias(&rows_a[1], 0));
    unsetenv("GASNET_SLOTS");
    setenv("GASNET_RINGS", "17", 1);
    assert_int_equal(load(&capture), AQ_ESETTING);
    assert_non_null(strstr(aq_error_message(), "GASNET_RINGS=\"17\""));
}

static void bad_value_keeps_default_and_sets_the_rest(void **state)
{
    struct capture capture;
    setenv("AQ_SHM_SLOTS", "65", 1);
    setenv("AQ_WAIT", "spin", 1);
    setenv("AQ_LIMIT", "-1", 1);
    setenv("AQ_NAME", "still", 1);
    assert_int_equal(load(&capture), AQ_ESETTING);
    assert_int_equal(values_a.slots, 64);
    assert_string_equal(aqi_setting_origin(&table_a, 0), "default");
    assert_int_equal(values_a.wait, 0);
    assert_string_equal(values_a.name, "still");
    assert_int_equal(values_b.size, 1 << 20);
    assert_string_equal(aq_error_message(),
                        "AQ_SHM_SLOTS=\"65\" is not valid: give a plain number, 2 to 1024, a power "
                        "of two; the default is 64");
    /* Both are shown, so that one run is enough to find them. */
    assert_non_null(strstr(capture.text, "AQ_SHM_SLOTS=\"65\""));
    assert_non_null(strstr(capture.text, "AQ_LIMIT=\"-1\""));
}

static void bad_alias_is_named_as_such(void **state)
{
    struct capture capture;
    setenv("GASNET_SLOTS", "?", 1);
    assert_int_equal(load(&capture), AQ_ESETTING);
    assert_memory_equal(aq_error_message(), "GASNET_SLOTS=\"?\"", 16);
    assert_int_equal(values_a.slots, 64);
}

/* One warning per job names the variable, the valid range and the value used. */
static void numbers_of_an_alias_are_adjusted(void **state)
{
    static const struct {
        const char *text;
        uint64_t depth;
        const char *warning;
    } rows[] = {
        {"8", 8, NULL},
        {"0", 32, NULL},
        {"9", 8, "GASNET_DEPTH=9 is"},
        {"64", 32, "=64 "},
        {"1", 2, "GASNET_DEPTH=1 is not supported (valid: 2 to 32, a power of two): using 2"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        struct capture capture;
        setenv("GASNET_DEPTH", rows[i].text, 1);
        assert_int_equal(load(&capture), AQ_OK);
        assert_int_equal(values_c.depth, rows[i].depth);
        if (rows[i].warning == NULL)
            assert_string_equal(capture.text, "");
        else
            assert_non_null(strstr(capture.text, rows[i].warning));
        assert_int_equal(load(&capture), AQ_OK);
        assert_string_equal(capture.text, "");
    }
    struct capture capture;
    setenv("GASNET_DEPTH", "many", 1);
    assert_int_equal(load(&capture), AQ_ESETTING);
    assert_non_null(strstr(aq_error_message(), "GASNET_DEPTH=\"many\""));
    setenv("AQ_DEPTH", "64", 1);
    assert_int_equal(load(&capture), AQ_ESETTING);
    assert_non_null(strstr(aq_error_message(), "AQ_DEPTH=\"64\""));
}

static void an_alias_has_its_own_unit_and_words(void **state)
{
    struct capture capture;
    setenv("GASNET_REGION", "2", 1);
    setenv("GASNET_USE_KEEPING", "No", 1);
    setenv("GASNET_WAY", "gnidissem", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(capture.text, "");
    assert_int_equal(values_c.region, 2 << 20);
    assert_int_equal(values_c.keep, 1);
    assert_int_equal(values_c.way, 1);
    setenv("GASNET_REGION", "12K", 1);
    setenv("GASNET_WAY", "PSHM", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(values_c.region, 12 << 10);
    assert_int_equal(values_c.way, 0);
    assert_non_null(strstr(capture.text, "GASNET_WAY=PSHM is not supported (valid: "
                                         "GNIDISSEM): using messages"));
    setenv("AQ_REGION", "8192", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(values_c.region, 8192);
    setenv("GASNET_USE_KEEPING", "auto", 1);
    assert_int_equal(load(&capture), AQ_ESETTING);
    assert_non_null(
        strstr(aq_error_message(), "GASNET_USE_KEEPING=\"auto\" is not valid: give one of 0 no"));
}

static void texts_are_checked(void **state)
{
    struct capture capture;
    setenv("GASNET_WORD", "seven", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(values_c.word, "seven");
    assert_string_equal(aqi_setting_variable("AQ_WORD"), "GASNET_WORD");
    assert_string_equal(aqi_setting_variable("AQ_DEPTH"), "AQ_DEPTH");
    assert_string_equal(aqi_setting_variable("AQ_OF_NO_TABLE"), "AQ_OF_NO_TABLE");
    setenv("GASNET_WORD", "7", 1);
    assert_int_equal(load(&capture), AQ_ESETTING);
    assert_string_equal(aq_error_message(), "GASNET_WORD=\"7\" is not valid: give a word");
    assert_string_equal(values_c.word, "");
}

static void old_aliases_hold_with_a_warning(void **state)
{
    struct capture capture;
    setenv("GASNET_ANCIENT", "7", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(values_c.old, 7);
    assert_non_null(strstr(capture.text, "GASNET_ANCIENT is an old name of this setting: set "
                                         "GASNET_NEW instead"));
    setenv("GASNET_NEW", "8", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(values_c.old, 8);
    assert_string_equal(capture.text, "");
}

/* No warning about names that are close to none: they may belong to other libraries. */
static void names_near_to_an_alias_are_answered(void **state)
{
    struct capture capture;
    setenv("GASNET_DEPHT", "1", 1);
    setenv("GASNET_FREEEZE", "1", 1);
    setenv("GASNET_FREEZE", "1", 1);
    setenv("GASNET_TEST_DEPTH", "1", 1);
    setenv("GASNET_DEPTHS", "1", 1); /* a known name that is close to another one */
    setenv("GASNET_QUIETLY", "1", 1);
    setenv("GASNET_OLDE", "1", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_non_null(
        strstr(capture.text,
               "GASNET_DEPHT is not a setting and is ignored: did you mean GASNET_DEPTH?\n"));
    assert_non_null(strstr(capture.text, "did you mean GASNET_FREEZE?\n"));
    assert_non_null(strstr(capture.text, "did you mean GASNET_OLD?\n"));
    assert_null(strstr(capture.text, "GASNET_TEST"));
    assert_null(strstr(capture.text, "GASNET_DEPTHS"));
    assert_null(strstr(capture.text, "GASNET_QUIETLY"));
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(capture.text, "");
}

static void unknown_names_are_answered_once(void **state)
{
    struct capture capture;
    setenv("AQ_WIAT", "spin", 1);
    setenv("AQ_ZZZZZZZZZZZZZZ", "1", 1);
    setenv("AQUA", "1", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_non_null(
        strstr(capture.text, "AQ_WIAT is not a setting and is ignored: did you mean AQ_WAIT?\n"));
    assert_non_null(
        strstr(capture.text, "AQ_ZZZZZZZZZZZZZZ is not a setting and is ignored: aqinfo"));
    assert_null(strstr(capture.text, "AQUA"));
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(capture.text, "");
    setenv("AQ_WAITS", "1", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_non_null(strstr(capture.text, "AQ_WAITS"));
    assert_null(strstr(capture.text, "AQ_WIAT"));
}

static void former_names_are_reported_as_such(void **state)
{
    struct capture capture;
    setenv("AQ_WAITING", "1", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_non_null(strstr(capture.text, "AQ_WAITING is no longer a setting and is ignored: "));
    assert_null(strstr(capture.text, "maybe"));
    assert_int_equal(load(&capture), AQ_OK);
    assert_string_equal(capture.text, "");
}

static void nearest_name(void **state)
{
    static const struct {
        const char *name, *nearest;
    } cases[] = {
        {"AQ_WAI", "AQ_WAIT"},  {"AQ_WAITT", "AQ_WAIT"}, {"AQ_AWIT", "AQ_WAIT"},
        {"AQ_wait", "AQ_WAIT"}, {"AQ_SLOTS", NULL},      {"AQ_SHMSLOT", "AQ_SHM_SLOTS"},
        {"AQ_RANKS", NULL},     {"AQ_XXXXXXX", NULL},    {"AQ_LIMITS", "AQ_LIMIT"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        const char *nearest = aqi_settings_nearest(tables, AQI_COUNT_OF(tables), cases[i].name);
        if (cases[i].nearest == NULL)
            assert_null(nearest);
        else
            assert_string_equal(nearest, cases[i].nearest);
    }
}

static void values_that_were_set_are_kept(void **state)
{
    struct capture capture;
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(aqi_setting_spare(&table_b, "AQ_LIMIT", false, 7), 1 << 20);
    assert_int_equal(aqi_setting_spare(&table_b, "AQ_LIMIT", true, 7), 7);
    setenv("AQ_LIMIT", "1M", 1);
    assert_int_equal(load(&capture), AQ_OK);
    assert_int_equal(aqi_setting_spare(&table_b, "AQ_LIMIT", true, 7), 1 << 20);
}

static void very_long_names_and_values(void **state)
{
    struct capture capture;
    char text[2000];
    memset(text, 'A', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memcpy(text, "AQ_", 3);
    setenv(text, "1", 1);
    setenv("AQ_WAIT", text, 1);
    assert_int_equal(load(&capture), AQ_ESETTING);
    assert_int_equal(values_a.wait, 1);
    assert_true(strlen(aq_error_message()) < 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults_without_variables, clean_environment),
        cmocka_unit_test_setup(variables_win_and_are_named, clean_environment),
        cmocka_unit_test_setup(alias_counts_after_the_name, clean_environment),
        cmocka_unit_test_setup(empty_alias_is_none, clean_environment),
        cmocka_unit_test_setup(aliases_count_in_their_order, clean_environment),
        cmocka_unit_test_setup(bad_value_keeps_default_and_sets_the_rest, clean_environment),
        cmocka_unit_test_setup(bad_alias_is_named_as_such, clean_environment),
        cmocka_unit_test_setup(numbers_of_an_alias_are_adjusted, clean_environment),
        cmocka_unit_test_setup(an_alias_has_its_own_unit_and_words, clean_environment),
        cmocka_unit_test_setup(texts_are_checked, clean_environment),
        cmocka_unit_test_setup(old_aliases_hold_with_a_warning, clean_environment),
        cmocka_unit_test_setup(names_near_to_an_alias_are_answered, clean_environment),
        cmocka_unit_test_setup(unknown_names_are_answered_once, clean_environment),
        cmocka_unit_test_setup(former_names_are_reported_as_such, clean_environment),
        cmocka_unit_test_setup(nearest_name, clean_environment),
        cmocka_unit_test_setup(values_that_were_set_are_kept, clean_environment),
        cmocka_unit_test_setup(very_long_names_and_values, clean_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
