/*
 * shm: memory of a peer that is not mapped here, by cross-memory attach (process_vm_readv and
 * process_vm_writev). Slower than messages while the peer polls, since the kernel pins page by
 * page, but it works without progress of the peer, so it is used for peers that do not poll.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/touch.h"
#include "transport/shm/shm_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * A peer is watched for WATCH_NS, which covers the copying of a fragment. If it polls LEAST_ROUNDS
 * times meanwhile, it waits in a loop, rather than making a call or two. That holds for VERDICT_NS;
 * that it does not, for ABSENT_NS, doubled each time up to ABSENT_TIMES times.
 */
enum { WATCH_NS = 3000, LEAST_ROUNDS = 2, VERDICT_NS = 10000, ABSENT_NS = 20000 };
#define ABSENT_TIMES 5u

/*
 * A sleeping peer copies its half once it is awake. Waking it takes as long as moving WAKE_BYTES by
 * CMA, and each call takes as long as moving CALL_BYTES.
 */
enum { WAKE_BYTES = 384 << 10, CALL_BYTES = 16 << 10 };

/* Below the maximum of one call (2 GiB less a page). */
#define MOST_AT_ONCE ((size_t)1 << 30)

aq_status shm_cma_open(struct shm_tp *shm)
{
    uint32_t ranks = shm->layout.ranks;
    shm->proof = calloc(1, sizeof(*shm->proof) + ranks * sizeof(shm->proof->written[0]));
    if (shm->proof == NULL) return aqi_fail(AQ_ENOMEM, "shm", "no memory for %u peers", ranks);
    aq_status st = aqi_random(&shm->proof->cookie, sizeof(shm->proof->cookie), "shm");
    if (st != AQ_OK) return st;
    shm->inbox->pid = (uint32_t)getpid();
    shm->inbox->proof = (uint64_t)(uintptr_t)shm->proof;
    shm->inbox->cookie = shm->proof->cookie;
    return AQ_OK;
}

const char *shm_cma_state(const struct shm_tp *shm)
{
    static const char *const found[] = {
        [SHM_CMA_UNTRIED] = "cma not tried",
        [SHM_CMA_WORKS] = "cma works",
        [SHM_CMA_FAILS] = "cma not possible",
    };
    return shm_config.cma == SHM_CMA_NO ? "cma off" : found[atomic_load(&shm->cma_found)];
}

/* --- moving ---------------------------------------------------------------------------------- */

/* Make one call, which may be partial. Returns the number of bytes; 0 with errno set on failure. */
static size_t shm_cma_move_once(const struct shm_peer *peer, bool write, const struct iovec *here,
                                unsigned count, uint64_t there, size_t len)
{
    struct iovec remote = {(void *)(uintptr_t)there, len};
    pid_t pid = (pid_t)peer->inbox->pid;
    ssize_t n = write ? process_vm_writev(pid, here, count, &remote, 1, 0)
                      : process_vm_readv(pid, here, count, &remote, 1, 0);
    if (n == 0) errno = EFAULT;
    return n > 0 ? (size_t)n : 0;
}

static bool shm_cma_move_word(const struct shm_peer *peer, bool write, uint64_t *word,
                              uint64_t there)
{
    struct iovec here = {word, sizeof(*word)};
    return shm_cma_move_once(peer, write, &here, 1, there, sizeof(*word)) == sizeof(*word);
}

static void shm_cma_give_up(struct shm_tp *shm, struct shm_peer *peer, int err)
{
    atomic_store(&shm->cma_error, err);
    atomic_store(&peer->cma, SHM_CMA_FAILS);
    atomic_store(&shm->cma_found, SHM_CMA_FAILS);
}

/* Reported because puts and gets take another path, which the program may notice. */
static AQI_COLD void shm_cma_warn(const struct shm_tp *shm, const struct shm_peer *peer)
{
    static atomic_bool said;
    if (shm->params.stranger) return;
    aqi_log_once(
        &said, shm->params.local_rank == 0 ? AQI_LOG_WARN : AQI_LOG_INFO, "shm",
        "memory of peer %u (process %u) outside the shared segments cannot be accessed directly "
        "(%s), so its owner must poll for every put and get: put the processes in one pid "
        "namespace, set kernel.yama.ptrace_scope=0, let seccomp allow process_vm_readv, or run the "
        "container with CAP_SYS_PTRACE; set AQ_SHM_CMA=no if this is intended",
        peer->peer.id, peer->inbox->pid, strerror(atomic_load(&shm->cma_error)));
}

/*
 * Try CMA on real memory of the peer: read a value that only the peer can know, write another, and
 * read that back.
 */
static AQI_COLD bool shm_cma_try_out(struct shm_tp *shm, struct shm_peer *peer)
{
    const struct shm_inbox *inbox = peer->inbox;
    uint64_t cookie = 0, seen = 0, mark = inbox->cookie ^ (shm->params.local_rank + 1u);
    uint64_t place = inbox->proof + offsetof(struct shm_proof, written) +
                     shm->params.local_rank * sizeof(uint64_t);
    errno = ESRCH;
    if (shm_cma_move_word(peer, false, &cookie, inbox->proof) && cookie != inbox->cookie)
        errno = ESRCH; /* another process: the peer's pid is of another pid namespace */
    else if (cookie == inbox->cookie && shm_cma_move_word(peer, true, &mark, place) &&
             shm_cma_move_word(peer, false, &seen, place) && seen == mark) {
        atomic_store(&peer->cma, SHM_CMA_WORKS);
        atomic_store(&shm->cma_found, SHM_CMA_WORKS);
        return true;
    }
    shm_cma_give_up(shm, peer, errno);
    return false;
}

static inline bool shm_cma_possible(struct shm_tp *shm, struct shm_peer *peer)
{
    uint8_t cma = atomic_load_explicit(&peer->cma, memory_order_relaxed);
    return cma == SHM_CMA_WORKS || (cma == SHM_CMA_UNTRIED && shm_cma_try_out(shm, peer));
}

/* --- whether CMA is better ------------------------------------------------------------------- */

/* Whether the verdict that is valid until this time still holds. */
static bool shm_cma_holds(_Atomic uint64_t *until, uint64_t now)
{
    return (int64_t)(atomic_load_explicit(until, memory_order_relaxed) - now) > 0;
}

/* Watch whether the peer polls in a loop or takes our messages, and so would copy its half soon. */
static bool shm_cma_polls(struct shm_peer *peer)
{
    const _Atomic uint32_t *done = peer->tx[SHM_REQUESTS].done;
    uint64_t now = aqi_now_ns();
    if (shm_cma_holds(&peer->attends_until, now)) return true;
    if (shm_cma_holds(&peer->absent_until, now)) return false;
    uint32_t rounds = atomic_load_explicit(&peer->inbox->rounds, memory_order_relaxed);
    uint32_t taken = atomic_load_explicit(done, memory_order_relaxed);
    do {
        if (atomic_load_explicit(&peer->inbox->rounds, memory_order_relaxed) - rounds >=
                LEAST_ROUNDS ||
            atomic_load_explicit(done, memory_order_relaxed) != taken) {
            uint64_t until = aqi_now_ns() + VERDICT_NS;
            atomic_store_explicit(&peer->attends_until, until, memory_order_relaxed);
            atomic_store_explicit(&peer->absent_times, 0, memory_order_relaxed);
            return true;
        }
        aqi_pause();
    } while (aqi_now_ns() - now < WATCH_NS);
    uint32_t times = atomic_load_explicit(&peer->absent_times, memory_order_relaxed);
    uint64_t hold = (uint64_t)ABSENT_NS << times;
    atomic_store_explicit(&peer->absent_until, now + hold, memory_order_relaxed);
    atomic_store_explicit(&peer->absent_times, times < ABSENT_TIMES ? times + 1 : times,
                          memory_order_relaxed);
    return false;
}

/* Whether CMA has by now cost as much as waking the peer would have. */
static bool shm_cma_worth_waking(struct shm_peer *peer, size_t len)
{
    uint64_t debt = atomic_load_explicit(&peer->debt, memory_order_relaxed) + len + CALL_BYTES;
    bool enough = debt > WAKE_BYTES;
    atomic_store_explicit(&peer->debt, enough ? 0 : debt, memory_order_relaxed);
    return enough;
}

/*
 * Whether the kernel copies so fast that a polling owner cannot speed it up. Messages let two
 * processes copy at once, but through separate caches; if CMA needs less than FAST_QUARTERS / 4 of
 * the time of a memcpy, it was the better way from FAST_LEAST to FAST_MOST (docs/measurements.md:
 * 2.3 to 3 times there, 5 and 8 on machines where messages are better). Measured by copying within
 * this process.
 */
enum { FAST_LEAST = 16 << 10, FAST_MOST = 1 << 20, FAST_QUARTERS = 14 };

static AQI_COLD bool shm_cma_time_kernel(void)
{
    enum { LEN = 64 << 10, TIMES = 8 };
    unsigned char *from = calloc(2, LEN);
    uint64_t kernel = UINT64_MAX, user = UINT64_MAX;
    if (from == NULL) return false;
    unsigned char *to = from + LEN;
    for (int i = 0; i < TIMES; i++) {
        struct iovec local = {to, LEN}, remote = {from, LEN};
        uint64_t t0 = aqi_now_ns();
        ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        uint64_t t1 = aqi_now_ns();
        memcpy(from, to, LEN);
        user = aqi_min(user, aqi_now_ns() - t1);
        if (n == LEN) kernel = aqi_min(kernel, t1 - t0);
    }
    free(from);
    return kernel < user / 4 * FAST_QUARTERS;
}

static bool shm_cma_kernel_is_fast(void)
{
    static _Atomic int found = -1; /* threads that measure at once get about the same result */
    int fast = atomic_load_explicit(&found, memory_order_relaxed);
    if (AQI_UNLIKELY(fast < 0)) {
        fast = shm_cma_time_kernel();
        atomic_store_explicit(&found, fast, memory_order_relaxed);
    }
    return fast != 0;
}

static bool shm_cma_fast_size(size_t len)
{
    if (shm_config.cma_least != 0) return len >= shm_config.cma_least;
    return len >= FAST_LEAST && len <= FAST_MOST && shm_cma_kernel_is_fast();
}

bool shm_cma_better(struct shm_tp *shm, struct shm_peer *peer, size_t len)
{
    if (shm_config.cma == SHM_CMA_NO) return false;
    if (!shm_cma_possible(shm, peer)) {
        shm_cma_warn(shm, peer);
        return false;
    }
    if (shm_config.cma == SHM_CMA_ALWAYS) return true;
    if (len == 0) return false; /* a call with 0 bytes tests whether CMA is certain */
    if (shm_cma_fast_size(len)) return true;
    if (atomic_load_explicit(&peer->inbox->asleep, memory_order_relaxed))
        return !shm_cma_worth_waking(peer, len);
    return !shm_cma_polls(peer);
}

/* --- operations ------------------------------------------------------------------------------ */

/* Interpret the error of a call that moved nothing. If `folder` is NULL, the caller logs it. */
static AQI_COLD aq_status shm_cma_failure(struct shm_tp *shm, struct shm_peer *peer, int err,
                                          bool write, uint64_t there, const char *folder)
{
    switch (err) {
    case ESRCH:
        peer->lost = true;
        atomic_store_explicit(&shm->some_lost, true, memory_order_release);
        return AQ_EPEER;
    case EFAULT:
        return aqi_fail(AQ_ERANGE, folder,
                        "cannot %s peer %u (process %u) at 0x%llx: no memory is mapped there, or "
                        "it is protected (mprotect)",
                        write ? "write to" : "read from", peer->peer.id, peer->inbox->pid,
                        (unsigned long long)there);
    case ENOMEM:
        return AQ_ENOTSUP; /* no memory to pin pages; messages need none */
    default:
        shm_cma_give_up(shm, peer, err);
        return AQ_ENOTSUP;
    }
}

aq_status shm_cma_move(struct shm_tp *shm, struct shm_peer *peer, bool write, void *here,
                       uint64_t there, size_t len, const char *folder)
{
    for (size_t done = 0; done < len;) {
        struct iovec local = {(unsigned char *)here + done, aqi_min(len - done, MOST_AT_ONCE)};
        size_t n = shm_cma_move_once(peer, write, &local, 1, there + done, local.iov_len);
        if (AQI_UNLIKELY(n == 0 && errno == EFAULT)) {
            /* If it is our own memory, touching it raises a signal, whose handler may make it
             * accessible. */
            if (write)
                aqi_touch_read(local.iov_base, local.iov_len);
            else
                aqi_touch_write(local.iov_base, local.iov_len);
            n = shm_cma_move_once(peer, write, &local, 1, there + done, local.iov_len);
        }
        if (n == 0) return shm_cma_failure(shm, peer, errno, write, there + done, folder);
        done += n;
    }
    return AQ_OK;
}

aq_status shm_cma_pull(struct aqi_tp *tp, struct aqi_peer *peer, uint64_t addr, void *dst,
                       size_t len)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *from = (struct shm_peer *)peer;
    if (AQI_UNLIKELY(from->lost)) return AQ_EPEER;
    if (shm_config.cma == SHM_CMA_NO || !shm_cma_possible(shm, from)) return AQ_ENOTSUP;
    aq_status st = shm_cma_move(shm, from, false, dst, addr, len, NULL);
    /* A dying peer is reported as an event; any other failure is new, since CMA worked before. */
    return st == AQ_ENOTSUP
               ? aqi_fail(AQ_ESYS, "shm", "memory of peer %u is no longer accessible: %s", peer->id,
                          strerror(errno))
               : st;
}

/* Write the same block repeatedly. */
aq_status shm_cma_fill(struct shm_tp *shm, struct shm_peer *peer, uint64_t there, int byte,
                       size_t len)
{
    unsigned char block[4096];
    struct iovec local[64];
    memset(block, byte, aqi_min(len, sizeof(block)));
    for (size_t done = 0; done < len;) {
        unsigned count = 0;
        size_t planned = 0;
        while (count < AQI_COUNT_OF(local) && planned < len - done) {
            size_t n = aqi_min(len - done - planned, sizeof(block));
            local[count++] = (struct iovec){block, n};
            planned += n;
        }
        size_t n = shm_cma_move_once(peer, true, local, count, there + done, planned);
        if (n == 0) return shm_cma_failure(shm, peer, errno, true, there + done, "shm");
        done += n;
    }
    return AQ_OK;
}
