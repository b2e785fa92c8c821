/* Ending the job: by the program, by a fatal error, by a signal. */
#include "aqg.h"

#include <gasnet_tools.h>

#include <signal.h>

/* As in GASNet, processes that come to their end one after the other all get there. */
void gasnet_exit(int exitcode)
{
    (void)aq_exit_together(exitcode, AQGI_EXIT_WAIT);
    aq_exit(exitcode);
}

void aqgi_explain(void)
{
    gasnett_freezeForDebuggerErr();
    (void)gasnett_print_backtrace_ifenabled(STDERR_FILENO);
}

void aqgi_abort(void)
{
    aq_exit(EXIT_FAILURE);
}

static const struct {
    int number;
    const char *name;
} fatal_signals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGSYS, "SIGSYS"},
};

static const char *name_of(int number)
{
    for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(*fatal_signals); i++)
        if (fatal_signals[i].number == number) return fatal_signals[i].name;
    return "signal";
}

/* Say so and die of it, as without us: the launcher sees which signal it was and ends the job. */
static void on_fatal(int number)
{
    char line[128];
    int len = snprintf(line, sizeof(line), "*** Caught a fatal signal: %s(%d) on node %u/%u\n",
                       name_of(number), number, (unsigned)aqgi.rank, (unsigned)aqgi.size);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)len);
    (void)ignored;
    signal(number, SIG_DFL);
    aqgi_explain();
    raise(number);
}

/*
 * What the program printed and stdio still has. This is a signal handler, where the program may be
 * inside stdio itself: so only a stream that no other thread holds, and not for ever. At worst the
 * process dies of what it is about to die of.
 */
static void flush_output(void)
{
    FILE *const streams[] = {stdout, stderr};
    signal(SIGALRM, SIG_DFL);
    alarm(1);
    for (size_t i = 0; i < sizeof(streams) / sizeof(*streams); i++)
        if (ftrylockfile(streams[i]) == 0) {
            fflush_unlocked(streams[i]);
            funlockfile(streams[i]);
        }
}

/*
 * The launcher ends the job and this process has not looked at its messages: what would have come
 * as a remote exit comes as SIGTERM. The client's handler of SIGQUIT runs first, as the interface
 * asks.
 */
static void on_terminate(int number)
{
    struct sigaction action;
    signal(number, SIG_DFL);
    if (sigaction(SIGQUIT, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
        action.sa_handler != SIG_IGN)
        raise(SIGQUIT);
    flush_output();
    raise(number);
}

/* GASNET_NO_CATCH_SIGNAL: a list of names with or without SIG, numbers, or "*". */
static bool listed(const char *list, int number, const char *name)
{
    size_t len;
    for (const char *at = list; at != NULL && *at != '\0'; at += len + (at[len] != '\0')) {
        len = strcspn(at, ", ");
        if (len == 1 && *at == '*') return true;
        if (len == strlen(name) && strncasecmp(at, name, len) == 0) return true;
        if (len == strlen(name + 3) && strncasecmp(at, name + 3, len) == 0) return true;
        if (len > 0 && strtol(at, NULL, 10) == number) return true;
    }
    return false;
}

static void catch_signal(int number, const char *name, void (*handler)(int))
{
    struct sigaction old, action = {.sa_handler = handler, .sa_flags = SA_NODEFER};
    if (listed(getenv("GASNET_NO_CATCH_SIGNAL"), number, name)) return;
    if (sigaction(number, NULL, &old) != 0 || old.sa_handler != SIG_DFL) return;
    sigaction(number, &action, NULL);
}

void aqgi_signals_open(void)
{
    for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(*fatal_signals); i++)
        catch_signal(fatal_signals[i].number, fatal_signals[i].name, on_fatal);
    catch_signal(SIGTERM, "SIGTERM", on_terminate);
}
