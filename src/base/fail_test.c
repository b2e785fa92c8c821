/* The error trail: message, log line, context, one per thread. */
#include "base/fail.h"

#include "base/capture_test.h"
#include "base/log.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

static int forget(void **state)
{
    (void)aqi_fail_quiet(AQ_OK, "%s", "");
    return 0;
}

static void nothing_failed_yet(void **state)
{
    assert_string_equal(aq_error_message(), "");
}

static void records_logs_and_returns(void **state)
{
    struct capture capture;
    capture_start(&capture);
    errno = EDOM;
    aq_status status = aqi_fail(AQ_ERANK, "core", "rank %d is not in 0..%d", 7, 3);
    int errno_after = errno;
    const char *logged = capture_end(&capture);
    assert_int_equal(status, AQ_ERANK);
    assert_int_equal(errno_after, EDOM);
    assert_string_equal(aq_error_message(), "rank 7 is not in 0..3");
    assert_non_null(strstr(logged, " core: rank 7 is not in 0..3\n"));
}

static void errno_is_appended(void **state)
{
    struct capture capture;
    capture_start(&capture);
    aq_status status = aqi_fail_errno(AQ_ESYS, ENOENT, "job", "opening %s", "x");
    capture_end(&capture);
    assert_int_equal(status, AQ_ESYS);
    assert_string_equal(aq_error_message(), "opening x: No such file or directory");
}

/* Callers may quote the old message in the new one. */
static void old_message_may_be_an_argument(void **state)
{
    struct capture capture;
    capture_start(&capture);
    (void)aqi_fail(AQ_ESYS, "base", "first");
    (void)aqi_fail(AQ_ESYS, "base", "second after %s", aq_error_message());
    capture_end(&capture);
    assert_string_equal(aq_error_message(), "second after first");
}

static void long_text_is_cut(void **state)
{
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct capture capture;
    capture_start(&capture);
    (void)aqi_fail(AQ_ESYS, "base", "%s", text);
    (void)aqi_fail_errno(AQ_ESYS, ENOENT, "base", "%s", text);
    capture_end(&capture);
    size_t len = strlen(aq_error_message());
    assert_true(len > 200 && len < sizeof(text));
}

static void control_characters_become_spaces(void **state)
{
    struct capture capture;
    capture_start(&capture);
    (void)aqi_fail(AQ_ESYS, "base", "a\nb\x1b[2Jc");
    capture_end(&capture);
    assert_string_equal(aq_error_message(), "a b [2Jc");
}

static void *fail_elsewhere(void *arg)
{
    (void)aqi_fail(AQ_ESYS, "base", "elsewhere");
    return strcmp(aq_error_message(), "elsewhere") == 0 ? arg : NULL;
}

static void each_thread_has_its_message(void **state)
{
    struct capture capture;
    capture_start(&capture);
    (void)aqi_fail(AQ_ESYS, "base", "here");
    pthread_t thread;
    int mark;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &mark), 0);
    pthread_join(thread, &result);
    capture_end(&capture);
    assert_ptr_equal(result, &mark);
    assert_string_equal(aq_error_message(), "here");
}

static void logging_can_be_switched_off(void **state)
{
    struct capture capture;
    capture_start(&capture);
    aq_error_log(0);
    assert_int_equal(aqi_fail(AQ_ESYS, "base", "unheard"), AQ_ESYS);
    assert_int_equal(aqi_fail_errno(AQ_ESYS, ENOENT, "base", "unheard, too"), AQ_ESYS);
    aq_error_log(1);
    capture_end(&capture);
    assert_string_equal(capture.text, "");
    assert_string_equal(aq_error_message(), "unheard, too: No such file or directory");
}

static void expected_losses_are_recorded_only(void **state)
{
    struct capture capture;
    capture_start(&capture);
    aqi_fail_expect_losses(true);
    assert_int_equal(aqi_fail(AQ_EPEER, "core", "rank 1 is dead"), AQ_EPEER);
    aqi_fail(AQ_ERANK, "core", "another failure");
    aqi_fail_expect_losses(false);
    capture_end(&capture);
    assert_null(strstr(capture.text, "rank 1 is dead"));
    assert_non_null(strstr(capture.text, "another failure"));
    assert_string_equal(aq_error_message(), "another failure");
}

static void a_reason_is_false_and_fits(void **state)
{
    char why[8];
    assert_false(aqi_explain(why, sizeof(why), "-n %d", 70));
    assert_string_equal(why, "-n 70");
    assert_false(aqi_explain(why, sizeof(why), "no such %s", "host"));
    assert_string_equal(why, "no such");
}

static void appended_text_is_cut_off(void **state)
{
    char text[8] = "";
    aqi_append(text, sizeof(text), "%s%d", "ab", 1);
    assert_string_equal(text, "ab1");
    aqi_append(text, sizeof(text), "%s", "cdefgh");
    assert_string_equal(text, "ab1cdef");
    aqi_append(text, sizeof(text), "x");
    assert_string_equal(text, "ab1cdef");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_failed_yet, forget),
        cmocka_unit_test_setup(records_logs_and_returns, forget),
        cmocka_unit_test_setup(errno_is_appended, forget),
        cmocka_unit_test_setup(old_message_may_be_an_argument, forget),
        cmocka_unit_test_setup(long_text_is_cut, forget),
        cmocka_unit_test_setup(control_characters_become_spaces, forget),
        cmocka_unit_test_setup(logging_can_be_switched_off, forget),
        cmocka_unit_test_setup(expected_losses_are_recorded_only, forget),
        cmocka_unit_test_setup(each_thread_has_its_message, forget),
        cmocka_unit_test(a_reason_is_false_and_fits),
        cmocka_unit_test(appended_text_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
