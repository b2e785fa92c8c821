/* The error trail: the first to know records and logs the exact cause, callers pass the status up.
 */
#ifndef AQI_FAIL_H
#define AQI_FAIL_H

#include "base/base.h"

/*
 * Record why something failed as this thread's aq_error_message(), log it at level "error" for
 * `folder`, and return `status`. The text says what happened, to what, what to do; no newline.
 */
AQI_COLD aq_status aqi_fail(aq_status status, const char *folder, const char *fmt, ...)
    AQI_PRINTF(3, 4);

/* The same for a failed system call: appends ": " and the text of `err` (an errno value). */
AQI_COLD aq_status aqi_fail_errno(aq_status status, int err, const char *folder, const char *fmt,
                                  ...) AQI_PRINTF(4, 5);

/* Record without logging: who knew first is another process, and has said it (aqrun). */
AQI_COLD aq_status aqi_fail_quiet(aq_status status, const char *fmt, ...) AQI_PRINTF(2, 3);

/* From now on nothing is logged: aqrun will say, once for all processes, why they cannot start. */
void aqi_fail_defer(bool on);

/* From now on losses (AQ_EPEER) are recorded without logging: each is told once, and by another. */
void aqi_fail_expect_losses(bool on);

#endif
