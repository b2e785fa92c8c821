/* Version of this interface, for the preprocessor and at run time. */
#ifndef AQUEDUCT_VERSION_H
#define AQUEDUCT_VERSION_H

#include <aqueduct/status.h>

#define AQ_VERSION_MAJOR 0
#define AQ_VERSION_MINOR 1
#define AQ_VERSION_PATCH 0

/** The version of the headers as one number, for comparisons in #if: 0.1.0 is 1000. */
#define AQ_VERSION (AQ_VERSION_MAJOR * 1000000 + AQ_VERSION_MINOR * 1000 + AQ_VERSION_PATCH)

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

/**
 * Return the version of the running library as a number, as AQ_VERSION.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return     MAJOR * 1000000 + MINOR * 1000 + PATCH.
 */
AQ_API unsigned aq_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
