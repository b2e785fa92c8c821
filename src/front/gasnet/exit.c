/* Ending the job: by the program, by a fatal error, by a signal. */
#include "aqg.h"

#include <signal.h>

/*
 * As in GASNet, all processes finish their work even if they exit one after the other. Clients may
 * also call it after gasnet_init has failed.
 */
void gasnet_exit(int exitcode)
{
    if (aqgi.open) (void)aq_exit_together(exitcode, AQGI_EXIT_WAIT);
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

/* The caught signals: the first FATAL are errors, the others ask the program to end. */
static const int caught_numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,  SIGABRT, SIGSYS,
                                     SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXCPU};
enum { FATAL = 6, CAUGHT = sizeof(caught_numbers) / sizeof(*caught_numbers) };

/* The next handler: Aqueduct's, if it has outputs to write, or the default. */
static struct {
    bool free; /* the program had no handler when it started the library */
    struct sigaction next;
} caught[CAUGHT];

/* Restore the next handler: if the signal is raised again, it is no longer ours. */
static void exit_let_go(int number)
{
    size_t i = 0;
    while (i < CAUGHT - 1 && caught_numbers[i] != number)
        i++;
    sigaction(number, &caught[i].next, NULL);
}

static void exit_tell(const char *kind, int number)
{
    char line[128];
    int len =
        snprintf(line, sizeof(line), "*** Caught a %s: %s(%d) on node %u/%u\n", kind,
                 gasnett_signame_fromval(number), number, (unsigned)aqgi.rank, (unsigned)aqgi.size);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)len);
    (void)ignored;
}

/*
 * Report the signal and let it kill the process, as it would without us: the launcher sees the
 * signal and ends the job.
 */
static void exit_on_fatal(int number)
{
    exit_let_go(number);
    aq_job_flush(number);
    exit_tell("fatal signal", number);
    aqgi_explain();
    raise(number);
}

/*
 * Ends like gasnet_exit(1), after the client's SIGQUIT handler, as the interface requires. SIGTERM
 * may come from the launcher, which ends the job if this process does not read its messages.
 */
static void exit_on_terminate(int number)
{
    struct sigaction action;
    exit_let_go(number);
    if (sigaction(SIGQUIT, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
        action.sa_handler != SIG_IGN)
        raise(SIGQUIT);
    aq_job_flush(number);
    if (number != SIGTERM) exit_tell("signal", number);
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
        caught[i].free = sigaction(caught_numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL;
}

void aqgi_signals_open(void)
{
    const char *spared = getenv("GASNET_NO_CATCH_SIGNAL");
    for (size_t i = 0; i < CAUGHT; i++) {
        struct sigaction action = {.sa_handler = i < FATAL ? exit_on_fatal : exit_on_terminate,
                                   .sa_flags = SA_NODEFER};
        int number = caught_numbers[i];
        if (!caught[i].free) continue;
        bool ours = !exit_listed(spared, number, gasnett_signame_fromval(number));
        sigaction(number, ours ? &action : NULL, &caught[i].next);
    }
}

/*
 * A fatal error has been printed: let Aqueduct handle SIGABRT, to write counters and traces. The
 * program's own handler is not called.
 */
void aqgi_signals_abort(void)
{
    exit_let_go(SIGABRT);
}
