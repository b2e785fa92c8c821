/*
 * fi: wait objects. A queue or counter gets a descriptor of its own when the program asks for it:
 * the library's, which many may sleep on, for what has to be progressed, and a kick for what
 * another thread has written meanwhile.
 */
#include "front/fi/fi.h"

#include "base/kick.h"

#include <errno.h>
#include <sys/epoll.h>

bool afi_waits(enum fi_wait_obj obj)
{
    return obj == FI_WAIT_NONE || obj == FI_WAIT_UNSPEC || obj == FI_WAIT_FD ||
           obj == FI_WAIT_YIELD;
}

void afi_wait_init(struct afi_wait *wait, enum fi_wait_obj obj)
{
    *wait =
        (struct afi_wait){.obj = obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : obj, .fd = -1, .kick = -1};
}

void afi_wait_close(struct afi_wait *wait)
{
    if (wait->fd >= 0) close(wait->fd);
    if (wait->kick >= 0) close(wait->kick);
    wait->fd = wait->kick = -1;
    wait->armed = false;
}

static bool wait_add(const struct afi_wait *wait, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(wait->fd, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

static int wait_make(struct afi_wait *wait)
{
    if (wait->fd >= 0) return 0;
    wait->kick = aqi_kick_new();
    wait->fd = epoll_create1(EPOLL_CLOEXEC);
    if (wait->kick >= 0 && wait->fd >= 0 && wait_add(wait, wait->kick)) return 0;
    int err = errno;
    afi_wait_close(wait);
    return -err;
}

int afi_wait_control(struct afi_wait *wait, int command, void *arg)
{
    if (command == FI_GETWAITOBJ) {
        *(enum fi_wait_obj *)arg = wait->obj;
        return 0;
    }
    if (command != FI_GETWAIT || wait->obj != FI_WAIT_FD) return -FI_ENOSYS;
    afi_lock();
    int err = wait_make(wait);
    afi_unlock();
    if (err == 0) *(int *)arg = wait->fd;
    return err;
}

bool afi_wait_prepare(struct afi_wait *wait)
{
    if (wait->fd < 0) return true;
    (void)aqi_kick_take(wait->kick);
    wait->armed = true;
    return !afi.open || wait_add(wait, afi.fd);
}

AQI_COLD void afi_wait_wake(struct afi_wait *wait)
{
    wait->armed = false;
    aqi_kick(wait->kick);
}
