/*
 * shm: sleeping and waking. A receiver that is about to sleep says so in its inbox; a process that
 * then sends to it also sends a byte to its datagram socket, whose descriptor it waits on. Senders
 * pay one load of a line that rarely changes.
 */
#include "base/fail.h"
#include "base/shmem.h"
#include "base/stats.h"
#include "transport/shm/shm_impl.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static int shm_wake_membarrier(int command)
{
    return (int)syscall(__NR_membarrier, command, 0u, 0);
}

void shm_barrier(const struct shm_tp *shm)
{
    if (shm->membarrier)
        shm_wake_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

aq_status shm_wake_open(struct shm_tp *shm)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return aqi_fail_no_fd(errno, "shm", "making the wake-up socket");
    /* Autobind: the kernel picks a free abstract name, which vanishes with the socket. */
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(shm->inbox->wake);
    if (bind(fd, (struct sockaddr *)&any, sizeof(sa_family_t)) != 0 ||
        getsockname(fd, (struct sockaddr *)&shm->inbox->wake, &len) != 0) {
        int err = errno;
        close(fd);
        return aqi_fail_errno(AQ_ESYS, err, "shm", "cannot bind the wake-up socket");
    }
    shm->inbox->wake_len = len;
    uint64_t network = 0;
    socklen_t network_len = sizeof(network);
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &network, &network_len) != 0) network = 0;
    shm->inbox->network = network;
    shm->membarrier = shm_wake_membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
    shm->inbox->fence = !shm->membarrier;
    shm->wake_socket = fd;
    return AQ_OK;
}

void shm_wake_close(struct shm_tp *shm)
{
    if (shm->wake_socket >= 0) close(shm->wake_socket);
}

AQI_COLD void shm_wake(struct shm_tp *shm, struct shm_peer *peer)
{
    struct shm_inbox *inbox = peer->inbox;
    /* One sender wakes it; the others see 0. */
    if (atomic_exchange_explicit(&inbox->asleep, 0, memory_order_acq_rel) == 0) return;
    struct sockaddr_un to = inbox->wake;
    socklen_t len = inbox->wake_len;
    /*
     * Only where the kernel has bound it; a stranger could name a socket that only we may write to.
     */
    if (len > sizeof(to) || len <= sizeof(sa_family_t) || to.sun_path[0] != 0) return;
    /*
     * A full queue has a byte that wakes it already; a missing socket means that the process has
     * ended.
     */
    if (sendto(shm->wake_socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, len) >=
        0) {
        aqi_count(AQI_CTR_WAKE_SENT, 1);
    } else if (errno == ECONNREFUSED || errno == ENOENT) {
        /* The sender may hold locks that the hook needs, so progress calls it. */
        peer->lost = true;
        atomic_store_explicit(&shm->some_lost, true, memory_order_release);
    }
}

/*
 * Names of sockets belong to a network namespace. A process with peers in another one takes short
 * naps and is never armed, as a name there could belong to a stranger, or to no process.
 */
int shm_wait_fd(struct aqi_tp *tp)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    return shm->apart ? -1 : shm->wake_socket;
}

aq_status shm_arm(struct aqi_tp *tp, bool on)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    if (AQI_UNLIKELY(shm->apart)) return on && shm_has_arrivals(shm) ? AQ_AGAIN : AQ_OK;
    if (!on) {
        char bytes[64];
        atomic_store_explicit(&shm->inbox->asleep, 0, memory_order_relaxed);
        for (int i = 0; i < 64 && recv(shm->wake_socket, bytes, sizeof(bytes), MSG_DONTWAIT) >= 0;
             i++)
            ;
        return AQ_OK;
    }
    atomic_store_explicit(&shm->inbox->asleep, 1, memory_order_seq_cst);
    /*
     * Every processor that runs a sender passes a barrier here: messages published before are
     * visible below, and after later ones, the sender checks our word. Without membarrier the
     * senders fence (inbox->fence), and this fence is our half.
     */
    shm_barrier(shm);
    if (!shm_has_arrivals(shm)) return AQ_OK;
    atomic_store_explicit(&shm->inbox->asleep, 0, memory_order_relaxed);
    return AQ_AGAIN;
}
