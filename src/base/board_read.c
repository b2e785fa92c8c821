/* Reads the boards of another process, for aqinfo and the agents of jobs. Needs only libc. */
#include "base/board.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BOARD_LINK  "/memfd:" AQI_BOARD_NAME
#define SHEETS_LINK "/memfd:" AQI_BOARD_SHEETS_NAME
/* If the writer loses its processor between begin and end, sleep, for up to a second in total. */
enum { BOARD_TRIES = 1000, BOARD_SPINS = 20, BOARD_SLEEP_NS = 1000000 };

/* The header before the text. */
struct board_head {
    uint64_t turn;
    uint32_t len, version;
};
static_assert(sizeof(struct board_head) == sizeof(struct aqi_board) &&
                  offsetof(struct board_head, len) == offsetof(struct aqi_board, len) &&
                  offsetof(struct board_head, version) == offsetof(struct aqi_board, version),
              "the same bytes");

/*
 * Read one board. Its owner may rewrite it at any time, and its length cannot be trusted. Returns
 * its version if that differs from ours, else 0.
 */
static unsigned board_read_one(int fd, off_t from, off_t most, aqi_board_text_fn *fn, void *arg)
{
    for (int tries = 0; tries < BOARD_TRIES; tries++) {
        struct board_head before, after;
        if (pread(fd, &before, sizeof(before), from) != sizeof(before) || before.len == 0 ||
            before.len > (uint64_t)most)
            return 0;
        if (before.version != aqi_wire_version(AQI_WIRE_BOARD)) return before.version;
        char *text = malloc(before.len + 1ull);
        if (text == NULL) return 0;
        ssize_t n = pread(fd, text, before.len, from + (off_t)sizeof(before));
        bool whole = pread(fd, &after, sizeof(after), from) == sizeof(after) &&
                     before.turn == after.turn && before.turn % 2 == 0 && n == (ssize_t)before.len;
        if (whole) {
            text[n] = '\0';
            fn(arg, text);
        }
        free(text);
        if (whole) return 0;
        if (tries >= BOARD_SPINS) nanosleep(&(struct timespec){.tv_nsec = BOARD_SLEEP_NS}, NULL);
    }
    return 0;
}

static unsigned board_read_object(int fd, bool sheets, aqi_board_text_fn *fn, void *arg)
{
    struct stat of;
    unsigned other = 0;
    if (fstat(fd, &of) != 0) return 0;
    if (!sheets) return board_read_one(fd, 0, of.st_size, fn, arg);
    for (off_t from = 0; from < of.st_size && other == 0; from += AQI_BOARD_SHEET_BYTES)
        other = board_read_one(fd, from, AQI_BOARD_SHEET_BYTES, fn, arg);
    return other;
}

static bool board_read_begins(const char *link, ssize_t len, const char *with)
{
    return len >= (ssize_t)strlen(with) && memcmp(link, with, strlen(with)) == 0;
}

unsigned aqi_board_read(int pid, aqi_board_text_fn *fn, void *arg)
{
    char path[300], link[64];
    bool seen[2] = {false};
    unsigned other = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *fds = opendir(path);
    if (fds == NULL) return 0;
    for (struct dirent *entry; (entry = readdir(fds)) != NULL;) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", pid, entry->d_name);
        ssize_t n = readlink(path, link, sizeof(link));
        if (!board_read_begins(link, n, BOARD_LINK)) continue;
        bool sheets = board_read_begins(link, n, SHEETS_LINK);
        int fd = seen[sheets] ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        seen[sheets] = true;
        unsigned version = board_read_object(fd, sheets, fn, arg);
        if (version != 0) other = version;
        close(fd);
    }
    closedir(fds);
    return other;
}
