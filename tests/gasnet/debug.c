/* A program that fails in the way that its argument names; debug.py checks its output. */
#include <gasnetex.h>

#include <gasnet_coll.h>
#include <gasnet_tools.h>

#include "support.h"

#include <signal.h>

static int on_backtrace(int fd)
{
    static const char text[] = "the client's own trace\n";
    return write(fd, text, sizeof(text) - 1) < 0;
}

gasnett_backtrace_type_t gasnett_backtrace_user = {"OWN", on_backtrace, 1};

/* Two images for each of two processes. */
static void wrong_images(const char *how)
{
    const gasnet_image_t images[] = {2, 2}, none[] = {2, 0};
    const int flags = GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC;
    int strange = strcmp(how, "strange-image") == 0, root = strcmp(how, "no-root") == 0;
    char dst = 0, src = 0;
    gasnet_coll_init(strcmp(how, "no-image") == 0 ? none : images, strange ? 9 : job.rank * 2, NULL,
                     0, 0);
    if (root) (void)gasnet_coll_broadcast_nb(GASNET_TEAM_ALL, &dst, 4, &src, 1, flags);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "none";
    job_open(&argc, &argv, GASNET_PAGESIZE);
    (void)gasnett_getenv_int_withdefault("DEBUG_NUMBER", 7, 0);
    job_barrier();
    if (strstr(how, "-image") != NULL || strcmp(how, "no-root") == 0) wrong_images(how);
    if (job.rank == 0 && strcmp(how, "limit") == 0)
        printf("at most %llu bytes\n", (unsigned long long)gasnet_getMaxLocalSegmentSize());
    if (job.rank == job.size - 1) {
        /* A fatal signal that sanitizers leave alone. */
        if (strcmp(how, "signal") == 0) raise(SIGSYS);
        if (strcmp(how, "fatal") == 0) gasnett_fatalerror("told to, number %d", 5);
        if (strcmp(how, "misuse") == 0)
            (void)gex_RMA_PutBlocking(job.tm, job.size, job.base, &how, 1, 0);
        if (strcmp(how, "no-handler") == 0) (void)gex_AM_RequestShort0(job.tm, 0, 199, 0);
        if (strcmp(how, "no-endpoint") == 0)
            (void)gex_AM_RequestShort0(gex_TM_Pair(job.ep, 3), 0, 199, 0);
        if (strcmp(how, "asked") == 0) raise(SIGUSR2);
        /* A barrier may end before the other process has received the message. */
        while (strcmp(how, "no-handler") == 0 || strcmp(how, "no-endpoint") == 0)
            gasnet_AMPoll();
    }
    job_barrier();
    gasnet_exit(0);
}
