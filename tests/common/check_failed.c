/* check_failed for programs without ranks: print where and why, and exit. */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void check_failed(const char *file, int line, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}
