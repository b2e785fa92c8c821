/* Selects the environment variables that are passed to other hosts. */
#ifndef AQRUN_CARRY_H
#define AQRUN_CARRY_H

#include "base/base.h"

/* The variables named by -E. */
struct carry {
    const char **names; /* names of variables, NULL-terminated; may be NULL */
    bool only;          /* --env-only: pass on only these and those of Aqueduct and GASNet */
};

/*
 * The entries of `environment` to pass on, NULL-terminated, freed by the caller; NULL: out of
 * memory.
 */
const char **carry_list(const struct carry *carry, char *const *environment);

#endif
