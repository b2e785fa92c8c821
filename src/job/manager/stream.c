/* The socket to a PMI server: whole lines or messages, with a time limit for each wait. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/inet.h"
#include "job/settings.h"
#include "manager_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define STREAM_MILLISECOND 1000000ull
#define STREAM_SLICE_MS    1000

bool manager_is_hydra(void)
{
    return getenv("HYDI_CONTROL_FD") != NULL && getenv("OMPI_COMM_WORLD_SIZE") == NULL &&
           (getenv("PMI_FD") != NULL || getenv("PMI_PORT") != NULL);
}

/* Wait for `events`, in total at most `timeout_ns`; `*waited` accumulates over calls, excluding
 * the time for which this process was stopped. */
static aq_status stream_wait(const struct manager_stream *stream, short events, uint64_t timeout_ns,
                             uint64_t *waited)
{
    if (*waited >= timeout_ns) return AQ_ETIMEOUT;
    struct pollfd state = {.fd = stream->fd, .events = events};
    uint64_t left_ms = (timeout_ns - *waited) / STREAM_MILLISECOND + 1, before = aqi_now_ns();
    poll(&state, 1, (int)aqi_min(left_ms, STREAM_SLICE_MS));
    *waited += aqi_min(aqi_now_ns() - before, STREAM_SLICE_MS * STREAM_MILLISECOND);
    return AQ_OK;
}

static double stream_timeout_s(void)
{
    return (double)aqi_job_config.start_timeout_ns / 1e9;
}

aq_status manager_silent(const char *doing)
{
    return aqi_fail(AQ_ETIMEOUT, "job",
                    "no answer from the manager for %.3g s (%s): it hangs or is stopped; start the "
                    "job again, or raise AQ_START_TIMEOUT",
                    stream_timeout_s(), doing);
}

static aq_status stream_gone(const char *doing)
{
    return aqi_fail(AQ_EPEER, "job", "the manager is gone (%s): it was killed, or it ended the job",
                    doing);
}

aq_status manager_stream_send(struct manager_stream *stream, const char *text, size_t len)
{
    uint64_t waited = 0;
    while (len != 0) {
        ssize_t sent = send(stream->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            text += sent;
            len -= (size_t)sent;
            continue;
        }
        if (errno == EPIPE || errno == ECONNRESET) return stream_gone("send");
        if (errno != EAGAIN && errno != EINTR)
            return aqi_fail_errno(AQ_ESYS, errno, "job", "cannot send to the manager");
        if (stream_wait(stream, POLLOUT, aqi_job_config.start_timeout_ns, &waited) != AQ_OK)
            return manager_silent("send");
    }
    return AQ_OK;
}

/* Receive more bytes. */
static aq_status stream_fill(struct manager_stream *stream, uint64_t timeout_ns, const char *doing,
                             uint64_t *waited)
{
    if (stream->taken != 0) {
        stream->used -= stream->taken;
        memmove(stream->buf, stream->buf + stream->taken, stream->used);
        stream->taken = 0;
    }
    if (stream->used == sizeof(stream->buf) - 1)
        return aqi_fail(AQ_EPROTO, "job",
                        "the manager sent more than %u bytes without the end of a message (%s)",
                        MANAGER_MESSAGE - 1, doing);
    for (;;) {
        ssize_t got = recv(stream->fd, stream->buf + stream->used,
                           sizeof(stream->buf) - 1 - stream->used, MSG_DONTWAIT);
        if (got > 0) {
            stream->used += (size_t)got;
            return AQ_OK;
        }
        if (got == 0 || errno == ECONNRESET) return stream_gone(doing);
        if (errno != EAGAIN && errno != EINTR)
            return aqi_fail_errno(AQ_ESYS, errno, "job", "cannot receive from the manager (%s)",
                                  doing);
        aq_status status = stream_wait(stream, POLLIN, timeout_ns, waited);
        if (status != AQ_OK) return status;
    }
}

aq_status manager_stream_line(struct manager_stream *stream, uint64_t timeout_ns, const char *doing,
                              char **line)
{
    uint64_t waited = 0;
    for (;;) {
        char *from = stream->buf + stream->taken;
        char *end = memchr(from, '\n', stream->used - stream->taken);
        if (end != NULL) {
            *end = '\0';
            stream->taken = (size_t)(end + 1 - stream->buf);
            *line = from;
            return AQ_OK;
        }
        aq_status status = stream_fill(stream, timeout_ns, doing, &waited);
        if (status != AQ_OK) return status;
    }
}

aq_status manager_stream_message(struct manager_stream *stream, uint64_t timeout_ns,
                                 const char *doing, char **message)
{
    uint64_t waited = 0;
    size_t len = 0;
    for (;;) {
        char *from = stream->buf + stream->taken;
        size_t have = stream->used - stream->taken;
        if (have >= 6 && (!manager_read_length(from, &len) || len > MANAGER_MESSAGE - 8))
            return aqi_fail(AQ_EPROTO, "job",
                            "the manager sent a malformed PMI-2 message (%s): is AQ_BOOT correct?",
                            doing);
        if (have >= 6 && have - 6 >= len) {
            /* Move the message back by one byte, to make room for the NUL. */
            memmove(from, from + 6, len);
            from[len] = '\0';
            stream->taken += 6 + len;
            *message = from;
            return AQ_OK;
        }
        aq_status status = stream_fill(stream, timeout_ns, doing, &waited);
        if (status != AQ_OK) return status;
    }
}

/* ---- opening ---- */

static aq_status stream_inherit(struct manager_stream *stream, const char *text)
{
    uint32_t fd;
    struct stat what;
    if (!manager_number(text, &fd) || fstat((int)fd, &what) != 0 || !S_ISSOCK(what.st_mode))
        return aqi_fail(AQ_ESTATE, "job",
                        "PMI_FD=%.20s is not connected to a manager: mpiexec or srun did not start "
                        "this process, but one of their processes did; start it with them "
                        "directly, or set AQ_BOOT=single to run it alone",
                        text);
    /* Managers consider a rank alive as long as a child has this descriptor. */
    fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    stream->fd = (int)fd;
    return AQ_OK;
}

static aq_status stream_connect_to(struct manager_stream *stream, const struct addrinfo *list)
{
    int error = ECONNREFUSED;
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        uint64_t waited = 0;
        socklen_t len = sizeof(error);
        stream->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (stream->fd < 0)
            return aqi_fail_errno(AQ_ESYS, errno, "job", "cannot create a socket to the manager");
        error = connect(stream->fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
        struct pollfd state = {.fd = stream->fd, .events = POLLOUT};
        while (error == EINPROGRESS && poll(&state, 1, 0) == 0)
            if (stream_wait(stream, POLLOUT, aqi_job_config.start_timeout_ns, &waited) != AQ_OK)
                error = ETIMEDOUT;
        if (error == EINPROGRESS) getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error == 0) return AQ_OK;
        manager_stream_close(stream);
    }
    return aqi_fail_errno(AQ_EPEER, error, "job", "cannot connect to the manager at PMI_PORT=%s",
                          getenv("PMI_PORT"));
}

static aq_status stream_connect(struct manager_stream *stream, const char *port)
{
    char host[256];
    const char *colon = strrchr(port, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    if (colon == NULL || (size_t)(colon - port) >= sizeof(host))
        return aqi_fail(AQ_ESTATE, "job", "PMI_PORT=%.300s is not HOST:PORT", port);
    memcpy(host, port, (size_t)(colon - port));
    host[colon - port] = '\0';
    int error = aqi_inet_resolve(host, colon + 1, &hints, &list);
    if (error != 0)
        return aqi_fail(AQ_EPEER, "job", "PMI_PORT=%.300s: %s", port, gai_strerror(error));
    aq_status status = stream_connect_to(stream, list);
    freeaddrinfo(list);
    return status;
}

aq_status manager_stream_open(struct manager_stream *stream, bool port)
{
    const char *fd = getenv("PMI_FD"), *at = getenv("PMI_PORT");
    stream->fd = -1;
    if (fd != NULL) return stream_inherit(stream, fd);
    if (port && at != NULL) return stream_connect(stream, at);
    return aqi_fail(
        AQ_ESTATE, "job",
        "PMI_FD is not set: this process was not started by a PMI manager; unset AQ_BOOT");
}

void manager_stream_close(struct manager_stream *stream)
{
    if (stream->fd >= 0) close(stream->fd);
    stream->fd = -1;
}

aq_status manager_fence_late(const struct aqi_manager *manager)
{
    return aqi_fail(AQ_ETIMEOUT, "job",
                    "%s did not report within %.3g s that all %u ranks have joined the exchange at "
                    "the start (it does not report which are missing): a process hangs or does not "
                    "call aq_init; raise AQ_START_TIMEOUT if it needs longer",
                    manager->info.version, stream_timeout_s(), manager->info.size);
}
