/*
 * shm: meeting processes that were not started with ours. A listener is a Unix datagram socket with
 * an abstract name made from its URI, so nothing is ever in the file system. A call is one datagram
 * that carries one end of a socket pair: the line. Its fate is seen there in every case: an answer,
 * or an end of file when it is dropped or when the listener, with the datagram unread, is gone.
 * So nothing is sent twice, and no copy has to be recognised.
 */
#include "base/fail.h"
#include "base/log.h"
#include "base/shmem.h"
#include "base/stats.h"
#include "transport/shm/shm_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char scheme[] = "shm://";
/* Abstract names of ours begin with this, after the NUL. */
static const char prefix[] = "aqueduct";
static const char default_path[] = "/aqueduct/";

/* Events taken from the descriptors per call of progress. */
enum { BATCH = 64 };

/* What epoll finds: the head of a listener and of a line. */
struct end {
    bool listener;
    int fd;
};

struct aqi_listener {
    struct end end;
    void *user;
    struct aqi_listener *next;
};

struct aqi_line {
    struct end end;
    struct aqi_meet *meet;
    void *user;
    bool over; /* the other side hung up: no longer watched */
    struct aqi_line *next, **at;
};

struct aqi_meet {
    struct aqi_meet_hooks hooks;
    int epoll, out;
    struct aqi_listener *listeners;
    struct aqi_line *lines;
    unsigned char buffer[AQI_LETTER_MAX];
};

/* --- addresses ------------------------------------------------------------------------------- */

/* The abstract name of a URI; false: it is none of ours. */
static bool name_of(const char *uri, struct sockaddr_un *name, socklen_t *len)
{
    if (strncmp(uri, scheme, sizeof(scheme) - 1) != 0) return false;
    const char *path = uri + sizeof(scheme) - 1;
    size_t n = strlen(path), skip = 1 + sizeof(prefix) - 1;
    if (path[0] != '/' || n < 2 || skip + n > sizeof(name->sun_path)) return false;
    for (size_t i = 0; i < n; i++)
        if (path[i] <= ' ' || path[i] > '~') return false;
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(name->sun_path + 1, prefix, sizeof(prefix) - 1);
    memcpy(name->sun_path + skip, path, n);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + skip + n);
    return true;
}

static aq_status bad_uri(const char *uri)
{
    struct sockaddr_un name;
    return aqi_fail(AQ_EINVAL, "shm",
                    "\"%s\" is no address of shm: it is \"shm://\" and an absolute path of "
                    "printable characters without spaces, at most %zu",
                    uri, sizeof(name.sun_path) - sizeof(prefix));
}

/* --- sockets --------------------------------------------------------------------------------- */

static aq_status no_socket(const char *what)
{
    if (errno == EMFILE || errno == ENFILE) return aqi_fail_no_fd(errno, "shm", what);
    return aqi_fail_errno(AQ_ESYS, errno, "shm", "%s", what);
}

/* The kernel tells who wrote each message that this socket receives. */
static int want_writers(int fd)
{
    int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

static int watch(struct aqi_meet *meet, struct end *end)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = end};
    return epoll_ctl(meet->epoll, EPOLL_CTL_ADD, end->fd, &event);
}

/* Not by close: a peer may hold the same socket open. */
static void unwatch(struct aqi_meet *meet, struct end *end)
{
    (void)epoll_ctl(meet->epoll, EPOLL_CTL_DEL, end->fd, NULL);
}

static void close_all(int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (fds[i] >= 0) close(fds[i]);
}

enum { ROOM = AQI_MEET_FDS + 2 }; /* the line, objects, the memory of a segment */

union control {
    struct cmsghdr header;
    unsigned char bytes[CMSG_SPACE(ROOM * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

/* A descriptor of the writer's process comes with each message if the socket is asked for it, which
 * whoever holds the other end of a line can do, as it may hold ours, too. */
#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

/* Take descriptors, as many as there is room for: without the credentials, for which the socket
 * may not ask any more, more of them fit the buffer. False: there were more. */
static bool take_fds(const struct cmsghdr *c, int fds[ROOM], unsigned *n)
{
    unsigned count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    bool wanted = c->cmsg_type == SCM_RIGHTS, fit = !wanted || count <= ROOM - *n;
    for (unsigned i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
        if (wanted && *n < ROOM)
            fds[(*n)++] = fd;
        else
            close(fd);
    }
    return fit;
}

/* Send with a descriptor in front of the letter's own (-1: none); an errno, or 0. */
static int send_letter(int fd, const struct sockaddr_un *to, socklen_t to_len, int first,
                       const struct aqi_letter *letter)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)letter->bytes, .iov_len = letter->len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union control control;
    int fds[ROOM];
    unsigned n = 0;
    if (to != NULL) {
        message.msg_name = (void *)(uintptr_t)to;
        message.msg_namelen = to_len;
    }
    if (first >= 0) fds[n++] = first;
    for (unsigned i = 0; i < letter->nfds && n < ROOM; i++)
        fds[n++] = letter->fds[i];
    if (n != 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(n * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

/*
 * Receive one letter into the buffer of the meeting place. AQ_AGAIN: nothing there; AQ_EPEER: end
 * of file; AQ_EPROTO: dropped.
 */
static aq_status receive(struct aqi_meet *meet, int fd, int fds[ROOM], struct aqi_letter *letter,
                         struct aqi_writer *writer)
{
    struct iovec part = {.iov_base = meet->buffer, .iov_len = sizeof(meet->buffer)};
    union control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    /* A reset comes before what the other side had still sent. */
    do
        n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0) return errno == EAGAIN ? AQ_AGAIN : AQ_EPEER;
    bool cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    *letter = (struct aqi_letter){.bytes = meet->buffer, .len = (size_t)n, .fds = fds};
    *writer = (struct aqi_writer){.uid = UINT32_MAX};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET) continue;
        if (c->cmsg_type == SCM_RIGHTS || c->cmsg_type == SCM_PIDFD) {
            cut = !take_fds(c, fds, &letter->nfds) || cut;
        } else if (c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred credentials;
            memcpy(&credentials, CMSG_DATA(c), sizeof(credentials));
            *writer = (struct aqi_writer){credentials.pid, credentials.uid};
        }
    }
    if (!cut) return n == 0 && letter->nfds == 0 ? AQ_EPEER : AQ_OK;
    /* Longer than any letter; or this process has no descriptor free, and the caller tries again.
     */
    close_all(fds, letter->nfds);
    return AQ_EPROTO;
}

/* --- lines ----------------------------------------------------------------------------------- */

static struct aqi_line *line_new(struct aqi_meet *meet, int fd, void *user)
{
    struct aqi_line *line = calloc(1, sizeof(*line));
    if (line == NULL) return NULL;
    *line = (struct aqi_line){.end = {.fd = fd}, .meet = meet, .user = user};
    if (watch(meet, &line->end) != 0) {
        free(line);
        return NULL;
    }
    line->at = &meet->lines;
    line->next = meet->lines;
    if (line->next != NULL) line->next->at = &line->next;
    meet->lines = line;
    return line;
}

static void meet_hang_up(struct aqi_line *line)
{
    if (!line->over) unwatch(line->meet, &line->end);
    close(line->end.fd);
    *line->at = line->next;
    if (line->next != NULL) line->next->at = line->at;
    free(line);
}

static aq_status meet_send(struct aqi_line *line, const struct aqi_letter *letter)
{
    int err = line->over ? EPIPE : send_letter(line->end.fd, NULL, 0, -1, letter);
    if (err == 0) return AQ_OK;
    if (err == EPIPE || err == ECONNRESET || err == ENOTCONN) return AQ_EPEER;
    return aqi_fail_errno(err == EAGAIN ? AQ_ELIMIT : AQ_ESYS, err, "shm",
                          "writing to a connection's line");
}

/* Is what a caller sent the end of a socket pair? */
static bool is_line(int fd)
{
    int domain = 0, type = 0;
    socklen_t len = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

static void take_call(struct aqi_meet *meet, struct aqi_listener *listener)
{
    struct aqi_letter letter = {0};
    struct aqi_writer writer;
    int fds[ROOM];
    aq_status st = receive(meet, listener->end.fd, fds, &letter, &writer);
    if (st == AQ_AGAIN) return;
    if (st != AQ_OK || letter.nfds == 0 || !is_line(fds[0])) {
        aqi_count(AQI_CTR_HELLO_DROPPED, 1);
        if (st == AQ_OK) close_all(fds, letter.nfds);
        return;
    }
    (void)want_writers(fds[0]);
    struct aqi_line *line = line_new(meet, fds[0], NULL);
    if (line == NULL) {
        close_all(fds, letter.nfds); /* the caller sees the end of file, and tries again */
        return;
    }
    letter.fds++;
    letter.nfds--;
    line->user = meet->hooks.call(meet->hooks.arg, listener->user, line, &writer, &letter);
    close_all(letter.fds, letter.nfds);
    if (line->user == NULL) meet_hang_up(line);
}

static void take_letter(struct aqi_meet *meet, struct aqi_line *line)
{
    struct aqi_letter letter = {0};
    struct aqi_writer writer;
    int fds[ROOM];
    aq_status st = receive(meet, line->end.fd, fds, &letter, &writer);
    if (st == AQ_AGAIN) return;
    if (st == AQ_OK) {
        meet->hooks.letter(meet->hooks.arg, line->user, &writer, &letter);
        close_all(fds, letter.nfds); /* the line may be gone */
        return;
    }
    if (st == AQ_EPROTO) aqi_count(AQI_CTR_HELLO_DROPPED, 1);
    unwatch(meet, &line->end);
    line->over = true;
    meet->hooks.hung_up(meet->hooks.arg, line->user);
}

/* --- the operations -------------------------------------------------------------------------- */

static void meet_unlisten(struct aqi_meet *meet, struct aqi_listener *listener)
{
    struct aqi_listener **at = &meet->listeners;
    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
    unwatch(meet, &listener->end);
    close(listener->end.fd);
    free(listener);
}

static void meet_close(struct aqi_meet *meet)
{
    while (meet->lines != NULL)
        meet_hang_up(meet->lines);
    while (meet->listeners != NULL)
        meet_unlisten(meet, meet->listeners);
    if (meet->out >= 0) close(meet->out);
    if (meet->epoll >= 0) close(meet->epoll);
    free(meet);
}

static aq_status meet_open(const struct aqi_meet_hooks *hooks, struct aqi_meet **out)
{
    struct aqi_meet *meet = calloc(1, sizeof(*meet));
    if (meet == NULL) return aqi_fail(AQ_ENOMEM, "shm", "no memory to meet other programs");
    meet->hooks = *hooks;
    meet->out = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    meet->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (meet->out < 0 || meet->epoll < 0) {
        aq_status st = no_socket("opening sockets to meet other programs");
        meet_close(meet);
        return st;
    }
    *out = meet;
    return AQ_OK;
}

/*
 * Bind to `uri`, or to the first free "uri PID/NUMBER" if it ends with "/". A number serves once in
 * a process, so that an address that is free again is not taken from who gave it up to listen anew.
 */
static aq_status bind_to(int fd, const char *uri, char *uri_out)
{
    static atomic_uint serial;
    bool fixed = uri[strlen(uri) - 1] != '/';
    struct sockaddr_un name;
    socklen_t len;
    for (int tries = 0; tries < 10000; tries++) {
        int n = fixed ? snprintf(uri_out, AQI_URI_MAX, "%s", uri)
                      : snprintf(uri_out, AQI_URI_MAX, "%s%d/%u", uri, (int)getpid(),
                                 atomic_fetch_add(&serial, 1) + 1);
        if (n >= AQI_URI_MAX || !name_of(uri_out, &name, &len)) return bad_uri(uri);
        if (bind(fd, (struct sockaddr *)&name, len) == 0) return AQ_OK;
        if (errno != EADDRINUSE)
            return aqi_fail_errno(AQ_ESYS, errno, "shm", "cannot listen at %s", uri_out);
        if (fixed) break;
    }
    return aqi_fail(AQ_ESTATE, "shm",
                    "another listener is at %s: end it, or listen at another address", uri_out);
}

static aq_status meet_listen(struct aqi_meet *meet, const char *uri, void *user,
                             struct aqi_listener **out, char *uri_out)
{
    char made[sizeof(scheme) + sizeof(default_path)], chosen[AQI_URI_MAX];
    snprintf(made, sizeof(made), "%s%s", scheme, default_path);
    if (uri == NULL) uri = made;
    if (strncmp(uri, scheme, sizeof(scheme) - 1) != 0) return bad_uri(uri);
    struct aqi_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) return aqi_fail(AQ_ENOMEM, "shm", "no memory to listen at %s", uri);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    aq_status st = fd < 0 ? no_socket("opening a socket to listen") : AQ_OK;
    if (st == AQ_OK && want_writers(fd) != 0) st = no_socket("asking for the callers' identity");
    if (st == AQ_OK) st = bind_to(fd, uri, chosen);
    *listener = (struct aqi_listener){.end = {.listener = true, .fd = fd}, .user = user};
    if (st == AQ_OK && watch(meet, &listener->end) != 0) st = no_socket("watching a listener");
    if (st != AQ_OK) {
        if (fd >= 0) close(fd);
        free(listener);
        return st;
    }
    listener->next = meet->listeners;
    meet->listeners = listener;
    memcpy(uri_out, chosen, sizeof(chosen));
    *out = listener;
    return AQ_OK;
}

static aq_status not_called(const char *uri, int err)
{
    switch (err) {
    case ECONNREFUSED:
    case ENOENT:
        return AQ_EREFUSED;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
    case ETOOMANYREFS: /* descriptors on their way to receivers that do not read */
        return AQ_AGAIN;
    default:
        return aqi_fail_errno(AQ_ESYS, err, "shm", "cannot call %s", uri);
    }
}

static aq_status meet_dial(struct aqi_meet *meet, const char *uri, const struct aqi_letter *letter,
                           void *user, struct aqi_line **out)
{
    struct sockaddr_un name;
    socklen_t len;
    int pair[2];
    if (!name_of(uri, &name, &len)) return bad_uri(uri);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return no_socket("making a line to another program");
    struct aqi_line *line = want_writers(pair[0]) == 0 ? line_new(meet, pair[0], user) : NULL;
    if (line == NULL) {
        close(pair[0]);
        close(pair[1]);
        return aqi_fail(AQ_ENOMEM, "shm", "no memory for a line to %s", uri);
    }
    int err = send_letter(meet->out, &name, len, pair[1], letter);
    close(pair[1]);
    if (err != 0) {
        meet_hang_up(line);
        return not_called(uri, err);
    }
    *out = line;
    return AQ_OK;
}

static unsigned meet_progress(struct aqi_meet *meet)
{
    unsigned n = 0;
    struct epoll_event event;
    /* One at a time: what is done for one may end another. */
    while (n < BATCH && epoll_wait(meet->epoll, &event, 1, 0) == 1) {
        struct end *end = event.data.ptr;
        if (end->listener)
            take_call(meet, (struct aqi_listener *)end);
        else
            take_letter(meet, (struct aqi_line *)end);
        n++;
    }
    return n;
}

static int meet_wait_fd(struct aqi_meet *meet)
{
    return meet->epoll;
}

const struct aqi_meet_ops shm_meet = {
    .open = meet_open,
    .close = meet_close,
    .listen = meet_listen,
    .unlisten = meet_unlisten,
    .dial = meet_dial,
    .send = meet_send,
    .hang_up = meet_hang_up,
    .progress = meet_progress,
    .wait_fd = meet_wait_fd,
};
