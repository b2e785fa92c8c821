/* Counters, peers and traces of a process, written when it leaves the job or a signal kills it. */
#include "base/board.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/safe_text.h"
#include "base/shmem.h"
#include "base/stats.h"
#include "base/trace.h"
#include "job/settings.h"
#include "lib/lib.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    int stats; /* -1: none */
    char title[32];
    pid_t pid; /* owner, to exclude forked children */
    atomic_bool ended;
} outputs = {.stats = -1};

/*
 * Fatal signals, except SIGQUIT: for a program that handles it, it is a request to leave
 * (init_leave_with_job); otherwise it requests a core dump.
 */
static const int deadly[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL, SIGABRT,
                             SIGSYS,  SIGTERM, SIGINT, SIGHUP, SIGXCPU};

/* The default action is in force again (SA_RESETHAND) and ends the process when this returns. */
static void outputs_on_deadly(int number)
{
    lib_outputs_end();
    raise(number);
}

/* Handlers of a program or sanitizer are kept. */
static void outputs_watch_signals(void)
{
    struct sigaction ours = {.sa_handler = outputs_on_deadly,
                             .sa_flags = (int)SA_RESETHAND | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < AQI_COUNT_OF(deadly); i++) {
        struct sigaction old;
        if (sigaction(deadly[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            (void)sigaction(deadly[i], &ours, NULL);
    }
}

/* Share the counters with monitors of the running job, which show less without them. */
static void outputs_show_counters(struct aqi_boot *boot)
{
    int fd;
    if (boot->info.size == 1 || aqi_counters_share(&fd) != AQ_OK) return;
    (void)boot->kind->show(boot, AQI_SHOW_COUNTERS, fd);
    close(fd);
}

/* Get one end of a socket to the job's common file. */
static aq_status outputs_join(struct aqi_boot *boot, enum aqi_show what, int *fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return aqi_fail_no_fd(errno, "lib", "cannot open a socket for statistics or traces");
    (void)shutdown(ends[0], SHUT_RD);
    aq_status st = boot->kind->show(boot, what, ends[1]);
    close(ends[1]);
    if (st == AQ_OK)
        *fd = ends[0];
    else
        close(ends[0]);
    return st;
}

/* Open a file of this process alone, or the common one. */
static aq_status outputs_open(struct aqi_boot *boot, enum aqi_show what, const char *setting,
                              const char *file, int *fd)
{
    bool own = boot->info.size == 1 || strchr(file, '%') != NULL || strcmp(file, "-") == 0 ||
               strcmp(file, "stderr") == 0;
    return own ? aqi_safe_open(aqi_setting_variable(setting), file, boot->info.rank, fd)
               : outputs_join(boot, what, fd);
}

static aq_status outputs_open_trace(struct aqi_boot *boot)
{
    const char *file = aqi_job_config.trace_file;
    struct aqi_trace_params trace = {.fd = STDERR_FILENO,
                                     .format = (enum aqi_trace_format)lib_config.trace_format,
                                     .limit = lib_config.trace_limit,
                                     .flush = lib_config.trace_flush != 0,
                                     .rank = boot->info.rank};
    aq_status st = AQ_OK;
    (void)aqi_trace_read(lib_config.trace, &trace.mask); /* already validated by load */
    if (file[0] != '\0' && lib_config.trace[0] == '\0') trace.mask = AQI_TRACE_ALL;
    if (trace.mask == 0) return AQ_OK;
    if (file[0] != '\0') st = outputs_open(boot, AQI_SHOW_TRACE, "AQ_TRACE_FILE", file, &trace.fd);
    if (st == AQ_OK) aqi_trace_open(&trace);
    return st;
}

/* Send messages to aqrun itself as long as standard error is the one that aqrun has passed. */
static void outputs_join_log(struct aqi_boot *boot)
{
    unsigned long long device, number;
    int fd;
    if (boot->info.size == 1 ||
        sscanf(aqi_job_config.stderr_id, "%llu:%llu", &device, &number) != 2 ||
        outputs_join(boot, AQI_SHOW_LOG, &fd) != AQ_OK)
        return;
    aqi_log_through(fd, (dev_t)device, (ino_t)number);
}

aq_status lib_outputs_begin(struct aqi_boot *boot)
{
    const char *file = aqi_job_config.stats_file;
    bool to_file = file[0] != '\0';
    outputs_show_counters(boot);
    outputs_join_log(boot);
    aq_status st = outputs_open_trace(boot);
    if (st == AQ_OK && to_file)
        st = outputs_open(boot, AQI_SHOW_STATS, "AQ_STATS_FILE", file, &outputs.stats);
    else if (lib_config.stats)
        outputs.stats = STDERR_FILENO;
    if (st != AQ_OK) return st;
    snprintf(outputs.title, sizeof(outputs.title), "rank %u", boot->info.rank);
    outputs.pid = getpid();
    if (atomic_load(&aqi_trace_mask) != 0 || outputs.stats >= 0) outputs_watch_signals();
    return AQ_OK;
}

/*
 * Handles no signals: they are the program's, and a provider may be unloaded before the process
 * ends. In the file name, the process ID replaces the rank.
 */
aq_status lib_outputs_begin_alone(const char *front)
{
    const char *file = aqi_job_config.stats_file;
    aq_status st = AQ_OK;
    if (outputs.pid == getpid() && outputs.stats >= 0) { /* opened again */
        atomic_store(&outputs.ended, false);
        return AQ_OK;
    }
    if (file[0] != '\0')
        st = aqi_safe_open(aqi_setting_variable("AQ_STATS_FILE"), file, (uint32_t)getpid(),
                           &outputs.stats);
    else if (lib_config.stats)
        outputs.stats = STDERR_FILENO;
    if (st != AQ_OK || outputs.stats < 0) return st;
    snprintf(outputs.title, sizeof(outputs.title), "process %d (%s)", (int)getpid(), front);
    outputs.pid = getpid();
    if (atexit(lib_outputs_end) != 0)
        aqi_log(AQI_LOG_WARN, "lib", "%s prints no counters unless it is closed before exit",
                front);
    return AQ_OK;
}

void lib_outputs_end(void)
{
    int saved_errno = errno;
    if (outputs.pid != getpid() || atomic_exchange(&outputs.ended, true)) return;
    bool all = outputs.stats < 0 ||
               (aqi_counters_print(outputs.stats, outputs.title) && aqi_board_print(outputs.stats));
    if (!all && errno != EPIPE) aqi_safe_lost(aqi_setting_variable("AQ_STATS_FILE"));
    aqi_trace_close();
    errno = saved_errno;
}
