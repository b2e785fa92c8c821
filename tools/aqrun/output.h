/*
 * Standard output and error of aqrun, written without ever blocking the launcher, and the relayed
 * output of ranks.
 */
#ifndef AQRUN_OUTPUT_H
#define AQRUN_OUTPUT_H

#include "job/loop.h"

/* How to write without blocking depends on the kind of descriptor. */
enum output_way {
    OUTPUT_OWN,    /* opened again for us, non-blocking */
    OUTPUT_SOCKET, /* MSG_DONTWAIT */
    OUTPUT_POLLED, /* shared with others, which may not expect O_NONBLOCK: poll before each write */
    OUTPUT_FILE,   /* never blocks for a reader */
    OUTPUT_HUB     /* goes to the root */
};

struct bytes {
    char *at;
    size_t used;
    size_t room;    /* from `at` on */
    size_t dropped; /* before `at` */
};

struct output {
    struct aqi_source source;
    const char *name;
    enum output_way way;
    bool closed;          /* the reader is gone */
    bool full;            /* relays wait until data has been written */
    unsigned stream;      /* HUB */
    struct bytes waiting; /* not yet written */
};

/* Append; ends aqrun, with a message that names `what`, if out of memory. */
void bytes_append(struct bytes *bytes, const void *from, size_t len, const char *what);
/* Discard the first bytes. */
void bytes_drop(struct bytes *bytes, size_t len);

void output_open(struct output *output, int fd, const char *name);
/* Output to standard output (0) or error (1) of the aqrun started by the user. */
void output_open_far(struct output *output, unsigned stream, const char *name);

/* Append; the next flush writes as much as there is room for, and later ones the rest. */
void output_append(struct output *output, const void *bytes, size_t len);
void output_flush(struct output *output);

/* It no longer has a reader. */
void output_close_far(struct output *output);
/* Check for room, for outputs without a pollable descriptor. */
void output_tick(struct output *output);

/* Whether nothing is left to write. */
bool output_empty(const struct output *output);

/* The output of a rank, relayed line by line; with --prefix, preceded by the rank's number. */
struct relay {
    struct aqi_source source; /* closed: the rank's side has ended, or there never was one */
    struct output *to; /* NULL: to a file of the root, unchanged, stream 0 or 1 of the rank */
    uint32_t rank;
    unsigned stream;
    bool paused;
    struct bytes line; /* an incomplete line */
};

/* Make a pipe; returns its write end for the rank. The caller closes that after the fork. */
int relay_open(struct relay *relay, uint32_t rank, unsigned stream, struct output *to);

/* Read the available data and then end, although the write end may still be open. */
void relay_finish(struct relay *relay);

/* All relays to `to`: its reader is gone; or there is room again. */
void relay_shut(const struct output *to);
void relay_resume(const struct output *to);
/* Relays to files: the hub may have room again. */
void relay_tick(void);

#endif
