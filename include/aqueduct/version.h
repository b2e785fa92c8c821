/* The version of this interface, for the preprocessor and at run time. */
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
 * The version of the library that is running, as "MAJOR.MINOR.PATCH".
 *
 * Threads     Any, at any time, also inside handlers.
 *
 * @return     Static text.
 */
AQ_API const char *aq_version(void);

#ifdef __cplusplus
}
#endif
#endif
