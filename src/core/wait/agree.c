/* Agreement among the surviving ranks, after deaths, on what to do next. */
#include "core/wait/wait.h"

#include <string.h>

/* Lies on the stack of the waiting thread. */
struct agreement {
    struct agreement *next;
    uint64_t name[2];
    uint8_t *living; /* a set; receives the answer */
    aq_status status;
    _Atomic uint32_t open; /* 0: answered */
};

static struct {
    struct aqi_spin lock;
    struct agreement *asked;
} agreements;

static void agree_forget(struct agreement *mine)
{
    aqi_spin_lock(&agreements.lock);
    struct agreement **at = &agreements.asked;
    while (*at != mine)
        at = &(*at)->next;
    *at = mine->next;
    aqi_spin_unlock(&agreements.lock);
}

void aqi_core_agreed(const uint64_t name[2], aq_status status, const uint8_t *living)
{
    aqi_spin_lock(&agreements.lock);
    for (struct agreement *each = agreements.asked; each != NULL; each = each->next) {
        if (each->name[0] != name[0] || each->name[1] != name[1]) continue;
        each->status = status;
        memcpy(each->living, living, core_set_bytes());
        /* Pairs with the acquire in core_wait_zero. */
        atomic_store_explicit(&each->open, 0, memory_order_release);
    }
    aqi_spin_unlock(&agreements.lock);
}

aq_status core_agree(uint64_t what, uint64_t which, aq_status mine, const uint8_t *members,
                     uint8_t *living)
{
    struct agreement ask = {.name = {what, which}, .living = living, .open = 1};
    aqi_spin_lock(&agreements.lock);
    ask.next = agreements.asked;
    agreements.asked = &ask;
    aqi_spin_unlock(&agreements.lock);
    aq_status st = core.boot.agree(core.boot.arg, ask.name, mine, members);
    if (st == AQ_OK) {
        core_wait_zero(&ask.open);
        st = ask.status;
    }
    agree_forget(&ask);
    return st;
}
