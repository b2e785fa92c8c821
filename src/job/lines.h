/*
 * What ranks write of their statistics and traces, made fit for one file of the job: whole lines
 * only, events of JSON with a comma behind each and without brackets around them, times by the
 * clock of the job's first host. Pure.
 */
#ifndef AQI_LINES_H
#define AQI_LINES_H

#include "base/safe_text.h"
#include "job/align.h"

#define AQI_LINES_MAX 65536u /* a longer line is dropped */

/* A line whose end has not come. All zero: nothing. */
struct aqi_lines {
    char *begun; /* aqi_lines_free */
    size_t used;
    bool lost; /* it is longer than AQI_LINES_MAX, or there was no memory */
};

typedef void aqi_lines_fn(void *arg, const char *bytes, size_t len);

/* More has come: `out` gets the lines that it completes, many at a time. `align` NULL: the clock
 * is that of the job. */
void aqi_lines_feed(struct aqi_lines *lines, const struct aqi_align *align, const char *bytes,
                    size_t len, aqi_lines_fn *out, void *arg);
void aqi_lines_free(struct aqi_lines *lines);

/* What the clock of `host` was found to be at our time `now`: as an event of a trace in JSON or
 * text, of `rank`, or as a line among statistics. */
enum aqi_lines_kind { AQI_LINES_PLAIN, AQI_LINES_TEXT, AQI_LINES_JSON };
void aqi_lines_clock(struct aqi_safe_text *line, enum aqi_lines_kind kind, const char *host,
                     uint32_t rank, const struct aqi_align *align, uint64_t now);
/* Of which kind these lines of statistics (PLAIN) or of a trace are. */
enum aqi_lines_kind aqi_lines_kind(const char *bytes, size_t len);

#endif
