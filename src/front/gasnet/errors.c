/* Errors: names and descriptions of codes, the reports of failed calls, and ending the job. */
#include "aqg.h"

#include <stdarg.h>

static const struct {
    int code;
    const char *name, *text;
} codes[] = {
    {GASNET_OK, "GASNET_OK", "no error"},
    {GASNET_ERR_NOT_INIT, "GASNET_ERR_NOT_INIT", "the library is not initialized or not attached"},
    {GASNET_ERR_RESOURCE, "GASNET_ERR_RESOURCE", "a resource is exhausted, or the system failed"},
    {GASNET_ERR_BAD_ARG, "GASNET_ERR_BAD_ARG", "an argument is not valid"},
    {GASNET_ERR_NOT_READY, "GASNET_ERR_NOT_READY", "not complete yet, or the lock is taken"},
    {GASNET_ERR_BARRIER_MISMATCH, "GASNET_ERR_BARRIER_MISMATCH", "barrier identifiers disagree"},
};

/* The text of an unknown code is valid until the thread's next call. */
const char *gasnet_ErrorName(int err)
{
    static __thread char unknown[32];
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i].code == err) return codes[i].name;
    snprintf(unknown, sizeof(unknown), "unknown error %d", err);
    return unknown;
}

const char *gasnet_ErrorDesc(int err)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i].code == err) return codes[i].text;
    return "not an error code of GASNet";
}

static int errors_code_of(aq_status st)
{
    switch (st) {
    case AQ_OK:
        return GASNET_OK;
    case AQ_AGAIN:
        return GASNET_ERR_NOT_READY;
    case AQ_EMISMATCH:
        return GASNET_ERR_BARRIER_MISMATCH;
    case AQ_EINVAL:
    case AQ_ERANK:
    case AQ_ERANGE:
    case AQ_ESIZE:
    case AQ_EHANDLER:
        return GASNET_ERR_BAD_ARG;
    default:
        return aqgi.open ? GASNET_ERR_RESOURCE : GASNET_ERR_NOT_INIT;
    }
}

static void errors_print(const char *fmt, va_list args)
{
    char line[1024];
    int len = aqgi.open
                  ? snprintf(line, sizeof(line), "*** gasnet (rank %u): ", (unsigned)aqgi.rank)
                  : snprintf(line, sizeof(line), "*** gasnet: "); /* the rank is not known yet */
    len += vsnprintf(line + len, sizeof(line) - (size_t)len, fmt, args);
    if ((size_t)len > sizeof(line) - 2) len = sizeof(line) - 2;
    line[len++] = '\n';
    fflush(stdout);
    fwrite(line, 1, (size_t)len, stderr);
}

void aqgi_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    errors_print(fmt, args);
    va_end(args);
    aqgi_explain();
    aqgi_abort();
}

void aqgi_fatal(const char *call, aq_status st)
{
    const char *why = aq_error_message();
    aqgi_die("%s failed: %s (%s)", call, why[0] != '\0' ? why : aq_status_text(st),
             aq_status_name(st));
}

void *aqgi_alloc(size_t count, size_t size, const char *what)
{
    void *memory = calloc(count, size);
    if (memory == NULL && count != 0 && size != 0)
        aqgi_die("no memory for %s (%zu times %zu bytes)", what, count, size);
    return memory;
}

int aqgi_refuse(int code, const char *fmt, ...)
{
    if (aqgi.verbose_errors) {
        va_list args;
        va_start(args, fmt);
        errors_print(fmt, args);
        va_end(args);
    }
    return code;
}

int aqgi_error(const char *call, aq_status st)
{
    if (st == AQ_OK) return GASNET_OK;
    const char *why = aq_error_message();
    int code = errors_code_of(st);
    return aqgi_refuse(code, "%s returned %s: %s", call, gasnet_ErrorName(code),
                       why[0] != '\0' ? why : aq_status_text(st));
}
