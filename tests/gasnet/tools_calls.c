/*
 * Each call of gasnet_tools.h, with its error cases, by one thread. Compiled as C and C++, for
 * clients with and without threads, alone and after a communication header.
 */
#ifdef TOOLS_WITH_GASNET
#include <gasnetex.h>
#endif
#include <gasnet_tools.h>

#include "check.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/time.h>
#include <sys/wait.h>

GASNETT_IDENT(tools_ident, "$ToolsTest: here $");

GASNETT_BEGIN_EXTERNC
GASNETT_EXTERNC void *tools_other_key(void);
GASNETT_EXTERNC void tools_sync_calls(void);
GASNETT_END_EXTERNC
GASNETT_THREADKEY_DECLARE(tools_key);
GASNETT_THREADKEY_DEFINE(tools_key);
GASNETT_THREADKEY_DECLARE(tools_key_elsewhere);

/* --- annotations ----------------------------------------------------------------------------- */

GASNETT_INLINE(tools_twice) int tools_twice(int x)
{
    return 2 * x;
}
GASNETT_NEVER_INLINE(tools_thrice, static int tools_thrice(int x))
{
    return 3 * x;
}
static int tools_pure(int x) GASNETT_PURE;
static int tools_pure(int x)
{
    return x;
}
static int tools_constant(int x) GASNETT_CONST;
static int tools_constant(int x)
{
    return x;
}
static void *tools_block(size_t n) GASNETT_MALLOC GASNETT_WARN_UNUSED_RESULT;
static void *tools_block(size_t n)
{
    return malloc(n);
}
static void tools_used(void) GASNETT_USED GASNETT_COLD;
static void tools_used(void)
{
}
static int tools_hot(void) GASNETT_HOT;
static int tools_hot(void)
{
    return 1;
}
static char tools_text[256];
GASNETT_FORMAT_PRINTF(tools_print, 1, 2, static void tools_print(const char *format, ...))
{
    va_list args;
    va_start(args, format);
    vsnprintf(tools_text, sizeof(tools_text), format, args);
    va_end(args);
}
typedef GASNETT_FORMAT_PRINTF_FUNCPTR(tools_print_fn, 1, 2,
                                      void (*tools_print_fn)(const char *format, ...));

static int tools_fall(int x)
{
    switch (x) {
    case 1:
        x += 10;
        GASNETT_FALLTHROUGH
    case 2:
        x += 100;
        break;
    default:
        gasnett_unreachable();
    }
    return x;
}

static void tools_annotations(void)
{
    int a = 0, *GASNETT_RESTRICT p = &a;
    if_pt(GASNETT_PREDICT_TRUE(tools_twice(2) == 4)) a++;
    if_pf(GASNETT_PREDICT_FALSE(tools_thrice(2) != 6)) a += 100;
    CHECK(*p == 1 && tools_fall(1) == 111 && tools_fall(2) == 102);
    gasnett_assume(a == 1);
    CHECK(gasnett_constant_p(3) && tools_pure(1) + tools_constant(2) + tools_hot() == 4);
    void *block = tools_block(8);
    CHECK(block != NULL);
    free(block);
    tools_print("%d %s", 7, "x");
    tools_print_fn print = tools_print;
    print("%d", 8);
    CHECK(strcmp(tools_text, "8") == 0);
    a = 0;
    GASNETT_UNUSED_ARGS1(a++);
    GASNETT_UNUSED_ARGS2(a++, a++);
    GASNETT_UNUSED_ARGS3(a++, a++, a++);
    GASNETT_UNUSED_ARGS4(a++, a++, a++, a++);
    GASNETT_UNUSED_ARGS5(a++, a++, a++, a++, a++);
    GASNETT_UNUSED_ARGS6(a++, a++, a++, a++, a++, a++);
    GASNETT_UNUSED_ARGS7(a++, a++, a++, a++, a++, a++, a++);
    GASNETT_UNUSED_ARGS8(a++, a++, a++, a++, a++, a++, a++, a++);
    CHECK(a == 36);
    CHECK(strcmp(_STRINGIFY(_CONCAT(a, b)), "ab") == 0 && MIN(1, 2) == 1 && MAX(1, 2) == 2);
}

/* --- time and fences ------------------------------------------------------------------------- */

/* Clock readings that are converted at once, the first one as early as possible. */
static void tools_time_converted(void)
{
    gasnett_tick_t first = gasnett_ticks_now();
    uint64_t first_ns = gasnett_ticks_to_ns(first), last_ns = first_ns;
    for (int i = 0; i < 12; i++) {
        CHECK(gasnett_nsleep(UINT64_C(100000) << (i < 10 ? i : 10)) == 0);
        gasnett_tick_t now = gasnett_ticks_now();
        uint64_t now_ns = gasnett_ticks_to_ns(now), passed = gasnett_ticks_to_ns(now - first);
        CHECK(now_ns > last_ns);
        CHECK(now_ns - first_ns <= passed + 3 && now_ns - first_ns + 3 >= passed);
        CHECK(gasnett_ticks_to_ns(first) == first_ns);
        last_ns = now_ns;
    }
}

static void tools_time(void)
{
    gasnett_tick_t now = gasnett_ticks_now(), then = gasnett_ticks_now();
    CHECK(GASNETT_TICK_MIN < now && now < GASNETT_TICK_MAX && then >= now);
    CHECK(gasnett_tick_granularityus() > 0.0 && gasnett_tick_overheadus() > 0.0);
    CHECK(gasnett_nsleep(0) == 0);

    /* The best of several tries counts, as this process may be descheduled between two readings. */
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        uint64_t wall = gasnett_gettimeofday_us();
        now = gasnett_ticks_now();
        CHECK(gasnett_nsleep(20000000) == 0);
        then = gasnett_ticks_now();
        wall = gasnett_gettimeofday_us() - wall;
        CHECK(gasnett_ticks_to_ns(then - now) >= 19900000);
        double off = (double)gasnett_ticks_to_us(then - now) - (double)wall;
        if (off < 0) off = -off;
        if (off < best) best = off;
    }
    CHECK(best < 2000);
}

static void tools_on_alarm(int sig)
{
    (void)sig;
}

/*
 * Start repeated alarms, as the first one may arrive before there is anything to interrupt; 0:
 * stop.
 */
static void tools_alarms(int period_us)
{
    struct itimerval each;
    memset(&each, 0, sizeof(each));
    each.it_value.tv_usec = each.it_interval.tv_usec = period_us;
    CHECK(setitimer(ITIMER_REAL, &each, NULL) == 0);
}

static void tools_interrupted(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = tools_on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    tools_alarms(100000);
    errno = 0;
    CHECK(gasnett_nsleep(UINT64_C(60000000000)) != 0 && errno == EINTR);
    tools_alarms(0);
}

static void tools_fences(void)
{
    gasnett_local_wmb();
    gasnett_local_rmb();
    gasnett_local_mb();
    gasnett_weak_wmb();
    gasnett_weak_rmb();
    gasnett_weak_mb();
    gasnett_compiler_fence();
    gasnett_spinloop_hint();
}

/* --- keys ------------------------------------------------------------------------------------ */

static void tools_keys(void)
{
    int x, y;
    CHECK(gasnett_threadkey_get(tools_key) == NULL);
    gasnett_threadkey_set(tools_key, &x);
    gasnett_threadkey_init(tools_key);
    gasnett_threadkey_init(tools_key);
    CHECK(gasnett_threadkey_get_noinit(tools_key) == &x);
    gasnett_threadkey_set_noinit(tools_key, &y);
    CHECK(gasnett_threadkey_get(tools_key) == &y);
    gasnett_threadkey_set(tools_key_elsewhere, &x);
    CHECK(tools_other_key() == &x);
}

/* --- environment and numbers ----------------------------------------------------------------- */

/* Run `fn` in a child, and store what it writes to stderr in `text`. Returns its wait status. */
static int tools_child(void (*fn)(void), char *text, size_t size)
{
    int ends[2], status;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        fn();
        _exit(0);
    }
    close(ends[1]);
    size_t got = 0;
    ssize_t n;
    while ((n = read(ends[0], text + got, size - 1 - got)) > 0)
        got += (size_t)n;
    text[got] = '\0';
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void tools_dies(void (*fn)(void), const char *with)
{
    char text[8192];
    int status = tools_child(fn, text, sizeof(text));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(text, with) == NULL)
        fprintf(stderr, "status %x, looked for \"%s\" in:\n%s", (unsigned)status, with, text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, with) != NULL);
}

static void tools_bad_yesno(void)
{
    gasnett_setenv("TOOLS_X", "maybe");
    gasnett_getenv_yesno_withdefault("TOOLS_X", 0);
}
static void tools_bad_int(void)
{
    gasnett_parse_int("12x", 0);
}
static void tools_bad_size(void)
{
    gasnett_parse_int("12Q", 1);
}
static void tools_big_size(void)
{
    gasnett_parse_int("9000000T", 1);
}
static void tools_bad_dbl(void)
{
    gasnett_setenv("TOOLS_X", "1/0");
    gasnett_getenv_dbl_withdefault("TOOLS_X", 0);
}

static void tools_environment(void)
{
    static const struct {
        const char *text;
        uint64_t factor;
        int64_t value;
    } numbers[] = {
        {"0", 0, 0},
        {"-17", 0, -17},
        {"0x1F", 0, 31},
        {"-0x10", 0, -16},
        {"010", 0, 10},
        {"9223372036854775807", 0, INT64_MAX},
        {"5", 1, 5},
        {"5", 1024, 5120},
        {"5B", 1024, 5},
        {"2k", 1, 2048},
        {"2KB", 7, 2048},
        {"1.5M", 1, 1572864},
        {"1.5mb", 1, 1572864},
        {"3 GB", 1, INT64_C(3) << 30},
        {"1T", 1, INT64_C(1) << 40},
        {"-2KB", 1, -2048},
        {"0.5", 1048576, 524288},
        {"0x10", 1, 16},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        CHECK(gasnett_parse_int(numbers[i].text, numbers[i].factor) == numbers[i].value);
    char text[64];
    for (int64_t v = -70000; v <= 70000; v += 997)
        for (int shift = 0; shift <= 40; shift += 10)
            for (int mem = 0; mem < 2; mem++) {
                int64_t value = v * ((int64_t)1 << shift);
                CHECK(gasnett_format_number(value, text, sizeof(text), mem) == text);
                CHECK(gasnett_parse_int(text, mem ? 1 : 0) == value);
            }

    gasnett_unsetenv("TOOLS_X");
    CHECK(gasnett_getenv("TOOLS_X") == NULL && getenv("TOOLS_X") == NULL);
    CHECK(strcmp(gasnett_getenv_withdefault("TOOLS_X", "d"), "d") == 0);
    CHECK(gasnett_getenv_withdefault("TOOLS_X", NULL) == NULL);
    CHECK(gasnett_getenv_yesno_withdefault("TOOLS_X", 1) == 1);
    CHECK(gasnett_getenv_int_withdefault("TOOLS_X", -3, 0) == -3);
    gasnett_setenv("TOOLS_X", "Yes");
    CHECK(strcmp(gasnett_getenv("TOOLS_X"), "Yes") == 0 && getenv("TOOLS_X") != NULL);
    CHECK(gasnett_getenv_yesno_withdefault("TOOLS_X", 0) == 1);
    static const char *const no[] = {"n", "N", "no", "NO", "0"};
    static const char *const yes[] = {"y", "Y", "yes", "YES", "1"};
    for (int i = 0; i < 5; i++) {
        gasnett_setenv("TOOLS_X", no[i]);
        CHECK(gasnett_getenv_yesno_withdefault("TOOLS_X", 1) == 0);
        gasnett_setenv("TOOLS_X", yes[i]);
        CHECK(gasnett_getenv_yesno_withdefault("TOOLS_X", 0) == 1);
    }
    gasnett_setenv("TOOLS_X", "3/8");
    double eighths = 8 * gasnett_getenv_dbl_withdefault("TOOLS_X", 0);
    CHECK(eighths > 2.99 && eighths < 3.01);
    gasnett_setenv("TOOLS_X", "64K");
    CHECK(gasnett_getenv_int_withdefault("TOOLS_X", 0, 1) == 65536);
    gasnett_unsetenv("TOOLS_X");

    tools_dies(tools_bad_yesno, "TOOLS_X is \"maybe\"");
    tools_dies(tools_bad_int, "\"12x\"");
    tools_dies(tools_bad_size, "\"12Q\"");
    tools_dies(tools_big_size, "2^63");
    tools_dies(tools_bad_dbl, "TOOLS_X is \"1/0\"");
}

static void tools_verbose_queries(void)
{
    gasnett_setenv("GASNET_VERBOSEENV", "1");
    gasnett_setenv("TOOLS_SET", "17");
    CHECK(gasnett_verboseenv());
    for (int twice = 0; twice < 2; twice++) {
        gasnett_getenv_int_withdefault("TOOLS_SET", 1, 0);
        gasnett_getenv_int_withdefault("TOOLS_UNSET", 4096, 1);
    }
    gasnett_envint_display("TOOLS_A", 5, 0, 0);
    gasnett_envstr_display("TOOLS_B", "text", 1);
    gasnett_envdbl_display("TOOLS_C", 0.25, 0);
}

static void tools_verbose(void)
{
    char text[4096];
    CHECK(!gasnett_verboseenv());
    CHECK(tools_child(tools_verbose_queries, text, sizeof(text)) == 0);
    static const char *const lines[] = {"TOOLS_SET = 17\n", "TOOLS_UNSET = 4 KB   (default)\n",
                                        "TOOLS_A = 5\n", "TOOLS_B = text   (default)\n",
                                        "TOOLS_C = 0.25\n"};
    for (int i = 0; i < 5; i++) {
        char *found = strstr(text, lines[i]);
        CHECK(found != NULL && strstr(found + 1, lines[i]) == NULL);
    }
}

/* --- process, errors, debugging -------------------------------------------------------------- */

static void tools_process(void)
{
    CHECK(gasnett_gethostname()[0] != '\0' && gasnett_exe_name()[0] == '/');
    CHECK(gasnett_cpu_count() >= 1 && gasnett_getPhysMemSz(1) > 1 << 20);
    uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    CHECK(gasnett_isLittleEndian() == (first == 1));
    gasnett_sched_yield();
    CHECK(gasnett_set_affinity(0) == 0);
    gasnett_flush_streams();
    gasnett_sighandlerfn_t before = gasnett_reghandler(SIGUSR1, tools_on_alarm);
    CHECK(gasnett_reghandler(SIGUSR1, before) == tools_on_alarm);
    CHECK(strcmp(gasnett_signame_fromval(SIGSEGV), "SIGSEGV") == 0);
    CHECK(gasnett_signame_fromval(12345) != NULL);
    CHECK(gasnett_performance_warning_str() != NULL);
    unsigned major, minor, patch;
    CHECK(sscanf(gasnett_release_version_str(), "%u.%u.%u", &major, &minor, &patch) == 3);
    CHECK(major == GASNETT_RELEASE_VERSION_MAJOR && minor == GASNETT_RELEASE_VERSION_MINOR &&
          patch == GASNETT_RELEASE_VERSION_PATCH);
    CHECK(gasnett_release_version() == major * UINT64_C(1000000) + minor * 10000 + patch);
    CHECK(gasnett_maximize_rlimits() != 0);
    char *where = gasnett_current_loc;
    CHECK(strncmp(where, "tools_process at ", 17) == 0 && strstr(where, __FILE__) != NULL);
    free(where);
    CHECK(strcmp(GASNETT_CURRENT_FUNCTION, "tools_process") == 0);

    char block[100], copy[100];
    memset(block, 1, sizeof(block));
    uint64_t sum = gasnett_checksum(block, 100);
    for (int i = 0; i < 100; i += 3) {
        block[i] = 0;
        CHECK(gasnett_checksum(block, 100) != sum);
        size_t zeros = 0;
        for (int k = 1; k < i; k++)
            zeros += block[k] == 0;
        CHECK(gasnett_count0s(block + 1, (size_t)(i > 0 ? i - 1 : 0)) == zeros);
    }
    CHECK(gasnett_count0s_copy(copy, block, 100) == 34 && memcmp(copy, block, 100) == 0);
    CHECK(gasnett_count0s_uint32_t(0x00FF0001) == 2 && gasnett_count0s_uint32_t(0) == 4);
    CHECK(gasnett_count0s_uint64_t(UINT64_C(0x8000000000000001)) == 6);
    CHECK(gasnett_count0s_uintptr_t(0x80) == (int)sizeof(uintptr_t) - 1);
}

static void tools_fatal(void)
{
    gasnett_fatalerror("the number is %d", 42);
}
static void tools_fatal_nopos(void)
{
    gasnett_fatalerror_nopos("the number is %d", 43);
}
static void tools_fatal_backtrace(void)
{
    gasnett_setenv("GASNET_BACKTRACE", "1");
    gasnett_setenv("GASNET_BACKTRACE_TYPE", "FAILS,TOOLS_USER");
    gasnett_backtrace_init("tools");
    gasnett_fatalerror("with a trace");
}
static void tools_backtrace_next(void)
{
    gasnett_setenv("GASNET_BACKTRACE_TYPE", "TOOLS_USER,EXECINFO");
    gasnett_setenv("TOOLS_USER_FAILS", "1");
    gasnett_backtrace_init("tools");
    CHECK(gasnett_print_backtrace(STDERR_FILENO) == 0);
    gasnett_freezeForDebuggerErr(); /* does nothing unless enabled */
    gasnett_fatalerror("ends");
}
static volatile int tools_frozen;
static void tools_thaw(int sig)
{
    (void)sig;
    tools_frozen = 0;
}
static void tools_freeze(void)
{
    gasnett_reghandler(SIGALRM, tools_thaw);
    tools_alarms(100000);
    gasnett_freezeForDebuggerNow(&tools_frozen, "tools_frozen");
    gasnett_fatalerror("thawed");
}
static void tools_kill(void)
{
    gasnett_close_streams();
    gasnett_killmyprocess(23);
}

static void tools_errors(void)
{
    char text[4096];
    tools_dies(tools_fatal, "the number is 42");
    tools_dies(tools_fatal, "in tools_fatal at ");
    tools_dies(tools_fatal_nopos, ": the number is 43");
    tools_dies(tools_fatal_backtrace, "the user's backtrace\n");
    tools_dies(tools_backtrace_next, "tools_calls"); /* the program's name, in its frames */
    tools_dies(tools_freeze, "set var tools_frozen = 0");
    int status = tools_child(tools_kill, text, sizeof(text));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 23);
    CHECK(gasnett_print_backtrace_ifenabled(STDERR_FILENO) != 0); /* it is not enabled */
}

static void tools_hooks(void)
{
    const char *file = __FILE__;
    unsigned line = 1;
    CHECK(!GASNETT_TRACE_ENABLED && strcmp(GASNETT_TRACE_GETMASK(), "") == 0);
    GASNETT_TRACE_PRINTF("%d %s", 1, "x");
    GASNETT_TRACE_PRINTF_FORCE("none");
    GASNETT_TRACE_SETMASK("X");
    CHECK(GASNETT_TRACE_GET_TRACELOCAL() == 0);
    GASNETT_TRACE_SET_TRACELOCAL(1);
    int both = (GASNETT_TRACE_SETSOURCELINE(file, line), 2);
    CHECK(both == 2);
    GASNETT_TRACE_GETSOURCELINE(&file, &line);
    GASNETT_TRACE_FREEZESOURCELINE();
    GASNETT_TRACE_UNFREEZESOURCELINE();
    CHECK(strcmp(GASNETT_STATS_GETMASK(), "") == 0 && GASNETT_STATS_INIT(NULL) == 0);
    GASNETT_STATS_SETMASK("X");
    GASNETT_STATS_PRINTF("%d", 1);
    GASNETT_STATS_PRINTF_FORCE("%d", 1);
    GASNETT_STATS_DUMP(0);
    _gasnett_trace_printf_noop("%d", 1);
    CHECK((void *)_gasneti_threadkey_init != NULL && (void *)_gasnett_trace_printf_noop != NULL);
}

int main(void)
{
    tools_time_converted(); /* first, to include the library's first conversion */
    tools_annotations();
    tools_time();
    tools_interrupted();
    tools_fences();
    tools_sync_calls();
    tools_keys();
    tools_environment();
    tools_verbose();
    tools_process();
    tools_hooks();
    tools_errors();
    return 0;
}
