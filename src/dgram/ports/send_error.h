/* The reaction to each error of sendmsg, and of sendto where it starts an AF_XDP ring. */
#ifndef PORTS_SEND_ERROR_H
#define PORTS_SEND_ERROR_H

#include "base/base.h"

enum ports_verdict {
    PORTS_LOST,       /* treated as lost on the way: the engine detects that and retransmits it */
    PORTS_REPEAT,     /* the call was interrupted: make it again */
    PORTS_NO_ROOM,    /* nothing was sent, and there will be room: the engine tries again */
    PORTS_UNREADABLE, /* likewise, because the program's memory cannot be read */
    PORTS_VERDICTS
};

struct ports_send_error {
    int error; /* 0: the row of all errors that have none */
    enum ports_verdict verdict;
    bool final;  /* otherwise it may be the network's answer to an earlier packet: repeat the call
                  * once */
    bool uncut;  /* for a burst: the kernel may only be unable to split it into packets */
    bool silent; /* not reported to users */
    bool stays;  /* for an AF_XDP ring: packets in it may still leave; otherwise they never will */
    const char *reason;
    const char *advice; /* NULL: none */
};

/* The row of an error; never NULL. */
const struct ports_send_error *ports_send_error(int error);

#endif
