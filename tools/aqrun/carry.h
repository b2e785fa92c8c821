/* Selects the variables of the environment that go to other hosts. */
#ifndef AQRUN_CARRY_H
#define AQRUN_CARRY_H

#include "base/base.h"

/* Variables named by -E. */
struct carry {
    const char **names; /* names of variables, NULL-terminated; may be NULL */
    bool only;          /* only these and those of Aqueduct and GASNet */
};

/*
 * The entries of `environment` to pass on, NULL-terminated, freed by the caller; NULL: out of
 * memory.
 */
const char **carry_list(const struct carry *carry, char *const *environment);

#endif
