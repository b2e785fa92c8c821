/*
 * Converts statistics and traces of ranks for the single file of a job: whole lines only, JSON
 * events without enclosing brackets and each followed by a comma, times by the clock of the job's
 * first host. No I/O.
 */
#ifndef AQI_LINES_H
#define AQI_LINES_H

#include "base/safe_text.h"
#include "job/align.h"

#define AQI_LINES_MAX 65536u /* a longer line is dropped */

/* An incomplete line. All zero: none. */
struct aqi_lines {
    char *begun; /* freed by aqi_lines_free */
    size_t used;
    bool lost; /* longer than AQI_LINES_MAX, or out of memory */
};

typedef void aqi_lines_fn(void *arg, const char *bytes, size_t len);

/* Add bytes: `out` is called with the lines that they complete, many at a time. `align` NULL:
 * times are by the clock of the job already. */
void aqi_lines_feed(struct aqi_lines *lines, const struct aqi_align *align, const char *bytes,
                    size_t len, aqi_lines_fn *out, void *arg);
void aqi_lines_free(struct aqi_lines *lines);

/* Write the measured clock of `host` at local time `now`, as a trace event of `rank` in JSON or
 * text, or as a line of statistics. */
enum aqi_lines_kind { AQI_LINES_PLAIN, AQI_LINES_TEXT, AQI_LINES_JSON };
void aqi_lines_clock(struct aqi_safe_text *line, enum aqi_lines_kind kind, const char *host,
                     uint32_t rank, const struct aqi_align *align, uint64_t now);
/* The kind of the lines: statistics (PLAIN), or the format of a trace. */
enum aqi_lines_kind aqi_lines_kind(const char *bytes, size_t len);

#endif
