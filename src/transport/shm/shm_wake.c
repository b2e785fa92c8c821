/*
 * shm: sleeping and waking. A receiver that is about to sleep announces this in its inbox; a
 * process that then sends to it also sends a byte to its datagram socket, on which it waits. A
 * receiver that rests (transport.h) has its bell rung instead. Senders pay one load of a line that
 * rarely changes.
 */
#include "base/fail.h"
#include "base/membarrier.h"
#include "transport/shm/shm_impl.h"

void shm_barrier(const struct shm_tp *shm)
{
    if (shm->membarrier)
        aqi_membarrier();
    else
        atomic_thread_fence(memory_order_seq_cst);
}

aq_status shm_wake_open(struct shm_tp *shm)
{
    struct shm_inbox *inbox = shm->inbox;
    const struct aqi_bell_memory *bell = shm->params.bell.memory;
    aq_status st = AQ_OK;
    if (bell != NULL)
        inbox->network = bell->network;
    else
        st = aqi_wake_open(&shm->wake_socket, &inbox->wake, &inbox->wake_len, &inbox->network);
    if (st != AQ_OK) return st;
    shm->membarrier = aqi_membarrier_register();
    inbox->fence = !shm->membarrier;
    return AQ_OK;
}

void shm_wake_close(struct shm_tp *shm)
{
    if (shm->wake_socket >= 0) close(shm->wake_socket);
}

/* Returns false if the peer's process has ended. */
static bool shm_wake_notify(const struct shm_tp *shm, const struct shm_peer *peer)
{
    struct shm_inbox *inbox = peer->inbox;
    bool rests = atomic_load_explicit(&inbox->asleep, memory_order_relaxed) == SHM_RESTS;
    if (rests && peer->peer.bell.memory != NULL) return aqi_bell_ring(&peer->peer.bell);
    /* One sender wakes it; the others see 0. */
    if (rests ||
        atomic_exchange_explicit(&inbox->asleep, SHM_AWAKE, memory_order_acq_rel) == SHM_AWAKE)
        return true;
    int from = shm->wake_socket >= 0 ? shm->wake_socket : shm->params.bell.socket;
    return aqi_wake_send(from, &inbox->wake, inbox->wake_len);
}

AQI_COLD void shm_wake(struct shm_tp *shm, struct shm_peer *peer)
{
    if (shm_wake_notify(shm, peer)) return;
    /* The sender may hold locks that the hook needs, so progress calls it. */
    peer->lost = true;
    atomic_store_explicit(&shm->some_lost, true, memory_order_release);
    if (shm->params.bell.memory != NULL) (void)aqi_bell_ring(&shm->params.bell);
}

/*
 * Names of sockets belong to a network namespace. A process with peers in another namespace takes
 * short naps and is never armed, since its name there could belong to another process or to none.
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
        atomic_store_explicit(&shm->inbox->asleep, SHM_AWAKE, memory_order_relaxed);
        aqi_wake_drain(shm->wake_socket);
        return AQ_OK;
    }
    atomic_store_explicit(&shm->inbox->asleep, SHM_ASLEEP, memory_order_seq_cst);
    /*
     * Every processor that runs a sender passes a barrier here: messages published before it are
     * visible below, and senders of later ones see our word. Without membarrier, the senders fence
     * (inbox->fence), and this fence is the counterpart.
     */
    shm_barrier(shm);
    if (!shm_has_arrivals(shm)) return AQ_OK;
    atomic_store_explicit(&shm->inbox->asleep, SHM_AWAKE, memory_order_relaxed);
    return AQ_AGAIN;
}

/* Likewise with a bell, except that the caller issues the barrier. */
aq_status shm_rest(struct aqi_tp *tp, enum aqi_rest step)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    if (step == AQI_REST_CHECK) return shm_has_arrivals(shm) ? AQ_AGAIN : AQ_OK;
    atomic_store_explicit(&shm->inbox->asleep, step == AQI_REST_BEGIN ? SHM_RESTS : SHM_AWAKE,
                          memory_order_seq_cst);
    return AQ_OK;
}
