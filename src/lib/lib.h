/* Shared by the files of src/lib, including the settings that belong to no other folder. */
#ifndef AQI_LIB_LIB_H
#define AQI_LIB_LIB_H

#include "base/settings.h"
#include "core/core.h"
#include "job/boot.h"

struct lib_config {
    const char *log;
    uint64_t stats;
    const char *trace;
    uint64_t trace_format;
    uint64_t trace_limit;
    uint64_t trace_flush;
    const char *fault;
};
extern struct lib_config lib_config;

/* All tables of the library, loaded by aq_init and listed by aq_info_setting. */
struct aqi_settings_table *const *lib_tables(size_t *count);

/* names.c: GASNET_ variables that are not settings, for aqi_settings_warn. */
extern const char *const lib_other_names[];

/*
 * Read the environment into all tables: always in aq_init, so that the program may set variables
 * before it; with `once`, for queries, only if that was not done before, since a running job uses
 * the values. Returns the result of the last reading. Thread-safe.
 */
aq_status lib_load_settings(bool once);

/* The outputs of a process: open the files for counters and trace named by the settings, or the
 * connections to them, and handle signals that would end the process. */
aq_status lib_outputs_begin(struct aqi_boot *boot);
/* The same without a job, for counters only. May be called again after lib_outputs_end. */
aq_status lib_outputs_begin_alone(const char *front);
/* Write all outputs, on the first call since they were opened. Async-signal-safe. */
void lib_outputs_end(void);

/* init.c: how the core reaches the job. */
struct aqi_core_boot lib_core_boot(struct aqi_boot *boot);

/* Time limit for the last steps of a process: less than aqrun allows. */
uint64_t lib_exit_timeout_ns(void);
/* When that time is up, call `expire` in a signal handler. */
void lib_limit(void (*expire)(void));

/* The first data that ranks exchange; the format is the same in every version. */
struct lib_mark {
    uint64_t settings; /* hash of all values of the rows marked `same` */
    uint32_t rows;     /* hash of their names */
    uint8_t major, minor;
    uint16_t patch;
    uint8_t wires[16]; /* the version of each format between ranks, by enum aqi_wire; 0: none */
};
static_assert(sizeof(struct lib_mark) == 32, "no padding");

/*
 * Compare the versions of the library and of the formats between ranks, and the rows marked `same`,
 * with those of all ranks. Collective.
 *
 * @return AQ_OK, AQ_EPROTO or AQ_ESETTING, the same in all ranks. The message names the difference,
 *         two ranks, and their versions or values.
 */
aq_status lib_compare_ranks(struct aqi_boot *boot);

#endif
