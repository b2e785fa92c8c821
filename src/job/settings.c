/* The table of the settings of src/job. */
#include "job/settings.h"

#include "job/boot.h"

#include <stdlib.h>

#define JOB_MILLISECOND 1000000u
#define JOB_MINUTE      (60000ull * JOB_MILLISECOND)

struct aqi_job_config aqi_job_config = {
    .start_timeout_ns = JOB_MINUTE,
    .exit_timeout_ns = 2000ull * JOB_MILLISECOND,
    .host_timeout_ns = 10000ull * JOB_MILLISECOND,
    .control_ports = "",
    .catch_exit = 1,
    .size = 1,
    .local_size = 1,
    .pmix_library = "libpmix.so.2",
    .stats_file = "",
    .trace_file = "",
    .job_id = "",
};

static const char *const job_binds[] = {"none", "core", NULL};
/* In the order of enum aqi_boot_as. */
static const char *const job_boots[] = {"auto", "single", "fork", "pmix", "pmi2", "pmi", NULL};

static const struct aqi_setting job_rows[] = {
    [AQI_JOB_START_TIMEOUT] =
        {.name = "AQ_START_TIMEOUT",
         .def = "60s",
         .unit = "s",
         .min = 100 * JOB_MILLISECOND,
         .max = 24 * 60 * JOB_MINUTE,
         .doc = "How long the processes of a job wait for each other in aq_init and, once all have "
                "arrived there, in later exchanges through aqrun; over udp, also how long a "
                "process may take to send its first answer.",
         .advice = "Raise it if programs load slowly, for example from a busy network file system.",
         AQI_SETTING_IN(TIME, struct aqi_job_config, start_timeout_ns)},
    [AQI_JOB_EXIT_TIMEOUT] =
        {.name = "AQ_EXIT_TIMEOUT",
         .clamp = true,
         .alias = "GASNET_EXITTIMEOUT",
         .def = "2s",
         .unit = "s",
         .min = 100 * JOB_MILLISECOND,
         .max = 60 * JOB_MINUTE,
         .doc = "How long the end of a job may take: processes get SIGTERM after a quarter of this "
                "time, and SIGKILL after three quarters.",
         .advice = "Raise it if processes must write large files in response to SIGTERM.",
         AQI_SETTING_IN(TIME, struct aqi_job_config, exit_timeout_ns)},
    [AQI_JOB_HOST_TIMEOUT] =
        {.name = "AQ_HOST_TIMEOUT",
         .def = "10s",
         .unit = "s",
         .min = 200 * JOB_MILLISECOND,
         .max = 60 * JOB_MINUTE,
         .doc = "In a job over several hosts, how long a host may be silent before its link counts "
                "as broken, and then how long it has to reconnect; after that it is declared dead, "
                "with all its processes. Hosts send keep-alives four times within this time.",
         .advice = "Raise it if hosts or the network between them stall for seconds; lower it to "
                   "detect lost hosts sooner. It must be the same on every host.",
         AQI_SETTING_IN(TIME, struct aqi_job_config, host_timeout_ns)},
    [AQI_JOB_CONTROL_PORTS] =
        {.name = "AQ_CONTROL_PORTS",
         .def = "",
         .doc = "In a job over several hosts, the TCP ports on which hosts listen for each other, "
                "as a range. If empty: any free port.",
         .advice = "Set it, for example AQ_CONTROL_PORTS=40000-40099, if a firewall allows only "
                   "some ports; each job takes one of them on each host.",
         AQI_SETTING_IN(TEXT, struct aqi_job_config, control_ports)},
    [AQI_JOB_CATCH_EXIT] =
        {.name = "AQ_CATCH_EXIT",
         .alias = "GASNET_CATCH_EXIT",
         .def = "yes",
         .doc = "Whether exit() or a return from main without aq_finalize ends the whole job; no: "
                "it ends only this process, and the job ends when all processes have ended.",
         .advice = "Set no for programs whose processes end on their own, one after another, when "
                   "the work is done.",
         AQI_SETTING_IN(BOOL, struct aqi_job_config, catch_exit)},
    [AQI_JOB_SURVIVE] =
        {.name = "AQ_SURVIVE",
         .def = "no",
         .doc = "Whether the job goes on when a process dies: the other processes are notified "
                "(aq_on_peer_lost) instead of being ended. Set by aqrun --survive.",
         .advice = "Set yes only for programs that can go on without a process.",
         AQI_SETTING_IN(BOOL, struct aqi_job_config, survive)},
    [AQI_JOB_BIND] = {.name = "AQ_BIND",
                      .choices = job_binds,
                      .def = "none",
                      .doc =
                          "Where aqrun lets processes run: none, anywhere; core, each on one core, "
                          "assigned in turn from those that aqrun may use. Set by aqrun --bind.",
                      .advice =
                          "Set core if there are more ranks than cores and they synchronize often, "
                          "or if each rank has a core and nothing else runs; not for programs with "
                          "several busy threads, nor for two jobs on the same cores.",
                      AQI_SETTING_IN(CHOICE, struct aqi_job_config, bind)},
    [AQI_JOB_BOOT] = {.name = "AQ_BOOT",
                      .choices = job_boots,
                      .def = "auto",
                      .doc = "How a process learns its rank: fork, from aqrun; pmix, pmi2 or pmi, "
                             "from the manager that started it (srun, mpirun, mpiexec.hydra); "
                             "single, not at all, since it runs alone; auto, the first of fork, "
                             "pmix, pmi2 and pmi that the environment indicates, otherwise single.",
                      .advice = "Set single for a program that runs alone in each of the processes "
                                "that a manager started.",
                      AQI_SETTING_IN(CHOICE, struct aqi_job_config, boot)},
    [AQI_JOB_PMIX_LIBRARY] =
        {.name = "AQ_PMIX_LIBRARY",
         .def = "libpmix.so.2",
         .doc = "The PMIx library, for jobs started by a manager with PMIx: a name that the "
                "dynamic loader finds, or a path.",
         .advice =
             "Set the path of the manager's own libpmix if it is not in a standard directory.",
         AQI_SETTING_IN(TEXT, struct aqi_job_config, pmix_library)},
    [AQI_JOB_STATS_FILE] =
        {.name = "AQ_STATS_FILE",
         .alias = "GASNET_STATSFILE",
         .def = "",
         .doc = "The file for the counters of all processes of the job, however each ends, on the "
                "host of aqrun or of rank 0. If the name contains a %, which becomes the rank, "
                "each process writes its own file. stderr: standard error.",
         .advice = "For example: AQ_STATS_FILE=stats.",
         AQI_SETTING_IN(TEXT, struct aqi_job_config, stats_file)},
    [AQI_JOB_TRACE_FILE] =
        {.name = "AQ_TRACE_FILE",
         .alias = "GASNET_TRACEFILE",
         .def = "",
         .doc = "The file for the traces of all processes of the job, on one timeline, on the host "
                "of aqrun or of rank 0. If the name contains a %, which becomes the rank, each "
                "process writes its own file. Empty or stderr: standard error.",
         .advice = "For example: AQ_TRACE_FILE=trace.json; with a % if the traces are too large "
                   "for one host, and aqinfo --merge-traces to merge them.",
         AQI_SETTING_IN(TEXT, struct aqi_job_config, trace_file)},
    [AQI_JOB_RANK] = {.name = "AQ_RANK",
                      .def = "0",
                      .max = AQI_MAX_RANKS - 1,
                      .by_launcher = true,
                      .doc = "The rank of this process in its job.",
                      AQI_SETTING_IN(COUNT, struct aqi_job_config, rank)},
    [AQI_JOB_SIZE] = {.name = "AQ_SIZE",
                      .def = "1",
                      .min = 1,
                      .max = AQI_MAX_RANKS,
                      .by_launcher = true,
                      .doc = "The number of processes in the job.",
                      AQI_SETTING_IN(COUNT, struct aqi_job_config, size)},
    [AQI_JOB_LOCAL_RANK] = {.name = "AQ_LOCAL_RANK",
                            .def = "0",
                            .max = AQI_MAX_RANKS - 1,
                            .by_launcher = true,
                            .doc = "The rank of this process among those of its host.",
                            AQI_SETTING_IN(COUNT, struct aqi_job_config, local_rank)},
    [AQI_JOB_LOCAL_SIZE] = {.name = "AQ_LOCAL_SIZE",
                            .def = "1",
                            .min = 1,
                            .max = AQI_MAX_RANKS,
                            .by_launcher = true,
                            .doc = "The number of processes of the job on this host.",
                            AQI_SETTING_IN(COUNT, struct aqi_job_config, local_size)},
    [AQI_JOB_LOCAL_CORES] = {.name = "AQ_LOCAL_CORES",
                             .def = "0",
                             .max = UINT32_MAX,
                             .by_launcher = true,
                             .doc = "The number of cores shared by the bound processes of the job "
                                    "on this host; 0: they are not bound.",
                             AQI_SETTING_IN(COUNT, struct aqi_job_config, local_cores)},
    [AQI_JOB_BOOT_FD] = {.name = "AQ_BOOT_FD",
                         .def = "0",
                         .max = INT32_MAX,
                         .by_launcher = true,
                         .doc = "The file descriptor of the socket to aqrun; 0: none.",
                         AQI_SETTING_IN(COUNT, struct aqi_job_config, boot_fd)},
    [AQI_JOB_STDERR] =
        {.name = "AQ_STDERR",
         .def = "",
         .by_launcher = true,
         .doc = "The device and inode number of the file that aqrun passed to this process as "
                "standard error. As long as it is standard error, warnings and errors go to aqrun, "
                "which prints those that many processes report only once.",
         AQI_SETTING_IN(TEXT, struct aqi_job_config, stderr_id)},
    [AQI_JOB_ID] = {.name = "AQ_JOB_ID",
                    .def = "",
                    .by_launcher = true,
                    .doc = "A name for the job, the same in all its processes and different for "
                           "every job on a machine.",
                    AQI_SETTING_IN(TEXT, struct aqi_job_config, job_id)},
};
static_assert(AQI_COUNT_OF(job_rows) == AQI_JOB_ROWS, "one row for each enum aqi_job_row");

struct aqi_settings_table aqi_job_settings = {
    .group = "job",
    .rows = job_rows,
    .count = AQI_COUNT_OF(job_rows),
    .values = &aqi_job_config,
};

static bool job_given(enum aqi_job_row row, uint64_t *number)
{
    const char *text = getenv(job_rows[row].name);
    return text != NULL && aqi_setting_read(&job_rows[row], text, number);
}

bool aqi_job_rank_given(uint32_t *rank)
{
    uint64_t given, size, fd;
    if (!job_given(AQI_JOB_RANK, &given) || !job_given(AQI_JOB_SIZE, &size) ||
        !job_given(AQI_JOB_BOOT_FD, &fd) || fd == 0 || given >= size)
        return false;
    *rank = (uint32_t)given;
    return true;
}
