/* The error trail: one message per thread, logged once by the first to know. */
#include "base/fail.h"

#include "base/log.h"
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define FAIL_MESSAGE_BYTES 1024

static _Thread_local char fail_message[FAIL_MESSAGE_BYTES];
static atomic_bool fail_silent, fail_losses_expected;

void aq_error_log(int on)
{
    atomic_store(&fail_silent, on == 0);
}

void aqi_fail_expect_losses(bool on)
{
    atomic_store(&fail_losses_expected, on);
}

static void fail_log(aq_status status, const char *folder)
{
    if (atomic_load(&fail_silent)) return;
    if (status == AQ_EPEER && atomic_load(&fail_losses_expected)) return;
    aqi_log(AQI_LOG_ERROR, folder, "%s", fail_message);
}

/* Append to a message being made; what does not fit is cut off. Returns the new length. */
static size_t fail_append(char *text, size_t used, const char *fmt, va_list args)
{
    int n = vsnprintf(text + used, FAIL_MESSAGE_BYTES - used, fmt, args);
    return n < 0 ? used : aqi_min(used + (size_t)n, FAIL_MESSAGE_BYTES - 1);
}

static AQI_PRINTF(3, 4) void fail_append_text(char *text, size_t used, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_append(text, used, fmt, args);
    va_end(args);
}

/* The arguments of the caller may point into the old message, so a new one is made aside. */
static void fail_keep(char *text)
{
    aqi_log_printable(text);
    memcpy(fail_message, text, FAIL_MESSAGE_BYTES);
}

aq_status aqi_fail(aq_status status, const char *folder, const char *fmt, ...)
{
    int saved_errno = errno;
    char text[FAIL_MESSAGE_BYTES] = "";
    va_list args;
    va_start(args, fmt);
    fail_append(text, 0, fmt, args);
    va_end(args);
    fail_keep(text);
    fail_log(status, folder);
    errno = saved_errno;
    return status;
}

aq_status aqi_fail_errno(aq_status status, int err, const char *folder, const char *fmt, ...)
{
    int saved_errno = errno;
    char text[FAIL_MESSAGE_BYTES] = "";
    va_list args;
    va_start(args, fmt);
    size_t used = fail_append(text, 0, fmt, args);
    va_end(args);
    /* strerror is safe between threads in glibc since 2.32, and in musl. */
    fail_append_text(text, used, ": %s", strerror(err));
    fail_keep(text);
    fail_log(status, folder);
    errno = saved_errno;
    return status;
}

aq_status aqi_fail_quiet(aq_status status, const char *fmt, ...)
{
    int saved_errno = errno;
    char text[FAIL_MESSAGE_BYTES] = "";
    va_list args;
    va_start(args, fmt);
    fail_append(text, 0, fmt, args);
    va_end(args);
    fail_keep(text);
    errno = saved_errno;
    return status;
}

aq_status aqi_fail_context(aq_status status, const char *fmt, ...)
{
    int saved_errno = errno;
    char text[FAIL_MESSAGE_BYTES] = "";
    va_list args;
    va_start(args, fmt);
    size_t used = fail_append(text, 0, fmt, args);
    va_end(args);
    fail_append_text(text, used, ": %s", fail_message);
    fail_keep(text);
    errno = saved_errno;
    return status;
}

void aqi_fail_clear(void)
{
    fail_message[0] = '\0';
}

const char *aq_error_message(void)
{
    return fail_message;
}
