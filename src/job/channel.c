/* sendmsg and recvmsg for control messages. */
#include "job/channel.h"

#include "base/descriptors.h"

#include <poll.h>

union channel_control {
    char bytes[CMSG_SPACE(2 * sizeof(int))]; /* room for one more than allowed, to detect it */
    struct cmsghdr align;
};

static aq_status channel_status(int err)
{
    switch (err) {
    case EAGAIN:
    case ENOBUFS:
        return AQ_AGAIN;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
        return AQ_EPEER;
    default:
        return AQ_ESYS;
    }
}

bool aqi_channel_is_one(int fd)
{
    int domain = 0, type = 0;
    socklen_t len = sizeof(domain);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

bool aqi_channel_peer(int fd, struct ucred *cred)
{
    socklen_t len = sizeof(*cred);
    return aqi_channel_is_one(fd) && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &len) == 0;
}

aq_status aqi_channel_send(int socket, const struct aqi_control *message, int pass)
{
    uint8_t head[AQI_CONTROL_HEAD];
    size_t len = aqi_control_encode(message, head);
    if (len == 0) {
        errno = EMSGSIZE;
        return AQ_ESYS;
    }
    struct iovec parts[] = {
        {.iov_base = head, .iov_len = len},
        {.iov_base = (void *)(uintptr_t)message->data, .iov_len = message->len}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = AQI_COUNT_OF(parts)};
    union channel_control control;
    aqi_descriptors_add(&header, &control, &pass, pass >= 0);
    int error = aqi_descriptors_send(socket, &header);
    return error != 0 ? channel_status(error) : AQ_OK;
}

/* Extract the descriptors of a message, the first one into `*passed`; returns their number. */
static unsigned channel_descriptors(struct msghdr *header, int *passed)
{
    unsigned count = 0, taken = 0;
    for (struct cmsghdr *beside = CMSG_FIRSTHDR(header); beside != NULL;
         beside = CMSG_NXTHDR(header, beside))
        if (beside->cmsg_level == SOL_SOCKET && beside->cmsg_type == SCM_RIGHTS)
            count += aqi_descriptors_take(beside, false, passed, &taken, 1);
    return count;
}

/* Whether receiving 0 bytes means end of file, not an empty packet. */
static bool channel_closed(int socket)
{
    struct pollfd state = {.fd = socket, .events = POLLRDHUP};
    return poll(&state, 1, 0) > 0;
}

aq_status aqi_channel_receive(int socket, void *buf, size_t *len, int *passed)
{
    struct iovec part = {.iov_base = buf, .iov_len = *len};
    union channel_control control;
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t received = aqi_descriptors_receive(socket, &header);
    if (received < 0) return channel_status(errno);
    int fd = -1;
    unsigned count = channel_descriptors(&header, &fd);
    bool cut = (header.msg_flags & MSG_CTRUNC) != 0;
    if (cut || count > 1 || (header.msg_flags & MSG_TRUNC) != 0) {
        if (fd >= 0) close(fd);
        return cut && count == 0 ? AQ_ELIMIT : AQ_EPROTO;
    }
    if (received == 0 && channel_closed(socket)) {
        if (fd >= 0) close(fd);
        return AQ_EPEER;
    }
    *len = (size_t)received;
    *passed = fd;
    return AQ_OK;
}
