/* What this machine and this library offer, and how they are set: the data behind aqinfo. */
#ifndef AQUEDUCT_INFO_H
#define AQUEDUCT_INFO_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One environment variable the library knows. All texts are static or live until the process ends.
 */
typedef struct aq_setting_info {
    const char *name;          /**< AQ_… */
    const char *alias;         /**< GASNET_…, several separated by commas, or NULL */
    const char *group;         /**< the folder it belongs to: "core", "shm", … */
    const char *type;          /**< "bool", "count", "bytes", "time", "choice", "text" */
    const char *unit;          /**< "bytes", "us", …; "" where there is none */
    const char *range;         /**< what is legal, as text */
    const char *default_value; /**< as text */
    const char *value;         /**< in force, as text */
    const char *origin;        /**< "default", or the name of the variable it came from */
    const char *doc;           /**< what it does */
    const char *advice;        /**< when to change it; "" where there is nothing to say */
} aq_setting_info;

/** One transport. */
typedef struct aq_transport_info {
    const char *name;   /**< "shm", … */
    const char *doc;    /**< what it is for */
    int usable;         /**< 1: works here */
    int on_request;     /**< 1: is used when it is asked for, as `reason` says, not by itself */
    const char *reason; /**< why not, or what is missing for full speed and how to get it; "" */
    const char *device; /**< what it would use */
    const char *caps;   /**< comma separated: "am,put,get,atomic,map,wait-fd" */
    size_t max_medium;  /**< largest Medium in bytes; 0: not usable */
} aq_transport_info;

/** One limit or property of the machine or the process. */
typedef struct aq_limit_info {
    const char *name;   /**< such as "memlock", "cores", "cma" */
    const char *value;  /**< as text with unit */
    const char *advice; /**< what it costs and how to change it; "" when all is well */
} aq_limit_info;

/** One counter of the running process. */
typedef struct aq_counter_info {
    const char *name;
    const char *unit;
    const char *doc;
    uint64_t value;
} aq_counter_info;

/**
 * The `index`-th setting, counted from 0, sorted by name. Works before aq_init.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        `*info` is filled in.
 * @return AQ_ERANGE    No such index: the list has ended.
 * @return AQ_ESETTING  Some variable has an illegal value (only for the setting it names).
 */
AQ_API AQ_MUST_USE aq_status aq_info_setting(size_t index, aq_setting_info *info);

/**
 * The `index`-th transport in the order of preference. Works before aq_init; probes by doing.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        `*info` is filled in.
 * @return AQ_ERANGE    No such index: the list has ended.
 * @return AQ_ESETTING  Likewise filled in: it does not work here because of a setting of its own
 *                      that cannot be; the reason names it.
 */
AQ_API AQ_MUST_USE aq_status aq_info_transport(size_t index, aq_transport_info *info);

/**
 * The `index`-th limit or property of machine and process. Works before aq_init.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK, or AQ_ERANGE when the list has ended.
 */
AQ_API AQ_MUST_USE aq_status aq_info_limit(size_t index, aq_limit_info *info);

/**
 * The `index`-th counter of this process, summed over its threads.
 *
 * Threads     Any, also inside handlers.
 *
 * @return AQ_OK, or AQ_ERANGE when the list has ended.
 */
AQ_API AQ_MUST_USE aq_status aq_info_counter(size_t index, aq_counter_info *info);

/**
 * The name of the transport that reaches `rank`, such as "shm".
 *
 * Threads     Any, also inside handlers.
 *
 * @return AQ_OK, AQ_ERANK, AQ_EINVAL, AQ_ESTATE.
 */
AQ_API AQ_MUST_USE aq_status aq_info_route(const aq_team *team, aq_rank rank, const char **name);

#ifdef __cplusplus
}
#endif
#endif
