/* Part of the fault decorator: lets later messages overtake others. */
#include "transport/layers/fault_swap.h"

#include <stdlib.h>

struct fault_swapped {
    struct fault_swapped *next;
    struct aqi_peer *peer;
    struct aqi_am am;
    int32_t args[AQI_AM_WIRE_ARGS];
    alignas(16) unsigned char payload[];
};

void fault_swap_init(struct fault_swap *swap)
{
    swap->end = &swap->first;
}

static void fault_swap_append(struct fault_swap *swap, struct fault_swapped *one)
{
    one->next = NULL;
    *swap->end = one;
    swap->end = &one->next;
    atomic_fetch_add(&swap->count, 1);
}

aq_status fault_swap_keep(struct fault_swap *swap, struct aqi_peer *peer, const struct aqi_am *am)
{
    size_t nbytes = aqi_am_payload(am);
    struct fault_swapped *one =
        aligned_alloc(16, aqi_round_up(sizeof(*one) + nbytes, alignof(struct fault_swapped)));
    if (one == NULL) return AQ_ENOMEM;
    one->peer = peer;
    aqi_am_keep(&one->am, am, one->args, one->payload);
    aqi_spin_lock(&swap->lock);
    fault_swap_append(swap, one);
    aqi_spin_unlock(&swap->lock);
    return AQ_OK;
}

static struct fault_swapped *fault_swap_take(struct fault_swap *swap)
{
    aqi_spin_lock(&swap->lock);
    struct fault_swapped *one = swap->first;
    if (one != NULL) {
        swap->first = one->next;
        if (swap->first == NULL) swap->end = &swap->first;
        atomic_fetch_sub(&swap->count, 1);
    }
    aqi_spin_unlock(&swap->lock);
    return one;
}

unsigned fault_swap_send(struct fault_swap *swap, struct aqi_tp *tp,
                         const struct aqi_transport *own)
{
    unsigned n = 0;
    for (struct fault_swapped *one; (one = fault_swap_take(swap)) != NULL; n++) {
        if (own->am_send(tp, one->peer, &one->am, NULL) == AQ_AGAIN) {
            aqi_spin_lock(&swap->lock);
            fault_swap_append(swap, one);
            aqi_spin_unlock(&swap->lock);
            return n;
        }
        free(one);
    }
    return n;
}

void fault_swap_drop(struct fault_swap *swap, const struct aqi_peer *peer)
{
    aqi_spin_lock(&swap->lock);
    struct fault_swapped **at = &swap->first, *one;
    while ((one = *at) != NULL) {
        if (peer != NULL && one->peer != peer) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        atomic_fetch_sub(&swap->count, 1);
        free(one);
    }
    swap->end = at;
    aqi_spin_unlock(&swap->lock);
}
