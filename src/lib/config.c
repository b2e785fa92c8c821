/* The settings that belong to no other folder, and the list of all tables. */
#include "lib/config.h"

#include "core/core.h"
#include "job/settings.h"
#include "transport/transport.h"

struct lib_config lib_config;

static const struct aqi_setting rows[] = {
    {.name = "AQ_LOG",
     .def = "warn",
     .doc = "How much to say on standard error: off, error, warn, info, debug or trace, and for "
            "single folders after commas.",
     .advice = "AQ_LOG=warn,shm=debug",
     .type = AQI_SET_TEXT,
     .offset = offsetof(struct lib_config, log)},
    {.name = "AQ_STATS",
     .def = "no",
     .doc = "Print the counters of each process to standard error when it leaves the job.",
     .type = AQI_SET_BOOL,
     .offset = offsetof(struct lib_config, stats)},
    {.name = "AQ_FAULT",
     .def = "",
     .doc = "Make the transports misbehave within their contract, for tests: a comma list of "
            "again=PERCENT, late=POLLS, hide=CAPABILITY+…, die=RANK@CALLS, seed=NUMBER.",
     .advice = "Only for tests.",
     .type = AQI_SET_TEXT,
     .offset = offsetof(struct lib_config, fault)},
};

static struct aqi_settings_table lib_settings = {
    .group = "lib", .rows = rows, .count = AQI_COUNT_OF(rows), .values = &lib_config};

struct aqi_settings_table *const *lib_tables(size_t *count)
{
    static struct aqi_settings_table *tables[32] = {&lib_settings, &aqi_core_settings,
                                                    &aqi_job_settings};
    size_t n = 3;
    for (const struct aqi_transport *const *t = aqi_transports; *t != NULL; t++)
        if ((*t)->settings != NULL && n < AQI_COUNT_OF(tables)) tables[n++] = (*t)->settings;
    *count = n;
    return tables;
}
