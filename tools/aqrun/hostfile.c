/* Files that list hosts, written by users, for MPI launchers, or by batch systems. */
#include "base/array.h"
#include "hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define HOSTFILE_MAX      (64u << 20)
#define HOSTFILE_MAX_LINE 4096u

#define HOSTFILE_BLANKS " \t\r"

/* Keywords of other launchers that may follow a host. */
static const struct {
    const char *key;
    bool slots; /* otherwise ignored */
} hostfile_keys[] = {
    {"slots", true},      {"slot", true},  {"cpu", true},      {"max_slots", false},
    {"max-slots", false}, {"max", false},  {"ifhn", false},    {"binding", false},
    {"user", false},      {"port", false}, {"account", false},
};

/* Get the next word of a line. Returns false if there is none. */
static bool hostfile_word(const char **at, const char *end, const char **word, size_t *len)
{
    while (*at < end && memchr(HOSTFILE_BLANKS, **at, sizeof(HOSTFILE_BLANKS) - 1) != NULL)
        ++*at;
    *word = *at;
    while (*at < end && memchr(HOSTFILE_BLANKS, **at, sizeof(HOSTFILE_BLANKS) - 1) == NULL)
        ++*at;
    *len = (size_t)(*at - *word);
    return *len > 0;
}

static bool hostfile_unknown(struct hosts *hosts, const char *word, size_t len)
{
    char shown[HOSTS_SHOWN];
    return hosts_error(hosts,
                       "unknown \"%s\" after a host: give NAME, NAME slots=N, NAME:N or NAME N, "
                       "and # before a comment",
                       hosts_show(word, len, shown));
}

/* Parse slots=4, or accept a keyword that is ignored. */
static bool hostfile_key(struct hosts *hosts, const char *word, size_t len, uint32_t *slots)
{
    char shown[HOSTS_SHOWN];
    const char *equals = memchr(word, '=', len);
    size_t key = equals != NULL ? (size_t)(equals - word) : 0;
    for (size_t i = 0; equals != NULL && i < AQI_COUNT_OF(hostfile_keys); i++) {
        const char *name = hostfile_keys[i].key;
        if (strlen(name) != key || strncasecmp(word, name, key) != 0) continue;
        if (!hostfile_keys[i].slots) return true;
        if (hosts_number(equals + 1, len - key - 1, slots)) return true;
        return hosts_error(hosts, "\"%s\": give a number of slots from 1 to 65536",
                           hosts_show(word, len, shown));
    }
    return hostfile_unknown(hosts, word, len);
}

static bool hostfile_line(struct hosts *hosts, const char *at, const char *end,
                          enum hosts_format format)
{
    const char *name, *word;
    size_t name_len, len;
    uint32_t slots = 0;
    if (!hostfile_word(&at, end, &name, &name_len)) return true;
    for (unsigned i = 0; hostfile_word(&at, end, &word, &len); i++) {
        if (i == 0 && hosts_number(word, len, &slots)) continue;
        if (i > 0 && format == HOSTS_GRID_ENGINE) continue;
        if (!hostfile_key(hosts, word, len, &slots)) return false;
    }
    return hosts_add_item(hosts, name, name_len, slots);
}

bool hosts_add_lines(struct hosts *hosts, const char *path, const char *bytes, size_t len,
                     enum hosts_format format)
{
    const char *end = bytes + len;
    uint32_t before = hosts->mentions;
    unsigned number = 0;
    while (bytes < end) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *next = newline != NULL ? newline + 1 : end;
        const char *stop = newline != NULL ? newline : end;
        snprintf(hosts->source, sizeof(hosts->source), "%.180s:%u", path, ++number);
        if ((size_t)(stop - bytes) > HOSTFILE_MAX_LINE)
            return hosts_error(
                hosts,
                "this line has more than %u characters: is the file a list of hosts, one per line?",
                HOSTFILE_MAX_LINE);
        const char *comment = memchr(bytes, '#', (size_t)(stop - bytes));
        if (!hostfile_line(hosts, bytes, comment != NULL ? comment : stop, format)) return false;
        bytes = next;
    }
    if (hosts->mentions != before) return true;
    snprintf(hosts->source, sizeof(hosts->source), "%.190s", path);
    return hosts_error(hosts, "it contains no host: give one name per line");
}

/* Read a whole file, which may be a pipe: <(command). */
static char *hostfile_read(struct hosts *hosts, int fd, size_t *len)
{
    size_t room = 0;
    char *bytes = NULL;
    ssize_t got = 1;
    for (*len = 0; got > 0 || (got < 0 && errno == EINTR);) {
        if (!aqi_array_reserve(&bytes, &room, *len + 4096, 1)) break;
        got = read(fd, bytes + *len, room - *len);
        if (got > 0) *len += (size_t)got;
        if (*len > HOSTFILE_MAX) break;
    }
    if (got == 0) return bytes;
    if (*len > HOSTFILE_MAX)
        hosts_error(hosts, "it has more than %u MB: is the file a list of hosts, one per line?",
                    HOSTFILE_MAX >> 20);
    else
        hosts_error(hosts, "cannot read it: %s", strerror(got < 0 ? errno : ENOMEM));
    free(bytes);
    return NULL;
}

bool hosts_add_file(struct hosts *hosts, const char *source, const char *path,
                    enum hosts_format format)
{
    size_t len;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(hosts->source, sizeof(hosts->source), "%.40s: %.150s", source, path);
    if (fd < 0) return hosts_error(hosts, "cannot open this hostfile: %s", strerror(errno));
    char *bytes = hostfile_read(hosts, fd, &len);
    close(fd);
    if (bytes == NULL) return false;
    bool added = hosts_add_lines(hosts, path, bytes, len, format);
    free(bytes);
    return added;
}
