/* Descriptors that go beside the bytes of a message on a Unix socket. */
#ifndef AQI_DESCRIPTORS_H
#define AQI_DESCRIPTORS_H

#include "base/base.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Put `n` of them beside a message; `room`, aligned as a header, has space for them. */
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

/* Send a message without waiting; an errno, or 0. */
static inline int aqi_descriptors_send(int socket, const struct msghdr *message)
{
    ssize_t sent;
    do
        sent = sendmsg(socket, message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

/* Receive a message without waiting, as recvmsg. That the other side has closed while something
 * from us was unread the kernel says first, once, and then what it had still sent. */
static inline ssize_t aqi_descriptors_receive(int socket, struct msghdr *message)
{
    ssize_t received;
    do
        received = recvmsg(socket, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (received < 0 && (errno == EINTR || errno == ECONNRESET));
    return received;
}

/* Take them from a part of a received message that holds some; `*n` of `most` are there already,
 * and what finds no room, or is `unwanted`, is closed. How many there were. */
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
