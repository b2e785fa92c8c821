/* What the examples do when a call fails: say which call, in which process and why, then end the
 * whole job. A larger program would hand the status up instead. */
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <aqueduct/aqueduct.h>
#include <stdio.h>

static inline void check(aq_status status, const char *call)
{
    if (status == AQ_OK) return;
    fprintf(stderr, "rank %u: %s: %s: %s\n", aq_job_rank(), call, aq_status_name(status),
            aq_error_message());
    aq_exit(1);
}

#endif
