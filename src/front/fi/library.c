/* fi: the provider's copy of Aqueduct, progress and waiting. */
#include "front/fi/fi.h"

#include "base/shmem.h"
#include "lib/alone.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static int library_turn(void);

struct afi afi = {.thread = {.lock = &afi.lock, .turn = library_turn}};

enum {
    LIBRARY_EVENTS = 64, /* rounds of progress between checks for connection events */
    LIBRARY_NAP_MS = 10, /* maximum sleep: another thread may write the completion meanwhile */
    LIBRARY_ROUND_MS = 200,
    LIBRARY_MS = 1000000, /* in ns */
    LIBRARY_SWEEP_NS = 100 * LIBRARY_MS,
    LIBRARY_MOST = 2048 /* maximum connections before unused ones are closed */
};

/* --- opening --------------------------------------------------------------------------------- */

/* Each connection uses several descriptors, and the program also needs some. */
static uint32_t library_most(void)
{
    return (uint32_t)aqi_min(aqi_fd_limit() / 8, LIBRARY_MOST);
}

int afi_library_open(void)
{
    if (afi.open) return 0;
    aqi_list_init(&afi.eps);
    aqi_list_init(&afi.active);
    aqi_list_init(&afi.fetches);
    aqi_list_init(&afi.callers);
    aqi_pool_init(&afi.op_pool, sizeof(struct afi_op), 64, false);
    aqi_pool_init(&afi.rx_pool, sizeof(struct afi_rx), 64, false);
    aq_status st = lib_alone_open("fi", afi_peer_may_access, &afi.world);
    if (st == AQ_OK) st = aq_wait_fd(&afi.thread.fd);
    if (st == AQ_OK) st = afi_wire_open();
    if (st != AQ_OK) {
        lib_alone_close();
        return afi_error(st);
    }
    afi.up = 0;
    afi.lost = 0;
    afi.most = library_most();
    afi.sweep_ns = LIBRARY_SWEEP_NS;
    afi.open = true;
    return 0;
}

void afi_library_close(void)
{
    if (!afi.open) return;
    afi.open = false;
    lib_alone_close();
    (void)aqi_pool_destroy(&afi.op_pool);
    (void)aqi_pool_destroy(&afi.rx_pool);
    aqi_stash_drop(&afi.stash);
}

int afi_error(aq_status st)
{
    switch (st) {
    case AQ_OK:
        return 0;
    case AQ_AGAIN:
        return -FI_EAGAIN;
    case AQ_ENOMEM:
        return -FI_ENOMEM;
    case AQ_EPEER:
        return -FI_ECONNRESET;
    case AQ_EREFUSED:
        return -FI_ECONNREFUSED;
    case AQ_ETIMEOUT:
        return -FI_ETIMEDOUT;
    case AQ_EACCESS:
        return -FI_EACCES;
    case AQ_ENOTSUP:
        return -FI_ENODATA;
    case AQ_ELIMIT:
        return -FI_EMFILE;
    case AQ_EINVAL:
        return -FI_EINVAL;
    default:
        return -FI_EOTHER;
    }
}

const char *afi_strerror(int error, char *buf, size_t len)
{
    const char *text = fi_strerror(error < 0 ? -error : error);
    if (buf != NULL && len != 0) snprintf(buf, len, "%s", text);
    return text;
}

void afi_use(uint32_t *users)
{
    afi_lock();
    ++*users;
    afi_unlock();
}

bool afi_release(const uint32_t *users, uint32_t *owner)
{
    afi_lock();
    bool busy = *users != 0;
    if (!busy) --*owner;
    afi_unlock();
    return !busy;
}

/* --- progress -------------------------------------------------------------------------------- */

static void library_events(void)
{
    aq_connection_event event;
    while (aq_connection_next_event(&event) == AQ_OK)
        afi_peer_event(&event);
    afi_peer_forget();
}

void afi_progress(void)
{
    if (AQI_UNLIKELY(!afi.open)) return; /* an event queue without a domain */
    uint32_t sent = afi.sent;
    (void)aq_poll();
    uint32_t rounds = lib_alone_thread_called(&afi.thread);
    if (afi.calling != 0 || rounds % LIBRARY_EVENTS == 0) library_events();
    if (AQI_UNLIKELY(!aqi_list_is_empty(&afi.callers))) afi_peer_call_more();
    if (!aqi_list_is_empty(&afi.fetches)) afi_fetch_progress();
    for (struct aqi_node *at = afi.active.next, *next; at != &afi.active; at = next) {
        next = at->next;
        afi_wire_push(AQI_OF(at, struct afi_peer, active));
    }
    /* Flush: peers wait for these messages, and the program may compute next. */
    if (AQI_UNLIKELY(afi.sent != sent)) (void)aq_poll();
}

uint64_t afi_deadline(int timeout)
{
    return timeout >= 0 ? aqi_now_ns() + (uint64_t)timeout * LIBRARY_MS : UINT64_MAX;
}

bool afi_may_sleep(void)
{
    afi_peer_call_more();
    return aqi_list_is_empty(&afi.fetches) && aqi_list_is_empty(&afi.active) &&
           aq_wait_prepare() == AQ_OK;
}

bool afi_settle(void)
{
    if (!afi.open) return true;
    afi_progress();
    library_events();
    return afi_may_sleep();
}

bool afi_sleep(uint64_t deadline)
{
    struct pollfd fd = {.fd = afi.open ? afi.thread.fd : -1, .events = POLLIN};
    uint64_t now = aqi_now_ns();
    if (now >= deadline) return false;
    if (afi.open) library_events();
    bool go = !afi.open || afi_may_sleep();
    afi_unlock();
    if (go)
        (void)poll(&fd, 1, (int)aqi_min((deadline - now) / LIBRARY_MS + 1, LIBRARY_NAP_MS));
    else
        sched_yield();
    afi_lock();
    return true;
}

/* --- the progress thread --------------------------------------------------------------------- */

static unsigned library_thread_users;

static int library_turn(void)
{
    return afi_settle() ? LIBRARY_ROUND_MS : 0;
}

int afi_thread_start(void)
{
    if (library_thread_users++ != 0) return 0;
    int err = lib_alone_thread_start(&afi.thread);
    if (err != 0) library_thread_users--;
    return -err;
}

void afi_thread_stop(void)
{
    if (--library_thread_users == 0) lib_alone_thread_stop(&afi.thread);
}

/* --- pieces of memory ------------------------------------------------------------------------ */

unsigned afi_iov_part(const struct iovec *iov, unsigned count, size_t at, size_t len,
                      struct iovec *part)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count && len != 0; i++) {
        if (at >= iov[i].iov_len) {
            at -= iov[i].iov_len;
            continue;
        }
        part[n] = (struct iovec){.iov_base = (unsigned char *)iov[i].iov_base + at,
                                 .iov_len = aqi_min(len, iov[i].iov_len - at)};
        len -= part[n++].iov_len;
        at = 0;
    }
    return n;
}

unsigned afi_iov_pieces(const struct iovec *iov, unsigned count, struct afi_piece *pieces)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        if (iov[i].iov_len != 0)
            pieces[n++] =
                (struct afi_piece){.addr = (uintptr_t)iov[i].iov_base, .len = iov[i].iov_len};
    return n;
}

void afi_iov_scatter_many(const struct iovec *iov, unsigned count, size_t at, const void *bytes,
                          size_t len)
{
    const unsigned char *from = bytes;
    struct iovec part[AFI_IOVS];
    count = afi_iov_part(iov, count, at, len, part);
    for (unsigned i = 0; i < count; from += part[i++].iov_len)
        memcpy(part[i].iov_base, from, part[i].iov_len);
}
