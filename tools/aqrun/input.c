/*
 * Standard input for rank 0; if rank 0 runs on another host, the data is sent through the hubs. A
 * rank is in a process group of its own, in the background, which the terminal would stop if it
 * read; so aqrun reads instead.
 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * While aqrun itself is in the background, reading from the terminal fails with EIO, and no event
 * reports its return to the foreground: poll at this interval.
 */
#define INPUT_RETRY_NS 500000000u

/* Maximum bytes in flight to another host, or queued there for rank 0. */
#define INPUT_WINDOW 131072u

static struct {
    struct aqi_source terminal; /* a terminal, or anything if rank 0 is on another host */
    struct aqi_source pipe;
    int rank_end;
    bool remote;       /* rank 0 is on another host */
    bool file;         /* always ready; epoll does not support it */
    bool ended;        /* no more data follows the data queued for the pipe */
    uint64_t retry_ns; /* when to retry; 0: not waiting for the foreground */
    struct bytes waiting;
} input = {.terminal.fd = -1, .pipe.fd = -1};

void input_close(void)
{
    aqi_source_watch(&input.terminal, 0);
    input.terminal.fd = -1; /* descriptor 0 stays open */
    aqi_source_close(&input.pipe);
    input.retry_ns = 0;
}

static void input_pipe_ready(struct aqi_source *source)
{
    struct bytes *waiting = &input.waiting;
    ssize_t written = write(source->fd, waiting->at, waiting->used);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (job.agent != 0) aqi_hub_consumed(job.hub, written > 0 ? (size_t)written : waiting->used);
    if (written < 0) { /* rank 0 no longer reads */
        waiting->used = 0;
        input_close();
        return;
    }
    bytes_drop(waiting, (size_t)written);
    if (waiting->used != 0) return;
    aqi_source_watch(&input.pipe, 0);
    if (input.ended) input_close();
    aqi_source_watch(&input.terminal, EPOLLIN);
}

/* Read available data once, and forward it. */
static void input_read(int fd)
{
    char bytes[4096];
    ssize_t got = read(fd, bytes, sizeof(bytes));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0 && errno == EIO && tcgetpgrp(fd) != getpgrp()) {
        aqi_source_watch(&input.terminal, 0);
        input.retry_ns = 1; /* at the next tick */
        return;
    }
    if (input.remote) aqi_hub_input(job.hub, bytes, got > 0 ? (size_t)got : 0);
    if (got <= 0) {
        input_close();
        return;
    }
    if (input.remote) return;
    bytes_append(&input.waiting, bytes, (size_t)got, "standard input");
    aqi_source_watch(&input.terminal, 0);
    aqi_source_watch(&input.pipe, EPOLLOUT);
}

static void input_terminal_ready(struct aqi_source *source)
{
    input_read(source->fd);
    if (input.remote && aqi_hub_input_waiting(job.hub) >= INPUT_WINDOW) aqi_source_watch(source, 0);
}

static void input_make_pipe(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("cannot create a pipe for the input of rank 0: %s", strerror(errno));
    input.rank_end = ends[0];
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    aqi_source_open(&input.pipe, ends[1], input_pipe_ready);
}

int input_open(void)
{
    if (job.agent == 0 && isatty(STDIN_FILENO) == 0) return STDIN_FILENO;
    input_make_pipe();
    if (job.agent != 0) return input.rank_end;
    aqi_source_open(&input.terminal, STDIN_FILENO, input_terminal_ready);
    aqi_source_watch(&input.terminal, EPOLLIN);
    return input.rank_end;
}

void input_open_remote(void)
{
    input.remote = true;
    aqi_source_open(&input.terminal, STDIN_FILENO, input_terminal_ready);
    input.file = aqi_source_try_watch(&input.terminal, EPOLLIN) != 0;
}

void input_arrived(void *arg, const void *bytes, size_t len)
{
    (void)arg;
    if (len == 0) {
        input.ended = true;
        if (input.waiting.used == 0) input_close();
        return;
    }
    bytes_append(&input.waiting, bytes, len, "standard input");
    /* without a reader, the next tick consumes it */
    aqi_source_watch(&input.pipe, EPOLLOUT);
}

void input_handed_over(void)
{
    if (input.rank_end > 0) close(input.rank_end);
    input.rank_end = 0;
}

/* Read input for rank 0 on another host, as long as the data in flight is below the limit. */
static uint64_t input_tick_remote(void)
{
    if (input.terminal.fd < 0 || aqi_hub_input_waiting(job.hub) >= INPUT_WINDOW) return UINT64_MAX;
    if (!input.file) {
        aqi_source_watch(&input.terminal, EPOLLIN);
        return UINT64_MAX;
    }
    input_read(input.terminal.fd);
    return 0;
}

uint64_t input_tick(uint64_t now)
{
    if (input.pipe.fd < 0 && input.waiting.used != 0) {
        aqi_hub_consumed(job.hub, input.waiting.used);
        input.waiting.used = 0;
    }
    if (input.retry_ns == 0) return input.remote ? input_tick_remote() : UINT64_MAX;
    if (now < input.retry_ns) return input.retry_ns;
    if (tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        input.retry_ns = 0;
        aqi_source_watch(&input.terminal, EPOLLIN);
        return UINT64_MAX;
    }
    input.retry_ns = now + INPUT_RETRY_NS;
    return input.retry_ns;
}
