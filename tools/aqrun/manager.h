/* Starting the processes by a manager that is there: srun, mpirun, mpiexec.hydra. */
#ifndef AQRUN_MANAGER_H
#define AQRUN_MANAGER_H

#include "job/launch.h"
#include "place.h"

struct manager_wish {
    enum aqi_spawner spawner; /* from AQI_SPAWNER_PMIX on */
    const struct hosts *hosts;
    const struct place *place;
    bool named;      /* the hosts are the user's, and not what the batch system gave */
    uint32_t spread; /* -N; 0: not said */
    bool prefix, oversubscribe;
    const char *const *carried; /* NAME=VALUE of the environment */
    bool only;                  /* -E says so: no others */
    char *const *command;
    bool verbose;
};

/* The first that is found on PATH and suits, with all arguments; ends with NULL. Lives as long as
 * the process. NULL: `why`. */
char **manager_command(const struct manager_wish *wish, char why[HOSTS_WHY]);

/* template.c: the command that `variable` has, with the signs in it replaced. Likewise. */
char **manager_template(const struct manager_wish *wish, const char *variable, const char *text,
                        char why[HOSTS_WHY]);

#endif
