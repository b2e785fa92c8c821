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
 * Parse a specification such as "info" or "warn,shm=debug,core=trace". The names of folders are
 * those under src/ and src/transport/. On error, nothing changes and the message lists the valid
 * names.
 */
aq_status aqi_log_configure(const char *spec);

/* Set the rank, so that lines begin with "aq[rank] folder: " instead of "aq[pid N] folder: ". */
void aqi_log_identity(uint32_t rank);
uint32_t aqi_log_rank(void); /* 0 before aqi_log_identity */

bool aqi_log_enabled(enum aqi_log_level level, const char *folder);

/* Write one whole line by one write(2), so that the lines of different processes do not mix. */
void aqi_log(enum aqi_log_level level, const char *folder, const char *fmt, ...) AQI_PRINTF(3, 4);

/* Likewise, but only the first time for this zero-initialized static `*once`. */
void aqi_log_once(atomic_bool *once, enum aqi_log_level level, const char *folder, const char *fmt,
                  ...) AQI_PRINTF(4, 5);

/*
 * From now on, replace `inside` by `outside` in all lines, so that they name URIs as the programs
 * of a front end do. `name` is not copied; NULL: replace nothing.
 */
struct aqi_log_name {
    const char *inside, *outside;
};
void aqi_log_rename(const struct aqi_log_name *name);

/* Replace control characters by spaces: text from peers and users must not forge or split lines. */
void aqi_log_printable(char *text);

/*
 * Send warnings and errors to the socket `fd` as long as standard error is the file with this
 * device and inode number; lines that the socket cannot take go to standard error.
 */
void aqi_log_through(int fd, dev_t device, ino_t number);
/* Write a line of a warning or an error, given with its newline. Async-signal-safe. */
void aqi_log_line(const char *line, size_t len);

#endif
