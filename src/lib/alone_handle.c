/* Descriptors on which the programs of front ends sleep: see alone.h. */
#include "base/kick.h"
#include "lib/alone.h"

#include <errno.h>
#include <sys/epoll.h>

bool lib_alone_handle_watch(const struct lib_alone_handle *handle, int fd, bool on)
{
    struct epoll_event event = {.events = EPOLLIN};
    int done = on ? EEXIST : ENOENT;
    return epoll_ctl(handle->fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event) == 0 ||
           errno == done;
}

int lib_alone_handle_open(struct lib_alone_handle *handle)
{
    *handle = (struct lib_alone_handle){.fd = epoll_create1(EPOLL_CLOEXEC), .kick = -1};
    if (handle->fd >= 0) handle->kick = aqi_kick_new();
    if (handle->kick >= 0 && lib_alone_handle_watch(handle, handle->kick, true)) return 0;
    int err = errno;
    lib_alone_handle_close(handle);
    return err;
}

void lib_alone_handle_close(struct lib_alone_handle *handle)
{
    if (handle->fd >= 0) close(handle->fd);
    if (handle->kick >= 0) close(handle->kick);
    *handle = (struct lib_alone_handle){.fd = -1, .kick = -1};
}
