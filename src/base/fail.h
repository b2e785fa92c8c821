/*
 * The last error of each thread. The function that detects a failure records and logs its exact
 * cause; callers pass the status on.
 */
#ifndef AQI_FAIL_H
#define AQI_FAIL_H

#include "base/base.h"

/*
 * Record a failure as this thread's aq_error_message(), log it at level "error" for `folder`, and
 * return `status`. The text says what happened, to what, and what to do, without a newline.
 */
AQI_COLD aq_status aqi_fail(aq_status status, const char *folder, const char *fmt, ...)
    AQI_PRINTF(3, 4);

/* Likewise for a failed system call: appends ": " and the text of `err` (an errno value). */
AQI_COLD aq_status aqi_fail_errno(aq_status status, int err, const char *folder, const char *fmt,
                                  ...) AQI_PRINTF(4, 5);

/* Record without logging: another process (aqrun) detected the failure and has printed it. */
AQI_COLD aq_status aqi_fail_quiet(aq_status status, const char *fmt, ...) AQI_PRINTF(2, 3);

/* Stop logging: aqrun prints once for all processes why they cannot start. */
void aqi_fail_defer(bool on);

/* Record the loss of peers (AQ_EPEER) without logging it: each is printed once, elsewhere. */
void aqi_fail_expect_losses(bool on);

/* Write the cause and what to do to `why` (`room` bytes with the NUL). Returns false. */
AQI_COLD bool aqi_explain(char *why, size_t room, const char *fmt, ...) AQI_PRINTF(3, 4);
/* Append to `text` (`room` bytes with the NUL); what does not fit is cut off. */
AQI_COLD void aqi_append(char *text, size_t room, const char *fmt, ...) AQI_PRINTF(3, 4);

#endif
