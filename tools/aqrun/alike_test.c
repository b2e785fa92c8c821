/* Tests alike.c: how lines written by many ranks are printed, and when. */
#include "alike.h"

#include "base/capture_test.h"
#include <stdio.h>
#include <string.h>

#define MS 1000000ull

static char said[1 << 16];

static void take(const char *line)
{
    strcat(strcat(said, line), "\n");
}

static void line_arrives(const char *line, uint64_t at_ms)
{
    alike_line(line, strlen(line), at_ms * MS);
}

static void expect(const char *text)
{
    assert_string_equal(said, text);
    said[0] = '\0';
}

static int begin(void **state)
{
    said[0] = '\0';
    alike_open(take);
    return 0;
}

static int end(void **state)
{
    alike_close();
    return 0;
}

static void once_with_a_count(void **state)
{
    line_arrives("aq[4] udp: no way", 1000);
    expect("aq[4] udp: no way\n"); /* at once */
    line_arrives("aq[2] udp: no way", 1001);
    line_arrives("aq[3] udp: no way", 1100);
    line_arrives("aq[4] udp: another", 1100);
    line_arrives("aq[9] udp: no way", 1200);
    expect("aq[4] udp: another\n");
    assert_int_equal(alike_tick(1300 * MS), 1501 * MS);
    expect("");
    assert_true(alike_tick(1501 * MS) == UINT64_MAX);
    expect("aq[2-3,9] udp: the same as rank 4 (3 other ranks): \"no way\"\n");
    line_arrives("aq[1] udp: no way", 9000); /* a late one */
    alike_close();
    expect("aq[1] udp: the same as rank 4 (1 other rank): \"no way\"\n");
}

static void repetitions_by_one_rank_are_printed(void **state)
{
    line_arrives("aq[0] udp: no way", 0);
    line_arrives("aq[1] udp: no way", 1);
    line_arrives("aq[0] udp: no way", 2);
    expect("aq[0] udp: no way\naq[1] udp: the same as rank 0 (1 other rank): \"no way\"\n"
           "aq[0] udp: no way\n");
    line_arrives("aq[1] udp: no way", 3);
    line_arrives("aq[1] udp: no way", 4);
    expect("aq[1] udp: the same as rank 0 (1 other rank): \"no way\"\naq[1] udp: no way\n");
}

static void long_texts_are_truncated(void **state)
{
    char line[400], text[300];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (unsigned rank = 0; rank < 2; rank++) {
        snprintf(line, sizeof(line), "aq[%u] core: %s", rank, text);
        line_arrives(line, 0);
    }
    snprintf(line, sizeof(line), "aq[0] core: %s\n", text);
    expect(line);
    alike_close();
    snprintf(line, sizeof(line), "aq[1] core: the same as rank 0 (1 other rank): \"%.70s...\"\n",
             text);
    expect(line);
}

/* With more texts than are kept, each is still printed, and each rank listed. */
static void many(void **state)
{
    char line[64], wanted[64];
    for (unsigned rank = 0; rank < 3; rank++)
        for (unsigned i = 0; i < 100; i++) {
            snprintf(line, sizeof(line), "aq[%u] core: text %u", rank, i);
            line_arrives(line, 0);
            assert_non_null(strstr(said, line));
        }
    said[0] = '\0';
    for (unsigned rank = 0; rank < 4000; rank += 2) {
        snprintf(line, sizeof(line), "aq[%u] core: even", rank);
        line_arrives(line, 0);
    }
    alike_close();
    snprintf(wanted, sizeof(wanted), "(1999 other ranks): \"even\"\n");
    assert_non_null(strstr(said, wanted));
    assert_non_null(strstr(said, "aq[2,4,6,"));
    assert_non_null(strstr(said, ",...] core"));
}

static void hosts(void **state)
{
    line_arrives("aqrun: host n1: not reached (no n1); try ssh n1; ending the job", 0);
    line_arrives("aqrun: host n3: not reached (no n3); try ssh n3", 1);
    line_arrives("aqrun: host n4: something else", 2);
    line_arrives("aqrun: host n2: not reached (no n2); try ssh n2", 3);
    expect("aqrun: host n1: not reached (no n1); try ssh n1; ending the job\n"
           "aqrun: host n4: something else\n");
    alike_close();
    expect(
        "aqrun: hosts n2,n3: the same as host n1 (2 other hosts): \"not reached (no n1); try ssh "
        "n1; ending the job\"\n");
    line_arrives("aqrun: host n1: ", 0);
    line_arrives("aqrun: host n1", 0);
    expect("aqrun: host n1: \naqrun: host n1\n");
}

static void other_lines_are_printed(void **state)
{
    static const char *const lines[] = {"aq[x] y: z", "", "aq[1]", "hello"};
    for (size_t i = 0; i < AQI_COUNT_OF(lines); i++)
        for (unsigned k = 0; k < 2; k++) {
            char wanted[64];
            line_arrives(lines[i], 0);
            snprintf(wanted, sizeof(wanted), "%s\n", lines[i]);
            expect(wanted);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(once_with_a_count, begin, end),
        cmocka_unit_test_setup_teardown(repetitions_by_one_rank_are_printed, begin, end),
        cmocka_unit_test_setup_teardown(long_texts_are_truncated, begin, end),
        cmocka_unit_test_setup_teardown(many, begin, end),
        cmocka_unit_test_setup_teardown(hosts, begin, end),
        cmocka_unit_test_setup_teardown(other_lines_are_printed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
