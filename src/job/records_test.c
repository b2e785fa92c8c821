/* Tests records.c: data written by ranks to their sockets arrives as whole lines in the files. */
#include "job/shows_world_test.h"

#include "job/settings.h"

#include <stdlib.h>
#include <sys/resource.h>

static char folder[] = "/tmp/aq-records-XXXXXX", stats[64], trace[64];

static int name_files(void)
{
    struct aqi_settings_table *const tables[] = {&aqi_job_settings};
    setenv("AQ_STATS_FILE", stats, 1);
    setenv("AQ_TRACE_FILE", trace, 1);
    return aqi_settings_load(tables, 1) == AQ_OK ? 0 : -1;
}

static int make_folder(void **state)
{
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(stats, sizeof(stats), "%s/stats", folder);
    snprintf(trace, sizeof(trace), "%s/trace", folder);
    return name_files();
}

static int remove_folder(void **state)
{
    unlink(stats);
    unlink(trace);
    return rmdir(folder);
}

/* The end of a rank. */
static int begin(uint32_t rank, enum aqi_show what)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    aqi_records_take(rank, what, ends[0]);
    assert_true(aqi_records_need_clock());
    return ends[1];
}

static void put(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    shows_at(aqi_now_ns());
}

static const char *content(const char *name)
{
    static char text[1 << 16];
    FILE *file = fopen(name, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void test_whole_lines(void **state)
{
    int first = begin(0, AQI_SHOW_STATS), second = begin(1, AQI_SHOW_STATS);
    assert_string_equal(content(stats), ""); /* the file exists at once */
    put(first, "rank 0: put 1");
    put(second, "rank 1: put 2 operations\n");
    assert_string_equal(content(stats), "rank 1: put 2 operations\n");
    put(first, "7 operations\nrank 0: get 1 operations\n");
    assert_string_equal(content(stats), "rank 1: put 2 operations\nrank 0: put 17 operations\n"
                                        "rank 0: get 1 operations\n");
    close(first);
    close(second);
    shows_at(aqi_now_ns());
    shows_at(aqi_now_ns());
    assert_false(aqi_records_need_clock());
}

/* A file of events begins and ends as JSON, whichever ranks write to it. */
static void test_events(void **state)
{
    int fd = begin(1, AQI_SHOW_TRACE);
    put(fd, "[\n{\"name\":\"x\",\"ts\":1.500,\"pid\":1},\n{\"name\":\"y\",\"ts\":2.000,\"pid\":1}"
            "\n]\n");
    close(fd);
    aqi_records_drain();
    aqi_records_close();
    const char *text = content(trace), *end = strstr(text, "{\"name\":\"end of the job\"");
    static const char events[] = "[\n{\"name\":\"x\",\"ts\":1.500,\"pid\":1},\n"
                                 "{\"name\":\"y\",\"ts\":2.000,\"pid\":1},\n";
    assert_non_null(end);
    assert_int_equal(end - text, sizeof(events) - 1);
    assert_memory_equal(text, events, sizeof(events) - 1);
    assert_string_equal(text + strlen(text) - 4, "}\n]\n");
}

/* Data written before a rank died arrives, even if a child of it holds the socket. */
static void test_drain(void **state)
{
    int fd = begin(0, AQI_SHOW_STATS);
    assert_int_equal(send(fd, "rank 0: put 1 operations\n", 25, MSG_NOSIGNAL), 25);
    aqi_records_drain();
    assert_false(aqi_records_need_clock());
    assert_string_equal(content(stats), "rank 0: put 1 operations\n");
    close(fd);
}

/* Counters of a rank that was killed before it could write are written nevertheless. */
static void test_counters_of_a_killed_rank(void **state)
{
    int counters;
    assert_int_equal(aqi_counters_share(&counters), AQ_OK);
    aqi_top_take(1, counters);
    aqi_count(AQI_CTR_PUT, 3);
    int silent = begin(1, AQI_SHOW_STATS), unknown = begin(0, AQI_SHOW_STATS);
    close(silent);
    close(unknown);
    aqi_records_drain();
    assert_non_null(strstr(content(stats), "rank 1: put 3 "));
    assert_null(strstr(content(stats), "rank 0:"));
}

static void test_not_writable(void **state)
{
    snprintf(stats, sizeof(stats), "%s/nowhere/stats", folder);
    assert_int_equal(name_files(), 0);
    int fd = begin(0, AQI_SHOW_STATS);
    assert_false(aqi_hub_ending(hub)); /* reported later, not from within the hub */
    shows_at(aqi_now_ns());
    assert_true(aqi_hub_ending(hub));
    assert_non_null(strstr(said, "AQ_STATS_FILE: cannot write the file"));
    put(fd, "rank 0: put 1 operations\n"); /* harmless */
    close(fd);
    snprintf(stats, sizeof(stats), "%s/stats", folder);
    assert_int_equal(name_files(), 0);
}

/* A file that cannot be completed keeps its whole lines, and the job continues. */
static void test_full(void **state)
{
    static const char lines[] = "aq[0.0] 1.000 us am x\naq[0.0] 2.000 us am y\n";
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){.rlim_cur = sizeof(lines) + 5, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int fd = begin(0, AQI_SHOW_TRACE);
    put(fd, lines);
    put(fd, "aq[0.0] 3.000 us am z\n");
    shows_at(aqi_now_ns());
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_false(aqi_hub_ending(hub));
    assert_non_null(strstr(said, "AQ_TRACE_FILE: the file \""));
    assert_non_null(strstr(said, "is incomplete from here on; the job goes on: File too large"));
    size_t len = strlen(said);
    put(fd, "aq[0.0] 4.000 us am z\n");
    close(fd);
    aqi_records_drain();
    shows_at(aqi_now_ns());
    assert_int_equal(strlen(said), len); /* once */
    assert_string_equal(content(trace), lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHOWS_TEST(test_whole_lines),  SHOWS_TEST(test_events),
        SHOWS_TEST(test_drain),        SHOWS_TEST(test_counters_of_a_killed_rank),
        SHOWS_TEST(test_not_writable), SHOWS_TEST(test_full),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
