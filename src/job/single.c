/* The bootstrap of a process that nobody launched: a job of one. */
#include "base/fail.h"
#include "base/shmem.h"
#include "job/kind.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static const _Atomic uint32_t single_alerts;

static bool single_launched(void)
{
    return true;
}

static aq_status single_open(struct aqi_boot *boot)
{
    boot->info.size = 1;
    boot->info.hosts = 1;
    boot->info.local_size = 1;
    boot->alerts = &single_alerts;
    if (getrandom(boot->info.key, sizeof(boot->info.key), 0) != (ssize_t)sizeof(boot->info.key))
        return aqi_fail_errno(AQ_ESYS, errno, "job", "getrandom of the job key");
    return AQ_OK;
}

static aq_status single_allgather(struct aqi_boot *boot, const void *mine, size_t len, void *all)
{
    (void)boot;
    if (len != 0) memmove(all, mine, len);
    return AQ_OK;
}

static aq_status single_barrier(struct aqi_boot *boot)
{
    (void)boot;
    return AQ_OK;
}

static aq_status single_share(struct aqi_boot *boot, const char *name, size_t bytes, int *fd)
{
    (void)boot;
    return aqi_shmem_create(name, bytes, fd);
}

static aq_status single_progress(struct aqi_boot *boot, aqi_boot_event_fn *fn, void *arg)
{
    (void)boot;
    (void)fn;
    (void)arg;
    return AQ_OK;
}

static void single_exit(struct aqi_boot *boot, int code, const char *why)
{
    (void)boot;
    (void)code;
    (void)why;
}

static aq_status single_finalize(struct aqi_boot *boot)
{
    (void)boot;
    return AQ_OK;
}

static void single_close(struct aqi_boot *boot)
{
    (void)boot;
}

const struct aqi_boot_kind aqi_boot_single = {
    .name = "single",
    .bytes = sizeof(struct aqi_boot),
    .launched = single_launched,
    .open = single_open,
    .allgather = single_allgather,
    .barrier = single_barrier,
    .share = single_share,
    .progress = single_progress,
    .exit = single_exit,
    .finalize = single_finalize,
    .close = single_close,
};
