/* udp: one-sided operations and Longs. Any memory can be reached, so keys only grant access. */
#include "transport/udp/udp_impl.h"

#include "base/array.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/touch.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char udp_key[UDP_KEY] = {'u', 'd', 'p', '-', 'k', 'e', 'y', '1'};

/*
 * The `user` of a Long whose source must be reusable at once is the address of a copy. Its last bit
 * distinguishes it from the address of counters, which are aligned.
 */
#define COPY_BIT ((uintptr_t)1)

/* Keep a completion for the program's thread, whose counters are not shared. Returns false if there
 * is no need, or no memory. */
static bool udp_rma_keep(struct udp_tp *udp, const struct udp_completion *completion)
{
    if (AQI_LIKELY(!udp->idle.helping && !udp->touching)) return false;
    if (!aqi_array_reserve(&udp->kept, &udp->kept_room, udp->kept_count + 1, sizeof(*udp->kept)))
        return false;
    udp->kept[udp->kept_count++] = *completion;
    return true;
}

void udp_rma_report_kept(struct udp_tp *udp)
{
    if (udp->touching) return;
    for (size_t i = 0; i < udp->kept_count; i++)
        udp->kept[i].report(udp, udp->kept[i].user, udp->kept[i].status);
    udp->kept_count = 0;
}

void udp_rma_local(void *arg, void *user, aq_status status)
{
    uintptr_t at = (uintptr_t)user;
    if (udp_rma_keep(arg, &(struct udp_completion){udp_rma_local, user, status})) return;
    if (at & COPY_BIT) {
        free((void *)(at - COPY_BIT));
        return;
    }
    if (status != AQ_OK) aqi_comp_fail(user, status);
    aqi_comp_local(user);
}

void udp_rma_remote(void *arg, void *user, aq_status status)
{
    if (udp_rma_keep(arg, &(struct udp_completion){udp_rma_remote, user, status})) return;
    if (status != AQ_OK) aqi_comp_fail(user, status);
    aqi_comp_remote(user);
}

/* --- memory that the kernel could not read ---------------------------------------------------- */

static void udp_rma_found(void *arg, const void *addr, size_t len)
{
    struct udp_tp *udp = arg;
    if (aqi_array_reserve(&udp->touched, &udp->touched_room, udp->touched_count + 1,
                          sizeof(*udp->touched)))
        udp->touched[udp->touched_count++] =
            (struct iovec){.iov_base = (void *)(uintptr_t)addr, .iov_len = len};
}

unsigned udp_rma_touch(struct udp_tp *udp)
{
    udp_lock(udp);
    if (udp->touching) { /* by another thread: again later, for new sources */
        udp->unreadable = true;
        udp_unlock(udp);
        return 0;
    }
    udp->touching = true;
    udp->toucher = pthread_self();
    udp->touched_count = 0;
    aqi_dgram_sources(udp->dgram, udp_rma_found, udp);
    udp_unlock(udp);
    aqi_log(AQI_LOG_INFO, "udp",
            "memory to be sent could not be read: touching all %zu sources of pending transfers, "
            "so that this process gets the signal",
            udp->touched_count);
    for (size_t i = 0; i < udp->touched_count; i++)
        aqi_touch_read(udp->touched[i].iov_base, udp->touched[i].iov_len);
    udp_lock(udp);
    unsigned n = (unsigned)udp->kept_count;
    udp->touching = false;
    udp_rma_report_kept(udp);
    udp_unlock(udp);
    return n;
}

void udp_rma_left(struct udp_tp *udp)
{
    if (!pthread_equal(udp->toucher, pthread_self())) return;
    udp->touching = false;
    udp_rma_report_kept(udp);
}

const void *udp_rma_source(void *arg, const void *at, size_t len, void *copy)
{
    struct udp_tp *udp = arg;
    if (AQI_LIKELY(!udp->idle.helping)) return at;
    if (aqi_touch_copy(copy, at, len)) return copy;
    udp->unreadable = true;
    return NULL;
}

/* --- operations ------------------------------------------------------------------------------ */

static aq_status udp_rma_begun(struct udp_tp *udp, aq_status st)
{
    if (st == AQ_OK) udp_began(udp);
    udp_unlock(udp);
    return st;
}

aq_status udp_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    (void)rmem, (void)mem;
    if (len == 0) {
        aqi_comp_local(comp);
        aqi_comp_remote(comp);
        return AQ_OK;
    }
    aqi_touch_read(src, len);
    udp_lock(udp);
    return udp_rma_begun(udp,
                         aqi_dgram_put(udp->dgram, peer->id, addr, src, len, false, NULL, 0, comp));
}

aq_status udp_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    (void)rmem, (void)mem;
    if (len == 0) {
        aqi_comp_remote(comp);
        return AQ_OK;
    }
    aqi_touch_write(dst, len);
    udp_lock(udp);
    return udp_rma_begun(udp, aqi_dgram_get(udp->dgram, peer->id, addr, dst, len, comp));
}

/* Whether it travels in one message with its header. */
static bool udp_rma_packs(const struct udp_tp *udp, size_t nbytes)
{
    size_t apart = udp->params.long_apart;
    return nbytes <= UDP_PACKED_LONG && (apart == 0 || nbytes < apart);
}

/*
 * The payload is copied into packets with its header, and the layer above unpacks it at the peer;
 * no caller waits for an acknowledgement. A longer one is a put that its head follows: that layer
 * checks the range again and passes it on as a Long.
 */
aq_status udp_am_long(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                      const struct aqi_rmem *rmem, const struct aqi_mem *mem, struct aqi_comp *comp)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    struct aqi_am header = *am;
    struct udp_head head;
    const void *src = am->payload;
    void *user = comp, *copy = NULL;
    (void)rmem, (void)mem;
    bool packed = udp_rma_packs(udp, am->nbytes);
    aqi_am_set_kind(&header, packed ? AQI_AM_LONG_PACKED : AQI_AM_LONG_HEADER);
    if (packed || am->nbytes == 0) return udp_am_send(tp, peer, &header, comp);
    size_t len = udp_am_head(udp, &header, &head);
    if (comp == NULL && am->nbytes > AQI_DGRAM_COPIED) {
        copy = malloc(am->nbytes);
        if (copy == NULL)
            return aqi_fail(AQ_ENOMEM, "udp", "no memory to queue a Long of %u bytes", am->nbytes);
        src = memcpy(copy, src, am->nbytes);
        user = (void *)((uintptr_t)copy | COPY_BIT);
    } else {
        aqi_touch_read(src, am->nbytes);
    }
    udp_lock(udp);
    aq_status st = udp_rma_begun(udp, aqi_dgram_put(udp->dgram, peer->id, am->addr, src, am->nbytes,
                                                    (am->flags & AQI_AM_IS_REPLY) != 0, head.bytes,
                                                    len, user));
    if (st != AQ_OK) free(copy);
    return st;
}

aq_status udp_mem_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **out)
{
    struct aqi_mem *mem = malloc(sizeof(*mem));
    (void)tp;
    if (mem == NULL) return AQ_ENOMEM;
    *mem = (struct aqi_mem){.addr = addr, .len = len, .key = udp_key, .key_len = UDP_KEY};
    *out = mem;
    return AQ_OK;
}

void udp_mem_dereg(struct aqi_tp *tp, struct aqi_mem *mem)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    udp_lock(udp);
    /* The memory being touched may be this, as the source of a peer's get. */
    while (udp->touching && !pthread_equal(udp->toucher, pthread_self())) {
        udp_unlock(udp);
        sched_yield();
        udp_lock(udp);
    }
    aqi_dgram_forget(udp->dgram, mem->addr, mem->len);
    udp_unlock(udp);
    free(mem);
}

aq_status udp_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **out)
{
    (void)tp;
    if (key_len != UDP_KEY || memcmp(key, udp_key, UDP_KEY) != 0)
        return aqi_fail(AQ_EPROTO, "udp", "peer %u sent a malformed memory key", peer->id);
    struct aqi_rmem *rmem = malloc(sizeof(*rmem));
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, "udp", "no memory to map memory");
    *rmem = (struct aqi_rmem){.addr = addr, .len = len};
    *out = rmem;
    return AQ_OK;
}

void udp_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem)
{
    (void)tp;
    free(rmem);
}
