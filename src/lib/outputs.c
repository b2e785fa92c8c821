/* Counters, peers and traces of a process, written when it leaves the job or a signal kills it. */
#include "base/board.h"
#include "base/safe_text.h"
#include "base/stats.h"
#include "base/trace.h"
#include "lib/lib.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static struct {
    int stats; /* -1: none */
    char title[32];
    pid_t pid; /* whose they are: not a forked child's */
    atomic_bool ended;
} outputs = {.stats = -1};

/*
 * Signals that kill. SIGQUIT is not among them: a program that handles it is asked by it to leave
 * (leave_with_job), and one that does not wants its core.
 */
static const int deadly[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL, SIGABRT,
                             SIGSYS,  SIGTERM, SIGINT, SIGHUP, SIGXCPU};

/* The default action is in force again (SA_RESETHAND) and ends the process when this returns. */
static void outputs_on_deadly(int number)
{
    lib_outputs_end();
    raise(number);
}

/* A program or sanitizer that has a handler of its own keeps it. */
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

aq_status lib_outputs_begin(uint32_t rank, uint32_t size)
{
    bool to_file = lib_config.stats_file[0] != '\0', trace_file = lib_config.trace_file[0] != '\0';
    struct aqi_trace_params trace = {.file = lib_config.trace_file,
                                     .format = (enum aqi_trace_format)lib_config.trace_format,
                                     .limit = lib_config.trace_limit,
                                     .flush = lib_config.trace_flush != 0,
                                     .rank = rank,
                                     .size = size};
    aq_status st = aqi_trace_parse(lib_config.trace, &trace.mask);
    if (st == AQ_OK && trace_file && lib_config.trace[0] == '\0') trace.mask = AQI_TRACE_ALL;
    if (st == AQ_OK) st = aqi_trace_open(&trace);
    if (st == AQ_OK && to_file)
        st = aqi_safe_open("AQ_STATS_FILE", lib_config.stats_file, rank, size, &outputs.stats);
    else if (lib_config.stats)
        outputs.stats = STDERR_FILENO;
    if (st != AQ_OK) return st;
    snprintf(outputs.title, sizeof(outputs.title), "rank %u", rank);
    outputs.pid = getpid();
    if (trace.mask != 0 || to_file) outputs_watch_signals();
    return AQ_OK;
}

void lib_outputs_end(void)
{
    if (outputs.pid != getpid() || atomic_exchange(&outputs.ended, true)) return;
    if (outputs.stats >= 0) {
        aqi_counters_print(outputs.stats, outputs.title);
        aqi_board_print(outputs.stats);
    }
    aqi_trace_close();
}
