/* Shared memory without names, by sealed memfds. */
#include "base/shmem.h"

#include "base/fail.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

size_t aqi_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static unsigned long long shmem_limit(unsigned resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) != 0 ? 0 : (unsigned long long)limit.rlim_cur;
}

unsigned long long aqi_fd_limit(void)
{
    return shmem_limit(RLIMIT_NOFILE);
}

unsigned long long aqi_fd_advice(void)
{
    return aqi_max(1024, 2 * aqi_fd_limit());
}

unsigned aqi_free_fds(unsigned enough)
{
    unsigned long long limit = aqi_fd_limit();
    unsigned found = 0;
    for (int fd = 0; found < enough && (unsigned long long)fd < limit; fd++)
        if (fcntl(fd, F_GETFD) < 0) found++;
    return found;
}

aq_status aqi_fail_no_fd(int err, const char *folder, const char *what)
{
    if (err == ENFILE)
        return aqi_fail_errno(
            AQ_ELIMIT, err, folder,
            "%s: the system has run out of file descriptors (raise sysctl fs.file-max)", what);
    if (err != EMFILE) return aqi_fail_errno(AQ_ESYS, err, folder, "%s", what);
    return aqi_fail_errno(AQ_ELIMIT, err, folder,
                          "%s: all %llu file descriptors of this process are in use; raise the "
                          "limit with `ulimit -n %llu`",
                          what, aqi_fd_limit(), aqi_fd_advice());
}

static aq_status shmem_fail(int err, const char *call, const char *name, size_t size)
{
    char object[160];
    snprintf(object, sizeof(object), "shared memory \"%.60s\" of %zu bytes: %s", name, size, call);
    switch (err) {
    case EMFILE:
    case ENFILE:
        return aqi_fail_no_fd(err, "base", object);
    case ENOMEM:
    case ENOSPC:
        return aqi_fail_errno(AQ_ENOMEM, err, "base", "%s", object);
    case EPERM:
    case ENOSYS:
        return aqi_fail_errno(
            AQ_EACCESS, err, "base",
            "%s is blocked by a system call filter: allow it in the container's seccomp profile",
            object);
    default:
        return aqi_fail_errno(err == EACCES ? AQ_EACCESS : AQ_ESYS, err, "base", "%s", object);
    }
}

/* Not executable, if the kernel knows the flag (since 6.3): some systems reject other memfds. */
static int shmem_memfd(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create(name, flags);
    return fd;
}

/* Fill a new object with `bytes`, or with zeros if NULL. */
static int shmem_fill(int fd, const void *bytes, size_t size)
{
    if (bytes == NULL) return ftruncate(fd, (off_t)size);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)bytes + done, size - done);
        if (n < 0 && errno != EINTR) return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static aq_status shmem_make(const char *name, const void *bytes, size_t size, int *fd)
{
    if (size == 0 || size > INT64_MAX)
        return aqi_fail(AQ_EINVAL, "base", "cannot create shared memory \"%s\" of %zu bytes", name,
                        size);
    /* Beyond this limit the kernel would raise SIGXFSZ, which kills the process. */
    if (size > shmem_limit(RLIMIT_FSIZE))
        return aqi_fail(AQ_ELIMIT, "base",
                        "shared memory \"%s\" of %zu bytes exceeds the limit on file sizes (%llu "
                        "bytes): raise it with `ulimit -f unlimited`",
                        name, size, shmem_limit(RLIMIT_FSIZE));
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (bytes != NULL ? F_SEAL_WRITE : 0);
    const char *call = "memfd_create";
    int created = shmem_memfd(name);
    if (created >= 0) call = bytes != NULL ? "write" : "ftruncate";
    if (created >= 0 && shmem_fill(created, bytes, size) == 0) {
        call = "fcntl(F_ADD_SEALS)";
        if (fcntl(created, F_ADD_SEALS, seals) == 0) {
            *fd = created;
            return AQ_OK;
        }
    }
    aq_status status = shmem_fail(errno, call, name, size);
    if (created >= 0) close(created);
    return status;
}

aq_status aqi_shmem_create(const char *name, size_t size, int *fd)
{
    return shmem_make(name, NULL, size, fd);
}

aq_status aqi_shmem_freeze(const char *name, const void *bytes, size_t size, int *fd)
{
    return shmem_make(name, bytes, size, fd);
}

aq_status aqi_shmem_map(int fd, size_t size, void **addr)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return aqi_fail_errno(AQ_EPROTO, errno, "base",
                              "descriptor %d does not refer to memory that can be sealed", fd);
    if ((seals & F_SEAL_SHRINK) == 0)
        return aqi_fail(AQ_EPROTO, "base",
                        "the memory behind descriptor %d is not sealed: its owner could shrink it "
                        "while it is in use",
                        fd);
    struct stat info;
    if (fstat(fd, &info) != 0)
        return aqi_fail_errno(AQ_ESYS, errno, "base", "fstat of descriptor %d failed", fd);
    if (size == 0 || info.st_size < 0 || (uint64_t)info.st_size < size)
        return aqi_fail(AQ_EPROTO, "base",
                        "the memory behind descriptor %d has %lld bytes instead of %zu", fd,
                        (long long)info.st_size, size);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) {
        *addr = at;
        return AQ_OK;
    }
    int err = errno;
    if (err == EAGAIN)
        return aqi_fail_errno(AQ_ELIMIT, err, "base",
                              "mapping %zu bytes of shared memory would exceed the limit on locked "
                              "memory (%llu bytes): raise it with `ulimit -l unlimited`",
                              size, shmem_limit(RLIMIT_MEMLOCK));
    if (err == ENOMEM && shmem_limit(RLIMIT_AS) != RLIM_INFINITY)
        return aqi_fail_errno(AQ_ELIMIT, err, "base",
                              "cannot map %zu bytes of shared memory (the address space is limited "
                              "to %llu bytes: raise it with `ulimit -v unlimited`)",
                              size, shmem_limit(RLIMIT_AS));
    aq_status status = err == ENOMEM                   ? AQ_ENOMEM
                       : err == EACCES || err == EPERM ? AQ_EACCESS
                                                       : AQ_ESYS;
    return aqi_fail_errno(status, err, "base", "cannot map %zu bytes of shared memory", size);
}

aq_status aqi_shmem_new(const char *name, size_t size, int *fd, void **addr)
{
    int created = -1;
    aq_status status = aqi_shmem_create(name, size, &created);
    if (status != AQ_OK) return status;
    status = aqi_shmem_map(created, size, addr);
    if (status == AQ_OK)
        *fd = created;
    else
        close(created);
    return status;
}

void aqi_shmem_unmap(void *addr, size_t size)
{
    if (addr != NULL) munmap(addr, size);
}
