/* The last error of each thread, logged once where it is detected. */
#include "base/fail.h"

#include "base/log.h"
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define FAIL_MESSAGE_BYTES 1024

static _Thread_local char fail_message[FAIL_MESSAGE_BYTES];
static atomic_bool fail_silent, fail_deferred, fail_losses_expected;

void aq_error_log(int on)
{
    atomic_store(&fail_silent, on == 0);
}

void aqi_fail_defer(bool on)
{
    atomic_store(&fail_deferred, on);
}

void aqi_fail_expect_losses(bool on)
{
    atomic_store(&fail_losses_expected, on);
}

static bool fail_is_logged(aq_status status)
{
    return !atomic_load(&fail_silent) && !atomic_load(&fail_deferred) &&
           !(status == AQ_EPEER && atomic_load(&fail_losses_expected));
}

/*
 * Set the message to a text, followed by ": " and `more` unless that is NULL, and log it for
 * `folder` unless that is NULL. The text is formatted in a separate buffer because the arguments
 * may point into the old message.
 */
static aq_status fail_record(aq_status status, const char *folder, const char *more,
                             const char *fmt, va_list args)
{
    int saved_errno = errno;
    char text[FAIL_MESSAGE_BYTES] = "";
    int n = vsnprintf(text, sizeof(text), fmt, args);
    size_t used = n < 0 ? 0 : aqi_min((size_t)n, sizeof(text) - 1);
    if (more != NULL) snprintf(text + used, sizeof(text) - used, ": %s", more);
    aqi_log_printable(text);
    memcpy(fail_message, text, sizeof(text));
    if (folder != NULL && fail_is_logged(status))
        aqi_log(AQI_LOG_ERROR, folder, "%s", fail_message);
    errno = saved_errno;
    return status;
}

aq_status aqi_fail(aq_status status, const char *folder, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    status = fail_record(status, folder, NULL, fmt, args);
    va_end(args);
    return status;
}

aq_status aqi_fail_errno(aq_status status, int err, const char *folder, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    /* strerror is thread-safe in glibc since 2.32 and in musl. */
    status = fail_record(status, folder, strerror(err), fmt, args);
    va_end(args);
    return status;
}

aq_status aqi_fail_quiet(aq_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    status = fail_record(status, NULL, NULL, fmt, args);
    va_end(args);
    return status;
}

bool aqi_explain(char *why, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, room, fmt, args);
    va_end(args);
    return false;
}

void aqi_append(char *text, size_t room, const char *fmt, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + used, room - used, fmt, args);
    va_end(args);
}

const char *aq_error_message(void)
{
    return fail_message;
}
