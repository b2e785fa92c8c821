/* Text built piece by piece and written out, without stdio or malloc: for signal handlers, too. */
#ifndef AQI_SAFE_TEXT_H
#define AQI_SAFE_TEXT_H

#include "base/base.h"

/* What does not fit is cut off. */
struct aqi_safe_text {
    char *text;
    size_t used, room;
};

void aqi_safe_add(struct aqi_safe_text *to, const char *text);
/* A text, and what it stands before: a number; thousandths as a decimal number, 1234 as 1.234; or
 * at most `most` bytes of what is inside quotes of JSON: all but printable ASCII becomes '?'. */
void aqi_safe_number(struct aqi_safe_text *to, const char *before, uint64_t value);
void aqi_safe_thousandths(struct aqi_safe_text *to, const char *before, uint64_t value);
void aqi_safe_quoted(struct aqi_safe_text *to, const char *before, const char *text, size_t most);

/* A path for people, in `room` bytes: all of it or its end, of whole names behind ".../" if they
 * fit: what tells it from others stands there. Returns `out`. */
const char *aqi_safe_path(const char *path, size_t room, char *out);

/* All of it to a descriptor, then it is empty. False: it could not be written, as errno says, and a
 * regular file that only we write to ends where it did before. There is no SIGPIPE of
 * a socket whose other end is gone, and no SIGXFSZ of a file that is too large. */
bool aqi_safe_write(struct aqi_safe_text *from, int fd);
/* Say on standard error that the rest of the file of a setting is missing, and why, by errno. */
void aqi_safe_lost(const char *setting);

/*
 * Open a file to append to, as the pattern says: a '%' in it becomes the rank. "-" and "stderr" are
 * standard error.
 */
aq_status aqi_safe_open(const char *setting, const char *pattern, uint32_t rank, int *fd);

#endif
