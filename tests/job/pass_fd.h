/* For tests: pass a descriptor, with some bytes, over a Unix socket. */
#ifndef PASS_FD_H
#define PASS_FD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

union pass_fd_control {
    struct cmsghdr header;
    unsigned char bytes[CMSG_SPACE(sizeof(int))];
};

static inline bool pass_fd(int socket, const void *data, size_t len, int fd)
{
    union pass_fd_control control;
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    memset(&control, 0, sizeof(control));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)len;
}

/* Blocks until the descriptor arrives. */
static inline bool take_fd(int socket, void *data, size_t len, int *fd)
{
    union pass_fd_control control;
    struct iovec part = {.iov_base = data, .iov_len = len};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != (ssize_t)len) return false;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head == NULL || head->cmsg_type != SCM_RIGHTS) return false;
    memcpy(fd, CMSG_DATA(head), sizeof(*fd));
    return true;
}

#endif
