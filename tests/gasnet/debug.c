/* A program that fails in the way that its argument names; debug.py looks at what it says. */
#include <gasnetex.h>

#include <gasnet_tools.h>

#include "support.h"

#include <signal.h>

static int on_backtrace(int fd)
{
    static const char text[] = "the client's own trace\n";
    return write(fd, text, sizeof(text) - 1) < 0;
}

gasnett_backtrace_type_t gasnett_backtrace_user = {"OWN", on_backtrace, 1};

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "none";
    job_open(&argc, &argv, GASNET_PAGESIZE);
    (void)gasnett_getenv_int_withdefault("DEBUG_NUMBER", 7, 0);
    job_barrier();
    if (job.rank == 0 && strcmp(how, "limit") == 0)
        printf("at most %llu bytes\n", (unsigned long long)gasnet_getMaxLocalSegmentSize());
    if (job.rank == job.size - 1) {
        /* Of the fatal ones, one that sanitizers leave alone. */
        if (strcmp(how, "signal") == 0) raise(SIGSYS);
        if (strcmp(how, "fatal") == 0) gasnett_fatalerror("told to, number %d", 5);
        if (strcmp(how, "misuse") == 0)
            (void)gex_RMA_PutBlocking(job.tm, job.size, job.base, &how, 1, 0);
        if (strcmp(how, "asked") == 0) raise(SIGUSR2);
    }
    job_barrier();
    gasnet_exit(0);
}
