/* Random numbers. */
#include "base/random.h"

#include "base/fail.h"

#include <errno.h>
#include <sys/random.h>

aq_status aqi_random(void *out, size_t len, const char *folder)
{
    if (getrandom(out, len, 0) == (ssize_t)len) return AQ_OK;
    return aqi_fail_errno(AQ_ESYS, errno, folder,
                          "the kernel provided no random numbers (getrandom)");
}
