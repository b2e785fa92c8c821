/* Changes of network interfaces and their addresses, as the kernel announces them (rtnetlink). */
#ifndef PORTS_CHANGES_H
#define PORTS_CHANGES_H

#include "base/inet.h"

struct ports_change {
    uint32_t index;        /* of the interface */
    union aqi_sockaddr at; /* the address that came or went; AF_UNSPEC: none did */
};

enum ports_changes_next {
    PORTS_CHANGES_ONE,
    PORTS_CHANGES_OVER,
    PORTS_CHANGES_BAD /* what follows cannot be understood */
};

/* The next change in a datagram, from `*at` on, which moves on; other messages are skipped. */
enum ports_changes_next ports_changes_next(const unsigned char *bytes, size_t len, size_t *at,
                                           struct ports_change *change);

/* A socket at which changes are announced; -1: errno says why. */
int ports_changes_open(void);

/*
 * Read what has come, a bounded amount; `concerns` is asked for each change. Returns whether to
 * look at the interfaces: one did, or some were lost or not understood.
 */
bool ports_changes_read(int fd, bool (*concerns)(void *arg, const struct ports_change *change),
                        void *arg);

#endif
