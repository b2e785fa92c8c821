/* Selects the environment variables that are passed to other hosts. */
#ifndef AQRUN_ENV_H
#define AQRUN_ENV_H

#include "base/base.h"

struct env_filter {
    const char **names; /* of the variables of -E, NULL-terminated; may be NULL */
    bool only;          /* --env-only: pass on only these and those of Aqueduct and GASNet */
};

/*
 * The entries of `environment` to pass on, NULL-terminated, freed by the caller; NULL: out of
 * memory.
 */
const char **env_select(const struct env_filter *filter, char *const *environment);

#endif
