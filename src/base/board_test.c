/* Tests board.c: what is written is printed and visible to other processes. */
#include "base/board.h"

#include "base/cmocka_test.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void printed(char *out, size_t room)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(aqi_board_print(fileno(file)));
    rewind(file);
    out[fread(out, 1, room - 1, file)] = '\0';
    fclose(file);
}

/* The object as other processes see it. */
static bool found(char *out, size_t room)
{
    char link[64], path[300];
    DIR *fds = opendir("/proc/self/fd");
    bool is = false;
    for (struct dirent *entry; !is && (entry = readdir(fds)) != NULL;) {
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        ssize_t n = readlink(path, link, sizeof(link) - 1);
        is = n > 0 && strncmp(link, "/memfd:" AQI_BOARD_NAME, 7 + strlen(AQI_BOARD_NAME)) == 0;
    }
    closedir(fds);
    if (!is) return false;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    struct aqi_board head;
    assert_int_equal(fread(&head, sizeof(head), 1, file), 1);
    assert_int_equal(head.turn % 2, 0);
    out[fread(out, 1, aqi_min(head.len, room - 1), file)] = '\0';
    fclose(file);
    return true;
}

static void others_can_read_the_board(void **state)
{
    char text[8192];
    printed(text, sizeof(text));
    assert_string_equal(text, "");
    assert_null(aqi_board_begin());
    assert_int_equal(aqi_board_open(1000), AQ_OK);
    for (unsigned i = 1; i <= 2; i++) {
        aqi_safe_number(aqi_board_begin(), "turn ", i);
        aqi_board_end();
        printed(text, sizeof(text));
        assert_string_equal(text, i == 1 ? "turn 1" : "turn 2");
        assert_true(found(text, sizeof(text)));
        assert_string_equal(text, i == 1 ? "turn 1" : "turn 2");
    }
}

static void text_that_does_not_fit_is_cut_off(void **state)
{
    static char text[1 << 20];
    assert_int_equal(aqi_board_open(1000), AQ_OK); /* the same as before */
    struct aqi_safe_text *to = aqi_board_begin();
    for (unsigned i = 0; i < 100000; i++)
        aqi_safe_add(to, "123456789\n");
    aqi_board_end();
    printed(text, sizeof(text));
    assert_in_range(strlen(text), 1000, 70000);
}

static void append(void *arg, char *text)
{
    strcat(arg, text);
}

static atomic_long reader;
static atomic_bool has_read;

static void *read_own_board(void *text)
{
    atomic_store(&reader, syscall(SYS_gettid));
    aqi_board_read((int)getpid(), append, text);
    atomic_store(&has_read, true);
    return NULL;
}

static bool sleeps(long thread)
{
    char path[64], stat[200];
    snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", thread);
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    stat[fread(stat, 1, sizeof(stat) - 1, file)] = '\0';
    fclose(file);
    const char *name_end = strrchr(stat, ')');
    return name_end != NULL && name_end[2] == 'S';
}

/* A writer that loses its processor between begin and end delays the reader: its text is read. */
static void reader_waits_for_a_slow_writer(void **state)
{
    pthread_t thread;
    char text[8192] = "";
    assert_int_equal(aqi_board_open(1000), AQ_OK);
    struct aqi_safe_text *to = aqi_board_begin();
    assert_int_equal(pthread_create(&thread, NULL, read_own_board, text), 0);
    while (!atomic_load(&has_read) && (atomic_load(&reader) == 0 || !sleeps(atomic_load(&reader))))
        sched_yield();
    aqi_safe_add(to, "slow\n");
    aqi_board_end();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(text, "slow\n");
}

static void sheets_come_and_go(void **state)
{
    static char text[1 << 20];
    static struct aqi_board *taken[AQI_BOARD_SHEETS];
    struct aqi_safe_text *to = aqi_board_begin();
    aqi_safe_add(to, "board\n");
    aqi_board_end();
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < AQI_BOARD_SHEETS; i++)
            assert_non_null(taken[i] = aqi_board_sheet_take());
        assert_null(aqi_board_sheet_take());
        char line[] = "sheet\n";
        struct aqi_safe_text of = {.text = line, .used = sizeof(line) - 1};
        aqi_board_sheet_write(taken[5], &of);
        aqi_board_sheet_write(taken[6], &of);
        aqi_board_sheet_give(taken[5]);
        printed(text, sizeof(text));
        assert_string_equal(text, "board\nsheet\n");
        text[0] = '\0';
        assert_int_equal(aqi_board_read((int)getpid(), append, text), 0);
        assert_true(strcmp(text, "board\nsheet\n") == 0 || strcmp(text, "sheet\nboard\n") == 0);
        taken[6]->version = aqi_wire_version(AQI_WIRE_BOARD) + 3;
        text[0] = '\0';
        assert_int_equal(aqi_board_read((int)getpid(), append, text),
                         aqi_wire_version(AQI_WIRE_BOARD) + 3);
        assert_string_equal(text, "board\n");
        of = (struct aqi_safe_text){.text = text, .used = sizeof(text)};
        aqi_board_sheet_write(taken[7], &of); /* is truncated */
        assert_ptr_equal(taken[5] = aqi_board_sheet_take(),
                         (char *)taken[6] - AQI_BOARD_SHEET_BYTES);
        for (unsigned i = 0; i < AQI_BOARD_SHEETS; i++)
            aqi_board_sheet_give(taken[i]);
        printed(text, sizeof(text));
        assert_string_equal(text, "board\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_can_read_the_board),
        cmocka_unit_test(text_that_does_not_fit_is_cut_off),
        cmocka_unit_test(reader_waits_for_a_slow_writer),
        cmocka_unit_test(sheets_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
