/* Log lines on standard error, with a level per folder (AQ_LOG="warn,shm=debug"). */
#ifndef AQI_LOG_H
#define AQI_LOG_H

#include "base/base.h"

#include <sys/types.h>

enum aqi_log_level {
    AQI_LOG_OFF,
    AQI_LOG_ERROR,
    AQI_LOG_WARN,
    AQI_LOG_INFO,
    AQI_LOG_DEBUG,
    AQI_LOG_TRACE
};

/*
 * Read a specification such as "info" or "warn,shm=debug,core=trace". Folder names are those under
 * src/ and src/transport/. On error nothing changes and the message says what is legal.
 */
aq_status aqi_log_configure(const char *spec);

/* Who speaks: lines begin "aq[rank] folder: ". Before it is called: "aq[pid N] folder: ". */
void aqi_log_identity(uint32_t rank);
uint32_t aqi_log_rank(void); /* 0 before */

bool aqi_log_enabled(enum aqi_log_level level, const char *folder);

/* One whole line in one write(2), so that lines of different processes do not mix. */
void aqi_log(enum aqi_log_level level, const char *folder, const char *fmt, ...) AQI_PRINTF(3, 4);

/* The same, but only the first time for this `*once` (zero-initialised static). */
void aqi_log_once(atomic_bool *once, enum aqi_log_level level, const char *folder, const char *fmt,
                  ...) AQI_PRINTF(4, 5);

/* Make control characters spaces: text of peers and users must not forge or split lines. */
void aqi_log_printable(char *text);

/* Send warnings and errors through this socket, as long as standard error is this file; to that
 * goes what finds no room. */
void aqi_log_through(int fd, dev_t device, ino_t number);
/* A line of a warning or an error, with its newline. Async-signal-safe. */
void aqi_log_line(const char *line, size_t len);

#endif
