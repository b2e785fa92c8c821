/*
 * A board: text about this process that other processes can read while it runs, and that is printed
 * with its counters. It is a separate memfd: `aqinfo --peers` finds it by its name under
 * /proc/PID/fd, which only the same user and root may read.
 */
#ifndef AQI_BOARD_H
#define AQI_BOARD_H

#include "base/safe_text.h"
#include "base/wire.h"

#define AQI_BOARD_NAME "aqueduct-peers"

/* The contents of the memfd. */
struct aqi_board {
    _Atomic uint64_t turn; /* odd while the text is written; a reader retries if it has changed */
    uint32_t len;
    uint32_t version; /* of AQI_WIRE_BOARD */
    char text[];
};

/* Open the board of this process, with room for `room` bytes of text. It is never closed. */
aq_status aqi_board_open(size_t room);
/*
 * Rewrite the board: call begin, add text, call end soon. If several threads do so, the last text
 * wins. Returns NULL if the board is not open.
 */
struct aqi_safe_text *aqi_board_begin(void);
void aqi_board_end(void);

/*
 * Sheets: short texts about objects that come and go (connections by URI), in a memfd of their own
 * that exists while there is any sheet. It is an array of struct aqi_board of this size.
 */
#define AQI_BOARD_SHEETS_NAME AQI_BOARD_NAME "-sheets"
#define AQI_BOARD_SHEET_BYTES 512
enum { AQI_BOARD_SHEETS = 1024 };

/* Returns NULL if no sheet is free. */
struct aqi_board *aqi_board_sheet_take(void);
/* Only one thread at a time may write a sheet. Text that does not fit is cut off. */
void aqi_board_sheet_write(struct aqi_board *sheet, const struct aqi_safe_text *text);
void aqi_board_sheet_give(struct aqi_board *sheet); /* no-op on NULL */

/* Print the board and the sheets. Async-signal-safe. Returns false if not all was written. */
bool aqi_board_print(int fd);

/*
 * Call `fn` with each text of another process; `fn` may change the text, but must not keep it. Does
 * nothing if access is denied. Returns the version of a board if it differs from ours, else 0.
 */
typedef void aqi_board_text_fn(void *arg, char *text);
unsigned aqi_board_read(int pid, aqi_board_text_fn *fn, void *arg);

#endif
