/* The command of a manager that starts the processes: srun, mpirun or mpiexec.hydra. */
#ifndef AQRUN_MANAGER_H
#define AQRUN_MANAGER_H

#include "job/launch.h"
#include "place.h"
#include "words.h"

struct manager_request {
    enum aqi_spawner spawner; /* AQI_SPAWNER_PMIX or a later one */
    const struct hosts *hosts;
    const struct place *place;
    bool named;      /* the hosts are specified by the user, not by the batch system */
    uint32_t spread; /* -N; 0: unspecified */
    bool prefix, oversubscribe;
    const char *const *env; /* variables to pass on, NAME=VALUE */
    bool only;              /* --env-only: pass on no other variables */
    char *const *command;
    bool verbose;
};

/*
 * The command line of the first suitable manager on PATH, NULL-terminated and never freed. NULL:
 * see `why`.
 */
char **manager_command(const struct manager_request *request, char why[HOSTS_WHY]);

/* template.c: the same for the command in `variable`, with its placeholders replaced. */
char **manager_template(const struct manager_request *request, const char *variable,
                        const char *text, char why[HOSTS_WHY]);

#endif
