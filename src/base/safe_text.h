/* Text built piece by piece and written without stdio or malloc: async-signal-safe. */
#ifndef AQI_SAFE_TEXT_H
#define AQI_SAFE_TEXT_H

#include "base/base.h"

/* Text that does not fit is cut off. */
struct aqi_safe_text {
    char *text;
    size_t used, room;
};

void aqi_safe_add(struct aqi_safe_text *to, const char *text);
/*
 * Append a text followed by a number, by thousandths as a decimal number (1234 as 1.234), or by at
 * most `most` bytes for a JSON string, where every byte but printable ASCII becomes '?'.
 */
void aqi_safe_number(struct aqi_safe_text *to, const char *before, uint64_t value);
void aqi_safe_thousandths(struct aqi_safe_text *to, const char *before, uint64_t value);
void aqi_safe_quoted(struct aqi_safe_text *to, const char *before, const char *text, size_t most);

/*
 * Shorten a path to `room` bytes for display: all of it, or ".../" and as many of its last names as
 * fit, since the end distinguishes it from others. Returns `out`.
 */
const char *aqi_safe_path(const char *path, size_t room, char *out);

/*
 * Write all text to a descriptor and empty it. Returns false on failure and sets errno; a regular
 * file that only we write to then ends where it did before. Raises neither SIGPIPE (a socket whose
 * other end is closed) nor SIGXFSZ (a file that is too large).
 */
bool aqi_safe_write(struct aqi_safe_text *from, int fd);
/* Report that the file named by a setting is incomplete from here on, with the reason in errno. */
void aqi_safe_lost(const char *setting);

/*
 * Open a file for appending. '%' in the pattern becomes the rank; "-" and "stderr" mean standard
 * error.
 */
aq_status aqi_safe_open(const char *setting, const char *pattern, uint32_t rank, int *fd);

#endif
