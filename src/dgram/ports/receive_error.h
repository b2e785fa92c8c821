/* The reaction to each error of recvmsg. */
#ifndef PORTS_RECEIVE_ERROR_H
#define PORTS_RECEIVE_ERROR_H

#include "base/base.h"

enum ports_receive_verdict {
    PORTS_NOTHING,  /* nothing to read now: the next poll tries again */
    PORTS_REREAD,   /* the call was interrupted: make it again */
    PORTS_REPORTED, /* the network's answer to a packet sent earlier; packets may follow it, and
                     * details may be in the error queue */
    PORTS_DEAF,     /* nothing will be received here: reported to users */
    PORTS_GONE      /* likewise, and that cannot change */
};

struct ports_receive_error {
    int error; /* 0: the row of all errors that have none */
    enum ports_receive_verdict verdict;
    const char *reason;
};

/* The row of an error; never NULL. */
const struct ports_receive_error *ports_receive_error(int error);

#endif
