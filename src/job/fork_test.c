/* Tests fork.c: a rank and a scripted launcher, in a thread of the same process. */
#include "base/shmem.h"
#include "job/channel.h"
#include "job/settings.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANK = 1, SIZE = 2 };

/* The launcher's side. Its thread only sends what the rank waits for. */
struct launcher {
    int place;   /* our end of the rank's place */
    int control; /* the socket passed with HELLO */
    _Atomic uint32_t *page;
    int page_fd;
    pthread_t thread;
    bool running; /* the thread has not been joined yet */
    void (*script)(struct launcher *launcher);
};

static struct launcher launcher;

static void await_script(void)
{
    if (launcher.running) pthread_join(launcher.thread, NULL);
    launcher.running = false;
}

static void next(int socket, struct aqi_control *message, int *passed)
{
    static _Thread_local uint8_t buf[AQI_CONTROL_MAX];
    struct pollfd state = {.fd = socket, .events = POLLIN};
    size_t len = sizeof(buf);
    if (poll(&state, 1, 20000) != 1) abort();
    if (aqi_channel_receive(socket, buf, &len, passed) != AQ_OK) abort();
    if (aqi_control_decode(buf, len, message) != AQ_OK) abort();
}

static void answer(const struct aqi_control *message, int pass)
{
    if (aqi_channel_send(launcher.control, message, pass) != AQ_OK) abort();
}

static void answer_job(void)
{
    struct aqi_control job = {.type = AQI_CONTROL_JOB,
                              .rank = RANK,
                              .size = SIZE,
                              .hosts = 1,
                              .local_rank = RANK,
                              .local_size = SIZE};
    memset(job.key, 0xa5, sizeof(job.key));
    answer(&job, launcher.page_fd);
}

static void *run_script(void *arg)
{
    struct aqi_control hello;
    next(launcher.place, &hello, &launcher.control);
    if (hello.type != AQI_CONTROL_HELLO || launcher.control < 0) abort();
    launcher.script(arg);
    return NULL;
}

static struct aqi_boot *_Atomic joining;

/* Start the launcher and join it; returns the result of aqi_boot_open. */
static aq_status join(void (*script)(struct launcher *), struct aqi_boot **boot)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    launcher = (struct launcher){.place = pair[0], .control = -1, .script = script};
    launcher.page_fd = memfd_create("page", MFD_CLOEXEC);
    assert_int_equal(ftruncate(launcher.page_fd, SIZE * AQI_CACHE_LINE), 0);
    void *page =
        mmap(NULL, SIZE * AQI_CACHE_LINE, PROT_READ | PROT_WRITE, MAP_SHARED, launcher.page_fd, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    launcher.page = (_Atomic uint32_t *)((char *)page + RANK * AQI_CACHE_LINE);
    assert_int_equal(pthread_create(&launcher.thread, NULL, run_script, &launcher), 0);
    aqi_job_config.boot_fd = (uint64_t)pair[1];
    launcher.running = true;
    aq_status status = aqi_boot_open(&joining);
    *boot = joining;
    prctl(PR_SET_PDEATHSIG, 0);
    if (status != AQ_OK) close(pair[1]);
    return status;
}

static void leave(void)
{
    await_script();
    munmap((char *)launcher.page - RANK * AQI_CACHE_LINE, SIZE * AQI_CACHE_LINE);
    close(launcher.page_fd);
    close(launcher.place);
    if (launcher.control >= 0) close(launcher.control);
}

static void script_job(struct launcher *self)
{
    answer_job();
}

static struct aqi_boot *joined(void)
{
    struct aqi_boot *boot;
    assert_int_equal(join(script_job, &boot), AQ_OK);
    await_script();
    return boot;
}

static void close_both(struct aqi_boot *boot)
{
    aqi_boot_close(boot);
    leave();
}

static void test_joining(void **state)
{
    struct aqi_boot *boot = joined();
    const struct aqi_boot_info *info = &boot->info;
    assert_ptr_equal(boot->kind, &aqi_boot_fork);
    assert_int_equal(info->rank, RANK);
    assert_int_equal(info->size, SIZE);
    assert_int_equal(info->local_rank, RANK);
    assert_int_equal(info->key[15], 0xa5);
    assert_false(aqi_boot_alert(boot));
    /* The place is closed, so that programs started by this one do not inherit it. */
    assert_int_equal(fcntl((int)aqi_job_config.boot_fd, F_GETFD), -1);
    struct aqi_control message;
    int passed = -1;
    boot->kind->exit(boot, 42, "reason");
    next(launcher.control, &message, &passed);
    assert_int_equal(message.type, AQI_CONTROL_EXIT);
    assert_int_equal(message.code, 42);
    assert_memory_equal(message.data, "reason", 6);
    boot->kind->exit(boot, 0, NULL);
    next(launcher.control, &message, &passed);
    assert_int_equal(message.len, 0);
    assert_int_equal(boot->kind->reach(boot, AQI_BOOT_LEFT), AQ_OK);
    next(launcher.control, &message, &passed);
    assert_int_equal(message.type, AQI_CONTROL_BYE);
    close_both(boot);
}

static void script_refuse(struct launcher *self)
{
    answer(
        &(struct aqi_control){
            .type = AQI_CONTROL_REFUSE, .status = AQ_ESTATE, .data = "taken", .len = 5},
        -1);
}

static void script_hang_up(struct launcher *self)
{
    close(self->control);
    self->control = -1;
}

static void script_other_version(struct launcher *self)
{
    uint8_t head[AQI_CONTROL_HEAD];
    size_t len = aqi_control_encode(&(struct aqi_control){.type = AQI_CONTROL_BYE}, head);
    head[0] = 99;
    if (send(self->control, head, len, 0) != (ssize_t)len) abort();
}

static void script_garbage(struct launcher *self)
{
    if (send(self->control,
             (const unsigned char[]){aqi_wire_version(AQI_WIRE_CONTROL), 0, 99, 0, 1, 2, 3, 4, 5},
             9, 0) != 9)
        abort();
}

static void script_job_without_page(struct launcher *self)
{
    answer(&(struct aqi_control){.type = AQI_CONTROL_JOB, .size = 1, .hosts = 1, .local_size = 1},
           -1);
}

/* Another thread of the rank, or a signal handler, ends the job meanwhile. */
static void script_exit(struct launcher *self)
{
    struct aqi_boot *boot = joining;
    struct aqi_control message;
    int passed = -1;
    boot->kind->exit(boot, 7, NULL);
    next(self->control, &message, &passed);
    if (message.type != AQI_CONTROL_EXIT || message.code != 7) abort();
    script_refuse(self);
}

static void script_silence(struct launcher *self)
{
}

static void test_failing_to_join(void **state)
{
    static const struct {
        void (*script)(struct launcher *);
        aq_status status;
        const char *text;
    } cases[] = {
        {script_refuse, AQ_ESTATE, "taken"},
        {script_hang_up, AQ_EPEER, "aqrun is gone"},
        {script_other_version, AQ_EPROTO, "version 99"},
        {script_garbage, AQ_EPROTO, "malformed"},
        {script_job_without_page, AQ_EPROTO, "type 2"},
        {script_exit, AQ_ESTATE, "taken"},
        {script_silence, AQ_ETIMEOUT, "no answer from"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct aqi_boot *boot;
        const uint64_t timeout_ns = aqi_job_config.start_timeout_ns;
        if (cases[i].script == script_silence) aqi_job_config.start_timeout_ns = 100000000;
        assert_int_equal(join(cases[i].script, &boot), cases[i].status);
        aqi_job_config.start_timeout_ns = timeout_ns;
        assert_null(boot);
        assert_non_null(strstr(aq_error_message(), cases[i].text));
        leave();
    }
}

/*
 * A rank that ends may not have read all its messages; its own last message is delivered
 * nevertheless.
 */
static void test_last_messages(void **state)
{
    struct aqi_control message = {.type = AQI_CONTROL_EVENT};
    int passed = -1;
    uint8_t buf[AQI_CONTROL_MAX];
    size_t len = sizeof(buf);
    struct aqi_boot *boot = joined();
    answer(&message, -1);
    boot->kind->exit(boot, 7, NULL);
    aqi_boot_close(boot);
    next(launcher.control, &message, &passed);
    assert_int_equal(message.type, AQI_CONTROL_EXIT);
    assert_int_equal(message.code, 7);
    assert_int_equal(aqi_channel_receive(launcher.control, buf, &len, &passed), AQ_EPEER);
    leave();
}

static void test_not_a_control_socket(void **state)
{
    struct aqi_boot *_Atomic boot;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    aqi_job_config.boot_fd = (uint64_t)ends[0];
    assert_int_equal(aqi_boot_open(&boot), AQ_ESTATE);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(aqi_boot_open(&boot), AQ_ESTATE);
    assert_non_null(strstr(aq_error_message(), "unset AQ_BOOT_FD"));
}

enum { BIG = 100000 };

/* Collects a part of BIG bytes and returns it twice: the result of two ranks that agree. */
static void script_gather(struct launcher *self)
{
    answer_job();
    static uint8_t all[SIZE * BIG];
    struct aqi_control call = {0};
    size_t got = 0;
    while (got < BIG) {
        int passed = -1;
        next(self->control, &call, &passed);
        if (call.type != AQI_CONTROL_CALL || call.offset != got || call.seq != 1) abort();
        memcpy(all + got, call.data, call.len);
        memcpy(all + BIG + got, call.data, call.len);
        got += call.len;
    }
    struct aqi_control result = {.type = AQI_CONTROL_RESULT, .seq = 1, .bytes = sizeof(all)};
    int table = -1;
    if (call.call != AQI_CALL_TABLE) abort();
    if (aqi_shmem_freeze("table", all, sizeof(all), &table) != AQ_OK) abort();
    answer(&result, table);
    close(table);
}

static void test_allgather_in_pieces(void **state)
{
    struct aqi_boot *boot;
    static uint8_t mine[BIG], all[SIZE * BIG];
    for (size_t i = 0; i < BIG; i++)
        mine[i] = (uint8_t)(i * 7 + i / 251);
    assert_int_equal(join(script_gather, &boot), AQ_OK);
    assert_int_equal(boot->kind->allgather(boot, mine, BIG, all), AQ_OK);
    assert_memory_equal(all, mine, BIG);
    assert_memory_equal(all + BIG, mine, BIG);
    assert_int_equal(boot->kind->allgather(boot, mine, AQI_CONTROL_PART + 1, all), AQ_ESIZE);
    close_both(boot);
}

static _Atomic int idle_rounds;

/* Answers once the waiting rank has made this many rounds of its other work. */
static void script_slow(struct launcher *self)
{
    struct aqi_control call;
    int passed = -1;
    answer_job();
    next(self->control, &call, &passed);
    while (atomic_load(&idle_rounds) < 3)
        poll(NULL, 0, 1);
    answer(
        &(struct aqi_control){
            .type = AQI_CONTROL_RESULT, .seq = 1, .bytes = SIZE, .data = "ab", .len = SIZE},
        -1);
}

static void idle(void)
{
    atomic_fetch_add(&idle_rounds, 1);
}

static void test_idle_hook(void **state)
{
    struct aqi_boot *boot;
    char all[SIZE];
    assert_int_equal(join(script_slow, &boot), AQ_OK);
    boot->idle = idle;
    assert_int_equal(boot->kind->allgather(boot, "b", 1, all), AQ_OK);
    assert_memory_equal(all, "ab", SIZE);
    close_both(boot);
}

static void test_share(void **state)
{
    struct aqi_boot *boot = joined();
    /* The answers may arrive before the queries. */
    answer(&(struct aqi_control){.type = AQI_CONTROL_RESULT, .seq = 1}, launcher.page_fd);
    answer(&(struct aqi_control){.type = AQI_CONTROL_RESULT, .seq = 2}, -1);
    int fd = -1;
    assert_int_equal(boot->kind->share(boot, "thing", 4096, &fd), AQ_OK);
    assert_true(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    close(fd);
    fd = -1;
    assert_int_equal(boot->kind->share(boot, "thing", 4096, &fd), AQ_EPROTO);
    assert_int_equal(fd, -1);
    close_both(boot);
}

struct seen {
    int count;
    struct aqi_boot_event last;
    char text[64];
};

static void on_event(void *arg, const struct aqi_boot_event *event)
{
    struct seen *seen = arg;
    seen->count++;
    seen->last = *event;
    strncpy(seen->text, event->text, sizeof(seen->text) - 1);
}

static void send_event(enum aqi_boot_event_type type, uint32_t rank)
{
    answer(&(struct aqi_control){.type = AQI_CONTROL_EVENT,
                                 .event = type,
                                 .rank = rank,
                                 .code = 9,
                                 .data = "it died",
                                 .len = 7},
           -1);
}

static void test_events(void **state)
{
    struct seen seen = {0};
    struct aqi_boot *boot = joined();
    assert_int_equal(boot->kind->progress(boot, on_event, &seen), AQ_OK);
    assert_int_equal(seen.count, 0);
    send_event(AQI_BOOT_PEER_LOST, 0);
    send_event(AQI_BOOT_EXIT, 0);
    /* Read before they are counted: no alert may remain when the count arrives. */
    assert_false(aqi_boot_alert(boot));
    assert_int_equal(boot->kind->progress(boot, on_event, &seen), AQ_OK);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.last.type, AQI_BOOT_EXIT);
    assert_int_equal(seen.last.code, 9);
    assert_string_equal(seen.text, "it died");
    assert_false(aqi_boot_alert(boot));
    atomic_store(launcher.page, 2);
    assert_false(aqi_boot_alert(boot));
    atomic_store(launcher.page, 3);
    assert_true(aqi_boot_alert(boot));
    send_event(AQI_BOOT_PEER_LOST, 0);
    struct pollfd readable = {.fd = boot->fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 0), 1);
    assert_int_equal(boot->kind->progress(boot, on_event, &seen), AQ_OK);
    assert_int_equal(seen.count, 3);
    assert_false(aqi_boot_alert(boot));
    close(launcher.control);
    launcher.control = -1;
    assert_int_equal(boot->kind->progress(boot, on_event, &seen), AQ_EPEER);
    assert_int_equal(boot->kind->allgather(boot, NULL, 0, NULL), AQ_EPEER);
    assert_int_equal(boot->kind->reach(boot, AQI_BOOT_LEFT), AQ_EPEER);
    close_both(boot);
}

static void test_an_event_ends_a_call(void **state)
{
    struct seen seen = {0};
    struct aqi_boot *boot = joined();
    send_event(AQI_BOOT_EXIT, 0);
    atomic_store(launcher.page, 1);
    assert_int_equal(boot->kind->allgather(boot, NULL, 0, NULL), AQ_EPEER);
    assert_string_equal(aq_error_message(), "it died");
    /* The event itself has yet to be delivered, and later calls fail at once. */
    assert_true(aqi_boot_alert(boot));
    assert_int_equal(boot->kind->allgather(boot, NULL, 0, NULL), AQ_EPEER);
    assert_int_equal(boot->kind->progress(boot, on_event, &seen), AQ_OK);
    assert_int_equal(seen.count, 1);
    assert_false(aqi_boot_alert(boot));
    close_both(boot);
}

static void test_a_call_that_fails(void **state)
{
    uint8_t all[SIZE];
    static const uint8_t big[BIG];
    struct aqi_boot *boot = joined();
    answer(&(struct aqi_control){.type = AQI_CONTROL_RESULT,
                                 .seq = 1,
                                 .status = AQ_EMISMATCH,
                                 .bytes = 8,
                                 .data = "disagree",
                                 .len = 8},
           -1);
    assert_int_equal(boot->kind->allgather(boot, "x", 1, all), AQ_EMISMATCH);
    assert_string_equal(aq_error_message(), "disagree");
    assert_int_equal(boot->kind->allgather(boot, NULL, 0, NULL), AQ_EMISMATCH);
    close_both(boot);
    /* A table with too few bytes is not mapped. */
    const void *table;
    boot = joined();
    answer(&(struct aqi_control){.type = AQI_CONTROL_RESULT, .seq = 1, .bytes = SIZE * BIG},
           launcher.page_fd);
    assert_int_equal(aqi_boot_table(boot, big, BIG, &table), AQ_EPROTO);
    close_both(boot);
    /* A result of the wrong size is not written beyond `all`. */
    boot = joined();
    answer(
        &(struct aqi_control){
            .type = AQI_CONTROL_RESULT, .seq = 1, .bytes = 8, .data = "disagree", .len = 8},
        -1);
    assert_int_equal(boot->kind->allgather(boot, "x", 1, all), AQ_EPROTO);
    close_both(boot);
}

static int setup(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joining),
        cmocka_unit_test(test_failing_to_join),
        cmocka_unit_test(test_last_messages),
        cmocka_unit_test(test_not_a_control_socket),
        cmocka_unit_test(test_allgather_in_pieces),
        cmocka_unit_test(test_idle_hook),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_an_event_ends_a_call),
        cmocka_unit_test(test_a_call_that_fails),
    };
    return cmocka_run_group_tests_name("fork", tests, setup, NULL);
}
