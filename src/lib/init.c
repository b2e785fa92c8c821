/* Joining and leaving a job: the only place that sees job, core and transports together. */
#include "base/fail.h"
#include "base/log.h"
#include "base/stats.h"
#include "core/core.h"
#include "job/boot.h"
#include "job/settings.h"
#include "lib/config.h"
#include "transport/fault.h"

#include <aqueduct/aqueduct.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum state { NEVER, STARTING, RUNNING, LEFT };

static struct {
    _Atomic int state;
    struct aqi_boot *boot;
    pid_t pid; /* who joined: a forked child must not speak for it */
    atomic_bool leaving;
} lib;

/* --- ending ---------------------------------------------------------------------------------- */

static void print_stats(void)
{
    if (!lib_config.stats) return;
    char title[64];
    snprintf(title, sizeof(title), "rank %u", aq_job_rank());
    aqi_counters_print(STDERR_FILENO, title);
}

static _Noreturn void on_alarm(int signal_number)
{
    (void)signal_number;
    _exit(128 + SIGALRM);
}

/*
 * The last steps of a process that ends the job or is told to: flush what the program wrote, but
 * not for ever (another thread may hold a stream's lock, or a pipe be full).
 */
static _Noreturn void leave(int code)
{
    sigset_t set;
    signal(SIGALRM, on_alarm);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* this may be the progress thread */
    alarm(1);
    print_stats();
    fflush(NULL);
    _exit(code);
}

_Noreturn void aq_exit(int code)
{
    if (!atomic_exchange(&lib.leaving, true) && lib.boot != NULL && lib.pid == getpid())
        aqi_boot_exit(lib.boot, code, NULL);
    leave(code);
}

/*
 * Somebody else ended the job. A SIGQUIT handler of the program's own runs first, as the
 * documents ask; one that returns has had its chance.
 */
static _Noreturn void leave_with_job(int code)
{
    struct sigaction action;
    atomic_store(&lib.leaving, true);
    if (sigaction(SIGQUIT, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
        action.sa_handler != SIG_IGN) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGQUIT);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        raise(SIGQUIT);
    }
    leave(code);
}

/* exit() or a return from main without aq_finalize ends the whole job. */
static void on_process_exit(int code, void *arg)
{
    (void)arg;
    if (atomic_load(&lib.state) != RUNNING || lib.pid != getpid()) return;
    if (!atomic_exchange(&lib.leaving, true)) aqi_boot_exit(lib.boot, code, NULL);
    aqi_core_halt_progress();
    print_stats();
}

/* --- what the core asks of the job ----------------------------------------------------------- */

/*
 * Results of collective calls and events come over one control channel, and only one thread reads
 * it. Who attends to events leaves it alone while another makes a collective call, which sees them.
 */
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;

static aq_status boot_allgather(void *arg, const void *mine, size_t len, void *all)
{
    pthread_mutex_lock(&control);
    aq_status st = aqi_boot_allgather(arg, mine, len, all);
    pthread_mutex_unlock(&control);
    return st;
}

static aq_status boot_share(void *arg, const char *name, size_t bytes, int *fd)
{
    pthread_mutex_lock(&control);
    aq_status st = aqi_boot_share(arg, name, bytes, fd);
    pthread_mutex_unlock(&control);
    return st;
}

static bool boot_alert(void *arg)
{
    return aqi_boot_alert(arg);
}

static int boot_fd(void *arg)
{
    return aqi_boot_fd(arg);
}

static void on_event(void *arg, const struct aqi_boot_event *event)
{
    (void)arg;
    if (event->type == AQI_BOOT_EXIT) leave_with_job(event->code);
    aqi_core_peer_down(event->rank, event->text);
}

static void boot_attend(void *arg)
{
    if (pthread_mutex_trylock(&control) != 0) return;
    aq_status st = aqi_boot_progress(arg, on_event, NULL);
    pthread_mutex_unlock(&control);
    if (st == AQ_EPEER) leave_with_job(EXIT_FAILURE);
}

static void boot_fatal(void *arg, const char *why)
{
    aqi_log(AQI_LOG_ERROR, "core", "%s", why);
    if (!atomic_exchange(&lib.leaving, true)) aqi_boot_exit(arg, EXIT_FAILURE, why);
    leave(EXIT_FAILURE);
}

/* --- joining --------------------------------------------------------------------------------- */

static aq_status read_params(const aq_init_params *given, aq_init_params *params)
{
    *params = (aq_init_params){.struct_size = sizeof(*params)};
    if (given == NULL) return AQ_OK;
    if (given->struct_size < sizeof(size_t) || given->struct_size > 4096)
        return aqi_fail(AQ_EINVAL, "lib",
                        "aq_init: params.struct_size is %zu: set it to sizeof(aq_init_params)",
                        given->struct_size);
    size_t known = given->struct_size < sizeof(*params) ? given->struct_size : sizeof(*params);
    memcpy(params, given, known);
    if ((unsigned)params->thread_mode > AQ_THREAD_MULTIPLE)
        return aqi_fail(AQ_EINVAL, "lib", "aq_init: thread mode %d is not one of aq_thread_mode",
                        (int)params->thread_mode);
    return AQ_OK;
}

static aq_status load_settings(void)
{
    size_t count;
    struct aqi_settings_table *const *tables = lib_tables(&count);
    aq_status st = aqi_settings_load(tables, count);
    if (st == AQ_OK) st = aqi_log_configure(lib_config.log);
    if (aqi_job_config.rank == 0) aqi_settings_warn_unknown(tables, count);
    if (st == AQ_OK) st = aqi_fault_configure(lib_config.fault);
    return st;
}

static aq_status open_core(const aq_init_params *params, aq_team **world)
{
    const struct aqi_boot_info *info = aqi_boot_info(lib.boot);
    struct aqi_core_params core = {.boot = {.allgather = boot_allgather,
                                            .share = boot_share,
                                            .alert = boot_alert,
                                            .attend = boot_attend,
                                            .fd = boot_fd,
                                            .fatal = boot_fatal,
                                            .arg = lib.boot},
                                   .thread_mode = params->thread_mode,
                                   .rank = info->rank,
                                   .size = info->size,
                                   .local_rank = info->local_rank,
                                   .local_size = info->local_size,
                                   .host = info->host};
    memcpy(core.key, info->key, sizeof(core.key));
    aqi_log_identity(info->rank);
    return aqi_core_open(&core, world);
}

/* A start that failed on this rank fails for all: the launcher hears why and tells the others. */
static aq_status give_up(aq_status st)
{
    if (lib.boot != NULL) {
        aqi_boot_exit(lib.boot, EXIT_FAILURE, aq_error_message());
        aqi_boot_close(lib.boot);
        lib.boot = NULL;
    }
    atomic_store(&lib.state, LEFT);
    return st;
}

aq_status aq_init(const aq_init_params *given, aq_team **world)
{
    aq_init_params params;
    int never = NEVER;
    if (world == NULL) return aqi_fail(AQ_EINVAL, "lib", "aq_init: world is NULL");
    aq_status st = read_params(given, &params);
    if (st != AQ_OK) return st;
    if (!atomic_compare_exchange_strong(&lib.state, &never, STARTING))
        return aqi_fail(AQ_ESTATE, "lib", "aq_init: called a second time in this process");
    lib.pid = getpid();
    st = load_settings();
    if (st == AQ_OK) st = aqi_boot_open(&lib.boot);
    if (st == AQ_OK) st = open_core(&params, world);
    if (st != AQ_OK) return give_up(st);
    atomic_store(&lib.state, RUNNING);
    if (on_exit(on_process_exit, NULL) != 0)
        aqi_log(AQI_LOG_WARN, "lib", "cannot watch for exit(): end with aq_finalize or aq_exit");
    return AQ_OK;
}

aq_status aq_finalize(void)
{
    aq_status st = aqi_core_callable("aq_finalize");
    if (st != AQ_OK) return st;
    st = aqi_core_quiesce();
    print_stats();
    aq_status left = aqi_boot_finalize(lib.boot);
    if (st == AQ_OK) st = left;
    atomic_store(&lib.state, LEFT);
    aqi_core_close();
    aqi_boot_close(lib.boot);
    lib.boot = NULL;
    return st;
}

const char *aq_version(void)
{
#define TEXT(x)          #x
#define VERSION(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
    return VERSION(AQ_VERSION_MAJOR, AQ_VERSION_MINOR, AQ_VERSION_PATCH);
}
