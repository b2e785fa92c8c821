/* aqrun: starts the processes of a job, lets them find each other, and ends them together. */
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"
#include "command.h"
#include "job.h"
#include "job/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* After the last rank has ended and strays are killed, how long pipes may stay open. */
#define MAIN_DRAIN_NS 500000000u
#define MAIN_NAP_NS   1000000000u

struct job job;

static void main_say(const char *fmt, va_list args)
{
    char line[1024];
    int len = vsnprintf(line, sizeof(line) - 1, fmt, args);
    len = (int)aqi_min((size_t)len, sizeof(line) - 2);
    line[len] = '\n';
    output_append(&job.output[1], "aqrun: ", 7);
    output_append(&job.output[1], line, (size_t)len + 1);
    output_flush(&job.output[1]);
}

void say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    main_say(fmt, args);
    va_end(args);
}

void tell(const char *fmt, ...)
{
    if (!job.options.verbose) return;
    va_list args;
    va_start(args, fmt);
    main_say(fmt, args);
    va_end(args);
}

void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    main_say(fmt, args);
    va_end(args);
    exit(EXIT_FAILED);
}

const char *rank_name(const struct rank *rank, char name[RANK_NAME_BYTES])
{
    /* Under a shell the process that joined is the one people want to hear of. */
    bool under_shell = rank->state >= RANK_JOINED && rank->joined_name[0] != '\0';
    snprintf(name, RANK_NAME_BYTES, "rank %u (pid %d, %.100s)", rank->number,
             (int)(under_shell ? rank->joined_pid : rank->pid),
             under_shell ? rank->joined_name : job.options.command[0]);
    return name;
}

/* Descriptors 0 to 2 must be taken, or a socket of ours would become some rank's output. */
static void main_fill_standard(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        fcntl(fd, F_SETFD, 0);
    if (fd > STDERR_FILENO) close(fd);
}

/* When a rank of some job runs aqrun, our ranks shall not hold its way to its own launcher. */
static void main_leave_outer_job(void)
{
    const char *place = getenv("AQ_BOOT_FD");
    if (place == NULL) return;
    int fd = atoi(place);
    int flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : -1;
    if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
}

static uint64_t main_setting(enum aqi_job_row index)
{
    const struct aqi_setting *row = &aqi_job_settings.rows[index];
    const char *variable;
    const char *text = aqi_setting_text(row, &variable);
    uint64_t value = 0;
    if (!aqi_setting_read(row, text, &value)) {
        char complaint[512];
        aqi_setting_complain(row, variable, text, complaint, sizeof(complaint));
        say("%s", complaint);
        exit(EXIT_USAGE);
    }
    return value;
}

static void main_prepare(void)
{
    uint32_t id;
    job.size = job.options.ranks;
    job.began_ns = aqi_now_ns();
    job.memory_kills = aqi_cgroup_read("").kills;
    job.end.by = AQI_MAX_RANKS;
    job.start_timeout_ns = main_setting(AQI_JOB_START_TIMEOUT);
    job.exit_timeout_ns = main_setting(AQI_JOB_EXIT_TIMEOUT);
    job.survive = main_setting(AQI_JOB_SURVIVE) != 0;
    job.bind = main_setting(AQI_JOB_BIND) != 0;
    if (getrandom(job.key, sizeof(job.key), 0) != (ssize_t)sizeof(job.key) ||
        getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
        die("getrandom: %s", strerror(errno));
    snprintf(job.id, sizeof(job.id), "%d-%08x", (int)getpid(), id);
    job.ranks = calloc(job.size, sizeof(*job.ranks));
    if (job.ranks == NULL) die("no memory for %u ranks", job.size);
    for (uint32_t i = 0; i < job.size; i++) {
        struct rank *rank = &job.ranks[i];
        rank->number = i;
        rank->link.place.fd = rank->link.control.fd = rank->life.fd = -1;
        rank->relay[0].source.fd = rank->relay[1].source.fd = -1;
    }
}

static uint64_t main_tick(void)
{
    static uint64_t (*const ticks[])(uint64_t now) = {end_tick, collective_tick, input_tick};
    uint64_t next = UINT64_MAX;
    uint64_t now = aqi_now_ns();
    for (size_t i = 0; i < AQI_COUNT_OF(ticks); i++)
        next = aqi_min(next, ticks[i](now));
    return next;
}

static void main_run(void)
{
    for (;;) {
        bool spawning = spawn_some();
        uint64_t next = main_tick();
        if (job.end.abandoned || (job.running == 0 && !spawning)) return;
        loop_once(spawning ? 0 : next);
    }
}

/* Close the relays that are at their end; false when there is still something to wait for. */
static bool main_relays_done(bool late)
{
    bool done = true;
    for (uint32_t i = 0; i < job.spawned; i++)
        for (size_t k = 0; k < AQI_COUNT_OF(job.ranks[i].relay); k++) {
            struct relay *relay = &job.ranks[i].relay[k];
            if (relay->source.fd >= 0 && late && !relay->paused) relay_finish(relay);
            done = done && relay->source.fd < 0;
        }
    return done;
}

/* Everything the ranks have written goes out, however slow its reader; a signal ends the wait. */
static void main_finish(void)
{
    guard_close();
    reaper_kill_strays();
    input_close();
    end_tell_lost();
    uint64_t limit = aqi_now_ns() + MAIN_DRAIN_NS;
    while (!job.end.abandoned) {
        uint64_t now = aqi_now_ns();
        bool relays = main_relays_done(now > limit);
        if (relays && output_empty(&job.output[0]) && output_empty(&job.output[1])) break;
        loop_once(now > limit ? now + MAIN_NAP_NS : limit);
    }
}

int main(int argc, char **argv)
{
    main_fill_standard();
    main_leave_outer_job();
    job.options.ranks = 1;
    output_open(&job.output[0], STDOUT_FILENO, "standard output");
    output_open(&job.output[1], STDERR_FILENO, "standard error");
    options_read(argc, argv);
    (void)aqi_log_configure("off"); /* what is worth a line, aqrun says itself */
    main_prepare();
    limits_check();
    bind_open();
    int epoll = loop_open();
    if (job.options.test_only) {
        spawn_print(epoll);
        return command_written() ? EXIT_SUCCESS : EXIT_FAILED;
    }
    reaper_open();
    job.groups = guard_open(job.size);
    hub_open();
    spawn_open(epoll);
    main_run();
    main_finish();
    tell("the job has ended with code %d", job.end.code);
    return job.end.code;
}
