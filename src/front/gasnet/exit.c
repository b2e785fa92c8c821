/* Ending the job: by the program, a fatal error, or a signal. */
#include "aqg.h"

#include <signal.h>

/*
 * As in GASNet, all processes finish their work even if they exit at different times. May also be
 * called after gasnet_init has failed.
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

/* The caught signals: the first FATAL ones are errors, the others request termination. */
static const int caught_numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,  SIGABRT, SIGSYS,
                                     SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXCPU};
enum { FATAL = 6, CAUGHT = sizeof(caught_numbers) / sizeof(*caught_numbers) };

/* The next handler: Aqueduct's, if it has output to write, or the default action. */
static struct {
    bool free; /* the program had no handler when it initialized the library */
    struct sigaction next;
} caught[CAUGHT];

/* Restore the next handler, which handles the signal if it is raised again. */
static void exit_let_go(int number)
{
    size_t i = 0;
    while (i < CAUGHT - 1 && caught_numbers[i] != number)
        i++;
    sigaction(number, &caught[i].next, NULL);
}

static void exit_print(const char *kind, int number)
{
    char line[128];
    int len =
        snprintf(line, sizeof(line), "*** Caught a %s: %s(%d) on node %u/%u\n", kind,
                 gasnett_signame_fromval(number), number, (unsigned)aqgi.rank, (unsigned)aqgi.size);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)len);
    (void)ignored;
}

/*
 * Report the signal and let it kill the process, so that the launcher reports it and ends the job.
 */
static void exit_on_fatal(int number)
{
    exit_let_go(number);
    aq_job_flush(number);
    exit_print("fatal signal", number);
    aqgi_explain();
    raise(number);
}

/*
 * Run the client's SIGQUIT handler, then end like gasnet_exit(1), as the interface requires.
 * SIGTERM may be sent by the launcher if this process does not read its messages at the end of the
 * job.
 */
static void exit_on_terminate(int number)
{
    struct sigaction action;
    exit_let_go(number);
    if (sigaction(SIGQUIT, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
        action.sa_handler != SIG_IGN)
        raise(SIGQUIT);
    aq_job_flush(number);
    if (number != SIGTERM) exit_print("signal", number);
    aq_exit(EXIT_FAILURE);
}

/* Parse GASNET_NO_CATCH_SIGNAL: a list of names with or without SIG, numbers, or "*". */
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
 * After a fatal error has been printed: let Aqueduct handle SIGABRT, to write counters and traces.
 * The program's own handler is not called.
 */
void aqgi_signals_abort(void)
{
    exit_let_go(SIGABRT);
}
