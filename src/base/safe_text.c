/* Text for signal handlers, and the files of each rank that it is written to. */
#include "base/safe_text.h"

#include "base/fail.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void safe_text_bytes(struct aqi_safe_text *to, const char *bytes, size_t len)
{
    len = aqi_min(len, to->room - to->used);
    memcpy(to->text + to->used, bytes, len);
    to->used += len;
}

void aqi_safe_add(struct aqi_safe_text *to, const char *text)
{
    safe_text_bytes(to, text, strlen(text));
}

void aqi_safe_number(struct aqi_safe_text *to, const char *before, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    aqi_safe_add(to, before);
    safe_text_bytes(to, digits + at, sizeof(digits) - at);
}

void aqi_safe_thousandths(struct aqi_safe_text *to, const char *before, uint64_t value)
{
    char part[4] = {'.', (char)('0' + value / 100 % 10), (char)('0' + value / 10 % 10),
                    (char)('0' + value % 10)};
    aqi_safe_number(to, before, value / 1000);
    safe_text_bytes(to, part, sizeof(part));
}

void aqi_safe_quoted(struct aqi_safe_text *to, const char *before, const char *text, size_t most)
{
    aqi_safe_add(to, before);
    for (; *text != '\0' && most > 0; text++, most--) {
        bool plain = *text >= 0x20 && *text < 0x7f && *text != '"' && *text != '\\';
        safe_text_bytes(to, plain ? text : "?", 1);
    }
}

const char *aqi_safe_path(const char *path, size_t room, char *out)
{
    static const char left_out[] = "...";
    size_t len = strlen(path);
    const char *end = path;
    struct aqi_safe_text to = {.text = out, .room = room - 1};
    if (len > to.room) {
        end = path + len - (to.room - strlen(left_out));
        const char *slash = strchr(end, '/');
        if (slash != NULL && slash[1] != '\0') end = slash;
        while ((*end & 0xc0) == 0x80) /* inside a UTF-8 character */
            end++;
        aqi_safe_add(&to, left_out);
    }
    aqi_safe_add(&to, end);
    out[to.used] = '\0';
    return out;
}

/* Make exceeding RLIMIT_FSIZE an error instead of a signal that kills the process. */
static ssize_t safe_text_to_file(int fd, const char *bytes, size_t len)
{
    const struct timespec now = {0};
    sigset_t too_large, before;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_large, &before);
    ssize_t n = write(fd, bytes, len);
    int err = errno;
    if (n < 0 && err == EFBIG && !sigismember(&before, SIGXFSZ))
        (void)sigtimedwait(&too_large, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = err;
    return n;
}

/* An incomplete line would make the whole file unreadable. */
static void safe_text_take_back(int fd, size_t len)
{
    struct stat of;
    int err = errno;
    if (fstat(fd, &of) == 0 && S_ISREG(of.st_mode) && of.st_size >= (off_t)len)
        (void)!ftruncate(fd, of.st_size - (off_t)len);
    errno = err;
}

bool aqi_safe_write(struct aqi_safe_text *from, int fd)
{
    size_t done = 0;
    while (done < from->used) {
        ssize_t n = send(fd, from->text + done, from->used - done, MSG_NOSIGNAL);
        if (n < 0 && errno == ENOTSOCK)
            n = safe_text_to_file(fd, from->text + done, from->used - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    bool all = done == from->used;
    if (!all && done != 0) safe_text_take_back(fd, done);
    from->used = 0;
    return all;
}

/* strerror is not async-signal-safe. */
void aqi_safe_lost(const char *setting)
{
    static const struct {
        int err;
        const char *why;
    } reasons[] = {{ENOSPC, "its disk is full"},
                   {EDQUOT, "the quota of its disk is used up"},
                   {EFBIG, "it has reached the limit on file sizes (ulimit -f)"},
                   {EIO, "its disk has failed"}};
    char bytes[200];
    struct aqi_safe_text line = {.text = bytes, .room = sizeof(bytes)};
    int err = errno;
    if (!aqi_log_enabled(AQI_LOG_WARN, "base")) return;
    aqi_safe_number(&line, "aq[", aqi_log_rank());
    aqi_safe_add(&line, "] base: ");
    aqi_safe_add(&line, setting);
    aqi_safe_add(&line, ": the file is incomplete from here on: ");
    size_t i = 0;
    while (i < AQI_COUNT_OF(reasons) && reasons[i].err != err)
        i++;
    if (i < AQI_COUNT_OF(reasons))
        aqi_safe_add(&line, reasons[i].why);
    else
        aqi_safe_number(&line, "error ", (uint64_t)err);
    aqi_safe_add(&line, "\n");
    aqi_log_line(line.text, line.used);
    errno = err;
}

static aq_status safe_text_name(const char *setting, const char *pattern, uint32_t rank,
                                char name[PATH_MAX])
{
    struct aqi_safe_text path = {.text = name, .room = PATH_MAX - 1};
    for (const char *at = pattern; *at != '\0'; at++)
        if (*at == '%')
            aqi_safe_number(&path, "", rank);
        else
            safe_text_bytes(&path, at, 1);
    name[path.used] = '\0';
    if (path.used < path.room) return AQ_OK;
    return aqi_fail(AQ_ESETTING, "base",
                    "%s: the file name is longer than %d characters: \"%.60s...\"", setting,
                    PATH_MAX, pattern);
}

aq_status aqi_safe_open(const char *setting, const char *pattern, uint32_t rank, int *fd)
{
    char name[PATH_MAX];
    if (strcmp(pattern, "-") == 0 || strcmp(pattern, "stderr") == 0) {
        *fd = STDERR_FILENO;
        return AQ_OK;
    }
    aq_status st = safe_text_name(setting, pattern, rank, name);
    if (st != AQ_OK) return st;
    int opened = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (opened < 0)
        return aqi_fail_errno(AQ_ESETTING, errno, "base", "%s: cannot write the file \"%.300s\"",
                              setting, name);
    *fd = opened;
    return AQ_OK;
}
