/*
 * Standard output and error of aqrun, written without blocking the launcher, and the relayed
 * output of ranks.
 */
#ifndef AQRUN_OUTPUT_H
#define AQRUN_OUTPUT_H

#include "job/loop.h"

/* How to write without blocking, depending on the kind of descriptor. */
enum output_method {
    OUTPUT_OWN,    /* reopened as non-blocking */
    OUTPUT_SOCKET, /* MSG_DONTWAIT */
    OUTPUT_POLLED, /* shared, and others may not expect O_NONBLOCK: poll before each write */
    OUTPUT_FILE,   /* never blocks */
    OUTPUT_HUB     /* forwarded to the root */
};

struct bytes {
    char *at;
    size_t used;
    size_t room;    /* available at `at` */
    size_t dropped; /* bytes before `at` */
};

struct output {
    struct aqi_source source;
    const char *name;
    enum output_method method;
    bool closed;          /* there is no longer a reader */
    bool full;            /* relays wait until enough has been written */
    unsigned stream;      /* OUTPUT_HUB */
    struct bytes waiting; /* not yet written */
};

/* If out of memory, exits with a message that names `what`. */
void bytes_append(struct bytes *bytes, const void *from, size_t len, const char *what);
/* Discard the first bytes. */
void bytes_drop(struct bytes *bytes, size_t len);

void output_open(struct output *output, int fd, const char *name);
/* Forward to the root: stream 0 for its standard output, 1 for its standard error. */
void output_open_forwarded(struct output *output, unsigned stream);

/* Append. The next flush writes as much as there is room for, later ones the rest. */
void output_append(struct output *output, const void *bytes, size_t len);
void output_flush(struct output *output);

/* The output no longer has a reader: discard what has not been written, and notify writers. */
void output_discard(struct output *output);
/* Write as much as there is room for, and resume relays that wait for room. */
void output_tick(struct output *output);

/* Whether nothing is left to write. */
bool output_empty(const struct output *output);

/* The output of a rank, relayed line by line; with --prefix, preceded by the rank's number. */
struct relay {
    struct aqi_source source; /* closed: the rank has closed its end, or there never was one */
    struct output *to; /* NULL: to a file of the root, unmodified, as stream 0 or 1 of the rank */
    uint32_t rank;
    unsigned stream;
    bool paused;
    struct bytes line; /* an incomplete line */
};

/* Create a pipe; returns its write end, for the rank. The caller closes that after the fork. */
int relay_open(struct relay *relay, uint32_t rank, unsigned stream, struct output *to);

/* Read the available data and end, even if the write end is still open. */
void relay_finish(struct relay *relay);

/* The reader of `to` is gone, or there is room again: notify all relays to it. */
void relay_shut(const struct output *to);
void relay_resume(const struct output *to);
/* Resume relays to files, as the hub may have room again. */
void relay_tick(void);

#endif
