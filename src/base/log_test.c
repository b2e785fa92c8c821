/* Levels per folder, the form of a line, and one write per line. */
#include "base/log.h"

#include "base/capture_test.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static const char *const folders[] = {"base",  "transport", "loop", "shm",   "fault",
                                      "core",  "job",       "lib",  "tools", "front",
                                      "dgram", "reg",       "udp",  "ibv",   "ofi"};

static int default_levels(void **state)
{
    return aqi_log_configure("warn");
}

static void one_level_for_all(void **state)
{
    assert_int_equal(aqi_log_configure("info"), AQ_OK);
    for (size_t i = 0; i < AQI_COUNT_OF(folders); i++) {
        assert_true(aqi_log_enabled(AQI_LOG_INFO, folders[i]));
        assert_false(aqi_log_enabled(AQI_LOG_DEBUG, folders[i]));
    }
}

static void every_folder_has_its_own(void **state)
{
    for (size_t i = 0; i < AQI_COUNT_OF(folders); i++) {
        char spec[64];
        snprintf(spec, sizeof(spec), "error,%s=trace", folders[i]);
        assert_int_equal(aqi_log_configure(spec), AQ_OK);
        for (size_t j = 0; j < AQI_COUNT_OF(folders); j++) {
            assert_int_equal(aqi_log_enabled(AQI_LOG_TRACE, folders[j]), i == j);
            assert_true(aqi_log_enabled(AQI_LOG_ERROR, folders[j]));
        }
    }
}

static void order_does_not_matter(void **state)
{
    assert_int_equal(aqi_log_configure("shm=off,debug"), AQ_OK);
    assert_false(aqi_log_enabled(AQI_LOG_ERROR, "shm"));
    assert_true(aqi_log_enabled(AQI_LOG_DEBUG, "core"));
    assert_int_equal(aqi_log_configure("shm=debug"), AQ_OK);
    assert_true(aqi_log_enabled(AQI_LOG_DEBUG, "shm"));
    assert_true(aqi_log_enabled(AQI_LOG_WARN, "core"));
    assert_false(aqi_log_enabled(AQI_LOG_INFO, "core"));
}

static void bad_specifications_change_nothing(void **state)
{
    static const char *const bad[] = {
        "",           "loud",    "warn,",  ",",        "smh=debug", "shm=", "=debug", "shm=debug=x",
        "warn,info ", "warning", "sh=off", "shmm=off", "deb"};
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++) {
        struct capture capture;
        capture_start(&capture);
        aq_status status = aqi_log_configure(bad[i]);
        capture_end(&capture);
        assert_int_equal(status, AQ_ESETTING);
        assert_false(aqi_log_enabled(AQI_LOG_INFO, "shm"));
        assert_true(aqi_log_enabled(AQI_LOG_WARN, "shm"));
        assert_non_null(strstr(aq_error_message(), "AQ_LOG"));
        assert_non_null(strstr(aq_error_message(), "off error warn info debug trace"));
        for (size_t f = 0; f < AQI_COUNT_OF(folders); f++)
            assert_non_null(strstr(aq_error_message(), folders[f]));
    }
}

static void lines_name_the_process_and_the_folder(void **state)
{
    char expected[64];
    struct capture capture;
    capture_start(&capture);
    aqi_log(AQI_LOG_WARN, "shm", "n=%d", 3);
    snprintf(expected, sizeof(expected), "aq[pid %ld] shm: n=3\n", (long)getpid());
    assert_string_equal(capture_end(&capture), expected);

    aqi_log_identity(5);
    capture_start(&capture);
    aqi_log(AQI_LOG_WARN, "shm", "a\nb");
    aqi_log(AQI_LOG_INFO, "shm", "not this");
    assert_string_equal(capture_end(&capture), "aq[5] shm: a b\n");
}

/* Each URI is named as the program does; a line that becomes too long is cut. */
static void names_are_replaced(void **state)
{
    static const struct aqi_log_name longer = {"udp://", "sock://"}, shorter = {"shm://", "sm://"};
    struct capture capture;
    char text[2000] = "";
    aqi_log_identity(5);
    aqi_log_rename(&longer);
    capture_start(&capture);
    aqi_log(AQI_LOG_WARN, "udp", "udp://a: not udp://");
    assert_string_equal(capture_end(&capture), "aq[5] udp: sock://a: not sock://\n");
    while (strlen(text) + 6 < sizeof(text))
        strcat(text, "udp://");
    capture_start(&capture);
    aqi_log(AQI_LOG_WARN, "udp", "%s", text);
    const char *said = capture_end(&capture);
    assert_null(strstr(said, "udp://"));
    assert_int_equal(strcspn(said, "\n") + 1, strlen(said));
    aqi_log_rename(&shorter);
    capture_start(&capture);
    aqi_log(AQI_LOG_WARN, "shm", "shm:///b");
    assert_string_equal(capture_end(&capture), "aq[5] shm: sm:///b\n");
    aqi_log_rename(NULL);
}

/* A datagram socket shows where each write begins. */
static void a_line_is_one_write(void **state)
{
    int pair[2];
    char text[4096], line[8192];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
    int kept = dup(STDERR_FILENO);
    dup2(pair[0], STDERR_FILENO);
    aqi_log(AQI_LOG_ERROR, "core", "short");
    aqi_log(AQI_LOG_ERROR, "core", "%s", text);
    dup2(kept, STDERR_FILENO);
    ssize_t first = recv(pair[1], line, sizeof(line), MSG_DONTWAIT);
    assert_true(first > 6 && memcmp(line + first - 6, "short\n", 6) == 0);
    ssize_t second = recv(pair[1], line, sizeof(line), MSG_DONTWAIT);
    assert_true(second > 1000 && line[second - 1] == '\n' && line[second - 2] == 'x');
    assert_true(recv(pair[1], line, sizeof(line), MSG_DONTWAIT) < 0);
    close(kept);
    close(pair[0]);
    close(pair[1]);
}

static void once_is_once(void **state)
{
    static atomic_bool once;
    struct capture capture;
    capture_start(&capture);
    /* A line that is not shown does not use up `once`. */
    aqi_log_once(&once, AQI_LOG_DEBUG, "core", "hidden");
    aqi_log_once(&once, AQI_LOG_WARN, "core", "shown");
    aqi_log_once(&once, AQI_LOG_WARN, "core", "again");
    const char *text = capture_end(&capture);
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(text, "shown"));
    assert_null(strstr(text, "again"));
}

/* Warnings go to the socket as long as it works and standard error is still the same file. */
static void goes_through_a_socket(void **state)
{
    int ends[2];
    struct stat is;
    struct capture capture;
    char got[256] = "";
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    aqi_log_identity(3);
    assert_int_equal(aqi_log_configure("info"), AQ_OK);
    capture_start(&capture);
    assert_int_equal(fstat(STDERR_FILENO, &is), 0);
    aqi_log_through(ends[0], is.st_dev, is.st_ino);
    aqi_log(AQI_LOG_WARN, "shm", "one");
    aqi_log(AQI_LOG_INFO, "shm", "two");
    aqi_log(AQI_LOG_ERROR, "shm", "three");
    assert_int_equal(recv(ends[1], got, sizeof(got) - 1, MSG_DONTWAIT), 32);
    int kept = dup(STDERR_FILENO);
    int other = memfd_create("other", MFD_CLOEXEC);
    dup2(other, STDERR_FILENO);
    aqi_log(AQI_LOG_WARN, "shm", "four");
    dup2(kept, STDERR_FILENO);
    close(ends[1]);
    aqi_log(AQI_LOG_WARN, "shm", "five");
    capture_end(&capture);
    assert_string_equal(got, "aq[3] shm: one\naq[3] shm: three\n");
    assert_string_equal(capture.text, "aq[3] shm: two\naq[3] shm: five\n");
    assert_int_equal(pread(other, got, sizeof(got), 0), 16);
    assert_memory_equal(got, "aq[3] shm: four\n", 16);
    aqi_log_through(-1, 0, 0);
    close(ends[0]);
    close(kept);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_level_for_all, default_levels),
        cmocka_unit_test_setup(every_folder_has_its_own, default_levels),
        cmocka_unit_test_setup(order_does_not_matter, default_levels),
        cmocka_unit_test_setup(bad_specifications_change_nothing, default_levels),
        cmocka_unit_test_setup(lines_name_the_process_and_the_folder, default_levels),
        cmocka_unit_test_setup(names_are_replaced, default_levels),
        cmocka_unit_test_setup(a_line_is_one_write, default_levels),
        cmocka_unit_test_setup(once_is_once, default_levels),
        cmocka_unit_test_setup(goes_through_a_socket, default_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
