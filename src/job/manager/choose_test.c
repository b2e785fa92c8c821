/* Tests choose.c: environments as managers leave them, and which manager each implies. */
#include "job/settings.h"
#include "manager_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 16

/* The relevant part of environments set by hydra, srun and mpirun. */
#define HYDRA     "PMI_FD=6", "PMI_RANK=1", "PMI_SIZE=3", "HYDI_CONTROL_FD=7", "MPI_LOCALNRANKS=3"
#define SLURM(n)  "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=" n, "SLURM_PROCID=1", "SLURM_NTASKS=" n
#define SLURM_PMI "PMI_FD=11", "PMI_JOBID=1.0", "PMI_RANK=1", "PMI_SIZE=3"
#define PMIX      "PMIX_NAMESPACE=slurm.pmix.4.0", "PMIX_RANK=1"
#define OMPI      "OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_RANK=1"

static const struct environment {
    const char *set[MOST];
    const char *kind;    /* NULL: no manager */
    const char *mistake; /* expected part of its text; NULL: no mistake */
} environments[] = {
    {{NULL}, NULL, NULL},
    {{HYDRA}, "pmi", NULL},
    {{"PMI_PORT=vm:36593", "PMI_ID=0"}, "pmi", NULL},
    {{SLURM("3"), SLURM_PMI}, "pmi2", NULL},
    {{SLURM("3"), PMIX}, "pmix", NULL},
    {{OMPI, PMIX}, "pmix", NULL},
    {{PMIX, SLURM_PMI}, "pmix", NULL},
    /* One inside another. */
    {{SLURM("1"), PMIX, HYDRA}, "pmi", NULL},
    {{SLURM("1"), SLURM_PMI, HYDRA}, "pmi", NULL},
    {{HYDRA, OMPI, PMIX}, "pmix", NULL},
    {{SLURM("3"), SLURM_PMI, "AQ_BOOT_FD=5"}, NULL, NULL},
    {{SLURM("3"), "AQ_BOOT_FD=5"}, NULL, NULL},
    /* An explicit choice wins. */
    {{HYDRA, "AQ_BOOT=pmi2"}, "pmi2", NULL},
    {{HYDRA, "AQ_BOOT=single"}, NULL, NULL},
    {{HYDRA, "AQ_BOOT=fork"}, NULL, NULL},
    {{"AQ_BOOT=pmix"}, "pmix", NULL},
    {{SLURM("3"), "AQ_BOOT=single"}, NULL, NULL},
    {{"AQ_BOOT=pmi", "AQ_BOOT_FD=5"}, "pmi", NULL},
    /* The environment of a batch script, and jobs of one. */
    {{"SLURM_NTASKS=4", "SLURM_NPROCS=4", "SLURM_PROCID=0"}, NULL, NULL},
    {{SLURM("1")}, NULL, NULL},
    {{"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0"}, NULL, NULL},
    /* Mistakes. */
    {{SLURM("3")}, NULL, "srun started this process as number 1 of 3"},
    {{SLURM("2")}, NULL, "add --mpi=pmi2 or --mpi=pmix"},
    {{OMPI}, NULL, "Open MPI's mpirun started this process as number 1 of 3"},
    {{"PMI_SIZE=2", "PMI_RANK=0"}, NULL, "PMI_FD is not set"},
    {{"FLUX_JOB_SIZE=2", "FLUX_TASK_RANK=0"}, NULL, "flux run"},
    {{"JSM_NAMESPACE_SIZE=2", "JSM_NAMESPACE_RANK=0"}, NULL, "jsrun"},
    {{"SLURM_STEP_NUM_TASKS=x", "SLURM_PROCID=0"}, NULL, NULL},
};

static void use(const struct environment *environment)
{
    static struct aqi_settings_table *const tables[] = {&aqi_job_settings};
    clearenv();
    for (size_t i = 0; i < MOST && environment->set[i] != NULL; i++) {
        char text[100];
        snprintf(text, sizeof(text), "%s", environment->set[i]);
        char *equals = strchr(text, '=');
        *equals = '\0';
        setenv(text, equals + 1, 1);
    }
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
}

static void detected_managers(void **state)
{
    for (size_t i = 0; i < AQI_COUNT_OF(environments); i++) {
        const struct environment *environment = &environments[i];
        const struct aqi_manager_kind *kind = NULL;
        use(environment);
        aq_status status = aqi_manager_choose(&kind);
        print_message("%zu: %s\n", i, environment->set[0] == NULL ? "" : environment->set[0]);
        assert_int_equal(status, environment->mistake == NULL ? AQ_OK : AQ_ESTATE);
        assert_string_equal(kind == NULL ? "-" : kind->name,
                            environment->kind == NULL ? "-" : environment->kind);
        if (environment->mistake == NULL) continue;
        assert_non_null(strstr(aq_error_message(), environment->mistake));
        assert_non_null(strstr(aq_error_message(), "AQ_BOOT=single"));
    }
}

/* Each kind reports that it did not start us, or what is missing. */
static void missing_managers(void **state)
{
    static const struct {
        struct environment environment;
        aq_status status;
        const char *text;
    } cases[] = {
        {{.set = {"AQ_BOOT=pmi"}}, AQ_ESTATE, "PMI_FD is not set"},
        {{.set = {"AQ_BOOT=pmi2", "PMI_PORT=x:1"}}, AQ_ESTATE, "PMI_FD is not set"},
        {{.set = {"AQ_BOOT=pmix"}}, AQ_ESTATE, "PMIX_NAMESPACE is not set"},
        {{.set = {"PMI_FD=9999", "PMI_RANK=0"}},
         AQ_ESTATE,
         "PMI_FD=9999 is not connected to a manager"},
        {{.set = {"PMI_FD=0x1", "PMI_RANK=0"}},
         AQ_ESTATE,
         "PMI_FD=0x1 is not connected to a manager"},
        {{.set = {"PMI_PORT=nowhere", "PMI_ID=0"}}, AQ_ESTATE, "is not HOST:PORT"},
        {{.set = {"PMI_PORT=127.0.0.1:1", "PMI_ID=0"}}, AQ_EPEER, "PMI_PORT=127.0.0.1:1"},
        {{.set = {PMIX, "AQ_PMIX_LIBRARY=/nowhere/libpmix.so.2"}}, AQ_ENOTSUP, "libpmix2"},
        {{.set = {PMIX, "AQ_PMIX_LIBRARY=libpthread.so.0"}}, AQ_ENOTSUP, NULL},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        const struct aqi_manager_kind *kind = NULL;
        struct aqi_manager *manager = NULL;
        use(&cases[i].environment);
        assert_int_equal(aqi_manager_choose(&kind), AQ_OK);
        print_message("%zu: %s\n", i, kind->name);
        assert_int_equal(aqi_manager_open(kind, &manager), cases[i].status);
        assert_null(manager);
        if (cases[i].text != NULL) assert_non_null(strstr(aq_error_message(), cases[i].text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detected_managers),
        cmocka_unit_test(missing_managers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
