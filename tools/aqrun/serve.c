/* The hub's hooks on this host: signals, messages for the user, the end of the job. */
#include "alike.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "files.h"
#include "job.h"
#include "job/agent.h"
#include "tree.h"

#include <aqueduct/aqueduct.h>
#include <signal.h>
#include <stdio.h>

static struct rank *serve_rank(uint32_t number)
{
    return &job.ranks[aqi_hub_index(job.hub, number)];
}

static void serve_kill(void *arg, uint32_t number, int signal_number)
{
    const struct rank *rank = serve_rank(number);
    (void)arg;
    if (rank->running) kill(-rank->pid, signal_number);
}

/* A process whose state is unknown counts as asleep. */
static bool serve_asleep(void *arg, uint32_t number)
{
    struct process process;
    (void)arg;
    return !reaper_read_process(serve_rank(number)->pid, &process) || process.state == 'D';
}

/* Add a hint if the kernel has killed processes of this cgroup because of its memory limit since
 * the job began. */
static const char *serve_hint(void *arg)
{
    (void)arg;
    return aqi_cgroup_read("").kills > job.memory_kills
               ? ", because its cgroup reached its memory limit: raise it (memory.max), or start "
                 "fewer processes"
               : "";
}

static void serve_say_line(const char *line)
{
    output_append(&job.output[1], line, strlen(line));
    output_append(&job.output[1], "\n", 1);
    output_flush(&job.output[1]);
}

/* Combine equal messages: hosts often fail for the same reason. */
static void serve_say_alike(const char *text)
{
    char line[AQI_CONTROL_TEXT + 16];
    int len = snprintf(line, sizeof(line), "aqrun: %s", text);
    alike_line(line, aqi_min((size_t)len, sizeof(line) - 1), aqi_now_ns());
}

static void serve_say(void *arg, bool always, const char *text)
{
    (void)arg;
    if (always)
        serve_say_alike(text);
    else
        tell("%s", text);
}

static void serve_over(void *arg, int code)
{
    (void)arg, (void)code;
    job.over = true;
}

static void serve_die(void *arg, const char *why)
{
    (void)arg;
    die("%s", why);
}

static void serve_log(const char *bytes, size_t len)
{
    const char *newline;
    for (; (newline = memchr(bytes, '\n', len)) != NULL; bytes = newline + 1) {
        alike_line(bytes, (size_t)(newline - bytes), aqi_now_ns());
        len -= (size_t)(newline - bytes) + 1;
    }
}

static void serve_output(void *arg, uint32_t rank, unsigned stream, const void *bytes, size_t len)
{
    (void)arg;
    job.printed = true;
    if (stream >= AQI_STREAM_FILES && job.options.output != NULL)
        files_append(job.options.output, rank, stream - AQI_STREAM_FILES, job.id, bytes, len);
    if (stream == AQI_STREAM_LOG) serve_log(bytes, len);
    if (stream >= AQI_COUNT_OF(job.output)) return;
    output_append(&job.output[stream], bytes, len);
    output_flush(&job.output[stream]);
}

/* The ranks may have succeeded, and nothing else would report missing output. */
void serve_report_missing(const char *why)
{
    if (!job.over || job.agent != 0 || aqi_hub_code(job.hub) != 0) return;
    say("the last output of ranks may be missing: %s", why);
    aqi_hub_code_at_least(job.hub, AQI_EXIT_FAILED);
}

static void serve_disconnected(void *arg, uint32_t agent, const char *why)
{
    (void)arg, (void)agent;
    serve_report_missing(why);
}

static void serve_shut(void *arg, unsigned stream)
{
    (void)arg;
    if (job.agent != 0 && stream < AQI_COUNT_OF(job.forwarded))
        output_discard(&job.forwarded[stream]);
}

void serve_open(const struct aqi_hub_params *given, const char *ports)
{
    struct aqi_agent_params params = {.hub = *given,
                                      .local_ranks = job.count,
                                      .where = tree_addresses_of,
                                      .attached = tree_attached,
                                      .disconnected = serve_disconnected,
                                      .ports = ports};
    alike_open(serve_say_line);
    params.hub.program = job.options.command[0];
    params.hub.launcher = "aqrun";
    params.hub.timeout_ns = job.options.timeout_ns;
    params.hub.hooks = (struct aqi_hub_hooks){.kill = serve_kill,
                                              .asleep = serve_asleep,
                                              .hint = serve_hint,
                                              .say = serve_say,
                                              .output = serve_output,
                                              .input = input_arrived,
                                              .shut = serve_shut,
                                              .over = serve_over,
                                              .die = serve_die};
    if (aqi_agent_open(&params, &job.hub) != AQ_OK) die("%s", aq_error_message());
}
