/* Processes and hosts for gasnet_tools.h: names, limits, signals, streams. */
#include "tools.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

static pthread_once_t process_once = PTHREAD_ONCE_INIT;
static char process_host[256];
static char process_exe[4096];

static void process_ask(void)
{
    if (gethostname(process_host, sizeof(process_host) - 1) != 0) strcpy(process_host, "unknown");
    ssize_t length = readlink("/proc/self/exe", process_exe, sizeof(process_exe) - 1);
    process_exe[length > 0 ? length : 0] = '\0';
}

const char *gasnett_gethostname(void)
{
    pthread_once(&process_once, process_ask);
    return process_host;
}

const char *gasnett_exe_name(void)
{
    pthread_once(&process_once, process_ask);
    return process_exe;
}

int gasnett_cpu_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 0;
}

uint64_t gasnett_getPhysMemSz(int failureIsFatal)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) return (uint64_t)pages * (uint64_t)page;
    if (failureIsFatal) gasnett_fatalerror_nopos("cannot determine the amount of memory: %m");
    return 0;
}

int gasnett_isLittleEndian(void)
{
#ifdef PLATFORM_ARCH_LITTLE_ENDIAN
    return 1;
#else
    return 0;
#endif
}

void gasnett_sched_yield(void)
{
    sched_yield();
}

/* Bind to one of the CPUs that this process may use, chosen by rank. */
int gasnett_set_affinity(int rank)
{
    cpu_set_t may, one;
    if (rank < 0 || sched_getaffinity(0, sizeof(may), &may) != 0) return -1;
    int left = rank % CPU_COUNT(&may), cpu = 0;
    for (;; cpu++)
        if (CPU_ISSET((size_t)cpu, &may) && left-- == 0) break;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one);
}

void gasnett_flush_streams(void)
{
    fflush(NULL);
}

void gasnett_close_streams(void)
{
    fflush(NULL);
    fclose(stdin);
    fclose(stdout);
    fclose(stderr);
}

void gasnett_killmyprocess(int exitcode)
{
    _exit(exitcode);
}

gasnett_sighandlerfn_t gasnett_reghandler(int sig, gasnett_sighandlerfn_t fn)
{
    struct sigaction wanted = {.sa_handler = fn, .sa_flags = SA_RESTART}, before;
    sigemptyset(&wanted.sa_mask);
    if (sigaction(sig, &wanted, &before) != 0)
        gasnett_fatalerror_nopos("cannot handle signal %d: %m", sig);
    return before.sa_handler;
}

const char *gasnett_signame_fromval(int sig)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGABRT, "SIGABRT"}, {SIGALRM, "SIGALRM"}, {SIGBUS, "SIGBUS"},   {SIGCHLD, "SIGCHLD"},
        {SIGCONT, "SIGCONT"}, {SIGFPE, "SIGFPE"},   {SIGHUP, "SIGHUP"},   {SIGILL, "SIGILL"},
        {SIGINT, "SIGINT"},   {SIGKILL, "SIGKILL"}, {SIGPIPE, "SIGPIPE"}, {SIGQUIT, "SIGQUIT"},
        {SIGSEGV, "SIGSEGV"}, {SIGSTOP, "SIGSTOP"}, {SIGSYS, "SIGSYS"},   {SIGTERM, "SIGTERM"},
        {SIGTRAP, "SIGTRAP"}, {SIGTSTP, "SIGTSTP"}, {SIGTTIN, "SIGTTIN"}, {SIGTTOU, "SIGTTOU"},
        {SIGURG, "SIGURG"},   {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGXCPU, "SIGXCPU"},
        {SIGXFSZ, "SIGXFSZ"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].number == sig) return names[i].name;
    return "UNKNOWN";
}

const char *gasnett_performance_warning_str(void)
{
#if defined(__OPTIMIZE__)
    return "";
#else
    return "   The library was built without optimization: build it with "
           "-DCMAKE_BUILD_TYPE=Release\n";
#endif
}

AQG_DEFINE(const char *, gasnett_release_version_str, (void), AQG_RELEASE_STRING)
AQG_DEFINE(uint64_t, gasnett_release_version, (void),
           GASNET_RELEASE_VERSION_MAJOR *UINT64_C(1000000) +
               GASNET_RELEASE_VERSION_MINOR * UINT64_C(10000) + GASNET_RELEASE_VERSION_PATCH)

int gasnett_maximize_rlimit(int res, const char *desc)
{
    char name[64];
    snprintf(name, sizeof(name), "GASNET_MAXIMIZE_%s", desc);
    if (!gasnett_getenv_yesno_withdefault(name, 1)) return 1;
    struct rlimit limit;
    if (getrlimit((unsigned)res, &limit) != 0) return 0;
    if (limit.rlim_cur == limit.rlim_max) return 1;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit((unsigned)res, &limit) == 0;
}

int gasnett_maximize_rlimits(void)
{
    static const struct {
        int resource;
        const char *name;
    } limits[] = {
        {RLIMIT_CPU, "RLIMIT_CPU"}, {RLIMIT_DATA, "RLIMIT_DATA"},   {RLIMIT_FSIZE, "RLIMIT_FSIZE"},
        {RLIMIT_AS, "RLIMIT_AS"},   {RLIMIT_STACK, "RLIMIT_STACK"}, {RLIMIT_RSS, "RLIMIT_RSS"},
    };
    int all = 1;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (!gasnett_maximize_rlimit(limits[i].resource, limits[i].name)) all = 0;
    return all;
}

/* Realm takes its address to detect the library; thread keys need no initialization. */
void _gasneti_threadkey_init(void)
{
}

void aqg_trace_noop(const char *fmt, ...)
{
    (void)fmt;
}
