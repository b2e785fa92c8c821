/* Part of the fault decorator: lets later messages overtake others. */
#ifndef AQI_FAULT_SWAP_H
#define AQI_FAULT_SWAP_H

#include "base/spin.h"
#include "transport/transport.h"

struct fault_swapped;

struct fault_swap {
    struct aqi_spin lock;
    struct fault_swapped *first, **end;
    _Atomic uint32_t count;
};

void fault_swap_init(struct fault_swap *swap);
/* Keep a copy of a message, to be sent later. AQ_ENOMEM: not kept. */
aq_status fault_swap_keep(struct fault_swap *swap, struct aqi_peer *peer, const struct aqi_am *am);
/* Another message has overtaken the kept ones, or time has passed: send them with `own`. */
unsigned fault_swap_send(struct fault_swap *swap, struct aqi_tp *tp,
                         const struct aqi_transport *own);
/* Drop messages for this peer; NULL: all. */
void fault_swap_drop(struct fault_swap *swap, const struct aqi_peer *peer);

static inline bool fault_swap_holds(const struct fault_swap *swap)
{
    return atomic_load_explicit(&swap->count, memory_order_relaxed) != 0;
}

#endif
