/* PMIx by libpmix, loaded on demand, with the few declarations of its standard ABI. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/library.h"
#include "job/settings.h"
#include "manager_impl.h"
#include "pmix_abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PMIX_SECOND 1000000000ull

struct pmix_manager {
    struct aqi_manager manager;
    struct pmix_abi_proc me;
    bool broken; /* a call may still be pending */
};

static struct {
    bool loaded;
    int (*init)(struct pmix_abi_proc *me, struct pmix_abi_info *info, size_t count);
    int (*finalize)(const struct pmix_abi_info *info, size_t count);
    int (*put)(uint8_t scope, const char *key, struct pmix_abi_value *value);
    int (*commit)(void);
    int (*fence)(const struct pmix_abi_proc *procs, size_t nprocs, const struct pmix_abi_info *info,
                 size_t count, pmix_done_fn *done, void *arg);
    int (*get)(const struct pmix_abi_proc *proc, const char *key, const struct pmix_abi_info *info,
               size_t count, struct pmix_abi_value **value);
    int (*ask)(const struct pmix_abi_proc *proc, const char *key, const struct pmix_abi_info *info,
               size_t count, pmix_found_fn *found, void *arg);
    int (*abort)(int code, const char *text, struct pmix_abi_proc *procs, size_t nprocs);
    const char *(*error)(int status);
    const char *(*version)(void);
} pmix_calls;

static const struct aqi_symbol pmix_symbols[] = {
    {"PMIx_Init", &pmix_calls.init},
    {"PMIx_Finalize", &pmix_calls.finalize},
    {"PMIx_Put", &pmix_calls.put},
    {"PMIx_Commit", &pmix_calls.commit},
    {"PMIx_Fence_nb", &pmix_calls.fence},
    {"PMIx_Get", &pmix_calls.get},
    {"PMIx_Get_nb", &pmix_calls.ask},
    {"PMIx_Abort", &pmix_calls.abort},
    {"PMIx_Error_string", &pmix_calls.error},
    {"PMIx_Get_version", &pmix_calls.version},
};

static struct pmix_manager *pmix_of(struct aqi_manager *manager)
{
    return (struct pmix_manager *)(void *)manager;
}

static bool pmix_launched(void)
{
    return getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL && !manager_is_hydra();
}

static aq_status pmix_load(void)
{
    const char *name = aqi_job_config.pmix_library;
    if (pmix_calls.loaded) return AQ_OK;
    const char *missing = aqi_library_load(name, pmix_symbols, AQI_COUNT_OF(pmix_symbols));
    if (missing == name)
        return aqi_fail(
            AQ_ENOTSUP, "job",
            "a PMIx manager started this process, but the PMIx library cannot be loaded (%s): "
            "install it (Debian: libpmix2), or set AQ_PMIX_LIBRARY to its path",
            dlerror());
    if (missing != NULL)
        return aqi_fail(AQ_ENOTSUP, "job", "AQ_PMIX_LIBRARY=%s has no %s: use libpmix.so.2", name,
                        missing);
    pmix_calls.loaded = true;
    return AQ_OK;
}

static aq_status pmix_failed(int error, const char *doing)
{
    return aqi_fail(AQ_EPEER, "job",
                    "%s: libpmix returned %s (%d); the manager is gone, or libpmix does not "
                    "support its version",
                    doing, pmix_calls.error(error), error);
}

static struct pmix_abi_info pmix_flag(const char *key)
{
    struct pmix_abi_info info;
    memset(&info, 0, sizeof(info));
    strcpy(info.key, key);
    info.value.type = PMIX_ABI_TYPE_BOOL;
    info.value.data.flag = true;
    return info;
}

/* ---- calls with a time limit ---- */

/* The state of a pending call, referenced by the call and by the callback of its answer, which may
 * run after the call has timed out. */
struct pmix_wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned holders;
    bool done;
    int error;
    size_t len; /* above AQI_MANAGER_VALUE: too long, or of another type */
    uint8_t value[AQI_MANAGER_VALUE];
};

static struct pmix_wait *pmix_wait_new(void)
{
    struct pmix_wait *wait = calloc(1, sizeof(*wait));
    pthread_condattr_t clock;
    if (wait == NULL) return NULL;
    pthread_mutex_init(&wait->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&wait->changed, &clock);
    pthread_condattr_destroy(&clock);
    wait->holders = 2;
    return wait;
}

/* Drop a reference; `lock` is held. */
static void pmix_wait_drop(struct pmix_wait *wait)
{
    bool last = --wait->holders == 0;
    pthread_mutex_unlock(&wait->lock);
    if (!last) return;
    pthread_cond_destroy(&wait->changed);
    pthread_mutex_destroy(&wait->lock);
    free(wait);
}

static void pmix_done(int error, void *arg)
{
    struct pmix_wait *wait = arg;
    pthread_mutex_lock(&wait->lock);
    wait->error = error;
    wait->done = true;
    pthread_cond_signal(&wait->changed);
    pmix_wait_drop(wait);
}

static void pmix_found(int error, struct pmix_abi_value *value, void *arg)
{
    struct pmix_wait *wait = arg;
    if (error == PMIX_ABI_STATUS_OK && value != NULL) {
        wait->len = value->type == PMIX_ABI_TYPE_BYTES ? value->data.bytes.size : SIZE_MAX;
        if (wait->len <= AQI_MANAGER_VALUE && wait->len != 0)
            memcpy(wait->value, value->data.bytes.at, wait->len);
    } else if (error == PMIX_ABI_STATUS_OK) {
        error = PMIX_ABI_STATUS_NOT_FOUND;
    }
    pmix_done(error, wait);
}

/*
 * Wait for the answer; returns false after AQ_START_TIMEOUT. `begun` is the status of the request;
 * if it failed, or completed immediately, no answer follows. On return `lock` is held, and the
 * caller drops the wait.
 */
static bool pmix_wait_done(struct pmix_wait *wait, int begun)
{
    uint64_t until = aqi_now_ns() + aqi_job_config.start_timeout_ns;
    struct timespec at = {(time_t)(until / PMIX_SECOND), (long)(until % PMIX_SECOND)};
    int error = 0;
    pthread_mutex_lock(&wait->lock);
    if (begun != PMIX_ABI_STATUS_OK) {
        wait->error = begun == PMIX_ABI_STATUS_DONE ? PMIX_ABI_STATUS_OK : begun;
        wait->done = true;
        wait->holders--;
    }
    while (!wait->done && error == 0)
        error = pthread_cond_timedwait(&wait->changed, &wait->lock, &at);
    return wait->done;
}

static aq_status pmix_fence(struct aqi_manager *manager)
{
    struct pmix_manager *pmix = pmix_of(manager);
    int error = pmix_calls.commit();
    if (error != PMIX_ABI_STATUS_OK) return pmix_failed(error, "PMIx_Commit");
    struct pmix_wait *wait = pmix_wait_new();
    struct pmix_abi_info info = pmix_flag(PMIX_ABI_KEY_COLLECT);
    if (wait == NULL) return aqi_fail(AQ_ENOMEM, "job", "no memory to wait for others");
    int begun = pmix_calls.fence(NULL, 0, &info, 1, pmix_done, wait);
    bool done = pmix_wait_done(wait, begun);
    error = wait->error;
    pmix_wait_drop(wait);
    pmix->broken = !done;
    if (!done || error == PMIX_ABI_STATUS_TIMEOUT) return manager_fence_late(manager);
    return error == PMIX_ABI_STATUS_OK ? AQ_OK : pmix_failed(error, "exchange among all ranks");
}

static void pmix_wire_key(char wire[MANAGER_WIRE_KEY], const char *key)
{
    snprintf(wire, MANAGER_WIRE_KEY, "aq.%s", key);
}

static aq_status pmix_put(struct aqi_manager *manager, const char *key, const void *bytes,
                          size_t len)
{
    char wire[MANAGER_WIRE_KEY];
    struct pmix_abi_value value;
    aq_status status = manager_check_put(key, len);
    (void)manager;
    if (status != AQ_OK) return status;
    memset(&value, 0, sizeof(value));
    value.type = PMIX_ABI_TYPE_BYTES;
    value.data.bytes.at = (char *)(uintptr_t)bytes; /* it is copied, not written to */
    value.data.bytes.size = len;
    pmix_wire_key(wire, key);
    int error = pmix_calls.put(PMIX_ABI_SCOPE_GLOBAL, wire, &value);
    return error == PMIX_ABI_STATUS_OK ? AQ_OK : pmix_failed(error, "PMIx_Put");
}

/* Evaluate an answer; `wait->lock` is held. */
static aq_status pmix_take(const struct pmix_wait *wait, uint32_t rank, const char *key,
                           void *value, size_t room, size_t *len)
{
    if (wait->error == PMIX_ABI_STATUS_NOT_FOUND) return manager_no_value(rank, key);
    if (wait->error != PMIX_ABI_STATUS_OK) return pmix_failed(wait->error, "PMIx_Get");
    if (wait->len > AQI_MANAGER_VALUE)
        return aqi_fail(AQ_EPROTO, "job",
                        "the value of rank %u for '%s' was not set by this library", rank, key);
    if (wait->len > room) return manager_long_value(rank, key, wait->len, room);
    memcpy(value, wait->value, wait->len);
    *len = wait->len;
    return AQ_OK;
}

static aq_status pmix_get(struct aqi_manager *manager, uint32_t rank, const char *key, void *value,
                          size_t room, size_t *len)
{
    struct pmix_manager *pmix = pmix_of(manager);
    struct pmix_abi_info now = pmix_flag(PMIX_ABI_KEY_IMMEDIATE);
    struct pmix_abi_proc from = pmix->me;
    char wire[MANAGER_WIRE_KEY];
    if (rank >= manager->info.size || manager_check_put(key, 0) != AQ_OK)
        return manager_no_value(rank, key);
    struct pmix_wait *wait = pmix_wait_new();
    if (wait == NULL) return aqi_fail(AQ_ENOMEM, "job", "no memory to wait for a value");
    from.rank = rank;
    pmix_wire_key(wire, key);
    bool done = pmix_wait_done(wait, pmix_calls.ask(&from, wire, &now, 1, pmix_found, wait));
    aq_status status =
        done ? pmix_take(wait, rank, key, value, room, len) : manager_silent("PMIx_Get");
    pmix->broken = pmix->broken || !done;
    pmix_wait_drop(wait);
    return status;
}

/* Open MPI's mpirun (4.1) sometimes hangs if it receives an abort while ranks are in a fence. It
 * notices the end of a process without finalize anyway, and exits with its code. */
static void pmix_abort(struct aqi_manager *manager, int code, const char *text)
{
    struct pmix_manager *pmix = pmix_of(manager);
    bool heard = pmix->broken || getenv("OMPI_COMM_WORLD_SIZE") != NULL;
    pmix->broken = true;
    if (!heard) (void)pmix_calls.abort(code, text, NULL, 0);
}

static void pmix_close(struct aqi_manager *manager)
{
    if (!pmix_of(manager)->broken) (void)pmix_calls.finalize(NULL, 0);
}

/* ---- opening ---- */

/* Locally known data of a rank or of the job; NULL: none, or of another type. The caller frees it,
 * and the text of a string. */
static struct pmix_abi_value *pmix_known(const struct pmix_manager *pmix, uint32_t rank,
                                         const char *key, uint16_t type)
{
    struct pmix_abi_info here = pmix_flag(PMIX_ABI_KEY_OPTIONAL);
    struct pmix_abi_proc proc = pmix->me;
    struct pmix_abi_value *value = NULL;
    proc.rank = rank;
    if (pmix_calls.get(&proc, key, &here, 1, &value) != PMIX_ABI_STATUS_OK || value == NULL)
        return NULL;
    if (value->type == type) return value;
    if (value->type == PMIX_ABI_TYPE_STRING) free(value->data.string);
    free(value);
    return NULL;
}

static bool pmix_job_size(const struct pmix_manager *pmix, uint32_t *size)
{
    struct pmix_abi_value *value =
        pmix_known(pmix, PMIX_ABI_RANK_ALL, PMIX_ABI_KEY_JOB_SIZE, PMIX_ABI_TYPE_U32);
    if (value == NULL) return false;
    *size = value->data.u32;
    free(value);
    return true;
}

/* Identify the host of a rank by its name: Slurm reports the number of a node only to the node's
 * ranks. */
static bool pmix_node_of(const struct pmix_manager *pmix, uint32_t rank, uint64_t *node)
{
    struct pmix_abi_value *value =
        pmix_known(pmix, rank, PMIX_ABI_KEY_HOSTNAME, PMIX_ABI_TYPE_STRING);
    if (value == NULL) return false;
    bool named = value->data.string != NULL;
    if (named) *node = aqi_hash_text(AQI_HASH_SEED, value->data.string);
    free(value->data.string);
    free(value);
    return named;
}

/* Shorten "OpenPMIx 4.2.2 (…), repo rev: …" for users. */
static void pmix_name_version(char name[AQI_MANAGER_NAME])
{
    const char *said = pmix_calls.version();
    snprintf(name, AQI_MANAGER_NAME, "%.*s", (int)strcspn(said, ",("), said);
    for (size_t len = strlen(name); len != 0 && name[len - 1] == ' '; len--)
        name[len - 1] = '\0';
}

static aq_status pmix_map(struct pmix_manager *pmix)
{
    struct aqi_manager *manager = &pmix->manager;
    uint64_t *node_of = calloc(manager->info.size, sizeof(*node_of));
    bool known = node_of != NULL;
    for (uint32_t rank = 0; known && rank < manager->info.size; rank++)
        known = pmix_node_of(pmix, rank, &node_of[rank]);
    aq_status status =
        known ? manager_set_hosts(manager, node_of) : manager_map_hosts(manager, NULL);
    free(node_of);
    return status;
}

static aq_status pmix_join(struct pmix_manager *pmix)
{
    struct aqi_manager_info *info = &pmix->manager.info;
    const char *job = getenv("PMIX_NAMESPACE");
    snprintf(info->job, sizeof(info->job), "%s", pmix->me.nspace);
    info->rank = pmix->me.rank;
    pmix_name_version(info->version);
    /* Without a server, the library creates a job of one. */
    if (job == NULL || strcmp(job, info->job) != 0)
        return aqi_fail(AQ_EPEER, "job",
                        "the manager of PMIX_NAMESPACE=%.100s is gone, or it did not start this "
                        "process, but one of its processes did: set AQ_BOOT=single to run it alone",
                        job == NULL ? "(not set)" : job);
    if (!pmix_job_size(pmix, &info->size))
        return aqi_fail(AQ_EPROTO, "job", "the manager does not report the size of the job (%s)",
                        PMIX_ABI_KEY_JOB_SIZE);
    aq_status status = manager_check_ranks(&pmix->manager);
    return status == AQ_OK ? pmix_map(pmix) : status;
}

static aq_status pmix_open(struct aqi_manager *manager)
{
    struct pmix_manager *pmix = pmix_of(manager);
    if (getenv("PMIX_NAMESPACE") == NULL || getenv("PMIX_RANK") == NULL)
        return aqi_fail(AQ_ESTATE, "job",
                        "PMIX_NAMESPACE is not set: this process was not started by a PMIx "
                        "manager; unset AQ_BOOT");
    aq_status status = pmix_load();
    if (status != AQ_OK) return status;
    int error = pmix_calls.init(&pmix->me, NULL, 0);
    if (error != PMIX_ABI_STATUS_OK) return pmix_failed(error, "PMIx_Init");
    status = pmix_join(pmix);
    if (status != AQ_OK && !pmix->broken) (void)pmix_calls.finalize(NULL, 0);
    return status;
}

const struct aqi_manager_kind aqi_manager_pmix = {
    .name = "pmix",
    .bytes = sizeof(struct pmix_manager),
    .launched = pmix_launched,
    .open = pmix_open,
    .put = pmix_put,
    .fence = pmix_fence,
    .get = pmix_get,
    .abort = pmix_abort,
    .close = pmix_close,
};
