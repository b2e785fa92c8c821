/*
 * Standard input for rank 0. A rank is a process group of its own, in the background as the
 * terminal sees it, so the terminal would stop it for reading: aqrun reads in its place.
 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* When aqrun itself is in the background the terminal answers EIO; nothing tells when that ends. */
#define INPUT_RETRY_NS 500000000u

static struct {
    struct source terminal;
    struct source pipe;
    int rank_end;
    uint64_t retry_ns; /* 0: not waiting for the foreground */
    char bytes[4096];
    size_t used;
} input = {.terminal.fd = -1, .pipe.fd = -1};

void input_close(void)
{
    source_watch(&input.terminal, 0);
    input.terminal.fd = -1; /* descriptor 0 stays what it is */
    source_close(&input.pipe);
    input.retry_ns = 0;
}

static void input_pipe_ready(struct source *source)
{
    ssize_t written = write(source->fd, input.bytes, input.used);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (written < 0) { /* rank 0 does not read any more */
        input_close();
        return;
    }
    input.used -= (size_t)written;
    memmove(input.bytes, input.bytes + written, input.used);
    if (input.used != 0) return;
    source_watch(&input.pipe, 0);
    source_watch(&input.terminal, EPOLLIN);
}

static void input_terminal_ready(struct source *source)
{
    ssize_t got = read(source->fd, input.bytes, sizeof(input.bytes));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0 && errno == EIO && tcgetpgrp(source->fd) != getpgrp()) {
        source_watch(source, 0);
        input.retry_ns = job.began_ns; /* from the next tick on */
        return;
    }
    if (got <= 0) {
        input_close();
        return;
    }
    input.used = (size_t)got;
    source_watch(source, 0);
    source_watch(&input.pipe, EPOLLOUT);
}

int input_open(void)
{
    if (isatty(STDIN_FILENO) == 0) return STDIN_FILENO;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) die("pipe for the input of rank 0: %s", strerror(errno));
    input.rank_end = ends[0];
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    source_open(&input.pipe, ends[1], input_pipe_ready);
    source_open(&input.terminal, STDIN_FILENO, input_terminal_ready);
    source_watch(&input.terminal, EPOLLIN);
    return input.rank_end;
}

void input_handed_over(void)
{
    if (input.rank_end > 0) close(input.rank_end);
    input.rank_end = 0;
}

uint64_t input_tick(uint64_t now)
{
    if (input.retry_ns == 0) return UINT64_MAX;
    if (now < input.retry_ns) return input.retry_ns;
    if (tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        input.retry_ns = 0;
        source_watch(&input.terminal, EPOLLIN);
        return UINT64_MAX;
    }
    input.retry_ns = now + INPUT_RETRY_NS;
    return input.retry_ns;
}
