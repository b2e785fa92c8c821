/* Control messages over a Unix packet socket, each with at most one descriptor; never blocks. */
#ifndef AQI_CHANNEL_H
#define AQI_CHANNEL_H

#include "job/control.h"

#include <sys/socket.h>

/* Whether this descriptor is such a socket. */
bool aqi_channel_is_one(int fd);
/* The same, and the process that created the other end, according to the kernel. */
bool aqi_channel_peer(int fd, struct ucred *cred);

/*
 * Send one message, with the descriptor `pass` unless that is -1. Async-signal-safe; logs nothing.
 *
 * @return AQ_AGAIN  The socket is full.
 * @return AQ_EPEER  The other side has closed it.
 * @return AQ_ESYS   Anything else; see errno.
 */
aq_status aqi_channel_send(int socket, const struct aqi_control *message, int pass);

/*
 * Receive one whole packet of at most `*len` bytes. `*passed` is set to the descriptor sent with
 * it, close-on-exec, or to -1. Logs nothing.
 *
 * @return AQ_AGAIN   There is no packet.
 * @return AQ_EPEER   The other side has closed the socket.
 * @return AQ_EPROTO  The packet is too long or has more than one descriptor; it was dropped.
 * @return AQ_ELIMIT  A descriptor could not be received because too many are open; the packet was
 *                    dropped.
 * @return AQ_ESYS    Anything else; see errno.
 */
aq_status aqi_channel_receive(int socket, void *buf, size_t *len, int *passed);

#endif
