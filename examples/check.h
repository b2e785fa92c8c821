/* Error handling of the examples: print the call, the process and the cause, then end the whole
 * job. A larger program would return the status instead. */
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
