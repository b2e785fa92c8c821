/* The agent of a host in a job of a manager: the child forked by the host's first rank. */
#include "base/clock.h"
#include "base/log.h"
#include "job/agent.h"
#include "job/desk.h"
#include "job/loop.h"
#include "job/managed.h"
#include "job/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Time limit for the arrival of a claim that has been sent. */
#define PROXY_CLAIM_NS 1000000000u

static struct {
    struct managed_plan plan;
    struct aqi_source feed;
    struct aqi_hub *hub;
    const char **hosts; /* their names, which are numbers */
    char above[MANAGED_FEED_MAX];
    size_t above_len;
    uint64_t began_ns;
    uint64_t feed_closed_ns; /* when the feed was closed; 0: not yet */
    bool missing_reported;   /* missing ranks have been reported */
    bool over;
} proxy;

/* Close all descriptors of the program: only 3, 4 and standard error stay open. */
static void proxy_close_inherited(struct managed_plan *plan)
{
    enum { FEED = 3, LISTENER = 4, FIRST_FREE = 5 };
    int feed = fcntl(plan->feed, F_DUPFD, 10), listener = fcntl(plan->listener, F_DUPFD, 10);
    int null = open("/dev/null", O_RDWR);
    if (feed < 0 || listener < 0 || null < 0) _exit(AQI_EXIT_FAILED);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(feed, FEED);
    dup2(listener, LISTENER);
    syscall(SYS_close_range, FIRST_FREE, ~0u, 0);
    plan->feed = FEED;
    plan->listener = LISTENER;
    fcntl(FEED, F_SETFD, FD_CLOEXEC);
    fcntl(LISTENER, F_SETFD, FD_CLOEXEC);
}

/* Reset the program's signal handlers and mask. */
static void proxy_reset_signals(void)
{
    static const int ignored[] = {SIGPIPE, SIGHUP,  SIGINT,  SIGQUIT,
                                  SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
    sigset_t none;
    for (int i = 1; i < NSIG; i++)
        if (i != SIGKILL && i != SIGSTOP) (void)signal(i, SIG_DFL);
    /* A manager that ends the job signals all processes. The agent waits for its ranks to end, and
     * ends with them. */
    for (size_t i = 0; i < AQI_COUNT_OF(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void proxy_print(const char *text)
{
    char line[2048];
    int len = snprintf(line, sizeof(line) - 1, "aqueduct: %s", text);
    len = (int)aqi_min((size_t)len, sizeof(line) - 2);
    line[len] = '\n';
    (void)!write(STDERR_FILENO, line, (size_t)len + 1);
}

static _Noreturn void proxy_exit(const char *why)
{
    proxy_print(why);
    _exit(AQI_EXIT_FAILED);
}

static _Noreturn void proxy_fail(const char *why)
{
    struct managed_answer answer = {.failed = 1};
    snprintf(answer.text, sizeof(answer.text), "this host's agent: %s", why);
    (void)send(proxy.plan.feed, &answer, sizeof(answer), MSG_NOSIGNAL);
    _exit(AQI_EXIT_FAILED);
}

/* --- hooks of the hub ----------------------------------------------------------------------- */

static void proxy_say(void *arg, bool always, const char *text)
{
    (void)arg;
    if (always) proxy_print(text);
}

static void proxy_output(void *arg, uint32_t rank, unsigned stream, const void *bytes, size_t len)
{
    (void)arg, (void)rank;
    if (stream != AQI_STREAM_LOG) return; /* other output is handled by the manager */
    (void)!write(STDERR_FILENO, bytes, len);
}

static void proxy_over(void *arg, int code)
{
    (void)arg, (void)code;
    proxy.over = true;
}

static void proxy_die(void *arg, const char *why)
{
    (void)arg;
    proxy_exit(why);
}

static const char *proxy_where(void *arg, uint32_t number)
{
    uint32_t at = proxy.plan.info.host;
    const char *text = proxy.above;
    (void)arg;
    while (text < proxy.above + proxy.above_len) {
        at = aqi_hub_parent(at, AQI_MANAGED_FANOUT);
        if (at == number) return text;
        text += strlen(text) + 1;
    }
    return NULL;
}

/* --- messages of the rank that forked us ---------------------------------------------------- */

static void proxy_read_key(uint8_t key[AQI_JOB_KEY_BYTES])
{
    ssize_t got;
    do {
        got = recv(proxy.plan.feed, key, AQI_JOB_KEY_BYTES, 0);
    } while (got < 0 && errno == EINTR);
    if (got != AQI_JOB_KEY_BYTES) _exit(AQI_EXIT_FAILED); /* the rank has failed or died */
}

static void proxy_feed_ready(struct aqi_source *source)
{
    ssize_t got = recv(source->fd, proxy.above, sizeof(proxy.above) - 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) { /* the rank has finished or died, but others may have connected */
        aqi_source_close(source);
        proxy.feed_closed_ns = aqi_now_ns();
        return;
    }
    proxy.above_len = (size_t)got;
    aqi_hub_now(proxy.hub, aqi_now_ns());
    aqi_agent_start();
}

static void proxy_open(struct aqi_agent_params *params)
{
    const struct aqi_manager_info *info = &proxy.plan.info;
    struct managed_answer answer = {0};
    proxy.hosts = calloc(info->hosts, sizeof(*proxy.hosts));
    for (uint32_t i = 0; proxy.hosts != NULL && i < info->hosts; i++)
        if (asprintf((char **)(uintptr_t)&proxy.hosts[i], "node %u", i) < 0) proxy.hosts = NULL;
    if (proxy.hosts == NULL) proxy_fail("no memory");
    params->hub.hosts = info->hosts > 1 ? proxy.hosts : NULL;
    if (aqi_agent_open(params, &proxy.hub) != AQ_OK) proxy_fail(aq_error_message());
    if (info->hosts > 1 && aqi_agent_offer(answer.text, sizeof(answer.text)) != AQ_OK)
        proxy_fail(aq_error_message());
    if (aqi_desk_listen(proxy.plan.listener, proxy.plan.secret) != AQ_OK)
        proxy_fail(aq_error_message());
    if (send(proxy.plan.feed, &answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer))
        _exit(AQI_EXIT_FAILED);
    aqi_source_open(&proxy.feed, proxy.plan.feed, proxy_feed_ready);
    aqi_source_watch(&proxy.feed, EPOLLIN);
}

/* Handle ranks that were started by the manager but do not connect. */
static uint64_t proxy_tick(void)
{
    uint64_t limit = proxy.began_ns + aqi_job_config.start_timeout_ns, now = aqi_now_ns();
    if (proxy.missing_reported || aqi_desk_claimed() == aqi_hub_local_ranks(proxy.hub))
        return UINT64_MAX;
    if (proxy.feed_closed_ns != 0 && aqi_desk_claimed() == 0) {
        /* The rank that forked us claimed its place before it closed the feed, or has died. */
        proxy.over = now >= proxy.feed_closed_ns + PROXY_CLAIM_NS;
        return proxy.feed_closed_ns + PROXY_CLAIM_NS;
    }
    if (now < limit) return limit;
    proxy.missing_reported = true;
    aqi_hub_failed(
        proxy.hub, AQI_EXIT_FAILED,
        "not all processes started by the manager called aq_init within %.3g s (AQ_START_TIMEOUT)",
        (double)aqi_job_config.start_timeout_ns / 1e9);
    return UINT64_MAX;
}

static void proxy_run(void)
{
    while (!proxy.over && !aqi_hub_abandoned(proxy.hub)) {
        uint64_t late = proxy_tick();
        uint64_t next = aqi_min(late, aqi_agent_tick());
        if (!proxy.over) aqi_loop_once(next);
    }
    uint64_t limit = aqi_now_ns() + aqi_job_config.exit_timeout_ns;
    for (;;) {
        uint64_t next = aqi_agent_tick();
        if (aqi_agent_children() == 0 || aqi_now_ns() >= limit) break;
        aqi_loop_once(aqi_min(next, limit));
    }
    aqi_agent_leave(limit);
}

_Noreturn void aqi_managed_agent(const struct managed_plan *plan)
{
    struct aqi_agent_params params = {.hub = {.ranks = plan->info.size,
                                              .agents = plan->info.hosts,
                                              .agent = plan->info.host,
                                              .fanout = AQI_MANAGED_FANOUT,
                                              .agent_of = plan->info.host_of,
                                              .host_count = plan->info.hosts,
                                              .host = plan->info.host,
                                              .program = plan->program,
                                              .launcher = "the job's first host",
                                              .survive = aqi_job_config.survive != 0,
                                              .start_timeout_ns = aqi_job_config.start_timeout_ns,
                                              .exit_timeout_ns = aqi_job_config.exit_timeout_ns,
                                              .host_timeout_ns = aqi_job_config.host_timeout_ns,
                                              .hooks = {.kill = aqi_desk_kill,
                                                        .say = proxy_say,
                                                        .output = proxy_output,
                                                        .over = proxy_over,
                                                        .die = proxy_die}},
                                      .local_ranks = plan->info.local_size,
                                      .where = proxy_where,
                                      .ports = aqi_job_config.control_ports};
    int epoll;
    proxy.plan = *plan;
    proxy_close_inherited(&proxy.plan);
    proxy_reset_signals();
    (void)setsid();
    prctl(PR_SET_NAME, "aq-agent");
    (void)aqi_log_configure("off");
    /* Read the key first: closing the feed with unread data would discard our last messages to that
     * rank. */
    proxy_read_key(params.hub.key);
    if (aqi_loop_open(proxy_exit, &epoll) != AQ_OK) proxy_fail(aq_error_message());
    proxy.began_ns = aqi_now_ns();
    proxy_open(&params);
    proxy_run();
    _exit(EXIT_SUCCESS);
}
