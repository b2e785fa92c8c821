/* The settings of aqrun: which hosts a job has, and how they are reached. */
#ifndef AQI_LAUNCH_H
#define AQI_LAUNCH_H

#include "base/settings.h"

enum aqi_spawner {
    AQI_SPAWNER_AUTO, /* fork if all hosts are this machine, else ssh */
    AQI_SPAWNER_FORK,
    AQI_SPAWNER_SSH,
    AQI_SPAWNER_PMIX, /* from here on, a manager starts the processes */
    AQI_SPAWNER_PMI2,
    AQI_SPAWNER_PMI,
    AQI_SPAWNER_MPI
};

/* Filled by aqi_settings_load. */
struct aqi_launch_config {
    uint64_t spawner;            /* enum aqi_spawner */
    const char *mpirun, *pmirun; /* commands that contain %N and %C; "": aqrun searches for one */
    const char *hosts;
    const char *hostfile;
    const char *ssh_command;
    const char *ssh_options;
    uint64_t ssh_fanout; /* 0: no limit */
    uint64_t ssh_timeout_ns;
    const char *remote_aqrun; /* "": the path of this one */
};

extern struct aqi_launch_config aqi_launch_config;
extern struct aqi_settings_table aqi_launch_settings;

#endif
