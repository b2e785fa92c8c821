/*
 * A board: text about this process that others may read while it runs, and that is printed with its
 * counters. It is a memfd without an effect on anything: `aqinfo --peers` finds it by its name
 * below /proc/PID/fd, where only its user and root may look.
 */
#ifndef AQI_BOARD_H
#define AQI_BOARD_H

#include "base/safe_text.h"

#define AQI_BOARD_NAME "aqueduct-peers"

/* What is in the object. */
struct aqi_board {
    _Atomic uint64_t turn; /* odd while the text is being written; else who has read the text looks
                              whether it is still the same */
    uint64_t len;
    char text[];
};

/* For at most `room` bytes of text. The process has one; it lasts to its end. */
aq_status aqi_board_open(size_t room);
/* Write it anew: begin, add what is to be in it, end, soon. Where several threads do, the last
 * one's remains. NULL: it is not open. */
struct aqi_safe_text *aqi_board_begin(void);
void aqi_board_end(void);

/*
 * Sheets: short texts of what comes and goes, connections by URI, in an object of their own that is
 * there while any of them is. In it they follow each other, each a struct aqi_board of so many
 * bytes.
 */
#define AQI_BOARD_SHEETS_NAME AQI_BOARD_NAME "-sheets"
#define AQI_BOARD_SHEET_BYTES 512
enum { AQI_BOARD_SHEETS = 1024 };

/* NULL: there is none to be had. */
struct aqi_board *aqi_board_sheet_take(void);
/* One thread at a time for each sheet; what does not fit is cut off. */
void aqi_board_sheet_write(struct aqi_board *sheet, const struct aqi_safe_text *text);
void aqi_board_sheet_give(struct aqi_board *sheet); /* NULL: nothing */

/* The text, and those of the sheets. Async-signal-safe. False: not all of it could be written. */
bool aqi_board_print(int fd);

/* Of another process: each text that it shows, which is borrowed, and may be changed. Nothing, if
 * we may not look there. */
typedef void aqi_board_text_fn(void *arg, char *text);
void aqi_board_read(int pid, aqi_board_text_fn *fn, void *arg);

#endif
