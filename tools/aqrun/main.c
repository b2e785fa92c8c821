/* aqrun: starts the processes of a job, connects them, and ends them together. */
#include "alike.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"
#include "command.h"
#include "files.h"
#include "job.h"
#include "job/agent.h"
#include "job/settings.h"
#include "launch.h"
#include "session.h"
#include "ticket.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* How long pipes may stay open after the last rank has ended and strays have been killed. */
#define MAIN_DRAIN_NS 500000000u
#define MAIN_PAUSE_NS 1000000000u

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
    exit(AQI_EXIT_FAILED);
}

/* Occupy descriptors 0 to 2: otherwise a socket of aqrun might become a rank's output. */
static void main_fill_standard(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        fcntl(fd, F_SETFD, 0);
    if (fd > STDERR_FILENO) close(fd);
}

/*
 * If aqrun runs as a rank of another job, its own ranks must not inherit that rank's connection to
 * its launcher.
 */
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
    bool own = strcmp(variable, row->name) == 0, adjusted;
    if (!(own ? aqi_setting_read(row, text, &value)
              : aqi_setting_read_alias(row, text, &value, &adjusted))) {
        char complaint[512];
        aqi_setting_complain(row, variable, text, complaint, sizeof(complaint));
        say("%s", complaint);
        exit(EXIT_USAGE);
    }
    return value;
}

static const char *main_ports(void)
{
    const char *variable;
    return aqi_setting_text(&aqi_job_settings.rows[AQI_JOB_CONTROL_PORTS], &variable);
}

static void main_prepare(struct aqi_hub_params *hub)
{
    uint32_t id;
    job.size = job.count = job.options.ranks;
    job.bind = main_setting(AQI_JOB_BIND) != 0;
    *hub = (struct aqi_hub_params){.ranks = job.size,
                                   .agents = 1,
                                   .fanout = 1,
                                   .host_count = 1,
                                   .survive = main_setting(AQI_JOB_SURVIVE) != 0,
                                   .start_timeout_ns = main_setting(AQI_JOB_START_TIMEOUT),
                                   .exit_timeout_ns = main_setting(AQI_JOB_EXIT_TIMEOUT),
                                   .host_timeout_ns = main_setting(AQI_JOB_HOST_TIMEOUT)};
    if (getrandom(hub->key, sizeof(hub->key), 0) != (ssize_t)sizeof(hub->key) ||
        getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
        die("getrandom: %s", strerror(errno));
    snprintf(job.id, sizeof(job.id), "%d-%08x", (int)getpid(), id);
}

static void main_make_ranks(void)
{
    job.ranks = calloc(job.count + 1, sizeof(*job.ranks));
    if (job.ranks == NULL) die("no memory for %u ranks", job.count);
    for (uint32_t i = 0; i < job.count; i++) {
        struct rank *rank = &job.ranks[i];
        rank->number = job.first + i;
        rank->relay[0].source.fd = rank->relay[1].source.fd = -1;
    }
}

static void main_loop_failed(const char *why)
{
    die("%s", why);
}

static uint64_t main_tick(void)
{
    uint64_t now = aqi_now_ns();
    for (int i = 0; job.agent != 0 && i < 2; i++)
        output_tick(&job.forwarded[i]);
    relay_tick();
    uint64_t due = alike_tick(now);
    /* Calls of the hub may make actions due immediately. */
    uint64_t next = aqi_min(tree_tick(now), input_tick(now)), agent = aqi_agent_tick();
    if (reaper_stopped()) agent = aqi_agent_tick();
    return aqi_min(aqi_min(next, due), agent);
}

static void main_run(void)
{
    for (;;) {
        bool spawning = spawn_some();
        uint64_t next = main_tick();
        if (job.over || aqi_hub_abandoned(job.hub)) return;
        aqi_loop_once(spawning ? 0 : next);
    }
}

/* Whether all relays have ended. If `late`, end those that are not paused. */
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

static bool main_written(void)
{
    bool here = output_empty(&job.output[0]) && output_empty(&job.output[1]);
    bool there =
        job.agent == 0 || (output_empty(&job.forwarded[0]) && output_empty(&job.forwarded[1]));
    return here && (there || !aqi_agent_attached());
}

/* Agents that have left end soon, and so do their sessions; lost agents may never end. */
static void main_await_sessions(void)
{
    uint64_t limit = aqi_now_ns() + MAIN_DRAIN_NS;
    for (;;) {
        uint64_t next = main_tick();
        if (sessions_ended() || aqi_hub_abandoned(job.hub) || aqi_now_ns() >= limit) return;
        aqi_loop_once(aqi_min(next, limit));
    }
}

/*
 * Write all output of the ranks, however slow its reader; a signal ends the wait. Agents leave
 * bottom-up, so that each can still forward the output of those below it.
 */
static void main_finish(void)
{
    guard_close();
    reaper_kill_strays();
    input_close();
    if (job.agent == 0) aqi_hub_print_lost(job.hub);
    uint64_t began = aqi_now_ns(), limit = began + MAIN_DRAIN_NS;
    uint64_t grace = 2 * job.exit_timeout_ns + MAIN_DRAIN_NS, deadline = began + grace;
    while (!aqi_hub_abandoned(job.hub)) {
        uint64_t next = main_tick(), now = aqi_now_ns();
        /* Agents may still be waiting to send output, or sending slowly. */
        if (job.output[0].full || job.output[1].full || job.printed) deadline = now + grace;
        job.printed = false;
        bool relays = main_relays_done(now > limit);
        bool left = aqi_agent_children() == 0 || now > deadline;
        if (relays && left && main_written()) break;
        next = aqi_min(next, now > limit ? now + MAIN_PAUSE_NS : limit);
        aqi_loop_once(next);
    }
    bool alone = aqi_agent_children() == 0;
    if (!alone)
        serve_report_missing(
            "the agents of other hosts have not ended, and nothing arrives from them: "
            "the network is down, or does not carry packets of 576 bytes (MTU)");
    aqi_agent_leave(job.agent != 0 && alone ? aqi_now_ns() + grace : deadline);
    main_await_sessions();
    alike_close();
    sessions_close();
}

/* Create the files of ranks on other hosts, before any of them prints. */
static void main_begin_files(void)
{
    char why[FILES_WHY];
    if (job.agent != 0 || job.agents == 1 || job.options.output == NULL) return;
    for (uint32_t i = 0; i < job.size; i++)
        if ((i < job.first || i >= job.first + job.count) &&
            !files_begin(job.options.output, i, job.id, why))
            die("%s", why);
}

/* Incomplete output files make the job fail. */
static void main_end_files(void)
{
    unsigned lost = files_end();
    if (lost > 1) say("%u more files of --output are incomplete", lost - 1);
    if (lost != 0) aqi_hub_code_at_least(job.hub, AQI_EXIT_FAILED);
}

/* Run the job once the placement of its ranks is known. */
static int main_job(const struct aqi_hub_params *hub, int epoll, const char *ports,
                    const char *refusal)
{
    job.memory_kills = aqi_cgroup_read("").kills;
    job.size = hub->ranks;
    job.agent = hub->agent;
    job.agents = hub->agents;
    job.exit_timeout_ns = hub->exit_timeout_ns;
    main_make_ranks();
    limits_check();
    main_begin_files();
    bind_open();
    reaper_open();
    for (unsigned i = 0; i < 2; i++)
        output_open_forwarded(&job.forwarded[i], i);
    job.groups = guard_open(job.count + 1);
    serve_open(hub, ports);
    aqi_agent_start();
    if (job.agent != 0) remote_watch_input();
    if (job.agents > 1) tree_start_all();
    spawn_open(epoll);
    job.refused = refusal != NULL;
    if (job.refused) aqi_hub_failed(job.hub, AQI_EXIT_FAILED, "%s", refusal);
    main_run();
    main_finish();
    if (job.agent != 0) return EXIT_SUCCESS;
    main_end_files();
    tell("the job ended with code %d", aqi_hub_code(job.hub));
    return aqi_hub_code(job.hub);
}

static int main_agent(int epoll)
{
    struct aqi_hub_params hub;
    const char *refusal;
    const struct ticket *ticket = remote_begin(&hub, &refusal);
    return main_job(&hub, epoll, ticket->ports, refusal);
}

int main(int argc, char **argv)
{
    struct aqi_hub_params hub;
    main_fill_standard();
    main_leave_outer_job();
    output_open(&job.output[0], STDOUT_FILENO, "standard output");
    output_open(&job.output[1], STDERR_FILENO, "standard error");
    (void)aqi_log_configure("off"); /* aqrun prints all messages itself */
    int epoll;
    if (aqi_loop_open(main_loop_failed, &epoll) != AQ_OK) die("%s", aq_error_message());
    if (argc == 2 && strcmp(argv[1], "--agent") == 0) return main_agent(epoll);
    options_read(argc, argv);
    launch_open();
    launch_manager();
    main_prepare(&hub);
    bool remote = launch_is_remote();
    if (job.options.test_only) {
        if (remote)
            launch_print();
        else
            spawn_print(epoll);
        return command_written() ? EXIT_SUCCESS : AQI_EXIT_FAILED;
    }
    if (remote) tree_open(plan_open(&hub, main_ports()));
    return main_job(&hub, epoll, main_ports(), NULL);
}
