/* Log lines on standard error: a level per folder, one write(2) per line. */
#include "base/log.h"

#include "base/fail.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_LINE_BYTES 1280
#define LOG_NOBODY     UINT32_MAX

static const char *const log_folders[] = {"base",  "transport", "loop", "shm",   "fault",
                                          "core",  "job",       "lib",  "tools", "front",
                                          "dgram", "reg",       "udp",  "ibv",   "ofi"};
#define LOG_FOLDERS AQI_COUNT_OF(log_folders)

static const char *const log_levels[] = {
    [AQI_LOG_OFF] = "off",   [AQI_LOG_ERROR] = "error", [AQI_LOG_WARN] = "warn",
    [AQI_LOG_INFO] = "info", [AQI_LOG_DEBUG] = "debug", [AQI_LOG_TRACE] = "trace"};
static_assert(AQI_COUNT_OF(log_levels) == AQI_LOG_TRACE + 1, "a name for each level");

/* Level + 1 of each folder; 0 means the common level. Relaxed: nothing depends on their order. */
static _Atomic unsigned char log_folder_level[LOG_FOLDERS];
static _Atomic unsigned char log_common_level = AQI_LOG_WARN;
static _Atomic unsigned char log_highest_level = AQI_LOG_WARN; /* of all folders */
static _Atomic uint32_t log_rank = LOG_NOBODY;

/* The index in a list of the name of `len` bytes at `text`, or the size of the list. */
static size_t log_find(const char *const *list, size_t count, const char *text, size_t len)
{
    size_t i = 0;
    while (i < count && (strncmp(list[i], text, len) != 0 || list[i][len] != '\0'))
        i++;
    return i;
}

static aq_status log_refuse(const char *spec, const char *part, size_t len)
{
    char folders[160] = "";
    for (size_t i = 0; i < LOG_FOLDERS; i++)
        aqi_append(folders, sizeof(folders), " %s", log_folders[i]);
    return aqi_fail(
        AQ_ESETTING, "base",
        "AQ_LOG=\"%.200s\": \"%.*s\" is not valid; give a level (off error warn info debug trace), "
        "or FOLDER=LEVEL, separated by commas, such as warn,shm=debug; the folders are%s",
        spec, (int)aqi_min(len, 40), part, folders);
}

/* One part of a specification: "LEVEL" or "FOLDER=LEVEL". */
static bool log_parse_part(const char *part, size_t len, unsigned char *folder_level,
                           unsigned char *common)
{
    const char *equals = memchr(part, '=', len);
    const char *level_text = equals == NULL ? part : equals + 1;
    size_t level = log_find(log_levels, AQI_COUNT_OF(log_levels), level_text,
                            (size_t)(part + len - level_text));
    if (level == AQI_COUNT_OF(log_levels)) return false;
    if (equals == NULL) {
        *common = (unsigned char)level;
        return true;
    }
    size_t folder = log_find(log_folders, LOG_FOLDERS, part, (size_t)(equals - part));
    if (folder == LOG_FOLDERS) return false;
    folder_level[folder] = (unsigned char)(level + 1);
    return true;
}

aq_status aqi_log_configure(const char *spec)
{
    unsigned char folder_level[LOG_FOLDERS] = {0};
    unsigned char common = AQI_LOG_WARN;
    for (const char *part = spec;; part++) {
        size_t len = strcspn(part, ",");
        if (!log_parse_part(part, len, folder_level, &common)) return log_refuse(spec, part, len);
        part += len;
        if (*part == '\0') break;
    }

    unsigned char highest = common;
    for (size_t i = 0; i < LOG_FOLDERS; i++) {
        if (folder_level[i] > highest + 1) highest = (unsigned char)(folder_level[i] - 1);
        atomic_store_explicit(&log_folder_level[i], folder_level[i], memory_order_relaxed);
    }
    atomic_store_explicit(&log_common_level, common, memory_order_relaxed);
    atomic_store_explicit(&log_highest_level, highest, memory_order_relaxed);
    return AQ_OK;
}

uint32_t aqi_log_rank(void)
{
    uint32_t rank = atomic_load_explicit(&log_rank, memory_order_relaxed);
    return rank == LOG_NOBODY ? 0 : rank;
}

void aqi_log_identity(uint32_t rank)
{
    atomic_store_explicit(&log_rank, rank, memory_order_relaxed);
}

bool aqi_log_enabled(enum aqi_log_level level, const char *folder)
{
    if (level > atomic_load_explicit(&log_highest_level, memory_order_relaxed)) return false;
    size_t i = log_find(log_folders, LOG_FOLDERS, folder, strlen(folder));
    unsigned own =
        i < LOG_FOLDERS ? atomic_load_explicit(&log_folder_level[i], memory_order_relaxed) : 0;
    if (own == 0) own = atomic_load_explicit(&log_common_level, memory_order_relaxed) + 1u;
    return level < own;
}

void aqi_log_printable(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++)
        if (*c < 0x20 || *c == 0x7f) *c = ' ';
}

/*
 * If stderr is a closed pipe, or a full non-blocking one, the line is lost, but the program
 * continues.
 */
static void log_write(const char *line, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, line, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        line += n;
        len -= (size_t)n;
    }
}

static struct {
    _Atomic int fd;
    dev_t device;
    ino_t number;
} log_socket = {.fd = -1};

void aqi_log_through(int fd, dev_t device, ino_t number)
{
    log_socket.device = device;
    log_socket.number = number;
    /* Read by the load in aqi_log_line. */
    atomic_store_explicit(&log_socket.fd, fd, memory_order_release);
}

void aqi_log_line(const char *line, size_t len)
{
    struct stat is;
    int fd = atomic_load_explicit(&log_socket.fd, memory_order_acquire);
    if (fd >= 0 && fstat(STDERR_FILENO, &is) == 0 && is.st_dev == log_socket.device &&
        is.st_ino == log_socket.number &&
        send(fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len)
        return;
    log_write(line, len);
}

static _Atomic(const struct aqi_log_name *) log_name;

void aqi_log_rename(const struct aqi_log_name *name)
{
    /* Read by the load in log_use_name. */
    atomic_store_explicit(&log_name, name, memory_order_release);
}

/* Returns the new length; what does not fit is cut off. */
static size_t log_use_name(char *line, size_t room)
{
    char rest[LOG_LINE_BYTES];
    const struct aqi_log_name *name = atomic_load_explicit(&log_name, memory_order_acquire);
    for (char *at = line; name != NULL && (at = strstr(at, name->inside)) != NULL;) {
        snprintf(rest, sizeof(rest), "%s", at + strlen(name->inside));
        snprintf(at, room - (size_t)(at - line), "%s%s", name->outside, rest);
        at += aqi_min(strlen(at), strlen(name->outside));
    }
    return strlen(line);
}

static void log_print(enum aqi_log_level level, const char *folder, const char *fmt, va_list args)
{
    int saved_errno = errno;
    char line[LOG_LINE_BYTES];
    size_t room = sizeof(line) - 1; /* room for the newline */
    uint32_t rank = atomic_load_explicit(&log_rank, memory_order_relaxed);
    int n = rank == LOG_NOBODY
                ? snprintf(line, room, "aq[pid %ld] %.20s: ", (long)getpid(), folder)
                : snprintf(line, room, "aq[%lu] %.20s: ", (unsigned long)rank, folder);
    size_t len = (size_t)n;
    n = vsnprintf(line + len, room - len, fmt, args);
    if (n < 0) line[len] = '\0';
    len = log_use_name(line, room);
    aqi_log_printable(line);
    line[len++] = '\n';
    (level <= AQI_LOG_WARN ? aqi_log_line : log_write)(line, len);
    errno = saved_errno;
}

void aqi_log(enum aqi_log_level level, const char *folder, const char *fmt, ...)
{
    if (!aqi_log_enabled(level, folder)) return;
    va_list args;
    va_start(args, fmt);
    log_print(level, folder, fmt, args);
    va_end(args);
}

void aqi_log_once(atomic_bool *once, enum aqi_log_level level, const char *folder, const char *fmt,
                  ...)
{
    if (!aqi_log_enabled(level, folder)) return;
    if (atomic_exchange_explicit(once, true, memory_order_relaxed)) return;
    va_list args;
    va_start(args, fmt);
    log_print(level, folder, fmt, args);
    va_end(args);
}
