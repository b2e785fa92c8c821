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

static void exit_on_fatal(int number);
static void exit_on_terminate(int number);

/* What is caught; and whose turn it is after us: Aqueduct's, if it has outputs to write, or the
 * system's. */
static struct caught {
    int number;
    const char *name;
    void (*handler)(int);
    bool free; /* the program had no handler when it started the library */
    struct sigaction next;
} caught[] = {
    {.number = SIGSEGV, .name = "SIGSEGV", .handler = exit_on_fatal},
    {.number = SIGBUS, .name = "SIGBUS", .handler = exit_on_fatal},
    {.number = SIGFPE, .name = "SIGFPE", .handler = exit_on_fatal},
    {.number = SIGILL, .name = "SIGILL", .handler = exit_on_fatal},
    {.number = SIGABRT, .name = "SIGABRT", .handler = exit_on_fatal},
    {.number = SIGSYS, .name = "SIGSYS", .handler = exit_on_fatal},
    {.number = SIGTERM, .name = "SIGTERM", .handler = exit_on_terminate},
    {.number = SIGINT, .name = "SIGINT", .handler = exit_on_terminate},
    {.number = SIGHUP, .name = "SIGHUP", .handler = exit_on_terminate},
    {.number = SIGPIPE, .name = "SIGPIPE", .handler = exit_on_terminate},
    {.number = SIGXCPU, .name = "SIGXCPU", .handler = exit_on_terminate},
};
enum { CAUGHT = sizeof(caught) / sizeof(*caught) };

/* The next time it is not ours. */
static const char *exit_let_go(int number)
{
    size_t i = 0;
    while (i < CAUGHT - 1 && caught[i].number != number)
        i++;
    sigaction(number, &caught[i].next, NULL);
    return caught[i].name;
}

static volatile sig_atomic_t dying_of;

static void exit_on_alarm(int number)
{
    (void)number;
    raise(dying_of);
}

/*
 * What the program printed and stdio still has. This is a signal handler, where the program may be
 * inside stdio itself: so only a stream that no other thread holds, and not for ever. At worst the
 * process dies of what it is about to die of.
 */
static void exit_flush_output(int number)
{
    FILE *const streams[] = {stdout, stderr};
    dying_of = number;
    signal(SIGALRM, exit_on_alarm);
    alarm(1);
    for (size_t i = 0; i < sizeof(streams) / sizeof(*streams); i++)
        if (ftrylockfile(streams[i]) == 0) {
            fflush_unlocked(streams[i]);
            funlockfile(streams[i]);
        }
    alarm(0);
}

static void exit_tell(const char *kind, const char *name, int number)
{
    char line[128];
    int len = snprintf(line, sizeof(line), "*** Caught a %s: %s(%d) on node %u/%u\n", kind, name,
                       number, (unsigned)aqgi.rank, (unsigned)aqgi.size);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)len);
    (void)ignored;
}

/* Say so and die of it, as without us: the launcher sees which signal it was and ends the job. */
static void exit_on_fatal(int number)
{
    const char *name = exit_let_go(number);
    exit_flush_output(number);
    exit_tell("fatal signal", name, number);
    aqgi_explain();
    raise(number);
}

/*
 * Ends like gasnet_exit(1), but first the client's handler of SIGQUIT runs, as the interface asks.
 * SIGTERM may be the launcher's, which ends the job while this process does not look at its
 * messages.
 */
static void exit_on_terminate(int number)
{
    struct sigaction action;
    const char *name = exit_let_go(number);
    if (sigaction(SIGQUIT, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
        action.sa_handler != SIG_IGN)
        raise(SIGQUIT);
    exit_flush_output(number);
    if (number != SIGTERM) exit_tell("signal", name, number);
    aq_exit(EXIT_FAILURE);
}

/* GASNET_NO_CATCH_SIGNAL: a list of names with or without SIG, numbers, or "*". */
static bool exit_listed(const char *list, int number, const char *name)
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

void aqgi_signals_prepare(void)
{
    struct sigaction old;
    for (size_t i = 0; i < CAUGHT; i++)
        caught[i].free = sigaction(caught[i].number, NULL, &old) == 0 && old.sa_handler == SIG_DFL;
}

void aqgi_signals_open(void)
{
    const char *spared = getenv("GASNET_NO_CATCH_SIGNAL");
    for (size_t i = 0; i < CAUGHT; i++) {
        struct sigaction action = {.sa_handler = caught[i].handler, .sa_flags = SA_NODEFER};
        if (!caught[i].free || exit_listed(spared, caught[i].number, caught[i].name)) continue;
        sigaction(caught[i].number, &action, &caught[i].next);
    }
}
