/* Two endpoints, for tests of single calls. Every wait is bounded. */
#ifndef AQT_CCI_SIDE_H
#define AQT_CCI_SIDE_H

#include "../common/check.h"
#include "../common/data.h"

#include <cci.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void check_failed(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define CHECK_STATUS(call, want)                                                                   \
    do {                                                                                           \
        enum cci_status check_got = (enum cci_status)(call), check_want = (want);                  \
        if (check_got != check_want)                                                               \
            check_failed(__FILE__, __LINE__, "%s is %s, expected %s", #call,                       \
                         cci_strerror(NULL, check_got), cci_strerror(NULL, check_want));           \
    } while (0)
#define CHECK_OK(call) CHECK_STATUS(call, CCI_SUCCESS)

enum { TIMEOUT = 120 }; /* s, on a busy machine */

struct pair {
    cci_endpoint_t *caller, *called;
    cci_connection_t *out, *in; /* both ends of a connection */
};

/* Make a file with this text in memory, and name it in CCI_CONFIG. */
void side_configure(const char *text);
/*
 * Initialize the library with a device of the transport that the first argument names: "sm" (the
 * default), "sock" or "tcp".
 */
void side_init(int argc, char **argv);
cci_endpoint_t *side_open(cci_os_handle_t *fd);
char *side_uri(cci_endpoint_t *endpoint);
/*
 * Wait for the next event of `endpoint`; `other`, unless NULL, makes progress meanwhile and must
 * get no event.
 */
cci_event_t *side_event(cci_endpoint_t *endpoint, cci_endpoint_t *other);
/* Check that no event arrives for some rounds. */
void side_nothing(cci_endpoint_t *endpoint);
/* Wait for the next event, which must be of that type. */
cci_event_t *side_expect(cci_endpoint_t *endpoint, cci_endpoint_t *other, cci_event_type_t type);
double side_now(void); /* s */
/* Connect with these contexts, and check them at both ends. */
void pair_connect(struct pair *pair, cci_conn_attribute_t attribute, void *out, void *in);
void pair_open(struct pair *pair, cci_conn_attribute_t attribute);
void pair_close(struct pair *pair);

#endif
