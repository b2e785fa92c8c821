/* Shared memory without names: sealed memfd objects, and descriptors passed over Unix sockets. */
#include "base/shmem.h"

#include "base/fail.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SHMEM_FDS_MAX 253 /* SCM_MAX_FD of the kernel */
/* The rest of a message whose beginning is on its way: the reader is alive, so this is long. */
#define SHMEM_SEND_REST_MS 10000

size_t aqi_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static unsigned long long shmem_limit(__rlimit_resource_t resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) != 0 ? 0 : (unsigned long long)limit.rlim_cur;
}

aq_status aqi_fail_no_fd(int err, const char *folder, const char *what)
{
    if (err == ENFILE)
        return aqi_fail_errno(AQ_ELIMIT, err, folder,
                              "%s: the machine is out of file descriptors (raise sysctl "
                              "fs.file-max)",
                              what);
    return aqi_fail_errno(AQ_ELIMIT, err, folder,
                          "%s: all %llu file descriptors of this process are in use; raise the "
                          "limit with `ulimit -n %llu`",
                          what, shmem_limit(RLIMIT_NOFILE),
                          (unsigned long long)aqi_max(1024, 2 * shmem_limit(RLIMIT_NOFILE)));
}

static aq_status shmem_fail(int err, const char *what, const char *name, size_t size)
{
    char object[160];
    snprintf(object, sizeof(object), "%s shared memory \"%.60s\" of %zu bytes", what, name, size);
    switch (err) {
    case EMFILE:
    case ENFILE:
        return aqi_fail_no_fd(err, "base", object);
    case ENOMEM:
    case ENOSPC:
        return aqi_fail_errno(AQ_ENOMEM, err, "base", "%s", object);
    case EACCES:
    case EPERM:
        return aqi_fail_errno(AQ_EACCESS, err, "base", "%s", object);
    default:
        return aqi_fail_errno(AQ_ESYS, err, "base", "%s", object);
    }
}

/* Not executable where the kernel knows the flag (6.3): some systems allow no other kind. */
static int shmem_memfd(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create(name, flags);
    return fd;
}

aq_status aqi_shmem_create(const char *name, size_t size, int *fd)
{
    if (size == 0 || size > INT64_MAX)
        return aqi_fail(AQ_EINVAL, "base", "shared memory \"%s\" of %zu bytes is not possible",
                        name, size);
    /* The kernel would answer with SIGXFSZ, which kills. */
    if (size > shmem_limit(RLIMIT_FSIZE))
        return aqi_fail(AQ_ELIMIT, "base",
                        "shared memory \"%s\" of %zu bytes is above the limit on file sizes (%llu "
                        "bytes): raise it with `ulimit -f unlimited`",
                        name, size, shmem_limit(RLIMIT_FSIZE));
    int created = shmem_memfd(name);
    if (created < 0 && (errno == EPERM || errno == ENOSYS))
        return aqi_fail_errno(AQ_EACCESS, errno, "base",
                              "creating shared memory \"%s\" of %zu bytes: a filter of system "
                              "calls forbids memfd_create: allow it in the container's seccomp "
                              "profile",
                              name, size);
    if (created < 0) return shmem_fail(errno, "creating", name, size);

    const char *step = "sizing";
    aq_status status;
    if (ftruncate(created, (off_t)size) != 0) goto close_created;
    step = "sealing";
    if (fcntl(created, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        goto close_created;
    *fd = created;
    return AQ_OK;

close_created:
    status = shmem_fail(errno, step, name, size);
    close(created);
    return status;
}

aq_status aqi_shmem_map(int fd, size_t size, void **addr)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return aqi_fail_errno(AQ_EPROTO, errno, "base",
                              "descriptor %d is not memory that can be sealed", fd);
    if ((seals & F_SEAL_SHRINK) == 0)
        return aqi_fail(AQ_EPROTO, "base",
                        "the memory behind descriptor %d is not sealed: its owner could shrink it "
                        "under us",
                        fd);
    struct stat info;
    if (fstat(fd, &info) != 0)
        return aqi_fail_errno(AQ_ESYS, errno, "base", "fstat of descriptor %d", fd);
    if (size == 0 || info.st_size < 0 || (uint64_t)info.st_size < size)
        return aqi_fail(AQ_EPROTO, "base",
                        "the memory behind descriptor %d has %lld bytes where %zu are expected", fd,
                        (long long)info.st_size, size);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) {
        *addr = at;
        return AQ_OK;
    }
    int err = errno;
    if (err == EAGAIN)
        return aqi_fail_errno(AQ_ELIMIT, err, "base",
                              "mapping %zu bytes of shared memory exceeds the limit on locked "
                              "memory (%llu bytes): raise it with `ulimit -l unlimited`",
                              size, shmem_limit(RLIMIT_MEMLOCK));
    if (err == ENOMEM && shmem_limit(RLIMIT_AS) != RLIM_INFINITY)
        return aqi_fail_errno(AQ_ELIMIT, err, "base",
                              "mapping %zu bytes of shared memory (the address space is limited to "
                              "%llu bytes: raise it with `ulimit -v unlimited`)",
                              size, shmem_limit(RLIMIT_AS));
    aq_status status = err == ENOMEM                   ? AQ_ENOMEM
                       : err == EACCES || err == EPERM ? AQ_EACCESS
                                                       : AQ_ESYS;
    return aqi_fail_errno(status, err, "base", "mapping %zu bytes of shared memory", size);
}

void aqi_shmem_unmap(void *addr, size_t size)
{
    if (addr != NULL) munmap(addr, size);
}

static aq_status shmem_send_failed(int err, size_t nfds)
{
    switch (err) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case ECONNREFUSED:
        return aqi_fail_errno(AQ_EPEER, err, "base", "sending to a process that is gone");
    case ETOOMANYREFS:
        return aqi_fail_errno(AQ_ELIMIT, err, "base",
                              "sending %zu descriptors: too many are on their way unreceived (at "
                              "most %llu); raise the limit with `ulimit -n`",
                              nfds, shmem_limit(RLIMIT_NOFILE));
    case EMSGSIZE:
        return aqi_fail_errno(AQ_ESIZE, err, "base", "sending a message over a Unix socket");
    default:
        return aqi_fail_errno(AQ_ESYS, err, "base", "sendmsg with %zu descriptors", nfds);
    }
}

/* Room for the most descriptors the kernel passes, and for credentials if the socket wants them. */
union shmem_control {
    struct cmsghdr header;
    unsigned char bytes[CMSG_SPACE(SHMEM_FDS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

/* What a stream socket had no room for; the descriptors have gone with the first byte. */
static aq_status shmem_send_rest(int socket, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(socket, data, len, MSG_NOSIGNAL);
        if (n >= 0) {
            data += n;
            len -= (size_t)n;
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return shmem_send_failed(errno, 0);
        struct pollfd wait = {.fd = socket, .events = POLLOUT};
        if (poll(&wait, 1, SHMEM_SEND_REST_MS) == 0)
            return aqi_fail(AQ_ETIMEOUT, "base",
                            "a peer did not take the rest of a message (%zu bytes) within %d s",
                            len, SHMEM_SEND_REST_MS / 1000);
    }
    return AQ_OK;
}

aq_status aqi_fd_send(int socket, const void *data, size_t len, const int *fds, size_t nfds)
{
    if (len == 0 || nfds > SHMEM_FDS_MAX)
        return aqi_fail(AQ_EINVAL, "base",
                        "a message of %zu bytes with %zu descriptors cannot be sent: at least one "
                        "byte and at most %d descriptors",
                        len, nfds, SHMEM_FDS_MAX);
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union shmem_control control;
    if (nfds > 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, nfds * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0) return errno == EAGAIN ? AQ_AGAIN : shmem_send_failed(errno, nfds);
    return shmem_send_rest(socket, (const char *)data + n, len - (size_t)n);
}

/* Collect the descriptors of all control messages; returns how many. */
static size_t shmem_take_fds(struct msghdr *message, int *fds)
{
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        size_t n = aqi_min((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), SHMEM_FDS_MAX - count);
        memcpy(fds + count, CMSG_DATA(c), n * sizeof(int));
        count += n;
    }
    return count;
}

/* Was the message whole and what the caller has room for? */
static aq_status shmem_check_received(const struct msghdr *message, size_t count, size_t room)
{
    if ((message->msg_flags & MSG_CTRUNC) != 0)
        return aqi_fail_no_fd(EMFILE, "base", "receiving descriptors");
    if ((message->msg_flags & MSG_TRUNC) != 0)
        return aqi_fail(AQ_EPROTO, "base", "a peer sent a longer message than is legal");
    if (count > room)
        return aqi_fail(AQ_EPROTO, "base", "a peer sent %zu descriptors where %zu are legal", count,
                        room);
    return AQ_OK;
}

aq_status aqi_fd_receive(int socket, void *data, size_t *len, int *fds, size_t *nfds)
{
    struct iovec part = {.iov_base = data, .iov_len = *len};
    union shmem_control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    do
        n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) return AQ_AGAIN;
    if (n < 0 && errno != ECONNRESET)
        return aqi_fail_errno(AQ_ESYS, errno, "base", "recvmsg with descriptors");
    /* Not logged: the end of the other side is often expected, and the caller knows who it was. */
    if (n <= 0) return AQ_EPEER;

    /* With room for all that the kernel passes, only a lack of descriptors can cut the list. */
    int received[SHMEM_FDS_MAX];
    size_t count = shmem_take_fds(&message, received);
    aq_status status = shmem_check_received(&message, count, *nfds);
    if (status != AQ_OK) {
        for (size_t i = 0; i < count; i++)
            close(received[i]);
        return status;
    }
    if (count > 0) memcpy(fds, received, count * sizeof(int));
    *len = (size_t)n;
    *nfds = count;
    return AQ_OK;
}
