/* Joining and leaving a job: the only file that uses job, core and transports together. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/topology.h"
#include "base/trace.h"
#include "core/core.h"
#include "job/boot.h"
#include "job/settings.h"
#include "lib/lib.h"
#include "transport/layers/fault.h"

#include <aqueduct/aqueduct.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum state { NEVER, STARTING, RUNNING, LEFT };

/* The code of a process that ends if the C library does not report it. */
#define LIB_CODE_UNKNOWN INT_MIN

static struct {
    _Atomic int state;
    struct aqi_boot *_Atomic boot; /* another thread may end the process while this one joins */
    _Atomic pid_t pid;             /* the process that joined: a forked child must not act for it */
    aq_team *world;
    _Atomic unsigned users; /* aq_init calls without a matching aq_finalize yet */
    atomic_bool leaving;
    _Atomic uint64_t exit_wait_ns; /* of aq_init_params */
    atomic_bool announced;         /* the launcher knows that this process ends, or need not know */
    /* For aq_exit_together: this process waits for the end of the job; the job ends. */
    atomic_bool waiting, job_ends;
    atomic_bool queried; /* other ranks have asked whether this process ends, too */
    atomic_int ready;    /* number of ranks that were ready to end when they asked */
} lib;

/* This thread ends the process. */
static _Thread_local bool leaver;

/* Returns true in the first thread that calls it, which then ends the process. */
static bool init_begin_leaving(void)
{
    if (atomic_exchange(&lib.leaving, true)) return false;
    leaver = true;
    return true;
}

/* Whether a launcher reports, once for all ranks, why the job ends. */
static bool init_launched(const struct aqi_boot *boot)
{
    return boot->kind != &aqi_boot_single;
}

/* --- ending ---------------------------------------------------------------------------------- */

/* The exit code: that of the first thread, except that a nonzero code replaces 0, as in the job. */
static atomic_int init_code = LIB_CODE_UNKNOWN;

static int init_keep(int code)
{
    int first = atomic_load(&init_code);
    bool forked = lib.pid != 0 && lib.pid != getpid(); /* the code of its parent does not count */
    while (forked || first == LIB_CODE_UNKNOWN || (first == 0 && code != 0))
        if (atomic_compare_exchange_strong(&init_code, &first, code)) return code;
    return first;
}

/*
 * At the end of the job, the launcher sends SIGTERM, and later SIGKILL, to processes that still
 * run. Here SIGTERM would cut off the last output.
 */
static void init_ignore_sigterm(void)
{
    if (init_launched(lib.boot)) signal(SIGTERM, SIG_IGN);
}

static void init_time_is_up(void)
{
    _exit(atomic_load(&init_code));
}

/*
 * One thread at a time, so that none ends the process while another still writes output or leaves a
 * manager. A signal handler that has interrupted such a step skips it.
 */
static void init_in_turn(void (*step)(void))
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    static _Thread_local atomic_bool mine;
    if (atomic_load(&mine)) return;
    pthread_mutex_lock(&turn);
    atomic_store(&mine, true);
    step();
    atomic_store(&mine, false);
    pthread_mutex_unlock(&turn);
}

static void init_depart(void)
{
    lib.boot->kind->depart(lib.boot);
}

/*
 * The last steps of a process when the job ends. The time for flushing the program's output is
 * limited, since another thread may hold a stream's lock, or a pipe may be full.
 */
static _Noreturn void init_leave(int code)
{
    code = init_keep(code);
    signal(SIGTERM, SIG_IGN); /* the time is limited from here on, even without a launcher */
    lib_limit(init_time_is_up);
    init_in_turn(lib_outputs_end);
    fflush(NULL);
    if (lib.boot != NULL && lib.pid == getpid()) init_in_turn(init_depart);
    _exit(code);
}

/*
 * Wait until the thread that ends the process has announced the exit: without the announcement, the
 * launcher would treat it as a death. That thread may hang, so the wait is limited.
 */
static void init_await_announcement(void)
{
    enum { TICK_NS = 100000 };
    const struct timespec tick = {.tv_nsec = TICK_NS};
    uint64_t ticks = lib_exit_timeout_ns() / TICK_NS;
    for (; ticks != 0 && !atomic_load(&lib.announced) && !atomic_load(&lib.job_ends); ticks--)
        (void)nanosleep(&tick, NULL);
}

/*
 * The first thread announces the exit, even from a signal handler that interrupts it; others wait
 * until it has.
 */
static void init_announce_exit(bool first, int code, const char *why)
{
    init_ignore_sigterm(); /* it may arrive before we continue */
    if (first || (leaver && !atomic_load(&lib.announced))) {
        lib.boot->kind->exit(lib.boot, code, why);
        atomic_store(&lib.announced, true);
    } else {
        init_await_announcement();
    }
}

_Noreturn void aq_exit(int code)
{
    code = init_keep(code);
    bool first = init_begin_leaving();
    if (lib.boot == NULL || lib.pid != getpid()) init_leave(code);
    bool waiting = atomic_load(&lib.waiting) && !atomic_load(&lib.job_ends);
    init_announce_exit(first || waiting, code, NULL);
    init_leave(code);
}

/*
 * The job ends. The program's SIGQUIT handler runs first (docs/semantics.md), and may return.
 * Returns only to the thread that already ends the process.
 */
static void init_leave_with_job(int code)
{
    struct sigaction action;
    if (atomic_load(&lib.waiting)) {
        atomic_store(&lib.job_ends, true);
        return;
    }
    code = init_keep(code);
    (void)init_begin_leaving();
    atomic_store(&lib.announced, true);
    if (sigaction(SIGQUIT, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
        action.sa_handler != SIG_IGN) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGQUIT);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        raise(SIGQUIT);
    }
    init_leave(code);
}

/*
 * exit() or a return from main without aq_finalize ends the whole job, or is a death like others,
 * or, with AQ_CATCH_EXIT=no, affects no other process. If another thread already ends the process,
 * its code stays.
 */
static void init_on_process_exit(int code, void *arg)
{
    char why[240];
    (void)arg;
    if (atomic_load(&lib.state) != RUNNING || lib.pid != getpid()) return;
    int first = code != LIB_CODE_UNKNOWN ? init_keep(code) : atomic_load(&init_code);
    if (!aqi_job_config.catch_exit) {
        /* Others may wait for its last messages, which the network may have lost. */
        aqi_core_deliver(aqi_job_config.exit_timeout_ns);
        (void)lib.boot->kind->reach(lib.boot, AQI_BOOT_LEFT);
    } else if (lib.exit_wait_ns != 0 && !atomic_load(&lib.leaving))
        (void)aq_exit_together(code != LIB_CODE_UNKNOWN ? code : 0, lib.exit_wait_ns);
    else if (code != LIB_CODE_UNKNOWN && init_begin_leaving() && aqi_job_config.survive == 0) {
        /* Otherwise an incomplete job would look successful. */
        snprintf(why, sizeof(why),
                 "exit(%d) or a return from main before aq_finalize ends the job, even for "
                 "processes that have not finished; call aq_finalize in every process, or aq_exit "
                 "if this is intended",
                 code);
        init_announce_exit(true, code, aq_job_size() > 1 ? why : NULL);
    }
    init_ignore_sigterm();
    aqi_core_halt_progress();
    init_in_turn(lib_outputs_end);
    init_in_turn(init_depart);
    if (first != code) init_leave(first);
}

#ifndef __GLIBC__ /* without on_exit, only aqrun sees the code, when the process has ended */
static void lib_at_exit(void)
{
    init_on_process_exit(LIB_CODE_UNKNOWN, NULL);
}

static int on_exit(void (*function)(int code, void *arg), void *arg)
{
    (void)function;
    (void)arg;
    return atexit(lib_at_exit);
}
#endif

/* --- the core's interface to the job --------------------------------------------------------- */

/*
 * Held by the thread that reads the control channel, over which both events and the results of
 * collective calls arrive. While a thread makes a collective call, which also handles events,
 * others that only want to handle events skip that.
 */
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;

static void init_on_event(void *arg, const struct aqi_boot_event *event)
{
    (void)arg;
    switch (event->type) {
    case AQI_BOOT_ENDING:
        atomic_store(&lib.ready, event->code);
        atomic_store(&lib.queried, true);
        if (aqi_core_on_progress_thread()) aqi_core_news();
        break;
    case AQI_BOOT_EXIT:
        init_leave_with_job(event->code);
        break;
    case AQI_BOOT_PEER_LOST:
        aqi_core_peer_down(event->rank, event->text);
        break;
    case AQI_BOOT_AGREED:
        aqi_core_agreed(event->name, event->status, event->set);
        break;
    }
}

/*
 * Ranks that are ending query the others repeatedly. A process that still polls or waits at the
 * fourth query will not end by itself, so they need not wait for it. One query is not enough, nor
 * are four that are read at once: a process that had no core for a while may be leaving a barrier.
 * The count restarts when another process announces its end, since this one may be next.
 */
static void init_answer(void)
{
    enum { ENOUGH = 4, APART_NS = 50000000 };
    static _Atomic unsigned queries;
    static _Atomic uint64_t last_ns;
    static atomic_int last_ready;
    if (AQI_LIKELY(!atomic_load_explicit(&lib.queried, memory_order_relaxed)) ||
        aqi_core_on_progress_thread() || !atomic_exchange(&lib.queried, false))
        return;
    uint64_t now = aqi_now_ns();
    int ready = atomic_load(&lib.ready);
    if (atomic_exchange(&last_ready, ready) != ready) queries = 0;
    if (queries != 0 && now - last_ns < APART_NS) return;
    last_ns = now;
    if (++queries == ENOUGH && !atomic_load(&lib.leaving))
        (void)lib.boot->kind->ending(lib.boot, 0, AQI_BOOT_WAIT_NONE);
}

static void init_boot_attend(void *arg)
{
    struct aqi_boot *boot = arg;
    if (pthread_mutex_trylock(&control) != 0) return;
    aq_status st = boot->kind->progress(boot, init_on_event, NULL);
    pthread_mutex_unlock(&control);
    /* A lost message is not repeated, and others may wait for it. */
    if (st < 0 && st != AQ_ELIMIT) init_leave_with_job(EXIT_FAILURE);
    init_answer();
}

static struct aqi_boot *init_begin_collective(void *arg)
{
    pthread_mutex_lock(&control);
    return arg;
}

/* If the job ended during the wait, end as in any other wait. */
static aq_status init_end_collective(void *arg, aq_status st)
{
    pthread_mutex_unlock(&control);
    if (st == AQ_EPEER) init_boot_attend(arg);
    return st;
}

static aq_status init_boot_allgather(void *arg, const void *mine, size_t len, void *all)
{
    struct aqi_boot *boot = init_begin_collective(arg);
    return init_end_collective(boot, boot->kind->allgather(boot, mine, len, all));
}

static aq_status init_boot_table(void *arg, const void *mine, size_t len, const void **table)
{
    struct aqi_boot *boot = init_begin_collective(arg);
    return init_end_collective(boot, aqi_boot_table(boot, mine, len, table));
}

static aq_status init_boot_share(void *arg, const char *name, size_t bytes, int *fd)
{
    struct aqi_boot *boot = init_begin_collective(arg);
    return init_end_collective(boot, boot->kind->share(boot, name, bytes, fd));
}

static bool init_boot_alert(void *arg)
{
    return aqi_boot_alert(arg);
}

static aq_status init_boot_agree(void *arg, const uint64_t name[2], aq_status mine,
                                 const uint8_t *members)
{
    struct aqi_boot *boot = arg;
    return boot->kind->agree(boot, name, mine, members);
}

static int init_boot_fd(void *arg)
{
    return ((struct aqi_boot *)arg)->fd;
}

static void init_boot_fatal(void *arg, const char *why)
{
    struct aqi_boot *boot = arg;
    int code = init_keep(EXIT_FAILURE);
    aqi_log(init_launched(boot) ? AQI_LOG_INFO : AQI_LOG_ERROR, "core", "%s", why);
    init_announce_exit(init_begin_leaving(), code, why);
    init_leave(code);
}

struct aqi_core_boot lib_core_boot(struct aqi_boot *boot)
{
    return (struct aqi_core_boot){.allgather = init_boot_allgather,
                                  .table = init_boot_table,
                                  .share = init_boot_share,
                                  .alert = init_boot_alert,
                                  .attend = init_boot_attend,
                                  .fd = init_boot_fd,
                                  .agree = init_boot_agree,
                                  .fatal = init_boot_fatal,
                                  .arg = boot};
}

/* --- ending together -------------------------------------------------------------------------- */

/* Maximum time that a round of waiting counts for, since the process may have been stopped. */
#define ROUND_NS 100000000u

/* Wait until the launcher announces the end of the job, or has ended. */
static void init_await_end(uint64_t wait_ns)
{
    struct pollfd control_fd = {.fd = lib.boot->fd, .events = POLLIN};
    uint64_t waited = 0, now = aqi_now_ns(), before;
    while (!atomic_load(&lib.job_ends) && waited < wait_ns) {
        aqi_core_ending();
        init_boot_attend(lib.boot);
        if (!atomic_load(&lib.job_ends)) (void)poll(&control_fd, 1, 1);
        before = now;
        now = aqi_now_ns();
        waited += aqi_min(now - before, ROUND_NS);
    }
}

aq_status aq_exit_together(int code, uint64_t wait_ns)
{
    if (atomic_load(&lib.state) != RUNNING || lib.pid != getpid())
        return aqi_fail(AQ_ESTATE, "lib", "aq_exit_together: this process is not in a job");
    if (!init_begin_leaving()) {
        while (!leaver)
            pause();
        return AQ_OK;
    }
    code = init_keep(code);
    wait_ns = aqi_min(wait_ns, aqi_job_config.exit_timeout_ns);
    atomic_store(&lib.waiting, true);
    if (lib.boot->kind->ending(lib.boot, code, wait_ns))
        init_await_end(wait_ns + aqi_job_config.exit_timeout_ns);
    return AQ_OK;
}

/* --- joining --------------------------------------------------------------------------------- */

static aq_status init_read_params(const aq_init_params *given, aq_init_params *params)
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
        return aqi_fail(AQ_EINVAL, "lib",
                        "aq_init: thread mode %d is not a value of aq_thread_mode",
                        (int)params->thread_mode);
    if (params->segment_modes >= AQ_SEGMENT_BIT(AQ_SEGMENT_EVERYTHING + 1))
        return aqi_fail(AQ_EINVAL, "lib",
                        "aq_init: params.segment_modes is 0x%x, which contains bits that are not "
                        "in aq_segment_mode",
                        params->segment_modes);
    return AQ_OK;
}

/* Mode everything only on request, since attaching allocates nothing then. */
static unsigned init_segment_modes(const aq_init_params *params)
{
    return params->segment_modes != 0
               ? params->segment_modes
               : AQ_SEGMENT_BIT(AQ_SEGMENT_FAST) | AQ_SEGMENT_BIT(AQ_SEGMENT_LARGE);
}

static aq_status init_load_settings(const aq_init_params *params)
{
    size_t count;
    struct aqi_settings_table *const *tables = lib_tables(&count);
    aq_status st = lib_load_settings(false);
    if (st == AQ_OK) st = aqi_log_configure(lib_config.log);
    if (aqi_job_config.rank == 0) aqi_settings_warn(tables, count, lib_other_names);
    if (st == AQ_OK) st = aqi_fault_configure(lib_config.fault);
    if (st == AQ_OK) st = aqi_core_choose_segment_mode(init_segment_modes(params));
    return st;
}

int aq_job_launched(void)
{
    uint32_t rank;
    return aqi_job_rank_given(&rank) || lib_load_settings(true) != AQ_OK || aqi_boot_is_specified();
}

/* The affinity mask of a bound process does not show how many cores all ranks of the host share. */
static uint32_t init_local_cores(void)
{
    uint64_t cores = aqi_job_config.local_cores;
    return cores != 0 ? (uint32_t)cores : aqi_cores();
}

static const char *init_name(const char *given, const char *own)
{
    return given != NULL ? aqi_setting_keep(given) : own;
}

static aq_status init_open_core(const aq_init_params *params, aq_team **world)
{
    const struct aqi_boot_info *info = &lib.boot->info;
    struct aqi_core_params core = {
        .boot = lib_core_boot(lib.boot),
        .thread_mode = params->thread_mode,
        .register_call = init_name(params->register_call, "aq_am_register"),
        .create_call = init_name(params->create_call, "aq_ep_create with AQ_EP_AM"),
        .rank = info->rank,
        .size = info->size,
        .local_rank = info->local_rank,
        .local_size = info->local_size,
        .cores = init_local_cores(),
        .host = info->host,
        .survive = aqi_job_config.survive != 0,
        .start_timeout_ns = aqi_job_config.start_timeout_ns};
    memcpy(core.key, info->key, sizeof(core.key));
    aqi_log_identity(info->rank);
    aq_status st = lib_compare_ranks(lib.boot);
    if (st == AQ_OK) st = lib_outputs_begin(lib.boot);
    uint64_t begun = aqi_trace_begin(AQI_TRACE_JOB);
    lib.boot->idle = aqi_core_idle;
    if (st == AQ_OK) st = aqi_core_open(&core, world);
    aqi_trace_end(AQI_TRACE_JOB, "aq_init", begun, AQI_TRACE_NOBODY, 0);
    return st;
}

/* A start that fails on one rank fails on all: send the reason to the launcher, which notifies the
 * others. */
static aq_status init_give_up(aq_status st)
{
    struct aqi_boot *boot = atomic_exchange(&lib.boot, NULL);
    if (boot != NULL) {
        boot->kind->exit(boot, EXIT_FAILURE, aq_error_message());
        aqi_boot_close(boot);
    }
    atomic_store(&lib.state, LEFT);
    return st;
}

/* Bad settings are usually the same in all ranks: aqrun reports them once, if it can be reached. It
 * has checked its own settings before it started us. */
static aq_status init_refuse_settings(aq_status st)
{
    char why[1024];
    snprintf(why, sizeof(why), "%s", aq_error_message());
    aq_status joined = aqi_boot_open(&lib.boot);
    aqi_fail_defer(false);
    if (joined == AQ_OK || joined == AQ_EPEER) /* AQ_EPEER: another rank has reported them */
        (void)aqi_fail_quiet(st, "%s", why);
    else
        (void)aqi_fail(st, "base", "%s", why);
    return init_give_up(st);
}

/*
 * Descriptors 0 to 2 must be in use. Otherwise a socket of ours could become the program's standard
 * output, which would go to aqrun or to a peer.
 */
static void init_fill_standard(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

/* Raise exit_wait_ns; other threads may do so at the same time. */
static void init_wait_longer(uint64_t ns)
{
    uint64_t now = atomic_load(&lib.exit_wait_ns);
    while (now < ns && !atomic_compare_exchange_weak(&lib.exit_wait_ns, &now, ns))
        ;
}

/*
 * aq_init in a process that is already in the job, usually by another library of the program. The
 * modes in effect can no longer be changed, so they must suffice for the caller.
 */
static aq_status init_again(const aq_init_params *params, aq_team **world)
{
    static const char *const modes[] = {"AQ_THREAD_SINGLE", "AQ_THREAD_SERIALIZED",
                                        "AQ_THREAD_MULTIPLE"};
    int state = atomic_load(&lib.state);
    if (state != RUNNING || lib.pid != getpid())
        return aqi_fail(AQ_ESTATE, "lib", "aq_init: %s",
                        state == STARTING  ? "another thread is inside aq_init"
                        : state == RUNNING ? "this process was forked from one that is in a job"
                                           : "this process has already left its job");
    aq_status st = aqi_core_callable("aq_init");
    if (st != AQ_OK) return st;
    if (params->thread_mode > aq_job_thread_mode())
        return aqi_fail(AQ_ESTATE, "lib",
                        "aq_init: thread mode %s is needed, but the library runs with %s: let the "
                        "first aq_init of this process request the higher mode",
                        modes[params->thread_mode], modes[aq_job_thread_mode()]);
    if ((init_segment_modes(params) & AQ_SEGMENT_BIT(aq_segment_mode_get())) == 0)
        return aqi_fail(AQ_ESTATE, "lib",
                        "aq_init: segment mode %d is in effect, but segment_modes is 0x%x: choose "
                        "one that all libraries of the program support (AQ_SEGMENT_MODE)",
                        (int)aq_segment_mode_get(), init_segment_modes(params));
    init_wait_longer(params->exit_wait_ns);
    atomic_fetch_add(&lib.users, 1);
    *world = lib.world;
    return AQ_OK;
}

aq_status aq_init(const aq_init_params *given, aq_team **world)
{
    aq_init_params params;
    int never = NEVER;
    uint32_t rank;
    /* Errors in the settings must also show the rank. */
    bool ours = atomic_load(&lib.state) == NEVER && aqi_job_rank_given(&rank);
    if (ours) aqi_log_identity(rank);
    if (world == NULL) return aqi_fail(AQ_EINVAL, "lib", "aq_init: world is NULL");
    aq_status st = init_read_params(given, &params);
    if (st != AQ_OK) return st;
    if (!atomic_compare_exchange_strong(&lib.state, &never, STARTING))
        return init_again(&params, world);
    lib.pid = getpid();
    init_fill_standard();
    lib.exit_wait_ns = params.exit_wait_ns;
    aqi_fail_defer(ours);
    st = init_load_settings(&params);
    if (st != AQ_OK) return ours ? init_refuse_settings(st) : init_give_up(st);
    aqi_fail_defer(false);
    st = aqi_boot_open(&lib.boot);
    aqi_fail_defer(st == AQ_OK && init_launched(lib.boot));
    if (st == AQ_OK) st = init_open_core(&params, world);
    if (st == AQ_OK) st = lib.boot->kind->reach(lib.boot, AQI_BOOT_READY);
    aqi_fail_defer(false);
    if (st != AQ_OK) return init_give_up(st);
    lib.world = *world;
    atomic_store(&lib.users, 1);
    atomic_store(&lib.state, RUNNING);
    if (on_exit(init_on_process_exit, NULL) != 0)
        aqi_log(AQI_LOG_WARN, "lib",
                "cannot detect exit(): end the program with aq_finalize or aq_exit");
    return AQ_OK;
}

/* If other callers of aq_init still need the library, drop one reference and return true. */
static bool init_shared(void)
{
    unsigned users = atomic_load(&lib.users);
    while (users > 1)
        if (atomic_compare_exchange_weak(&lib.users, &users, users - 1)) return true;
    return false;
}

aq_status aq_finalize(void)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK) return st;
    if (init_shared()) return AQ_OK;
    st = aqi_core_may_leave();
    if (st != AQ_OK) return st;
    uint64_t begun = aqi_trace_begin(AQI_TRACE_JOB);
    st = lib.boot->kind->reach(lib.boot, AQI_BOOT_LEAVING);
    if (st == AQ_OK) st = aqi_core_quiesce();
    aqi_trace_end(AQI_TRACE_JOB, "aq_finalize", begun, AQI_TRACE_NOBODY, 0);
    lib_outputs_end();
    aq_status left = lib.boot->kind->reach(lib.boot, AQI_BOOT_LEFT);
    if (st == AQ_OK) st = left;
    atomic_store(&lib.state, LEFT);
    aqi_core_close();
    aqi_boot_close(atomic_exchange(&lib.boot, NULL));
    return st;
}

const char *aq_version(void)
{
#define TEXT(x)          #x
#define VERSION(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
    return VERSION(AQ_VERSION_MAJOR, AQ_VERSION_MINOR, AQ_VERSION_PATCH);
}

unsigned aq_version_number(void)
{
    return AQ_VERSION;
}
