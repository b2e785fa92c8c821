/* The settings that belong to no other folder, and the list of all tables. */
#ifndef AQI_LIB_CONFIG_H
#define AQI_LIB_CONFIG_H

#include "base/settings.h"

struct lib_config {
    const char *log;
    uint64_t stats;
    const char *fault;
};
extern struct lib_config lib_config;

/* Every table of the library: what aq_init loads and aq_info_setting lists. */
struct aqi_settings_table *const *lib_tables(size_t *count);

#endif
