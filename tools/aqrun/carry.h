/* Which variables of the environment go to other hosts. */
#ifndef AQRUN_CARRY_H
#define AQRUN_CARRY_H

#include "base/base.h"

/* What -E has named. */
struct carry {
    const char **names; /* of variables, NULL-terminated; may be NULL */
    bool only;          /* these, and those of Aqueduct and GASNet, and no others */
};

/*
 * All go but those that have a meaning on this host only: of its terminal, its displays, its ssh,
 * its daemons, and those by which a process finds its own place in a job; unless -E names them.
 * `entry` is NAME=VALUE.
 */
bool carry_wanted(const struct carry *carry, const char *entry);

/* Those entries of `environment` that go, NULL-terminated, freed by the caller; NULL: no memory. */
const char **carry_list(const struct carry *carry, char *const *environment);

#endif
