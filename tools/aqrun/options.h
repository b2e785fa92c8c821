/* The command line of aqrun. */
#ifndef AQRUN_OPTIONS_H
#define AQRUN_OPTIONS_H

#include "base/base.h"

struct options {
    uint32_t ranks;
    bool verbose;
    bool test_only;
    bool prefix;
    uint64_t timeout_ns; /* 0: none */
    char **command;      /* the program and its arguments, NULL at the end */
};

/*
 * Read the command line into job.options; -E and -T change the environment. Does not return for
 * --help, --version and errors.
 */
void options_read(int argc, char **argv);

#endif
