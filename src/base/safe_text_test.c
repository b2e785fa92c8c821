/* Text without stdio: numbers, JSON, truncation, and the names of files. */
#include "base/safe_text.h"

#include "base/capture_test.h"
#include "base/fail.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct aqi_safe_text text;
static char room[64];

static int begin(void **state)
{
    memset(room, 0, sizeof(room));
    text = (struct aqi_safe_text){.text = room, .room = sizeof(room) - 1};
    return 0;
}

static void paths_keep_their_end(void **state)
{
    static const struct {
        const char *path, *expected;
        size_t room;
    } rows[] = {{"./program", "./program", 10},
                {"/home/of/program", ".../of/program", 16},
                {"/home/of/program", ".../program", 14},
                {"/home/of/program", "/home/of/program", 17},
                {"/home/of/some body/program", ".../some body/program", 24},
                {"/home/of/a_rather_long_name", "...long_name", 13},
                {"a_rather_long_name", "...g_name", 10},
                {"/home/of/a_folder/", "...older/", 10},
                {"/home/\u00fc\u00fc\u00fc\u00fc", "...\u00fc\u00fc\u00fc", 11},
                {"", "", 8}};
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        memset(room, 0x5a, sizeof(room));
        assert_string_equal(aqi_safe_path(rows[i].path, rows[i].room, room), rows[i].expected);
        assert_int_equal(room[rows[i].room], 0x5a);
    }
}

static void numbers(void **state)
{
    aqi_safe_number(&text, "", 0);
    aqi_safe_number(&text, " ", UINT64_MAX);
    aqi_safe_thousandths(&text, " ", 7);
    aqi_safe_thousandths(&text, " ", 1234567);
    assert_string_equal(room, "0 18446744073709551615 0.007 1234.567");
}

static void json_stays_json(void **state)
{
    aqi_safe_quoted(&text, "", "a\"b\\c\nd\x80", 100);
    aqi_safe_quoted(&text, "\"", "123456", 3);
    assert_string_equal(room, "a?b?c?d?\"123");
}

static void text_that_does_not_fit_is_cut_off(void **state)
{
    for (int i = 0; i < 20; i++)
        aqi_safe_add(&text, "1234567");
    aqi_safe_number(&text, "", 99);
    assert_int_equal(text.used, sizeof(room) - 1);
    assert_int_equal(strlen(room), sizeof(room) - 1);
}

/* Check that the pattern names the file `want` for this rank, and remove the file. */
static void names(const char *pattern, uint32_t rank, const char *want)
{
    int fd;
    assert_int_equal(aqi_safe_open("AQ_TRACE_FILE", pattern, rank, &fd), AQ_OK);
    close(fd);
    assert_int_equal(unlink(want), 0);
}

static void a_file_for_each_rank(void **state)
{
    char folder[] = "/tmp/aq-safe-XXXXXX", pattern[64], want[64];
    assert_non_null(mkdtemp(folder));
    snprintf(pattern, sizeof(pattern), "%s/a.%%.json", folder);
    snprintf(want, sizeof(want), "%s/a.12.json", folder);
    names(pattern, 12, want);
    snprintf(pattern, sizeof(pattern), "%s/a", folder);
    names(pattern, 3, pattern);
    assert_int_equal(rmdir(folder), 0);
}

static void errors_name_setting_and_file(void **state)
{
    struct capture capture;
    char longest[PATH_MAX + 2];
    int fd = -7;
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    capture_start(&capture);
    assert_int_equal(aqi_safe_open("AQ_STATS_FILE", "/nowhere/%", 5, &fd), AQ_ESETTING);
    assert_non_null(strstr(aq_error_message(), "AQ_STATS_FILE"));
    assert_non_null(strstr(aq_error_message(), "/nowhere/5"));
    assert_int_equal(aqi_safe_open("AQ_STATS_FILE", longest, 5, &fd), AQ_ESETTING);
    capture_end(&capture);
    assert_int_equal(fd, -7);
    assert_int_equal(aqi_safe_open("AQ_STATS_FILE", "stderr", 5, &fd), AQ_OK);
    assert_int_equal(fd, STDERR_FILENO);
}

static void writes_all_of_it(void **state)
{
    int fd = memfd_create("safe", MFD_CLOEXEC);
    char got[8] = "";
    aqi_safe_add(&text, "whole");
    assert_true(aqi_safe_write(&text, fd));
    assert_int_equal(text.used, 0);
    assert_int_equal(pread(fd, got, sizeof(got), 0), 5);
    assert_string_equal(got, "whole");
    close(fd);
    aqi_safe_add(&text, "lost");
    assert_false(aqi_safe_write(&text, fd));
}

/* No partial line remains, and no signal is raised, which would kill the process. */
static void an_incomplete_line_is_removed(void **state)
{
    struct rlimit limit, small;
    struct capture capture;
    char got[64] = "";
    FILE *file = tmpfile();
    assert_non_null(file);
    int fd = fileno(file);
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){.rlim_cur = 12, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    aqi_safe_add(&text, "fits\n");
    bool first = aqi_safe_write(&text, fd);
    aqi_safe_add(&text, "does not\n");
    bool second = aqi_safe_write(&text, fd);
    int err = errno;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(first && !second);
    assert_int_equal(err, EFBIG);
    assert_int_equal(pread(fd, got, sizeof(got), 0), 5);
    assert_string_equal(got, "fits\n");
    capture_start(&capture);
    errno = err;
    aqi_safe_lost("AQ_STATS_FILE");
    errno = EXDEV;
    aqi_safe_lost("AQ_TRACE_FILE");
    assert_int_equal(errno, EXDEV);
    capture_end(&capture);
    assert_non_null(strstr(capture.text, "AQ_STATS_FILE: the file is incomplete from here on: "
                                         "it has reached the limit on file sizes (ulimit -f)\n"));
    assert_non_null(strstr(capture.text, "AQ_TRACE_FILE: the file is incomplete from here on: "
                                         "error 18\n"));
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(numbers, begin),
        cmocka_unit_test_setup(paths_keep_their_end, begin),
        cmocka_unit_test_setup(json_stays_json, begin),
        cmocka_unit_test_setup(text_that_does_not_fit_is_cut_off, begin),
        cmocka_unit_test_setup(a_file_for_each_rank, begin),
        cmocka_unit_test_setup(errors_name_setting_and_file, begin),
        cmocka_unit_test_setup(writes_all_of_it, begin),
        cmocka_unit_test_setup(an_incomplete_line_is_removed, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
