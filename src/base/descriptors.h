/* File descriptors passed with a message on a Unix socket. */
#ifndef AQI_DESCRIPTORS_H
#define AQI_DESCRIPTORS_H

#include "base/base.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Attach `n` descriptors; `room`, aligned like struct cmsghdr, is the control buffer. */
static inline void aqi_descriptors_add(struct msghdr *message, void *room, const int *fds,
                                       unsigned n)
{
    if (n == 0) return;
    memset(room, 0, CMSG_SPACE(n * sizeof(int)));
    message->msg_control = room;
    message->msg_controllen = CMSG_SPACE(n * sizeof(int));
    struct cmsghdr *beside = CMSG_FIRSTHDR(message);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(beside), fds, n * sizeof(int));
}

/* Send a message without blocking; returns 0 or an errno. */
static inline int aqi_descriptors_send(int socket, const struct msghdr *message)
{
    ssize_t sent;
    do
        sent = sendmsg(socket, message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

/*
 * Receive a message without blocking, like recvmsg. If the peer closes its end with data unread,
 * the kernel reports ECONNRESET once, before the data that the peer has sent.
 */
static inline ssize_t aqi_descriptors_receive(int socket, struct msghdr *message)
{
    ssize_t received;
    do
        received = recvmsg(socket, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (received < 0 && (errno == EINTR || errno == ECONNRESET));
    return received;
}

/*
 * Take the descriptors from one control message. `fds` has room for `most` and holds `*n`;
 * descriptors that do not fit, or are `unwanted`, are closed. Returns the number in the message.
 */
static inline unsigned aqi_descriptors_take(const struct cmsghdr *beside, bool unwanted, int *fds,
                                            unsigned *n, unsigned most)
{
    unsigned count = (unsigned)((beside->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(beside) + i * sizeof(int), sizeof(fd));
        if (!unwanted && *n < most)
            fds[(*n)++] = fd;
        else
            close(fd);
    }
    return count;
}

#endif
