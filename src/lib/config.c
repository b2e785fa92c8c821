/* The settings that belong to no other folder, and the list of all tables. */
#include "lib/lib.h"

#include "base/trace.h"
#include "core/core.h"
#include "job/launch.h"
#include "job/settings.h"
#include "reg/limits.h"
#include "transport/transport.h"

#include <pthread.h>

struct lib_config lib_config;

/* In the order of enum aqi_trace_format. */
static const char *const trace_formats[] = {"auto", "chrome", "text", NULL};

/* GASNET_FIREHOSE_VERBOSE: messages about registrations, which ibv and ofi print. */
static const struct aqi_setting_word log_words[] = {
    AQI_SETTING_WORDS("warn", "warn,ibv=info,ofi=info")};

static bool config_is_trace(const char *text)
{
    unsigned mask;
    return aqi_trace_read(text, &mask);
}

static const struct aqi_setting rows[] = {
    {.name = "AQ_LOG",
     .alias = "GASNET_FIREHOSE_VERBOSE",
     .alias_words = log_words,
     .words_only = true,
     .def = "warn",
     .doc = "The level of messages on standard error: off, error, warn, info, debug or trace; "
            "levels of individual folders may follow, separated by commas.",
     .advice = "For example: AQ_LOG=warn,shm=debug.",
     AQI_SETTING_IN(TEXT, struct lib_config, log)},
    {.name = "AQ_STATS",
     .def = "no",
     .doc = "Print the counters of each process to standard error when the process leaves the job.",
     AQI_SETTING_IN(BOOL, struct lib_config, stats)},
    {.name = "AQ_TRACE",
     .alias = "GASNET_TRACEMASK",
     .check = config_is_trace,
     .legal = "off, all, or some of am, rma, atomic, coll, wait and job, separated by commas",
     .def = "",
     .doc =
         "The categories of events to trace: all, off, or some of am, rma, atomic, coll, wait and "
         "job, separated by commas. The default is all if AQ_TRACE_FILE is set, otherwise off.",
     .advice = "AQ_TRACE=am,wait shows which ranks wait for which.",
     AQI_SETTING_IN(TEXT, struct lib_config, trace)},
    {.name = "AQ_TRACE_FORMAT",
     .def = "auto",
     .doc = "The format of traces: chrome (JSON for Perfetto and chrome://tracing), text (one line "
            "per event), or auto (text on standard error, otherwise chrome).",
     .choices = trace_formats,
     AQI_SETTING_IN(CHOICE, struct lib_config, trace_format)},
    {.name = "AQ_TRACE_LIMIT",
     .def = "1G",
     .doc = "The maximum size of each process's trace; at this size, the process stops tracing; 0: "
            "no limit.",
     AQI_SETTING_IN(BYTES, struct lib_config, trace_limit)},
    {.name = "AQ_TRACE_FLUSH",
     .alias = "GASNET_TRACEFLUSH",
     .def = "no",
     .doc = "Write each event of the trace immediately.",
     .advice = "Set yes if a process is killed by a signal that cannot be caught; it is slow.",
     AQI_SETTING_IN(BOOL, struct lib_config, trace_flush)},
    {.name = "AQ_FAULT",
     .def = "",
     .doc = "Make the transports misbehave within their contract, for tests: a comma-separated "
            "list of again=PERCENT, late=POLLS, swap=PERCENT, hide=CAPABILITY+..., die=RANK@CALLS, "
            "seed=NUMBER, credits=0..1, depth=NUMBER.",
     .advice = "Only for tests. hide=alloc and credits must be the same in every process.",
     AQI_SETTING_IN(TEXT, struct lib_config, fault)},
};

static struct aqi_settings_table lib_settings = {
    .group = "lib", .rows = rows, .count = AQI_COUNT_OF(rows), .values = &lib_config};

static struct aqi_settings_table *tables[32] = {
    &lib_settings, &aqi_core_settings, &aqi_job_settings, &aqi_launch_settings, &aqi_reg_settings};
static size_t table_count = 5;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void config_find_tables(void)
{
    for (const struct aqi_transport *const *t = aqi_transports; *t != NULL; t++)
        if ((*t)->settings != NULL && table_count < AQI_COUNT_OF(tables))
            tables[table_count++] = (*t)->settings;
}

struct aqi_settings_table *const *lib_tables(size_t *count)
{
    pthread_once(&tables_once, config_find_tables);
    *count = table_count;
    return tables;
}

aq_status lib_load_settings(bool once)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    static aq_status status;
    size_t count;
    struct aqi_settings_table *const *all = lib_tables(&count);
    pthread_mutex_lock(&lock);
    if (!loaded || !once) status = aqi_settings_load(all, count);
    loaded = true;
    aq_status st = status;
    pthread_mutex_unlock(&lock);
    return st;
}
