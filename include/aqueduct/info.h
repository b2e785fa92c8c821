/* Settings, transports, limits and counters, as aqinfo prints them. */
#ifndef AQUEDUCT_INFO_H
#define AQUEDUCT_INFO_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A setting of the library. All strings remain valid until the process ends. */
typedef struct aq_setting_info {
    const char *name;          /**< AQ_… */
    const char *alias;         /**< GASNET_…, several separated by commas, or NULL */
    const char *group;         /**< the part of the library it belongs to: "core", "shm", … */
    const char *type;          /**< "bool", "count", "bytes", "time", "choice", "text" */
    const char *unit;          /**< "bytes", "us", …; "" where there is none */
    const char *range;         /**< valid values, as text */
    const char *default_value; /**< as text */
    const char *value;         /**< current value, as text */
    const char *origin;        /**< "default", or the variable that set it */
    const char *doc;           /**< what it does */
    const char *advice;        /**< when to change it; "" if there is no advice */
    uint64_t aqi_reserved[4];
} aq_setting_info;

/** One transport. */
typedef struct aq_transport_info {
    const char *name;   /**< "shm", … */
    const char *doc;    /**< what it is for */
    int usable;         /**< 1: works here */
    int on_request;     /**< 1: used only if requested, as `reason` describes */
    const char *reason; /**< why it is not usable, or how to get full speed; "" if neither */
    const char *device; /**< the device it would use */
    const char *caps;   /**< comma-separated: "am,put,get,atomic,map,wait-fd" */
    size_t max_medium;  /**< largest Medium in bytes; 0: not usable */
    uint64_t aqi_reserved[4];
} aq_transport_info;

/** One limit or property of the machine or the process. */
typedef struct aq_limit_info {
    const char *name;   /**< such as "memlock", "cores", "cma" */
    const char *value;  /**< as text, with its unit */
    const char *advice; /**< what it costs and how to change it; "" if it is fine */
    uint64_t aqi_reserved[4];
} aq_limit_info;

/** One counter of the running process. */
typedef struct aq_counter_info {
    const char *name;
    const char *unit;
    const char *doc;
    uint64_t value;
    uint64_t aqi_reserved[4];
} aq_counter_info;

/**
 * Get the `index`-th setting, counted from 0, sorted by name. Works before aq_init.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        `*info` is filled in.
 * @return AQ_ERANGE    No such index: end of the list.
 * @return AQ_ESETTING  The variable of this setting has an invalid value; `*info` is filled in.
 */
AQ_API AQ_MUST_USE aq_status aq_info_setting(size_t index, aq_setting_info *info);

/**
 * Get the `index`-th transport in order of preference. Works before aq_init; probes the transport
 * by using it.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        `*info` is filled in.
 * @return AQ_ERANGE    No such index: end of the list.
 * @return AQ_ESETTING  Also filled in: the transport does not work here because one of its settings
 *                      is invalid; `reason` names it.
 */
AQ_API AQ_MUST_USE aq_status aq_info_transport(size_t index, aq_transport_info *info);

/**
 * Get the `index`-th limit or property of the machine and the process. Works before aq_init.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK, or AQ_ERANGE at the end of the list.
 */
AQ_API AQ_MUST_USE aq_status aq_info_limit(size_t index, aq_limit_info *info);

/**
 * Get the `index`-th counter of this process, summed over its threads.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return AQ_OK, or AQ_ERANGE at the end of the list.
 */
AQ_API AQ_MUST_USE aq_status aq_info_counter(size_t index, aq_counter_info *info);

/**
 * Get the name of the transport that reaches `rank`, such as "shm".
 *
 * Threads     Any; may be called from a handler.
 *
 * @return AQ_OK, AQ_ERANK, AQ_EINVAL, AQ_ESTATE.
 */
AQ_API AQ_MUST_USE aq_status aq_info_route(const aq_team *team, aq_rank rank, const char **name);

#ifdef __cplusplus
}
#endif
#endif
