/*
 * shm: the rendezvous with processes that were not started together with this one. A listener is a
 * Unix datagram socket with a name derived from its URI (shm_name.c). A call is one datagram that
 * carries one end of a socket pair, the control channel. The outcome of a call is always reported
 * there: an answer, or an end of file if the call was dropped or the listener ended with the
 * datagram unread. So nothing is sent twice, and there are no duplicates to detect.
 */
#include "base/descriptors.h"
#include "base/fail.h"
#include "base/list.h"
#include "base/log.h"
#include "base/shmem.h"
#include "base/stats.h"
#include "base/unforked.h"
#include "transport/shm/shm_impl.h"
#include "transport/shm/shm_name.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

static const char default_uri[] = "shm:///aqueduct/";

/* Maximum number of events taken from the descriptors per progress call. */
enum { BATCH = 64 };

/* The common head of listeners and channels, which epoll returns. */
struct end {
    bool listener;
    int fd;
};

struct aqi_listener {
    struct end end;
    struct aqi_node link;
    struct shm_name name;
    void *user;
};

struct aqi_control_channel {
    struct end end;
    struct aqi_node link;
    struct aqi_rendezvous *rendezvous;
    void *user;
    bool over; /* the peer closed it: no longer watched */
};

struct aqi_rendezvous {
    struct aqi_rendezvous_hooks hooks;
    int epoll, out;
    struct aqi_node listeners, channels;
    unsigned char buffer[AQI_HANDSHAKE_MAX];
};

/* --- sockets --------------------------------------------------------------------------------- */

/* Have the kernel identify the writer of each message received by this socket. */
static int shm_rendezvous_want_writers(int fd)
{
    int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

static int shm_rendezvous_watch(struct aqi_rendezvous *rendezvous, struct end *end)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = end};
    return epoll_ctl(rendezvous->epoll, EPOLL_CTL_ADD, end->fd, &event);
}

/* Closing the socket is not enough, since a peer may also hold it open. */
static void shm_rendezvous_unwatch(struct aqi_rendezvous *rendezvous, struct end *end)
{
    (void)epoll_ctl(rendezvous->epoll, EPOLL_CTL_DEL, end->fd, NULL);
}

static void shm_rendezvous_close_all(int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (fds[i] >= 0) close(fds[i]);
}

enum { ROOM = AQI_RENDEZVOUS_FDS + 2 }; /* the channel, objects, the memory of a segment */

union control {
    struct cmsghdr header;
    unsigned char bytes[CMSG_SPACE(ROOM * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

/*
 * The type of control messages with a descriptor of the writer's process. A peer that also holds
 * our end of the socket can request them.
 */
#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

/*
 * Take at most as many descriptors as there is room for: the buffer has space for more if a peer
 * has turned off the credentials. Returns false if there were more.
 */
static bool shm_rendezvous_take_fds(const struct cmsghdr *c, int fds[ROOM], unsigned *n)
{
    bool unwanted = c->cmsg_type != SCM_RIGHTS;
    unsigned room = ROOM - *n;
    return aqi_descriptors_take(c, unwanted, fds, n, ROOM) <= room || unwanted;
}

/* Send with a descriptor before the message's own (-1: none); returns 0 or an errno. */
static int shm_rendezvous_send_message(int fd, const struct sockaddr_un *to, socklen_t to_len,
                                       int first, const struct aqi_handshake *message)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)message->bytes, .iov_len = message->len};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    union control control;
    int fds[ROOM];
    unsigned n = 0;
    if (to != NULL) {
        header.msg_name = (void *)(uintptr_t)to;
        header.msg_namelen = to_len;
    }
    if (first >= 0) fds[n++] = first;
    for (unsigned i = 0; i < message->nfds && n < ROOM; i++)
        fds[n++] = message->fds[i];
    aqi_descriptors_add(&header, &control, fds, n);
    return aqi_descriptors_send(fd, &header);
}

/*
 * Receive one message into the buffer of the rendezvous. AQ_AGAIN: there is none; AQ_EPEER: end of
 * file; AQ_EPROTO: dropped.
 */
static aq_status shm_rendezvous_receive(struct aqi_rendezvous *rendezvous, int fd, int fds[ROOM],
                                        struct aqi_handshake *message, struct aqi_writer *writer)
{
    struct iovec part = {.iov_base = rendezvous->buffer, .iov_len = sizeof(rendezvous->buffer)};
    union control control;
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t n = aqi_descriptors_receive(fd, &header);
    if (n < 0) return errno == EAGAIN ? AQ_AGAIN : AQ_EPEER;
    bool cut = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    *message = (struct aqi_handshake){.bytes = rendezvous->buffer, .len = (size_t)n, .fds = fds};
    *writer = (struct aqi_writer){.uid = UINT32_MAX};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c != NULL; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET) continue;
        if (c->cmsg_type == SCM_RIGHTS || c->cmsg_type == SCM_PIDFD) {
            cut = !shm_rendezvous_take_fds(c, fds, &message->nfds) || cut;
        } else if (c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred credentials;
            memcpy(&credentials, CMSG_DATA(c), sizeof(credentials));
            *writer = (struct aqi_writer){credentials.pid, credentials.uid,
                                          credentials.uid == (uint32_t)geteuid()};
        }
    }
    if (!cut) return n == 0 && message->nfds == 0 ? AQ_EPEER : AQ_OK;
    /* The message was too long, or no descriptor is free here; a caller tries again. */
    shm_rendezvous_close_all(fds, message->nfds);
    return AQ_EPROTO;
}

/* --- control channels ------------------------------------------------------------------------ */

static struct aqi_control_channel *shm_rendezvous_channel_new(struct aqi_rendezvous *rendezvous,
                                                              int fd, void *user)
{
    struct aqi_control_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL) return NULL;
    *channel =
        (struct aqi_control_channel){.end = {.fd = fd}, .rendezvous = rendezvous, .user = user};
    if (shm_rendezvous_watch(rendezvous, &channel->end) != 0) {
        free(channel);
        return NULL;
    }
    aqi_unforked_add(fd);
    aqi_list_append(&rendezvous->channels, &channel->link);
    return channel;
}

static void shm_rendezvous_close_channel(struct aqi_control_channel *channel)
{
    if (!channel->over) shm_rendezvous_unwatch(channel->rendezvous, &channel->end);
    aqi_unforked_close(channel->end.fd);
    aqi_list_remove(&channel->link);
    free(channel);
}

static aq_status shm_rendezvous_send(struct aqi_control_channel *channel,
                                     const struct aqi_handshake *message)
{
    int err =
        channel->over ? EPIPE : shm_rendezvous_send_message(channel->end.fd, NULL, 0, -1, message);
    if (err == 0) return AQ_OK;
    if (err == EPIPE || err == ECONNRESET || err == ENOTCONN) return AQ_EPEER;
    return aqi_fail_errno(err == EAGAIN ? AQ_ELIMIT : AQ_ESYS, err, "shm",
                          "cannot write to a connection's control channel");
}

/* Whether the descriptor that a caller has sent is an end of a socket pair. */
static bool shm_rendezvous_is_channel(int fd)
{
    int domain = 0, type = 0;
    socklen_t len = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

static void shm_rendezvous_take_call(struct aqi_rendezvous *rendezvous,
                                     struct aqi_listener *listener)
{
    struct aqi_handshake message = {0};
    struct aqi_writer writer;
    int fds[ROOM];
    aq_status st = shm_rendezvous_receive(rendezvous, listener->end.fd, fds, &message, &writer);
    if (st == AQ_AGAIN) return;
    if (st != AQ_OK || message.nfds == 0 || !shm_rendezvous_is_channel(fds[0])) {
        aqi_count(AQI_CTR_HELLO_DROPPED, 1);
        if (st == AQ_OK) shm_rendezvous_close_all(fds, message.nfds);
        return;
    }
    (void)shm_rendezvous_want_writers(fds[0]);
    struct aqi_control_channel *channel = shm_rendezvous_channel_new(rendezvous, fds[0], NULL);
    if (channel == NULL) {
        /* The caller gets an end of file, and tries again. */
        shm_rendezvous_close_all(fds, message.nfds);
        return;
    }
    message.fds++;
    message.nfds--;
    channel->user =
        rendezvous->hooks.call(rendezvous->hooks.arg, listener->user, channel, &writer, &message);
    shm_rendezvous_close_all(message.fds, message.nfds);
    if (channel->user == NULL) shm_rendezvous_close_channel(channel);
}

static void shm_rendezvous_take_message(struct aqi_rendezvous *rendezvous,
                                        struct aqi_control_channel *channel)
{
    struct aqi_handshake message = {0};
    struct aqi_writer writer;
    int fds[ROOM];
    aq_status st = shm_rendezvous_receive(rendezvous, channel->end.fd, fds, &message, &writer);
    if (st == AQ_AGAIN) return;
    if (st == AQ_OK) {
        rendezvous->hooks.message(rendezvous->hooks.arg, channel->user, &writer, &message);
        shm_rendezvous_close_all(fds, message.nfds); /* the channel may be gone */
        return;
    }
    if (st == AQ_EPROTO) aqi_count(AQI_CTR_HELLO_DROPPED, 1);
    shm_rendezvous_unwatch(rendezvous, &channel->end);
    channel->over = true;
    rendezvous->hooks.closed(rendezvous->hooks.arg, channel->user, AQ_EPEER, NULL);
}

/* --- the operations -------------------------------------------------------------------------- */

static void shm_rendezvous_unlisten(struct aqi_rendezvous *rendezvous,
                                    struct aqi_listener *listener)
{
    aqi_list_remove(&listener->link);
    shm_rendezvous_unwatch(rendezvous, &listener->end);
    aqi_unforked_close(listener->end.fd);
    shm_name_release(&listener->name);
    free(listener);
}

static void shm_rendezvous_close(struct aqi_rendezvous *rendezvous)
{
    while (!aqi_list_is_empty(&rendezvous->channels))
        shm_rendezvous_close_channel(
            AQI_OF(rendezvous->channels.next, struct aqi_control_channel, link));
    while (!aqi_list_is_empty(&rendezvous->listeners))
        shm_rendezvous_unlisten(rendezvous,
                                AQI_OF(rendezvous->listeners.next, struct aqi_listener, link));
    if (rendezvous->out >= 0) close(rendezvous->out);
    if (rendezvous->epoll >= 0) close(rendezvous->epoll);
    free(rendezvous);
}

static aq_status shm_rendezvous_open(const struct aqi_rendezvous_hooks *hooks,
                                     struct aqi_rendezvous **out)
{
    struct aqi_rendezvous *rendezvous = calloc(1, sizeof(*rendezvous));
    if (rendezvous == NULL)
        return aqi_fail(AQ_ENOMEM, "shm", "no memory for connections with other programs");
    rendezvous->hooks = *hooks;
    aqi_list_init(&rendezvous->listeners);
    aqi_list_init(&rendezvous->channels);
    rendezvous->out = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    rendezvous->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (rendezvous->out < 0 || rendezvous->epoll < 0) {
        aq_status st = aqi_fail_no_fd(errno, "shm", "cannot open sockets for connections");
        shm_rendezvous_close(rendezvous);
        return st;
    }
    *out = rendezvous;
    return AQ_OK;
}

/*
 * Bind to `uri` or, if it ends with "/", to the first free address `uri`PID/NUMBER. A process uses
 * each number once, so that no other listener takes an address that its owner listens at again.
 */
static aq_status shm_rendezvous_bind_to(int fd, const char *uri, char *uri_out,
                                        struct shm_name *bound)
{
    static atomic_uint serial;
    size_t len = strlen(uri);
    bool fixed = !len || uri[len - 1] != '/';
    struct shm_name name;
    for (int tries = 0; tries < 10000; tries++) {
        int n = fixed ? snprintf(uri_out, AQI_URI_MAX, "%s", uri)
                      : snprintf(uri_out, AQI_URI_MAX, "%s%d/%u", uri, (int)getpid(),
                                 atomic_fetch_add(&serial, 1) + 1);
        aq_status st = shm_name_of(n < AQI_URI_MAX ? uri_out : uri, &name);
        if (st == AQ_OK && n >= AQI_URI_MAX) st = AQ_EINVAL;
        if (st == AQ_OK) st = shm_name_bind(fd, uri_out, &name);
        if (st == AQ_OK) *bound = name;
        if (st != AQ_ESTATE) return st;
        if (fixed) break;
    }
    return aqi_fail(AQ_ESTATE, "shm",
                    "another listener already uses %s: end it, or listen at another address",
                    uri_out);
}

static aq_status shm_rendezvous_listen(struct aqi_rendezvous *rendezvous, const char *uri,
                                       void *user, struct aqi_listener **out, char *uri_out)
{
    char chosen[AQI_URI_MAX];
    if (uri == NULL) uri = default_uri;
    struct shm_name name = {0};
    struct aqi_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) return aqi_fail(AQ_ENOMEM, "shm", "no memory to listen at %s", uri);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    aq_status st = fd < 0 ? aqi_fail_no_fd(errno, "shm", "cannot open a socket to listen") : AQ_OK;
    if (st == AQ_OK && shm_rendezvous_want_writers(fd) != 0)
        st = aqi_fail_no_fd(errno, "shm", "cannot request the identity of callers");
    if (st == AQ_OK) st = shm_rendezvous_bind_to(fd, uri, chosen, &name);
    *listener =
        (struct aqi_listener){.end = {.listener = true, .fd = fd}, .name = name, .user = user};
    if (st == AQ_OK && shm_rendezvous_watch(rendezvous, &listener->end) != 0)
        st = aqi_fail_no_fd(errno, "shm", "cannot watch a listener");
    if (st != AQ_OK) {
        if (fd >= 0) close(fd);
        shm_name_release(&name);
        free(listener);
        return st;
    }
    aqi_unforked_add(fd);
    aqi_list_append(&rendezvous->listeners, &listener->link);
    memcpy(uri_out, chosen, sizeof(chosen));
    *out = listener;
    return AQ_OK;
}

static aq_status shm_rendezvous_not_called(const char *uri, int err)
{
    switch (err) {
    case ECONNREFUSED:
    case ENOENT:
        return AQ_EREFUSED;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
    case ETOOMANYREFS: /* too many descriptors in flight to receivers that do not read */
        return AQ_AGAIN;
    default:
        return aqi_fail_errno(AQ_ESYS, err, "shm", "cannot connect to %s", uri);
    }
}

static aq_status shm_rendezvous_connect(struct aqi_rendezvous *rendezvous, const char *uri,
                                        const struct aqi_handshake *message, void *user,
                                        struct aqi_control_channel **out)
{
    struct shm_name name;
    int pair[2];
    aq_status st = shm_name_of(uri, &name);
    if (st != AQ_OK) return st;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return aqi_fail_no_fd(errno, "shm", "cannot create a control channel to another program");
    struct aqi_control_channel *channel =
        shm_rendezvous_want_writers(pair[0]) == 0
            ? shm_rendezvous_channel_new(rendezvous, pair[0], user)
            : NULL;
    if (channel == NULL) {
        close(pair[0]);
        close(pair[1]);
        return aqi_fail(AQ_ENOMEM, "shm", "no memory for a control channel to %s", uri);
    }
    int err = shm_rendezvous_send_message(rendezvous->out, &name.at, name.len, pair[1], message);
    close(pair[1]);
    if (err != 0) {
        shm_rendezvous_close_channel(channel);
        return shm_rendezvous_not_called(uri, err);
    }
    *out = channel;
    return AQ_OK;
}

static unsigned shm_rendezvous_progress(struct aqi_rendezvous *rendezvous)
{
    unsigned n = 0;
    struct epoll_event event;
    /* One at a time: handling one may end another. */
    while (n < BATCH && epoll_wait(rendezvous->epoll, &event, 1, 0) == 1) {
        struct end *end = event.data.ptr;
        if (end->listener)
            shm_rendezvous_take_call(rendezvous, (struct aqi_listener *)end);
        else
            shm_rendezvous_take_message(rendezvous, (struct aqi_control_channel *)end);
        n++;
    }
    return n;
}

static int shm_rendezvous_wait_fd(struct aqi_rendezvous *rendezvous)
{
    return rendezvous->epoll;
}

static void shm_rendezvous_unanswered(struct aqi_control_channel *channel, char *why, size_t len)
{
    (void)channel;
    snprintf(why, len, "it does not answer: the server is busy or stopped");
}

static bool shm_rendezvous_knows_writers(const struct aqi_rendezvous *rendezvous)
{
    (void)rendezvous;
    return true;
}

const struct aqi_rendezvous_ops shm_rendezvous = {
    .wire = AQI_WIRE_SHM,
    .open = shm_rendezvous_open,
    .close = shm_rendezvous_close,
    .listen = shm_rendezvous_listen,
    .unlisten = shm_rendezvous_unlisten,
    .connect = shm_rendezvous_connect,
    .send = shm_rendezvous_send,
    .close_channel = shm_rendezvous_close_channel,
    .progress = shm_rendezvous_progress,
    .wait_fd = shm_rendezvous_wait_fd,
    .unanswered = shm_rendezvous_unanswered,
    .knows_writers = shm_rendezvous_knows_writers,
    .objects = true,
};
