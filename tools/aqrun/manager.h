/* Starting the processes by an available manager: srun, mpirun, mpiexec.hydra. */
#ifndef AQRUN_MANAGER_H
#define AQRUN_MANAGER_H

#include "job/launch.h"
#include "place.h"

struct manager_wish {
    enum aqi_spawner spawner; /* from AQI_SPAWNER_PMIX on */
    const struct hosts *hosts;
    const struct place *place;
    bool named;      /* the hosts are from the user, not from the batch system */
    uint32_t spread; /* -N; 0: not given */
    bool prefix, oversubscribe;
    const char *const *carried; /* NAME=VALUE of the environment */
    bool only;                  /* pass on no other variables: --env-only */
    char *const *command;
    bool verbose;
};

/*
 * The command of the first suitable manager found on PATH, with all arguments, NULL-terminated.
 * Never freed. NULL: see `why`.
 */
char **manager_command(const struct manager_wish *wish, char why[HOSTS_WHY]);

/* template.c: the command in `variable`, with its placeholders replaced. Likewise. */
char **manager_template(const struct manager_wish *wish, const char *variable, const char *text,
                        char why[HOSTS_WHY]);

#endif
