/* Checks the limits of open files and processes for a job of this size. */
#include "job.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Numbers of descriptors. */
enum {
    LIMITS_OWN_FILES = 24,  /* of aqrun itself: a generous estimate */
    LIMITS_AGENT_FILES = 5, /* for each other host */
    LIMITS_RANK_FILES = 3,  /* its place, its control socket, the pidfd of a shell's program */
    LIMITS_RELAY_FILES = 2, /* for a rank whose output is relayed */
    LIMITS_SHOWN_FILES = 4  /* for a rank, if possible: counters, statistics, trace, warnings */
};

static struct rlimit limits_files;

static _Noreturn void limits_too_low(const char *what, unsigned long long need,
                                     unsigned long long have, const char *option)
{
    say("%u processes need %llu %s, but the limit is %llu: raise it (ulimit -%s %llu, or "
        "/etc/security/limits.conf) or start fewer processes",
        job.count, need, what, have, option, need);
    exit(AQI_EXIT_FAILED);
}

static void limits_check_files(void)
{
    if (getrlimit(RLIMIT_NOFILE, &limits_files) != 0) die("getrlimit: %s", strerror(errno));
    bool relays = job.options.prefix || job.options.output != NULL || job.agents > 1;
    unsigned each = LIMITS_RANK_FILES + (relays ? LIMITS_RELAY_FILES : 0);
    rlim_t need =
        LIMITS_OWN_FILES + (rlim_t)job.count * each + (rlim_t)LIMITS_AGENT_FILES * (job.agents - 1);
    rlim_t wanted = aqi_min(need + (rlim_t)job.count * LIMITS_SHOWN_FILES, limits_files.rlim_max);
    if (limits_files.rlim_max < need)
        limits_too_low("open files in aqrun", need, limits_files.rlim_max, "n");
    if (limits_files.rlim_cur >= wanted) return;
    struct rlimit raised = {.rlim_cur = wanted, .rlim_max = limits_files.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) != 0 && limits_files.rlim_cur < need)
        limits_too_low("open files in aqrun", need, limits_files.rlim_cur, "n");
}

/* The user's other processes also count, but the kernel does not report their number. */
static void limits_check_processes(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NPROC, &limit) != 0) die("getrlimit: %s", strerror(errno));
    rlim_t need = (rlim_t)job.count + 2; /* plus aqrun and its guard */
    /* Root is exempt from this limit. */
    if (geteuid() != 0 && limit.rlim_cur < need)
        limits_too_low("processes of this user", need, limit.rlim_cur, "u");
}

void limits_check(void)
{
    limits_check_files();
    limits_check_processes();
}

void limits_restore(void)
{
    setrlimit(RLIMIT_NOFILE, &limits_files);
}
