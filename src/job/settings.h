/*
 * The settings of src/job: time limits for starting and ending, and values passed by aqrun to its
 * ranks.
 */
#ifndef AQI_JOB_SETTINGS_H
#define AQI_JOB_SETTINGS_H

#include "base/settings.h"

/* Filled by aqi_settings_load before aqi_boot_open. */
struct aqi_job_config {
    uint64_t start_timeout_ns;
    uint64_t exit_timeout_ns;
    uint64_t host_timeout_ns;
    const char *control_ports;
    uint64_t catch_exit;
    uint64_t survive;
    uint64_t bind;
    uint64_t boot; /* enum aqi_boot_as */
    const char *pmix_library;
    const char *stats_file, *trace_file;
    uint64_t rank; /* from the environment; aqi_boot_info is authoritative */
    uint64_t size;
    uint64_t local_rank;
    uint64_t local_size;
    uint64_t local_cores; /* 0: those that this process may use */
    uint64_t boot_fd;     /* 0: not started by aqrun */
    const char *stderr_id;
    const char *job_id;
};

/* AQ_BOOT, in the order of its choices. */
enum aqi_boot_as {
    AQI_BOOT_AS_AUTO,
    AQI_BOOT_AS_SINGLE,
    AQI_BOOT_AS_FORK,
    AQI_BOOT_AS_PMIX,
    AQI_BOOT_AS_PMI2,
    AQI_BOOT_AS_PMI
};

enum aqi_job_row {
    AQI_JOB_START_TIMEOUT,
    AQI_JOB_EXIT_TIMEOUT,
    AQI_JOB_HOST_TIMEOUT,
    AQI_JOB_CONTROL_PORTS,
    AQI_JOB_CATCH_EXIT,
    AQI_JOB_SURVIVE,
    AQI_JOB_BIND,
    AQI_JOB_BOOT,
    AQI_JOB_PMIX_LIBRARY,
    AQI_JOB_STATS_FILE,
    AQI_JOB_TRACE_FILE,
    AQI_JOB_RANK,
    AQI_JOB_SIZE,
    AQI_JOB_LOCAL_RANK,
    AQI_JOB_LOCAL_SIZE,
    AQI_JOB_LOCAL_CORES,
    AQI_JOB_BOOT_FD,
    AQI_JOB_STDERR,
    AQI_JOB_ID,
    AQI_JOB_ROWS
};

extern struct aqi_job_config aqi_job_config;
extern struct aqi_settings_table aqi_job_settings;

/* Get the rank that a launcher has put into the environment; works before settings are read.
 * Returns false if there is none. */
bool aqi_job_rank_given(uint32_t *rank);

#endif
