/* Text about this process that other processes can read. */
#include "base/board.h"

#include "base/shmem.h"
#include "base/spin.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { SHEET_TEXT = AQI_BOARD_SHEET_BYTES - sizeof(struct aqi_board) };

static struct {
    unsigned char *at; /* NULL if there is none */
    int fd;
    unsigned count; /* number taken */
    bool taken[AQI_BOARD_SHEETS];
    struct aqi_spin lock;
} sheets;

static struct {
    struct aqi_board *_Atomic at;
    size_t size;
    int fd;
    struct aqi_spin lock; /* for writing and opening */
    struct aqi_safe_text text;
} board;

static aq_status board_make(size_t size)
{
    void *at;
    /* The descriptor stays open, since readers find the board by it. */
    aq_status st = aqi_shmem_new(AQI_BOARD_NAME, size, &board.fd, &at);
    if (st != AQ_OK) return st;
    board.size = size;
    atomic_store(&board.at, at);
    return AQ_OK;
}

aq_status aqi_board_open(size_t room)
{
    size_t size = aqi_round_up(sizeof(struct aqi_board) + room, aqi_page_size());
    aqi_spin_lock(&board.lock);
    aq_status st = atomic_load(&board.at) != NULL ? AQ_OK : board_make(size);
    aqi_spin_unlock(&board.lock);
    return st;
}

struct aqi_safe_text *aqi_board_begin(void)
{
    struct aqi_board *at = atomic_load(&board.at);
    if (at == NULL) return NULL;
    aqi_spin_lock(&board.lock);
    atomic_fetch_add(&at->turn, 1);
    board.text = (struct aqi_safe_text){.text = at->text, .room = board.size - sizeof(*at)};
    return &board.text;
}

void aqi_board_end(void)
{
    struct aqi_board *at = atomic_load(&board.at);
    at->len = (uint32_t)board.text.used;
    at->version = aqi_wire_version(AQI_WIRE_BOARD);
    atomic_fetch_add(&at->turn, 1);
    aqi_spin_unlock(&board.lock);
}

/* --- sheets ----------------------------------------------------------------------------------- */

static const size_t sheets_size = (size_t)AQI_BOARD_SHEETS * AQI_BOARD_SHEET_BYTES;

static struct aqi_board *board_sheet_at(unsigned i)
{
    return (struct aqi_board *)(void *)(sheets.at + (size_t)i * AQI_BOARD_SHEET_BYTES);
}

static bool board_open_sheets(void)
{
    void *at;
    if (sheets.at != NULL) return true;
    if (aqi_shmem_new(AQI_BOARD_SHEETS_NAME, sheets_size, &sheets.fd, &at) != AQ_OK) return false;
    sheets.at = at;
    return true;
}

struct aqi_board *aqi_board_sheet_take(void)
{
    struct aqi_board *sheet = NULL;
    aqi_spin_lock(&sheets.lock);
    if (sheets.count < AQI_BOARD_SHEETS && board_open_sheets()) {
        unsigned i = 0;
        while (sheets.taken[i])
            i++;
        sheets.taken[i] = true;
        sheets.count++;
        sheet = board_sheet_at(i);
    }
    aqi_spin_unlock(&sheets.lock);
    return sheet;
}

void aqi_board_sheet_write(struct aqi_board *sheet, const struct aqi_safe_text *text)
{
    size_t len = aqi_min(text->used, SHEET_TEXT);
    atomic_fetch_add(&sheet->turn, 1);
    memcpy(sheet->text, text->text, len);
    sheet->len = (uint32_t)len;
    sheet->version = aqi_wire_version(AQI_WIRE_BOARD);
    atomic_fetch_add(&sheet->turn, 1);
}

void aqi_board_sheet_give(struct aqi_board *sheet)
{
    if (sheet == NULL) return;
    aqi_board_sheet_write(sheet, &(struct aqi_safe_text){.used = 0, .text = ""});
    aqi_spin_lock(&sheets.lock);
    sheets.taken[(size_t)((unsigned char *)sheet - sheets.at) / AQI_BOARD_SHEET_BYTES] = false;
    if (--sheets.count == 0) {
        aqi_shmem_unmap(sheets.at, sheets_size);
        close(sheets.fd);
        sheets.at = NULL;
    }
    aqi_spin_unlock(&sheets.lock);
}

/* --- printing --------------------------------------------------------------------------------- */

static bool board_print(const struct aqi_board *at, int fd)
{
    struct aqi_safe_text text = {
        .text = (char *)(uintptr_t)at->text, .used = at->len, .room = at->len};
    return aqi_safe_write(&text, fd);
}

bool aqi_board_print(int fd)
{
    struct aqi_board *at = atomic_load(&board.at);
    bool all = at == NULL || board_print(at, fd);
    /* A signal may have interrupted the thread that holds the lock. */
    if (!aqi_spin_try(&sheets.lock)) return all;
    for (unsigned i = 0; sheets.at != NULL && i < AQI_BOARD_SHEETS; i++)
        if (all && sheets.taken[i]) all = board_print(board_sheet_at(i), fd);
    aqi_spin_unlock(&sheets.lock);
    return all;
}
