/* Version of this interface, for the preprocessor and at run time. */
#ifndef AQUEDUCT_VERSION_H
#define AQUEDUCT_VERSION_H

#include <aqueduct/status.h>

#define AQ_VERSION_MAJOR 0
#define AQ_VERSION_MINOR 1
#define AQ_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Return the version of the running library as "MAJOR.MINOR.PATCH".
 *
 * Threads     Any, at any time; may be called from a handler.
 *
 * @return     A static string.
 */
AQ_API const char *aq_version(void);

#ifdef __cplusplus
}
#endif
#endif
