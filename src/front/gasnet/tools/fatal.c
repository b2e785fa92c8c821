/*
 * Fatal errors and debugging for gasnet_tools.h: the message, freezing for a debugger, a backtrace
 * by the first mechanism that works, and the exit.
 */
#include "tools.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <strings.h>
#include <sys/wait.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#else /* musl has none, so the next mechanism is used */
#define backtrace(frames, count)                0
#define backtrace_symbols_fd(frames, count, fd) ((void)(frames), (void)(fd))
#endif

enum { FATAL_FRAMES = 64 };

void (*aqg_abort_hook)(void);

/* A client may define it with its own initializer, which takes precedence. */
__attribute__((weak)) gasnett_backtrace_type_t gasnett_backtrace_user;

/* The value of GASNET_BACKTRACE_TYPE, in its order; read at first use or at initialization. */
static gasnett_mutex_t fatal_lock = GASNETT_MUTEX_INITIALIZER;
static char fatal_types[128];
static int fatal_enabled, fatal_ready;

static int fatal_execinfo(int fd)
{
    void *frames[FATAL_FRAMES];
    int count = backtrace(frames, FATAL_FRAMES);
    if (count <= 0) return 1;
    backtrace_symbols_fd(frames, count, fd);
    return 0;
}

/* Run gdb from a child, as the state of this process may be corrupt. */
static int fatal_gdb(int fd)
{
    char pid[16];
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    pid_t child = fork();
    if (child == 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execlp("gdb", "gdb", "-nx", "-batch", "-p", pid, "-ex", "thread apply all bt", (char *)0);
        _exit(127);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static const gasnett_backtrace_type_t *fatal_find(const char *name, size_t length)
{
    static const gasnett_backtrace_type_t execinfo = {"EXECINFO", fatal_execinfo, 1},
                                          gdb = {"GDB", fatal_gdb, 1};
    const gasnett_backtrace_type_t *const known[] = {&execinfo, &gdb, &gasnett_backtrace_user};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (known[i]->name != NULL && known[i]->fnp != NULL && strlen(known[i]->name) == length &&
            strncasecmp(known[i]->name, name, length) == 0)
            return known[i];
    return NULL;
}

/* Whether `rank` is in a list such as "0,2-4". An empty list means all ranks. */
static int fatal_rank_listed(const char *list, int rank)
{
    if (list == NULL || *list == '\0' || strcmp(list, "*") == 0) return 1;
    while (*list != '\0') {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list) return 1; /* not a list: too many backtraces are better than none */
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (rank >= first && rank <= last) return 1;
        list = *end == ',' ? end + 1 : end;
    }
    return 0;
}

static void fatal_read_settings(void)
{
    char all[sizeof(fatal_types)];
    /* Set before the following code, so that a fatal error in it does not recurse. */
    __atomic_store_n(&fatal_ready, 1, __ATOMIC_RELEASE);
    snprintf(all, sizeof(all), "EXECINFO,GDB%s%s", gasnett_backtrace_user.name != NULL ? "," : "",
             gasnett_backtrace_user.name != NULL ? gasnett_backtrace_user.name : "");
    snprintf(fatal_types, sizeof(fatal_types), "%s",
             gasnett_getenv_withdefault("GASNET_BACKTRACE_TYPE", all));
    fatal_enabled = gasnett_getenv_yesno_withdefault("GASNET_BACKTRACE", 0) &&
                    fatal_rank_listed(gasnett_getenv_withdefault("GASNET_BACKTRACE_NODES", NULL),
                                      aqgi_tools_rank());
}

static void fatal_settings(void)
{
    if (__atomic_load_n(&fatal_ready, __ATOMIC_ACQUIRE)) return;
    gasnett_mutex_lock(&fatal_lock);
    if (!fatal_ready) fatal_read_settings();
    gasnett_mutex_unlock(&fatal_lock);
}

static int fatal_signal_number(const char *name)
{
    for (int sig = 1; sig < 32; sig++) {
        const char *known = gasnett_signame_fromval(sig);
        if (strcasecmp(known, name) == 0 || strcasecmp(known + 3, name) == 0) return sig;
    }
    return 0;
}

static void fatal_on_backtrace_signal(int sig)
{
    (void)sig;
    gasnett_print_backtrace(STDERR_FILENO);
}

static void fatal_on_freeze_signal(int sig)
{
    static volatile int frozen;
    gasnett_freezeForDebuggerNow(&frozen, "frozen");
    (void)sig;
}

static void fatal_install(const char *variable, gasnett_sighandlerfn_t handler)
{
    const char *name = gasnett_getenv_withdefault(variable, NULL);
    if (name == NULL) return;
    int sig = fatal_signal_number(name);
    if (sig == 0)
        gasnett_fatalerror_nopos("%s is \"%s\": give the name of a signal, such as SIGUSR1",
                                 variable, name);
    gasnett_reghandler(sig, handler);
}

void gasnett_backtrace_init(const char *exename)
{
    (void)exename; /* unused: /proc/self/exe is more reliable */
    gasnett_mutex_lock(&fatal_lock);
    fatal_read_settings();
    gasnett_mutex_unlock(&fatal_lock);
    fatal_install("GASNET_BACKTRACE_SIGNAL", fatal_on_backtrace_signal);
    fatal_install("GASNET_FREEZE_SIGNAL", fatal_on_freeze_signal);
}

int gasnett_print_backtrace(int fd)
{
    fatal_settings();
    const char *name = fatal_types;
    while (*name != '\0') {
        size_t length = strcspn(name, ",");
        const gasnett_backtrace_type_t *mechanism = fatal_find(name, length);
        if (mechanism != NULL && mechanism->fnp(fd) == 0) return 0;
        name += length + (name[length] == ',');
    }
    return 1;
}

static int fatal_ifenabled(int fd)
{
    fatal_settings();
    return fatal_enabled ? gasnett_print_backtrace(fd) : 1;
}
int (*gasnett_print_backtrace_ifenabled)(int fd) = fatal_ifenabled;

void gasnett_freezeForDebuggerNow(volatile int *flag, const char *flagname)
{
    char text[512]; /* musl's fprintf writes in pieces, which may be interleaved */
    snprintf(text, sizeof(text),
             "Process %d on %s is frozen for a debugger. Attach to it (gdb -p %d); to continue:\n  "
             "set var %s = 0\n",
             (int)getpid(), gasnett_gethostname(), (int)getpid(), flagname);
    fputs(text, stderr);
    *flag = 1;
    while (*flag)
        sleep(1);
}

void gasnett_freezeForDebuggerErr(void)
{
    static volatile int frozen;
    if (gasnett_getenv_yesno_withdefault("GASNET_FREEZE_ON_ERROR", 0))
        gasnett_freezeForDebuggerNow(&frozen, "frozen");
}

static GASNETT_NORETURN void fatal_end(const char *where, const char *fmt, va_list args)
{
    static int entered;
    char text[2048], rank[32] = "";
    vsnprintf(text, sizeof(text), fmt, args);
    if (aqg_rank_hook != NULL && aqg_rank_hook() >= 0)
        snprintf(rank, sizeof(rank), "proc %d, ", aqg_rank_hook());
    fflush(stdout);
    fprintf(stderr, "*** FATAL ERROR (%spid %d): %s%s\n", rank, (int)getpid(), where, text);
    fflush(stderr);
    /* A fatal error in this code, such as an invalid GASNET_BACKTRACE, must not recurse. */
    if (!__atomic_exchange_n(&entered, 1, __ATOMIC_ACQ_REL)) {
        gasnett_freezeForDebuggerErr();
        (void)gasnett_print_backtrace_ifenabled(STDERR_FILENO);
    }
    if (aqg_abort_hook != NULL)
        aqg_abort_hook();
    else
        signal(SIGABRT, SIG_DFL);
    abort();
}

static __thread char fatal_place[512];

static GASNETT_NORETURN GASNETT_FORMAT_PRINTF(fatal_placed, 1, 2,
                                              void fatal_placed(const char *fmt, ...))
{
    va_list args;
    va_start(args, fmt);
    fatal_end(fatal_place, fmt, args);
}

aqg_fatal_fn aqg_fatalerror_at(const char *function, const char *file, int line)
{
    snprintf(fatal_place, sizeof(fatal_place), "in %s at %s:%d: ", function, file, line);
    return fatal_placed;
}

void aqg_fatalerror_nopos(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fatal_end("", fmt, args);
}

char *aqg_location(const char *function, const char *file, int line)
{
    size_t size = strlen(function) + strlen(file) + 32;
    char *text = malloc(size);
    if (text != NULL) snprintf(text, size, "%s at %s:%d", function, file, line);
    return text;
}

void aqg_sync_failed(const char *call, int error)
{
    if (error != 0) gasnett_fatalerror_nopos("%s failed: %s", call, strerror(error));
    gasnett_fatalerror_nopos("%s", call);
}
