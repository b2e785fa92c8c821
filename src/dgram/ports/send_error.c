/* The reaction to each error of sendmsg, and of sendto where it starts an AF_XDP ring: one table,
 * with the reasons. */
#include "dgram/ports/send_error.h"

#include <errno.h>

#define ROUTE "see \"ip route get\" for the address"

/* Any error counts as a loss, unless it is certain to be temporary. So an error that persists, for
 * all packets or for large ones, is handled like losses: other sizes are tried, backoff grows, and
 * the user is warned. */
static const struct ports_send_error rows[] = {
    {.error = EINTR,
     .final = true,
     .verdict = PORTS_REPEAT,
     .stays = true,
     .reason = "a signal arrived before anything was sent"},
    {.error = EAGAIN,
     .final = true,
     .verdict = PORTS_NO_ROOM,
     .stays = true,
     .reason = "the socket's buffer is full; it empties as the interface sends"},
    {.error = ENOMEM,
     .final = true,
     .verdict = PORTS_NO_ROOM,
     .stays = true,
     .reason = "the kernel is short of memory"},
    /* The queue may be full, but there are other causes: one end of a veth pair reports the same
     * for each packet that is larger than the other end's MTU, and an AF_XDP ring for lack of
     * memory. */
    {.error = ENOBUFS,
     .final = true,
     .silent = true,
     .stays = true,
     .reason =
         "the interface has dropped it: its queue is full, or it accepts no packets of that size"},
    {.error = EFAULT,
     .final = true,
     .verdict = PORTS_UNREADABLE,
     .silent = true,
     .reason = "the program's memory, or a part of it, cannot be read"},
    {.error = EMSGSIZE,
     .reason = "it is larger than the MTU of the interface that leads there",
     .advice = "the interface's MTU has been lowered"},
    {.error = EINVAL,
     .uncut = true,
     .reason = "the route is a black hole, or the kernel does not split bursts into such packets",
     .advice = ROUTE},
    {.error = EIO, .uncut = true, .reason = "the kernel does not split bursts without checksums"},
    {.error = ENOPROTOOPT,
     .uncut = true,
     .reason =
         "an older kernel does not split bursts; for a single packet: the peer's host has no UDP"},
    {.error = EOPNOTSUPP,
     .uncut = true,
     .reason =
         "the kernel does not split bursts; for a single packet: a router considers it malformed"},
    {.error = EPERM,
     .reason = "a rule of this host's firewall drops it",
     .advice = "a firewall of this host forbids it"},
    {.error = EACCES, .reason = "a route or a policy of this host prohibits it", .advice = ROUTE},
    {.error = ECONNREFUSED,
     .silent = true, /* the job reports that a process has ended */
     .reason = "the peer's port is closed"},
    {.error = ENETUNREACH,
     .reason = "there is no route, or the interface is down; there may be one again",
     .advice = ROUTE},
    {.error = EHOSTUNREACH,
     .reason = "the peer's host does not answer, or a router says so; it may come back",
     .advice = ROUTE},
    {.error = EHOSTDOWN,
     .reason = "a router says that the peer's host is down; it may come back",
     .advice = ROUTE},
    {.error = ENONET, .reason = "a router says that this host is cut off", .advice = ROUTE},
    {.error = EPROTO, .reason = "a router considers a header malformed", .advice = ROUTE},
    {.error = ENETDOWN,
     .stays = true,
     .reason = "the interface is down; it may come up again",
     .advice = ROUTE},
    {.error = ENODEV, .reason = "the interface has been removed", .advice = ROUTE},
    {.error = ENXIO, .reason = "the interface of an AF_XDP ring has been removed", .advice = ROUTE},
    {.error = EBUSY,
     .stays = true,
     .reason = "the interface has dropped a packet of an AF_XDP ring; others may follow",
     .advice = ROUTE},
    {.error = EADDRNOTAVAIL,
     .reason = "the address from which this process sends has been removed from the interface",
     .advice = ROUTE},
    {.error = EAFNOSUPPORT,
     .reason = "the peer's address is of the other address family",
     .advice = "all processes need addresses of one family, IPv4 or IPv6: choose them with "
               "AQ_UDP_INTERFACE"},
    {.error = EDESTADDRREQ,
     .reason = "the socket has lost its peer, as happens when the host's addresses change",
     .advice = ROUTE},
    {.error = ENOTCONN,
     .reason = "the socket has lost its peer, as happens when the host's addresses change",
     .advice = ROUTE},
    {.error = EPIPE,
     .reason = "something other than the library, perhaps the program, has shut the socket down",
     .advice = "the program must not close descriptors that it did not open"},
    {.error = EBADF,
     .final = true,
     .reason = "the program has closed the library's descriptor",
     .advice = "the program must not close descriptors that it did not open"},
    {.error = ENOTSOCK,
     .final = true,
     .reason = "the program has closed the library's descriptor and opened another in its place",
     .advice = "the program must not close descriptors that it did not open"},
    {.error = 0,
     .reason =
         "sendmsg does not document this error; security modules and filters choose their own",
     .advice = ROUTE},
};

const struct ports_send_error *ports_send_error(int error)
{
    const struct ports_send_error *row = rows;
    while (row->error != 0 && row->error != error)
        row++;
    return row;
}
