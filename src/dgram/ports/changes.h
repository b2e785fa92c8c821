/* Changes of network interfaces and their addresses, as the kernel announces them (rtnetlink). */
#ifndef PORTS_CHANGES_H
#define PORTS_CHANGES_H

#include "base/inet.h"

struct ports_change {
    uint32_t index;        /* of the interface */
    union aqi_sockaddr at; /* the address that was added or removed; AF_UNSPEC: none */
};

enum ports_changes_next {
    PORTS_CHANGES_ONE,
    PORTS_CHANGES_OVER,
    PORTS_CHANGES_BAD /* the rest is malformed */
};

/* Get the next change in a datagram, from `*at` on, and advance `*at`; skips other messages. */
enum ports_changes_next ports_changes_next(const unsigned char *bytes, size_t len, size_t *at,
                                           struct ports_change *change);

/* Open a socket to which changes are announced; returns -1 with errno set on failure. */
int ports_changes_open(void);

/*
 * Read announcements, a bounded number, and call `concerns` for each change. Returns whether the
 * interfaces must be read again: it returned true, or announcements were lost or malformed.
 */
bool ports_changes_read(int fd, bool (*concerns)(void *arg, const struct ports_change *change),
                        void *arg);

#endif
