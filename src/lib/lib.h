/* What the files of src/lib share: the settings that belong to no other folder, and a few calls. */
#ifndef AQI_LIB_LIB_H
#define AQI_LIB_LIB_H

#include "base/settings.h"
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

/* Every table of the library: what aq_init loads and aq_info_setting lists. */
struct aqi_settings_table *const *lib_tables(size_t *count);

/* names.c: GASNET_ variables that are no settings, for aqi_settings_warn. */
extern const char *const lib_other_names[];

/*
 * Read the environment into all tables: at aq_init always, so that the program may set variables
 * before it; for who asks (`ask`) only if nobody has yet, for a running job works with the values.
 * Safe from several threads; what it returned last time is returned to those who ask.
 */
aq_status lib_load_settings(bool ask);

/* What a process leaves behind: open the files for counters and trace that the settings name, or
 * the way to them, and watch for signals that would end the process. */
aq_status lib_outputs_begin(struct aqi_boot *boot);
/* Write what there is, the first time only. Also in a signal handler. */
void lib_outputs_end(void);

/* How long the last steps of a process may take: less than aqrun lets it live. */
uint64_t lib_patience_ns(void);
/* After that, `over` is called in a signal's handler. */
void lib_limit(void (*over)(void));

/* What ranks tell each other first, the same bytes in every version. */
struct lib_mark {
    uint64_t settings; /* what all values of the rows marked `same` hash to */
    uint32_t rows;     /* what their names hash to */
    uint8_t major, minor;
    uint16_t patch;
};
static_assert(sizeof(struct lib_mark) == 16, "no padding");

/*
 * Compare the version, and the rows marked `same`, with those of all ranks. Collective.
 *
 * @return AQ_OK, AQ_EPROTO or AQ_ESETTING everywhere: the message names what differs, two ranks and
 *         the versions or values.
 */
aq_status lib_compare_ranks(struct aqi_boot *boot);

#endif
