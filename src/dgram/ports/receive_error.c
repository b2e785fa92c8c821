/* The reaction to each error of recvmsg: one table, with the reasons. */
#include "dgram/ports/receive_error.h"

#include <errno.h>

#define NOT_ITS_OWN "the program must not close descriptors that it did not open"

/* The kernel reports a network error once and clears it. Other errors persist: a loop until the
 * call succeeds would never end. */
static const struct ports_receive_error rows[] = {
    {EAGAIN, PORTS_NOTHING, "no packet has arrived"},
    {ENOMEM, PORTS_NOTHING, "the kernel is short of memory; the packet stays in the queue"},
    {ENOBUFS, PORTS_NOTHING, "the kernel is short of memory; the packet stays in the queue"},
    {EINTR, PORTS_REREAD, "a signal arrived before anything was read"},
    {ECONNREFUSED, PORTS_REPORTED, "a peer's port is closed"},
    {EMSGSIZE, PORTS_REPORTED, "a packet was larger than the MTU of its path"},
    {ENETUNREACH, PORTS_REPORTED, "a router has no route to a peer's network"},
    {EHOSTUNREACH, PORTS_REPORTED, "a peer's host does not answer, or a router says so"},
    {EHOSTDOWN, PORTS_REPORTED, "a router says that a peer's host is down"},
    {ENONET, PORTS_REPORTED, "a router says that this host is cut off"},
    {ENOPROTOOPT, PORTS_REPORTED, "a peer's host has no UDP"},
    {EOPNOTSUPP, PORTS_REPORTED, "a router could not follow the source route in a packet"},
    {EPROTO, PORTS_REPORTED, "a router considers a header malformed"},
    {EACCES, PORTS_REPORTED, "a router prohibits it"},
    {ENETDOWN, PORTS_REPORTED, "the interface went down; it may come up again"},
    {EBADF, PORTS_GONE, NOT_ITS_OWN},
    {ENOTSOCK, PORTS_GONE, NOT_ITS_OWN},
    {0, PORTS_DEAF, "a security module or a system call filter may forbid it"},
};

const struct ports_receive_error *ports_receive_error(int error)
{
    const struct ports_receive_error *row = rows;
    while (row->error != 0 && row->error != error)
        row++;
    return row;
}
