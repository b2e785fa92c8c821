/* The settings that belong to no other folder, and the list of all tables. */
#ifndef AQI_LIB_CONFIG_H
#define AQI_LIB_CONFIG_H

#include "base/settings.h"

struct lib_config {
    const char *log;
    uint64_t stats;
    const char *stats_file;
    const char *trace;
    const char *trace_file;
    uint64_t trace_format;
    uint64_t trace_limit;
    uint64_t trace_flush;
    const char *fault;
};
extern struct lib_config lib_config;

/* Every table of the library: what aq_init loads and aq_info_setting lists. */
struct aqi_settings_table *const *lib_tables(size_t *count);

/*
 * Read the environment into all tables: at aq_init always, so that the program may set variables
 * before it; for who asks (`ask`) only if nobody has yet, for a running job works with the values.
 * Safe from several threads; what it returned last time is returned to those who ask.
 */
aq_status lib_load_settings(bool ask);

#endif
