/* Relays the output of ranks, line by line. */
#include "files.h"
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RELAY_CHUNK 65536
/* Longer lines are forwarded in pieces. */
#define RELAY_LINE_MAX (1u << 20)

static void relay_ready(struct aqi_source *source);

int relay_open(struct relay *relay, uint32_t rank, unsigned stream, struct output *to)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("cannot create a pipe for the output of rank %u: %s", rank, strerror(errno));
    *relay = (struct relay){.to = to, .rank = rank, .stream = stream};
    aqi_source_open(&relay->source, ends[0], relay_ready);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    aqi_source_watch(&relay->source, EPOLLIN);
    return ends[1];
}

/*
 * Write one line, or without --prefix several: the incomplete line kept so far, `len` bytes at
 * `bytes`, and a newline.
 */
static void relay_line(struct relay *relay, const char *bytes, size_t len)
{
    char prefix[16];
    if (job.options.prefix) {
        int prefix_len = snprintf(prefix, sizeof(prefix), "[%u] ", relay->rank);
        output_append(relay->to, prefix, (size_t)prefix_len);
    }
    output_append(relay->to, relay->line.at, relay->line.used);
    output_append(relay->to, bytes, len);
    output_append(relay->to, "\n", 1);
    relay->line.used = 0;
}

static void relay_lines(struct relay *relay, const char *bytes, size_t len)
{
    const char *newline;
    while (len != 0 && (newline = job.options.prefix ? memchr(bytes, '\n', len)
                                                     : memrchr(bytes, '\n', len)) != NULL) {
        size_t line = (size_t)(newline - bytes);
        relay_line(relay, bytes, line);
        bytes += line + 1;
        len -= line + 1;
    }
    bytes_append(&relay->line, bytes, len, "the output of ranks");
    if (relay->line.used > RELAY_LINE_MAX) relay_line(relay, NULL, 0);
}

static void relay_close(struct relay *relay)
{
    if (relay->line.used != 0) relay_line(relay, NULL, 0);
    if (relay->to != NULL) output_flush(relay->to);
    aqi_source_close(&relay->source);
    free(relay->line.at);
    relay->line = (struct bytes){0};
}

static void relay_pause(struct relay *relay)
{
    relay->paused = true;
    aqi_source_watch(&relay->source, 0);
}

static void relay_to_file(const struct relay *relay, const char *bytes, size_t len)
{
    if (job.agent == 0)
        files_append(job.options.output, relay->rank, relay->stream, job.id, bytes, len);
    else
        aqi_hub_printed(job.hub, relay->rank, AQI_STREAM_FILES + relay->stream, bytes, len);
}

/* Read once. Returns false if no data is available now. Closes the source at end of file. */
static bool relay_read(struct relay *relay)
{
    char chunk[RELAY_CHUNK];
    if (relay->to == NULL && job.agent != 0 && !aqi_hub_has_room(job.hub)) {
        relay_pause(relay);
        return false;
    }
    ssize_t got = read(relay->source.fd, chunk, sizeof(chunk));
    if (got > 0 && relay->to == NULL) {
        relay_to_file(relay, chunk, (size_t)got);
        return true;
    }
    if (got > 0) {
        relay_lines(relay, chunk, (size_t)got);
        output_flush(relay->to);
        return true;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) relay_close(relay);
    return false;
}

static void relay_ready(struct aqi_source *source)
{
    struct relay *relay = AQI_OF(source, struct relay, source);
    relay_read(relay);
    if (relay->source.fd >= 0 && relay->to != NULL && relay->to->full) relay_pause(relay);
}

void relay_finish(struct relay *relay)
{
    while (relay->source.fd >= 0 && relay_read(relay))
        continue;
    if (relay->source.fd >= 0 && !relay->paused) relay_close(relay);
}

void relay_shut(const struct output *to)
{
    for (uint32_t i = 0; i < job.spawned; i++)
        for (size_t k = 0; k < AQI_COUNT_OF(job.ranks[i].relay); k++) {
            struct relay *relay = &job.ranks[i].relay[k];
            if (relay->to == to) aqi_source_close(&relay->source);
        }
}

void relay_resume(const struct output *to)
{
    for (uint32_t i = 0; i < job.spawned; i++)
        for (size_t k = 0; k < AQI_COUNT_OF(job.ranks[i].relay); k++) {
            struct relay *relay = &job.ranks[i].relay[k];
            if (relay->to != to || !relay->paused) continue;
            relay->paused = false;
            aqi_source_watch(&relay->source, EPOLLIN);
        }
}

void relay_tick(void)
{
    if (job.options.output != NULL && job.agent != 0 && aqi_hub_has_room(job.hub))
        relay_resume(NULL);
}
