/* The other translation unit of tools_calls: defines a key and a backtrace function. */
#ifdef TOOLS_WITH_GASNET
#include <gasnetex.h>
#endif
#include <gasnet_tools.h>

#include "check.h"

GASNETT_BEGIN_EXTERNC
void *tools_other_key(void);
GASNETT_END_EXTERNC

GASNETT_THREADKEY_DEFINE(tools_key_elsewhere);

void *tools_other_key(void)
{
    return gasnett_threadkey_get(tools_key_elsewhere);
}

static int tools_user(int fd)
{
    static const char text[] = "the user's backtrace\n";
    if (getenv("TOOLS_USER_FAILS") != NULL) return 1;
    return write(fd, text, sizeof(text) - 1) < 0;
}

gasnett_backtrace_type_t gasnett_backtrace_user = {"TOOLS_USER", tools_user, 1};
