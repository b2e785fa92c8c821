/* Control messages over a Unix packet socket, one descriptor at most beside each; never blocks. */
#ifndef AQI_CHANNEL_H
#define AQI_CHANNEL_H

#include "job/control.h"

/* Is this descriptor such a socket? */
bool aqi_channel_is_one(int fd);

/*
 * Send one message, with `pass` beside it unless that is -1. Async-signal-safe; logs nothing.
 *
 * @return AQ_AGAIN  The socket is full.
 * @return AQ_EPEER  The other side has closed it.
 * @return AQ_ESYS   Anything else; errno says what.
 */
aq_status aqi_channel_send(int socket, const struct aqi_control *message, int pass);

/*
 * Receive one packet of at most `*len` bytes as it is. A descriptor beside it goes, close-on-exec,
 * to `*passed`, else that is -1. Logs nothing.
 *
 * @return AQ_AGAIN   Nothing is there.
 * @return AQ_EPEER   The other side has closed it.
 * @return AQ_EPROTO  A packet too long, or with more than one descriptor; it was dropped.
 * @return AQ_ELIMIT  A descriptor beside it could not be received: too many are open; dropped.
 * @return AQ_ESYS    Anything else; errno says what.
 */
aq_status aqi_channel_receive(int socket, void *buf, size_t *len, int *passed);

#endif
