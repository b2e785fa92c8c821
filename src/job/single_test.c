/* Tests single.c and boot.c: a process that was not launched is a job of one. */
#include "base/shmem.h"
#include "job/boot.h"
#include "job/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct aqi_settings_table *const tables[] = {&aqi_job_settings};
    unsetenv("AQ_BOOT_FD");
    if (aqi_settings_load(tables, 1) != AQ_OK) return -1;
    struct aqi_boot *_Atomic boot = NULL;
    aq_status status = aqi_boot_open(&boot);
    *state = boot;
    return status == AQ_OK ? 0 : -1;
}

static int teardown(void **state)
{
    struct aqi_boot *boot = *state;
    aqi_boot_close(boot);
    return 0;
}

static void no_event(void *arg, const struct aqi_boot_event *event)
{
    fail_msg("an event in a job of one");
}

static void test_rank_and_size(void **state)
{
    struct aqi_boot *boot = *state;
    const struct aqi_boot_info *info = &boot->info;
    assert_ptr_equal(boot->kind, &aqi_boot_single);
    assert_int_equal(info->rank, 0);
    assert_int_equal(info->size, 1);
    assert_int_equal(info->host, 0);
    assert_int_equal(info->hosts, 1);
    assert_int_equal(info->local_rank, 0);
    assert_int_equal(info->local_size, 1);
}

static void test_the_key_is_random(void **state)
{
    struct aqi_boot *boot = *state;
    struct aqi_boot *_Atomic other;
    assert_int_equal(aqi_boot_open(&other), AQ_OK);
    assert_memory_not_equal(boot->info.key, other->info.key, AQI_JOB_KEY_BYTES);
    aqi_boot_close(other);
}

static void test_collective_calls(void **state)
{
    struct aqi_boot *boot = *state;
    char all[4] = "";
    assert_int_equal(boot->kind->allgather(boot, "abc", 4, all), AQ_OK);
    assert_string_equal(all, "abc");
    assert_int_equal(boot->kind->allgather(boot, NULL, 0, NULL), AQ_OK);
    const void *table;
    assert_int_equal(aqi_boot_table(boot, "abc", 4, &table), AQ_OK);
    assert_string_equal(table, "abc");
    int fd = -1;
    void *memory;
    assert_int_equal(boot->kind->share(boot, "segment", 12345, &fd), AQ_OK);
    assert_int_equal(aqi_shmem_map(fd, 12345, &memory), AQ_OK);
    memset(memory, 1, 12345);
    aqi_shmem_unmap(memory, 12345);
    close(fd);
}

static void test_no_events(void **state)
{
    struct aqi_boot *boot = *state;
    assert_false(aqi_boot_alert(boot));
    assert_int_equal(boot->fd, -1);
    assert_int_equal(boot->kind->progress(boot, no_event, NULL), AQ_OK);
    boot->kind->exit(boot, 3, "not sent to anything");
    assert_int_equal(boot->kind->reach(boot, AQI_BOOT_LEFT), AQ_OK);
}

static void on_agreed(void *arg, const struct aqi_boot_event *event)
{
    assert_int_equal(event->type, AQI_BOOT_AGREED);
    assert_true(event->name[0] == 5 && event->name[1] < 2);
    assert_int_equal(event->status, event->name[1] == 0 ? AQ_OK : AQ_ENOMEM);
    assert_int_equal(event->set[0], 1);
    *(unsigned *)arg += 1 + (unsigned)event->name[1];
}

/* Agreements with itself are also delivered as events. */
static void test_agreeing_alone(void **state)
{
    struct aqi_boot *boot = *state;
    static const uint8_t me = 1;
    unsigned heard = 0;
    assert_int_equal(boot->kind->reach(boot, AQI_BOOT_READY), AQ_OK);
    assert_int_equal(boot->kind->agree(boot, (uint64_t[]){5, 0}, AQ_OK, &me), AQ_OK);
    assert_int_equal(boot->kind->agree(boot, (uint64_t[]){5, 1}, AQ_ENOMEM, &me), AQ_OK);
    assert_true(aqi_boot_alert(boot));
    assert_int_equal(boot->kind->progress(boot, on_agreed, &heard), AQ_OK);
    assert_int_equal(heard, 3);
    assert_false(aqi_boot_alert(boot));
    assert_int_equal(boot->kind->agree(boot, (uint64_t[]){5, 0}, AQ_OK, &me), AQ_OK);
}

static void test_settings_from_the_launcher(void **state)
{
    struct aqi_settings_table *const tables[] = {&aqi_job_settings};
    static const char *const names[] = {"AQ_RANK", "AQ_SIZE", "AQ_BOOT_FD", "AQ_JOB_ID",
                                        "AQ_START_TIMEOUT"};
    static const char *const values[] = {"65535", "65536", "17", "a-b", "250ms"};
    for (size_t i = 0; i < AQI_COUNT_OF(names); i++)
        setenv(names[i], values[i], 1);
    aq_status status = aqi_settings_load(tables, 1);
    for (size_t i = 0; i < AQI_COUNT_OF(names); i++)
        unsetenv(names[i]);
    assert_int_equal(status, AQ_OK);
    assert_true(aqi_job_config.rank == 65535 && aqi_job_config.size == 65536);
    assert_int_equal(aqi_job_config.boot_fd, 17);
    assert_string_equal(aqi_job_config.job_id, "a-b");
    assert_int_equal(aqi_job_config.start_timeout_ns, 250000000);
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    assert_int_equal(aqi_job_config.boot_fd, 0);
    assert_int_equal(aqi_job_config.start_timeout_ns, 60000000000);
    assert_int_equal(aqi_job_config.exit_timeout_ns, 2000000000);
}

/* One of several processes becomes a job of one only if the setting requests it. */
static void test_single_by_mistake_and_on_request(void **state)
{
    static const struct {
        const char *boot, *tasks;
        aq_status status;
        const char *text;
    } cases[] = {
        {"auto", "1", AQ_OK, NULL},
        {"auto", "2", AQ_ESTATE, "add --mpi=pmi2"},
        {"single", "2", AQ_OK, NULL},
        {"fork", "1", AQ_ESTATE, "aqrun did not start this process"},
        {"pmi", "1", AQ_ESTATE, "PMI_FD is not set"},
    };
    struct aqi_settings_table *const tables[] = {&aqi_job_settings};
    setenv("SLURM_PROCID", "0", 1);
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct aqi_boot *_Atomic boot = NULL;
        setenv("AQ_BOOT", cases[i].boot, 1);
        setenv("SLURM_STEP_NUM_TASKS", cases[i].tasks, 1);
        assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
        assert_int_equal(aqi_boot_open(&boot), cases[i].status);
        if (cases[i].text != NULL) assert_non_null(strstr(aq_error_message(), cases[i].text));
        if (boot == NULL) continue;
        assert_int_equal(boot->info.size, 1);
        aqi_boot_close(boot);
    }
    unsetenv("AQ_BOOT");
    unsetenv("SLURM_PROCID");
    unsetenv("SLURM_STEP_NUM_TASKS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rank_and_size, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_key_is_random, setup, teardown),
        cmocka_unit_test_setup_teardown(test_collective_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_agreeing_alone, setup, teardown),
        cmocka_unit_test(test_settings_from_the_launcher),
        cmocka_unit_test(test_single_by_mistake_and_on_request),
    };
    return cmocka_run_group_tests_name("single", tests, NULL, NULL);
}
