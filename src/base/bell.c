/* Bells, and waking a process that sleeps on a datagram socket. */
#include "base/bell.h"

#include "base/fail.h"
#include "base/shmem.h"
#include "base/stats.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* --- sockets --------------------------------------------------------------------------------- */

aq_status aqi_wake_open(int *out, struct sockaddr_un *name, uint32_t *name_len, uint64_t *network)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return aqi_fail_no_fd(errno, "base", "cannot create the wake-up socket");
    /* Autobind: the kernel picks a free abstract name. */
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(*name), cookie_len = sizeof(*network);
    if (bind(fd, (struct sockaddr *)&any, sizeof(sa_family_t)) != 0 ||
        getsockname(fd, (struct sockaddr *)name, &len) != 0) {
        int err = errno;
        close(fd);
        return aqi_fail_errno(AQ_ESYS, err, "base", "cannot bind the wake-up socket");
    }
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, network, &cookie_len) != 0) *network = 0;
    *name_len = len;
    *out = fd;
    return AQ_OK;
}

bool aqi_wake_send(int socket, const struct sockaddr_un *to, uint32_t len)
{
    const struct sockaddr_un copy = *to; /* its owner may change it */
    /* Abstract names only: a peer could name a socket file that it may not write to, but we may. */
    if (len > sizeof(copy) || len <= sizeof(sa_family_t) || copy.sun_path[0] != 0) return true;
    /* A full queue already holds a byte that wakes the process. */
    if (sendto(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&copy, len) >=
        0) {
        aqi_count(AQI_CTR_WAKE_SENT, 1);
        return true;
    }
    return errno != ECONNREFUSED && errno != ENOENT;
}

void aqi_wake_drain(int socket)
{
    enum { MOST = 64 };
    char bytes[64];
    for (int i = 0; i < MOST && recv(socket, bytes, sizeof(bytes), MSG_DONTWAIT) >= 0; i++)
        ;
}

/* --- bells ----------------------------------------------------------------------------------- */

aq_status aqi_bell_open(struct aqi_bell *bell)
{
    void *at = NULL;
    *bell = (struct aqi_bell){.fd = -1, .socket = -1};
    aq_status st = aqi_shmem_new("aq-bell", sizeof(*bell->memory), &bell->fd, &at);
    bell->memory = at;
    if (st == AQ_OK)
        st = aqi_wake_open(&bell->socket, &bell->memory->wake, &bell->memory->wake_len,
                           &bell->memory->network);
    if (st != AQ_OK) aqi_bell_close(bell);
    return st;
}

void aqi_bell_close(struct aqi_bell *bell)
{
    if (bell->memory != NULL) aqi_bell_unmap(bell->memory);
    if (bell->fd >= 0) close(bell->fd);
    if (bell->socket >= 0) close(bell->socket);
    *bell = (struct aqi_bell){.fd = -1, .socket = -1};
}

aq_status aqi_bell_map(int fd, struct aqi_bell_memory **memory)
{
    void *at;
    aq_status st = aqi_shmem_map(fd, sizeof(**memory), &at);
    if (st == AQ_OK) *memory = at;
    return st;
}

void aqi_bell_unmap(struct aqi_bell_memory *memory)
{
    aqi_shmem_unmap(memory, sizeof(*memory));
}

bool aqi_bell_ring(const struct aqi_bell_rope *rope)
{
    struct aqi_bell_memory *memory = rope->memory;
    atomic_fetch_or(&memory->bits[rope->bit / 64], UINT64_C(1) << rope->bit % 64);
    /* Read by aqi_bell_take. */
    atomic_exchange(&memory->rung, 1);
    /* Sequentially consistent, as in aqi_bell_arm: we see that it sleeps, or it sees the ring. */
    if (AQI_LIKELY(atomic_load(&memory->asleep) == 0) || !rope->wakes) return true;
    /* One ringer wakes it; the others see 0. */
    if (atomic_exchange(&memory->asleep, 0) == 0) return true;
    return aqi_wake_send(rope->socket, &memory->wake, memory->wake_len);
}

void aqi_bell_take(struct aqi_bell *bell, uint32_t count, void (*fn)(uint32_t bit))
{
    atomic_exchange(&bell->memory->rung, 0);
    for (uint32_t first = 0; first < count; first += 64) {
        _Atomic uint64_t *word = &bell->memory->bits[first / 64];
        if (AQI_LIKELY(atomic_load_explicit(word, memory_order_relaxed) == 0)) continue;
        for (uint64_t bits = atomic_exchange(word, 0); bits != 0; bits &= bits - 1) {
            uint32_t bit = first + (uint32_t)__builtin_ctzll(bits);
            if (bit < count) fn(bit);
        }
    }
}

bool aqi_bell_arm(struct aqi_bell *bell)
{
    atomic_store(&bell->memory->asleep, 1);
    if (atomic_load(&bell->memory->rung) == 0) return true;
    atomic_store_explicit(&bell->memory->asleep, 0, memory_order_relaxed);
    return false;
}

void aqi_bell_disarm(struct aqi_bell *bell)
{
    atomic_store_explicit(&bell->memory->asleep, 0, memory_order_relaxed);
    aqi_wake_drain(bell->socket);
}
