/* For programs that speak the connection protocol themselves, over their own sockets. */
#include "raw.h"

#include "harness.h"

#include <string.h>

const uint32_t raw_address[5] = {0x326d6873, 1, 64, 262144, 65536};

socklen_t raw_name(struct sockaddr_un *name)
{
    static const char prefix[] = "aqueduct";
    const char *path = play->uri + strlen("shm://");
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(name->sun_path + 1, prefix, sizeof(prefix) - 1);
    memcpy(name->sun_path + sizeof(prefix), path, strlen(path));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(prefix) + strlen(path));
}

void raw_send(int socket, const struct sockaddr_un *to, socklen_t to_len, const void *data,
              size_t len, const int *fds, unsigned nfds)
{
    union {
        struct cmsghdr header;
        unsigned char bytes[CMSG_SPACE(32 * sizeof(int))];
    } control;
    struct iovec part = {(void *)(uintptr_t)data, len};
    struct msghdr message = {.msg_name = (void *)(uintptr_t)to,
                             .msg_namelen = to_len,
                             .msg_iov = &part,
                             .msg_iovlen = 1};
    memset(&control, 0, sizeof(control));
    if (nfds > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, nfds * sizeof(int));
    }
    CHECK(sendmsg(socket, &message, 0) == (ssize_t)len);
}
