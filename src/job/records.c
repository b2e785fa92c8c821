/* The ranks' sockets for statistics and traces, and the job's files. */
#include "job/records.h"

#include "base/clock.h"
#include "base/safe_text.h"
#include "base/stats.h"
#include "job/lines.h"
#include "job/loop.h"
#include "job/settings.h"
#include "job/top.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORDS_FILES 2u
#define RECORDS_CHUNK 65536
/* While lines arrive, the clock's error is recorded at this interval. */
#define RECORDS_CLOCK_NS 10000000000u

struct record {
    struct aqi_source source;
    struct record *next;
    uint32_t rank;
    enum aqi_show what;
    bool any; /* data has arrived */
    struct aqi_lines lines;
};

struct records_file {
    int fd;
    bool begun; /* an attempt was made to open it */
    bool events;
    bool lost; /* a write failed: all further data is dropped */
};

static struct {
    struct aqi_records_params params;
    struct record *all;
    uint64_t clock_sent_ns[RECORDS_FILES];
    struct records_file files[RECORDS_FILES];
    /*
     * Fatal and non-fatal errors, which the next tick reports, as the hub must not be called from
     * inside its own calls.
     */
    char failed[AQI_CONTROL_TEXT], lost[RECORDS_FILES][AQI_CONTROL_TEXT];
} records = {.files = {{.fd = -1}, {.fd = -1}}};

static const enum aqi_job_row records_settings[RECORDS_FILES] = {
    [AQI_SHOW_STATS] = AQI_JOB_STATS_FILE, [AQI_SHOW_TRACE] = AQI_JOB_TRACE_FILE};

void aqi_records_open(const struct aqi_records_params *params)
{
    records.params = *params;
}

bool aqi_records_need_clock(void)
{
    const struct record *record = records.all;
    while (record != NULL && record->what == AQI_SHOW_LOG)
        record = record->next;
    return record != NULL;
}

/* --- from the ranks of this host -------------------------------------------------------------- */

static void records_send(const struct record *record, const char *bytes, size_t len)
{
    aqi_hub_printed(records.params.hub, record->rank, AQI_STREAM_SHOWN + record->what, bytes, len);
}

/* Record the offset added to times, before the first lines and periodically. */
static void records_send_clock(const struct record *record, const char *bytes, size_t len)
{
    uint64_t now = aqi_now_ns(), *said = &records.clock_sent_ns[record->what];
    char room[300];
    struct aqi_safe_text line = {.text = room, .room = sizeof(room)};
    if (records.params.align == NULL || (*said != 0 && now - *said < RECORDS_CLOCK_NS)) return;
    *said = now;
    aqi_lines_clock(&line, aqi_lines_kind(bytes, len), records.params.host, record->rank,
                    records.params.align, now);
    records_send(record, line.text, line.used);
}

static void records_lines(void *arg, const char *bytes, size_t len)
{
    const struct record *record = arg;
    if (record->what != AQI_SHOW_LOG) records_send_clock(record, bytes, len);
    records_send(record, bytes, len);
}

/* The rank was killed before it could write its counters: write them from shared memory. */
static void records_count_for(struct record *record)
{
    uint64_t value[AQI_CTR_COUNT];
    char title[32], room[64 * AQI_CTR_COUNT];
    struct aqi_safe_text text = {.text = room, .room = sizeof(room)};
    if (record->what != AQI_SHOW_STATS || record->any || !aqi_top_counters(record->rank, value))
        return;
    snprintf(title, sizeof(title), "rank %u", record->rank);
    for (unsigned i = 0; i < AQI_CTR_COUNT; i++)
        (void)aqi_counter_line(&text, title, (enum aqi_counter)i, value[i]);
    if (text.used != 0) records_lines(record, text.text, text.used);
}

static void records_end(struct record *record)
{
    struct record **at = &records.all;
    while (*at != record)
        at = &(*at)->next;
    *at = record->next;
    records_count_for(record);
    aqi_source_close(&record->source);
    aqi_lines_free(&record->lines);
    free(record);
}

/* Returns false if there is no data now, or never will be. */
static bool records_read(struct record *record)
{
    static char chunk[RECORDS_CHUNK];
    ssize_t got = recv(record->source.fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) {
        records_end(record);
        return false;
    }
    record->any = true;
    const struct aqi_align *align = record->what != AQI_SHOW_LOG ? records.params.align : NULL;
    aqi_lines_feed(&record->lines, align, chunk, (size_t)got, records_lines, record);
    return true;
}

static bool records_may_read(const struct record *record)
{
    const struct aqi_align *align = records.params.align;
    if (record->what == AQI_SHOW_LOG) return aqi_hub_has_room(records.params.hub);
    return align == NULL || (aqi_align_ready(align) && aqi_hub_has_room(records.params.hub));
}

static void records_ready(struct aqi_source *source)
{
    struct record *record = AQI_OF(source, struct record, source);
    aqi_hub_now(records.params.hub, aqi_now_ns());
    if (records_may_read(record))
        (void)records_read(record);
    else
        aqi_source_watch(source, 0);
}

void aqi_records_take(uint32_t rank, enum aqi_show what, int fd)
{
    struct record *record = calloc(1, sizeof(*record));
    if (record == NULL) {
        close(fd);
        return;
    }
    record->rank = rank;
    record->what = what;
    record->next = records.all;
    records.all = record;
    aqi_source_open(&record->source, fd, records_ready);
    aqi_source_watch(&record->source, EPOLLIN);
    if (what == AQI_SHOW_LOG) return;
    records_send(record, NULL, 0); /* opens the file, to detect errors early */
}

void aqi_records_forward_log(uint32_t rank)
{
    struct record *next;
    for (struct record *record = records.all; record != NULL; record = next) {
        next = record->next;
        if (record->rank != rank || record->what != AQI_SHOW_LOG) continue;
        while (records_may_read(record) && records_read(record))
            continue;
    }
}

void aqi_records_drain(void)
{
    while (records.all != NULL) {
        struct record *record = records.all;
        while (records_read(record))
            continue;
        if (records.all == record) records_end(record); /* the other end is still open */
    }
}

static void records_report(void)
{
    if (records.failed[0] != '\0')
        aqi_hub_failed(records.params.hub, AQI_EXIT_FAILED, "%s", records.failed);
    records.failed[0] = '\0';
    for (unsigned i = 0; i < RECORDS_FILES; i++) {
        if (records.lost[i][0] != '\0') aqi_hub_print(records.params.hub, "%s", records.lost[i]);
        records.lost[i][0] = '\0';
    }
}

void aqi_records_tick(void)
{
    records_report();
    for (struct record *record = records.all; record != NULL; record = record->next)
        if (records_may_read(record)) aqi_source_watch(&record->source, EPOLLIN);
}

/* --- the files ------------------------------------------------------------------------------ */

/* A file that cannot be opened ends the job, which has hardly started. A later write error does
 * not, as the job's work would be lost. */
static void records_fail(enum aqi_show what, bool begun)
{
    const struct aqi_setting *row = &aqi_job_settings.rows[records_settings[what]];
    const char *variable;
    const char *name = aqi_setting_text(row, &variable);
    if (begun)
        snprintf(records.lost[what], sizeof(records.lost[what]),
                 "%s: the file \"%.300s\" is incomplete from here on; the job goes on: %s",
                 variable, name, strerror(errno));
    else
        snprintf(records.failed, sizeof(records.failed), "%s: cannot write the file \"%.300s\": %s",
                 variable, name, strerror(errno));
}

static void records_open_file(enum aqi_show what)
{
    struct records_file *file = &records.files[what];
    const char *variable;
    const char *name = aqi_setting_text(&aqi_job_settings.rows[records_settings[what]], &variable);
    if (file->begun) return;
    file->begun = true;
    file->fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (file->fd < 0) records_fail(what, false);
}

static void records_write(enum aqi_show what, const void *bytes, size_t len)
{
    struct records_file *file = &records.files[what];
    struct aqi_safe_text text = {.text = (char *)(uintptr_t)bytes, .used = len, .room = len};
    if (file->fd < 0 || len == 0 || aqi_safe_write(&text, file->fd) || file->lost) return;
    file->lost = true;
    records_fail(what, true);
}

void aqi_records_arrived(enum aqi_show what, const void *bytes, size_t len)
{
    struct records_file *file = &records.files[what];
    if ((unsigned)what >= RECORDS_FILES) return;
    records_open_file(what);
    if (!file->events && aqi_lines_kind(bytes, len) == AQI_LINES_JSON) {
        file->events = true;
        records_write(what, "[\n", 2);
    }
    if (!file->lost) records_write(what, bytes, len);
}

void aqi_records_close(void)
{
    char room[200];
    struct aqi_safe_text line = {.text = room, .room = sizeof(room)};
    aqi_safe_thousandths(&line,
                         "{\"name\":\"end of the job\",\"cat\":\"job\",\"ph\":\"i\",\"s\":\"g\","
                         "\"ts\":",
                         aqi_now_ns());
    aqi_safe_add(&line, ",\"pid\":0,\"tid\":0}\n]\n");
    for (unsigned i = 0; i < RECORDS_FILES; i++) {
        struct records_file *file = &records.files[i];
        if (file->events) records_write((enum aqi_show)i, line.text, line.used);
        if (file->fd >= 0) close(file->fd);
        *file = (struct records_file){.fd = -1};
    }
    records_report();
}
