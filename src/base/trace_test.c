/* Traces: masks, output of several threads and blocks, limits, and how processes end. */
#include "base/trace.h"

#include "base/capture_test.h"
#include "base/fail.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { THREADS = 4, EVENTS = 3000 };

static char folder[] = "/tmp/aq-trace-XXXXXX";
static char file[64];

static int make_folder(void **state)
{
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(file, sizeof(file), "%s/trace", folder);
    return 0;
}

static int remove_folder(void **state)
{
    unlink(file);
    return rmdir(folder);
}

static void masks(void **state)
{
    static const struct {
        const char *text;
        unsigned mask;
    } legal[] = {{"", 0},
                 {"off", 0},
                 {"all", AQI_TRACE_ALL},
                 {"am", AQI_TRACE_AM},
                 {"am,wait", AQI_TRACE_AM | AQI_TRACE_WAIT},
                 {"rma+coll,job", AQI_TRACE_RMA | AQI_TRACE_COLL | AQI_TRACE_JOB},
                 {"GPA", AQI_TRACE_RMA | AQI_TRACE_AM},
                 {"ZB", AQI_TRACE_COLL}};
    static const char *const illegal[] = {"ams", "am;rma", "am,,nothing", "aM", "All"};
    for (size_t i = 0; i < AQI_COUNT_OF(legal); i++) {
        unsigned mask = 999;
        assert_true(aqi_trace_read(legal[i].text, &mask));
        assert_int_equal(mask, legal[i].mask);
    }
    for (size_t i = 0; i < AQI_COUNT_OF(illegal); i++) {
        unsigned mask = 999;
        assert_false(aqi_trace_read(illegal[i], &mask));
        assert_int_equal(mask, 999);
    }
}

/* Trace in a child, since tracing starts once per process; returns how the child ended. */
static int traced(void (*act)(void), struct aqi_trace_params params)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        params.fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
        if (params.fd < 0) _exit(99);
        aqi_trace_open(&params);
        act();
        aqi_trace_close();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The whole file; the caller frees it. */
static char *contents(void)
{
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    size_t room = 1 << 22;
    char *text = malloc(room);
    assert_non_null(text);
    text[fread(text, 1, room - 1, in)] = '\0';
    fclose(in);
    return text;
}

/* Not strstr: under the sanitizers, it reads all the rest of the text each time. */
static size_t occurrences(const char *text, const char *word)
{
    size_t n = 0, len = strlen(word);
    for (; *text != '\0'; text++)
        n += *text == *word && strncmp(text, word, len) == 0;
    return n;
}

static void *record_many(void *arg)
{
    for (unsigned i = 0; i < EVENTS; i++) {
        uint64_t begun = aqi_trace_begin(AQI_TRACE_RMA);
        aqi_trace_end(AQI_TRACE_RMA, "span", begun, 3, i);
        aqi_trace_point(AQI_TRACE_COLL, "point", AQI_TRACE_NOBODY, i);
        aqi_trace_point(AQI_TRACE_WAIT, "not asked for", 1, i);
    }
    return NULL;
}

static void act_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, record_many, NULL) != 0) abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void all_threads_are_written_whole(void **state)
{
    struct aqi_trace_params params = {.mask = AQI_TRACE_RMA | AQI_TRACE_COLL, .rank = 7};
    assert_int_equal(traced(act_threads, params), 0);
    char *text = contents();
    assert_int_equal(occurrences(text, "{\"name\":\"span\",\"cat\":\"rma\",\"ph\":\"X\""),
                     THREADS * EVENTS);
    assert_int_equal(occurrences(text, "\"args\":{\"bytes\":2999,\"peer\":3}},\n"), THREADS);
    assert_int_equal(occurrences(text, "{\"name\":\"point\",\"cat\":\"coll\",\"ph\":\"i\""),
                     THREADS * EVENTS);
    assert_int_equal(occurrences(text, "not asked for"), 0);
    assert_int_equal(occurrences(text, "\"pid\":7,"), 2 * THREADS * EVENTS + 2);
    assert_memory_equal(text, "[\n", 2);
    assert_string_equal(text + strlen(text) - 5, "0}\n]\n");
    /* Each line is an object: no thread's line is torn by another's. */
    size_t lines = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++)
        if (line[0] != '[' && line[0] != ']')
            assert_true(line[0] == '{' && occurrences(line, "\"pid\"") == 1);
    assert_int_equal(lines, 2 * THREADS * EVENTS + 4);
    free(text);
}

static void text_has_one_line_per_event(void **state)
{
    struct aqi_trace_params params = {.mask = AQI_TRACE_ALL, .rank = 2, .format = AQI_TRACE_TEXT};
    assert_int_equal(traced(act_threads, params), 0);
    char *text = contents();
    assert_int_equal(occurrences(text, " us rma span peer 3 bytes 17 took "), THREADS);
    assert_int_equal(occurrences(text, " us coll point bytes 17\n"), THREADS);
    assert_memory_equal(text, "aq[2.", 5);
    free(text);
}

static void a_limit_is_kept(void **state)
{
    struct aqi_trace_params params = {.mask = AQI_TRACE_ALL, .limit = 20000};
    assert_int_equal(traced(act_threads, params), 0);
    char *text = contents();
    assert_in_range(strlen(text), 20000, 20000 + (THREADS + 1) * 8192);
    free(text);
}

static void act_killed(void)
{
    aqi_trace_point(AQI_TRACE_JOB, "last words", AQI_TRACE_NOBODY, 0);
    kill(getpid(), SIGKILL);
}

static void flushed_events_survive_anything(void **state)
{
    struct aqi_trace_params params = {.mask = AQI_TRACE_ALL, .flush = true};
    assert_true(WIFSIGNALED(traced(act_killed, params)));
    char *text = contents();
    assert_int_equal(occurrences(text, "last words"), 1);
    free(text);
}

/* A child has copies of events that were not written yet, but only its parent writes them. */
static void act_fork(void)
{
    aqi_trace_point(AQI_TRACE_JOB, "once", AQI_TRACE_NOBODY, 0);
    pid_t child = fork();
    if (child == 0) {
        aqi_trace_close();
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void a_forked_child_writes_nothing(void **state)
{
    assert_int_equal(traced(act_fork, (struct aqi_trace_params){.mask = AQI_TRACE_ALL}), 0);
    char *text = contents();
    assert_int_equal(occurrences(text, "\"once\""), 1);
    free(text);
}

static void off_costs_nothing_and_writes_nothing(void **state)
{
    aqi_trace_open(&(struct aqi_trace_params){.fd = STDERR_FILENO});
    assert_int_equal(aqi_trace_begin(AQI_TRACE_ALL), 0);
    aqi_trace_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks),
        cmocka_unit_test(all_threads_are_written_whole),
        cmocka_unit_test(text_has_one_line_per_event),
        cmocka_unit_test(a_limit_is_kept),
        cmocka_unit_test(flushed_events_survive_anything),
        cmocka_unit_test(a_forked_child_writes_nothing),
        cmocka_unit_test(off_costs_nothing_and_writes_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
