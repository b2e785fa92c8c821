/* Converts lines of statistics and traces for the job's single file. */
#include "job/lines.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_CHUNK = 32768, LINES_GROWTH = 64 };

/* The next bytes to pass to `out`. */
struct lines_out {
    struct aqi_safe_text text;
    aqi_lines_fn *out;
    void *arg;
};

static void lines_flush(struct lines_out *to)
{
    if (to->text.used != 0) to->out(to->arg, to->text.text, to->text.used);
    to->text.used = 0;
}

static void lines_bytes(struct aqi_safe_text *to, const char *bytes, size_t len)
{
    memcpy(to->text + to->used, bytes, len);
    to->used += len;
}

/* The text after `before`; NULL if it is not in the line. */
static const char *lines_behind(const char *line, const char *end, const char *before)
{
    const char *found = memmem(line, (size_t)(end - line), before, strlen(before));
    return found != NULL ? found + strlen(before) : NULL;
}

/* The position of a line's time; NULL: none. Names in the line contain no quotes. */
static const char *lines_time(const char *line, size_t len)
{
    if (line[0] == '{') return lines_behind(line, line + len, "\"ts\":");
    const char *close = len > 3 && memcmp(line, "aq[", 3) == 0 ? memchr(line, ']', len) : NULL;
    return close != NULL && close + 2 < line + len && close[1] == ' ' ? close + 2 : NULL;
}

/* Parse "12.345" as 12345. Returns the text after it; NULL if malformed. */
static const char *lines_number(const char *at, const char *end, uint64_t *value)
{
    const char *point = NULL;
    *value = 0;
    for (; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && point == NULL)); at++)
        if (*at == '.')
            point = at;
        else
            *value = *value * 10 + (uint64_t)(*at - '0');
    return point != NULL && at == point + 4 ? at : NULL;
}

/* Copy the line, with the number at `at` replaced by `value`; returns the text after the number. */
static const char *lines_replace(struct lines_out *to, const char *line, const char *at,
                                 const char *rest, uint64_t value)
{
    lines_bytes(&to->text, line, (size_t)(at - line));
    aqi_safe_thousandths(&to->text, "", value);
    return rest;
}

/* Convert the start time of a line, and its duration, so that the end is also correct. */
static const char *lines_align(struct lines_out *to, const struct aqi_align *align,
                               const char *line, const char *end)
{
    uint64_t at, duration_ns;
    const char *time = lines_time(line, (size_t)(end - line));
    const char *rest = time != NULL ? lines_number(time, end, &at) : NULL;
    if (rest == NULL) return line;
    uint64_t begun = aqi_align_time(align, at);
    const char *duration = lines_behind(rest, end, line[0] == '{' ? "\"dur\":" : " took ");
    line = lines_replace(to, line, time, rest, begun);
    rest = duration != NULL ? lines_number(duration, end, &duration_ns) : NULL;
    if (rest == NULL) return line;
    return lines_replace(to, line, duration, rest, aqi_align_time(align, at + duration_ns) - begun);
}

static void lines_put(struct lines_out *to, const struct aqi_align *align, const char *line,
                      size_t len)
{
    if (len == 0 || line[0] == '[' || line[0] == ']') return; /* brackets around the whole file */
    if (line[0] == '{' && line[len - 1] == ',') len--;
    if (to->text.room - to->text.used < len + LINES_GROWTH) lines_flush(to);
    const char *end = line + len;
    if (align != NULL) line = lines_align(to, align, line, end);
    lines_bytes(&to->text, line, (size_t)(end - line));
    aqi_safe_add(&to->text, end[-1] == '}' ? ",\n" : "\n");
}

/* Append to the incomplete line. */
static void lines_keep(struct aqi_lines *lines, const char *bytes, size_t len)
{
    if (lines->begun == NULL) lines->begun = malloc(AQI_LINES_MAX);
    lines->lost = lines->lost || lines->begun == NULL || lines->used + len > AQI_LINES_MAX;
    if (lines->lost) return;
    memcpy(lines->begun + lines->used, bytes, len);
    lines->used += len;
}

void aqi_lines_feed(struct aqi_lines *lines, const struct aqi_align *align, const char *bytes,
                    size_t len, aqi_lines_fn *out, void *arg)
{
    static char room[AQI_LINES_MAX + LINES_CHUNK + LINES_GROWTH];
    struct lines_out to = {{.text = room, .room = sizeof(room)}, out, arg};
    const char *newline;
    while (len != 0 && (newline = memchr(bytes, '\n', len)) != NULL) {
        size_t piece = (size_t)(newline - bytes);
        if (lines->used == 0 && !lines->lost && piece <= AQI_LINES_MAX) {
            lines_put(&to, align, bytes, piece);
        } else {
            lines_keep(lines, bytes, piece);
            if (!lines->lost) lines_put(&to, align, lines->begun, lines->used);
        }
        lines->used = 0;
        lines->lost = false;
        bytes += piece + 1;
        len -= piece + 1;
    }
    if (len != 0) lines_keep(lines, bytes, len);
    lines_flush(&to);
}

void aqi_lines_free(struct aqi_lines *lines)
{
    free(lines->begun);
    *lines = (struct aqi_lines){0};
}

enum aqi_lines_kind aqi_lines_kind(const char *bytes, size_t len)
{
    if (len != 0 && bytes[0] == '{') return AQI_LINES_JSON;
    return len > 3 && memcmp(bytes, "aq[", 3) == 0 ? AQI_LINES_TEXT : AQI_LINES_PLAIN;
}

static void lines_clock_words(struct aqi_safe_text *line, const char *host,
                              const struct aqi_align *align, uint64_t now)
{
    int64_t offset = aqi_align_offset(align, now);
    uint64_t amount = offset < 0 ? 0 - (uint64_t)offset : (uint64_t)offset;
    uint64_t error = aqi_align_error(align, now);
    aqi_safe_quoted(line, "clock of host ", host, 64);
    aqi_safe_thousandths(line, offset < 0 ? ": offset -" : ": offset ", amount);
    if (error == UINT64_MAX)
        aqi_safe_add(line, " us, error unknown");
    else
        aqi_safe_thousandths(line, " us, error ", error);
    if (error != UINT64_MAX) aqi_safe_add(line, " us");
}

void aqi_lines_clock(struct aqi_safe_text *line, enum aqi_lines_kind kind, const char *host,
                     uint32_t rank, const struct aqi_align *align, uint64_t now)
{
    if (kind == AQI_LINES_JSON) aqi_safe_add(line, "{\"name\":\"");
    if (kind == AQI_LINES_TEXT) {
        aqi_safe_number(line, "aq[", rank);
        aqi_safe_thousandths(line, ".0] ", aqi_align_time(align, now));
        aqi_safe_add(line, " us job ");
    }
    lines_clock_words(line, host, align, now);
    if (kind == AQI_LINES_JSON) {
        aqi_safe_thousandths(line, "\",\"cat\":\"job\",\"ph\":\"i\",\"s\":\"p\",\"ts\":",
                             aqi_align_time(align, now));
        aqi_safe_number(line, ",\"pid\":", rank);
        aqi_safe_add(line, ",\"tid\":0},");
    }
    aqi_safe_add(line, "\n");
}
