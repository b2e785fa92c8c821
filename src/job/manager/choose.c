/* Detects the manager that started this process, joins and leaves. */
#include "base/fail.h"
#include "job/settings.h"
#include "manager_impl.h"

#include <stdlib.h>

/*
 * By AQ_BOOT, in the order in which `auto` tries them. A manager that offers PMIx provides the
 * others only for old programs, so PMIx is first; if its library is missing, that is reported.
 * Slurm's pmi2 plugin also supports PMI-1, but is made for PMI-2; all other managers with a PMI
 * socket are known to support PMI-1. mpiexec.hydra inside a job of Slurm or Open MPI hides the
 * outer manager.
 */
static const struct aqi_manager_kind *const choose_kinds[] = {
    [AQI_BOOT_AS_PMIX] = &aqi_manager_pmix,
    [AQI_BOOT_AS_PMI2] = &aqi_manager_pmi2,
    [AQI_BOOT_AS_PMI] = &aqi_manager_pmi,
};

/*
 * Variables that managers set in each of several processes. SLURM_NTASKS is also set in batch
 * scripts, whose commands are single processes; the number of the step is not.
 */
static const struct {
    const char *size, *rank, *manager, *advice;
} choose_marks[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun",
     "PMIX_NAMESPACE is not set, so its PMIx server cannot be reached: use Open MPI 4 or later, "
     "and do not clear the program's environment"},
    {"PMI_SIZE", "PMI_RANK", "a PMI manager",
     "PMI_FD is not set, so the manager cannot be reached: do not clear the program's environment"},
    {"FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux run",
     "it offers neither PMI nor PMIx: omit -o pmi=off"},
    {"JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "jsrun",
     "PMIX_NAMESPACE is not set, so its PMIx server cannot be reached: do not clear the program's "
     "environment"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun",
     "it offers neither PMI-2 nor PMIx: add --mpi=pmi2 or --mpi=pmix (srun --mpi=list shows what "
     "is available)"},
};

/* No manager can be reached: fail if one has started this process as one of several. */
static aq_status choose_none(void)
{
    for (size_t i = 0; i < AQI_COUNT_OF(choose_marks); i++) {
        uint32_t size, rank;
        if (!manager_number(getenv(choose_marks[i].size), &size) ||
            !manager_number(getenv(choose_marks[i].rank), &rank) || size < 2)
            continue;
        return aqi_fail(
            AQ_ESTATE, "job",
            "%s started this process as number %u of %u (%s), but each of these processes would "
            "run alone: %s. To run each of them alone on purpose, set AQ_BOOT=single",
            choose_marks[i].manager, rank, size, choose_marks[i].size, choose_marks[i].advice);
    }
    return AQ_OK;
}

aq_status aqi_manager_choose(const struct aqi_manager_kind **kind)
{
    uint64_t boot = aqi_job_config.boot;
    *kind = boot < AQI_COUNT_OF(choose_kinds) ? choose_kinds[boot] : NULL;
    /* aqrun itself may have been started by a manager. */
    if (boot != AQI_BOOT_AS_AUTO || aqi_job_config.boot_fd != 0) return AQ_OK;
    for (size_t i = AQI_BOOT_AS_PMIX; i < AQI_COUNT_OF(choose_kinds) && *kind == NULL; i++)
        if (choose_kinds[i]->launched()) *kind = choose_kinds[i];
    return *kind == NULL ? choose_none() : AQ_OK;
}

aq_status aqi_manager_open(const struct aqi_manager_kind *kind, struct aqi_manager **manager)
{
    struct aqi_manager *opened = calloc(1, kind->bytes);
    if (opened == NULL) return aqi_fail(AQ_ENOMEM, "job", "no memory to join the job");
    opened->kind = kind;
    aq_status status = kind->open(opened);
    if (status == AQ_OK)
        *manager = opened;
    else
        free(opened);
    return status;
}

uint32_t aqi_manager_first(const struct aqi_manager *manager, uint32_t host)
{
    uint32_t rank = 0;
    while (manager->info.host_of[rank] != host)
        rank++;
    return rank;
}

void aqi_manager_close(struct aqi_manager *manager)
{
    manager->kind->close(manager);
    free(manager->info.host_of);
    free(manager);
}
