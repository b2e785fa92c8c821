/* Tests lines.c: input in pieces becomes whole lines, with aligned times. */
#include "job/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char got[4 * AQI_LINES_MAX];
static size_t used;

static void keep(void *arg, const char *bytes, size_t len)
{
    assert_true(len != 0 && bytes[len - 1] == '\n');
    assert_true(used + len < sizeof(got));
    memcpy(got + used, bytes, len);
    used += len;
    got[used] = '\0';
}

/* Clocks that differ by this much, with an error bound of 10 ns. */
static struct aqi_align apart(int64_t ns)
{
    struct aqi_align align = {0};
    for (uint64_t at = 1000000000; !aqi_align_ready(&align); at += 1000)
        aqi_align_add(&align, at, at + 10 + (uint64_t)ns, at + 10 + (uint64_t)ns, at + 20, 0);
    return align;
}

static const struct {
    const char *in, *out;
} cases[] = {
    {"rank 0: put 3 operations\n", "rank 0: put 3 operations\n"},
    {"[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1},\n",
     "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1},\n"},
    {"{\"name\":\"x\",\"ts\":1.500,\"dur\":2.000,\"pid\":0},\n",
     "{\"name\":\"x\",\"ts\":5000001.500,\"dur\":2.000,\"pid\":0},\n"},
    {"{\"name\":\"end\",\"ts\":7.000,\"pid\":0}\n]\n", /* the last line of a file */
     "{\"name\":\"end\",\"ts\":5000007.000,\"pid\":0},\n"},
    {"aq[3.0] 2.250 us am x peer 1 took 1.000 us\n",
     "aq[3.0] 5000002.250 us am x peer 1 took 1.000 us\n"},
    {"aq[3.0] 2.250 us am x peer 1 bytes 0\n", "aq[3.0] 5000002.250 us am x peer 1 bytes 0\n"},
    {"{\"ts\":oops},\n", "{\"ts\":oops},\n"},
    {"aq[3.0] \n", "aq[3.0] \n"},
    {"\n\n[\n", ""},
};

static void test_any_pieces(void **state)
{
    const struct aqi_align align = apart(5000000000);
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++)
        for (size_t piece = 1; piece <= strlen(cases[i].in); piece++) {
            struct aqi_lines lines = {0};
            used = 0;
            got[0] = '\0';
            for (size_t at = 0; at < strlen(cases[i].in); at += piece)
                aqi_lines_feed(&lines, &align, cases[i].in + at,
                               aqi_min(piece, strlen(cases[i].in) - at), keep, NULL);
            assert_string_equal(got, cases[i].out);
            aqi_lines_free(&lines);
        }
}

static void test_own_clock(void **state)
{
    static const char event[] = "{\"name\":\"x\",\"ts\":1.500,\"pid\":0},\n";
    struct aqi_lines lines = {0};
    used = 0;
    aqi_lines_feed(&lines, NULL, event, strlen(event), keep, NULL);
    assert_string_equal(got, event);
    aqi_lines_free(&lines);
}

/* A killed rank leaves half a line, which is not shown. A line that is too long is left out. */
static void test_partial_and_long_lines(void **state)
{
    static char huge[AQI_LINES_MAX + 10];
    struct aqi_lines lines = {0};
    memset(huge, 'x', sizeof(huge));
    used = 0;
    aqi_lines_feed(&lines, NULL, "first\n", 6, keep, NULL);
    aqi_lines_feed(&lines, NULL, huge, sizeof(huge), keep, NULL);
    aqi_lines_feed(&lines, NULL, "\nsecond\nthi", 11, keep, NULL);
    assert_string_equal(got, "first\nsecond\n");
    aqi_lines_free(&lines);
}

static void test_clock(void **state)
{
    const struct aqi_align align = apart(-2000000), unknown = {0};
    char bytes[300];
    struct aqi_safe_text line = {.text = bytes, .room = sizeof(bytes) - 1};
    aqi_lines_clock(&line, AQI_LINES_PLAIN, "n\"2", 7, &align, 1000000000);
    bytes[line.used] = '\0';
    assert_string_equal(bytes, "clock of host n?2: offset -2000.000 us, error 0.011 us\n");
    line.used = 0;
    aqi_lines_clock(&line, AQI_LINES_TEXT, "n", 7, &unknown, 1000);
    bytes[line.used] = '\0';
    assert_string_equal(bytes,
                        "aq[7.0] 1.000 us job clock of host n: offset 0.000 us, error unknown\n");
    line.used = 0;
    aqi_lines_clock(&line, AQI_LINES_JSON, "n", 7, &align, 1000000000);
    bytes[line.used] = '\0';
    assert_string_equal(bytes,
                        "{\"name\":\"clock of host n: offset -2000.000 us, error 0.011 us\","
                        "\"cat\":\"job\",\"ph\":\"i\",\"s\":\"p\",\"ts\":998000.000,\"pid\":7,"
                        "\"tid\":0},\n");
    assert_int_equal(aqi_lines_kind(bytes, line.used), AQI_LINES_JSON);
    assert_int_equal(aqi_lines_kind("aq[7.0] ", 8), AQI_LINES_TEXT);
    assert_int_equal(aqi_lines_kind("rank 0:", 7), AQI_LINES_PLAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_pieces),
        cmocka_unit_test(test_own_clock),
        cmocka_unit_test(test_partial_and_long_lines),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
