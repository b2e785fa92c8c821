/*
 * A rank that executes its arguments in order. Each is STEP[=NUMBER][@RANK][?], for all ranks or
 * only for RANK. A step that fails prints "STEP: AQ_…: message" and, unless it ends with "?", exits
 * with code 3.
 */
#include "base/shmem.h"
#include "job/channel.h"
#include "job/settings.h"
#include "pass_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct aqi_boot *_Atomic boot;

static aq_status do_open(long number)
{
    (void)number;
    return aqi_boot_open(&boot);
}

static aq_status do_barrier(long number)
{
    (void)number;
    return boot->kind->allgather(boot, NULL, 0, NULL);
}

static uint8_t part_byte(size_t rank, size_t i)
{
    return (uint8_t)(rank * 31 + i * 7 + i / 251);
}

/* Allgather of this many bytes, verified. */
static aq_status do_gather(long number)
{
    size_t len = (size_t)number, size = boot->info.size;
    uint8_t *mine = malloc(len + 1), *all = malloc(len * size + 1);
    for (size_t i = 0; i < len; i++)
        mine[i] = part_byte(boot->info.rank, i);
    aq_status status = boot->kind->allgather(boot, mine, len, all);
    for (size_t k = 0; status == AQ_OK && k < len * size; k++)
        if (all[k] != part_byte(k / len, k % len)) status = AQ_EPROTO;
    free(mine);
    free(all);
    return status;
}

/* Share this many bytes of memory: each rank writes one byte, and all ranks check all. */
static aq_status do_share(long number)
{
    size_t bytes = (size_t)number;
    int fd = -1;
    void *memory = NULL;
    aq_status status = boot->kind->share(boot, "test", bytes, &fd);
    if (status != AQ_OK) return status;
    status = aqi_shmem_map(fd, bytes, &memory);
    close(fd);
    if (status != AQ_OK) return status;
    ((volatile uint8_t *)memory)[boot->info.rank] = part_byte(boot->info.rank, 5);
    status = do_barrier(0);
    for (size_t rank = 0; status == AQ_OK && rank < boot->info.size; rank++)
        if (((volatile uint8_t *)memory)[rank] != part_byte(rank, 5)) status = AQ_EPROTO;
    aqi_shmem_unmap(memory, bytes);
    return status;
}

static aq_status do_finalize(long number)
{
    (void)number;
    return boot->kind->reach(boot, AQI_BOOT_LEFT);
}

static aq_status do_close(long number)
{
    (void)number;
    aqi_boot_close(boot);
    boot = NULL;
    return AQ_OK;
}

static aq_status do_code(long number)
{
    fflush(stdout);
    _exit((int)number);
}

static aq_status do_signal(long number)
{
    fflush(stdout);
    signal((int)number, SIG_DFL); /* a sanitizer may handle it */
    raise((int)number);
    return AQ_ESYS;
}

/* End the job as aq_exit does. */
static aq_status do_end(long number)
{
    boot->kind->exit(boot, (int)number, NULL);
    return do_code(number);
}

static aq_status do_why(long number)
{
    boot->kind->exit(boot, (int)number, "the disk is on fire");
    return AQ_OK;
}

static void on_event(void *arg, const struct aqi_boot_event *event)
{
    (void)arg;
    printf("event %d of rank %d with code %d: %s\n", event->type, (int)event->rank, event->code,
           event->text);
    do_code(event->code);
}

/* Sleep until an event arrives, and exit with its code. */
static aq_status do_wait(long number)
{
    (void)number;
    aq_status status;
    /* First check, then sleep: the event may have arrived during a collective call. */
    while ((status = boot->kind->progress(boot, on_event, NULL)) == AQ_OK) {
        struct pollfd state = {.fd = boot->fd, .events = POLLIN};
        poll(&state, 1, -1);
    }
    return status;
}

/* Likewise, but by watching the job page only. */
static aq_status do_alert(long number)
{
    (void)number;
    while (!aqi_boot_alert(boot))
        usleep(1000);
    return do_wait(0);
}

/* Wait for SIGKILL, ignoring everything else. */
static aq_status do_hang(long number)
{
    (void)number;
    fflush(stdout);
    signal(SIGTERM, SIG_IGN);
    while (pause() != 0)
        continue;
    return AQ_ESYS;
}

static aq_status do_pause(long number)
{
    (void)number;
    fflush(stdout);
    while (pause() != 0)
        continue;
    return AQ_ESYS;
}

static aq_status do_print(long number)
{
    printf("%ld\n", number);
    fflush(stdout);
    return AQ_OK;
}

/* Print this many numbered lines to each output. */
static aq_status do_lines(long number)
{
    for (long i = 0; i < number; i++) {
        printf("out %ld\n", i);
        fprintf(stderr, "err %ld\n", i);
    }
    return AQ_OK;
}

/* Check that this many descriptors above the standard ones are open. */
static aq_status do_files(long number)
{
    long open = 0;
    for (int fd = 3; fd < 1024; fd++)
        open += fcntl(fd, F_GETFD) >= 0;
    printf("%ld files\n", open);
    return open == number ? AQ_OK : AQ_ELIMIT;
}

/* Send HELLO, in this version of the protocol unless it is 0, and print the answer. */
static aq_status do_hello(long number)
{
    int pair[2], passed = -1, place = atoi(getenv("AQ_BOOT_FD"));
    uint8_t head[AQI_CONTROL_HEAD], buf[AQI_CONTROL_MAX];
    size_t len = aqi_control_encode(&(struct aqi_control){.type = AQI_CONTROL_HELLO}, head);
    if (number != 0) head[0] = (uint8_t)number;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) return AQ_ESYS;
    if (!pass_fd(place, head, len, pair[1])) return AQ_ESYS;
    close(pair[1]);
    struct pollfd state = {.fd = pair[0], .events = POLLIN};
    poll(&state, 1, -1);
    struct aqi_control answer;
    len = sizeof(buf);
    aq_status status = aqi_channel_receive(pair[0], buf, &len, &passed);
    if (status == AQ_OK) status = aqi_control_decode(buf, len, &answer);
    if (status != AQ_OK) return status;
    char text[AQI_CONTROL_TEXT + 1];
    aqi_control_text(&answer, text);
    printf("answer %d: %s: %s\n", answer.type, aq_status_name((aq_status)answer.status), text);
    return AQ_OK;
}

/* Send random packets: to the place before joining, and to the control socket afterwards. */
static aq_status do_garbage(long number)
{
    int to = boot != NULL ? boot->fd : atoi(getenv("AQ_BOOT_FD"));
    srand(1);
    for (long i = 0; i < number; i++) {
        uint8_t buf[200];
        for (size_t k = 0; k < sizeof(buf); k++)
            buf[k] = (uint8_t)rand();
        if (i % 2 == 0) memset(buf, 0, 4);
        if (i % 2 == 0) buf[0] = aqi_wire_version(AQI_WIRE_CONTROL);
        /* Types that a rank may not send, or not in this form; but no EXIT and no BYE. */
        static const uint8_t types[] = {AQI_CONTROL_HELLO,  AQI_CONTROL_JOB,   AQI_CONTROL_CALL,
                                        AQI_CONTROL_RESULT, AQI_CONTROL_AGREE, 200};
        if (i % 2 == 0) buf[2] = types[(size_t)i / 2 % sizeof(types)];
        if (buf[0] == aqi_wire_version(AQI_WIRE_CONTROL) && i % 2 != 0) buf[0] = 77;
        if (send(to, buf, (size_t)rand() % sizeof(buf), MSG_NOSIGNAL) < 0) return AQ_EPEER;
    }
    return AQ_OK;
}

/* Take part in an allgather of this many bytes, but never read the result. */
static aq_status do_deaf(long number)
{
    static uint8_t zeros[AQI_CONTROL_CHUNK];
    struct aqi_control call = {.type = AQI_CONTROL_CALL,
                               .seq = 1,
                               .call = AQI_CALL_TABLE,
                               .bytes = (uint64_t)number,
                               .data = zeros};
    for (; call.offset < call.bytes; call.offset += call.len) {
        call.len = aqi_min(call.bytes - call.offset, sizeof(zeros));
        while (aqi_channel_send(boot->fd, &call, -1) == AQ_AGAIN)
            poll(&(struct pollfd){.fd = boot->fd, .events = POLLOUT}, 1, 1000);
    }
    return do_pause(0);
}

static aq_status do_leaving(long number)
{
    (void)number;
    return boot->kind->reach(boot, AQI_BOOT_LEAVING);
}

static const struct {
    const char *name;
    aq_status (*run)(long number);
} steps[] = {
    {"open", do_open},   {"barrier", do_barrier},   {"gather", do_gather}, {"share", do_share},
    {"close", do_close}, {"finalize", do_finalize}, {"code", do_code},     {"signal", do_signal},
    {"end", do_end},     {"why", do_why},           {"wait", do_wait},     {"alert", do_alert},
    {"hang", do_hang},   {"pause", do_pause},       {"print", do_print},   {"lines", do_lines},
    {"files", do_files}, {"leaving", do_leaving},   {"hello", do_hello},   {"garbage", do_garbage},
    {"deaf", do_deaf},
};

static void run(const char *step)
{
    const char *at = strchr(step, '@'), *equals = strchr(step, '=');
    if (at != NULL && strtoul(at + 1, NULL, 10) != aqi_job_config.rank) return;
    size_t len = strcspn(step, "=@?");
    for (size_t i = 0; i < AQI_COUNT_OF(steps); i++) {
        if (strlen(steps[i].name) != len || strncmp(steps[i].name, step, len) != 0) continue;
        aq_status status = steps[i].run(equals != NULL ? atol(equals + 1) : 0);
        if (status == AQ_OK) return;
        printf("%s: %s: %s\n", steps[i].name, aq_status_name(status), aq_error_message());
        if (strchr(step, '?') == NULL) do_code(3);
        return;
    }
    printf("no step %s\n", step);
    do_code(4);
}

int main(int argc, char **argv)
{
    struct aqi_settings_table *const tables[] = {&aqi_job_settings};
    if (aqi_settings_load(tables, 1) != AQ_OK) return 5;
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    fflush(stdout);
    return 0;
}
