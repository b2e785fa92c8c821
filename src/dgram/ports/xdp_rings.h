/* An AF_XDP socket: memory shared with the kernel, and the four rings that pass its frames. */
#ifndef PORTS_XDP_RINGS_H
#define PORTS_XDP_RINGS_H

#include "base/base.h"

enum {
    PORTS_XDP_FRAME = 2048,   /* bytes */
    PORTS_XDP_RECEIVE = 1024, /* frames to receive into, */
    PORTS_XDP_SEND = 256,     /* and to send from */
    PORTS_XDP_UNBOUND = 0     /* no interface: the socket is not bound */
};

struct ports_xdp_ring {
    _Atomic uint32_t *producer, *consumer;
    void *entries;
    uint32_t mask;
    uint32_t at; /* our position in it */
    void *map;
    size_t map_len;
};

struct ports_xdp_rings {
    int fd;
    unsigned char *memory;
    size_t memory_len;
    struct ports_xdp_ring fill, completion, receive, send;
    uint32_t frames[PORTS_XDP_SEND]; /* free to send from */
    unsigned free;
};

/*
 * Open it on a queue of an interface. `shift`: headroom in frames, for alignment of their contents.
 *
 * @return AQ_AGAIN    Another process has the queue.
 * @return AQ_ERANGE   There is no such queue.
 * @return AQ_EACCESS, AQ_ELIMIT, AQ_ENOMEM, AQ_ENOTSUP, AQ_ESYS
 */
aq_status ports_xdp_open(struct ports_xdp_rings *rings, const char *name, uint32_t interface,
                         uint32_t queue, uint32_t shift);
void ports_xdp_close(struct ports_xdp_rings *rings);

/* The next frame that has arrived, or NULL; ports_xdp_release returns it to the kernel. */
unsigned char *ports_xdp_next(struct ports_xdp_rings *rings, size_t *len, uint64_t *frame);
void ports_xdp_release(struct ports_xdp_rings *rings, uint64_t frame);

/* Get a frame to write to, or NULL; send `len` bytes in it. */
unsigned char *ports_xdp_reserve(struct ports_xdp_rings *rings);
void ports_xdp_submit(struct ports_xdp_rings *rings, unsigned char *frame, uint32_t len);

/* Make the kernel send submitted frames. Returns 0 or an errno. */
int ports_xdp_kick(struct ports_xdp_rings *rings);

/* The number of frames that the kernel has not taken yet. */
unsigned ports_xdp_waiting(const struct ports_xdp_rings *rings);

/* Packets that found no frame, or were refused. */
uint64_t ports_xdp_drops(const struct ports_xdp_rings *rings);

#endif
