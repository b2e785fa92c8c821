/* Standard output and error of aqrun: a buffer each, written as far as there is room. */
#include "output.h"

#include "base/array.h"
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Above the first limit, ranks that write must wait; below the second, they may continue. */
#define OUTPUT_FULL  (1u << 20)
#define OUTPUT_READY (1u << 18)

static void output_ready(struct aqi_source *source);

/* Get a separate open file description: O_NONBLOCK on the given one would affect all processes that
 * share it. */
static int output_reopen(int fd)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void output_open(struct output *output, int fd, const char *name)
{
    struct stat info;
    *output = (struct output){.name = name, .method = OUTPUT_FILE};
    int use = fd;
    if (fstat(fd, &info) != 0) {
        output->closed = true;
    } else if (S_ISSOCK(info.st_mode)) {
        output->method = OUTPUT_SOCKET;
    } else if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
        int own = output_reopen(fd);
        output->method = own >= 0 ? OUTPUT_OWN : OUTPUT_POLLED;
        if (own >= 0) use = own;
    }
    aqi_source_open(&output->source, use, output_ready);
}

void output_open_forwarded(struct output *output, unsigned stream)
{
    *output =
        (struct output){.name = "the output of ranks", .method = OUTPUT_HUB, .stream = stream};
    aqi_source_open(&output->source, -1, output_ready);
}

/* Send as many whole lines as fit into a message; a longer line is sent on its own. */
static ssize_t output_to_hub(const struct output *output)
{
    enum { MAX = 60000 };
    size_t used = output->waiting.used, len = aqi_min(used, MAX);
    const char *at = output->waiting.at, *end = memrchr(at, '\n', len);
    if (!aqi_hub_has_room(job.hub)) {
        errno = EAGAIN;
        return -1;
    }
    if (end == NULL) end = memchr(at, '\n', used);
    len = end != NULL ? (size_t)(end - at) + 1 : used;
    aqi_hub_printed(job.hub, job.first, output->stream, at, len);
    return (ssize_t)len;
}

static ssize_t output_attempt(const struct output *output)
{
    int fd = output->source.fd;
    struct pollfd state = {.fd = fd, .events = POLLOUT};
    switch (output->method) {
    case OUTPUT_HUB:
        return output_to_hub(output);
    case OUTPUT_SOCKET:
        return send(fd, output->waiting.at, output->waiting.used, MSG_DONTWAIT | MSG_NOSIGNAL);
    case OUTPUT_POLLED:
        if (poll(&state, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        return write(fd, output->waiting.at, aqi_min(output->waiting.used, PIPE_BUF));
    default:
        return write(fd, output->waiting.at, output->waiting.used);
    }
}

void output_discard(struct output *output)
{
    output->closed = true;
    output->waiting.used = 0;
    relay_shut(output);
}

/* Writers must notice that there is no longer a reader, as they would without aqrun. */
static void output_shut(struct output *output, int err)
{
    output_discard(output);
    aqi_source_watch(&output->source, 0);
    if (job.hub != NULL && job.agent == 0)
        aqi_hub_shut_output(job.hub, output == &job.output[1] ? 1 : 0);
    if (err == EPIPE) return;
    if (output != &job.output[1]) say("cannot write %s: %s", output->name, strerror(err));
    if (job.hub != NULL && job.agent == 0) aqi_hub_code_at_least(job.hub, AQI_EXIT_FAILED);
}

static void output_drain(struct output *output)
{
    while (output->waiting.used != 0 && !output->closed) {
        ssize_t written = output_attempt(output);
        if (written > 0) {
            bytes_drop(&output->waiting, (size_t)written);
        } else if (written < 0 && errno == EAGAIN) {
            aqi_source_watch(&output->source, EPOLLOUT);
            return;
        } else if (written < 0 && errno != EINTR) {
            output_shut(output, errno);
        }
    }
    aqi_source_watch(&output->source, 0);
}

void output_tick(struct output *output)
{
    output_drain(output);
    if (!output->full || output->waiting.used > OUTPUT_READY) return;
    output->full = false;
    relay_resume(output);
    if (job.agent == 0 && job.hub != NULL)
        aqi_hub_hold_output(job.hub, job.output[0].full || job.output[1].full);
}

static void output_ready(struct aqi_source *source)
{
    output_tick(AQI_OF(source, struct output, source));
}

static void bytes_to_front(struct bytes *bytes)
{
    if (bytes->dropped == 0) return; /* nothing was dropped, and `at` may be NULL */
    char *first = bytes->at - bytes->dropped;
    memmove(first, bytes->at, bytes->used);
    *bytes = (struct bytes){first, bytes->used, bytes->room + bytes->dropped, 0};
}

/* The remaining bytes are moved only if that costs no more than writing did. */
void bytes_drop(struct bytes *bytes, size_t len)
{
    if (len == 0) return;
    *bytes =
        (struct bytes){bytes->at + len, bytes->used - len, bytes->room - len, bytes->dropped + len};
    if (bytes->dropped >= bytes->used) bytes_to_front(bytes);
}

void bytes_append(struct bytes *bytes, const void *from, size_t len, const char *what)
{
    if (len == 0) return;
    if (bytes->room - bytes->used < len) bytes_to_front(bytes);
    if (!aqi_array_reserve(&bytes->at, &bytes->room, bytes->used + len, 1))
        die("no memory to relay %s", what);
    memcpy(bytes->at + bytes->used, from, len);
    bytes->used += len;
}

void output_append(struct output *output, const void *bytes, size_t len)
{
    if (!output->closed) bytes_append(&output->waiting, bytes, len, output->name);
}

void output_flush(struct output *output)
{
    /* if it is waiting for room, there is no need to try */
    if (output->source.watched == 0) output_drain(output);
    if (output->waiting.used <= OUTPUT_FULL) return;
    output->full = true;
    if (job.agent == 0 && job.hub != NULL) aqi_hub_hold_output(job.hub, true);
}

bool output_empty(const struct output *output)
{
    return output->waiting.used == 0;
}
